//! Operators.
//!
//! ```text
//!   binary ─┬─ NumPy operands ──► numpy::binary
//!           ├─ numbers ──► number.rs
//!           ├─ sequences, sets, strings
//!           └─ instances ──► __add__, __radd__, ...
//! ```

use std::{cmp::Ordering, sync::Arc};

use super::{
    Host,
    error::{bounded, raise, refuse},
    number, numpy, strings,
};
use crate::kernel::{
    exception::ExceptionKind as E,
    syntax::{BinaryOp, CompareOp, UnaryOp},
    table::{Key, Table},
    types::Ty,
    value::{Run, Shared, Value},
};

/// How long a repeated sequence may become.
const MAX_LENGTH: i128 = 1 << 31;

impl Host {
    /// `left op right`.
    pub(super) fn binary(&mut self, op: BinaryOp, left: &Value, right: &Value) -> Run<Value> {
        use BinaryOp as B;
        if is_numpy(left) || is_numpy(right) {
            if let Value::Instance(_) = right
                && let Some(result) = self.operator_method(op, left, right)?
            {
                return Ok(result);
            }
            return numpy::binary(self, op, left, right);
        }
        if let (Some(a), Some(b)) = (number::Number::of(left), number::Number::of(right)) {
            return number::binary(op, a, b, left, right);
        }
        match (op, left, right) {
            (B::Add, Value::Str(a), Value::Str(b)) => return Ok(Value::str(format!("{a}{b}"))),
            (B::Add, Value::List(a), Value::List(b)) => {
                let mut items = a.get();
                items.extend(b.get());
                return Ok(Value::list(items));
            }
            (B::Add, Value::Tuple(a), Value::Tuple(b)) => {
                return Ok(Value::Tuple(a.iter().chain(b.iter()).cloned().collect()));
            }
            (B::Add, Value::Bytes(a), Value::Bytes(b)) => {
                return Ok(Value::Bytes(a.iter().chain(b.iter()).copied().collect()));
            }
            (
                B::Mul,
                sequence @ (Value::Str(_) | Value::List(_) | Value::Tuple(_)),
                Value::Int(_) | Value::Bool(_),
            ) => {
                return repeat(sequence, right);
            }
            (
                B::Mul,
                Value::Int(_) | Value::Bool(_),
                sequence @ (Value::Str(_) | Value::List(_) | Value::Tuple(_)),
            ) => {
                return repeat(sequence, left);
            }
            (B::Mod, Value::Str(text), _) => {
                return strings::percent(self, text, right).map(Value::str);
            }
            (B::BitOr, Value::Dict(a), Value::Dict(b)) => {
                let mut table = a.get();
                for (key, value) in b.get().iter() {
                    table.insert(self.key(key)?, key.clone(), value.clone());
                }
                return Ok(Value::Dict(Arc::new(Shared::new(table))));
            }
            (B::BitOr | B::BitAnd | B::Sub | B::BitXor, Value::Set(a), Value::Set(b)) => {
                return Ok(Value::Set(Arc::new(Shared::new(set_operation(
                    op,
                    &a.get(),
                    &b.get(),
                )))));
            }
            _ => {}
        }
        if let Some(result) = self.operator_method(op, left, right)? {
            return Ok(result);
        }
        if op == B::Add
            && let (Value::Str(_) | Value::List(_) | Value::Tuple(_), kind) =
                (left, left.type_name())
        {
            let message = match left {
                Value::Str(_) => {
                    format!("can only concatenate str (not \"{}\") to str", right.type_name())
                }
                _ => {
                    format!("can only concatenate {kind} (not \"{}\") to {kind}", right.type_name())
                }
            };
            return raise(E::TypeError, message);
        }
        if op == B::Mul {
            for (sequence, other) in [(left, right), (right, left)] {
                if matches!(sequence, Value::Str(_) | Value::List(_) | Value::Tuple(_)) {
                    let name = other.type_name();
                    return raise(
                        E::TypeError,
                        format!("can't multiply sequence by non-int of type '{name}'"),
                    );
                }
            }
        }
        let symbol = if op == B::Pow { "** or pow()" } else { op.symbol() };
        raise(
            E::TypeError,
            format!(
                "unsupported operand type(s) for {symbol}: '{}' and '{}'",
                left.type_name(),
                right.type_name()
            ),
        )
    }

    fn operator_method(&mut self, op: BinaryOp, left: &Value, right: &Value) -> Run<Option<Value>> {
        let name = match op {
            BinaryOp::Add => "add",
            BinaryOp::Sub => "sub",
            BinaryOp::Mul => "mul",
            BinaryOp::Div => "truediv",
            BinaryOp::FloorDiv => "floordiv",
            BinaryOp::Mod => "mod",
            BinaryOp::Pow => "pow",
            BinaryOp::MatMul => "matmul",
            BinaryOp::Shl => "lshift",
            BinaryOp::Shr => "rshift",
            BinaryOp::BitAnd => "and",
            BinaryOp::BitOr => "or",
            BinaryOp::BitXor => "xor",
        };
        for (object, other, prefix) in [(left, right, "__"), (right, left, "__r")] {
            if let Some(method) = self.special(object, &format!("{prefix}{name}__"))? {
                match self.call(&method, vec![other.clone()], Vec::new())? {
                    Value::NotImplemented => {}
                    result => return Ok(Some(result)),
                }
            }
        }
        Ok(None)
    }

    /// `left op= right`: arrays and lists change in place.
    pub(super) fn binary_in_place(
        &mut self,
        op: BinaryOp,
        left: &Value,
        right: &Value,
    ) -> Run<Value> {
        match (op, left) {
            (_, Value::Array(array)) => {
                numpy::binary_in_place(self, op, array, right)?;
                return Ok(left.clone());
            }
            (BinaryOp::Add, Value::List(list)) => {
                let items = self.collect(right)?;
                list.lock().extend(items);
                return Ok(left.clone());
            }
            (BinaryOp::Mul, Value::List(list)) => {
                if let Value::List(new) = self.binary(op, left, right)? {
                    *list.lock() = new.get();
                }
                return Ok(left.clone());
            }
            (BinaryOp::BitOr, Value::Dict(table)) => {
                if let Value::Dict(new) = self.binary(op, left, right)? {
                    *table.lock() = new.get();
                }
                return Ok(left.clone());
            }
            (_, Value::Set(table)) => {
                if let Value::Set(new) = self.binary(op, left, right)? {
                    *table.lock() = new.get();
                }
                return Ok(left.clone());
            }
            (_, Value::Instance(_)) => {
                let name = match op {
                    BinaryOp::Add => "__iadd__",
                    BinaryOp::Sub => "__isub__",
                    BinaryOp::Mul => "__imul__",
                    BinaryOp::Div => "__itruediv__",
                    _ => return self.binary(op, left, right),
                };
                if let Some(method) = self.special(left, name)? {
                    return self.call(&method, vec![right.clone()], Vec::new());
                }
            }
            _ => {}
        }
        self.binary(op, left, right)
    }

    /// `op value`, for all but `not`.
    pub(super) fn unary(&mut self, op: UnaryOp, value: &Value) -> Run<Value> {
        if is_numpy(value) {
            return numpy::unary(self, op, value);
        }
        match (op, value) {
            (UnaryOp::Minus, Value::Int(v)) => return bounded(v.checked_neg()).map(Value::Int),
            (UnaryOp::Minus, Value::Bool(v)) => return Ok(Value::Int(-i128::from(*v))),
            (UnaryOp::Minus, Value::Float(v)) => return Ok(Value::Float(-v)),
            (UnaryOp::Minus, Value::Complex(re, im)) => return Ok(Value::Complex(-re, -im)),
            (UnaryOp::Plus, Value::Int(_) | Value::Float(_) | Value::Complex(..)) => {
                return Ok(value.clone());
            }
            (UnaryOp::Plus, Value::Bool(v)) => return Ok(Value::Int((*v).into())),
            (UnaryOp::Invert, Value::Int(v)) => return Ok(Value::Int(!v)),
            (UnaryOp::Invert, Value::Bool(v)) => return Ok(Value::Int(!i128::from(*v))),
            _ => {}
        }
        let name = match op {
            UnaryOp::Plus => "__pos__",
            UnaryOp::Minus => "__neg__",
            _ => "__invert__",
        };
        if let Some(method) = self.special(value, name)? {
            return self.call(&method, Vec::new(), Vec::new());
        }
        raise(
            E::TypeError,
            format!("bad operand type for unary {}: '{}'", op.symbol(), value.type_name()),
        )
    }

    /// `bool(value)`.
    pub(super) fn truth(&mut self, value: &Value) -> Run<bool> {
        Ok(match value {
            Value::None => false,
            Value::Bool(v) => *v,
            Value::Int(v) => *v != 0,
            Value::Float(v) => *v != 0.0,
            Value::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Value::Str(v) => !v.is_empty(),
            Value::Bytes(v) => !v.is_empty(),
            Value::Tuple(v) => !v.is_empty(),
            Value::List(v) => !v.lock().is_empty(),
            Value::Dict(v) | Value::Set(v) => !v.lock().is_empty(),
            Value::Range(v) => !v.is_empty(),
            Value::Scalar(v) => v.truth(),
            Value::Array(array) => match array.len() {
                1 => array.read(array.offset()).is_some_and(|v| v.truth()),
                0 => {
                    return raise(
                        E::ValueError,
                        "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty.",
                    );
                }
                _ => {
                    return raise(
                        E::ValueError,
                        "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()",
                    );
                }
            },
            Value::Instance(_) => {
                if let Some(method) = self.special(value, "__bool__")? {
                    return match self.call(&method, Vec::new(), Vec::new())? {
                        Value::Bool(v) => Ok(v),
                        other => raise(
                            E::TypeError,
                            format!("__bool__ should return bool, returned {}", other.type_name()),
                        ),
                    };
                }
                match self.special(value, "__len__")? {
                    Some(method) => {
                        let length = self.call(&method, Vec::new(), Vec::new())?;
                        self.truth(&length)?
                    }
                    None => true,
                }
            }
            _ => true,
        })
    }

    /// `left op right`, of a comparison.
    pub(super) fn compare(&mut self, op: CompareOp, left: &Value, right: &Value) -> Run<Value> {
        match op {
            CompareOp::Is => return Ok(Value::Bool(identical(left, right))),
            CompareOp::IsNot => return Ok(Value::Bool(!identical(left, right))),
            CompareOp::In => return Ok(Value::Bool(self.contains(right, left)?)),
            CompareOp::NotIn => return Ok(Value::Bool(!self.contains(right, left)?)),
            _ => {}
        }
        if (is_numpy(left) || is_numpy(right))
            && !matches!((left, right), (Value::Instance(_), _) | (_, Value::Instance(_)))
        {
            return numpy::compare(self, op, left, right);
        }
        let names = match op {
            CompareOp::Eq => ["__eq__", "__eq__"],
            CompareOp::Ne => ["__ne__", "__ne__"],
            CompareOp::Lt => ["__lt__", "__gt__"],
            CompareOp::Le => ["__le__", "__ge__"],
            CompareOp::Gt => ["__gt__", "__lt__"],
            _ => ["__ge__", "__le__"],
        };
        for (name, object, other) in [(names[0], left, right), (names[1], right, left)] {
            if let Some(method) = self.special(object, name)? {
                match self.call(&method, vec![other.clone()], Vec::new())? {
                    Value::NotImplemented => {}
                    result => return Ok(result),
                }
            } else if op == CompareOp::Ne
                && let Some(method) = self.special(object, "__eq__")?
            {
                match self.call(&method, vec![other.clone()], Vec::new())? {
                    Value::NotImplemented => {}
                    result => return Ok(Value::Bool(!self.truth(&result)?)),
                }
            }
        }
        match op {
            CompareOp::Eq => return Ok(Value::Bool(self.equal(left, right)?)),
            CompareOp::Ne => return Ok(Value::Bool(!self.equal(left, right)?)),
            _ => {}
        }
        if let (Value::Set(a), Value::Set(b)) = (left, right) {
            let (a, b) = (a.get(), b.get());
            let within =
                |a: &Table, b: &Table| a.keys().all(|k| Key::of(k).is_some_and(|k| b.contains(&k)));
            return Ok(Value::Bool(match op {
                CompareOp::Lt => a.len() < b.len() && within(&a, &b),
                CompareOp::Le => within(&a, &b),
                CompareOp::Gt => b.len() < a.len() && within(&b, &a),
                _ => within(&b, &a),
            }));
        }
        let order = match self.order(left, right)? {
            Some(order) => order,
            None if number::Number::of(left).is_some()
                && number::Number::of(right).is_some()
                && !matches!(left, Value::Complex(..))
                && !matches!(right, Value::Complex(..)) =>
            {
                return Ok(Value::Bool(false)); // nan
            }
            None => {
                return raise(
                    E::TypeError,
                    format!(
                        "'{}' not supported between instances of '{}' and '{}'",
                        op.symbol(),
                        left.type_name(),
                        right.type_name()
                    ),
                );
            }
        };
        Ok(Value::Bool(match op {
            CompareOp::Lt => order == Ordering::Less,
            CompareOp::Le => order != Ordering::Greater,
            CompareOp::Gt => order == Ordering::Greater,
            _ => order != Ordering::Less,
        }))
    }

    /// `left < right` and its kin for builtin types; `None` where there is no order.
    fn order(&mut self, left: &Value, right: &Value) -> Run<Option<Ordering>> {
        Ok(match (left, right) {
            (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Tuple(a), Value::Tuple(b)) => self.order_items(a, b)?,
            (Value::List(a), Value::List(b)) => self.order_items(&a.get(), &b.get())?,
            _ => match (number::Number::of(left), number::Number::of(right)) {
                (Some(a), Some(b)) => a.partial_cmp(&b),
                _ => None,
            },
        })
    }

    fn order_items(&mut self, a: &[Value], b: &[Value]) -> Run<Option<Ordering>> {
        for (x, y) in a.iter().zip(b) {
            if !self.equal(x, y)? {
                let less = self.compare(CompareOp::Lt, x, y)?;
                return Ok(Some(if self.truth(&less)? {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }));
            }
        }
        Ok(Some(a.len().cmp(&b.len())))
    }

    /// `left < right`, for sorting.
    pub(super) fn less(&mut self, left: &Value, right: &Value) -> Run<bool> {
        let result = self.compare(CompareOp::Lt, left, right)?;
        self.truth(&result)
    }

    /// `left == right` as a bool.
    pub(super) fn equal(&mut self, left: &Value, right: &Value) -> Run<bool> {
        if identical(left, right)
            && !matches!(
                left,
                Value::Float(_) | Value::Complex(..) | Value::Scalar(_) | Value::Array(_)
            )
        {
            return Ok(true);
        }
        Ok(match (left, right) {
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Tuple(a), Value::Tuple(b)) => self.equal_items(a, b)?,
            (Value::List(a), Value::List(b)) => self.equal_items(&a.get(), &b.get())?,
            (Value::Dict(a), Value::Dict(b)) => {
                let (a, b) = (a.get(), b.get());
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (key, value) in a.iter() {
                    let other = Key::of(key).and_then(|key| b.get(&key).cloned());
                    match other {
                        Some(other) if self.equal(value, &other)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Value::Set(a), Value::Set(b)) => {
                let (a, b) = (a.get(), b.get());
                a.len() == b.len()
                    && a.keys().all(|key| Key::of(key).is_some_and(|key| b.contains(&key)))
            }
            (Value::Slice(a), Value::Slice(b)) => {
                self.equal(&a.start, &b.start)?
                    && self.equal(&a.stop, &b.stop)?
                    && self.equal(&a.step, &b.step)?
            }
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::Signature(a), Value::Signature(b)) => a == b,
            (Value::DType(_) | Value::ScalarType(_), _)
            | (_, Value::DType(_) | Value::ScalarType(_)) => match (left, right) {
                (Value::ScalarType(a), Value::ScalarType(b)) => a == b,
                (Value::DType(a), other) | (other, Value::DType(a)) => {
                    numpy::dtype_of(other).is_some_and(|b| *a == b)
                }
                _ => false,
            },
            _ if is_numpy(left) || is_numpy(right) => {
                let result = numpy::compare(self, CompareOp::Eq, left, right)?;
                self.truth(&result)?
            }
            (Value::Instance(_), _) | (_, Value::Instance(_)) => {
                for (object, other) in [(left, right), (right, left)] {
                    if let Some(method) = self.special(object, "__eq__")? {
                        match self.call(&method, vec![other.clone()], Vec::new())? {
                            Value::NotImplemented => {}
                            result => return self.truth(&result),
                        }
                    }
                }
                false
            }
            _ => match (number::Number::of(left), number::Number::of(right)) {
                (Some(a), Some(b)) => a == b,
                _ => match (Key::of(left), Key::of(right)) {
                    (Some(a), Some(b)) => a == b,
                    _ => false,
                },
            },
        })
    }

    fn equal_items(&mut self, a: &[Value], b: &[Value]) -> Run<bool> {
        if a.len() != b.len() {
            return Ok(false);
        }
        // Lists may hold themselves.
        if self.depth >= super::MAX_DEPTH {
            return raise(E::RecursionError, "maximum recursion depth exceeded in comparison");
        }
        self.depth += 1;
        let mut equal = Ok(true);
        for (x, y) in a.iter().zip(b) {
            // Items that are the same object count as equal, as Python compares them.
            if !same_object(x, y) {
                equal = self.equal(x, y);
            }
            if !matches!(equal, Ok(true)) {
                break;
            }
        }
        self.depth -= 1;
        equal
    }

    /// `item in container`.
    pub(super) fn contains(&mut self, container: &Value, item: &Value) -> Run<bool> {
        match container {
            Value::Str(text) => match item {
                Value::Str(part) => Ok(text.contains(&**part)),
                other => raise(
                    E::TypeError,
                    format!(
                        "'in <string>' requires string as left operand, not {}",
                        other.type_name()
                    ),
                ),
            },
            Value::Dict(table) | Value::Set(table) => {
                let key = self.key(item)?;
                Ok(table.lock().contains(&key))
            }
            Value::Range(range) => Ok(match number::Number::of(item) {
                Some(number::Number::Int(v)) => {
                    let (start, step) = (i128::from(range.start), i128::from(range.step));
                    let at = (v - start) / step;
                    (v - start) % step == 0 && at >= 0 && at < range.len() as i128
                }
                _ => false,
            }),
            Value::Array(array) => {
                let result =
                    numpy::compare(self, CompareOp::Eq, &Value::Array(array.clone()), item)?;
                numpy::any(&result)
            }
            Value::Instance(_) => {
                if let Some(method) = self.special(container, "__contains__")? {
                    let result = self.call(&method, vec![item.clone()], Vec::new())?;
                    return self.truth(&result);
                }
                self.contains_by_iteration(container, item)
            }
            _ => self.contains_by_iteration(container, item).map_err(|stop| match stop {
                crate::kernel::value::Stop::Raised(r) if !container.is_iterable() => {
                    let message =
                        format!("argument of type '{}' is not iterable", container.type_name());
                    drop(r);
                    crate::kernel::value::Raised::new(E::TypeError, message).into()
                }
                other => other,
            }),
        }
    }

    fn contains_by_iteration(&mut self, container: &Value, item: &Value) -> Run<bool> {
        let iter = self.iterate(container)?;
        while let Some(candidate) = self.next(&iter)? {
            if same_object(&candidate, item) || self.equal(&candidate, item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The key of a value in a dict or set.
    pub(super) fn key(&mut self, value: &Value) -> Run<Key> {
        if let Value::Instance(instance) = value
            && (instance.class.lookup("__hash__").is_some()
                || instance.class.lookup("__eq__").is_some())
        {
            return refuse(
                format!(
                    "instances of '{}' cannot be keys, because the class defines `__eq__` or `__hash__`",
                    instance.class.name
                ),
                "use a tuple of its fields as the key",
            );
        }
        match Key::of(value) {
            Some(key) => Ok(key),
            None => raise(E::TypeError, format!("unhashable type: '{}'", unhashable(value))),
        }
    }
}

/// The type that makes a value unhashable.
fn unhashable(value: &Value) -> String {
    match value {
        Value::Tuple(items) => items
            .iter()
            .find(|item| Key::of(item).is_none())
            .map_or_else(|| value.type_name(), unhashable),
        _ => value.type_name(),
    }
}

/// Whether NumPy's rules apply to an operand.
pub(super) fn is_numpy(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Scalar(_) | Value::Record(_))
}

/// `a is b`, as far as values show it: small numbers and strings that are equal are one object.
pub(super) fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::None, Value::None)
        | (Value::Ellipsis, Value::Ellipsis)
        | (Value::NotImplemented, Value::NotImplemented) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::TypeClass(a), Value::TypeClass(b)) => a == b,
        (Value::DType(a), Value::DType(b)) | (Value::ScalarType(a), Value::ScalarType(b)) => a == b,
        (Value::Builtin(a), Value::Builtin(b)) => a == b,
        _ => same_object(a, b),
    }
}

/// Whether two handles are one object.
pub(super) fn same_object(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tuple(a), Value::Tuple(b)) => Arc::ptr_eq(a, b),
        (Value::List(a), Value::List(b)) => Arc::ptr_eq(a, b),
        (Value::Dict(a), Value::Dict(b)) | (Value::Set(a), Value::Set(b)) => Arc::ptr_eq(a, b),
        (Value::Array(a), Value::Array(b)) | (Value::Record(a), Value::Record(b)) => {
            Arc::ptr_eq(a, b)
        }
        (Value::Slice(a), Value::Slice(b)) => Arc::ptr_eq(a, b),
        (Value::Scalar(_), _) | (Value::Complex(..), _) => false,
        (Value::Type(Ty::None), Value::None) => false,
        (Value::Function(a), Value::Function(b)) => Arc::ptr_eq(a, b),
        (Value::Class(a), Value::Class(b)) => Arc::ptr_eq(a, b),
        (Value::Instance(a), Value::Instance(b)) => Arc::ptr_eq(a, b),
        (Value::Exception(a), Value::Exception(b)) => Arc::ptr_eq(a, b),
        (Value::Module(a), Value::Module(b)) => Arc::ptr_eq(a, b),
        (Value::Kernel(a), Value::Kernel(b)) => Arc::ptr_eq(a, b),
        (Value::StructRef(a), Value::StructRef(b)) => Arc::ptr_eq(a, b),
        (Value::Iterator(a), Value::Iterator(b)) => Arc::ptr_eq(a, b),
        (Value::Partial(a), Value::Partial(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

fn repeat(sequence: &Value, count: &Value) -> Run<Value> {
    let count = match count {
        Value::Int(n) => (*n).max(0),
        Value::Bool(b) => (*b).into(),
        _ => 0,
    };
    let length = match sequence {
        Value::Str(text) => text.len(),
        Value::List(items) => items.lock().len(),
        Value::Tuple(items) => items.len(),
        _ => 0,
    };
    if (length as i128).checked_mul(count).is_none_or(|total| total > MAX_LENGTH) {
        return raise(E::MemoryError, "");
    }
    let count = count as usize;
    let all = |items: &[Value]| {
        items.iter().cycle().take(items.len() * count).cloned().collect::<Vec<_>>()
    };
    Ok(match sequence {
        Value::Str(text) => Value::str(text.repeat(count)),
        Value::List(items) => Value::list(all(&items.get())),
        Value::Tuple(items) => Value::tuple(all(items)),
        other => other.clone(),
    })
}

fn set_operation(op: BinaryOp, a: &Table, b: &Table) -> Table {
    let mut out = Table::default();
    let mut add = |table: &Table, keep: &dyn Fn(&Key) -> bool| {
        for value in table.keys() {
            if let Some(key) = Key::of(value).filter(|key| keep(key)) {
                out.insert(key, value.clone(), Value::None);
            }
        }
    };
    match op {
        BinaryOp::BitOr => {
            add(a, &|_| true);
            add(b, &|_| true);
        }
        BinaryOp::BitAnd => add(a, &|key| b.contains(key)),
        BinaryOp::Sub => add(a, &|key| !b.contains(key)),
        _ => {
            add(a, &|key| !b.contains(key));
            add(b, &|key| !a.contains(key));
        }
    }
    out
}
