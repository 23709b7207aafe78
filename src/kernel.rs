//! Functions in files, compiled once.

pub mod abi;
pub mod ir;
pub mod lower;
pub mod runtime;
