//! Loops: over ranges, arrays, tuples and what is made of them, one by one or in parallel.

use super::paths::set_by_earlier_rounds;
use super::val::{Slot, Val, ir_type};
use super::walk::{Loop, Paths, Res, Stop, Walker, runs};
use crate::kernel::ir::{self, Expr, ExprKind, Label, StmtKind};
use crate::kernel::syntax::{self, BinaryOp, ExprKind as S, Name};
use crate::kernel::types::Ty;

impl<'w> Walker<'w> {
    pub(super) fn while_stmt(
        &mut self,
        test: &syntax::Expr,
        body: &[syntax::Stmt],
        orelse: &[syntax::Stmt],
    ) -> Res<()> {
        let label = self.label();
        let exit = if orelse.is_empty() { label } else { self.label() };
        let span = self.span;
        let assigned = assigned(body);
        let (head, (stmts, mut exits)) = self.fixed(&assigned, |walker| {
            let mut back = Vec::new();
            let mut done = Vec::new();
            walker.loops.push(Loop {
                exit,
                next: label,
                breaks: Vec::new(),
                nexts: Vec::new(),
                parallel: false,
            });
            let result = walker.apart(|walker| {
                let condition = walker.expr(test).and_then(|test| walker.truth(test))?;
                match condition {
                    Ok(true) => {}
                    Ok(false) => {
                        done.extend(walker.mark());
                        walker.emit(StmtKind::Leave(label));
                        walker.state = None;
                    }
                    Err(condition) => {
                        let (leave, ()) = walker.apart(|walker| {
                            done.extend(walker.mark());
                            walker.emit(StmtKind::Leave(label));
                            Ok(())
                        })?;
                        walker.emit(StmtKind::If(condition, Vec::new(), leave));
                    }
                }
                walker.body(body)?;
                back.extend(walker.mark());
                Ok(())
            });
            let inner = walker.loops.pop();
            let (stmts, ()) = match result {
                Err(Stop::Unknown) => return Err(Stop::Unknown),
                other => other?,
            };
            let (breaks, nexts) =
                inner.map(|inner| (inner.breaks, inner.nexts)).unwrap_or_default();
            back.extend(nexts);
            Ok((back, (stmts, (done, breaks))))
        })?;
        self.span = span;
        for (_, state) in exits.0.iter_mut().chain(&mut exits.1) {
            set_by_earlier_rounds(state, &head);
        }
        self.finish_loop(StmtKind::Loop(label, stmts), exit, label, exits, orelse)
    }

    /// Emits a loop and what follows when it was not broken out of.
    fn finish_loop(
        &mut self,
        kind: StmtKind,
        exit: Label,
        label: Label,
        (mut done, breaks): (Paths, Paths),
        orelse: &[syntax::Stmt],
    ) -> Res<()> {
        if exit == label {
            self.emit(kind);
            done.extend(breaks);
            self.meet(done);
            return Ok(());
        }
        let mut paths = breaks;
        let (stmts, ()) = self.apart(|walker| {
            walker.emit(kind);
            walker.meet(done);
            walker.body(orelse)?;
            paths.extend(walker.mark());
            Ok(())
        })?;
        self.emit(StmtKind::Block(exit, stmts));
        self.meet(paths);
        Ok(())
    }

    pub(super) fn for_stmt(
        &mut self,
        target: &syntax::Expr,
        iter: &syntax::Expr,
        body: &[syntax::Stmt],
        orelse: &[syntax::Stmt],
    ) -> Res<()> {
        let span = self.span;
        let (iter, parallel) = match self.prange(iter)? {
            Some(range) => (range, self.options().parallel),
            None => (self.expr(iter)?, false),
        };
        // Rounds of a parallel loop run loops inside of them one after the other.
        let mut parallel = parallel && !self.loops.iter().any(|outer| outer.parallel);
        let iter = self.iterable(iter);
        if matches!(&iter, Val::Run { ty: Ty::Tuple(items), .. } if items.is_empty()) {
            return self.body(orelse);
        }
        let Some(length) = self.iter_length(&iter) else {
            return self.refuse_at(
                span,
                format!("kernels cannot loop over {}", iter.describe()),
                "loop over range, an array, a tuple, enumerate or zip",
            );
        };
        let label = self.label();
        // What follows the last round must not run after a break.
        let exit = if orelse.is_empty() && !breaks_out(body) { label } else { self.label() };
        let reductions = if parallel { self.reductions(target, body)? } else { Vec::new() };
        // Arrays are updated in place, by one round after the other.
        parallel &= !reductions
            .iter()
            .any(|(variable, _)| matches!(self.slot(*variable), Slot::Run(Ty::Array(_), ..)));
        let (counter, start, stop, step) = match &iter {
            Val::Range(parts, int) => {
                let counter = self.temporary(&Ty::Int(*int));
                let [start, stop, step] = (**parts).clone();
                (counter, start, stop, step)
            }
            _ => (self.temporary(&Ty::I64), Expr::int(0), length, Expr::int(1)),
        };
        let mut assigned = assigned(body);
        targets_of(target, &mut assigned);
        let (done, (stmts, mut breaks)) = self.fixed(&assigned, |walker| {
            let mut back = Vec::new();
            walker.loops.push(Loop {
                exit,
                next: label,
                breaks: Vec::new(),
                nexts: Vec::new(),
                parallel,
            });
            let result = walker.apart(|walker| {
                let index = walker.ir.get(counter);
                let item = match &iter {
                    Val::Range(_, int) => Val::run(Ty::Int(*int), index),
                    _ => walker.iter_item(&iter, &index),
                };
                walker.assign(target, item)?;
                walker.body(body)?;
                back.extend(walker.mark());
                Ok(())
            });
            let inner = walker.loops.pop();
            let (stmts, ()) = result?;
            let (breaks, nexts) =
                inner.map(|inner| (inner.breaks, inner.nexts)).unwrap_or_default();
            back.extend(nexts);
            // The head's state is what holds when the loop is over.
            Ok((back, (stmts, breaks)))
        })?;
        self.span = span;
        for (_, state) in &mut breaks {
            set_by_earlier_rounds(state, &done);
        }
        let rounds = ir::For { label, local: counter, start, stop, step, body: stmts };
        let kind = if parallel {
            let mut list = Vec::new();
            for (variable, op) in reductions {
                if let Some(Slot::Run(ty, local, _)) = done.get(variable) {
                    if crate::kernel::rules::promote(ty, ty).is_none() {
                        return self.refuse(
                            "only numbers can be reduced by a prange loop",
                            "reduce into a number",
                        );
                    }
                    list.push(ir::Reduction { local: *local, op });
                }
            }
            StmtKind::ParFor(Box::new(ir::ParFor { rounds, reductions: list }))
        } else {
            StmtKind::For(Box::new(rounds))
        };
        // After the last round variables are as at the head: every round ends there.
        self.state = Some(done);
        if exit == label {
            self.emit(kind);
            let mut paths = breaks;
            paths.extend(self.mark());
            self.meet(paths);
            return Ok(());
        }
        let mut paths = breaks;
        let (stmts, ()) = self.apart(|walker| {
            walker.emit(kind);
            walker.body(orelse)?;
            paths.extend(walker.mark());
            Ok(())
        })?;
        self.emit(StmtKind::Block(exit, stmts));
        self.meet(paths);
        Ok(())
    }

    /// The range of `prange(...)`, if the expression is that.
    fn prange(&mut self, iter: &syntax::Expr) -> Res<Option<Val>> {
        let S::Call { function, args } = &iter.kind else { return Ok(None) };
        let callee = match &function.kind {
            S::Name(_) | S::Attribute { .. } => self.expr(function)?,
            _ => return Ok(None),
        };
        if !matches!(&callee, Val::Builtin(name) if &**name == "numba.prange") {
            return Ok(None);
        }
        let (args, keywords) = self.arguments(args)?;
        self.builtin("builtins.range", args, keywords, iter.span).map(Some)
    }

    /// The variables that the rounds of a parallel loop reduce into, with how.
    fn reductions(
        &mut self,
        target: &syntax::Expr,
        body: &[syntax::Stmt],
    ) -> Res<Vec<(usize, ir::FoldOp)>> {
        let mut found: Vec<(Name, Option<ir::FoldOp>)> = Vec::new();
        updates(body, &mut found);
        let mut own = Vec::new();
        targets_of(target, &mut own);
        let mut list = Vec::new();
        for (name, op) in found {
            if own.contains(&name) {
                continue;
            }
            let Some(variable) = self.existing(self.frame, &name) else { continue };
            if !matches!(self.slot(variable), Slot::Run(..)) {
                continue;
            }
            if let Some(op) = op {
                list.push((variable, op));
            }
        }
        Ok(list)
    }

    /// What is looped over, ready to be indexed.
    pub(super) fn iterable(&mut self, val: Val) -> Val {
        let val = match val {
            Val::Tuple(items) if items.iter().all(runs) => {
                match self.materialise(Val::Tuple(items)) {
                    Ok((ty, expr)) => Val::run(ty, expr),
                    Err(_) => Val::Ellipsis,
                }
            }
            Val::Enumerate(items, start) => {
                let items = self.iterable(*items);
                Val::Enumerate(Box::new(items), start)
            }
            Val::Zip(items) => {
                Val::Zip(items.into_iter().map(|item| self.iterable(item)).collect())
            }
            other => other,
        };
        self.hold(val)
    }

    /// How many items there are, where the value can be looped over.
    pub(super) fn iter_length(&mut self, val: &Val) -> Option<Expr> {
        match val {
            Val::Range(parts, _) => {
                let [start, stop, step] = (**parts).clone();
                Some(super::builtins::range_length(start, stop, step))
            }
            Val::Run { ty: Ty::Array(_), expr, .. } => {
                Some(Expr::new(ExprKind::Length(Box::new(expr.clone()), 0), ir::Type::I64))
            }
            Val::Run { ty: Ty::Tuple(items), .. } => {
                items.iter().all(|ty| *ty == items[0]).then(|| Expr::int(items.len() as i64))
            }
            Val::Enumerate(items, _) => self.iter_length(items),
            Val::Indices(lengths, _) => {
                let product = |a: Expr, b: &Expr| Expr::binary(ir::BinaryOp::Mul, a, b.clone());
                Some(lengths.iter().fold(Expr::int(1), product))
            }
            Val::Zip(items) => {
                let mut least: Option<Expr> = None;
                for item in items {
                    let length = self.iter_length(item)?;
                    least = Some(match least {
                        None => length,
                        Some(least) => Expr::binary(ir::BinaryOp::Min, least, length),
                    });
                }
                Some(least.unwrap_or_else(|| Expr::int(0)))
            }
            _ => None,
        }
    }

    /// The item at `index`, which is in range.
    pub(super) fn iter_item(&mut self, val: &Val, index: &Expr) -> Val {
        match val {
            Val::Range(parts, int) => {
                let [start, _, step] = (**parts).clone();
                let offset = Expr::binary(ir::BinaryOp::Mul, index.clone(), step);
                let value = Expr::binary(ir::BinaryOp::Add, start, offset);
                let ty = Ty::Int(*int);
                let value = value.cast(ir_type(&ty));
                Val::run(ty, value)
            }
            Val::Run { ty: Ty::Array(array), expr, .. } => {
                self.element_or_row(array, expr.clone(), index.clone(), ir::Access::InRange)
            }
            Val::Run { ty: Ty::Tuple(items), expr, .. } => {
                let ty = items.first().cloned().unwrap_or(Ty::None);
                let kind = ExprKind::ItemAt(
                    Box::new(expr.clone()),
                    Box::new(index.clone()),
                    ir::Access::InRange,
                );
                Val::run(ty.clone(), Expr::new(kind, ir_type(&ty)))
            }
            Val::Indices(lengths, array) => {
                let mut indices = Vec::new();
                let mut rest = index.clone();
                let zero = ir::OnZero::Value;
                for (axis, length) in lengths.iter().enumerate().rev() {
                    let at = if axis == 0 {
                        rest.clone()
                    } else {
                        Expr::binary(ir::BinaryOp::Mod(zero), rest.clone(), length.clone())
                    };
                    rest = Expr::binary(ir::BinaryOp::FloorDiv(zero), rest, length.clone());
                    indices.push(at);
                }
                indices.reverse();
                let tuple =
                    Val::Tuple(indices.iter().cloned().map(|at| Val::run(Ty::I64, at)).collect());
                match array.as_deref() {
                    Some(Val::Run { ty: Ty::Array(ty), expr, .. }) => {
                        let element = ir::Element1 {
                            array: expr.clone(),
                            indices,
                            access: ir::Access::InRange,
                        };
                        let kind = ExprKind::Element(Box::new(element));
                        let element =
                            Val::run(ty.dtype.clone(), Expr::new(kind, ir_type(&ty.dtype)));
                        Val::Tuple(vec![tuple, element])
                    }
                    _ => tuple,
                }
            }
            Val::Enumerate(items, start) => {
                let count = Expr::binary(ir::BinaryOp::Add, start.clone(), index.clone());
                let item = self.iter_item(items, index);
                Val::Tuple(vec![Val::run(Ty::I64, count), item])
            }
            Val::Zip(items) => {
                let items = items.clone();
                Val::Tuple(items.iter().map(|item| self.iter_item(item, index)).collect())
            }
            other => other.clone(),
        }
    }
}

/// Whether statements of a loop's body break out of it.
fn breaks_out(stmts: &[syntax::Stmt]) -> bool {
    use syntax::StmtKind as K;
    stmts.iter().any(|stmt| match &stmt.kind {
        K::Break => true,
        K::If { body, orelse, .. } => breaks_out(body) || breaks_out(orelse),
        K::For { orelse, .. } | K::While { orelse, .. } => breaks_out(orelse),
        K::Try { body, handlers, orelse, finally } => {
            let caught = handlers.iter().any(|handler| breaks_out(&handler.body));
            breaks_out(body) || caught || breaks_out(orelse) || breaks_out(finally)
        }
        _ => false,
    })
}

/// The names that statements bind.
pub(in crate::kernel) fn assigned(stmts: &[syntax::Stmt]) -> Vec<Name> {
    let mut names = Vec::new();
    collect_assigned(stmts, &mut names);
    names
}

fn collect_assigned(stmts: &[syntax::Stmt], names: &mut Vec<Name>) {
    use syntax::StmtKind as K;
    for stmt in stmts {
        match &stmt.kind {
            K::Assign { targets, .. } => {
                targets.iter().for_each(|target| targets_of(target, names))
            }
            K::AugAssign { target, .. } | K::AnnAssign { target, .. } => targets_of(target, names),
            K::For { target, body, orelse, .. } => {
                targets_of(target, names);
                collect_assigned(body, names);
                collect_assigned(orelse, names);
            }
            K::While { body, orelse, .. } | K::If { body, orelse, .. } => {
                collect_assigned(body, names);
                collect_assigned(orelse, names);
            }
            K::Try { body, handlers, orelse, finally } => {
                collect_assigned(body, names);
                handlers.iter().for_each(|handler| collect_assigned(&handler.body, names));
                collect_assigned(orelse, names);
                collect_assigned(finally, names);
            }
            K::Def(function) => names.push(function.name.clone()),
            _ => {}
        }
    }
}

/// The names that an assignment to `target` binds.
fn targets_of(target: &syntax::Expr, names: &mut Vec<Name>) {
    match &target.kind {
        S::Name(name) => names.push(name.clone()),
        S::Tuple(items) | S::List(items) => items.iter().for_each(|item| targets_of(item, names)),
        S::Starred(inner) => targets_of(inner, names),
        _ => {}
    }
}

/// The names that statements update by one operation, with it; `None` where it is none that can be reduced.
fn updates(stmts: &[syntax::Stmt], found: &mut Vec<(Name, Option<ir::FoldOp>)>) {
    use syntax::StmtKind as K;
    let fold = |op: BinaryOp| match op {
        BinaryOp::Add | BinaryOp::Sub => Some(ir::FoldOp::Sum),
        BinaryOp::Mul => Some(ir::FoldOp::Product),
        BinaryOp::BitAnd => Some(ir::FoldOp::And),
        BinaryOp::BitOr => Some(ir::FoldOp::Or),
        BinaryOp::BitXor => Some(ir::FoldOp::Xor),
        _ => None,
    };
    let is =
        |expr: &syntax::Expr, name: &Name| matches!(&expr.kind, S::Name(other) if other == name);
    for stmt in stmts {
        let mut add = |name: &Name, op: Option<ir::FoldOp>| {
            if !found.iter().any(|(other, _)| other == name) {
                found.push((name.clone(), op));
            }
        };
        match &stmt.kind {
            K::AugAssign { target: syntax::Expr { kind: S::Name(name), .. }, op, .. } => {
                add(name, fold(*op))
            }
            K::Assign { targets, value } => {
                let [syntax::Expr { kind: S::Name(name), .. }] = &targets[..] else { continue };
                match &value.kind {
                    S::Binary { left, op, right }
                        if is(left, name) || is(right, name) && *op != BinaryOp::Sub =>
                    {
                        add(name, fold(*op));
                    }
                    S::Call { function, args } if args.iter().any(|arg| is(arg.value(), name)) => {
                        match &function.kind {
                            S::Name(function) if &**function == "max" => {
                                add(name, Some(ir::FoldOp::Max))
                            }
                            S::Name(function) if &**function == "min" => {
                                add(name, Some(ir::FoldOp::Min))
                            }
                            _ => {}
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        match &stmt.kind {
            K::For { body, orelse, .. }
            | K::While { body, orelse, .. }
            | K::If { body, orelse, .. } => {
                updates(body, found);
                updates(orelse, found);
            }
            K::Try { body, handlers, orelse, finally } => {
                updates(body, found);
                handlers.iter().for_each(|handler| updates(&handler.body, found));
                updates(orelse, found);
                updates(finally, found);
            }
            _ => {}
        }
    }
}
