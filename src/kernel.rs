//! Functions in files, compiled once.

pub mod array;
pub mod diagnostic;
pub mod dtype;
pub mod exception;
pub mod format;
pub mod host;
pub mod parse;
pub mod resolve;
pub mod source;
pub mod syntax;
pub mod table;
pub mod types;
pub mod value;
