//! Entries: compiled functions that call the kernels of a plan one after another, without the VM.
//!
//! ```text
//!   entry(words): status = kernel 3 (words + 0);  if status { return 0 << 8 | status }
//!                 status = kernel 1 (words + 96); if status { return 1 << 8 | status }
//!                 return 0
//! ```
//!
//! An entry is made of nothing but the order of kernels and where their frames begin. Kernels are named by the order of
//! their first call, and bound when it is loaded.

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    AbiParam, BlockArg, ExtFuncData, ExternalName, Function as Clif, InstBuilder, Signature,
    UserExternalName, UserFuncName,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::abi::Status;
use super::error::GraphError;
use super::kernel::{self, Kernel};
use super::plan::{CallSite, Plan, Segment};
use crate::code::{CodeError, Engine, Function, Image, Program};

/// The namespace of kernels' names in the entry of the first segment; that of the next is one more. No key depends on it.
const FIRST_NAMESPACE: u32 = 1;
/// How many calls one entry makes at most: a function of many blocks takes long to compile.
const MOST: u32 = 4096;

/// A loaded entry. It keeps its kernels loaded.
pub(crate) struct Entry {
    function: Function,
}

impl Entry {
    /// Calls all kernels; on a failure says which call it was, and its status.
    ///
    /// # Safety
    ///
    /// As of each kernel's call with its frame.
    pub(crate) unsafe fn call(&self, words: &[u64]) -> Result<(), (usize, Status)> {
        // SAFETY: every entry has this signature, and the handle is alive.
        let entry = unsafe { self.function.typed::<unsafe extern "C" fn(*const u64) -> u64>() };
        // SAFETY: the caller's promise.
        match unsafe { entry(words.as_ptr()) } {
            0 => Ok(()),
            word => Err(((word >> 8) as usize, Status::of(word & 0xff))),
        }
    }
}

/// The entry of each segment of a plan; `None` of a node, and of a segment that is too long.
pub(crate) fn entries(
    engine: &Engine,
    plan: &Plan,
    kernels: &[Kernel],
) -> Result<Vec<Option<Entry>>, GraphError> {
    let mut programs = Vec::new();
    let mut places = Vec::new();
    for (at, calls) in segments(plan) {
        let mut program = Program::new();
        for spec in define(&mut program, engine, at, calls)? {
            let kernel = &kernels[spec as usize];
            program.symbol(&kernel::name(spec as usize), kernel.function().address())?;
        }
        programs.push(program);
        places.push(at);
    }
    let mut entries: Vec<Option<Entry>> = plan.segments.iter().map(|_| None).collect();
    for (at, loaded) in places.into_iter().zip(engine.load_many(programs)) {
        let function = loaded?.function(&name(at)).expect("it was defined").clone();
        entries[at] = Some(Entry { function });
    }
    Ok(entries)
}

/// Adds the entries of a plan to a program of its kernels.
pub(crate) fn define_all(
    program: &mut Program,
    engine: &Engine,
    plan: &Plan,
) -> Result<(), CodeError> {
    for (at, calls) in segments(plan) {
        define(program, engine, at, calls)?;
    }
    Ok(())
}

/// The entries of a plan that lie in an image of that program.
pub(crate) fn entries_of(image: &Image, plan: &Plan) -> Option<Vec<Option<Entry>>> {
    let mut entries: Vec<Option<Entry>> = plan.segments.iter().map(|_| None).collect();
    for (at, _) in segments(plan) {
        entries[at] = Some(Entry { function: image.function(&name(at))? });
    }
    Some(entries)
}

/// The segments that have an entry, with their calls.
fn segments(plan: &Plan) -> impl Iterator<Item = (usize, &[CallSite])> {
    plan.segments.iter().enumerate().filter_map(|(at, segment)| match segment {
        Segment::Calls(start, end) if end - start <= MOST => {
            Some((at, &plan.calls[*start as usize..*end as usize]))
        }
        _ => None,
    })
}

/// Adds the entry of a segment to a program; gives the kernels that it calls, in the order of their first call.
fn define(
    program: &mut Program,
    engine: &Engine,
    at: usize,
    calls: &[CallSite],
) -> Result<Vec<u32>, CodeError> {
    let mut order: Vec<u32> = Vec::new();
    let numbers: Vec<u32> = calls
        .iter()
        .map(|call| {
            let found = order.iter().position(|spec| *spec == call.spec);
            found.unwrap_or_else(|| {
                order.push(call.spec);
                order.len() - 1
            }) as u32
        })
        .collect();
    let namespace = FIRST_NAMESPACE + at as u32;
    for (number, spec) in order.iter().enumerate() {
        let user = UserExternalName { namespace, index: number as u32 };
        program.declare(user, &kernel::name(*spec as usize))?;
    }
    program.define(&name(at), entry(calls, &numbers, namespace, engine.target().isa()))?;
    Ok(order)
}

/// The name of the entry of a segment.
fn name(at: usize) -> String {
    format!("entry {at}")
}

fn entry(calls: &[CallSite], numbers: &[u32], namespace: u32, isa: &dyn TargetIsa) -> Clif {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.push(AbiParam::new(I64));
    signature.returns.push(AbiParam::new(I64));
    let mut clif = Clif::with_name_signature(UserFuncName::default(), signature.clone());
    let kernel = clif.import_signature(signature);
    let count = numbers.iter().max().map_or(0, |last| last + 1);
    let kernels: Vec<_> = (0..count)
        .map(|index| {
            let name = clif.declare_imported_user_function(UserExternalName { namespace, index });
            let name = ExternalName::user(name);
            clif.import_function(ExtFuncData {
                name,
                signature: kernel,
                colocated: false,
                patchable: false,
            })
        })
        .collect();
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut clif, &mut context);
    let first = builder.create_block();
    builder.append_block_params_for_function_params(first);
    builder.switch_to_block(first);
    let words = builder.block_params(first)[0];
    let exit = builder.create_block();
    builder.append_block_param(exit, I64);
    for (at, (call, number)) in calls.iter().zip(numbers).enumerate() {
        let frame = builder.ins().iadd_imm_s(words, i64::from(call.start) * 8);
        let called = builder.ins().call(kernels[*number as usize], &[frame]);
        let status = builder.inst_results(called)[0];
        let failed = builder.ins().bor_imm_u(status, (at as i64) << 8);
        let next = builder.create_block();
        builder.ins().brif(status, exit, &[BlockArg::Value(failed)], next, &[]);
        builder.switch_to_block(next);
    }
    let done = builder.ins().iconst(I64, 0);
    builder.ins().return_(&[done]);
    builder.switch_to_block(exit);
    let status = builder.block_params(exit)[0];
    builder.ins().return_(&[status]);
    builder.seal_all_blocks();
    builder.finalize(isa.frontend_config());
    clif
}
