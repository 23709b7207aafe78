//! Where paths meet.
//!
//! ```text
//!   path ──► place holder ──┐
//!   path ──► place holder ──┴─► join: every variable gets the type that unifies what the paths hold,
//!                               and each place holder the conversions that its path needs
//! ```
//!
//! A loop is walked until the types at its head stay as they are; what earlier rounds wrote is thrown away.

use super::val::{Joined, Slot, Val, ir_type};
use super::walk::{PATCHES, Patch, Paths, Res, State, Stop, Walker, runs};
use crate::kernel::ir::{self, Expr, ExprKind, Label, Stmt, StmtKind};
use crate::kernel::syntax::Name;

impl<'w> Walker<'w> {
    /// A place holder at the end of the current path, with what variables hold there.
    pub(super) fn mark(&mut self) -> Option<(Patch, State)> {
        let state = self.state.clone()?;
        self.patches.push(Vec::new());
        let patch = Patch(self.patches.len() - 1);
        self.out.push(StmtKind::Block(Label(PATCHES - patch.0 as u32), Vec::new()).into());
        Some((patch, state))
    }

    /// What variables hold where these paths meet.
    pub(super) fn join_states(&mut self, paths: &[&State]) -> Option<State> {
        let mut paths = paths.iter();
        let mut joined = (*paths.next()?).clone();
        for path in paths {
            if joined.len() < path.len() {
                joined.resize(path.len(), Slot::Unset);
            }
            for (variable, slot) in joined.iter_mut().enumerate() {
                let other = path.get(variable).unwrap_or(&Slot::Unset);
                *slot = match slot.join(other) {
                    Joined::Slot(slot) => slot,
                    Joined::Run(ty) => {
                        let local = self.local_of(variable, &ty);
                        Slot::Run(ty, local, None)
                    }
                };
            }
        }
        Some(joined)
    }

    /// Fills a place holder with what turns `from` into `to`.
    pub(super) fn convert(&mut self, patch: Patch, from: &State, to: &State) {
        let mut stmts = Vec::new();
        for (slot, target) in from.iter().zip(to) {
            let (Slot::Run(_, local, _), Slot::Run(ty, into, _)) = (slot, target) else { continue };
            if local != into {
                let value = self.ir.get(*local).cast(ir_type(ty));
                stmts.push(StmtKind::Assign(*into, value).into());
            }
        }
        self.patches[patch.0] = stmts;
    }

    /// Goes on where these paths meet; where there are none, nothing is reached.
    pub(super) fn meet(&mut self, paths: Paths) {
        let states: Vec<&State> = paths.iter().map(|(_, state)| state).collect();
        let joined = self.join_states(&states);
        if let Some(joined) = &joined {
            for (patch, state) in &paths {
                self.convert(*patch, state, joined);
            }
        }
        self.state = joined;
    }

    /// Puts conversions in the place of their holders, and casts what the kernel returns.
    pub(super) fn settle(&mut self, stmts: &mut Vec<Stmt>, result: Option<&ir::Type>) {
        let old = std::mem::take(stmts);
        for mut stmt in old {
            match &mut stmt.kind {
                StmtKind::Block(label, body) => {
                    let patch = (PATCHES - label.0) as usize;
                    if body.is_empty() && patch < self.patches.len() && label.0 > self.labels {
                        stmts.append(&mut self.patches[patch]);
                        continue;
                    }
                    self.settle(body, result);
                }
                StmtKind::Loop(_, body) => self.settle(body, result),
                StmtKind::For(rounds) => self.settle(&mut rounds.body, result),
                StmtKind::ParFor(parallel) => self.settle(&mut parallel.rounds.body, result),
                StmtKind::If(_, then, otherwise) | StmtKind::Try(then, otherwise, _) => {
                    self.settle(then, result);
                    self.settle(otherwise, result);
                }
                StmtKind::Return(value) => {
                    if let Some(result) = result {
                        *value = match value.take() {
                            Some(value) => Some(value.cast(result.clone())),
                            None if *result == ir::Type::None => None,
                            None => Some(Expr::none().cast(result.clone())),
                        };
                    }
                }
                _ => {}
            }
            stmts.push(stmt);
        }
    }

    /// Runs `f` with its statements kept apart.
    pub(super) fn apart<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<(Vec<Stmt>, T)> {
        let saved = std::mem::take(&mut self.out);
        let result = f(self);
        let stmts = std::mem::replace(&mut self.out, saved);
        Ok((stmts, result?))
    }

    /// A value that needs statements, which run right before it.
    pub(super) fn with_stmts(&mut self, f: impl FnOnce(&mut Self) -> Res<Val>) -> Res<Val> {
        let (mut stmts, val) = self.apart(f)?;
        self.settle(&mut stmts, None);
        if stmts.is_empty() {
            return Ok(val);
        }
        Ok(match val {
            Val::Run { ty, expr, literal } => {
                let expr =
                    Expr::new(ExprKind::Block(stmts, Box::new(expr.clone())), expr.ty.clone());
                Val::Run { ty, expr, literal }
            }
            Val::Tuple(items) if items.iter().all(runs) => {
                let (ty, expr) = self.materialise(Val::Tuple(items))?;
                let expr =
                    Expr::new(ExprKind::Block(stmts, Box::new(expr.clone())), expr.ty.clone());
                Val::run(ty, expr)
            }
            other => {
                self.out.append(&mut stmts);
                other
            }
        })
    }

    /// Walks a loop until the types at its head stay as they are, and returns what variables hold there. `round` walks
    /// the body from the head, and returns the paths back to the head and what it made.
    pub(super) fn fixed<T>(
        &mut self,
        assigned: &[Name],
        mut round: impl FnMut(&mut Self) -> Res<(Paths, T)>,
    ) -> Res<(State, T)> {
        let Some((entry, before)) = self.mark() else { return Err(Stop::Unknown) };
        let mut head = before.clone();
        // What the body assigns is not known at the head, even if it is before.
        for name in assigned {
            if let Some(variable) = self.existing(self.frame, name)
                && let Some(Slot::Run(_, _, literal)) = head.get_mut(variable)
            {
                *literal = None;
            }
        }
        self.depth += 1;
        let reads = self.unset_reads.len();
        loop {
            let callees = self.callees.len();
            let constants = self.ir.constants.len();
            let returned = self.returned.len();
            let returns =
                self.frames[self.frame].returns.as_ref().map(|returns| returns.seen.len());
            let out = self.out.len();
            let attempts: Vec<usize> = self.attempts.iter().map(Vec::len).collect();
            self.state = Some(head.clone());
            let walked = round(self);
            if walked.is_err() {
                self.depth -= 1;
            }
            let (back, result) = walked?;
            let mut states = vec![&head];
            states.extend(back.iter().map(|(_, state)| state));
            let joined = self.join_states(&states).unwrap_or_default();
            let unset = Slot::Unset;
            // What is first set in the body changes the head only for those who read it before.
            let settled = joined.iter().enumerate().all(|(variable, slot)| {
                let old = head.get(variable).unwrap_or(&unset);
                slot.same(old) || matches!(old, Slot::Unset) && !matches!(slot, Slot::Conflict(..))
            });
            let waited = self.unset_reads[reads..]
                .iter()
                .any(|(variable, _)| !matches!(joined.get(*variable), None | Some(Slot::Unset)));
            if settled && !waited {
                self.depth -= 1;
                if self.depth == 0
                    && let Some((variable, span)) = self.unset_reads.pop()
                {
                    let name = self.names[variable].clone();
                    return self.unset(&name, span);
                }
                self.convert(entry, &before, &joined);
                for (patch, state) in &back {
                    self.convert(*patch, state, &joined);
                }
                return Ok((joined, result));
            }
            head = joined;
            self.unset_reads.truncate(reads);
            self.callees.truncate(callees);
            self.ir.callees.truncate(callees);
            self.ir.constants.truncate(constants);
            self.returned.truncate(returned);
            if let (Some(returns), Some(seen)) = (&mut self.frames[self.frame].returns, returns) {
                returns.seen.truncate(seen);
            }
            self.out.truncate(out);
            for (states, before) in self.attempts.iter_mut().zip(attempts) {
                states.truncate(before);
            }
        }
    }
}

/// What a path out of a loop did not set may have been set in a round before.
pub(super) fn set_by_earlier_rounds(state: &mut State, head: &State) {
    if state.len() < head.len() {
        state.resize(head.len(), Slot::Unset);
    }
    for (slot, before) in state.iter_mut().zip(head) {
        if matches!(slot, Slot::Unset) {
            *slot = before.clone();
        }
    }
}
