//! Bytes that compiled code refers to: captured arrays, texts of messages. Equal bytes lie at one address in a process, so
//! that code which uses equal constants is the same code.
//!
//! ```text
//!   a plan's digest ──► here already ── in the plan (short) ── the host's own array ── the store (long) ──► address
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use super::manifest::text_digest;
use super::value::Array;
use crate::key::Key;
use crate::store::{Draft, Meta, Store};

/// Constants of more bytes than this are stored once by content; shorter ones lie in every plan that uses them.
pub(crate) const LONG: usize = 64 << 10;

/// Constants begin at multiples of this many bytes.
const ALIGN: usize = 64;

/// Bytes at an aligned address.
#[derive(Clone)]
#[repr(align(64))]
struct Line([u8; ALIGN]);

/// The constants of a process's kernels. What is in here stays: code that is loaded points to it.
#[derive(Default)]
pub(crate) struct Constants {
    blocks: HashMap<Key, Box<[Line]>>,
}

impl Constants {
    /// The address of these bytes.
    pub(crate) fn address(&mut self, bytes: &[u8]) -> *const u8 {
        self.insert(text_digest(bytes), bytes)
    }

    /// The address of the bytes of this digest, and the bytes' own where they are at hand.
    pub(crate) fn find(
        &mut self,
        digest: Key,
        inline: Option<&[u8]>,
        arrays: &[Arc<Array>],
        store: &Store,
    ) -> Option<*const u8> {
        if let Some(block) = self.blocks.get(&digest) {
            return Some(block.as_ptr().cast());
        }
        if let Some(bytes) = inline.filter(|bytes| text_digest(bytes) == digest) {
            return Some(self.insert(digest, bytes));
        }
        for array in arrays {
            let mut orders = vec![array.to_bytes()];
            if array.ndim() > 1 {
                orders.push(array.transposed().to_bytes());
            }
            if let Some(bytes) = orders.iter().find(|bytes| text_digest(bytes) == digest) {
                return Some(self.insert(digest, bytes));
            }
        }
        let record = store.get(&key(store, &digest))?;
        let bytes = record.payload();
        (text_digest(bytes) == digest).then(|| self.insert(digest, bytes))
    }

    fn insert(&mut self, digest: Key, bytes: &[u8]) -> *const u8 {
        let block = self.blocks.entry(digest).or_insert_with(|| {
            // One line more than needed: code may not read beyond the end, but an address past it must be this block's.
            let mut lines = vec![Line([0; ALIGN]); bytes.len() / ALIGN + 1];
            for (line, chunk) in lines.iter_mut().zip(bytes.chunks(ALIGN)) {
                line.0[..chunk.len()].copy_from_slice(chunk);
            }
            lines.into()
        });
        block.as_ptr().cast()
    }
}

/// Puts long bytes into the store, for processes that do not have the host's value.
pub(crate) fn keep(store: &Store, digest: &Key, bytes: &[u8]) {
    let key = key(store, digest);
    if bytes.len() > LONG && !store.contains(&key) {
        let label = format!("constant of {} bytes", bytes.len());
        let producer = concat!("cachelift ", env!("CARGO_PKG_VERSION")).into();
        let meta = Meta { label, producer, ..Meta::default() };
        let _ = store.put(&key, Draft { payload: bytes.to_vec(), meta });
    }
}

fn key(store: &Store, digest: &Key) -> Key {
    store.key("cachelift kernel constant v1").key("contents", digest).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Equal bytes have one address, which is aligned; long ones are found in the store, and what was evicted is found in
    /// the host's arrays.
    #[test]
    fn constants_are_found_by_content() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Config::default().dir(dir.path().join("cache")));
        let mut constants = Constants::default();
        let address = constants.address(b"text");
        assert_eq!(address, constants.address(b"text"));
        assert_ne!(address, constants.address(b"other"));
        assert_eq!(address.addr() % ALIGN, 0);

        let array = Arc::new(Array::from_vec((0..20_000).collect::<Vec<i64>>(), &[20_000]));
        let bytes = array.to_bytes();
        let digest = text_digest(&bytes);
        let find = |arrays: &[Arc<Array>]| Constants::default().find(digest, None, arrays, &store);
        assert_eq!(find(&[]), None);
        assert!(find(&[Arc::clone(&array)]).is_some());
        keep(&store, &digest, &bytes);
        assert!(find(&[]).is_some());
        assert!(store.remove(&key(&store, &digest)).unwrap());
        assert_eq!(find(&[]), None);
        assert!(find(&[array]).is_some());
        let wrong = Constants::default().find(digest, Some(b"other"), &[], &store);
        assert_eq!(wrong, None);
    }
}
