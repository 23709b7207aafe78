//! What type a value is of: `isinstance`, `issubclass`, `type`.

use super::{
    Host,
    error::{raise, refuse},
    numba, ops,
};
use crate::kernel::{
    exception::ExceptionKind as E,
    types::TypeClass,
    value::{Builtin, Run, Scalar, Value},
};

impl Host {
    /// `isinstance(value, class)`.
    pub(super) fn is_instance(&mut self, value: &Value, class: &Value) -> Run<bool> {
        if let Value::Tuple(classes) = class {
            for class in classes.iter() {
                if self.is_instance(value, class)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        Ok(match (value, class) {
            (Value::Type(ty), Value::TypeClass(class)) => ty.is_instance(*class),
            (Value::Type(ty), Value::Class(class)) => numba::is_structref_of(ty, class),
            (_, Value::TypeClass(TypeClass::Type)) => matches!(value, Value::Type(_)),
            (_, Value::TypeClass(_)) => false,
            (Value::Instance(instance), Value::Class(class)) => instance.class.is_subclass(class),
            (Value::Exception(exception), Value::Class(class)) => {
                exception.class.is_subclass(class)
            }
            (Value::StructRef(object), Value::Class(class)) => object.class.is_subclass(class),
            (_, Value::Class(_)) => false,
            (_, Value::ScalarType(dtype)) => {
                matches!(value, Value::Scalar(s) if s.dtype() == *dtype)
            }
            (_, Value::Builtin(builtin)) => match (builtin.0, value) {
                ("builtins.object", _) => true,
                ("builtins.bool", Value::Bool(_)) => true,
                ("builtins.int", Value::Int(_) | Value::Bool(_)) => true,
                ("builtins.float", Value::Float(_) | Value::Scalar(Scalar::F64(_))) => true,
                ("builtins.complex", Value::Complex(..) | Value::Scalar(Scalar::C128(..))) => true,
                ("builtins.str", Value::Str(_)) => true,
                ("builtins.bytes", Value::Bytes(_)) => true,
                ("builtins.list", Value::List(_)) => true,
                ("builtins.tuple", Value::Tuple(_)) => true,
                ("builtins.dict", Value::Dict(_)) => true,
                ("builtins.set", Value::Set(_)) => true,
                ("builtins.range", Value::Range(_)) => true,
                ("builtins.slice", Value::Slice(_)) => true,
                ("builtins.type", Value::Class(_) | Value::ScalarType(_) | Value::TypeClass(_)) => {
                    true
                }
                ("numpy.ndarray", Value::Array(_)) => true,
                ("numpy.dtype", Value::DType(_)) => true,
                ("numpy.generic", Value::Scalar(_) | Value::Record(_)) => true,
                ("numpy.void", Value::Record(_)) => true,
                ("numpy.integer", Value::Scalar(s)) => s.dtype().is_integer(),
                ("numpy.floating", Value::Scalar(Scalar::F32(_) | Scalar::F64(_))) => true,
                ("numpy.number", Value::Scalar(s)) => !matches!(s, Scalar::Bool(_)),
                (
                    "builtins.bool" | "builtins.int" | "builtins.float" | "builtins.complex"
                    | "builtins.str" | "builtins.bytes" | "builtins.list" | "builtins.tuple"
                    | "builtins.dict" | "builtins.set" | "builtins.range" | "builtins.slice"
                    | "builtins.type" | "numpy.ndarray" | "numpy.dtype" | "numpy.generic"
                    | "numpy.void" | "numpy.integer" | "numpy.floating" | "numpy.number"
                    | "builtins.frozenset" | "builtins.property" | "functools.partial",
                    _,
                ) => matches!((builtin.0, value), ("functools.partial", Value::Partial(_))),
                _ => {
                    return raise(
                        E::TypeError,
                        "isinstance() arg 2 must be a type, a tuple of types, or a union",
                    );
                }
            },
            _ => {
                return raise(
                    E::TypeError,
                    "isinstance() arg 2 must be a type, a tuple of types, or a union",
                );
            }
        })
    }

    pub(super) fn is_subclass(&mut self, class: &Value, of: &Value) -> Run<bool> {
        if let Value::Tuple(classes) = of {
            for of in classes.iter() {
                if self.is_subclass(class, of)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        Ok(match (class, of) {
            (Value::Class(class), Value::Class(of)) => class.is_subclass(of),
            (_, Value::Builtin(Builtin("builtins.object"))) => true,
            (Value::Builtin(Builtin("builtins.bool")), Value::Builtin(Builtin("builtins.int"))) => {
                true
            }
            (Value::ScalarType(dtype), Value::Builtin(Builtin("numpy.integer"))) => {
                dtype.is_integer()
            }
            (Value::ScalarType(dtype), Value::Builtin(Builtin("numpy.floating"))) => {
                dtype.kind() == crate::kernel::dtype::Kind::Float
            }
            (a, b) => ops::identical(a, b),
        })
    }
}

/// `type(value)`.
pub(super) fn type_of(value: &Value) -> Run<Value> {
    Ok(match value {
        Value::Bool(_) => Value::Builtin(Builtin("builtins.bool")),
        Value::Int(_) => Value::Builtin(Builtin("builtins.int")),
        Value::Float(_) => Value::Builtin(Builtin("builtins.float")),
        Value::Complex(..) => Value::Builtin(Builtin("builtins.complex")),
        Value::Str(_) => Value::Builtin(Builtin("builtins.str")),
        Value::Bytes(_) => Value::Builtin(Builtin("builtins.bytes")),
        Value::Tuple(_) => Value::Builtin(Builtin("builtins.tuple")),
        Value::List(_) => Value::Builtin(Builtin("builtins.list")),
        Value::Dict(_) => Value::Builtin(Builtin("builtins.dict")),
        Value::Set(_) => Value::Builtin(Builtin("builtins.set")),
        Value::Range(_) => Value::Builtin(Builtin("builtins.range")),
        Value::Slice(_) => Value::Builtin(Builtin("builtins.slice")),
        Value::Array(_) => Value::Builtin(Builtin("numpy.ndarray")),
        Value::Record(_) => Value::Builtin(Builtin("numpy.void")),
        Value::Scalar(scalar) => Value::ScalarType(scalar.dtype()),
        Value::DType(_) => Value::Builtin(Builtin("numpy.dtype")),
        Value::Instance(instance) => Value::Class(instance.class.clone()),
        Value::Exception(exception) => Value::Class(exception.class.clone()),
        Value::StructRef(object) => Value::Class(object.class.clone()),
        Value::Class(_) | Value::ScalarType(_) => Value::Builtin(Builtin("builtins.type")),
        Value::Partial(_) => Value::Builtin(Builtin("functools.partial")),
        Value::None => Value::Builtin(Builtin("builtins.NoneType")),
        _ => {
            return refuse(
                format!("`type` of a '{}' is not supported", value.type_name()),
                "use `isinstance`",
            );
        }
    })
}
