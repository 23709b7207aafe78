//! One generation more: from the last one, or from the segments.
//!
//! ```text
//!   index under a temporary name ──► idx-<n+1> ──► older ones retired ──► CURRENT ──► older ones unlinked
//! ```
//!
//! Whoever dies on the way leaves a generation that is retired and still named. It is looked up in
//! as before; the next writer makes another.

use super::generation::{CURRENT, Held, current_of};
use super::survey::Survey;
use super::trusted::reason;
use super::turn::Turn;
use super::{Unwritten, View};
use crate::race::{Fault, planted};
use crate::store::disk::format::header::{IndexHeader, Place};
use crate::store::disk::format::slot::{Fingerprint, Location, Recency};
use crate::store::disk::format::{CURRENT_LEN, MAX_ID, Name, SegmentHeader, SegmentId};
use crate::store::disk::fs::Access;
use crate::store::disk::index::Index;
use crate::store::disk::index::rebuild::Append;
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;
use crate::store::disk::record::{self, MAX_RECORD};
use crate::store::disk::segment;
use crate::store::failpoint::{self, Step};

/// A fault that tests plant.
const LOST: Fault = Fault("a new generation has none of the old one's entries");

/// A fault that tests plant.
const REUSED: Fault = Fault("the id of a segment that is gone is given again");

/// A fault that tests plant.
const STAYS: Fault = Fault("an old generation stays in use");

/// A fault that tests plant.
const UNSCANNED: Fault = Fault("segments are not looked at where there is no index");

/// The longest segment: of one record, with room for its header and to bring its payload to a page.
const MAX_SEGMENT: u64 = MAX_RECORD as u64 + 8192;

/// No index lacks so many of the latest segment ids.
const SKIPPED: u64 = 1 << 16;

/// An entry as it is found in a segment.
type Scanned = (Fingerprint, Location, Recency);

impl<F: MapFs> Turn<'_, F> {
    /// Replaces `old` by a generation of 2 to `log2_slots` slots with the same live entries.
    pub(super) fn rebuild(&mut self, old: &Held<F>, log2_slots: u8) -> Result<Held<F>, Unwritten> {
        let shard = self.shard;
        let survey = self.survey(old.dir())?;
        let next = self.next_id(old, &survey);
        let base = old.next_base(next);
        let tail = match self.may_append(old)? {
            Append::At(tail) => Some(tail),
            Append::Roll | Append::Rebuild => None,
        };
        let hour = shard.hour();
        self.replace(Some(old), shard.open_folder()?, &survey, log2_slots, base, |new| {
            old.rebuild_into(new, hour, |_| !planted(LOST));
            new.set_tail(tail);
            new.set_last(SegmentId(next.0 - 1));
        })
    }

    /// Makes a generation to write in from whatever there is: the index that `CURRENT` names or
    /// another, or the segments if there is none.
    pub(super) fn recover(&mut self) -> Result<Held<F>, Unwritten> {
        let shard = self.shard;
        let dir = self.make_folder()?;
        let survey = self.survey(&dir)?;
        failpoint::at(Step::RecoverBegun);
        if shard.belongs_to_another() {
            return Err(Unwritten::Moved);
        }
        let named = shard.read_current().ok().map(|current| current.generation);
        let newest_first = survey.generations.iter().rev().copied();
        let old = named.into_iter().chain(newest_first).find_map(|n| shard.open_generation(n).ok());
        if let Some(old) = old {
            let log2_slots = shard.sizing.log2_for(old.recount().live());
            return self.rebuild(&old, log2_slots);
        }
        let (mut entries, mut last) = (Vec::new(), 0);
        for (id, _) in survey.segments.iter().filter(|_| !planted(UNSCANNED)) {
            match self.scan(&dir, *id) {
                Ok(scanned) => {
                    entries.extend(scanned);
                    last = id.0;
                }
                Err(reason) => {
                    shard.root.failed(reason, "scanning a segment");
                    // What cannot be read now may be read another time.
                    let is_lasting = reason.is_damage() || reason == Reason::TooLong;
                    if is_lasting {
                        self.remove_file(&dir, &id.to_string());
                    }
                    // As in `next_id`, a stray name is not counted on from.
                    if !is_lasting || id.0 <= last + SKIPPED {
                        last = id.0;
                    }
                }
            }
        }
        failpoint::at(Step::SegmentsScanned);
        let most = usize::try_from(shard.sizing.most_live()).unwrap_or(usize::MAX);
        let latest = entries.split_off(entries.len().saturating_sub(most));
        let lowest = latest.iter().map(|(_, location, _)| location.segment.0).min();
        let base = SegmentId(lowest.map_or(last, |lowest| lowest - 1));
        let log2_slots = shard.sizing.log2_for(latest.len() as u64);
        self.replace(None, dir, &survey, log2_slots, base, |new| {
            for (fingerprint, location, recency) in latest {
                // What does not go in is not found, as if it had been evicted.
                let _ = new.insert(fingerprint, location, recency);
            }
        })
    }

    /// Replaces whatever there is by an empty generation, and removes every segment.
    pub(crate) fn clear(&mut self) -> Result<(), Unwritten> {
        if self.is_unborn() {
            return Ok(());
        }
        let shard = self.shard;
        let held = self.ready()?;
        let survey = self.survey(held.dir())?;
        let base = SegmentId(self.next_id(&held, &survey).0 - 1);
        let dir = shard.open_folder()?;
        self.replace(Some(&held), dir, &survey, shard.sizing.min_log2_slots, base, |_| {})?;
        failpoint::at(Step::Cleared);
        for (id, _) in survey.segments {
            self.remove_file(held.dir(), &id.to_string());
            shard.forget(id);
        }
        Ok(())
    }

    /// An id that no segment of this shard ever had.
    pub(super) fn next_id(&self, held: &Held<F>, survey: &Survey) -> SegmentId {
        let entries = held.entries().map(|(candidate, _)| candidate.location.segment);
        let tail = held.tail().map(|tail| tail.segment);
        let known = entries.chain(tail).fold(held.last(), SegmentId::max);
        // What an index forgot in a power cut is not much. To count on from a stray name far above would put the
        // segments that there are out of the index's reach; nothing is alive under it, so it goes with the next eviction.
        let named =
            survey.segments.iter().map(|(id, _)| *id).filter(|id| id.0 <= known.0 + SKIPPED);
        SegmentId(named.fold(known, SegmentId::max).0 + 1)
    }

    /// Remembers that `id` is given to a segment, before there is a file of its name.
    pub(super) fn give(&self, held: &Held<F>, id: SegmentId) {
        if let Some(writer) = held.writer().filter(|_| !planted(REUSED)) {
            writer.set_last(id);
        }
    }

    /// Makes a generation, fills it, names it, and removes the older ones, of which `old` is in use.
    pub(super) fn replace(
        &mut self,
        old: Option<&Held<F>>,
        dir: F::Handle,
        survey: &Survey,
        log2_slots: u8,
        base: SegmentId,
        fill: impl FnOnce(&Index<F::MapMut>),
    ) -> Result<Held<F>, Unwritten> {
        let shard = self.shard;
        let fs = shard.fs();
        let named = shard.read_current().map_or(0, |current| current.generation);
        let newest = survey.generations.last().map_or(0, |last| *last).max(named);
        // A stray name may be the highest that there is.
        let is_free = |n: &u64| *n != named && !survey.generations.contains(n);
        let next = (newest + 1..MAX_ID).next().or_else(|| (1..MAX_ID).find(is_free));
        let generation = next.ok_or(Reason::Other)?;
        let length = IndexHeader::file_length(log2_slots);
        let salt = u128::from_le_bytes(fs.random());
        let (_, (index, map)) = self.make_file(&dir, length, &Name::index(generation), |file| {
            let stat = fs.stat(file)?;
            let place =
                Place { boot: shard.root.boot_id(), device: stat.device, inode: stat.inode };
            let map = fs.map_mut(file, length)?;
            let index = Index::create(
                map.clone(),
                IndexHeader {
                    cache: shard.cache,
                    shard: shard.number,
                    generation,
                    base,
                    log2_slots,
                    salt: [salt as u64, (salt >> 64) as u64],
                    place,
                },
            );
            fill(&index);
            Ok((index, map))
        })?;
        failpoint::at(Step::IndexNamed);
        for number in &survey.generations {
            // The one in hand needs not be opened, which could fail: then those who hold it would go on with it.
            let in_hand = old.filter(|old| old.header().generation == *number).cloned();
            let older = in_hand.or_else(|| shard.open_generation(*number).ok());
            if let Some(writer) = older.as_ref().and_then(Held::writer).filter(|_| !planted(STAYS))
            {
                writer.retire();
            }
        }
        failpoint::at(Step::IndexRetired);
        let current = current_of(index.header()).encode();
        self.make_file(&dir, CURRENT_LEN as u64, CURRENT, |file| {
            fs.write_all_at(file, &current, 0).map_err(Unwritten::from)
        })?;
        failpoint::at(Step::CurrentNamed);
        for old in &survey.generations {
            self.remove_file(&dir, &Name::index(*old));
        }
        failpoint::at(Step::IndexUnlinked);
        let held = Held::written(index, F::reader(&map), dir, &shard.folder)?;
        shard.view.update(|view| {
            Some(View { held: Some(held.clone()), segments: view.segments.clone() })
        });
        if old.is_some() {
            shard.view.settle();
        }
        Ok(held)
    }

    /// The shard's directory, made if it is missing.
    fn make_folder(&self) -> Result<F::Handle, Unwritten> {
        let (fs, space) = (self.shard.fs(), self.shard.space()?);
        let (all, own) = self.shard.folder.split_once('/').expect("a folder in a folder");
        let make = |at: &F::Handle, name: &str| match fs.make_dir(at, name) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            _ => fs.open_dir(at, name),
        };
        let all = make(space, all)?;
        make(&all, own)?;
        Ok(self.shard.open_folder()?)
    }

    /// The whole records of a segment of this shard.
    fn scan(&self, dir: &F::Handle, id: SegmentId) -> Result<Vec<Scanned>, Reason> {
        let shard = self.shard;
        let (file, stat) = shard.open_file(dir, &id.to_string(), Access::Read)?;
        if stat.length > MAX_SEGMENT {
            return Err(Reason::TooLong);
        }
        let bytes = shard.fs().read_new(&file, stat.length as usize, 0);
        let bytes = bytes.map_err(|error| reason(&error))?;
        let header = SegmentHeader::parse(&bytes).map_err(|_| Reason::Magic)?;
        if (header.cache, header.shard, header.id) != (shard.cache, shard.number, id) {
            return Err(Reason::Key);
        }
        // When it was used nothing tells.
        let now = shard.hour();
        let entries = segment::scan(&bytes).map(|entry| {
            let record = &bytes[entry.offset..][..entry.layout.total];
            let meta = record::decode_meta(&record[entry.layout.meta]);
            let location = Location {
                segment: id,
                offset: entry.offset as u64,
                length: entry.layout.total as u64,
            };
            let recency = Recency::new(now, meta.cost_us);
            (Fingerprint::of(&entry.key, entry.kind), location, recency)
        });
        Ok(entries.collect())
    }
}
