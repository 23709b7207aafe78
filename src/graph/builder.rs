//! Models built in Rust, of the same operators as ONNX's.
//!
//! ```text
//!   Builder::new() ─ input, constant, op, output ─► finish() ─► Model
//!                └ body: a Builder of its own, whose `capture` takes values of the graph around it
//! ```

use std::collections::BTreeMap;

use super::error::GraphError;
use super::model::{Attribute, Body, Graph, Model, Node, ValueId, ValueType};
use super::tensor::{ElementType, Tensor};

/// A value of the graph that a [`Builder`] builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(ValueId);

/// Builds a model, or the body of an operator that runs a graph.
///
/// ```
/// use cachelift::graph::model::Attribute;
/// use cachelift::graph::{Builder, ElementType};
///
/// let mut graph = Builder::new();
/// let x = graph.input("x", ElementType::F32, &[2, 3]);
/// let w = graph.input("w", ElementType::F32, &[3, 4]);
/// let product = graph.op("MatMul", &[&x, &w]);
/// let axis = [("axis", Attribute::Int(-1))];
/// let y = graph.op_with("Softmax", &[Some(&product)], &axis, 1)[0];
/// graph.output("y", &y);
/// assert!(graph.finish().is_ok());
/// ```
#[derive(Debug)]
pub struct Builder {
    graph: Graph,
    version: i64,
    captures: Vec<ValueId>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The version of ONNX's operators that a builder uses unless it is told otherwise: the newest that is supported.
    pub const VERSION: i64 = 28;

    /// A graph without anything in it.
    pub fn new() -> Self {
        Self::with_version(Self::VERSION)
    }

    /// As [`new`](Self::new), of operators of this version.
    pub fn with_version(version: i64) -> Self {
        Builder { graph: Graph::default(), version, captures: Vec::new() }
    }

    /// An input of these dimensions.
    pub fn input(&mut self, name: &str, element: ElementType, dims: &[usize]) -> Value {
        self.input_of(name, ValueType::fixed(element, dims))
    }

    /// An input of which less is known.
    pub fn input_of(&mut self, name: &str, ty: ValueType) -> Value {
        let id = self.graph.add(name, ty);
        self.graph.inputs.push(id);
        Value(id)
    }

    /// A value of the graph around this one, which is a body.
    pub fn capture(&mut self, outer: &Value) -> Value {
        let id = self.graph.add("", ValueType::default());
        self.graph.inputs.insert(self.captures.len(), id);
        self.captures.push(outer.0);
        Value(id)
    }

    /// A constant.
    pub fn constant(&mut self, tensor: Tensor) -> Value {
        let id = self.graph.add("", ValueType::fixed(tensor.element(), tensor.dims()));
        self.graph.constants.push((id, tensor));
        Value(id)
    }

    /// An operator of ONNX's domain with one output and no attributes.
    pub fn op(&mut self, op: &str, inputs: &[&Value]) -> Value {
        let inputs: Vec<_> = inputs.iter().map(|value| Some(*value)).collect();
        self.op_with(op, &inputs, &[], 1)[0]
    }

    /// An operator of ONNX's domain with attributes, optional inputs left out as `None`, and so many outputs.
    pub fn op_with(
        &mut self,
        op: &str,
        inputs: &[Option<&Value>],
        attributes: &[(&str, Attribute)],
        outputs: usize,
    ) -> Vec<Value> {
        self.foreign("", op, inputs, attributes, outputs)
    }

    /// As [`op_with`](Self::op_with), of any domain: an operator from outside.
    pub fn foreign(
        &mut self,
        domain: &str,
        op: &str,
        inputs: &[Option<&Value>],
        attributes: &[(&str, Attribute)],
        outputs: usize,
    ) -> Vec<Value> {
        let ids: Vec<_> = (0..outputs).map(|_| self.graph.add("", ValueType::default())).collect();
        let attributes: BTreeMap<String, Attribute> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.graph.nodes.push(Node {
            name: String::new(),
            domain: domain.into(),
            op: op.into(),
            version: if domain.is_empty() { self.version } else { 1 },
            inputs: inputs.iter().map(|input| input.map(|value| value.0)).collect(),
            outputs: ids.iter().copied().map(Some).collect(),
            attributes,
        });
        ids.into_iter().map(Value).collect()
    }

    /// Makes a value an output.
    pub fn output(&mut self, name: &str, value: &Value) {
        if let Some(value) = self.graph.values.get_mut(value.0.index())
            && value.name.is_empty()
        {
            value.name = name.into();
        }
        self.graph.outputs.push(value.0);
    }

    /// The model.
    ///
    /// # Errors
    ///
    /// If it uses a value of another builder.
    pub fn finish(self) -> Result<Model, GraphError> {
        if !self.captures.is_empty() {
            return Err(GraphError::invalid("model", "it captures values of a graph around it"));
        }
        self.check()?;
        Ok(Model { graph: self.graph })
    }

    /// The graph as an attribute: the body of an operator in the graph whose values it captures.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn into_body(self) -> Result<Attribute, GraphError> {
        self.check()?;
        Ok(Attribute::Graph(Box::new(Body::new(self.graph, self.captures))))
    }

    /// Every value that is used must be one that was made before. What a body captures is checked with the graph
    /// around it.
    fn check(&self) -> Result<(), GraphError> {
        let graph = &self.graph;
        let mut known = vec![false; graph.values.len()];
        for id in graph.inputs.iter().chain(graph.constants.iter().map(|(id, _)| id)) {
            known[id.index()] = true;
        }
        let is_known = |known: &[bool], id: &ValueId| known.get(id.index()) == Some(&true);
        for node in &graph.nodes {
            let captured = node.attributes.values().filter_map(|attribute| match attribute {
                Attribute::Graph(body) => Some(&body.captures),
                _ => None,
            });
            let mut read = node.inputs.iter().flatten().chain(captured.flatten());
            if !read.all(|id| is_known(&known, id)) {
                return Err(GraphError::node(graph, node, "it reads a value of another graph"));
            }
            node.outputs.iter().flatten().for_each(|id| known[id.index()] = true);
        }
        match graph.outputs.iter().all(|id| is_known(&known, id)) {
            true => Ok(()),
            false => Err(GraphError::invalid("model", "an output is a value of another graph")),
        }
    }
}
