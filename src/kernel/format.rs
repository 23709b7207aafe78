//! Text for people, exactly as CPython 3.11 and NumPy 2.4 write it.
//!
//! ```text
//!   float  shortest digits that read back as the same number, laid out as repr does
//!   spec   the mini-language of f-strings, format() and %
//!   array  aligned columns, a common precision, summaries of what is large
//! ```

pub(super) mod array;
pub(super) mod float;
pub(super) mod spec;

use super::value::Value;

/// `repr` of a string: single quotes unless the text has those and no double ones.
pub(super) fn repr_str(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => out.push_str(&escape(c)),
        }
    }
    out.push(quote);
    out
}

/// `repr` of a byte string.
pub(super) fn repr_bytes(bytes: &[u8]) -> String {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
    let mut out = format!("b{quote}");
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte if char::from(byte) == quote => {
                out.push('\\');
                out.push(quote);
            }
            b' '..=b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
    out
}

/// `ascii`: what is not ASCII in a `repr` is escaped.
pub(super) fn ascii(repr: &str) -> String {
    repr.chars().map(|c| if c.is_ascii() { c.to_string() } else { escape(c) }).collect()
}

fn escape(c: char) -> String {
    match c as u32 {
        code @ 0..=0xff => format!("\\x{code:02x}"),
        code @ 0x100..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

/// Whether Python's `repr` shows a character as it is.
fn is_printable(c: char) -> bool {
    match c as u32 {
        0..0x20 | 0x7f..=0xa0 | 0xad => false,
        // Separators other than the space, marks of direction, surrogates' range and what is not assigned for private use.
        0x1680
        | 0x2000..=0x200f
        | 0x2028..=0x202f
        | 0x205f..=0x206f
        | 0x3000
        | 0xfeff
        | 0xfff9..=0xfffb => false,
        0xe000..=0xf8ff | 0xf0000.. => false,
        _ => true,
    }
}

/// A complex number as `repr` shows it, its parts written by `part`.
pub(super) fn complex(re: f64, im: f64, part: impl Fn(f64) -> String) -> String {
    let imaginary = part(im);
    if re == 0.0 && re.is_sign_positive() {
        return format!("{imaginary}j");
    }
    let plus = if imaginary.starts_with('-') { "" } else { "+" };
    format!("({}{plus}{imaginary}j)", part(re))
}

/// What an error message calls something that is called.
pub(super) fn callable_name(value: &Value) -> String {
    match value {
        Value::Function(function) => format!("{}()", function.qualified_name),
        Value::Builtin(builtin) => builtin.name().to_owned(),
        Value::Kernel(def) => format!("{}()", def.name()),
        Value::Class(class) => class.name.to_string(),
        Value::Method(method) => callable_name(&method.function),
        other => other.type_name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_and_escaped() {
        assert_eq!(repr_str("it's"), "\"it's\"");
        assert_eq!(repr_str("a'b\"c"), "'a\\'b\"c'");
        assert_eq!(repr_str("\n\x00é\u{200b}"), "'\\n\\x00é\\u200b'");
        assert_eq!(repr_bytes(b"a\xff'"), "b\"a\\xff'\"");
        assert_eq!(ascii("'é'"), "'\\xe9'");
    }

    #[test]
    fn complex_numbers_hide_a_positive_zero_real_part() {
        let show = |re, im| complex(re, im, |v| float::repr(v).trim_end_matches(".0").to_owned());
        assert_eq!(show(0.0, 2.0), "2j");
        assert_eq!(show(-0.0, 2.0), "(-0+2j)");
        assert_eq!(show(1.5, -0.0), "(1.5-0j)");
    }
}
