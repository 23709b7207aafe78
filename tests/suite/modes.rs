//! `CACHELIFT_MODE`, `CACHELIFT_NAMESPACE`, `CACHELIFT_SALT`, `CACHELIFT_STATS`, and the second process.

use std::path::Path;
use std::process::Command;

use crate::child::{self, Report};

fn in_dir(dir: &Path, role: &str) -> Command {
    let mut command = child::command(role);
    command.env("CACHELIFT_DIR", dir.join("cache"));
    command
}

fn counts(report: &Report) -> (u64, u64) {
    (report["made"].parse().unwrap(), report["disk"].parse().unwrap())
}

#[test]
fn the_second_process_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(counts(&child::run(&mut in_dir(dir.path(), "get-all"))), (20, 0));
    assert_eq!(counts(&child::run(&mut in_dir(dir.path(), "get-all"))), (0, 20));
}

#[test]
fn read_only_finds_but_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let read_only = |keys: &str| {
        child::run(
            in_dir(dir.path(), "get-all").env("CACHELIFT_MODE", "read-only").env("KEYS", keys),
        )
    };
    // A missing directory is an empty cache, and stays missing.
    assert_eq!(counts(&read_only("5")), (5, 0));
    assert!(!dir.path().join("cache").exists());

    child::run(&mut in_dir(dir.path(), "get-all"));
    let before = listing(&dir.path().join("cache"));
    assert_eq!(counts(&read_only("25")), (5, 20));
    assert_eq!(listing(&dir.path().join("cache")), before);
}

#[test]
fn refresh_makes_everything_and_replaces_it() {
    let dir = tempfile::tempdir().unwrap();
    child::run(&mut in_dir(dir.path(), "get-all"));
    let refreshed = child::run(in_dir(dir.path(), "get-all").env("CACHELIFT_MODE", "refresh"));
    assert_eq!(counts(&refreshed), (20, 0));
    assert_eq!(counts(&child::run(&mut in_dir(dir.path(), "get-all"))), (0, 20));
}

#[test]
fn off_touches_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    let off = child::run(in_dir(dir.path(), "get-all").env("CACHELIFT_MODE", "off"));
    assert_eq!(counts(&off), (20, 0));
    assert!(!dir.path().join("cache").exists());
}

#[test]
fn namespaces_and_salts_share_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (variable, value) in
        [("NONE", ""), ("CACHELIFT_NAMESPACE", "suite"), ("CACHELIFT_SALT", "suite")]
    {
        let mut command = in_dir(dir.path(), "get-all");
        command.env(variable, value);
        assert_eq!(counts(&child::run(&mut command)), (20, 0), "{variable}");
        assert_eq!(counts(&child::run(&mut command)), (0, 20), "{variable}");
    }
}

#[test]
fn every_process_adds_a_line_of_counters() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stats.jsonl");
    for _ in 0..2 {
        child::run(in_dir(dir.path(), "get-all").env("CACHELIFT_STATS", &file));
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["made"], &lines[0]["disk"]), (&20.into(), &0.into()));
    assert_eq!((&lines[1]["made"], &lines[1]["disk"]), (&0.into(), &20.into()));
    assert!(lines.iter().all(|line| line["schema"] == 1 && line["pid"].is_u64()));
    assert_ne!(lines[0]["pid"], lines[1]["pid"]);
}

/// A store that nobody drops, in a `static` or forgotten, and one that is dropped: a line each.
/// Kills: no handler for the end of the process.
#[test]
fn a_store_that_is_never_dropped_adds_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stats.jsonl");
    child::run(in_dir(dir.path(), "never-dropped").env("CACHELIFT_STATS", &file));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut made: Vec<u64> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["made"].as_u64().unwrap()
        })
        .collect();
    made.sort();
    assert_eq!(made, [1, 2, 3]);
}

/// Every path below `dir` with its length and modification time.
pub(crate) fn listing(dir: &Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    let mut queue = vec![dir.to_path_buf()];
    while let Some(dir) = queue.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                queue.push(entry.path());
            }
            found.push((
                entry.path().to_string_lossy().into_owned(),
                meta.len(),
                meta.modified().unwrap(),
            ));
        }
    }
    found.sort();
    found
}
