//! Hits against compiles: functions of about 12, 200 and 5,000 instructions through the whole of
//! [`Engine::load`], from the memory tier and, in a new process, from the cache directory, beside a plain
//! `JITModule` with the same flags.
//!
//! Building the CLIF and setting up the ISA are left out on all sides, and so is the verifier, which a hit
//! does not run. The last lines are ratios of medians of this run.
//!
//! ```text
//! cargo bench --bench code
//! ```

use std::cell::RefCell;
use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cachelift::code::{Engine, Program, Target};
use cachelift::config::Config;
use cachelift::store::{Origin, Store};
use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, MemFlagsData, Signature, UserExternalName, UserFuncName,
    Value,
    types::{F64, I64},
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use criterion::Criterion;

const FLAGS: &[(&str, &str)] = &[("enable_verifier", "false")];
const SIZES: [(&str, usize, usize); 3] =
    [("small", 2, 2000), ("medium", 40, 500), ("large", 1050, 20)];
/// In a process that loads from the cache directory: the size to load.
const CHILD: &str = "CACHELIFT_BENCH_CHILD";

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

fn plain(target: &Target, functions: &[Function]) -> Duration {
    let flags = cranelift_codegen::settings::Flags::clone(target.isa().flags());
    let isa = cranelift_native::builder().unwrap().finish(flags).unwrap();
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    builder.symbol("host", host as *const u8);
    builder.memory_provider(Box::new(ArenaMemoryProvider::new_with_size(64 << 20).unwrap()));
    let mut module = JITModule::new(builder);
    let signature = signature(target.isa());
    let declare = |module: &mut JITModule, name: &str, linkage| {
        module.declare_function(name, linkage, &signature).unwrap()
    };
    assert_eq!(declare(&mut module, "host", Linkage::Import).as_u32(), 0);
    let mut ids: Vec<FuncId> = Vec::new();
    let mut context = Context::new();
    let functions = functions.to_vec();
    let start = Instant::now();
    for (i, function) in functions.into_iter().enumerate() {
        context.clear();
        context.func = function;
        ids.push(declare(&mut module, &format!("f{i}"), Linkage::Export));
        module.define_function(ids[i], &mut context).unwrap();
    }
    module.finalize_definitions().unwrap();
    black_box(module.get_finalized_function(ids[0]));
    let time = start.elapsed();
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    time
}

fn program(functions: Vec<Function>) -> Program {
    let mut program = Program::new();
    program.symbol("host", host as *const u8).unwrap();
    program.declare(UserExternalName::new(0, 0), "host").unwrap();
    for (i, function) in functions.into_iter().enumerate() {
        program.define(&format!("f{i}"), function).unwrap();
    }
    program
}

fn hit(engine: &Engine, functions: &[Function], origin: Origin) -> Duration {
    let functions = functions.to_vec();
    let start = Instant::now();
    let loaded = engine.load(program(functions)).unwrap();
    black_box(loaded.function("f0").unwrap().address());
    let time = start.elapsed();
    assert!(loaded.units().all(|unit| unit.origin == origin));
    time
}

fn functions(target: &Target, steps: usize, count: usize) -> Vec<Function> {
    (0..count).map(|seed| function(target.isa(), steps, seed as u64 + 1)).collect()
}

fn engine(target: &Target, dir: Option<&Path>) -> Engine {
    let config = Config::default();
    let config = match dir {
        Some(dir) => config.dir(dir),
        None => config,
    };
    Engine::new(Store::open(config), target.clone())
}

/// In another process: loads what is in the directory, and prints how many nanoseconds that took.
fn child(size: &str) {
    let (_, steps, count) = SIZES.into_iter().find(|(name, ..)| *name == size).unwrap();
    let target = Target::host_with(FLAGS).unwrap();
    let functions = functions(&target, steps, count);
    let dir = env::var_os("CACHELIFT_DIR").unwrap();
    let engine = engine(&target, Some(dir.as_ref()));
    println!("{}", hit(&engine, &functions, Origin::Disk).as_nanos());
}

fn in_new_process(size: &str, dir: &Path) -> Duration {
    let output = Command::new(env::current_exe().unwrap())
        .env(CHILD, size)
        .env("CACHELIFT_DIR", dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Duration::from_nanos(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
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
    if let Ok(size) = env::var(CHILD) {
        return child(&size);
    }
    let mut criterion = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let target = Target::host_with(FLAGS).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut lines = Vec::new();
    for (name, steps, count) in SIZES {
        let functions = functions(&target, steps, count);
        let instructions = functions.iter().map(|f| f.dfg.num_insts()).sum::<usize>() / count;
        let cache = dir.path().join(name);
        let warm = engine(&target, Some(&cache));
        drop(warm.load(program(functions.clone())).unwrap());

        let mut case = |what: &str, run: &mut dyn FnMut() -> Duration| {
            measure(&mut criterion, &format!("{name}/{what} of {count}"), count, run)
        };
        let compile = case("compile", &mut || plain(&target, &functions));
        let memory = case("memory hit", &mut || hit(&warm, &functions, Origin::Memory));
        let disk = case("disk hit, new process", &mut || in_new_process(name, &cache));
        lines.push(format!(
            "{name:<8} {instructions:>12} {compile:>10.2} {memory:>10.2} {:>7.1}x {disk:>10.2} {:>7.1}x",
            compile / memory,
            compile / disk
        ));
    }
    criterion.final_summary();
    println!("\nmedians in microseconds per function, and how many times faster than compiling");
    println!("         instructions    compile     memory    ratio       disk    ratio");
    lines.iter().for_each(|line| println!("{line}"));
}
