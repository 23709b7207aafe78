//! Arithmetic on elements of one type, or on vectors of them.
//!
//! ```text
//!   Math { element, lanes }: add, compare, choose, div, ...      floats, integers with or without sign
//! ```
//!
//! Integers wrap, and nothing traps.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::I32;
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FuncInstBuilder;

use super::cast::cast;
use super::emit::{Emitter, clif};
use crate::graph::node::{Float, Scalar};
use crate::graph::tensor::ElementType;

/// The type of so many elements.
pub(super) fn wide(element: ElementType, lanes: u32) -> Type {
    match lanes {
        1 => clif(element),
        _ => clif(element).by(lanes).expect("a vector has 128 bits"),
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

    /// A number, which an integer type must have.
    pub(super) fn number(&mut self, value: f64) -> Value {
        let bits = match self.element {
            ElementType::F32 => u64::from((value as f32).to_bits()),
            ElementType::F64 => value.to_bits(),
            _ => value as i64 as u64,
        };
        constant(self.emitter, &Scalar { element: self.element, bits }, self.lanes)
    }

    pub(super) fn zero(&mut self) -> Value {
        self.number(0.0)
    }

    /// An attribute of a function of floating-point numbers.
    pub(super) fn attribute(&mut self, value: Float) -> Value {
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
        constant(self.emitter, &Scalar { element: self.element, bits: value as u64 }, self.lanes)
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

    pub(super) fn if_negative(&mut self, x: Value, yes: Value, no: Value) -> Value {
        if !self.element.is_signed() {
            return no;
        }
        let zero = self.zero();
        let negative = self.less(x, zero);
        self.choose(negative, yes, no)
    }

    /// The lesser of x and a number; NaN if x is.
    pub(super) fn below(&mut self, x: Value, limit: Value) -> Value {
        let out = self.greater(x, limit);
        self.choose(out, limit, x)
    }

    /// The greater of x and a number; NaN if x is.
    pub(super) fn above(&mut self, x: Value, limit: Value) -> Value {
        let out = self.less(x, limit);
        self.choose(out, limit, x)
    }

    pub(super) fn relu(&mut self, x: Value) -> Value {
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

    pub(super) fn sign(&mut self, x: Value) -> Value {
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

    pub(super) fn sigmoid(&mut self, x: Value) -> Value {
        let (one, turned) = (self.number(1.0), self.neg(x));
        let grown = self.exp(turned);
        let below = self.add(one, grown);
        self.div(one, below)
    }

    pub(super) fn hard_sigmoid(&mut self, x: Value, alpha: Value, beta: Value) -> Value {
        let scaled = self.mul(alpha, x);
        let line = self.add(scaled, beta);
        let (zero, one) = (self.zero(), self.number(1.0));
        let capped = self.below(line, one);
        self.above(capped, zero)
    }

    /// ln(1 + eˣ) = max(x, 0) + ln(1 + e^-|x|), which does not overflow.
    pub(super) fn softplus(&mut self, x: Value) -> Value {
        let size = self.abs(x);
        let turned = self.neg(size);
        let grown = self.exp(turned);
        let rest = self.log_one_more(grown);
        let above = self.relu(x);
        self.add(above, rest)
    }

    pub(super) fn shrink(&mut self, x: Value, bias: Float, lambd: Float) -> Value {
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

    pub(super) fn shift(&mut self, x: Value, y: Value, left: bool) -> Value {
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

/// A constant element, or a vector of it: of its bits, those that its type has.
pub(super) fn constant(emitter: &mut Emitter<'_>, scalar: &Scalar, lanes: u32) -> Value {
    let size = scalar.element.size();
    if lanes > 1 {
        // From memory, which is faster than to make it of a number again and again.
        let bytes = scalar.bits.to_le_bytes()[..size].repeat(lanes as usize);
        let data = emitter.builder.func.dfg.constants.insert(bytes.into());
        return emitter.builder.ins().vconst(wide(scalar.element, lanes), data);
    }
    match scalar.element {
        ElementType::F32 => emitter.builder.ins().f32const(f32::from_bits(scalar.bits as u32)),
        ElementType::F64 => emitter.builder.ins().f64const(f64::from_bits(scalar.bits)),
        element => {
            let unused = 64 - 8 * size;
            let bits = (scalar.bits << unused >> unused) as i64;
            emitter.builder.ins().iconst(clif(element), bits)
        }
    }
}
