//! Reductions over all elements, and the functions that choose, clip, round and multiply.

use super::expr::is_array;
use super::ops::{if_else, scalar_binary};
use super::val::{Val, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{
    self, BinaryOp as Op, Expr, ExprKind, Fold, FoldOp, MathFn, OnZero, UnaryOp as Un,
};
use crate::kernel::rules;
use crate::kernel::syntax::{BinaryOp, Span};
use crate::kernel::types::{IntTy, Ty};

impl Walker<'_> {
    pub(super) fn fold(
        &mut self,
        val: Val,
        op: FoldOp,
        ty: &Ty,
        empty: Option<ir::Raise>,
    ) -> Res<Val> {
        let ir = ir_type(ty);
        let target = ir.clone();
        let tree = self.tree(vec![val], |mut elements| elements.remove(0).cast(target))?;
        let fold = Fold { op, value: tree, empty };
        Ok(Val::run(ty.clone(), Expr::new(ExprKind::Fold(Box::new(fold)), ir)))
    }

    /// The mean, variance or standard deviation of all elements.
    pub(super) fn moments(&mut self, name: &str, val: Val, span: Span) -> Res<Val> {
        self.with_stmts(|walker| {
            let val = walker.bind(val);
            let Val::Run { ty: Ty::Array(array), expr, .. } = &val else { return Ok(val) };
            let ty = mean_type(&array.dtype);
            let size = Expr::new(ExprKind::Size(Box::new(expr.clone())), ir::Type::I64);
            let size = Val::run(Ty::I64, size);
            let total = walker.fold(val.clone(), FoldOp::Sum, &ty, None)?;
            let mean = walker.binary(BinaryOp::Div, total, size.clone(), span)?;
            if name == "mean" {
                return Ok(mean);
            }
            let mean = walker.bind(mean);
            let (mean_ty, mean) = walker.materialise(mean)?;
            let difference = rules::binary(BinaryOp::Sub, &array.dtype, &mean_ty);
            let Some(difference) = difference else {
                return walker.refuse_at(
                    span,
                    "this array has no variance",
                    "convert it to float64",
                );
            };
            let square = if difference.result == Ty::Float32 { Ty::Float32 } else { Ty::Float64 };
            let rule = difference.clone();
            let sum_ty = Ty::Float64;
            let tree = walker.tree(vec![val.clone()], |mut elements| {
                let x = elements.remove(0);
                let d = scalar_binary(BinaryOp::Sub, x, mean, None, &rule, OnZero::Value);
                let squared = if rule.result == Ty::Complex128 {
                    let (re, im) = (Expr::unary(Un::Real, d.clone()), Expr::unary(Un::Imag, d));
                    Expr::binary(
                        Op::Add,
                        Expr::binary(Op::Mul, re.clone(), re),
                        Expr::binary(Op::Mul, im.clone(), im),
                    )
                } else {
                    Expr::binary(Op::Mul, d.clone(), d)
                };
                squared.cast(ir_type(&square)).cast(ir::Type::F64)
            })?;
            let fold = Fold { op: FoldOp::Sum, value: tree, empty: None };
            let total = Val::run(sum_ty, Expr::new(ExprKind::Fold(Box::new(fold)), ir::Type::F64));
            let variance = walker.binary(BinaryOp::Div, total, size, span)?;
            if name == "var" {
                return Ok(variance);
            }
            let (_, variance) = walker.materialise(variance)?;
            Ok(Val::run(
                Ty::Float64,
                Expr::new(ExprKind::Math(MathFn::Sqrt, vec![variance]), ir::Type::F64),
            ))
        })
    }

    /// `np.where(condition, x, y)`.
    pub(super) fn choose(&mut self, condition: Val, x: Val, y: Val, span: Span) -> Res<Val> {
        let types = self.element_types(&[condition.clone(), x.clone(), y.clone()], span)?;
        let Some(dtype) = rules::promote(&types[1], &types[2]) else {
            return self.refuse_at(
                span,
                format!("{} and {} have no type in common", types[1], types[2]),
                "convert with astype(...)",
            );
        };
        let ir = ir_type(&dtype);
        let value = |mut elements: Vec<Expr>| {
            let y = elements.remove(2).cast(ir.clone());
            let x = elements.remove(1).cast(ir.clone());
            if_else(elements.remove(0).cast(ir::Type::BOOL), x, y)
        };
        if [&condition, &x, &y].into_iter().any(is_array) {
            return self.elementwise(vec![condition, x, y], &dtype, value);
        }
        let mut exprs = Vec::new();
        for val in [condition, x, y] {
            exprs.push(self.materialise(val)?.1);
        }
        Ok(Val::run(dtype, value(exprs)))
    }

    pub(super) fn clip(
        &mut self,
        val: Val,
        low: Option<Val>,
        high: Option<Val>,
        span: Span,
    ) -> Res<Option<Val>> {
        if !self.elementwise_operand(&val) {
            return Ok(None);
        }
        let mut vals = vec![val];
        vals.extend(low.clone());
        vals.extend(high.clone());
        let types = self.element_types(&vals, span)?;
        // Compared in the type that holds all, kept in the array's own.
        let dtype = types[0].clone();
        let mut wide = dtype.clone();
        for ty in &types[1..] {
            match rules::promote(&wide, ty) {
                Some(ty) => wide = ty,
                None => return Ok(None),
            }
        }
        let (ir, result) = (ir_type(&wide), ir_type(&dtype));
        let (has_low, has_high) = (low.is_some(), high.is_some());
        let value = |elements: Vec<Expr>| {
            let mut elements = elements.into_iter().map(|element| element.cast(ir.clone()));
            let mut value = elements.next().unwrap_or_else(|| Expr::int(0));
            if has_low && let Some(low) = elements.next() {
                value = Expr::binary(Op::Maximum, value, low);
            }
            if has_high && let Some(high) = elements.next() {
                value = Expr::binary(Op::Minimum, value, high);
            }
            value.cast(result.clone())
        };
        if vals.iter().any(is_array) {
            return self.elementwise(vals, &dtype, value).map(Some);
        }
        let mut exprs = Vec::new();
        for val in vals {
            exprs.push(self.materialise(val)?.1);
        }
        let value = value(exprs);
        Ok(Some(Val::run(dtype, value)))
    }

    pub(super) fn dot(&mut self, a: Val, b: Val, span: Span) -> Res<Option<Val>> {
        let (Val::Run { ty: Ty::Array(x), .. }, Val::Run { ty: Ty::Array(y), .. }) = (&a, &b)
        else {
            if self.elementwise_operand(&a) && self.elementwise_operand(&b) {
                return self.binary(BinaryOp::Mul, a, b, span).map(Some);
            }
            return Ok(None);
        };
        if x.dtype != y.dtype || !(x.dtype.is_float() || x.dtype == Ty::Complex128) {
            return self.refuse_at(
                span,
                format!(
                    "np.dot takes two arrays of one float or complex type, not {} and {}",
                    x.dtype, y.dtype
                ),
                "convert with astype(np.float64)",
            );
        }
        let name = match (x.ndim, y.ndim) {
            (1, 1) => {
                let dtype = x.dtype.clone();
                return self
                    .with_stmts(|walker| {
                        let (a, b) = (walker.bind(a), walker.bind(b));
                        let checked =
                            walker.prelude("check_lengths", vec![a.clone(), b.clone()])?;
                        walker.effect(checked);
                        let tree = walker.tree(vec![a, b], |mut elements| {
                            let y = elements.remove(1);
                            Expr::binary(Op::Mul, elements.remove(0), y)
                        })?;
                        let fold = Fold { op: FoldOp::Sum, value: tree, empty: None };
                        Ok(Val::run(
                            dtype.clone(),
                            Expr::new(ExprKind::Fold(Box::new(fold)), ir_type(&dtype)),
                        ))
                    })
                    .map(Some);
            }
            (2, 1) => "dot_mv",
            (1, 2) => "dot_vm",
            (2, 2) => "dot_mm",
            _ => {
                return self.refuse_at(
                    span,
                    "np.dot takes vectors and matrices",
                    "index the arrays down to two dimensions",
                );
            }
        };
        self.prelude(name, vec![a, b]).map(Some)
    }

    pub(super) fn round(&mut self, val: Val, decimals: Val, span: Span) -> Res<Option<Val>> {
        let types = self.element_types(std::slice::from_ref(&val), span)?;
        let ty = types[0].clone();
        if !ty.is_float() {
            return Ok(match ty {
                Ty::Int(_) => Some(val),
                _ => None,
            });
        }
        let ir = ir_type(&ty);
        let zero = decimals.known_int() == Some(0);
        let digits = self.index(decimals, span)?.cast(ir.clone());
        let value = |x: Expr| {
            if zero {
                Expr::new(ExprKind::Math(MathFn::Rint, vec![x]), ir.clone())
            } else {
                Expr::new(ExprKind::Math(MathFn::RoundDigits, vec![x, digits.clone()]), ir.clone())
            }
        };
        if is_array(&val) {
            return self
                .with_stmts(|walker| {
                    walker.elementwise(vec![val], &ty.clone(), |mut elements| {
                        value(elements.remove(0))
                    })
                })
                .map(Some);
        }
        let (_, expr) = self.materialise(val)?;
        Ok(Some(Val::run(ty, value(expr))))
    }

    /// A prelude function of two floats, on each pair of elements.
    pub(super) fn prelude_map(&mut self, name: &str, a: Val, b: Val, span: Span) -> Res<Val> {
        self.element_types(&[a.clone(), b.clone()], span)?;
        self.prelude(name, vec![a, b])
    }
}

/// The type in which Numba sums elements of a type.
pub(super) fn sum_type(ty: &Ty) -> Ty {
    match ty {
        Ty::Bool | Ty::Int(IntTy { signed: true, .. }) => Ty::I64,
        Ty::Int(_) => Ty::U64,
        other => other.clone(),
    }
}

/// The type in which Numba sums elements for their mean.
pub(super) fn mean_type(ty: &Ty) -> Ty {
    match ty {
        Ty::Bool | Ty::Int(_) => Ty::Float64,
        other => other.clone(),
    }
}
