//! Programs with the rarer things of CLIF and of modules, through a `JITModule` and through every way of a
//! [`CachingModule`]: the same results, declarations and errors, and nothing compiled twice.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cachelift::code::CachingModule;
use cachelift::config::Config;
use cachelift::store::Store;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{
    DataDescription, FuncId, FuncOrDataId, Linkage, Module, ModuleError, ModuleResult,
    default_libcall_names,
};

use crate::support::{link, name, parse};

/// Makes one kind of module.
type Make = fn(JITBuilder, Store) -> CachingModule;
/// Declares and defines everything, last to first if told so.
type Build = fn(&mut dyn Module, bool) -> ModuleResult<()>;
type Flags = [(&'static str, &'static str)];

struct Case {
    name: &'static str,
    flags: &'static Flags,
    build: Build,
    /// Functions that take and return one 64-bit integer, and what they are called with.
    calls: &'static [(&'static str, i64)],
    /// What comes out: the results, or what the error or the panic says.
    gives: Result<&'static [i64], &'static str>,
}

extern "C" fn triple(x: i64) -> i64 {
    3 * x
}

static WORDS: [i64; 4] = [100, 101, 102, 103];

fn builder(flags: &Flags) -> JITBuilder {
    let mut all = vec![("opt_level", "speed"), ("preserve_frame_pointers", "true")];
    all.extend(flags);
    let mut builder = JITBuilder::with_flags(&all, default_libcall_names()).unwrap();
    builder.symbol("triple", triple as *const u8);
    builder.symbol("words", WORDS.as_ptr().cast());
    builder
}

/// Declares and defines the functions of a text with a linkage for each.
fn functions(
    mut module: &mut dyn Module,
    reversed: bool,
    linkage: fn(&str) -> Linkage,
    text: &str,
) -> ModuleResult<Vec<FuncId>> {
    let mut functions = parse(text);
    if reversed {
        functions.reverse();
    }
    let mut ids = Vec::new();
    for function in &functions {
        let name = name(function);
        ids.push(module.declare_function(&name, linkage(&name), &function.signature)?);
    }
    let mut context = module.make_context();
    for (mut function, id) in functions.into_iter().zip(&ids) {
        link(&mut module, &mut function);
        module.clear_context(&mut context);
        context.func = function;
        module.define_function(*id, &mut context)?;
    }
    Ok(ids)
}

fn exported(module: &mut dyn Module, reversed: bool, text: &str) -> ModuleResult<()> {
    functions(module, reversed, |_| Linkage::Export, text).map(drop)
}

/// A module of either kind.
trait Jit: Module {
    fn finalize(&mut self) -> ModuleResult<()>;
    fn function(&self, id: FuncId) -> *const u8;
}

impl Jit for JITModule {
    fn finalize(&mut self) -> ModuleResult<()> {
        self.finalize_definitions()
    }

    fn function(&self, id: FuncId) -> *const u8 {
        self.get_finalized_function(id)
    }
}

impl Jit for CachingModule {
    fn finalize(&mut self) -> ModuleResult<()> {
        self.finalize_definitions()
    }

    fn function(&self, id: FuncId) -> *const u8 {
        self.get_finalized_function(id)
    }
}

/// What calls give, and what has been declared.
type Outcome = Result<(Vec<i64>, Vec<String>), String>;

/// What a module has declared by name, in the order of names.
fn declared(module: &impl Module) -> Vec<String> {
    let declarations = module.declarations();
    let functions = declarations.get_functions().filter_map(|(_, decl)| {
        Some(format!("{:?}: {:?} {}", decl.name.as_ref()?, decl.linkage, decl.signature))
    });
    let data = declarations.get_data_objects().filter_map(|(_, decl)| {
        Some(format!("{:?}: {:?} {}", decl.name.as_ref()?, decl.linkage, decl.writable))
    });
    let mut all: Vec<_> = functions.chain(data).collect();
    all.sort();
    all
}

/// What a module gives that `build` builds into.
fn run<M: Jit>(
    case: &Case,
    make: impl FnOnce() -> M,
    build: impl FnOnce(&mut M) -> ModuleResult<()>,
) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut module = make();
        build(&mut module)?;
        module.finalize()?;
        let call = |&(name, x): &(&str, i64)| {
            let Some(FuncOrDataId::Func(id)) = module.get_name(name) else { panic!("no {name}") };
            // SAFETY: the cases' functions that are called have this signature, and touch no memory but their own.
            let function: extern "C" fn(i64) -> i64 =
                unsafe { std::mem::transmute(module.function(id)) };
            function(x)
        };
        Ok((case.calls.iter().map(call).collect(), declared(&module)))
    }));
    match outcome {
        Ok(result) => result.map_err(|error: ModuleError| format!("{error:?}")),
        Err(panic) => Err(panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without text")
            .to_owned()),
    }
}

/// How a case gets into a [`CachingModule`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    OneByOne,
    Reversed,
    AsGroup,
    AsImage,
}

fn check(case: &Case) {
    let plain =
        run(case, || JITModule::new(builder(case.flags)), |module| (case.build)(module, false));
    match (&plain, &case.gives) {
        (Ok((got, _)), Ok(expected)) => assert_eq!(got, expected, "{}", case.name),
        (Err(error), Err(part)) => {
            assert!(error.contains(part), "{}: {error:?} has no {part:?}", case.name);
        }
        _ => panic!("{}: {plain:?}, not {:?}", case.name, case.gives),
    }
    let dir = tempfile::tempdir().unwrap();
    let config = || Config::default().dir(dir.path().join("cache"));
    let makes: [(&str, Make); 2] =
        [("new", CachingModule::new), ("code_only", CachingModule::code_only)];
    for (kind, make) in makes {
        let once = |store: &Store, how| {
            let key = store.key("alike").str("case", case.name).str("kind", kind).finish();
            let build = |module: &mut CachingModule| match how {
                How::OneByOne => (case.build)(module, false),
                How::Reversed => (case.build)(module, true),
                How::AsGroup => {
                    module.with_key(&key, |module| (case.build)(module, false)).map(drop)
                }
                How::AsImage => {
                    module.with_image(&key, |module| (case.build)(module, false)).map(drop)
                }
            };
            let got = run(case, || make(builder(case.flags), store.clone()), build);
            assert_eq!(got, plain, "{}: {kind}, {how:?}", case.name);
        };
        for how in [How::OneByOne, How::AsGroup, How::AsImage] {
            let store = Store::open(config());
            for _ in 0..2 {
                once(&store, how);
            }
        }
        let warm = Store::open(config());
        for how in [How::OneByOne, How::Reversed, How::AsGroup, How::AsImage] {
            once(&warm, how);
        }
        if plain.is_ok() {
            assert_eq!(warm.stats().made, 0, "{}: {kind}", case.name);
        }
        let audited = Store::open(config().audit(true));
        for how in [How::OneByOne, How::Reversed, How::AsGroup, How::AsImage] {
            once(&audited, how);
        }
        let reasons = warm.stats().reasons;
        assert!(!reasons.contains_key("unusable"), "{}: {kind}: {reasons:?}", case.name);
    }
}

fn all(cases: &[Case]) {
    for case in cases {
        check(case);
    }
}

fn linkage(name: &str) -> Linkage {
    match name.split('_').next() {
        Some("local") => Linkage::Local,
        Some("hidden") => Linkage::Hidden,
        Some("weak") => Linkage::Preemptible,
        _ => Linkage::Export,
    }
}

/// Calling conventions, with more arguments and results than there are registers; structs by value; results by pointer.
/// Kills: one signature for all functions of a group.
#[test]
fn calling_conventions() {
    let many = |module: &mut dyn Module, reversed| {
        for conv in ["system_v", "fast", "tail", "windows_fastcall"] {
            let text = format!(
                "function %many_{conv}(i64, i32, f64, i8, i64, i64, i64, i64, f32, i64) -> i64, f64 {conv} {{
                 block0(v0: i64, v1: i32, v2: f64, v3: i8, v4: i64, v5: i64, v6: i64, v7: i64, v8: f32, v9: i64):
                    v10 = sextend.i64 v1  v11 = uextend.i64 v3  v12 = isub v0, v10  v13 = imul v11, v4
                    v14 = iadd v12, v13  v15 = isub v5, v6  v16 = imul v15, v7  v17 = iadd v14, v16  v18 = iadd v17, v9
                    v19 = fpromote.f64 v8  v20 = fsub v2, v19  return v18, v20 }}
                 function %call_{conv}(i64) -> i64 system_v {{
                    fn0 = colocated %many_{conv}(i64, i32, f64, i8, i64, i64, i64, i64, f32, i64) -> i64, f64 {conv}
                 block0(v0: i64):
                    v1 = iconst.i32 -3  v2 = f64const 0x1.8p4  v3 = iconst.i8 200  v4 = iconst.i64 11
                    v5 = f32const 0x1.0p2
                    v6, v7 = call fn0(v0, v1, v2, v3, v4, v0, v4, v4, v5, v0)
                    v8 = fcvt_to_sint.i64 v7  v9 = iadd v6, v8  return v9 }}"
            );
            functions(module, reversed, linkage, &text)?;
        }
        Ok(())
    };
    all(&[
        Case {
            name: "conventions",
            // Two results, one of them in a float register, are more than the last one has room for.
            flags: &[
                ("enable_llvm_abi_extensions", "true"),
                ("enable_multi_ret_implicit_sret", "true"),
            ],
            build: many,
            calls: &[
                ("call_system_v", 5),
                ("call_fast", 5),
                ("call_tail", 5),
                ("call_windows_fastcall", 5),
            ],
            gives: Ok(&[2167, 2167, 2167, 2167]),
        },
        Case {
            name: "structs and results by pointer",
            flags: &[],
            build: |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %take(i64, i64 sarg(24)) -> i64 system_v {
                     block0(v0: i64, v1: i64): v2 = load.i64 v1 v3 = load.i64 v1+16 v4 = imul v2, v3 v5 = iadd v4, v0 return v5 }
                     function %give(i64 sret, i64) system_v {
                     block0(v0: i64, v1: i64): store v1, v0 v2 = bnot v1 store v2, v0+8 return }
                     function %main(i64) -> i64 system_v { ss0 = explicit_slot 24, align = 16 ss1 = explicit_slot 16
                        fn0 = %take(i64, i64 sarg(24)) -> i64 system_v fn1 = colocated %give(i64 sret, i64) system_v
                     block0(v0: i64):
                        v1 = stack_addr.i64 ss0  v2 = iconst.i64 7  store v0, v1  store v2, v1+16
                        v3 = call fn0(v2, v1)  v4 = stack_addr.i64 ss1  call fn1(v4, v3)
                        v5 = load.i64 v4+8  return v5 }",
                )
            },
            calls: &[("main", 6)],
            gives: Ok(&[!49]),
        },
        Case {
            name: "tail calls with more arguments than registers",
            flags: &[],
            build: |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %nine(i64, i64, i64, i64, i64, i64, i64, i64, i64) -> i64 tail {
                     block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64, v6: i64, v7: i64, v8: i64):
                        v9 = isub v0, v8  v10 = isub v7, v1  v11 = imul v9, v10  return v11 }
                     function %two(i64, i64) -> i64 tail {
                        sig0 = (i64, i64, i64, i64, i64, i64, i64, i64, i64) -> i64 tail
                        fn0 = %nine sig0
                     block0(v0: i64, v1: i64):
                        v2 = func_addr.i64 fn0
                        return_call_indirect sig0, v2(v0, v1, v0, v0, v0, v0, v0, v0, v1) }
                     function %main(i64) -> i64 system_v { fn0 = colocated %two(i64, i64) -> i64 tail
                     block0(v0: i64): v1 = iconst.i64 1 v2 = call fn0(v0, v1) return v2 }",
                )
            },
            calls: &[("main", 10)],
            gives: Ok(&[81]),
        },
    ]);
}

/// Jump tables, atomics, 128-bit integers, vectors, slots, the frame: what needs tables, pools or frames of its own.
/// Kills: what is added to an address left out.
#[test]
fn instructions_with_tables_pools_and_frames() {
    all(&[
        Case {
            name: "jump table",
            flags: &[],
            build: |module, reversed| {
                let blocks: String = (1..40)
                    .map(|n| format!("block{n}: v{n} = iconst.i64 {} return v{n}\n", n * n))
                    .collect();
                let table: Vec<_> = (1..40).map(|n| format!("block{n}")).collect();
                let text = format!(
                    "function %main(i64) -> i64 system_v {{
                     block0(v0: i64): v100 = ireduce.i32 v0 br_table v100, block40, [{}]
                     {blocks} block40: v101 = iconst.i64 -1 return v101 }}",
                    table.join(", ")
                );
                exported(module, reversed, &text)
            },
            calls: &[("main", 0), ("main", 38), ("main", 39), ("main", -1)],
            gives: Ok(&[1, 1521, -1, -1]),
        },
        Case {
            name: "atomics",
            flags: &[],
            build: |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %main(i64) -> i64 system_v { ss0 = explicit_slot 8, align = 8
                     block0(v0: i64):
                        v1 = stack_addr.i64 ss0  v2 = iconst.i64 5  atomic_store v2, v1
                        v3 = atomic_rmw.i64 add v1, v0  v4 = atomic_rmw.i64 nand v1, v0  v5 = atomic_rmw.i64 smax v1, v2
                        v6 = atomic_cas v1, v2, v0  fence  v7 = atomic_load.i64 v1
                        v8 = isub v7, v6  v9 = iadd v4, v5  v10 = iadd v8, v9  v11 = iadd v10, v3  return v11 }",
                )
            },
            calls: &[("main", 12), ("main", -4)],
            gives: Ok(&[28, -4]),
        },
        Case {
            name: "i128",
            flags: &[("enable_llvm_abi_extensions", "true")],
            build: |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %wide(i128, i128) -> i128 system_v {
                     block0(v0: i128, v1: i128): v2 = imul v0, v1 v3 = iconst.i64 65 v4 = uextend.i128 v3
                        v5 = rotl v2, v4 v6 = isub v5, v1 return v6 }
                     function %main(i64) -> i64 system_v { fn0 = colocated %wide(i128, i128) -> i128 system_v
                     block0(v0: i64): v1 = sextend.i128 v0 v2 = call fn0(v1, v1) v3, v4 = isplit v2 v5 = bxor v3, v4 return v5 }",
                )
            },
            calls: &[("main", 3), ("main", 1 << 40)],
            gives: Ok(&[-20, 1_099_511_496_703]),
        },
        Case {
            name: "vectors",
            flags: &[],
            build: |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %main(i64) -> i64 system_v {
                     block0(v0: i64):
                        v1 = splat.i64x2 v0  v2 = vconst.i64x2 [10 20]  v3 = iadd v1, v2
                        v4 = bitcast.i8x16 little v3  v5 = vconst.i8x16 [15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0]
                        v6 = shuffle v4, v5, [0 17 2 3 4 5 6 7 8 9 10 11 12 13 14 15]
                        v7 = swizzle v4, v5  v8 = bxor v6, v7  v9 = bitcast.i64x2 little v8
                        v10 = extractlane v9, 0  v11 = popcnt v10  v12 = vhigh_bits.i64 v4  v13 = iadd v11, v12  return v13 }",
                )
            },
            calls: &[("main", 1000), ("main", -1)],
            gives: Ok(&[273, 8]),
        },
        Case {
            name: "frame and pinned register",
            flags: &[("enable_pinned_reg", "true"), ("enable_nan_canonicalization", "true")],
            build: |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %inner(i64) -> i64 system_v { ss0 = explicit_slot 70000
                     block0(v0: i64): v1 = stack_addr.i64 ss0+69992 store v0, v1 v2 = get_frame_pointer.i64
                        v3 = get_stack_pointer.i64 v4 = icmp ugt v2, v3 v5 = uextend.i64 v4 v6 = load.i64 v1
                        v7 = iadd v5, v6 return v7 }
                     function %main(i64) -> i64 system_v { fn0 = %inner(i64) -> i64 system_v
                     block0(v0: i64): v9 = get_pinned_reg.i64 set_pinned_reg v0 v1 = call fn0(v0) v2 = get_pinned_reg.i64
                        set_pinned_reg v9 v3 = imul v1, v2 return v3 }",
                )
            },
            calls: &[("main", 6)],
            gives: Ok(&[42]),
        },
        Case {
            name: "limit of the stack",
            flags: &[],
            build: |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %limited(i64 vmctx, i64) -> i64 system_v { gv0 = vmctx gv1 = load.i64 notrap aligned gv0
                        stack_limit = gv1 ss0 = explicit_slot 400
                     block0(v0: i64, v1: i64): v4 = stack_addr.i64 ss0 store v1, v4 v2 = load.i64 v4 v3 = iadd v2, v2 return v3 }
                     function %main(i64) -> i64 system_v { ss0 = explicit_slot 8 fn0 = colocated %limited(i64 vmctx, i64) -> i64 system_v
                     block0(v0: i64): v1 = iconst.i64 0 v2 = stack_addr.i64 ss0 store v1, v2 v3 = call fn0(v2, v0) return v3 }",
                )
            },
            calls: &[("main", 21)],
            gives: Ok(&[42]),
        },
        Case {
            name: "floats of all sizes",
            flags: &[("enable_llvm_abi_extensions", "true")],
            build: |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %main(i64) -> i64 system_v {
                     block0(v0: i64): v1 = fcvt_from_sint.f64 v0 v2 = f64const 0x1.5555555555555p-2 v3 = fmul v1, v2
                        v4 = ceil v3 v5 = fdemote.f32 v4 v6 = f32const 0x1.4p1 v7 = fma v5, v6, v6 v8 = nearest v7
                        v9 = fcvt_to_sint_sat.i64 v8 return v9 }",
                )
            },
            calls: &[("main", 10), ("main", -10)],
            gives: Ok(&[12, -5]),
        },
    ]);
}

/// Data: of the host, hidden and local ones, with offsets on both sides, in rings, in their own sections, at a page.
/// Kills: the sum on an address in data left out of a group.
#[test]
fn data_of_all_kinds() {
    let build: Build = |module, reversed| {
        let words = module.declare_data("words", Linkage::Import, false, false)?;
        let ring = module.declare_data("hidden_ring", Linkage::Hidden, true, false)?;
        let page = module.declare_data("page", Linkage::Export, false, false)?;
        let local = module.declare_data("local_bytes", Linkage::Local, false, false)?;
        let own = parse("function %x(i64) -> i64 system_v { block0(v0: i64): return v0 }")[0]
            .signature
            .clone();
        let host = module.declare_function("triple", Linkage::Import, &own)?;
        let mut data = DataDescription::new();
        data.define(vec![0xAA; 48].into());
        let at = module.declare_data_in_data(words, &mut data);
        data.write_data_addr(0, at, 16);
        let at = module.declare_data_in_data(ring, &mut data);
        data.write_data_addr(8, at, -8);
        let at = module.declare_func_in_data(host, &mut data);
        data.write_function_addr(16, at);
        let at = module.declare_data_in_data(page, &mut data);
        data.write_data_addr(40, at, 4096);
        data.set_align(64);
        module.define_data(ring, &data)?;
        data.clear();
        data.define_zeroinit(8192);
        data.set_align(4096);
        module.define_data(page, &data)?;
        data.clear();
        data.define(Box::new([]));
        data.custom_section = Some(".own".into());
        data.used = true;
        module.define_data(local, &data)?;
        let text = "
            function %main(i64) -> i64 system_v { gv0 = symbol colocated %hidden_ring gv1 = symbol %words+8
                gv2 = symbol %page gv3 = symbol colocated %hidden_ring+40 sig0 = (i64) -> i64 system_v
            block0(v0: i64):
                v1 = symbol_value.i64 gv0  v2 = load.i64 v1  v3 = load.i64 v2
                v4 = load.i64 v1+8  v5 = isub v1, v4  v6 = load.i64 v1+16  v7 = call_indirect sig0, v6(v0)
                v8 = symbol_value.i64 gv1  v9 = load.i64 v8  v10 = symbol_value.i64 gv2  v11 = symbol_value.i64 gv3
                v12 = load.i64 v11  v13 = isub v12, v10  v14 = load.i64 v12  v15 = load.i64 v1+24
                v16 = iadd v3, v5  v17 = iadd v7, v9  v18 = iadd v13, v14  v19 = iadd v16, v17  v20 = iadd v18, v19
                v21 = bxor v20, v15  return v21 }";
        functions(module, reversed, linkage, text).map(drop)
    };
    // 102 + 8 + 3 * 5 + 101 + 4096 + 0, and every bit against the pattern.
    const GIVES: i64 = 4322 ^ i64::from_ne_bytes([0xAA; 8]);
    all(&[Case { name: "data", flags: &[], build, calls: &[("main", 5)], gives: Ok(&[GIVES]) }]);
}

/// Linkages, declarations that come first or twice, names that are odd, weak symbols that nobody defines, and addresses
/// of functions, which are the same for all who ask.
/// Kills: names cut at a NUL; a weak symbol's slot filled with something else than zero.
#[test]
fn declarations_and_names() {
    all(&[
        Case {
            name: "linkages",
            flags: &[],
            build: |module, reversed| {
                functions(
                    module,
                    reversed,
                    linkage,
                    "function %local_f(i64) -> i64 fast { block0(v0: i64): v1 = iconst.i64 2 v2 = imul v0, v1 return v2 }
                     function %hidden_f(i64) -> i64 tail { fn0 = colocated %local_f(i64) -> i64 fast
                     block0(v0: i64): v1 = call fn0(v0) v2 = iconst.i64 1 v3 = iadd v1, v2 return v3 }
                     function %weak_f(i64) -> i64 system_v { fn0 = colocated %hidden_f(i64) -> i64 tail
                     block0(v0: i64): v1 = call fn0(v0) return v1 }
                     function %main(i64) -> i64 system_v { fn0 = %weak_f(i64) -> i64 system_v
                        fn1 = %weak_none(i64) -> i64 system_v fn2 = %triple(i64) -> i64 system_v fn3 = %main(i64) -> i64 system_v
                        fn4 = colocated %main(i64) -> i64 system_v
                     block0(v0: i64):
                        v1 = call fn0(v0)  v2 = func_addr.i64 fn1  v3 = iconst.i64 0  v4 = icmp eq v2, v3
                        v5 = uextend.i64 v4  v6 = call fn2(v1)  v7 = iadd v5, v6
                        v8 = func_addr.i64 fn3  v9 = func_addr.i64 fn4  v10 = isub v8, v9  v11 = iadd v7, v10  return v11 }",
                )
                .map(drop)
            },
            calls: &[("main", 10)],
            gives: Err("can't resolve symbol weak_none"),
        },
        Case {
            name: "weak and undefined",
            flags: &[],
            build: |module, reversed| {
                let text = "function %main(i64) -> i64 system_v { fn1 = %weak_none(i64) -> i64 system_v gv0 = symbol %weak_data
                     block0(v0: i64): v2 = func_addr.i64 fn1 v3 = symbol_value.i64 gv0 v4 = iadd v2, v3 v5 = iadd v4, v0 return v5 }";
                let own = parse(text)[0].signature.clone();
                module.declare_function("weak_none", Linkage::Preemptible, &own)?;
                module.declare_data("weak_data", Linkage::Preemptible, false, false)?;
                exported(module, reversed, text)
            },
            calls: &[("main", 7)],
            gives: Ok(&[7]),
        },
        Case {
            name: "odd names",
            flags: &[],
            build: |module, reversed| {
                let text = "function %main(i64) -> i64 system_v { fn0 = colocated %x(i64) -> i64 system_v fn1 = colocated %y(i64) -> i64 system_v
                        fn2 = %z(i64) -> i64 system_v
                     block0(v0: i64): v1 = call fn0(v0) v2 = call fn1(v1) v3 = call fn2(v2) return v3 }";
                let own = parse(text)[0].signature.clone();
                let mut context = module.make_context();
                let mut names = ["nul\0one", "nul\0two", "", "ünï→🦀", "memcpy"];
                if reversed {
                    names.reverse();
                }
                for odd in names {
                    let id = module.declare_function(odd, Linkage::Export, &own)?;
                    let n = odd.len() as i64 + i64::from(odd.ends_with("two"));
                    let text = format!(
                        "function %x(i64) -> i64 system_v {{ block0(v0: i64): v1 = iconst.i64 10 v2 = imul v0, v1
                         v3 = iconst.i64 {n} v4 = iadd v2, v3 return v4 }}"
                    );
                    context.func = parse(&text).remove(0);
                    module.define_function(id, &mut context)?;
                    module.clear_context(&mut context);
                }
                let callees = ["nul\0two", "ünï→🦀", ""];
                let mut main = parse(text).remove(0);
                for (n, odd) in callees.into_iter().enumerate() {
                    let Some(FuncOrDataId::Func(id)) = module.get_name(odd) else {
                        panic!("{odd:?}")
                    };
                    let user = cranelift_codegen::ir::UserExternalName::new(0, id.as_u32());
                    let user = main.params.ensure_user_func_name(user);
                    let at = cranelift_codegen::ir::FuncRef::from_u32(n as u32);
                    main.dfg.ext_funcs[at].name = cranelift_codegen::ir::ExternalName::User(user);
                }
                let id = module.declare_function("main", Linkage::Export, &own)?;
                context.func = main;
                module.define_function(id, &mut context)
            },
            calls: &[("main", 1), ("nul\0one", 1), ("memcpy", 1)],
            gives: Ok(&[1920, 17, 16]),
        },
        Case {
            name: "declared twice",
            flags: &[],
            build: |module, reversed| {
                let text =
                    "function %f(i64) -> i64 system_v { block0(v0: i64): v1 = ineg v0 return v1 }
                     function %main(i64) -> i64 system_v { fn0 = %f(i64) -> i64 system_v
                     block0(v0: i64): v1 = call fn0(v0) return v1 }";
                let own = parse(text)[0].signature.clone();
                let first = module.declare_function("f", Linkage::Import, &own)?;
                let second = module.declare_function("f", Linkage::Local, &own)?;
                assert_eq!(first, second);
                module.declare_function("never", Linkage::Import, &own)?;
                module.declare_data("never either", Linkage::Import, true, false)?;
                functions(module, reversed, |_| Linkage::Hidden, text).map(drop)
            },
            calls: &[("main", 7)],
            gives: Ok(&[-7]),
        },
    ]);
}

/// Mistakes: what a `JITModule` says of them is said.
/// Kills: a second definition let through, or compiled before it is refused, in an image or out of it.
#[test]
fn mistakes_of_all_kinds() {
    const GOOD: &str = "function %f(i64) -> i64 system_v { block0(v0: i64): return v0 }";
    const BAD: &str =
        "function %f(i64) -> i64 system_v { block0(v0: i64): v1 = iconst.i8 1 return v1 }";
    let case = |name, build: Build, says| Case {
        name,
        flags: &[],
        build,
        calls: &[("f", 1)],
        gives: Err(says),
    };
    all(&[
        case(
            "defined twice",
            |module, reversed| {
                exported(module, reversed, GOOD)?;
                exported(module, reversed, GOOD)
            },
            "DuplicateDefinition(\"f\")",
        ),
        case(
            "the second one wrong",
            |module, reversed| {
                exported(module, reversed, GOOD)?;
                exported(module, reversed, BAD)
            },
            "DuplicateDefinition(\"f\")",
        ),
        case(
            "by bytes and by CLIF",
            |module, reversed| {
                let own = parse(GOOD)[0].signature.clone();
                let id = module.declare_function("f", Linkage::Export, &own)?;
                module.define_function_bytes(id, 1, &[0xC3], &[])?;
                exported(module, reversed, BAD)
            },
            "DuplicateDefinition(\"f\")",
        ),
        case(
            "by CLIF and by bytes",
            |module, reversed| {
                exported(module, reversed, GOOD)?;
                let Some(FuncOrDataId::Func(id)) = module.get_name("f") else { panic!("no f") };
                module.define_function_bytes(id, 1, &[0xC3], &[])
            },
            "DuplicateDefinition(\"f\")",
        ),
        case("wrong", |module, reversed| exported(module, reversed, BAD), "Compilation(Verifier("),
        case(
            "another signature",
            |module, reversed| {
                exported(module, reversed, GOOD)?;
                exported(
                    module,
                    reversed,
                    "function %f(i32) -> i64 system_v { block0(v0: i32): v1 = uextend.i64 v0 return v1 }",
                )
            },
            "IncompatibleSignature(\"f\"",
        ),
        case(
            "function and data",
            |module, reversed| {
                exported(module, reversed, GOOD)?;
                module.declare_data("f", Linkage::Import, false, false).map(drop)
            },
            "IncompatibleDeclaration(\"f\")",
        ),
        case(
            "data twice",
            |module, _| {
                let id = module.declare_data("d", Linkage::Export, false, false)?;
                let mut data = DataDescription::new();
                data.define_zeroinit(8);
                module.define_data(id, &data)?;
                module.define_data(id, &data)
            },
            "DuplicateDefinition(\"d\")",
        ),
        case(
            "imported data defined",
            |module, _| {
                let id = module.declare_data("d", Linkage::Import, false, false)?;
                let mut data = DataDescription::new();
                data.define_zeroinit(8);
                module.define_data(id, &data)
            },
            "InvalidImportDefinition(\"d\")",
        ),
        case(
            "thread-local data",
            |module, _| module.declare_data("d", Linkage::Export, true, true).map(drop),
            "JIT doesn't yet support TLS",
        ),
        case(
            "thread-local value",
            |module, reversed| {
                module.declare_data("d", Linkage::Export, true, false)?;
                exported(
                    module,
                    reversed,
                    "function %f(i64) -> i64 system_v { gv0 = symbol colocated tls %d
                block0(v0: i64): v1 = tls_value.i64 gv0 return v1 }",
                )
            },
            "Unsupported",
        ),
        case(
            "declared and never defined",
            |module, reversed| {
                let own = parse(GOOD)[0].signature.clone();
                module.declare_function("missing", Linkage::Local, &own)?;
                exported(module, reversed, "function %f(i64) -> i64 system_v { fn0 = colocated %missing(i64) -> i64 system_v
                block0(v0: i64): v1 = call fn0(v0) return v1 }")
            },
            "can't resolve symbol missing",
        ),
        case(
            "a compiler that panics",
            |module, reversed| {
                exported(
                    module,
                    reversed,
                    "function %wide(i128) -> i128 system_v { block0(v0: i128): v1 = udiv v0, v0 return v1 }",
                )
            },
            "not supported unless LLVM ABI extensions",
        ),
    ]);
}
