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

use std::fmt;

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
        let numbers = [
            boot.to_vec(),
            [stat.device, stat.inode, stat.length].map(u64::to_be_bytes).concat(),
            [stat.modified_ns, stat.changed_ns].map(i128::to_be_bytes).concat(),
            [location.offset, location.length].map(u64::to_be_bytes).concat(),
        ];
        Mark(numbers.concat().try_into().expect("that many bytes"))
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
    let mut name = String::with_capacity(PREFIX.len() + 64);
    name.push_str(PREFIX);
    for n in 0..4 {
        push(&mut name, key.word(n).swap_bytes(), 16);
    }
    name
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends the lowest so many hexadecimal digits.
fn push(text: &mut String, number: u64, digits: u32) {
    for n in (0..digits).rev() {
        text.push(DIGITS[(number >> (4 * n) & 15) as usize].into());
    }
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
        let mut mark = [0; Mark::LENGTH];
        let (pairs, rest) = part()?.as_bytes().as_chunks::<2>();
        if pairs.len() != mark.len() || !rest.is_empty() {
            return None;
        }
        let digit = |byte: u8| (byte as char).to_digit(16);
        for (byte, pair) in mark.iter_mut().zip(pairs) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
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
        let mut text = format!("{:x}.", key.word(0));
        for byte in self.mark.0 {
            push(&mut text, byte.into(), 2);
        }
        let Way { shard, location, payload, hour, .. } = self;
        let segment = location.segment.0;
        text += &format!(".{shard:x}.{segment:x}.{:x}.{:x}.{hour:x}", payload.0, payload.1);
        text
    }

    /// The record's file, in the space.
    pub(crate) fn file(&self) -> impl fmt::Display {
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
        assert_eq!(way.file().to_string(), "s/0b/seg-000000000abc");
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
