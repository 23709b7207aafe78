use proptest::prelude::*;

use super::header::{FIXED_WORDS, IndexHeader, Place, Tail};
use super::slot::{Fingerprint, LIVE, Location, Recency, seal as slot_seal, shard_of};
use super::*;
use crate::key::Key;
use crate::store::disk::record::Kind;

const CACHE: CacheId = CacheId(*b"sixteen bytes id");

fn meta() -> Meta {
    Meta { cache: CACHE, shard_bits: 4, created_s: 1_700_000_000 }
}

fn current() -> Current {
    Current { cache: CACHE, shard: 15, generation: 77, check: 0x1234_5678 }
}

fn segment() -> SegmentHeader {
    SegmentHeader { cache: CACHE, shard: 15, id: SegmentId(0x1234), boot: [9; 16] }
}

fn index() -> IndexHeader {
    IndexHeader {
        cache: CACHE,
        shard: 15,
        generation: 77,
        base: SegmentId(0x1000),
        log2_slots: 12,
        salt: [3, 4],
        place: Place { boot: [9; 16], device: 5, inode: 6 },
    }
}

/// Every file with one bit of any byte changed, or cut anywhere, is none.
fn each_bit_counts<T: std::fmt::Debug>(
    bytes: &[u8],
    parse: impl Fn(&[u8]) -> Result<T, Malformed>,
) {
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        parse(&bad).expect_err(&format!("bit {bit} changed"));
    }
    for length in 0..bytes.len() {
        assert_eq!(parse(&bytes[..length]).unwrap_err(), Malformed::Length);
    }
    let longer = [bytes, &[0xff; 9]].concat();
    parse(&longer).expect("what follows is not looked at");
}

/// Mutants: any field left out of `encode`, `parse`, or of what the checksum covers.
#[test]
fn files_come_back_as_they_were_written() {
    assert_eq!(Meta::parse(&meta().encode()), Ok(meta()));
    assert_eq!(Current::parse(&current().encode()), Ok(current()));
    assert_eq!(SegmentHeader::parse(&segment().encode()), Ok(segment()));
    assert_eq!(IndexHeader::parse(&index().encode()), Ok(index()));
}

/// Mutant: `check_seal` returns `Ok(())`.
#[test]
fn each_bit_of_a_file_counts() {
    each_bit_counts(&meta().encode(), Meta::parse);
    each_bit_counts(&current().encode(), Current::parse);
    each_bit_counts(&segment().encode(), SegmentHeader::parse);
    let words = index().encode();
    for bit in 0..FIXED_WORDS * 64 {
        let mut bad = words;
        bad[bit / 64] ^= 1 << (bit % 64);
        IndexHeader::parse(&bad).expect_err(&format!("bit {bit} changed"));
    }
}

/// Mutants: each `Malformed::Range` check dropped.
#[test]
fn numbers_out_of_range_are_refused_though_the_checksum_is_right() {
    let range = Err(Malformed::Range);
    assert_eq!(Meta::parse(&Meta { shard_bits: 7, ..meta() }.encode()).map(|_| ()), range);
    for current in [Current { shard: 64, ..current() }, Current { generation: MAX_ID, ..current() }]
    {
        assert_eq!(Current::parse(&current.encode()).map(|_| ()), range);
    }
    for segment in [
        SegmentHeader { shard: 64, ..segment() },
        SegmentHeader { id: SegmentId(MAX_ID), ..segment() },
        SegmentHeader { id: SegmentId(0), ..segment() },
    ] {
        assert_eq!(SegmentHeader::parse(&segment.encode()).map(|_| ()), range);
    }
    for index in [
        IndexHeader { shard: 64, ..index() },
        IndexHeader { generation: MAX_ID, ..index() },
        IndexHeader { base: SegmentId(MAX_ID), ..index() },
        IndexHeader { log2_slots: 29, ..index() },
    ] {
        assert_eq!(IndexHeader::parse(&index.encode()).map(|_| ()), range);
    }
}

#[test]
fn another_format_is_told_from_damage() {
    let mut bytes = meta().encode();
    bytes[8] = 2;
    // Mutant: the format compared before the seal; a flipped bit would keep everybody out for good.
    assert!(!matches!(Meta::parse(&bytes), Ok(_) | Err(Malformed::Format)));
    seal(&mut bytes);
    assert_eq!(Meta::parse(&bytes), Err(Malformed::Format));
    let mut bytes = segment().encode();
    bytes[4] = 2;
    seal(&mut bytes);
    assert_eq!(SegmentHeader::parse(&bytes), Err(Malformed::Format));
    assert_eq!(Current::parse(&meta().encode()), Err(Malformed::Magic));
    let mut bytes = meta().encode();
    bytes[8] ^= 2;
    assert_eq!(Meta::parse(&bytes), Err(Malformed::Checksum), "this is damage");
}

/// Mutants: names of other lengths, upper-case digits, id 0 or a sign accepted.
#[test]
fn only_names_as_they_are_made_have_a_meaning() {
    let id = SegmentId(0xabc);
    assert_eq!(Name::parse(&id.to_string()), Some(Name::Segment(id)));
    assert_eq!(Name::parse(&Name::index(0)), Some(Name::Index(0)));
    assert_eq!(Name::parse(&Name::index(MAX_ID - 1)), Some(Name::Index(MAX_ID - 1)));
    assert_eq!(Name::parse(&Name::temporary([0xfe; 16])), Some(Name::Temporary));
    assert_eq!(Name::parse(&Name::temporary([0; 16])), Some(Name::Temporary));
    for other in [
        "",
        "-",
        "lock",
        "CURRENT",
        "seg-",
        "seg-abc",
        "seg-000000000ABC",
        "seg-000000000000",
        "seg-0000000000abc",
        "seg-+00000000abc",
        "seg-00000000abc\u{e9}",
        "idx-000000000abc.bak",
        "xxx-000000000abc",
        "tmp-00",
    ] {
        assert_eq!(Name::parse(other), None, "{other:?}");
    }
}

#[test]
fn a_place_out_of_reach_has_no_word() {
    let base = SegmentId(100);
    let good = Location { segment: SegmentId(101), offset: 64, length: 192 };
    let max = Location {
        segment: SegmentId(100 + (1 << 21) - 1),
        offset: 64 * ((1 << 20) - 1),
        length: 64 * ((1 << 23) - 1),
    };
    for location in [good, max] {
        assert_eq!(Location::unpack(location.pack(base).unwrap(), base), Some(location));
    }
    for bad in [
        Location { segment: SegmentId(100), ..good },
        Location { segment: SegmentId(99), ..good },
        Location { segment: SegmentId(100 + (1 << 21)), ..good },
        Location { offset: 0, ..good },
        Location { offset: 65, ..good },
        Location { offset: 64 << 20, ..good },
        Location { length: 0, ..good },
        Location { length: 191, ..good },
        Location { length: 64 << 23, ..good },
    ] {
        assert_eq!(bad.pack(base), None, "{bad:?}");
    }
    let largest = crate::store::disk::record::MAX_PAYLOAD + (1 << 20) + 1024;
    assert!(max.length > largest as u64, "every record has a length that fits");
}

#[test]
fn a_tail_at_the_very_end_of_the_largest_segment_has_a_word() {
    let base = SegmentId(100);
    let tail = Some(Tail { segment: SegmentId(101), end: 64 << 20 });
    assert_eq!(Tail::unpack(Tail::pack(tail, base), base), tail);
    assert_eq!(Tail::pack(None, base), 0);
    assert_eq!(Tail::unpack(0, base), None);
    for segment in [99, 100, 100 + (1 << 21)] {
        let tail = Tail { segment: SegmentId(segment), end: 64 };
        assert_eq!(Tail::pack(Some(tail), base), 0, "{tail:?}");
    }
}

#[test]
fn kinds_and_keys_are_told_apart() {
    let key = Key::from_bytes(std::array::from_fn(|n| n as u8));
    let artifact = Fingerprint::of(&key, Kind::Artifact);
    assert_ne!(artifact, Fingerprint::of(&key, Kind::Note));
    assert_eq!(Fingerprint::of_word(artifact.word(LIVE)), artifact);
    let high = Key::from_bytes([0xff; 32]);
    assert_eq!([0, 1, 4, 6].map(|bits| shard_of(&high, bits)), [0, 1, 15, 63]);
    assert_eq!(shard_of(&Key::from_bytes([0; 32]), 6), 0);
}

/// Mutants: any argument left out of `seal`.
#[test]
fn a_seal_covers_everything() {
    let of = |salt, slot, bits, word1| slot_seal(salt, slot, Fingerprint::from_bits(bits), word1);
    let one = of([1, 2], 3, 4, 5);
    for other in [
        of([0, 2], 3, 4, 5),
        of([1, 0], 3, 4, 5),
        of([1, 2], 0, 4, 5),
        of([1, 2], 3, 0, 5),
        of([1, 2], 3, 4, 0),
    ] {
        assert_ne!(one, other);
    }
}

#[test]
fn recency_counts_uses_and_classes_cost() {
    let new = Recency::new(5, 1000);
    assert_eq!(new, Recency { hour: 5, uses: 0, cost: 10 });
    assert_eq!(new.used(9), Recency { hour: 9, uses: 1, cost: 10 });
    assert_eq!(Recency { uses: 255, ..new }.used(9).uses, 255);
    assert_eq!((Recency::new(0, 0).cost, Recency::new(0, u64::MAX).cost), (0, 64));
}

proptest! {
    #[test]
    fn any_bytes_are_a_file_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Meta::parse(&bytes);
        let _ = Current::parse(&bytes);
        let _ = SegmentHeader::parse(&bytes);
        let _ = Name::parse(&String::from_utf8_lossy(&bytes));
    }

    /// Headers with a right magic, format and checksum around anything at all.
    #[test]
    fn any_header_that_parses_is_in_range(
        mut words in any::<[u64; FIXED_WORDS]>(),
        log2 in any::<u8>(),
        small in any::<bool>(),
    ) {
        let right = index().encode();
        words[0] = right[0];
        words[1] = right[1] & 0xffff_ffff | u64::from(log2) << 32;
        if small {
            words[2] >>= 20;
            words[3] >>= 20;
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        seal(&mut bytes);
        words[15] = u64_at(&bytes, 120);
        match IndexHeader::parse(&words) {
            Ok(header) => {
                prop_assert!(header.log2_slots <= 28 && header.generation < MAX_ID);
                prop_assert!(header.base.0 < MAX_ID && header.shard < 64);
                prop_assert!(Fingerprint::from_bits(words[4]).home(header.salt, header.log2_slots)
                    < header.slots());
                prop_assert_eq!(IndexHeader::parse(&header.encode()), Ok(header));
            }
            Err(error) => prop_assert_eq!(error, Malformed::Range),
        }
    }

    #[test]
    fn any_words_are_a_slots(word in any::<u64>(), base in 0..MAX_ID) {
        let base = SegmentId(base);
        if let Some(location) = Location::unpack(word, base) {
            prop_assert_eq!(location.pack(base), Some(word));
            prop_assert!(location.end() > location.offset);
        }
        if let Some(tail) = Tail::unpack(word, base) {
            prop_assert!(tail.segment > base);
        }
        prop_assert_eq!(Recency::unpack(Recency::unpack(word).pack()), Recency::unpack(word));
    }
}
