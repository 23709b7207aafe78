//! The code layer as its users see it: programs in, calls out.
#![cfg(all(feature = "jit", feature = "cli"))]

mod big;
mod calls;
#[path = "../common/big.rs"]
mod common;
mod corrupt;
mod images;
mod keys;
mod libcalls;
mod lifetime;
mod links;
mod support;
mod traps;
