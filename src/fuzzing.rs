//! The bodies of the fuzz targets, one function each; `fuzz/` has the thin shells around them.
//!
//! ```text
//!   input ──► valid files ──► bent as the input says ──► sealed again, or not ──► opened and used
//!                                                         (so that what lies behind a checksum is reached)
//! ```
//!
//! A body takes arbitrary bytes and panics where a promise breaks: any bytes in any file are a miss or a rebuild, and
//! what is found is what was put. They are ordinary functions, so that the tests run them over the seeds, and over a
//! fixed stream of inputs, where no fuzzer is.
//!
//! | target | what is bent |
//! |---|---|
//! | `record` | one record |
//! | `segment` | a segment that is scanned, and the other files of fixed length |
//! | `index` | the words of an index, which is then filled, moved in and rebuilt |
//! | `shard` | the files of a whole cache directory, in which eight keys are then put and got |
//! | `artifact` (feature `jit`) | the artifact of a function, and its relocations |
//! | `image` (feature `jit`) | the file of an image, from its header to its keyed group |
//! | `model` (feature `graph`) | an ONNX file, which is read and put in its canonical form |
//! | `graph` (feature `graph`) | a small model, which is run in every mode |
//!
//! A panic here is a finding; with planted faults, it is the proof that one would be found.

#[cfg(feature = "jit")]
mod artifact;
mod forge;
#[cfg(feature = "graph")]
mod graph;
#[cfg(feature = "jit")]
mod image;
mod index;
mod input;
mod record;
mod segment;
mod shard;

#[cfg(feature = "jit")]
pub use artifact::artifact;
#[cfg(feature = "graph")]
pub use graph::{graph, model};
#[cfg(feature = "jit")]
pub use image::image;
pub use index::index;
pub use record::record;
pub use segment::segment;
pub use shard::shard;

#[cfg(test)]
mod tests;
