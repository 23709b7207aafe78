//! One function's machine code as bytes, free of the process that made it.
//!
//! All numbers are little-endian, nothing is padded, and the sections follow each other in this order:
//!
//! ```text
//!    0  magic "CLA\x01"          40  bytes of code        60  unwind instructions
//!    4  format, u16              44  relocations          64  frame size; all ones if unknown
//!    6  log2 of the alignment    48  traps                68  zeros
//!    7  0                        52  call sites           80  the sections
//!    8  environment, 32 bytes    56  exception handlers
//!
//!   code         as emitted: text, jump tables and constants, nothing in it resolved
//!   relocation   20: offset u32 | kind u8 | target kind u8 | 0 u16 | target u32 | addend i64
//!   trap          5: offset u32 | trap code u8                       in the order of offsets
//!   call site    12: return address u32 | SP below FP u32 | number of its handlers u32
//!   handler       9: kind u8 | tag or place u32 | landing pad u32    in the order of call sites
//!   unwind       14: offset u32 | instruction u8 | register u8 | two u32
//! ```
//!
//! A relocation's target is symbolic: the number of an external reference in the function's own table, a
//! library routine, or a place in the function. Names, ids and addresses of the process that compiled it
//! are nowhere, so callers who agree on a function's code may bind it to different callees.
//!
//! [`Artifact::decode`] checks everything once, allocates nothing, and panics on no input; afterwards all
//! views are infallible. Not kept, because nothing here uses them: source locations, debug tags, value
//! labels. Refused, because code without them would be wrong: stack maps and patchable calls.

use std::num::NonZeroU8;

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{
    ExternalName, Function, GlobalValueData, LibCall, TrapCode, UserExternalNameRef,
};
use cranelift_codegen::isa::unwind::UnwindInst;
use cranelift_codegen::{
    CompiledCode, ExceptionContextLoc, FinalizedMachExceptionHandler, FinalizedRelocTarget,
};

use crate::key::Key;

const MAGIC: [u8; 4] = *b"CLA\x01";
const FORMAT: u16 = 1;
const HEADER: usize = 80;
const RELOCATION: usize = 20;
const TRAP: usize = 5;
const CALL_SITE: usize = 12;
const HANDLER: usize = 9;
const UNWIND: usize = 14;
/// In place of a number that is not known.
const NONE: u32 = u32::MAX;

/// Machine code is aligned to at most a page.
const MAX_ALIGN_LOG2: u8 = 12;

/// How a relocation's field is filled in. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RelocationKind {
    /// The target's address in four bytes.
    Abs4 = 1,
    /// The target's address in eight bytes.
    Abs8 = 2,
    /// The distance to the target in four bytes.
    X86PcRel4 = 3,
    /// As [`X86PcRel4`](Self::X86PcRel4), of a call, a jump or a `lea`.
    X86CallPcRel4 = 4,
    /// As [`X86CallPcRel4`](Self::X86CallPcRel4), by way of a jump if the linker likes.
    X86CallPltRel4 = 5,
    /// The distance to a word with the target's address, in four bytes.
    X86GotPcRel4 = 6,
}

impl RelocationKind {
    /// How many bytes of code it fills in.
    pub fn width(self) -> usize {
        match self {
            RelocationKind::Abs8 => 8,
            _ => 4,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        use RelocationKind::*;
        [Abs4, Abs8, X86PcRel4, X86CallPcRel4, X86CallPltRel4, X86GotPcRel4]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    pub(crate) fn from_reloc(reloc: Reloc) -> Option<Self> {
        Some(match reloc {
            Reloc::Abs4 => RelocationKind::Abs4,
            Reloc::Abs8 => RelocationKind::Abs8,
            Reloc::X86PCRel4 => RelocationKind::X86PcRel4,
            Reloc::X86CallPCRel4 => RelocationKind::X86CallPcRel4,
            Reloc::X86CallPLTRel4 => RelocationKind::X86CallPltRel4,
            Reloc::X86GOTPCRel4 => RelocationKind::X86GotPcRel4,
            _ => return None,
        })
    }

    /// Cranelift's name for it.
    pub fn reloc(self) -> Reloc {
        match self {
            RelocationKind::Abs4 => Reloc::Abs4,
            RelocationKind::Abs8 => Reloc::Abs8,
            RelocationKind::X86PcRel4 => Reloc::X86PCRel4,
            RelocationKind::X86CallPcRel4 => Reloc::X86CallPCRel4,
            RelocationKind::X86CallPltRel4 => Reloc::X86CallPLTRel4,
            RelocationKind::X86GotPcRel4 => Reloc::X86GOTPCRel4,
        }
    }
}

/// What a relocation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelocationTarget {
    /// A function: the number of a reference in the function's table of external names.
    Function(u32),
    /// A symbol whose address itself is wanted: a reference as above, named by a global value.
    Symbol(u32),
    /// A library routine.
    Libcall(LibCall),
    /// This many bytes after the function's own beginning.
    Own(u32),
}

/// A place in the code that depends on where something else lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where in the code; the field lies within it.
    pub offset: u32,
    /// How the field is filled in.
    pub kind: RelocationKind,
    /// What it refers to.
    pub target: RelocationTarget,
    /// Is added to the target's address.
    pub addend: i64,
}

/// An instruction that may trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Where in the code the instruction lies.
    pub offset: u32,
    /// Why it traps.
    pub code: TrapCode,
}

/// A call in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// Where in the code the call returns to.
    pub return_address: u32,
    /// How far the stack pointer lies below the frame pointer during the call, in bytes.
    pub frame_offset: Option<u32>,
    /// How many of the exception handlers are this call's.
    pub handlers: u32,
}

/// What a call does with an exception that its callee throws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// One with this tag lands at this place in the code.
    Tag(u32, u32),
    /// Any lands at this place in the code.
    Default(u32),
    /// The tags that follow count in the context that lies this far above the stack pointer.
    ContextOnStack(u32),
    /// The tags that follow count in the context in this register.
    ContextInRegister(u32),
}

/// One step of a prologue, from which frame information for an unwinder can be made: Cranelift's
/// `UnwindInst`, flat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwind {
    /// After how many bytes of code the step is done.
    pub offset: u32,
    /// Which step, by its position among the variants of `UnwindInst`.
    pub instruction: u8,
    /// The register it concerns: its class in the upper two bits, its hardware encoding below.
    pub register: u8,
    /// Its offsets or sizes, in the order in which `UnwindInst` has them.
    pub operands: [u32; 2],
}

/// Why bytes are no artifact for an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// The magic, the format or a reserved field is not this format's.
    #[error("not an artifact of this format")]
    Format,
    /// Code for another target, flag, CPU or version of the compiler.
    #[error("compiled in another environment")]
    Environment,
    /// The sections do not add up to the bytes at hand.
    #[error("lengths that contradict each other")]
    Length,
    /// A relocation that points out of the code, or is of no known kind.
    #[error("relocation {0} makes no sense")]
    Relocation(usize),
    /// A trap, a call site, a handler or an unwind instruction that points out of the code, or is of no
    /// known kind.
    #[error("metadata that makes no sense")]
    Metadata,
}

/// The verified parts of an artifact, borrowed from its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Artifact<'a> {
    /// The code, to be relocated.
    pub code: &'a [u8],
    /// The alignment that the code counts on; a power of two, at most a page.
    pub align: usize,
    /// The size of the function's frame below the saved frame pointer, in bytes, if known.
    pub frame_size: Option<u32>,
    /// How many references the function's table of external names must have, at least.
    pub references: u32,
    relocations: &'a [u8],
    traps: &'a [u8],
    call_sites: &'a [u8],
    handlers: &'a [u8],
    unwind: &'a [u8],
}

impl<'a> Artifact<'a> {
    /// Checks that `bytes` are an artifact of this environment, whole and without contradiction.
    pub fn decode(bytes: &'a [u8], environment: &Key) -> Result<Self, ArtifactError> {
        let artifact = Self::decode_any(bytes)?;
        // The environment is compared last so that `Environment` is said of whole artifacts only.
        if bytes[8..40] == *environment.as_bytes() {
            Ok(artifact)
        } else {
            Err(ArtifactError::Environment)
        }
    }

    /// As [`decode`](Self::decode) for whichever environment the artifact is of.
    pub fn decode_any(bytes: &'a [u8]) -> Result<Self, ArtifactError> {
        let header = bytes.get(..HEADER).ok_or(ArtifactError::Length)?;
        let zeros = header[7] == 0 && header[68..].iter().all(|byte| *byte == 0);
        if header[0..4] != MAGIC || header[4..6] != FORMAT.to_le_bytes() || !zeros {
            return Err(ArtifactError::Format);
        }
        if header[6] > MAX_ALIGN_LOG2 {
            return Err(ArtifactError::Format);
        }
        let mut rest = &bytes[HEADER..];
        let mut section = |at: usize, size: usize| {
            // At most 2^32 · 20: far below what a usize holds.
            let length = read_u32(header, at) as usize * size;
            let (section, after) = rest.split_at_checked(length).ok_or(ArtifactError::Length)?;
            rest = after;
            Ok(section)
        };
        let mut artifact = Artifact {
            code: section(40, 1)?,
            align: 1 << header[6],
            frame_size: Some(read_u32(header, 64)).filter(|size| *size != NONE),
            references: 0,
            relocations: section(44, RELOCATION)?,
            traps: section(48, TRAP)?,
            call_sites: section(52, CALL_SITE)?,
            handlers: section(56, HANDLER)?,
            unwind: section(60, UNWIND)?,
        };
        if !rest.is_empty() {
            return Err(ArtifactError::Length);
        }
        artifact.check()?;
        Ok(artifact)
    }

    /// The relocations, in the order of the code.
    pub fn relocations(&self) -> impl Iterator<Item = Relocation> + use<'a> {
        self.relocations.chunks_exact(RELOCATION).map_while(read_relocation)
    }

    /// The instructions that may trap, in the order of the code.
    pub fn traps(&self) -> impl Iterator<Item = Trap> + use<'a> {
        self.traps.chunks_exact(TRAP).map_while(read_trap)
    }

    /// The calls, in the order of the code.
    pub fn call_sites(&self) -> impl Iterator<Item = CallSite> + use<'a> {
        self.call_sites.chunks_exact(CALL_SITE).map(|bytes| CallSite {
            return_address: read_u32(bytes, 0),
            frame_offset: Some(read_u32(bytes, 4)).filter(|offset| *offset != NONE),
            handlers: read_u32(bytes, 8),
        })
    }

    /// The exception handlers of all calls, in the order of [`call_sites`](Self::call_sites).
    pub fn handlers(&self) -> impl Iterator<Item = Handler> + use<'a> {
        self.handlers.chunks_exact(HANDLER).map_while(read_handler)
    }

    /// The steps of the prologue, if the code was compiled with unwind information.
    pub fn unwind(&self) -> impl Iterator<Item = Unwind> + use<'a> {
        self.unwind.chunks_exact(UNWIND).map(|bytes| Unwind {
            offset: read_u32(bytes, 0),
            instruction: bytes[4],
            register: bytes[5],
            operands: [read_u32(bytes, 6), read_u32(bytes, 10)],
        })
    }

    /// The table of traps as it is encoded, for [`find_trap`].
    pub(crate) fn trap_table(&self) -> &'a [u8] {
        self.traps
    }

    fn check(&mut self) -> Result<(), ArtifactError> {
        // Offsets are 32 bits wide, and so was the code's length.
        let end = self.code.len();
        for (i, bytes) in self.relocations.chunks_exact(RELOCATION).enumerate() {
            let relocation = read_relocation(bytes).ok_or(ArtifactError::Relocation(i))?;
            let inside = match relocation.target {
                RelocationTarget::Own(offset) => offset as usize <= end,
                RelocationTarget::Libcall(_) => true,
                RelocationTarget::Function(reference) | RelocationTarget::Symbol(reference) => {
                    self.references = self.references.max(reference.saturating_add(1));
                    reference < u32::MAX
                }
            };
            if relocation.offset as usize + relocation.kind.width() > end || !inside {
                return Err(ArtifactError::Relocation(i));
            }
        }
        let mut last = 0;
        for bytes in self.traps.chunks_exact(TRAP) {
            let trap = read_trap(bytes).ok_or(ArtifactError::Metadata)?;
            if trap.offset < last || trap.offset as usize > end {
                return Err(ArtifactError::Metadata);
            }
            last = trap.offset;
        }
        let mut handlers = 0;
        for site in self.call_sites() {
            handlers += u64::from(site.handlers);
            if site.return_address as usize > end {
                return Err(ArtifactError::Metadata);
            }
        }
        if handlers != (self.handlers.len() / HANDLER) as u64 {
            return Err(ArtifactError::Metadata);
        }
        for bytes in self.handlers.chunks_exact(HANDLER) {
            match read_handler(bytes).ok_or(ArtifactError::Metadata)? {
                Handler::Tag(_, pad) | Handler::Default(pad) if pad as usize > end => {
                    return Err(ArtifactError::Metadata);
                }
                _ => {}
            }
        }
        let sane = |step: Unwind| step.offset as usize <= end && step.instruction < UNWIND_KINDS;
        if self.unwind().all(sane) { Ok(()) } else { Err(ArtifactError::Metadata) }
    }
}

/// The trap at exactly this offset in a table of traps that [`Artifact::decode`] has checked.
pub(crate) fn find_trap(table: &[u8], offset: u32) -> Option<TrapCode> {
    let traps: &[[u8; TRAP]] = table.as_chunks().0;
    let at = traps.partition_point(|trap| read_u32(trap, 0) < offset);
    let trap = read_trap(traps.get(at)?)?;
    (trap.offset == offset).then_some(trap.code)
}

/// The artifact of `compiled`, which `function` was compiled to in `environment`. Fails, with a reason
/// for people, if it needs something that an artifact cannot hold.
pub(crate) fn encode(
    compiled: &CompiledCode,
    function: &Function,
    environment: &Key,
) -> Result<Vec<u8>, String> {
    let buffer = &compiled.buffer;
    if !buffer.user_stack_maps().is_empty() {
        return Err("stack maps are not supported".into());
    }
    if buffer.patchable_call_sites().next().is_some() {
        return Err("patchable calls are not supported".into());
    }
    let align = buffer.alignment.max(1).next_power_of_two().trailing_zeros() as u8;
    if align > MAX_ALIGN_LOG2 {
        return Err(format!("an alignment of {} bytes is over a page", buffer.alignment));
    }

    let relocations = buffer
        .relocs()
        .iter()
        .map(|reloc| {
            let kind = RelocationKind::from_reloc(reloc.kind)
                .ok_or_else(|| format!("relocations {:?} are not supported", reloc.kind))?;
            let target = target(&reloc.target, function)?;
            Ok(Relocation { offset: reloc.offset, kind, target, addend: reloc.addend })
        })
        .collect::<Result<Vec<_>, String>>()?;
    let mut traps = buffer.traps().to_vec();
    traps.sort_by_key(|trap| trap.offset);
    let frame_size = buffer.frame_layout().map_or(NONE, |layout| layout.frame_to_fp_offset);

    let mut out = vec![0; HEADER];
    out.extend_from_slice(compiled.code_buffer());
    for relocation in &relocations {
        write_relocation(&mut out, relocation);
    }
    for trap in &traps {
        out.extend_from_slice(&trap.offset.to_le_bytes());
        out.push(trap.code.as_raw().get());
    }
    let (mut call_sites, mut handlers) = (0, Vec::new());
    for site in buffer.call_sites() {
        call_sites += 1;
        handlers.extend_from_slice(site.exception_handlers);
        let count = site.exception_handlers.len() as u32;
        for number in [site.ret_addr, site.frame_offset.unwrap_or(NONE), count] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    for handler in &handlers {
        write_handler(&mut out, handler);
    }
    for (offset, step) in &buffer.unwind_info {
        write_unwind(&mut out, *offset, step);
    }

    out[0..4].copy_from_slice(&MAGIC);
    out[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    out[6] = align;
    out[8..40].copy_from_slice(environment.as_bytes());
    let counts = [
        compiled.code_buffer().len(),
        relocations.len(),
        traps.len(),
        call_sites,
        handlers.len(),
        buffer.unwind_info.len(),
        frame_size as usize,
    ];
    for (i, count) in counts.into_iter().enumerate() {
        let count = u32::try_from(count).map_err(|_| "more than 4 GiB of code".to_owned())?;
        out[40 + 4 * i..44 + 4 * i].copy_from_slice(&count.to_le_bytes());
    }
    Ok(out)
}

fn target(target: &FinalizedRelocTarget, function: &Function) -> Result<RelocationTarget, String> {
    let name = match target {
        FinalizedRelocTarget::Func(offset) => return Ok(RelocationTarget::Own(*offset)),
        FinalizedRelocTarget::ExternalName(name) => name,
    };
    match name {
        ExternalName::User(reference) if is_symbol(*reference, function) => {
            Ok(RelocationTarget::Symbol(reference.as_u32()))
        }
        ExternalName::User(reference) => Ok(RelocationTarget::Function(reference.as_u32())),
        ExternalName::LibCall(libcall) if libcall_number(*libcall).is_some() => {
            Ok(RelocationTarget::Libcall(*libcall))
        }
        ExternalName::LibCall(libcall) => {
            Err(format!("the library routine {libcall} is not supported"))
        }
        ExternalName::KnownSymbol(symbol) => Err(format!("the symbol {symbol} is not supported")),
        // The compiler gives every name a number before it compiles.
        ExternalName::TestCase(name) => Err(format!("the name {name} was not resolved")),
    }
}

/// Whether a global value names this reference, so that its address is wanted as it is.
fn is_symbol(reference: UserExternalNameRef, function: &Function) -> bool {
    function.global_values.values().any(|value| match value {
        GlobalValueData::Symbol { name: ExternalName::User(named), .. } => *named == reference,
        _ => false,
    })
}

/// Our own numbers for library routines: Cranelift's may move. Never reused.
const LIBCALLS: &[(LibCall, u32)] = &[
    (LibCall::Probestack, 1),
    (LibCall::CeilF32, 2),
    (LibCall::CeilF64, 3),
    (LibCall::FloorF32, 4),
    (LibCall::FloorF64, 5),
    (LibCall::TruncF32, 6),
    (LibCall::TruncF64, 7),
    (LibCall::NearestF32, 8),
    (LibCall::NearestF64, 9),
    (LibCall::FmaF32, 10),
    (LibCall::FmaF64, 11),
    (LibCall::Memcpy, 12),
    (LibCall::Memset, 13),
    (LibCall::Memmove, 14),
    (LibCall::Memcmp, 15),
    (LibCall::X86Pshufb, 16),
];

pub(crate) fn libcall_number(libcall: LibCall) -> Option<u32> {
    LIBCALLS.iter().find(|(known, _)| *known == libcall).map(|(_, number)| *number)
}

/// The library routine of this number.
pub(crate) fn libcall_of(number: u32) -> Option<LibCall> {
    LIBCALLS.iter().find(|(_, known)| *known == number).map(|(libcall, _)| *libcall)
}

fn write_relocation(out: &mut Vec<u8>, relocation: &Relocation) {
    let (kind, target) = match relocation.target {
        RelocationTarget::Function(reference) => (1, reference),
        RelocationTarget::Symbol(reference) => (2, reference),
        RelocationTarget::Libcall(libcall) => {
            (3, libcall_number(libcall).expect("checked when the target was made"))
        }
        RelocationTarget::Own(offset) => (4, offset),
    };
    out.extend_from_slice(&relocation.offset.to_le_bytes());
    out.extend_from_slice(&[relocation.kind as u8, kind, 0, 0]);
    out.extend_from_slice(&target.to_le_bytes());
    out.extend_from_slice(&relocation.addend.to_le_bytes());
}

fn read_relocation(bytes: &[u8]) -> Option<Relocation> {
    let number = read_u32(bytes, 8);
    let target = match bytes[5] {
        1 => RelocationTarget::Function(number),
        2 => RelocationTarget::Symbol(number),
        3 => RelocationTarget::Libcall(libcall_of(number)?),
        4 => RelocationTarget::Own(number),
        _ => return None,
    };
    let mut addend = [0; 8];
    addend.copy_from_slice(&bytes[12..20]);
    let kind = RelocationKind::from_byte(bytes[4])?;
    let reserved = bytes[6] == 0 && bytes[7] == 0;
    reserved.then_some(Relocation {
        offset: read_u32(bytes, 0),
        kind,
        target,
        addend: i64::from_le_bytes(addend),
    })
}

fn read_trap(bytes: &[u8]) -> Option<Trap> {
    let code = TrapCode::from_raw(NonZeroU8::new(bytes[4])?);
    Some(Trap { offset: read_u32(bytes, 0), code })
}

fn write_handler(out: &mut Vec<u8>, handler: &FinalizedMachExceptionHandler) {
    let (kind, first, second) = match handler {
        FinalizedMachExceptionHandler::Tag(tag, pad) => (1, tag.as_u32(), *pad),
        FinalizedMachExceptionHandler::Default(pad) => (2, 0, *pad),
        FinalizedMachExceptionHandler::Context(ExceptionContextLoc::SPOffset(at)) => (3, *at, 0),
        FinalizedMachExceptionHandler::Context(ExceptionContextLoc::GPR(register)) => {
            (4, u32::from(*register), 0)
        }
    };
    out.push(kind);
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&second.to_le_bytes());
}

fn read_handler(bytes: &[u8]) -> Option<Handler> {
    let (first, second) = (read_u32(bytes, 1), read_u32(bytes, 5));
    match bytes[0] {
        1 => Some(Handler::Tag(first, second)),
        2 => Some(Handler::Default(second)),
        3 => Some(Handler::ContextOnStack(first)),
        4 => Some(Handler::ContextInRegister(first)),
        _ => None,
    }
}

/// How many variants `UnwindInst` has.
const UNWIND_KINDS: u8 = 6;

fn write_unwind(out: &mut Vec<u8>, offset: u32, step: &UnwindInst) {
    let register = |reg: &cranelift_codegen::RealReg| (reg.class() as u8) << 6 | reg.hw_enc();
    let (instruction, register, operands) = match step {
        UnwindInst::PushFrameRegs { offset_upward_to_caller_sp: up } => (0, 0, [*up, 0]),
        UnwindInst::DefineNewFrame {
            offset_upward_to_caller_sp: up,
            offset_downward_to_clobbers: down,
        } => (1, 0, [*up, *down]),
        UnwindInst::StackAlloc { size } => (2, 0, [*size, 0]),
        UnwindInst::SaveReg { clobber_offset, reg } => (3, register(reg), [*clobber_offset, 0]),
        UnwindInst::RegStackOffset { clobber_offset, reg } => {
            (4, register(reg), [*clobber_offset, 0])
        }
        UnwindInst::Aarch64SetPointerAuth { return_addresses } => {
            (5, 0, [u32::from(*return_addresses), 0])
        }
    };
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&[instruction, register]);
    for operand in operands {
        out.extend_from_slice(&operand.to_le_bytes());
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENVIRONMENT: Key = Key::from_bytes([7; 32]);

    /// The sections of an artifact, each as its bytes.
    #[derive(Clone, Default)]
    struct Sections {
        code: Vec<u8>,
        relocations: Vec<u8>,
        traps: Vec<u8>,
        call_sites: Vec<u8>,
        handlers: Vec<u8>,
        unwind: Vec<u8>,
    }

    impl Sections {
        fn bytes(&self) -> Vec<u8> {
            let sections = [
                (&self.code, 1),
                (&self.relocations, RELOCATION),
                (&self.traps, TRAP),
                (&self.call_sites, CALL_SITE),
                (&self.handlers, HANDLER),
                (&self.unwind, UNWIND),
            ];
            let mut out = vec![0; HEADER];
            out[0..4].copy_from_slice(&MAGIC);
            out[4..6].copy_from_slice(&FORMAT.to_le_bytes());
            out[6] = 4;
            out[8..40].copy_from_slice(ENVIRONMENT.as_bytes());
            for (i, (section, size)) in sections.into_iter().enumerate() {
                let count = (section.len() / size) as u32;
                out[40 + 4 * i..44 + 4 * i].copy_from_slice(&count.to_le_bytes());
                out.extend_from_slice(section);
            }
            out[64..68].copy_from_slice(&48_u32.to_le_bytes());
            out
        }

        /// Why these sections are refused; `None` if they are not.
        fn refused(&self) -> Option<ArtifactError> {
            Artifact::decode(&self.bytes(), &ENVIRONMENT).err()
        }
    }

    fn relocation(offset: u32, target: RelocationTarget) -> Relocation {
        Relocation { offset, kind: RelocationKind::Abs8, target, addend: -3 }
    }

    fn relocations(list: &[Relocation]) -> Vec<u8> {
        let mut out = Vec::new();
        list.iter().for_each(|relocation| write_relocation(&mut out, relocation));
        out
    }

    fn words(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn trap(offset: u32, code: u8) -> Vec<u8> {
        [&offset.to_le_bytes()[..], &[code]].concat()
    }

    fn handler(kind: u8, first: u32, second: u32) -> Vec<u8> {
        [&[kind][..], &words(&[first, second])].concat()
    }

    fn unwind(offset: u32, instruction: u8) -> Vec<u8> {
        [words(&[offset]), vec![instruction, 0x45], words(&[8, 9])].concat()
    }

    /// Something in every section.
    fn full() -> Sections {
        Sections {
            code: (0..40).collect(),
            relocations: relocations(&[
                relocation(0, RelocationTarget::Function(4)),
                relocation(8, RelocationTarget::Symbol(2)),
                relocation(16, RelocationTarget::Libcall(LibCall::FmaF64)),
                relocation(32, RelocationTarget::Own(40)),
            ]),
            traps: [trap(5, 1), trap(5, 2), trap(39, 255)].concat(),
            call_sites: words(&[10, 16, 1, 20, NONE, 3]),
            handlers: [handler(1, 77, 40), handler(2, 0, 12), handler(3, 8, 0), handler(4, 3, 0)]
                .concat(),
            unwind: [unwind(1, 0), unwind(40, 5)].concat(),
        }
    }

    #[test]
    fn every_section_reads_back() {
        let bytes = full().bytes();
        let artifact = Artifact::decode(&bytes, &ENVIRONMENT).unwrap();
        assert_eq!(artifact.code, (0..40).collect::<Vec<u8>>());
        assert_eq!((artifact.align, artifact.frame_size, artifact.references), (16, Some(48), 5));
        let list: Vec<_> = artifact.relocations().collect();
        assert_eq!(relocations(&list), full().relocations);
        assert_eq!(list[2].target, RelocationTarget::Libcall(LibCall::FmaF64));
        assert_eq!((list[1].offset, list[1].addend), (8, -3));
        let traps: Vec<_> = artifact.traps().map(|trap| (trap.offset, trap.code)).collect();
        let code = TrapCode::unwrap_user;
        assert_eq!(traps, [(5, code(1)), (5, code(2)), (39, TrapCode::BAD_CONVERSION_TO_INTEGER)]);
        let sites: Vec<_> = artifact.call_sites().collect();
        assert_eq!(
            (sites[0].return_address, sites[0].frame_offset, sites[0].handlers),
            (10, Some(16), 1)
        );
        assert_eq!((sites[1].frame_offset, sites[1].handlers), (None, 3));
        let handlers: Vec<_> = artifact.handlers().collect();
        use Handler::*;
        assert_eq!(handlers, [Tag(77, 40), Default(12), ContextOnStack(8), ContextInRegister(3)]);
        let steps: Vec<_> = artifact.unwind().collect();
        assert_eq!(
            steps[1],
            Unwind { offset: 40, instruction: 5, register: 0x45, operands: [8, 9] }
        );
    }

    /// Each check by itself. Mutants: any of them taken out.
    #[test]
    fn nonsense_is_refused() {
        let with = |change: fn(&mut Sections)| {
            let mut sections = full();
            change(&mut sections);
            sections.refused()
        };
        assert_eq!(with(|_| {}), None);
        let out = |offset, target| {
            let mut sections = full();
            sections.relocations = relocations(&[relocation(offset, target)]);
            sections.refused()
        };
        let refused = Some(ArtifactError::Relocation(0));
        assert_eq!(out(32, RelocationTarget::Function(0)), None);
        assert_eq!(out(33, RelocationTarget::Function(0)), refused);
        assert_eq!(out(u32::MAX, RelocationTarget::Function(0)), refused);
        assert_eq!(out(0, RelocationTarget::Own(41)), refused);
        assert_eq!(out(0, RelocationTarget::Symbol(u32::MAX)), refused);
        // The kind, the target's kind, both reserved bytes, and a library routine that is none.
        for (at, byte) in [(4, 0), (4, 7), (5, 0), (5, 5), (6, 1), (7, 1)] {
            let mut sections = full();
            sections.relocations[at] = byte;
            assert_eq!(sections.refused(), refused, "{at} {byte}");
        }
        assert_eq!(with(|s| s.relocations[40 + 8] = 99), Some(ArtifactError::Relocation(2)));

        let refused = Some(ArtifactError::Metadata);
        assert_eq!(with(|s| s.traps = trap(41, 1)), refused);
        assert_eq!(with(|s| s.traps = trap(1, 0)), refused);
        assert_eq!(with(|s| s.traps = [trap(6, 1), trap(5, 1)].concat()), refused);
        assert_eq!(with(|s| s.call_sites[0] = 41), refused);
        assert_eq!(with(|s| s.call_sites[8] = 2), refused);
        assert_eq!(with(|s| s.call_sites[11] = 255), refused);
        assert_eq!(with(|s| s.handlers[0] = 5), refused);
        assert_eq!(with(|s| s.handlers[5] = 41), refused);
        assert_eq!(with(|s| s.unwind[0] = 41), refused);
        assert_eq!(with(|s| s.unwind[4] = UNWIND_KINDS), refused);
    }

    #[test]
    fn headers_of_anything_else_are_refused() {
        let good = full().bytes();
        let refused = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Artifact::decode(&bytes, &ENVIRONMENT).err()
        };
        for (at, byte) in [(0, b'X'), (3, 2), (4, 2), (6, 13), (7, 1), (68, 1), (79, 1)] {
            assert_eq!(refused(at, byte), Some(ArtifactError::Format), "{at}");
        }
        for at in 8..40 {
            assert_eq!(refused(at, 0), Some(ArtifactError::Environment), "{at}");
        }
        // A count that is off by one, up or down, leaves bytes over or lacks some.
        for at in (40..64).step_by(4) {
            for byte in [good[at] + 1, good[at] - 1] {
                assert_eq!(refused(at, byte), Some(ArtifactError::Length), "{at}");
            }
            assert_eq!(refused(at + 3, 255), Some(ArtifactError::Length), "{at}");
        }
        for length in 0..good.len() {
            let cut = Artifact::decode(&good[..length], &ENVIRONMENT).err();
            assert_eq!(cut, Some(ArtifactError::Length), "{length}");
        }
        let longer = [&good[..], &[0]].concat();
        assert_eq!(Artifact::decode(&longer, &ENVIRONMENT).err(), Some(ArtifactError::Length));
    }

    /// Mutants: the table searched for the first trap at or after the offset; the last of equals only.
    #[test]
    fn traps_are_found_by_their_offset_alone() {
        let table = full().traps;
        assert_eq!(find_trap(&table, 5), TrapCode::user(1));
        assert_eq!(find_trap(&table, 39), Some(TrapCode::BAD_CONVERSION_TO_INTEGER));
        assert!([0, 4, 6, 38, 40, u32::MAX].iter().all(|at| find_trap(&table, *at).is_none()));
        assert_eq!(find_trap(&[], 0), None);
    }

    #[test]
    fn libcalls_have_numbers_of_their_own() {
        for (i, (libcall, number)) in LIBCALLS.iter().enumerate() {
            let known = |(other, taken): &(LibCall, u32)| other == libcall || taken == number;
            assert_eq!(LIBCALLS.iter().position(known), Some(i), "{libcall}");
        }
        let missing: Vec<_> = LibCall::all_libcalls()
            .iter()
            .filter(|libcall| libcall_number(**libcall).is_none())
            .collect();
        assert_eq!(missing, [&LibCall::ElfTlsGetAddr, &LibCall::ElfTlsGetOffset]);
    }

    proptest! {
        /// Whatever the bytes behind a good header are, decoding and reading end without a panic.
        #[test]
        fn arbitrary_bytes_do_no_harm(
            counts in prop::array::uniform6(0_u32..4),
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            noise in prop::collection::vec((0_usize..280, any::<u8>()), 0..6),
        ) {
            let mut all = Sections::default().bytes();
            for (i, count) in counts.into_iter().enumerate() {
                all[40 + 4 * i] = count as u8;
            }
            all.extend_from_slice(&bytes);
            for (at, byte) in noise {
                if let Some(place) = all.get_mut(at) {
                    *place = byte;
                }
            }
            // Of any length, and of the length that its counts say.
            let sizes = [1, RELOCATION, TRAP, CALL_SITE, HANDLER, UNWIND];
            let length: usize = sizes.iter().zip(counts).map(|(size, n)| size * n as usize).sum();
            let mut exact = all.clone();
            exact.resize(HEADER + length, 0);
            for bytes in [all, exact] {
                if let Ok(artifact) = Artifact::decode_any(&bytes) {
                    let inside = |relocation: Relocation| {
                        relocation.offset as usize + relocation.kind.width() <= artifact.code.len()
                    };
                    prop_assert!(artifact.relocations().all(inside));
                    artifact.traps().for_each(drop);
                    artifact.call_sites().for_each(drop);
                    artifact.handlers().for_each(drop);
                    artifact.unwind().for_each(drop);
                }
            }
        }

        /// A sound artifact with a few bytes changed: what is accepted is safe to relocate.
        #[test]
        fn changed_artifacts_do_no_harm(noise in prop::collection::vec((0_usize..400, any::<u8>()), 1..5)) {
            let mut bytes = full().bytes();
            for (at, byte) in noise {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            if let Ok(artifact) = Artifact::decode_any(&bytes) {
                let mut code = artifact.code.to_vec();
                for relocation in artifact.relocations() {
                    let patched = super::super::patch::patch(&mut code, 0x1000, &relocation, 0x2000, None);
                    prop_assert_ne!(patched, Err(super::super::patch::PatchError::OutOfBounds));
                }
            }
        }
    }
}
