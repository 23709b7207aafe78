//! What users hold: a session over a store, and models that are ready to run.
//!
//! ```text
//!   Session::new(store) ──prepare(model, mode)──► Prepared ──run(inputs)──► outputs
//! ```

use super::constants;
use super::error::GraphError;
use super::host::{Host, HostOp};
use super::kernel::Kernel;
use super::model::{Dim, Graph, Model, Node, ValueType};
use super::plan::{Held, Place};
use super::runner::{self, Runner, Signature};
use super::structure::{self, Canonical};
use super::tensor::{Dims, ElementType, Tensor};
use super::vm::Profile;
#[cfg(feature = "cli")]
use super::vm::Ready;
use crate::code::{Engine, Target};
use crate::key::Key;
use crate::store::{Origin, Store};
use crate::sync::Arc;

/// How a graph is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A kernel per node, each called by the VM.
    PerNode,
    /// Element-wise nodes that feed each other, and the reduction at their end, are one kernel.
    #[default]
    Fused,
    /// A kernel per node, called by a compiled entry without the VM.
    Whole,
}

impl Mode {
    /// The name: `per-node`, `fused` or `whole`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::PerNode => "per-node",
            Mode::Fused => "fused",
            Mode::Whole => "whole",
        }
    }
}

/// Prepares models over one store. Models of a session share the kernels that are loaded.
///
/// ```
/// use cachelift::config::Config;
/// use cachelift::graph::{Builder, ElementType, Mode, Session, Tensor};
/// use cachelift::store::Store;
///
/// let mut graph = Builder::new();
/// let x = graph.input("x", ElementType::F32, &[3]);
/// let y = graph.op("Mul", &[&x, &x]);
/// graph.output("y", &y);
/// let model = graph.finish()?;
///
/// let session = Session::new(Store::open(Config::default()))?;
/// let square = session.prepare(&model, Mode::Fused)?;
/// let outputs = square.run(&[Tensor::from_slice(&[3], &[1.0_f32, 2.0, 3.0])])?;
/// assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [1.0, 4.0, 9.0]);
/// # Ok::<_, cachelift::graph::GraphError>(())
/// ```
#[derive(Debug)]
pub struct Session {
    host: Arc<Host>,
}

impl Session {
    /// A session that keeps what it compiles in `store`.
    ///
    /// # Errors
    ///
    /// If there is no code generator for this machine.
    pub fn new(store: Store) -> Result<Self, GraphError> {
        // Images are of position-independent code, which is as fast: kernels refer to nothing but a few functions.
        let flags: &[_] = if cfg!(target_arch = "x86_64") { &[("is_pic", "true")] } else { &[] };
        Ok(Self::on(Engine::new(store, Target::host_with(flags)?)))
    }

    /// A session over an engine. Where its target is position-independent, what a plan takes is kept as one image besides,
    /// which is what later processes load.
    pub fn on(engine: Engine) -> Self {
        Session { host: Arc::new(Host::new(engine)) }
    }

    /// Adds an operator that is a function of this program, under a domain of its own: it is never cached, and is run
    /// anew each time that an output depends on it.
    ///
    /// # Panics
    ///
    /// If the domain is empty, which is ONNX's, or if a model was prepared already.
    pub fn with_op(
        mut self,
        domain: &str,
        name: &str,
        op: impl Fn(&Node, &[Option<Tensor>]) -> Result<Vec<Tensor>, String> + Send + Sync + 'static,
    ) -> Self {
        assert!(!domain.is_empty(), "the empty domain is ONNX's own");
        let host = Arc::get_mut(&mut self.host).expect("no model was prepared yet");
        let op: Arc<HostOp> = Arc::new(op);
        host.ops.insert((domain.into(), name.into()), op);
        self
    }

    /// Prepares a model. Where its inputs' shapes are fixed, all that it takes is compiled or loaded now; else when it
    /// is first run on inputs of some shapes.
    ///
    /// # Errors
    ///
    /// If an op is not supported, which is said before anything is compiled, a node does not take its inputs, an output is
    /// of another type or shape than the model says, or a kernel cannot be compiled.
    pub fn prepare(&self, model: &Model, mode: Mode) -> Result<Prepared, GraphError> {
        runner::check_ops(&model.graph, &self.host)?;
        let graph = &model.graph;
        let has_default = |id| graph.constants.iter().any(|(other, _)| other == id);
        let inputs = graph.inputs.iter().map(|id| {
            let value = &graph.values[id.index()];
            Input { name: value.name.clone(), ty: value.ty.clone(), optional: has_default(id) }
        });
        let inputs: Vec<Input> = inputs.collect();
        let outputs = graph.outputs.iter().map(|id| graph.name_of(*id).to_owned()).collect();
        let declared = graph.outputs.iter().map(|id| graph.values[id.index()].ty.clone()).collect();
        let Canonical { mut graph, key, contents } = structure::canonical(graph);
        constants::share(&mut graph, &contents, self.host.engine.store());
        let runner = Runner::new(graph, key, mode, Arc::clone(&self.host));
        let prepared = Prepared(Arc::new(Inner { runner, inputs, outputs, declared, mode }));
        if let Some(signature) = prepared.fixed() {
            let planned = prepared.0.runner.plan(&signature)?;
            for (place, held) in planned.ready.plan.outputs.iter().enumerate() {
                if let Held::At(Place { element, region, .. }) = held {
                    prepared.check_output(place, *element, &region.dims)?;
                }
            }
        }
        Ok(prepared)
    }

    /// Every kernel that was compiled or loaded for this session's models, in that order.
    pub fn kernels(&self) -> Vec<Kernel> {
        self.host.loaded()
    }
}

/// What a model is, whatever its values are called and in whichever order its independent nodes stand.
pub fn canonical_key(model: &Model) -> Key {
    structure::canonical(&model.graph).key
}

/// A model that is ready to run. Clones share everything.
#[derive(Clone)]
pub struct Prepared(Arc<Inner>);

struct Inner {
    runner: Runner,
    inputs: Vec<Input>,
    outputs: Vec<String>,
    /// What the model says of its outputs.
    declared: Vec<ValueType>,
    mode: Mode,
}

/// An input of a model.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What it must be.
    pub ty: ValueType,
    /// Whether it has a default.
    pub optional: bool,
}

impl Prepared {
    /// The model's inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.0.inputs
    }

    /// The names of the model's outputs.
    pub fn outputs(&self) -> &[String] {
        &self.0.outputs
    }

    /// How it is run.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// What the model is, whatever its values are called and in whichever order its independent nodes stand.
    pub fn key(&self) -> &Key {
        &self.0.runner.key
    }

    /// The key of the plan for fixed shapes, and where it came from; `None` if the model's shapes are not fixed.
    pub fn plan(&self) -> Option<(Key, Origin)> {
        let planned = self.0.runner.plan(&self.fixed()?).ok()?;
        Some((planned.key, planned.origin))
    }

    /// Runs the model on its inputs in their order; those at the end that have defaults may be left out. Gives the
    /// outputs in their order.
    ///
    /// # Errors
    ///
    /// If an input is missing or is not what the model takes, if shapes that are known only now do not fit, or if
    /// an index is outside of its axis.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, GraphError> {
        let count = self.0.inputs.len();
        if inputs.len() > count {
            return Err(GraphError::Input {
                name: inputs.len().to_string(),
                reason: format!("the model has {count} inputs"),
            });
        }
        let given = inputs.iter().cloned().map(Some);
        let given: Vec<_> = given.chain(std::iter::repeat(None)).take(count).collect();
        self.run_checked(given, None)
    }

    /// As [`run`](Self::run), with inputs by name.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and if there is no input of a name.
    pub fn run_named(&self, inputs: &[(&str, Tensor)]) -> Result<Vec<Tensor>, GraphError> {
        let mut given = vec![None; self.0.inputs.len()];
        for (name, tensor) in inputs {
            let Some(place) = self.0.inputs.iter().position(|input| input.name == *name) else {
                let reason = "the model has no such input".into();
                return Err(GraphError::Input { name: (*name).into(), reason });
            };
            given[place] = Some(tensor.clone());
        }
        self.run_checked(given, None)
    }

    /// As [`run_named`](Self::run_named), and says how long each call took.
    #[cfg(feature = "cli")]
    pub(crate) fn run_profiled(
        &self,
        inputs: Vec<Option<Tensor>>,
    ) -> Result<(Vec<Tensor>, Profile), GraphError> {
        let mut profile = Profile::default();
        let outputs = self.run_checked(inputs, Some(&mut profile))?;
        Ok((outputs, profile))
    }

    fn run_checked(
        &self,
        inputs: Vec<Option<Tensor>>,
        profile: Option<&mut Profile>,
    ) -> Result<Vec<Tensor>, GraphError> {
        let mut symbols: Vec<(&str, usize)> = Vec::new();
        for (input, tensor) in self.0.inputs.iter().zip(&inputs) {
            let fail = |reason: String| Err(GraphError::Input { name: input.name.clone(), reason });
            let Some(tensor) = tensor else {
                match input.optional {
                    true => continue,
                    false => return fail("it is missing".into()),
                }
            };
            let given = || format!("{}{:?}", tensor.element(), tensor.dims());
            let mismatch = || fail(format!("expected {}, got {}", input.ty, given()));
            if input.ty.element.is_some_and(|element| element != tensor.element()) {
                return mismatch();
            }
            let Some(dims) = &input.ty.dims else { continue };
            if dims.len() != tensor.rank() {
                return mismatch();
            }
            for (dim, &size) in dims.iter().zip(tensor.dims()) {
                match dim {
                    Dim::Unknown => {}
                    Dim::Known(known) if *known == size => {}
                    Dim::Known(_) => return mismatch(),
                    Dim::Symbol(name) => match symbols.iter().find(|(other, _)| other == name) {
                        None => symbols.push((name, size)),
                        Some((_, other)) if *other == size => {}
                        Some((_, other)) => {
                            return fail(format!(
                                "expected {} where {name} is {other}, got {}",
                                input.ty,
                                given()
                            ));
                        }
                    },
                }
            }
        }
        let outputs = self.0.runner.run(&inputs, profile)?;
        for (place, output) in outputs.iter().enumerate() {
            self.check_output(place, output.element(), output.dims())?;
        }
        Ok(outputs)
    }

    /// Checks an output against what the model says of it: its type, and dimensions that are numbers. Those that are names
    /// are not compared with the inputs': exporters give one name to whatever they do not know.
    fn check_output(
        &self,
        place: usize,
        element: ElementType,
        dims: &[usize],
    ) -> Result<(), GraphError> {
        let declared = &self.0.declared[place];
        let is_type = declared.element.is_none_or(|other| other == element);
        let is_shape = declared.dims.as_ref().is_none_or(|other| {
            let is_size = |(dim, size): (&Dim, &usize)| !matches!(dim, Dim::Known(k) if k != size);
            other.len() == dims.len() && other.iter().zip(dims).all(is_size)
        });
        if is_type && is_shape {
            return Ok(());
        }
        let reason = format!("the model says it is {declared}, but it is {element}{dims:?}");
        Err(GraphError::invalid(format!("output \"{}\"", self.0.outputs[place]), reason))
    }

    /// The types of the inputs, if the model fixes them all.
    fn fixed(&self) -> Option<Signature> {
        let input = |input: &Input| {
            if input.optional {
                return Some(None);
            }
            let mut dims = Dims::new();
            for dim in input.ty.dims.as_ref()? {
                match dim {
                    Dim::Known(size) => dims.push(*size),
                    _ => return None,
                }
            }
            Some(Some((input.ty.element?, dims)))
        };
        self.0.inputs.iter().map(input).collect()
    }

    /// What runs the model on these inputs; without them, on those of its fixed shapes.
    #[cfg(feature = "cli")]
    pub(crate) fn planned(&self, inputs: Option<&[Option<Tensor>]>) -> Option<Arc<Ready>> {
        let signature = match inputs {
            Some(inputs) => runner::signature(inputs),
            None => self.fixed()?,
        };
        Some(self.0.runner.plan(&signature).ok()?.ready)
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.0.runner.graph
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({} nodes, {})", self.graph().nodes.len(), self.0.mode.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Config};
    use crate::graph::Builder;

    /// When shapes are fixed, and when they are not. Kills: types not compared; dimensions not compared; ranks not compared; no
    /// look before the first run, or none after it.
    #[test]
    fn an_output_is_what_the_model_says() {
        let off = Config::default().mode(config::Mode::Off);
        let session = Session::new(Store::open(off)).unwrap();
        for fixed in [true, false] {
            let mut graph = Builder::new();
            let x = match fixed {
                true => graph.input("x", ElementType::F32, &[2]),
                false => graph.input_of("x", ValueType::of_rank(ElementType::F32, 1)),
            };
            let shape = graph.op("Abs", &[&x]);
            graph.output("y", &shape);
            let mut model = graph.finish().unwrap();
            let output = model.graph.outputs[0].index();
            let mut run = |element: ElementType, dims: Option<Vec<Dim>>| {
                model.graph.values[output].ty = ValueType { element: Some(element), dims };
                let model = session.prepare(&model, Mode::Fused)?;
                // What is fixed is checked before anything runs.
                match fixed {
                    true => Ok(Vec::new()),
                    false => model.run(&[Tensor::from_slice(&[2], &[1.0_f32, -2.0])]),
                }
            };
            let good = [None, Some(vec![Dim::Known(2)]), Some(vec![Dim::Symbol("n".into())])];
            for dims in good {
                assert!(run(ElementType::F32, dims).is_ok());
            }
            let wrong = [
                (ElementType::I64, None, "i64[...]"),
                (ElementType::F32, Some(vec![Dim::Known(3)]), "f32[3]"),
                (ElementType::F32, Some(vec![]), "f32[]"),
                (ElementType::F32, Some(vec![Dim::Known(2), Dim::Unknown]), "f32[2, ?]"),
            ];
            for (element, dims, said) in wrong {
                let error = run(element, dims).unwrap_err().to_string();
                let wanted = format!("output \"y\": the model says it is {said}, but it is f32[2]");
                assert_eq!(error, wanted);
            }
        }
    }
}
