//! Iterators.

use std::sync::Arc;

use super::{
    Host,
    error::{raise, refuse},
    frame::Frame,
};
use crate::kernel::{
    exception::ExceptionKind as E,
    syntax::Comprehension,
    value::{Array, Range, Run, Shared, Stop, Value},
};

/// The state of an iterator.
#[derive(Debug)]
pub enum Iter {
    /// Items that are known already.
    Items(std::vec::IntoIter<Value>),
    /// A list, which may change meanwhile.
    List(Arc<Shared<Vec<Value>>>, usize),
    /// The keys of a dict or set (`true`) that had a number of them; it must not change meanwhile.
    Keys(std::vec::IntoIter<Value>, Value, usize),
    /// A range, and how many items were taken.
    Range(Range, usize),
    /// The first axis of an array.
    Array(Arc<Array>, usize),
    /// A string from a byte on.
    Chars(Arc<str>, usize),
    /// `enumerate`.
    Enumerate(Arc<Shared<Iter>>, i128),
    /// `zip`, strict or not.
    Zip(Vec<Arc<Shared<Iter>>>, bool),
    /// `map`.
    Map(Value, Vec<Arc<Shared<Iter>>>),
    /// `filter`.
    Filter(Value, Arc<Shared<Iter>>),
    /// A generator expression.
    Generator(Box<Generator>),
    /// An object with `__next__`.
    Object(Value),
    /// At its end.
    Done,
    /// Taken out while it runs.
    Running,
}

/// A generator expression between two items.
#[derive(Debug)]
pub struct Generator {
    pub(super) syntax: Arc<Comprehension>,
    pub(super) frame: Frame,
    /// The iterators of the clauses that are running, outermost first.
    pub(super) iters: Vec<Arc<Shared<Iter>>>,
}

impl Host {
    /// `iter(value)`.
    pub(super) fn iterate(&mut self, value: &Value) -> Run<Arc<Shared<Iter>>> {
        let iter = match value {
            Value::Iterator(iter) => return Ok(iter.clone()),
            Value::Tuple(items) => {
                let items: Vec<Value> = items.iter().cloned().collect();
                Iter::Items(items.into_iter())
            }
            Value::List(list) => Iter::List(list.clone(), 0),
            Value::View(view) => {
                let items = view.items();
                let count = items.len();
                Iter::Keys(items.into_iter(), Value::Dict(view.dict.clone()), count)
            }
            Value::Set(table) if table.lock().len() > 1 => {
                return refuse(
                    "the order of a set's items is not the same from run to run",
                    "loop over `sorted(...)` of it, or keep a list or a dict",
                );
            }
            Value::Dict(table) | Value::Set(table) => {
                let keys: Vec<Value> = table.lock().keys().cloned().collect();
                let count = keys.len();
                Iter::Keys(keys.into_iter(), value.clone(), count)
            }
            Value::Range(range) => Iter::Range(*range, 0),
            Value::Str(text) => Iter::Chars(text.clone(), 0),
            Value::Bytes(bytes) => {
                let items: Vec<Value> = bytes.iter().map(|&byte| Value::Int(byte.into())).collect();
                Iter::Items(items.into_iter())
            }
            Value::Array(array) if array.ndim() > 0 => Iter::Array(array.clone(), 0),
            Value::Array(_) => return raise(E::TypeError, "iteration over a 0-d array"),
            Value::Record(record) => {
                let items: Vec<Value> = super::numpy::record_items(record);
                Iter::Items(items.into_iter())
            }
            Value::Type(ty) if ty.elements().is_some() => {
                let items: Vec<Value> =
                    ty.elements().into_iter().flatten().cloned().map(Value::Type).collect();
                Iter::Items(items.into_iter())
            }
            Value::Instance(_) => {
                if let Some(method) = self.special(value, "__iter__")? {
                    return match self.call(&method, Vec::new(), Vec::new())? {
                        Value::Iterator(iter) => Ok(iter),
                        object => Ok(Arc::new(Shared::new(Iter::Object(object)))),
                    };
                }
                return raise(
                    E::TypeError,
                    format!("'{}' object is not iterable", value.type_name()),
                );
            }
            _ => {
                return raise(
                    E::TypeError,
                    format!("'{}' object is not iterable", value.type_name()),
                );
            }
        };
        Ok(Arc::new(Shared::new(iter)))
    }

    /// `next(iter)`, or `None` at the end.
    pub(super) fn next(&mut self, iter: &Arc<Shared<Iter>>) -> Run<Option<Value>> {
        // Nothing stays locked while host code runs.
        let mut state = std::mem::replace(&mut *iter.lock(), Iter::Running);
        let result = self.advance(&mut state);
        if !matches!(result, Ok(Some(_))) && !matches!(state, Iter::Object(_)) {
            state = Iter::Done;
        }
        *iter.lock() = state;
        result
    }

    fn advance(&mut self, state: &mut Iter) -> Run<Option<Value>> {
        Ok(match state {
            Iter::Items(items) => items.next(),
            Iter::List(list, at) => {
                let item = list.lock().get(*at).cloned();
                *at += 1;
                item
            }
            Iter::Keys(items, table, count) => {
                let (now, name) = match table {
                    Value::Dict(table) => (table.lock().len(), "dictionary"),
                    Value::Set(table) => (table.lock().len(), "Set"),
                    _ => (*count, ""),
                };
                if now != *count {
                    return raise(E::RuntimeError, format!("{name} changed size during iteration"));
                }
                items.next()
            }
            Iter::Range(range, at) => {
                if *at >= range.len() {
                    return Ok(None);
                }
                *at += 1;
                Some(Value::Int(range.get(*at - 1).into()))
            }
            Iter::Array(array, at) => {
                if *at >= array.shape()[0] {
                    return Ok(None);
                }
                *at += 1;
                Some(super::numpy::element(&array.at(*at - 1)))
            }
            Iter::Chars(text, at) => {
                let next = text[*at..].chars().next();
                *at += next.map_or(0, char::len_utf8);
                next.map(|c| Value::str(c.to_string()))
            }
            Iter::Enumerate(inner, count) => match self.next(inner)? {
                None => None,
                Some(item) => {
                    *count += 1;
                    Some(Value::tuple(vec![Value::Int(*count - 1), item]))
                }
            },
            Iter::Zip(inner, strict) => {
                let mut items = Vec::with_capacity(inner.len());
                for (i, iter) in inner.iter().enumerate() {
                    match self.next(iter)? {
                        Some(item) => items.push(item),
                        None if !*strict => return Ok(None),
                        None if i > 0 => {
                            let what = if i == 1 {
                                "argument 1".into()
                            } else {
                                format!("arguments 1-{i}")
                            };
                            return raise(
                                E::ValueError,
                                format!("zip() argument {} is shorter than {what}", i + 1),
                            );
                        }
                        None => {
                            for (j, iter) in inner.iter().enumerate().skip(1) {
                                if self.next(iter)?.is_some() {
                                    let what = if j == 1 {
                                        "argument 1".into()
                                    } else {
                                        format!("arguments 1-{j}")
                                    };
                                    return raise(
                                        E::ValueError,
                                        format!("zip() argument {} is longer than {what}", j + 1),
                                    );
                                }
                            }
                            return Ok(None);
                        }
                    }
                }
                (!items.is_empty()).then(|| Value::tuple(items))
            }
            Iter::Map(function, inner) => {
                let mut args = Vec::with_capacity(inner.len());
                for iter in inner {
                    match self.next(iter)? {
                        Some(item) => args.push(item),
                        None => return Ok(None),
                    }
                }
                Some(self.call(function, args, Vec::new())?)
            }
            Iter::Filter(function, inner) => loop {
                let Some(item) = self.next(inner)? else { return Ok(None) };
                let keep = match &*function {
                    Value::None => item.clone(),
                    function => self.call(function, vec![item.clone()], Vec::new())?,
                };
                if self.truth(&keep)? {
                    return Ok(Some(item));
                }
            },
            Iter::Generator(generator) => self.resume(generator)?,
            Iter::Object(object) => {
                let Some(method) = self.special(object, "__next__")? else {
                    return raise(
                        E::TypeError,
                        format!("'{}' object is not an iterator", object.type_name()),
                    );
                };
                match self.call(&method, Vec::new(), Vec::new()) {
                    Err(Stop::Raised(raised))
                        if raised.exception.is_instance(&E::StopIteration.class()) =>
                    {
                        None
                    }
                    other => Some(other?),
                }
            }
            Iter::Done => None,
            Iter::Running => return raise(E::ValueError, "generator already executing"),
        })
    }

    fn resume(&mut self, generator: &mut Generator) -> Run<Option<Value>> {
        let syntax = generator.syntax.clone();
        let frame = &mut generator.frame;
        'items: while let Some(iter) = generator.iters.last().cloned() {
            let Some(item) = self.next(&iter)? else {
                generator.iters.pop();
                continue;
            };
            let clause = &syntax.clauses[generator.iters.len() - 1];
            self.assign(frame, &clause.target, item)?;
            for test in &clause.tests {
                if !self.eval_truth(frame, test)? {
                    continue 'items;
                }
            }
            match syntax.clauses.get(generator.iters.len()) {
                Some(inner) => {
                    let inner = self.eval(frame, &inner.iter)?;
                    generator.iters.push(self.iterate(&inner)?);
                }
                None => return self.eval(frame, &syntax.item).map(Some),
            }
        }
        Ok(None)
    }

    /// All items, where their order does not matter.
    pub(super) fn collect_unordered(&mut self, value: &Value) -> Run<Vec<Value>> {
        match value {
            Value::Set(table) => Ok(table.lock().keys().cloned().collect()),
            other => self.collect(other),
        }
    }

    /// All items of something that can be iterated over.
    pub(super) fn collect(&mut self, value: &Value) -> Run<Vec<Value>> {
        match value {
            Value::Tuple(items) => return Ok(items.to_vec()),
            Value::List(items) => return Ok(items.get()),
            _ => {}
        }
        let iter = self.iterate(value)?;
        let mut items = Vec::new();
        while let Some(item) = self.next(&iter)? {
            items.push(item);
        }
        Ok(items)
    }
}
