//! The self-checking record: one entry of the cache as bytes.
//!
//! `FORMAT.md` beside this file gives every byte. In short:
//!
//! ```text
//!   0        header, 128 bytes: magic, format, lengths, full key, checksum over all the rest
//!   128      meta     postcard of `Meta`
//!            payload  at the next multiple of 64
//!            zeros    up to a multiple of 64, the last 8 bytes being a second length and magic
//! ```
//!
//! [`parse`] trusts nothing: every length is checked against the bytes at hand, then the key, then the
//! checksum over everything, and nothing is allocated or decoded before all of that holds. It is pure over
//! `&[u8]` and has no `unsafe`.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::key::{Key, PartDigest};

/// The first four bytes of every record.
pub const MAGIC: [u8; 4] = *b"CLR\x01";
/// The last four bytes of every record.
pub const END_MAGIC: [u8; 4] = *b"\x01RLC";
/// The format of records written by this version.
pub const FORMAT: u16 = 1;
/// Records and their payloads begin at multiples of this many bytes.
pub const ALIGN: usize = 64;
/// The length of the header.
pub const HEADER: usize = 128;
/// The longest metadata of a record, in bytes.
pub const MAX_META: usize = 1 << 20;
/// The longest payload of a record, in bytes.
pub const MAX_PAYLOAD: usize = 256 << 20;

const TRAILER: usize = 8;
const CHECKSUM: Range<usize> = 48..64;

/// What kind of entry a record is. Kinds never answer for each other, even under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Immutable: the first verified publisher wins.
    Artifact = 1,
    /// Small and replaceable: the last writer wins.
    Note = 2,
}

/// What is remembered of an entry beside its payload. None of it shapes what a hit returns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// For people: the function's name and signature, for example.
    pub label: String,
    /// What made the payload: a crate and its version.
    pub producer: String,
    /// When the entry was made, in seconds since 1970 by its maker's clock.
    pub created_s: u64,
    /// How long making it took, in microseconds.
    pub cost_us: u64,
    /// The parts of its key, if they were kept.
    pub parts: Vec<PartDigest>,
    /// The source the payload was made from, if it was kept.
    pub source: Option<String>,
}

/// Why bytes are no record of the key and kind that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Damage {
    /// Fewer bytes than a record has, or than this one says it has.
    #[error("shorter than it says")]
    Truncated,
    /// The magic bytes are not a record's.
    #[error("not a record")]
    Magic,
    /// A record of a format that this version does not read.
    #[error("a record of another format")]
    Format,
    /// A length that does not fit the others.
    #[error("lengths that contradict each other")]
    Length,
    /// A whole record of another key or kind.
    #[error("a record of another key")]
    Key,
    /// The checksum does not match the bytes.
    #[error("checksum mismatch")]
    Checksum,
}

/// Where the parts of a verified record lie in its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The length of the whole record.
    pub total: usize,
    /// The metadata, encoded.
    pub meta: Range<usize>,
    /// The payload.
    pub payload: Range<usize>,
}

/// The record of `payload` under `key`.
///
/// # Panics
///
/// If the payload is longer than [`MAX_PAYLOAD`]. Metadata over [`MAX_META`] loses its source, then its
/// parts, then its texts: it is for people only.
pub fn encode(key: &Key, kind: Kind, meta: &Meta, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() <= MAX_PAYLOAD, "payload of {} bytes", payload.len());
    let meta = encode_meta(meta);
    let payload_at = (HEADER + meta.len()).next_multiple_of(ALIGN);
    let total = (payload_at + payload.len() + TRAILER).next_multiple_of(ALIGN);
    let mut bytes = vec![0; total];
    bytes[0..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[6] = kind as u8;
    bytes[8..12].copy_from_slice(&length(total));
    bytes[12..16].copy_from_slice(&length(meta.len()));
    bytes[16..48].copy_from_slice(key.as_bytes());
    bytes[64..68].copy_from_slice(&length(payload_at));
    bytes[68..72].copy_from_slice(&length(payload.len()));
    bytes[HEADER..HEADER + meta.len()].copy_from_slice(&meta);
    bytes[payload_at..payload_at + payload.len()].copy_from_slice(payload);
    bytes[total - 8..total - 4].copy_from_slice(&length(total));
    bytes[total - 4..].copy_from_slice(&END_MAGIC);
    let checksum = checksum(&bytes);
    bytes[CHECKSUM].copy_from_slice(&checksum);
    bytes
}

/// Checks that `bytes` begin with a whole record of this key and kind, and says where its parts lie.
pub fn parse(bytes: &[u8], key: &Key, kind: Kind) -> Result<Layout, Damage> {
    let layout = shape(bytes)?;
    if bytes[16..48] != *key.as_bytes() || bytes[6] != kind as u8 {
        return Err(Damage::Key);
    }
    verify(bytes, layout)
}

/// As [`parse`] for whichever key and kind the record has.
pub fn parse_any(bytes: &[u8]) -> Result<(Key, Kind, Layout), Damage> {
    let layout = verify(bytes, shape(bytes)?)?;
    let mut key = [0; 32];
    key.copy_from_slice(&bytes[16..48]);
    let kind = match bytes[6] {
        1 => Kind::Artifact,
        2 => Kind::Note,
        _ => return Err(Damage::Key),
    };
    Ok((Key::from_bytes(key), kind, layout))
}

/// How long the record that these first bytes begin says it is: what to read before [`parse`].
pub fn announced_length(bytes: &[u8]) -> Result<usize, Damage> {
    let header = bytes.get(..HEADER).ok_or(Damage::Truncated)?;
    if header[0..4] != MAGIC {
        return Err(Damage::Magic);
    }
    if header[4..6] != FORMAT.to_le_bytes() {
        return Err(Damage::Format);
    }
    Ok(read_u32(header, 8))
}

/// The metadata of a record, which may be of a newer version's making: unreadable metadata is none.
pub fn decode_meta(bytes: &[u8]) -> Meta {
    postcard::from_bytes(bytes).unwrap_or_default()
}

fn shape(bytes: &[u8]) -> Result<Layout, Damage> {
    let total = announced_length(bytes)?;
    let (meta, payload_at, payload) =
        (read_u32(bytes, 12), read_u32(bytes, 64), read_u32(bytes, 68));
    if meta > MAX_META || payload > MAX_PAYLOAD {
        return Err(Damage::Length);
    }
    // The limits above keep these sums far below a usize's.
    if payload_at != (HEADER + meta).next_multiple_of(ALIGN)
        || total != (payload_at + payload + TRAILER).next_multiple_of(ALIGN)
    {
        return Err(Damage::Length);
    }
    if bytes.len() < total {
        return Err(Damage::Truncated);
    }
    Ok(Layout { total, meta: HEADER..HEADER + meta, payload: payload_at..payload_at + payload })
}

fn verify(bytes: &[u8], layout: Layout) -> Result<Layout, Damage> {
    let bytes = &bytes[..layout.total];
    if bytes[layout.total - 4..] != END_MAGIC || read_u32(bytes, layout.total - 8) != layout.total {
        return Err(Damage::Length);
    }
    if bytes[CHECKSUM] != checksum(bytes) {
        return Err(Damage::Checksum);
    }
    Ok(layout)
}

/// XXH3-128 of everything but the checksum itself. It answers for accidents, which blake3 would do no
/// better at ten times the cost; who may write the directory answers for intent.
fn checksum(bytes: &[u8]) -> [u8; 16] {
    let mut hasher = Xxh3::with_seed(0x6361_6368_656c_6966);
    hasher.update(&bytes[..CHECKSUM.start]);
    hasher.update(&bytes[CHECKSUM.end..]);
    hasher.digest128().to_le_bytes()
}

fn encode_meta(meta: &Meta) -> Vec<u8> {
    let encoded = |meta: &Meta| postcard::to_allocvec(meta).expect("plain data encodes");
    let fits = |bytes: &Vec<u8>| bytes.len() <= MAX_META;
    Some(encoded(meta))
        .filter(fits)
        .or_else(|| Some(encoded(&Meta { source: None, ..meta.clone() })).filter(fits))
        .or_else(|| {
            Some(encoded(&Meta { source: None, parts: vec![], ..meta.clone() })).filter(fits)
        })
        .unwrap_or_else(|| {
            encoded(&Meta { created_s: meta.created_s, cost_us: meta.cost_us, ..Meta::default() })
        })
}

fn length(n: usize) -> [u8; 4] {
    u32::try_from(n).expect("records are far below 4 GiB").to_le_bytes()
}

fn read_u32(bytes: &[u8], at: usize) -> usize {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word) as usize
}
