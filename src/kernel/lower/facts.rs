//! What is known of indices and lengths without running, so that they need no check.
//!
//! ```text
//!   n = len(a)                    n ≡ length(a, 0)          both are assigned once
//!   for i in range(1, n - 1):     1 ≤ i < length(a, 0) - 1  inside of the loop, which assigns neither i nor a
//!       a[i + 1]                  2 ≤ i + 1 < length(a, 0)  in range
//! ```
//!
//! A length is named by what determines it: an axis of an array that never changes, or an integer local that never does.
//!
//! An assignment is known of from where it is built to the end of the statements that it is among; there it has happened
//! for certain, and whatever it was made of is as it was. So two equal names always stand for equal numbers.

use super::visit::{expr_children, stmt_exprs};
use crate::kernel::ir::{
    Access, BinaryOp, Const, Element1, Expr, ExprKind, For, Function, LocalId, Stmt, StmtKind, Type,
};
use crate::kernel::runtime::stack::deep;

/// What determines a length or a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    /// The length of an axis of a local.
    Axis(LocalId, u32),
    /// The value of a local.
    Value(LocalId),
    /// Zero: then the offset is all of it.
    Zero,
}

/// A name and what is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    name: Name,
    offset: i64,
}

/// `low <= value < high`, where it is known.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: i64,
    high: Option<Bound>,
    /// Whether `low` is only true if `high` is the length of an array, which never wraps.
    if_length: bool,
}

/// What is known of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// It is not negative.
    pub(super) not_negative: bool,
    /// It is below the length of its axis.
    pub(super) below: bool,
}

/// What is known at a place of a function.
#[derive(Clone)]
pub(super) struct Facts {
    /// Whether it calls other kernels, or may recur by way of them.
    pub(super) calls: bool,
    /// How often each local is assigned; being a parameter is no assignment.
    assigned: Vec<u32>,
    is_param: Vec<bool>,
    /// Locals that are assigned once, and have been.
    certain: Vec<(LocalId, Made)>,
    /// Locals that count, or are made of some that do, and whether that is still true.
    ranges: Vec<(LocalId, Range, bool)>,
    /// Indices that were found to be in range before the loop that we are in.
    proven: Vec<Use>,
}

/// An index into an axis of an array, in the body of a loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Use {
    pub(super) array: LocalId,
    pub(super) axis: u32,
    pub(super) index: Expr,
    /// Whether the index counts with the loop's counter; else it stays as it is.
    pub(super) counts: bool,
}

/// The indices of a loop that can be told to be in range before it.
#[derive(Default)]
pub(super) struct Uses {
    pub(super) all: Vec<Use>,
    /// The locals that hold the counter.
    pub(super) counters: Vec<LocalId>,
}

/// What a local that is assigned once was made of.
#[derive(Clone)]
enum Made {
    /// Something of which nothing is known.
    Other,
    /// This number.
    Number(Bound),
    /// An array with these lengths.
    Array(Vec<Option<Bound>>),
}

impl Facts {
    pub(super) fn of(function: &Function) -> Facts {
        let mut facts = Facts {
            calls: false,
            assigned: vec![0; function.locals.len()],
            is_param: vec![false; function.locals.len()],
            certain: Vec::new(),
            ranges: Vec::new(),
            proven: Vec::new(),
        };
        for param in &function.params {
            facts.is_param[param.0 as usize] = true;
        }
        each_assigned(&function.body, &mut |local| facts.assigned[local.0 as usize] += 1);
        let calls = &mut facts.calls;
        each_expr(&function.body, &mut |expr| {
            *calls |= matches!(expr.kind, ExprKind::Call(..));
        });
        facts
    }

    /// Whether a local is assigned anywhere.
    pub(super) fn is_assigned(&self, local: LocalId) -> bool {
        self.assigned[local.0 as usize] > 0
    }

    /// Whether a local has its one value by now.
    fn is_fixed(&self, local: LocalId) -> bool {
        let (is_param, assigned) =
            (self.is_param[local.0 as usize], self.assigned[local.0 as usize]);
        is_param && assigned == 0
            || !is_param && assigned == 1 && self.certain.iter().any(|(known, _)| *known == local)
    }

    /// Notes an assignment that was just built.
    pub(super) fn assign(&mut self, local: LocalId, value: &Expr) {
        let range = if value.ty == Type::I64 { self.range(value) } else { None };
        self.forget(local);
        if let Some(range) = range {
            self.ranges.push((local, range, true));
        }
        if self.is_param[local.0 as usize] || self.assigned[local.0 as usize] != 1 {
            return;
        }
        let made = match &value.kind {
            ExprKind::NewArray(shape, _) => {
                Made::Array(shape.iter().map(|length| self.bound(length)).collect())
            }
            _ if value.ty == Type::I64 => self.bound(value).map_or(Made::Other, Made::Number),
            _ => Made::Other,
        };
        self.certain.push((local, made));
    }

    /// From here on a local may be anything.
    fn forget(&mut self, local: LocalId) {
        for (known, _, holds) in &mut self.ranges {
            *holds &= *known != local;
        }
    }

    /// Enters statements of their own. What it gives is for [`end`](Self::end).
    pub(super) fn begin(&mut self) -> (usize, usize) {
        (self.certain.len(), self.ranges.len())
    }

    pub(super) fn end(&mut self, before: (usize, usize)) {
        self.certain.truncate(before.0);
        self.ranges.truncate(before.1);
    }

    /// Forgets what the body of a loop changes, before it is built.
    pub(super) fn enter_loop(&mut self, body: &[Stmt]) {
        each_assigned(body, &mut |local| self.forget(local));
    }

    fn made(&self, local: LocalId) -> Option<&Made> {
        self.certain.iter().rev().find(|(known, _)| *known == local).map(|(_, made)| made)
    }

    /// What a value is, in terms of what never changes.
    fn bound(&self, value: &Expr) -> Option<Bound> {
        match &value.kind {
            ExprKind::Const(Const::Int(value)) => Some(Bound { name: Name::Zero, offset: *value }),
            ExprKind::Local(local) if value.ty == Type::I64 && self.is_fixed(*local) => {
                match self.made(*local) {
                    Some(Made::Number(bound)) => Some(*bound),
                    _ => Some(Bound { name: Name::Value(*local), offset: 0 }),
                }
            }
            ExprKind::Length(array, axis) => match array.kind {
                ExprKind::Local(array) => self.length(array, *axis),
                _ => None,
            },
            ExprKind::Cast(inner) if inner.ty == value.ty => self.bound(inner),
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
                let (a, b) = (self.bound(a)?, self.bound(b)?);
                let (name, offset) = match (op, a.name, b.name) {
                    (BinaryOp::Add, name, Name::Zero) => (name, a.offset.checked_add(b.offset)?),
                    (BinaryOp::Add, Name::Zero, name) => (name, a.offset.checked_add(b.offset)?),
                    (BinaryOp::Sub, name, Name::Zero) => (name, a.offset.checked_sub(b.offset)?),
                    _ => return None,
                };
                // It must not wrap: a length is far below 2^63, another number may be anything.
                let is_length = matches!(name, Name::Axis(..) | Name::Zero);
                let is_small = offset.unsigned_abs() < 1 << 32;
                (is_small && (is_length || offset <= 0)).then_some(Bound { name, offset })
            }
            _ => None,
        }
    }

    /// The length of an axis of a local, in terms of what never changes.
    fn length(&self, array: LocalId, axis: u32) -> Option<Bound> {
        if !self.is_fixed(array) {
            return None;
        }
        let own = Bound { name: Name::Axis(array, axis), offset: 0 };
        match self.made(array) {
            Some(Made::Array(lengths)) => Some(lengths[axis as usize].unwrap_or(own)),
            _ => Some(own),
        }
    }

    /// Enters a counting loop whose body is about to be built. What it gives is for [`end`](Self::end).
    pub(super) fn enter(&mut self, rounds: &For) -> (usize, usize) {
        // The bounds are of the time before the first round.
        let (start, stop) = (self.range(&rounds.start), self.bound(&rounds.stop));
        let first = self.bound(&rounds.start);
        self.enter_loop(&rounds.body);
        let before = self.begin();
        let mut is_assigned = false;
        each_assigned(&rounds.body, &mut |local| is_assigned |= local == rounds.local);
        self.forget(rounds.local);
        let ExprKind::Const(Const::Int(step)) = rounds.step.kind else { return before };
        let range = if step > 0 {
            let low = start.filter(|range| !range.if_length).map_or(i64::MIN, |range| range.low);
            Range { low, high: stop, if_length: false }
        } else {
            // Downwards to a constant: never below it, never above the start.
            let ExprKind::Const(Const::Int(stop)) = rounds.stop.kind else { return before };
            let above =
                |bound: Bound| Some(Bound { offset: bound.offset.checked_add(1)?, ..bound });
            Range { low: stop.saturating_add(1), high: first.and_then(above), if_length: false }
        };
        if step != 0 && !is_assigned {
            self.ranges.push((rounds.local, range, true));
        }
        before
    }

    /// The indices in the body of an innermost loop that need a check, and that a comparison before the loop can tell to be
    /// in range for all of its rounds.
    pub(super) fn uses(&mut self, rounds: &For) -> Uses {
        const MOST: usize = 16;
        let up = matches!(rounds.step.kind, ExprKind::Const(Const::Int(1..)));
        let mut size = 0;
        each_expr(&rounds.body, &mut |_| size += 1);
        if !up || !is_innermost(&rounds.body) || size > 400 {
            return Uses::default();
        }
        let mut assigned = Vec::new();
        each_assigned(&rounds.body, &mut |local| assigned.push(local));
        let counters = counters(rounds, &assigned);
        let before = self.enter(rounds);
        if let Some(StmtKind::Assign(local, value)) = rounds.body.first().map(|it| &it.kind) {
            self.assign(*local, value);
        }
        let mut all = Vec::new();
        each_element(&rounds.body, true, &mut |element, is_certain| {
            let ExprKind::Local(array) = element.array.kind else { return };
            if assigned.contains(&array) || element.access == Access::InRange {
                return;
            }
            for (axis, index) in element.indices.iter().enumerate() {
                let Some(counts) = steps(index, &counters, &assigned) else { continue };
                // What is used in some rounds only, such as `a[i - 1]` behind `if i > 0`, may be out of range in others.
                let is_local = matches!(index.kind, ExprKind::Local(_));
                let from_end = matches!(index.kind, ExprKind::Const(Const::Int(..0)));
                if !is_certain && !is_local || from_end {
                    continue;
                }
                let known = self.index(&element.array, axis as u32, index);
                let found = Use { array, axis: axis as u32, index: index.clone(), counts };
                if !known.below && !all.contains(&found) {
                    all.push(found);
                }
            }
        });
        self.end(before);
        if all.len() > MOST { Uses::default() } else { Uses { all, counters } }
    }

    /// From here on these are in range, until [`unprove`](Self::unprove).
    pub(super) fn prove(&mut self, uses: Vec<Use>) {
        self.proven = uses;
    }

    pub(super) fn unprove(&mut self) {
        self.proven.clear();
    }

    /// What a value lies between.
    fn range(&self, value: &Expr) -> Option<Range> {
        match &value.kind {
            ExprKind::Const(Const::Int(value)) => {
                let high = value.checked_add(1).map(|offset| Bound { name: Name::Zero, offset });
                Some(Range { low: *value, high, if_length: false })
            }
            ExprKind::Local(local) => {
                let mut known = self.ranges.iter().rev();
                let found = known.find(|(known, _, holds)| known == local && *holds);
                found.map(|(_, range, _)| *range)
            }
            ExprKind::Length(..) | ExprKind::Size(_) => {
                let above =
                    |bound: Bound| Some(Bound { offset: bound.offset.checked_add(1)?, ..bound });
                let high = self.bound(value).and_then(above);
                Some(Range { low: 0, high, if_length: false })
            }
            ExprKind::Cast(inner) if inner.ty == value.ty => self.range(inner),
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
                let (range, by) = match (op, &a.kind, &b.kind) {
                    (BinaryOp::Add, _, ExprKind::Const(Const::Int(by))) => (self.range(a)?, *by),
                    (BinaryOp::Add, ExprKind::Const(Const::Int(by)), _) => (self.range(b)?, *by),
                    (_, _, ExprKind::Const(Const::Int(by))) => (self.range(a)?, by.checked_neg()?),
                    _ => return None,
                };
                if by.unsigned_abs() >= 1 << 32 || range.low < i64::MIN / 2 {
                    return None;
                }
                let moved =
                    |bound: Bound| Some(Bound { offset: bound.offset.checked_add(by)?, ..bound });
                let high = range.high.and_then(moved);
                // Upwards it does not wrap if it stays below a length.
                let is_short = high.is_some_and(|high| !matches!(high.name, Name::Value(_)));
                let if_length = range.if_length || by > 0 && !is_short;
                Some(Range { low: range.low.checked_add(by)?, high, if_length })
            }
            _ => None,
        }
    }

    /// What is known of an index into an axis of `array`.
    pub(super) fn index(&self, array: &Expr, axis: u32, index: &Expr) -> Known {
        let is_proven = |it: &Use| {
            it.axis == axis && array.kind == ExprKind::Local(it.array) && it.index == *index
        };
        if self.proven.iter().any(is_proven) {
            return Known { not_negative: true, below: true };
        }
        let Some(range) = self.range(index) else { return Known::default() };
        let length = match array.kind {
            ExprKind::Local(array) => self.length(array, axis),
            _ => None,
        };
        // An array that was made of a number has that number as its length, so it does not wrap.
        let fits = match (range.high, length) {
            (Some(high), Some(length)) => high.name == length.name && high.offset <= length.offset,
            _ => false,
        };
        let not_negative = range.low >= 0 && (fits || !range.if_length);
        Known { not_negative, below: fits && not_negative }
    }
}

/// Whether a body has no loops.
pub(super) fn is_innermost(body: &[Stmt]) -> bool {
    let mut found = true;
    each_stmt(body, &mut |stmt| {
        found &= !matches!(stmt.kind, StmtKind::For(_) | StmtKind::ParFor(_) | StmtKind::Loop(..));
    });
    found
}

/// The locals that hold a loop's counter in all of its body, which assigns these.
pub(super) fn counters(rounds: &For, assigned: &[LocalId]) -> Vec<LocalId> {
    let mut counters = Vec::new();
    if assigned.contains(&rounds.local) {
        return counters;
    }
    counters.push(rounds.local);
    if let Some(StmtKind::Assign(local, value)) = rounds.body.first().map(|it| &it.kind)
        && value.kind == ExprKind::Local(rounds.local)
        && value.ty == Type::I64
        && assigned.iter().filter(|known| *known == local).count() == 1
    {
        counters.push(*local);
    }
    counters
}

/// Whether an index goes up with the counter of a loop, one by one, or stays as it is: sums of the counter and of what the
/// loop does not assign. None of both if that is not known.
pub(super) fn steps(index: &Expr, counters: &[LocalId], assigned: &[LocalId]) -> Option<bool> {
    if index.ty != Type::I64 {
        return None;
    }
    match &index.kind {
        ExprKind::Local(local) if counters.contains(local) => Some(true),
        ExprKind::Local(local) if !assigned.contains(local) => Some(false),
        ExprKind::Const(Const::Int(_)) => Some(false),
        ExprKind::Binary(BinaryOp::Add, a, b) => {
            match (steps(a, counters, assigned)?, steps(b, counters, assigned)?) {
                (true, true) => None,
                (a, b) => Some(a || b),
            }
        }
        ExprKind::Binary(BinaryOp::Sub, a, b) => {
            (!steps(b, counters, assigned)?).then_some(steps(a, counters, assigned)?)
        }
        _ => None,
    }
}

/// Visits every element that is read or written, and says whether it is whenever these statements run to their end.
fn each_element(body: &[Stmt], is_certain: bool, visit: &mut dyn FnMut(&Element1, bool)) {
    fn deep(expr: &Expr, is_certain: bool, visit: &mut dyn FnMut(&Element1, bool)) {
        match &expr.kind {
            ExprKind::IfElse(condition, a, b) => {
                deep(condition, is_certain, visit);
                deep(a, false, visit);
                deep(b, false, visit);
                return;
            }
            ExprKind::Block(body, _) => each_element(body, is_certain, visit),
            ExprKind::Element(element) => visit(element, is_certain),
            _ => {}
        }
        expr_children(expr, &mut |child| deep(child, is_certain, visit));
    }
    for stmt in body {
        match &stmt.kind {
            StmtKind::SetElement(element, _) => visit(element, is_certain),
            StmtKind::If(_, then, otherwise) | StmtKind::Try(then, otherwise, _) => {
                each_element(then, false, visit);
                each_element(otherwise, false, visit);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) => {
                each_element(body, false, visit);
            }
            StmtKind::For(rounds) => each_element(&rounds.body, false, visit),
            StmtKind::ParFor(rounds) => each_element(&rounds.rounds.body, false, visit),
            _ => {}
        }
        stmt_exprs(stmt, &mut |expr| deep(expr, is_certain, visit));
    }
}

/// Visits every statement, outer ones first, also those inside of expressions.
pub(super) fn each_stmt<'e>(body: &'e [Stmt], visit: &mut dyn FnMut(&'e Stmt)) {
    for stmt in body {
        visit(stmt);
        deep(|| each_child(stmt, visit));
    }
}

fn each_child<'e>(stmt: &'e Stmt, visit: &mut dyn FnMut(&'e Stmt)) {
    match &stmt.kind {
        StmtKind::If(_, a, b) | StmtKind::Try(a, b, _) => {
            each_stmt(a, visit);
            each_stmt(b, visit);
        }
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) => each_stmt(body, visit),
        StmtKind::For(rounds) => each_stmt(&rounds.body, visit),
        StmtKind::ParFor(rounds) => each_stmt(&rounds.rounds.body, visit),
        _ => {}
    }
    stmt_exprs(stmt, &mut |expr| inner_stmts(expr, visit));
}

fn inner_stmts<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Stmt)) {
    if let ExprKind::Block(body, _) = &expr.kind {
        each_stmt(body, visit);
    }
    deep(|| expr_children(expr, &mut |child| inner_stmts(child, visit)));
}

/// Visits every local that is assigned, once for each place that does.
pub(super) fn each_assigned(body: &[Stmt], visit: &mut dyn FnMut(LocalId)) {
    each_stmt(body, &mut |stmt| match &stmt.kind {
        StmtKind::Assign(local, _) => visit(*local),
        StmtKind::For(rounds) => visit(rounds.local),
        StmtKind::ParFor(rounds) => {
            visit(rounds.rounds.local);
            // What it is reduced to is assigned once more, behind the loop.
            rounds.reductions.iter().for_each(|reduction| visit(reduction.local));
        }
        _ => {}
    });
}

/// Visits every expression of these statements, outer ones first.
pub(super) fn each_expr<'e>(body: &'e [Stmt], visit: &mut dyn FnMut(&'e Expr)) {
    fn with_inner<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
        visit(expr);
        deep(|| expr_children(expr, &mut |child| with_inner(child, visit)));
    }
    each_stmt(body, &mut |stmt| stmt_exprs(stmt, &mut |expr| with_inner(expr, visit)));
}
