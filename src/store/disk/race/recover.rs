//! Parts of a shard are lost, by a hand or a failing disk, while processes have it open: they make it anew
//! from what there is, whoever comes first.

use super::*;
use crate::store::disk::fs::sim::machine::Content;

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    NoCurrent,
    BadCurrent,
    NoIndex,
    BadIndex,
    NoSegment,
    ShortSegment,
    BadMeta,
}

pub(super) const LOSSES: [Loss; 7] = [
    Loss::NoCurrent,
    Loss::BadCurrent,
    Loss::NoIndex,
    Loss::BadIndex,
    Loss::NoSegment,
    Loss::ShortSegment,
    Loss::BadMeta,
];

impl Loss {
    /// The index is there, for those who look for it.
    fn spares_the_index(self) -> bool {
        matches!(self, Loss::NoCurrent | Loss::BadCurrent)
    }

    /// The records are all there.
    fn spares_records(self) -> bool {
        !matches!(self, Loss::NoSegment | Loss::ShortSegment | Loss::BadMeta)
    }

    /// Who goes on with the cache and who comes new see the same one.
    fn spares_the_cache(self) -> bool {
        self != Loss::BadMeta
    }

    fn strike(self, world: &World) {
        let (folder, name) = match self {
            Loss::NoCurrent | Loss::BadCurrent => ("s/00/", "CURRENT"),
            Loss::NoIndex | Loss::BadIndex => ("s/00/", "idx-000000000001"),
            Loss::NoSegment | Loss::ShortSegment => ("s/00/", "seg-000000000001"),
            Loss::BadMeta => ("", "meta"),
        };
        let folder = format!("{}/{SPACE}/{folder}", dir());
        let path = format!("{folder}{name}");
        world.machine(|machine| match self {
            Loss::NoCurrent | Loss::NoIndex | Loss::NoSegment => {
                let folder = machine.find(folder.trim_end_matches('/')).expect("it is there");
                assert!(machine.find(&path).is_some(), "{path} is there");
                machine.set_name(folder, name, None);
            }
            // Under the same name, as a mapped file that is made shorter is nothing to be survived.
            _ => {
                let mut bytes = machine.bytes(&path).expect("it is there");
                match self {
                    Loss::ShortSegment => bytes.truncate(600),
                    _ => bytes[20] ^= 1,
                }
                machine.place(&path, Content::file_of(bytes), 1000, 0o600);
            }
        });
        if !self.spares_the_cache() {
            // The next one gives its own numbers.
            world.machine(|machine| machine.setup.once = |_| false);
        }
    }
}

/// Two use the shard from which something was lost: what its segments hold is found, and what they put.
pub(super) fn recovered(loss: Loss, run: &Run) -> Oracle {
    let oracle = Oracle::default();
    shards::knows(&oracle, 3, 200);
    for n in [0, 1] {
        process(run, &oracle, move |cache| {
            cache.get(&key(100 + n));
            if loss.spares_the_cache() {
                cache.put_for_good(&key(n), &body(n));
            } else {
                let _ = cache.put(&key(n), &body(n));
            }
            cache.get(&key(1 - n));
            cache.get(&key(102));
        });
    }
    loss.strike(run.world());
    let fs = run.world().process();
    let all_are_found = || (100..103).for_each(|n| oracle.published(&fs, &key(n)));
    // Without an index nothing is found, but by those who have it mapped, until somebody publishes.
    if loss.spares_the_index() || (loss.spares_records() && run.warm) {
        all_are_found();
    }
    run.join();
    if loss.spares_records() {
        all_are_found();
    }
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1), key(100)]);
    oracle
}

/// As [`recovered`] where a disk that fails may have cost a record.
fn recovered_or_not(loss: Loss, run: &Run) {
    let oracle = Oracle::default();
    shards::knows(&oracle, 3, 200);
    for n in [0, 1] {
        process(run, &oracle, move |cache| {
            cache.get(&key(100 + n));
            let _ = cache.put(&key(n), &body(n));
            cache.get(&key(1 - n));
        });
    }
    loss.strike(run.world());
    // Who cannot read `CURRENT` and has no index does not know which numbers were given.
    run.world().machine(|machine| machine.setup.once = |_| false);
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1), key(100)]);
}

fn known(name: &'static str) -> Explorer {
    shards::filled(sharded(name), 3, 200)
}

// Mutants: an index that was listed and is gone is a miss (as it was until this test); a place beyond the end of its
// segment is looked at.
#[test]
fn sim_recover_in_every_order() {
    for loss in LOSSES {
        println!("{loss:?}");
        known("recover").warmed().bounded(1, |run| recovered(loss, run)).holds();
        known("recover, cold").random(60, |run| recovered(loss, run)).holds();
    }
}

#[test]
fn sim_recover_and_die() {
    for loss in [Loss::BadCurrent, Loss::NoIndex, Loss::NoSegment, Loss::BadMeta] {
        println!("{loss:?}");
        known("recover, a death").kills(0, |run| recovered(loss, run)).holds();
        known("recover, a stop").stops(0, |run| recovered_or_not(loss, run)).holds();
        known("recover, an error").thinned(6).errors(0, |run| recovered_or_not(loss, run)).holds();
    }
}

#[test]
fn sim_recover_mutants() {
    let mutant =
        || known("recover, wrongly").warmed().bounded(0, |run| recovered(Loss::NoIndex, run));
    rejects("segments are not looked at where there is no index", "I8", mutant);
}

// The power goes while a shard is made anew. Mutant: an index without blocks is written to.
#[test]
fn sim_recover_power_cut_anywhere() {
    let body = |run: &Run| recovered(Loss::NoIndex, run);
    known("recover, power cut").crashes(1, shards::FEW_IMAGES, body, shards::recover).holds();
}
