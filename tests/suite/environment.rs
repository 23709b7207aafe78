//! What a key does not depend on: paths, folders, homes, other variables, hash seeds, the process.

use std::collections::BTreeSet;

use crate::child;

#[test]
fn keys_do_not_know_where_they_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let keys: BTreeSet<String> = [
        child::command("key").env("CACHELIFT_DIR", &cache),
        child::command("key").env("CACHELIFT_DIR", "cache").current_dir(dir.path()),
        child::command("key").env("HOME", dir.path()).current_dir("/"),
        child::command("key").env("XDG_CACHE_HOME", dir.path()).env("LANG", "C"),
        child::command("key").env("CACHELIFT_MODE", "off").env("RUST_LOG", "trace"),
    ]
    .into_iter()
    .map(|command| child::run(command)["key"].clone())
    .collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
}

#[test]
fn a_relative_directory_is_the_same_directory() {
    let dir = tempfile::tempdir().unwrap();
    let absolute = dir.path().join("cache");
    child::run(child::command("get-all").env("CACHELIFT_DIR", &absolute));
    let relative = child::run(
        child::command("get-all").env("CACHELIFT_DIR", "./cache").current_dir(dir.path()),
    );
    assert_eq!(relative["made"], "0");
}
