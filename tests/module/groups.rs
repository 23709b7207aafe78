//! Keyed groups: what is found is not built.

use std::cell::Cell;

use cachelift::code::CachingModule;
use cachelift::store::{Origin, Store};
use cranelift_module::{
    DataDescription, DataId, FuncId, FuncOrDataId, Linkage, Module, ModuleError, ModuleResult,
};

use crate::support::{
    address, both, builder, call, child, define, define_with, in_another_process, parse, signature,
    store, store_in,
};

pub(crate) const TEXT: &str = "
    function %fib(i64) -> i64 system_v {
        fn0 = colocated %fib(i64) -> i64 system_v
        fn1 = %host(i64) -> i64 system_v
    block0(v0: i64):
        v101 = iconst.i64 2 v1 = icmp ult v0, v101
        brif v1, block1, block2
    block1:
        v2 = call fn1(v0)
        return v2
    block2:
        v103 = iconst.i64 -1 v3 = iadd v0, v103
        v4 = call fn0(v3)
        v105 = iconst.i64 -2 v5 = iadd v0, v105
        v6 = call fn0(v5)
        v7 = iadd v4, v6
        return v7
    }
    function %next(i64) -> i64 system_v {
        gv0 = symbol colocated %cell
        sig0 = (i64) -> i64 system_v
    block0(v0: i64):
        v1 = symbol_value.i64 gv0
        v2 = load.i64 v1+8
        v3 = call_indirect sig0, v2(v0)
        v4 = load.i64 v1
        v105 = iconst.i64 1 v5 = iadd v4, v105
        store v5, v1
        v6 = iadd v3, v5
        return v6
    }";

pub(crate) extern "C" fn host(x: i64) -> i64 {
    x
}

/// Data that refers to itself and to a function, without a name; functions that refer to it and to the host.
pub(crate) fn build(module: &mut CachingModule) -> ModuleResult<()> {
    let cell = module.declare_data("cell", Linkage::Local, true, false)?;
    let ids = define_with(module, TEXT, false, |_| {})?;
    let hidden = module.declare_anonymous_data(false, false)?;
    data(module, cell, hidden, ids[0])
}

pub(crate) fn data(
    module: &mut CachingModule,
    cell: DataId,
    hidden: DataId,
    function: FuncId,
) -> ModuleResult<()> {
    let mut data = DataDescription::new();
    data.define(vec![0; 24].into());
    let function = module.declare_func_in_data(function, &mut data);
    data.write_function_addr(8, function);
    let object = module.declare_data_in_data(hidden, &mut data);
    data.write_data_addr(16, object, 4);
    module.define_data(cell, &data)?;
    data.clear();
    data.define_zeroinit(16);
    data.set_align(16);
    module.define_data(hidden, &data)
}

pub(crate) fn module(store: &Store) -> CachingModule {
    let mut builder = builder();
    builder.symbol("host", host as *const u8);
    CachingModule::new(builder, store.clone())
}

pub(crate) fn check(module: &mut CachingModule) {
    module.finalize_definitions().unwrap();
    assert_eq!(call(module, "fib", 20), 6765);
    assert_eq!((call(module, "next", 10), call(module, "next", 10)), (56, 57));
    let Some(FuncOrDataId::Data(cell)) = module.get_name("cell") else { panic!("no cell") };
    let (at, size) = module.get_finalized_data(cell);
    assert_eq!(size, 24);
    // SAFETY: the data object was just written by this thread, and lives.
    let words = unsafe { std::slice::from_raw_parts(at.cast::<usize>(), 3) };
    assert_eq!(words[1], address(module, "fib").addr());
    assert_eq!((words[2] - 4) % 16, 0);
}

/// In other processes too, under other ids, into modules that have declared things before.
/// Mutant seen: the recorder's ids taken for the module's.
#[test]
fn a_group_that_is_found_is_not_built() {
    if let Some((dir, _)) = child() {
        let store = store_in(&dir);
        let mut module = module(&store);
        module.declare_data("padding", Linkage::Import, false, false).unwrap();
        let own = signature(TEXT);
        module.declare_function("padding2", Linkage::Import, &own).unwrap();
        module.declare_function("host", Linkage::Import, &own).unwrap();
        let key = store.key("test").str("source", TEXT).finish();
        let origin = module.with_key(&key, |_| panic!("it is built")).unwrap();
        check(&mut module);
        println!("SAID {origin}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    let key = store.key("test").str("source", TEXT).finish();
    let mut first = module(&store);
    assert_eq!(first.with_key(&key, build).unwrap(), Origin::Made);
    check(&mut first);
    let mut second = module(&store);
    assert_eq!(second.with_key(&key, |_| panic!("it is built")).unwrap(), Origin::Memory);
    check(&mut second);
    let said = in_another_process("groups::a_group_that_is_found_is_not_built", dir.path(), "");
    assert_eq!(said, "disk");

    // Another key, another group; another target, another group.
    let other = store.key("test").str("source", "other").finish();
    assert_eq!(module(&store).with_key(&other, build).unwrap(), Origin::Made);
    let slow = cranelift_jit::JITBuilder::new(cranelift_module::default_libcall_names()).unwrap();
    let mut slow = CachingModule::new(slow, store.clone());
    assert_eq!(slow.with_key(&key, build).unwrap(), Origin::Made);
}

/// What fails is not kept, and the error is the build's.
#[test]
fn a_build_that_fails_is_not_kept() {
    let store = store();
    let key = store.key("test").finish();
    for _ in 0..2 {
        let error = module(&store)
            .with_key(&key, |_| Err(ModuleError::Undeclared("x".into())))
            .unwrap_err();
        assert!(matches!(error, ModuleError::Undeclared(_)));
    }
    assert_eq!(module(&store).with_key(&key, build).unwrap(), Origin::Made);
}

/// What would be wrong elsewhere is built each time: host addresses, what has no name.
/// Mutants seen: each of the two kept.
#[test]
fn what_cannot_be_kept_is_built_each_time() {
    let address = host as *const () as i64;
    let baked = format!(
        "function %f(i64) -> i64 system_v {{ sig0 = (i64) -> i64 system_v
         block0(v0: i64): v1 = iconst.i64 {address} v2 = call_indirect sig0, v1(v0) return v2 }}"
    );
    let text = "function %f(i64) -> i64 system_v { block0(v0: i64): return v0 }";
    let store = store();
    for (reason, text) in [("host-address", &baked[..]), ("anonymous", text)] {
        let key = store.key("test").str("reason", reason).finish();
        let built = Cell::new(0);
        for round in 1..=2 {
            let mut module = module(&store);
            let own = signature(text);
            let before = module.declare_anonymous_function(&own).unwrap();
            let origin = module.with_key(&key, |module| {
                built.set(built.get() + 1);
                define(module, text);
                if reason == "anonymous" {
                    let cell = module.declare_data("cell", Linkage::Local, true, false)?;
                    let mut data = DataDescription::new();
                    data.define_zeroinit(8);
                    let function = module.declare_func_in_data(before, &mut data);
                    data.write_function_addr(0, function);
                    module.define_data(cell, &data)?;
                }
                Ok(())
            });
            assert_eq!((origin.unwrap(), built.get()), (Origin::Made, round));
            assert!(store.stats().reasons[reason] >= round);
            let mut context = module.make_context();
            context.func =
                parse("function %g(i64) -> i64 system_v { block0(v0: i64): return v0 }").remove(0);
            module.define_function(before, &mut context).unwrap();
            module.finalize_definitions().unwrap();
            assert_eq!(call(&module, "f", 7), 7);
        }
    }
}

/// A module that has declared a callee otherwise than the group's code takes it for, with another signature or as
/// what may be far away, does not get that code. Mutants seen: each of the two not looked at.
#[test]
fn a_group_that_does_not_fit_is_built() {
    let store = store();
    let key = store.key("test").finish();
    let text = "function %f(i64) -> i64 system_v { fn0 = colocated %g(i64) -> i64 system_v
        block0(v0: i64): v1 = call fn0(v0) return v1 }";
    let own = signature(text);
    let mut first = module(&store);
    let local = first.declare_function("g", Linkage::Local, &own).unwrap();
    let mut context = first.make_context();
    context.func =
        parse("function %g(i64) -> i64 system_v { block0(v0: i64): return v0 }").remove(0);
    first.define_function(local, &mut context).unwrap();
    let built = |module: &mut CachingModule| define_with(module, text, false, |_| {}).map(drop);
    assert_eq!(first.with_key(&key, built).unwrap(), Origin::Made);

    let mut other = own.clone();
    other.params.clear();
    for (times, linkage, signature) in
        [(1, Linkage::Import, &other), (2, Linkage::Preemptible, &own)]
    {
        let mut second = module(&store);
        second.declare_function("g", linkage, signature).unwrap();
        let result = second.with_key(&key, |_| Err(ModuleError::Undeclared("asked".into())));
        assert!(matches!(result, Err(ModuleError::Undeclared(_))), "{linkage:?}");
        assert_eq!(store.stats().reasons["unusable"], times);
    }
}

/// Groups within groups, built and found in every mixture.
#[test]
fn groups_within_groups() {
    let store = store();
    let [outer, inner] =
        ["outer", "inner"].map(|name| store.key("test").str("name", name).finish());
    let text = "function %main(i64) -> i64 system_v { fn0 = colocated %fib(i64) -> i64 system_v
        block0(v0: i64): v1 = call fn0(v0) v102 = iconst.i64 1 v2 = iadd v1, v102 return v2 }";
    let both = |module: &mut CachingModule| {
        module.with_key(&inner, build)?;
        define_with(module, text, false, |_| {}).map(drop)
    };
    let mut first = module(&store);
    assert_eq!(first.with_key(&outer, both).unwrap(), Origin::Made);
    let mut second = module(&store);
    assert_eq!(second.with_key(&outer, |_| panic!("it is built")).unwrap(), Origin::Memory);
    let other = store.key("test").str("name", "another").finish();
    let mut third = module(&store);
    assert_eq!(third.with_key(&other, both).unwrap(), Origin::Made);
    let mut fourth = module(&store);
    assert_eq!(fourth.with_key(&other, |_| panic!("it is built")).unwrap(), Origin::Memory);
    for module in [&mut first, &mut second, &mut third, &mut fourth] {
        check(module);
        assert_eq!(call(module, "main", 20), 6766);
    }
}

/// A worker that lives long loads a group into a module of its own and frees it, again and again.
#[test]
fn groups_are_loaded_and_freed() {
    let store = store();
    let key = store.key("test").finish();
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let mut before = 0;
    for round in 0..500 {
        let mut module = module(&store);
        module.with_key(&key, build).unwrap();
        check(&mut module);
        // SAFETY: nothing of it is called any more.
        unsafe { module.free_memory() };
        if round == 10 {
            before = mappings();
        }
    }
    assert!(mappings() < before + 200, "{before} {}", mappings());
    assert_eq!(store.stats().made, 3, "a group and two functions");
}

/// Both kinds of module have one group: code alone is in it.
#[test]
fn both_kinds_share_groups() {
    let store = store();
    let key = store.key("test").finish();
    let text = "function %f(i64) -> i64 system_v { block0(v0: i64): return v0 }";
    let [mut first, mut second] = both(&store);
    let built = |module: &mut CachingModule| define_with(module, text, false, |_| {}).map(drop);
    assert_eq!(first.with_key(&key, built).unwrap(), Origin::Made);
    assert_eq!(second.with_key(&key, built).unwrap(), Origin::Memory);
}
