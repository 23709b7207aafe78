//! Races over the disk tier on the simulated file system: one race per file, each body run under every
//! schedule that the explorer has, with deaths, errors and power cuts, and under shuttle.
//!
//! Every body ends with [`Cache::proves_usable`]: a process that comes afterwards, whatever happened, opens
//! the cache, sees only what was offered, and can publish every key.

mod clear;
mod crash;
mod damage;
mod evict;
mod flight;
mod fork;
mod lock;
mod notes;
mod publish;
mod recover;
mod remove;
mod shards;
#[cfg(shuttle)]
#[path = "race/threads.rs"]
mod shuttle_threads;
#[cfg(not(shuttle))]
mod threads;
mod trust;

use std::path::Path;

use super::backend::Backend;
use super::fs::FsClass;
use super::fs::sim::explore::{Explored, Explorer, Run};
use super::fs::sim::machine::Setup;
use super::fs::sim::oracle::Oracle;
use super::fs::sim::{HOME, Mutant, SimFs, World};
use super::index::find::Care;
use super::large::{Failure, Large, Lookup, Put, Replace};
use super::record::{self, Kind, Meta};
use super::root::Root;
use super::shards::Shards;
use super::trust::{Purpose, Refusal, SPACE};
use crate::key::{Key, KeyBuilder};
use crate::race::{Fault, with_planted};
use crate::sync::Arc;

/// Far above what the bodies write: nothing is evicted.
const ROOMY: u64 = 1 << 40;
/// The same for shards, one shard of it: what its files occupy has to be simulated.
const ROOMY_SHARD: u64 = 1 << 20;

/// The cache as one simulated process uses it, with an oracle that watches.
struct Cache {
    root: Arc<Root<SimFs>>,
    records: Backend<SimFs>,
    oracle: Oracle,
    max_size: u64,
}

impl Cache {
    fn open(fs: SimFs, oracle: &Oracle) -> Result<Self, Refusal> {
        Cache::limited(fs, oracle, ROOMY)
    }

    fn limited(fs: SimFs, oracle: &Oracle, max_size: u64) -> Result<Self, Refusal> {
        let root = Root::open(fs, Path::new(&dir()), Purpose::Cache)?;
        let max_size = match root.held().class {
            FsClass::Mappable => max_size.min(ROOMY_SHARD),
            _ => max_size,
        };
        let records = Backend::new(root.clone(), max_size);
        Ok(Cache { root, records, oracle: oracle.clone(), max_size })
    }

    fn fs(&self) -> &SimFs {
        self.root.fs()
    }

    fn large(&self) -> &Large<SimFs> {
        match &self.records {
            Backend::Large(large) => large,
            Backend::Shards(_) => panic!("the body is for files"),
        }
    }

    fn shards(&self) -> &Shards<SimFs> {
        match &self.records {
            Backend::Shards(shards) => shards,
            Backend::Large(_) => panic!("the body is for shards"),
        }
    }

    /// Looks `key` up: a hit must have been offered, and a key known to be there must hit.
    fn get(&self, key: &Key) -> bool {
        self.look_up(key, Kind::Artifact, Care::Thorough).is_some()
    }

    /// The same without asking a file where the index says that nothing is there.
    fn get_quickly(&self, key: &Key) -> bool {
        self.look_up(key, Kind::Artifact, Care::Quick).is_some()
    }

    /// Looks a note up, likewise.
    fn note(&self, key: &Key) -> Option<Vec<u8>> {
        self.look_up(key, Kind::Note, Care::Thorough)
    }

    fn look_up(&self, key: &Key, kind: Kind, care: Care) -> Option<Vec<u8>> {
        let must_hit = self.oracle.must_hit(self.fs(), key);
        let struck = self.fs().struck();
        let found = self.records.get(key, kind, care);
        // A disk that fails has no promises to keep.
        self.oracle.looked_up(key, payload(&found), must_hit && self.fs().struck() == struck);
        payload(&found).map(<[u8]>::to_vec)
    }

    /// Publishes `body`; what was there already must have been offered.
    fn put(&self, key: &Key, body: &[u8]) -> Result<(), Failure> {
        self.oracle.offer(key, body);
        match self.records.put(key, &artifact(key, body), Replace::Damaged)? {
            Put::New => {}
            Put::Existing(found) => {
                let payload = &found.bytes[found.layout.payload.clone()];
                self.oracle.looked_up(key, Some(payload), false);
            }
        }
        Ok(())
    }

    /// As [`put`](Self::put) where nothing removes the record: from now on every look-up has to hit.
    fn put_for_good(&self, key: &Key, body: &[u8]) {
        if self.put(key, body).is_ok() {
            self.oracle.published(self.fs(), key);
        }
    }

    fn set_note(&self, key: &Key, body: &[u8]) -> Result<(), Failure> {
        self.oracle.offer(key, body);
        self.records.set_note(key, &record::encode(key, Kind::Note, &Meta::default(), body))
    }

    /// Evicts what is over the limit.
    fn clean(&self) {
        match &self.records {
            Backend::Large(large) => _ = large.clean(),
            Backend::Shards(shards) => _ = shards.prune(self.max_size, None),
        }
    }

    /// A process that comes when all is over can use the cache: I1, I8, I11.
    fn proves_usable(world: &World, oracle: &Oracle, keys: &[Key]) -> Cache {
        let cache = Cache::open(world.process(), oracle).expect("a cache that opens");
        for key in keys {
            cache.get(key);
            cache.put(key, b"afterwards").expect("a cache that takes records");
            assert!(cache.get(key), "I8: a miss after a put");
        }
        cache
    }
}

fn payload(found: &Lookup) -> Option<&[u8]> {
    match found {
        Lookup::Hit(found) => Some(&found.bytes[found.layout.payload.clone()]),
        Lookup::Miss(_) => None,
    }
}

fn artifact(key: &Key, body: &[u8]) -> Vec<u8> {
    record::encode(key, Kind::Artifact, &Meta::default(), body)
}

/// A process that has the cache open when the run begins.
fn process(run: &Run, oracle: &Oracle, body: impl FnOnce(&Cache) + Send + 'static) {
    limited_process(run, oracle, ROOMY, body);
}

fn limited_process(
    run: &Run,
    oracle: &Oracle,
    max_size: u64,
    body: impl FnOnce(&Cache) + Send + 'static,
) {
    let fs = run.world().process();
    let cache = Cache::limited(fs.clone(), oracle, max_size).expect("a new cache");
    if run.warm {
        cache.put(&key(255), b"warm").expect("a cache that takes records");
        cache.get(&key(255));
    }
    run.process_on(fs, move |_| body(&cache));
}

fn dir() -> String {
    format!("{HOME}/cache")
}

/// Where the artifact of `key` lies.
fn path(key: &Key) -> String {
    let key = key.to_string();
    format!("{}/{SPACE}/big/{}/{}", dir(), &key[..2], &key[2..])
}

fn key(n: u8) -> Key {
    KeyBuilder::new("race").u64("n", n.into()).finish()
}

/// What writer `n` publishes.
fn body(n: u8) -> Vec<u8> {
    vec![n; 200]
}

/// One file per record, whose bytes must never change once it has a record's name.
fn files() -> Setup {
    let published = |name: &str| name.len() == 62 && name.bytes().all(|c| c.is_ascii_hexdigit());
    Setup { class: FsClass::CopyOnWrite, published, ..Setup::default() }
}

/// Nobody watches what is done to published files: their readers have to notice themselves.
fn unwatched() -> Setup {
    Setup { watch: false, ..files() }
}

/// Explores a body over files.
fn explorer(name: &'static str) -> Explorer {
    Explorer::new(name).setup(files())
}

/// Explores a body over shards.
fn sharded(name: &'static str) -> Explorer {
    Explorer::new(name).setup(shards::setup())
}

/// The same where shards are open already, in all processes.
fn warmed(name: &'static str) -> Explorer {
    let warm = |world: &World| {
        let cache = Cache::open(world.process(), &Oracle::default()).expect("a new cache");
        cache.put(&key(255), b"warm").expect("there is room");
    };
    sharded(name).after(warm).warmed()
}

/// Expects that an exploration sees this fault, and says that it breaks this promise.
fn rejects(fault: &'static str, promise: &str, explore: impl FnOnce() -> Explored) {
    with_planted(Fault(fault), explore).breaks(promise);
}
