//! When memory that was unlinked may be given back.
//!
//! A reader holds no lock, so a node that was just taken out of its bucket may be in a reader's hands. Readers
//! therefore hold a *guard*, and what was unlinked is *retired*: freed once every guard that existed at that
//! moment is gone.
//!
//! | | a guard costs | retired memory is freed |
//! |---|---|---|
//! | `Keep` | nothing | when the table is dropped |
//! | [`Epoch`] | a nanosecond: two stores to a line of this thread | two epochs later |
//!
//! `Keep` suits tables that never remove: what they retire is the arrays they outgrew, together no larger
//! than the one in use.

#[cfg(any(test, loom, shuttle, feature = "benching"))]
use std::ptr;

#[cfg(any(test, loom, shuttle, feature = "benching"))]
use crate::sync::{AtomicPtr, Ordering};

/// A way to give memory back.
///
/// # Safety
///
/// What [`retire`](Self::retire) was given must stay valid as long as a guard exists that was made
/// before that call.
pub(crate) unsafe trait Reclaim: Default + Send + Sync + 'static {
    /// Holds back what is retired while it exists.
    type Guard;

    /// A guard; it should be dropped soon.
    fn pin(&self) -> Self::Guard;

    /// The thing at `target`.
    ///
    /// # Safety
    ///
    /// `target` is valid and unchanging, and was not yet retired when `guard` was made.
    #[inline(always)]
    unsafe fn get<'g, T>(&self, target: *mut T, _guard: &'g Self::Guard) -> &'g T {
        // SAFETY: valid, and freed only once the guard is gone, by the contract of this function and of
        // `retire`.
        unsafe { &*target }
    }

    /// Frees the box at `target`, when that may be.
    ///
    /// # Safety
    ///
    /// `target` came from [`Box::into_raw`] and is retired once. No guard that is made after this call leads
    /// to it.
    unsafe fn retire<T: Send + 'static>(&self, target: *mut T, guard: &Self::Guard);

    /// Lets other threads free what this one retired, instead of waiting until it has retired more.
    fn flush(&self, _guard: &Self::Guard) {}
}

/// The epochs of this process. The models, which cannot see it, have [`Keep`] instead.
#[cfg(not(any(loom, shuttle)))]
pub(crate) use process::Epoch;

#[cfg(any(loom, shuttle))]
pub(crate) type Epoch = Keep;

#[cfg(not(any(loom, shuttle)))]
mod process {
    use std::cell::Cell;
    use std::marker::PhantomData;

    use super::super::epoch::{Domain, Slot};
    use super::{Reclaim, free};
    use crate::sync::thread_local;

    /// One for all tables: a thread has one slot, however many it uses.
    static DOMAIN: Domain = Domain::new();

    thread_local! {
        // Without a destructor, so that a hit looks at nothing but this.
        static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
        static OWNED: Owned = const { Owned(Cell::new(None)) };
    }

    /// Gives the slot back when the thread ends.
    struct Owned(Cell<Option<&'static Slot>>);

    impl Drop for Owned {
        fn drop(&mut self) {
            SLOT.set(None);
            self.0.take().inspect(|slot| slot.give_back());
        }
    }

    /// This thread's first slot; or its last, kept for ever, if its destructors go on using a table after
    /// ours has run.
    #[cold]
    fn new_slot() -> &'static Slot {
        let slot = DOMAIN.take_slot();
        SLOT.set(Some(slot));
        let _ = OWNED.try_with(|owned| owned.0.set(Some(slot)));
        slot
    }

    /// Frees through the [epochs](super::super::epoch) of this process: soon, and never under a guard.
    #[derive(Debug, Default)]
    pub(crate) struct Epoch;

    /// A guard of the thread that made it.
    pub(crate) struct Guard {
        slot: &'static Slot,
        stays: PhantomData<*const ()>,
    }

    impl Drop for Guard {
        #[inline(always)]
        fn drop(&mut self) {
            self.slot.leave();
        }
    }

    // SAFETY: as `epoch` argues, what is retired there is freed after all guards that existed then are gone.
    unsafe impl Reclaim for Epoch {
        type Guard = Guard;

        #[inline(always)]
        fn pin(&self) -> Guard {
            let slot = SLOT.get().unwrap_or_else(new_slot);
            DOMAIN.enter(slot);
            Guard { slot, stays: PhantomData }
        }

        unsafe fn retire<T: Send + 'static>(&self, target: *mut T, _: &Guard) {
            // SAFETY: no later guard leads to it, and it came from a box, by the caller's word; `T` may be
            // dropped by any thread and at any time.
            unsafe { DOMAIN.retire(target.cast(), free::<T>) };
        }

        fn flush(&self, _: &Guard) {
            DOMAIN.collect();
        }
    }
}

/// Frees nothing until the table is dropped; its guard is nothing at all. For the models, and to know what a
/// guard costs.
#[cfg(any(test, loom, shuttle, feature = "benching"))]
#[derive(Debug)]
pub(crate) struct Keep {
    kept: AtomicPtr<Kept>,
}

#[cfg(any(test, loom, shuttle, feature = "benching"))]
#[derive(Debug)]
struct Kept {
    target: *mut (),
    free: unsafe fn(*mut ()),
    older: *mut Kept,
}

#[cfg(any(test, loom, shuttle, feature = "benching"))]
impl Default for Keep {
    fn default() -> Self {
        Keep { kept: AtomicPtr::new(ptr::null_mut()) }
    }
}

#[cfg(any(test, loom, shuttle, feature = "benching"))]
// SAFETY: what is retired is freed by `drop`, which no guard outlives: guards are used through a table that
// owns this value.
unsafe impl Reclaim for Keep {
    type Guard = ();

    #[inline(always)]
    fn pin(&self) {}

    unsafe fn retire<T: Send + 'static>(&self, target: *mut T, _: &()) {
        let kept = Box::into_raw(Box::new(Kept {
            target: target.cast(),
            free: free::<T>,
            older: self.kept.load(Ordering::Relaxed),
        }));
        loop {
            // SAFETY: nobody else has `kept` before it is linked.
            let older = unsafe { (*kept).older };
            match self.kept.compare_exchange(older, kept, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                // SAFETY: as above.
                Err(now) => unsafe { (*kept).older = now },
            }
        }
    }
}

#[cfg(any(test, loom, shuttle, feature = "benching"))]
impl Drop for Keep {
    fn drop(&mut self) {
        let mut next = self.kept.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: linked by `retire`, which got it from a box, and visited once.
            let kept = unsafe { Box::from_raw(next) };
            // SAFETY: `free` was made for the type of `target`, which was retired once.
            unsafe { (kept.free)(kept.target) };
            next = kept.older;
        }
    }
}

/// Frees a box whose type was forgotten.
///
/// # Safety
///
/// `target` came from [`Box::into_raw`] for a `T`, and is not used again.
pub(super) unsafe fn free<T>(target: *mut ()) {
    // SAFETY: the caller's word.
    drop(unsafe { Box::from_raw(target.cast::<T>()) });
}
