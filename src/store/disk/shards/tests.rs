//! The shards on the real file system: what they keep, what they survive, and what they never do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::store::disk::format::SegmentId;
use crate::store::disk::fs::Fs;
use crate::store::disk::fs::real::RealFs;
use crate::store::disk::testing::{Faulty, again, artifact, key, note, role, succeed, test_path};
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
    for shard in open.shards() {
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
    let verified = shards.verify(|_, _| ()).unwrap();
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
}

/// What goes in behind a rebuild goes where it would have gone before. Mutant: the tail not carried
/// over.
#[test]
fn a_rebuild_wastes_no_room() {
    let dir = Dir::new();
    let shards = shards_on(RealFs, &dir.path(), TINY);
    fill(&shards, 0, 66);
    assert_ne!(dir.names("idx-")[0].file_name().unwrap(), "idx-000000000001");
    assert_eq!(dir.names("seg-").len(), 1);
}

/// Mutant: the tail's segment a victim like others.
#[test]
fn the_segment_that_is_being_filled_stays() {
    let dir = Dir::new();
    let shards = shards_on(RealFs, &dir.path(), TINY);
    fill(&shards, 0, 1);
    for n in 1..40 {
        put(&shards, n, &payload(n, 60 << 10)).unwrap();
    }
    assert!(get(&shards, 0, Artifact, Quick).is_some());
    assert!(get(&shards, 1, Artifact, Quick).is_none());
}

/// A segment of another cache under one of our names is not ours. Mutants: the cache or the id not
/// compared; the file left there.
#[test]
fn foreign_segments_are_not_scanned() {
    let (dir, other) = (Dir::new(), Dir::new());
    fill(&shards_on(RealFs, &dir.path(), TINY), 0, 10);
    fill(&shards_on(RealFs, &other.path(), TINY), 10, 20);
    let of_other = dir.shard(0).join(SegmentId(7).to_string());
    std::fs::copy(&other.names("seg-")[0], &of_other).unwrap();
    let renamed = dir.shard(0).join(SegmentId(8).to_string());
    std::fs::copy(&dir.names("seg-")[0], &renamed).unwrap();
    std::fs::remove_file(&dir.names("idx-")[0]).unwrap();
    let shards = shards_on(RealFs, &dir.path(), TINY);
    fill(&shards, 20, 21);
    assert_eq!(count_right(&shards, 21), 11);
    assert!(!of_other.exists() && !renamed.exists());
    assert_eq!(shards.usage().artifacts.entries, 11);
}

/// Puts enough into a tiny shard that segments are rolled and evicted and the index rebuilt.
fn fill<F: MapFs>(shards: &Shards<F>, from: u64, to: u64) {
    for n in from..to {
        // A slow disk makes those wait long who take turns.
        let mut patience = 0..100;
        let busy = |failure: &Failure| failure.reason == Reason::Busy;
        while let Err(failure) = put(shards, n, &payload(n, 700)) {
            assert!(busy(&failure) && patience.next().is_some(), "{failure}");
        }
    }
}

/// The payloads found are those that were put; gives their number.
fn count_right<F: MapFs>(shards: &Shards<F>, to: u64) -> u64 {
    let mut found = 0;
    for n in 0..to {
        if let Some(bytes) = get(shards, n, Artifact, Thorough) {
            assert_eq!(bytes, payload(n, 700), "{n}");
            found += 1;
        }
    }
    found
}

/// What the files of shard 0 hold, in all segments, below what is published.
fn published(dir: &Dir, shards: &Shards<RealFs>) -> Vec<(Key, Vec<u8>)> {
    let mut records = Vec::new();
    shards.held().unwrap().shard(0).for_each(|key, _, candidate, _| {
        let bytes =
            std::fs::read(dir.shard(0).join(candidate.location.segment.to_string())).unwrap();
        let from = candidate.location.offset as usize;
        records.push((key, bytes[from..][..candidate.location.length as usize].to_vec()));
    });
    records.sort();
    records
}

const TINY: u64 = MIB;

/// Whatever file of a shard is lost or damaged, nothing wrong is found, and the next put goes on;
/// what need not be lost is found. Files are replaced, not written to, as a hand would do it with a
/// copy.
#[test]
fn any_file_may_be_lost_or_damaged() {
    type Harm = fn(&Dir);
    const HARMS: [(&str, bool, Harm); 14] = [
        ("CURRENT lost", true, |dir| std::fs::remove_file(dir.shard(0).join("CURRENT")).unwrap()),
        ("CURRENT damaged", true, |dir| change(&dir.shard(0).join("CURRENT"), |b| b[20] ^= 1)),
        ("CURRENT cut", true, |dir| change(&dir.shard(0).join("CURRENT"), |b| b.truncate(9))),
        ("CURRENT empty", true, |dir| change(&dir.shard(0).join("CURRENT"), Vec::clear)),
        ("index lost", true, |dir| std::fs::remove_file(&dir.names("idx-")[0]).unwrap()),
        ("index header damaged", true, |dir| change(&dir.names("idx-")[0], |b| b[17] ^= 1)),
        ("index cut", true, |dir| change(&dir.names("idx-")[0], |b| b.truncate(5000))),
        ("index empty", true, |dir| change(&dir.names("idx-")[0], Vec::clear)),
        ("index odd", true, |dir| change(&dir.names("idx-")[0], |b| b.push(1))),
        ("index slots zeroed", false, |dir| change(&dir.names("idx-")[0], |b| b[4096..].fill(0))),
        ("index slots garbage", false, |dir| {
            change(&dir.names("idx-")[0], |b| b[4096..].iter_mut().for_each(|b| *b ^= 0x5a));
        }),
        ("segment lost", false, |dir| std::fs::remove_file(&dir.names("seg-")[0]).unwrap()),
        ("segment cut", false, |dir| change(&dir.names("seg-")[0], |b| b.truncate(1000))),
        ("segment damaged", false, |dir| {
            change(&dir.names("seg-")[0], |b| b.iter_mut().step_by(97).for_each(|b| *b ^= 1));
        }),
    ];
    for (what, keeps_all, harm) in HARMS {
        for reopen in [false, true] {
            let dir = Dir::new();
            let mut shards = shards_on(RealFs, &dir.path(), TINY);
            fill(&shards, 0, 300);
            assert_eq!(count_right(&shards, 300), 300);
            harm(&dir);
            if reopen {
                shards = shards_on(RealFs, &dir.path(), TINY);
            }
            // What a process that had it open still sees, the next need not.
            let before = if reopen { count_right(&shards, 300) } else { 0 };
            fill(&shards, 300, 310);
            let found = count_right(&shards, 310);
            assert!(found >= before + 10, "{what}, {reopen}: {before} then {found}");
            if keeps_all {
                assert_eq!(found, 310, "{what}, {reopen}");
            }
            let other = shards_on(RealFs, &dir.path(), TINY);
            let of_other = count_right(&other, 310);
            assert!(of_other == found || (!reopen && (10..found).contains(&of_other)), "{what}");
            shards.verify(|_, _| ()).unwrap();
            assert_eq!(shards.verify(|_, _| ()).unwrap().damaged, 0, "{what}, {reopen}");
        }
    }
}

/// Replaces a file by a changed copy.
fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    use std::os::unix::fs::PermissionsExt;
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    let copy = path.with_extension("copy");
    std::fs::write(&copy, bytes).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(copy, path).unwrap();
}

#[test]
fn any_directory_may_be_removed() {
    type Harm = fn(&Dir);
    const HARMS: [(&str, Harm); 7] = [
        ("the cache, moved away", |dir| {
            std::fs::rename(dir.path(), dir.path().with_extension("old")).unwrap();
        }),
        ("the shard", |dir| std::fs::remove_dir_all(dir.shard(0)).unwrap()),
        ("all shards", |dir| std::fs::remove_dir_all(dir.shard(0).parent().unwrap()).unwrap()),
        ("the space", |dir| {
            std::fs::remove_dir_all(dir.shard(0).parent().unwrap().parent().unwrap()).unwrap();
        }),
        ("the cache", |dir| std::fs::remove_dir_all(dir.path()).unwrap()),
        ("meta", |dir| {
            std::fs::remove_file(dir.shard(0).parent().unwrap().parent().unwrap().join(META))
                .unwrap();
        }),
        ("meta, damaged", |dir| {
            change(&dir.shard(0).parent().unwrap().parent().unwrap().join(META), |b| b[30] ^= 1);
        }),
    ];
    for (what, harm) in HARMS {
        let dir = Dir::new();
        let one = shards_on(RealFs, &dir.path(), TINY);
        let two = shards_on(RealFs, &dir.path(), TINY);
        fill(&one, 0, 100);
        assert_eq!(count_right(&two, 100), 100);
        harm(&dir);
        fill(&one, 100, 110);
        fill(&two, 110, 120);
        fill(&one, 120, 130);
        let three = shards_on(RealFs, &dir.path(), TINY);
        for n in 100..130 {
            assert_eq!(get(&one, n, Artifact, Thorough), Some(payload(n, 700)), "{what}: {n}");
            assert_eq!(get(&two, n, Artifact, Thorough), Some(payload(n, 700)), "{what}: {n}");
            // A new process after `meta` was lost finds another cache.
            if !what.starts_with("meta") {
                assert_eq!(
                    get(&three, n, Artifact, Thorough),
                    Some(payload(n, 700)),
                    "{what}: {n}"
                );
            }
        }
        fill(&three, 200, 210);
        assert!(count_right(&three, 210) >= 10, "{what}");
    }
}

/// A directory that is copied while its writer is at work, and the original in its next boot:
/// nobody writes where somebody has published. Mutants: `place` not compared; the segment's boot
/// not compared.
#[test]
fn neither_a_copy_nor_another_boot_is_appended_to() {
    let dir = Dir::new();
    let one = shards_on(RealFs, &dir.path(), TINY);
    fill(&one, 0, 50);
    let copy = Dir::new();
    crate::store::disk::testing::sh(
        "cp",
        &["-a", dir.path().to_str().unwrap(), copy.path().to_str().unwrap()],
    );
    // The tail in the copy is older than its entries: as if the header's page was copied before.
    change(&copy.names("idx-")[0], |bytes| bytes[576..580].copy_from_slice(&1_u32.to_le_bytes()));
    let copied = shards_on(RealFs, &copy.path(), TINY);
    let before = published(&copy, &copied);
    assert_eq!(before.len(), 50);
    fill(&copied, 50, 60);
    assert_eq!(count_right(&copied, 60), 60);
    let after = published(&copy, &copied);
    assert!(before.iter().all(|record| after.contains(record)));
    assert_eq!(copy.names("seg-").len(), 2, "a fresh segment");

    let booted = shards_on(RealFs, &dir.path(), TINY);
    booted.root.pretend_boot([77; 16]);
    fill(&booted, 50, 55);
    assert_eq!(dir.names("seg-").len(), 2, "a fresh segment");
    fill(&booted, 55, 60);
    assert_eq!(dir.names("seg-").len(), 2, "and one only");
    assert_eq!(count_right(&booted, 60), 60);
    assert_eq!(count_right(&one, 60), 60);
}

/// Each operation of the file system fails in turn, while segments are rolled and evicted and the
/// index is rebuilt: what was published is found or was evicted, and when the fault is over all
/// goes on.
#[test]
fn each_operation_may_fail() {
    use rustix::io::Errno;
    for errno in [Errno::NOSPC, Errno::IO, Errno::MFILE, Errno::STALE, Errno::NOLCK, Errno::NOENT] {
        let dir = Dir::new();
        let fs = Faulty::default();
        let shards = shards_on(fs.clone(), &dir.path(), TINY);
        fill(&shards, 0, 60);
        // A roll is due now and then, as is a rebuild.
        let mut n = 60;
        let mut failed = 0;
        for at in 0..140 {
            fs.fail(at % 70, errno);
            for _ in 0..3 {
                match put(&shards, n, &payload(n, 700)) {
                    Ok(Put::New) => {}
                    Ok(Put::Existing(_)) => panic!("{n} is new"),
                    Err(_) => failed += 1,
                }
                n += 1;
            }
            for old in n - 20..n {
                let found = get(&shards, old, Artifact, Quick);
                assert!(found.is_none_or(|bytes| bytes == payload(old, 700)));
            }
            fs.heal();
            fs.pass(BACK_OFF_S + 1);
            put(&shards, n, &payload(n, 700))
                .unwrap_or_else(|error| panic!("{errno} {at}: {error}"));
            assert_eq!(get(&shards, n, Artifact, Thorough), Some(payload(n, 700)), "{errno} {at}");
            n += 1;
        }
        // What was not there is looked for again.
        assert!(failed > 10 || errno == Errno::NOENT, "{errno}: only {failed} puts failed");
        let other = shards_on(RealFs, &dir.path(), TINY);
        assert_eq!(count_right(&other, n), count_right(&shards, n));
        assert!(occupied(&dir.path()) <= TINY + (96 << 10), "{errno}");
    }
}

/// A process may die before each operation. Mutants: `CURRENT` before the index; the index retired
/// after `CURRENT`; the victim unlinked before its entries are carried.
#[test]
fn a_writer_may_die_before_each_operation() {
    let mut n = 0;
    let dir = Dir::new();
    let other = shards_on(RealFs, &dir.path(), TINY);
    let mut died = 0;
    for at in 0..160_u64 {
        let fs = Faulty::default();
        let shards = shards_on(fs.clone(), &dir.path(), TINY);
        fs.before(at % 130, || panic!("dies"));
        let first = n;
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..12 {
                put(&shards, n, &payload(n, 700)).unwrap();
                n += 1;
            }
        }));
        died += u32::from(ended.is_err());
        // As the kernel closes what a process had open.
        drop(shards);
        for done in first..n {
            assert_eq!(
                get(&other, done, Artifact, Quick),
                Some(payload(done, 700)),
                "{at}: {done}"
            );
        }
        n += 1;
        put(&other, n, &payload(n, 700)).unwrap();
        let third = shards_on(RealFs, &dir.path(), TINY);
        assert_eq!(get(&third, n, Artifact, Quick), Some(payload(n, 700)), "{at}");
        n += 1;
    }
    assert!(died > 80, "{died} deaths");
    assert_eq!(count_right(&other, n), other.verify(|_, _| ()).unwrap().whole);
}

/// What a worker puts under a key says the key and who put it.
fn told(n: u64, who: u64) -> Vec<u8> {
    let mut bytes = payload(n, 200 + (n as usize * 37) % 1500);
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes[8..16].copy_from_slice(&who.to_le_bytes());
    bytes
}

/// Puts, gets and replaces at random in a directory that others work in too.
fn work(dir: &Path, who: u64, rounds: u64) {
    let shards = shards_on(RealFs, dir, 2 * MIB);
    let mut seed = who;
    let mut hits = 0;
    for round in 0..rounds {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let n = (seed >> 33) % 2000;
        match seed >> 60 {
            0..=6 => {
                if let Some(bytes) = get(&shards, n, Artifact, Thorough) {
                    assert_eq!(bytes[..8], n.to_le_bytes());
                    let by = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
                    assert_eq!(bytes, told(n, by));
                    hits += 1;
                }
            }
            7..=11 => {
                match shards.put(&key(n), Artifact, &artifact(n, &told(n, who)), Replace::Damaged) {
                    Ok(Put::New) => {}
                    Ok(Put::Existing(found)) => {
                        assert_eq!(found.bytes[found.layout.payload][..8], n.to_le_bytes());
                    }
                    Err(failure) => assert_eq!(failure.reason, Reason::Busy),
                }
            }
            12..=13 => {
                // Each key's note is one worker's: it sees its own, never an older one.
                let mine = n - n % 16 + who;
                if set_note(&shards, mine, &round.to_le_bytes()).is_ok()
                    && let Some(note) = get(&shards, mine, Note, Thorough)
                {
                    assert_eq!(note, round.to_le_bytes());
                }
            }
            14 => {
                let _ = shards.remove(&key(n), Artifact);
            }
            _ if round % 97 == 0 => {
                let failure = shards.clear().err().map(|failure| failure.reason);
                assert!(matches!(failure, None | Some(Reason::Busy)), "{failure:?}");
            }
            _ => {
                let _ = shards.prune(MIB, Some(1));
            }
        }
    }
    assert!(hits > 0);
}

#[test]
fn threads_and_processes_work_in_one_directory() {
    if let Some((role, dir)) = role() {
        return work(&dir, role.parse().unwrap(), 600);
    }
    let dir = Dir::new();
    let name = test_path!(threads_and_processes_work_in_one_directory);
    let workers: Vec<_> = (0..3)
        .map(|who: u64| {
            let command = again(name, &who.to_string(), &dir.path());
            std::thread::spawn(move || succeed(command))
        })
        .collect();
    let path = dir.path();
    std::thread::scope(|scope| {
        for who in 3..6 {
            scope.spawn({
                let path = &path;
                move || work(path, who, 600)
            });
        }
    });
    for worker in workers {
        worker.join().unwrap();
    }
    let shards = shards_on(RealFs, &dir.path(), 2 * MIB);
    assert_eq!(shards.verify(|_, _| ()).unwrap().damaged, 0);
    assert!(occupied(&dir.path()) <= 2 * MIB + 2 * (64 << 10) + (32 << 10));
}

/// Threads of one process share the open lock file, which does not exclude them.
#[test]
fn threads_take_turns() {
    let dir = Dir::new();
    let shards = shards_on(RealFs, &dir.path(), TINY);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let shards = &shards;
            scope.spawn(move || fill(shards, thread * 100, thread * 100 + 100));
        }
    });
    assert_eq!(count_right(&shards, 400), 400);
}

#[test]
fn a_turn_is_not_waited_for_long() {
    let dir = Dir::new();
    let (one, two) = (shards_on(RealFs, &dir.path(), TINY), shards_on(RealFs, &dir.path(), TINY));
    fill(&one, 0, 10);
    let held = one.held().unwrap();
    let turn = held.shard(0).turn().unwrap();
    let began = std::time::Instant::now();
    for shards in [&one, &two] {
        assert_eq!(put(shards, 10, b"x").unwrap_err().reason, Reason::Busy);
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "bounded");
    assert_eq!(count_right(&two, 10), 10, "readers do not wait");
    drop(turn);
    assert!(put(&one, 10, b"x").is_ok() && put(&two, 11, b"y").is_ok());
}

/// A child of a fork, made while a thread of its parent had its turn: it neither waits for that for
/// ever nor ends it. Mutant: `busy` without the process.
#[test]
fn a_forked_child_has_turns_of_its_own() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let shards = shards_on(fs.clone(), &dir.path(), TINY);
    fill(&shards, 0, 10);
    let held = shards.held().unwrap();
    let turn = held.shard(0).turn().unwrap();
    fs.become_process(77);
    assert_eq!(put(&shards, 10, b"x").unwrap_err().reason, Reason::Busy, "the parent's");
    assert_eq!(count_right(&shards, 10), 10);
    fs.become_process(0);
    drop(turn);
    // The thread does not live on in the child.
    held.shard(0).pretend_turn_of(RealFs.process());
    fs.become_process(77);
    fill(&shards, 10, 20);
    assert_eq!(count_right(&shards, 20), 20);
}

/// Nothing is written where nothing may be: hits are served, recency is not kept.
#[test]
fn a_directory_to_read_is_only_read() {
    let dir = Dir::new();
    let writer = shards_on(RealFs, &dir.path(), TINY);
    fill(&writer, 0, 100);
    set_note(&writer, 1, b"note").unwrap();
    let listing = || {
        let mut find = std::process::Command::new("find");
        let find = find.arg(dir.path()).args(["-printf", "%p %s %T@ %C@\\n"]);
        find.output().unwrap().stdout
    };
    let before = listing();
    let bytes = std::fs::read(&dir.names("idx-")[0]).unwrap();
    for purpose in [Purpose::CacheReadOnly, Purpose::Base] {
        let fs = Faulty::default();
        let root = Root::open(fs.clone(), &dir.path(), purpose).unwrap();
        let reader = Shards::new(root, TINY);
        fs.pass(7200);
        assert_eq!(count_right(&reader, 100), 100);
        assert_eq!(get(&reader, 1, Note, Thorough).unwrap(), b"note");
        assert!(get(&reader, 500, Artifact, Thorough).is_none());
        assert_eq!(put(&reader, 500, b"x").unwrap_err().reason, Reason::NotWritable);
        assert!(reader.clear().is_err() && reader.prune(0, None).is_err());
    }
    assert_eq!(listing(), before);
    assert_eq!(std::fs::read(&dir.names("idx-")[0]).unwrap(), bytes);
}

/// Use is remembered to the hour, by one store. Mutant: `touch` left out of `get`.
#[test]
fn what_is_used_is_kept() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let shards = shards_on(fs.clone(), &dir.path(), TINY);
    fill(&shards, 0, 500);
    for _ in 0..30 {
        fs.pass(3600);
        for n in 0..20 {
            get(&shards, n, Artifact, Quick).unwrap();
        }
    }
    fill(&shards, 500, 3000);
    assert!((0..20).all(|n| get(&shards, n, Artifact, Quick).is_some()), "carried on");
    let others = (20..500).filter(|n| get(&shards, *n, Artifact, Quick).is_some()).count();
    assert!(others < 100, "{others} of the unused were kept");
    fs.pass(15 * 24 * 3600);
    get(&shards, 7, Artifact, Quick).unwrap();
    shards.prune(u64::MAX, Some(14 * 24)).unwrap();
    assert!(
        get(&shards, 7, Artifact, Quick).is_some() && get(&shards, 8, Artifact, Quick).is_none()
    );
    shards.prune(0, None).unwrap();
    assert!(get(&shards, 7, Artifact, Quick).is_none());
    assert_eq!(dir.names("seg-").len(), 0);
    fill(&shards, 0, 10);
    assert_eq!(count_right(&shards, 10), 10);
}

#[test]
fn clearing_leaves_nothing_and_disturbs_nobody() {
    let dir = Dir::new();
    let (one, two) = (shards_on(RealFs, &dir.path(), TINY), shards_on(RealFs, &dir.path(), TINY));
    assert_eq!(one.clear().unwrap(), Usage::default());
    fill(&one, 0, 200);
    assert_eq!(count_right(&two, 200), 200);
    let last = dir.names("seg-").pop();
    let cleared = two.clear().unwrap();
    assert_eq!(cleared.artifacts.entries, 200);
    assert_eq!((count_right(&one, 200), count_right(&two, 200)), (0, 0));
    assert_eq!((dir.names("seg-").len(), dir.names("idx-").len()), (0, 1));
    fill(&one, 0, 200);
    assert_eq!(count_right(&two, 200), 200);
    assert!(dir.names("seg-").into_iter().min() > last, "ids are not used again");
}

/// An entry that is carried on again and again is found by a reader at every moment, or gone for
/// good.
#[test]
fn a_reader_never_misses_what_is_moved() {
    use crate::sync::{AtomicBool, Ordering::Relaxed};
    let dir = Dir::new();
    let fs = Faulty::default();
    let writer = shards_on(fs.clone(), &dir.path(), TINY);
    // One in each segment, so that it is not worth keeping for that one's sake.
    for n in 0..12 {
        fill(&writer, n, n + 1);
        fill(&writer, 1000 + n * 60, 1060 + n * 60);
    }
    for _ in 0..30 {
        fs.pass(3600);
        (0..12).for_each(|n| drop(get(&writer, n, Artifact, Quick)));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for care in [Quick, Thorough] {
            let (dir, done) = (&dir, &done);
            scope.spawn(move || {
                let reader = shards_on(RealFs, &dir.path(), TINY);
                let mut gone = std::collections::BTreeSet::new();
                let mut looks = 0_u64;
                while !done.load(Relaxed) {
                    for n in 0..12 {
                        looks += 1;
                        match get(&reader, n, Artifact, care) {
                            Some(bytes) => {
                                assert!(!gone.contains(&n), "{n} was missed, and is there");
                                assert_eq!(bytes, payload(n, 700));
                            }
                            None => drop(gone.insert(n)),
                        }
                    }
                }
                assert!(gone.is_empty() && looks > 100, "{gone:?} of {looks}");
            });
        }
        fill(&writer, 2000, 5000);
        done.store(true, Relaxed);
    });
    let open = writer.held().unwrap();
    open.shard(0).for_each(|key_of, _, candidate, _| {
        if (0..12).any(|n| key(n) == key_of) {
            assert!(candidate.location.segment.0 > 12, "it was not moved: {candidate:?}");
        }
    });
}

/// A damaged record is replaced by the next put, and its slot is dead. Mutant: left alive.
#[test]
fn a_damaged_record_is_replaced() {
    let dir = Dir::new();
    fill(&shards_on(RealFs, &dir.path(), TINY), 0, 1);
    change(&dir.names("seg-")[0], |bytes| bytes[64 + 500] ^= 1);
    let shards = shards_on(RealFs, &dir.path(), TINY);
    assert!(matches!(put(&shards, 0, &payload(0, 700)), Ok(Put::New)));
    assert_eq!(count_right(&shards, 1), 1);
    let verified = shards.verify(|_, _| ()).unwrap();
    assert_eq!((verified.whole, verified.damaged), (1, 0));
    let checksum = |(reason, count)| (reason == Reason::Checksum).then_some(count);
    assert_eq!(shards.root.counters().met().find_map(checksum), Some(1));
}

/// The process dies before each operation of something rare in turn. Mutants: `CURRENT` before the
/// index; the index retired after `CURRENT`, or not looked at; older ones not retired; the victim
/// unlinked before its entries are dead or carried.
#[test]
fn rare_work_may_end_at_any_operation() {
    type Work = fn(&Shards<Faulty>);
    let works: [(&str, u64, Work); 7] = [
        ("the first put", 0, |shards| fill(shards, 500, 501)),
        ("rebuild", 64, |shards| fill(shards, 500, 501)),
        ("roll", 63, |shards| fill(shards, 500, 510)),
        ("evict", 1021, |shards| fill(shards, 2500, 2503)),
        ("own segment", 30, |shards| {
            put(shards, 500, &payload(500, 700 + (50 << 10))).unwrap();
        }),
        ("clear", 50, |shards| assert!(shards.clear().unwrap().bytes() > 0)),
        ("prune", 200, |shards| shards.prune(100 << 10, None).unwrap()),
    ];
    for (what, entries, work) in works {
        let template = Dir::new();
        fill(&shards_on(RealFs, &template.path(), TINY), 1000, 1000 + entries);
        let mut deaths = 0;
        for at in 0.. {
            let dir = Dir::new();
            let (from, to) = (template.path(), dir.path());
            crate::store::disk::testing::sh(
                "cp",
                &["-a", from.to_str().unwrap(), to.to_str().unwrap()],
            );
            let other = shards_on(RealFs, &dir.path(), TINY);
            // So that it holds a generation of this place.
            fill(&other, 900, 901);
            let fs = Faulty::default();
            let shards = shards_on(fs.clone(), &dir.path(), TINY);
            get(&shards, 900, Artifact, Quick).unwrap();
            fs.before(at, || panic!("dies"));
            let work = std::panic::AssertUnwindSafe(|| work(&shards));
            let died = std::panic::catch_unwind(work).is_err();
            drop(shards);
            let found = count_known(&other);
            let third = shards_on(RealFs, &dir.path(), TINY);
            assert_eq!(count_known(&third), found, "{what}, {at}");
            for (n, shards) in (910..).zip([&other, &third, &other]) {
                fill(shards, n, n + 1);
                for shards in [&other, &third] {
                    assert_eq!(
                        get(shards, n, Artifact, Quick),
                        Some(payload(n, 700)),
                        "{what}, {at}"
                    );
                }
            }
            if !matches!(what, "evict" | "clear" | "prune") {
                assert!(found > entries, "{what}, {at}: {found}");
            }
            assert!(dir.names("idx-").len() <= 2 && third.verify(|_, _| ()).unwrap().damaged == 0);
            deaths += u64::from(died);
            if !died {
                break;
            }
        }
        println!("{what}: {deaths} deaths");
        assert!(deaths > 5, "{what}: {deaths}");
    }
}

/// How many of the keys that tests put are found, each with its payload.
fn count_known<F: MapFs>(shards: &Shards<F>) -> u64 {
    let mut found = 0;
    for n in (500..510).chain(900..920).chain(1000..2100).chain(2500..2503) {
        if let Some(bytes) = get(shards, n, Artifact, Quick) {
            assert_eq!(bytes[..700], payload(n, 700));
            found += 1;
        }
    }
    found
}

/// Another thread of the process may have its turn only after the lock is free: they share it.
/// Mutant: `busy` cleared first.
#[test]
fn a_turn_ends_after_its_lock() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let shards = Arc::new(shards_on(fs.clone(), &dir.path(), TINY));
    fill(&shards, 0, 10);
    fs.heal();
    fill(&shards, 10, 11);
    let unlock = fs.operations() - 1;
    let checked = Arc::new(AtomicU64::new(0));
    fs.before(unlock, {
        let (shards, checked) = (shards.clone(), checked.clone());
        move || {
            assert!(shards.held().unwrap().shard(0).turn_is_taken());
            checked.fetch_add(1, Ordering::Relaxed);
        }
    });
    fill(&shards, 11, 12);
    assert_eq!(checked.load(Ordering::Relaxed), 1);
    // The plan has the shards, and they have the plan.
    fs.heal();
}

mod model {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Put {
            by: usize,
            n: u64,
            value: u8,
            always: bool,
        },
        Note {
            by: usize,
            n: u64,
            value: u8,
        },
        Remove {
            by: usize,
            n: u64,
            note: bool,
        },
        Clear {
            by: usize,
        },
        PruneUnused {
            by: usize,
        },
        Verify {
            by: usize,
        },
        Reopen {
            by: usize,
        },
        Use {
            by: usize,
            n: u64,
        },
        Hours(u64),
        /// Harm the n-th file of the directory: remove it, cut it, or flip a byte of it.
        Harm {
            file: usize,
            how: u8,
            at: usize,
        },
    }

    fn op() -> impl Strategy<Value = Op> {
        let (by, n) = (|| 0..3_usize, || 0..12_u64);
        prop_oneof![
            8 => (by(), n(), any::<u8>(), any::<bool>())
                .prop_map(|(by, n, value, always)| Op::Put { by, n, value, always }),
            4 => (by(), n(), any::<u8>()).prop_map(|(by, n, value)| Op::Note { by, n, value }),
            2 => (by(), n(), any::<bool>()).prop_map(|(by, n, note)| Op::Remove { by, n, note }),
            1 => by().prop_map(|by| Op::Clear { by }),
            1 => by().prop_map(|by| Op::PruneUnused { by }),
            1 => by().prop_map(|by| Op::Verify { by }),
            2 => by().prop_map(|by| Op::Reopen { by }),
            4 => (by(), n()).prop_map(|(by, n)| Op::Use { by, n }),
            1 => (0..30_u64).prop_map(Op::Hours),
            2 => (any::<usize>(), 0..3_u8, any::<usize>())
                .prop_map(|(file, how, at)| Op::Harm { file, how, at }),
        ]
    }

    fn value_of(n: u64, value: u8) -> Vec<u8> {
        let mut bytes = payload(n, 50 + usize::from(value) * 90);
        bytes[0] = value;
        bytes
    }

    /// All files below `dir`, in order.
    fn files(dir: &Path, into: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() { files(&path, into) } else { into.push(path) }
        }
    }

    fn run(ops: Vec<Op>) {
        let dir = Dir::new();
        let fs = Faulty::default();
        let open = || shards_on(fs.clone(), &dir.path(), 2 * MIB);
        let mut handles = [open(), open(), open()];
        // What must be found, with the hour of its last use; and what may ever be.
        let mut model: HashMap<(u64, Kind), (Vec<u8>, u64)> = HashMap::new();
        let mut offered: HashMap<(u64, Kind), Vec<Vec<u8>>> = HashMap::new();
        let (mut hour, mut harmed) = (0_u64, false);
        for op in ops {
            match op {
                Op::Put { by, n, value, always } => {
                    let replace = if always { Replace::Always } else { Replace::Damaged };
                    let value = value_of(n, value);
                    offered.entry((n, Artifact)).or_default().push(value.clone());
                    let record = artifact(n, &value);
                    match handles[by].put(&key(n), Artifact, &record, replace).unwrap() {
                        Put::New => {
                            let was = model.insert((n, Artifact), (value, hour));
                            assert!(was.is_none() || always || harmed);
                        }
                        Put::Existing(found) => {
                            let there = found.bytes[found.layout.payload].to_vec();
                            assert!(!always);
                            assert!(offered[&(n, Artifact)].contains(&there));
                            assert!(harmed || model[&(n, Artifact)].0 == there);
                        }
                    }
                }
                Op::Note { by, n, value } => {
                    let value = value_of(n, value);
                    offered.entry((n, Note)).or_default().push(value.clone());
                    set_note(&handles[by], n, &value).unwrap();
                    model.insert((n, Note), (value, hour));
                }
                Op::Remove { by, n, note } => {
                    let kind = if note { Note } else { Artifact };
                    let removed = handles[by].remove(&key(n), kind).unwrap();
                    assert!(harmed || removed == model.contains_key(&(n, kind)));
                    model.remove(&(n, kind));
                }
                Op::Clear { by } => {
                    handles[by].clear().unwrap();
                    model.clear();
                }
                Op::PruneUnused { by } => {
                    handles[by].prune(u64::MAX, Some(24)).unwrap();
                    model.retain(|_, (_, used)| hour - *used <= 24);
                }
                Op::Verify { by } => {
                    let verified = handles[by].verify(|_, _| ()).unwrap();
                    assert!(
                        harmed || (verified.damaged, verified.whole) == (0, model.len() as u64)
                    );
                }
                Op::Reopen { by } => handles[by] = open(),
                Op::Use { by, n } => {
                    for kind in [Artifact, Note] {
                        if get(&handles[by], n, kind, Quick).is_some()
                            && let Some((_, used)) = model.get_mut(&(n, kind))
                        {
                            *used = hour;
                        }
                    }
                }
                Op::Hours(hours) => {
                    fs.pass(hours * 3600);
                    hour += hours;
                }
                Op::Harm { file, how, at } => {
                    let mut all = Vec::new();
                    files(&dir.path(), &mut all);
                    // Lock files are nobody's to harm, and the tag is of no use here.
                    all.retain(|path| {
                        let name = path.file_name().unwrap().to_str().unwrap();
                        !name.ends_with(".lock") && !name.starts_with('.') && name != "CACHEDIR.TAG"
                    });
                    if all.is_empty() {
                        continue;
                    }
                    harmed = true;
                    let path = &all[file % all.len()];
                    match how {
                        0 => std::fs::remove_file(path).unwrap(),
                        1 => change(path, |bytes| bytes.truncate(at % (bytes.len() + 1))),
                        _ => change(path, |bytes| {
                            if !bytes.is_empty() {
                                let at = at % bytes.len();
                                bytes[at] ^= 1 << (at % 8);
                            }
                        }),
                    }
                }
            }
            for handle in &handles {
                for n in 0..12 {
                    for kind in [Artifact, Note] {
                        let record = match handle.get(&key(n), kind, Thorough) {
                            Lookup::Hit(found) => Some(found.bytes[found.layout.payload].to_vec()),
                            Lookup::Miss(_) => None,
                        };
                        if let Some((_, used)) = model.get_mut(&(n, kind)) {
                            *used = hour;
                        }
                        if let Some(bytes) = &record {
                            assert!(offered[&(n, kind)].contains(bytes), "{n} was never this");
                        }
                        if !harmed {
                            let expected = model.get(&(n, kind)).map(|(value, _)| value);
                            assert_eq!(record.as_ref(), expected, "{n} {kind:?}");
                        }
                    }
                }
            }
        }
        // Whatever happened, the directory takes what is put.
        for (n, handle) in (100..).zip(&handles) {
            put(handle, n, &value_of(n, 9)).unwrap();
            assert_eq!(get(handle, n, Artifact, Quick), Some(value_of(n, 9)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Any handles, in any order, over files that others harm now and then. Without harm a look
        /// finds exactly what was put last; with it, nothing that was not put.
        #[test]
        fn handles_agree_with_a_map(ops in prop::collection::vec(op(), 1..40)) {
            run(ops);
        }

        #[test]
        fn handles_agree_with_a_map_unharmed(ops in prop::collection::vec(op(), 1..60)) {
            run(ops.into_iter().filter(|op| !matches!(op, Op::Harm { .. })).collect());
        }
    }
}

/// Found by `cachelift-stress --corrupt`: whoever had the directory open before `meta` was damaged went on with the old
/// cache, and each of the two took the other's entries for damage. Mutant seen killed: `belongs_to_another` says no.
#[test]
fn who_worked_before_meta_was_damaged_follows_to_the_new_cache() {
    let dir = Dir::new();
    let before = shards(&dir.path());
    put(&before, 1, b"one").unwrap();
    let meta = dir.path().join(crate::store::disk::trust::SPACE).join("meta");
    std::fs::write(&meta, [7; META_LEN]).unwrap();
    let after = shards(&dir.path());
    // All in one shard.
    let same: Vec<u64> = (2..).filter(|n| shard_of(&key(*n), 4) == 0).take(6).collect();
    for n in &same {
        let writer = if n % 2 == 0 { &after } else { &before };
        put(writer, *n, b"same").unwrap();
    }
    put(&after, same[0], b"same").unwrap();
    put(&before, same[1], b"same").unwrap();
    for n in same {
        for shards in [&before, &after] {
            assert!(get(shards, n, Artifact, Thorough).is_some(), "{n}");
        }
    }
}

/// I4. Who has a segment mapped that is gone would take the next one of its id for it. Found by
/// `threads_and_processes_work_in_one_directory`, now and then.
#[test]
fn the_id_of_a_segment_that_is_gone_is_not_given_again() {
    replace_what_was_pruned();
}

#[test]
fn a_segments_id_that_is_given_again_is_noticed() {
    use crate::race::{Fault, with_planted};
    let fault = Fault("the id of a segment that is gone is given again");
    let noticed = with_planted(fault, || std::panic::catch_unwind(replace_what_was_pruned));
    assert!(noticed.is_err());
}

fn replace_what_was_pruned() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let one = shards_on(RealFs, &dir.path(), 256 * MIB);
    let two = shards_on(fs.clone(), &dir.path(), 256 * MIB);
    // Long enough for a segment of its own, which goes with it; short enough to be mapped.
    let set = |byte: u8| {
        set_note(&one, 1, &vec![byte; 200 << 10]).unwrap();
        get(&one, 1, Note, Thorough)
    };
    for round in 0..3 {
        assert!(set(round) == Some(vec![round; 200 << 10]), "{round}");
        // By age: to prune to a size makes a generation, with which mappings are forgotten.
        fs.pass(2 * 3600);
        two.prune(u64::MAX, Some(0)).unwrap();
        assert_eq!(get(&two, 1, Note, Thorough), None);
    }
}

/// I17. Found by `cachelift-stress`: a child that was forked while another thread had one of the locks waited for ever.
/// The guard stands for that thread. Mutant: `lock` in place of `lock_soon`; the test does not end.
#[test]
fn a_lock_that_a_fork_left_behind_is_not_waited_for() {
    let dir = Dir::new();
    let shards = shards(&dir.path());
    put(&shards, 1, b"before").unwrap();
    let open = shards.held().unwrap();
    let _left: Vec<_> = open.shards().map(Shard::writer_locked).collect();
    assert_eq!(get(&shards, 1, Artifact, Quick).unwrap(), b"before");
    put(&shards, 2, b"behind").unwrap();
    assert_eq!(get(&shards, 2, Artifact, Thorough).unwrap(), b"behind");
}

/// Keys whose fingerprints are the same: each finds its own record. Mutants: another key's record taken for
/// damage; the search ended at the first candidate.
#[test]
fn keys_of_one_fingerprint_live_beside_each_other() {
    let dir = Dir::new();
    let shards = shards_on(RealFs, &dir.path(), TINY);
    let keys: Vec<Key> = (0..5)
        .map(|n| {
            let mut bytes = *key(1).as_bytes();
            bytes[0] = n;
            Key::from_bytes(bytes)
        })
        .collect();
    let record = |key: &Key| {
        let payload = key.as_bytes();
        super::super::record::encode(key, Artifact, &super::super::record::Meta::default(), payload)
    };
    for key in &keys {
        let put = shards.put(key, Artifact, &record(key), Replace::Damaged);
        assert!(matches!(put, Ok(Put::New)));
    }
    assert!(shards.remove(&keys[2], Artifact).unwrap());
    for (n, key) in keys.iter().enumerate() {
        match shards.get(key, Artifact, Quick) {
            Lookup::Hit(found) => assert_eq!(&found.bytes[found.layout.payload], key.as_bytes()),
            Lookup::Miss(_) => assert_eq!(n, 2),
        }
    }
}

/// A reader has found a place and is about to open its segment, when the entry is carried on and the segment unlinked.
/// Mutants: a name that is gone taken for an error that may pass; killed at once.
#[test]
fn a_place_that_goes_while_it_is_looked_up_is_looked_up_again() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let writer = Arc::new(shards_on(fs.clone(), &dir.path(), TINY));
    fill(&writer, 0, 1000);
    for _ in 0..40 {
        fs.pass(3600);
        get(&writer, 5, Artifact, Quick).unwrap();
    }
    let first_get = |hand: Option<Box<dyn FnMut() + Send>>| {
        let fs = Faulty::default();
        let reader = shards_on(fs.clone(), &dir.path(), TINY);
        get(&reader, 999, Note, Quick);
        fs.heal();
        // The open, the stat and the mapping of the segment are its only operations.
        if let Some(hand) = hand {
            fs.before(0, hand);
        }
        let found = get(&reader, 5, Artifact, Quick);
        (found, fs.operations())
    };
    assert_eq!(first_get(None), (Some(payload(5, 700)), 3));
    let before = dir.names("seg-")[0].clone();
    let hand = {
        let writer = writer.clone();
        move || writer.prune(TINY / 2, None).unwrap()
    };
    fill(&writer, 1000, 1001);
    let (found, operations) = first_get(Some(Box::new(hand)));
    assert!(!before.exists() && operations > 3, "it was moved");
    // Pruning leaves no segment to carry it on to; filling does.
    assert!(found.is_none() || found == Some(payload(5, 700)));
}

/// A mapping of a file that has lost its name is seen through once, and let go. Mutants: kept, so that every look
/// reads the file; segments that are gone kept mapped, and their blocks with them.
#[test]
fn mappings_of_what_is_gone_are_let_go() {
    let dir = Dir::new();
    let writer = shards_on(RealFs, &dir.path(), TINY);
    fill(&writer, 0, 70);
    let segment = dir.names("seg-")[0].clone();
    // The second record, in a copy that is mapped, and the whole one in its place afterwards.
    change(&segment, |bytes| bytes[64 + 896 + 500] ^= 1);
    let fs = Faulty::default();
    let reader = shards_on(fs.clone(), &dir.path(), TINY);
    get(&reader, 0, Artifact, Quick).unwrap();
    get(&reader, 0, Artifact, Quick).expect("read, and then mapped");
    change(&segment, |bytes| bytes[64 + 896 + 500] ^= 1);
    let look = |n| {
        fs.heal();
        let found = get(&reader, n, Artifact, Quick);
        (found, fs.operations() > 0)
    };
    assert_eq!(look(0), (Some(payload(0, 700)), false));
    assert_eq!(look(1), (Some(payload(1, 700)), true), "by its name");
    assert_eq!(look(1), (Some(payload(1, 700)), true), "mapped anew");
    assert_eq!(look(1), (Some(payload(1, 700)), false));
    fill(&writer, 100, 3000);
    (100..3000).for_each(|n| drop(look(n)));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = dir.path().to_str().unwrap().to_owned();
    let gone =
        |line: &&str| line.contains(&path) && line.contains("seg-") && line.contains("deleted");
    drop(writer);
    assert!(maps.lines().filter(gone).count() < 8, "{maps}");
}

/// What others could have written is not read, and no reason to fail. Mutants: modes, or links, not looked at.
#[test]
fn what_others_could_have_written_is_not_read() {
    use std::os::unix::fs::PermissionsExt;
    let opened = std::fs::Permissions::from_mode(0o666);
    for prefix in ["seg-", "idx-", "CURRENT"] {
        for link in [false, true] {
            let dir = Dir::new();
            fill(&shards_on(RealFs, &dir.path(), TINY), 0, 5);
            let file = dir.names(prefix)[0].clone();
            if link {
                std::fs::hard_link(&file, dir.path().with_extension("elsewhere")).unwrap();
            } else {
                std::fs::set_permissions(&file, opened.clone()).unwrap();
            }
            let shards = shards_on(RealFs, &dir.path(), TINY);
            let found = count_right(&shards, 5);
            // Without a `CURRENT` to trust, the newest index does.
            assert_eq!(found, if prefix == "CURRENT" { 5 } else { 0 }, "{prefix}, {link}");
            let reason = if link { Reason::HardLinked } else { Reason::Mode };
            if prefix != "CURRENT" {
                assert!(shards.root.counters().get(reason) > 0, "{prefix}, {link}");
            }
            fill(&shards, 0, 10);
            assert_eq!(count_right(&shards, 10), 10, "{prefix}, {link}");
        }
    }
}

/// Mutant: orphans are never removed.
#[test]
fn what_a_dead_writer_left_is_removed_after_an_hour() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let shards = shards_on(fs.clone(), &dir.path(), TINY);
    fill(&shards, 0, 1);
    let orphan = dir.shard(0).join(Name::temporary([3; 16]));
    std::fs::write(&orphan, [0; 100]).unwrap();
    shards.prune(TINY, None).unwrap();
    assert!(orphan.exists(), "its writer may be at work");
    fs.pass(3700);
    shards.prune(TINY, None).unwrap();
    assert!(!orphan.exists());
}

/// Where whole segments are too much to give back, what is worth the most is kept all the same. Mutants seen killed:
/// no segment packed; the index as large as before; the least worthy first.
#[test]
fn a_roomy_cache_is_pruned_to_little() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let default = || shards_on(fs.clone(), &dir.path(), 2048 * MIB);
    let shards = default();
    fill(&shards, 0, 400);
    for byte in 0..3 {
        // Each next one in a slot behind the last one's.
        (0..40).for_each(|n| drop(set_note(&shards, n, &[byte; 300]).unwrap()));
    }
    let other = default();
    assert_eq!(count_right(&other, 400), 400);
    let space = dir.shard(0).parent().unwrap().to_path_buf();
    assert!(occupied(&space) > 18 * MIB, "blocks ahead, and sixteen indexes");

    shards.prune(MIB, None).unwrap();
    assert!(occupied(&space) <= MIB, "{}", occupied(&space));
    for shards in [&shards, &other, &default()] {
        assert_eq!(count_right(shards, 400), 400, "all of it fits");
        assert!((0..40).all(|n| get(shards, n, Note, Quick) == Some(vec![2; 300])));
    }
    fill(&other, 400, 420);
    assert_eq!(count_right(&shards, 420), 420);

    fs.pass(48 * 3600);
    (0..60).for_each(|n| drop(get(&other, n, Artifact, Thorough).unwrap()));
    shards.prune(400 << 10, None).unwrap();
    assert!(occupied(&space) <= 400 << 10);
    assert!((0..60).all(|n| get(&other, n, Artifact, Thorough).is_some()), "in use");
    let left = count_right(&other, 420);
    assert!((60..200).contains(&left), "{left}");

    shards.prune(0, None).unwrap();
    assert_eq!((count_right(&other, 420), dir.names("seg-").len()), (0, 0));
    assert!(occupied(&space) <= 16 * (12 << 10));
    fill(&other, 0, 100);
    assert_eq!(count_right(&shards, 100), 100);
}

/// Names of ours with numbers that nobody ever gave: neither counted on from, which would leave the range of numbers
/// or the reach of the index, nor in the way. Mutants seen killed: `SKIPPED` without an end; the highest
/// generation plus one whatever it is.
#[test]
fn stray_names_are_not_counted_on_from() {
    let stray = ["seg-fffffffffffe", "seg-ffffffffffff", "idx-ffffffffffff"];
    for (name, lost) in stray.iter().flat_map(|name| [(name, None), (name, Some("idx-"))]) {
        let dir = Dir::new();
        fill(&shards_on(RealFs, &dir.path(), MIB), 0, 20);
        std::fs::write(dir.shard(0).join(name), [7; 5000]).unwrap();
        for path in
            lost.iter().flat_map(|lost| dir.names(lost)).filter(|path| !path.ends_with(name))
        {
            std::fs::remove_file(path).unwrap();
        }
        for from in [20, 40, 60] {
            // A process each. The long record needs a segment, and the index grows on the way.
            let shards = shards_on(RealFs, &dir.path(), MIB);
            put(&shards, from + 1000, &payload(0, 40_000)).unwrap();
            fill(&shards, from, from + 20);
            assert_eq!(count_right(&shards, from + 20), from + 20, "{name}, {lost:?}");
        }
        let shards = shards_on(RealFs, &dir.path(), MIB);
        assert_eq!(count_right(&shards, 80), 80, "{name}, {lost:?}");
    }
}

/// A store to an index without blocks could find the disk full, which is a signal. Mutant: blocks not looked at.
#[test]
fn an_index_with_holes_is_not_written_to() {
    let dir = Dir::new();
    // A large index, of shard 0.
    let size = 2048 * MIB;
    let keys: Vec<u64> = (0..).filter(|n| shard_of(&key(*n), 4) == 0).take(6).collect();
    let writer = shards_on(RealFs, &dir.path(), size);
    keys[..5].iter().for_each(|n| fill(&writer, *n, n + 1));
    drop(writer);
    let index = dir.names("idx-")[0].clone();
    let copy = index.with_extension("copy");
    let (from, to) = (index.to_str().unwrap(), copy.to_str().unwrap());
    crate::store::disk::testing::sh("cp", &["--sparse=always", "-p", from, to]);
    // Pages of slots that are all empty.
    let length = std::fs::metadata(&copy).unwrap().len();
    assert!(occupied_by(&copy) < length, "this file system has holes");
    std::fs::rename(&copy, &index).unwrap();
    let fs = Faulty::default();
    let shards = shards_on(fs.clone(), &dir.path(), size);
    let before = std::fs::read(&index).unwrap();
    fs.pass(7200);
    for n in &keys[..5] {
        assert_eq!(get(&shards, *n, Artifact, Quick), Some(payload(*n, 700)));
    }
    assert!(std::fs::read(&index).unwrap() == before, "nobody remembers the use");
    fill(&shards, keys[5], keys[5] + 1);
    for n in &keys {
        assert_eq!(get(&shards, *n, Artifact, Quick), Some(payload(*n, 700)));
    }
    assert!(!index.exists() && occupied_by(&dir.names("idx-")[0]) >= length);
}

fn occupied_by(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().blocks() * 512
}

/// A minute of peace after an error that would come again. Mutant: none.
#[test]
fn writing_is_left_alone_after_a_full_disk() {
    let dir = Dir::new();
    let fs = Faulty::default();
    let shards = shards_on(fs.clone(), &dir.path(), TINY);
    fill(&shards, 0, 1);
    fs.fail_all(&["write_all_at", "allocate"], rustix::io::Errno::NOSPC);
    assert_eq!(put(&shards, 1, b"x").unwrap_err().reason, Reason::NoSpace);
    fs.heal();
    assert_eq!(put(&shards, 1, b"x").unwrap_err().reason, Reason::BackingOff);
    assert_eq!(fs.operations(), 0);
    fs.pass(61);
    assert!(put(&shards, 1, b"x").is_ok());
}
