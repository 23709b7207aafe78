//! What works with a `JITModule` works, and the second time nothing is compiled.

use cachelift::code::{CachingModule, CodeError};
use cranelift_codegen::ir::{InstBuilder, types::I64};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{ArenaMemoryProvider, JITMemoryKind, JITMemoryProvider, JITModule};
use cranelift_module::{DataDescription, Linkage, Module, ModuleError};

use crate::support::{both, builder, call, define, define_with, link, parse, signature, store};

const EVEN_AND_ODD: &str = concat!(
    include_str!("../common/even_and_odd.clif"),
    "
function %sum(i64) -> i64 system_v {
    fn0 = colocated %sum_tail(i64, i64) -> i64 tail
block0(v0: i64):
    v1 = iconst.i64 0
    v2 = call fn0(v0, v1)
    return v2
}
function %sum_tail(i64, i64) -> i64 tail {
    fn0 = colocated %sum_tail(i64, i64) -> i64 tail
block0(v0: i64, v1: i64):
    brif v0, block1, block2
block1:
    v2 = iadd v1, v0
    v103 = iconst.i64 -1 v3 = iadd v0, v103
    return_call fn0(v3, v2)
block2:
    return v1
}
function %many(i64) -> i64 system_v {
    fn0 = %even(i64) -> i64 system_v
    fn1 = colocated %odd(i64) -> i64 system_v
    fn2 = %sum(i64) -> i64 system_v
    fn3 = %many(i64) -> i64 system_v
block0(v0: i64):
    v1 = func_addr.i64 fn0
    v2 = call fn0(v0)
    v3 = call fn1(v0)
    v4 = call fn2(v0)
    v5 = func_addr.i64 fn3
    v6 = isub v5, v5
    v107 = iconst.i64 10 v7 = imul v3, v107
    v108 = iconst.i64 100 v8 = imul v4, v108
    v9 = iadd v2, v7
    v10 = iadd v8, v9
    v11 = iadd v10, v6
    return v11
}"
);

/// Recursion, mutual recursion, tail calls, several callees, near and far. Mutant seen: every
/// reference taken for the first.
#[test]
fn calls_of_all_kinds() {
    let store = store();
    for round in 0..2 {
        for reversed in [false, true] {
            for mut module in both(&store) {
                let before = store.stats().made;
                define_with(&mut module, EVEN_AND_ODD, reversed, |_| {}).unwrap();
                module.finalize_definitions().unwrap();
                assert_eq!((call(&module, "even", 7), call(&module, "odd", 7)), (0, 1));
                assert_eq!(call(&module, "even", 10), 1);
                assert_eq!(call(&module, "sum", 1000), 500_500);
                assert_eq!(call(&module, "many", 4), 1001);
                if round > 0 || reversed {
                    assert_eq!(store.stats().made, before, "all is found, in any order");
                }
                // SAFETY: nothing of it is called any more.
                unsafe { module.free_memory() };
            }
        }
    }
    assert_eq!(store.stats().reasons.get("unusable"), None);
}

/// After a hit `compiled_code` is there as after a compile, in every part of it; or, in a module for code alone, not
/// there at all. Mutants seen: the context's own parameters exchanged too; what was there before left there.
#[test]
fn compiled_code_is_there_after_a_hit() {
    let text = "
        function %a(i64) -> i64 { ss0 = explicit_slot 64
        block0(v0: i64): @0011 v1 = sdiv v0, v0  @0022 v2 = stack_addr.i64 ss0
            store v1, v2  @0033 v3 = load.i64 v2 return v3 }
        function %b() -> f64 { fn0 = %a(i64) -> i64
        block0: @0101 v0 = iconst.i64 4  @0102 v1 = call fn0(v0) v2 = f64const 0x1.8p1 return v2 }";
    let store = store();
    let all = |module: &mut CachingModule| {
        let mut seen = Vec::new();
        define_with(module, text, false, |context| seen.push(context.compiled_code().cloned()))
            .unwrap();
        seen
    };
    let plain = {
        let mut seen = Vec::new();
        let mut module = JITModule::new(builder());
        define_with(&mut module, text, false, |c| seen.push(c.compiled_code().cloned())).unwrap();
        seen
    };
    assert!(plain[0].as_ref().unwrap().buffer.get_srclocs_sorted().len() > 1);
    for made in [2, 0] {
        let before = store.stats().made;
        assert_eq!(all(&mut CachingModule::new(builder(), store.clone())), plain);
        assert_eq!(store.stats().made - before, made);
    }
    let mut module = CachingModule::code_only(builder(), store.clone());
    assert_eq!(all(&mut module), plain);
    let before = store.stats().made;
    let mut seen = Vec::new();
    let new = format!("function %new() -> i8 {{ block0: v0 = iconst.i8 1 return v0 }} {text}");
    let mut module = CachingModule::code_only(builder(), store.clone());
    define_with(&mut module, &new, false, |c| seen.push(c.compiled_code().is_some())).unwrap();
    assert_eq!(seen, [true, false, false], "the new one's code is not taken for the others'");
    assert_eq!(store.stats().made - before, 1);
}

/// Data, addresses of functions and data in data, data that functions read and write, anonymous data.
#[test]
fn data_and_addresses_in_data() {
    let store = store();
    for round in 0..2 {
        for mut module in both(&store) {
            if round > 0 {
                // Other ids.
                module.declare_data("padding", Linkage::Import, false, false).unwrap();
            }
            let table = module.declare_data("table", Linkage::Export, true, false).unwrap();
            let other = module.declare_anonymous_data(false, false).unwrap();
            let before = store.stats().made;
            let text = "
                function %twice(i64) -> i64 system_v { block0(v0: i64): v1 = iadd v0, v0 return v1 }
                function %through(i64) -> i64 system_v {
                    gv0 = symbol colocated %table
                    sig0 = (i64) -> i64 system_v
                block0(v0: i64):
                    v1 = symbol_value.i64 gv0
                    v2 = load.i64 v1
                    v3 = call_indirect sig0, v2(v0)
                    v4 = load.i64 v1+8
                    v5 = load.i64 v4
                    v6 = iadd v3, v5
                    v7 = load.i64 v1+16
                    v108 = iconst.i64 1 v8 = iadd v7, v108
                    store v8, v1+16
                    v9 = iadd v6, v8
                    return v9
                }";
            let ids = define(&mut module, text);
            let mut data = DataDescription::new();
            data.define(1000_i64.to_le_bytes().into());
            data.set_align(64);
            module.define_data(other, &data).unwrap();
            data.clear();
            data.define_zeroinit(24);
            let function = module.declare_func_in_data(ids[0], &mut data);
            data.write_function_addr(0, function);
            let object = module.declare_data_in_data(other, &mut data);
            data.write_data_addr(8, object, 0);
            module.define_data(table, &data).unwrap();
            module.finalize_definitions().unwrap();
            assert_eq!(call(&module, "through", 21), 42 + 1000 + 1);
            assert_eq!(call(&module, "through", 21), 42 + 1000 + 2);
            let (at, size) = module.get_finalized_data(table);
            assert_eq!((size, at), (24, module.get_address(&table.into())));
            assert_eq!(module.get_finalized_data(other).0.addr() % 64, 0);
            if round > 0 {
                assert_eq!(store.stats().made, before);
            }
        }
    }
}

/// Every library routine that this module can be asked for, on a CPU that has none of the instructions.
#[test]
fn library_routines() {
    use cranelift_codegen::settings;
    let plain = || {
        let isa = cranelift_native::builder_with_options(false).unwrap();
        let isa = isa.finish(settings::Flags::new(settings::builder())).unwrap();
        cranelift_jit::JITBuilder::with_isa(isa, cranelift_module::default_libcall_names())
    };
    let mut text = String::new();
    for name in ["ceil", "floor", "trunc", "nearest"] {
        for (short, ty) in [("d", "f64"), ("s", "f32")] {
            text += &format!(
                "function %{name}_{short}({ty}) -> {ty} system_v {{ block0(v0: {ty}): v1 = {name} v0 return v1 }}\n"
            );
        }
    }
    text +=
        "function %fma_d(f64) -> f64 system_v { block0(v0: f64): v1 = fma v0, v0, v0 return v1 }
        function %fma_s(f32) -> f32 system_v { block0(v0: f32): v1 = fma v0, v0, v0 return v1 }
        function %mem(i64) -> i64 system_v {
            fn0 = %Memcpy(i64, i64, i64) -> i64 system_v
            fn1 = %Memset(i64, i32, i64) -> i64 system_v
            fn2 = %Memmove(i64, i64, i64) -> i64 system_v
            fn3 = %Memcmp(i64, i64, i64) -> i32 system_v
            ss0 = explicit_slot 16
            ss1 = explicit_slot 16
        block0(v0: i64):
            v1 = stack_addr.i64 ss0
            v2 = stack_addr.i64 ss1
            store v0, v1
            v3 = iconst.i64 8
            v4 = call fn0(v2, v1, v3)
            v5 = iconst.i32 1
            v6 = iconst.i64 2
            v7 = call fn1(v2, v5, v6)
            v108 = iconst.i64 4 v8 = iadd v2, v108
            v9 = call fn2(v8, v2, v6)
            v10 = call fn3(v1, v1, v3)
            v11 = load.i64 v2
            v12 = sextend.i64 v10
            v13 = iadd v11, v12
            return v13
        }";
    let store = store();
    for round in 0..2 {
        for mut module in [
            CachingModule::new(plain(), store.clone()),
            CachingModule::code_only(plain(), store.clone()),
        ] {
            let before = store.stats().made;
            define(&mut module, &text);
            module.finalize_definitions().unwrap();
            assert_eq!(store.stats().made - before, if round > 0 { 0 } else { 11 });
            let wide = |name: &str, x: f64| {
                // SAFETY: such functions were defined above.
                let function: extern "C" fn(f64) -> f64 =
                    unsafe { std::mem::transmute(crate::support::address(&module, name)) };
                function(x)
            };
            let narrow = |name: &str, x: f32| {
                // SAFETY: such functions were defined above.
                let function: extern "C" fn(f32) -> f32 =
                    unsafe { std::mem::transmute(crate::support::address(&module, name)) };
                function(x)
            };
            for x in [2.5, -2.5, 1.25, -0.5, 1e300] {
                assert_eq!(wide("ceil_d", x), x.ceil());
                assert_eq!(wide("floor_d", x), x.floor());
                assert_eq!(wide("trunc_d", x), x.trunc());
                assert_eq!(wide("nearest_d", x), x.round_ties_even());
                assert_eq!(wide("fma_d", x), x.mul_add(x, x));
                let x = x as f32;
                assert_eq!(narrow("ceil_s", x), x.ceil());
                assert_eq!(narrow("floor_s", x), x.floor());
                assert_eq!(narrow("trunc_s", x), x.trunc());
                assert_eq!(narrow("nearest_s", x), x.round_ties_even());
                assert_eq!(narrow("fma_s", x), x.mul_add(x, x));
            }
            assert_eq!(call(&module, "mem", 0x1122_3344_5566_7788), 0x1122_0101_5566_0101);
        }
    }
}

/// Memory of which every piece is 4 GiB from the one before.
pub(crate) struct Scattered(pub(crate) Vec<ArenaMemoryProvider>);

impl JITMemoryProvider for Scattered {
    fn allocate(
        &mut self,
        size: usize,
        align: u64,
        kind: JITMemoryKind,
    ) -> std::io::Result<*mut u8> {
        // An arena reserves its size and touches only what is used.
        let mut arena =
            ArenaMemoryProvider::new_with_size(4 << 30).map_err(std::io::Error::other)?;
        let at = arena.allocate(size, align, kind);
        self.0.push(arena);
        at
    }

    unsafe fn free_memory(&mut self) {
        // SAFETY: as the caller promises.
        self.0.drain(..).for_each(|mut arena| unsafe { arena.free_memory() });
    }

    fn finalize(
        &mut self,
        protection: cranelift_jit::BranchProtection,
    ) -> cranelift_module::ModuleResult<()> {
        self.0.iter_mut().try_for_each(|arena| arena.finalize(protection))
    }
}

/// Functions and data beyond the reach of near references.
#[test]
fn far_apart() {
    let store = store();
    for round in 0..2 {
        let mut builder = builder();
        builder.memory_provider(Box::new(Scattered(Vec::new())));
        let mut module = CachingModule::new(builder, store.clone());
        let own = signature("function %x(i64) -> i64 system_v { block0(v0: i64): return v0 }");
        // What may be preempted is not taken to be near.
        for name in ["leaf", "main"] {
            module.declare_function(name, Linkage::Preemptible, &own).unwrap();
        }
        let text = "
            function %leaf(i64) -> i64 system_v { block0(v0: i64): v101 = iconst.i64 3 v1 = imul v0, v101 return v1 }
            function %main(i64) -> i64 system_v { fn0 = %leaf(i64) -> i64 system_v
            block0(v0: i64): v1 = call fn0(v0) v102 = iconst.i64 1 v2 = iadd v1, v102 return v2 }";
        let mut context = module.make_context();
        for mut function in parse(text) {
            link(&mut module, &mut function);
            let Some(cranelift_module::FuncOrDataId::Func(id)) =
                module.get_name(&crate::support::name(&function))
            else {
                panic!()
            };
            module.clear_context(&mut context);
            context.func = function;
            module.define_function(id, &mut context).unwrap();
        }
        module.finalize_definitions().unwrap();
        let [leaf, main] =
            ["leaf", "main"].map(|name| crate::support::address(&module, name).addr());
        assert!(leaf.abs_diff(main) > i32::MAX as usize, "{leaf:x} {main:x}");
        assert_eq!(call(&module, "main", 5), 16);
        assert_eq!(store.stats().made, 2, "round {round}");
        // SAFETY: nothing of it is called any more.
        unsafe { module.free_memory() };
    }
}

/// Where a `JITModule` panics: what a near reference does not reach is an error that names both, for functions that are made,
/// found, and compiled by the `JITModule` itself.
/// Kills: `check_near` not called; not noted of what is kept; not noted of what is not kept; a reach of 16 GiB.
#[test]
fn near_references_that_do_not_reach() {
    let text = "
        function %leaf(i64) -> i64 tail { block0(v0: i64): return v0 }
        function %main(i64) -> i64 system_v { fn0 = colocated %leaf(i64) -> i64 tail
        block0(v0: i64): v1 = call fn0(v0) return v1 }";
    let tries = "
        function %leaf(i64) -> i64 tail { block0(v0: i64): return v0 }
        function %main(i64) -> i64 system_v { sig0 = (i64) -> i64 tail fn0 = colocated %leaf sig0
        block0(v0: i64): try_call fn0(v0), sig0, block1(ret0), [ default: block2(exn0) ]
        block1(v1: i64): return v1
        block2(v2: i64): return v2 }";
    let store = store();
    for (round, text) in [text, text, tries].into_iter().enumerate() {
        let mut builder = builder();
        builder.memory_provider(Box::new(Scattered(Vec::new())));
        let mut module = CachingModule::new(builder, store.clone());
        define(&mut module, text);
        let error = module.finalize_definitions().unwrap_err();
        let cranelift_module::ModuleError::Backend(error) = error else { panic!("{error}") };
        match error.downcast_ref::<CodeError>() {
            Some(CodeError::Relocation { function, callee, .. }) => {
                assert_eq!((function.as_str(), callee.as_str()), ("main", "leaf"));
            }
            other => panic!("round {round}: {other:?}"),
        }
        // SAFETY: nothing of it was called.
        unsafe { module.free_memory() };
    }
}

/// The handlers of a function with `try_call` are found by a place in its code, whether anything else was found or made.
/// Kills: none given; what has handlers compiled and kept as everything else.
#[cfg(feature = "wasmtime-unwinder")]
#[test]
fn handlers_are_found_by_a_place_in_the_code() {
    let text = "
        function %leaf(i64) -> i64 tail { block0(v0: i64): return v0 }
        function %tries(i64) -> i64 system_v { sig0 = (i64) -> i64 tail fn0 = colocated %leaf sig0
        block0(v0: i64): try_call fn0(v0), sig0, block1(ret0), [ default: block2(exn0) ]
        block1(v1: i64): return v1
        block2(v2: i64): return v2 }";
    let store = store();
    for _ in 0..2 {
        for mut module in both(&store) {
            define(&mut module, text);
            module.finalize_definitions().unwrap();
            let [tries, leaf] =
                ["tries", "leaf"].map(|name| crate::support::address(&module, name).addr());
            let (start, table) = module.lookup_wasmtime_exception_data(tries + 1).unwrap();
            assert_eq!(start, tries);
            assert_eq!(table.into_iter().count(), 1);
            assert!(module.lookup_wasmtime_exception_data(leaf).is_none());
        }
    }
}

/// 50,000 instructions in one function.
#[test]
fn a_big_function() {
    let (text, expected) = crate::common::big("system_v");
    let store = store();
    for made in [2, 2] {
        for mut module in both(&store) {
            define(&mut module, &text);
            module.finalize_definitions().unwrap();
            assert_eq!(call(&module, "big", 3), expected);
        }
        assert_eq!(store.stats().made, made);
    }
}

/// What is not kept is compiled by the `JITModule`, works, and is counted under its reason.
#[test]
fn what_is_not_kept_is_counted() {
    let store = store();
    let callee = "function %callee(i64) -> i64 tail { block0(v0: i64): return v0 }";
    let text = "function %tries(i64) -> i64 system_v {
            sig0 = (i64) -> i64 tail
            fn0 = %callee sig0
        block0(v0: i64): try_call fn0(v0), sig0, block1(ret0), [ default: block2(exn0) ]
        block1(v1: i64): v102 = iconst.i64 1 v2 = iadd v1, v102 return v2
        block2(v3: i64): return v3 }";
    for times in 1..=2 {
        let mut builder = cranelift_jit::JITBuilder::with_flags(
            &[("preserve_frame_pointers", "true")],
            cranelift_module::default_libcall_names(),
        )
        .unwrap();
        builder.symbol("unused", std::ptr::null());
        let mut module = CachingModule::new(builder, store.clone());
        define(&mut module, callee);
        let before = store.stats().made;
        define(&mut module, text);
        assert_eq!(store.stats().made, before);
        assert_eq!(store.stats().reasons["try-call"], times);

        let id = module.declare_anonymous_function(&parse(callee)[0].signature).unwrap();
        let mut context = module.make_context();
        context.func = parse(callee).remove(0);
        context.set_disasm(true);
        module.define_function(id, &mut context).unwrap();
        assert!(context.compiled_code().unwrap().vcode.is_some());
        assert_eq!(store.stats().reasons["disassembly"], times);
        module.finalize_definitions().unwrap();
        assert_eq!(call(&module, "tries", 41), 42);
    }
}

extern "C" fn host(x: i64) -> i64 {
    x + 1
}

fn calls_host(module: &mut CachingModule, address: bool) {
    let mut context = module.make_context();
    context.func.signature =
        signature("function %x(i64) -> i64 system_v { block0(v0: i64): return v0 }");
    let signature = context.func.signature.clone();
    let id = module.declare_function("main", Linkage::Export, &signature).unwrap();
    let mut frontend = FunctionBuilderContext::new();
    let import = module.declare_function("host", Linkage::Import, &signature).unwrap();
    let import = module.declare_func_in_func(import, &mut context.func);
    let config = module.target_config();
    let mut b = FunctionBuilder::new(&mut context.func, &mut frontend);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let x = b.block_params(block)[0];
    let call = if address {
        let signature = b.import_signature(signature);
        let callee = b.ins().iconst(I64, host as *const () as i64);
        b.ins().call_indirect(signature, callee, &[x])
    } else {
        b.ins().call(import, &[x])
    };
    let result = b.inst_results(call)[0];
    b.ins().return_(&[result]);
    b.finalize(config);
    module.define_function(id, &mut context).unwrap();
    module.finalize_definitions().unwrap();
    assert_eq!(crate::support::call(module, "main", 41), 42);
}

/// A host address in the code is told of, when it makes a miss; with the way out, there is nothing to tell.
/// Mutant seen: indirect calls not looked at.
#[test]
fn host_addresses_are_told_of() {
    let store = store();
    for (address, told) in [(false, None), (true, Some(1)), (true, Some(1)), (false, Some(1))] {
        let mut builder = builder();
        builder.symbol("host", host as *const u8);
        calls_host(&mut CachingModule::new(builder, store.clone()), address);
        assert_eq!(store.stats().reasons.get("host-address").copied(), told);
    }
}

/// An address that is passed, or read at, is one too; a number of that size that is no address is not.
/// Mutants seen: what is passed, what is read at, and whether it is mapped not looked at.
#[test]
fn numbers_are_no_addresses() {
    let boxed = Box::new([7_i64, 8]);
    let address = boxed.as_ptr().expose_provenance();
    let passes = |n: usize| {
        format!(
            "function %f(i64) -> i64 system_v {{ fn0 = colocated %f(i64) -> i64 system_v
             block0(v0: i64): v1 = iconst.i64 {n} v2 = call fn0(v1) return v2 }}"
        )
    };
    let reads = |n: usize| {
        format!(
            "function %f(i64) -> i64 system_v {{
             block0(v0: i64): v1 = iconst.i64 {n} v2 = iadd v1, v0 v3 = load.i64 v2 return v3 }}"
        )
    };
    let adds = |n: usize| {
        format!(
            "function %f(i64) -> i64 system_v {{
             block0(v0: i64): v1 = iconst.i64 {n} v2 = iadd v1, v0 return v2 }}"
        )
    };
    // The kernel maps nothing between 0x1000_0000_0000 and where programs and libraries lie.
    let number = 0x1234_5678_9ABC;
    let cases = [
        (passes(address), 1),
        (reads(address), 2),
        (passes(number), 2),
        (reads(number), 2),
        (adds(address), 2),
    ];
    let store = store();
    for (text, told) in cases {
        define(&mut CachingModule::new(builder(), store.clone()), &text);
        assert_eq!(store.stats().reasons["host-address"], told, "{text}");
    }
    drop(boxed);
}

/// Mistakes are told as a `JITModule` tells them, and leave a module that works.
#[test]
fn mistakes() {
    let store = store();
    for mut module in both(&store) {
        let own = signature(EVEN_AND_ODD);
        let import = module.declare_function("import", Linkage::Import, &own).unwrap();
        let mut context = module.make_context();
        context.func =
            parse("function %f(i64) -> i64 system_v { block0(v0: i64): return v0 }").remove(0);
        let error = module.define_function(import, &mut context).unwrap_err();
        assert!(matches!(error, ModuleError::InvalidImportDefinition(name) if name == "import"));

        let wrong =
            "function %wrong(i64) -> i64 system_v { block0(v0: i64): v1 = iconst.i8 1 return v1 }";
        let error = define_with(&mut module, wrong, false, |_| {}).unwrap_err();
        assert!(matches!(error, ModuleError::Compilation(_)), "{error}");

        define(&mut module, EVEN_AND_ODD);
        let error = define_with(&mut module, EVEN_AND_ODD, false, |_| {}).unwrap_err();
        assert!(matches!(error, ModuleError::DuplicateDefinition(name) if name == "even"));
        module.finalize_definitions().unwrap();
        assert_eq!(call(&module, "even", 8), 1);
    }
}

/// A module that is freed takes nothing from another with the same functions.
#[test]
fn modules_are_freed_apart() {
    let store = store();
    let [mut first, mut second] = [(); 2].map(|()| CachingModule::new(builder(), store.clone()));
    for module in [&mut first, &mut second] {
        define(module, EVEN_AND_ODD);
        module.finalize_definitions().unwrap();
    }
    assert_ne!(crate::support::address(&first, "even"), crate::support::address(&second, "even"));
    // SAFETY: nothing of the first is called any more.
    unsafe { first.free_memory() };
    assert_eq!(call(&second, "many", 4), 1001);
}
