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

use super::reclaim::{Reclaim, free};
use super::table::{Insert, Table, faults::*};
use super::{Memory, evict, node};
use crate::key::Key;
use crate::race::{any_planted, check};
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
}

/// The number of things that were retired before this guard was made, which it does not hold back.
struct StrictGuard(usize);

impl Strict {
    fn violations(&self) -> usize {
        self.state.lock().unwrap().violations
    }
}

// SAFETY: nothing is freed before the reclaimer is dropped.
unsafe impl Reclaim for Strict {
    type Guard = StrictGuard;

    fn pin(&self) -> StrictGuard {
        StrictGuard(self.count.fetch_add(0, Ordering::Acquire) as usize)
    }

    unsafe fn get<'g, T>(&self, target: *mut T, guard: &'g StrictGuard) -> &'g T {
        let mut state = self.state.lock().unwrap();
        if state.retired.iter().take(guard.0).any(|it| it.address == target.addr()) {
            state.violations += 1;
        }
        // SAFETY: valid, by the caller's word, and not freed.
        unsafe { &*target }
    }

    unsafe fn retire<T: Send + 'static>(&self, target: *mut T, _: &StrictGuard) {
        let address = target.expose_provenance();
        let mut state = self.state.lock().unwrap();
        if state.retired.iter().any(|it| it.address == address) {
            state.violations += 1;
            return;
        }
        state.retired.push(Retired { address, free: free::<T> });
        drop(state);
        self.count.fetch_add(1, Ordering::Release);
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

    /// What must hold once all threads are joined: nothing freed was touched, and no rebuild is left over.
    fn is_sound(&self) -> bool {
        let x = (self.0.reclaim().violations(), self.0.arrays(&self.0.pin()));
        if x.0 != 0 || x.1.len() != 1 {
            println!("DBG {x:?}");
        }
        self.0.reclaim().violations() == 0 && self.0.arrays(&self.0.pin()).len() == 1
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
fn colliding_keys_grow() -> ([u32; 4], usize, bool) {
    let model = Model::with(1, []);
    let (k1, k2) = (key(0, 1), key(0, 2));
    let a = model.spawn(move |model| [model.insert(&k1, 1), model.get(&k1)]);
    let b = model.spawn(move |model| [model.insert(&k2, 2), model.get(&k2)]);
    let ([a, a2], [b, b2]) = (a.join().unwrap(), b.join().unwrap());
    assert_eq!((model.get(&k1), model.get(&k2)), (1, 2));
    ([a, a2, b, b2], model.len(), model.is_sound())
}

const COLLIDING: [([u32; 4], usize, bool); 1] = [([1, 1, 2, 2], 2, true)];

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

    /// (entries, evictions, whether all is well)
    fn state(&self) -> (usize, u64, bool) {
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

type Evicted = ([u32; 2], [u32; 2], (usize, u64, bool));

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

/// Two threads evict at the same time, for one place.
fn evict_and_evict() -> (u32, u32, u32, (usize, u64, bool)) {
    let (k1, k2, k3) = (key(0, 1), key(1, 2), key(1, 3));
    let memory = Bounded::with(1, [(k1, 1)]);
    let a = memory.spawn(move |memory| memory.0.insert(&k2, 2, 0));
    let b = memory.spawn(move |memory| memory.0.insert(&k3, 3, 0));
    assert_eq!((a.join().unwrap(), b.join().unwrap()), (2, 3));
    (memory.get(&k1), memory.get(&k2), memory.get(&k3), memory.state())
}

// The later one evicts the earlier one, or goes without a place if that one is not there yet.
const EVICTED_BOTH: [(u32, u32, u32, (usize, u64, bool)); 4] = [
    (0, 2, 0, (1, 1, true)),
    (0, 0, 3, (1, 1, true)),
    (0, 2, 0, (1, 2, true)),
    (0, 0, 3, (1, 2, true)),
];

/// An entry is replaced while it is evicted: the bytes are right whatever comes first.
fn evict_and_replace() -> (u32, u32, (usize, u64, bool)) {
    let (k1, k2) = (key(0, 1), key(1, 2));
    let memory = Bounded::with(2, [(k1, 1)]);
    let a = memory.spawn(move |memory| memory.0.replace(&k1, 3, 0).unwrap_or(ABSENT));
    let b = memory.spawn(move |memory| memory.0.insert(&k2, 2, 0));
    assert_eq!(b.join().unwrap(), 2);
    (a.join().unwrap(), memory.get(&k1) * 10 + memory.get(&k2), memory.state())
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
    check("same key across growth", ACROSS, same_key_across_growth);
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
    check("clear during growth", CLEARED, clear_during_growth);
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

/// Every fault is noticed by the body that is meant to notice it. Loom alone promises to find them.
#[cfg(loom)]
mod planted {
    use super::*;
    use crate::race::reject;

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

    #[test]
    fn overbook() {
        reject(evict::OVERBOOK, EVICTED_BOTH, evict_and_evict);
    }

    #[test]
    fn twice() {
        reject(evict::TWICE, EVICTED_BOTH, evict_and_evict);
    }
}
