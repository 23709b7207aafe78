//! Mapped files: every load and store of a word that others may change is a step.

use std::fmt;
use std::io;

use super::op::{Ino, Op, Reply};
use super::{Handle, SimFs};
use crate::store::disk::map::MapFs;
use crate::store::disk::words::{Words, WordsMut};
use crate::store::memory::Keep;
use crate::sync::{Arc, Ordering};

/// The words of a mapped file, to read and, where it was mapped for that, to write. The steps come one after
/// another, so every one of them has the order of the strongest; what weaker ones allow is loom's business.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    mapping: Arc<Mapping>,
    words: usize,
}

struct Mapping {
    fs: SimFs,
    inode: Ino,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({})", self.inode)
    }
}

impl SimFs {
    fn map_words(&self, file: &Handle, length: u64, write: bool) -> io::Result<Map> {
        match self.perform(Op::Map { file: file.fd, length, write })? {
            Reply::Mapped(inode) => Ok(Map {
                mapping: Arc::new(Mapping { fs: self.clone(), inode }),
                words: length as usize / 8,
            }),
            other => unreachable!("{other:?}"),
        }
    }
}

impl MapFs for SimFs {
    type Map = Map;
    type MapMut = Map;
    // So that it does not depend on other tests when a file is closed.
    type Reclaim = Keep;

    fn map(&self, file: &Handle, length: u64) -> io::Result<Map> {
        self.map_words(file, length, false)
    }

    fn map_mut(&self, file: &Handle, length: u64) -> io::Result<Map> {
        self.map_words(file, length, true)
    }

    fn reader(map: &Map) -> Map {
        map.clone()
    }
}

impl Map {
    fn perform(&self, at: usize, op: Op) -> Reply {
        assert!(at < self.words, "word {at} of {}", self.words);
        // Only a process that dies in its destructors gets no answer.
        self.mapping.fs.perform(op).unwrap_or(Reply::Word(0))
    }
}

impl Words for Map {
    fn len(&self) -> usize {
        self.words
    }

    fn load(&self, at: usize) -> u64 {
        let Mapping { fs, inode } = &*self.mapping;
        assert!(at < self.words, "word {at} of {}", self.words);
        if !fs.world.machine(|machine| machine.load_is_seen(*inode, at)) {
            let word = fs.world.machine(|machine| machine.word(*inode, at));
            return word.unwrap_or_else(|broken| panic!("{broken:?}"));
        }
        match self.perform(at, Op::Load { inode: *inode, at }) {
            Reply::Word(word) => word,
            other => unreachable!("{other:?}"),
        }
    }

    fn acquire(&self) {}
}

impl WordsMut for Map {
    fn store(&self, at: usize, value: u64, _: Ordering) {
        self.perform(at, Op::Store { inode: self.mapping.inode, at, value });
    }

    fn replace(&self, at: usize, current: u64, new: u64) -> bool {
        let exchange = Op::Exchange { inode: self.mapping.inode, at, current, new };
        self.perform(at, exchange) == Reply::Said(true)
    }

    fn add(&self, at: usize, n: u64) -> u64 {
        match self.perform(at, Op::Add { inode: self.mapping.inode, at, n }) {
            Reply::Word(word) => word,
            other => unreachable!("{other:?}"),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.fs.is_unwinding() {
            let pid = self.fs.pid();
            self.fs.world.machine(|machine| machine.unmap(pid, self.inode));
        }
    }
}
