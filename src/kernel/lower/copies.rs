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
use super::visit::{expr_children_mut, stmt_exprs_mut};
use crate::kernel::ir::{Expr, ExprKind, Function, LocalId, Stmt, StmtKind};

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
    stmt_exprs_mut(stmt, &mut |expr| blocks_in(expr, reads));
}

fn blocks_in(expr: &mut Expr, reads: &mut [usize]) {
    if let ExprKind::Block(body, value) = &mut expr.kind {
        // The value is read behind the statements, so what it reads is not theirs to drop.
        list(body, reads);
        blocks_in(value, reads);
        return;
    }
    expr_children_mut(expr, &mut |child| blocks_in(child, reads));
}

/// Lets a statement read `from` where it reads `to`, and counts how often.
fn rename(stmt: &mut Stmt, to: LocalId, from: LocalId, count: &mut usize) {
    own_lists(stmt, &mut |body| body.iter_mut().for_each(|stmt| rename(stmt, to, from, count)));
    stmt_exprs_mut(stmt, &mut |expr| rename_in(expr, to, from, count));
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
        _ => expr_children_mut(expr, &mut |child| rename_in(child, to, from, count)),
    }
}

/// The statements that a statement holds.
fn own_lists(stmt: &mut Stmt, visit: &mut dyn FnMut(&mut Vec<Stmt>)) {
    match &mut stmt.kind {
        StmtKind::If(_, then, otherwise) => {
            visit(then);
            visit(otherwise);
        }
        StmtKind::Try(body, handler, _) => {
            visit(body);
            visit(handler);
        }
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) => visit(body),
        StmtKind::For(rounds) => visit(&mut rounds.body),
        StmtKind::ParFor(rounds) => visit(&mut rounds.rounds.body),
        _ => {}
    }
}
