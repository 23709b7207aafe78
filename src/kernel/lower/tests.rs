//! Typed forms built by hand, compiled, run and compared.
