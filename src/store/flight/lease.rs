//! One maker per key among processes: a lock on one byte of a file.
//!
//! ```text
//!   flight.lock, 0 bytes long, never renamed or unlinked
//!   ├──────────┼─┼──────────────┼─┼───────► 2^62
//!              │ └ process A     └ process B
//!              └ offset = 62 bits of the key
//! ```
//!
//! The kernel keeps the locks with the open file: they end when their process does, however it does, and
//! no process id or time of day decides anything. One process opens the file once, so its threads do not
//! exclude each other; [`Flights`](super::cell::Flights) does that, and a lease borrows the
//! [`Leader`] it was taken for. It is therefore given back before the leader's cell leaves the table: no
//! other thread can have taken the same byte, of the same open file, in the meantime.
//!
//! A forked child inherits the open file and with it the parent's locks. It must not unlock, and opens a
//! file of its own. It also closes the inherited one when it first asks for a lease (unless one was held at
//! the fork), because as long as it has that, the parent's locks outlive the parent; those who wait for such
//! a lock wait until their deadline.

use std::fmt;
use std::io;
use std::marker::PhantomData;

use super::cell::Leader;
use super::fork::PerProcess;
use crate::key::Key;
use crate::store::disk::fs::Fs;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};

/// How often a lock file that was replaced under our hands is opened anew before we do without.
const REOPENS: usize = 3;

/// The file whose bytes stand for keys.
pub(crate) trait LockFile<F: Fs>: Send + Sync {
    /// Opens the file for writing, as an open file of its own, making it if it is missing.
    fn open(&self) -> io::Result<F::Handle>;
    /// Whether `file` is still the one that [`open`](Self::open) would open, which it is not after
    /// somebody removed the directory by hand.
    fn is_current(&self, file: &F::Handle) -> io::Result<bool>;
}

/// The leases of one store.
pub(crate) struct Leases<F: Fs> {
    fs: Arc<F>,
    file: Box<dyn LockFile<F>>,
    opened: PerProcess<Slot<F>>,
    told: AtomicBool,
}

type Slot<F> = Mutex<Option<Arc<<F as Fs>::Handle>>>;

/// What asking for a lease came to.
#[derive(Debug)]
pub(crate) enum Acquired<'a, F: Fs> {
    /// No other process has the key.
    Held(Lease<'a, F>),
    /// Another process has it.
    Busy,
    /// There is no telling: the lock file cannot be opened or locked.
    Unavailable,
}

impl<F: Fs> Leases<F> {
    /// Leases on the bytes of `file`, which is opened when the first one is asked for.
    pub(crate) fn new(fs: Arc<F>, file: impl LockFile<F> + 'static) -> Self {
        let opened = PerProcess::new(fs.process(), Mutex::new(None));
        Leases { fs, file: Box::new(file), opened, told: AtomicBool::new(false) }
    }

    /// Takes the lease of the leader's key, without waiting.
    pub(crate) fn try_acquire<'a, T>(&'a self, leader: &'a Leader<'_, T>) -> Acquired<'a, F> {
        self.try_lock(offset(leader.key())).unwrap_or_else(|error| {
            if !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "no lock among processes: work may be done twice");
            }
            Acquired::Unavailable
        })
    }

    fn try_lock(&self, offset: u64) -> io::Result<Acquired<'_, F>> {
        let process = self.fs.process();
        let slot = self.opened.get(process, |parents| {
            // Unless another of the parent's threads was just at it, which leaves it open for good.
            drop(parents.try_lock().and_then(|mut slot| slot.take()));
            Mutex::new(None)
        });
        for _ in 0..REOPENS {
            let file = self.file_of(slot)?;
            match self.try_lock_in(&file, offset, process) {
                Ok(Some(acquired)) => return Ok(acquired),
                unusable => {
                    slot.lock().take_if(|opened| Arc::ptr_eq(opened, &file));
                    unusable?;
                }
            }
        }
        Err(io::Error::other("the lock file is replaced again and again"))
    }

    /// `None` if `file` is no longer the one that others open: a lock on it excludes nobody.
    fn try_lock_in(
        &self,
        file: &Arc<F::Handle>,
        offset: u64,
        process: u32,
    ) -> io::Result<Option<Acquired<'_, F>>> {
        if !self.fs.try_lock_byte(file, offset)? {
            return Ok(Some(Acquired::Busy));
        }
        let (fs, file) = (&*self.fs, file.clone());
        let lease = Lease { fs, file, offset, process, leader: PhantomData };
        Ok(self.file.is_current(&lease.file)?.then_some(Acquired::Held(lease)))
    }

    fn file_of(&self, slot: &Slot<F>) -> io::Result<Arc<F::Handle>> {
        let mut slot = slot.lock();
        if let Some(file) = &*slot {
            return Ok(file.clone());
        }
        let file = Arc::new(self.file.open()?);
        *slot = Some(file.clone());
        Ok(file)
    }
}

impl<F: Fs> fmt::Debug for Leases<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").finish_non_exhaustive()
    }
}

/// The byte that stands for `key`. Two keys that share it make each other wait, no more.
fn offset(key: &Key) -> u64 {
    key.word(1) >> 2
}

/// The right to make a key, among processes; given back when dropped.
pub(crate) struct Lease<'a, F: Fs> {
    fs: &'a F,
    file: Arc<F::Handle>,
    offset: u64,
    process: u32,
    leader: PhantomData<&'a ()>,
}

impl<F: Fs> Drop for Lease<'_, F> {
    fn drop(&mut self) {
        // A forked child's unlock would be its parent's.
        if self.fs.process() == self.process {
            // Nothing is left to do if it fails: the others stop waiting at their deadline.
            let _ = self.fs.unlock_byte(&self.file, self.offset);
        }
    }
}

impl<F: Fs> fmt::Debug for Lease<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("offset", &self.offset).finish_non_exhaustive()
    }
}
