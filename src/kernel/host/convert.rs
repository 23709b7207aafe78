//! Numbers from other values: `int`, `float`, `complex`, `round`, `hash`, three-argument `pow`, and numbers' methods.

use super::{
    Host, attributes,
    call::{Args, method},
    error::{bounded, raise, refuse},
    number, numpy, strings,
};
use crate::kernel::{
    exception::ExceptionKind as E,
    value::{Builtin, Run, Scalar, Value},
};

impl Host {
    pub(super) fn round(&mut self, value: &Value, digits: Option<Value>) -> Run<Value> {
        let places = match &digits {
            Some(digits) => match self.index(digits)? {
                Some(places) => Some(places),
                None => {
                    return raise(
                        E::TypeError,
                        format!(
                            "'{}' object cannot be interpreted as an integer",
                            digits.type_name()
                        ),
                    );
                }
            },
            None => None,
        };
        match (value, places) {
            (Value::Int(_) | Value::Bool(_), places) => {
                let v = match value {
                    Value::Int(v) => *v,
                    Value::Bool(v) => (*v).into(),
                    _ => 0,
                };
                bounded(number::round_int(v, places.unwrap_or(0))).map(Value::Int)
            }
            (Value::Float(v), Some(places)) => {
                let rounded = number::round_float(*v, places);
                if rounded.is_infinite() && v.is_finite() {
                    return raise(E::OverflowError, "rounded value too large to represent");
                }
                Ok(Value::Float(rounded))
            }
            (Value::Float(v), None) => self.float_to_int(v.round_ties_even()).map(Value::Int),
            (Value::Scalar(Scalar::Bool(_)), _) => {
                raise(E::TypeError, "type numpy.bool doesn't define __round__ method")
            }
            (Value::Scalar(scalar), None) if scalar.as_float().is_some() => match scalar.as_int() {
                Some(v) => Ok(Value::Int(v)),
                None => self
                    .float_to_int(scalar.as_float().unwrap_or(0.0).round_ties_even())
                    .map(Value::Int),
            },
            (Value::Scalar(_) | Value::Array(_), places) => numpy::call(
                self,
                Builtin("numpy.round"),
                vec![value.clone(), Value::Int(places.unwrap_or(0))],
                Vec::new(),
            ),
            _ => match self.special(value, "__round__")? {
                Some(method) => self.call(&method, digits.into_iter().collect(), Vec::new()),
                None => raise(
                    E::TypeError,
                    format!("type {} doesn't define __round__ method", value.type_name()),
                ),
            },
        }
    }

    /// The integer that a whole float is.
    pub(super) fn float_to_int(&mut self, v: f64) -> Run<i128> {
        if v.is_nan() {
            return raise(E::ValueError, "cannot convert float NaN to integer");
        }
        if v.is_infinite() {
            return raise(E::OverflowError, "cannot convert float infinity to integer");
        }
        bounded((v.abs() < 2f64.powi(127)).then_some(v as i128))
    }

    pub(super) fn make_int(&mut self, value: Option<Value>, base: Option<Value>) -> Run<Value> {
        let Some(value) = value else { return Ok(Value::Int(0)) };
        let base = match base {
            Some(base) => self.index(&base)?,
            None => None,
        };
        Ok(Value::Int(match &value {
            Value::Str(text) => strings::parse_int(text, base.unwrap_or(10))?,
            _ if base.is_some() => {
                return raise(E::TypeError, "int() can't convert non-string with explicit base");
            }
            Value::Bool(v) => (*v).into(),
            Value::Int(v) => *v,
            Value::Float(v) => self.float_to_int(v.trunc())?,
            Value::Scalar(scalar) => match (scalar.as_int(), scalar.as_float()) {
                (Some(v), _) => v,
                (_, Some(v)) => self.float_to_int(v.trunc())?,
                _ => {
                    return raise(
                        E::TypeError,
                        "int() argument must be a real number, not 'complex'",
                    );
                }
            },
            Value::Array(array) if array.len() == 1 && array.ndim() == 0 => {
                let element = numpy::element(array);
                return self.make_int(Some(element), None);
            }
            Value::Array(_) => {
                return raise(
                    E::TypeError,
                    "only 0-dimensional arrays can be converted to Python scalars",
                );
            }
            _ => {
                if let Some(method) = self.special(&value, "__int__")? {
                    return self.call(&method, Vec::new(), Vec::new());
                }
                return raise(
                    E::TypeError,
                    format!(
                        "int() argument must be a string, a bytes-like object or a real number, not '{}'",
                        value.type_name()
                    ),
                );
            }
        }))
    }

    /// `float(value)`.
    pub(super) fn make_float(&mut self, value: Value) -> Run<f64> {
        Ok(match &value {
            Value::Bool(v) => i32::from(*v).into(),
            Value::Int(v) => *v as f64,
            Value::Float(v) => *v,
            Value::Str(text) => match strings::parse_float(text) {
                Some(v) => v,
                None => {
                    let shown = self.repr(&value)?;
                    return raise(
                        E::ValueError,
                        format!("could not convert string to float: {shown}"),
                    );
                }
            },
            Value::Scalar(scalar) => match scalar.as_float() {
                Some(v) => v,
                None => {
                    return raise(
                        E::TypeError,
                        "float() argument must be a real number, not 'complex'",
                    );
                }
            },
            Value::Array(array) if array.len() == 1 && array.ndim() == 0 => {
                return self.make_float(numpy::element(array));
            }
            Value::Array(_) => {
                return raise(
                    E::TypeError,
                    "only 0-dimensional arrays can be converted to Python scalars",
                );
            }
            _ => match self.special(&value, "__float__")? {
                Some(method) => {
                    let result = self.call(&method, Vec::new(), Vec::new())?;
                    return self.make_float(result);
                }
                None => {
                    return raise(
                        E::TypeError,
                        format!(
                            "float() argument must be a string or a real number, not '{}'",
                            value.type_name()
                        ),
                    );
                }
            },
        })
    }
}

/// CPython's hash of an integer: modulo 2**61 - 1.
pub(super) fn int_hash(v: i128) -> i128 {
    let hash = (v.unsigned_abs() % ((1 << 61) - 1)) as i128;
    match if v < 0 { -hash } else { hash } {
        -1 => -2,
        hash => hash,
    }
}

pub(super) fn power_modulo(base: &Value, exponent: &Value, modulus: &Value) -> Run<Value> {
    let (Value::Int(base), Value::Int(exponent), Value::Int(modulus)) = (base, exponent, modulus)
    else {
        return raise(
            E::TypeError,
            "pow() 3rd argument not allowed unless all arguments are integers",
        );
    };
    if *modulus == 0 {
        return raise(E::ValueError, "pow() 3rd argument cannot be 0");
    }
    if *exponent < 0 || modulus.unsigned_abs() > 1 << 63 {
        return refuse(
            "this `pow` is not supported",
            "use an exponent from 0 and a modulus below 2**63",
        );
    }
    let m = modulus.abs();
    let mut result = 1 % m;
    let mut power = base.rem_euclid(m);
    let mut left = *exponent;
    while left > 0 {
        if left & 1 == 1 {
            result = result * power % m;
        }
        power = power * power % m;
        left >>= 1;
    }
    if *modulus < 0 && result != 0 {
        result += modulus;
    }
    Ok(Value::Int(result))
}

pub(super) fn make_complex(re: Option<Value>, im: Option<Value>) -> Run<Value> {
    let part = |value: &Value| match value {
        Value::Scalar(scalar) => Ok(scalar.as_complex()),
        _ => match number::Number::of(value) {
            Some(number::Number::Int(v)) => Ok((v as f64, 0.0)),
            Some(number::Number::Float(v)) => Ok((v, 0.0)),
            Some(number::Number::Complex(re, im)) => Ok((re, im)),
            None => raise(
                E::TypeError,
                format!(
                    "complex() first argument must be a string or a number, not '{}'",
                    value.type_name()
                ),
            ),
        },
    };
    let a = match &re {
        Some(Value::Str(text)) => match strings::parse_complex(text) {
            Some(v) => return Ok(Value::Complex(v.0, v.1)),
            None => return raise(E::ValueError, "complex() arg is a malformed string"),
        },
        Some(value) => part(value)?,
        None => (0.0, 0.0),
    };
    let Some(im) = im else { return Ok(Value::Complex(a.0, a.1)) };
    let b = part(&im)?;
    let imaginary = if matches!(re, Some(Value::Complex(..))) { a.1 + b.0 } else { b.0 };
    let real = if matches!(im, Value::Complex(..)) { a.0 - b.1 } else { a.0 };
    Ok(Value::Complex(real, imaginary))
}

pub(super) fn number_method(object: &Value, name: &str, args: Vec<Value>) -> Run<Value> {
    Args::new("method", args, Vec::new()).exactly::<0>()?;
    Ok(match (name, object) {
        ("conjugate", Value::Complex(re, im)) => Value::Complex(*re, -im),
        ("conjugate", Value::Bool(v)) => Value::Int((*v).into()),
        ("conjugate", _) => object.clone(),
        ("is_integer", Value::Float(v)) => Value::Bool(v.is_finite() && v.fract() == 0.0),
        ("hex", Value::Float(v)) => Value::str(strings::float_hex(*v)),
        (_, Value::Int(_) | Value::Bool(_)) => {
            let v = match object {
                Value::Int(v) => *v,
                _ => i128::from(matches!(object, Value::Bool(true))),
            };
            match name {
                "bit_length" => Value::Int((128 - v.unsigned_abs().leading_zeros()).into()),
                "bit_count" => Value::Int(v.unsigned_abs().count_ones().into()),
                _ => Value::tuple(vec![Value::Int(v), Value::Int(1)]),
            }
        }
        (_, Value::Scalar(scalar)) => attributes::item(scalar),
        _ => method(object, "number.conjugate"),
    })
}
