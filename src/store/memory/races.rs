//! Races of the memory tier; [`crate::race`] says how they are run.
//!
//! The table under test is the real one. Its reclaimer is [`Strict`], the worst that [`Reclaim`] allows: it
//! takes a thing for freed at the very moment the last guard is gone that existed when it was retired, and every
//! access through the table is compared with that. Nothing is truly freed before the end, so a
//! fault is seen and not suffered.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::Mutex; // unseen: it must not take part in the race

use super::Memory;
use super::reclaim::{Reclaim, free};
use super::table::{Insert, Table};
use crate::key::Key;
use crate::race::{any_planted, check, check_within};
use crate::sync::{Arc, AtomicU32, Ordering, thread};

/// The strictest reclaimer; counts what should not have happened.
#[derive(Default)]
struct Strict {
    /// How many things were retired. It orders guards and retirements as epochs do: what a thread did before it retired
    /// something is seen under every guard that does not hold it back.
    count: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    retired: Vec<Retired>,
    violations: usize,
}

struct Retired {
    address: usize,
    free: unsafe fn(*mut ()),
    /// How many were retired before.
    earlier: u32,
}

/// The number of things that were retired before this guard was made, which it does not hold back.
struct StrictGuard(u32);

impl Strict {
    fn violations(&self) -> usize {
        self.state.lock().unwrap().violations
    }
}

// SAFETY: nothing is freed before the reclaimer is dropped.
unsafe impl Reclaim for Strict {
    type Guard = StrictGuard;

    fn pin(&self) -> StrictGuard {
        StrictGuard(self.count.fetch_add(0, Ordering::Acquire))
    }

    unsafe fn get<'g, T>(&self, target: *mut T, guard: &'g StrictGuard) -> &'g T {
        let mut state = self.state.lock().unwrap();
        let freed = |it: &Retired| it.earlier < guard.0 && it.address == target.addr();
        if state.retired.iter().any(freed) {
            state.violations += 1;
        }
        // SAFETY: valid, by the caller's word, and not freed.
        unsafe { &*target }
    }

    unsafe fn retire<T: Send + 'static>(&self, target: *mut T, _: &StrictGuard) {
        let earlier = self.count.fetch_add(1, Ordering::Release);
        let mut state = self.state.lock().unwrap();
        let address = target.expose_provenance();
        if state.retired.iter().any(|it| it.address == address) {
            state.violations += 1;
        } else {
            state.retired.push(Retired { address, free: free::<T>, earlier });
        }
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        if any_planted() {
            return;
        }
        for it in self.state.lock().unwrap().retired.drain(..) {
            // SAFETY: retired once, from a box of the type that `free` was made for.
            unsafe { (it.free)(ptr::with_exposed_provenance_mut(it.address)) };
        }
    }
}

/// A thing that leaks where a fault was planted: what a fault has done to it might make its drop free twice.
struct Shared<T>(ManuallyDrop<T>);

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if !any_planted() {
            // SAFETY: only here.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// A value that is written after it was made, before it is published: who reads it without having synchronised
/// with its writer may find [`UNWRITTEN`].
struct Value(AtomicU32);

const ABSENT: u32 = 0;
const UNWRITTEN: u32 = 99;

impl Value {
    fn new(value: u32) -> Self {
        let this = Value(AtomicU32::new(UNWRITTEN));
        this.0.store(value, Ordering::Relaxed);
        this
    }

    fn read(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The operations of the table, each under a guard of its own.
#[derive(Clone)]
struct Model(Arc<Shared<Table<Value, Strict>>>);

impl Model {
    /// A table with room for `keys` keys before it is rebuilt, and with these in it.
    fn with<const N: usize>(keys: usize, there: [(Key, u32); N]) -> Self {
        let model = Model(Arc::new(Shared(ManuallyDrop::new(Table::with_capacity(keys)))));
        for (key, value) in there {
            assert_eq!(model.insert(&key, value), value);
        }
        model
    }

    fn get(&self, key: &Key) -> u32 {
        let guard = self.0.pin();
        self.0.get(key, &guard).map_or(ABSENT, Value::read)
    }

    fn insert(&self, key: &Key, value: u32) -> u32 {
        let guard = self.0.pin();
        match self.0.insert(key, Value::new(value), &guard) {
            Insert::New(value) | Insert::Existing(value) => value.read(),
            Insert::Refused(_) => unreachable!("addresses fit here"),
        }
    }

    fn replace(&self, key: &Key, value: u32) -> u32 {
        let guard = self.0.pin();
        let old = self.0.replace(key, Value::new(value), &guard);
        old.ok().expect("addresses fit here").map_or(ABSENT, Value::read)
    }

    fn remove(&self, key: &Key) -> u32 {
        let guard = self.0.pin();
        self.0.remove(key, &guard).map_or(ABSENT, Value::read)
    }

    fn clear(&self) {
        self.0.clear(|_| {}, &self.0.pin());
    }

    fn len(&self) -> usize {
        self.0.len(&self.0.pin())
    }

    /// What must hold once all threads are joined: nothing freed was touched, no rebuild is left over, and all that
    /// is counted is counted right.
    fn is_sound(&self) -> bool {
        let guard = self.0.pin();
        self.0.reclaim().violations() == 0
            && self.0.arrays(&guard).len() == 1
            && self.0.counts_are_right(&guard)
    }

    fn spawn<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Model) -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let model = self.clone();
        thread::spawn(move || run(&model))
    }
}

/// A key whose path begins at bucket `home`. All have the same tag.
fn key(home: u8, id: u8) -> Key {
    let mut bytes = [7; 32];
    bytes[0] = home;
    bytes[31] = id;
    Key::from_bytes(bytes)
}

/// Two threads add the same key: one of them wins, both get its value.
fn same_key() -> ([u32; 5], usize, bool) {
    let model = Model::with(2, []);
    let k = key(0, 1);
    let a = model.spawn(move |model| [model.insert(&k, 1), model.get(&k)]);
    let b = model.spawn(move |model| [model.insert(&k, 2), model.get(&k)]);
    let ([a, a2], [b, b2]) = (a.join().unwrap(), b.join().unwrap());
    ([a, a2, b, b2, model.get(&k)], model.len(), model.is_sound())
}

const SAME_KEY: [([u32; 5], usize, bool); 2] = [([1; 5], 1, true), ([2; 5], 1, true)];

/// Two threads add colliding keys to a table with room for one.
fn colliding_keys_grow() -> ([u32; 6], usize, bool) {
    let model = Model::with(1, []);
    let (k1, k2) = (key(0, 1), key(0, 2));
    let a = model.spawn(move |model| [model.insert(&k1, 1), model.get(&k1)]);
    let b = model.spawn(move |model| [model.insert(&k2, 2), model.get(&k2)]);
    let ([a, a2], [b, b2]) = (a.join().unwrap(), b.join().unwrap());
    ([a, a2, b, b2, model.get(&k1), model.get(&k2)], model.len(), model.is_sound())
}

const COLLIDING: [([u32; 6], usize, bool); 1] = [([1, 1, 2, 2, 1, 2], 2, true)];

/// Two threads add two keys, and each of them makes the table grow while the other's growth may go on.
fn growth_meets_growth() -> ([u32; 5], usize, bool) {
    let (k1, k2, k3) = (key(0, 1), key(0, 2), key(1, 3));
    let model = Model::with(1, [(k1, 1)]);
    let a = model.spawn(move |model| [model.insert(&k2, 2), model.get(&k2)]);
    let b = model.spawn(move |model| [model.insert(&k3, 3), model.get(&k3)]);
    let ([a, a2], [b, b2]) = (a.join().unwrap(), b.join().unwrap());
    ([a, a2, b, b2, model.get(&k1)], model.len(), model.is_sound())
}

const GROWTH: [([u32; 5], usize, bool); 1] = [([2, 2, 3, 3, 1], 3, true)];

/// Two threads race for one key while a third makes the table grow.
fn same_key_across_growth() -> ([u32; 5], usize, bool) {
    let (k1, k2) = (key(0, 1), key(0, 2));
    let model = Model::with(1, []);
    let a = model.spawn(move |model| [model.insert(&k1, 1), model.get(&k1)]);
    let b = model.spawn(move |model| [model.insert(&k1, 2), model.get(&k1)]);
    let c = model.spawn(move |model| model.insert(&k2, 3));
    let ([a, a2], [b, b2], c) = (a.join().unwrap(), b.join().unwrap(), c.join().unwrap());
    assert_eq!(c, model.get(&k2));
    ([a, a2, b, b2, model.get(&k1)], model.len(), model.is_sound())
}

const ACROSS: [([u32; 5], usize, bool); 2] = [([1; 5], 2, true), ([2; 5], 2, true)];

/// A reader while the table grows: what is there stays there, what comes does not go.
fn reader_during_growth() -> ([u32; 3], [u32; 3], bool) {
    let (k1, k2) = (key(0, 1), key(0, 2));
    let model = Model::with(1, [(k1, 1)]);
    let writer = model.spawn(move |model| [model.insert(&k2, 2), model.get(&k2), model.get(&k1)]);
    let reader = model.spawn(move |model| [model.get(&k1), model.get(&k2), model.get(&k2)]);
    (writer.join().unwrap(), reader.join().unwrap(), model.is_sound())
}

const READER: [([u32; 3], [u32; 3], bool); 3] =
    [([2, 2, 1], [1, 0, 0], true), ([2, 2, 1], [1, 0, 2], true), ([2, 2, 1], [1, 2, 2], true)];

/// A key is removed and added again under a reader's eyes, who sees it in this order.
fn remove_and_insert_again() -> ([u32; 4], [u32; 2], bool) {
    let k = key(0, 1);
    let model = Model::with(2, [(k, 1)]);
    let writer = model
        .spawn(move |model| [model.remove(&k), model.get(&k), model.insert(&k, 2), model.get(&k)]);
    let reader = model.spawn(move |model| [model.get(&k), model.get(&k)]);
    (writer.join().unwrap(), reader.join().unwrap(), model.is_sound())
}

const AGAIN: [([u32; 4], [u32; 2], bool); 6] = {
    const W: [u32; 4] = [1, 0, 2, 2];
    [
        (W, [1, 1], true),
        (W, [1, 0], true),
        (W, [1, 2], true),
        (W, [0, 0], true),
        (W, [0, 2], true),
        (W, [2, 2], true),
    ]
};

/// Two threads add a key, one of them after it has removed another from the same path.
fn remove_beside_insert() -> ([u32; 5], usize, bool) {
    let (k1, k2) = (key(0, 1), key(0, 2));
    let model = Model::with(4, [(k1, 1)]);
    let a = model.spawn(move |model| {
        assert_eq!(model.remove(&k1), 1);
        [model.insert(&k2, 2), model.get(&k2)]
    });
    let b = model.spawn(move |model| [model.insert(&k2, 3), model.get(&k2)]);
    let ([a, a2], [b, b2]) = (a.join().unwrap(), b.join().unwrap());
    ([a, a2, b, b2, model.get(&k2)], model.len(), model.is_sound())
}

const BESIDE: [([u32; 5], usize, bool); 2] = [([2; 5], 1, true), ([3; 5], 1, true)];

/// Two threads remove the same key: one of them has it.
fn remove_twice() -> ([u32; 2], bool) {
    let k = key(0, 1);
    let model = Model::with(2, [(k, 1)]);
    let a = model.spawn(move |model| model.remove(&k));
    let b = model.spawn(move |model| model.remove(&k));
    ([a.join().unwrap(), b.join().unwrap()], model.is_sound() && model.get(&k) == ABSENT)
}

const TWICE: [([u32; 2], bool); 2] = [([1, 0], true), ([0, 1], true)];

/// A key is removed while the table grows. It stays removed.
fn remove_during_growth() -> ([u32; 2], u32, usize, bool) {
    let (k1, k2) = (key(0, 1), key(0, 2));
    let model = Model::with(1, [(k1, 1)]);
    let a = model.spawn(move |model| model.insert(&k2, 2) + model.get(&k2));
    let b = model.spawn(move |model| [model.remove(&k1), model.get(&k1)]);
    assert_eq!(a.join().unwrap(), 4);
    (b.join().unwrap(), model.get(&k1), model.len(), model.is_sound())
}

const REMOVED: [([u32; 2], u32, usize, bool); 1] = [([1, 0], 0, 1, true)];

/// The table is cleared while it grows. What was there before is gone.
fn clear_during_growth() -> (u32, u32, bool) {
    let (k1, k2) = (key(0, 1), key(0, 2));
    let model = Model::with(1, [(k1, 1)]);
    let a = model.spawn(move |model| model.insert(&k2, 2));
    let b = model.spawn(move |model| {
        model.clear();
        model.get(&k1)
    });
    assert_eq!(a.join().unwrap(), 2);
    (b.join().unwrap() + model.get(&k1), model.get(&k2), model.is_sound())
}

const CLEARED: [(u32, u32, bool); 2] = [(0, 0, true), (0, 2, true)];

/// A value is replaced under a reader's eyes, who never misses it.
fn replace_and_read() -> ([u32; 2], [u32; 2], bool) {
    let k = key(0, 1);
    let model = Model::with(2, [(k, 1)]);
    let writer = model.spawn(move |model| [model.replace(&k, 2), model.get(&k)]);
    let reader = model.spawn(move |model| [model.get(&k), model.get(&k)]);
    (writer.join().unwrap(), reader.join().unwrap(), model.is_sound())
}

const REPLACED: [([u32; 2], [u32; 2], bool); 3] =
    [([1, 2], [1, 1], true), ([1, 2], [1, 2], true), ([1, 2], [2, 2], true)];

/// A value is replaced while the table grows. It stays replaced.
fn replace_during_growth() -> ([u32; 2], u32, usize, bool) {
    let (k1, k2) = (key(0, 1), key(0, 2));
    let model = Model::with(1, [(k1, 1)]);
    let a = model.spawn(move |model| model.insert(&k2, 2) + model.get(&k2));
    let b = model.spawn(move |model| [model.replace(&k1, 3), model.get(&k1)]);
    assert_eq!(a.join().unwrap(), 4);
    (b.join().unwrap(), model.get(&k1), model.len(), model.is_sound())
}

const REPLACED_GROWN: [([u32; 2], u32, usize, bool); 1] = [([1, 3], 3, 2, true)];

/// Two threads replace the same value: each of them gets a different old one.
fn replace_twice() -> ([u32; 3], usize, bool) {
    let k = key(0, 1);
    let model = Model::with(2, [(k, 1)]);
    let a = model.spawn(move |model| model.replace(&k, 2));
    let b = model.spawn(move |model| model.replace(&k, 3));
    ([a.join().unwrap(), b.join().unwrap(), model.get(&k)], model.len(), model.is_sound())
}

const REPLACED_TWICE: [([u32; 3], usize, bool); 2] = [([1, 2, 3], 1, true), ([3, 1, 2], 1, true)];

/// A memory with room for `entries` entries, and its operations.
#[derive(Clone)]
struct Bounded(Arc<Shared<Memory<u32, Strict>>>);

impl Bounded {
    fn with<const N: usize>(entries: u64, there: [(Key, u32); N]) -> Self {
        let memory = Memory::new(entries * Memory::<u32, Strict>::cost(0));
        there.iter().for_each(|(key, value)| _ = memory.insert(key, *value, 0));
        Bounded(Arc::new(Shared(ManuallyDrop::new(memory))))
    }

    fn get(&self, key: &Key) -> u32 {
        self.0.get(key).unwrap_or(ABSENT)
    }

    fn state(&self) -> End {
        let memory = &self.0;
        let counted = memory.len() as u64 * Memory::<u32, Strict>::cost(0) == memory.bytes();
        let sound = memory.table.reclaim().violations() == 0;
        (memory.len(), memory.evictions(), counted && sound)
    }

    fn spawn<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Bounded) -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let memory = self.clone();
        thread::spawn(move || run(&memory))
    }
}

/// What a memory is in the end: its entries, its evictions, and whether all is well.
type End = (usize, u64, bool);

type Evicted = ([u32; 2], [u32; 2], End);

/// An entry is evicted for another under a reader's eyes.
fn evict_and_read() -> Evicted {
    let (k1, k2) = (key(0, 1), key(0, 2));
    let memory = Bounded::with(1, [(k1, 1)]);
    let writer = memory.spawn(move |memory| [memory.0.insert(&k2, 2, 0), memory.get(&k2)]);
    let reader = memory.spawn(move |memory| [memory.get(&k1), memory.get(&k1)]);
    (writer.join().unwrap(), reader.join().unwrap(), memory.state())
}

const EVICTED: [Evicted; 3] = [
    ([2, 2], [1, 1], (1, 1, true)),
    ([2, 2], [1, 0], (1, 1, true)),
    ([2, 2], [0, 0], (1, 1, true)),
];

type EvictedBoth = (u32, u32, u32, End);

/// Two threads evict at the same time, for one place.
fn evict_and_evict() -> EvictedBoth {
    let (k1, k2, k3) = (key(0, 1), key(1, 2), key(1, 3));
    let memory = Bounded::with(1, [(k1, 1)]);
    let a = memory.spawn(move |memory| memory.0.insert(&k2, 2, 0));
    let b = memory.spawn(move |memory| memory.0.insert(&k3, 3, 0));
    assert_eq!((a.join().unwrap(), b.join().unwrap()), (2, 3));
    (memory.get(&k1), memory.get(&k2), memory.get(&k3), memory.state())
}

// The later one evicts the earlier one, or goes without a place if that one is not there yet.
const EVICTED_BOTH: [EvictedBoth; 4] = [
    (0, 2, 0, (1, 1, true)),
    (0, 0, 3, (1, 1, true)),
    (0, 2, 0, (1, 2, true)),
    (0, 0, 3, (1, 2, true)),
];

/// (the replaced value, what the two keys have in the end, the memory)
type EvictedReplaced = (u32, [u32; 2], End);

/// An entry is replaced while it is evicted: the bytes are right whatever comes first.
fn evict_and_replace() -> EvictedReplaced {
    let (k1, k2) = (key(0, 1), key(1, 2));
    let memory = Bounded::with(2, [(k1, 1)]);
    let a = memory.spawn(move |memory| memory.0.replace(&k1, 3, 0).unwrap_or(ABSENT));
    let b = memory.spawn(move |memory| memory.0.insert(&k2, 2, 0));
    assert_eq!(b.join().unwrap(), 2);
    (a.join().unwrap(), [memory.get(&k1), memory.get(&k2)], memory.state())
}

const EVICTED_REPLACED: [EvictedReplaced; 4] = [
    (1, [3, 2], (2, 0, true)), // the old value's room was given back in time
    (0, [3, 2], (2, 1, true)), // the old value was evicted
    (1, [0, 2], (1, 1, true)), // the new value was evicted
    (1, [3, 0], (1, 1, true)), // the other key was evicted
];

/// Four threads, each with keys of its own that it always finds as it left them, and six keys that all of them
/// want; the table is rebuilt many times meanwhile. All keys begin at three buckets. Too large for loom.
#[cfg(not(loom))]
fn crowd() -> (bool, bool, usize, bool) {
    let model = Model::with(1, []);
    let threads = (0..4_u8).map(|thread| {
        model.spawn(move |model| {
            let own = |n: u8| key(n % 3, 10 + 10 * thread + n);
            let shared = |n: u8| key(n % 3, n);
            let mut right = true;
            let mut winners = [0; 6];
            for n in 0..6 {
                let value = u32::from(10 * thread + n + 1);
                winners[usize::from(n)] = model.insert(&shared(n), value);
                right &= model.get(&shared(n)) == winners[usize::from(n)];
                right &= model.insert(&own(n % 2), value) == value;
                right &= model.replace(&own(n % 2), value + 1) == value;
                right &= model.get(&own(n % 2)) == value + 1;
                right &= model.remove(&own(n % 2)) == value + 1;
                right &= model.get(&own(n % 2)) == ABSENT;
            }
            model.insert(&own(0), 7);
            (right && model.get(&own(0)) == 7, winners)
        })
    });
    let threads = threads.collect::<Vec<_>>();
    let saw = threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>();
    let right = saw.iter().all(|(right, _)| *right);
    let agreed = saw.windows(2).all(|two| two[0].1 == two[1].1);
    (right, agreed, model.len(), model.is_sound())
}

/// Four threads want room for six keys where there is room for three.
#[cfg(not(loom))]
fn crowd_for_room() -> bool {
    let memory = Bounded::with(3, []);
    let threads = (0..4_u8).map(|thread| {
        memory.spawn(move |memory| {
            (0..6).all(|n| {
                let n = (n * 5 + thread) % 6;
                let k = key(n % 3, n);
                let value = u32::from(n) + 1;
                let right = |seen: u32| seen == value || seen == ABSENT;
                let removed = if thread == 3 { memory.0.remove(&k).unwrap_or(ABSENT) } else { 0 };
                let replaced = memory.0.replace(&k, value, 0).unwrap_or(ABSENT);
                right(removed)
                    && right(replaced)
                    && memory.0.insert(&k, value, 0) == value
                    && right(memory.get(&k))
            })
        })
    });
    let threads = threads.collect::<Vec<_>>();
    let right = threads.into_iter().all(|thread| thread.join().unwrap());
    let (entries, _, sound) = memory.state();
    right && sound && entries <= 3
}

#[cfg(not(loom))]
#[test]
fn a_crowd_agrees() {
    check("crowd", [(true, true, 10, true)], crowd);
}

#[cfg(not(loom))]
#[test]
fn a_crowd_keeps_to_the_limit() {
    check("crowd for room", [true], crowd_for_room);
}

#[test]
fn same_key_has_one_winner() {
    check("same key", SAME_KEY, same_key);
}

#[test]
fn colliding_keys_are_both_there_after_growth() {
    check("colliding keys grow", COLLIDING, colliding_keys_grow);
}

#[test]
fn growth_can_meet_growth() {
    check("growth meets growth", GROWTH, growth_meets_growth);
}

#[test]
fn same_key_has_one_winner_across_growth() {
    check_within(1, "same key across growth", ACROSS, same_key_across_growth);
}

#[test]
fn growth_hides_nothing_from_a_reader() {
    check("reader during growth", READER, reader_during_growth);
}

#[test]
fn a_reader_sees_removal_and_insertion_in_order() {
    check("remove and insert again", AGAIN, remove_and_insert_again);
}

#[test]
fn a_removed_bucket_does_not_make_a_second_place() {
    check("remove beside insert", BESIDE, remove_beside_insert);
}

#[test]
fn a_key_is_removed_by_one() {
    check("remove twice", TWICE, remove_twice);
}

#[test]
fn growth_brings_nothing_back() {
    check("remove during growth", REMOVED, remove_during_growth);
}

#[test]
fn clearing_reaches_what_growth_has_moved() {
    check_within(1, "clear during growth", CLEARED, clear_during_growth);
}

#[test]
fn a_reader_sees_the_old_or_the_new() {
    check("replace and read", REPLACED, replace_and_read);
}

#[test]
fn growth_keeps_what_was_replaced() {
    check("replace during growth", REPLACED_GROWN, replace_during_growth);
}

#[test]
fn replacements_follow_each_other() {
    check("replace twice", REPLACED_TWICE, replace_twice);
}

#[test]
fn a_reader_may_hold_what_is_evicted() {
    check("evict and read", EVICTED, evict_and_read);
}

#[test]
fn evictions_share_the_limit() {
    check("evict and evict", EVICTED_BOTH, evict_and_evict);
}

#[test]
fn eviction_counts_what_is_replaced() {
    check_within(1, "evict and replace", EVICTED_REPLACED, evict_and_replace);
}

/// Every fault is noticed by the body that is meant to notice it. Shuttle knows no weak memory, and may miss what is
/// rare: some are loom's alone.
#[cfg(any(loom, shuttle))]
mod planted {
    use super::super::table::faults::*;
    use super::super::{evict, node};
    use super::*;
    use crate::race::reject;

    #[cfg(loom)]
    #[test]
    fn relaxed_publish() {
        reject(node::RELAXED_PUBLISH, SAME_KEY, same_key);
        reject(node::RELAXED_PUBLISH, READER, reader_during_growth);
    }

    #[test]
    fn lost_race() {
        reject(LOST_RACE, SAME_KEY, same_key);
    }

    #[test]
    fn lost_seat() {
        reject(LOST_SEAT, SAME_KEY, same_key);
    }

    #[test]
    fn not_closed() {
        reject(NOT_CLOSED, COLLIDING, colliding_keys_grow);
    }

    #[test]
    fn closed_is_absent() {
        reject(CLOSED_IS_ABSENT, COLLIDING, colliding_keys_grow);
    }

    #[test]
    fn early_root() {
        reject(EARLY_ROOT, READER, reader_during_growth);
    }

    #[test]
    fn moved_is_removed() {
        reject(MOVED_IS_REMOVED, READER, reader_during_growth);
    }

    #[cfg(loom)]
    #[test]
    fn no_fence() {
        reject(NO_FENCE, GROWTH, growth_meets_growth);
    }

    #[test]
    fn early_array() {
        reject(EARLY_ARRAY, READER, reader_during_growth);
    }

    #[test]
    fn early_retire() {
        reject(EARLY_RETIRE, AGAIN, remove_and_insert_again);
        reject(EARLY_RETIRE, EVICTED, evict_and_read);
    }

    #[test]
    fn reuse() {
        reject(REUSE, BESIDE, remove_beside_insert);
    }

    #[test]
    fn remove_copying() {
        reject(REMOVE_COPYING, REMOVED, remove_during_growth);
    }

    #[test]
    fn replace_copying() {
        reject(REPLACE_COPYING, REPLACED_GROWN, replace_during_growth);
    }

    #[test]
    fn blind_copy() {
        reject(BLIND_COPY, REMOVED, remove_during_growth);
    }

    #[test]
    fn copy_unfrozen() {
        reject(COPY_UNFROZEN, REPLACED_GROWN, replace_during_growth);
    }

    #[cfg(loom)]
    #[test]
    fn hasty_sample() {
        reject(HASTY_SAMPLE, EVICTED_REPLACED, evict_and_replace);
    }

    #[test]
    fn overbook() {
        reject(evict::OVERBOOK, EVICTED_BOTH, evict_and_evict);
    }

    #[test]
    fn twice() {
        reject(evict::TWICE, EVICTED_BOTH, evict_and_evict);
    }
}
