//! `cachelift explain`: which question answers for each kernel of a program, or what stands in the way.
//!
//! ```text
//!   program ──run, its output thrown away, nothing published──► specialisations ──► table or JSON
//! ```

use std::io;

use serde::Serialize;

use super::Arguments;
use crate::cli::exit::Exit;
use crate::cli::output::Form;
use crate::cli::output::{GOOD, NOTE, Output, styled};
use crate::config::{Config, Mode};
use crate::kernel::{Error, Session, Used, on_deep_stack};
use crate::store::{Origin, Store};

/// One specialisation, as JSON has it. Stable: fields may come to be, none goes or changes.
#[derive(Serialize)]
struct Line {
    name: String,
    ordinal: u32,
    signature: String,
    /// The question that found its code; none if it must be compiled.
    answered: Option<&'static str>,
    why: String,
}

/// All of them as JSON: fields may come to be, none goes or changes.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    functions: &'a [Line],
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    let config = match config.mode {
        Mode::Off => config,
        _ => config.mode(Mode::ReadOnly),
    };
    let colours = output.colours();
    let (used, message) = on_deep_stack(|| run_here(arguments, config, colours));
    let failed = message.is_some();
    if let Some(message) = message {
        output.say(message);
    }
    let wanted = |used: &Used| match &arguments.function {
        Some(function) => used.name.rsplit(':').next() == Some(function),
        None => true,
    };
    let lines: Vec<_> = used.into_iter().filter(wanted).map(line).collect();
    match arguments.format {
        Form::Json => {
            let json = Json { schema: 1, functions: &lines };
            let text = serde_json::to_string_pretty(&json).expect("numbers and text alone");
            output.data(format_args!("{text}"));
        }
        Form::Human => {
            for line in &lines {
                let Line { name, ordinal, signature, answered, why } = line;
                let number = match ordinal {
                    1 => String::new(),
                    n => format!("#{n}"),
                };
                let answer = match answered {
                    Some(question) => styled(GOOD, question.to_string()),
                    None => styled(NOTE, "compile".to_owned()),
                };
                output.data(format_args!("{name}{number}{signature}\n    {answer}: {why}"));
            }
        }
    }
    output.finish(match (failed, lines.is_empty()) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::NoMatch,
        (false, false) => Exit::Ok,
    })
}

/// Runs the program; says how its kernels were had, and why it stopped if it did not end well.
fn run_here(arguments: &Arguments, config: Config, colours: bool) -> (Vec<Used>, Option<String>) {
    let mut session = match Session::new(Store::open(config)) {
        Ok(session) => session,
        Err(error) => return (Vec::new(), Some(error.render(colours))),
    };
    session.search(crate::cli::module_path());
    session.print_to(Box::new(io::sink()));
    let own = arguments.file.display().to_string();
    session.set_arguments(std::iter::once(own).chain(arguments.arguments.iter().cloned()));
    let message = match session.run(&arguments.file) {
        Ok(()) | Err(Error::Exit(0)) => None,
        Err(error) => Some(error.render(colours)),
    };
    (session.used(), message)
}

fn line(used: Used) -> Line {
    let answered = (used.origin != Origin::Made).then(|| used.question.name());
    let Used { name, ordinal, signature, why, .. } = used;
    Line { name, ordinal, signature, answered, why }
}
