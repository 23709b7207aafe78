//! Simulated processes, locks, time and tiers for the tests of the flight.

use std::collections::BTreeMap;
use std::io;
// An id changes in a fork and in no race: loom need not look.
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::lease::{Leases, LockFile};
use super::wait::Clock;
use super::{SingleFlight, Tiers};
use crate::key::Key;
use crate::store::Origin;
use crate::store::disk::fs::Fs;
use crate::sync::{self, Arc, AtomicBool, Mutex, Ordering};

/// The operations of [`Fs`] that the flight does not use.
macro_rules! not_of_flight {
    ($handle:ty) => {
        not_of_flight! {
            root() -> $handle;
            walk(&$handle, &str) -> $handle;
            read_link(&$handle, &str) -> String;
            writable(&$handle) -> bool;
            read_new(&$handle, usize, u64) -> Vec<u8>;
            open_dir(&$handle, &str) -> $handle;
            make_dir(&$handle, &str) -> ();
            open(&$handle, &str, $crate::store::disk::fs::Access) -> $handle;
            stat(&$handle) -> $crate::store::disk::fs::Stat;
            stat_at(&$handle, &str) -> $crate::store::disk::fs::Stat;
            read_at(&$handle, &mut [u8], u64) -> usize;
            write_all_at(&$handle, &[u8], u64) -> ();
            allocate(&$handle, u64, u64) -> ();
            sync(&$handle) -> ();
            rename(&$handle, &str, &$handle, &str) -> ();
            rename_new(&$handle, &str, &$handle, &str) -> ();
            unlink(&$handle, &str) -> ();
            remove_dir(&$handle, &str) -> ();
            list(&$handle) -> Vec<String>;
            touch(&$handle) -> ();
            class(&$handle) -> $crate::store::disk::fs::FsClass;
            try_lock(&$handle) -> bool;
            unlock(&$handle) -> ();
        }
        fn unix_seconds(&self) -> u64 {
            unreachable!()
        }
        fn user(&self) -> u32 {
            unreachable!()
        }
        fn boot_id(&self) -> [u8; 16] {
            unreachable!()
        }
    };
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $(_: $argument),*) -> std::io::Result<$result> {
            unreachable!()
        })*
    };
}
pub(crate) use not_of_flight;

/// The n-th of some keys that share a shard and differ in the byte they lock.
pub(crate) fn key(n: u8) -> Key {
    let mut bytes = [0; 32];
    bytes[15] = n;
    Key::from_bytes(bytes)
}

/// What the simulated kernel knows: who has locked which byte of which file.
#[derive(Debug, Default)]
pub(crate) struct World {
    kernel: Mutex<Kernel>,
}

#[derive(Debug, Default)]
struct Kernel {
    locks: Vec<Lock>,
    /// How often somebody asked for a byte.
    asked: usize,
    opened: u32,
    closed: Vec<u32>,
    /// Changes when the lock file is replaced by another of its name.
    file: u32,
    failing: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Lock {
    file: u32,
    offset: u64,
    holder: u32,
    process: u32,
}

/// The id of a process that runs no code here.
const ELSEWHERE: u32 = u32::MAX;

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Somebody removes the lock file by hand; the next to open it makes another.
    pub(crate) fn replace_file(&self) {
        self.kernel.lock().file += 1;
    }

    /// Whether bytes cannot be locked.
    pub(crate) fn fail_locks(&self, failing: bool) {
        self.kernel.lock().failing = failing;
    }

    /// A process elsewhere takes the lease of `key`.
    pub(crate) fn occupy(&self, key: &Key) {
        let mut kernel = self.kernel.lock();
        let file = kernel.file;
        let offset = key.word(1) >> 2;
        kernel.locks.push(Lock { file, offset, holder: ELSEWHERE, process: ELSEWHERE });
    }

    /// The process ends: the kernel closes its files.
    pub(crate) fn kill(&self, process: u32) {
        self.kernel.lock().locks.retain(|lock| lock.process != process);
    }

    /// The process elsewhere ends.
    pub(crate) fn vacate(&self) {
        self.kill(ELSEWHERE);
    }

    /// How many bytes are locked.
    pub(crate) fn locked(&self) -> usize {
        self.kernel.lock().locks.len()
    }

    /// How often somebody asked for a byte, and got it or not.
    pub(crate) fn asked(&self) -> usize {
        self.kernel.lock().asked
    }

    /// How often the lock file was opened, and which of the open files were closed.
    pub(crate) fn opened(&self) -> (u32, Vec<u32>) {
        let kernel = self.kernel.lock();
        (kernel.opened, kernel.closed.clone())
    }
}

/// The world as one process sees it.
#[derive(Debug)]
pub(crate) struct Process {
    world: Arc<World>,
    id: AtomicU32,
}

impl Process {
    pub(crate) fn new(world: &Arc<World>, id: u32) -> Arc<Self> {
        Arc::new(Process { world: world.clone(), id: AtomicU32::new(id) })
    }

    /// Goes on as a child would: with the same open files and another id.
    pub(crate) fn fork(&self, id: u32) {
        self.id.store(id, Ordering::Relaxed);
    }
}

/// An open file. Several processes may have it after a fork, so closing it here ends no locks.
#[derive(Debug)]
pub(crate) struct OpenFile {
    world: Arc<World>,
    file: u32,
    number: u32,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.world.kernel.lock().closed.push(self.number);
    }
}

struct TheFile(Arc<Process>);

impl LockFile<Process> for TheFile {
    fn open(&self) -> io::Result<OpenFile> {
        let world = self.0.world.clone();
        let mut kernel = world.kernel.lock();
        kernel.opened += 1;
        let (file, number) = (kernel.file, kernel.opened);
        drop(kernel);
        Ok(OpenFile { world, file, number })
    }

    fn is_current(&self, file: &OpenFile) -> io::Result<bool> {
        Ok(self.0.world.kernel.lock().file == file.file)
    }
}

impl Fs for Process {
    type Handle = OpenFile;

    fn try_lock_byte(&self, file: &OpenFile, offset: u64) -> io::Result<bool> {
        let mut kernel = self.world.kernel.lock();
        kernel.asked += 1;
        if kernel.failing {
            return Err(io::Error::other("no locks available"));
        }
        let process = self.process();
        let lock = Lock { file: file.file, offset, holder: file.number, process };
        // As the kernel has it: locks of one open file do not exclude each other, and do not add up.
        match kernel.locks.iter().find(|held| (held.file, held.offset) == (lock.file, offset)) {
            Some(held) => Ok(held.holder == lock.holder),
            None => {
                kernel.locks.push(lock);
                Ok(true)
            }
        }
    }

    fn unlock_byte(&self, file: &OpenFile, offset: u64) -> io::Result<()> {
        let held = |lock: &Lock| (lock.holder, lock.offset) == (file.number, offset);
        self.world.kernel.lock().locks.retain(|lock| !held(lock));
        Ok(())
    }

    fn process(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }

    fn random(&self) -> [u8; 16] {
        [self.process() as u8; 16]
    }

    not_of_flight!(OpenFile);
}

/// A clock that stands still but for the sleeping, and tells how long that was.
pub(crate) struct FakeClock {
    begin: Instant,
    slept: Mutex<Duration>,
    /// What happens elsewhere once a total time was slept.
    events: Mutex<Vec<(Duration, Box<dyn FnOnce() + Send>)>>,
}

impl FakeClock {
    pub(crate) fn new() -> Self {
        let (slept, events) = (Mutex::default(), Mutex::default());
        FakeClock { begin: sync::now(), slept, events }
    }

    /// Lets `event` happen during the sleep in which `after` has passed.
    pub(crate) fn then(self, after: Duration, event: impl FnOnce() + Send + 'static) -> Self {
        self.expect(after, event);
        self
    }

    /// As [`then`](Self::then), while the clock is in use.
    pub(crate) fn expect(&self, after: Duration, event: impl FnOnce() + Send + 'static) {
        self.events.lock().push((after, Box::new(event)));
    }

    pub(crate) fn slept(&self) -> Duration {
        *self.slept.lock()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        self.begin + self.slept()
    }

    fn sleep(&self, duration: Duration) {
        let slept = {
            let mut slept = self.slept.lock();
            *slept += duration;
            *slept
        };
        let due: Vec<_> = self.events.lock().extract_if(.., |(after, _)| *after <= slept).collect();
        due.into_iter().for_each(|(_, event)| event());
        sync::sleep(Duration::ZERO);
    }
}

/// A clock that stands still: whoever waits by it waits until something happens.
pub(crate) struct StillClock(Instant);

impl StillClock {
    pub(crate) fn new() -> Self {
        StillClock(sync::now())
    }
}

impl Clock for StillClock {
    fn now(&self) -> Instant {
        self.0
    }

    fn sleep(&self, _: Duration) {
        sync::sleep(Duration::from_micros(20));
    }
}

/// Where values are published: the tiers that threads and processes share. Counts who makes what, and
/// fails if a key is made by two at once or by a second one after it was published.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    state: Mutex<ShelfState>,
    cost: Mutex<Option<Duration>>,
    /// Whether making a key twice is no failure.
    lenient: AtomicBool,
}

#[derive(Debug, Default)]
struct ShelfState {
    values: BTreeMap<Key, u32>,
    making: Vec<Key>,
    made: BTreeMap<Key, usize>,
    looked: usize,
}

impl Shelf {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Allows keys to be made more than once.
    pub(crate) fn lenient(&self) {
        self.lenient.store(true, Ordering::Relaxed);
    }

    /// Remembers what every key costs.
    pub(crate) fn set_cost(&self, cost: Duration) {
        *self.cost.lock() = Some(cost);
    }

    pub(crate) fn publish(&self, key: &Key, value: u32) {
        self.state.lock().values.insert(*key, value);
    }

    /// Makes and publishes.
    pub(crate) fn make(&self, key: &Key, value: u32) -> u32 {
        self.make_with(key, || Ok::<_, ()>(value)).unwrap()
    }

    /// Makes with `work` and publishes, if that succeeds.
    pub(crate) fn make_with<E>(
        &self,
        key: &Key,
        work: impl FnOnce() -> Result<u32, E>,
    ) -> Result<u32, E> {
        let strict = !self.lenient.load(Ordering::Relaxed);
        {
            let mut state = self.state.lock();
            let (twice, again) = (state.making.contains(key), state.values.contains_key(key));
            state.making.push(*key);
            drop(state);
            assert!(!(strict && twice), "made by two at once");
            assert!(!(strict && again), "made again after it was published");
        }
        let working = Working(self, *key);
        if cfg!(not(any(loom, shuttle))) {
            // Real threads would hardly ever meet.
            sync::sleep(Duration::from_micros(50));
        }
        let value = work()?;
        let mut state = self.state.lock();
        *state.made.entry(*key).or_default() += 1;
        let value = *state.values.entry(*key).or_insert(value);
        drop(state);
        drop(working);
        Ok(value)
    }

    /// How often a key was made and published.
    pub(crate) fn made(&self, key: &Key) -> usize {
        self.state.lock().made.get(key).copied().unwrap_or(0)
    }

    /// How often something was looked up.
    pub(crate) fn looked(&self) -> usize {
        self.state.lock().looked
    }
}

struct Working<'a>(&'a Shelf, Key);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let at = state.making.iter().position(|key| *key == self.1).expect("it is being made");
        state.making.swap_remove(at);
    }
}

impl Tiers<u32> for Shelf {
    fn lookup(&self, key: &Key) -> Option<(u32, Origin)> {
        let mut state = self.state.lock();
        state.looked += 1;
        Some((*state.values.get(key)?, Origin::Disk))
    }

    fn cost(&self, _: &Key) -> Option<Duration> {
        *self.cost.lock()
    }
}

/// The leases of this process.
pub(crate) fn leases(process: &Arc<Process>) -> Leases<Process> {
    Leases::new(process.clone(), TheFile(process.clone()))
}

/// A flight among threads alone.
pub(crate) fn among_threads<C: Clock>(clock: C) -> SingleFlight<u32, Process, C> {
    SingleFlight::new(Process::new(&World::new(), 1), None, clock)
}

/// A flight of this process among all of its world.
pub(crate) fn among_processes<C: Clock>(
    process: &Arc<Process>,
    clock: C,
) -> SingleFlight<u32, Process, C> {
    SingleFlight::new(process.clone(), Some(leases(process)), clock)
}
