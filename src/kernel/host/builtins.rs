//! Python's builtin functions and types.

use std::sync::Arc;

use super::{
    Host, attributes,
    call::{Args, Keywords, method, partial},
    containers,
    error::{bounded, raise, refuse},
    frame::Frame,
    items,
    iterate::Iter,
    math, modules, numba, number, numpy, ops, strings,
};
use crate::kernel::{
    exception::{ExceptionKind as E, Raised},
    format,
    syntax::{BinaryOp, CompareOp},
    table::{Key, Table},
    types::TypeClass,
    value::{
        Builtin, Class, ClassKind, Descriptor, Range, Run, Scalar, Shared, Stop, Super, Value,
    },
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
            ("number" | "int" | "float", _) => number_method(object, name, args),
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
                    Some(modulus) => power_modulo(&base, &exponent, &modulus),
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
                make_complex(re, im)
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
                let code = self
                    .index(&value)?
                    .and_then(|v| u32::try_from(v).ok())
                    .and_then(char::from_u32);
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
                    ) => Ok(Value::Int(int_hash(v))),
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

    fn round(&mut self, value: &Value, digits: Option<Value>) -> Run<Value> {
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

    fn make_int(&mut self, value: Option<Value>, base: Option<Value>) -> Run<Value> {
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

    fn is_subclass(&mut self, class: &Value, of: &Value) -> Run<bool> {
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

fn name_of(path: &'static str) -> &'static str {
    path.rsplit('.').next().unwrap_or(path)
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

/// CPython's hash of an integer: modulo 2**61 - 1.
fn int_hash(v: i128) -> i128 {
    let hash = (v.unsigned_abs() % ((1 << 61) - 1)) as i128;
    match if v < 0 { -hash } else { hash } {
        -1 => -2,
        hash => hash,
    }
}

fn power_modulo(base: &Value, exponent: &Value, modulus: &Value) -> Run<Value> {
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

fn make_complex(re: Option<Value>, im: Option<Value>) -> Run<Value> {
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

fn number_method(object: &Value, name: &str, args: Vec<Value>) -> Run<Value> {
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
