//! The cache at work: this program runs itself twice, as two processes that share a new cache directory. The
//! first compiles two hundred functions, the second loads them.
//!
//! ```text
//! cargo run --release --example warm_start
//! ```

use std::env;
use std::error::Error;
use std::process::Command;
use std::time::Instant;

use cachelift::code::{Engine, Program, Target};
use cachelift::config::Config;
use cachelift::store::Store;
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, UserFuncName, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

const FUNCTIONS: usize = 200;
const DEGREE: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    if env::var_os("WARM_START_CHILD").is_some() {
        return load_and_call();
    }
    let dir = tempfile::tempdir()?;
    for run in ["first run", "second run"] {
        println!("{run}, a new process:");
        let status = Command::new(env::current_exe()?)
            .env("WARM_START_CHILD", "1")
            .env("CACHELIFT_DIR", dir.path().join("cache"))
            .status()?;
        if !status.success() {
            return Err(format!("the {run} failed: {status}").into());
        }
    }
    Ok(())
}

/// What every process does, whether the cache has the code or not.
fn load_and_call() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(Store::open(Config::from_env()?), Target::host()?);
    let mut program = Program::new();
    for n in 0..FUNCTIONS {
        program.define(&format!("poly{n}"), polynomial(&engine, n))?;
    }

    let began = Instant::now();
    let loaded = engine.load(program)?;
    let took = began.elapsed();

    // SAFETY: `polynomial` builds functions of this signature.
    let poly: extern "C" fn(f64) -> f64 = unsafe { loaded.function("poly7").unwrap().typed() };
    assert_eq!(poly(1.0), (0..=DEGREE).map(|k| coefficient(7, k)).sum::<f64>());

    let stats = engine.store().stats();
    println!(
        "  {:>4} compiled, {:>4} loaded from disk in {:>7.2} ms     poly7(1.0) = {}",
        stats.made,
        stats.disk,
        took.as_secs_f64() * 1e3,
        poly(1.0)
    );
    Ok(())
}

fn coefficient(n: usize, k: usize) -> f64 {
    (n * 31 + k * 17) as f64
}

/// The `n`-th polynomial by Horner's rule, as a front end would build it.
fn polynomial(engine: &Engine, n: usize) -> Function {
    let isa = engine.target().isa();
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.push(AbiParam::new(types::F64));
    signature.returns.push(AbiParam::new(types::F64));
    let mut function = Function::with_name_signature(UserFuncName::default(), signature);
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let x = builder.block_params(block)[0];
    let mut sum = builder.ins().f64const(coefficient(n, DEGREE));
    for k in (0..DEGREE).rev() {
        let product = builder.ins().fmul(sum, x);
        let term = builder.ins().f64const(coefficient(n, k));
        sum = builder.ins().fadd(product, term);
    }
    builder.ins().return_(&[sum]);
    builder.finalize(isa.frontend_config());
    function
}
