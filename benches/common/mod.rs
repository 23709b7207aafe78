//! What the benches of code have in common: the functions that they compile and load, a plain `JITModule` to compare
//! with, and medians.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cachelift::code::Target;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, MemFlagsData, Signature, UserExternalName, UserFuncName,
    Value,
    types::{F64, I64},
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleResult, default_libcall_names};
use criterion::Criterion;

/// Flags of every target: the verifier is left out, as a hit does not run it.
pub(crate) const FLAGS: &[(&str, &str)] = &[("enable_verifier", "false")];
/// Name, steps of each function, how many functions.
pub(crate) const SIZES: [(&str, usize, usize); 3] =
    [("small", 2, 2000), ("medium", 40, 500), ("large", 1050, 20)];

/// What the functions call.
pub(crate) extern "C" fn host(a: i64, b: i64, _: i64) -> i64 {
    a ^ b
}

/// Of all functions.
pub(crate) fn signature(isa: &dyn TargetIsa) -> Signature {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.extend([AbiParam::new(I64); 3]);
    signature.returns.push(AbiParam::new(I64));
    signature
}

/// A function of `steps` steps of about five instructions: arithmetic, memory, loops, calls of the host.
fn function(isa: &dyn TargetIsa, steps: usize, seed: u64) -> Function {
    let mut clif = Function::with_name_signature(UserFuncName::default(), signature(isa));
    let callee = clif.declare_imported_user_function(UserExternalName::new(0, 0));
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut clif, &mut context);
    let own = b.import_signature(signature(isa));
    let callee = b.import_function(cranelift_codegen::ir::ExtFuncData {
        name: cranelift_codegen::ir::ExternalName::user(callee),
        signature: own,
        colocated: false,
        patchable: false,
    });
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    let params: Vec<Value> = b.block_params(block).to_vec();
    let (mut x, mut y, memory) = (params[0], params[1], params[2]);
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for step in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let constant = b.ins().iconst(I64, (state >> 8) as i64);
        match state % 8 {
            0 if step % 150 == 0 => {
                let call = b.ins().call(callee, &[x, y, memory]);
                x = b.inst_results(call)[0];
            }
            0 | 1 => {
                let t = b.ins().imul(x, constant);
                let u = b.ins().bxor(t, y);
                let v = b.ins().ushr_imm_u(u, 7);
                x = b.ins().iadd(v, x);
            }
            2 | 3 => {
                let offset = (state >> 32 & 0x1F8) as i32;
                let t = b.ins().load(I64, MemFlagsData::trusted(), memory, offset);
                let u = b.ins().iadd(t, constant);
                b.ins().store(MemFlagsData::trusted(), u, memory, offset);
                y = b.ins().bxor(y, u);
            }
            4 => {
                let f = b.ins().bitcast(F64, MemFlagsData::new(), x);
                let g = b.ins().fadd(f, f);
                let h = b.ins().bitcast(I64, MemFlagsData::new(), g);
                y = b.ins().iadd(y, h);
                x = b.ins().bxor(x, constant);
            }
            5 | 6 => {
                let (then, rest) = (b.create_block(), b.create_block());
                b.append_block_param(rest, I64);
                let test = b.ins().icmp_imm_s(
                    cranelift_codegen::ir::condcodes::IntCC::SignedLessThan,
                    x,
                    (state >> 40) as i64,
                );
                b.ins().brif(test, then, &[], rest, &[y.into()]);
                b.switch_to_block(then);
                let t = b.ins().isub(y, constant);
                b.ins().jump(rest, &[t.into()]);
                b.switch_to_block(rest);
                y = b.block_params(rest)[0];
            }
            _ => {
                let t = b.ins().band(x, constant);
                let u = b.ins().rotl_imm_u(t, 11);
                x = b.ins().iadd(u, y);
            }
        }
    }
    if steps < 10 {
        let call = b.ins().call(callee, &[x, y, memory]);
        x = b.inst_results(call)[0];
    }
    let sum = b.ins().iadd(x, y);
    b.ins().return_(&[sum]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    clif
}

/// So many functions, all different.
pub(crate) fn functions(target: &Target, steps: usize, count: usize) -> Vec<Function> {
    (0..count).map(|seed| function(target.isa(), steps, seed as u64 + 1)).collect()
}

/// A builder of modules for the target, which know the host's function.
pub(crate) fn builder(target: &Target) -> JITBuilder {
    let flags = cranelift_codegen::settings::Flags::clone(target.isa().flags());
    let isa = cranelift_native::builder().unwrap().finish(flags).unwrap();
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    builder.symbol("host", host as *const u8);
    builder.memory_provider(Box::new(ArenaMemoryProvider::new_with_size(64 << 20).unwrap()));
    builder
}

/// Declares the host's function, which gets the id that the functions refer to.
pub(crate) fn declare_host(module: &mut impl Module, signature: &Signature) {
    let id = module.declare_function("host", Linkage::Import, signature).unwrap();
    assert_eq!(id.as_u32(), 0);
}

/// Defines all functions in a module by `define`.
pub(crate) fn define_all<M: Module>(
    module: &mut M,
    signature: &Signature,
    functions: Vec<Function>,
    mut define: impl FnMut(&mut M, FuncId, &mut Context) -> ModuleResult<()>,
) -> FuncId {
    let mut context = Context::new();
    let mut first = None;
    for (i, function) in functions.into_iter().enumerate() {
        context.clear();
        context.func = function;
        let id = module.declare_function(&format!("f{i}"), Linkage::Export, signature).unwrap();
        define(module, id, &mut context).unwrap();
        first = first.or(Some(id));
    }
    first.expect("there are some")
}

/// Defines and finalizes all functions in a new `JITModule`, as `define` does it for each.
pub(crate) fn through_jit_module(
    target: &Target,
    functions: &[Function],
    define: impl FnMut(&mut JITModule, FuncId, &mut Context) -> ModuleResult<()>,
) -> Duration {
    let mut module = JITModule::new(builder(target));
    let signature = signature(target.isa());
    declare_host(&mut module, &signature);
    let functions = functions.to_vec();
    let start = Instant::now();
    let first = define_all(&mut module, &signature, functions, define);
    module.finalize_definitions().unwrap();
    black_box(module.get_finalized_function(first));
    let time = start.elapsed();
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    time
}

/// Compiles all functions.
pub(crate) fn plain(target: &Target, functions: &[Function]) -> Duration {
    through_jit_module(target, functions, |module, id, context| module.define_function(id, context))
}

/// Measures `run`, which takes `count` functions, and gives the median per function in microseconds.
pub(crate) fn measure(
    criterion: &mut Criterion,
    name: &str,
    count: usize,
    mut run: impl FnMut() -> Duration,
) -> f64 {
    let samples = RefCell::new(Vec::new());
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|rounds| {
            (0..rounds)
                .map(|_| {
                    let time = run();
                    samples.borrow_mut().push(time.as_secs_f64());
                    time
                })
                .sum()
        });
    });
    let mut samples = samples.into_inner();
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).map_or(f64::NAN, |median| median * 1e6 / count as f64)
}
