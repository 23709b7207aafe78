//! The simulation against the kernel, the search against brute force.

mod kernel;
mod machine;
mod search;
