//! The right to write in a shard: one thread of one process at a time.
//!
//! Waiting for it is bounded. A holder that is stopped keeps it, so that it can go on in peace when
//! it is continued; one that dies loses it at once.

use std::fmt;
use std::time::Duration;

use super::generation::Held;
use super::survey::Survey;
use super::trusted::reason;
use super::{Shard, Unwritten};
use crate::race::{Fault, planted};
use crate::store::disk::format::header::IndexHeader;
use crate::store::disk::format::{Name, SegmentHeader, SegmentId};
use crate::store::disk::fs::Access;
use crate::store::disk::index::find::Generations;
use crate::store::disk::lock::Guard;
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;
use crate::store::failpoint::{self, Step};
use crate::sync::{self, Arc, AtomicU32, Ordering};

/// A fault that tests plant.
const NO_LOCK: Fault = Fault("a shard is written without its lock");

/// How long a turn is waited for.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long to wait before asking again: from, to. Short, as a holder that has its turns one after
/// the other leaves the lock free for moments only.
const PAUSE: (Duration, Duration) = (Duration::from_micros(10), Duration::from_millis(1));
/// How often to ask before the first pause. Most turns are over in less time than it takes to fall asleep.
const SPINS: usize = 16;

/// What a process remembers from one turn to its next. Others may have had theirs in between.
pub(super) struct Writer<F: MapFs> {
    /// The segment that was appended to last.
    pub(super) active: Option<Active<F::Handle>>,
    /// The generation whose entries were seen to end before its tail.
    pub(super) checked: Option<IndexHeader>,
}

/// An open segment that may be appended to.
#[derive(Debug)]
pub(super) struct Active<H> {
    pub(super) id: SegmentId,
    pub(super) file: H,
    pub(super) header: SegmentHeader,
    /// The bytes that it has blocks for.
    pub(super) allocated: u64,
}

/// A turn; it ends when this is dropped, or the process does.
pub(crate) struct Turn<'a, F: MapFs> {
    pub(super) shard: &'a Shard<F>,
    pub(super) writer: Writer<F>,
    /// The segment that was found to have its name in this turn.
    pub(super) seen: Option<SegmentId>,
    // Dropped in this order, whatever happens before.
    lock: Option<Guard<F>>,
    _busy: Busy<'a>,
}

/// Says that a thread of this process has its turn.
struct Busy<'a>(&'a AtomicU32);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl<F: MapFs> fmt::Debug for Writer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({:?})", self.active.as_ref().map(|active| active.id))
    }
}

impl<F: MapFs> Shard<F> {
    /// Waits for a turn, at most for [`PATIENCE`].
    pub(crate) fn turn(&self) -> Result<Turn<'_, F>, Unwritten> {
        if !self.opened.writable {
            return Err(Reason::NotWritable.into());
        }
        let process = self.fs().process();
        let began = sync::now();
        let (mut spins, mut pause) = (0, PAUSE.0);
        loop {
            if self.busy.swap(process, Ordering::Acquire) != process {
                // From here on, dropping it makes room for the next.
                let busy = Busy(&self.busy);
                let writer = self.writer.lock_soon().and_then(|mut writer| writer.take());
                let writer = writer.unwrap_or(Writer { active: None, checked: None });
                let mut turn = Turn { shard: self, writer, seen: None, lock: None, _busy: busy };
                failpoint::at(Step::TurnBegun);
                turn.lock = self.lock.try_lock().map_err(Unwritten::Io)?;
                if turn.lock.is_some() || planted(NO_LOCK) {
                    failpoint::at(Step::TurnLocked);
                    // The lock is one of the directory that is at the path now.
                    let moved = !Arc::ptr_eq(&self.root.held(), &self.opened);
                    return if moved { Err(Unwritten::Moved) } else { Ok(turn) };
                }
            }
            if sync::now().duration_since(began) >= PATIENCE {
                return Err(Reason::Busy.into());
            }
            if spins < SPINS {
                spins += 1;
                sync::spin();
                continue;
            }
            sync::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

#[cfg(test)]
impl<F: MapFs> Shard<F> {
    /// Whether a thread of some process has its turn.
    pub(crate) fn turn_is_taken(&self) -> bool {
        self.busy.load(Ordering::Relaxed) != 0
    }

    /// The lock of what a writer remembers, as another thread may have it.
    #[cfg(test)]
    pub(crate) fn writer_locked(&self) -> impl Sized + '_ {
        self.writer.lock()
    }

    /// Leaves what a thread of `process` leaves that dies with it in its turn.
    pub(crate) fn pretend_turn_of(&self, process: u32) {
        self.busy.store(process, Ordering::Relaxed);
    }
}

impl<F: MapFs> Drop for Turn<'_, F> {
    fn drop(&mut self) {
        // The lock belongs to the process: released after another thread took it over, it would be lost
        // to that one.
        if self.lock.is_some() {
            failpoint::at(Step::TurnEnding);
            self.lock = None;
            failpoint::at(Step::TurnUnlocked);
        }
        let writer = Writer { active: self.writer.active.take(), checked: self.writer.checked };
        self.shard.writer.try_set(Some(writer));
    }
}

impl<F: MapFs> Turn<'_, F> {
    /// The generation to write in: the newest, and under its name.
    pub(super) fn ready(&mut self) -> Result<Held<F>, Unwritten> {
        let fits = |held: &Held<F>| {
            // In use under the lock is the newest: a generation is retired before the next is
            // named.
            held.in_use() && held.writer().is_some() && self.shard.has_its_name(held)
        };
        if let Some(held) = self.shard.held().filter(|held| fits(held)) {
            return Ok(held);
        }
        if self.shard.read_current().is_ok()
            && let Some(held) = self.shard.current().filter(|held| fits(held))
        {
            return Ok(held);
        }
        self.recover()
    }

    /// Whether the shard was never written.
    pub(super) fn is_unborn(&self) -> bool {
        matches!(self.shard.open_folder(), Err(Reason::Absent))
    }

    /// Makes a file under a temporary name and gives it `name` when `fill` has filled it.
    pub(super) fn make_file<T>(
        &self,
        dir: &F::Handle,
        length: u64,
        name: &str,
        fill: impl FnOnce(&F::Handle) -> Result<T, Unwritten>,
    ) -> Result<(F::Handle, T), Unwritten> {
        let fs = self.shard.fs();
        let temporary = Name::temporary(fs.random());
        let file = fs.open(dir, &temporary, Access::CreateNew)?;
        failpoint::at(Step::FileMade);
        let made = fs
            .allocate(&file, 0, length)
            .map_err(Unwritten::from)
            .and_then(|()| fill(&file))
            .and_then(|value| {
                failpoint::at(Step::FileFilled);
                fs.rename(dir, &temporary, dir, name)?;
                failpoint::at(Step::FileNamed);
                Ok(value)
            });
        match made {
            Ok(value) => Ok((file, value)),
            Err(error) => {
                // If this fails too, it is swept with the other orphans.
                let _ = fs.unlink(dir, &temporary);
                Err(error)
            }
        }
    }

    /// Looks at every file of the shard, and removes those whose makers have died.
    pub(super) fn survey(&self, dir: &F::Handle) -> Result<Survey, Reason> {
        let survey = self.shard.survey(dir)?;
        for name in &survey.orphans {
            self.remove_file(dir, name);
        }
        Ok(survey)
    }

    /// Removes a file whose name may be gone already.
    pub(super) fn remove_file(&self, dir: &F::Handle, name: &str) {
        if let Err(error) = self.shard.fs().unlink(dir, name)
            && reason(&error) != Reason::Absent
        {
            self.shard.root.failed(Reason::of(&error), "removing a file of a shard");
        }
    }
}
