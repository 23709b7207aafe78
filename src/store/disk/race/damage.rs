//! Records are damaged, by accident or by hand.

use super::*;
use crate::store::disk::fs::Fs;
use crate::store::disk::fs::sim::machine::Content;
use crate::sync::simulated::Clock;

/// Puts bytes in the place of a file, as a disk that forgets or a hand that edits may.
fn overwrite(world: &World, path: &str, bytes: Vec<u8>) {
    world.machine(|machine| machine.place(path, Content::file_of(bytes), 1000, 0o600));
}

/// Two look up a record that is damaged while a third publishes it anew. What was published stays.
pub(super) fn replaced(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.put(&key(0), &body(0)).unwrap();
    let mut bytes = artifact(&key(0), &body(0));
    bytes[200] ^= 1;
    overwrite(run.world(), &path(&key(0)), bytes);
    process(run, &oracle, |cache| {
        cache.get(&key(0));
    });
    for n in [1, 2] {
        process(run, &oracle, move |cache| {
            cache.put_for_good(&key(0), &body(n));
            cache.get(&key(0));
        });
    }
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0)]);
}

#[test]
fn sim_damage_is_replaced_in_every_order() {
    explorer("damage").bounded(2, replaced).holds();
}

#[test]
fn sim_damage_is_replaced_whoever_dies() {
    explorer("damage, a death").kills(0, replaced).holds();
    explorer("damage, an error").errors(0, replaced).holds();
}

/// I12: whatever is in whichever file, and whatever else lies around, is a miss at worst.
#[test]
fn sim_damage_of_any_file_is_survived() {
    let oracle = Oracle::default();
    let other = artifact(&key(1), &body(1));
    let own = artifact(&key(0), &body(0));
    let mut longer = own.clone();
    longer.push(0);
    let contents: [Vec<u8>; 8] = [
        vec![],
        vec![0],
        vec![0; 5000],
        vec![0xff; 70_000],
        own[..own.len() / 2].to_vec(),
        own[..64].to_vec(),
        longer,
        other,
    ];
    let paths = {
        let world = World::new(files(), 1);
        fill(&world, &oracle);
        every_file(&world)
    };
    assert!(paths.len() >= 5, "{paths:?}");
    for file in &paths {
        for bytes in &contents {
            let world = World::new(files(), 1);
            fill(&world, &oracle);
            overwrite(&world, file, bytes.clone());
            let cache = Cache::proves_usable(&world, &oracle, &[key(0), key(1)]);
            cache.note(&key(0));
            cache.set_note(&key(0), &body(3)).unwrap();
            assert_eq!(cache.note(&key(0)), Some(body(3)));
            cache.clean();
            assert!(cache.get(&key(0)), "damage elsewhere: {file}");
            cache.records.clear().unwrap();
            assert!(!cache.get(&key(0)));
        }
    }
}

#[test]
fn sim_stray_files_are_left_alone() {
    let oracle = Oracle::default();
    let world = World::new(files(), 1);
    fill(&world, &oracle);
    let mut strays = Vec::new();
    for directory in every_directory(&world) {
        for name in ["stray", "tmp", "00", "zz", &"0".repeat(62), &"g".repeat(62)] {
            let path = format!("{directory}/{name}");
            if world.machine(|machine| machine.find(&path)).is_none() {
                let content = match name {
                    "00" => Content::directory(),
                    "zz" => Content::Symlink("/".into()),
                    _ => Content::file_of(b"not ours".to_vec()),
                };
                world.machine(|machine| machine.place(&path, content, 1000, 0o600));
                strays.push(path);
            }
        }
    }
    let cache = Cache::proves_usable(&world, &oracle, &[key(0), key(1)]);
    cache.fs().sleep(std::time::Duration::from_secs(7200));
    cache.clean();
    cache.records.clear().unwrap();
    // A name of 62 digits in the right place is a record, if a damaged one.
    for path in strays.iter().filter(|path| !path.ends_with(&"0".repeat(62))) {
        assert!(world.machine(|machine| machine.find(path)).is_some(), "{path} was not ours");
    }
}

/// Two records and a note, and every lock file.
fn fill(world: &World, oracle: &Oracle) {
    let cache = Cache::open(world.process(), oracle).unwrap();
    cache.put(&key(0), &body(0)).unwrap();
    cache.put(&key(1), &body(1)).unwrap();
    cache.set_note(&key(0), &body(2)).unwrap();
    cache.clean();
}

fn every_file(world: &World) -> Vec<String> {
    world
        .machine(|machine| machine.paths(&dir(), |content| matches!(content, Content::File { .. })))
}

fn every_directory(world: &World) -> Vec<String> {
    let is_directory = |content: &Content| matches!(content, Content::Directory { .. });
    world.machine(|machine| machine.paths(&dir(), is_directory))
}

#[test]
fn sim_a_hit_writes_nothing() {
    let oracle = Oracle::default();
    let world = World::new(files(), 1);
    fill(&world, &oracle);
    let cache = Cache::open(world.process(), &oracle).unwrap();
    let (steps, writes) = cache.fs().steps();
    assert!(cache.get(&key(0)) && !cache.get(&key(7)));
    let (more, still) = cache.fs().steps();
    assert!(more > steps && still == writes, "I14: a look-up wrote");
    // A look-up of a record that was not used for an hour says that it was: once, by its file's time.
    cache.fs().sleep(std::time::Duration::from_secs(3600));
    assert!(cache.get(&key(0)));
    let touched = cache.fs().steps().1;
    assert!(cache.get(&key(0)));
    assert_eq!((touched, cache.fs().steps().1), (writes + 1, writes + 1), "I14");
    assert_eq!(cache.fs().user(), 1000);
}
