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

use std::io;

use super::fs::{Access, FileKind, Fs};
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
    name: &'static str,
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
    pub(crate) fn new(root: Arc<Root<F>>, name: &'static str) -> Self {
        LockFile { root, name, open: Mutex::new(None) }
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
            if self.has_the_name(&open)? {
                return Ok(guard);
            }
            drop(guard);
            *self.open.lock() = None;
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// The open file of this process.
    fn open(&self) -> io::Result<Arc<Open<F::Handle>>> {
        let fs = self.root.fs();
        let process = fs.process();
        let kept = self.open.lock().clone();
        if let Some(open) = kept.filter(|open| open.process == process) {
            return Ok(open);
        }
        let current = self.root.current().map_err(io::Error::other)?;
        let Some(space) = current.space.as_ref().filter(|_| current.writable) else {
            return Err(io::ErrorKind::PermissionDenied.into());
        };
        let file = fs.open(space, self.name, Access::Ensure)?;
        let stat = fs.stat(&file)?;
        if stat.kind != FileKind::File || stat.owner != fs.user() || stat.shared_for_writing() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let open = Arc::new(Open { file, identity: stat.identity(), process });
        // In a forked child this closes the inherited descriptor, which releases nothing.
        *self.open.lock() = Some(open.clone());
        Ok(open)
    }

    /// Whether the name still is this file's. Where it is no file's any more, it is made anew.
    fn has_the_name(&self, open: &Open<F::Handle>) -> io::Result<bool> {
        let current = self.root.current().map_err(io::Error::other)?;
        let Some(space) = &current.space else { return Ok(false) };
        match self.root.fs().stat_at(space, self.name) {
            Ok(stat) => Ok(stat.identity() == open.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
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
