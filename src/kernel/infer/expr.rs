//! Expressions: names, displays and constants, and the values that they come to.

use std::sync::Arc;

use super::fold::{Folded, fold};
use super::val::{Val, ir_type, of_host};
use super::walk::{Res, Scope, Stop, Walker};
use crate::kernel::array::Array;
use crate::kernel::ir::{self, ConstantId, Expr, ExprKind};
use crate::kernel::runtime::stack::deep;
use crate::kernel::syntax::{self, ExprKind as S, FStringPart, Name, Span};
use crate::kernel::types::{ArrayTy, IntTy, Layout, Literal, Ty};
use crate::kernel::value::Value;

impl Walker<'_> {
    /// The value of an expression.
    pub(super) fn expr(&mut self, expr: &syntax::Expr) -> Res<Val> {
        let outer = std::mem::replace(&mut self.span, expr.span);
        let result = deep(|| self.expr_inner(expr));
        self.span = outer;
        result
    }

    fn expr_inner(&mut self, expr: &syntax::Expr) -> Res<Val> {
        if let Some(constant) = fold(expr) {
            return self.constant_value(&constant, expr.span);
        }
        match &expr.kind {
            S::Name(name) => self.name(name, expr.span),
            S::None => Ok(Val::none()),
            S::Ellipsis => Ok(Val::Ellipsis),
            S::Bool(value) => Ok(Val::literal(&Literal::Bool(*value))),
            S::Int(_) | S::Float(_) | S::Imaginary(_) => self
                .refuse("this number does not fit in 64 bits", "use a float, or a smaller number"),
            S::Str(text) => Ok(Val::literal(&Literal::Str(text.clone()))),
            S::Tuple(items) => {
                let mut vals = Vec::new();
                for item in items {
                    if let S::Starred(inner) = &item.kind {
                        let val = self.expr(inner)?;
                        match self.items(val) {
                            Ok(items) => vals.extend(items),
                            Err(val) => {
                                return self.refuse_at(
                                    inner.span,
                                    format!("{} cannot be spread into a tuple", val.describe()),
                                    "spread a tuple",
                                );
                            }
                        }
                    } else {
                        vals.push(self.expr(item)?);
                    }
                }
                Ok(Val::Tuple(vals))
            }
            S::List(items) => {
                let vals = items.iter().map(|item| self.expr(item)).collect::<Res<_>>()?;
                Ok(Val::List(vals))
            }
            S::Unary { op, value } => {
                let val = self.expr(value)?;
                self.unary(*op, val, expr.span)
            }
            S::Binary { left, op, right } => {
                let a = self.expr(left)?;
                let b = self.expr(right)?;
                self.binary(*op, a, b, expr.span)
            }
            S::Logic { op, values } => self.logic(*op, values),
            S::Compare { left, rest } => self.with_stmts(|walker| {
                let left = walker.expr(left)?;
                walker.chain(left, rest, expr.span)
            }),
            S::IfElse { test, body, orelse } => self.if_else(test, body, orelse),
            S::Call { function, args } => self.call_expr(function, args, expr.span),
            S::Attribute { value, name, .. } => {
                let object = self.expr(value)?;
                self.get_attribute(object, name, expr.span)
            }
            S::Subscript { value, index } => {
                let container = self.expr(value)?;
                let index = self.subscript(index)?;
                self.get_item(container, index, expr.span)
            }
            S::Lambda(function) => self.closure(function),
            S::Walrus { name, value, .. } => self.with_stmts(|walker| {
                let val = walker.expr(value)?;
                let val = walker.hold(val);
                let variable = walker.variable(walker.frame, name);
                walker.assign_variable(variable, val.clone())?;
                Ok(val)
            }),
            S::Slice { .. } => self.subscript(expr),
            S::Starred(_) => self.refuse(
                "a star cannot stand here",
                "spread tuples in calls and tuple displays only",
            ),
            S::Bytes(_) => {
                self.refuse("byte strings are not supported in kernels", "use an array of uint8")
            }
            S::FString(parts) => {
                let mut vals = Vec::new();
                for part in parts {
                    vals.push(match part {
                        FStringPart::Text(text) => Val::literal(&Literal::Str(text.clone())),
                        FStringPart::Value { value, conversion: None, spec } if spec.is_empty() => {
                            self.expr(value)?
                        }
                        FStringPart::Value { value, .. } => {
                            return self.refuse_at(
                                value.span,
                                "kernels have no format specs and conversions",
                                "format in host code, or write the value alone: {x}",
                            );
                        }
                    });
                }
                Ok(self.text(vals))
            }
            S::Set(_) => {
                self.refuse("sets are not supported in kernels", "use a sorted array or a mask")
            }
            S::Dict(_) => self.refuse(
                "dicts are not supported in kernels",
                "use arrays, or a structref with fields",
            ),
            S::Comprehension(_) => self.refuse(
                "comprehensions are not supported in kernels",
                "make an array with np.empty and fill it in a loop",
            ),
            S::Yield(_) => self.refuse(
                "generators are not supported in kernels",
                "fill an array that the caller passes",
            ),
        }
    }

    /// `str` of each, joined. Of what is neither string, integer nor bool Numba knows the type alone.
    pub(super) fn text(&mut self, vals: Vec<Val>) -> Val {
        let mut parts: Vec<Expr> = Vec::new();
        let mut known = String::new();
        for val in vals {
            let val = self.unwrap(val);
            match (&val, val.known()) {
                (_, Some(Literal::Str(text))) => known.push_str(text),
                (_, Some(literal @ (Literal::Int(_) | Literal::UInt(_) | Literal::Bool(_)))) => {
                    known.push_str(&literal.to_string());
                }
                (Val::Run { ty: Ty::Str | Ty::Bool | Ty::Int(_), .. }, _) => {
                    if !known.is_empty() {
                        parts.push(Expr::str(&std::mem::take(&mut known)));
                    }
                    let Val::Run { ty, expr, .. } = val else { continue };
                    parts.push(match ty {
                        Ty::Int(IntTy { signed: true, .. }) => expr.cast(ir::Type::I64),
                        Ty::Int(_) => expr.cast(ir_type(&Ty::U64)),
                        _ => expr,
                    });
                }
                (val, _) => known.push_str(&format!("<object type:{}>", val.describe())),
            }
        }
        if parts.is_empty() {
            return Val::literal(&Literal::Str(known.as_str().into()));
        }
        if !known.is_empty() {
            parts.push(Expr::str(&known));
        }
        Val::run(Ty::Str, Expr::new(ExprKind::Text(parts), ir::Type::Str))
    }

    fn constant_value(&mut self, constant: &Folded, span: Span) -> Res<Val> {
        Ok(match *constant {
            Folded::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => Val::int(value),
                (_, Ok(value)) => Val::literal(&Literal::UInt(value)),
                _ => {
                    return self.refuse_at(
                        span,
                        "this integer does not fit in 64 bits",
                        "use a float, or a smaller number",
                    );
                }
            },
            Folded::Float(value) => Val::literal(&Literal::Float(value)),
            Folded::Complex(re, im) => Val::literal(&Literal::Complex(re, im)),
        })
    }

    /// What a name stands for where it is read.
    pub(super) fn name(&mut self, name: &Name, span: Span) -> Res<Val> {
        let mut frame = self.frame;
        loop {
            if self.frames[frame].function.scope.locals.contains(name) {
                let variable = self.variable(frame, name);
                return self.read(variable, name, span);
            }
            match self.frames[frame].parent {
                Some(parent) => frame = parent,
                None => break,
            }
        }
        match self.frames[frame].scope.clone() {
            Scope::Prelude => super::prelude::lookup(name).map_or_else(
                || self.refuse_at(span, format!("the name `{name}` is not defined"), "define it"),
                Ok,
            ),
            Scope::Kernel(def) => match self.world.free(&def, name)? {
                Some(value) => self.host(&value, name, span),
                None => self.refuse_at(
                    span,
                    format!("the name `{name}` is not defined"),
                    "define or import it at module level",
                ),
            },
        }
    }

    fn read(&mut self, variable: usize, name: &Name, span: Span) -> Res<Val> {
        use super::val::Slot;
        Ok(match self.slot(variable) {
            Slot::Run(ty, local, literal) => {
                let expr = self.ir.get(local);
                match ty {
                    Ty::None => Val::none(),
                    ty => Val::Run { ty, expr, literal },
                }
            }
            Slot::Known(val) => val,
            Slot::Unset => {
                if self.in_loop() {
                    self.unset_reads.push((variable, span));
                    return Err(Stop::Unknown);
                }
                return self.unset(name, span);
            }
            Slot::Conflict(a, b) => {
                return self.refuse_at(
                    span,
                    format!(
                        "`{name}` is {a} on one path and {b} on another, which no one type holds"
                    ),
                    "use another name on one of the paths",
                );
            }
        })
    }

    /// A host value as kernels see it.
    pub(super) fn host(&mut self, value: &Value, name: &str, span: Span) -> Res<Val> {
        let mut arrays: Vec<(Ty, ConstantId)> = Vec::new();
        collect_arrays(value, &mut |array| arrays.push(self.array_constant(array)));
        let mut arrays = arrays.into_iter();
        let fallback = (Ty::None, ConstantId(0));
        match of_host(value, |_| arrays.next().unwrap_or_else(|| fallback.clone())) {
            Some(val) => Ok(val),
            None => self.refuse_at(
                span,
                format!("kernels cannot use the value of `{name}`"),
                "use numbers, strings, tuples, arrays, kernels, types or modules",
            ),
        }
    }

    /// An array that is captured, as a constant.
    fn array_constant(&mut self, array: &Array) -> (Ty, ConstantId) {
        let fortran = !array.is_c_contiguous() && array.is_f_contiguous();
        let bytes = if fortran { array.transposed().to_bytes() } else { array.to_bytes() };
        let ty = Ty::Array(Arc::new(ArrayTy {
            dtype: array.dtype().ty(),
            ndim: array.ndim() as u8,
            layout: if fortran { Layout::F } else { Layout::C },
            readonly: true,
        }));
        let mut hasher = blake3::Hasher::new();
        hasher.update(ty.to_string().as_bytes());
        for length in array.shape() {
            hasher.update(&(*length as u64).to_le_bytes());
        }
        hasher.update(&bytes);
        let name = format!("array-{}", hasher.finalize().to_hex());
        let position = self.ir.constants.iter().position(|constant| constant.name == name);
        let id = position.unwrap_or_else(|| {
            if let ir::Type::Array(ty) = ir_type(&ty) {
                let shape = array.shape().iter().map(|length| *length as u64).collect();
                self.ir.constants.push(ir::ArrayConstant { name, ty, shape, bytes: bytes.into() });
            }
            self.ir.constants.len() - 1
        });
        (ty, ConstantId(id as u32))
    }

    /// The value as one that the running program can hold.
    pub(super) fn materialise(&mut self, val: Val) -> Res<(Ty, Expr)> {
        match val {
            Val::Run { ty, expr, .. } => Ok((ty, expr)),
            Val::Tuple(items) => {
                let mut types = Vec::new();
                let mut exprs = Vec::new();
                for item in items {
                    let (ty, expr) = self.materialise(item)?;
                    types.push(ty);
                    exprs.push(expr);
                }
                let ty = Ty::tuple(types);
                let ir = ir_type(&ty);
                Ok((ty, Expr::new(ExprKind::Tuple(exprs), ir)))
            }
            other => self.refuse(
                format!("{} is no value that a running kernel can hold", other.describe()),
                "call it or index it where it stands",
            ),
        }
    }

    /// The value cast to a type.
    pub(super) fn coerce(&mut self, val: Val, to: &Ty, span: Span) -> Res<Expr> {
        let (ty, expr) = self.materialise(val)?;
        let target = ir_type(to);
        if !ir::can_cast(&expr.ty, &target) {
            return self.refuse_at(
                span,
                format!("{ty} cannot become {to}"),
                "convert it explicitly",
            );
        }
        Ok(expr.cast(target))
    }

    /// An `int64` of an integer or bool.
    pub(super) fn index(&mut self, val: Val, span: Span) -> Res<Expr> {
        let val = self.unwrap(val);
        match &val {
            Val::Run { ty: Ty::Int(_) | Ty::Bool, expr, .. } => {
                Ok(expr.clone().cast(ir::Type::I64))
            }
            other => self.refuse_at(
                span,
                format!("an integer is needed here, not {}", other.describe()),
                "convert it with int(...)",
            ),
        }
    }

    /// What an optional value holds; `None` raises when it runs.
    pub(super) fn unwrap(&mut self, val: Val) -> Val {
        match val {
            Val::Run { ty: Ty::Optional(inner), expr, .. } => {
                let expr = expr.cast(ir_type(&inner));
                self.val_of(&inner, expr)
            }
            other => other,
        }
    }
}

/// The arrays inside of a host value, in the order in which [`of_host`] meets them.
fn collect_arrays(value: &Value, found: &mut dyn FnMut(&Array)) {
    match value {
        Value::Array(array) => found(array),
        Value::Tuple(items) => items.iter().for_each(|item| collect_arrays(item, found)),
        _ => {}
    }
}

pub(super) fn is_array(val: &Val) -> bool {
    matches!(val, Val::Run { ty: Ty::Array(_), .. })
}
