//! Run lines: the comments that say how a function is called and what comes of it.
//!
//! ```text
//!   ; run: %add(1, 2) == 3           the values must be equal, bit for bit
//!   ; run: %swap(1, 2) == [2, 1]     several returned values
//!   ; run: %add(1, 2) != 4
//!   ; run                            () -> an integer, which must not be 0
//!   ; print: %add(1, 2)              prints the result
//! ```
//!
//! Cranelift's own runner calls the function above a run line whatever name the line says, and files of
//! Cranelift have lines that name another. People mean the function they name. Where both are functions of
//! the file, the line has two [`Reading`]s: it holds if the named one does as it says, else if the one above
//! does; and a note tells that the line is ambiguous.

use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{AbiParam, Signature, Type};
use cranelift_reader::{Comparison, RunCommand, parse_run_command};

/// A run line.
#[derive(Debug)]
pub struct RunLine {
    /// Its line in the file.
    pub line: usize,
    /// What it says; a second reading only where the name is not of the function above the line.
    pub readings: Vec<Reading>,
}

/// One way to read a run line.
#[derive(Debug)]
pub struct Reading {
    /// The function to call: an index into [`ClifFile::functions`](super::ClifFile::functions).
    pub function: usize,
    /// What to call it with; fits its signature.
    pub arguments: Vec<DataValue>,
    /// What must come of it.
    pub check: Check,
}

/// What must hold of the values that a call returned.
#[derive(Debug)]
pub enum Check {
    /// Nothing: they are printed.
    Print,
    /// They are these, bit for bit.
    Equal(Vec<DataValue>),
    /// They are not these.
    NotEqual(Vec<DataValue>),
    /// The one integer is not 0.
    NonZero,
}

impl Check {
    /// Whether it holds of `values`.
    pub fn holds(&self, values: &[DataValue]) -> bool {
        let equal = |these: &[DataValue]| {
            these.len() == values.len() && these.iter().zip(values).all(|(a, b)| a.bitwise_eq(b))
        };
        match self {
            Check::Print => true,
            Check::Equal(these) => equal(these),
            Check::NotEqual(these) => !equal(these),
            Check::NonZero => values.iter().all(|value| match value {
                DataValue::I8(n) => *n != 0,
                DataValue::I16(n) => *n != 0,
                DataValue::I32(n) => *n != 0,
                DataValue::I64(n) => *n != 0,
                DataValue::I128(n) => *n != 0,
                _ => false,
            }),
        }
    }
}

/// The run line in a comment, trimmed of semicolons and spaces; `None` if it is a remark.
///
/// A remark that begins with the word `run` is no run line: those have a colon or nothing behind the word.
pub(super) fn run_text(comment: &str) -> Option<&str> {
    let text = comment.trim_matches(|c: char| c == ';' || c.is_whitespace());
    let behind = text.strip_prefix("run").or_else(|| text.strip_prefix("print"))?.trim_start();
    (behind.is_empty() || behind.starts_with(':')).then_some(text)
}

/// The name that a run line calls, without the `%`, if it calls any by name.
pub(super) fn called_name(text: &str) -> Option<&str> {
    let call = text.split_once(':')?.1.trim_start().strip_prefix('%')?;
    Some(call.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default())
}

/// What a run line says of a function of this signature and name; or what is wrong with it.
pub(super) fn parse(
    text: &str,
    signature: &Signature,
    name: &str,
) -> Result<(Vec<DataValue>, Check), String> {
    let command = match parse_run_command(text, signature) {
        Ok(Some(command)) => command,
        Ok(None) => return Err(format!("`{text}` is no run line")),
        Err(error) => return Err(explain(text, signature, name, &error.message)),
    };
    if let Some(error) = miscounted_results(text, signature, name) {
        return Err(error);
    }
    Ok(match command {
        RunCommand::Print(call) => (call.args, Check::Print),
        // How the reader says that the line has no colon.
        RunCommand::Run(call, ..) if !text.contains(':') => (call.args, Check::NonZero),
        RunCommand::Run(call, Comparison::Equals, values) => (call.args, Check::Equal(values)),
        RunCommand::Run(call, Comparison::NotEquals, values) => {
            (call.args, Check::NotEqual(values))
        }
    })
}

/// The error of a run line of which the reader says only what token it expected.
fn explain(text: &str, signature: &Signature, name: &str, reader: &str) -> String {
    let Some((_, call)) = text.split_once(':') else {
        return if text == "run" {
            format!(
                "`run` without a call needs a function that takes nothing and returns an integer, \
                 and {name} is {}",
                types_of(signature)
            )
        } else {
            format!(
                "`print` without a call needs a function that takes nothing, and {name} takes {}",
                { count(signature.params.len(), "argument") }
            )
        };
    };
    let Some((arguments, rest)) = call.split_once('(').and_then(|(_, rest)| closing(rest)) else {
        return "expected a call such as `%f(1, 2)`".into();
    };
    if let Err(error) = arguments_of(arguments, signature, name) {
        return error;
    }
    if text.starts_with("print") {
        return reader.into();
    }
    let rest = rest.trim();
    if !rest.starts_with("==") && !rest.starts_with("!=") {
        return format!("expected `==` or `!=` and a value behind the call, got `{rest}`");
    }
    if let Some(error) = miscounted_results(text, signature, name) {
        return error;
    }
    format!("{name} is {}: {reader}", types_of(signature))
}

/// The error of a run line that expects more or fewer values than the function returns. The reader leaves
/// what it does not need of a line unread, so a line that it takes may have this error too.
fn miscounted_results(text: &str, signature: &Signature, name: &str) -> Option<String> {
    let call = text.split_once(':')?.1;
    let (_, rest) = call.split_once('(').and_then(|(_, rest)| closing(rest))?;
    let rest = rest.split(';').next().unwrap_or_default().trim();
    let values = rest.strip_prefix("==").or_else(|| rest.strip_prefix("!="))?.trim();
    let returns = signature.returns.len();
    let vector = returns == 1 && signature.returns[0].value_type.is_vector();
    let values = match values.strip_prefix('[') {
        // The brackets are of the one vector, not of a list of values.
        Some(_) if vector => 1,
        Some(list) => pieces(closing_bracket(list)?).count(),
        None => pieces(values).count(),
    };
    (values != returns).then(|| {
        format!(
            "{name} returns {}, the line expects {values} ({name} is {})",
            count(returns, "value"),
            types_of(signature)
        )
    })
}

/// The arguments in `text`, which is what stands between the parentheses of a call.
pub(super) fn arguments_of(
    text: &str,
    signature: &Signature,
    name: &str,
) -> Result<Vec<DataValue>, String> {
    let given = pieces(text).count();
    if given != signature.params.len() {
        return Err(format!(
            "{name} takes {}, the call has {given} ({name} is {})",
            count(signature.params.len(), "argument"),
            types_of(signature)
        ));
    }
    (1..)
        .zip(pieces(text).zip(&signature.params))
        .map(|(n, (text, param))| {
            value_of(text, param.value_type).map_err(|error| {
                format!("argument {n} of {name} is an {}: `{text}`: {error}", param.value_type)
            })
        })
        .collect()
}

/// The value that `text` spells, as a value of this type.
///
/// Floating-point numbers may also be decimal, which Cranelift's syntax lacks.
fn value_of(text: &str, of: Type) -> Result<DataValue, String> {
    use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
    use cranelift_codegen::ir::types::{F32, F64};
    let decimal = !text.contains(['x', 'N', 'I']);
    match of {
        F32 if decimal => {
            return text
                .parse()
                .map(|value| DataValue::F32(Ieee32::with_float(value)))
                .map_err(|error| error.to_string());
        }
        F64 if decimal => {
            return text
                .parse()
                .map(|value| DataValue::F64(Ieee64::with_float(value)))
                .map_err(|error| error.to_string());
        }
        _ => {}
    }
    let mut signature = Signature::new(cranelift_codegen::isa::CallConv::SystemV);
    signature.params.push(AbiParam::new(of));
    match parse_run_command(&format!("print: %f({text})"), &signature) {
        Ok(Some(RunCommand::Print(call))) => {
            call.args.into_iter().next().ok_or_else(|| "no value".to_string())
        }
        Ok(_) => Err("no value".into()),
        Err(error) => Err(error.message),
    }
}

/// `text` up to the parenthesis that closes it, and what is behind.
pub(super) fn closing(text: &str) -> Option<(&str, &str)> {
    text.split_once(')')
}

fn closing_bracket(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return Some(&text[..at]),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The pieces of a list, which commas outside brackets part; none of an empty list.
fn pieces(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    list.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(move |_| !list.trim().is_empty())
}

/// `(i32, i64) -> i8`, without what does not matter to a caller.
pub(super) fn types_of(signature: &Signature) -> String {
    let list = |params: &[AbiParam]| {
        params.iter().map(|param| param.value_type.to_string()).collect::<Vec<_>>().join(", ")
    };
    match signature.returns.len() {
        0 => format!("({})", list(&signature.params)),
        _ => format!("({}) -> {}", list(&signature.params), list(&signature.returns)),
    }
}

/// `1 value`, `2 values`, `no values`.
fn count(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}
