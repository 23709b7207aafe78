//! Element-wise functions and operators.
//!
//! ```text
//!   operands ─► Operand (strong arrays and scalars, weak Python numbers) ─► common dtype ─► broadcast ─► loop
//! ```
//!
//! Python's own numbers are weak: they take the dtype of what they meet, unless they are of a higher kind.

use std::{cmp::Ordering, sync::Arc};

use super::{array, cast, element, make, zeros};
use crate::kernel::{
    array::{Array, Complex, Element},
    dtype::{DType, Kind, Scalar},
    exception::ExceptionKind as E,
    host::{
        Host,
        call::{Args, Keywords},
        error::{raise, refuse},
        math,
        number::{self, Number},
    },
    syntax::{BinaryOp, CompareOp, UnaryOp},
    value::{Run, Value},
};

/// A bool as arrays hold it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub(super) struct Bool(u8);

impl Bool {
    pub(super) fn new(value: bool) -> Bool {
        Bool(value.into())
    }

    fn get(self) -> bool {
        self.0 != 0
    }
}

// SAFETY: one byte, of which any value other than 0 counts as true.
unsafe impl Element for Bool {
    const DTYPE: DType = DType::Bool;
    fn from_int(value: i64) -> Self {
        Bool::new(value != 0)
    }
    fn from_unsigned(value: u64) -> Self {
        Bool::new(value != 0)
    }
    fn from_float(value: f64) -> Self {
        Bool::new(value != 0.0)
    }
    fn from_complex(value: Complex) -> Self {
        Bool::new(value.re != 0.0 || value.im != 0.0)
    }
}

/// What an element-wise function is given.
#[derive(Clone)]
enum Operand {
    Strong { array: Arc<Array>, scalar: bool },
    Weak(Number),
}

impl Operand {
    fn of(host: &mut Host, value: &Value) -> Run<Operand> {
        Ok(match value {
            Value::Array(array) => {
                Operand::Strong { array: array.clone(), scalar: array.ndim() == 0 }
            }
            Value::Bool(v) => Operand::scalar(Scalar::Bool(*v)),
            Value::Scalar(scalar) => Operand::scalar(*scalar),
            Value::List(_) | Value::Tuple(_) => {
                Operand::Strong { array: make::as_array(host, value)?, scalar: false }
            }
            _ => match Number::of(value) {
                Some(number) => Operand::Weak(number),
                None => {
                    return raise(
                        E::TypeError,
                        format!(
                            "unsupported operand type(s): 'numpy.ndarray' and '{}'",
                            value.type_name()
                        ),
                    );
                }
            },
        })
    }

    fn scalar(scalar: Scalar) -> Operand {
        Operand::Strong { array: Arc::new(make::scalar_array(scalar)), scalar: true }
    }

    fn is_scalar(&self) -> bool {
        matches!(self, Operand::Weak(_) | Operand::Strong { scalar: true, .. })
    }

    fn shape(&self) -> &[usize] {
        match self {
            Operand::Strong { array, .. } => array.shape(),
            Operand::Weak(_) => &[],
        }
    }

    /// The operand as an array of a dtype.
    fn array(&self, dtype: &DType) -> Run<Arc<Array>> {
        match self {
            Operand::Strong { array, .. } if array.dtype() == dtype => Ok(array.clone()),
            Operand::Strong { array, .. } => cast(array, dtype).map(Arc::new),
            Operand::Weak(number) => {
                make::number_element(*number, dtype).map(|s| Arc::new(make::scalar_array(s)))
            }
        }
    }
}

/// The dtype that two operands meet in.
fn common(a: &Operand, b: &Operand) -> Run<DType> {
    let weak = |number: &Number, dtype: &DType| {
        let own = match number {
            Number::Int(_) => DType::I64,
            Number::Float(_) => DType::F64,
            Number::Complex(..) => DType::C128,
        };
        let rank = |dtype: &DType| match dtype.kind() {
            Kind::Bool => 0,
            Kind::Signed | Kind::Unsigned => 1,
            Kind::Float => 2,
            _ => 3,
        };
        if rank(&own) <= rank(dtype) { dtype.clone() } else { own }
    };
    let dtype = match (a, b) {
        (Operand::Strong { array: a, .. }, Operand::Strong { array: b, .. }) => {
            a.dtype().promote(b.dtype())
        }
        (Operand::Strong { array, .. }, Operand::Weak(number))
        | (Operand::Weak(number), Operand::Strong { array, .. }) => {
            Some(weak(number, array.dtype()))
        }
        (Operand::Weak(a), Operand::Weak(b)) => Some(weak(a, &weak(b, &DType::Bool))),
    };
    match dtype {
        Some(DType::Record(_)) | None => {
            raise(E::TypeError, "element-wise functions are not supported for records")
        }
        Some(dtype) => Ok(dtype),
    }
}

/// The shape that shapes broadcast to.
pub(super) fn broadcast_shape(shapes: &[&[usize]]) -> Run<Vec<usize>> {
    let ndim = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = vec![1; ndim];
    for shape in shapes {
        for (slot, &n) in out.iter_mut().rev().zip(shape.iter().rev()) {
            if *slot == 1 {
                *slot = n;
            } else if n != 1 && n != *slot {
                let shown: Vec<String> = shapes
                    .iter()
                    .map(|s| crate::kernel::format::array::shape(s).replace(", ", ","))
                    .collect();
                return raise(
                    E::ValueError,
                    format!(
                        "operands could not be broadcast together with shapes {} ",
                        shown.join(" ")
                    ),
                );
            }
        }
    }
    Ok(out)
}

/// Applies a function to all pairs of elements.
fn zip<T: Element, R: Element>(
    a: &Array,
    b: &Array,
    shape: &[usize],
    f: impl Fn(T, T) -> R,
) -> Array {
    let elements = |x: &Array| x.broadcast(shape).map_or_else(Vec::new, |x| x.to_vec::<T>());
    let out: Vec<R> = if b.len() == 1 {
        let y = b.to_vec::<T>()[0];
        elements(a).into_iter().map(|x| f(x, y)).collect()
    } else if a.len() == 1 {
        let x = a.to_vec::<T>()[0];
        elements(b).into_iter().map(|y| f(x, y)).collect()
    } else {
        elements(a).into_iter().zip(elements(b)).map(|(x, y)| f(x, y)).collect()
    };
    Array::from_vec(out, shape)
}

fn map<T: Element, R: Element>(a: &Array, f: impl Fn(T) -> R) -> Array {
    Array::from_vec(a.to_vec::<T>().into_iter().map(f).collect(), a.shape())
}

/// Runs code once for each integer type.
macro_rules! integers {
    ($dtype:expr, $t:ident => $body:expr, else $other:expr) => {
        integers!($dtype, $t => $body, else $other,
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64)
    };
    ($dtype:expr, $t:ident => $body:expr, else $other:expr, $($kind:ident $integer:ident),*) => {
        match $dtype {
            $(DType::$kind => {
                type $t = $integer;
                $body
            })*
            _ => $other,
        }
    };
}

/// One operator on two integers of one type.
macro_rules! int_op {
    ($op:expr, $x:ident, $y:ident, $t:ident) => {
        match $op {
            BinaryOp::Add => $x.wrapping_add($y),
            BinaryOp::Sub => $x.wrapping_sub($y),
            BinaryOp::Mul => $x.wrapping_mul($y),
            BinaryOp::FloorDiv | BinaryOp::Mod if $y == 0 => 0,
            BinaryOp::FloorDiv => {
                let quotient = $x.wrapping_div($y);
                let rest = $x.wrapping_rem($y);
                #[allow(unused_comparisons, reason = "unsigned types have no negative values")]
                if rest != 0 && (rest < 0) != ($y < 0) {
                    quotient.wrapping_sub(1)
                } else {
                    quotient
                }
            }
            BinaryOp::Mod => {
                let rest = $x.wrapping_rem($y);
                #[allow(unused_comparisons, reason = "unsigned types have no negative values")]
                if rest != 0 && (rest < 0) != ($y < 0) { rest.wrapping_add($y) } else { rest }
            }
            BinaryOp::Pow => {
                let (mut base, mut left, mut result) = ($x, $y as u64, 1 as $t);
                while left > 0 {
                    if left & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                result
            }
            BinaryOp::Shl => {
                if ($y as u64) < u64::from($t::BITS) {
                    $x << $y
                } else {
                    0
                }
            }
            BinaryOp::Shr => {
                if ($y as u64) < u64::from($t::BITS) {
                    $x >> $y
                } else {
                    #[allow(unused_comparisons, reason = "unsigned types have no negative values")]
                    if $x < 0 { (0 as $t).wrapping_sub(1) } else { 0 }
                }
            }
            BinaryOp::BitAnd => $x & $y,
            BinaryOp::BitOr => $x | $y,
            _ => $x ^ $y,
        }
    };
}
fn finish(out: Array, scalar: bool) -> Value {
    if scalar { element(&out) } else { array(out) }
}

/// `left op right`.
pub(crate) fn binary(host: &mut Host, op: BinaryOp, left: &Value, right: &Value) -> Run<Value> {
    // A scalar repeats a sequence as Python's integer would.
    if op == BinaryOp::Mul {
        for (sequence, scalar) in [(left, right), (right, left)] {
            if let (Value::List(_) | Value::Tuple(_) | Value::Str(_), Value::Scalar(scalar)) =
                (sequence, scalar)
                && let (Some(n), false) = (scalar.as_int(), matches!(scalar, Scalar::Bool(_)))
            {
                return host.binary(op, sequence, &Value::Int(n));
            }
        }
    }
    if let Value::Str(_) | Value::None | Value::Dict(_) | Value::Function(_) = right {
        return unsupported(op, left, right);
    }
    if let Value::Str(text) = left {
        return match op {
            BinaryOp::Mod => {
                crate::kernel::host::strings::percent(host, text, right).map(Value::str)
            }
            _ => unsupported(op, left, right),
        };
    }
    if op == BinaryOp::MatMul {
        return super::reduce::matmul(host, left, right);
    }
    let (Ok(a), Ok(b)) = (Operand::of(host, left), Operand::of(host, right)) else {
        return unsupported(op, left, right);
    };
    let scalar = a.is_scalar() && b.is_scalar();
    let out = arithmetic(op, &a, &b)?;
    Ok(finish(out, scalar))
}

fn unsupported(op: BinaryOp, left: &Value, right: &Value) -> Run<Value> {
    raise(
        E::TypeError,
        format!(
            "unsupported operand type(s) for {}: '{}' and '{}'",
            op.symbol(),
            left.type_name(),
            right.type_name()
        ),
    )
}

fn arithmetic(op: BinaryOp, a: &Operand, b: &Operand) -> Run<Array> {
    let mut dtype = common(a, b)?;
    let shape = broadcast_shape(&[a.shape(), b.shape()])?;
    let name = ufunc_name(op);
    match (op, dtype.kind()) {
        (BinaryOp::Div, Kind::Bool | Kind::Signed | Kind::Unsigned) => dtype = DType::F64,
        (
            BinaryOp::FloorDiv | BinaryOp::Mod | BinaryOp::Pow | BinaryOp::Shl | BinaryOp::Shr,
            Kind::Bool,
        ) => {
            dtype = DType::I8;
        }
        (BinaryOp::Sub, Kind::Bool) => {
            return raise(
                E::TypeError,
                "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, or the logical_xor function instead.",
            );
        }
        (BinaryOp::FloorDiv | BinaryOp::Mod, Kind::Complex)
        | (
            BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr,
            Kind::Float | Kind::Complex,
        ) => {
            return raise(
                E::TypeError,
                format!(
                    "ufunc '{name}' not supported for the input types, and the inputs could not be safely coerced to any supported types according to the casting rule ''safe''"
                ),
            );
        }
        _ => {}
    }
    let (x, y) = (a.array(&dtype)?, b.array(&dtype)?);
    let (x, y, shape) = (&*x, &*y, shape.as_slice());
    if op == BinaryOp::Pow && dtype.is_integer() {
        let negative =
            y.offsets().any(|at| y.read(at).and_then(|v| v.as_int()).is_some_and(|v| v < 0));
        if negative {
            return raise(E::ValueError, "Integers to negative integer powers are not allowed.");
        }
    }
    Ok(match dtype {
        DType::Bool => match op {
            BinaryOp::Add | BinaryOp::BitOr => {
                zip(x, y, shape, |x: Bool, y: Bool| Bool::new(x.get() | y.get()))
            }
            BinaryOp::BitXor => zip(x, y, shape, |x: Bool, y: Bool| Bool::new(x.get() ^ y.get())),
            _ => zip(x, y, shape, |x: Bool, y: Bool| Bool::new(x.get() & y.get())),
        },
        DType::F32 => {
            // One operation in double and one rounding give the single's result.
            zip(x, y, shape, |x: f32, y: f32| match op {
                BinaryOp::Add => x + y,
                BinaryOp::Sub => x - y,
                BinaryOp::Mul => x * y,
                BinaryOp::Div => x / y,
                _ => float_op(op, x.into(), y.into()) as f32,
            })
        }
        DType::F64 => zip(x, y, shape, |x: f64, y: f64| float_op(op, x, y)),
        DType::C128 => zip(x, y, shape, |x: Complex, y: Complex| {
            let (p, q) = ((x.re, x.im), (y.re, y.im));
            let (re, im) = match op {
                BinaryOp::Add => (p.0 + q.0, p.1 + q.1),
                BinaryOp::Sub => (p.0 - q.0, p.1 - q.1),
                BinaryOp::Mul => number::complex_mul(p, q),
                BinaryOp::Div => number::complex_div(p, q),
                _ => number::complex_pow(p, q),
            };
            Complex { re, im }
        }),
        ref other => {
            integers!(other, T => zip(x, y, shape, |x: T, y: T| int_op!(op, x, y, T)), else zeros(dtype.clone(), shape)?)
        }
    })
}

fn ufunc_name(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "add",
        BinaryOp::Sub => "subtract",
        BinaryOp::Mul => "multiply",
        BinaryOp::Div => "divide",
        BinaryOp::FloorDiv => "floor_divide",
        BinaryOp::Mod => "remainder",
        BinaryOp::Pow => "power",
        BinaryOp::MatMul => "matmul",
        BinaryOp::Shl => "left_shift",
        BinaryOp::Shr => "right_shift",
        BinaryOp::BitAnd => "bitwise_and",
        BinaryOp::BitOr => "bitwise_or",
        BinaryOp::BitXor => "bitwise_xor",
    }
}

fn float_op(op: BinaryOp, x: f64, y: f64) -> f64 {
    match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::FloorDiv if y == 0.0 => x / y,
        BinaryOp::FloorDiv => number::float_div_mod(x, y).0,
        BinaryOp::Mod if y == 0.0 => f64::NAN,
        BinaryOp::Mod => number::float_div_mod(x, y).1,
        // NumPy's loop squares where the exponent is 2.
        _ if y == 2.0 => x * x,
        _ => math::function2("pow").map_or(f64::NAN, |pow| pow(x, y)),
    }
}

/// `target op= right`.
pub(crate) fn binary_in_place(
    host: &mut Host,
    op: BinaryOp,
    target: &Arc<Array>,
    right: &Value,
) -> Run<()> {
    super::select::check_writable(target)?;
    let left = Value::Array(target.clone());
    let result = binary(host, op, &left, right)?;
    let result = make::as_array(host, &result)?;
    let rank = |dtype: &DType| match dtype.kind() {
        Kind::Bool => 0,
        Kind::Signed | Kind::Unsigned => 1,
        Kind::Float => 2,
        _ => 3,
    };
    if rank(result.dtype()) > rank(target.dtype()) {
        return raise(
            E::TypeError,
            format!(
                "Cannot cast ufunc '{}' output from {} to {} with casting rule 'same_kind'",
                ufunc_name(op),
                result.dtype().repr(),
                target.dtype().repr()
            ),
        );
    }
    if result.shape() != target.shape() {
        let shown = |a: &Array| crate::kernel::format::array::shape(a.shape()).replace(", ", ",");
        return raise(
            E::ValueError,
            format!(
                "non-broadcastable output operand with shape {} doesn't match the broadcast shape {}",
                shown(target),
                shown(&result)
            ),
        );
    }
    super::select::copy_into(target, &result);
    Ok(())
}

/// `op value`.
pub(crate) fn unary(host: &mut Host, op: UnaryOp, value: &Value) -> Run<Value> {
    let a = make::as_array(host, value)?;
    let scalar = !matches!(value, Value::Array(a) if a.ndim() > 0);
    let out = match (op, a.dtype()) {
        (UnaryOp::Minus, DType::Bool) => {
            return raise(
                E::TypeError,
                "The numpy boolean negative, the `-` operator, is not supported, use the `~` operator or the logical_not function instead.",
            );
        }
        (UnaryOp::Invert, DType::Bool) => map(&a, |v: Bool| Bool::new(!v.get())),
        (UnaryOp::Invert, DType::F32 | DType::F64 | DType::C128) => {
            return raise(
                E::TypeError,
                "ufunc 'invert' not supported for the input types, and the inputs could not be safely coerced to any supported types according to the casting rule ''safe''",
            );
        }
        (UnaryOp::Plus, _) => cast(&a, a.dtype())?,
        (_, DType::F32) => map(&a, |v: f32| -v),
        (_, DType::F64) => map(&a, |v: f64| -v),
        (_, DType::C128) => map(&a, |v: Complex| Complex { re: -v.re, im: -v.im }),
        (_, dtype) => {
            integers!(dtype, T => map(&a, |v: T| if op == UnaryOp::Minus { v.wrapping_neg() } else { !v }),
            else return raise(E::TypeError, "bad operand type: a record"))
        }
    };
    Ok(finish(out, scalar))
}

/// `left op right`, of comparisons.
pub(crate) fn compare(host: &mut Host, op: CompareOp, left: &Value, right: &Value) -> Run<Value> {
    if let (Value::Record(a), Value::Record(b)) = (left, right) {
        let equal = a.dtype() == b.dtype() && a.bytes(a.offset()) == b.bytes(b.offset());
        return Ok(Value::Scalar(Scalar::Bool(equal == (op == CompareOp::Eq))));
    }
    let (Ok(a), Ok(b)) = (Operand::of(host, left), Operand::of(host, right)) else {
        // What is no number is equal to none.
        return match op {
            CompareOp::Eq => Ok(Value::Bool(false)),
            CompareOp::Ne => Ok(Value::Bool(true)),
            _ => raise(
                E::TypeError,
                format!(
                    "'{}' not supported between instances of '{}' and '{}'",
                    op.symbol(),
                    left.type_name(),
                    right.type_name()
                ),
            ),
        };
    };
    let scalar = a.is_scalar() && b.is_scalar();
    let shape = broadcast_shape(&[a.shape(), b.shape()])?;
    let test = move |order: Option<Ordering>| {
        Bool::new(match op {
            CompareOp::Eq => order == Some(Ordering::Equal),
            CompareOp::Ne => order != Some(Ordering::Equal),
            CompareOp::Lt => order == Some(Ordering::Less),
            CompareOp::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            CompareOp::Gt => order == Some(Ordering::Greater),
            _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    };
    let whole = |x: &Operand| match x {
        Operand::Strong { array, .. } => array.dtype().kind() <= Kind::Signed,
        Operand::Weak(Number::Int(_)) => true,
        Operand::Weak(_) => false,
    };
    let out = if whole(&a) && whole(&b) {
        // Integers compare by value, whatever their types.
        let ints = |x: &Operand| -> Vec<i128> {
            match x {
                Operand::Weak(Number::Int(v)) => vec![*v],
                Operand::Strong { array, .. } => array
                    .broadcast(&shape)
                    .map(|a| a.offsets().filter_map(|at| a.read(at)?.as_int()).collect())
                    .unwrap_or_default(),
                Operand::Weak(_) => Vec::new(),
            }
        };
        let (x, y) = (ints(&a), ints(&b));
        let at = |v: &[i128], i: usize| if v.len() == 1 { v[0] } else { v[i] };
        let n: usize = shape.iter().product();
        let bools: Vec<Bool> = (0..n).map(|i| test(at(&x, i).partial_cmp(&at(&y, i)))).collect();
        Array::from_vec(bools, &shape)
    } else {
        let dtype = common(&a, &b)?;
        let (x, y) = (a.array(&dtype)?, b.array(&dtype)?);
        match dtype {
            DType::C128 => zip(&x, &y, &shape, |x: Complex, y: Complex| {
                test(match x.re.partial_cmp(&y.re) {
                    Some(Ordering::Equal) => x.im.partial_cmp(&y.im),
                    other => other,
                })
            }),
            DType::F32 => zip(&x, &y, &shape, |x: f32, y: f32| test(x.partial_cmp(&y))),
            _ => zip(&x, &y, &shape, |x: f64, y: f64| test(x.partial_cmp(&y))),
        }
    };
    Ok(finish(out, scalar))
}

/// Calls an element-wise function; `None` where `name` is none.
pub(super) fn call(
    host: &mut Host,
    name: &str,
    args: &[Value],
    keywords: &Keywords,
) -> Run<Option<Value>> {
    let operator = match name {
        "add" => Some(BinaryOp::Add),
        "subtract" => Some(BinaryOp::Sub),
        "multiply" => Some(BinaryOp::Mul),
        "divide" => Some(BinaryOp::Div),
        "floor_divide" => Some(BinaryOp::FloorDiv),
        "remainder" => Some(BinaryOp::Mod),
        "power" => Some(BinaryOp::Pow),
        "left_shift" => Some(BinaryOp::Shl),
        "right_shift" => Some(BinaryOp::Shr),
        "bitwise_and" => Some(BinaryOp::BitAnd),
        "bitwise_or" => Some(BinaryOp::BitOr),
        "bitwise_xor" => Some(BinaryOp::BitXor),
        _ => None,
    };
    let comparison = match name {
        "equal" => Some(CompareOp::Eq),
        "not_equal" => Some(CompareOp::Ne),
        "less" => Some(CompareOp::Lt),
        "less_equal" => Some(CompareOp::Le),
        "greater" => Some(CompareOp::Gt),
        "greater_equal" => Some(CompareOp::Ge),
        _ => None,
    };
    let two = |host: &mut Host| -> Run<(Value, Value)> {
        let [x, y] = Args::new("ufunc", args.to_vec(), keywords.clone()).exactly()?;
        // Two numbers of Python's own follow NumPy's rules all the same.
        let strong = |host: &mut Host, value: &Value| -> Run<Value> {
            match value {
                Value::Array(_) | Value::Scalar(_) => Ok(value.clone()),
                value => make::as_array(host, value).map(|a| element(&a)),
            }
        };
        let both_weak =
            !crate::kernel::host::ops::is_numpy(&x) && !crate::kernel::host::ops::is_numpy(&y);
        Ok(if both_weak { (strong(host, &x)?, strong(host, &y)?) } else { (x, y) })
    };
    if let Some(op) = operator {
        let (x, y) = two(host)?;
        return binary(host, op, &x, &y).map(Some);
    }
    if let Some(op) = comparison {
        let (x, y) = two(host)?;
        return compare(host, op, &x, &y).map(Some);
    }
    Ok(Some(match name {
        "negative" | "positive" | "invert" => {
            let [x] = Args::new("ufunc", args.to_vec(), keywords.clone()).exactly()?;
            let op = match name {
                "negative" => UnaryOp::Minus,
                "positive" => UnaryOp::Plus,
                _ => UnaryOp::Invert,
            };
            let x = make::as_array(host, &x)?;
            unary(host, op, &element(&x))?
        }
        "maximum" | "minimum" | "fmax" | "fmin" | "arctan2" | "hypot" | "copysign" | "fmod"
        | "nextafter" | "logical_and" | "logical_or" | "logical_xor" | "gcd" | "lcm" => {
            let (x, y) = two(host)?;
            let (a, b) = (Operand::of(host, &x)?, Operand::of(host, &y)?);
            let scalar = a.is_scalar() && b.is_scalar();
            finish(pairwise(name, &a, &b)?, scalar)
        }
        "where" => {
            let mut args = args.to_vec();
            if args.len() == 1 {
                return super::shape::call(host, "nonzero", &args, keywords);
            }
            if args.len() != 3 {
                return raise(E::ValueError, "either both or neither of x and y should be given");
            }
            let y = args.pop().unwrap_or_default();
            let x = args.pop().unwrap_or_default();
            let test = make::as_array(host, &args[0])?;
            let (mut a, mut b) = (Operand::of(host, &x)?, Operand::of(host, &y)?);
            if let (Operand::Weak(_), Operand::Weak(_)) = (&a, &b) {
                a = Operand::Strong { array: make::as_array(host, &x)?, scalar: true };
                b = Operand::Strong { array: make::as_array(host, &y)?, scalar: true };
            }
            let dtype = common(&a, &b)?;
            let (a, b) = (a.array(&dtype)?, b.array(&dtype)?);
            let shape = broadcast_shape(&[test.shape(), a.shape(), b.shape()])?;
            let out = zeros(dtype, &shape)?;
            if let (Some(t), Some(a), Some(b)) =
                (test.broadcast(&shape), a.broadcast(&shape), b.broadcast(&shape))
            {
                for (((at, t_at), a_at), b_at) in
                    out.offsets().zip(t.offsets()).zip(a.offsets()).zip(b.offsets())
                {
                    let pick = t.read(t_at).is_some_and(|t| t.truth());
                    if let Some(value) = if pick { a.read(a_at) } else { b.read(b_at) } {
                        out.write(at, value);
                    }
                }
            }
            // Also of scalars, the result is an array.
            array(out)
        }
        "clip" => {
            let [a, low, high] = Args::new("clip", args.to_vec(), keywords.clone())
                .take(["a", "a_min", "a_max"], 1)?;
            let mut result = a.unwrap_or_default();
            if let Value::List(_) | Value::Tuple(_) = result {
                result = array((*make::as_array(host, &result)?).clone());
            }
            for (bound, name) in [(low, "maximum"), (high, "minimum")] {
                if let Some(bound) = bound.filter(|b| !matches!(b, Value::None)) {
                    result = call(host, name, &[result, bound], &Vec::new())?.unwrap_or_default();
                }
            }
            result
        }
        _ => {
            let Some(x) = args.first() else { return Ok(None) };
            let one = |host: &mut Host, x: &Value| -> Run<(Arc<Array>, bool)> {
                let a = make::as_array(host, x)?;
                Ok((a.clone(), a.ndim() == 0))
            };
            match name {
                "absolute" | "fabs" | "square" | "sign" | "isnan" | "isinf" | "isfinite"
                | "signbit" | "logical_not" | "floor" | "ceil" | "trunc" | "rint" | "round"
                | "conjugate" | "real" | "imag" | "reciprocal" => {
                    let (a, scalar) = one(host, x)?;
                    let places = match (name, args.get(1), keywords.first()) {
                        ("round", Some(places), _) | ("round", None, Some((_, places))) => {
                            host.index(places)?.unwrap_or(0)
                        }
                        (_, None, None) => 0,
                        _ => {
                            return refuse(
                                format!("these arguments of `numpy.{name}` are not supported"),
                                "give one array",
                            );
                        }
                    };
                    finish(single(host, name, &a, places)?, scalar)
                }
                _ => {
                    let Some(function) = math::function(name) else { return Ok(None) };
                    if args.len() != 1 || !keywords.is_empty() {
                        return refuse(
                            format!("these arguments of `numpy.{name}` are not supported"),
                            "give one array",
                        );
                    }
                    let (a, scalar) = one(host, x)?;
                    finish(
                        match (a.dtype(), name) {
                            (DType::C128, "sqrt") => map(&a, |z: Complex| complex_sqrt(z)),
                            (DType::C128, "exp") => map(&a, |z: Complex| {
                                let size = math::function("exp").map_or(0.0, |exp| exp(z.re));
                                Complex { re: size * z.im.cos(), im: size * z.im.sin() }
                            }),
                            (DType::C128 | DType::Record(_), _) => {
                                return refuse(
                                    format!(
                                        "`numpy.{name}` of complex numbers is not supported in host code"
                                    ),
                                    "compute it in a kernel",
                                );
                            }
                            (DType::Bool | DType::I8 | DType::U8, _) => {
                                return refuse(
                                    "the result would be float16, which is not supported",
                                    "convert with `.astype(np.float64)` first",
                                );
                            }
                            (DType::F32 | DType::I16 | DType::U16, _) => {
                                map(&a, move |v: f32| function(v.into()) as f32)
                            }
                            _ => map(&a, function),
                        },
                        scalar,
                    )
                }
            }
        }
    }))
}

fn complex_sqrt(z: Complex) -> Complex {
    let size = z.re.hypot(z.im);
    if size == 0.0 {
        return Complex { re: 0.0, im: z.im };
    }
    if z.re >= 0.0 {
        let t = ((z.re + size) * 0.5).sqrt();
        Complex { re: t, im: z.im / (2.0 * t) }
    } else {
        let t = ((-z.re + size) * 0.5).sqrt();
        Complex { re: z.im.abs() / (2.0 * t), im: t.copysign(z.im) }
    }
}

fn pairwise(name: &str, a: &Operand, b: &Operand) -> Run<Array> {
    let shape = broadcast_shape(&[a.shape(), b.shape()])?;
    let mut dtype = common(a, b)?;
    if name.starts_with("logical") {
        let truth = |x: &Operand| -> Run<Arc<Array>> {
            match x {
                Operand::Weak(n) => {
                    Ok(Arc::new(make::scalar_array(Scalar::Bool(*n != Number::Int(0)))))
                }
                Operand::Strong { array, .. } => cast(array, &DType::Bool).map(Arc::new),
            }
        };
        let (x, y) = (truth(a)?, truth(b)?);
        return Ok(zip(&x, &y, &shape, |x: Bool, y: Bool| {
            Bool::new(match name {
                "logical_and" => x.get() && y.get(),
                "logical_or" => x.get() || y.get(),
                _ => x.get() != y.get(),
            })
        }));
    }
    if matches!(name, "gcd" | "lcm") {
        return divisors(name, &dtype, a, b, &shape);
    }
    let float = math::function2(name);
    if float.is_some() && name != "fmod" && dtype.kind() < Kind::Float {
        dtype = DType::F64;
    }
    let (x, y) = (a.array(&dtype)?, b.array(&dtype)?);
    let first = |order: Option<Ordering>| match name {
        "maximum" | "fmax" => order != Some(Ordering::Less),
        _ => order != Some(Ordering::Greater),
    };
    let skips_nan = name.starts_with('f');
    let pick = |x: f64, y: f64| {
        if x.is_nan() || y.is_nan() {
            return if x.is_nan() == skips_nan { y } else { x };
        }
        if first(x.partial_cmp(&y)) { x } else { y }
    };
    Ok(match (&dtype, float) {
        (DType::F64, Some(f)) => zip(&x, &y, &shape, f),
        (DType::F32, Some(f)) => zip(&x, &y, &shape, |x: f32, y: f32| f(x.into(), y.into()) as f32),
        (DType::F64, None) => zip(&x, &y, &shape, pick),
        (DType::F32, None) => zip(&x, &y, &shape, |x: f32, y: f32| pick(x.into(), y.into()) as f32),
        (DType::Bool, _) => zip(&x, &y, &shape, |x: Bool, y: Bool| {
            Bool::new(if matches!(name, "maximum" | "fmax") {
                x.get() | y.get()
            } else {
                x.get() & y.get()
            })
        }),
        (DType::C128 | DType::Record(_), _) => {
            return refuse(
                format!("`numpy.{name}` of these is not supported in host code"),
                "compute it in a kernel",
            );
        }
        (other, _) => integers!(other, T => zip(&x, &y, &shape, |x: T, y: T| {
            if float.is_some() {
                if y == 0 { 0 } else { x.wrapping_rem(y) }
            } else if first(Some(x.cmp(&y))) { x } else { y }
        }), else zeros(dtype.clone(), &shape)?),
    })
}

/// `gcd` and `lcm`, of integers alone.
fn divisors(name: &str, dtype: &DType, a: &Operand, b: &Operand, shape: &[usize]) -> Run<Array> {
    if !matches!(dtype.kind(), Kind::Signed | Kind::Unsigned) {
        let message = format!(
            "ufunc '{name}' did not contain a loop with signature matching types (<class '{0}'>, <class '{0}'>) -> None",
            format_args!("numpy.dtypes.{dtype}DType"),
        );
        return raise(E::TypeError, message);
    }
    let (x, y) = (a.array(dtype)?, b.array(dtype)?);
    let of = |x: i128, y: i128| {
        let (mut common, mut rest) = (x.abs(), y.abs());
        while rest != 0 {
            (common, rest) = (rest, common % rest);
        }
        match name {
            "gcd" => common,
            _ if common == 0 => 0,
            _ => (x.abs() / common).wrapping_mul(y.abs()),
        }
    };
    Ok(integers!(dtype, T => zip(&x, &y, shape, |x: T, y: T| of(x as i128, y as i128) as T),
        else zeros(dtype.clone(), shape)?))
}

/// Functions of one array that have no float function of their own.
fn single(host: &mut Host, name: &str, a: &Array, places: i128) -> Run<Array> {
    let dtype = a.dtype().clone();
    let same = |a: &Array| cast(a, a.dtype());
    Ok(match (name, &dtype) {
        (_, DType::Record(_)) => {
            return raise(E::TypeError, format!("ufunc '{name}' not supported for records"));
        }
        ("isnan" | "isinf" | "isfinite", _) => {
            let test = |v: f64| match name {
                "isnan" => v.is_nan(),
                "isinf" => v.is_infinite(),
                _ => v.is_finite(),
            };
            map(a, |z: Complex| {
                Bool::new(if name == "isfinite" {
                    test(z.re) && test(z.im)
                } else {
                    test(z.re) || test(z.im)
                })
            })
        }
        ("signbit", _) => map(a, |v: f64| Bool::new(v.is_sign_negative())),
        ("logical_not", _) => map(a, |z: Complex| Bool::new(z.re == 0.0 && z.im == 0.0)),
        ("real" | "imag", DType::C128) => {
            map(a, |z: Complex| if name == "real" { z.re } else { z.im })
        }
        ("real", _) => same(a)?,
        ("imag", _) => zeros(dtype.clone(), a.shape())?,
        ("conjugate", DType::C128) => map(a, |z: Complex| Complex { re: z.re, im: -z.im }),
        ("conjugate", _) => same(a)?,
        ("absolute", DType::C128) => map(a, |z: Complex| z.re.hypot(z.im)),
        ("absolute" | "floor" | "ceil" | "trunc", DType::Bool) => same(a)?,
        ("square", DType::C128) => map(a, |z: Complex| {
            let (re, im) = number::complex_mul((z.re, z.im), (z.re, z.im));
            Complex { re, im }
        }),
        ("round", DType::C128) => {
            map(a, |z: Complex| Complex { re: round(z.re, places), im: round(z.im, places) })
        }
        (_, DType::C128) => {
            return refuse(
                format!("`numpy.{name}` of complex numbers is not supported in host code"),
                "compute it in a kernel",
            );
        }
        ("fabs" | "rint", dtype) if dtype.kind() < Kind::Float => {
            if dtype.size() < 4 {
                return refuse(
                    "the result would be a narrower float",
                    "convert with `.astype(np.float64)` first",
                );
            }
            map(a, |v: f64| if name == "fabs" { v.abs() } else { v.round_ties_even() })
        }
        (_, DType::F64) => map(a, |v: f64| float_single(name, v, places)),
        (_, DType::F32) => map(a, |v: f32| {
            if name == "round" && places != 0 {
                round32(v, places)
            } else {
                float_single(name, v.into(), places) as f32
            }
        }),
        (_, DType::Bool) => {
            return refuse(
                format!("`numpy.{name}` of bools is not supported in host code"),
                "convert with `.astype(np.int64)` first",
            );
        }
        ("round", other) if places < 0 => {
            let _ = host;
            integers!(other, T => map(a, |v: T| {
                let v = v as i128;
                number::round_int(v, places).unwrap_or(v) as T
            }), else same(a)?)
        }
        (_, other) => integers!(other, T => map(a, |v: T| {
            #[allow(unused_comparisons, clippy::absurd_extreme_comparisons, reason = "unsigned types have no negative values")]
            let negative = v < 0;
            match name {
                "absolute" if negative => v.wrapping_neg(),
                "square" => v.wrapping_mul(v),
                "sign" if v == 0 => 0,
                "sign" if negative => (0 as T).wrapping_sub(1),
                "sign" => 1,
                "reciprocal" if v == 0 => 0,
                "reciprocal" => (1 as T).wrapping_div(v),
                _ => v,
            }
        }), else same(a)?),
    })
}

fn float_single(name: &str, v: f64, places: i128) -> f64 {
    match name {
        "absolute" | "fabs" => v.abs(),
        "square" => v * v,
        "sign" if v.is_nan() => v,
        "sign" if v == 0.0 => 0.0,
        "sign" => v.signum(),
        "floor" => v.floor(),
        "ceil" => v.ceil(),
        "trunc" => v.trunc(),
        "reciprocal" => 1.0 / v,
        "round" => round(v, places),
        _ => v.round_ties_even(),
    }
}

/// As NumPy rounds: scaled by a power of ten, which may differ from Python's in the last digit.
fn round(v: f64, places: i128) -> f64 {
    if places == 0 {
        return v.round_ties_even();
    }
    let factor = 10f64.powi(places.unsigned_abs().min(400) as i32);
    if places > 0 {
        (v * factor).round_ties_even() / factor
    } else {
        (v / factor).round_ties_even() * factor
    }
}

fn round32(v: f32, places: i128) -> f32 {
    let factor = 10f32.powi(places.unsigned_abs().min(60) as i32);
    if places > 0 {
        (v * factor).round_ties_even() / factor
    } else {
        (v / factor).round_ties_even() * factor
    }
}
