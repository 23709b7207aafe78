//! A graph that can be run: its plans by the shapes of its inputs, each made or loaded when it is needed first.
//!
//! ```text
//!   inputs ──shapes──► plan of this process ──miss──► store, under the graph's key and the shapes ──miss──► build
//!                         └──► its code: one image, or kernels in one go through the store
//! ```

use std::collections::HashMap;

use super::error::GraphError;
use super::host::Host;
use super::image::{self, Code};
use super::infer::{CONTROL, Fact, is_known};
use super::model::{Attribute, Graph, Node};
use super::plan::{self, Plan};
use super::session::Mode;
use super::tensor::{Dims, ElementType, Tensor};
use super::vm::{Control, Profile, Ready};
use crate::key::Key;
use crate::store::{Draft, Meta, Origin};
use crate::sync::{Arc, Mutex};

/// The types of a graph's inputs; `None`: left to its default.
pub(crate) type Signature = Vec<Option<(ElementType, Dims)>>;

/// The types of these inputs.
pub(crate) fn signature(inputs: &[Option<Tensor>]) -> Signature {
    let ty = |tensor: &Tensor| (tensor.element(), Dims::from_slice(tensor.dims()));
    inputs.iter().map(|input| input.as_ref().map(ty)).collect()
}

/// How many plans of a graph are held at most: a loop whose state grows has another in each turn.
const MOST_PLANS: usize = 1024;

/// A graph, in its canonical form, that can be run.
pub(crate) struct Runner {
    pub(crate) graph: Graph,
    pub(crate) key: Key,
    mode: Mode,
    host: Arc<Host>,
    plans: Mutex<HashMap<Signature, Planned>>,
    /// The bodies of its nodes, by node, in the order of the attributes' names.
    bodies: HashMap<u32, Vec<Runner>>,
}

/// A plan that is ready, and how it was got.
#[derive(Clone)]
pub(crate) struct Planned {
    pub(crate) ready: Arc<Ready>,
    pub(crate) key: Key,
    pub(crate) origin: Origin,
}

impl Runner {
    pub(crate) fn new(graph: Graph, key: Key, mode: Mode, host: Arc<Host>) -> Self {
        let mut bodies = HashMap::new();
        for (number, node) in graph.nodes.iter().enumerate() {
            let of = node.attributes.values().filter_map(|attribute| match attribute {
                Attribute::Graph(body) => Some(Runner::new(
                    body.graph.clone(),
                    body.key.expect("a canonical graph's bodies are canonical"),
                    mode,
                    Arc::clone(&host),
                )),
                _ => None,
            });
            let of: Vec<_> = of.collect();
            if !of.is_empty() {
                bodies.insert(number as u32, of);
            }
        }
        Runner { graph, key, mode, host, plans: Mutex::new(HashMap::new()), bodies }
    }

    /// The plan for inputs of these types.
    pub(crate) fn plan(&self, signature: &Signature) -> Result<Planned, GraphError> {
        if let Some(planned) = self.plans.lock().get(signature) {
            return Ok(planned.clone());
        }
        let planned = self.make(signature)?;
        let mut plans = self.plans.lock();
        if plans.len() == MOST_PLANS {
            plans.clear();
        }
        plans.insert(signature.clone(), planned.clone());
        Ok(planned)
    }

    fn make(&self, signature: &Signature) -> Result<Planned, GraphError> {
        let store = self.host.engine.store().clone();
        let key = self.plan_key(signature);
        let build = || plan::build(&self.graph, &self.facts(signature), self.mode, &self.host);
        let encode = |plan: &Plan| postcard::to_stdvec(plan).expect("a plan can be encoded");
        // Not inside of the store's make, where kernels that others are making are not waited for.
        let mut built = if store.contains(&key) { None } else { Some(build()?) };
        let (record, origin) = store.try_get_with(&key, || {
            let plan = match &built {
                Some(plan) => plan,
                None => built.insert(build()?),
            };
            let meta = Meta {
                label: format!("plan of {} nodes, {}", self.graph.nodes.len(), self.mode.name()),
                producer: concat!("cachelift ", env!("CARGO_PKG_VERSION")).into(),
                ..Meta::default()
            };
            Ok::<_, GraphError>(Draft { payload: encode(plan), meta })
        })?;
        let plan = match built {
            Some(plan) => plan,
            None => match postcard::from_bytes::<Plan>(record.payload()) {
                Ok(plan) => {
                    if store.config().audit && encode(&build()?) != record.payload() {
                        let reason = format!("{key} is not what is made anew");
                        return Err(GraphError::invalid("plan", reason));
                    }
                    plan
                }
                Err(_) => build()?,
            },
        };
        let Code { kernels, entries } = image::code(&self.host, &plan, self.mode)?;
        let ready = Arc::new(Ready::new(plan, kernels, entries, &self.graph)?);
        Ok(Planned { ready, key, origin })
    }

    fn plan_key(&self, signature: &Signature) -> Key {
        let mut parts = self.host.engine.store().key("cachelift graph plan v1");
        parts.key("environment", self.host.engine.target().environment());
        parts.key("graph", &self.key).str("mode", self.mode.name());
        parts.group("inputs", |parts| {
            for input in signature {
                match input {
                    None => parts.bool("default", true),
                    Some((element, dims)) => parts.group(element.name(), |parts| {
                        for &dim in dims {
                            parts.u64("dim", dim as u64);
                        }
                    }),
                };
            }
        });
        parts.finish()
    }

    fn facts(&self, signature: &Signature) -> Vec<Fact> {
        let fact = |(input, id): (&Option<(ElementType, Dims)>, _)| match input {
            Some((element, dims)) => Fact { element: *element, dims: dims.clone(), value: None },
            None => {
                let found = self.graph.constants.iter().find(|(other, _)| other == id);
                let (_, tensor) = found.expect("an input without a default was given");
                Fact {
                    element: tensor.element(),
                    dims: tensor.dims().into(),
                    value: Some(tensor.clone()),
                }
            }
        };
        signature.iter().zip(&self.graph.inputs).map(fact).collect()
    }

    /// Runs the graph. Inputs that have a default may be left out.
    pub(crate) fn run(
        &self,
        inputs: &[Option<Tensor>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<Tensor>, GraphError> {
        let planned = self.plan(&signature(inputs))?;
        planned.ready.run(&self.graph, &self.host, self, inputs, profile)
    }

    /// A body of a node: the one of this attribute.
    pub(crate) fn body(&self, number: u32, node: &Node, name: &str) -> Option<Part<'_>> {
        let mut first = node.inputs.len();
        let runners = self.bodies.get(&number)?;
        let bodies = node.attributes.iter().filter_map(|(name, attribute)| match attribute {
            Attribute::Graph(body) => Some((name, body)),
            _ => None,
        });
        for ((other, body), runner) in bodies.zip(runners) {
            let captures = first..first + body.captures.len();
            if other == name {
                return Some(Part { runner, captures });
            }
            first = captures.end;
        }
        None
    }
}

/// A body, and where what it captures stands among the values that its node is run on.
pub(crate) struct Part<'a> {
    pub(crate) runner: &'a Runner,
    pub(crate) captures: std::ops::Range<usize>,
}

impl Control for Runner {
    fn run(
        &self,
        number: u32,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Vec<Tensor>, GraphError> {
        super::control::run(self, number, node, inputs)
    }
}

/// Refuses ops by name, before anything is compiled. Also those in bodies.
pub(crate) fn check_ops(graph: &Graph, host: &Host) -> Result<(), GraphError> {
    for node in &graph.nodes {
        if !is_known(&node.domain, &node.op) && host.op(node).is_none() {
            let reason = format!("the op of version {} is not supported", node.version);
            return Err(GraphError::node(graph, node, reason));
        }
        for (name, attribute) in &node.attributes {
            let Attribute::Graph(body) = attribute else { continue };
            if !CONTROL.contains(&node.op.as_str()) {
                let reason = format!("the op takes no graph, as \"{name}\" is");
                return Err(GraphError::node(graph, node, reason));
            }
            check_ops(&body.graph, host)?;
        }
    }
    Ok(())
}
