//! [`CachingModule`]: a `cranelift_jit::JITModule` that compiles only what no process has compiled before.
//!
//! ```text
//!   define_function ──► key of the CLIF ──► store ──hit──► code, symbolic relocations ──┐
//!                          │                  │ miss                                    ▼
//!                          │ cannot be kept   └► compile, publish ──► define_function_bytes of the JITModule
//!                          ▼                                                            │
//!                  define_function of the JITModule                    finalize_definitions: all in one go
//! ```
//!
//! Ids, names and addresses of a module enter neither keys nor what is kept: Cranelift compiles a reference to
//! another function or to data as a position in a table beside the function, and the table at hand says what that is.
//! So two functions of one body that call different functions share their machine code, and each calls its own.
//!
//! Loaded code belongs to the module, as it does with a `JITModule`: another module has its own copy.

mod compiled;
mod define;
mod group;
mod host;
mod image;
mod near;
mod place;

use std::fmt;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Signature;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{
    DataDescription, DataId, FuncId, FuncOrDataId, Linkage, Module, ModuleDeclarations,
    ModuleReloc, ModuleRelocTarget, ModuleResult,
};

use super::compile::Stream;
use super::target;
use crate::key::Key;
use crate::store::Store;
use crate::sync::Arc;
use compiled::Handover;
use group::Recording;
use image::Images;
use near::Near;
use place::Places;

/// What a module keeps of the functions it compiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    /// All that Cranelift says of a function, so that `Context::compiled_code` has it after a hit too.
    CompiledCode,
    /// Code and relocations.
    CodeOnly,
}

/// A `JITModule` whose functions are compiled once on this machine.
///
/// It takes the place of `cranelift_jit::JITModule`: the same builder, the same methods. Only its construction
/// differs:
///
/// ```
/// use cachelift::code::CachingModule;
/// use cachelift::config::Config;
/// use cachelift::store::Store;
/// use cranelift_codegen::ir::{AbiParam, InstBuilder, types::I64};
/// use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
/// use cranelift_jit::JITBuilder;
/// use cranelift_module::{Linkage, Module, default_libcall_names};
///
/// let builder = JITBuilder::new(default_libcall_names())?;
/// let store = Store::open(Config::default()); // a program would say Config::from_env()
/// let mut module = CachingModule::new(builder, store); // was: JITModule::new(builder)
///
/// let mut ctx = module.make_context();
/// ctx.func.signature.params.push(AbiParam::new(I64));
/// ctx.func.signature.returns.push(AbiParam::new(I64));
/// let mut frontend = FunctionBuilderContext::new();
/// let mut b = FunctionBuilder::new(&mut ctx.func, &mut frontend);
/// let block = b.create_block();
/// b.append_block_params_for_function_params(block);
/// b.switch_to_block(block);
/// b.seal_block(block);
/// let x = b.block_params(block)[0];
/// let next = b.ins().iadd_imm_s(x, 1);
/// b.ins().return_(&[next]);
/// b.finalize(module.target_config());
///
/// let id = module.declare_function("next", Linkage::Export, &ctx.func.signature)?;
/// module.define_function(id, &mut ctx)?; // compiled here, by another process, or last week
/// module.finalize_definitions()?;
/// // SAFETY: `next` was built with this signature.
/// let next = unsafe {
///     std::mem::transmute::<*const u8, extern "C" fn(i64) -> i64>(module.get_finalized_function(id))
/// };
/// assert_eq!(next(41), 42);
/// # Ok::<_, cranelift_module::ModuleError>(())
/// ```
///
/// What differs from a `JITModule`, besides the time it takes:
///
/// - After a hit `ctx.func` is as it was, where a compile leaves it optimised; and the verifier does not run, because
///   it ran when the function was compiled (whether it did is part of the key).
/// - Functions with `try_call`, functions whose context asks for a disassembly, and, in builds of Cranelift in chaos
///   mode, all that is defined with a control plane, are compiled by the `JITModule` itself and not kept.
/// - A function that has host addresses written into it (`iconst`) is compiled again in every process, because the
///   addresses are others there. [`Store::stats`] counts them as `host-address`, and the log names the first. Declare
///   what lies there as an import and give the address with [`JITBuilder::symbol`] instead.
///
/// `Stats::reasons` counts what was not kept, by reason: `try-call`, `disassembly`, `control-plane`, `uncacheable`.
pub struct CachingModule {
    inner: JITModule,
    store: Store,
    keep: Keep,
    /// For the functions of the `JITModule`.
    own: Arc<Settings>,
    /// For those of images, if there was one to be made.
    independent: Option<Arc<Settings>>,
    stream: Stream,
    relocs: Vec<ModuleReloc>,
    handover: Handover,
    /// What is declared and defined, while a keyed group is built.
    recording: Option<Recording>,
    images: Images,
    /// What is to be looked at when it is finalized.
    near: Vec<Near>,
    places: Places,
}

/// For whom functions are compiled, and what their keys are computed in.
struct Settings {
    /// None for that of the `JITModule`.
    isa: Option<OwnedTargetIsa>,
    environment: Key,
    /// Domain, namespace, salt and environment.
    context: Key,
}

impl Settings {
    fn new(store: &Store, keep: Keep, isa: &dyn TargetIsa) -> Self {
        let environment = target::environment(isa);
        let context = match keep {
            Keep::CodeOnly => super::engine::function_context(store, &environment),
            Keep::CompiledCode => compiled::context(store, &environment, isa),
        };
        Settings { isa: None, environment, context }
    }

    fn isa<'a>(&'a self, inner: &'a JITModule) -> &'a dyn TargetIsa {
        self.isa.as_deref().unwrap_or_else(|| inner.isa())
    }
}

impl CachingModule {
    /// A module that keeps what it compiles in `store`.
    ///
    /// # Panics
    ///
    /// As `JITModule::new`: if the builder's ISA makes position-independent code.
    pub fn new(builder: JITBuilder, store: Store) -> Self {
        Self::keeping(builder, store, Keep::CompiledCode)
    }

    /// As [`new`](Self::new) for callers who never ask for `Context::compiled_code`: after a hit there is none. Hits
    /// cost less, and so does the room that functions take in the cache. What is kept is what
    /// [`Engine`](super::Engine) keeps; a module that was made by `new` does not share it.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn code_only(builder: JITBuilder, store: Store) -> Self {
        Self::keeping(builder, store, Keep::CodeOnly)
    }

    fn keeping(builder: JITBuilder, store: Store, keep: Keep) -> Self {
        let inner = JITModule::new(builder);
        let own = Arc::new(Settings::new(&store, keep, inner.isa()));
        CachingModule {
            inner,
            store,
            keep,
            own,
            independent: None,
            stream: Stream::default(),
            relocs: Vec::new(),
            handover: Handover::default(),
            recording: None,
            images: Images::default(),
            near: Vec::new(),
            places: Places::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The module that the code is loaded into. It does not know the functions of [images](Self::with_image).
    pub fn inner(&self) -> &JITModule {
        &self.inner
    }

    /// As `JITModule::finalize_definitions`: relocates everything that was defined since the last time, in one go.
    ///
    /// # Errors
    ///
    /// If the system gives no memory, or none that may be executed; and on x86-64, where a `JITModule` panics, if something
    /// is too far away for a near reference of a function to reach. Nothing is finalized then.
    ///
    /// # Panics
    ///
    /// If a symbol cannot be resolved.
    pub fn finalize_definitions(&mut self) -> ModuleResult<()> {
        self.check_near()?;
        self.inner.finalize_definitions()?;
        self.places.note_finalized();
        self.bind_images()
    }

    /// As `JITModule::get_finalized_function`: the address of a finalized function.
    ///
    /// # Panics
    ///
    /// If the function is not defined and finalized.
    pub fn get_finalized_function(&self, id: FuncId) -> *const u8 {
        self.function_in_image(id).unwrap_or_else(|| self.inner.get_finalized_function(id))
    }

    /// As `JITModule::get_finalized_data`: address and size of a finalized data object.
    ///
    /// # Panics
    ///
    /// If the data object is not defined and finalized.
    pub fn get_finalized_data(&self, id: DataId) -> (*const u8, usize) {
        self.inner.get_finalized_data(id)
    }

    /// As `JITModule::get_address`: what a relocation's target resolves to.
    ///
    /// # Panics
    ///
    /// If it resolves to nothing.
    pub fn get_address(&self, name: &ModuleRelocTarget) -> *const u8 {
        match self.image_address(name) {
            Some(address) => std::ptr::with_exposed_provenance(address as usize),
            None => self.inner.get_address(name),
        }
    }

    /// As `JITModule::lookup_wasmtime_exception_data`: for a place in the code of a function of this module, where the function
    /// begins, and its handlers. None for functions that have no `try_call`, which have no handlers; those that have are compiled
    /// by the `JITModule` itself, and not kept.
    #[cfg(feature = "wasmtime-unwinder")]
    pub fn lookup_wasmtime_exception_data(
        &self,
        pc: usize,
    ) -> Option<(usize, wasmtime_unwinder::ExceptionTable<'_>)> {
        self.inner.lookup_wasmtime_exception_data(pc)
    }

    /// As `JITModule::free_memory`: frees the code and the data of this module. Other modules keep theirs.
    ///
    /// # Safety
    ///
    /// None of the module's functions may be running, and none of its functions and data may be used afterwards.
    pub unsafe fn free_memory(self) {
        self.images.free();
        // SAFETY: as the caller promises; only this module's memory is freed.
        unsafe { self.inner.free_memory() }
    }
}

/// The compiled code that a payload is, of whichever environment.
#[cfg(feature = "cli")]
pub(super) fn compiled_code(payload: &[u8]) -> Option<cranelift_codegen::CompiledCode> {
    let stencil = compiled::decode_any(payload)?;
    compiled::finish(&cranelift_codegen::ir::Function::new(), stencil)
}

/// The keyed group that a payload is, of whichever environment: how many functions it has, and all of it for people.
#[cfg(any(test, feature = "cli", feature = "fuzzing"))]
pub(crate) fn group_listing(payload: &[u8]) -> Option<(usize, String)> {
    group::listing(payload)
}

impl Module for CachingModule {
    fn isa(&self) -> &dyn TargetIsa {
        self.inner.isa()
    }

    fn declarations(&self) -> &ModuleDeclarations {
        self.inner.declarations()
    }

    fn declare_function(
        &mut self,
        name: &str,
        linkage: Linkage,
        signature: &Signature,
    ) -> ModuleResult<FuncId> {
        let id = self.inner.declare_function(name, linkage, signature)?;
        self.note_declared(FuncOrDataId::Func(id));
        Ok(id)
    }

    fn declare_anonymous_function(&mut self, signature: &Signature) -> ModuleResult<FuncId> {
        let id = self.inner.declare_anonymous_function(signature)?;
        self.note_declared(FuncOrDataId::Func(id));
        Ok(id)
    }

    fn declare_data(
        &mut self,
        name: &str,
        linkage: Linkage,
        writable: bool,
        tls: bool,
    ) -> ModuleResult<DataId> {
        let id = self.inner.declare_data(name, linkage, writable, tls)?;
        self.note_declared(FuncOrDataId::Data(id));
        Ok(id)
    }

    fn declare_anonymous_data(&mut self, writable: bool, tls: bool) -> ModuleResult<DataId> {
        let id = self.inner.declare_anonymous_data(writable, tls)?;
        self.note_declared(FuncOrDataId::Data(id));
        Ok(id)
    }

    fn define_function(&mut self, id: FuncId, ctx: &mut Context) -> ModuleResult<()> {
        self.define(id, ctx, &mut ControlPlane::default())
    }

    fn define_function_with_control_plane(
        &mut self,
        id: FuncId,
        ctx: &mut Context,
        ctrl_plane: &mut ControlPlane,
    ) -> ModuleResult<()> {
        // Outside of chaos mode it holds nothing, and so decides nothing.
        if size_of::<ControlPlane>() == 0 {
            self.define(id, ctx, ctrl_plane)
        } else {
            self.define_uncached(id, ctx, ctrl_plane, "control-plane")
        }
    }

    fn define_function_bytes(
        &mut self,
        id: FuncId,
        alignment: u64,
        bytes: &[u8],
        relocs: &[ModuleReloc],
    ) -> ModuleResult<()> {
        self.define_here(id, alignment, bytes, relocs)?;
        self.note_function(id, alignment, bytes, relocs);
        Ok(())
    }

    fn define_data(&mut self, id: DataId, data: &DataDescription) -> ModuleResult<()> {
        let here = self.data_here(data);
        self.inner.define_data(id, &here)?;
        self.note_data(id, data);
        Ok(())
    }
}

impl fmt::Debug for CachingModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachingModule({}, {:?})", self.inner.isa().triple(), self.keep)
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<CachingModule>();
};
