//! Audit: what was found is compiled again, and must be the same.
//!
//! ```text
//!   hit ──► artifact ─┐
//!    └─► compile ─────┴─► equal, byte for byte?  no ──► an error with both disassemblies
//! ```
//!
//! A key that leaves out something which shapes code shows here and nowhere else: the record under it is whole,
//! and it is another function's.

use super::artifact::Artifact;
use super::disassembly::disassembly;
use super::error::CodeError;

/// Fails unless the artifact that was found is the one that a compile gave.
pub(crate) fn compare(function: &str, cached: &[u8], compiled: &[u8]) -> Result<(), CodeError> {
    if cached == compiled {
        return Ok(());
    }
    Err(difference(function, listing(cached), listing(compiled)))
}

/// The error that says that the two are not the same.
pub(crate) fn difference(function: &str, mut cached: String, compiled: String) -> CodeError {
    if cached == compiled {
        cached.push_str("(the same instructions: what is kept beside them differs)\n");
    }
    CodeError::Audit { function: function.into(), cached, compiled }
}

/// An artifact for people to read.
pub(crate) fn listing(bytes: &[u8]) -> String {
    match Artifact::decode_any(bytes) {
        Ok(artifact) => disassembly(&artifact),
        Err(error) => format!("{} bytes: {error}\n", bytes.len()),
    }
}
