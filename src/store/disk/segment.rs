//! Segments: files that records are appended to, and that go as a whole.
//!
//! ```text
//!   0        64                                tail
//!   │ header │ record │ record │ ░ │ record │  │ zeros or what a crash left
//! ```
//!
//! Records begin at multiples of 64 and delimit themselves, so that an index can be made anew from
//! the segments alone ([`scan`]). A segment is never changed below its tail, never shortened, and
//! given back by unlinking its file, which readers that hold it do not notice.

pub(crate) mod victim;

use super::format::SEGMENT_HEADER;
use super::record::{self, ALIGN, Damage, Kind, Layout};
use crate::key::Key;

/// A whole record in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it begins in the segment.
    pub(crate) offset: usize,
    pub(crate) key: Key,
    pub(crate) kind: Kind,
    /// Where its parts lie, counted from its beginning.
    pub(crate) layout: Layout,
}

/// The whole records in the bytes of a segment, in order. Its header is the caller's to check.
///
/// After anything else it goes on at the next multiple of 64. Only a record whose two ends agree on
/// its length is hashed, and what is hashed is passed over, whole or not: no byte is hashed twice,
/// whatever the bytes say, and a record that lies in another's payload is never taken for an entry.
pub(crate) fn scan(bytes: &[u8]) -> Scan<'_> {
    Scan { bytes, at: SEGMENT_HEADER, end: SEGMENT_HEADER, hashed: 0 }
}

/// See [`scan`].
#[derive(Clone, Debug)]
pub(crate) struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    hashed: usize,
}

#[cfg(test)]
impl Scan<'_> {
    /// Where the last whole record so far ended: the segment's tail, once the scan is done.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// How many bytes were hashed so far: at most those there are.
    pub(crate) fn hashed(&self) -> usize {
        self.hashed
    }
}

impl Iterator for Scan<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        while self.at < self.bytes.len() {
            let offset = self.at;
            let rest = &self.bytes[offset..];
            match record::parse_any(rest) {
                Ok((key, kind, layout)) => {
                    self.pass_over(layout.total);
                    self.end = self.at;
                    return Some(Entry { offset, key, kind, layout });
                }
                // Both ends agree on its length: its bytes are damaged, or a newer version knows
                // it.
                Err(Damage::Checksum | Damage::Format) => {
                    let total = record::announced_length_any(rest).expect("it was hashed");
                    self.pass_over(total);
                }
                // Nothing was hashed.
                Err(_) => self.at += ALIGN,
            }
        }
        None
    }
}

impl Scan<'_> {
    fn pass_over(&mut self, hashed: usize) {
        self.hashed += hashed;
        self.at += hashed;
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
