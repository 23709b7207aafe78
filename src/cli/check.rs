//! `cachelift check`: what is wrong with a program, without running it.
//!
//! ```text
//!   file, --sig ──► kernel::check ──► messages with carets on stderr, or JSON on stdout
//! ```

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Form, Output};
use crate::kernel::{Diagnostic, Report, check, on_deep_stack};

/// Say what is wrong with a program of kernels, without running it
///
/// Every file that imports can reach is read, and every error of syntax and every unsupported feature in them is told,
/// not only the first. Kernels are typed for the signatures in their decorators and for those of --sig, with all that
/// they call; a kernel without signatures has no types before it is called.
///
/// Of a module's body as much is evaluated as its names need: imports, functions and classes with their decorators,
/// assignments with the host functions that they call, `if`, and `try` around imports and definitions. The file is loaded
/// as a module, so what stands under `if __name__ == "__main__":` does not run; neither do calls for their effect, loops,
/// `raise`, `assert`, or any kernel, and no file is written. What only running the program would tell is not reported.
///
/// With --format json stdout has one object: `errors`, each with `file`, `line` and `column` (from 1; none where an error
/// has no place), `message`, and `hint`, what to write instead; how many `files` were read, and signatures `typed`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cachelift check main.py
  cachelift check shapes.py --sig 'area(int64, float64[:])' --format json")]
pub(super) struct Arguments {
    /// The program
    file: PathBuf,

    /// A kernel of the file and the types of its arguments, as Numba's decorators take them
    #[arg(long = "sig", value_name = "SIGNATURE")]
    signatures: Vec<String>,

    /// How errors are told
    #[arg(long, value_name = "FORM", default_value = "human")]
    format: Form,
}

/// What was found, as JSON: fields may come to be, none goes or changes.
#[derive(Serialize)]
struct Json {
    schema: u32,
    errors: Vec<Report>,
    files: usize,
    typed: usize,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, mut output: Output) -> Exit {
    let found =
        on_deep_stack(|| check(&arguments.file, super::module_path(), &arguments.signatures));
    let checked = match found {
        Ok(checked) => checked,
        Err(error) => {
            output.say(error.render(output.colours()));
            return output.finish(Exit::Failed);
        }
    };
    match arguments.format {
        Form::Json => {
            let json = Json {
                schema: 1,
                errors: checked.problems.iter().map(Diagnostic::report).collect(),
                files: checked.files,
                typed: checked.typed,
            };
            let text = serde_json::to_string_pretty(&json).expect("numbers and text alone");
            output.data(format_args!("{text}"));
        }
        Form::Human => {
            let colours = output.colours();
            for problem in &checked.problems {
                output.say(format_args!("{}\n", problem.render(colours)));
            }
            let plural = |count: usize, what: &str| match count {
                1 => format!("1 {what}"),
                count => format!("{count} {what}s"),
            };
            output.data(format_args!(
                "{} in {}; {} typed",
                plural(checked.problems.len(), "error"),
                plural(checked.files, "file"),
                plural(checked.typed, "signature"),
            ));
        }
    }
    output.finish(if checked.problems.is_empty() { Exit::Ok } else { Exit::Failed })
}
