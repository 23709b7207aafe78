//! Which of the two backends keeps a directory's records, and what both of them can do.
//!
//! Shards need a file system whose maps are coherent and whose blocks stay where they are; everywhere else a
//! record is a file of its own.

use super::fs::FsClass;
use super::index::find::Care;
use super::large::{Failure, Large, Lookup, Put, Replace};
use super::map::MapFs;
use super::record::Kind;
use super::root::Root;
use super::shard::lend::{Lent, Unlent};
use super::shard::way::Way;
use super::shards::Shards;
use super::usage::{Entry, ShardUsage, Usage, Verified};
use crate::key::Key;
use crate::sync::Arc;

/// The records of a directory.
#[derive(Debug)]
pub(crate) enum Backend<F: MapFs> {
    /// In segments, found by mapped indexes.
    Shards(Shards<F>),
    /// In a file each.
    Large(Large<F>),
}

impl<F: MapFs> Backend<F> {
    /// The backend for the directory's file system, kept within about `max_size` bytes.
    pub(crate) fn new(root: Arc<Root<F>>, max_size: u64) -> Self {
        match root.held().class {
            FsClass::Mappable => Backend::Shards(Shards::new(root, max_size)),
            FsClass::CopyOnWrite | FsClass::Foreign => Backend::Large(Large::new(root, max_size)),
        }
    }

    /// The entry of `key`. A quick look may overlook one in a directory that a hand put in this one's place.
    pub(crate) fn get(&self, key: &Key, kind: Kind, care: Care) -> Lookup {
        match (self, kind) {
            (Backend::Shards(shards), _) => shards.get(key, kind, care),
            (Backend::Large(large), Kind::Artifact) => large.get(key),
            (Backend::Large(large), Kind::Note) => large.note(key),
        }
    }

    /// Whether nothing was ever published here, as far as that can be told at once.
    pub(crate) fn is_unborn(&self) -> bool {
        match self {
            Backend::Shards(shards) => shards.is_unborn(),
            Backend::Large(_) => false,
        }
    }

    /// Whether this process has read that the directory is of its own version.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Backend::Shards(shards) => shards.is_open(),
            Backend::Large(_) => false,
        }
    }

    /// Whether there is an artifact of `key`; whether it is whole, only [`get`](Self::get) tells.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        match self {
            Backend::Shards(shards) => shards.contains(key),
            Backend::Large(large) => large.contains(key),
        }
    }

    /// How many makers of `key` began and did not come back, as far as that is remembered.
    pub(crate) fn attempts(&self, key: &Key) -> u64 {
        match self {
            Backend::Shards(shards) => shards.attempts(key),
            Backend::Large(_) => 0,
        }
    }

    /// A maker of `key` begins, and ends when this is dropped; if it never is, its process has died.
    pub(crate) fn attempt<'a>(&'a self, key: &'a Key) -> impl Drop + 'a {
        if let Backend::Shards(shards) = self {
            shards.attempt(key);
        }
        Attempt { backend: self, key }
    }

    /// Publishes the artifact `record`.
    pub(crate) fn put(&self, key: &Key, record: &[u8], replace: Replace) -> Result<Put, Failure> {
        match self {
            Backend::Shards(shards) => shards.put(key, Kind::Artifact, record, replace),
            Backend::Large(large) => large.put(key, record, replace),
        }
    }

    /// As [`put`](Self::put), so that the record can be [lent](Self::lend) where files can be mapped.
    pub(crate) fn put_alone(
        &self,
        key: &Key,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Failure> {
        match self {
            Backend::Shards(shards) => shards.put_alone(key, record, replace),
            Backend::Large(large) => large.put(key, record, replace),
        }
    }

    /// Whether anything can be lent.
    pub(crate) fn lends(&self) -> bool {
        matches!(self, Backend::Shards(_))
    }

    /// The artifact of `key` as a place in a file, by way of what is `known` of it, and verified unless it was as it is now.
    pub(crate) fn lend(&self, key: &Key, known: Option<&Way>) -> Result<Lent<F::Handle>, Unlent> {
        match self {
            Backend::Shards(shards) => shards.lend(key, known),
            Backend::Large(_) => Err(Unlent::FileSystem),
        }
    }

    /// What is known of the artifact of `key`.
    pub(crate) fn way(&self, key: &Key) -> Option<Way> {
        match self {
            Backend::Shards(shards) => shards.way(key),
            Backend::Large(_) => None,
        }
    }

    /// Remembers what is known of the artifact of `key`.
    pub(crate) fn set_way(&self, key: &Key, way: &Way) {
        if let Backend::Shards(shards) = self {
            shards.set_way(key, way);
        }
    }

    /// Publishes the note `record` in place of what was there.
    pub(crate) fn set_note(&self, key: &Key, record: &[u8]) -> Result<(), Failure> {
        match self {
            Backend::Shards(shards) => {
                shards.put(key, Kind::Note, record, Replace::Always).map(drop)
            }
            Backend::Large(large) => large.set_note(key, record),
        }
    }

    /// Calls `visit` for each entry.
    pub(crate) fn for_each(&self, visit: impl FnMut(Entry)) {
        match self {
            Backend::Shards(shards) => shards.for_each(visit),
            Backend::Large(large) => large.for_each(visit),
        }
    }

    /// What lies in the directory.
    pub(crate) fn usage(&self) -> Usage {
        match self {
            Backend::Shards(shards) => shards.usage(),
            Backend::Large(large) => large.usage(),
        }
    }

    /// How full each shard is; nothing where there are none.
    pub(crate) fn fills(&self) -> Vec<ShardUsage> {
        match self {
            Backend::Shards(shards) => shards.fills(),
            Backend::Large(_) => Vec::new(),
        }
    }

    /// Removes every entry; says what there was.
    pub(crate) fn clear(&self) -> Result<Usage, Failure> {
        match self {
            Backend::Shards(shards) => shards.clear(),
            Backend::Large(large) => large.clear(),
        }
    }

    /// Takes an entry out; says whether there was one.
    pub(crate) fn remove(&self, key: &Key, kind: Kind) -> Result<bool, Failure> {
        match self {
            Backend::Shards(shards) => shards.remove(key, kind),
            Backend::Large(large) => large.remove(key, kind),
        }
    }

    /// Removes entries that were not used for so many seconds and then, down to `max_size` bytes, those that are
    /// worth the least.
    pub(crate) fn prune(&self, max_size: u64, unused_s: Option<u64>) -> Result<(), Failure> {
        match self {
            Backend::Shards(shards) => {
                let hours = unused_s.map(|s| u32::try_from(s / 3600).unwrap_or(u32::MAX));
                shards.prune(max_size, hours)
            }
            Backend::Large(large) => large.prune(max_size, unused_s).map(drop),
        }
    }

    /// Reads every record, and takes out those that are damaged. `step` is told how far it is, and how far it
    /// goes.
    pub(crate) fn verify(&self, step: impl FnMut(usize, usize)) -> Result<Verified, Failure> {
        match self {
            Backend::Shards(shards) => shards.verify(step),
            Backend::Large(large) => large.verify(step),
        }
    }
}

/// A maker at work.
struct Attempt<'a, F: MapFs> {
    backend: &'a Backend<F>,
    key: &'a Key,
}

impl<F: MapFs> Drop for Attempt<'_, F> {
    fn drop(&mut self) {
        if let Backend::Shards(shards) = self.backend {
            shards.forgive(self.key);
        }
    }
}
