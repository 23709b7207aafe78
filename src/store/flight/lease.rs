//! One maker per key among processes: a lock on one byte of a file.
//!
//! ```text
//!   flight.lock, 0 bytes long, never renamed or unlinked
//!   ├──────────┼─┼──────────────┼─┼───────► 2^62
//!              │ └ process A     └ process B
//!              └ offset = 62 bits of the key
//! ```
//!
//! The kernel ends a lock when its process ends, however it does: no process id and no time of day decides
//! anything, and whoever polls notices at once.
//!
//! A process opens the file once, so its threads do not exclude each other: [`Flights`] does that, and a
//! lease borrows the [`Leader`] it was taken for. It is therefore given back before the leader's cell leaves
//! the table, when no other thread can have taken the same byte of the same open file.
//!
//! [`Flights`]: super::cell::Flights

use std::io;
use std::marker::PhantomData;

use super::cell::Leader;
use crate::key::Key;

/// Locks on the bytes of a file that every process has which uses the same cache directory.
pub(crate) trait ByteLocks: Send + Sync {
    /// Releases the lock when dropped, but not in a child that was forked since it was taken.
    type Guard;

    /// Takes the lock on the byte at `offset`, unless another process has it; never waits. The lock ends
    /// with the process at the latest. In a forked child the parent counts as another process.
    ///
    /// An error says that there is no telling who else has it, now or for good.
    fn try_lock_byte(&self, offset: u64) -> io::Result<Option<Self::Guard>>;
}

/// What asking for a lease came to.
#[derive(Debug)]
pub(crate) enum Acquired<'a, G> {
    /// No other process has the key.
    Held(Lease<'a, G>),
    /// Another process has it.
    Busy,
    /// There is no telling.
    Unavailable(io::Error),
}

/// The right to make a key, among processes; given back when dropped.
#[derive(Debug)]
pub(crate) struct Lease<'a, G> {
    _lock: G,
    _leader: PhantomData<&'a ()>,
}

impl<'a, G> Lease<'a, G> {
    /// Takes the lease of the leader's key, without waiting.
    pub(crate) fn acquire<T>(
        locks: &impl ByteLocks<Guard = G>,
        leader: &'a Leader<'_, T>,
    ) -> Acquired<'a, G> {
        match locks.try_lock_byte(offset(leader.key())) {
            Ok(Some(lock)) => Acquired::Held(Lease { _lock: lock, _leader: PhantomData }),
            Ok(None) => Acquired::Busy,
            Err(error) => Acquired::Unavailable(error),
        }
    }
}

/// The byte that stands for `key`. Two keys that share it would make each other wait, no more.
fn offset(key: &Key) -> u64 {
    key.word(1) >> 2
}
