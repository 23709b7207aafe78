//! A whole program under one key: one look-up, one mapping.
//!
//! ```text
//!   load_image(key, symbols, build) ──► store ──hit──► map ──► slots: symbols(name), library routines ──► Image
//!                                         │ miss                                                           ▲
//!                                         └► build() ──► functions, from the store or compiled ──► linked ─┘
//! ```

use std::fmt;

use cranelift_codegen::ir::Signature;

use super::build::{self, Piece, Reference, Target};
use super::load::{self, Opened};
use super::memory::Bound;
use super::{Slot, Tables};
use crate::code::artifact::{Artifact, Relocation, RelocationTarget};
use crate::code::compile::{Compiler, Stream};
use crate::code::engine::{Engine, fetch};
use crate::code::error::CodeError;
use crate::code::handle::{Batch, Entry, Function, Handles, Memory, TrapInfo};
use crate::code::program::{Meaning, Program};
use crate::code::{audit, exec};
use crate::key::Key;
use crate::store::{Draft, Loan, Meta, Origin};
use crate::sync::Arc;

/// A program that is loaded as an image: its functions by name. It stays loaded as long as this, a clone of it, or a handle
/// on one of its functions lives.
#[derive(Clone)]
pub struct Image {
    loaded: Arc<LoadedImage>,
    origin: Origin,
}

/// An image in memory.
pub(crate) struct LoadedImage {
    tables: Tables,
    memory: Bound,
    /// Apart for every time that an image is loaded.
    key: Key,
    handles: Arc<Handles>,
}

impl LoadedImage {
    pub(crate) fn memory(&self) -> &Bound {
        &self.memory
    }

    /// The trap that the instruction at this place in the text raises.
    pub(crate) fn find_trap(&self, offset: u64) -> Option<TrapInfo> {
        let at = u32::try_from(offset).ok()?;
        let code = self.tables.trap(at)?;
        let function = self.tables.function_at(at)?;
        let offset = at - function.offset;
        Some(TrapInfo { function: function.name.to_owned(), code, offset })
    }
}

impl Drop for LoadedImage {
    fn drop(&mut self) {
        self.handles.forget_image(self);
    }
}

impl Image {
    /// The function of this name, if the program defines one. The handle keeps the image loaded.
    ///
    /// Each call gives a handle of its own: who calls often keeps the first.
    pub fn function(&self, name: &str) -> Option<Function> {
        let tables = &self.loaded.tables;
        let placed = tables.function(tables.find(name)?);
        let signature: Signature = postcard::from_bytes(placed.detail).ok()?;
        let entry = Entry {
            name: Arc::from(placed.name),
            link_key: self.loaded.key.derive(&placed.offset.to_le_bytes()),
            signature,
            offset: placed.offset,
            length: placed.length,
            traps: Box::default(),
        };
        Some(Function::of_image(Batch {
            memory: Memory::Image(Arc::clone(&self.loaded)),
            entries: Box::new([entry]),
            keeps: Vec::new(),
            handles: Arc::clone(&self.loaded.handles),
        }))
    }

    /// The names of its functions, in the order of names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.loaded.tables.functions().map(|function| function.name)
    }

    /// Where it came from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether its code is the one copy that all processes share. If it is not, `Stats::reasons` counts why.
    pub fn is_mapped(&self) -> bool {
        self.loaded.memory.is_mapped()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.loaded.tables.len();
        write!(f, "Image({count} functions, {}, mapped: {})", self.origin, self.is_mapped())
    }
}

impl Engine {
    /// Loads all functions of a program as one image, which is mapped from the cache and shared by all processes that run
    /// it. On a hit `build` is not called, and nothing of the program is made: it costs microseconds, however much code
    /// there is.
    ///
    /// The caller vouches that `key` names all that `build` depends on: the source text that it compiles, say, and the
    /// version of the compiler that does it. [`Store::key`](crate::store::Store::key) begins such a key. The target with
    /// all its settings, Cranelift's version, and this crate's are added here.
    ///
    /// `symbols` gives the address in this process of whatever name the program refers to and does not define. What lies
    /// there must be what the program takes it for, and stay for as long as the image is loaded. Names that the program
    /// [links](Program::link) or gives [addresses](Program::symbol) itself are refused, as nobody would do so on a hit.
    ///
    /// Where the cache's file cannot be mapped as executable (`noexec`, a security policy, a file system of another kind, no
    /// directory) the image is copied into the process's own memory, and `Stats::reasons` counts why. Elsewhere than on
    /// x86-64 images are not supported.
    ///
    /// ```
    /// use cachelift::code::{CodeError, Engine, Program, Target};
    /// use cachelift::config::Config;
    /// use cachelift::store::Store;
    /// # use cranelift_codegen::ir::{AbiParam, ExternalName, ExtFuncData, Function, InstBuilder, Signature, UserFuncName, types::I64};
    /// # use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
    /// extern "C" fn host(x: i64) -> i64 {
    ///     x + 1
    /// }
    ///
    /// let engine = Engine::new(Store::open(Config::default()), Target::host()?);
    /// let compile = |source: &str| -> Result<Program, CodeError> {
    ///     let mut program = Program::new();
    ///     // ... a function `main` that calls `host`
    /// #   let mut signature = Signature::new(engine.target().isa().default_call_conv());
    /// #   signature.params.push(AbiParam::new(I64));
    /// #   signature.returns.push(AbiParam::new(I64));
    /// #   let mut clif = Function::with_name_signature(UserFuncName::default(), signature.clone());
    /// #   let mut context = FunctionBuilderContext::new();
    /// #   let mut b = FunctionBuilder::new(&mut clif, &mut context);
    /// #   let signature = b.import_signature(signature);
    /// #   let name = ExternalName::testcase("host");
    /// #   let host = b.import_function(ExtFuncData { name, signature, colocated: false, patchable: false });
    /// #   let block = b.create_block();
    /// #   b.append_block_params_for_function_params(block);
    /// #   b.switch_to_block(block);
    /// #   b.seal_block(block);
    /// #   let x = b.block_params(block)[0];
    /// #   let call = b.ins().call(host, &[x]);
    /// #   let x = b.inst_results(call)[0];
    /// #   b.ins().return_(&[x]);
    /// #   b.finalize(engine.target().isa().frontend_config());
    /// #   program.define("main", clif)?;
    ///     Ok(program)
    /// };
    ///
    /// let source = "main(x) = host(x)";
    /// let key = engine.store().key("my language v1").str("source", source).finish();
    /// let symbols = |name: &str| (name == "host").then_some(host as *const u8);
    /// let image = engine.load_image(&key, symbols, || compile(source))?;
    /// let main = image.function("main").unwrap();
    /// // SAFETY: that is its signature; `host` is what it is taken for; `main` lives on.
    /// let main = unsafe { main.typed::<extern "C" fn(i64) -> i64>() };
    /// assert_eq!(main(41), 42);
    /// # Ok::<(), CodeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `build`; that a function cannot be compiled, or not independently of its position; that a name has no
    /// meaning; that there is no memory; and under an audit, that what `build` gives differs from what was kept.
    pub fn load_image(
        &self,
        key: &Key,
        symbols: impl Fn(&str) -> Option<*const u8>,
        build: impl FnOnce() -> Result<Program, CodeError>,
    ) -> Result<Image, CodeError> {
        let store = self.store();
        let environment = self.target().environment();
        let name = self.image_key(key);
        let mut build = Some(build);
        let (loan, mut origin) = store.try_lend_with(&name, || {
            let build = build.take().expect("made once");
            let (payload, functions) = self.image_of(build()?)?;
            let meta = Meta {
                label: format!("image of {functions} functions"),
                producer: concat!("cachelift ", env!("CARGO_PKG_VERSION")).into(),
                ..Meta::default()
            };
            Ok::<_, CodeError>(Draft { payload, meta })
        })?;
        if store.config().audit
            && let Some(build) = build.take()
        {
            store.count_audited();
            self.audit_image(&name, &loan, build()?)?;
        }
        let opened = match load::open(&loan, environment, store)? {
            Some(opened) => opened,
            None => {
                let detail = format_args!("what lies under {name} is no image of this environment");
                store.count_reason("unusable", detail);
                origin = Origin::Made;
                let build = build.take().ok_or_else(|| unsupported("what was made is no image"))?;
                let (payload, _) = self.image_of(build()?)?;
                let copied = load::copy(&payload, environment)?;
                copied.expect("what was just made is an image")
            }
        };
        let loaded = self.bind(&name, opened, symbols)?;
        Ok(Image { loaded, origin })
    }

    /// The key under which the store has the image of the program of this key.
    pub(crate) fn image_key(&self, key: &Key) -> Key {
        let mut name = self.store().key("cachelift image v1");
        name.key("environment", self.target().environment()).key("program", key).finish()
    }

    /// Fills in the slots of an image.
    fn bind(
        &self,
        name: &Key,
        opened: Opened,
        symbols: impl Fn(&str) -> Option<*const u8>,
    ) -> Result<Arc<LoadedImage>, CodeError> {
        let Opened { tables, memory } = opened;
        let base = memory.base();
        let address = |slot| match slot {
            Slot::Own(offset) => Ok(base + u64::from(offset)),
            Slot::Libcall(libcall) => exec::libcall(libcall)
                .ok_or_else(|| CodeError::MissingLibcall { function: THE_IMAGE.into(), libcall }),
            Slot::Symbol(number) => {
                let name = tables.symbol(number).unwrap_or_default();
                let address = symbols(name).ok_or_else(|| CodeError::Undefined {
                    function: THE_IMAGE.into(),
                    callee: name.into(),
                })?;
                Ok(address.expose_provenance() as u64)
            }
        };
        let addresses = tables.slots().map(address).collect::<Result<Vec<_>, _>>()?;
        let memory = memory.bind(&addresses).map_err(load::memory_error)?;
        let handles = Arc::clone(self.handles());
        let key = name.derive(&crate::sync::unique().to_le_bytes());
        let loaded = Arc::new(LoadedImage { tables, memory, key, handles });
        self.handles().add_image(&loaded);
        Ok(loaded)
    }

    /// The image of a program, and of how many functions it is.
    fn image_of(&self, program: Program) -> Result<(Vec<u8>, usize), CodeError> {
        let engine = self.position_independent()?;
        let target = engine.target();
        let mut stream = Stream::default();
        let mut compiler = Compiler::new(target);
        let keys: Vec<_> = program
            .functions
            .iter()
            .map(|definition| stream.key_of(engine.context(), definition))
            .collect();
        let payloads = fetch(&engine, &program, &keys, &mut compiler)?;
        let artifacts: Vec<_> = payloads
            .iter()
            .map(|bytes| Artifact::decode(bytes, target.environment()).expect("just looked at"))
            .collect();
        let align = target.isa().function_alignment().preferred as usize;

        let mut symbols: Vec<String> = Vec::new();
        let mut pieces = Vec::with_capacity(artifacts.len());
        for (n, (definition, artifact)) in program.functions.iter().zip(&artifacts).enumerate() {
            let target = |relocation: &Relocation| {
                let reference = match relocation.target {
                    RelocationTarget::Own(offset) => return Ok(Target::Piece(n, offset)),
                    RelocationTarget::Libcall(libcall) => return Ok(Target::Libcall(libcall)),
                    RelocationTarget::Function(reference) | RelocationTarget::Symbol(reference) => {
                        reference
                    }
                };
                let clif = &definition.clif;
                match program.resolve(clif, reference) {
                    Meaning::Defined(index) => Ok(Target::Piece(*index, 0)),
                    Meaning::Nothing => {
                        let name = program.name_of(clif, reference).ok_or_else(|| {
                            CodeError::Undefined {
                                function: definition.name.to_string(),
                                callee: program.spell(clif, reference),
                            }
                        })?;
                        let at = symbols.iter().position(|symbol| symbol == name);
                        let at = at.unwrap_or_else(|| {
                            symbols.push(name.to_owned());
                            symbols.len() - 1
                        });
                        Ok(Target::Symbol(at as u32))
                    }
                    Meaning::Loaded(_) | Meaning::Host(_) => Err(CodeError::Unsupported {
                        function: definition.name.to_string(),
                        reason: format!(
                            "{} has an address of this process, which an image gets by its name",
                            program.spell(clif, reference)
                        ),
                    }),
                }
            };
            let mut target = target;
            let references = artifact.relocations().map(|relocation| {
                let Relocation { offset, kind, addend, .. } = relocation;
                Ok(Reference { offset, kind, target: target(&relocation)?, addend })
            });
            let references = references.collect::<Result<_, CodeError>>()?;
            let signature = &definition.clif.signature;
            pieces.push(Piece {
                name: &definition.name,
                number: n as u32,
                detail: postcard::to_allocvec(signature).expect("plain data encodes"),
                code: artifact.code,
                align: artifact.align.max(align),
                references,
                traps: artifact.trap_table(),
            });
        }
        let symbols: Vec<_> = symbols.iter().map(String::as_str).collect();
        // The environment is the engine's own: that of the position-independent target follows from it.
        let environment = self.target().environment();
        let payload = build::build(environment, &pieces, &symbols, &[]).map_err(unsupported)?;
        Ok((payload, pieces.len()))
    }

    fn audit_image(
        &self,
        name: &Key,
        loan: &Loan<std::fs::File>,
        program: Program,
    ) -> Result<(), CodeError> {
        let (made, _) = self.image_of(program)?;
        let kept = load::payload(loan).unwrap_or_default();
        if kept == made {
            return Ok(());
        }
        let list = |bytes: &[u8]| {
            super::listing(bytes).unwrap_or_else(|| format!("{} bytes\n", bytes.len()))
        };
        Err(audit::difference(&format!("of the image {name}"), list(&kept), list(&made)))
    }
}

/// What errors call an image's functions that they cannot tell apart.
const THE_IMAGE: &str = "of an image";

fn unsupported(reason: impl Into<String>) -> CodeError {
    CodeError::Unsupported { function: THE_IMAGE.into(), reason: reason.into() }
}
