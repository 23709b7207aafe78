//! `cachelift explain`: where the code of each kernel of a program, or of each node of a model, comes from, and why.

#[cfg(feature = "kernel")]
mod kernels;

use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
#[cfg(feature = "kernel")]
use super::output::Form;
use super::output::Output;
use crate::config::Config;

/// Say where the code of each kernel of a program, or of each node of an ONNX model, comes from, and why
///
/// A program is run as `cachelift run` does, but what it prints is thrown away and nothing is added to the cache: what is
/// made here would be made by the next run. For each function and signature one line says which of the three questions
/// found its code (direct: the files are in a known state; deep: the function and all that it can reach was seen before;
/// unit: its machine code was there although something it can reach has changed), or what differs from the nearest that
/// was seen under its name.
///
/// Of a model all that it takes is compiled or loaded. A node may need no kernel: it is a view, or its inputs are known;
/// a node that is lowered while the model runs has none before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cachelift explain main.py
  cachelift explain main.py minus --format json
  cachelift explain model.onnx --mode per-node")]
pub(super) struct Arguments {
    /// The program, or the model
    file: PathBuf,

    /// Only functions of this name
    #[cfg(feature = "kernel")]
    function: Option<String>,

    /// Arguments of the program
    #[cfg(feature = "kernel")]
    #[arg(last = true)]
    arguments: Vec<String>,

    /// How a program's kernels are told
    #[cfg(feature = "kernel")]
    #[arg(long, value_name = "FORM", default_value = "human")]
    format: Form,

    /// How the model is run
    #[cfg(feature = "graph")]
    #[arg(long, value_name = "MODE", default_value = "fused")]
    mode: super::graph::Mode,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, config: Config, output: Output) -> Exit {
    let is_model = arguments.file.extension().is_some_and(|extension| extension == "onnx");
    match is_model {
        #[cfg(feature = "graph")]
        true => super::graph::explain::run(&arguments.file, arguments.mode, config, output),
        #[cfg(not(feature = "graph"))]
        true => output.usage(&"ONNX models need a cachelift that was built with graphs"),
        #[cfg(feature = "kernel")]
        false => kernels::run(arguments, config, output),
        #[cfg(not(feature = "kernel"))]
        false => output.usage(&"kernel files need a cachelift that was built with kernels"),
    }
}
