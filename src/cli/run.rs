//! `cachelift run`: compiles or loads the functions of CLIF files, and calls them; runs kernel files ([`kernels`]).
//!
//! ```text
//!   paths ──read, parse──► files ──× targets──► programs ──one go through the store──► loaded
//!                            │ mistakes                         │ of this and every other process
//!                            ▼                                  ▼
//!                          failed                    run lines: passed, failed
//! ```
//!
//! All files are read before anything is compiled, so that processes that start together find all the work
//! there is to share, and share it function by function, not file by file.

#[cfg(feature = "kernel")]
mod kernels;
pub(super) mod report;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io, mem};

use clap::Args;
use cranelift_codegen::data_value::{DataValue, DisplayDataValues, write_data_value_list};
use cranelift_codegen::ir::TrapCode;

use super::exit::Exit;
use super::output::{BAD, Form, Output, Progress, micros_since, styled};
use crate::code::clif::{
    self, CallError, Check, Clif, ClifError, ClifFile, ClifTarget, Reading, RunLine, Targets,
};
use crate::code::guard::FaultKind;
use crate::code::{CodeError, Engine, Loaded, Options};
use crate::config::Config;
use crate::store::Store;
use crate::sync::{self, Arc};
use report::{Report, Tally, Times, Unit};

/// Run a program of kernels (.py), or files of Cranelift's textual IR (.clif)
///
/// A program is run as Python would run it: FILE.py, then its arguments; `-` reads it from stdin. Its kernels are
/// compiled, or loaded if this or another process compiled them before. What it prints is all that goes to stdout.
/// Modules are looked for beside the file, then in the folders of CACHELIFT_PATH.
///
/// Of CLIF files every function is compiled or loaded, then each `; run:` line is run. Lines that do not hold are printed with what was expected and what came; the last
/// line counts what passed, failed and was skipped.
///
/// A file may have the header of Cranelift's own tests: it is run for each `target` line of this machine's
/// architecture, with the `set` lines above it. A target that needs a CPU feature which this CPU lacks is
/// skipped, and so is a file that has no `test run` among its `test` lines. Without a header a file is for
/// this machine as it is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// A program and its arguments, or CLIF files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Call one function and print what it returns, in place of running the files' lines
    ///
    /// Of a program it is a Python expression: `f(3, 2.5)`. Its value is printed as Python shows it.
    ///
    /// Of CLIF, values are written as there: 7, -0x1f, 0x1.8p0, [1 2 3 4]. Floating-point numbers may be decimal.
    /// The first of the files that has the function is used, for its first target.
    #[arg(long, value_name = "CALL")]
    call: Option<String>,

    /// Say on stderr what was compiled and what was loaded
    ///
    /// `json` writes one object as the last line of stderr. It counts the functions of the files; what the
    /// command compiles to call them is not among them.
    #[arg(long, value_name = "FORM")]
    summary: Option<Form>,

    /// Keep the CLIF of what is compiled, for `cachelift inspect`
    #[arg(long)]
    keep_ir: bool,

    /// How an ONNX model is run
    #[cfg(feature = "graph")]
    #[arg(long, value_name = "MODE", default_value = "fused")]
    mode: super::graph::Mode,

    /// An input of an ONNX model, from a file of NumPy's
    #[cfg(feature = "graph")]
    #[arg(long = "input", value_name = "NAME=FILE")]
    inputs: Vec<String>,

    /// Where an ONNX model's outputs are written, each as NAME.npy; without it they are printed
    #[cfg(feature = "graph")]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// Declare the functions of each file last to first. Nothing may depend on it
    #[arg(long, hide = true)]
    declare_in_reverse: bool,
}

const EXAMPLES: &str = "\
Examples:
  cachelift run main.py 100
  cachelift run --call 'area(3, 2.5)' shapes.py
  cachelift run add.clif
  cachelift run --call '%add(3, 4)' add.clif
  cachelift run --summary json tests/*.clif

A CLIF file:
  function %add(i32, i32) -> i32 {
  block0(v0: i32, v1: i32):
      v2 = iadd v0, v1
      return v2
  }
  ; run: %add(1, 2) == 3";

/// Runs the command.
pub(super) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    #[cfg(feature = "graph")]
    if let [model] = &arguments.files[..]
        && model.extension().is_some_and(|extension| extension == "onnx")
    {
        let arguments = super::graph::run::Arguments {
            model,
            mode: arguments.mode,
            inputs: &arguments.inputs,
            output_dir: arguments.output_dir.as_deref(),
            summary: arguments.summary,
        };
        return super::graph::run::run(&arguments, config, output);
    }
    let is_program = |file: &Path| {
        file.as_os_str() == "-" || file.extension().is_some_and(|extension| extension == "py")
    };
    let is_clif = |file: &Path| file.extension().is_some_and(|extension| extension == "clif");
    let (first, rest) = arguments.files.split_first().expect("one file is required");
    let other = match is_program(first) {
        true => rest.iter().find(|file| is_clif(file)),
        false => rest.iter().find(|file| is_program(file)),
    };
    if let Some(other) = other {
        return output.usage(&format_args!(
            "{} and {}: run a program by itself, and CLIF files by themselves",
            first.display(),
            other.display()
        ));
    }
    if is_program(first) {
        #[cfg(feature = "kernel")]
        return kernels::run(arguments, config, output);
        #[cfg(not(feature = "kernel"))]
        return output.usage(&"kernel files need a cachelift that was built with them");
    }
    let start = sync::now();
    let mut tally = Tally::default();
    let mut files = read_files(arguments, &mut output, &mut tally);

    let call = match &arguments.call {
        None => None,
        Some(text) => match find_call(text, &mut files) {
            Ok(call) => Some(call),
            Err(message) => {
                output.error(format_args!("--call {text}: {message}"));
                // A file that could not be read may have had the function.
                return output.finish(match tally.failed {
                    0 => Exit::Usage,
                    _ => Exit::Failed,
                });
            }
        },
    };

    let loading = sync::now();
    let loads = load(&files, Store::open(config), arguments, call.is_some(), output.progress());
    let loading = micros_since(loading);
    let mut units = Vec::new();
    let mut making = 0;
    for load in &loads {
        if let Ok(loaded) = &load.result {
            making += loaded.got().iter().map(|got| got.micros).sum::<u64>();
            let functions = &files[load.file].clif.functions;
            // What was added to call them comes behind them, and is not told.
            units.extend(functions.iter().zip(loaded.got()).map(|(function, got)| Unit {
                name: function.name.clone(),
                signature: function.types(),
                origin: got.origin,
                us: got.micros,
                note: got.key.to_string(),
                kernel: None,
            }));
        }
    }

    match &call {
        Some(call) => run_call(&files[0], loads.first(), call, &mut output, &mut tally),
        None => run_lines(&files, &loads, &mut output, &mut tally),
    }

    output.progress().clear();
    if call.is_none() {
        output.data(format_args!("{tally}"));
    }
    let exit = if tally.failed > 0 { Exit::Failed } else { Exit::Ok };
    let report = Report::new(units, tally, Times::new(micros_since(start), making, loading));
    report.say(arguments.summary, &output);
    // The process ends: to free all of it piece by piece would take as long as to load it took. The store
    // is closed when the engines go.
    mem::forget((files, loads.into_iter().map(|load| load.result).collect::<Vec<_>>()));
    output.finish(exit)
}

/// A file that can be run.
struct File<'a> {
    path: &'a Path,
    clif: ClifFile,
}

impl File<'_> {
    /// `path:line`, of a line of this file.
    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

/// Reads the files; says what is wrong with those that cannot be run.
fn read_files<'a>(
    arguments: &'a Arguments,
    output: &mut Output,
    tally: &mut Tally,
) -> Vec<File<'a>> {
    let options = clif::Options { reversed: arguments.declare_in_reverse };
    let mut targets = Targets::default();
    let mut files = Vec::with_capacity(arguments.files.len());
    output.progress().begin("reading", Some(arguments.files.len()));
    for path in &arguments.files {
        match read(path).and_then(|text| {
            clif::parse(&text, &mut targets, options).map_err(|error| place(path, &error))
        }) {
            Err(error) => {
                tally.failed += 1;
                output.error(error);
            }
            Ok(Clif::Skip(reason)) => {
                tally.skipped += 1;
                output.note(format_args!("{}: skipped: {reason}", path.display()));
            }
            Ok(Clif::File(clif)) => {
                for note in &clif.notes {
                    output.note(place(path, note));
                }
                for reason in &clif.skipped {
                    tally.skipped += 1;
                    output.note(format_args!("{}: skipped: {reason}", path.display()));
                }
                files.push(File { path, clif });
            }
        }
        output.progress().step();
    }
    files
}

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => {
            let files = path.join("*.clif");
            format!("{shown}: is a directory; name the files in it, such as {}", files.display())
        }
        _ => format!("{shown}: {error}"),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count();
        format!("{shown}:{line}: not CLIF: byte {valid} of the file is not UTF-8 text")
    })
}

fn place(path: &Path, error: &ClifError) -> String {
    format!("{}:{error}", path.display())
}

/// A file's functions, loaded for one of its targets.
struct Load {
    /// Which file.
    file: usize,
    /// Which of its targets.
    target: Arc<ClifTarget>,
    engine: Engine,
    result: Result<Loaded, CodeError>,
}

/// Loads all files for all of their targets, in one go through the store.
fn load(
    files: &[File<'_>],
    store: Store,
    arguments: &Arguments,
    first_only: bool,
    progress: &mut Progress,
) -> Vec<Load> {
    let options = Options { keep_source: arguments.keep_ir, keep_parts: arguments.keep_ir };
    let mut engines = HashMap::new();
    let mut places = Vec::new();
    let mut jobs = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let targets = match first_only {
            true => &file.clif.targets[..file.clif.targets.len().min(1)],
            false => &file.clif.targets[..],
        };
        for target in targets {
            let engine = engines.entry(Arc::as_ptr(target)).or_insert_with(|| {
                Engine::with_options(store.clone(), target.target.clone(), options)
            });
            let mut program = file.clif.program();
            program.callable();
            jobs.push((engine.clone(), program));
            places.push((at, Arc::clone(target), engine.clone()));
        }
    }
    progress.begin("compiled", None);
    let results = Engine::load_each_watched(jobs, || progress.step());
    let load = |((file, target, engine), result)| Load { file, target, engine, result };
    places.into_iter().zip(results).map(load).collect()
}

/// Runs the run lines of every file for every target that it was loaded for.
fn run_lines(files: &[File<'_>], loads: &[Load], output: &mut Output, tally: &mut Tally) {
    output.progress().begin("running", Some(loads.len()));
    let mut failed = None;
    for load in loads {
        let file = &files[load.file];
        match &load.result {
            Ok(loaded) => {
                for line in &file.clif.runs {
                    match run_line(file, load, loaded, line, output) {
                        Ok(()) => tally.passed += 1,
                        Err(what) => {
                            tally.failed += 1;
                            let target = match load.target.name.as_str() {
                                "" => String::new(),
                                name => format!(" (target {name})"),
                            };
                            let at = file.at(line.line);
                            output.data(format_args!(
                                "{at}: {} {what}{target}",
                                styled(BAD, "failed:")
                            ));
                        }
                    }
                }
            }
            // One mistake is one error, for however many targets it was made.
            Err(_) if failed == Some(load.file) => {}
            Err(error) => {
                failed = Some(load.file);
                tally.failed += 1;
                output.error(compile_error(file, error));
            }
        }
        output.progress().step();
    }
}

/// Runs a line: in the first of its readings that holds, if any does.
fn run_line(
    file: &File<'_>,
    load: &Load,
    loaded: &Loaded,
    line: &RunLine,
    output: &mut Output,
) -> Result<(), String> {
    let mut first = None;
    for reading in &line.readings {
        match run_reading(file, load, loaded, reading, output) {
            Ok(()) => return Ok(()),
            Err(what) => first = first.or(Some(what)),
        }
    }
    Err(first.unwrap_or_default())
}

fn run_reading(
    file: &File<'_>,
    load: &Load,
    loaded: &Loaded,
    reading: &Reading,
    output: &mut Output,
) -> Result<(), String> {
    let function = &file.clif.functions[reading.function];
    let called = || format!("{}({})", function.name, list(&reading.arguments));
    let values = call(load, loaded, function.link_name(), &reading.arguments)
        .map_err(|what| format!("{}: {what}", called()))?;
    if reading.check.holds(&values) {
        if let Check::Print = reading.check {
            output.data(format_args!("{} -> {}", called(), DisplayDataValues(&values)));
        }
        return Ok(());
    }
    let expected = match &reading.check {
        Check::Equal(these) => DisplayDataValues(these).to_string(),
        Check::NotEqual(these) => format!("anything but {}", DisplayDataValues(these)),
        Check::NonZero => "anything but 0".into(),
        Check::Print => String::new(),
    };
    Err(format!("{}: expected {expected}, got {}", called(), DisplayDataValues(&values)))
}

/// Calls a function; what it returned, or why it did not.
fn call(
    load: &Load,
    loaded: &Loaded,
    name: &str,
    arguments: &[DataValue],
) -> Result<Vec<DataValue>, String> {
    // SAFETY: the user asks for this code to be run, as for any program. It refers to its own functions and
    // the library's routines alone, which take no locks and do not unwind.
    let outcome = unsafe { loaded.call_guarded(name, arguments) };
    let fault = match outcome {
        Ok(Ok(values)) => return Ok(values),
        Ok(Err(fault)) => fault,
        Err(error) => return Err(error.to_string()),
    };
    let trap = load.engine.find_trap(fault.instruction);
    let Some(trap) = trap.filter(|_| fault.kind != FaultKind::StackOverflow) else {
        return Err(fault.kind.to_string());
    };
    let mut what = format!("trap {}", trap.code);
    if let Some(words) = trap_words(trap.code) {
        what += &format!(" ({words})");
    }
    if let FaultKind::Address(Some(address)) = fault.kind {
        what += &format!(" at address {address:#x}");
    }
    if trap.function != name {
        what += &format!(" in %{}", trap.function);
    }
    Err(what)
}

/// What a trap code means, for those that do not say it themselves.
fn trap_words(code: TrapCode) -> Option<&'static str> {
    Some(match code {
        TrapCode::STACK_OVERFLOW => "stack overflow",
        TrapCode::INTEGER_OVERFLOW => "integer overflow",
        TrapCode::HEAP_OUT_OF_BOUNDS => "memory access out of bounds",
        TrapCode::INTEGER_DIVISION_BY_ZERO => "division by zero",
        TrapCode::BAD_CONVERSION_TO_INTEGER => "no such integer",
        _ => return None,
    })
}

/// Finds the function that `--call` names, and leaves only its file.
fn find_call(text: &str, files: &mut Vec<File<'_>>) -> Result<(usize, Vec<DataValue>), String> {
    let mut names = Vec::new();
    for at in 0..files.len() {
        let functions = &files[at].clif.functions;
        match clif::parse_call(functions, text) {
            Ok(call) => {
                files.swap(0, at);
                files.truncate(1);
                return Ok(call);
            }
            Err(CallError::Syntax(message)) => return Err(message),
            Err(CallError::Unknown) => names.extend(functions.iter().map(|f| f.name.clone())),
        }
    }
    const SHOWN: usize = 10;
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    names.truncate(SHOWN);
    Err(match names.is_empty() {
        true => "no file to call it in".into(),
        false => format!("no such function; there is {}{more}", names.join(", ")),
    })
}

/// Runs the call that `--call` asks for, and prints what it returns.
fn run_call(
    file: &File<'_>,
    load: Option<&Load>,
    (function, arguments): &(usize, Vec<DataValue>),
    output: &mut Output,
    tally: &mut Tally,
) {
    let function = &file.clif.functions[*function];
    let outcome = match load {
        None => Err(format!("{}: no target of it can be run here", file.path.display())),
        Some(load) => match &load.result {
            Err(error) => Err(compile_error(file, error)),
            Ok(loaded) => call(load, loaded, function.link_name(), arguments).map_err(|what| {
                format!(
                    "{}: {}({}): {what}",
                    file.at(function.line),
                    function.name,
                    list(arguments)
                )
            }),
        },
    };
    match outcome {
        Ok(values) => output.data(format_args!("{}", DisplayDataValues(&values))),
        Err(error) => {
            tally.failed += 1;
            output.error(error);
        }
    }
}

/// Why a file's functions could not be compiled or linked, with the place in the file.
fn compile_error(file: &File<'_>, error: &CodeError) -> String {
    let (name, reason) = match error {
        CodeError::Verifier { function, .. } => (function, error.to_string()),
        CodeError::Unsupported { function, reason } => (function, reason.clone()),
        CodeError::Panicked { function, message } => {
            (function, format!("the compiler gave up: {message}"))
        }
        CodeError::Undefined { function, callee } => (function, format!("{callee} is not defined")),
        CodeError::MissingLibcall { function, libcall } => {
            (function, format!("the library routine {libcall} is missing here"))
        }
        CodeError::Relocation { function, callee, reason } => {
            (function, format!("cannot link {callee}: {reason}"))
        }
        _ => return format!("{}: {error}", file.path.display()),
    };
    // What calls a function of a signature is named by the signature.
    let convention = name.strip_prefix("call ");
    let Some(function) = file.clif.functions.iter().find(|function| {
        let is = |signature| function.function.signature.to_string() == signature;
        function.link_name() == name || convention.is_some_and(is)
    }) else {
        return format!("{}: {error}", file.path.display());
    };
    if let CodeError::Verifier { errors, .. } = error
        && let Some(error) = function.verifier_error(errors)
    {
        return place(file.path, &error);
    }
    let name = &function.name;
    match convention {
        None => format!("{}: {name}: {reason}", file.at(function.line)),
        Some(_) => format!("{}: {name} cannot be called: {reason}", file.at(function.line)),
    }
}

/// Values as the arguments of a call.
fn list(values: &[DataValue]) -> impl fmt::Display {
    fmt::from_fn(move |f| write_data_value_list(f, values))
}
