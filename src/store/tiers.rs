//! The tiers put together: what is asked of which, in which order, and what is counted.
//!
//! ```text
//!   look up    memory ► directory ► base directory      what is found below is kept above
//!   publish    directory (first wins) ► memory          what cannot be published is kept in memory
//! ```
//!
//! Nothing a directory does reaches a caller of `try_get_with`: it is counted, logged once per reason, and ends
//! in a make.

use std::time::Duration;

use super::disk::backend::Backend;
use super::disk::fs::real::RealFs;
use super::disk::index::find::Care;
use super::disk::large::{Failure, Found, Lookup, Put, Replace};
use super::disk::lock::{self, LockFile};
use super::disk::map::MapFs;
use super::disk::record::Kind;
use super::disk::root::Root;
use super::disk::shard::lend::{Lent, Unlent};
use super::disk::totals::{self, Totals};
use super::disk::trust::Purpose;
use super::disk::usage::{Entry, ShardUsage, Usage, Verified};
use super::failpoint::{self, Step};
use super::flight::{Duplicate, Got, SingleFlight};
use super::memory::Memory;
use super::record::{Draft, Origin, Published, Record};
use super::status::{Inspection, PruneLimits, Status};
use crate::config::{Config, Mode};
use crate::error::StoreError;
use crate::key::{Key, KeyBuilder};
use crate::race::{Fault, planted};
use crate::stats::{Counters, Stats};
use crate::sync::{self, Arc, AtomicBool, Ordering};

/// A key whose makers died this often is not waited for.
const POISONED: u64 = 3;
/// A fault that tests plant.
const SHORT_KEYS: Fault = Fault("records in memory are told apart by six bits of their keys");
/// The longest note.
const MAX_NOTE: usize = 1 << 20;

/// A payload to be mapped, or, where that cannot be, in memory.
#[derive(Debug)]
#[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "for the code layer"))]
pub(crate) enum Loan<H> {
    /// In a file, which stays as it is.
    File(Lent<H>),
    /// In memory, and why.
    Bytes(Record, Unlent),
}

/// Where a record that is made is written.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// With others, unless it is too long for that.
    AsFits,
    /// Where it can be lent.
    Alone,
}

/// A directory and its records.
struct Directory<F: MapFs> {
    root: Arc<Root<F>>,
    records: Backend<F>,
}

/// Everything behind a [`Store`](super::Store).
pub(super) struct Tiers<F: MapFs> {
    config: Config,
    status: Status,
    counters: Counters,
    memory: Memory<Record>,
    /// Notes of this process alone, where there is no directory to keep them in.
    notes: Memory<Arc<Vec<u8>>>,
    flight: SingleFlight<Record, LockFile<F>>,
    dir: Option<Directory<F>>,
    /// Whether the directory may be written.
    writes: bool,
    base: Option<Directory<F>>,
    process: u32,
    /// Whether its counts were written down.
    told: AtomicBool,
}

impl Tiers<RealFs> {
    pub(super) fn open(config: Config) -> Self {
        Self::open_on(RealFs, config)
    }
}

impl<F: MapFs + Clone> Tiers<F> {
    /// Opens the tiers on this file system.
    pub(super) fn open_on(fs: F, config: Config) -> Self {
        let counters = Counters::default();
        let open = |path: &std::path::Path, purpose, max_size| {
            Root::open(fs.clone(), path, purpose)
                .map(|root| Directory { records: Backend::new(root.clone(), max_size), root })
        };
        let (dir, status) = match (config.mode, &config.dir) {
            (Mode::Off, _) => (None, memory_only("the mode is off")),
            (_, None) => (None, memory_only("no directory is known: set CACHELIFT_DIR or HOME")),
            (mode, Some(path)) => {
                let read_only = mode == Mode::ReadOnly;
                let purpose = if read_only { Purpose::CacheReadOnly } else { Purpose::Cache };
                match open(path, purpose, config.max_size) {
                    Ok(dir) => {
                        let read_only = !dir.root.held().writable;
                        let path = dir.root.path().to_owned();
                        (Some(dir), Status::Disk { dir: path, read_only })
                    }
                    Err(refusal) => {
                        counters.reason(refusal.cause.reason().name(), &refusal);
                        (None, memory_only(refusal.to_string()))
                    }
                }
            }
        };
        let base = config.base_dir.as_deref().filter(|_| config.mode != Mode::Off);
        let base = base.and_then(|path| match open(path, Purpose::Base, config.max_size) {
            Ok(base) => Some(base),
            Err(refusal) => {
                counters.reason(refusal.cause.reason().name(), &refusal);
                None
            }
        });
        let writes = matches!(status, Status::Disk { read_only: false, .. });
        // Who finds nothing that others made has no reason to wait for them.
        let locks = dir
            .as_ref()
            .filter(|_| writes && config.mode == Mode::ReadWrite)
            .map(|dir| LockFile::new(dir.root.clone(), lock::FLIGHT));
        let (process, random) = (fs.clone(), fs.clone());
        let seed = move || {
            let [seed @ .., _, _, _, _, _, _, _, _] = random.random();
            u64::from_le_bytes(seed)
        };
        let flight = SingleFlight::new(locks, move || process.process(), seed);
        Tiers {
            memory: Memory::new(config.memory_size),
            notes: Memory::new(config.memory_size / 16),
            process: std::process::id(),
            told: AtomicBool::new(false),
            config,
            status,
            counters,
            flight,
            dir,
            writes,
            base,
        }
    }
}

impl<F: MapFs> Tiers<F> {
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn seed(&self, mut parts: KeyBuilder) -> KeyBuilder {
        parts.str("namespace", &self.config.namespace).str("salt", &self.config.salt);
        parts
    }

    pub(super) fn get(&self, key: &Key) -> Option<Record> {
        match self.look_up(key, Care::Quick) {
            Some((record, origin)) => {
                self.counters.answered(origin);
                Some(record)
            }
            None => {
                self.counters.missed();
                None
            }
        }
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.memory.get_with(key, |_| ()).is_some()
            || self.read_dirs().any(|dir| dir.records.contains(key))
    }

    pub(super) fn put(&self, key: &Key, draft: Draft) -> Result<Published, StoreError> {
        let size = draft.payload.len();
        let Some(record) = Record::encode(key, Kind::Artifact, &dated(draft, Duration::ZERO))
        else {
            return Err(StoreError::TooLarge(size));
        };
        let result = match &self.dir {
            Some(_) => self.publish(key, Room::AsFits, &record),
            None => Ok(match self.memory.get(key) {
                Some(theirs) => Published::Existing(theirs),
                None => Published::New(record.clone()),
            }),
        };
        match &result {
            Ok(Published::Existing(theirs)) => self.keep(key, theirs.clone()),
            _ => self.keep(key, record),
        };
        result
    }

    pub(super) fn try_get_with<E>(
        &self,
        key: &Key,
        make: impl FnOnce() -> Result<Draft, E>,
    ) -> Result<(Record, Origin), E> {
        if let Some((record, origin)) = self.look_up(key, Care::Quick) {
            self.counters.answered(origin);
            return Ok((record, origin));
        }
        let began = sync::now();
        let got = self.flight.get(key, self, || self.make(key, Room::AsFits, make))?;
        if got.origin == Origin::Waited {
            self.counters.waited_for(sync::now().duration_since(began));
        }
        Ok(self.settle(got))
    }

    pub(super) fn try_get_many_with<E>(
        &self,
        keys: &[Key],
        mut make: impl FnMut(usize) -> Result<Draft, E>,
    ) -> Vec<Result<(Record, Origin), E>> {
        self.flight
            .get_many(keys, self, |place| self.make(&keys[place], Room::AsFits, || make(place)))
            .into_iter()
            .map(|result| result.map(|got| self.settle(got)))
            .collect()
    }

    /// As [`try_get_with`](Self::try_get_with) for what is to be mapped in place of read.
    pub(super) fn try_lend_with<E>(
        &self,
        key: &Key,
        make: impl FnOnce() -> Result<Draft, E>,
    ) -> Result<(Loan<F::Handle>, Origin), E> {
        if let Ok(lent) = self.lend(key) {
            self.counters.answered(Origin::Disk);
            return Ok((Loan::File(lent), Origin::Disk));
        }
        let began = sync::now();
        let got = self.flight.get(key, self, || self.make(key, Room::Alone, make))?;
        if got.origin == Origin::Waited {
            self.counters.waited_for(sync::now().duration_since(began));
        }
        let (record, origin) = self.settle(got);
        let loan = match self.lend(key) {
            Ok(lent) => {
                // Who has mapped it needs no copy.
                self.memory.remove(&memory_key(key));
                Loan::File(lent)
            }
            Err(why) => Loan::Bytes(self.keep(key, record), why),
        };
        Ok((loan, origin))
    }

    /// Whether there is a directory whose records can be lent.
    pub(super) fn lends(&self) -> bool {
        self.read_dirs().any(|dir| dir.records.lends())
    }

    /// The payload of `key` as a place in a file. What is found out of it is remembered, in the directory that may be
    /// written.
    fn lend(&self, key: &Key) -> Result<Lent<F::Handle>, Unlent> {
        let known = self.read_dirs().find_map(|dir| dir.records.way(key));
        let mut why = Unlent::FileSystem;
        for dir in self.read_dirs() {
            match dir.records.lend(key, known.as_ref()) {
                Ok(mut lent) => {
                    if let Some(way) = lent.way.take()
                        && let Some(dir) = self.writable()
                    {
                        dir.records.set_way(key, &way);
                    }
                    return Ok(lent);
                }
                Err(unlent) => why = unlent,
            }
        }
        Err(why)
    }

    pub(super) fn note(&self, key: &Key) -> Option<Vec<u8>> {
        if self.dir.is_none() || self.config.mode == Mode::Refresh {
            return self.notes.get(key).map(|note| note.to_vec());
        }
        self.read_dirs().find_map(|dir| match dir.records.get(key, Kind::Note, Care::Thorough) {
            Lookup::Hit(found) => Some(found.bytes[found.layout.payload].to_vec()),
            Lookup::Miss(_) => None,
        })
    }

    pub(super) fn set_note(&self, key: &Key, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.len() > MAX_NOTE {
            return Err(StoreError::TooLarge(bytes.len()));
        }
        if self.dir.is_none() || self.config.mode == Mode::Refresh {
            self.notes.replace(key, Arc::new(bytes.to_vec()), bytes.len() as u64);
        }
        let draft = dated(Draft::new(bytes.to_vec()), Duration::ZERO);
        let record = Record::encode(key, Kind::Note, &draft).expect("a note is short");
        match self.writable() {
            Some(dir) => dir.records.set_note(key, record.bytes()).map_err(error),
            None if self.dir.is_none() => Ok(()),
            None => Err(self.unavailable()),
        }
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = self.counters.snapshot();
        for dir in self.dir.iter().chain(&self.base) {
            for (reason, count) in dir.root.counters().met() {
                *stats.reasons.entry(reason.name()).or_default() += count;
            }
        }
        stats.reasons.remove("absent");
        if self.memory.evictions() > 0 {
            stats.reasons.insert("evicted-from-memory", self.memory.evictions());
        }
        stats
    }

    pub(super) fn usage(&self) -> Usage {
        self.dir.as_ref().map(|dir| dir.records.usage()).unwrap_or_default()
    }

    pub(super) fn shards(&self) -> Vec<ShardUsage> {
        self.dir.as_ref().map(|dir| dir.records.fills()).unwrap_or_default()
    }

    pub(super) fn totals(&self) -> Totals {
        self.dir.as_ref().map(|dir| totals::read(&dir.root)).unwrap_or_default()
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if let Some(dir) = &self.dir {
            dir.records.for_each(|entry| entries.push(entry));
        }
        entries
    }

    pub(super) fn inspect(&self, key: &Key) -> Option<Inspection> {
        let (record, origin) = self.look_up(key, Care::Thorough)?;
        let record_bytes = record.bytes().len();
        Some(Inspection { record, origin, record_bytes })
    }

    pub(super) fn clear(&self) -> Result<Usage, StoreError> {
        self.memory.clear();
        self.notes.clear();
        let dir = self.writable().ok_or_else(|| self.unavailable())?;
        dir.records.clear().map_err(error)
    }

    pub(super) fn remove(&self, key: &Key) -> Result<bool, StoreError> {
        let had = self.memory.remove(key).is_some();
        match self.writable() {
            Some(dir) => {
                dir.records.remove(key, Kind::Artifact).map(|was| was || had).map_err(error)
            }
            None if self.dir.is_none() => Ok(had),
            None => Err(self.unavailable()),
        }
    }

    pub(super) fn prune(&self, limits: PruneLimits) -> Result<Usage, StoreError> {
        let dir = self.writable().ok_or_else(|| self.unavailable())?;
        let max_size = limits.max_size.unwrap_or(self.config.max_size);
        let unused_s = limits.unused_for.map(|time| time.as_secs());
        dir.records.prune(max_size, unused_s).map_err(error)?;
        Ok(dir.records.usage())
    }

    pub(super) fn verify(&self, step: impl FnMut(usize, usize)) -> Result<Verified, StoreError> {
        let dir = self.writable().ok_or_else(|| self.unavailable())?;
        dir.records.verify(step).map_err(error)
    }

    /// The directories to read, the nearer one first: none where everything is to be made anew.
    fn read_dirs(&self) -> impl Iterator<Item = &Directory<F>> {
        let reads = self.config.mode != Mode::Refresh;
        self.dir.iter().chain(&self.base).filter(move |_| reads)
    }

    fn writable(&self) -> Option<&Directory<F>> {
        self.dir.as_ref().filter(|_| self.writes)
    }

    fn unavailable(&self) -> StoreError {
        StoreError::Unavailable(self.status.to_string())
    }

    fn look_up(&self, key: &Key, care: Care) -> Option<(Record, Origin)> {
        if let Some(record) = self.memory.get(&memory_key(key)) {
            return Some((record, Origin::Memory));
        }
        self.read_dirs().find_map(|dir| match dir.records.get(key, Kind::Artifact, care) {
            Lookup::Hit(found) => Some((self.keep(key, verified(found)), Origin::Disk)),
            Lookup::Miss(_) => None,
        })
    }

    /// Keeps a record in memory, and gives back the one that is there then.
    fn keep(&self, key: &Key, record: Record) -> Record {
        let weight = record.bytes().len() as u64;
        self.memory.insert(&memory_key(key), record, weight)
    }

    fn make<E>(
        &self,
        key: &Key,
        room: Room,
        make: impl FnOnce() -> Result<Draft, E>,
    ) -> Result<Record, E> {
        let _attempt = self.writable().map(|dir| dir.records.attempt(key));
        let began = sync::now();
        let draft = make();
        let cost = sync::now().duration_since(began);
        self.counters.made_in(cost);
        failpoint::at(Step::Made);
        let draft = dated(draft?, cost);
        let Some(record) = Record::encode(key, Kind::Artifact, &draft) else {
            self.counters.reason("too-large", "a payload is over 256 MiB");
            return Ok(self.keep(key, Record::unpublished(draft)));
        };
        let record = match self.publish(key, room, &record) {
            // It was made twice; one of the two is everybody's.
            Ok(Published::Existing(theirs)) => {
                failpoint::at(Step::Published);
                theirs
            }
            Ok(Published::New(_)) => {
                failpoint::at(Step::Published);
                record
            }
            // The directory has counted why it was not published.
            Err(_) => record,
        };
        Ok(match room {
            Room::AsFits => self.keep(key, record),
            // It is about to be mapped.
            Room::Alone => record,
        })
    }

    fn publish(&self, key: &Key, room: Room, record: &Record) -> Result<Published, StoreError> {
        let dir = self.writable().ok_or_else(|| self.unavailable())?;
        let replace = match self.config.mode {
            Mode::Refresh => Replace::Always,
            _ => Replace::Damaged,
        };
        let put = match room {
            Room::AsFits => dir.records.put(key, record.bytes(), replace),
            Room::Alone => dir.records.put_alone(key, record.bytes(), replace),
        };
        match put.map_err(error)? {
            Put::New => {
                self.counters.published();
                Ok(Published::New(record.clone()))
            }
            Put::Existing(found) => Ok(Published::Existing(verified(found))),
        }
    }

    fn settle(&self, got: Got<Record>) -> (Record, Origin) {
        self.counters.answered(got.origin);
        if let Some(duplicate) = got.duplicate {
            self.counters.reason(
                match duplicate {
                    Duplicate::DeadlinePassed => "deadline-passed",
                    Duplicate::LockUnavailable => "lock-unavailable",
                    Duplicate::Nested => "nested",
                },
                "made here although another may have made it too",
            );
        }
        (got.value, got.origin)
    }
}

impl<F: MapFs> super::flight::Tiers<Record> for Tiers<F> {
    fn lookup(&self, key: &Key) -> Option<(Record, Origin)> {
        // What follows a miss here is dearer than the care.
        self.look_up(key, Care::Thorough)
    }

    fn is_empty(&self) -> bool {
        let mut dirs = self.read_dirs().peekable();
        dirs.peek().is_some() && dirs.all(|dir| dir.records.is_unborn())
    }

    fn cost(&self, key: &Key) -> Option<Duration> {
        let attempts = self.writable().map_or(0, |dir| dir.records.attempts(key));
        if attempts < POISONED {
            return None;
        }
        // Whoever makes it may well be the next to die; nobody should have to wait for that.
        self.counters.reason("poisoned", "makers of a key died again and again");
        Some(Duration::ZERO)
    }
}

impl<F: MapFs> Drop for Tiers<F> {
    fn drop(&mut self) {
        self.tell();
    }
}

impl<F: MapFs> Tiers<F> {
    /// Writes down what was counted: once, when the store is closed.
    pub(super) fn tell(&self) {
        // A forked child would tell its parent's counts again.
        if self.process != std::process::id() || self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(file) = &self.config.stats {
            self.stats().append_to(file);
        }
        if let Some(dir) = self.writable() {
            totals::add(&dir.root, &self.stats(), dir.records.is_known());
        }
    }
}

fn verified(found: Found) -> Record {
    Record::verified(found.bytes, found.layout)
}

fn memory_only(reason: impl Into<String>) -> Status {
    Status::MemoryOnly { reason: reason.into() }
}

fn error(failure: Failure) -> StoreError {
    StoreError::Io {
        action: failure.doing.into(),
        source: failure.source.unwrap_or_else(|| std::io::Error::other(failure.reason.name())),
    }
}

/// The name of a record in memory: its key, unless a test plants the fault.
fn memory_key(key: &Key) -> Key {
    if planted(SHORT_KEYS) { Key::from_bytes([key.as_bytes()[0] & 63; 32]) } else { *key }
}

/// The draft with its time and cost filled in.
fn dated(mut draft: Draft, cost: Duration) -> Draft {
    if draft.meta.created_s == 0 {
        draft.meta.created_s = sync::unix_seconds();
    }
    if draft.meta.cost_us == 0 {
        draft.meta.cost_us = crate::stats::micros(cost);
    }
    draft
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
