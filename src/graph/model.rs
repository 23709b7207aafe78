//! A model as data: graphs of nodes that refer to values by number.
//!
//! ```text
//!   Model ─► Graph ─► values: name, declared type         Node ─► op, inputs, outputs, attributes
//!                 ├─► inputs, constants, outputs                     └─ Attribute::Graph(Body)
//!                 └─► nodes, each after those it depends on               └ captures ─► values outside
//! ```
//!
//! Names are for people: nothing is looked up by them once a model is built. A body (of `If`, `Loop`, `Scan`)
//! is a graph like any other: the values of the graph around it that it uses are its first inputs.
//! Model-local functions are written out where they are called, so that there are none here.

use std::collections::BTreeMap;
use std::fmt;

use super::tensor::{ElementType, Tensor};
use crate::key::Key;

/// A model: the outermost graph.
#[derive(Clone, Debug)]
pub struct Model {
    /// The graph.
    pub graph: Graph,
}

/// A value of a graph, by its place in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The place.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Nodes and the values between them.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Its name, for people.
    pub name: String,
    /// All values.
    pub values: Vec<Value>,
    /// What it is given. In a body, the captured values come first.
    pub inputs: Vec<ValueId>,
    /// What it knows beforehand. An input that is a constant too has that as its default.
    pub constants: Vec<(ValueId, Tensor)>,
    /// What it computes, each after the nodes it depends on.
    pub nodes: Vec<Node>,
    /// What it gives back.
    pub outputs: Vec<ValueId>,
}

impl Graph {
    /// A new value.
    pub fn add(&mut self, name: impl Into<String>, ty: ValueType) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("fewer than 4 billion values"));
        self.values.push(Value { name: name.into(), ty });
        id
    }

    /// The value's name.
    pub fn name_of(&self, id: ValueId) -> &str {
        &self.values[id.index()].name
    }
}

/// A value: what flows between nodes.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// Its name, for people; unique among inputs, and among outputs.
    pub name: String,
    /// What the model says it is.
    pub ty: ValueType,
}

/// What is known of a value before anything is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueType {
    /// The type of its elements.
    pub element: Option<ElementType>,
    /// Its dimensions; `None` if not even their number is known.
    pub dims: Option<Vec<Dim>>,
}

impl ValueType {
    /// A type whose dimensions are all known.
    pub fn fixed(element: ElementType, dims: &[usize]) -> Self {
        let dims = dims.iter().map(|&dim| Dim::Known(dim)).collect();
        ValueType { element: Some(element), dims: Some(dims) }
    }

    /// A type of some dimensions, each of any size.
    pub fn of_rank(element: ElementType, rank: usize) -> Self {
        ValueType { element: Some(element), dims: Some(vec![Dim::Unknown; rank]) }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.element {
            Some(element) => write!(f, "{element}")?,
            None => f.write_str("?")?,
        }
        let Some(dims) = &self.dims else { return f.write_str("[...]") };
        f.write_str("[")?;
        for (i, dim) in dims.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

/// One dimension, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Of this size.
    Known(usize),
    /// Of the same size as every other of this name.
    Symbol(String),
    /// Of any size.
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => write!(f, "{size}"),
            Dim::Symbol(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// An operation on values.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name, for people; may be empty.
    pub name: String,
    /// The domain of its op: empty is ONNX's own.
    pub domain: String,
    /// Its op's name in the domain.
    pub op: String,
    /// The version of the domain's op set that it is of.
    pub version: i64,
    /// What it reads; optional inputs that are left out are `None`.
    pub inputs: Vec<Option<ValueId>>,
    /// What it computes; outputs that nobody wants are `None`.
    pub outputs: Vec<Option<ValueId>>,
    /// Its attributes by name.
    pub attributes: BTreeMap<String, Attribute>,
}

impl Node {
    /// An integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attributes.get(name)? {
            Attribute::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// A list of integers.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attributes.get(name)? {
            Attribute::Ints(values) => Some(values),
            _ => None,
        }
    }

    /// A floating-point attribute.
    pub fn float(&self, name: &str) -> Option<f32> {
        match self.attributes.get(name)? {
            Attribute::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name)? {
            Attribute::Text(value) => Some(value),
            _ => None,
        }
    }

    /// A tensor.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        match self.attributes.get(name)? {
            Attribute::Tensor(value) => Some(value),
            _ => None,
        }
    }

    /// A body.
    pub fn body(&self, name: &str) -> Option<&Body> {
        match self.attributes.get(name)? {
            Attribute::Graph(body) => Some(body),
            _ => None,
        }
    }

    /// Its op with the domain, as messages have it.
    pub fn op_name(&self) -> String {
        match self.domain.as_str() {
            "" => self.op.clone(),
            domain => format!("{domain}.{}", self.op),
        }
    }
}

/// A parameter of a node that is fixed in the model.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f32),
    /// A text.
    Text(String),
    /// A tensor.
    Tensor(Tensor),
    /// A graph that the node runs.
    Graph(Box<Body>),
    /// Integers.
    Ints(Vec<i64>),
    /// Floating-point numbers.
    Floats(Vec<f32>),
    /// Texts.
    Texts(Vec<String>),
}

/// A graph inside a node.
#[derive(Clone, Debug)]
pub struct Body {
    /// The graph; its first inputs are the captured values.
    pub graph: Graph,
    /// The values of the graph around it that it uses.
    pub captures: Vec<ValueId>,
    /// What it is, if it is in its canonical form.
    pub(crate) key: Option<Key>,
}

impl Body {
    /// A body that captures these values, which are the graph's first inputs.
    pub fn new(graph: Graph, captures: Vec<ValueId>) -> Self {
        Body { graph, captures, key: None }
    }
}
