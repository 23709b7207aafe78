//! Expressions.

use std::sync::Arc;

use super::{
    Host,
    error::raise,
    frame::Frame,
    iterate::{Generator, Iter},
    out_of_stack,
};
use crate::kernel::{
    diagnostic::Diagnostic,
    exception::ExceptionKind as E,
    format,
    syntax::{
        Arg, Comprehension, ComprehensionKind, Expr, ExprKind, FStringPart, LogicOp, Name, UnaryOp,
    },
    table::Table,
    value::{Run, Shared, Slice, Stop, Value},
};

impl Host {
    pub(super) fn eval_truth(&mut self, frame: &mut Frame, expr: &Expr) -> Run<bool> {
        let value = self.eval(frame, expr)?;
        self.truth(&value)
    }

    pub(super) fn eval(&mut self, frame: &mut Frame, expr: &Expr) -> Run<Value> {
        self.step()?;
        if out_of_stack() {
            return raise(E::RecursionError, "maximum recursion depth exceeded");
        }
        Ok(match &expr.kind {
            ExprKind::Name(name) => self.load(frame, name)?,
            ExprKind::None => Value::None,
            ExprKind::Ellipsis => Value::Ellipsis,
            ExprKind::Bool(value) => Value::Bool(*value),
            ExprKind::Int(value) => Value::Int(*value),
            ExprKind::Float(value) => Value::Float(*value),
            ExprKind::Imaginary(value) => Value::Complex(0.0, *value),
            ExprKind::Str(value) => Value::Str(value.clone()),
            ExprKind::Bytes(value) => Value::Bytes(value.clone()),
            ExprKind::FString(parts) => Value::str(self.f_string(frame, parts)?),
            ExprKind::Tuple(items) => Value::tuple(self.eval_items(frame, items)?),
            ExprKind::List(items) => Value::list(self.eval_items(frame, items)?),
            ExprKind::Set(items) => {
                let mut table = Table::default();
                for item in self.eval_items(frame, items)? {
                    table.insert(self.key(&item)?, item, Value::None);
                }
                Value::Set(Arc::new(Shared::new(table)))
            }
            ExprKind::Dict(items) => self.eval_dict(frame, items)?,
            ExprKind::Unary { op, value } => {
                let value = self.eval(frame, value)?;
                match op {
                    UnaryOp::Not => Value::Bool(!self.truth(&value)?),
                    op => self.at(frame, expr, |host| host.unary(*op, &value))?,
                }
            }
            ExprKind::Binary { left, op, right } => {
                let left = self.eval(frame, left)?;
                let right = self.eval(frame, right)?;
                self.at(frame, expr, |host| host.binary(*op, &left, &right))?
            }
            ExprKind::Logic { op, values } => {
                let mut last = Value::None;
                for (i, value) in values.iter().enumerate() {
                    last = self.eval(frame, value)?;
                    if i + 1 < values.len() && self.truth(&last)? == (*op == LogicOp::Or) {
                        break;
                    }
                }
                last
            }
            ExprKind::Compare { left, rest } => {
                let mut left = self.eval(frame, left)?;
                let mut result = Value::Bool(true);
                for (i, (op, right)) in rest.iter().enumerate() {
                    let right = self.eval(frame, right)?;
                    result = self.at(frame, expr, |host| host.compare(*op, &left, &right))?;
                    if i + 1 < rest.len() && !self.truth(&result)? {
                        break;
                    }
                    left = right;
                }
                result
            }
            ExprKind::IfElse { test, body, orelse } => {
                let branch = if self.eval_truth(frame, test)? { body } else { orelse };
                self.eval(frame, branch)?
            }
            ExprKind::Call { function, args } => self.eval_call(frame, expr, function, args)?,
            ExprKind::Attribute { value, name, .. } => {
                let object = self.eval(frame, value)?;
                self.at(frame, expr, |host| host.attribute(&object, name))?
            }
            ExprKind::Subscript { value, index } => {
                let object = self.eval(frame, value)?;
                let index = self.eval(frame, index)?;
                self.at(frame, expr, |host| host.item(&object, &index))?
            }
            ExprKind::Slice { lower, upper, step } => {
                let mut part = |part: &Option<Box<Expr>>| match part {
                    Some(part) => self.eval(frame, part),
                    None => Ok(Value::None),
                };
                let slice = Slice { start: part(lower)?, stop: part(upper)?, step: part(step)? };
                Value::Slice(Arc::new(slice))
            }
            ExprKind::Starred(_) => {
                return Err(Diagnostic::new(
                    &frame.source,
                    expr.span,
                    "a starred expression cannot stand here",
                )
                .into());
            }
            ExprKind::Lambda(function) => self.make_function(frame, function)?,
            ExprKind::Comprehension(comprehension) => self.comprehension(frame, comprehension)?,
            ExprKind::Walrus { name, value, .. } => {
                let value = self.eval(frame, value)?;
                frame.bind(name, value.clone());
                value
            }
            ExprKind::Yield(_) => {
                return Err(Diagnostic::new(
                    &frame.source,
                    expr.span,
                    "generator functions are not supported",
                )
                .hint("return a list, or write a generator expression")
                .into());
            }
        })
    }

    /// Runs something on behalf of an expression, whose place a refusal is given.
    fn at<T>(
        &mut self,
        frame: &mut Frame,
        expr: &Expr,
        run: impl FnOnce(&mut Self) -> Run<T>,
    ) -> Run<T> {
        run(self).map_err(|stop| match stop {
            Stop::Refused(diagnostic) => Stop::from(diagnostic.or_at(&frame.source, expr.span)),
            other => other,
        })
    }

    fn eval_items(&mut self, frame: &mut Frame, items: &[Expr]) -> Run<Vec<Value>> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            match &item.kind {
                ExprKind::Starred(inner) => {
                    let inner = self.eval(frame, inner)?;
                    values.extend(self.collect(&inner)?);
                }
                _ => values.push(self.eval(frame, item)?),
            }
        }
        Ok(values)
    }

    fn eval_dict(&mut self, frame: &mut Frame, items: &[(Option<Expr>, Expr)]) -> Run<Value> {
        let mut table = Table::default();
        for (key, value) in items {
            match key {
                Some(key) => {
                    let key = self.eval(frame, key)?;
                    let value = self.eval(frame, value)?;
                    table.insert(self.key(&key)?, key, value);
                }
                None => match self.eval(frame, value)? {
                    Value::Dict(other) => {
                        for (key, value) in other.get().iter() {
                            table.insert(self.key(key)?, key.clone(), value.clone());
                        }
                    }
                    other => {
                        return raise(
                            E::TypeError,
                            format!("'{}' object is not a mapping", other.type_name()),
                        );
                    }
                },
            }
        }
        Ok(Value::Dict(Arc::new(Shared::new(table))))
    }

    fn eval_call(
        &mut self,
        frame: &mut Frame,
        expr: &Expr,
        function: &Expr,
        args: &[Arg],
    ) -> Run<Value> {
        let callee = self.eval(frame, function)?;
        let mut positional = Vec::with_capacity(args.len());
        let mut keywords: Vec<(Name, Value)> = Vec::new();
        for arg in args {
            let value = self.eval(frame, arg.value())?;
            match arg {
                Arg::Positional(_) => positional.push(value),
                Arg::Star(_) => positional.extend(self.collect(&value)?),
                Arg::Keyword { name, .. } => keywords.push((name.clone(), value)),
                Arg::DoubleStar(_) => {
                    let Value::Dict(dict) = &value else {
                        return raise(
                            E::TypeError,
                            format!(
                                "argument after ** must be a mapping, not {}",
                                value.type_name()
                            ),
                        );
                    };
                    for (key, value) in dict.get().iter() {
                        let Value::Str(name) = key else {
                            return raise(E::TypeError, "keywords must be strings");
                        };
                        keywords.push((name.clone(), value.clone()));
                    }
                }
            }
        }
        for (i, (name, _)) in keywords.iter().enumerate() {
            if keywords[..i].iter().any(|(other, _)| other == name) {
                let function = format::callable_name(&callee);
                return raise(
                    E::TypeError,
                    format!("{function} got multiple values for keyword argument '{name}'"),
                );
            }
        }
        let statement = std::mem::replace(&mut frame.span, expr.span);
        let result = match &callee {
            Value::Builtin(builtin) => self.call_with_frame(frame, *builtin, positional, keywords),
            _ => self.call(&callee, positional, keywords),
        };
        let result = self.at(frame, expr, |_| result)?;
        frame.span = statement;
        Ok(result)
    }

    fn f_string(&mut self, frame: &mut Frame, parts: &[FStringPart]) -> Run<String> {
        let mut out = String::new();
        for part in parts {
            match part {
                FStringPart::Text(text) => out.push_str(text),
                FStringPart::Value { value, conversion, spec } => {
                    let expr = value;
                    let mut value = self.eval(frame, value)?;
                    match conversion {
                        Some('r') => value = Value::str(self.repr(&value)?),
                        Some('a') => value = Value::str(format::ascii(&self.repr(&value)?)),
                        Some(_) => value = Value::str(self.str(&value)?),
                        None => {}
                    }
                    let spec = self.f_string(frame, spec)?;
                    let text = self.at(frame, expr, |host| host.format(&value, &spec))?;
                    out.push_str(&text);
                }
            }
        }
        Ok(out)
    }

    fn comprehension(
        &mut self,
        frame: &mut Frame,
        comprehension: &Arc<Comprehension>,
    ) -> Run<Value> {
        let first = self.eval(frame, &comprehension.clauses[0].iter)?;
        let first = self.iterate(&first)?;
        if comprehension.kind == ComprehensionKind::Generator {
            let cells = frame.capture(&comprehension.scope);
            let name: Name = "<genexpr>".into();
            let mut inner =
                Frame::inner(&frame.module, &frame.source, &name, &comprehension.scope, &cells);
            inner.span = frame.span;
            let generator =
                Generator { syntax: comprehension.clone(), frame: inner, iters: vec![first] };
            return Ok(Value::iterator(Iter::Generator(Box::new(generator))));
        }
        frame.push_scope(&comprehension.scope);
        let mut out = Collected { items: Vec::new(), table: Table::default() };
        let result = self.comprehension_clause(frame, comprehension, 0, first, &mut out);
        frame.pop_scope(&comprehension.scope);
        result?;
        Ok(match comprehension.kind {
            ComprehensionKind::Set => Value::Set(Arc::new(Shared::new(out.table))),
            ComprehensionKind::Dict => Value::Dict(Arc::new(Shared::new(out.table))),
            _ => Value::list(out.items),
        })
    }

    fn comprehension_clause(
        &mut self,
        frame: &mut Frame,
        comprehension: &Comprehension,
        at: usize,
        iter: Arc<Shared<Iter>>,
        out: &mut Collected,
    ) -> Run<()> {
        let clause = &comprehension.clauses[at];
        'items: while let Some(item) = self.next(&iter)? {
            self.assign(frame, &clause.target, item)?;
            for test in &clause.tests {
                if !self.eval_truth(frame, test)? {
                    continue 'items;
                }
            }
            if let Some(inner) = comprehension.clauses.get(at + 1) {
                let inner = self.eval(frame, &inner.iter)?;
                let inner = self.iterate(&inner)?;
                self.comprehension_clause(frame, comprehension, at + 1, inner, out)?;
                continue;
            }
            match (&comprehension.key, comprehension.kind) {
                (Some(key), _) => {
                    let key = self.eval(frame, key)?;
                    let value = self.eval(frame, &comprehension.item)?;
                    out.table.insert(self.key(&key)?, key, value);
                }
                (None, ComprehensionKind::Set) => {
                    let item = self.eval(frame, &comprehension.item)?;
                    out.table.insert(self.key(&item)?, item, Value::None);
                }
                _ => out.items.push(self.eval(frame, &comprehension.item)?),
            }
        }
        Ok(())
    }
}

/// What a comprehension has made so far.
struct Collected {
    items: Vec<Value>,
    table: Table,
}
