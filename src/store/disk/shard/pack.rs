//! A shard in less room than its segments have.
//!
//! ```text
//!   live entries, the worthiest per byte first ──► as many as fit ──► segments without a gap ──► a smaller index
//!                                                                                    │ named
//!                                                               all other segments ◄─┘ unlinked
//! ```
//!
//! Evicting gives whole segments back, each with room for records to come, and leaves the index as large as it is.
//! Down to a few segments that is all or nothing: so what is worth keeping is written anew. Records in segments of
//! their own stay where they are. Readers find every entry that is kept in one generation or the other, as in a rebuild.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Unwritten;
use super::generation::Held;
use super::survey::Survey;
use super::turn::Turn;
use crate::store::disk::format::header::{IndexHeader, Tail};
use crate::store::disk::format::slot::{Fingerprint, Location, Recency};
use crate::store::disk::format::{SEGMENT_HEADER, SegmentId};
use crate::store::disk::index::Candidate;
use crate::store::disk::map::MapFs;
use crate::store::disk::segment::victim::worth;
use crate::store::disk::sizing::Sizing;

/// Files occupy whole blocks of this many bytes.
const BLOCK: u64 = 4096;
/// Down to so many segments a shard is packed, and above them whole segments are evicted.
const SEGMENTS: u64 = 4;

/// Segments that were made so long ago go.
const REACH: u64 = 1 << 20;

/// What an entry is in the generation to come.
type Packed = (Fingerprint, Location, Recency);

impl<F: MapFs> Turn<'_, F> {
    /// Whether a shard that is to shrink to `limit` bytes is packed.
    pub(super) fn is_packed_to(&self, limit: u64) -> bool {
        limit <= SEGMENTS * self.shard.sizing.segment
    }

    /// Replaces everything by what is worth the most of it and fits into the limit of `sizing`.
    pub(super) fn pack(
        &mut self,
        held: &Held<F>,
        survey: &Survey,
        sizing: &Sizing,
    ) -> Result<(), Unwritten> {
        let shard = self.shard;
        let (chosen, kept) = self.choose(held, survey, sizing);
        let mut made: Vec<Tail> = Vec::new();
        let packed = match self.write_anew(held, survey, &chosen, &kept, &mut made) {
            Ok(packed) => packed,
            Err(error) => {
                for tail in made {
                    self.remove_file(held.dir(), &tail.segment.to_string());
                }
                return Err(error);
            }
        };
        let last = made.last().map_or(held.last(), |tail| tail.segment.max(held.last()));
        let lowest = packed.iter().map(|(_, location, _)| location.segment.0).min();
        let lowest = lowest.unwrap_or(last.0 + 1).max(last.0.saturating_sub(REACH));
        let log2_slots = sizing.log2_for(packed.len() as u64);
        let base = SegmentId(lowest.saturating_sub(1));
        self.replace(Some(held), shard.open_folder()?, survey, log2_slots, base, |new| {
            for (fingerprint, location, recency) in packed {
                // What does not go in is not found, as if it had been evicted.
                let _ = new.insert(fingerprint, location, recency);
            }
            new.set_tail(made.last().copied());
            new.set_last(last);
        })?;
        for (id, _) in survey.segments.iter().filter(|(id, _)| !kept.contains(id)) {
            self.remove_file(held.dir(), &id.to_string());
            shard.forget(*id);
        }
        Ok(())
    }

    /// The entries to keep, in the order of the index, and the segments that stay as they are.
    fn choose(
        &self,
        held: &Held<F>,
        survey: &Survey,
        sizing: &Sizing,
    ) -> (Vec<(Candidate, Recency)>, HashSet<SegmentId>) {
        let hour = self.shard.hour();
        let occupied: BTreeMap<_, _> = survey.segments.iter().copied().collect();
        let mut entries: Vec<_> = held.entries().enumerate().collect();
        let mut entries_in = HashMap::new();
        for (_, (candidate, _)) in &entries {
            *entries_in.entry(candidate.location.segment).or_insert(0) += 1;
        }
        let density = |(candidate, recency): &(Candidate, Recency)| {
            worth(*recency, hour) / candidate.location.length as f64
        };
        entries.sort_by(|(_, a), (_, b)| density(b).total_cmp(&density(a)));
        let (mut chosen, mut kept) = (Vec::new(), HashSet::new());
        // In segments that are written, and in those that stay.
        let (mut written, mut staying) = (0, 0);
        for (n, entry) in entries {
            let Candidate { location, .. } = entry.0;
            let is_alone = self.is_alone(held, &entry.0, entries_in[&location.segment]);
            let (more_written, more_staying) = match occupied.get(&location.segment) {
                None => continue,
                Some(_) if !is_alone => (location.length, 0),
                Some(_) if kept.contains(&location.segment) => (0, 0),
                Some(occupied) => (0, *occupied),
            };
            let count = chosen.len() as u64 + 1;
            // Each segment that is written has a header, and a gap of less than a record that may share one.
            let share = self.shard.sizing.segment - self.shard.sizing.shared;
            let segments = (written + more_written).div_ceil(share);
            let fits = count <= sizing.most_live()
                && BLOCK
                    + IndexHeader::file_length(sizing.log2_for(count))
                    + (written + more_written + segments * (SEGMENT_HEADER as u64 + BLOCK))
                    + (staying + more_staying)
                    <= sizing.limit;
            if fits {
                (written, staying) = (written + more_written, staying + more_staying);
                kept.extend(is_alone.then_some(location.segment));
                chosen.push((n, entry));
            }
        }
        chosen.sort_by_key(|(n, _)| *n);
        (chosen.into_iter().map(|(_, entry)| entry).collect(), kept)
    }

    /// Whether an entry, in a segment of so many, is in a segment of its own.
    fn is_alone(&self, held: &Held<F>, candidate: &Candidate, entries: usize) -> bool {
        let long = candidate.location.length > self.shard.sizing.shared;
        long || entries == 1 && self.shard.is_on_page(held, candidate.location)
    }

    /// Writes the chosen entries that do not stay into new segments, each of which is `made` and ends there.
    fn write_anew(
        &mut self,
        held: &Held<F>,
        survey: &Survey,
        chosen: &[(Candidate, Recency)],
        kept: &HashSet<SegmentId>,
        made: &mut Vec<Tail>,
    ) -> Result<Vec<Packed>, Unwritten> {
        let mut packed = Vec::new();
        let mut id = self.next_id(held, survey);
        let mut bytes = self.segment_header(id).encode().to_vec();
        for (candidate, recency) in chosen {
            let Candidate { fingerprint, location, .. } = *candidate;
            if kept.contains(&location.segment) {
                packed.push((fingerprint, location, *recency));
                continue;
            }
            // What cannot be read is not kept.
            let Ok(record) = self.whole(held, candidate) else { continue };
            if bytes.len() + record.len() > self.shard.sizing.segment as usize {
                self.write_segment(held, id, &bytes, made)?;
                id = SegmentId(id.0 + 1);
                bytes = self.segment_header(id).encode().to_vec();
            }
            let length = record.len() as u64;
            let location = Location { segment: id, offset: bytes.len() as u64, length };
            bytes.extend_from_slice(&record);
            packed.push((fingerprint, location, *recency));
        }
        if bytes.len() > SEGMENT_HEADER {
            self.write_segment(held, id, &bytes, made)?;
        }
        Ok(packed)
    }

    fn write_segment(
        &mut self,
        held: &Held<F>,
        id: SegmentId,
        bytes: &[u8],
        made: &mut Vec<Tail>,
    ) -> Result<(), Unwritten> {
        self.give(held, id);
        self.make_file(held.dir(), bytes.len() as u64, &id.to_string(), |file| {
            self.shard.fs().write_all_at(file, bytes, 0).map_err(Unwritten::from)
        })?;
        made.push(Tail { segment: id, end: bytes.len() as u64 });
        Ok(())
    }
}
