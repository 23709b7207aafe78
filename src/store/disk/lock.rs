//! Advisory locks on eternal files: made once, never written, renamed or unlinked by anyone here.
//!
//! A lock on a file that can be replaced excludes nobody: two processes may each hold "the" lock, on two
//! files that had the name one after the other. Ours never are replaced, but a user may remove the whole
//! directory. So after every acquisition the file that was locked is compared with the one that has the
//! name now, by (device, inode), and if they differ all begins again with that one.
//!
//! ```text
//!   open (kept) ──► try lock ──► same file as by name? ──► Guard
//!        ▲                            │ no
//!        └──── forget, open anew ◄────┘
//! ```
//!
//! The locks belong to the open file, which a forked child shares with its parent: if the child released
//! one, the parent would lose it. Handle and guard therefore remember the process they were made in. A
//! child opens a file of its own, and a guard that it inherited does nothing when dropped.
//!
//! Threads of one process share the open file too, so these locks do not exclude them from each other:
//! the callers do, before they come here.

use std::borrow::Cow;
use std::io;

use super::fs::{Access, FileKind, Fs};
use super::reason::Reason;
use super::root::Root;
use crate::sync::{Arc, Mutex};

/// The file whose bytes are the compile locks of keys.
pub(crate) const FLIGHT: &str = "flight.lock";
/// The file that whoever cleans up locks.
pub(crate) const CLEANING: &str = "gc.lock";

/// An eternal lock file of the cache directory.
#[derive(Debug)]
pub(crate) struct LockFile<F: Fs> {
    root: Arc<Root<F>>,
    name: Cow<'static, str>,
    /// Locked to take or replace the handle only, as in [`Root`].
    open: Mutex<Option<Arc<Open<F::Handle>>>>,
}

#[derive(Debug)]
struct Open<H> {
    file: H,
    identity: (u64, u64),
    process: u32,
}

/// A lock that is held until this is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Guard<F: Fs> {
    root: Arc<Root<F>>,
    open: Arc<Open<F::Handle>>,
    what: Range,
}

#[derive(Clone, Copy, Debug)]
enum Range {
    File,
    Byte(u64),
}

impl<F: Fs> LockFile<F> {
    /// The lock file of this name; opened, and made, when it is first needed.
    pub(crate) fn new(root: Arc<Root<F>>, name: impl Into<Cow<'static, str>>) -> Self {
        LockFile { root, name: name.into(), open: Mutex::new(None) }
    }

    /// Takes the lock on the whole file, unless another process has it. Never waits.
    pub(crate) fn try_lock(&self) -> io::Result<Option<Guard<F>>> {
        self.acquire(Range::File)
    }

    /// Takes the lock on one byte, unless another process has it. Never waits.
    ///
    /// `offset` must be below 2^63.
    pub(crate) fn try_lock_byte(&self, offset: u64) -> io::Result<Option<Guard<F>>> {
        self.acquire(Range::Byte(offset))
    }

    fn acquire(&self, what: Range) -> io::Result<Option<Guard<F>>> {
        // Each round but the first needs a hand that removes the directory in between.
        for _ in 0..4 {
            let open = self.open()?;
            let fs = self.root.fs();
            let free = match what {
                Range::File => fs.try_lock(&open.file)?,
                Range::Byte(offset) => fs.try_lock_byte(&open.file, offset)?,
            };
            let guard = free.then(|| Guard { root: self.root.clone(), open: open.clone(), what });
            if self.has_the_name(open.identity)? {
                return Ok(guard);
            }
            drop(guard);
            self.open.try_set(None);
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// The open file of this process.
    fn open(&self) -> io::Result<Arc<Open<F::Handle>>> {
        let fs = self.root.fs();
        let process = fs.process();
        let kept = self.open.lock_soon().and_then(|open| open.clone());
        if let Some(open) = kept.filter(|open| open.process == process) {
            return Ok(open);
        }
        let current = self.root.current().map_err(io::Error::other)?;
        let Some(space) = current.space.as_ref().filter(|_| current.writable) else {
            return Err(io::ErrorKind::PermissionDenied.into());
        };
        let file = fs.open(space, &self.name, Access::Ensure)?;
        let stat = fs.stat(&file)?;
        if stat.kind != FileKind::File || stat.owner != current.user || stat.shared_for_writing() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let open = Arc::new(Open { file, identity: stat.identity(), process });
        // In a forked child this closes the inherited descriptor, which releases nothing.
        self.open.try_set(Some(open.clone()));
        Ok(open)
    }

    /// Whether the name still is this file's. Where it is no file's any more, it is made anew.
    fn has_the_name(&self, identity: (u64, u64)) -> io::Result<bool> {
        let current = self.root.current().map_err(io::Error::other)?;
        let Some(space) = &current.space else { return Ok(false) };
        match self.root.fs().stat_at(space, &self.name) {
            Ok(stat) => Ok(stat.identity() == identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl<F: Fs> crate::store::flight::lease::ByteLocks for LockFile<F> {
    type Guard = Guard<F>;

    fn try_lock_byte(&self, offset: u64) -> io::Result<Option<Guard<F>>> {
        self.try_lock_byte(offset).inspect_err(|error| {
            self.root.counters().count(Reason::of(error), "locking a key");
        })
    }
}

impl<F: Fs> Drop for Guard<F> {
    fn drop(&mut self) {
        let fs = self.root.fs();
        if fs.process() != self.open.process {
            return;
        }
        // A lock that cannot be released ends with the process.
        let _ = match self.what {
            Range::File => fs.unlock(&self.open.file),
            Range::Byte(offset) => fs.unlock_byte(&self.open.file, offset),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::store::disk::reason::Reason;
    use crate::store::disk::testing::{Faulty, root};
    use crate::store::disk::trust::{Purpose, SPACE};

    fn lock_file(dir: &Path) -> LockFile<crate::store::disk::fs::real::RealFs> {
        LockFile::new(root(dir.join("cache")), FLIGHT)
    }

    fn is_free<F: Fs>(lock: &LockFile<F>) -> bool {
        lock.try_lock_byte(5).unwrap().is_some()
    }

    /// Two handles of one process stand for two processes here: the locks are of open files.
    #[test]
    fn a_lock_is_held_until_its_guard_is_dropped() {
        let temp = tempfile::tempdir().unwrap();
        let (one, two) = (lock_file(temp.path()), lock_file(temp.path()));
        let guard = one.try_lock_byte(5).unwrap().unwrap();
        assert!(two.try_lock_byte(5).unwrap().is_none());
        assert!(two.try_lock_byte(6).unwrap().is_some());
        drop(guard);
        let guard = two.try_lock_byte(5).unwrap().unwrap();
        assert!(!is_free(&one));
        drop(guard);
        let guard = one.try_lock().unwrap().unwrap();
        assert!(two.try_lock().unwrap().is_none());
        drop(guard);
        assert!(two.try_lock().unwrap().is_some());
        let file = fs::metadata(temp.path().join("cache").join(SPACE).join(FLIGHT)).unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!((file.len(), file.mode() & 0o7777), (0, 0o600));
    }

    /// Mutant seen killed: the file that was locked not compared with the one that has the name.
    #[test]
    fn a_lock_on_a_file_that_was_removed_excludes_nobody_and_is_given_up() {
        for removed in ["cache", "cache/v1", "cache/v1/flight.lock"] {
            for renamed in [false, true] {
                let temp = tempfile::tempdir().unwrap();
                let one = lock_file(temp.path());
                assert!(is_free(&one));
                let path = temp.path().join(removed.replace("v1", SPACE));
                if renamed {
                    fs::rename(&path, temp.path().join("away")).unwrap();
                } else if path.is_dir() {
                    fs::remove_dir_all(&path).unwrap();
                } else {
                    fs::remove_file(&path).unwrap();
                }
                let two = lock_file(temp.path());
                let guard = two.try_lock_byte(5).unwrap().unwrap();
                assert!(!is_free(&one), "{removed} {renamed}: each locked a file of its own");
                drop(guard);
                let guard = one.try_lock_byte(5).unwrap().unwrap();
                assert!(!is_free(&two), "{removed} {renamed}");
                drop(guard);
            }
        }
    }

    /// The directory goes in the middle of it, at each operation in turn: whoever has a lock afterwards has
    /// it on the file of the name. Mutant seen killed: the comparison made before the lock is taken.
    #[test]
    fn removal_at_any_moment_leaves_one_holder() {
        for n in 0.. {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("cache");
            let faulty = Faulty::default();
            let root = Root::open(faulty.clone(), &path, Purpose::Cache).unwrap();
            let one = LockFile::new(root, FLIGHT);
            assert!(is_free(&one));
            let gone = path.clone();
            faulty.before(n, move || fs::remove_dir_all(&gone).unwrap());
            let guard = one.try_lock_byte(5).unwrap();
            let last = faulty.operations() <= n;
            faulty.heal();
            if last {
                assert!(n > 2);
                break;
            }
            assert!(guard.is_some());
            assert!(!is_free(&lock_file(temp.path())), "removed before operation {n}");
        }
    }

    /// I17. The descriptors are those of the parent, as after a fork. Mutants seen killed: the guard unlocks
    /// in whichever process it is dropped; the child locks by its parent's descriptor.
    #[test]
    fn a_forked_child_neither_releases_nor_uses_its_parents_lock() {
        let temp = tempfile::tempdir().unwrap();
        let faulty = Faulty::default();
        let root = Root::open(faulty.clone(), &temp.path().join("cache"), Purpose::Cache).unwrap();
        let lock = LockFile::new(root, FLIGHT);
        let stranger = lock_file(temp.path());
        for whole in [false, true] {
            let take = || if whole { lock.try_lock() } else { lock.try_lock_byte(5) }.unwrap();
            let others = || if whole { stranger.try_lock() } else { stranger.try_lock_byte(5) };
            faulty.become_process(1001);
            let guard = take().unwrap();
            // Whatever the child closes, the parent has open.
            let parents = guard.open.clone();
            faulty.become_process(1002);
            assert!(take().is_none(), "the child has the parent's lock");
            drop(guard);
            assert!(others().unwrap().is_none(), "the child released the parent's lock");
            drop(parents);
            assert!(others().unwrap().is_some(), "nothing else kept it");
        }
    }

    #[test]
    fn what_is_no_lock_file_is_not_used() {
        let temp = tempfile::tempdir().unwrap();
        let lock = lock_file(temp.path());
        let path = temp.path().join("cache").join(SPACE).join(FLIGHT);
        fs::create_dir(&path).unwrap();
        assert!(lock.try_lock_byte(5).is_err());
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert_eq!(Reason::of(&lock.try_lock_byte(5).unwrap_err()), Reason::Symlink);
        assert!(!path.with_file_name("elsewhere").exists());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(Reason::of(&lock.try_lock_byte(5).unwrap_err()), Reason::Denied);
        fs::remove_file(&path).unwrap();
        assert!(is_free(&lock));

        let read = Root::open(
            crate::store::disk::fs::real::RealFs,
            &temp.path().join("cache"),
            Purpose::CacheReadOnly,
        );
        let lock = LockFile::new(read.unwrap(), CLEANING);
        assert_eq!(Reason::of(&lock.try_lock().unwrap_err()), Reason::Denied);
        assert!(!path.with_file_name(CLEANING).exists());
    }
}
