//! Functions in files, compiled once.
