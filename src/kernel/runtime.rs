//! What compiled kernels call, and what they share with the host.
//!
//! ```text
//!   memory    counted blocks: arrays, structrefs
//!   context   of one call: how much stack there is, the error, what is to be printed
//!   helpers   by name: every external routine that kernels may refer to
//!   math      what has no instruction
//!   parallel  a loop's chunks on threads
//!   c         calls that come from C
//! ```
//!
//! Helpers never unwind, and never trust a number: what they are handed may be any.

pub(super) mod c;
pub(super) mod context;
mod helpers;
pub(crate) mod math;
pub(super) mod memory;
pub(crate) mod parallel;
pub(super) mod stack;

pub(super) use context::Host;
pub(super) use helpers::address;
