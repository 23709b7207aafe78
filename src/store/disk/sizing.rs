//! How large the parts of a shard are, from the limit on the whole cache.
//!
//! ```text
//!   limit          1 MiB    4 MiB     64 MiB   2 GiB     64 GiB    1 TiB
//!   shards             1        4         16      16         16       16     fixed when the cache is made
//!   per shard      1 MiB    1 MiB      4 MiB   128 MiB    4 GiB    64 GiB
//!   segment       64 KiB   64 KiB    128 KiB   4 MiB     64 MiB    64 MiB    1/32 of a shard
//!   own segment   16 KiB   16 KiB     32 KiB   1 MiB      1 MiB     1 MiB    records above this
//!   index, empty   8 KiB    8 KiB      8 KiB   132 KiB    132 KiB  132 KiB   1/1024 of a shard
//!   index, most   1/4 of a shard, for half as many entries as it has slots
//! ```
//!
//! An index grows by rebuilding: when half of its slots are used, its live entries move to one that
//! they fill by a quarter at most. A million entries of 200 bytes under 2 GiB are 62,500 per shard,
//! 28 MB of records of 448 bytes, and an index of 131,072 slots, 4 MiB: 512 MiB in all. At the
//! most, an index of 32 MiB holds 524,288 entries per shard.
//!
//! Index and segments count against the limit together. A limit that changes from one process to
//! the next is no harm: files carry their own sizes.

use super::format::MAX_SHARD_BITS;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The fewest slots: 2 to this.
const MIN_LOG2_SLOTS: u8 = 7;

/// How many shards a new cache of at most `max_size` bytes gets: 2 to this, up to 16 shards, each
/// of a mebibyte at least.
pub(crate) fn shard_bits(max_size: u64) -> u32 {
    (max_size / MIB).checked_ilog2().unwrap_or(0).min(4)
}

/// The sizes of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizing {
    /// The bytes that its files may occupy, give or take a segment.
    pub(crate) limit: u64,
    /// The bytes of a segment.
    pub(crate) segment: u64,
    /// Segments get their blocks in steps of this many bytes.
    pub(crate) step: u64,
    /// Records above this many bytes get segments of their own.
    pub(crate) shared: u64,
    pub(crate) min_log2_slots: u8,
    pub(crate) max_log2_slots: u8,
}

impl Sizing {
    /// For one of 2 to `shard_bits` shards of a cache of at most `max_size` bytes.
    pub(crate) fn of(max_size: u64, shard_bits: u32) -> Self {
        let limit = max_size >> shard_bits.min(MAX_SHARD_BITS);
        let segment = power_of_two_below(limit / 32).clamp(64 * KIB, 64 * MIB);
        let slots = |bytes: u64| (bytes / 32).checked_ilog2().unwrap_or(0) as u8;
        let min_log2_slots = slots(limit / 1024).clamp(MIN_LOG2_SLOTS, 12);
        Sizing {
            limit,
            segment,
            step: segment.min(MIB),
            shared: (segment / 4).min(MIB),
            min_log2_slots,
            max_log2_slots: slots(limit / 4).clamp(min_log2_slots, 24),
        }
    }

    /// What an index needs before another entry goes in.
    pub(crate) fn room(&self, log2_slots: u8, counts: Counts) -> Room {
        let slots = 1 << log2_slots;
        if counts.entries < slots / 2 {
            return Room::Enough;
        }
        let live = counts.live();
        if live > self.most_live() { Room::Evict } else { Room::Rebuild(self.log2_for(live)) }
    }

    /// The smallest index that so many live entries fill by a quarter at most, or the largest there
    /// may be: 2 to this many slots.
    pub(crate) fn log2_for(&self, live: u64) -> u8 {
        (self.min_log2_slots..self.max_log2_slots)
            .find(|log2| live <= 1 << log2 >> 2)
            .unwrap_or(self.max_log2_slots)
    }

    /// The most live entries of a new index. With more, a rebuild would free less than an eighth of
    /// the slots and be due again too soon.
    pub(crate) fn most_live(&self) -> u64 {
        3 << self.max_log2_slots >> 3
    }
}

/// How the slots of an index are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Slots that are not empty.
    pub(crate) entries: u64,
    /// Slots that are dead.
    pub(crate) dead: u64,
}

impl Counts {
    pub(crate) fn live(self) -> u64 {
        self.entries.saturating_sub(self.dead)
    }
}

/// See [`Sizing::room`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// An entry can go in.
    Enough,
    /// A new generation of 2 to this many slots is due first.
    Rebuild(u8),
    /// The largest index is too full of live entries: some must go first.
    Evict,
}

fn power_of_two_below(n: u64) -> u64 {
    n.checked_ilog2().map_or(0, |log2| 1 << log2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_module_holds() {
        let row = |max_size: u64| {
            let bits = shard_bits(max_size);
            let s = Sizing::of(max_size, bits);
            (1 << bits, s.limit, s.segment, s.shared, 4 * KIB + (32 << s.min_log2_slots))
        };
        assert_eq!(row(MIB), (1, MIB, 64 * KIB, 16 * KIB, 8 * KIB));
        assert_eq!(row(4 * MIB), (4, MIB, 64 * KIB, 16 * KIB, 8 * KIB));
        assert_eq!(row(64 * MIB), (16, 4 * MIB, 128 * KIB, 32 * KIB, 8 * KIB));
        assert_eq!(row(2048 * MIB), (16, 128 * MIB, 4 * MIB, MIB, 132 * KIB));
        assert_eq!(row(65536 * MIB), (16, 4096 * MIB, 64 * MIB, MIB, 132 * KIB));
        assert_eq!(row(MIB * MIB), (16, 65536 * MIB, 64 * MIB, MIB, 132 * KIB));
    }

    #[test]
    fn a_million_small_entries_fit_the_default_limit() {
        let sizing = Sizing::of(2048 * MIB, 4);
        let (mut log2, mut entries) = (sizing.min_log2_slots, 0);
        let mut moved = 0;
        while entries < 62_500 {
            match sizing.room(log2, Counts { entries, dead: 0 }) {
                Room::Enough => entries += 1,
                Room::Rebuild(to) => {
                    assert!(to > log2, "all are live: only a larger index helps");
                    log2 = to;
                    moved += entries;
                }
                Room::Evict => panic!("{entries} entries are not too many"),
            }
        }
        assert_eq!(log2, 17);
        assert!(moved < 2 * 62_500, "growing moves each entry once or twice: {moved}");
        assert!((448 * 62_500) + (32 << log2) < sizing.limit);
    }

    /// Mutant: `most_live` not asked: a rebuild that frees nothing.
    #[test]
    fn every_answer_makes_room() {
        for max_size in [0, 1, MIB, 4 * MIB, 2048 * MIB, u64::MAX] {
            let sizing = Sizing::of(max_size, shard_bits(max_size));
            assert!(sizing.shared + 64 <= sizing.segment && sizing.step <= sizing.segment);
            for log2 in sizing.min_log2_slots..=sizing.max_log2_slots {
                let slots = 1_u64 << log2;
                for entries in [0, slots / 2 - 1, slots / 2, slots, u64::MAX] {
                    for dead in [0, entries / 8, entries / 2, entries, u64::MAX] {
                        let counts = Counts { entries, dead };
                        match sizing.room(log2, counts) {
                            Room::Enough => assert!(entries < slots / 2),
                            Room::Rebuild(to) => {
                                assert!(to <= sizing.max_log2_slots);
                                assert!(counts.live() <= 3 << to >> 3);
                            }
                            Room::Evict => assert!(counts.live() > 3 << sizing.max_log2_slots >> 3),
                        }
                    }
                }
            }
        }
    }
}
