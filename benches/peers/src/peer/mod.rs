//! The caches that are compared, each opened as its users would.

mod cacache;
mod lmdb;
mod ours;
mod sqlite;

use std::path::Path;

use cachelift::key::Key;
use clap::ValueEnum;

/// A cache in a directory, as a process has it open.
pub trait Cache {
    /// Copies the record of `key` out: the length of its payload, if there is one.
    fn get(&mut self, key: &Key) -> Option<usize>;
    /// Publishes a record by itself.
    fn put(&mut self, key: &Key, payload: &[u8]);
    /// Publishes many, the fastest way there is.
    fn fill(&mut self, records: &mut dyn Iterator<Item = (Key, Vec<u8>)>) {
        records.for_each(|(key, payload)| self.put(&key, &payload));
    }
}

/// A cache by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Peer {
    /// cachelift: a hit is verified.
    Ours,
    /// cachelift with no memory tier: a hit comes from the directory.
    OursDisk,
    /// LMDB: a transaction per get, and a copy.
    Lmdb,
    /// As `Lmdb`, and the copy is verified with the checksum that ours has.
    LmdbVerified,
    /// LMDB: all gets in one transaction, which sees nothing new and keeps pages from being used again.
    LmdbOneTransaction,
    /// SQLite with a write-ahead log.
    Sqlite,
    /// cacache: a hit is verified.
    Cacache,
}

impl Peer {
    /// What tables call it.
    pub fn title(self) -> &'static str {
        match self {
            Peer::Ours => "cachelift",
            Peer::OursDisk => "cachelift, directory alone",
            Peer::Lmdb => "lmdb",
            Peer::LmdbVerified => "lmdb + verification",
            Peer::LmdbOneTransaction => "lmdb, one transaction",
            Peer::Sqlite => "rusqlite",
            Peer::Cacache => "cacache",
        }
    }

    /// Those that can share a directory have the same name for it.
    pub fn directory(self) -> &'static str {
        match self {
            Peer::Ours | Peer::OursDisk => "cachelift",
            Peer::Lmdb | Peer::LmdbVerified | Peer::LmdbOneTransaction => "lmdb",
            Peer::Sqlite => "sqlite",
            Peer::Cacache => "cacache",
        }
    }

    /// Opens the cache in `dir`, which is there.
    pub fn open(self, dir: &Path) -> Box<dyn Cache> {
        match self {
            Peer::Ours => Box::new(ours::Ours::open(dir, None)),
            Peer::OursDisk => Box::new(ours::Ours::open(dir, Some(0))),
            Peer::Lmdb => Box::new(lmdb::Lmdb::open(dir, false)),
            Peer::LmdbVerified => Box::new(lmdb::Lmdb::open(dir, true)),
            Peer::LmdbOneTransaction => Box::new(lmdb::OneTransaction::open(dir)),
            Peer::Sqlite => Box::new(sqlite::Sqlite::open(dir)),
            Peer::Cacache => Box::new(cacache::Cacache::open(dir)),
        }
    }
}
