//! Promises of the store as its users see it, one module each, in one binary.

mod calls;
mod child;
mod directory;
mod environment;
mod faults;
mod modes;
mod sharing;
mod syscalls;
