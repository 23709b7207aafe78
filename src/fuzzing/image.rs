//! An image as its file has it: what a process reads before it maps the rest.

use super::input::{Input, bend};
use crate::code::artifact::RelocationKind;
use crate::code::image::build::{Piece, Reference, Target, build};
use crate::code::image::{ImageError, Slot, Tables, listing};
use crate::key::Key;

const ENVIRONMENT: Key = Key::from_bytes([9; 32]);
const LONGEST: usize = 1 << 16;

/// Whatever an image says, it is refused, or all that it says lies within its tables and its text.
///
/// The input is `mode, edits, ...`. Mode 0 takes the rest of the input, filled up to two pages; otherwise an image is
/// built of it, and bent so many times.
pub fn image(input: &[u8]) {
    let mut input = Input::new(input);
    let (mode, edits) = (input.byte(), input.byte());
    let mut payload = if mode == 0 {
        let mut bytes = input.bytes(LONGEST).to_vec();
        bytes.resize(bytes.len().max(1).next_multiple_of(8192), 0);
        bytes
    } else {
        match whole(mode, &mut input) {
            Ok(payload) => payload,
            // Code that does not fit its references.
            Err(_) => return,
        }
    };
    for _ in 0..edits % 5 {
        let other = payload.clone();
        bend(&mut payload, &other, LONGEST, &mut input);
    }
    let Ok(length) = Tables::announced_length(&payload) else { return };
    let Some(head) = payload.get(..length) else { return };
    let total = payload.len() as u64;
    let tables = match Tables::decode(head.to_vec(), total, &ENVIRONMENT) {
        Err(ImageError::Environment) => Tables::decode_any(head.to_vec(), total),
        decoded => decoded,
    };
    let Ok(tables) = tables else { return };
    let text = tables.text_length();
    assert_eq!((tables.bytes(), (length + text) as u64), (head, total));
    for function in tables.functions() {
        assert!(function.offset as usize + function.length as usize <= text);
        assert!(tables.function_at(function.offset).is_some());
        let found = tables.find(function.name).map(|n| tables.function(n).name);
        assert!(found.is_none_or(|name| name == function.name));
        let _ = tables.trap(function.offset + u32::from(mode));
    }
    for slot in tables.slots() {
        match slot {
            Slot::Own(offset) => assert!((offset as usize) < text),
            Slot::Symbol(number) => drop(tables.symbol(number).map(str::to_owned)),
            Slot::Libcall(_) => {}
        }
    }
    assert!(tables.group().len() <= length);
    let _ = crate::code::module::group_listing(tables.group());
    // People read it without anybody having verified it.
    assert!(listing(&payload).is_some());
}

/// An image of a few functions, with references as the input says.
fn whole(mode: u8, input: &mut Input<'_>) -> Result<Vec<u8>, String> {
    const NAMES: [&str; 4] = ["alpha", "beta", "", "zeta"];
    let count = 1 + usize::from(mode & 3);
    let codes: Vec<_> = (0..count).map(|_| [input.byte(); 24]).collect();
    let mut pieces = Vec::new();
    for (n, code) in codes.iter().enumerate() {
        let mut reference = |offset| {
            let (what, number) = (input.byte(), u32::from(input.byte()));
            let kind = match what & 1 {
                0 => RelocationKind::X86CallPcRel4,
                _ => RelocationKind::X86GotPcRel4,
            };
            let target = match what >> 1 & 1 {
                0 => Target::Piece(number as usize % count, number % 24),
                _ => Target::Symbol(number % 3),
            };
            Reference { offset, kind, target, addend: -4 }
        };
        let references = vec![reference(4), reference(12)];
        let traps = if mode & 4 == 0 { &[][..] } else { &[2, 0, 0, 0, 9] };
        let detail = input.bytes(3).to_vec();
        let number = n as u32;
        pieces.push(Piece { name: NAMES[n], number, detail, code, align: 16, references, traps });
    }
    let group = input.bytes(usize::from(mode >> 3)).to_vec();
    build(&ENVIRONMENT, &pieces, &["one", "two", "three"], &group)
}
