//! Workers that start together on one cold cache: every key is made once in all.

use std::process::Command;

use crate::child;

fn workers(count: usize, dress: impl Fn(usize, &mut Command)) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..count)
        .map(|i| {
            let mut command = child::command("get-many");
            command
                .env("CACHELIFT_DIR", dir.path().join("cache"))
                .env("KEYS", "120")
                .env("COST_US", "2000");
            dress(i, &mut command);
            command.spawn().unwrap()
        })
        .collect();
    let reports: Vec<_> = children.into_iter().map(child::report).collect();
    let sum = |name: &str| {
        reports
            .iter()
            .filter_map(|report| report.get(name))
            .map(|n| n.parse::<u64>().unwrap())
            .sum()
    };
    let duplicates: u64 = ["deadline-passed", "lock-unavailable", "nested"]
        .iter()
        .map(|reason| sum(&format!("reason.{reason}")))
        .sum();
    (sum("made"), duplicates)
}

#[test]
fn two_processes_make_each_key_once() {
    let (made, duplicates) = workers(2, |_, _| ());
    assert_eq!(made, 120 + duplicates);
}

#[test]
fn four_processes_in_opposite_orders_make_each_key_once() {
    let (made, duplicates) = workers(4, |i, command| {
        if i % 2 == 1 {
            command.env("REVERSED", "1");
        }
    });
    assert_eq!(made, 120 + duplicates);
}

#[test]
fn threads_of_one_process_make_each_key_once() {
    let store = cachelift::store::Store::open(cachelift::config::Config::default());
    let made = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..50 {
                    let (record, _) = store
                        .try_get_with(&child::key(&store, n), || {
                            made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            Ok::<_, ()>(child::draft(n))
                        })
                        .unwrap();
                    assert_eq!(record.payload(), child::payload(n));
                }
            });
        }
    });
    assert_eq!(made.into_inner(), 50);
}

/// I20. Mutant: `attempt` counts nothing; the second process then waits for the first.
#[test]
fn a_key_whose_makers_die_again_and_again_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let role = |role: &str| {
        let mut command = child::command(role);
        command.env("CACHELIFT_DIR", dir.path().join("cache")).env("KEY", "1000");
        command
    };
    // Counters are in the shards, which are made with their first record.
    child::run(role("get-all").env("KEYS", "200"));
    for _ in 0..3 {
        let died = role("get-one").env("ABORT", "1").output().unwrap();
        assert!(!died.status.success());
    }
    let slow = role("get-one").env("COST_US", "3000000").spawn().unwrap();
    // The first has the key by then, and for long.
    std::thread::sleep(std::time::Duration::from_millis(700));
    let other = child::run(&mut role("get-one"));
    assert_eq!((other["made"].as_str(), other["waited"].as_str()), ("1", "0"), "{other:?}");
    assert!(other.contains_key("reason.poisoned"), "{other:?}");
    child::report(slow);
    // It came back, so that is forgiven.
    let next = child::run(role("get-one").env("KEY", "1000"));
    assert_eq!(next["disk"], "1");
}
