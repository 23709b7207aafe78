//! Words that the tool and its workers share: where each thread is, and where it shall die.
//!
//! ```text
//!   0 stop │ passed per step │ died at it │ found in it │ stopped at it ║ per worker: order, died of it, step per thread
//! ```
//!
//! A file mapped by all of them, so that what a worker wrote outlives it.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use rustix::process::{Signal, getpid, kill_process};

use crate::store::disk::fs::real::RealFs;
use crate::store::disk::map::MapFs;
use crate::store::disk::words::{Words, WordsMut};
use crate::store::failpoint::{self, Step};
use crate::sync::{OnceLock, Ordering};

type Map = <RealFs as MapFs>::MapMut;

const STEPS: usize = 64;
const PASSED: usize = 64;
const DIED: usize = PASSED + STEPS;
const FOUND: usize = DIED + STEPS;
const STOPPED: usize = FOUND + STEPS;
const WORKERS: usize = STOPPED + STEPS;
/// Words per worker: its order, whether it died of one, and the steps of its threads.
const STRIDE: usize = 64;

/// The most threads of a worker.
pub(super) const MOST_THREADS: u16 = STRIDE as u16 - 2;
/// The most workers at a time.
pub(super) const MOST_WORKERS: usize = 256;

/// What a worker is to do to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Die at once, as by `kill -9`.
    Die = 1,
    /// Stop until it is continued.
    Stop = 2,
}

/// The words.
#[derive(Clone, Debug)]
pub(super) struct Board(Map);

impl Board {
    /// The board in this file, which is made if it is missing.
    pub(super) fn open(path: &Path) -> io::Result<Board> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let length = ((WORKERS + MOST_WORKERS * STRIDE) * 8) as u64;
        if file.metadata()?.len() < length {
            file.set_len(length)?;
        }
        Ok(Board(RealFs.map_mut(&file, length)?))
    }

    /// Whether the workers shall end.
    pub(super) fn is_over(&self) -> bool {
        self.0.load(0) != 0
    }

    /// Tells the workers to end.
    pub(super) fn end(&self) {
        self.0.store(0, 1, Ordering::Release);
    }

    /// How often threads passed a step.
    pub(super) fn passed(&self, step: Step) -> u64 {
        self.0.load(PASSED + step as usize)
    }

    /// How many workers died at a step because they were told to.
    pub(super) fn died(&self, step: Step) -> u64 {
        self.0.load(DIED + step as usize)
    }

    /// How many threads were found in a step when they were killed.
    pub(super) fn found(&self, step: Step) -> u64 {
        self.0.load(FOUND + step as usize)
    }

    /// How many workers stopped at a step because they were told to.
    pub(super) fn stopped(&self, step: Step) -> u64 {
        self.0.load(STOPPED + step as usize)
    }

    /// Tells a worker what to do when it passes `step` for the `passes`-th time from now.
    pub(super) fn order(&self, worker: usize, act: Act, step: Step, passes: u32) {
        let word = (act as u64) << 48 | (step as u64) << 32 | u64::from(passes.max(1));
        self.0.store(base(worker), word, Ordering::Release);
    }

    /// Takes an order back.
    pub(super) fn cancel(&self, worker: usize) {
        self.0.store(base(worker), 0, Ordering::Release);
    }

    /// Whether a worker has an order that it has not followed.
    pub(super) fn has_order(&self, worker: usize) -> bool {
        self.0.load(base(worker)) != 0
    }

    /// Whether a worker that is dead did it to itself.
    pub(super) fn obeyed(&self, worker: usize) -> bool {
        self.0.load(base(worker) + 1) != 0
    }

    /// Counts the steps in which the threads of a worker were when it died, unless it killed itself, and forgets
    /// it.
    pub(super) fn bury(&self, worker: usize) {
        for at in base(worker)..base(worker) + STRIDE {
            let word = self.0.load(at);
            if at >= base(worker) + 2 && word != 0 {
                self.0.add(FOUND + (word as usize - 1) % STEPS, 1);
            }
            self.0.store(at, 0, Ordering::Relaxed);
        }
    }

    fn pass(&self, worker: usize, thread: usize, step: Step) {
        self.0.add(PASSED + step as usize, 1);
        self.0.store(base(worker) + 2 + thread, step as u64 + 1, Ordering::Relaxed);
        let order = self.0.load(base(worker));
        if order == 0 || (order >> 32) & 0xffff != step as u64 {
            return;
        }
        let last = order & 0xffff_ffff == 1;
        let next = if last { 0 } else { order - 1 };
        if !self.0.replace(base(worker), order, next) || !last {
            return;
        }
        if order >> 48 == Act::Die as u64 {
            self.0.add(DIED + step as usize, 1);
            self.0.store(base(worker) + 1, 1, Ordering::Release);
            // Told, not found.
            self.0.store(base(worker) + 2 + thread, 0, Ordering::Relaxed);
            let _ = kill_process(getpid(), Signal::KILL);
        } else {
            self.0.add(STOPPED + step as usize, 1);
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }
}

fn base(worker: usize) -> usize {
    WORKERS + worker * STRIDE
}

static MINE: OnceLock<(Board, usize)> = OnceLock::new();

thread_local! {
    /// The number of this thread; none in threads and children that take no orders.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// This process is worker `worker` from now on.
pub(super) fn join(board: Board, worker: usize) {
    let _ = MINE.set((board, worker));
    failpoint::watch(|step| {
        if let (Some((board, worker)), Some(thread)) = (MINE.get(), THREAD.get()) {
            board.pass(*worker, thread, step);
        }
    });
}

/// The calling thread is this one of its worker, or none that takes orders.
pub(super) fn thread(number: Option<usize>) {
    THREAD.set(number);
}

/// The calling thread is in no step.
pub(super) fn leave() {
    if let (Some((board, worker)), Some(thread)) = (MINE.get(), THREAD.get()) {
        board.0.store(base(*worker) + 2 + thread, 0, Ordering::Relaxed);
    }
}
