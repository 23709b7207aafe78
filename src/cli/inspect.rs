//! `cachelift inspect`: what is kept under a key.
use super::exit::Exit;
use super::output::Output;
use crate::config::Config;
use clap::Args;

/// Show what is kept under a key
#[derive(Debug, Args)]
pub(super) struct Arguments {
    key: String,
}
pub(super) fn run(_a: &Arguments, _c: Config, _o: Output) -> Exit {
    Exit::NoMatch
}
