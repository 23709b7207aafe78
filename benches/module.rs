//! `CachingModule` against what it takes the place of: functions of about 12, 200 and 5,000 instructions through
//! `define_function` and `finalize_definitions`, all of them hits in memory, beside a plain `JITModule` and beside
//! Cranelift's own incremental cache over a map; and a keyed group, whose CLIF is not built.
//!
//! Building the CLIF is left out on all sides but the last, and so is the verifier, which a hit does not run. The
//! last lines are medians of this run and their ratios.
//!
//! ```text
//! cargo bench --bench module
//! ```

mod common;

use std::borrow::Cow;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cachelift::code::{CachingModule, Target};
use cachelift::config::Config;
use cachelift::store::{Origin, Store};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::incremental_cache::CacheKvStore;
use cranelift_codegen::ir::Function;
use cranelift_jit::JITBuilder;
use cranelift_module::{Module, ModuleReloc};
use criterion::Criterion;

use common::{
    FLAGS, SIZES, builder, declare_host, define_all, functions, measure, plain, signature,
    through_jit_module,
};

/// Through a module over a store; all functions must come from `origin`.
fn cached(
    make: fn(JITBuilder, Store) -> CachingModule,
    target: &Target,
    functions: &[Function],
    store: &Store,
) -> Duration {
    let mut module = make(builder(target), store.clone());
    let signature = signature(target.isa());
    declare_host(&mut module, &signature);
    let functions = functions.to_vec();
    let start = Instant::now();
    let first = define_all(&mut module, &signature, functions, |module, id, context| {
        module.define_function(id, context)
    });
    module.finalize_definitions().unwrap();
    black_box(module.get_finalized_function(first));
    let time = start.elapsed();
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    time
}

#[derive(Default)]
struct Map(HashMap<Vec<u8>, Vec<u8>>);

impl CacheKvStore for Map {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.0.get(key).map(|value| Cow::Borrowed(&value[..]))
    }

    fn insert(&mut self, key: &[u8], value: Vec<u8>) {
        self.0.insert(key.to_vec(), value);
    }
}

/// Through Cranelift's own incremental cache.
fn stock(target: &Target, functions: &[Function], map: &mut Map) -> Duration {
    through_jit_module(target, functions, |module, id, context| {
        context.compile_with_cache(module.isa(), map, &mut ControlPlane::default())?;
        let compiled = context.compiled_code().unwrap();
        let relocs = compiled.buffer.relocs().iter();
        let relocs: Vec<_> =
            relocs.map(|r| ModuleReloc::from_mach_reloc(r, &context.func, id)).collect();
        let align = compiled.buffer.alignment.into();
        module.define_function_bytes(id, align, compiled.code_buffer(), &relocs)
    })
}

/// As one keyed group. The module is made within the time.
fn group(target: &Target, steps: usize, count: usize, store: &Store) -> (Duration, Origin) {
    let signature = signature(target.isa());
    let builder = builder(target);
    let start = Instant::now();
    let mut module = CachingModule::new(builder, store.clone());
    declare_host(&mut module, &signature);
    let key = store.key("bench").u64("steps", steps as u64).u64("count", count as u64).finish();
    let built = module.with_key(&key, |module| {
        let functions = functions(target, steps, count);
        define_all(module, &signature, functions, |module, id, context| {
            module.define_function(id, context)
        });
        Ok(())
    });
    module.finalize_definitions().unwrap();
    let time = start.elapsed();
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    (time, built.unwrap())
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let target = Target::host_with(FLAGS).unwrap();
    let mut lines = Vec::new();
    for (name, steps, count) in SIZES {
        let functions = functions(&target, steps, count);
        let instructions = functions.iter().map(|f| f.dfg.num_insts()).sum::<usize>() / count;
        let store = Store::open(Config::default());
        let mut map = Map::default();
        // Everything is made once before anything is measured.
        cached(CachingModule::code_only, &target, &functions, &store);
        cached(CachingModule::new, &target, &functions, &store);
        stock(&target, &functions, &mut map);
        group(&target, steps, count, &store);
        let made = store.stats().made;

        let mut case = |what: &str, run: &mut dyn FnMut() -> Duration| {
            measure(&mut criterion, &format!("{name}/{what} of {count}"), count, run)
        };
        let compile = case("JITModule", &mut || plain(&target, &functions));
        let code = case("code only", &mut || {
            cached(CachingModule::code_only, &target, &functions, &store)
        });
        let kept = case("compiled code kept", &mut || {
            cached(CachingModule::new, &target, &functions, &store)
        });
        let stock = case("Cranelift's cache", &mut || stock(&target, &functions, &mut map));
        let grouped = case("keyed group", &mut || {
            let (time, origin) = group(&target, steps, count, &store);
            assert_eq!(origin, Origin::Memory);
            time
        });
        assert_eq!(store.stats().made, made, "all were hits");
        lines.push(format!(
            "{name:<8}{instructions:>7}{compile:>10.2}{code:>10.2}{:>6.1}x{kept:>10.2}{:>6.1}x{stock:>10.2}{:>6.1}x{grouped:>10.2}{:>6.0}x",
            compile / code,
            compile / kept,
            stock / code,
            compile / grouped,
        ));
    }
    criterion.final_summary();
    println!(
        "\nmedians in microseconds per function; how many times faster than a JITModule, or than Cranelift's cache"
    );
    println!(
        "          insts JITModule code only          all kept        Cranelift's code only  keyed group"
    );
    lines.iter().for_each(|line| println!("{line}"));
}
