//! The tier in this process's memory: a lock-free table with a limit on its bytes.
//!
//! ```text
//!   get ──► table ──► entry: value, cost, tick of last use
//!             ▲
//!   insert ───┴── budget: bytes ≤ limit; whoever wants room evicts
//! ```
//!
//! | file | what it knows |
//! |---|---|
//! | `node` | an entry in memory, and the word that names it |
//! | `table` | the lock-free map: who may change which word to what |
//! | `reclaim` | when memory is given back |
//! | `epoch` | which guards are held, without a fence per guard |
//! | `evict` | the limit, and who has to go |
//!
//! A reader takes no lock and writes nothing, except its own thread's epoch and, once per entry and tick of the
//! eviction clock, one relaxed store. Who calls often should keep the value instead.

#[cfg(not(shuttle))]
#[cfg_attr(loom, allow(dead_code, reason = "used by its own models alone"))]
mod epoch;
mod evict;
mod node;
#[cfg(test)]
mod races;
mod reclaim;
mod table;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::fmt;

use crate::key::Key;
use evict::{Budget, Entry};
use node::Node;
#[cfg(any(test, loom, shuttle, feature = "benching"))]
pub(crate) use reclaim::Keep;
pub(crate) use reclaim::{Epoch, Reclaim};
pub(crate) use table::{Insert, Table};

/// Values under keys, as many as the limit allows.
///
/// It may forget any value at any time, and decline to keep one.
pub(crate) struct Memory<V, R = Epoch> {
    table: Table<Entry<V>, R>,
    budget: Budget,
}

impl<V: Clone + Send + Sync + 'static, R: Reclaim> Memory<V, R> {
    /// Memory for at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Memory { table: Table::with_capacity(0), budget: Budget::new(limit) }
    }

    /// The bytes that a value takes of the limit: its `weight`, which is what it holds elsewhere, and what the
    /// entry itself needs.
    pub(crate) const fn cost(weight: u64) -> u64 {
        // Of buckets there are two to four per entry.
        weight.saturating_add((size_of::<Node<Entry<V>>>() + 4 * size_of::<usize>()) as u64)
    }

    /// The value of `key`.
    #[inline]
    pub(crate) fn get(&self, key: &Key) -> Option<V> {
        self.get_with(key, V::clone)
    }

    /// What `see` makes of the value of `key`. Memory that is freed anywhere waits for `see` to return.
    #[inline]
    pub(crate) fn get_with<T>(&self, key: &Key, see: impl FnOnce(&V) -> T) -> Option<T> {
        let guard = self.table.pin();
        let entry = self.table.get(key, &guard)?;
        self.budget.touch(entry);
        Some(see(&entry.value))
    }

    /// Keeps `value`, if it has room and the key has no value yet. Returns the value that the key had, or this
    /// one. `weight` is in bytes.
    pub(crate) fn insert(&self, key: &Key, value: V, weight: u64) -> V {
        let guard = self.table.pin();
        if let Some(entry) = self.table.get(key, &guard) {
            self.budget.touch(entry);
            return entry.value.clone();
        }
        let cost = Self::cost(weight);
        if !self.budget.take(cost, &self.table, &guard) {
            return value;
        }
        match self.table.insert(key, self.budget.entry(value, cost), &guard) {
            Insert::New(entry) => entry.value.clone(),
            Insert::Existing(entry) => {
                self.budget.release(cost);
                entry.value.clone()
            }
            Insert::Refused(entry) => {
                self.budget.release(cost);
                entry.value
            }
        }
    }

    /// Gives `key` this value in place of the one it has, and returns that. If there is no room for the new one,
    /// the key has no value afterwards. `weight` is in bytes.
    pub(crate) fn replace(&self, key: &Key, value: V, weight: u64) -> Option<V> {
        let guard = self.table.pin();
        let cost = Self::cost(weight);
        if !self.budget.take(cost, &self.table, &guard) {
            return self.remove_under(key, &guard);
        }
        match self.table.replace(key, self.budget.entry(value, cost), &guard) {
            Ok(old) => old.map(|old| self.give_back(old, &guard)),
            Err(_) => {
                self.budget.release(cost);
                self.remove_under(key, &guard)
            }
        }
    }

    /// Forgets `key`, and returns its value.
    pub(crate) fn remove(&self, key: &Key) -> Option<V> {
        let old = self.remove_under(key, &self.table.pin());
        if old.is_some() {
            // A guard holds what was retired under it back. Without: the caller wants the memory.
            self.table.reclaim().flush(&self.table.pin());
        }
        old
    }

    /// Forgets every key that is there now.
    pub(crate) fn clear(&self) {
        let guard = self.table.pin();
        self.table.clear(|entry| self.budget.release(entry.cost), &guard);
        self.table.reclaim().flush(&guard);
    }

    /// The bytes taken of the limit.
    pub(crate) fn bytes(&self) -> u64 {
        self.budget.bytes()
    }

    /// The number of keys, counted one by one.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len(&self.table.pin())
    }

    /// How many entries had to go for others.
    pub(crate) fn evictions(&self) -> u64 {
        self.budget.evictions()
    }

    fn remove_under(&self, key: &Key, guard: &R::Guard) -> Option<V> {
        self.table.remove(key, guard).map(|old| self.give_back(old, guard))
    }

    /// The value of an entry that was just taken out of the table.
    fn give_back(&self, old: &Entry<V>, guard: &R::Guard) -> V {
        self.budget.release(old.cost);
        if self.budget.is_heavy(old.cost) {
            self.table.reclaim().flush(guard);
        }
        old.value.clone()
    }
}

impl<V: Clone + Send + Sync + 'static, R: Reclaim> fmt::Debug for Memory<V, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes())
    }
}
