//! Messages about a place in a kernel file: what is wrong, where, and what to write instead.
//!
//! ```text
//!   error: `with` is not supported
//!    ╭▸ main.py:7:1
//!    │
//!  7 │ with open(name) as f:
//!    │ ━━━━
//!    ╰ help: ...
//! ```

use std::{fmt, sync::Arc};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet, renderer::DecorStyle};
use serde::Serialize;

use super::{source::Source, syntax::Span};

/// A message about a place in a file.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The file; none for a message about a whole run.
    pub source: Option<Arc<Source>>,
    /// The place.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// Said at the caret.
    pub label: Option<String>,
    /// What to write instead.
    pub hint: Option<String>,
    /// Other places that belong to it, each with what it is.
    pub notes: Vec<Note>,
}

/// Another place that a diagnostic refers to.
#[derive(Clone, Debug)]
pub struct Note {
    /// The file.
    pub source: Arc<Source>,
    /// The place.
    pub span: Span,
    /// What it is.
    pub message: String,
}

/// A diagnostic as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The file.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn new(source: &Arc<Source>, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            source: Some(source.clone()),
            span,
            message: message.into(),
            label: None,
            hint: None,
            notes: Vec::new(),
        }
    }

    /// An error without a place.
    pub fn placeless(message: impl Into<String>) -> Self {
        Diagnostic {
            source: None,
            span: Span::default(),
            message: message.into(),
            label: None,
            hint: None,
            notes: Vec::new(),
        }
    }

    /// With a word at the caret.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// With what to write instead.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With another place that matters.
    pub fn note(mut self, source: &Arc<Source>, span: Span, message: impl Into<String>) -> Self {
        self.notes.push(Note { source: source.clone(), span, message: message.into() });
        self
    }

    /// At a place, if it has none yet.
    pub fn or_at(mut self, source: &Arc<Source>, span: Span) -> Self {
        if self.source.is_none() {
            self.source = Some(source.clone());
            self.span = span;
        }
        self
    }

    /// The message for people, with the line and a caret.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let renderer =
            renderer.decor_style(if colour { DecorStyle::Unicode } else { DecorStyle::Ascii });
        let mut group =
            Level::ERROR.primary_title(&self.message).elements(self.source.iter().map(|source| {
                snippet(source, self.span, self.label.as_deref(), AnnotationKind::Primary)
            }));
        let mut at = self.source.as_ref();
        for note in &self.notes {
            if at.is_none_or(|source| !Arc::ptr_eq(source, &note.source))
                || !note.message.is_empty()
            {
                group = group.element(Level::NOTE.message(&note.message));
            }
            group = group.element(snippet(&note.source, note.span, None, AnnotationKind::Context));
            at = Some(&note.source);
        }
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.message(hint));
        }
        renderer.render(&[group])
    }

    /// The message for programs.
    pub fn report(&self) -> Report {
        let position = self.source.as_ref().map(|source| source.position(self.span.start));
        Report {
            file: self.source.as_ref().map(|source| source.name.to_string()),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            message: self.message.clone(),
            hint: self.hint.clone(),
        }
    }
}

/// The lines of a span with its mark; only the first line of a long span is marked.
fn snippet<'a>(
    source: &'a Source,
    span: Span,
    label: Option<&'a str>,
    kind: AnnotationKind,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let line = source.line(span.start);
    let text = source.line_text(line);
    let begin = text.as_ptr() as usize - source.text.as_ptr() as usize;
    let clamp = |byte: u32| {
        let mut at = (byte as usize).saturating_sub(begin).min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (start, end) = (clamp(span.start), clamp(span.end));
    Snippet::source(text)
        .line_start(line)
        .path(&*source.name)
        .annotation(kind.span(start..end.max(start)).label(label))
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_line_the_caret_and_the_hint() {
        let source = Arc::new(Source::new("a.py", None, "x = 1\nwith é as f:\n    pass\n"));
        let shown = Diagnostic::new(&source, Span { start: 6, end: 10 }, "`with` is not supported")
            .hint("open and close by hand")
            .to_string();
        assert!(shown.contains("error: `with` is not supported"), "{shown}");
        assert!(shown.contains("a.py:2:1"), "{shown}");
        assert!(shown.contains("with é as f:"), "{shown}");
        assert!(shown.contains("^^^^"), "{shown}");
        assert!(shown.contains("help: open and close by hand"), "{shown}");
    }

    #[test]
    fn spans_outside_of_the_text_are_clamped() {
        let source = Arc::new(Source::new("a.py", None, "é"));
        for (start, end) in [(0, 1), (1, 1), (1, 9), (9, 99)] {
            Diagnostic::new(&source, Span { start, end }, "x").to_string();
        }
    }
}
