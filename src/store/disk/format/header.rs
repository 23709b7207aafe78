//! The header of an index: 512 words, of which these have a meaning.
//!
//! | word | what | changes |
//! |---|---|---|
//! | 0 | magic `CLIX\0\0\0\x01` | never |
//! | 1 | format (16 bits) \| shard (16) \| log2 of the slots (8) \| 0 | never |
//! | 2 | generation | never |
//! | 3 | base: slots count segment ids from here | never |
//! | 4, 5 | cache id | never |
//! | 6, 7 | salt, random | never |
//! | 8, 9 | boot id of its making | never |
//! | 10, 11 | device and inode of this very file | never |
//! | 12–14 | 0 | never |
//! | 15 | XXH3-64 of words 0 to 14 | never |
//! | 64 | state: 1 in use, 2 retired; anything else reads as retired | in use → retired, by the shard's writer |
//! | 72 | tail: segment, from base (32 bits) \| end of its published bytes / 64 (32); 0 is none | by the writer, before the slot |
//! | 80 | how many slots are not empty | by the writer |
//! | 88 | how many slots are dead | by whoever kills one |
//! | 96 | the highest segment id that was ever given, from base | by the writer, before the file is made |
//! | 256–319 | attempts: makers that began, by key, and did not come back | by anyone |
//!
//! What changes lies on cache lines of its own, and every bit of it can be lost: it is counted
//! again from the slots and the segments. Device and inode tell a copied directory from the one
//! that its segments' writers know.

use super::slot::{OFFSET_BITS, SEGMENT_BITS};
use super::{CacheId, FORMAT, MAX_ID, Malformed, SegmentId, check, digest, shard_number};
use crate::store::disk::record::ALIGN;

/// The words before the first slot.
pub(crate) const HEADER_WORDS: usize = 512;
/// The words of a slot.
pub(crate) const SLOT_WORDS: usize = 4;
/// The words that never change.
pub(crate) const FIXED_WORDS: usize = 16;
/// The largest index has 2 to this many slots.
pub(crate) const MAX_LOG2_SLOTS: u8 = 28;

pub(crate) const STATE: usize = 64;
pub(crate) const TAIL: usize = 72;
pub(crate) const ENTRIES: usize = 80;
pub(crate) const DEAD: usize = 88;
pub(crate) const LAST: usize = 96;
pub(crate) const ATTEMPTS: usize = 256;
pub(crate) const ATTEMPT_WORDS: usize = 64;

/// The values of word [`STATE`].
pub(crate) const IN_USE: u64 = 1;
pub(crate) const RETIRED: u64 = 2;

const MAGIC: u64 = u64::from_le_bytes(*b"CLIX\0\0\0\x01");

/// When and where a file lies: a copy, or the same file after the next boot, is elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) boot: [u8; 16],
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// What never changes in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexHeader {
    pub(crate) cache: CacheId,
    pub(crate) shard: u16,
    pub(crate) generation: u64,
    /// Segment ids in its slots are above this.
    pub(crate) base: SegmentId,
    pub(crate) log2_slots: u8,
    pub(crate) salt: [u64; 2],
    /// Where it was made.
    pub(crate) place: Place,
}

impl IndexHeader {
    /// The length in bytes of an index of 2 to this many slots.
    pub(crate) fn file_length(log2_slots: u8) -> u64 {
        8 * (HEADER_WORDS as u64 + ((SLOT_WORDS as u64) << log2_slots))
    }

    /// What `CURRENT` says of it beside its number.
    pub(crate) fn check(&self) -> u32 {
        self.encode()[FIXED_WORDS - 1] as u32
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        1 << self.log2_slots
    }

    pub(crate) fn encode(&self) -> [u64; FIXED_WORDS] {
        let mut words = [0; FIXED_WORDS];
        words[0] = MAGIC;
        words[1] =
            u64::from(FORMAT) | u64::from(self.shard) << 16 | u64::from(self.log2_slots) << 32;
        words[2] = self.generation;
        words[3] = self.base.0;
        words[4..6].copy_from_slice(&halves(self.cache.0));
        words[6..8].copy_from_slice(&self.salt);
        words[8..10].copy_from_slice(&halves(self.place.boot));
        words[10] = self.place.device;
        words[11] = self.place.inode;
        words[15] = checksum(&words);
        words
    }

    pub(crate) fn parse(words: &[u64; FIXED_WORDS]) -> Result<IndexHeader, Malformed> {
        check(words[0] == MAGIC, Malformed::Magic)?;
        check(words[15] == checksum(words), Malformed::Checksum)?;
        check(words[1] as u16 == FORMAT, Malformed::Format)?;
        let log2_slots = (words[1] >> 32) as u8;
        let (generation, base) = (words[2], words[3]);
        check(log2_slots <= MAX_LOG2_SLOTS, Malformed::Range)?;
        check(generation < MAX_ID && base < MAX_ID, Malformed::Range)?;
        Ok(IndexHeader {
            cache: CacheId(bytes(words[4], words[5])),
            shard: shard_number((words[1] >> 16) as u16)?,
            generation,
            base: SegmentId(base),
            log2_slots,
            salt: [words[6], words[7]],
            place: Place { boot: bytes(words[8], words[9]), device: words[10], inode: words[11] },
        })
    }
}

/// Where a shard's next record goes: the segment that is being filled, and the end of what is
/// published there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) segment: SegmentId,
    /// In bytes from the segment's beginning.
    pub(crate) end: u64,
}

impl Tail {
    /// The word that says so, 0 for none; none also if the segment is out of the index's reach.
    pub(crate) fn pack(tail: Option<Tail>, base: SegmentId) -> u64 {
        let word = |tail: Tail| {
            let segment = tail.segment.0.checked_sub(base.0)?;
            let end = tail.end / ALIGN as u64;
            // One bit more than an offset: a full segment ends where no record begins.
            let in_reach = 0 < segment && segment < 1 << SEGMENT_BITS;
            (in_reach && end <= 1 << OFFSET_BITS).then_some(segment << 32 | end)
        };
        tail.and_then(word).unwrap_or(0)
    }

    pub(crate) fn unpack(word: u64, base: SegmentId) -> Option<Tail> {
        let (segment, end) = (word >> 32, word as u32);
        (segment > 0).then(|| Tail {
            segment: SegmentId(base.0 + segment),
            end: u64::from(end) * ALIGN as u64,
        })
    }
}

fn checksum(words: &[u64; FIXED_WORDS]) -> u64 {
    let mut bytes = [0; 8 * (FIXED_WORDS - 1)];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest(&bytes)
}

fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let whole = u128::from_le_bytes(bytes);
    [whole as u64, (whole >> 64) as u64]
}

fn bytes(low: u64, high: u64) -> [u8; 16] {
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}
