//! Programs of small kernels, one for each rule of the language that was once broken here. `language.txt` and
//! `errors_and_text.txt` are what CPython with Numba 0.65.1 prints for them.

use super::support::Work;

/// Recursion in a conditional expression, arrays that are unpacked, the program's own exceptions, `out=`, arrays that
/// `prange` reduces into, keywords and axes of NumPy's functions, the order of equal items, ufuncs of lists and of nothing.
///
/// Kills: `out=` dropped.
#[test]
fn kernels_print_what_numba_prints() {
    check("language", include_str!("language.py"), include_str!("language.txt"));
}

/// Errors that kernels catch, f-strings, index arrays among other indices, `gcd` and `lcm` of arrays.
/// What an error leaves behind is a test of `kernel::lower::tests`, what a handler sees the next one.
#[test]
fn errors_are_caught_and_text_is_made() {
    check("caught", include_str!("errors_and_text.py"), include_str!("errors_and_text.txt"));
}

/// A handler sees what variables hold wherever the body may have stopped, also those that the body sets first.
///
/// Kills: the handler's variables as they were before the body.
#[test]
fn handlers_see_what_the_body_set() {
    let program = "\
from numba import njit


@njit
def first_set_inside(x):
    try:
        y = 2
        if x == 0:
            raise ValueError('n')
        y = 3
    except Exception:
        return y
    return y + 10


print(first_set_inside(0), first_set_inside(1))
";
    check("handlers", program, "2 13\n");
}

fn check(name: &str, program: &str, expected: &str) {
    let work = Work::new(name);
    work.write("main.py", program);
    work.run().check_output(expected).unwrap();
    let warm = work.run();
    warm.check_output(expected).unwrap();
    assert!(warm.made().is_empty(), "{:?}", warm.made());
}
