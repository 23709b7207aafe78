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

pub(crate) mod disk;
#[cfg_attr(not(test), allow(dead_code, reason = "nothing is wired to it yet"))]
pub(crate) mod flight;

use std::collections::HashMap;
use std::fmt;

use crate::config::Config;
use crate::error::StoreError;
use crate::key::{Key, KeyBuilder};
use crate::sync::{Arc, Mutex};

use disk::record;
pub use disk::record::Meta;

/// A verified entry: its bytes cannot be torn, stale or another key's. Cheap to clone.
#[derive(Clone)]
pub struct Record {
    bytes: Arc<Vec<u8>>,
    layout: Arc<record::Layout>,
}

impl Record {
    /// The payload, as it was put.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.layout.payload.clone()]
    }

    /// What is remembered of the entry beside its payload; decoded at each call.
    pub fn meta(&self) -> Meta {
        record::decode_meta(&self.bytes[self.layout.meta.clone()])
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} bytes)", self.payload().len())
    }
}

/// An entry as its maker hands it over.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// What a hit will return.
    pub payload: Vec<u8>,
    /// What is remembered beside it. The store fills in the time and the cost where they are 0.
    pub meta: Meta,
}

/// Where a record came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// This process had it.
    Memory,
    /// The cache directory had it.
    Disk,
    /// The shared tier had it.
    Remote,
    /// Another thread or process was making it, and was waited for.
    Waited,
    /// It was made here.
    Made,
}

impl Origin {
    /// The lower-case name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Memory => "memory",
            Origin::Disk => "disk",
            Origin::Remote => "remote",
            Origin::Waited => "waited",
            Origin::Made => "made",
        }
    }
}

/// What became of a [`Store::put`].
#[derive(Clone, Debug)]
pub enum Published {
    /// The record is in the cache now.
    New(Record),
    /// Another was there first, and is the one to use.
    Existing(Record),
}

/// A handle to the cache. Clones share everything.
#[derive(Clone)]
pub struct Store {
    config: Arc<Config>,
    records: Arc<Mutex<HashMap<Key, Record>>>,
}

impl Store {
    /// Opens the cache. A directory that cannot be used is no failure: the store then keeps its records in
    /// memory alone.
    pub fn open(config: Config) -> Self {
        Store { config: Arc::new(config), records: Arc::new(Mutex::new(HashMap::new())) }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Begins a key of this domain; namespace and salt of the store are in it.
    pub fn key(&self, domain: &str) -> KeyBuilder {
        let mut parts = KeyBuilder::new(domain);
        parts.str("namespace", &self.config.namespace).str("salt", &self.config.salt);
        parts
    }

    /// The record of `key`, if any tier has it.
    pub fn get(&self, key: &Key) -> Option<Record> {
        self.records.lock().get(key).cloned()
    }

    /// Publishes a record. The first verified publisher of a key wins.
    pub fn put(&self, key: &Key, draft: Draft) -> Result<Published, StoreError> {
        let bytes = record::encode(key, record::Kind::Artifact, &draft.meta, &draft.payload);
        let layout = record::parse(&bytes, key, record::Kind::Artifact).expect("just encoded");
        let record = Record { bytes: Arc::new(bytes), layout: Arc::new(layout) };
        let mut records = self.records.lock();
        if let Some(there) = records.get(key) {
            return Ok(Published::Existing(there.clone()));
        }
        records.insert(*key, record.clone());
        Ok(Published::New(record))
    }

    /// The record of `key`: from a tier, from another thread or process that is making it, or from
    /// `make`. Fails only with `make`'s own error, which is not cached.
    pub fn try_get_with<E>(
        &self,
        key: &Key,
        make: impl FnOnce() -> Result<Draft, E>,
    ) -> Result<(Record, Origin), E> {
        if let Some(record) = self.get(key) {
            return Ok((record, Origin::Memory));
        }
        match self.put(key, make()?) {
            Ok(Published::New(record) | Published::Existing(record)) => Ok((record, Origin::Made)),
            Err(_) => unreachable!("memory takes every record"),
        }
    }

    /// As [`try_get_with`](Self::try_get_with) for many keys: those that others are making are left for
    /// last, so that workers who start together share the work. Results are in the order of `keys`; a key
    /// that stands twice is made once.
    pub fn try_get_many_with<E>(
        &self,
        keys: &[Key],
        mut make: impl FnMut(usize) -> Result<Draft, E>,
    ) -> Vec<Result<(Record, Origin), E>> {
        keys.iter().enumerate().map(|(i, key)| self.try_get_with(key, || make(i))).collect()
    }
}
