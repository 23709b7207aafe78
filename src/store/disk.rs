//! The tier in the cache directory.

pub(crate) mod fs;
pub mod record;

// What follows is the core of the shards, without a caller until these stand on it.
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod format;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod index;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod map;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod segment;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod sizing;
pub(crate) mod words;
