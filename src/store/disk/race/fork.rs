//! A child that was forked neither releases its parent's locks nor keeps them.

use super::*;
use crate::store::disk::fs::Fs;
use crate::store::disk::lock::{FLIGHT, LockFile};
use crate::sync::simulated::Clock;

const BYTE: u64 = 77;

fn locked(world: &World) -> (Cache, LockFile<SimFs>) {
    let cache = Cache::open(world.process(), &Oracle::default()).unwrap();
    let lock = LockFile::new(cache.root.clone(), FLIGHT);
    (cache, lock)
}

fn is_free(world: &World) -> bool {
    let (_cache, lock) = locked(world);
    lock.try_lock_byte(BYTE).unwrap().is_some()
}

#[test]
fn sim_a_child_drops_its_parents_guard() {
    let world = World::new(files(), 1);
    let (cache, lock) = locked(&world);
    let guard = lock.try_lock_byte(BYTE).unwrap().expect("free");
    let (parent, child) = (cache.fs().pid(), cache.fs().fork());
    cache.fs().act_as(child);
    assert_ne!(cache.fs().process(), 100 + parent);
    drop(guard);
    assert!(!is_free(&world), "I17: the parent lost its lock");
    // The child asks for itself, by an open file of its own.
    assert!(lock.try_lock_byte(BYTE).unwrap().is_none(), "I17: the child has its parent's lock");
    assert!(lock.try_lock_byte(BYTE + 1).unwrap().is_some());
    world.machine(|machine| machine.kill(parent));
    assert!(is_free(&world), "I17: the child kept its parent's open file");
    drop(cache);
}

#[test]
fn sim_a_child_publishes_and_cleans() {
    let world = World::new(files(), 1);
    let oracle = Oracle::default();
    let cache = Cache::limited(world.process(), &oracle, 8 * 4096).unwrap();
    cache.put(&key(0), &body(0)).unwrap();
    let parent = cache.fs().pid();
    cache.fs().act_as(cache.fs().fork());
    cache.get(&key(0));
    for n in 1..12 {
        cache.fs().sleep(std::time::Duration::from_secs(1));
        cache.put(&key(n), &body(n)).unwrap();
        assert!(cache.get(&key(n)));
    }
    assert!(cache.large().usage().bytes() <= 8 * 4096, "I13: the child cleans up");
    cache.fs().act_as(parent);
    cache.put(&key(20), &body(20)).unwrap();
    assert!(cache.get(&key(20)));
    Cache::proves_usable(&world, &oracle, &[key(0)]);
}
