//! The bytes of the shard directories, but for the records in them ([`record`](super::record)).
//!
//! ```text
//!   v1-<arch>/
//!     meta                  64 bytes, made once                                  [`Meta`]
//!     s/<shard, 2 hex>/
//!       lock                empty and eternal: whoever holds it is the writer
//!       CURRENT             48 bytes, replaced by rename                         [`Current`]
//!       idx-<generation>    header of 4096 bytes, then slots of 32               [`header`], [`slot`]
//!       seg-<id>            header of 64 bytes, then records at multiples of 64  [`SegmentHeader`]
//!       tmp-<random>        no one's business until it is renamed
//! ```
//!
//! Numbers are little-endian. Every file says which cache it belongs to and carries a checksum, so
//! that a file of another cache, another format or another shard is seen for what it is, and damage
//! is not taken for another format. The parsers are pure, allocate nothing, and answer any bytes at
//! all with a value or a [`Malformed`].
//!
//! | `meta` | bytes | | `CURRENT` | bytes | | segment header | bytes |
//! |---|---|---|---|---|---|---|---|
//! | magic `CLMETA\0\x01` | 0..8 | | magic `CLCURR\0\x01` | 0..8 | | magic `CLSG` | 0..4 |
//! | format | 8..12 | | generation | 8..16 | | format | 4..6 |
//! | shard bits, 0 to 6 | 12..16 | | cache id | 16..32 | | shard | 6..8 |
//! | cache id | 16..32 | | shard | 32..34 | | segment id | 8..16 |
//! | made at, seconds since 1970 | 32..40 | | format | 34..36 | | cache id | 16..32 |
//! | zero | 40..56 | | low half of the index's word 15 | 36..40 | | boot id of its making | 32..48 |
//! | XXH3-64 of 0..56 | 56..64 | | XXH3-64 of 0..40 | 40..48 | | zero | 48..56 |
//! | | | | | | | XXH3-64 of 0..56 | 56..64 |

pub(crate) mod header;
pub(crate) mod slot;

use std::fmt;

use twox_hash::XxHash3_64;

/// The format of the files here, but for records.
pub(crate) const FORMAT: u16 = 1;
/// The name of the file that says what the directory is.
pub(crate) const META: &str = "meta";
/// The length of `meta`.
pub(crate) const META_LEN: usize = 64;
/// The length of `CURRENT`.
pub(crate) const CURRENT_LEN: usize = 48;
/// The length of a segment's header: where its first record may begin.
pub(crate) const SEGMENT_HEADER: usize = 64;
/// The most shards are 2 to this.
pub(crate) const MAX_SHARD_BITS: u32 = 6;
/// Generations and segment ids stay below this, so that counting on never overflows.
pub(crate) const MAX_ID: u64 = 1 << 48;

const META_MAGIC: [u8; 8] = *b"CLMETA\0\x01";
const CURRENT_MAGIC: [u8; 8] = *b"CLCURR\0\x01";
const SEGMENT_MAGIC: [u8; 4] = *b"CLSG";

/// Why bytes are not the file that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("too short")]
    Length,
    #[error("not such a file")]
    Magic,
    #[error("another format")]
    Format,
    #[error("checksum mismatch")]
    Checksum,
    #[error("a number out of range")]
    Range,
}

/// Names one cache directory for good. A copy of the directory has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheId(pub(crate) [u8; 16]);

/// Names a segment of a shard. Ids grow and are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(pub(crate) u64);

/// The file `meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) cache: CacheId,
    /// There are 2 to this many shards.
    pub(crate) shard_bits: u32,
    pub(crate) created_s: u64,
}

impl Meta {
    pub(crate) fn encode(&self) -> [u8; META_LEN] {
        let mut bytes = [0; META_LEN];
        bytes[0..8].copy_from_slice(&META_MAGIC);
        bytes[8..12].copy_from_slice(&u32::from(FORMAT).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.shard_bits.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.cache.0);
        bytes[32..40].copy_from_slice(&self.created_s.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Meta, Malformed> {
        let bytes = whole::<META_LEN>(bytes)?;
        check(bytes[0..8] == META_MAGIC, Malformed::Magic)?;
        // First the seal, which is the same in every version: else a flipped bit could make of `meta` a newer version's,
        // which nobody ever replaces.
        check_seal(bytes)?;
        check(u32_at(bytes, 8) == u32::from(FORMAT), Malformed::Format)?;
        let shard_bits = u32_at(bytes, 12);
        check(shard_bits <= MAX_SHARD_BITS, Malformed::Range)?;
        let cache = CacheId(array_at(bytes, 16));
        Ok(Meta { cache, shard_bits, created_s: u64_at(bytes, 32) })
    }
}

/// The file `CURRENT`: which generation of a shard's index is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) cache: CacheId,
    pub(crate) shard: u16,
    pub(crate) generation: u64,
    /// Tells its index from another of the same number: see [`header::IndexHeader::check`].
    pub(crate) check: u32,
}

impl Current {
    pub(crate) fn encode(&self) -> [u8; CURRENT_LEN] {
        let mut bytes = [0; CURRENT_LEN];
        bytes[0..8].copy_from_slice(&CURRENT_MAGIC);
        bytes[8..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.cache.0);
        bytes[32..34].copy_from_slice(&self.shard.to_le_bytes());
        bytes[34..36].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.check.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Current, Malformed> {
        let bytes = whole::<CURRENT_LEN>(bytes)?;
        check(bytes[0..8] == CURRENT_MAGIC, Malformed::Magic)?;
        check_seal(bytes)?;
        check(bytes[34..36] == FORMAT.to_le_bytes(), Malformed::Format)?;
        let generation = u64_at(bytes, 8);
        check(generation < MAX_ID, Malformed::Range)?;
        let shard = shard_number(u16::from_le_bytes(array_at(bytes, 32)))?;
        let (cache, check) = (CacheId(array_at(bytes, 16)), u32_at(bytes, 36));
        Ok(Current { cache, shard, generation, check })
    }
}

/// The first bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) cache: CacheId,
    pub(crate) shard: u16,
    pub(crate) id: SegmentId,
    /// The boot of the machine in which it was made, and the only one in which it may be appended
    /// to.
    pub(crate) boot: [u8; 16],
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[0..4].copy_from_slice(&SEGMENT_MAGIC);
        bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.shard.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.0.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.cache.0);
        bytes[32..48].copy_from_slice(&self.boot);
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<SegmentHeader, Malformed> {
        let bytes = whole::<SEGMENT_HEADER>(bytes)?;
        check(bytes[0..4] == SEGMENT_MAGIC, Malformed::Magic)?;
        check_seal(bytes)?;
        check(bytes[4..6] == FORMAT.to_le_bytes(), Malformed::Format)?;
        let id = u64_at(bytes, 8);
        check(0 < id && id < MAX_ID, Malformed::Range)?;
        Ok(SegmentHeader {
            cache: CacheId(array_at(bytes, 16)),
            shard: shard_number(u16::from_le_bytes(array_at(bytes, 6)))?,
            id: SegmentId(id),
            boot: array_at(bytes, 32),
        })
    }
}

/// What a name in a shard's directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Index(u64),
    Segment(SegmentId),
    /// Made by [`Name::temporary`].
    Temporary,
}

impl Name {
    /// The meaning of `name`; none if it is not one of these, spelled as they are spelled here.
    pub(crate) fn parse(name: &str) -> Option<Name> {
        let (prefix, digits) = name.split_once('-')?;
        let hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        if !digits.bytes().all(hex) {
            return None;
        }
        let id = || u64::from_str_radix(digits, 16).ok().filter(|id| *id < MAX_ID);
        match (prefix, digits.len()) {
            ("idx", 12) => Some(Name::Index(id()?)),
            ("seg", 12) => Some(Name::Segment(SegmentId(id().filter(|id| *id > 0)?))),
            ("tmp", 32) => Some(Name::Temporary),
            _ => None,
        }
    }

    /// A name that nobody else has.
    pub(crate) fn temporary(random: [u8; 16]) -> String {
        format!("tmp-{:032x}", u128::from_le_bytes(random))
    }

    /// The name of a generation's index.
    pub(crate) fn index(generation: u64) -> String {
        format!("idx-{generation:012x}")
    }
}

/// The name of its file.
impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seg-{:012x}", self.0)
    }
}

/// Digests the bytes before the last eight of a file's or a header's into those.
pub(crate) fn seal(bytes: &mut [u8]) {
    let end = bytes.len() - 8;
    let digest = digest(&bytes[..end]);
    bytes[end..].copy_from_slice(&digest.to_le_bytes());
}

fn check_seal(bytes: &[u8]) -> Result<(), Malformed> {
    let end = bytes.len() - 8;
    check(u64_at(bytes, end) == digest(&bytes[..end]), Malformed::Checksum)
}

fn digest(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(0x6361_6368_656c_6966, bytes)
}

fn check(holds: bool, otherwise: Malformed) -> Result<(), Malformed> {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn shard_number(shard: u16) -> Result<u16, Malformed> {
    check(shard < 1 << MAX_SHARD_BITS, Malformed::Range)?;
    Ok(shard)
}

fn whole<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Malformed> {
    bytes.first_chunk().ok_or(Malformed::Length)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
