//! Tensor graphs, compiled node by node.

pub mod abi;
mod bind;
mod error;
mod infer;
pub mod model;
pub mod node;
pub mod onnx;
pub mod tensor;

pub use bind::bind;
pub use error::GraphError;
pub use model::Model;
pub use tensor::{Element, ElementType, Tensor};
