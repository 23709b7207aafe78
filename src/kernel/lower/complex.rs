//! Arithmetic on complex numbers: two floats of 64 bits each.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::r#gen::{Gen, Lanes};
use super::scalar::math_name;
use crate::kernel::ir::{BinaryOp, MathFn, OnZero, UnaryOp};

impl Gen<'_, '_> {
    pub(super) fn complex_unary(&mut self, op: UnaryOp, z: &[Value]) -> Lanes {
        let (re, im) = (z[0], z[1]);
        match op {
            UnaryOp::Neg => vec![self.b.ins().fneg(re), self.b.ins().fneg(im)],
            UnaryOp::Conj => vec![re, self.b.ins().fneg(im)],
            UnaryOp::Real => vec![re],
            UnaryOp::Imag => vec![im],
            UnaryOp::Abs => self.helper("hypot_f64", &[re, im], &[types::F64]),
            UnaryOp::IsNan => vec![self.b.ins().fcmp(FloatCC::Unordered, re, im)],
            UnaryOp::IsInf | UnaryOp::IsFinite => {
                let infinite = self.b.ins().f64const(f64::INFINITY);
                let (re, im) = (self.b.ins().fabs(re), self.b.ins().fabs(im));
                if op == UnaryOp::IsInf {
                    let re = self.b.ins().fcmp(FloatCC::Equal, re, infinite);
                    let im = self.b.ins().fcmp(FloatCC::Equal, im, infinite);
                    return vec![self.b.ins().bor(re, im)];
                }
                let re = self.b.ins().fcmp(FloatCC::LessThan, re, infinite);
                let im = self.b.ins().fcmp(FloatCC::LessThan, im, infinite);
                vec![self.b.ins().band(re, im)]
            }
            UnaryOp::Invert | UnaryOp::Not | UnaryOp::Sign | UnaryOp::SignBit => {
                unreachable!("checked: not of complex numbers")
            }
        }
    }

    pub(super) fn complex_binary(&mut self, op: BinaryOp, x: &[Value], y: &[Value]) -> Lanes {
        let (a, b, c, d) = (x[0], x[1], y[0], y[1]);
        match op {
            BinaryOp::Add => vec![self.b.ins().fadd(a, c), self.b.ins().fadd(b, d)],
            BinaryOp::Sub => vec![self.b.ins().fsub(a, c), self.b.ins().fsub(b, d)],
            BinaryOp::Mul => {
                let (ac, bd) = (self.b.ins().fmul(a, c), self.b.ins().fmul(b, d));
                let (ad, bc) = (self.b.ins().fmul(a, d), self.b.ins().fmul(b, c));
                vec![self.b.ins().fsub(ac, bd), self.b.ins().fadd(ad, bc)]
            }
            BinaryOp::TrueDiv(on_zero) => {
                let zero = self.b.ins().f64const(0.0);
                if on_zero == OnZero::Raise {
                    let re = self.b.ins().fcmp(FloatCC::Equal, c, zero);
                    let im = self.b.ins().fcmp(FloatCC::Equal, d, zero);
                    let both = self.b.ins().band(re, im);
                    self.raise_if(both, "ZeroDivisionError", "complex division by zero");
                }
                let name =
                    if on_zero == OnZero::Ufunc { "complex_div_ufunc" } else { "complex_div" };
                self.complex_helper(name, &[a, b, c, d])
            }
            BinaryOp::Pow(_) => self.complex_helper("complex_pow", &[a, b, c, d]),
            BinaryOp::Eq | BinaryOp::Ne => {
                let (condition, joined) = match op {
                    BinaryOp::Eq => (FloatCC::Equal, true),
                    _ => (FloatCC::NotEqual, false),
                };
                let re = self.b.ins().fcmp(condition, a, c);
                let im = self.b.ins().fcmp(condition, b, d);
                vec![if joined { self.b.ins().band(re, im) } else { self.b.ins().bor(re, im) }]
            }
            _ => unreachable!("checked: not of complex numbers"),
        }
    }

    pub(super) fn complex_math(&mut self, function: MathFn, z: &[Value]) -> Lanes {
        self.complex_helper(&format!("complex_{}", math_name(function)), z)
    }

    /// Calls a helper that writes a complex number.
    fn complex_helper(&mut self, name: &str, args: &[Value]) -> Lanes {
        let slot = self.slot(2);
        let address = self.slot_address(slot);
        let mut all = args.to_vec();
        all.push(address);
        self.helper(name, &all, &[]);
        let flags = super::r#gen::lane_memory();
        let re = self.b.ins().load(types::F64, flags, address, 0);
        let im = self.b.ins().load(types::F64, flags, address, 8);
        vec![re, im]
    }
}
