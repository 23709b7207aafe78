//! Element-wise functions of single elements, or of vectors of them.
//!
//! ```text
//!   apply(map, values, types, lanes) ──► a value      lanes 1: a scalar; more: a 128-bit vector
//! ```
//!
//! A bool is a byte in a scalar, and in a vector a mask as wide as the other elements. What a function does to each
//! lane of a vector is what it does to a scalar, bit for bit.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::arithmetic::Math;
use super::cast::{cast, cast_vector};
use super::emit::Emitter;
use crate::graph::node::Map;
use crate::graph::tensor::ElementType;

/// Whether [`apply`] has a vector form of this function of arguments of these types, all but bools of `size` bytes.
pub(super) fn has_vectors(map: &Map, types: &[ElementType], size: usize) -> bool {
    use ElementType::{Bool, F32, F64, I16, I32, U16, U32};
    if let Map::Cast { to } = map {
        let (from, to) = (types[0], *to);
        let known = |element: ElementType| element == Bool || element.size() == size;
        let plain = from == to || from == Bool || to == Bool || (from, to) == (I32, F32);
        return known(from) && known(to) && plain;
    }
    let Some(element) = types.iter().copied().find(|&element| element != Bool) else {
        return matches!(map, Map::And | Map::Or | Map::Xor | Map::Not);
    };
    let even = types.iter().all(|&other| other == element || other == Bool);
    let float = matches!(element, F32 | F64);
    let short = matches!(element, I16 | I32 | U16 | U32);
    even && match map {
        Map::Identity | Map::Neg | Map::Add | Map::Sub | Map::Sum => true,
        Map::BitwiseNot | Map::BitwiseAnd | Map::BitwiseOr | Map::BitwiseXor => true,
        Map::Mul => float || short,
        Map::Abs | Map::Min | Map::Max | Map::Relu | Map::Clip { .. } => float || short,
        Map::Equal
        | Map::Less
        | Map::LessOrEqual
        | Map::Greater
        | Map::GreaterOrEqual
        | Map::Where => float || short,
        Map::Sign
        | Map::Reciprocal
        | Map::Sqrt
        | Map::Floor
        | Map::Ceil
        | Map::Round
        | Map::LeakyRelu { .. }
        | Map::HardSigmoid { .. }
        | Map::HardSwish
        | Map::Softsign
        | Map::ThresholdedRelu { .. }
        | Map::Shrink { .. }
        | Map::IsNan
        | Map::IsInf { .. }
        | Map::Div
        | Map::PRelu
        | Map::Exp
        | Map::Sigmoid
        | Map::Elu { .. }
        | Map::Celu { .. }
        | Map::Selu { .. }
        | Map::Mish
        | Map::Swish { .. }
        | Map::Mean => float,
        Map::Log | Map::Tanh | Map::Erf | Map::Gelu { .. } | Map::Softplus => element == F32,
        _ => false,
    }
}

/// Whether this is a function of many instructions.
pub(super) fn is_long(map: &Map) -> bool {
    matches!(
        map,
        Map::Exp
            | Map::Log
            | Map::Tanh
            | Map::Erf
            | Map::Sigmoid
            | Map::Softplus
            | Map::Mish
            | Map::Elu { .. }
            | Map::Celu { .. }
            | Map::Selu { .. }
            | Map::Swish { .. }
            | Map::Gelu { .. }
    )
}

/// A function of these values, which have these types.
pub(super) fn apply(
    emitter: &mut Emitter<'_>,
    map: &Map,
    args: &[Value],
    types: &[ElementType],
    lanes: u32,
) -> Value {
    let element = match map {
        Map::Where => types[1],
        _ => types[0],
    };
    let mut math = Math { emitter: &mut *emitter, element, lanes };
    let m = &mut math;
    let x = args[0];
    match *map {
        Map::Identity => x,
        Map::Abs => m.abs(x),
        Map::Neg => m.neg(x),
        Map::Sign => m.sign(x),
        Map::Reciprocal => {
            let one = m.number(1.0);
            m.div(one, x)
        }
        Map::Sqrt => m.ins().sqrt(x),
        Map::Exp => m.exp(x),
        Map::Log => m.log(x),
        Map::Floor => m.ins().floor(x),
        Map::Ceil => m.ins().ceil(x),
        Map::Round => m.ins().nearest(x),
        Map::Sin => m.libm("sin", x),
        Map::Cos => m.libm("cos", x),
        Map::Tan => m.libm("tan", x),
        Map::Asin => m.libm("asin", x),
        Map::Acos => m.libm("acos", x),
        Map::Atan => m.libm("atan", x),
        Map::Sinh => m.libm("sinh", x),
        Map::Cosh => m.libm("cosh", x),
        Map::Tanh => m.tanh(x),
        Map::Asinh => m.libm("asinh", x),
        Map::Acosh => m.libm("acosh", x),
        Map::Atanh => m.libm("atanh", x),
        Map::Erf => m.erf(x),
        Map::Sigmoid => m.sigmoid(x),
        Map::Relu => m.relu(x),
        Map::LeakyRelu { alpha } => {
            let alpha = m.attribute(alpha);
            let scaled = m.mul(alpha, x);
            m.if_negative(x, scaled, x)
        }
        Map::Elu { alpha } => {
            let zero = m.zero();
            let capped = m.below(x, zero);
            let (alpha, grown) = (m.attribute(alpha), m.exp_less_one(capped));
            let scaled = m.mul(alpha, grown);
            m.if_negative(x, scaled, x)
        }
        Map::Celu { alpha } => {
            let positive = alpha.get() > 0.0;
            let alpha = m.attribute(alpha);
            let zero = m.zero();
            let part = m.div(x, alpha);
            let grown = if positive {
                let part = m.below(part, zero);
                m.exp_less_one(part)
            } else {
                let (one, grown) = (m.number(1.0), m.exp(part));
                m.sub(grown, one)
            };
            let scaled = m.mul(alpha, grown);
            let (above, below) = (m.above(x, zero), m.below(scaled, zero));
            m.add(above, below)
        }
        Map::Selu { alpha, gamma } => {
            let (alpha, gamma) = (m.attribute(alpha), m.attribute(gamma));
            let zero = m.zero();
            let capped = m.below(x, zero);
            let grown = m.exp_less_one(capped);
            let scaled = m.mul(alpha, grown);
            let above = m.greater(x, zero);
            let either = m.choose(above, x, scaled);
            m.mul(gamma, either)
        }
        Map::HardSigmoid { alpha, beta } => {
            let (alpha, beta) = (m.attribute(alpha), m.attribute(beta));
            m.hard_sigmoid(x, alpha, beta)
        }
        Map::HardSwish => {
            let (alpha, beta) = (m.number(1.0 / 6.0), m.number(0.5));
            let gate = m.hard_sigmoid(x, alpha, beta);
            m.mul(x, gate)
        }
        Map::Softplus => m.softplus(x),
        Map::Softsign => {
            let (one, size) = (m.number(1.0), m.abs(x));
            let below = m.add(one, size);
            m.div(x, below)
        }
        Map::Mish => {
            let gate = m.tanh_softplus(x);
            m.mul(x, gate)
        }
        Map::Swish { alpha } => {
            let alpha = m.attribute(alpha);
            let scaled = m.mul(alpha, x);
            let gate = m.sigmoid(scaled);
            m.mul(x, gate)
        }
        Map::ThresholdedRelu { alpha } => {
            let (alpha, zero) = (m.attribute(alpha), m.zero());
            let above = m.greater(x, alpha);
            m.choose(above, x, zero)
        }
        Map::Gelu { tanh } => {
            let gate = if tanh {
                let (cubic, scale) =
                    (m.number(0.044715), m.number((2.0 / std::f64::consts::PI).sqrt()));
                let square = m.mul(x, x);
                let cube = m.mul(square, x);
                let term = m.mul(cubic, cube);
                let sum = m.add(x, term);
                let inner = m.mul(scale, sum);
                m.tanh(inner)
            } else {
                let root = m.number(std::f64::consts::SQRT_2);
                let inner = m.div(x, root);
                m.erf(inner)
            };
            let (one, half) = (m.number(1.0), m.number(0.5));
            let gate = m.add(one, gate);
            let half = m.mul(half, x);
            m.mul(half, gate)
        }
        Map::Shrink { bias, lambd } => m.shrink(x, bias, lambd),
        Map::Not => {
            if lanes == 1 {
                m.ins().bxor_imm_u(x, 1)
            } else {
                m.ins().bnot(x)
            }
        }
        Map::BitwiseNot => m.ins().bnot(x),
        Map::IsNan => m.ins().fcmp(FloatCC::Unordered, x, x),
        Map::IsInf { positive, negative } => {
            let infinity = m.number(f64::INFINITY);
            match (positive, negative) {
                (true, true) => {
                    let size = m.abs(x);
                    m.ins().fcmp(FloatCC::Equal, size, infinity)
                }
                (true, false) => m.ins().fcmp(FloatCC::Equal, x, infinity),
                (false, true) => {
                    let least = m.neg(infinity);
                    m.ins().fcmp(FloatCC::Equal, x, least)
                }
                (false, false) => m.ins().fcmp(FloatCC::LessThan, x, x),
            }
        }
        Map::Cast { to } if lanes > 1 => cast_vector(emitter, x, types[0], to, lanes),
        Map::Cast { to } => cast(emitter, x, types[0], to),
        Map::Add => m.add(x, args[1]),
        Map::Sub => m.sub(x, args[1]),
        Map::Mul => m.mul(x, args[1]),
        Map::Div => m.div(x, args[1]),
        Map::Mod { fmod } => m.modulo(x, args[1], fmod),
        Map::Pow => power(emitter, x, types[0], args[1], types[1]),
        Map::And | Map::BitwiseAnd => m.ins().band(x, args[1]),
        Map::Or | Map::BitwiseOr => m.ins().bor(x, args[1]),
        Map::Xor | Map::BitwiseXor => m.ins().bxor(x, args[1]),
        Map::BitShift { left } => m.shift(x, args[1], left),
        Map::Equal => m.compare(FloatCC::Equal, IntCC::Equal, x, args[1]),
        Map::Less => m.compare(FloatCC::LessThan, IntCC::SignedLessThan, x, args[1]),
        Map::LessOrEqual => {
            m.compare(FloatCC::LessThanOrEqual, IntCC::SignedLessThanOrEqual, x, args[1])
        }
        Map::Greater => m.compare(FloatCC::GreaterThan, IntCC::SignedGreaterThan, x, args[1]),
        Map::GreaterOrEqual => {
            m.compare(FloatCC::GreaterThanOrEqual, IntCC::SignedGreaterThanOrEqual, x, args[1])
        }
        Map::PRelu => {
            let scaled = m.mul(args[1], x);
            m.if_negative(x, scaled, x)
        }
        Map::Where => m.choose(x, args[1], args[2]),
        Map::Clip { min, max } => {
            let mut bounds = args[1..].iter();
            let mut value = x;
            if min && let Some(&bound) = bounds.next() {
                value = m.max(value, bound);
            }
            if max && let Some(&bound) = bounds.next() {
                value = m.min(value, bound);
            }
            value
        }
        Map::Min => args[1..].iter().fold(x, |least, &y| m.min(least, y)),
        Map::Max => args[1..].iter().fold(x, |most, &y| m.max(most, y)),
        Map::Sum => args[1..].iter().fold(x, |sum, &y| m.add(sum, y)),
        Map::Mean => {
            let sum = args[1..].iter().fold(x, |sum, &y| m.add(sum, y));
            let count = m.number(args.len() as f64);
            m.div(sum, count)
        }
    }
}

fn power(
    emitter: &mut Emitter<'_>,
    x: Value,
    element: ElementType,
    y: Value,
    exponent: ElementType,
) -> Value {
    if element.is_float() && element == exponent {
        return emitter.libm("pow", element, &[x, y]);
    }
    if element.is_float() || exponent.is_float() {
        let base = cast(emitter, x, element, ElementType::F64);
        let exponent = cast(emitter, y, exponent, ElementType::F64);
        let result = emitter.libm("pow", ElementType::F64, &[base, exponent]);
        return cast(emitter, result, ElementType::F64, element);
    }
    // By squaring, in 64 bits, of which narrower types keep the low ones.
    let base = cast(emitter, x, element, ElementType::I64);
    let count = cast(emitter, y, exponent, ElementType::I64);
    let one = emitter.int(1);
    let turn = |emitter: &mut Emitter<'_>, state: &[Value]| {
        let (base, count, result) = (state[0], state[1], state[2]);
        let odd = emitter.builder.ins().band_imm_u(count, 1);
        let times = emitter.mul(result, base);
        let result = emitter.select(odd, times, result);
        let base = emitter.mul(base, base);
        let count = emitter.builder.ins().ushr_imm_u(count, 1);
        let again = emitter.compare_to(IntCC::NotEqual, count, 0);
        (again, vec![base, count, result])
    };
    let powers = emitter.repeat_while(&[base, count, one], turn);
    let mut result = powers[2];
    if exponent.is_signed() {
        // Of the inverses only those of 1 and -1 are integers.
        let odd = emitter.builder.ins().band_imm_u(count, 1);
        let is_one = emitter.compare_to(IntCC::Equal, base, 1);
        let is_minus = emitter.compare_to(IntCC::Equal, base, -1);
        let zero = emitter.int(0);
        let alternating = emitter.select(odd, base, one);
        let other = emitter.select(is_minus, alternating, zero);
        let inverse = emitter.select(is_one, one, other);
        let negative = emitter.compare_to(IntCC::SignedLessThan, count, 0);
        result = emitter.select(negative, inverse, result);
    }
    cast(emitter, result, ElementType::I64, element)
}
