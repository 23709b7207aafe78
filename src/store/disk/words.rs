//! Arrays of shared 64-bit words: what the index is written over.
//!
//! ```text
//!                 ┌── Map, MapMut   a mapped file, shared with other processes   map.rs
//!   Index<W> ── W ┤
//!                 └── Array         atomics of `crate::sync`: std, loom, shuttle  (tests)
//! ```
//!
//! Loom's atomics are not the size of a word and cannot lie in a file, so the protocol is written
//! once, over this trait, and the code that is model-checked is the code that runs.

use super::checksum::{self, CHECKSUM};
use crate::sync::{Arc, Ordering};

/// Words that other threads and processes may change at any time. Reading is defined on read-only
/// memory too, where only relaxed loads are: an acquire is a relaxed load and a
/// `fence`.
pub(crate) trait Words {
    /// How many words there are. It never changes.
    fn len(&self) -> usize;

    /// The word `at`, without order.
    ///
    /// # Panics
    ///
    /// As every method here, if `at` is not below [`len`](Self::len).
    fn load(&self, at: usize) -> u64;

    /// Orders the loads above it before everything below it.
    fn acquire(&self);

    /// As [`copy`], into new memory.
    fn copy_new(&self, offset: usize, length: usize) -> Vec<u8>
    where
        Self: Sized,
    {
        let mut bytes = vec![0; length];
        copy(self, offset, &mut bytes);
        bytes
    }

    /// As [`copy_new`](Self::copy_new), with the checksum of all that was copied but the last [`CHECKSUM`] bytes.
    fn copy_summed(&self, offset: usize, length: usize) -> (Vec<u8>, u128)
    where
        Self: Sized,
    {
        let bytes = self.copy_new(offset, length);
        let sum = checksum::of(&bytes[..length.saturating_sub(CHECKSUM)]);
        (bytes, sum)
    }
}

/// Copies the bytes from `offset` on. They are whole only where nobody writes any more: in a
/// published record, and after an acquire that saw it published.
///
/// # Panics
///
/// If the offset or the length is not a multiple of 8, or the range leaves the words.
pub(crate) fn copy(words: &impl Words, offset: usize, into: &mut [u8]) {
    check_range(words, offset, into.len());
    for (n, bytes) in into.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&words.load(offset / 8 + n).to_ne_bytes());
    }
}

/// Panics unless these bytes are whole words that are there.
pub(crate) fn check_range(words: &impl Words, offset: usize, length: usize) {
    assert!(offset.is_multiple_of(8) && length.is_multiple_of(8), "words are copied whole");
    let inside = offset / 8 <= words.len() && length / 8 <= words.len() - offset / 8;
    assert!(inside, "{length} bytes from {offset} are not there");
}

/// Words that may be written as well.
pub(crate) trait WordsMut: Words {
    /// Sets the word `at`. `order` is `Relaxed` or `Release`.
    fn store(&self, at: usize, value: u64, order: Ordering);

    /// Sets the word `at` to `new` if it is `current`: whether it was. Acquires and releases.
    fn replace(&self, at: usize, current: u64, new: u64) -> bool;

    /// Adds to the word `at`, wrapping, without order; what it was.
    fn add(&self, at: usize, n: u64) -> u64;
}

impl<W: Words> Words for Arc<W> {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn load(&self, at: usize) -> u64 {
        (**self).load(at)
    }

    fn acquire(&self) {
        (**self).acquire();
    }
}

impl<W: WordsMut> WordsMut for Arc<W> {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        (**self).store(at, value, order);
    }

    fn replace(&self, at: usize, current: u64, new: u64) -> bool {
        (**self).replace(at, current, new)
    }

    fn add(&self, at: usize, n: u64) -> u64 {
        (**self).add(at, n)
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use array::Array;

#[cfg(any(test, feature = "fuzzing"))]
mod array {
    use super::{Words, WordsMut};
    use crate::sync::{AtomicU64, Ordering, fence};

    /// Words of this process alone.
    #[derive(Debug)]
    pub(crate) struct Array(Vec<AtomicU64>);

    impl Array {
        /// `len` words of zero.
        pub(crate) fn new(len: usize) -> Self {
            Self::of(std::iter::repeat_n(0, len))
        }

        pub(crate) fn of(words: impl IntoIterator<Item = u64>) -> Self {
            Array(words.into_iter().map(AtomicU64::new).collect())
        }
    }

    impl Words for Array {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn load(&self, at: usize) -> u64 {
            self.0[at].load(Ordering::Relaxed)
        }

        fn acquire(&self) {
            fence(Ordering::Acquire);
        }
    }

    impl WordsMut for Array {
        fn store(&self, at: usize, value: u64, order: Ordering) {
            self.0[at].store(value, order);
        }

        fn replace(&self, at: usize, current: u64, new: u64) -> bool {
            self.0[at].compare_exchange(current, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }

        fn add(&self, at: usize, n: u64) -> u64 {
            self.0[at].fetch_add(n, Ordering::Relaxed)
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_as_they_lie() {
        let bytes: Vec<u8> = (0..64).collect();
        let words = bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        let words = Array::of(words);
        let mut into = [0; 24];
        copy(&words, 40, &mut into);
        assert_eq!(into, bytes[40..]);
        copy(&words, 64, &mut []);
    }

    #[test]
    #[should_panic(expected = "16 bytes from 56 are not there")]
    fn nothing_is_copied_from_beyond() {
        copy(&Array::new(8), 56, &mut [0; 16]);
    }
}
