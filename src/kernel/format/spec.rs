//! The mini-language of format specs: `[[fill]align][sign][z][#][0][width][grouping][.precision][type]`.

use super::float::{self, Digits};

/// A format spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// What fills up to the width.
    pub fill: char,
    /// `<`, `>`, `^` or `=`.
    pub align: Option<char>,
    /// `-`, `+` or a space.
    pub sign: char,
    /// `z`: what rounds to negative zero loses its sign.
    pub coerce: bool,
    /// `#`.
    pub alternate: bool,
    /// The least width.
    pub width: usize,
    /// `,` or `_`.
    pub grouping: Option<char>,
    /// What follows the point.
    pub precision: Option<usize>,
    /// The type letter.
    pub kind: Option<char>,
    /// Whether a `0` stood before the width.
    pub zero: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            fill: ' ',
            align: None,
            sign: '-',
            coerce: false,
            alternate: false,
            width: 0,
            grouping: None,
            precision: None,
            kind: None,
            zero: false,
        }
    }
}

/// Why a spec does not fit a value, in Python's words.
pub(crate) type Misfit = String;

impl Spec {
    /// Reads a spec; `of` is the name of the value's type.
    ///
    /// # Errors
    /// Text that is no spec.
    pub(crate) fn parse(text: &str, of: &str) -> Result<Spec, Misfit> {
        let mut spec = Spec::default();
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        let is_align = |c: Option<&char>| matches!(c, Some('<' | '>' | '^' | '='));
        if is_align(chars.get(1)) {
            spec.fill = chars[0];
            spec.align = chars.get(1).copied();
            at = 2;
        } else if is_align(chars.first()) {
            spec.align = chars.first().copied();
            at = 1;
        }
        if let Some(&sign @ ('+' | '-' | ' ')) = chars.get(at) {
            spec.sign = sign;
            at += 1;
        }
        if chars.get(at) == Some(&'z') {
            spec.coerce = true;
            at += 1;
        }
        if chars.get(at) == Some(&'#') {
            spec.alternate = true;
            at += 1;
        }
        if chars.get(at) == Some(&'0') {
            spec.zero = true;
            at += 1;
            if spec.align.is_none() {
                spec.fill = '0';
            }
        }
        let number = |at: &mut usize| -> Result<Option<usize>, Misfit> {
            let begin = *at;
            while chars.get(*at).is_some_and(char::is_ascii_digit) {
                *at += 1;
            }
            if begin == *at {
                return Ok(None);
            }
            let text: String = chars[begin..*at].iter().collect();
            match text.parse() {
                Ok(n) if n <= 1 << 24 => Ok(Some(n)),
                _ => Err("Too many decimal digits in format string".into()),
            }
        };
        spec.width = number(&mut at)?.unwrap_or(0);
        if let Some(&grouping @ (',' | '_')) = chars.get(at) {
            spec.grouping = Some(grouping);
            at += 1;
        }
        if chars.get(at) == Some(&'.') {
            at += 1;
            match number(&mut at)? {
                Some(precision) => spec.precision = Some(precision),
                None => return Err("Format specifier missing precision".into()),
            }
        }
        match chars.len() - at {
            0 => {}
            1 => spec.kind = Some(chars[at]),
            _ => {
                return Err(format!("Invalid format specifier '{text}' for object of type '{of}'"));
            }
        }
        Ok(spec)
    }

    fn unknown(&self, of: &str) -> Misfit {
        format!("Unknown format code '{}' for object of type '{of}'", self.kind.unwrap_or(' '))
    }

    /// Formats a string.
    ///
    /// # Errors
    /// A spec for numbers.
    pub(crate) fn string(&self, text: &str) -> Result<String, Misfit> {
        if !matches!(self.kind, None | Some('s')) {
            return Err(self.unknown("str"));
        }
        if self.sign != '-' {
            return Err("Sign not allowed in string format specifier".into());
        }
        if self.alternate {
            return Err("Alternate form (#) not allowed in string format specifier".into());
        }
        if self.align == Some('=') {
            return Err("'=' alignment not allowed in string format specifier".into());
        }
        if let Some(grouping) = self.grouping {
            return Err(format!("Cannot specify '{grouping}' with 's'."));
        }
        Ok(self.text(text))
    }

    /// Pads (and with a precision, cuts) text, to the left unless told otherwise.
    pub(crate) fn text(&self, text: &str) -> String {
        let cut: String = match self.precision {
            Some(n) => text.chars().take(n).collect(),
            None => text.into(),
        };
        self.pad("", &cut, self.align.unwrap_or('<'))
    }

    fn pad(&self, prefix: &str, body: &str, align: char) -> String {
        let length = prefix.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(length);
        let fill = |n: usize| self.fill.to_string().repeat(n);
        match align {
            '<' => format!("{prefix}{body}{}", fill(missing)),
            '^' => format!("{}{prefix}{body}{}", fill(missing / 2), fill(missing - missing / 2)),
            '=' => format!("{prefix}{}{body}", fill(missing)),
            _ => format!("{}{prefix}{body}", fill(missing)),
        }
    }

    fn number_align(&self) -> char {
        self.align.unwrap_or(if self.zero { '=' } else { '>' })
    }

    fn sign_of(&self, negative: bool) -> &'static str {
        match (negative, self.sign) {
            (true, _) => "-",
            (false, '+') => "+",
            (false, ' ') => " ",
            _ => "",
        }
    }

    /// Formats an integer.
    ///
    /// # Errors
    /// A spec that does not fit integers.
    pub(crate) fn int(&self, value: i128) -> Result<String, Misfit> {
        match self.kind {
            Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => {
                return self.checked_float(value as f64);
            }
            None | Some('d' | 'n' | 'b' | 'o' | 'x' | 'X' | 'c') => {}
            _ => return Err(self.unknown("int")),
        }
        if self.coerce {
            return Err("Negative zero coercion (z) not allowed in format specifier with integer format code".into());
        }
        if self.precision.is_some() {
            return Err("Precision not allowed in integer format specifier".into());
        }
        if self.kind == Some('c') {
            if self.sign != '-' {
                return Err("Sign not allowed with integer format specifier 'c'".into());
            }
            let Some(c) = u32::try_from(value).ok().and_then(char::from_u32) else {
                return Err("%c arg not in range(0x110000)".into());
            };
            return Ok(self.pad("", &c.to_string(), self.align.unwrap_or('<')));
        }
        if let (Some(','), Some(kind @ ('b' | 'o' | 'x' | 'X' | 'n'))) = (self.grouping, self.kind)
        {
            return Err(format!("Cannot specify ',' with '{kind}'."));
        }
        Ok(self.int_with_digits(value, 0))
    }

    /// Formats an integer with at least `digits` digits.
    pub(crate) fn int_with_digits(&self, value: i128, digits: usize) -> String {
        let size = value.unsigned_abs();
        let (base, body) = match self.kind {
            Some('b') => ("0b", format!("{size:b}")),
            Some('o') => ("0o", format!("{size:o}")),
            Some('x') => ("0x", format!("{size:x}")),
            Some('X') => ("0X", format!("{size:X}")),
            _ => ("", size.to_string()),
        };
        let body = format!("{}{body}", "0".repeat(digits.saturating_sub(body.len())));
        let base = if self.alternate { base } else { "" };
        let prefix = format!("{}{base}", self.sign_of(value < 0));
        let every = if matches!(self.kind, Some('b' | 'o' | 'x' | 'X')) { 4 } else { 3 };
        self.grouped(&prefix, &body, "", every)
    }

    /// Groups digits before `rest`, and pads.
    fn grouped(&self, prefix: &str, digits: &str, rest: &str, every: usize) -> String {
        let align = self.number_align();
        let Some(separator) = self.grouping else {
            return self.pad(prefix, &format!("{digits}{rest}"), align);
        };
        let mut digits = digits.to_owned();
        let group = |digits: &str| {
            let mut out = String::new();
            for (i, c) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i).is_multiple_of(every) {
                    out.push(separator);
                }
                out.push(c);
            }
            out
        };
        if align == '=' && self.fill == '0' {
            // Zeros are grouped like digits.
            while prefix.len() + group(&digits).len() + rest.len() < self.width {
                digits.insert(0, '0');
            }
        }
        self.pad(prefix, &format!("{}{rest}", group(&digits)), align)
    }

    /// Formats a float.
    ///
    /// # Errors
    /// A spec that does not fit floats.
    pub(crate) fn checked_float(&self, value: f64) -> Result<String, Misfit> {
        match self.kind {
            None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%' | 'n') => Ok(self.float(value)),
            _ => Err(self.unknown("float")),
        }
    }

    /// Formats a float by a spec that fits.
    pub(crate) fn float(&self, value: f64) -> String {
        let negative = value.is_sign_negative() && !value.is_nan();
        let body = self.float_body(value.abs());
        let zero =
            || body.chars().take_while(|c| !matches!(c, 'e' | 'E')).all(|c| "0.%".contains(c));
        let negative = negative && !(self.coerce && zero());
        let (digits, rest) = match body.find(|c: char| !c.is_ascii_digit()) {
            Some(at) => body.split_at(at),
            None => (body.as_str(), ""),
        };
        self.grouped(self.sign_of(negative), digits, rest, 3)
    }

    /// The digits of a number that is not negative.
    fn float_body(&self, value: f64) -> String {
        let kind = self.kind.unwrap_or('\0');
        let percent = if kind == '%' { "%" } else { "" };
        let value = if kind == '%' { value * 100.0 } else { value };
        if let Some(text) = float::special(value) {
            let text = if kind.is_ascii_uppercase() { text.to_uppercase() } else { text.into() };
            return format!("{text}{percent}");
        }
        let body = match kind.to_ascii_lowercase() {
            'f' | '%' => {
                let precision = self.precision.unwrap_or(6);
                let point = if precision == 0 && self.alternate { "." } else { "" };
                format!("{value:.precision$}{point}{percent}")
            }
            'e' => {
                let precision = self.precision.unwrap_or(6);
                let digits = Digits::significant(value, precision + 1);
                let text = digits.scientific();
                if precision == 0 && self.alternate { text.replacen('e', ".e", 1) } else { text }
            }
            '\0' if self.precision.is_none() => {
                let text = float::repr(value);
                if self.alternate && !text.contains('.') {
                    text.replacen('e', ".e", 1)
                } else {
                    text
                }
            }
            kind => self.general(value, kind == '\0'),
        };
        if kind.is_ascii_uppercase() { body.to_uppercase() } else { body }
    }

    /// `g`: significant digits, an exponent where the number is very small or large for them. Without a type letter
    /// there is always a digit after the point.
    fn general(&self, value: f64, point_zero: bool) -> String {
        let precision = self.precision.unwrap_or(6).max(1);
        let mut digits = Digits::significant(value, precision);
        if value == 0.0 {
            digits.point = 1;
        }
        let limit = precision as i32 - i32::from(point_zero);
        let scientific = value != 0.0 && (digits.point <= -4 || digits.point > limit);
        if !self.alternate {
            let kept = digits.digits.trim_end_matches('0').len().max(1);
            digits.digits.truncate(kept);
        }
        if scientific {
            let text = digits.scientific();
            return if self.alternate && !text.contains('.') {
                text.replacen('e', ".e", 1)
            } else {
                text
            };
        }
        let text = digits.positional(usize::from(point_zero));
        if self.alternate && !text.contains('.') { format!("{text}.") } else { text }
    }

    /// Formats a complex number.
    ///
    /// # Errors
    /// A spec that does not fit complex numbers.
    pub(crate) fn complex(&self, re: f64, im: f64) -> Result<String, Misfit> {
        if !matches!(self.kind, None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'n')) {
            return Err(self.unknown("complex"));
        }
        if self.zero {
            return Err("Zero padding is not allowed in complex format specifier".into());
        }
        if self.align == Some('=') {
            return Err("'=' alignment flag is not allowed in complex format specifier".into());
        }
        let part = Spec { width: 0, fill: ' ', align: None, ..self.clone() };
        let show = |part: &Spec, value: f64| {
            let text = part.float(value);
            // Without a type letter, parts look as in `repr`.
            match (self.kind, self.precision) {
                (None, None) => text.strip_suffix(".0").map(str::to_owned).unwrap_or(text),
                (None, Some(_)) => text.strip_suffix(".0").map(str::to_owned).unwrap_or(text),
                _ => text,
            }
        };
        let imaginary = show(&Spec { sign: '+', ..part.clone() }, im);
        let body = if self.kind.is_none() {
            if re == 0.0 && re.is_sign_positive() {
                format!("{}j", show(&part, im))
            } else {
                format!("({}{imaginary}j)", show(&part, re))
            }
        } else {
            format!("{}{imaginary}j", show(&part, re))
        };
        Ok(self.pad("", &body, self.align.unwrap_or('>')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(spec: &str, value: i128) -> String {
        Spec::parse(spec, "int").unwrap().int(value).unwrap()
    }

    fn float(spec: &str, value: f64) -> String {
        Spec::parse(spec, "float").unwrap().checked_float(value).unwrap()
    }

    #[test]
    fn integers() {
        for (spec, value, text) in [
            ("", 42, "42"),
            ("5", 42, "   42"),
            ("<5", 42, "42   "),
            ("^6", 42, "  42  "),
            ("^7", 42, "  42   "),
            ("05", -42, "-0042"),
            ("+", 42, "+42"),
            (" d", 42, " 42"),
            (",", 1234567, "1,234,567"),
            ("_", 1234567, "1_234_567"),
            ("010,", 1234, "00,001,234"),
            ("08,", 123456, "0,123,456"),
            ("b", 10, "1010"),
            ("#b", 10, "0b1010"),
            ("#010x", 255, "0x000000ff"),
            ("#X", 255, "0XFF"),
            ("_b", 1023, "11_1111_1111"),
            ("o", -8, "-10"),
            ("c", 65, "A"),
            ("*>8d", -5, "******-5"),
            ("*=8d", -5, "-******5"),
            (".2f", 3, "3.00"),
            ("e", 12345, "1.234500e+04"),
            ("%", 2, "200.000000%"),
        ] {
            assert_eq!(int(spec, value), text, "{spec} of {value}");
        }
    }

    #[test]
    fn floats() {
        for (spec, value, text) in [
            ("", 1.0, "1.0"),
            (".3f", 2.0005, "2.001"),
            (".2f", 2.675, "2.67"),
            (".0f", 0.5, "0"),
            (".0f", 1.5, "2"),
            ("#.0f", 1.5, "2."),
            (">10.3f", std::f64::consts::PI, "     3.142"),
            ("010.2f", -3.5, "-000003.50"),
            (",.2f", 1234567.891, "1,234,567.89"),
            ("e", 0.00012345, "1.234500e-04"),
            (".0e", 15.0, "2e+01"),
            ("E", 1e-7, "1.000000E-07"),
            ("g", 1e-5, "1e-05"),
            ("g", 123456.0, "123456"),
            ("g", 1234567.0, "1.23457e+06"),
            (".3g", 0.00012345, "0.000123"),
            ("#g", 1.0, "1.00000"),
            ("G", 1e-10, "1E-10"),
            ("%", 0.1234, "12.340000%"),
            (".1%", 0.1234, "12.3%"),
            (".3", 1234.5, "1.23e+03"),
            (".10", 1234.5, "1234.5"),
            (".4", 1.0, "1.0"),
            ("+.1f", 0.04, "+0.0"),
            (".1f", -0.04, "-0.0"),
            ("f", f64::NAN, "nan"),
            ("F", f64::INFINITY, "INF"),
            ("8", f64::NEG_INFINITY, "    -inf"),
            ("g", 0.0, "0"),
            ("e", 0.0, "0.000000e+00"),
            ("n", 12.5, "12.5"),
            ("z.1f", -0.04, "0.0"),
            ("z.1f", -0.06, "-0.1"),
        ] {
            assert_eq!(float(spec, value), text, "{spec} of {value}");
        }
    }

    #[test]
    fn strings_and_what_does_not_fit() {
        let text = |spec: &str| Spec::parse(spec, "str").and_then(|s| s.string("abc"));
        assert_eq!(text("").unwrap(), "abc");
        assert_eq!(text(">5").unwrap(), "  abc");
        assert_eq!(text("^6").unwrap(), " abc  ");
        assert_eq!(text(".2").unwrap(), "ab");
        assert_eq!(text("05").unwrap(), "abc00");
        assert_eq!(text("d").unwrap_err(), "Unknown format code 'd' for object of type 'str'");
        assert_eq!(text("+").unwrap_err(), "Sign not allowed in string format specifier");
        assert_eq!(
            Spec::parse(".2", "int").unwrap().int(3).unwrap_err(),
            "Precision not allowed in integer format specifier"
        );
    }

    #[test]
    fn complex_numbers() {
        let show =
            |spec: &str, re, im| Spec::parse(spec, "complex").unwrap().complex(re, im).unwrap();
        assert_eq!(show("", 1.0, -2.0), "(1-2j)");
        assert_eq!(show(".2f", 1.0, -2.0), "1.00-2.00j");
        assert_eq!(show(">12", 0.0, 2.0), "          2j");
        assert_eq!(show(".3", 1.0 / 3.0, 1.0), "(0.333+1j)");
    }
}
