//! The lines before the first function: what kind of test a file is, and for which targets it is meant.
//!
//! ```text
//!   test run                    ─► commands
//!   set opt_level=speed         ─┐
//!   target x86_64 has_avx       ─┴► a target with the `set` lines above it (they add up)
//!   target aarch64              ─► another machine's: left out
//! ```
//!
//! These lines are read here and blanked before Cranelift's reader sees the text, because the reader
//! refuses `set` lines whose targets its build does not have, and because building an ISA per file costs
//! more than reading most files: equal lines share one ISA ([`Targets`]).

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use cranelift_codegen::settings::{self, Configurable};
use cranelift_reader::{Location, ParseError, parse_options};
use target_lexicon::Triple;

use super::ClifError;
use crate::code::{CodeError, Target};

/// The lines before the first function, apart from comments.
#[derive(Debug, Default)]
pub(super) struct Header<'a> {
    /// What follows `test` on each such line.
    pub(super) commands: Vec<&'a str>,
    /// The targets of this machine's architecture, with the settings that hold for each.
    pub(super) targets: Vec<TargetLine<'a>>,
    /// The settings of a file without any target.
    pub(super) settings: Vec<Words<'a>>,
    /// The targets of other architectures.
    pub(super) foreign: Vec<&'a str>,
    /// The text with `set` and `target` lines blanked; lines keep their numbers.
    pub(super) text: String,
}

/// The words of a line behind its first, and the line's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    pub(super) line: usize,
    pub(super) words: &'a str,
}

/// A `target` line of this machine's architecture.
#[derive(Debug)]
pub(super) struct TargetLine<'a> {
    /// The triple and the ISA's settings.
    pub(super) target: Words<'a>,
    /// The `set` lines before it.
    pub(super) settings: Vec<Words<'a>>,
}

impl<'a> Header<'a> {
    /// Reads the lines before the first function of `text`.
    pub(super) fn read(text: &'a str) -> Result<Self, ClifError> {
        let host = Triple::host().architecture;
        let mut header = Header { text: String::with_capacity(text.len()), ..Header::default() };
        let mut settings = Vec::new();
        // The last `set` line since the last target of any architecture.
        let mut dangling = None;
        let mut read = 0;
        for (line, full) in (1..).zip(text.split_inclusive('\n')) {
            let code = full.split(';').next().unwrap_or_default().trim();
            let (command, words) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
            let words = Words { line, words: words.trim() };
            match command {
                "" => header.text.push_str(full),
                "test" => {
                    header.commands.push(words.words);
                    header.text.push_str(full);
                }
                "set" => {
                    dangling = Some(line);
                    settings.push(words);
                    header.text.push('\n');
                }
                "target" => {
                    dangling = None;
                    let triple = words.words.split_whitespace().next().unwrap_or_default();
                    let triple = match Triple::from_str(triple) {
                        _ if triple.is_empty() => {
                            return Err(ClifError::at(line, "`target` names no target"));
                        }
                        Err(error) => return Err(ClifError::at(line, error)),
                        Ok(triple) => triple,
                    };
                    if triple.architecture == host {
                        let settings = settings.clone();
                        header.targets.push(TargetLine { target: words, settings });
                    } else {
                        header.foreign.push(words.words);
                    }
                    header.text.push('\n');
                }
                _ => break,
            }
            read += full.len();
        }
        header.text.push_str(&text[read..]);
        match dangling {
            Some(line) if header.targets_of_any() > 0 => {
                return Err(ClifError::at(
                    line,
                    "this `set` has no effect: no `target` follows it",
                ));
            }
            _ => header.settings = settings,
        }
        Ok(header)
    }

    fn targets_of_any(&self) -> usize {
        self.targets.len() + self.foreign.len()
    }
}

/// A machine to compile for: this one, with the settings and CPU features that a file asks for.
#[derive(Clone, Debug)]
pub struct ClifTarget {
    /// The target as the file spells it; empty for a file that names none.
    pub name: String,
    /// What to compile for.
    pub target: Target,
}

/// Why a target is left out.
pub(super) enum Unusable {
    /// It can be left out: the reason.
    Skip(String),
    /// The lines that describe it are wrong.
    Error(ClifError),
}

impl From<ClifError> for Unusable {
    fn from(error: ClifError) -> Self {
        Unusable::Error(error)
    }
}

/// The targets seen so far: files with equal lines share one.
#[derive(Default)]
pub struct Targets {
    known: HashMap<String, Result<Arc<ClifTarget>, String>>,
}

impl Targets {
    /// The target of these lines; the host with its own CPU features if `target` is `None`.
    pub(super) fn get(
        &mut self,
        target: Option<Words<'_>>,
        sets: &[Words<'_>],
    ) -> Result<Arc<ClifTarget>, Unusable> {
        let mut lines = String::new();
        for set in sets {
            lines.extend(["set ", set.words, "\n"]);
        }
        if let Some(target) = target {
            lines.extend(["target ", target.words, "\n"]);
        }
        if let Some(known) = self.known.get(&lines) {
            return known.clone().map_err(Unusable::Skip);
        }
        let made = match build(target, sets) {
            Ok(target) => Ok(Arc::new(target)),
            Err(Unusable::Skip(reason)) => Err(reason),
            Err(error) => return Err(error),
        };
        self.known.insert(lines, made.clone());
        made.map_err(Unusable::Skip)
    }
}

fn build(target: Option<Words<'_>>, sets: &[Words<'_>]) -> Result<ClifTarget, Unusable> {
    let mut flags = settings::builder();
    // As in Cranelift's own runner of such files: nothing here unwinds.
    flags.set("unwind_info", "false").expect("a setting of Cranelift");
    for set in sets {
        apply(set.words, set.line, &mut flags)?;
    }
    let flags = settings::Flags::new(flags);
    if flags.enable_pinned_reg() {
        return Err(Unusable::Skip(
            "code with a pinned register cannot be called from outside".into(),
        ));
    }
    let line = target.or(sets.last().copied()).map_or(1, |words| words.line);
    let mut builder = cranelift_native::builder_with_options(target.is_none())
        .map_err(|error| ClifError::at(line, error))?;
    if let Some(target) = target {
        let features = target.words.split_once(char::is_whitespace).map_or("", |(_, words)| words);
        apply(features, line, &mut builder)?;
    }
    let isa = builder.finish(flags).map_err(|error| ClifError::at(line, error))?;
    let name = target.map_or("", |target| target.words);
    match Target::new(isa) {
        Ok(target) => Ok(ClifTarget { name: name.into(), target }),
        Err(CodeError::Target { reason, .. }) => {
            Err(Unusable::Skip(format!("target {name}: {reason}")))
        }
        Err(error) => Err(ClifError::at(line, error).into()),
    }
}

/// Applies settings, of which an error names the line.
fn apply(words: &str, line: usize, to: &mut dyn Configurable) -> Result<(), ClifError> {
    parse_options(words.split_whitespace(), to, Location { line_number: line })
        .map_err(|error| ClifError::from(ParseError::from(error)))
}
