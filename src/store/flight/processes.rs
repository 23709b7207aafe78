//! Single flight among real processes: this test binary starts itself again, as often as a test needs
//! processes, and kills, stops and forks them.
//!
//! A worker is told its role by a variable of its environment. Workers share a directory: the lock file,
//! one file per published key, and a log with a line for each key that was made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::fake::key;
use super::lease::ByteLocks;
use super::{Duplicate, Got, SingleFlight, Tiers};
use crate::key::Key;
use crate::store::Origin;
use crate::sync::{Arc, Mutex, thread};

type Flight = SingleFlight<u32, Locks>;

const MS: Duration = Duration::from_millis(1);

// ---- the directory that workers share

/// The locks of the kernel on the bytes of one file, which each process opens anew: the least that
/// [`ByteLocks`] asks for.
#[derive(Debug)]
struct Locks {
    dir: Dir,
    opened: Mutex<Option<Arc<Opened>>>,
}

#[derive(Debug)]
struct Opened {
    file: File,
    process: u32,
}

#[derive(Debug)]
struct Locked {
    opened: Arc<Opened>,
    offset: u64,
}

impl Locks {
    fn new(dir: &Dir) -> Self {
        Locks { dir: dir.clone(), opened: Mutex::new(None) }
    }

    fn opened(&self) -> io::Result<Arc<Opened>> {
        let process = std::process::id();
        let mut opened = self.opened.lock();
        if let Some(opened) = opened.as_ref().filter(|opened| opened.process == process) {
            return Ok(opened.clone());
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(self.dir.0.join("flight.lock"))?;
        // What was inherited is closed.
        Ok(opened.insert(Arc::new(Opened { file, process })).clone())
    }
}

impl ByteLocks for Locks {
    type Guard = Locked;

    fn try_lock_byte(&self, offset: u64) -> io::Result<Option<Locked>> {
        let opened = self.opened()?;
        let free = set_lock(&opened.file, offset, libc::F_WRLCK)?;
        Ok(free.then_some(Locked { opened, offset }))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.opened.process == std::process::id() {
            set_lock(&self.opened.file, self.offset, libc::F_UNLCK).unwrap();
        }
    }
}

fn set_lock(file: &File, offset: u64, kind: i32) -> io::Result<bool> {
    let lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: offset as i64,
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).map_err(io::Error::from) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[derive(Clone, Debug)]
struct Dir(PathBuf);

/// Looks up published files; `cost` is what every key is said to cost.
#[derive(Clone, Debug)]
struct Published {
    dir: Dir,
    cost: Option<Duration>,
}

impl Tiers<u32> for Published {
    fn lookup(&self, key: &Key) -> Option<(u32, Origin)> {
        let text = fs::read_to_string(self.dir.0.join(key.to_string())).ok()?;
        Some((text.parse().expect("published whole"), Origin::Disk))
    }

    fn cost(&self, _: &Key) -> Option<Duration> {
        self.cost
    }
}

impl Dir {
    fn flight(&self) -> Flight {
        SingleFlight::new(Some(Locks::new(self)), std::process::id, || std::process::id().into())
    }

    /// Logs that `key` was made, and publishes this process's id as its value unless another did.
    fn publish(&self, key: &Key) -> u32 {
        let me = std::process::id();
        let mut log =
            OpenOptions::new().create(true).append(true).open(self.0.join("log")).unwrap();
        log.write_all(format!("{key}\n").as_bytes()).unwrap();
        let temporary = self.0.join(format!("tmp-{me}-{:?}", thread::current().id()));
        fs::write(&temporary, me.to_string()).unwrap();
        // The first to publish wins, as it does in the store.
        let _ = fs::hard_link(&temporary, self.0.join(key.to_string()));
        fs::remove_file(&temporary).unwrap();
        self.tiers(None).lookup(key).unwrap().0
    }

    fn tiers(&self, cost: Option<Duration>) -> Published {
        Published { dir: self.clone(), cost }
    }

    /// The keys that were made, sorted.
    fn made(&self) -> Vec<String> {
        let log = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        let mut keys: Vec<_> = log.lines().map(String::from).collect();
        keys.sort();
        keys
    }

    /// Whether another process, or open file, has the lease of `key`.
    fn is_leased(&self, key: &Key) -> bool {
        Locks::new(self).try_lock_byte(key.word(1) >> 2).unwrap().is_none()
    }

    /// Says something to other processes.
    fn mark(&self, what: &str) {
        fs::write(self.0.join(what), "").unwrap();
    }

    /// Waits until another process has said it.
    fn await_mark(&self, what: &str) {
        let started = Instant::now();
        while !self.0.join(what).exists() {
            assert!(started.elapsed() < Duration::from_secs(60), "{what} never came");
            thread::sleep(MS);
        }
    }
}

// ---- workers

const ROLE: &str = "CACHELIFT_TEST_FLIGHT";

struct Worker(Child);

impl Worker {
    /// Starts a process that runs [`worker`] in a role.
    fn start(role: &str, dir: &Dir, number: usize) -> Self {
        let test = concat!(module_path!(), "::worker").split_once("::").unwrap().1;
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{role}:{number}:{}", dir.0.display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Worker(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Waits until it ends; its own assertions must have held.
    fn finish(mut self) {
        assert!(self.0.wait().unwrap().success(), "a worker failed");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: what a started process does. Started by hand, it has no role and does nothing.
#[test]
fn worker() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut parts = role.splitn(3, ':');
    let mut part = || parts.next().unwrap();
    let (role, number, dir) = (part(), part().parse().unwrap(), Dir(part().into()));
    match role {
        "sharer" => sharer(&dir, number),
        "holder" => holder(&dir, &dir.flight()),
        "waiter" => waiter(&dir, number),
        "hasty" => hasty(&dir),
        "forker" => forker(&dir),
        "leaker" => leaker(&dir),
        role => panic!("no role {role}"),
    }
}

fn setup() -> (tempfile::TempDir, Dir) {
    let temporary = tempfile::tempdir().unwrap();
    let dir = Dir(temporary.path().into());
    (temporary, dir)
}

// ---- sharing

const SHARED: u8 = 60;

/// Three threads that want the same keys: many at once, and one after another from either end.
fn sharer(dir: &Dir, number: usize) {
    let (flight, tiers) = (dir.flight(), dir.tiers(None));
    let keys: Vec<_> = (0..SHARED).map(key).collect();
    let make = |key: &Key| {
        thread::sleep(MS);
        Ok::<_, ()>(dir.publish(key))
    };
    let one = |key: &Key| flight.get(key, &tiers, || make(key)).unwrap();
    dir.mark(&format!("ready-{number}"));
    dir.await_mark("go");
    let got: Vec<Vec<Got<u32>>> = thread::scope(|scope| {
        let many = scope.spawn(|| {
            let got = flight.get_many(&keys, &tiers, |at| make(&keys[at]));
            got.into_iter().map(Result::unwrap).collect()
        });
        let forth = scope.spawn(|| keys.iter().map(one).collect());
        let back = scope.spawn(|| keys.iter().rev().map(one).collect());
        [many, forth, back].into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for got in got.iter().flatten() {
        assert_eq!(got.duplicate, None);
    }
    for (at, key) in keys.iter().enumerate() {
        let published = tiers.lookup(key).unwrap().0;
        let last = keys.len() - 1;
        assert_eq!([got[0][at].value, got[1][at].value, got[2][last - at].value], [published; 3]);
    }
}

// Mutants: `claim` always makes a leader; `acquire` does without leases; `make` does not look up.
#[test]
fn processes_and_their_threads_make_each_key_once() {
    for processes in [2, 4] {
        let (_temporary, dir) = setup();
        let workers: Vec<_> =
            (0..processes).map(|number| Worker::start("sharer", &dir, number)).collect();
        (0..processes).for_each(|number| dir.await_mark(&format!("ready-{number}")));
        dir.mark("go");
        workers.into_iter().for_each(Worker::finish);
        let mut expected: Vec<_> = (0..SHARED).map(|n| key(n).to_string()).collect();
        expected.sort();
        assert_eq!(dir.made(), expected);
    }
}

// ---- holders that stop

/// Holds a key until it is told to release it.
fn holder(dir: &Dir, flight: &Flight) {
    let make = || {
        dir.mark("held");
        dir.await_mark("release");
        Ok::<_, ()>(dir.publish(&key(1)))
    };
    flight.get(&key(1), &dir.tiers(None), make).unwrap();
}

/// Waits for that key. Whoever of them makes it was not late.
fn waiter(dir: &Dir, number: usize) {
    let flight = dir.flight();
    dir.mark(&format!("waiting-{number}"));
    let make = || Ok::<_, ()>(dir.publish(&key(1)));
    let got = flight.get(&key(1), &dir.tiers(None), make).unwrap();
    assert_eq!(got.duplicate, None);
}

// Mutant: no try-lock after the first one (the waiters then make two, at the deadline).
#[test]
fn a_killed_holder_is_replaced_at_once_by_one_of_those_who_wait() {
    let (_temporary, dir) = setup();
    let holder = Worker::start("holder", &dir, 0);
    dir.await_mark("held");
    let waiters: Vec<_> = (1..4).map(|number| Worker::start("waiter", &dir, number)).collect();
    (1..4).for_each(|number| dir.await_mark(&format!("waiting-{number}")));
    thread::sleep(50 * MS);
    assert_eq!(dir.made(), [""; 0]);
    let killed = Instant::now();
    holder.signal(Signal::KILL);
    waiters.into_iter().for_each(Worker::finish);
    // Far less than the deadline; on an idle machine it is some 15 ms with the ends of three processes.
    println!("taken over and all done {:?} after the kill", killed.elapsed());
    assert!(killed.elapsed() < Duration::from_secs(3));
    assert_eq!(dir.made(), [key(1).to_string()]);
}

/// Waits for that key a short time, because it is said to be cheap.
fn hasty(dir: &Dir) {
    let make = || Ok::<_, ()>(dir.publish(&key(1)));
    let got = dir.flight().get(&key(1), &dir.tiers(Some(MS)), make).unwrap();
    assert_eq!(got.origin, Origin::Made);
    assert_eq!(got.duplicate, Some(Duplicate::DeadlinePassed));
}

#[test]
fn a_stopped_holder_is_not_waited_for_beyond_the_deadline() {
    let (_temporary, dir) = setup();
    let holder = Worker::start("holder", &dir, 0);
    dir.await_mark("held");
    holder.signal(Signal::STOP);
    let stopped = Instant::now();
    let hasty = Worker::start("hasty", &dir, 1);
    hasty.finish();
    println!("done {:?} after the holder was stopped", stopped.elapsed());
    let (value, _) = dir.tiers(None).lookup(&key(1)).unwrap();
    assert!(dir.is_leased(&key(1)), "nobody breaks a lock");
    // The holder goes on as if nothing had been: its value comes second.
    dir.mark("release");
    holder.signal(Signal::CONT);
    holder.finish();
    assert_eq!(dir.made(), [key(1).to_string(), key(1).to_string()]);
    assert_eq!(dir.tiers(None).lookup(&key(1)), Some((value, Origin::Disk)));
}

// ---- forks

/// The child's id, or `None` in the child.
fn fork() -> Option<Pid> {
    // SAFETY: the child runs ordinary code of this file and ends in `exit_child`. The other threads of the
    // parent wait in a join, in a sleep or on a lock of their own, so they hold none that the child takes;
    // glibc keeps its allocator usable after a fork.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", io::Error::last_os_error());
    Pid::from_raw(pid)
}

/// Ends a forked child, with nothing of its parent's run or flushed.
fn exit_child(succeeded: bool) -> ! {
    // SAFETY: `_exit` takes any number and touches no memory.
    unsafe { libc::_exit(i32::from(!succeeded)) }
}

/// Runs `child` in a forked child.
fn fork_with(child: impl FnOnce()) -> Pid {
    fork().unwrap_or_else(|| exit_child(catch_unwind(AssertUnwindSafe(child)).is_ok()))
}

fn assert_succeeded(child: Pid) {
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.exit_status(), Some(0), "the child failed");
}

/// Forks in the middle of making a key.
fn forker(dir: &Dir) {
    let (flight, tiers) = (dir.flight(), dir.tiers(None));
    let parent = std::process::id();
    let publish = |n| flight.get(&key(n), &tiers, || Ok::<_, ()>(dir.publish(&key(n)))).unwrap();
    let make = || match fork() {
        None => {
            // The child is in the midst of making this key, too, but without the lease.
            let got = flight.get(&key(1), &tiers, || Ok::<_, ()>(7)).unwrap();
            assert_eq!((got.value, got.duplicate), (7, Some(Duplicate::Nested)));
            assert_eq!(publish(2).duplicate, None, "a lease of its own");
            Err("the child leaves by way of its parent's guards")
        }
        Some(child) => {
            assert_succeeded(child);
            assert!(dir.is_leased(&key(1)), "the child released the lease");
            Ok(dir.publish(&key(1)))
        }
    };
    let got = catch_unwind(AssertUnwindSafe(|| flight.get(&key(1), &tiers, make)));
    if std::process::id() != parent {
        exit_child(got.is_ok_and(|got| got.is_err()));
    }
    assert_eq!(got.unwrap().unwrap().duplicate, None);
    assert!(!dir.is_leased(&key(1)));

    // A thread makes something, another forks: the child does not wait for the thread, which it has not.
    let flight: Flight = SingleFlight::new(None, std::process::id, || 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let make = || {
                dir.mark("making");
                dir.await_mark("forked");
                Ok::<_, ()>(7)
            };
            flight.get(&key(3), &tiers, make).unwrap()
        });
        dir.await_mark("making");
        let child = fork_with(|| {
            let got = flight.get(&key(3), &tiers, || Ok::<_, ()>(8)).unwrap();
            assert_eq!((got.value, got.duplicate), (8, None));
        });
        assert_succeeded(child);
        dir.mark("forked");
    });
}

// Mutants: a guard unlocks in a child, too; a child locks by the inherited file; a child uses the inherited
// table of cells.
#[test]
fn a_forked_child_leaves_its_parents_keys_alone() {
    let (_temporary, dir) = setup();
    Worker::start("forker", &dir, 0).finish();
    assert_eq!(dir.made(), [key(1), key(2)].map(|key| key.to_string()));
}

/// Forks a child that lives on, then holds a key.
fn leaker(dir: &Dir) {
    let (flight, tiers) = (dir.flight(), dir.tiers(None));
    let publish = |n| flight.get(&key(n), &tiers, || Ok::<_, ()>(dir.publish(&key(n)))).unwrap();
    publish(2);
    fork_with(|| {
        publish(3);
        dir.mark("child");
        dir.await_mark("end");
        dir.mark("ended");
    });
    dir.await_mark("child");
    holder(dir, &flight);
}

// Mutant: the child keeps the inherited file; the waiter's assertion then fails at the deadline.
#[test]
fn a_child_that_lives_on_does_not_keep_its_dead_parents_locks() {
    let (_temporary, dir) = setup();
    let leaker = Worker::start("leaker", &dir, 0);
    dir.await_mark("held");
    leaker.signal(Signal::KILL);
    let waiter = Worker::start("waiter", &dir, 1);
    waiter.finish();
    dir.mark("end");
    dir.await_mark("ended");
    assert_eq!(dir.made(), [key(1), key(2), key(3)].map(|key| key.to_string()));
}
