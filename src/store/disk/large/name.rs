//! Where records lie under the space, and which names are theirs.

use crate::key::Key;
use crate::store::disk::record::Kind;

/// What the name of a record being written begins with.
pub(super) const TEMPORARY: &str = "tmp-";

/// The folder of everything of a kind.
pub(super) const fn tree(kind: Kind) -> &'static str {
    match kind {
        Kind::Artifact => "big",
        Kind::Note => "note",
    }
}

/// `big/ab/cdef…`: the path of a record from the space, and its parts.
pub(super) struct Name {
    pub(super) key: Key,
    pub(super) kind: Kind,
    text: [u8; Name::LONGEST],
}

impl Name {
    const LONGEST: usize = "note/".len() + 65;

    pub(super) fn new(kind: Kind, key: &Key) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'/'; Self::LONGEST];
        let tree = tree(kind);
        text[..tree.len()].copy_from_slice(tree.as_bytes());
        let mut at = tree.len() + 1;
        for (i, byte) in key.as_bytes().iter().enumerate() {
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
            at += if i == 0 { 3 } else { 2 };
        }
        Name { key: *key, kind, text }
    }

    /// All of it.
    pub(super) fn path(&self) -> &str {
        self.part(0, self.tree().len() + 66)
    }

    /// `big/ab`.
    pub(super) fn folder(&self) -> &str {
        self.part(0, self.tree().len() + 3)
    }

    /// `big`.
    pub(super) fn tree(&self) -> &'static str {
        tree(self.kind)
    }

    /// `ab`.
    pub(super) fn fan_out(&self) -> &str {
        self.part(self.tree().len() + 1, self.tree().len() + 3)
    }

    /// `cdef…`.
    pub(super) fn file(&self) -> &str {
        self.part(self.tree().len() + 4, self.tree().len() + 66)
    }

    fn part(&self, from: usize, to: usize) -> &str {
        std::str::from_utf8(&self.text[from..to]).expect("ASCII")
    }
}

/// The key of a file in this folder, if its name is a record's.
pub(super) fn record_key(fan_out: &str, name: &str) -> Option<Key> {
    (name.len() == 62 && is_hex(name)).then(|| format!("{fan_out}{name}").parse().ok())?
}

pub(super) fn is_hex(text: &str) -> bool {
    text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}
