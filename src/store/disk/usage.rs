//! What lies in a cache directory, counted.

use serde::Serialize;

use super::fs::Stat;
use super::record::Kind;
use crate::key::Key;

/// An entry of a cache directory, as its names and times tell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// What kind of entry it is.
    pub kind: Kind,
    /// The length of its record, in bytes.
    pub length: u64,
    /// The bytes that it occupies on disk.
    pub allocated: u64,
    /// When it was made or last used, to the hour, in seconds since 1970.
    pub used_s: u64,
}

/// A number of entries and the bytes that they occupy on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// How many.
    pub entries: u64,
    /// The bytes that they occupy.
    pub bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, stat: &Stat) {
        self.entries += 1;
        self.bytes += stat.allocated;
    }
}

/// What lies in a cache directory, or was removed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// Immutable entries.
    pub artifacts: Amount,
    /// Replaceable entries.
    pub notes: Amount,
    /// Files that are being written, or were when their writer died.
    pub temporary: Amount,
    /// The bytes that all files together occupy on disk: more than their entries, where these share files
    /// that have room for others.
    pub occupied: u64,
}

impl Usage {
    pub(crate) fn of(&mut self, kind: Kind) -> &mut Amount {
        match kind {
            Kind::Artifact => &mut self.artifacts,
            Kind::Note => &mut self.notes,
        }
    }

    /// The bytes of all entries.
    pub fn bytes(&self) -> u64 {
        self.artifacts.bytes + self.notes.bytes + self.temporary.bytes
    }
}

/// How full a shard is: one of the parts in which a cache directory keeps its records, where its file system can be
/// mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShardUsage {
    /// Its number.
    pub shard: u16,
    /// Entries that are found.
    pub entries: u64,
    /// The bytes of their records.
    pub bytes: u64,
    /// The bytes that its files occupy on disk.
    pub occupied: u64,
    /// The bytes that they may occupy, give or take a segment.
    pub limit: u64,
    /// How many segments it has.
    pub segments: u64,
    /// The slots of its index; a larger one is made when half of them are used.
    pub slots: u64,
    /// The slots that are used, by entries that are found and by those that were.
    pub used_slots: u64,
}

/// What reading every record came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// Records that are what was published.
    pub whole: u64,
    /// Records that are not, and were taken out where the directory may be written.
    pub damaged: u64,
    /// The bytes of the whole ones.
    pub bytes: u64,
}

impl std::ops::AddAssign for Verified {
    fn add_assign(&mut self, other: Verified) {
        self.whole += other.whole;
        self.damaged += other.damaged;
        self.bytes += other.bytes;
    }
}
