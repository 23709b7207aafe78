//! Calls: functions, classes, methods, partials, kernels.

use std::sync::Arc;

use super::{
    Host, MAX_DEPTH,
    error::{raise, refuse},
    exec::Flow,
    frame::Frame,
    out_of_stack, traceback_frame,
};
use crate::kernel::{
    diagnostic::Diagnostic,
    exception::{Exception, ExceptionKind as E, Raised},
    format,
    syntax::{self, ClassDef, Name},
    types::TypeClass,
    value::{
        Builtin, Class, ClassKind, Descriptor, Function, Instance, KernelKind, Method, Namespace,
        Partial, Run, Shared, Stop, Value,
    },
};

/// Keyword arguments, in the order of the call.
pub(super) type Keywords = Vec<(Name, Value)>;

impl Host {
    /// Calls a value.
    ///
    /// # Errors
    /// What it raises; a `TypeError` where it is not callable.
    pub(crate) fn call(
        &mut self,
        callee: &Value,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        match callee {
            Value::Function(function) => self.call_function(function, args, keywords),
            Value::Builtin(builtin) => self.call_builtin(*builtin, args, keywords),
            Value::Method(method) => match &method.function {
                Value::Builtin(builtin) => {
                    self.call_method(&method.object, *builtin, args, keywords)
                }
                function => {
                    let mut all = vec![method.object.clone()];
                    all.extend(args);
                    self.call(function, all, keywords)
                }
            },
            Value::Partial(partial) => {
                let mut all = partial.args.clone();
                all.extend(args);
                let mut named: Keywords = partial.keywords.clone();
                for (name, value) in keywords {
                    match named.iter_mut().find(|(known, _)| *known == name) {
                        Some(slot) => slot.1 = value,
                        None => named.push((name, value)),
                    }
                }
                self.call(&partial.function, all, named)
            }
            Value::Class(class) => self.call_class(class, args, keywords),
            Value::Kernel(def) => {
                let host_runs = match def.kind {
                    KernelKind::Cfunc | KernelKind::Jitable => true,
                    _ => matches!(def.option("forceobj"), Some(Value::Bool(true))),
                };
                if host_runs {
                    return self.call_function(&def.closure, args, keywords);
                }
                let kernels = self.kernels.clone();
                kernels.call(self, def, &args, &keywords)
            }
            Value::Type(ty) => self.call_type(ty, args, keywords),
            Value::TypeClass(class) => self.call_type_class(*class, args, keywords),
            Value::ScalarType(dtype) => self.call_scalar_type(dtype, args, keywords),
            Value::DType(_) => raise(E::TypeError, "'numpy.dtype' object is not callable"),
            Value::Instance(_) | Value::StructRef(_) => match self.special(callee, "__call__")? {
                Some(method) => self.call(&method, args, keywords),
                None => {
                    raise(E::TypeError, format!("'{}' object is not callable", callee.type_name()))
                }
            },
            _ => raise(E::TypeError, format!("'{}' object is not callable", callee.type_name())),
        }
    }

    /// Calls a function of host code.
    pub(super) fn call_function(
        &mut self,
        function: &Arc<Function>,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        let syntax = &function.syntax;
        if self.depth >= MAX_DEPTH || out_of_stack() {
            return raise(E::RecursionError, "maximum recursion depth exceeded");
        }
        let mut frame = Frame::inner(
            &function.module,
            &syntax.source,
            &syntax.name,
            &syntax.scope,
            &function.cells,
        );
        frame.prefix = format!("{}.<locals>.", function.qualified_name).into();
        frame.method_of = function.class.lock().as_ref().and_then(std::sync::Weak::upgrade);
        frame.span = syntax.name_span;
        bind_arguments(function, args, keywords, &mut frame)?;
        if syntax.is_generator {
            return Err(Diagnostic::new(
                &syntax.source,
                syntax.name_span,
                "generator functions are not supported",
            )
            .hint("return a list, or write a generator expression")
            .into());
        }
        self.depth += 1;
        let result = self.exec_body(&mut frame, &syntax.body);
        self.depth -= 1;
        match result {
            Ok(Flow::Return(value)) => Ok(value),
            Ok(_) => Ok(Value::None),
            Err(Stop::Raised(mut raised)) => {
                raised.trace.push(traceback_frame(&frame));
                Err(Stop::Raised(raised))
            }
            Err(other) => Err(other),
        }
    }

    /// A function made by `def` or `lambda`.
    pub(super) fn make_function(
        &mut self,
        frame: &mut Frame,
        syntax: &Arc<syntax::Function>,
    ) -> Run<Value> {
        let mut defaults = Vec::with_capacity(syntax.params.positional.len());
        for param in &syntax.params.positional {
            defaults
                .push(param.default.as_ref().map(|default| self.eval(frame, default)).transpose()?);
        }
        let mut keyword_defaults = Vec::with_capacity(syntax.params.keyword_only.len());
        for param in &syntax.params.keyword_only {
            keyword_defaults
                .push(param.default.as_ref().map(|default| self.eval(frame, default)).transpose()?);
        }
        Ok(Value::Function(Arc::new(Function {
            syntax: syntax.clone(),
            module: frame.module.clone(),
            cells: frame.capture(&syntax.scope),
            defaults,
            keyword_defaults,
            qualified_name: format!("{}{}", frame.prefix, syntax.name).into(),
            class: Shared::default(),
        })))
    }

    /// A class made by `class`.
    pub(super) fn make_class(&mut self, frame: &mut Frame, syntax: &Arc<ClassDef>) -> Run<Value> {
        let mut bases = Vec::new();
        let mut mro: Vec<Arc<Class>> = Vec::new();
        let mut kind = ClassKind::Plain;
        let mut exception = None;
        for base in &syntax.bases {
            let value = self.eval(frame, base)?;
            match &value {
                Value::Class(class) => {
                    if class.kind != ClassKind::Plain {
                        kind = class.kind;
                    }
                    exception = exception.or(class.exception);
                    for class in std::iter::once(class).chain(&class.mro) {
                        // Of a base that is met twice, the last place counts.
                        mro.retain(|known| !Arc::ptr_eq(known, class));
                        mro.push(class.clone());
                    }
                }
                Value::TypeClass(TypeClass::StructRef) => kind = ClassKind::StructType,
                Value::Builtin(Builtin("builtins.object")) => {}
                other => {
                    let message =
                        format!("a class cannot be based on '{}'", format::callable_name(other));
                    return Err(Diagnostic::new(&frame.source, base.span, message)
                        .hint("base it on a class of host code, an exception, `types.StructRef` or `structref.StructRefProxy`")
                        .into());
                }
            }
            bases.push(value);
        }
        let namespace: Arc<Namespace> = Arc::default();
        let cells = frame.capture(&syntax.scope);
        let mut scope = syntax.scope.clone();
        scope.locals.clear();
        let mut inner = Frame::inner(&frame.module, &frame.source, &syntax.name, &scope, &cells);
        let qualified_name: Name = format!("{}{}", frame.prefix, syntax.name).into();
        inner.prefix = format!("{qualified_name}.").into();
        inner.class = Some(namespace.clone());
        inner.span = syntax.span;
        if let Err(mut stop) = self.exec_body(&mut inner, &syntax.body) {
            if let Stop::Raised(raised) = &mut stop {
                raised.trace.push(traceback_frame(&inner));
            }
            return Err(stop);
        }
        drop(inner);
        let names = std::mem::take(&mut *namespace.lock());
        let class = Arc::new(Class {
            name: syntax.name.clone(),
            module: frame.module.name.clone(),
            qualified_name,
            bases,
            mro,
            namespace: Namespace::new(names),
            exception,
            kind,
        });
        for value in class.namespace.lock().values() {
            let functions = match value {
                Value::Function(_) => vec![value],
                Value::Descriptor(descriptor) => match &**descriptor {
                    Descriptor::Static(f) | Descriptor::Class(f) => vec![f],
                    Descriptor::Property { get, set } => std::iter::once(get).chain(set).collect(),
                },
                _ => Vec::new(),
            };
            for function in functions {
                if let Value::Function(function) = function {
                    *function.class.lock() = Some(Arc::downgrade(&class));
                }
            }
        }
        Ok(Value::Class(class))
    }

    fn call_class(
        &mut self,
        class: &Arc<Class>,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        if class.kind == ClassKind::StructType {
            return refuse(
                format!("`{}` cannot be called", class.name),
                "make instances with the proxy that `structref.define_proxy` names",
            );
        }
        let object = match class.lookup("__new__") {
            Some(new) => {
                let new = match new {
                    Value::Descriptor(d) => match &*d {
                        Descriptor::Static(f) => f.clone(),
                        _ => Value::Descriptor(d.clone()),
                    },
                    other => other,
                };
                let mut all = vec![Value::Class(class.clone())];
                all.extend(args.iter().cloned());
                self.call(&new, all, keywords.clone())?
            }
            None => self.new_instance(class, &args),
        };
        let is_instance = match &object {
            Value::Instance(instance) => instance.class.is_subclass(class),
            Value::Exception(exception) => exception.class.is_subclass(class),
            Value::StructRef(object) => object.class.is_subclass(class),
            _ => false,
        };
        if is_instance {
            match class.lookup("__init__") {
                Some(init) => {
                    let method =
                        Value::Method(Arc::new(Method { object: object.clone(), function: init }));
                    self.call(&method, args, keywords)?;
                }
                None if class.exception.is_some() && !keywords.is_empty() => {
                    return raise(
                        E::TypeError,
                        format!("{}() takes no keyword arguments", class.name),
                    );
                }
                None if class.exception.is_none()
                    && class.kind == ClassKind::Plain
                    && class.lookup("__new__").is_none()
                    && !(args.is_empty() && keywords.is_empty()) =>
                {
                    return raise(E::TypeError, format!("{}() takes no arguments", class.name));
                }
                None => {}
            }
        }
        Ok(object)
    }

    /// An instance before `__init__`.
    pub(super) fn new_instance(&mut self, class: &Arc<Class>, args: &[Value]) -> Value {
        if class.exception.is_some() {
            Value::Exception(Exception::new(class.clone(), args.to_vec()))
        } else {
            Value::Instance(Arc::new(Instance {
                class: class.clone(),
                attributes: Shared::default(),
            }))
        }
    }

    /// A special method of an object, bound to it.
    pub(super) fn special(&mut self, object: &Value, name: &str) -> Run<Option<Value>> {
        let class = match object {
            Value::Instance(instance) => &instance.class,
            Value::Exception(exception) => &exception.class,
            Value::StructRef(object) => &object.class,
            _ => return Ok(None),
        };
        Ok(class
            .lookup(name)
            .map(|function| Value::Method(Arc::new(Method { object: object.clone(), function }))))
    }

    /// Applies a decorator that stands before a `def` or `class`.
    pub(super) fn decorate(
        &mut self,
        frame: &mut Frame,
        decorator: &Value,
        value: Value,
        span: syntax::Span,
    ) -> Run<Value> {
        self.decorator_span = span;
        let source = frame.source.clone();
        self.call(decorator, vec![value], Vec::new()).map_err(|stop| match stop {
            Stop::Refused(diagnostic) => Stop::from(diagnostic.or_at(&source, span)),
            other => other,
        })
    }
}

/// Puts the arguments of a call into the frame of a function, as Python does.
fn bind_arguments(
    function: &Function,
    args: Vec<Value>,
    keywords: Keywords,
    frame: &mut Frame,
) -> Run<()> {
    let values = bind_to_parameters(function, args, keywords)?;
    for (param, value) in function.syntax.params.iter().zip(values) {
        frame.bind(&param.name, value);
    }
    Ok(())
}

/// The values of a function's parameters for a call: positional ones, the tuple of `*args`, keyword-only ones, the dict
/// of `**kwargs`.
///
/// # Errors
/// A `TypeError` as Python words it.
pub(crate) fn bind_to_parameters(
    function: &Function,
    args: Vec<Value>,
    keywords: Keywords,
) -> Run<Vec<Value>> {
    let params = &function.syntax.params;
    let name = &function.qualified_name;
    let count = params.positional.len();
    let given = args.len();
    let mut values: Vec<Option<Value>> = vec![None; count];
    let mut rest = Vec::new();
    for (i, value) in args.into_iter().enumerate() {
        if i < count { values[i] = Some(value) } else { rest.push(value) }
    }
    let mut named: Vec<Option<Value>> = vec![None; params.keyword_only.len()];
    let mut extra = crate::kernel::table::Table::default();
    for (keyword, value) in keywords {
        let positional =
            params.positional.iter().skip(params.positional_only).position(|p| p.name == keyword);
        if let Some(at) = positional.map(|at| at + params.positional_only) {
            if values[at].is_some() {
                return raise(
                    E::TypeError,
                    format!("{name}() got multiple values for argument '{keyword}'"),
                );
            }
            values[at] = Some(value);
        } else if let Some(at) = params.keyword_only.iter().position(|p| p.name == keyword) {
            named[at] = Some(value);
        } else if params.double_star.is_some() {
            extra.insert(
                crate::kernel::table::Key::Str(keyword.clone()),
                Value::Str(keyword),
                value,
            );
        } else if params.positional[..params.positional_only].iter().any(|p| p.name == keyword) {
            return raise(
                E::TypeError,
                format!(
                    "{name}() got some positional-only arguments passed as keyword arguments: '{keyword}'"
                ),
            );
        } else {
            return raise(
                E::TypeError,
                format!("{name}() got an unexpected keyword argument '{keyword}'"),
            );
        }
    }
    if !rest.is_empty() && params.star.is_none() {
        let required = count - function.defaults.iter().flatten().count();
        let takes = if required == count {
            count.to_string()
        } else {
            format!("from {required} to {count}")
        };
        let plural = if count == 1 && required == count { "" } else { "s" };
        let were = if given == 1 { "was" } else { "were" };
        return raise(
            E::TypeError,
            format!("{name}() takes {takes} positional argument{plural} but {given} {were} given"),
        );
    }
    let mut missing = Vec::new();
    for (at, value) in values.iter_mut().enumerate() {
        if value.is_none() {
            *value = function.defaults[at].clone();
        }
        if value.is_none() {
            missing.push(&params.positional[at].name);
        }
    }
    if !missing.is_empty() {
        return raise(E::TypeError, missing_arguments(name, "positional", &missing));
    }
    for (at, value) in named.iter_mut().enumerate() {
        if value.is_none() {
            *value = function.keyword_defaults[at].clone();
        }
        if value.is_none() {
            missing.push(&params.keyword_only[at].name);
        }
    }
    if !missing.is_empty() {
        return raise(E::TypeError, missing_arguments(name, "keyword-only", &missing));
    }
    let mut all: Vec<Value> = values.into_iter().flatten().collect();
    if params.star.is_some() {
        all.push(Value::tuple(rest));
    }
    all.extend(named.into_iter().flatten());
    if params.double_star.is_some() {
        all.push(Value::Dict(Arc::new(Shared::new(extra))));
    }
    Ok(all)
}

fn missing_arguments(function: &str, kind: &str, missing: &[&Name]) -> String {
    let quoted: Vec<String> = missing.iter().map(|name| format!("'{name}'")).collect();
    let list = match quoted.as_slice() {
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [rest @ .., last] => format!("{}, and {last}", rest.join(", ")),
        [] => String::new(),
    };
    let plural = if quoted.len() == 1 { "" } else { "s" };
    format!("{function}() missing {} required {kind} argument{plural}: {list}", quoted.len())
}

/// The arguments of a call to something that cachelift provides.
pub(super) struct Args {
    function: &'static str,
    positional: std::vec::IntoIter<Value>,
    keywords: Keywords,
    given: usize,
}

impl Args {
    pub(super) fn new(function: &'static str, positional: Vec<Value>, keywords: Keywords) -> Args {
        Args { function, given: positional.len(), positional: positional.into_iter(), keywords }
    }

    /// The parameters called `names`, of which the first `required` must be given; nothing else may be.
    pub(super) fn take<const N: usize>(
        mut self,
        names: [&str; N],
        required: usize,
    ) -> Run<[Option<Value>; N]> {
        let mut values = [const { None }; N];
        for (at, (slot, name)) in values.iter_mut().zip(names).enumerate() {
            *slot = self.positional.next();
            if let Some(found) = self.keywords.iter().position(|(keyword, _)| &**keyword == name) {
                if slot.is_some() {
                    return raise(
                        E::TypeError,
                        format!("{}() got multiple values for argument '{name}'", self.function),
                    );
                }
                *slot = Some(self.keywords.remove(found).1);
            }
            if slot.is_none() && at < required {
                return raise(
                    E::TypeError,
                    format!(
                        "{}() missing required argument '{name}' (pos {})",
                        self.function,
                        at + 1
                    ),
                );
            }
        }
        if self.positional.next().is_some() {
            return raise(
                E::TypeError,
                format!("{}() takes at most {N} arguments ({} given)", self.function, self.given),
            );
        }
        if let Some((name, _)) = self.keywords.first() {
            return refuse(
                format!("`{}` has no argument `{name}` here", self.function),
                match names
                    .iter()
                    .filter(|name| !name.is_empty())
                    .copied()
                    .collect::<Vec<_>>()
                    .join("`, `")
                {
                    names if names.is_empty() => "it takes none by name".into(),
                    names => format!("it takes `{names}`"),
                },
            );
        }
        Ok(values)
    }

    /// Exactly `N` positional arguments.
    pub(super) fn exactly<const N: usize>(self) -> Run<[Value; N]> {
        let (function, given) = (self.function, self.given);
        if let Some((name, _)) = self.keywords.first() {
            return raise(
                E::TypeError,
                format!("{function}() takes no keyword arguments (`{name}` was given)"),
            );
        }
        let all: Vec<Value> = self.positional.collect();
        all.try_into().or_else(|_| {
            let plural = if N == 1 { "" } else { "s" };
            let takes = match N {
                0 => "no arguments".to_owned(),
                1 => "exactly one argument".to_owned(),
                n => format!("{n} argument{plural}"),
            };
            raise(E::TypeError, format!("{function}() takes {takes} ({given} given)"))
        })
    }

    /// All positional arguments; no keywords.
    pub(super) fn all(self) -> Run<Vec<Value>> {
        match self.keywords.first() {
            Some((name, _)) => raise(
                E::TypeError,
                format!("{}() got an unexpected keyword argument '{name}'", self.function),
            ),
            None => Ok(self.positional.collect()),
        }
    }

    /// A keyword argument, if it was given.
    pub(super) fn keyword(&mut self, name: &str) -> Option<Value> {
        let at = self.keywords.iter().position(|(keyword, _)| &**keyword == name)?;
        Some(self.keywords.remove(at).1)
    }

    /// What is left.
    pub(super) fn rest(self) -> (Vec<Value>, Keywords) {
        (self.positional.collect(), self.keywords)
    }
}

/// A bound method of something that cachelift provides.
pub(super) fn method(object: &Value, function: &'static str) -> Value {
    Value::Method(Arc::new(Method {
        object: object.clone(),
        function: Value::Builtin(Builtin(function)),
    }))
}

/// `functools.partial`.
pub(super) fn partial(mut args: Vec<Value>, keywords: Keywords) -> Run<Value> {
    if args.is_empty() {
        return raise(E::TypeError, "type 'partial' takes at least one argument");
    }
    let function = args.remove(0);
    if !function.is_callable() {
        return raise(E::TypeError, "the first argument must be callable");
    }
    Ok(Value::Partial(Arc::new(match &function {
        // As Python does, a partial of a partial is one partial.
        Value::Partial(inner) => {
            let mut all = inner.args.clone();
            all.extend(args);
            let mut named = inner.keywords.clone();
            for (name, value) in keywords {
                match named.iter_mut().find(|(known, _)| *known == name) {
                    Some(slot) => slot.1 = value,
                    None => named.push((name, value)),
                }
            }
            Partial { function: inner.function.clone(), args: all, keywords: named }
        }
        _ => Partial { function, args, keywords },
    })))
}

/// An exception that stops the program, as text for people.
pub(super) fn uncaught(raised: &Raised, message: &str) -> String {
    let mut out = String::new();
    if !raised.trace.is_empty() {
        out.push_str("Traceback (most recent call last):\n");
        let frames: Vec<String> = raised
            .trace
            .iter()
            .rev()
            .map(|frame| {
                let (line, column) = frame.source.position(frame.span.start);
                let text = frame.source.line_text(line);
                let shown = text.trim_start();
                let cut = text.chars().count() - shown.chars().count();
                let shown = shown.trim_end();
                let before = (column - 1).saturating_sub(cut);
                let marked = frame.source.slice(frame.span).lines().next().unwrap_or_default();
                let room = shown.chars().count().saturating_sub(before);
                let marked = marked.trim_end().chars().count().clamp(1, room.max(1));
                format!(
                    "  File \"{}\", line {line}, in {}\n    {shown}\n    {}{}\n",
                    frame.source.name,
                    frame.function,
                    " ".repeat(before),
                    "^".repeat(marked),
                )
            })
            .collect();
        let mut i = 0;
        while i < frames.len() {
            let run = frames[i..].iter().take_while(|frame| **frame == frames[i]).count();
            for _ in 0..run.min(3) {
                out.push_str(&frames[i]);
            }
            if run > 3 {
                out.push_str(&format!("  [Previous line repeated {} more times]\n", run - 3));
            }
            i += run;
        }
    }
    out.push_str(message);
    out
}
