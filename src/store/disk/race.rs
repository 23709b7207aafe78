//! Races over the disk tier on the simulated file system: one race per file, each body run under every
//! schedule that the explorer has, with kills, errors and power cuts, and under shuttle.

mod publish;

use std::path::Path;

use super::fs::sim::explore::Run;
use super::fs::sim::machine::Setup;
use super::fs::sim::oracle::Oracle;
use super::fs::sim::{HOME, SimFs};
use super::large::{Failure, Large, Lookup, Put, Replace};
use super::record::{self, Kind, Meta};
use super::root::Root;
use super::trust::{Purpose, Refusal};
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

    /// Looks `key` up: a hit must have been offered, and a key known to be there must hit.
    fn get(&self, key: &Key) -> bool {
        let must_hit = self.oracle.must_hit(self.root.fs(), key);
        match self.large.get(key) {
            Lookup::Hit(found) => {
                let payload = &found.bytes[found.layout.payload.clone()];
                self.oracle.looked_up(key, Some(payload), must_hit);
                true
            }
            Lookup::Miss(_) => {
                self.oracle.looked_up(key, None, must_hit);
                false
            }
        }
    }

    /// Publishes `body` under `key`; what was there already must have been offered.
    fn put(&self, key: &Key, body: &[u8], replace: Replace) -> Result<(), Failure> {
        self.oracle.offer(key, body);
        let record = record::encode(key, Kind::Artifact, &Meta::default(), body);
        if let Put::Existing(found) = self.large.put(key, &record, replace)? {
            let payload = &found.bytes[found.layout.payload.clone()];
            self.oracle.looked_up(key, Some(payload), false);
        }
        Ok(())
    }
}

fn dir() -> String {
    format!("{HOME}/cache")
}

fn key(n: u8) -> Key {
    KeyBuilder::new("race").u64("n", n.into()).finish()
}

/// A body of its own for each of a run's writers.
fn body(n: u8) -> Vec<u8> {
    vec![n; 40]
}

/// A record's name promises that its file never changes.
fn setup() -> Setup {
    let published = |name: &str| name.len() == 62 && name.bytes().all(|c| c.is_ascii_hexdigit());
    Setup { published, ..Setup::default() }
}
