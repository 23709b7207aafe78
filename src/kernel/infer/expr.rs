//! Expressions: names, operators, comparisons, conditions, attributes.

use std::sync::Arc;

use super::val::{Val, ir_type, of_host};
use super::walk::{Res, Scope, Stop, Walker, literal_bool, runs};
use crate::kernel::array::Array;
use crate::kernel::ir::{self, BinaryOp as Op, ConstantId, Expr, ExprKind, OnZero, StmtKind};
use crate::kernel::rules::{self, Rule};
use crate::kernel::runtime::stack::deep;
use crate::kernel::syntax::{
    self, BinaryOp, CompareOp, ExprKind as S, FStringPart, LogicOp, Name, Span, UnaryOp,
};
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

    /// Whether a value counts as true: known, or a `Bool`.
    pub(super) fn truth(&mut self, val: Val) -> Res<Result<bool, Expr>> {
        if let Some(known) = val.known().and_then(literal_bool) {
            return Ok(Ok(known));
        }
        Ok(match val {
            Val::Run { ty: Ty::Optional(inner), expr, .. } => {
                let expr = self.bind_expr(expr);
                let held = expr.clone().cast(ir_type(&inner));
                let held = match self.truth(Val::run((*inner).clone(), held))? {
                    Ok(known) => Expr::bool(known),
                    Err(expr) => expr,
                };
                let none = Expr::new(ExprKind::IsNone(Box::new(expr)), ir::Type::BOOL);
                Err(if_else(none, Expr::bool(false), held))
            }
            Val::Run { ty, expr, .. } if ty.is_number() => Err(expr.cast(ir::Type::BOOL)),
            Val::Run { ty: Ty::Tuple(items), .. } => Ok(!items.is_empty()),
            Val::Run { ty: Ty::Str, expr, .. } => {
                let length = Expr::new(ExprKind::StrLen(Box::new(expr)), ir::Type::I64);
                Err(length.cast(ir::Type::BOOL))
            }
            Val::Tuple(items) => Ok(!items.is_empty()),
            Val::Run { ty: Ty::Array(_), .. } => {
                return self.refuse(
                    "an array is neither true nor false",
                    "use np.any(...) or np.all(...)",
                );
            }
            other => {
                return self.refuse(
                    format!("{} is neither true nor false", other.describe()),
                    "compare it",
                );
            }
        })
    }

    fn condition(&mut self, val: Val) -> Res<Val> {
        Ok(match self.truth(val)? {
            Ok(known) => Val::literal(&Literal::Bool(known)),
            Err(expr) => Val::run(Ty::Bool, expr),
        })
    }

    fn logic(&mut self, op: LogicOp, values: &[syntax::Expr]) -> Res<Val> {
        let (first, rest) = match values {
            [last] => return self.expr(last),
            [first, rest @ ..] => (first, rest),
            [] => return Ok(Val::none()),
        };
        self.with_stmts(|walker| {
            let a = walker.expr(first)?;
            let a = walker.bind(a);
            let condition = match walker.truth(a.clone())? {
                Ok(known) if known == (op == LogicOp::And) => return walker.logic(op, rest),
                Ok(_) => return Ok(a),
                Err(condition) => condition,
            };
            let b = match walker.with_stmts(|walker| walker.logic(op, rest)) {
                Err(Stop::Unknown) => {
                    walker.unknowns += 1;
                    return Ok(a);
                }
                b => b?,
            };
            let (a_ty, a) = walker.materialise(a)?;
            let (b_ty, b) = walker.materialise(b)?;
            let Some(ty) = rules::unify(&a_ty, &b_ty) else {
                return walker.refuse(
                    format!("{a_ty} and {b_ty} have no type in common"),
                    "compare both, or use if",
                );
            };
            let ir = ir_type(&ty);
            let (a, b) = (a.cast(ir.clone()), b.cast(ir));
            let expr = match op {
                LogicOp::And => if_else(condition, b, a),
                LogicOp::Or => if_else(condition, a, b),
            };
            Ok(Val::run(ty, expr))
        })
    }

    fn if_else(
        &mut self,
        test: &syntax::Expr,
        body: &syntax::Expr,
        orelse: &syntax::Expr,
    ) -> Res<Val> {
        let test = self.expr(test)?;
        let condition = match self.truth(test)? {
            Ok(true) => return self.expr(body),
            Ok(false) => return self.expr(orelse),
            Err(condition) => condition,
        };
        let a = self.with_stmts(|walker| walker.expr(body));
        let b = self.with_stmts(|walker| walker.expr(orelse));
        let (a, b) = match (a, b) {
            // As with the returns of an if: what is known so far is enough to find out the rest.
            (Ok(known), Err(Stop::Unknown)) | (Err(Stop::Unknown), Ok(known)) => {
                self.unknowns += 1;
                return Ok(known);
            }
            (a, b) => (a?, b?),
        };
        if !runs(&a) && a.same(&b) {
            return Ok(a);
        }
        if !runs(&a) || !runs(&b) {
            return self.refuse(
                format!(
                    "{} and {} cannot be chosen between when the kernel runs",
                    a.describe(),
                    b.describe()
                ),
                "call each in its own branch of an if",
            );
        }
        let (a_ty, a) = self.materialise(a)?;
        let (b_ty, b) = self.materialise(b)?;
        let Some(ty) = rules::unify(&a_ty, &b_ty) else {
            return self.refuse(
                format!("{a_ty} and {b_ty} have no type in common"),
                "convert one of them",
            );
        };
        let ir = ir_type(&ty);
        Ok(Val::run(ty, if_else(condition, a.cast(ir.clone()), b.cast(ir))))
    }

    fn chain(&mut self, left: Val, rest: &[(CompareOp, syntax::Expr)], span: Span) -> Res<Val> {
        let [(op, right), rest @ ..] = rest else { return Ok(left) };
        if rest.is_empty() {
            let right = self.expr(right)?;
            return self.compare(*op, left, right, span);
        }
        let left = self.bind(left);
        let right = self.expr(right)?;
        let right = self.bind(right);
        let first = self.compare(*op, left, right.clone(), span)?;
        let condition = match self.truth(first)? {
            Ok(false) => return Ok(Val::literal(&Literal::Bool(false))),
            Ok(true) => return self.chain(right, rest, span),
            Err(condition) => condition,
        };
        let tail = self.with_stmts(|walker| {
            let tail = walker.chain(right, rest, span)?;
            walker.condition(tail)
        })?;
        let (_, tail) = self.materialise(tail)?;
        Ok(Val::run(Ty::Bool, if_else(condition, tail, Expr::bool(false))))
    }

    // ---- operators ----

    fn zero(&self) -> OnZero {
        if self.options().numpy_errors { OnZero::Value } else { OnZero::Raise }
    }

    pub(super) fn unary(&mut self, op: UnaryOp, val: Val, span: Span) -> Res<Val> {
        if op == UnaryOp::Not {
            return Ok(match self.truth(val)? {
                Ok(known) => Val::literal(&Literal::Bool(!known)),
                Err(expr) => Val::run(Ty::Bool, Expr::unary(ir::UnaryOp::Not, expr)),
            });
        }
        let val = self.unwrap(val);
        if let Val::Run { ty: Ty::Array(_), .. } = &val
            && let Some(name) = rules::ufunc_of_unary(op)
            && self.elementwise_operand(&val)
        {
            return self.array_expression(name, vec![val], span, |types, mut elements| {
                let rule = rules::unary(op, &types[0])?;
                let value = scalar_unary(op, &types[0], elements.pop()?, &rule);
                Some((rule.result, value))
            });
        }
        if op == UnaryOp::Minus
            && let Some(Literal::Int(value)) = val.known()
            && let Some(value) = value.checked_neg()
        {
            return Ok(Val::int(value));
        }
        if let Val::Run { ty, expr, .. } = &val
            && let Some(rule) = rules::unary(op, ty)
        {
            let value = scalar_unary(op, ty, expr.clone(), &rule);
            return Ok(Val::run(rule.result, value));
        }
        self.refuse_at(
            span,
            format!("there is no `{}` of {}", op.symbol(), val.describe()),
            "use numbers or arrays of them",
        )
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: Val, b: Val, span: Span) -> Res<Val> {
        let (a, b) = (self.unwrap(a), self.unwrap(b));
        if is_array(&a) || is_array(&b) {
            if op == BinaryOp::MatMul {
                return self.builtin("numpy.dot", vec![a, b], Vec::new(), span);
            }
            if let Some(name) = rules::ufunc_of_binary(op)
                && self.elementwise_operand(&a)
                && self.elementwise_operand(&b)
            {
                let exponent = b.known_int();
                return self.array_expression(name, vec![a, b], span, |types, elements| {
                    let rule = rules::binary(op, &types[0], &types[1])?;
                    let [x, y] = <[Expr; 2]>::try_from(elements).ok()?;
                    let value = scalar_binary(op, x, y, exponent, &rule, OnZero::Value);
                    Some((rule.result, value))
                });
            }
        }
        if let (Val::Run { ty: a_ty, expr: x, .. }, Val::Run { ty: b_ty, expr: y, .. }) = (&a, &b)
            && let Some(rule) = rules::binary(op, a_ty, b_ty)
        {
            let expr = scalar_binary(op, x.clone(), y.clone(), b.known_int(), &rule, self.zero());
            return Ok(Val::run(rule.result, expr));
        }
        if op == BinaryOp::Add {
            if let (Some(x), Some(y)) = (a.known_str(), b.known_str()) {
                return Ok(Val::literal(&Literal::Str(format!("{x}{y}").into())));
            }
            if let (Val::Run { ty: Ty::Str, .. }, Val::Run { ty: Ty::Str, .. }) = (&a, &b) {
                return Ok(self.text(vec![a, b]));
            }
            let (a, b) = (self.items(a), self.items(b));
            match (a, b) {
                (Ok(mut a), Ok(b)) => {
                    a.extend(b);
                    return Ok(Val::Tuple(a));
                }
                (a, b) => {
                    let (a, b) =
                        (a.unwrap_or_else(|val| vec![val]), b.unwrap_or_else(|val| vec![val]));
                    let (a, b) = (a.first().map(Val::describe), b.first().map(Val::describe));
                    return self.refuse_at(
                        span,
                        format!(
                            "there is no `+` of {} and {}",
                            a.unwrap_or_default(),
                            b.unwrap_or_default()
                        ),
                        "convert one of them",
                    );
                }
            }
        }
        if op == BinaryOp::Mul
            && let (Val::Tuple(_) | Val::Run { ty: Ty::Tuple(_), .. }, Some(times)) =
                (&a, b.known_int())
            && let Ok(items) = self.items(a.clone())
            && times < 1000
        {
            let items: Vec<Val> = items.into_iter().map(|item| self.bind(item)).collect();
            return Ok(Val::Tuple((0..times.max(0)).flat_map(|_| items.clone()).collect()));
        }
        self.operator_overload(binary_name(op), op.symbol(), vec![a, b], span)
    }

    /// An operator that an `@overload` of `operator.NAME` gives a meaning to.
    fn operator_overload(
        &mut self,
        name: &'static str,
        symbol: &str,
        args: Vec<Val>,
        span: Span,
    ) -> Res<Val> {
        let function = Value::Builtin(crate::kernel::value::Builtin(name));
        if let Some(val) = self.try_overload(&function, &args, &[], span)? {
            return Ok(val);
        }
        let types: Vec<String> = args.iter().map(Val::describe).collect();
        self.refuse_at(
            span,
            format!("there is no `{symbol}` of {}", types.join(" and ")),
            "convert one of them",
        )
    }

    pub(super) fn compare(&mut self, op: CompareOp, a: Val, b: Val, span: Span) -> Res<Val> {
        use CompareOp as C;
        let negated = matches!(op, C::Ne | C::IsNot | C::NotIn);
        if matches!(op, C::In | C::NotIn) {
            let found = self.contains(b, a, span)?;
            return if negated { self.unary(UnaryOp::Not, found, span) } else { Ok(found) };
        }
        if matches!(op, C::Is | C::IsNot | C::Eq | C::Ne) && (a.is_none() || b.is_none()) {
            let other = if a.is_none() { b } else { a };
            let is_none = match other {
                Val::Run { ty: Ty::None, .. } => Val::literal(&Literal::Bool(true)),
                Val::Run { ty: Ty::Optional(_), expr, .. } => {
                    Val::run(Ty::Bool, Expr::new(ExprKind::IsNone(Box::new(expr)), ir::Type::BOOL))
                }
                _ => Val::literal(&Literal::Bool(false)),
            };
            return if negated { self.unary(UnaryOp::Not, is_none, span) } else { Ok(is_none) };
        }
        if matches!(op, C::Is | C::IsNot) {
            return match (&a, &b) {
                (Val::Run { ty: Ty::Bool, .. }, Val::Run { ty: Ty::Bool, .. }) => {
                    self.compare(if negated { C::Ne } else { C::Eq }, a, b, span)
                }
                (Val::Run { .. } | Val::Tuple(_), _) | (_, Val::Run { .. } | Val::Tuple(_)) => {
                    self.refuse_at(span, "`is` compares only with None in kernels", "write `==`")
                }
                _ => Ok(Val::literal(&Literal::Bool(a.same(&b) != negated))),
            };
        }
        let (a, b) = (self.unwrap(a), self.unwrap(b));
        if (is_array(&a) || is_array(&b))
            && let Some(name) = rules::ufunc_of_compare(op)
            && self.elementwise_operand(&a)
            && self.elementwise_operand(&b)
        {
            return self.array_expression(name, vec![a, b], span, |types, elements| {
                let rule = rules::compare(op, &types[0], &types[1])?;
                let [x, y] = <[Expr; 2]>::try_from(elements).ok()?;
                let ir = ir_type(&rule.operands[0]);
                Some((Ty::Bool, Expr::binary(compare_op(op), x.cast(ir.clone()), y.cast(ir))))
            });
        }
        if let (Some(x), Some(y)) = (a.known(), b.known())
            && let Some(known) = compare_literals(op, x, y)
        {
            return Ok(Val::literal(&Literal::Bool(known)));
        }
        let ir_op = compare_op(op);
        if let (Val::Run { ty: a_ty, expr: x, .. }, Val::Run { ty: b_ty, expr: y, .. }) = (&a, &b) {
            if let Some(rule) = rules::compare(op, a_ty, b_ty) {
                let ir = ir_type(&rule.operands[0]);
                let expr = Expr::binary(ir_op, x.clone().cast(ir.clone()), y.clone().cast(ir));
                return Ok(Val::run(Ty::Bool, expr));
            }
            if *a_ty == Ty::Str && *b_ty == Ty::Str && matches!(op, C::Eq | C::Ne) {
                return Ok(Val::run(Ty::Bool, Expr::binary(ir_op, x.clone(), y.clone())));
            }
        }
        let is_tuple = |val: &Val| matches!(val, Val::Tuple(_) | Val::Run { ty: Ty::Tuple(_), .. });
        if is_tuple(&a) && is_tuple(&b) {
            return self.compare_tuples(op, a, b, span);
        }
        let name = match op {
            C::Eq => "_operator.eq",
            C::Ne => "_operator.ne",
            C::Lt => "_operator.lt",
            C::Le => "_operator.le",
            C::Gt => "_operator.gt",
            _ => "_operator.ge",
        };
        self.operator_overload(name, op.symbol(), vec![a, b], span)
    }

    /// Tuples are ordered by the first items that differ, else by their lengths.
    fn compare_tuples(&mut self, op: CompareOp, a: Val, b: Val, span: Span) -> Res<Val> {
        let (a, b) = (self.bind(a), self.bind(b));
        let (a, b) = (self.items(a).unwrap_or_default(), self.items(b).unwrap_or_default());
        let lengths = a.len().cmp(&b.len());
        let common = a.len().min(b.len());
        let by_length = match op {
            CompareOp::Eq => lengths.is_eq(),
            CompareOp::Ne => lengths.is_ne(),
            CompareOp::Lt => lengths.is_lt(),
            CompareOp::Le => lengths.is_le(),
            CompareOp::Gt => lengths.is_gt(),
            _ => lengths.is_ge(),
        };
        let by_length = Expr::bool(by_length);
        if matches!(op, CompareOp::Eq | CompareOp::Ne) && lengths.is_ne() {
            return Ok(Val::run(Ty::Bool, by_length));
        }
        let mut pairs = (Vec::new(), Vec::new());
        for (x, y) in a.into_iter().zip(b).take(common) {
            pairs.0.push(x);
            pairs.1.push(y);
        }
        let (a_ty, x) = self.materialise(Val::Tuple(pairs.0))?;
        let (b_ty, y) = self.materialise(Val::Tuple(pairs.1))?;
        let Some(met @ Ty::Tuple(_)) = rules::unify(&a_ty, &b_ty) else {
            return self.refuse_at(
                span,
                format!("{a_ty} and {b_ty} cannot be compared"),
                "compare their items",
            );
        };
        let ir = ir_type(&met);
        let (x, y) = (x.cast(ir.clone()), y.cast(ir));
        if lengths.is_eq() {
            return Ok(Val::run(Ty::Bool, Expr::binary(compare_op(op), x, y)));
        }
        let (x, y) = (self.bind_expr(x), self.bind_expr(y));
        let same = Expr::binary(Op::Eq, x.clone(), y.clone());
        Ok(Val::run(Ty::Bool, if_else(same, by_length, Expr::binary(compare_op(op), x, y))))
    }

    fn contains(&mut self, container: Val, item: Val, span: Span) -> Res<Val> {
        match container {
            Val::Run { ty: Ty::Array(_), .. } => self.prelude("contains", vec![container, item]),
            Val::Range(parts, _) => {
                let [start, stop, step] = *parts;
                let args = [start, stop, step].map(|part| Val::run(Ty::I64, part));
                let mut args = args.to_vec();
                args.push(item);
                self.prelude("range_contains", args)
            }
            container => {
                let item = self.bind(item);
                match self.items(container) {
                    Ok(items) => {
                        let mut found = Val::literal(&Literal::Bool(false));
                        for candidate in items {
                            let equal =
                                self.compare(CompareOp::Eq, candidate, item.clone(), span)?;
                            let (_, a) = self.materialise(found)?;
                            let (_, b) = self.materialise(equal)?;
                            found = Val::run(Ty::Bool, if_else(a, Expr::bool(true), b));
                        }
                        Ok(found)
                    }
                    Err(container) => self.refuse_at(
                        span,
                        format!("kernels cannot look into {}", container.describe()),
                        "use `in` with tuples, arrays and ranges",
                    ),
                }
            }
        }
    }

    // ---- attributes ----

    pub(super) fn get_attribute(&mut self, object: Val, name: &Name, span: Span) -> Res<Val> {
        match object {
            Val::Host(value) => match self.world.attribute(&value, name)? {
                Some(found) => self.host(&found, name, span),
                None => self.refuse_at(
                    span,
                    format!("there is no attribute `{name}`"),
                    "look at what the module defines",
                ),
            },
            Val::Builtin(module) => {
                // Only the prelude sees modules in this form.
                Ok(super::prelude::attribute(&module, name))
            }
            Val::Run { ty: Ty::Optional(_), .. } => {
                let held = self.unwrap(object);
                self.get_attribute(held, name, span)
            }
            Val::Run { ty, expr, literal } => {
                let whole = |ty: Ty, expr: Expr| Ok(Val::run(ty, expr));
                match (&ty, &**name) {
                    (Ty::Array(array), attribute) => {
                        let array = array.clone();
                        if let Some(val) = self.array_attribute(&array, expr.clone(), attribute)? {
                            return Ok(val);
                        }
                    }
                    (Ty::Record(record), _) => {
                        if let Some(field) =
                            record.fields.iter().position(|field| field.name == *name)
                        {
                            return Ok(self.record_field(record, expr, field));
                        }
                    }
                    (Ty::StructRef(structref), _) => {
                        if let Some((index, field)) = structref.field(name) {
                            let kind = ExprKind::Attribute(Box::new(expr), index as u32);
                            let expr = Expr::new(kind, ir_type(field));
                            let field = field.clone();
                            return Ok(self.val_of(&field, expr));
                        }
                    }
                    (Ty::Complex128, "real") => {
                        return whole(Ty::Float64, Expr::unary(ir::UnaryOp::Real, expr));
                    }
                    (Ty::Complex128, "imag") => {
                        return whole(Ty::Float64, Expr::unary(ir::UnaryOp::Imag, expr));
                    }
                    (Ty::Int(_) | Ty::Float32 | Ty::Float64 | Ty::Bool, "real") => {
                        return whole(ty, expr);
                    }
                    (Ty::Int(_) | Ty::Float32 | Ty::Float64 | Ty::Bool, "imag") => {
                        let zero = Expr::int(0).cast(ir_type(&ty));
                        return whole(ty, zero);
                    }
                    _ => {}
                }
                Ok(Val::Method(Box::new(Val::Run { ty, expr, literal }), name.clone()))
            }
            Val::DType(ty) if &**name == "type" => Ok(Val::Class(ty)),
            Val::DType(ty) if &**name == "itemsize" => {
                Ok(Val::int(ty.item_size().unwrap_or(0) as i64))
            }
            other => Ok(Val::Method(Box::new(other), name.clone())),
        }
    }

    pub(super) fn record_field(
        &mut self,
        record: &crate::kernel::types::RecordTy,
        expr: Expr,
        field: usize,
    ) -> Val {
        let ty = record.fields[field].ty.clone();
        let expr = Expr::new(ExprKind::Field(Box::new(expr), field as u32), ir_type(&ty));
        Val::run(ty, expr)
    }

    pub(super) fn set_attribute(
        &mut self,
        object: Val,
        name: &Name,
        val: Val,
        span: Span,
    ) -> Res<()> {
        let object = self.unwrap(object);
        match object {
            Val::Run { ty: Ty::Record(record), expr, .. } => {
                let Some(field) = record.fields.iter().position(|field| field.name == *name) else {
                    return self.refuse_at(
                        span,
                        format!("the record has no field `{name}`"),
                        fields_hint(record.fields.iter().map(|field| &*field.name)),
                    );
                };
                let value = self.coerce(val, &record.fields[field].ty, span)?;
                self.emit(StmtKind::SetField { record: expr, field: field as u32, value });
                Ok(())
            }
            Val::Run { ty: Ty::StructRef(structref), expr, .. } => {
                let Some((field, ty)) = structref.field(name) else {
                    return self.refuse_at(
                        span,
                        format!("{} has no field `{name}`", structref.class),
                        fields_hint(structref.fields.iter().map(|(field, _)| &**field)),
                    );
                };
                let value = self.coerce(val, ty, span)?;
                self.emit(StmtKind::SetAttribute { object: expr, field: field as u32, value });
                Ok(())
            }
            other => self.refuse_at(
                span,
                format!("`{name}` of {} cannot be set", other.describe()),
                "set fields of records and structrefs only",
            ),
        }
    }
}

fn fields_hint<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("its fields are {}", names.collect::<Vec<_>>().join(", "))
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

/// `a if condition else b`, of one type.
pub(super) fn if_else(condition: Expr, a: Expr, b: Expr) -> Expr {
    let ty = a.ty.clone();
    Expr::new(ExprKind::IfElse(Box::new(condition), Box::new(a), Box::new(b)), ty)
}

/// `op x` of a number by a rule. Integers are changed in their own width and widened then; bools are widened first.
fn scalar_unary(op: UnaryOp, ty: &Ty, x: Expr, rule: &Rule) -> Expr {
    let target = ir_type(&rule.result);
    let operand = if *ty == Ty::Bool { x.cast(target.clone()) } else { x };
    let value = match op {
        UnaryOp::Minus => Expr::unary(ir::UnaryOp::Neg, operand),
        UnaryOp::Invert => Expr::unary(ir::UnaryOp::Invert, operand),
        UnaryOp::Plus | UnaryOp::Not => operand,
    };
    value.cast(target)
}

fn binary_name(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "_operator.add",
        BinaryOp::Sub => "_operator.sub",
        BinaryOp::Mul => "_operator.mul",
        BinaryOp::Div => "_operator.truediv",
        BinaryOp::FloorDiv => "_operator.floordiv",
        BinaryOp::Mod => "_operator.mod",
        BinaryOp::Pow => "_operator.pow",
        BinaryOp::MatMul => "_operator.matmul",
        BinaryOp::Shl => "_operator.lshift",
        BinaryOp::Shr => "_operator.rshift",
        BinaryOp::BitAnd => "_operator.and_",
        BinaryOp::BitOr => "_operator.or_",
        BinaryOp::BitXor => "_operator.xor",
    }
}

fn compare_op(op: CompareOp) -> Op {
    match op {
        CompareOp::Eq => Op::Eq,
        CompareOp::Ne => Op::Ne,
        CompareOp::Lt => Op::Lt,
        CompareOp::Le => Op::Le,
        CompareOp::Gt => Op::Gt,
        _ => Op::Ge,
    }
}

fn compare_literals(op: CompareOp, a: &Literal, b: &Literal) -> Option<bool> {
    let order = match (a, b) {
        (Literal::Int(a), Literal::Int(b)) => a.cmp(b),
        (Literal::Str(a), Literal::Str(b)) => a.cmp(b),
        (Literal::Bool(a), Literal::Bool(b)) => a.cmp(b),
        _ => return None,
    };
    Some(match op {
        CompareOp::Eq => order.is_eq(),
        CompareOp::Ne => order.is_ne(),
        CompareOp::Lt => order.is_lt(),
        CompareOp::Le => order.is_le(),
        CompareOp::Gt => order.is_gt(),
        CompareOp::Ge => order.is_ge(),
        _ => return None,
    })
}

/// `a op b` of scalars by a rule. `exponent` is `b` where it is a known integer.
pub(super) fn scalar_binary(
    op: BinaryOp,
    a: Expr,
    b: Expr,
    exponent: Option<i64>,
    rule: &Rule,
    zero: OnZero,
) -> Expr {
    use BinaryOp as B;
    let result = ir_type(&rule.result);
    if op == B::Pow
        && rule.result != Ty::Complex128
        && let Some(exponent) = exponent
        && exponent.unsigned_abs() <= 0x10000
    {
        return Expr::new(
            ExprKind::PowConst(zero, Box::new(a.cast(result.clone())), exponent),
            result,
        );
    }
    let integers = rule.operands[0].is_int() || rule.operands[0] == Ty::Bool;
    let (a, b) = match op {
        // The result's type is that of the operation, except where floats take an integer exponent.
        B::Pow if !integers && rule.operands[1].is_int() => {
            let (a, b) = (a.cast(result), b.cast(ir::Type::I64));
            let ty = a.ty.clone();
            return Expr::new(ExprKind::Binary(Op::PowInt, Box::new(a), Box::new(b)), ty);
        }
        _ => (
            a.cast(ir_type(&rule.operands[0])).cast(result.clone()),
            b.cast(ir_type(&rule.operands[1])).cast(result),
        ),
    };
    let ir_op = match op {
        B::Add => Op::Add,
        B::Sub => Op::Sub,
        B::Mul | B::MatMul => Op::Mul,
        B::Div => Op::TrueDiv(zero),
        B::FloorDiv => Op::FloorDiv(zero),
        B::Mod => Op::Mod(zero),
        B::Pow => Op::Pow(zero),
        B::Shl => Op::Shl,
        B::Shr => Op::Shr,
        B::BitAnd => Op::And,
        B::BitOr => Op::Or,
        B::BitXor => Op::Xor,
    };
    Expr::binary(ir_op, a, b)
}

/// A constant that CPython folds before Numba sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Folded {
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

/// The value of an expression of number literals, as CPython's compiler folds it.
pub(super) fn fold(expr: &syntax::Expr) -> Option<Folded> {
    use Folded as F;
    match &expr.kind {
        S::Int(value) => Some(F::Int(*value)),
        S::Float(value) => Some(F::Float(*value)),
        S::Imaginary(value) => Some(F::Complex(0.0, *value)),
        S::Unary { op, value } => match (op, fold(value)?) {
            (UnaryOp::Minus, F::Int(value)) => Some(F::Int(-value)),
            (UnaryOp::Minus, F::Float(value)) => Some(F::Float(-value)),
            (UnaryOp::Minus, F::Complex(re, im)) => Some(F::Complex(-re, -im)),
            (UnaryOp::Plus, value) => Some(value),
            (UnaryOp::Invert, F::Int(value)) => Some(F::Int(!value)),
            _ => None,
        },
        S::Binary { left, op, right } => fold_binary(*op, fold(left)?, fold(right)?),
        _ => None,
    }
}

fn fold_binary(op: BinaryOp, a: Folded, b: Folded) -> Option<Folded> {
    use BinaryOp as B;
    use Folded as F;
    let float = |value: Folded| match value {
        F::Int(value) => Some(value as f64),
        F::Float(value) => Some(value),
        F::Complex(..) => None,
    };
    let complex = |value: Folded| match value {
        F::Complex(re, im) => (re, im),
        F::Int(value) => (value as f64, 0.0),
        F::Float(value) => (value, 0.0),
    };
    match (a, b) {
        (F::Int(a), F::Int(b)) => Some(match op {
            B::Add => F::Int(a.checked_add(b)?),
            B::Sub => F::Int(a.checked_sub(b)?),
            B::Mul => F::Int(a.checked_mul(b)?),
            B::Div if b != 0 => F::Float(a as f64 / b as f64),
            B::FloorDiv if b != 0 => {
                let floor = a.checked_div_euclid(b)?;
                F::Int(if b < 0 && a.checked_rem_euclid(b)? != 0 { floor - 1 } else { floor })
            }
            B::Mod if b != 0 => {
                let rest = a.checked_rem(b)?;
                F::Int(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
            }
            B::Pow if b >= 0 => F::Int(a.checked_pow(u32::try_from(b).ok()?)?),
            B::Pow if a != 0 => F::Float((a as f64).powf(b as f64)),
            B::Shl if (0..100).contains(&b) => F::Int(a.checked_mul(1i128.checked_shl(b as u32)?)?),
            B::Shr if (0..128).contains(&b) => F::Int(a >> b),
            B::BitAnd => F::Int(a & b),
            B::BitOr => F::Int(a | b),
            B::BitXor => F::Int(a ^ b),
            _ => return None,
        }),
        (F::Complex(..), _) | (_, F::Complex(..)) => {
            let ((a, b), (c, d)) = (complex(a), complex(b));
            Some(match op {
                B::Add => F::Complex(a + c, b + d),
                B::Sub => F::Complex(a - c, b - d),
                B::Mul => F::Complex(a * c - b * d, a * d + b * c),
                _ => return None,
            })
        }
        _ => {
            let (a, b) = (float(a)?, float(b)?);
            Some(match op {
                B::Add => F::Float(a + b),
                B::Sub => F::Float(a - b),
                B::Mul => F::Float(a * b),
                B::Div if b != 0.0 => F::Float(a / b),
                B::Pow if a > 0.0 || b.fract() == 0.0 && a != 0.0 => F::Float(a.powf(b)),
                _ => return None,
            })
        }
    }
}
