//! The functions of `math`.

use super::val::{Val, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{self, BinaryOp as Op, Expr, ExprKind, MathFn, UnaryOp as Un};
use crate::kernel::rules;
use crate::kernel::syntax::BinaryOp;
use crate::kernel::types::{IntTy, Literal, Ty};

impl Walker<'_> {
    pub(super) fn math_function(&mut self, name: &str, args: &[Val]) -> Res<Option<Val>> {
        let mut types = Vec::new();
        let mut exprs = Vec::new();
        for arg in args {
            match arg {
                Val::Run { ty, expr, .. } if ty.is_number() && *ty != Ty::Complex128 => {
                    types.push(ty.clone());
                    exprs.push(expr.clone());
                }
                _ => return Ok(None),
            }
        }
        let float = if !types.is_empty() && types.iter().all(|ty| *ty == Ty::Float32) {
            Ty::Float32
        } else {
            Ty::Float64
        };
        let ir = ir_type(&float);
        let floats = |exprs: &[Expr]| -> Vec<Expr> {
            exprs.iter().map(|expr| expr.clone().cast(ir.clone())).collect()
        };
        let function = |function: MathFn, exprs: &[Expr]| {
            Some(Val::run(
                float.clone(),
                Expr::new(ExprKind::Math(function, floats(exprs)), ir.clone()),
            ))
        };
        let unary = |op: Un, exprs: &[Expr]| Expr::unary(op, floats(exprs).remove(0));
        if let Some(found) = math_named(name)
            && exprs.len() == math_arity(found)
        {
            if matches!(found, MathFn::Floor | MathFn::Ceil | MathFn::Trunc) {
                if let Ty::Int(IntTy { signed: false, .. }) = types[0] {
                    return Ok(Some(Val::run(Ty::U64, exprs.remove(0).cast(ir_type(&Ty::U64)))));
                }
                if !types[0].is_float() {
                    return Ok(Some(Val::run(Ty::I64, exprs.remove(0).cast(ir::Type::I64))));
                }
                let value = Expr::new(ExprKind::Math(found, floats(&exprs)), ir);
                return Ok(Some(Val::run(Ty::I64, value.cast(ir::Type::I64))));
            }
            return Ok(function(found, &exprs));
        }
        Ok(match (name, exprs.len()) {
            ("fabs", 1) => Some(Val::run(float.clone(), unary(Un::Abs, &exprs))),
            ("isnan", 1) if !types[0].is_float() => Some(Val::literal(&Literal::Bool(false))),
            ("isinf", 1) if !types[0].is_float() => Some(Val::literal(&Literal::Bool(false))),
            ("isfinite", 1) if !types[0].is_float() => Some(Val::literal(&Literal::Bool(true))),
            ("isnan", 1) => Some(Val::run(Ty::Bool, unary(Un::IsNan, &exprs))),
            ("isinf", 1) => Some(Val::run(Ty::Bool, unary(Un::IsInf, &exprs))),
            ("isfinite", 1) => Some(Val::run(Ty::Bool, unary(Un::IsFinite, &exprs))),
            ("degrees" | "radians", 1) => {
                let factor = if name == "degrees" {
                    180.0 / std::f64::consts::PI
                } else {
                    std::f64::consts::PI / 180.0
                };
                let factor = Expr::float(factor).cast(ir.clone());
                Some(Val::run(
                    float.clone(),
                    Expr::binary(Op::Mul, floats(&exprs).remove(0), factor),
                ))
            }
            ("pow", 2) if types[0].is_float() && types[1].is_int() => {
                let base = exprs[0].clone();
                let ty = types[0].clone();
                let power = exprs[1].clone().cast(ir::Type::I64);
                let ir = ir_type(&ty);
                Some(Val::run(
                    ty,
                    Expr::new(ExprKind::Binary(Op::PowInt, Box::new(base), Box::new(power)), ir),
                ))
            }
            ("pow" | "fmod", 2) => {
                let op = if name == "pow" { Op::Pow } else { Op::Fmod };
                let mut floats = floats(&exprs);
                let b = floats.remove(1);
                Some(Val::run(
                    float.clone(),
                    Expr::binary(op(ir::OnZero::Value), floats.remove(0), b),
                ))
            }
            ("log", 2) => {
                let mut floats = floats(&exprs);
                let b = floats.remove(1);
                let log = |x: Expr| Expr::new(ExprKind::Math(MathFn::Log, vec![x]), ir.clone());
                let zero = ir::OnZero::Value;
                Some(Val::run(
                    float.clone(),
                    Expr::binary(Op::TrueDiv(zero), log(floats.remove(0)), log(b)),
                ))
            }
            ("ldexp", 2) => {
                let ty = if types[0] == Ty::Float32 { Ty::Float32 } else { Ty::Float64 };
                let ir = ir_type(&ty);
                let args = exprs.into_iter().map(|expr| expr.cast(ir.clone())).collect();
                Some(Val::run(ty, Expr::new(ExprKind::Math(MathFn::Ldexp, args), ir)))
            }
            ("frexp", 1) => Some(self.with_stmts(|walker| {
                let x = walker.bind_expr(floats(&exprs).remove(0));
                let fraction =
                    Expr::new(ExprKind::Math(MathFn::FrexpFraction, vec![x.clone()]), ir.clone());
                let exponent =
                    Expr::new(ExprKind::Math(MathFn::FrexpExponent, vec![x]), ir.clone());
                let exponent = exponent.cast(ir_type(&Ty::I32));
                Ok(Val::Tuple(vec![Val::run(float.clone(), fraction), Val::run(Ty::I32, exponent)]))
            })?),
            ("modf", 1) => {
                Some(self.prelude("modf", vec![Val::run(float.clone(), floats(&exprs).remove(0))])?)
            }
            ("gcd", 2) if types.iter().all(Ty::is_int) => {
                let Some(rule) = rules::binary(BinaryOp::Add, &types[0], &types[1]) else {
                    return Ok(None);
                };
                let ir = ir_type(&rule.result);
                let b = exprs.remove(1).cast(ir.clone());
                let a = exprs.remove(0).cast(ir);
                Some(Val::run(rule.result, Expr::binary(Op::Gcd, a, b)))
            }
            ("isclose", 2) => {
                let args =
                    floats(&exprs).into_iter().map(|expr| Val::run(float.clone(), expr)).collect();
                Some(self.prelude("math_isclose", args)?)
            }
            _ => None,
        })
    }
}

/// The function that `math` calls so, of those that map floats to a float.
pub(super) fn math_named(name: &str) -> Option<MathFn> {
    use MathFn as M;
    Some(match name {
        "sqrt" => M::Sqrt,
        "cbrt" => M::Cbrt,
        "exp" => M::Exp,
        "exp2" => M::Exp2,
        "expm1" => M::Expm1,
        "log" => M::Log,
        "log2" => M::Log2,
        "log10" => M::Log10,
        "log1p" => M::Log1p,
        "sin" => M::Sin,
        "cos" => M::Cos,
        "tan" => M::Tan,
        "asin" | "arcsin" => M::Asin,
        "acos" | "arccos" => M::Acos,
        "atan" | "arctan" => M::Atan,
        "atan2" | "arctan2" => M::Atan2,
        "sinh" => M::Sinh,
        "cosh" => M::Cosh,
        "tanh" => M::Tanh,
        "asinh" | "arcsinh" => M::Asinh,
        "acosh" | "arccosh" => M::Acosh,
        "atanh" | "arctanh" => M::Atanh,
        "hypot" => M::Hypot,
        "floor" => M::Floor,
        "ceil" => M::Ceil,
        "trunc" => M::Trunc,
        "rint" => M::Rint,
        "gamma" => M::Gamma,
        "lgamma" => M::Lgamma,
        "erf" => M::Erf,
        "erfc" => M::Erfc,
        "copysign" => M::CopySign,
        "nextafter" => M::NextAfter,
        "logaddexp" => M::LogAddExp,
        _ => return None,
    })
}

fn math_arity(function: MathFn) -> usize {
    use MathFn as M;
    match function {
        M::Atan2 | M::Hypot | M::CopySign | M::NextAfter | M::LogAddExp => 2,
        _ => 1,
    }
}
