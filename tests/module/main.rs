//! `CachingModule` as authors of JITs see it: a `JITModule` that finds what was compiled before.
#![cfg(all(feature = "jit", feature = "cli"))]

mod alike;
mod audit;
mod binding;
#[path = "../common/big.rs"]
mod common;
mod conformance;
mod drop_in;
mod groups;
mod images;
mod libcalls;
mod places;
mod support;
