//! An index of any words.

use std::collections::HashSet;

use super::forge;
use super::input::{Input, bend};
use crate::store::disk::format::SegmentId;
use crate::store::disk::format::header::{IndexHeader, Place};
use crate::store::disk::format::slot::{Fingerprint, Location, Recency};
use crate::store::disk::index::{Candidate, Index, PROBES};
use crate::store::disk::record::Kind;
use crate::store::disk::words::{Array, Words};

/// Room for the header and 512 slots.
const LONGEST: usize = 4096 + 512 * 32;
const HERE: Place = Place { boot: [5; 16], device: 1, inode: 2 };

/// An index is opened and used whatever its words are: every search ends, an entry that was put is found, one
/// that was taken out is not, and a new generation has the live ones.
///
/// The input is `mode, n, n edits, operations...`. Mode 0 takes the rest of the input for the index; otherwise a valid one is bent,
/// and bits of the mode seal its header (2) and its slots (4) again.
pub fn index(input: &[u8]) {
    let mut input = Input::new(input);
    let mode = input.byte();
    let valid = forge::bytes_of(&forge::index(HERE, &entries()));
    let mut bytes = valid.clone();
    if mode == 0 {
        bytes = input.bytes(LONGEST).to_vec();
    } else {
        for _ in 0..input.byte() % 16 {
            bend(&mut bytes, &valid, LONGEST, &mut input);
        }
    }
    if mode & 2 != 0 {
        forge::seal_index(&mut bytes);
    }
    if mode & 4 != 0 {
        forge::seal_slots(&mut bytes);
    }
    let Ok(index) = Index::open(Array::of(forge::words_of(&bytes))) else {
        assert!(bytes[..] != valid[..], "a whole index was refused");
        return;
    };
    look(&index);
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        act(&index, &mut input);
    }
    look(&index);
    rebuild(&index, input.byte());
}

fn entries() -> Vec<(Fingerprint, Location)> {
    let records: Vec<_> =
        (0..12).map(|n| (n, if n < 8 { Kind::Artifact } else { Kind::Note })).collect();
    forge::segment(1, HERE.boot, &records).1
}

fn fingerprint(n: u8) -> Fingerprint {
    let kind = if n < 128 { Kind::Artifact } else { Kind::Note };
    Fingerprint::of(&forge::key(n), kind)
}

/// Everything that only looks.
fn look(index: &Index<Array>) {
    let live: Vec<Candidate> = index.entries().map(|(candidate, _)| candidate).collect();
    let slots: HashSet<usize> = live.iter().map(|candidate| candidate.slot).collect();
    assert!(slots.len() == live.len() && live.len() <= index.header().slots());
    for n in 0..=u8::MAX {
        let candidates: Vec<_> = index.candidates(fingerprint(n)).collect();
        assert!(candidates.len() <= PROBES);
        for candidate in candidates {
            assert!(candidate.fingerprint == fingerprint(n) && live.contains(&candidate));
            let _ = index.recency(&candidate);
        }
        let _ = index.attempts(fingerprint(n));
    }
    let (counts, _) = (index.recount(), index.counts());
    assert!(live.len() as u64 <= counts.live(), "more are found than are live");
    let _ = (index.in_use(), index.last(), index.next_base(index.last()));
    if let Some(tail) = index.tail() {
        let _ = (index.overruns(tail), index.reaches(tail.segment));
    }
}

/// One operation of a writer.
fn act(index: &Index<Array>, input: &mut Input<'_>) {
    let operation = input.byte();
    let fingerprint = fingerprint(input.byte());
    let location = Location {
        segment: SegmentId(index.header().base.0 + u64::from(input.byte())),
        offset: 64 * u64::from(input.byte()),
        length: 64 * (1 + u64::from(input.byte())),
    };
    let last = index.candidates(fingerprint).last();
    // The last of them only where no slot was emptied before.
    let is_found = |wanted: &Candidate| index.candidates(fingerprint).any(|found| found == *wanted);
    match (operation % 8, last) {
        (0..=3, _) => {
            let put = if operation.is_multiple_of(2) {
                index.insert(fingerprint, location, Recency::default())
            } else {
                index.append(fingerprint, location, Recency::default())
            };
            if let Ok(candidate) = put {
                assert!(is_found(&candidate), "put and not found");
                assert_eq!(candidate.location, location);
            }
        }
        (4, Some(last)) => {
            if let Ok(moved) = index.relocate(&last, location) {
                assert!(is_found(&moved), "moved and not found");
                assert!(!is_found(&last));
            }
        }
        (5, Some(last)) => {
            assert!(index.kill(&last) && !index.kill(&last));
            assert!(!is_found(&last));
        }
        (6, Some(last)) => {
            index.touch(&last, u32::from(operation));
            assert_eq!(index.recency(&last).hour, u32::from(operation));
        }
        (7, _) if operation & 64 != 0 => index.retire(),
        (7, _) if operation & 32 != 0 => drop(index.attempt(fingerprint)),
        (7, _) if operation & 16 != 0 => index.forgive(fingerprint),
        _ => {}
    }
}

/// A new generation has what the old one had, as far as it is told to be large enough.
fn rebuild(old: &Index<Array>, choice: u8) {
    let log2_slots = 3 + choice % 8;
    let base = old.next_base(SegmentId(old.last().0 + 1));
    let header = IndexHeader { base, log2_slots, salt: [choice.into(), 1], ..*old.header() };
    let new = Index::create(Array::new(IndexHeader::file_length(log2_slots) as usize / 8), header);
    let live: Vec<_> = old.entries().map(|(candidate, _)| candidate).collect();
    let rebuilt = old.rebuild_into(&new, 1, |candidate| candidate.slot % 5 != 4);
    assert_eq!(rebuilt.kept + rebuilt.dropped + rebuilt.refused, live.len() as u64);
    assert_eq!(rebuilt.kept, new.entries().count() as u64);
    if rebuilt.refused == 0 {
        for n in 0..=u8::MAX {
            let places = |index: &Index<Array>, keep: fn(&Candidate) -> bool| -> Vec<Location> {
                index.candidates(fingerprint(n)).filter(keep).map(|found| found.location).collect()
            };
            let (kept, found) = (places(old, |found| found.slot % 5 != 4), places(&new, |_| true));
            // What a bent index hides behind an empty slot may be found again.
            assert!(kept.is_empty() || !found.is_empty(), "lost by a rebuild");
        }
    }
    assert!(new.words().len() == 512 + (4 << log2_slots));
}
