//! Nodes, and the words that name them.
//!
//! ```text
//!   63        48 47                                  3 2  0
//!   ┌───────────┬─────────────────────────────────────┬────┐
//!   │ tag       │ address of a node                   │flag│     one word per bucket
//!   └───────────┴─────────────────────────────────────┴────┘
//!    the key's top 16 bits                             what may still happen to it
//! ```
//!
//! A foreign key is taken for the sought one by its tag, and its node looked at in vain, once in 65,536 times.

use std::ptr;

use crate::key::Key;
use crate::race::{Fault, planted};
use crate::sync::{AtomicPtr, Ordering};

/// Planted: a node is published without what was written to it before.
pub(super) const RELAXED_PUBLISH: Fault = Fault("a bucket is written with relaxed order");

/// Planted: no address fits, as if the allocator used more than 48 bits.
pub(super) const HIGH_ADDRESSES: Fault = Fault("every node lies too high");

const ADDRESS: usize = ((1 << TAG_SHIFT) - 1) & !FLAGS;
const TAG_SHIFT: u32 = 48;
const FLAGS: usize = 0b111;

const COPYING: usize = 1;
const REMOVED: usize = 2;
const CLOSED: usize = 4;
const MOVED: usize = 6;

/// An entry of the table: it never changes, and lives until nobody can be reading it.
///
/// It begins with a cache line: key and value of a short one are read with one miss.
#[repr(C, align(64))]
pub(super) struct Node<V> {
    pub(super) key: Key,
    pub(super) value: V,
}

/// What a word says of its bucket; the table's module has the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing yet, and nothing of this path behind it.
    Empty,
    /// A node, which may be replaced, removed or copied.
    Node,
    /// A node that is still the truth, but may only be moved.
    Copying,
    /// Nothing any more; the path goes on behind it.
    Removed,
    /// The end of the path in this array, which goes on in the next one.
    Closed,
    /// Some key with this tag is in the next array; the path goes on behind it.
    Moved,
}

/// The content of a bucket.
pub(super) struct Word<V>(*mut Node<V>);

impl<V> Clone for Word<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Word<V> {}

impl<V> PartialEq for Word<V> {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl<V> Word<V> {
    #[cfg(test)]
    pub(super) const EMPTY: Self = Word(ptr::null_mut());
    pub(super) const REMOVED: Self = Word(ptr::without_provenance_mut(REMOVED));
    pub(super) const CLOSED: Self = Word(ptr::without_provenance_mut(CLOSED));

    /// The word of `node`, whose key has this hash; `None` if its address needs more than 48 bits (as it may
    /// with five levels of page tables, or with tagged pointers).
    pub(super) fn new(node: *mut Node<V>, hash: u64) -> Option<Self> {
        let fits = node.addr() & !ADDRESS == 0 && !planted(HIGH_ADDRESSES);
        fits.then(|| Word(node.map_addr(|a| a | tag(hash))))
    }

    /// This node's word while it is being copied.
    pub(super) fn copying(self) -> Self {
        Word(self.0.map_addr(|a| a | COPYING))
    }

    /// What a bucket that holds this word says once its node is in the next array.
    pub(super) fn moved(self) -> Self {
        Word(ptr::without_provenance_mut((self.0.addr() & !ADDRESS & !FLAGS) | MOVED))
    }

    /// This word as it would be written in another array's bucket.
    pub(super) fn settled(self) -> Self {
        Word(self.0.map_addr(|a| a & !FLAGS))
    }

    #[inline(always)]
    pub(super) fn has_node(self) -> bool {
        self.0.addr() & ADDRESS != 0
    }

    /// Whether the key of this word may be one with this hash.
    #[inline(always)]
    pub(super) fn is_tagged(self, hash: u64) -> bool {
        (self.0.addr() as u64 ^ hash) >> TAG_SHIFT == 0
    }

    /// The node; null if there is none.
    #[inline(always)]
    pub(super) fn node(self) -> *mut Node<V> {
        self.0.map_addr(|a| a & ADDRESS)
    }

    #[inline(always)]
    pub(super) fn state(self) -> State {
        let flags = self.0.addr() & FLAGS;
        match (self.has_node(), flags) {
            (true, COPYING) => State::Copying,
            (true, _) => State::Node,
            (false, REMOVED) => State::Removed,
            (false, CLOSED) => State::Closed,
            (false, MOVED) => State::Moved,
            (false, _) => State::Empty,
        }
    }
}

/// The key's first word is uniform: its low bits choose the bucket, its top bits are the tag.
#[inline(always)]
pub(super) fn hash(key: &Key) -> u64 {
    key.word(0)
}

fn tag(hash: u64) -> usize {
    (hash >> TAG_SHIFT << TAG_SHIFT) as usize
}

/// A word that threads share.
pub(super) struct Bucket<V>(AtomicPtr<Node<V>>);

impl<V> Bucket<V> {
    pub(super) fn empty() -> Self {
        Bucket(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    pub(super) fn load(&self) -> Word<V> {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Writes `new` if the bucket still holds `old`; says whether it did.
    pub(super) fn change(&self, old: Word<V>, new: Word<V>) -> bool {
        let order = if planted(RELAXED_PUBLISH) { Ordering::Relaxed } else { Ordering::AcqRel };
        self.0.compare_exchange(old.0, new.0, order, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: usize) -> *mut Node<u64> {
        ptr::without_provenance_mut(address)
    }

    #[test]
    fn a_word_gives_back_its_node_and_its_tag() {
        for address in [8, 0x7fff_ffff_fff8, (1 << 48) - 8] {
            for hash in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
                let word = Word::new(at(address), hash).unwrap();
                assert_eq!((word.node().addr(), word.state()), (address, State::Node));
                assert!(word.is_tagged(hash) && word.is_tagged(hash ^ 1));
                assert!(!word.is_tagged(hash ^ 1 << 48) && !word.is_tagged(hash ^ 1 << 63));

                let copying = word.copying();
                assert_eq!((copying.node().addr(), copying.state()), (address, State::Copying));
                assert!(copying.is_tagged(hash) && copying.settled() == word);

                let moved = copying.moved();
                assert_eq!((moved.node().addr(), moved.state()), (0, State::Moved));
                assert!(moved.is_tagged(hash) && !moved.is_tagged(hash ^ 1 << 48));
            }
        }
        assert_eq!(Word::<u64>::EMPTY.state(), State::Empty);
        assert_eq!(Word::<u64>::REMOVED.state(), State::Removed);
        assert_eq!(Word::<u64>::CLOSED.state(), State::Closed);
    }

    /// Mutant: `new` without its check. The tag of such an address would be lost.
    #[test]
    fn an_address_above_48_bits_is_refused() {
        for address in [1 << 48, 1 << 56, 0xfff << 52 | 8, 9] {
            assert!(Word::new(at(address), 0).is_none(), "{address:#x}");
        }
    }
}
