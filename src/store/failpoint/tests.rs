//! Every point × {exit, panic, error, sleep}: whatever happens at one, the cache works on, and nothing is left behind.
//!
//! ```text
//!   work    first get ► notes ► large record ► growth ► eviction with use ► clear ► recovery from segments alone
//!            └─ at the point's first pass: the act
//!   after   every answer is right ► a put is found by another store ► verify finds no damage ► one index, no temporary file,
//!           no lock held, as many descriptors as before
//! ```
//!
//! What an error is here: the next operation on a file behind the point fails.

use std::cell::Cell;
use std::convert::Infallible;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::*;
use crate::config::Config;
use crate::key::Key;
use crate::store::disk::testing::{Faulty, again, key, quick_temp, role, succeed, test_path};
use crate::store::disk::trust::SPACE;
use crate::store::tiers::Tiers;
use crate::store::{Draft, Origin, PruneLimits};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Exit,
    Panic,
    Error(Errno),
    Sleep,
}

const CODE: i32 = 77;
/// Long for a machine, short for whoever waits.
const SLEEP: Duration = Duration::from_millis(20);

thread_local! {
    static PLAN: Cell<Option<(Step, Act)>> = const { Cell::new(None) };
    static FS: Cell<Option<Faulty>> = const { Cell::new(None) };
}

fn hook(step: Step) {
    let Some((at, act)) = PLAN.get().filter(|(at, _)| *at == step) else { return };
    PLAN.set(None);
    match act {
        // SAFETY: ends the process, and nothing else.
        Act::Exit => unsafe { nix::libc::_exit(CODE) },
        Act::Panic => std::panic::resume_unwind(Box::new(at)),
        Act::Error(errno) => {
            let fs = FS.take().expect("the work has a file system");
            fs.fail(0, errno);
            FS.set(Some(fs));
        }
        Act::Sleep => std::thread::sleep(SLEEP),
    }
}

/// A cache that the work is done in.
struct Work {
    dir: PathBuf,
    fs: Faulty,
    store: Tiers<Faulty>,
    panics: bool,
    panicked: bool,
}

fn open(fs: &Faulty, dir: &Path, max_size: u64) -> Tiers<Faulty> {
    let mut config = Config::default().dir(dir);
    // Memory would answer what the directory is to be asked for.
    (config.memory_size, config.max_size) = (1024, max_size);
    Tiers::open_on(fs.clone(), config)
}

fn payload(n: u64, length: usize) -> Vec<u8> {
    n.to_le_bytes().into_iter().cycle().take(length).collect()
}

const SMALL: u64 = 1 << 20;
const LARGE: u64 = 4 << 30;

impl Work {
    fn new(dir: &Path, max_size: u64, plan: Option<(Step, Act)>) -> Work {
        super::watch(hook);
        let fs = Faulty::default();
        let store = open(&fs, dir, max_size);
        FS.set(Some(fs.clone()));
        PLAN.set(plan);
        let panics = matches!(plan, Some((_, Act::Panic)));
        Work { dir: dir.to_owned(), fs, store, panics, panicked: false }
    }

    fn act(&mut self, act: impl FnOnce(&Tiers<Faulty>)) {
        match catch_unwind(AssertUnwindSafe(|| act(&self.store))) {
            Ok(()) => {}
            Err(panic) if self.panics && panic.is::<Step>() => {
                assert!(!self.panicked, "once");
                self.panicked = true;
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// I15: whatever happens below, the caller has a right value.
    fn make(&mut self, n: u64, length: usize) {
        self.act(|store| is_right(store, n, length, Duration::ZERO));
    }

    /// Comes to every step of the plan's kind of cache.
    fn run(&mut self) {
        self.make(0, 300);
        for byte in 0..3 {
            self.act(|store| drop(store.set_note(&key(1), &[byte; 200])));
        }
        self.make(2, 20_000);
        (10..110).for_each(|n| self.make(n, 700));
        (200..320).for_each(|n| self.make(n, 9000));
        self.act(|store| drop(store.clear()));
        (10..20).for_each(|n| self.make(n, 700));
        // All that is left to recover from is the segments.
        for name in names(&self.dir.join(SPACE).join("s/00")) {
            if name.starts_with("idx-") || name == "CURRENT" {
                fs::remove_file(self.dir.join(SPACE).join("s/00").join(name)).unwrap();
            }
        }
        (10..30).for_each(|n| self.make(n, 700));
    }

    /// Comes to where what is dear is carried on, as what lies beside it goes.
    fn run_long(&mut self) {
        for n in 0..2000 {
            let cost = if n % 50 == 0 { SLEEP / 10 } else { Duration::ZERO };
            self.act(|store| is_right(store, 1000 + n, 700, cost));
        }
    }

    /// Comes to the steps that only large caches have.
    fn run_large(&mut self) {
        (1000..1040).for_each(|n| self.make(n, 60_000));
        (1100..1140).for_each(|n| self.make(n, 900_000));
    }
}

fn is_right(store: &Tiers<Faulty>, n: u64, length: usize, cost: Duration) {
    let made = store.try_get_with(&key(n), || {
        std::thread::sleep(cost);
        Ok::<_, Infallible>(Draft::new(payload(n, length)))
    });
    let Ok((record, _)) = made;
    assert!(record.payload() == payload(n, length), "key {n}");
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn fresh(n: u64) -> Key {
    key(1_000_000 + n)
}

/// What holds after everything. `store` may have been there when it happened.
fn works(store: &Tiers<Faulty>, fs: &Faulty, dir: &Path, max_size: u64) {
    // Whoever met a full disk does not try again at once.
    fs.pass(120);
    let began = Instant::now();
    for n in [0, 10, 11, 50] {
        is_right(store, n, if n == 0 { 300 } else { 700 }, Duration::ZERO);
    }
    // Of every shard of the cache.
    for n in 0..32 {
        let put = store.put(&fresh(n), Draft::new(payload(n, 400)));
        assert!(put.is_ok(), "{put:?}");
    }
    let other = open(fs, dir, max_size);
    for n in 0..32 {
        let found = other.get(&fresh(n)).map(|record| record.payload().to_vec());
        assert!(found == Some(payload(n, 400)), "key {n}");
    }
    assert_eq!(store.verify(|_, _| ()).unwrap().damaged, 0);
    // Nobody holds a lock: a stranger makes each key at once.
    for n in 0..40 {
        let got = other.try_get_with(&key(n), || Ok::<_, Infallible>(Draft::new(payload(n, 700))));
        assert!(got.is_ok_and(|(_, origin)| origin != Origin::Waited));
    }
    let reasons = other.stats().reasons;
    for duplicate in ["deadline-passed", "lock-unavailable"] {
        assert!(!reasons.contains_key(duplicate), "{reasons:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(4), "something was waited for");
    // What a dead one left behind is swept when it is old enough.
    fs.pass(2 * 3600);
    store.prune(PruneLimits { max_size: Some(0), unused_for: None }).unwrap();
    for shard in names(&dir.join(SPACE).join("s")) {
        let names = names(&dir.join(SPACE).join("s").join(&shard));
        let count = |prefix| names.iter().filter(|name| name.starts_with(prefix)).count();
        assert!(count("tmp-") == 0 && count("idx-") <= 1 && count("seg-") == 0, "{names:?}");
    }
}

fn descriptors() -> usize {
    names(Path::new("/proc/self/fd")).len()
}

/// Which steps the two kinds of work come to.
fn kinds() -> [(u64, &'static [Step]); 2] {
    static SMALLS: std::sync::OnceLock<Vec<Step>> = std::sync::OnceLock::new();
    let smalls = SMALLS.get_or_init(|| {
        let all = Step::ALL.iter().copied();
        all.filter(|step| *step != Step::BlocksAllocated).collect()
    });
    [(SMALL, smalls), (LARGE, &[Step::BlocksAllocated])]
}

fn work(dir: &Path, max_size: u64, plan: (Step, Act)) -> Work {
    let mut work = Work::new(dir, max_size, Some(plan));
    match plan.0 {
        Step::BlocksAllocated => work.run_large(),
        Step::EntryCarried => work.run_long(),
        _ => work.run(),
    }
    work.fs.heal();
    assert_eq!(PLAN.get(), None, "the work does not come to {}", plan.0.name());
    work
}

/// The acts that leave the process alive.
fn table(dir: &Path) {
    let acts = [
        Act::Panic,
        Act::Sleep,
        Act::Error(Errno::NOSPC),
        Act::Error(Errno::IO),
        Act::Error(Errno::MFILE),
    ];
    for (max_size, steps) in kinds() {
        for &step in steps {
            for act in acts {
                let what = format!("{} × {act:?}", step.name());
                println!("{what}");
                let dir = dir.join(step.name());
                let before = descriptors();
                let work = work(&dir, max_size, (step, act));
                assert_eq!(work.panicked, act == Act::Panic, "{what}");
                works(&work.store, &work.fs, &dir, max_size);
                drop(work);
                FS.set(None);
                assert_eq!(descriptors(), before, "descriptors after {what}");
                fs::remove_dir_all(&dir).unwrap();
            }
        }
    }
}

/// I7, I11, I15. In a process of its own, whose descriptors are counted. Found by it: a
/// panic at the end of a turn left the shard locked to the threads of its process.
#[test]
fn every_point_may_panic_fail_or_take_its_time() {
    match role() {
        Some((_, dir)) => table(&dir),
        None => {
            let temp = quick_temp();
            let test = test_path!(every_point_may_panic_fail_or_take_its_time);
            succeed(again(test, "table", temp.path()));
        }
    }
}

/// I11. One process per point, which ends there as by `kill -9`: the next one finds a cache that works.
#[test]
fn every_point_may_be_the_last() {
    if let Some((role, dir)) = role() {
        let (max_size, step) = role.split_once(' ').unwrap();
        let step = *Step::ALL.iter().find(|known| known.name() == step).unwrap();
        work(&dir, max_size.parse().unwrap(), (step, Act::Exit));
        return;
    }
    let temp = quick_temp();
    super::watch(hook);
    for (max_size, steps) in kinds() {
        for step in steps {
            let dir = temp.path().join(step.name());
            let role = format!("{max_size} {}", step.name());
            let output = again(test_path!(every_point_may_be_the_last), &role, &dir).output();
            let status = output.unwrap().status;
            assert_eq!(status.code(), Some(CODE), "{}", step.name());
            let fs = Faulty::default();
            let store = open(&fs, &dir, max_size);
            works(&store, &fs, &dir, max_size);
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}
