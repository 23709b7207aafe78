//! One record, whole or not.

use crate::key::Key;
use crate::store::disk::record::{self, Kind, Meta};

/// A record made of the input's bytes, then bent as the input says: it is a miss, or it is exactly what
/// was encoded.
///
/// The input is `mode, key byte, meta length, bytes...`. Even modes parse the bytes as they are; odd ones
/// encode a valid record of them first and then apply the edits at the input's end, so that the checks
/// behind the magic number are reached too.
pub fn record(input: &[u8]) {
    let [mode, tag, cut, rest @ ..] = input else { return };
    let key = Key::from_bytes([*tag; 32]);
    if mode.is_multiple_of(2) {
        if let Ok((found, kind, layout)) = record::parse_any(rest) {
            let same = record::parse(rest, &found, kind).expect("parses again by its own key");
            assert_eq!(same, layout);
            let _ = record::decode_meta(&rest[layout.meta.clone()]);
            let _ = &rest[layout.payload];
        }
        return;
    }
    let (label, payload) = rest.split_at(usize::from(*cut).min(rest.len()));
    let meta = Meta { label: String::from_utf8_lossy(label).into_owned(), ..Meta::default() };
    let whole = record::encode(&key, Kind::Artifact, &meta, payload);
    let mut bent = whole.clone();
    for edit in rest.rchunks_exact(4).take(usize::from(mode >> 4)) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bent.len();
        match edit[2] % 3 {
            0 => bent[at] ^= edit[3],
            1 => bent.truncate(at.max(1)),
            _ => bent.extend_from_slice(edit),
        }
    }
    match record::parse(&bent, &key, Kind::Artifact) {
        Ok(layout) => {
            assert_eq!(bent[..layout.total], whole[..], "a bent record parsed");
            assert_eq!(&bent[layout.payload], payload);
            assert_eq!(record::decode_meta(&bent[layout.meta]), meta);
        }
        Err(_) => {
            assert_ne!(bent.get(..whole.len()), Some(&whole[..]), "a whole record was refused")
        }
    }
}
