//! Functions in files, compiled once.

pub mod abi;
pub mod array;
mod canon;
pub mod diagnostic;
pub mod dtype;
pub mod exception;
pub mod host;
pub mod ir;
mod keys;
pub mod lower;
mod manifest;
mod plan;
pub mod resolve;
pub mod runtime;
pub mod source;
pub mod syntax;
pub mod table;
pub mod types;
pub mod value;
