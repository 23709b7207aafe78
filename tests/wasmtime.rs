//! A WebAssembly module in two processes: what the first compiles, the second loads.
#![cfg(feature = "wasmtime")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use cachelift::code::WasmtimeCache;
use cachelift::config::Config;
use cachelift::store::Store;
use wasmtime::{Engine, Instance, Module};

const DIR: &str = "CACHELIFT_TEST_WASMTIME_DIR";
const EDITED: &str = "CACHELIFT_TEST_WASMTIME_EDITED";
const FUNCTIONS: u64 = 24;

/// A module of functions that each call the one before; the last is edited, if asked.
fn module(edited: bool) -> Vec<u8> {
    let mut text =
        String::from("(module (memory 1)\n(func $f0 (param i64) (result i64) local.get 0)\n");
    for i in 1..FUNCTIONS {
        let extra = if edited && i + 1 == FUNCTIONS { 1000 } else { 0 };
        text += &format!(
            "(func $f{i} (export \"f{i}\") (param i64) (result i64)
                (i64.store (i32.const {}) (local.get 0))
                (i64.add (call $f{} (i64.mul (local.get 0) (i64.const {i}))) (i64.const {})))\n",
            8 * i,
            i - 1,
            i + extra
        );
    }
    wat::parse_str(text + ")").unwrap()
}

/// What the module computes, in the wrapping arithmetic of WebAssembly.
fn expected(x: i64, edited: bool) -> i64 {
    let (mut x, mut sum) = (x, 0i64);
    for i in (1..FUNCTIONS as i64).rev() {
        x = x.wrapping_mul(i);
        sum = sum.wrapping_add(i);
    }
    x.wrapping_add(sum).wrapping_add(if edited { 1000 } else { 0 })
}

/// Compiles, instantiates and calls the module in a process of its own; prints what the store did.
#[test]
#[ignore = "a child of the tests below"]
fn child() {
    let dir = std::env::var_os(DIR).expect("the parent says where");
    let edited = std::env::var_os(EDITED).is_some();
    let audit = std::env::var_os("CACHELIFT_AUDIT").is_some();
    let cache = WasmtimeCache::new(Store::open(Config::default().dir(dir).audit(audit)));

    let mut config = wasmtime::Config::new();
    config.enable_incremental_compilation(Arc::new(cache.clone())).unwrap();
    let engine = Engine::new(&config).unwrap();
    let module = Module::new(&engine, module(edited)).unwrap();
    let mut store = wasmtime::Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    let last = format!("f{}", FUNCTIONS - 1);
    let last = instance.get_typed_func::<i64, i64>(&mut store, &last).unwrap();
    for x in [0, 1, -7, i64::MAX] {
        assert_eq!(last.call(&mut store, x).unwrap(), expected(x, edited));
    }
    let stats = cache.store().stats();
    assert!(stats.reasons.is_empty(), "{:?}", stats.reasons);
    println!("\ndid {} {} {}", stats.disk + stats.memory, stats.published, stats.audited);
}

struct Did {
    hits: u64,
    published: u64,
    audited: u64,
}

fn run(dir: &Path, variables: &[&str]) -> Did {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(DIR, dir).env_remove("CACHELIFT_AUDIT");
    for variable in variables {
        command.env(variable, "1");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.strip_prefix("did ")).expect("a line of counts");
    let mut counts = line.split(' ').map(|count| count.parse().unwrap());
    let mut next = || counts.next().unwrap();
    Did { hits: next(), published: next(), audited: next() }
}

/// Mutants seen to fail: nothing found (`get` gives `None`), nothing kept (`insert` drops it).
#[test]
fn a_second_process_compiles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("cache");
    let cold = run(&dir, &[]);
    assert!(cold.published >= FUNCTIONS, "each function is kept: {}", cold.published);
    let warm = run(&dir, &[]);
    assert_eq!(warm.published, 0);
    assert!(warm.hits >= FUNCTIONS, "each function is found: {}", warm.hits);

    let audited = run(&dir, &["CACHELIFT_AUDIT"]);
    assert_eq!((audited.published, audited.audited >= FUNCTIONS), (0, true));
}

#[test]
fn an_edit_compiles_the_function_that_was_edited() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("cache");
    run(&dir, &[]);
    let edited = run(&dir, &[EDITED]);
    assert_eq!(edited.published, 1, "one function differs");
    assert_eq!(run(&dir, &[]).published, 0, "the old one is still there");
}
