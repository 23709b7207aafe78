//! A function's machine code as it comes out of a record.

use super::input::{Input, bend};
use crate::code::artifact::{Artifact, ArtifactError, find_trap};
use crate::code::patch::{self, STUB};
use crate::key::Key;

/// An artifact is decoded and its relocations filled in whatever it says: it is refused, or all that it says lies
/// within its code.
///
/// The input is `mode, edits, sections...`. Mode 0 decodes the input itself; otherwise the lengths of the sections are
/// made to fit, and what was made of the input is bent.
pub fn artifact(input: &[u8]) {
    let mut input = Input::new(input);
    let (mode, edits) = (input.byte(), input.byte());
    let bytes =
        if mode == 0 { input.bytes(1 << 16).to_vec() } else { sections(mode, edits, &mut input) };
    let environment = Key::from_bytes([9; 32]);
    let decoded = match Artifact::decode(&bytes, &environment) {
        Err(ArtifactError::Environment) => Artifact::decode_any(&bytes),
        decoded => decoded,
    };
    let Ok(artifact) = decoded else { return };
    let end = artifact.code.len();
    assert!(artifact.align.is_power_of_two() && artifact.align <= 4096);
    let mut code = artifact.code.to_vec();
    let base = input.u64();
    for relocation in artifact.relocations() {
        let _ = patch::need(relocation.kind);
        let stub = (mode & 2 != 0).then(|| base.wrapping_add(end.next_multiple_of(STUB) as u64));
        // Too far is an answer; out of bounds was seen to before.
        let patched = patch::patch(&mut code, base, &relocation, input.u64(), stub);
        assert_ne!(patched, Err(patch::PatchError::OutOfBounds));
    }
    for trap in artifact.traps() {
        assert!(trap.offset as usize <= end);
        assert!(find_trap(artifact.trap_table(), trap.offset).is_some(), "a trap is not found");
    }
    let handlers: usize = artifact.call_sites().map(|site| site.handlers as usize).sum();
    assert_eq!(handlers, artifact.handlers().count());
    assert!(artifact.call_sites().all(|site| site.return_address as usize <= end));
    assert!(artifact.unwind().all(|step| step.offset as usize <= end));
}

/// An artifact with sections of such lengths as the input says, of its bytes.
fn sections(mode: u8, edits: u8, input: &mut Input<'_>) -> Vec<u8> {
    /// As in the module of the artifact.
    const SIZES: [usize; 6] = [1, 20, 5, 12, 9, 14];
    let few = |shift: u8, bits: u8| usize::from(edits >> shift & bits);
    let code = 8 * usize::from(mode >> 2);
    let counts = [code, few(0, 7), few(3, 3), few(5, 1), few(6, 1), few(7, 1)];
    let mut bytes = vec![0; 80];
    bytes[..8].copy_from_slice(b"CLA\x01\x01\0\x04\0");
    bytes[8..40].fill(9);
    for (n, (count, size)) in counts.into_iter().zip(SIZES).enumerate() {
        bytes[40 + 4 * n..44 + 4 * n].copy_from_slice(&(count as u32).to_le_bytes());
        for _ in 0..count {
            let mut item = input.bytes(size).to_vec();
            item.resize(size, 0);
            // Places are brought near the code, as else nothing of it would lie within.
            if n > 0 && n != 4 {
                item[1..4].fill(0);
            }
            if n == 1 {
                (item[4], item[5], item[6], item[7]) = (1 + item[4] % 6, item[5] % 5, 0, 0);
                item[10..12].fill(0);
            }
            bytes.extend_from_slice(&item);
        }
    }
    for _ in 0..4 {
        if mode & 1 == 0 || input.is_empty() {
            break;
        }
        let other = bytes.clone();
        bend(&mut bytes, &other, 1 << 16, input);
    }
    bytes
}
