//! `cachelift clear`: an empty cache.

use super::exit::Exit;
use super::output::{Output, size};
use crate::config::Config;
use crate::store::{Store, Usage};

/// Removes every entry. Processes that use the cache meanwhile go on with what they have loaded.
pub(super) fn run(config: Config, output: Output) -> Exit {
    // A directory that does not exist is empty, and stays away.
    let cleared = match &config.dir {
        Some(dir) if !dir.exists() => Ok(Usage::default()),
        _ => Store::open(config).clear(),
    };
    match cleared {
        Ok(removed) => {
            let entries = removed.artifacts.entries + removed.notes.entries;
            let entries = match entries {
                1 => "1 entry".to_string(),
                n => format!("{n} entries"),
            };
            output.say(format_args!("removed {entries}, {}", size(removed.bytes())));
            output.finish(Exit::Ok)
        }
        Err(error) => {
            output.error(error);
            Exit::Failed
        }
    }
}
