//! Whether a tensor is what was expected, by the tolerances of ONNX's own test runner.

use crate::graph::Tensor;

/// The relative tolerance of floating-point numbers.
const RELATIVE: f64 = 1e-3;
/// The absolute tolerance of floating-point numbers.
const ABSOLUTE: f64 = 1e-7;

/// Says how `got` differs from `expected`; `None` if it does not. Integers and truth values are compared exactly,
/// floating-point numbers within the tolerances; NaN is equal to NaN.
pub(super) fn difference(expected: &Tensor, got: &Tensor) -> Option<String> {
    if expected.element() != got.element() || expected.dims() != got.dims() {
        let say = |tensor: &Tensor| format!("{}{:?}", tensor.element(), tensor.dims());
        return Some(format!("expected {}, got {}", say(expected), say(got)));
    }
    let dims = expected.dims();
    if !expected.element().is_float() {
        let (a, b) = (expected.contiguous(), got.contiguous());
        if a.as_bytes() == b.as_bytes() {
            return None;
        }
        let size = expected.element().size();
        let pairs = a.as_bytes()?.chunks(size).zip(b.as_bytes()?.chunks(size));
        let wrong: Vec<usize> =
            pairs.enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect();
        let exact = |tensor: &Tensor, at: usize| match tensor.to_i64s() {
            Some(values) => values[at].to_string(),
            None => tensor.to_f64s()[at].to_string(),
        };
        let first = *wrong.first()?;
        return Some(say(dims, first, exact(&a, first), exact(&b, first), wrong.len()));
    }
    let (a, b) = (expected.to_f64s(), got.to_f64s());
    let close = |a: f64, b: f64| {
        a == b
            || a.is_nan() && b.is_nan()
            || (a - b).abs() <= ABSOLUTE + RELATIVE * b.abs() && a.is_finite() && b.is_finite()
    };
    let wrong: Vec<usize> = (0..a.len()).filter(|&at| !close(a[at], b[at])).collect();
    let first = *wrong.first()?;
    Some(say(dims, first, a[first].to_string(), b[first].to_string(), wrong.len()))
}

fn say(dims: &[usize], at: usize, expected: String, got: String, wrong: usize) -> String {
    let mut rest = at;
    let mut index: Vec<usize> = dims
        .iter()
        .rev()
        .map(|dim| {
            let place = rest % dim;
            rest /= dim;
            place
        })
        .collect();
    index.reverse();
    let all: usize = dims.iter().product();
    format!("at {index:?} expected {expected}, got {got} ({wrong} of {all} differ)")
}
