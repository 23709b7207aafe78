//! The syntax tree of kernel files, shared by the host evaluator and the compiler.
//!
//! ```text
//!   text ──parse──► Module ─┬─► Stmt ─► Expr        every node has its Span in the module's Source
//!                           └─► Function (Arc: kernels, closures and lambdas keep theirs)
//! ```
//!
//! Only what cachelift can give a meaning to has a node: the parser refuses the rest with a diagnostic.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::canon::Canonical;
use super::source::Source;
use super::tree::{Body, Form};

/// An identifier.
pub(super) type Name = Arc<str>;

/// A range of bytes in a [`Source`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A parsed file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Module {
    /// Its statements.
    pub body: Vec<Stmt>,
    /// How deep statements and expressions nest in it, together.
    pub depth: usize,
}

/// A `def` or a `lambda`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Function {
    /// The name, `<lambda>` for a lambda.
    pub name: Name,
    /// The file that holds it.
    #[serde(skip, default = "super::tree::source")]
    pub source: Arc<Source>,
    /// From `def` (or `lambda`) to the end of the body, without decorators.
    pub span: Span,
    /// The name alone; for a lambda, its whole span.
    pub name_span: Span,
    /// The parameters, in the order of their declaration.
    pub params: Params,
    /// The body; a lambda's is one `return`.
    pub body: Body,
    /// The decorators, outermost first.
    pub decorators: Vec<Expr>,
    /// What the names in the body mean.
    pub scope: Scope,
    /// Whether it was written as a `lambda`.
    pub is_lambda: bool,
    /// Whether the body holds a `yield`.
    pub is_generator: bool,
    /// Its canonical form, from when somebody first asks.
    pub(super) form: Form,
}

impl Function {
    /// The canonical form.
    pub(super) fn canonical(&self) -> &Canonical {
        self.form.get_or_init(|| Canonical::of(self))
    }

    /// Whether two handles are the same piece of syntax.
    pub fn is(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other)
    }
}

/// The parameters of a function.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Params {
    /// Parameters that take a position, the positional-only ones first.
    pub positional: Vec<Param>,
    /// How many of `positional` stand before a `/`.
    pub positional_only: usize,
    /// `*args`.
    pub star: Option<Param>,
    /// Parameters after `*` or `*args`.
    pub keyword_only: Vec<Param>,
    /// `**kwargs`.
    pub double_star: Option<Param>,
}

impl Params {
    /// All parameters: positional, `*args`, keyword-only, `**kwargs`.
    pub fn iter(&self) -> impl Iterator<Item = &Param> {
        self.positional.iter().chain(&self.star).chain(&self.keyword_only).chain(&self.double_star)
    }
}

/// One parameter.
#[derive(Debug, Serialize, Deserialize)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// Where the name stands.
    pub span: Span,
    /// The default value's expression.
    pub default: Option<Expr>,
}

/// What the names in a function's body mean. Names in none of the lists are module globals or builtins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Names that the body binds: parameters first, then in order of their first binding.
    pub locals: Vec<Name>,
    /// Those of `locals` that an inner function, lambda or generator expression reads.
    pub captured: Vec<Name>,
    /// Names bound by an enclosing function, which this one captures, in order of first use.
    pub free: Vec<Name>,
    /// Names that the body (or one inside it) reads and nothing encloses: module globals or builtins, in order of
    /// first use.
    pub globals: Vec<Name>,
}

/// A statement and where it stands.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where it stands.
    pub span: Span,
}

/// The statements.
#[derive(Debug, Serialize, Deserialize)]
pub enum StmtKind {
    /// An expression for its effect.
    Expr(Expr),
    /// `a = b = value`.
    Assign {
        /// The targets, left to right.
        targets: Vec<Expr>,
        /// What they become.
        value: Expr,
    },
    /// `target op= value`.
    AugAssign {
        /// A name, item or attribute.
        target: Expr,
        /// The operator.
        op: BinaryOp,
        /// The right-hand side.
        value: Expr,
    },
    /// `target: annotation = value`; annotations mean nothing.
    AnnAssign {
        /// A name, item or attribute.
        target: Expr,
        /// The value, if one is given.
        value: Option<Expr>,
    },
    /// `for target in iter: body else: orelse`.
    For {
        /// What each item is bound to.
        target: Expr,
        /// What is looped over.
        iter: Expr,
        /// The body.
        body: Vec<Stmt>,
        /// Runs when the loop was not broken out of.
        orelse: Vec<Stmt>,
    },
    /// `while test: body else: orelse`.
    While {
        /// The condition.
        test: Expr,
        /// The body.
        body: Vec<Stmt>,
        /// Runs when the loop was not broken out of.
        orelse: Vec<Stmt>,
    },
    /// `if test: body else: orelse`; an `elif` is an `if` alone in `orelse`.
    If {
        /// The condition.
        test: Expr,
        /// Runs when it holds.
        body: Vec<Stmt>,
        /// Runs when it does not.
        orelse: Vec<Stmt>,
    },
    /// `try`.
    Try {
        /// What is tried.
        body: Vec<Stmt>,
        /// The `except` clauses.
        handlers: Vec<Handler>,
        /// Runs when nothing was raised.
        orelse: Vec<Stmt>,
        /// Runs in any case.
        finally: Vec<Stmt>,
    },
    /// `raise exception from cause`.
    Raise {
        /// What is raised; none raises the current exception again.
        exception: Option<Expr>,
        /// What follows `from`.
        cause: Option<Expr>,
    },
    /// `assert test, message`.
    Assert {
        /// What must hold.
        test: Expr,
        /// The error's argument.
        message: Option<Expr>,
    },
    /// `return value`.
    Return(Option<Expr>),
    /// `del` of names, items or attributes.
    Delete(Vec<Expr>),
    /// A nested or top-level `def`.
    Def(Arc<Function>),
    /// A `class`.
    Class(Arc<ClassDef>),
    /// `import a.b as c, d`.
    Import(Vec<ImportName>),
    /// `from ..module import a as b`.
    ImportFrom {
        /// How many dots stand before the module.
        level: u32,
        /// The dotted module; empty for `from . import x`.
        module: Name,
        /// What is taken from it; a single `*` takes all public names.
        names: Vec<ImportName>,
    },
    /// `global names`.
    Global(Vec<Name>),
    /// `nonlocal names`.
    Nonlocal(Vec<Name>),
    /// `pass`.
    Pass,
    /// `break`.
    Break,
    /// `continue`.
    Continue,
}

/// An `except` clause.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handler {
    /// The exception class or a tuple of them; none catches all.
    pub class: Option<Expr>,
    /// The name after `as`.
    pub name: Option<Name>,
    /// What runs.
    pub body: Vec<Stmt>,
    /// Where it stands.
    pub span: Span,
}

/// One name of an import.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImportName {
    /// The dotted name that is imported, or `*`.
    pub name: Name,
    /// The name after `as`.
    pub alias: Option<Name>,
    /// Where it stands.
    pub span: Span,
}

/// A `class`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClassDef {
    /// Its name.
    pub name: Name,
    /// The file that holds it.
    #[serde(skip, default = "super::tree::source")]
    pub source: Arc<Source>,
    /// From `class` to the end of the body.
    pub span: Span,
    /// The base classes.
    pub bases: Vec<Expr>,
    /// The body.
    pub body: Vec<Stmt>,
    /// The decorators, outermost first.
    pub decorators: Vec<Expr>,
    /// Names of enclosing functions that the body itself reads.
    pub scope: Scope,
}

/// An expression and where it stands.
#[derive(Debug, Serialize, Deserialize)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands, without parentheses around it.
    pub span: Span,
}

/// The expressions.
#[derive(Debug, Serialize, Deserialize)]
pub enum ExprKind {
    /// An identifier.
    Name(Name),
    /// `None`.
    None,
    /// `...`.
    Ellipsis,
    /// `True` or `False`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
    /// An imaginary number: `2j` is 2.0.
    Imaginary(f64),
    /// A string, adjacent parts joined.
    Str(Arc<str>),
    /// A byte string.
    Bytes(Arc<[u8]>),
    /// An f-string, adjacent parts joined.
    FString(Vec<FStringPart>),
    /// `(a, b)`.
    Tuple(Vec<Expr>),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `{a, b}`.
    Set(Vec<Expr>),
    /// `{a: b, **c}`; no key for `**`.
    Dict(Vec<(Option<Expr>, Expr)>),
    /// `op value`.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// What it is applied to.
        value: Box<Expr>,
    },
    /// `left op right`.
    Binary {
        /// The left operand.
        left: Box<Expr>,
        /// The operator.
        op: BinaryOp,
        /// The right operand.
        right: Box<Expr>,
    },
    /// `a and b and c`, at least two values.
    Logic {
        /// `and` or `or`.
        op: LogicOp,
        /// The operands, left to right.
        values: Vec<Expr>,
    },
    /// `left < a <= b`, at least one comparison.
    Compare {
        /// The first operand.
        left: Box<Expr>,
        /// The operators with what stands to their right.
        rest: Vec<(CompareOp, Expr)>,
    },
    /// `body if test else orelse`.
    IfElse {
        /// The condition.
        test: Box<Expr>,
        /// The value when it holds.
        body: Box<Expr>,
        /// The value when it does not.
        orelse: Box<Expr>,
    },
    /// `function(args)`.
    Call {
        /// What is called.
        function: Box<Expr>,
        /// The arguments in the order they are written.
        args: Vec<Arg>,
    },
    /// `value.name`.
    Attribute {
        /// The object.
        value: Box<Expr>,
        /// The attribute.
        name: Name,
        /// Where the attribute's name stands.
        name_span: Span,
    },
    /// `value[index]`; several indices are one tuple.
    Subscript {
        /// The object.
        value: Box<Expr>,
        /// The index.
        index: Box<Expr>,
    },
    /// `lower:upper:step` inside a subscript.
    Slice {
        /// The start.
        lower: Option<Box<Expr>>,
        /// The stop.
        upper: Option<Box<Expr>>,
        /// The step.
        step: Option<Box<Expr>>,
    },
    /// `*value` in a tuple, list or target.
    Starred(Box<Expr>),
    /// A lambda.
    Lambda(Arc<Function>),
    /// A comprehension or generator expression.
    Comprehension(Arc<Comprehension>),
    /// `name := value`.
    Walrus {
        /// The name that is bound.
        name: Name,
        /// Where the name stands.
        name_span: Span,
        /// What it becomes.
        value: Box<Expr>,
    },
    /// `yield value`.
    Yield(Option<Box<Expr>>),
}

/// A comprehension.
#[derive(Debug, Serialize, Deserialize)]
pub struct Comprehension {
    /// What it makes.
    pub kind: ComprehensionKind,
    /// The item, or the value of a dict's item.
    pub item: Expr,
    /// The key of a dict's item.
    pub key: Option<Expr>,
    /// The `for` clauses, outermost first.
    pub clauses: Vec<Clause>,
    /// Its own scope: the targets.
    pub scope: Scope,
}

/// What a comprehension makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ComprehensionKind {
    /// `[...]`.
    List,
    /// `{...}`.
    Set,
    /// `{k: v ...}`.
    Dict,
    /// `(...)`, evaluated as it is asked for.
    Generator,
}

/// `for target in iter if test if test`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Clause {
    /// What each item is bound to.
    pub target: Expr,
    /// What is looped over.
    pub iter: Expr,
    /// Conditions, all of which must hold.
    pub tests: Vec<Expr>,
}

/// A piece of an f-string.
#[derive(Debug, Serialize, Deserialize)]
pub enum FStringPart {
    /// Text as it is.
    Text(Arc<str>),
    /// `{value!r:spec}`.
    Value {
        /// What is formatted.
        value: Expr,
        /// `r`, `s` or `a`.
        conversion: Option<char>,
        /// The format spec, itself made of parts.
        spec: Vec<FStringPart>,
    },
}

/// An argument of a call.
#[derive(Debug, Serialize, Deserialize)]
pub enum Arg {
    /// `value`.
    Positional(Expr),
    /// `name=value`.
    Keyword {
        /// The name.
        name: Name,
        /// Where the name stands.
        span: Span,
        /// The value.
        value: Expr,
    },
    /// `*value`.
    Star(Expr),
    /// `**value`.
    DoubleStar(Expr),
}

impl Arg {
    /// The expression of the argument.
    pub fn value(&self) -> &Expr {
        match self {
            Arg::Positional(e) | Arg::Star(e) | Arg::DoubleStar(e) => e,
            Arg::Keyword { value, .. } => value,
        }
    }
}

/// The operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UnaryOp {
    /// `+`.
    Plus,
    /// `-`.
    Minus,
    /// `~`.
    Invert,
    /// `not`.
    Not,
}

impl UnaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Plus => "+",
            UnaryOp::Minus => "-",
            UnaryOp::Invert => "~",
            UnaryOp::Not => "not",
        }
    }
}

/// The operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BinaryOp {
    /// `+`.
    Add,
    /// `-`.
    Sub,
    /// `*`.
    Mul,
    /// `/`.
    Div,
    /// `//`.
    FloorDiv,
    /// `%`.
    Mod,
    /// `**`.
    Pow,
    /// `@`.
    MatMul,
    /// `<<`.
    Shl,
    /// `>>`.
    Shr,
    /// `&`.
    BitAnd,
    /// `|`.
    BitOr,
    /// `^`.
    BitXor,
}

impl BinaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::FloorDiv => "//",
            BinaryOp::Mod => "%",
            BinaryOp::Pow => "**",
            BinaryOp::MatMul => "@",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
        }
    }
}

/// `and` and `or`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogicOp {
    /// `and`.
    And,
    /// `or`.
    Or,
}

/// The comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CompareOp {
    /// `==`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
    /// `is`.
    Is,
    /// `is not`.
    IsNot,
    /// `in`.
    In,
    /// `not in`.
    NotIn,
}

impl CompareOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
            CompareOp::Is => "is",
            CompareOp::IsNot => "is not",
            CompareOp::In => "in",
            CompareOp::NotIn => "not in",
        }
    }
}
