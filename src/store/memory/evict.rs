//! Who has to go when memory is full: approximately the entry that was used longest ago.
//!
//! ```text
//!            hand ──► next 8 entries, in the order of buckets
//!   ┌────┬────┬────┬────┬────┬────┬────┬────┐
//!   │ 17 │ 17 │ 12 │ 16 │ 17 │  3 │ 17 │ 15 │    the clock at their last use; now it is 17
//!   └────┴────┴────┴────┴────┴─▲──┴────┴────┘
//!                            evicted; the hand moves behind them
//! ```
//!
//! The clock ticks whenever another 1/64 of the limit was inserted. A hit writes the present tick into its
//! entry, and that only if it is not there already: a busy entry is written once per tick, whatever the number of
//! its hits. Buckets are in the order of the keys, which is random, so the eight are a random sample, as in
//! Redis; with the hand every entry is looked at once per turn.
//!
//! Evicting is the work of those who insert, and its cost does not depend on the number of entries. Readers take no part.

use crossbeam::utils::CachePadded;

use super::reclaim::Reclaim;
use super::table::Table;
use crate::race::{Fault, planted};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Planted: an insertion takes room that another has taken at the same time.
pub(super) const OVERBOOK: Fault = Fault("room is taken without looking whether it is still there");

/// Planted: an eviction counts as one although another thread was first.
pub(super) const TWICE: Fault = Fault("room is given back by a thread that has not removed");

/// Entries that are compared for one eviction.
const SAMPLE: usize = 8;

/// Ticks of the clock while the whole memory is filled once.
const TICKS: u64 = 64;

/// A value with what eviction has to know.
pub(super) struct Entry<V> {
    pub(super) value: V,
    /// Bytes that it takes of the limit.
    pub(super) cost: u64,
    used: AtomicU32,
}

/// The bytes that may be used, and are.
pub(super) struct Budget {
    limit: u64,
    clock: AtomicU32,
    // What inserters write, apart from what readers load.
    counts: CachePadded<Counts>,
}

struct Counts {
    /// Taken by entries in the table and by those on the way there; never above the limit.
    bytes: AtomicU64,
    /// All that was ever taken.
    inserted: AtomicU64,
    evictions: AtomicU64,
    hand: AtomicUsize,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Budget {
            limit,
            clock: AtomicU32::new(0),
            counts: CachePadded::new(Counts {
                bytes: AtomicU64::new(0),
                inserted: AtomicU64::new(0),
                evictions: AtomicU64::new(0),
                hand: AtomicUsize::new(0),
            }),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn evictions(&self) -> u64 {
        self.counts.evictions.load(Ordering::Relaxed)
    }

    /// Whether a value of this cost is so large that it should not lie in a thread's list of garbage: such a
    /// list has 64 places, and so holds a sixteenth of the limit at most.
    pub(super) fn is_heavy(&self, cost: u64) -> bool {
        cost > self.limit / 1024
    }

    /// An entry that is used now, for which room was [taken](Self::take).
    pub(super) fn entry<V>(&self, value: V, cost: u64) -> Entry<V> {
        Entry { value, cost, used: AtomicU32::new(self.clock.load(Ordering::Relaxed)) }
    }

    /// Notes that `entry` is used.
    #[inline(always)]
    pub(super) fn touch<V>(&self, entry: &Entry<V>) {
        let now = self.clock.load(Ordering::Relaxed);
        if entry.used.load(Ordering::Relaxed) != now {
            entry.used.store(now, Ordering::Relaxed);
        }
    }

    /// Takes room for `cost` bytes and evicts what is in the way. Says `false`, and has taken nothing, if the
    /// room cannot be had: `cost` is above the limit, nothing is left to evict, or others have taken all that this
    /// call has freed.
    pub(super) fn take<V: Send + Sync + 'static, R: Reclaim>(
        &self,
        cost: u64,
        table: &Table<Entry<V>, R>,
        guard: &R::Guard,
    ) -> bool {
        if cost > self.limit {
            return false;
        }
        let mut freed = 0;
        loop {
            if self.try_take(cost) {
                let step = (self.limit / TICKS).max(1);
                let before = self.counts.inserted.fetch_add(cost, Ordering::Relaxed);
                if before / step != before.wrapping_add(cost) / step {
                    self.clock.fetch_add(1, Ordering::Relaxed);
                }
                return true;
            }
            if freed > self.limit {
                return false;
            }
            match self.evict(table, guard) {
                Some(cost) => freed += cost,
                None => return false,
            }
        }
    }

    fn try_take(&self, cost: u64) -> bool {
        let bytes = &self.counts.bytes;
        let mut now = bytes.load(Ordering::Relaxed);
        loop {
            let Some(then) = now.checked_add(cost).filter(|then| *then <= self.limit) else {
                return false;
            };
            if planted(OVERBOOK) {
                bytes.fetch_add(cost, Ordering::Relaxed);
                return true;
            }
            match bytes.compare_exchange_weak(now, then, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
    }

    /// Gives room back.
    pub(super) fn release(&self, cost: u64) {
        self.counts.bytes.fetch_sub(cost, Ordering::Relaxed);
    }

    /// Removes one entry and returns its cost; `None` if there is none.
    fn evict<V: Send + Sync + 'static, R: Reclaim>(
        &self,
        table: &Table<Entry<V>, R>,
        guard: &R::Guard,
    ) -> Option<u64> {
        loop {
            let now = self.clock.load(Ordering::Relaxed);
            let age = |entry: &Entry<V>| now.wrapping_sub(entry.used.load(Ordering::Relaxed));
            let mut oldest = None;
            let hand = self.counts.hand.load(Ordering::Relaxed);
            let hand = table.sample(
                hand,
                SAMPLE,
                |key, entry| match oldest {
                    Some((_, _, greatest)) if age(entry) <= greatest => {}
                    _ => oldest = Some((key, entry, age(entry))),
                },
                guard,
            );
            self.counts.hand.store(hand, Ordering::Relaxed);
            let (key, entry, _) = oldest?;
            if table.remove_seen(key, entry, guard) || planted(TWICE) {
                self.counts.evictions.fetch_add(1, Ordering::Relaxed);
                self.release(entry.cost);
                if self.is_heavy(entry.cost) {
                    table.reclaim().flush(guard);
                }
                return Some(entry.cost);
            }
        }
    }
}
