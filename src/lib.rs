//! cachelift: a persistent, multi-process-safe cache of machine code that Cranelift generates.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(all(unix, target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "cachelift runs on 64-bit little-endian Linux and macOS; see the README's section on limits"
);

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "jit")]
pub mod code;
pub mod config;
pub mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod key;
mod race;
pub mod stats;
pub mod store;
#[cfg(feature = "stress")]
#[doc(hidden)]
pub mod stress;
mod sync;
#[cfg(test)]
mod testing;
