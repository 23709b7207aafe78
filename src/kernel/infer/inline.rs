//! Functions that are inlined: their statements become a block that their `return`s leave.

use std::sync::Arc;

use super::val::{Val, ir_type};
use super::walk::{Frame, Res, Returns, Scope, State, Stop, Walker, runs};
use crate::kernel::ir::{Label, Stmt, StmtKind};
use crate::kernel::options::Options;
use crate::kernel::syntax::{self, Name};
use crate::kernel::types::Ty;

impl<'w> Walker<'w> {
    /// The body of an inlined function, in a frame of its own whose parameters hold `bound`.
    pub(super) fn inline(
        &mut self,
        function: &Arc<syntax::Function>,
        scope: Scope,
        parent: Option<usize>,
        options: Options,
        bound: Vec<(Name, Val)>,
    ) -> Res<Val> {
        if self.open > 60 {
            return self.refuse(
                format!("`{}` is inlined into itself without end", function.name),
                "make it a kernel of its own without inline=\"always\"",
            );
        }
        let span = self.span;
        let result = self.with_stmts(|walker| {
            let caller = walker.frame;
            let label = walker.label();
            walker.frames.push(Frame {
                function: function.clone(),
                scope,
                parent,
                options,
                returns: Some(Returns { label, seen: Vec::new() }),
                loops: walker.loops.len(),
            });
            let frame = walker.frames.len() - 1;
            walker.frame = frame;
            walker.open += 1;
            let result = walker.inlined_body(function, bound, frame, label);
            walker.open -= 1;
            walker.frame = caller;
            let loops = walker.frames[frame].loops;
            walker.loops.truncate(loops);
            result
        });
        self.span = span;
        result
    }

    fn inlined_body(
        &mut self,
        function: &Arc<syntax::Function>,
        bound: Vec<(Name, Val)>,
        frame: usize,
        label: Label,
    ) -> Res<Val> {
        for (name, val) in bound {
            let variable = self.variable(frame, &name);
            self.assign_variable(variable, val)?;
        }
        let unknowns = self.unknowns;
        let (mut stmts, ()) = self.apart(|walker| walker.body(&function.body))?;
        // A body that ends in its only return needs no way out.
        let seen = self.frames[frame].returns.as_ref().map_or(0, |returns| returns.seen.len());
        if seen == 1
            && self.state.is_none()
            && let Some(Stmt { kind: StmtKind::Leave(last), .. }) = stmts.last()
            && *last == label
            && let Some((_, state, val)) =
                self.frames[frame].returns.as_mut().and_then(|returns| returns.seen.pop())
        {
            stmts.pop();
            self.out.append(&mut stmts);
            self.state = Some(state);
            return Ok(val);
        }
        if self.state.is_some() {
            let mark = {
                let saved = std::mem::replace(&mut self.out, stmts);
                let mark = self.mark();
                stmts = std::mem::replace(&mut self.out, saved);
                mark
            };
            if let (Some((patch, state)), Some(returns)) =
                (mark, self.frames[frame].returns.as_mut())
            {
                returns.seen.push((patch, state, Val::none()));
            }
        }
        let seen = self.frames[frame]
            .returns
            .as_mut()
            .map(|returns| std::mem::take(&mut returns.seen))
            .unwrap_or_default();
        let Some((_, _, first)) = seen.first() else {
            if self.unknowns != unknowns {
                return Err(Stop::Unknown);
            }
            // It raises on every path.
            self.emit(StmtKind::Block(label, stmts));
            self.state = None;
            return Ok(Val::none());
        };
        let known = match first {
            Val::Run { .. } => None,
            Val::Tuple(items) if items.iter().all(runs) => None,
            first => Some(first.clone()),
        };
        if let Some(known) = known {
            if !seen.iter().all(|(_, _, val)| val.same(&known)) {
                return self.refuse(
                    format!("`{}` returns different functions on different paths", function.name),
                    "call the function on each path instead",
                );
            }
            self.emit(StmtKind::Block(label, stmts));
            self.meet(seen.into_iter().map(|(patch, state, _)| (patch, state)).collect());
            return Ok(known);
        }
        let mut typed = Vec::new();
        let mut result: Option<Ty> = None;
        for (patch, state, val) in seen {
            let (ty, expr) = self.materialise(val)?;
            result = Some(match result {
                None => ty.clone(),
                Some(so_far) => match crate::kernel::rules::unify(&so_far, &ty) {
                    Some(ty) => ty,
                    None => {
                        return self.refuse(
                            format!(
                                "`{}` returns both {so_far} and {ty}, which no one type holds",
                                function.name
                            ),
                            "return values of one type on all paths",
                        );
                    }
                },
            });
            typed.push((patch, state, expr));
        }
        let result = result.unwrap_or(Ty::None);
        let local = self.temporary(&result);
        let states: Vec<&State> = typed.iter().map(|(_, state, _)| state).collect();
        let Some(joined) = self.join_states(&states) else { return Err(Stop::Unknown) };
        for (patch, state, expr) in &typed {
            self.convert(*patch, state, &joined);
            let value = expr.clone().cast(ir_type(&result));
            self.patches[patch.0].push(StmtKind::Assign(local, value).into());
        }
        self.emit(StmtKind::Block(label, stmts));
        self.state = Some(joined);
        if result == Ty::None {
            return Ok(Val::none());
        }
        let value = self.ir.get(local);
        Ok(self.val_of(&result, value))
    }
}
