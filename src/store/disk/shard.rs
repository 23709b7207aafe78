//! A shard: an index, the segments it leads to, and whoever writes in them.
//!
//! ```text
//!   get   held index ──► places ──► copy from the mapped segment ──► verify ──► hit
//!                                   no lock of a file, no write, mostly no system call
//!   put   lock ──► room? ──► write at the tail ──► slot ──► unlock
//!            │        └─► rebuild the index, roll a segment, evict one
//!            └─► nothing to write in: recover
//! ```
//!
//! | file | what of it |
//! |---|---|
//! | `generation` | opening the index that `CURRENT` names |
//! | `read` | from a place to a verified record |
//! | `lend` | a record as a place in a file, to be mapped |
//! | `way` | the short way to it |
//! | `turn` | the lock, and what its holder remembers |
//! | `publish` | one record more |
//! | `rebuild` | one generation more, from the last one or from the segments |
//! | `evict` | one segment less |
//! | `pack` | a few segments in less room |
//! | `survey` | what lies in the directory |
//! | `trusted` | opening only what nobody else could have planted |
//!
//! A reader holds nothing that a writer waits for, and waits for nothing that a writer holds. What
//! keeps its bytes is that files are only ever unlinked, never shortened or written below the tail.

mod evict;
mod generation;
pub(crate) mod lend;
mod pack;
mod publish;
mod read;
mod rebuild;
mod survey;
pub(crate) mod trusted;
mod turn;
pub(crate) mod way;

use std::collections::BTreeMap;
use std::io;

use super::format::slot::{Fingerprint, Recency};
use super::format::{CacheId, SegmentId};
use super::index::Candidate;
use super::index::find::{Absent, Care, Generations, Reading, find};
use super::large::Found;
use super::lock::LockFile;
use super::map::MapFs;
use super::reason::Reason;
use super::record::{Kind, Meta};
use super::root::Root;
use super::sizing::Sizing;
use super::trust::Opened;
use super::usage::ShardUsage;
use crate::key::Key;
use crate::sync::{Arc, AtomicU32, Mutex};

use generation::Held;
use turn::Writer;

pub(crate) use turn::Turn;

/// Recency is kept to the hour.
const HOUR_S: u64 = 3600;

/// One shard of a cache directory, as a process has it open.
#[derive(Debug)]
pub(crate) struct Shard<F: MapFs> {
    root: Arc<Root<F>>,
    /// The directory that it is in. If another takes its place, so does another `Shard`.
    opened: Arc<Opened<F::Handle>>,
    cache: CacheId,
    number: u16,
    sizing: Sizing,
    /// `s/0a`.
    folder: String,
    /// Locked to take or replace what is in it only, as the other two.
    held: Mutex<Option<Held<F>>>,
    mapped: Mutex<BTreeMap<SegmentId, F::Map>>,
    lock: LockFile<F>,
    /// The process, a thread of which has its turn; 0 if none has. A forked child finds its
    /// parent's here, which binds it to nothing.
    busy: AtomicU32,
    writer: Mutex<Option<Writer<F>>>,
}

fn artifact(key: &Key) -> Fingerprint {
    Fingerprint::of(key, Kind::Artifact)
}

/// Why a record was not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    Io(io::Error),
    Reason(Reason),
    /// The directory is no longer the one that this shard is in.
    Moved,
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Unwritten::Io(error)
    }
}

impl From<Reason> for Unwritten {
    fn from(reason: Reason) -> Self {
        Unwritten::Reason(reason)
    }
}

impl<F: MapFs> Shard<F> {
    /// Shard `number` of the cache in `opened`, of which nothing is looked at yet.
    pub(crate) fn new(
        root: Arc<Root<F>>,
        opened: Arc<Opened<F::Handle>>,
        cache: CacheId,
        number: u16,
        sizing: Sizing,
    ) -> Self {
        // Beside the folder, which a hand may remove while somebody holds the lock.
        let lock = LockFile::new(root.clone(), format!("shard-{number:02x}.lock"));
        Shard {
            root,
            opened,
            cache,
            number,
            sizing,
            folder: format!("s/{number:02x}"),
            held: Mutex::new(None),
            mapped: Mutex::new(BTreeMap::new()),
            lock,
            busy: AtomicU32::new(0),
            writer: Mutex::new(None),
        }
    }

    /// How many makers of `key` began and did not come back: what they make may be what kills them.
    pub(crate) fn attempts(&self, key: &Key) -> u64 {
        let held = self.held();
        held.as_ref().and_then(Held::writer).map_or(0, |index| index.attempts(artifact(key)))
    }

    /// A maker of `key` begins.
    pub(crate) fn attempt(&self, key: &Key) {
        if let Some(index) = self.held().as_ref().and_then(Held::writer) {
            index.attempt(artifact(key));
        }
    }

    /// A maker of `key` came back, whatever it brought.
    pub(crate) fn forgive(&self, key: &Key) {
        if let Some(index) = self.held().as_ref().and_then(Held::writer) {
            index.forgive(artifact(key));
        }
    }

    /// The record of `key`, if it is here.
    pub(crate) fn get(&self, key: &Key, kind: Kind, care: Care) -> Result<Found, Absent> {
        let read = |held: &Held<F>, candidate: &Candidate| self.read(held, candidate, key, kind);
        let found = find(self, Fingerprint::of(key, kind), care, read)?;
        if let Some(writer) = found.held.writer() {
            writer.touch(&found.candidate, self.hour());
        }
        Ok(found.value)
    }

    /// Whether there is an entry of the key's fingerprint; whether it is whole, only
    /// [`get`](Self::get) tells.
    pub(crate) fn contains(&self, key: &Key, kind: Kind) -> bool {
        let read = |_: &Held<F>, _: &Candidate| Reading::Whole(());
        find(self, Fingerprint::of(key, kind), Care::Quick, read).is_ok()
    }

    /// Calls `visit` for each live entry whose record's header says a key, with its place and use.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Key, Kind, &Candidate, Recency)) {
        let Some(held) = self.current_index() else { return };
        for (candidate, recency) in held.entries() {
            if let Some((key, kind)) = self.announced(&held, &candidate) {
                visit(key, kind, &candidate, recency);
            }
        }
    }

    /// How full it is, against this process's limit.
    pub(crate) fn fill(&self) -> ShardUsage {
        let mut fill =
            ShardUsage { shard: self.number, limit: self.sizing.limit, ..Default::default() };
        if let Some(held) = self.current_index() {
            fill.slots = held.header().slots() as u64;
            fill.used_slots = held.recount().entries;
            for (candidate, _) in held.entries() {
                fill.entries += 1;
                fill.bytes += candidate.location.length;
            }
        }
        let survey = self.open_folder().and_then(|dir| self.survey(&dir)).unwrap_or_default();
        ShardUsage { occupied: survey.occupied, segments: survey.segments.len() as u64, ..fill }
    }

    /// The index as `CURRENT` names it now.
    fn current_index(&self) -> Option<Held<F>> {
        self.current()
    }

    fn fs(&self) -> &F {
        self.root.fs()
    }

    fn hour(&self) -> u32 {
        u32::try_from(self.fs().unix_seconds() / HOUR_S).unwrap_or(u32::MAX)
    }

    /// The directory that everything is done in.
    fn space(&self) -> Result<&F::Handle, Reason> {
        self.opened.space.as_ref().ok_or(Reason::Absent)
    }

    /// The use to begin with of an entry that was made just now.
    fn new_recency(&self, meta: &Meta) -> Recency {
        Recency::new(self.hour(), meta.cost_us)
    }
}
