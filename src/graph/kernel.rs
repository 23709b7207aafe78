//! Compiled kernels: from specifications to code that can be called, each made once.
//!
//! ```text
//!   NodeSpecs ──keys──► Engine ──► Kernels
//!        │ emitted only where nobody has the code
//!        └ of a plan that is known: `image`
//! ```

use std::collections::HashMap;

use cranelift_codegen::ir::UserExternalName;

use super::abi::{Status, View};
use super::node::NodeSpec;
use super::ops;
use super::runtime::SYMBOLS;
use super::tensor::Tensor;
use crate::code::{CodeError, Engine, Function, Program, Recipe};
use crate::key::Key;
use crate::store::Origin;
use crate::sync::Arc;

/// A kernel that can be called. Clones share the code.
#[derive(Clone, Debug)]
pub struct Kernel {
    function: Function,
    spec: Arc<NodeSpec>,
    engine: Engine,
    origin: Origin,
    micros: u64,
}

impl Kernel {
    /// What it computes.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// The key of its code in the store.
    pub fn key(&self) -> Key {
        self.engine.key_by_digest(&self.spec.key())
    }

    /// Where its code came from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// How long this process compiled it, in microseconds; 0 if it did not.
    pub fn micros(&self) -> u64 {
        self.micros
    }

    /// Its code, of the calling convention that [`abi`](super::abi) describes.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// A kernel of this code.
    pub(crate) fn of(function: Function, spec: &NodeSpec, engine: &Engine, origin: Origin) -> Self {
        let spec = Arc::new(spec.clone());
        Kernel { function, spec, engine: engine.clone(), origin, micros: 0 }
    }

    /// Calls it with the words of a [`Frame`](super::abi::Frame).
    ///
    /// # Safety
    ///
    /// The frame must be that of a [`Call`](super::abi::Call) with this kernel's specification, and the
    /// address of each operand that of data in which every element lies that its dimensions and strides lead to. Outputs
    /// must be the caller's alone.
    pub unsafe fn call(&self, words: &[u64]) -> Status {
        // SAFETY: every kernel has this signature, and the handle is alive.
        let entry = unsafe { self.function.typed::<unsafe extern "C" fn(*const u64) -> u64>() };
        // SAFETY: the caller's promise.
        Status::of(unsafe { entry(words.as_ptr()) })
    }
}

/// The kernels of these specifications, in their order, in one go through the store.
///
/// # Errors
/// The first that cannot be compiled.
pub fn compile(engine: &Engine, specs: &[NodeSpec]) -> Result<Vec<Kernel>, CodeError> {
    let mut numbers: HashMap<&NodeSpec, usize> = HashMap::new();
    let mut distinct = Vec::new();
    let mut places = Vec::with_capacity(specs.len());
    for spec in specs {
        let number = *numbers.entry(spec).or_insert_with(|| {
            distinct.push(Arc::new(spec.clone()));
            distinct.len() - 1
        });
        places.push(number);
    }
    let mut program = program(engine, &distinct)?;
    for symbol in SYMBOLS {
        program.symbol(symbol.name, symbol.address())?;
    }
    let loaded = engine.load(program)?;
    let kernels: Vec<Kernel> = loaded
        .units()
        .zip(&distinct)
        .enumerate()
        .map(|(number, (unit, spec))| Kernel {
            function: loaded.function(&name(number)).expect("it was defined").clone(),
            spec: Arc::clone(spec),
            engine: engine.clone(),
            origin: unit.origin,
            micros: unit.micros,
        })
        .collect();
    Ok(places.into_iter().map(|number| kernels[number].clone()).collect())
}

/// A program of these kernels. What they call is declared, and has no address yet.
pub(crate) fn program(engine: &Engine, specs: &[Arc<NodeSpec>]) -> Result<Program, CodeError> {
    let mut program = Program::new();
    for (index, symbol) in SYMBOLS.iter().enumerate() {
        let user = UserExternalName { namespace: ops::NAMESPACE, index: index as u32 };
        program.declare(user, symbol.name)?;
    }
    let config = engine.target().isa().frontend_config();
    for (number, spec) in specs.iter().enumerate() {
        let (named, built) = (Arc::clone(spec), Arc::clone(spec));
        let recipe = Recipe {
            digest: spec.key(),
            label: spec.to_string().into(),
            parts: Arc::new(move |parts| named.encode(parts)),
            build: Arc::new(move || ops::emit(&built, config)),
        };
        let declaration = ops::declaration(config.default_call_conv);
        program.define_by(&name(number), declaration, recipe)?;
    }
    Ok(program)
}

/// The name of a kernel in its program.
pub(crate) fn name(number: usize) -> String {
    format!("kernel {number}")
}

impl From<&Tensor> for View {
    fn from(tensor: &Tensor) -> Self {
        let size = tensor.element().size() as isize;
        View {
            element: tensor.element(),
            dims: tensor.dims().to_vec(),
            strides: tensor.strides().iter().map(|stride| stride * size).collect(),
        }
    }
}
