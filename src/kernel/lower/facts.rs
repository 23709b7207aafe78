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

use crate::kernel::ir::{
    BinaryOp, Const, Elementwise, Expr, ExprKind, Fill, For, Function, LocalId, Stmt, StmtKind,
    Subscript, Type,
};

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

/// `low <= local < high`, where it is known.
#[derive(Clone, Copy, Debug)]
struct Range {
    local: LocalId,
    low: i64,
    high: Option<Bound>,
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
    /// The loops that we are in.
    ranges: Vec<Range>,
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
        };
        for param in &function.params {
            facts.is_param[param.0 as usize] = true;
        }
        each_assigned(&function.body, &mut |local| facts.assigned[local.0 as usize] += 1);
        let calls = &mut facts.calls;
        each_expr(&function.body, &mut |expr| {
            *calls |= matches!(expr.kind, ExprKind::Call(..) | ExprKind::CallValue(..));
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

    /// Enters statements of their own. What it gives is for [`end`](Self::end).
    pub(super) fn begin(&mut self) -> usize {
        self.certain.len()
    }

    pub(super) fn end(&mut self, before: usize) {
        self.certain.truncate(before);
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

    /// Enters a loop whose body is about to be built. What it gives is for [`leave`](Self::leave).
    pub(super) fn enter(&mut self, rounds: &For) -> usize {
        let before = self.ranges.len();
        let mut is_assigned = false;
        each_assigned(&rounds.body, &mut |local| is_assigned |= local == rounds.local);
        let constant = |expr: &Expr| match expr.kind {
            ExprKind::Const(Const::Int(value)) => Some(value),
            _ => None,
        };
        let up = constant(&rounds.step).is_some_and(|step| step > 0);
        if !is_assigned && up {
            let low = self.low(&rounds.start).unwrap_or(i64::MIN);
            let high = self.bound(&rounds.stop);
            self.ranges.push(Range { local: rounds.local, low, high });
        }
        if !is_assigned && constant(&rounds.step).is_some_and(|step| step < 0) {
            // Downwards to a stop that is -1 or above: never negative; never above the start.
            if let Some(stop) = constant(&rounds.stop) {
                let high = self
                    .bound(&rounds.start)
                    .map(|bound| Bound { offset: bound.offset + 1, ..bound });
                self.ranges.push(Range { local: rounds.local, low: stop.saturating_add(1), high });
            }
        }
        before
    }

    pub(super) fn leave(&mut self, before: usize) {
        self.ranges.truncate(before);
    }

    /// The least that a value can be.
    fn low(&self, value: &Expr) -> Option<i64> {
        match &value.kind {
            ExprKind::Const(Const::Int(value)) => Some(*value),
            ExprKind::Local(local) => {
                let range = self.ranges.iter().rev().find(|range| range.local == *local);
                range.map(|range| range.low)
            }
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
                let ExprKind::Const(Const::Int(by)) = b.kind else { return None };
                // A counter is far below the greatest number only if it is below a length.
                let local = match a.kind {
                    ExprKind::Local(local) => local,
                    _ => return None,
                };
                let range = self.ranges.iter().rev().find(|range| range.local == local)?;
                let bounded = matches!(range.high?.name, Name::Axis(..) | Name::Zero);
                let by = if *op == BinaryOp::Add { by } else { by.checked_neg()? };
                (bounded && by.unsigned_abs() < 1 << 32)
                    .then(|| range.low.checked_add(by))
                    .flatten()
            }
            ExprKind::Length(..) | ExprKind::Size(_) => Some(0),
            _ => None,
        }
    }

    /// What is known of an index into an axis of `array`.
    pub(super) fn index(&self, array: &Expr, axis: u32, index: &Expr) -> Known {
        let (local, by) = match &index.kind {
            ExprKind::Local(local) => (*local, 0),
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
                match (&a.kind, &b.kind, op) {
                    (ExprKind::Local(local), ExprKind::Const(Const::Int(by)), BinaryOp::Add) => {
                        (*local, *by)
                    }
                    (ExprKind::Const(Const::Int(by)), ExprKind::Local(local), BinaryOp::Add) => {
                        (*local, *by)
                    }
                    (ExprKind::Local(local), ExprKind::Const(Const::Int(by)), BinaryOp::Sub) => {
                        (*local, by.wrapping_neg())
                    }
                    _ => return Known::default(),
                }
            }
            ExprKind::Const(Const::Int(value)) => {
                return Known { not_negative: *value >= 0, below: false };
            }
            _ => return Known::default(),
        };
        let Some(range) = self.ranges.iter().rev().find(|range| range.local == local) else {
            return Known::default();
        };
        if by.unsigned_abs() >= 1 << 32 {
            return Known::default();
        }
        let length = match array.kind {
            ExprKind::Local(array) => self.length(array, axis),
            _ => None,
        };
        // An array that was made of a number has that number as its length, so it does not wrap here.
        let fits = match (range.high, length) {
            (Some(high), Some(length)) => {
                high.name == length.name && high.offset + by <= length.offset
            }
            _ => false,
        };
        let is_short = range.high.is_some_and(|high| !matches!(high.name, Name::Value(_)));
        let wraps = if by > 0 { !is_short && !fits } else { range.low < i64::MIN / 2 };
        let not_negative = !wraps && range.low + by >= 0;
        Known { not_negative, below: fits && not_negative }
    }
}

/// Visits every statement, outer ones first, also those inside of expressions.
pub(super) fn each_stmt(body: &[Stmt], visit: &mut dyn FnMut(&Stmt)) {
    for stmt in body {
        visit(stmt);
        each_child(stmt, visit);
    }
}

fn each_child(stmt: &Stmt, visit: &mut dyn FnMut(&Stmt)) {
    match &stmt.kind {
        StmtKind::If(_, a, b) => {
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

fn inner_stmts(expr: &Expr, visit: &mut dyn FnMut(&Stmt)) {
    if let ExprKind::Block(body, _) = &expr.kind {
        each_stmt(body, visit);
    }
    expr_children(expr, &mut |child| inner_stmts(child, visit));
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
pub(super) fn each_expr(body: &[Stmt], visit: &mut dyn FnMut(&Expr)) {
    fn deep(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
        visit(expr);
        expr_children(expr, &mut |child| deep(child, visit));
    }
    each_stmt(body, &mut |stmt| stmt_exprs(stmt, &mut |expr| deep(expr, visit)));
}

/// The expressions that a statement holds itself.
pub(super) fn stmt_exprs(stmt: &Stmt, visit: &mut dyn FnMut(&Expr)) {
    let mut rounds = |rounds: &For| {
        visit(&rounds.start);
        visit(&rounds.stop);
        visit(&rounds.step);
    };
    match &stmt.kind {
        StmtKind::For(it) => rounds(it),
        StmtKind::ParFor(it) => rounds(&it.rounds),
        StmtKind::Assign(_, value)
        | StmtKind::Eval(value)
        | StmtKind::If(value, ..)
        | StmtKind::Return(Some(value)) => visit(value),
        StmtKind::Raise(raise) => raise.args.iter().for_each(visit),
        StmtKind::Print(values) => values.iter().for_each(visit),
        StmtKind::SetElement(element, value) => {
            visit(&element.array);
            element.indices.iter().for_each(&mut *visit);
            visit(value);
        }
        StmtKind::SetView(set) => {
            visit(&set.target);
            elementwise(&set.value, visit);
        }
        StmtKind::SetField { record: a, value, .. }
        | StmtKind::SetAttribute { object: a, value, .. } => {
            visit(a);
            visit(value);
        }
        StmtKind::Block(..)
        | StmtKind::Loop(..)
        | StmtKind::Leave(_)
        | StmtKind::Next(_)
        | StmtKind::Return(None) => {}
    }
}

fn elementwise(tree: &Elementwise, visit: &mut dyn FnMut(&Expr)) {
    tree.inputs.iter().for_each(&mut *visit);
    visit(&tree.value);
}

/// The expressions that an expression holds itself; not those of its statements.
pub(super) fn expr_children(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    match &expr.kind {
        ExprKind::Const(_)
        | ExprKind::Constant(_)
        | ExprKind::Local(_)
        | ExprKind::FunctionValue(_) => {}
        ExprKind::Cast(a)
        | ExprKind::Unary(_, a)
        | ExprKind::PowConst(_, a, _)
        | ExprKind::IsNone(a)
        | ExprKind::Item(a, _)
        | ExprKind::StrLen(a)
        | ExprKind::Length(a, _)
        | ExprKind::Stride(a, _)
        | ExprKind::Size(a)
        | ExprKind::Transpose(a, _)
        | ExprKind::Part(a, _)
        | ExprKind::Relayout(a)
        | ExprKind::Field(a, _)
        | ExprKind::Address(a)
        | ExprKind::Attribute(a, _)
        | ExprKind::Block(_, a) => visit(a),
        ExprKind::Binary(_, a, b)
        | ExprKind::DivMod(_, a, b)
        | ExprKind::Complex(a, b)
        | ExprKind::ItemAt(a, b, _) => {
            visit(a);
            visit(b);
        }
        ExprKind::IfElse(a, b, c) => {
            visit(a);
            visit(b);
            visit(c);
        }
        ExprKind::Math(_, all)
        | ExprKind::Tuple(all)
        | ExprKind::Call(_, all)
        | ExprKind::ArrayOf(_, all)
        | ExprKind::NewStruct(all) => all.iter().for_each(visit),
        ExprKind::CallValue(a, all) | ExprKind::Reshape(a, all) => {
            visit(a);
            all.iter().for_each(visit);
        }
        ExprKind::NewArray(shape, fill) => {
            shape.iter().for_each(&mut *visit);
            if let Fill::Value(value) = fill {
                visit(value);
            }
        }
        ExprKind::Element(element) => {
            visit(&element.array);
            element.indices.iter().for_each(visit);
        }
        ExprKind::View(a, subscripts) => {
            visit(a);
            for subscript in subscripts {
                match subscript {
                    Subscript::Index(index, _) => visit(index),
                    Subscript::Slice(a, b, c) => {
                        [a, b, c].into_iter().flatten().for_each(&mut *visit);
                    }
                    Subscript::Full | Subscript::NewAxis => {}
                }
            }
        }
        ExprKind::Map(tree) => elementwise(tree, visit),
        ExprKind::Fold(fold) => {
            elementwise(&fold.value, visit);
            if let Some(raise) = &fold.empty {
                raise.args.iter().for_each(visit);
            }
        }
    }
}
