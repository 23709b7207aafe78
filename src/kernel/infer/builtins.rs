//! Python's builtin functions, and what the prelude asks of the walk.

use std::sync::Arc;

use super::expr::is_array;
use super::ops::if_else;
use super::params::Keywords;
use super::val::{Val, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{self, BinaryOp as Op, Expr, ExprKind, MathFn, StmtKind, UnaryOp as Un};
use crate::kernel::rules;
use crate::kernel::syntax::{BinaryOp, Span};
use crate::kernel::types::{ArrayTy, IntTy, Literal, Ty, TypeClass};
use crate::kernel::value::Value;

/// An array, and one of its axes counted from the first.
fn array_axis<'a>(array: &'a Val, axis: &Val) -> Option<(&'a Arc<ArrayTy>, &'a Expr, i64)> {
    let (Val::Run { ty: Ty::Array(ty), expr, .. }, Some(axis)) = (array, axis.known_int()) else {
        return None;
    };
    Some((ty, expr, if axis < 0 { axis + i64::from(ty.ndim) } else { axis }))
}

impl Walker<'_> {
    /// A function that cachelift provides.
    pub(super) fn builtin(
        &mut self,
        name: &str,
        args: Vec<Val>,
        keywords: Keywords,
        span: Span,
    ) -> Res<Val> {
        let args: Vec<Val> = args.into_iter().map(|arg| self.unwrap(arg)).collect();
        let found = match name.split_once('.') {
            Some(("builtins", function)) => {
                self.builtin_function(function, &args, &keywords, span)?
            }
            Some(("math", function)) => self.math_function(function, &args)?,
            Some(("numpy", function)) => self.numpy_function(function, &args, &keywords, span)?,
            Some(("numba", "prange")) => self.builtin_function("range", &args, &keywords, span)?,
            Some(("numba", "literal_unroll")) => args.first().cloned(),
            Some(("_prelude", function)) => self.intrinsic(function, &args)?,
            _ => None,
        };
        if let Some(val) = found {
            return Ok(val);
        }
        if let Some(value) = super::prelude::host_builtin(name)
            && let Some(val) = self.try_overload(&value, &args, &keywords, span)?
        {
            return Ok(val);
        }
        let types: Vec<String> = args.iter().map(Val::describe).collect();
        self.refuse_at(
            span,
            format!("kernels have no `{name}` for ({})", types.join(", ")),
            "see the list of functions that kernels know, or write it as a kernel",
        )
    }

    fn builtin_function(
        &mut self,
        name: &str,
        args: &[Val],
        keywords: &Keywords,
        span: Span,
    ) -> Res<Option<Val>> {
        let number = |val: &Val| match val {
            Val::Run { ty, expr, .. } if ty.is_number() => Some((ty.clone(), expr.clone())),
            _ => None,
        };
        if !keywords.is_empty() && !matches!(name, "enumerate" | "round" | "sum" | "pow" | "print")
        {
            return Ok(None);
        }
        Ok(match (name, args) {
            ("len", [val]) => match val {
                Val::Tuple(items) => Some(Val::int(items.len() as i64)),
                Val::Run { ty: Ty::Tuple(items), .. } => Some(Val::int(items.len() as i64)),
                Val::Run { ty: Ty::Str, expr, literal } => match literal {
                    Some(Literal::Str(text)) => Some(Val::int(text.chars().count() as i64)),
                    _ => Some(Val::run(
                        Ty::I64,
                        Expr::new(ExprKind::StrLen(Box::new(expr.clone())), ir::Type::I64),
                    )),
                },
                Val::Run { ty: Ty::Array(_), .. } | Val::Range(..) => {
                    let val = val.clone();
                    Some(self.with_stmts(|walker| {
                        let val = if is_array(&val) { val } else { walker.bind(val) };
                        Ok(match walker.iter_length(&val) {
                            Some(length) => Val::run(Ty::I64, length),
                            None => Val::none(),
                        })
                    })?)
                }
                _ => None,
            },
            ("range", [_] | [_, _] | [_, _, _]) => Some(self.range(args, span)?),
            ("abs", [val]) => {
                if is_array(val) {
                    return self.ufunc("absolute", args.to_vec(), span).map(Some);
                }
                number(val).map(|(ty, expr)| match ty {
                    Ty::Bool => Val::run(Ty::I64, expr.cast(ir::Type::I64)),
                    Ty::Complex128 => Val::run(Ty::Float64, Expr::unary(Un::Abs, expr)),
                    Ty::Int(IntTy { signed: false, .. }) => Val::run(ty, expr),
                    ty => Val::run(ty, Expr::unary(Un::Abs, expr)),
                })
            }
            ("min" | "max", [_, ..]) => {
                let items = match args {
                    [one] => match self.items(one.clone()) {
                        Ok(items) => items,
                        Err(_) => return Ok(None),
                    },
                    many => many.to_vec(),
                };
                self.extreme(if name == "min" { Op::Min } else { Op::Max }, &items)?
            }
            ("int", [val]) => number(val).and_then(|(ty, expr)| match ty {
                Ty::Complex128 => None,
                Ty::Int(_) => Some(Val::run(ty, expr)),
                _ => Some(Val::run(Ty::I64, expr.cast(ir::Type::I64))),
            }),
            ("int", []) => Some(Val::int(0)),
            ("float", [val]) => number(val).and_then(|(ty, expr)| match ty {
                Ty::Complex128 => None,
                Ty::Float32 => Some(Val::run(Ty::Float32, expr)),
                _ => Some(Val::run(Ty::Float64, expr.cast(ir::Type::F64))),
            }),
            ("float", []) => Some(Val::literal(&Literal::Float(0.0))),
            ("bool", [val]) => Some(match self.truth(val.clone())? {
                Ok(known) => Val::literal(&Literal::Bool(known)),
                Err(expr) => Val::run(Ty::Bool, expr),
            }),
            ("complex", [val]) => {
                number(val).map(|(_, expr)| Val::run(Ty::Complex128, expr.cast(ir::Type::C128)))
            }
            ("complex", [re, im]) => match (number(re), number(im)) {
                (Some((a, re)), Some((b, im))) if a != Ty::Complex128 && b != Ty::Complex128 => {
                    let parts =
                        (Box::new(re.cast(ir::Type::F64)), Box::new(im.cast(ir::Type::F64)));
                    Some(Val::run(
                        Ty::Complex128,
                        Expr::new(ExprKind::Complex(parts.0, parts.1), ir::Type::C128),
                    ))
                }
                _ => None,
            },
            ("enumerate", [items] | [items, _]) => {
                let start = args.get(1).or_else(|| keywords.first().map(|(_, val)| val)).cloned();
                let start = match start {
                    Some(start) => self.index(start, span)?,
                    None => Expr::int(0),
                };
                Some(Val::Enumerate(Box::new(items.clone()), start))
            }
            ("zip", items) => Some(Val::Zip(items.to_vec())),
            ("tuple", [val]) => self.items(val.clone()).ok().map(Val::Tuple),
            ("tuple", []) => Some(Val::Tuple(Vec::new())),
            ("sum", [items, rest @ ..]) => {
                let start = rest.first().or_else(|| keywords.first().map(|(_, val)| val)).cloned();
                let start = start.unwrap_or_else(|| Val::int(0));
                match self.items(items.clone()) {
                    Ok(items) => {
                        let mut total = start;
                        for item in items {
                            total = self.binary(BinaryOp::Add, total, item, span)?;
                        }
                        Some(total)
                    }
                    Err(items) => Some(self.prelude("sum_items", vec![items, start])?),
                }
            }
            ("divmod", [a, b]) => {
                let (Some((a_ty, a)), Some((b_ty, b))) = (number(a), number(b)) else {
                    return Ok(None);
                };
                let Some(rule) = rules::binary(BinaryOp::FloorDiv, &a_ty, &b_ty) else {
                    return Ok(None);
                };
                let ir = ir_type(&rule.result);
                let zero =
                    if self.options().numpy_errors { ir::OnZero::Value } else { ir::OnZero::Raise };
                let (a, b) = (a.cast(ir.clone()), b.cast(ir));
                let ty = Ty::tuple([rule.result.clone(), rule.result]);
                Some(Val::run(
                    ty.clone(),
                    Expr::new(ExprKind::DivMod(zero, Box::new(a), Box::new(b)), ir_type(&ty)),
                ))
            }
            ("pow", [a, b]) => Some(self.binary(BinaryOp::Pow, a.clone(), b.clone(), span)?),
            ("round", [val]) => number(val).and_then(|(ty, expr)| match ty {
                Ty::Float32 | Ty::Float64 => {
                    let ir = expr.ty.clone();
                    let rounded = Expr::new(ExprKind::Math(MathFn::Rint, vec![expr]), ir);
                    Some(Val::run(Ty::I64, rounded.cast(ir::Type::I64)))
                }
                Ty::Int(_) | Ty::Bool => Some(Val::run(Ty::I64, expr.cast(ir::Type::I64))),
                _ => None,
            }),
            ("round", [val, digits]) => {
                let digits = self.index(digits.clone(), span)?;
                number(val).and_then(|(ty, expr)| match ty {
                    Ty::Complex128 | Ty::Bool => None,
                    ty => {
                        let ty = match ty {
                            Ty::Float32
                            | Ty::Int(IntTy { bits: 8 | 16, .. } | IntTy { signed: false, .. }) => {
                                Ty::Float32
                            }
                            _ => Ty::Float64,
                        };
                        let ir = ir_type(&ty);
                        let args = vec![expr.cast(ir.clone()), digits.cast(ir.clone())];
                        Some(Val::run(ty, Expr::new(ExprKind::Math(MathFn::RoundDigits, args), ir)))
                    }
                })
            }
            ("print", values) => {
                if !keywords.is_empty() {
                    return self.refuse_at(
                        span,
                        "print takes no keywords in kernels",
                        "print from host code",
                    );
                }
                let mut exprs = Vec::new();
                for value in values {
                    exprs.push(self.materialise(value.clone())?.1);
                }
                self.emit(StmtKind::Print(exprs));
                Some(Val::none())
            }
            ("isinstance", [val, class]) => Some(self.isinstance(val, class, span)?),
            ("str", [val]) => Some(self.text(vec![val.clone()])),
            _ => None,
        })
    }

    fn isinstance(&mut self, val: &Val, class: &Val, span: Span) -> Res<Val> {
        let ty = val.ty().map(|ty| ty.unliteral());
        let classes = match class {
            Val::Tuple(items) => items.clone(),
            other => vec![other.clone()],
        };
        let mut found = false;
        for class in classes {
            found |= match &class {
                Val::Builtin(name) => match &**name {
                    "builtins.int" => matches!(ty, Some(Ty::Int(_))),
                    "builtins.float" => matches!(ty, Some(Ty::Float32 | Ty::Float64)),
                    "builtins.bool" => matches!(ty, Some(Ty::Bool)),
                    "builtins.complex" => matches!(ty, Some(Ty::Complex128)),
                    "builtins.str" => matches!(ty, Some(Ty::Str)),
                    "builtins.tuple" => matches!(ty, Some(Ty::Tuple(_))),
                    "numpy.ndarray" => matches!(ty, Some(Ty::Array(_))),
                    _ => {
                        return self.refuse_at(
                            span,
                            "kernels cannot test for this class",
                            "test for int, float, bool, complex, tuple or str",
                        );
                    }
                },
                Val::Class(class) => ty.as_ref() == Some(class),
                Val::Host(Value::TypeClass(class)) => {
                    let class: TypeClass = *class;
                    ty.as_ref().is_some_and(|ty| ty.is_instance(class))
                }
                _ => {
                    return self.refuse_at(
                        span,
                        "kernels cannot test for this class",
                        "test for int, float, bool, complex, tuple or str",
                    );
                }
            };
        }
        Ok(Val::literal(&Literal::Bool(found)))
    }

    fn range(&mut self, args: &[Val], span: Span) -> Res<Val> {
        let mut int: Option<IntTy> = None;
        let mut exprs = Vec::new();
        for arg in args {
            let ty = match arg {
                Val::Run { ty: Ty::Int(ty), literal, .. } => {
                    if literal.is_some() {
                        IntTy::I64
                    } else {
                        *ty
                    }
                }
                Val::Run { ty: Ty::Bool, .. } => IntTy::I64,
                other => {
                    return self.refuse_at(
                        span,
                        format!("range takes integers, not {}", other.describe()),
                        "convert it with int(...)",
                    );
                }
            };
            let ty = match (ty.bits, ty.signed) {
                (64, false) => IntTy::U64,
                (64, true) | (32, false) => IntTy::I64,
                _ => IntTy { bits: 32, signed: true },
            };
            int = Some(match int {
                None => ty,
                Some(so_far) if so_far == IntTy::U64 || ty == IntTy::U64 => IntTy::U64,
                Some(so_far) if so_far.bits >= ty.bits => so_far,
                Some(_) => ty,
            });
            exprs.push(self.index(arg.clone(), span)?);
        }
        let int = int.unwrap_or(IntTy::I64);
        let mut exprs = exprs.into_iter();
        let (a, b, c) = (exprs.next(), exprs.next(), exprs.next());
        let parts = match (a, b, c) {
            (Some(stop), None, _) => [Expr::int(0), stop, Expr::int(1)],
            (Some(start), Some(stop), step) => [start, stop, step.unwrap_or_else(|| Expr::int(1))],
            _ => [Expr::int(0), Expr::int(0), Expr::int(1)],
        };
        Ok(Val::Range(Box::new(parts), int))
    }

    /// `min` or `max` of numbers.
    fn extreme(&mut self, op: Op, items: &[Val]) -> Res<Option<Val>> {
        let mut ty: Option<Ty> = None;
        let mut exprs = Vec::new();
        for item in items {
            let Val::Run { ty: item_ty, expr, .. } = item else { return Ok(None) };
            if !item_ty.is_number() || *item_ty == Ty::Complex128 {
                return Ok(None);
            }
            ty = match ty {
                None => Some(item_ty.clone()),
                Some(so_far) => rules::unify(&so_far, item_ty),
            };
            exprs.push(expr.clone());
        }
        let Some(ty) = ty else { return Ok(None) };
        let ir = ir_type(&ty);
        let mut exprs = exprs.into_iter().map(|expr| expr.cast(ir.clone()));
        let Some(first) = exprs.next() else { return Ok(None) };
        let value = exprs.fold(first, |a, b| Expr::binary(op, a, b));
        Ok(Some(Val::run(ty, value)))
    }

    /// What the prelude asks of the walk: types that the language has no words for.
    fn intrinsic(&mut self, name: &str, args: &[Val]) -> Res<Option<Val>> {
        let dtype = |val: &Val| match val {
            Val::Run { ty: Ty::Array(array), .. } => Some(array.dtype.clone()),
            Val::Run { ty, .. } if ty.is_number() => Some(ty.clone()),
            Val::DType(ty) | Val::Class(ty) => Some(ty.clone()),
            _ => None,
        };
        Ok(match (name, args) {
            // The type in which elements are summed.
            ("sum_type", [val]) => dtype(val).map(|ty| Val::DType(super::reduce::sum_type(&ty))),
            // The type in which elements are averaged.
            ("mean_type", [val]) => dtype(val).map(|ty| Val::DType(super::reduce::mean_type(&ty))),
            ("dtype", [val]) => dtype(val).map(Val::DType),
            ("promote", [a, b]) => match (dtype(a), dtype(b)) {
                (Some(a), Some(b)) => rules::promote(&a, &b).map(Val::DType),
                _ => None,
            },
            ("cast", [val, to]) => match (val, dtype(to)) {
                (Val::Run { ty, expr, .. }, Some(to)) if ty.is_number() => {
                    Some(Val::run(to.clone(), expr.clone().cast(ir_type(&to))))
                }
                _ => None,
            },
            ("is_float", [val]) => dtype(val)
                .map(|ty| Val::literal(&Literal::Bool(ty.is_float() || ty == Ty::Complex128))),
            ("is_complex", [val]) => {
                dtype(val).map(|ty| Val::literal(&Literal::Bool(ty == Ty::Complex128)))
            }
            ("is_bool", [val]) => dtype(val).map(|ty| Val::literal(&Literal::Bool(ty == Ty::Bool))),
            ("is_array", [val]) => Some(Val::literal(&Literal::Bool(is_array(val)))),
            ("item", [val]) => match val {
                Val::Run { ty: Ty::Tuple(_), .. } | Val::Tuple(_) => {
                    let mut items = self.items(val.clone()).unwrap_or_default();
                    (!items.is_empty()).then(|| items.remove(0))
                }
                other => Some(other.clone()),
            },
            // The largest and the smallest value of a type.
            ("highest" | "lowest", [val]) => dtype(val).map(|ty| {
                let high = name == "highest";
                let ir = ir_type(&ty);
                let constant = match &ty {
                    Ty::Int(IntTy { bits, signed: true }) => {
                        let most = i64::MAX >> (64 - bits);
                        ir::Const::Int(if high { most } else { -most - 1 })
                    }
                    Ty::Int(IntTy { bits, .. }) => {
                        ir::Const::Int(if high { (u64::MAX >> (64 - bits)) as i64 } else { 0 })
                    }
                    Ty::Bool => ir::Const::Bool(high),
                    _ => ir::Const::Float(if high { f64::INFINITY } else { f64::NEG_INFINITY }),
                };
                Val::run(ty, Expr::new(ExprKind::Const(constant), ir))
            }),
            // The shape without one axis, or with another length there.
            ("shape_without", [array, axis]) | ("shape_with", [array, axis, _]) => {
                let Some((ty, expr, axis)) = array_axis(array, axis) else { return Ok(None) };
                let ndim = i64::from(ty.ndim);
                let lengths = (0..ndim)
                    .filter_map(|other| match args.get(2) {
                        with if other == axis => with.cloned(),
                        _ => {
                            let kind = ExprKind::Length(Box::new(expr.clone()), other as u32);
                            Some(Val::run(Ty::I64, Expr::new(kind, ir::Type::I64)))
                        }
                    })
                    .collect();
                Some(Val::Tuple(lengths))
            }
            // The axes moved so that this one comes first.
            ("axis_first", [array, axis]) => {
                let Some((ty, expr, axis)) = array_axis(array, axis) else { return Ok(None) };
                let ndim = i64::from(ty.ndim);
                let mut axes = vec![axis as u32];
                axes.extend((0..ndim).filter(|other| *other != axis).map(|axis| axis as u32));
                Some(self.transposed(ty, expr.clone(), axes))
            }
            ("ravel", [array]) => Some(self.flat(array.clone())?),
            ("too_many_dimensions", [array]) => {
                return self.refuse(
                    format!("this is not supported for {}", array.describe()),
                    "write it as loops",
                );
            }
            ("different_dimensions", [a, b]) => {
                return self.refuse(
                    format!("{} and {} cannot be joined", a.describe(), b.describe()),
                    "give them as many axes as each other",
                );
            }
            ("raise_value", [message]) => {
                let text = message.known_str().cloned().unwrap_or_default();
                let args = vec![Expr::str(&text)];
                self.emit(StmtKind::Raise(ir::Raise { class: "ValueError".into(), args }));
                Some(Val::none())
            }
            _ => None,
        })
    }
}

/// The length of a range of `int64`s; a step of zero has none and counts as empty.
pub(super) fn range_length(start: Expr, stop: Expr, step: Expr) -> Expr {
    use ir::ExprKind as K;
    if let (K::Const(ir::Const::Int(0)), K::Const(ir::Const::Int(1))) = (&start.kind, &step.kind) {
        return Expr::binary(Op::Max, stop, Expr::int(0));
    }
    let zero = ir::OnZero::Value;
    let less = |a: Expr, b: Expr| Expr::binary(Op::Lt, a, b);
    // (stop - start + step - sign(step)) // step, and nothing below zero.
    let sign = if_else(less(step.clone(), Expr::int(0)), Expr::int(-1), Expr::int(1));
    let span = Expr::binary(Op::Sub, stop, start);
    let span = Expr::binary(Op::Sub, Expr::binary(Op::Add, span, step.clone()), sign);
    Expr::binary(Op::Max, Expr::binary(Op::FloorDiv(zero), span, step), Expr::int(0))
}
