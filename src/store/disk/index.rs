//! The index of a shard: a table in shared memory from fingerprints to places of records.
//!
//! ```text
//!   fingerprint ──home──►  │ dead A │ live B │ live A' │ empty │        probes end at the first empty slot,
//!                               ▲        ▲        ▲                     or after 64
//!                               └── a slot goes empty → live → dead and no further
//! ```
//!
//! One writer at a time (whoever holds the shard's lock) fills slots; any number of readers in any
//! number of processes look at them without a lock. What they may rely on:
//!
//! - **Published**: words 1 to 3 of a slot, and the record they tell of, are written before word 0
//!   says *live* with release; a reader that acquires after seeing it sees them all.
//! - **Constant**: words 0 (but for its state), 1 and 2 of a slot that is not empty never change.
//!   So a place read from a slot belongs to the fingerprint read from it, whatever happened between
//!   the two loads.
//! - **Ordered**: no slot is empty again, so an entry put later of two with one fingerprint stands
//!   later in probe order. One slot stays empty, so that this order has a beginning. Whoever moves
//!   an entry puts it anew first and kills the old slot with release after; a reader that skips the
//!   dead one acquires, and finds the new one further on.
//! - **A hint**: the record says whether it is the key's; an index may lose entries, and never
//!   makes any up.
//!
//! Nothing here believes the words: any contents of them end in some candidates that have a valid
//! seal, after at most [`PROBES`] slots.

pub(crate) mod find;
pub(crate) mod rebuild;

use super::format::Malformed;
use super::format::SegmentId;
use super::format::header::{
    ATTEMPT_WORDS, ATTEMPTS, DEAD as DEAD_COUNT, ENTRIES, FIXED_WORDS, HEADER_WORDS, IN_USE,
    IndexHeader, LAST, RETIRED, SLOT_WORDS, STATE, TAIL, Tail,
};
use super::format::slot::{
    DEAD, EMPTY, Fingerprint, LIVE, Location, Recency, SEGMENT_BITS, STATE_MASK, seal,
};
use super::sizing::Counts;
use super::words::{Words, WordsMut};
use crate::store::failpoint::{self, Step};
use crate::sync::Ordering::{Relaxed, Release};

/// How many slots a search looks at.
pub(crate) const PROBES: usize = 64;

/// An index over words that are shared.
#[derive(Clone, Debug)]
pub(crate) struct Index<W> {
    words: W,
    header: IndexHeader,
}

/// A live slot: where a record of this fingerprint should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The number of its slot.
    pub(crate) slot: usize,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) location: Location,
}

/// Why an entry was not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No empty slot within reach of its home: rebuild, larger or with another salt.
    Full,
    /// Its segment's id is out of reach of the index's base: rebuild.
    OutOfReach,
}

impl<W: Words> Index<W> {
    /// The index in these words, if they are one.
    pub(crate) fn open(words: W) -> Result<Self, Malformed> {
        if words.len() < HEADER_WORDS {
            return Err(Malformed::Length);
        }
        let fixed: [u64; FIXED_WORDS] = std::array::from_fn(|at| words.load(at));
        let header = IndexHeader::parse(&fixed)?;
        if words.len() != HEADER_WORDS + SLOT_WORDS * header.slots() {
            return Err(Malformed::Length);
        }
        Ok(Index { words, header })
    }

    /// What never changes.
    pub(crate) fn header(&self) -> &IndexHeader {
        &self.header
    }

    /// Whether no newer generation was published: then this one has all entries.
    pub(crate) fn in_use(&self) -> bool {
        self.words.load(STATE) == IN_USE
    }

    /// The live entries of this fingerprint, the one put last at the end. There may be several: of
    /// other keys, or of one that is being moved.
    pub(crate) fn candidates(
        &self,
        fingerprint: Fingerprint,
    ) -> impl Iterator<Item = Candidate> + '_ {
        self.probe(fingerprint)
            .map(|slot| (slot, self.words.load(word(slot, 0))))
            .take_while(|(_, word0)| word0 & STATE_MASK != EMPTY)
            .filter(move |(_, word0)| Fingerprint::of_word(*word0) == fingerprint)
            .filter_map(move |(slot, word0)| {
                // Of a live slot, for its other words. Of a dead one, for the slot that was filled
                // before it was killed.
                self.words.acquire();
                if word0 & STATE_MASK == LIVE { self.sealed(slot, fingerprint) } else { None }
            })
    }

    /// All live entries with their use. Of two with one fingerprint, the one put last comes last.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Candidate, Recency)> + '_ {
        let (slots, mask) = (self.header.slots(), self.header.slots() - 1);
        let is_empty = |slot: &usize| self.words.load(word(*slot, 0)) & STATE_MASK == EMPTY;
        // No probe goes across an empty slot, so from there the order of slots is that of probes.
        let start = (0..slots).find(is_empty).unwrap_or(0);
        (0..slots).filter_map(move |n| {
            let slot = (start + n) & mask;
            let word0 = self.words.load(word(slot, 0));
            if word0 & STATE_MASK != LIVE {
                return None;
            }
            self.words.acquire();
            let candidate = self.sealed(slot, Fingerprint::of_word(word0))?;
            Some((candidate, Recency::unpack(self.words.load(word(slot, 3)))))
        })
    }

    /// How an entry has been used.
    pub(crate) fn recency(&self, candidate: &Candidate) -> Recency {
        Recency::unpack(self.words.load(word(candidate.slot, 3)))
    }

    /// How the slots are used, as counted while they were filled and killed: off by as many as
    /// writers died at the wrong moment.
    pub(crate) fn counts(&self) -> Counts {
        Counts { entries: self.words.load(ENTRIES), dead: self.words.load(DEAD_COUNT) }
    }

    /// How the slots are used, by looking at each.
    pub(crate) fn recount(&self) -> Counts {
        let mut counts = Counts::default();
        for slot in 0..self.header.slots() {
            let state = self.words.load(word(slot, 0)) & STATE_MASK;
            counts.entries += u64::from(state != EMPTY);
            counts.dead += u64::from(state != EMPTY && state != LIVE);
        }
        counts
    }

    /// Where the next record goes.
    pub(crate) fn tail(&self) -> Option<Tail> {
        Tail::unpack(self.words.load(TAIL), self.header.base)
    }

    /// The highest segment id that was ever given, as far as it is known: of a segment that is gone nothing else tells,
    /// and who has it mapped would take another of its id for it.
    pub(crate) fn last(&self) -> SegmentId {
        let from_base = self.words.load(LAST);
        let known = if from_base < 1 << SEGMENT_BITS { from_base } else { 0 };
        SegmentId(self.header.base.0 + known)
    }

    /// Whether a live entry of the tail's segment ends beyond the tail, which then tells less than
    /// was published.
    pub(crate) fn overruns(&self, tail: Tail) -> bool {
        self.entries().any(|(Candidate { location, .. }, _)| {
            location.segment == tail.segment && location.end() > tail.end
        })
    }

    /// How many makers of a key began and did not come back. Keys share counters.
    pub(crate) fn attempts(&self, fingerprint: Fingerprint) -> u64 {
        self.words.load(attempts(fingerprint))
    }

    fn probe(&self, fingerprint: Fingerprint) -> impl Iterator<Item = usize> + use<W> {
        let slots = self.header.slots();
        let home = fingerprint.home(self.header.salt, self.header.log2_slots);
        (0..PROBES.min(slots)).map(move |n| (home + n) & (slots - 1))
    }

    fn sealed(&self, slot: usize, fingerprint: Fingerprint) -> Option<Candidate> {
        let word1 = self.words.load(word(slot, 1));
        if self.words.load(word(slot, 2)) != seal(self.header.salt, slot, fingerprint, word1) {
            return None;
        }
        let location = Location::unpack(word1, self.header.base)?;
        Some(Candidate { slot, fingerprint, location })
    }
}

impl<W: WordsMut> Index<W> {
    /// Makes an empty index of words that are all 0 and that nobody else sees yet.
    ///
    /// # Panics
    ///
    /// If the header asks for another number of words.
    pub(crate) fn create(words: W, header: IndexHeader) -> Self {
        assert_eq!(words.len(), HEADER_WORDS + SLOT_WORDS * header.slots());
        for (at, value) in header.encode().into_iter().enumerate() {
            words.store(at, value, Relaxed);
        }
        words.store(STATE, IN_USE, Release);
        Index { words, header }
    }

    /// Puts an entry whose record is whole: readers find it from here on. Only the shard's writer
    /// may.
    pub(crate) fn insert(
        &self,
        fingerprint: Fingerprint,
        location: Location,
        recency: Recency,
    ) -> Result<Candidate, Refused> {
        let word1 = location.pack(self.header.base).ok_or(Refused::OutOfReach)?;
        if self.counts().entries >= self.header.slots() as u64 - 1 {
            return Err(Refused::Full);
        }
        let is_empty = |slot: &usize| self.words.load(word(*slot, 0)) & STATE_MASK == EMPTY;
        let slot = self.probe(fingerprint).find(is_empty).ok_or(Refused::Full)?;
        let word2 = seal(self.header.salt, slot, fingerprint, word1);
        self.words.store(word(slot, 1), word1, Relaxed);
        self.words.store(word(slot, 2), word2, Relaxed);
        self.words.store(word(slot, 3), recency.pack(), Relaxed);
        failpoint::at(Step::SlotFilling);
        self.words.store(word(slot, 0), fingerprint.word(LIVE), Release);
        failpoint::at(Step::SlotLive);
        self.words.add(ENTRIES, 1);
        Ok(Candidate { slot, fingerprint, location })
    }

    /// Puts an entry whose record was written at the tail, and moves the tail behind it: first, so
    /// that at no moment an entry lies where the next record would be written.
    pub(crate) fn append(
        &self,
        fingerprint: Fingerprint,
        location: Location,
        recency: Recency,
    ) -> Result<Candidate, Refused> {
        self.set_tail(Some(Tail { segment: location.segment, end: location.end() }));
        failpoint::at(Step::TailMoved);
        self.insert(fingerprint, location, recency)
    }

    /// Gives an entry another place: a copy of its record, written and whole. At every moment it is
    /// found in one of the two. Only the shard's writer may.
    pub(crate) fn relocate(&self, from: &Candidate, to: Location) -> Result<Candidate, Refused> {
        let moved = self.append(from.fingerprint, to, self.recency(from))?;
        self.kill(from);
        Ok(moved)
    }

    /// Takes an entry out: whether it was this call that did. Anyone may.
    pub(crate) fn kill(&self, candidate: &Candidate) -> bool {
        let Candidate { slot, fingerprint, .. } = *candidate;
        let killed =
            self.words.replace(word(slot, 0), fingerprint.word(LIVE), fingerprint.word(DEAD));
        if killed {
            self.words.add(DEAD_COUNT, 1);
        }
        killed
    }

    /// Remembers that an entry is used in this hour: whether that was news. At most one store per
    /// entry and hour, lost if two come at once.
    pub(crate) fn touch(&self, candidate: &Candidate, hour: u32) -> bool {
        let recency = self.recency(candidate);
        let news = recency.hour != hour;
        if news {
            self.words.store(word(candidate.slot, 3), recency.used(hour).pack(), Relaxed);
        }
        news
    }

    /// Tells readers to look for a newer generation, before `CURRENT` names one: so whoever holds
    /// the shard's lock and finds an index in use has the newest. Only the shard's writer may.
    pub(crate) fn retire(&self) {
        self.words.store(STATE, RETIRED, Release);
    }

    /// Says where the next record goes. Only the shard's writer may.
    pub(crate) fn set_tail(&self, tail: Option<Tail>) {
        self.words.store(TAIL, Tail::pack(tail, self.header.base), Release);
    }

    /// Remembers that this segment id was given. Only the shard's writer may.
    pub(crate) fn set_last(&self, id: SegmentId) {
        self.words.store(LAST, id.0.saturating_sub(self.header.base.0), Relaxed);
    }

    /// Puts the counts right.
    #[cfg(test)]
    pub(crate) fn set_counts(&self, counts: Counts) {
        self.words.store(ENTRIES, counts.entries, Relaxed);
        self.words.store(DEAD_COUNT, counts.dead, Relaxed);
    }

    /// A maker of the key begins: how many did before and did not come back.
    pub(crate) fn attempt(&self, fingerprint: Fingerprint) -> u64 {
        self.words.add(attempts(fingerprint), 1)
    }

    /// A maker of the key came back.
    pub(crate) fn forgive(&self, fingerprint: Fingerprint) {
        self.words.store(attempts(fingerprint), 0, Relaxed);
    }
}

/// Where word `n` of a slot is.
fn word(slot: usize, n: usize) -> usize {
    HEADER_WORDS + SLOT_WORDS * slot + n
}

fn attempts(fingerprint: Fingerprint) -> usize {
    ATTEMPTS + fingerprint.bucket(ATTEMPT_WORDS)
}

#[cfg(test)]
mod loom_index;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
