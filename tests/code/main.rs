//! The code layer as its users see it: programs in, calls out.
#![cfg(all(feature = "jit", feature = "cli"))]

mod calls;
mod support;
