//! Images: all functions of a program, linked once, and mapped from the cache by every process that runs them.
//!
//! ```text
//!   in the cache    │ header, tables │ text: functions, stubs │
//!                     read             ▲ at a page, mapped shared and executable: one copy for all processes
//!   in memory                        │ text                   │ slots │
//!                                      └── fixed distance ──────►┘ private: filled in, then read-only
//! ```
//!
//! Position-independent code reads the addresses of what lies elsewhere from *slots*. As these follow the text at a distance
//! that is known when the image is made, nothing in the text depends on where it is loaded, and nothing is written into it.
//! What cannot be mapped as executable (a file system mounted `noexec`, a security policy, no directory at all) is copied
//! into memory of the process, with the same code and the same result.
//!
//! | file | what of it |
//! |---|---|
//! | `build` | from relocatable functions to an image |
//! | `memory` | mapping, or a copy: the unsafe part |
//! | `load` | from what the store lends to memory |
//! | `program` | [`Engine::load_image`](super::Engine::load_image) |
#![doc = include_str!("image/FORMAT.md")]

pub(crate) mod build;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod program;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::{Deref, Range};

use cranelift_codegen::ir::{LibCall, TrapCode};

use super::artifact;
use super::disassembly::lines;
use crate::key::Key;
use memory::Front;

pub use program::Image;

const MAGIC: [u8; 4] = *b"CLI\x01";
const FORMAT: u16 = 1;
const HEADER: usize = 80;
const FUNCTION: usize = 28;
const SLOT: usize = 8;
const SYMBOL: usize = 8;
const TRAP: usize = 5;
/// Text begins and ends at multiples of this, and so do the slots.
pub(crate) const PAGE: usize = crate::store::PAGE as usize;
const LOG2_PAGE: u8 = PAGE.trailing_zeros() as u8;

/// Why bytes are no image for an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("not an image of this format")]
    Format,
    #[error("made in another environment")]
    Environment,
    #[error("lengths that contradict each other")]
    Length,
    #[error("a table that makes no sense")]
    Table,
}

/// What a slot holds the address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slot {
    /// Something outside, by its number: that of a symbol, or of whatever the image's maker numbered.
    Symbol(u32),
    /// A library routine.
    Libcall(LibCall),
    /// So far into the text.
    Own(u32),
}

/// A function in an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    /// Where it begins in the text.
    pub(crate) offset: u32,
    /// How long its code is.
    pub(crate) length: u32,
    /// What its maker numbered it.
    pub(crate) number: u32,
    /// Its name: empty if it has none.
    pub(crate) name: &'a str,
    /// What its maker remembers of it.
    pub(crate) detail: &'a [u8],
}

/// Where header and tables are.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Mapped(Front),
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(front) => front.bytes(),
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::Owned(bytes)
    }
}

/// The header and the tables of an image, checked.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    bytes: Bytes,
    text_length: usize,
    functions: Range<usize>,
    slots: Range<usize>,
    symbols: Range<usize>,
    traps: Range<usize>,
    strings: Range<usize>,
    group: Range<usize>,
}

impl Tables {
    /// How long header and tables are, by the first bytes of an image: where its text begins.
    pub(crate) fn announced_length(head: &[u8]) -> Result<usize, ImageError> {
        Self::announced(head).map(|(length, _)| length)
    }

    /// The same, and how many slots there are.
    pub(crate) fn announced(head: &[u8]) -> Result<(usize, usize), ImageError> {
        let header = head.first_chunk::<HEADER>().ok_or(ImageError::Length)?;
        if header[..4] != MAGIC || header[4..6] != FORMAT.to_le_bytes() {
            return Err(ImageError::Format);
        }
        Ok((read_u32(header, 40) as usize, read_u32(header, 52) as usize))
    }

    /// Checks the header and the tables of an image of so many bytes. After this every view of them is infallible, and
    /// within them and the text.
    pub(crate) fn decode(
        bytes: impl Into<Bytes>,
        length: u64,
        environment: &Key,
    ) -> Result<Self, ImageError> {
        let tables = Self::decode_any(bytes, length)?;
        let same = tables.bytes[8..40] == *environment.as_bytes();
        if same { Ok(tables) } else { Err(ImageError::Environment) }
    }

    /// As [`decode`](Self::decode) for whichever environment it is of.
    pub(crate) fn decode_any(bytes: impl Into<Bytes>, length: u64) -> Result<Self, ImageError> {
        let bytes = bytes.into();
        let text_at = Self::announced_length(&bytes)?;
        let zeros = bytes[7] == 0 && bytes[72..HEADER].iter().all(|byte| *byte == 0);
        if bytes[6] != LOG2_PAGE || !zeros {
            return Err(ImageError::Format);
        }
        let text_length = read_u32(&bytes, 44) as usize;
        let pages = [text_at, text_length].iter().all(|n| n.is_multiple_of(PAGE) && *n > 0);
        if !pages || bytes.len() != text_at || length != (text_at + text_length) as u64 {
            return Err(ImageError::Length);
        }
        let mut end = HEADER;
        let mut section = |at: usize, size: usize| {
            let begin = end;
            // At most 2^32 · 28 each: far below what a usize holds.
            end += read_u32(&bytes, at) as usize * size;
            begin..end
        };
        let functions = section(48, FUNCTION);
        let slots = section(52, SLOT);
        let symbols = section(56, SYMBOL);
        let traps = section(60, TRAP);
        let strings = section(64, 1);
        let group = section(68, 1);
        if end > text_at {
            return Err(ImageError::Length);
        }
        let tables =
            Tables { text_length, functions, slots, symbols, traps, strings, group, bytes };
        if tables.is_sane() { Ok(tables) } else { Err(ImageError::Table) }
    }

    fn is_sane(&self) -> bool {
        let strings = self.strings.len() as u64;
        let text = |at: u32, length: u32| {
            u64::from(at) + u64::from(length) <= self.text_length as u64 && length > 0
        };
        let string = |at: u32, length: u32| u64::from(at) + u64::from(length) <= strings;
        // Nearly always all of them are, and then they are looked at together.
        let is_ascii = self.bytes[self.strings.clone()].is_ascii();
        let utf8 = |at: u32, length: u32| {
            string(at, length) && (is_ascii || std::str::from_utf8(self.string(at, length)).is_ok())
        };
        let functions = self.bytes[self.functions.clone()].as_chunks::<FUNCTION>().0;
        let symbols = self.bytes[self.symbols.clone()].as_chunks::<SYMBOL>().0;
        let slots = self.bytes[self.slots.clone()].as_chunks::<SLOT>().0;
        let word = |bytes: &[u8], n: usize| read_u32(bytes, 4 * n);
        functions.iter().all(|f| {
            text(word(f, 0), word(f, 1))
                && utf8(word(f, 3), word(f, 4))
                && string(word(f, 5), word(f, 6))
        }) && symbols.iter().all(|s| utf8(word(s, 0), word(s, 1)))
            && slots.iter().all(|slot| match read_slot(slot) {
                Some(Slot::Own(at)) => (at as usize) < self.text_length,
                known => known.is_some(),
            })
    }

    /// Header and tables, as they are in the image.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The length of the text, in bytes: whole pages.
    #[cfg(any(feature = "cli", feature = "fuzzing", test))]
    pub(crate) fn text_length(&self) -> usize {
        self.text_length
    }

    /// How many functions there are.
    pub(crate) fn len(&self) -> usize {
        self.functions.len() / FUNCTION
    }

    /// The functions, in the order of their names.
    pub(crate) fn functions(&self) -> impl ExactSizeIterator<Item = Placed<'_>> {
        (0..self.len()).map(|n| self.function(n))
    }

    /// What the functions are numbered, and where they begin, in the order of their names.
    pub(crate) fn places(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        let functions = self.bytes[self.functions.clone()].as_chunks::<FUNCTION>().0;
        functions.iter().map(|function| (read_u32(function, 8), read_u32(function, 0)))
    }

    /// The function of this place in the order of names.
    pub(crate) fn function(&self, n: usize) -> Placed<'_> {
        let bytes = &self.bytes[self.functions.clone()][n * FUNCTION..][..FUNCTION];
        let word = |n: usize| read_u32(bytes, 4 * n);
        Placed {
            offset: word(0),
            length: word(1),
            number: word(2),
            name: self.text_of(word(3), word(4)),
            detail: self.string(word(5), word(6)),
        }
    }

    /// Which of the functions has this name, if one does.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.function(middle).name.cmp(name) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        None
    }

    /// What the slots hold.
    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = Slot> {
        let slots = self.bytes[self.slots.clone()].as_chunks::<SLOT>().0;
        slots.iter().map(|slot| read_slot(slot).expect("checked when it was decoded"))
    }

    /// The name of a symbol, if there are so many.
    pub(crate) fn symbol(&self, n: u32) -> Option<&str> {
        let symbols = self.bytes[self.symbols.clone()].as_chunks::<SYMBOL>().0;
        let symbol = symbols.get(n as usize)?;
        Some(self.text_of(read_u32(symbol, 0), read_u32(symbol, 4)))
    }

    /// The trap at exactly this place in the text.
    pub(crate) fn trap(&self, offset: u32) -> Option<TrapCode> {
        artifact::find_trap(&self.bytes[self.traps.clone()], offset)
    }

    /// The function that this place in the text is in.
    pub(crate) fn function_at(&self, offset: u32) -> Option<Placed<'_>> {
        self.functions().find(|f| (f.offset..f.offset + f.length).contains(&offset))
    }

    /// What the image's maker remembers of the whole.
    pub(crate) fn group(&self) -> &[u8] {
        &self.bytes[self.group.clone()]
    }

    fn string(&self, at: u32, length: u32) -> &[u8] {
        &self.bytes[self.strings.clone()][at as usize..][..length as usize]
    }

    fn text_of(&self, at: u32, length: u32) -> &str {
        std::str::from_utf8(self.string(at, length)).expect("checked when it was decoded")
    }
}

/// An image for people to read; none if the bytes are not one.
pub(crate) fn listing(payload: &[u8]) -> Option<String> {
    let text_at = Tables::announced_length(payload).ok()?;
    let tables = Tables::decode_any(payload.get(..text_at)?.to_vec(), payload.len() as u64).ok()?;
    let text = &payload[text_at..];
    let mut out = String::new();
    for (n, slot) in tables.slots().enumerate() {
        let what = match slot {
            Slot::Symbol(number) => {
                tables.symbol(number).map_or_else(|| format!("declaration {number}"), str::to_owned)
            }
            Slot::Libcall(libcall) => libcall.to_string(),
            Slot::Own(offset) => format!("text+{offset:#x}"),
        };
        let _ = writeln!(out, "slot {n} at text+{:#x}: {what}", tables.text_length + 8 * n);
    }
    let mut functions: Vec<_> = tables.functions().collect();
    functions.sort_by_key(|function| function.offset);
    for Placed { offset, length, name, number, .. } in functions {
        let name = if name.is_empty() { format!("anonymous {number}") } else { name.to_owned() };
        let code = &text[offset as usize..][..length as usize];
        let _ = writeln!(out, "{name}, at text+{offset:#x}:\n{}", lines(code, &BTreeMap::new()));
    }
    Some(out)
}

fn write_slot(slot: Slot) -> Option<[u8; SLOT]> {
    let (kind, number) = match slot {
        Slot::Symbol(number) => (1, number),
        Slot::Libcall(libcall) => (2, artifact::libcall_number(libcall)?),
        Slot::Own(offset) => (3, offset),
    };
    let mut bytes = [kind, 0, 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Some(bytes)
}

fn read_slot(bytes: &[u8; SLOT]) -> Option<Slot> {
    let number = read_u32(bytes, 4);
    match bytes[..4] {
        [1, 0, 0, 0] => Some(Slot::Symbol(number)),
        [2, 0, 0, 0] => artifact::libcall_of(number).map(Slot::Libcall),
        [3, 0, 0, 0] => Some(Slot::Own(number)),
        _ => None,
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
