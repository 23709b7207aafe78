//! Segments: files that records are appended to, and that go as a whole.
//!
//! ```text
//!   0        64                                tail
//!   │ header │ record │ record │ ░ │ record │  │ zeros or what a crash left
//! ```
//!
//! Records begin at multiples of 64 and delimit themselves, so that an index can be made anew from the
//! segments alone ([`scan`]). A segment is never changed below its tail, never shortened, and given back by unlinking
//! its file, which readers that hold it do not notice.

pub(crate) mod victim;

use super::format::SEGMENT_HEADER;
use super::record::{self, ALIGN, Damage, END_MAGIC, Kind, Layout};
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
/// After anything else it goes on at the next multiple of 64. Only a record whose two ends agree is hashed, and what is hashed is
/// passed over, whole or not: no byte is hashed twice, whatever the bytes say, and a record that lies in another's
/// payload is never taken for an entry.
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
            let Some(total) = ends_agree(rest) else {
                self.at += ALIGN;
                continue;
            };
            match record::parse_any(rest) {
                Ok((key, kind, layout)) => {
                    self.hashed += total;
                    self.at += total;
                    self.end = self.at;
                    return Some(Entry { offset, key, kind, layout });
                }
                // Hashed in vain; of an unknown kind; or, without hashing, of no possible shape.
                Err(Damage::Checksum | Damage::Key) => {
                    self.hashed += total;
                    self.at += total;
                }
                Err(_) => self.at += ALIGN,
            }
        }
        None
    }
}

/// The length of the record that `bytes` begin with, if its first and its last bytes tell the same.
fn ends_agree(bytes: &[u8]) -> Option<usize> {
    let total = record::announced_length(bytes).ok()?;
    let (_, end) = bytes.get(..total)?.split_last_chunk::<8>()?;
    let told = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
    (total % ALIGN == 0 && told == total && end[4..] == END_MAGIC).then_some(total)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
