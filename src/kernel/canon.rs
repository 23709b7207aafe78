//! The canonical form of a function: what it says, and not how it is written.
//!
//! ```text
//!   syntax::Function ──► bytes ──blake3──► digest       no comments, positions, parentheses, names of locals
//!                    ├─► captures: `g`, `config.RATE`    names that stand for values from outside, in order of use
//!                    └─► attributes: `.norm`             names that overloaded methods may answer to
//! ```
//!
//! Locals are written as the scope that binds them and their place in it, captured names as their place among the
//! captures: what they mean enters a key as a value, wherever it comes from and whatever it is called. Names of
//! parameters and of attributes stay. Default values of the function itself do not stand here, since they were evaluated
//! when it was defined; those of functions inside it do.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::runtime::stack::deep;
use super::syntax::{
    Arg, ClassDef, Clause, Comprehension, Expr, ExprKind, FStringPart, Function, Handler, Name,
    Param, Params, Stmt, StmtKind,
};

/// A function without what does not matter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Canonical {
    /// Of the bytes of the canonical form.
    pub(crate) digest: [u8; 32],
    /// What the function reads from outside, in order of first use.
    pub(crate) captures: Vec<Capture>,
    /// Every attribute that is read, in order of first use.
    pub(crate) attributes: Vec<Name>,
}

/// A captured name and the attributes that are read of it: `config.RATE`. Where it is read in several ways (`config.RATE`,
/// `config.FEE`), each is a capture of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Capture {
    pub(crate) name: Name,
    pub(crate) attributes: Vec<Name>,
}

impl Canonical {
    /// The canonical form of a function, made anew.
    pub(super) fn of(function: &Function) -> Self {
        let mut writer = Writer::default();
        writer.function(function, true);
        Canonical {
            digest: *blake3::hash(&writer.bytes).as_bytes(),
            captures: writer.captures,
            attributes: writer.attributes,
        }
    }
}

#[derive(Default)]
struct Writer<'a> {
    bytes: Vec<u8>,
    /// The names that each scope binds, outermost first.
    scopes: Vec<&'a [Name]>,
    /// The captured names without attributes, which is what the bytes refer to.
    names: Vec<Name>,
    captures: Vec<Capture>,
    attributes: Vec<Name>,
}

/// What comes next in the bytes. Each has one byte, so that nothing reads as two things.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Tag {
    Function = 1,
    Lambda,
    Generator,
    Params,
    Param,
    Absent,
    Present,
    Local,
    Captured,
    Expr,
    Assign,
    AugAssign,
    AnnAssign,
    For,
    While,
    If,
    Try,
    Handler,
    Raise,
    Assert,
    Return,
    Delete,
    Def,
    Class,
    Import,
    ImportFrom,
    Global,
    Nonlocal,
    Pass,
    Break,
    Continue,
    None,
    Ellipsis,
    True,
    False,
    Int,
    Float,
    Imaginary,
    Str,
    Bytes,
    FString,
    Text,
    Value,
    Tuple,
    List,
    Set,
    Dict,
    Unary,
    Binary,
    Logic,
    Compare,
    IfElse,
    Call,
    Positional,
    Keyword,
    Star,
    DoubleStar,
    Attribute,
    Subscript,
    Slice,
    Starred,
    Comprehension,
    Walrus,
    Yield,
}

impl<'a> Writer<'a> {
    fn tag(&mut self, tag: Tag) {
        self.bytes.push(tag as u8);
    }

    fn number(&mut self, number: usize) {
        self.bytes.extend_from_slice(&(number as u32).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// A function; of the outermost one, decorators and defaults are not written.
    fn function(&mut self, function: &'a Function, outermost: bool) {
        self.tag(match function.is_lambda {
            true => Tag::Lambda,
            false => Tag::Function,
        });
        if function.is_generator {
            self.tag(Tag::Generator);
        }
        if !outermost {
            self.exprs(&function.decorators);
        }
        self.params(&function.params, outermost);
        self.scopes.push(&function.scope.locals);
        self.block(&function.body);
        self.scopes.pop();
    }

    fn params(&mut self, params: &'a Params, outermost: bool) {
        self.tag(Tag::Params);
        self.number(params.positional.len());
        self.number(params.positional_only);
        self.number(params.keyword_only.len());
        self.bytes.push(params.star.is_some().into());
        self.bytes.push(params.double_star.is_some().into());
        for Param { name, default, .. } in params.iter() {
            self.tag(Tag::Param);
            self.text(name);
            match default {
                Some(_) if outermost => self.tag(Tag::Present),
                default => self.optional(default.as_ref()),
            }
        }
    }

    fn block(&mut self, block: &'a [Stmt]) {
        // A string by itself does nothing: a docstring, most often.
        let does_nothing = |stmt: &&Stmt| {
            !matches!(&stmt.kind, StmtKind::Expr(Expr { kind: ExprKind::Str(_), .. }))
        };
        self.number(block.iter().filter(does_nothing).count());
        for stmt in block.iter().filter(does_nothing) {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        deep(|| self.stmt_here(stmt));
    }

    fn stmt_here(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Expr(value) => {
                self.tag(Tag::Expr);
                self.expr(value);
            }
            StmtKind::Assign { targets, value } => {
                self.tag(Tag::Assign);
                self.exprs(targets);
                self.expr(value);
            }
            StmtKind::AugAssign { target, op, value } => {
                self.tag(Tag::AugAssign);
                self.text(op.symbol());
                self.expr(target);
                self.expr(value);
            }
            StmtKind::AnnAssign { target, value } => {
                self.tag(Tag::AnnAssign);
                self.expr(target);
                self.optional(value.as_ref());
            }
            StmtKind::For { target, iter, body, orelse } => {
                self.tag(Tag::For);
                self.expr(target);
                self.expr(iter);
                self.block(body);
                self.block(orelse);
            }
            StmtKind::While { test, body, orelse } => {
                self.tag(Tag::While);
                self.expr(test);
                self.block(body);
                self.block(orelse);
            }
            StmtKind::If { test, body, orelse } => {
                self.tag(Tag::If);
                self.expr(test);
                self.block(body);
                self.block(orelse);
            }
            StmtKind::Try { body, handlers, orelse, finally } => {
                self.tag(Tag::Try);
                self.block(body);
                self.number(handlers.len());
                for Handler { class, name, body, .. } in handlers {
                    self.tag(Tag::Handler);
                    self.optional(class.as_ref());
                    match name {
                        Some(name) => self.name(name),
                        None => self.tag(Tag::Absent),
                    }
                    self.block(body);
                }
                self.block(orelse);
                self.block(finally);
            }
            StmtKind::Raise { exception, cause } => {
                self.tag(Tag::Raise);
                self.optional(exception.as_ref());
                self.optional(cause.as_ref());
            }
            StmtKind::Assert { test, message } => {
                self.tag(Tag::Assert);
                self.expr(test);
                self.optional(message.as_ref());
            }
            StmtKind::Return(value) => {
                self.tag(Tag::Return);
                self.optional(value.as_ref());
            }
            StmtKind::Delete(targets) => {
                self.tag(Tag::Delete);
                self.exprs(targets);
            }
            StmtKind::Def(function) => {
                self.tag(Tag::Def);
                self.name(&function.name);
                self.function(function, false);
            }
            StmtKind::Class(class) => self.class(class),
            StmtKind::Import(names) => {
                self.tag(Tag::Import);
                self.number(names.len());
                for import in names {
                    self.text(&import.name);
                    self.text(import.alias.as_deref().unwrap_or_default());
                }
            }
            StmtKind::ImportFrom { level, module, names } => {
                self.tag(Tag::ImportFrom);
                self.number(*level as usize);
                self.text(module);
                self.number(names.len());
                for import in names {
                    self.text(&import.name);
                    self.text(import.alias.as_deref().unwrap_or_default());
                }
            }
            StmtKind::Global(names) => {
                self.tag(Tag::Global);
                self.names(names);
            }
            StmtKind::Nonlocal(names) => {
                self.tag(Tag::Nonlocal);
                self.names(names);
            }
            StmtKind::Pass => self.tag(Tag::Pass),
            StmtKind::Break => self.tag(Tag::Break),
            StmtKind::Continue => self.tag(Tag::Continue),
        }
    }

    /// A class in a function: its body's names are attributes, so they stay as text where they are bound.
    fn class(&mut self, class: &'a ClassDef) {
        self.tag(Tag::Class);
        self.name(&class.name);
        self.text(&class.name);
        self.exprs(&class.decorators);
        self.exprs(&class.bases);
        self.number(class.scope.locals.len());
        for name in &class.scope.locals {
            self.text(name);
        }
        self.scopes.push(&class.scope.locals);
        self.block(&class.body);
        self.scopes.pop();
    }

    fn names(&mut self, names: &[Name]) {
        self.number(names.len());
        for name in names {
            self.name(name);
        }
    }

    /// A name: of the innermost scope that binds it, by its place there; else a captured one.
    fn name(&mut self, name: &Name) {
        match self.find(name) {
            Some((up, place)) => {
                self.tag(Tag::Local);
                self.number(up);
                self.number(place);
            }
            None => {
                self.tag(Tag::Captured);
                let place = place(&mut self.names, name);
                self.number(place);
            }
        }
    }

    /// How many scopes further out a name is bound, and its place there.
    fn find(&self, name: &Name) -> Option<(usize, usize)> {
        let scopes = self.scopes.iter().rev().enumerate();
        let mut found = scopes.filter_map(|(up, names)| Some((up, index(names, name)?)));
        found.next()
    }

    fn capture(&mut self, name: &Name, attributes: Vec<Name>) {
        let capture = Capture { name: Arc::clone(name), attributes };
        if !self.captures.contains(&capture) {
            self.captures.push(capture);
        }
    }

    fn exprs(&mut self, exprs: &'a [Expr]) {
        self.number(exprs.len());
        for expr in exprs {
            self.expr(expr);
        }
    }

    fn optional(&mut self, expr: Option<&'a Expr>) {
        match expr {
            Some(expr) => {
                self.tag(Tag::Present);
                self.expr(expr);
            }
            None => self.tag(Tag::Absent),
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        deep(|| self.expr_here(expr));
    }

    fn expr_here(&mut self, expr: &'a Expr) {
        if let Some((name, attributes)) = chain(expr)
            && self.find(name).is_none()
        {
            self.capture(name, attributes);
            self.chain(expr);
            return;
        }
        match &expr.kind {
            ExprKind::Name(name) => self.name(name),
            ExprKind::None => self.tag(Tag::None),
            ExprKind::Ellipsis => self.tag(Tag::Ellipsis),
            ExprKind::Bool(true) => self.tag(Tag::True),
            ExprKind::Bool(false) => self.tag(Tag::False),
            ExprKind::Int(value) => {
                self.tag(Tag::Int);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
            ExprKind::Float(value) => {
                self.tag(Tag::Float);
                self.bytes.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            ExprKind::Imaginary(value) => {
                self.tag(Tag::Imaginary);
                self.bytes.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            ExprKind::Str(text) => {
                self.tag(Tag::Str);
                self.text(text);
            }
            ExprKind::Bytes(bytes) => {
                self.tag(Tag::Bytes);
                self.number(bytes.len());
                self.bytes.extend_from_slice(bytes);
            }
            ExprKind::FString(parts) => {
                self.tag(Tag::FString);
                self.parts(parts);
            }
            ExprKind::Tuple(items) => {
                self.tag(Tag::Tuple);
                self.exprs(items);
            }
            ExprKind::List(items) => {
                self.tag(Tag::List);
                self.exprs(items);
            }
            ExprKind::Set(items) => {
                self.tag(Tag::Set);
                self.exprs(items);
            }
            ExprKind::Dict(items) => {
                self.tag(Tag::Dict);
                self.number(items.len());
                for (key, value) in items {
                    self.optional(key.as_ref());
                    self.expr(value);
                }
            }
            ExprKind::Unary { op, value } => {
                self.tag(Tag::Unary);
                self.text(op.symbol());
                self.expr(value);
            }
            ExprKind::Binary { left, op, right } => {
                self.tag(Tag::Binary);
                self.text(op.symbol());
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Logic { op, values } => {
                self.tag(Tag::Logic);
                self.bytes.push(*op as u8);
                self.exprs(values);
            }
            ExprKind::Compare { left, rest } => {
                self.tag(Tag::Compare);
                self.expr(left);
                self.number(rest.len());
                for (op, right) in rest {
                    self.text(op.symbol());
                    self.expr(right);
                }
            }
            ExprKind::IfElse { test, body, orelse } => {
                self.tag(Tag::IfElse);
                self.expr(test);
                self.expr(body);
                self.expr(orelse);
            }
            ExprKind::Call { function, args } => {
                self.tag(Tag::Call);
                self.expr(function);
                self.number(args.len());
                for arg in args {
                    match arg {
                        Arg::Positional(_) => self.tag(Tag::Positional),
                        Arg::Keyword { name, .. } => {
                            self.tag(Tag::Keyword);
                            self.text(name);
                        }
                        Arg::Star(_) => self.tag(Tag::Star),
                        Arg::DoubleStar(_) => self.tag(Tag::DoubleStar),
                    }
                    self.expr(arg.value());
                }
            }
            ExprKind::Attribute { value, name, .. } => {
                self.tag(Tag::Attribute);
                self.text(name);
                place(&mut self.attributes, name);
                self.expr(value);
            }
            ExprKind::Subscript { value, index } => {
                self.tag(Tag::Subscript);
                self.expr(value);
                self.expr(index);
            }
            ExprKind::Slice { lower, upper, step } => {
                self.tag(Tag::Slice);
                for bound in [lower, upper, step] {
                    self.optional(bound.as_deref());
                }
            }
            ExprKind::Starred(value) => {
                self.tag(Tag::Starred);
                self.expr(value);
            }
            ExprKind::Lambda(function) => self.function(function, false),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
            ExprKind::Walrus { name, value, .. } => {
                self.tag(Tag::Walrus);
                self.name(name);
                self.expr(value);
            }
            ExprKind::Yield(value) => {
                self.tag(Tag::Yield);
                self.optional(value.as_deref());
            }
        }
    }

    /// A captured name with attributes, which is one capture.
    fn chain(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Attribute { value, name, .. } => {
                self.tag(Tag::Attribute);
                self.text(name);
                place(&mut self.attributes, name);
                self.chain(value);
            }
            ExprKind::Name(name) => self.name(name),
            _ => unreachable!("a chain is a name with attributes"),
        }
    }

    fn comprehension(&mut self, comprehension: &'a Comprehension) {
        self.tag(Tag::Comprehension);
        self.bytes.push(comprehension.kind as u8);
        self.scopes.push(&comprehension.scope.locals);
        self.number(comprehension.clauses.len());
        for Clause { target, iter, tests } in &comprehension.clauses {
            self.expr(target);
            self.expr(iter);
            self.exprs(tests);
        }
        self.optional(comprehension.key.as_ref());
        self.expr(&comprehension.item);
        self.scopes.pop();
    }

    fn parts(&mut self, parts: &'a [FStringPart]) {
        self.number(parts.len());
        for part in parts {
            match part {
                FStringPart::Text(text) => {
                    self.tag(Tag::Text);
                    self.text(text);
                }
                FStringPart::Value { value, conversion, spec } => {
                    self.tag(Tag::Value);
                    self.expr(value);
                    self.number(conversion.map_or(0, |letter| letter as usize));
                    self.parts(spec);
                }
            }
        }
    }
}

/// `a.b.c` as the name and its attributes, if that is all the expression is.
fn chain(expr: &Expr) -> Option<(&Name, Vec<Name>)> {
    match &expr.kind {
        ExprKind::Name(name) => Some((name, Vec::new())),
        ExprKind::Attribute { value, name, .. } => {
            let (root, mut attributes) = chain(value)?;
            attributes.push(Arc::clone(name));
            Some((root, attributes))
        }
        _ => None,
    }
}

fn index(names: &[Name], name: &Name) -> Option<usize> {
    names.iter().position(|known| known == name)
}

/// The place of a name among the names so far, to which it is added.
fn place(names: &mut Vec<Name>, name: &Name) -> usize {
    index(names, name).unwrap_or_else(|| {
        names.push(Arc::clone(name));
        names.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::parse::parse_module;
    use crate::kernel::source::Source;

    /// The canonical form of the first function of a text.
    fn form(text: &str) -> Canonical {
        let module = parse_module(&Arc::new(Source::new("a.py", None, text))).unwrap();
        let function = module.body.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Def(function) => Some(function),
            _ => None,
        });
        Canonical::of(function.unwrap())
    }

    #[track_caller]
    fn same(a: &str, b: &str) {
        assert_eq!(form(a).digest, form(b).digest, "{a}\n{b}");
    }

    #[track_caller]
    fn differ(a: &str, b: &str) {
        assert_ne!(form(a).digest, form(b).digest, "{a}\n{b}");
    }

    /// How a function is written does not matter.
    #[test]
    fn what_is_written_otherwise_is_the_same() {
        let base =
            "def f(x, k=1):\n    a = x + k\n    for i in range(3):\n        a += i\n    return a\n";
        same(
            base,
            "# note\n\ndef f(x, k=1):\n    b = (x + k)  # note\n    for j in range(3):\n        b += j\n    return b\n",
        );
        same(
            base,
            "def g(x, k=2):\n    \"\"\"Adds.\"\"\"\n    a = x + k\n    for i in range(3):\n        a += i\n    return a\n",
        );
        same("def f(x):\n    return g(x)\n", "def f(x):\n    return h(x)\n");
        same(
            "def f(x):\n    def h(v):\n        return v + x\n    return h(1)\n",
            "def f(x):\n    def k(v):\n        return v + x\n    return k(1)\n",
        );
        same("def f(x):\n    return 1_000\n", "def f(x):\n    return 1000\n");
    }

    /// What a function says does.
    #[test]
    fn what_says_something_else_differs() {
        let base = "def f(x, y):\n    a = x\n    b = y\n    return a - b\n";
        for other in [
            "def f(x, y):\n    a = x\n    b = y\n    return b - a\n",
            "def f(x, y):\n    a = x\n    b = y\n    return a + b\n",
            "def f(x, z):\n    a = x\n    b = z\n    return a - b\n",
            "def f(x, y=1):\n    a = x\n    b = y\n    return a - b\n",
            "def f(x, *y):\n    a = x\n    b = y\n    return a - b\n",
            "def f(x, *, y):\n    a = x\n    b = y\n    return a - b\n",
            "def f(x, y):\n    b = y\n    a = x\n    return x - b\n",
            "def f(x, y):\n    a = x\n    b = y\n    return a - b\n    pass\n",
        ] {
            differ(base, other);
        }
        differ("def f(x):\n    return 1\n", "def f(x):\n    return 1.0\n");
        differ("def f(x):\n    return 1\n", "def f(x):\n    return True\n");
        differ("def f(x):\n    return 0.0\n", "def f(x):\n    return -0.0\n");
        differ("def f(x):\n    return 'a'\n", "def f(x):\n    return 'b'\n");
        differ("def f(x):\n    return g(a=x)\n", "def f(x):\n    return g(b=x)\n");
        differ("def f(x):\n    return x.a\n", "def f(x):\n    return x.b\n");
        differ("def f(x):\n    return g(x) + g(x)\n", "def f(x):\n    return g(x) + h(x)\n");
        differ("def f(x):\n    return x < 1 < 2\n", "def f(x):\n    return x < 1 <= 2\n");
        differ("def f(x):\n    return x and 1\n", "def f(x):\n    return x or 1\n");
        differ("def f(x):\n    return x[1:]\n", "def f(x):\n    return x[:1]\n");
        differ("def f(x):\n    return f'{x}'\n", "def f(x):\n    return f'{x!r}'\n");
        differ("def f(x):\n    return f'{x:1}'\n", "def f(x):\n    return f'{x:2}'\n");
        differ(
            "def f(x):\n    def h(v=1):\n        return v\n    return h()\n",
            "def f(x):\n    def h(v=2):\n        return v\n    return h()\n",
        );
        differ(
            "def f(x):\n    def h(v):\n        return v\n    return h(x)\n",
            "def f(x):\n    def h(v):\n        return x\n    return h(x)\n",
        );
        differ(
            "def f(x):\n    while x:\n        x -= 1\n    else:\n        x = 3\n    return x\n",
            "def f(x):\n    while x:\n        x -= 1\n    x = 3\n    return x\n",
        );
    }

    /// Captures are told with the attributes that are read of them, in order of use; attributes of locals are no captures.
    #[test]
    fn captures_are_chains_of_names() {
        let form = form(
            "def f(x):\n    y = x.real\n    z = config.RATE + config.FEE + config.RATE\n    return g(y.imag) * z + np.pi\n",
        );
        let names: Vec<_> = form
            .captures
            .iter()
            .map(|capture| {
                let parts = std::iter::once(&capture.name).chain(&capture.attributes);
                parts.map(|part| part.to_string()).collect::<Vec<_>>().join(".")
            })
            .collect();
        assert_eq!(names, ["config.RATE", "config.FEE", "g", "np.pi"]);
        let attributes: Vec<_> = form.attributes.iter().map(|name| &**name).collect();
        assert_eq!(attributes, ["real", "RATE", "FEE", "imag", "pi"]);
    }
}
