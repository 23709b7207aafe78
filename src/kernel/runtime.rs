//! What compiled kernels call, and what they share with the host: counted memory, the context of a call, helpers.

pub mod memory;
