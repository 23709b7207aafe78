//! Other processes: this test binary runs itself again and plays a role in it.
//!
//! A role is a plain function of the environment that prints what it saw, one `name=value` a line.

use std::collections::BTreeMap;
use std::env;
use std::process::{Child, Command, Stdio};

use cachelift::config::Config;
use cachelift::key::Key;
use cachelift::store::Draft;
use cachelift::store::{Meta, Store};

/// What a role printed.
pub(crate) type Report = BTreeMap<String, String>;

/// A command that plays `role` in a process with an empty environment but `PATH`.
pub(crate) fn command(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "child::play", "--nocapture", "--test-threads=1"])
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("CACHELIFT_TEST_ROLE", role)
        .stdout(Stdio::piped());
    command
}

/// Waits for a process that plays a role, and reads its report.
pub(crate) fn report(child: Child) -> Report {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "the child failed: {}\n{text}", output.status);
    text.lines()
        .filter_map(|line| line.trim().split_once('='))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Plays a role to its end.
pub(crate) fn run(command: &mut Command) -> Report {
    report(command.spawn().unwrap())
}

/// The environment's store.
pub(crate) fn store() -> Store {
    Store::open(Config::from_env().unwrap())
}

/// The `n`-th key of the tests, as every process computes it.
pub(crate) fn key(store: &Store, n: u64) -> Key {
    let mut parts = store.key("cachelift test v1");
    parts.u64("n", n);
    parts.finish()
}

/// A payload that says whose it is, of a length that depends on `n`.
pub(crate) fn payload(n: u64) -> Vec<u8> {
    let length = 64 + (n as usize * 37) % 4000;
    n.to_le_bytes().into_iter().cycle().take(length).collect()
}

/// The draft of the `n`-th key.
pub(crate) fn draft(n: u64) -> Draft {
    Draft { payload: payload(n), meta: Meta { label: format!("test {n}"), ..Meta::default() } }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Where every child begins. Without a role there is nothing to play and nothing to check.
#[test]
fn play() {
    let Ok(role) = env::var("CACHELIFT_TEST_ROLE") else { return };
    println!();
    match role.as_str() {
        "get-all" => get_all(),
        "get-many" => get_many(),
        "everything" => crate::syscalls::everything(),
        "hits" => hits(),
        "never-dropped" => never_dropped(),
        "key" => println!("key={}", key(&store(), 7)),
        "status" => {
            get_all();
            println!("status={}", store().status());
        }
        "get-one" => {
            let store = store();
            let n = number("KEY", 0);
            let make = || {
                if env::var_os("ABORT").is_some() {
                    std::process::abort();
                }
                std::thread::sleep(std::time::Duration::from_micros(number("COST_US", 0)));
                Ok::<_, ()>(draft(n))
            };
            let (record, _) = store.try_get_with(&key(&store, n), make).unwrap();
            assert_eq!(record.payload(), payload(n));
            print_stats(&store);
        }
        other => panic!("no role {other}"),
    }
}

/// Gets or makes keys `0..KEYS` one by one and prints the counters.
fn get_all() {
    let store = store();
    for n in 0..number("KEYS", 20) {
        let made = || {
            std::thread::sleep(std::time::Duration::from_micros(number("COST_US", 0)));
            Ok::<_, ()>(draft(n))
        };
        let (record, _) = store.try_get_with(&key(&store, n), made).unwrap();
        assert_eq!(record.payload(), payload(n), "key {n}");
    }
    print_stats(&store);
}

/// Makes a record in a store that is dropped, two in one that is forgotten, three in a `static` one.
fn never_dropped() {
    static STORE: std::sync::OnceLock<Store> = std::sync::OnceLock::new();
    let make = |store: &Store, numbers: std::ops::Range<u64>| {
        for n in numbers {
            store.try_get_with(&key(store, n), || Ok::<_, ()>(draft(n))).unwrap();
        }
    };
    make(&store(), 0..1);
    let forgotten = store();
    make(&forgotten, 1..3);
    std::mem::forget(forgotten);
    make(STORE.get_or_init(store), 3..6);
}

/// Hits one record of `SIZE` bytes ten times, and then `HITS` times between two lines; prints the counters of a
/// store that had it from the beginning.
fn hits() {
    let size = number("SIZE", 200);
    let key = key(&store(), size);
    drop(store().put(&key, Draft::new(vec![1; size as usize])).unwrap());
    let store = store();
    if store.config().memory_size > 0 {
        store.put(&key, Draft::new(vec![1; size as usize])).unwrap();
    }
    let get = || assert_eq!(store.get(&key).unwrap().payload().len() as u64, size);
    (0..10).for_each(|_| get());
    println!("begin=1");
    (0..number("HITS", 1)).for_each(|_| get());
    println!("end=1");
    print_stats(&store);
}

/// As `get_all`, in one call; `REVERSED` turns the order around.
fn get_many() {
    let store = store();
    let mut numbers: Vec<u64> = (0..number("KEYS", 20)).collect();
    if env::var_os("REVERSED").is_some() {
        numbers.reverse();
    }
    let keys: Vec<Key> = numbers.iter().map(|n| key(&store, *n)).collect();
    let cost = number("COST_US", 0);
    let records = store.try_get_many_with(&keys, |i| {
        std::thread::sleep(std::time::Duration::from_micros(cost));
        Ok::<_, ()>(draft(numbers[i]))
    });
    for (n, record) in numbers.iter().zip(records) {
        assert_eq!(record.unwrap().0.payload(), payload(*n), "key {n}");
    }
    print_stats(&store);
}

fn print_stats(store: &Store) {
    let stats = store.stats();
    println!("made={}", stats.made);
    println!("memory={}", stats.memory);
    println!("disk={}", stats.disk);
    println!("waited={}", stats.waited);
    for (reason, count) in stats.reasons {
        println!("reason.{reason}={count}");
    }
}
