//! Words that the tool and its workers share: where each thread is, what it does, and where it shall die.
//!
//! ```text
//!   0 stop │ passed per step │ died at it │ found in it │ stopped at it ║ per worker:
//!                                 order, died of it │ per thread: its seat, the seat of the child it waits for
//!                                                      seat: step, call and key, since when
//! ```
//!
//! A file mapped by all of them, so that what a worker wrote outlives it, and tells what one is at that does not answer.

use std::cell::Cell;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use rustix::process::{Signal, getpid, kill_process};

use super::history::nanoseconds;
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
/// Words per seat: the step, the call and its key, since when.
const SEAT: usize = 3;
/// Words per worker: its order, whether it died of one, and two seats per thread.
const STRIDE: usize = 2 + 2 * SEAT * MOST_THREADS as usize;

/// The most threads of a worker.
pub(super) const MOST_THREADS: u16 = 62;
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

macro_rules! calls {
    ($($variant:ident = $name:literal,)+) => {
        /// What a thread is at.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Call {
            $(#[doc = $name] $variant,)+
        }

        impl Call {
            const ALL: &'static [Call] = &[$(Call::$variant,)+];

            const fn name(self) -> &'static str {
                match self { $(Call::$variant => $name,)+ }
            }
        }
    };
}

calls! {
    GetOrMake = "getting or making",
    Make = "making",
    Get = "getting",
    GetMany = "getting many with",
    Look = "looking for",
    Put = "putting",
    Edit = "making anew",
    NoteRead = "reading the note of",
    NoteWrite = "writing the note of",
    Clear = "clearing",
    Open = "opening",
    Survey = "counting the entries",
    Image = "mapping and running the image of",
    Prune = "pruning",
    Fork = "waiting for its child with number",
}

/// What a thread was seen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    /// The number of the thread.
    pub(super) thread: usize,
    pub(super) call: Call,
    /// The key it is about; the number of the process for [`Call::Fork`].
    pub(super) key: u32,
    /// The step it passed last.
    pub(super) step: Option<Step>,
    /// Since when, in nanoseconds of the machine's monotonic clock.
    pub(super) since: u64,
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = nanoseconds().saturating_sub(self.since) / 1_000_000_000;
        let Sight { thread, call, key, step, .. } = self;
        write!(f, "thread {thread} has been {} {key} for {seconds} s, ", call.name())?;
        match step {
            Some(step) => write!(f, "last at {}", step.name()),
            None => write!(f, "at no step"),
        }
    }
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
        for thread in 0..MOST_THREADS.into() {
            let word = self.0.load(seat(worker, thread, false));
            if word != 0 {
                self.0.add(FOUND + (word as usize - 1) % STEPS, 1);
            }
        }
        for at in base(worker)..base(worker) + STRIDE {
            self.0.store(at, 0, Ordering::Relaxed);
        }
    }

    /// What the threads of a worker, or the children they wait for, are at.
    pub(super) fn sights(&self, worker: usize, children: bool) -> impl Iterator<Item = Sight> {
        (0..MOST_THREADS.into()).filter_map(move |thread| {
            let at = seat(worker, thread, children);
            let (step, doing, since) = (self.0.load(at), self.0.load(at + 1), self.0.load(at + 2));
            let call = *Call::ALL.get((doing >> 32).checked_sub(1)? as usize)?;
            let step = (step as usize).checked_sub(1).and_then(|step| Step::ALL.get(step).copied());
            Some(Sight { thread, call, key: doing as u32, step, since })
        })
    }

    fn pass(&self, worker: usize, thread: usize, step: Step) {
        self.0.add(PASSED + step as usize, 1);
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
            self.0.store(seat(worker, thread, false), 0, Ordering::Relaxed);
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

/// The first word of the seat of a thread, or of the child that it waits for.
fn seat(worker: usize, thread: usize, is_child: bool) -> usize {
    base(worker) + 2 + (2 * thread + usize::from(is_child)) * SEAT
}

static MINE: OnceLock<(Board, usize)> = OnceLock::new();

/// Who a thread is to the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// One that takes no orders and has no seat.
    Nobody,
    /// A thread of a worker.
    Thread(usize),
    /// A child that was forked by this thread: it takes no orders.
    ChildOf(usize),
}

thread_local! {
    static WHO: Cell<Who> = const { Cell::new(Who::Nobody) };
}

/// This process is worker `worker` from now on.
pub(super) fn join(board: Board, worker: usize) {
    let _ = MINE.set((board, worker));
    failpoint::watch(|step| {
        let Some((board, worker)) = MINE.get() else { return };
        if let Some(seat) = my_seat() {
            board.0.store(seat, step as u64 + 1, Ordering::Relaxed);
        }
        if let Who::Thread(thread) = WHO.get() {
            board.pass(*worker, thread, step);
        }
    });
}

/// The calling thread has this number.
pub(super) fn sit(thread: usize) {
    WHO.set(Who::Thread(thread));
}

/// The calling thread is the one that a forked child has.
pub(super) fn forked() {
    if let Who::Thread(thread) = WHO.get() {
        WHO.set(Who::ChildOf(thread));
    }
    leave();
}

/// The calling thread begins a call.
pub(super) fn begin(call: Call, key: u32) {
    if let (Some((board, _)), Some(seat)) = (MINE.get(), my_seat()) {
        board.0.store(seat + 2, nanoseconds(), Ordering::Relaxed);
        board.0.store(seat + 1, (call as u64 + 1) << 32 | u64::from(key), Ordering::Relaxed);
    }
}

/// The calling thread is in no call and no step.
pub(super) fn leave() {
    if let (Some((board, _)), Some(seat)) = (MINE.get(), my_seat()) {
        board.0.store(seat, 0, Ordering::Relaxed);
        board.0.store(seat + 1, 0, Ordering::Relaxed);
    }
}

/// The child that the calling thread waited for is gone: what it was at.
pub(super) fn child_gone() -> Option<Sight> {
    let ((board, worker), Who::Thread(thread)) = (MINE.get()?, WHO.get()) else { return None };
    let sight = board.sights(*worker, true).find(|sight| sight.thread == thread);
    let at = seat(*worker, thread, true);
    (at..at + SEAT).for_each(|at| board.0.store(at, 0, Ordering::Relaxed));
    sight
}

fn my_seat() -> Option<usize> {
    let (_, worker) = MINE.get()?;
    match WHO.get() {
        Who::Nobody => None,
        Who::Thread(thread) => Some(seat(*worker, thread, false)),
        Who::ChildOf(thread) => Some(seat(*worker, thread, true)),
    }
}
