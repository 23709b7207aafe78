//! The first format's directories stay readable, and those of formats that this version does not know stay untouched.
//!
//! ```text
//!   tests/fixtures/format-1/files   every file of a cache directory: its path, its length, its bytes that are not 0
//! ```
//!
//! The fixture was written by the first version of the format and is not to be written anew for a change of the code: what
//! this version cannot read of it, users lose. A new format gets a fixture of its own beside it. `WRITE_FIXTURE=1 cargo
//! test --test compat -- --test-threads=1` makes it where there is none.
//!
//! Mutants seen killed: `format::FORMAT`, `record::FORMAT`; the bits of a slot's offset; the seal's order.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cachelift::config::Config;
use cachelift::key::Key;
use cachelift::store::{Draft, Meta, PruneLimits, Published, Store};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1/files");
/// Two shards, and segments of 64 KiB.
const MAX_SIZE: u64 = 2 << 20;
/// The artifacts in the fixture. The last is too long to share a segment.
const ARTIFACTS: u64 = 12;
const NOTES: u64 = 3;
/// Of those, one that was taken out.
const REMOVED: u64 = 5;

fn key(n: u64) -> Key {
    Key::from_bytes(*blake3::hash(&n.to_le_bytes()).as_bytes())
}

fn payload(n: u64) -> Vec<u8> {
    let length: u64 = [0, 1, 63, 64, 65, 100, 200, 300, 500, 1000, 4000, 17_000][n as usize % 12];
    // Short bytes to write down, and none of them a 0 that is not written down at all.
    (0..length).map(|at| 1 + (31 * n + at % 7) as u8 % 200).collect()
}

fn meta(n: u64) -> Meta {
    Meta {
        label: format!("function {n}"),
        producer: "compat".into(),
        created_s: 1_700_000_000 + n,
        cost_us: 1 << n,
        source: n.is_multiple_of(2).then(|| format!("source of {n}")),
        ..Meta::default()
    }
}

fn note(n: u64) -> Vec<u8> {
    format!("note {n}, as it was set last").into_bytes()
}

fn store(dir: &Path) -> Store {
    let mut config = Config::default().dir(dir);
    config.max_size = MAX_SIZE;
    Store::open(config)
}

/// What the fixture has, put with the store of this version.
fn write(dir: &Path) {
    let store = store(dir);
    let put = |n| {
        let draft = Draft { payload: payload(n), meta: meta(n) };
        assert!(matches!(store.put(&key(n), draft), Ok(Published::New(_))), "{n}");
    };
    (0..8).for_each(put);
    for n in 0..NOTES {
        store.set_note(&key(n), b"an older note").unwrap();
        store.set_note(&key(n), &note(n)).unwrap();
    }
    assert!(store.remove(&key(REMOVED)).unwrap());
    // What there is moves to other segments, in another generation of the index.
    store.prune(PruneLimits { max_size: Some(64 << 10), unused_for: None }).unwrap();
    (8..ARTIFACTS).for_each(put);
}

/// Everything that is in a directory of the fixture is found, by who may write and by who only reads.
fn assert_readable(dir: &Path) {
    for store in [
        store(dir),
        Store::open(store(dir).config().clone().mode(cachelift::config::Mode::ReadOnly)),
    ] {
        for n in 0..ARTIFACTS {
            let record = store.get(&key(n));
            if n == REMOVED {
                assert!(record.is_none(), "{n} was removed");
                continue;
            }
            let record = record.unwrap_or_else(|| panic!("{n} is not found"));
            assert!(record.payload() == payload(n), "{n} has other bytes");
            assert_eq!(record.meta(), meta(n));
        }
        for n in 0..NOTES {
            assert_eq!(store.note(&key(n)), Some(note(n)), "note {n}");
        }
        assert!(store.stats().reasons.is_empty(), "{:?}", store.stats());
    }
}

/// The files below a directory, by their paths from there.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &Path, below: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(below).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(dir, &path, files);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_string();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(dir, dir, &mut files);
    files
}

/// As text: a line for each file, then one for each 32 bytes that are not all 0.
fn encode(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut text = String::new();
    for (name, bytes) in files {
        writeln!(text, "{name} {}", bytes.len()).unwrap();
        for (n, line) in
            bytes.chunks(32).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0))
        {
            let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "  {:x} {digits}", 32 * n).unwrap();
        }
    }
    text
}

fn decode(text: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut file: Option<&mut Vec<u8>> = None;
    for line in text.lines() {
        let (name, rest) = line.trim_start().split_once(' ').expect("two words");
        if line.starts_with(' ') {
            let at = usize::from_str_radix(name, 16).unwrap();
            let digits = rest.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            file.as_mut().unwrap()[at..at + bytes.len()].copy_from_slice(&bytes);
        } else {
            file = Some(files.entry(name.to_string()).or_insert(vec![0; rest.parse().unwrap()]));
        }
    }
    files
}

/// The fixture's files, in a directory of its own.
fn unpacked() -> tempfile::TempDir {
    if std::env::var_os("WRITE_FIXTURE").is_some() && !Path::new(FIXTURE).exists() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("cache"));
        fs::write(FIXTURE, encode(&files(&dir.path().join("cache")))).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    place(&decode(&fs::read_to_string(FIXTURE).unwrap()), &dir.path().join("cache"));
    dir
}

fn place(files: &BTreeMap<String, Vec<u8>>, dir: &Path) {
    for (name, bytes) in files {
        let path = dir.join(name);
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
}

/// The one directory in the fixture that is named after format and machine.
fn space(cache: &Path) -> PathBuf {
    let is_space = |path: &PathBuf| path.is_dir();
    fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path()).find(is_space).unwrap()
}

/// Whether this machine is the kind that the fixture was made on: on another it is a foreign one's.
fn is_at_home() -> bool {
    cfg!(all(target_arch = "x86_64", target_endian = "little"))
}

#[test]
fn the_first_format_stays_readable_and_writable() {
    if !is_at_home() {
        eprintln!("SKIPPED: the fixture is of x86-64");
        return;
    }
    let dir = unpacked();
    let cache = dir.path().join("cache");
    assert_readable(&cache);
    let before = store(&cache).usage();
    assert_eq!((before.artifacts.entries, before.notes.entries), (ARTIFACTS - 1, NOTES));

    let one = store(&cache);
    for n in ARTIFACTS..ARTIFACTS + 200 {
        let draft = Draft { payload: payload(n % 11), meta: meta(n % 11) };
        assert!(matches!(one.put(&key(n), draft), Ok(Published::New(_))), "{n}");
    }
    for n in 0..ARTIFACTS {
        let put = one.put(&key(n), Draft::new(b"another".to_vec())).unwrap();
        match put {
            Published::Existing(record) => assert!(record.payload() == payload(n), "{n}"),
            _ => assert_eq!(n, REMOVED, "the first publisher wins, from whichever version"),
        }
    }
    drop(one);
    let two = store(&cache);
    for n in (0..ARTIFACTS + 200).filter(|n| *n != REMOVED) {
        let expected = payload(if n < ARTIFACTS { n } else { n % 11 });
        assert!(two.get(&key(n)).is_some_and(|record| record.payload() == expected), "{n}");
    }
    let verified = two.verify(|_, _| {}).unwrap();
    assert_eq!(verified.damaged, 0);
    assert_eq!(verified.whole, ARTIFACTS + 200 + NOTES);
}

/// What this version writes is what the reader of the fixture reads, and lies in the same kinds of files.
#[test]
fn this_version_writes_the_first_format() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    write(&cache);
    assert_readable(&cache);
    if !is_at_home() {
        return;
    }
    let fixture = unpacked();
    // Generations and segments may be counted otherwise.
    let kinds = |dir: &Path| -> Vec<String> {
        let kind = |name: &String| {
            name.split_once('-').map_or(name.clone(), |_| {
                let (path, file) = name.rsplit_once('/').unwrap_or(("", name));
                format!("{path}/{}", file.split('-').next().unwrap_or(file))
            })
        };
        let mut kinds: Vec<_> = files(dir).keys().map(kind).collect();
        kinds.dedup();
        kinds
    };
    // The totals were locked by a file beside them once; nobody reads it.
    let mut first = kinds(&fixture.path().join("cache"));
    first.retain(|name| !name.ends_with("/totals.lock"));
    assert_eq!(kinds(&cache), first);
}

#[test]
fn formats_and_machines_that_are_not_known_are_left_alone() {
    let dir = unpacked();
    let cache = dir.path().join("cache");
    let ours = files(&space(&cache));
    let foreign = ["v2-x86_64-le64", "v1-s390x-be64", "v1-aarch64-le64", "VERSION"];
    for name in foreign {
        // As if the other had the same files, but for the words that it has in another order.
        let turned = |(path, bytes): (&String, &Vec<u8>)| {
            let words = bytes.chunks(8).flat_map(|word| word.iter().rev().copied());
            (path.clone(), words.collect::<Vec<u8>>())
        };
        place(&ours.iter().map(turned).collect(), &cache.join(name));
    }
    let before = files(&cache);
    let one = store(&cache);
    for n in 100..300 {
        one.put(&key(n), Draft::new(payload(n % 12))).unwrap();
    }
    one.verify(|_, _| {}).unwrap();
    one.prune(PruneLimits { max_size: Some(100 << 10), unused_for: None }).unwrap();
    one.clear().unwrap();
    drop(one);
    let after = files(&cache);
    for (path, bytes) in
        before.iter().filter(|(path, _)| foreign.iter().any(|name| path.starts_with(name)))
    {
        assert!(after.get(path) == Some(bytes), "{path} was changed");
    }
    assert!(after.keys().all(
        |path| before.contains_key(path) || !foreign.iter().any(|name| path.starts_with(name))
    ));
}

/// A `meta` of a newer version, whole, in this format's own place: nobody knows what it protects.
#[test]
fn a_newer_meta_is_left_alone() {
    let dir = unpacked();
    let cache = dir.path().join("cache");
    let path = space(&cache).join("meta");
    let mut meta = fs::read(&path).unwrap();
    meta[8] = 2;
    // As `format::seal` does, whose seed and place are the same in every version.
    let seal = twox_hash::XxHash3_64::oneshot_with_seed(0x6361_6368_656c_6966, &meta[..56]);
    meta[56..].copy_from_slice(&seal.to_le_bytes());
    fs::write(&path, meta).unwrap();
    let before = files(&cache);
    let store = store(&cache);
    let made =
        store.try_get_with(&key(1), || Ok::<_, ()>(Draft::new(b"made here".to_vec()))).unwrap();
    assert_eq!(made.0.payload(), b"made here", "nothing is read there");
    assert!(store.put(&key(2), Draft::new(vec![1])).is_err());
    let _ = (store.clear(), store.prune(PruneLimits::default()), store.verify(|_, _| {}));
    drop(store);
    // Lock files are the same in every version, and always empty.
    let mut after = files(&cache);
    after.retain(|path, bytes| {
        before.contains_key(path) || !(bytes.is_empty() && path.ends_with(".lock"))
    });
    assert!(after == before, "a newer version's files were changed");
}
