//! Python's builtin functions and types.

use std::sync::Arc;

use super::{
    Host,
    call::{Args, Keywords, partial},
    containers, convert,
    error::{bounded, raise, refuse},
    frame::Frame,
    items,
    iterate::Iter,
    kinds::type_of,
    math, modules, numba, numpy, ops, strings,
};
use crate::kernel::{
    exception::{ExceptionKind as E, Raised},
    format,
    syntax::{BinaryOp, CompareOp},
    table::{Key, Table},
    value::{Builtin, Class, ClassKind, Descriptor, Range, Run, Shared, Stop, Super, Value},
};

/// The functions and types of Python's `builtins` that host code has.
pub(super) const NAMES: &[&str] = &[
    "builtins.abs",
    "builtins.all",
    "builtins.any",
    "builtins.ascii",
    "builtins.bin",
    "builtins.bool",
    "builtins.bytes",
    "builtins.callable",
    "builtins.chr",
    "builtins.classmethod",
    "builtins.complex",
    "builtins.delattr",
    "builtins.dict",
    "builtins.divmod",
    "builtins.enumerate",
    "builtins.filter",
    "builtins.float",
    "builtins.format",
    "builtins.frozenset",
    "builtins.getattr",
    "builtins.globals",
    "builtins.hasattr",
    "builtins.hash",
    "builtins.hex",
    "builtins.id",
    "builtins.int",
    "builtins.isinstance",
    "builtins.issubclass",
    "builtins.iter",
    "builtins.len",
    "builtins.list",
    "builtins.locals",
    "builtins.map",
    "builtins.max",
    "builtins.min",
    "builtins.next",
    "builtins.object",
    "builtins.oct",
    "builtins.ord",
    "builtins.pow",
    "builtins.print",
    "builtins.property",
    "builtins.range",
    "builtins.repr",
    "builtins.reversed",
    "builtins.round",
    "builtins.set",
    "builtins.setattr",
    "builtins.slice",
    "builtins.sorted",
    "builtins.staticmethod",
    "builtins.str",
    "builtins.sum",
    "builtins.super",
    "builtins.tuple",
    "builtins.type",
    "builtins.vars",
    "builtins.zip",
    "builtins.exit",
    // Known only to be refused.
    "builtins.__import__",
    "builtins.breakpoint",
    "builtins.bytearray",
    "builtins.compile",
    "builtins.dir",
    "builtins.eval",
    "builtins.exec",
    "builtins.help",
    "builtins.input",
    "builtins.memoryview",
    "builtins.open",
];

impl Host {
    /// Calls a builtin that may look at the frame it is called from.
    pub(super) fn call_with_frame(
        &mut self,
        frame: &mut Frame,
        builtin: Builtin,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        match builtin.0 {
            "builtins.super" if args.is_empty() => {
                let object = frame.locals().into_iter().next().map(|(_, value)| value);
                match (frame.method_of.clone(), object) {
                    (Some(class), Some(object)) => {
                        Ok(Value::Super(Arc::new(Super { class, object })))
                    }
                    _ => raise(E::RuntimeError, "super(): no arguments"),
                }
            }
            "builtins.locals" => Ok(containers::dict(
                frame.locals().into_iter().map(|(name, value)| (Value::Str(name), value)),
            )),
            "builtins.globals" => {
                let mut names: Vec<_> = frame.module.globals.lock().clone().into_iter().collect();
                names.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(containers::dict(
                    names.into_iter().map(|(name, value)| (Value::Str(name), value)),
                ))
            }
            _ => {
                self.decorator_span = frame.span;
                self.call_builtin(builtin, args, keywords)
            }
        }
    }

    /// Calls a function or type that cachelift provides.
    pub(super) fn call_builtin(
        &mut self,
        builtin: Builtin,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        let path = builtin.0;
        match path.split_once('.').map_or("", |(module, _)| module) {
            "builtins" => self.call_python(builtin, args, keywords),
            "math" => math::call(self, builtin, args, keywords),
            "numpy" => numpy::call(self, builtin, args, keywords),
            "numba" => numba::call(self, builtin, args, keywords),
            "functools" if path == "functools.partial" => partial(args, keywords),
            "functools" if path == "functools.reduce" => self.reduce(args, keywords),
            "functools" => match args.into_iter().next() {
                Some(function) => Ok(function),
                None => raise(E::TypeError, "a function is missing"),
            },
            "object" if path == "object.__new__" => match args.first() {
                Some(Value::Class(class)) => Ok(self.new_instance(class, &args[1..])),
                _ => raise(E::TypeError, "object.__new__(X): X is not a type object"),
            },
            "object" => {
                if let Some((Value::Exception(exception), rest)) = args.split_first() {
                    *exception.args.lock() = rest.to_vec();
                }
                Ok(Value::None)
            }
            "os" | "sys" => modules::call(self, builtin, args, keywords),
            "str" | "list" | "dict" | "set" | "tuple" if !args.is_empty() => {
                let mut args = args.into_iter();
                let object = args.next().unwrap_or_default();
                self.call_method(&object, builtin, args.collect(), keywords)
            }
            _ => refuse(format!("`{path}` cannot be called in host code"), "call it in a kernel"),
        }
    }

    /// Calls a method of a builtin type.
    pub(super) fn call_method(
        &mut self,
        object: &Value,
        builtin: Builtin,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        let path = builtin.0;
        let (kind, name) = path.split_once('.').unwrap_or(("", path));
        match (kind, object) {
            ("str", Value::Str(text)) => {
                strings::call(self, text, name, Args::new(name_of(path), args, keywords))
            }
            ("list", Value::List(list)) => {
                containers::call_list(self, list, name, Args::new(name_of(path), args, keywords))
            }
            ("dict", Value::Builtin(_)) => containers::from_keys(self, args),
            ("dict", Value::Dict(dict)) => {
                containers::call_dict(self, dict, name, Args::new(name_of(path), args, keywords))
            }
            ("set", Value::Set(set)) => {
                containers::call_set(self, set, name, Args::new(name_of(path), args, keywords))
            }
            ("tuple", Value::Tuple(items)) => {
                containers::call_tuple(self, items, name, Args::new(name_of(path), args, keywords))
            }
            ("array", _) => numpy::call_method(self, object, name, builtin, args, keywords),
            ("kernel", Value::Kernel(def)) => {
                let kernels = self.kernels.clone();
                self.flush();
                kernels.call_method(self, def, builtin.name(), &args, &keywords)
            }
            ("property", Value::Descriptor(descriptor)) => {
                match (&**descriptor, args.into_iter().next()) {
                    (Descriptor::Property { get, .. }, Some(set)) => {
                        let descriptor = Descriptor::Property { get: get.clone(), set: Some(set) };
                        Ok(Value::Descriptor(Arc::new(descriptor)))
                    }
                    _ => raise(E::TypeError, "setter() takes a function"),
                }
            }
            ("stream", Value::Builtin(stream)) => self.call_stream(*stream, name, args),
            ("environ", _) => {
                let [key, default] =
                    Args::new("get", args, keywords).take(["key", "default"], 1)?;
                let found = match &key {
                    Some(Value::Str(name)) => self.environment(name),
                    _ => None,
                };
                Ok(found.map(Value::str).or(default).unwrap_or_default())
            }
            ("exception", _) => Ok(object.clone()),
            ("object", Value::Exception(exception)) => {
                *exception.args.lock() = args;
                Ok(Value::None)
            }
            ("object", _) => Ok(Value::None),
            ("number" | "int" | "float", _) => convert::number_method(object, name, args),
            _ => {
                let kind_ = object.type_name();
                raise(
                    E::TypeError,
                    format!(
                        "descriptor '{name}' for '{kind}' objects doesn't apply to a '{kind_}' object"
                    ),
                )
            }
        }
    }

    fn call_python(
        &mut self,
        builtin: Builtin,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        let name = builtin.name();
        if matches!(name, "print") {
            return self.print(args, keywords);
        }
        if matches!(name, "min" | "max") {
            return self.extreme(name, args, keywords);
        }
        let mut a = Args::new(name, args, keywords);
        match name {
            "len" => {
                let [value] = a.exactly()?;
                Ok(Value::Int(self.length(&value)? as i128))
            }
            "range" => self.make_range(a.all()?),
            "abs" => {
                let [value] = a.exactly()?;
                match &value {
                    Value::Int(v) => bounded(v.checked_abs()).map(Value::Int),
                    Value::Bool(v) => Ok(Value::Int((*v).into())),
                    Value::Float(v) => Ok(Value::Float(v.abs())),
                    Value::Complex(re, im) => Ok(Value::Float(re.hypot(*im))),
                    _ if ops::is_numpy(&value) => {
                        numpy::call(self, Builtin("numpy.absolute"), vec![value], Vec::new())
                    }
                    _ => match self.special(&value, "__abs__")? {
                        Some(method) => self.call(&method, Vec::new(), Vec::new()),
                        None => raise(
                            E::TypeError,
                            format!("bad operand type for abs(): '{}'", value.type_name()),
                        ),
                    },
                }
            }
            "round" => {
                let [value, digits] = a.take(["number", "ndigits"], 1)?;
                self.round(&value.unwrap_or_default(), digits.filter(|d| !matches!(d, Value::None)))
            }
            "divmod" => {
                let [x, y] = a.exactly()?;
                if x.is_iterable() && !ops::is_numpy(&x) && !ops::is_numpy(&y) {
                    return raise(
                        E::TypeError,
                        format!(
                            "unsupported operand type(s) for divmod(): '{}' and '{}'",
                            x.type_name(),
                            y.type_name()
                        ),
                    );
                }
                let quotient =
                    self.binary(BinaryOp::FloorDiv, &x, &y).map_err(|stop| match stop {
                        Stop::Raised(r)
                            if r.exception.is_instance(&E::ZeroDivisionError.class())
                                && (matches!(x, Value::Float(_))
                                    || matches!(y, Value::Float(_))) =>
                        {
                            Raised::new(E::ZeroDivisionError, "float divmod()").into()
                        }
                        other => other,
                    })?;
                let rest = self.binary(BinaryOp::Mod, &x, &y)?;
                Ok(Value::tuple(vec![quotient, rest]))
            }
            "pow" => {
                let [base, exponent, modulus] = a.take(["base", "exp", "mod"], 2)?;
                let (base, exponent) = (base.unwrap_or_default(), exponent.unwrap_or_default());
                match modulus {
                    None | Some(Value::None) => self.binary(BinaryOp::Pow, &base, &exponent),
                    Some(modulus) => convert::power_modulo(&base, &exponent, &modulus),
                }
            }
            "sum" => {
                let [items, start] = a.take(["iterable", "start"], 1)?;
                let items = items.unwrap_or_default();
                let mut total = start.unwrap_or(Value::Int(0));
                if let Value::Str(_) = total {
                    return raise(
                        E::TypeError,
                        "sum() can't sum strings [use ''.join(seq) instead]",
                    );
                }
                let iter = self.iterate(&items)?;
                while let Some(item) = self.next(&iter)? {
                    total = self.binary(BinaryOp::Add, &total, &item)?;
                }
                Ok(total)
            }
            "any" | "all" => {
                let [mut items] = a.exactly()?;
                if let Value::Set(_) = items {
                    items = Value::list(self.collect_unordered(&items)?);
                }
                let iter = self.iterate(&items)?;
                while let Some(item) = self.next(&iter)? {
                    if self.truth(&item)? == (name == "any") {
                        return Ok(Value::Bool(name == "any"));
                    }
                }
                Ok(Value::Bool(name == "all"))
            }
            "sorted" => {
                let (key, reverse) = (a.keyword("key"), a.keyword("reverse"));
                let [items] = a.exactly()?;
                let items = self.collect_unordered(&items)?;
                let reverse = match reverse {
                    Some(reverse) => self.truth(&reverse)?,
                    None => false,
                };
                Ok(Value::list(self.sorted(items, key.as_ref(), reverse)?))
            }
            "reversed" => {
                let [items] = a.exactly()?;
                let mut values = match &items {
                    Value::Dict(_)
                    | Value::List(_)
                    | Value::Tuple(_)
                    | Value::Str(_)
                    | Value::Range(_) => self.collect(&items)?,
                    Value::Array(_) => self.collect(&items)?,
                    _ => {
                        return raise(
                            E::TypeError,
                            format!("'{}' object is not reversible", items.type_name()),
                        );
                    }
                };
                values.reverse();
                Ok(Value::iterator(Iter::Items(values.into_iter())))
            }
            "enumerate" => {
                let [items, start] = a.take(["iterable", "start"], 1)?;
                let start = match start {
                    Some(start) => self.index(&start)?.unwrap_or(0),
                    None => 0,
                };
                let iter = self.iterate(&items.unwrap_or_default())?;
                Ok(Value::iterator(Iter::Enumerate(iter, start)))
            }
            "zip" => {
                let strict = match a.keyword("strict") {
                    Some(strict) => self.truth(&strict)?,
                    None => false,
                };
                let iters = a.all()?.iter().map(|items| self.iterate(items)).collect::<Run<_>>()?;
                Ok(Value::iterator(Iter::Zip(iters, strict)))
            }
            "map" => {
                let mut args = a.all()?;
                if args.len() < 2 {
                    return raise(E::TypeError, "map() must have at least two arguments.");
                }
                let function = args.remove(0);
                let iters = args.iter().map(|items| self.iterate(items)).collect::<Run<_>>()?;
                Ok(Value::iterator(Iter::Map(function, iters)))
            }
            "filter" => {
                let [function, items] = a.exactly()?;
                let iter = self.iterate(&items)?;
                Ok(Value::iterator(Iter::Filter(function, iter)))
            }
            "iter" => {
                let [items] = a.exactly()?;
                self.iterate(&items).map(Value::Iterator)
            }
            "next" => {
                let [iter, default] = a.take(["iterator", "default"], 1)?;
                let iter = iter.unwrap_or_default();
                let item = match &iter {
                    Value::Iterator(iter) => self.next(iter)?,
                    Value::Instance(_) => {
                        let iter = Arc::new(Shared::new(Iter::Object(iter)));
                        self.next(&iter)?
                    }
                    other => {
                        return raise(
                            E::TypeError,
                            format!("'{}' object is not an iterator", other.type_name()),
                        );
                    }
                };
                match item.or(default) {
                    Some(item) => Ok(item),
                    None => Err(Raised::with(E::StopIteration.class(), Vec::new()).into()),
                }
            }
            "list" => {
                let [items] = a.take(["iterable"], 0)?;
                Ok(Value::list(match items {
                    Some(items) => self.collect(&items)?,
                    None => Vec::new(),
                }))
            }
            "tuple" => {
                let [items] = a.take(["iterable"], 0)?;
                Ok(Value::tuple(match items {
                    Some(items) => self.collect(&items)?,
                    None => Vec::new(),
                }))
            }
            "set" | "frozenset" => {
                let [items] = a.take(["iterable"], 0)?;
                let mut table = Table::default();
                for item in items.map_or(Ok(Vec::new()), |items| self.collect_unordered(&items))? {
                    table.insert(self.key(&item)?, item, Value::None);
                }
                Ok(Value::Set(Arc::new(Shared::new(table))))
            }
            "dict" => {
                let (args, keywords) = a.rest();
                let dict = Arc::new(Shared::new(Table::default()));
                containers::update(self, &dict, args.into_iter().next(), keywords)?;
                Ok(Value::Dict(dict))
            }
            "str" => {
                let [value] = a.take(["object"], 0)?;
                match value {
                    Some(value) => self.str(&value).map(Value::str),
                    None => Ok(Value::str(String::new())),
                }
            }
            "repr" => {
                let [value] = a.exactly()?;
                self.repr(&value).map(Value::str)
            }
            "ascii" => {
                let [value] = a.exactly()?;
                let text = self.repr(&value)?;
                Ok(Value::str(format::ascii(&text)))
            }
            "format" => {
                let [value, spec] = a.take(["value", "format_spec"], 1)?;
                let spec = match spec {
                    Some(Value::Str(spec)) => spec,
                    _ => "".into(),
                };
                self.format(&value.unwrap_or_default(), &spec).map(Value::str)
            }
            "int" => {
                let [value, base] = a.take(["x", "base"], 0)?;
                self.make_int(value, base)
            }
            "float" => {
                let [value] = a.take(["x"], 0)?;
                self.make_float(value.unwrap_or(Value::Int(0))).map(Value::Float)
            }
            "bool" => {
                let [value] = a.take(["x"], 0)?;
                Ok(Value::Bool(self.truth(&value.unwrap_or_default())?))
            }
            "complex" => {
                let [re, im] = a.take(["real", "imag"], 0)?;
                convert::make_complex(re, im)
            }
            "bytes" => {
                let [value] = a.exactly()?;
                let items = self.collect(&value)?;
                let byte = |item: &Value| match item {
                    Value::Int(v) => u8::try_from(*v).ok(),
                    _ => None,
                };
                match items.iter().map(byte).collect::<Option<_>>() {
                    Some(bytes) => Ok(Value::Bytes(bytes)),
                    None => raise(E::ValueError, "bytes must be in range(0, 256)"),
                }
            }
            "chr" => {
                let [value] = a.exactly()?;
                let Some(code) = self.index(&value)? else {
                    return raise(
                        E::TypeError,
                        format!(
                            "'{}' object cannot be interpreted as an integer",
                            value.type_name()
                        ),
                    );
                };
                let code = u32::try_from(code).ok().and_then(char::from_u32);
                match code {
                    Some(c) => Ok(Value::str(c.to_string())),
                    None => raise(E::ValueError, "chr() arg not in range(0x110000)"),
                }
            }
            "ord" => {
                let [value] = a.exactly()?;
                match &value {
                    Value::Str(text) if text.chars().count() == 1 => {
                        Ok(Value::Int(text.chars().next().map_or(0, |c| c as u32).into()))
                    }
                    Value::Str(text) => raise(
                        E::TypeError,
                        format!(
                            "ord() expected a character, but string of length {} found",
                            text.chars().count()
                        ),
                    ),
                    other => raise(
                        E::TypeError,
                        format!(
                            "ord() expected string of length 1, but {} found",
                            other.type_name()
                        ),
                    ),
                }
            }
            "bin" | "oct" | "hex" => {
                let [value] = a.exactly()?;
                let Some(v) = self.index(&value)? else {
                    return raise(
                        E::TypeError,
                        format!(
                            "'{}' object cannot be interpreted as an integer",
                            value.type_name()
                        ),
                    );
                };
                let (sign, v) = (if v < 0 { "-" } else { "" }, v.unsigned_abs());
                Ok(Value::str(match name {
                    "bin" => format!("{sign}0b{v:b}"),
                    "oct" => format!("{sign}0o{v:o}"),
                    _ => format!("{sign}0x{v:x}"),
                }))
            }
            "hash" => {
                let [value] = a.exactly()?;
                match (self.key(&value)?, &value) {
                    (
                        Key::Int(v),
                        Value::Int(_) | Value::Bool(_) | Value::Float(_) | Value::Scalar(_),
                    ) => Ok(Value::Int(convert::int_hash(v))),
                    _ => refuse(
                        "`hash` of this is not supported",
                        "Python's hashes differ from run to run",
                    ),
                }
            }
            "id" => refuse("`id` is not supported", "compare objects with `is`"),
            "isinstance" => {
                let [value, class] = a.exactly()?;
                Ok(Value::Bool(self.is_instance(&value, &class)?))
            }
            "issubclass" => {
                let [class, of] = a.exactly()?;
                Ok(Value::Bool(self.is_subclass(&class, &of)?))
            }
            "callable" => {
                let [value] = a.exactly()?;
                Ok(Value::Bool(value.is_callable()))
            }
            "type" => {
                let [value] = a.exactly()?;
                type_of(&value)
            }
            "getattr" => {
                let [object, name, default] = a.take(["object", "name", "default"], 2)?;
                let (object, Some(Value::Str(name))) = (object.unwrap_or_default(), name) else {
                    return raise(E::TypeError, "attribute name must be string");
                };
                match default {
                    Some(default) => Ok(self.find_attribute(&object, &name)?.unwrap_or(default)),
                    None => self.attribute(&object, &name),
                }
            }
            "hasattr" => {
                let [object, name] = a.exactly()?;
                let Value::Str(name) = name else {
                    return raise(E::TypeError, "attribute name must be string");
                };
                Ok(Value::Bool(self.find_attribute(&object, &name)?.is_some()))
            }
            "setattr" => {
                let [object, name, value] = a.exactly()?;
                let Value::Str(name) = name else {
                    return raise(E::TypeError, "attribute name must be string");
                };
                self.set_attribute(&object, &name, value).map(|()| Value::None)
            }
            "delattr" => {
                let [object, name] = a.exactly()?;
                let Value::Str(name) = name else {
                    return raise(E::TypeError, "attribute name must be string");
                };
                self.delete_attribute(&object, &name).map(|()| Value::None)
            }
            "vars" => {
                let [object] = a.exactly()?;
                self.attribute(&object, &"__dict__".into())
            }
            "property" => {
                let [get, set] = a.take(["fget", "fset"], 1)?;
                let descriptor = Descriptor::Property { get: get.unwrap_or_default(), set };
                Ok(Value::Descriptor(Arc::new(descriptor)))
            }
            "staticmethod" => {
                let [function] = a.exactly()?;
                Ok(Value::Descriptor(Arc::new(Descriptor::Static(function))))
            }
            "classmethod" => {
                let [function] = a.exactly()?;
                Ok(Value::Descriptor(Arc::new(Descriptor::Class(function))))
            }
            "super" => {
                let [class, object] = a.exactly()?;
                match class {
                    Value::Class(class) => Ok(Value::Super(Arc::new(Super { class, object }))),
                    _ => raise(E::TypeError, "super() argument 1 must be a type"),
                }
            }
            "slice" => items::make_slice(a.all()?),
            "object" => {
                static OBJECT: std::sync::LazyLock<Arc<Class>> = std::sync::LazyLock::new(|| {
                    Arc::new(Class {
                        name: "object".into(),
                        module: "builtins".into(),
                        qualified_name: "object".into(),
                        bases: Vec::new(),
                        mro: Vec::new(),
                        namespace: Shared::default(),
                        exception: None,
                        kind: ClassKind::Plain,
                    })
                });
                Ok(self.new_instance(&OBJECT, &[]))
            }
            "exit" => modules::exit(self, a.all()?.into_iter().next()),
            _ => refuse(
                format!("`{name}` is not supported"),
                "see the language's page for what host code may use",
            ),
        }
    }

    fn reduce(&mut self, args: Vec<Value>, keywords: Keywords) -> Run<Value> {
        let [function, items, start] =
            Args::new("reduce", args, keywords).take(["function", "iterable", "initial"], 2)?;
        let function = function.unwrap_or_default();
        let iter = self.iterate(&items.unwrap_or_default())?;
        let mut total = match start {
            Some(start) => start,
            None => match self.next(&iter)? {
                Some(first) => first,
                None => {
                    return raise(E::TypeError, "reduce() of empty iterable with no initial value");
                }
            },
        };
        while let Some(item) = self.next(&iter)? {
            total = self.call(&function, vec![total, item], Vec::new())?;
        }
        Ok(total)
    }

    fn print(&mut self, args: Vec<Value>, keywords: Keywords) -> Run<Value> {
        let mut named = Args::new("print", Vec::new(), keywords);
        let text = |value: Option<Value>, default: &str| match value {
            None | Some(Value::None) => Ok(Arc::<str>::from(default)),
            Some(Value::Str(text)) => Ok(text),
            Some(other) => raise(
                E::TypeError,
                format!("sep must be None or a string, not {}", other.type_name()),
            ),
        };
        let separator = text(named.keyword("sep"), " ")?;
        let end = text(named.keyword("end"), "\n")?;
        let file = named.keyword("file");
        let flush = named.keyword("flush");
        named.all()?;
        let mut line = String::new();
        for (i, value) in args.iter().enumerate() {
            if i > 0 {
                line.push_str(&separator);
            }
            line.push_str(&self.str(value)?);
        }
        line.push_str(&end);
        let stream = match file {
            None | Some(Value::None) => Builtin("sys.stdout"),
            Some(Value::Builtin(stream @ Builtin("sys.stdout" | "sys.stderr"))) => stream,
            Some(_) => {
                return refuse(
                    "`print` writes to `sys.stdout` and `sys.stderr` alone",
                    "leave `file` out",
                );
            }
        };
        self.write(stream, &line)?;
        if let Some(flush) = flush
            && self.truth(&flush)?
        {
            self.flush();
        }
        Ok(Value::None)
    }

    fn call_stream(&mut self, stream: Builtin, name: &str, args: Vec<Value>) -> Run<Value> {
        match (name, args.first()) {
            ("write", Some(Value::Str(text))) => {
                self.write(stream, text)?;
                Ok(Value::Int(text.chars().count() as i128))
            }
            ("write", _) => raise(E::TypeError, "write() argument must be str"),
            _ => {
                self.flush();
                Ok(Value::None)
            }
        }
    }

    fn make_range(&mut self, args: Vec<Value>) -> Run<Value> {
        let mut numbers = [0i64; 3];
        if args.is_empty() || args.len() > 3 {
            let count = args.len();
            let plural =
                if count == 0 { "at least 1 argument, got 0" } else { "at most 3 arguments" };
            return raise(
                E::TypeError,
                if count == 0 {
                    format!("range expected {plural}")
                } else {
                    format!("range expected {plural}, got {count}")
                },
            );
        }
        for (slot, value) in numbers.iter_mut().zip(&args) {
            let Some(v) = self.index(value)? else {
                return raise(
                    E::TypeError,
                    format!("'{}' object cannot be interpreted as an integer", value.type_name()),
                );
            };
            *slot = match i64::try_from(v) {
                Ok(v) => v,
                Err(_) => {
                    return refuse("`range` beyond 64 bits is not supported", "use smaller bounds");
                }
            };
        }
        let [a, b, c] = numbers;
        let range = match args.len() {
            1 => Range { start: 0, stop: a, step: 1 },
            2 => Range { start: a, stop: b, step: 1 },
            _ if c == 0 => return raise(E::ValueError, "range() arg 3 must not be zero"),
            _ => Range { start: a, stop: b, step: c },
        };
        Ok(Value::Range(range))
    }

    fn extreme(&mut self, name: &'static str, args: Vec<Value>, keywords: Keywords) -> Run<Value> {
        let mut a = Args::new(name, args, keywords);
        let (key, default) = (a.keyword("key"), a.keyword("default"));
        let mut items = a.all()?;
        match items.len() {
            0 => return raise(E::TypeError, format!("{name} expected at least 1 argument, got 0")),
            1 => items = self.collect_unordered(&items[0])?,
            _ => {}
        }
        let op = if name == "min" { CompareOp::Lt } else { CompareOp::Gt };
        let mut best: Option<(Value, Value)> = None;
        for item in items {
            let rank = match &key {
                None | Some(Value::None) => item.clone(),
                Some(key) => self.call(key, vec![item.clone()], Vec::new())?,
            };
            let better = match &best {
                None => true,
                Some((known, _)) => {
                    let result = self.compare(op, &rank, known)?;
                    self.truth(&result)?
                }
            };
            if better {
                best = Some((rank, item));
            }
        }
        match best.map(|(_, item)| item).or(default) {
            Some(item) => Ok(item),
            None => raise(E::ValueError, format!("{name}() arg is an empty sequence")),
        }
    }
}

fn name_of(path: &'static str) -> &'static str {
    path.rsplit('.').next().unwrap_or(path)
}
