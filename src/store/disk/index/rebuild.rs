//! A new generation from an old one, and when records may still be appended where the old one says.

use super::{Candidate, Index, Refused};
use crate::race::{Fault, planted};
use crate::store::disk::format::header::{ATTEMPT_WORDS, ATTEMPTS, Place, Tail};
use crate::store::disk::format::slot::{Location, Recency, SEGMENT_BITS};
use crate::store::disk::format::{SegmentHeader, SegmentId};
use crate::store::disk::words::{Words, WordsMut};
use crate::sync::Ordering::Relaxed;

/// What became of the entries of a rebuilt index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rebuilt {
    pub(crate) kept: u64,
    /// Left out by the caller's wish.
    pub(crate) dropped: u64,
    /// Left out because the new index has no room for them.
    pub(crate) refused: u64,
}

impl<W: Words> Index<W> {
    /// Copies the live entries that `keep` wants into `new`, which is empty and not published yet,
    /// in an order that leaves the latest of one fingerprint the latest. Uses in hours after `hour`
    /// become uses in `hour`.
    pub(crate) fn rebuild_into<V: WordsMut>(
        &self,
        new: &Index<V>,
        hour: u32,
        mut keep: impl FnMut(&Candidate) -> bool,
    ) -> Rebuilt {
        let mut rebuilt = Rebuilt::default();
        for (candidate, recency) in self.entries() {
            if !keep(&candidate) {
                rebuilt.dropped += 1;
                continue;
            }
            let recency = Recency { hour: recency.hour.min(hour), ..recency };
            match new.insert(candidate.fingerprint, candidate.location, recency) {
                Ok(_) => rebuilt.kept += 1,
                Err(Refused::Full | Refused::OutOfReach) => rebuilt.refused += 1,
            }
        }
        for at in ATTEMPTS..ATTEMPTS + ATTEMPT_WORDS {
            new.words.store(at, self.words.load(at), Relaxed);
        }
        rebuilt
    }

    /// The base of the next generation: the segments from `next` on are in reach, and its live
    /// entries are but for those of a million segments ago.
    pub(crate) fn next_base(&self, next: SegmentId) -> SegmentId {
        let segments = self.entries().map(|(candidate, _)| candidate.location.segment);
        let lowest = segments.fold(next, SegmentId::min);
        let reach = 1 << (SEGMENT_BITS - 1);
        SegmentId(lowest.0.max(next.0.saturating_sub(reach)).saturating_sub(1))
    }

    /// Whether a segment of this id may have entries here, and be the tail's.
    pub(crate) fn reaches(&self, segment: SegmentId) -> bool {
        let from_base = segment.0.checked_sub(self.header().base.0);
        from_base.is_some_and(|n| 0 < n && n < 1 << SEGMENT_BITS)
    }
}

/// Whether a writer may append where the index says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Append {
    /// At the tail.
    At(Tail),
    /// In a fresh segment.
    Roll,
    /// In a fresh segment of a new generation: this one was made in another boot or is a copy, and
    /// its tail may be older than its entries.
    Rebuild,
}

/// A fault that tests plant.
const OTHER_BOOT: Fault = Fault("what another boot wrote is written over");

/// Decides where the next record may go, so that no published byte is ever overwritten: not after a
/// power cut that kept the slots and lost the tail, and not in a copy of a directory that was made
/// while a writer was at work.
///
/// `here` is the index's file as it is open, and `segment` what its tail's segment says of itself.
/// `checked` says that this process has seen, since it opened this generation, that no entry
/// [overruns](Index::overruns) the tail.
pub(crate) fn may_append<W: Words>(
    index: &Index<W>,
    here: Place,
    segment: Option<SegmentHeader>,
    checked: bool,
) -> Append {
    let header = index.header();
    if let (Some(tail), Some(_), true) = (index.tail(), segment, planted(OTHER_BOOT)) {
        return Append::At(tail);
    }
    if header.place != here {
        return Append::Rebuild;
    }
    let Some(tail) = index.tail() else { return Append::Roll };
    let ours = SegmentHeader {
        cache: header.cache,
        shard: header.shard,
        id: tail.segment,
        boot: here.boot,
    };
    if segment != Some(ours) || (!checked && index.overruns(tail)) {
        return Append::Roll;
    }
    Append::At(tail)
}

/// Where a record of `length` bytes goes in a segment of `capacity` bytes, if it fits behind the
/// tail.
pub(crate) fn fit(tail: Tail, length: u64, capacity: u64) -> Option<Location> {
    let location = Location { segment: tail.segment, offset: tail.end, length };
    (length <= capacity && tail.end <= capacity - length).then_some(location)
}
