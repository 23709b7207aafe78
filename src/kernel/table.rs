//! The hash table behind dicts and sets: in order of insertion, keys equal as Python finds them equal.
//!
//! ```text
//!   index: Key ──► position        entries: [Some((key, value)), None (deleted), ...]
//! ```

use std::{collections::HashMap, sync::Arc};

use super::{syntax::Name, value::Value};

/// What Python's `hash` and `==` make of a key: `1`, `1.0`, `True` and `np.int64(1)` are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// `None`.
    None,
    /// `...`.
    Ellipsis,
    /// Integers, and floats that are whole.
    Int(i128),
    /// Other floats, by their bits.
    Float(u64),
    /// Complex numbers with an imaginary part.
    Complex(u64, u64),
    /// Strings.
    Str(Name),
    /// Byte strings.
    Bytes(Arc<[u8]>),
    /// Tuples.
    Tuple(Vec<Key>),
    /// Builtin functions and types, Numba's types by their names.
    Named(u8, String),
    /// Objects that are equal only to themselves.
    Object(usize),
    /// Methods: object and function.
    Pair(Box<(Key, Key)>),
}

impl Key {
    /// The key of a value, or `None` where Python says that it is unhashable.
    pub fn of(value: &Value) -> Option<Key> {
        fn address<T: ?Sized>(object: &Arc<T>) -> Key {
            Key::Object(Arc::as_ptr(object) as *const () as usize)
        }
        fn float(value: f64) -> Key {
            if value.fract() == 0.0 && value.abs() < 1e38 {
                Key::Int(value as i128)
            } else {
                Key::Float(value.to_bits())
            }
        }
        fn complex(re: f64, im: f64) -> Key {
            if im == 0.0 { float(re) } else { Key::Complex((re + 0.0).to_bits(), im.to_bits()) }
        }
        Some(match value {
            Value::None => Key::None,
            Value::Ellipsis => Key::Ellipsis,
            Value::NotImplemented => Key::Named(0, "NotImplemented".into()),
            Value::Bool(v) => Key::Int((*v).into()),
            Value::Int(v) => Key::Int(*v),
            Value::Float(v) => float(*v),
            Value::Complex(re, im) => complex(*re, *im),
            Value::Str(v) => Key::Str(v.clone()),
            Value::Bytes(v) => Key::Bytes(v.clone()),
            Value::Tuple(items) => Key::Tuple(items.iter().map(Key::of).collect::<Option<_>>()?),
            Value::Range(r) => {
                let n = r.len();
                let (start, step) =
                    (if n == 0 { 0 } else { r.start }, if n < 2 { 0 } else { r.step });
                let parts = [n as i128, start.into(), step.into()];
                Key::Pair(Box::new((
                    Key::Named(6, "range".into()),
                    Key::Tuple(parts.into_iter().map(Key::Int).collect()),
                )))
            }
            Value::Scalar(s) => match s.as_int() {
                Some(v) => Key::Int(v),
                None => {
                    let (re, im) = s.as_complex();
                    complex(re, im)
                }
            },
            Value::DType(d) => Key::Named(1, d.to_string()),
            Value::ScalarType(d) => Key::Named(2, d.to_string()),
            Value::Builtin(b) => Key::Named(3, b.0.into()),
            Value::Type(t) => Key::Named(4, t.to_string()),
            Value::TypeClass(c) => Key::Named(5, format!("{c:?}")),
            Value::Function(v) => address(v),
            Value::Partial(v) => address(v),
            Value::Class(v) => address(v),
            Value::Instance(v) => address(v),
            Value::Descriptor(v) => address(v),
            Value::Super(v) => address(v),
            Value::Exception(v) => address(v),
            Value::Module(v) => address(v),
            Value::Signature(v) => address(v),
            Value::Kernel(v) => address(v),
            Value::StructRef(v) => address(v),
            Value::Iterator(v) => address(v),
            Value::Method(m) => Key::Pair(Box::new((Key::of(&m.object)?, Key::of(&m.function)?))),
            Value::List(_)
            | Value::Dict(_)
            | Value::View(_)
            | Value::Set(_)
            | Value::Slice(_)
            | Value::Array(_)
            | Value::Record(_) => return None,
        })
    }
}

/// A table of keys and values; a set's values are `None`.
#[derive(Clone, Default)]
pub struct Table {
    index: HashMap<Key, usize>,
    entries: Vec<Option<(Value, Value)>>,
}

impl Table {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The value under a key.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        let entry = self.entries[*self.index.get(key)?].as_ref();
        entry.map(|(_, value)| value)
    }

    /// Whether a key is there.
    pub fn contains(&self, key: &Key) -> bool {
        self.index.contains_key(key)
    }

    /// Puts a value under a key; a key that is there stays as it was first written, at its place.
    pub fn insert(&mut self, key: Key, name: Value, value: Value) {
        match self.index.get(&key) {
            Some(&at) => {
                if let Some(entry) = &mut self.entries[at] {
                    entry.1 = value;
                }
            }
            None => {
                self.index.insert(key, self.entries.len());
                self.entries.push(Some((name, value)));
            }
        }
    }

    /// Takes a key out, with its value.
    pub fn remove(&mut self, key: &Key) -> Option<(Value, Value)> {
        let at = self.index.remove(key)?;
        let entry = self.entries[at].take();
        while matches!(self.entries.last(), Some(None)) {
            self.entries.pop();
        }
        if self.entries.len() > 2 * self.index.len() + 8 {
            let mut moved = vec![usize::MAX; self.entries.len()];
            let mut kept = 0;
            for (from, entry) in self.entries.iter().enumerate() {
                if entry.is_some() {
                    moved[from] = kept;
                    kept += 1;
                }
            }
            self.entries.retain(Option::is_some);
            for at in self.index.values_mut() {
                *at = moved[*at];
            }
        }
        entry
    }

    /// Takes out what was put in last.
    pub fn pop(&mut self) -> Option<(Value, Value)> {
        let (name, _) = self.entries.iter().rev().flatten().next()?;
        let key = Key::of(name)?;
        self.remove(&key)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(Value, Value)> {
        self.entries.iter().flatten()
    }

    /// Keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.iter().map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_python_finds_equal_are_one_key() {
        let one = [
            Value::Int(1),
            Value::Bool(true),
            Value::Float(1.0),
            Value::Complex(1.0, 0.0),
            Value::Scalar(crate::kernel::value::Scalar::U8(1)),
        ];
        for value in &one {
            assert_eq!(Key::of(value), Some(Key::Int(1)));
        }
        assert_eq!(Key::of(&Value::Float(-0.0)), Key::of(&Value::Int(0)));
        assert_ne!(Key::of(&Value::Float(0.5)), Key::of(&Value::Int(0)));
    }

    #[test]
    fn order_survives_removal_and_compaction() {
        let mut table = Table::default();
        for i in 0..40 {
            table.insert(Key::Int(i), Value::Int(i), Value::None);
        }
        for i in 0..35 {
            table.remove(&Key::Int(i));
        }
        table.insert(Key::Int(3), Value::Int(3), Value::None);
        let keys: Vec<_> = table.keys().map(|key| Key::of(key).unwrap()).collect();
        assert_eq!(keys, [35, 36, 37, 38, 39, 3].map(Key::Int));
        assert!(table.contains(&Key::Int(36)) && !table.contains(&Key::Int(0)));
    }
}
