//! Whole files of CLIF through the command and one cache directory: what a second process finds, how
//! processes share the work, and what damage to the files does.
//!
//! The files are Cranelift's own run tests, which are not part of this crate: `CACHELIFT_CONFORMANCE_DIR`
//! names a folder that has them somewhere below. Without it the tests that need them say so and check
//! nothing; under `CI` they fail.

#![cfg(feature = "cli")]

/// The programs of kernels; what they need is beside them.
#[cfg(feature = "kernel")]
#[path = "kernels"]
mod kernels {
    mod programs;
    #[allow(dead_code, reason = "the tests of kernels use all of it")]
    mod support;
}

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A cache directory of its own for each test.
struct Cache(TempDir);

impl Cache {
    fn new() -> Self {
        Cache(tempfile::tempdir().unwrap())
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    /// `cachelift run` of these files, not started yet.
    fn command(&self, files: &[PathBuf]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cachelift"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CACHELIFT_") {
                command.env_remove(name);
            }
        }
        command
            .args(["run", "--summary", "json"])
            .args(files)
            .env("CACHELIFT_DIR", self.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, files: &[PathBuf]) -> Run {
        Run::of(self.command(files).spawn().unwrap())
    }

    /// All files below the directory, with what is in them.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        below(&self.dir()).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Puts the directory back to how it was.
    fn restore(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        for path in below(&self.dir()) {
            if !before.contains_key(&path) {
                fs::remove_file(path).unwrap();
            }
        }
        for (path, bytes) in before {
            fs::write(path, bytes).unwrap();
        }
    }
}

/// Where a record lies: in a file of its own, or among others.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    bytes: Range<usize>,
}

impl Place {
    /// The places of all records in these files.
    fn find(files: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<Self> {
        const STEP: usize = 64;
        let mut places = Vec::new();
        for (path, bytes) in files {
            let begins = |at: &usize| bytes[*at..].starts_with(b"CLR\x01");
            let mut starts: Vec<_> = (0..bytes.len()).step_by(STEP).filter(begins).collect();
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            starts.push(used.next_multiple_of(STEP).min(bytes.len()));
            places.extend(
                starts.windows(2).map(|pair| Place { path: path.clone(), bytes: pair[0]..pair[1] }),
            );
        }
        places
    }
}

/// What a process did.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    counts: Value,
}

impl Run {
    /// Waits for a process to end.
    #[track_caller]
    fn of(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let last = stderr.lines().last().unwrap_or_default();
        let Ok(summary) = serde_json::from_str::<Value>(last) else {
            panic!("no summary: {}\n{stdout}{stderr}", output.status)
        };
        let counts = summary["counts"].clone();
        Run { code: output.status.code(), stdout, stderr, counts }
    }

    fn count(&self, name: &str) -> u64 {
        self.counts[name].as_u64().unwrap()
    }

    /// How many functions came from this process's own memory, because they are equal to another.
    fn equal(&self) -> u64 {
        self.count("memory")
    }

    /// Checks that every run line passed, and gives how many there were.
    #[track_caller]
    fn passed(&self) -> u64 {
        assert_eq!(
            (self.code, self.count("failed")),
            (Some(0), 0),
            "{}{}",
            self.stdout,
            self.stderr
        );
        assert!(self.count("passed") > 0, "nothing was run");
        self.count("passed")
    }

    /// Checks that nothing was compiled, here or elsewhere meanwhile.
    #[track_caller]
    fn made_nothing(&self) {
        assert_eq!((self.count("made"), self.count("waited")), (0, 0), "{}", self.counts);
    }
}

/// The files below a folder, in order.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// The files to run; `None` if nobody says where they are.
fn corpus() -> Option<Vec<PathBuf>> {
    const VARIABLE: &str = "CACHELIFT_CONFORMANCE_DIR";
    let Some(dir) = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty()) else {
        assert!(std::env::var_os("CI").is_none(), "{VARIABLE} is not set");
        eprintln!("skipped: {VARIABLE} does not say where the files are");
        return None;
    };
    let dir = fs::canonicalize(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files = below(&dir);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "clif"));
    assert!(!files.is_empty(), "no .clif file below {}", dir.display());
    Some(files)
}

/// Cold, in a second process, and with the functions of each file declared last to first.
#[test]
fn a_second_process_finds_all_that_the_first_made() {
    let Some(files) = corpus() else { return };
    let cache = Cache::new();
    let cold = cache.run(&files);
    let passed = cold.passed();
    assert!(cold.count("made") > 0);
    assert_eq!(cold.count("disk") + cold.count("waited"), 0, "{}", cold.counts);

    let warm = cache.run(&files);
    assert_eq!(warm.passed(), passed);
    warm.made_nothing();
    assert_eq!((warm.count("disk"), warm.equal()), (cold.count("made"), cold.equal()));

    let mut command = cache.command(&files);
    let reversed = Run::of(command.arg("--declare-in-reverse").spawn().unwrap());
    assert_eq!(reversed.passed(), passed);
    reversed.made_nothing();
    assert_eq!(reversed.count("disk"), cold.count("made"));
}

/// Every hit is compiled again and is the same (invariant I19), for all files.
#[test]
fn every_hit_is_what_a_compile_gives() {
    let Some(files) = corpus() else { return };
    let cache = Cache::new();
    let cold = cache.run(&files);
    let stats = cache.0.path().join("stats");
    let mut command = cache.command(&files);
    let command = command.env("CACHELIFT_AUDIT", "1").env("CACHELIFT_STATS", &stats);
    let audited = Run::of(command.spawn().unwrap());
    assert_eq!(audited.passed(), cold.passed());
    audited.made_nothing();
    let line: Value = serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap();
    let hits = line["disk"].as_u64().unwrap() + line["memory"].as_u64().unwrap();
    assert_eq!(line["audited"], hits);
    assert!(hits >= cold.count("made"));
}

/// Together, processes make each function once, in whichever order they have the files. What they make
/// twice, because a wait took too long or a lock could not be had, they count.
#[test]
fn processes_share_the_work() {
    let Some(files) = corpus() else { return };
    let backwards: Vec<_> = files.iter().rev().cloned().collect();
    let together = |orders: &[&Vec<PathBuf>]| {
        let cache = Cache::new();
        let stats = cache.0.path().join("stats");
        let start = |files: &&Vec<PathBuf>| {
            cache.command(files).env("CACHELIFT_STATS", &stats).spawn().unwrap()
        };
        let started: Vec<_> = orders.iter().map(start).collect();
        let runs: Vec<_> = started.into_iter().map(Run::of).collect();
        let lines = fs::read_to_string(&stats).unwrap();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), orders.len());
        let sum = |count: &dyn Fn(&Value) -> Option<u64>| -> u64 {
            lines.iter().map(|line| count(line).unwrap_or(0)).sum()
        };
        let reason = |name: &'static str| sum(&|line| line["reasons"][name].as_u64());
        let duplicates = reason("deadline-passed") + reason("lock-unavailable");
        // The store also counts what calls the functions, which the command does not.
        let made = sum(&|line| line["made"].as_u64());
        (runs, made, duplicates)
    };
    let (alone, distinct, _) = together(&[&files]);
    let mut shared = 0;
    for orders in [
        vec![&files, &files],
        vec![&files, &backwards],
        vec![&files, &backwards, &files, &backwards],
        vec![&files; 4],
    ] {
        let (runs, made, duplicates) = together(&orders);
        assert_eq!(made, distinct + duplicates, "{} processes", orders.len());
        assert!(runs.iter().all(|run| run.passed() == alone[0].passed()));
        let made = runs.iter().map(|run| run.count("made"));
        if duplicates == 0 {
            assert_eq!(made.clone().sum::<u64>(), alone[0].count("made"));
        }
        shared += usize::from(made.filter(|made| *made > 0).count() > 1);
    }
    // On a busy machine one process may be through before another has begun, but not each time.
    assert!(shared > 0, "one process did all the work each time");
}

/// One of two processes is killed while it compiles: the other does the work of both, and leaves nothing out. What
/// each waiter does then, and the mutants of it, is in `flight::processes`.
#[test]
fn a_killed_process_leaves_its_work_to_the_others() {
    let Some(files) = corpus() else { return };
    let backwards: Vec<_> = files.iter().rev().cloned().collect();
    let whole = Cache::new().run(&files);
    for born in [1, 4, 16] {
        let cache = Cache::new();
        let mut victim = cache.command(&backwards).stdout(Stdio::null()).spawn().unwrap();
        let other = cache.command(&files).spawn().unwrap();
        let shards = cache.dir().join("v1-x86_64-le64/s");
        // So many shards are there: both are at work.
        while fs::read_dir(&shards).map_or(0, Iterator::count) < born
            && victim.try_wait().unwrap().is_none()
        {
            std::thread::yield_now();
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert_eq!(Run::of(other).passed(), whole.passed());
        let after = cache.run(&files);
        assert_eq!(after.passed(), whole.passed());
        after.made_nothing();
    }
}

/// A few functions whose code has every section that code can have: calls, traps, constants, a frame; and
/// two whose records are of one length.
const SMALL: &str = "\
test run
set opt_level=speed
target x86_64
function %third(i32, i32) -> i32 {
block0(v0: i32, v1: i32):
    v2 = iconst.i32 3
    v3 = sdiv v0, v1
    v4 = sdiv v3, v2
    return v4
}
; run: %third(18, 2) == 3
function %all(i32) -> i32, f64 {
    ss0 = explicit_slot 64
    fn0 = %third(i32, i32) -> i32
    fn1 = %FloorF64(f64) -> f64
block0(v0: i32):
    v1 = call fn0(v0, v0)
    v2 = call fn0(v0, v1)
    v3 = f64const 0x1.8p3
    v4 = call fn1(v3)
    v5 = stack_addr.i64 ss0
    store v4, v5+8
    v6 = load.f64 v5+8
    return v1, v6
block1:
    trap user1
}
; run: %third(36, 2) == 6
; run: %third(-36, 2) == -6
function %five() -> i32 {
block0:
    v0 = iconst.i32 5
    return v0
}
; run: %five() == 5
function %nine() -> i32 {
block0:
    v0 = iconst.i32 9
    return v0
}
; run: %nine() == 9
";

fn small(folder: &TempDir) -> Vec<PathBuf> {
    let path = folder.path().join("small.clif");
    fs::write(&path, SMALL).unwrap();
    vec![path]
}

/// Runs the small file again and again, each time with other damage to the directory; `damages` is told what
/// is in its files, and where its records are. Every run gives the right results. After damage to a record
/// (`heals`) the run replaces it, and the next one makes nothing. Returns how often that was.
fn survive(
    heals: bool,
    damages: impl Fn(&BTreeMap<PathBuf, Vec<u8>>, &[Place]) -> Vec<(PathBuf, Vec<u8>)>,
) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let files = small(&folder);
    let cache = Cache::new();
    let passed = cache.run(&files).passed();
    let whole = cache.files();
    let places = Place::find(&whole);
    assert!(places.len() >= 4, "{places:?} in {:?}", whole.keys());
    let damages = damages(&whole, &places);
    for (path, damaged) in &damages {
        cache.restore(&whole);
        fs::write(path, damaged).unwrap();
        assert_eq!(cache.run(&files).passed(), passed);
        let next = cache.run(&files);
        assert_eq!(next.passed(), passed);
        if heals {
            next.made_nothing();
        }
    }
    damages.len()
}

/// The file with a bit of this byte flipped.
fn flipped(whole: &BTreeMap<PathBuf, Vec<u8>>, path: &Path, at: usize) -> (PathBuf, Vec<u8>) {
    let mut damaged = whole[path].clone();
    damaged[at] ^= 1 << (at % 8);
    (path.to_path_buf(), damaged)
}

/// A flipped bit of a record is never served, wherever it is: in the header every byte of one record, in
/// all of them a part that is small enough to be tried and large enough to hit every section. Mutant seen:
/// the checksum not compared.
#[test]
fn a_flipped_bit_is_a_miss_and_is_healed() {
    let times = survive(true, |whole, places| {
        let every = |place: &Place| place.bytes.clone().take(160).collect::<Vec<_>>();
        let some = |place: &Place| {
            let end = place.bytes.end.saturating_sub(16)..place.bytes.end;
            place.bytes.clone().step_by(23).chain(end.step_by(3)).collect()
        };
        let mut flips = Vec::new();
        for (n, place) in places.iter().enumerate() {
            let offsets = if n == 0 { every(place) } else { some(place) };
            flips.extend(offsets.into_iter().map(|at| flipped(whole, &place.path, at)));
        }
        flips
    });
    assert!(times > 250, "{times}");
}

/// Nor is a record that ends early, because its file does.
#[test]
fn a_cut_record_is_a_miss_and_is_healed() {
    let times = survive(true, |whole, places| {
        let lengths = |place: &Place| {
            let Range { start, end } = place.bytes;
            let some = (start..end).step_by(97);
            some.chain([start + 1, start + 128, end - 8, end - 1]).collect::<Vec<_>>()
        };
        let cut =
            |place: &Place, length| (place.path.clone(), whole[&place.path][..length].to_vec());
        places
            .iter()
            .flat_map(|place| lengths(place).into_iter().map(|length| cut(place, length)))
            .collect()
    });
    assert!(times > 30, "{times}");
}

/// Whole records of other functions are not served. Mutant seen: the key not compared.
#[test]
fn exchanged_records_are_misses() {
    let times = survive(true, |whole, places| {
        let mut exchanges = Vec::new();
        for place in places {
            for other in places {
                let bytes = &whole[&other.path][other.bytes.clone()];
                let same = (&other.path, &other.bytes) == (&place.path, &place.bytes);
                if !same && bytes.len() == place.bytes.len() {
                    let mut damaged = whole[&place.path].clone();
                    damaged[place.bytes.start..][..bytes.len()].copy_from_slice(bytes);
                    exchanges.push((place.path.clone(), damaged));
                }
            }
        }
        exchanges
    });
    assert!(times >= 2, "{times}");
}

/// Whatever is damaged beside the records, results are right: every file is hit, its beginning byte by byte.
#[test]
fn damage_to_any_file_changes_no_result() {
    let times = survive(false, |whole, _| {
        const BEGINNING: usize = 64;
        let mut flips = Vec::new();
        for (path, bytes) in whole {
            let used = (BEGINNING..bytes.len()).filter(|at| bytes[*at] != 0);
            let step = (used.clone().count() / 20).max(1);
            let offsets = (0..bytes.len().min(BEGINNING)).step_by(3).chain(used.step_by(step));
            flips.extend(offsets.map(|at| flipped(whole, path, at)));
            flips.push((path.clone(), Vec::new()));
            flips.push((path.clone(), bytes[..bytes.len() / 2].to_vec()));
        }
        flips
    });
    assert!(times > 50, "{times}");
}

/// Where the file lies, how it is called, from where, by whom: none of it is in a key. Mutant seen: the
/// function's name in its key.
#[test]
fn keys_depend_on_the_code_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let files = small(&folder);
    let cache = Cache::new();
    let passed = cache.run(&files).passed();

    let elsewhere = other.path().join("renamed.clif");
    fs::write(&elsewhere, format!("; a remark\n{}", SMALL.replace("%third", "%one_third")))
        .unwrap();
    let relative = || vec![PathBuf::from("renamed.clif")];
    let mut commands = [cache.command(&relative()), cache.command(&[elsewhere])];
    commands[0].current_dir(other.path());
    commands[1].current_dir("/").env_clear().env("CACHELIFT_DIR", cache.dir());
    commands[1].env("HOME", other.path()).env("LANG", "tlh").env("UNRELATED", "1");
    for command in &mut commands {
        let run = Run::of(command.spawn().unwrap());
        assert_eq!(run.passed(), passed);
        run.made_nothing();
    }
}

/// Namespace and salt enter the key, and so do the settings that a file asks for. Mutant seen: the salt
/// left out.
#[test]
fn what_must_not_be_shared_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = small(&folder);
    let cache = Cache::new();
    let made = cache.run(&files).count("made");
    for (name, value) in [("CACHELIFT_NAMESPACE", "other"), ("CACHELIFT_SALT", "2")] {
        let run = |value| Run::of(cache.command(&files).env(name, value).spawn().unwrap());
        assert_eq!(run(value).count("made"), made, "{name}");
        run(value).made_nothing();
    }
    fs::write(&files[0], SMALL.replace("opt_level=speed", "opt_level=none")).unwrap();
    assert_eq!(cache.run(&files).count("made"), made);
    fs::write(&files[0], SMALL.replace("iconst.i32 3", "iconst.i32 4")).unwrap();
    assert_eq!(cache.run(&files).count("made"), 1, "only one function changed");
}

/// What each mode does with the directory.
#[test]
fn modes_do_as_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let files = small(&folder);
    let cache = Cache::new();
    let run = |mode| Run::of(cache.command(&files).env("CACHELIFT_MODE", mode).spawn().unwrap());

    for mode in ["off", "read-only"] {
        let run = run(mode);
        run.passed();
        assert!(run.count("made") > 0);
        assert!(!cache.dir().exists(), "{mode} made the directory");
    }
    let made = run("read-write").count("made");
    let before = cache.files();
    for mode in ["off", "read-only"] {
        let run = run(mode);
        run.passed();
        assert_eq!(run.count("made"), if mode == "off" { made } else { 0 }, "{mode}");
        assert_eq!(cache.files(), before, "{mode} wrote");
    }
    let refreshed = run("refresh");
    refreshed.passed();
    assert_eq!(refreshed.count("made"), made, "all is made anew");
    assert_ne!(cache.files(), before);
    run("read-write").made_nothing();
}
