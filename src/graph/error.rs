//! What can be wrong with a model, its inputs, or a run.

use std::path::PathBuf;

use super::model::{Graph, Node};
use super::tensor::TooLarge;
use crate::code::CodeError;

/// Why a model cannot be read, prepared or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The bytes are no ONNX model.
    #[error("not an ONNX model: {0}")]
    Parse(String),
    /// A part of a model is not as it must be.
    #[error("{place}: {reason}")]
    Invalid {
        /// Which part.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A node cannot be: its op is not supported, or does not take these inputs.
    #[error("{node}: {reason}")]
    Node {
        /// The node and its op.
        node: String,
        /// What is wrong.
        reason: String,
    },
    /// An input of a run is missing, or is not what the model takes.
    #[error("input \"{name}\": {reason}")]
    Input {
        /// The input.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A tensor would be too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A kernel cannot be compiled or loaded.
    #[error(transparent)]
    Code(#[from] CodeError),
}

impl GraphError {
    /// A node that cannot be.
    pub(crate) fn node(graph: &Graph, node: &Node, reason: impl Into<String>) -> Self {
        GraphError::Node { node: label(graph, node), reason: reason.into() }
    }

    pub(crate) fn invalid(place: impl Into<String>, reason: impl Into<String>) -> Self {
        GraphError::Invalid { place: place.into(), reason: reason.into() }
    }
}

/// A node in messages: by its name, or by what it computes.
pub(crate) fn label(graph: &Graph, node: &Node) -> String {
    let output = node.outputs.iter().flatten().map(|id| graph.name_of(*id)).find(|n| !n.is_empty());
    match (node.name.as_str(), output) {
        ("", Some(output)) => format!("node of \"{output}\" ({})", node.op_name()),
        ("", None) => format!("node ({})", node.op_name()),
        (name, _) => format!("node \"{name}\" ({})", node.op_name()),
    }
}
