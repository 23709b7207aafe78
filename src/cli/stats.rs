//! `cachelift stats`: what lies in the cache directory.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::exit::Exit;
use super::output::{HEAD, Output, size, styled};
use crate::config::Config;
use crate::store::{Amount, Usage};

/// Say what lies in the cache directory
///
/// Counts entries and the bytes that they occupy on disk. What a single process did is in the file that
/// CACHELIFT_STATS names.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cachelift stats
  cachelift stats --format json")]
pub(super) struct Arguments {
    /// How to say it
    #[arg(long, value_name = "FORM", default_value = "human")]
    format: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Human,
    Json,
}

/// The numbers as JSON: fields may come to be, none goes or changes.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    dir: Option<&'a str>,
    max_size: u64,
    #[serde(flatten)]
    usage: Usage,
}

/// Runs the command. It changes nothing in the cache, and does not make its directory.
pub(super) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    let usage = super::look(config.clone()).map(|store| store.usage()).unwrap_or_default();
    match arguments.format {
        Form::Json => {
            let dir = config.dir.as_ref().map(|dir| dir.to_string_lossy());
            let max_size = config.max_size;
            let json = Json { schema: 1, dir: dir.as_deref(), max_size, usage };
            let json = serde_json::to_string(&json).expect("numbers and text alone");
            output.data(format_args!("{json}"));
        }
        Form::Human => {
            let mut row = |name: &str, value: String| {
                let name = styled(HEAD, format_args!("{name:<10}")).to_string();
                output.data(format_args!("{name}  {value}"));
            };
            let amount = |Amount { entries, bytes }| format!("{entries}, {}", size(bytes));
            row("directory", super::dir_of(&config));
            row("artifacts", amount(usage.artifacts));
            row("notes", amount(usage.notes));
            row("unfinished", amount(usage.temporary));
            row(
                "on disk",
                format!("{} of at most {}", size(usage.occupied), size(config.max_size)),
            );
        }
    }
    output.finish(Exit::Ok)
}
