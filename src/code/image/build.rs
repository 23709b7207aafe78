//! From relocatable functions to an image.
//!
//! ```text
//!   pieces ──► offsets ──► slots and stubs that they need ──► how long the text is ──► displacements
//! ```

use std::collections::HashMap;
use std::hash::Hash;

use cranelift_codegen::ir::LibCall;

use super::{FUNCTION, HEADER, LOG2_PAGE, MAGIC, PAGE, SLOT, Slot, write_slot};
use crate::code::artifact::{Relocation, RelocationKind, RelocationTarget};
use crate::code::image::FORMAT;
use crate::code::patch::{self, Need, PADDING};
use crate::key::Key;

/// The size and alignment of a stub.
const STUB: usize = 8;

/// A function to be put into an image.
#[derive(Clone, Debug)]
pub(crate) struct Piece<'a> {
    /// Empty if it has none.
    pub(crate) name: &'a str,
    /// What its maker numbers it.
    pub(crate) number: u32,
    /// What its maker remembers of it.
    pub(crate) detail: Vec<u8>,
    pub(crate) code: &'a [u8],
    pub(crate) align: usize,
    pub(crate) references: Vec<Reference>,
    /// Its table of traps, as artifacts have it.
    pub(crate) traps: &'a [u8],
}

/// A place in a function's code that depends on where something lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    pub(crate) offset: u32,
    pub(crate) kind: RelocationKind,
    pub(crate) target: Target,
    pub(crate) addend: i64,
}

/// What a place in the code refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// So far into one of the pieces.
    Piece(usize, u32),
    /// Something outside, by its number.
    Symbol(u32),
    /// A library routine.
    Libcall(LibCall),
}

/// The image of these functions. Fails, with a reason for people, if their code is not independent of its position, or too
/// long.
pub(crate) fn build(
    environment: &Key,
    pieces: &[Piece<'_>],
    symbols: &[&str],
    group: &[u8],
) -> Result<Vec<u8>, String> {
    let mut layout = Layout::of(pieces)?;
    let mut tables = Strings::default();
    let mut by_name: Vec<usize> = (0..pieces.len()).collect();
    by_name.sort_by_key(|n| (pieces[*n].name, *n));
    let mut functions = Vec::with_capacity(pieces.len() * FUNCTION);
    for n in by_name {
        let piece = &pieces[n];
        let (name, detail) = (tables.add(piece.name.as_bytes()), tables.add(&piece.detail));
        let offset = layout.offsets[n] as u32;
        let entry =
            [offset, piece.code.len() as u32, piece.number, name.0, name.1, detail.0, detail.1];
        functions.extend(entry.iter().flat_map(|word| word.to_le_bytes()));
    }
    let symbols: Vec<_> = symbols.iter().map(|symbol| tables.add(symbol.as_bytes())).collect();
    let mut traps = Vec::new();
    for (piece, offset) in pieces.iter().zip(&layout.offsets) {
        for trap in piece.traps.as_chunks::<{ super::TRAP }>().0 {
            let at = super::read_u32(trap, 0) + *offset as u32;
            traps.extend_from_slice(&at.to_le_bytes());
            traps.push(trap[4]);
        }
    }

    let mut out = vec![0; HEADER];
    out.extend_from_slice(&functions);
    for slot in &layout.slots.all {
        let slot = write_slot(*slot).ok_or("a library routine without a number")?;
        out.extend_from_slice(&slot);
    }
    for (at, length) in &symbols {
        out.extend_from_slice(&at.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&traps);
    out.extend_from_slice(&tables.0);
    out.extend_from_slice(group);
    let text_at = out.len().next_multiple_of(PAGE);
    out.resize(text_at, 0);
    out.resize(text_at + layout.text_length, PADDING);
    layout.fill(pieces, &mut out[text_at..])?;

    out[0..4].copy_from_slice(&MAGIC);
    out[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    out[6] = LOG2_PAGE;
    out[8..40].copy_from_slice(environment.as_bytes());
    let numbers = [
        text_at,
        layout.text_length,
        pieces.len(),
        layout.slots.all.len(),
        symbols.len(),
        traps.len() / super::TRAP,
        tables.0.len(),
        group.len(),
    ];
    for (n, number) in numbers.into_iter().enumerate() {
        let number = u32::try_from(number).map_err(|_| "more than 4 GiB".to_owned())?;
        out[40 + 4 * n..44 + 4 * n].copy_from_slice(&number.to_le_bytes());
    }
    Ok(out)
}

/// Bytes that tables refer to.
#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, bytes: &[u8]) -> (u32, u32) {
        let at = self.0.len() as u32;
        self.0.extend_from_slice(bytes);
        (at, bytes.len() as u32)
    }
}

/// Things with numbers, in the order in which they were first asked for.
struct Numbered<T> {
    all: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T: Copy + Eq + Hash> Numbered<T> {
    fn new() -> Self {
        Numbered { all: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, thing: T) -> usize {
        *self.numbers.entry(thing).or_insert_with(|| {
            self.all.push(thing);
            self.all.len() - 1
        })
    }
}

/// Where everything goes in the text and behind it.
struct Layout {
    /// Of each piece.
    offsets: Vec<usize>,
    slots: Numbered<Slot>,
    /// By the slots that they jump to.
    stubs: Numbered<usize>,
    stubs_at: usize,
    text_length: usize,
}

impl Layout {
    fn of(pieces: &[Piece<'_>]) -> Result<Self, String> {
        let mut offsets = Vec::with_capacity(pieces.len());
        let mut end = 0_usize;
        for piece in pieces {
            let begin = end.next_multiple_of(piece.align.clamp(1, PAGE));
            offsets.push(begin);
            end = begin + piece.code.len();
        }
        let stubs_at = end.next_multiple_of(STUB);
        let (slots, stubs) = (Numbered::new(), Numbered::new());
        let mut layout = Layout { offsets, slots, stubs, stubs_at, text_length: 0 };
        for piece in pieces {
            for reference in &piece.references {
                match patch::need(reference.kind) {
                    Need::None => {
                        let kind = reference.kind;
                        return Err(format!("{kind:?} depends on the code's position"));
                    }
                    Need::Always => {
                        layout.slot(reference.target);
                    }
                    Need::IfFar => {
                        if !matches!(reference.target, Target::Piece(..)) {
                            let slot = layout.slot(reference.target);
                            layout.stubs.number(slot);
                        }
                    }
                }
            }
        }
        let text = stubs_at + STUB * layout.stubs.all.len();
        layout.text_length = text.max(1).next_multiple_of(PAGE);
        let length = layout.text_length + SLOT * layout.slots.all.len();
        // Then every distance within fits.
        if length > i32::MAX as usize {
            return Err(format!("{length} bytes of code in one image"));
        }
        Ok(layout)
    }

    fn slot(&mut self, target: Target) -> usize {
        self.slots.number(match target {
            Target::Piece(piece, offset) => Slot::Own(self.offsets[piece] as u32 + offset),
            Target::Symbol(number) => Slot::Symbol(number),
            Target::Libcall(libcall) => Slot::Libcall(libcall),
        })
    }

    /// How far behind the text's beginning a slot lies.
    fn slot_at(&self, slot: usize) -> u64 {
        (self.text_length + SLOT * slot) as u64
    }

    fn fill(&mut self, pieces: &[Piece<'_>], text: &mut [u8]) -> Result<(), String> {
        for (n, piece) in pieces.iter().enumerate() {
            let start = self.offsets[n];
            let code = &mut text[start..start + piece.code.len()];
            code.copy_from_slice(piece.code);
            for reference in &piece.references {
                let Reference { offset, kind, target, addend } = *reference;
                let (near, slot) = match (target, patch::need(kind)) {
                    (Target::Piece(piece, offset), Need::IfFar) => {
                        (self.offsets[piece] as u64 + u64::from(offset), None)
                    }
                    (_, Need::IfFar) => {
                        let slot = self.slot(target);
                        let stub = self.stubs.number(slot);
                        ((self.stubs_at + STUB * stub) as u64, None)
                    }
                    _ => (0, Some(self.slot(target))),
                };
                // Where `patch` takes a stub, its address stands behind 8 bytes of code.
                let slot = slot.map(|slot| self.slot_at(slot) - 8);
                let own = RelocationTarget::Own(0);
                let relocation = Relocation { offset, kind, target: own, addend };
                patch::patch(code, start as u64, &relocation, near, slot)
                    .map_err(|error| error.to_string())?;
            }
        }
        for (n, slot) in self.stubs.all.iter().enumerate() {
            let at = self.stubs_at + STUB * n;
            let distance = self.slot_at(*slot) - (at as u64 + 6);
            let distance = i32::try_from(distance).map_err(|error| error.to_string())?;
            text[at..at + 2].copy_from_slice(&[0xFF, 0x25]);
            text[at + 2..at + 6].copy_from_slice(&distance.to_le_bytes());
        }
        Ok(())
    }
}
