//! Numba's rules of arithmetic: which type two types meet in, which loop of a ufunc fits.
//!
//! ```text
//!   scalars   int8 + int8   ──► int64 + int64 -> int64      the machine's widest
//!   arrays    int8[] + int8[] ─► the ufunc's first loop that all inputs can be cast to: bb->b
//! ```
//!
//! The tables were checked against Numba 0.65.1 with NumPy 2.4, pair by pair (see the tests).

use crate::kernel::syntax::{BinaryOp, CompareOp, UnaryOp};
use crate::kernel::types::{ArrayTy, IntTy, Layout, Ty};
use std::sync::Arc;

/// What an operator on scalars does: both operands are cast, then the result has a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// What the operands are cast to.
    pub operands: Vec<Ty>,
    /// The result's type.
    pub result: Ty,
}

fn rule(operands: impl Into<Vec<Ty>>, result: Ty) -> Option<Rule> {
    Some(Rule { operands: operands.into(), result })
}

/// NumPy's promotion of two number types: the smallest that holds both.
pub(super) fn promote(a: &Ty, b: &Ty) -> Option<Ty> {
    Some(match (a, b) {
        (a, b) if a == b && a.is_number() => a.clone(),
        (Ty::Bool, other) | (other, Ty::Bool) if other.is_number() => other.clone(),
        (Ty::Complex128, other) | (other, Ty::Complex128) if other.is_number() => Ty::Complex128,
        (Ty::Int(a), Ty::Int(b)) if a.signed == b.signed => {
            Ty::Int(IntTy { bits: a.bits.max(b.bits), signed: a.signed })
        }
        (Ty::Int(a), Ty::Int(b)) => {
            let (signed, unsigned) = if a.signed { (a, b) } else { (b, a) };
            if signed.bits > unsigned.bits {
                Ty::Int(*signed)
            } else if unsigned.bits == 64 {
                Ty::Float64
            } else {
                Ty::Int(IntTy { bits: unsigned.bits * 2, signed: true })
            }
        }
        (Ty::Float32, Ty::Int(int)) | (Ty::Int(int), Ty::Float32) if int.bits <= 16 => Ty::Float32,
        (Ty::Float32 | Ty::Float64 | Ty::Int(_), Ty::Float32 | Ty::Float64 | Ty::Int(_)) => {
            Ty::Float64
        }
        _ => return None,
    })
}

/// The type of a variable that has one type on one path and another on a second path, or `None` where there is none.
pub(super) fn unify(a: &Ty, b: &Ty) -> Option<Ty> {
    if a == b {
        return Some(a.clone());
    }
    Some(match (a, b) {
        (Ty::Literal(_) | Ty::Omitted(_) | Ty::StarArgs(_), _) => unify(&a.unliteral(), b)?,
        (_, Ty::Literal(_) | Ty::Omitted(_) | Ty::StarArgs(_)) => unify(a, &b.unliteral())?,
        (Ty::None, Ty::Optional(_)) => b.clone(),
        (Ty::Optional(_), Ty::None) => a.clone(),
        (Ty::Optional(a), Ty::Optional(b)) => Ty::Optional(Arc::new(unify(a, b)?)),
        (Ty::Optional(inner), other) | (other, Ty::Optional(inner)) => {
            Ty::Optional(Arc::new(unify(inner, other)?))
        }
        (Ty::None, other) | (other, Ty::None) if has_value(other) => {
            Ty::Optional(Arc::new(other.clone()))
        }
        (Ty::Tuple(a), Ty::Tuple(b)) if a.len() == b.len() => {
            Ty::Tuple(a.iter().zip(b.iter()).map(|(a, b)| unify(a, b)).collect::<Option<_>>()?)
        }
        (Ty::Array(a), Ty::Array(b)) if a.ndim == b.ndim && a.dtype == b.dtype => {
            Ty::Array(Arc::new(ArrayTy {
                dtype: a.dtype.clone(),
                ndim: a.ndim,
                layout: if a.layout == b.layout { a.layout } else { Layout::A },
                readonly: a.readonly || b.readonly,
            }))
        }
        (Ty::Range(a), Ty::Range(b)) => match unify(&Ty::Int(*a), &Ty::Int(*b))? {
            Ty::Int(int) => Ty::Range(int),
            _ => return None,
        },
        _ => return promote(a, b),
    })
}

/// Whether values of the type exist when the program runs, so that an optional one can hold them.
fn has_value(ty: &Ty) -> bool {
    ty.is_number()
        || matches!(ty, Ty::Tuple(_) | Ty::Array(_) | Ty::StructRef(_) | Ty::Record(_) | Ty::Str)
}

/// How far a conversion is from none at all; of several signatures the one with the least sum is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Conversion {
    /// The same type.
    Exact,
    /// To a wider type of the same kind.
    Promote,
    /// To another kind that holds all values.
    Safe,
    /// Where values may be lost.
    Unsafe,
}

/// How a value of type `from` becomes one of type `to`, or `None` where it cannot.
pub(super) fn convert(from: &Ty, to: &Ty) -> Option<Conversion> {
    use Conversion as C;
    if from == to {
        return Some(C::Exact);
    }
    Some(match (from, to) {
        (Ty::Literal(_) | Ty::Omitted(_) | Ty::StarArgs(_), _) => {
            convert(&from.unliteral(), to)?.max(C::Promote)
        }
        (Ty::Bool, other) if other.is_number() => C::Safe,
        (other, Ty::Bool) if other.is_number() => C::Unsafe,
        (Ty::Int(a), Ty::Int(b)) if a.signed == b.signed => {
            if a.bits < b.bits {
                C::Promote
            } else {
                C::Unsafe
            }
        }
        (Ty::Int(a), Ty::Int(b)) => {
            if !a.signed && a.bits < b.bits {
                C::Safe
            } else {
                C::Unsafe
            }
        }
        (Ty::Int(a), Ty::Float32) => {
            if a.bits <= 16 {
                C::Safe
            } else {
                C::Unsafe
            }
        }
        (Ty::Int(a), Ty::Float64) => {
            if a.bits <= 32 {
                C::Safe
            } else {
                C::Unsafe
            }
        }
        (Ty::Int(a), Ty::Complex128) => {
            if a.bits <= 32 {
                C::Safe
            } else {
                C::Unsafe
            }
        }
        (Ty::Float32, Ty::Float64) => C::Promote,
        (Ty::Float32 | Ty::Float64, Ty::Complex128) => C::Safe,
        (Ty::Float32 | Ty::Float64, Ty::Int(_) | Ty::Float32) => C::Unsafe,
        (Ty::None, Ty::Optional(_)) => C::Promote,
        (Ty::Optional(a), Ty::Optional(b)) => convert(a, b)?,
        (other, Ty::Optional(inner)) => convert(other, inner)?.max(C::Promote),
        (Ty::Optional(inner), other) => convert(inner, other)?.max(C::Safe),
        (Ty::Tuple(a), Ty::Tuple(b)) if a.len() == b.len() => {
            let mut worst = C::Exact;
            for (a, b) in a.iter().zip(b.iter()) {
                worst = worst.max(convert(a, b)?);
            }
            worst
        }
        (Ty::Array(a), Ty::Array(b))
            if a.ndim == b.ndim
                && a.dtype == b.dtype
                && (b.layout == Layout::A || a.layout == b.layout)
                && (b.readonly || !a.readonly) =>
        {
            C::Safe
        }
        _ => return None,
    })
}

/// The widest integer of `ty`'s sign; bool counts as signed.
fn widest(ty: &Ty) -> Option<Ty> {
    match ty {
        Ty::Bool => Some(Ty::I64),
        Ty::Int(int) => Some(if int.signed { Ty::I64 } else { Ty::U64 }),
        _ => None,
    }
}

/// The float or complex type in which two numbers meet, at least one of them of such a type.
fn meet(a: &Ty, b: &Ty) -> Option<Ty> {
    // NumPy lets uint16 meet float32 in float32; Numba's scalars do not.
    match (a, b) {
        (Ty::Float32, &Ty::U16) | (&Ty::U16, Ty::Float32) => Some(Ty::Float64),
        _ => promote(a, b),
    }
}

/// What `a op b` does on scalars, or `None` where Numba has no such operator.
pub(super) fn binary(op: BinaryOp, a: &Ty, b: &Ty) -> Option<Rule> {
    use BinaryOp as B;
    if !a.is_number() || !b.is_number() {
        return None;
    }
    if let (Some(wide_a), Some(wide_b)) = (widest(a), widest(b)) {
        let signed = if wide_a == Ty::U64 && wide_b == Ty::U64 { Ty::U64 } else { Ty::I64 };
        return match op {
            B::Div => rule([wide_a, wide_b], Ty::Float64),
            B::Shl | B::Shr => {
                let by = if *b == Ty::Bool { Ty::U64 } else { wide_b };
                rule([wide_a.clone(), by], wide_a)
            }
            B::BitAnd | B::BitOr | B::BitXor if *a == Ty::Bool && *b == Ty::Bool => {
                rule([Ty::Bool, Ty::Bool], Ty::Bool)
            }
            B::MatMul => None,
            _ => rule([wide_a, wide_b], signed),
        };
    }
    let met = meet(a, b)?;
    match op {
        B::Add | B::Sub | B::Mul | B::Div => rule([met.clone(), met.clone()], met),
        B::FloorDiv | B::Mod if met != Ty::Complex128 => rule([met.clone(), met.clone()], met),
        B::Pow if a.is_float() && !b.is_float() && *b != Ty::Complex128 => {
            rule([a.clone(), exponent(b)], a.clone())
        }
        B::Pow => rule([met.clone(), met.clone()], met),
        _ => None,
    }
}

/// The type of an integer exponent of a float: as narrow as Numba's.
fn exponent(ty: &Ty) -> Ty {
    match ty {
        Ty::Int(IntTy { signed: false, .. }) => Ty::U64,
        Ty::Int(IntTy { bits: 64, .. }) => Ty::I64,
        _ => Ty::I32,
    }
}

/// What a comparison of numbers does, `==` and `!=` or an order.
pub(super) fn compare(op: CompareOp, a: &Ty, b: &Ty) -> Option<Rule> {
    let met = meet(a, b)?;
    let ordered = !matches!(op, CompareOp::Eq | CompareOp::Ne);
    if ordered && met == Ty::Complex128 {
        return None;
    }
    rule([met.clone(), met], Ty::Bool)
}

/// What an operator of one number does.
pub(super) fn unary(op: UnaryOp, ty: &Ty) -> Option<Rule> {
    if !ty.is_number() {
        return None;
    }
    match op {
        UnaryOp::Not => rule([Ty::Bool], Ty::Bool),
        UnaryOp::Invert if *ty == Ty::Bool => rule([Ty::Bool], Ty::Bool),
        UnaryOp::Invert => {
            let wide = widest(ty)?;
            rule([wide.clone()], wide)
        }
        UnaryOp::Minus | UnaryOp::Plus => {
            let wide = widest(ty).unwrap_or_else(|| ty.clone());
            rule([wide.clone()], wide)
        }
    }
}

/// The loops of NumPy's ufuncs in NumPy's order, by the letters of their types (`types`): inputs, `>`, output.
const UFUNCS: &[(&[&str], &str)] = &[
    (
        &["add", "multiply", "maximum", "minimum", "fmax", "fmin"],
        "?? bb BB hh HH ii II ll LL ff dd DD",
    ),
    (&["subtract", "power"], "bb BB hh HH ii II ll LL ff dd DD"),
    (&["divide"], "ff dd DD"),
    (&["float_power"], "dd DD"),
    (&["floor_divide", "remainder", "fmod"], "bb BB hh HH ii II ll LL ff dd"),
    (
        &["negative", "positive", "sign", "conjugate", "square", "reciprocal"],
        "b B h H i I l L f d D",
    ),
    (&["absolute"], "? b B h H i I l L f d D>d"),
    (&["fabs", "cbrt", "degrees", "radians", "deg2rad", "rad2deg", "spacing"], "f d"),
    (
        &[
            "rint", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
            "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
            "arctanh",
        ],
        "f d D",
    ),
    (
        &["arctan2", "hypot", "copysign", "nextafter", "logaddexp", "logaddexp2", "heaviside"],
        "ff dd",
    ),
    (&["bitwise_and", "bitwise_or", "bitwise_xor"], "?? bb BB hh HH ii II ll LL"),
    (&["left_shift", "right_shift", "gcd", "lcm"], "bb BB hh HH ii II ll LL"),
    (&["invert"], "? b B h H i I l L"),
    (
        &["greater", "greater_equal", "less", "less_equal", "equal", "not_equal"],
        "??>? bb>? BB>? hh>? HH>? ii>? II>? ll>? LL>? ff>? dd>? DD>?",
    ),
    (
        &["logical_and", "logical_or", "logical_xor"],
        "??>? bb>? BB>? hh>? HH>? ii>? II>? ll>? LL>? ff>? dd>? DD>?",
    ),
    (
        &["logical_not", "isnan", "isinf", "isfinite"],
        "?>? b>? B>? h>? H>? i>? I>? l>? L>? f>? d>? D>?",
    ),
    (&["signbit"], "f>? d>?"),
    (&["floor", "ceil", "trunc"], "? b B h H i I l L f d"),
    (&["ldexp"], "fi fl di dl"),
];

fn letter(letter: u8) -> Ty {
    match letter {
        b'?' => Ty::Bool,
        b'b' => Ty::I8,
        b'B' => Ty::U8,
        b'h' => Ty::I16,
        b'H' => Ty::U16,
        b'i' => Ty::I32,
        b'I' => Ty::U32,
        b'l' => Ty::I64,
        b'L' => Ty::U64,
        b'f' => Ty::Float32,
        b'd' => Ty::Float64,
        _ => Ty::Complex128,
    }
}

/// How many inputs NumPy's ufunc `name` has, or `None` where it is none that kernels have.
pub(super) fn ufunc_inputs(name: &str) -> Option<usize> {
    let loops = loops(name)?;
    let first = loops.split(' ').next()?;
    Some(first.split('>').next()?.len())
}

fn loops(name: &str) -> Option<&'static str> {
    UFUNCS.iter().find(|(names, _)| names.contains(&name)).map(|(_, loops)| *loops)
}

/// The loop that the ufunc `name` runs on elements of these types: the first whose inputs they can be cast to. An
/// `output` that exists must be able to take the result within its kind.
pub(super) fn ufunc(name: &str, inputs: &[Ty], output: Option<&Ty>) -> Option<Rule> {
    select(
        loops(name)?.split(' ').map(|signature| {
            let (ins, out) = signature.split_once('>').unwrap_or((signature, &signature[..1]));
            Rule { operands: ins.bytes().map(letter).collect(), result: letter(out.as_bytes()[0]) }
        }),
        inputs,
        output,
    )
}

/// The first of a ufunc's `loops` that fits, as [`ufunc`] has it.
pub(super) fn select(
    mut loops: impl Iterator<Item = Rule>,
    inputs: &[Ty],
    output: Option<&Ty>,
) -> Option<Rule> {
    let floating = |ty: &Ty| ty.is_float() || *ty == Ty::Complex128;
    let mixed = inputs.iter().any(Ty::is_int) && inputs.iter().any(floating);
    loops.find(|candidate| {
        candidate.operands.len() == inputs.len()
            && inputs.iter().zip(&candidate.operands).all(|(from, to)| {
                // Where integers and floats meet, integers go to any float.
                (mixed && from.is_int() && floating(to)) || can_cast_safely(from, to)
            })
            && output.is_none_or(|output| can_cast_within_kind(&candidate.result, output))
    })
}

/// NumPy's `can_cast(from, to, "safe")`.
pub(super) fn can_cast_safely(from: &Ty, to: &Ty) -> bool {
    match (from, to) {
        _ if from == to => true,
        (Ty::Bool, _) => to.is_number(),
        // NumPy holds int64 to be safe in float64.
        (Ty::Int(int), Ty::Float32) => int.bits <= 16,
        (Ty::Int(_), Ty::Float64 | Ty::Complex128) => true,
        (Ty::Int(a), Ty::Int(b)) if a.signed == b.signed => a.bits <= b.bits,
        (Ty::Int(a), Ty::Int(b)) => !a.signed && a.bits < b.bits,
        (Ty::Float32, Ty::Float64 | Ty::Complex128) | (Ty::Float64, Ty::Complex128) => true,
        _ => false,
    }
}

/// NumPy's `can_cast(from, to, "same_kind")`.
pub(super) fn can_cast_within_kind(from: &Ty, to: &Ty) -> bool {
    let rank = |ty: &Ty| match ty {
        Ty::Bool => 0,
        Ty::Int(IntTy { signed: false, .. }) => 1,
        Ty::Int(_) => 2,
        Ty::Float32 | Ty::Float64 => 3,
        _ => 4,
    };
    from.is_number() && to.is_number() && (can_cast_safely(from, to) || rank(from) <= rank(to))
}

/// The ufunc that an operator on arrays runs.
pub(super) fn ufunc_of_binary(op: BinaryOp) -> Option<&'static str> {
    use BinaryOp as B;
    Some(match op {
        B::Add => "add",
        B::Sub => "subtract",
        B::Mul => "multiply",
        B::Div => "divide",
        B::FloorDiv => "floor_divide",
        B::Mod => "remainder",
        B::Pow => "power",
        B::Shl => "left_shift",
        B::Shr => "right_shift",
        B::BitAnd => "bitwise_and",
        B::BitOr => "bitwise_or",
        B::BitXor => "bitwise_xor",
        B::MatMul => return None,
    })
}

/// The ufunc that a comparison of arrays runs.
pub(super) fn ufunc_of_compare(op: CompareOp) -> Option<&'static str> {
    use CompareOp as C;
    Some(match op {
        C::Eq => "equal",
        C::Ne => "not_equal",
        C::Lt => "less",
        C::Le => "less_equal",
        C::Gt => "greater",
        C::Ge => "greater_equal",
        C::Is | C::IsNot | C::In | C::NotIn => return None,
    })
}

/// The ufunc that an operator of one operand runs on an array.
pub(super) fn ufunc_of_unary(op: UnaryOp) -> Option<&'static str> {
    Some(match op {
        UnaryOp::Minus => "negative",
        UnaryOp::Plus => "positive",
        UnaryOp::Invert => "invert",
        UnaryOp::Not => return None,
    })
}

#[cfg(test)]
mod tests;
