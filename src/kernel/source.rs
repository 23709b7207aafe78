//! The text of a kernel file, and where a byte of it stands.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use super::manifest::text_digest;
use super::syntax::Span;
use crate::key::Key;

/// The text of one file, or text that a program made.
#[derive(Debug)]
pub struct Source {
    /// What the text is called in messages and in the names of kernels: the path from the program's folder (or from
    /// the search path's folder that holds the file), with `/`; `<stdin>`, `<string>` or the caller's name otherwise.
    pub name: Arc<str>,
    /// The file, if there is one.
    pub path: Option<PathBuf>,
    /// The text.
    pub text: Arc<str>,
    /// The byte at which each line begins.
    lines: Vec<u32>,
    digest: OnceLock<Key>,
}

impl Source {
    /// Text under a name.
    pub fn new(
        name: impl Into<Arc<str>>,
        path: Option<PathBuf>,
        text: impl Into<Arc<str>>,
    ) -> Self {
        let text = text.into();
        let mut lines = vec![0];
        let bytes = text.as_bytes();
        for (i, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' || (byte == b'\r' && bytes.get(i + 1) != Some(&b'\n')) {
                lines.push(i as u32 + 1);
            }
        }
        Source { name: name.into(), path, text, lines, digest: OnceLock::new() }
    }

    /// The digest of the text.
    pub(super) fn digest(&self) -> Key {
        *self.digest.get_or_init(|| text_digest(self.text.as_bytes()))
    }

    /// The line and the column of a byte, both counted from 1, columns in characters.
    pub fn position(&self, byte: u32) -> (usize, usize) {
        let line = self.lines.partition_point(|&start| start <= byte).max(1);
        let start = self.lines[line - 1] as usize;
        let end = (byte as usize).clamp(start, self.text.len());
        let column = self.text.get(start..end).map_or(end - start, |text| text.chars().count());
        (line, column + 1)
    }

    /// The line of a byte, counted from 1.
    pub fn line(&self, byte: u32) -> usize {
        self.position(byte).0
    }

    /// The text of a span.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// One line without its end, counted from 1.
    pub fn line_text(&self, line: usize) -> &str {
        let start = self.lines[line - 1] as usize;
        let end = self.lines.get(line).map_or(self.text.len(), |&end| end as usize);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let source = Source::new("a.py", None, "x\né = 1\r\nz");
        assert_eq!(source.position(0), (1, 1));
        assert_eq!(source.position(2), (2, 1));
        assert_eq!(source.position(4), (2, 2));
        assert_eq!(source.position(10), (3, 1));
        assert_eq!(source.position(99), (3, 2));
        assert_eq!(source.line_text(2), "é = 1");
    }
}
