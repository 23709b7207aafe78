//! Element-wise functions of single elements, or of vectors of them.
//!
//! ```text
//!   apply(map, values, types, lanes) ──► a value      lanes 1: a scalar; more: a 128-bit vector
//! ```
//!
//! A bool is a byte in a scalar, and in a vector a mask as wide as the other elements. What a function does to each
//! lane of a vector is what it does to a scalar, bit for bit.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I8, I32, I64};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FuncInstBuilder;

use super::emit::{Emitter, clif};
use crate::graph::node::{Float, Map, Scalar};
use crate::graph::tensor::ElementType;

/// The type of so many elements.
pub(super) fn wide(element: ElementType, lanes: u32) -> Type {
    match lanes {
        1 => clif(element),
        _ => clif(element).by(lanes).expect("a vector has 128 bits"),
    }
}

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
    match map {
        Map::Exp | Map::Log | Map::Tanh | Map::Erf | Map::Sigmoid | Map::Softplus | Map::Mish => {
            true
        }
        Map::Elu { .. } | Map::Celu { .. } | Map::Selu { .. } | Map::Swish { .. } => true,
        Map::Gelu { .. } => true,
        _ => false,
    }
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

/// Arithmetic on elements of one type, or on vectors of them.
pub(super) struct Math<'a, 'b> {
    pub(super) emitter: &'a mut Emitter<'b>,
    pub(super) element: ElementType,
    pub(super) lanes: u32,
}

impl<'b> Math<'_, 'b> {
    pub(super) fn ins(&mut self) -> FuncInstBuilder<'_, 'b> {
        self.emitter.builder.ins()
    }

    pub(super) fn ty(&self) -> Type {
        wide(self.element, self.lanes)
    }

    fn spread(&mut self, value: Value) -> Value {
        let ty = self.ty();
        if self.lanes == 1 { value } else { self.ins().splat(ty, value) }
    }

    /// A number, which an integer type must have.
    pub(super) fn number(&mut self, value: f64) -> Value {
        let value = match self.element {
            ElementType::F32 => self.ins().f32const(value as f32),
            ElementType::F64 => self.ins().f64const(value),
            element => self.ins().iconst(clif(element), value as i64),
        };
        self.spread(value)
    }

    pub(super) fn zero(&mut self) -> Value {
        self.number(0.0)
    }

    /// An attribute of a function of floating-point numbers.
    fn attribute(&mut self, value: Float) -> Value {
        self.number(f64::from(value.get()))
    }

    /// The identity of `min`: +∞, or the greatest of the type.
    pub(super) fn greatest(&mut self) -> Value {
        let bits = 8 * self.element.size() as u32;
        let value = match self.element {
            ElementType::F32 | ElementType::F64 => return self.number(f64::INFINITY),
            ElementType::Bool => 1,
            element if element.is_signed() => i64::MAX >> (64 - bits),
            _ => -1,
        };
        self.integer(value)
    }

    /// The identity of `max`: -∞, or the least of the type.
    pub(super) fn least(&mut self) -> Value {
        let bits = 8 * self.element.size() as u32;
        match self.element {
            ElementType::F32 | ElementType::F64 => self.number(f64::NEG_INFINITY),
            element if element.is_signed() => self.integer(i64::MIN >> (64 - bits)),
            _ => self.integer(0),
        }
    }

    fn integer(&mut self, value: i64) -> Value {
        let ty = clif(self.element);
        let bits = ty.bits();
        let bits = if bits == 64 { value } else { value & ((1 << bits) - 1) };
        let value = self.ins().iconst(ty, bits);
        self.spread(value)
    }

    /// Calls a function of the C library.
    pub(super) fn libm(&mut self, name: &str, x: Value) -> Value {
        debug_assert_eq!(self.lanes, 1);
        self.emitter.libm(name, self.element, &[x])
    }

    pub(super) fn add(&mut self, x: Value, y: Value) -> Value {
        if self.element.is_float() { self.ins().fadd(x, y) } else { self.ins().iadd(x, y) }
    }

    pub(super) fn sub(&mut self, x: Value, y: Value) -> Value {
        if self.element.is_float() { self.ins().fsub(x, y) } else { self.ins().isub(x, y) }
    }

    pub(super) fn mul(&mut self, x: Value, y: Value) -> Value {
        if self.element.is_float() { self.ins().fmul(x, y) } else { self.ins().imul(x, y) }
    }

    pub(super) fn sqrt(&mut self, x: Value) -> Value {
        self.ins().sqrt(x)
    }

    pub(super) fn neg(&mut self, x: Value) -> Value {
        if self.element.is_float() { self.ins().fneg(x) } else { self.ins().ineg(x) }
    }

    pub(super) fn abs(&mut self, x: Value) -> Value {
        match self.element {
            element if element.is_float() => self.ins().fabs(x),
            element if element.is_signed() => self.ins().iabs(x),
            _ => x,
        }
    }

    pub(super) fn compare(&mut self, float: FloatCC, int: IntCC, x: Value, y: Value) -> Value {
        match self.element {
            element if element.is_float() => self.ins().fcmp(float, x, y),
            element if element.is_signed() => self.ins().icmp(int, x, y),
            _ => self.ins().icmp(int.unsigned(), x, y),
        }
    }

    pub(super) fn less(&mut self, x: Value, y: Value) -> Value {
        self.compare(FloatCC::LessThan, IntCC::SignedLessThan, x, y)
    }

    pub(super) fn greater(&mut self, x: Value, y: Value) -> Value {
        self.compare(FloatCC::GreaterThan, IntCC::SignedGreaterThan, x, y)
    }

    /// One of two, by a bool or a mask.
    pub(super) fn choose(&mut self, condition: Value, x: Value, y: Value) -> Value {
        if self.lanes == 1 {
            return self.ins().select(condition, x, y);
        }
        let ty = self.ty();
        let mask = if self.element.is_float() {
            let flags = MemFlagsData::new().with_endianness(Endianness::Little);
            self.ins().bitcast(ty, flags, condition)
        } else {
            condition
        };
        self.ins().bitselect(mask, x, y)
    }

    fn if_negative(&mut self, x: Value, yes: Value, no: Value) -> Value {
        if !self.element.is_signed() {
            return no;
        }
        let zero = self.zero();
        let negative = self.less(x, zero);
        self.choose(negative, yes, no)
    }

    /// The lesser of x and a number; NaN if x is.
    fn below(&mut self, x: Value, limit: Value) -> Value {
        let out = self.greater(x, limit);
        self.choose(out, limit, x)
    }

    /// The greater of x and a number; NaN if x is.
    fn above(&mut self, x: Value, limit: Value) -> Value {
        let out = self.less(x, limit);
        self.choose(out, limit, x)
    }

    fn relu(&mut self, x: Value) -> Value {
        let zero = self.zero();
        self.if_negative(x, zero, x)
    }

    /// The lesser; NaN if one is.
    pub(super) fn min(&mut self, x: Value, y: Value) -> Value {
        match self.element {
            element if element.is_float() => self.ins().fmin(x, y),
            element if self.lanes > 1 && element.is_signed() => self.ins().smin(x, y),
            _ if self.lanes > 1 => self.ins().umin(x, y),
            _ => {
                let less = self.less(x, y);
                self.choose(less, x, y)
            }
        }
    }

    /// The greater; NaN if one is.
    pub(super) fn max(&mut self, x: Value, y: Value) -> Value {
        match self.element {
            element if element.is_float() => self.ins().fmax(x, y),
            element if self.lanes > 1 && element.is_signed() => self.ins().smax(x, y),
            _ if self.lanes > 1 => self.ins().umax(x, y),
            _ => {
                let greater = self.greater(x, y);
                self.choose(greater, x, y)
            }
        }
    }

    fn sign(&mut self, x: Value) -> Value {
        let (zero, one) = (self.zero(), self.number(1.0));
        let above = self.greater(x, zero);
        if !self.element.is_signed() {
            return self.choose(above, one, zero);
        }
        let below = self.less(x, zero);
        let minus = self.neg(one);
        let other = self.choose(below, minus, x);
        self.choose(above, one, other)
    }

    fn sigmoid(&mut self, x: Value) -> Value {
        let (one, turned) = (self.number(1.0), self.neg(x));
        let grown = self.exp(turned);
        let below = self.add(one, grown);
        self.div(one, below)
    }

    fn hard_sigmoid(&mut self, x: Value, alpha: Value, beta: Value) -> Value {
        let scaled = self.mul(alpha, x);
        let line = self.add(scaled, beta);
        let (zero, one) = (self.zero(), self.number(1.0));
        let capped = self.below(line, one);
        self.above(capped, zero)
    }

    /// ln(1 + eˣ) = max(x, 0) + ln(1 + e^-|x|), which does not overflow.
    fn softplus(&mut self, x: Value) -> Value {
        let size = self.abs(x);
        let turned = self.neg(size);
        let grown = self.exp(turned);
        let rest = self.log_one_more(grown);
        let above = self.relu(x);
        self.add(above, rest)
    }

    fn shrink(&mut self, x: Value, bias: Float, lambd: Float) -> Value {
        if !self.element.is_float() {
            // The attributes need be no integers.
            let element = self.element;
            let number = cast(self.emitter, x, element, ElementType::F64);
            let mut wide =
                Math { emitter: &mut *self.emitter, element: ElementType::F64, lanes: 1 };
            let shrunk = wide.shrink(number, bias, lambd);
            return cast(self.emitter, shrunk, ElementType::F64, element);
        }
        let (bias, lambd) = (self.attribute(bias), self.attribute(lambd));
        let zero = self.zero();
        let above = self.greater(x, lambd);
        let lowered = self.sub(x, bias);
        let other = self.choose(above, lowered, zero);
        let least = self.neg(lambd);
        let below = self.less(x, least);
        let raised = self.add(x, bias);
        self.choose(below, raised, other)
    }

    /// The quotient; of integers it is truncated, wraps, and is 0 where `y` is 0.
    pub(super) fn div(&mut self, x: Value, y: Value) -> Value {
        if self.element.is_float() {
            return self.ins().fdiv(x, y);
        }
        let (x, y, ty) = (self.widen(x), self.widen(y), self.element);
        let zero = self.emitter.builder.ins().icmp_imm_s(IntCC::Equal, y, 0);
        let one = self.emitter.builder.func.dfg.value_type(y);
        let one = self.ins().iconst(one, 1);
        let quotient = if ty.is_signed() {
            // The least number by -1 would trap.
            let minus = self.ins().icmp_imm_s(IntCC::Equal, y, -1);
            let special = self.ins().bor(zero, minus);
            let divisor = self.ins().select(special, one, y);
            let quotient = self.ins().sdiv(x, divisor);
            let turned = self.ins().ineg(x);
            self.ins().select(minus, turned, quotient)
        } else {
            let divisor = self.ins().select(zero, one, y);
            self.ins().udiv(x, divisor)
        };
        let none = self.ins().bxor(one, one);
        let quotient = self.ins().select(zero, none, quotient);
        self.narrow(quotient)
    }

    /// The remainder. It has the sign of `y`, or, truncated, of `x`; of integers it is 0 where `y` is 0.
    pub(super) fn modulo(&mut self, x: Value, y: Value, truncated: bool) -> Value {
        if self.element.is_float() {
            let rest = self.emitter.libm("fmod", self.element, &[x, y]);
            if truncated {
                return rest;
            }
            let zero = self.zero();
            let (below, negative) = (self.less(rest, zero), self.less(y, zero));
            let differ = self.ins().bxor(below, negative);
            let other = self.add(rest, y);
            let floored = self.choose(differ, other, rest);
            let none = self.ins().fcopysign(zero, y);
            let some = self.ins().fcmp(FloatCC::NotEqual, rest, zero);
            return self.choose(some, floored, none);
        }
        let (x, y, ty) = (self.widen(x), self.widen(y), self.element);
        let zero = self.ins().icmp_imm_s(IntCC::Equal, y, 0);
        let one = self.emitter.builder.func.dfg.value_type(y);
        let one = self.ins().iconst(one, 1);
        let rest = if ty.is_signed() {
            // By 1 as by -1 and 0, nothing remains.
            let minus = self.ins().icmp_imm_s(IntCC::Equal, y, -1);
            let special = self.ins().bor(zero, minus);
            let divisor = self.ins().select(special, one, y);
            let rest = self.ins().srem(x, divisor);
            if truncated {
                rest
            } else {
                let some = self.ins().icmp_imm_s(IntCC::NotEqual, rest, 0);
                let signs = self.ins().bxor(rest, y);
                let differ = self.ins().icmp_imm_s(IntCC::SignedLessThan, signs, 0);
                let floor = self.ins().band(some, differ);
                let other = self.ins().iadd(rest, y);
                self.ins().select(floor, other, rest)
            }
        } else {
            let divisor = self.ins().select(zero, one, y);
            self.ins().urem(x, divisor)
        };
        self.narrow(rest)
    }

    /// Short integers as 32 bits wide, which is what there are divisions of.
    fn widen(&mut self, x: Value) -> Value {
        match (self.element.size(), self.element.is_signed()) {
            (4.., _) => x,
            (_, true) => self.ins().sextend(I32, x),
            (_, false) => self.ins().uextend(I32, x),
        }
    }

    fn narrow(&mut self, x: Value) -> Value {
        let ty = clif(self.element);
        if self.element.size() < 4 { self.ins().ireduce(ty, x) } else { x }
    }

    fn shift(&mut self, x: Value, y: Value, left: bool) -> Value {
        let bits = 8 * self.element.size() as i64;
        // Negative amounts are large ones.
        let out = self.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, y, bits);
        let zero = self.zero();
        if left {
            let shifted = self.ins().ishl(x, y);
            self.choose(out, zero, shifted)
        } else if self.element.is_signed() {
            let most = self.number((bits - 1) as f64);
            let amount = self.choose(out, most, y);
            self.ins().sshr(x, amount)
        } else {
            let shifted = self.ins().ushr(x, y);
            self.choose(out, zero, shifted)
        }
    }
}

/// A constant element, or a vector of it.
pub(super) fn constant(emitter: &mut Emitter<'_>, scalar: &Scalar, lanes: u32) -> Value {
    let builder = &mut emitter.builder;
    let value = match scalar.element {
        ElementType::F32 => builder.ins().f32const(f32::from_bits(scalar.bits as u32)),
        ElementType::F64 => builder.ins().f64const(f64::from_bits(scalar.bits)),
        element => builder.ins().iconst(clif(element), scalar.bits as i64),
    };
    match lanes {
        1 => value,
        _ => builder.ins().splat(wide(scalar.element, lanes), value),
    }
}

/// A vector as another type of as many lanes; a bool is a mask.
fn cast_vector(
    emitter: &mut Emitter<'_>,
    x: Value,
    from: ElementType,
    to: ElementType,
    lanes: u32,
) -> Value {
    if from == to {
        return x;
    }
    if to == ElementType::Bool {
        let mut math = Math { emitter, element: from, lanes };
        let zero = math.zero();
        return math.compare(FloatCC::NotEqual, IntCC::NotEqual, x, zero);
    }
    let mut math = Math { emitter, element: to, lanes };
    if from == ElementType::Bool {
        let (zero, one) = (math.zero(), math.number(1.0));
        return math.choose(x, one, zero);
    }
    let ty = math.ty();
    math.ins().fcvt_from_sint(ty, x)
}

/// The type of vectors of integers of so many bytes.
fn lanes_of(size: usize) -> Type {
    let lane = Type::int(8 * size as u16).expect("a size of integers");
    lane.by(16 / size as u32).expect("a vector has 128 bits")
}

fn as_vector(emitter: &mut Emitter<'_>, ty: Type, x: Value) -> Value {
    let flags = MemFlagsData::new().with_endianness(Endianness::Little);
    emitter.builder.ins().bitcast(ty, flags, x)
}

/// So many bools in memory as a mask.
pub(super) fn load_mask(
    emitter: &mut Emitter<'_>,
    address: Value,
    offset: i32,
    lanes: u32,
) -> Value {
    let word = Type::int(8 * lanes as u16).expect("so many bytes");
    let bytes = emitter.load_as(word, address, offset);
    let ty = lanes_of(lanes as usize);
    let mut vector = emitter.builder.ins().scalar_to_vector(ty, bytes);
    vector = as_vector(emitter, lanes_of(1), vector);
    for _ in 0..(16 / lanes).trailing_zeros() {
        vector = emitter.builder.ins().uwiden_low(vector);
    }
    emitter.builder.ins().ineg(vector)
}

/// A bool as a mask.
pub(super) fn spread_mask(emitter: &mut Emitter<'_>, value: Value, lanes: u32) -> Value {
    let ty = lanes_of(16 / lanes as usize);
    let wide = emitter.builder.ins().uextend(ty.lane_type(), value);
    let wide = emitter.builder.ins().ineg(wide);
    emitter.builder.ins().splat(ty, wide)
}

/// A mask to so many bools in memory.
pub(super) fn store_mask(
    emitter: &mut Emitter<'_>,
    mask: Value,
    address: Value,
    offset: i32,
    lanes: u32,
) {
    let mut vector = mask;
    // Halves of a lane are the same, so that one of them will do.
    let mut size = 16 / lanes as usize;
    if size == 8 {
        vector = as_vector(emitter, lanes_of(4), vector);
        size = 4;
    }
    while size > 1 {
        vector = emitter.builder.ins().snarrow(vector, vector);
        size /= 2;
    }
    if lanes == 2 {
        vector = as_vector(emitter, lanes_of(2), vector);
        vector = emitter.builder.ins().snarrow(vector, vector);
    }
    let one = emitter.builder.ins().iconst(I8, 1);
    let one = emitter.builder.ins().splat(lanes_of(1), one);
    let bools = emitter.builder.ins().band(vector, one);
    let words = as_vector(emitter, lanes_of(lanes as usize), bools);
    let word = emitter.builder.ins().extractlane(words, 0);
    emitter.store_at(word, address, offset);
}

/// An element as another type.
pub(super) fn cast(
    emitter: &mut Emitter<'_>,
    x: Value,
    from: ElementType,
    to: ElementType,
) -> Value {
    let builder = &mut emitter.builder;
    let (wide, ty) = (clif(from), clif(to));
    match (from, to) {
        _ if from == to => x,
        (ElementType::F32, ElementType::F64) => builder.ins().fpromote(F64, x),
        (ElementType::F64, ElementType::F32) => builder.ins().fdemote(F32, x),
        (ElementType::F32, ElementType::Bool) => {
            let zero = builder.ins().f32const(0.0);
            builder.ins().fcmp(FloatCC::NotEqual, x, zero)
        }
        (ElementType::F64, ElementType::Bool) => {
            let zero = builder.ins().f64const(0.0);
            builder.ins().fcmp(FloatCC::NotEqual, x, zero)
        }
        (_, ElementType::Bool) => builder.ins().icmp_imm_s(IntCC::NotEqual, x, 0),
        (ElementType::F32 | ElementType::F64, ElementType::U64) => {
            let zero = match from {
                ElementType::F32 => builder.ins().f32const(0.0),
                _ => builder.ins().f64const(0.0),
            };
            let negative = builder.ins().fcmp(FloatCC::LessThan, x, zero);
            let below = builder.ins().fcvt_to_sint_sat(I64, x);
            let above = builder.ins().fcvt_to_uint_sat(I64, x);
            builder.ins().select(negative, below, above)
        }
        (ElementType::F32 | ElementType::F64, _) => {
            let number = builder.ins().fcvt_to_sint_sat(I64, x);
            if ty == I64 { number } else { builder.ins().ireduce(ty, number) }
        }
        (ElementType::U64, ElementType::F32 | ElementType::F64) => {
            builder.ins().fcvt_from_uint(ty, x)
        }
        (_, ElementType::F32 | ElementType::F64) => {
            let number = match wide {
                I64 => x,
                _ if from.is_signed() => builder.ins().sextend(I64, x),
                _ => builder.ins().uextend(I64, x),
            };
            builder.ins().fcvt_from_sint(ty, number)
        }
        _ if ty == wide => x,
        _ if ty.bits() < wide.bits() => builder.ins().ireduce(ty, x),
        _ if from.is_signed() => builder.ins().sextend(ty, x),
        _ => builder.ins().uextend(ty, x),
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
