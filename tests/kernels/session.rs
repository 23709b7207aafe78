//! Programs in this process: handles, views, hot reload, and what a session need not do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cachelift::code::{Engine, Target};
use cachelift::config::Config;
use cachelift::kernel::value::Value;
use cachelift::kernel::{Question, Session};
use cachelift::store::{Origin, Store};
use ndarray::{Array1, Array2};

use super::support::Work;

fn store(work: &Work) -> Store {
    Store::open(Config::default().dir(work.cache()))
}

fn session(work: &Work) -> Session {
    Session::new(store(work)).unwrap()
}

/// Writes the entry.
fn write(work: &Work, text: &str) {
    work.write("main.py", text);
}

const SHAPES: &str = "\
from numba import njit


@njit
def area(a, b):
    return a * b


@njit
def careful(n):
    if n < 0:
        raise ValueError('negative')
    return n + 1


@njit
def fill(out, x):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x * i + j
    return out[1:]


@njit
def mean(a):
    return a.sum() / len(a)
";

/// A typed handle is a kernel of one signature; what it raises is an error of the call.
#[test]
fn typed_handles_call_kernels() {
    let work = Work::new("typed");
    write(&work, SHAPES);
    let mut session = session(&work);
    session.load(work.folder.join("main.py")).unwrap();
    let floats = session.typed::<fn(f64, f64) -> f64>("area").unwrap();
    let mixed = session.typed::<fn(i64, f64) -> f64>("area").unwrap();
    assert_eq!(floats.call(1.5, 4.0).unwrap(), 6.0);
    assert_eq!(mixed.call(3, 0.5).unwrap(), 1.5);
    assert_eq!(mixed.spelled(), "(int64, float64) -> float64");
    let careful = session.typed::<fn(i64) -> i64>("careful").unwrap();
    assert_eq!(careful.call(1).unwrap(), 2);
    let error = careful.call(-1).unwrap_err();
    assert_eq!((error.class.as_str(), error.text()), ("ValueError", Some("negative")));
    assert!(session.typed::<fn(i64) -> f64>("careful").is_err(), "it returns an int64");
    assert!(session.typed::<fn(i64) -> i64>("nothing").is_err());
    let answers = thread::scope(|scope| {
        let handle = floats.clone();
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let handle = handle.clone();
                scope.spawn(move || handle.call(f64::from(n), 2.0).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(answers, [0.0, 2.0, 4.0, 6.0]);
}

/// Arrays of this process are read and written where they lie, whatever their strides.
#[test]
fn views_are_not_copied() {
    let work = Work::new("views");
    write(&work, SHAPES);
    let mut session = session(&work);
    session.load(work.folder.join("main.py")).unwrap();
    let fill = session.function("fill").unwrap();
    let mut out = Array2::<f64>::zeros((3, 2));
    let tail = fill.call_with(&mut [(&mut out).into(), 10.0.into()]).unwrap();
    assert_eq!(out, ndarray::array![[0.0, 1.0], [10.0, 11.0], [20.0, 21.0]]);
    out.fill(0.0);
    // What is returned is its own.
    let Value::Array(tail) = tail else { panic!("{tail:?}") };
    assert_eq!(tail.to_vec::<f64>(), [10.0, 11.0, 20.0, 21.0]);
    let mut turned = Array2::<i64>::zeros((2, 3));
    fill.call_with(&mut [turned.view_mut().reversed_axes().into(), 1.0.into()]).unwrap();
    assert_eq!(turned, ndarray::array![[0, 1, 2], [1, 2, 3]]);
    let values = Array1::from(vec![1.0, 2.0, 6.0]);
    let mean = session.function("mean").unwrap();
    let result = mean.call_with(&mut [values.view().into()]).unwrap();
    assert!(matches!(result, Value::Float(3.0)), "{result:?}");
    let result = session.function("area").unwrap().call(&[Value::Int(3), Value::Int(4)]).unwrap();
    assert!(matches!(result, Value::Int(12)), "{result:?}");
}

/// A module that is known is not run for a kernel that is: the direct question answers for its handle.
#[test]
fn a_known_module_need_not_run() {
    let work = Work::new("known");
    write(&work, SHAPES);
    let area = |session: &mut Session| {
        session.load(work.folder.join("main.py")).unwrap();
        let area = session.typed::<fn(i64, i64) -> i64>("area").unwrap();
        assert_eq!(area.call(6, 7).unwrap(), 42);
        let used = session.used();
        assert_eq!(used.len(), 1);
        (used[0].question, used[0].origin)
    };
    assert_eq!(area(&mut session(&work)), (Question::Unit, Origin::Made));
    assert_eq!(area(&mut session(&work)), (Question::Direct, Origin::Disk));
    // A signature that is not known makes the module run.
    let mut again = session(&work);
    again.load(work.folder.join("main.py")).unwrap();
    let area = again.typed::<fn(i64, f64) -> f64>("area").unwrap();
    assert_eq!(area.call(2, 0.5).unwrap(), 1.0);
    assert_eq!(again.used()[0].origin, Origin::Made);
}

/// A path at which nothing was found counts: a file that appears there is run.
///
/// Mutant: absent paths left out of a state's key.
#[test]
fn a_file_that_appears_changes_what_is_known() {
    let work = Work::new("absent");
    write(
        &work,
        "from numba import njit\ntry:\n    from extra import K\nexcept ImportError:\n    K = 1\n\n\n@njit\ndef f(x):\n    return x + K\n",
    );
    let call = || {
        let mut session = session(&work);
        session.load(work.folder.join("main.py")).unwrap();
        session.typed::<fn(i64) -> i64>("f").unwrap().call(1).unwrap()
    };
    assert_eq!([call(), call()], [2, 2]);
    work.write("extra.py", "K = 100\n");
    assert_eq!([call(), call()], [101, 101]);
    std::fs::remove_file(work.folder.join("extra.py")).unwrap();
    assert_eq!([call(), call()], [2, 2]);
}

/// A refresh follows the files: handles call the new code, while other threads go on calling.
#[test]
fn a_refresh_swaps_the_code_under_callers() {
    let work = Work::new("refresh");
    let text =
        |k: i64| format!("from numba import njit\n\n\n@njit\ndef f(x):\n    return x * {k}\n");
    write(&work, &text(1));
    let mut session = session(&work);
    session.load(work.folder.join("main.py")).unwrap();
    let handle = session.typed::<fn(i64) -> i64>("f").unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| {
                let (handle, stop) = (handle.clone(), &stop);
                scope.spawn(move || {
                    let mut last = 1;
                    while !stop.load(Ordering::Relaxed) {
                        let now = handle.call(1).unwrap();
                        assert!(now >= last && now <= 5, "{now} after {last}");
                        last = now;
                    }
                })
            })
            .collect();
        for k in 2..=5 {
            write(&work, &text(k));
            assert!(session.refresh().unwrap());
            assert!(!session.refresh().unwrap(), "nothing has changed since");
            assert_eq!(handle.call(10).unwrap(), 10 * k);
        }
        // A text that is none leaves everything as it was.
        write(&work, "def f(:\n");
        assert!(session.refresh().is_err());
        assert_eq!(handle.call(10).unwrap(), 50);
        stop.store(true, Ordering::Relaxed);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
    write(&work, &text(1));
    assert!(session.refresh().unwrap());
    assert_eq!(handle.call(10).unwrap(), 10);
}

/// Generated text is keyed by what it says.
#[test]
fn generated_text_is_cached_by_what_it_says() {
    let work = Work::new("generated");
    let call = |name: &str, k: i64| {
        let mut session = session(&work);
        let text = format!("from numba import njit\n\n\n@njit\ndef f(x):\n    return x + {k}\n");
        session.load_source(name, &text).unwrap();
        let result = session.function("f").unwrap().call(&[Value::Int(1)]).unwrap();
        assert!(matches!(result, Value::Int(n) if n == i128::from(k) + 1), "{result:?}");
        session.used()[0].origin
    };
    assert_eq!(call("one", 5), Origin::Made);
    assert_eq!(call("two", 5), Origin::Disk);
    assert_eq!(call("one", 6), Origin::Made);
}

/// Code for other flags of the compiler is another code, for every question.
///
/// Mutant: the environment left out of the keys of plans and states.
#[test]
fn other_flags_are_another_environment() {
    let work = Work::new("flags");
    write(&work, SHAPES);
    let call = |flags: &[(&str, &str)]| {
        let target = Target::host_with(flags).unwrap();
        let mut session = Session::with_engine(Engine::new(store(&work), target));
        session.load(work.folder.join("main.py")).unwrap();
        let area = session.typed::<fn(i64, i64) -> i64>("area").unwrap();
        assert_eq!(area.call(2, 3).unwrap(), 6);
        (session.used()[0].question, session.used()[0].origin)
    };
    let plain: &[_] = &[];
    let other: &[_] = &[("opt_level", "none")];
    assert_eq!(call(plain), (Question::Unit, Origin::Made));
    assert_eq!(call(other), (Question::Unit, Origin::Made));
    assert_eq!(call(plain), (Question::Direct, Origin::Disk));
    assert_eq!(call(other), (Question::Direct, Origin::Disk));
}
