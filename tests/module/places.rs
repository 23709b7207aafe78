//! Functions of images and functions of the `JITModule` that refer to each other, in every order of definition.

use cachelift::code::{CachingModule, CodeError};
use cranelift_jit::{ArenaMemoryProvider, BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::{
    DataDescription, DataId, FuncId, FuncOrDataId, Linkage, Module, ModuleError, ModuleReloc,
    ModuleRelocTarget, ModuleResult,
};

use crate::drop_in::Scattered;
use crate::support::{address, builder, call, define_with, signature, store_in};

/// Of the image: it calls what the module has, and says where it is itself.
const IMAGE: &str = "
    function %leaf(i64) -> i64 system_v { fn0 = %base(i64) -> i64 system_v
    block0(v0: i64): v1 = call fn0(v0) v2 = iconst.i64 1 v3 = iadd v1, v2 return v3 }
    function %where(i64) -> i64 system_v { fn0 = colocated %leaf(i64) -> i64 system_v
    block0(v0: i64): v1 = func_addr.i64 fn0 return v1 }";

/// Of the module: calls and addresses, near and far, and by way of data.
const MODULE: &str = "
    function %base(i64) -> i64 system_v { block0(v0: i64): v1 = iconst.i64 10 v2 = imul v0, v1 return v2 }
    function %near_call(i64) -> i64 system_v { fn0 = colocated %leaf(i64) -> i64 system_v
    block0(v0: i64): v1 = call fn0(v0) return v1 }
    function %far_call(i64) -> i64 system_v { fn0 = %leaf(i64) -> i64 system_v
    block0(v0: i64): v1 = call fn0(v0) return v1 }
    function %near_address(i64) -> i64 system_v { fn0 = colocated %leaf(i64) -> i64 system_v
    block0(v0: i64): v1 = func_addr.i64 fn0 return v1 }
    function %far_address(i64) -> i64 system_v { fn0 = %leaf(i64) -> i64 system_v
    block0(v0: i64): v1 = func_addr.i64 fn0 return v1 }
    function %within(i64) -> i64 system_v { gv0 = symbol %leaf+7
    block0(v0: i64): v1 = symbol_value.i64 gv0 return v1 }
    function %in_data(i64) -> i64 system_v { gv0 = symbol colocated %table
    block0(v0: i64): v1 = symbol_value.i64 gv0 v2 = iadd v1, v0 v3 = load.i64 v2 return v3 }";

fn image(module: &mut CachingModule) -> ModuleResult<()> {
    let key = module.store().key("test").str("image", IMAGE).finish();
    let own = signature(IMAGE);
    module.declare_function("base", Linkage::Local, &own)?;
    module.with_image(&key, |module| define_with(module, IMAGE, false, |_| {}).map(drop)).map(drop)
}

fn code(module: &mut CachingModule, text: &str) -> ModuleResult<()> {
    define_with(module, text, false, |_| {}).map(drop)
}

fn declare_table(module: &mut CachingModule) -> DataId {
    module.declare_data("table", Linkage::Local, true, false).unwrap()
}

/// Nothing, the address of `leaf`, and that and 5.
fn table(module: &mut CachingModule) -> ModuleResult<()> {
    let leaf = module.declare_function("leaf", Linkage::Export, &signature(IMAGE))?;
    let id = declare_table(module);
    let mut data = DataDescription::new();
    data.define_zeroinit(24);
    let at = module.declare_func_in_data(leaf, &mut data);
    data.write_function_addr(8, at);
    let at = data.import_global_value(ModuleRelocTarget::from(leaf));
    data.write_data_addr(16, at, 5);
    module.define_data(id, &data)
}

/// An arena that comes late, 4 GiB below what was mapped before.
#[derive(Default)]
struct Late(Option<ArenaMemoryProvider>);

impl JITMemoryProvider for Late {
    fn allocate(
        &mut self,
        size: usize,
        align: u64,
        kind: JITMemoryKind,
    ) -> std::io::Result<*mut u8> {
        let new = || ArenaMemoryProvider::new_with_size(4 << 30).expect("room");
        self.0.get_or_insert_with(new).allocate(size, align, kind)
    }

    unsafe fn free_memory(&mut self) {
        // SAFETY: as the caller promises.
        self.0.iter_mut().for_each(|arena| unsafe { arena.free_memory() });
    }

    fn finalize(&mut self, protection: BranchProtection) -> ModuleResult<()> {
        self.0.iter_mut().try_for_each(|arena| arena.finalize(protection))
    }
}

/// In whatever order they are defined and finalized, each calls the other; and a function has one address, for code, for
/// data, for the image, and for the host, wherever that is within reach.
/// Kills: an address without what is added to it, in code, in data, and for who asks; a near reference written without a look at
/// the distance; the jump of a function that was referred to before left out; its place taken for its address then; addresses in
/// data left to the `JITModule`; slots where the tables are.
#[test]
fn each_refers_to_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let orders: [fn(&mut CachingModule) -> ModuleResult<()>; 4] = [
        |module| {
            image(module)?;
            code(module, MODULE)?;
            table(module)
        },
        |module| {
            code(module, MODULE)?;
            table(module)?;
            image(module)
        },
        |module| {
            code(module, MODULE.split("function %near_call").next().unwrap())?;
            image(module)?;
            module.finalize_definitions()?;
            let rest = MODULE.split_once("function %near_call").unwrap().1;
            table(module)?;
            code(module, &format!("function %near_call{rest}"))
        },
        |module| {
            table(module)?;
            image(module)?;
            code(module, MODULE)
        },
    ];
    for (n, order) in orders.into_iter().enumerate() {
        for far in [false, true] {
            for round in 0..2 {
                let store = store_in(dir.path());
                let mut builder = builder();
                if far {
                    builder.memory_provider(Box::new(Late::default()));
                }
                let mut module = CachingModule::new(builder, store.clone());
                declare_table(&mut module);
                order(&mut module).unwrap();
                module.finalize_definitions().unwrap();
                let what = format!("order {n}, far: {far}, round {round}");
                for name in ["leaf", "near_call", "far_call"] {
                    assert_eq!(call(&module, name, 4), 41, "{name}, {what}");
                }
                let leaf = address(&module, "leaf").addr() as i64;
                let Some(FuncOrDataId::Func(id)) = module.get_name("leaf") else { panic!() };
                assert_eq!(module.get_address(&id.into()).addr() as i64, leaf, "{what}");
                let within = ModuleRelocTarget::FunctionOffset(id, 3);
                assert_eq!(module.get_address(&within).addr() as i64, leaf + 3, "{what}");
                assert_eq!(call(&module, "where", 0), leaf, "{what}");
                assert_eq!(call(&module, "far_address", 0), leaf, "{what}");
                assert_eq!(call(&module, "within", 0), leaf + 7, "{what}");
                assert_eq!(call(&module, "in_data", 0), 0, "{what}");
                assert_eq!(call(&module, "in_data", 8), leaf, "{what}");
                assert_eq!(call(&module, "in_data", 16), leaf + 5, "{what}");
                let near = call(&module, "near_address", 0);
                if !far {
                    assert_eq!(near, leaf, "{what}");
                }
                // SAFETY: it is the function or a jump to it, and has this signature.
                let near: extern "C" fn(i64) -> i64 = unsafe {
                    std::mem::transmute(std::ptr::with_exposed_provenance::<u8>(near as usize))
                };
                assert_eq!(near(5), 51, "{what}");
                // SAFETY: nothing of it is called any more.
                unsafe { module.free_memory() };
            }
        }
    }
}

/// What the `JITModule` compiles itself calls functions of images by jumps.
/// Kills: no jump for it.
#[test]
fn what_is_not_kept_calls_images() {
    let dir = tempfile::tempdir().unwrap();
    let text = "function %base(i64) -> i64 system_v { block0(v0: i64): return v0 }
        function %tries(i64) -> i64 system_v { sig0 = (i64) -> i64 system_v fn0 = colocated %leaf sig0
        block0(v0: i64): try_call fn0(v0), sig0, block1(ret0), [ default: block2(exn0) ]
        block1(v1: i64): return v1
        block2(v2: i64): return v2 }";
    for image_first in [true, false] {
        let store = store_in(dir.path());
        let mut module = CachingModule::new(builder(), store);
        if image_first {
            image(&mut module).unwrap();
        }
        let tried = define_with(&mut module, text, false, |_| {});
        tried.unwrap();
        if !image_first {
            image(&mut module).unwrap();
        }
        module.finalize_definitions().unwrap();
        assert_eq!(call(&module, "tries", 41), 42);
    }
}

/// A function of an image is defined, and not finalized before it is.
/// Kills: a second definition let through, of one kind or the other.
#[test]
fn functions_of_images_are_defined_once() {
    let dir = tempfile::tempdir().unwrap();
    let leaf = "function %leaf(i64) -> i64 system_v { block0(v0: i64): return v0 }";
    let refused = |result: ModuleResult<()>| {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, ModuleError::DuplicateDefinition(name) if name == "leaf"),
            "{error}"
        );
    };
    let id_of = |module: &CachingModule| -> FuncId {
        let Some(FuncOrDataId::Func(id)) = module.get_name("leaf") else { panic!("no leaf") };
        id
    };
    for round in 0..2 {
        let store = store_in(dir.path());
        let mut module = CachingModule::new(builder(), store.clone());
        image(&mut module).unwrap();
        refused(code(&mut module, leaf));
        let id = id_of(&module);
        let none: [ModuleReloc; 0] = [];
        refused(module.define_function_bytes(id, 1, &[0xC3], &none));
        let early = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            module.get_finalized_function(id)
        }));
        assert!(early.is_err(), "round {round}");
        code(&mut module, MODULE.split("function %near_call").next().unwrap()).unwrap();
        module.finalize_definitions().unwrap();
        assert_eq!(call(&module, "leaf", 4), 41);
        refused(code(&mut module, leaf));

        let mut module = CachingModule::new(builder(), store);
        code(&mut module, leaf).unwrap();
        refused(image(&mut module));
    }
}

/// Where neither a function nor a jump to it is within reach, the error names both.
/// Kills: what does not reach left as it is.
#[test]
fn jumps_that_do_not_reach() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = builder();
    builder.memory_provider(Box::new(Scattered(Vec::new())));
    let mut module = CachingModule::new(builder, store_in(dir.path()));
    image(&mut module).unwrap();
    let near = MODULE.split("function %far_call").next().unwrap();
    code(&mut module, near).unwrap();
    let error = module.finalize_definitions().unwrap_err();
    let ModuleError::Backend(error) = error else { panic!("{error}") };
    match error.downcast_ref::<CodeError>() {
        Some(CodeError::Relocation { function, callee, .. }) => {
            assert_eq!((function.as_str(), callee.as_str()), ("near_call", "leaf"));
        }
        other => panic!("{other:?}"),
    }
    // SAFETY: nothing of it was called.
    unsafe { module.free_memory() };
}
