//! Files of Cranelift's textual IR: functions to compile, and lines that say what calls of them return.
//!
//! ```text
//!   test run                              a file of tests may say so, for which targets, and how they are set;
//!   set opt_level=speed                   a file of functions alone is meant for this machine
//!   target x86_64
//!
//!   function %double(i32) -> i32 {        ─► functions, callees checked to be functions of the same file
//!       fn0 = %add(i32, i32) -> i32
//!   block0(v0: i32):
//!       v1 = call fn0(v0, v0)
//!       return v1
//!   }
//!   ; run: %double(2) == 4                ─► run lines
//! ```
//!
//! [`parse`] takes the text apart, and every mistake in it is one [`ClifError`] with its line. It knows
//! neither the store nor executable memory.

mod header;
mod lines;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::entities::AnyEntity;
use cranelift_codegen::ir::{ExternalName, Function, GlobalValueData, Inst, UserFuncName};
use cranelift_codegen::isa::CallConv;
use cranelift_reader::{Feature, ParseError, ParseOptions, SourceMap, parse_test};
use target_lexicon::Triple;

use super::error::VerifierError;
use super::program::Program;
pub use header::{ClifTarget, Targets};
use header::{Header, Unusable};
pub use lines::{Check, Reading, RunLine};

/// A mistake in a file, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClifError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl ClifError {
    fn at(line: usize, message: impl fmt::Display) -> Self {
        ClifError { line, message: message.to_string() }
    }
}

impl fmt::Display for ClifError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

impl std::error::Error for ClifError {}

impl From<ParseError> for ClifError {
    fn from(error: ParseError) -> Self {
        ClifError::at(error.location.line_number.max(1), error.message)
    }
}

/// What a file is.
#[derive(Debug)]
pub enum Clif {
    /// Functions to compile and run.
    File(ClifFile),
    /// Nothing for this command and this machine: the reason.
    Skip(String),
}

/// A file of functions and run lines.
#[derive(Debug)]
pub struct ClifFile {
    /// The functions in the order of the file.
    pub functions: Vec<ClifFunction>,
    /// The targets to compile for, at least one: the file is run for each.
    pub targets: Vec<Arc<ClifTarget>>,
    /// Why targets of this machine's architecture are left out.
    pub skipped: Vec<String>,
    /// The run lines in the order of the file.
    pub runs: Vec<RunLine>,
    /// What a reader of the file should know.
    pub notes: Vec<ClifError>,
}

/// A function of a file.
pub struct ClifFunction {
    /// Its name as the file spells it: `%add`, `u0:1`.
    pub name: String,
    /// The line of its first word.
    pub line: usize,
    /// Its body.
    pub function: Arc<Function>,
    /// Where its entities are.
    map: SourceMap,
}

impl fmt::Debug for ClifFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClifFunction({} at line {})", self.name, self.line)
    }
}

impl ClifFile {
    /// The functions as a program, to be loaded for any of the targets.
    ///
    /// # Panics
    ///
    /// Never for a file that [`parse`] took apart: its functions have names of their own.
    pub fn program(&self) -> Program {
        let mut program = Program::new();
        for ClifFunction { name, function, .. } in &self.functions {
            let declared = match &function.name {
                UserFuncName::User(user) => program.declare(user.clone(), name),
                UserFuncName::Testcase(_) => Ok(&mut program),
            };
            declared
                .and_then(|program| program.define_shared(link_name(name), Arc::clone(function)))
                .expect("checked before");
        }
        program
    }
}

impl ClifFunction {
    /// What the function is called in the file's [program](ClifFile::program).
    pub fn link_name(&self) -> &str {
        link_name(&self.name)
    }

    /// The signature as people read it: `(i32, i32) -> i32`.
    pub fn types(&self) -> String {
        lines::types_of(&self.function.signature)
    }

    /// The first of the verifier's errors, with the line it is about.
    pub fn verifier_error(&self, errors: &[VerifierError]) -> Option<ClifError> {
        let first = errors.first()?;
        let line = self.line_of(&first.place).unwrap_or(self.line);
        let context = match &first.instruction {
            Some(instruction) => format!(" ({})", instruction.trim()),
            None => String::new(),
        };
        let others = match errors.len() {
            1 => String::new(),
            n => format!(", and {} more", n - 1),
        };
        let message = format!("{}: {}{context}{others}", self.name, first.message);
        Some(ClifError { line, message })
    }

    /// The line of an entity by its name: `inst3`, `v7`.
    fn line_of(&self, name: &str) -> Option<usize> {
        let entity = match name.strip_prefix("inst") {
            Some(number) => AnyEntity::Inst(Inst::from_u32(number.parse().ok()?)),
            None => self.map.lookup_str(name)?,
        };
        // The reader places declarations where the next one begins.
        let exact =
            matches!(entity, AnyEntity::Inst(_) | AnyEntity::Value(_) | AnyEntity::Block(_));
        Some(self.map.location(entity).filter(|_| exact)?.line_number)
    }

    /// Whether the file has this entity, or the reader made it up to fill a gap in the numbers.
    fn declares(&self, entity: AnyEntity) -> bool {
        self.map.location(entity).is_some()
    }

    /// The line of `text` that declares `entity` of this function: `fn0 = ..`.
    fn declaration(&self, text: &str, entity: AnyEntity) -> usize {
        let name = entity.to_string();
        let declares = |line: &str| {
            line.trim_start()
                .strip_prefix(&name)
                .is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        text.lines()
            .zip(1..)
            .skip(self.line - 1)
            .find_map(|(line, number)| declares(line).then_some(number))
            .unwrap_or(self.line)
    }
}

fn link_name(name: &str) -> &str {
    name.strip_prefix('%').unwrap_or(name)
}

/// What is done with a file's text beside reading it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Declares the functions last to first, to show that keys do not depend on their order.
    pub reversed: bool,
}

/// Takes the text of a file apart. Targets are made by `targets`, which files share.
pub fn parse(text: &str, targets: &mut Targets, options: Options) -> Result<Clif, ClifError> {
    let header = Header::read(text)?;
    let is_test = !header.commands.is_empty();
    let is_run = |command: &&str| command.split_whitespace().next() == Some("run");
    if is_test && !header.commands.iter().any(is_run) {
        return Ok(Clif::Skip(format!(
            "`test {}`, not `test run`",
            header.commands.join("`, `test ")
        )));
    }
    if header.targets.is_empty() && !header.foreign.is_empty() {
        return Ok(Clif::Skip(format!("only for {}", header.foreign.join(", "))));
    }

    // Without `test run` the reader takes the convention from here, else it takes the host's itself.
    let default_calling_convention = CallConv::triple_default(&Triple::host());
    let parse_options = ParseOptions { default_calling_convention, ..ParseOptions::default() };
    // The reader is not meant for text from anywhere, and has assertions.
    let parsed = catch_unwind(AssertUnwindSafe(|| parse_test(&header.text, parse_options)))
        .map_err(|panic| ClifError::at(1, format!("the reader gave up: {}", said(&*panic))))??;
    if let Some(feature) = parsed.features.first() {
        let (Feature::With(name) | Feature::Without(name)) = feature;
        return Ok(Clif::Skip(format!("asks about the feature {name:?} of Cranelift")));
    }
    if parsed.functions.is_empty() {
        let what =
            if text.trim().is_empty() { "the file is empty" } else { "no function in this file" };
        return Err(ClifError::at(1, what));
    }

    let comments = parsed.preamble_comments.iter().map(|comment| (None, comment.text));
    let above = parsed.functions.iter().enumerate();
    let comments: Vec<_> = comments
        .chain(above.flat_map(|(at, (_, details))| {
            details.comments.iter().map(move |comment| (Some(at), comment.text))
        }))
        .filter_map(|(above, comment)| {
            let at = comment.as_ptr().addr() - header.text.as_ptr().addr();
            Some((above, at, lines::run_text(comment)?))
        })
        .collect();
    let mut functions: Vec<_> = parsed
        .functions
        .into_iter()
        .map(|(function, details)| ClifFunction {
            name: function.name.to_string(),
            line: details.location.line_number,
            function: Arc::new(function),
            map: details.map,
        })
        .collect();

    let mut notes = Vec::new();
    let mut line_counter = LineCounter::new(&header.text);
    let mut runs = Vec::new();
    for (above, at, text) in comments {
        let line = line_counter.line(at);
        runs.push(run_line(&functions, above, line, text, is_test, &mut notes)?);
    }

    if let Some(reason) = check_names(&functions, &header.text)? {
        return Ok(Clif::Skip(reason));
    }
    if options.reversed {
        functions.reverse();
        for reading in runs.iter_mut().flat_map(|run| &mut run.readings) {
            reading.function = functions.len() - 1 - reading.function;
        }
    }

    let mut usable = Vec::new();
    let mut skipped = Vec::new();
    let mut add = |target| {
        match target {
            Ok(target) => usable.push(target),
            Err(Unusable::Skip(reason)) => skipped.push(reason),
            Err(Unusable::Error(error)) => return Err(error),
        }
        Ok(())
    };
    if header.targets.is_empty() {
        add(targets.get(None, &header.settings))?;
    }
    for line in &header.targets {
        add(targets.get(Some(line.target), &line.settings))?;
    }
    Ok(Clif::File(ClifFile { functions, targets: usable, skipped, runs, notes }))
}

/// The function and the arguments of a call such as `%f(3, 4)`, the `%` of which may be left out.
pub fn parse_call(
    functions: &[ClifFunction],
    call: &str,
) -> Result<(usize, Vec<DataValue>), CallError> {
    let call = call.trim();
    let wrong = || CallError::Syntax("expected a call such as `%f(3, 4)`".into());
    let (name, rest) = call.split_once('(').ok_or_else(wrong)?;
    let (arguments, rest) = lines::closing(rest).ok_or_else(wrong)?;
    let name = name.trim_end();
    if name.is_empty() || !rest.trim().is_empty() {
        return Err(wrong());
    }
    let function = functions
        .iter()
        .position(|function| function.name == name)
        .or_else(|| functions.iter().position(|f| f.link_name() == name))
        .ok_or(CallError::Unknown)?;
    let target = &functions[function];
    let arguments = lines::arguments_of(arguments, &target.function.signature, &target.name)
        .map_err(CallError::Syntax)?;
    Ok((function, arguments))
}

/// Why a call cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No such function is in the file.
    Unknown,
    /// It is not written as a call, or its arguments do not fit.
    Syntax(String),
}

/// Reads one run line; `above` is the function it stands below, if any.
fn run_line(
    functions: &[ClifFunction],
    above: Option<usize>,
    line: usize,
    text: &str,
    is_test: bool,
    notes: &mut Vec<ClifError>,
) -> Result<RunLine, ClifError> {
    let named = lines::called_name(text).filter(|name| !name.is_empty());
    let by_name = named.and_then(|name| {
        // Nearly always the function above.
        let is = |at: &usize| functions[*at].link_name() == name;
        above.filter(is).or_else(|| (0..functions.len()).find(is))
    });
    let read = |at: usize| {
        let ClifFunction { name, function, .. } = &functions[at];
        lines::parse(text, &function.signature, name)
            .map(|(arguments, check)| Reading { function: at, arguments, check })
            .map_err(|message| ClifError { line, message })
    };
    let readings = match (by_name, above) {
        (Some(named), Some(above)) if named != above => {
            let names = format!("names {}", functions[named].name);
            notes.push(ClifError::at(
                line,
                format!("the line {names} but stands below {}", functions[above].name),
            ));
            match (read(named), read(above)) {
                (Err(error), Err(_)) => return Err(error),
                (named, above) => [named, above].into_iter().flatten().collect(),
            }
        }
        (Some(named), _) => vec![read(named)?],
        (None, Some(above)) => {
            if let Some(name) = named {
                let message = format!("no function %{name} in this file");
                // Cranelift's own runner does not mind the name.
                if !is_test {
                    return Err(ClifError { line, message });
                }
                let below = &functions[above].name;
                notes
                    .push(ClifError::at(line, format!("{message}; the line stands below {below}")));
            }
            vec![read(above)?]
        }
        (None, None) => {
            let message = match named {
                Some(name) => format!("no function %{name} in this file"),
                None => "no function stands above this run line".into(),
            };
            return Err(ClifError { line, message });
        }
    };
    Ok(RunLine { line, readings })
}

/// Checks that functions have names of their own, and refer to nothing but each other. Returns a reason to
/// skip the file if it calls what only Cranelift's own runner has.
fn check_names(functions: &[ClifFunction], text: &str) -> Result<Option<String>, ClifError> {
    let mut lines = HashMap::with_capacity(functions.len());
    for function in functions {
        if let Some(first) = lines.insert(&function.function.name, function.line) {
            let message =
                format!("{} is defined twice; the first is at line {first}", function.name);
            return Err(ClifError::at(function.line, message));
        }
    }
    for function in functions {
        let params = &function.function.params;
        let callees = function.function.dfg.ext_funcs.iter();
        let mut names: Vec<_> =
            callees.map(|(at, callee)| (AnyEntity::FuncRef(at), &callee.name)).collect();
        for (at, value) in &function.function.global_values {
            let GlobalValueData::Symbol { name, tls, .. } = value else { continue };
            if *tls {
                let line = function.declaration(text, at.into());
                return Err(ClifError::at(line, format!("{at}: thread-local symbols do not work")));
            }
            names.push((at.into(), name));
        }
        for (entity, name) in names {
            let defined = match name {
                ExternalName::LibCall(_) => true,
                ExternalName::TestCase(name) => {
                    if name.raw().starts_with(b"__cranelift_") {
                        let reason = format!("calls {name}, which only Cranelift's own runner has");
                        return Ok(Some(reason));
                    }
                    // A number that the file leaves out has a placeholder, which nothing can use.
                    let made_up = name.raw().is_empty() && !function.declares(entity);
                    made_up || lines.contains_key(&UserFuncName::Testcase(name.clone()))
                }
                ExternalName::User(reference) => match params.user_named_funcs().get(*reference) {
                    Some(name) => lines.contains_key(&UserFuncName::User(name.clone())),
                    None => {
                        let message = format!("{entity}: {reference} is not declared");
                        return Err(ClifError::at(function.declaration(text, entity), message));
                    }
                },
                ExternalName::KnownSymbol(_) => false,
            };
            if !defined {
                let name = name.display(Some(params));
                let message = format!("{entity}: no function {name} in this file");
                return Err(ClifError::at(function.declaration(text, entity), message));
            }
        }
    }
    Ok(None)
}

/// Counts lines up to offsets that grow.
struct LineCounter<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> LineCounter<'a> {
    fn new(text: &'a str) -> Self {
        LineCounter { text, at: 0, line: 1 }
    }

    fn line(&mut self, at: usize) -> usize {
        if at < self.at {
            *self = LineCounter::new(self.text);
        }
        self.line +=
            self.text.as_bytes()[self.at..at].iter().filter(|byte| **byte == b'\n').count();
        self.at = at;
        self.line
    }
}

/// What a panic said.
pub(crate) fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

#[cfg(test)]
mod tests;
