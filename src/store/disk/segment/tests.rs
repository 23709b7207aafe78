use proptest::prelude::*;

use super::*;
use crate::store::disk::record::{END_MAGIC, HEADER, MAGIC, Meta, TRAILER, encode};

fn record_of(n: u8, payload: usize) -> Vec<u8> {
    let kind = if n.is_multiple_of(3) { Kind::Note } else { Kind::Artifact };
    let meta = Meta { label: format!("f{n}"), ..Meta::default() };
    encode(&Key::from_bytes([n; 32]), kind, &meta, &vec![n; payload])
}

/// A segment of these payloads' records, and where each record begins and ends.
fn segment(payloads: &[usize]) -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
    let mut bytes = vec![0xee; SEGMENT_HEADER];
    let mut extents = Vec::new();
    for (n, payload) in payloads.iter().enumerate() {
        let start = bytes.len();
        bytes.extend(record_of(n as u8, *payload));
        extents.push(start..bytes.len());
    }
    (bytes, extents)
}

fn extents(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    scan(bytes).map(|entry| entry.offset..entry.offset + entry.layout.total).collect()
}

#[test]
fn a_scan_finds_what_was_appended() {
    let (mut bytes, expected) = segment(&[0, 1, 56, 57, 4000, 64]);
    bytes.resize(bytes.len() + 4096, 0);
    let mut scan = scan(&bytes);
    for (n, extent) in expected.iter().enumerate() {
        let entry = scan.next().unwrap();
        assert_eq!(entry.offset..entry.offset + entry.layout.total, *extent);
        assert_eq!(entry.key, Key::from_bytes([n as u8; 32]));
        assert_eq!(entry.kind == Kind::Note, n % 3 == 0);
    }
    assert_eq!(scan.next(), None);
    assert_eq!(scan.end(), expected.last().unwrap().end);
    assert_eq!(super::scan(&[]).next(), None);
    assert_eq!(super::scan(&bytes[..100]).end(), SEGMENT_HEADER);
}

/// A record whose bytes are damaged is passed over whole, one whose ends are is not trusted with
/// its length. Mutants: the scan ends at the first damage; a damaged end is believed.
#[test]
fn a_scan_goes_on_after_damage() {
    let (bytes, all) = segment(&[100, 5000, 100, 300]);
    let without = |n: usize| -> Vec<_> {
        all.iter().enumerate().filter(|(i, _)| *i != n).map(|(_, e)| e.clone()).collect()
    };
    for (n, extent) in all.iter().enumerate() {
        for at in extent.clone() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert_eq!(extents(&bad), without(n), "byte {at}");
        }
    }
}

/// A payload may be anything, a segment of this very cache too. Mutant: one step at a time after a
/// bad checksum.
#[test]
fn a_record_within_a_record_is_no_entry() {
    let (inner, _) = segment(&[100, 200]);
    let key = Key::from_bytes([99; 32]);
    let mut bytes = vec![0; SEGMENT_HEADER];
    bytes.extend(encode(&key, Kind::Artifact, &Meta::default(), &inner));
    let end = bytes.len();
    bytes.extend(record_of(7, 10));
    assert_eq!(extents(&bytes), [64..end, end..bytes.len()]);
    bytes[end - 100] ^= 1;
    assert_eq!(
        extents(&bytes),
        std::slice::from_ref(&(end..bytes.len())),
        "nor if the outer one is damaged"
    );
}

/// Headers as dense as they can be, each with a far end that agrees with it and a wrong checksum.
/// Mutant: one step at a time after a bad checksum: 100 times the bytes are hashed.
#[test]
fn no_bytes_make_a_scan_hash_more_than_there_are() {
    let count = 256;
    // With ends at every second line, each header has an end that no other has.
    let ends = SEGMENT_HEADER + count * HEADER;
    let mut bytes = vec![0; ends + count * 2 * ALIGN];
    for n in 0..count {
        let (start, end) = (SEGMENT_HEADER + n * HEADER, ends + (n + 1) * 2 * ALIGN);
        let total = (end - start) as u32;
        let payload = total - (HEADER + TRAILER) as u32;
        let header = &mut bytes[start..start + HEADER];
        header[0..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&record::FORMAT.to_le_bytes());
        header[6] = 1;
        header[8..12].copy_from_slice(&total.to_le_bytes());
        header[16..20].copy_from_slice(&payload.to_le_bytes());
        bytes[end - TRAILER..][..4].copy_from_slice(&total.to_le_bytes());
        bytes[end - TRAILER + 4..][..4].copy_from_slice(&END_MAGIC);
    }
    for n in 0..count {
        let start = SEGMENT_HEADER + n * HEADER;
        assert_eq!(record::parse_any(&bytes[start..]).unwrap_err(), Damage::Checksum);
    }
    let mut scan = scan(&bytes);
    assert_eq!(scan.next(), None);
    assert!(scan.hashed() > 0 && scan.hashed() <= bytes.len(), "{} hashed", scan.hashed());
}

/// A whole record that only a newer version knows is left alone, with what is in it.
#[test]
fn a_record_of_a_newer_version_is_passed_over() {
    let (inner, _) = segment(&[100, 200]);
    let mut newer = encode(&Key::from_bytes([9; 32]), Kind::Note, &Meta::default(), &inner);
    newer[6] = 77;
    let end = newer.len() - 16;
    let checksum = twox_hash::XxHash3_128::oneshot(&newer[..end]);
    newer[end..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(record::parse_any(&newer).unwrap_err(), Damage::Format);
    let mut bytes = vec![0; SEGMENT_HEADER];
    bytes.extend(newer);
    let end = bytes.len();
    bytes.extend(record_of(7, 10));
    assert_eq!(extents(&bytes), std::slice::from_ref(&(end..bytes.len())));
}

#[derive(Clone, Debug)]
enum Harm {
    Flip {
        at: usize,
        bit: u32,
    },
    Fill {
        at: usize,
        bytes: Vec<u8>,
    },
    /// Copies a range over another place.
    Copy {
        from: usize,
        to: usize,
        length: usize,
    },
    /// Copies whole lines of 64, so that headers land where headers may be.
    Splice {
        from: usize,
        to: usize,
        lines: usize,
    },
    Truncate {
        to: usize,
    },
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = || 0..8192_usize;
    prop_oneof![
        (at(), 0..8_u32).prop_map(|(at, bit)| Harm::Flip { at, bit }),
        (at(), prop::collection::vec(any::<u8>(), 1..200))
            .prop_map(|(at, bytes)| Harm::Fill { at, bytes }),
        (at(), at(), 1..600_usize).prop_map(|(from, to, length)| Harm::Copy { from, to, length }),
        (at(), at(), 1..12_usize).prop_map(|(from, to, lines)| Harm::Splice { from, to, lines }),
        at().prop_map(|to| Harm::Truncate { to }),
    ]
}

fn apply(bytes: &mut Vec<u8>, harm: Harm) {
    let end = bytes.len();
    let mut copy = |from: usize, to: usize, length: usize| {
        let (from, to) = (from % end, to % end);
        let length = length.min(end - from).min(end - to);
        bytes.copy_within(from..from + length, to);
    };
    match harm {
        Harm::Flip { at, bit } => bytes[at % end] ^= 1 << bit,
        Harm::Fill { at, bytes: fill } => {
            for (byte, fill) in bytes[at % end..].iter_mut().zip(fill) {
                *byte = fill;
            }
        }
        Harm::Copy { from, to, length } => copy(from, to, length),
        Harm::Splice { from, to, lines } => copy(from / 64 * 64, to / 64 * 64, lines * 64),
        Harm::Truncate { to } => bytes.truncate((to % end).max(1)),
    }
}

fn ends_agree(bytes: &[u8]) -> Option<usize> {
    let total = record::announced_length_any(bytes).ok()?;
    let (_, end) = bytes.get(..total)?.split_last_chunk::<TRAILER>()?;
    let told = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
    (told == total && end[4..8] == END_MAGIC).then_some(total)
}

proptest! {
    #[test]
    fn a_scan_returns_whole_records_and_all_untouched_ones(
        payloads in prop::collection::vec(prop_oneof![0..300_usize, Just(100)], 1..12),
        harm in prop::collection::vec(harm(), 0..6),
    ) {
        let (original, records) = segment(&payloads);
        let mut bytes = original.clone();
        harm.into_iter().for_each(|harm| apply(&mut bytes, harm));
        let mut scan = scan(&bytes);
        let found: Vec<Entry> = scan.by_ref().collect();
        prop_assert!(scan.hashed() <= bytes.len());
        let mut end = SEGMENT_HEADER;
        for entry in &found {
            prop_assert!(entry.offset >= end && entry.offset % ALIGN == 0);
            end = entry.offset + entry.layout.total;
            let parsed = record::parse_any(&bytes[entry.offset..end]);
            prop_assert_eq!(parsed, Ok((entry.key, entry.kind, entry.layout.clone())));
        }
        prop_assert_eq!(scan.end(), end);
        // Two ends that were put at the right distance by chance hide what is between them.
        let hidden = |record: &std::ops::Range<usize>| {
            (SEGMENT_HEADER..record.start).step_by(ALIGN).any(|at| {
                ends_agree(&bytes[at.min(bytes.len())..])
                    .is_some_and(|total| at + total > record.start)
            })
        };
        for record in records {
            let untouched = bytes.get(record.clone()) == Some(&original[record.clone()]);
            if untouched && !hidden(&record) {
                prop_assert!(found.iter().any(|entry| entry.offset == record.start), "{:?}", record);
            }
        }
    }

    #[test]
    fn any_bytes_can_be_scanned(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        prop_assert_eq!(scan(&bytes).count(), 0, "no checksum is right by chance");
    }
}
