//! A simulated file system: [`Fs`] on a [`Machine`] that lives in memory, on which every operation is a
//! place where another process may go on, an error may strike, the process may be killed, the power may go.
//!
//! ```text
//!   body of a test        Run: processes, oracle                    explore.rs
//!        │ Fs
//!      SimFs ── perform(Op) ──► turn (who goes next?)               schedule.rs
//!                                ► fault (does it fail? die?)
//!                                ► Machine::step (what happens?)    machine.rs
//!                                                                   crash.rs: what a power cut leaves
//! ```
//!
//! The machine itself looks for broken promises (published bytes written, a lock with two holders, a lock
//! file unlinked, a parent's lock released by a child, an untrusted file read) and ends the run there.
//! A run is determined by its schedule and its faults, both of which a failure prints.

pub(crate) mod crash;
pub(crate) mod explore;
pub(crate) mod machine;
mod map;
pub(crate) mod op;
pub(crate) mod oracle;
pub(crate) mod schedule;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::time::Duration;

use rustix::io::Errno;

use super::{Access, Fs, FsClass, Stat};
use crate::sync::simulated::Clock;
use crate::sync::{Arc, AtomicU32, Condvar, Mutex, MutexGuard, Ordering, thread};
use machine::{Failed, Machine, Setup, Violation};
use op::{Fd, Footprint, Op, Pid, Reply, Risk, Step};
use schedule::{Candidate, Schedule, Strategy};

/// The user that processes run as unless told otherwise.
pub(crate) const USER: u32 = 1000;
/// A directory of that user's, with mode 0700.
pub(crate) const HOME: &str = "/home";

/// A run that takes more steps than this does not end.
const MOST_STEPS: u64 = 200_000;
const MOST_TASKS: usize = 8;

/// Something that goes wrong at a step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) task: usize,
    /// Counted from 0, over the task's own steps.
    pub(crate) at: u64,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The step fails and does nothing.
    Error(Errno),
    /// This step fails, and so does every later one that writes.
    ErrorsFromHere(Errno),
    /// The step is taken and says it failed.
    LostReply(Errno),
    /// Half of what is to be written is; the rest finds no space.
    ShortWrite,
    /// The process dies before the step.
    Kill,
    /// The process stops before the step, and goes on when all others are done.
    Stop,
}

impl FaultKind {
    /// Whether it makes a difference at this step.
    fn concerns(self, step: Step) -> bool {
        match self {
            FaultKind::Kill => step.seen,
            FaultKind::Stop => step.seen || step.risk > Risk::Memory,
            FaultKind::Error(_) => step.risk >= Risk::Call,
            FaultKind::ErrorsFromHere(_) | FaultKind::LostReply(_) => step.risk >= Risk::Change,
            FaultKind::ShortWrite => step.risk >= Risk::Write,
        }
    }
}

/// Ends a simulated process from inside.
enum Unwind {
    Killed,
    /// The run is over: it failed, or has nothing new to show.
    Abandoned,
}

/// A machine that threads share.
#[derive(Clone)]
pub(crate) struct World(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Told when a run is over.
    over: Condvar,
}

struct State {
    machine: Machine,
    run: Option<Tasks>,
    violation: Option<Violation>,
    log: Option<Vec<String>>,
    /// The machine before each step that writes.
    snapshots: Option<Vec<Machine>>,
    mutant: Option<Mutant>,
    /// What [`Mutant::EarlyRename`] has not written yet.
    late: BTreeMap<Pid, (u64, Vec<u8>)>,
}

/// A wrong turn of the code under test, taken by the file system in its stead, so that the tests which
/// should notice can be seen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// In place of renaming, the bytes are copied over the target.
    CopyForRename,
    /// A file gets its final name before its last bytes.
    EarlyRename,
    /// Random names are all the same, and new files may exist already.
    SharedTemporary,
    /// Whoever unlocks a file removes it.
    UnlockUnlinks,
    /// No lock excludes anybody.
    NoLocks,
}

type Job = Box<dyn FnOnce() + Send>;

/// The tasks of a run: one thread each, of which one at a time goes on.
struct Tasks {
    tasks: Vec<Task>,
    /// Tasks that have not begun; each is begun when the one before it comes to its first step.
    unstarted: VecDeque<Job>,
    current: Option<usize>,
    strategy: Option<Strategy>,
    schedule: Schedule,
    faults: Vec<Fault>,
    abandoned: bool,
}

struct Task {
    /// Its thread, once it has come to its first step.
    thread: Option<thread::Thread>,
    pid: Pid,
    pending: Option<Op>,
    wake_ns: i128,
    stopped: bool,
    finished: bool,
    /// What could have gone wrong with each step so far.
    steps: Vec<Step>,
}

std::thread_local! {
    static TASK: Cell<Option<usize>> = const { Cell::new(None) };
}

impl World {
    /// A machine with [`HOME`] in it.
    pub(crate) fn new(setup: Setup, seed: u64) -> Self {
        let mut machine = Machine::new(setup, seed);
        machine.place(HOME, machine::Content::directory(), USER, 0o700);
        World::of(machine)
    }

    pub(crate) fn of(machine: Machine) -> Self {
        let state = State {
            machine,
            run: None,
            violation: None,
            log: None,
            snapshots: None,
            mutant: None,
            late: BTreeMap::new(),
        };
        World(Arc::new(Shared { state: Mutex::new(state), over: Condvar::new() }))
    }

    /// The file system as a new process of [`USER`] sees it.
    pub(crate) fn process(&self) -> SimFs {
        self.process_of(USER)
    }

    /// The file system as a new process of this user sees it.
    pub(crate) fn process_of(&self, user: u32) -> SimFs {
        let pid = self.state().machine.start(user);
        SimFs { world: self.clone(), pid: Arc::new(AtomicU32::new(pid)) }
    }

    /// Looks at the machine, or changes it by hand. Not a step of anybody's.
    pub(crate) fn machine<T>(&self, f: impl FnOnce(&mut Machine) -> T) -> T {
        f(&mut self.state().machine)
    }

    pub(crate) fn set_mutant(&self, mutant: Option<Mutant>) {
        self.state().mutant = mutant;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

/// The file system as one simulated process sees it. Clones are the same process.
#[derive(Clone)]
pub(crate) struct SimFs {
    world: World,
    pid: Arc<AtomicU32>,
}

/// An open file of a simulated process.
pub(crate) struct Handle {
    fs: SimFs,
    fd: Fd,
    /// The name it was opened by is a temporary one.
    temporary: bool,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.fd)
    }
}

impl SimFs {
    pub(crate) fn pid(&self) -> Pid {
        self.pid.load(Ordering::Relaxed)
    }

    /// Forks this process. The child shares its open files; [`act_as`](Self::act_as) makes what this
    /// process had in memory the child's.
    pub(crate) fn fork(&self) -> Pid {
        let pid = self.pid();
        self.world.machine(|machine| machine.fork(pid))
    }

    /// The same process, as another value sees it: what one of them [acts as](Self::act_as) is nothing to the other.
    pub(crate) fn same_process(&self) -> SimFs {
        SimFs { world: self.world.clone(), pid: Arc::new(AtomicU32::new(self.pid())) }
    }

    /// From now on this value, its clones and the files opened through it belong to that process.
    pub(crate) fn act_as(&self, pid: Pid) {
        self.pid.store(pid, Ordering::Relaxed);
    }

    /// From now on this process is a user's hand, to which lock files mean nothing.
    pub(crate) fn meddles(&self) {
        let pid = self.pid();
        self.world.machine(|machine| machine.process_mut(pid).meddles = true);
    }

    /// Kills this process from outside.
    pub(crate) fn kill(&self) {
        let pid = self.pid();
        self.world.machine(|machine| machine.kill(pid));
    }

    /// How many steps of this process failed, or lied, because of a fault.
    pub(crate) fn struck(&self) -> u64 {
        let pid = self.pid();
        self.world.machine(|machine| machine.process(pid).struck)
    }

    /// Steps of this process so far, and those of them that write.
    pub(crate) fn steps(&self) -> (u64, u64) {
        let pid = self.pid();
        self.world.machine(|machine| (machine.process(pid).steps, machine.process(pid).writes))
    }

    /// How often this process asked the kernel for something.
    pub(crate) fn calls(&self) -> u64 {
        let pid = self.pid();
        self.world.machine(|machine| machine.process(pid).calls)
    }

    /// A step of the test itself: it writes down, or looks up, what is called `what` among its processes.
    pub(crate) fn witness(&self, what: u64, change: bool) {
        let _ = self.perform(Op::Witness { what, change });
    }

    /// Whether this is a destructor on the way out of a process that is gone. Shuttle's tasks share a thread: the
    /// one that unwinds may be another's, while this one's process is alive.
    fn is_unwinding(&self) -> bool {
        let pid = self.pid();
        let is_alive = || self.world.machine(|machine| machine.process(pid).alive);
        thread::panicking() && !(cfg!(shuttle) && is_alive())
    }

    fn perform(&self, op: Op) -> io::Result<Reply> {
        if self.is_unwinding() {
            return Err(Errno::IO.into());
        }
        let pid = self.pid();
        let (mut state, op) = self.world.await_turn(pid, op);
        let state = &mut *state;
        if !state.machine.process(pid).alive {
            resume_unwind(Box::new(Unwind::Killed));
        }
        let fault = state.take_step(pid, &op);
        state.machine.process_mut(pid).struck += u64::from(fault.is_some());
        let described = state.log.is_some().then(|| state.machine.describe(pid, &op));
        if let (Some(snapshots), true) = (&mut state.snapshots, op.changes()) {
            snapshots.push(state.machine.clone());
        }
        let result = match fault {
            Some(FaultKind::Kill) => {
                state.note(pid, described, "killed");
                state.machine.kill(pid);
                resume_unwind(Box::new(Unwind::Killed));
            }
            Some(FaultKind::Error(errno) | FaultKind::ErrorsFromHere(errno)) => Err(errno.into()),
            Some(FaultKind::LostReply(errno)) => {
                let _ = state.apply(pid, &op);
                Err(errno.into())
            }
            Some(FaultKind::ShortWrite) => match &op {
                Op::Write { file, bytes, offset } => {
                    let bytes = bytes[..bytes.len() / 2].to_vec();
                    let _ = state.apply(pid, &Op::Write { file: *file, bytes, offset: *offset });
                    Err(Errno::NOSPC.into())
                }
                _ => state.apply(pid, &op),
            },
            Some(FaultKind::Stop) => unreachable!("a stopped task takes no step"),
            None => state.apply(pid, &op),
        };
        state.note(pid, described, answer(&result));
        if let Some(Violation(text)) = &state.violation {
            let text = text.clone();
            match &mut state.run {
                // Its end tells the others.
                Some(run) => {
                    run.abandoned = true;
                    resume_unwind(Box::new(Unwind::Abandoned));
                }
                None => panic!("{text}"),
            }
        }
        result
    }

    fn open_op(&self, op: Op) -> io::Result<Handle> {
        match self.perform(op)? {
            Reply::Opened(fd) => Ok(Handle { fs: self.clone(), fd, temporary: false }),
            other => unreachable!("{other:?}"),
        }
    }

    fn done(&self, op: Op) -> io::Result<()> {
        self.perform(op).map(drop)
    }

    fn said(&self, op: Op) -> io::Result<bool> {
        match self.perform(op)? {
            Reply::Said(said) => Ok(said),
            other => unreachable!("{other:?}"),
        }
    }
}

/// Mutants leave alone what is no record.
fn is_temporary(name: &str) -> bool {
    name.starts_with("tmp-")
}

// What the mutants do.
impl SimFs {
    fn mutant(&self) -> Option<Mutant> {
        self.world.state().mutant
    }

    fn copy_over(&self, at: &Handle, from: &str, to_dir: &Handle, to: &str) -> io::Result<()> {
        let source = self.open(at, from, Access::Read)?;
        let mut bytes = vec![0; 1 << 16];
        let length = self.read_at(&source, &mut bytes, 0)?;
        let target = self.open(to_dir, to, Access::Ensure)?;
        self.write_all_at(&target, &bytes[..length], 0)?;
        self.unlink(at, from)
    }

    fn write_late(&self, dir: &Handle, name: &str) -> io::Result<()> {
        let Some((offset, bytes)) = self.world.state().late.remove(&self.pid()) else {
            return Ok(());
        };
        let file = self.open(dir, name, Access::Write)?;
        self.done(Op::Write { file: file.fd, bytes, offset })
    }
}

impl Clock for SimFs {
    fn now(&self) -> Duration {
        let ns = self.world.machine(|machine| machine.clock_ns);
        Duration::from_nanos(u64::try_from(ns).expect("this century"))
    }

    fn sleep(&self, duration: Duration) {
        let _ = self.perform(Op::Sleep(duration));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.fs.is_unwinding() {
            return;
        }
        // Others cannot tell when the rest is closed.
        let pid = self.fs.pid();
        let mut state = self.fs.world.state();
        if state.machine.close_is_seen(pid, self.fd) {
            drop(state);
            let _ = self.fs.perform(Op::Close(self.fd));
        } else {
            let _ = state.machine.step(pid, &Op::Close(self.fd));
        }
    }
}

impl Fs for SimFs {
    type Handle = Handle;

    fn root(&self) -> io::Result<Handle> {
        self.open_op(Op::Root)
    }

    fn walk(&self, at: &Handle, name: &str) -> io::Result<Handle> {
        self.open_op(Op::Walk { at: at.fd, name: name.into() })
    }

    fn read_link(&self, at: &Handle, name: &str) -> io::Result<String> {
        match self.perform(Op::ReadLink { at: at.fd, name: name.into() })? {
            Reply::Text(text) => Ok(text),
            other => unreachable!("{other:?}"),
        }
    }

    fn make_link(&self, at: &Handle, name: &str, target: &str) -> io::Result<()> {
        self.done(Op::MakeLink { at: at.fd, name: name.into(), target: target.into() })
    }

    fn writable(&self, dir: &Handle) -> io::Result<bool> {
        self.said(Op::Writable(dir.fd))
    }

    fn open_dir(&self, at: &Handle, name: &str) -> io::Result<Handle> {
        self.open_op(Op::OpenDir { at: at.fd, name: name.into() })
    }

    fn make_dir(&self, at: &Handle, name: &str) -> io::Result<()> {
        self.done(Op::MakeDir { at: at.fd, name: name.into() })
    }

    fn open(&self, at: &Handle, name: &str, mut access: Access) -> io::Result<Handle> {
        if self.mutant() == Some(Mutant::SharedTemporary) && access == Access::CreateNew {
            access = Access::Ensure;
        }
        let mut file = self.open_op(Op::Open { at: at.fd, name: name.into(), access })?;
        file.temporary = is_temporary(name);
        Ok(file)
    }

    fn stat(&self, file: &Handle) -> io::Result<Stat> {
        match self.perform(Op::Stat(file.fd))? {
            Reply::Stat(stat) => Ok(stat),
            other => unreachable!("{other:?}"),
        }
    }

    fn stat_at(&self, at: &Handle, name: &str) -> io::Result<Stat> {
        match self.perform(Op::StatAt { at: at.fd, name: name.into() })? {
            Reply::Stat(stat) => Ok(stat),
            other => unreachable!("{other:?}"),
        }
    }

    fn read_at(&self, file: &Handle, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.read_new(file, buffer.len(), offset)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn read_new(&self, file: &Handle, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        match self.perform(Op::Read { file: file.fd, length, offset })? {
            Reply::Bytes(bytes) => Ok(bytes),
            other => unreachable!("{other:?}"),
        }
    }

    /// Two steps: whoever sees the file in between sees half.
    fn write_all_at(&self, file: &Handle, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let write = |bytes: &[u8], offset| Op::Write { file: file.fd, bytes: bytes.into(), offset };
        if !first.is_empty() {
            self.done(write(first, offset))?;
        }
        let behind = offset + first.len() as u64;
        if file.temporary && self.mutant() == Some(Mutant::EarlyRename) {
            self.world.state().late.insert(self.pid(), (behind, second.into()));
            return Ok(());
        }
        self.done(write(second, behind))
    }

    fn allocate(&self, file: &Handle, offset: u64, length: u64) -> io::Result<()> {
        self.done(Op::Allocate { file: file.fd, offset, length })
    }

    fn sync(&self, file: &Handle) -> io::Result<()> {
        self.done(Op::Sync(file.fd))
    }

    fn rename(&self, at: &Handle, from: &str, to_dir: &Handle, to: &str) -> io::Result<()> {
        if is_temporary(from) && self.mutant() == Some(Mutant::CopyForRename) {
            return self.copy_over(at, from, to_dir, to);
        }
        let (names, dirs) = ((from.into(), to.into()), (at.fd, to_dir.fd));
        let replace = true;
        self.done(Op::Rename { at: dirs.0, from: names.0, to_dir: dirs.1, to: names.1, replace })?;
        self.write_late(to_dir, to)
    }

    fn rename_new(&self, at: &Handle, from: &str, to_dir: &Handle, to: &str) -> io::Result<()> {
        if is_temporary(from) && self.mutant() == Some(Mutant::CopyForRename) {
            return self.copy_over(at, from, to_dir, to);
        }
        let (names, dirs) = ((from.into(), to.into()), (at.fd, to_dir.fd));
        if self.world.machine(|machine| machine.setup.links_for_rename) {
            let link = Op::Link { at: dirs.0, from: from.into(), to_dir: dirs.1, to: to.into() };
            match self.done(link) {
                // Directories have no second names.
                Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                    if self.stat_at(to_dir, to).is_ok() {
                        return Err(Errno::EXIST.into());
                    }
                    return self.rename(at, from, to_dir, to);
                }
                linked => linked?,
            }
            let _ = self.unlink(at, from);
        } else {
            let replace = false;
            self.done(Op::Rename {
                at: dirs.0,
                from: names.0,
                to_dir: dirs.1,
                to: names.1,
                replace,
            })?;
        }
        self.write_late(to_dir, to)
    }

    fn unlink(&self, at: &Handle, name: &str) -> io::Result<()> {
        self.done(Op::Unlink { at: at.fd, name: name.into() })
    }

    fn remove_dir(&self, at: &Handle, name: &str) -> io::Result<()> {
        self.done(Op::RemoveDir { at: at.fd, name: name.into() })
    }

    /// Two steps: names may come and go in between.
    fn list(&self, at: &Handle) -> io::Result<Vec<String>> {
        let list = |after| match self.perform(Op::List { at: at.fd, after })? {
            Reply::Names(names) => Ok::<_, io::Error>(names),
            other => unreachable!("{other:?}"),
        };
        let mut names = list(None)?;
        names.truncate(names.len() / 2);
        names.extend(list(names.last().cloned())?);
        Ok(names)
    }

    fn touch(&self, file: &Handle) -> io::Result<()> {
        self.done(Op::Touch(file.fd))
    }

    fn class(&self, file: &Handle) -> io::Result<FsClass> {
        match self.perform(Op::Class(file.fd))? {
            Reply::Class(class) => Ok(class),
            other => unreachable!("{other:?}"),
        }
    }

    fn try_lock(&self, file: &Handle) -> io::Result<bool> {
        Ok(self.said(Op::TryLock(file.fd))? || self.mutant() == Some(Mutant::NoLocks))
    }

    fn unlock(&self, file: &Handle) -> io::Result<()> {
        if self.mutant() == Some(Mutant::UnlockUnlinks) {
            let pid = self.pid();
            self.world.machine(|machine| machine.unlink_place(pid, file.fd));
        }
        self.done(Op::Unlock(file.fd))
    }

    fn try_lock_byte(&self, file: &Handle, offset: u64) -> io::Result<bool> {
        let taken = self.said(Op::TryLockByte { file: file.fd, offset })?;
        Ok(taken || self.mutant() == Some(Mutant::NoLocks))
    }

    fn unlock_byte(&self, file: &Handle, offset: u64) -> io::Result<()> {
        self.done(Op::UnlockByte { file: file.fd, offset })
    }

    fn unix_seconds(&self) -> u64 {
        self.now().as_secs()
    }

    fn user(&self) -> u32 {
        let pid = self.pid();
        self.world.machine(|machine| machine.process(pid).user)
    }

    fn process(&self) -> u32 {
        let pid = self.pid();
        self.world.machine(|machine| machine.visible_process(pid))
    }

    fn boot_id(&self) -> [u8; 16] {
        u128::from(self.world.machine(|machine| machine.boot)).to_le_bytes()
    }

    fn random(&self) -> [u8; 16] {
        if self.mutant() == Some(Mutant::SharedTemporary) {
            return [7; 16];
        }
        let pid = self.pid();
        self.world.machine(|machine| machine.random(pid))
    }
}

impl State {
    /// Counts the step, and says what goes wrong with it.
    fn take_step(&mut self, pid: Pid, op: &Op) -> Option<FaultKind> {
        let process = self.machine.process_mut(pid);
        process.steps += 1;
        process.writes += u64::from(op.writes());
        process.calls += u64::from(op.risk() > Risk::Memory);
        let (steps, meddles) = (process.steps, process.meddles);
        let (Some(run), Some(task)) = (&mut self.run, TASK.get()) else {
            assert!(steps < MOST_STEPS, "I7: {steps} steps and no end");
            return None;
        };
        run.schedule.0.push(task);
        if run.schedule.0.len() as u64 > MOST_STEPS {
            self.violation = Some(Violation(format!("I7: {MOST_STEPS} steps and no end")));
        }
        // Tests themselves, and hands, do not fail.
        if matches!(op, Op::Witness { .. }) || meddles {
            return None;
        }
        let fault = run.strikes(task, op);
        run.tasks[task].steps.push(op.as_step());
        fault
    }

    fn apply(&mut self, pid: Pid, op: &Op) -> io::Result<Reply> {
        match self.machine.step(pid, op) {
            Ok(reply) => Ok(reply),
            Err(Failed::Error(error)) => Err(error),
            Err(Failed::Violation(violation)) => {
                self.violation = Some(violation);
                Err(Errno::IO.into())
            }
        }
    }

    fn note(&mut self, pid: Pid, step: Option<String>, answer: impl fmt::Display) {
        if let (Some(log), Some(step)) = (&mut self.log, step) {
            log.push(format!("process {pid}: {step} => {answer}"));
        }
    }
}

/// In short.
fn answer(result: &io::Result<Reply>) -> String {
    match result {
        Ok(Reply::Done) => "done".into(),
        Ok(Reply::Bytes(bytes)) => format!("{} bytes", bytes.len()),
        Ok(Reply::Stat(stat)) => format!(
            "{:?} {} of {}, {:o}, {} links, {} bytes",
            stat.kind, stat.inode, stat.owner, stat.mode, stat.links, stat.length
        ),
        Ok(reply) => format!("{reply:?}"),
        Err(error) => error.to_string(),
    }
}

// Turns: one task goes on at a time, and hands over to the next when it comes to a step.
impl World {
    /// Waits until this task may take its step. Steps of threads that are no tasks are taken at once.
    fn await_turn(&self, pid: Pid, op: Op) -> (MutexGuard<'_, State>, Op) {
        let mut state = self.state();
        let Some(task) = TASK.get().filter(|_| state.run.is_some()) else {
            if let Op::Sleep(duration) = op {
                state.machine.clock_ns += duration.as_nanos() as i128;
                drop(state);
                thread::yield_now();
                state = self.state();
            }
            return (state, op);
        };
        let now = state.machine.clock_ns;
        let run = state.run.as_mut().expect("there is a run");
        let me = &mut run.tasks[task];
        me.pid = pid;
        me.thread.get_or_insert_with(thread::current);
        me.wake_ns = match op {
            Op::Sleep(duration) => now + duration.as_nanos() as i128,
            _ => 0,
        };
        me.pending = Some(op);
        let stops = |fault: &Fault| fault.task == task && fault.kind == FaultKind::Stop;
        me.stopped =
            run.faults.iter().any(|fault| stops(fault) && fault.at == me.steps.len() as u64);
        state = self.hand_over(state);
        loop {
            let run = state.run.as_mut().expect("there is a run");
            if run.abandoned {
                drop(state);
                resume_unwind(Box::new(Unwind::Abandoned));
            }
            if run.current == Some(task) {
                let op = run.tasks[task].pending.take().expect("it was set above");
                return (state, op);
            }
            drop(state);
            thread::park();
            state = self.state();
        }
    }

    /// Lets the next task go on: one that has not begun, or whichever the strategy picks. Nobody is woken
    /// under the lock, which they would only wait for.
    fn hand_over<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let run = state.run.as_mut().expect("there is a run");
        if !run.abandoned {
            if let Some(job) = run.unstarted.pop_front() {
                run.current = None;
                drop(state);
                job();
                return self.state();
            }
            state.choose();
        }
        let run = state.run.as_ref().expect("there is a run");
        let (over, abandoned) = (run.tasks.iter().all(|task| task.finished), run.abandoned);
        let wakes =
            |index: usize| TASK.get() != Some(index) && (abandoned || run.current == Some(index));
        let tasks = run.tasks.iter().enumerate().filter(|(index, _)| wakes(*index));
        let threads: Vec<_> = tasks.filter_map(|(_, task)| task.thread.clone()).collect();
        if threads.is_empty() && !over && !abandoned {
            return state;
        }
        drop(state);
        threads.iter().for_each(|thread| thread.unpark());
        if over || abandoned {
            self.0.over.notify_all();
        }
        self.state()
    }
}

impl State {
    /// Lets the strategy pick the next task.
    fn choose(&mut self) {
        let (machine, run) = (&mut self.machine, self.run.as_mut().expect("there is a run"));
        let mut ready = run.ready(machine);
        if ready.is_empty() && run.tasks.iter().any(|task| task.stopped && !task.finished) {
            // All others are done: what was stopped goes on, an hour later.
            machine.clock_ns += 3_600_000_000_000;
            run.faults.retain(|fault| fault.kind != FaultKind::Stop);
            run.tasks.iter_mut().for_each(|task| task.stopped = false);
            ready = run.ready(machine);
        }
        if ready.is_empty() {
            run.current = None;
            return;
        }
        let strategy = run.strategy.as_mut().expect("a run has a strategy");
        match strategy.pick(run.current, &ready) {
            Some(index) => {
                let task = ready[index].task;
                machine.clock_ns = machine.clock_ns.max(run.tasks[task].wake_ns);
                run.current = Some(task);
            }
            None => run.abandoned = true,
        }
    }
}

impl Tasks {
    /// What goes wrong with a task's next step.
    fn strikes(&self, task: usize, op: &Op) -> Option<FaultKind> {
        if let Op::Witness { .. } = op {
            return None;
        }
        let step = self.tasks[task].steps.len() as u64;
        let strikes = |fault: &&Fault| match fault.kind {
            FaultKind::Stop => false,
            FaultKind::Kill => fault.at == step,
            FaultKind::ErrorsFromHere(_) => fault.at <= step && fault.kind.concerns(op.as_step()),
            kind => fault.at == step && kind.concerns(op.as_step()),
        };
        let mut faults = self.faults.iter().filter(|fault| fault.task == task);
        faults.find(strikes).map(|fault| fault.kind)
    }

    /// The tasks that could take a step.
    fn ready(&self, machine: &Machine) -> Vec<Candidate> {
        let wants = self.strategy.as_ref().is_some_and(Strategy::wants_footprints);
        let candidate = |(task, it): (usize, &Task)| Candidate {
            task,
            footprint: match &it.pending {
                Some(op) if wants => match self.strikes(task, op) {
                    Some(_) => Footprint::everything(),
                    None => machine.footprint(it.pid, op),
                },
                _ => Footprint::default(),
            },
            asleep: Some(it.wake_ns).filter(|wake| *wake > machine.clock_ns),
        };
        let tasks = self.tasks.iter().enumerate();
        tasks.filter(|(_, task)| !task.finished && !task.stopped).map(candidate).collect()
    }
}
