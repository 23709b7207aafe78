//! Statements, but for loops, assignments and `try`.

use std::sync::Arc;

use super::val::{Closure, Slot, Val};
use super::walk::{Res, Stop, Walker, is_simple};
use crate::kernel::ir::{self, Expr, Site, StmtKind};
use crate::kernel::runtime::stack::deep;
use crate::kernel::syntax::{self, Arg, ExprKind as S};
use crate::kernel::types::Ty;
use crate::kernel::value::Value;

impl<'w> Walker<'w> {
    pub(super) fn body(&mut self, stmts: &[syntax::Stmt]) -> Res<()> {
        for stmt in stmts {
            if self.state.is_none() {
                break;
            }
            self.span = stmt.span;
            let outer = self.site;
            if let Some(number) = self.sites.get(&stmt.span)
                && Arc::ptr_eq(&self.frames[self.frame].function.source, &self.def.function.source)
            {
                self.site = Site(*number);
            }
            let walked = deep(|| self.stmt(stmt));
            self.site = outer;
            self.note_state();
            match walked {
                Err(Stop::Unknown) => {
                    if self.depth == 0
                        && let Some((variable, span)) = self.unset_reads.pop()
                    {
                        let name = self.names[variable].clone();
                        return self.unset(&name, span);
                    }
                    self.unknowns += 1;
                    self.state = None;
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Evaluates a value that is of no use but for what its evaluation does.
    pub(super) fn effect(&mut self, val: Val) {
        match val {
            Val::Run { expr, .. } if !is_simple(&expr) => self.emit(StmtKind::Eval(expr)),
            Val::Tuple(items) => items.into_iter().for_each(|item| self.effect(item)),
            _ => {}
        }
    }

    fn stmt(&mut self, stmt: &syntax::Stmt) -> Res<()> {
        use syntax::StmtKind as K;
        match &stmt.kind {
            K::Expr(expr) => {
                if matches!(expr.kind, S::Str(_) | S::Ellipsis) {
                    return Ok(());
                }
                let val = self.expr(expr)?;
                self.effect(val);
                Ok(())
            }
            K::Assign { targets, value } => {
                let mut val = self.expr(value)?;
                if targets.len() > 1 {
                    val = self.bind(val);
                }
                for target in targets {
                    self.assign(target, val.clone())?;
                }
                Ok(())
            }
            K::AnnAssign { target, value } => match value {
                Some(value) => {
                    let val = self.expr(value)?;
                    self.assign(target, val)
                }
                None => Ok(()),
            },
            K::AugAssign { target, op, value } => self.augment(target, *op, value),
            K::If { test, body, orelse } => self.if_stmt(test, body, orelse),
            K::While { test, body, orelse } => self.while_stmt(test, body, orelse),
            K::For { target, iter, body, orelse } => self.for_stmt(target, iter, body, orelse),
            K::Return(value) => self.return_stmt(value.as_ref()),
            K::Raise { exception, cause } => {
                if let Some(cause) = cause {
                    return self.refuse_at(
                        cause.span,
                        "`raise ... from ...` is not supported in kernels",
                        "raise without `from`",
                    );
                }
                match exception {
                    Some(exception) => self.raise(exception),
                    None => self.refuse(
                        "there is no exception to raise again in a kernel",
                        "name the exception to raise",
                    ),
                }
            }
            K::Assert { test, message } => self.assert_stmt(test, message.as_ref()),
            K::Def(function) => {
                let closure = self.closure(function)?;
                let variable = self.variable(self.frame, &function.name);
                self.assign_variable(variable, closure)
            }
            K::Pass => Ok(()),
            K::Break => {
                let depth = self.frames[self.frame].loops;
                if self.loops.len() <= depth {
                    return self.refuse("`break` outside of a loop", "put it into the loop");
                }
                if self.loops.last().is_some_and(|inner| inner.parallel) {
                    return self.refuse(
                        "`break` cannot leave a prange loop",
                        "use range, or let the rounds run to the end",
                    );
                }
                let mark = self.mark();
                let inner = self.loops.len() - 1;
                self.loops[inner].breaks.extend(mark);
                let exit = self.loops[inner].exit;
                self.emit(StmtKind::Leave(exit));
                self.state = None;
                Ok(())
            }
            K::Continue => {
                let depth = self.frames[self.frame].loops;
                if self.loops.len() <= depth {
                    return self.refuse("`continue` outside of a loop", "put it into the loop");
                }
                let mark = self.mark();
                let inner = self.loops.len() - 1;
                self.loops[inner].nexts.extend(mark);
                let next = self.loops[inner].next;
                self.emit(StmtKind::Next(next));
                self.state = None;
                Ok(())
            }
            K::Delete(targets) => {
                for target in targets {
                    let S::Name(name) = &target.kind else {
                        return self.refuse_at(
                            target.span,
                            "only names can be deleted in kernels",
                            "leave it out",
                        );
                    };
                    let variable = self.variable(self.frame, name);
                    self.set(variable, Slot::Unset);
                }
                Ok(())
            }
            K::Try { body, handlers, orelse, finally } => {
                self.try_stmt(body, handlers, orelse, finally)
            }
            K::Class(_) => {
                self.refuse("classes cannot be made in kernels", "define it at module level")
            }
            K::Import(_) | K::ImportFrom { .. } => {
                self.refuse("imports are not supported in kernels", "import at module level")
            }
            K::Global(_) | K::Nonlocal(_) => self.refuse(
                "kernels cannot assign to names outside of them",
                "return the value, or write it into an array",
            ),
        }
    }

    fn if_stmt(
        &mut self,
        test: &syntax::Expr,
        body: &[syntax::Stmt],
        orelse: &[syntax::Stmt],
    ) -> Res<()> {
        let test = self.expr(test)?;
        let condition = match self.truth(test)? {
            Ok(known) => return self.body(if known { body } else { orelse }),
            Err(condition) => condition,
        };
        let span = self.span;
        let before = self.state.clone();
        let mut paths = Vec::new();
        let (then, ()) = self.apart(|walker| {
            walker.body(body)?;
            paths.extend(walker.mark());
            Ok(())
        })?;
        self.state = before;
        let (otherwise, ()) = self.apart(|walker| {
            walker.body(orelse)?;
            paths.extend(walker.mark());
            Ok(())
        })?;
        self.span = span;
        self.emit(StmtKind::If(condition, then, otherwise));
        self.meet(paths);
        Ok(())
    }

    fn return_stmt(&mut self, value: Option<&syntax::Expr>) -> Res<()> {
        let span = self.span;
        if self.loops[self.frames[self.frame].loops..].iter().any(|inner| inner.parallel) {
            return self.refuse(
                "`return` cannot leave a prange loop",
                "use range, or return after the loop",
            );
        }
        let val = match value {
            Some(value) => self.expr(value)?,
            None => Val::none(),
        };
        self.span = span;
        if self.frames[self.frame].returns.is_some() {
            let val = self.bind(val);
            let Some((patch, state)) = self.mark() else { return Ok(()) };
            if let Some(returns) = &mut self.frames[self.frame].returns {
                let label = returns.label;
                returns.seen.push((patch, state, val));
                self.emit(StmtKind::Leave(label));
            }
            self.state = None;
            return Ok(());
        }
        if let Val::Local(_) | Val::Kernel(_) = val {
            return self.refuse(
                format!("{} cannot leave the kernel", val.describe()),
                "return what it computes, or make the function in host code",
            );
        }
        if val.is_none() {
            // The expression may still do something.
            self.effect(val);
            self.returned.push(Ty::None);
            self.emit(StmtKind::Return(None));
        } else {
            let (ty, expr) = self.materialise(val)?;
            self.returned.push(ty);
            self.emit(StmtKind::Return(Some(expr)));
        }
        self.state = None;
        Ok(())
    }

    fn raise(&mut self, exception: &syntax::Expr) -> Res<()> {
        let (class, args) = match &exception.kind {
            S::Call { function, args } => (&**function, &args[..]),
            _ => (exception, &[][..]),
        };
        let val = self.expr(class)?;
        let Val::Host(Value::Class(class_value)) = &val else {
            return self.refuse_at(
                class.span,
                format!("{} is no exception", val.describe()),
                "raise ValueError(\"...\")",
            );
        };
        if class_value.exception.is_none() {
            return self.refuse_at(
                class.span,
                format!("{} is no exception", class_value.name),
                "raise ValueError(\"...\")",
            );
        }
        let (module, path) = (&class_value.module, &class_value.qualified_name);
        if path.contains('<') {
            return self.refuse_at(
                class.span,
                format!("kernels cannot raise `{}`, which a function defines", class_value.name),
                "define the class in the module's body",
            );
        }
        let name = match &**module {
            "builtins" => class_value.name.to_string(),
            module => format!("{module}:{path}"),
        };
        let mut list = Vec::new();
        for arg in args {
            let Arg::Positional(arg) = arg else {
                return self.refuse_at(
                    arg.value().span,
                    "exceptions in kernels take positional arguments",
                    "raise ValueError(\"...\")",
                );
            };
            let val = self.expr(arg)?;
            list.push(self.materialise(val)?.1);
        }
        self.emit(StmtKind::Raise(ir::Raise { class: name, args: list }));
        self.state = None;
        Ok(())
    }

    fn assert_stmt(&mut self, test: &syntax::Expr, message: Option<&syntax::Expr>) -> Res<()> {
        let test = self.expr(test)?;
        let condition = match self.truth(test)? {
            Ok(true) => return Ok(()),
            Ok(false) => Expr::bool(false),
            Err(condition) => condition,
        };
        let (stmts, ()) = self.apart(|walker| {
            let mut args = Vec::new();
            if let Some(message) = message {
                let val = walker.expr(message)?;
                args.push(walker.materialise(val)?.1);
            }
            walker.emit(StmtKind::Raise(ir::Raise { class: "AssertionError".into(), args }));
            Ok(())
        })?;
        self.emit(StmtKind::If(condition, Vec::new(), stmts));
        Ok(())
    }

    /// A `def` or `lambda` as a value.
    pub(super) fn closure(&mut self, function: &Arc<syntax::Function>) -> Res<Val> {
        let mut defaults = Vec::new();
        for param in function.params.positional.iter().chain(&function.params.keyword_only) {
            defaults.push(match &param.default {
                Some(default) => {
                    let val = self.expr(default)?;
                    Some(self.hold(val))
                }
                None => None,
            });
        }
        Ok(Val::Local(Arc::new(Closure {
            function: function.clone(),
            frame: self.frame,
            defaults,
        })))
    }
}
