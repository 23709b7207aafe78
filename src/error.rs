//! One small enum per layer. The store has errors only for what a caller asked of it by name (`put`,
//! `prune`); getting and making never fails because of it.

use std::io;

/// What can fail when the store is told to do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no disk tier, or it may not be written.
    #[error("the cache directory is not in use: {0}")]
    Unavailable(String),
    /// The payload is larger than a record can hold.
    #[error("a payload of {0} bytes is over the limit of 256 MiB")]
    TooLarge(usize),
    /// The file system refused.
    #[error("{action}: {source}")]
    Io {
        /// What was being done.
        action: String,
        /// What the file system said.
        source: io::Error,
    },
}

/// A setting that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value}: expected {expected}")]
pub struct ConfigError {
    /// The environment variable, or the name of the builder's method.
    pub variable: String,
    /// What it was set to.
    pub value: String,
    /// What it may be set to.
    pub expected: String,
}
