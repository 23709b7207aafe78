//! What enters a function's key, and what does not.

use std::collections::HashMap;
use std::process::Command;

use cachelift::code::{Engine, Options, Program, Target};
use cachelift::config::Config;
use cachelift::key::Key;
use cachelift::store::Store;
use cranelift_codegen::ir::{ExternalName, Function, UserExternalName};
use cranelift_codegen::settings::{self, Configurable};

use crate::support::{engine, functions, parse, program, store};

/// Six kinds of memory flags, calls, a stack slot, a jump table, a constant, traps: something of each
/// table that a function has.
const RICH: &str = "
    function %rich(i64, i32) -> i64 fast {
        ss0 = explicit_slot 16
        sig0 = (i64) -> i64 fast
        fn0 = %first(i64) -> i64 fast
        fn1 = colocated %second(i64) -> i64 fast
        const0 = 0x000102030405060708090a0b0c0d0e0f
    block0(v0: i64, v1: i32):
        v2 = load.i64 v0
        v3 = load.i64 notrap v0
        v4 = load.i64 aligned v0
        v5 = load.i64 notrap aligned v0+8
        v6 = load.i64 notrap aligned readonly v0
        v7 = load.i64 little v0
        v8 = iadd v2, v3
        v9 = iadd v4, v5
        v10 = iadd v6, v7
        v11 = vconst.i8x16 const0
        v12 = extractlane v11, 3
        v13 = uextend.i64 v12
        v14 = stack_addr.i64 ss0
        store v13, v14+8
        br_table v1, block3(v8), [block1, block2]
    block1:
        v20 = call fn0(v9)
        jump block3(v20)
    block2:
        trapz v10, user7
        v21 = call fn1(v10)
        v22 = func_addr.i64 fn0
        v23 = call_indirect sig0, v22(v21)
        jump block3(v23)
    block3(v30: i64):
        v35 = stack_addr.i64 ss0
        v31 = load.i64 v35+8
        v32 = iconst.i64 70000
        v33 = sdiv v30, v32
        v34 = iadd v33, v31
        return v34
    }";

fn rich() -> Function {
    parse(RICH).remove(0).1
}

/// The key of one function, in a program where its callees are whatever they must be.
fn key_in(engine: &Engine, name: &str, clif: Function) -> Key {
    let mut program = Program::new();
    for callee in ["first", "second"] {
        if callee != name {
            program.symbol(callee, callee.as_ptr()).unwrap();
        }
    }
    for (number, index) in [(1, 10), (2, 20)] {
        let callee = if number == 1 { "first" } else { "second" };
        program.declare(UserExternalName::new(0, index), callee).unwrap();
    }
    program.define(name, clif).unwrap();
    let loaded = engine.load(program).unwrap();
    functions(&loaded).next().unwrap().key
}

fn key_of(clif: Function) -> Key {
    key_in(&engine(), "f", clif)
}

/// Mutant: the function's name hashed with it.
#[test]
fn names_do_not_count() {
    let mut renamed = rich();
    renamed.name = cranelift_codegen::ir::UserFuncName::user(3, 4);
    assert_eq!(key_of(rich()), key_of(renamed));
    let engine = engine();
    assert_eq!(key_in(&engine, "f", rich()), key_in(&engine, "g", rich()));
    let text = RICH.replace("%first", "%second9").replace("%second(", "%first9(");
    let (_, clif) = parse(&text).remove(0);
    let mut program = Program::new();
    program.symbol("second9", std::ptr::null()).unwrap();
    program.symbol("first9", std::ptr::null()).unwrap();
    program.define("rich", clif).unwrap();
    let loaded = engine.load(program).unwrap();
    assert_eq!(functions(&loaded).next().unwrap().key, key_of(rich()));
}

/// Numbers and text for callees are the same to a key, and so are any two numbers.
/// Mutant: text left in the function, where it would be hashed.
#[test]
fn ids_do_not_count() {
    let mut numbered = rich();
    let references: Vec<_> = numbered.dfg.ext_funcs.keys().collect();
    for (reference, index) in references.into_iter().zip([10, 20]) {
        let user = numbered.declare_imported_user_function(UserExternalName::new(0, index));
        numbered.dfg.ext_funcs[reference].name = ExternalName::User(user);
    }
    assert_eq!(key_of(rich()), key_of(numbered));
}

/// The order of definition, and what else is in the program, do not count.
#[test]
fn the_program_around_a_function_does_not_count() {
    let text = "
        function %a(i64) -> i64 { fn0 = %b(i64) -> i64 block0(v0: i64): v1 = call fn0(v0) return v1 }
        function %b(i64) -> i64 { fn0 = %c(i64) -> i64 block0(v0: i64): v1 = call fn0(v0) v2 = iadd v1, v1 return v2 }
        function %c(i64) -> i64 { block0(v0: i64): v1 = imul v0, v0 return v1 }";
    let keys = |reversed: bool, pad: usize| {
        let mut program = Program::new();
        for i in 0..pad {
            program.symbol(&format!("pad{i}"), std::ptr::null()).unwrap();
        }
        let mut functions = parse(text);
        if reversed {
            functions.reverse();
        }
        for (name, clif) in functions {
            program.define(&name, clif).unwrap();
        }
        let loaded = engine().load(program).unwrap();
        loaded.units().map(|unit| (unit.name, unit.key)).collect::<HashMap<_, _>>()
    };
    assert_eq!(keys(false, 0), keys(true, 0));
    assert_eq!(keys(false, 0), keys(true, 100));
}

/// Every word of the function that shapes code shapes the key. Mutants: the stencil's hash cut off after
/// 100 bytes; its wide numbers written without the mark; the low byte of numbers only.
#[test]
fn every_change_of_the_function_counts() {
    let changes = [
        ("explicit_slot 16", "explicit_slot 32"),
        ("i32) -> i64 fast {", "i32) -> i64 system_v {"),
        ("(i64, i32) -> i64 fast {", "(i64, i32 sext) -> i64 fast {"),
        ("sig0 = (i64) -> i64 fast", "sig0 = (i64) -> i64 system_v"),
        ("fn0 = %first", "fn0 = colocated %first"),
        ("fn1 = colocated %second(i64)", "fn1 = colocated %first(i64)"),
        ("fn1 = colocated %second", "fn1 = %second"),
        ("0x0001", "0x0002"),
        ("v2 = load.i64 v0", "v2 = load.i64 v0+1"),
        ("v3 = load.i64 notrap v0", "v3 = load.i64 v0"),
        ("notrap aligned v0+8", "notrap aligned v0+264"),
        ("v6 = load.i64 notrap aligned readonly v0", "v6 = load.i64 aligned readonly v0"),
        ("v7 = load.i64 little v0", "v7 = load.i64 can_move v0"),
        ("v8 = iadd v2, v3", "v8 = iadd v3, v2"),
        ("v8 = iadd v2, v3", "v8 = isub v2, v3"),
        ("v9 = iadd v4, v5", "v9 = iadd v4, v4"),
        ("extractlane v11, 3", "extractlane v11, 4"),
        ("uextend", "sextend"),
        ("store v13, v14+8", "store v13, v14"),
        ("[block1, block2]", "[block2, block1]"),
        ("[block1, block2]", "[block1, block2, block1]"),
        ("block3(v8), [", "block3(v9), ["),
        ("trapz v10, user7", "trapz v10, user8"),
        ("trapz v10, user7", "trapnz v10, user7"),
        ("call fn0(v9)", "call fn1(v9)"),
        ("func_addr.i64 fn0", "func_addr.i64 fn1"),
        ("70000", "70001"),
        ("70000", "-1"),
        ("70000", "4464"), // 70000 - 65536
        ("sdiv", "udiv"),
        ("return v34", "return v33"),
    ];
    // Large functions are written in another way than small ones.
    let padding: String = (100..400).map(|i| format!("v{i} = iconst.i64 {i}\n")).collect();
    let entry = "block0(v0: i64, v1: i32):\n";
    let engine = engine();
    let mut seen = HashMap::new();
    for text in [RICH.into(), RICH.replace(entry, &format!("{entry}{padding}"))] {
        for (from, to) in [("block0", "block0")].into_iter().chain(changes) {
            assert_eq!(text.matches(from).count(), 1, "{from}");
            let (_, clif) = parse(&text.replace(from, to)).remove(0);
            let same = seen.insert(key_in(&engine, "f", clif), to);
            assert_eq!(same, None, "{to} has the key of another change");
        }
    }
}

/// Mutants: namespace, salt or environment left out of the context; the flags' values left out.
#[test]
fn namespace_salt_flags_and_features_count() {
    let key = |config: Config, flags: &[(&str, &str)], features: &[&str]| {
        let mut shared = settings::builder();
        for (name, value) in flags {
            shared.set(name, value).unwrap();
        }
        let mut isa = cranelift_native::builder_with_options(false).unwrap();
        for feature in features {
            isa.enable(feature).unwrap();
        }
        let isa = isa.finish(settings::Flags::new(shared)).unwrap();
        let engine = Engine::new(Store::open(config), Target::new(isa).unwrap());
        key_in(&engine, "f", rich())
    };
    let mut other_salt = Config::default();
    other_salt.salt = "a".into();
    let keys = [
        key(Config::default(), &[], &[]),
        key(Config::default().namespace("a"), &[], &[]),
        key(other_salt, &[], &[]),
        key(Config::default(), &[("opt_level", "speed")], &[]),
        key(Config::default(), &[("opt_level", "speed_and_size")], &[]),
        key(Config::default(), &[("enable_verifier", "false")], &[]),
        key(Config::default(), &[], &["has_sse3"]),
        key(Config::default(), &[], &["has_sse3", "has_ssse3"]),
    ];
    for (i, a) in keys.iter().enumerate() {
        assert!(keys[..i].iter().all(|b| a != b), "{i}");
    }
    assert_eq!(keys[0], key(Config::default(), &[("regalloc_verbose_logs", "true")], &[]));
}

/// One input has one key and one artifact in every process: other hash seeds, another folder, another
/// home, other variables. Mutant: serde's or `Debug`'s view of the memory flags hashed in.
#[test]
fn processes_agree() {
    const CHILD: &str = "CACHELIFT_TEST_KEYS_CHILD";
    let mut program = program("function %second(i64) -> i64 fast { block0(v0: i64): return v0 }");
    program.define("rich", rich()).unwrap();
    program.symbol("first", std::ptr::null()).unwrap();
    let engine = Engine::new(store(), Target::host().unwrap());
    let loaded = engine.load(program).unwrap();
    let ours: Vec<_> = loaded
        .units()
        .map(|unit| {
            let record = engine.store().get(&unit.key).unwrap();
            format!("{} {} {}", unit.name, unit.key, blake3::hash(record.payload()))
        })
        .collect();
    if std::env::var_os(CHILD).is_some() {
        println!("\n{}", ours.join("\n"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "keys::processes_agree", "--nocapture", "--test-threads=1"])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env("LANG", format!("C.{round}"))
            .env(CHILD, "1")
            .output()
            .unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        for line in &ours {
            assert!(output.lines().any(|theirs| theirs == line), "{line}\nis not in\n{output}");
        }
    }
}

/// What is kept to explain a miss names every part; the key is the same with it and without.
#[test]
fn parts_and_source_are_kept_on_demand() {
    let mut options = Options::default();
    options.keep_parts = true;
    options.keep_source = true;
    let target = Target::host().unwrap();
    let engine = Engine::with_options(store(), target.clone(), options);
    let key = key_in(&engine, "f", rich());
    assert_eq!(key, key_of(rich()));
    let meta = engine.store().get(&key).unwrap().meta();
    for name in
        ["namespace", "salt", "function", "environment.flag opt_level", "environment.sources"]
    {
        assert!(meta.parts.iter().any(|part| part.name == name), "{name}");
    }
    for part in target.parts() {
        let name = format!("environment.{}", part.name);
        let kept = meta.parts.iter().find(|kept| kept.name == name).expect(&name);
        assert!(part.value.starts_with(&kept.preview), "{name}");
    }
    let source = meta.source.unwrap();
    assert!(source.contains("fn0 = %first") && source.contains("colocated %second"), "{source}");
    assert_eq!(key_of(parse(&source).remove(0).1), key, "the source kept is the source");
    assert!(meta.label.starts_with("f(i64, i32) -> i64 fast"), "{}", meta.label);
    let plain = engine_meta();
    assert!(plain.parts.is_empty() && plain.source.is_none());
}

fn engine_meta() -> cachelift::store::Meta {
    let engine = engine();
    let key = key_in(&engine, "f", rich());
    engine.store().get(&key).unwrap().meta()
}
