//! From a graph and the shapes of its inputs to what runs: which kernels, on which memory, in which order.
//!
//! ```text
//!   graph, inputs' types ──lower each node──► works ──fuse (in fused mode)──► works ──place──► Plan
//!        │ all inputs known: run at once, the result is a constant
//!        │ an input's shape or elements are not known yet: the node is lowered while the graph runs
//!        └ else: a view, or a call of a kernel on places
//! ```
//!
//! Shapes are worked out here once. What is left for a run is to set addresses and to call kernels one after another.
//! Buffers between kernels lie in one arena; two share a place in it if they are never alive at once.

mod build;
mod fuse;
mod place;

use serde::{Deserialize, Serialize};

use super::node::NodeSpec;
use super::region::Region;
use super::tensor::{ElementType, Tensor};

pub(crate) use build::{apply, build};

/// What runs a graph for inputs of certain shapes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The kernels.
    pub(crate) specs: Vec<NodeSpec>,
    /// Calls of them, in order.
    pub(crate) calls: Vec<CallSite>,
    /// The words of all calls' frames; addresses are 0.
    pub(crate) words: Vec<u64>,
    /// Where addresses stand among the words.
    pub(crate) patches: Vec<Patch>,
    /// Stretches of calls, and nodes that are lowered while the graph runs.
    pub(crate) segments: Vec<Segment>,
    /// What is known beforehand.
    pub(crate) constants: Vec<Constant>,
    /// Tensors of a run that outlive it, or that nodes see which are lowered while the graph runs; `None`: the
    /// node makes it.
    pub(crate) slots: Vec<Option<(ElementType, Vec<usize>)>>,
    /// How many bytes the arena has.
    pub(crate) arena: usize,
    /// What the graph gives back.
    pub(crate) outputs: Vec<Held>,
    /// Names the image of its code, if it has one.
    pub(crate) image: Option<[u8; 32]>,
}

/// A call of a kernel.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct CallSite {
    /// Which of the kernels.
    pub(crate) spec: u32,
    /// The node it is of; of a group, the last.
    pub(crate) node: u32,
    /// Where its frame begins among the words.
    pub(crate) start: u32,
    /// How many words its frame has.
    pub(crate) length: u32,
}

/// A word that is the address of a buffer and so many bytes more.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Patch {
    pub(crate) word: u32,
    pub(crate) base: Base,
    pub(crate) offset: u64,
}

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Base {
    /// An input of the graph, without gaps.
    Input(u32),
    /// A constant.
    Constant(u32),
    /// A tensor of the run. While a plan is being built, every output of a kernel is one.
    Slot(u32),
    /// Memory between kernels.
    Arena,
}

/// Steps of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Segment {
    /// Calls, from one place among them to another.
    Calls(u32, u32),
    /// A node of the graph that is lowered when its inputs are there.
    Node { node: u32, inputs: Vec<Option<Held>>, outputs: Vec<Option<u32>> },
}

/// Where a value is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Held {
    /// In known places of a buffer.
    At(Place),
    /// A tensor of the run, as it comes.
    Slot(u32),
}

/// A view of a buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) base: Base,
    pub(crate) element: ElementType,
    pub(crate) region: Region,
}

/// What is known beforehand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Constant {
    /// One of the graph's.
    Graph(u32),
    /// The default of an input.
    Default(u32),
    /// Computed when the plan was made.
    Computed { element: ElementType, dims: Vec<usize>, bytes: Vec<u8> },
}

impl Constant {
    fn computed(tensor: &Tensor) -> Self {
        let contiguous = tensor.contiguous();
        let bytes = contiguous.as_bytes().expect("it is contiguous").to_vec();
        Constant::Computed { element: tensor.element(), dims: tensor.dims().to_vec(), bytes }
    }
}
