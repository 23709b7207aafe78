//! Python's numbers: bool and int, float, complex.

use std::cmp::Ordering;

use super::error::{bounded, raise};
use crate::kernel::{
    exception::ExceptionKind as E,
    syntax::BinaryOp,
    value::{Run, Value},
};

/// A number of Python's own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    /// The number that a value is; NumPy's are none.
    pub(super) fn of(value: &Value) -> Option<Number> {
        Some(match value {
            Value::Bool(v) => Number::Int((*v).into()),
            Value::Int(v) => Number::Int(*v),
            Value::Float(v) => Number::Float(*v),
            Value::Complex(re, im) => Number::Complex(*re, *im),
            _ => return None,
        })
    }

    fn complex(self) -> (f64, f64) {
        match self {
            Number::Int(v) => (v as f64, 0.0),
            Number::Float(v) => (v, 0.0),
            Number::Complex(re, im) => (re, im),
        }
    }

    fn float(self) -> f64 {
        self.complex().0
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        match (self, other) {
            (Number::Complex(..), _) | (_, Number::Complex(..)) => {
                self.complex() == other.complex()
            }
            _ => self.partial_cmp(other) == Some(Ordering::Equal),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        match (*self, *other) {
            (Number::Complex(..), _) | (_, Number::Complex(..)) => None,
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
            (Number::Int(a), Number::Float(b)) => compare_int_float(a, b),
            (Number::Float(a), Number::Int(b)) => compare_int_float(b, a).map(Ordering::reverse),
        }
    }
}

/// Exact, where the conversion to a float would round.
fn compare_int_float(a: i128, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b >= 2f64.powi(127) {
        return Some(Ordering::Less);
    }
    if b < -(2f64.powi(127)) {
        return Some(Ordering::Greater);
    }
    let whole = b.trunc();
    Some(a.cmp(&(whole as i128)).then(if b > whole {
        Ordering::Less
    } else if b < whole {
        Ordering::Greater
    } else {
        Ordering::Equal
    }))
}

/// `a op b`.
pub(super) fn binary(
    op: BinaryOp,
    a: Number,
    b: Number,
    left: &Value,
    right: &Value,
) -> Run<Value> {
    match (a, b) {
        (Number::Int(x), Number::Int(y)) => {
            let bools = matches!((left, right), (Value::Bool(_), Value::Bool(_)));
            int(op, x, y, bools)
        }
        (Number::Complex(..), _) | (_, Number::Complex(..)) => {
            complex(op, a.complex(), b.complex(), left, right)
        }
        _ => float(op, a.float(), b.float(), left, right),
    }
}

fn unsupported(op: BinaryOp, left: &Value, right: &Value) -> Run<Value> {
    let symbol = op.symbol();
    raise(
        E::TypeError,
        format!(
            "unsupported operand type(s) for {symbol}: '{}' and '{}'",
            left.type_name(),
            right.type_name()
        ),
    )
}

fn int(op: BinaryOp, a: i128, b: i128, bools: bool) -> Run<Value> {
    let zero = || b == 0;
    Ok(Value::Int(match op {
        BinaryOp::Add => bounded(a.checked_add(b))?,
        BinaryOp::Sub => bounded(a.checked_sub(b))?,
        BinaryOp::Mul => bounded(a.checked_mul(b))?,
        BinaryOp::Div => {
            if zero() {
                return raise(E::ZeroDivisionError, "division by zero");
            }
            return Ok(Value::Float(int_ratio(a, b)));
        }
        BinaryOp::FloorDiv if zero() => {
            return raise(E::ZeroDivisionError, "integer division or modulo by zero");
        }
        BinaryOp::Mod if zero() => return raise(E::ZeroDivisionError, "integer modulo by zero"),
        BinaryOp::FloorDiv => floor_div(a, b),
        BinaryOp::Mod => a - floor_div(a, b) * b,
        BinaryOp::Pow => {
            if b < 0 {
                if a == 0 {
                    return raise(E::ZeroDivisionError, "0.0 cannot be raised to a negative power");
                }
                return Ok(Value::Float((a as f64).powf(b as f64)));
            }
            bounded(int_power(a, b))?
        }
        BinaryOp::Shl | BinaryOp::Shr if b < 0 => {
            return raise(E::ValueError, "negative shift count");
        }
        BinaryOp::Shl if a == 0 => 0,
        BinaryOp::Shl => {
            bounded(u32::try_from(b).ok().filter(|&n| n < 127).and_then(|n| a.checked_mul(1 << n)))?
        }
        BinaryOp::Shr => a >> b.min(127),
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
            let bits = match op {
                BinaryOp::BitAnd => a & b,
                BinaryOp::BitOr => a | b,
                _ => a ^ b,
            };
            if bools {
                return Ok(Value::Bool(bits != 0));
            }
            bits
        }
        BinaryOp::MatMul => {
            return raise(E::TypeError, "unsupported operand type(s) for @: 'int' and 'int'");
        }
    }))
}

/// Rounded toward negative infinity.
pub(super) fn floor_div(a: i128, b: i128) -> i128 {
    let q = a.wrapping_div(b);
    if (a % b != 0) && ((a < 0) != (b < 0)) { q - 1 } else { q }
}

fn int_power(a: i128, b: i128) -> Option<i128> {
    match a {
        0 | 1 => Some(if b == 0 { 1 } else { a }),
        -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
        _ => a.checked_pow(u32::try_from(b).ok()?),
    }
}

/// `a / b` rounded once, also where the operands have no exact float.
fn int_ratio(a: i128, b: i128) -> f64 {
    const EXACT: i128 = 1 << 53;
    if a.abs() <= EXACT && b.abs() <= EXACT {
        return a as f64 / b as f64;
    }
    let negative = (a < 0) != (b < 0);
    let (a, b) = (a.unsigned_abs(), b.unsigned_abs());
    // Scale so that the quotient has at least 55 bits; what is cut off only tells on which side of a tie it lies.
    let shift = 66 - (i64::from(128 - a.leading_zeros()) - i64::from(128 - b.leading_zeros()));
    let (quotient, inexact) = if shift <= 0 {
        (a / b, a % b != 0)
    } else {
        let mut quotient = a / b;
        let mut rest = a % b;
        let mut inexact = false;
        for _ in 0..shift {
            let carry = rest >> 127 != 0;
            rest = rest.wrapping_shl(1);
            quotient = quotient.wrapping_shl(1);
            if carry || rest >= b {
                rest = rest.wrapping_sub(b);
                quotient |= 1;
            }
        }
        inexact |= rest != 0;
        (quotient, inexact)
    };
    let value = (quotient | u128::from(inexact)) as f64 * 2f64.powi(-shift.max(0) as i32);
    if negative { -value } else { value }
}

fn float(op: BinaryOp, a: f64, b: f64, left: &Value, right: &Value) -> Run<Value> {
    Ok(Value::Float(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div if b == 0.0 => {
            let message = if matches!(left, Value::Int(_)) && matches!(right, Value::Int(_)) {
                "division by zero"
            } else {
                "float division by zero"
            };
            return raise(E::ZeroDivisionError, message);
        }
        BinaryOp::Div => a / b,
        BinaryOp::FloorDiv if b == 0.0 => {
            return raise(E::ZeroDivisionError, "float floor division by zero");
        }
        BinaryOp::FloorDiv => float_div_mod(a, b).0,
        BinaryOp::Mod if b == 0.0 => return raise(E::ZeroDivisionError, "float modulo"),
        BinaryOp::Mod => float_div_mod(a, b).1,
        BinaryOp::Pow => {
            if a == 0.0 && b < 0.0 {
                return raise(E::ZeroDivisionError, "0.0 cannot be raised to a negative power");
            }
            if a < 0.0 && a.is_finite() && b.is_finite() && b.fract() != 0.0 {
                return complex(op, (a, 0.0), (b, 0.0), left, right);
            }
            let result = a.powf(b);
            if result.is_infinite() && a.is_finite() && b.is_finite() {
                return raise(E::OverflowError, "(34, 'Numerical result out of range')");
            }
            result
        }
        _ => return unsupported(op, left, right),
    }))
}

/// `divmod` of floats: the remainder has the sign of the divisor.
pub(super) fn float_div_mod(a: f64, b: f64) -> (f64, f64) {
    let mut rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest != 0.0 {
        if (b < 0.0) != (rest < 0.0) {
            rest += b;
            quotient -= 1.0;
        }
    } else {
        rest = 0f64.copysign(b);
    }
    if quotient != 0.0 {
        let floor = quotient.floor();
        quotient = if quotient - floor > 0.5 { floor + 1.0 } else { floor };
    } else {
        quotient = 0f64.copysign(a / b);
    }
    (quotient, rest)
}

fn complex(op: BinaryOp, a: (f64, f64), b: (f64, f64), left: &Value, right: &Value) -> Run<Value> {
    let (re, im) = match op {
        BinaryOp::Add => (a.0 + b.0, a.1 + b.1),
        BinaryOp::Sub => (a.0 - b.0, a.1 - b.1),
        BinaryOp::Mul => complex_mul(a, b),
        BinaryOp::Div => {
            if b == (0.0, 0.0) {
                return raise(E::ZeroDivisionError, "complex division by zero");
            }
            complex_div(a, b)
        }
        BinaryOp::Pow => {
            if a == (0.0, 0.0) && (b.1 != 0.0 || b.0 < 0.0) {
                return raise(E::ZeroDivisionError, "0.0 to a negative or complex power");
            }
            complex_pow(a, b)
        }
        _ => return unsupported(op, left, right),
    };
    Ok(Value::Complex(re, im))
}

pub(super) fn complex_mul(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// Smith's method, as CPython and NumPy divide.
pub(super) fn complex_div(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    if b.0.abs() >= b.1.abs() {
        let ratio = b.1 / b.0;
        let denominator = b.0 + b.1 * ratio;
        ((a.0 + a.1 * ratio) / denominator, (a.1 - a.0 * ratio) / denominator)
    } else if b.1.abs() >= b.0.abs() {
        let ratio = b.0 / b.1;
        let denominator = b.0 * ratio + b.1;
        ((a.0 * ratio + a.1) / denominator, (a.1 * ratio - a.0) / denominator)
    } else {
        (f64::NAN, f64::NAN)
    }
}

/// Small whole powers by multiplication, others by logarithms, as CPython does.
pub(super) fn complex_pow(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    if b == (0.0, 0.0) {
        return (1.0, 0.0);
    }
    if a == (0.0, 0.0) {
        return (0.0, 0.0);
    }
    if b.1 == 0.0 && b.0.fract() == 0.0 && b.0.abs() <= 100.0 {
        let mut result = (1.0, 0.0);
        let mut power = a;
        let mut left = b.0.abs() as u32;
        while left > 0 {
            if left & 1 == 1 {
                result = complex_mul(result, power);
            }
            power = complex_mul(power, power);
            left >>= 1;
        }
        return if b.0 > 0.0 { result } else { complex_div((1.0, 0.0), result) };
    }
    let modulus = a.0.hypot(a.1);
    let mut length = modulus.powf(b.0);
    let angle = a.1.atan2(a.0);
    let mut phase = angle * b.0;
    if b.1 != 0.0 {
        length *= (-angle * b.1).exp();
        phase += b.1 * modulus.ln();
    }
    (length * phase.cos(), length * phase.sin())
}

/// `round(value, digits)` of a float, correctly rounded in decimal.
pub(super) fn round_float(value: f64, digits: i128) -> f64 {
    if !value.is_finite() || digits > 323 {
        return value;
    }
    if digits < -308 {
        return 0f64.copysign(value);
    }
    if digits >= 0 {
        return format!("{value:.*}", digits as usize).parse().unwrap_or(value);
    }
    // To the left of the point: round the exact decimal expansion, half to even.
    let cut = (-digits) as usize;
    let whole = format!("{:.0}", value.abs().trunc());
    let fraction = value.abs().fract() != 0.0;
    let padded = format!("{whole:0>width$}", width = cut + 1);
    let (head, tail) = padded.split_at(padded.len() - cut);
    let half = format!("5{}", "0".repeat(cut - 1));
    let odd = head.ends_with(['1', '3', '5', '7', '9']);
    let up = tail > half.as_str() || (tail == half && (fraction || odd));
    let mut result: f64 = format!("{head}e{cut}").parse().unwrap_or(0.0);
    if up {
        // Add one to the head in decimal.
        let mut digits: Vec<u8> = head.bytes().collect();
        let mut at = digits.len();
        loop {
            if at == 0 {
                digits.insert(0, b'1');
                break;
            }
            at -= 1;
            if digits[at] == b'9' {
                digits[at] = b'0';
            } else {
                digits[at] += 1;
                break;
            }
        }
        let head: String = digits.into_iter().map(char::from).collect();
        result = format!("{head}e{cut}").parse().unwrap_or(result);
    }
    result.copysign(value)
}

/// `round(value, digits)` of an integer with negative digits: half to even.
pub(super) fn round_int(value: i128, digits: i128) -> Option<i128> {
    if digits >= 0 {
        return Some(value);
    }
    let Some(unit) = u32::try_from(-digits).ok().and_then(|n| 10i128.checked_pow(n)) else {
        return Some(0);
    };
    let floor = floor_div(value, unit);
    let rest = value - floor * unit;
    let up = match (rest * 2).cmp(&unit) {
        Ordering::Greater => true,
        Ordering::Equal => floor % 2 != 0,
        Ordering::Less => false,
    };
    (floor + i128::from(up)).checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_large_integers_round_once() {
        assert_eq!(int_ratio(10i128.pow(30), 10i128.pow(10)), 1e20);
        assert_eq!(int_ratio(i128::MAX, 3), 5.671372782015641e37);
        assert_eq!(int_ratio((1 << 53) + 1, 1), 9007199254740992.0);
        assert_eq!(int_ratio(1, 10i128.pow(30)), 1e-30);
        assert_eq!(int_ratio(-7, 2), -3.5);
    }

    #[test]
    fn rounding_follows_the_decimal_expansion() {
        assert_eq!(round_float(2.675, 2), 2.67);
        assert_eq!(round_float(0.5, 0), 0.0);
        assert_eq!(round_float(1234.5, -2), 1200.0);
        assert_eq!(round_float(1250.0, -2), 1200.0);
        assert_eq!(round_float(1350.0, -2), 1400.0);
        assert_eq!(round_float(9960.0, -2), 10000.0);
        assert_eq!(round_int(1250, -2), Some(1200));
        assert_eq!(round_int(-15, -1), Some(-20));
        assert_eq!(round_int(-5, -1), Some(0));
    }

    #[test]
    fn floats_divide_toward_the_sign_of_the_divisor() {
        assert_eq!(float_div_mod(7.5, -2.0), (-4.0, -0.5));
        assert_eq!(float_div_mod(-7.5, 2.0), (-4.0, 0.5));
        assert_eq!(floor_div(-7, 2), -4);
    }
}
