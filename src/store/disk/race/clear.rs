//! The cache is cleared while others publish and look up.

use super::*;

pub(super) fn while_in_use(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.put(&key(0), &body(0)).unwrap();
    process(run, &oracle, |cache| {
        let _ = cache.records.clear();
    });
    process(run, &oracle, |cache| {
        cache.get(&key(0));
        let _ = cache.put(&key(1), &body(1));
        cache.get(&key(1));
    });
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

/// What was there when it began is gone when it ends.
pub(super) fn clears(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.put(&key(0), &body(0)).unwrap();
    process(run, &oracle, |cache| {
        let removed = cache.records.clear().unwrap();
        assert!(removed.artifacts.entries >= 1);
        assert!(!cache.get(&key(0)), "cleared and still there");
    });
    process(run, &oracle, |cache| {
        cache.get(&key(0));
        let _ = cache.put(&key(1), &body(1));
    });
    run.join();
}

#[test]
fn sim_clear_in_every_order() {
    explorer("clear").all(while_in_use).holds();
    explorer("clear, and it is empty").all(clears).holds();
}

#[test]
fn sim_clear_and_die() {
    explorer("clear, a death").kills(1, while_in_use).holds();
    explorer("clear, a stop").stops(1, while_in_use).holds();
}

#[test]
fn sim_clear_on_a_failing_disk() {
    explorer("clear, an error").errors(0, while_in_use).holds();
}
