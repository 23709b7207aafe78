//! Loaded code lives as long as a handle on it, and no longer.

use std::sync::Barrier;

use cachelift::code::{CodeError, Function, Program};
use memmap2::MmapOptions;

use crate::support::{call, engine, is_alone, load, parse, program};

fn constant(name: &str, value: i64) -> String {
    format!("function %{name}() -> i64 {{ block0: v0 = iconst.i64 {value} return v0 }}")
}

fn caller(name: &str) -> String {
    format!(
        "function %{name}() -> i64 {{
            fn0 = colocated %callee() -> i64
        block0:
            v0 = call fn0()
            v1 = iconst.i64 1
            v2 = iadd v0, v1
            return v2
        }}"
    )
}

/// Whether an address is mapped executable in this process.
fn is_executable(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address) && rest.starts_with("r-xp")
    })
}

/// Mutants: `Executable::drop` left empty; a handle that does not count.
#[test]
fn the_last_handle_frees_the_memory() {
    if !is_alone("lifetime::the_last_handle_frees_the_memory") {
        return;
    }
    let engine = engine();
    let loaded = load(&engine, &constant("f", 1));
    let function = loaded.function("f").unwrap().clone();
    let address = function.address().addr();
    assert!(is_executable(address));
    drop(loaded);
    assert!(is_executable(address), "a handle is left");
    // SAFETY: that is its signature, and the handle lives.
    assert_eq!(unsafe { function.typed::<extern "C" fn() -> i64>()() }, 1);
    drop(function);
    assert_eq!(engine.live_batches(), 0);
    assert!(!is_executable(address));
}

/// Code is never writable and executable at once.
#[test]
fn no_page_is_writable_and_executable() {
    let engine = engine();
    let _loaded = load(&engine, &constant("f", 1));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("rwxp"), "{maps}");
}

/// Mutant: `keeps` left empty (the callee's memory is gone, and the call dies).
#[test]
fn callers_keep_their_callees() {
    let engine = engine();
    let function =
        |program: Program| engine.load(program).unwrap().function("next").unwrap().clone();
    let run = |function: &Function| {
        // SAFETY: that is its signature, and the handle lives.
        unsafe { function.typed::<extern "C" fn() -> i64>()() }
    };
    let base = load(&engine, &constant("base", 10));
    // Not callable, so that no trampoline is shared: nothing but the call keeps the callee.
    let mut next = Program::new();
    next.define("next", parse(&caller("next")).remove(0).1).unwrap();
    next.link("callee", base.function("base").unwrap()).unwrap();
    let next = function(next);
    drop(base);
    assert_eq!(engine.live_batches(), 2);
    assert_eq!(run(&next), 11);

    // A program that defines its callee finds it live, and keeps it too.
    let mut both = Program::new();
    let text = caller("next").replace("iconst.i64 1", "iconst.i64 2");
    both.define("next", parse(&text).remove(0).1).unwrap();
    both.define("callee", parse(&constant("callee", 10)).remove(0).1).unwrap();
    let both = function(both);
    drop(next);
    assert_eq!(engine.live_batches(), 2);
    assert_eq!(run(&both), 12);
    drop(both);
    assert_eq!(engine.live_batches(), 0);
}

/// A long chain of batches that keep each other is freed without recursion.
/// Mutant: the fields dropped as Rust does it (the stack overflows).
#[test]
fn long_chains_are_freed() {
    let engine = engine();
    let mut last = load(&engine, &constant("f0", 0)).function("f0").unwrap().clone();
    for i in 0..2_000 {
        let mut program = Program::new();
        let (_, clif) = parse(&caller("f")).remove(0);
        program.define("f", clif).unwrap();
        program.link("callee", &last).unwrap();
        last = engine.load(program).unwrap().function("f").unwrap().clone();
        assert_eq!(engine.live_batches(), i + 2);
    }
    let small = std::thread::Builder::new().stack_size(64 << 10);
    small.spawn(move || drop(last)).unwrap().join().unwrap();
    assert_eq!(engine.live_batches(), 0);
}

/// Threads that load, call and drop the same programs at once.
#[test]
fn threads_share_and_drop_handles() {
    let engine = engine();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (engine, start) = (&engine, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..200 {
                    let value = (round + thread) % 3;
                    let text = format!("{}{}", constant("callee", value), caller("next"));
                    let loaded = load(engine, &text);
                    assert_eq!(call(&loaded, "next", &[]), value + 1);
                }
            });
        }
    });
    assert_eq!(engine.live_batches(), 0);
}

/// Near calls to code more than 2 GiB away go through a stub, and to code that is near do not need one.
/// Mutants: no stub (loading fails); the stub's address off by one function.
#[test]
fn callees_beyond_two_gibibytes() {
    if !is_alone("lifetime::callees_beyond_two_gibibytes") {
        return;
    }
    let engine = engine();
    let base = load(&engine, &constant("base", 10));
    let here = base.function("base").unwrap().address().addr();
    // Address space is taken from the top down, gaps first: take all of it near the function.
    let mut taken = Vec::new();
    let map = |length| MmapOptions::new().len(length).no_reserve_swap().map_anon().unwrap();
    taken.push(map(6 << 30));
    loop {
        let page = map(4096);
        let far = page.as_ptr().addr().abs_diff(here) > 1 << 31;
        taken.push(page);
        if far {
            break;
        }
    }
    let mut next = program(&caller("next"));
    next.link("callee", base.function("base").unwrap()).unwrap();
    let next = engine.load(next).unwrap();
    let there = next.function("next").unwrap().address().addr();
    assert!(here.abs_diff(there) > 1 << 31, "{here:x} and {there:x} are near");
    drop(taken);
    assert_eq!(call(&next, "next", &[]), 11);
}

/// A system that lets no process make its own code gives an error that says so, and the rest goes on.
/// Mutant: the provider's error ignored (the memory would be called although it cannot be executed).
#[test]
#[cfg(target_os = "linux")]
fn refused_memory_is_an_error() {
    // SAFETY: the C library's prctl, which is variadic.
    unsafe extern "C" {
        fn prctl(option: i32, ...) -> i32;
    }
    const PR_SET_MDWE: i32 = 65;
    const REFUSE_EXEC_GAIN: u64 = 1;

    if !is_alone("lifetime::refused_memory_is_an_error") {
        return;
    }
    let engine = engine();
    let before = load(&engine, &constant("before", 5));
    // SAFETY: this call reads and writes no memory.
    let refused = unsafe { prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0_u64, 0_u64, 0_u64) };
    assert_eq!(refused, 0, "this test needs Linux 6.3 or newer");
    let error = engine.load(program(&constant("after", 6))).unwrap_err();
    assert!(matches!(error, CodeError::Memory(_)), "{error}");
    let message = error.to_string();
    assert!(message.contains("Permission denied") && message.lines().count() == 1, "{message}");
    assert_eq!(engine.live_batches(), 1);
    assert_eq!(call(&before, "before", &[]), 5);
}
