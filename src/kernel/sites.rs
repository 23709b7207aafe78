//! The statements of a kernel by number, for compiled code to say which of them an error left.
//!
//! ```text
//!   code ──► ValueError, left by statement 4 of the callee at reference 2, called by statement 1
//!   host ──► the lines of these statements in the text that was read in this run
//! ```
//!
//! Numbers follow the canonical form: comments, blank lines and strings that stand by themselves change none, so that the
//! same code serves a function wherever it stands.

use std::collections::HashMap;

use super::syntax::{Expr, ExprKind, Function, Span, Stmt, StmtKind};

/// The place of each statement, in the order of the text: the first is number 1.
pub(crate) fn spans(function: &Function) -> Vec<Span> {
    let mut spans = Vec::new();
    block(&function.body, &mut spans);
    spans
}

/// The number of each statement by its place.
pub(crate) fn numbers(function: &Function) -> HashMap<Span, u32> {
    spans(function).into_iter().zip(1..).collect()
}

fn block(stmts: &[Stmt], spans: &mut Vec<Span>) {
    for stmt in stmts {
        if matches!(&stmt.kind, StmtKind::Expr(Expr { kind: ExprKind::Str(_), .. })) {
            continue;
        }
        spans.push(stmt.span);
        match &stmt.kind {
            StmtKind::If { body, orelse, .. }
            | StmtKind::While { body, orelse, .. }
            | StmtKind::For { body, orelse, .. } => {
                block(body, spans);
                block(orelse, spans);
            }
            StmtKind::Try { body, handlers, orelse, finally } => {
                block(body, spans);
                handlers.iter().for_each(|handler| block(&handler.body, spans));
                block(orelse, spans);
                block(finally, spans);
            }
            StmtKind::Def(function) => block(&function.body, spans),
            _ => {}
        }
    }
}
