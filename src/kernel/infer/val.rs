//! What typing knows of a value at one place: a typed expression, or something that needs no running.
//!
//! ```text
//!   Val::Run      type + IR expression (+ the literal it is known to be)
//!   all others    known while typing: modules, functions, types, ranges, slices, methods
//!   Slot          what a variable holds at the place that the walk has reached
//! ```

use std::sync::Arc;

use crate::kernel::ir::{self, ConstantId, Expr, LocalId};
use crate::kernel::rules;
use crate::kernel::syntax::{self, Name};
use crate::kernel::types::{IntTy, Layout, Literal, Ty};
use crate::kernel::value::{DType, KernelDef, Value};

/// What is known of a value.
#[derive(Clone, Debug)]
pub(super) enum Val {
    /// It exists when the program runs.
    Run {
        /// Its type, no literal.
        ty: Ty,
        /// Its value.
        expr: Expr,
        /// What it is known to be.
        literal: Option<Literal>,
    },
    /// A tuple with items that need no running.
    Tuple(Vec<Val>),
    /// A list display, which only functions that make arrays take.
    List(Vec<Val>),
    /// A host value that kernels only refer to: a module, class, function.
    Host(Value),
    /// A compiled function.
    Kernel(Arc<KernelDef>),
    /// A function that cachelift provides, by its qualified name.
    Builtin(Arc<str>),
    /// A function or lambda of the kernel.
    Local(Arc<Closure>),
    /// A method with the object it belongs to.
    Method(Box<Val>, Name),
    /// A type used as a function.
    Class(Ty),
    /// An element type.
    DType(Ty),
    /// `range(start, stop, step)`, each of type int64.
    Range(Box<[Expr; 3]>, IntTy),
    /// `enumerate(items, start)`.
    Enumerate(Box<Val>, Expr),
    /// `zip(...)`.
    Zip(Vec<Val>),
    /// `np.ndindex(...)` by its lengths; with the array whose elements come along, `np.ndenumerate(...)`.
    Indices(Vec<Expr>, Option<Box<Val>>),
    /// `start:stop:step`, each of type int64 where given.
    Slice(Box<[Option<Expr>; 3]>),
    /// `...`.
    Ellipsis,
}

/// A function or lambda inside of a kernel.
#[derive(Debug)]
pub(super) struct Closure {
    /// Its syntax.
    pub function: Arc<syntax::Function>,
    /// The frame that it was made in and whose variables it sees.
    pub frame: usize,
    /// The values of its defaults, in the order of its positional and keyword-only parameters.
    pub defaults: Vec<Option<Val>>,
}

impl Val {
    /// A running value that is not known.
    pub(super) fn run(ty: Ty, expr: Expr) -> Self {
        Self::Run { ty, expr, literal: None }
    }

    /// `None`.
    pub(super) fn none() -> Self {
        Self::Run { ty: Ty::None, expr: Expr::none(), literal: Some(Literal::None) }
    }

    /// An `int64` that is known.
    pub(super) fn int(value: i64) -> Self {
        Self::literal(&Literal::Int(value))
    }

    /// A known value; a literal tuple has running items.
    pub(super) fn literal(literal: &Literal) -> Self {
        let expr = match literal {
            Literal::None => Expr::none(),
            Literal::Bool(value) => Expr::bool(*value),
            Literal::Int(value) => Expr::int(*value),
            Literal::UInt(value) => Expr::new(
                ir::ExprKind::Const(ir::Const::Int(*value as i64)),
                ir::Type::Scalar(ir::Scalar::U64),
            ),
            Literal::Float(value) => Expr::float(*value),
            Literal::Complex(re, im) => {
                Expr::new(ir::ExprKind::Const(ir::Const::Complex(*re, *im)), ir::Type::C128)
            }
            Literal::Str(text) => Expr::str(text),
            Literal::Tuple(items) => return Self::tuple(items.iter().map(Self::literal).collect()),
        };
        let literal = match literal {
            Literal::Float(_) | Literal::Complex(..) => None,
            other => Some(other.clone()),
        };
        let ty = match &literal {
            Some(literal) => literal.ty(),
            None if expr.ty == ir::Type::C128 => Ty::Complex128,
            None => Ty::Float64,
        };
        Self::Run { ty, expr, literal }
    }

    /// A tuple: one running value if all its items run and none is a known value that an index needs.
    pub(super) fn tuple(items: Vec<Val>) -> Self {
        Self::Tuple(items)
    }

    /// What the value is known to be.
    pub(super) fn known(&self) -> Option<&Literal> {
        match self {
            Self::Run { literal, .. } => literal.as_ref(),
            _ => None,
        }
    }

    /// The integer it is known to be.
    pub(super) fn known_int(&self) -> Option<i64> {
        match self.known() {
            Some(Literal::Int(value)) => Some(*value),
            Some(Literal::Bool(value)) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// The string it is known to be.
    pub(super) fn known_str(&self) -> Option<&Arc<str>> {
        match self.known() {
            Some(Literal::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether it is `None`, and nothing else.
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::Run { ty: Ty::None, .. })
    }

    /// Its type, as a parameter of another kernel has it; `None` for what no kernel can be given.
    pub(super) fn ty(&self) -> Option<Ty> {
        Some(match self {
            Self::Run { ty, .. } => ty.clone(),
            Self::Tuple(items) => Ty::Tuple(items.iter().map(Self::ty).collect::<Option<_>>()?),
            Self::Kernel(def) => Ty::Function(crate::kernel::types::FunctionTy(def.clone())),
            Self::Class(ty) => Ty::Class(Arc::new(ty.clone())),
            Self::DType(ty) => Ty::DType(Arc::new(ty.clone())),
            _ => return None,
        })
    }

    /// What messages call its type.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Host(Value::Module(module)) => format!("module {}", module.name),
            Self::Host(Value::Function(function)) => {
                format!("the host function {}", function.syntax.name)
            }
            Self::Host(Value::Class(class)) => format!("the class {}", class.name),
            Self::Host(_) => "a value that only the host knows".into(),
            Self::Builtin(name) => format!("the function {name}"),
            Self::Local(closure) => format!("the local function {}", closure.function.name),
            Self::Method(_, name) => format!("the method {name}"),
            Self::Range(_, int) => Ty::Range(*int).to_string(),
            Self::Enumerate(..) => "enumerate".into(),
            Self::Zip(_) => "zip".into(),
            Self::Indices(..) => "indices".into(),
            Self::List(_) => "list".into(),
            Self::Slice(parts) => Ty::Slice { step: parts[2].is_some() }.to_string(),
            Self::Ellipsis => "ellipsis".into(),
            other => other.ty().map_or_else(|| "tuple".into(), |ty| ty.to_string()),
        }
    }

    /// Whether the two are the same without running anything.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kernel(a), Self::Kernel(b)) => Arc::ptr_eq(a, b),
            (Self::Builtin(a), Self::Builtin(b)) => a == b,
            (Self::Local(a), Self::Local(b)) => {
                Arc::ptr_eq(&a.function, &b.function) && a.frame == b.frame
            }
            (Self::Class(a), Self::Class(b)) | (Self::DType(a), Self::DType(b)) => a == b,
            (Self::Range(a, x), Self::Range(b, y)) => a == b && x == y,
            (Self::Slice(a), Self::Slice(b)) => a == b,
            (Self::Ellipsis, Self::Ellipsis) => true,
            (Self::Run { ty: a, expr: x, .. }, Self::Run { ty: b, expr: y, .. }) => {
                a == b && x == y
            }
            (Self::Tuple(a), Self::Tuple(b))
            | (Self::List(a), Self::List(b))
            | (Self::Zip(a), Self::Zip(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Self::Method(a, x), Self::Method(b, y)) => x == y && a.same(b),
            (Self::Enumerate(a, x), Self::Enumerate(b, y)) => x == y && a.same(b),
            (Self::Host(Value::Module(a)), Self::Host(Value::Module(b))) => Arc::ptr_eq(a, b),
            (Self::Host(Value::Function(a)), Self::Host(Value::Function(b))) => Arc::ptr_eq(a, b),
            (Self::Host(Value::Class(a)), Self::Host(Value::Class(b))) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// What a variable holds at one place.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    /// Nothing on any path.
    Unset,
    /// A running value of this type, in this local.
    Run(Ty, LocalId, Option<Literal>),
    /// Something that needs no running.
    Known(Val),
    /// Values of two types that nothing unifies.
    Conflict(String, String),
}

impl Slot {
    /// What a variable holds where a path on which it holds `self` meets one on which it holds `other`, and the type
    /// of the local that is then needed.
    pub(super) fn join(&self, other: &Self) -> Joined {
        match (self, other) {
            (Self::Unset, slot) | (slot, Self::Unset) => Joined::Slot(slot.clone()),
            (Self::Run(a, x, p), Self::Run(b, _, q)) if a == b => {
                Joined::Slot(Self::Run(a.clone(), *x, if p == q { p.clone() } else { None }))
            }
            (Self::Run(a, ..), Self::Run(b, ..)) => match rules::unify(a, b) {
                Some(ty) => Joined::Run(ty),
                None => Joined::Slot(Self::Conflict(a.to_string(), b.to_string())),
            },
            (Self::Known(a), Self::Known(b)) if a.same(b) => Joined::Slot(self.clone()),
            (Self::Conflict(..), _) => Joined::Slot(self.clone()),
            (_, Self::Conflict(..)) => Joined::Slot(other.clone()),
            (a, b) => Joined::Slot(Self::Conflict(a.describe(), b.describe())),
        }
    }

    /// Whether both hold the same in the same way.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unset, Self::Unset) | (Self::Conflict(..), Self::Conflict(..)) => true,
            (Self::Run(a, x, p), Self::Run(b, y, q)) => a == b && x == y && p == q,
            (Self::Known(a), Self::Known(b)) => a.same(b),
            _ => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Unset => "nothing".into(),
            Self::Run(ty, ..) => ty.to_string(),
            Self::Known(val) => val.describe(),
            Self::Conflict(a, _) => a.clone(),
        }
    }
}

/// The outcome of [`Slot::join`].
pub(super) enum Joined {
    /// This slot.
    Slot(Slot),
    /// A running value of this type, in whichever local is the variable's for it.
    Run(Ty),
}

/// The IR's type for values of a type; of what needs no running, `None`.
pub(crate) fn ir_type(ty: &Ty) -> ir::Type {
    match ty {
        Ty::Bool | Ty::Int(_) | Ty::Float32 | Ty::Float64 | Ty::Complex128 => {
            ir_scalar(ty).map_or(ir::Type::None, ir::Type::Scalar)
        }
        Ty::Optional(inner) => ir::Type::Optional(Box::new(ir_type(inner))),
        Ty::Tuple(items) | Ty::StarArgs(items) => {
            ir::Type::Tuple(items.iter().map(ir_type).collect())
        }
        Ty::Array(array) => ir::Type::Array(ir::ArrayType {
            element: ir_element(&array.dtype),
            ndim: u32::from(array.ndim),
            // What has one axis and is dense is dense in both ways.
            layout: if array.ndim < 2 && array.layout == Layout::F {
                ir::Layout::C
            } else {
                ir_layout(array.layout)
            },
        }),
        Ty::Record(_) => match ir_element(ty) {
            ir::Element::Record(record) => ir::Type::Record(record),
            _ => ir::Type::None,
        },
        Ty::StructRef(structref) => ir::Type::Struct(Box::new(ir::StructType {
            name: structref.class.to_string(),
            fields: structref
                .fields
                .iter()
                .map(|(name, ty)| (name.to_string(), ir_type(ty)))
                .collect(),
        })),
        Ty::Str => ir::Type::Str,
        Ty::Literal(literal) => ir_type(&literal.ty()),
        Ty::None
        | Ty::Omitted(_)
        | Ty::Function(_)
        | Ty::Class(_)
        | Ty::DType(_)
        | Ty::Range(_)
        | Ty::Slice { .. } => ir::Type::None,
    }
}

/// The IR's scalar for a number type.
pub(super) fn ir_scalar(ty: &Ty) -> Option<ir::Scalar> {
    use ir::Scalar as S;
    Some(match ty {
        Ty::Bool => S::Bool,
        Ty::Int(IntTy { bits, signed }) => match (bits, signed) {
            (8, true) => S::I8,
            (16, true) => S::I16,
            (32, true) => S::I32,
            (_, true) => S::I64,
            (8, false) => S::U8,
            (16, false) => S::U16,
            (32, false) => S::U32,
            (_, false) => S::U64,
        },
        Ty::Float32 => S::F32,
        Ty::Float64 => S::F64,
        Ty::Complex128 => S::C128,
        _ => return None,
    })
}

fn ir_element(ty: &Ty) -> ir::Element {
    match ty {
        Ty::Record(record) => ir::Element::Record(ir::RecordType {
            fields: record
                .fields
                .iter()
                .map(|field| ir::RecordField {
                    name: field.name.to_string(),
                    offset: field.offset as u32,
                    element: ir_element(&field.ty),
                })
                .collect(),
            size: record.size as u32,
        }),
        other => ir::Element::Scalar(ir_scalar(other).unwrap_or(ir::Scalar::I64)),
    }
}

fn ir_layout(layout: Layout) -> ir::Layout {
    match layout {
        Layout::C => ir::Layout::C,
        Layout::F => ir::Layout::F,
        Layout::A => ir::Layout::A,
    }
}

/// What a host value is inside of a kernel, with arrays as constants; `None` where kernels cannot refer to it.
pub(super) fn of_host(
    value: &Value,
    mut constant: impl FnMut(&crate::kernel::array::Array) -> (Ty, ConstantId),
) -> Option<Val> {
    of_host_inner(value, &mut constant)
}

fn of_host_inner(
    value: &Value,
    constant: &mut dyn FnMut(&crate::kernel::array::Array) -> (Ty, ConstantId),
) -> Option<Val> {
    use crate::kernel::value::Scalar as S;
    let int = |value: i64, ty: Ty| {
        let expr = Expr::new(ir::ExprKind::Const(ir::Const::Int(value)), ir_type(&ty));
        Val::run(ty, expr)
    };
    Some(match value {
        Value::None => Val::none(),
        Value::Ellipsis => Val::Ellipsis,
        Value::Bool(value) => Val::literal(&Literal::Bool(*value)),
        Value::Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
            (Ok(value), _) => Val::int(value),
            (_, Ok(value)) => Val::literal(&Literal::UInt(value)),
            _ => return None,
        },
        Value::Float(value) => Val::literal(&Literal::Float(*value)),
        Value::Complex(re, im) => Val::literal(&Literal::Complex(*re, *im)),
        Value::Str(text) => Val::literal(&Literal::Str(text.clone())),
        Value::Tuple(items) => Val::tuple(
            items.iter().map(|item| of_host_inner(item, constant)).collect::<Option<_>>()?,
        ),
        Value::Scalar(scalar) => match *scalar {
            S::Bool(value) => Val::literal(&Literal::Bool(value)),
            S::I8(value) => int(value.into(), Ty::I8),
            S::I16(value) => int(value.into(), Ty::I16),
            S::I32(value) => int(value.into(), Ty::I32),
            S::I64(value) => int(value, Ty::I64),
            S::U8(value) => int(value.into(), Ty::U8),
            S::U16(value) => int(value.into(), Ty::U16),
            S::U32(value) => int(value.into(), Ty::U32),
            S::U64(value) => int(value as i64, Ty::U64),
            S::F32(value) => Val::run(
                Ty::Float32,
                Expr::new(
                    ir::ExprKind::Const(ir::Const::Float(value.into())),
                    ir_type(&Ty::Float32),
                ),
            ),
            S::F64(value) => Val::literal(&Literal::Float(value)),
            S::C128(re, im) => Val::literal(&Literal::Complex(re, im)),
        },
        Value::Array(array) => {
            let (ty, id) = constant(array);
            let expr = Expr::new(ir::ExprKind::Constant(id), ir_type(&ty));
            Val::run(ty, expr)
        }
        Value::DType(dtype) => Val::DType(dtype.ty()),
        Value::ScalarType(dtype) => Val::Class(dtype.ty()),
        Value::Type(ty) => Val::Class(ty.clone()),
        Value::Kernel(def) => Val::Kernel(def.clone()),
        Value::Builtin(builtin) => Val::Builtin(builtin.0.into()),
        Value::Module(_) | Value::Function(_) | Value::Class(_) => Val::Host(value.clone()),
        _ => return None,
    })
}

/// Numba's type of a host value as an argument of a call, or `None` where it has none.
pub(crate) fn type_of(value: &Value) -> Option<Ty> {
    use crate::kernel::types::{ArrayTy, FunctionTy};
    Some(match value {
        Value::None => Ty::None,
        Value::Bool(_) => Ty::Bool,
        Value::Int(value) if i64::try_from(*value).is_ok() => Ty::I64,
        Value::Int(value) if u64::try_from(*value).is_ok() => Ty::U64,
        Value::Float(_) => Ty::Float64,
        Value::Complex(..) => Ty::Complex128,
        Value::Str(_) => Ty::Str,
        Value::Tuple(items) => Ty::Tuple(items.iter().map(type_of).collect::<Option<_>>()?),
        Value::Scalar(scalar) => scalar.dtype().ty(),
        Value::Array(array) => {
            let layout = if array.is_c_contiguous() {
                Layout::C
            } else if array.is_f_contiguous() {
                Layout::F
            } else {
                Layout::A
            };
            Ty::Array(Arc::new(ArrayTy {
                dtype: array.dtype().ty(),
                ndim: u8::try_from(array.ndim()).ok()?,
                layout,
                readonly: !array.writable(),
            }))
        }
        Value::Record(record) => record.dtype().ty(),
        Value::DType(dtype) => Ty::DType(Arc::new(dtype.ty())),
        Value::ScalarType(dtype) => Ty::Class(Arc::new(dtype.ty())),
        Value::Type(ty) => Ty::Class(Arc::new(ty.clone())),
        Value::Kernel(def) => Ty::Function(FunctionTy(def.clone())),
        Value::StructRef(structref) => structref.ty.clone(),
        _ => return None,
    })
}

/// The literal that an omitted default of this value is, or `None` where a default cannot be omitted.
pub(crate) fn literal_of(value: &Value) -> Option<Literal> {
    use crate::kernel::value::Scalar as S;
    Some(match value {
        Value::None => Literal::None,
        Value::Bool(value) => Literal::Bool(*value),
        Value::Int(value) => match i64::try_from(*value) {
            Ok(value) => Literal::Int(value),
            Err(_) => Literal::UInt(u64::try_from(*value).ok()?),
        },
        Value::Float(value) => Literal::Float(*value),
        Value::Complex(re, im) => Literal::Complex(*re, *im),
        Value::Str(text) => Literal::Str(text.clone()),
        Value::Tuple(items) => Literal::Tuple(items.iter().map(literal_of).collect::<Option<_>>()?),
        Value::Scalar(S::F64(value)) => Literal::Float(*value),
        Value::Scalar(S::I64(value)) => Literal::Int(*value),
        Value::Scalar(S::Bool(value)) => Literal::Bool(*value),
        _ => return None,
    })
}

/// The element type that a `dtype=` argument names.
pub(super) fn dtype_of(val: &Val) -> Option<Ty> {
    match val {
        Val::Class(ty) | Val::DType(ty) => Some(ty.clone()),
        Val::Builtin(name) => match &**name {
            "builtins.int" => Some(Ty::I64),
            "builtins.float" => Some(Ty::Float64),
            "builtins.bool" => Some(Ty::Bool),
            "builtins.complex" => Some(Ty::Complex128),
            _ => None,
        },
        Val::Run { literal: Some(Literal::Str(text)), .. } => {
            DType::named(text).map(|dtype| dtype.ty())
        }
        _ => None,
    }
}
