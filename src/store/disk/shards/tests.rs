//! The shards on the real file system: what they keep, what they survive, and what they never do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::store::disk::fs::real::RealFs;
use crate::store::disk::testing::{Faulty, artifact, key, note};
use crate::store::disk::trust::Purpose;
use Care::{Quick, Thorough};
use Kind::{Artifact, Note};

const MIB: u64 = 1 << 20;

/// Shards in `dir` on this file system, of at most so many bytes.
fn shards_on<F: MapFs>(fs: F, dir: &Path, max_size: u64) -> Shards<F> {
    let root = Root::open(fs, dir, Purpose::Cache).unwrap_or_else(|refusal| panic!("{refusal}"));
    Shards::new(root, max_size)
}

fn shards(dir: &Path) -> Shards<RealFs> {
    shards_on(RealFs, dir, 64 * MIB)
}

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Dir(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    /// The directory of a shard.
    fn shard(&self, n: u16) -> PathBuf {
        self.path().join(crate::store::disk::trust::SPACE).join(format!("s/{n:02x}"))
    }

    /// The names in the directory of shard 0 that begin so, in order.
    fn names(&self, prefix: &str) -> Vec<PathBuf> {
        let names = std::fs::read_dir(self.shard(0)).unwrap().map(|entry| entry.unwrap().path());
        let begins =
            |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
        let mut names: Vec<PathBuf> = names.filter(begins).collect();
        names.sort();
        names
    }
}

fn get<F: MapFs>(shards: &Shards<F>, n: u64, kind: Kind, care: Care) -> Option<Vec<u8>> {
    match shards.get(&key(n), kind, care) {
        Lookup::Hit(found) => Some(found.bytes[found.layout.payload].to_vec()),
        Lookup::Miss(_) => None,
    }
}

fn put<F: MapFs>(shards: &Shards<F>, n: u64, payload: &[u8]) -> Result<Put, Failure> {
    shards.put(&key(n), Artifact, &artifact(n, payload), Replace::Damaged)
}

fn set_note<F: MapFs>(shards: &Shards<F>, n: u64, payload: &[u8]) -> Result<Put, Failure> {
    shards.put(&key(n), Note, &note(n, payload), Replace::Always)
}

/// The payload that the `n`-th key gets in most tests.
fn payload(n: u64, length: usize) -> Vec<u8> {
    let seed = blake3::hash(&n.to_le_bytes());
    seed.as_bytes().iter().copied().cycle().take(length).collect()
}

/// The bytes that all files below `dir` occupy.
fn occupied(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => occupied(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn what_is_put_is_found_by_all() {
    let dir = Dir::new();
    let one = shards(&dir.path());
    let two = shards(&dir.path());
    assert!(get(&one, 1, Artifact, Thorough).is_none());
    for n in 0..300 {
        assert!(matches!(put(&one, n, &payload(n, n as usize * 7)), Ok(Put::New)));
        assert_eq!(get(&one, n, Artifact, Quick), Some(payload(n, n as usize * 7)));
        assert!(one.contains(&key(n)) && get(&one, n, Note, Quick).is_none());
    }
    let three = shards(&dir.path());
    for n in 0..300 {
        assert_eq!(get(&two, n, Artifact, Quick), Some(payload(n, n as usize * 7)), "{n}");
        assert_eq!(get(&three, n, Artifact, Quick), Some(payload(n, n as usize * 7)), "{n}");
        assert!(!two.contains(&key(n + 1000)) && get(&two, n + 1000, Artifact, Thorough).is_none());
    }
    let usage = two.usage();
    assert_eq!((usage.artifacts.entries, usage.notes.entries), (300, 0));
    let mut keys = Vec::new();
    two.for_each(|entry| keys.push((entry.key, entry.length)));
    keys.sort();
    let expected =
        (0..300).map(|n| (key(n), artifact(n, &payload(n, n as usize * 7)).len() as u64));
    let mut expected: Vec<_> = expected.collect();
    expected.sort();
    assert_eq!(keys, expected);
}

#[test]
fn the_first_publisher_wins_and_notes_are_replaced() {
    let dir = Dir::new();
    let (one, two) = (shards(&dir.path()), shards(&dir.path()));
    assert!(matches!(put(&one, 1, b"first"), Ok(Put::New)));
    let Ok(Put::Existing(found)) = put(&two, 1, b"second") else { panic!("first wins") };
    assert_eq!(&found.bytes[found.layout.payload], b"first");
    assert_eq!(get(&two, 1, Artifact, Quick).unwrap(), b"first");
    let again = two.put(&key(1), Artifact, &artifact(1, b"third"), Replace::Always);
    assert!(matches!(again, Ok(Put::New)));
    assert_eq!(get(&one, 1, Artifact, Quick).unwrap(), b"third");
    for n in 0..200_u64 {
        let who = if n % 2 == 0 { &one } else { &two };
        assert!(matches!(set_note(who, 1, &n.to_le_bytes()), Ok(Put::New)));
        assert_eq!(get(&one, 1, Note, Quick).unwrap(), n.to_le_bytes());
        assert_eq!(get(&two, 1, Note, Quick).unwrap(), n.to_le_bytes());
    }
    assert_eq!(one.usage().notes.entries, 1);
    assert!(one.remove(&key(1), Note).unwrap() && !one.remove(&key(1), Note).unwrap());
    assert!(get(&two, 1, Note, Quick).is_none());
    assert_eq!(get(&one, 1, Artifact, Quick).unwrap(), b"third");
}

/// What does not fit beside others has a segment of its own, with its payload at a page.
#[test]
fn large_records_have_segments_of_their_own() {
    let dir = Dir::new();
    let shards = shards_on(RealFs, &dir.path(), 8 * MIB);
    let lengths = [16_000, 17_000, 70_000, 300_000, 500_000];
    for (n, length) in lengths.into_iter().enumerate() {
        assert!(matches!(put(&shards, n as u64, &payload(n as u64, length)), Ok(Put::New)));
    }
    for (n, length) in lengths.into_iter().enumerate() {
        assert_eq!(get(&shards, n as u64, Artifact, Quick), Some(payload(n as u64, length)));
    }
    let (open, mut own) = (shards.held().unwrap(), 0);
    for shard in &open.shards {
        shard.for_each(|_, _, candidate, _| {
            if candidate.location.length > 16 << 10 {
                own += 1;
                // The metadata of these is short.
                assert_eq!((candidate.location.offset + 128) % 4096, 0);
            }
        });
    }
    assert_eq!(own, 4);
    let refused = put(&shards, 9, &payload(9, 600_000)).unwrap_err();
    assert_eq!(refused.reason, Reason::OverLimit);
}

/// A warm hit of a small record makes no system call, a miss none either.
#[test]
fn warm_look_ups_make_no_system_call() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let shards = shards_on(fs.clone(), &dir.path(), 64 * MIB);
    for n in 0..64 {
        put(&shards, n, &payload(n, 1000)).unwrap();
        get(&shards, n, Artifact, Quick).unwrap();
    }
    fs.heal();
    for n in 0..64 {
        get(&shards, n, Artifact, Quick).unwrap();
        assert!(get(&shards, n, Note, Quick).is_none());
    }
    assert_eq!(fs.operations(), 0);
}

#[test]
fn the_size_stays_within_the_limit() {
    let dir = Dir::new();
    let limit = 2 * MIB;
    let shards = shards_on(RealFs, &dir.path(), limit);
    let mut hits = BTreeMap::new();
    for n in 0..6000_u64 {
        let payload = payload(n, 1000 + n as usize % 300);
        put(&shards, n, &payload).unwrap();
        assert_eq!(get(&shards, n, Artifact, Quick), Some(payload));
        if n % 50 == 0 {
            let occupied = occupied(&dir.path());
            // One segment per shard, and the files that are not shards'.
            assert!(occupied <= limit + 2 * (64 << 10) + (32 << 10), "{n}: {occupied}");
        }
    }
    for n in 0..6000 {
        *hits.entry(n / 1000).or_insert(0) += u32::from(get(&shards, n, Artifact, Quick).is_some());
    }
    println!("{hits:?}");
    assert!(hits[&5] > 900 && hits[&0] < 50, "the latest are kept: {hits:?}");
    let verified = shards.verify().unwrap();
    assert_eq!(verified.damaged, 0);
    assert_eq!(verified.whole, u64::from(hits.values().sum::<u32>()));
    assert!(occupied(&dir.path()) > limit / 2, "the room is used");
}

#[test]
fn an_index_grows_with_its_entries() {
    let dir = Dir::new();
    let shards = shards_on(RealFs, &dir.path(), 64 * MIB);
    let other = shards_on(RealFs, &dir.path(), 64 * MIB);
    for n in 0..20_000 {
        put(if n % 3 == 0 { &other } else { &shards }, n, &n.to_le_bytes()).unwrap();
    }
    for n in 0..20_000 {
        assert_eq!(get(&shards, n, Artifact, Quick).unwrap(), n.to_le_bytes());
        assert_eq!(get(&other, n, Artifact, Quick).unwrap(), n.to_le_bytes());
    }
    assert_eq!(dir.names("idx-").len(), 1, "older generations are removed");
    assert_eq!(dir.names("tmp-").len(), 0);
    let held = shards.held().unwrap();
    held.shards[0].get(&key(0), Artifact, Thorough);
}
