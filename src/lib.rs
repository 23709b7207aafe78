//! Compile once on this machine; every process runs it.
//!
//! cachelift is a persistent cache of the machine code that [Cranelift](https://cranelift.dev) generates, safe to share
//! among any number of threads and processes.
//!
//! ```text
//!   cli, stress ──► kernel, graph ──► code ──► store ──► key, sync, fs
//! ```
//!
//! | door | begins at |
//! |---|---|
//! | Programs of kernels | `kernel::Session`: functions in Python files, compiled once each (feature `kernel`) |
//! | Authors of JITs | `code::Engine`: CLIF in, callable code out, compiled once (feature `jit`) |
//! | The same, one line changed | `code::CachingModule` in place of `cranelift_jit::JITModule` (feature `jit`) |
//! | Anything made once | [`store::Store`]: bytes under keys, one maker per key |
//! | The command | `cachelift --help` (feature `cli`) |
//!
//! What is promised:
//!
//! 1. A hit is the code that a compile of exactly this input would give.
//! 2. One compile per key, however many threads and processes ask at once.
//! 3. Nothing that the disk, another process, a crash or a clean-up does can fail, crash or block a caller for
//!    longer than a compile.
//! 4. A hit costs microseconds, a hot call a pointer call.
//!
//! [`config`] has the settings and the environment, [`key`] what things are called, [`stats`] what a process did. The
//! README shows each door at work, and how every promise is checked.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(all(unix, target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "cachelift runs on 64-bit little-endian Linux and macOS; see the README's section on limits"
);

#[cfg(all(feature = "benching", not(any(loom, shuttle))))]
#[doc(hidden)]
pub mod benching;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "jit")]
pub mod code;
pub mod config;
pub mod error;
#[cfg(all(any(test, feature = "fuzzing"), not(any(loom, shuttle))))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "graph")]
pub mod graph;
#[cfg(feature = "kernel")]
pub mod kernel;
pub mod key;
mod race;
pub mod stats;
pub mod store;
#[cfg(feature = "stress")]
#[doc(hidden)]
pub mod stress;
mod sync;

/// The README's examples compile.
#[cfg(all(doctest, feature = "jit"))]
#[doc = include_str!("../README.md")]
struct Readme;
