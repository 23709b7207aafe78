//! The memory tier by itself, for `benches/peers`: what a hit costs, and what of it is the guard.
//!
//! Values are single words, which stand for the address of code.

use crate::key::Key;
use crate::store::memory::{Epoch, Insert, Keep, Memory, Reclaim, Table};

/// The tier as the store has it: hits hold a guard and note when they were.
#[derive(Debug)]
pub struct Tier(Memory<u64>);

impl Tier {
    /// A tier for all these values.
    pub fn new(values: impl IntoIterator<Item = (Key, u64)>) -> Self {
        let memory = Memory::new(u64::MAX);
        for (key, value) in values {
            memory.insert(&key, value, 0);
        }
        Tier(memory)
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &Key) -> Option<u64> {
        self.0.get(key)
    }
}

/// The tier's table alone, which frees nothing: its guard is nothing at all.
pub struct Unguarded(Table<u64, Keep>);

impl Unguarded {
    /// A table of all these values.
    pub fn new(values: impl IntoIterator<Item = (Key, u64)>) -> Self {
        let table = Table::with_capacity(0);
        table.pin();
        for (key, value) in values {
            assert!(matches!(table.insert(&key, value, &()), Insert::New(_)));
        }
        Unguarded(table)
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &Key) -> Option<u64> {
        self.0.get(key, &()).copied()
    }
}

/// Makes a guard and drops it.
#[inline]
pub fn guard() {
    drop(std::hint::black_box(Epoch.pin()));
}
