//! What a run read, and in which states of its files it was seen: the direct question.
//!
//! ```text
//!   entry's name and text ──► note: lists of paths          which files it read, which paths it found nothing at
//!                               │ their contents now
//!                               ▼
//!                 state's key ──► note: State               every specialisation that runs in this state used
//! ```
//!
//! Content is the judge: a state's key is made of the digests of what the files hold, so a touched, copied or moved
//! program is in the same state, and one that is edited back and forth finds each of its states again. A path at which
//! nothing was found is part of the state too: a file that appears there may change what an import means.
//!
//! *Stamps* save reading a file again. A stamp (size, times, inode) stands for a digest only if it could not have stayed
//! the same while the file changed: when the file was hashed, both of its times lay [`SETTLED`] or more back, it was the
//! same before and after, and it lies on a file system whose clock is this machine's. Writes through a mapping do not
//! move a file's times; nothing that looks at stamps can see them.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::key::Key;
use crate::store::Store;

/// How long a file must have been left alone for its stamp to be trusted: more than the granularity of any file system's
/// times.
pub(crate) const SETTLED: Duration = Duration::from_secs(2);

/// How many lists of paths are remembered for an entry: as many as there are sets of modules that it imported.
const MAX_LISTS: usize = 16;

/// The most bytes of a note.
const MAX_NOTE: usize = 1 << 20;

/// The paths that a run looked at, as they are told in every copy of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Paths {
    /// The files that were read, in order.
    pub(crate) read: Vec<Place>,
    /// The paths at which nothing was found, in order.
    pub(crate) absent: Vec<Place>,
}

/// A path from one of the folders that modules are looked for in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Which of the folders, the program's own first; past them all if it is in none.
    pub(crate) folder: u32,
    /// The way from there, with `/`.
    pub(crate) path: String,
}

impl Place {
    /// The place of a path.
    pub(crate) fn of(path: &Path, folders: &[PathBuf]) -> Self {
        let mut inside = folders.iter().enumerate();
        let found = inside.find_map(|(at, folder)| Some((at, path.strip_prefix(folder).ok()?)));
        let (folder, path) = found.unwrap_or((folders.len(), path));
        let parts: Vec<_> = path
            .components()
            .map(|part| match part {
                Component::RootDir => "".into(),
                part => part.as_os_str().to_string_lossy(),
            })
            .collect();
        Place { folder: folder as u32, path: parts.join("/") }
    }

    /// The path of a place.
    pub(crate) fn path(&self, folders: &[PathBuf]) -> PathBuf {
        match folders.get(self.folder as usize) {
            Some(folder) => folder.join(&self.path),
            None => PathBuf::from(&self.path),
        }
    }
}

/// Everything that was used by runs in one state of the program's files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// All units.
    pub(crate) plan: Plan,
    /// The digest of a kernel by place, with that of the types it was called with, and the unit that answers.
    pub(crate) entries: Vec<([u8; 32], u32)>,
    /// The kernels that the entry's module holds when it has run: name, digest by place.
    pub(crate) exports: Vec<(String, [u8; 32])>,
    /// Whether running the module does nothing that could turn out differently another time: it reads nothing but the
    /// files of the list, and prints nothing.
    pub(crate) is_pure: bool,
}

impl State {
    /// The unit that answers for this entry.
    pub(crate) fn unit(&self, entry: &Key) -> Option<usize> {
        let entry = self.entries.iter().find(|(key, _)| key == entry.as_bytes())?;
        Some(entry.1 as usize)
    }

    /// Adds what is new in another state of the same files; says whether anything is.
    pub(crate) fn absorb(&mut self, other: &State) -> bool {
        let places = self.plan.absorb(&other.plan);
        let mut changed = false;
        for (key, unit) in &other.entries {
            if self.entries.iter().all(|(known, _)| known != key) {
                self.entries.push((*key, places[*unit as usize] as u32));
                changed = true;
            }
        }
        if self.exports != other.exports || self.is_pure != other.is_pure {
            self.exports.clone_from(&other.exports);
            self.is_pure = other.is_pure;
            changed = true;
        }
        changed
    }
}

/// The lists of paths of an entry, newest first.
pub(crate) fn lists(store: &Store, entry: &Key) -> Vec<Paths> {
    let note = store.note(entry).unwrap_or_default();
    postcard::from_bytes(&note).unwrap_or_default()
}

/// Remembers a list of paths as the newest.
pub(crate) fn remember(store: &Store, entry: &Key, mut lists: Vec<Paths>, paths: &Paths) {
    if lists.first() == Some(paths) {
        return;
    }
    lists.retain(|known| known != paths);
    lists.insert(0, paths.clone());
    lists.truncate(MAX_LISTS);
    let mut bytes = postcard::to_stdvec(&lists).expect("plain data");
    while bytes.len() > MAX_NOTE && lists.len() > 1 {
        lists.pop();
        bytes = postcard::to_stdvec(&lists).expect("plain data");
    }
    // What is not remembered is found by the next question.
    let _ = store.set_note(entry, &bytes);
}

/// The key of an entry: its name in the program, and its text.
pub(crate) fn entry_key(store: &Store, name: &str, digest: &Key) -> Key {
    store.key("cachelift kernel entry v1").str("name", name).key("text", digest).finish()
}

/// The key of the state in which `digest` finds the files: `None` if a file of the list is gone, or there is one at a path
/// where there was none.
pub(crate) fn state_key(
    store: &Store,
    environment: &Key,
    entry: &Key,
    paths: &Paths,
    digest: &mut dyn FnMut(&Place) -> Option<Key>,
) -> Option<Key> {
    let mut key = store.key("cachelift kernel state v1");
    key.key("environment", environment).key("entry", entry);
    for place in &paths.read {
        let digest = digest(place)?;
        key.u64("folder", place.folder.into()).str("path", &place.path).key("contents", &digest);
    }
    for place in &paths.absent {
        if digest(place).is_some() {
            return None;
        }
        key.u64("no folder", place.folder.into()).str("no path", &place.path);
    }
    Some(key.finish())
}

/// The state under a key.
pub(crate) fn state(store: &Store, key: &Key) -> Option<State> {
    let state: State = postcard::from_bytes(&store.note(key)?).ok()?;
    let sound = state.plan.is_sound()
        && state.entries.iter().all(|(_, unit)| (*unit as usize) < state.plan.units.len());
    sound.then_some(state)
}

/// Remembers a state, unless it is too large for a note.
pub(crate) fn set_state(store: &Store, key: &Key, state: &State) {
    let bytes = postcard::to_stdvec(state).expect("plain data");
    let _ = store.set_note(key, &bytes);
}

/// The digest of a text.
pub(crate) fn text_digest(text: &[u8]) -> Key {
    Key::from_bytes(*blake3::hash(text).as_bytes())
}

/// What the system says of a file, by which a changed one is known without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    inode: u64,
    device: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(meta: &fs::Metadata) -> Self {
        Stamp {
            size: meta.size(),
            inode: meta.ino(),
            device: meta.dev(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether a file with this stamp cannot have been written after `now` and kept it.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        let Ok(now) = now.duration_since(UNIX_EPOCH) else { return false };
        let Some(limit) = now.checked_sub(SETTLED) else { return false };
        let limit = (limit.as_secs() as i64, i64::from(limit.subsec_nanos()));
        // Times at the epoch are made up by what unpacks archives.
        self.modified.0 > 1 && self.modified <= limit && self.changed <= limit
    }
}

/// Digests of files, each read again only if its stamp does not vouch for what is known.
#[derive(Default)]
pub(crate) struct Stamps {
    known: HashMap<PathBuf, (Stamp, Key)>,
    /// Whether something was learnt.
    pub(crate) changed: bool,
    /// How many files were read.
    pub(crate) read: usize,
}

impl Stamps {
    /// The digest of what a file holds now; `None` if there is none.
    pub(crate) fn digest(&mut self, path: &Path) -> Option<Key> {
        let before = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let stamp = Stamp::of(&before);
        if let Some((known, digest)) = self.known.get(path)
            && *known == stamp
        {
            return Some(*digest);
        }
        let now = SystemTime::now();
        let text = fs::read(path).ok()?;
        self.read += 1;
        let digest = text_digest(&text);
        let after = fs::metadata(path).ok().map(|meta| Stamp::of(&meta));
        if after == Some(stamp) && stamp.is_settled(now) && is_local(path) {
            self.known.insert(path.to_owned(), (stamp, digest));
            self.changed = true;
        }
        Some(digest)
    }

    /// The stamps that were kept for a program.
    pub(crate) fn load(store: &Store, key: &Key, folders: &[PathBuf]) -> Self {
        let note = store.note(key).unwrap_or_default();
        let kept: Vec<(Place, Stamp, [u8; 32])> = postcard::from_bytes(&note).unwrap_or_default();
        let known = kept
            .into_iter()
            .map(|(place, stamp, digest)| (place.path(folders), (stamp, Key::from_bytes(digest))));
        Stamps { known: known.collect(), ..Stamps::default() }
    }

    /// Keeps them, if there is something new.
    pub(crate) fn save(&self, store: &Store, key: &Key, folders: &[PathBuf]) {
        if !self.changed {
            return;
        }
        let mut kept: Vec<_> = self
            .known
            .iter()
            .map(|(path, (stamp, digest))| (Place::of(path, folders), *stamp, *digest.as_bytes()))
            .collect();
        kept.sort_by(|a, b| (a.0.folder, &a.0.path).cmp(&(b.0.folder, &b.0.path)));
        let bytes = postcard::to_stdvec(&kept).expect("plain data");
        let _ = store.set_note(key, &bytes);
    }

    /// The key of the stamps of the program whose entry this is: the file itself, wherever it lies.
    pub(crate) fn key(store: &Store, entry: &Path) -> Option<Key> {
        let meta = fs::metadata(entry).ok()?;
        let mut key = store.key("cachelift file stamps v1");
        Some(key.u64("device", meta.dev()).u64("inode", meta.ino()).finish())
    }
}

/// Whether a file lies where its times are by this machine's clock.
fn is_local(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        /// ext, xfs, btrfs, tmpfs, overlay, f2fs, zfs.
        const LOCAL: [i64; 7] =
            [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794c_7630, 0xF2F5_2010, 0x2FC1_2FC1];
        rustix::fs::statfs(path).is_ok_and(|statfs| LOCAL.contains(&statfs.f_type))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn settled(meta: &fs::Metadata) -> SystemTime {
        let latest = meta.mtime().max(meta.ctime()) as u64;
        UNIX_EPOCH + Duration::from_secs(latest) + SETTLED + Duration::from_secs(1)
    }

    /// A stamp stands for a file only if the file was left alone for a while before it was hashed.
    #[test]
    fn stamps_are_trusted_when_they_are_settled() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let meta = file.as_file().metadata().unwrap();
        let stamp = Stamp::of(&meta);
        assert!(stamp.is_settled(settled(&meta)));
        let now = UNIX_EPOCH + Duration::new(meta.mtime() as u64, meta.mtime_nsec() as u32);
        assert!(!stamp.is_settled(now));
        assert!(!stamp.is_settled(now + Duration::from_secs(1)));
        assert!(!stamp.is_settled(UNIX_EPOCH));

        // A modification time can be set to anything; the time of the change cannot.
        let old = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.as_file().set_modified(old).unwrap();
        let stamp = Stamp::of(&file.as_file().metadata().unwrap());
        assert!(!stamp.is_settled(now));
        file.as_file().set_modified(UNIX_EPOCH).unwrap();
        let meta = file.as_file().metadata().unwrap();
        assert!(!Stamp::of(&meta).is_settled(settled(&meta)));
    }

    /// A file that changes within one tick of the clock, and keeps its size, is read again.
    #[test]
    fn a_fresh_file_is_read_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.py");
        let mut stamps = Stamps::default();
        for text in ["x = 1", "x = 2", "x = 3"] {
            fs::write(&path, text).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
            assert_eq!(stamps.digest(&path), Some(text_digest(text.as_bytes())));
        }
        assert_eq!(stamps.read, 3);
        assert!(stamps.known.is_empty());
        assert_eq!(stamps.digest(&dir.path().join("b.py")), None);
        assert_eq!(stamps.digest(dir.path()), None, "a folder is no file");
    }

    /// What is known of a file is used while its stamp is the same, kept in the store, and found from another copy of the
    /// folder's path.
    #[test]
    fn a_known_stamp_saves_reading() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Config::default().dir(dir.path().join("cache")));
        let path = dir.path().join("a.py");
        fs::write(&path, "x = 1").unwrap();
        let folders = [dir.path().to_owned()];
        let stamp = Stamp::of(&fs::metadata(&path).unwrap());
        let digest = text_digest(b"made up");
        let mut stamps = Stamps::default();
        stamps.known.insert(path.clone(), (stamp, digest));
        stamps.changed = true;
        let key = Stamps::key(&store, &path).unwrap();
        stamps.save(&store, &key, &folders);

        let mut again = Stamps::load(&store, &key, &folders);
        assert_eq!(again.digest(&path), Some(digest));
        assert_eq!(again.read, 0);
        fs::write(&path, "x = 2").unwrap();
        assert_eq!(again.digest(&path), Some(text_digest(b"x = 2")));
        assert_eq!(again.read, 1);
    }

    fn place(path: &str) -> Place {
        Place { folder: 0, path: path.into() }
    }

    /// A state is what the files hold, and which paths have none.
    #[test]
    fn a_state_is_contents_and_absence() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Config::default().dir(dir.path().join("cache")));
        let paths = Paths { read: vec![place("a.py"), place("b.py")], absent: vec![place("c.py")] };
        let environment = text_digest(b"environment");
        let entry = entry_key(&store, "a.py", &text_digest(b"1"));
        let key = |paths: &Paths, entry: &Key, files: &[(&str, &str)]| {
            let mut digest = |place: &Place| {
                let file = files.iter().find(|(name, _)| *name == place.path)?;
                Some(text_digest(file.1.as_bytes()))
            };
            state_key(&store, &environment, entry, paths, &mut digest)
        };
        let base = key(&paths, &entry, &[("a.py", "1"), ("b.py", "2")]);
        assert!(base.is_some());
        assert_eq!(base, key(&paths, &entry, &[("b.py", "2"), ("a.py", "1")]));
        assert_ne!(base, key(&paths, &entry, &[("a.py", "1"), ("b.py", "3")]));
        assert_eq!(None, key(&paths, &entry, &[("a.py", "1")]));
        assert_eq!(None, key(&paths, &entry, &[("a.py", "1"), ("b.py", "2"), ("c.py", "")]));
        let other = entry_key(&store, "b.py", &text_digest(b"1"));
        assert_ne!(base, key(&paths, &other, &[("a.py", "1"), ("b.py", "2")]));
        let fewer = Paths { absent: vec![], ..paths.clone() };
        assert_ne!(base, key(&fewer, &entry, &[("a.py", "1"), ("b.py", "2")]));
        let renamed = Paths { read: vec![place("a.py"), place("d.py")], ..paths };
        assert_ne!(base, key(&renamed, &entry, &[("a.py", "1"), ("d.py", "2")]));
    }

    /// Lists of paths are kept newest first, each once, and not without bound.
    #[test]
    fn lists_of_paths_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Config::default().dir(dir.path().join("cache")));
        let entry = entry_key(&store, "a.py", &text_digest(b"1"));
        let list = |n: usize| Paths { read: vec![place(&format!("{n}.py"))], absent: vec![] };
        for n in 0..MAX_LISTS + 3 {
            remember(&store, &entry, lists(&store, &entry), &list(n));
        }
        remember(&store, &entry, lists(&store, &entry), &list(10));
        let all = lists(&store, &entry);
        assert_eq!((all.len(), &all[0]), (MAX_LISTS, &list(10)));
        assert_eq!(all.iter().filter(|paths| **paths == list(10)).count(), 1);
    }

    #[test]
    fn places_are_told_from_the_folders_of_the_search_path() {
        let folders = [PathBuf::from("/p"), PathBuf::from("/v")];
        for (path, folder, rest) in
            [("/p/a/b.py", 0, "a/b.py"), ("/v/c.py", 1, "c.py"), ("/w/d.py", 2, "/w/d.py")]
        {
            let place = Place::of(Path::new(path), &folders);
            assert_eq!((place.folder, place.path.as_str()), (folder, rest));
            assert_eq!(place.path(&folders), Path::new(path));
        }
    }
}
