//! What a store says of itself and of its directory.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::record::{Origin, Record};

/// Where a store keeps its records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// In memory and in this directory.
    Disk {
        /// The directory.
        dir: PathBuf,
        /// Whether it is only read.
        read_only: bool,
    },
    /// In this process's memory alone, and why.
    MemoryOnly {
        /// A sentence that names the cause and, where there is one, the way out.
        reason: String,
    },
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Disk { dir, read_only: false } => write!(f, "{}", dir.display()),
            Status::Disk { dir, read_only: true } => write!(f, "{} (read only)", dir.display()),
            Status::MemoryOnly { reason } => write!(f, "memory only: {reason}"),
        }
    }
}

/// What [`Store::prune`](super::Store::prune) leaves. What is `None` is no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneLimits {
    /// The most bytes on disk; `None`: the store's own limit.
    pub max_size: Option<u64>,
    /// Entries that were used in this time stay, to the hour.
    pub unused_for: Option<Duration>,
}

/// An entry, looked at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The entry.
    pub record: Record,
    /// The tier that had it.
    pub origin: Origin,
    /// The bytes of the whole record, on disk as in memory.
    pub record_bytes: usize,
}
