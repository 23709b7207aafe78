//! What an array has: its attributes and methods, and the views and copies that they give.

use std::sync::Arc;

use super::params::Keywords;
use super::val::{Val, dtype_of, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{self, BinaryOp as Op, Expr, ExprKind};
use crate::kernel::syntax::Span;
use crate::kernel::types::{ArrayTy, Layout, Ty};

impl Walker<'_> {
    pub(super) fn array_attribute(
        &mut self,
        array: &ArrayTy,
        expr: Expr,
        name: &str,
    ) -> Res<Option<Val>> {
        let whole = Ty::Array(Arc::new(array.clone()));
        Ok(Some(match name {
            "shape" | "strides" => self.with_stmts(|walker| {
                let expr = walker.bind_expr(expr);
                let lengths = (0..u32::from(array.ndim)).map(|axis| {
                    let kind = match name {
                        "shape" => ExprKind::Length(Box::new(expr.clone()), axis),
                        _ => ExprKind::Stride(Box::new(expr.clone()), axis),
                    };
                    Val::run(Ty::I64, Expr::new(kind, ir::Type::I64))
                });
                Ok(Val::Tuple(lengths.collect()))
            })?,
            "ndim" => Val::int(i64::from(array.ndim)),
            "size" => Val::run(Ty::I64, Expr::new(ExprKind::Size(Box::new(expr)), ir::Type::I64)),
            "dtype" => Val::DType(array.dtype.clone()),
            "itemsize" => Val::int(array.dtype.item_size().unwrap_or(0) as i64),
            "nbytes" => {
                let size = Expr::new(ExprKind::Size(Box::new(expr)), ir::Type::I64);
                let item = Expr::int(array.dtype.item_size().unwrap_or(0) as i64);
                Val::run(Ty::I64, Expr::binary(Op::Mul, size, item))
            }
            "T" => {
                let axes = (0..u32::from(array.ndim)).rev().collect();
                self.transposed(array, expr, axes)
            }
            "real" if array.dtype == Ty::Complex128 => part(array, expr, Ty::Float64, 0),
            "imag" if array.dtype == Ty::Complex128 => part(array, expr, Ty::Float64, 8),
            "real" => Val::run(whole, expr),
            "flat" => self.flat(Val::run(whole, expr))?,
            _ => match &array.dtype {
                Ty::Record(record) => match record.field(name) {
                    Some(field) => part(array, expr, field.ty.clone(), field.offset),
                    None => return Ok(None),
                },
                _ => return Ok(None),
            },
        }))
    }

    /// The view with the axes in this order.
    pub(super) fn transposed(&mut self, array: &ArrayTy, expr: Expr, axes: Vec<u32>) -> Val {
        let order: Vec<u32> = (0..u32::from(array.ndim)).collect();
        if axes == order {
            return Val::run(Ty::Array(Arc::new(array.clone())), expr);
        }
        let reversed = axes.iter().rev().copied().eq(order);
        let layout = match array.layout {
            Layout::C if reversed => Layout::F,
            Layout::F if reversed => Layout::C,
            _ => Layout::A,
        };
        let ty = Ty::Array(Arc::new(ArrayTy { layout, ..array.clone() }));
        Val::run(ty.clone(), Expr::new(ExprKind::Transpose(Box::new(expr), axes), ir_type(&ty)))
    }

    /// All elements in C order, as one axis: a view if the array is dense so.
    pub(super) fn flat(&mut self, val: Val) -> Res<Val> {
        let Val::Run { ty: Ty::Array(array), expr, .. } = val else { return Ok(val) };
        if array.ndim == 1 {
            return Ok(Val::run(Ty::Array(array), expr));
        }
        let dense = if array.layout == Layout::C {
            expr
        } else {
            let ty = Ty::array(array.dtype.clone(), array.ndim, Layout::C);
            let tree = self
                .tree(vec![Val::run(Ty::Array(array.clone()), expr)], |mut elements| {
                    elements.remove(0)
                })?;
            Expr::new(ExprKind::Map(tree), ir_type(&ty))
        };
        let ty = Ty::Array(Arc::new(ArrayTy { ndim: 1, layout: Layout::C, ..(*array).clone() }));
        let kind = ExprKind::Reshape(Box::new(dense), vec![Expr::int(-1)]);
        Ok(Val::run(ty.clone(), Expr::new(kind, ir_type(&ty))))
    }

    pub(super) fn copy(&mut self, val: Val) -> Res<Val> {
        let Val::Run { ty: Ty::Array(array), .. } = &val else { return Ok(val) };
        if !array.dtype.is_number() {
            return self.prelude("copy_records", vec![val]);
        }
        let dtype = array.dtype.clone();
        self.elementwise(vec![val], &dtype, |mut elements| elements.remove(0))
    }

    pub(super) fn cast_elements(&mut self, val: Val, to: &Ty, span: Span) -> Res<Val> {
        if let Val::Run { ty: Ty::Array(array), .. } = &val
            && array.dtype == Ty::Complex128
            && !matches!(to, Ty::Complex128 | Ty::Bool)
        {
            return self.refuse_at(
                span,
                format!("complex numbers cannot become {to}"),
                "take the real part: z.real",
            );
        }
        let ir = ir_type(to);
        self.elementwise(vec![val], to, |mut elements| elements.remove(0).cast(ir))
    }

    pub(super) fn reshape(&mut self, val: Val, shape: Vec<Val>, span: Span) -> Res<Val> {
        let Val::Run { ty: Ty::Array(array), expr, .. } = val else { return Ok(val) };
        if array.layout == Layout::A {
            return self.refuse_at(
                span,
                "only contiguous arrays can be reshaped, and this one may have strides",
                "copy it first: a.copy().reshape(...)",
            );
        }
        let lengths = self.lengths(shape, span)?;
        let ndim = lengths.len() as u8;
        // Elements of a Fortran array are taken in C order, which needs a copy.
        let expr = if array.layout == Layout::F && array.ndim > 1 {
            let flat = self.flat(Val::run(Ty::Array(array.clone()), expr))?;
            self.materialise(flat)?.1
        } else {
            expr
        };
        let ty = Ty::Array(Arc::new(ArrayTy { ndim, layout: Layout::C, ..(*array).clone() }));
        Ok(Val::run(
            ty.clone(),
            Expr::new(ExprKind::Reshape(Box::new(expr), lengths), ir_type(&ty)),
        ))
    }

    /// The lengths of a shape: one integer, several, or a tuple of them.
    pub(super) fn lengths(&mut self, shape: Vec<Val>, span: Span) -> Res<Vec<Expr>> {
        let items = match <[Val; 1]>::try_from(shape) {
            Ok([one]) => match self.items(one) {
                Ok(items) => items,
                Err(Val::List(items)) => items,
                Err(one) => vec![one],
            },
            Err(many) => many,
        };
        items.into_iter().map(|item| self.index(item, span)).collect()
    }

    pub(super) fn array_method(
        &mut self,
        object: Val,
        name: &str,
        args: Vec<Val>,
        mut keywords: Keywords,
        span: Span,
    ) -> Res<Option<Val>> {
        let Val::Run { ty: Ty::Array(array), expr, .. } = &object else { return Ok(None) };
        let array = array.clone();
        Ok(match name {
            "copy" if args.is_empty() => Some(self.copy(object)?),
            "astype" => {
                let target = args
                    .first()
                    .or_else(|| keywords.first().map(|(_, val)| val))
                    .and_then(dtype_of);
                match target {
                    Some(to) => Some(self.cast_elements(object, &to, span)?),
                    None => None,
                }
            }
            "reshape" => Some(self.reshape(object, args, span)?),
            "ravel" if args.is_empty() => Some(self.flat(object)?),
            "flatten" if args.is_empty() => {
                let flat = self.flat(object)?;
                Some(self.copy(flat)?)
            }
            "fill" => {
                let [value] = &args[..] else { return Ok(None) };
                self.writable(&array, span)?;
                let expr = expr.clone();
                self.set_view(&array, expr, value.clone(), span)?;
                Some(Val::none())
            }
            "transpose" if args.is_empty() => {
                let axes = (0..u32::from(array.ndim)).rev().collect();
                let expr = expr.clone();
                Some(self.transposed(&array, expr, axes))
            }
            "transpose" => {
                let order = match <[Val; 1]>::try_from(args) {
                    Ok([order]) => order,
                    Err(axes) => Val::Tuple(axes),
                };
                self.numpy_function("transpose", &[object, order], &Vec::new(), span)?
            }
            "sort" if args.is_empty() => {
                self.writable(&array, span)?;
                Some(self.prelude("sort_in_place", vec![object])?)
            }
            "item" if args.is_empty() => Some(self.prelude("item", vec![object])?),
            "conj" | "conjugate" => Some(self.ufunc("conjugate", vec![object], span)?),
            "sum" | "prod" | "min" | "max" | "argmin" | "argmax" | "mean" | "std" | "var"
            | "any" | "all" | "cumsum" | "cumprod" | "argsort" | "dot" | "nonzero" | "repeat"
            | "clip" | "ptp" | "take" => {
                let mut all = vec![object];
                all.extend(args);
                let keywords = std::mem::take(&mut keywords);
                self.numpy_function(name, &all, &keywords, span)?
            }
            _ => None,
        })
    }
}

/// The array seen as one of part of each element.
pub(super) fn part(array: &ArrayTy, expr: Expr, ty: Ty, offset: usize) -> Val {
    let ty = Ty::Array(Arc::new(ArrayTy {
        dtype: ty,
        ndim: array.ndim,
        layout: Layout::A,
        readonly: array.readonly,
    }));
    Val::run(ty.clone(), Expr::new(ExprKind::Part(Box::new(expr), offset as u32), ir_type(&ty)))
}
