//! Filling in relocations, and the stubs behind those that cannot reach their target.
//!
//! ```text
//!   stub, 16 bytes:   jmp *2(%rip) | int3 int3 | target's address, 8 bytes
//!                     ▲                          ▲
//!    near calls that would reach too far         what position-independent code reads addresses from
//! ```
//!
//! Everything here is arithmetic over byte slices: a field out of the code, or a distance that its field
//! cannot hold, is an error value.

use super::artifact::{Relocation, RelocationKind};

/// The size and alignment of a stub.
pub(crate) const STUB: usize = 16;
/// Where in a stub the target's address lies.
const SLOT: u64 = 8;

/// Fills the space between functions: running into it traps.
pub(crate) const PADDING: u8 = 0xCC;

/// Whether a relocation needs a stub for its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Never.
    None,
    /// If the target is too far away.
    IfFar,
    /// Always: it reads the address there.
    Always,
}

/// Whether a relocation of this kind needs a stub.
pub(crate) fn need(kind: RelocationKind) -> Need {
    match kind {
        RelocationKind::Abs4 | RelocationKind::Abs8 => Need::None,
        RelocationKind::X86PcRel4
        | RelocationKind::X86CallPcRel4
        | RelocationKind::X86CallPltRel4 => Need::IfFar,
        RelocationKind::X86GotPcRel4 => Need::Always,
    }
}

/// Writes the stub for `target` into its place.
pub(crate) fn write_stub(stub: &mut [u8; STUB], target: u64) {
    stub[..8].copy_from_slice(&[0xFF, 0x25, 2, 0, 0, 0, PADDING, PADDING]);
    stub[8..].copy_from_slice(&target.to_le_bytes());
}

/// Why a relocation cannot be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    #[error("the field lies outside of the code")]
    OutOfBounds,
    #[error("the target is too far away for the field")]
    TooFar,
}

/// Fills in `relocation` in `code`, which lies at the address `base`, for a target at `target` that has a
/// stub at `stub`, if it has one.
pub(crate) fn patch(
    code: &mut [u8],
    base: u64,
    relocation: &Relocation,
    target: u64,
    stub: Option<u64>,
) -> Result<(), PatchError> {
    let at = relocation.offset as usize;
    let width = relocation.kind.width();
    let field = at
        .checked_add(width)
        .and_then(|end| code.get_mut(at..end))
        .ok_or(PatchError::OutOfBounds)?;
    let place = base.wrapping_add(at as u64);
    let absolute = |to: u64| to.wrapping_add_signed(relocation.addend);
    let distance = |to: u64| i32::try_from(absolute(to).wrapping_sub(place).cast_signed());
    match relocation.kind {
        RelocationKind::Abs8 => field.copy_from_slice(&absolute(target).to_le_bytes()),
        RelocationKind::Abs4 => {
            let address = u32::try_from(absolute(target)).map_err(|_| PatchError::TooFar)?;
            field.copy_from_slice(&address.to_le_bytes());
        }
        RelocationKind::X86PcRel4
        | RelocationKind::X86CallPcRel4
        | RelocationKind::X86CallPltRel4 => {
            let distance =
                distance(target).ok().or_else(|| distance(stub?).ok()).ok_or(PatchError::TooFar)?;
            field.copy_from_slice(&distance.to_le_bytes());
        }
        RelocationKind::X86GotPcRel4 => {
            let slot = stub.ok_or(PatchError::TooFar)?.wrapping_add(SLOT);
            let distance = distance(slot).map_err(|_| PatchError::TooFar)?;
            field.copy_from_slice(&distance.to_le_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::artifact::RelocationTarget;
    use super::*;

    const CALL: RelocationKind = RelocationKind::X86CallPcRel4;

    fn relocation(offset: u32, kind: RelocationKind, addend: i64) -> Relocation {
        Relocation { offset, kind, target: RelocationTarget::Function(0), addend }
    }

    /// Mutants: the check of the field's end left out (a panic); the distance measured from the code's
    /// beginning; the stub preferred when the target is near.
    #[test]
    fn distances_count_from_the_field() {
        let mut code = [0; 12];
        patch(&mut code, 0x1000, &relocation(8, CALL, -4), 0x2000, Some(0x9000)).unwrap();
        assert_eq!(i32::from_le_bytes(code[8..].try_into().unwrap()), 0x2000 - 0x1008 - 4);
        patch(&mut code, 0x9000, &relocation(0, CALL, -4), 0x2000, None).unwrap();
        assert_eq!(i32::from_le_bytes(code[..4].try_into().unwrap()), 0x2000 - 0x9000 - 4);
        patch(&mut code, 0, &relocation(4, RelocationKind::Abs8, 3), u64::MAX - 9, None).unwrap();
        assert_eq!(u64::from_le_bytes(code[4..].try_into().unwrap()), u64::MAX - 6);
    }

    #[test]
    fn far_targets_go_through_the_stub_or_fail() {
        let far = 0x7000_0000_0000;
        let mut code = [0; 8];
        let patched = patch(&mut code, 0x1000, &relocation(4, CALL, -4), far, None);
        assert_eq!(patched, Err(PatchError::TooFar));
        patch(&mut code, 0x1000, &relocation(4, CALL, -4), far, Some(0x3000)).unwrap();
        assert_eq!(i32::from_le_bytes(code[4..].try_into().unwrap()), 0x3000 - 0x1004 - 4);
        let got = relocation(4, RelocationKind::X86GotPcRel4, -4);
        assert_eq!(patch(&mut code, 0x1000, &got, 0x1000, None), Err(PatchError::TooFar));
        patch(&mut code, 0x1000, &got, far, Some(0x3000)).unwrap();
        assert_eq!(i32::from_le_bytes(code[4..].try_into().unwrap()), 0x3008 - 0x1004 - 4);
        let abs4 = relocation(4, RelocationKind::Abs4, 0);
        assert_eq!(patch(&mut code, 0, &abs4, far, None), Err(PatchError::TooFar));
        patch(&mut code, 0, &abs4, 0xFFFF_FFFF, None).unwrap();
    }

    #[test]
    fn fields_outside_of_the_code_are_refused() {
        let kinds =
            [CALL, RelocationKind::Abs8, RelocationKind::Abs4, RelocationKind::X86GotPcRel4];
        for kind in kinds {
            for (length, offset) in [(0, 0), (3, 0), (8, 5), (16, u32::MAX), (16, 13)] {
                let mut code = vec![0; length];
                let patched = patch(&mut code, 0, &relocation(offset, kind, 0), 0, Some(0));
                assert_eq!(patched, Err(PatchError::OutOfBounds), "{kind:?} {length} {offset}");
            }
        }
    }

    /// The edges of what 32 bits hold, both ways. Mutant: `as i32`.
    #[test]
    fn reach_ends_exactly_at_two_gibibytes() {
        let mut code = [0; 4];
        let base = 1 << 40;
        for (target, fits) in [
            (base + i32::MAX as u64, true),
            (base + i32::MAX as u64 + 1, false),
            (base - (1 << 31), true),
            (base - (1 << 31) - 1, false),
        ] {
            let patched = patch(&mut code, base, &relocation(0, CALL, 0), target, None);
            assert_eq!(patched.is_ok(), fits, "{target:x}");
        }
    }

    #[test]
    fn a_stub_jumps_to_the_address_in_its_slot() {
        let mut stub = [0; STUB];
        write_stub(&mut stub, 0x0102_0304_0506_0708);
        assert_eq!(stub[..6], [0xFF, 0x25, 2, 0, 0, 0]);
        assert_eq!(stub[SLOT as usize..], [8, 7, 6, 5, 4, 3, 2, 1]);
    }
}
