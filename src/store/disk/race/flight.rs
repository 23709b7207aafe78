//! The whole store: processes that ask for one key at once share one make of it.

use std::time::Duration;

use super::*;
use crate::config::Config;
use crate::store::record::{Draft, Origin};
use crate::store::tiers::Tiers;
use crate::sync::simulated::Clock;

fn open(fs: &SimFs) -> Tiers<SimFs> {
    let config = Config { max_size: ROOMY_SHARD, ..Config::default() };
    Tiers::open_on(fs.clone(), config.dir(dir()))
}

/// Asks for `key`; whoever makes it is alone at it.
fn ask(store: &Tiers<SimFs>, fs: &SimFs, oracle: &Oracle, key: &Key, n: u8) -> Origin {
    let (record, origin) = store
        .try_get_with(key, || {
            oracle.enter(fs, key.word(0));
            oracle.offer(key, &body(n));
            oracle.leave(fs, key.word(0));
            Ok::<_, ()>(Draft::new(body(n)))
        })
        .expect("nothing but a make can fail");
    oracle.looked_up(key, Some(record.payload()), false);
    origin
}

/// What the processes of a run got, in the order in which they got it.
type Origins = Arc<crate::sync::Mutex<Vec<Origin>>>;

fn asks(run: &Run, oracle: &Oracle, processes: u8) -> Origins {
    let origins = Origins::default();
    for n in 1..=processes {
        let (fs, oracle, origins) = (run.world().process(), oracle.clone(), origins.clone());
        let store = open(&fs);
        run.process_on(fs, move |fs| {
            let origin = ask(&store, &fs, &oracle, &key(0), n);
            origins.lock().push(origin);
            // What was made once in this process is in its memory.
            assert_eq!(ask(&store, &fs, &oracle, &key(0), n), Origin::Memory);
        });
    }
    run.join();
    origins
}

fn made(origins: &Origins) -> usize {
    origins.lock().iter().filter(|origin| **origin == Origin::Made).count()
}

/// I6: nobody dies, nothing fails: one makes it, the others wait for it or find it.
pub(super) fn two(run: &Run) {
    let origins = asks(run, &Oracle::default(), 2);
    assert_eq!(made(&origins), 1, "I6: {origins:?}");
}

pub(super) fn three(run: &Run) {
    let origins = asks(run, &Oracle::default(), 3);
    assert_eq!(made(&origins), 1, "I6: {origins:?}");
}

/// Whatever happens to one, the others get their record, soon (I7), and the cache is usable.
pub(super) fn whatever_happens(run: &Run) {
    let oracle = Oracle::default();
    asks(run, &oracle, 2);
    let fs = run.world().process();
    ask(&open(&fs), &fs, &oracle, &key(0), 9);
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

/// As [`whatever_happens`] where a process may be killed, or a step fail, but nobody has to wait out a
/// deadline: the kernel gives the dead one's lock back at once.
pub(super) fn soon(run: &Run) {
    let clock = run.world().process();
    let began = clock.now();
    whatever_happens(run);
    assert!(clock.now() - began < Duration::from_millis(100), "I7: waited for the dead");
}

/// A key is made inside the make of another: callees of one are callees of the other, the other way round.
pub(super) fn nested(run: &Run) {
    let oracle = Oracle::default();
    for (n, (outer, inner)) in [(1, (0, 1)), (2, (1, 0))] {
        let (fs, oracle) = (run.world().process(), oracle.clone());
        let store = open(&fs);
        run.process_on(fs, move |fs| {
            let made = store.try_get_with(&key(outer), || {
                oracle.offer(&key(inner), &body(n));
                store.try_get_with(&key(inner), || Ok::<_, ()>(Draft::new(body(n))))?;
                oracle.offer(&key(outer), &body(n));
                Ok::<_, ()>(Draft::new(body(n)))
            });
            oracle.looked_up(&key(outer), Some(made.expect("made").0.payload()), false);
            drop(fs);
        });
    }
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

#[test]
fn sim_flight_makes_once_in_every_order() {
    explorer("flight, two").bounded(2, two).holds();
    explorer("flight, three").bounded(1, three).holds();
    explorer("flight, three").random(500, three).holds();
}

#[test]
fn sim_flight_survives_deaths_and_stops() {
    explorer("flight, a death").kills(1, soon).holds();
    explorer("flight, a stop").stops(0, whatever_happens).holds();
}

#[test]
fn sim_flight_survives_a_failing_disk() {
    explorer("flight, an error").errors(0, whatever_happens).holds();
}

#[test]
fn sim_flight_does_not_wait_in_a_circle() {
    explorer("flight, nested").bounded(1, nested).holds();
}

#[test]
fn sim_flight_mutants() {
    explorer("flight, wrongly").mutant(Mutant::NoLocks).bounded(1, two).breaks("I");
}
