//! The short way to a record that is lent: a symbolic link that is read and never followed.
//!
//! ```text
//!   lent-<key> ──► mark . shard . segment . record: place . payload: place, length . trailer: length . hour
//! ```
//!
//! One system call reads it, without a file to open and to close, and it is always whole. It leads past the shard and its
//! index to the record's file, and its [`Mark`] says that this file was verified. Anything else than what the open
//! file gives now, and it leads nowhere: then the long way is taken, and at its end there is a new link. So that who
//! evicts knows what is used, the long way is also taken once an hour.
//!
//! A link of less than 60 bytes lies in its inode in most file systems, so that nothing else is read for it. That is why a mark is
//! a digest.

use crate::key::Key;
use crate::race::planted;
use crate::store::disk::format::SegmentId;
use crate::store::disk::format::slot::Location;
use crate::store::disk::fs::Stat;

use super::lend::TRUSTING;

/// That a file was verified, and how one recognises it: 120 bits of a digest, in digits, of the key, the boot, device, inode, length,
/// both times, and the place of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark([u8; Mark::LENGTH]);

impl Mark {
    const LENGTH: usize = 20;
    const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

    pub(super) fn of(key: &Key, boot: [u8; 16], stat: &Stat, location: Location) -> Self {
        let mut whole = [0; 120];
        let mut put = |at: usize, bytes: &[u8]| whole[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, key.as_bytes());
        put(32, &boot);
        put(48, &stat.device.to_be_bytes());
        put(56, &stat.inode.to_be_bytes());
        put(64, &stat.length.to_be_bytes());
        put(72, &stat.modified_ns.to_be_bytes());
        put(88, &stat.changed_ns.to_be_bytes());
        put(104, &location.offset.to_be_bytes());
        put(112, &location.length.to_be_bytes());
        let digest = blake3::hash(&whole);
        Mark(std::array::from_fn(|n| Self::DIGITS[usize::from(digest.as_bytes()[n] & 63)]))
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

impl Way {
    /// What a link leads to.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mark, numbers) = text.split_once('.')?;
        let mark = Mark(mark.as_bytes().try_into().ok()?);
        let mut parts = numbers.split('.');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let shard = u16::try_from(number()?).ok()?;
        let segment = SegmentId(number()?);
        let offset = number()?;
        let payload = (number()?, number()?);
        let length = payload.0.checked_add(payload.1)?.checked_add(number()?)?;
        let hour = u32::try_from(number()?).ok()?;
        offset.checked_add(length)?;
        let location = Location { segment, offset, length };
        parts.next().is_none().then_some(Way { mark, shard, location, payload, hour })
    }

    /// What the link holds.
    pub(crate) fn text(&self) -> String {
        let Way { mark, shard, location, payload: (start, length), hour } = self;
        let Location { segment, offset, length: whole } = location;
        let mark = std::str::from_utf8(&mark.0).expect("digits");
        let trailer = whole - start - length;
        format!(
            "{mark}.{shard:x}.{:x}.{offset:x}.{start:x}.{length:x}.{trailer:x}.{hour:x}",
            segment.0
        )
    }

    /// The record's file, in the space.
    pub(crate) fn file(&self) -> String {
        format!("s/{:02x}/{}", self.shard, self.location.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::fs::FileKind;

    const KEY: Key = Key::from_bytes([0xa5; 32]);

    fn stat() -> Stat {
        Stat {
            kind: FileKind::File,
            device: 7,
            inode: 9,
            links: 1,
            owner: 0,
            group: 0,
            mode: 0o600,
            length: 24_576,
            allocated: 24_576,
            modified_ns: 1 << 70,
            changed_ns: 3 << 70,
        }
    }

    fn way(segment: u64, length: u64) -> Way {
        let location =
            Location { segment: SegmentId(segment), offset: 3968, length: 128 + length + 40 };
        let mark = Mark::of(&KEY, [3; 16], &stat(), location);
        Way { mark, shard: 11, location, payload: (128, length), hour: 498_900 }
    }

    /// Kills: a number left out; a cut link taken for a whole one; marks that make it too long for an inode.
    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        assert_eq!(name(&KEY), format!("lent-{KEY}"));
        let way = way(0xabc, 16 << 20);
        let text = way.text();
        assert!(text.len() < 60, "{text}");
        assert_eq!(Way::parse(&text), Some(way.clone()));
        assert_eq!(way.file(), "s/0b/seg-000000000abc");
        for end in 0..text.len() {
            // Cut within the last number it is another hour, which leads the long way.
            if let Some(cut) = Way::parse(&text[..end]) {
                assert_ne!(cut.hour, way.hour);
            }
        }
        let far = text.replace(".f80.", ".fffffffffffffff0.");
        for other in ["", ".", "x", ".......", &format!("{text}."), &text.replace('.', ""), &far] {
            assert_eq!(Way::parse(other), None, "{other}");
        }
    }

    /// Kills: each of these left out.
    #[test]
    fn a_mark_is_of_one_file_and_record_in_one_boot() {
        let location = way(1, 4096).location;
        let of = |key: &Key, boot: u8, change: &dyn Fn(&mut Stat), location: Location| {
            let mut stat = stat();
            change(&mut stat);
            Mark::of(key, [boot; 16], &stat, location)
        };
        let same = |_: &mut Stat| {};
        let marks = [
            of(&KEY, 3, &same, location),
            of(&Key::from_bytes([0xa6; 32]), 3, &same, location),
            of(&KEY, 4, &same, location),
            of(&KEY, 3, &|stat| stat.device += 1, location),
            of(&KEY, 3, &|stat| stat.inode += 1, location),
            of(&KEY, 3, &|stat| stat.length += 1, location),
            of(&KEY, 3, &|stat| stat.modified_ns += 1, location),
            of(&KEY, 3, &|stat| stat.changed_ns += 1, location),
            of(&KEY, 3, &same, Location { offset: 1, ..location }),
            of(&KEY, 3, &same, Location { length: 1, ..location }),
        ];
        for (n, mark) in marks.iter().enumerate() {
            assert!(!marks[n + 1..].contains(mark), "{n}");
            assert!(mark.is(&marks[n]));
        }
        assert_eq!(marks[0], of(&KEY, 3, &same, location));
    }
}
