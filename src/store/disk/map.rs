//! The store's only memory mappings: shared files seen as words.
//!
//! Other processes write what is mapped here, so no reference to plain bytes of it ever exists. The
//! bytes are reached as whole, aligned 64-bit atomics through a raw pointer, always of the same
//! width.
//!
//! Invariants that the `unsafe` below rests on:
//!
//! - **Alive**: a mapping lives as long as any [`Map`] or [`MapMut`] of it; clones share it.
//! - **Bounds**: `words` is fixed when the file is mapped, and `words * 8` is at most the mapping's
//!   length.
//! - **Aligned**: a mapping begins at a page, so every word of it is 8-aligned.
//! - **Atomic**: within this process the memory is reached through [`Map::word`] and its like, or by assembly, which
//!   the compiler takes for relaxed loads that come in any order and any width.
//! - **Kept length**: no process shortens a file that the cache maps. One that does raises SIGBUS,
//!   which is no undefined behaviour; the caller compares the length with `fstat`'s before it maps.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::arch::asm;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use memmap2::{MmapOptions, MmapRaw};

use super::checksum::{self, CHECKSUM, LINE, Sums};
use super::fs::Fs;
use super::fs::real::RealFs;
use super::words::{self, Words, WordsMut};
use crate::store::memory::{Epoch, Reclaim};
use crate::sync::{Arc, MappedU64, Ordering, mapped_fence};

/// A file system whose files can be mapped. Callers have compared the length with the file's, and
/// know that nobody shortens it.
pub(crate) trait MapFs: Fs {
    /// Words of a file, for reading; clones share them.
    type Map: Words + Clone + Send + Sync + std::fmt::Debug;
    /// Words of a file, for reading and writing; clones share them.
    type MapMut: WordsMut + Clone + Send + Sync + std::fmt::Debug;

    /// How what was mapped is let go of.
    type Reclaim: Reclaim + std::fmt::Debug;

    /// Maps the first `length` bytes of a file: a multiple of 8, and not 0.
    fn map(&self, file: &Self::Handle, length: u64) -> io::Result<Self::Map>;
    /// As [`map`](Self::map) for a file that is open for writing, all of which has blocks.
    fn map_mut(&self, file: &Self::Handle, length: u64) -> io::Result<Self::MapMut>;
    /// The same words for a reader.
    fn reader(map: &Self::MapMut) -> Self::Map;
}

impl MapFs for RealFs {
    type Map = Map;
    type MapMut = MapMut;
    type Reclaim = Epoch;

    fn map(&self, file: &Self::Handle, length: u64) -> io::Result<Map> {
        Map::read_only(file, length)
    }

    fn map_mut(&self, file: &Self::Handle, length: u64) -> io::Result<MapMut> {
        MapMut::read_write(file, length)
    }

    fn reader(map: &MapMut) -> Map {
        map.reader()
    }
}

/// A mapped file, for reading.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    raw: Arc<MmapRaw>,
    words: usize,
}

/// A mapped file, for reading and writing: made only from a file open for both.
#[derive(Clone, Debug)]
pub(crate) struct MapMut(Map);

impl Map {
    /// Maps the first `length` bytes of `file` for reading.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the length is 0 or no whole number of words, else what the system says.
    pub(crate) fn read_only(file: &impl AsFd, length: u64) -> io::Result<Map> {
        Map::new(file, length, |options, fd| options.map_raw_read_only(fd))
    }

    fn new(
        file: &impl AsFd,
        length: u64,
        map: impl FnOnce(&MmapOptions, std::os::fd::RawFd) -> io::Result<MmapRaw>,
    ) -> io::Result<Map> {
        let bytes =
            usize::try_from(length).ok().filter(|bytes| *bytes > 0 && bytes.is_multiple_of(8));
        let Some(bytes) = bytes else { return Err(io::ErrorKind::InvalidInput.into()) };
        let raw = map(MmapOptions::new().len(bytes), file.as_fd().as_raw_fd())?;
        assert!(raw.len() >= bytes && raw.as_ptr().cast::<u64>().is_aligned());
        Ok(Map { raw: Arc::new(raw), words: bytes / 8 })
    }

    fn word(&self, at: usize) -> &MappedU64 {
        assert!(at < self.words, "word {at} of {}", self.words);
        let base = self.raw.as_mut_ptr().cast::<u64>();
        // SAFETY: *Bounds*, by the assertion.
        let word = unsafe { base.add(at) };
        // SAFETY: *Aligned*; *Alive* for the borrow of `self`; *Atomic*. On a read-only mapping
        // only relaxed loads follow, which are defined there: stores need a `MapMut`.
        unsafe { MappedU64::from_ptr(word) }
    }
}

impl Map {
    /// These words, which [`words::check_range`] has found to be there.
    fn words_from(&self, first: usize, count: usize) -> &[MappedU64] {
        assert!(first <= self.words && count <= self.words - first);
        let base = self.raw.as_mut_ptr().cast::<MappedU64>();
        // SAFETY: *Bounds*, by the assertion.
        let first = unsafe { base.add(first) };
        // SAFETY: *Bounds*, *Aligned*; *Alive* for the borrow of `self`; *Atomic*, as in `word`.
        unsafe { std::slice::from_raw_parts(first, count) }
    }
}

impl MapMut {
    /// Maps the first `length` bytes of `file`, which is open for reading and writing.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the length is 0 or no whole number of words, else what the system says.
    pub(crate) fn read_write(file: &impl AsFd, length: u64) -> io::Result<MapMut> {
        Map::new(file, length, |options, fd| options.map_raw(fd)).map(MapMut)
    }

    /// The same mapping for a reader.
    pub(crate) fn reader(&self) -> Map {
        self.0.clone()
    }
}

/// Records of so many bytes are summed while they are copied.
const SUMMED: usize = 1 << 10;

/// Copies whole lines: atomics are copied word by word, which takes three times as long.
#[inline(always)]
fn copy_lines(from: &[[MappedU64; LINE / 8]], to: &mut [[MaybeUninit<u8>; LINE]]) {
    for (to, from) in to.iter_mut().zip(from) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: reads and writes a line each, which are there. What is read may change meanwhile, in this process
        // too: *Atomic*.
        unsafe {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                from = in(reg) from.as_ptr(),
                to = in(reg) to.as_mut_ptr(),
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        copy_words(from, to);
    }
}

/// Copies whole words.
#[inline(always)]
fn copy_words(from: &[MappedU64], to: &mut [MaybeUninit<u8>]) {
    for (to, from) in to.as_chunks_mut::<8>().0.iter_mut().zip(from) {
        to.write_copy_of_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
    }
}

impl Words for Map {
    fn len(&self) -> usize {
        self.words
    }

    fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    fn acquire(&self) {
        mapped_fence(Ordering::Acquire);
    }

    // Bounds are checked once, and the memory is written once.
    fn copy_new(&self, offset: usize, length: usize) -> Vec<u8> {
        words::check_range(self, offset, length);
        let mut bytes = Vec::with_capacity(length);
        let (lines, rest) = bytes.spare_capacity_mut()[..length].as_chunks_mut::<LINE>();
        let (from_lines, from_rest) = self.words_from(offset / 8, length / 8).as_chunks();
        copy_lines(from_lines, lines);
        copy_words(from_rest, rest);
        // SAFETY: the lines and the rest are all of these bytes, and each was written: there is a word for each
        // eight of them.
        unsafe { bytes.set_len(length) };
        bytes
    }

    // What was read from the mapping is summed before it is read again.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn copy_summed(&self, offset: usize, length: usize) -> (Vec<u8>, u128) {
        // Shorter ones gain nothing, and those that are no whole lines are no records.
        if length < SUMMED || !length.is_multiple_of(LINE) || !checksum::is_wide(length) {
            let bytes = self.copy_new(offset, length);
            let sum = checksum::of(&bytes[..length.saturating_sub(CHECKSUM)]);
            return (bytes, sum);
        }
        words::check_range(self, offset, length);
        let mut bytes = Vec::with_capacity(length);
        let (lines, _) = bytes.spare_capacity_mut()[..length].as_chunks_mut::<LINE>();
        let (from, _) = self.words_from(offset / 8, length / 8).as_chunks();
        let (last_from, from) = from.split_last().expect("there are some");
        let (last, lines) = lines.split_last_mut().expect("there are as many");
        let mut sums = Sums::new();
        // SAFETY: the processor has AVX2.
        unsafe { checksum::wide::copy(&mut sums, from, lines) };
        copy_lines(std::slice::from_ref(last_from), std::slice::from_mut(last));
        // SAFETY: the lines and the last one are all of these bytes, and each was written.
        unsafe { bytes.set_len(length) };
        let summed = &bytes[..length - CHECKSUM];
        let last = summed.last_chunk().expect("it is longer");
        let sum = sums.finish(last, summed.len());
        (bytes, sum)
    }
}

impl Words for MapMut {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.0.load(at)
    }

    fn acquire(&self) {
        self.0.acquire();
    }
}

impl WordsMut for MapMut {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.0.word(at).store(value, order);
    }

    fn replace(&self, at: usize, current: u64, new: u64) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.0.word(at).compare_exchange(current, new, success, failure).is_ok()
    }

    fn add(&self, at: usize, n: u64) -> u64 {
        self.0.word(at).fetch_add(n, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read, Write};

    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("words");
        std::fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    fn open_rw(path: &std::path::Path) -> File {
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    /// Mutant: `read_write` maps a private copy.
    #[test]
    fn mappings_and_files_see_each_other() {
        let (_dir, path) = file(&[0; 64]);
        let writer = MapMut::read_write(&open_rw(&path), 64).unwrap();
        let reader = Map::read_only(&File::open(&path).unwrap(), 64).unwrap();
        assert_eq!((writer.len(), reader.len()), (8, 8));
        writer.store(7, 0x0102, Ordering::Release);
        assert!(writer.replace(0, 0, 5) && !writer.replace(0, 0, 6));
        assert_eq!(writer.add(0, 2), 5);
        assert_eq!((reader.load(0), reader.load(7), writer.reader().load(7)), (7, 0x0102, 0x0102));
        let mut bytes = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[56], bytes[57]), (7, 2, 1), "little-endian");
        open_rw(&path).write_all(&[9]).unwrap();
        assert_eq!(reader.load(0), 9);
    }

    /// Mutants seen killed: the words behind the last whole line left out; of a line, the second half.
    #[test]
    fn new_memory_holds_what_was_mapped() {
        let content: Vec<u8> = (0..40 * 8).map(|n| (n * 7) as u8).collect();
        let (_dir, path) = file(&content);
        let map = Map::read_only(&File::open(&path).unwrap(), 320).unwrap();
        for offset in (0..=320).step_by(8) {
            for length in (0..=320 - offset).step_by(8) {
                assert_eq!(map.copy_new(offset, length), content[offset..][..length]);
            }
        }
    }

    /// Kills: the last line summed too; the last line not copied.
    #[test]
    fn a_copy_and_its_checksum_are_of_the_same_bytes() {
        let content: Vec<u8> = (0..9 << 10_u32).map(|n| (n * 7 + (n >> 8)) as u8).collect();
        let (_dir, path) = file(&content);
        let map = Map::read_only(&File::open(&path).unwrap(), 9 << 10).unwrap();
        for offset in [0, 8, 64, 192] {
            for length in (8..=8 << 10).step_by(8) {
                let (bytes, sum) = map.copy_summed(offset, length);
                assert_eq!(bytes, content[offset..][..length]);
                let summed = &bytes[..length.saturating_sub(CHECKSUM)];
                assert_eq!(sum, checksum::of(summed), "{length} bytes from {offset}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "16 bytes from 120 are not there")]
    fn new_memory_holds_nothing_from_beyond() {
        let (_dir, path) = file(&[0; 128]);
        Map::read_only(&File::open(&path).unwrap(), 128).unwrap().copy_new(120, 16);
    }

    #[test]
    fn a_mapping_outlives_its_file_and_its_name() {
        let (dir, path) = file(&[3; 16]);
        let map = Map::read_only(&File::open(&path).unwrap(), 16).unwrap();
        let clone = map.clone();
        drop((dir, map));
        assert_eq!(clone.load(1), 0x0303_0303_0303_0303);
    }

    #[test]
    #[should_panic(expected = "word 16 of 16")]
    fn no_word_lies_beyond_the_length_asked_for() {
        let (_dir, path) = file(&[0; 256]);
        Map::read_only(&File::open(&path).unwrap(), 128).unwrap().load(16);
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let (_dir, path) = file(&[0; 64]);
        let file = File::open(&path).unwrap();
        for length in [0, 7, u64::MAX, 1 << 63] {
            assert!(Map::read_only(&file, length).is_err(), "{length}");
        }
        assert!(MapMut::read_write(&file, 64).is_err(), "not open for writing");
    }
}
