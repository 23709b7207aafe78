//! `str`, `repr` and `format` of values.

use super::{
    Host,
    error::{raise, refuse},
};
use crate::kernel::{
    exception::ExceptionKind as E,
    format::{self, array, float, spec::Spec},
    types::Ty,
    value::{Array, Builtin, Descriptor, KernelKind, Run, Scalar, Value},
};

/// How deep containers may nest in what is shown.
const MAX_NESTING: usize = 200;

impl Host {
    /// `str(value)`.
    ///
    /// # Errors
    /// What `__str__` raises.
    pub(crate) fn str(&mut self, value: &Value) -> Run<String> {
        Ok(match value {
            Value::Str(text) => text.to_string(),
            Value::Scalar(scalar) => array::scalar_str(scalar),
            Value::Array(a) => array::str(a),
            Value::Record(record) => array::record_str(record),
            Value::DType(dtype) => dtype.to_string(),
            Value::Type(ty) => ty.to_string(),
            Value::Exception(exception) => {
                if let Some(method) = self.special(value, "__str__")? {
                    return self.text_of(&method, "__str__");
                }
                let args = exception.args.get();
                match args.as_slice() {
                    [] => String::new(),
                    [one] if exception.is_instance(&E::KeyError.class()) => self.repr(one)?,
                    [one] => self.str(one)?,
                    _ => self.repr(&Value::tuple(args))?,
                }
            }
            Value::Instance(_) | Value::StructRef(_) => match self.special(value, "__str__")? {
                Some(method) => self.text_of(&method, "__str__")?,
                None => self.repr(value)?,
            },
            _ => self.repr(value)?,
        })
    }

    fn text_of(&mut self, method: &Value, name: &str) -> Run<String> {
        match self.call(method, Vec::new(), Vec::new())? {
            Value::Str(text) => Ok(text.to_string()),
            other => raise(
                E::TypeError,
                format!("{name} returned non-string (type {})", other.type_name()),
            ),
        }
    }

    /// `repr(value)`.
    ///
    /// # Errors
    /// What `__repr__` raises, and a refusal where Python's text has an address.
    pub(crate) fn repr(&mut self, value: &Value) -> Run<String> {
        self.repr_inside(value, &mut Vec::new())
    }

    fn repr_inside(&mut self, value: &Value, outer: &mut Vec<usize>) -> Run<String> {
        Ok(match value {
            Value::None => "None".into(),
            Value::Ellipsis => "Ellipsis".into(),
            Value::NotImplemented => "NotImplemented".into(),
            Value::Bool(v) => if *v { "True" } else { "False" }.into(),
            Value::Int(v) => v.to_string(),
            Value::Float(v) => float::repr(*v),
            Value::Complex(re, im) => format::complex(*re, *im, float::repr_part),
            Value::Str(text) => format::repr_str(text),
            Value::Bytes(bytes) => format::repr_bytes(bytes),
            Value::Tuple(items) => {
                let address = items.as_ptr() as usize;
                let Some(shown) = self.repr_items(items, address, outer)? else {
                    return Ok("(...)".into());
                };
                if shown.len() == 1 {
                    format!("({},)", shown[0])
                } else {
                    format!("({})", shown.join(", "))
                }
            }
            Value::List(list) => {
                let address = std::sync::Arc::as_ptr(list) as usize;
                match self.repr_items(&list.get(), address, outer)? {
                    Some(shown) => format!("[{}]", shown.join(", ")),
                    None => "[...]".into(),
                }
            }
            Value::Dict(dict) => {
                let address = std::sync::Arc::as_ptr(dict) as usize;
                let table = dict.get();
                let (keys, values): (Vec<Value>, Vec<Value>) = table.iter().cloned().unzip();
                let Some(keys) = self.repr_items(&keys, address, outer)? else {
                    return Ok("{...}".into());
                };
                let values = self.repr_items(&values, address, outer)?.unwrap_or_default();
                let pairs: Vec<String> = keys
                    .iter()
                    .zip(&values)
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                format!("{{{}}}", pairs.join(", "))
            }
            Value::View(view) => {
                let items = self.repr_inside(&Value::list(view.items()), outer)?;
                format!("{}({items})", view.kind.type_name())
            }
            Value::Set(set) => {
                let items: Vec<Value> = set.lock().keys().cloned().collect();
                match items.as_slice() {
                    [] => "set()".into(),
                    [one] => format!("{{{}}}", self.repr_inside(one, outer)?),
                    _ => {
                        return refuse(
                            "the order of a set's items is not the same from run to run",
                            "print `sorted(...)` of it",
                        );
                    }
                }
            }
            Value::Range(range) if range.step == 1 => {
                format!("range({}, {})", range.start, range.stop)
            }
            Value::Range(range) => {
                format!("range({}, {}, {})", range.start, range.stop, range.step)
            }
            Value::Slice(slice) => {
                let parts = [&slice.start, &slice.stop, &slice.step]
                    .map(|part| self.repr_inside(part, outer));
                let [start, stop, step] = parts;
                format!("slice({}, {}, {})", start?, stop?, step?)
            }
            Value::Scalar(scalar) => array::scalar_repr(scalar),
            Value::Array(a) => array::repr(a),
            Value::Record(record) => array::record_repr(record),
            Value::DType(dtype) => dtype.repr(),
            Value::ScalarType(dtype) => format!("<class 'numpy.{}'>", dtype.name()),
            Value::Class(class) if class.module == "builtins".into() => {
                format!("<class '{}'>", class.name)
            }
            Value::Class(class) => format!("<class '{}.{}'>", class.module, class.qualified_name),
            Value::Exception(exception) => {
                if let Some(method) = self.special(value, "__repr__")? {
                    return self.text_of(&method, "__repr__");
                }
                let name = exception.class.name.clone();
                let args = exception.args.get();
                match args.as_slice() {
                    [one] => format!("{name}({})", self.repr_inside(one, outer)?),
                    _ => format!("{name}{}", self.repr_inside(&Value::tuple(args), outer)?),
                }
            }
            Value::Instance(_) | Value::StructRef(_) => match self.special(value, "__repr__")? {
                Some(method) => self.text_of(&method, "__repr__")?,
                None => {
                    return refuse(
                        format!("Python shows this '{}' by its address", value.type_name()),
                        "give its class a `__repr__`, or print its fields",
                    );
                }
            },
            Value::Type(ty) => type_repr(ty),
            Value::TypeClass(class) => format!("<class 'numba.core.types.{class:?}'>"),
            Value::Signature(signature) => {
                let args: Vec<String> = signature.args.iter().map(type_repr).collect();
                let returns = signature.returns.as_ref().map_or("none".into(), ToString::to_string);
                let comma = if args.len() == 1 { "," } else { "" };
                format!("({}{comma}) -> {returns}", args.join(", "))
            }
            Value::Module(module) => match &module.source {
                Some(_) => {
                    return refuse(
                        "Python shows a module with its path",
                        "print `module.__name__`",
                    );
                }
                None => format!("<module '{}'>", module.name),
            },
            Value::Builtin(builtin) => match builtin.0.split_once('.') {
                Some((
                    "builtins",
                    name @ ("int" | "float" | "bool" | "str" | "complex" | "list" | "dict"
                    | "tuple" | "set" | "object" | "type" | "range" | "bytes" | "slice"
                    | "NoneType"),
                )) => {
                    format!("<class '{name}'>")
                }
                Some((
                    "numpy",
                    name @ ("ndarray" | "dtype" | "void" | "generic" | "integer" | "floating"),
                )) => {
                    format!("<class 'numpy.{name}'>")
                }
                Some(("functools", "partial")) => "<class 'functools.partial'>".into(),
                Some(("builtins" | "math", name)) => format!("<built-in function {name}>"),
                _ => return by_address(value),
            },
            Value::Kernel(def) if def.kind == KernelKind::Vectorize => {
                format!("<ufunc '{}'>", def.name())
            }
            Value::Descriptor(descriptor)
                if matches!(**descriptor, Descriptor::Property { .. }) =>
            {
                return by_address(value);
            }
            _ => return by_address(value),
        })
    }

    /// The items' texts, or `None` inside of the container itself.
    fn repr_items(
        &mut self,
        items: &[Value],
        address: usize,
        outer: &mut Vec<usize>,
    ) -> Run<Option<Vec<String>>> {
        if items.is_empty() {
            return Ok(Some(Vec::new()));
        }
        if outer.contains(&address) {
            return Ok(None);
        }
        if outer.len() > MAX_NESTING {
            return raise(
                E::RecursionError,
                "maximum recursion depth exceeded while getting the repr of an object",
            );
        }
        outer.push(address);
        let shown =
            items.iter().map(|item| self.repr_inside(item, outer)).collect::<Run<Vec<String>>>();
        outer.pop();
        shown.map(Some)
    }

    /// `format(value, spec)`.
    ///
    /// # Errors
    /// A `ValueError` or `TypeError` where the spec does not fit.
    pub(crate) fn format(&mut self, value: &Value, spec: &str) -> Run<String> {
        if let Some(method) = self.special(value, "__format__")? {
            return match self.call(&method, vec![Value::str(spec.into())], Vec::new())? {
                Value::Str(text) => Ok(text.to_string()),
                other => raise(
                    E::TypeError,
                    format!("__format__ must return a str, not {}", other.type_name()),
                ),
            };
        }
        if spec.is_empty() {
            return match value {
                Value::Scalar(Scalar::F32(v)) => Ok(float::repr((*v).into())),
                _ => self.str(value),
            };
        }
        let result = match value {
            Value::Str(text) => Spec::parse(spec, "str").and_then(|spec| spec.string(text)),
            Value::Bool(v) => Spec::parse(spec, "bool").and_then(|spec| spec.int((*v).into())),
            Value::Int(v) => Spec::parse(spec, "int").and_then(|spec| spec.int(*v)),
            Value::Float(v) => Spec::parse(spec, "float").and_then(|spec| spec.checked_float(*v)),
            Value::Complex(re, im) => {
                Spec::parse(spec, "complex").and_then(|spec| spec.complex(*re, *im))
            }
            Value::Scalar(scalar) => match (scalar.as_int(), scalar.as_float()) {
                (Some(v), _) => Spec::parse(spec, "int").and_then(|spec| spec.int(v)),
                (_, Some(v)) => Spec::parse(spec, "float").and_then(|spec| spec.checked_float(v)),
                _ => {
                    let (re, im) = scalar.as_complex();
                    Spec::parse(spec, "complex").and_then(|spec| spec.complex(re, im))
                }
            },
            Value::Array(a) if a.ndim() == 0 => {
                let element = super::numpy::element(&Array::clone(a));
                return self.format(&element, spec);
            }
            _ => {
                let name = match value {
                    Value::Builtin(Builtin(_)) => "type".into(),
                    other => other.type_name(),
                };
                return raise(
                    E::TypeError,
                    format!("unsupported format string passed to {name}.__format__"),
                );
            }
        };
        match result {
            Ok(text) => Ok(text),
            Err(message) => raise(E::ValueError, message),
        }
    }
}

/// `repr` of a Numba type, which differs from its name for arrays alone.
fn type_repr(ty: &Ty) -> String {
    match ty {
        Ty::Array(array) => format!(
            "Array({}, {}, '{:?}', {}, aligned={})",
            array.dtype,
            array.ndim,
            array.layout,
            if array.readonly { "True" } else { "False" },
            if matches!(&array.dtype, Ty::Record(record) if !record.aligned) {
                "False"
            } else {
                "True"
            },
        ),
        other => other.to_string(),
    }
}

fn by_address(value: &Value) -> Run<String> {
    refuse(
        format!("Python shows this '{}' by its address", value.type_name()),
        "print its `__name__`, or what it holds",
    )
}
