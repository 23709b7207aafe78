//! The stress tool: many processes on one cache directory, while others kill, stop and damage; what they saw is checked
//! afterwards.
//!
//! ```text
//!   run ──starts──► worker, worker, …         get, make, run, put, note, edit, clear, re-open, fork, exec
//!    │                 │        └─appends──► histories ──► check ──► violations
//!    ├─ chaos ─────────┤ kill, stop                          │
//!    │                 └─ board: who is in which step        ├──► summary (text, JSON)
//!    └─ samples of the bytes on disk                         └──► report (HTML)
//! ```
//!
//! | file | what it knows |
//! |---|---|
//! | `worker` | what a process does with the store |
//! | `payload` | what is cached, and whether it is right |
//! | `image` | programs that are mapped and run, and whether they are right |
//! | `history` | what a thread saw |
//! | `board` | where every thread is, what it does, and where it shall die |
//! | `process` | what the kernel tells of one that does not answer |
//! | `chaos` | who is killed, stopped, damaged, when the disk is full |
//! | `disk` | a small file system that can be filled |
//! | `run` | a run from begin to end |
//! | `check` | what must not have happened |
//! | `summary` | figures, as text and JSON |
//! | `report` | the same for the eye |
//!
//! `CACHELIFT_STRESS_FAULT` plants a fault in the store, by the words of its `Fault`: the run must then fail.

mod board;
mod chaos;
mod check;
mod disk;
mod history;
#[cfg(feature = "jit")]
mod image;
mod payload;
mod process;
mod report;
mod run;
mod summary;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::config::parse_size;

/// Many processes on one cache directory, killed, stopped and lied to; what they saw is checked afterwards.
///
/// It ends some 20 seconds after its time at the latest: a worker that does not answer is told of, and killed.
///
/// Exits with 0 if no invariant was broken and, with --kill in a run of 100 seconds or more, every step of the
/// protocol was met by a kill; with 1 otherwise.
#[derive(Clone, Debug, Parser)]
#[command(name = "cachelift-stress", version)]
struct Options {
    /// How many processes work at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// How many threads each of them has
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=i64::from(board::MOST_THREADS)))]
    threads: u16,
    /// How long to go on
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many different things are cached
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    keys: u32,
    /// The limit on the cache directory
    #[arg(long, default_value = "4M", value_parser = size)]
    max_size: u64,
    /// Kill workers, at every step of the protocol and anywhere
    #[arg(long)]
    kill: bool,
    /// Stop workers for a while, at every step of the protocol and anywhere
    #[arg(long)]
    stop: bool,
    /// Put damaged copies in the place of files
    #[arg(long)]
    corrupt: bool,
    /// Fill the disk now and then: the run has a small file system of its own, where one may be mounted
    #[arg(long, conflicts_with = "dir")]
    full: bool,
    /// Map programs as images too, and run them while others clear, prune, evict and damage
    #[cfg(feature = "jit")]
    #[arg(long)]
    images: bool,
    /// What the tool's random numbers begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to write the summary
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a report with plots to this file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Work in this directory, which is made and kept, in place of one that is removed
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs; its `version` changes when its meaning does
    Json,
}

impl Options {
    fn images(&self) -> bool {
        #[cfg(feature = "jit")]
        return self.images;
        #[cfg(not(feature = "jit"))]
        false
    }
}

fn size(text: &str) -> Result<u64, String> {
    parse_size("--max-size", text).map_err(|error| error.to_string())
}

/// Runs the tool, or the worker that this process was told to be.
pub fn main() -> ExitCode {
    if let Some(code) = worker::run_if_told() {
        return code.into();
    }
    let options = Options::parse();
    match run::run(&options) {
        Ok(summary) => {
            match options.format {
                Format::Text => print!("{summary}"),
                Format::Json => println!("{}", summary.json()),
            }
            if let Some(file) = &options.report
                && let Err(error) = std::fs::write(file, report::html(&summary))
            {
                eprintln!("cachelift-stress: {}: {error}", file.display());
                return ExitCode::from(2);
            }
            ExitCode::from(u8::from(!summary.is_good()))
        }
        Err(error) => {
            eprintln!("cachelift-stress: {error}");
            ExitCode::from(2)
        }
    }
}
