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
mod remove;
#[cfg(shuttle)]
#[path = "race/threads.rs"]
mod shuttle_threads;
#[cfg(not(shuttle))]
mod threads;
mod trust;

use std::path::Path;

use super::fs::sim::explore::{Explorer, Run};
use super::fs::sim::machine::Setup;
use super::fs::sim::oracle::Oracle;
use super::fs::sim::{HOME, Mutant, SimFs, World};
use super::large::{Failure, Large, Lookup, Put, Replace};
use super::record::{self, Kind, Meta};
use super::root::Root;
use super::trust::{Purpose, Refusal, SPACE};
use crate::key::{Key, KeyBuilder};
use crate::sync::Arc;

/// Far above what the bodies write: nothing is evicted.
const ROOMY: u64 = 1 << 40;

/// The cache as one simulated process uses it, with an oracle that watches.
struct Cache {
    root: Arc<Root<SimFs>>,
    large: Large<SimFs>,
    oracle: Oracle,
}

impl Cache {
    fn open(fs: SimFs, oracle: &Oracle) -> Result<Self, Refusal> {
        Cache::limited(fs, oracle, ROOMY)
    }

    fn limited(fs: SimFs, oracle: &Oracle, max_size: u64) -> Result<Self, Refusal> {
        let root = Root::open(fs, Path::new(&dir()), Purpose::Cache)?;
        let large = Large::new(root.clone(), max_size);
        Ok(Cache { root, large, oracle: oracle.clone() })
    }

    fn fs(&self) -> &SimFs {
        self.root.fs()
    }

    /// Looks `key` up: a hit must have been offered, and a key known to be there must hit.
    fn get(&self, key: &Key) -> bool {
        self.look_up(key, Large::get).is_some()
    }

    /// Looks a note up, likewise.
    fn note(&self, key: &Key) -> Option<Vec<u8>> {
        self.look_up(key, Large::note)
    }

    fn look_up(
        &self,
        key: &Key,
        get: impl FnOnce(&Large<SimFs>, &Key) -> Lookup,
    ) -> Option<Vec<u8>> {
        let must_hit = self.oracle.must_hit(self.fs(), key);
        let struck = self.fs().struck();
        let found = get(&self.large, key);
        // A disk that fails has no promises to keep.
        self.oracle.looked_up(key, payload(&found), must_hit && self.fs().struck() == struck);
        payload(&found).map(<[u8]>::to_vec)
    }

    /// Publishes `body`; what was there already must have been offered.
    fn put(&self, key: &Key, body: &[u8]) -> Result<(), Failure> {
        self.oracle.offer(key, body);
        match self.large.put(key, &artifact(key, body), Replace::Damaged)? {
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
        self.large.set_note(key, &record::encode(key, Kind::Note, &Meta::default(), body))
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

/// Files with a record's name must never change.
fn setup() -> Setup {
    let published = |name: &str| name.len() == 62 && name.bytes().all(|c| c.is_ascii_hexdigit());
    Setup { published, ..Setup::default() }
}

/// Nobody watches what is done to published files: their readers have to notice themselves.
fn unwatched() -> Setup {
    Setup { watch: false, ..Setup::default() }
}

fn explorer(name: &'static str) -> Explorer {
    Explorer::new(name).setup(setup())
}
