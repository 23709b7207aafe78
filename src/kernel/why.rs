//! Why a kernel had to be typed, or compiled, again: what of it differs from the nearest that was seen under its name.
//!
//! ```text
//!   name, ordinal, types ──► note: a few stories       body by line, globals, options, callees, overloads, environment
//!                              │ nearest to this one
//!                              ▼
//!                   "main.py:6 was edited", "global RATE: 7 -> 9", "option fastmath: absent -> True"
//! ```
//!
//! Stories explain and decide nothing: where one is missing, what it would explain is called new.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::infer::Specialised;
use super::keys::{self, Surroundings};
use super::manifest::text_digest;
use super::options::Options;
use super::types::Ty;
use super::value::{KernelDef, OverloadTarget, Value};
use crate::code::Target;
use crate::key::Key;
use crate::store::Store;

/// How many stories are remembered for a name: as many states as an edit goes back and forth between.
const MAX_STORIES: usize = 8;

/// The longest text of a value.
const MAX_TEXT: usize = 60;

/// A part of what decides over a kernel's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    /// `global RATE`, `option fastmath`.
    label: String,
    digest: u64,
    /// For people.
    text: String,
}

/// What decides over a kernel's code, part by part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Story {
    /// What it is known by.
    name: [String; 3],
    /// The line that its text begins on, and a digest of each line.
    first_line: u32,
    lines: Vec<u64>,
    parts: Vec<Part>,
    /// Flags of the compiler and of the CPU, in which most stories agree.
    environment: Vec<(String, String)>,
}

impl Story {
    /// The story of a kernel that was typed.
    pub(crate) fn of(
        def: &Arc<KernelDef>,
        args: &[Ty],
        typed: &Specialised,
        options: &Options,
        around: Surroundings<'_>,
        target: &Target,
    ) -> Self {
        let form = def.function.canonical();
        let mut parts = vec![part("body", &form.digest, String::new())];
        for capture in &form.captures {
            let Some(value) = keys::captured(&def.closure, capture) else { continue };
            let attributes = capture.attributes.iter().map(|attribute| &**attribute);
            let names: Vec<_> = std::iter::once(&*capture.name).chain(attributes).collect();
            let name = names.join(".");
            if let Value::Function(_) | Value::Kernel(_) | Value::Module(_) | Value::Builtin(_) =
                value
            {
                overloads(&value, &name, around, &mut parts);
                continue;
            }
            let digest = keys::shallow_digest(&value);
            parts.push(part(&format!("global {name}"), digest.as_bytes(), text(&value)));
        }
        let params = def.function.params.positional.iter();
        for (param, default) in params.zip(&def.closure.defaults) {
            if let Some(value) = default {
                let digest = keys::shallow_digest(value);
                let label = format!("default {}", param.name);
                parts.push(part(&label, digest.as_bytes(), text(value)));
            }
        }
        for (name, value) in &def.options {
            let digest = keys::shallow_digest(value);
            parts.push(part(&format!("option {name}"), digest.as_bytes(), text(value)));
        }
        parts.push(part("options", format!("{options:?}").as_bytes(), String::new()));
        for callee in &typed.callees {
            let types: Vec<_> = callee.args.iter().map(Ty::to_string).collect();
            let label = format!("callee {}({})", callee.def.name(), types.join(", "));
            let returns = callee.returns.to_string();
            parts.push(part(&label, returns.as_bytes(), format!("-> {returns}")));
        }
        let types: Vec<_> = args.iter().map(Ty::to_string).collect();
        let source = &def.function.source;
        let environment = target.parts().iter();
        Story {
            name: [
                def.file().to_owned(),
                format!("{}#{}", def.name(), def.ordinal),
                types.join(", "),
            ],
            first_line: source.line(def.function.span.start) as u32,
            lines: source
                .slice(def.function.span)
                .lines()
                .map(|line| short(line.as_bytes()))
                .collect(),
            parts,
            environment: environment.map(|p| (p.name.clone(), p.value.clone())).collect(),
        }
    }

    fn key(&self, store: &Store) -> Key {
        let mut key = store.key("cachelift kernel story v1");
        self.name.iter().for_each(|name| {
            key.str("name", name);
        });
        key.finish()
    }

    /// In what this differs from another, in words.
    fn differences(&self, before: &Story) -> Vec<String> {
        let mut found = Vec::new();
        for part in &self.parts {
            match before.parts.iter().find(|known| known.label == part.label) {
                Some(known) if known.digest == part.digest => {}
                Some(_) if part.label == "body" => {
                    let same = self.lines.iter().zip(&before.lines);
                    let at = same.take_while(|(now, then)| now == then).count() as u32;
                    let at = at.min(self.lines.len().saturating_sub(1) as u32);
                    found.push(format!("{}:{} was edited", self.name[0], self.first_line + at));
                }
                Some(_) if part.label == "options" => {}
                Some(known) => {
                    found.push(format!("{}: {} -> {}", part.label, known.text, part.text));
                }
                None => found.push(format!("{}: absent -> {}", part.label, part.text)),
            }
        }
        for known in &before.parts {
            if self.parts.iter().all(|part| part.label != known.label) {
                found.push(format!("{}: {} -> absent", known.label, known.text));
            }
        }
        for (name, value) in &self.environment {
            match before.environment.iter().find(|(known, _)| known == name) {
                Some((_, then)) if then == value => {}
                Some((_, then)) => found.push(format!("{name}: {then} -> {value}")),
                None => found.push(format!("{name}: absent -> {value}")),
            }
        }
        found
    }
}

/// The overloads of a function, as one part.
fn overloads(function: &Value, name: &str, around: Surroundings<'_>, parts: &mut Vec<Part>) {
    let of = |target: &OverloadTarget| match target {
        OverloadTarget::Function(of) => keys::is_same_function(of, function),
        _ => false,
    };
    let mine = around.overloads.iter().filter(|overload| of(&overload.target));
    let mine: Vec<_> = mine.map(|overload| overload.function.syntax.name.to_string()).collect();
    if !mine.is_empty() {
        let list = mine.join(", ");
        parts.push(part(&format!("overloads of {name}"), list.as_bytes(), list.clone()));
    }
}

fn part(label: &str, digest: &[u8], text: String) -> Part {
    Part { label: label.to_owned(), digest: short(digest), text }
}

fn short(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}

/// A value in few words.
fn text(value: &Value) -> String {
    let text = match value {
        Value::None => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Str(text) => format!("{text:?}"),
        Value::Tuple(items) => {
            let items: Vec<_> = items.iter().map(text).collect();
            format!("({})", items.join(", "))
        }
        Value::Array(array) => {
            let digest = text_digest(&array.to_bytes()).to_string();
            let shape: Vec<_> = array.shape().iter().map(usize::to_string).collect();
            let shape = shape.join(" x ");
            format!("array of {shape} {} with contents {}", array.dtype(), &digest[..8])
        }
        Value::DType(dtype) => dtype.to_string(),
        other => format!("{other:?}"),
    };
    match text.char_indices().nth(MAX_TEXT) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// Why this was typed: what differs from the nearest story of its name. Remembers this one.
pub(crate) fn explain(store: &Store, story: &Story) -> String {
    let key = story.key(store);
    let note = store.note(&key).unwrap_or_default();
    let mut stories: Vec<Story> = postcard::from_bytes(&note).unwrap_or_default();
    let nearest = stories.iter().map(|before| story.differences(before));
    let nearest = nearest.min_by_key(Vec::len);
    if stories.first() != Some(story) {
        stories.retain(|known| known != story);
        stories.insert(0, story.clone());
        stories.truncate(MAX_STORIES);
        let bytes = postcard::to_stdvec(&stories).expect("plain data");
        let _ = store.set_note(&key, &bytes);
    }
    match nearest {
        None => "seen for the first time".into(),
        Some(differences) if differences.is_empty() => {
            "what it calls or can reach has changed, and nothing of its own".into()
        }
        Some(differences) => differences.join("; "),
    }
}
