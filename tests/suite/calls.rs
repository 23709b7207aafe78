//! What a hit asks of the kernel: from memory nothing, and from the directory one call at most.

use std::path::Path;
use std::process::Command;

use crate::child;

const HITS: usize = 1_000;

/// The system calls of `HITS` hits of one record of this size, in a process that had it before.
fn calls_of_hits(dir: &Path, size: usize, memory: &str, tier: &str) -> Vec<String> {
    let plain = child::command("hits");
    let trace = dir.join("trace");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-o"]).arg(&trace).arg(plain.get_program()).args(plain.get_args());
    traced.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    traced
        .env("CACHELIFT_DIR", dir.join("cache"))
        .env("CACHELIFT_MEMORY_SIZE", memory)
        .env("SIZE", size.to_string())
        .env("HITS", HITS.to_string())
        .stdout(std::process::Stdio::piped());
    let report = child::run(&mut traced);
    assert_eq!(report[tier], (HITS + 10).to_string(), "hits of the tier that is meant");
    let text = std::fs::read_to_string(&trace).unwrap();
    let (_, after) = text.split_once("\"begin=").expect("the beginning is marked");
    let (between, _) = after.split_once("\"end=").expect("the end is marked");
    let calls = between.lines().skip(1).filter(|line| !line.contains("write(1"));
    calls.map(str::to_owned).collect()
}

/// Mutant seen killed: a segment opened anew for each hit.
#[test]
fn hits_ask_the_kernel_for_little() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED, and so not checked: calls::hits_ask_the_kernel_for_little: there is no `strace`"
        );
        return;
    }
    for size in [200, 1 << 10, 16 << 10, 600 << 10] {
        let dir = tempfile::tempdir().unwrap();
        let memory = calls_of_hits(dir.path(), size, "64M", "memory");
        assert!(memory.is_empty(), "{size} bytes from memory: {memory:?}");
        let disk = calls_of_hits(dir.path(), size, "0", "disk");
        assert!(disk.len() <= HITS, "{size} bytes from disk: {} calls, {:?}", disk.len(), disk[0]);
        println!("{size} bytes, {HITS} hits: {} calls from disk", disk.len());
    }
}
