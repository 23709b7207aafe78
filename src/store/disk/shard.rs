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

use std::io;

use super::format::slot::{Fingerprint, Location, Recency};
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
use super::words::Words;
use crate::key::Key;
use crate::store::memory::Reclaim;
use crate::store::snapshot::Snapshot;
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
    view: Snapshot<View<F>, F::Reclaim>,
    lock: LockFile<F>,
    /// The process, a thread of which has its turn; 0 if none has. A forked child finds its
    /// parent's here, which binds it to nothing.
    busy: AtomicU32,
    /// Locked to take or replace what is in it only.
    writer: Mutex<Option<Writer<F>>>,
}

/// What a process has open of a shard, to read.
#[derive(Debug)]
struct View<F: MapFs> {
    held: Option<Held<F>>,
    /// Segments that were read from: mapped, but for those that were read from once.
    segments: Vec<(SegmentId, Option<F::Map>)>,
}

impl<F: MapFs> Clone for View<F> {
    fn clone(&self) -> Self {
        View { held: self.held.clone(), segments: self.segments.clone() }
    }
}

impl<F: MapFs> View<F> {
    /// The mapping of a segment, if it was read from: none if that was once.
    fn segment(&self, id: SegmentId) -> Option<&Option<F::Map>> {
        self.segments.iter().find(|(known, _)| *known == id).map(|(_, map)| map)
    }

    /// The mapping that reaches to the end of this place.
    fn map(&self, location: Location) -> Option<&F::Map> {
        let map = self.segment(location.segment)?.as_ref();
        map.filter(|map| map.len() as u64 * 8 >= location.end())
    }

    /// As it is, with this of a segment.
    fn with(&self, id: SegmentId, map: Option<F::Map>) -> Self {
        let mut view = self.without(|known| known == id);
        view.segments.push((id, map));
        view
    }

    /// As it is, without some segments.
    fn without(&self, is_one: impl Fn(SegmentId) -> bool) -> Self {
        let mut view = self.clone();
        view.segments.retain(|(id, _)| !is_one(*id));
        view
    }
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
            view: Snapshot::new(View { held: None, segments: Vec::new() }),
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

    /// The record of `key` as nearly every look finds it: there is one entry, of the generation in use, in a mapped segment.
    /// None says nothing.
    pub(crate) fn get_at_once(
        &self,
        key: &Key,
        kind: Kind,
        guard: &<F::Reclaim as Reclaim>::Guard,
    ) -> Option<Found> {
        let view = self.view.get(guard);
        let held = view.held.as_ref().filter(|held| held.in_use())?;
        let mut candidates = held.candidates(Fingerprint::of(key, kind));
        let candidate = candidates.next()?;
        // Of several, `find` knows which is to be looked at first.
        if candidates.next().is_some() {
            return None;
        }
        let found = read::copied(view.map(candidate.location)?, candidate.location, key, kind)?;
        if let Some(writer) = held.writer() {
            writer.touch(&candidate, self.hour());
        }
        Some(found)
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
