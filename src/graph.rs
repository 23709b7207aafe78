//! Tensor graphs, compiled node by node.

pub mod abi;
mod bind;
mod kernel;
pub mod model;
pub mod node;
mod ops;
mod runtime;
pub mod tensor;
#[cfg(test)]
mod testing;

pub use bind::bind;
pub use kernel::{Kernel, compile};
pub use model::Model;
pub use tensor::{Element, ElementType, Tensor};
