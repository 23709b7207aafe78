//! The `cachelift-stress` tool: many processes on one cache directory, killed, stopped and lied to, and what they saw
//! checked afterwards.

use std::process::ExitCode;

fn main() -> ExitCode {
    cachelift::stress::main()
}
