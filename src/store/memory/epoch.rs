//! Epochs, with guards that cost two stores.
//!
//! ```text
//!   global epoch   … 4 ──────── 6 ──────── 8 …       moves on when every guard is of the present one
//!   slots          [ 6+1 ] [ 0 ] [ 6+1 ] [ 4+1 ]     one per thread: its epoch, or 0 without a guard
//!   garbage        (4) ► (4) ► (2)                   freed two epochs later
//! ```
//!
//! The scheme is crossbeam-epoch's but for one thing. A reader has to make its guard known *before* it loads what it
//! will use, which takes a full fence, and that fence is most of what a hit costs: no load of the next hit begins before it is
//! done. Here it is the light side of an [asymmetric] pair; whoever moves the epoch on,
//! which is seldom, takes the heavy one.
//!
//! Why this is right. Let a node be unlinked and then retired in epoch `s`; it is freed in epoch `s + 2` or later, that is after
//! some thread A moved `s + 1` to `s + 2`. Take a reader that pinned epoch `r`.
//!
//! - **E1, late.** If `r > s`, it has acquired the epoch from who moved it beyond `s`. That was after the retirement read it
//!   by a read-modify-write that releases: so the reader sees the node unlinked.
//! - **E2, early.** If `r <= s`, then either A sees the pin after its heavy fence, and does not move on; or the reader's
//!   loads after its light fence see all that A saw before: the node unlinked, as A has acquired the epoch too.
//! - **E3, over.** A guard that is gone was dropped with release, and whoever looks at its slot acquires: what was read
//!   under it was read before the node is freed. The next pin releases as well, so this holds where A sees that one.
//!
//! In a forked child, guards that other threads held at the fork are held for ever: what is retired there stays.

use std::ptr;

use crossbeam::utils::CachePadded;

use crate::race::{Fault, planted};
use crate::sync::asymmetric;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Planted: a guard is made known without a fence.
pub(super) const NO_LIGHT: Fault = Fault("a guard is made known without a fence");
/// Planted: the epoch moves on without the heavy fence.
pub(super) const NO_HEAVY: Fault = Fault("the epoch moves on without a fence");
/// Planted: garbage is freed in the epoch after its own.
pub(super) const ONE_EPOCH: Fault = Fault("garbage is freed one epoch early");
/// Planted: the epoch moves on although a guard is of an older one.
pub(super) const IGNORED: Fault = Fault("the epoch moves on in spite of a guard");
/// Planted: a dropped guard orders nothing.
pub(super) const RELAXED_LEAVE: Fault = Fault("a guard is dropped with relaxed order");

/// The epoch is even, so that a slot can say "in epoch 0".
const STEP: usize = 2;
const PINNED: usize = 1;
/// After so many retirements somebody tries to free.
const BATCH: usize = 64;

/// Threads, their guards, and what waits for them to be dropped.
pub(super) struct Domain {
    epoch: CachePadded<AtomicUsize>,
    /// All slots there ever were, the newest first.
    slots: CachePadded<AtomicPtr<Slot>>,
    garbage: CachePadded<AtomicPtr<Garbage>>,
    retired: AtomicUsize,
}

/// A thread's place. Slots are used again, and live as long as the domain.
pub(super) struct Slot(CachePadded<Place>);

struct Place {
    /// The epoch of the thread's guard, plus [`PINNED`]; 0 if it has none.
    pinned: AtomicUsize,
    /// How many guards it has beside one. Only its thread looks.
    nested: AtomicU32,
    taken: AtomicBool,
    /// Constant once it can be seen.
    next: *const Slot,
}

// SAFETY: `next` is constant, and of a slot that lives as long.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

struct Garbage {
    target: *mut (),
    free: unsafe fn(*mut ()),
    epoch: usize,
    next: *mut Garbage,
}

impl Domain {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Domain {
            epoch: CachePadded::new(AtomicUsize::new(0)),
            slots: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            garbage: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            retired: AtomicUsize::new(0),
        }
    }

    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Domain {
            epoch: CachePadded::new(AtomicUsize::new(0)),
            slots: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            garbage: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            retired: AtomicUsize::new(0),
        }
    }

    /// A slot for one thread, until it is [given back](Slot::give_back).
    #[cold]
    pub(super) fn take_slot(&self) -> &Slot {
        let mut head = self.slots.load(Ordering::Acquire).cast_const();
        let mut at = head;
        // SAFETY: slots live as long as the domain.
        while let Some(slot) = unsafe { at.as_ref() } {
            if !slot.0.taken.swap(true, Ordering::Acquire) {
                return slot;
            }
            at = slot.0.next;
        }
        let mut new = Box::new(Slot(CachePadded::new(Place {
            pinned: AtomicUsize::new(0),
            nested: AtomicU32::new(0),
            taken: AtomicBool::new(true),
            next: head,
        })));
        loop {
            new.0.next = head;
            let link = Box::into_raw(new);
            let (old, orders) = (head.cast_mut(), (Ordering::AcqRel, Ordering::Acquire));
            match self.slots.compare_exchange(old, link, orders.0, orders.1) {
                // SAFETY: it lives as long as the domain.
                Ok(_) => return unsafe { &*link },
                Err(now) => {
                    head = now.cast_const();
                    // SAFETY: nobody else has it before it is linked.
                    new = unsafe { Box::from_raw(link) };
                }
            }
        }
    }

    /// A guard of the slot's thread begins.
    #[inline(always)]
    pub(super) fn enter(&self, slot: &Slot) {
        let place = &slot.0;
        if place.pinned.load(Ordering::Relaxed) != 0 {
            let nested = place.nested.load(Ordering::Relaxed);
            place.nested.store(nested + 1, Ordering::Relaxed);
            return;
        }
        let epoch = self.epoch.load(Ordering::Acquire); // E1
        place.pinned.store(epoch | PINNED, Ordering::Release); // E3
        if !planted(NO_LIGHT) {
            asymmetric::light(); // E2
        }
    }

    /// Frees the thing at `target` with `free`, when that may be.
    ///
    /// # Safety
    ///
    /// No guard that is made after this call leads to it, and any thread may call `free`, which may be
    /// called once, at any time after that of the guards that are there.
    pub(super) unsafe fn retire(&self, target: *mut (), free: unsafe fn(*mut ())) {
        let epoch = self.epoch.fetch_add(0, Ordering::AcqRel); // E1
        self.push(Box::new(Garbage { target, free, epoch, next: ptr::null_mut() }));
        if self.retired.fetch_add(1, Ordering::Relaxed) % BATCH == BATCH - 1 {
            self.collect();
        }
    }

    fn push(&self, mut garbage: Box<Garbage>) {
        let mut head = self.garbage.load(Ordering::Relaxed);
        loop {
            garbage.next = head;
            let link = Box::into_raw(garbage);
            let (success, failure) = (Ordering::Release, Ordering::Relaxed);
            match self.garbage.compare_exchange(head, link, success, failure) {
                Ok(_) => return,
                Err(now) => {
                    head = now;
                    // SAFETY: nobody else has it before it is linked.
                    garbage = unsafe { Box::from_raw(link) };
                }
            }
        }
    }

    /// Moves the epoch on if that may be, and frees what has become old enough.
    #[cold]
    pub(super) fn collect(&self) {
        if !self.advance() {
            return;
        }
        let now = self.epoch.load(Ordering::Acquire);
        let age = if planted(ONE_EPOCH) { STEP } else { 2 * STEP };
        let mut next = self.garbage.swap(ptr::null_mut(), Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: it came from a box, and whoever swapped the list out has it alone.
            let garbage = unsafe { Box::from_raw(next) };
            next = garbage.next;
            if now.wrapping_sub(garbage.epoch) >= age {
                // SAFETY: E1 to E3, and the word of who retired it.
                unsafe { (garbage.free)(garbage.target) };
            } else {
                self.push(garbage);
            }
        }
    }

    fn advance(&self) -> bool {
        let epoch = self.epoch.load(Ordering::Acquire); // E2
        if !planted(NO_HEAVY) && !asymmetric::heavy() {
            return false;
        }
        let mut at = self.slots.load(Ordering::Acquire).cast_const();
        // SAFETY: slots live as long as the domain.
        while let Some(slot) = unsafe { at.as_ref() } {
            let pinned = slot.0.pinned.load(Ordering::Acquire); // E3
            if pinned != 0 && pinned != epoch | PINNED && !planted(IGNORED) {
                return false;
            }
            at = slot.0.next;
        }
        let next = epoch.wrapping_add(STEP);
        self.epoch.compare_exchange(epoch, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl Slot {
    /// A guard of the slot's thread ends.
    #[inline(always)]
    pub(super) fn leave(&self) {
        let nested = self.0.nested.load(Ordering::Relaxed);
        if nested != 0 {
            self.0.nested.store(nested - 1, Ordering::Relaxed);
            return;
        }
        let order = if planted(RELAXED_LEAVE) { Ordering::Relaxed } else { Ordering::Release };
        self.0.pinned.store(0, order); // E3
    }

    /// Lets another thread have it; not while this one has a guard.
    pub(super) fn give_back(&self) {
        if self.0.pinned.load(Ordering::Relaxed) == 0 {
            self.0.taken.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
impl Drop for Domain {
    fn drop(&mut self) {
        let mut next = self.garbage.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: it came from a box, and nobody else is here.
            let garbage = unsafe { Box::from_raw(next) };
            next = garbage.next;
            // SAFETY: no guard is left.
            unsafe { (garbage.free)(garbage.target) };
        }
        let mut next = self.slots.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: it came from a box, and nobody else is here.
            next = unsafe { Box::from_raw(next) }.0.next.cast_mut();
        }
    }
}

#[cfg(all(test, loom))]
mod races {
    use loom::cell::UnsafeCell;

    use super::*;
    use crate::race::{check, reject};
    use crate::sync::{Arc, thread};

    /// What is freed: loom fails if one thread writes it while another may be reading.
    struct Node(UnsafeCell<u32>);

    struct World {
        domain: Domain,
        node: AtomicPtr<Node>,
    }

    impl World {
        fn node(value: u32) -> *mut Node {
            Box::into_raw(Box::new(Node(UnsafeCell::new(value))))
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            // SAFETY: nobody else is here.
            drop(unsafe { Box::from_raw(self.node.load(Ordering::Acquire)) });
        }
    }

    /// Marks what a real one would free; the memory itself leaks, so that a fault is seen and not suffered.
    unsafe fn free(target: *mut ()) {
        // SAFETY: nodes leak.
        let node = unsafe { &*target.cast::<Node>() };
        // SAFETY: loom checks that nobody else does.
        node.0.with_mut(|value| unsafe { *value = 0 });
    }

    /// A reader twice under a guard, while a writer replaces the node and frees the old one as soon as it may.
    fn read_while_it_is_freed() -> [u32; 2] {
        let (domain, node) = (Domain::new(), AtomicPtr::new(World::node(1)));
        let world = Arc::new(World { domain, node });
        let writer = thread::spawn({
            let world = world.clone();
            move || {
                let slot = world.domain.take_slot();
                world.domain.enter(slot);
                let old = world.node.swap(World::node(2), Ordering::AcqRel);
                // SAFETY: unlinked, and nodes leak.
                unsafe { world.domain.retire(old.cast(), free) };
                slot.leave();
                world.domain.collect();
                world.domain.collect();
            }
        });
        let reader = thread::spawn({
            let world = world.clone();
            move || {
                let slot = world.domain.take_slot();
                [(); 2].map(|()| {
                    world.domain.enter(slot);
                    // SAFETY: nodes leak.
                    let node = unsafe { &*world.node.load(Ordering::Acquire) };
                    // SAFETY: loom checks that nobody writes it.
                    let value = node.0.with(|value| unsafe { *value });
                    slot.leave();
                    value
                })
            }
        });
        writer.join().unwrap();
        reader.join().unwrap()
    }

    const SEEN: [[u32; 2]; 3] = [[1, 1], [1, 2], [2, 2]];

    #[test]
    fn loom_nothing_is_freed_under_a_guard() {
        check("epoch", SEEN, read_while_it_is_freed);
    }

    #[test]
    fn loom_epoch_faults_are_noticed() {
        for fault in [NO_LIGHT, NO_HEAVY, ONE_EPOCH, IGNORED, RELAXED_LEAVE] {
            reject(fault, SEEN, read_while_it_is_freed);
        }
    }
}
