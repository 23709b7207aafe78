//! The search that leaves out orders finds every outcome that the one which tries them all does; a failure's
//! recipe shows the failure again.

use crate::sync::simulated::Clock;
use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::store::disk::fs::sim::explore::{Explorer, Run};
use crate::store::disk::fs::sim::machine::{Setup, mix};
use crate::store::disk::fs::sim::schedule::Schedule;
use crate::store::disk::fs::sim::{Fault, FaultKind, HOME, Handle, SimFs};
use crate::store::disk::fs::{Access, Fs};
use crate::sync::Arc;

fn home(fs: &SimFs) -> Handle {
    fs.open_dir(&fs.root().unwrap(), HOME.trim_start_matches('/')).unwrap()
}

/// A few steps on two names, chosen by seed; what each of them answered.
fn program(fs: &SimFs, dir: &Handle, mut seed: u64, length: usize) -> Vec<String> {
    let mut open = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..length {
        seed = mix(seed.wrapping_add(1));
        let (a, b) = if seed & 1 == 0 { ("a", "b") } else { ("b", "a") };
        let answer = match (seed >> 8) % 12 {
            0 => format!("{:?}", fs.rename(dir, a, dir, b).is_ok()),
            1 => format!("{:?}", fs.rename_new(dir, a, dir, b).is_ok()),
            2 => format!("{:?}", fs.unlink(dir, a).is_ok()),
            3 => format!("{:?}", fs.stat_at(dir, a).map(|stat| (stat.length, stat.links)).ok()),
            4 => format!("{:?}", fs.list(dir).unwrap()),
            n => {
                let access =
                    [Access::Read, Access::Ensure, Access::CreateNew][(seed >> 16) as usize % 3];
                let Ok(file) = fs.open(dir, a, access) else {
                    answers.push("none".into());
                    continue;
                };
                let answer = match n {
                    5 | 6 => {
                        format!("{:?}", fs.write_all_at(&file, &seed.to_le_bytes(), 0).is_ok())
                    }
                    7 | 8 => {
                        let mut bytes = [0; 8];
                        format!("{:?} {bytes:?}", fs.read_at(&file, &mut bytes, 0).unwrap())
                    }
                    9 | 10 => format!("{:?}", fs.try_lock(&file).unwrap()),
                    _ => format!("{:?}", fs.try_lock_byte(&file, 1).ok()),
                };
                open.push(file);
                answer
            }
        };
        answers.push(answer);
    }
    answers
}

type Outcomes = BTreeSet<Vec<Vec<String>>>;

fn outcomes(seed: u64, explore: impl FnOnce(&Explorer, &dyn Fn(&Run))) -> Outcomes {
    let seen = Mutex::new(Outcomes::new());
    let explorer = Explorer::new("a program")
        .setup(Setup { watch: false, ..Setup::default() })
        .most_runs(100_000);
    let (tasks, length) = if seed.is_multiple_of(3) { (3, 1) } else { (2, 2) };
    explore(&explorer, &|run: &Run| {
        let answers = Arc::new(Mutex::new(vec![Vec::new(); tasks]));
        for task in 0..tasks {
            let (answers, fs) = (answers.clone(), run.world().process());
            let dir = home(&fs);
            run.process_on(fs, move |fs| {
                let mine = program(&fs, &dir, mix(seed * 7 + task as u64), length);
                answers.lock().unwrap()[task] = mine;
            });
        }
        run.join();
        let mut answers = answers.lock().unwrap().clone();
        let fs = run.world().process();
        let dir = home(&fs);
        answers.push(fs.list(&dir).unwrap());
        answers.push(vec![format!("{:?}", fs.stat_at(&dir, "a").map(|stat| stat.inode).ok())]);
        seen.lock().unwrap().insert(answers);
    });
    seen.into_inner().unwrap()
}

// Mutants: no `want` where two steps conflict; a footprint without the name that a rename takes away, or
// without the lock that a close lets go; `sleep` that keeps a task whose step conflicts; `matters` false for
// what is common.
#[test]
fn sim_search_finds_every_outcome() {
    let (mut brute, mut all, mut bounded) = (0, 0, 0);
    for seed in 0..60 {
        let every = outcomes(seed, |explorer, body| brute += explorer.brute(body).report().runs);
        let found = outcomes(seed, |explorer, body| {
            let report = explorer.all(body).report();
            assert!(report.complete);
            all += report.runs;
        });
        assert_eq!(found, every, "program {seed}");
        let found = outcomes(seed, |explorer, body| {
            bounded += explorer.bounded(100, body).report().runs;
        });
        assert_eq!(found, every, "program {seed}, where it matters");
    }
    println!("{brute} runs by brute force, {bounded} where it matters, {all} up to commuting");
    assert!(all * 4 < brute && bounded < brute);
}

/// Two count in one file, without a lock.
fn count(run: &Run) {
    for _ in 0..2 {
        run.process(|fs| {
            let file = fs.open(&home(&fs), "count", Access::Ensure).unwrap();
            let mut bytes = [0];
            fs.read_at(&file, &mut bytes, 0).unwrap();
            fs.write_all_at(&file, &[bytes[0] + 1], 0).unwrap();
        });
    }
    run.join();
    let fs = run.world().process();
    let mut bytes = [0];
    fs.read_at(&fs.open(&home(&fs), "count", Access::Read).unwrap(), &mut bytes, 0).unwrap();
    assert_eq!(bytes, [2], "an update was lost");
}

#[test]
fn sim_searches_find_a_lost_update() {
    let explorer = Explorer::new("count");
    for explored in [explorer.all(count), explorer.bounded(1, count), explorer.random(100, count)] {
        let failure = explored.breaks("an update was lost");
        assert_eq!(explorer.replays(&failure, count).message, failure.message);
    }
    Explorer::new("count, undisturbed").bounded(0, count).holds();
}

// A kill in the middle of the second half of a write, and so on: faults are part of the recipe.
#[test]
fn sim_recipes_are_read_back() {
    let kinds = [
        FaultKind::Kill,
        FaultKind::Stop,
        FaultKind::ShortWrite,
        FaultKind::Error(rustix::io::Errno::NOSPC),
        FaultKind::LostReply(rustix::io::Errno::IO),
        FaultKind::ErrorsFromHere(rustix::io::Errno::IO),
    ];
    for kind in kinds {
        let explorer = Explorer::new("count, with a fault").fault(Fault { task: 1, at: 4, kind });
        let failure = explorer.all(count).breaks("");
        assert_eq!(explorer.replays(&failure, count).message, failure.message);
    }
    let schedule = Schedule(vec![0, 0, 1, 0, 2, 2]);
    assert_eq!(schedule.to_string(), "0*2 1*1 0*1 2*2");
    assert_eq!(schedule.to_string().parse(), Ok(schedule));
}

#[test]
fn sim_a_body_that_never_ends_is_found() {
    let spin = |run: &Run| {
        run.process(|fs| {
            let file = fs.open(&home(&fs), "lock", Access::Ensure).unwrap();
            fs.try_lock(&file).unwrap();
            fs.sleep(std::time::Duration::from_secs(1));
            while fs.stat_at(&home(&fs), "gone").is_err() {}
        });
        run.join();
    };
    Explorer::new("spin").bounded(0, spin).breaks("I7");
}
