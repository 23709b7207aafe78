//! `cachelift-stress` finds what is planted, and nothing where nothing is.
//!
//! One run of some seconds per fault: a fault is planted in the store by its words, and must be found by the invariant it
//! breaks. What is not found at the first attempt, as others keep the machine busy, is tried again with another seed.

#![cfg(feature = "stress")]

use std::process::Command;

/// Runs the tool: the exit code, and its JSON.
fn run(fault: &str, arguments: &str, seed: u32) -> (Option<i32>, serde_json::Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cachelift-stress"));
    command.args(["--workers", "3", "--threads", "2", "--format", "json"]);
    command.args(["--seed", &seed.to_string()]).args(arguments.split_whitespace());
    let dir = tempfile::tempdir().unwrap();
    command.arg("--dir").arg(dir.path());
    let output = command.env("CACHELIFT_STRESS_FAULT", fault).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn finds(fault: &str, invariants: &[&str], arguments: &str) {
    let mut broken = Vec::new();
    for seed in 1..=5 {
        let (code, summary) = run(fault, arguments, seed);
        let found = summary["broken"].as_object().unwrap();
        if found.keys().any(|invariant| invariants.contains(&&invariant[..])) {
            assert_eq!(code, Some(1));
            return;
        }
        broken.push(summary["broken"].clone());
    }
    panic!("not found: {fault}: {broken:?}");
}

#[test]
fn what_works_breaks_nothing() {
    for arguments in ["--kill --stop", "--corrupt --stop", "--keys 40 --kill --stop"] {
        let (_, summary) = run("", &format!("--seconds 5 {arguments}"), 1);
        assert_eq!(summary["version"], 1);
        assert_eq!(
            summary["broken"],
            serde_json::json!({}),
            "{arguments}: {}",
            summary["violations"]
        );
        assert!(summary["operations"].as_u64().unwrap() > 100);
    }
}

/// A disk that is full now and then costs makes, nothing else: what lies in it is served, and what is written through a
/// mapping has its blocks.
///
/// Mutant: an index and segments whose length is set and whose blocks are not asked for.
#[test]
fn a_full_disk_is_survived() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cachelift-stress"));
    command.args(["--workers", "3", "--seconds", "6", "--full", "--kill", "--format", "json"]);
    let output = command.output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(summary["broken"], serde_json::json!({}), "{}", summary["violations"]);
    assert!(summary["fills"].as_u64().unwrap() > 0 || told.contains("cannot be mounted"), "{told}");
}

/// Images run on while others clear, prune, evict and damage what they were mapped from, and die.
#[cfg(feature = "jit")]
#[test]
fn images_run_whatever_happens_to_the_cache() {
    for arguments in ["--kill --stop", "--corrupt --kill", "--keys 20 --corrupt --stop"] {
        let arguments = format!("--seconds 6 --images {arguments}");
        let (_, summary) = run("", &arguments, 1);
        let broken = &summary["broken"];
        assert_eq!(*broken, serde_json::json!({}), "{arguments}: {}", summary["violations"]);
        assert!(summary["latency_us"]["image"]["count"].as_u64().unwrap() > 20);
    }
}

#[cfg(feature = "jit")]
#[test]
fn an_image_of_another_key_is_found() {
    finds("an image is of another key", &["I1", "I10"], "--seconds 4 --images");
}

#[test]
fn another_keys_record_is_found() {
    let fault = "records in memory are told apart by six bits of their keys";
    finds(fault, &["I1"], "--seconds 3");
}

#[test]
fn unverified_bytes_are_found() {
    finds("the checksum of a record is not compared", &["I1"], "--seconds 8 --corrupt");
}

#[test]
fn half_a_record_is_found() {
    finds("a record is published of which half was written", &["I11", "I1"], "--seconds 3");
}

#[test]
fn a_lease_that_is_not_asked_for_is_found() {
    finds("no other process is asked before a key is made", &["I6"], "--seconds 6 --keys 20");
}

#[test]
fn a_lease_that_is_given_back_early_is_found() {
    finds("the lease is given back before the key is made", &["I6"], "--seconds 6 --keys 20");
}

#[test]
fn a_missing_second_look_is_found() {
    let fault = "whoever may make a key does not look whether it was made meanwhile";
    finds(fault, &["I8"], "--seconds 6 --max-size 64M");
}

#[test]
fn a_shard_without_its_lock_is_found() {
    let fault = "a shard is written without its lock";
    finds(fault, &["I1", "I8", "I11"], "--seconds 6 --keys 60");
}

#[test]
fn a_lost_generation_is_found() {
    let fault = "a new generation has none of the old one's entries";
    finds(fault, &["I8"], "--seconds 8 --keys 40 --max-size 4M");
}

#[test]
fn a_limit_that_is_not_kept_is_found() {
    finds("nothing is ever evicted", &["I13"], "--seconds 6");
}

#[test]
fn a_worker_that_does_not_answer_is_told_of() {
    let (code, summary) = run("a worker does not answer", "--seconds 2", 1);
    assert_eq!(code, Some(1));
    let told = summary["violations"].to_string();
    assert!(told.contains("does not answer; thread 0 has been getting"), "{told}");
}

#[test]
fn a_child_that_does_not_end_is_told_of() {
    // The worker that waits for it tells, or the tool if that worker was killed.
    finds("a forked child does not end", &["I17"], "--seconds 6");
    finds("a forked child does not end", &["I17"], "--seconds 6 --kill");
}
