//! Attributes.

use std::sync::Arc;

use super::{
    Host,
    call::method,
    containers,
    error::{raise, refuse},
    numba, numpy, strings,
};
use crate::kernel::{
    exception::ExceptionKind as E,
    syntax::Name,
    value::{Class, Descriptor, KernelKind, Method, Run, Scalar, Value},
};

impl Host {
    /// `object.name`.
    ///
    /// # Errors
    /// An `AttributeError`, or what a property raises.
    pub(crate) fn attribute(&mut self, object: &Value, name: &Name) -> Run<Value> {
        if let Some(value) = self.find_attribute(object, name)? {
            return Ok(value);
        }
        match object {
            Value::Module(module) => {
                if super::modules::is_provided(&module.name) {
                    return refuse(
                        format!("`{}.{name}` is not supported in host code", module.name),
                        super::modules::hint(&module.name),
                    );
                }
                // A submodule that was imported is an attribute of its package.
                if let Some(module) = self.modules.get(&*format!("{}.{name}", module.name)) {
                    return Ok(Value::Module(module.clone()));
                }
                let (partly, why) = if self.loading.contains(&module.name) {
                    ("partially initialized ", " (most likely due to a circular import)")
                } else {
                    ("", "")
                };
                let module = &module.name;
                raise(
                    E::AttributeError,
                    format!("{partly}module '{module}' has no attribute '{name}'{why}"),
                )
            }
            Value::Class(class) => raise(
                E::AttributeError,
                format!("type object '{}' has no attribute '{name}'", class.name),
            ),
            Value::Array(_)
            | Value::Scalar(_)
            | Value::Kernel(_)
            | Value::Type(_)
            | Value::TypeClass(_) => refuse(
                format!("'{}' object has no attribute '{name}' here", object.type_name()),
                "see the language's page for what host code may use",
            ),
            _ => raise(
                E::AttributeError,
                format!("'{}' object has no attribute '{name}'", object.type_name()),
            ),
        }
    }

    /// `object.name`, or `None` where there is none.
    pub(super) fn find_attribute(&mut self, object: &Value, name: &Name) -> Run<Option<Value>> {
        Ok(match object {
            Value::Module(module) => {
                let mut found =
                    module.get(name).or_else(|| super::modules::member(&module.name, name));
                if found.is_none() && &**name == "__name__" {
                    found = Some(Value::Str(module.name.clone()));
                }
                if let Some(Value::Builtin(builtin)) = &found
                    && let Some(value) = self.live_member(builtin.0)
                {
                    found = Some(value);
                }
                found
            }
            Value::Instance(instance) => {
                return self.instance_attribute(
                    object,
                    &instance.class,
                    &instance.attributes.get(),
                    name,
                );
            }
            Value::Exception(exception) => {
                match &**name {
                    "args" => return Ok(Some(Value::tuple(exception.args.get()))),
                    "__cause__" => {
                        return Ok(Some(
                            exception.cause.get().map_or(Value::None, Value::Exception),
                        ));
                    }
                    _ => {}
                }
                return self.instance_attribute(
                    object,
                    &exception.class,
                    &exception.attributes.get(),
                    name,
                );
            }
            Value::StructRef(structref) => {
                return self.instance_attribute(object, &structref.class, &[], name);
            }
            Value::Class(class) => match &**name {
                "__name__" => Some(Value::Str(class.name.clone())),
                "__qualname__" => Some(Value::Str(class.qualified_name.clone())),
                "__module__" => Some(Value::Str(class.module.clone())),
                _ => match class.lookup(name) {
                    Some(Value::Descriptor(descriptor)) => Some(match &*descriptor {
                        Descriptor::Static(function) => function.clone(),
                        Descriptor::Class(function) => Value::Method(Arc::new(Method {
                            object: object.clone(),
                            function: function.clone(),
                        })),
                        Descriptor::Property { .. } => Value::Descriptor(descriptor.clone()),
                    }),
                    Some(value) => Some(value),
                    None if &**name == "__new__" => {
                        Some(Value::Builtin(crate::kernel::value::Builtin("object.__new__")))
                    }
                    None => None,
                },
            },
            Value::Super(parent) => {
                let class = match &parent.object {
                    Value::Instance(instance) => instance.class.clone(),
                    Value::Exception(exception) => exception.class.clone(),
                    Value::StructRef(object) => object.class.clone(),
                    Value::Class(class) => class.clone(),
                    _ => return Ok(None),
                };
                let after = if Arc::ptr_eq(&class, &parent.class) {
                    0
                } else {
                    class
                        .mro
                        .iter()
                        .position(|c| Arc::ptr_eq(c, &parent.class))
                        .map_or(0, |at| at + 1)
                };
                for base in &class.mro[after.min(class.mro.len())..] {
                    let found = base.namespace.lock().get(name).cloned();
                    if let Some(found) = found {
                        return self.bind_attribute(&parent.object, found, &**name == "__new__");
                    }
                }
                match &**name {
                    "__init__" => Some(method(&parent.object, "object.__init__")),
                    "__new__" => {
                        Some(Value::Builtin(crate::kernel::value::Builtin("object.__new__")))
                    }
                    _ => None,
                }
            }
            Value::Function(function) => match &**name {
                "__name__" => Some(Value::Str(function.syntax.name.clone())),
                "__qualname__" => Some(Value::Str(function.qualified_name.clone())),
                "__module__" => Some(Value::Str(function.module.name.clone())),
                "__defaults__" => {
                    Some(Value::tuple(function.defaults.iter().flatten().cloned().collect()))
                }
                "__doc__" => Some(numba::docstring(&function.syntax)),
                _ => None,
            },
            Value::Kernel(def) => match &**name {
                "__name__" => Some(Value::Str(def.name().clone())),
                "__qualname__" => Some(Value::Str(def.closure.qualified_name.clone())),
                "__module__" => Some(Value::Str(def.closure.module.name.clone())),
                "__doc__" => Some(numba::docstring(&def.function)),
                "py_func" => Some(Value::Function(def.closure.clone())),
                "address" if def.kind == KernelKind::Cfunc => {
                    let kernels = self.kernels.clone();
                    Some(Value::Int(kernels.address(self, def)?.into()))
                }
                "ctypes" if def.kind == KernelKind::Cfunc => Some(method(object, "kernel.ctypes")),
                "reduce" if def.kind == KernelKind::Vectorize => {
                    Some(method(object, "kernel.reduce"))
                }
                "accumulate" if def.kind == KernelKind::Vectorize => {
                    Some(method(object, "kernel.accumulate"))
                }
                "outer" if def.kind == KernelKind::Vectorize => {
                    Some(method(object, "kernel.outer"))
                }
                _ => None,
            },
            Value::Partial(partial) => match &**name {
                "func" => Some(partial.function.clone()),
                "args" => Some(Value::tuple(partial.args.clone())),
                "keywords" => Some(containers::dict(
                    partial
                        .keywords
                        .iter()
                        .map(|(key, value)| (Value::Str(key.clone()), value.clone())),
                )),
                _ => None,
            },
            Value::Descriptor(descriptor) => match (&**descriptor, &**name) {
                (Descriptor::Property { .. }, "setter") => Some(method(object, "property.setter")),
                _ => None,
            },
            Value::Method(bound) => match &**name {
                "__self__" => Some(bound.object.clone()),
                "__func__" => Some(bound.function.clone()),
                _ => return self.find_attribute(&bound.function.clone(), name),
            },
            Value::Str(_) => find_method(object, name, strings::METHODS),
            Value::List(_) => find_method(object, name, containers::LIST_METHODS),
            Value::Dict(_) => find_method(object, name, containers::DICT_METHODS),
            Value::Set(_) => find_method(object, name, containers::SET_METHODS),
            Value::Tuple(_) => find_method(object, name, containers::TUPLE_METHODS),
            Value::Range(range) => match &**name {
                "start" => Some(Value::Int(range.start.into())),
                "stop" => Some(Value::Int(range.stop.into())),
                "step" => Some(Value::Int(range.step.into())),
                _ => None,
            },
            Value::Slice(slice) => match &**name {
                "start" => Some(slice.start.clone()),
                "stop" => Some(slice.stop.clone()),
                "step" => Some(slice.step.clone()),
                _ => None,
            },
            Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Complex(..) => {
                self.number_attribute(object, name)
            }
            Value::Array(array) => numpy::attribute(array, object, name)?,
            Value::Record(record) => match numpy::record_field(record, name) {
                Some(field) => Some(numpy::element(&field)),
                None => numpy::attribute(record, object, name)?,
            },
            Value::Scalar(scalar) => numpy::scalar_attribute(scalar, object, name),
            Value::DType(dtype) => numpy::dtype_attribute(dtype, object, name),
            Value::ScalarType(dtype) => match &**name {
                "__name__" => Some(Value::str(dtype.name().into())),
                _ => None,
            },
            Value::Type(ty) => numba::type_attribute(ty, name),
            Value::Signature(signature) => match &**name {
                "args" => {
                    Some(Value::tuple(signature.args.iter().cloned().map(Value::Type).collect()))
                }
                "return_type" => Some(signature.returns.clone().map_or(Value::None, Value::Type)),
                _ => None,
            },
            Value::Builtin(builtin) => match (builtin.0, &**name) {
                (_, "__name__") => Some(Value::str(builtin.name().into())),
                ("sys.stdout" | "sys.stderr", "write") => Some(method(object, "stream.write")),
                ("sys.stdout" | "sys.stderr", "flush") => Some(method(object, "stream.flush")),
                ("builtins.dict", "fromkeys") => Some(method(object, "dict.fromkeys")),
                ("os.environ", "get") => Some(method(object, "environ.get")),
                ("builtins.str", _) => strings::METHODS.iter().find_map(|path| unbound(path, name)),
                ("builtins.list", _) => {
                    containers::LIST_METHODS.iter().find_map(|path| unbound(path, name))
                }
                ("builtins.dict", _) => {
                    containers::DICT_METHODS.iter().find_map(|path| unbound(path, name))
                }
                ("builtins.object", "__new__") => {
                    Some(Value::Builtin(crate::kernel::value::Builtin("object.__new__")))
                }
                ("builtins.object", "__init__") => {
                    Some(Value::Builtin(crate::kernel::value::Builtin("object.__init__")))
                }
                (path, _) => super::modules::member(path, name),
            },
            _ => None,
        })
    }

    fn instance_attribute(
        &mut self,
        object: &Value,
        class: &Arc<Class>,
        own: &[(Name, Value)],
        name: &Name,
    ) -> Run<Option<Value>> {
        match &**name {
            "__class__" => return Ok(Some(Value::Class(class.clone()))),
            "__dict__" => {
                return Ok(Some(containers::dict(
                    own.iter().map(|(key, value)| (Value::Str(key.clone()), value.clone())),
                )));
            }
            _ => {}
        }
        let found = class.lookup(name);
        // Properties come before the instance's own attributes, all else after.
        if let Some(Value::Descriptor(descriptor)) = &found
            && let Descriptor::Property { get, .. } = &**descriptor
        {
            return self.call(get, vec![object.clone()], Vec::new()).map(Some);
        }
        if let Some((_, value)) = own.iter().find(|(key, _)| key == name) {
            return Ok(Some(value.clone()));
        }
        match found {
            Some(found) => self.bind_attribute(object, found, false),
            None => match (&**name, class.lookup("__getattr__")) {
                (_, Some(function)) if !name.starts_with("__") => {
                    let args = vec![object.clone(), Value::Str(name.clone())];
                    self.call(&function, args, Vec::new()).map(Some)
                }
                ("with_traceback", _) if class.exception.is_some() => {
                    Ok(Some(method(object, "exception.with_traceback")))
                }
                ("__init__", _) => Ok(Some(method(object, "object.__init__"))),
                _ => Ok(None),
            },
        }
    }

    /// A class's attribute as an object of the class sees it.
    fn bind_attribute(
        &mut self,
        object: &Value,
        found: Value,
        unbound: bool,
    ) -> Run<Option<Value>> {
        Ok(Some(match found {
            Value::Function(_) | Value::Kernel(_) if !unbound => {
                Value::Method(Arc::new(Method { object: object.clone(), function: found }))
            }
            Value::Descriptor(descriptor) => match &*descriptor {
                Descriptor::Static(function) => function.clone(),
                Descriptor::Class(function) => {
                    let class = match object {
                        Value::Instance(instance) => Value::Class(instance.class.clone()),
                        other => other.clone(),
                    };
                    Value::Method(Arc::new(Method { object: class, function: function.clone() }))
                }
                Descriptor::Property { get, .. } => {
                    self.call(get, vec![object.clone()], Vec::new())?
                }
            },
            other => other,
        }))
    }

    fn number_attribute(&mut self, object: &Value, name: &Name) -> Option<Value> {
        let (re, im) = match object {
            Value::Complex(re, im) => (Value::Float(*re), Value::Float(*im)),
            Value::Float(v) => (Value::Float(*v), Value::Float(0.0)),
            Value::Int(v) => (Value::Int(*v), Value::Int(0)),
            Value::Bool(v) => (Value::Int((*v).into()), Value::Int(0)),
            _ => return None,
        };
        let whole = matches!(object, Value::Int(_) | Value::Bool(_));
        Some(match &**name {
            "real" => re,
            "imag" => im,
            "numerator" if whole => re,
            "denominator" if whole => Value::Int(1),
            "conjugate" => method(object, "number.conjugate"),
            "bit_length" if whole => method(object, "int.bit_length"),
            "bit_count" if whole => method(object, "int.bit_count"),
            "is_integer" if matches!(object, Value::Float(_)) => method(object, "float.is_integer"),
            "hex" if matches!(object, Value::Float(_)) => method(object, "float.hex"),
            "as_integer_ratio" if whole => method(object, "int.as_integer_ratio"),
            _ => return None,
        })
    }

    /// `object.name = value`.
    pub(super) fn set_attribute(&mut self, object: &Value, name: &Name, value: Value) -> Run<()> {
        let set = |attributes: &crate::kernel::value::Shared<Vec<(Name, Value)>>, value: Value| {
            let mut attributes = attributes.lock();
            match attributes.iter_mut().find(|(key, _)| key == name) {
                Some(slot) => slot.1 = value,
                None => attributes.push((name.clone(), value)),
            }
        };
        let class = match object {
            Value::Instance(instance) => Some(instance.class.clone()),
            Value::Exception(exception) => Some(exception.class.clone()),
            Value::StructRef(object) => Some(object.class.clone()),
            _ => None,
        };
        if let Some(Value::Descriptor(descriptor)) = class.and_then(|class| class.lookup(name))
            && let Descriptor::Property { set, .. } = &*descriptor
        {
            return match set {
                Some(set) => self.call(set, vec![object.clone(), value], Vec::new()).map(|_| ()),
                None => raise(
                    E::AttributeError,
                    format!("property '{name}' of '{}' object has no setter", object.type_name()),
                ),
            };
        }
        match object {
            Value::Instance(instance) => set(&instance.attributes, value),
            Value::Exception(exception) if &**name == "args" => {
                *exception.args.lock() = self.collect(&value)?
            }
            Value::Exception(exception) => set(&exception.attributes, value),
            Value::Module(module) if module.source.is_some() => module.set(name.clone(), value),
            Value::Class(class)
                if class.exception.is_none() || class.module != "builtins".into() =>
            {
                class.namespace.lock().insert(name.clone(), value);
            }
            Value::Record(record) => match numpy::record_field(record, name) {
                Some(field) => numpy::fill(self, &field, &value)?,
                None => return raise(E::AttributeError, format!("no field of name {name}")),
            },
            Value::Function(_) | Value::Module(_) | Value::Array(_) | Value::Kernel(_) => {
                return refuse(
                    format!(
                        "the attribute `{name}` of a '{}' cannot be set here",
                        object.type_name()
                    ),
                    "keep the value in a variable of its own",
                );
            }
            _ => {
                return raise(
                    E::AttributeError,
                    format!("'{}' object has no attribute '{name}'", object.type_name()),
                );
            }
        }
        Ok(())
    }

    /// `del object.name`.
    pub(super) fn delete_attribute(&mut self, object: &Value, name: &Name) -> Run<()> {
        let gone = match object {
            Value::Instance(instance) => {
                let mut attributes = instance.attributes.lock();
                let at = attributes.iter().position(|(key, _)| key == name);
                at.map(|at| attributes.remove(at)).is_some()
            }
            Value::Module(module) if module.source.is_some() => {
                module.globals.lock().remove(name).is_some()
            }
            Value::Class(class) => class.namespace.lock().remove(name).is_some(),
            _ => false,
        };
        if gone { Ok(()) } else { raise(E::AttributeError, name) }
    }
}

/// The method of a builtin type called `name`, bound.
fn find_method(object: &Value, name: &str, methods: &[&'static str]) -> Option<Value> {
    let path = methods
        .iter()
        .find(|path| path.split_once('.').is_some_and(|(_, method)| method == name))?;
    Some(method(object, path))
}

/// The same, not bound: `str.upper`.
fn unbound(path: &'static str, name: &str) -> Option<Value> {
    let matches = path.split_once('.').is_some_and(|(_, method)| method == name);
    matches.then_some(Value::Builtin(crate::kernel::value::Builtin(path)))
}

/// A NumPy scalar as Python's own number.
pub(super) fn item(scalar: &Scalar) -> Value {
    match *scalar {
        Scalar::Bool(v) => Value::Bool(v),
        Scalar::F32(v) => Value::Float(v.into()),
        Scalar::F64(v) => Value::Float(v),
        Scalar::C128(re, im) => Value::Complex(re, im),
        ref other => Value::Int(other.as_int().unwrap_or_default()),
    }
}
