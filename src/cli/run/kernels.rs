//! `cachelift run FILE.py`: a program of kernels.
//!
//! ```text
//!   file, arguments ──► Session ──► stdout is the program's own
//!                          └──────► stderr: what is wrong, the summary
//! ```

use std::io::{self, Read, Write};

use super::report::{KernelUnit, Report, Tally, Times, Unit};
use super::{Arguments, Form};
use crate::cli::exit::Exit;
use crate::cli::output::{Output, micros_since};
use crate::config::Config;
use crate::kernel::{Error, Session, Used};
use crate::store::{Origin, Store};
use crate::sync;

/// Runs a program.
pub(super) fn run(arguments: &Arguments, config: Config, output: Output) -> Exit {
    let start = sync::now();
    let mut session = match Session::new(Store::open(config)) {
        Ok(session) => session,
        Err(error) => {
            output.error(&error);
            return Exit::Failed;
        }
    };
    session.search(crate::cli::module_path());
    // The program's own stdout, into which nothing of ours is mixed.
    let output = output.without_stdout();
    session.print_to(Box::new(io::BufWriter::new(io::stdout())));
    let (file, rest) = arguments.files.split_first().expect("one file is required");
    let own = file.display().to_string();
    let rest = rest.iter().map(|argument| argument.display().to_string());
    session.set_arguments(std::iter::once(own).chain(rest));

    let outcome = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            match io::stdin().read_to_string(&mut text) {
                Ok(_) => session.run_source("<stdin>", &text),
                Err(error) => Err(Error::Io(format!("stdin: {error}"))),
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

    let exit = match &outcome {
        Ok(()) | Err(Error::Exit(0)) => Exit::Ok,
        Err(Error::Exit(_)) => Exit::Failed,
        Err(error) => {
            output.say(error.render(output.colours()));
            Exit::Failed
        }
    };
    let exit = match flushed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            output.error(format_args!("stdout: {error}"));
            Exit::Failed
        }
        _ => exit,
    };
    if let Some(form) = arguments.summary {
        let report = report(session.used(), exit, micros_since(start));
        match form {
            Form::Human => output.say(report.human()),
            Form::Json => output.say(report.json()),
        }
    }
    let _ = io::stdout().flush();
    output.finish(exit)
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
