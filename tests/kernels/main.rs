//! Kernel files through the command and through sessions.
//!
//! `programs` runs the corpus, which is not part of this crate: `CACHELIFT_CONFORMANCE_DIR` names a folder that has it
//! below `kernels`. Without it those tests say so and check nothing; under `CI` they fail. `CACHELIFT_ONLY=name` runs the
//! programs whose name has that in it. `tests/conformance.rs` has them too.

#![cfg(all(feature = "kernel", feature = "cli"))]

mod command;
mod edits;
mod generator;
mod language;
mod programs;
mod reload;
mod session;
mod shapes;
mod support;
