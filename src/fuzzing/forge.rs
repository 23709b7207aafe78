//! The valid files that are bent, and their seals made anew.
//!
//! They are made by hand, the same in every process but for where they lie. The eight keys' payloads follow from the
//! keys, so that whatever is found can be judged.

use std::collections::BTreeMap;

use crate::key::Key;
use crate::store::disk::format::header::{
    FIXED_WORDS, HEADER_WORDS, IndexHeader, Place, SLOT_WORDS, checksum,
};
use crate::store::disk::format::slot::{self, EMPTY, Fingerprint, Location, Recency, STATE_MASK};
use crate::store::disk::format::{
    self, CURRENT_LEN, CacheId, Current, Meta, SegmentHeader, SegmentId,
};
use crate::store::disk::index::Index;
use crate::store::disk::record::{self, ALIGN, Kind};
use crate::store::disk::words::{Array, Words};

/// The keys that there are.
pub(super) const KEYS: u8 = 8;
/// The cache that all files belong to.
const CACHE: CacheId = CacheId([7; 16]);
const SALT: [u64; 2] = [11, 13];
const LOG2_SLOTS: u8 = 7;

/// The `n`-th of the [`KEYS`].
pub(super) fn key(n: u8) -> Key {
    let n = n % KEYS;
    let mut bytes = *blake3::hash(&[n]).as_bytes();
    bytes[0] = n;
    Key::from_bytes(bytes)
}

/// What is put under a key. The last is too long to share a segment.
pub(super) fn payload(key: &Key, kind: Kind) -> Vec<u8> {
    const LENGTHS: [usize; KEYS as usize] = [0, 1, 40, 64, 100, 300, 700, 20_000];
    let length = LENGTHS[usize::from(key.as_bytes()[0] % KEYS)];
    let mut payload = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(key.as_bytes()).update(&[kind as u8]).finalize_xof().fill(&mut payload);
    payload
}

/// The record of a key.
pub(super) fn whole(n: u8, kind: Kind) -> Vec<u8> {
    let key = key(n);
    record::encode(&key, kind, &record::Meta::default(), &payload(&key, kind))
}

/// A segment of these records, with nothing between them but before one of its own.
pub(super) fn segment(
    id: u64,
    boot: [u8; 16],
    records: &[(u8, Kind)],
) -> (Vec<u8>, Vec<(Fingerprint, Location)>) {
    let id = SegmentId(id);
    let mut bytes = SegmentHeader { cache: CACHE, shard: 0, id, boot }.encode().to_vec();
    let mut entries = Vec::new();
    for (n, kind) in records {
        let record = whole(*n, *kind);
        let location =
            Location { segment: id, offset: bytes.len() as u64, length: record.len() as u64 };
        entries.push((Fingerprint::of(&key(*n), *kind), location));
        bytes.extend_from_slice(&record);
    }
    (bytes, entries)
}

/// An index of these entries, of which the first is dead.
pub(super) fn index(place: Place, entries: &[(Fingerprint, Location)]) -> Index<Array> {
    let header = IndexHeader {
        cache: CACHE,
        shard: 0,
        generation: 1,
        base: SegmentId(0),
        log2_slots: LOG2_SLOTS,
        salt: SALT,
        place,
    };
    let words = Array::new(IndexHeader::file_length(LOG2_SLOTS) as usize / 8);
    let index = Index::create(words, header);
    for (n, (fingerprint, location)) in entries.iter().enumerate() {
        let recency = Recency { hour: u32::MAX, uses: 1, cost: 10 };
        let candidate = index.append(*fingerprint, *location, recency).expect("there is room");
        if n == 0 {
            index.kill(&candidate);
        }
    }
    index.set_last(SegmentId(3));
    index
}

/// The words of an index as its file has them.
pub(super) fn bytes_of(index: &Index<Array>) -> Vec<u8> {
    let words = index.words();
    (0..words.len()).flat_map(|at| words.load(at).to_le_bytes()).collect()
}

/// The bytes of an index as words; what is over a whole word is left out.
pub(super) fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// The files of a cache of one shard, by their paths from its space on. The index says that it lies at `place`.
pub(super) fn files(place: Place) -> BTreeMap<String, Vec<u8>> {
    use Kind::{Artifact, Note};
    let boot = place.boot;
    let (first, mut entries) =
        segment(1, boot, &[(0, Artifact), (0, Artifact), (1, Artifact), (2, Artifact), (1, Note)]);
    let (alone, its) = segment(2, boot, &[(7, Artifact)]);
    entries.extend(its);
    // What was moved, or put while the index was full: two live entries of one key.
    let (last, its) = segment(3, boot, &[(3, Artifact), (2, Artifact), (4, Note)]);
    entries.extend(its);
    let index = index(place, &entries);
    let current = Current { cache: CACHE, shard: 0, generation: 1, check: index.header().check() };
    let meta = Meta { cache: CACHE, shard_bits: 0, created_s: 1 };
    let mut files = BTreeMap::new();
    let mut file = |path: &str, bytes: &[u8]| files.insert(path.to_string(), bytes.to_vec());
    file("meta", &meta.encode());
    file("flight.lock", &[]);
    file("gc.lock", &[]);
    file("shard-00.lock", &[]);
    file("s/00/CURRENT", &current.encode());
    file("s/00/idx-000000000001", &bytes_of(&index));
    file("s/00/seg-000000000001", &first);
    file("s/00/seg-000000000002", &alone);
    file("s/00/seg-000000000003", &last);
    files
}

/// Seals a file of a fixed length, or the header of a segment, whatever it says.
pub(super) fn seal(bytes: &mut [u8], length: usize) {
    if let Some(bytes) = bytes.get_mut(..length) {
        format::seal(bytes);
    }
}

/// Seals the header of an index.
pub(super) fn seal_index(bytes: &mut [u8]) {
    if let Some(words) = words_of(bytes).first_chunk::<FIXED_WORDS>() {
        let sum = checksum(words).to_le_bytes();
        bytes[8 * (FIXED_WORDS - 1)..8 * FIXED_WORDS].copy_from_slice(&sum);
    }
}

/// Says in an index that it lies at `place`, and seals its header if that was sealed or is to be: what `CURRENT` had to
/// say of it, and has to.
pub(super) fn settle(bytes: &mut [u8], place: Option<Place>, seal: bool) -> Option<(u32, u32)> {
    let said = *words_of(bytes).first_chunk::<FIXED_WORDS>()?;
    if !seal && checksum(&said) != said[FIXED_WORDS - 1] {
        return None;
    }
    if let Some(place) = place {
        let there = &mut bytes[64..96];
        there[..16].copy_from_slice(&place.boot);
        there[16..24].copy_from_slice(&place.device.to_le_bytes());
        there[24..].copy_from_slice(&place.inode.to_le_bytes());
    }
    seal_index(bytes);
    let says = words_of(bytes)[FIXED_WORDS - 1];
    Some((said[FIXED_WORDS - 1] as u32, says as u32))
}

/// Names in `CURRENT` an index that was [settled](settle), if it named it before or is to be sealed.
pub(super) fn name_settled(bytes: &mut [u8], moved: &[(u32, u32)], seal: bool) {
    let mut sealed = bytes.to_vec();
    self::seal(&mut sealed, CURRENT_LEN);
    let Some(check) = bytes.get(36..40).filter(|_| seal || sealed == bytes) else { return };
    let named = moved.iter().find(|(said, _)| said.to_le_bytes() == check);
    let named = named.or(moved.first().filter(|_| seal));
    if let Some((_, says)) = named {
        bytes[36..40].copy_from_slice(&says.to_le_bytes());
        self::seal(bytes, CURRENT_LEN);
    }
}

/// Seals every slot of an index that is not empty.
pub(super) fn seal_slots(bytes: &mut [u8]) {
    let mut words = words_of(bytes);
    if words.len() < HEADER_WORDS {
        return;
    }
    let salt = [words[6], words[7]];
    for (slot, words) in words[HEADER_WORDS..].chunks_exact_mut(SLOT_WORDS).enumerate() {
        if words[0] & STATE_MASK != EMPTY {
            words[2] = slot::seal(salt, slot, Fingerprint::of_word(words[0]), words[1]);
        }
    }
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Seals whatever looks like a record in a segment: with this, what is found need not be what was put.
pub(super) fn seal_records(bytes: &mut [u8]) {
    let mut at = ALIGN;
    while at < bytes.len() {
        let rest = &mut bytes[at..];
        let total = record::announced_length_any(rest).ok().filter(|total| *total <= rest.len());
        if let Some(total) = total {
            record::seal(&mut rest[..total]);
        }
        at += total.unwrap_or(ALIGN);
    }
}
