//! The self-checking record: one entry of the cache as bytes.
//!
//! ```text
//!   0     header 64   magic, format, kind, flags, lengths, full key
//!   64    meta        postcard of `Meta`
//!         zeros       to a multiple of 64
//!         payload
//!         zeros       so that the whole is a multiple of 64
//!   -24   trailer 24  the length again, end magic, XXH3-128 of every byte before it
//! ```
//!
//! `FORMAT.md` beside this file gives every byte. [`parse`] trusts nothing: magic, format and lengths are
//! checked against each other and the bytes at hand, then the key, then the checksum, and nothing is
//! allocated or decoded before all of that holds. It is pure over `&[u8]` and has no `unsafe`.
//!
//! The checksum answers for accidents, which a cryptographic digest would do no better at ten times the
//! cost; who may write the directory answers for intent.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::checksum::{self, CHECKSUM};
use crate::key::{Key, PartDigest};
use crate::race::{Fault, planted};

/// The first four bytes of every record.
pub(crate) const MAGIC: [u8; 4] = *b"CLR\x01";
/// The bytes behind the second length, near the end of every record.
pub(crate) const END_MAGIC: [u8; 4] = *b"\x01RLC";
/// The format of records written by this version.
pub(crate) const FORMAT: u16 = 1;
/// Records, and the payloads in them, begin and end at multiples of this many bytes.
pub(crate) const ALIGN: usize = 64;
/// The length of the header.
pub(crate) const HEADER: usize = 64;
/// The length of the trailer.
pub(crate) const TRAILER: usize = 24;
/// The longest metadata of a record, in bytes.
pub(crate) const MAX_META: usize = 1 << 20;
/// The longest payload of a record, in bytes.
pub(crate) const MAX_PAYLOAD: usize = 256 << 20;
/// The longest record, in bytes.
pub(crate) const MAX_RECORD: usize = total_length(MAX_META, MAX_PAYLOAD);

/// How much of a record is read at a time where it is not read whole.
const PIECE: usize = 128 << 10;

/// What kind of entry a record is. Kinds never answer for each other, even under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Immutable: the first verified publisher wins.
    Artifact = 1,
    /// Small and replaceable: the last writer wins.
    Note = 2,
}

impl Kind {
    /// Every kind.
    pub(crate) const ALL: [Kind; 2] = [Kind::Artifact, Kind::Note];
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
pub(crate) enum Damage {
    /// Fewer bytes than a record has, or than this one says it has.
    #[error("shorter than it says")]
    Truncated,
    /// The first bytes are not those of a record of this format.
    #[error("not a record")]
    Magic,
    /// A whole record, with a kind or flag that this version does not know: a newer version's, not to be
    /// replaced.
    #[error("a record of a newer version")]
    Format,
    /// A length over its limit, or that does not fit the others.
    #[error("lengths that contradict each other")]
    Length,
    /// A record of another key or kind.
    #[error("a record of another key")]
    Key,
    /// The checksum does not match the bytes.
    #[error("checksum mismatch")]
    Checksum,
}

/// Where the parts of a verified record lie in its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The length of the whole record.
    pub(crate) total: usize,
    /// The metadata, encoded.
    pub(crate) meta: Range<usize>,
    /// The payload.
    pub(crate) payload: Range<usize>,
}

impl Layout {
    /// The layout that these two lengths, each within its limit, give a record.
    const fn of(meta: usize, payload: usize) -> Self {
        let payload_at = (HEADER + meta).next_multiple_of(ALIGN);
        Layout {
            total: total_length(meta, payload),
            meta: HEADER..HEADER + meta,
            payload: payload_at..payload_at + payload,
        }
    }
}

/// The record of `payload` under `key`.
///
/// # Panics
///
/// If the payload is longer than [`MAX_PAYLOAD`]. Metadata over [`MAX_META`] loses its source, then its
/// parts, then its texts: it is for people only.
pub(crate) fn encode(key: &Key, kind: Kind, meta: &Meta, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() <= MAX_PAYLOAD, "payload of {} bytes", payload.len());
    let meta = encode_meta(meta);
    let Layout { total, meta: meta_at, payload: payload_at } =
        Layout::of(meta.len(), payload.len());
    let mut bytes = vec![0; total];
    bytes[0..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[6] = kind as u8;
    bytes[8..12].copy_from_slice(&length(total));
    bytes[12..16].copy_from_slice(&length(meta.len()));
    bytes[16..20].copy_from_slice(&length(payload.len()));
    bytes[32..64].copy_from_slice(key.as_bytes());
    bytes[meta_at].copy_from_slice(&meta);
    bytes[payload_at].copy_from_slice(payload);
    bytes[total - 24..total - 20].copy_from_slice(&length(total));
    bytes[total - 20..total - 16].copy_from_slice(&END_MAGIC);
    seal(&mut bytes);
    bytes
}

/// Writes the checksum of a whole record to its end.
pub(crate) fn seal(record: &mut [u8]) {
    let checksum = checksum(record);
    let at = record.len() - CHECKSUM;
    record[at..].copy_from_slice(&checksum);
}

/// Checks that `bytes` begin with a whole record of this key and kind, and says where its parts lie.
/// Bytes behind the record are not looked at.
pub(crate) fn parse(bytes: &[u8], key: &Key, kind: Kind) -> Result<Layout, Damage> {
    let header = Header::read(bytes)?;
    header.expect(key, kind)?;
    let layout = verify(bytes, &header)?;
    header.kind()?;
    Ok(layout)
}

/// As [`parse`] of a record that is all of `bytes`, of all of which but the last [`CHECKSUM`] `sum` is the checksum.
pub(crate) fn parse_summed(
    bytes: &[u8],
    sum: u128,
    key: &Key,
    kind: Kind,
) -> Result<Layout, Damage> {
    let header = Header::read(bytes)?;
    header.expect(key, kind)?;
    if header.layout.total < bytes.len() {
        return Err(Damage::Length);
    }
    let layout = verify_by(bytes, &header, |_| sum)?;
    header.kind()?;
    Ok(layout)
}

/// As [`parse`] for whichever key and kind the record has.
pub(crate) fn parse_any(bytes: &[u8]) -> Result<(Key, Kind, Layout), Damage> {
    let header = Header::read(bytes)?;
    let layout = verify(bytes, &header)?;
    Ok((Key::from_bytes(*header.key), header.kind()?, layout))
}

/// How long the record that `bytes` begin says it is, if it is of this key and kind: what to read before
/// [`parse`]. Needs [`HEADER`] bytes; at most [`MAX_RECORD`].
pub(crate) fn announced_length(bytes: &[u8], key: &Key, kind: Kind) -> Result<usize, Damage> {
    let header = Header::read(bytes)?;
    header.expect(key, kind)?;
    Ok(header.layout.total)
}

/// As [`announced_length`], of all parts.
pub(crate) fn announced_layout(bytes: &[u8], key: &Key, kind: Kind) -> Result<Layout, Damage> {
    let header = Header::read(bytes)?;
    header.expect(key, kind)?;
    Ok(header.layout)
}

/// As [`parse`] for a record that is read piece by piece, for one that is not to be in memory whole: `head` are its
/// first bytes, at least [`HEADER`] of them, and `read` gives those from an offset on.
pub(crate) fn parse_in_pieces<E: From<Damage>>(
    head: &[u8],
    key: &Key,
    kind: Kind,
    mut read: impl FnMut(&mut [u8], usize) -> Result<(), E>,
) -> Result<Layout, E> {
    let header = Header::read(head)?;
    header.expect(key, kind)?;
    let layout = header.layout.clone();
    let mut trailer = [0; TRAILER];
    read(&mut trailer, layout.total - TRAILER)?;
    if read_u32(&trailer, 0) != layout.total || trailer[4..8] != END_MAGIC {
        return Err(Damage::Truncated.into());
    }
    let end = layout.total - CHECKSUM;
    let mut at = head.len().min(end);
    let mut checksum = XxHash3_128::new();
    checksum.write(&head[..at]);
    let mut piece = vec![0; PIECE.min(end - at)];
    while at < end {
        let length = PIECE.min(end - at);
        read(&mut piece[..length], at)?;
        checksum.write(&piece[..length]);
        at += length;
    }
    if trailer[8..] != checksum.finish_128().to_le_bytes() && !planted(UNCHECKED) {
        return Err(Damage::Checksum.into());
    }
    header.kind()?;
    Ok(layout)
}

/// As [`announced_length`] for whichever key and kind the record has.
pub(crate) fn announced_length_any(bytes: &[u8]) -> Result<usize, Damage> {
    Ok(Header::read(bytes)?.layout.total)
}

/// Where in the record which `bytes` begin its payload begins, as it says. Needs [`HEADER`] bytes.
pub(crate) fn announced_payload_any(bytes: &[u8]) -> Result<usize, Damage> {
    Ok(Header::read(bytes)?.layout.payload.start)
}

/// The key and kind that the record which `bytes` begin says it has. Needs [`HEADER`] bytes.
pub(crate) fn announced_key(bytes: &[u8]) -> Result<(Key, Kind), Damage> {
    let header = Header::read(bytes)?;
    Ok((Key::from_bytes(*header.key), header.kind()?))
}

/// The metadata of a record, which may be of a newer version's making: unreadable metadata is none.
pub(crate) fn decode_meta(bytes: &[u8]) -> Meta {
    postcard::from_bytes(bytes).unwrap_or_default()
}

/// A header whose lengths agree with each other. Nothing says yet that it is undamaged.
struct Header<'a> {
    kind: u8,
    flags: u8,
    key: &'a [u8; 32],
    layout: Layout,
}

impl<'a> Header<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Damage> {
        let header = bytes.first_chunk::<HEADER>().ok_or(Damage::Truncated)?;
        if header[0..4] != MAGIC || header[4..6] != FORMAT.to_le_bytes() {
            return Err(Damage::Magic);
        }
        let (total, meta, payload) =
            (read_u32(header, 8), read_u32(header, 12), read_u32(header, 16));
        if meta > MAX_META || payload > MAX_PAYLOAD {
            return Err(Damage::Length);
        }
        // Those limits keep every sum below far from overflow.
        let layout = Layout::of(meta, payload);
        if total != layout.total {
            return Err(Damage::Length);
        }
        let key = header.last_chunk::<32>().expect("the header is longer");
        Ok(Header { kind: header[6], flags: header[7], key, layout })
    }

    fn expect(&self, key: &Key, kind: Kind) -> Result<(), Damage> {
        if self.key != key.as_bytes() || self.kind != kind as u8 {
            return Err(Damage::Key);
        }
        Ok(())
    }

    /// The kind, of a record that this version understands. Asked after [`verify`]: in a damaged record an
    /// unknown flag is damage, not a newer version's.
    fn kind(&self) -> Result<Kind, Damage> {
        let known = Kind::ALL.into_iter().find(|&kind| kind as u8 == self.kind);
        known.filter(|_| self.flags == 0).ok_or(Damage::Format)
    }
}

/// A fault that tests plant.
const UNCHECKED: Fault = Fault("the checksum of a record is not compared");

fn verify(bytes: &[u8], header: &Header<'_>) -> Result<Layout, Damage> {
    verify_by(bytes, header, checksum::of)
}

/// Verifies a record, by what `sum` makes of all of it but its checksum.
fn verify_by(
    bytes: &[u8],
    header: &Header<'_>,
    sum: impl FnOnce(&[u8]) -> u128,
) -> Result<Layout, Damage> {
    let layout = header.layout.clone();
    let bytes = bytes.get(..layout.total).ok_or(Damage::Truncated)?;
    let trailer = bytes.last_chunk::<TRAILER>().expect("a record is longer");
    // The cheap test first: a record whose end was never written fails it.
    if read_u32(trailer, 0) != layout.total || trailer[4..8] != END_MAGIC {
        return Err(Damage::Truncated);
    }
    let sum = sum(&bytes[..layout.total - CHECKSUM]);
    if trailer[8..] != sum.to_le_bytes() && !planted(UNCHECKED) {
        return Err(Damage::Checksum);
    }
    Ok(layout)
}

/// XXH3-128 of everything before the checksum's own place.
fn checksum(record: &[u8]) -> [u8; CHECKSUM] {
    checksum::of(&record[..record.len() - CHECKSUM]).to_le_bytes()
}

const fn total_length(meta: usize, payload: usize) -> usize {
    ((HEADER + meta).next_multiple_of(ALIGN) + payload + TRAILER).next_multiple_of(ALIGN)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> Key {
        Key::from_bytes(*blake3::hash(&[n]).as_bytes())
    }

    fn meta() -> Meta {
        Meta { label: "%f(i32) -> i32".into(), cost_us: 7, ..Meta::default() }
    }

    fn small(kind: Kind) -> Vec<u8> {
        encode(&key(1), kind, &meta(), b"payload of a small record")
    }

    /// Recomputes the checksum, as who forges a record can.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let at = bytes.len() - CHECKSUM;
        let sum = checksum(&bytes);
        bytes[at..].copy_from_slice(&sum);
        bytes
    }

    #[test]
    fn the_format_is_what_format_md_says() {
        let payload = [0xab; 100];
        let bytes = encode(&key(1), Kind::Note, &Meta::default(), &payload);
        let meta = postcard::to_allocvec(&Meta::default()).unwrap();
        assert_eq!(bytes.len(), 64 + 64 + 128, "header, metadata, payload with trailer");
        assert_eq!(bytes[..8], *b"CLR\x01\x01\x00\x02\x00");
        assert_eq!(bytes[8..12], 256u32.to_le_bytes());
        assert_eq!(bytes[12..16], (meta.len() as u32).to_le_bytes());
        assert_eq!(bytes[16..20], 100u32.to_le_bytes());
        assert_eq!(bytes[20..32], [0; 12]);
        assert_eq!(bytes[32..64], *key(1).as_bytes());
        assert_eq!(bytes[64..64 + meta.len()], meta);
        assert_eq!(bytes[128..228], payload);
        assert_eq!(bytes[228..232], [0; 4]);
        assert_eq!(bytes[232..240], *b"\x00\x01\x00\x00\x01RLC");
        assert_eq!(bytes[240..], XxHash3_128::oneshot(&bytes[..240]).to_le_bytes());
    }

    /// Mutants seen killed: a checksum that leaves out the reserved bytes, the padding behind the metadata,
    /// the padding before the trailer, or the trailer's own length.
    #[test]
    fn every_flipped_bit_is_damage() {
        for kind in Kind::ALL {
            let mut bytes = small(kind);
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(parse(&bytes, &key(1), kind).is_err(), "bit {bit} of a {kind:?}");
                assert!(parse_any(&bytes).is_err(), "bit {bit} of a {kind:?}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(parse(&bytes, &key(1), kind).is_ok());
        }
    }

    /// Mutant seen killed: lengths cut to the bytes at hand, with the trailer left to the checksum.
    #[test]
    fn every_truncation_is_damage() {
        for kind in Kind::ALL {
            let bytes = small(kind);
            for length in 0..bytes.len() {
                assert_eq!(
                    parse(&bytes[..length], &key(1), kind).unwrap_err(),
                    Damage::Truncated,
                    "{length} bytes of a {kind:?}"
                );
            }
        }
    }

    /// As a disk leaves it that wrote some sectors and not others before the power went.
    #[test]
    fn every_torn_write_is_damage() {
        let whole = encode(&key(1), Kind::Artifact, &meta(), &[0x5a; 5000]);
        let sectors = whole.len().div_ceil(512);
        for lost in 0..sectors {
            let mut bytes = whole.clone();
            let end = whole.len().min((lost + 1) * 512);
            bytes[lost * 512..end].fill(0);
            assert!(parse(&bytes, &key(1), Kind::Artifact).is_err(), "sector {lost}");
        }
    }

    /// Mutants seen killed: the comparison of the key left out; that of the kind.
    #[test]
    fn a_record_answers_for_its_own_key_and_kind_only() {
        let bytes = small(Kind::Artifact);
        assert_eq!(parse(&bytes, &key(2), Kind::Artifact), Err(Damage::Key));
        assert_eq!(parse(&bytes, &key(1), Kind::Note), Err(Damage::Key));
        assert_eq!(announced_length(&bytes, &key(2), Kind::Artifact), Err(Damage::Key));
        let (key, kind, layout) = parse_any(&bytes).unwrap();
        assert_eq!((key, kind), (self::key(1), Kind::Artifact));
        assert_eq!(layout, parse(&bytes, &key, kind).unwrap());
    }

    /// A newer version's record is told from a damaged one, which may be replaced. Mutant seen killed: flags
    /// looked at before the checksum is.
    #[test]
    fn whole_records_with_unknown_flags_or_kinds_are_a_newer_versions() {
        let with = |at: usize, byte: u8| {
            let mut bytes = small(Kind::Artifact);
            bytes[at] = byte;
            bytes
        };
        assert_eq!(parse(&sealed(with(7, 1)), &key(1), Kind::Artifact), Err(Damage::Format));
        assert_eq!(parse_any(&sealed(with(6, 9))), Err(Damage::Format));
        assert_eq!(parse(&with(7, 1), &key(1), Kind::Artifact), Err(Damage::Checksum));
        assert_eq!(parse(&sealed(with(4, 2)), &key(1), Kind::Artifact), Err(Damage::Magic));
    }

    /// Lengths of anyone's choice, with a checksum that is right for the bytes at hand: damage, or a record
    /// all of whose parts are in it. Mutant seen killed: the limit of the metadata left out.
    #[test]
    fn forged_lengths_stay_within_the_record() {
        let good = small(Kind::Artifact);
        let values = [0, 1, 63, 64, 65, 1 << 20, (1 << 20) + 1, 256 << 20, (256 << 20) + 1, !0];
        for (at, value) in [8, 12, 16].into_iter().flat_map(|at| values.map(|value| (at, value))) {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            let bytes = sealed(bytes);
            match parse(&bytes, &key(1), Kind::Artifact) {
                Err(Damage::Length) => {}
                Ok(layout) => {
                    assert_ne!(at, 8, "{value}");
                    assert_eq!(layout.total, bytes.len());
                    assert!(layout.meta.end <= layout.payload.start);
                    assert!(layout.payload.end <= layout.total - TRAILER);
                }
                Err(damage) => panic!("{value} at {at}: {damage}"),
            }
        }
        // Lengths that agree with each other, and are over a limit.
        let mut bytes = good.clone();
        let meta = MAX_META + 1;
        bytes[8..12].copy_from_slice(&length(total_length(meta, 0)));
        bytes[12..16].copy_from_slice(&length(meta));
        bytes[16..20].copy_from_slice(&length(0));
        assert_eq!(announced_length_any(&bytes), Err(Damage::Length));
    }

    /// Mutant seen killed: a `to_vec` in [`parse`].
    #[test]
    fn parsing_allocates_nothing() {
        let good = small(Kind::Artifact);
        let mut bad = good.clone();
        bad[100] ^= 1;
        let mut long = good.clone();
        long[8..20].fill(0xff);
        for bytes in [&good[..], &bad, &long, &good[..70], &[]] {
            let seen = allocation_counter::measure(|| {
                let _ = std::hint::black_box(parse(bytes, &key(1), Kind::Artifact));
                let _ = std::hint::black_box(parse_any(bytes));
                let _ = std::hint::black_box(announced_length_any(bytes));
            });
            assert_eq!(seen.count_total, 0);
        }
        let seen = allocation_counter::measure(|| drop(std::hint::black_box(good.clone())));
        assert_eq!(seen.count_total, 1, "the counter counts");
    }

    /// Mutant seen killed: a limit of one byte more.
    #[test]
    fn metadata_over_its_limit_loses_what_is_longest_first() {
        let part = PartDigest {
            name: "p".into(),
            kind: "str".into(),
            digest: [0; 16],
            preview: "x".into(),
        };
        let full = Meta { source: Some("s".repeat(MAX_META)), parts: vec![part.clone()], ..meta() };
        let decode = |meta: &Meta| {
            let bytes = encode(&key(1), Kind::Artifact, meta, b"p");
            let layout = parse(&bytes, &key(1), Kind::Artifact).unwrap();
            assert!(layout.meta.len() <= MAX_META);
            decode_meta(&bytes[layout.meta])
        };
        assert_eq!(decode(&full), Meta { source: None, ..full.clone() });
        let parts = Meta { parts: vec![part; MAX_META / 20], ..full.clone() };
        assert_eq!(decode(&parts), Meta { source: None, parts: vec![], ..parts.clone() });
        let label = Meta { label: "l".repeat(MAX_META), ..parts };
        assert_eq!(decode(&label), Meta { cost_us: 7, ..Meta::default() });
        // The longest that fits, to the byte.
        let fits = |n: usize| {
            let meta = Meta { source: Some("s".repeat(n)), ..Meta::default() };
            decode(&meta).source.is_some()
        };
        let most = (0..64).map(|less| MAX_META - less).find(|&n| fits(n)).unwrap();
        let longest = Meta { source: Some("s".repeat(most)), ..Meta::default() };
        assert_eq!(encode_meta(&longest).len(), MAX_META);
    }

    #[test]
    fn unreadable_metadata_is_none() {
        assert_eq!(decode_meta(&[0xff; 40]), Meta::default());
        assert_eq!(decode_meta(&[]), Meta::default());
    }

    #[test]
    #[should_panic(expected = "payload of 268435457 bytes")]
    fn a_payload_over_the_limit_is_a_callers_mistake() {
        encode(&key(1), Kind::Artifact, &Meta::default(), &vec![0; MAX_PAYLOAD + 1]);
    }

    fn any_meta() -> impl Strategy<Value = Meta> {
        let part = (".*", ".*", any::<[u8; 16]>(), ".*")
            .prop_map(|(name, kind, digest, preview)| PartDigest { name, kind, digest, preview });
        let parts = proptest::collection::vec(part, 0..4);
        let source = proptest::option::of(".*");
        (".*", ".*", any::<u64>(), any::<u64>(), parts, source).prop_map(
            |(label, producer, created_s, cost_us, parts, source)| Meta {
                label,
                producer,
                created_s,
                cost_us,
                parts,
                source,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(
            key: [u8; 32],
            note: bool,
            meta in any_meta(),
            payload in proptest::collection::vec(any::<u8>(), 0..2000),
            behind in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let (key, kind) = (Key::from_bytes(key), if note { Kind::Note } else { Kind::Artifact });
            let mut bytes = encode(&key, kind, &meta, &payload);
            let total = bytes.len();
            prop_assert_eq!(total % ALIGN, 0);
            bytes.extend(behind);
            let layout = parse(&bytes, &key, kind).unwrap();
            prop_assert_eq!(layout.total, total);
            prop_assert_eq!(layout.payload.start % ALIGN, 0);
            prop_assert_eq!(&bytes[layout.payload.clone()], &payload[..]);
            prop_assert_eq!(decode_meta(&bytes[layout.meta.clone()]), meta);
            prop_assert_eq!(announced_length(&bytes[..HEADER], &key, kind), Ok(total));
            prop_assert_eq!(parse_any(&bytes).unwrap(), (key, kind, layout));
        }

        #[test]
        fn arbitrary_bytes_are_no_record(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
            magic: bool,
        ) {
            if magic && bytes.len() > 8 {
                bytes[..8].copy_from_slice(b"CLR\x01\x01\x00\x01\x00");
            }
            prop_assert!(parse_any(&bytes).is_err());
            prop_assert!(announced_length_any(&bytes).is_err() || magic);
        }
    }
}
