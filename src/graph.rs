//! Tensor graphs: ONNX models, compiled node by node, every node once.
//!
//! ```text
//!   onnx, builder ──► model ──structure──► canonical graph, key
//!                                │ runner: a plan per input shapes, stored under the key
//!                                ▼
//!          infer: types, shapes, views, kernels to call ──► plan ──► vm or whole ──► outputs
//!                                │
//!          bind, node, ops, kernel: a node's kernel, made by one of all processes
//! ```
//!
//! A kernel is compiled for operators, types, ranks and layouts, never for sizes; it is shared by every node, graph
//! and process that needs the same. A graph's key says what it computes, whatever its values are called and in whichever
//! order its independent nodes stand. Initialisers are arguments of kernels, never code.

pub mod abi;
mod bind;
mod builder;
mod constants;
mod control;
mod error;
#[cfg(feature = "cli")]
pub(crate) mod explain;
mod host;
mod image;
mod infer;
mod kernel;
pub mod model;
pub mod node;
pub mod onnx;
mod ops;
mod plan;
mod product;
mod region;
mod runner;
mod runtime;
mod session;
mod structure;
pub mod tensor;
#[cfg(test)]
mod testing;
mod vm;
mod whole;

pub use bind::bind;
pub use builder::{Builder, Value};
pub use error::GraphError;
pub use host::HostOp;
pub use kernel::{Kernel, compile};
pub use model::Model;
pub use session::{Input, Mode, Prepared, Session, canonical_key};
pub use tensor::{Element, ElementType, Tensor};
