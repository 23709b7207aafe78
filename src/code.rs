//! CLIF in, callable memory out.

#[cfg(feature = "cli")]
pub mod clif;
pub mod guard;
