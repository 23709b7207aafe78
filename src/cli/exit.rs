//! How the command ends.

use std::process::ExitCode;

/// How the command ended; the number is its exit code and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// What was run failed: a run line, or a file that cannot be read, understood or compiled.
    Failed = 1,
    /// The command line or a setting in the environment cannot be understood.
    Usage = 2,
    /// Verifying the cache found damage.
    Damage = 3,
    /// Nothing in the cache is what was asked for.
    NoMatch = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
