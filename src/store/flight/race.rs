//! The races of single flight: one body, run on threads, under shuttle and under loom.
//!
//! What every body asserts, through [`Shelf`]: no key is made by two at once, none again after it was
//! published, every caller gets the published value, and in the end no cell and no byte is taken. Loom and
//! shuttle notice if somebody waits for ever.
//!
//! Mutants, and what kills them:
//!
//! | change | killed by |
//! |---|---|
//! | `Leader::drop` does not notify | `two_threads` |
//! | `Leader::drop` notifies before it sets the state | `two_threads` |
//! | `Leader::drop` takes a cell off by key, once more after it notified | `a_maker_that_fails` |
//! | `Leader::drop` leaves the cell in the table if it was abandoned | `a_maker_that_fails` |
//! | `get` finishes before it publishes: `finish` before `make` | `two_threads` |
//! | `make` does not look up again | `two_threads`, `two_processes` |
//! | `make` gives back the permit before it makes | `two_processes` |
//! | `claim` always makes a leader | `two_threads` |
//! | `lead` looks up again, but before it has the lease | `two_processes` |

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::fake::{Process, Shelf, StillClock, World, among_processes, among_threads, key};
use super::{SingleFlight, Tiers};
use crate::store::Origin::{self, Disk, Made, Waited};
use crate::sync::{Arc, thread};
use crate::testing::explore;

type Flight = Arc<SingleFlight<u32, Process, StillClock>>;

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

#[test]
fn two_threads() {
    let expected = [
        (Ok(Made), Ok(Waited)),
        (Ok(Made), Ok(Disk)),
        (Ok(Waited), Ok(Made)),
        (Ok(Disk), Ok(Made)),
    ];
    explore("two threads", expected, || {
        let (flight, shelf) = (threads(), Shelf::new());
        let callers = [call(&flight, &shelf, works), call(&flight, &shelf, works)];
        let came = callers.map(|caller| caller.join().unwrap());
        assert_eq!(flight.cells.len(), 0);
        came.into()
    });
}

#[test]
fn a_maker_that_fails() {
    // How the failing one came by the value, and whether one of the others waited for it.
    let firsts: [Came; 3] = [Ok(Waited), Ok(Disk), FAILED];
    let expected = firsts.into_iter().flat_map(|first| [(first, true), (first, false)]);
    explore("a maker that fails", expected, || {
        let (flight, shelf) = (threads(), Shelf::new());
        let failing = call(&flight, &shelf, fails);
        let callers = [call(&flight, &shelf, works), call(&flight, &shelf, works)];
        let failed = failing.join().unwrap();
        let came = callers.map(|caller| caller.join().unwrap());
        assert_eq!(flight.cells.len(), 0);
        assert_eq!(came.iter().filter(|came| **came == Ok(Made)).count(), 1);
        (failed, came.contains(&Ok(Waited)))
    });
}

#[test]
fn a_maker_that_panics() {
    let expected = [Ok(Waited), Ok(Disk), PANICKED].map(|first| (first, Ok(Made)));
    explore("a maker that panics", expected, || {
        let (flight, shelf) = (threads(), Shelf::new());
        let callers = [call(&flight, &shelf, panics), call(&flight, &shelf, works)];
        let came = callers.map(|caller| caller.join().unwrap());
        assert_eq!(flight.cells.len(), 0);
        came.into()
    });
}

#[test]
fn two_processes() {
    let expected = [
        (Ok(Made), Ok(Waited)),
        (Ok(Made), Ok(Disk)),
        (Ok(Waited), Ok(Made)),
        (Ok(Disk), Ok(Made)),
    ];
    explore("two processes", expected, || {
        let (world, shelf) = (World::new(), Shelf::new());
        let processes = [process(&world, 1), process(&world, 2)];
        let callers = [call(&processes[0], &shelf, works), call(&processes[1], &shelf, works)];
        let came = callers.map(|caller| caller.join().unwrap());
        assert_eq!(world.locked(), 0);
        came.into()
    });
}

#[test]
fn a_process_that_is_killed() {
    let expected = [Ok(Waited), Ok(Disk), FAILED].map(|first| (first, Ok(Made)));
    explore("a process that is killed", expected, || {
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
    });
}

#[test]
fn two_threads_and_a_process() {
    // How often the value was made, found and waited for.
    let expected = [(1, 2, 0), (1, 1, 1), (1, 0, 2)];
    explore("two threads and a process", expected, || {
        let (world, shelf) = (World::new(), Shelf::new());
        let processes = [process(&world, 1), process(&world, 2)];
        let callers = [
            call(&processes[0], &shelf, works),
            call(&processes[0], &shelf, works),
            call(&processes[1], &shelf, works),
        ];
        let came = callers.map(|caller| caller.join().unwrap());
        assert_eq!((world.locked(), processes[0].cells.len()), (0, 0));
        let count = |origin| came.iter().filter(|came| **came == Ok(origin)).count();
        (count(Made), count(Disk), count(Waited))
    });
}

#[test]
fn many_keys_in_two_processes() {
    // How many of the two keys the first process made, and whether anything was waited for.
    let expected = [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)];
    explore("many keys in two processes", expected, || {
        let (world, shelf) = (World::new(), Shelf::new());
        let start = |id| {
            let (flight, shelf) = (process(&world, id), shelf.clone());
            thread::spawn(move || {
                let keys = [key(1), key(2)];
                let make = |at: usize| Ok::<_, ()>(shelf.make(&keys[at], 7));
                flight.get_many(&keys, &*shelf, make).into_iter().map(Result::unwrap).collect()
            })
        };
        let processes: [thread::JoinHandle<Vec<super::Got<u32>>>; 2] = [start(1), start(2)];
        let got = processes.map(|process| process.join().unwrap());
        assert_eq!(world.locked(), 0);
        assert!(got.iter().flatten().all(|got| got.duplicate.is_none()));
        let made = got.each_ref().map(|got| got.iter().filter(|got| got.origin == Made).count());
        assert_eq!(made[0] + made[1], 2);
        (made[0], got.iter().flatten().any(|got| got.origin == Waited))
    });
}

#[test]
fn nested_makers_do_not_wait_in_a_circle() {
    // Of the two inner keys, how many were made twice.
    explore("nested makers", [0, 1, 2], || {
        let (flight, shelf) = (threads(), Shelf::new());
        shelf.lenient();
        let start = |outer, inner| {
            let (flight, shelf): (Flight, Arc<Shelf>) = (flight.clone(), shelf.clone());
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
    });
}
