//! Functions and programs far over the usual size.

use cachelift::code::Program;
use cachelift::store::Origin;

use crate::support::{call, engine, load, origins, parse};

/// 50,000 instructions in one function, with numbers that need more than two bytes in a key.
#[test]
fn a_function_of_fifty_thousand_instructions() {
    let (text, expected) = crate::common::big("");
    let engine = engine();
    let loaded = load(&engine, &text);
    assert_eq!(call(&loaded, "big", &[3]), expected);
    drop(loaded);
    let again = load(&engine, &text);
    assert_eq!(origins(&again), [Origin::Memory]);
    assert_eq!(call(&again, "big", &[3]), expected);
    // One of its fifty thousand numbers counts.
    let other = load(&engine, &text.replace("iconst.i64 174994\n", "iconst.i64 174995\n"));
    assert_eq!(origins(&other), [Origin::Made]);
}

/// A chain of calls through ten thousand functions of one program, which share one artifact.
#[test]
fn a_program_of_ten_thousand_functions() {
    const COUNT: usize = 10_000;
    let link = "
        function %f(i64) -> i64 tail {
            fn0 = colocated u0:0(i64) -> i64 tail
        block0(v0: i64):
            v1 = iconst.i64 1
            v2 = iadd v0, v1
            return_call fn0(v2)
        }";
    let (_, clif) = parse(link).remove(0);
    let mut program = Program::new();
    for i in 0..COUNT {
        let mut clif = clif.clone();
        let user = cranelift_codegen::ir::UserExternalName::new(0, i as u32 + 1);
        clif.params.reset_user_func_name(
            cranelift_codegen::ir::UserExternalNameRef::from_u32(0),
            user.clone(),
        );
        program.declare(user, &format!("f{}", i + 1)).unwrap();
        program.define(&format!("f{i}"), clif).unwrap();
    }
    let (_, end) = parse("function %f(i64) -> i64 tail { block0(v0: i64): return v0 }").remove(0);
    program.define(&format!("f{COUNT}"), end).unwrap();
    let (_, enter) = parse("function %enter(i64) -> i64 { fn0 = %f0(i64) -> i64 tail block0(v0: i64): v1 = call fn0(v0) return v1 }").remove(0);
    program.define("enter", enter).unwrap();
    program.callable();
    let engine = engine();
    let engine = cachelift::code::Engine::new(
        engine.store().clone(),
        cachelift::code::Target::host_with(&[("preserve_frame_pointers", "true")]).unwrap(),
    );
    let loaded = engine.load(program).unwrap();
    assert_eq!(call(&loaded, "enter", &[5]), 5 + COUNT as i64);
    let made = loaded.units().filter(|unit| unit.origin == Origin::Made).count();
    assert_eq!(made, 5, "the link, the end, the entry, and two trampolines");
}
