//! The only place that names an atomic, a lock, a thread or a clock.
//!
//! Everything else imports from here, so that one body of code runs on threads, under loom
//! (`--cfg loom`, every interleaving of a small case) and under shuttle (`--cfg shuttle`, many random
//! schedules of a larger one).
//!
//! ```text
//!   cfg(loom) ──► loom      cfg(shuttle) ──► shuttle      otherwise ──► std
//! ```
//!
//! Locks here have no poisoning: a panic under a lock is the panicking caller's business, and every
//! critical section of this crate leaves its data whole at each step.

#![allow(unused_imports, reason = "not every build uses every primitive")]

#[cfg(not(shuttle))]
pub(crate) mod asymmetric;
pub(crate) mod fork;

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread,
};
#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread,
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread,
};

/// Words of mapped files are the machine's own atomics in every build: no other kind can lie in a file.
pub(crate) use std::sync::atomic::{AtomicU64 as MappedU64, fence as mapped_fence};

#[cfg(loom)]
use loom::sync as imp;
#[cfg(all(shuttle, not(loom)))]
use shuttle::sync as imp;
#[cfg(not(any(loom, shuttle)))]
use std::sync as imp;

#[cfg(loom)]
pub(crate) use loom::thread_local;
#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::thread_local;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::thread_local;

/// Set once and read ever after: the same in every build, neither loom nor shuttle looks into it. Where a process may be
/// forked while it is being set: [`fork::SetOnce`].
pub(crate) use std::sync::OnceLock;

use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A guard of [`Mutex`].
pub(crate) type MutexGuard<'a, T> = imp::MutexGuard<'a, T>;

/// A mutual exclusion lock that a panic does not poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks it, unless somebody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks it, unless somebody has it for longer than it takes to take or replace what is in it: `None` then, and the
    /// caller goes on without. In a forked child that may be a thread that only the parent has, for whom the child would
    /// wait for ever.
    pub(crate) fn lock_soon(&self) -> Option<MutexGuard<'_, T>> {
        const SPINS: usize = 200;
        const SLEEPS: usize = 20;
        for n in 0..SPINS + SLEEPS {
            match self.try_lock() {
                Some(guard) => return Some(guard),
                None if n < SPINS => std::hint::spin_loop(),
                None => sleep(Duration::from_micros(50)),
            }
        }
        None
    }

    /// Sets the value, unless the lock is not to be had [soon](Self::lock_soon). The one before is dropped when the lock
    /// is free again: what that does may take long (unmap memory, close a file).
    pub(crate) fn try_set(&self, value: T) {
        let Some(mut guard) = self.lock_soon() else { return };
        let old = std::mem::replace(&mut *guard, value);
        drop(guard);
        drop(old);
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(imp::Condvar::new())
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits at most `limit`; says whether the limit was reached.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, result) =
            self.0.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }
}

/// A number that nobody else in this process gets.
#[cfg(feature = "jit")]
pub(crate) fn unique() -> u64 {
    static NEXT: MappedU64 = MappedU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The monotonic clock of this process.
pub(crate) fn now() -> Instant {
    #[cfg(all(test, not(loom)))]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// Lets others run for this long; a model has no time, there it only lets others run.
pub(crate) fn sleep(duration: Duration) {
    #[cfg(all(test, not(loom)))]
    if simulated::sleep(duration) {
        return;
    }
    #[cfg(not(any(loom, shuttle)))]
    thread::sleep(duration);
    #[cfg(any(loom, shuttle))]
    {
        let _ = duration;
        thread::yield_now();
    }
}

/// Lets about half a microsecond go by without giving up the processor; a model lets others run.
pub(crate) fn spin() {
    #[cfg(all(test, not(loom)))]
    if simulated::sleep(Duration::from_micros(1)) {
        return;
    }
    #[cfg(not(any(loom, shuttle)))]
    for _ in 0..10 {
        std::hint::spin_loop();
    }
    #[cfg(any(loom, shuttle))]
    thread::yield_now();
}

/// Seconds since 1970 on this machine's clock; 0 before that.
pub(crate) fn unix_seconds() -> u64 {
    #[cfg(all(test, not(loom)))]
    if let Some(seconds) = simulated::unix_seconds() {
        return seconds;
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // Asked at every hit in the directory: the kernel's last tick will do, and takes a tenth.
        // SAFETY: a null pointer asks for the answer alone.
        let now = unsafe { nix::libc::time(std::ptr::null_mut()) };
        u64::try_from(now).unwrap_or(0)
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

/// Time as a simulation has it, in the place of the machine's: for the threads that say so.
#[cfg(all(test, not(loom)))]
pub(crate) mod simulated {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// A clock that somebody else moves.
    pub(crate) trait Clock {
        /// The time since 1970.
        fn now(&self) -> Duration;
        /// Lets time pass, and others go on.
        fn sleep(&self, duration: Duration);
    }

    std::thread_local! {
        static CLOCK: RefCell<Option<Rc<dyn Clock>>> = const { RefCell::new(None) };
    }

    /// Gives this thread a clock, or its own again.
    pub(crate) fn set(clock: Option<Rc<dyn Clock>>) {
        CLOCK.set(clock);
    }

    fn clock() -> Option<Rc<dyn Clock>> {
        // A thread that is ending has no clock any more.
        CLOCK.try_with(|clock| clock.borrow().clone()).ok().flatten()
    }

    pub(super) fn now() -> Option<Instant> {
        static ZERO: OnceLock<Instant> = OnceLock::new();
        Some(*ZERO.get_or_init(Instant::now) + clock()?.now())
    }

    pub(super) fn sleep(duration: Duration) -> bool {
        clock().map(|clock| clock.sleep(duration)).is_some()
    }

    pub(super) fn unix_seconds() -> Option<u64> {
        Some(clock()?.now().as_secs())
    }
}
