//! One maker per key, among threads and among processes.
//!
//! ```text
//!   get(key)                                                      nobody has it in any tier
//!    │
//!   claim the cell ──another thread has it──► wait on the cell            cell.rs
//!    │ leader
//!   lease the byte ──another process has it─► look up, pause, try again   lease.rs, wait.rs
//!    │ holder
//!   look up again  ──it came meanwhile──────► take it
//!    │ still missing
//!   make and publish ► give back the lease ► settle the cell
//! ```
//!
//! The order of the last four is what makes "once": a key that was looked up under the lease and is not
//! there will not appear before the lease ends, and when it ends the value is where the next holder looks.
//!
//! Waiting is bounded and only ever saves work. After the deadline, without a lock file, and inside another
//! make (which must not wait, or two threads would wait for each other) the value is made once more and the
//! reason is told.

pub(crate) mod cell;
mod fork;
pub(crate) mod lease;
mod many;
pub(crate) mod wait;
mod walk;

#[cfg(test)]
mod fake;
#[cfg(all(test, not(any(loom, shuttle))))]
mod processes;
#[cfg(test)]
mod races;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::key::Key;
use crate::race::{Fault, planted};
use crate::store::Origin;
use crate::store::failpoint::{self, Step};
use crate::sync::{AtomicU64, Ordering};

use cell::{Claim, Flights, Leader, Waited};
use lease::{Acquired, ByteLocks, Lease};
use wait::{Backoff, Clock, Making, Patience, SystemClock, mix};

/// Faults that the race tests plant.
mod faults {
    use super::Fault;

    pub(super) const NO_SECOND_LOOK: Fault =
        Fault("whoever may make a key does not look whether it was made meanwhile");
    pub(super) const EARLY_RETURN: Fault = Fault("the lease is given back before the key is made");
    pub(super) const NO_LEASE: Fault = Fault("no other process is asked before a key is made");
    pub(super) const NESTED_WAIT: Fault = Fault("a thread that makes a key waits for another");
}

/// The tiers around the flight: what it asks of them while it waits for a key, and when it has one.
pub(crate) trait Tiers<T> {
    /// The value of `key` and the tier that has it, without waiting for anybody.
    fn lookup(&self, key: &Key) -> Option<(T, Origin)>;
    /// Whether no tier but this process's memory has anything at all, so that other keys need not be looked for one by one.
    fn is_empty(&self) -> bool {
        false
    }
    /// How long it took to make `key` the last time, if anybody remembers.
    fn cost(&self, key: &Key) -> Option<Duration>;
}

/// A value, and how it was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got<T> {
    pub(crate) value: T,
    /// `Made`, `Waited`, or the tier where it was found without waiting.
    pub(crate) origin: Origin,
    /// Why it was made here although another may have been making it.
    pub(crate) duplicate: Option<Duplicate>,
}

/// Why one value may have been made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Duplicate {
    /// The other maker took too long.
    DeadlinePassed,
    /// There is no telling what other processes do.
    LockUnavailable,
    /// This thread was making something else, and so could not wait.
    Nested,
}

/// Gives the number that random ones begin with.
type Seed = Box<dyn Fn() -> u64 + Send + Sync>;

/// The flights of one store.
pub(crate) struct SingleFlight<T, L, C = SystemClock> {
    cells: Flights<T>,
    /// `None` where no other process can see what this one makes.
    locks: Option<L>,
    clock: C,
    random: AtomicU64,
    seed: Seed,
}

impl<T, L, C> fmt::Debug for SingleFlight<T, L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").finish_non_exhaustive()
    }
}

impl<T: Clone, L: ByteLocks> SingleFlight<T, L> {
    /// Flights among the threads of this process and, with `locks`, among all processes that have those.
    ///
    /// `process` gives the id of the calling process, which is another in a forked child. `seed` should give
    /// another number in each process: it decides where [`get_many`](Self::get_many) begins. It is asked when that is first needed.
    pub(crate) fn new(
        locks: Option<L>,
        process: impl Fn() -> u32 + Send + Sync + 'static,
        seed: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self::with_clock(locks, process, seed, SystemClock)
    }
}

impl<T: Clone, L: ByteLocks, C: Clock> SingleFlight<T, L, C> {
    fn with_clock(
        locks: Option<L>,
        process: impl Fn() -> u32 + Send + Sync + 'static,
        seed: impl Fn() -> u64 + Send + Sync + 'static,
        clock: C,
    ) -> Self {
        let cells = Flights::new(process);
        SingleFlight { cells, locks, clock, random: AtomicU64::new(0), seed: Box::new(seed) }
    }

    /// The value of `key`, which the caller has just looked for in vain: from another thread or process
    /// that is making it, or from `make`, which makes *and publishes* it, so that a look-up finds it.
    ///
    /// Fails with `make`'s own error, which nobody else sees: one of those who waited tries next. So it is
    /// with a panic of `make`.
    pub(crate) fn get<E>(
        &self,
        key: &Key,
        tiers: &impl Tiers<T>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Got<T>, E> {
        let mut call = Call { flight: self, key, tiers, patience: None };
        loop {
            let follower = match self.cells.claim(key) {
                Claim::Leader(leader) => return call.lead(leader, make),
                Claim::Follower(follower) => follower,
            };
            match call.left(Other::Thread) {
                Err(reason) => return call.make(Permit::without(reason), make),
                Ok(left) => match follower.wait(left) {
                    Waited::Value(value) => {
                        return Ok(Got { value, origin: Origin::Waited, duplicate: None });
                    }
                    Waited::Abandoned | Waited::TimedOut => {}
                },
            }
        }
    }

    /// Asks for the right to make the leader's key; `None` if another process is making it.
    fn acquire<'a>(&self, leader: &'a Leader<'_, T>) -> Option<Permit<'a, L::Guard>> {
        let Some(locks) = self.locks.as_ref().filter(|_| !planted(faults::NO_LEASE)) else {
            return Some(Permit { lease: None, duplicate: None });
        };
        match Lease::acquire(locks, leader) {
            Acquired::Held(lease) => {
                failpoint::at(Step::LeaseTaken);
                Some(Permit { lease: Some(lease), duplicate: None })
            }
            Acquired::Busy => None,
            Acquired::Unavailable(error) => {
                tracing::debug!(key = %leader.key(), %error, "no telling who else makes it");
                Some(Permit::without(Duplicate::LockUnavailable))
            }
        }
    }

    /// A number that is another at each call, also in children that were forked from one parent.
    fn random(&self) -> u64 {
        let process = u64::from(self.cells.process()) << 32;
        let number = match self.random.fetch_add(1, Ordering::Relaxed) {
            0 => {
                let seed = (self.seed)();
                self.random.fetch_add(seed, Ordering::Relaxed);
                seed
            }
            number => number,
        };
        mix(number ^ process)
    }
}

/// The right to make a key, held while it is made.
#[derive(Debug)]
struct Permit<'a, G> {
    lease: Option<Lease<'a, G>>,
    duplicate: Option<Duplicate>,
}

impl<G> Permit<'_, G> {
    /// To make it no matter who else does.
    fn without(reason: Duplicate) -> Self {
        Permit { lease: None, duplicate: Some(reason) }
    }
}

/// One caller's asking for one key.
struct Call<'c, T, L, C, S> {
    flight: &'c SingleFlight<T, L, C>,
    key: &'c Key,
    tiers: &'c S,
    /// Set once the call had to wait.
    patience: Option<Patience>,
}

impl<T: Clone, L: ByteLocks, C: Clock, S: Tiers<T>> Call<'_, T, L, C, S> {
    /// Waits for other processes on behalf of all threads of this one: they wait on the leader's cell.
    fn lead<E>(
        &mut self,
        leader: Leader<'_, T>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Got<T>, E> {
        let flight = self.flight;
        let mut backoff = None;
        let permit = loop {
            if let Some(permit) = flight.acquire(&leader) {
                break permit;
            }
            let left = match self.left(Other::Process) {
                Err(reason) => break Permit::without(reason),
                Ok(left) => left,
            };
            let backoff = backoff.get_or_insert_with(|| Backoff::new(flight.random()));
            flight.clock.sleep(backoff.next().min(left));
            if let Some(got) = self.look_up() {
                leader.finish(got.value.clone());
                return Ok(got);
            }
        };
        let got = self.make(permit, make)?;
        failpoint::at(Step::LeaseBack);
        leader.finish(got.value.clone());
        Ok(got)
    }

    /// The value if it came since it was last looked for, or else made here. The permit ends here, which
    /// is before its leader's cell is settled and after the value was published.
    fn make<E>(
        &self,
        mut permit: Permit<'_, L::Guard>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Got<T>, E> {
        if let Some(got) = self.look_up().filter(|_| !planted(faults::NO_SECOND_LOOK)) {
            return Ok(got);
        }
        if planted(faults::EARLY_RETURN) {
            permit.lease = None;
        }
        let _making = Making::begin();
        failpoint::making(permit.duplicate.map_or(0, |duplicate| duplicate as u8 + 1));
        Ok(Got { value: make()?, origin: Origin::Made, duplicate: permit.duplicate })
    }

    fn look_up(&self) -> Option<Got<T>> {
        let (value, tier) = self.tiers.lookup(self.key)?;
        let origin = if self.patience.is_some() { Origin::Waited } else { tier };
        Some(Got { value, origin, duplicate: None })
    }

    /// How much longer to wait for another maker, or why not at all.
    fn left(&mut self, other: Other) -> Result<Duration, Duplicate> {
        if Making::is_nested() && !planted(faults::NESTED_WAIT) {
            return Err(Duplicate::Nested);
        }
        let now = self.flight.clock.now();
        let patience =
            self.patience.get_or_insert_with(|| Patience::begin(now, self.tiers.cost(self.key)));
        let left = match other {
            Other::Thread => patience.left_for_thread(now),
            Other::Process => patience.left_for_process(now),
        };
        if left.is_zero() { Err(Duplicate::DeadlinePassed) } else { Ok(left) }
    }

    /// Why a call that has begun to wait stops waiting, if it does.
    fn gives_up(&mut self, other: Other) -> Option<Duplicate> {
        self.patience.and_then(|_| self.left(other).err())
    }
}

/// Who else is making a key.
#[derive(Clone, Copy, Debug)]
enum Other {
    Thread,
    Process,
}
