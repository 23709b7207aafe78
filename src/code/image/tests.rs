//! The format: what is built reads back, and nothing that is read leads out of it.

use proptest::prelude::*;

use super::build::{Piece, Reference, Target, build};
use super::*;
use crate::code::artifact::RelocationKind::{Abs8, X86CallPcRel4, X86GotPcRel4};

const ENVIRONMENT: Key = Key::from_bytes([7; 32]);

fn piece<'a>(name: &'a str, code: &'a [u8], references: Vec<Reference>) -> Piece<'a> {
    let detail = name.as_bytes().to_vec();
    Piece { name, number: 3, detail, code, align: 32, references, traps: &[2, 0, 0, 0, 9] }
}

fn reference(offset: u32, kind: artifact::RelocationKind, target: Target) -> Reference {
    Reference { offset, kind, target, addend: -4 }
}

fn example() -> Vec<u8> {
    let pieces = [
        piece(
            "zeta",
            &[0x90; 40],
            vec![
                reference(4, X86CallPcRel4, Target::Piece(1, 0)),
                reference(10, X86CallPcRel4, Target::Symbol(1)),
                reference(16, X86GotPcRel4, Target::Symbol(1)),
                reference(22, X86GotPcRel4, Target::Piece(1, 8)),
                reference(28, X86CallPcRel4, Target::Libcall(LibCall::FmaF64)),
            ],
        ),
        piece("alpha", &[0x91; 16], vec![reference(0, X86GotPcRel4, Target::Symbol(0))]),
    ];
    build(&ENVIRONMENT, &pieces, &["one", "two"], b"group").unwrap()
}

fn tables(payload: &[u8]) -> Result<Tables, ImageError> {
    let length = Tables::announced_length(payload)?;
    let bytes = payload.get(..length).ok_or(ImageError::Length)?;
    Tables::decode(bytes.to_vec(), payload.len() as u64, &ENVIRONMENT)
}

/// Mutants seen: functions in the order of pieces; the slots a page off; one slot, or one stub, for all.
#[test]
fn what_is_built_reads_back() {
    let payload = example();
    let tables = tables(&payload).unwrap();
    assert_eq!((payload.len(), tables.bytes().len(), tables.text_length()), (8192, 4096, 4096));
    assert_eq!((tables.len(), tables.group()), (2, &b"group"[..]));
    assert_eq!((tables.find("alpha"), tables.find("zeta")), (Some(0), Some(1)));
    assert_eq!((tables.find(""), tables.find("beta"), tables.find("zz")), (None, None, None));
    let alpha = tables.function(0);
    assert_eq!(
        (alpha.offset, alpha.length, alpha.number, alpha.detail),
        (64, 16, 3, &b"alpha"[..])
    );
    let slots: Vec<_> = tables.slots().collect();
    let fma = Slot::Libcall(LibCall::FmaF64);
    assert_eq!(slots, [Slot::Symbol(1), Slot::Own(72), fma, Slot::Symbol(0)]);
    assert_eq!(
        (tables.symbol(0), tables.symbol(1), tables.symbol(2)),
        (Some("one"), Some("two"), None)
    );
    assert_eq!(tables.trap(2).map(|code| code.as_raw().get()), Some(9));
    assert_eq!(tables.trap(66).map(|code| code.as_raw().get()), Some(9));
    assert_eq!(tables.trap(3), None);
    assert_eq!(tables.function_at(66).unwrap().name, "alpha");
    assert!(tables.function_at(40).is_none());

    let text = &payload[4096..];
    let field = |at: usize| i32::from_le_bytes(text[at..at + 4].try_into().unwrap());
    let slot = |n: i32| 4096 + 8 * n;
    // Displacements count from behind their fields, which are four bytes long.
    assert_eq!(field(4) + 8, 64);
    assert_eq!(field(10) + 14, 80, "the first stub");
    assert_eq!(field(16) + 20, slot(0));
    assert_eq!(field(22) + 26, slot(1));
    assert_eq!(field(28) + 32, 88, "the second stub");
    assert_eq!(field(64) + 68, slot(3));
    assert_eq!((text[80], text[81], field(82) + 86), (0xFF, 0x25, slot(0)));
    assert_eq!((text[88], text[89], field(90) + 94), (0xFF, 0x25, slot(2)));
    assert!(text[96..].iter().all(|byte| *byte == 0xCC));
    assert!(listing(&payload).unwrap().contains("alpha, at text+0x40"));
    assert_eq!(listing(&payload[..5000]), None);
}

#[test]
fn code_that_depends_on_its_position_is_refused() {
    let absolute = [piece("f", &[0; 16], vec![reference(0, Abs8, Target::Symbol(0))])];
    assert!(build(&ENVIRONMENT, &absolute, &[], &[]).unwrap_err().contains("Abs8"));
    let outside = [piece("f", &[0; 3], vec![reference(0, X86GotPcRel4, Target::Symbol(0))])];
    assert!(build(&ENVIRONMENT, &outside, &[], &[]).is_err());
}

/// An image without functions is one; the smallest there is.
#[test]
fn nothing_is_an_image_too() {
    let payload = build(&ENVIRONMENT, &[], &[], &[]).unwrap();
    let tables = tables(&payload).unwrap();
    assert_eq!((payload.len(), tables.len(), tables.slots().len()), (8192, 0, 0));
}

/// Each check by itself. Mutants seen: any of them taken out.
#[test]
fn nonsense_is_refused() {
    let good = example();
    let with = |at: usize, bytes: &[u8]| {
        let mut payload = good.clone();
        payload[at..at + bytes.len()].copy_from_slice(bytes);
        tables(&payload).err()
    };
    assert_eq!(with(0, b"CLI"), None);
    for (at, byte) in [(0, b'X'), (3, 2), (4, 2), (6, 13), (7, 1), (72, 1), (79, 1)] {
        assert_eq!(with(at, &[byte]), Some(ImageError::Format), "{at}");
    }
    for at in 8..40 {
        assert_eq!(with(at, &[0]), Some(ImageError::Environment), "{at}");
    }
    let word = u32::to_le_bytes;
    for n in [0, 1, 4095, 12_288, u32::MAX] {
        assert_eq!(with(44, &word(n)), Some(ImageError::Length), "text of {n}");
    }
    let mut shifted = good.clone();
    shifted[40..48].copy_from_slice(&[word(4096 + 64), word(4096 - 64)].concat());
    assert_eq!(tables(&shifted).err(), Some(ImageError::Length), "no whole pages");
    for at in (48..72).step_by(4) {
        assert_eq!(with(at, &word(u32::MAX)), Some(ImageError::Length), "{at}");
    }
    for length in (0..HEADER).chain([4095, 4096, 8191]) {
        assert!(tables(&good[..length]).is_err(), "{length}");
    }
    let refused = Some(ImageError::Table);
    let (first, slots) = (HEADER, HEADER + 2 * FUNCTION);
    let symbols = slots + 4 * SLOT;
    // Offset and length of a function, its name, its detail.
    assert_eq!(with(first, &word(4096 - 15)), refused);
    assert_eq!(with(first, &word(u32::MAX)), refused);
    assert_eq!(with(first + 4, &word(0)), refused);
    assert_eq!(with(first + 12, &word(1000)), refused);
    assert_eq!(with(first + 16, &word(u32::MAX)), refused);
    assert_eq!(with(first + 24, &word(1000)), refused);
    assert_eq!(with(slots, &[4]), refused);
    assert_eq!(with(slots, &[2]), None, "the first library routine");
    assert_eq!(with(slots + 4, &word(u32::MAX)), None, "symbols are looked up");
    assert_eq!(with(slots + 8 + 4, &word(4096)), refused);
    assert_eq!(with(slots + 16 + 4, &word(999)), refused);
    assert_eq!(with(symbols + 4, &word(1000)), refused);
    let strings = symbols + 2 * SYMBOL + 2 * TRAP;
    assert_eq!(with(strings, &[0xFF]), refused, "names are text");
}

proptest! {
    /// Any bytes in the tables: refused, or every view stays within.
    #[test]
    fn changed_tables_do_no_harm(
        noise in prop::collection::vec((0_usize..300, any::<u8>()), 1..6),
    ) {
        let mut payload = example();
        for (at, byte) in noise {
            payload[at] = byte;
        }
        let length = match Tables::announced_length(&payload) {
            Ok(length) if length <= payload.len() => length,
            _ => return Ok(()),
        };
        let tables = Tables::decode_any(payload[..length].to_vec(), payload.len() as u64);
        if let Ok(tables) = tables {
            for function in tables.functions() {
                prop_assert!((function.offset + function.length) as usize <= tables.text_length());
                tables.find(function.name);
            }
            tables.slots().for_each(drop);
            for n in 0..200 {
                let _ = (tables.symbol(n), tables.trap(n), tables.function_at(n));
            }
            drop(listing(&payload));
        }
    }
}
