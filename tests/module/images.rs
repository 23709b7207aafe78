//! Keyed groups as images: mapped where they can be, copied where not, and the same either way.

use std::path::{Path, PathBuf};

use cachelift::code::CachingModule;
use cachelift::config::{Config, Mode};
use cachelift::key::Key;
use cachelift::store::{Origin, PruneLimits, Store};
use cranelift_module::{Linkage, Module, ModuleError, ModuleResult};

use crate::groups::{TEXT, build, check, module};
use crate::support::{
    address, builder, call, child, define, define_with, in_another_process, in_process, parse,
    signature, store, store_in,
};

fn key(store: &Store) -> Key {
    store.key("test").str("source", TEXT).finish()
}

fn never(_: &mut CachingModule) -> ModuleResult<()> {
    panic!("it is built")
}

/// The reasons why images were copied.
fn copied(store: &Store) -> Vec<&'static str> {
    let reasons = store.stats().reasons;
    reasons.into_keys().filter(|reason| reason.starts_with("image-")).collect()
}

/// The lines of this process's mappings that are of files of this directory, shared and executable.
fn mapped(dir: &Path) -> Vec<String> {
    let dir = dir.canonicalize().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ours = |line: &&str| line.contains(dir.to_str().unwrap()) && line.contains(" r-xs ");
    maps.lines().filter(ours).map(str::to_owned).collect()
}

/// The segments that hold one record alone: images here.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap().to_str().unwrap().starts_with("seg-") {
                let bytes = std::fs::read(&path).unwrap();
                if bytes.len() > 4100 && bytes[4096..4100] == *b"CLI\x01" {
                    files.push(path);
                }
            }
        }
    }
    files
}

/// In this process and in others, under other ids, into modules that have declared things before.
/// Mutants seen: slots bound to the recorder's ids; the slots a page off.
#[test]
fn an_image_that_is_found_is_mapped() {
    if let Some((dir, _)) = child() {
        let store = store_in(&dir);
        let mut module = module(&store);
        module.declare_data("padding", Linkage::Import, false, false).unwrap();
        let own = signature(TEXT);
        module.declare_function("padding2", Linkage::Import, &own).unwrap();
        let origin = module.with_image(&key(&store), never).unwrap();
        check(&mut module);
        assert_eq!(mapped(&dir).len(), 1);
        assert!(copied(&store).is_empty());
        println!("SAID {origin}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    let mut first = module(&store);
    assert_eq!(first.with_image(&key(&store), build).unwrap(), Origin::Made);
    check(&mut first);
    let mut second = module(&store);
    assert_eq!(second.with_image(&key(&store), never).unwrap(), Origin::Disk);
    check(&mut second);
    assert_eq!(mapped(dir.path()).len(), 2, "both modules run what the cache has");
    assert_eq!(copied(&store), Vec::<&str>::new());
    let said = in_another_process("images::an_image_that_is_found_is_mapped", dir.path(), "");
    assert_eq!(said, "disk");
    // SAFETY: nothing of it is called any more.
    unsafe { second.free_memory() };
    assert_eq!(mapped(dir.path()).len(), 1);
    assert_eq!(call(&first, "fib", 20), 6765);

    // With the key of a group it is another thing, and so it is for another target.
    let mut group = module(&store);
    assert_eq!(group.with_key(&key(&store), build).unwrap(), Origin::Made);
    let slow = cranelift_jit::JITBuilder::new(cranelift_module::default_libcall_names()).unwrap();
    let mut slow = CachingModule::new(slow, store.clone());
    assert_eq!(slow.with_image(&key(&store), build).unwrap(), Origin::Made);
}

/// A module that is dropped leaves its code where it is, as a `JITModule` does. Mutant seen: unmapped with the module.
#[test]
fn code_outlives_a_module_that_is_not_freed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    let mut module = module(&store);
    module.with_image(&key(&store), build).unwrap();
    module.finalize_definitions().unwrap();
    let fib = address(&module, "fib");
    drop(module);
    // SAFETY: it has this signature, and its memory is leaked.
    let fib: extern "C" fn(i64) -> i64 = unsafe { std::mem::transmute(fib) };
    assert_eq!(fib(20), 6765);
}

/// Without a directory, with one of another kind, or where it is read-only. Mutants seen: no copy; the reason not counted.
#[test]
fn what_cannot_be_mapped_is_copied() {
    let store = store();
    for origin in [Origin::Made, Origin::Memory] {
        let mut module = module(&store);
        let got = if origin == Origin::Made {
            module.with_image(&key(&store), build)
        } else {
            module.with_image(&key(&store), never)
        };
        assert_eq!(got.unwrap(), origin);
        check(&mut module);
    }
    assert_eq!(copied(&store), ["image-foreign-file-system"]);

    let dir = tempfile::tempdir().unwrap();
    let whole = store_in(dir.path());
    module(&whole).with_image(&key(&whole), build).unwrap();
    // Reading is enough to map.
    let mut config = Config::default().dir(dir.path().join("cache"));
    config.mode = Mode::ReadOnly;
    let reader = Store::open(config.clone());
    let mut module = module(&reader);
    assert_eq!(module.with_image(&key(&reader), never).unwrap(), Origin::Disk);
    check(&mut module);
    assert!(copied(&reader).is_empty());
    // Making anew means not to look.
    config.mode = Mode::Refresh;
    let refresh = Store::open(config);
    let mut module = self::module(&refresh);
    assert_eq!(module.with_image(&key(&refresh), build).unwrap(), Origin::Made);
    check(&mut module);
    assert_eq!(copied(&refresh), ["image-foreign-file-system"]);
}

/// On a file system that nothing may be executed from.
#[test]
fn an_image_on_a_noexec_file_system_is_copied() {
    const TEST: &str = "images::an_image_on_a_noexec_file_system_is_copied";
    if let Some((dir, _)) = child() {
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "noexec,mode=700", "none"])
            .arg(&dir)
            .status();
        assert!(mount.unwrap().success());
        let store = store_in(&dir);
        for origin in [Origin::Made, Origin::Disk] {
            let mut module = module(&store);
            assert_eq!(module.with_image(&key(&store), build).unwrap(), origin);
            check(&mut module);
            assert!(mapped(&dir).is_empty());
        }
        assert_eq!(store.stats().reasons["image-not-executable"], 2);
        println!("SAID copied");
        return;
    }
    let namespace = ["unshare", "--user", "--map-root-user", "--mount", "--"];
    let allowed = std::process::Command::new(namespace[0])
        .args(&namespace[1..])
        .args(["mount", "-t", "tmpfs", "none", "/tmp"])
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: {TEST}: nothing may be mounted here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(in_process(&namespace, TEST, dir.path(), ""), "copied");
}

const CALLEES: &str = "
    function %halve(i64) -> i64 system_v { block0(v0: i64): v101 = iconst.i64 1 v1 = ushr v0, v101 return v1 }
    function %negate(i64) -> i64 system_v { block0(v0: i64): v1 = ineg v0 return v1 }";

/// Two functions of one body that call different functions, by near and by far calls, within an image and out of it:
/// each calls its own. Mutants seen: one slot for all; one stub for all; a function's own address in its slot.
#[test]
fn each_calls_its_own() {
    for (near, apart) in [("colocated", false), ("", false), ("", true), ("colocated", true)] {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..2 {
            let store = store_in(dir.path());
            let mut module = CachingModule::code_only(builder(), store.clone());
            if apart {
                define(&mut module, CALLEES);
            }
            let name = store.key("test").str("apart", &format!("{near} {apart}")).finish();
            let build = |module: &mut CachingModule| {
                if !apart {
                    define_with(module, CALLEES, false, |_| {})?;
                }
                for of in ["halve", "negate"] {
                    let text = format!(
                        "function %apply_{of}(i64) -> i64 system_v {{ fn0 = {near} %{of}(i64) -> i64 system_v
                         block0(v0: i64): v1 = call fn0(v0) v2 = func_addr.i64 fn0
                         v3 = call_indirect sig0, v2(v1) return v3 }}"
                    )
                    .replace("fn0 =", "sig0 = (i64) -> i64 system_v fn0 =");
                    define_with(module, &text, false, |_| {})?;
                    let text = format!(
                        "function %where_{of}(i64) -> i64 system_v {{ fn0 = {near} %{of}(i64) -> i64 system_v
                         block0(v0: i64): v1 = func_addr.i64 fn0 return v1 }}"
                    );
                    define_with(module, &text, false, |_| {})?;
                }
                Ok(())
            };
            let origin = module.with_image(&name, build).unwrap();
            assert_eq!(origin, if round == 0 { Origin::Made } else { Origin::Disk });
            module.finalize_definitions().unwrap();
            let got = ["apply_halve", "apply_negate"].map(|name| call(&module, name, 40));
            assert_eq!(got, [10, 40], "{near} {apart} {round}");
            // A function has one address, whoever asks.
            let told = call(&module, "where_negate", 0);
            assert_eq!(told, address(&module, "negate").addr() as i64);
            assert!(copied(&store).is_empty());
        }
    }
}

/// Code that is mapped runs on whatever happens to the cache; who comes later gets a new image.
/// Mutant seen: a damaged image taken for whole (the fault of the checksum).
#[test]
fn mapped_code_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    let mut held = Vec::new();
    let load = |expected| {
        let store = store_in(dir.path());
        let mut module = module(&store);
        let origin = module.with_image(&key(&store), build).unwrap();
        assert_eq!(origin, expected);
        module.finalize_definitions().unwrap();
        assert_eq!(call(&module, "fib", 20), 6765);
        (module, store)
    };
    held.push(load(Origin::Made));
    held.push(load(Origin::Disk));
    assert!(store.clear().unwrap().artifacts.entries > 0);
    assert!(files(dir.path()).is_empty());
    held.push(load(Origin::Made));
    store.prune(PruneLimits { max_size: Some(1 << 20), ..PruneLimits::default() }).unwrap();
    store.prune(PruneLimits { max_size: Some(0), ..PruneLimits::default() }).unwrap();
    assert!(files(dir.path()).is_empty(), "evicted");
    held.push(load(Origin::Made));

    // Damage in the file's place: every part of it.
    for at in [4096 - 40, 4096, 4096 + 40, 4096 + 100, 8192, 8192 + 70] {
        let [file] = &files(dir.path())[..] else { panic!("one image") };
        let mut bytes = std::fs::read(file).unwrap();
        bytes[at] ^= 0x10;
        replace(file, &bytes);
        let (module, store) = load(Origin::Made);
        let damaged = |reason: &&str| reason.starts_with("damaged-");
        assert!(store.stats().reasons.keys().any(damaged), "{at}: {:?}", store.stats().reasons);
        held.push((module, store));
        held.push(load(Origin::Disk));
    }
    let [file] = &files(dir.path())[..] else { panic!("one image") };
    replace(file, &std::fs::read(file).unwrap()[..9000]);
    held.push(load(Origin::Made));
    for (module, _) in &held {
        assert_eq!(call(module, "fib", 20), 6765);
        assert_eq!(call(module, "next", 10), 56);
    }
}

/// Puts other bytes in the place of a file, as nobody may write into it.
fn replace(file: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt;
    let copy = file.with_extension("copy");
    std::fs::write(&copy, bytes).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&copy, file).unwrap();
}

/// A shard that is made smaller keeps images in files of their own. Mutant seen: an image packed with other records.
#[test]
fn packing_leaves_images_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::default().dir(dir.path().join("cache"));
    config.max_size = 1 << 20;
    let store = Store::open(config.clone());
    let mut module = module(&store);
    module.with_image(&key(&store), build).unwrap();
    for n in 0..200_u64 {
        let draft = cachelift::store::Draft::new(vec![n as u8; 3000]);
        store.put(&store.key("filler").u64("n", n).finish(), draft).unwrap();
    }
    store.prune(PruneLimits { max_size: Some(200 << 10), ..PruneLimits::default() }).unwrap();
    let store = Store::open(config);
    let mut module = self::module(&store);
    assert_eq!(module.with_image(&key(&store), never).unwrap(), Origin::Disk);
    check(&mut module);
    assert!(copied(&store).is_empty(), "{:?}", copied(&store));
}

/// What would be wrong elsewhere is built each time, and runs: a host address, something without a name, `try_call`.
#[test]
fn what_cannot_be_kept_is_built_each_time() {
    let address = crate::groups::host as *const () as i64;
    let baked = format!(
        "function %f(i64) -> i64 system_v {{ sig0 = (i64) -> i64 system_v
         block0(v0: i64): v1 = iconst.i64 {address} v2 = call_indirect sig0, v1(v0) return v2 }}"
    );
    let throws = "function %callee(i64) -> i64 tail { block0(v0: i64): return v0 }
        function %g(i64) -> i64 system_v { sig0 = (i64) -> i64 tail fn0 = colocated %callee(i64) -> i64 tail
        block0(v0: i64): try_call fn0(v0), sig0, block1(ret0), [ default: block2(exn0) ]
        block1(v1: i64): return v1
        block2(v2: i64): return v2 }
        function %f(i64) -> i64 system_v { fn0 = colocated %g(i64) -> i64 system_v
        block0(v0: i64): v1 = call fn0(v0) return v1 }";
    let dir = tempfile::tempdir().unwrap();
    for (reason, text) in [("host-address", &baked[..]), ("try-call", throws)] {
        for round in 1..=2 {
            let store = store_in(dir.path());
            let mut module = module(&store);
            let key = store.key("test").str("reason", reason).finish();
            let mut built = 0;
            let origin = module.with_image(&key, |module| {
                built += 1;
                define_with(module, text, false, |_| {}).map(drop)
            });
            assert_eq!((origin.unwrap(), built), (Origin::Made, 1), "{reason} {round}");
            assert!(store.stats().reasons[reason] >= 1);
            module.finalize_definitions().unwrap();
            assert_eq!(call(&module, "f", 7), 7);
        }
    }
    let text = "function %f(i64) -> i64 system_v { block0(v0: i64): return v0 }";
    let store = store_in(dir.path());
    let mut module = module(&store);
    let before = module.declare_anonymous_function(&signature(text)).unwrap();
    let named = store.key("test").str("reason", "anonymous").finish();
    module
        .with_image(&named, |module| {
            let mut function = parse(
                "function %f(i64) -> i64 system_v { fn0 = %x(i64) -> i64 system_v
                 block0(v0: i64): v1 = call fn0(v0) return v1 }",
            )
            .remove(0);
            let own = function.signature.clone();
            let id = module.declare_function("f", Linkage::Export, &own)?;
            let user = cranelift_codegen::ir::UserExternalName::new(0, before.as_u32());
            let user = function.params.ensure_user_func_name(user);
            let callee = cranelift_codegen::ir::FuncRef::from_u32(0);
            function.dfg.ext_funcs[callee].name = cranelift_codegen::ir::ExternalName::User(user);
            let mut context = module.make_context();
            context.func = function;
            module.define_function(id, &mut context)
        })
        .unwrap();
    assert_eq!(store.stats().reasons["anonymous"], 1);
    let mut context = module.make_context();
    context.func = parse(text).remove(0);
    module.define_function(before, &mut context).unwrap();
    module.finalize_definitions().unwrap();
    assert_eq!(call(&module, "f", 7), 7);
}

/// Errors are the build's own, and a function is defined once.
#[test]
fn errors_are_as_without_images() {
    let store = store();
    let error = module(&store)
        .with_image(&key(&store), |_| Err(ModuleError::Undeclared("x".into())))
        .unwrap_err();
    assert!(matches!(error, ModuleError::Undeclared(_)));
    let twice = |module: &mut CachingModule| {
        define_with(module, TEXT.split_once("function %next").unwrap().0, false, |_| {})?;
        define_with(module, TEXT.split_once("function %next").unwrap().0, false, |_| {}).map(drop)
    };
    let error = module(&store).with_image(&key(&store), twice).unwrap_err();
    assert!(matches!(error, ModuleError::DuplicateDefinition(_)), "{error}");
    assert_eq!(module(&store).with_image(&key(&store), build).unwrap(), Origin::Made);
}

/// An audit builds every image again; another build under the same key is an error with both disassemblies.
/// Mutants seen: the tables compared and not the text; no audit of images.
#[test]
fn an_audit_compares_whole_images() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    module(&store).with_image(&key(&store), build).unwrap();
    let audited = Store::open(Config::default().dir(dir.path().join("cache")).audit(true));
    let mut same = module(&audited);
    assert_eq!(same.with_image(&key(&audited), build).unwrap(), Origin::Disk);
    check(&mut same);
    assert_eq!(audited.stats().audited, 3, "an image and two functions");
    let other = |module: &mut CachingModule| {
        let cell = module.declare_data("cell", Linkage::Local, true, false)?;
        let text = TEXT.replace("iconst.i64 -2", "iconst.i64 -3");
        let ids = define_with(module, &text, false, |_| {})?;
        let hidden = module.declare_anonymous_data(false, false)?;
        crate::groups::data(module, cell, hidden, ids[0])
    };
    let error = module(&audited).with_image(&key(&audited), other).unwrap_err();
    let text = format!("{error:#} {error:?}");
    assert!(text.contains("differs from a new compile") && text.contains("fib"), "{text}");
}

/// Images within groups and groups within images.
#[test]
fn nested() {
    let dir = tempfile::tempdir().unwrap();
    let text = "function %main(i64) -> i64 system_v { fn0 = colocated %fib(i64) -> i64 system_v
        block0(v0: i64): v1 = call fn0(v0) v102 = iconst.i64 1 v2 = iadd v1, v102 return v2 }";
    for round in 0..2 {
        let store = store_in(dir.path());
        let origins = [0, 1, 2].map(|mix| {
            let [outer, inner] = ["outer", "inner"]
                .map(|name| store.key("test").str("name", name).u64("mix", mix).finish());
            let both = |module: &mut CachingModule| {
                if mix == 1 {
                    module.with_key(&inner, build)?;
                } else {
                    module.with_image(&inner, build)?;
                }
                define_with(module, text, false, |_| {}).map(drop)
            };
            let mut module = module(&store);
            let origin = match mix {
                0 => module.with_key(&outer, both),
                _ => module.with_image(&outer, both),
            };
            check(&mut module);
            assert_eq!(call(&module, "main", 20), 6766);
            origin.unwrap()
        });
        assert_eq!(origins, [[Origin::Made; 3], [Origin::Disk; 3]][round]);
    }
}

/// A worker that lives long loads images into modules of their own and frees them, again and again.
#[test]
fn images_are_loaded_and_freed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let mut before = 0;
    for round in 0..300 {
        let mut module = module(&store);
        module.with_image(&key(&store), build).unwrap();
        check(&mut module);
        // SAFETY: nothing of it is called any more.
        unsafe { module.free_memory() };
        if round == 10 {
            before = mappings();
        }
    }
    assert!(mappings() < before + 150, "{before} {}", mappings());
    assert!(mapped(dir.path()).len() < 8, "those of other tests at most");
}
