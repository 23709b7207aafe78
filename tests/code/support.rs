//! What the tests of this folder share: CLIF as text in, a loaded program out.

use cachelift::code::{CodeError, Engine, Loaded, Program, Target, Unit};
use cachelift::config::Config;
use cachelift::store::{Origin, Store};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Function, UserFuncName};

/// A store in memory, with this namespace.
pub(crate) fn store() -> Store {
    Store::open(Config::default())
}

/// An engine for this machine over a new store.
pub(crate) fn engine() -> Engine {
    engine_with(&[])
}

/// As [`engine`], with flags.
pub(crate) fn engine_with(flags: &[(&str, &str)]) -> Engine {
    Engine::new(store(), Target::host_with(flags).unwrap())
}

/// The functions of a CLIF text, by the names they have there, without the `%`.
pub(crate) fn parse(text: &str) -> Vec<(String, Function)> {
    let functions = cranelift_reader::parse_functions(text).unwrap();
    functions.into_iter().map(|function| (name(&function), function)).collect()
}

fn name(function: &Function) -> String {
    match &function.name {
        UserFuncName::Testcase(name) => name.to_string().trim_start_matches('%').into(),
        UserFuncName::User(name) => name.to_string(),
    }
}

/// A callable program of these functions.
pub(crate) fn program(text: &str) -> Program {
    let mut program = Program::new();
    program.callable();
    for (name, function) in parse(text) {
        program.define(&name, function).unwrap();
    }
    program
}

/// Loads the functions of a text.
pub(crate) fn load(engine: &Engine, text: &str) -> Loaded {
    engine.load(program(text)).unwrap()
}

/// Why the functions of a text cannot be loaded.
pub(crate) fn refused(engine: &Engine, text: &str) -> CodeError {
    engine.load(program(text)).expect_err("it should not load")
}

/// Calls a function with 64-bit integers, for one.
pub(crate) fn call(loaded: &Loaded, name: &str, arguments: &[i64]) -> i64 {
    let arguments: Vec<_> = arguments.iter().map(|n| DataValue::I64(*n)).collect();
    match call_values(loaded, name, &arguments)[..] {
        [DataValue::I64(result)] => result,
        ref other => panic!("{name} gave {other:?}"),
    }
}

/// Calls a function with values, for values.
pub(crate) fn call_values(loaded: &Loaded, name: &str, arguments: &[DataValue]) -> Vec<DataValue> {
    // SAFETY: the tests' functions read no memory but what they are handed and their own stacks.
    unsafe { loaded.call(name, arguments) }.unwrap()
}

/// Where each function that is no trampoline came from.
pub(crate) fn origins(loaded: &Loaded) -> Vec<Origin> {
    functions(loaded).map(|unit| unit.origin).collect()
}

/// The units that are no trampolines.
pub(crate) fn functions(loaded: &Loaded) -> impl Iterator<Item = Unit> {
    loaded.units().filter(|unit| !unit.is_trampoline)
}

/// Runs the test of this name in a process of its own, for tests that look at the address space: whether
/// this is that process, where the test has to go on.
pub(crate) fn is_alone(test: &str) -> bool {
    const CHILD: &str = "CACHELIFT_TEST_ALONE";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{test}: {status}");
    false
}
