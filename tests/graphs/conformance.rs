//! ONNX's node cases through the command: cold, then warm in a new process with nothing made, then under audit.
//!
//! The cases are not part of this crate: `CACHELIFT_CONFORMANCE_DIR` names a folder that has them in `onnx`. Without
//! it the test says so and checks nothing; under `CI` it fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

fn cases() -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("CACHELIFT_CONFORMANCE_DIR") else {
        assert!(std::env::var_os("CI").is_none(), "CI has the cases");
        eprintln!("CACHELIFT_CONFORMANCE_DIR is not set: nothing is checked");
        return None;
    };
    Some(Path::new(&dir).join("onnx"))
}

/// What a run of the command came to.
struct Run {
    counts: Value,
    stats: Value,
    stdout: String,
}

fn run(cache: &Path, cases: &Path, mode: &str, audit: bool) -> Run {
    let stats = cache.join("../stats");
    let _ = std::fs::remove_file(&stats);
    let mut command = Command::new(env!("CARGO_BIN_EXE_cachelift"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CACHELIFT_") {
            command.env_remove(name);
        }
    }
    command.args(["test", "--summary", "json", "--mode", mode]).arg(cases);
    command.env("CACHELIFT_DIR", cache).env("CACHELIFT_STATS", &stats).stdin(Stdio::null());
    if audit {
        command.env("CACHELIFT_AUDIT", "1");
    }
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{mode}: {stdout}\n{stderr}");
    let summary: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
    let line = std::fs::read_to_string(stats).unwrap();
    let stats = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    Run { counts: summary["counts"].clone(), stats, stdout }
}

fn check(mode: &str) {
    let Some(cases) = cases() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let cold = run(&cache, &cases, mode, false);
    assert_eq!(cold.counts["failed"], 0, "{}", cold.stdout);
    assert_eq!(cold.counts["skipped"], 0, "{}", cold.stdout);
    assert!(cold.counts["passed"].as_u64() > Some(0));
    assert!(cold.counts["made"].as_u64() > Some(0));
    assert!(cold.stdout.ends_with("passed, 0 failed, 0 skipped\n"));

    let warm = run(&cache, &cases, mode, false);
    assert_eq!(warm.counts["passed"], cold.counts["passed"]);
    assert_eq!(warm.counts["made"], 0);
    // Not only kernels: no plan and no entry either.
    assert_eq!(warm.stats["made"], 0, "{}", warm.stats);

    let audited = run(&cache, &cases, mode, true);
    assert_eq!(audited.counts["passed"], cold.counts["passed"]);
    assert!(audited.stats["audited"].as_u64() > Some(0), "{}", audited.stats);
}

/// Mutants: an operator's two inputs exchanged (Sub); the time in the key of a plan; the process's number in that of a
/// kernel.
#[test]
fn per_node() {
    check("per-node");
}

#[test]
fn fused() {
    check("fused");
}

#[test]
fn whole() {
    check("whole");
}

/// Kills: found and made not told apart; no nearest looked for.
#[test]
fn an_explanation_says_why_each_kernel_was_found_or_made() {
    let Some(cases) = cases() else { return };
    let dir = tempfile::tempdir().unwrap();
    let explain = |case: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cachelift"));
        command.arg("explain").arg(cases.join(case).join("model.onnx"));
        command.env("CACHELIFT_DIR", dir.path().join("cache")).stdin(Stdio::null());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let first = explain("test_split_equal_parts_default_axis_opset13");
    assert!(first.contains("no kernel: a view"), "{first}");
    let cold = explain("test_max_int16");
    assert!(cold.contains(": no kernel of its operator was there  "), "{cold}");
    let warm = explain("test_max_int16");
    assert!(warm.contains(" disk: its key was there  "), "{warm}");
    let near = explain("test_max_uint16");
    assert!(near.contains(": the nearest that was there is "), "{near}");
}
