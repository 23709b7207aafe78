//! Tensor graphs, compiled node by node.

pub mod abi;
mod bind;
pub mod model;
pub mod node;
pub mod tensor;

pub use bind::bind;
pub use model::Model;
pub use tensor::{Element, ElementType, Tensor};
