//! Assignment: to names, items, fields and tuples of them, also with an operator.

use super::val::{Val, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{self, Expr, ExprKind, StmtKind};
use crate::kernel::syntax::{self, BinaryOp, ExprKind as S, Span};
use crate::kernel::types::Ty;

impl<'w> Walker<'w> {
    /// `target = val`.
    pub(super) fn assign(&mut self, target: &syntax::Expr, val: Val) -> Res<()> {
        match &target.kind {
            S::Name(name) => {
                let variable = self.variable(self.frame, name);
                self.assign_variable(variable, val)
            }
            S::Tuple(targets) | S::List(targets) => {
                let items = self.unpack(val, targets, target.span)?;
                for (target, item) in targets.iter().zip(items) {
                    let target = match &target.kind {
                        S::Starred(inner) => inner,
                        _ => target,
                    };
                    self.assign(target, item)?;
                }
                Ok(())
            }
            S::Subscript { value, index } => {
                let val = self.bind(val);
                let array = self.expr(value)?;
                let index = self.subscript(index)?;
                self.set_item(array, index, val, target.span)
            }
            S::Attribute { value, name, .. } => {
                let val = self.bind(val);
                let object = self.expr(value)?;
                self.set_attribute(object, name, val, target.span)
            }
            _ => self.refuse_at(
                target.span,
                "kernels cannot assign to this",
                "assign to a name, an item or a field",
            ),
        }
    }

    /// The items for each of `targets`, in locals of their own.
    fn unpack(&mut self, val: Val, targets: &[syntax::Expr], span: Span) -> Res<Vec<Val>> {
        let star = targets.iter().position(|target| matches!(target.kind, S::Starred(_)));
        let items = match val {
            val @ (Val::Run { ty: Ty::Array(_), .. } | Val::Range(..)) if star.is_none() => {
                self.unpack_running(val, targets.len())
            }
            val => match self.items(val) {
                Ok(items) => items,
                Err(val) => {
                    return self.refuse_at(
                        span,
                        format!("{} cannot be unpacked", val.describe()),
                        "unpack a tuple",
                    );
                }
            },
        };
        let enough = match star {
            Some(_) => items.len() + 1 >= targets.len(),
            None => items.len() == targets.len(),
        };
        if !enough {
            return self.refuse_at(
                span,
                format!("{} names for a tuple of {} items", targets.len(), items.len()),
                "name as many as there are",
            );
        }
        let mut items: Vec<Val> = items.into_iter().map(|item| self.hold(item)).collect();
        if let Some(star) = star {
            let rest = items.len() + 1 - targets.len();
            let middle: Vec<Val> = items.drain(star..star + rest).collect();
            items.insert(star, Val::Tuple(middle));
        }
        Ok(items)
    }

    /// The items of something whose length is known when the kernel runs: a `ValueError` if there are not `count`.
    fn unpack_running(&mut self, val: Val, count: usize) -> Vec<Val> {
        let val = self.iterable(val);
        let length = self.iter_length(&val).unwrap_or_else(|| Expr::int(0));
        let differs = Expr::binary(ir::BinaryOp::Ne, length, Expr::int(count as i64));
        let raise = ir::Raise { class: "ValueError".into(), args: Vec::new() };
        let otherwise = vec![StmtKind::Raise(raise).into()];
        self.emit(StmtKind::If(differs, otherwise, Vec::new()));
        (0..count).map(|at| self.iter_item(&val, &Expr::int(at as i64))).collect()
    }

    /// The items of a tuple, or the value if it is none.
    pub(super) fn items(&mut self, val: Val) -> Result<Vec<Val>, Val> {
        match val {
            Val::Tuple(items) => Ok(items),
            Val::Run { ty: Ty::Tuple(types), expr, .. } => {
                let expr = self.bind_expr(expr);
                Ok(self.items_of(&types, &expr))
            }
            other => Err(other),
        }
    }

    /// The items of a tuple of these types, whose running part is `expr`.
    fn items_of(&mut self, types: &[Ty], expr: &Expr) -> Vec<Val> {
        let item = |(index, ty): (usize, &Ty)| {
            let kind = ExprKind::Item(Box::new(expr.clone()), index as u32);
            self.val_of(ty, Expr::new(kind, ir_type(ty)))
        };
        types.iter().enumerate().map(item).collect()
    }

    /// What a value of type `ty` is, whose running part is `expr`.
    pub(super) fn val_of(&mut self, ty: &Ty, expr: Expr) -> Val {
        match ty {
            Ty::Literal(literal) => {
                Val::Run { ty: literal.ty(), expr, literal: Some(literal.clone()) }
            }
            Ty::Omitted(literal) => Val::literal(literal),
            Ty::None => Val::none(),
            Ty::Function(function) => Val::Kernel(function.0.clone()),
            Ty::Class(of) => Val::Class((**of).clone()),
            Ty::DType(of) => Val::DType((**of).clone()),
            Ty::Tuple(items) | Ty::StarArgs(items) if !items.iter().all(has_lanes) => {
                Val::Tuple(self.items_of(items, &expr))
            }
            Ty::StarArgs(items) => Val::run(Ty::Tuple(items.clone()), expr),
            other => Val::run(other.clone(), expr),
        }
    }

    /// `target op= value`.
    pub(super) fn augment(
        &mut self,
        target: &syntax::Expr,
        op: BinaryOp,
        value: &syntax::Expr,
    ) -> Res<()> {
        match &target.kind {
            S::Name(name) => {
                let current = self.name(name, target.span)?;
                let val = self.expr(value)?;
                if let Val::Run { ty: Ty::Array(_), .. } = &current {
                    return self.update_view(current, op, val, target.span);
                }
                let val = self.binary(op, current, val, target.span.to(value.span))?;
                self.assign(target, val)
            }
            S::Subscript { value: array, index } => {
                let array = self.expr(array)?;
                let array = self.bind(array);
                let index = self.subscript(index)?;
                let index = self.bind(index);
                let current = self.get_item(array.clone(), index.clone(), target.span)?;
                let val = self.expr(value)?;
                if let Val::Run { ty: Ty::Array(_), .. } = &current {
                    if self.is_mask(&index) {
                        let val = self.binary(op, current, val, target.span.to(value.span))?;
                        return self.set_item(array, index, val, target.span);
                    }
                    return self.update_view(current, op, val, target.span);
                }
                let val = self.binary(op, current, val, target.span.to(value.span))?;
                self.set_item(array, index, val, target.span)
            }
            S::Attribute { value: object, name, .. } => {
                let object = self.expr(object)?;
                let object = self.bind(object);
                let current = self.get_attribute(object.clone(), name, target.span)?;
                let val = self.expr(value)?;
                let val = self.binary(op, current, val, target.span.to(value.span))?;
                self.set_attribute(object, name, val, target.span)
            }
            _ => self.refuse_at(
                target.span,
                "kernels cannot assign to this",
                "assign to a name, an item or a field",
            ),
        }
    }
}

/// Whether all of a value of this type exists when the program runs.
pub(super) fn has_lanes(ty: &Ty) -> bool {
    match ty {
        Ty::Tuple(items) | Ty::StarArgs(items) => items.iter().all(has_lanes),
        Ty::Function(_) | Ty::Class(_) | Ty::DType(_) | Ty::Omitted(_) | Ty::Literal(_) => false,
        _ => true,
    }
}
