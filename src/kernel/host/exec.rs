//! Statements.

use std::sync::Arc;

use super::{
    Host,
    error::{Raise, raise},
    frame::Frame,
};
use crate::kernel::{
    diagnostic::Diagnostic,
    exception::{Exception, ExceptionKind as E, Raised},
    syntax::{Expr, ExprKind, Handler, Name, Stmt, StmtKind},
    value::{Run, Stop, Value},
};

/// How a statement ended.
pub(super) enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

impl Host {
    pub(super) fn exec_body(&mut self, frame: &mut Frame, body: &[Stmt]) -> Run<Flow> {
        for stmt in body {
            let flow = self.exec(frame, stmt).map_err(|stop| match stop {
                Stop::Refused(diagnostic) => {
                    Stop::from(diagnostic.or_at(&frame.source, frame.span))
                }
                other => other,
            });
            match flow? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    pub(super) fn exec(&mut self, frame: &mut Frame, stmt: &Stmt) -> Run<Flow> {
        frame.span = stmt.span;
        match &stmt.kind {
            StmtKind::Expr(expr) => {
                self.eval(frame, expr)?;
            }
            StmtKind::Assign { targets, value } => {
                let value = self.eval(frame, value)?;
                for target in targets {
                    self.assign(frame, target, value.clone())?;
                }
            }
            StmtKind::AugAssign { target, op, value } => {
                self.exec_aug_assign(frame, target, *op, value)?
            }
            StmtKind::AnnAssign { target, value } => {
                if let Some(value) = value {
                    let value = self.eval(frame, value)?;
                    self.assign(frame, target, value)?;
                }
            }
            StmtKind::For { target, iter, body, orelse } => {
                let iter = self.eval(frame, iter)?;
                let iter = self.iterate(&iter)?;
                loop {
                    frame.span = stmt.span;
                    let Some(item) = self.next(&iter)? else { break };
                    self.assign(frame, target, item)?;
                    match self.exec_body(frame, body)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => return Ok(Flow::Next),
                        other => return Ok(other),
                    }
                }
                return self.exec_body(frame, orelse);
            }
            StmtKind::While { test, body, orelse } => {
                while self.eval_truth(frame, test)? {
                    match self.exec_body(frame, body)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => return Ok(Flow::Next),
                        other => return Ok(other),
                    }
                    frame.span = test.span;
                }
                return self.exec_body(frame, orelse);
            }
            StmtKind::If { test, body, orelse } => {
                let branch = if self.eval_truth(frame, test)? { body } else { orelse };
                return self.exec_body(frame, branch);
            }
            StmtKind::Try { body, handlers, orelse, finally } => {
                return self.exec_try(frame, body, handlers, orelse, finally);
            }
            StmtKind::Raise { exception, cause } => {
                return self.exec_raise(frame, exception, cause);
            }
            StmtKind::Assert { test, message } => {
                if !self.eval_truth(frame, test)? {
                    let args = match message {
                        Some(message) => vec![self.eval(frame, message)?],
                        None => Vec::new(),
                    };
                    return Err(Raised::with(E::AssertionError.class(), args).into());
                }
            }
            StmtKind::Return(value) => {
                return Ok(Flow::Return(match value {
                    Some(value) => self.eval(frame, value)?,
                    None => Value::None,
                }));
            }
            StmtKind::Delete(targets) => {
                for target in targets {
                    self.delete(frame, target)?;
                }
            }
            StmtKind::Def(function) => {
                let mut decorators = Vec::new();
                for decorator in &function.decorators {
                    decorators.push((self.eval(frame, decorator)?, decorator.span));
                }
                let mut value = self.make_function(frame, function)?;
                for (decorator, span) in decorators.into_iter().rev() {
                    frame.span = span;
                    value = self.decorate(frame, &decorator, value, span)?;
                }
                frame.bind(&function.name, value);
            }
            StmtKind::Class(class) => {
                let mut decorators = Vec::new();
                for decorator in &class.decorators {
                    decorators.push((self.eval(frame, decorator)?, decorator.span));
                }
                let mut value = self.make_class(frame, class)?;
                for (decorator, span) in decorators.into_iter().rev() {
                    frame.span = span;
                    value = self.decorate(frame, &decorator, value, span)?;
                }
                frame.bind(&class.name, value);
            }
            StmtKind::Import(names) => {
                for name in names {
                    self.import_statement(frame, name)?;
                }
            }
            StmtKind::ImportFrom { level, module, names } => {
                self.import_from_statement(frame, *level, module, names, stmt.span)?;
            }
            StmtKind::Global(_) | StmtKind::Nonlocal(_) | StmtKind::Pass => {}
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn exec_aug_assign(
        &mut self,
        frame: &mut Frame,
        target: &Expr,
        op: crate::kernel::syntax::BinaryOp,
        value: &Expr,
    ) -> Run<()> {
        match &target.kind {
            ExprKind::Attribute { value: object, name, .. } => {
                let object = self.eval(frame, object)?;
                let old = self.attribute(&object, name)?;
                let value = self.eval(frame, value)?;
                let new = self.binary_in_place(op, &old, &value)?;
                self.set_attribute(&object, name, new)
            }
            ExprKind::Subscript { value: object, index } => {
                let object = self.eval(frame, object)?;
                let index = self.eval(frame, index)?;
                let old = self.item(&object, &index)?;
                let value = self.eval(frame, value)?;
                let new = self.binary_in_place(op, &old, &value)?;
                self.set_item(&object, &index, new)
            }
            _ => {
                let old = self.eval(frame, target)?;
                let value = self.eval(frame, value)?;
                let new = self.binary_in_place(op, &old, &value)?;
                self.assign(frame, target, new)
            }
        }
    }

    /// Binds a target: a name, an item, an attribute, or a list of targets.
    pub(super) fn assign(&mut self, frame: &mut Frame, target: &Expr, value: Value) -> Run<()> {
        match &target.kind {
            ExprKind::Name(name) => {
                frame.bind(name, value);
                Ok(())
            }
            ExprKind::Tuple(targets) | ExprKind::List(targets) => {
                self.unpack(frame, targets, &value)
            }
            ExprKind::Attribute { value: object, name, .. } => {
                let object = self.eval(frame, object)?;
                self.set_attribute(&object, name, value)
            }
            ExprKind::Subscript { value: object, index } => {
                let object = self.eval(frame, object)?;
                let index = self.eval(frame, index)?;
                self.set_item(&object, &index, value)
            }
            _ => {
                Err(Diagnostic::new(&frame.source, target.span, "this cannot be assigned to")
                    .into())
            }
        }
    }

    fn unpack(&mut self, frame: &mut Frame, targets: &[Expr], value: &Value) -> Run<()> {
        let star = targets.iter().position(|target| matches!(target.kind, ExprKind::Starred(_)));
        let wanted = targets.len() - usize::from(star.is_some());
        let items = match value {
            Value::Tuple(items) => items.to_vec(),
            Value::List(items) => items.get(),
            _ => {
                let Ok(iter) = self.iterate(value) else {
                    return raise(
                        E::TypeError,
                        format!("cannot unpack non-iterable {} object", value.type_name()),
                    );
                };
                let mut items = Vec::new();
                while star.is_some() || items.len() <= wanted {
                    let Some(item) = self.next(&iter)? else { break };
                    items.push(item);
                }
                items
            }
        };
        if items.len() < wanted {
            let at_least = if star.is_some() { "at least " } else { "" };
            return raise(
                E::ValueError,
                format!(
                    "not enough values to unpack (expected {at_least}{wanted}, got {})",
                    items.len()
                ),
            );
        }
        if star.is_none() && items.len() > wanted {
            return raise(E::ValueError, format!("too many values to unpack (expected {wanted})"));
        }
        let rest = items.len() - wanted;
        let mut items = items.into_iter();
        for (i, target) in targets.iter().enumerate() {
            match &target.kind {
                ExprKind::Starred(inner) if Some(i) == star => {
                    let list = items.by_ref().take(rest).collect();
                    self.assign(frame, inner, Value::list(list))?;
                }
                _ => {
                    let item = items.next().unwrap_or_default();
                    self.assign(frame, target, item)?;
                }
            }
        }
        Ok(())
    }

    fn delete(&mut self, frame: &mut Frame, target: &Expr) -> Run<()> {
        match &target.kind {
            ExprKind::Name(name) => {
                if frame.unbind(name) {
                    Ok(())
                } else {
                    raise(E::NameError, format!("name '{name}' is not defined"))
                }
            }
            ExprKind::Tuple(targets) | ExprKind::List(targets) => {
                targets.iter().try_for_each(|target| self.delete(frame, target))
            }
            ExprKind::Subscript { value, index } => {
                let object = self.eval(frame, value)?;
                let index = self.eval(frame, index)?;
                self.delete_item(&object, &index)
            }
            ExprKind::Attribute { value, name, .. } => {
                let object = self.eval(frame, value)?;
                self.delete_attribute(&object, name)
            }
            _ => Err(Diagnostic::new(&frame.source, target.span, "this cannot be deleted").into()),
        }
    }

    fn exec_raise(
        &mut self,
        frame: &mut Frame,
        exception: &Option<Expr>,
        cause: &Option<Expr>,
    ) -> Run<Flow> {
        let Some(exception) = exception else {
            return match self.handling.last() {
                Some(raised) => Err(raised.clone().into()),
                None => raise(E::RuntimeError, "No active exception to reraise"),
            };
        };
        let value = self.eval(frame, exception)?;
        let exception = self.exception_of(&value)?;
        if let Some(cause) = cause {
            let cause = self.eval(frame, cause)?;
            *exception.cause.lock() = match cause {
                Value::None => None,
                cause => Some(self.exception_of(&cause)?),
            };
        }
        Err(Raised { exception, trace: Vec::new() }.into())
    }

    /// The exception that `raise value` raises: itself, or an instance of the class.
    fn exception_of(&mut self, value: &Value) -> Run<Arc<Exception>> {
        match value {
            Value::Exception(exception) => Ok(exception.clone()),
            Value::Class(class) if class.exception.is_some() => {
                match self.call(value, Vec::new(), Vec::new())? {
                    Value::Exception(exception) => Ok(exception),
                    _ => raise(E::TypeError, "exceptions must derive from BaseException"),
                }
            }
            _ => raise(E::TypeError, "exceptions must derive from BaseException"),
        }
    }

    fn exec_try(
        &mut self,
        frame: &mut Frame,
        body: &[Stmt],
        handlers: &[Handler],
        orelse: &[Stmt],
        finally: &[Stmt],
    ) -> Run<Flow> {
        let mut result = match self.exec_body(frame, body) {
            Ok(Flow::Next) => self.exec_body(frame, orelse),
            Err(Stop::Raised(mut raised)) => {
                // The frame of this function, while its place is known.
                if raised.trace.is_empty() || !raised.trace.iter().any(|f| f.span == frame.span) {
                    raised.trace.push(super::traceback_frame(frame));
                }
                self.exec_handlers(frame, *raised, handlers)
            }
            other => other,
        };
        if !finally.is_empty() && !matches!(result, Err(Stop::Refused(_))) {
            match self.exec_body(frame, finally)? {
                Flow::Next => {}
                other => result = Ok(other),
            }
        }
        result
    }

    fn exec_handlers(
        &mut self,
        frame: &mut Frame,
        raised: Raised,
        handlers: &[Handler],
    ) -> Run<Flow> {
        for handler in handlers {
            let caught = match &handler.class {
                None => true,
                Some(class) => {
                    let class = self.eval(frame, class)?;
                    self.catches(&class, &raised)?
                }
            };
            if !caught {
                continue;
            }
            let exception = raised.exception.clone();
            self.handling.push(raised);
            if let Some(name) = &handler.name {
                frame.bind(name, Value::Exception(exception));
            }
            let result = self.exec_body(frame, &handler.body);
            self.handling.pop();
            if let Some(name) = &handler.name {
                frame.unbind(name);
            }
            return result;
        }
        Err(raised.into())
    }

    fn catches(&mut self, class: &Value, raised: &Raised) -> Run<bool> {
        match class {
            Value::Class(class) if class.exception.is_some() => {
                Ok(raised.exception.is_instance(class))
            }
            Value::Tuple(classes) => {
                for class in classes.iter() {
                    if self.catches(class, raised)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => raise(
                E::TypeError,
                "catching classes that do not inherit from BaseException is not allowed",
            ),
        }
    }

    /// The value of a name.
    pub(super) fn load(&self, frame: &Frame, name: &Name) -> Run<Value> {
        match frame.find(name) {
            super::frame::Place::Local(Some(value)) => Ok(value),
            super::frame::Place::Local(None) if frame.is_free(name) => raise(
                E::NameError,
                format!(
                    "cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
                ),
            ),
            super::frame::Place::Local(None) => raise(
                E::UnboundLocalError,
                format!(
                    "cannot access local variable '{name}' where it is not associated with a value"
                ),
            ),
            super::frame::Place::Outside => frame
                .module
                .get(name)
                .or_else(|| super::builtin(name))
                .or_raise(E::NameError, || format!("name '{name}' is not defined")),
        }
    }
}
