//! Locals that are but another name of a local: what evaluates a target or an index once, and the variable of a loop.
//!
//! ```text
//!   t = j                       dropped, if nothing else reads t
//!   c[i, t] = c[i, t] + x  ──►  c[i, j] = c[i, j] + x
//! ```
//!
//! From a copy to the end of the statements that it is among, if these assign neither of the two, both are the same value.
//! So facts of the one hold for the other, and arrays are not counted for the sake of a name.

use std::borrow::Cow;

use super::facts::{each_assigned, each_expr, each_stmt};
use crate::kernel::ir::{
    Elementwise, Expr, ExprKind, Fill, For, Function, LocalId, Stmt, StmtKind, Subscript,
};

/// The function without copies that it can do without.
pub(super) fn propagate(function: &Function) -> Cow<'_, Function> {
    let mut has_copies = false;
    each_stmt(&function.body, &mut |stmt| has_copies |= copied(stmt).is_some());
    if !has_copies {
        return Cow::Borrowed(function);
    }
    let mut function = function.clone();
    let mut reads = vec![0; function.locals.len()];
    let read = |expr: &Expr, reads: &mut Vec<usize>| {
        if let ExprKind::Local(local) = expr.kind {
            reads[local.0 as usize] += 1;
        }
    };
    each_expr(&function.body, &mut |expr| read(expr, &mut reads));
    // What a parallel loop reduces to is read behind it.
    each_stmt(&function.body, &mut |stmt| {
        if let StmtKind::ParFor(rounds) = &stmt.kind {
            rounds.reductions.iter().for_each(|it| reads[it.local.0 as usize] += 1);
        }
    });
    list(&mut function.body, &mut reads);
    Cow::Owned(function)
}

/// What a statement copies: to which local, and from which.
fn copied(stmt: &Stmt) -> Option<(LocalId, LocalId)> {
    match &stmt.kind {
        StmtKind::Assign(to, Expr { kind: ExprKind::Local(from), .. }) if to != from => {
            Some((*to, *from))
        }
        _ => None,
    }
}

fn list(body: &mut Vec<Stmt>, reads: &mut [usize]) {
    let mut at = 0;
    while at < body.len() {
        if let Some((to, from)) = copied(&body[at]) {
            let rest = &mut body[at + 1..];
            let mut assigned = false;
            each_assigned(rest, &mut |local| assigned |= local == to || local == from);
            if !assigned {
                let mut count = 0;
                rest.iter_mut().for_each(|stmt| rename(stmt, to, from, &mut count));
                reads[to.0 as usize] -= count;
                reads[from.0 as usize] += count;
            }
            if reads[to.0 as usize] == 0 {
                reads[from.0 as usize] -= 1;
                body.remove(at);
                continue;
            }
        }
        lists_in(&mut body[at], reads);
        at += 1;
    }
}

/// Goes through the statements inside of a statement.
fn lists_in(stmt: &mut Stmt, reads: &mut [usize]) {
    own_lists(stmt, &mut |body| list(body, reads));
    own_exprs(stmt, &mut |expr| blocks_in(expr, reads));
}

fn blocks_in(expr: &mut Expr, reads: &mut [usize]) {
    if let ExprKind::Block(body, value) = &mut expr.kind {
        // The value is read behind the statements, so what it reads is not theirs to drop.
        list(body, reads);
        blocks_in(value, reads);
        return;
    }
    children(expr, &mut |child| blocks_in(child, reads));
}

/// Lets a statement read `from` where it reads `to`, and counts how often.
fn rename(stmt: &mut Stmt, to: LocalId, from: LocalId, count: &mut usize) {
    own_lists(stmt, &mut |body| body.iter_mut().for_each(|stmt| rename(stmt, to, from, count)));
    own_exprs(stmt, &mut |expr| rename_in(expr, to, from, count));
}

fn rename_in(expr: &mut Expr, to: LocalId, from: LocalId, count: &mut usize) {
    match &mut expr.kind {
        ExprKind::Local(local) if *local == to => {
            *local = from;
            *count += 1;
        }
        ExprKind::Block(body, value) => {
            body.iter_mut().for_each(|stmt| rename(stmt, to, from, count));
            rename_in(value, to, from, count);
        }
        _ => children(expr, &mut |child| rename_in(child, to, from, count)),
    }
}

/// The statements that a statement holds.
fn own_lists(stmt: &mut Stmt, visit: &mut dyn FnMut(&mut Vec<Stmt>)) {
    match &mut stmt.kind {
        StmtKind::If(_, then, otherwise) => {
            visit(then);
            visit(otherwise);
        }
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) => visit(body),
        StmtKind::For(rounds) => visit(&mut rounds.body),
        StmtKind::ParFor(rounds) => visit(&mut rounds.rounds.body),
        _ => {}
    }
}

/// The expressions that a statement holds, to be changed: those that [`stmt_exprs`](super::facts::stmt_exprs) shows.
fn own_exprs(stmt: &mut Stmt, visit: &mut dyn FnMut(&mut Expr)) {
    let mut rounds = |rounds: &mut For| {
        visit(&mut rounds.start);
        visit(&mut rounds.stop);
        visit(&mut rounds.step);
    };
    match &mut stmt.kind {
        StmtKind::For(it) => rounds(it),
        StmtKind::ParFor(it) => rounds(&mut it.rounds),
        StmtKind::Assign(_, value)
        | StmtKind::Eval(value)
        | StmtKind::If(value, ..)
        | StmtKind::Return(Some(value)) => visit(value),
        StmtKind::Raise(raise) => raise.args.iter_mut().for_each(visit),
        StmtKind::Print(values) => values.iter_mut().for_each(visit),
        StmtKind::SetElement(element, value) => {
            visit(&mut element.array);
            element.indices.iter_mut().for_each(&mut *visit);
            visit(value);
        }
        StmtKind::SetView(set) => {
            visit(&mut set.target);
            tree(&mut set.value, visit);
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

fn tree(tree: &mut Elementwise, visit: &mut dyn FnMut(&mut Expr)) {
    tree.inputs.iter_mut().for_each(&mut *visit);
    visit(&mut tree.value);
}

/// The expressions that an expression holds, to be changed: those that [`expr_children`](super::facts::expr_children)
/// shows.
fn children(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match &mut expr.kind {
        ExprKind::Const(_) | ExprKind::Constant(_) | ExprKind::Local(_) => {}
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
        | ExprKind::NewStruct(all) => all.iter_mut().for_each(visit),
        ExprKind::Reshape(a, all) => {
            visit(a);
            all.iter_mut().for_each(visit);
        }
        ExprKind::NewArray(shape, fill) => {
            shape.iter_mut().for_each(&mut *visit);
            if let Fill::Value(value) = fill {
                visit(value);
            }
        }
        ExprKind::Element(element) => {
            visit(&mut element.array);
            element.indices.iter_mut().for_each(visit);
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
        ExprKind::Map(inner) => tree(inner, visit),
        ExprKind::Fold(fold) => {
            tree(&mut fold.value, visit);
            if let Some(raise) = &mut fold.empty {
                raise.args.iter_mut().for_each(visit);
            }
        }
    }
}
