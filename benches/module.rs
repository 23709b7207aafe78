//! `CachingModule` against what it takes the place of: functions of about 12, 200 and 5,000 instructions through
//! `define_function` and `finalize_definitions`, all of them hits in memory, beside a plain `JITModule` and beside
//! Cranelift's own incremental cache over a map; and a keyed group, whose CLIF is not built.
//!
//! Building the CLIF is left out on all sides but the last, and so is the verifier, which a hit does not run. The
//! last lines are medians of this run and their ratios.
//!
//! ```text
//! cargo bench --bench module
//! ```

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cachelift::code::{CachingModule, Target};
use cachelift::config::Config;
use cachelift::store::{Origin, Store};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::incremental_cache::CacheKvStore;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, MemFlagsData, Signature, UserExternalName, UserFuncName,
    Value,
    types::{F64, I64},
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleReloc, ModuleResult, default_libcall_names};
use criterion::Criterion;

const FLAGS: &[(&str, &str)] = &[("enable_verifier", "false")];
const SIZES: [(&str, usize, usize); 3] =
    [("small", 2, 2000), ("medium", 40, 500), ("large", 1050, 20)];

extern "C" fn host(a: i64, b: i64, _: i64) -> i64 {
    a ^ b
}

fn signature(isa: &dyn TargetIsa) -> Signature {
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

fn functions(target: &Target, steps: usize, count: usize) -> Vec<Function> {
    (0..count).map(|seed| function(target.isa(), steps, seed as u64 + 1)).collect()
}

fn builder(target: &Target) -> JITBuilder {
    let flags = cranelift_codegen::settings::Flags::clone(target.isa().flags());
    let isa = cranelift_native::builder().unwrap().finish(flags).unwrap();
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    builder.symbol("host", host as *const u8);
    builder.memory_provider(Box::new(ArenaMemoryProvider::new_with_size(64 << 20).unwrap()));
    builder
}

/// Declares the host's function, which gets the id that the functions refer to.
fn declare_host(module: &mut impl Module, signature: &Signature) {
    let id = module.declare_function("host", Linkage::Import, signature).unwrap();
    assert_eq!(id.as_u32(), 0);
}

/// Defines all functions in a module by `define`.
fn define_all<M: Module>(
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

fn plain(target: &Target, functions: &[Function]) -> Duration {
    let mut module = JITModule::new(builder(target));
    let signature = signature(target.isa());
    declare_host(&mut module, &signature);
    let functions = functions.to_vec();
    let start = Instant::now();
    let first = define_all(&mut module, &signature, functions, |module, id, context| {
        module.define_function(id, context)
    });
    module.finalize_definitions().unwrap();
    black_box(module.get_finalized_function(first));
    let time = start.elapsed();
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    time
}

/// Through a module over a store; all functions must come from `origin`.
fn cached(
    make: fn(JITBuilder, Store) -> CachingModule,
    target: &Target,
    functions: &[Function],
    store: &Store,
) -> Duration {
    let mut module = make(builder(target), store.clone());
    let signature = signature(target.isa());
    declare_host(&mut module, &signature);
    let functions = functions.to_vec();
    let start = Instant::now();
    let first = define_all(&mut module, &signature, functions, |module, id, context| {
        module.define_function(id, context)
    });
    module.finalize_definitions().unwrap();
    black_box(module.get_finalized_function(first));
    let time = start.elapsed();
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    time
}

#[derive(Default)]
struct Map(HashMap<Vec<u8>, Vec<u8>>);

impl CacheKvStore for Map {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.0.get(key).map(|value| Cow::Borrowed(&value[..]))
    }

    fn insert(&mut self, key: &[u8], value: Vec<u8>) {
        self.0.insert(key.to_vec(), value);
    }
}

/// Through Cranelift's own incremental cache.
fn stock(target: &Target, functions: &[Function], map: &mut Map) -> Duration {
    let mut module = JITModule::new(builder(target));
    let signature = signature(target.isa());
    declare_host(&mut module, &signature);
    let functions = functions.to_vec();
    let start = Instant::now();
    let first = define_all(&mut module, &signature, functions, |module, id, context| {
        context.compile_with_cache(module.isa(), map, &mut ControlPlane::default())?;
        let compiled = context.compiled_code().unwrap();
        let relocs = compiled.buffer.relocs().iter();
        let relocs: Vec<_> =
            relocs.map(|r| ModuleReloc::from_mach_reloc(r, &context.func, id)).collect();
        let align = compiled.buffer.alignment.into();
        module.define_function_bytes(id, align, compiled.code_buffer(), &relocs)
    });
    module.finalize_definitions().unwrap();
    black_box(module.get_finalized_function(first));
    let time = start.elapsed();
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    time
}

/// As one keyed group. The module is made within the time.
fn group(target: &Target, steps: usize, count: usize, store: &Store) -> (Duration, Origin) {
    let signature = signature(target.isa());
    let builder = builder(target);
    let start = Instant::now();
    let mut module = CachingModule::new(builder, store.clone());
    declare_host(&mut module, &signature);
    let key = store.key("bench").u64("steps", steps as u64).u64("count", count as u64).finish();
    let built = module.with_key(&key, |module| {
        let functions = functions(target, steps, count);
        define_all(module, &signature, functions, |module, id, context| {
            module.define_function(id, context)
        });
        Ok(())
    });
    module.finalize_definitions().unwrap();
    let time = start.elapsed();
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    (time, built.unwrap())
}

/// Measures `run`, which takes `count` functions, and gives the median per function in microseconds.
fn measure(
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

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let target = Target::host_with(FLAGS).unwrap();
    let mut lines = Vec::new();
    for (name, steps, count) in SIZES {
        let functions = functions(&target, steps, count);
        let instructions = functions.iter().map(|f| f.dfg.num_insts()).sum::<usize>() / count;
        let store = Store::open(Config::default());
        let mut map = Map::default();
        // Everything is made once before anything is measured.
        cached(CachingModule::code_only, &target, &functions, &store);
        cached(CachingModule::new, &target, &functions, &store);
        stock(&target, &functions, &mut map);
        group(&target, steps, count, &store);
        let made = store.stats().made;

        let mut case = |what: &str, run: &mut dyn FnMut() -> Duration| {
            measure(&mut criterion, &format!("{name}/{what} of {count}"), count, run)
        };
        let compile = case("JITModule", &mut || plain(&target, &functions));
        let code = case("code only", &mut || {
            cached(CachingModule::code_only, &target, &functions, &store)
        });
        let kept = case("compiled code kept", &mut || {
            cached(CachingModule::new, &target, &functions, &store)
        });
        let stock = case("Cranelift's cache", &mut || stock(&target, &functions, &mut map));
        let grouped = case("keyed group", &mut || {
            let (time, origin) = group(&target, steps, count, &store);
            assert_eq!(origin, Origin::Memory);
            time
        });
        assert_eq!(store.stats().made, made, "all were hits");
        lines.push(format!(
            "{name:<8}{instructions:>7}{compile:>10.2}{code:>10.2}{:>6.1}x{kept:>10.2}{:>6.1}x{stock:>10.2}{:>6.1}x{grouped:>10.2}{:>6.0}x",
            compile / code,
            compile / kept,
            stock / code,
            compile / grouped,
        ));
    }
    criterion.final_summary();
    println!(
        "\nmedians in microseconds per function; how many times faster than a JITModule, or than Cranelift's cache"
    );
    println!(
        "          insts JITModule code only          all kept        Cranelift's code only  keyed group"
    );
    lines.iter().for_each(|line| println!("{line}"));
}
