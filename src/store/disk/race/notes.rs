//! Notes are replaced while others read them: old or new, whole, and never missing.

use super::*;

pub(super) fn replaced(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.set_note(&key(0), &body(0)).unwrap();
    oracle.published(before.fs(), &key(0));
    for n in [1, 2] {
        process(run, &oracle, move |cache| {
            let _ = cache.set_note(&key(0), &body(n));
            cache.note(&key(0));
        });
    }
    process(run, &oracle, |cache| {
        cache.note(&key(0));
        cache.note(&key(0));
    });
    run.join();
    let cache = Cache::proves_usable(run.world(), &oracle, &[key(1)]);
    cache.note(&key(0));
    cache.set_note(&key(0), b"last").unwrap();
    assert_eq!(cache.note(&key(0)), Some(b"last".to_vec()), "the last writer wins");
    // Kinds never answer for each other.
    oracle.forget_published();
    assert!(!cache.get(&key(0)));
}

#[test]
fn sim_notes_in_every_order() {
    explorer("notes").bounded(2, replaced).holds();
    explorer("notes").random(500, replaced).holds();
}

#[test]
fn sim_notes_and_die() {
    explorer("notes, a death").kills(1, replaced).holds();
    explorer("notes, a stop").stops(1, replaced).holds();
}

#[test]
fn sim_notes_on_a_failing_disk() {
    explorer("notes, an error").errors(0, replaced).holds();
}

#[test]
fn sim_notes_mutants() {
    let copied = explorer("notes, wrongly").mutant(Mutant::CopyForRename);
    copied.bounded(1, replaced).breaks("I3");
    // A reader sees half of a note that is written in place.
    let unwatched = explorer("notes, wrongly").setup(unwatched()).mutant(Mutant::CopyForRename);
    unwatched.bounded(1, replaced).breaks("I8");
}
