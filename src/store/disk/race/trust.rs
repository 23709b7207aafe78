//! What may not be trusted is not read, not followed and not changed; the machine watches every read (I16).

use super::*;
use crate::store::disk::fs::Fs;
use crate::store::disk::fs::sim::machine::Content;
use crate::sync::simulated::Clock;

/// A record that was offered, lying where others can write it.
fn planted() -> Content {
    Content::file_of(artifact(&key(0), b"planted"))
}

/// A world with a cache that has record 0, and a directory of somebody else's with a planted record.
fn world(oracle: &Oracle) -> World {
    let world = World::new(files(), 1);
    let cache = Cache::open(world.process(), oracle).unwrap();
    cache.put(&key(0), &body(0)).unwrap();
    let text = key(0).to_string();
    world.machine(|machine| {
        machine.place("/other", Content::directory(), 7, 0o777);
        machine.place(&format!("/other/{}", &text[..2]), Content::directory(), 7, 0o777);
        machine.place(&format!("/other/{}/{}", &text[..2], &text[2..]), planted(), 7, 0o666);
    });
    world
}

/// Opens, looks up and publishes; whatever that comes to.
pub(super) fn use_it(world: &World, oracle: &Oracle) {
    let before = world.machine(|machine| machine.paths("/other", |_| true));
    if let Ok(cache) = Cache::open(world.process(), oracle) {
        cache.get(&key(0));
        let _ = cache.put(&key(0), &body(1));
        cache.get(&key(0));
        cache.clean();
        let _ = cache.records.clear();
        let _ = cache.put(&key(0), &body(1));
    }
    let after = world.machine(|machine| machine.paths("/other", |_| true));
    assert_eq!(before, after, "I16: somebody else's directory was changed");
}

#[test]
fn sim_untrusted_records_are_not_read() {
    let contents: [(Content, u32, u32); 6] = [
        (planted(), 7, 0o644),
        (planted(), 1000, 0o620),
        (planted(), 1000, 0o602),
        (Content::Symlink(format!("/other/{}", &key(0).to_string()[..2])), 1000, 0o777),
        (Content::Fifo, 1000, 0o600),
        (Content::directory(), 1000, 0o700),
    ];
    for (content, owner, mode) in contents {
        let oracle = Oracle::default();
        let world = world(&oracle);
        world.machine(|machine| machine.place(&path(&key(0)), content.clone(), owner, mode));
        let cache = Cache::open(world.process(), &oracle).unwrap();
        assert!(!cache.get(&key(0)), "{content:?} of {owner}, {mode:o} was believed");
        use_it(&world, &oracle);
    }
}

#[test]
fn sim_hard_links_are_not_read() {
    let oracle = Oracle::default();
    let world = world(&oracle);
    world.machine(|machine| {
        let (inode, home) = (machine.find(&path(&key(0))).unwrap(), machine.find(HOME).unwrap());
        machine.set_name(home, "second-name", Some(inode));
    });
    let cache = Cache::open(world.process(), &oracle).unwrap();
    assert!(!cache.get(&key(0)));
    // Publishing replaces it, and leaves the other name its file.
    cache.put(&key(0), &body(1)).unwrap();
    assert!(cache.get(&key(0)));
    assert!(world.machine(|machine| machine.bytes(&format!("{HOME}/second-name"))).is_some());
}

#[test]
fn sim_untrusted_directories_are_not_used() {
    let parent = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
    let fan_out = parent(&path(&key(0)));
    let tree = parent(&fan_out);
    let space = parent(&tree);
    for directory in [dir(), space, tree, fan_out] {
        let contents: [(Content, u32, u32); 5] = [
            (Content::Symlink("/other".into()), 1000, 0o777),
            (Content::directory(), 7, 0o755),
            (Content::directory(), 7, 0o777),
            (Content::directory(), 1000, 0o770),
            (Content::file_of(vec![1]), 1000, 0o600),
        ];
        for (content, owner, mode) in contents {
            let oracle = Oracle::default();
            let world = world(&oracle);
            world.machine(|machine| {
                machine.remove_tree(&directory);
                machine.place(&directory, content.clone(), owner, mode);
            });
            let before = world.machine(|machine| machine.paths(&directory, |_| true));
            use_it(&world, &oracle);
            let after = world.machine(|machine| machine.paths(&directory, |_| true));
            assert_eq!(before, after, "{directory} as {content:?} of {owner}, {mode:o} was used");
        }
    }
}

/// A user's directory may be read-only, or its file system: hits are served, nothing is changed.
#[test]
fn sim_what_cannot_be_written_is_read() {
    for read_only_mount in [true, false] {
        let oracle = Oracle::default();
        let world = world(&oracle);
        world.machine(|machine| {
            machine.setup.read_only = read_only_mount;
            for directory in
                machine.paths(&dir(), |content| matches!(content, Content::Directory { .. }))
            {
                let inode = machine.find(&directory).unwrap();
                machine.node_mut(inode).mode = if read_only_mount { 0o700 } else { 0o500 };
            }
        });
        let cache = Cache::open(world.process(), &oracle).unwrap();
        let before = world.machine(|machine| machine.paths(&dir(), |_| true));
        cache.fs().sleep(std::time::Duration::from_secs(7200));
        assert!(cache.get(&key(0)), "a record that can be read");
        assert!(cache.put(&key(1), &body(1)).is_err() && !cache.get(&key(1)));
        assert!(cache.records.clear().is_err());
        cache.clean();
        assert!(cache.get(&key(0)));
        assert_eq!(before, world.machine(|machine| machine.paths(&dir(), |_| true)));
    }
}

/// Somebody swaps a record, while it is looked up and published, for something else of the same name.
pub(super) fn swapped(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.put(&key(0), &body(0)).unwrap();
    let path = path(&key(0));
    let (folder, name) = path.rsplit_once('/').expect("absolute");
    run.world().machine(|machine| {
        machine.place(&format!("{HOME}/link"), Content::Symlink("/etc".into()), 1000, 0o777);
        machine.place(&format!("{HOME}/pipe"), Content::Fifo, 1000, 0o600);
        machine.place(&format!("{HOME}/shared"), planted(), 1000, 0o666);
    });
    let (folder, name) = (folder.trim_start_matches('/').to_owned(), name.to_owned());
    let fs = run.world().process();
    fs.meddles();
    run.process_on(fs, move |fs| {
        let root = fs.root().unwrap();
        let (home, folder) =
            (fs.open_dir(&root, "home").unwrap(), fs.open_dir(&root, &folder).unwrap());
        for swap in ["link", "pipe", "shared"] {
            let _ = fs.rename(&home, swap, &folder, &name);
        }
    });
    process(run, &oracle, |cache| {
        cache.get(&key(0));
        let _ = cache.put(&key(0), &body(1));
        cache.get(&key(0));
    });
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0)]);
}

#[test]
fn sim_swapped_while_in_use() {
    explorer("swap").all(swapped).holds();
}
