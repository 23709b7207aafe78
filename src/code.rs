//! CLIF in, callable memory out, and each function compiled once.
//!
//! ```text
//!   Program ──► Engine::load ──► Loaded ──► Function ──► call
//!                  │
//!                  ├ audit     hits compiled again and compared
//!                  ├ target    for whom; everything that enters every key
//!                  ├ compile   a function's key, and its artifact
//!                  ├ artifact  code as bytes: symbolic references, traps, calls, frames
//!                  ├ link      what a reference means, and when loaded code is the same
//!                  ├ load      one executable mapping for what is not live yet
//!                  ├ patch     relocations and stubs
//!                  ├ handle    who keeps loaded code alive
//!                  └ exec      executable memory: the unsafe part
//!
//!   Engine::load_image ──► Image         image: a program that is mapped as a whole
//!   JITModule ──► CachingModule          module: the same, behind Cranelift's own interface
//!   Wasmtime  ──► WasmtimeCache          wasmtime: what Wasmtime compiles, kept in the store
//! ```
//!
//! *Artifacts are shared by what they are; loaded code is not.* Every process, and every caller in a process,
//! that wants a function's machine code gets the same artifact. Callers that bind its references to the
//! same things share the loaded code too; all others have their own copy of it.

pub mod artifact;
mod audit;
mod call;
#[cfg(feature = "cli")]
pub mod clif;
mod compile;
#[cfg(test)]
mod digest;
pub(crate) mod disassembly;
mod engine;
mod error;
mod exec;
pub mod guard;
mod handle;
pub(crate) mod image;
#[cfg(feature = "cli")]
pub(crate) mod inspect;
mod link;
mod load;
mod loaded;
pub(crate) mod module;
pub(crate) mod patch;
mod program;
pub mod target;
#[cfg(feature = "wasmtime")]
mod wasmtime;

pub use engine::{Engine, Options};
pub use error::{CodeError, VerifierError};
pub use handle::{Function, TrapInfo};
pub use image::Image;
#[cfg(feature = "kernel")]
pub(crate) use loaded::Got;
pub use loaded::{Loaded, Unit};
pub use module::CachingModule;
pub use program::{Naming, Program, Recipe, TEXT_NAMESPACE};
pub use target::Target;
#[cfg(feature = "wasmtime")]
pub use wasmtime::WasmtimeCache;
