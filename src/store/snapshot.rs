//! A value that is read without a lock or a count, and replaced as a whole.
//!
//! ```text
//!   readers   guard ──► pointer ──► value          three loads and the guard's two stores
//!   writers   copy, change ──► exchange ──► retire the old one
//! ```
//!
//! To take a lock, count a reference up and give both back are four locked instructions, some five nanoseconds each, which
//! a look-up in the directory did three times: that was a third of what it took. There is also no lock that a forked
//! child could find taken.

use std::fmt;
use std::marker::PhantomData;

use super::memory::Reclaim;
use crate::race::{Fault, planted};
use crate::sync::{AtomicPtr, Ordering};

/// Planted: who replaces a value does not look whether another was faster.
const BLIND: Fault = Fault("a snapshot is replaced by one that was made from an older one");

/// A value that threads share.
pub(crate) struct Snapshot<T, R: Reclaim> {
    value: AtomicPtr<T>,
    reclaim: R,
    owned: PhantomData<Box<T>>,
}

impl<T: Send + Sync + 'static, R: Reclaim> Snapshot<T, R> {
    pub(crate) fn new(value: T) -> Self {
        let value = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Snapshot { value, reclaim: R::default(), owned: PhantomData }
    }

    /// A guard, for [`get`](Self::get). While it is held, nothing that is replaced anywhere is freed.
    #[inline(always)]
    pub(crate) fn pin(&self) -> R::Guard {
        self.reclaim.pin()
    }

    /// The value, which stays while the guard is held, whatever takes its place.
    #[inline(always)]
    pub(crate) fn get<'g>(&'g self, guard: &'g R::Guard) -> &'g T {
        // SAFETY: never null, from a box, and retired only after another took its place.
        unsafe { self.reclaim.get(self.value.load(Ordering::Acquire), guard) }
    }

    /// What `see` makes of the value.
    pub(crate) fn with<U>(&self, see: impl FnOnce(&T) -> U) -> U {
        see(self.get(&self.pin()))
    }

    /// Puts what `change` makes of the value in its place, if it makes one: whether it did. It is asked again when another was
    /// faster.
    pub(crate) fn update(&self, mut change: impl FnMut(&T) -> Option<T>) -> bool {
        let guard = self.pin();
        loop {
            let old = self.value.load(Ordering::Acquire);
            // SAFETY: as in `get`.
            let Some(new) = change(unsafe { self.reclaim.get(old, &guard) }) else {
                return false;
            };
            let new = Box::into_raw(Box::new(new));
            let expected = if planted(BLIND) { self.value.load(Ordering::Acquire) } else { old };
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            if self.value.compare_exchange(expected, new, success, failure).is_ok() {
                // SAFETY: it came from a box, and this thread alone took it away: no later guard leads to it.
                unsafe { self.reclaim.retire(expected, &guard) };
                return true;
            }
            // SAFETY: it was made above, and went nowhere.
            drop(unsafe { Box::from_raw(new) });
        }
    }

    /// As [`update`](Self::update) to a value that depends on no other.
    pub(crate) fn set(&self, value: T)
    where
        T: Clone,
    {
        self.update(|_| Some(value.clone()));
    }

    /// Lets go of what was replaced, as far as no guard is held, and not only when much more was: of a mapping or a file. Takes
    /// some µs, and the first time in a process that has threads some ms.
    pub(crate) fn settle(&self) {
        // What was retired is freed two epochs later.
        for _ in 0..3 {
            self.reclaim.flush(&self.pin());
        }
    }
}

impl<T, R: Reclaim> Drop for Snapshot<T, R> {
    fn drop(&mut self) {
        // SAFETY: from a box; nobody else is here.
        drop(unsafe { Box::from_raw(self.value.load(Ordering::Acquire)) });
    }
}

impl<T: fmt::Debug + Send + Sync + 'static, R: Reclaim> fmt::Debug for Snapshot<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|value| value.fmt(f))
    }
}

#[cfg(test)]
mod races {
    use super::*;
    use crate::race::check;
    use crate::store::memory::Keep;
    use crate::sync::{Arc, thread};

    /// Two writers that add to what is there, and a reader that looks twice.
    fn add_and_look() -> (u32, bool) {
        let shared = Arc::new(Snapshot::<u32, Keep>::new(0));
        let writer = |n: u32| {
            let shared = shared.clone();
            thread::spawn(move || assert!(shared.update(|value| Some(value + n))))
        };
        let (one, ten) = (writer(1), writer(10));
        let look = || shared.with(|value| *value);
        let (first, second) = (look(), look());
        one.join().unwrap();
        ten.join().unwrap();
        (shared.with(|value| *value), first <= second)
    }

    const SEEN: [(u32, bool); 1] = [(11, true)];

    #[test]
    fn no_change_is_lost() {
        check("snapshot", SEEN, add_and_look);
    }

    #[cfg(any(loom, shuttle))]
    mod planted {
        use super::*;
        use crate::race::reject;

        #[test]
        fn blind_change() {
            reject(BLIND, SEEN, add_and_look);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::memory::Epoch;

    /// Kills: the old value freed at once; not freed at all.
    #[test]
    fn what_is_replaced_goes_when_nobody_looks() {
        let part = Arc::new(7);
        let shared = Snapshot::<_, Epoch>::new(Some(part.clone()));
        let guard = shared.pin();
        let seen = shared.get(&guard);
        shared.set(None);
        shared.settle();
        // First the count: of what is freed nothing is to be read.
        assert_eq!(Arc::strong_count(&part), 2);
        assert_eq!(seen.as_deref(), Some(&7));
        drop(guard);
        // Other tests' guards may be in the way for a while.
        let gone = (0..1_000_000).any(|_| {
            shared.settle();
            std::thread::yield_now();
            Arc::strong_count(&part) == 1
        });
        assert!(gone);
    }
}
