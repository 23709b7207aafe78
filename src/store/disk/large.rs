//! One file per record: the backend that needs nothing of a file system but an atomic rename. It keeps
//! what is too large for shards, and everything where shards cannot be mapped.
//!
//! ```text
//!   v1-x86_64-le64/   big/ab/cdef…        artifacts: the key's 64 digits, cut after two
//!                     note/ab/cdef…       notes
//!                     big/ab/tmp-…        a record being written, nobody's but its writer's
//!                     gc.lock             eternal
//!
//!   put:  write tmp ──► rename, unless the name is taken ──► published
//!   get:  open ──► stat: one name, ours, a record's size ──► read ──► verify ──► hit
//! ```
//!
//! A published file is never written to, cut or reused; it is replaced by rename and reclaimed by unlink,
//! so whoever has it open goes on reading what was published. A reader trusts the bytes it read into its
//! own memory, after verifying them there, and nothing else. Everything that can go wrong is a miss, or a
//! record that is not published, with a [`Reason`] that was counted here.

use std::fmt;
use std::io;

use super::fs::{Access, FileKind, Fs, FsClass, Stat};
use super::lock::{self, LockFile};
use super::reason::Reason;
use super::record::{self, HEADER, Kind, Layout, MAX_RECORD};
use super::root::Root;
use super::trust::Opened;
use crate::key::Key;
use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering};

/// Recency is kept to the hour, in a file's modification time.
const RECENCY_S: u64 = 3600;
/// A temporary file of this age belongs to nobody any more.
const ORPHAN_S: u64 = 3600;
/// How long writing is left alone after an error that would come again.
const BACK_OFF_S: u64 = 60;
/// Cleaning up is considered every time this fraction of the limit was written, on average.
const CHECKS_PER_LIMIT: u64 = 32;
/// A file read at once, without looking at its header first.
const SMALL: usize = 64 << 10;

/// A verified record.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) bytes: Vec<u8>,
    pub(crate) layout: Layout,
}

/// What became of a look-up.
#[derive(Debug)]
pub(crate) enum Lookup {
    Hit(Found),
    /// Counted already, unless it is [`Reason::Absent`].
    Miss(Reason),
}

/// When a record takes the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    /// Only of one that is damaged: the first publisher wins.
    Damaged,
    /// Of any.
    Always,
}

/// What became of a record that was to be published.
#[derive(Debug)]
pub(crate) enum Put {
    New,
    /// Another was there first, and is the one to use.
    Existing(Found),
}

/// Why something was not done. It was counted already.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) doing: &'static str,
    pub(crate) source: Option<io::Error>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.reason.name())?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, " ({source})"))
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// A file that has a record's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) kind: Kind,
    /// The file's length in bytes.
    pub(crate) length: u64,
    /// The bytes that it occupies.
    pub(crate) allocated: u64,
    /// When it was made or last used, to the hour, in seconds since 1970.
    pub(crate) used_s: u64,
}

/// A number of files and the bytes that they occupy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    fn add(&mut self, stat: &Stat) {
        self.files += 1;
        self.bytes += stat.allocated;
    }
}

/// What lies in the directory, or was removed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) artifacts: Amount,
    pub(crate) notes: Amount,
    pub(crate) temporary: Amount,
}

impl Usage {
    fn of(&mut self, kind: Kind) -> &mut Amount {
        match kind {
            Kind::Artifact => &mut self.artifacts,
            Kind::Note => &mut self.notes,
        }
    }

    /// The bytes of everything.
    pub(crate) fn bytes(&self) -> u64 {
        self.artifacts.bytes + self.notes.bytes + self.temporary.bytes
    }
}

/// The backend.
#[derive(Debug)]
pub(crate) struct Large<F: Fs> {
    root: Arc<Root<F>>,
    max_size: u64,
    cleaning: LockFile<F>,
    /// The process, a thread of which is cleaning up; 0 if none is. A forked child finds its parent's here,
    /// which binds it to nothing.
    cleaner: AtomicU32,
    /// The second, since 1970, in which a write failed for a lasting reason; 0 if none did.
    failed_s: AtomicU64,
}

impl<F: Fs> Large<F> {
    /// The records in `root`, kept near `max_size` bytes.
    pub(crate) fn new(root: Arc<Root<F>>, max_size: u64) -> Self {
        let cleaning = LockFile::new(root.clone(), lock::CLEANING);
        let (cleaner, failed_s) = (AtomicU32::new(0), AtomicU64::new(0));
        Large { root, max_size, cleaning, cleaner, failed_s }
    }

    /// The artifact of `key`.
    pub(crate) fn get(&self, key: &Key) -> Lookup {
        self.look_up(key, Kind::Artifact)
    }

    /// The note of `key`.
    pub(crate) fn note(&self, key: &Key) -> Lookup {
        self.look_up(key, Kind::Note)
    }

    /// Whether there is a file for the artifact of `key`; whether it is whole, only [`get`](Self::get) tells.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        let name = Name::new(Kind::Artifact, key);
        let exists = |held: &Opened<F::Handle>| {
            let Some(space) = &held.space else { return false };
            let file = self.fs().open(space, name.path(), Access::Read);
            file.and_then(|file| self.fs().stat(&file)).is_ok_and(|stat| self.judge(&stat).is_ok())
        };
        let held = self.root.held();
        exists(&held) || self.root.moved_on(&held).is_some_and(|held| exists(&held))
    }

    /// Publishes `record`, which [`record::encode`] made for this key as an artifact.
    pub(crate) fn put(&self, key: &Key, record: &[u8], replace: Replace) -> Result<Put, Failure> {
        self.publish(key, Kind::Artifact, record, replace)
    }

    /// Publishes `record`, which [`record::encode`] made for this key as a note, in place of what was there.
    pub(crate) fn set_note(&self, key: &Key, record: &[u8]) -> Result<(), Failure> {
        self.publish(key, Kind::Note, record, Replace::Always).map(drop)
    }

    /// Removes an entry; says whether there was one.
    pub(crate) fn remove(&self, key: &Key, kind: Kind) -> Result<bool, Failure> {
        let current = self.writable()?;
        let Some(space) = &current.space else { return Ok(false) };
        let name = Name::new(kind, key);
        let removed = self
            .fs()
            .open_dir(space, name.folder())
            .and_then(|dir| self.fs().unlink(&dir, name.file()));
        match removed {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failure(error, "removing a record")),
        }
    }

    /// Calls `visit` for each file that has a record's name. What vanishes meanwhile is left out; what comes
    /// may be.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Entry)) {
        self.scan(|_, item| {
            if let Item::Record { key, kind, stat } = item {
                visit(Entry {
                    key,
                    kind,
                    length: stat.length,
                    allocated: stat.allocated,
                    used_s: modified_s(&stat),
                });
            }
        });
    }

    /// What lies in the directory.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.scan(|_, item| match item {
            Item::Record { kind, stat, .. } => usage.of(kind).add(&stat),
            Item::Temporary { stat } => usage.temporary.add(&stat),
        });
        usage
    }

    /// Removes every entry that was there when this began, and orphaned temporary files; says what it
    /// removed. Others may go on working: folders and lock files stay, and so do records being written.
    pub(crate) fn clear(&self) -> Result<Usage, Failure> {
        self.writable()?;
        let mut removed = Usage::default();
        let now = self.fs().unix_seconds();
        self.scan(|place, item| match item {
            Item::Record { kind, stat, .. } => {
                if self.unlink(&place) {
                    removed.of(kind).add(&stat);
                }
            }
            Item::Temporary { stat } => {
                if is_orphan(&stat, now) && self.unlink(&place) {
                    removed.temporary.add(&stat);
                }
            }
        });
        Ok(removed)
    }

    /// Removes orphaned temporary files and, if everything together is over the limit, the entries that were
    /// used least recently, down to nine tenths of it. Says what it removed: nothing if another thread or
    /// process is at it.
    pub(crate) fn clean(&self) -> Usage {
        let process = self.fs().process();
        if self.cleaner.swap(process, Ordering::Acquire) == process {
            return Usage::default();
        }
        let lock = match self.root.held().class {
            // Locks of network file systems may wait where they should not. This one only saves work: two
            // who clean up at once disturb nobody.
            FsClass::Foreign => Ok(None),
            _ => match self.cleaning.try_lock() {
                Ok(Some(guard)) => Ok(Some(guard)),
                Ok(None) => Err(None),
                Err(error) if Reason::of(&error) == Reason::NoLocks => Ok(None),
                Err(error) => Err(Some(error)),
            },
        };
        let removed = match lock {
            Ok(_guard) => self.clean_locked(),
            Err(error) => {
                error.map(|error| self.failure(error, "locking for a clean-up"));
                Usage::default()
            }
        };
        self.cleaner.store(0, Ordering::Release);
        removed
    }

    fn clean_locked(&self) -> Usage {
        let now = self.fs().unix_seconds();
        let (mut removed, mut kept) = (Usage::default(), 0);
        let mut entries = Vec::new();
        self.scan(|place, item| match item {
            Item::Record { key, kind, stat } => {
                kept += stat.allocated;
                entries.push((stat.modified_ns, stat.allocated, key, kind));
            }
            Item::Temporary { stat } if is_orphan(&stat, now) => {
                if self.unlink(&place) {
                    removed.temporary.add(&stat);
                }
            }
            Item::Temporary { stat } => kept += stat.allocated,
        });
        if kept <= self.max_size {
            return removed;
        }
        let goal = self.max_size / 10 * 9;
        entries.sort_unstable_by_key(|&(modified, _, key, _)| (modified, key));
        let held = self.root.held();
        let Some(space) = &held.space else { return removed };
        for (modified, allocated, key, kind) in entries {
            if kept <= goal {
                break;
            }
            let name = Name::new(kind, &key);
            let Ok(dir) = self.fs().open_dir(space, name.folder()) else { continue };
            let place = Place { dir: &dir, name: name.file() };
            // Looked at again, as it may have been used or replaced since the scan.
            match self.fs().stat_at(place.dir, place.name) {
                Ok(stat) if stat.modified_ns == modified => {
                    if self.unlink(&place) {
                        removed.of(kind).add(&stat);
                        kept -= allocated;
                    }
                }
                Ok(_) => {}
                Err(_) => kept -= allocated,
            }
        }
        removed
    }

    fn fs(&self) -> &F {
        self.root.fs()
    }

    fn failure(&self, error: io::Error, doing: &'static str) -> Failure {
        let reason = self.root.failed(Reason::of(&error), doing);
        Failure { reason, doing, source: Some(error) }
    }

    fn refusal(&self, reason: Reason, doing: &'static str) -> Failure {
        self.root.failed(reason, doing);
        Failure { reason, doing, source: None }
    }

    /// The directory at the path, if it may be written.
    fn writable(&self) -> Result<Arc<Opened<F::Handle>>, Failure> {
        const DOING: &str = "opening the directory for writing";
        let current = self.root.current().map_err(|refusal| Failure {
            reason: refusal.cause.reason(),
            doing: DOING,
            source: Some(io::Error::other(refusal)),
        })?;
        if !current.writable {
            return Err(self.refusal(Reason::NotWritable, DOING));
        }
        Ok(current)
    }

    fn look_up(&self, key: &Key, kind: Kind) -> Lookup {
        let name = Name::new(kind, key);
        let mut held = self.root.held();
        let mut found = self.read(&held, &name, key, kind);
        if matches!(found, Err(Reason::Absent | Reason::Stale))
            && let Some(new) = self.root.moved_on(&held)
        {
            held = new;
            found = self.read(&held, &name, key, kind);
        }
        match found {
            Ok(found) => Lookup::Hit(found),
            Err(Reason::Absent) => Lookup::Miss(Reason::Absent),
            Err(reason) => Lookup::Miss(self.root.failed(reason, "reading a record")),
        }
    }

    /// Reads and verifies the record of this name. A damaged one is removed.
    fn read(
        &self,
        held: &Opened<F::Handle>,
        name: &Name,
        key: &Key,
        kind: Kind,
    ) -> Result<Found, Reason> {
        let fs = self.fs();
        let space = held.space.as_ref().ok_or(Reason::Absent)?;
        let file = fs.open(space, name.path(), Access::Read).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                Reason::Absent
            } else {
                Reason::of(&error)
            }
        })?;
        let stat = fs.stat(&file).map_err(|error| Reason::of(&error))?;
        self.judge(&stat)?;
        let found = self.read_file(&file, stat.length as usize, key, kind);
        match &found {
            Ok(_) => self.mark_used(held, &file, &stat),
            Err(reason) if reason.is_damage() && held.writable => {
                // `file` is open until after this, so its inode cannot have become another's. Who replaced
                // it within these two calls loses one record, which costs a compile.
                if let Ok(dir) = fs.open_dir(space, name.folder())
                    && fs
                        .stat_at(&dir, name.file())
                        .is_ok_and(|now| now.identity() == stat.identity())
                {
                    self.unlink(&Place { dir: &dir, name: name.file() });
                }
            }
            Err(_) => {}
        }
        found
    }

    /// Whether a file may be read as a record. A name that was just removed leaves a file with no link,
    /// which is as good as it was.
    fn judge(&self, stat: &Stat) -> Result<(), Reason> {
        match stat {
            Stat { kind: FileKind::Symlink, .. } => Err(Reason::Symlink),
            Stat { kind: FileKind::Directory | FileKind::Other, .. } => Err(Reason::NotAFile),
            Stat { owner, .. } if !self.root.purpose().accepts_owner(*owner, self.fs().user()) => {
                Err(Reason::Owner)
            }
            Stat { .. } if stat.shared_for_writing() => Err(Reason::Mode),
            Stat { links: 2.., .. } => Err(Reason::HardLinked),
            Stat { length, .. } if *length > MAX_RECORD as u64 => Err(Reason::TooLong),
            Stat { .. } => Ok(()),
        }
    }

    /// Reads and verifies a file of this length, which must be a record and no more. No more memory is
    /// taken than the header, if it is the key's, says.
    fn read_file(
        &self,
        file: &F::Handle,
        length: usize,
        key: &Key,
        kind: Kind,
    ) -> Result<Found, Reason> {
        let read = |buffer: &mut [u8]| match self.fs().read_at(file, buffer, 0) {
            Ok(n) if n == buffer.len() => Ok(()),
            Ok(_) => Err(Reason::Truncated),
            Err(error) => Err(Reason::of(&error)),
        };
        if length > SMALL {
            let mut header = [0; HEADER];
            read(&mut header)?;
            if record::announced_length(&header, key, kind)? != length {
                return Err(Reason::Length);
            }
        }
        let mut bytes = vec![0; length];
        read(&mut bytes)?;
        let layout = record::parse(&bytes, key, kind)?;
        if layout.total != length {
            return Err(Reason::Length);
        }
        Ok(Found { bytes, layout })
    }

    fn mark_used(&self, held: &Opened<F::Handle>, file: &F::Handle, stat: &Stat) {
        let now = self.fs().unix_seconds();
        if held.writable
            && now.abs_diff(modified_s(stat)) >= RECENCY_S
            && let Err(error) = self.fs().touch(file)
        {
            self.failure(error, "marking a record as used");
        }
    }

    fn publish(
        &self,
        key: &Key,
        kind: Kind,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Failure> {
        debug_assert!(record::parse(record, key, kind).is_ok_and(|l| l.total == record.len()));
        const DOING: &str = "publishing a record";
        let failed_s = self.failed_s.load(Ordering::Relaxed);
        // A clock that was set back must not make the minute longer.
        if failed_s != 0 && self.fs().unix_seconds().abs_diff(failed_s) < BACK_OFF_S {
            return Err(self.refusal(Reason::BackingOff, DOING));
        }
        let name = Name::new(kind, key);
        let mut tries = 0;
        let done = loop {
            let current = self.writable()?;
            match self.try_publish(&current, &name, key, kind, record, replace) {
                // A hand removed the directory in between.
                Err(Unpublished::Io(error))
                    if error.kind() == io::ErrorKind::NotFound && tries < 3 =>
                {
                    tries += 1;
                }
                done => break done,
            }
        };
        let failure = match done {
            Ok(put) => {
                self.failed_s.store(0, Ordering::Relaxed);
                if matches!(put, Put::New) {
                    self.consider_cleaning(record.len() as u64);
                }
                return Ok(put);
            }
            Err(Unpublished::Io(error)) => self.failure(error, DOING),
            Err(Unpublished::Reason(reason)) => self.refusal(reason, DOING),
        };
        if failure.reason.is_lasting() {
            self.failed_s.store(self.fs().unix_seconds().max(1), Ordering::Relaxed);
        }
        Err(failure)
    }

    fn try_publish(
        &self,
        held: &Opened<F::Handle>,
        name: &Name,
        key: &Key,
        kind: Kind,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Unpublished> {
        let fs = self.fs();
        let space = held.space.as_ref().ok_or(Unpublished::Reason(Reason::NotWritable))?;
        let dir = self.folder(space, name)?;
        let temporary = format!("{TEMPORARY}{:032x}", u128::from_le_bytes(fs.random()));
        let file = fs.open(&dir, &temporary, Access::CreateNew)?;
        let published = fs.write_all_at(&file, record, 0).map_err(Unpublished::Io).and_then(|()| {
            if replace == Replace::Always {
                fs.rename(&dir, &temporary, &dir, name.file())?;
                return Ok(Put::New);
            }
            for _ in 0..3 {
                match fs.rename_new(&dir, &temporary, &dir, name.file()) {
                    Ok(()) => return Ok(Put::New),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error.into()),
                }
                match self.read(held, name, key, kind) {
                    Ok(found) => return Ok(Put::Existing(found)),
                    Err(Reason::Newer) => return Err(Unpublished::Reason(Reason::Newer)),
                    Err(Reason::Absent) => {}
                    // Reading removed it.
                    Err(reason) if reason.is_damage() => self.count_existing(reason),
                    Err(reason) => {
                        self.count_existing(reason);
                        break;
                    }
                }
            }
            // What is there cannot be removed, or not be trusted. If another publisher replaced it this
            // moment, theirs was as good as ours.
            fs.rename(&dir, &temporary, &dir, name.file())?;
            Ok(Put::New)
        });
        if !matches!(published, Ok(Put::New)) {
            // It is an orphan then, swept with the others.
            let _ = fs.unlink(&dir, &temporary);
        }
        published
    }

    fn count_existing(&self, reason: Reason) {
        self.root.failed(reason, "reading a record that is to be replaced");
    }

    /// The folder of a record, made if it is missing.
    fn folder(&self, space: &F::Handle, name: &Name) -> Result<F::Handle, Unpublished> {
        let fs = self.fs();
        let folder = match fs.open_dir(space, name.folder()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let tree = self.ensure_dir(space, name.tree())?;
                self.ensure_dir(&tree, name.fan_out())?
            }
            folder => folder?,
        };
        self.judge_dir(&folder)?;
        Ok(folder)
    }

    fn ensure_dir(&self, at: &F::Handle, name: &str) -> Result<F::Handle, Unpublished> {
        match self.fs().make_dir(at, name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => {
                let dir = self.fs().open_dir(at, name)?;
                self.judge_dir(&dir)?;
                Ok(dir)
            }
        }
    }

    fn judge_dir(&self, dir: &F::Handle) -> Result<(), Unpublished> {
        let stat = self.fs().stat(dir)?;
        if stat.owner != self.fs().user() {
            return Err(Unpublished::Reason(Reason::Owner));
        }
        if stat.shared_for_writing() {
            return Err(Unpublished::Reason(Reason::Mode));
        }
        Ok(())
    }

    /// Cleans up now and then: after a put of n bytes with the probability n / (limit / 32). All processes
    /// together so check about once per 32nd of the limit written, without keeping count anywhere.
    fn consider_cleaning(&self, written: u64) {
        let step = (self.max_size / CHECKS_PER_LIMIT).max(1);
        let mut word = [0; 8];
        word.copy_from_slice(&self.fs().random()[..8]);
        let uniform = (u128::from(u64::from_le_bytes(word)) * u128::from(step)) >> 64;
        if uniform < u128::from(written.next_multiple_of(4096)) {
            self.clean();
        }
    }

    /// Unlinks a file; says whether it was this call that did.
    fn unlink(&self, place: &Place<'_, F::Handle>) -> bool {
        match self.fs().unlink(place.dir, place.name) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.failure(error, "removing a file");
                }
                false
            }
        }
    }

    /// Visits every file that is ours. Stray ones are left out, and alone.
    fn scan(&self, mut visit: impl FnMut(Place<'_, F::Handle>, Item)) {
        let fs = self.fs();
        let held = self.root.held();
        let held = self.root.moved_on(&held).unwrap_or(held);
        let Some(space) = &held.space else { return };
        for kind in Kind::ALL {
            let tree = match fs.open_dir(space, tree(kind)) {
                Ok(tree) => tree,
                Err(error) => {
                    self.unless_gone(error);
                    continue;
                }
            };
            for fan_out in self.list(&tree) {
                if fan_out.len() != 2 || !is_hex(&fan_out) {
                    continue;
                }
                let dir = match fs.open_dir(&tree, &fan_out) {
                    Ok(dir) => dir,
                    Err(error) => {
                        self.unless_gone(error);
                        continue;
                    }
                };
                for name in self.list(&dir) {
                    let place = Place { dir: &dir, name: &name };
                    let key = record_key(&fan_out, &name);
                    if key.is_none() && !name.starts_with(TEMPORARY) {
                        continue;
                    }
                    match fs.stat_at(&dir, &name) {
                        Ok(stat) if stat.kind == FileKind::File => {
                            let item = match key {
                                Some(key) => Item::Record { key, kind, stat },
                                None => Item::Temporary { stat },
                            };
                            visit(place, item);
                        }
                        Ok(_) => {}
                        Err(error) => self.unless_gone(error),
                    }
                }
            }
        }
    }

    fn list(&self, dir: &F::Handle) -> Vec<String> {
        self.fs().list(dir).unwrap_or_else(|error| {
            self.unless_gone(error);
            Vec::new()
        })
    }

    fn unless_gone(&self, error: io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.failure(error, "listing records");
        }
    }
}

enum Unpublished {
    Io(io::Error),
    Reason(Reason),
}

impl From<io::Error> for Unpublished {
    fn from(error: io::Error) -> Self {
        Unpublished::Io(error)
    }
}

/// What a scan meets.
enum Item {
    Record { key: Key, kind: Kind, stat: Stat },
    Temporary { stat: Stat },
}

struct Place<'a, H> {
    dir: &'a H,
    name: &'a str,
}

const TEMPORARY: &str = "tmp-";

const fn tree(kind: Kind) -> &'static str {
    match kind {
        Kind::Artifact => "big",
        Kind::Note => "note",
    }
}

/// `big/ab/cdef…`: the path of a record from the space, and its parts.
struct Name {
    kind: Kind,
    text: [u8; Name::LONGEST],
}

impl Name {
    const LONGEST: usize = "note/".len() + 65;

    fn new(kind: Kind, key: &Key) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'/'; Self::LONGEST];
        let tree = tree(kind);
        text[..tree.len()].copy_from_slice(tree.as_bytes());
        let mut at = tree.len() + 1;
        for (i, byte) in key.as_bytes().iter().enumerate() {
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
            at += if i == 0 { 3 } else { 2 };
        }
        Name { kind, text }
    }

    /// All of it.
    fn path(&self) -> &str {
        self.part(0, self.tree().len() + 66)
    }

    /// `big/ab`.
    fn folder(&self) -> &str {
        self.part(0, self.tree().len() + 3)
    }

    fn tree(&self) -> &'static str {
        tree(self.kind)
    }

    /// `ab`.
    fn fan_out(&self) -> &str {
        self.part(self.tree().len() + 1, self.tree().len() + 3)
    }

    /// `cdef…`.
    fn file(&self) -> &str {
        self.part(self.tree().len() + 4, self.tree().len() + 66)
    }

    fn part(&self, from: usize, to: usize) -> &str {
        std::str::from_utf8(&self.text[from..to]).expect("ASCII")
    }
}

/// The key of a file in this folder, if its name is a record's.
fn record_key(fan_out: &str, name: &str) -> Option<Key> {
    (name.len() == 62 && is_hex(name)).then(|| format!("{fan_out}{name}").parse().ok())?
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

fn modified_s(stat: &Stat) -> u64 {
    u64::try_from(stat.modified_ns / 1_000_000_000).unwrap_or(0)
}

fn is_orphan(stat: &Stat, now: u64) -> bool {
    now.saturating_sub(modified_s(stat)) > ORPHAN_S
}
