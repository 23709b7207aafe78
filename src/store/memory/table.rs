//! A hash table whose readers only load: no lock, no reference count, no hashing.
//!
//! ```text
//!   root ──► array ──next──► array (while it is rebuilt)
//!            ┌──┬──┬──┬──┬──┬──┬──┬──┐
//!            │  │ ●│ ●│  │▒▒│ ●│  │  │    one word per bucket: a tag and the address of a node
//!            └──┴─│┴─│┴──┴──┴─│┴──┴──┘    at most half of the buckets are ever used
//!                 ▼  ▼        ▼
//!               key, value                immutable
//! ```
//!
//! The *path* of a key begins at the bucket that the key's low bits name, goes on through all used buckets, and
//! ends at the first empty one. What a word may become:
//!
//! ```text
//!   Empty ──insert, copy──► Node ──replace──► Node of the same key
//!     │                      │  └──remove───► Removed
//!     │                      └──rebuild─────► Copying ──► Moved     its node is in the next array
//!     └────────rebuild─────► Closed                                 the path goes on in the next array
//! ```
//!
//! A rebuild makes the next array and *settles* every bucket of this one: it closes the empty ones, and copies
//! the nodes. One thread goes through them all; others pass by: readers and inserters never wait, and who
//! has to change a node that is being copied settles that one bucket itself first. The last step of a rebuild
//! moves `root` on and retires the old array.
//!
//! Why this is right:
//!
//! - **T1, one place.** No bucket becomes empty again, so all who want to add a key try for the same bucket, the
//!   first empty one on its path, and a closed path ends every attempt in this array. Whoever comes to that bucket
//!   has seen that the key is not before it. So a key is added once.
//! - **T2, the truth.** A node in a bucket, copying or not, is its key's present value. While it is `Copying`
//!   nobody changes it, and its copy is not changed before it is `Moved`.
//! - **T3, copied once.** Several threads may copy the same bucket. Each sees its target empty, *then* that
//!   the source is still `Copying`, and then takes the target. If another has copied meanwhile, it was to this very
//!   target (T1) and the taking fails; if it had copied before, its node or what became of it was passed on the path.
//!   So a node that was removed is never brought back.
//! - **T4, unreachable.** A node leaves its bucket by one thread's exchange. Older arrays do not lead to it
//!   (T2, `Moved` holds no address), newer ones do not yet: that thread may retire it. An array is
//!   retired by the thread that moved `root` beyond it; it holds no nodes then.
//! - **T5, room.** A bucket is used only after one of the array's `limit` seats was taken, so every path ends.
//!
//! Buckets of removed keys are not used again (T1), the next rebuild leaves them behind: it chooses the size by
//! what lives, up or down.

use std::marker::PhantomData;
use std::ptr;

use crossbeam::utils::CachePadded;

use super::node::{Bucket, Node, State, Word, hash};
use super::reclaim::Reclaim;
use crate::key::Key;
use crate::race::{Fault, planted};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

/// Faults that the race tests plant.
pub(super) mod faults {
    use super::Fault;

    pub(in super::super) const LOST_RACE: Fault =
        Fault("an inserter that lost a bucket does not look at who won it");
    pub(in super::super) const NOT_CLOSED: Fault = Fault("a rebuild leaves empty buckets open");
    pub(in super::super) const CLOSED_IS_ABSENT: Fault = Fault("a reader stops at a closed bucket");
    pub(in super::super) const EARLY_ROOT: Fault = Fault("root moves on before nodes are copied");
    pub(in super::super) const MOVED_IS_REMOVED: Fault =
        Fault("a reader forgets that a key may have moved");
    pub(in super::super) const REUSE: Fault = Fault("an inserter uses a removed bucket again");
    pub(in super::super) const REMOVE_COPYING: Fault =
        Fault("a node is removed while it is being copied");
    pub(in super::super) const REPLACE_COPYING: Fault =
        Fault("a node is replaced while it is being copied");
    pub(in super::super) const BLIND_COPY: Fault =
        Fault("a copier does not look again whether the node has moved");
    pub(in super::super) const COPY_UNFROZEN: Fault =
        Fault("a node is copied without being marked first");
    pub(in super::super) const EARLY_RETIRE: Fault =
        Fault("a node is retired before it is removed");
    pub(in super::super) const EARLY_ARRAY: Fault =
        Fault("an array is retired before root moves on");
    pub(in super::super) const LOST_SEAT: Fault =
        Fault("a seat that was not used is not given back");
    pub(in super::super) const HASTY_SAMPLE: Fault =
        Fault("a sample that was overtaken by a rebuild counts as empty");
    pub(in super::super) const NO_FENCE: Fault =
        Fault("two rebuilds that end together do not see each other");
}

use faults::*;

/// The smallest array; tiny in tests, where growth is to be common.
const SMALLEST: usize = if cfg!(test) { 2 } else { 16 };

/// A path with more removed buckets than this is a reason to rebuild.
const MAX_REMOVED: usize = if cfg!(test) { 4 } else { 64 };

struct Array<V> {
    mask: usize,
    buckets: Box<[Bucket<V>]>,
    /// The array that takes this one's place; null until a rebuild begins.
    next: AtomicPtr<Array<V>>,
    /// Every bucket is settled.
    settled: AtomicBool,
    counts: CachePadded<Counts>,
}

/// What writers count, apart from what readers load.
struct Counts {
    /// Buckets that are used, or soon may be.
    seats: AtomicUsize,
    /// Those of them whose key was removed.
    removed: AtomicUsize,
}

impl<V> Array<V> {
    fn boxed(capacity: usize) -> *mut Self {
        Box::into_raw(Box::new(Array {
            mask: capacity - 1,
            buckets: (0..capacity).map(|_| Bucket::empty()).collect(),
            next: AtomicPtr::new(ptr::null_mut()),
            settled: AtomicBool::new(false),
            counts: CachePadded::new(Counts {
                seats: AtomicUsize::new(0),
                removed: AtomicUsize::new(0),
            }),
        }))
    }

    #[inline(always)]
    fn bucket(&self, index: usize) -> &Bucket<V> {
        // SAFETY: the mask is one less than the number of buckets, a power of two.
        unsafe { self.buckets.get_unchecked(index & self.mask) }
    }

    /// The right to use one more bucket; `None` if there are none left.
    fn seat(&self) -> Option<Seat<'_>> {
        let taken = self.counts.seats.fetch_add(1, Ordering::Relaxed);
        let seat = Seat(&self.counts.seats);
        (taken < self.buckets.len() / 2).then_some(seat)
    }

    /// About how many keys it holds.
    fn keys(&self) -> usize {
        let removed = self.counts.removed.load(Ordering::Relaxed);
        self.counts.seats.load(Ordering::Relaxed).saturating_sub(removed)
    }
}

/// The right to use one bucket; given back if it is dropped.
struct Seat<'a>(&'a AtomicUsize);

impl Seat<'_> {
    fn use_up(self) {
        std::mem::forget(self);
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if !planted(LOST_SEAT) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What became of a value that was to be added.
#[derive(Debug)]
pub(crate) enum Insert<'g, V> {
    /// It is in the table.
    New(&'g V),
    /// The key had this value already; the other one is dropped.
    Existing(&'g V),
    /// It cannot be kept: the allocator returns addresses of more than 48 bits.
    Refused(V),
}

/// A lock-free map from keys to values.
///
/// References that it returns live as long as the guard that was given. A guard comes from [`pin`](Self::pin) of
/// the same table.
pub(crate) struct Table<V, R> {
    root: AtomicPtr<Array<V>>,
    reclaim: R,
    owned: PhantomData<Box<Node<V>>>,
}

/// What [`Table::place`] does about a key that is there already.
#[derive(Clone, Copy)]
enum Rule<'a, V> {
    /// Leave it.
    Insert,
    /// Put the new node in its place.
    Replace,
    /// It is the copy of this bucket, which another thread has made; or what became of it.
    Copy { from: &'a Bucket<V>, copying: Word<V> },
}

enum Placed<'g, V> {
    New,
    Existing(&'g Node<V>),
    Replaced(&'g Node<V>),
}

/// Where a key was found.
struct Found<'g, V> {
    array: &'g Array<V>,
    index: usize,
    word: Word<V>,
    node: &'g Node<V>,
}

impl<V: Send + Sync + 'static, R: Reclaim> Table<V, R> {
    /// A table that takes this many keys before it grows.
    pub(crate) fn with_capacity(keys: usize) -> Self {
        Table {
            root: AtomicPtr::new(Array::boxed(capacity_for(keys.saturating_mul(2)))),
            reclaim: R::default(),
            owned: PhantomData,
        }
    }

    /// The way this table frees memory.
    pub(crate) fn reclaim(&self) -> &R {
        &self.reclaim
    }

    /// A guard for the calls below.
    #[inline(always)]
    pub(crate) fn pin(&self) -> R::Guard {
        self.reclaim.pin()
    }

    /// The value of `key`.
    #[inline]
    pub(crate) fn get<'g>(&'g self, key: &Key, guard: &'g R::Guard) -> Option<&'g V> {
        self.find(key, guard).map(|found| &found.node.value)
    }

    /// Adds `value`, unless the key has one.
    pub(crate) fn insert<'g>(&'g self, key: &Key, value: V, guard: &'g R::Guard) -> Insert<'g, V> {
        let (node, word) = match allocate(key, value) {
            Ok(new) => new,
            Err(value) => return Insert::Refused(value),
        };
        match self.place(self.root(guard), hash(key), key, word, Rule::Insert, guard) {
            // SAFETY: it was in a bucket after the guard was made.
            Placed::New => Insert::New(unsafe { &self.reclaim.get(node, guard).value }),
            Placed::Existing(there) | Placed::Replaced(there) => {
                // SAFETY: our node was not placed, so nobody else has it.
                drop(unsafe { Box::from_raw(node) });
                Insert::Existing(&there.value)
            }
        }
    }

    /// Gives `key` this value, and returns the one it had. Readers see the old one or the new one.
    ///
    /// # Errors
    ///
    /// The new value, if it cannot be kept (see [`Insert::Refused`]); the old one stays.
    pub(crate) fn replace<'g>(
        &'g self,
        key: &Key,
        value: V,
        guard: &'g R::Guard,
    ) -> Result<Option<&'g V>, V> {
        let (_, word) = allocate(key, value)?;
        match self.place(self.root(guard), hash(key), key, word, Rule::Replace, guard) {
            Placed::New => Ok(None),
            Placed::Existing(there) | Placed::Replaced(there) => Ok(Some(&there.value)),
        }
    }

    /// Removes `key` and returns its value.
    pub(crate) fn remove<'g>(&'g self, key: &Key, guard: &'g R::Guard) -> Option<&'g V> {
        self.remove_if(key, |_| true, guard)
    }

    /// Removes `key` if its value is still the one at `seen`; says whether it was.
    pub(crate) fn remove_seen(&self, key: &Key, seen: &V, guard: &R::Guard) -> bool {
        self.remove_if(key, |value| ptr::eq(value, seen), guard).is_some()
    }

    fn remove_if<'g>(
        &'g self,
        key: &Key,
        wanted: impl Fn(&V) -> bool,
        guard: &'g R::Guard,
    ) -> Option<&'g V> {
        loop {
            let found = self.find(key, guard)?;
            if !wanted(&found.node.value) {
                return None;
            }
            if found.word.state() == State::Copying && !planted(REMOVE_COPYING) {
                self.settle(found.array, found.index, guard);
                continue;
            }
            if planted(EARLY_RETIRE) {
                // SAFETY: a fault; only planted where the reclaimer frees nothing.
                unsafe { self.reclaim.retire(found.word.node(), guard) };
            }
            if found.array.bucket(found.index).change(found.word, Word::REMOVED) {
                if !planted(EARLY_RETIRE) {
                    // SAFETY: T4.
                    unsafe { self.reclaim.retire(found.word.node(), guard) };
                }
                found.array.counts.removed.fetch_add(1, Ordering::Relaxed);
                return Some(&found.node.value);
            }
        }
    }

    /// Removes every key that is there now, and shows each value that it removed.
    pub(crate) fn clear(&self, mut removed: impl FnMut(&V), guard: &R::Guard) {
        self.for_each(
            |key, value| {
                if self.remove_seen(key, value, guard) {
                    removed(value);
                }
            },
            guard,
        );
    }

    /// Shows every key that is there from begin to end of the call. A key may be shown twice if the table is
    /// rebuilt meanwhile.
    pub(crate) fn for_each<'g>(&'g self, mut see: impl FnMut(&'g Key, &'g V), guard: &'g R::Guard) {
        let mut array = self.newest(guard);
        loop {
            for bucket in &array.buckets {
                if let Some(node) = self.node(bucket.load(), guard) {
                    see(&node.key, &node.value);
                }
            }
            if self.next(array, guard).is_none() {
                return;
            }
            array = self.newest(guard);
        }
    }

    /// The number of keys, counted.
    #[cfg(test)]
    pub(crate) fn len(&self, guard: &R::Guard) -> usize {
        loop {
            let array = self.newest(guard);
            let keys = array.buckets.iter().filter(|bucket| bucket.load().has_node()).count();
            if self.next(array, guard).is_none() {
                return keys;
            }
        }
    }

    /// Shows up to `want` keys of those behind the bucket at `from`, in the order of the buckets, all round
    /// at most, and some key if there is any; returns where it stopped.
    pub(crate) fn sample<'g>(
        &'g self,
        from: usize,
        want: usize,
        mut see: impl FnMut(&'g Key, &'g V),
        guard: &'g R::Guard,
    ) -> usize {
        loop {
            let array = self.newest(guard);
            let mut seen = 0;
            for index in (0..array.buckets.len()).map(|step| from.wrapping_add(step)) {
                if seen == want {
                    return index;
                }
                if let Some(node) = self.node(array.bucket(index).load(), guard) {
                    see(&node.key, &node.value);
                    seen += 1;
                }
            }
            // They may have moved before our eyes.
            if seen > 0 || planted(HASTY_SAMPLE) || self.next(array, guard).is_none() {
                return from;
            }
        }
    }

    /// Whether the counts are those of the buckets. Only when nobody else is here.
    #[cfg(test)]
    pub(super) fn counts_are_right(&self, guard: &R::Guard) -> bool {
        let array = self.newest(guard);
        let count = |wanted: &dyn Fn(State) -> bool| {
            array.buckets.iter().filter(|bucket| wanted(bucket.load().state())).count()
        };
        array.counts.seats.load(Ordering::Relaxed) == count(&|state| state != State::Empty)
            && array.counts.removed.load(Ordering::Relaxed)
                == count(&|state| state == State::Removed)
    }

    /// The sizes of the arrays in use: more than one only while a rebuild goes on.
    #[cfg(test)]
    pub(super) fn arrays(&self, guard: &R::Guard) -> Vec<usize> {
        let mut array = Some(self.root(guard));
        std::iter::from_fn(|| {
            let this = array?;
            array = self.next(this, guard);
            Some(this.buckets.len())
        })
        .collect()
    }

    #[inline(always)]
    fn root<'g>(&'g self, guard: &'g R::Guard) -> &'g Array<V> {
        // SAFETY: never null, and retired only after it is no longer the root (T4).
        unsafe { self.reclaim.get(self.root.load(Ordering::Acquire), guard) }
    }

    fn next<'g>(&'g self, array: &Array<V>, guard: &'g R::Guard) -> Option<&'g Array<V>> {
        let next = array.next.load(Ordering::Acquire);
        // SAFETY: an array that is reached under the guard is retired after it, and its next one later
        // still.
        (!next.is_null()).then(|| unsafe { self.reclaim.get(next, guard) })
    }

    #[inline(always)]
    fn node<'g>(&'g self, word: Word<V>, guard: &'g R::Guard) -> Option<&'g Node<V>> {
        // SAFETY: a node is retired after it has left its bucket (T4), from which we have it under the guard.
        word.has_node().then(|| unsafe { self.reclaim.get(word.node(), guard) })
    }

    /// Walks the path of `key` to its node.
    #[inline(always)]
    fn find<'g>(&'g self, key: &Key, guard: &'g R::Guard) -> Option<Found<'g, V>> {
        let hash = hash(key);
        let mut array = self.root(guard);
        loop {
            let mut index = hash as usize;
            let mut moved = false;
            loop {
                let word = array.bucket(index).load();
                if word.has_node() {
                    if word.is_tagged(hash)
                        && let Some(node) = self.node(word, guard)
                        && node.key == *key
                    {
                        return Some(Found { array, index, word, node });
                    }
                } else {
                    match word.state() {
                        State::Empty if !moved => return None,
                        State::Closed if planted(CLOSED_IS_ABSENT) => return None,
                        State::Empty | State::Closed => break,
                        State::Moved => {
                            moved |= word.is_tagged(hash) && !planted(MOVED_IS_REMOVED);
                        }
                        State::Removed | State::Node | State::Copying => {}
                    }
                }
                index = index.wrapping_add(1);
            }
            array = self.next(array, guard)?;
        }
    }

    /// Walks the path of `key` from `array` on, to put `new` at its end or, if the rule says so, in the place of
    /// what is there.
    fn place<'g>(
        &'g self,
        mut array: &'g Array<V>,
        hash: u64,
        key: &Key,
        new: Word<V>,
        rule: Rule<'_, V>,
        guard: &'g R::Guard,
    ) -> Placed<'g, V> {
        'array: loop {
            let mut seat = None;
            let mut removed = 0;
            let mut index = hash as usize;
            loop {
                let bucket = array.bucket(index);
                let word = bucket.load();
                match word.state() {
                    State::Empty => {
                        if let Some(next) = self.next(array, guard) {
                            if bucket.change(word, Word::CLOSED) {
                                array = next;
                                continue 'array;
                            }
                            continue;
                        }
                        if seat.is_none() && removed <= MAX_REMOVED {
                            seat = array.seat();
                        }
                        if seat.is_none() {
                            self.rebuild(array, guard);
                            continue;
                        }
                        if let Rule::Copy { from, copying } = rule
                            && from.load() != copying
                            && !planted(BLIND_COPY)
                        {
                            return Placed::New; // T3: another thread has copied it
                        }
                        if bucket.change(word, new) {
                            if let Some(seat) = seat {
                                seat.use_up();
                            }
                            return Placed::New;
                        }
                        if !planted(LOST_RACE) {
                            continue;
                        }
                    }
                    State::Closed => match self.next(array, guard) {
                        Some(next) => {
                            array = next;
                            continue 'array;
                        }
                        None => unreachable!("a bucket is closed only once there is a next array"),
                    },
                    State::Removed if planted(REUSE) => {
                        if bucket.change(word, new) {
                            return Placed::New;
                        }
                    }
                    State::Removed => removed += 1,
                    State::Moved => {}
                    state @ (State::Node | State::Copying) => {
                        if word.is_tagged(hash)
                            && let Some(there) = self.node(word, guard)
                            && there.key == *key
                        {
                            if !matches!(rule, Rule::Replace) {
                                return Placed::Existing(there);
                            }
                            if state == State::Copying && !planted(REPLACE_COPYING) {
                                self.settle(array, index, guard);
                                continue;
                            }
                            if bucket.change(word, new) {
                                // SAFETY: T4.
                                unsafe { self.reclaim.retire(word.node(), guard) };
                                return Placed::Replaced(there);
                            }
                            continue;
                        }
                    }
                }
                index = index.wrapping_add(1);
            }
        }
    }

    /// Makes the next array, and moves everything there.
    #[cold]
    fn rebuild(&self, array: &Array<V>, guard: &R::Guard) {
        if !array.next.load(Ordering::Acquire).is_null() {
            return;
        }
        // A quarter full at most, half at the next rebuild.
        let new = Array::boxed(capacity_for(array.keys() * 4));
        let null = ptr::null_mut();
        if array.next.compare_exchange(null, new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: ours, and not linked.
            drop(unsafe { Box::from_raw(new) });
            return;
        }
        if planted(EARLY_ROOT) {
            array.settled.store(true, Ordering::Release);
            self.move_root(guard);
        }
        for index in 0..array.buckets.len() {
            self.settle(array, index, guard);
        }
        array.settled.store(true, Ordering::Release);
        self.move_root(guard);
    }

    /// Moves the root over all arrays that are settled, and retires them.
    fn move_root(&self, guard: &R::Guard) {
        loop {
            // Of two threads that have settled two arrays, either sees what the other has done.
            if !planted(NO_FENCE) {
                fence(Ordering::SeqCst);
            }
            let root = self.root.load(Ordering::Acquire);
            // SAFETY: as in `root`.
            let array = unsafe { self.reclaim.get(root, guard) };
            if !array.settled.load(Ordering::Acquire) {
                return;
            }
            let next = array.next.load(Ordering::Acquire);
            if planted(EARLY_ARRAY) {
                // SAFETY: a fault; only planted where the reclaimer frees nothing.
                unsafe { self.reclaim.retire(root, guard) };
            }
            if self.root.compare_exchange(root, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
                && !planted(EARLY_ARRAY)
            {
                // SAFETY: T4.
                unsafe { self.reclaim.retire(root, guard) };
            }
        }
    }

    /// Brings a bucket of an array with a next one to its last state.
    fn settle(&self, array: &Array<V>, index: usize, guard: &R::Guard) {
        let bucket = array.bucket(index);
        loop {
            let word = bucket.load();
            match word.state() {
                State::Removed | State::Closed | State::Moved => return,
                State::Empty => {
                    if planted(NOT_CLOSED) || bucket.change(word, Word::CLOSED) {
                        return;
                    }
                }
                State::Node if !planted(COPY_UNFROZEN) => {
                    bucket.change(word, word.copying());
                }
                State::Node | State::Copying => {
                    let (Some(node), Some(next)) =
                        (self.node(word, guard), self.next(array, guard))
                    else {
                        unreachable!("only arrays with a next one are settled");
                    };
                    let copy = Rule::Copy { from: bucket, copying: word };
                    self.place(next, hash(&node.key), &node.key, word.settled(), copy, guard);
                    bucket.change(word, word.moved());
                    return;
                }
            }
        }
    }

    /// The last array, with everything in it that is not being added right now.
    fn newest<'g>(&'g self, guard: &'g R::Guard) -> &'g Array<V> {
        let mut array = self.root(guard);
        while let Some(next) = self.next(array, guard) {
            (0..array.buckets.len()).for_each(|index| self.settle(array, index, guard));
            array = next;
        }
        array
    }
}

impl<V, R> Drop for Table<V, R> {
    fn drop(&mut self) {
        // A rebuild borrows the table, so all are over, and the root is the last array (see `move_root`).
        // SAFETY: nobody else is here; the root came from a box and was not retired.
        let array = unsafe { Box::from_raw(self.root.load(Ordering::Acquire)) };
        for bucket in &array.buckets {
            let word = bucket.load();
            if word.has_node() {
                // SAFETY: it came from a box; what is in a bucket was not retired (T4), and is in no other (T1).
                drop(unsafe { Box::from_raw(word.node()) });
            }
        }
    }
}

/// A power of two of buckets, at least this many.
fn capacity_for(buckets: usize) -> usize {
    buckets.max(SMALLEST).next_power_of_two()
}

/// A node of its own box and its word; the value, if the address does not fit.
fn allocate<V>(key: &Key, value: V) -> Result<(*mut Node<V>, Word<V>), V> {
    let node = Box::into_raw(Box::new(Node { key: *key, value }));
    match Word::new(node, hash(key)) {
        Some(word) => Ok((node, word)),
        // SAFETY: just made.
        None => Err(unsafe { Box::from_raw(node) }.value),
    }
}
