//! The tier in the cache directory.

#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod format;
pub(crate) mod fs;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod index;
pub(crate) mod large;
pub(crate) mod lock;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod map;
pub(crate) mod reason;
pub mod record;
pub(crate) mod root;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod segment;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod shard;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod shards;
#[allow(dead_code, reason = "called by the shards")]
pub(crate) mod sizing;
#[cfg(test)]
mod testing;
pub(crate) mod trust;
pub mod usage;
pub(crate) mod words;
