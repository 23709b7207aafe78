//! Simulated processes, locks, time and tiers for the tests of the flight.

#![cfg_attr(any(loom, shuttle), allow(dead_code, reason = "the races need only a part of it"))]

use std::collections::BTreeMap;
use std::io;
// An id changes in a fork and in no race: loom need not look.
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::lease::ByteLocks;
use super::wait::Clock;
use super::{SingleFlight, Tiers};
use crate::key::Key;
use crate::store::Origin;
use crate::sync::{self, Arc, AtomicBool, Mutex, Ordering};

/// The n-th of some keys that share a shard and differ in the byte they lock.
pub(crate) fn key(n: u8) -> Key {
    let mut bytes = [0; 32];
    bytes[15] = n;
    Key::from_bytes(bytes)
}

/// What the simulated kernel knows: which process has locked which byte.
#[derive(Debug, Default)]
pub(crate) struct World {
    kernel: Mutex<Kernel>,
}

#[derive(Debug, Default)]
struct Kernel {
    locks: Vec<(u64, u32)>,
    asked: usize,
    failing: bool,
}

/// The id of a process that runs no code here.
const ELSEWHERE: u32 = u32::MAX;

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Whether bytes cannot be locked.
    pub(crate) fn fail_locks(&self, failing: bool) {
        self.kernel.lock().failing = failing;
    }

    /// A process elsewhere takes the lease of `key`.
    pub(crate) fn occupy(&self, key: &Key) {
        self.kernel.lock().locks.push((key.word(1) >> 2, ELSEWHERE));
    }

    /// The process ends, and its locks with it.
    pub(crate) fn kill(&self, process: u32) {
        self.kernel.lock().locks.retain(|&(_, holder)| holder != process);
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

    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }

    /// Goes on as a child would: with the same memory and another id.
    pub(crate) fn fork(&self, id: u32) {
        self.id.store(id, Ordering::Relaxed);
    }
}

/// A byte that is locked; released when dropped, but not in a child.
#[derive(Debug)]
pub(crate) struct Locked {
    process: Arc<Process>,
    offset: u64,
    holder: u32,
}

impl ByteLocks for Arc<Process> {
    type Guard = Locked;

    fn try_lock_byte(&self, offset: u64) -> io::Result<Option<Locked>> {
        let holder = self.id();
        let mut kernel = self.world.kernel.lock();
        kernel.asked += 1;
        if kernel.failing {
            return Err(io::Error::other("no locks available"));
        }
        // As the kernel has it: locks of one process do not exclude each other, and do not add up.
        match kernel.locks.iter().find(|&&(at, _)| at == offset) {
            Some(&(_, other)) if other != holder => return Ok(None),
            Some(_) => {}
            None => kernel.locks.push((offset, holder)),
        }
        Ok(Some(Locked { process: self.clone(), offset, holder }))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.process.id() == self.holder {
            let lock = (self.offset, self.holder);
            self.process.world.kernel.lock().locks.retain(|held| *held != lock);
        }
    }
}

/// A clock that stands still but for the sleeping, and tells how long that was.
pub(crate) struct FakeClock {
    begin: Instant,
    slept: Mutex<Duration>,
    /// What happens elsewhere once a total time was slept.
    events: Mutex<Vec<(Duration, Event)>>,
}

type Event = Box<dyn FnOnce() + Send>;

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

/// A flight among threads alone.
pub(crate) fn among_threads<C: Clock>(clock: C) -> SingleFlight<u32, Arc<Process>, C> {
    SingleFlight::with_clock(None, || 1, || 1, clock)
}

/// A flight of this process among all of its world.
pub(crate) fn among_processes<C: Clock>(
    process: &Arc<Process>,
    clock: C,
) -> SingleFlight<u32, Arc<Process>, C> {
    let id = {
        let process = process.clone();
        move || process.id()
    };
    let seed = {
        let process = process.clone();
        move || process.id().into()
    };
    SingleFlight::with_clock(Some(process.clone()), id, seed, clock)
}
