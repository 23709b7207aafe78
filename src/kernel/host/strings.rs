//! Methods of strings, `%` formatting, and numbers read from text.

use super::{
    Host,
    call::Args,
    error::{raise, refuse},
};
use crate::kernel::{
    exception::{ExceptionKind as E, Raised},
    format::{self, spec::Spec},
    table::Key,
    value::{Run, Value},
};

pub(super) const METHODS: &[&str] = &[
    "str.capitalize",
    "str.casefold",
    "str.center",
    "str.count",
    "str.encode",
    "str.endswith",
    "str.expandtabs",
    "str.find",
    "str.format",
    "str.index",
    "str.isalnum",
    "str.isalpha",
    "str.isascii",
    "str.isdecimal",
    "str.isdigit",
    "str.isidentifier",
    "str.islower",
    "str.isnumeric",
    "str.isspace",
    "str.isupper",
    "str.join",
    "str.ljust",
    "str.lower",
    "str.lstrip",
    "str.partition",
    "str.removeprefix",
    "str.removesuffix",
    "str.replace",
    "str.rfind",
    "str.rindex",
    "str.rjust",
    "str.rpartition",
    "str.rsplit",
    "str.rstrip",
    "str.split",
    "str.splitlines",
    "str.startswith",
    "str.strip",
    "str.swapcase",
    "str.title",
    "str.upper",
    "str.zfill",
];

pub(super) fn call(host: &mut Host, text: &str, name: &str, args: Args) -> Run<Value> {
    let all = |test: &dyn Fn(char) -> bool| Value::Bool(!text.is_empty() && text.chars().all(test));
    Ok(match name {
        "upper" => none(args, || text.to_uppercase())?,
        "lower" | "casefold" => none(args, || text.to_lowercase())?,
        "swapcase" => none(args, || {
            text.chars()
                .flat_map(|c| -> Vec<char> {
                    if c.is_uppercase() {
                        c.to_lowercase().collect()
                    } else {
                        c.to_uppercase().collect()
                    }
                })
                .collect()
        })?,
        "capitalize" => none(args, || {
            let mut chars = text.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            first + &chars.as_str().to_lowercase()
        })?,
        "title" => none(args, || {
            let mut out = String::new();
            let mut inside = false;
            for c in text.chars() {
                if inside {
                    out.extend(c.to_lowercase())
                } else {
                    out.extend(c.to_uppercase())
                }
                inside = c.is_alphabetic();
            }
            out
        })?,
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.take(["chars"], 0)?;
            let chars = match chars {
                Some(Value::Str(chars)) => Some(chars),
                None | Some(Value::None) => None,
                Some(_) => return raise(E::TypeError, format!("{name} arg must be None or str")),
            };
            let drop =
                |c: char| chars.as_ref().map_or_else(|| is_space(c), |chars| chars.contains(c));
            Value::str(
                match name {
                    "strip" => text.trim_matches(drop),
                    "lstrip" => text.trim_start_matches(drop),
                    _ => text.trim_end_matches(drop),
                }
                .into(),
            )
        }
        "split" | "rsplit" => {
            let [separator, limit] = args.take(["sep", "maxsplit"], 0)?;
            let limit = match limit {
                Some(limit) => host.index(&limit)?.and_then(|n| usize::try_from(n).ok()),
                None => None,
            };
            let parts: Vec<String> = match separator {
                None | Some(Value::None) => split_space(text, limit, name == "rsplit"),
                Some(Value::Str(separator)) if separator.is_empty() => {
                    return raise(E::ValueError, "empty separator");
                }
                Some(Value::Str(separator)) => match (limit, name) {
                    (None, _) => text.split(&*separator).map(str::to_owned).collect(),
                    (Some(n), "split") => {
                        text.splitn(n + 1, &*separator).map(str::to_owned).collect()
                    }
                    (Some(n), _) => {
                        let mut parts: Vec<String> =
                            text.rsplitn(n + 1, &*separator).map(str::to_owned).collect();
                        parts.reverse();
                        parts
                    }
                },
                Some(_) => {
                    return raise(
                        E::TypeError,
                        "must be str or None, not the separator that was given",
                    );
                }
            };
            Value::list(parts.into_iter().map(Value::str).collect())
        }
        "splitlines" => {
            args.exactly::<0>()?;
            let normal = text.replace("\r\n", "\n").replace('\r', "\n");
            let mut lines: Vec<&str> = normal.split('\n').collect();
            if lines.last() == Some(&"") {
                lines.pop();
            }
            Value::list(lines.into_iter().map(|line| Value::str(line.into())).collect())
        }
        "join" => {
            let [items] = args.exactly()?;
            let mut out = String::new();
            for (i, item) in host.collect(&items)?.iter().enumerate() {
                let Value::Str(item) = item else {
                    return raise(
                        E::TypeError,
                        format!(
                            "sequence item {i}: expected str instance, {} found",
                            item.type_name()
                        ),
                    );
                };
                if i > 0 {
                    out.push_str(text);
                }
                out.push_str(item);
            }
            Value::str(out)
        }
        "replace" => {
            let [old, new, count] = args.take(["old", "new", "count"], 2)?;
            let (Some(Value::Str(old)), Some(Value::Str(new))) = (old, new) else {
                return raise(E::TypeError, "replace() arguments must be str");
            };
            let count = match count {
                Some(count) => host.index(&count)?.and_then(|n| usize::try_from(n).ok()),
                None => None,
            };
            Value::str(match count {
                Some(n) => text.replacen(&*old, &new, n),
                None => text.replace(&*old, &new),
            })
        }
        "find" | "rfind" | "index" | "rindex" | "count" => {
            let [part, start, stop] = args.take(["sub", "start", "end"], 1)?;
            let Some(Value::Str(part)) = part else {
                return raise(E::TypeError, format!("{name}() takes a str"));
            };
            let length = text.chars().count();
            let mut bound = |bound: Option<Value>, default: usize| -> Run<usize> {
                let Some(bound) = bound.filter(|b| !matches!(b, Value::None)) else {
                    return Ok(default);
                };
                let at = host.index(&bound)?.unwrap_or(0);
                let length = length as i128;
                Ok(if at < 0 { at + length } else { at }.clamp(0, length) as usize)
            };
            let (start, stop) = (bound(start, 0)?, bound(stop, length)?);
            let inside: String =
                text.chars().skip(start).take(stop.saturating_sub(start)).collect();
            if name == "count" {
                let count = if part.is_empty() {
                    inside.chars().count() + 1
                } else {
                    inside.matches(&*part).count()
                };
                return Ok(Value::Int(count as i128));
            }
            let found =
                if name.starts_with('r') { inside.rfind(&*part) } else { inside.find(&*part) };
            match found {
                Some(at) => Value::Int((start + inside[..at].chars().count()) as i128),
                None if name.ends_with("find") => Value::Int(-1),
                None => return raise(E::ValueError, "substring not found"),
            }
        }
        "startswith" | "endswith" => {
            let [part] = args.exactly()?;
            let test = |part: &str| {
                if name == "startswith" { text.starts_with(part) } else { text.ends_with(part) }
            };
            match &part {
                Value::Str(part) => Value::Bool(test(part)),
                Value::Tuple(parts) => Value::Bool(
                    parts.iter().any(|part| matches!(part, Value::Str(part) if test(part))),
                ),
                other => {
                    return raise(
                        E::TypeError,
                        format!(
                            "{name} first arg must be str or a tuple of str, not {}",
                            other.type_name()
                        ),
                    );
                }
            }
        }
        "removeprefix" | "removesuffix" => {
            let [part] = args.exactly()?;
            let Value::Str(part) = part else {
                return raise(E::TypeError, format!("{name}() takes a str"));
            };
            let cut = if name == "removeprefix" {
                text.strip_prefix(&*part)
            } else {
                text.strip_suffix(&*part)
            };
            Value::str(cut.unwrap_or(text).into())
        }
        "partition" | "rpartition" => {
            let [separator] = args.exactly()?;
            let Value::Str(separator) = separator else {
                return raise(E::TypeError, "must be str");
            };
            let found = if name == "partition" {
                text.split_once(&*separator)
            } else {
                text.rsplit_once(&*separator)
            };
            let parts = match (found, name) {
                (Some((a, b)), _) => [a, &separator, b],
                (None, "partition") => [text, "", ""],
                (None, _) => ["", "", text],
            };
            Value::tuple(parts.into_iter().map(|part| Value::str(part.into())).collect())
        }
        "center" | "ljust" | "rjust" => {
            let [width, fill] = args.take(["width", "fillchar"], 1)?;
            let width =
                host.index(&width.unwrap_or_default())?.unwrap_or(0).clamp(0, 1 << 30) as usize;
            let fill = match fill {
                Some(Value::Str(fill)) if fill.chars().count() == 1 => {
                    fill.chars().next().unwrap_or(' ')
                }
                None => ' ',
                Some(_) => {
                    return raise(
                        E::TypeError,
                        "The fill character must be exactly one character long",
                    );
                }
            };
            let missing = width.saturating_sub(text.chars().count());
            let left = match name {
                "ljust" => 0,
                "rjust" => missing,
                // CPython puts the odd one to the left where the width is odd.
                _ => missing / 2 + (missing & width & 1),
            };
            let pad = |n: usize| fill.to_string().repeat(n);
            Value::str(format!("{}{text}{}", pad(left), pad(missing - left)))
        }
        "zfill" => {
            let [width] = args.exactly()?;
            let width = host.index(&width)?.unwrap_or(0).clamp(0, 1 << 30) as usize;
            let missing = width.saturating_sub(text.chars().count());
            let (sign, digits) = match text.chars().next() {
                Some('+' | '-') => text.split_at(1),
                _ => ("", text),
            };
            Value::str(format!("{sign}{}{digits}", "0".repeat(missing)))
        }
        "expandtabs" => {
            let [size] = args.take(["tabsize"], 0)?;
            let size = match size {
                Some(size) => host.index(&size)?.unwrap_or(8).max(0) as usize,
                None => 8,
            };
            let mut out = String::new();
            let mut column = 0;
            for c in text.chars() {
                match c {
                    '\t' if size > 0 => {
                        let n = size - column % size;
                        out.push_str(&" ".repeat(n));
                        column += n;
                    }
                    '\t' => {}
                    _ => {
                        out.push(c);
                        column = if c == '\n' || c == '\r' { 0 } else { column + 1 };
                    }
                }
            }
            Value::str(out)
        }
        "isdigit" | "isdecimal" | "isnumeric" => all(&char::is_numeric),
        "isalpha" => all(&char::is_alphabetic),
        "isalnum" => all(&char::is_alphanumeric),
        "isspace" => all(&is_space),
        "isascii" => Value::Bool(text.is_ascii()),
        "isupper" => Value::Bool(
            text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
        ),
        "islower" => Value::Bool(
            text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase),
        ),
        "isidentifier" => Value::Bool(
            text.chars().next().is_some_and(|c| c == '_' || c.is_alphabetic())
                && text.chars().all(|c| c == '_' || c.is_alphanumeric()),
        ),
        "encode" => {
            let [encoding] = args.take(["encoding"], 0)?;
            match encoding {
                None => Value::Bytes(text.bytes().collect()),
                Some(Value::Str(name))
                    if matches!(&*name.to_lowercase(), "utf-8" | "utf8" | "ascii") =>
                {
                    Value::Bytes(text.bytes().collect())
                }
                Some(_) => return refuse("this encoding is not supported", "use `utf-8`"),
            }
        }
        "format" => {
            let (args, keywords) = args.rest();
            let mut next = 0;
            Value::str(str_format(host, text, &args, &keywords, &mut next, 0)?)
        }
        _ => return refuse(format!("strings have no `{name}` here"), "see the language's page"),
    })
}

fn none(args: Args, result: impl FnOnce() -> String) -> Run<Value> {
    args.exactly::<0>()?;
    Ok(Value::str(result()))
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

fn split_space(text: &str, limit: Option<usize>, from_right: bool) -> Vec<String> {
    let Some(limit) = limit else {
        return text.split(is_space).filter(|part| !part.is_empty()).map(str::to_owned).collect();
    };
    let mut parts = Vec::new();
    let mut rest = if from_right {
        text.trim_end_matches(is_space)
    } else {
        text.trim_start_matches(is_space)
    };
    while !rest.is_empty() {
        let cut = if from_right { rest.rfind(is_space) } else { rest.find(is_space) };
        match cut {
            Some(at) if parts.len() < limit => {
                let (left, right) = rest.split_at(at);
                if from_right {
                    parts.push(right.trim_start_matches(is_space).to_owned());
                    rest = left.trim_end_matches(is_space);
                } else {
                    parts.push(left.to_owned());
                    rest = right.trim_start_matches(is_space);
                }
            }
            _ => {
                parts.push(rest.to_owned());
                break;
            }
        }
    }
    if from_right {
        parts.reverse();
    }
    parts
}

/// `text.format(*args, **keywords)`.
fn str_format(
    host: &mut Host,
    text: &str,
    args: &[Value],
    keywords: &[(crate::kernel::syntax::Name, Value)],
    next: &mut usize,
    depth: usize,
) -> Run<String> {
    if depth > 2 {
        return raise(E::ValueError, "Max string recursion exceeded");
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = after;
            continue;
        }
        if brace == "}" {
            return raise(E::ValueError, "Single '}' encountered in format string");
        }
        let mut level = 1;
        let end = rest.char_indices().find_map(|(at, c)| {
            match c {
                '{' => level += 1,
                '}' => level -= 1,
                _ => {}
            }
            (level == 0).then_some(at)
        });
        let Some(end) = end else {
            return raise(E::ValueError, "expected '}' before end of string");
        };
        let field = &rest[..end];
        rest = &rest[end + 1..];
        let (field, spec) = match field.find(':') {
            Some(at) => (&field[..at], &field[at + 1..]),
            None => (field, ""),
        };
        let (field, conversion) = match field.rsplit_once('!') {
            Some((field, conversion)) => (field, Some(conversion)),
            None => (field, None),
        };
        let stop = field.find(['.', '[']).unwrap_or(field.len());
        let (name, mut path) = field.split_at(stop);
        let mut value = if name.is_empty() {
            *next += 1;
            args.get(*next - 1).cloned()
        } else if let Ok(at) = name.parse::<usize>() {
            args.get(at).cloned()
        } else {
            match keywords.iter().find(|(key, _)| &**key == name) {
                Some((_, value)) => Some(value.clone()),
                None => {
                    return Err(
                        Raised::with(E::KeyError.class(), vec![Value::str(name.into())]).into()
                    );
                }
            }
        };
        let Some(mut found) = value.take() else {
            return raise(
                E::IndexError,
                format!(
                    "Replacement index {} out of range for positional args tuple",
                    name.parse::<usize>().unwrap_or(next.saturating_sub(1))
                ),
            );
        };
        while !path.is_empty() {
            if let Some(after) = path.strip_prefix('.') {
                let stop = after.find(['.', '[']).unwrap_or(after.len());
                found = host.attribute(&found, &after[..stop].into())?;
                path = &after[stop..];
            } else {
                let after = &path[1..];
                let Some(stop) = after.find(']') else {
                    return raise(E::ValueError, "Missing ']' in format string");
                };
                let key = &after[..stop];
                let index = key
                    .parse::<i64>()
                    .map_or_else(|_| Value::str(key.into()), |v| Value::Int(v.into()));
                found = host.item(&found, &index)?;
                path = &after[stop + 1..];
            }
        }
        match conversion {
            Some("r") => found = Value::str(host.repr(&found)?),
            Some("s") => found = Value::str(host.str(&found)?),
            Some("a") => found = Value::str(format::ascii(&host.repr(&found)?)),
            Some(_) => return raise(E::ValueError, "Unknown conversion specifier"),
            None => {}
        }
        let spec = str_format(host, spec, args, keywords, next, depth + 1)?;
        out.push_str(&host.format(&found, &spec)?);
    }
    out.push_str(rest);
    Ok(out)
}

const NOT_ENOUGH: &str = "not enough arguments for format string";

/// `text % value`.
pub(super) fn percent(host: &mut Host, text: &str, value: &Value) -> Run<String> {
    let tuple = match value {
        Value::Tuple(items) => items.to_vec(),
        other => vec![other.clone()],
    };
    let mut args = tuple.into_iter();
    let mut used_names = false;
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut named = None;
        if chars.peek() == Some(&'(') {
            chars.next();
            let name: String = chars.by_ref().take_while(|&c| c != ')').collect();
            let Value::Dict(dict) = value else {
                return raise(E::TypeError, "format requires a mapping");
            };
            let found = dict.lock().get(&Key::Str(name.as_str().into())).cloned();
            match found {
                Some(value) => named = Some(value),
                None => {
                    return Err(Raised::with(E::KeyError.class(), vec![Value::str(name)]).into());
                }
            }
            used_names = true;
        }
        let mut spec = Spec { sign: '-', ..Spec::default() };
        let mut left = false;
        let mut zero = false;
        while let Some(&flag) = chars.peek() {
            match flag {
                '-' => left = true,
                '0' => zero = true,
                '+' => spec.sign = '+',
                ' ' if spec.sign != '+' => spec.sign = ' ',
                ' ' => {}
                '#' => spec.alternate = true,
                _ => break,
            }
            chars.next();
        }

        let mut number = |host: &mut Host,
                          chars: &mut std::iter::Peekable<std::str::Chars<'_>>|
         -> Run<Option<i128>> {
            if chars.peek() == Some(&'*') {
                chars.next();
                let Some(value) = args.next() else { return raise(E::TypeError, NOT_ENOUGH) };
                return match host.index(&value)? {
                    Some(n) => Ok(Some(n)),
                    None => raise(E::TypeError, "* wants int"),
                };
            }
            let mut digits = String::new();
            while let Some(&c) = chars.peek().filter(|c| c.is_ascii_digit()) {
                digits.push(c);
                chars.next();
            }
            Ok(digits.parse().ok())
        };
        let width = number(host, &mut chars)?;
        if width.is_some_and(|width| width < 0) {
            left = true;
        }
        spec.width = width.map_or(0, |width| width.unsigned_abs().min(1 << 30) as usize);
        if chars.peek() == Some(&'.') {
            chars.next();
            spec.precision =
                Some(number(host, &mut chars)?.unwrap_or(0).clamp(0, 1 << 20) as usize);
        }
        while matches!(chars.peek(), Some('h' | 'l' | 'L')) {
            chars.next();
        }
        let Some(kind) = chars.next() else { return raise(E::ValueError, "incomplete format") };
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = match named {
            Some(value) => value,
            None => match args.next() {
                Some(value) => value,
                None => return raise(E::TypeError, NOT_ENOUGH),
            },
        };
        spec.align = if left { Some('<') } else { Some('>') };
        let shown = match kind {
            's' | 'r' | 'a' => {
                let text = match kind {
                    's' => host.str(&value)?,
                    'r' => host.repr(&value)?,
                    _ => format::ascii(&host.repr(&value)?),
                };
                spec.sign = '-';
                spec.text(&text)
            }
            'c' => {
                let text = match &value {
                    Value::Str(text) if text.chars().count() == 1 => text.to_string(),
                    Value::Int(code) => match u32::try_from(*code).ok().and_then(char::from_u32) {
                        Some(c) => c.to_string(),
                        None => return raise(E::OverflowError, "%c arg not in range(0x110000)"),
                    },
                    _ => return raise(E::TypeError, "%c requires int or char"),
                };
                spec.text(&text)
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
                let whole = match (&value, host.index(&value)?) {
                    (_, Some(v)) => v,
                    (Value::Float(_) | Value::Scalar(_), None)
                        if matches!(kind, 'd' | 'i' | 'u') =>
                    {
                        let v = host.make_float(value.clone())?;
                        host.float_to_int(v.trunc())?
                    }
                    _ => {
                        let wanted = if matches!(kind, 'd' | 'i' | 'u') {
                            "a real number"
                        } else {
                            "an integer"
                        };
                        return raise(
                            E::TypeError,
                            format!(
                                "%{kind} format: {wanted} is required, not {}",
                                value.type_name()
                            ),
                        );
                    }
                };
                spec.kind = Some(if matches!(kind, 'i' | 'u') { 'd' } else { kind });
                if zero && !left {
                    spec.fill = '0';
                    spec.align = Some('=');
                }
                let digits = spec.precision.take();
                spec.int_with_digits(whole, digits.unwrap_or(0))
            }
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                let v = match &value {
                    Value::Str(_) | Value::None | Value::List(_) | Value::Tuple(_) => {
                        return raise(
                            E::TypeError,
                            format!("must be real number, not {}", value.type_name()),
                        );
                    }
                    value => host.make_float(value.clone())?,
                };
                spec.kind = Some(kind);
                spec.precision = Some(spec.precision.unwrap_or(6));
                if zero && !left {
                    spec.fill = '0';
                    spec.align = Some('=');
                }
                spec.float(v)
            }
            other => {
                return raise(
                    E::ValueError,
                    format!("unsupported format character '{other}' (0x{:x})", other as u32),
                );
            }
        };
        out.push_str(&shown);
    }
    if args.next().is_some()
        && !used_names
        && !matches!(value, Value::Dict(_) | Value::List(_) | Value::Array(_))
    {
        return raise(E::TypeError, "not all arguments converted during string formatting");
    }
    Ok(out)
}

/// `int(text, base)`.
pub(super) fn parse_int(text: &str, base: i128) -> Run<i128> {
    let invalid = || {
        raise(
            E::ValueError,
            format!("invalid literal for int() with base {base}: {}", format::repr_str(text)),
        )
    };
    if base != 0 && !(2..=36).contains(&base) {
        return raise(E::ValueError, "int() base must be >= 2 and <= 36, or 0");
    }
    let trimmed = text.trim_matches(is_space);
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match (base, prefix.as_deref()) {
        (0 | 16, Some("0x")) => (16, &digits[2..]),
        (0 | 8, Some("0o")) => (8, &digits[2..]),
        (0 | 2, Some("0b")) => (2, &digits[2..]),
        (0, _) => (10, digits),
        _ => (base as u32, digits),
    };
    let digits = digits.strip_prefix('_').filter(|_| radix != 10).unwrap_or(digits);
    if digits.is_empty()
        || digits.starts_with('_')
        || digits.ends_with('_')
        || digits.contains("__")
    {
        return invalid();
    }
    let digits = digits.replace('_', "");
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return invalid();
    }
    match i128::from_str_radix(&digits, radix) {
        Ok(v) => Ok(if negative { -v } else { v }),
        Err(_) => super::error::bounded(None),
    }
}

/// `float(text)`.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    let plain = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    if text.len() - plain.len() > 1 {
        return None;
    }
    match plain.as_str() {
        "inf" | "infinity" | "nan" => {}
        _ if !plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') => return None,
        _ => {}
    }
    if plain.starts_with('_') || plain.ends_with('_') || plain.contains("__") {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// `complex(text)`.
pub(super) fn parse_complex(text: &str) -> Option<(f64, f64)> {
    let text = text.trim_matches(is_space);
    let text = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    let Some(body) = text.strip_suffix(['j', 'J']) else {
        return parse_float(text).map(|re| (re, 0.0));
    };
    let imaginary = |part: &str| match part {
        "" | "+" => Some(1.0),
        "-" => Some(-1.0),
        part => parse_float(part),
    };
    let split = body
        .char_indices()
        .rfind(|&(at, c)| at > 0 && (c == '+' || c == '-') && !body[..at].ends_with(['e', 'E']))
        .map(|(at, _)| at);
    match split {
        Some(at) => Some((parse_float(&body[..at])?, imaginary(&body[at..])?)),
        None => Some((0.0, imaginary(body)?)),
    }
}

/// `float.hex`.
pub(super) fn float_hex(v: f64) -> String {
    if !v.is_finite() {
        return format::float::repr(v);
    }
    let bits = v.to_bits();
    let sign = if bits >> 63 == 1 { "-" } else { "" };
    let exponent = (bits >> 52 & 0x7ff) as i64;
    let fraction = bits & ((1 << 52) - 1);
    match (exponent, fraction) {
        (0, 0) => format!("{sign}0x0.0p+0"),
        (0, _) => format!("{sign}0x0.{fraction:013x}p-1022"),
        _ => format!("{sign}0x1.{fraction:013x}p{:+}", exponent - 1023),
    }
}
