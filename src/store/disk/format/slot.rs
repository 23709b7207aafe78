//! A slot of an index: four words that say where a record lies.
//!
//! | word | what | written |
//! |---|---|---|
//! | 0 | fingerprint (62 bits) \| state (2): 0 empty, 1 live, 2 dead, 3 reads as dead | last, with release; live → dead by anyone |
//! | 1 | segment id from base (21) \| length / 64 (23) \| offset / 64 (20) | once, before word 0 |
//! | 2 | seal over salt, slot number, fingerprint and word 1 | once, before word 0 |
//! | 3 | 0 (16) \| cost class (8) \| uses (8) \| hour of last use (32) | before word 0; by any reader, when the hour changed |
//!
//! The seal rejects what a power cut leaves of a page, and anything that was never a slot here.
//! Lengths are exact, so that a record is read by one call. A record too large to share a segment
//! has one of its own, and a slot like any other.

use super::SegmentId;
use crate::key::Key;
use crate::store::disk::record::{ALIGN, Kind};

pub(crate) const SEGMENT_BITS: u32 = 21;
pub(crate) const LENGTH_BITS: u32 = 23;
pub(crate) const OFFSET_BITS: u32 = 20;

/// The states in the lowest two bits of word 0.
pub(crate) const EMPTY: u64 = 0;
pub(crate) const LIVE: u64 = 1;
pub(crate) const DEAD: u64 = 2;
pub(crate) const STATE_MASK: u64 = 3;

const UNIT: u64 = ALIGN as u64;

/// 62 bits of a key, apart for each kind of record. The record says whether it is the key's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn of(key: &Key, kind: Kind) -> Self {
        Fingerprint::from_bits(key.word(2) ^ u64::from(kind as u8).rotate_right(16))
    }

    /// From the lowest 62 of these bits.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Fingerprint(bits & u64::MAX >> 2)
    }

    /// Word 0 of a slot of this fingerprint in this state.
    pub(crate) fn word(self, state: u64) -> u64 {
        self.0 << 2 | state
    }

    /// The fingerprint in a word 0.
    pub(crate) fn of_word(word: u64) -> Self {
        Fingerprint(word >> 2)
    }

    /// Where in an index of 2 to `log2_slots` slots its search begins.
    pub(crate) fn home(self, salt: [u64; 2], log2_slots: u8) -> usize {
        (mix(self.0 ^ salt[0]) >> (63 - log2_slots) >> 1) as usize
    }

    /// A number below `n`, the same in every generation: which of `n` counters is its.
    pub(crate) fn bucket(self, n: usize) -> usize {
        (self.0 % n as u64) as usize
    }
}

/// Which of 2 to `bits` shards a key belongs to.
pub(crate) fn shard_of(key: &Key, bits: u32) -> u16 {
    key.word(3).checked_shr(64 - bits).unwrap_or(0) as u16
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    pub(crate) segment: SegmentId,
    /// In bytes from the beginning of the segment's file: a multiple of 64, never 0.
    pub(crate) offset: u64,
    /// In bytes: a multiple of 64, never 0.
    pub(crate) length: u64,
}

impl Location {
    /// Word 1 of a slot for it; none if it is out of reach.
    pub(crate) fn pack(&self, base: SegmentId) -> Option<u64> {
        let segment = field(self.segment.0.checked_sub(base.0)?, 1, SEGMENT_BITS)?;
        let length = field(self.length, UNIT, LENGTH_BITS)?;
        let offset = field(self.offset, UNIT, OFFSET_BITS)?;
        Some(segment << (LENGTH_BITS + OFFSET_BITS) | length << OFFSET_BITS | offset)
    }

    /// The location in a word 1. It may be none of a file that exists: check it against the file.
    pub(crate) fn unpack(word: u64, base: SegmentId) -> Option<Location> {
        let segment = word >> (LENGTH_BITS + OFFSET_BITS);
        let length = word >> OFFSET_BITS & ((1 << LENGTH_BITS) - 1);
        let offset = word & ((1 << OFFSET_BITS) - 1);
        (segment > 0 && length > 0 && offset > 0).then(|| Location {
            segment: SegmentId(base.0 + segment),
            offset: offset * UNIT,
            length: length * UNIT,
        })
    }

    /// Where the next record could begin.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// `value` counted in `unit`s, if that is a whole number, not 0, of so many bits.
fn field(value: u64, unit: u64, bits: u32) -> Option<u64> {
    let units = value / unit;
    (value.is_multiple_of(unit) && units > 0 && units < 1 << bits).then_some(units)
}

/// Word 2 of slot number `slot`.
pub(crate) fn seal(salt: [u64; 2], slot: usize, fingerprint: Fingerprint, word1: u64) -> u64 {
    mix(mix(mix(fingerprint.0 ^ salt[0]) ^ word1) ^ salt[1] ^ slot as u64)
}

/// How an entry has been used: a hint, for eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recency {
    /// Hours since 1970.
    pub(crate) hour: u32,
    /// In how many different hours it was used, up to 255.
    pub(crate) uses: u8,
    /// The bits of the number of microseconds that making it took.
    pub(crate) cost: u8,
}

impl Recency {
    /// Of an entry just made.
    pub(crate) fn new(hour: u32, cost_us: u64) -> Self {
        Recency { hour, uses: 0, cost: (u64::BITS - cost_us.leading_zeros()) as u8 }
    }

    /// The same entry used in `hour`.
    pub(crate) fn used(self, hour: u32) -> Self {
        Recency { hour, uses: self.uses.saturating_add(1), ..self }
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.hour) | u64::from(self.uses) << 32 | u64::from(self.cost) << 40
    }

    pub(crate) fn unpack(word: u64) -> Self {
        Recency { hour: word as u32, uses: (word >> 32) as u8, cost: (word >> 40) as u8 }
    }
}

/// A bijection that lets every bit of its argument reach every bit of its result (the finisher of
/// SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
