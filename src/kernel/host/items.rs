//! Items: `object[index]`, and the arithmetic of slices.

use std::sync::Arc;

use super::{
    Host, containers,
    error::{raise, refuse},
    numba, numpy,
};
use crate::kernel::{
    exception::{ExceptionKind as E, Raised},
    value::{Builtin, Range, Run, Scalar, Slice, Value},
};

/// What a slice means for a sequence of some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: i64,
    pub(super) step: i64,
    pub(super) count: usize,
}

impl Span {
    /// The positions, in order.
    pub(super) fn positions(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |i| (self.start + i as i64 * self.step) as usize)
    }
}

impl Host {
    /// An integer from something that may stand as an index.
    pub(super) fn index(&mut self, value: &Value) -> Run<Option<i128>> {
        Ok(match value {
            Value::Int(v) => Some(*v),
            Value::Bool(v) => Some((*v).into()),
            Value::Scalar(Scalar::Bool(_)) => None,
            Value::Scalar(scalar) => scalar.as_int(),
            Value::Array(array) if array.ndim() == 0 && array.dtype().is_integer() => {
                array.read(array.offset()).and_then(|v| v.as_int())
            }
            Value::Instance(_) => match self.special(value, "__index__")? {
                Some(method) => {
                    let result = self.call(&method, Vec::new(), Vec::new())?;
                    self.index(&result)?
                }
                None => None,
            },
            _ => None,
        })
    }

    /// What a slice means for a length.
    pub(super) fn slice(&mut self, slice: &Slice, length: usize) -> Run<Span> {
        let mut part = |value: &Value| match value {
            Value::None => Ok(None),
            value => match self.index(value)? {
                Some(v) => {
                    Ok(Some(v.clamp(i128::from(i64::MIN) / 2, i128::from(i64::MAX) / 2) as i64))
                }
                None => raise(
                    E::TypeError,
                    "slice indices must be integers or None or have an __index__ method",
                ),
            },
        };
        let step = part(&slice.step)?.unwrap_or(1);
        let (start, stop) = (part(&slice.start)?, part(&slice.stop)?);
        if step == 0 {
            return raise(E::ValueError, "slice step cannot be zero");
        }
        let length = length as i64;
        let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let place = |v: i64| (if v < 0 { v + length } else { v }).clamp(low, high);
        let start = start.map_or(if step > 0 { low } else { high }, place);
        let stop = stop.map_or(if step > 0 { high } else { low }, place);
        let range = Range { start, stop, step };
        Ok(Span { start, step, count: range.len() })
    }

    fn position(&mut self, index: &Value, length: usize, kind: &str, verb: &str) -> Run<usize> {
        let Some(at) = self.index(index)? else {
            let what = if kind == "string" { "string indices must be integers, not" } else { "" };
            let name = index.type_name();
            return raise(
                E::TypeError,
                if what.is_empty() {
                    format!("{kind} indices must be integers or slices, not {name}")
                } else {
                    format!("{what} '{name}'")
                },
            );
        };
        let place = if at < 0 { at + length as i128 } else { at };
        if place < 0 || place >= length as i128 {
            return raise(E::IndexError, format!("{kind} {verb}index out of range"));
        }
        Ok(place as usize)
    }

    /// `object[index]`.
    pub(super) fn item(&mut self, object: &Value, index: &Value) -> Run<Value> {
        match (object, index) {
            (Value::Array(_), _) => numpy::get_item(self, object, index),
            (Value::Record(record), _) => numpy::record_item(self, record, index),
            (Value::List(list), Value::Slice(slice)) => {
                let items = list.get();
                let span = self.slice(slice, items.len())?;
                Ok(Value::list(span.positions().map(|at| items[at].clone()).collect()))
            }
            (Value::List(list), _) => {
                let length = list.lock().len();
                let at = self.position(index, length, "list", "")?;
                Ok(list.lock()[at].clone())
            }
            (Value::Tuple(items), Value::Slice(slice)) => {
                let span = self.slice(slice, items.len())?;
                Ok(Value::tuple(span.positions().map(|at| items[at].clone()).collect()))
            }
            (Value::Tuple(items), _) => {
                let at = self.position(index, items.len(), "tuple", "")?;
                Ok(items[at].clone())
            }
            (Value::Str(text), _) => {
                let ascii = text.is_ascii();
                let length = if ascii { text.len() } else { text.chars().count() };
                let char_at = |at: usize| {
                    if ascii {
                        text.as_bytes().get(at).map(|&b| b.into())
                    } else {
                        text.chars().nth(at)
                    }
                };
                if let Value::Slice(slice) = index {
                    let span = self.slice(slice, length)?;
                    if span.step == 1 && ascii {
                        let from = span.start as usize;
                        return Ok(Value::str(text[from..from + span.count].to_owned()));
                    }
                    let chars: Vec<char> = text.chars().collect();
                    return Ok(Value::str(span.positions().map(|at| chars[at]).collect()));
                }
                let at = self.position(index, length, "string", "")?;
                Ok(Value::str(char_at(at).into_iter().collect()))
            }
            (Value::Bytes(bytes), Value::Slice(slice)) => {
                let span = self.slice(slice, bytes.len())?;
                Ok(Value::Bytes(span.positions().map(|at| bytes[at]).collect()))
            }
            (Value::Bytes(bytes), _) => {
                let at = self.position(index, bytes.len(), "index", "")?;
                Ok(Value::Int(bytes[at].into()))
            }
            (Value::Dict(table), _) => {
                let key = self.key(index)?;
                let found = table.lock().get(&key).cloned();
                match found {
                    Some(value) => Ok(value),
                    None => Err(Raised::with(E::KeyError.class(), vec![index.clone()]).into()),
                }
            }
            (Value::Range(range), Value::Slice(slice)) => {
                let span = self.slice(slice, range.len())?;
                let at = |i: i64| i128::from(range.start) + i128::from(i) * i128::from(range.step);
                Ok(Value::Range(Range {
                    start: at(span.start) as i64,
                    stop: at(span.start + span.count as i64 * span.step) as i64,
                    step: range.step * span.step,
                }))
            }
            (Value::Range(range), _) => {
                let at = self.position(index, range.len(), "range object", "")?;
                Ok(Value::Int(range.get(at).into()))
            }
            (Value::Type(ty), _) => numba::type_item(self, ty, index),
            (Value::Builtin(Builtin("os.environ")), Value::Str(name)) => {
                match self.environment(name) {
                    Some(value) => Ok(Value::str(value)),
                    None => Err(Raised::with(E::KeyError.class(), vec![index.clone()]).into()),
                }
            }
            (Value::DType(_), _) => numpy::dtype_item(object, index),
            _ => match self.special(object, "__getitem__")? {
                Some(method) => self.call(&method, vec![index.clone()], Vec::new()),
                None if matches!(object, Value::Builtin(_) | Value::Class(_)) => refuse(
                    format!("`{}` cannot be indexed", crate::kernel::format::callable_name(object)),
                    "type hints have no meaning here: leave them out",
                ),
                None => raise(
                    E::TypeError,
                    format!("'{}' object is not subscriptable", object.type_name()),
                ),
            },
        }
    }

    /// `object[index] = value`.
    pub(super) fn set_item(&mut self, object: &Value, index: &Value, value: Value) -> Run<()> {
        match (object, index) {
            (Value::Array(array), _) => numpy::set_item(self, array, index, &value),
            (Value::Record(record), _) => numpy::set_record_item(self, record, index, &value),
            (Value::List(list), Value::Slice(slice)) => {
                let new = self.collect(&value)?;
                let length = list.lock().len();
                let span = self.slice(slice, length)?;
                let mut items = list.lock();
                if span.step == 1 {
                    let from = span.start as usize;
                    items.splice(from..from + span.count, new);
                } else if new.len() != span.count {
                    drop(items);
                    return raise(
                        E::ValueError,
                        format!(
                            "attempt to assign sequence of size {} to extended slice of size {}",
                            new.len(),
                            span.count
                        ),
                    );
                } else {
                    for (at, value) in span.positions().zip(new) {
                        items[at] = value;
                    }
                }
                Ok(())
            }
            (Value::List(list), _) => {
                let length = list.lock().len();
                let at = self.position(index, length, "list", "assignment ")?;
                list.lock()[at] = value;
                Ok(())
            }
            (Value::Dict(table), _) => {
                let key = self.key(index)?;
                table.lock().insert(key, index.clone(), value);
                Ok(())
            }
            _ => match self.special(object, "__setitem__")? {
                Some(method) => {
                    self.call(&method, vec![index.clone(), value], Vec::new()).map(|_| ())
                }
                None => raise(
                    E::TypeError,
                    format!("'{}' object does not support item assignment", object.type_name()),
                ),
            },
        }
    }

    /// `del object[index]`.
    pub(super) fn delete_item(&mut self, object: &Value, index: &Value) -> Run<()> {
        match (object, index) {
            (Value::List(list), Value::Slice(slice)) => {
                let length = list.lock().len();
                let span = self.slice(slice, length)?;
                let mut gone: Vec<usize> = span.positions().collect();
                gone.sort_unstable();
                let mut items = list.lock();
                for at in gone.into_iter().rev() {
                    items.remove(at);
                }
                Ok(())
            }
            (Value::List(list), _) => {
                let length = list.lock().len();
                let at = self.position(index, length, "list", "assignment ")?;
                list.lock().remove(at);
                Ok(())
            }
            (Value::Dict(table), _) => {
                let key = self.key(index)?;
                let gone = table.lock().remove(&key);
                match gone {
                    Some(_) => Ok(()),
                    None => Err(Raised::with(E::KeyError.class(), vec![index.clone()]).into()),
                }
            }
            _ => match self.special(object, "__delitem__")? {
                Some(method) => self.call(&method, vec![index.clone()], Vec::new()).map(|_| ()),
                None => raise(
                    E::TypeError,
                    format!("'{}' object doesn't support item deletion", object.type_name()),
                ),
            },
        }
    }

    /// `len(value)`.
    pub(super) fn length(&mut self, value: &Value) -> Run<usize> {
        Ok(match value {
            Value::Str(text) => text.chars().count(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Tuple(items) => items.len(),
            Value::List(items) => items.lock().len(),
            Value::Dict(table) | Value::Set(table) => table.lock().len(),
            Value::View(view) => view.dict.lock().len(),
            Value::Range(range) => range.len(),
            Value::Array(array) => match array.shape().first() {
                Some(&n) => n,
                None => return raise(E::TypeError, "len() of unsized object"),
            },
            Value::Record(record) => containers::fields(record),
            Value::Type(ty) if ty.elements().is_some() => ty.elements().map_or(0, <[_]>::len),
            _ => match self.special(value, "__len__")? {
                Some(method) => {
                    let length = self.call(&method, Vec::new(), Vec::new())?;
                    match self.index(&length)? {
                        Some(n) if n >= 0 => n as usize,
                        _ => return raise(E::ValueError, "__len__() should return >= 0"),
                    }
                }
                None => {
                    return raise(
                        E::TypeError,
                        format!("object of type '{}' has no len()", value.type_name()),
                    );
                }
            },
        })
    }

    /// A new list of the items in order, sorted stably by `key`.
    pub(super) fn sorted(
        &mut self,
        items: Vec<Value>,
        key: Option<&Value>,
        reverse: bool,
    ) -> Run<Vec<Value>> {
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let key = match key {
                None | Some(Value::None) => item.clone(),
                Some(key) => self.call(key, vec![item.clone()], Vec::new())?,
            };
            keyed.push((key, item));
        }
        if reverse {
            keyed.reverse();
        }
        let mut sorted = self.merge_sort(keyed)?;
        if reverse {
            sorted.reverse();
        }
        Ok(sorted.into_iter().map(|(_, item)| item).collect())
    }

    /// The comparison may raise, which the standard sort has no place for.
    fn merge_sort(&mut self, mut items: Vec<(Value, Value)>) -> Run<Vec<(Value, Value)>> {
        if items.len() < 2 {
            return Ok(items);
        }
        let right = items.split_off(items.len() / 2);
        let mut left = self.merge_sort(items)?.into_iter().peekable();
        let mut right = self.merge_sort(right)?.into_iter().peekable();
        let mut out = Vec::with_capacity(left.len() + right.len());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let take_right = self.less(&b.0, &a.0)?;
            out.extend(if take_right { right.next() } else { left.next() });
        }
        out.extend(left);
        out.extend(right);
        Ok(out)
    }
}

/// `slice(...)`.
pub(super) fn make_slice(args: Vec<Value>) -> Run<Value> {
    let mut args = args.into_iter();
    let slice = match (args.next(), args.next(), args.next(), args.next()) {
        (Some(stop), None, ..) => Slice { start: Value::None, stop, step: Value::None },
        (Some(start), Some(stop), step, None) => {
            Slice { start, stop, step: step.unwrap_or_default() }
        }
        _ => return raise(E::TypeError, "slice expected 1 to 3 arguments"),
    };
    Ok(Value::Slice(Arc::new(slice)))
}
