//! Two builds of cachelift that differ in the sources of a compiling layer share one directory, and neither
//! is served the other's code.
//!
//! A copy of the crate is built twice: as it is, and with a comment added to a file of the code layer. What other crates
//! need is taken from this test's own build. Of this crate no more is built than the test asks for, without optimising:
//! what is compared is the digest of the sources.
//!
//! Mutant: a build script that leaves the digest of the sources out. The second build then loads what the
//! first one compiled.

#![cfg(feature = "cli")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const CLIF: &str = "\
function %add(i32, i32) -> i32 {
block0(v0: i32, v1: i32):
    v2 = iadd v0, v1
    return v2
}
; run: %add(1, 2) == 3
";

#[test]
fn a_changed_compiling_layer_shares_no_code() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("add.clif");
    fs::write(&file, CLIF).unwrap();
    let made = |command: &Path| {
        let output = Command::new(command)
            .args(["run", "--summary", "json"])
            .arg(&file)
            .env("CACHELIFT_DIR", dir.path().join("cache"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let summary: serde_json::Value =
            serde_json::from_str(text.lines().last().unwrap()).unwrap();
        summary["counts"]["made"].as_u64().unwrap()
    };

    let first = build(dir.path(), "first");
    assert_eq!(made(&first), 1);
    assert_eq!(made(&first), 0);
    let changed = dir.path().join("source/src/code/compile.rs");
    let text = fs::read_to_string(&changed).unwrap();
    fs::write(&changed, text + "\n// A comment changes the digest.\n").unwrap();
    let second = build(dir.path(), "second");
    assert_eq!(made(&second), 1, "code of another compiler was served");
    assert_eq!(made(&second), 0);
    assert_eq!(made(&first), 0, "one build's code displaced the other's");
}

/// Builds the copy of the crate in `dir`, which is made if there is none, and gives its command under a name of its own.
fn build(dir: &Path, name: &str) -> PathBuf {
    let (source, copy) = (Path::new(env!("CARGO_MANIFEST_DIR")), dir.join("source"));
    if !copy.exists() {
        fs::create_dir(&copy).unwrap();
        for file in ["Cargo.toml", "Cargo.lock", "build.rs", "README.md"] {
            fs::copy(source.join(file), copy.join(file)).unwrap();
        }
        for folder in ["src", "benches", "examples", "tests"] {
            copy_tree(&source.join(folder), &copy.join(folder));
        }
    }
    // The profile's folder of this test: target/PROFILE/deps/two_builds-HASH.
    let profile = env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    let target = dir.join("target");
    if !target.exists() {
        let there = target.join(profile.file_name().unwrap());
        for folder in ["deps", "build", ".fingerprint"] {
            link_tree(&profile.join(folder), &there.join(folder));
        }
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["build", "--quiet", "--offline", "--bin", "cachelift"])
        .args(["--no-default-features", "--features", "cli", "--target-dir"])
        .arg(&target)
        .env("CARGO_INCREMENTAL", "1")
        .current_dir(&copy)
        .env_remove("CARGO_TARGET_DIR");
    if profile.ends_with("release") {
        cargo.args(["--release", "--config", "profile.release.package.cachelift.opt-level=0"]);
    }
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let command = dir.join(format!("cachelift-{name}"));
    fs::copy(target.join(profile.file_name().unwrap()).join("cachelift"), &command).unwrap();
    command
}

fn copy_tree(from: &Path, to: &Path) {
    each_file(from, to, &mut |from, to| {
        fs::copy(from, to).unwrap();
    });
}

/// As `copy_tree`, without the crate's own parts, which are to be built: cargo writes no file in place.
fn link_tree(from: &Path, to: &Path) {
    each_file(from, to, &mut |from, to| {
        let own = from.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part.starts_with("cachelift-") || part.starts_with("libcachelift-")
        });
        // Files of builds that run beside this one may come and go.
        if !own && fs::hard_link(from, to).is_err() && from.exists() {
            fs::copy(from, to).unwrap();
        }
    });
}

fn each_file(from: &Path, to: &Path, act: &mut dyn FnMut(&Path, &Path)) {
    let Ok(entries) = fs::read_dir(from) else { return };
    fs::create_dir_all(to).unwrap();
    for entry in entries.map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            each_file(&entry.path(), &to, act);
        } else {
            act(&entry.path(), &to);
        }
    }
}
