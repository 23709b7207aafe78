//! Tensor graphs, compiled node by node.

pub mod model;
pub mod tensor;

pub use model::Model;
pub use tensor::{Element, ElementType, Tensor};
