//! Segments, and the files of a fixed length.

use super::forge;
use super::input::{Input, bend};
use crate::store::disk::format::{
    CURRENT_LEN, Current, META_LEN, Meta, SEGMENT_HEADER, SegmentHeader,
};
use crate::store::disk::record::{self, ALIGN, Kind};
use crate::store::disk::segment::scan;

/// How long a segment gets here.
const LONGEST: usize = 1 << 18;

/// A segment is scanned: what is found lies in it, in order, is whole, and is what was put unless its seal was
/// forged; no byte is hashed twice.
///
/// The input is `mode, records, edits...`. Mode 0 scans the input itself, as it is; otherwise a segment of the records
/// is bent by the edits, and bit 1 of the mode seals it again.
pub fn segment(input: &[u8]) {
    let mut input = Input::new(input);
    let mode = input.byte();
    if mode == 0 {
        let bytes = input.bytes(LONGEST);
        fixed(bytes);
        check(bytes, false);
        return;
    }
    let put = input.byte();
    let kinds = |n: u8| if n.is_multiple_of(2) { Kind::Artifact } else { Kind::Note };
    let records: Vec<_> = (0..put % 16).map(|n| (n.wrapping_mul(put), kinds(n))).collect();
    let (mut bytes, entries) = forge::segment(1, [3; 16], &records);
    let whole = bytes.clone();
    for _ in 0..16 {
        if input.is_empty() {
            break;
        }
        bend(&mut bytes, &whole, LONGEST, &mut input);
    }
    let is_forged = mode & 2 != 0;
    if is_forged {
        forge::seal(&mut bytes, SEGMENT_HEADER);
        forge::seal_records(&mut bytes);
    }
    fixed(&bytes);
    let found = check(&bytes, is_forged);
    if bytes == whole {
        assert_eq!(found, entries.len(), "whole records were not found");
    }
}

/// Scans; how many records there are.
fn check(bytes: &[u8], is_forged: bool) -> usize {
    let mut scan = scan(bytes);
    let (mut found, mut end) = (0, SEGMENT_HEADER);
    for entry in scan.by_ref() {
        assert!(entry.offset >= end && entry.offset.is_multiple_of(ALIGN), "{entry:?} overlaps");
        end = entry.offset + entry.layout.total;
        let record = &bytes[entry.offset..end];
        let layout = record::parse(record, &entry.key, entry.kind).expect("it was found whole");
        assert_eq!(layout, entry.layout);
        let _ = record::decode_meta(&record[layout.meta]);
        if !is_forged {
            let put = forge::payload(&entry.key, entry.kind);
            assert!(record[layout.payload] == put, "found what was never put");
        }
        found += 1;
    }
    assert!(scan.end() == end && scan.hashed() <= bytes.len(), "bytes were hashed twice");
    found
}

/// What parses of the other files is encoded to the same bytes.
fn fixed(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    for length in [META_LEN, CURRENT_LEN] {
        for bytes in [bytes, &sealed.clone()] {
            let same = |encoded: &[u8], says: usize| assert_eq!(encoded[..says], bytes[..says]);
            if let Ok(meta) = Meta::parse(bytes) {
                same(&meta.encode(), 40);
            }
            if let Ok(current) = Current::parse(bytes) {
                same(&current.encode(), 40);
            }
            if let Ok(header) = SegmentHeader::parse(bytes) {
                same(&header.encode(), 48);
            }
        }
        forge::seal(&mut sealed, length);
    }
}
