//! cachelift beside its peers on the same records, in one run.
//!
//! ```text
//!   cargo run --release                          every figure
//!   cargo run --release -- --only get/1KiB       those whose name begins so
//!   cargo run --release -- --quick               smaller and rougher
//! ```
//!
//! | figure | what is timed |
//! |---|---|
//! | `open` | in a process that has just started: open, and get one record |
//! | `get` | a record that is there, copied out; ours from the directory, with the memory tier set to 0 bytes |
//! | `absent` | a record that is not there |
//! | `put` | records of new keys into an empty cache, each published by itself; ours without the memory tier too, as no peer keeps what it was given |
//! | `memory` | a hit in this process's memory; one word per key, no hash function anywhere |
//!
//! Every measured process is a child of this one (`child`), told when to begin. Rounds of the peers take turns, so that
//! what the machine does meanwhile meets all of them; a figure is the ratio of two medians. Directories are built once
//! per run under the temporary directory.

mod child;
mod disk;
mod figure;
mod memory;
mod peer;
mod records;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use figure::Figures;

/// Measures cachelift beside its peers.
#[derive(Parser)]
struct Args {
    /// Only the figures whose name begins so, as `get` or `get/1KiB/1000`; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Fewer and shorter rounds, no directory of a million records
    #[arg(long)]
    quick: bool,
    /// How the figures are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Where directories are built
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

#[derive(Subcommand)]
enum Child {
    /// What the measured processes run; not for users
    #[command(hide = true)]
    Child(child::Job),
}

/// How much is measured.
#[derive(Clone)]
struct Effort {
    only: Vec<String>,
    quick: bool,
    dir: PathBuf,
}

impl Effort {
    fn wants(&self, name: &str) -> bool {
        let begins = |only: &String| {
            name.strip_prefix(only.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.only.is_empty() || self.only.iter().any(begins)
    }

    /// This many rounds, or a few.
    fn rounds(&self, rounds: usize) -> usize {
        if self.quick { 3 } else { rounds }
    }
}

fn main() {
    let args = Args::parse();
    if let Some(Child::Child(job)) = args.child {
        return child::run(&job);
    }
    let effort = Effort { only: args.only, quick: args.quick, dir: args.dir };
    let mut figures = Figures::default();
    memory::measure(&effort, &mut figures);
    disk::measure(&effort, &mut figures);
    match args.format {
        Format::Table => print!("{}", figures.table()),
        Format::Json => println!("{}", figures.json()),
    }
}
