//! Text to syntax tree. The one module that knows the parser's crate.
//!
//! ```text
//!   text ──ruff──► its tree ──depth check──► convert: our nodes, scopes of names ──► Module
//!                     └── what has no node here is refused with its place
//! ```

use std::{collections::HashSet, sync::Arc};

use ruff_python_ast::{
    self as ruff,
    visitor::{self, Visitor},
};
use ruff_text_size::{Ranged, TextRange};

use super::{
    diagnostic::Diagnostic,
    runtime::stack::deep,
    source::Source,
    syntax::{
        Arg, BinaryOp, ClassDef, Clause, CompareOp, Comprehension, ComprehensionKind, Expr,
        ExprKind, FStringPart, Function, Handler, ImportName, LogicOp, Module, Name, Param, Params,
        Scope, Span, Stmt, StmtKind, UnaryOp,
    },
    tree::Form,
};

/// How deep statements and expressions may nest, together.
const MAX_DEPTH: usize = 400;

type Result<T> = std::result::Result<T, Box<Diagnostic>>;

/// Parses a file.
///
/// # Errors
/// Text that is no Python, or syntax that cachelift does not support.
pub(super) fn parse_module(source: &Arc<Source>) -> Result<Module> {
    let parsed =
        ruff_python_parser::parse_module(&source.text).map_err(|e| syntax_error(source, &e))?;
    let tree = parsed.into_syntax();
    let mut depth = Depth::default();
    depth.visit_body(&tree.body);
    if let Some(range) = depth.too_deep {
        // Dropping it would recurse as deep as it nests.
        std::mem::forget(tree);
        return Err(too_deep(source, range));
    }
    let mut convert = Convert::new(source);
    let body = convert.body(&tree.body)?;
    Ok(Module { body, depth: depth.deepest })
}

/// Parses a file as far as it can be: what there is of it, and all that is wrong with it, from top to bottom. A statement
/// with an error in it is left out.
pub(super) fn parse_all(source: &Arc<Source>) -> (Module, Vec<Diagnostic>) {
    let mut module = Module { body: Vec::new(), depth: 0 };
    let options = ruff_python_parser::ParseOptions::from(ruff_python_parser::Mode::Module);
    let parsed = ruff_python_parser::parse_unchecked(&source.text, options);
    let errors: Vec<_> = parsed.errors().to_vec();
    let Some(parsed) = parsed.try_into_module() else { return (module, Vec::new()) };
    let tree = parsed.into_syntax();
    let mut depth = Depth::default();
    depth.visit_body(&tree.body);
    if let Some(range) = depth.too_deep {
        std::mem::forget(tree);
        return (module, vec![*too_deep(source, range)]);
    }
    let broken = errors.iter().map(|error| error.location).collect();
    let mut convert = Convert::new(source);
    convert.problems = Some(Problems { found: Vec::new(), broken });
    // Every statement's error is among the problems.
    module.body = convert.body(&tree.body).unwrap_or_default();
    let found = convert.problems.take().map_or_else(Vec::new, |problems| problems.found);
    let mut problems: Vec<_> = errors.iter().map(|error| *syntax_error(source, error)).collect();
    problems.extend(found);
    problems.sort_by_key(|problem| problem.span.start);
    (module, problems)
}

/// Parses one expression.
///
/// # Errors
/// As for [`parse_module`].
pub(super) fn parse_expression(source: &Arc<Source>) -> Result<Expr> {
    let parsed =
        ruff_python_parser::parse_expression(&source.text).map_err(|e| syntax_error(source, &e))?;
    let tree = parsed.into_syntax();
    let mut depth = Depth::default();
    depth.visit_expr(&tree.body);
    if let Some(range) = depth.too_deep {
        std::mem::forget(tree);
        return Err(too_deep(source, range));
    }
    Convert::new(source).expr(&tree.body)
}

fn syntax_error(source: &Arc<Source>, error: &ruff_python_parser::ParseError) -> Box<Diagnostic> {
    let message = error.error.to_string();
    Box::new(Diagnostic::new(source, span(error.location), format!("invalid syntax: {message}")))
}

fn too_deep(source: &Arc<Source>, range: TextRange) -> Box<Diagnostic> {
    let at = Span { start: range.start().into(), end: range.start().into() };
    Box::new(
        Diagnostic::new(source, at, format!("this nests more than {MAX_DEPTH} levels deep"))
            .hint("name parts of it in variables of their own"),
    )
}

fn span(range: TextRange) -> Span {
    Span { start: range.start().into(), end: range.end().into() }
}

/// Finds what nests too deeply to be worked on by recursion.
#[derive(Default)]
struct Depth {
    depth: usize,
    deepest: usize,
    too_deep: Option<TextRange>,
}

impl Depth {
    fn level(&mut self, range: TextRange, levels: usize, inside: impl FnOnce(&mut Self)) {
        self.depth += levels;
        self.deepest = self.deepest.max(self.depth);
        if self.depth > MAX_DEPTH {
            self.too_deep = self.too_deep.or(Some(range));
        } else {
            deep(|| inside(self));
        }
        self.depth -= levels;
    }
}

impl<'a> Visitor<'a> for Depth {
    fn visit_stmt(&mut self, stmt: &'a ruff::Stmt) {
        let levels = match stmt {
            // Each `elif` becomes an `if` in the one before.
            ruff::Stmt::If(s) => 1 + s.elif_else_clauses.len(),
            _ => 1,
        };
        self.level(stmt.range(), levels, |depth| visitor::walk_stmt(depth, stmt));
    }

    fn visit_expr(&mut self, expr: &'a ruff::Expr) {
        self.level(expr.range(), 1, |depth| visitor::walk_expr(depth, expr));
    }

    fn visit_pattern(&mut self, pattern: &'a ruff::Pattern) {
        self.level(pattern.range(), 1, |depth| visitor::walk_pattern(depth, pattern));
    }
}

/// What the names of a scope that is being converted mean so far.
#[derive(Default)]
struct ScopeState {
    kind: ScopeKind,
    scope: Scope,
    /// Names declared `global`.
    globals: Vec<Name>,
    /// Names declared `nonlocal`.
    nonlocals: Vec<Name>,
    has_yield: bool,
    loops: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ScopeKind {
    #[default]
    Module,
    Class,
    Function,
    Comprehension,
    Generator,
}

impl ScopeState {
    /// Whether inner functions can capture this scope's names.
    fn can_be_captured(&self) -> bool {
        !matches!(self.kind, ScopeKind::Module | ScopeKind::Class)
    }
}

fn push(names: &mut Vec<Name>, name: &Name) {
    if !names.iter().any(|known| known == name) {
        names.push(name.clone());
    }
}

/// The names that a function's body binds, in order, without those of inner functions and comprehensions.
#[derive(Default)]
struct Bindings {
    bound: Vec<String>,
    globals: Vec<String>,
    nonlocals: Vec<String>,
    in_comprehension: bool,
}

impl Bindings {
    fn bind(&mut self, name: &str) {
        if !self.bound.iter().any(|bound| bound == name) {
            self.bound.push(name.to_owned());
        }
    }
}

impl<'a> Visitor<'a> for Bindings {
    fn visit_stmt(&mut self, stmt: &'a ruff::Stmt) {
        match stmt {
            ruff::Stmt::FunctionDef(def) => {
                self.bind(&def.name);
                def.decorator_list.iter().for_each(|d| self.visit_expr(&d.expression));
                let defaults =
                    def.parameters.iter_non_variadic_params().filter_map(|p| p.default());
                defaults.for_each(|default| self.visit_expr(default));
            }
            ruff::Stmt::ClassDef(class) => {
                self.bind(&class.name);
                class.decorator_list.iter().for_each(|d| self.visit_expr(&d.expression));
                class.bases().iter().for_each(|base| self.visit_expr(base));
            }
            ruff::Stmt::Global(global) => {
                self.globals.extend(global.names.iter().map(|n| n.to_string()))
            }
            ruff::Stmt::Nonlocal(nonlocal) => {
                self.nonlocals.extend(nonlocal.names.iter().map(|n| n.to_string()));
            }
            ruff::Stmt::Import(import) => {
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    self.bind(name.split('.').next().unwrap_or(name));
                }
            }
            ruff::Stmt::ImportFrom(import) => {
                for alias in import.names.iter().filter(|alias| alias.name.as_str() != "*") {
                    self.bind(alias.asname.as_ref().unwrap_or(&alias.name));
                }
            }
            other => deep(|| visitor::walk_stmt(self, other)),
        }
    }

    fn visit_expr(&mut self, expr: &'a ruff::Expr) {
        match expr {
            ruff::Expr::Name(name) => {
                if !self.in_comprehension && !matches!(name.ctx, ruff::ExprContext::Load) {
                    self.bind(&name.id);
                }
            }
            ruff::Expr::Named(named) => {
                if let ruff::Expr::Name(name) = &*named.target {
                    self.bind(&name.id);
                }
                self.visit_expr(&named.value);
            }
            ruff::Expr::Lambda(lambda) => {
                let params = lambda.parameters.iter().flat_map(|p| p.iter_non_variadic_params());
                params.filter_map(|p| p.default()).for_each(|default| self.visit_expr(default));
            }
            ruff::Expr::ListComp(_)
            | ruff::Expr::SetComp(_)
            | ruff::Expr::DictComp(_)
            | ruff::Expr::Generator(_) => {
                // Only what `:=` binds belongs to the function.
                let outer = std::mem::replace(&mut self.in_comprehension, true);
                visitor::walk_expr(self, expr);
                self.in_comprehension = outer;
            }
            other => deep(|| visitor::walk_expr(self, other)),
        }
    }

    fn visit_except_handler(&mut self, handler: &'a ruff::ExceptHandler) {
        let ruff::ExceptHandler::ExceptHandler(handler_) = handler;
        if let Some(name) = &handler_.name {
            self.bind(name);
        }
        visitor::walk_except_handler(self, handler);
    }

    fn visit_annotation(&mut self, _: &'a ruff::Expr) {}
}

struct Convert<'s> {
    source: &'s Arc<Source>,
    names: HashSet<Name>,
    scopes: Vec<ScopeState>,
    /// Where what is wrong is collected; otherwise the first error ends the conversion.
    problems: Option<Problems>,
}

/// What is wrong with a file.
struct Problems {
    /// What is not supported.
    found: Vec<Diagnostic>,
    /// Where the text is no Python. What is wrong around these follows from them.
    broken: Vec<TextRange>,
}

impl<'s> Convert<'s> {
    fn new(source: &'s Arc<Source>) -> Self {
        Convert {
            source,
            names: HashSet::new(),
            scopes: vec![ScopeState::default()],
            problems: None,
        }
    }

    fn intern(&mut self, name: &str) -> Name {
        if let Some(name) = self.names.get(name) {
            return name.clone();
        }
        let name: Name = name.into();
        self.names.insert(name.clone());
        name
    }

    fn refuse<T>(&self, at: impl Ranged, message: &str, hint: &str) -> Result<T> {
        Err(Box::new(Diagnostic::new(self.source, span(at.range()), message).hint(hint)))
    }

    fn error<T>(&self, at: impl Ranged, message: impl Into<String>) -> Result<T> {
        let message = format!("invalid syntax: {}", message.into());
        Err(Box::new(Diagnostic::new(self.source, span(at.range()), message)))
    }

    fn scope(&mut self) -> &mut ScopeState {
        self.scopes.last_mut().expect("the module's scope stays")
    }

    fn body(&mut self, body: &[ruff::Stmt]) -> Result<Vec<Stmt>> {
        if self.problems.is_none() {
            return body.iter().map(|stmt| self.stmt(stmt)).collect();
        }
        let mut converted = Vec::new();
        for stmt in body {
            let depth = self.scopes.len();
            let result = self.stmt(stmt);
            // An error leaves the scopes that it was in.
            self.scopes.truncate(depth);
            let Some(problems) = &mut self.problems else { continue };
            let follows = problems
                .broken
                .iter()
                .any(|at| stmt.range().start() <= at.end() && at.start() <= stmt.range().end());
            match result {
                Ok(_) if follows && !is_compound(stmt) => {}
                Ok(stmt) => converted.push(stmt),
                Err(_) if follows => {}
                Err(problem) => problems.found.push(*problem),
            }
        }
        Ok(converted)
    }

    fn loop_body(&mut self, body: &[ruff::Stmt]) -> Result<Vec<Stmt>> {
        self.scope().loops += 1;
        let body = self.body(body);
        self.scope().loops -= 1;
        body
    }

    fn stmt(&mut self, stmt: &ruff::Stmt) -> Result<Stmt> {
        deep(|| self.stmt_here(stmt))
    }

    fn stmt_here(&mut self, stmt: &ruff::Stmt) -> Result<Stmt> {
        let kind = match stmt {
            ruff::Stmt::Expr(s) => StmtKind::Expr(self.expr(&s.value)?),
            ruff::Stmt::Assign(s) => {
                let value = self.expr(&s.value)?;
                StmtKind::Assign { targets: self.exprs(&s.targets)?, value }
            }
            ruff::Stmt::AugAssign(s) => {
                if let ruff::Expr::Name(name) = &*s.target {
                    self.use_name(&name.id);
                }
                StmtKind::AugAssign {
                    target: self.expr(&s.target)?,
                    op: binary_op(s.op),
                    value: self.expr(&s.value)?,
                }
            }
            ruff::Stmt::AnnAssign(s) => {
                let value = s.value.as_ref().map(|value| self.expr(value)).transpose()?;
                StmtKind::AnnAssign { target: self.expr(&s.target)?, value }
            }
            ruff::Stmt::For(s) if !s.is_async => StmtKind::For {
                iter: self.expr(&s.iter)?,
                target: self.expr(&s.target)?,
                body: self.loop_body(&s.body)?,
                orelse: self.body(&s.orelse)?,
            },
            ruff::Stmt::While(s) => StmtKind::While {
                test: self.expr(&s.test)?,
                body: self.loop_body(&s.body)?,
                orelse: self.body(&s.orelse)?,
            },
            ruff::Stmt::If(s) => {
                let test = self.expr(&s.test)?;
                let body = self.body(&s.body)?;
                let orelse = self.clauses(&s.elif_else_clauses)?;
                StmtKind::If { test, body, orelse }
            }
            ruff::Stmt::Try(s) if !s.is_star => StmtKind::Try {
                body: self.body(&s.body)?,
                handlers: s.handlers.iter().map(|h| self.handler(h)).collect::<Result<_>>()?,
                orelse: self.body(&s.orelse)?,
                finally: self.body(&s.finalbody)?,
            },
            ruff::Stmt::Raise(s) => StmtKind::Raise {
                exception: s.exc.as_ref().map(|e| self.expr(e)).transpose()?,
                cause: s.cause.as_ref().map(|e| self.expr(e)).transpose()?,
            },
            ruff::Stmt::Assert(s) => StmtKind::Assert {
                test: self.expr(&s.test)?,
                message: s.msg.as_ref().map(|e| self.expr(e)).transpose()?,
            },
            ruff::Stmt::Return(s) => {
                if self.scope().kind != ScopeKind::Function {
                    return self.error(s, "`return` outside of a function");
                }
                StmtKind::Return(s.value.as_ref().map(|e| self.expr(e)).transpose()?)
            }
            ruff::Stmt::Delete(s) => StmtKind::Delete(self.exprs(&s.targets)?),
            ruff::Stmt::FunctionDef(s) if s.is_async => {
                return self.refuse(s, "`async` is not supported", "write a plain function");
            }
            ruff::Stmt::FunctionDef(s) => StmtKind::Def(Arc::new(self.function(s)?)),
            ruff::Stmt::ClassDef(s) => StmtKind::Class(Arc::new(self.class(s)?)),
            ruff::Stmt::Import(s) => {
                for alias in &s.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    self.bind_name(name.split('.').next().unwrap_or(name));
                }
                StmtKind::Import(self.aliases(&s.names))
            }
            ruff::Stmt::ImportFrom(s) => {
                for alias in s.names.iter().filter(|alias| alias.name.as_str() != "*") {
                    self.bind_name(alias.asname.as_ref().unwrap_or(&alias.name));
                }
                if s.names.iter().any(|alias| alias.name.as_str() == "*") && self.scopes.len() > 1 {
                    return self.error(s, "`import *` inside of a function");
                }
                StmtKind::ImportFrom {
                    level: s.level,
                    module: self.intern(s.module.as_ref().map_or("", |module| module.as_str())),
                    names: self.aliases(&s.names),
                }
            }
            ruff::Stmt::Global(s) => {
                StmtKind::Global(s.names.iter().map(|n| self.intern(n)).collect())
            }
            ruff::Stmt::Nonlocal(s) => {
                let names: Vec<Name> = s.names.iter().map(|n| self.intern(n)).collect();
                for name in &names {
                    let outer = &self.scopes[..self.scopes.len() - 1];
                    let enclosed = outer
                        .iter()
                        .any(|scope| scope.can_be_captured() && scope.scope.locals.contains(name));
                    if !enclosed {
                        return self.error(s, format!("no binding for nonlocal '{name}' found"));
                    }
                    self.use_name(name);
                }
                StmtKind::Nonlocal(names)
            }
            ruff::Stmt::Pass(_) => StmtKind::Pass,
            ruff::Stmt::Break(s) => {
                if self.scope().loops == 0 {
                    return self.error(s, "`break` outside of a loop");
                }
                StmtKind::Break
            }
            ruff::Stmt::Continue(s) => {
                if self.scope().loops == 0 {
                    return self.error(s, "`continue` outside of a loop");
                }
                StmtKind::Continue
            }
            ruff::Stmt::With(s) => {
                return self.refuse(
                    keyword(s.range(), 4),
                    "`with` is not supported",
                    "use try/finally; `np.load` and `np.save` read and write arrays",
                );
            }
            ruff::Stmt::Match(s) => {
                let hint = "write it with `if`, `elif` and `else`";
                return self.refuse(keyword(s.range(), 5), "`match` is not supported", hint);
            }
            ruff::Stmt::For(s) => {
                return self.refuse(
                    keyword(s.range(), 5),
                    "`async` is not supported",
                    "write a plain `for`",
                );
            }
            ruff::Stmt::Try(s) => {
                return self.refuse(
                    keyword(s.range(), 3),
                    "`except*` is not supported",
                    "write `except`",
                );
            }
            ruff::Stmt::TypeAlias(s) => {
                let hint = "assign the type to a name: `T = int64`";
                return self.refuse(s, "`type` statements are not supported", hint);
            }
            ruff::Stmt::IpyEscapeCommand(s) => return self.error(s, "a shell command"),
        };
        Ok(Stmt { kind, span: span(stmt.range()) })
    }

    fn clauses(&mut self, clauses: &[ruff::ElifElseClause]) -> Result<Vec<Stmt>> {
        let Some((first, rest)) = clauses.split_first() else { return Ok(Vec::new()) };
        let Some(test) = &first.test else { return self.body(&first.body) };
        let test = self.expr(test)?;
        let body = self.body(&first.body)?;
        let orelse = self.clauses(rest)?;
        Ok(vec![Stmt { kind: StmtKind::If { test, body, orelse }, span: span(first.range) }])
    }

    fn handler(&mut self, handler: &ruff::ExceptHandler) -> Result<Handler> {
        let ruff::ExceptHandler::ExceptHandler(handler) = handler;
        let class = handler.type_.as_ref().map(|class| self.expr(class)).transpose()?;
        let name = handler.name.as_ref().map(|name| self.bind_name(name));
        Ok(Handler { class, name, body: self.body(&handler.body)?, span: span(handler.range) })
    }

    fn aliases(&mut self, names: &[ruff::Alias]) -> Vec<ImportName> {
        names
            .iter()
            .map(|alias| ImportName {
                name: self.intern(&alias.name),
                alias: alias.asname.as_ref().map(|name| self.intern(name)),
                span: span(alias.range),
            })
            .collect()
    }

    fn function(&mut self, def: &ruff::StmtFunctionDef) -> Result<Function> {
        if let Some(params) = &def.type_params {
            let hint = "leave them out: kernels are typed by their calls";
            return self.refuse(&**params, "type parameters are not supported", hint);
        }
        let decorators = def
            .decorator_list
            .iter()
            .map(|d| self.expr(&d.expression))
            .collect::<Result<Vec<_>>>()?;
        let name = self.bind_name(&def.name);
        let params = self.params(&def.parameters)?;
        let mut bindings = Bindings::default();
        bindings.visit_body(&def.body);
        self.enter(ScopeKind::Function, &params, &bindings, def.range)?;
        let body = self.body(&def.body);
        let state = self.leave();
        // The range begins at the first decorator.
        let start = def.decorator_list.last().map_or(def.range.start().into(), |last| {
            let from: usize = last.range().end().into();
            let text = &self.source.text[from..def.name.range.start().into()];
            (from + text.rfind("def").unwrap_or(0)) as u32
        });
        Ok(Function {
            name,
            source: self.source.clone(),
            span: Span { start, end: def.range.end().into() },
            name_span: span(def.name.range),
            params,
            body: body?.into(),
            decorators,
            scope: state.scope,
            is_lambda: false,
            is_generator: state.has_yield,
            form: Form::default(),
        })
    }

    fn lambda(&mut self, lambda: &ruff::ExprLambda) -> Result<Function> {
        let params = match &lambda.parameters {
            Some(params) => self.params(params)?,
            None => Params::default(),
        };
        let mut bindings = Bindings::default();
        bindings.visit_expr(&lambda.body);
        self.enter(ScopeKind::Function, &params, &bindings, lambda.range)?;
        let body = self.expr(&lambda.body);
        let state = self.leave();
        let body = body?;
        let at = span(lambda.range);
        Ok(Function {
            name: self.intern("<lambda>"),
            source: self.source.clone(),
            span: at,
            name_span: at,
            params,
            body: vec![Stmt { span: body.span, kind: StmtKind::Return(Some(body)) }].into(),
            decorators: Vec::new(),
            scope: state.scope,
            is_lambda: true,
            is_generator: state.has_yield,
            form: Form::default(),
        })
    }

    /// Defaults are evaluated where the function is made, so they belong to the scope around it.
    fn params(&mut self, params: &ruff::Parameters) -> Result<Params> {
        let mut one = |param: &ruff::Parameter, default: Option<&ruff::Expr>| -> Result<Param> {
            Ok(Param {
                name: self.intern(&param.name),
                span: span(param.name.range),
                default: default.map(|default| self.expr(default)).transpose()?,
            })
        };
        let mut positional = Vec::new();
        for param in params.posonlyargs.iter().chain(&params.args) {
            positional.push(one(&param.parameter, param.default())?);
        }
        let star = params.vararg.as_ref().map(|param| one(param, None)).transpose()?;
        let mut keyword_only = Vec::new();
        for param in &params.kwonlyargs {
            keyword_only.push(one(&param.parameter, param.default())?);
        }
        let double_star = params.kwarg.as_ref().map(|param| one(param, None)).transpose()?;
        Ok(Params {
            positional,
            positional_only: params.posonlyargs.len(),
            star,
            keyword_only,
            double_star,
        })
    }

    fn enter(
        &mut self,
        kind: ScopeKind,
        params: &Params,
        bindings: &Bindings,
        at: TextRange,
    ) -> Result<()> {
        let mut state = ScopeState { kind, ..ScopeState::default() };
        for param in params.iter() {
            if state.scope.locals.contains(&param.name) {
                return self.error(
                    at,
                    format!("duplicate argument '{}' in function definition", param.name),
                );
            }
            state.scope.locals.push(param.name.clone());
        }
        state.globals = bindings.globals.iter().map(|name| self.intern(name)).collect();
        state.nonlocals = bindings.nonlocals.iter().map(|name| self.intern(name)).collect();
        for name in state.globals.iter().chain(&state.nonlocals) {
            if state.scope.locals.contains(name) {
                return self
                    .error(at, format!("name '{name}' is parameter and global or nonlocal"));
            }
        }
        for name in &bindings.bound {
            let name = self.intern(name);
            if !state.globals.contains(&name) && !state.nonlocals.contains(&name) {
                push(&mut state.scope.locals, &name);
            }
        }
        self.scopes.push(state);
        Ok(())
    }

    /// Ends a scope and tells the one around it which names it needs.
    fn leave(&mut self) -> ScopeState {
        let state = self.scopes.pop().expect("a scope was entered");
        // A comprehension that makes its result at once runs in the frame around it.
        let captures = state.kind != ScopeKind::Comprehension;
        for name in &state.scope.free {
            self.resolve(name, captures);
        }
        for name in &state.scope.globals {
            push(&mut self.scope().scope.globals, name);
        }
        state
    }

    /// A name that the current scope reads or that an inner one captures.
    fn use_name(&mut self, name: &str) -> Name {
        let name = self.intern(name);
        self.resolve(&name, false);
        name
    }

    fn resolve(&mut self, name: &Name, captured: bool) {
        let (current, outer) = self.scopes.split_last_mut().expect("the module's scope stays");
        if current.can_be_captured() && current.scope.locals.contains(name) {
            if captured {
                push(&mut current.scope.captured, name);
            }
        } else if !current.globals.contains(name)
            && outer.iter().rev().filter(|scope| scope.can_be_captured()).find_map(|scope| {
                if scope.scope.locals.contains(name) {
                    Some(true)
                } else if scope.globals.contains(name) {
                    Some(false)
                } else {
                    None
                }
            }) == Some(true)
        {
            push(&mut current.scope.free, name);
        } else {
            push(&mut current.scope.globals, name);
        }
    }

    /// A name that the current scope binds.
    fn bind_name(&mut self, name: &str) -> Name {
        let name = self.intern(name);
        let scope = self.scope();
        match scope.kind {
            ScopeKind::Module => {}
            ScopeKind::Class => push(&mut scope.scope.locals, &name),
            _ if scope.nonlocals.contains(&name) => self.resolve(&name, false),
            _ => {}
        }
        name
    }

    fn class(&mut self, class: &ruff::StmtClassDef) -> Result<ClassDef> {
        if let Some(params) = &class.type_params {
            let hint = "leave them out";
            return self.refuse(&**params, "type parameters are not supported", hint);
        }
        if let Some(keyword) = class.keywords().first() {
            let hint = "leave it out: classes of host code are plain";
            return self.refuse(keyword, "keywords of a class are not supported", hint);
        }
        let decorators = class
            .decorator_list
            .iter()
            .map(|d| self.expr(&d.expression))
            .collect::<Result<Vec<_>>>()?;
        let bases = self.exprs(class.bases())?;
        let name = self.bind_name(&class.name);
        self.scopes.push(ScopeState { kind: ScopeKind::Class, ..ScopeState::default() });
        let body = self.body(&class.body);
        let state = self.leave();
        Ok(ClassDef {
            name,
            source: self.source.clone(),
            span: span(class.range),
            bases,
            body: body?,
            decorators,
            scope: state.scope,
        })
    }

    fn exprs(&mut self, exprs: &[ruff::Expr]) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn boxed(&mut self, expr: &ruff::Expr) -> Result<Box<Expr>> {
        self.expr(expr).map(Box::new)
    }

    fn optional(&mut self, expr: Option<&ruff::Expr>) -> Result<Option<Box<Expr>>> {
        expr.map(|expr| self.boxed(expr)).transpose()
    }

    fn expr(&mut self, expr: &ruff::Expr) -> Result<Expr> {
        deep(|| self.expr_here(expr))
    }

    fn expr_here(&mut self, expr: &ruff::Expr) -> Result<Expr> {
        let kind = match expr {
            ruff::Expr::Name(e) => ExprKind::Name(match e.ctx {
                ruff::ExprContext::Store => {
                    // A target of `nonlocal` or at module level refers outside as a read does.
                    self.bind_name(&e.id)
                }
                _ => self.use_name(&e.id),
            }),
            ruff::Expr::NoneLiteral(_) => ExprKind::None,
            ruff::Expr::EllipsisLiteral(_) => ExprKind::Ellipsis,
            ruff::Expr::BooleanLiteral(e) => ExprKind::Bool(e.value),
            ruff::Expr::NumberLiteral(e) => match &e.value {
                ruff::Number::Int(int) => match parse_int(&int.to_string()) {
                    Some(value) => ExprKind::Int(value),
                    None => {
                        let hint = "kernels have 64 bits, host code 128";
                        return self.refuse(e, "this integer is too large", hint);
                    }
                },
                ruff::Number::Float(value) => ExprKind::Float(*value),
                ruff::Number::Complex { imag, .. } => ExprKind::Imaginary(*imag),
            },
            ruff::Expr::StringLiteral(e) => ExprKind::Str(e.value.to_str().into()),
            ruff::Expr::BytesLiteral(e) => ExprKind::Bytes(e.value.bytes().collect()),
            ruff::Expr::FString(e) => {
                let mut parts = Vec::new();
                for part in &e.value {
                    match part {
                        ruff::FStringPart::Literal(text) => text_part(&mut parts, &text.value),
                        ruff::FStringPart::FString(f) => self.f_string(&f.elements, &mut parts)?,
                    }
                }
                ExprKind::FString(parts)
            }
            ruff::Expr::Tuple(e) => ExprKind::Tuple(self.exprs(&e.elts)?),
            ruff::Expr::List(e) => ExprKind::List(self.exprs(&e.elts)?),
            ruff::Expr::Set(e) => ExprKind::Set(self.exprs(&e.elts)?),
            ruff::Expr::Dict(e) => {
                let mut items = Vec::new();
                for item in &e.items {
                    let key = item.key.as_ref().map(|key| self.expr(key)).transpose()?;
                    items.push((key, self.expr(&item.value)?));
                }
                ExprKind::Dict(items)
            }
            ruff::Expr::UnaryOp(e) => {
                let op = match e.op {
                    ruff::UnaryOp::Invert => UnaryOp::Invert,
                    ruff::UnaryOp::Not => UnaryOp::Not,
                    ruff::UnaryOp::UAdd => UnaryOp::Plus,
                    ruff::UnaryOp::USub => UnaryOp::Minus,
                };
                ExprKind::Unary { op, value: self.boxed(&e.operand)? }
            }
            ruff::Expr::BinOp(e) => ExprKind::Binary {
                left: self.boxed(&e.left)?,
                op: binary_op(e.op),
                right: self.boxed(&e.right)?,
            },
            ruff::Expr::BoolOp(e) => {
                let op = match e.op {
                    ruff::BoolOp::And => LogicOp::And,
                    ruff::BoolOp::Or => LogicOp::Or,
                };
                ExprKind::Logic { op, values: self.exprs(&e.values)? }
            }
            ruff::Expr::Compare(e) => {
                let left = self.boxed(&e.left)?;
                let mut rest = Vec::new();
                for (op, right) in e.ops.iter().zip(&e.comparators) {
                    rest.push((compare_op(*op), self.expr(right)?));
                }
                ExprKind::Compare { left, rest }
            }
            ruff::Expr::If(e) => ExprKind::IfElse {
                test: self.boxed(&e.test)?,
                body: self.boxed(&e.body)?,
                orelse: self.boxed(&e.orelse)?,
            },
            ruff::Expr::Call(e) => {
                let function = self.boxed(&e.func)?;
                let mut args = Vec::new();
                for arg in e.arguments.iter_source_order() {
                    args.push(self.arg(arg)?);
                }
                ExprKind::Call { function, args }
            }
            ruff::Expr::Attribute(e) => ExprKind::Attribute {
                value: self.boxed(&e.value)?,
                name: self.intern(&e.attr),
                name_span: span(e.attr.range),
            },
            ruff::Expr::Subscript(e) => {
                ExprKind::Subscript { value: self.boxed(&e.value)?, index: self.boxed(&e.slice)? }
            }
            ruff::Expr::Slice(e) => ExprKind::Slice {
                lower: self.optional(e.lower.as_deref())?,
                upper: self.optional(e.upper.as_deref())?,
                step: self.optional(e.step.as_deref())?,
            },
            ruff::Expr::Starred(e) => ExprKind::Starred(self.boxed(&e.value)?),
            ruff::Expr::Lambda(e) => ExprKind::Lambda(Arc::new(self.lambda(e)?)),
            ruff::Expr::ListComp(e) => {
                self.comprehension(ComprehensionKind::List, None, &e.elt, &e.generators)?
            }
            ruff::Expr::SetComp(e) => {
                self.comprehension(ComprehensionKind::Set, None, &e.elt, &e.generators)?
            }
            ruff::Expr::DictComp(e) => self.comprehension(
                ComprehensionKind::Dict,
                e.key.as_deref(),
                &e.value,
                &e.generators,
            )?,
            ruff::Expr::Generator(e) => {
                self.comprehension(ComprehensionKind::Generator, None, &e.elt, &e.generators)?
            }
            ruff::Expr::Named(e) => {
                let ruff::Expr::Name(name) = &*e.target else {
                    return self.error(&*e.target, "`:=` binds a name");
                };
                let value = self.boxed(&e.value)?;
                let bound = self.intern(&name.id);
                // It binds in the function around comprehensions, which therefore refer outside.
                if matches!(self.scope().kind, ScopeKind::Comprehension | ScopeKind::Generator) {
                    self.resolve(&bound, false);
                }
                ExprKind::Walrus {
                    name: self.bind_name(&name.id),
                    name_span: span(name.range),
                    value,
                }
            }
            ruff::Expr::Yield(e) => {
                if self.scope().kind != ScopeKind::Function {
                    return self.error(e, "`yield` outside of a function");
                }
                self.scope().has_yield = true;
                ExprKind::Yield(self.optional(e.value.as_deref())?)
            }
            ruff::Expr::YieldFrom(e) => {
                let hint = "write a loop that yields each item";
                return self.refuse(e, "`yield from` is not supported", hint);
            }
            ruff::Expr::Await(e) => {
                return self.refuse(e, "`await` is not supported", "call the function plainly");
            }
            ruff::Expr::TString(e) => {
                return self.refuse(e, "template strings are not supported", "use an f-string");
            }
            ruff::Expr::IpyEscapeCommand(e) => return self.error(e, "a shell command"),
        };
        Ok(Expr { kind, span: span(expr.range()) })
    }

    fn arg(&mut self, arg: ruff::ArgOrKeyword<'_>) -> Result<Arg> {
        Ok(match arg {
            ruff::ArgOrKeyword::Arg(ruff::Expr::Starred(starred)) => {
                Arg::Star(self.expr(&starred.value)?)
            }
            ruff::ArgOrKeyword::Arg(expr) => Arg::Positional(self.expr(expr)?),
            ruff::ArgOrKeyword::Keyword(keyword) => {
                let value = self.expr(&keyword.value)?;
                match &keyword.arg {
                    Some(name) => {
                        Arg::Keyword { name: self.intern(name), span: span(name.range), value }
                    }
                    None => Arg::DoubleStar(value),
                }
            }
        })
    }

    fn comprehension(
        &mut self,
        kind: ComprehensionKind,
        key: Option<&ruff::Expr>,
        item: &ruff::Expr,
        generators: &[ruff::Comprehension],
    ) -> Result<ExprKind> {
        let Some(first) = generators.first() else {
            return self.error(item, "a comprehension without `for`");
        };
        if let Some(clause) = generators.iter().find(|clause| clause.is_async) {
            return self.refuse(clause, "`async` is not supported", "write a plain `for`");
        }
        if kind == ComprehensionKind::Dict && key.is_none() {
            return self.refuse(
                item,
                "`**` in a comprehension is not supported",
                "write `key: value`",
            );
        }
        // The first iterable is evaluated outside.
        let mut first_iter = Some(self.expr(&first.iter)?);
        let mut bindings = Bindings::default();
        generators.iter().for_each(|clause| bindings.visit_expr(&clause.target));
        let scope = match kind {
            ComprehensionKind::Generator => ScopeKind::Generator,
            _ => ScopeKind::Comprehension,
        };
        self.enter(scope, &Params::default(), &bindings, item.range())?;
        let mut inside = || -> Result<_> {
            let mut clauses = Vec::new();
            for clause in generators {
                let iter = match first_iter.take() {
                    Some(iter) => iter,
                    None => self.expr(&clause.iter)?,
                };
                let target = self.expr(&clause.target)?;
                clauses.push(Clause { target, iter, tests: self.exprs(&clause.ifs)? });
            }
            let key = key.map(|key| self.expr(key)).transpose()?;
            Ok((clauses, key, self.expr(item)?))
        };
        let inside = inside();
        let state = self.leave();
        let (clauses, key, item) = inside?;
        Ok(ExprKind::Comprehension(Arc::new(Comprehension {
            kind,
            item,
            key,
            clauses,
            scope: state.scope,
        })))
    }

    fn f_string(
        &mut self,
        elements: &ruff::InterpolatedStringElements,
        parts: &mut Vec<FStringPart>,
    ) -> Result<()> {
        for element in elements {
            match element {
                ruff::InterpolatedStringElement::Literal(text) => text_part(parts, &text.value),
                ruff::InterpolatedStringElement::Interpolation(part) => {
                    let mut conversion = part.conversion.to_char();
                    if let Some(debug) = &part.debug_text {
                        text_part(parts, debug.as_str());
                        if conversion.is_none() && part.format_spec.is_none() {
                            conversion = Some('r');
                        }
                    }
                    let value = self.expr(&part.expression)?;
                    let mut spec = Vec::new();
                    if let Some(format) = &part.format_spec {
                        self.f_string(&format.elements, &mut spec)?;
                    }
                    parts.push(FStringPart::Value { value, conversion, spec });
                }
            }
        }
        Ok(())
    }
}

/// Whether a statement holds others.
fn is_compound(stmt: &ruff::Stmt) -> bool {
    matches!(
        stmt,
        ruff::Stmt::FunctionDef(_)
            | ruff::Stmt::ClassDef(_)
            | ruff::Stmt::For(_)
            | ruff::Stmt::While(_)
            | ruff::Stmt::If(_)
            | ruff::Stmt::Try(_)
    )
}

/// Appends text, joined to text before it.
fn text_part(parts: &mut Vec<FStringPart>, text: &str) {
    if let Some(FStringPart::Text(before)) = parts.last_mut() {
        *before = format!("{before}{text}").into();
    } else if !text.is_empty() {
        parts.push(FStringPart::Text(text.into()));
    }
}

/// The first bytes of a range: a keyword.
fn keyword(range: TextRange, length: u32) -> TextRange {
    TextRange::new(
        range.start(),
        (range.start() + ruff_text_size::TextSize::new(length)).min(range.end()),
    )
}

/// The value of an integer literal as the lexer keeps it, in any base.
fn parse_int(text: &str) -> Option<i128> {
    let (digits, radix) = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        Some("0b") => (&text[2..], 2),
        _ => (text, 10),
    };
    i128::from_str_radix(&digits.replace('_', ""), radix).ok()
}

fn binary_op(op: ruff::Operator) -> BinaryOp {
    match op {
        ruff::Operator::Add => BinaryOp::Add,
        ruff::Operator::Sub => BinaryOp::Sub,
        ruff::Operator::Mult => BinaryOp::Mul,
        ruff::Operator::MatMult => BinaryOp::MatMul,
        ruff::Operator::Div => BinaryOp::Div,
        ruff::Operator::Mod => BinaryOp::Mod,
        ruff::Operator::Pow => BinaryOp::Pow,
        ruff::Operator::LShift => BinaryOp::Shl,
        ruff::Operator::RShift => BinaryOp::Shr,
        ruff::Operator::BitOr => BinaryOp::BitOr,
        ruff::Operator::BitXor => BinaryOp::BitXor,
        ruff::Operator::BitAnd => BinaryOp::BitAnd,
        ruff::Operator::FloorDiv => BinaryOp::FloorDiv,
    }
}

fn compare_op(op: ruff::CmpOp) -> CompareOp {
    match op {
        ruff::CmpOp::Eq => CompareOp::Eq,
        ruff::CmpOp::NotEq => CompareOp::Ne,
        ruff::CmpOp::Lt => CompareOp::Lt,
        ruff::CmpOp::LtE => CompareOp::Le,
        ruff::CmpOp::Gt => CompareOp::Gt,
        ruff::CmpOp::GtE => CompareOp::Ge,
        ruff::CmpOp::Is => CompareOp::Is,
        ruff::CmpOp::IsNot => CompareOp::IsNot,
        ruff::CmpOp::In => CompareOp::In,
        ruff::CmpOp::NotIn => CompareOp::NotIn,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Module> {
        parse_module(&Arc::new(Source::new("t.py", None, text)))
    }

    fn function(text: &str) -> Arc<Function> {
        let module = parse(text).unwrap();
        let found = module.body.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Def(def) => Some(def.clone()),
            _ => None,
        });
        found.unwrap()
    }

    fn inner(function: &Function) -> Arc<Function> {
        let found = function.body.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Def(def) => Some(def.clone()),
            _ => None,
        });
        found.unwrap()
    }

    fn texts(names: &[Name]) -> Vec<&str> {
        names.iter().map(|name| &**name).collect()
    }

    #[test]
    fn scopes_tell_locals_captures_and_globals() {
        let outer = function(
            "def outer(k, *rest):\n    late = 1\n    def inner(x):\n        y = x + k + late + G\n        return y\n    return inner\n",
        );
        assert_eq!(texts(&outer.scope.locals), ["k", "rest", "late", "inner"]);
        assert_eq!(texts(&outer.scope.captured), ["k", "late"]);
        assert_eq!(texts(&outer.scope.globals), ["G"]);
        let inner = inner(&outer);
        assert_eq!(texts(&inner.scope.locals), ["x", "y"]);
        assert_eq!(texts(&inner.scope.free), ["k", "late"]);
        assert_eq!(texts(&inner.scope.globals), ["G"]);
    }

    #[test]
    fn a_name_bound_later_in_the_enclosing_function_is_captured() {
        let outer = function("def f():\n    def g():\n        return h\n    h = 1\n    return g\n");
        assert_eq!(texts(&inner(&outer).scope.free), ["h"]);
        assert_eq!(texts(&outer.scope.captured), ["h"]);
    }

    #[test]
    fn captures_pass_through_functions_between() {
        let outer = function(
            "def a(x):\n    def b():\n        def c():\n            return x\n        return c\n    return b\n",
        );
        let b = inner(&outer);
        assert_eq!(texts(&b.scope.free), ["x"]);
        assert_eq!(texts(&inner(&b).scope.free), ["x"]);
    }

    #[test]
    fn global_and_nonlocal_are_no_locals() {
        let f = function(
            "def f():\n    global n\n    n = 1\n    m = 2\n    def g():\n        nonlocal m\n        m += n\n    return g\n",
        );
        assert_eq!(texts(&f.scope.locals), ["m", "g"]);
        let g = inner(&f);
        assert!(g.scope.locals.is_empty());
        assert_eq!(texts(&g.scope.free), ["m"]);
        assert_eq!(texts(&g.scope.globals), ["n"]);
    }

    #[test]
    fn comprehension_targets_stay_inside_and_walrus_goes_out() {
        let f = function("def f(a):\n    return [(last := v) for v in a if v > k], last\n");
        assert_eq!(texts(&f.scope.locals), ["a", "last"]);
        assert_eq!(texts(&f.scope.globals), ["k"]);
    }

    #[test]
    fn spans_begin_at_def_after_decorators() {
        let text = "@njit\n# def\n@other(1)\ndef f(x): return x\n";
        let f = function(text);
        assert_eq!(f.source.slice(f.span), "def f(x): return x");
        assert_eq!(f.source.slice(f.name_span), "f");
    }

    #[test]
    fn refuses_with_a_place_and_a_hint() {
        for (text, line) in [
            ("x = 1\nwith a as b:\n    pass\n", 2),
            ("async def f():\n    pass\n", 1),
            ("match x:\n    case 1:\n        pass\n", 1),
            ("def f[T](x):\n    pass\n", 1),
            ("x = 999999999999999999999999999999999999999999\n", 1),
        ] {
            let error = parse(text).unwrap_err();
            let report = error.report();
            assert_eq!(report.line, Some(line), "{text}");
            assert!(report.hint.is_some(), "{text}");
        }
    }

    #[test]
    fn rejects_what_python_rejects_after_parsing() {
        for text in [
            "return 1\n",
            "break\n",
            "def f():\n    continue\n",
            "def f(a, a): pass\n",
            "def f():\n    nonlocal q\n",
            "x = = 1\n",
            "def f(a):\n    global a\n",
        ] {
            assert!(parse(text).unwrap_err().message.starts_with("invalid syntax"), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_crash() {
        for text in [
            format!("x = {}1{}\n", "(".repeat(50_000), ")".repeat(50_000)),
            format!("x = {}1{}\n", "[".repeat(5_000), "]".repeat(5_000)),
            format!("x = 1{}\n", "+1".repeat(50_000)),
            format!("x = {}1\n", "-".repeat(50_000)),
            format!("x = a{}\n", ".b".repeat(50_000)),
            format!("x: {}1{} = 0\n", "[".repeat(5_000), "]".repeat(5_000)),
        ] {
            let _ = parse(&text);
        }
        assert!(
            parse(&format!("x = 1{}\n", "+1".repeat(500))).unwrap_err().message.contains("nests")
        );
        assert!(parse(&format!("x = 1{}\n", "+1".repeat(300))).is_ok());
    }

    #[test]
    fn f_strings_join_and_keep_specs() {
        let source = Arc::new(Source::new("t", None, "'a' f'b{x!r:>{w}}c{y=}'"));
        let ExprKind::FString(parts) = parse_expression(&source).unwrap().kind else { panic!() };
        assert_eq!(parts.len(), 4);
        assert!(matches!(&parts[0], FStringPart::Text(t) if &**t == "ab"));
        assert!(
            matches!(&parts[1], FStringPart::Value { conversion: Some('r'), spec, .. } if spec.len() == 2)
        );
        assert!(matches!(&parts[2], FStringPart::Text(t) if &**t == "cy="));
        assert!(
            matches!(&parts[3], FStringPart::Value { conversion: Some('r'), spec, .. } if spec.is_empty())
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn never_panics(text in "\\PC{0,80}") {
            if let Err(error) = parse(&text) {
                let _ = error.to_string();
            }
        }

        #[test]
        fn never_panics_on_what_looks_like_python(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "def ", "f", "(", ")", ":", "\n", "    ", "x", " = ", "1", "[", "]", "lambda ", "for ", " in ",
                    "if ", "else", "elif ", "f'{", "}'", "return ", "class ", "@", "*", "**", ",", "yield ", "global ",
                    "nonlocal ", "import ", "from ", ".", "try", "except", " as ", ":=", "'", "\\", "é", "\r",
                ]),
                0..40,
            )
        ) {
            if let Err(error) = parse(&words.concat()) {
                let _ = error.to_string();
            }
        }
    }
}
