//! The tier in the cache directory.

pub(crate) mod fs;
pub mod record;
