//! `cachelift verify`: every record, read and checked.

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Form, Output, size};
use crate::config::Config;
use crate::store::{Store, Verified};

/// Read every record, and take out those that are damaged
///
/// A damaged record is never used, and replaced when its key is asked for; this finds it before. Ends with
/// 3 if there was one.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// How to say it
    #[arg(long, value_name = "FORM", default_value = "human")]
    format: Form,
}

/// The numbers as JSON: fields may come to be, none goes or changes.
#[derive(Serialize)]
struct Json {
    schema: u32,
    #[serde(flatten)]
    verified: Verified,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    // A directory that does not exist has no damage, and stays away.
    let verified = match &config.dir {
        Some(dir) if !dir.exists() => Ok(Verified::default()),
        _ => {
            let store = Store::open(config);
            let mut begun = false;
            let verified = store.verify(|done, of| {
                if !begun {
                    output.progress().begin("verifying", Some(of));
                    begun = true;
                }
                if done > 0 {
                    output.progress().step();
                }
            });
            output.progress().clear();
            verified
        }
    };
    let verified = match verified {
        Ok(verified) => verified,
        Err(error) => {
            output.error(error);
            return Exit::Failed;
        }
    };
    match arguments.format {
        Form::Json => {
            let json = Json { schema: 1, verified };
            let json = serde_json::to_string(&json).expect("numbers alone");
            output.data(format_args!("{json}"));
        }
        Form::Human => {
            let Verified { whole, damaged, bytes, .. } = verified;
            output.data(format_args!("{whole} whole, {}, {damaged} damaged", size(bytes)));
        }
    }
    output.finish(if verified.damaged == 0 { Exit::Ok } else { Exit::Damage })
}
