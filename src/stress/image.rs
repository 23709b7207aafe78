//! Programs as images: what a worker builds, maps and runs, and what its functions return.
//!
//! ```text
//!   f0(x) = f1(x) + a     f1(x) = f2(x) + b     …     fn(x) = host(x) + z      the sum is the key's value
//! ```

use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, Function as Clif, InstBuilder, Signature, UserFuncName,
    types::I64,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::payload::{mix, value};
use crate::code::{CodeError, Engine, Function, Image, Program, Target};
use crate::key::Key;
use crate::race::{Fault, planted};
use crate::store::Store;

/// A fault that tests plant.
const WRONG: Fault = Fault("an image is of another key");

extern "C" fn host(x: i64) -> i64 {
    x
}

/// An engine on this store.
pub(super) fn engine(store: &Store) -> Result<Engine, CodeError> {
    let target = Target::host_with(&[("opt_level", "none"), ("enable_verifier", "false")])?;
    Ok(Engine::new(store.clone(), target))
}

/// Maps the image of `key`, or makes it.
pub(super) fn load(engine: &Engine, key: u32) -> Result<Image, CodeError> {
    let named = if planted(WRONG) { key / 2 } else { key };
    let name: Key = engine.store().key("stress image v1").u64("n", u64::from(named)).finish();
    let symbols = |name: &str| (name == "host").then_some(host as *const u8);
    engine.load_image(&name, symbols, || program(engine, key))
}

/// Calls the function that calls all others, so many times: whether it returned what it should each time.
pub(super) fn is_right(function: &Function, key: u32, times: i64) -> bool {
    // SAFETY: every function of these programs has this signature, and calls nothing but the others and `host`.
    let main = unsafe { function.typed::<extern "C" fn(i64) -> i64>() };
    (0..times).all(|x| main(x) == x.wrapping_add(i64::from(value(key))))
}

/// From 1 to 64 functions.
fn program(engine: &Engine, key: u32) -> Result<Program, CodeError> {
    let count = 1 + mix(u64::from(key)) % 64;
    let mut program = Program::new();
    let mut rest = i64::from(value(key));
    for n in 0..count {
        let constant = if n + 1 == count { rest } else { (mix(n) >> 40) as i64 };
        rest = rest.wrapping_sub(constant);
        // Near and far calls in turn.
        let callee = if n + 1 == count { "host".to_owned() } else { format!("f{}", n + 1) };
        let near = n + 1 < count && n % 2 == 0;
        program.define(&format!("f{n}"), adder(engine, &callee, near, constant))?;
    }
    Ok(program)
}

fn adder(engine: &Engine, callee: &str, near: bool, constant: i64) -> Clif {
    let isa = engine.target().isa();
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.push(AbiParam::new(I64));
    signature.returns.push(AbiParam::new(I64));
    let mut clif = Clif::with_name_signature(UserFuncName::default(), signature.clone());
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut clif, &mut context);
    let signature = b.import_signature(signature);
    let name = ExternalName::testcase(callee);
    let callee =
        b.import_function(ExtFuncData { name, signature, colocated: near, patchable: false });
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let x = b.block_params(block)[0];
    let call = b.ins().call(callee, &[x]);
    let got = b.inst_results(call)[0];
    let constant = b.ins().iconst(I64, constant);
    let sum = b.ins().iadd(got, constant);
    b.ins().return_(&[sum]);
    b.finalize(isa.frontend_config());
    clif
}
