//! Host addresses that are written into a function: what makes it miss in every process anew.
//!
//! ```text
//!   v0 = iconst.i64 0x7f3a_1c00_2000        an address of this process: elsewhere another number,
//!   v1 = call_indirect sig0, v0(v2)         and so another function, and another key
//! ```
//!
//! That is no error: such a function is right in this process. But it is never found again, and nobody would
//! know why.

use std::cell::OnceCell;
use std::ops::Range;

use cranelift_codegen::ir::{Function, Inst, InstructionData, Opcode, Value, ValueDef};

use crate::store::Store;

/// Where the kernel maps what programs load and allocate, at places that differ from process to process. Other
/// numbers of this size are rare, and those are asked for.
const MAPPED: Range<u64> = 1 << 40..1 << 48;

/// How far an address is followed through additions.
const DEPTH: usize = 4;

/// Counts and logs that a function which is about to be compiled has a host address in it.
pub(super) fn report(store: &Store, name: &str, func: &Function) {
    let Some(address) = first_address(func) else { return };
    store.count_reason(
        "host-address",
        format_args!(
            "{name} has the address {address:#x} of this process written into it, so no other process can find it; \
             declare what lies there as an import, and give its address with JITBuilder::symbol"
        ),
    );
}

/// The first host address that the function calls, reads or writes at, or passes to a function.
pub(super) fn first_address(func: &Function) -> Option<u64> {
    let mappings = OnceCell::new();
    let blocks = func.layout.blocks();
    let mut insts = blocks.flat_map(|block| func.layout.block_insts(block));
    insts.find_map(|inst| address(func, inst, &mappings))
}

fn address(func: &Function, inst: Inst, mappings: &OnceCell<Vec<Range<u64>>>) -> Option<u64> {
    let data = &func.dfg.insts[inst];
    let arguments = data.arguments(&func.dfg.value_lists);
    let is_mapped = |address: &u64| {
        let mappings = mappings.get_or_init(read_mappings);
        mappings.iter().any(|mapping| mapping.contains(address))
    };
    let mapped = |value: &Value| {
        constant(func, *value, DEPTH).filter(|n| MAPPED.contains(n)).filter(is_mapped)
    };
    match data {
        InstructionData::CallIndirect { .. } | InstructionData::TryCallIndirect { .. } => {
            // Whatever is called is an address.
            let (callee, arguments) = arguments.split_first()?;
            let called = constant(func, *callee, DEPTH).filter(|n| *n != 0);
            called.or_else(|| arguments.iter().find_map(mapped))
        }
        InstructionData::Call { .. } | InstructionData::TryCall { .. } => {
            arguments.iter().find_map(mapped)
        }
        _ if data.opcode().can_load() || data.opcode().can_store() => {
            arguments.iter().find_map(mapped)
        }
        _ => None,
    }
}

/// The addresses that are mapped in this process; all where nobody tells.
fn read_mappings() -> Vec<Range<u64>> {
    let Ok(text) = std::fs::read_to_string("/proc/self/maps") else { return vec![MAPPED] };
    let parse = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    };
    text.lines().filter_map(parse).collect()
}

/// The constant that a value is, or that something is added to.
fn constant(func: &Function, value: Value, depth: usize) -> Option<u64> {
    let value = func.dfg.resolve_aliases(value);
    let ValueDef::Result(inst, 0) = func.dfg.value_def(value) else { return None };
    let data = &func.dfg.insts[inst];
    match data {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
            Some(imm.bits().cast_unsigned())
        }
        InstructionData::Binary { opcode: Opcode::Iadd, args } if depth > 0 => args
            .iter()
            .find_map(|arg| constant(func, *arg, depth - 1).filter(|n| MAPPED.contains(n))),
        _ => None,
    }
}
