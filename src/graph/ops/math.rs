//! Exponential functions and their kin as arithmetic, for scalars and vectors alike.
//!
//! ```text
//!   x = n ln 2 + r ──► eʳ - 1 = q(r), a Taylor polynomial ──► eˣ = (1 + q) 2ⁿ
//!   x = m 2ᵉ       ──► ln m = 2 artanh((m - 1) / (m + 1))  ──► ln x = ln m + e ln 2
//! ```
//!
//! Polynomials of tanh and erf were fitted to the least relative error in the range that they are used in, by Lawson's
//! iteration. What is not here is the C library's, for scalars alone: double precision but for the exponential.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};

use super::arithmetic::{Math, constant};
use crate::graph::node::Scalar;
use crate::graph::tensor::ElementType;

/// What is known of a floating-point format.
struct Format {
    /// Added to a small number, and taken away again, it rounds to an integer, which is in the low bits meanwhile.
    magic: f64,
    magic_bits: i64,
    /// How far left the exponent stands.
    exponent_shift: i64,
    bias: i64,
    /// ln 2 in two parts, of which products of the first with small integers are exact.
    ln2: (f64, f64),
    /// From here on eˣ is infinite, and 0.
    range: (f64, f64),
    /// How many terms of the series make it exact enough for |r| ≤ ln 2 / 2.
    terms: u32,
}

const SINGLE: Format = Format {
    magic: 12_582_912.0,
    magic_bits: 0x4B40_0000,
    exponent_shift: 23,
    bias: 127,
    ln2: (0.693_359_375, -2.121_944_400_546_905_8e-4),
    range: (89.0, -104.0),
    terms: 7,
};

const DOUBLE: Format = Format {
    magic: 6_755_399_441_055_744.0,
    magic_bits: 0x4338_0000_0000_0000,
    exponent_shift: 52,
    bias: 1023,
    ln2: (6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10),
    range: (710.0, -746.0),
    terms: 13,
};

/// (tanh x - x) / x³ in x², for |x| below 0.625.
const TANH: [f64; 5] = [
    -0.333_332_839_235_908_1,
    0.133_314_912_485_157_6,
    -0.053_743_495_261_417_966,
    0.020_650_579_003_733_53,
    -0.005_717_036_561_273_047,
];

/// erf x / x in x², for |x| below 1.
const ERF: [f64; 8] = [
    1.128_379_167_058_022_5,
    -0.376_126_384_346_502_8,
    0.112_837_819_740_961_73,
    -0.026_865_400_041_626_873,
    0.005_220_945_431_406_151,
    -0.000_848_282_882_515_184,
    0.000_112_569_477_649_008_11,
    -0.000_009_641_515_675_660_962,
];

/// -ln(1 - erf x), for x from 1 to 4.
const ERFC: [f64; 8] = [
    -0.000_188_467_783_903_947_3,
    1.129_580_311_888_611,
    0.633_216_394_968_314_6,
    0.108_422_102_648_866_22,
    -0.025_210_342_293_795_762,
    0.004_205_285_893_765_514,
    -0.000_441_472_916_001_155_34,
    0.000_021_697_638_967_624_05,
];

impl Math<'_, '_> {
    fn format(&self) -> Format {
        match self.element {
            ElementType::F32 => SINGLE,
            _ => DOUBLE,
        }
    }

    fn is_single(&self) -> bool {
        self.element == ElementType::F32
    }

    fn bits_type(&self) -> Type {
        let lane = if self.is_single() { I32 } else { I64 };
        if self.lanes == 1 { lane } else { lane.by(self.lanes).expect("a vector has 128 bits") }
    }

    fn bits(&mut self, x: Value) -> Value {
        let ty = self.bits_type();
        self.reinterpret(ty, x)
    }

    fn number_of(&mut self, x: Value) -> Value {
        let ty = self.ty();
        self.reinterpret(ty, x)
    }

    fn reinterpret(&mut self, ty: Type, x: Value) -> Value {
        let flags = MemFlagsData::new();
        let flags = match self.lanes {
            1 => flags,
            _ => flags.with_endianness(Endianness::Little),
        };
        self.ins().bitcast(ty, flags, x)
    }

    /// A number of the width of the elements.
    fn word(&mut self, value: i64) -> Value {
        let element = if self.is_single() { ElementType::I32 } else { ElementType::I64 };
        constant(self.emitter, &Scalar { element, bits: value as u64 }, self.lanes)
    }

    /// `a + b c`.
    fn add_product(&mut self, a: Value, b: Value, c: Value) -> Value {
        let product = self.mul(b, c);
        self.add(a, product)
    }

    /// The polynomial of these coefficients, the first that of 1.
    fn polynomial(&mut self, coefficients: &[f64], x: Value) -> Value {
        let (last, rest) = coefficients.split_last().expect("it has a coefficient");
        let mut value = self.number(*last);
        for coefficient in rest.iter().rev() {
            let coefficient = self.number(*coefficient);
            value = self.add_product(coefficient, value, x);
        }
        value
    }

    /// 2 to the power of an integer to which the magic number was added.
    fn power_of_two(&mut self, magic: Value) -> Value {
        let format = self.format();
        let bits = self.bits(magic);
        let exponent = self.word(format.bias.wrapping_sub(format.magic_bits));
        let exponent = self.ins().iadd(bits, exponent);
        let bits = self.ins().ishl_imm_u(exponent, format.exponent_shift);
        self.number_of(bits)
    }

    /// eˣ is (1 + q) a b. Two powers of two, since one alone may not have the range.
    fn exp_parts(&mut self, x: Value) -> (Value, Value, Value) {
        let format = self.format();
        let (scale, magic) = (self.number(std::f64::consts::LOG2_E), self.number(format.magic));
        let rounded = self.add_product(magic, x, scale);
        let n = self.sub(rounded, magic);
        let (high, low) = (self.number(-format.ln2.0), self.number(-format.ln2.1));
        let r = self.add_product(x, n, high);
        let r = self.add_product(r, n, low);
        let mut factorial = 1.0;
        let series: Vec<f64> = (2..=format.terms)
            .map(|k| {
                factorial *= f64::from(k);
                1.0 / factorial
            })
            .collect();
        let tail = self.polynomial(&series, r);
        let square = self.mul(r, r);
        let q = self.add_product(r, square, tail);
        let half = self.number(0.5);
        let half = self.add_product(magic, n, half);
        let floor = self.sub(half, magic);
        let rest = self.sub(n, floor);
        let rest = self.add(rest, magic);
        (q, self.power_of_two(half), self.power_of_two(rest))
    }

    /// eˣ.
    pub(super) fn exp(&mut self, x: Value) -> Value {
        let (q, a, b) = self.exp_parts(x);
        let (one, zero) = (self.number(1.0), self.zero());
        let value = self.add(one, q);
        let value = self.mul(value, a);
        let value = self.mul(value, b);
        let (most, least) = self.format().range;
        let (most, least) = (self.number(most), self.number(least));
        let (above, below) = (self.greater(x, most), self.less(x, least));
        let infinity = self.number(f64::INFINITY);
        let value = self.choose(above, infinity, value);
        self.choose(below, zero, value)
    }

    /// eˣ - 1 of an x that is not above 0.
    pub(super) fn exp_less_one(&mut self, x: Value) -> Value {
        let (q, a, b) = self.exp_parts(x);
        let one = self.number(1.0);
        let scale = self.mul(a, b);
        let rest = self.sub(scale, one);
        let value = self.add_product(rest, scale, q);
        let least = self.format().range.1;
        let least = self.number(least);
        let below = self.less(x, least);
        let minus = self.number(-1.0);
        self.choose(below, minus, value)
    }

    /// The natural logarithm.
    pub(super) fn log(&mut self, x: Value) -> Value {
        if !self.is_single() {
            return self.libm("log", x);
        }
        // Numbers that are not normal have too few digits; they are made larger first.
        let (normal, scale) =
            (self.number(f64::from(f32::MIN_POSITIVE)), self.number(33_554_432.0));
        let tiny = self.less(x, normal);
        let scaled = self.mul(x, scale);
        let number = self.choose(tiny, scaled, x);
        let bits = self.bits(number);
        // Between √½ and √2.
        let root = self.word(0x3F35_04F3);
        let above = self.ins().isub(bits, root);
        let exponent = self.ins().sshr_imm_u(above, 23);
        let shifted = self.ins().ishl_imm_u(exponent, 23);
        let mantissa = self.ins().isub(bits, shifted);
        let m = self.number_of(mantissa);
        let ty = self.ty();
        let exponent = self.ins().fcvt_from_sint(ty, exponent);
        let (back, zero) = (self.number(-25.0), self.zero());
        let back = self.choose(tiny, back, zero);
        let exponent = self.add(exponent, back);

        let one = self.number(1.0);
        let (less, more) = (self.sub(m, one), self.add(m, one));
        let s = self.div(less, more);
        let square = self.mul(s, s);
        let series = self.polynomial(&[2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0], square);
        let cube = self.mul(s, square);
        let two = self.number(2.0);
        let twice = self.mul(two, s);
        let value = self.add_product(twice, cube, series);
        let (high, low) = (self.number(SINGLE.ln2.0), self.number(SINGLE.ln2.1));
        let value = self.add_product(value, exponent, low);
        let value = self.add_product(value, exponent, high);

        let infinity = self.number(f64::INFINITY);
        let finite = self.less(x, infinity);
        let value = self.choose(finite, value, x);
        let least = self.number(f64::NEG_INFINITY);
        let none = self.compare(FloatCC::Equal, IntCC::Equal, x, zero);
        let value = self.choose(none, least, value);
        let nan = self.number(f64::NAN);
        let negative = self.less(x, zero);
        self.choose(negative, nan, value)
    }

    /// ln(1 + x) of an x from 0 to 1.
    pub(super) fn log_one_more(&mut self, x: Value) -> Value {
        if !self.is_single() {
            return self.libm("log1p", x);
        }
        // What the sum loses of x, the quotient brings back.
        let one = self.number(1.0);
        let sum = self.add(one, x);
        let kept = self.sub(sum, one);
        let log = self.log(sum);
        let ratio = self.div(x, kept);
        let value = self.mul(log, ratio);
        let lost = self.compare(FloatCC::Equal, IntCC::Equal, sum, one);
        self.choose(lost, x, value)
    }

    /// With the sign of another.
    fn signed_as(&mut self, size: Value, x: Value) -> Value {
        let sign = self.word(if self.is_single() { i64::from(i32::MIN) } else { i64::MIN });
        let (bits, other) = (self.bits(size), self.bits(x));
        let sign = self.ins().band(other, sign);
        let bits = self.ins().bor(bits, sign);
        self.number_of(bits)
    }

    /// The hyperbolic tangent.
    pub(super) fn tanh(&mut self, x: Value) -> Value {
        if !self.is_single() {
            return self.libm("tanh", x);
        }
        let size = self.abs(x);
        let square = self.mul(size, size);
        let series = self.polynomial(&TANH, square);
        let cube = self.mul(size, square);
        let small = self.add_product(size, cube, series);
        // 1 - 2 / (e²ˣ + 1)
        let twice = self.add(size, size);
        let grown = self.exp(twice);
        let (one, minus) = (self.number(1.0), self.number(-2.0));
        let below = self.add(grown, one);
        let part = self.div(minus, below);
        let large = self.add(one, part);
        let limit = self.number(0.625);
        let is_small = self.less(size, limit);
        let value = self.choose(is_small, small, large);
        self.signed_as(value, x)
    }

    /// The error function.
    pub(super) fn erf(&mut self, x: Value) -> Value {
        if !self.is_single() {
            return self.libm("erf", x);
        }
        let size = self.abs(x);
        let square = self.mul(size, size);
        let series = self.polynomial(&ERF, square);
        let small = self.mul(size, series);
        // From 4 on it is 1 in single precision.
        let (one, four) = (self.number(1.0), self.number(4.0));
        let out = self.greater(size, four);
        let capped = self.choose(out, four, size);
        let log = self.polynomial(&ERFC, capped);
        let turned = self.neg(log);
        let rest = self.exp(turned);
        let large = self.sub(one, rest);
        let is_small = self.less(size, one);
        let value = self.choose(is_small, small, large);
        self.signed_as(value, x)
    }

    /// tanh(ln(1 + eˣ)) = w (w + 2) / (w (w + 2) + 2), where w = eˣ.
    pub(super) fn tanh_softplus(&mut self, x: Value) -> Value {
        let (one, two, limit) = (self.number(1.0), self.number(2.0), self.number(20.0));
        let w = self.exp(x);
        let more = self.add(w, two);
        let above = self.mul(w, more);
        let below = self.add(above, two);
        let ratio = self.div(above, below);
        let large = self.greater(x, limit);
        self.choose(large, one, ratio)
    }
}
