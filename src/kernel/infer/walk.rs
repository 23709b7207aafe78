//! The walk over a kernel: what it carries along, and the variables that it knows.
//!
//! ```text
//!   Walker ── frames: the kernel, and the functions inlined into it
//!      ├─ state: what each variable holds where the walk is
//!      └─ out: the statements made so far
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use super::val::{Slot, Val, ir_type};
use super::{Callee, Specialised, World};
use crate::kernel::diagnostic::Diagnostic;
use crate::kernel::ir::{self, Expr, ExprKind, Label, LocalId, Site, Stmt, StmtKind};
use crate::kernel::options::Options;
use crate::kernel::sites;
use crate::kernel::source::Source;
use crate::kernel::syntax::{self, Name, Span};
use crate::kernel::types::Ty;
use crate::kernel::value::KernelDef;

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
pub(super) struct Patch(pub usize);

/// Place holders are empty blocks with labels from here down.
pub(super) const PATCHES: u32 = u32::MAX;

pub(super) struct Loop {
    /// Where `break` goes.
    pub exit: Label,
    /// Where `continue` goes.
    pub next: Label,
    pub breaks: Paths,
    pub nexts: Paths,
    /// Whether rounds run in parallel.
    pub parallel: bool,
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
    pub site: Site,
    pub sites: HashMap<Span, u32>,
    pub variables: HashMap<(usize, Name), usize>,
    pub names: Vec<Name>,
    pub locals: HashMap<(usize, Ty), LocalId>,
    pub labels: u32,
    pub patches: Vec<Vec<Stmt>>,
    pub loops: Vec<Loop>,
    pub returned: Vec<Ty>,
    /// The nodes of array expressions by the first parameter of their trees: type and value before they are narrowed to
    /// the element type of the result.
    pub nodes: HashMap<LocalId, (Ty, Expr)>,
    /// How often a statement waited for a type that is not known yet.
    pub unknowns: usize,
    /// What variables held around each statement of the `try`s that are open.
    pub attempts: Vec<Vec<State>>,
    /// How many inlined functions are open.
    pub open: usize,
    /// How many loops are being walked.
    pub depth: usize,
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

    pub(super) fn local_of(&mut self, variable: usize, ty: &Ty) -> LocalId {
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

    /// Refuses the use of a variable that no path has set.
    pub(super) fn unset<T>(&self, name: &str, span: Span) -> Res<T> {
        self.refuse_at(
            span,
            format!("`{name}` is used before it has a value"),
            "give it a value on every path",
        )
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
