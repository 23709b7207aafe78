//! A whole cache directory, on the file system that it is made for.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::forge::{self, KEYS};
use super::input::{Input, bend};
use crate::store::disk::format::header::Place;
use crate::store::disk::format::{META_LEN, SEGMENT_HEADER};
use crate::store::disk::fs::Fs;
use crate::store::disk::fs::real::RealFs;
use crate::store::disk::index::find::Care;
use crate::store::disk::large::{Lookup, Put, Replace};
use crate::store::disk::reason::Reason;
use crate::store::disk::record::Kind;
use crate::store::disk::root::Root;
use crate::store::disk::shards::Shards;
use crate::store::disk::trust::{Purpose, SPACE};
use crate::sync::{AtomicU64, Ordering};

/// The limit on the cache, which gives it one shard.
const MAX_SIZE: u64 = 1 << 20;
/// The longest file that is made of bytes, and of holes.
const LONGEST: usize = 1 << 16;
const HOLES: u64 = 16 << 20;

/// The names that files change to.
const NAMES: [&str; 16] = [
    "meta",
    "gc.lock",
    "shard-00.lock",
    "s/00/CURRENT",
    "s/00/idx-000000000000",
    "s/00/idx-000000000001",
    "s/00/idx-000000000002",
    "s/00/idx-ffffffffffff",
    "s/00/seg-000000000001",
    "s/00/seg-000000000002",
    "s/00/seg-000000000003",
    "s/00/seg-000000000004",
    "s/00/seg-ffffffffffff",
    "s/00/tmp-00000000000000000000000000000000",
    "s/00/else",
    "s/00",
];

/// Bits of the first byte: what is sealed again after it was bent.
const SEAL_META: u8 = 1;
const SEAL_CURRENT: u8 = 2;
const SEAL_INDEX: u8 = 4;
const SEAL_SLOTS: u8 = 8;
const SEAL_SEGMENTS: u8 = 16;
/// Then what is found need not be what was put.
const SEAL_RECORDS: u8 = 32;
/// As after a copy of the directory, or a boot.
const ELSEWHERE: u8 = 64;

/// What a name stands for.
enum Node {
    File { bytes: Vec<u8>, holes: u64 },
    Directory,
    Link(String),
}

/// A cache directory is opened and used whatever lies in it: what is found is what was put, what is put is found, and
/// a directory in which only files are bent can be written.
///
/// The input is `seals, edits, operations...`.
pub fn shard(input: &[u8]) {
    let mut input = Input::new(input);
    let (seals, edits) = (input.byte(), input.byte());
    let place = Place { boot: RealFs.boot_id(), device: 0, inode: 0 };
    let valid = forge::files(place);
    let file = |bytes: &Vec<u8>| Node::File { bytes: bytes.clone(), holes: 0 };
    let mut nodes: BTreeMap<String, Node> =
        valid.iter().map(|(path, bytes)| (path.clone(), file(bytes))).collect();
    let mut has_obstacles = false;
    for _ in 0..edits % 16 {
        has_obstacles |= edit(&mut nodes, &valid, &mut input);
    }
    reseal(&mut nodes, seals);
    let scene = Scene::new(&nodes, seals);
    let mut cache = scene.open(Purpose::Cache);
    for _ in 0..32 {
        if input.is_empty() {
            break;
        }
        scene.act(&mut cache, &mut input);
    }
    let Some(cache) = scene.open(Purpose::Cache) else {
        assert!(has_obstacles, "the directory was refused");
        return;
    };
    for n in 0..KEYS {
        for kind in Kind::ALL {
            match scene.put(&cache, n, kind, Replace::Damaged) {
                Ok(()) => assert!(scene.get(&cache, n, kind), "key {n} was put and is not found"),
                Err(reason) => {
                    // A newer version's cache, or one of so many shards that none has room.
                    let is_answer = matches!(reason, Reason::Newer | Reason::OverLimit);
                    let is_sealed = seals & (SEAL_META | SEAL_CURRENT) != 0;
                    // Whoever can seal a header can lead a writer beyond all numbers.
                    let is_beyond = reason == Reason::Magic && seals & SEAL_INDEX != 0;
                    let is_refused = has_obstacles || is_answer && is_sealed || is_beyond;
                    assert!(is_refused, "key {n} cannot be put: {}", reason.name());
                }
            }
        }
    }
    cache.for_each(|_| {});
}

/// Bends one file, or changes what its name stands for: whether that may stand in the way of a writer.
fn edit(
    nodes: &mut BTreeMap<String, Node>,
    valid: &BTreeMap<String, Vec<u8>>,
    input: &mut Input<'_>,
) -> bool {
    let edit = input.byte();
    let Some(path) = nodes.keys().nth(usize::from(edit >> 4) % nodes.len().max(1)).cloned() else {
        return false;
    };
    let other =
        valid.values().nth(usize::from(input.byte()) % valid.len()).expect("there are some");
    let new_path = NAMES[usize::from(input.byte()) % NAMES.len()].to_string();
    match (edit % 16, nodes.get_mut(&path)) {
        (0..=7, Some(Node::File { bytes, .. })) => bend(bytes, other, LONGEST, input),
        (8, _) => drop(nodes.remove(&path)),
        (9, _) => {
            let node = nodes.remove(&path).expect("it is there");
            return insert(nodes, new_path, node);
        }
        (10, Some(Node::File { bytes, holes })) => {
            let node = Node::File { bytes: bytes.clone(), holes: *holes };
            return insert(nodes, new_path, node);
        }
        (11, Some(Node::File { bytes, .. })) => {
            let length = usize::from(input.byte());
            *bytes = input.bytes(length).to_vec();
        }
        (12, Some(Node::File { holes, .. })) => *holes = HOLES * u64::from(input.byte()) / 255,
        (13, Some(Node::File { bytes, .. })) => *bytes = other.clone(),
        (14, _) => {
            nodes.insert(path, Node::Directory);
            return true;
        }
        (15, _) => {
            nodes.insert(path, Node::Link(new_path));
            return true;
        }
        _ => {}
    }
    false
}

fn insert(nodes: &mut BTreeMap<String, Node>, path: String, node: Node) -> bool {
    // In the place of the directory that the others are in.
    let hides = path == "s/00";
    nodes.insert(path, node);
    hides
}

fn reseal(nodes: &mut BTreeMap<String, Node>, seals: u8) {
    for (path, node) in nodes {
        let Node::File { bytes, .. } = node else { continue };
        let has = |seal: u8| seals & seal != 0;
        match path.rsplit('/').next().unwrap_or(path) {
            "meta" if has(SEAL_META) => forge::seal(bytes, META_LEN),
            name if name.starts_with("idx-") && has(SEAL_SLOTS) => forge::seal_slots(bytes),
            name if name.starts_with("seg-") => {
                if has(SEAL_SEGMENTS) {
                    forge::seal(bytes, SEGMENT_HEADER);
                }
                if has(SEAL_RECORDS) {
                    forge::seal_records(bytes);
                }
            }
            _ => {}
        }
    }
}

/// A directory on disk, for as long as this lives.
struct Scene {
    path: PathBuf,
    is_forged: bool,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

type Cache = Option<Shards<RealFs>>;

impl Scene {
    fn new(nodes: &BTreeMap<String, Node>, seals: u8) -> Scene {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let above = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("cachelift-fuzz-{}-{number}", std::process::id()));
        let scene = Scene { path, is_forged: seals & SEAL_RECORDS != 0 };
        let space = scene.path.join(SPACE);
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        for directory in [&scene.path, &space, &space.join("s")] {
            builder.create(directory).expect("a directory of our own");
        }
        if !nodes.contains_key("s/00") {
            builder.create(space.join("s/00")).expect("a directory of our own");
        }
        // `CURRENT` comes last, when the indexes are where they are.
        let is_current = |path: &str| path.ends_with("CURRENT");
        let mut moved = Vec::new();
        for last in [false, true] {
            for (path, node) in nodes.iter().filter(|(path, _)| is_current(path) == last) {
                let at = space.join(path);
                // What would lie in a directory that is not one is nowhere.
                let _ = match node {
                    Node::Directory => builder.create(at),
                    Node::Link(to) => symlink(space.join(to), at),
                    Node::File { bytes, holes } => write(&at, bytes, *holes, seals, &mut moved),
                };
            }
        }
        scene
    }

    fn open(&self, purpose: Purpose) -> Cache {
        Root::open(RealFs, &self.path, purpose).ok().map(|root| Shards::new(root, MAX_SIZE))
    }

    fn act(&self, cache: &mut Cache, input: &mut Input<'_>) {
        let operation = input.byte();
        let (n, kind) =
            (operation >> 5, if operation & 16 == 0 { Kind::Artifact } else { Kind::Note });
        if operation % 16 == 15 {
            let purpose = if operation & 16 == 0 { Purpose::Cache } else { Purpose::CacheReadOnly };
            *cache = self.open(purpose);
            return;
        }
        let Some(cache) = cache else { return };
        match operation % 16 {
            0..=3 => drop(self.get(cache, n, kind)),
            4..=6 => {
                if self.put(cache, n, kind, Replace::Damaged).is_ok() {
                    assert!(self.get(cache, n, kind), "key {n} was put and is not found");
                }
            }
            7 => drop(self.put(cache, n, Kind::Note, Replace::Always)),
            8 => {
                if cache.remove(&forge::key(n), kind).is_ok() {
                    assert!(!self.get(cache, n, kind), "key {n} was removed and is found");
                }
            }
            9 => {
                cache.attempt(&forge::key(n));
                let _ = cache.attempts(&forge::key(n));
                cache.forgive(&forge::key(n));
            }
            10 => drop((cache.usage(), cache.contains(&forge::key(n)))),
            11 => drop(cache.prune(MAX_SIZE >> n, (n > 4).then_some(n.into()))),
            12 => {
                if let Ok(verified) = cache.verify(|_, _| {}) {
                    assert!(verified.bytes <= HOLES * u64::from(u8::MAX));
                }
            }
            13 if n == 0 => {
                if cache.clear().is_ok() {
                    assert!(!self.get(cache, n, kind), "key {n} was cleared and is found");
                }
            }
            _ => cache.for_each(|_| {}),
        }
    }

    /// Whether a key is found; if it is, it is what was put.
    fn get(&self, cache: &Shards<RealFs>, n: u8, kind: Kind) -> bool {
        let key = forge::key(n);
        let quick = cache.get(&key, kind, Care::Quick);
        let found = match cache.get(&key, kind, Care::Thorough) {
            Lookup::Hit(found) => Some(found),
            Lookup::Miss(_) => None,
        };
        if let Lookup::Hit(quick) = quick {
            self.judge(n, kind, &quick.bytes[quick.layout.payload]);
        }
        if let Some(found) = &found {
            self.judge(n, kind, &found.bytes[found.layout.payload.clone()]);
        }
        found.is_some()
    }

    fn put(
        &self,
        cache: &Shards<RealFs>,
        n: u8,
        kind: Kind,
        replace: Replace,
    ) -> Result<(), Reason> {
        match cache.put(&forge::key(n), kind, &forge::whole(n, kind), replace) {
            Ok(Put::New) => Ok(()),
            Ok(Put::Existing(found)) => {
                self.judge(n, kind, &found.bytes[found.layout.payload]);
                Ok(())
            }
            Err(failure) => Err(failure.reason),
        }
    }

    fn judge(&self, n: u8, kind: Kind, payload: &[u8]) {
        let put = self.is_forged || payload == forge::payload(&forge::key(n), kind);
        assert!(put, "key {n} has a payload that was never put");
    }
}

/// Writes a file. An index then says that it lies where it does, and `CURRENT` names it so, if both were whole before:
/// `moved` has what `CURRENT` said of each and what it is to say.
fn write(
    at: &Path,
    bytes: &[u8],
    holes: u64,
    seals: u8,
    moved: &mut Vec<(u32, u32)>,
) -> std::io::Result<()> {
    let mut bytes = bytes.to_vec();
    let file = fs::OpenOptions::new().write(true).create_new(true).open(at)?;
    let name = at.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("idx-") {
        let stat = file.metadata()?;
        let place = Place { boot: RealFs.boot_id(), device: stat.dev(), inode: stat.ino() };
        let place = Some(place).filter(|_| seals & ELSEWHERE == 0);
        moved.extend(forge::settle(&mut bytes, place, seals & SEAL_INDEX != 0));
    }
    if name == "CURRENT" {
        forge::name_settled(&mut bytes, moved, seals & SEAL_CURRENT != 0);
    }
    file.write_all_at(&bytes, 0)?;
    if holes > 0 {
        file.set_len(bytes.len() as u64 + holes)?;
    }
    Ok(())
}
