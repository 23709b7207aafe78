//! Methods of lists, dicts, sets and tuples.

use std::sync::Arc;

use super::{
    Host,
    call::{Args, Keywords},
    error::{raise, refuse},
};
use crate::kernel::{
    dtype::DType,
    exception::{ExceptionKind as E, Raised},
    syntax::BinaryOp,
    table::{Key, Table},
    value::{Array, Dict, List, Run, Set, Shared, Value, View, ViewKind},
};

pub(super) const LIST_METHODS: &[&str] = &[
    "list.append",
    "list.clear",
    "list.copy",
    "list.count",
    "list.extend",
    "list.index",
    "list.insert",
    "list.pop",
    "list.remove",
    "list.reverse",
    "list.sort",
];

pub(super) const DICT_METHODS: &[&str] = &[
    "dict.clear",
    "dict.copy",
    "dict.get",
    "dict.items",
    "dict.keys",
    "dict.pop",
    "dict.popitem",
    "dict.setdefault",
    "dict.update",
    "dict.values",
];

pub(super) const SET_METHODS: &[&str] = &[
    "set.add",
    "set.clear",
    "set.copy",
    "set.difference",
    "set.discard",
    "set.intersection",
    "set.isdisjoint",
    "set.issubset",
    "set.issuperset",
    "set.pop",
    "set.remove",
    "set.symmetric_difference",
    "set.union",
    "set.update",
];

pub(super) const TUPLE_METHODS: &[&str] = &["tuple.count", "tuple.index"];

/// A dict of pairs whose keys can be hashed.
pub(super) fn dict(items: impl IntoIterator<Item = (Value, Value)>) -> Value {
    let mut table = Table::default();
    for (key, value) in items {
        if let Some(hashed) = Key::of(&key) {
            table.insert(hashed, key, value);
        }
    }
    Value::Dict(Arc::new(Shared::new(table)))
}

/// The number of a record's fields.
pub(super) fn fields(record: &Array) -> usize {
    match record.dtype() {
        DType::Record(layout) => layout.fields.len(),
        _ => 0,
    }
}

pub(super) fn call_list(
    host: &mut Host,
    list: &Arc<List>,
    name: &str,
    mut args: Args,
) -> Run<Value> {
    match name {
        "append" => {
            let [value] = args.exactly()?;
            list.lock().push(value);
        }
        "extend" => {
            let [items] = args.exactly()?;
            let items = host.collect(&items)?;
            list.lock().extend(items);
        }
        "insert" => {
            let [at, value] = args.exactly()?;
            let Some(at) = host.index(&at)? else {
                return raise(E::TypeError, "'insert' takes an integer index");
            };
            let mut items = list.lock();
            let length = items.len() as i128;
            let at = if at < 0 { at + length } else { at }.clamp(0, length);
            items.insert(at as usize, value);
        }
        "pop" => {
            let [at] = args.take(["index"], 0)?;
            let at = match at {
                Some(at) => host.index(&at)?.unwrap_or(-1),
                None => -1,
            };
            let mut items = list.lock();
            let length = items.len() as i128;
            if length == 0 {
                drop(items);
                return raise(E::IndexError, "pop from empty list");
            }
            let place = if at < 0 { at + length } else { at };
            if place < 0 || place >= length {
                drop(items);
                return raise(E::IndexError, "pop index out of range");
            }
            return Ok(items.remove(place as usize));
        }
        "remove" => {
            let [value] = args.exactly()?;
            for (at, item) in list.get().iter().enumerate() {
                if host.equal(item, &value)? {
                    list.lock().remove(at);
                    return Ok(Value::None);
                }
            }
            return raise(E::ValueError, "list.remove(x): x not in list");
        }
        "index" | "count" => return search(host, &list.get(), name, args, "list"),
        "reverse" => list.lock().reverse(),
        "clear" => list.lock().clear(),
        "copy" => return Ok(Value::list(list.get())),
        "sort" => {
            let (key, reverse) = (args.keyword("key"), args.keyword("reverse"));
            args.exactly::<0>()?;
            let reverse = match reverse {
                Some(reverse) => host.truth(&reverse)?,
                None => false,
            };
            let items = list.get();
            let sorted = host.sorted(items, key.as_ref(), reverse)?;
            *list.lock() = sorted;
        }
        _ => return refuse(format!("lists have no `{name}` here"), "see the language's page"),
    }
    Ok(Value::None)
}

fn search(host: &mut Host, items: &[Value], name: &str, args: Args, kind: &str) -> Run<Value> {
    let [value, start, stop] = args.take(["value", "start", "stop"], 1)?;
    let value = value.unwrap_or_default();
    let mut bound = |bound: Option<Value>, default: usize| -> Run<usize> {
        let Some(bound) = bound else { return Ok(default) };
        let at = host.index(&bound)?.unwrap_or(0);
        let length = items.len() as i128;
        Ok(if at < 0 { at + length } else { at }.clamp(0, length) as usize)
    };
    let (start, stop) = (bound(start, 0)?, bound(stop, items.len())?);
    let mut count = 0;
    for (at, item) in items.iter().enumerate().take(stop).skip(start) {
        if super::ops::same_object(item, &value) || host.equal(item, &value)? {
            if name == "index" {
                return Ok(Value::Int(at as i128));
            }
            count += 1;
        }
    }
    if name == "count" {
        return Ok(Value::Int(count));
    }
    let shown = host.repr(&value)?;
    let message = if kind == "tuple" {
        "tuple.index(x): x not in tuple".into()
    } else {
        format!("{shown} is not in {kind}")
    };
    raise(E::ValueError, message)
}

pub(super) fn call_tuple(host: &mut Host, items: &[Value], name: &str, args: Args) -> Run<Value> {
    search(host, items, name, args, "tuple")
}

/// `dict.fromkeys`.
pub(super) fn from_keys(host: &mut Host, args: Vec<Value>) -> Run<Value> {
    let [keys, value] = Args::new("fromkeys", args, Vec::new()).take(["iterable", "value"], 1)?;
    let value = value.unwrap_or_default();
    let mut table = Table::default();
    for key in host.collect(&keys.unwrap_or_default())? {
        table.insert(host.key(&key)?, key, value.clone());
    }
    Ok(Value::Dict(Arc::new(Shared::new(table))))
}

/// `dict.update`, and what `dict(...)` does.
pub(super) fn update(
    host: &mut Host,
    dict: &Arc<Dict>,
    from: Option<Value>,
    keywords: Keywords,
) -> Run<()> {
    match from {
        None => {}
        Some(Value::Dict(other)) => {
            for (key, value) in other.get().iter() {
                let hashed = host.key(key)?;
                dict.lock().insert(hashed, key.clone(), value.clone());
            }
        }
        Some(pairs) => {
            for (i, pair) in host.collect(&pairs)?.iter().enumerate() {
                let pair = host.collect(pair)?;
                let [key, value] = pair.as_slice() else {
                    return raise(
                        E::ValueError,
                        format!(
                            "dictionary update sequence element #{i} has length {}; 2 is required",
                            pair.len()
                        ),
                    );
                };
                let hashed = host.key(key)?;
                dict.lock().insert(hashed, key.clone(), value.clone());
            }
        }
    }
    for (name, value) in keywords {
        dict.lock().insert(Key::Str(name.clone()), Value::Str(name), value);
    }
    Ok(())
}

pub(super) fn call_dict(host: &mut Host, dict: &Arc<Dict>, name: &str, args: Args) -> Run<Value> {
    Ok(match name {
        "get" | "setdefault" => {
            let [key, default] = args.take(["key", "default"], 1)?;
            let key = key.unwrap_or_default();
            let hashed = host.key(&key)?;
            let found = dict.lock().get(&hashed).cloned();
            match found {
                Some(value) => value,
                None => {
                    let default = default.unwrap_or_default();
                    if name == "setdefault" {
                        dict.lock().insert(hashed, key, default.clone());
                    }
                    default
                }
            }
        }
        "pop" => {
            let [key, default] = args.take(["key", "default"], 1)?;
            let key = key.unwrap_or_default();
            let hashed = host.key(&key)?;
            let gone = dict.lock().remove(&hashed);
            match gone.map(|(_, value)| value).or(default) {
                Some(value) => value,
                None => return Err(Raised::with(E::KeyError.class(), vec![key]).into()),
            }
        }
        "popitem" => {
            args.exactly::<0>()?;
            let gone = dict.lock().pop();
            match gone {
                Some((key, value)) => Value::tuple(vec![key, value]),
                None => return raise(E::KeyError, "popitem(): dictionary is empty"),
            }
        }
        "keys" | "values" | "items" => {
            args.exactly::<0>()?;
            let kind = match name {
                "keys" => ViewKind::Keys,
                "values" => ViewKind::Values,
                _ => ViewKind::Items,
            };
            Value::View(Arc::new(View { dict: dict.clone(), kind }))
        }
        "copy" => Value::Dict(Arc::new(Shared::new(dict.get()))),
        "clear" => {
            *dict.lock() = Table::default();
            Value::None
        }
        "update" => {
            let (args, keywords) = args.rest();
            update(host, dict, args.into_iter().next(), keywords)?;
            Value::None
        }
        _ => return refuse(format!("dicts have no `{name}` here"), "see the language's page"),
    })
}

pub(super) fn call_set(host: &mut Host, set: &Arc<Set>, name: &str, args: Args) -> Run<Value> {
    let table_of = |host: &mut Host, items: &Value| -> Run<Value> {
        let mut table = Table::default();
        for item in host.collect_unordered(items)? {
            table.insert(host.key(&item)?, item, Value::None);
        }
        Ok(Value::Set(Arc::new(Shared::new(table))))
    };
    match name {
        "add" => {
            let [item] = args.exactly()?;
            let key = host.key(&item)?;
            set.lock().insert(key, item, Value::None);
            Ok(Value::None)
        }
        "remove" | "discard" => {
            let [item] = args.exactly()?;
            let key = host.key(&item)?;
            let gone = set.lock().remove(&key);
            if gone.is_none() && name == "remove" {
                return Err(Raised::with(E::KeyError.class(), vec![item]).into());
            }
            Ok(Value::None)
        }
        "pop" => {
            args.exactly::<0>()?;
            refuse(
                "`set.pop` is not supported",
                "Python's order differs from run to run: use a list",
            )
        }
        "clear" => {
            *set.lock() = Table::default();
            Ok(Value::None)
        }
        "copy" => Ok(Value::Set(Arc::new(Shared::new(set.get())))),
        "issubset" | "issuperset" | "isdisjoint" => {
            let [other] = args.exactly()?;
            let Value::Set(other) = table_of(host, &other)? else { return Ok(Value::None) };
            let (a, b) = (set.get(), other.get());
            let inside = |a: &Table, b: &Table| {
                a.keys().filter_map(Key::of).filter(|key| b.contains(key)).count()
            };
            Ok(Value::Bool(match name {
                "issubset" => inside(&a, &b) == a.len(),
                "issuperset" => inside(&b, &a) == b.len(),
                _ => inside(&a, &b) == 0,
            }))
        }
        "union" | "intersection" | "difference" | "symmetric_difference" | "update" => {
            let op = match name {
                "intersection" => BinaryOp::BitAnd,
                "difference" => BinaryOp::Sub,
                "symmetric_difference" => BinaryOp::BitXor,
                _ => BinaryOp::BitOr,
            };
            let mut result = Value::Set(Arc::new(Shared::new(set.get())));
            for other in args.all()? {
                let other = table_of(host, &other)?;
                result = host.binary(op, &result, &other)?;
            }
            if name == "update" {
                if let Value::Set(result) = &result {
                    *set.lock() = result.get();
                }
                return Ok(Value::None);
            }
            Ok(result)
        }
        _ => refuse(format!("sets have no `{name}` here"), "see the language's page"),
    }
}
