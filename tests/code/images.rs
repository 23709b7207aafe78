//! Whole programs as images, through an engine.

use cachelift::code::{CodeError, Engine, Image, Program, Target};
use cachelift::config::Config;
use cachelift::key::Key;
use cachelift::store::{Origin, Store};
use cranelift_codegen::ir::TrapCode;

use crate::support::{call, parse, program as callable, store};

const TEXT: &str = concat!(
    include_str!("../common/even_and_odd.clif"),
    "
    function %divide(i64) -> i64 system_v {
        fn0 = %host(i64) -> i64 system_v
        fn1 = %Memcmp(i64, i64, i64) -> i32 system_v
        gv0 = symbol %table
    block0(v0: i64):
        v1 = call fn0(v0)
        v2 = symbol_value.i64 gv0
        v3 = load.i64 v2+8
        v4 = sdiv v3, v1
        v5 = iconst.i64 16
        v6 = call fn1(v2, v2, v5)
        v7 = sextend.i64 v6
        v8 = iadd v4, v7
        return v8
    }"
);

extern "C" fn host(x: i64) -> i64 {
    x + 2
}
static TABLE: [i64; 2] = [1, 84];

fn symbols(name: &str) -> Option<*const u8> {
    match name {
        "host" => Some(host as *const u8),
        "table" => Some(TABLE.as_ptr().cast()),
        _ => None,
    }
}

fn plain(text: &str) -> Program {
    let mut program = Program::new();
    for (name, clif) in parse(text) {
        program.define(&name, clif).unwrap();
    }
    program
}

fn key(engine: &Engine) -> Key {
    engine.store().key("test").str("source", TEXT).finish()
}

fn engine_in(dir: &std::path::Path, audit: bool) -> Engine {
    let store = Store::open(Config::default().dir(dir.join("cache")).audit(audit));
    Engine::new(store, Target::host().unwrap())
}

fn check(image: &Image) {
    let run = |name: &str, x: i64| {
        let function = image.function(name).unwrap();
        // SAFETY: the functions have this signature, and what they refer to is what they take it for.
        let f = unsafe { function.typed::<extern "C" fn(i64) -> i64>() };
        f(x)
    };
    assert_eq!([run("even", 10), run("odd", 10), run("even", 7)], [1, 0, 0]);
    assert_eq!(run("divide", 40), 2);
    assert!(image.function("nothing").is_none());
    assert_eq!(image.names().collect::<Vec<_>>(), ["divide", "even", "odd"]);
    let divide = image.function("divide").unwrap();
    assert_eq!((divide.name(), divide.signature().params.len()), ("divide", 1));
    assert_eq!(divide, image.function("divide").unwrap());
    assert_ne!(divide, image.function("odd").unwrap());
}

/// Made, found, and in memory alone. Mutants seen: own functions bound to the text's beginning, all symbols to the first.
#[test]
fn a_program_is_made_once_and_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_in(dir.path(), false);
    let made = engine.load_image(&key(&engine), symbols, || Ok(plain(TEXT))).unwrap();
    assert_eq!((made.origin(), made.is_mapped()), (Origin::Made, true));
    check(&made);
    let engine = engine_in(dir.path(), false);
    let found = engine.load_image(&key(&engine), symbols, || panic!("it is built")).unwrap();
    assert_eq!((found.origin(), found.is_mapped()), (Origin::Disk, true));
    check(&found);
    check(&made);
    assert_eq!(engine.live_batches(), 1);
    let even = found.function("even").unwrap();
    drop(found);
    // SAFETY: it has this signature, and the handle keeps the image.
    assert_eq!(unsafe { even.typed::<extern "C" fn(i64) -> i64>() }(100), 1);
    assert_eq!(engine.live_batches(), 1);
    drop(even);
    assert_eq!(engine.live_batches(), 0);

    let engine = Engine::new(store(), Target::host().unwrap());
    for origin in [Origin::Made, Origin::Memory] {
        let image = engine.load_image(&key(&engine), symbols, || Ok(plain(TEXT))).unwrap();
        assert_eq!((image.origin(), image.is_mapped()), (origin, false));
        check(&image);
    }
    assert_eq!(engine.store().stats().reasons["image-foreign-file-system"], 2);
}

/// Functions of an image are functions as others, which programs may be linked to; these keep the image.
/// Mutant seen: one link key for all functions of an image.
#[test]
fn programs_are_linked_to_functions_of_images() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_in(dir.path(), false);
    let image = engine.load_image(&key(&engine), symbols, || Ok(plain(TEXT))).unwrap();
    let text = "function %main(i64) -> i64 system_v { fn0 = %f(i64) -> i64 system_v
        block0(v0: i64): v1 = call fn0(v0) v102 = iconst.i64 5 v2 = iadd v1, v102 return v2 }";
    let load = |name: &str| {
        let mut program = callable(text);
        program.link("f", &image.function(name).unwrap()).unwrap();
        engine.load(program).unwrap()
    };
    let (even, odd) = (load("even"), load("odd"));
    drop(image);
    assert_eq!([call(&even, "main", &[10]), call(&odd, "main", &[10])], [6, 5]);
}

/// Traps are told by name, as of other code. Mutant seen: the function's offset not taken off.
#[test]
fn traps_of_images_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_in(dir.path(), false);
    let image = engine.load_image(&key(&engine), symbols, || Ok(plain(TEXT))).unwrap();
    let divide = image.function("divide").unwrap().address().addr();
    let traps: Vec<_> = (divide..divide + 200).filter_map(|at| engine.find_trap(at)).collect();
    let by_zero = traps.iter().find(|t| t.code == TrapCode::INTEGER_DIVISION_BY_ZERO).unwrap();
    assert_eq!(by_zero.function, "divide");
    assert!(engine.find_trap(divide + by_zero.offset as usize).is_some());
    drop(image);
    assert_eq!(engine.find_trap(divide + by_zero.offset as usize), None);
}

/// What has no meaning, and what would have one in this process alone.
#[test]
fn names_without_a_meaning_are_errors() {
    let engine = Engine::new(store(), Target::host().unwrap());
    let none = |_: &str| None;
    let error = engine.load_image(&key(&engine), none, || Ok(plain(TEXT))).unwrap_err();
    assert!(matches!(&error, CodeError::Undefined { callee, .. } if callee == "host"), "{error}");
    let bound = || {
        let mut program = plain(TEXT);
        program.symbol("host", host as *const u8)?;
        Ok(program)
    };
    let other = engine.store().key("test").finish();
    let error = engine.load_image(&other, symbols, bound).unwrap_err();
    assert!(error.to_string().contains("%host has an address of this process"), "{error}");
    let error =
        engine.load_image(&other, symbols, || Err(CodeError::NoFunction("x".into()))).unwrap_err();
    assert_eq!(error, CodeError::NoFunction("x".into()));
    // Nothing of that was kept.
    engine.load_image(&other, symbols, || Ok(plain(TEXT))).unwrap();
}

/// Mutant seen: nothing compared.
#[test]
fn an_audit_builds_images_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_in(dir.path(), false);
    engine.load_image(&key(&engine), symbols, || Ok(plain(TEXT))).unwrap();
    let engine = engine_in(dir.path(), true);
    check(&engine.load_image(&key(&engine), symbols, || Ok(plain(TEXT))).unwrap());
    assert_eq!(engine.store().stats().audited, 4);
    let other = TEXT.replace("v3 = iconst.i64 0", "v3 = iconst.i64 7");
    let error = engine.load_image(&key(&engine), symbols, || Ok(plain(&other))).unwrap_err();
    assert!(matches!(error, CodeError::Audit { .. }), "{error}");
}

/// Bytes that are no image, under an image's key and whole, are a miss. Mutant seen: the environment not compared.
#[test]
fn other_records_are_no_images() {
    use cachelift::store::Draft;
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_in(dir.path(), false);
    let made = engine.load_image(&key(&engine), symbols, || Ok(plain(TEXT))).unwrap();
    drop(made);
    let store = engine.store();
    let name = store
        .entries()
        .into_iter()
        .find(|entry| {
            let inspection = store.inspect(&entry.key);
            inspection.is_some_and(|i| i.record.payload().starts_with(b"CLI\x01"))
        })
        .unwrap()
        .key;
    let whole = store.get(&name).unwrap().payload().to_vec();
    let mut counted = 0;
    for n in 0..83 {
        let mut payload = whole.clone();
        match n {
            0 => payload.clear(),
            1 => payload.truncate(4096),
            2 => payload.push(0),
            _ => payload[n - 3] ^= 1 << (n % 8),
        }
        store.remove(&name).unwrap();
        store.put(&name, Draft::new(payload)).unwrap();
        let engine = engine_in(dir.path(), false);
        let image = engine.load_image(&key(&engine), symbols, || Ok(plain(TEXT)));
        // Another number of traps, say, makes sense too, and so does another name.
        if let Ok(image) = image
            && image.origin() == Origin::Made
        {
            check(&image);
            counted += 1;
            continue;
        }
        // Magic, format, environment and lengths are each looked at.
        assert!(n >= 3 + 48, "{n}");
    }
    assert!(counted >= 50, "{counted}");
}
