//! Eight processes start together on one cold cache, and each function is compiled by one of them.
//!
//! ```text
//! cargo run --release --example worker_pool
//! ```
//!
//! The workers need the same 200 functions, each worker beginning at another one, as workers do that take tasks from a
//! queue. What another is compiling right now is waited for, what it has compiled is loaded.

use std::process::{Command, Stdio};
use std::time::Instant;

use cachelift::code::CachingModule;
use cachelift::config::Config;
use cachelift::store::Store;
use cranelift_codegen::ir::{AbiParam, InstBuilder, types::I64};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITBuilder;
use cranelift_module::{FuncId, Linkage, Module, ModuleError, default_libcall_names};

const WORKERS: usize = 8;
const TASKS: usize = 200;
const WORKER: &str = "WORKER_POOL_NUMBER";

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    match std::env::var(WORKER) {
        Ok(number) => work(number.parse()?),
        Err(_) => start_workers(),
    }
}

fn start_workers() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let start = Instant::now();
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            Command::new(std::env::current_exe()?)
                .env(WORKER, number.to_string())
                .env("CACHELIFT_DIR", dir.path().join("cache"))
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect::<Result<_, _>>()?;
    let mut compiled = 0;
    for worker in workers {
        let output = worker.wait_with_output()?;
        let line = String::from_utf8(output.stdout)?;
        print!("{line}");
        compiled += line.split(' ').nth(2).ok_or("a worker failed")?.parse::<usize>()?;
    }
    println!("{WORKERS} workers compiled {compiled} functions in {:.1?}", start.elapsed());
    assert_eq!(compiled, TASKS, "each function once");
    Ok(())
}

fn work(number: usize) -> Result<(), Error> {
    let store = Store::open(Config::from_env()?);
    let builder = JITBuilder::with_flags(&[("opt_level", "speed")], default_libcall_names())?;
    let mut module = CachingModule::new(builder, store.clone());
    let mut ids = Vec::new();
    for i in 0..TASKS {
        let task = (i + number * TASKS / WORKERS) % TASKS;
        ids.push((task, polynomial(&mut module, task)?));
    }
    module.finalize_definitions()?;
    for (task, id) in ids {
        // SAFETY: `polynomial` makes functions of this signature, and the module lives.
        let function: extern "C" fn(i64) -> i64 =
            unsafe { std::mem::transmute(module.get_finalized_function(id)) };
        assert_eq!(function(10), expected(task, 10));
    }
    let stats = store.stats();
    println!(
        "worker {number}: {} compiled, {} loaded, {} waited for",
        stats.made, stats.disk, stats.waited
    );
    Ok(())
}

/// A polynomial with 40 coefficients that are the task's own.
fn polynomial(module: &mut CachingModule, task: usize) -> Result<FuncId, ModuleError> {
    let mut ctx = module.make_context();
    ctx.func.signature.params.push(AbiParam::new(I64));
    ctx.func.signature.returns.push(AbiParam::new(I64));
    let name = format!("task{task}");
    let id = module.declare_function(&name, Linkage::Export, &ctx.func.signature)?;
    let mut frontend = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut ctx.func, &mut frontend);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let x = b.block_params(block)[0];
    let mut sum = b.ins().iconst(I64, 0);
    for i in 0..40 {
        let product = b.ins().imul(sum, x);
        let coefficient = b.ins().iconst(I64, coefficient(task, i));
        sum = b.ins().iadd(product, coefficient);
    }
    b.ins().return_(&[sum]);
    b.finalize(module.target_config());
    module.define_function(id, &mut ctx)?;
    Ok(id)
}

fn coefficient(task: usize, i: usize) -> i64 {
    (task * 40 + i) as i64
}

fn expected(task: usize, x: i64) -> i64 {
    (0..40).fold(0, |sum: i64, i| sum.wrapping_mul(x).wrapping_add(coefficient(task, i)))
}
