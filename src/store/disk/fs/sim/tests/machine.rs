//! What forks, deaths and power cuts do to a machine, and the promises that it watches.

use crate::sync::simulated::Clock;
use std::collections::BTreeSet;

use crate::store::disk::fs::sim::crash::Images;
use crate::store::disk::fs::sim::machine::{Content, Setup};
use crate::store::disk::fs::sim::{HOME, Handle, SimFs, World};
use crate::store::disk::fs::{Access, Fs};

const ALL: Images =
    Images { all_below: 10_000, sample: 0, corners: true, seed: 1, cuts: (1000, 1000) };

fn world() -> World {
    World::new(Setup { published: |name| name == "final", ..Setup::default() }, 1)
}

fn home(fs: &SimFs) -> Handle {
    fs.open_dir(&fs.root().unwrap(), HOME.trim_start_matches('/')).unwrap()
}

fn locks(fs: &SimFs) -> (bool, bool) {
    let file = fs.open(&home(fs), "lock", Access::Ensure).unwrap();
    (fs.try_lock(&file).unwrap(), fs.try_lock_byte(&file, 7).unwrap())
}

#[test]
fn sim_locks_end_with_the_last_holder() {
    let world = world();
    let parent = world.process();
    let file = parent.open(&home(&parent), "lock", Access::Ensure).unwrap();
    assert!(parent.try_lock(&file).unwrap() && parent.try_lock_byte(&file, 7).unwrap());
    // The same open file does not exclude itself; another one of the same process is excluded.
    assert!(parent.try_lock(&file).unwrap() && parent.try_lock_byte(&file, 7).unwrap());
    assert_eq!(locks(&parent), (false, false));
    let child = parent.fork();
    parent.kill();
    assert_eq!(locks(&world.process()), (false, false), "the child has the open file");
    parent.act_as(child);
    parent.kill();
    assert_eq!(locks(&world.process()), (true, true));
    std::mem::forget(file);
}

#[test]
#[should_panic(expected = "I17")]
fn sim_a_child_that_unlocks_is_found() {
    let parent = world().process();
    let file = parent.open(&home(&parent), "lock", Access::Ensure).unwrap();
    assert!(parent.try_lock_byte(&file, 7).unwrap());
    parent.act_as(parent.fork());
    let _ = parent.unlock_byte(&file, 7);
}

#[test]
#[should_panic(expected = "I3")]
fn sim_a_write_to_a_published_file_is_found() {
    let fs = world().process();
    let home = home(&fs);
    let file = fs.open(&home, "temporary", Access::CreateNew).unwrap();
    fs.write_all_at(&file, b"body", 0).unwrap();
    fs.rename(&home, "temporary", &home, "final").unwrap();
    let _ = fs.write_all_at(&file, b"late", 4);
}

#[test]
#[should_panic(expected = "R4")]
fn sim_a_lock_file_that_is_unlinked_is_found() {
    let fs = world().process();
    let file = fs.open(&home(&fs), "lock", Access::Ensure).unwrap();
    assert!(fs.try_lock(&file).unwrap());
    let _ = fs.unlink(&home(&fs), "lock");
}

#[test]
fn sim_an_untrusted_file_that_is_read_is_found() {
    let placed: [(Content, u32, u32); 4] = [
        (Content::file_of(vec![1]), 1001, 0o644),
        (Content::file_of(vec![1]), 1000, 0o620),
        (Content::file_of(vec![1]), 1000, 0o602),
        (Content::Fifo, 1000, 0o600),
    ];
    for (content, owner, mode) in placed {
        let world = world();
        world.machine(|machine| machine.place(&format!("{HOME}/x"), content, owner, mode));
        let fs = world.process();
        let file = fs.open(&home(&fs), "x", Access::Read).unwrap();
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = fs.read_at(&file, &mut [0], 0);
        }));
        assert!(read.is_err(), "read a file of {owner}, {mode:o}");
    }
}

#[test]
fn sim_permissions_bind_all_but_root() {
    let world = world();
    world.machine(|machine| machine.place("/other", Content::directory(), 7, 0o755));
    world.machine(|machine| machine.place("/other/x", Content::file_of(vec![1]), 7, 0o600));
    for (user, allowed) in [(0, true), (7, true), (1000, false)] {
        let fs = world.process_of(user);
        let other = fs.open_dir(&fs.root().unwrap(), "other").unwrap();
        assert_eq!(fs.writable(&other).unwrap(), allowed);
        assert_eq!(fs.open(&other, "x", Access::Read).is_ok(), allowed);
        assert_eq!(fs.make_dir(&other, &format!("of-{user}")).is_ok(), allowed);
    }
}

#[test]
fn sim_space_and_open_files_run_out() {
    let world = World::new(Setup { capacity: Some(8192), open_files: 4, ..Setup::default() }, 1);
    let fs = world.process();
    let home = home(&fs);
    let one = fs.open(&home, "one", Access::Ensure).unwrap();
    fs.write_all_at(&one, &[1; 6000], 0).unwrap();
    let two = fs.open(&home, "two", Access::Ensure).unwrap();
    let full = fs.write_all_at(&two, &[2; 10], 0).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(fs.stat(&two).unwrap().length, 0);
    // A removed file's space is free once nobody has it open.
    fs.unlink(&home, "one").unwrap();
    assert!(fs.write_all_at(&two, &[2; 10], 0).is_err());
    drop(one);
    fs.write_all_at(&two, &[2; 10], 0).unwrap();
    let (_three, _root) = (fs.open(&home, "three", Access::Ensure).unwrap(), fs.root().unwrap());
    assert!(fs.open(&home, "two", Access::Read).is_err(), "four are open");
}

/// Of a file, if it is there.
type Bytes = Option<Vec<u8>>;

/// What the names `old` and `new` hold after every way that a power cut may go.
fn after_cuts(world: &World) -> BTreeSet<(Bytes, Bytes)> {
    let machine = world.machine(|machine| machine.clone());
    let images = machine.fates(ALL).into_iter().map(|fate| machine.image(&fate));
    let read = |world: &World, name: &str| {
        let fs = world.process();
        let file = fs.open(&home(&fs), name, Access::Read).ok()?;
        let mut bytes = vec![0; 2000];
        let n = fs.read_at(&file, &mut bytes, 0).unwrap();
        bytes.truncate(n);
        Some(bytes)
    };
    images.map(World::of).map(|world| (read(&world, "old"), read(&world, "new"))).collect()
}

#[test]
fn sim_what_is_not_synced_may_be_lost_or_torn() {
    let world = World::new(Setup { watch: false, ..Setup::default() }, 1);
    let fs = world.process();
    let home = home(&fs);
    let some = |bytes: &[u8]| Some(bytes.to_vec());
    let file = fs.open(&home, "old", Access::CreateNew).unwrap();
    fs.write_all_at(&file, b"ab", 0).unwrap();
    // The name or not; each of the two halves or not, or its length alone.
    let seen = after_cuts(&world);
    let bodies: BTreeSet<_> = seen.iter().map(|(old, _)| old.clone()).collect();
    let expected: [&[u8]; 6] = [b"", b"a", b"\0", b"ab", b"\0b", b"a\0"];
    for body in expected {
        assert!(bodies.contains(&some(body)), "{body:?} of {bodies:?}");
    }
    assert!(bodies.contains(&None));

    fs.sync(&file).unwrap();
    fs.sync(&home).unwrap();
    assert_eq!(after_cuts(&world), BTreeSet::from([(some(b"ab"), None)]));

    fs.rename(&home, "old", &home, "new").unwrap();
    let expected =
        [(some(b"ab"), None), (None, some(b"ab")), (some(b"ab"), some(b"ab")), (None, None)];
    assert_eq!(after_cuts(&world), BTreeSet::from(expected));

    fs.sync(&home).unwrap();
    fs.unlink(&home, "new").unwrap();
    assert_eq!(after_cuts(&world), BTreeSet::from([(None, some(b"ab")), (None, None)]));
}

#[test]
fn sim_long_writes_tear_between_sectors() {
    let world = World::new(Setup { watch: false, ..Setup::default() }, 1);
    let fs = world.process();
    let home = home(&fs);
    let file = fs.open(&home, "old", Access::CreateNew).unwrap();
    fs.sync(&home).unwrap();
    // One step of 1024 bytes: written as the second half of a write whose first half is empty.
    fs.write_all_at(&file, &[1; 2000], 0).unwrap();
    let halves = |bytes: &[u8]| -> Vec<bool> {
        bytes.chunks(500).map(|part| part.iter().all(|byte| *byte == 1)).collect()
    };
    let shapes: BTreeSet<Vec<bool>> =
        after_cuts(&world).into_iter().filter_map(|(old, _)| old).map(|old| halves(&old)).collect();
    assert!(shapes.len() > 10, "{shapes:?}");
}

#[test]
fn sim_boots_and_clocks_move_on() {
    let world = world();
    let fs = world.process();
    let (boot, second) = (fs.boot_id(), fs.unix_seconds());
    fs.sleep(std::time::Duration::from_secs(3));
    assert_eq!((fs.boot_id(), fs.unix_seconds()), (boot, second + 3));
    let after = world.machine(|machine| machine.image(&vec![1; 1000]));
    let fs = World::of(after).process();
    assert_ne!(fs.boot_id(), boot);
    assert!(fs.unix_seconds() > second + 3);
    assert_ne!(fs.random(), fs.random());
}
