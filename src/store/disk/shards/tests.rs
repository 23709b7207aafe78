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

/// Puts enough into a tiny shard that segments are rolled and evicted and the index rebuilt.
fn fill<F: MapFs>(shards: &Shards<F>, from: u64, to: u64) {
    for n in from..to {
        put(shards, n, &payload(n, 700)).unwrap();
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
    shards.held().unwrap().shards[0].for_each(|key, _, candidate, _| {
        let bytes =
            std::fs::read(dir.shard(0).join(candidate.location.segment.to_string())).unwrap();
        let from = candidate.location.offset as usize;
        records.push((key, bytes[from..][..candidate.location.length as usize].to_vec()));
    });
    records.sort();
    records
}

const TINY: u64 = MIB;

/// Whatever file of a shard is lost or damaged, nothing wrong is found, and the next put goes on; what need not be
/// lost is found. Files are replaced, not written to, as a hand would do it with a copy.
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
            shards.verify().unwrap();
            assert_eq!(shards.verify().unwrap().damaged, 0, "{what}, {reopen}");
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
    const HARMS: [(&str, Harm); 6] = [
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

/// A directory that is copied while its writer is at work, and the original in its next boot: nobody writes
/// where somebody has published. Mutants: `place` not compared; the segment's boot not compared.
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

    let booted = Shards { boot: [77; 16], ..shards_on(RealFs, &dir.path(), TINY) };
    fill(&booted, 50, 55);
    assert_eq!(dir.names("seg-").len(), 2, "a fresh segment");
    fill(&booted, 55, 60);
    assert_eq!(dir.names("seg-").len(), 2, "and one only");
    assert_eq!(count_right(&booted, 60), 60);
    assert_eq!(count_right(&one, 60), 60);
}

/// Each operation of the file system fails in turn, while segments are rolled and evicted and the index is
/// rebuilt: what was published is found or was evicted, and when the fault is over all goes on.
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
        for at in 0..220 {
            fs.fail(at % 110, errno);
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
        assert!(failed > 20 || errno == Errno::NOENT, "{errno}: only {failed} puts failed");
        let other = shards_on(RealFs, &dir.path(), TINY);
        assert_eq!(count_right(&other, n), count_right(&shards, n));
        assert!(occupied(&dir.path()) <= TINY + (96 << 10), "{errno}");
    }
}

/// A process may die before each operation. Mutants: `CURRENT` before the index; the index retired after
/// `CURRENT`; the victim unlinked before its entries are carried.
#[test]
fn a_writer_may_die_before_each_operation() {
    let mut n = 0;
    let dir = Dir::new();
    let other = shards_on(RealFs, &dir.path(), TINY);
    let mut died = 0;
    for at in 0..400_u64 {
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
    assert!(died > 200, "{died} deaths");
    assert_eq!(count_right(&other, n), other.verify().unwrap().whole);
}
