//! NumPy's functions by name. Ufuncs are element-wise expressions, reductions are folds, and what takes loops is written in
//! the prelude, in kernel language.

use std::sync::Arc;

use super::expr::is_array;
use super::params::Keywords;
use super::reduce::sum_type;
use super::val::{Val, dtype_of, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::dtype::DType;
use crate::kernel::host::limits;
use crate::kernel::ir::{self, Expr, ExprKind, Fold, FoldOp, Subscript};
use crate::kernel::rules;
use crate::kernel::syntax::Span;
use crate::kernel::types::{ArrayTy, IntTy, Layout, Ty};

impl Walker<'_> {
    pub(super) fn numpy_function(
        &mut self,
        name: &str,
        args: &[Val],
        keywords: &Keywords,
        span: Span,
    ) -> Res<Option<Val>> {
        let name = canonical(name);
        if rules::ufunc_inputs(name)
            .is_some_and(|inputs| args.len() == inputs || args.len() == inputs + 1)
            && keywords.is_empty()
            && args.iter().all(|arg| self.elementwise_operand(arg))
        {
            return self.ufunc(name, args.to_vec(), span).map(Some);
        }
        let keyword = |name: &str| {
            keywords.iter().find(|(key, _)| &**key == name).map(|(_, val)| val.clone())
        };
        let positional =
            |index: usize, name: &str| args.get(index).cloned().or_else(|| keyword(name));
        let given = |val: Option<Val>| val.filter(|val| !val.is_none());
        let taken = keywords_of(name);
        if let Some((key, _)) = keywords.iter().find(|(key, _)| !taken.contains(&&**key)) {
            return self.refuse_at(
                span,
                format!("np.{name} takes no keyword `{key}` in kernels"),
                "give the arguments by position, or leave it out",
            );
        }
        let dtype = match given(keyword("dtype").or_else(|| {
            let index = match name {
                "zeros" | "ones" | "empty" | "zeros_like" | "ones_like" | "empty_like"
                | "array" | "asarray" => 1,
                "full" | "full_like" => 2,
                "arange" if args.len() == 4 => 3,
                "identity" => 1,
                "eye" if args.len() == 4 => 3,
                _ => return None,
            };
            args.get(index).cloned()
        })) {
            None => None,
            Some(val) => match dtype_of(&val) {
                Some(ty) => Some(ty),
                None => {
                    return self.refuse_at(
                        span,
                        format!("{} is no element type", val.describe()),
                        "write np.float64 or its like",
                    );
                }
            },
        };
        let first = positional(0, "a").or_else(|| keyword("shape"));
        let axis = match given(positional(1, "axis")) {
            Some(axis)
                if matches!(
                    name,
                    "sum"
                        | "argmin"
                        | "argmax"
                        | "any"
                        | "all"
                        | "prod"
                        | "min"
                        | "max"
                        | "mean"
                        | "std"
                        | "var"
                        | "cumsum"
                        | "cumprod"
                        | "median"
                        | "ptp"
                ) =>
            {
                Some(axis)
            }
            _ => None,
        };
        Ok(match name {
            "zeros" | "ones" | "empty" | "full" => {
                let Some(shape) = first else { return Ok(None) };
                let value = match name {
                    "full" => given(positional(1, "fill_value")),
                    "ones" => Some(Val::int(1)),
                    _ => None,
                };
                let dtype = dtype.unwrap_or_else(|| match (name, &value) {
                    ("full", Some(Val::Run { ty, .. })) => ty.clone(),
                    _ => Ty::Float64,
                });
                let lengths = self.lengths(vec![shape], span)?;
                Some(self.new_array(lengths, &dtype, Layout::C, value, span)?)
            }
            "zeros_like" | "ones_like" | "empty_like" | "full_like" => {
                let Some(Val::Run { ty: Ty::Array(array), expr, .. }) = first else {
                    return Ok(None);
                };
                let value = match name {
                    "full_like" => given(positional(1, "fill_value")),
                    "ones_like" => Some(Val::int(1)),
                    _ => None,
                };
                let dtype = dtype.unwrap_or_else(|| array.dtype.clone());
                let layout = if array.layout == Layout::F { Layout::F } else { Layout::C };
                Some(self.with_stmts(|walker| {
                    let expr = walker.bind_expr(expr);
                    let lengths = (0..u32::from(array.ndim))
                        .map(|axis| {
                            Expr::new(ExprKind::Length(Box::new(expr.clone()), axis), ir::Type::I64)
                        })
                        .collect();
                    walker.new_array(lengths, &dtype, layout, value, span)
                })?)
            }
            "eye" | "identity" => {
                let Some(n) = given(positional(0, "N").or(first)) else { return Ok(None) };
                let m = if name == "eye" { given(positional(1, "M")) } else { None };
                let k = if name == "eye" { given(positional(2, "k")) } else { None };
                let m = m.unwrap_or_else(|| n.clone());
                let dtype = Val::DType(dtype.unwrap_or(Ty::Float64));
                Some(self.prelude("eye", vec![n, m, k.unwrap_or_else(|| Val::int(0)), dtype])?)
            }
            "arange" => {
                let start = given(positional(0, "start"));
                let stop = given(positional(1, "stop"));
                let step = given(positional(2, "step"));
                let Some(start) = start else { return Ok(None) };
                let bounds: Vec<&Val> =
                    [Some(&start), stop.as_ref(), step.as_ref()].into_iter().flatten().collect();
                let has = |wanted: fn(&Ty) -> bool| {
                    bounds.iter().any(|bound| matches!(bound, Val::Run { ty, .. } if wanted(ty)))
                };
                let dtype = dtype.unwrap_or_else(|| {
                    if has(Ty::is_float) {
                        Ty::Float64
                    } else if has(|ty| *ty == Ty::U64) {
                        Ty::U64
                    } else {
                        Ty::I64
                    }
                });
                let (start, stop) = match stop {
                    Some(stop) => (start, stop),
                    None => (Val::int(0), start),
                };
                let step = step.unwrap_or_else(|| Val::int(1));
                let whole = [&start, &stop, &step]
                    .iter()
                    .all(|val| matches!(val, Val::Run { ty: Ty::Int(_) | Ty::Bool, .. }));
                let name = if whole { "arange_int" } else { "arange" };
                Some(self.prelude(name, vec![start, stop, step, Val::DType(dtype)])?)
            }
            "linspace" => {
                let (Some(start), Some(stop)) = (positional(0, "start"), positional(1, "stop"))
                else {
                    return Ok(None);
                };
                let num = positional(2, "num").unwrap_or_else(|| Val::int(50));
                Some(self.prelude("linspace", vec![start, stop, num])?)
            }
            "array" | "asarray" | "ascontiguousarray" | "copy" => match first {
                Some(val @ (Val::List(_) | Val::Tuple(_) | Val::Run { ty: Ty::Tuple(_), .. })) => {
                    Some(self.array_of(val, dtype, span)?)
                }
                Some(val @ Val::Run { ty: Ty::Array(_), .. }) => {
                    let Val::Run { ty: Ty::Array(array), .. } = &val else { return Ok(None) };
                    let same = dtype.as_ref().is_none_or(|dtype| *dtype == array.dtype);
                    match name {
                        "asarray" if same => Some(val),
                        "ascontiguousarray" if array.layout == Layout::C => Some(val),
                        _ if same => Some(self.copy(val)?),
                        _ => Some(self.cast_elements(val, &dtype.unwrap_or(Ty::Float64), span)?),
                    }
                }
                _ => None,
            },
            "sum" | "prod" => {
                let Some(val) = first else { return Ok(None) };
                match &val {
                    Val::Run { ty: Ty::Array(array), .. } if array.dtype.is_number() => {
                        let ty = dtype.unwrap_or_else(|| sum_type(&array.dtype));
                        match axis {
                            Some(_) if name != "sum" => return self.no_axis(name, span),
                            Some(axis) if array.ndim > 1 => {
                                let by = match self.known_axis(&axis, array.ndim, span)? {
                                    true => "sum_axis",
                                    false if array.ndim <= 3 => "sum_any_axis",
                                    false => return self.no_axis(name, span),
                                };
                                Some(self.prelude(by, vec![val, axis, Val::DType(ty)])?)
                            }
                            Some(axis) if !self.known_axis(&axis, 1, span)? => {
                                return self.refuse_at(
                                    span,
                                    "the axis of an array with one axis must be constant",
                                    "leave it out",
                                );
                            }
                            _ => Some(self.fold(
                                val,
                                if name == "sum" { FoldOp::Sum } else { FoldOp::Product },
                                &ty,
                                None,
                            )?),
                        }
                    }
                    _ => None,
                }
            }
            "min" | "max" => {
                let Some(val) = first else { return Ok(None) };
                match &val {
                    Val::Run { ty: Ty::Array(array), .. }
                        if array.dtype.is_number() && array.dtype != Ty::Complex128 =>
                    {
                        if axis.is_some() {
                            return self.no_axis(name, span);
                        }
                        let (op, which) = if name == "min" {
                            (FoldOp::Min, "minimum")
                        } else {
                            (FoldOp::Max, "maximum")
                        };
                        let message = format!(
                            "zero-size array to reduction operation {which} which has no identity"
                        );
                        let empty = ir::Raise {
                            class: "ValueError".into(),
                            args: vec![Expr::str(&message)],
                        };
                        let dtype = array.dtype.clone();
                        Some(self.fold(val, op, &dtype, Some(empty))?)
                    }
                    Val::Run { ty, .. } if ty.is_number() => Some(val),
                    _ => None,
                }
            }
            "any" | "all" => {
                let Some(val) = first else { return Ok(None) };
                if axis.is_some() {
                    return self.no_axis(name, span);
                }
                match &val {
                    Val::Run { ty: Ty::Array(array), .. } if array.dtype.is_number() => {
                        let op = if name == "any" { FoldOp::Or } else { FoldOp::And };
                        Some(self.fold(val, op, &Ty::Bool, None)?)
                    }
                    Val::Run { ty, .. } if ty.is_number() => {
                        Some(self.call_class(&Ty::Bool, vec![val], span)?)
                    }
                    _ => None,
                }
            }
            "count_nonzero" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                let tree = self.tree(vec![val], |mut elements| {
                    elements.remove(0).cast(ir::Type::BOOL).cast(ir::Type::I64)
                })?;
                let fold = Fold { op: FoldOp::Sum, value: tree, empty: None };
                Some(Val::run(Ty::I64, Expr::new(ExprKind::Fold(Box::new(fold)), ir::Type::I64)))
            }
            "mean" | "var" | "std" => {
                let Some(val) = first else { return Ok(None) };
                if axis.is_some() {
                    return self.no_axis(name, span);
                }
                match &val {
                    Val::Run { ty: Ty::Array(array), .. } if array.dtype.is_number() => {
                        Some(self.moments(name, val, span)?)
                    }
                    _ => None,
                }
            }
            "argmin" | "argmax" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                if let (Val::Run { ty: Ty::Array(array), .. }, Some(axis)) = (&val, axis) {
                    if !self.known_axis(&axis, array.ndim, span)? {
                        return self.refuse_at(
                            span,
                            "the axis must be constant",
                            "write it as a number",
                        );
                    }
                    if array.ndim > 1 {
                        let name = if name == "argmin" { "argmin_axis" } else { "argmax_axis" };
                        return self.prelude(name, vec![val, axis]).map(Some);
                    }
                }
                let flat = self.flat(val)?;
                Some(self.prelude(name, vec![flat])?)
            }
            "cumsum" | "cumprod" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                if axis.is_some() {
                    return self.no_axis(name, span);
                }
                let ty = match &val {
                    Val::Run { ty: Ty::Array(array), .. } => match &array.dtype {
                        Ty::Bool | Ty::Int(IntTy { signed: true, .. }) => Ty::I64,
                        other => other.clone(),
                    },
                    _ => Ty::Float64,
                };
                let flat = self.flat(val)?;
                Some(self.prelude(name, vec![flat, Val::DType(ty)])?)
            }
            "where" => match args {
                [condition, x, y] => {
                    Some(self.choose(condition.clone(), x.clone(), y.clone(), span)?)
                }
                [condition] if is_array(condition) => {
                    Some(self.prelude("nonzero", vec![condition.clone()])?)
                }
                _ => None,
            },
            "nonzero" | "flatnonzero" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                let name = if name == "nonzero" { "nonzero" } else { "flatnonzero" };
                Some(self.prelude(name, vec![val])?)
            }
            "clip" => {
                let Some(val) = first else { return Ok(None) };
                self.clip(val, given(positional(1, "a_min")), given(positional(2, "a_max")), span)?
            }
            "sort" | "argsort" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                let rest = args.len() > 1;
                if name == "sort" && !rest {
                    let copy = self.copy(val)?;
                    return self.prelude("sorted_copy", vec![copy]).map(Some);
                }
                let kind = keyword("kind");
                match kind.as_ref().map(|kind| kind.known_str().map(|kind| &**kind)) {
                    None | Some(Some("quicksort")) if !rest => {
                        Some(self.prelude("argsort", vec![val])?)
                    }
                    Some(Some("mergesort")) if !rest => {
                        Some(self.prelude("argsort_stable", vec![val])?)
                    }
                    _ => None,
                }
            }
            "dot" | "vdot" | "matmul" => match args {
                [a, b] => self.dot(a.clone(), b.clone(), span)?,
                _ => None,
            },
            "transpose" => match first {
                Some(Val::Run { ty: Ty::Array(array), expr, .. }) => {
                    let axes = match args.get(1) {
                        None => (0..u32::from(array.ndim)).rev().collect(),
                        Some(order) => {
                            let items = self.items(order.clone()).unwrap_or_default();
                            let axes: Option<Vec<u32>> = items
                                .iter()
                                .map(|item| {
                                    item.known_int().and_then(|axis| u32::try_from(axis).ok())
                                })
                                .collect();
                            match axes {
                                Some(axes) if axes.len() == usize::from(array.ndim) => axes,
                                _ => {
                                    return self.refuse_at(
                                        span,
                                        "the order of axes must be constant",
                                        "write it as numbers",
                                    );
                                }
                            }
                        }
                    };
                    Some(self.transposed(&array, expr, axes))
                }
                _ => None,
            },
            "swapaxes" | "expand_dims" => {
                let axes: Option<Vec<i64>> =
                    args[1.min(args.len())..].iter().map(Val::known_int).collect();
                let Some(Val::Run { ty: Ty::Array(array), expr, .. }) = first else {
                    return Ok(None);
                };
                let ndim = i64::from(array.ndim) + i64::from(name == "expand_dims");
                let axes = axes.unwrap_or_default().into_iter();
                let axes: Vec<i64> = axes.map(|at| if at < 0 { at + ndim } else { at }).collect();
                if axes.iter().any(|at| !(0..ndim).contains(at)) {
                    return self.refuse_at(span, "there is no such axis", "count axes from 0");
                }
                match (name, &axes[..]) {
                    ("swapaxes", [a, b]) => {
                        let mut order: Vec<u32> = (0..u32::from(array.ndim)).collect();
                        order.swap(*a as usize, *b as usize);
                        Some(self.transposed(&array, expr, order))
                    }
                    ("expand_dims", [axis]) => {
                        let mut subscripts = vec![Subscript::Full; usize::from(array.ndim)];
                        subscripts.insert(*axis as usize, Subscript::NewAxis);
                        let layout = array.layout;
                        let ty = ArrayTy { ndim: array.ndim + 1, layout, ..(*array).clone() };
                        let ty = Ty::Array(Arc::new(ty));
                        let kind = ExprKind::View(Box::new(expr), subscripts);
                        Some(Val::run(ty.clone(), Expr::new(kind, ir_type(&ty))))
                    }
                    _ => {
                        return self.refuse_at(
                            span,
                            "the axes must be constant",
                            "write them as numbers",
                        );
                    }
                }
            }
            "reshape" => match args {
                [val, shape] if is_array(val) => {
                    Some(self.reshape(val.clone(), vec![shape.clone()], span)?)
                }
                _ => None,
            },
            "ravel" => match first {
                Some(val) if is_array(&val) => Some(self.flat(val)?),
                _ => None,
            },
            "real" | "imag" => match first {
                Some(val) => Some(self.get_attribute(val, &Arc::from(name), span)?),
                None => None,
            },
            "shape" => match first {
                Some(val) if is_array(&val) => {
                    Some(self.get_attribute(val, &Arc::from("shape"), span)?)
                }
                _ => None,
            },
            "round" | "around" | "round_" => {
                let Some(val) = first else { return Ok(None) };
                let decimals = given(positional(1, "decimals")).unwrap_or_else(|| Val::int(0));
                self.round(val, decimals, span)?
            }
            "isclose" => match args {
                [a, b] => Some(self.prelude_map("isclose", a.clone(), b.clone(), span)?),
                _ => None,
            },
            "size" => first
                .filter(is_array)
                .map(|val| self.get_attribute(val, &Arc::from("size"), span))
                .transpose()?,
            "outer" | "diff" | "trace" | "flip" | "median" | "array_equal" | "searchsorted"
            | "unique" | "bincount" | "interp" | "repeat" | "roll" | "ptp" | "cross" | "kron"
            | "convolve" | "tril" | "triu" | "diag" | "fliplr" | "flipud" | "allclose"
            | "nansum" | "nanmin" | "nanmax" | "nanmean" | "take" | "append" | "argwhere"
            | "percentile" | "quantile" | "broadcast_to" | "histogram" | "partition" => {
                let known = super::prelude::function(name);
                match known {
                    Some(function)
                        if args.len() <= function.params.positional.len()
                            && args.len()
                                >= function
                                    .params
                                    .positional
                                    .iter()
                                    .filter(|param| param.default.is_none())
                                    .count() =>
                    {
                        let mut all = args.to_vec();
                        for param in &function.params.positional[args.len()..] {
                            if let Some(given) = keyword(&param.name) {
                                all.push(given);
                            } else if let Some(default) = &param.default {
                                all.push(self.expr(default)?);
                            }
                        }
                        Some(self.prelude(name, all)?)
                    }
                    _ => None,
                }
            }
            "concatenate" | "stack" | "vstack" | "hstack" | "column_stack" => {
                let Some(parts) = args.first().cloned() else { return Ok(None) };
                let items = match self.items(parts) {
                    Ok(items) if items.iter().all(is_array) && args.len() <= 2 => items,
                    _ => return Ok(None),
                };
                self.joined(name, items, given(positional(1, "axis")), span)?
            }
            "ndindex" => Some(Val::Indices(self.lengths(args.to_vec(), span)?, None)),
            "ndenumerate" => match first {
                Some(Val::Run { ty: Ty::Array(array), expr, .. }) => {
                    let expr = self.bind_expr(expr);
                    let lengths = (0..u32::from(array.ndim))
                        .map(|axis| {
                            Expr::new(ExprKind::Length(Box::new(expr.clone()), axis), ir::Type::I64)
                        })
                        .collect();
                    Some(Val::Indices(lengths, Some(Box::new(Val::run(Ty::Array(array), expr)))))
                }
                _ => None,
            },
            "dtype" => args.first().and_then(dtype_of).map(Val::DType),
            "iinfo" | "finfo" => {
                let dtype = args.first().and_then(dtype_of).and_then(|ty| DType::from_ty(&ty));
                dtype.and_then(|dtype| limits(name, &dtype)).map(Val::Host)
            }
            "ndim" => match first {
                Some(Val::Run { ty: Ty::Array(array), .. }) => {
                    Some(Val::int(i64::from(array.ndim)))
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// Whether an axis is constant; refuses one that an array with so many does not have.
    fn known_axis(&self, axis: &Val, ndim: u8, span: Span) -> Res<bool> {
        let ndim = i64::from(ndim);
        match axis.known_int() {
            None => Ok(false),
            Some(axis) if (-ndim..ndim).contains(&axis) => Ok(true),
            Some(axis) => self.refuse_at(
                span,
                format!("axis {axis} is out of bounds for an array with {ndim} dimensions"),
                "count axes from 0, or from the last with -1",
            ),
        }
    }

    /// `np.concatenate` and its kin.
    fn joined(
        &mut self,
        name: &str,
        items: Vec<Val>,
        axis: Option<Val>,
        span: Span,
    ) -> Res<Option<Val>> {
        let Some(Val::Run { ty: Ty::Array(first), .. }) = items.first() else { return Ok(None) };
        let ndim = i64::from(first.ndim) + i64::from(name == "stack");
        let axis = match (name, axis) {
            ("concatenate" | "stack", Some(axis)) => {
                if !self.known_axis(&axis, ndim as u8, span)? {
                    return self.refuse_at(
                        span,
                        "the axis must be constant",
                        "write it as a number",
                    );
                }
                axis.known_int().unwrap_or(0).rem_euclid(ndim)
            }
            (_, Some(_)) => return Ok(None),
            ("hstack", None) => i64::from(first.ndim > 1),
            ("column_stack", None) => 1,
            _ => 0,
        };
        let is_alone = items.len() == 1;
        let mut joined = None;
        for item in items {
            let is_flat = matches!(&item, Val::Run { ty: Ty::Array(array), .. } if array.ndim == 1);
            let item = match name {
                "stack" => self.prelude("with_axis", vec![item, Val::int(axis)])?,
                "vstack" | "column_stack" if is_flat => {
                    self.prelude("with_axis", vec![item, Val::int(axis)])?
                }
                _ => item,
            };
            joined = Some(match joined {
                None => item,
                Some(before) => self.prelude("concatenate", vec![before, item, Val::int(axis)])?,
            });
        }
        match joined {
            Some(joined) if is_alone => self.copy(joined).map(Some),
            joined => Ok(joined),
        }
    }

    fn no_axis<T>(&self, name: &str, span: Span) -> Res<T> {
        self.refuse_at(
            span,
            format!("np.{name} takes no axis in kernels"),
            "loop over the rows, or transpose",
        )
    }
}

/// The keywords that a function of NumPy takes in kernels.
fn keywords_of(name: &str) -> &'static [&'static str] {
    match name {
        "zeros" | "ones" | "empty" => &["shape", "dtype"],
        "full" => &["shape", "fill_value", "dtype"],
        "zeros_like" | "ones_like" | "empty_like" => &["a", "dtype"],
        "full_like" => &["a", "fill_value", "dtype"],
        "arange" => &["start", "stop", "step", "dtype"],
        "linspace" => &["start", "stop", "num"],
        "eye" => &["N", "M", "k", "dtype"],
        "identity" => &["n", "dtype"],
        "array" | "asarray" => &["dtype"],
        "sum" => &["a", "axis", "dtype"],
        "prod" | "min" | "max" | "mean" | "var" | "std" | "any" | "all" | "argmin" | "argmax"
        | "cumsum" | "cumprod" => &["a", "axis"],
        "clip" => &["a", "a_min", "a_max"],
        "round" | "around" => &["a", "decimals"],
        "argsort" => &["kind"],
        "concatenate" | "stack" => &["axis"],
        "searchsorted" => &["side"],
        "diff" => &["n"],
        "tril" | "triu" => &["k"],
        "bincount" => &["minlength"],
        "histogram" => &["bins", "range"],
        _ => &[],
    }
}

/// One name for each of NumPy's functions that have several.
fn canonical(name: &str) -> &str {
    match name {
        "true_divide" => "divide",
        "mod" => "remainder",
        "abs" => "absolute",
        "conj" => "conjugate",
        "bitwise_not" => "invert",
        "pow" => "power",
        "acos" => "arccos",
        "asin" => "arcsin",
        "atan" => "arctan",
        "atan2" => "arctan2",
        "acosh" => "arccosh",
        "asinh" => "arcsinh",
        "atanh" => "arctanh",
        "amax" => "max",
        "amin" => "min",
        "bitwise_left_shift" => "left_shift",
        "bitwise_right_shift" => "right_shift",
        "fix" => "trunc",
        other => other,
    }
}
