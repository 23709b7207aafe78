//! The short way to a record that is lent: a symbolic link that is read and never followed.
//!
//! ```text
//!   lent-<key> ──► first word of the key . mark . shard . segment . payload: place, length . hour
//! ```
//!
//! One system call reads it, without a file to open and to close, and it is always whole. It leads past the shard and its
//! index to the record's file, and its [`Mark`] says that this file was verified. Anything else than what the open
//! file gives now, and it leads nowhere: then the long way is taken, and at its end there is a new link. So that who
//! evicts knows what is used, the long way is also taken once an hour.

use crate::key::Key;
use crate::race::planted;
use crate::store::disk::format::SegmentId;
use crate::store::disk::format::slot::Location;
use crate::store::disk::fs::Stat;

use super::lend::TRUSTING;

/// That a file was verified, and how one recognises it: boot, device, inode, length, both times, place of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark([u8; Mark::LENGTH]);

impl Mark {
    const LENGTH: usize = 88;

    pub(super) fn of(boot: [u8; 16], stat: &Stat, location: Location) -> Self {
        let mut mark = [0; Mark::LENGTH];
        mark[..16].copy_from_slice(&boot);
        let mut put = |at: usize, bytes: &[u8]| mark[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &stat.device.to_be_bytes());
        put(24, &stat.inode.to_be_bytes());
        put(32, &stat.length.to_be_bytes());
        put(40, &stat.modified_ns.to_be_bytes());
        put(56, &stat.changed_ns.to_be_bytes());
        put(72, &location.offset.to_be_bytes());
        put(80, &location.length.to_be_bytes());
        Mark(mark)
    }

    /// Whether what was marked is this.
    pub(super) fn is(&self, kept: &Mark) -> bool {
        self == kept || planted(TRUSTING)
    }
}

/// Where a verified record lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(super) mark: Mark,
    pub(super) shard: u16,
    pub(super) location: Location,
    /// Where in the record its payload begins, and how long it is.
    pub(super) payload: (u64, u64),
    /// The hour since 1970 in which the index was last told of its use.
    pub(super) hour: u32,
}

/// What the names of such links begin with.
pub(crate) const PREFIX: &str = "lent-";

/// The name of the link of a key.
pub(crate) fn name(key: &Key) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut name = Vec::with_capacity(PREFIX.len() + 64);
    name.extend_from_slice(PREFIX.as_bytes());
    name.extend(
        key.as_bytes()
            .iter()
            .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
    );
    String::from_utf8(name).expect("digits")
}

/// Marks are written in the letters `a` to `p`, which are read faster than digits.
fn letters(mark: &[u8; Mark::LENGTH]) -> [u8; 2 * Mark::LENGTH] {
    std::array::from_fn(|n| b'a' + (mark[n / 2] >> (4 * (1 - n % 2)) & 15))
}

/// What was written by [`letters`].
fn unletter(text: &[u8]) -> Option<[u8; Mark::LENGTH]> {
    let letters: &[u8; 2 * Mark::LENGTH] = text.try_into().ok()?;
    let values = letters.map(|letter| letter.wrapping_sub(b'a'));
    let all = values.iter().fold(0, |all, value| all | value);
    (all < 16).then(|| std::array::from_fn(|n| values[2 * n] << 4 | values[2 * n + 1]))
}

impl Way {
    /// What the link of this key leads to, if it is that key's.
    pub(crate) fn parse(text: &str, key: &Key) -> Option<Self> {
        let mut parts = text.split('.');
        let mut part = || parts.next();
        let number = |text: Option<&str>| u64::from_str_radix(text?, 16).ok();
        if number(part())? != key.word(0) {
            return None;
        }
        let mark = unletter(part()?.as_bytes())?;
        let at = |n: usize| u64::from_be_bytes(mark[n..n + 8].try_into().expect("8 bytes"));
        let shard = u16::try_from(number(part())?).ok()?;
        let segment = SegmentId(number(part())?);
        let location = Location { segment, offset: at(72), length: at(80) };
        let payload = (number(part())?, number(part())?);
        let hour = u32::try_from(number(part())?).ok()?;
        let inside = payload.0.checked_add(payload.1).is_some_and(|end| end <= location.length);
        let whole = inside && location.offset.checked_add(location.length).is_some();
        (whole && part().is_none()).then_some(Way {
            mark: Mark(mark),
            shard,
            location,
            payload,
            hour,
        })
    }

    /// What the link of this key holds.
    pub(crate) fn text(&self, key: &Key) -> String {
        let Way { mark, shard, location, payload: (start, length), hour } = self;
        let (letters, segment) = (letters(&mark.0), location.segment.0);
        let mark = std::str::from_utf8(&letters).expect("letters");
        format!("{:x}.{mark}.{shard:x}.{segment:x}.{start:x}.{length:x}.{hour:x}", key.word(0))
    }

    /// The record's file, in the space.
    pub(crate) fn file(&self) -> String {
        format!("s/{:02x}/{}", self.shard, self.location.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kills: the word of the key not compared; a payload that ends behind its record let through.
    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let key = Key::from_bytes(std::array::from_fn(|n| n as u8 ^ 0xa5));
        assert_eq!(name(&key), format!("lent-{key}"));
        let location = Location { segment: SegmentId(0xabc), offset: 3968, length: 20_480 };
        let mark: [u8; Mark::LENGTH] = std::array::from_fn(|n| match n {
            78 => 0x0f,
            79 => 0x80,
            86 => 0x50,
            72.. => 0,
            n => n as u8,
        });
        let way = Way { mark: Mark(mark), shard: 11, location, payload: (128, 16_384), hour: 77 };
        let text = way.text(&key);
        assert_eq!(Way::parse(&text, &key), Some(way.clone()));
        assert_eq!(way.file(), "s/0b/seg-000000000abc");
        assert_eq!(Way::parse(&text, &Key::from_bytes([1; 32])), None);
        let long = Way { payload: (4097, 16_384), ..way };
        assert_eq!(Way::parse(&long.text(&key), &key), None);
        for end in 0..text.len() {
            // Cut within the last number it is another hour, which leads the long way.
            if let Some(cut) = Way::parse(&text[..end], &key) {
                assert_ne!(cut.hour, 77);
            }
        }
        for other in ["", ".", "x", "....... ", &format!("{text}."), &text.replace('.', "")] {
            assert_eq!(Way::parse(other, &key), None, "{other}");
        }
    }
}
