//! Arrays as NumPy prints them with its default options.
//!
//! ```text
//!   elements (the corners of large arrays) ──► Column: common width and precision ──► rows, wrapped at 75 ──► brackets
//! ```

use super::{
    complex,
    float::{self, Digits},
};
use crate::kernel::{
    array::Array,
    dtype::{DType, Scalar},
};

const THRESHOLD: usize = 1000;
const EDGE: usize = 3;
const WIDTH: usize = 75;
const PRECISION: usize = 8;

/// `str(array)`.
pub(crate) fn str(array: &Array) -> String {
    if array.ndim() == 0 {
        return element_str(array);
    }
    text(array, " ", "", "")
}

/// `repr(array)`.
pub(crate) fn repr(array: &Array) -> String {
    let prefix = "array(";
    let body = text(array, ", ", prefix, ")");
    let mut extras = Vec::new();
    if (array.is_empty() && array.shape() != [0]) || array.len() > THRESHOLD {
        extras.push(format!("shape={}", shape(array.shape())));
    }
    let implied = matches!(array.dtype(), DType::I64 | DType::F64 | DType::C128 | DType::Bool);
    if !implied || array.is_empty() {
        extras.push(format!("dtype={}", array.dtype()));
    }
    if extras.is_empty() {
        return format!("{prefix}{body})");
    }
    let begin = format!("{prefix}{body},");
    let end = format!("{})", extras.join(", "));
    let last = begin.rfind('\n').map_or(begin.len(), |at| begin.len() - at - 1);
    let space = if last + end.len() + 1 > WIDTH {
        format!("\n{}", " ".repeat(prefix.len()))
    } else {
        " ".into()
    };
    format!("{begin}{space}{end}")
}

/// A shape as a tuple.
pub(crate) fn shape(shape: &[usize]) -> String {
    let parts: Vec<String> = shape.iter().map(usize::to_string).collect();
    if parts.len() == 1 { format!("({},)", parts[0]) } else { format!("({})", parts.join(", ")) }
}

/// The only element of an array without dimensions, as its scalar is shown.
pub(crate) fn element_str(array: &Array) -> String {
    match array.read(array.offset()) {
        Some(scalar) => scalar_str(&scalar),
        None => record_str(array),
    }
}

/// `str` of a NumPy scalar.
pub(crate) fn scalar_str(scalar: &Scalar) -> String {
    match *scalar {
        Scalar::Bool(v) => if v { "True" } else { "False" }.into(),
        Scalar::F32(v) => float::repr32(v),
        Scalar::F64(v) => float::repr(v),
        Scalar::C128(re, im) => complex(re, im, float::repr_part),
        ref other => other.as_int().unwrap_or_default().to_string(),
    }
}

/// `repr` of a NumPy scalar.
pub(crate) fn scalar_repr(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Bool(v) => if *v { "np.True_" } else { "np.False_" }.into(),
        Scalar::C128(re, im) => {
            let text = complex(*re, *im, float::repr_part);
            let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(&text);
            format!("np.complex128({inner})")
        }
        other => format!("np.{}({})", other.dtype().name(), scalar_str(other)),
    }
}

/// `str` of a record.
pub(crate) fn record_str(record: &Array) -> String {
    let DType::Record(layout) = record.dtype() else { return element_str(record) };
    let fields: Vec<String> = layout
        .fields
        .iter()
        .filter_map(|field| record.field(&field.name))
        .map(|field| match field.dtype() {
            DType::C128 => text(&field, " ", "", ""),
            DType::Record(_) => record_str(&field),
            _ => element_str(&field),
        })
        .collect();
    tuple(&fields)
}

/// `repr` of a record.
pub(crate) fn record_repr(record: &Array) -> String {
    format!("np.void({}, dtype={})", record_str(record), record.dtype())
}

fn tuple(fields: &[String]) -> String {
    match fields {
        [one] => format!("({one},)"),
        fields => format!("({})", fields.join(", ")),
    }
}

fn text(array: &Array, separator: &str, prefix: &str, suffix: &str) -> String {
    if array.is_empty() {
        return "[]".into();
    }
    let summary = array.len() > THRESHOLD;
    let shown = if summary { corners(array, 0) } else { vec![array.clone()] };
    let column = Column::new(array.dtype(), &shown, array.ndim() == 0);
    let layout = Rows { separator, summary, column };
    let indent = " ".repeat(prefix.len() + 1);
    layout.rows(array, &indent, WIDTH - suffix.len())
}

/// The parts of an array that a summary shows.
fn corners(array: &Array, axis: usize) -> Vec<Array> {
    if axis == array.ndim() {
        return vec![array.clone()];
    }
    let n = array.shape()[axis];
    if n <= 2 * EDGE {
        return corners(array, axis + 1);
    }
    let part = |from: usize| {
        let mut shape = array.shape().to_vec();
        shape[axis] = EDGE;
        let offset = array.offset() as isize + from as isize * array.strides()[axis];
        array.with(offset as usize, shape, array.strides().to_vec(), array.dtype().clone())
    };
    [part(0), part(n - EDGE)].iter().flat_map(|part| corners(part, axis + 1)).collect()
}

struct Rows<'a> {
    separator: &'a str,
    summary: bool,
    column: Column,
}

impl Rows<'_> {
    fn rows(&self, array: &Array, indent: &str, width: usize) -> String {
        if array.ndim() == 0 {
            return self.column.show(array);
        }
        let inner_indent = format!("{indent} ");
        let n = array.shape()[0];
        let summary = self.summary && 2 * EDGE < n;
        let (leading, trailing) = if summary { (EDGE, EDGE) } else { (0, n) };
        let items = (0..leading)
            .map(Some)
            .chain(summary.then_some(None))
            .chain((n - trailing..n).map(Some));
        let mut out = String::new();
        if array.ndim() == 1 {
            let room = width - self.separator.trim_end().len().max(1);
            let mut line = indent.to_owned();
            for item in items {
                let (word, last) = match item {
                    Some(i) => (self.rows(&array.at(i), &inner_indent, width - 1), i + 1 == n),
                    None => ("...".into(), false),
                };
                if line.chars().count() + word.chars().count() > room && line.len() > indent.len() {
                    out.push_str(line.trim_end());
                    out.push('\n');
                    line = indent.to_owned();
                }
                line.push_str(&word);
                if !last {
                    line.push_str(self.separator);
                }
            }
            out.push_str(&line);
        } else {
            let gap = format!("{}{}", self.separator.trim_end(), "\n".repeat(array.ndim() - 1));
            for item in items {
                out.push_str(indent);
                match item {
                    Some(i) => {
                        out.push_str(&self.rows(&array.at(i), &inner_indent, width - 1));
                        if i + 1 < n {
                            out.push_str(&gap);
                        }
                    }
                    None => {
                        out.push_str("...");
                        out.push_str(&gap);
                    }
                }
            }
        }
        format!("[{}]", &out[indent.len()..])
    }
}

/// How the elements of one array are shown.
enum Column {
    Bool { single: bool },
    Int { width: usize },
    Float { floats: Floats, single: bool },
    Complex { re: Floats, im: Floats },
    Record(Vec<(super::super::syntax::Name, Column)>),
}

impl Column {
    fn new(dtype: &DType, parts: &[Array], single: bool) -> Column {
        let all = || parts.iter().flat_map(|part| part.offsets().filter_map(|at| part.read(at)));
        match dtype {
            DType::Bool => Column::Bool { single },
            DType::F32 => Column::Float {
                floats: Floats::new(all().filter_map(|v| v.as_float()), true, false),
                single: true,
            },
            DType::F64 => Column::Float {
                floats: Floats::new(all().filter_map(|v| v.as_float()), false, false),
                single: false,
            },
            DType::C128 => Column::Complex {
                re: Floats::new(all().map(|v| v.as_complex().0), false, false),
                im: Floats::new(all().map(|v| v.as_complex().1), false, true),
            },
            DType::Record(layout) => Column::Record(
                layout
                    .fields
                    .iter()
                    .map(|field| {
                        let parts: Vec<Array> =
                            parts.iter().filter_map(|part| part.field(&field.name)).collect();
                        (field.name.clone(), Column::new(&field.dtype, &parts, single))
                    })
                    .collect(),
            ),
            _ => Column::Int {
                width: all()
                    .filter_map(|v| v.as_int())
                    .map(|v| v.to_string().len())
                    .max()
                    .unwrap_or(0),
            },
        }
    }

    fn show(&self, element: &Array) -> String {
        let scalar = element.read(element.offset());
        match (self, scalar) {
            (Column::Bool { single }, Some(Scalar::Bool(v))) => match (v, single) {
                (true, false) => " True".into(),
                (true, true) => "True".into(),
                _ => "False".into(),
            },
            (Column::Int { width }, Some(v)) => {
                format!("{:>width$}", v.as_int().unwrap_or_default())
            }
            (Column::Float { floats, single }, Some(v)) => {
                floats.show(v.as_float().unwrap_or(f64::NAN), *single)
            }
            (Column::Complex { re, im }, Some(v)) => {
                let (x, y) = v.as_complex();
                let imaginary = im.show(y, false);
                let end = imaginary.trim_end().len();
                let (digits, space) = imaginary.split_at(end);
                format!("{}{digits}j{space}", re.show(x, false))
            }
            (Column::Record(columns), _) => {
                let fields: Vec<String> = columns
                    .iter()
                    .filter_map(|(name, column)| Some(column.show(&element.field(name)?)))
                    .collect();
                tuple(&fields)
            }
            _ => String::new(),
        }
    }
}

/// How floats that stand together are shown.
struct Floats {
    scientific: bool,
    /// Digits after the point, of which fewer are filled with zeros where scientific, else with spaces.
    decimals: usize,
    /// Digits of the exponent.
    exponent: usize,
    left: usize,
    right: usize,
    plus: bool,
}

impl Floats {
    fn new(values: impl Iterator<Item = f64>, single: bool, plus: bool) -> Floats {
        let values: Vec<f64> = values.collect();
        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let (mut low, mut high) = (f64::INFINITY, 0f64);
        for size in finite.iter().map(|v| v.abs()).filter(|&size| size != 0.0) {
            low = low.min(size);
            high = high.max(size);
        }
        let limit = if single { 1e6 } else { 1e8 };
        // Singles are compared as singles.
        let low_limit = if single { f64::from(0.0001f32) } else { 0.0001 };
        let ratio = if single { f64::from(high as f32 / low as f32) } else { high / low };
        let scientific = high > 0.0 && (high >= limit || low < low_limit || ratio > 1000.0);
        let mut floats = Floats { scientific, decimals: 0, exponent: 0, left: 0, right: 0, plus };
        for &value in &finite {
            let sign = floats.sign(value).len();
            if scientific {
                let digits = floats.digits(value, single, PRECISION);
                let exponent = digits.point - 1;
                floats.exponent =
                    floats.exponent.max(exponent.unsigned_abs().to_string().len().max(2));
                floats.decimals =
                    floats.decimals.max(digits.digits.trim_end_matches('0').len().max(1) - 1);
                floats.left = floats.left.max(sign + 1);
            } else {
                let text = positional(value, single);
                let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
                floats.left = floats.left.max(sign + whole.len());
                floats.decimals = floats.decimals.max(fraction.len());
            }
        }
        floats.right =
            if scientific { floats.decimals + 2 + floats.exponent } else { floats.decimals };
        if finite.len() < values.len() {
            let negative = plus || values.contains(&f64::NEG_INFINITY);
            let space = floats.right + 1;
            floats.left = floats.left.max(3usize.saturating_sub(space));
            floats.left = floats.left.max((3 + usize::from(negative)).saturating_sub(space));
        }
        floats
    }

    fn sign(&self, value: f64) -> &'static str {
        if value.is_sign_negative() {
            "-"
        } else if self.plus {
            "+"
        } else {
            ""
        }
    }

    /// The shortest digits, unless more than `decimals` follow the first.
    fn digits(&self, value: f64, single: bool, decimals: usize) -> Digits {
        let digits =
            if single { Digits::shortest32(value as f32) } else { Digits::shortest(value) };
        if digits.digits.len() > decimals + 1 {
            Digits::significant(value, decimals + 1)
        } else {
            digits
        }
    }

    fn show(&self, value: f64, single: bool) -> String {
        if let Some(text) = float::special(value) {
            let sign = if self.plus && !text.starts_with('-') { "+" } else { "" };
            return format!(
                "{:>width$}",
                format!("{sign}{text}"),
                width = self.left + self.right + 1
            );
        }
        let sign = self.sign(value);
        if self.scientific {
            let digits = Digits::significant(value, self.decimals + 1);
            let shortest = self.digits(value, single, self.decimals);
            let digits = if shortest.digits.len() > self.decimals { shortest } else { digits };
            let (first, rest) = digits.digits.split_at(1);
            let exponent = digits.point - 1;
            let exponent = if value == 0.0 { 0 } else { exponent };
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            let left = format!("{sign}{first}");
            return format!(
                "{left:>width$}.{rest}e{exponent_sign}{:0>digits$}",
                exponent.unsigned_abs(),
                width = self.left,
                digits = self.exponent
            );
        }
        let text = positional(value, single);
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let left = format!("{sign}{whole}");
        format!("{left:>width$}.{fraction:<right$}", width = self.left, right = self.right)
    }
}

/// Without a sign and an exponent, at most eight digits after the point, without zeros at the end.
fn positional(value: f64, single: bool) -> String {
    let digits = if single { Digits::shortest32(value as f32) } else { Digits::shortest(value) };
    if value == 0.0 {
        return "0.".into();
    }
    let decimals = digits.digits.len() as i32 - digits.point;
    let text = if decimals > PRECISION as i32 {
        format!("{:.PRECISION$}", value.abs())
    } else {
        digits.positional(1)
    };
    text.trim_end_matches('0').to_owned()
}
