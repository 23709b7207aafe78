//! From programs to callable code, through the store.
//!
//! ```text
//!   programs ──► unit keys ──► store.try_get_many_with ──► artifacts ──► link keys ──► live? ──► handles
//!                                    │ compiles what is missing                         │ no
//!                                    │                          one mapping per program ▼
//!                                    └ shared with other processes         copy, relocate, make executable
//! ```

use std::collections::HashMap;
use std::fmt;

use cranelift_codegen::ir::Signature;

use super::artifact::Artifact;
use super::audit;
use super::call;
use super::compile::{Compiler, Stream};
use super::error::CodeError;
use super::handle::{Handles, TrapInfo};
use super::load;
use super::loaded::{Got, Loaded};
use super::program::{Definition, Identity, Program};
use super::target::Target;
use crate::key::{Key, KeyBuilder, PartDigest};
use crate::store::{Draft, Meta, Origin, Record, Store};
use crate::sync::{self, Arc};

/// The domain of the keys of functions.
const DOMAIN: &str = "cachelift function v1";

/// What is remembered with an artifact that is made. None of it changes what is loaded.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Keep the function's CLIF as text.
    pub keep_source: bool,
    /// Keep a digest of each part of its key, so that a miss can be explained.
    pub keep_parts: bool,
}

/// Compiles functions for one target, or loads them from a store. Clones share everything.
///
/// ```
/// use cachelift::code::{Engine, Program, Target};
/// use cachelift::config::Config;
/// use cachelift::store::Store;
/// use cranelift_codegen::ir::{
///     AbiParam, Function, InstBuilder, Signature, UserFuncName, types::I32,
/// };
/// use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
///
/// let target = Target::host()?;
/// let mut signature = Signature::new(target.isa().default_call_conv());
/// signature.params.push(AbiParam::new(I32));
/// signature.returns.push(AbiParam::new(I32));
/// let mut clif = Function::with_name_signature(UserFuncName::default(), signature);
/// let mut context = FunctionBuilderContext::new();
/// let mut builder = FunctionBuilder::new(&mut clif, &mut context);
/// let block = builder.create_block();
/// builder.append_block_params_for_function_params(block);
/// builder.switch_to_block(block);
/// builder.seal_block(block);
/// let x = builder.block_params(block)[0];
/// let next = builder.ins().iadd_imm(x, 1);
/// builder.ins().return_(&[next]);
/// builder.finalize(target.isa().frontend_config());
///
/// let engine = Engine::new(Store::open(Config::default()), target);
/// let mut program = Program::new();
/// program.define("next", clif)?;
/// let loaded = engine.load(program)?;
/// let next = loaded.function("next").unwrap();
/// // SAFETY: that is its signature; it has no effects; `loaded` lives on.
/// let next = unsafe { next.typed::<extern "C" fn(i32) -> i32>() };
/// assert_eq!(next(41), 42);
/// # Ok::<(), cachelift::code::CodeError>(())
/// ```
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    store: Store,
    target: Target,
    options: Options,
    /// What every unit key is computed in: domain, namespace, salt and environment.
    context: Key,
    handles: Arc<Handles>,
}

impl Engine {
    /// An engine that keeps what it compiles in `store`.
    pub fn new(store: Store, target: Target) -> Self {
        Self::with_options(store, target, Options::default())
    }

    /// As [`new`](Self::new), with options.
    pub fn with_options(store: Store, target: Target, options: Options) -> Self {
        let context = function_context(&store, target.environment());
        Engine(Arc::new(Inner { store, target, options, context, handles: Arc::default() }))
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The target.
    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// Compiles or loads a program's functions, and links them.
    ///
    /// Functions that are live in this engine, bound to the same callees, are not loaded anew: equal code
    /// has one address. Fails with the first function that cannot be compiled or linked; the others are in
    /// the store then.
    pub fn load(&self, program: Program) -> Result<Loaded, CodeError> {
        self.load_many(vec![program]).pop().expect("a result for each program")
    }

    /// As [`load`](Self::load) for many programs, in one go through the store: processes that start
    /// together share the work, function by function. The results are in the order of the programs.
    pub fn load_many(&self, programs: Vec<Program>) -> Vec<Result<Loaded, CodeError>> {
        let jobs = programs.into_iter().map(|program| (self.clone(), program));
        Self::load_each(jobs.collect())
    }

    /// As [`load_many`](Self::load_many), each program with an engine of its own: for targets that differ.
    ///
    /// The engines must be on one store; where they are not, all goes through that of the first.
    pub fn load_each(jobs: Vec<(Engine, Program)>) -> Vec<Result<Loaded, CodeError>> {
        Self::load_each_watched(jobs, || {})
    }

    /// As [`load_each`](Self::load_each), and calls `made` after each function that is compiled.
    pub fn load_each_watched(
        jobs: Vec<(Engine, Program)>,
        mut made: impl FnMut(),
    ) -> Vec<Result<Loaded, CodeError>> {
        let Some(store) = jobs.first().map(|(engine, _)| engine.store().clone()) else {
            return Vec::new();
        };
        let (engines, mut programs): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let mut stream = Stream::default();
        let mut keys = Vec::new();
        let mut places = Vec::new();
        let mut trampolines = Vec::new();
        let mut called = Called::default();
        for (number, (engine, program)) in engines.iter().zip(&mut programs).enumerate() {
            trampolines.push(called.add_trampolines(program, engine.target()));
            for (index, definition) in program.functions.iter().enumerate() {
                keys.push(stream.key_of(&engine.0.context, definition));
                places.push((number, index));
            }
        }

        let mut compilers = Compilers::new(&engines);
        let mut micros = vec![0; keys.len()];
        let mut make = |i: usize| {
            let (number, index) = places[i];
            let (engine, program) = (&engines[number], &programs[number]);
            let start = sync::now();
            let draft = engine.make(compilers.of(number), program, &program.functions[index])?;
            micros[i] = start.elapsed().as_micros() as u64;
            made();
            Ok(draft)
        };
        let is_stored = |i: &usize| {
            let (number, index) = places[*i];
            programs[number].functions[index].identity.is_stored()
        };
        let (stored, unstored): (Vec<_>, Vec<_>) = (0..keys.len()).partition(is_stored);
        let stored_keys: Vec<_> = stored.iter().map(|i| keys[*i]).collect();
        let mut all: Vec<_> = (0..keys.len()).map(|_| None).collect();
        let results = store.try_get_many_with(&stored_keys, |at| make(stored[at]));
        for (i, result) in stored.into_iter().zip(results) {
            all[i] = Some(result);
        }
        for i in unstored {
            all[i] = Some(make(i).map(|draft| (Record::unpublished(draft), Origin::Made)));
        }
        let fetched = all.into_iter().flatten();

        let fetched = fetched.zip(&places).map(|(result, &(number, index))| {
            let (record, origin) = result?;
            let definition = &programs[number].functions[index];
            if store.config().audit && origin != Origin::Made && definition.can_be_made() {
                store.count_audited();
                let compiled = compilers.of(number).compile(definition)?;
                audit::compare(&definition.name, record.payload(), &compiled)?;
            }
            Ok((record, origin))
        });
        let fetched: Vec<_> = fetched.collect();
        let mut fetched =
            fetched.into_iter().zip(keys).zip(micros).map(|((result, key), micros)| {
                result.map(|(record, origin)| Fetched { record, origin, key, micros })
            });
        let link = |(number, (program, trampolines)): (usize, (Program, Vec<usize>))| {
            // All of a program's results are taken, so that the next program's come next.
            let fetched: Vec<_> = fetched.by_ref().take(program.functions.len()).collect();
            let fetched = fetched.into_iter().collect::<Result<_, _>>()?;
            engines[number].link(program, trampolines, fetched, compilers.of(number))
        };
        programs.into_iter().zip(trampolines).enumerate().map(link).collect()
    }

    /// What the keys of functions are computed in.
    pub(crate) fn context(&self) -> &Key {
        &self.0.context
    }

    pub(crate) fn handles(&self) -> &Arc<Handles> {
        &self.0.handles
    }

    /// The key of a function that is [named by this digest](Program::define_by).
    #[cfg(feature = "graph")]
    pub(crate) fn key_by_digest(&self, digest: &Key) -> Key {
        super::compile::by_digest(&self.0.context, digest)
    }

    /// An engine on the same store for the same target, whose code is independent of where it lies.
    pub(crate) fn position_independent(&self) -> Result<Engine, CodeError> {
        let target = self.target().position_independent()?;
        Ok(Self::with_options(self.store().clone(), target, self.0.options))
    }

    /// The trap that the instruction at this address raises, if the address is in live code and traps:
    /// what a signal handler asks to tell a trap from a fault.
    pub fn find_trap(&self, address: usize) -> Option<TrapInfo> {
        self.0.handles.find_trap(address as u64)
    }

    /// How many pieces of executable memory are mapped now.
    pub fn live_batches(&self) -> usize {
        self.0.handles.batches()
    }

    fn make(
        &self,
        compiler: &mut Compiler<'_>,
        program: &Program,
        definition: &Definition,
    ) -> Result<Draft, CodeError> {
        let label = match &definition.identity {
            Identity::Clif | Identity::Trampoline(_) => {
                format!("{}{}", definition.name, definition.clif.signature)
            }
            Identity::With { label, .. } => label.to_string(),
            Identity::Made(recipe) => recipe.label.to_string(),
            Identity::Known(_) => return Err(missing(&definition.name)),
        };
        let payload = compiler.compile(definition)?;
        let options = self.0.options;
        let meta = Meta {
            label,
            producer: concat!("cachelift ", env!("CARGO_PKG_VERSION")).into(),
            parts: if options.keep_parts { self.parts(definition) } else { Vec::new() },
            source: options
                .keep_source
                .then(|| program.source(&definition.body(self.target().isa()))),
            ..Meta::default()
        };
        Ok(Draft { payload, meta })
    }

    /// The parts of a function's key, one by one.
    fn parts(&self, definition: &Definition) -> Vec<PartDigest> {
        let config = self.0.store.config();
        let mut parts = KeyBuilder::explained(DOMAIN);
        parts.str("namespace", &config.namespace).str("salt", &config.salt);
        parts.group("environment", |environment| {
            for part in self.target().parts() {
                environment.str(&part.name, &part.value);
            }
        });
        match &definition.identity {
            Identity::Made(recipe) => {
                parts.group("function", |parts| (recipe.parts)(parts));
            }
            identity => {
                parts.bytes("function", Stream::default().of(definition));
                if let Identity::With { digest, .. } = identity {
                    parts.key("digest", digest);
                }
            }
        }
        parts.digests().to_vec()
    }

    fn link(
        &self,
        mut program: Program,
        trampolines: Vec<usize>,
        mut fetched: Vec<Fetched>,
        compiler: &mut Compiler<'_>,
    ) -> Result<Loaded, CodeError> {
        // A record that is whole but no artifact of this environment is a miss. It cannot be replaced
        // under its key, whose first publisher wins, so what is compiled here stays here.
        let environment = self.target().environment();
        let mut remade = Vec::new();
        let mut decoded = Vec::with_capacity(fetched.len());
        for (i, fetched) in fetched.iter().enumerate() {
            let definition = &program.functions[i];
            let references = definition.clif.params.user_named_funcs().len();
            let artifact = Artifact::decode(fetched.record.payload(), environment)
                .ok()
                .filter(|artifact| artifact.references as usize <= references);
            if artifact.is_none() {
                if let Identity::Known(_) = &definition.identity {
                    return Err(missing(&definition.name));
                }
                tracing::warn!(key = %fetched.key, "an unusable artifact is compiled again");
                remade.push((i, compiler.compile(definition)?));
            }
            decoded.push(artifact);
        }
        for (i, bytes) in &remade {
            decoded[*i] = Artifact::decode(bytes, environment).ok();
        }
        let artifacts: Vec<_> = decoded.into_iter().flatten().collect();
        assert_eq!(artifacts.len(), fetched.len(), "what was just compiled can be decoded");

        let keys: Vec<_> = fetched.iter().map(|fetched| fetched.key).collect();
        let align = self.target().isa().function_alignment().preferred as usize;
        let functions = load::load(&mut program, &keys, &artifacts, align, &self.0.handles)?;
        for (i, _) in remade {
            fetched[i].origin = Origin::Made;
        }
        let (names, definitions) = program.into_parts();
        let all = definitions.iter().zip(functions).zip(fetched);
        let got = all.map(|((definition, function), fetched)| Got {
            name: Arc::clone(&definition.name),
            function,
            key: fetched.key,
            origin: fetched.origin,
            micros: fetched.micros,
        });
        Ok(Loaded::new(names, got.collect(), trampolines))
    }
}

impl Identity {
    fn is_stored(&self) -> bool {
        !matches!(self, Identity::With { stored: false, .. })
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({:?})", self.0.target)
    }
}

fn missing(name: &str) -> CodeError {
    CodeError::Missing { function: name.into() }
}

/// The artifact of each of a program's functions, which have these keys: from the store or through a compile.
pub(crate) fn fetch(
    engine: &Engine,
    program: &Program,
    keys: &[Key],
    compiler: &mut Compiler<'_>,
) -> Result<Vec<Bytes>, CodeError> {
    let store = engine.store();
    let fetched =
        store.try_get_many_with(keys, |i| engine.make(compiler, program, &program.functions[i]));
    let environment = engine.target().environment();
    fetched
        .into_iter()
        .zip(&program.functions)
        .map(|(result, definition)| {
            let Definition { name, clif, .. } = definition;
            let (record, origin) = result?;
            if store.config().audit && origin != Origin::Made && definition.can_be_made() {
                store.count_audited();
                audit::compare(name, record.payload(), &compiler.compile(definition)?)?;
            }
            let references = clif.params.user_named_funcs().len();
            let usable = Artifact::decode(record.payload(), environment)
                .is_ok_and(|artifact| artifact.references as usize <= references);
            if usable {
                return Ok(Bytes::Kept(record));
            }
            store
                .count_reason("unusable", format_args!("the artifact of {name} is compiled again"));
            if let Identity::Known(_) = &definition.identity {
                return Err(missing(name));
            }
            compiler.compile(definition).map(Bytes::Compiled)
        })
        .collect()
}

/// An artifact's bytes.
pub(crate) enum Bytes {
    Kept(Record),
    Compiled(Vec<u8>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Kept(record) => record.payload(),
            Bytes::Compiled(bytes) => bytes,
        }
    }
}

/// What the keys of functions are computed in, of this store and environment.
pub(crate) fn function_context(store: &Store, environment: &Key) -> Key {
    store.key(DOMAIN).key("environment", environment).finish()
}

/// A compiler per engine, for jobs that name their engines in any order.
struct Compilers<'a> {
    all: Vec<Compiler<'a>>,
    /// By job.
    which: Vec<usize>,
}

impl<'a> Compilers<'a> {
    fn new(jobs: &'a [Engine]) -> Self {
        let mut numbers = HashMap::new();
        let mut compilers = Compilers { all: Vec::new(), which: Vec::with_capacity(jobs.len()) };
        for engine in jobs {
            let number = *numbers.entry(Arc::as_ptr(&engine.0)).or_insert_with(|| {
                compilers.all.push(Compiler::new(engine.target()));
                compilers.all.len() - 1
            });
            compilers.which.push(number);
        }
        compilers
    }

    fn of(&mut self, job: usize) -> &mut Compiler<'a> {
        &mut self.all[self.which[job]]
    }
}

/// A function's record, and how it was got.
struct Fetched {
    record: Record,
    origin: Origin,
    key: Key,
    micros: u64,
}

/// The signatures that are called in some programs, with the names of their trampolines.
#[derive(Default)]
struct Called(HashMap<Arc<Signature>, Arc<str>>);

impl Called {
    /// Adds a trampoline per signature to a callable program; says which one is each function's.
    fn add_trampolines(&mut self, program: &mut Program, target: &Target) -> Vec<usize> {
        if !program.callable {
            return Vec::new();
        }
        let own = Arc::new(call::declaration(target.isa()));
        let mut by_signature = HashMap::new();
        let mut added = Vec::new();
        let count = program.functions.len();
        let trampolines = program
            .functions
            .iter()
            .map(|definition| {
                let signature = &definition.clif.signature;
                *by_signature.entry(signature).or_insert_with(|| {
                    let (calls, name) = self.of(signature);
                    added.push(Definition {
                        name,
                        clif: Arc::clone(&own),
                        identity: Identity::Trampoline(calls),
                    });
                    count + added.len() - 1
                })
            })
            .collect();
        program.functions.append(&mut added);
        trampolines
    }

    fn of(&mut self, signature: &Signature) -> (Arc<Signature>, Arc<str>) {
        if let Some((signature, name)) = self.0.get_key_value(signature) {
            return (Arc::clone(signature), Arc::clone(name));
        }
        let name: Arc<str> = call::trampoline_name(signature).into();
        let signature = Arc::new(signature.clone());
        self.0.insert(Arc::clone(&signature), Arc::clone(&name));
        (signature, name)
    }
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::{
        AbiParam, Function, InstBuilder, Signature, UserFuncName, types::I32,
    };
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    use super::super::program::Recipe;
    use super::*;
    use crate::config::Config;

    /// A program of one function, which adds one.
    fn next(target: &Target) -> Program {
        let mut signature = Signature::new(target.isa().default_call_conv());
        signature.params.push(AbiParam::new(I32));
        signature.returns.push(AbiParam::new(I32));
        let mut clif = Function::with_name_signature(UserFuncName::default(), signature);
        let mut context = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut clif, &mut context);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let x = builder.block_params(block)[0];
        let next = builder.ins().iadd_imm_s(x, 1);
        builder.ins().return_(&[next]);
        builder.finalize(target.isa().frontend_config());
        let mut program = Program::new();
        program.define("next", clif).unwrap();
        program
    }

    /// I17. In a child that was forked while another thread was at the tables of loaded code. Mutant: `Mutex` in place of
    /// `OwnMutex`; the test does not end.
    #[test]
    fn tables_that_a_fork_left_locked_are_not_waited_for() {
        let engine = Engine::new(Store::open(Config::default()), Target::host().unwrap());
        let load = || engine.load(next(engine.target())).unwrap();
        let before = load();
        let left = engine.0.handles.leave_locked();
        let behind = load();
        for loaded in [&before, &behind] {
            // SAFETY: that is its signature; it has no effects; `loaded` lives on.
            let next =
                unsafe { loaded.function("next").unwrap().typed::<extern "C" fn(i32) -> i32>() };
            assert_eq!(next(41), 42);
        }
        assert_eq!(engine.find_trap(before.function("next").unwrap().address().addr()), None);
        drop((before, behind));
        drop(left);
        assert_eq!(load().function("next").unwrap().name(), "next");
    }

    /// A program of one function that is named by the digest of `name` and built as `build` says.
    fn by_recipe(
        target: &Target,
        name: &str,
        build: impl Fn() -> Function + Send + Sync + 'static,
    ) -> Program {
        let declaration = Function::with_name_signature(
            UserFuncName::default(),
            next(target).functions[0].clif.signature.clone(),
        );
        let mut parts = KeyBuilder::new("test");
        parts.str("name", name);
        let recipe = Recipe {
            digest: parts.finish(),
            label: name.into(),
            parts: Arc::new(|_| {}),
            build: Arc::new(build),
        };
        let mut program = Program::new();
        program.define_by("next", declaration, recipe).unwrap();
        program
    }

    /// Mutant: a digest that does not enter the key.
    #[test]
    fn what_is_named_by_a_digest_is_built_where_nobody_has_it() {
        let engine = Engine::new(Store::open(Config::default()), Target::host().unwrap());
        let clif = next(engine.target()).functions.remove(0).clif;
        let load = |name: &str, clif: Option<Function>| {
            let build = move || clif.clone().expect("it is not built");
            let loaded = engine.load(by_recipe(engine.target(), name, build)).unwrap();
            let origin = loaded.units().next().unwrap().origin;
            // SAFETY: that is its signature; it has no effects; `loaded` lives on.
            let next =
                unsafe { loaded.function("next").unwrap().typed::<extern "C" fn(i32) -> i32>() };
            assert_eq!(next(41), 42);
            origin
        };
        assert_eq!(load("first", Some(Function::clone(&clif))), Origin::Made);
        assert_ne!(load("first", None), Origin::Made);
        assert_eq!(load("second", Some(Function::clone(&clif))), Origin::Made);
    }

    /// Mutant: an audit that skips what is named by a digest.
    #[test]
    fn an_audit_builds_what_is_named_by_a_digest() {
        let config = Config::default().audit(true);
        let engine = Engine::new(Store::open(config), Target::host().unwrap());
        let clif = next(engine.target()).functions.remove(0).clif;
        let mut other = Function::clone(&clif);
        let block = other.layout.entry_block().unwrap();
        let last = other.layout.last_inst(block).unwrap();
        let argument = other.dfg.block_params(block)[0];
        other.dfg.inst_args_mut(last)[0] = argument;
        let clif = Function::clone(&clif);
        for (build, fine) in [(clif.clone(), true), (clif, true), (other, false)] {
            let program = by_recipe(engine.target(), "name", move || build.clone());
            assert_eq!(engine.load(program).is_ok(), fine);
        }
    }
}
