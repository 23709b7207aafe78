//! The shapes of programs that other caches of compiled functions get wrong: captures, functions as values, partials,
//! methods, options, environments.

use super::support::{Run, Work};

/// A program that is written, run, and run again.
fn twice(files: &[(&str, &str)], expected: &str) -> (Work, Run) {
    let work = Work::new("shape");
    for (name, text) in files {
        work.write(name, text);
    }
    let cold = work.run();
    cold.check_output(expected).unwrap();
    let warm = work.run();
    warm.check_output(expected).unwrap();
    assert!(warm.made().is_empty(), "{:?}", warm.made());
    (work, cold)
}

/// Closures of one name with different captures are different code, and equal captures share it.
///
/// Mutants: the captured value left out of the digest; captured functions left out.
#[test]
fn closures_are_told_apart_by_what_they_capture() {
    let text = "\
from numba import njit


def make(k):
    @njit
    def inner(x):
        return x + k

    return inner


@njit
def twice(x):
    return x * 2


def around(f, k):
    @njit
    def inner(x):
        return f(x) - k

    return inner


a, b, c = make(1), make(2), make(1)
d, e = around(twice, 3), around(a, 3)
print(a(10), b(10), c(10), d(10), e(10))
";
    let (_, cold) = twice(&[("main.py", text)], "11 12 11 17 8\n");
    let origin = |ordinal: u64| {
        let mut units = cold.units.iter();
        let unit = units.find(|unit| unit.name == "main.py:inner" && unit.ordinal == ordinal);
        unit.unwrap().origin.clone()
    };
    assert_eq!([origin(1), origin(2)], ["made", "made"]);
    assert_ne!(origin(3), "made", "the third captures what the first does");
}

/// One kernel called with two functions of one type calls the right one, in every order and in every process.
#[test]
fn a_function_argument_is_the_one_that_is_called() {
    let text = |calls: &str| {
        format!(
            "\
from numba import njit


@njit
def halve(x):
    return x // 2


@njit
def negate(x):
    return -x


@njit
def apply(f, x):
    return f(x) + 1


{calls}
"
        )
    };
    let work = Work::new("order");
    for (calls, expected) in [
        ("print(apply(halve, 8), apply(negate, 8))", "5 -7\n"),
        ("print(apply(negate, 8), apply(halve, 8))", "-7 5\n"),
        ("print(apply(negate, 8))", "-7\n"),
        ("print(apply(halve, 8))", "5\n"),
        ("print(apply(halve, 8), apply(negate, 8), apply(halve, 6))", "5 -7 4\n"),
    ] {
        work.write("main.py", &text(calls));
        for _ in 0..2 {
            work.run().check_output(expected).unwrap();
        }
    }
}

/// Functions of one name are different arguments if they do something else: of one process, and of two after an edit.
///
/// Kills: functions left out of the digest of types.
#[test]
fn functions_of_one_name_are_different_arguments() {
    let text = |step: i64| {
        format!(
            "\
from numba import njit


def adder(k):
    @njit
    def add(x):
        return x + k

    return add


@njit
def back(x):
    return x - {step}


@njit
def apply(f, x):
    return f(x) * 2


print(apply(back, 10), apply(adder(1), 10), apply(adder(2), 10))
"
        )
    };
    let (work, _) = twice(&[("main.py", &text(1))], "18 22 24\n");
    work.write("main.py", &text(2));
    work.run().check_output("16 22 24\n").unwrap();
}

/// Functions at the same place of two files are told apart by what the files hold, also when every file is as it was.
///
/// Kills: a file's text left out of its place.
#[test]
fn one_place_in_two_files_is_two_places() {
    let module =
        |k: i64| format!("from numba import njit\n\n\n@njit\ndef f(x):\n    return x + {k}\n");
    let main = "import a\nimport b\n\nprint(a.f(10), b.f(10))\n";
    let (a, b) = (module(1), module(2));
    let (_, cold) = twice(&[("a.py", &a), ("b.py", &b), ("main.py", main)], "11 12\n");
    assert_eq!(cold.made().len(), 2, "{:?}", cold.units);
}

/// A partial that is bound twice shares one compiled body.
#[test]
fn partials_share_a_body() {
    let text = "\
from functools import partial
from numba import njit


@njit
def scale(k, x):
    return k * x


two, three = partial(scale, 2), partial(scale, 3)
print(two(5), three(5), two(7))
";
    let (_, cold) = twice(&[("main.py", text)], "10 15 14\n");
    assert_eq!(cold.made().len(), 1, "{:?}", cold.units);
}

/// What a global means is read when a signature is compiled, as Numba does it; a caller of a kernel that was compiled
/// before calls that one.
#[test]
fn globals_are_read_when_a_signature_is_compiled() {
    let text = "\
from numba import njit

g = 1


@njit
def f(x):
    return x + g


print(f(1))
g = 10
print(f(1), f(1.5))


@njit
def h(x):
    return f(x)


print(h(1), h(1.5), h(True))
";
    twice(&[("main.py", text)], "2\n2 11.5\n2 11.5 11\n");
}

/// Kernels that call each other in a circle are one; an edit of one of them is seen from each.
#[test]
fn a_circle_of_kernels_is_hashed_as_one() {
    let text = |step: i64| {
        format!(
            "\
from numba import njit


@njit
def even(n):
    if n == 0:
        return 1
    return odd(n - 1)


@njit
def odd(n):
    if n == 0:
        return 0
    return even(n - {step})


print(even(10), odd(7), even(7))
"
        )
    };
    let (work, _) = twice(&[("main.py", &text(1))], "1 1 0\n");
    work.write("main.py", &text(2).replace("print(even(10), odd(7), even(7))", "print(odd(2))"));
    work.run().check_output("1\n").unwrap();
    work.write("main.py", &text(1));
    let back = work.run();
    back.check_output("1 1 0\n").unwrap();
    assert!(back.made().is_empty(), "{:?}", back.made());
}

/// `cache=False` is not stored, and what calls it is.
#[test]
fn what_is_not_to_be_cached_is_not_stored() {
    let text = "\
from numba import njit


@njit(cache=False)
def fresh(x):
    return x + 1


@njit
def kept(x):
    return fresh(x) * 2


print(kept(4), fresh(1))
";
    let work = Work::new("uncached");
    work.write("main.py", text);
    for round in 0..3 {
        let run = work.run();
        run.check_output("10 2\n").unwrap();
        let made: Vec<_> = run.made().iter().map(|unit| unit.name.clone()).collect();
        match round {
            0 => assert_eq!(made.len(), 2),
            _ => assert_eq!(made, ["main.py:fresh"]),
        }
    }
}

/// An implementation is the first that an overload gives, in order of registration: turning the order round is a change.
///
/// Mutants: the overloads left out of the digest; hashed in the order of their names.
#[test]
fn the_order_of_overloads_decides() {
    let text = |first: &str, second: &str| {
        format!(
            "\
from numba import njit
from numba.extending import overload


def pick(x):
    pass


@overload(pick)
def ol_{first}(x):
    def {first}(x):
        return x + len('{first}')
    return {first}


@overload(pick)
def ol_{second}(x):
    def {second}(x):
        return x + len('{second}')
    return {second}


@njit
def call(x):
    return pick(x)


print(call(10))
"
        )
    };
    let (work, _) = twice(&[("main.py", &text("one", "three"))], "13\n");
    work.write("main.py", &text("three", "one"));
    work.run().check_output("15\n").unwrap();
    work.write("main.py", &text("one", "three"));
    let back = work.run();
    back.check_output("13\n").unwrap();
    assert!(back.made().is_empty());
}

/// Namespaces and salts do not share, and other flags of the compiler are another environment.
#[test]
fn what_must_not_be_shared_is_not() {
    let text = "from numba import njit\n\n\n@njit\ndef f(x):\n    return x + 1\n\n\nprint(f(1))\n";
    let (work, _) = twice(&[("main.py", text)], "2\n");
    for variable in ["CACHELIFT_NAMESPACE", "CACHELIFT_SALT"] {
        let other = work.run_with(&[(variable, "other")]);
        other.check_output("2\n").unwrap();
        assert_eq!(other.made().len(), 1, "{variable}");
    }
    assert!(work.run().made().is_empty());
}

/// What went missing from the cache is compiled again, whichever part it was.
#[test]
fn a_cleared_cache_is_filled_again() {
    let text = "from numba import njit\n\n\n@njit\ndef f(x):\n    return x + 1\n\n\nprint(f(1))\n";
    let (work, _) = twice(&[("main.py", text)], "2\n");
    std::fs::remove_dir_all(work.cache()).unwrap();
    let again = work.run();
    again.check_output("2\n").unwrap();
    assert_eq!(again.made().len(), 1);
}

/// The loop of a ufunc does what a call per element does: for what is repeated, turned, cast, strided or overlaps, for
/// bodies that branch, call and raise, and for folds.
#[test]
fn ufuncs_loop_over_any_arrays() {
    let text = "\
import numpy as np
from numba import float64, int64, njit, vectorize


@njit
def half(x):
    return x / 2


@vectorize([int64(int64, int64), float64(float64, float64)])
def mix(x, y):
    if x > y:
        return x - y
    return x * 2 + y


@vectorize([float64(float64)])
def halved(x):
    return half(x) + 1


@vectorize([int64(int64, int64)])
def ratio(x, y):
    if y == 0:
        raise ValueError('no ratio')
    return x // y


@vectorize([int64(int64, int64)])
def plus(x, y):
    return x + y


@vectorize([float64(int64, int64)])
def mean(x, y):
    return (x + y) / 2


a = np.arange(12).reshape(3, 4)
print(mix(a, 5))
print(mix(a.T, np.array([3, 1, 2])))
print(mix(a, np.array([[0.5], [4.5], [9.5]])))
print(mix(3, 4), mix(2.5, 1))
print(halved(np.arange(5)))
print(halved(np.arange(10.0)[::3]))
out = np.zeros((3, 4))
print(mix(a, a, out), out[2, 3])
line = np.arange(8)
print(plus(line[:-1], line[1:], line[1:]))
print(line)
same = np.arange(4)
plus(same, same, same)
print(same)
try:
    ratio(a, np.array([1, 2, 0, 3]))
except ValueError as error:
    print(error)
print(plus.reduce(a), plus.reduce(a, axis=1), plus.reduce(np.arange(5), axis=None))
print(plus.accumulate(a, axis=1))
print(plus.accumulate(np.arange(6)[::-1]))
print(mean(line, 2), plus.reduce(np.array([7])))
print(plus.outer(np.arange(3), np.arange(2)))
print(plus(np.zeros((0, 3), dtype=np.int64), 1).shape)
";
    twice(&[("main.py", text)], include_str!("../fixtures/ufunc_loops.txt"));
}
