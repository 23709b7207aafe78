//! Which segment goes when the shard is full, and which of its entries are worth carrying on.
//!
//! ```text
//!   worth of an entry  =  what making it cost  ×  how likely it is wanted again
//!   a segment's price  =  worth of its live entries / bytes that its file gives back  ×  faded
//! ```
//!
//! The segment of the lowest price goes. Dead entries weigh nothing, entries not used for a day
//! half, so segments that are mostly dead or long unused go first. Within an hour uses cannot be
//! told apart, and a full shard may be written anew in less: so segments also fade by their rank,
//! the oldest to a quarter of the newest. Entries whose faded worth is denser than the shard's
//! average are carried on, up to half of the segment, so that every eviction gives something back.

use std::collections::HashMap;

use super::super::format::SegmentId;
use super::super::format::slot::Recency;
use super::super::index::Candidate;

/// After so many hours without use an entry is half as likely to be wanted.
const HALF_LIFE_HOURS: f64 = 24.0;
/// And after a shard was written anew, as if so many half-lives had passed.
const HALF_LIVES_PER_TURNOVER: f64 = 2.0;

/// What losing an entry would cost, in microseconds that are likely spent again. A use in the
/// future, of a clock that went back, counts as one now.
pub(crate) fn worth(recency: Recency, hour: u32) -> f64 {
    let cost = f64::from(recency.cost.min(40)).exp2();
    let age = f64::from(hour.saturating_sub(recency.hour));
    let uses = f64::from(recency.uses.min(15)) + 1.0;
    cost * uses * (-age / HALF_LIFE_HOURS).exp2()
}

/// What is alive in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) worth: f64,
    /// The latest hour in which one of them was used.
    pub(crate) hour: u32,
}

impl Tally {
    fn add(&mut self, length: u64, recency: Recency, hour: u32) {
        self.entries += 1;
        self.bytes += length;
        self.worth += worth(recency, hour);
        self.hour = self.hour.max(recency.hour.min(hour));
    }

    /// Worth per byte.
    fn density(&self) -> f64 {
        self.worth / self.bytes.max(1) as f64
    }
}

/// What is alive in a shard, by segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    pub(crate) all: Tally,
    pub(crate) segments: HashMap<SegmentId, Tally>,
}

impl Census {
    /// Of these entries, in this hour.
    pub(crate) fn of(entries: impl Iterator<Item = (Candidate, Recency)>, hour: u32) -> Self {
        let mut census = Census::default();
        for (Candidate { location, .. }, recency) in entries {
            census.all.add(location.length, recency, hour);
            let segment = census.segments.entry(location.segment).or_default();
            segment.add(location.length, recency, hour);
        }
        census
    }

    /// Which of these segments, each with the bytes that its file occupies, is to go first.
    pub(crate) fn victim(&self, files: &[(SegmentId, u64)]) -> Option<Victim> {
        let mut ids: Vec<SegmentId> = files.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let faded = |id: &SegmentId| {
            let newer = ids.len() - ids.partition_point(|other| other <= id);
            (-HALF_LIVES_PER_TURNOVER * newer as f64 / ids.len() as f64).exp2()
        };
        files
            .iter()
            .map(|(id, bytes)| {
                let worth = self.segments.get(id).map_or(0.0, |live| live.worth);
                let faded = faded(id);
                (faded * worth / (*bytes).max(1) as f64, Victim { id: *id, bytes: *bytes, faded })
            })
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.id.cmp(&b.1.id)))
            .map(|(_, victim)| victim)
    }

    /// Those of a victim's entries to carry on, the worthiest first: denser than the average of the
    /// shard, and no more than half of the victim together.
    pub(crate) fn carried(
        &self,
        victim: &Victim,
        entries: &[(Candidate, Recency)],
        hour: u32,
    ) -> Vec<Candidate> {
        let mut dense: Vec<(f64, Candidate)> = entries
            .iter()
            .map(|(candidate, recency)| {
                (worth(*recency, hour) / candidate.location.length as f64, *candidate)
            })
            .filter(|(density, _)| density * victim.faded > self.all.density())
            .collect();
        dense.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.slot.cmp(&b.1.slot)));
        let mut left = victim.bytes / 2;
        let fits = |candidate: &Candidate| {
            let fits = candidate.location.length <= left;
            left -= if fits { candidate.location.length } else { 0 };
            fits
        };
        dense.into_iter().map(|(_, candidate)| candidate).filter(fits).collect()
    }
}

/// A segment that is to go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Victim {
    pub(crate) id: SegmentId,
    /// What its file occupies.
    pub(crate) bytes: u64,
    /// From 1 for the newest segment down.
    pub(crate) faded: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::format::slot::{Fingerprint, Location};

    const NOW: u32 = 1_000;

    fn entry(slot: usize, segment: u64, length: u64, recency: Recency) -> (Candidate, Recency) {
        let location = Location { segment: SegmentId(segment), offset: 64, length };
        let fingerprint = Fingerprint::from_bits(slot as u64);
        (Candidate { slot, fingerprint, location }, recency)
    }

    fn used(hour: u32, uses: u8, cost: u8) -> Recency {
        Recency { hour, uses, cost }
    }

    /// Mutants: the age, the uses or the cost left out of `worth`.
    #[test]
    fn worth_falls_with_age_and_rises_with_use_and_cost() {
        let plain = worth(used(NOW, 0, 10), NOW);
        assert_eq!(worth(used(NOW - 24, 0, 10), NOW), plain / 2.0);
        assert_eq!(worth(used(NOW, 3, 10), NOW), plain * 4.0);
        assert_eq!(worth(used(NOW, 0, 12), NOW), plain * 4.0);
        assert_eq!(worth(used(u32::MAX, 0, 10), NOW), plain, "the future is now");
        assert!(worth(used(0, 255, 255), u32::MAX) >= 0.0);
        assert!(worth(used(NOW, 255, 255), NOW).is_finite());
    }

    /// Mutants: `max_by`; the price without the file's bytes; unknown segments dear.
    #[test]
    fn the_cheapest_per_byte_goes_and_of_equals_the_oldest() {
        let entries = [
            entry(0, 1, 640, used(NOW, 0, 10)),
            entry(1, 2, 640, used(NOW - 240, 0, 10)),
            entry(2, 3, 640, used(NOW, 0, 10)),
        ];
        let census = Census::of(entries.into_iter(), NOW);
        let victim = |files: &[(u64, u64)]| {
            let files: Vec<_> = files.iter().map(|(id, bytes)| (SegmentId(*id), *bytes)).collect();
            census.victim(&files).map(|victim| victim.id.0)
        };
        assert_eq!(victim(&[(3, 4096), (2, 4096), (1, 4096)]), Some(2), "long unused");
        assert_eq!(victim(&[(3, 4096), (1, 4096)]), Some(1), "the oldest");
        assert_eq!(victim(&[(1, 4096), (3, 16384)]), Some(3), "gives back much more");
        assert_eq!(victim(&[(1, 4096), (2, 4096), (9, 64)]), Some(9), "nothing is alive there");
        assert_eq!(victim(&[]), None);
        assert_eq!((census.all.entries, census.all.bytes, census.all.hour), (3, 1920, NOW));
    }

    /// Mutants: the budget ignored; `>=` for the average, which carries everything on where all are
    /// equal; the fading ignored.
    #[test]
    fn the_worthiest_are_carried_on_within_half_of_the_victim() {
        let entries = [
            entry(0, 1, 6400, used(NOW, 1, 20)),
            entry(1, 1, 640, used(NOW, 0, 20)),
            entry(2, 1, 640, used(NOW, 9, 20)),
            entry(3, 1, 640, used(NOW - 480, 0, 20)),
        ];
        let rest = [entry(4, 2, 64_000, used(NOW, 0, 20))];
        let census = Census::of(entries.into_iter().chain(rest), NOW);
        let slots = |budget: u64, faded| -> Vec<usize> {
            let victim = Victim { id: SegmentId(1), bytes: 2 * budget, faded };
            census.carried(&victim, &entries, NOW).iter().map(|c| c.slot).collect()
        };
        assert_eq!(slots(1 << 40, 1.0), [2, 1, 0]);
        assert_eq!(slots(6400 + 640, 1.0), [2, 1], "what does not fit is left out");
        assert!(slots(639, 1.0).is_empty());
        assert_eq!(slots(1 << 40, 0.1), [2], "it would have to be ten times as dense");
        let equal = [entry(0, 1, 640, used(NOW, 0, 9)), entry(1, 1, 640, used(NOW, 0, 9))];
        let census = Census::of(equal.into_iter(), NOW);
        let victim = Victim { id: SegmentId(1), bytes: 1 << 40, faded: 1.0 };
        assert_eq!(census.carried(&victim, &equal, NOW), []);
    }
}
