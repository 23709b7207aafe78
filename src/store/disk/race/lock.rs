//! Locks among processes: one holder at a time, whoever dies, stops or removes the file.

use super::*;
use crate::store::disk::lock::{CLEANING, FLIGHT, LockFile};

const BYTE: u64 = 77;

/// Takes the lock, if it is free, and is alone until it gives it back.
fn hold(cache: &Cache, lock: &LockFile<SimFs>, byte: Option<u64>) -> bool {
    let guard = match byte {
        None => lock.try_lock(),
        Some(byte) => lock.try_lock_byte(byte),
    };
    let Ok(Some(guard)) = guard else { return false };
    cache.oracle.enter(cache.fs(), byte.unwrap_or(1));
    cache.oracle.leave(cache.fs(), byte.unwrap_or(1));
    drop(guard);
    true
}

fn contend(run: &Run, name: &'static str, byte: Option<u64>) {
    let oracle = Oracle::default();
    for _ in 0..2 {
        process(run, &oracle, move |cache| {
            let lock = LockFile::new(cache.root.clone(), name);
            hold(cache, &lock, byte);
            hold(cache, &lock, byte);
        });
    }
    run.join();
    let cache = Cache::open(run.world().process(), &oracle).expect("a cache that opens");
    let lock = LockFile::new(cache.root.clone(), name);
    assert!(hold(&cache, &lock, byte), "I5: nobody is left, and the lock is not free");
}

pub(super) fn whole(run: &Run) {
    contend(run, CLEANING, None);
}

pub(super) fn byte(run: &Run) {
    contend(run, FLIGHT, Some(BYTE));
}

/// One has had the file open since before it was removed, and locks it again; another makes it anew.
pub(super) fn removed(run: &Run) {
    let oracle = Oracle::default();
    let fs = run.world().process();
    let cache = Cache::open(fs.clone(), &oracle).expect("a new cache");
    let lock = LockFile::new(cache.root.clone(), FLIGHT);
    assert!(hold(&cache, &lock, Some(BYTE)));
    run.world().machine(|machine| machine.remove_tree(&format!("{}/{SPACE}/{FLIGHT}", dir())));
    run.process_on(fs, move |_| {
        hold(&cache, &lock, Some(BYTE));
    });
    process(run, &oracle, |cache| {
        let lock = LockFile::new(cache.root.clone(), FLIGHT);
        hold(cache, &lock, Some(BYTE));
    });
    run.join();
}

#[test]
fn sim_locks_exclude_in_every_order() {
    explorer("lock a file").all(whole).holds();
    explorer("lock a byte").all(byte).holds();
    explorer("lock a byte of a removed file").all(removed).holds();
}

#[test]
fn sim_locks_end_with_their_holder() {
    explorer("lock a file, a death").kills(1, whole).holds();
    explorer("lock a byte, a death").kills(1, byte).holds();
    explorer("lock a byte, a stop").stops(1, byte).holds();
    explorer("lock a byte, an error").errors(1, byte).holds();
}

#[test]
fn sim_locks_mutants() {
    for mutant in [Mutant::NoLocks, Mutant::UnlockUnlinks] {
        explorer("lock, wrongly").mutant(mutant).bounded(1, whole).breaks("I5");
    }
    explorer("lock, wrongly").mutant(Mutant::NoLocks).bounded(1, byte).breaks("I5");
}
