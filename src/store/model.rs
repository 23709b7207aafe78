//! All backends agree with a map, and with each other: any operations, in any order, on several handles.
//!
//! ```text
//!                    ┌── memory alone                     each handle by itself
//!   operation ──►    ├── files    real │ simulated        the same for all handles, and to the last byte
//!                    └── shards   real │ simulated        the same for all backends
//! ```
//!
//! One handle of three may only read. It is the one that looks after every operation, as that changes
//! nothing: not the time of use either.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::disk::fs::FsClass;
use super::disk::fs::real::RealFs;
use super::disk::fs::sim::machine::{Content, Setup};
use super::disk::fs::sim::{HOME, World};
use super::disk::map::MapFs;
use super::disk::testing::{Faulty, quick_temp};
use super::record::{Draft, Published};
use super::status::PruneLimits;
use super::tiers::Tiers;
use crate::config::{Config, Mode};
use crate::key::{Key, KeyBuilder};
use crate::race::{Fault, with_planted};

const KEYS: u64 = 8;
const HANDLES: usize = 3;
/// The handle that may only read, where there is a directory to write to.
const READER: usize = 2;
/// Far above what the operations write, so that only pruning evicts.
const ROOMY: u64 = 4 << 20;
const SMALL: u64 = 64 << 10;
/// What an index, `CURRENT` and `meta` of all shards occupy.
const OVERHEAD: u64 = 4 * (8192 + 4096) + 4096;
/// Time passes in steps that leave no doubt on which side of this a use lies.
const TENS_OF_HOURS: u64 = 10;
const UNUSED_HOURS: u64 = 25;

#[derive(Clone, Debug)]
enum Op {
    Get {
        by: usize,
        n: u64,
    },
    Put {
        by: usize,
        n: u64,
        value: u8,
    },
    Note {
        by: usize,
        n: u64,
        value: u8,
    },
    Remove {
        by: usize,
        n: u64,
    },
    Clear {
        by: usize,
    },
    /// Prunes to the store's own limit, far above what there is, or to a small one.
    Evict {
        by: usize,
        small: bool,
    },
    PruneUnused {
        by: usize,
    },
    Verify {
        by: usize,
    },
    Reopen {
        by: usize,
    },
    Pass {
        tens: u64,
    },
    /// A bit of an entry's payload flips. Then all is verified, or the entry is looked up and put again.
    Corrupt {
        n: u64,
        note: bool,
        verify: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let (by, n) = (|| 0..HANDLES, || 0..KEYS);
    prop_oneof![
        3 => (by(), n()).prop_map(|(by, n)| Op::Get { by, n }),
        8 => (by(), n(), any::<u8>()).prop_map(|(by, n, value)| Op::Put { by, n, value }),
        4 => (by(), n(), any::<u8>()).prop_map(|(by, n, value)| Op::Note { by, n, value }),
        2 => (by(), n()).prop_map(|(by, n)| Op::Remove { by, n }),
        1 => by().prop_map(|by| Op::Clear { by }),
        1 => (by(), any::<bool>()).prop_map(|(by, small)| Op::Evict { by, small }),
        1 => by().prop_map(|by| Op::PruneUnused { by }),
        1 => by().prop_map(|by| Op::Verify { by }),
        2 => by().prop_map(|by| Op::Reopen { by }),
        2 => (1..4_u64).prop_map(|tens| Op::Pass { tens }),
        3 => (n(), any::<bool>(), any::<bool>())
            .prop_map(|(n, note, verify)| Op::Corrupt { n, note, verify }),
    ]
}

/// What an operation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused,
    Found(Option<Vec<u8>>, Option<Vec<u8>>),
    New,
    Existing(Vec<u8>),
    Was(bool),
    /// Artifacts and notes.
    Cleared(u64, u64),
    /// Whole and damaged ones.
    Verified(u64, u64),
}

fn key(n: u64) -> Key {
    KeyBuilder::new("model").u64("n", n).finish()
}

/// The payload that an operation of this number writes: begins with what is found nowhere else.
fn payload(number: usize, n: u64, value: u8) -> Vec<u8> {
    let seed = [number as u64, n].map(u64::to_le_bytes).concat();
    let mut bytes = vec![0; 40 + usize::from(value) * 80];
    blake3::Hasher::new().update(&seed).finalize_xof().fill(&mut bytes);
    bytes
}

/// What an entry is, and the hour of its last use.
type Entries = BTreeMap<(u64, bool), (Vec<u8>, u64)>;

type Corrupt = Box<dyn Fn(&[u8]) -> usize>;

/// A backend, and what should be in it.
struct Subject<F: MapFs> {
    name: &'static str,
    handles: Vec<Tiers<F>>,
    open: Box<dyn Fn(usize) -> Tiers<F>>,
    /// Flips a bit behind every place where these bytes lie on the disk; how many there were.
    corrupt: Corrupt,
    /// Lets hours pass.
    pass: Box<dyn Fn(u64)>,
    /// Of all handles together, or of each.
    models: Vec<Entries>,
    hour: u64,
    /// Something was evicted that another backend may have kept.
    evicted: bool,
}

/// A [`Subject`] on whatever file system.
trait Run {
    /// Does an operation and checks what it came to. `None` if another backend may tell otherwise.
    fn step(&mut self, number: usize, op: &Op) -> Option<Outcome>;
    /// All handles see what should be there, and no more.
    fn check(&mut self, all: bool);
}

impl<F: MapFs> Subject<F> {
    fn new(
        name: &'static str,
        handles: usize,
        open: impl Fn(usize) -> Tiers<F> + 'static,
        corrupt: impl Fn(&[u8]) -> usize + 'static,
        pass: impl Fn(u64) + 'static,
    ) -> Self {
        Subject {
            name,
            handles: (0..HANDLES).map(&open).collect(),
            open: Box::new(open),
            corrupt: Box::new(corrupt),
            pass: Box::new(pass),
            models: vec![Entries::new(); handles],
            hour: 0,
            evicted: false,
        }
    }

    fn is_memory(&self) -> bool {
        self.models.len() > 1
    }

    fn model(&mut self, by: usize) -> &mut Entries {
        let of = if self.is_memory() { by } else { 0 };
        &mut self.models[of]
    }

    fn may_write(&self, by: usize) -> bool {
        self.is_memory() || by != READER
    }

    fn found(&self, by: usize, n: u64) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let artifact = self.handles[by].get(&key(n)).map(|record| record.payload().to_vec());
        (artifact, self.handles[by].note(&key(n)))
    }

    /// A look that counts as a use.
    fn used(&mut self, by: usize, n: u64) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let found = self.found(by, n);
        let hour = self.hour;
        if self.may_write(by) {
            for note in [false, true] {
                self.model(by).entry((n, note)).and_modify(|(_, used)| *used = hour);
            }
        }
        found
    }

    fn put(&mut self, by: usize, n: u64, bytes: &[u8]) -> Outcome {
        let hour = self.hour;
        let may_write = self.may_write(by);
        let before = self.model(by).get(&(n, false)).cloned();
        let put = self.handles[by].put(&key(n), Draft::new(bytes.to_vec()));
        match put {
            Ok(Published::New(record)) => {
                assert_eq!((record.payload(), &before), (bytes, &None), "{}", self.name);
                self.model(by).insert((n, false), (bytes.to_vec(), hour));
                Outcome::New
            }
            Ok(Published::Existing(record)) => {
                let before = before.expect("what is there was put");
                assert_eq!(record.payload(), before.0, "{}", self.name);
                self.used(by, n);
                Outcome::Existing(before.0)
            }
            Err(error) => {
                assert!(!may_write, "{}: {error}", self.name);
                Outcome::Refused
            }
        }
    }

    fn set_note(&mut self, by: usize, n: u64, bytes: Vec<u8>) -> Outcome {
        let set = self.handles[by].set_note(&key(n), &bytes);
        assert_eq!(set.is_ok(), self.may_write(by), "{}: {set:?}", self.name);
        if set.is_err() {
            return Outcome::Refused;
        }
        let hour = self.hour;
        self.model(by).insert((n, true), (bytes, hour));
        Outcome::Done
    }

    fn verify(&mut self, by: usize, damaged: u64) -> Outcome {
        let Ok(verified) = self.handles[by].verify(|_, _| ()) else {
            assert!(self.is_memory() || !self.may_write(by), "{}: not verified", self.name);
            return Outcome::Refused;
        };
        let told = (verified.whole, verified.damaged);
        assert_eq!(told, (self.model(by).len() as u64, damaged), "{}", self.name);
        Outcome::Verified(told.0, told.1)
    }

    fn prune(&mut self, by: usize, limits: PruneLimits) -> bool {
        let pruned = self.handles[by].prune(limits);
        let may = !self.is_memory() && self.may_write(by);
        assert_eq!(pruned.is_ok(), may, "{}: {pruned:?}", self.name);
        if let (Ok(usage), Some(limit)) = (pruned, limits.max_size) {
            assert!(usage.occupied <= limit + OVERHEAD, "I13: {}: {usage:?}", self.name);
        }
        may
    }

    /// What was evicted is gone from the model too; what is there has to be what was put.
    fn forget_what_was_evicted(&mut self) {
        self.evicted = true;
        for n in 0..KEYS {
            let (artifact, note) = self.found(READER, n);
            for (found, is_note) in [(artifact, false), (note, true)] {
                if found.is_none() {
                    self.models[0].remove(&(n, is_note));
                }
            }
        }
    }

    fn corrupt(&mut self, number: usize, n: u64, note: bool, verify: bool) -> Outcome {
        let Some((bytes, _)) =
            self.models[0].get(&(n, note)).filter(|_| !self.is_memory()).cloned()
        else {
            return Outcome::Done;
        };
        assert!((self.corrupt)(&bytes[..32]) > 0, "{}: the entry lies nowhere", self.name);
        self.models[0].remove(&(n, note));
        let (artifact, of_note) = self.found(READER, n);
        let found = if note { of_note } else { artifact };
        assert_eq!(found, None, "I1: {}: what is damaged was believed", self.name);
        if verify {
            return self.verify(0, 1);
        }
        self.used(0, n);
        let anew = payload(number, n, 3);
        let put = if note { self.set_note(1, n, anew) } else { self.put(1, n, &anew) };
        assert!(matches!(put, Outcome::New | Outcome::Done), "{}: {put:?}", self.name);
        put
    }
}

impl<F: MapFs> Run for Subject<F> {
    fn step(&mut self, number: usize, op: &Op) -> Option<Outcome> {
        let hour = self.hour;
        let outcome = match *op {
            Op::Get { by, n } => {
                let (artifact, note) = self.used(by, n);
                Outcome::Found(artifact, note)
            }
            Op::Put { by, n, value } => self.put(by, n, &payload(number, n, value)),
            Op::Note { by, n, value } => self.set_note(by, n, payload(number, n, value)),
            Op::Remove { by, n } => {
                let removed = self.handles[by].remove(&key(n));
                assert_eq!(removed.is_ok(), self.may_write(by), "{}: {removed:?}", self.name);
                match removed {
                    Ok(was) => {
                        let known = self.model(by).remove(&(n, false)).is_some();
                        assert_eq!(was, known, "{}", self.name);
                        Outcome::Was(was)
                    }
                    Err(_) => Outcome::Refused,
                }
            }
            Op::Clear { by } => {
                let cleared = self.handles[by].clear();
                let notes = self.model(by).keys().filter(|(_, note)| *note).count() as u64;
                let artifacts = self.model(by).len() as u64 - notes;
                if self.may_write(by) {
                    self.model(by).clear();
                }
                match cleared {
                    Ok(usage) => {
                        let told = (usage.artifacts.entries, usage.notes.entries);
                        assert_eq!(told, (artifacts, notes), "{}", self.name);
                        Outcome::Cleared(artifacts, notes)
                    }
                    Err(_) => Outcome::Refused,
                }
            }
            Op::Evict { by, small } => {
                let max_size = small.then_some(SMALL);
                if self.prune(by, PruneLimits { max_size, ..PruneLimits::default() }) && small {
                    self.forget_what_was_evicted();
                }
                Outcome::Done
            }
            Op::PruneUnused { by } => {
                let unused_for = Some(Duration::from_secs(UNUSED_HOURS * 3600));
                if self.prune(by, PruneLimits { unused_for, ..PruneLimits::default() }) {
                    self.models[0].retain(|_, (_, used)| hour - *used <= UNUSED_HOURS);
                }
                Outcome::Done
            }
            Op::Verify { by } => self.verify(by, 0),
            Op::Reopen { by } => {
                self.handles[by] = (self.open)(by);
                if self.is_memory() {
                    self.models[by].clear();
                }
                Outcome::Done
            }
            Op::Pass { tens } => {
                (self.pass)(tens * TENS_OF_HOURS);
                self.hour += tens * TENS_OF_HOURS;
                Outcome::Done
            }
            Op::Corrupt { n, note, verify } => self.corrupt(number, n, note, verify),
        };
        (!self.evicted && !self.is_memory()).then_some(outcome)
    }

    fn check(&mut self, all: bool) {
        let handles = if all || self.is_memory() { 0..HANDLES } else { READER..HANDLES };
        for by in handles {
            for n in 0..KEYS {
                let found = self.found(by, n);
                let model = self.model(by).clone();
                let known = |note| model.get(&(n, note)).map(|(bytes, _)| bytes.clone());
                assert_eq!(found, (known(false), known(true)), "{}: {n} by {by}", self.name);
            }
        }
    }
}

fn tiers<F: MapFs + Clone>(fs: F, dir: &Path, by: usize) -> Tiers<F> {
    let mode = if by == READER { Mode::ReadOnly } else { Mode::ReadWrite };
    // Nothing is kept in memory, which would stand before the disk.
    let config = Config { max_size: ROOMY, memory_size: 0, mode, ..Config::default() };
    Tiers::open_on(fs, config.dir(dir))
}

fn memory() -> Subject<RealFs> {
    let open = |_| Tiers::open_on(RealFs, Config { dir: None, ..Config::default() });
    Subject::new("memory alone", HANDLES, open, |_| 0, |_| ())
}

fn real(name: &'static str, files_only: bool) -> Subject<Faulty> {
    let temp = std::rc::Rc::new(quick_temp());
    let (dir, kept, fs) = (temp.path().join("cache"), temp.clone(), Faulty::default());
    if files_only {
        fs.become_class(FsClass::CopyOnWrite);
    }
    let (opened, below) = (fs.clone(), dir.clone());
    let corrupt = move |marker: &[u8]| {
        let mut places = 0;
        for path in files(kept.path()) {
            let bytes = std::fs::read(&path).unwrap();
            for at in places_of(marker, &bytes) {
                // In place, as others have it mapped.
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                file.write_all_at(&[bytes[at + 35] ^ 4], at as u64 + 35).unwrap();
                places += 1;
            }
        }
        places
    };
    let pass = move |hours: u64| {
        if !files_only {
            return fs.pass(hours * 3600);
        }
        // The kernel has but one clock: its stamps go back instead.
        for path in files(&below) {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            let earlier: SystemTime = modified - Duration::from_secs(hours * 3600);
            file.set_modified(earlier).unwrap();
        }
    };
    Subject::new(name, 1, move |by| tiers(opened.clone(), &dir, by), corrupt, pass)
}

fn simulated(name: &'static str, class: FsClass) -> Subject<super::disk::fs::sim::SimFs> {
    let world = World::new(Setup { class, ..Setup::default() }, 1);
    let dir = PathBuf::from(format!("{HOME}/cache"));
    let (damaged, later) = (world.clone(), world.clone());
    let corrupt = move |marker: &[u8]| {
        damaged.machine(|machine| {
            let mut places = 0;
            for path in machine.paths(HOME, |content| matches!(content, Content::File { .. })) {
                let bytes = machine.bytes(&path).expect("a file");
                for at in places_of(marker, &bytes) {
                    machine.flip(&path, at + 35);
                    places += 1;
                }
            }
            places
        })
    };
    let pass = move |hours: u64| {
        later.machine(|machine| machine.clock_ns += i128::from(hours) * 3_600_000_000_000);
    };
    Subject::new(name, 1, move |by| tiers(world.process(), &dir, by), corrupt, pass)
}

fn places_of(marker: &[u8], bytes: &[u8]) -> Vec<usize> {
    let candidates = bytes.windows(marker.len()).enumerate();
    candidates.filter(|(_, window)| *window == marker).map(|(at, _)| at).collect()
}

/// All files below `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flatten().flat_map(|entry| below(entry.path())).collect()
}

fn run(ops: &[Op]) {
    let mut subjects: [Box<dyn Run>; 5] = [
        Box::new(memory()),
        Box::new(real("files", true)),
        Box::new(simulated("simulated files", FsClass::CopyOnWrite)),
        Box::new(real("shards", false)),
        Box::new(simulated("simulated shards", FsClass::Mappable)),
    ];
    for (number, op) in ops.iter().enumerate() {
        let mut told: Vec<Outcome> = Vec::new();
        for subject in &mut subjects {
            told.extend(subject.step(number, op));
            subject.check(false);
        }
        told.dedup();
        assert!(told.len() <= 1, "{op:?}: backends differ: {told:?}");
    }
    subjects.iter_mut().for_each(|subject| subject.check(true));
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    // Mutants: notes of which the first writer wins; a removal that removes nothing, in files and in shards; a
    // clearing that leaves the index; a prune that asks nobody's age; a damaged record that `verify` leaves; a use
    // that files forget; a verification that is a use (as it was in files, until this test); a reader that
    // remembers uses in an index.
    #[test]
    fn backends_agree_with_a_map_and_each_other(ops in ops()) {
        run(&ops);
    }
}

#[test]
fn a_planted_fault_is_seen() {
    for fault in [
        "the checksum of a record is not compared",
        "a record is published of which half was written",
        "nothing is ever evicted",
    ] {
        let config = ProptestConfig {
            max_shrink_iters: 0,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let mut runner =
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let ran = with_planted(Fault(fault), || {
            runner.run(&ops(), |ops| {
                run(&ops);
                Ok(())
            })
        });
        assert!(ran.is_err(), "not seen: {fault}");
    }
}
