//! I11, I15: system calls that fail, by `strace -e inject`, in a program that does everything a user of the store may do.
//!
//! ```text
//!   once, only watched: which calls there are between two marks, and the number of each
//!   per call, some of its numbers, and error:   one more run, in which it fails     the answers are right, no crash
//!                                               one in which it fails from then on  the same
//!   after each: a store without faults works in what is left
//! ```
//!
//! `fsync` is not among them: the store never waits for the disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cachelift::config::Config;
use cachelift::store::{PruneLimits, Store};

use crate::child::{self, Report, draft, key, payload};

/// What a call may fail with, by its name. Of one that is interrupted nothing is to be seen.
const ERRORS: &[(&str, &[&str])] = &[
    ("openat", &["EMFILE", "EIO", "ESTALE", "EINTR"]),
    ("openat2", &["EMFILE", "ENOSPC", "ESTALE", "ENOSYS", "EINTR"]),
    ("mkdirat", &["ENOSPC", "EDQUOT"]),
    ("pread64", &["EIO", "ESTALE", "EINTR"]),
    ("pwrite64", &["ENOSPC", "EDQUOT", "EIO", "EINTR"]),
    ("fallocate", &["ENOSPC", "EDQUOT", "EOPNOTSUPP", "EINTR"]),
    ("ftruncate", &["EIO", "EINTR"]),
    ("rename", &["ENOSPC", "EIO"]),
    ("renameat", &["ENOSPC", "EIO"]),
    ("renameat2", &["ENOSPC", "EDQUOT", "EIO", "EINVAL"]),
    ("unlinkat", &["EIO", "ESTALE"]),
    ("mmap", &["ENOMEM", "ENODEV"]),
    ("fcntl", &["ENOLCK", "EIO", "EINTR"]),
    ("flock", &["ENOLCK", "EIO", "EINTR"]),
    ("fstat", &["EIO", "ESTALE"]),
    ("newfstatat", &["EIO", "ESTALE"]),
    ("statx", &["EIO", "ESTALE"]),
    ("fstatfs", &["EIO", "ESTALE"]),
    ("getdents64", &["EIO", "ESTALE", "EINTR"]),
    ("utimensat", &["EIO"]),
];
/// How many of the calls of one name are made to fail.
const NUMBERS: usize = 4;

const MARKS: [&str; 2] = ["/cachelift-test-begins", "/cachelift-test-ends"];

/// `strace` counts the calls of each thread, and lets that of a number fail in every one of them: so that this is in none
/// but ours, ours makes more than those of the loader and the test runner.
fn overtake_other_threads() {
    use std::os::unix::fs::FileExt;
    for _ in 0..100 {
        let file = std::fs::File::open("/dev/zero").unwrap();
        file.read_at(&mut [0], 0).unwrap();
        file.metadata().unwrap();
        drop(memmap2::MmapMut::map_anon(4096).unwrap());
        rustix::fs::stat("/").unwrap();
        rustix::fs::fstat(&file).unwrap();
        rustix::io::fcntl_getfd(&file).unwrap();
    }
}

fn mark(name: &str) {
    assert!(std::fs::metadata(name).is_err());
}

fn config(dir: &Path) -> Config {
    let mut config = Config::default().dir(dir);
    // Memory would answer what the directory is to be asked for.
    (config.max_size, config.memory_size) = (1 << 20, 1024);
    config
}

/// A role: everything that is answered is right, or the process fails.
pub(crate) fn everything() {
    let dir = std::env::var_os("CACHELIFT_DIR").unwrap();
    overtake_other_threads();
    mark(MARKS[0]);
    let store = Store::open(config(dir.as_ref()));
    let get = |n| {
        let (record, _) = store.try_get_with(&key(&store, n), || Ok::<_, ()>(draft(n))).unwrap();
        assert!(record.payload() == payload(n), "key {n}");
    };
    (0..80).for_each(get);
    for n in 0..10 {
        if let Some(record) = store.get(&key(&store, n)) {
            assert!(record.payload() == payload(n), "key {n}");
        }
    }
    let _ = store.put(&key(&store, 100), draft(100));
    for byte in 0..3 {
        let is_set = store.set_note(&key(&store, 1), &[byte; 200]).is_ok();
        if let Some(note) = store.note(&key(&store, 1)) {
            assert!(note.iter().all(|it| *it == note[0]) && (!is_set || note[0] == byte));
        }
    }
    for n in 0..130 {
        let mut long = draft(n);
        long.payload = vec![n as u8; if n % 20 == 0 { 20_000 } else { 12_000 }];
        let expected = long.payload.clone();
        let key = store.key("long").u64("n", n).finish();
        let (record, _) = store.try_get_with(&key, || Ok::<_, ()>(long)).unwrap();
        assert!(record.payload() == expected, "long {n}");
    }
    drop((store.usage(), store.entries(), store.clear()));
    (0..5).for_each(get);
    let _ = store.prune(PruneLimits { max_size: Some(0), unused_for: None });
    (0..5).for_each(get);
    mark(MARKS[1]);
    println!("right=yes");
    for (reason, count) in store.stats().reasons {
        println!("reason.{reason}={count}");
    }
}

/// Runs the role under `strace` with these arguments.
fn trace(dir: &Path, log: &Path, arguments: &[&str]) -> Report {
    let role = child::command("everything");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(log).args(arguments);
    command.arg(role.get_program()).args(role.get_args()).env_clear();
    command.envs(role.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("CACHELIFT_DIR", dir).stdout(std::process::Stdio::piped());
    child::run(&mut command)
}

/// The calls between the marks, by name: which of all that their thread makes, counted from 1.
fn calls_between_marks(log: &str) -> BTreeMap<&str, Vec<usize>> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut calls: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let (mut thread, mut is_over) = ("", false);
    for line in log.lines() {
        let Some((task, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let Some((name, arguments)) = call.split_once('(') else { continue };
        let count = counts.entry((task, name)).or_default();
        *count += 1;
        if arguments.contains(MARKS[0]) {
            thread = task;
        } else if arguments.contains(MARKS[1]) {
            is_over = true;
        } else if task == thread && !is_over {
            // The allocator's mappings, and the standard library's calls, are not ours.
            let is_ours = match name {
                "mmap" => arguments.contains("MAP_SHARED"),
                "fcntl" => arguments.contains("OFD"),
                _ => true,
            };
            if is_ours {
                calls.entry(name).or_default().push(*count);
            }
        }
    }
    assert!(is_over, "the marks were not met:\n{log}");
    for ((task, name), count) in counts {
        let first = calls.get(name).map_or(usize::MAX, |numbers| numbers[0]);
        assert!(task == thread || count < first, "another thread makes {count} calls of {name}");
    }
    calls
}

/// Some of these, the first and the last among them.
fn some(numbers: &[usize]) -> Vec<usize> {
    let most = numbers.len().min(NUMBERS);
    let last = numbers.len() - 1;
    let mut some: Vec<usize> = (0..most).map(|n| numbers[n * last / (most - 1).max(1)]).collect();
    some.dedup();
    some
}

/// I11: what a fault leaves works.
fn works(dir: &Path, what: &str) {
    let store = Store::open(config(dir));
    let put = store.put(&key(&store, 500), draft(500));
    assert!(put.is_ok(), "{what}: {put:?}");
    let found = Store::open(config(dir)).get(&key(&store, 500));
    assert!(found.is_some_and(|record| record.payload() == payload(500)), "{what}");
    assert_eq!(store.verify(|_, _| ()).unwrap().damaged, 0, "{what}");
}

#[test]
fn any_system_call_may_fail() {
    let version = Command::new("strace").arg("-V").output();
    if !version.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED, and so not checked: faults of system calls: there is no `strace`");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let log = temp.path().join("log");
    let names: Vec<&str> = ERRORS.iter().map(|(name, _)| *name).collect();
    let set = format!("trace={}", names.join(",").replace("rename,", "?rename,"));
    let watched = trace(&temp.path().join("watched"), &log, &["-e", &set]);
    let log = std::fs::read_to_string(&log).unwrap();
    let calls = calls_between_marks(&log);
    let met: Vec<&str> = calls.keys().copied().collect();
    for name in ["openat", "pwrite64", "fallocate", "mmap", "fcntl", "flock", "unlinkat"] {
        assert!(met.contains(&name), "{name} is not among {met:?}");
    }
    let mut faults = Vec::new();
    for (name, errors) in ERRORS {
        for number in calls.get(name).map(|numbers| some(numbers)).unwrap_or_default() {
            for error in *errors {
                faults.push((*name, *error, format!("{number}")));
                // A call that is interrupted for ever is made for ever.
                if *error != "EINTR" && number == calls[name][0] {
                    faults.push((*name, *error, format!("{number}+")));
                }
            }
        }
    }
    println!("{} faults of {met:?}", faults.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((name, error, when)) =
                    faults.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let what = format!("{name} fails with {error}, {when}");
                    let run = || {
                        let dir = tempfile::tempdir().unwrap();
                        let inject = format!("inject={name}:error={error}:when={when}");
                        let arguments = ["-e", &format!("trace={name}"), "-e", &inject];
                        let seen =
                            trace(&dir.path().join("cache"), &dir.path().join("log"), &arguments);
                        assert_eq!(seen.get("right").map(String::as_str), Some("yes"), "{what}");
                        if *error == "EINTR" {
                            assert_eq!(seen, watched, "{what}");
                        }
                        works(&dir.path().join("cache"), &what);
                    };
                    if std::panic::catch_unwind(run).is_err() {
                        failures.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{failures:#?}");
}
