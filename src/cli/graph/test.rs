//! `cachelift test`: runs models on the inputs that lie beside them, and compares the outputs.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::super::exit::Exit;
use super::super::output::Form;
use super::super::output::{BAD, Output, micros_since, styled};
use super::super::run::report::Tally;
use super::{Mode, compare};
use crate::config::Config;
use crate::graph::{GraphError, Model, Prepared, Session, Tensor, onnx};
use crate::store::Store;
use crate::sync;

/// Run ONNX models on the test data beside them
///
/// A case is a folder with `model.onnx` and folders `test_data_set_0`, `test_data_set_1`, ... of `input_0.pb`, ...,
/// `output_0.pb`, .... A folder of such folders stands for all of them. Outputs are compared as ONNX's own test runner
/// does: shapes, types, integers and truth values exactly, floating-point numbers within 1e-3 of the value and 1e-7. Cases that
/// fail are printed with the node that computed the output, with what was expected and what came; the last line counts
/// what passed, failed and was skipped. A case without test data is skipped.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// The folders
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// How the graphs are run
    #[arg(long, value_name = "MODE", default_value = "fused")]
    mode: Mode,

    /// Say on stderr what was compiled and what was loaded
    #[arg(long, value_name = "FORM")]
    summary: Option<Form>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    let start = sync::now();
    let mut tally = Tally::default();
    let mut cases = Vec::new();
    for folder in &arguments.folders {
        match find(folder) {
            Ok(found) => cases.extend(found),
            Err(error) => {
                tally.failed += 1;
                output.error(error);
            }
        }
    }
    let session = match Session::new(Store::open(config)) {
        Ok(session) => session,
        Err(error) => {
            output.error(error);
            return output.finish(Exit::Failed);
        }
    };
    let mut loading = 0;
    output.progress().begin("testing", Some(cases.len()));
    for case in &cases {
        let sets = data_sets(case);
        if sets.is_empty() {
            tally.skipped += 1;
            output.note(format_args!("{}: skipped: it has no test data", case.display()));
            continue;
        }
        let preparing = sync::now();
        let prepared = onnx::read(&case.join("model.onnx"))
            .and_then(|model| Ok((session.prepare(&model, arguments.mode.into())?, model)));
        loading += micros_since(preparing);
        let result = match &prepared {
            Ok((prepared, model)) => sets.iter().try_for_each(|set| check(prepared, model, set)),
            Err(error) => Err(error.to_string()),
        };
        match result {
            Ok(()) => tally.passed += 1,
            Err(reason) => {
                tally.failed += 1;
                let case = case.display();
                output.data(format_args!("{} {case}: {reason}", styled(BAD, "failed")));
            }
        }
        output.progress().step();
    }
    output.progress().clear();
    output.data(format_args!("{tally}"));
    let exit = if tally.failed > 0 { Exit::Failed } else { Exit::Ok };
    let report = super::report(&session, tally, micros_since(start), loading);
    report.say(arguments.summary, &output);
    output.finish(exit)
}

/// The cases that a folder stands for, in the order of their names.
fn find(folder: &Path) -> Result<Vec<PathBuf>, String> {
    if folder.join("model.onnx").is_file() {
        return Ok(vec![folder.to_path_buf()]);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join("model.onnx").is_file() {
            cases.push(path);
        }
    }
    cases.sort();
    match cases.is_empty() {
        true => Err(format!("{}: no model.onnx, and no folder with one", folder.display())),
        false => Ok(cases),
    }
}

/// A case's sets of test data, by number.
fn data_sets(case: &Path) -> Vec<PathBuf> {
    let sets = (0..).map(|number| case.join(format!("test_data_set_{number}")));
    sets.take_while(|path| path.is_dir()).collect()
}

/// Runs a model on a set of test data; says what is wrong.
fn check(prepared: &Prepared, model: &Model, set: &Path) -> Result<(), String> {
    let name = set.file_name().unwrap_or_default().to_string_lossy();
    let place = |reason: String| format!("{name}: {reason}");
    let inputs = tensors(set, "input").map_err(place)?;
    let expected = tensors(set, "output").map_err(place)?;
    let got = prepared.run(&inputs).map_err(|error: GraphError| place(error.to_string()))?;
    if got.len() != expected.len() {
        let (expected, got) = (expected.len(), got.len());
        return Err(place(format!("expected {expected} outputs, got {got}")));
    }
    for ((expected, got), output) in expected.iter().zip(&got).zip(prepared.outputs()) {
        if let Some(difference) = compare::difference(expected, got) {
            let node = maker(model, output);
            return Err(place(format!("{node}output \"{output}\": {difference}")));
        }
    }
    Ok(())
}

/// The node that computes an output, for a message.
fn maker(model: &Model, output: &str) -> String {
    let graph = &model.graph;
    let mut nodes = graph.nodes.iter();
    let node =
        nodes.find(|node| node.outputs.iter().flatten().any(|id| graph.name_of(*id) == output));
    match node {
        Some(node) if node.name.is_empty() => format!("node ({}): ", node.op_name()),
        Some(node) => format!("node \"{}\" ({}): ", node.name, node.op_name()),
        None => String::new(),
    }
}

/// `input_0.pb`, `input_1.pb`, ... of a set of test data.
fn tensors(set: &Path, what: &str) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    loop {
        let path = set.join(format!("{what}_{}.pb", tensors.len()));
        if !path.is_file() {
            return Ok(tensors);
        }
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = fs::read(&path).map_err(|error| failed(&error))?;
        tensors.push(onnx::decode_tensor(bytes).map_err(|error| failed(&error))?);
    }
}
