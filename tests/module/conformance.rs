//! Cranelift's own run tests through modules: cold, warm, declared in reverse, under an audit.
//!
//! `CACHELIFT_CONFORMANCE_DIR` names a folder that has them somewhere below. Without it the test says so and checks
//! nothing; under `CI` it fails.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128i;
use std::fs;
use std::path::{Path, PathBuf};

use cachelift::code::CachingModule;
use cachelift::code::clif::{self, Check, Clif, ClifFile, ClifTarget, Options, Targets};
use cachelift::config::Config;
use cachelift::store::Store;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, MemFlagsData, Signature, UserFuncName,
};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITBuilder;
use cranelift_module::{FuncId, FuncOrDataId, Linkage, Module, default_libcall_names};

use crate::support::{link, name};

fn corpus() -> Option<Vec<PathBuf>> {
    const VARIABLE: &str = "CACHELIFT_CONFORMANCE_DIR";
    let Some(dir) = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty()) else {
        assert!(std::env::var_os("CI").is_none(), "{VARIABLE} is not set");
        eprintln!("SKIPPED: {VARIABLE} does not say where the files are");
        return None;
    };
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from(dir)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|e| e == "clif") => files.push(path),
                false => {}
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no .clif file");
    Some(files)
}

/// The ISA of a file's target as a `JITModule` takes it: not position-independent.
fn isa(target: &ClifTarget) -> OwnedTargetIsa {
    let from = target.target.isa();
    let mut flags = settings::builder();
    for flag in from.flags().iter() {
        flags.set(flag.name, &flag.value_string()).unwrap();
    }
    flags.set("is_pic", "false").unwrap();
    flags.set("use_colocated_libcalls", "false").unwrap();
    let mut builder = cranelift_native::builder_with_options(false).unwrap();
    for flag in from.isa_flags() {
        builder.set(flag.name, &flag.value_string()).unwrap();
    }
    builder.finish(settings::Flags::new(flags)).unwrap()
}

/// What `pshufb` does, for CPUs without it.
#[cfg(target_arch = "x86_64")]
#[expect(improper_ctypes_definitions, reason = "it is how the ABI passes vectors")]
extern "C" fn pshufb(a: __m128i, b: __m128i) -> __m128i {
    // SAFETY: plain bytes, in both directions.
    let [from, at] = [a, b].map(|v| unsafe { std::mem::transmute::<__m128i, [u8; 16]>(v) });
    let bytes = at.map(|at| if at & 0x80 != 0 { 0 } else { from[usize::from(at & 15)] });
    // SAFETY: as above.
    unsafe { std::mem::transmute::<[u8; 16], __m128i>(bytes) }
}

/// Loads the parameters of a call from 16-byte slots, calls, and leaves the results there.
fn trampoline(signature: &Signature, isa: &dyn TargetIsa) -> Function {
    let pointer = isa.pointer_type();
    let mut own = Signature::new(isa.default_call_conv());
    own.params.extend([AbiParam::new(pointer); 2]);
    let mut function = Function::with_name_signature(UserFuncName::default(), own);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let (callee, slots) = (b.block_params(block)[0], b.block_params(block)[1]);
    let flags = MemFlagsData::trusted();
    let arguments: Vec<_> = signature
        .params
        .iter()
        .zip((0..).step_by(16))
        .map(|(param, at)| b.ins().load(param.value_type, flags, slots, at))
        .collect();
    let callee_signature = b.import_signature(signature.clone());
    let call = b.ins().call_indirect(callee_signature, callee, &arguments);
    let results = b.inst_results(call).to_vec();
    for (value, at) in results.into_iter().zip((0..).step_by(16)).take(signature.returns.len()) {
        b.ins().store(flags, value, slots, at);
    }
    b.ins().return_(&[]);
    b.finalize(isa.frontend_config());
    function
}

type Make = fn(JITBuilder, Store) -> CachingModule;

/// Whether a file's functions are defined one by one, or as an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    OneByOne,
    AsImage,
}

/// Compiles a file for a target and runs its lines; how many of them there were.
fn run(
    path: &Path,
    file: &ClifFile,
    target: &ClifTarget,
    store: &Store,
    make: Make,
    how: How,
) -> usize {
    let mut builder = JITBuilder::with_isa(isa(target), default_libcall_names());
    #[cfg(target_arch = "x86_64")]
    builder.symbol("__cranelift_x86_pshufb", pshufb as *const u8);
    builder.symbol("unused", std::ptr::null());
    let mut module = make(builder, store.clone());
    let trampoline_name = |n: usize| format!("trampoline of function {n}");
    let build = |module: &mut CachingModule| {
        let mut context = module.make_context();
        let mut define = |module: &mut CachingModule, id: FuncId, function: Function| {
            module.clear_context(&mut context);
            context.func = function;
            module.define_function(id, &mut context)
        };
        let mut ids = Vec::new();
        for function in &file.functions {
            let function = &function.function;
            let (name, signature) = (name(function), &function.signature);
            ids.push(module.declare_function(&name, Linkage::Local, signature)?);
        }
        for (function, id) in file.functions.iter().zip(&ids) {
            let mut function = Function::clone(&function.function);
            link(module, &mut function);
            define(module, *id, function)?;
        }
        for (n, function) in file.functions.iter().enumerate() {
            let trampoline = trampoline(&function.function.signature, module.isa());
            let (name, signature) = (trampoline_name(n), &trampoline.signature);
            let id = module.declare_function(&name, Linkage::Local, signature)?;
            define(module, id, trampoline)?;
        }
        Ok(())
    };
    let built = match how {
        How::OneByOne => build(&mut module),
        How::AsImage => {
            let mut key = store.key("conformance");
            let key = key.str("file", &path.to_string_lossy()).str("target", &target.name).finish();
            module.with_image(&key, build).map(drop)
        }
    };
    built.unwrap_or_else(|error| panic!("{} ({}): {error:?}", path.display(), target.name));
    module.finalize_definitions().unwrap();
    let id_of = |name: &str| match module.get_name(name) {
        Some(FuncOrDataId::Func(id)) => id,
        _ => panic!("no function {name}"),
    };
    let ids: Vec<_> = file.functions.iter().map(|f| id_of(&name(&f.function))).collect();
    let trampolines: Vec<_> =
        (0..file.functions.len()).map(|n| id_of(&trampoline_name(n))).collect();
    for line in &file.runs {
        let reads = line.readings.iter().any(|reading| {
            let signature = &file.functions[reading.function].function.signature;
            let mut slots = vec![[0_u8; 16]; signature.params.len().max(signature.returns.len())];
            for (argument, slot) in reading.arguments.iter().zip(&mut slots) {
                argument.write_to_slice_ne(slot);
            }
            let code = module.get_finalized_function(ids[reading.function]);
            let trampoline = module.get_finalized_function(trampolines[reading.function]);
            // SAFETY: the trampoline was made for a function of this signature; the files' functions touch no memory
            // but their own.
            let trampoline: extern "C" fn(*const u8, *mut [u8; 16]) =
                unsafe { std::mem::transmute(trampoline) };
            trampoline(code, slots.as_mut_ptr());
            let values: Vec<_> = signature
                .returns
                .iter()
                .zip(&slots)
                .map(|(result, slot)| DataValue::read_from_slice_ne(slot, result.value_type))
                .collect();
            matches!(reading.check, Check::Print) || reading.check.holds(&values)
        });
        assert!(reads, "{}:{} ({})", path.display(), line.line, target.name);
    }
    // SAFETY: nothing of it is called any more.
    unsafe { module.free_memory() };
    file.runs.len()
}

/// All files; how many lines were run.
fn run_all(files: &[PathBuf], store: &Store, reversed: bool, make: Make, how: How) -> usize {
    let mut targets = Targets::default();
    let mut lines = 0;
    for path in files {
        let text = fs::read_to_string(path).unwrap();
        let parsed = clif::parse(&text, &mut targets, Options { reversed }).unwrap();
        let Clif::File(file) = parsed else { continue };
        lines += file.targets.iter().map(|t| run(path, &file, t, store, make, how)).sum::<usize>();
    }
    lines
}

/// Every line holds, and after the first time nothing is compiled but what is never kept.
#[test]
fn every_case_cold_warm_reversed_and_under_audit() {
    let Some(files) = corpus() else { return };
    for make in [CachingModule::new as Make, CachingModule::code_only] {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(Config::default().dir(dir.path().join("cache")));
        let cold = open();
        let lines = run_all(&files, &cold, false, make, How::OneByOne);
        assert!(lines > 0 && cold.stats().made > 0);
        let unkept = cold.stats().reasons.get("try-call").copied();

        let warm = open();
        assert_eq!(run_all(&files, &warm, false, make, How::OneByOne), lines);
        assert_eq!((warm.stats().made, warm.stats().waited), (0, 0));
        assert_eq!(warm.stats().reasons.get("try-call").copied(), unkept);

        let reversed = open();
        assert_eq!(run_all(&files, &reversed, true, make, How::OneByOne), lines);
        assert_eq!(reversed.stats().made, 0);

        let audited = Store::open(Config::default().dir(dir.path().join("cache")).audit(true));
        assert_eq!(run_all(&files, &audited, false, make, How::OneByOne), lines);
        let stats = audited.stats();
        assert_eq!((stats.made, stats.audited), (0, stats.memory + stats.disk));
        assert_eq!(stats.reasons.get("unusable"), None);
        println!("{lines} lines, {} functions, {unkept:?} never kept", cold.stats().made);
    }
}

/// The same as images: made, mapped by another store, and built again under an audit, with no difference. What has
/// `try_call` is no image, and runs all the same.
#[test]
fn every_case_as_an_image() {
    let Some(files) = corpus() else { return };
    let make = CachingModule::code_only;
    let dir = tempfile::tempdir().unwrap();
    let open = |audit| Store::open(Config::default().dir(dir.path().join("cache")).audit(audit));
    let images = |store: &Store| {
        let reasons = store.stats().reasons;
        let copied: Vec<_> = reasons.keys().filter(|name| name.starts_with("image-")).collect();
        assert!(copied.is_empty() && !reasons.contains_key("unusable"), "{reasons:?}");
    };
    let cold = open(false);
    let lines = run_all(&files, &cold, false, make, How::AsImage);
    assert!(lines > 0 && cold.stats().made > 0);
    images(&cold);

    let warm = open(false);
    assert_eq!(run_all(&files, &warm, false, make, How::AsImage), lines);
    let stats = warm.stats();
    assert_eq!((stats.made, stats.waited), (0, 0));
    assert!(stats.disk > 0);
    images(&warm);

    let audited = open(true);
    assert_eq!(run_all(&files, &audited, false, make, How::AsImage), lines);
    let stats = audited.stats();
    assert_eq!((stats.made, stats.audited), (0, stats.memory + stats.disk));
    images(&audited);
    println!("{lines} lines as images");
}
