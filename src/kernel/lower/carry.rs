//! Elements that one round of a loop stores and the next one reads: they stay in a register.
//!
//! ```text
//!   for j in range(n):                        t = a[0]
//!       a[j + 1] = f(a[j], b[j])     ──►      for j in range(n):
//!                                                 t = f(t, b[j]); a[j + 1] = t
//! ```
//!
//! A load waits for the store before it, which takes longer than most of what lies between the two in such a recurrence.
//! It works where the store is the only thing in the loop that changes memory and ends each round, and where both indices
//! are known to be in range for all rounds.

use cranelift_codegen::ir::Value;
use cranelift_frontend::Variable;

use super::facts::{counters, each_assigned, each_expr, each_stmt, is_innermost, steps};
use super::r#gen::Gen;
use super::scalar::clif;
use super::visit::expr_children;
use crate::kernel::ir::{
    Access, BinaryOp, Const, Element, Element1, Expr, ExprKind, For, LocalId, Scalar, Stmt,
    StmtKind,
};

/// An element that is carried.
pub(super) struct Carried<'a> {
    load: &'a Element1,
    store: &'a Element1,
    scalar: Scalar,
    variable: Variable,
}

impl<'a> Gen<'a, '_> {
    /// What a loop can carry, whose indices are known to be in range as far as that can be known.
    pub(super) fn carries(&mut self, rounds: &'a For) -> Vec<Carried<'a>> {
        let Some(store) = only_store(rounds) else { return Vec::new() };
        let mut assigned = Vec::new();
        each_assigned(&rounds.body, &mut |local| assigned.push(local));
        let counters = counters(rounds, &assigned);
        let ExprKind::Local(array) = store.array.kind else { return Vec::new() };
        let holds = &store.array.ty.as_array().expect("checked").element;
        let Element::Scalar(scalar) = *holds else { return Vec::new() };
        if scalar == Scalar::C128 || assigned.contains(&array) {
            return Vec::new();
        }
        let mut loads: Vec<&'a Element1> = Vec::new();
        each_expr(&rounds.body, &mut |expr| {
            if let ExprKind::Element(load) = &expr.kind
                && load.array == store.array
                && is_one_before(load, store, &counters, &assigned)
                && !loads.contains(&&**load)
            {
                loads.push(load);
            }
        });
        let before = self.facts.enter(rounds);
        self.note_counter(rounds);
        loads.retain(|load| self.is_in_range(load) && self.is_in_range(store));
        self.facts.end(before);
        let carried =
            |load| Carried { load, store, scalar, variable: self.b.declare_var(clif(scalar)) };
        loads.into_iter().map(carried).collect()
    }

    /// Lets facts know of the copy of the counter that a body may begin with.
    pub(super) fn note_counter(&mut self, rounds: &For) {
        if let Some(StmtKind::Assign(local, value)) = rounds.body.first().map(|it| &it.kind) {
            self.facts.assign(*local, value);
        }
    }

    /// Whether no index of an element needs a check.
    pub(super) fn is_in_range(&self, element: &Element1) -> bool {
        let mut indices = element.indices.iter().enumerate();
        element.access == Access::InRange
            || indices.all(|(axis, index)| {
                let known = self.facts.index(&element.array, axis as u32, index);
                known.below && known.not_negative
            })
    }

    /// Lets the locals that hold a loop's counter be this.
    pub(super) fn set_counter(&mut self, rounds: &For, value: Value) {
        let mut assigned = Vec::new();
        each_assigned(&rounds.body, &mut |local| assigned.push(local));
        for local in counters(rounds, &assigned) {
            let ty = self.local_type(local).scalar().expect("checked: an integer");
            let value = self.cast_scalar(Scalar::I64, ty, &[value]);
            self.set_vars(local, &value);
        }
    }

    /// Reads what the first round of a loop is handed; there is one.
    pub(super) fn carry_first(&mut self, rounds: &'a For, start: Value) {
        if self.carried.is_empty() {
            return;
        }
        let before = self.facts.enter(rounds);
        self.note_counter(rounds);
        self.set_counter(rounds, start);
        let carried = std::mem::take(&mut self.carried);
        for it in &carried {
            let address = self.address_of(it.load);
            let value = self.load_scalar(it.scalar, address, 0)[0];
            self.b.def_var(it.variable, value);
        }
        self.carried = carried;
        self.facts.end(before);
    }

    /// The value of an element, if it is carried.
    pub(super) fn carried(&mut self, element: &Element1) -> Option<Value> {
        let found = self.carried.iter().find(|it| it.load == element)?;
        Some(self.b.use_var(found.variable))
    }

    /// The smallest, or greatest, of three or more integers, of which those that depend on a carried element come last: the
    /// next round waits for them alone. Of integers, all orders give the same.
    pub(super) fn late_extreme(&mut self, op: BinaryOp, a: &'a Expr, b: &'a Expr) -> Option<Value> {
        let scalar = a.ty.scalar().filter(|scalar| scalar.is_int())?;
        let is_extreme = matches!(op, BinaryOp::Min | BinaryOp::Max);
        let is_chain = matches!(&a.kind, ExprKind::Binary(inner, ..) if *inner == op);
        if self.carried.is_empty() || !is_extreme || !is_chain {
            return None;
        }
        let mut operands = Vec::new();
        let mut rest = a;
        while let ExprKind::Binary(inner, first, second) = &rest.kind
            && *inner == op
        {
            operands.push(&**second);
            rest = first;
        }
        operands.push(rest);
        operands.reverse();
        operands.push(b);
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for operand in operands {
            let is_late = self.waits(operand);
            let value = self.expr(operand)[0];
            if is_late { late.push(value) } else { early.push(value) }
        }
        let mut all = early.into_iter().chain(late);
        let first = all.next()?;
        Some(all.fold(first, |best, value| self.binary(op, scalar, &[best], &[value], None)[0]))
    }

    /// Whether an expression depends on a carried element.
    fn waits(&self, expr: &Expr) -> bool {
        let is_carried = |element: &Element1| self.carried.iter().any(|it| it.load == element);
        let mut found = matches!(&expr.kind, ExprKind::Element(element) if is_carried(element));
        expr_children(expr, &mut |child| found = found || self.waits(child));
        found
    }

    /// Hands what was stored to the next round.
    pub(super) fn carry_on(&mut self, element: &Element1, lanes: &[Value]) {
        for it in self.carried.iter().filter(|it| it.store == element) {
            self.b.def_var(it.variable, lanes[0]);
        }
    }
}

/// The store that ends each round of an innermost loop, if nothing else in it changes memory.
fn only_store(rounds: &For) -> Option<&Element1> {
    let one = matches!(rounds.step.kind, ExprKind::Const(Const::Int(1)));
    let StmtKind::SetElement(store, _) = &rounds.body.last()?.kind else { return None };
    if !one || !is_innermost(&rounds.body) {
        return None;
    }
    let (mut stores, mut fits) = (0, true);
    each_stmt(&rounds.body, &mut |stmt: &Stmt| match &stmt.kind {
        StmtKind::SetElement(..) => stores += 1,
        StmtKind::SetView(_)
        | StmtKind::SetField { .. }
        | StmtKind::SetAttribute { .. }
        | StmtKind::Try(..)
        | StmtKind::Next(_) => fits = false,
        _ => {}
    });
    each_expr(&rounds.body, &mut |expr| {
        fits &= !matches!(expr.kind, ExprKind::Call(..));
    });
    (fits && stores == 1).then_some(store)
}

/// Whether a load reads what the store stores one round before.
fn is_one_before(
    load: &Element1,
    store: &Element1,
    counters: &[LocalId],
    assigned: &[LocalId],
) -> bool {
    let mut counting = 0;
    let pairs = load.indices.iter().zip(&store.indices);
    let mut fits = pairs.map(|(a, b)| {
        let (Some(step), Some(other)) =
            (steps(a, counters, assigned), steps(b, counters, assigned))
        else {
            return false;
        };
        counting += u32::from(step);
        match (step, other) {
            (false, false) => a == b,
            (true, true) => distance(a, b) == Some(1),
            _ => false,
        }
    });
    fits.all(|fits| fits) && counting == 1
}

/// How much greater the second of two sums is, if they differ by a constant.
fn distance(a: &Expr, b: &Expr) -> Option<i64> {
    let (mut terms, mut constant) = (Vec::new(), 0i64);
    add(b, 1, &mut terms, &mut constant);
    add(a, -1, &mut terms, &mut constant);
    terms.iter().all(|(_, times)| *times == 0).then_some(constant)
}

fn add(index: &Expr, sign: i64, terms: &mut Vec<(LocalId, i64)>, constant: &mut i64) {
    match &index.kind {
        ExprKind::Const(Const::Int(value)) => {
            *constant = constant.wrapping_add(sign.wrapping_mul(*value));
        }
        ExprKind::Local(local) => match terms.iter_mut().find(|(known, _)| known == local) {
            Some((_, times)) => *times += sign,
            None => terms.push((*local, sign)),
        },
        ExprKind::Binary(op, a, b) => {
            add(a, sign, terms, constant);
            add(b, if *op == BinaryOp::Add { sign } else { -sign }, terms, constant);
        }
        _ => unreachable!("a sum, as `steps` found"),
    }
}
