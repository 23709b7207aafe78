//! `cachelift explain`: what each node of a model needs, and where it would come from.

use std::path::Path;

use super::super::exit::Exit;
use super::super::output::{HEAD, Output, styled};
use super::Mode;
use crate::config::Config;
use crate::graph::explain::{Seen, explain};
use crate::graph::{Session, onnx};
use crate::store::Store;

/// Runs the command.
pub(in crate::cli) fn run(model: &Path, mode: Mode, config: Config, mut output: Output) -> Exit {
    let seen = Seen::of(&config);
    let prepared = Session::new(Store::open(config)).and_then(|session| {
        let graph = onnx::read(model)?;
        session.prepare(&graph, mode.into())
    });
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            output.error(format_args!("{}: {error}", model.display()));
            return output.finish(Exit::Failed);
        }
    };
    output.data(format_args!("{} {}", styled(HEAD, "model"), prepared.key()));
    match prepared.plan() {
        Some((key, origin)) => {
            output.data(format_args!("{}  {key}  {origin}", styled(HEAD, "plan")));
        }
        None => output.data(format_args!(
            "{}  made for the shapes of each run: the model does not fix its inputs'",
            styled(HEAD, "plan")
        )),
    }
    for node in explain(&prepared, None) {
        output.data(format_args!("{}", node.label));
        for line in node.lines(&seen) {
            output.data(format_args!("    {line}"));
        }
    }
    output.finish(Exit::Ok)
}
