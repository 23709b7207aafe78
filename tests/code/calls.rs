//! Every kind of value, call and reference that CLIF has computes what it should, made and found.

use cachelift::code::{CodeError, Program};
use cachelift::store::Origin;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::UserExternalName;
use cranelift_codegen::ir::immediates::{Ieee16, Ieee128};

use crate::support::{
    call, call_values, engine, engine_with, functions, load, origins, parse, refused,
};

#[test]
fn a_function_is_made_once_and_found_after() {
    let engine = engine();
    let text =
        "function %add(i64, i64) -> i64 { block0(v0: i64, v1: i64): v2 = iadd v0, v1 return v2 }";
    let loaded = load(&engine, text);
    assert_eq!(call(&loaded, "add", &[40, 2]), 42);
    assert_eq!(origins(&loaded), [Origin::Made]);
    let unit = functions(&loaded).next().unwrap();
    assert_eq!((unit.name.as_str(), unit.signature.as_str()), ("add", "(i64, i64) -> i64 fast"));
    assert!(unit.micros > 0);

    let again = load(&engine, text);
    assert_eq!(call(&again, "add", &[1, 2]), 3);
    assert_eq!(origins(&again), [Origin::Memory]);
    assert!(again.units().all(|unit| unit.origin == Origin::Memory && unit.micros == 0));
    assert_eq!(functions(&again).next().unwrap().key, unit.key);
    assert_eq!(loaded.function("add"), again.function("add"));
}

#[test]
fn functions_call_each_other_whatever_their_linkage() {
    // Far and near, by text and by number, forward and backward, through a pointer.
    let text = "
        function %main(i64) -> i64 {
            sig0 = (i64) -> i64 fast
            fn0 = %far(i64) -> i64 fast
            fn1 = colocated %near(i64) -> i64 fast
            fn2 = u0:7 sig0
            fn3 = colocated u1:7 sig0
        block0(v0: i64):
            v1 = call fn0(v0)
            v2 = call fn1(v1)
            v3 = call fn2(v2)
            v4 = func_addr.i64 fn3
            v5 = call_indirect sig0, v4(v3)
            v6 = func_addr.i64 fn0
            v7 = call_indirect sig0, v6(v5)
            return v7
        }
        function %far(i64) -> i64 fast { block0(v0: i64): v91 = iconst.i64 1 v1 = iadd v0, v91 return v1 }
        function %near(i64) -> i64 fast { block0(v0: i64): v91 = iconst.i64 10 v1 = imul v0, v91 return v1 }
        function %third(i64) -> i64 fast { block0(v0: i64): v91 = iconst.i64 3 v1 = iadd v0, v91 return v1 }
        function %fourth(i64) -> i64 fast { block0(v0: i64): v91 = iconst.i64 100 v1 = imul v0, v91 return v1 }";
    let engine = engine();
    for round in 0..2 {
        let mut program = Program::new();
        program.callable();
        program.declare(UserExternalName::new(0, 7), "third").unwrap();
        program.declare(UserExternalName::new(1, 7), "fourth").unwrap();
        for (name, function) in parse(text) {
            program.define(&name, function).unwrap();
        }
        let loaded = engine.load(program).unwrap();
        assert_eq!(call(&loaded, "main", &[4]), ((4 + 1) * 10 + 3) * 100 + 1, "round {round}");
    }
}

/// The same for code that finds addresses in a table: nothing in the loader depends on how code refers
/// to things. Mutant: the slot's place in a stub off by eight.
#[test]
fn position_independent_code_works_too() {
    let text = "
        function %main(i64) -> i64 {
            fn0 = %far(i64) -> i64 fast
            fn1 = colocated %near(i64) -> i64 fast
            sig9 = (i64) -> i64 fast
        block0(v0: i64):
            v1 = call fn0(v0)
            v2 = call fn1(v1)
            v3 = func_addr.i64 fn1
            v4 = call_indirect sig9, v3(v2)
            return v4
        }
        function %far(i64) -> i64 fast { block0(v0: i64): v91 = iconst.i64 1 v1 = iadd v0, v91 return v1 }
        function %near(i64) -> i64 fast { block0(v0: i64): v91 = iconst.i64 10 v1 = imul v0, v91 return v1 }
        function %up(f64) -> f64 { block0(v0: f64): v1 = ceil v0 return v1 }";
    let pic = engine_with(&[("is_pic", "true")]);
    let loaded = load(&pic, text);
    assert_eq!(call(&loaded, "main", &[4]), (4 + 1) * 100);
    let up = call_values(&loaded, "up", &[DataValue::F64(1.25.into())]);
    assert_eq!(up, [DataValue::F64(2.0.into())]);
}

#[test]
fn recursion_of_every_shape() {
    let text = "
        function %factorial(i64) -> i64 {
            fn0 = %factorial(i64) -> i64
        block0(v0: i64):
            brif v0, block1, block2
        block1:
            v91 = iconst.i64 -1
            v1 = iadd v0, v91
            v2 = call fn0(v1)
            v3 = imul v0, v2
            return v3
        block2:
            v4 = iconst.i64 1
            return v4
        }
        function %even(i64) -> i64 {
            fn0 = colocated %odd(i64) -> i64
        block0(v0: i64):
            brif v0, block1, block2
        block1:
            v91 = iconst.i64 -1
            v1 = iadd v0, v91
            v2 = call fn0(v1)
            return v2
        block2:
            v4 = iconst.i64 1
            return v4
        }
        function %odd(i64) -> i64 {
            fn0 = %even(i64) -> i64
        block0(v0: i64):
            brif v0, block1, block2
        block1:
            v91 = iconst.i64 -1
            v1 = iadd v0, v91
            v2 = call fn0(v1)
            return v2
        block2:
            v4 = iconst.i64 0
            return v4
        }";
    let engine = engine();
    for _ in 0..2 {
        let loaded = load(&engine, text);
        assert_eq!(call(&loaded, "factorial", &[10]), 3_628_800);
        assert_eq!(call(&loaded, "even", &[10]), 1);
        assert_eq!(call(&loaded, "odd", &[10]), 0);
        assert_eq!(call(&loaded, "odd", &[7]), 1);
    }
}

/// A million tail calls in a row need no stack.
#[test]
fn tail_calls() {
    let text = "
        function %count(i64, i64) -> i64 tail {
            fn0 = %count(i64, i64) -> i64 tail
        block0(v0: i64, v1: i64):
            brif v0, block1, block2
        block1:
            v92 = iconst.i64 -1
            v2 = iadd v0, v92
            v93 = iconst.i64 2
            v3 = iadd v1, v93
            return_call fn0(v2, v3)
        block2:
            return v1
        }";
    let engine = engine_with(&[("preserve_frame_pointers", "true")]);
    for _ in 0..2 {
        assert_eq!(call(&load(&engine, text), "count", &[1_000_000, 0]), 2_000_000);
    }
}

#[test]
fn many_results_and_wide_values() {
    let text = "
        function %swap(i8, f32, i128, i16) -> i16, i128, f32, i8 {
        block0(v0: i8, v1: f32, v2: i128, v3: i16):
            return v3, v2, v1, v0
        }
        function %product(i128, i128) -> i128 {
        block0(v0: i128, v1: i128):
            v2 = imul v0, v1
            return v2
        }
        function %lanes(i32x4, i32x4) -> i32x4 {
        block0(v0: i32x4, v1: i32x4):
            v2 = imul v0, v1
            return v2
        }";
    let engine = engine_with(&[
        ("enable_multi_ret_implicit_sret", "true"),
        ("enable_llvm_abi_extensions", "true"),
    ]);
    for _ in 0..2 {
        let loaded = load(&engine, text);
        let (a, b) = (DataValue::I8(-3), DataValue::F32(1.5.into()));
        let (c, d) = (DataValue::I128(-1 << 100), DataValue::I16(999));
        let swapped = call_values(&loaded, "swap", &[a.clone(), b.clone(), c.clone(), d.clone()]);
        assert_eq!(swapped, [d, c, b, a]);

        let factors = [DataValue::I128(1 << 70), DataValue::I128(-12345)];
        let product = call_values(&loaded, "product", &factors);
        assert_eq!(product, [DataValue::I128(-12345 << 70)]);

        let lanes = |f: fn(i32) -> i32| {
            DataValue::V128(std::array::from_fn(|i| f(i as i32 / 4).to_le_bytes()[i % 4]))
        };
        let product = call_values(&loaded, "lanes", &[lanes(|i| i + 1), lanes(|i| i - 7)]);
        assert_eq!(product, [lanes(|i| (i + 1) * (i - 7))]);
    }
}

#[test]
fn half_and_quadruple_floats() {
    let text = "
        function %swap(f16, f128) -> f128, f16 {
            fn0 = %pass(f128, f16) -> f16, f128
        block0(v0: f16, v1: f128):
            v2, v3 = call fn0(v1, v0)
            return v3, v2
        }
        function %pass(f128, f16) -> f16, f128 { block0(v0: f128, v1: f16): return v1, v0 }";
    let engine = engine_with(&[("enable_llvm_abi_extensions", "true")]);
    for _ in 0..2 {
        let loaded = load(&engine, text);
        let half = DataValue::F16(Ieee16::with_bits(0x3C01));
        let quad = DataValue::F128(Ieee128::with_bits(0x3FFF << 112 | 5));
        assert_eq!(call_values(&loaded, "swap", &[half.clone(), quad.clone()]), [quad, half]);
    }
}

extern "C" fn triple(x: i64) -> i64 {
    x * 3
}

static NUMBERS: [i64; 3] = [10, 20, 30];

/// Functions and data of the host, near and far.
#[test]
fn host_symbols() {
    let text = "
        function %main(i64) -> i64 system_v {
            gv0 = symbol %numbers
            gv1 = symbol %numbers+16
            fn0 = %triple(i64) -> i64 system_v
            fn1 = colocated %triple(i64) -> i64 system_v
        block0(v0: i64):
            v1 = call fn0(v0)
            v2 = call fn1(v1)
            v3 = symbol_value.i64 gv0
            v4 = load.i64 v3+8
            v5 = symbol_value.i64 gv1
            v6 = load.i64 v5
            v7 = iadd v2, v4
            v8 = iadd v7, v6
            return v8
        }";
    let engine = engine();
    for _ in 0..2 {
        let mut program = crate::support::program(text);
        program.symbol("triple", triple as *const u8).unwrap();
        program.symbol("numbers", NUMBERS.as_ptr().cast()).unwrap();
        let loaded = engine.load(program).unwrap();
        assert_eq!(call(&loaded, "main", &[5]), 45 + 20 + 30);
    }
}

/// A stub can stand in for a function and not for data: far data is refused.
/// Mutant: `may_use_stub` without the exception for symbols (the code would read the stub's bytes).
#[test]
fn near_data_that_is_far_away_is_refused() {
    let text = "
        function %main() -> i64 {
            gv0 = symbol colocated %numbers
        block0:
            v0 = symbol_value.i64 gv0
            return v0
        }";
    let mut program = crate::support::program(text);
    program.symbol("numbers", 0x10 as *const u8).unwrap();
    match engine().load(program).unwrap_err() {
        CodeError::Relocation { function, callee, .. } => {
            assert_eq!((function.as_str(), callee.as_str()), ("main", "%numbers"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn what_a_reference_means_may_be_a_function_loaded_before() {
    let engine = engine();
    let first = load(
        &engine,
        "function %base(i64) -> i64 { block0(v0: i64): v91 = iconst.i64 100 v1 = iadd v0, v91 return v1 }",
    );
    let text = "
        function %main(i64) -> i64 {
            fn0 = %other(i64) -> i64
            fn1 = colocated %other(i64) -> i64
        block0(v0: i64):
            v1 = call fn0(v0)
            v2 = call fn1(v1)
            return v2
        }";
    let mut program = crate::support::program(text);
    program.link("other", first.function("base").unwrap()).unwrap();
    let second = engine.load(program).unwrap();
    drop(first);
    assert_eq!(call(&second, "main", &[1]), 201);
}

#[test]
fn wrong_calls_are_errors() {
    let loaded =
        load(&engine(), "function %add(i64, i32) -> i64 { block0(v0: i64, v1: i32): return v0 }");
    // SAFETY: nothing is called.
    let error = |name: &str, arguments: &[DataValue]| unsafe {
        loaded.call(name, arguments).unwrap_err().to_string()
    };
    let one = DataValue::I64(1);
    assert_eq!(error("sub", &[]), "no function sub");
    assert_eq!(error("add", &[]), "function add takes (i64, i32), not ()");
    assert_eq!(
        error("add", &[one.clone(), one.clone()]),
        "function add takes (i64, i32), not (i64, i64)"
    );
    let mut program = Program::new();
    let (name, clif) = parse("function %f() { block0: return }").remove(0);
    program.define(&name, clif).unwrap();
    let loaded = engine().load(program).unwrap();
    // SAFETY: nothing is called.
    let error = unsafe { loaded.call("f", &[]) }.unwrap_err();
    assert_eq!(error.to_string(), "function f: its program was not made callable");
}

#[test]
fn compile_errors_name_the_function_and_the_place() {
    let engine = engine();
    let wrong_type = "
        function %f(i64, i32) -> i64 {
        block0(v0: i64, v1: i32):
            v2 = iadd v0, v1
            return v2
        }";
    match refused(&engine, wrong_type) {
        CodeError::Verifier { function, errors } => {
            assert_eq!(function, "f");
            assert_eq!(errors[0].place, "inst0");
            assert_eq!(errors[0].instruction.as_deref(), Some("v2 = iadd.i64 v0, v1"));
            assert!(errors[0].message.contains("type"), "{}", errors[0].message);
        }
        other => panic!("{other}"),
    }
    match refused(&engine, "function %g() { fn0 = %nowhere() block0: call fn0() return }") {
        CodeError::Undefined { function, callee } => {
            assert_eq!((function.as_str(), callee.as_str()), ("g", "%nowhere"));
        }
        other => panic!("{other}"),
    }
    match refused(&engine, "function %g() { fn0 = u3:4() block0: call fn0() return }") {
        CodeError::Undefined { callee, .. } => assert_eq!(callee, "u3:4"),
        other => panic!("{other}"),
    }
    // Declared and never used: no code refers to it.
    load(&engine, "function %g() { fn0 = %nowhere() block0: return }");
}

#[test]
fn what_cannot_be_kept_is_refused_with_a_reason() {
    let engine = engine_with(&[("tls_model", "elf_gd")]);
    let tls = "
        function %f() -> i64 {
            gv0 = symbol colocated tls %t
        block0:
            v0 = tls_value.i64 gv0
            return v0
        }";
    match refused(&engine, tls) {
        CodeError::Unsupported { function, reason } => {
            assert_eq!(function, "f");
            assert!(reason.contains("Tls"), "{reason}");
        }
        other => panic!("{other}"),
    }

    let engine = self::engine();
    for (construct, text) in [
        (
            "stack maps",
            "function %f(i64) {
                ss0 = explicit_slot 8
                fn0 = %g(i64)
            block0(v0: i64):
                call fn0(v0), stack_map=[i64 @ ss0+0]
                return
            }",
        ),
        (
            "patchable",
            "function %f(i64) {
                fn0 = colocated patchable %g(i64)
            block0(v0: i64):
                call fn0(v0)
                return
            }",
        ),
        (
            "ElfGlobalOffsetTable",
            "function %f() -> i64 {
                gv0 = symbol %ElfGlobalOffsetTable
            block0:
                v0 = symbol_value.i64 gv0
                return v0
            }",
        ),
        (
            "ElfTlsGetAddr",
            "function %f(i64) -> i64 {
                fn0 = %ElfTlsGetAddr(i64) -> i64
            block0(v0: i64):
                v1 = call fn0(v0)
                return v1
            }",
        ),
    ] {
        match refused(&engine, text) {
            CodeError::Unsupported { function, reason } => {
                assert_eq!(function, "f");
                assert!(reason.contains(construct), "{reason}");
            }
            other => panic!("{other}"),
        }
    }
}

/// A panic in the compiler is an error of its function; the engine goes on. Found by mutation: without
/// the catch, this test dies.
#[test]
fn a_panic_of_the_compiler_is_an_error() {
    let engine = engine_with(&[("enable_verifier", "false")]);
    // A value that is used and never defined: only the verifier would have noticed.
    let (name, mut clif) =
        parse("function %f(i64) -> i64 { block0(v0: i64): return v0 }").remove(0);
    let block = clif.layout.entry_block().unwrap();
    let last = clif.layout.last_inst(block).unwrap();
    clif.layout.remove_inst(last);
    let mut program = Program::new();
    program.define(&name, clif).unwrap();
    match engine.load(program).unwrap_err() {
        CodeError::Panicked { function, message } => {
            assert_eq!(function, "f");
            assert!(!message.is_empty());
        }
        other => panic!("{other}"),
    }
    let good = load(&engine, "function %f(i64) -> i64 { block0(v0: i64): return v0 }");
    assert_eq!(call(&good, "f", &[7]), 7);
}

#[test]
fn a_name_has_one_meaning() {
    let (name, clif) = parse("function %f() { block0: return }").remove(0);
    let mut program = Program::new();
    program.define(&name, clif.clone()).unwrap();
    let twice = CodeError::Duplicate { name: "f".into() };
    assert_eq!(program.define("f", clif).err(), Some(twice.clone()));
    assert_eq!(program.symbol("f", std::ptr::null()).err(), Some(twice));
    program.declare(UserExternalName::new(0, 1), "f").unwrap();
    program.declare(UserExternalName::new(0, 1), "f").unwrap();
    assert!(program.declare(UserExternalName::new(0, 1), "g").is_err());
    let (_, reserved) = parse("function %g() { fn0 = u4294967295:0() block0: return }").remove(0);
    assert!(matches!(program.define("g", reserved), Err(CodeError::Unsupported { .. })));
}

#[test]
fn an_empty_program_is_loaded_too() {
    let loaded = engine().load(Program::new()).unwrap();
    assert_eq!(loaded.units().len(), 0);
    assert!(loaded.function("f").is_none());
}
