//! Functions in files, compiled once.

pub mod abi;
pub mod array;
pub mod diagnostic;
pub mod dtype;
pub mod exception;
pub mod host;
pub mod infer;
pub mod ir;
pub mod lower;
pub mod options;
pub mod parse;
pub mod resolve;
pub mod rules;
pub mod runtime;
pub mod source;
pub mod syntax;
pub mod table;
pub mod types;
pub mod value;
