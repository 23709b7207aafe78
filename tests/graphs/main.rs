//! Graphs from end to end: ONNX's own cases in every mode, random graphs, and many processes on one cache.

#![cfg(all(feature = "graph", feature = "cli"))]

mod conformance;
mod hostile;
mod memory;
mod ops;
mod plans;
mod properties;
mod random;
mod sharing;
