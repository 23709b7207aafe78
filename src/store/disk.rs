//! The tier in the cache directory.
#![allow(dead_code)]

pub(crate) mod fs;
pub(crate) mod large;
pub(crate) mod lock;
pub(crate) mod reason;
pub(crate) mod record;
pub(crate) mod root;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod trust;
