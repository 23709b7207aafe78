//! Arithmetic on scalars, by Numba's rules.
//!
//! Integers wrap. Division rounds down and takes the divisor's sign; of the smallest integer by -1 both results are 0.
//! A float that an integer type cannot hold becomes what an x86 processor with AVX-512 makes of it, on every machine.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type as ClifType, Value, types};

use super::r#gen::{Gen, Lanes};
use crate::kernel::ir::{BinaryOp, MathFn, OnZero, Scalar, UnaryOp};

/// The CLIF type of a scalar in one lane.
pub(super) fn clif(scalar: Scalar) -> ClifType {
    match scalar {
        Scalar::Bool | Scalar::I8 | Scalar::U8 => types::I8,
        Scalar::I16 | Scalar::U16 => types::I16,
        Scalar::I32 | Scalar::U32 => types::I32,
        Scalar::I64 | Scalar::U64 => types::I64,
        Scalar::F32 => types::F32,
        Scalar::F64 | Scalar::C128 => types::F64,
    }
}

/// How a comparison of integers is spelled.
pub(super) fn int_condition(op: BinaryOp, is_signed: bool) -> IntCC {
    let signed = match op {
        BinaryOp::Eq => IntCC::Equal,
        BinaryOp::Ne => IntCC::NotEqual,
        BinaryOp::Lt => IntCC::SignedLessThan,
        BinaryOp::Le => IntCC::SignedLessThanOrEqual,
        BinaryOp::Gt => IntCC::SignedGreaterThan,
        _ => IntCC::SignedGreaterThanOrEqual,
    };
    if is_signed { signed } else { signed.unsigned() }
}

/// How a comparison of floats is spelled: of not-a-number only `!=` holds.
pub(super) fn float_condition(op: BinaryOp) -> FloatCC {
    match op {
        BinaryOp::Eq => FloatCC::Equal,
        BinaryOp::Ne => FloatCC::NotEqual,
        BinaryOp::Lt => FloatCC::LessThan,
        BinaryOp::Le => FloatCC::LessThanOrEqual,
        BinaryOp::Gt => FloatCC::GreaterThan,
        _ => FloatCC::GreaterThanOrEqual,
    }
}

/// What of a division is wanted, which its error names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Division {
    Quotient,
    Remainder,
    Both,
}

impl Gen<'_, '_> {
    /// An integer constant, cut to its type.
    pub(super) fn int_of(&mut self, scalar: Scalar, value: i64) -> Value {
        let ty = clif(scalar);
        let bits = ty.bits();
        let mask = if bits == 64 { -1 } else { (1i64 << bits) - 1 };
        self.b.ins().iconst(ty, value & mask)
    }

    pub(super) fn float_of(&mut self, scalar: Scalar, value: f64) -> Value {
        match scalar {
            Scalar::F32 => self.b.ins().f32const(value as f32),
            _ => self.b.ins().f64const(value),
        }
    }

    // Casts.

    pub(super) fn cast_scalar(&mut self, from: Scalar, to: Scalar, lanes: &[Value]) -> Lanes {
        if from == to {
            return lanes.to_vec();
        }
        if from == Scalar::C128 {
            let re = self.truth(Scalar::F64, lanes[0]);
            let im = self.truth(Scalar::F64, lanes[1]);
            return vec![self.b.ins().bor(re, im)];
        }
        let value = lanes[0];
        vec![match (from, to) {
            (_, Scalar::C128) => {
                let re = self.cast_scalar(from, Scalar::F64, lanes)[0];
                return vec![re, self.b.ins().f64const(0.0)];
            }
            (_, Scalar::Bool) => self.truth(from, value),
            (Scalar::F32, Scalar::F64) => self.b.ins().fpromote(types::F64, value),
            (Scalar::F64, Scalar::F32) => self.b.ins().fdemote(types::F32, value),
            (Scalar::F32 | Scalar::F64, to) => self.float_to_int(from, to, value),
            (from, Scalar::F32 | Scalar::F64) => {
                let wide = self.extend(from, value);
                if from == Scalar::U64 {
                    self.b.ins().fcvt_from_uint(clif(to), wide)
                } else {
                    self.b.ins().fcvt_from_sint(clif(to), wide)
                }
            }
            (from, to) => {
                let (narrow, wide) = (clif(from).bits(), clif(to).bits());
                if wide < narrow {
                    self.b.ins().ireduce(clif(to), value)
                } else if wide == narrow {
                    value
                } else if from.is_signed() {
                    self.b.ins().sextend(clif(to), value)
                } else {
                    self.b.ins().uextend(clif(to), value)
                }
            }
        }]
    }

    /// An integer in 64 bits.
    fn extend(&mut self, from: Scalar, value: Value) -> Value {
        if clif(from).bits() == 64 {
            value
        } else if from.is_signed() {
            self.b.ins().sextend(types::I64, value)
        } else {
            self.b.ins().uextend(types::I64, value)
        }
    }

    /// Whether a scalar is not zero.
    fn truth(&mut self, from: Scalar, value: Value) -> Value {
        if from.is_float() {
            let zero = self.float_of(from, 0.0);
            return self.b.ins().fcmp(FloatCC::NotEqual, value, zero);
        }
        self.b.ins().icmp_imm_s(IntCC::NotEqual, value, 0)
    }

    fn float_to_int(&mut self, from: Scalar, to: Scalar, value: Value) -> Value {
        let value = match from {
            Scalar::F32 => self.b.ins().fpromote(types::F64, value),
            _ => value,
        };
        match to {
            Scalar::U64 | Scalar::U32 => {
                // Negative and not-a-number: all ones, as above the range.
                let limit = self.b.ins().f64const(-1.0);
                let fits = self.b.ins().fcmp(FloatCC::GreaterThan, value, limit);
                let number = self.b.ins().fcvt_to_uint_sat(clif(to), value);
                let ones = self.int_of(to, -1);
                self.b.ins().select(fits, number, ones)
            }
            _ => {
                // Out of range: the smallest, of 64 or of 32 bits; narrower types keep its low bits.
                let (ty, limit, least) = match to {
                    Scalar::I64 => (types::I64, 9_223_372_036_854_775_808.0, i64::MIN),
                    _ => (types::I32, 2_147_483_648.0, 1 << 31),
                };
                let limit = self.b.ins().f64const(limit);
                let fits = self.b.ins().fcmp(FloatCC::LessThan, value, limit);
                let number = self.b.ins().fcvt_to_sint_sat(ty, value);
                let least = self.b.ins().iconst(ty, least);
                let number = self.b.ins().select(fits, number, least);
                if clif(to).bits() < ty.bits() {
                    self.b.ins().ireduce(clif(to), number)
                } else {
                    number
                }
            }
        }
    }

    // Operations.

    pub(super) fn unary(&mut self, op: UnaryOp, ty: Scalar, lanes: &[Value]) -> Lanes {
        if ty == Scalar::C128 {
            return self.complex_unary(op, lanes);
        }
        let x = lanes[0];
        vec![match op {
            UnaryOp::Neg if ty.is_float() => self.b.ins().fneg(x),
            UnaryOp::Neg => self.b.ins().ineg(x),
            UnaryOp::Invert if ty == Scalar::Bool => self.not(x),
            UnaryOp::Invert => self.b.ins().bnot(x),
            UnaryOp::Not => self.not(x),
            UnaryOp::Abs if ty.is_float() => self.b.ins().fabs(x),
            UnaryOp::Abs if ty.is_signed() => self.b.ins().iabs(x),
            UnaryOp::Abs | UnaryOp::Real | UnaryOp::Conj => x,
            UnaryOp::Imag => self.float_of(ty, 0.0),
            UnaryOp::Sign => self.sign(ty, x),
            UnaryOp::IsNan => self.b.ins().fcmp(FloatCC::Unordered, x, x),
            UnaryOp::IsInf | UnaryOp::IsFinite => {
                let size = self.b.ins().fabs(x);
                let infinite = self.float_of(ty, f64::INFINITY);
                let condition =
                    if op == UnaryOp::IsInf { FloatCC::Equal } else { FloatCC::LessThan };
                self.b.ins().fcmp(condition, size, infinite)
            }
            UnaryOp::SignBit => {
                let as_int = if ty == Scalar::F32 { types::I32 } else { types::I64 };
                let flags = cranelift_codegen::ir::MemFlagsData::new();
                let bits = self.b.ins().bitcast(as_int, flags, x);
                self.b.ins().icmp_imm_s(IntCC::SignedLessThan, bits, 0)
            }
        }]
    }

    fn sign(&mut self, ty: Scalar, x: Value) -> Value {
        if ty.is_float() {
            let (zero, one) = (self.float_of(ty, 0.0), self.float_of(ty, 1.0));
            let minus = self.float_of(ty, -1.0);
            let is_above = self.b.ins().fcmp(FloatCC::GreaterThan, x, zero);
            let is_below = self.b.ins().fcmp(FloatCC::LessThan, x, zero);
            let low = self.b.ins().select(is_below, minus, x);
            return self.b.ins().select(is_above, one, low);
        }
        let (zero, one) = (self.int_of(ty, 0), self.int_of(ty, 1));
        let minus = self.int_of(ty, -1);
        let above = if ty.is_signed() { IntCC::SignedGreaterThan } else { IntCC::NotEqual };
        let is_above = self.b.ins().icmp(above, x, zero);
        let is_zero = self.b.ins().icmp(IntCC::Equal, x, zero);
        let low = self.b.ins().select(is_zero, zero, minus);
        self.b.ins().select(is_above, one, low)
    }

    /// An operation on two scalars of a type. `divisor` is the second one, if it is a constant integer.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        ty: Scalar,
        a: &[Value],
        b: &[Value],
        divisor: Option<i64>,
    ) -> Lanes {
        if ty == Scalar::C128 {
            return self.complex_binary(op, a, b);
        }
        let (x, y) = (a[0], b[0]);
        let is_float = ty.is_float();
        vec![match op {
            BinaryOp::Add if is_float => self.b.ins().fadd(x, y),
            BinaryOp::Add => self.b.ins().iadd(x, y),
            BinaryOp::Sub if is_float => self.b.ins().fsub(x, y),
            BinaryOp::Sub => self.b.ins().isub(x, y),
            BinaryOp::Mul if is_float => self.b.ins().fmul(x, y),
            BinaryOp::Mul => self.b.ins().imul(x, y),
            BinaryOp::TrueDiv(zero) => {
                self.check_float_zero(ty, zero, y, "division by zero");
                self.b.ins().fdiv(x, y)
            }
            BinaryOp::FloorDiv(zero) if is_float => {
                self.check_float_zero(ty, zero, y, "division by zero");
                if zero == OnZero::Ufunc {
                    let quotient = self.b.ins().fdiv(x, y);
                    return vec![self.b.ins().floor(quotient)];
                }
                self.float_helper("floor_div", ty, &[x, y])
            }
            BinaryOp::Mod(zero) if is_float => {
                self.check_float_zero(ty, zero, y, "modulo by zero");
                self.float_helper("modulo", ty, &[x, y])
            }
            BinaryOp::Fmod(zero) if is_float => {
                self.check_float_zero(ty, zero, y, "modulo by zero");
                self.float_helper("fmod", ty, &[x, y])
            }
            BinaryOp::FloorDiv(zero) => {
                self.int_division(ty, zero, x, y, divisor, Division::Quotient).0
            }
            BinaryOp::Mod(zero) => {
                self.int_division(ty, zero, x, y, divisor, Division::Remainder).1
            }
            BinaryOp::Fmod(zero) => {
                let (quotient, is_zero) =
                    self.truncated(ty, zero, x, y, divisor, Division::Remainder);
                let product = self.b.ins().imul(quotient, y);
                let rest = self.b.ins().isub(x, product);
                match is_zero {
                    Some(is_zero) => {
                        let none = self.int_of(ty, 0);
                        self.b.ins().select(is_zero, none, rest)
                    }
                    None => rest,
                }
            }
            BinaryOp::Pow(_) if is_float => self.float_helper("pow", ty, &[x, y]),
            BinaryOp::Pow(zero) => self.int_pow(ty, zero, x, y),
            BinaryOp::PowInt => self.float_pow_int(ty, x, y),
            BinaryOp::Gcd | BinaryOp::Lcm => {
                let name = match (op, ty.is_signed()) {
                    (BinaryOp::Gcd, true) => "gcd_i64",
                    (BinaryOp::Gcd, false) => "gcd_u64",
                    (_, true) => "lcm_i64",
                    (_, false) => "lcm_u64",
                };
                let args = [self.extend(ty, x), self.extend(ty, y)];
                let result = self.helper(name, &args, &[types::I64])[0];
                let is_wide = clif(ty).bits() == 64;
                if is_wide { result } else { self.b.ins().ireduce(clif(ty), result) }
            }
            BinaryOp::Shl => self.b.ins().ishl(x, y),
            BinaryOp::Shr if ty.is_signed() => self.b.ins().sshr(x, y),
            BinaryOp::Shr => self.b.ins().ushr(x, y),
            BinaryOp::And => self.b.ins().band(x, y),
            BinaryOp::Or => self.b.ins().bor(x, y),
            BinaryOp::Xor => self.b.ins().bxor(x, y),
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => self.compare(op, ty, x, y),
            BinaryOp::Min => {
                let less = self.compare(BinaryOp::Lt, ty, y, x);
                self.b.ins().select(less, y, x)
            }
            BinaryOp::Max => {
                let greater = self.compare(BinaryOp::Gt, ty, y, x);
                self.b.ins().select(greater, y, x)
            }
            BinaryOp::Minimum | BinaryOp::Fmin => {
                self.extreme(ty, BinaryOp::Le, op == BinaryOp::Minimum, x, y)
            }
            BinaryOp::Maximum | BinaryOp::Fmax => {
                self.extreme(ty, BinaryOp::Ge, op == BinaryOp::Maximum, x, y)
            }
        }]
    }

    pub(super) fn compare(&mut self, op: BinaryOp, ty: Scalar, x: Value, y: Value) -> Value {
        if ty.is_float() {
            self.b.ins().fcmp(float_condition(op), x, y)
        } else {
            self.b.ins().icmp(int_condition(op, ty.is_signed()), x, y)
        }
    }

    /// NumPy's minimum and maximum: not-a-number wins (the first of two) or loses; of equals the first is taken.
    fn extreme(&mut self, ty: Scalar, keep: BinaryOp, nan_wins: bool, x: Value, y: Value) -> Value {
        let first = self.compare(keep, ty, x, y);
        if !ty.is_float() {
            return self.b.ins().select(first, x, y);
        }
        // Where the comparison fails for the sake of the other one alone, the second is what is wanted.
        let judge = if nan_wins { x } else { y };
        let is_nan = self.b.ins().fcmp(FloatCC::Unordered, judge, judge);
        let first = self.b.ins().bor(first, is_nan);
        self.b.ins().select(first, x, y)
    }

    // Division.

    fn check_float_zero(&mut self, ty: Scalar, on_zero: OnZero, divisor: Value, text: &str) {
        if on_zero == OnZero::Raise {
            let zero = self.float_of(ty, 0.0);
            let is_zero = self.b.ins().fcmp(FloatCC::Equal, divisor, zero);
            self.raise_if(is_zero, "ZeroDivisionError", text);
        }
    }

    /// Quotient and remainder of two numbers of one type.
    pub(super) fn div_mod(
        &mut self,
        ty: Scalar,
        on_zero: OnZero,
        x: Value,
        y: Value,
        divisor: Option<i64>,
    ) -> Lanes {
        if ty.is_float() {
            self.check_float_zero(ty, on_zero, y, "modulo by zero");
            let quotient = if on_zero == OnZero::Ufunc {
                let quotient = self.b.ins().fdiv(x, y);
                self.b.ins().floor(quotient)
            } else {
                self.float_helper("floor_div", ty, &[x, y])
            };
            return vec![quotient, self.float_helper("modulo", ty, &[x, y])];
        }
        let (quotient, rest) = self.int_division(ty, on_zero, x, y, divisor, Division::Both);
        vec![quotient, rest]
    }

    /// Quotient rounded down, and remainder with the divisor's sign.
    fn int_division(
        &mut self,
        ty: Scalar,
        on_zero: OnZero,
        x: Value,
        y: Value,
        divisor: Option<i64>,
        wanted: Division,
    ) -> (Value, Value) {
        if let Some(known) = divisor
            && known > 0
            && known.count_ones() == 1
        {
            let shift = i64::from(known.trailing_zeros());
            let quotient = if ty.is_signed() {
                self.b.ins().sshr_imm_u(x, shift)
            } else {
                self.b.ins().ushr_imm_u(x, shift)
            };
            return (quotient, self.b.ins().band_imm_s(x, known - 1));
        }
        let (quotient, is_zero) = self.truncated(ty, on_zero, x, y, divisor, wanted);
        let product = self.b.ins().imul(quotient, y);
        let rest = self.b.ins().isub(x, product);
        let (quotient, rest) = if !ty.is_signed() {
            (quotient, rest)
        } else if divisor.is_some_and(|known| known > 0) {
            let sign = i64::from(clif(ty).bits() - 1);
            let below = self.b.ins().sshr_imm_u(rest, sign);
            let back = self.b.ins().band(below, y);
            (self.b.ins().iadd(quotient, below), self.b.ins().iadd(rest, back))
        } else {
            let signs = self.b.ins().bxor(rest, y);
            let differ = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, signs, 0);
            let is_some = self.b.ins().icmp_imm_s(IntCC::NotEqual, rest, 0);
            let adjust = self.b.ins().band(differ, is_some);
            let less = self.b.ins().iadd_imm_s(quotient, -1);
            let more = self.b.ins().iadd(rest, y);
            (self.b.ins().select(adjust, less, quotient), self.b.ins().select(adjust, more, rest))
        };
        match is_zero {
            Some(is_zero) => {
                let none = self.int_of(ty, 0);
                (
                    self.b.ins().select(is_zero, none, quotient),
                    self.b.ins().select(is_zero, none, rest),
                )
            }
            None => (quotient, rest),
        }
    }

    /// The quotient rounded towards zero, and whether the divisor is zero if that is not an error. Where the smallest
    /// integer is divided by -1, the quotient is 0 and so is the dividend that a remainder is computed of.
    fn truncated(
        &mut self,
        ty: Scalar,
        on_zero: OnZero,
        x: Value,
        y: Value,
        divisor: Option<i64>,
        wanted: Division,
    ) -> (Value, Option<Value>) {
        let is_known = divisor.is_some_and(|known| known != 0);
        let mut is_zero = None;
        let mut by = y;
        if !is_known {
            let zero = self.b.ins().icmp_imm_s(IntCC::Equal, y, 0);
            if on_zero == OnZero::Raise {
                let text = match wanted {
                    Division::Quotient => "integer division by zero",
                    Division::Remainder => "integer modulo by zero",
                    Division::Both => "integer divmod by zero",
                };
                self.raise_if(zero, "ZeroDivisionError", text);
            } else {
                let one = self.int_of(ty, 1);
                by = self.b.ins().select(zero, one, y);
                is_zero = Some(zero);
            }
        }
        if !ty.is_signed() {
            return (self.b.ins().udiv(x, by), is_zero);
        }
        if is_known && divisor != Some(-1) {
            return (self.b.ins().sdiv(x, by), is_zero);
        }
        let least = self.int_of(ty, 1 << (clif(ty).bits() - 1));
        let is_least = self.b.ins().icmp(IntCC::Equal, x, least);
        let is_minus = self.b.ins().icmp_imm_s(IntCC::Equal, by, -1);
        let overflows = self.b.ins().band(is_least, is_minus);
        // The quotient of 0 by 1; the remainder of the smallest by -1 is then itself, so it is told apart too.
        let one = self.int_of(ty, 1);
        let safe = self.b.ins().select(overflows, one, by);
        let quotient = self.b.ins().sdiv(x, safe);
        let none = self.int_of(ty, 0);
        let quotient = self.b.ins().select(overflows, none, quotient);
        let is_zero = match is_zero {
            Some(is_zero) => self.b.ins().bor(is_zero, overflows),
            None => overflows,
        };
        (quotient, Some(is_zero))
    }

    // Powers.

    /// A power with a constant exponent, by the multiplications that Numba unrolls.
    pub(super) fn pow_const(
        &mut self,
        ty: Scalar,
        on_zero: OnZero,
        lanes: &[Value],
        exponent: i64,
    ) -> Lanes {
        let one = match ty {
            Scalar::C128 => vec![self.b.ins().f64const(1.0), self.b.ins().f64const(0.0)],
            _ if ty.is_float() => vec![self.float_of(ty, 1.0)],
            _ => vec![self.int_of(ty, 1)],
        };
        let mut result: Option<Lanes> = None;
        let mut square = lanes.to_vec();
        let mut left = exponent.unsigned_abs();
        while left != 0 {
            if left & 1 == 1 {
                result = Some(match result {
                    Some(result) => self.binary(BinaryOp::Mul, ty, &result, &square, None),
                    None => square.clone(),
                });
            }
            left >>= 1;
            if left != 0 {
                square = self.binary(BinaryOp::Mul, ty, &square, &square, None);
            }
        }
        let result = result.unwrap_or_else(|| one.clone());
        if exponent >= 0 {
            return result;
        }
        if ty.is_float() || ty == Scalar::C128 {
            return self.binary(BinaryOp::TrueDiv(on_zero), ty, &one, &result, None);
        }
        vec![self.inverse(ty, on_zero, result[0])]
    }

    /// One divided by an integer, rounded towards zero.
    fn inverse(&mut self, ty: Scalar, on_zero: OnZero, x: Value) -> Value {
        let is_zero = self.b.ins().icmp_imm_s(IntCC::Equal, x, 0);
        if on_zero == OnZero::Raise {
            let text = "0 cannot be raised to a negative power";
            self.raise_if(is_zero, "ZeroDivisionError", text);
        }
        let (none, one) = (self.int_of(ty, 0), self.int_of(ty, 1));
        let least = self.int_of(ty, 1 << (clif(ty).bits() - 1));
        let is_one = self.b.ins().icmp(IntCC::Equal, x, one);
        let mut keeps = is_one;
        if ty.is_signed() {
            let is_minus = self.b.ins().icmp_imm_s(IntCC::Equal, x, -1);
            keeps = self.b.ins().bor(is_one, is_minus);
        }
        let result = self.b.ins().select(keeps, x, none);
        self.b.ins().select(is_zero, least, result)
    }

    /// A power of two integers. Narrow ones are computed in 64 bits, which wraps to the same.
    fn int_pow(&mut self, ty: Scalar, on_zero: OnZero, x: Value, y: Value) -> Value {
        let (base, exponent) = (self.extend(ty, x), self.extend(ty, y));
        let slot = self.slot(1);
        let address = self.slot_address(slot);
        let raises = self.int(i64::from(on_zero == OnZero::Raise));
        let name = if ty.is_signed() { "pow_i64" } else { "pow_u64" };
        let context = self.context;
        let args = [context, base, exponent, raises, address];
        let status = self.helper(name, &args, &[types::I64])[0];
        self.check(status);
        let result = self.load_word(address, 0);
        if clif(ty).bits() < 64 { self.b.ins().ireduce(clif(ty), result) } else { result }
    }

    fn float_pow_int(&mut self, ty: Scalar, x: Value, exponent: Value) -> Value {
        let slot = self.slot(1);
        let address = self.slot_address(slot);
        let name = if ty == Scalar::F32 { "pow_int_f32" } else { "pow_int_f64" };
        let context = self.context;
        let status = self.helper(name, &[context, x, exponent, address], &[types::I64])[0];
        self.check(status);
        self.b.ins().load(clif(ty), super::r#gen::lane_memory(), address, 0)
    }

    // Functions.

    /// A helper that exists for both widths of floats.
    fn float_helper(&mut self, name: &str, ty: Scalar, args: &[Value]) -> Value {
        let suffix = if ty == Scalar::F32 { "f32" } else { "f64" };
        self.helper(&format!("{name}_{suffix}"), args, &[clif(ty)])[0]
    }

    pub(super) fn math(&mut self, function: MathFn, ty: Scalar, args: &[Lanes]) -> Lanes {
        if ty == Scalar::C128 {
            return self.complex_math(function, &args[0]);
        }
        let x = args[0][0];
        vec![match function {
            MathFn::Sqrt => self.b.ins().sqrt(x),
            MathFn::Floor => self.b.ins().floor(x),
            MathFn::Ceil => self.b.ins().ceil(x),
            MathFn::Trunc => self.b.ins().trunc(x),
            MathFn::Rint => self.b.ins().nearest(x),
            MathFn::CopySign => self.b.ins().fcopysign(x, args[1][0]),
            _ => {
                let args: Vec<Value> = args.iter().map(|arg| arg[0]).collect();
                self.float_helper(math_name(function), ty, &args)
            }
        }]
    }
}

/// The name of a function's helper, without its width.
pub(super) fn math_name(function: MathFn) -> &'static str {
    match function {
        MathFn::Sqrt => "sqrt",
        MathFn::Cbrt => "cbrt",
        MathFn::Exp => "exp",
        MathFn::Exp2 => "exp2",
        MathFn::Expm1 => "expm1",
        MathFn::Log => "log",
        MathFn::Log2 => "log2",
        MathFn::Log10 => "log10",
        MathFn::Log1p => "log1p",
        MathFn::Sin => "sin",
        MathFn::Cos => "cos",
        MathFn::Tan => "tan",
        MathFn::Asin => "asin",
        MathFn::Acos => "acos",
        MathFn::Atan => "atan",
        MathFn::Atan2 => "atan2",
        MathFn::Sinh => "sinh",
        MathFn::Cosh => "cosh",
        MathFn::Tanh => "tanh",
        MathFn::Asinh => "asinh",
        MathFn::Acosh => "acosh",
        MathFn::Atanh => "atanh",
        MathFn::Hypot => "hypot",
        MathFn::Floor => "floor",
        MathFn::Ceil => "ceil",
        MathFn::Trunc => "trunc",
        MathFn::Rint => "rint",
        MathFn::Gamma => "gamma",
        MathFn::Lgamma => "lgamma",
        MathFn::Erf => "erf",
        MathFn::Erfc => "erfc",
        MathFn::CopySign => "copysign",
        MathFn::NextAfter => "nextafter",
        MathFn::LogAddExp => "logaddexp",
        MathFn::Ldexp => "ldexp",
        MathFn::FrexpFraction => "frexp_fraction",
        MathFn::FrexpExponent => "frexp_exponent",
        MathFn::RoundDigits => "round_digits",
    }
}
