//! Operators: arithmetic, comparison, logic and choice.

use super::expr::is_array;
use super::val::{Val, ir_type};
use super::walk::{Res, Stop, Walker, runs};
use crate::kernel::ir::{self, BinaryOp as Op, Expr, ExprKind, OnZero};
use crate::kernel::rules::{self, Rule};
use crate::kernel::syntax::{self, BinaryOp, CompareOp, LogicOp, Span, UnaryOp};
use crate::kernel::types::{Literal, Ty};
use crate::kernel::value::Value;

impl Walker<'_> {
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

    pub(super) fn logic(&mut self, op: LogicOp, values: &[syntax::Expr]) -> Res<Val> {
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

    pub(super) fn if_else(
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

    pub(super) fn chain(
        &mut self,
        left: Val,
        rest: &[(CompareOp, syntax::Expr)],
        span: Span,
    ) -> Res<Val> {
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

    pub(super) fn contains(&mut self, container: Val, item: Val, span: Span) -> Res<Val> {
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

/// Whether a known value counts as true.
pub(super) fn literal_bool(literal: &Literal) -> Option<bool> {
    Some(match literal {
        Literal::None => false,
        Literal::Bool(value) => *value,
        Literal::Int(value) => *value != 0,
        Literal::UInt(value) => *value != 0,
        Literal::Str(text) => !text.is_empty(),
        _ => return None,
    })
}
