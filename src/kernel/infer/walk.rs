//! The walk over a kernel's statements: control flow, variables and where paths meet.
//!
//! ```text
//!   path ──► place holder ──┐
//!   path ──► place holder ──┴─► join: every variable gets the type that unifies what the paths hold,
//!                               and each place holder the conversions that its path needs
//! ```
//!
//! A loop is walked until the types at its head stay as they are; what earlier rounds wrote is thrown away.

use std::collections::HashMap;
use std::sync::Arc;

use super::val::{Closure, Joined, Slot, Val, ir_type};
use super::{Callee, Specialised, World};
use crate::kernel::diagnostic::Diagnostic;
use crate::kernel::ir::{self, Expr, ExprKind, Label, LocalId, Site, Stmt, StmtKind};
use crate::kernel::options::Options;
use crate::kernel::runtime::stack::deep;
use crate::kernel::sites;
use crate::kernel::source::Source;
use crate::kernel::syntax::{self, Arg, BinaryOp, ExprKind as S, Name, Span};
use crate::kernel::types::{Literal, Ty};
use crate::kernel::value::{KernelDef, Value};

/// Why a walk stops.
pub(super) enum Stop {
    /// The kernel is refused.
    Refused(Box<Diagnostic>),
    /// What comes next is reached only with the result of a call whose type is not known yet: by recursion.
    Unknown,
}

pub(super) type Res<T> = Result<T, Stop>;

impl From<Diagnostic> for Stop {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Refused(Box::new(diagnostic))
    }
}

/// Where names that a frame does not bind are looked up.
#[derive(Clone)]
pub(super) enum Scope {
    /// In a kernel's captures and globals.
    Kernel(Arc<KernelDef>),
    /// Among the functions of the prelude.
    Prelude,
}

/// The walk through one function's body: the kernel's, or that of a function inlined into it.
pub(super) struct Frame {
    pub function: Arc<syntax::Function>,
    pub scope: Scope,
    /// The frame around a local function.
    pub parent: Option<usize>,
    pub options: Options,
    /// Where `return` goes in a function that is inlined.
    pub returns: Option<Returns>,
    /// How many loops were open when the frame was entered.
    pub loops: usize,
}

/// The returns of an inlined function seen so far.
pub(super) struct Returns {
    pub label: Label,
    pub seen: Vec<(Patch, State, Val)>,
}

/// What all variables hold.
pub(super) type State = Vec<Slot>;

/// Paths that meet somewhere: the place holder at the end of each, and what variables hold there.
pub(super) type Paths = Vec<(Patch, State)>;

/// A place in the code that may need conversions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patch(usize);

/// Place holders are empty blocks with labels from here down.
const PATCHES: u32 = u32::MAX;

struct Loop {
    /// Where `break` goes.
    exit: Label,
    /// Where `continue` goes.
    next: Label,
    breaks: Paths,
    nexts: Paths,
    /// Whether rounds run in parallel.
    parallel: bool,
}

pub(super) struct Walker<'w> {
    pub world: &'w mut dyn World,
    pub def: Arc<KernelDef>,
    pub args: &'w [Ty],
    /// The return type of calls to the kernel itself, as far as it is known.
    pub assumed: Option<Ty>,
    /// Whether the kernel calls itself.
    pub recursive: bool,
    pub ir: ir::Function,
    pub callees: Vec<Callee>,
    pub frames: Vec<Frame>,
    pub frame: usize,
    pub state: Option<State>,
    pub out: Vec<Stmt>,
    /// The place of the statement that is walked, for messages.
    pub span: Span,
    /// Its number: of what is inlined from elsewhere, that of the statement that calls it.
    site: Site,
    sites: HashMap<Span, u32>,
    variables: HashMap<(usize, Name), usize>,
    names: Vec<Name>,
    locals: HashMap<(usize, Ty), LocalId>,
    labels: u32,
    patches: Vec<Vec<Stmt>>,
    loops: Vec<Loop>,
    returned: Vec<Ty>,
    /// The nodes of array expressions by the first parameter of their trees: type and value before they are narrowed to
    /// the element type of the result.
    pub nodes: HashMap<LocalId, (Ty, Expr)>,
    /// How often a statement waited for a type that is not known yet.
    pub unknowns: usize,
    /// What variables held around each statement of the `try`s that are open.
    pub attempts: Vec<Vec<State>>,
    /// How many inlined functions are open.
    open: usize,
    /// How many loops are being walked.
    depth: usize,
    /// Variables that were read in a loop before anything set them.
    pub unset_reads: Vec<(usize, Span)>,
}

impl<'w> Walker<'w> {
    /// Walks the kernel once.
    pub(super) fn run(
        world: &'w mut dyn World,
        def: &Arc<KernelDef>,
        args: &'w [Ty],
        assumed: Option<Ty>,
        forced: Option<&Ty>,
    ) -> Res<(Option<Specialised>, Option<Ty>, bool)> {
        let options = Options::of(def)?;
        let fastmath = options.fastmath;
        let mut walker = Walker {
            world,
            def: def.clone(),
            args,
            assumed,
            recursive: false,
            ir: ir::Function {
                name: def.name().to_string(),
                params: Vec::new(),
                locals: Vec::new(),
                result: ir::Type::None,
                body: Vec::new(),
                callees: Vec::new(),
                constants: Vec::new(),
                fastmath,
            },
            callees: Vec::new(),
            frames: vec![Frame {
                function: def.function.clone(),
                scope: Scope::Kernel(def.clone()),
                parent: None,
                options,
                returns: None,
                loops: 0,
            }],
            frame: 0,
            state: Some(Vec::new()),
            out: Vec::new(),
            span: def.function.name_span,
            site: Site::default(),
            sites: sites::numbers(&def.function),
            variables: HashMap::new(),
            names: Vec::new(),
            locals: HashMap::new(),
            labels: 0,
            patches: Vec::new(),
            loops: Vec::new(),
            returned: Vec::new(),
            nodes: HashMap::new(),
            unknowns: 0,
            attempts: Vec::new(),
            open: 0,
            depth: 0,
            unset_reads: Vec::new(),
        };
        let function = def.function.clone();
        if function.is_generator {
            return walker.refuse_at(
                function.name_span,
                "generators are not supported in kernels",
                "fill an array that the caller passes",
            );
        }
        for (param, ty) in function.params.iter().zip(args) {
            let local = walker.ir.local(&param.name, ir_type(ty));
            walker.ir.params.push(local);
            let val = walker.val_of(ty, walker.ir.get(local));
            let variable = walker.variable(0, &param.name);
            match val {
                Val::Run { ty, literal, .. }
                    if ir_type(&ty) == walker.ir.locals[local.0 as usize].ty =>
                {
                    walker.locals.insert((variable, ty.clone()), local);
                    walker.set(variable, Slot::Run(ty, local, literal));
                }
                val => walker.assign_variable(variable, val)?,
            }
        }
        walker.body(&function.body)?;
        if walker.state.is_some() {
            walker.returned.push(Ty::None);
            walker.emit(StmtKind::Return(None));
        }
        if walker.returned.is_empty() && walker.unknowns == 0 {
            // It raises on every path.
            walker.returned.push(Ty::None);
        }
        let mut returns = forced.cloned();
        if returns.is_none() {
            for ty in &walker.returned {
                returns = Some(match returns {
                    None => ty.clone(),
                    Some(so_far) => match crate::kernel::rules::unify(&so_far, ty) {
                        Some(ty) => ty,
                        None => {
                            return walker.refuse_at(
                                function.name_span,
                                format!("the kernel returns both {so_far} and {ty}, which no one type holds"),
                                "return values of one type on all paths",
                            );
                        }
                    },
                });
            }
        }
        let Some(returns) = returns else { return Ok((None, None, walker.recursive)) };
        for ty in &walker.returned {
            if !ir::can_cast(&ir_type(ty), &ir_type(&returns)) {
                return walker.refuse_at(
                    function.name_span,
                    format!("the kernel returns {ty}, which is no {returns}"),
                    "return a value of the declared type",
                );
            }
        }
        walker.ir.result = ir_type(&returns);
        let mut body = std::mem::take(&mut walker.out);
        let result = walker.ir.result.clone();
        walker.settle(&mut body, Some(&result));
        walker.ir.body = body;
        let recursive = walker.recursive;
        let specialised =
            Specialised { function: walker.ir, callees: walker.callees, returns: returns.clone() };
        Ok((Some(specialised), Some(returns), recursive))
    }

    // ---- messages ----

    pub(super) fn source(&self) -> Arc<Source> {
        self.frames[self.frame].function.source.clone()
    }

    pub(super) fn options(&self) -> &Options {
        &self.frames[self.frame].options
    }

    pub(super) fn refuse_at<T>(
        &self,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Res<T> {
        let mut diagnostic = Diagnostic::new(&self.source(), span, message).hint(hint);
        if self.frame != 0 {
            let kernel = &self.frames[0].function;
            diagnostic =
                diagnostic.note(&kernel.source, kernel.name_span, "inlined into this kernel");
        }
        Err(diagnostic.into())
    }

    pub(super) fn refuse<T>(&self, message: impl Into<String>, hint: impl Into<String>) -> Res<T> {
        self.refuse_at(self.span, message, hint)
    }

    // ---- locals, variables, labels ----

    pub(super) fn temporary(&mut self, ty: &Ty) -> LocalId {
        self.ir.local("", ir_type(ty))
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    pub(super) fn emit(&mut self, kind: StmtKind) {
        self.out.push(Stmt { kind, site: self.site });
    }

    /// The value as one that can be used more than once. Variables that hold more than a number are left where they
    /// are: nothing must be assigned to them before the value is used.
    pub(super) fn bind(&mut self, val: Val) -> Val {
        self.keep(val, false)
    }

    /// The value in locals of its own, whatever is assigned to variables later.
    pub(super) fn hold(&mut self, val: Val) -> Val {
        self.keep(val, true)
    }

    fn keep(&mut self, val: Val, copy: bool) -> Val {
        match val {
            Val::Run { ty, expr, literal } => {
                Val::Run { ty, expr: self.keep_expr(expr, copy), literal }
            }
            Val::Tuple(items) => {
                Val::Tuple(items.into_iter().map(|item| self.keep(item, copy)).collect())
            }
            Val::List(items) => {
                Val::List(items.into_iter().map(|item| self.keep(item, copy)).collect())
            }
            Val::Range(parts, int) => {
                Val::Range(Box::new(parts.map(|part| self.keep_expr(part, copy))), int)
            }
            Val::Slice(parts) => {
                Val::Slice(Box::new(parts.map(|part| part.map(|part| self.keep_expr(part, copy)))))
            }
            Val::Method(object, name) => Val::Method(Box::new(self.keep(*object, copy)), name),
            Val::Enumerate(items, start) => {
                let items = self.keep(*items, copy);
                Val::Enumerate(Box::new(items), self.keep_expr(start, copy))
            }
            Val::Zip(items) => {
                Val::Zip(items.into_iter().map(|item| self.keep(item, copy)).collect())
            }
            Val::Indices(lengths, array) => {
                let lengths =
                    lengths.into_iter().map(|length| self.keep_expr(length, copy)).collect();
                Val::Indices(lengths, array.map(|array| Box::new(self.keep(*array, copy))))
            }
            other => other,
        }
    }

    /// As [`bind`](Self::bind), of an expression.
    pub(super) fn bind_expr(&mut self, expr: Expr) -> Expr {
        self.keep_expr(expr, false)
    }

    fn keep_expr(&mut self, expr: Expr, copy: bool) -> Expr {
        match &expr.kind {
            ExprKind::Const(_) | ExprKind::Constant(_) => return expr,
            ExprKind::Local(local) if self.is_temporary(*local) => return expr,
            // Copying a number costs nothing, anything else a count of references.
            ExprKind::Local(_) if !copy && expr.ty.scalar().is_none() => return expr,
            _ => {}
        }
        let local = self.ir.local("", expr.ty.clone());
        self.emit(StmtKind::Assign(local, expr));
        self.ir.get(local)
    }

    /// Whether a loop is being walked.
    pub(super) fn in_loop(&self) -> bool {
        self.depth > 0
    }

    fn is_temporary(&self, local: LocalId) -> bool {
        self.ir.locals[local.0 as usize].name.is_empty()
    }

    pub(super) fn variable(&mut self, frame: usize, name: &Name) -> usize {
        if let Some(&variable) = self.variables.get(&(frame, name.clone())) {
            return variable;
        }
        self.names.push(name.clone());
        self.variables.insert((frame, name.clone()), self.names.len() - 1);
        self.names.len() - 1
    }

    pub(super) fn existing(&self, frame: usize, name: &Name) -> Option<usize> {
        self.variables.get(&(frame, name.clone())).copied()
    }

    pub(super) fn slot(&self, variable: usize) -> Slot {
        self.state.as_ref().and_then(|state| state.get(variable)).cloned().unwrap_or(Slot::Unset)
    }

    pub(super) fn set(&mut self, variable: usize, slot: Slot) {
        if let Some(state) = &mut self.state {
            if state.len() <= variable {
                state.resize(variable + 1, Slot::Unset);
            }
            state[variable] = slot;
        }
    }

    fn local_of(&mut self, variable: usize, ty: &Ty) -> LocalId {
        if let Some(&local) = self.locals.get(&(variable, ty.clone())) {
            return local;
        }
        let name = self.names[variable].clone();
        let local = self.ir.local(&name, ir_type(ty));
        self.locals.insert((variable, ty.clone()), local);
        local
    }

    pub(super) fn assign_variable(&mut self, variable: usize, val: Val) -> Res<()> {
        let val = match val {
            Val::Tuple(items) if items.iter().all(runs) => {
                let (ty, expr) = self.materialise(Val::Tuple(items))?;
                Val::run(ty, expr)
            }
            other => other,
        };
        match val {
            Val::Run { ty, expr, literal } => {
                let local = self.local_of(variable, &ty);
                if expr.kind != ExprKind::Local(local) {
                    self.emit(StmtKind::Assign(local, expr));
                }
                self.set(variable, Slot::Run(ty, local, literal));
            }
            Val::List(_) => {
                return self.refuse(
                    "lists are not supported in kernels",
                    "make an array with np.array([...])",
                );
            }
            other => {
                let known = self.hold(other);
                self.set(variable, Slot::Known(known));
            }
        }
        Ok(())
    }

    // ---- paths ----

    /// A place holder at the end of the current path, with what variables hold there.
    pub(super) fn mark(&mut self) -> Option<(Patch, State)> {
        let state = self.state.clone()?;
        self.patches.push(Vec::new());
        let patch = Patch(self.patches.len() - 1);
        self.out.push(StmtKind::Block(Label(PATCHES - patch.0 as u32), Vec::new()).into());
        Some((patch, state))
    }

    /// What variables hold where these paths meet.
    fn join_states(&mut self, paths: &[&State]) -> Option<State> {
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
    fn convert(&mut self, patch: Patch, from: &State, to: &State) {
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
    fn settle(&mut self, stmts: &mut Vec<Stmt>, result: Option<&ir::Type>) {
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

    // ---- statements ----

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

    /// `target = val`.
    pub(super) fn assign(&mut self, target: &syntax::Expr, val: Val) -> Res<()> {
        match &target.kind {
            S::Name(name) => {
                let variable = self.variable(self.frame, name);
                self.assign_variable(variable, val)
            }
            S::Tuple(targets) | S::List(targets) => {
                let items = self.unpack(val, targets, target.span)?;
                for (target, item) in targets.iter().zip(items) {
                    let target = match &target.kind {
                        S::Starred(inner) => inner,
                        _ => target,
                    };
                    self.assign(target, item)?;
                }
                Ok(())
            }
            S::Subscript { value, index } => {
                let val = self.bind(val);
                let array = self.expr(value)?;
                let index = self.subscript(index)?;
                self.set_item(array, index, val, target.span)
            }
            S::Attribute { value, name, .. } => {
                let val = self.bind(val);
                let object = self.expr(value)?;
                self.set_attribute(object, name, val, target.span)
            }
            _ => self.refuse_at(
                target.span,
                "kernels cannot assign to this",
                "assign to a name, an item or a field",
            ),
        }
    }

    /// The items for each of `targets`, in locals of their own.
    fn unpack(&mut self, val: Val, targets: &[syntax::Expr], span: Span) -> Res<Vec<Val>> {
        let star = targets.iter().position(|target| matches!(target.kind, S::Starred(_)));
        let items = match val {
            val @ (Val::Run { ty: Ty::Array(_), .. } | Val::Range(..)) if star.is_none() => {
                self.unpack_running(val, targets.len())
            }
            val => match self.items(val) {
                Ok(items) => items,
                Err(val) => {
                    return self.refuse_at(
                        span,
                        format!("{} cannot be unpacked", val.describe()),
                        "unpack a tuple",
                    );
                }
            },
        };
        let enough = match star {
            Some(_) => items.len() + 1 >= targets.len(),
            None => items.len() == targets.len(),
        };
        if !enough {
            return self.refuse_at(
                span,
                format!("{} names for a tuple of {} items", targets.len(), items.len()),
                "name as many as there are",
            );
        }
        let mut items: Vec<Val> = items.into_iter().map(|item| self.hold(item)).collect();
        if let Some(star) = star {
            let rest = items.len() + 1 - targets.len();
            let middle: Vec<Val> = items.drain(star..star + rest).collect();
            items.insert(star, Val::Tuple(middle));
        }
        Ok(items)
    }

    /// The items of something whose length is known when the kernel runs: a `ValueError` if there are not `count`.
    fn unpack_running(&mut self, val: Val, count: usize) -> Vec<Val> {
        let val = self.iterable(val);
        let length = self.iter_length(&val).unwrap_or_else(|| Expr::int(0));
        let differs = Expr::binary(ir::BinaryOp::Ne, length, Expr::int(count as i64));
        let raise = ir::Raise { class: "ValueError".into(), args: Vec::new() };
        let otherwise = vec![StmtKind::Raise(raise).into()];
        self.emit(StmtKind::If(differs, otherwise, Vec::new()));
        (0..count).map(|at| self.iter_item(&val, &Expr::int(at as i64))).collect()
    }

    /// The items of a tuple, or the value if it is none.
    pub(super) fn items(&mut self, val: Val) -> Result<Vec<Val>, Val> {
        match val {
            Val::Tuple(items) => Ok(items),
            Val::Run { ty: Ty::Tuple(types), expr, .. } => {
                let expr = self.bind_expr(expr);
                Ok(types
                    .iter()
                    .enumerate()
                    .map(|(index, ty)| {
                        let item = Expr::new(
                            ExprKind::Item(Box::new(expr.clone()), index as u32),
                            ir_type(ty),
                        );
                        self.val_of(ty, item)
                    })
                    .collect())
            }
            other => Err(other),
        }
    }

    /// What a value of type `ty` is, whose running part is `expr`.
    pub(super) fn val_of(&mut self, ty: &Ty, expr: Expr) -> Val {
        match ty {
            Ty::Literal(literal) => {
                Val::Run { ty: literal.ty(), expr, literal: Some(literal.clone()) }
            }
            Ty::Omitted(literal) => Val::literal(literal),
            Ty::None => Val::none(),
            Ty::Function(function) => Val::Kernel(function.0.clone()),
            Ty::Class(of) => Val::Class((**of).clone()),
            Ty::DType(of) => Val::DType((**of).clone()),
            Ty::Tuple(items) | Ty::StarArgs(items) if !items.iter().all(has_lanes) => Val::Tuple(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, ty)| {
                        let item = Expr::new(
                            ExprKind::Item(Box::new(expr.clone()), index as u32),
                            ir_type(ty),
                        );
                        self.val_of(ty, item)
                    })
                    .collect(),
            ),
            Ty::StarArgs(items) => Val::run(Ty::Tuple(items.clone()), expr),
            other => Val::run(other.clone(), expr),
        }
    }

    /// `target op= value`.
    fn augment(&mut self, target: &syntax::Expr, op: BinaryOp, value: &syntax::Expr) -> Res<()> {
        match &target.kind {
            S::Name(name) => {
                let current = self.name(name, target.span)?;
                let val = self.expr(value)?;
                if let Val::Run { ty: Ty::Array(_), .. } = &current {
                    return self.update_view(current, op, val, target.span);
                }
                let val = self.binary(op, current, val, target.span.to(value.span))?;
                self.assign(target, val)
            }
            S::Subscript { value: array, index } => {
                let array = self.expr(array)?;
                let array = self.bind(array);
                let index = self.subscript(index)?;
                let index = self.bind(index);
                let current = self.get_item(array.clone(), index.clone(), target.span)?;
                let val = self.expr(value)?;
                if let Val::Run { ty: Ty::Array(_), .. } = &current {
                    if self.is_mask(&index) {
                        let val = self.binary(op, current, val, target.span.to(value.span))?;
                        return self.set_item(array, index, val, target.span);
                    }
                    return self.update_view(current, op, val, target.span);
                }
                let val = self.binary(op, current, val, target.span.to(value.span))?;
                self.set_item(array, index, val, target.span)
            }
            S::Attribute { value: object, name, .. } => {
                let object = self.expr(object)?;
                let object = self.bind(object);
                let current = self.get_attribute(object.clone(), name, target.span)?;
                let val = self.expr(value)?;
                let val = self.binary(op, current, val, target.span.to(value.span))?;
                self.set_attribute(object, name, val, target.span)
            }
            _ => self.refuse_at(
                target.span,
                "kernels cannot assign to this",
                "assign to a name, an item or a field",
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

    /// Walks a loop until the types at its head stay as they are, and returns what variables hold there. `round` walks
    /// the body from the head, and returns the paths back to the head and what it made.
    fn fixed<T>(
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

    /// Refuses the use of a variable that no path has set.
    pub(super) fn unset<T>(&self, name: &str, span: Span) -> Res<T> {
        self.refuse_at(
            span,
            format!("`{name}` is used before it has a value"),
            "give it a value on every path",
        )
    }

    fn while_stmt(
        &mut self,
        test: &syntax::Expr,
        body: &[syntax::Stmt],
        orelse: &[syntax::Stmt],
    ) -> Res<()> {
        let label = self.label();
        let exit = if orelse.is_empty() { label } else { self.label() };
        let span = self.span;
        let assigned = assigned(body);
        let (head, (stmts, mut exits)) = self.fixed(&assigned, |walker| {
            let mut back = Vec::new();
            let mut done = Vec::new();
            walker.loops.push(Loop {
                exit,
                next: label,
                breaks: Vec::new(),
                nexts: Vec::new(),
                parallel: false,
            });
            let result = walker.apart(|walker| {
                let condition = walker.expr(test).and_then(|test| walker.truth(test))?;
                match condition {
                    Ok(true) => {}
                    Ok(false) => {
                        done.extend(walker.mark());
                        walker.emit(StmtKind::Leave(label));
                        walker.state = None;
                    }
                    Err(condition) => {
                        let (leave, ()) = walker.apart(|walker| {
                            done.extend(walker.mark());
                            walker.emit(StmtKind::Leave(label));
                            Ok(())
                        })?;
                        walker.emit(StmtKind::If(condition, Vec::new(), leave));
                    }
                }
                walker.body(body)?;
                back.extend(walker.mark());
                Ok(())
            });
            let inner = walker.loops.pop();
            let (stmts, ()) = match result {
                Err(Stop::Unknown) => return Err(Stop::Unknown),
                other => other?,
            };
            let (breaks, nexts) =
                inner.map(|inner| (inner.breaks, inner.nexts)).unwrap_or_default();
            back.extend(nexts);
            Ok((back, (stmts, (done, breaks))))
        })?;
        self.span = span;
        for (_, state) in exits.0.iter_mut().chain(&mut exits.1) {
            set_by_earlier_rounds(state, &head);
        }
        self.finish_loop(StmtKind::Loop(label, stmts), exit, label, exits, orelse)
    }

    /// Emits a loop and what follows when it was not broken out of.
    fn finish_loop(
        &mut self,
        kind: StmtKind,
        exit: Label,
        label: Label,
        (mut done, breaks): (Paths, Paths),
        orelse: &[syntax::Stmt],
    ) -> Res<()> {
        if exit == label {
            self.emit(kind);
            done.extend(breaks);
            self.meet(done);
            return Ok(());
        }
        let mut paths = breaks;
        let (stmts, ()) = self.apart(|walker| {
            walker.emit(kind);
            walker.meet(done);
            walker.body(orelse)?;
            paths.extend(walker.mark());
            Ok(())
        })?;
        self.emit(StmtKind::Block(exit, stmts));
        self.meet(paths);
        Ok(())
    }

    fn for_stmt(
        &mut self,
        target: &syntax::Expr,
        iter: &syntax::Expr,
        body: &[syntax::Stmt],
        orelse: &[syntax::Stmt],
    ) -> Res<()> {
        let span = self.span;
        let (iter, parallel) = match self.prange(iter)? {
            Some(range) => (range, self.options().parallel),
            None => (self.expr(iter)?, false),
        };
        // Rounds of a parallel loop run loops inside of them one after the other.
        let mut parallel = parallel && !self.loops.iter().any(|outer| outer.parallel);
        let iter = self.iterable(iter);
        if matches!(&iter, Val::Run { ty: Ty::Tuple(items), .. } if items.is_empty()) {
            return self.body(orelse);
        }
        let Some(length) = self.iter_length(&iter) else {
            return self.refuse_at(
                span,
                format!("kernels cannot loop over {}", iter.describe()),
                "loop over range, an array, a tuple, enumerate or zip",
            );
        };
        let label = self.label();
        // What follows the last round must not run after a break.
        let exit = if orelse.is_empty() && !breaks_out(body) { label } else { self.label() };
        let reductions = if parallel { self.reductions(target, body)? } else { Vec::new() };
        // Arrays are updated in place, by one round after the other.
        parallel &= !reductions
            .iter()
            .any(|(variable, _)| matches!(self.slot(*variable), Slot::Run(Ty::Array(_), ..)));
        let (counter, start, stop, step) = match &iter {
            Val::Range(parts, int) => {
                let counter = self.temporary(&Ty::Int(*int));
                let [start, stop, step] = (**parts).clone();
                (counter, start, stop, step)
            }
            _ => (self.temporary(&Ty::I64), Expr::int(0), length, Expr::int(1)),
        };
        let mut assigned = assigned(body);
        targets_of(target, &mut assigned);
        let (done, (stmts, mut breaks)) = self.fixed(&assigned, |walker| {
            let mut back = Vec::new();
            walker.loops.push(Loop {
                exit,
                next: label,
                breaks: Vec::new(),
                nexts: Vec::new(),
                parallel,
            });
            let result = walker.apart(|walker| {
                let index = walker.ir.get(counter);
                let item = match &iter {
                    Val::Range(_, int) => Val::run(Ty::Int(*int), index),
                    _ => walker.iter_item(&iter, &index),
                };
                walker.assign(target, item)?;
                walker.body(body)?;
                back.extend(walker.mark());
                Ok(())
            });
            let inner = walker.loops.pop();
            let (stmts, ()) = result?;
            let (breaks, nexts) =
                inner.map(|inner| (inner.breaks, inner.nexts)).unwrap_or_default();
            back.extend(nexts);
            // The head's state is what holds when the loop is over.
            Ok((back, (stmts, breaks)))
        })?;
        self.span = span;
        for (_, state) in &mut breaks {
            set_by_earlier_rounds(state, &done);
        }
        let rounds = ir::For { label, local: counter, start, stop, step, body: stmts };
        let kind = if parallel {
            let mut list = Vec::new();
            for (variable, op) in reductions {
                if let Some(Slot::Run(ty, local, _)) = done.get(variable) {
                    if crate::kernel::rules::promote(ty, ty).is_none() {
                        return self.refuse(
                            "only numbers can be reduced by a prange loop",
                            "reduce into a number",
                        );
                    }
                    list.push(ir::Reduction { local: *local, op });
                }
            }
            StmtKind::ParFor(Box::new(ir::ParFor { rounds, reductions: list }))
        } else {
            StmtKind::For(Box::new(rounds))
        };
        // After the last round variables are as at the head: every round ends there.
        self.state = Some(done);
        if exit == label {
            self.emit(kind);
            let mut paths = breaks;
            paths.extend(self.mark());
            self.meet(paths);
            return Ok(());
        }
        let mut paths = breaks;
        let (stmts, ()) = self.apart(|walker| {
            walker.emit(kind);
            walker.body(orelse)?;
            paths.extend(walker.mark());
            Ok(())
        })?;
        self.emit(StmtKind::Block(exit, stmts));
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

    /// The range of `prange(...)`, if the expression is that.
    fn prange(&mut self, iter: &syntax::Expr) -> Res<Option<Val>> {
        let S::Call { function, args } = &iter.kind else { return Ok(None) };
        let callee = match &function.kind {
            S::Name(_) | S::Attribute { .. } => self.expr(function)?,
            _ => return Ok(None),
        };
        if !matches!(&callee, Val::Builtin(name) if &**name == "numba.prange") {
            return Ok(None);
        }
        let (args, keywords) = self.arguments(args)?;
        self.builtin("builtins.range", args, keywords, iter.span).map(Some)
    }

    /// The variables that the rounds of a parallel loop reduce into, with how.
    fn reductions(
        &mut self,
        target: &syntax::Expr,
        body: &[syntax::Stmt],
    ) -> Res<Vec<(usize, ir::FoldOp)>> {
        let mut found: Vec<(Name, Option<ir::FoldOp>)> = Vec::new();
        updates(body, &mut found);
        let mut own = Vec::new();
        targets_of(target, &mut own);
        let mut list = Vec::new();
        for (name, op) in found {
            if own.contains(&name) {
                continue;
            }
            let Some(variable) = self.existing(self.frame, &name) else { continue };
            if !matches!(self.slot(variable), Slot::Run(..)) {
                continue;
            }
            if let Some(op) = op {
                list.push((variable, op));
            }
        }
        Ok(list)
    }

    /// What is looped over, ready to be indexed.
    pub(super) fn iterable(&mut self, val: Val) -> Val {
        let val = match val {
            Val::Tuple(items) if items.iter().all(runs) => {
                match self.materialise(Val::Tuple(items)) {
                    Ok((ty, expr)) => Val::run(ty, expr),
                    Err(_) => Val::Ellipsis,
                }
            }
            Val::Enumerate(items, start) => {
                let items = self.iterable(*items);
                Val::Enumerate(Box::new(items), start)
            }
            Val::Zip(items) => {
                Val::Zip(items.into_iter().map(|item| self.iterable(item)).collect())
            }
            other => other,
        };
        self.hold(val)
    }

    /// How many items there are, where the value can be looped over.
    pub(super) fn iter_length(&mut self, val: &Val) -> Option<Expr> {
        match val {
            Val::Range(parts, _) => {
                let [start, stop, step] = (**parts).clone();
                Some(super::calls::range_length(start, stop, step))
            }
            Val::Run { ty: Ty::Array(_), expr, .. } => {
                Some(Expr::new(ExprKind::Length(Box::new(expr.clone()), 0), ir::Type::I64))
            }
            Val::Run { ty: Ty::Tuple(items), .. } => {
                items.iter().all(|ty| *ty == items[0]).then(|| Expr::int(items.len() as i64))
            }
            Val::Enumerate(items, _) => self.iter_length(items),
            Val::Indices(lengths, _) => {
                let product = |a: Expr, b: &Expr| Expr::binary(ir::BinaryOp::Mul, a, b.clone());
                Some(lengths.iter().fold(Expr::int(1), product))
            }
            Val::Zip(items) => {
                let mut least: Option<Expr> = None;
                for item in items {
                    let length = self.iter_length(item)?;
                    least = Some(match least {
                        None => length,
                        Some(least) => Expr::binary(ir::BinaryOp::Min, least, length),
                    });
                }
                Some(least.unwrap_or_else(|| Expr::int(0)))
            }
            _ => None,
        }
    }

    /// The item at `index`, which is in range.
    pub(super) fn iter_item(&mut self, val: &Val, index: &Expr) -> Val {
        match val {
            Val::Range(parts, int) => {
                let [start, _, step] = (**parts).clone();
                let offset = Expr::binary(ir::BinaryOp::Mul, index.clone(), step);
                let value = Expr::binary(ir::BinaryOp::Add, start, offset);
                let ty = Ty::Int(*int);
                let value = value.cast(ir_type(&ty));
                Val::run(ty, value)
            }
            Val::Run { ty: Ty::Array(array), expr, .. } => {
                self.element_or_row(array, expr.clone(), index.clone(), ir::Access::InRange)
            }
            Val::Run { ty: Ty::Tuple(items), expr, .. } => {
                let ty = items.first().cloned().unwrap_or(Ty::None);
                let kind = ExprKind::ItemAt(
                    Box::new(expr.clone()),
                    Box::new(index.clone()),
                    ir::Access::InRange,
                );
                Val::run(ty.clone(), Expr::new(kind, ir_type(&ty)))
            }
            Val::Indices(lengths, array) => {
                let mut indices = Vec::new();
                let mut rest = index.clone();
                let zero = ir::OnZero::Value;
                for (axis, length) in lengths.iter().enumerate().rev() {
                    let at = if axis == 0 {
                        rest.clone()
                    } else {
                        Expr::binary(ir::BinaryOp::Mod(zero), rest.clone(), length.clone())
                    };
                    rest = Expr::binary(ir::BinaryOp::FloorDiv(zero), rest, length.clone());
                    indices.push(at);
                }
                indices.reverse();
                let tuple =
                    Val::Tuple(indices.iter().cloned().map(|at| Val::run(Ty::I64, at)).collect());
                match array.as_deref() {
                    Some(Val::Run { ty: Ty::Array(ty), expr, .. }) => {
                        let element = ir::Element1 {
                            array: expr.clone(),
                            indices,
                            access: ir::Access::InRange,
                        };
                        let kind = ExprKind::Element(Box::new(element));
                        let element =
                            Val::run(ty.dtype.clone(), Expr::new(kind, ir_type(&ty.dtype)));
                        Val::Tuple(vec![tuple, element])
                    }
                    _ => tuple,
                }
            }
            Val::Enumerate(items, start) => {
                let count = Expr::binary(ir::BinaryOp::Add, start.clone(), index.clone());
                let item = self.iter_item(items, index);
                Val::Tuple(vec![Val::run(Ty::I64, count), item])
            }
            Val::Zip(items) => {
                let items = items.clone();
                Val::Tuple(items.iter().map(|item| self.iter_item(item, index)).collect())
            }
            other => other.clone(),
        }
    }

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

/// Whether evaluating it again costs nothing and does nothing.
pub(super) fn is_simple(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Const(_) | ExprKind::Constant(_) | ExprKind::Local(_))
}

/// Whether the value can be held by a local of the running program.
pub(super) fn runs(val: &Val) -> bool {
    match val {
        Val::Run { .. } => true,
        Val::Tuple(items) => items.iter().all(runs),
        _ => false,
    }
}

/// Whether all of a value of this type exists when the program runs.
pub(super) fn has_lanes(ty: &Ty) -> bool {
    match ty {
        Ty::Tuple(items) | Ty::StarArgs(items) => items.iter().all(has_lanes),
        Ty::Function(_) | Ty::Class(_) | Ty::DType(_) | Ty::Omitted(_) | Ty::Literal(_) => false,
        _ => true,
    }
}

/// What a path out of a loop did not set may have been set in a round before.
fn set_by_earlier_rounds(state: &mut State, head: &State) {
    if state.len() < head.len() {
        state.resize(head.len(), Slot::Unset);
    }
    for (slot, before) in state.iter_mut().zip(head) {
        if matches!(slot, Slot::Unset) {
            *slot = before.clone();
        }
    }
}

/// Whether statements of a loop's body break out of it.
fn breaks_out(stmts: &[syntax::Stmt]) -> bool {
    use syntax::StmtKind as K;
    stmts.iter().any(|stmt| match &stmt.kind {
        K::Break => true,
        K::If { body, orelse, .. } => breaks_out(body) || breaks_out(orelse),
        K::For { orelse, .. } | K::While { orelse, .. } => breaks_out(orelse),
        K::Try { body, handlers, orelse, finally } => {
            let caught = handlers.iter().any(|handler| breaks_out(&handler.body));
            breaks_out(body) || caught || breaks_out(orelse) || breaks_out(finally)
        }
        _ => false,
    })
}

/// The names that statements bind.
pub(in crate::kernel) fn assigned(stmts: &[syntax::Stmt]) -> Vec<Name> {
    let mut names = Vec::new();
    collect_assigned(stmts, &mut names);
    names
}

fn collect_assigned(stmts: &[syntax::Stmt], names: &mut Vec<Name>) {
    use syntax::StmtKind as K;
    for stmt in stmts {
        match &stmt.kind {
            K::Assign { targets, .. } => {
                targets.iter().for_each(|target| targets_of(target, names))
            }
            K::AugAssign { target, .. } | K::AnnAssign { target, .. } => targets_of(target, names),
            K::For { target, body, orelse, .. } => {
                targets_of(target, names);
                collect_assigned(body, names);
                collect_assigned(orelse, names);
            }
            K::While { body, orelse, .. } | K::If { body, orelse, .. } => {
                collect_assigned(body, names);
                collect_assigned(orelse, names);
            }
            K::Try { body, handlers, orelse, finally } => {
                collect_assigned(body, names);
                handlers.iter().for_each(|handler| collect_assigned(&handler.body, names));
                collect_assigned(orelse, names);
                collect_assigned(finally, names);
            }
            K::Def(function) => names.push(function.name.clone()),
            _ => {}
        }
    }
}

/// The names that an assignment to `target` binds.
fn targets_of(target: &syntax::Expr, names: &mut Vec<Name>) {
    match &target.kind {
        S::Name(name) => names.push(name.clone()),
        S::Tuple(items) | S::List(items) => items.iter().for_each(|item| targets_of(item, names)),
        S::Starred(inner) => targets_of(inner, names),
        _ => {}
    }
}

/// The names that statements update by one operation, with it; `None` where it is none that can be reduced.
fn updates(stmts: &[syntax::Stmt], found: &mut Vec<(Name, Option<ir::FoldOp>)>) {
    use syntax::StmtKind as K;
    let fold = |op: BinaryOp| match op {
        BinaryOp::Add | BinaryOp::Sub => Some(ir::FoldOp::Sum),
        BinaryOp::Mul => Some(ir::FoldOp::Product),
        BinaryOp::BitAnd => Some(ir::FoldOp::And),
        BinaryOp::BitOr => Some(ir::FoldOp::Or),
        BinaryOp::BitXor => Some(ir::FoldOp::Xor),
        _ => None,
    };
    let is =
        |expr: &syntax::Expr, name: &Name| matches!(&expr.kind, S::Name(other) if other == name);
    for stmt in stmts {
        let mut add = |name: &Name, op: Option<ir::FoldOp>| {
            if !found.iter().any(|(other, _)| other == name) {
                found.push((name.clone(), op));
            }
        };
        match &stmt.kind {
            K::AugAssign { target: syntax::Expr { kind: S::Name(name), .. }, op, .. } => {
                add(name, fold(*op))
            }
            K::Assign { targets, value } => {
                let [syntax::Expr { kind: S::Name(name), .. }] = &targets[..] else { continue };
                match &value.kind {
                    S::Binary { left, op, right }
                        if is(left, name) || is(right, name) && *op != BinaryOp::Sub =>
                    {
                        add(name, fold(*op));
                    }
                    S::Call { function, args } if args.iter().any(|arg| is(arg.value(), name)) => {
                        match &function.kind {
                            S::Name(function) if &**function == "max" => {
                                add(name, Some(ir::FoldOp::Max))
                            }
                            S::Name(function) if &**function == "min" => {
                                add(name, Some(ir::FoldOp::Min))
                            }
                            _ => {}
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        match &stmt.kind {
            K::For { body, orelse, .. }
            | K::While { body, orelse, .. }
            | K::If { body, orelse, .. } => {
                updates(body, found);
                updates(orelse, found);
            }
            K::Try { body, handlers, orelse, finally } => {
                updates(body, found);
                handlers.iter().for_each(|handler| updates(&handler.body, found));
                updates(orelse, found);
                updates(finally, found);
            }
            _ => {}
        }
    }
}

/// Whether a known value counts as true.
pub(super) fn literal_bool(literal: &Literal) -> Option<bool> {
    Some(match literal {
        Literal::None => false,
        Literal::Bool(value) => *value,
        Literal::Int(value) => *value != 0,
        Literal::UInt(value) => *value != 0,
        Literal::Str(text) => !text.is_empty(),
        _ => return None,
    })
}
