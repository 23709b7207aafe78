//! From a place to a verified record.
//!
//! Records are copied out of the mapped segment, which costs no system call; those that have a segment of their own
//! are read, and so is the first of a segment: to map a file for one record and to unmap it again takes longer. Either way the copy is verified, in memory of this process. What
//! fails is looked at once more by the name of the segment, as a mapping can be of a file that has
//! lost its name.

use super::generation::Held;
use super::trusted::reason;
use super::{Shard, View};
use crate::key::Key;
use crate::store::disk::format::slot::Location;
use crate::store::disk::format::{SEGMENT_HEADER, SegmentHeader, SegmentId};
use crate::store::disk::fs::Access;
use crate::store::disk::index::Candidate;
use crate::store::disk::index::find::Reading;
use crate::store::disk::large::Found;
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;
use crate::store::disk::record::{self, Damage, HEADER, Kind};
use crate::store::disk::words::{self, Words};

/// Records up to this many bytes are copied out of mappings.
const COPIED: u64 = 1 << 20;
/// How many segments are mapped at a time.
const MOST_MAPPED: usize = 64;

impl<F: MapFs> Shard<F> {
    /// What a place holds of `key`.
    pub(super) fn read(
        &self,
        held: &Held<F>,
        candidate: &Candidate,
        key: &Key,
        kind: Kind,
    ) -> Reading<Found> {
        let location = candidate.location;
        if location.length <= COPIED
            && let Some(map) = self.map_again(held, location)
            && let Some(found) = copied(&map, location, key, kind)
        {
            return Reading::Whole(found);
        }
        let bytes = match self.read_by_name(held, location) {
            Ok(bytes) => bytes,
            Err(Reason::Absent | Reason::Stale) => return Reading::Gone,
            Err(reason) => {
                self.root.failed(reason, "reading a segment");
                // An error may pass; what is no file of ours, or too short, stays so.
                return if reason.is_damage() { Reading::Damaged } else { Reading::Other };
            }
        };
        match verified(bytes, key, kind) {
            Ok(found) => {
                self.forget_map(location.segment);
                Reading::Whole(found)
            }
            Err(Damage::Key | Damage::Format) => Reading::Other,
            Err(damage) => {
                self.root.failed(damage.into(), "reading a record");
                Reading::Damaged
            }
        }
    }

    /// The bytes at a place, from the segment of that name.
    pub(super) fn read_by_name(
        &self,
        held: &Held<F>,
        location: Location,
    ) -> Result<Vec<u8>, Reason> {
        let name = location.segment.to_string();
        let (file, stat) = self.open_file(held.dir(), &name, Access::Read)?;
        if stat.length < location.end() {
            return Err(Reason::Truncated);
        }
        let length = location.length as usize;
        let bytes = self.fs().read_new(&file, length, location.offset);
        let bytes = bytes.map_err(|error| reason(&error))?;
        if bytes.len() == length { Ok(bytes) } else { Err(Reason::Truncated) }
    }

    /// The key and kind that the record at a place says it has; nothing is verified.
    pub(super) fn announced(&self, held: &Held<F>, candidate: &Candidate) -> Option<(Key, Kind)> {
        let header = self.copy(held, candidate.location, HEADER as u64)?;
        record::announced_key(&header).ok()
    }

    /// Forgets the mapping of a segment, whose name is gone.
    pub(super) fn forget(&self, segment: SegmentId) {
        let without =
            |view: &View<F>| view.segment(segment).map(|_| view.without(|known| known == segment));
        if self.view.update(without) {
            self.view.settle();
        }
    }

    /// Forgets the mapping of a segment, which may be of a file that has lost its name; it is mapped when it is read again.
    fn forget_map(&self, segment: SegmentId) {
        let unmapped =
            |view: &View<F>| view.segment(segment)?.as_ref().map(|_| view.with(segment, None));
        if self.view.update(unmapped) {
            self.view.settle();
        }
    }

    /// Copies the first `length` bytes at a place, if its segment can be mapped.
    pub(super) fn copy(&self, held: &Held<F>, location: Location, length: u64) -> Option<Vec<u8>> {
        let map = self.map(held, location)?;
        Some(map.copy_new(location.offset as usize, length as usize))
    }

    /// The mapping of a segment, unless it is read from for the first time.
    fn map_again(&self, held: &Held<F>, location: Location) -> Option<F::Map> {
        if self.view.with(|view| view.segment(location.segment).is_none()) {
            self.remember(held, location.segment, None);
            return None;
        }
        self.map(held, location)
    }

    fn map(&self, held: &Held<F>, location: Location) -> Option<F::Map> {
        if let Some(map) = self.view.with(|view| view.map(location).cloned()) {
            return Some(map);
        }
        let name = location.segment.to_string();
        let (file, stat) = self.open_file(held.dir(), &name, Access::Read).ok()?;
        let map = self.fs().map(&file, stat.length & !7).ok()?;
        if (map.len() as u64) * 8 < location.end() {
            return None;
        }
        let mut header = [0; SEGMENT_HEADER];
        words::copy(&map, 0, &mut header);
        let header = SegmentHeader::parse(&header).ok()?;
        if (header.cache, header.shard, header.id) != (self.cache, self.number, location.segment) {
            return None;
        }
        self.remember(held, location.segment, Some(map.clone()));
        Some(map)
    }

    /// Keeps the mapping of a segment, or that it was read from.
    fn remember(&self, held: &Held<F>, segment: SegmentId, map: Option<F::Map>) {
        if self.view.with(|view| view.segment(segment).is_none()) {
            self.make_room_for_a_mapping(held);
        }
        self.view.update(|view| Some(view.with(segment, map.clone())));
    }

    /// Lets go of segments whose names are gone, so that their blocks are free; of all if there are
    /// too many.
    fn make_room_for_a_mapping(&self, held: &Held<F>) {
        let ids: Vec<SegmentId> =
            self.view.with(|view| view.segments.iter().map(|(id, _)| *id).collect());
        let too_many = ids.len() >= MOST_MAPPED;
        let is_gone = |id: &SegmentId| self.fs().stat_at(held.dir(), &id.to_string()).is_err();
        let gone: Vec<SegmentId> = ids.into_iter().filter(|id| too_many || is_gone(id)).collect();
        if gone.is_empty() {
            return;
        }
        self.view.update(|view| Some(view.without(|id| gone.contains(&id))));
        self.view.settle();
    }
}

/// The record of `key` at a place in its segment, if it is there and whole.
pub(super) fn copied(map: &impl Words, location: Location, key: &Key, kind: Kind) -> Option<Found> {
    let (bytes, sum) = map.copy_summed(location.offset as usize, location.length as usize);
    let layout = record::parse_summed(&bytes, sum, key, kind).ok()?;
    Some(Found { bytes, layout })
}

fn verified(bytes: Vec<u8>, key: &Key, kind: Kind) -> Result<Found, Damage> {
    let layout = record::parse(&bytes, key, kind)?;
    if layout.total != bytes.len() {
        return Err(Damage::Length);
    }
    Ok(Found { bytes, layout })
}
