//! The `cachelift` command: arguments in, library calls, text out.
//!
//! ```text
//!   arguments, environment ──► Settings ──► one file per subcommand ──► Exit
//!                                             data on stdout, words for people on stderr
//! ```

#[cfg(feature = "kernel")]
mod check;
mod clear;
mod exit;
#[cfg(any(feature = "graph", feature = "kernel"))]
mod explain;
#[cfg(feature = "graph")]
mod graph;
mod inspect;
mod output;
mod prune;
mod run;
mod stats;
mod verify;
#[cfg(feature = "kernel")]
mod warm;

use std::ffi::OsString;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::{Config, Mode};
use crate::store::Store;
pub use exit::Exit;
use output::Output;

/// Compile once on this machine; every process runs it.
///
/// cachelift keeps the machine code that Cranelift generates under a key of everything that shapes it, in
/// a directory that all processes share. A second process loads what the first compiled.
#[derive(Debug, Parser)]
#[command(
    name = "cachelift",
    version,
    disable_help_subcommand = true,
    after_help = "Run `cachelift <COMMAND> --help` for more on a command, `cachelift --help` for the environment.",
    after_long_help = AFTER_HELP
)]
struct Arguments {
    /// When to use colours
    ///
    /// `auto` heeds NO_COLOR, CLICOLOR and CLICOLOR_FORCE, and uses them on a terminal.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    #[cfg(any(feature = "graph", feature = "kernel"))]
    Explain(explain::Arguments),
    #[cfg(feature = "kernel")]
    Check(check::Arguments),
    #[cfg(feature = "kernel")]
    Warm(warm::Arguments),
    #[cfg(feature = "graph")]
    Test(graph::test::Arguments),
    #[cfg(feature = "graph")]
    Graph(graph::picture::Arguments),
    Stats(stats::Arguments),
    Inspect(inspect::Arguments),
    Prune(prune::Arguments),
    Verify(verify::Arguments),
    /// Remove every entry of the cache
    ///
    /// Processes that use the cache meanwhile go on with what they have loaded.
    Clear,
    /// Print the path of the cache directory
    ///
    /// It need not exist yet.
    Dir,
}

const AFTER_HELP: &str = "\
Examples:
  cachelift run main.py 100                   run a program of kernels
  cachelift run add.clif                      run the `; run:` lines of a file
  cachelift run --call '%add(3, 4)' add.clif  call one function
  cachelift run --summary human *.clif        say what was compiled and what was loaded

Environment:
  CACHELIFT_DIR          the cache directory, in place of cachelift in $XDG_CACHE_HOME or ~/.cache
  CACHELIFT_MODE         read-write (the default), read-only, refresh (make all anew), off
  CACHELIFT_NAMESPACE    enters every key: what must not be shared
  CACHELIFT_SALT         enters every key: change it to start anew
  CACHELIFT_MAX_SIZE     the most bytes on disk: 500M, 2G (the default)
  CACHELIFT_MEMORY_SIZE  the most bytes in memory: 64M, 256M (the default)
  CACHELIFT_BASE_DIR     a read-only directory that is asked after the first
  CACHELIFT_STATS        a file that gets one line of JSON per process
  CACHELIFT_PATH         folders to look for kernel files in, after the program's own
  CACHELIFT_NUM_THREADS  how many threads run `prange` loops: all processors (the default)
  CACHELIFT_LOG          what is logged to stderr: warn (the default), cachelift=debug

Exit codes:
  0  all went well
  1  what was run failed: a run line, a file that cannot be read or compiled
  2  the command line or the environment cannot be understood
  3  verifying found damage
  4  nothing matched";

/// Runs the command with these arguments, the first of which is its own name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let matches = match Arguments::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // A reader of help that went away is no failure.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok };
        }
    };
    let Arguments { color, command } = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return Exit::Usage;
        }
    };
    let output = Output::new(color);
    output::silence_compiler();
    let config = match Config::from_env() {
        Ok(config) => config,
        Err(error) => return output.usage(&error),
    };
    if let Err(error) = output::start_log() {
        return output.usage(&error);
    }
    match command {
        Command::Run(arguments) => run::run(&arguments, config, output),
        #[cfg(any(feature = "graph", feature = "kernel"))]
        Command::Explain(arguments) => explain::run(&arguments, config, output),
        #[cfg(feature = "kernel")]
        Command::Check(arguments) => check::run(&arguments, output),
        #[cfg(feature = "kernel")]
        Command::Warm(arguments) => warm::run(&arguments, config, output),
        #[cfg(feature = "graph")]
        Command::Test(arguments) => graph::test::run(&arguments, config, output),
        #[cfg(feature = "graph")]
        Command::Graph(arguments) => graph::picture::run(&arguments, config, output),
        Command::Stats(arguments) => stats::run(&arguments, config, output),
        Command::Prune(arguments) => prune::run(&arguments, config, output),
        Command::Verify(arguments) => verify::run(&arguments, config, output),
        Command::Clear => clear::run(config, output),
        Command::Inspect(arguments) => inspect::run(&arguments, config, output),
        Command::Dir => dir(&config, output),
    }
}

/// The folders that kernel files are looked for in after the program's own: `CACHELIFT_PATH`.
#[cfg(feature = "kernel")]
fn module_path() -> Vec<std::path::PathBuf> {
    let path = std::env::var_os("CACHELIFT_PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()).collect()
}

/// The store for a look at the cache, which changes nothing in it; `None` if there is no directory yet.
fn look(config: Config) -> Option<Store> {
    if !config.dir.as_ref()?.exists() {
        return None;
    }
    Some(Store::open(match config.mode {
        Mode::Off => config,
        _ => config.mode(Mode::ReadOnly),
    }))
}

/// The directory in words, for one that need not exist.
fn dir_of(config: &Config) -> String {
    match &config.dir {
        Some(dir) if dir.exists() => dir.display().to_string(),
        Some(dir) => format!("{} (does not exist)", dir.display()),
        None => "nowhere: no directory is set".into(),
    }
}

fn dir(config: &Config, mut output: Output) -> Exit {
    match &config.dir {
        Some(dir) => {
            output.data(format_args!("{}", dir.display()));
            output.finish(Exit::Ok)
        }
        None => {
            output.error("no cache directory: set CACHELIFT_DIR, XDG_CACHE_HOME or HOME");
            Exit::Failed
        }
    }
}
