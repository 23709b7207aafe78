//! What a cached thing is called: a 32-byte digest of everything that shapes it.
//!
//! ```text
//!   named, typed parts ──encode (injective)──► bytes ──blake3──► Key
//!            └──────────────(optional)──────────────► PartDigest per part ──► "why did it miss?"
//! ```
//!
//! Two different lists of parts never have the same encoding, so two different things share a key only
//! if blake3 collides. Nothing that varies between two processes that want the same thing belongs in a
//! key: no path, time, address, process id or order of a hash map.
//!
#![doc = include_str!("key/INPUTS.md")]

mod encode;
pub mod reason;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::str::FromStr;

pub use encode::{KeyBuilder, PartDigest};

/// The name of a cached thing: a blake3 digest of its parts.
///
/// Keys are uniform, so tables take their bits as they are instead of hashing them again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// A key of these 32 bytes, which must be a digest: tables rely on their being uniform.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Key(bytes)
    }

    /// The 32 bytes of this key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key of `bytes` in the context that this key names: blake3, keyed with it. Two contexts, or two
    /// lists of bytes, give two keys; for parts that are always the same the context's key is computed
    /// once, and each use costs no more than hashing its own bytes.
    pub fn derive(&self, bytes: &[u8]) -> Key {
        Key(*blake3::keyed_hash(&self.0, bytes).as_bytes())
    }

    /// The `n`-th of the four 64-bit words of this key, little-endian.
    pub(crate) fn word(&self, n: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[n * 8..n * 8 + 8]);
        u64::from_le_bytes(word)
    }
}

/// Prints 64 lower-case hexadecimal digits.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A hasher of keys, for tables: keys are uniform, so it takes their first word as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if let Some(word) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*word);
        }
    }

    #[inline]
    fn write_usize(&mut self, _: usize) {
        // The length of the array, which is that of every key.
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A table by key.
pub type KeyMap<V> = HashMap<Key, V, BuildHasherDefault<KeyHasher>>;

/// Text that is no key: a key is 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a key: expected 64 hexadecimal digits")]
pub struct ParseKeyError;

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(ParseKeyError);
        }
        let digit = |c: u8| (c as char).to_digit(16).ok_or(ParseKeyError);
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Key(bytes))
    }
}
