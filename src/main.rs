//! The `cachelift` command.

use std::process::ExitCode;

/// A fifth of a run from a warm cache was spent in the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cachelift::cli::main(std::env::args_os()).into()
}
