//! `try`: any statement of its body may be the last that ran, so the handler sees what variables held around each.
//!
//! ```text
//!   body:  s1 ─ s2 ─ s3 ──────────────► else ──┬──► finally ──►
//!           └────┴────┴──► handler ────────────┘
//!                              └──(an error)──────► finally ──► the error again
//! ```

use super::val::{Joined, Slot, Val};
use super::walk::{Res, State, Walker};
use crate::kernel::ir::{Caught, StmtKind};
use crate::kernel::syntax::{self, Handler};
use crate::kernel::value::{ExceptionKind, Value};

impl Walker<'_> {
    /// `try` with its parts, any of which may be empty but the first.
    pub(super) fn try_stmt(
        &mut self,
        body: &[syntax::Stmt],
        handlers: &[Handler],
        orelse: &[syntax::Stmt],
        finally: &[syntax::Stmt],
    ) -> Res<()> {
        if finally.is_empty() {
            return self.try_except(body, handlers, orelse);
        }
        if leaves(body) || handlers.iter().any(|it| leaves(&it.body)) || leaves(orelse) {
            return self.refuse(
                "`return`, `break` and `continue` are not supported in a `try` with `finally` in kernels",
                "set a variable, and leave behind the `try`",
            );
        }
        let span = self.span;
        self.attempts.push(Vec::new());
        let walked = self.apart(|walker| {
            walker.note_state();
            match handlers {
                [] => walker.body(body),
                _ => walker.try_except(body, handlers, orelse),
            }
        });
        let states = self.attempts.pop().unwrap_or_default();
        let (stmts, ()) = walked?;
        let after = self.state.take();
        self.state = interrupted(&states);
        let (mut again, ()) = self.apart(|walker| walker.body(finally))?;
        if self.state.is_some() {
            again.push(StmtKind::RaiseAgain.into());
        }
        self.state = after;
        self.span = span;
        self.emit(StmtKind::Try(stmts, again, Caught::Kept));
        if self.state.is_some() {
            self.body(finally)?;
        }
        Ok(())
    }

    fn try_except(
        &mut self,
        body: &[syntax::Stmt],
        handlers: &[Handler],
        orelse: &[syntax::Stmt],
    ) -> Res<()> {
        let [handler] = handlers else {
            return self.refuse(
                "a `try` has one `except` in kernels, which catches everything",
                "write one `except Exception:`",
            );
        };
        self.catches_all(handler)?;
        let span = self.span;
        let label = self.label();
        let mut paths = Vec::new();
        let (block, ()) = self.apart(|walker| {
            walker.attempts.push(Vec::new());
            let walked = walker.apart(|walker| {
                walker.note_state();
                walker.body(body)
            });
            let states = walker.attempts.pop().unwrap_or_default();
            let (stmts, ()) = walked?;
            let after = walker.state.take();
            walker.state = interrupted(&states);
            let (caught, ()) = walker.apart(|walker| {
                walker.body(&handler.body)?;
                if let Some(mark) = walker.mark() {
                    paths.push(mark);
                    walker.emit(StmtKind::Leave(label));
                }
                Ok(())
            })?;
            walker.state = after;
            walker.span = span;
            walker.emit(StmtKind::Try(stmts, caught, Caught::Dropped));
            if walker.state.is_some() {
                walker.body(orelse)?;
                paths.extend(walker.mark());
            }
            Ok(())
        })?;
        self.span = span;
        self.emit(StmtKind::Block(label, block));
        self.meet(paths);
        Ok(())
    }

    /// Refuses what Numba cannot catch.
    fn catches_all(&mut self, handler: &Handler) -> Res<()> {
        if let Some(class) = &handler.class {
            let val = self.expr(class)?;
            let all = matches!(&val, Val::Host(Value::Class(class)) if class.exception == Some(ExceptionKind::Exception) && &*class.module == "builtins");
            if !all {
                return self.refuse_at(
                    class.span,
                    "kernels catch `Exception` alone, whatever was raised",
                    "write `except Exception:`",
                );
            }
        }
        match &handler.name {
            Some(name) => self.refuse_at(
                handler.span,
                format!("an exception cannot be held by a variable (`{name}`) in kernels"),
                "leave `as` out",
            ),
            None => Ok(()),
        }
    }

    /// Tells the `try`s around what variables hold here.
    pub(super) fn note_state(&mut self) {
        if let Some(state) = &self.state {
            for states in &mut self.attempts {
                states.push(state.clone());
            }
        }
    }
}

/// What variables hold when one of these may have been the last that was so. No conversion is possible in between, so a
/// variable that changed its type holds nothing that could be used.
fn interrupted(states: &[State]) -> Option<State> {
    let (first, rest) = states.split_first()?;
    let mut joined = first.clone();
    for state in rest {
        if joined.len() < state.len() {
            joined.resize(state.len(), Slot::Unset);
        }
        for (slot, other) in joined.iter_mut().zip(state) {
            *slot = match slot.join(other) {
                Joined::Slot(joined) => joined,
                Joined::Run(ty) => Slot::Conflict(ty.to_string(), "another type".into()),
            };
        }
    }
    Some(joined)
}

/// Whether statements leave what is around them.
fn leaves(stmts: &[syntax::Stmt]) -> bool {
    use syntax::StmtKind as K;
    stmts.iter().any(|stmt| match &stmt.kind {
        K::Return(_) | K::Break | K::Continue => true,
        K::If { body, orelse, .. } => leaves(body) || leaves(orelse),
        // What leaves a loop inside stays inside.
        K::For { body, orelse, .. } | K::While { body, orelse, .. } => {
            returns(body) || leaves(orelse)
        }
        K::Try { body, handlers, orelse, finally } => {
            leaves(body)
                || handlers.iter().any(|it| leaves(&it.body))
                || leaves(orelse)
                || leaves(finally)
        }
        _ => false,
    })
}

fn returns(stmts: &[syntax::Stmt]) -> bool {
    use syntax::StmtKind as K;
    stmts.iter().any(|stmt| match &stmt.kind {
        K::Return(_) => true,
        K::If { body, orelse, .. }
        | K::For { body, orelse, .. }
        | K::While { body, orelse, .. } => returns(body) || returns(orelse),
        K::Try { body, handlers, orelse, finally } => {
            returns(body)
                || handlers.iter().any(|it| returns(&it.body))
                || returns(orelse)
                || returns(finally)
        }
        _ => false,
    })
}
