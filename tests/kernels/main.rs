//! Kernel files through the command: what they print, and what an edit compiles.
//!
//! The programs are not part of this crate: `CACHELIFT_CONFORMANCE_DIR` names a folder that has them below `kernels`.
//! Without it the tests that need them say so and check nothing; under `CI` they fail. `CACHELIFT_ONLY=name` runs the
//! programs whose name has that in it.

#![cfg(all(feature = "kernel", feature = "cli"))]

mod command;
mod edits;
mod generator;
mod programs;
mod reload;
mod session;
mod shapes;
mod support;
