//! The tier in the cache directory.
//!
//! ```text
//!   large     one file per record            lock      eternal lock files
//!      │                                       │
//!      └──────────────► root ◄────────────────┘       the directory, held and found again
//!                         │
//!                       trust                          whether it may be used
//!                         │
//!   record              fs ── real                     bytes; file operations
//! ```
//!
//! Failures of this tier are values with a `Reason`, counted where they are met. None of them is more than a
//! miss, or a record that is not published.
#![doc = include_str!("disk/FORMAT.md")]

pub(crate) mod backend;
mod checksum;
pub(crate) mod format;
pub(crate) mod fs;
pub(crate) mod index;
pub(crate) mod large;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod reason;
pub(crate) mod record;
pub(crate) mod root;
pub(crate) mod segment;
pub(crate) mod shard;
pub(crate) mod shards;
pub(crate) mod sizing;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod totals;
pub(crate) mod trust;
pub(crate) mod usage;
pub(crate) mod words;

#[cfg(all(test, not(loom)))]
mod race;
