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

mod name;
pub(crate) mod sweep;

use std::fmt;
use std::io;

use super::fs::{Access, FileKind, Fs, Stat};
use super::lock::{self, LockFile};
use super::reason::Reason;
use super::record::{self, HEADER, Kind, Layout, MAX_RECORD};
use super::root::Root;
use super::trust::Opened;
use crate::key::Key;
use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering};

use name::{Name, TEMPORARY};

/// Recency is kept to the hour, in a file's modification time.
const RECENCY_S: u64 = 3600;
/// How long writing is left alone after an error that would come again.
const BACK_OFF_S: u64 = 60;
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
        self.look_up(&Name::new(Kind::Artifact, key))
    }

    /// The note of `key`.
    pub(crate) fn note(&self, key: &Key) -> Lookup {
        self.look_up(&Name::new(Kind::Note, key))
    }

    /// Whether there is a file for the artifact of `key`; whether it is whole, only [`get`](Self::get) tells.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        let name = Name::new(Kind::Artifact, key);
        let exists = |held: &Opened<F::Handle>| {
            let Some(space) = &held.space else { return false };
            let file = self.fs().open(space, name.path(), Access::Read);
            file.and_then(|file| self.fs().stat(&file))
                .is_ok_and(|stat| self.judge(held, &stat).is_ok())
        };
        let held = self.root.held();
        exists(&held) || self.root.moved_on(&held).is_some_and(|held| exists(&held))
    }

    /// Publishes `record`, which [`record::encode`] made for this key as an artifact.
    pub(crate) fn put(&self, key: &Key, record: &[u8], replace: Replace) -> Result<Put, Failure> {
        self.publish(&Name::new(Kind::Artifact, key), record, replace)
    }

    /// Publishes `record`, which [`record::encode`] made for this key as a note, in place of what was there.
    pub(crate) fn set_note(&self, key: &Key, record: &[u8]) -> Result<(), Failure> {
        self.publish(&Name::new(Kind::Note, key), record, Replace::Always).map(drop)
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

    fn look_up(&self, name: &Name) -> Lookup {
        self.look_up_by(|held| self.read(held, name))
    }

    /// As [`look_up`](Self::look_up), where it is no use.
    fn look_at(&self, name: &Name) -> Lookup {
        self.look_up_by(|held| self.examine(held, name).map(|(found, ..)| found))
    }

    fn look_up_by(&self, read: impl Fn(&Opened<F::Handle>) -> Result<Found, Reason>) -> Lookup {
        let held = self.root.held();
        let mut found = read(&held);
        if matches!(found, Err(Reason::Absent | Reason::Stale))
            && let Some(held) = self.root.moved_on(&held)
        {
            found = read(&held);
        }
        match found {
            Ok(found) => Lookup::Hit(found),
            Err(Reason::Absent) => Lookup::Miss(Reason::Absent),
            Err(reason) => Lookup::Miss(self.root.failed(reason, "reading a record")),
        }
    }

    /// Reads and verifies the record of this name. A damaged one stays until it is replaced: to remove it by
    /// its name would remove what another process replaces it with at that moment.
    fn read(&self, held: &Opened<F::Handle>, name: &Name) -> Result<Found, Reason> {
        let (found, file, stat) = self.examine(held, name)?;
        self.mark_used(held, &file, &stat);
        Ok(found)
    }

    /// As [`read`](Self::read), where it is no use.
    fn examine(
        &self,
        held: &Opened<F::Handle>,
        name: &Name,
    ) -> Result<(Found, F::Handle, Stat), Reason> {
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
        self.judge(held, &stat)?;
        let found = self.read_file(&file, stat.length as usize, name)?;
        Ok((found, file, stat))
    }

    /// Whether a file may be read as a record. A name that was just removed leaves a file with no link,
    /// which is as good as it was.
    fn judge(&self, held: &Opened<F::Handle>, stat: &Stat) -> Result<(), Reason> {
        if stat.kind != FileKind::File {
            return Err(Reason::NotAFile);
        }
        if !self.root.purpose().accepts_owner(stat.owner, held.user) {
            return Err(Reason::Owner);
        }
        if stat.shared_for_writing() {
            return Err(Reason::Mode);
        }
        if stat.links > 1 {
            return Err(Reason::HardLinked);
        }
        if stat.length > MAX_RECORD as u64 {
            return Err(Reason::TooLong);
        }
        Ok(())
    }

    /// Reads and verifies a file of this length, which must be a record and no more. No more memory is
    /// taken than the header, if it is the key's, says.
    fn read_file(&self, file: &F::Handle, length: usize, name: &Name) -> Result<Found, Reason> {
        let (key, kind) = (&name.key, name.kind);
        let read = |length| match self.fs().read_new(file, length, 0) {
            Ok(bytes) if bytes.len() == length => Ok(bytes),
            Ok(_) => Err(Reason::Truncated),
            Err(error) => Err(Reason::of(&error)),
        };
        if length > SMALL && record::announced_length(&read(HEADER)?, key, kind)? != length {
            return Err(Reason::Length);
        }
        let bytes = read(length)?;
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

    fn publish(&self, name: &Name, record: &[u8], replace: Replace) -> Result<Put, Failure> {
        const DOING: &str = "publishing a record";
        debug_assert!(
            record::parse(record, &name.key, name.kind).is_ok_and(|l| l.total == record.len())
        );
        let failed_s = self.failed_s.load(Ordering::Relaxed);
        // A clock that was set back must not make the minute longer.
        if failed_s != 0 && self.fs().unix_seconds().abs_diff(failed_s) < BACK_OFF_S {
            return Err(self.refusal(Reason::BackingOff, DOING));
        }
        let mut tries = 0;
        let failure = loop {
            match self.try_publish(&*self.writable()?, name, record, replace) {
                Ok(put) => {
                    if matches!(put, Put::New) {
                        self.consider_cleaning(record.len() as u64);
                    }
                    return Ok(put);
                }
                // A hand removed the directory in between.
                Err(Unpublished::Io(error))
                    if error.kind() == io::ErrorKind::NotFound && tries < 3 =>
                {
                    tries += 1;
                }
                Err(Unpublished::Io(error)) => break self.failure(error, DOING),
                Err(Unpublished::Reason(reason)) => break self.refusal(reason, DOING),
            }
        };
        if matches!(failure.reason, Reason::NoSpace | Reason::Quota) {
            self.clean();
        }
        if failure.reason.is_lasting() {
            self.failed_s.store(self.fs().unix_seconds().max(1), Ordering::Relaxed);
        }
        Err(failure)
    }

    fn try_publish(
        &self,
        held: &Opened<F::Handle>,
        name: &Name,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Unpublished> {
        let fs = self.fs();
        let space = held.space.as_ref().ok_or(Unpublished::Reason(Reason::NotWritable))?;
        let dir = self.folder(held, space, name)?;
        let temporary = format!("{TEMPORARY}{:032x}", u128::from_le_bytes(fs.random()));
        let done = fs
            .open(&dir, &temporary, Access::CreateNew)
            .and_then(|file| fs.write_all_at(&file, record, 0))
            .map_err(Unpublished::Io)
            .and_then(|()| self.give_name(held, &dir, &temporary, name, replace));
        if !matches!(done, Ok(Put::New)) {
            // If this fails too it is an orphan, swept with the others.
            let _ = fs.unlink(&dir, &temporary);
        }
        done
    }

    /// Makes a complete temporary file the record of this name, if that is free or may be replaced.
    fn give_name(
        &self,
        held: &Opened<F::Handle>,
        dir: &F::Handle,
        temporary: &str,
        name: &Name,
        replace: Replace,
    ) -> Result<Put, Unpublished> {
        let fs = self.fs();
        let tries = if replace == Replace::Always { 0 } else { 3 };
        for _ in 0..tries {
            match fs.rename_new(dir, temporary, dir, name.file()) {
                Ok(()) => return Ok(Put::New),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
            match self.read(held, name) {
                Ok(found) => return Ok(Put::Existing(found)),
                Err(Reason::Newer) => return Err(Unpublished::Reason(Reason::Newer)),
                Err(Reason::Absent) => {}
                Err(reason) => {
                    self.root.failed(reason, "reading a record that is to be replaced");
                    break;
                }
            }
        }
        // What is there is damaged, or not to be trusted. If another publisher replaced it this moment,
        // theirs was as good as ours.
        fs.rename(dir, temporary, dir, name.file())?;
        Ok(Put::New)
    }

    /// The folder of a record, made if it is missing.
    fn folder(
        &self,
        held: &Opened<F::Handle>,
        space: &F::Handle,
        name: &Name,
    ) -> Result<F::Handle, Unpublished> {
        match self.fs().open_dir(space, name.folder()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let tree = self.ensure_dir(held, space, name.tree())?;
                self.ensure_dir(held, &tree, name.fan_out())
            }
            folder => self.judge_dir(held, folder?),
        }
    }

    fn ensure_dir(
        &self,
        held: &Opened<F::Handle>,
        at: &F::Handle,
        name: &str,
    ) -> Result<F::Handle, Unpublished> {
        match self.fs().make_dir(at, name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => self.judge_dir(held, self.fs().open_dir(at, name)?),
        }
    }

    /// A directory that a record may be put into.
    fn judge_dir(
        &self,
        held: &Opened<F::Handle>,
        dir: F::Handle,
    ) -> Result<F::Handle, Unpublished> {
        let stat = self.fs().stat(&dir)?;
        if stat.owner != held.user {
            return Err(Unpublished::Reason(Reason::Owner));
        }
        if stat.shared_for_writing() {
            return Err(Unpublished::Reason(Reason::Mode));
        }
        Ok(dir)
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

struct Place<'a, H> {
    dir: &'a H,
    name: &'a str,
}

fn modified_s(stat: &Stat) -> u64 {
    u64::try_from(stat.modified_ns / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests;
