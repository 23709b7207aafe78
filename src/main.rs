//! The `cachelift` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    cachelift::cli::main(std::env::args_os()).into()
}
