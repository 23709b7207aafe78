//! Invariant I19: under an audit a hit that is not what a compile gives is an error, with both disassemblies.

use cachelift::code::{CachingModule, CodeError, Engine, Program, Target};
use cachelift::config::Config;
use cachelift::key::Key;
use cachelift::store::{Draft, Kind, Origin, Store};

use crate::support::{builder, call, define, define_with, parse, store_in};

/// Two functions whose records are of one length.
const FIVE: &str =
    "function %f(i64) -> i64 system_v { block0(v0: i64): v1 = iconst.i64 5 return v1 }";
const NINE: &str =
    "function %f(i64) -> i64 system_v { block0(v0: i64): v1 = iconst.i64 9 return v1 }";

fn audited(dir: &std::path::Path) -> Store {
    Store::open(Config::default().dir(dir.join("cache")).audit(true))
}

/// What `make` puts into a directory.
fn entries(dir: &std::path::Path, make: impl FnOnce(&Store)) -> Vec<Key> {
    let store = store_in(dir);
    make(&store);
    store.entries().iter().filter(|entry| entry.kind == Kind::Artifact).map(|e| e.key).collect()
}

/// Puts what `other` made under the key of what `make` made: whole, verified, and wrong.
fn exchange(dir: &std::path::Path, make: impl Fn(&Store), other: impl Fn(&Store)) {
    let first = entries(dir, make);
    let [key] = first[..] else { panic!("{first:?}") };
    let elsewhere = tempfile::tempdir().unwrap();
    let second = entries(elsewhere.path(), other);
    let [other] = second[..] else { panic!("{second:?}") };
    let payload = store_in(elsewhere.path()).get(&other).unwrap().payload().to_vec();
    let store = store_in(dir);
    assert_eq!(store.get(&key).unwrap().payload().len(), payload.len());
    assert!(store.remove(&key).unwrap());
    store.put(&key, Draft::new(payload)).unwrap();
}

type Make = fn(cranelift_jit::JITBuilder, Store) -> CachingModule;

/// Mutants seen: only lengths compared; only hits in memory audited; nothing compared.
#[test]
fn a_wrong_hit_is_an_error_of_the_module() {
    for make in [CachingModule::new as Make, CachingModule::code_only] {
        let dir = tempfile::tempdir().unwrap();
        let put = |text: &'static str| {
            move |store: &Store| drop(define(&mut make(builder(), store.clone()), text))
        };
        exchange(dir.path(), put(FIVE), put(NINE));
        let mut module = make(builder(), store_in(dir.path()));
        define(&mut module, FIVE);
        module.finalize_definitions().unwrap();
        assert_eq!(call(&module, "f", 0), 9, "nobody else could notice");

        let store = audited(dir.path());
        let mut module = make(builder(), store.clone());
        let error = define_with(&mut module, FIVE, false, |_| {}).unwrap_err().to_string();
        assert!(error.contains("function f: the cached code differs"), "{error}");
        let (cached, compiled) = error.split_once("compiled now:").unwrap();
        if cfg!(target_arch = "x86_64") {
            assert!(cached.contains(",9") && compiled.contains(",5"), "{error}");
        }
        assert_eq!(store.stats().audited, 1);
    }
}

#[test]
fn a_wrong_hit_is_an_error_of_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let load = |store: &Store, text| {
        let engine = Engine::new(store.clone(), Target::host().unwrap());
        let mut program = Program::new();
        program.define("f", parse(text).remove(0)).unwrap();
        engine.load(program)
    };
    exchange(dir.path(), |s| drop(load(s, FIVE).unwrap()), |s| drop(load(s, NINE).unwrap()));
    load(&store_in(dir.path()), FIVE).unwrap();
    let store = audited(dir.path());
    let Err(error) = load(&store, FIVE) else { panic!("it was not noticed") };
    assert!(matches!(error, CodeError::Audit { .. }), "{error}");
    assert_eq!(store.stats().audited, 1);
}

/// Groups too: what `build` gives is compared.
#[test]
fn a_wrong_group_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let with = |store: Store, text: &'static str| {
        let mut module = CachingModule::new(builder(), store);
        let key = module.store().key("test").finish();
        module.with_key(&key, |module| define_with(module, text, false, |_| {}).map(drop))
    };
    assert_eq!(with(store_in(dir.path()), FIVE).unwrap(), Origin::Made);
    assert_eq!(with(store_in(dir.path()), NINE).unwrap(), Origin::Disk, "the caller vouched");
    let error = with(audited(dir.path()), NINE).unwrap_err().to_string();
    assert!(error.contains("of the group") && error.contains("compiled now:"), "{error}");
    assert_eq!(with(audited(dir.path()), FIVE).unwrap(), Origin::Disk);
}

/// What is right passes, from disk and from memory.
#[test]
fn right_hits_pass() {
    for make in [CachingModule::new as Make, CachingModule::code_only] {
        let dir = tempfile::tempdir().unwrap();
        for (round, hits) in [0, 2].into_iter().enumerate() {
            let store = audited(dir.path());
            for text in [FIVE, NINE] {
                let mut module = make(builder(), store.clone());
                define_with(&mut module, text, false, |c| assert!(c.compiled_code().is_some()))
                    .unwrap();
                module.finalize_definitions().unwrap();
                assert_eq!(call(&module, "f", 0), if text == FIVE { 5 } else { 9 });
            }
            assert_eq!(store.stats().audited, hits, "round {round}");
        }
    }
}
