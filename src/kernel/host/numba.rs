//! `numba`: decorators, types and registrations.
//!
//! ```text
//!   @njit, @vectorize, ... ──► KernelDef ──► Kernels::define
//!   @overload, structref.* ──► Registry, in order
//!   int64, float64[:], "int64(int64)" ──► Value::Type, Value::Signature
//! ```

use std::sync::Arc;

use super::{
    Host,
    call::{Args, Keywords},
    error::{raise, refuse},
    frame::Frame,
    modules, numpy,
};
use crate::kernel::{
    dtype::DType,
    exception::ExceptionKind as E,
    parse,
    source::Source,
    syntax::{self, ExprKind, Name, Span, StmtKind},
    types::{ArrayTy, Layout, Literal, Ty, TypeClass},
    value::{
        Builtin, Class, ClassKind, Function, KernelDef, KernelKind, Module, Namespace, Overload,
        OverloadTarget, Partial, Run, Signature, StructDef, TypeKey, Value,
    },
};

const FUNCTIONS: &[&str] = &[
    "numba.njit",
    "numba.jit",
    "numba.vectorize",
    "numba.guvectorize",
    "numba.cfunc",
    "numba.prange",
    "numba.typeof",
    "numba.literally",
    "numba.literal_unroll",
    "numba.extending.overload",
    "numba.extending.overload_method",
    "numba.extending.overload_attribute",
    "numba.extending.register_jitable",
    "numba.extending.intrinsic",
    "numba.experimental.structref.register",
    "numba.experimental.structref.define_proxy",
    "numba.experimental.structref.define_constructor",
    "numba.experimental.structref.define_boxing",
    "numba.experimental.structref.define_attributes",
    "numba.types.unliteral",
    "numba.types.literal",
    "numba.types.optional",
    "numba.get_num_threads",
    "numba.set_num_threads",
];

/// What one of Numba's modules has under a name.
pub(super) fn member(module: &str, name: &str) -> Option<Value> {
    match (module, name) {
        ("numba", "pndindex" | "objmode" | "stencil" | "cuda" | "typed") => return None,
        ("numba", "__version__") => return Some(Value::str("0.65.1".into())),
        ("numba.experimental.structref", "StructRefProxy") => {
            return Some(Value::Class(modules::structref_proxy()));
        }
        ("numba.core", "types") => return modules::provided("numba.types").map(Value::Module),
        ("numba" | "numba.types" | "numba.core.types", _) => {
            if let Some(ty) = named_type(name) {
                return Some(Value::Type(ty));
            }
            if module != "numba" {
                if let Some(class) = TypeClass::named(name) {
                    return Some(Value::TypeClass(class));
                }
                if name == "misc" {
                    return modules::provided("numba.types").map(Value::Module);
                }
                return modules::builtin_of(FUNCTIONS, &format!("numba.types.{name}"));
            }
        }
        _ => {}
    }
    modules::builtin_of(FUNCTIONS, &format!("{module}.{name}"))
}

/// The type that a name of `numba.types` means.
fn named_type(name: &str) -> Option<Ty> {
    Some(match name {
        "boolean" | "bool_" | "bool" | "b1" => Ty::Bool,
        "int8" | "i1" | "char" => Ty::I8,
        "int16" | "i2" | "short" => Ty::I16,
        "int32" | "i4" | "int_" | "intc" => {
            if name == "int_" {
                Ty::I64
            } else {
                Ty::I32
            }
        }
        "int64" | "i8" | "intp" | "long_" | "longlong" | "ssize_t" => Ty::I64,
        "uint8" | "u1" | "byte" | "uchar" => Ty::U8,
        "uint16" | "u2" | "ushort" => Ty::U16,
        "uint32" | "u4" | "uintc" => Ty::U32,
        "uint64" | "u8" | "uintp" | "size_t" | "ulong" | "ulonglong" | "uint" => Ty::U64,
        "float32" | "f4" | "float_" => Ty::Float32,
        "float64" | "f8" | "double" => Ty::Float64,
        "complex128" | "c16" => Ty::Complex128,
        "none" | "void" => Ty::None,
        "unicode_type" | "string" => Ty::Str,
        _ => return None,
    })
}

/// Calls one of Numba's functions.
pub(super) fn call(
    host: &mut Host,
    builtin: Builtin,
    args: Vec<Value>,
    keywords: Keywords,
) -> Run<Value> {
    match builtin.0 {
        "numba.njit"
        | "numba.jit"
        | "numba.vectorize"
        | "numba.guvectorize"
        | "numba.cfunc"
        | "numba.extending.register_jitable" => decorator(host, builtin, args, keywords),
        "numba.apply" => apply(host, args, keywords),
        "numba.extending.overload"
        | "numba.extending.overload_method"
        | "numba.extending.overload_attribute" => {
            // The function follows when the decorator is applied.
            let mut all = vec![Value::Builtin(builtin), Value::tuple(args)];
            all.push(Value::Bool(true));
            let applied = Partial {
                function: Value::Builtin(Builtin("numba.register")),
                args: all,
                keywords,
            };
            Ok(Value::Partial(Arc::new(applied)))
        }
        "numba.register" => register(host, args, keywords),
        "numba.extending.intrinsic" => refuse(
            "`intrinsic` is not supported",
            "write the function in the kernel language and register it with `overload`",
        ),
        "numba.experimental.structref.register" => {
            let [class] = Args::new("register", args, keywords).exactly()?;
            match &class {
                Value::Class(c) if c.kind == ClassKind::StructType => Ok(class),
                _ => refuse(
                    "`structref.register` decorates a class based on `types.StructRef`",
                    "write `class PointType(types.StructRef):`",
                ),
            }
        }
        "numba.experimental.structref.define_proxy"
        | "numba.experimental.structref.define_constructor" => {
            let [proxy, ty, fields] = Args::new(builtin.name(), args, keywords)
                .take(["py_class", "struct_typeclass", "fields"], 3)?;
            let (Some(Value::Class(proxy)), Some(Value::Class(type_class)), Some(fields)) =
                (proxy, ty, fields)
            else {
                return refuse(
                    format!(
                        "`{}` takes a proxy, a registered class and a list of fields",
                        builtin.name()
                    ),
                    "write `structref.define_proxy(Point, PointType, [\"x\", \"y\"])`",
                );
            };
            let mut names = Vec::new();
            for field in host.collect(&fields)? {
                match field {
                    Value::Str(name) => names.push(name),
                    other => {
                        return raise(
                            E::TypeError,
                            format!("a field's name must be str, not {}", other.type_name()),
                        );
                    }
                }
            }
            host.registry.structs.push(Arc::new(StructDef { type_class, proxy, fields: names }));
            Ok(Value::None)
        }
        // With the constructor known, host code may hold and pass structrefs, and kernels reach all fields.
        "numba.experimental.structref.define_boxing"
        | "numba.experimental.structref.define_attributes" => Ok(Value::None),
        "numba.structref.new" => {
            let Some((Value::Class(class), fields)) = args.split_first() else {
                return raise(E::TypeError, "StructRefProxy.__new__(X): X is not a type object");
            };
            if host.registry.struct_of_proxy(class).is_none() {
                return refuse(
                    format!("`{}` is not yet known as a proxy", class.name),
                    "call `structref.define_proxy` before making instances",
                );
            }
            let kernels = host.kernels.clone();
            kernels.construct(host, class, fields)
        }
        "numba.types.unliteral" => {
            let [ty] = Args::new("unliteral", args, keywords).exactly()?;
            match &ty {
                Value::Type(ty) => Ok(Value::Type(ty.unliteral())),
                _ => Ok(ty),
            }
        }
        "numba.types.literal" => {
            let [value] = Args::new("literal", args, keywords).exactly()?;
            let literal = match &value {
                Value::Bool(v) => Literal::Bool(*v),
                Value::Int(v) => match i64::try_from(*v) {
                    Ok(v) => Literal::Int(v),
                    Err(_) => return raise(E::OverflowError, "Int value is too large"),
                },
                Value::Str(v) => Literal::Str(v.clone()),
                Value::None => Literal::None,
                other => {
                    return refuse(
                        format!("'{}' has no literal type", other.type_name()),
                        "use an int or a str",
                    );
                }
            };
            Ok(Value::Type(Ty::Literal(literal)))
        }
        "numba.types.optional" => call_class(host, TypeClass::Optional, args, keywords),
        "numba.prange" => host.call_builtin(Builtin("builtins.range"), args, keywords),
        "numba.literal_unroll" | "numba.literally" => match args.into_iter().next() {
            Some(value) => Ok(value),
            None => raise(E::TypeError, "an argument is missing"),
        },
        "numba.set_num_threads" => Ok(Value::None),
        "numba.get_num_threads" => {
            let count = std::thread::available_parallelism().map_or(1, |n| n.get());
            Ok(Value::Int(count as i128))
        }
        path => {
            refuse(format!("`{path}` is not supported in host code"), "see the language's page")
        }
    }
}

/// `@njit`, `@njit(...)`, `njit(function)`.
fn decorator(
    host: &mut Host,
    builtin: Builtin,
    mut args: Vec<Value>,
    keywords: Keywords,
) -> Run<Value> {
    let function = match args.first() {
        Some(Value::Function(_)) => Some(args.remove(0)),
        Some(Value::Kernel(_)) => {
            return refuse("this function is a kernel already", "decorate it once");
        }
        _ => None,
    };
    let mut all = vec![Value::Builtin(builtin), Value::tuple(args)];
    match function {
        Some(function) => {
            all.push(function);
            apply(host, all, keywords)
        }
        None => Ok(Value::Partial(Arc::new(Partial {
            function: Value::Builtin(Builtin("numba.apply")),
            args: all,
            keywords,
        }))),
    }
}

/// Makes a kernel: decorator, its positional arguments, the function; options by name.
fn apply(host: &mut Host, args: Vec<Value>, mut keywords: Keywords) -> Run<Value> {
    let [Value::Builtin(decorator), Value::Tuple(specs), function] = args.as_slice() else {
        return raise(E::TypeError, "a decorator takes one function");
    };
    let function = match function {
        Value::Function(function) => function.clone(),
        Value::Kernel(def) => def.closure.clone(),
        Value::Descriptor(_) | Value::Class(_) => {
            return refuse(
                "kernels are plain functions",
                "decorate a function at module level and call it from the method",
            );
        }
        other => {
            return raise(
                E::TypeError,
                format!("a decorator takes a function, not '{}'", other.type_name()),
            );
        }
    };
    let mut specs: Vec<Value> = specs.to_vec();
    let layout = match (decorator.0, specs.len()) {
        ("numba.guvectorize", _) => {
            let layout = if specs.len() == 2 { specs.pop() } else { None };
            match layout.or_else(|| specs.pop()) {
                Some(Value::Str(layout)) => Some(layout),
                _ => {
                    return refuse(
                        "`guvectorize` takes a list of signatures and a layout",
                        "write `@guvectorize([(float64[:], float64[:])], \"(n)->(n)\")`",
                    );
                }
            }
        }
        _ => None,
    };
    if let Some(at) = keywords.iter().position(|(name, _)| {
        matches!(&**name, "signature" | "signature_or_function" | "ftylist_or_function")
    }) {
        specs.push(keywords.remove(at).1);
    }
    let mut signatures = Vec::new();
    for spec in &specs {
        signatures_of(host, spec, &mut signatures)?;
    }
    let kind = match decorator.0 {
        "numba.vectorize" => KernelKind::Vectorize,
        "numba.guvectorize" => KernelKind::Guvectorize(layout.unwrap_or_default()),
        "numba.cfunc" => KernelKind::Cfunc,
        "numba.extending.register_jitable" => KernelKind::Jitable,
        _ => KernelKind::Jit,
    };
    if kind == KernelKind::Cfunc && signatures.len() != 1 {
        return refuse("`cfunc` takes one signature", "write `@cfunc(\"float64(float64)\")`");
    }
    keywords.sort_by(|a, b| a.0.cmp(&b.0));
    let span = host.decorator_span;
    let def = host.define_kernel(function, kind, keywords, signatures, span);
    let kernels = host.kernels.clone();
    kernels.define(host, &def)?;
    Ok(Value::Kernel(def))
}

impl Host {
    /// A new kernel of a function, numbered after those of the same name and file.
    pub(crate) fn define_kernel(
        &mut self,
        closure: Arc<Function>,
        kind: KernelKind,
        options: Vec<(Name, Value)>,
        signatures: Vec<Signature>,
        decorator_span: Span,
    ) -> Arc<KernelDef> {
        let function = closure.syntax.clone();
        let ordinal = self.registry.next_ordinal(&function.source.name, &function.name);
        Arc::new(KernelDef {
            function,
            closure,
            kind,
            options,
            signatures,
            ordinal,
            decorator_span,
        })
    }

    /// Evaluates text whose names are Numba's types.
    fn eval_types(&mut self, text: &str) -> Run<Value> {
        let source = Arc::new(Source::new("<signature>", None, text));
        let tree = parse::parse_expression(&source).map_err(crate::kernel::value::Stop::Refused)?;
        let globals = Namespace::default();
        collect_names(&tree, &mut |name| {
            if let Some(value) = member("numba.types", name) {
                globals.lock().insert(name.into(), value);
            }
        });
        let module = Arc::new(Module {
            name: "numba.types".into(),
            source: None,
            package: "".into(),
            folder: None,
            globals,
        });
        let mut frame = Frame::module(&module, &source);
        self.eval(&mut frame, &tree)
    }
}

/// All names in the parts of an expression that signatures are made of.
fn collect_names(expr: &syntax::Expr, found: &mut impl FnMut(&str)) {
    match &expr.kind {
        ExprKind::Name(name) => found(name),
        ExprKind::Call { function, args } => {
            collect_names(function, found);
            args.iter().for_each(|arg| collect_names(arg.value(), found));
        }
        ExprKind::Subscript { value, index } => {
            collect_names(value, found);
            collect_names(index, found);
        }
        ExprKind::Tuple(items) | ExprKind::List(items) => {
            items.iter().for_each(|item| collect_names(item, found))
        }
        _ => {}
    }
}

fn signatures_of(host: &mut Host, spec: &Value, out: &mut Vec<Signature>) -> Run<()> {
    match spec {
        Value::Signature(signature) => out.push((**signature).clone()),
        Value::Str(text) => {
            let value = host.eval_types(text)?;
            match value {
                Value::Str(_) => {
                    return refuse(format!("`{text}` is no signature"), "write `int64(int64)`");
                }
                value => signatures_of(host, &value, out)?,
            }
        }
        Value::Tuple(items) if items.iter().all(|item| matches!(item, Value::Type(_))) => {
            let args = items
                .iter()
                .filter_map(|item| match item {
                    Value::Type(ty) => Some(ty.clone()),
                    _ => None,
                })
                .collect();
            out.push(Signature { returns: None, args });
        }
        Value::List(items) => {
            for item in items.get() {
                signatures_of(host, &item, out)?;
            }
        }
        Value::Tuple(items) => {
            for item in items.iter() {
                signatures_of(host, item, out)?;
            }
        }
        Value::None => {}
        other => {
            return refuse(
                format!("a signature cannot be a '{}'", other.type_name()),
                "write `int64(int64)`, or a string, or a list of them",
            );
        }
    }
    Ok(())
}

/// `@overload(target)` and its kin, applied to a function.
fn register(host: &mut Host, args: Vec<Value>, mut keywords: Keywords) -> Run<Value> {
    let [Value::Builtin(decorator), Value::Tuple(given), _, function] = args.as_slice() else {
        return raise(E::TypeError, "a decorator takes one function");
    };
    let Value::Function(implementation) = function else {
        return refuse(
            "an overload is a plain function",
            "decorate the function that returns implementations",
        );
    };
    let target = match (decorator.0, given.as_ref()) {
        ("numba.extending.overload", [target]) => OverloadTarget::Function(target.clone()),
        (path, [class, Value::Str(name)]) => {
            let key = match class {
                Value::TypeClass(class) => TypeKey::Class(*class),
                Value::Class(class) if class.kind == ClassKind::StructType => {
                    TypeKey::Struct(class.clone())
                }
                other => {
                    return refuse(
                        format!(
                            "`{}` takes a class of types, not a '{}'",
                            decorator.name(),
                            other.type_name()
                        ),
                        "write `types.Integer`, `types.Array` or a registered structref",
                    );
                }
            };
            if path == "numba.extending.overload_method" {
                OverloadTarget::Method(key, name.clone())
            } else {
                OverloadTarget::Attribute(key, name.clone())
            }
        }
        _ => {
            return refuse(
                format!("these arguments of `{}` are not supported", decorator.name()),
                "write `@overload(function)` or `@overload_method(types.Integer, \"name\")`",
            );
        }
    };
    keywords.sort_by(|a, b| a.0.cmp(&b.0));
    host.registry.overloads.push(Arc::new(Overload {
        target,
        function: implementation.clone(),
        options: keywords,
    }));
    Ok(function.clone())
}

impl Host {
    /// `int64(...)`: a signature from types, else the value as an element of the type.
    pub(super) fn call_type(
        &mut self,
        ty: &Ty,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        let types: Option<Vec<Ty>> = args
            .iter()
            .map(|arg| match arg {
                Value::Type(ty) => Some(ty.clone()),
                _ => None,
            })
            .collect();
        if let Some(types) =
            types.filter(|types| !types.is_empty() || *ty == Ty::None || args.is_empty())
        {
            return Ok(Value::Signature(Arc::new(Signature {
                returns: Some(ty.clone()),
                args: types,
            })));
        }
        match DType::from_ty(ty) {
            Some(DType::Bool) => self.call_builtin(Builtin("builtins.bool"), args, keywords),
            Some(dtype) => self.call_scalar_type(&dtype, args, keywords),
            None => raise(E::TypeError, format!("'{ty}' is not callable")),
        }
    }

    /// `types.Array(...)` and its kin.
    pub(super) fn call_type_class(
        &mut self,
        class: TypeClass,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        call_class(self, class, args, keywords)
    }
}

fn call_class(
    host: &mut Host,
    class: TypeClass,
    args: Vec<Value>,
    keywords: Keywords,
) -> Run<Value> {
    let wrong = || {
        refuse(
            format!("`types.{class:?}` cannot be made from these arguments"),
            "write `types.Array(dtype, ndim, layout)`, `types.UniTuple(type, count)` or `types.Tuple((type, ...))`",
        )
    };
    match class {
        TypeClass::Array => {
            let [dtype, ndim, layout, readonly] = Args::new("Array", args, keywords)
                .take(["dtype", "ndim", "layout", "readonly"], 3)?;
            let (Some(Value::Type(dtype)), Some(Value::Int(ndim)), Some(Value::Str(layout))) =
                (dtype, ndim, layout)
            else {
                return wrong();
            };
            let layout = match &*layout {
                "C" => Layout::C,
                "F" => Layout::F,
                "A" => Layout::A,
                _ => return wrong(),
            };
            let Ok(ndim) = u8::try_from(ndim) else { return wrong() };
            let readonly = match readonly {
                Some(readonly) => host.truth(&readonly)?,
                None => false,
            };
            Ok(Value::Type(Ty::Array(Arc::new(ArrayTy { dtype, ndim, layout, readonly }))))
        }
        TypeClass::UniTuple => {
            let [ty, count] = Args::new("UniTuple", args, keywords).take(["dtype", "count"], 2)?;
            match (ty, count) {
                (Some(Value::Type(ty)), Some(Value::Int(count))) if (0..=1000).contains(&count) => {
                    Ok(Value::Type(Ty::tuple(std::iter::repeat_n(ty, count as usize))))
                }
                _ => wrong(),
            }
        }
        TypeClass::Tuple | TypeClass::BaseTuple => {
            let [items] = Args::new("Tuple", args, keywords).take(["types"], 1)?;
            let mut types = Vec::new();
            for item in host.collect(&items.unwrap_or_default())? {
                match item {
                    Value::Type(ty) => types.push(ty),
                    _ => return wrong(),
                }
            }
            Ok(Value::Type(Ty::tuple(types)))
        }
        TypeClass::Optional => match args.as_slice() {
            [Value::Type(ty)] => Ok(Value::Type(Ty::Optional(Arc::new(ty.clone())))),
            _ => wrong(),
        },
        _ => wrong(),
    }
}

/// `float64[:]`, `float64[:, ::1]`: an array type. Of a tuple type, the type of an item.
pub(super) fn type_item(host: &mut Host, ty: &Ty, index: &Value) -> Run<Value> {
    if let Some(elements) = ty.elements() {
        let items = Value::tuple(elements.iter().cloned().map(Value::Type).collect());
        return host.item(&items, index);
    }
    let slices: Vec<Value> = match index {
        Value::Tuple(items) => items.to_vec(),
        other => vec![other.clone()],
    };
    let steps: Option<Vec<bool>> = slices
        .iter()
        .map(|slice| match slice {
            Value::Slice(slice)
                if matches!((&slice.start, &slice.stop), (Value::None, Value::None)) =>
            {
                match slice.step {
                    Value::None => Some(false),
                    Value::Int(1) => Some(true),
                    _ => None,
                }
            }
            _ => None,
        })
        .collect();
    let layout = match steps.as_deref() {
        Some([rest @ .., true]) if !rest.contains(&true) => Some(Layout::C),
        Some([true, rest @ ..]) if !rest.contains(&true) => Some(Layout::F),
        Some(steps) if !steps.contains(&true) && !steps.is_empty() => Some(Layout::A),
        _ => None,
    };
    match layout {
        Some(layout) if ty.item_size().is_some() => {
            Ok(Value::Type(Ty::array(ty.clone(), slices.len() as u8, layout)))
        }
        _ => refuse(
            format!("`{ty}` cannot be indexed like this"),
            "an array's type is written `float64[:]`, `float64[:, :]` or `float64[:, ::1]`",
        ),
    }
}

/// An attribute of a type, as overload bodies ask for it.
pub(super) fn type_attribute(ty: &Ty, name: &str) -> Option<Value> {
    let int = |v: usize| Value::Int(v as i128);
    if name == "name" {
        return Some(Value::str(ty.to_string()));
    }
    Some(match (ty, name) {
        (Ty::Literal(literal), "literal_value") | (Ty::Omitted(literal), "value") => {
            literal_value(literal)
        }
        (Ty::Literal(literal), "literal_type") => Value::Type(literal.ty()),
        (Ty::Literal(literal), _) => return type_attribute(&literal.ty(), name),
        (Ty::Int(int), "bitwidth") => Value::Int(int.bits.into()),
        (Ty::Int(int), "signed") => Value::Bool(int.signed),
        (Ty::Float32, "bitwidth") => Value::Int(32),
        (Ty::Float64, "bitwidth") => Value::Int(64),
        (Ty::Complex128, "bitwidth") => Value::Int(128),
        (Ty::Complex128, "underlying_float") => Value::Type(Ty::Float64),
        (Ty::Array(array), "dtype") => Value::Type(array.dtype.clone()),
        (Ty::Array(array), "ndim") => int(array.ndim.into()),
        (Ty::Array(array), "layout") => Value::str(format!("{:?}", array.layout)),
        (Ty::Array(array), "mutable") => Value::Bool(!array.readonly),
        (Ty::Array(array), "readonly") => Value::Bool(array.readonly),
        (Ty::Array(array), "aligned") => {
            Value::Bool(!matches!(&array.dtype, Ty::Record(r) if !r.aligned))
        }
        (Ty::Array(array), "is_c_contig") => Value::Bool(array.layout == Layout::C),
        (Ty::Array(array), "is_f_contig") => Value::Bool(array.layout == Layout::F),
        (Ty::Array(array), "is_contig") => Value::Bool(array.layout != Layout::A),
        (Ty::Optional(inner), "type") => Value::Type((**inner).clone()),
        (Ty::Record(record), "dtype") => Value::DType(DType::from_ty(&Ty::Record(record.clone()))?),
        (Ty::Record(record), "size") => int(record.size),
        (Ty::StructRef(structref), "field_dict") => super::containers::dict(
            structref
                .fields
                .iter()
                .map(|(name, ty)| (Value::Str(name.clone()), Value::Type(ty.clone()))),
        ),
        (Ty::DType(inner), "dtype") | (Ty::Class(inner), "instance_type") => {
            Value::Type((**inner).clone())
        }
        (Ty::Function(function), "dispatcher") => Value::Kernel(function.0.clone()),
        _ => {
            let elements = ty.elements()?;
            match name {
                "types" => Value::tuple(elements.iter().cloned().map(Value::Type).collect()),
                "count" => int(elements.len()),
                "dtype" => Value::Type(
                    elements.first().filter(|first| elements.iter().all(|e| e == *first))?.clone(),
                ),
                _ => return None,
            }
        }
    })
}

/// The value of a literal type.
pub(super) fn literal_value(literal: &Literal) -> Value {
    match literal {
        Literal::None => Value::None,
        Literal::Bool(v) => Value::Bool(*v),
        Literal::Int(v) => Value::Int((*v).into()),
        Literal::UInt(v) => Value::Int((*v).into()),
        Literal::Float(v) => Value::Float(*v),
        Literal::Complex(re, im) => Value::Complex(*re, *im),
        Literal::Str(v) => Value::Str(v.clone()),
        Literal::Tuple(items) => Value::tuple(items.iter().map(literal_value).collect()),
    }
}

/// Whether a type is of a registered structref's class.
pub(super) fn is_structref_of(ty: &Ty, class: &Class) -> bool {
    matches!(ty, Ty::StructRef(structref) if structref.class == class.name && structref.module == class.module)
}

/// `__doc__` of a function.
pub(super) fn docstring(function: &syntax::Function) -> Value {
    match function.body.first().map(|stmt| &stmt.kind) {
        Some(StmtKind::Expr(syntax::Expr { kind: ExprKind::Str(text), .. })) => {
            Value::Str(text.clone())
        }
        _ => Value::None,
    }
}

impl Host {
    /// `np.float32(value)`.
    pub(super) fn call_scalar_type(
        &mut self,
        dtype: &DType,
        args: Vec<Value>,
        keywords: Keywords,
    ) -> Run<Value> {
        numpy::make_scalar(self, dtype, args, keywords)
    }
}
