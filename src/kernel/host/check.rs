//! A module's body as a check evaluates it: enough to know its names, and nothing for its effect.
//!
//! ```text
//!   file ──parse, all that is wrong──► statement by statement ─┬─ imports, defs, classes, assignments, if, try: run
//!                                                              ├─ calls for their effect, loops, raise, assert: not run
//!                                                              └─ every import of the file, wherever it stands: followed
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use super::{Host, frame::Frame};
use crate::kernel::{
    diagnostic::Diagnostic,
    exception::ExceptionKind as E,
    infer::assigned,
    parse,
    source::Source,
    syntax::{Expr, ExprKind, Name, Stmt, StmtKind},
    value::{Module, Run, Stop, Value},
};

/// What a check has found so far.
#[derive(Debug, Default)]
pub(crate) struct Checking {
    /// What is wrong, in the order in which it was found.
    pub problems: Vec<Diagnostic>,
    /// Names that are bound by what is not run, or that failed.
    unknown: HashSet<Name>,
    /// Modules in which something is wrong, so that names may be missing.
    incomplete: HashSet<Name>,
    /// How many expressions the running statement of a module's body has evaluated.
    steps: u32,
}

/// How many expressions a statement of a module's body may evaluate in a check, with all that it calls: what takes longer,
/// or never ends, is not known, and so are the names that it would bind.
const MOST_STEPS: u32 = 1 << 20;

impl Checking {
    /// Adds what is wrong, unless it is known, or comes of a name that only running the program would bind.
    pub(crate) fn add(&mut self, problem: Diagnostic) {
        let of_unknown = |name: &Name| {
            let (ticks, quotes) = (format!("`{name}`"), format!("'{name}'"));
            problem.message.contains(&ticks) || problem.message.contains(&quotes)
        };
        let name = |problem: &Diagnostic| problem.source.as_ref().map(|source| source.name.clone());
        let known = self.problems.iter().any(|known| {
            known.span == problem.span
                && known.message == problem.message
                && name(known) == name(&problem)
        });
        if !known && !self.unknown.iter().any(of_unknown) {
            self.problems.push(problem);
        }
    }
}

impl Host {
    /// What a check of this program has found so far. From now on module bodies are evaluated only as far as names need
    /// it, and what is wrong in them is noted here.
    pub(crate) fn checking(&mut self) -> &mut Checking {
        self.checking.get_or_insert_default()
    }

    /// The body of a module, in a check.
    pub(super) fn check_body(&mut self, module: &Arc<Module>, source: &Arc<Source>) {
        let (tree, problems) = parse::parse_all(source);
        if !problems.is_empty() {
            self.checking().incomplete.insert(module.name.clone());
        }
        problems.into_iter().for_each(|problem| self.checking().add(problem));
        module.set("__name__".into(), Value::Str(module.name.clone()));
        if let Some(path) = &source.path {
            module.set("__file__".into(), Value::str(path.to_string_lossy().into_owned()));
        }
        let mut frame = Frame::module(module, source);
        self.loading.push(module.name.clone());
        self.check_block(&mut frame, &tree.body);
        self.loading.pop();
        // What functions and skipped statements import, in names that nobody sees.
        let aside = Arc::new(Module {
            name: module.name.clone(),
            source: module.source.clone(),
            package: module.package.clone(),
            folder: module.folder.clone(),
            globals: Default::default(),
        });
        let mut frame = Frame::module(&aside, source);
        let mut imports = Vec::new();
        each_import(&tree.body, &mut imports);
        for stmt in imports {
            let outcome = self.exec(&mut frame, stmt);
            self.note(&frame, outcome.err());
        }
    }

    fn check_block(&mut self, frame: &mut Frame, body: &[Stmt]) {
        for stmt in body {
            frame.span = stmt.span;
            let is_run = match &stmt.kind {
                StmtKind::Expr(expr) => self.is_registration(frame, expr),
                StmtKind::If { test, body, orelse } => {
                    match self.eval_truth(frame, test) {
                        Ok(true) => self.check_block(frame, body),
                        Ok(false) => self.check_block(frame, orelse),
                        Err(stop) => {
                            self.note(frame, Some(stop));
                            self.skip(std::slice::from_ref(stmt));
                        }
                    }
                    continue;
                }
                StmtKind::Try { body, .. } => body.iter().any(|stmt| {
                    matches!(
                        stmt.kind,
                        StmtKind::Import(_)
                            | StmtKind::ImportFrom { .. }
                            | StmtKind::Def(_)
                            | StmtKind::Class(_)
                    )
                }),
                StmtKind::For { .. }
                | StmtKind::While { .. }
                | StmtKind::Raise { .. }
                | StmtKind::Assert { .. } => false,
                _ => true,
            };
            if !is_run {
                self.skip(std::slice::from_ref(stmt));
                continue;
            }
            self.checking().steps = 0;
            match self.exec(frame, stmt) {
                Ok(_) => {}
                Err(stop) => {
                    self.note(frame, Some(stop));
                    self.skip(std::slice::from_ref(stmt));
                }
            }
        }
    }

    /// Remembers what statements would have bound.
    fn skip(&mut self, stmts: &[Stmt]) {
        let mut names = assigned(stmts);
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Class(class) => names.push(class.name.clone()),
                StmtKind::Import(imports) | StmtKind::ImportFrom { names: imports, .. } => {
                    let bound = |import: &crate::kernel::syntax::ImportName| {
                        import.alias.clone().unwrap_or_else(|| import.name.clone())
                    };
                    names.extend(imports.iter().map(bound));
                }
                StmtKind::Try { body, handlers, orelse, finally } => {
                    [body, orelse, finally].into_iter().for_each(|body| self.skip(body));
                    handlers.iter().for_each(|handler| self.skip(&handler.body));
                }
                _ => {}
            }
        }
        self.checking().unknown.extend(names);
    }

    /// Notes why a statement stopped, if that is wrong whatever the program would do.
    fn note(&mut self, frame: &Frame, stop: Option<Stop>) {
        let problem = match stop {
            None | Some(Stop::Exit(_)) => return,
            Some(Stop::Refused(diagnostic)) => diagnostic.or_at(&frame.source, frame.span),
            Some(Stop::Raised(raised)) => {
                let exception = raised.exception;
                let is = |kind: E| exception.is_instance(&kind.class());
                if !(is(E::ImportError) || is(E::NameError)) {
                    return;
                }
                let text = self.str(&Value::Exception(exception.clone())).unwrap_or_default();
                let of_incomplete = |module: &Name| text.contains(&format!("from '{module}'"));
                if self.checking().incomplete.iter().any(of_incomplete) {
                    return;
                }
                let message = format!("{}: {text}", exception.class.name);
                Diagnostic::new(&frame.source, frame.span, message)
            }
        };
        self.checking().add(problem);
    }

    /// Whether an expression statement registers something with Numba, such as `structref.define_proxy(...)`.
    fn is_registration(&mut self, frame: &mut Frame, expr: &Expr) -> bool {
        let ExprKind::Call { function, .. } = &expr.kind else { return false };
        match &function.kind {
            ExprKind::Call { .. } => self.is_registration(frame, function),
            ExprKind::Name(_) | ExprKind::Attribute { .. } => {
                let callee = self.eval(frame, function);
                matches!(callee, Ok(Value::Builtin(builtin)) if builtin.0.starts_with("numba"))
            }
            _ => false,
        }
    }

    /// Counts an expression, and stops a check that evaluates too many.
    pub(super) fn step(&mut self) -> Run<()> {
        let Some(checking) = &mut self.checking else { return Ok(()) };
        checking.steps = checking.steps.saturating_add(1);
        if checking.steps > MOST_STEPS { Err(Stop::Exit(0)) } else { Ok(()) }
    }

    /// Stops what a check must not do.
    pub(super) fn no_effects(&self) -> Run<()> {
        match self.checking {
            Some(_) => Err(Stop::Exit(0)),
            None => Ok(()),
        }
    }
}

/// Every import, wherever it stands, but for those that a `try` may catch.
fn each_import<'a>(body: &'a [Stmt], found: &mut Vec<&'a Stmt>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Import(_) | StmtKind::ImportFrom { .. } => found.push(stmt),
            StmtKind::If { body, orelse, .. }
            | StmtKind::For { body, orelse, .. }
            | StmtKind::While { body, orelse, .. } => {
                each_import(body, found);
                each_import(orelse, found);
            }
            StmtKind::Def(function) => each_import(&function.body, found),
            StmtKind::Class(class) => each_import(&class.body, found),
            StmtKind::Try { orelse, finally, .. } => {
                each_import(orelse, found);
                each_import(finally, found);
            }
            _ => {}
        }
    }
}
