//! Several publish one key, others look it up.

use super::*;

/// From an empty home: two make the directory, publish, and read what they wrote.
pub(super) fn cold(run: &Run) {
    let oracle = Oracle::default();
    for n in [1, 2] {
        let oracle = oracle.clone();
        run.process(move |fs| {
            let Ok(cache) = Cache::open(fs, &oracle) else { return };
            cache.put_for_good(&key(0), &body(n));
            cache.get(&key(0));
        });
    }
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

/// In a directory that is there: two publish, a third looks twice, and once it hit it hits.
pub(super) fn warm(run: &Run) {
    let oracle = Oracle::default();
    for n in [1, 2] {
        process(run, &oracle, move |cache| {
            cache.put_for_good(&key(0), &body(n));
            cache.get(&key(0));
        });
    }
    process(run, &oracle, |cache| {
        if cache.get(&key(0)) {
            cache.oracle.published(cache.fs(), &key(0));
        }
        cache.get(&key(0));
    });
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0)]);
}

/// One publishes, one looks, with nothing of the kind there before.
pub(super) fn pair(run: &Run) {
    let oracle = Oracle::default();
    process(run, &oracle, |cache| {
        cache.put_for_good(&key(0), &body(1));
        cache.get(&key(0));
    });
    process(run, &oracle, |cache| {
        cache.get(&key(0));
        cache.put_for_good(&key(0), &body(2));
    });
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0)]);
}

#[test]
fn sim_publish_in_every_order() {
    assert!(explorer("publish, cold").all(cold).holds().complete);
    assert!(explorer("publish, pair").all(pair).holds().complete);
    explorer("publish, warm").bounded(2, warm).holds();
    explorer("publish, warm").random(1000, warm).holds();
}

#[test]
fn sim_publish_where_rename_may_replace() {
    let setup = Setup { links_for_rename: true, ..files() };
    explorer("publish by link").setup(setup).all(pair).holds();
}

#[test]
fn sim_publish_with_one_process_id_for_all() {
    let setup = Setup { same_process_id: true, ..files() };
    explorer("publish in containers").setup(setup).all(pair).holds();
}

#[test]
fn sim_publish_and_die() {
    explorer("publish, cold, a death").kills(1, cold).holds();
    explorer("publish, warm, a death").kills(1, warm).holds();
}

#[test]
fn sim_publish_and_stop() {
    explorer("publish, cold, a stop").stops(1, cold).holds();
    explorer("publish, warm, a stop").stops(1, warm).holds();
}

#[test]
fn sim_publish_on_a_failing_disk() {
    explorer("publish, cold, an error").errors(0, cold).holds();
    explorer("publish, pair, an error").errors(1, pair).holds();
}

#[test]
fn sim_publish_mutants() {
    let watched = [Mutant::CopyForRename, Mutant::EarlyRename, Mutant::SharedTemporary];
    for mutant in watched {
        explorer("publish, wrongly").mutant(mutant).bounded(1, pair).breaks("I3");
    }
    // Where nobody watches the files, their readers see that something is wrong.
    for mutant in watched {
        let explorer = explorer("publish, wrongly").setup(unwatched()).mutant(mutant);
        explorer.bounded(2, pair).breaks("I8");
    }
}
