//! The injective encoding of a list of parts, and the builder that makes it.
//!
//! ```text
//!   part  = tag u8 | name length u32 | name | value length u64 | value        (little-endian)
//!   list  = tag DOMAIN part, then the parts in the order they were named
//!   group = a part whose value is a list of parts
//! ```
//!
//! Every part says its own type and both of its lengths, so a list can be read back from its encoding in
//! one way only: that is why two different lists cannot encode alike.

use serde::{Deserialize, Serialize};

use super::Key;

/// The type of a part, its first byte in the encoding. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Tag {
    Domain = 1,
    Str = 2,
    Bytes = 3,
    U64 = 4,
    I64 = 5,
    F64 = 6,
    Bool = 7,
    Key = 8,
    Group = 9,
}

impl Tag {
    fn name(self) -> &'static str {
        match self {
            Tag::Domain => "domain",
            Tag::Str => "str",
            Tag::Bytes => "bytes",
            Tag::U64 => "u64",
            Tag::I64 => "i64",
            Tag::F64 => "f64",
            Tag::Bool => "bool",
            Tag::Key => "key",
            Tag::Group => "group",
        }
    }
}

/// One part of a key as it is remembered to explain a miss: its name, type, a short digest of its value
/// and the beginning of the value as text.
///
/// A group comes as a part of its own, with a digest of all that is in it, followed by its parts. So two
/// lists of parts have the same digests only if they have the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartDigest {
    /// The part's name; parts of groups have the group's name and a dot in front.
    pub name: String,
    /// The part's type, as [`KeyBuilder`]'s methods are called.
    pub kind: String,
    /// The first 16 bytes of the blake3 digest of the value's encoding.
    pub digest: [u8; 16],
    /// At most [`PartDigest::PREVIEW`] characters of the value on one line, for people.
    pub preview: String,
}

impl PartDigest {
    /// How many characters of a value are remembered.
    pub const PREVIEW: usize = 80;
}

/// Collects the named, typed parts of a key.
///
/// ```
/// use cachelift::key::KeyBuilder;
///
/// let key = |opt: u64| {
///     let mut parts = KeyBuilder::new("example function v1");
///     parts.str("name", "add").u64("opt-level", opt);
///     parts.finish()
/// };
/// assert_eq!(key(2), key(2));
/// assert_ne!(key(2), key(3));
/// ```
///
/// Order matters: parts of something that has none, such as a map, are named in an order of their own,
/// sorted for example.
#[derive(Clone, Debug)]
pub struct KeyBuilder {
    encoding: Vec<u8>,
    digests: Option<Vec<PartDigest>>,
    /// The names of the groups we are in, each with a dot; empty if no digests are kept.
    prefix: String,
}

impl KeyBuilder {
    /// A list of parts of one domain, such as `"cachelift function v1"`: equal parts of two domains
    /// give two keys. Change the domain's version whenever the meaning of a part changes.
    pub fn new(domain: &str) -> Self {
        Self::begin(domain, None)
    }

    /// As [`new`](Self::new), and keeps a digest and a preview of each part for
    /// [`digests`](Self::digests). The key is the same.
    pub fn explained(domain: &str) -> Self {
        Self::begin(domain, Some(Vec::new()))
    }

    fn begin(domain: &str, digests: Option<Vec<PartDigest>>) -> Self {
        let mut builder =
            KeyBuilder { encoding: Vec::with_capacity(512), digests, prefix: String::new() };
        builder.part(Tag::Domain, "", domain.as_bytes(), || line(domain));
        builder
    }

    /// Whether this builder keeps digests of its parts.
    pub fn is_explained(&self) -> bool {
        self.digests.is_some()
    }

    /// Adds a text.
    pub fn str(&mut self, name: &str, value: &str) -> &mut Self {
        self.part(Tag::Str, name, value.as_bytes(), || line(value))
    }

    /// Adds bytes.
    pub fn bytes(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.part(Tag::Bytes, name, value, || match value.len() {
            n @ 0..=32 => {
                value.iter().fold(format!("{n} bytes "), |line, byte| line + &format!("{byte:02x}"))
            }
            n => format!("{n} bytes"),
        })
    }

    /// Adds an unsigned number.
    pub fn u64(&mut self, name: &str, value: u64) -> &mut Self {
        self.part(Tag::U64, name, &value.to_le_bytes(), || value.to_string())
    }

    /// Adds a signed number.
    pub fn i64(&mut self, name: &str, value: i64) -> &mut Self {
        self.part(Tag::I64, name, &value.to_le_bytes(), || value.to_string())
    }

    /// Adds a floating-point number by its bits: 0.0 and -0.0 differ, and so do two NaNs with
    /// different payloads.
    pub fn f64(&mut self, name: &str, value: f64) -> &mut Self {
        let bits = value.to_bits();
        self.part(Tag::F64, name, &bits.to_le_bytes(), || format!("{value:?} {bits:#018x}"))
    }

    /// Adds a truth value.
    pub fn bool(&mut self, name: &str, value: bool) -> &mut Self {
        self.part(Tag::Bool, name, &[u8::from(value)], || value.to_string())
    }

    /// Adds another key.
    pub fn key(&mut self, name: &str, value: &Key) -> &mut Self {
        self.part(Tag::Key, name, value.as_bytes(), || value.to_string())
    }

    /// Adds the parts that `fill` names, as one part: a group ends where it ends, so its parts are not
    /// mistaken for those after it.
    pub fn group(&mut self, name: &str, fill: impl FnOnce(&mut KeyBuilder)) -> &mut Self {
        // Written in place, with the length put in afterwards. No value has the length that stands there
        // in the meantime: a `fill` that panics leaves an encoding that no list has.
        self.header(Tag::Group, name, u64::MAX);
        let begin = self.encoding.len();
        let prefix = self.prefix.len();
        let at = self.digests().len();
        if self.is_explained() {
            self.prefix.extend([name, "."]);
        }
        fill(self);
        let length = (self.encoding.len() - begin) as u64;
        self.encoding[begin - 8..begin].copy_from_slice(&length.to_le_bytes());
        self.prefix.truncate(prefix);
        if let Some(digests) = &mut self.digests {
            let preview = format!("{} parts", digests.len() - at);
            let (name, value) = (format!("{}{name}", self.prefix), &self.encoding[begin..]);
            digests.insert(at, digest(Tag::Group, name, value, preview));
        }
        self
    }

    /// The key of the parts named so far. Not to be asked of the builder that [`group`](Self::group)
    /// lends, whose list is unfinished.
    pub fn finish(&self) -> Key {
        Key(*blake3::hash(&self.encoding).as_bytes())
    }

    /// The digests of the parts named so far, if the builder keeps them.
    pub fn digests(&self) -> &[PartDigest] {
        self.digests.as_deref().unwrap_or_default()
    }

    /// The encoding of the parts named so far.
    pub fn encoding(&self) -> &[u8] {
        &self.encoding
    }

    fn part(
        &mut self,
        tag: Tag,
        name: &str,
        value: &[u8],
        preview: impl FnOnce() -> String,
    ) -> &mut Self {
        self.header(tag, name, value.len() as u64);
        self.encoding.extend_from_slice(value);
        if let Some(digests) = &mut self.digests {
            digests.push(digest(tag, format!("{}{name}", self.prefix), value, preview()));
        }
        self
    }

    /// Writes all of a part but its value.
    fn header(&mut self, tag: Tag, name: &str, length: u64) {
        let name_length = u32::try_from(name.len()).expect("a part's name is short");
        self.encoding.push(tag as u8);
        self.encoding.extend_from_slice(&name_length.to_le_bytes());
        self.encoding.extend_from_slice(name.as_bytes());
        self.encoding.extend_from_slice(&length.to_le_bytes());
    }
}

fn digest(tag: Tag, name: String, value: &[u8], preview: String) -> PartDigest {
    PartDigest { name, kind: tag.name().into(), digest: short(value), preview }
}

fn short(value: &[u8]) -> [u8; 16] {
    let digest = blake3::hash(value);
    *digest.as_bytes().first_chunk().expect("a digest has 32 bytes")
}

/// The beginning of a text, which may come from anywhere, as it may be written to a terminal.
fn line(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(PartDigest::PREVIEW).map(visible).collect()
}
