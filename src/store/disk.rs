//! The tier in the cache directory.

pub(crate) mod fs;
pub mod record;

pub(crate) mod format;
pub(crate) mod index;
pub(crate) mod map;
pub(crate) mod segment;
pub(crate) mod sizing;
pub(crate) mod words;
