//! Wasmtime's functions in the store: its `CacheStore`, with what its keys lack put in front.

use std::borrow::Cow;

use ::wasmtime::CacheStore;

use crate::key::Key;
use crate::store::{Draft, Store};

/// The domain of the keys of WebAssembly functions.
const DOMAIN: &str = "cachelift wasmtime v1";

/// The reason under which an audit counts code that differs from what is kept.
const DIFFERENCE: &str = "audit-difference";

#[doc = include_str!("WASMTIME.md")]
#[derive(Clone, Debug)]
pub struct WasmtimeCache {
    store: Store,
    /// Wasmtime's keys leave out Cranelift's version: a record of another version would be found, decoded, refused, and
    /// never replaced.
    cranelift: &'static str,
}

impl WasmtimeCache {
    /// A cache that keeps what Wasmtime compiles in `store`.
    pub fn new(store: Store) -> Self {
        WasmtimeCache { store, cranelift: cranelift_codegen::VERSION }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    fn key(&self, wasmtimes: &[u8]) -> Key {
        self.store
            .key(DOMAIN)
            .str("cranelift", self.cranelift)
            .bytes("function", wasmtimes)
            .finish()
    }
}

impl CacheStore for WasmtimeCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        if self.store.config().audit {
            return None;
        }
        self.store.get(&self.key(key)).map(|record| record.payload().to_vec().into())
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let key = self.key(key);
        if self.store.config().audit
            && let Some(kept) = self.store.get(&key)
        {
            self.store.count_audited();
            let same = kept.payload() == value;
            if !same {
                self.store.count_reason(DIFFERENCE, key);
            }
            return same;
        }
        self.store.put(&key, Draft::new(value)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Mutants seen to fail: the version left out of the key, Wasmtime's key left out.
    #[test]
    fn nothing_is_found_under_another_version_or_key() {
        let dir = tempfile::tempdir().unwrap();
        let ours = WasmtimeCache::new(Store::open(Config::default().dir(dir.path().join("cache"))));
        let older = WasmtimeCache { cranelift: "0.1.0", ..ours.clone() };

        assert!(ours.insert(b"one", b"code".to_vec()));
        assert_eq!(ours.get(b"one").as_deref(), Some(&b"code"[..]));
        assert_eq!(ours.get(b"two"), None);
        assert_eq!(older.get(b"one"), None);

        assert!(older.insert(b"one", b"older".to_vec()));
        assert_eq!(ours.get(b"one").as_deref(), Some(&b"code"[..]));
    }

    /// Kills: an audit that answers from the store; one that does not compare.
    #[test]
    fn an_audit_compares_what_is_compiled_with_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let config = || Config::default().dir(dir.path().join("cache"));
        assert!(WasmtimeCache::new(Store::open(config())).insert(b"one", b"code".to_vec()));

        let audit = WasmtimeCache::new(Store::open(config().audit(true)));
        assert_eq!(audit.get(b"one"), None, "Wasmtime is to compile it again");
        assert!(audit.insert(b"one", b"code".to_vec()));
        assert_eq!(audit.store.stats().reasons.get(DIFFERENCE), None);
        assert!(!audit.insert(b"one", b"other".to_vec()));
        assert_eq!(audit.store.stats().reasons[DIFFERENCE], 1);
        assert_eq!(audit.store.stats().audited, 2);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_told_to_wasmtime() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("cache");
        let writer = WasmtimeCache::new(Store::open(Config::default().dir(&dir)));
        assert!(writer.insert(b"one", b"code".to_vec()));

        let config = Config::default().dir(&dir).mode(crate::config::Mode::ReadOnly);
        let reader = WasmtimeCache::new(Store::open(config));
        assert_eq!(reader.get(b"one").as_deref(), Some(&b"code"[..]));
        assert!(!reader.insert(b"two", b"code".to_vec()));
    }
}
