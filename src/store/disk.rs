//! The tier in the cache directory.

pub(crate) mod fs;
pub(crate) mod large;
pub(crate) mod lock;
pub(crate) mod reason;
pub mod record;
pub(crate) mod root;
#[cfg(test)]
mod testing;
pub(crate) mod trust;
pub mod usage;

#[cfg(all(test, not(loom)))]
mod race;
