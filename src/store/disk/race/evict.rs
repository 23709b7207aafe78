//! Records are evicted while others publish and look up.

use super::*;
use crate::sync::simulated::Clock;

/// What a small record occupies.
const BLOCK: u64 = 4096;
const LIMIT: u64 = 4 * BLOCK;

/// Two fill a cache that has room for four records; each cleans up after every put.
pub(super) fn overflow(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    for n in 0..4 {
        before.put(&key(n), &body(n)).unwrap();
    }
    for n in [4, 6] {
        limited_process(run, &oracle, LIMIT, move |cache| {
            for n in [n, n + 1] {
                let _ = cache.put(&key(n), &body(n));
            }
            cache.get(&key(0));
        });
    }
    run.join();
    // I13: what another process was writing when one cleaned up may be too much, no more.
    let usage = before.large().usage();
    assert!(usage.bytes() <= LIMIT + 2 * BLOCK, "I13: {usage:?}");
    let cache = Cache::limited(run.world().process(), &oracle, LIMIT).expect("a cache that opens");
    cache.clean();
    assert!(cache.large().usage().bytes() <= LIMIT, "I13: clean, and over the limit");
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(9)]);
}

/// Under the limit, cleaning up removes nothing that is in use.
pub(super) fn under_the_limit(run: &Run) {
    let oracle = Oracle::default();
    process(run, &oracle, |cache| {
        cache.put_for_good(&key(0), &body(0));
        cache.get(&key(0));
    });
    for _ in 0..2 {
        process(run, &oracle, |cache| {
            cache.clean();
            cache.get(&key(0));
        });
    }
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0)]);
}

#[test]
fn sim_evict_in_every_order() {
    explorer("evict").bounded(1, overflow).holds();
    explorer("evict").random(500, overflow).holds();
    explorer("clean up").bounded(2, under_the_limit).holds();
}

#[test]
fn sim_evict_and_die() {
    explorer("evict, a death").kills(0, overflow_of_the_living).holds();
    explorer("clean up, a death").kills(0, under_the_limit).holds();
    explorer("clean up, a stop").stops(0, under_the_limit).holds();
}

#[test]
fn sim_evict_on_a_failing_disk() {
    explorer("clean up, an error").errors(0, under_the_limit).holds();
}

/// As [`overflow`], where a process may die before it cleans up after itself: the next one does.
pub(super) fn overflow_of_the_living(run: &Run) {
    let oracle = Oracle::default();
    for n in [1, 4] {
        limited_process(run, &oracle, 2 * BLOCK, move |cache| {
            for n in n..n + 3 {
                let _ = cache.put(&key(n), &body(n));
            }
        });
    }
    run.join();
    let cache = Cache::limited(run.world().process(), &oracle, 2 * BLOCK).expect("it opens");
    // What a dead process was writing is nobody's an hour later.
    cache.fs().sleep(std::time::Duration::from_secs(2 * 3600));
    cache.clean();
    let usage = cache.large().usage();
    assert!(usage.bytes() <= 2 * BLOCK && usage.temporary.entries == 0, "I13: {usage:?}");
    Cache::proves_usable(run.world(), &oracle, &[key(0)]);
}
