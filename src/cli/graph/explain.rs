//! `cachelift explain`: what each node of a model needs, and where it would come from.

use std::path::PathBuf;

use clap::Args;

use super::super::exit::Exit;
use super::super::output::{HEAD, Output, styled};
use super::Mode;
use crate::config::Config;
use crate::graph::explain::explain;
use crate::graph::{Session, onnx};
use crate::store::Store;

/// Say of each node of an ONNX model which kernel it needs, and where that came from
///
/// Compiles or loads all that the model takes. A node may need no kernel: it is a view, or its inputs are known; a
/// node that is lowered while the model runs has none before.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// The model
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// How the graph is run
    #[arg(long, value_name = "MODE", default_value = "fused")]
    mode: Mode,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    let prepared = Session::new(Store::open(config)).and_then(|session| {
        let model = onnx::read(&arguments.model)?;
        session.prepare(&model, arguments.mode.into())
    });
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            output.error(format_args!("{}: {error}", arguments.model.display()));
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
    for node in explain(&prepared) {
        output.data(format_args!("{}", node.label));
        for line in node.lines() {
            output.data(format_args!("    {line}"));
        }
    }
    output.finish(Exit::Ok)
}
