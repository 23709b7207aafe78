//! Machine code for people to read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

use super::artifact::{Artifact, RelocationTarget};

/// The code as assembly, with what is to be filled in and what traps where. Constants at its end are shown
/// as if they were code: nothing says where they begin. Code of other machines is shown as bytes.
pub(crate) fn disassembly(artifact: &Artifact<'_>) -> String {
    let mut remarks: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for relocation in artifact.relocations() {
        let target = match relocation.target {
            RelocationTarget::Function(n) => format!("function {n}"),
            RelocationTarget::Symbol(n) => format!("symbol {n}"),
            RelocationTarget::Libcall(libcall) => libcall.to_string(),
            RelocationTarget::Own(offset) => format!("{offset:x}"),
        };
        let remark = match relocation.addend {
            0 => format!("{:?} {target}", relocation.kind),
            addend => format!("{:?} {target} {addend:+}", relocation.kind),
        };
        remarks.entry(relocation.offset.into()).or_default().push(remark);
    }
    for trap in artifact.traps() {
        remarks.entry(trap.offset.into()).or_default().push(format!("trap {}", trap.code));
    }
    lines(artifact.code, &remarks)
}

/// As [`disassembly`], of code alone, with what is to be said of the instruction at an offset.
pub(crate) fn lines(code: &[u8], remarks: &BTreeMap<u64, Vec<String>>) -> String {
    let mut text = String::new();
    for (at, end, instruction) in instructions(code) {
        let bytes = &code[at as usize..end as usize];
        let bytes = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let _ = write!(text, "{at:6x}  {bytes:<22}  {instruction}");
        for remark in remarks.range(at..end).flat_map(|(_, remarks)| remarks) {
            let _ = write!(text, "  ; {remark}");
        }
        text.push('\n');
    }
    text
}

/// Where each instruction begins and ends, and how it is written.
fn instructions(code: &[u8]) -> Vec<(u64, u64, String)> {
    if !cfg!(target_arch = "x86_64") {
        let lines = code.chunks(4).zip((0..).step_by(4));
        return lines.map(|(bytes, at)| (at, at + bytes.len() as u64, String::new())).collect();
    }
    let mut formatter = IntelFormatter::new();
    let decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    decoder
        .into_iter()
        .map(|instruction| {
            let mut line = String::new();
            formatter.format(&instruction, &mut line);
            (instruction.ip(), instruction.next_ip(), line)
        })
        .collect()
}
