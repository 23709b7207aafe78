//! A program of small kernels, one for each rule of the language that was once broken here. `language.txt` is what CPython
//! with Numba 0.65.1 prints for it.

use super::support::Work;

/// Recursion in a conditional expression, arrays that are unpacked, the program's own exceptions, `out=`, arrays that
/// `prange` reduces into, keywords and axes of NumPy's functions, the order of equal items, ufuncs of lists and of nothing.
///
/// Kills: `out=` dropped.
#[test]
fn kernels_print_what_numba_prints() {
    let work = Work::new("language");
    work.write("main.py", include_str!("language.py"));
    let expected = include_str!("language.txt");
    work.run().check_output(expected).unwrap();
    let warm = work.run();
    warm.check_output(expected).unwrap();
    assert!(warm.made().is_empty(), "{:?}", warm.made());
}
