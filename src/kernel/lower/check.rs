//! Whether a typed form keeps the rules of [`ir`](crate::kernel::ir), so that lowering can rely on them.

use crate::kernel::abi;
use crate::kernel::ir::{
    BinaryOp, Caught, Const, Element, Element1, Elementwise, Expr, ExprKind, Fill, FoldOp, For,
    Function, FunctionType, Label, Layout, LocalId, MathFn, Raise, Scalar, Stmt, StmtKind,
    Subscript, Type, UnaryOp, can_cast,
};
use crate::kernel::runtime::stack::deep;

use super::parallel::can_reduce;

type Checked = Result<(), String>;

/// Says what is wrong.
pub(super) fn check(function: &Function) -> Checked {
    let mut checker =
        Checker { function, scopes: Vec::new(), border: 0, in_part: false, kept: false };
    for param in &function.params {
        checker.local(*param)?;
    }
    checker.stmts(&function.body)
}

struct Checker<'a> {
    function: &'a Function,
    /// The statements that can be left, and whether they are loops.
    scopes: Vec<(Label, bool)>,
    /// Scopes before this lie outside of the expression or the parallel loop that we are in.
    border: usize,
    /// Whether we are in a parallel loop, which cannot be returned from.
    in_part: bool,
    /// Whether we are where an error is kept.
    kept: bool,
}

/// An error, unless `condition`.
fn need(condition: bool, what: impl FnOnce() -> String) -> Checked {
    if condition { Ok(()) } else { Err(what()) }
}

fn same(is: &Type, wanted: &Type, what: &str) -> Checked {
    need(is == wanted, || format!("{what} is {is:?} in place of {wanted:?}"))
}

impl Checker<'_> {
    fn local(&self, local: LocalId) -> Result<&Type, String> {
        let found = self.function.locals.get(local.0 as usize);
        found.map(|local| &local.ty).ok_or_else(|| format!("there is no local {}", local.0))
    }

    fn stmts(&mut self, body: &[Stmt]) -> Checked {
        body.iter().try_for_each(|stmt| deep(|| self.stmt(&stmt.kind)))
    }

    fn inside(&mut self, label: Label, is_loop: bool, body: &[Stmt]) -> Checked {
        self.scopes.push((label, is_loop));
        self.stmts(body)?;
        self.scopes.pop();
        Ok(())
    }

    fn scope(&self, label: Label) -> Option<bool> {
        let inner = &self.scopes[self.border..];
        inner.iter().rev().find(|(known, _)| *known == label).map(|(_, is_loop)| *is_loop)
    }

    fn stmt(&mut self, stmt: &StmtKind) -> Checked {
        match stmt {
            StmtKind::Assign(local, value) => {
                self.expr(value)?;
                same(&value.ty, self.local(*local)?, "an assigned value")
            }
            StmtKind::Eval(value) => self.expr(value),
            StmtKind::If(condition, then, otherwise) => {
                self.bool(condition)?;
                self.stmts(then)?;
                self.stmts(otherwise)
            }
            StmtKind::Block(label, body) => self.inside(*label, false, body),
            StmtKind::Loop(label, body) => self.inside(*label, true, body),
            StmtKind::For(rounds) => {
                self.rounds(rounds)?;
                self.inside(rounds.label, true, &rounds.body)
            }
            StmtKind::ParFor(it) => {
                self.rounds(&it.rounds)?;
                for reduction in &it.reductions {
                    let ty = self.local(reduction.local)?;
                    need(can_reduce(ty), || format!("{ty:?} cannot be reduced"))?;
                    self.foldable(reduction.op, ty)?;
                }
                let before = (self.border, self.in_part);
                (self.border, self.in_part) = (self.scopes.len(), true);
                self.scopes.push((it.rounds.label, true));
                self.stmts(&it.rounds.body)?;
                self.scopes.pop();
                (self.border, self.in_part) = before;
                Ok(())
            }
            StmtKind::Leave(label) => {
                let found = self.scope(*label);
                let at_border = self.in_part
                    && self.scopes.get(self.border).is_some_and(|(known, _)| known == label);
                need(found.is_some() && !at_border, || format!("{label:?} cannot be left here"))
            }
            StmtKind::Next(label) => {
                need(self.scope(*label) == Some(true), || format!("{label:?} is no loop here"))
            }
            StmtKind::Return(value) => {
                need(!self.in_part, || "a parallel loop cannot be returned from".into())?;
                match value {
                    Some(value) => {
                        self.expr(value)?;
                        same(&value.ty, &self.function.result, "a returned value")
                    }
                    None => Ok(()),
                }
            }
            StmtKind::Raise(raise) => self.raise(raise),
            StmtKind::Try(body, handler, caught) => {
                self.stmts(body)?;
                let before = self.kept;
                self.kept |= *caught == Caught::Kept;
                self.stmts(handler)?;
                self.kept = before;
                Ok(())
            }
            StmtKind::RaiseAgain => need(self.kept, || "no error is kept here".into()),
            StmtKind::Print(values) => values.iter().try_for_each(|value| self.expr(value)),
            StmtKind::SetElement(element, value) => {
                let holds = self.element(element)?;
                need(!matches!(holds, Element::Array(..)), || "an array is no element".into())?;
                self.expr(value)?;
                same(&value.ty, &holds.value_type(), "an element's value")
            }
            StmtKind::SetView(set) => {
                let holds = self.array(&set.target)?.element.clone();
                let value = self.elementwise(&set.value)?;
                need(holds == Element::Scalar(value), || format!("{holds:?} is set to {value:?}"))
            }
            StmtKind::SetField { record, field, value } => {
                self.expr(record)?;
                self.expr(value)?;
                let Type::Record(layout) = &record.ty else {
                    return Err(format!("{:?} is no record", record.ty));
                };
                let field = layout.fields.get(*field as usize).ok_or("there is no such field")?;
                let is_array = matches!(field.element, Element::Array(..));
                need(!is_array, || "a nested array is assigned as a view".into())?;
                same(&value.ty, &field.element.value_type(), "a field's value")
            }
            StmtKind::SetAttribute { object, field, value } => {
                self.expr(object)?;
                self.expr(value)?;
                same(&value.ty, &attribute(&object.ty, *field)?, "an attribute's value")
            }
        }
    }

    fn rounds(&mut self, rounds: &For) -> Checked {
        for bound in [&rounds.start, &rounds.stop, &rounds.step] {
            self.int(bound)?;
        }
        let ty = self.local(rounds.local)?;
        need(ty.scalar().is_some_and(Scalar::is_int), || format!("{ty:?} cannot count"))
    }

    fn raise(&mut self, raise: &Raise) -> Checked {
        raise.args.iter().try_for_each(|arg| self.expr(arg))
    }

    fn bool(&mut self, expr: &Expr) -> Checked {
        self.expr(expr)?;
        same(&expr.ty, &Type::BOOL, "a condition")
    }

    fn int(&mut self, expr: &Expr) -> Checked {
        self.expr(expr)?;
        same(&expr.ty, &Type::I64, "a bound, a length or an index")
    }

    fn index(&mut self, expr: &Expr) -> Checked {
        self.expr(expr)?;
        need(expr.ty == Type::I64 || expr.ty == Type::Scalar(Scalar::U64), || {
            format!("{:?} is no index", expr.ty)
        })
    }

    fn scalar(&mut self, expr: &Expr) -> Result<Scalar, String> {
        self.expr(expr)?;
        expr.ty.scalar().ok_or_else(|| format!("{:?} is no scalar", expr.ty))
    }

    fn array<'e>(&mut self, expr: &'e Expr) -> Result<&'e crate::kernel::ir::ArrayType, String> {
        self.expr(expr)?;
        expr.ty.as_array().ok_or_else(|| format!("{:?} is no array", expr.ty))
    }

    fn axis(&mut self, expr: &Expr, axis: u32) -> Checked {
        let ndim = self.array(expr)?.ndim;
        need(axis < ndim, || format!("axis {axis} of {ndim}"))
    }

    fn element<'e>(&mut self, element: &'e Element1) -> Result<&'e Element, String> {
        let array = self.array(&element.array)?;
        element.indices.iter().try_for_each(|index| self.index(index))?;
        let count = element.indices.len();
        need(count == array.ndim as usize, || format!("{count} indices of {} axes", array.ndim))?;
        Ok(&array.element)
    }

    fn elementwise(&mut self, tree: &Elementwise) -> Result<Scalar, String> {
        need(tree.inputs.len() == tree.params.len(), || "an input without a local".into())?;
        for (input, param) in tree.inputs.iter().zip(&tree.params) {
            self.expr(input)?;
            let ty = match &input.ty {
                Type::Array(array) => array.element.value_type(),
                other => other.clone(),
            };
            need(ty.scalar().is_some(), || format!("{:?} is no input", input.ty))?;
            same(&ty, self.local(*param)?, "an input's element")?;
        }
        let border = std::mem::replace(&mut self.border, self.scopes.len());
        let value = self.scalar(&tree.value);
        self.border = border;
        value
    }

    fn foldable(&self, op: FoldOp, ty: &Type) -> Checked {
        let scalar = ty.scalar();
        let fits = scalar.is_some_and(|scalar| match op {
            FoldOp::Sum | FoldOp::Product => scalar != Scalar::Bool,
            FoldOp::Min | FoldOp::Max => scalar != Scalar::C128,
            FoldOp::And | FoldOp::Or | FoldOp::Xor => scalar.is_int() || scalar == Scalar::Bool,
        });
        need(fits, || format!("{op:?} of {ty:?}"))
    }

    fn call(&mut self, signature: &FunctionType, args: &[Expr], ty: &Type) -> Checked {
        args.iter().try_for_each(|arg| self.expr(arg))?;
        need(args.len() == signature.params.len(), || "a call with other arguments".into())?;
        for (arg, param) in args.iter().zip(&signature.params) {
            same(&arg.ty, param, "an argument")?;
        }
        same(ty, &signature.result, "a call")
    }

    fn expr(&mut self, expr: &Expr) -> Checked {
        deep(|| self.expr_here(expr))
    }

    fn expr_here(&mut self, expr: &Expr) -> Checked {
        let ty = &expr.ty;
        match &expr.kind {
            ExprKind::Const(constant) => {
                let scalar = ty.scalar();
                let fits = match constant {
                    Const::None => matches!(ty, Type::None | Type::Optional(_)),
                    Const::Bool(_) => *ty == Type::BOOL,
                    Const::Int(_) => scalar.is_some_and(Scalar::is_int),
                    Const::Float(_) => scalar.is_some_and(Scalar::is_float),
                    Const::Complex(..) => *ty == Type::C128,
                    Const::Str(_) => *ty == Type::Str,
                    Const::Unset => true,
                };
                need(fits, || format!("{constant:?} of type {ty:?}"))
            }
            ExprKind::Constant(id) => {
                let constant = self.function.constants.get(id.0 as usize);
                let constant = constant.ok_or("there is no such constant")?;
                let is_dense = constant.ty.layout != Layout::A;
                need(is_dense && constant.shape.len() == constant.ty.ndim as usize, || {
                    "a constant is a dense array".into()
                })?;
                let from = Type::Array(constant.ty.clone());
                need(can_cast(&from, ty), || format!("a constant {from:?} as {ty:?}"))
            }
            ExprKind::Local(local) => same(ty, self.local(*local)?, "a local"),
            ExprKind::Cast(inner) => {
                self.expr(inner)?;
                need(can_cast(&inner.ty, ty), || format!("no cast from {:?} to {ty:?}", inner.ty))
            }
            ExprKind::Unary(op, x) => {
                let scalar = self.scalar(x)?;
                let fits = unary_fits(*op, scalar);
                need(fits, || format!("{op:?} of {scalar:?}"))?;
                let wanted = match op {
                    UnaryOp::Not
                    | UnaryOp::IsNan
                    | UnaryOp::IsInf
                    | UnaryOp::IsFinite
                    | UnaryOp::SignBit => Type::BOOL,
                    UnaryOp::Abs | UnaryOp::Real | UnaryOp::Imag if scalar == Scalar::C128 => {
                        Type::F64
                    }
                    _ => x.ty.clone(),
                };
                same(ty, &wanted, "an operation")
            }
            ExprKind::Binary(op, a, b) => {
                self.expr(a)?;
                self.expr(b)?;
                let fits = match &a.ty {
                    Type::Scalar(scalar) => binary_fits(*op, *scalar),
                    Type::Str => matches!(op, BinaryOp::Eq | BinaryOp::Ne),
                    other => op.is_comparison() && comparable(other),
                };
                need(fits, || format!("{op:?} of {:?}", a.ty))?;
                if *op == BinaryOp::PowInt {
                    same(&b.ty, &Type::I64, "an exponent")?;
                } else {
                    same(&b.ty, &a.ty, "a second operand")?;
                }
                same(ty, if op.is_comparison() { &Type::BOOL } else { &a.ty }, "an operation")
            }
            ExprKind::DivMod(_, a, b) => {
                let scalar = self.scalar(a)?;
                self.expr(b)?;
                same(&b.ty, &a.ty, "a second operand")?;
                let fits = scalar.is_int() || scalar.is_float();
                need(fits, || format!("divmod of {scalar:?}"))?;
                same(ty, &Type::Tuple(vec![a.ty.clone(), a.ty.clone()]), "divmod")
            }
            ExprKind::PowConst(_, x, _) => {
                let scalar = self.scalar(x)?;
                need(scalar != Scalar::Bool, || "a power of a bool".into())?;
                same(ty, &x.ty, "a power")
            }
            ExprKind::Math(function, args) => self.math(*function, args, ty),
            ExprKind::Complex(re, im) => {
                for part in [re, im] {
                    self.expr(part)?;
                    same(&part.ty, &Type::F64, "a part of a complex number")?;
                }
                same(ty, &Type::C128, "a complex number")
            }
            ExprKind::IfElse(condition, a, b) => {
                self.bool(condition)?;
                for arm in [a, b] {
                    self.expr(arm)?;
                    same(&arm.ty, ty, "one of two values")?;
                }
                Ok(())
            }
            ExprKind::Block(body, value) => {
                let before = (self.border, self.in_part);
                // Labels of this block alone; `Return` stays what it is.
                self.border = self.scopes.len();
                let in_part = std::mem::replace(&mut self.in_part, false);
                let is_returning = in_part && returns(body);
                self.stmts(body)?;
                (self.border, self.in_part) = before;
                need(!is_returning, || "a parallel loop cannot be returned from".into())?;
                self.expr(value)?;
                same(&value.ty, ty, "a block's value")
            }
            ExprKind::IsNone(x) => {
                self.expr(x)?;
                need(matches!(x.ty, Type::Optional(_)), || format!("{:?} is never None", x.ty))?;
                same(ty, &Type::BOOL, "a test")
            }
            ExprKind::Tuple(items) => {
                items.iter().try_for_each(|item| self.expr(item))?;
                let types = items.iter().map(|item| item.ty.clone()).collect();
                same(ty, &Type::Tuple(types), "a tuple")
            }
            ExprKind::Item(tuple, index) => {
                self.expr(tuple)?;
                match &tuple.ty {
                    Type::Tuple(items) if (*index as usize) < items.len() => {
                        same(ty, &items[*index as usize], "an item")
                    }
                    other => Err(format!("item {index} of {other:?}")),
                }
            }
            ExprKind::ItemAt(tuple, index, _) => {
                self.expr(tuple)?;
                self.int(index)?;
                match &tuple.ty {
                    Type::Tuple(items) if items.first() == Some(ty) => {
                        need(items.iter().all(|item| item == ty), || "items of one type".into())
                    }
                    other => Err(format!("an item of {other:?}")),
                }
            }
            ExprKind::Text(parts) => {
                for part in parts {
                    self.expr(part)?;
                    let fits = matches!(
                        part.ty,
                        Type::Str | Type::BOOL | Type::I64 | Type::Scalar(Scalar::U64)
                    );
                    need(fits, || format!("{:?} is no part of a text", part.ty))?;
                }
                same(ty, &Type::Str, "a text")
            }
            ExprKind::StrLen(text) => {
                self.expr(text)?;
                same(&text.ty, &Type::Str, "a text")?;
                same(ty, &Type::I64, "a length")
            }
            ExprKind::Call(callee, args) => {
                let callee = self.function.callees.get(callee.0 as usize);
                let signature = callee.ok_or("there is no such callee")?.signature.clone();
                self.call(&signature, args, ty)
            }
            ExprKind::NewArray(shape, fill) => {
                shape.iter().try_for_each(|length| self.int(length))?;
                let array = ty.as_array().ok_or("a new array is an array")?;
                let fits = array.layout != Layout::A && array.ndim as usize == shape.len();
                need(fits, || format!("a new array {ty:?} of {} axes", shape.len()))?;
                if let Fill::Value(value) = fill {
                    let scalar = self.scalar(value)?;
                    let fits = array.element == Element::Scalar(scalar);
                    need(fits, || format!("{ty:?} of {scalar:?}"))?;
                }
                Ok(())
            }
            ExprKind::ArrayOf(shape, items) => {
                let array = ty.as_array().ok_or("a new array is an array")?;
                let fits = array.layout == Layout::C
                    && array.ndim as usize == shape.len()
                    && shape.iter().map(|length| *length as usize).product::<usize>()
                        == items.len()
                    && items.len() < 1 << 20;
                need(fits, || format!("{ty:?} of {} items", items.len()))?;
                for item in items {
                    let scalar = self.scalar(item)?;
                    let fits = array.element == Element::Scalar(scalar);
                    need(fits, || format!("{ty:?} of {scalar:?}"))?;
                }
                Ok(())
            }
            ExprKind::Length(array, axis) | ExprKind::Stride(array, axis) => {
                self.axis(array, *axis)?;
                same(ty, &Type::I64, "a length")
            }
            ExprKind::Size(array) => {
                self.array(array)?;
                same(ty, &Type::I64, "a size")
            }
            ExprKind::Element(element) => {
                let holds = self.element(element)?;
                same(ty, &holds.value_type(), "an element")
            }
            ExprKind::View(array, subscripts) => self.view(array, subscripts, ty),
            ExprKind::Transpose(array, axes) => {
                let from = self.array(array)?;
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                let all: Vec<u32> = (0..from.ndim).collect();
                need(sorted == all, || format!("axes {axes:?} of {}", from.ndim))?;
                let to = ty.as_array().ok_or("a view is an array")?;
                let fits = to.element == from.element && to.ndim == from.ndim;
                need(fits, || format!("{:?} as {ty:?}", array.ty))?;
                let reversed = axes.iter().rev().eq(&all);
                let keeps = match to.layout {
                    Layout::A => true,
                    layout if reversed && from.layout != Layout::A => {
                        layout != from.layout || from.ndim < 2
                    }
                    layout => *axes == all && layout == from.layout,
                };
                need(keeps, || format!("axes {axes:?} of {:?} as {ty:?}", array.ty))
            }
            ExprKind::Reshape(array, shape) => {
                let from = self.array(array)?;
                shape.iter().try_for_each(|length| self.int(length))?;
                let to = ty.as_array().ok_or("a view is an array")?;
                let fits = to.element == from.element
                    && to.ndim as usize == shape.len()
                    && to.layout == Layout::C
                    && from.layout == Layout::C;
                need(fits, || format!("{:?} reshaped as {ty:?}", array.ty))
            }
            ExprKind::Part(array, offset) => {
                let from = self.array(array)?;
                let to = ty.as_array().ok_or("a view is an array")?;
                let fits = to.ndim == from.ndim
                    && to.layout == Layout::A
                    && offset
                        .checked_add(to.element.size())
                        .is_some_and(|end| end <= from.element.size());
                need(fits, || format!("part {offset} of {:?} as {ty:?}", array.ty))
            }
            ExprKind::Relayout(array) => {
                let from = self.array(array)?;
                let to = ty.as_array().ok_or("a view is an array")?;
                let fits = to.element == from.element && to.ndim == from.ndim;
                need(fits, || format!("{:?} as {ty:?}", array.ty))
            }
            ExprKind::Field(record, field) => {
                self.expr(record)?;
                let Type::Record(layout) = &record.ty else {
                    return Err(format!("{:?} is no record", record.ty));
                };
                let field = layout.fields.get(*field as usize).ok_or("there is no such field")?;
                same(ty, &field.element.value_type(), "a field")
            }
            ExprKind::Map(tree) => {
                let scalar = self.elementwise(tree)?;
                let array = ty.as_array().ok_or("a map is an array")?;
                let ndim = tree.inputs.iter().filter_map(|input| input.ty.as_array());
                let ndim = ndim.map(|array| array.ndim).max();
                let fits = array.element == Element::Scalar(scalar)
                    && array.layout != Layout::A
                    && ndim == Some(array.ndim);
                need(fits, || format!("a map of {scalar:?} as {ty:?}"))
            }
            ExprKind::Fold(fold) => {
                let scalar = self.elementwise(&fold.value)?;
                let has_array = fold.value.inputs.iter().any(|input| input.ty.as_array().is_some());
                need(has_array, || "a fold without arrays".into())?;
                self.foldable(fold.op, ty)?;
                let needs_some = matches!(fold.op, FoldOp::Min | FoldOp::Max);
                need(!needs_some || fold.empty.is_some(), || "a fold of nothing".into())?;
                if let Some(raise) = &fold.empty {
                    self.raise(raise)?;
                }
                same(ty, &Type::Scalar(scalar), "a fold")
            }
            ExprKind::NewStruct(fields) => {
                fields.iter().try_for_each(|field| self.expr(field))?;
                let Type::Struct(layout) = ty else {
                    return Err(format!("{ty:?} is no structref"));
                };
                need(fields.len() == layout.fields.len(), || "other fields".into())?;
                for (value, (_, ty)) in fields.iter().zip(&layout.fields) {
                    same(&value.ty, ty, "a field's value")?;
                }
                let lanes: usize = layout.fields.iter().map(|(_, ty)| abi::lane_count(ty)).sum();
                need(lanes <= 64, || format!("{} has too many fields", layout.name))
            }
            ExprKind::Attribute(object, field) => {
                self.expr(object)?;
                same(ty, &attribute(&object.ty, *field)?, "an attribute")
            }
        }
    }

    fn math(&mut self, function: MathFn, args: &[Expr], ty: &Type) -> Checked {
        use MathFn as M;
        let two = matches!(
            function,
            M::Atan2
                | M::Hypot
                | M::CopySign
                | M::NextAfter
                | M::LogAddExp
                | M::Ldexp
                | M::RoundDigits
        );
        need(args.len() == if two { 2 } else { 1 }, || {
            format!("{function:?} with other arguments")
        })?;
        let scalar = self.scalar(&args[0])?;
        for arg in args {
            self.expr(arg)?;
            same(&arg.ty, &args[0].ty, "an argument")?;
        }
        let fits = scalar.is_float() || scalar == Scalar::C128 && function.is_complex();
        need(fits, || format!("{function:?} of {scalar:?}"))?;
        same(ty, &args[0].ty, "a function's value")
    }

    fn view(&mut self, array: &Expr, subscripts: &[Subscript], ty: &Type) -> Checked {
        let from = self.array(array)?;
        let (mut used, mut kept) = (0, 0);
        for subscript in subscripts {
            match subscript {
                Subscript::Index(index, _) => {
                    self.index(index)?;
                    used += 1;
                }
                Subscript::Slice(a, b, c) => {
                    for bound in [a, b, c].into_iter().flatten() {
                        self.int(bound)?;
                    }
                    (used, kept) = (used + 1, kept + 1);
                }
                Subscript::Full => (used, kept) = (used + 1, kept + 1),
                Subscript::NewAxis => kept += 1,
            }
        }
        need(used <= from.ndim, || format!("{used} subscripts of {} axes", from.ndim))?;
        kept += from.ndim - used;
        let to = ty.as_array().ok_or("a view is an array")?;
        let fits = to.element == from.element && to.ndim == kept && to.layout != Layout::F;
        need(fits, || format!("a view of {:?} with {kept} axes as {ty:?}", array.ty))
    }
}

fn attribute(ty: &Type, field: u32) -> Result<Type, String> {
    let Type::Struct(layout) = ty else { return Err(format!("{ty:?} is no structref")) };
    let field = layout.fields.get(field as usize).ok_or("there is no such attribute")?;
    Ok(field.1.clone())
}

fn unary_fits(op: UnaryOp, scalar: Scalar) -> bool {
    let is_complex = scalar == Scalar::C128;
    match op {
        UnaryOp::Neg => scalar != Scalar::Bool,
        UnaryOp::Invert => scalar.is_int() || scalar == Scalar::Bool,
        UnaryOp::Not => scalar == Scalar::Bool,
        UnaryOp::Abs => scalar != Scalar::Bool,
        UnaryOp::Real | UnaryOp::Imag | UnaryOp::Conj => scalar != Scalar::Bool,
        UnaryOp::Sign => scalar.is_int() || scalar.is_float(),
        UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::IsFinite => scalar.is_float() || is_complex,
        UnaryOp::SignBit => scalar.is_float(),
    }
}

fn binary_fits(op: BinaryOp, scalar: Scalar) -> bool {
    use BinaryOp as B;
    let is_real = scalar.is_int() || scalar.is_float();
    let is_complex = scalar == Scalar::C128;
    match op {
        B::Add | B::Sub | B::Mul => scalar != Scalar::Bool,
        B::TrueDiv(_) => scalar.is_float() || is_complex,
        B::FloorDiv(_) | B::Mod(_) | B::Fmod(_) => is_real,
        B::Pow(_) => scalar != Scalar::Bool,
        B::PowInt => scalar.is_float(),
        B::Shl | B::Shr | B::Gcd | B::Lcm => scalar.is_int(),
        B::And | B::Or | B::Xor => scalar.is_int() || scalar == Scalar::Bool,
        B::Eq | B::Ne => true,
        B::Lt | B::Le | B::Gt | B::Ge => !is_complex,
        B::Min | B::Max | B::Minimum | B::Maximum | B::Fmin | B::Fmax => !is_complex,
    }
}

fn comparable(ty: &Type) -> bool {
    match ty {
        Type::None | Type::Scalar(_) | Type::Str => true,
        Type::Tuple(items) => items.iter().all(comparable),
        _ => false,
    }
}

fn returns(body: &[Stmt]) -> bool {
    let mut found = false;
    super::facts::each_stmt(body, &mut |stmt| found |= matches!(stmt.kind, StmtKind::Return(_)));
    found
}
