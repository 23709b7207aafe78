//! `cachelift prune`: less in the cache.

use std::time::Duration;

use clap::Args;

use super::exit::Exit;
use super::output::{Output, size};
use crate::config::{Config, parse_size};
use crate::store::{PruneLimits, Store};

/// Remove what was not used for long, and what is over a limit
///
/// Entries that are worth the least for the room they take go first. Processes that use the cache meanwhile
/// go on; what they have loaded stays theirs. An empty cache occupies some 200 KiB.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cachelift prune --max-size 500M
  cachelift prune --older-than 7d")]
pub(super) struct Arguments {
    /// The most bytes to leave on disk, in place of CACHELIFT_MAX_SIZE: 500M, 2G
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max_size: Option<u64>,

    /// Remove what was not used for this long: 12h, 7d, 4w
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, config: Config, output: Output) -> Exit {
    let limits = PruneLimits { max_size: arguments.max_size, unused_for: arguments.older_than };
    // A directory that does not exist is small enough, and stays away.
    if config.dir.as_ref().is_some_and(|dir| !dir.exists()) {
        output.say("nothing to remove");
        return output.finish(Exit::Ok);
    }
    let store = Store::open(config);
    let before = store.usage().occupied;
    match store.prune(limits) {
        Ok(left) => {
            let after = left.occupied;
            let removed = size(before.saturating_sub(after)).to_string();
            output.say(format_args!("removed {removed}, left {}", size(after)));
            output.finish(Exit::Ok)
        }
        Err(error) => {
            output.error(error);
            Exit::Failed
        }
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_size("--max-size", text).map_err(|error| format!("expected {}", error.expected))
}

fn age(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let hours = match &text[number.len()..] {
        "h" => 1,
        "d" => 24,
        "w" => 24 * 7,
        _ => 0,
    };
    number
        .parse::<u64>()
        .ok()
        .filter(|_| hours > 0)
        .and_then(|n| n.checked_mul(hours * 3600))
        .map(Duration::from_secs)
        .ok_or_else(|| "expected a number of hours, days or weeks such as 12h, 7d or 4w".into())
}
