//! Functions in files, compiled once.

pub mod abi;
pub mod array;
mod bind;
mod canon;
mod constants;
pub mod diagnostic;
mod dispatch;
pub mod dtype;
pub mod exception;
pub mod host;
pub mod infer;
pub mod ir;
mod keys;
pub mod lower;
mod make;
mod manifest;
mod marshal;
pub mod options;
pub mod parse;
mod plan;
pub mod resolve;
pub mod rules;
pub mod runtime;
mod session;
pub mod source;
pub mod syntax;
pub mod table;
pub mod types;
mod ufunc;
pub mod value;
mod why;
mod world;

pub use dispatch::{Question, Used};
pub use session::{Error, Session};
