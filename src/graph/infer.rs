//! From a node and what is known of its inputs to what it computes, and how.
//!
//! ```text
//!   node, facts of its inputs ──lower──► types of its outputs
//!                                   └──► Work: views of inputs | one kernel | a value known at once
//! ```
//!
//! The rules are those of the operators' specifications; attributes get their defaults here, axes are counted from
//! the front, and the versions of an operator come out as one. Where an output's dimensions depend on an input's
//! elements, these must be known: if they are not, the node is lowered again while the graph runs.

mod gather;
mod linear;
mod map;
mod reduce;
mod shape;

use super::model::Node;
use super::node::Op;
use super::tensor::{Dims, ElementType, Tensor, byte_length};

/// What is known of an input.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    /// The type of its elements.
    pub(crate) element: ElementType,
    /// Its dimensions.
    pub(crate) dims: Dims,
    /// Its elements, if they are known.
    pub(crate) value: Option<Tensor>,
}

/// Element type and dimensions of a tensor that is yet to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) element: ElementType,
    pub(crate) dims: Dims,
}

impl Type {
    fn new(element: ElementType, dims: impl Into<Dims>) -> Self {
        Type { element, dims: dims.into() }
    }
}

/// Why a node is not lowered.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The elements of this input must be known, and are not yet.
    Unknown,
    /// The node cannot be.
    Wrong(String),
}

fn wrong<T>(reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(reason.into()))
}

/// What a node comes to.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// The types of its outputs.
    pub(crate) outputs: Vec<Type>,
    /// How they are computed.
    pub(crate) work: Work,
}

/// How a node's outputs are computed.
#[derive(Debug)]
pub(crate) enum Work {
    /// Each output is a view.
    Views(Vec<Arg>),
    /// A kernel computes the outputs.
    Kernel {
        op: Op,
        inputs: Vec<Option<Arg>>,
        /// The outputs' dimensions as the kernel has them, where they differ from the node's: as many
        /// elements, in the same order.
        reshaped: Option<Vec<Dims>>,
    },
    /// Types alone decide the outputs.
    Known(Vec<Tensor>),
}

/// A tensor that a node's work begins with: an input, or a constant, seen through views.
#[derive(Clone, Debug)]
pub(crate) struct Arg {
    pub(crate) from: Source,
    pub(crate) views: Vec<ViewOp>,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Input(usize),
    Constant(Tensor),
}

/// A step from one view to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViewOp {
    Reshape(Dims),
    Permute(Vec<usize>),
    Slice {
        axis: usize,
        start: usize,
        step: isize,
        count: usize,
    },
    Broadcast(Dims),
    /// Puts axes of dimension 1 in: their places in the result, in rising order.
    Insert(Vec<usize>),
    /// Takes axes of dimension 1 out.
    Remove(Vec<usize>),
    /// The same bits as another type of the same size.
    Reinterpret(ElementType),
}

impl Arg {
    fn input(index: usize) -> Self {
        Arg { from: Source::Input(index), views: Vec::new() }
    }

    fn constant(tensor: Tensor) -> Self {
        Arg { from: Source::Constant(tensor), views: Vec::new() }
    }

    fn then(mut self, view: ViewOp) -> Self {
        self.views.push(view);
        self
    }
}

impl Lowered {
    /// A kernel of one output on these inputs as they are.
    fn kernel(op: Op, inputs: impl IntoIterator<Item = usize>, output: Type) -> Self {
        let inputs = inputs.into_iter().map(|index| Some(Arg::input(index))).collect();
        Lowered { outputs: vec![output], work: Work::Kernel { op, inputs, reshaped: None } }
    }

    /// One view.
    fn view(arg: Arg, output: Type) -> Self {
        Lowered { outputs: vec![output], work: Work::Views(vec![arg]) }
    }
}

/// The ops that run graphs.
pub(crate) const CONTROL: [&str; 3] = ["If", "Loop", "Scan"];

/// Whether this is an op that [`lower`] knows, or one that runs graphs.
pub(crate) fn is_known(domain: &str, op: &str) -> bool {
    domain.is_empty()
        && (CONTROL.contains(&op)
            || map::is_known(op)
            || reduce::is_known(op)
            || shape::is_known(op)
            || gather::is_known(op)
            || linear::is_known(op))
}

/// What `node` comes to for these inputs.
pub(crate) fn lower(node: &Node, facts: &[Option<Fact>]) -> Result<Lowered, Stop> {
    let args = Args { node, facts };
    let lowered = map::lower(&args)
        .or_else(|| shape::lower(&args))
        .or_else(|| reduce::lower(&args))
        .or_else(|| gather::lower(&args))
        .or_else(|| linear::lower(&args));
    let lowered = lowered.unwrap_or_else(|| wrong("the op is not supported"))?;
    for Type { element, dims } in &lowered.outputs {
        if byte_length(*element, dims).is_none() {
            return wrong(format!("the output {element}{dims:?} is too large"));
        }
    }
    if node.outputs.len() > lowered.outputs.len() {
        return wrong(format!(
            "it has {} outputs, not {}",
            lowered.outputs.len(),
            node.outputs.len()
        ));
    }
    Ok(lowered)
}

/// A node's inputs and attributes, read with checks.
struct Args<'a> {
    node: &'a Node,
    facts: &'a [Option<Fact>],
}

impl<'a> Args<'a> {
    fn has(&self, index: usize) -> bool {
        self.facts.get(index).is_some_and(Option::is_some)
    }

    /// An input that must be there.
    fn fact(&self, index: usize) -> Result<&'a Fact, Stop> {
        match self.facts.get(index) {
            Some(Some(fact)) => Ok(fact),
            _ => wrong(format!("input {index} is missing")),
        }
    }

    /// All inputs of a variadic operator; none may be missing.
    fn all(&self) -> Result<Vec<&'a Fact>, Stop> {
        if self.facts.is_empty() {
            return wrong("it has no inputs");
        }
        (0..self.facts.len()).map(|index| self.fact(index)).collect()
    }

    fn limit(&self, most: usize) -> Result<(), Stop> {
        match self.facts.len() {
            count if count > most => wrong(format!("it takes at most {most} inputs, not {count}")),
            _ => Ok(()),
        }
    }

    /// The elements of an input, as integers.
    fn ints(&self, index: usize) -> Result<Vec<i64>, Stop> {
        let fact = self.fact(index)?;
        if !fact.element.is_integer() {
            return wrong(format!("input {index} is of type {}, not integers", fact.element));
        }
        let value = fact.value.as_ref().ok_or(Stop::Unknown)?;
        value.to_i64s().map_or_else(|| wrong(format!("input {index} is out of range")), Ok)
    }

    /// The one element of an input, as an integer.
    fn int(&self, index: usize) -> Result<i64, Stop> {
        match self.ints(index)?[..] {
            [value] => Ok(value),
            _ => wrong(format!("input {index} has shape {:?}, not one element", self.dims(index)?)),
        }
    }

    fn dims(&self, index: usize) -> Result<&'a [usize], Stop> {
        Ok(&self.fact(index)?.dims)
    }

    /// Checks that an input is of one of these types.
    fn only(&self, index: usize, allowed: fn(ElementType) -> bool) -> Result<ElementType, Stop> {
        match self.fact(index)?.element {
            element if allowed(element) => Ok(element),
            element => {
                wrong(format!("input {index} is of type {element}, which the op does not take"))
            }
        }
    }

    /// Checks that two inputs are of one type.
    fn same(&self, first: usize, second: usize) -> Result<(), Stop> {
        let (a, b) = (self.fact(first)?.element, self.fact(second)?.element);
        if a == b {
            return Ok(());
        }
        wrong(format!("input {first} is of type {a}, input {second} of type {b}: they must be one"))
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.node.int(name).map_or(default, |value| value != 0)
    }

    fn float(&self, name: &str, default: f32) -> f32 {
        self.node.float(name).unwrap_or(default)
    }

    /// An attribute of older versions, where newer ones have an input: a number, as a scalar of this type.
    fn scalar(&self, name: &str, element: ElementType) -> Result<Option<Tensor>, Stop> {
        match (self.node.float(name), element) {
            (None, _) => Ok(None),
            (Some(value), ElementType::F32) => Ok(Some(Tensor::scalar(value))),
            (Some(value), ElementType::F64) => Ok(Some(Tensor::scalar(f64::from(value)))),
            _ => {
                wrong(format!("with an attribute \"{name}\" it takes floating-point numbers alone"))
            }
        }
    }

    /// An axis that is an attribute.
    fn axis(&self, default: i64, rank: usize) -> Result<usize, Stop> {
        axis(self.node.int("axis").unwrap_or(default), rank)
    }

    /// Axes that are an input, an attribute in older versions, or left out.
    fn axes(&self, index: usize) -> Result<Option<Vec<i64>>, Stop> {
        match self.node.ints("axes") {
            Some(axes) => Ok(Some(axes.to_vec())),
            None if self.has(index) => self.ints(index).map(Some),
            None => Ok(None),
        }
    }
}

/// An axis counted from the front.
fn axis(axis: i64, rank: usize) -> Result<usize, Stop> {
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    match usize::try_from(counted) {
        Ok(counted) if counted < rank => Ok(counted),
        _ => wrong(format!("axis {axis} is outside of {rank} dimensions")),
    }
}

/// Axes counted from the front, in the order they are given, none twice.
fn distinct_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, Stop> {
    let mut counted: Vec<usize> = Vec::with_capacity(axes.len());
    for &given in axes {
        let place = axis(given, rank)?;
        if counted.contains(&place) {
            return wrong(format!("axis {given} is given twice"));
        }
        counted.push(place);
    }
    Ok(counted)
}

/// The dimensions that all of these are broadcast to.
fn broadcast<'a>(shapes: impl IntoIterator<Item = (usize, &'a [usize])>) -> Result<Dims, Stop> {
    let mut all: Dims = Dims::new();
    let mut seen: Option<(usize, &[usize])> = None;
    for (index, dims) in shapes {
        while all.len() < dims.len() {
            all.insert(0, 1);
        }
        let added = all.len() - dims.len();
        for (to, &dim) in all[added..].iter_mut().zip(dims) {
            if *to == 1 {
                *to = dim;
            } else if dim != 1 && dim != *to {
                let (other, shape) = seen.expect("one that set the dimension");
                return wrong(format!(
                    "input {index} of shape {dims:?} cannot be broadcast with input {other} of shape {shape:?}"
                ));
            }
        }
        seen = Some((index, dims));
    }
    Ok(all)
}

fn floats(element: ElementType) -> bool {
    element.is_float()
}

fn numbers(element: ElementType) -> bool {
    element != ElementType::Bool
}

fn integers(element: ElementType) -> bool {
    element.is_integer()
}

fn indices(element: ElementType) -> bool {
    matches!(element, ElementType::I32 | ElementType::I64)
}

fn bools(element: ElementType) -> bool {
    element == ElementType::Bool
}

fn any(_: ElementType) -> bool {
    true
}
