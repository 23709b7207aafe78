//! A lock and a set-once cell for processes that are forked while other threads use them.
//!
//! A forked child has the memory of its parent and of its threads the one that forked. What another thread was in the
//! middle of stays so for ever: a lock that it had is never unlocked, a `OnceLock` that it was filling is never full, and
//! whoever waits for either never returns. So the cell here is filled in one step that nobody waits for, and the lock
//! knows whose it is.
//!
//! ```text
//!   OwnMutex   free ──► taken, holder 0 ──► taken, holder 71 ──► taken, holder 0 ──► free
//!                                               │ fork
//!                                               └── in 84: 71 is no thread of ours, go on without
//! ```

use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use super::{Mutex, MutexGuard, sleep};

/// A cell that is set once. As `OnceLock`, but of two who set it the first wins and none waits.
///
/// Loom and shuttle do not look into it.
#[derive(Debug)]
pub(crate) struct SetOnce<T>(AtomicPtr<T>);

// SAFETY: it owns a `T`, which moves with it, and lends out nothing but `&T`.
unsafe impl<T: Send> Send for SetOnce<T> {}
// SAFETY: `&SetOnce<T>` gives `&T` to every thread, and takes a `T` from any.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

impl<T> SetOnce<T> {
    pub(crate) const fn new() -> Self {
        SetOnce(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or from `Box::into_raw` in `set`, never changed again and freed by `drop` alone, which nothing
        // borrowed outlives. Acquire meets the Release of `set`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The value: this one, or the one that was there already.
    pub(crate) fn set(&self, value: T) -> &T {
        let new = Box::into_raw(Box::new(value));
        let set =
            self.0.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire);
        match set {
            // SAFETY: as in `get`; this thread has just put it there.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                // SAFETY: it was made above, and went nowhere.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `get`.
                unsafe { &*theirs }
            }
        }
    }
}

impl<T> Drop for SetOnce<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: from `Box::into_raw` in `set`, and nobody can have it any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

/// A mutual exclusion lock that knows when a thread of another process has it: one that this process was forked from.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "the code layer has the only one"))]
pub(crate) struct OwnMutex<T> {
    /// The process whose thread has the lock; 0 for a moment after it was taken and before it is free.
    holder: AtomicU32,
    value: Mutex<T>,
}

/// A guard of [`OwnMutex`].
#[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "the code layer has the only one"))]
pub(crate) struct OwnGuard<'a, T> {
    holder: &'a AtomicU32,
    guard: MutexGuard<'a, T>,
}

#[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "the code layer has the only one"))]
impl<T> OwnMutex<T> {
    /// Locks it; `None` if the lock was held by another thread when this process was forked. It will then never be free.
    pub(crate) fn lock(&self) -> Option<OwnGuard<'_, T>> {
        /// Pauses until a holder that does not give its name is taken for one that will never do so.
        const PAUSES: usize = 1000;
        const PAUSE: Duration = Duration::from_micros(100);
        let process = std::process::id();
        let guard = 'locked: {
            for _ in 0..PAUSES {
                if let Some(guard) = self.value.try_lock() {
                    break 'locked guard;
                }
                match self.holder.load(Ordering::Relaxed) {
                    // Taken, or given back, just now.
                    0 => sleep(PAUSE),
                    // Whoever has it by now is a thread of this process too.
                    holder if holder == process => break 'locked self.value.lock(),
                    _ => return None,
                }
            }
            return None;
        };
        self.holder.store(process, Ordering::Relaxed);
        Some(OwnGuard { holder: &self.holder, guard })
    }

    /// Makes the thread that has the lock one of `process`.
    #[cfg(test)]
    pub(crate) fn pretend_held_by(&self, process: u32) {
        self.holder.store(process, Ordering::Relaxed);
    }
}

impl<T> Drop for OwnGuard<'_, T> {
    fn drop(&mut self) {
        self.holder.store(0, Ordering::Relaxed);
    }
}

impl<T> Deref for OwnGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for OwnGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    use std::thread;

    use nix::libc;

    use super::*;

    /// Counts its drops.
    struct Counted(Arc<AtomicUsize>, u32);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Mutants seen killed: the loser's value is not dropped; the last one wins.
    #[test]
    fn the_first_value_stays() {
        let drops = Arc::new(AtomicUsize::new(0));
        let cell = SetOnce::new();
        assert!(cell.get().is_none());
        assert_eq!(cell.set(Counted(drops.clone(), 1)).1, 1);
        assert_eq!(cell.set(Counted(drops.clone(), 2)).1, 1);
        assert_eq!((cell.get().unwrap().1, drops.load(Ordering::Relaxed)), (1, 1));
        drop(cell);
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn all_threads_see_one_value() {
        for _ in 0..200 {
            let cell = SetOnce::new();
            let seen: Vec<u32> = thread::scope(|scope| {
                let cell = &cell;
                let threads: Vec<_> = (0..3).map(|n| scope.spawn(move || *cell.set(n))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(seen, [seen[0]; 3]);
            assert_eq!(cell.get(), Some(&seen[0]));
        }
    }

    #[test]
    fn one_thread_at_a_time() {
        let sum = OwnMutex::<u32>::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5000).for_each(|_| *sum.lock().unwrap() += 1));
            }
        });
        assert_eq!(*sum.lock().unwrap(), 20_000);
    }

    /// A child is forked while another thread has the lock: it goes on without, its parent does not. Mutant seen killed:
    /// whoever is told as the holder is waited for.
    #[test]
    fn a_child_does_not_wait_for_a_thread_of_its_parent() {
        let lock = OwnMutex::<u32>::default();
        let (taken, is_taken) = channel();
        let (end, ends) = channel::<()>();
        thread::scope(|scope| {
            let lock = &lock;
            scope.spawn(move || {
                let mut guard = lock.lock().unwrap();
                taken.send(()).unwrap();
                ends.recv().unwrap();
                *guard = 7;
            });
            is_taken.recv().unwrap();
            // SAFETY: the child asks for the lock, which allocates nothing, and ends at once.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let code = i32::from(lock.lock().is_some());
                // SAFETY: ends the process, and nothing else; a signal ends it if it hangs.
                unsafe { libc::_exit(code) }
            }
            let code = exit_code_of(child);
            end.send(()).unwrap();
            assert_eq!(code, Some(0));
            assert_eq!(*lock.lock().unwrap(), 7);
        });
    }

    /// The exit code of a child; `None` if it had to be killed.
    fn exit_code_of(child: libc::pid_t) -> Option<i32> {
        for _ in 0..1000 {
            let mut status = 0;
            // SAFETY: writes to `status` alone.
            if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
                return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            }
            thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: `child` was not waited for, so the number is its own.
        unsafe { libc::kill(child, libc::SIGKILL) };
        None
    }
}
