//! `math`.

use super::{
    Host,
    call::{Args, Keywords},
    error::{bounded, raise, refuse},
    modules,
};
use crate::kernel::{
    exception::ExceptionKind as E,
    value::{Builtin, Run, Value},
};

const FUNCTIONS: &[&str] = &[
    "math.acos",
    "math.acosh",
    "math.asin",
    "math.asinh",
    "math.atan",
    "math.atan2",
    "math.atanh",
    "math.cbrt",
    "math.ceil",
    "math.comb",
    "math.copysign",
    "math.cos",
    "math.cosh",
    "math.degrees",
    "math.dist",
    "math.erf",
    "math.erfc",
    "math.exp",
    "math.exp2",
    "math.expm1",
    "math.fabs",
    "math.factorial",
    "math.floor",
    "math.fmod",
    "math.frexp",
    "math.fsum",
    "math.gamma",
    "math.gcd",
    "math.hypot",
    "math.isclose",
    "math.isfinite",
    "math.isinf",
    "math.isnan",
    "math.isqrt",
    "math.lcm",
    "math.ldexp",
    "math.lgamma",
    "math.log",
    "math.log10",
    "math.log1p",
    "math.log2",
    "math.modf",
    "math.nextafter",
    "math.perm",
    "math.pow",
    "math.prod",
    "math.radians",
    "math.remainder",
    "math.sin",
    "math.sinh",
    "math.sqrt",
    "math.tan",
    "math.tanh",
    "math.trunc",
    "math.ulp",
];

/// What the module has under a name.
pub(super) fn member(name: &str) -> Option<Value> {
    Some(match name {
        "pi" => Value::Float(std::f64::consts::PI),
        "e" => Value::Float(std::f64::consts::E),
        "tau" => Value::Float(std::f64::consts::TAU),
        "inf" => Value::Float(f64::INFINITY),
        "nan" => Value::Float(f64::NAN),
        _ => return modules::builtin_of(FUNCTIONS, &format!("math.{name}")),
    })
}

/// Functions of C's library that the standard library has not, or computes otherwise.
mod libm {
    // SAFETY: they take and give plain numbers, and C's library declares them so.
    unsafe extern "C" {
        pub(super) safe fn erf(x: f64) -> f64;
        pub(super) safe fn erfc(x: f64) -> f64;
        pub(super) safe fn asinh(x: f64) -> f64;
        pub(super) safe fn acosh(x: f64) -> f64;
        pub(super) safe fn atanh(x: f64) -> f64;
        pub(super) safe fn remainder(x: f64, y: f64) -> f64;
        pub(super) safe fn nextafter(x: f64, y: f64) -> f64;
        pub(super) safe fn ldexp(x: f64, n: i32) -> f64;
    }
}

/// A function of one float by its name in C; also used for arrays.
pub(super) fn function(name: &str) -> Option<fn(f64) -> f64> {
    let function: fn(f64) -> f64 = match name {
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "asin" | "arcsin" => f64::asin,
        "acos" | "arccos" => f64::acos,
        "atan" | "arctan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "asinh" | "arcsinh" => |x| libm::asinh(x),
        "acosh" | "arccosh" => |x| libm::acosh(x),
        "atanh" | "arctanh" => |x| libm::atanh(x),
        "exp" => f64::exp,
        "exp2" => f64::exp2,
        "expm1" => f64::exp_m1,
        "log" => f64::ln,
        "log2" => f64::log2,
        "log10" => f64::log10,
        "log1p" => f64::ln_1p,
        "sqrt" => f64::sqrt,
        "cbrt" => f64::cbrt,
        "fabs" => f64::abs,
        "erf" => |x| libm::erf(x),
        "erfc" => |x| libm::erfc(x),
        "degrees" | "rad2deg" => |x| x * (180.0 / std::f64::consts::PI),
        "radians" | "deg2rad" => |x| x * (std::f64::consts::PI / 180.0),
        _ => return None,
    };
    Some(function)
}

/// A function of two floats.
pub(super) fn function2(name: &str) -> Option<fn(f64, f64) -> f64> {
    let function: fn(f64, f64) -> f64 = match name {
        "atan2" | "arctan2" => f64::atan2,
        "fmod" => |x, y| x % y,
        "copysign" => f64::copysign,
        "hypot" => f64::hypot,
        "pow" => f64::powf,
        "remainder" => |x, y| libm::remainder(x, y),
        "nextafter" => |x, y| libm::nextafter(x, y),
        _ => return None,
    };
    Some(function)
}

fn domain<T>() -> Run<T> {
    raise(E::ValueError, "math domain error")
}

fn range<T>() -> Run<T> {
    raise(E::OverflowError, "math range error")
}

pub(super) fn call(
    host: &mut Host,
    builtin: Builtin,
    args: Vec<Value>,
    keywords: Keywords,
) -> Run<Value> {
    let name = builtin.name();
    let real = |host: &mut Host, value: Value| match &value {
        Value::Str(_) | Value::None | Value::List(_) | Value::Tuple(_) | Value::Complex(..) => {
            raise(E::TypeError, format!("must be real number, not {}", value.type_name()))
        }
        _ => host.make_float(value),
    };
    let whole = |host: &mut Host, value: &Value| match host.index(value)? {
        Some(v) => Ok(v),
        None => raise(
            E::TypeError,
            format!("'{}' object cannot be interpreted as an integer", value.type_name()),
        ),
    };
    let mut a = Args::new(name, args, keywords);
    match name {
        "floor" | "ceil" | "trunc" => {
            let [value] = a.exactly()?;
            if let Some(v) = host.index(&value)? {
                return Ok(Value::Int(v));
            }
            let v = real(host, value)?;
            let v = match name {
                "floor" => v.floor(),
                "ceil" => v.ceil(),
                _ => v.trunc(),
            };
            host.float_to_int(v).map(Value::Int)
        }
        "isnan" | "isinf" | "isfinite" => {
            let [value] = a.exactly()?;
            let v = real(host, value)?;
            Ok(Value::Bool(match name {
                "isnan" => v.is_nan(),
                "isinf" => v.is_infinite(),
                _ => v.is_finite(),
            }))
        }
        "log" => {
            let [value, base] = a.take(["x", "base"], 1)?;
            let mut log = |value: Value| -> Run<f64> {
                let v = real(host, value)?;
                if v <= 0.0 { domain() } else { Ok(v.ln()) }
            };
            let numerator = log(value.unwrap_or_default())?;
            match base {
                None => Ok(Value::Float(numerator)),
                Some(base) => {
                    let denominator = log(base)?;
                    if denominator == 0.0 {
                        return raise(E::ZeroDivisionError, "float division by zero");
                    }
                    Ok(Value::Float(numerator / denominator))
                }
            }
        }
        "gamma" | "lgamma" => {
            let [value] = a.exactly()?;
            let x = real(host, value)?;
            let whole = x.fract() == 0.0;
            match name {
                _ if x.is_nan() => Ok(Value::Float(x)),
                _ if whole && x <= 0.0 && x.is_finite() => domain(),
                _ if x == f64::INFINITY => Ok(Value::Float(x)),
                "lgamma" if x == f64::NEG_INFINITY => Ok(Value::Float(f64::INFINITY)),
                "lgamma" if x == 1.0 || x == 2.0 => Ok(Value::Float(0.0)),
                "gamma" if x == f64::NEG_INFINITY => domain(),
                "gamma" if whole && x <= 23.0 => {
                    Ok(Value::Float((1..x as u64).map(|n| n as f64).product()))
                }
                // Python's own series ends in other last digits than C's.
                _ => refuse(
                    format!("`math.{name}` of this number is not supported in host code"),
                    "call it in a kernel",
                ),
            }
        }
        "factorial" => {
            let [value] = a.exactly()?;
            let n = whole(host, &value)?;
            if n < 0 {
                return raise(E::ValueError, "factorial() not defined for negative values");
            }
            bounded((1..=n).try_fold(1i128, i128::checked_mul)).map(Value::Int)
        }
        "comb" | "perm" => {
            let [n, k] = a.take(["n", "k"], 1)?;
            let n = whole(host, &n.unwrap_or_default())?;
            let k = match k {
                Some(Value::None) | None => n,
                Some(k) => whole(host, &k)?,
            };
            if n < 0 || k < 0 {
                return raise(
                    E::ValueError,
                    format!("{} must be a non-negative integer", if n < 0 { "n" } else { "k" }),
                );
            }
            if k > n {
                return Ok(Value::Int(0));
            }
            let mut result = Some(1i128);
            let steps = if name == "comb" { k.min(n - k) } else { k };
            for i in 0..steps {
                result = result.and_then(|r| r.checked_mul(n - i));
                if name == "comb" {
                    result = result.map(|r| r / (i + 1));
                }
            }
            bounded(result).map(Value::Int)
        }
        "gcd" | "lcm" => {
            let mut total = i128::from(name == "lcm");
            for value in a.all()? {
                let v = whole(host, &value)?;
                let (mut x, mut y) = (total.abs(), v.abs());
                while y != 0 {
                    (x, y) = (y, x % y);
                }
                total = if name == "gcd" {
                    x
                } else if x == 0 {
                    0
                } else {
                    bounded((total / x).checked_mul(v))?.abs()
                };
            }
            Ok(Value::Int(total))
        }
        "isqrt" => {
            let [value] = a.exactly()?;
            let n = whole(host, &value)?;
            if n < 0 {
                return raise(E::ValueError, "isqrt() argument must be nonnegative");
            }
            Ok(Value::Int(n.isqrt()))
        }
        "fsum" | "prod" => {
            let start = a.keyword("start");
            let [items] = a.exactly()?;
            let items = host.collect(&items)?;
            if name == "prod" {
                let mut total = start.unwrap_or(Value::Int(1));
                for item in items {
                    total = host.binary(crate::kernel::syntax::BinaryOp::Mul, &total, &item)?;
                }
                return Ok(total);
            }
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                values.push(real(host, item)?);
            }
            Ok(Value::Float(exact_sum(&values)))
        }
        "frexp" => {
            let [value] = a.exactly()?;
            let v = real(host, value)?;
            let (m, e) = frexp(v);
            Ok(Value::tuple(vec![Value::Float(m), Value::Int(e.into())]))
        }
        "ldexp" => {
            let [value, exponent] = a.exactly()?;
            let v = real(host, value)?;
            let n = whole(host, &exponent)?.clamp(-5000, 5000) as i32;
            let result = libm::ldexp(v, n);
            if result.is_infinite() && v.is_finite() { range() } else { Ok(Value::Float(result)) }
        }
        "modf" => {
            let [value] = a.exactly()?;
            let v = real(host, value)?;
            let fraction = if v.is_infinite() { 0.0 } else { v.fract() };
            Ok(Value::tuple(vec![Value::Float(fraction.copysign(v)), Value::Float(v.trunc())]))
        }
        "ulp" => {
            let [value] = a.exactly()?;
            let v = real(host, value)?.abs();
            Ok(Value::Float(if v.is_finite() { libm::nextafter(v, f64::INFINITY) - v } else { v }))
        }
        "isclose" => {
            let relative = a.keyword("rel_tol").map_or(Ok(1e-9), |v| host.make_float(v))?;
            let absolute = a.keyword("abs_tol").map_or(Ok(0.0), |v| host.make_float(v))?;
            let [x, y] = a.exactly()?;
            let (x, y) = (real(host, x)?, real(host, y)?);
            let close = x == y
                || (x.is_finite()
                    && y.is_finite()
                    && ((y - x).abs() <= (relative * y).abs().max((relative * x).abs())
                        || (y - x).abs() <= absolute));
            Ok(Value::Bool(close))
        }
        "hypot" => {
            let mut values = Vec::new();
            for value in a.all()? {
                values.push(real(host, value)?);
            }
            Ok(Value::Float(match values.as_slice() {
                [x, y] => x.hypot(*y),
                values => vector_norm(values),
            }))
        }
        "dist" => {
            let [p, q] = a.exactly()?;
            let (p, q) = (host.collect(&p)?, host.collect(&q)?);
            if p.len() != q.len() {
                return raise(E::ValueError, "both points must have the same number of dimensions");
            }
            let mut differences = Vec::new();
            for (x, y) in p.into_iter().zip(q) {
                differences.push(real(host, x)? - real(host, y)?);
            }
            Ok(Value::Float(vector_norm(&differences)))
        }
        _ => {
            if let Some(function) = function2(name) {
                let [x, y] = a.exactly()?;
                let (x, y) = (real(host, x)?, real(host, y)?);
                let result = function(x, y);
                if result.is_nan() && !x.is_nan() && !y.is_nan() {
                    return domain();
                }
                if result.is_infinite() && x.is_finite() && y.is_finite() && name != "nextafter" {
                    return if name == "pow" && x == 0.0 { domain() } else { range() };
                }
                return Ok(Value::Float(result));
            }
            let Some(function) = function(name) else {
                return refuse(
                    format!("`math.{name}` is not supported in host code"),
                    "call it in a kernel",
                );
            };
            let [value] = a.exactly()?;
            let x = real(host, value)?;
            let result = function(x);
            if result.is_nan() && !x.is_nan() {
                return domain();
            }
            if result.is_infinite() && x.is_finite() {
                let pole =
                    matches!(name, "log2" | "log10" | "log1p" | "atanh" | "lgamma" | "gamma");
                return if pole && (x <= 0.0 || name == "atanh") { domain() } else { range() };
            }
            Ok(Value::Float(result))
        }
    }
}

/// The sum rounded once: partials that do not overlap, added at the end.
fn exact_sum(values: &[f64]) -> f64 {
    let mut partials: Vec<f64> = Vec::new();
    let mut special = 0.0;
    for &value in values {
        if !value.is_finite() {
            special += value;
            continue;
        }
        let mut x = value;
        let mut kept = 0;
        for i in 0..partials.len() {
            let mut y = partials[i];
            if x.abs() < y.abs() {
                std::mem::swap(&mut x, &mut y);
            }
            let high = x + y;
            let low = y - (high - x);
            if low != 0.0 {
                partials[kept] = low;
                kept += 1;
            }
            x = high;
        }
        partials.truncate(kept);
        partials.push(x);
    }
    if special != 0.0 || special.is_nan() {
        return special;
    }
    let mut high = partials.pop().unwrap_or(0.0);
    let mut low = 0.0;
    while let Some(y) = partials.pop() {
        let x = high;
        high = x + y;
        low = y - (high - x);
        if low != 0.0 {
            break;
        }
    }
    // A tie between two floats is broken by what is left.
    if let Some(&next) = partials.last()
        && ((low < 0.0 && next < 0.0) || (low > 0.0 && next > 0.0))
    {
        let y = low * 2.0;
        let x = high + y;
        if y == x - high {
            high = x;
        }
    }
    high
}

fn vector_norm(values: &[f64]) -> f64 {
    if values.iter().any(|v| v.is_infinite()) {
        return f64::INFINITY;
    }
    let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    if largest == 0.0 || values.iter().any(|v| v.is_nan()) {
        return if largest == 0.0 { values.iter().sum::<f64>().abs() } else { f64::NAN };
    }
    largest
        * exact_sum(&values.iter().map(|v| (v / largest) * (v / largest)).collect::<Vec<_>>())
            .sqrt()
}

/// Fraction in [0.5, 1) and exponent.
fn frexp(v: f64) -> (f64, i32) {
    if v == 0.0 || !v.is_finite() {
        return (v, 0);
    }
    let scaled = if v.abs() < f64::MIN_POSITIVE { (v * 2f64.powi(54), -54) } else { (v, 0) };
    let bits = scaled.0.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022;
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent + scaled.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sums_round_once() {
        assert_eq!(exact_sum(&[0.1; 10]), 1.0);
        assert_eq!(exact_sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(exact_sum(&[]), 0.0);
    }

    #[test]
    fn frexp_splits_subnormals_too() {
        assert_eq!(frexp(8.0), (0.5, 4));
        assert_eq!(frexp(-0.75), (-0.75, 0));
        assert_eq!(frexp(5e-324), (0.5, -1073));
    }
}
