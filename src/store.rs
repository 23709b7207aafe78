//! Bytes under 32-byte keys, shared by threads and processes. It knows nothing of code.
//!
//! ```text
//!            get / try_get_with
//!                   │
//!   memory   lock-free table of this process           memory.rs
//!                   │ miss
//!   flight   one maker per key: threads, processes     flight.rs
//!                   │ leader
//!   disk     verified records in the cache directory   disk.rs
//!                   │ miss
//!                 make()  ──►  publish  ──►  memory
//! ```
//!
//! This file is what users see; `tiers` puts the parts together.

pub(crate) mod disk;
#[cfg(not(any(loom, shuttle)))]
mod exit;
pub(crate) mod failpoint;
#[cfg_attr(not(test), allow(dead_code, reason = "nothing is wired to it yet"))]
pub(crate) mod flight;
pub(crate) mod memory;
#[cfg(all(test, not(any(loom, shuttle))))]
mod model;
mod record;
mod snapshot;
mod status;
mod tiers;

use std::fmt;

use crate::config::Config;
use crate::error::StoreError;
use crate::key::{Key, KeyBuilder};
use crate::stats::Stats;
use crate::sync::Arc;

pub use disk::record::{Kind, Meta};
pub use disk::totals::Totals;
pub use disk::usage::{Amount, Entry, ShardUsage, Usage, Verified};
pub use record::{Draft, Origin, Published, Record};
pub use status::{Inspection, PruneLimits, Status};

use disk::fs::real::RealFs;
#[cfg(feature = "graph")]
pub(crate) use disk::shard::lend::Lent;
#[cfg(feature = "jit")]
pub(crate) use disk::shard::lend::PAGE;
pub(crate) use tiers::Loan;
use tiers::Tiers;

/// A handle to the cache. Clones share everything.
///
/// ```
/// use cachelift::config::Config;
/// use cachelift::store::{Draft, Origin, Store};
///
/// # let dir = tempfile::tempdir().unwrap();
/// let store = Store::open(Config::default().dir(dir.path().join("cache")));
/// let key = store.key("example v1").str("name", "answer").finish();
/// let make = || Ok::<_, std::io::Error>(Draft::new(b"42".to_vec()));
///
/// let (record, origin) = store.try_get_with(&key, make)?;
/// assert_eq!((record.payload(), origin), (&b"42"[..], Origin::Made));
/// let (_, origin) = store.try_get_with(&key, make)?;
/// assert_eq!(origin, Origin::Memory);
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Store(Arc<Tiers<RealFs>>);

impl Store {
    /// Opens the cache. This never fails: where the directory cannot be used, the store keeps its records in
    /// memory alone, and [`status`](Self::status) says why.
    pub fn open(config: Config) -> Self {
        let store = Arc::new(Tiers::open(config));
        #[cfg(not(any(loom, shuttle)))]
        exit::watch(&store);
        Store(store)
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        self.0.config()
    }

    /// Where the store keeps its records, and why if that is not where it was told to.
    pub fn status(&self) -> &Status {
        self.0.status()
    }

    /// Begins a key of this domain; namespace and salt of the store are in it.
    pub fn key(&self, domain: &str) -> KeyBuilder {
        self.0.seed(KeyBuilder::new(domain))
    }

    /// As [`key`](Self::key), keeping a digest of each part to explain a miss by.
    pub fn explained_key(&self, domain: &str) -> KeyBuilder {
        self.0.seed(KeyBuilder::explained(domain))
    }

    /// The record of `key`, if any tier has it. Never waits for a maker.
    pub fn get(&self, key: &Key) -> Option<Record> {
        self.0.get(key)
    }

    /// Whether a tier has an entry of this name. It is not read, so [`get`](Self::get) may still find it
    /// damaged.
    pub fn contains(&self, key: &Key) -> bool {
        self.0.contains(key)
    }

    /// Publishes a record. The first verified publisher of a key wins, and its record is returned.
    ///
    /// # Errors
    ///
    /// If the directory may only be read, or the file system refuses. This process has the record in memory all
    /// the same. Without a directory, memory is all there is, and that is no error.
    pub fn put(&self, key: &Key, draft: Draft) -> Result<Published, StoreError> {
        self.0.put(key, draft)
    }

    /// The record of `key`: from a tier, from another thread or process that is making it, or from `make`.
    ///
    /// Waiting for another process is bounded by 5 s, for a thread of this one by 10 s; after that `make` runs
    /// here too. Inside another `make` nothing waits.
    ///
    /// # Errors
    ///
    /// `make`'s own error, which is not cached: those who waited run their own `make`. The store adds none.
    ///
    /// # Panics
    ///
    /// If `make` panics, its own caller panics; those who waited run their own `make`.
    pub fn try_get_with<E>(
        &self,
        key: &Key,
        make: impl FnOnce() -> Result<Draft, E>,
    ) -> Result<(Record, Origin), E> {
        self.0.try_get_with(key, make)
    }

    /// As [`try_get_with`](Self::try_get_with) for many keys. What others are making is left for last, so
    /// that workers who start together share the work instead of queueing behind each other.
    ///
    /// `make` is told the place of the key it is to make. Results are in the order of `keys`; a key that stands
    /// twice is made once.
    pub fn try_get_many_with<E>(
        &self,
        keys: &[Key],
        make: impl FnMut(usize) -> Result<Draft, E>,
    ) -> Vec<Result<(Record, Origin), E>> {
        self.0.try_get_many_with(keys, make)
    }

    /// As [`try_get_with`](Self::try_get_with) for what is to be mapped. The payload begins at a page of a file of its
    /// own, is verified whole once per boot, and stays as it is for as long as the file is open or mapped.
    #[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "for the code layer"))]
    pub(crate) fn try_lend_with<E>(
        &self,
        key: &Key,
        make: impl FnOnce() -> Result<Draft, E>,
    ) -> Result<(Loan<std::fs::File>, Origin), E> {
        self.0.try_lend_with(key, make)
    }

    /// Whether anything is lent at all, and not only handed out in memory: that takes a directory, on a file system whose
    /// files can be mapped, that is read.
    #[cfg_attr(not(feature = "graph"), allow(dead_code, reason = "for the graph layer"))]
    pub(crate) fn lends(&self) -> bool {
        self.0.lends()
    }

    /// The note of `key`: a small entry that is replaced as a whole, so that a reader sees the old or the new
    /// one.
    pub fn note(&self, key: &Key) -> Option<Vec<u8>> {
        self.0.note(key)
    }

    /// Sets the note of `key`; the last writer wins.
    ///
    /// # Errors
    ///
    /// If `bytes` are more than 1 MiB, or the file system refuses.
    pub fn set_note(&self, key: &Key, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.set_note(key, bytes)
    }

    /// What this process's store did so far.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Counts what the layers above met that is out of the ordinary, and logs the first of its reason.
    #[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "for the code layer"))]
    pub(crate) fn count_reason(&self, reason: &'static str, detail: impl fmt::Display) {
        self.0.counters().reason(reason, detail);
    }

    /// Counts a record that was made again to be compared.
    #[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "for the code layer"))]
    pub(crate) fn count_audited(&self) {
        self.0.counters().audited();
    }

    /// What lies in the cache directory: nothing if there is none. Reads the whole directory.
    pub fn usage(&self) -> Usage {
        self.0.usage()
    }

    /// How full each shard of the cache directory is; nothing where its file system cannot be mapped. Reads every
    /// index.
    pub fn shards(&self) -> Vec<ShardUsage> {
        self.0.shards()
    }

    /// What all processes did that closed their stores of this directory, this one's open store not among them.
    pub fn totals(&self) -> Totals {
        self.0.totals()
    }

    /// The entries of the cache directory, in no order. Others may add and remove some meanwhile.
    pub fn entries(&self) -> Vec<Entry> {
        self.0.entries()
    }

    /// The record of `key` for looking at: it is not counted as used.
    pub fn inspect(&self, key: &Key) -> Option<Inspection> {
        self.0.inspect(key)
    }

    /// Removes the entry of `key`, here and in the directory; says whether there was one. Other processes that
    /// have loaded it keep it.
    ///
    /// # Errors
    ///
    /// If the directory may only be read, or the file system refuses.
    pub fn remove(&self, key: &Key) -> Result<bool, StoreError> {
        self.0.remove(key)
    }

    /// Removes what is over the limits: entries that were not used for long, then those that are worth the least
    /// for the room they take. Says what is left. Others may go on working. Where records share segments, what
    /// goes is whole segments, and what is still in use in them is moved.
    ///
    /// # Errors
    ///
    /// If there is no directory that may be written, or the file system refuses.
    pub fn prune(&self, limits: PruneLimits) -> Result<Usage, StoreError> {
        self.0.prune(limits)
    }

    /// Reads every record of the directory, takes out those that are damaged, and counts both. `step` is told
    /// from time to time how many parts are done, and of how many.
    ///
    /// # Errors
    ///
    /// If there is no directory that may be written, or the file system refuses.
    pub fn verify(&self, step: impl FnMut(usize, usize)) -> Result<Verified, StoreError> {
        self.0.verify(step)
    }

    /// Removes every entry, here and in the directory, and says what lay there. Others may go on working:
    /// what they have loaded stays theirs.
    ///
    /// # Errors
    ///
    /// If there is no directory that may be written.
    pub fn clear(&self) -> Result<Usage, StoreError> {
        self.0.clear()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.status())
    }
}
