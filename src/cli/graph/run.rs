//! `cachelift run model.onnx`: runs a model on NumPy files.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::exit::Exit;
use super::super::output::Form;
use super::super::output::{Output, micros_since};
use super::super::run::report::Tally;
use super::{Mode, npy};
use crate::config::Config;
use crate::graph::{Session, Tensor, onnx};
use crate::store::Store;
use crate::sync;

/// What of `run`'s arguments is for models.
pub(in crate::cli) struct Arguments<'a> {
    pub(in crate::cli) model: &'a Path,
    pub(in crate::cli) mode: Mode,
    /// `NAME=FILE` each.
    pub(in crate::cli) inputs: &'a [String],
    pub(in crate::cli) output_dir: Option<&'a Path>,
    pub(in crate::cli) summary: Option<Form>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments<'_>, config: Config, mut output: Output) -> Exit {
    let start = sync::now();
    let mut inputs = Vec::new();
    for input in arguments.inputs {
        let Some((name, path)) = input.split_once('=') else {
            let message = format!("--input {input}: expected NAME=FILE.npy");
            return output.usage(&message);
        };
        match npy::read(Path::new(path)) {
            Ok(tensor) => inputs.push((name, tensor)),
            Err(error) => {
                output.error(error);
                return output.finish(Exit::Failed);
            }
        }
    }
    let loading = sync::now();
    let result = Session::new(Store::open(config)).and_then(|session| {
        let model = onnx::read(arguments.model)?;
        Ok((session.prepare(&model, arguments.mode.into())?, session))
    });
    let loading = micros_since(loading);
    let (prepared, session) = match result {
        Ok(prepared) => prepared,
        Err(error) => {
            output.error(format_args!("{}: {error}", arguments.model.display()));
            return output.finish(Exit::Failed);
        }
    };
    let mut tally = Tally::default();
    let written = prepared
        .run_named(&inputs)
        .map_err(|error| error.to_string())
        .and_then(|outputs| write(&mut output, arguments, prepared.outputs(), &outputs));
    match written {
        Ok(()) => tally.passed += 1,
        Err(error) => {
            tally.failed += 1;
            output.error(format_args!("{}: {error}", arguments.model.display()));
        }
    }
    let exit = if tally.failed > 0 { Exit::Failed } else { Exit::Ok };
    let report = super::report(&session, tally, micros_since(start), loading);
    report.say(arguments.summary, &output);
    output.finish(exit)
}

/// Writes each output to a file of its name, and says which.
fn write(
    output: &mut Output,
    arguments: &Arguments<'_>,
    names: &[String],
    tensors: &[Tensor],
) -> Result<(), String> {
    let Some(folder) = arguments.output_dir else {
        for (name, tensor) in names.iter().zip(tensors) {
            output.data(format_args!("{name}: {tensor:?}"));
        }
        return Ok(());
    };
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (place, (name, tensor)) in names.iter().zip(tensors).enumerate() {
        let path = folder.join(file_name(name, place));
        npy::write(&path, tensor)?;
        output.data(format_args!(
            "{name}: {}{:?} {}",
            tensor.element(),
            tensor.dims(),
            path.display()
        ));
    }
    Ok(())
}

/// A name from a model may be anything, such as a path.
fn file_name(name: &str, place: usize) -> PathBuf {
    let plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let safe: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    match safe.trim_start_matches('.') {
        "" => format!("output_{place}.npy").into(),
        safe => format!("{safe}.npy").into(),
    }
}
