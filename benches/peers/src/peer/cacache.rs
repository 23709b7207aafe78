//! cacache.

use std::path::{Path, PathBuf};

use cachelift::key::Key;

use super::Cache;

pub struct Cacache(PathBuf);

impl Cacache {
    pub fn open(dir: &Path) -> Self {
        Cacache(dir.to_owned())
    }
}

impl Cache for Cacache {
    fn get(&mut self, key: &Key) -> Option<usize> {
        match cacache::read_sync(&self.0, key.to_string()) {
            Ok(copy) => Some(std::hint::black_box(copy).len()),
            Err(cacache::Error::EntryNotFound(..)) => None,
            Err(error) => panic!("cacache: {error}"),
        }
    }

    fn put(&mut self, key: &Key, payload: &[u8]) {
        cacache::write_sync(&self.0, key.to_string(), payload).expect("cacache writes");
    }
}
