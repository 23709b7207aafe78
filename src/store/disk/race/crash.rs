//! The power goes, at any step, and again while the next process recovers.

use super::*;
use crate::store::disk::fs::sim::crash::Images;

const IMAGES: Images =
    Images { all_below: 200, sample: 30, corners: true, seed: 1, cuts: (1000, 1000) };

/// Two publish records and notes, one of them over the other's.
pub(super) fn work(run: &Run) -> Oracle {
    let oracle = Oracle::default();
    for n in [1, 2] {
        let theirs = oracle.clone();
        run.process(move |fs| {
            let Ok(cache) = Cache::open(fs, &theirs) else { return };
            let _ = cache.put(&key(0), &body(n));
            let _ = cache.set_note(&key(1), &body(n));
            cache.clean();
        });
    }
    run.join();
    oracle
}

pub(super) fn recover(world: &World, oracle: &Oracle) {
    oracle.forget_published();
    let cache = Cache::proves_usable(world, oracle, &[key(0), key(2)]);
    cache.note(&key(1));
    cache.set_note(&key(1), &body(3)).unwrap();
    assert_eq!(cache.note(&key(1)), Some(body(3)));
    cache.clean();
}

#[test]
fn sim_power_cut_anywhere() {
    let report = explorer("power cut").crashes(3, IMAGES, work, recover).holds();
    assert!(report.images > 1000, "{report}");
}

/// A reader that does not verify what it read believes what the power cut left.
#[test]
fn sim_power_cut_mutants() {
    let trusting = |world: &World, oracle: &Oracle| {
        let bytes = world.machine(|machine| machine.bytes(&path(&key(0))));
        if let Some(bytes) = bytes {
            let body = bytes.get(128..328).unwrap_or_default();
            oracle.looked_up(&key(0), Some(body), false);
        }
    };
    explorer("power cut, unverified").crashes(1, IMAGES, work, trusting).breaks("I1");
}
