//! `cachelift run FILE.py`: a program of kernels.
//!
//! ```text
//!   file, arguments ──► Session ──► stdout is the program's own
//!                          └──────► stderr: what is wrong, the summary
//! ```

use std::io::{self, Read};

use super::Arguments;
use super::report::{KernelUnit, Report, Tally, Times, Unit};
use crate::cli::exit::Exit;
use crate::cli::output::{Output, micros_since};
use crate::config::Config;
use crate::kernel::{Error, Session, Used, on_deep_stack};
use crate::store::{Origin, Store};
use crate::sync;

/// Runs a program.
pub(super) fn run(arguments: &Arguments, config: Config, output: Output) -> Exit {
    let start = sync::now();
    // The program's own stdout, into which nothing of ours is mixed.
    let output = output.without_stdout();
    let colours = output.colours();
    // Host code may call itself as deep as Python allows.
    let done = on_deep_stack(|| run_here(arguments, config, colours));
    if let Some(message) = done.message {
        output.say(message);
    }
    report(done.used, done.exit, micros_since(start)).say(arguments.summary, &output);
    output.finish(done.exit)
}

/// What became of a program.
struct Done {
    exit: Exit,
    /// What is to be said of it.
    message: Option<String>,
    used: Vec<Used>,
}

fn run_here(arguments: &Arguments, config: Config, colours: bool) -> Done {
    let fail =
        |message: String| Done { exit: Exit::Failed, message: Some(message), used: Vec::new() };
    let mut session = match Session::new(Store::open(config)) {
        Ok(session) => session,
        Err(error) => return fail(error.render(colours)),
    };
    session.search(crate::cli::module_path());
    let (file, rest) = arguments.files.split_first().expect("one file is required");
    let own = file.display().to_string();
    let rest = rest.iter().map(|argument| argument.display().to_string());
    session.set_arguments(std::iter::once(own).chain(rest));

    let outcome = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            match io::stdin().read_to_string(&mut text) {
                Ok(_) => session.load_source("<stdin>", &text),
                Err(error) => return fail(format!("error: stdin: {error}")),
            }
        }
        false => session.run(file),
    };
    let outcome = outcome.and_then(|()| match &arguments.call {
        Some(call) => session.print_value_of(call),
        None => Ok(()),
    });
    let flushed = session.flush();
    session.finish();
    let (exit, message) = match (outcome, flushed) {
        (Err(Error::Exit(0)) | Ok(()), Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            (Exit::Failed, Some(format!("error: stdout: {error}")))
        }
        (Err(Error::Exit(0)) | Ok(()), _) => (Exit::Ok, None),
        (Err(Error::Exit(_)), _) => (Exit::Failed, None),
        (Err(error), _) => (Exit::Failed, Some(error.render(colours))),
    };
    let used = match arguments.summary {
        Some(_) => session.used(),
        None => Vec::new(),
    };
    // The process ends: what it holds need not be taken apart piece by piece.
    std::mem::forget(session);
    Done { exit, message, used }
}

/// The summary of a run that took `total` microseconds.
fn report(used: Vec<Used>, exit: Exit, total: u64) -> Report {
    let sum = |made: bool| {
        let units = used.iter().filter(|unit| (unit.origin == Origin::Made) == made);
        units.map(|unit| unit.us).sum::<u64>()
    };
    let (making, loading) = (sum(true), sum(false));
    let ok = exit == Exit::Ok;
    let tally = Tally { passed: usize::from(ok), failed: usize::from(!ok), skipped: 0 };
    let unit = |used: Used| Unit {
        name: used.name,
        signature: used.signature,
        origin: used.origin,
        us: used.us,
        note: used.why.clone(),
        kernel: Some(KernelUnit {
            ordinal: used.ordinal,
            question: used.question.name(),
            why: used.why,
        }),
    };
    let units = used.into_iter().map(unit).collect();
    Report::new(units, tally, Times::new(total, making, making + loading))
}
