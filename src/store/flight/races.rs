//! The races of single flight: one body, run on threads, under shuttle and under loom.
//!
//! What every body asserts, through [`Shelf`]: no key is made by two at once, none again after it was
//! published, every caller gets the published value, and in the end no cell and no byte is taken. Loom and
//! shuttle notice if somebody waits for ever.
//!
//! `mod faults` plants wrong changes that are seen. Seen by hand besides: the leader wakes its followers
//! before it sets the state, an abandoned or a finished cell stays in the table, `claim` always makes a
//! leader, `lead` looks up before it asks for the lease instead of after, a lease is never given back,
//! `get_many` does not ask for leases, a follower of an abandoned cell goes on waiting.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::fake::{Process, Shelf, StillClock, World, among_processes, among_threads, key};
use super::{Got, SingleFlight, Tiers};
use crate::race::check;
use crate::store::Origin::{self, Disk, Made, Waited};
use crate::sync::{Arc, thread};

type Flight = Arc<SingleFlight<u32, Arc<Process>, StillClock>>;

/// How a caller came by the value; an error is its own maker's.
type Came = Result<Origin, &'static str>;

const FAILED: Came = Err("failed");
const PANICKED: Came = Err("panicked");

fn works(shelf: &Shelf) -> Result<u32, &'static str> {
    shelf.make_with(&key(1), || Ok(7))
}

fn fails(shelf: &Shelf) -> Result<u32, &'static str> {
    shelf.make_with(&key(1), || Err("failed"))
}

fn panics(shelf: &Shelf) -> Result<u32, &'static str> {
    shelf.make_with(&key(1), || resume_unwind(Box::new(PANICKED)))
}

/// Starts a caller with this maker.
fn call(
    flight: &Flight,
    shelf: &Arc<Shelf>,
    make: impl FnOnce(&Shelf) -> Result<u32, &'static str> + Send + 'static,
) -> thread::JoinHandle<Came> {
    let (flight, shelf) = (flight.clone(), shelf.clone());
    thread::spawn(move || {
        let get = || flight.get(&key(1), &*shelf, || make(&shelf));
        let got = match catch_unwind(AssertUnwindSafe(get)) {
            Ok(got) => got?,
            // An assertion's panic is no outcome.
            Err(panic) => {
                return *panic.downcast::<Came>().unwrap_or_else(|panic| resume_unwind(panic));
            }
        };
        assert_eq!((got.value, got.duplicate), (7, None));
        assert_eq!(shelf.lookup(&key(1)), Some((7, Disk)), "what was got is there");
        Ok(got.origin)
    })
}

fn threads() -> Flight {
    Arc::new(among_threads(StillClock::new()))
}

fn process(world: &Arc<World>, id: u32) -> Flight {
    Arc::new(among_processes(&Process::new(world, id), StillClock::new()))
}

/// Of two callers that are alike, one makes the value and the other waits or finds it.
const ONE_MAKES: [(Came, Came); 4] =
    [(Ok(Made), Ok(Waited)), (Ok(Made), Ok(Disk)), (Ok(Waited), Ok(Made)), (Ok(Disk), Ok(Made))];

fn two_threads() -> (Came, Came) {
    let (flight, shelf) = (threads(), Shelf::new());
    let callers = [call(&flight, &shelf, works), call(&flight, &shelf, works)];
    let came = callers.map(|caller| caller.join().unwrap());
    assert_eq!(flight.cells.len(), 0);
    came.into()
}

/// How the failing caller came by the value, and whether one of the others waited for it.
fn failing_and_two() -> (Came, bool) {
    let (flight, shelf) = (threads(), Shelf::new());
    let failing = call(&flight, &shelf, fails);
    let callers = [call(&flight, &shelf, works), call(&flight, &shelf, works)];
    let failed = failing.join().unwrap();
    let came = callers.map(|caller| caller.join().unwrap());
    assert_eq!(flight.cells.len(), 0);
    assert_eq!(came.iter().filter(|came| **came == Ok(Made)).count(), 1);
    (failed, came.contains(&Ok(Waited)))
}

const FAILS: [(Came, bool); 6] = [
    (Ok(Waited), true),
    (Ok(Waited), false),
    (Ok(Disk), true),
    (Ok(Disk), false),
    (FAILED, true),
    (FAILED, false),
];

fn panicking_and_one() -> (Came, Came) {
    let (flight, shelf) = (threads(), Shelf::new());
    let callers = [call(&flight, &shelf, panics), call(&flight, &shelf, works)];
    let came = callers.map(|caller| caller.join().unwrap());
    assert_eq!(flight.cells.len(), 0);
    came.into()
}

const PANICS: [(Came, Came); 3] =
    [(Ok(Waited), Ok(Made)), (Ok(Disk), Ok(Made)), (PANICKED, Ok(Made))];

fn two_processes() -> (Came, Came) {
    let (world, shelf) = (World::new(), Shelf::new());
    let processes = [process(&world, 1), process(&world, 2)];
    let callers = [call(&processes[0], &shelf, works), call(&processes[1], &shelf, works)];
    let came = callers.map(|caller| caller.join().unwrap());
    assert_eq!(world.locked(), 0);
    came.into()
}

/// The caller publishes only when it has finished.
#[cfg(any(loom, shuttle))]
fn late_publishers() -> (Came, Came) {
    let (flight, shelf) = (threads(), Shelf::new());
    let start = || {
        let (flight, shelf) = (flight.clone(), shelf.clone());
        thread::spawn(move || {
            let got = flight.get(&key(1), &*shelf, || Ok::<_, &'static str>(7))?;
            if got.origin == Made {
                shelf.make(&key(1), 7);
            }
            Ok(got.origin)
        })
    };
    [start(), start()].map(|caller| caller.join().unwrap()).into()
}

/// The first process is killed while it makes the key.
fn killed_and_one() -> (Came, Came) {
    let (world, shelf) = (World::new(), Shelf::new());
    let processes = [process(&world, 1), process(&world, 2)];
    let dies = {
        let world = world.clone();
        move |_: &Shelf| {
            world.kill(1);
            Err("failed")
        }
    };
    let callers = [call(&processes[0], &shelf, dies), call(&processes[1], &shelf, works)];
    let came = callers.map(|caller| caller.join().unwrap());
    assert_eq!(world.locked(), 0);
    came.into()
}

const DIES: [(Came, Came); 3] = [(Ok(Waited), Ok(Made)), (Ok(Disk), Ok(Made)), (FAILED, Ok(Made))];

/// How many of three callers, two of them in one process, made, found and waited for the value.
fn two_threads_and_a_process() -> [usize; 3] {
    let (world, shelf) = (World::new(), Shelf::new());
    let processes = [process(&world, 1), process(&world, 2)];
    let callers = [
        call(&processes[0], &shelf, works),
        call(&processes[0], &shelf, works),
        call(&processes[1], &shelf, works),
    ];
    let came = callers.map(|caller| caller.join().unwrap());
    assert_eq!((world.locked(), processes[0].cells.len()), (0, 0));
    [Made, Disk, Waited].map(|origin| came.iter().filter(|came| **came == Ok(origin)).count())
}

const THREE: [[usize; 3]; 3] = [[1, 2, 0], [1, 1, 1], [1, 0, 2]];

/// How many of two keys the first process made, and whether anything was waited for.
fn many_in_two_processes() -> (usize, bool) {
    let (world, shelf) = (World::new(), Shelf::new());
    let start = |id| {
        let (flight, shelf) = (process(&world, id), shelf.clone());
        thread::spawn(move || {
            let keys = [key(1), key(2)];
            let make = |at: usize| Ok::<_, ()>(shelf.make(&keys[at], 7));
            flight.get_many(&keys, &*shelf, make).into_iter().map(Result::unwrap).collect()
        })
    };
    let processes: [thread::JoinHandle<Vec<Got<u32>>>; 2] = [start(1), start(2)];
    let got = processes.map(|process| process.join().unwrap());
    assert_eq!(world.locked(), 0);
    assert!(got.iter().flatten().all(|got| got.duplicate.is_none()));
    let made = got.each_ref().map(|got| got.iter().filter(|got| got.origin == Made).count());
    assert_eq!(made[0] + made[1], 2);
    (made[0], got.iter().flatten().any(|got| got.origin == Waited))
}

const MANY: [(usize, bool); 6] =
    [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)];

/// Two threads each make a key that needs the other's. Says how many keys they made twice.
fn circle() -> usize {
    let (flight, shelf) = (threads(), Shelf::new());
    shelf.lenient();
    let start = |outer, inner| {
        let (flight, shelf) = (flight.clone(), shelf.clone());
        thread::spawn(move || {
            let get = |at, make: &dyn Fn() -> u32| {
                let work = || Ok::<_, ()>(make());
                flight.get(&key(at), &*shelf, || shelf.make_with(&key(at), work)).unwrap()
            };
            let twice = std::cell::Cell::new(false);
            get(outer, &|| {
                twice.set(get(inner, &|| 7).duplicate.is_some());
                7
            });
            twice.get()
        })
    };
    let threads = [start(1, 2), start(2, 1)];
    let twice = threads.map(|thread| usize::from(thread.join().unwrap()));
    assert_eq!(flight.cells.len(), 0);
    twice[0] + twice[1]
}

const CIRCLE: [usize; 3] = [0, 1, 2];

#[test]
fn one_of_two_threads_makes_it() {
    check("one of two threads", ONE_MAKES, two_threads);
}

#[test]
fn a_maker_that_fails_is_replaced() {
    check("a maker that fails", FAILS, failing_and_two);
}

#[test]
fn a_maker_that_panics_is_replaced() {
    check("a maker that panics", PANICS, panicking_and_one);
}

#[test]
fn one_of_two_processes_makes_it() {
    check("one of two processes", ONE_MAKES, two_processes);
}

#[test]
fn a_process_that_is_killed_is_replaced() {
    check("a process that is killed", DIES, killed_and_one);
}

#[test]
fn one_thread_of_two_processes_makes_it() {
    check("one of two threads and a process", THREE, two_threads_and_a_process);
}

#[test]
fn each_of_many_keys_is_made_by_one_process() {
    check("many keys in two processes", MANY, many_in_two_processes);
}

#[test]
fn nested_makers_do_not_wait_in_a_circle() {
    check("nested makers", CIRCLE, circle);
}

/// Each fault must be seen.
#[cfg(any(loom, shuttle))]
mod faults {
    use super::super::cell::faults as cell;
    use super::super::faults::*;
    use super::*;
    use crate::race::{Fault, reject};

    // Loom sees these two as well, but its report of a deadlock ends the test's process.
    #[cfg(not(loom))]
    #[test]
    fn silent() {
        reject(cell::SILENT, ONE_MAKES, two_threads);
        reject(cell::SILENT, PANICS, panicking_and_one);
    }

    #[cfg(not(loom))]
    #[test]
    fn nested_wait() {
        reject(NESTED_WAIT, CIRCLE, circle);
    }

    #[test]
    fn removes_twice() {
        reject(cell::REMOVES_TWICE, FAILS, failing_and_two);
    }

    #[test]
    fn no_second_look() {
        reject(NO_SECOND_LOOK, ONE_MAKES, two_threads);
        reject(NO_SECOND_LOOK, ONE_MAKES, two_processes);
        reject(NO_SECOND_LOOK, MANY, many_in_two_processes);
    }

    #[test]
    fn early_return() {
        reject(EARLY_RETURN, ONE_MAKES, two_processes);
        reject(EARLY_RETURN, MANY, many_in_two_processes);
    }

    #[test]
    fn late_publish() {
        reject(Fault("a value is published after the leader finished"), ONE_MAKES, late_publishers);
    }
}
