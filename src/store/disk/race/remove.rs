//! The directory, or a part of it, is removed by hand while others use it.

use super::*;
use crate::store::disk::fs::Fs;
use crate::store::disk::fs::sim::Handle;

/// `rm -rf`, a step at a time, with what comes meanwhile removed in the next round.
fn remove(fs: &SimFs, at: &Handle, name: &str) {
    for _ in 0..4 {
        match fs.open_dir(at, name) {
            Ok(dir) => {
                for name in fs.list(&dir).unwrap_or_default() {
                    remove(fs, &dir, &name);
                }
                if fs.remove_dir(at, name).is_ok() {
                    return;
                }
            }
            Err(_) => {
                let _ = fs.unlink(at, name);
                return;
            }
        }
    }
}

fn removes(run: &Run, oracle: &Oracle, parts: &'static [&'static str]) {
    let before = Cache::open(run.world().process(), oracle).expect("a new cache");
    before.put(&key(0), &body(0)).unwrap();
    before.clean();
    let fs = run.world().process();
    fs.meddles();
    run.process_on(fs, move |fs| {
        let (last, way) = parts.split_last().expect("something is removed");
        let mut at = fs.root().unwrap();
        for name in way {
            match fs.walk(&at, name) {
                Ok(dir) => at = dir,
                Err(_) => return,
            }
        }
        remove(&fs, &at, last);
    });
}

fn uses(cache: &Cache) {
    cache.get(&key(0));
    let _ = cache.put(&key(0), &body(1));
    cache.get(&key(0));
    let _ = cache.put(&key(1), &body(1));
    cache.clean();
}

pub(super) fn all_of_it(run: &Run) {
    let oracle = Oracle::default();
    removes(run, &oracle, &["home", "cache"]);
    process(run, &oracle, uses);
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

pub(super) fn the_space(run: &Run) {
    let oracle = Oracle::default();
    removes(run, &oracle, &["home", "cache", SPACE]);
    process(run, &oracle, uses);
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

pub(super) fn the_records(run: &Run) {
    let oracle = Oracle::default();
    removes(run, &oracle, &["home", "cache", SPACE, "big"]);
    process(run, &oracle, uses);
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

pub(super) fn the_shards(run: &Run) {
    let oracle = Oracle::default();
    removes(run, &oracle, &["home", "cache", SPACE, "s"]);
    process(run, &oracle, uses);
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

/// A process that had the cache open before it was removed and one that comes afterwards see each other's
/// records.
#[test]
fn sim_removed_and_met_again() {
    let oracle = Oracle::default();
    let world = World::new(files(), 1);
    let old = Cache::open(world.process(), &oracle).unwrap();
    old.put(&key(0), &body(0)).unwrap();
    world.machine(|machine| machine.remove_tree(&dir()));
    let new = Cache::open(world.process(), &oracle).unwrap();
    assert!(!new.get(&key(0)) && !old.get(&key(0)));
    new.put(&key(1), &body(1)).unwrap();
    assert!(old.get(&key(1)), "it looks where the directory is now");
    old.put(&key(2), &body(2)).unwrap();
    assert!(new.get(&key(2)));
}

#[test]
fn sim_removed_while_in_use() {
    explorer("rm -rf").bounded(1, all_of_it).holds();
    explorer("rm -rf").random(1000, all_of_it).holds();
    explorer("rm -rf of the space").bounded(1, the_space).holds();
    explorer("rm -rf of the records").bounded(1, the_records).holds();
}

#[test]
fn sim_removed_while_in_use_by_the_dead() {
    explorer("rm -rf, a death").kills(0, all_of_it).holds();
    explorer("rm -rf, an error").errors(0, all_of_it).holds();
}
