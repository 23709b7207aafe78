//! Arrays: element-wise expressions, indexing, attributes, methods and NumPy's functions.
//!
//! What is element-wise becomes an IR tree, which lowering fuses; reductions over all elements become folds; the rest
//! is written in the prelude, in kernel language.

use std::sync::Arc;

use super::calls::{Keywords, math_named};
use super::expr::{if_else, is_array, scalar_binary};
use super::val::{Val, dtype_of, ir_scalar, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::dtype::DType;
use crate::kernel::host::limits;
use crate::kernel::ir::{
    self, Access, BinaryOp as Op, Element1, Elementwise, Expr, ExprKind, Fill, Fold, FoldOp,
    MathFn, OnZero, SetView, StmtKind, Subscript, UnaryOp as Un,
};
use crate::kernel::rules::{self, Rule};
use crate::kernel::syntax::{self, BinaryOp, ExprKind as S, Span};
use crate::kernel::types::{ArrayTy, IntTy, Layout, Ty};

/// An index, sorted by what it does to its axis.
enum Index {
    At(Expr),
    Slice([Option<Expr>; 3]),
    NewAxis,
    Ellipsis,
    Many(Val),
}

impl Walker<'_> {
    // ---- element-wise ----

    /// Whether the value can be an operand of an array expression.
    pub(super) fn elementwise_operand(&self, val: &Val) -> bool {
        match val {
            Val::Run { ty: Ty::Array(array), .. } => array.dtype.is_number(),
            Val::Run { ty, .. } => ty.is_number(),
            _ => false,
        }
    }

    /// A new array of what `value` makes of each element of the operands, which are broadcast together.
    pub(super) fn elementwise(
        &mut self,
        vals: Vec<Val>,
        dtype: &Ty,
        value: impl FnOnce(Vec<Expr>) -> Expr,
    ) -> Res<Val> {
        let mut ndim = 0;
        let mut layouts = (false, false);
        for val in &vals {
            if let Val::Run { ty: Ty::Array(array), .. } = val {
                ndim = ndim.max(array.ndim);
                layouts.0 |= array.layout == Layout::C;
                layouts.1 |= array.layout == Layout::F;
            }
        }
        let layout = if layouts.1 && !layouts.0 { Layout::F } else { Layout::C };
        let tree = self.tree(vals, value)?;
        let ty = Ty::array(dtype.clone(), ndim, layout);
        Ok(Val::run(ty.clone(), Expr::new(ExprKind::Map(tree), ir_type(&ty))))
    }

    fn tree(&mut self, vals: Vec<Val>, value: impl FnOnce(Vec<Expr>) -> Expr) -> Res<Elementwise> {
        let mut inputs = Vec::new();
        let mut params = Vec::new();
        for val in vals {
            let (ty, expr) = self.materialise(val)?;
            let element = match &ty {
                Ty::Array(array) => array.dtype.clone(),
                other => other.clone(),
            };
            params.push(self.temporary(&element));
            inputs.push(expr);
        }
        let elements = params.iter().map(|param| self.ir.get(*param)).collect();
        Ok(Elementwise { inputs, params, value: Box::new(value(elements)) })
    }

    /// One node of an array expression, as Numba compiles it: the whole expression is one scalar function of an element
    /// of each array. What its nodes compute has the types of scalar operators, so that `(a + a) * 2` of int8 does
    /// not wrap in between; only the result gets the element type that the ufunc `name` has for arrays.
    ///
    /// `value` gives the type and the value of the node for the types and values of its operands.
    pub(super) fn array_expression(
        &mut self,
        name: &str,
        vals: Vec<Val>,
        span: Span,
        value: impl FnOnce(&[Ty], Vec<Expr>) -> Option<(Ty, Expr)>,
    ) -> Res<Val> {
        let types = self.element_types(&vals, span)?;
        let Some(rule) = rules::ufunc(name, &types, None) else {
            return self.no_loop(name, &types, span);
        };
        let mut ndim = 0;
        let mut layouts = (false, false);
        let mut inputs = Vec::new();
        let mut params = Vec::new();
        let mut raw_types = Vec::new();
        let mut elements = Vec::new();
        for (val, ty) in vals.into_iter().zip(types) {
            if let Val::Run { ty: Ty::Array(array), .. } = &val {
                ndim = ndim.max(array.ndim);
                layouts.0 |= array.layout == Layout::C;
                layouts.1 |= array.layout == Layout::F;
            }
            let (_, expr) = self.materialise(val)?;
            // A node below is taken in as it is before its result is narrowed.
            let below = match &expr.kind {
                ExprKind::Map(tree) => {
                    tree.params.first().and_then(|param| self.nodes.get(param)).cloned()
                }
                _ => None,
            };
            match (below, expr) {
                (Some((ty, value)), Expr { kind: ExprKind::Map(tree), .. }) => {
                    inputs.extend(tree.inputs);
                    params.extend(tree.params);
                    raw_types.push(ty);
                    elements.push(value);
                }
                (_, expr) => {
                    let param = self.temporary(&ty);
                    inputs.push(expr);
                    params.push(param);
                    elements.push(self.ir.get(param));
                    raw_types.push(ty);
                }
            }
        }
        let Some((raw_ty, raw)) = value(&raw_types, elements) else {
            return self.no_loop(name, &raw_types, span);
        };
        if raw_ty == Ty::Complex128 && rule.result != Ty::Complex128 {
            return self.no_loop(name, &raw_types, span);
        }
        if let Some(first) = params.first() {
            self.nodes.insert(*first, (raw_ty, raw.clone()));
        }
        let layout = if layouts.1 && !layouts.0 { Layout::F } else { Layout::C };
        let ty = Ty::array(rule.result.clone(), ndim, layout);
        let tree = Elementwise { inputs, params, value: Box::new(raw.cast(ir_type(&rule.result))) };
        Ok(Val::run(ty.clone(), Expr::new(ExprKind::Map(tree), ir_type(&ty))))
    }

    /// NumPy's ufunc `name` of scalars and arrays.
    pub(super) fn ufunc(&mut self, name: &str, vals: Vec<Val>, span: Span) -> Res<Val> {
        let inputs = rules::ufunc_inputs(name).unwrap_or(vals.len());
        if vals.len() == inputs + 1 && is_array(&vals[inputs]) {
            let mut vals = vals;
            let target = vals.remove(inputs);
            let target = self.bind(target);
            self.ufunc_into(name, vals, target.clone(), span)?;
            return Ok(target);
        }
        let types = self.element_types(&vals, span)?;
        let Some(rule) = rules::ufunc(name, &types, None) else {
            return self.no_loop(name, &types, span);
        };
        if vals.iter().any(is_array) {
            let exponent = vals.get(1).and_then(Val::known_int);
            return self.array_expression(name, vals, span, |types, elements| {
                let rule = rules::ufunc(name, types, None)?;
                let value = scalar_ufunc(name, elements, exponent, &rule)?;
                Some((rule.result, value))
            });
        }
        let exponent = vals.get(1).and_then(Val::known_int);
        let mut exprs = Vec::new();
        for val in vals {
            exprs.push(self.materialise(val)?.1);
        }
        // An operand may be needed twice.
        self.with_stmts(|walker| {
            let exprs = exprs.into_iter().map(|expr| walker.bind_expr(expr)).collect();
            match scalar_ufunc(name, exprs, exponent, &rule) {
                Some(value) => Ok(Val::run(rule.result.clone(), value)),
                None => walker.no_loop(name, &types, span),
            }
        })
    }

    fn no_loop<T>(&self, name: &str, types: &[Ty], span: Span) -> Res<T> {
        let shown: Vec<String> = types.iter().map(Ty::to_string).collect();
        self.refuse_at(
            span,
            format!("np.{name} has no loop for ({})", shown.join(", ")),
            "convert with astype(...)",
        )
    }

    fn element_types(&self, vals: &[Val], span: Span) -> Res<Vec<Ty>> {
        let mut types = Vec::new();
        for val in vals {
            match val {
                Val::Run { ty: Ty::Array(array), .. } if array.dtype.is_number() => {
                    types.push(array.dtype.clone())
                }
                Val::Run { ty, .. } if ty.is_number() => types.push(ty.clone()),
                other => {
                    return self.refuse_at(
                        span,
                        format!("{} is neither a number nor an array of numbers", other.describe()),
                        "convert it",
                    );
                }
            }
        }
        Ok(types)
    }

    /// The ufunc written into an array that exists.
    fn ufunc_into(&mut self, name: &str, vals: Vec<Val>, target: Val, span: Span) -> Res<()> {
        let types = self.element_types(&vals, span)?;
        let Val::Run { ty: Ty::Array(array), expr, .. } = target else {
            return self.refuse_at(
                span,
                "the result can only be written into an array",
                "pass an array",
            );
        };
        self.writable(&array, span)?;
        let Some(rule) = rules::ufunc(name, &types, Some(&array.dtype)) else {
            return self.refuse_at(
                span,
                format!(
                    "np.{name} of these types cannot be written into elements of type {}",
                    array.dtype
                ),
                "convert with astype(...), or make the array of a wider type",
            );
        };
        let exponent = vals.get(1).and_then(Val::known_int);
        let element = ir_type(&array.dtype);
        let mut made = true;
        let tree =
            self.tree(vals, |elements| match scalar_ufunc(name, elements, exponent, &rule) {
                Some(value) => value.cast(element.clone()),
                None => {
                    made = false;
                    Expr::new(ExprKind::Const(ir::Const::Unset), element.clone())
                }
            })?;
        if !made {
            return self.no_loop(name, &types, span);
        }
        self.emit(StmtKind::SetView(SetView {
            target: expr,
            value: tree,
            overlap: ir::Overlap::InOrder,
        }));
        Ok(())
    }

    /// `array op= val`.
    pub(super) fn update_view(
        &mut self,
        array: Val,
        op: BinaryOp,
        val: Val,
        span: Span,
    ) -> Res<()> {
        let Some(name) = rules::ufunc_of_binary(op) else {
            return self.refuse_at(
                span,
                "`@=` is not supported in kernels",
                "write a = np.dot(a, b)",
            );
        };
        let array = self.bind(array);
        // What is on the right is made before anything is written.
        let val = self.unwrap(val);
        let val = self.bind(val);
        self.ufunc_into(name, vec![array.clone(), val], array, span)
    }

    fn writable(&self, array: &ArrayTy, span: Span) -> Res<()> {
        if array.readonly {
            return self.refuse_at(
                span,
                "this array cannot be written to: it is read-only or a captured constant",
                "pass it as an argument, or write into a copy",
            );
        }
        Ok(())
    }

    // ---- indexing ----

    /// What stands between the brackets.
    pub(super) fn subscript(&mut self, index: &syntax::Expr) -> Res<Val> {
        match &index.kind {
            S::Slice { lower, upper, step } => {
                let mut parts = [None, None, None];
                for (part, expr) in parts.iter_mut().zip([lower, upper, step]) {
                    if let Some(expr) = expr {
                        let val = self.expr(expr)?;
                        if !val.is_none() {
                            *part = Some(self.index(val, expr.span)?);
                        }
                    }
                }
                Ok(Val::Slice(Box::new(parts)))
            }
            S::Tuple(items) if items.iter().any(|item| matches!(item.kind, S::Slice { .. })) => {
                Ok(Val::Tuple(items.iter().map(|item| self.subscript(item)).collect::<Res<_>>()?))
            }
            _ => self.expr(index),
        }
    }

    pub(super) fn is_mask(&self, index: &Val) -> bool {
        is_array(index)
    }

    fn access(&self) -> Access {
        if self.options().boundscheck { Access::Checked } else { Access::Unchecked }
    }

    /// The indices, and the types that decide the layout of a view.
    fn indices(&mut self, index: Val, span: Span) -> Res<Vec<Index>> {
        let items = match index {
            Val::Tuple(items) => items,
            Val::Run { ty: Ty::Tuple(_), .. } => self.items(index).unwrap_or_default(),
            other => vec![other],
        };
        let mut indices = Vec::new();
        for item in items {
            let item = self.unwrap(item);
            indices.push(match item {
                Val::Run { ty: Ty::Int(IntTy { signed: false, bits: 64 }), expr, .. } => {
                    Index::At(expr)
                }
                Val::Run { ty: Ty::Int(_), expr, .. } => Index::At(expr.cast(ir::Type::I64)),
                Val::Run { ty: Ty::None, .. } => Index::NewAxis,
                Val::Slice(parts) => Index::Slice(*parts),
                Val::Ellipsis => Index::Ellipsis,
                Val::Run { ty: Ty::Array(_), .. } => Index::Many(item),
                other => {
                    return self.refuse_at(
                        span,
                        format!("arrays cannot be indexed with {}", other.describe()),
                        "index with integers, slices, None, ... or an array",
                    );
                }
            });
        }
        Ok(indices)
    }

    pub(super) fn get_item(&mut self, container: Val, index: Val, span: Span) -> Res<Val> {
        let container = self.unwrap(container);
        match container {
            Val::Run { ty: Ty::Array(array), expr, .. } => {
                if let (Some(name), Ty::Record(record)) = (index.known_str(), &array.dtype) {
                    let Some(field) = record.fields.iter().position(|field| field.name == *name)
                    else {
                        return self.refuse_at(
                            span,
                            format!("the records have no field {name:?}"),
                            "name one of the dtype's fields",
                        );
                    };
                    return Ok(part(
                        &array,
                        expr,
                        record.fields[field].ty.clone(),
                        record.fields[field].offset,
                    ));
                }
                self.index_array(&array, expr, index, span)
            }
            Val::Run { ty: Ty::Record(record), expr, .. } => {
                let field = index
                    .known_str()
                    .and_then(|name| record.fields.iter().position(|field| field.name == *name));
                match field {
                    Some(field) => Ok(self.record_field(&record, expr, field)),
                    None => self.refuse_at(
                        span,
                        "records are indexed with the name of a field, written as a string",
                        "write p[\"name\"] or p.name",
                    ),
                }
            }
            Val::Range(parts, int) => {
                let [start, _, step] = *parts;
                let at = self.index(index, span)?;
                let value = Expr::binary(Op::Add, start, Expr::binary(Op::Mul, at, step));
                let ty = Ty::Int(int);
                Ok(Val::run(ty.clone(), value.cast(ir_type(&ty))))
            }
            other => self.index_tuple(other, index, span),
        }
    }

    fn index_tuple(&mut self, tuple: Val, index: Val, span: Span) -> Res<Val> {
        let length = match &tuple {
            Val::Tuple(items) => items.len(),
            Val::Run { ty: Ty::Tuple(items), .. } => items.len(),
            other => {
                return self.refuse_at(
                    span,
                    format!("{} cannot be indexed", other.describe()),
                    "index arrays, tuples and records",
                );
            }
        };
        if let Some(at) = index.known_int() {
            let position = if at < 0 { at + length as i64 } else { at };
            let Some(position) =
                usize::try_from(position).ok().filter(|position| *position < length)
            else {
                return self.refuse_at(
                    span,
                    format!("tuple index {at} is out of range for {length} items"),
                    "use an index below the length",
                );
            };
            return Ok(match tuple {
                // The other items may do something.
                Val::Tuple(items) => {
                    let mut kept = Val::none();
                    for (index, item) in items.into_iter().enumerate() {
                        let item = self.bind(item);
                        if index == position {
                            kept = item;
                        }
                    }
                    kept
                }
                Val::Run { ty: Ty::Tuple(types), expr, .. } => {
                    let ty = types[position].clone();
                    let expr =
                        Expr::new(ExprKind::Item(Box::new(expr), position as u32), ir_type(&ty));
                    self.val_of(&ty, expr)
                }
                other => other,
            });
        }
        if let Val::Slice(parts) = &index {
            let known = |part: &Option<Expr>| match part {
                None => Some(None),
                Some(Expr { kind: ExprKind::Const(ir::Const::Int(value)), .. }) => {
                    Some(Some(*value))
                }
                Some(_) => None,
            };
            let (Some(start), Some(stop), Some(step)) =
                (known(&parts[0]), known(&parts[1]), known(&parts[2]))
            else {
                return self.refuse_at(
                    span,
                    "tuples are sliced with constants only",
                    "write the bounds as numbers",
                );
            };
            let items: Vec<Val> = self
                .items(tuple)
                .unwrap_or_default()
                .into_iter()
                .map(|item| self.bind(item))
                .collect();
            return Ok(Val::Tuple(slice_items(&items, start, stop, step.unwrap_or(1))));
        }
        let (ty, expr) = self.materialise(tuple)?;
        let at = self.index(index, span)?;
        match ty {
            Ty::Tuple(items) if !items.is_empty() && items.iter().all(|item| *item == items[0]) => {
                let access = self.access();
                let kind = ExprKind::ItemAt(Box::new(expr), Box::new(at), access);
                Ok(Val::run(items[0].clone(), Expr::new(kind, ir_type(&items[0]))))
            }
            ty => self.refuse_at(
                span,
                format!("{ty} can only be indexed with a constant: its items have different types"),
                "unpack it, or index with a number",
            ),
        }
    }

    fn index_array(&mut self, array: &ArrayTy, expr: Expr, index: Val, span: Span) -> Res<Val> {
        let indices = self.indices(index, span)?;
        if indices.iter().any(|index| matches!(index, Index::Many(_))) {
            let many = match &indices[..] {
                [Index::Many(many)] if array.ndim <= 2 => many.clone(),
                _ => {
                    let (view, many, axis) = self.along(array, expr, indices, span)?;
                    return self.prelude("take_along", vec![view, many, Val::int(axis)]);
                }
            };
            let name = self.advanced(array, &many, span, "take_mask", "take_items")?;
            let ty = Ty::Array(Arc::new(array.clone()));
            return self.prelude(name, vec![Val::run(ty, expr), many]);
        }
        Ok(match self.locate(array, expr, indices, span)? {
            Located::Element(element) => {
                let ty = array.dtype.clone();
                Val::run(ty.clone(), Expr::new(ExprKind::Element(Box::new(element)), ir_type(&ty)))
            }
            Located::View(ty, view) => Val::run(Ty::Array(Arc::new(ty)), view),
        })
    }

    /// An index array among other indices: the view that the others make, the array, and the axis that it is for.
    fn along(
        &mut self,
        array: &ArrayTy,
        expr: Expr,
        mut indices: Vec<Index>,
        span: Span,
    ) -> Res<(Val, Val, i64)> {
        let is_many = |index: &Index| matches!(index, Index::Many(_));
        let whole = || Index::Slice([None, None, None]);
        if let Some(at) = indices.iter().position(|index| matches!(index, Index::Ellipsis)) {
            let others =
                indices.iter().filter(|it| !matches!(it, Index::Ellipsis | Index::NewAxis));
            let rest = usize::from(array.ndim).saturating_sub(others.count());
            indices.splice(at..=at, (0..rest).map(|_| whole()));
        }
        let at = indices.iter().position(is_many).unwrap_or_default();
        let many = std::mem::replace(&mut indices[at], whole());
        let fits = matches!(&many, Index::Many(Val::Run { ty: Ty::Array(many), .. })
            if many.ndim == 1 && (many.dtype.is_int() || many.dtype == Ty::Bool));
        // Integers count as index arrays, and these must stand side by side.
        let is_at = |index: &&Index| matches!(index, Index::At(_));
        let near = indices[..at].iter().rev().take_while(is_at).count()
            + indices[at + 1..].iter().take_while(is_at).count();
        let alone = !indices.iter().any(is_many) && near == indices.iter().filter(is_at).count();
        let (Index::Many(many), true, true) = (many, fits, alone) else {
            return self.refuse_at(
                span,
                "these arrays among other indices are not supported",
                "index with one array of one dimension, or write a loop",
            );
        };
        let axis = indices[..at].iter().filter(|index| !matches!(index, Index::At(_))).count();
        match self.locate(array, expr, indices, span)? {
            Located::View(ty, view) if ty.ndim <= 3 => {
                Ok((Val::run(Ty::Array(Arc::new(ty)), view), many, axis as i64))
            }
            _ => self.refuse_at(
                span,
                "an array among indices of more than three axes is not supported",
                "write a loop",
            ),
        }
    }

    fn advanced(
        &self,
        array: &ArrayTy,
        many: &Val,
        span: Span,
        mask: &'static str,
        items: &'static str,
    ) -> Res<&'static str> {
        match many {
            Val::Run { ty: Ty::Array(index), .. }
                if index.dtype == Ty::Bool
                    && index.ndim == 1
                    && (array.ndim == 1 || (array.ndim == 2 && mask == "take_mask")) =>
            {
                Ok(mask)
            }
            Val::Run { ty: Ty::Array(index), .. }
                if index.dtype.is_int() && index.ndim == 1 && array.ndim == 1 =>
            {
                Ok(items)
            }
            Val::Run { ty: Ty::Array(index), .. }
                if index.dtype.is_int()
                    && index.ndim == 1
                    && array.ndim == 2
                    && items == "take_items" =>
            {
                Ok("take_rows")
            }
            other => self.refuse_at(
                span,
                format!("{array} cannot be indexed with {}", other.describe()),
                "index one-dimensional arrays with one-dimensional masks, or write a loop",
            ),
        }
    }

    /// The element or view at `indices`.
    fn locate(
        &mut self,
        array: &ArrayTy,
        expr: Expr,
        indices: Vec<Index>,
        span: Span,
    ) -> Res<Located> {
        let ndim = usize::from(array.ndim);
        let used =
            indices.iter().filter(|index| matches!(index, Index::At(_) | Index::Slice(_))).count();
        let ellipses = indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count();
        if used > ndim {
            return self.refuse_at(
                span,
                format!("{used} indices for an array with {ndim} dimensions"),
                "use at most as many as there are dimensions",
            );
        }
        if ellipses > 1 {
            return self.refuse_at(
                span,
                "only one `...` can stand in an index",
                "write `:` for the others",
            );
        }
        let access = self.access();
        if used == ndim && indices.iter().all(|index| matches!(index, Index::At(_))) {
            let indices = indices
                .into_iter()
                .filter_map(|index| match index {
                    Index::At(expr) => Some(expr),
                    _ => None,
                })
                .collect();
            return Ok(Located::Element(Element1 { array: expr, indices, access }));
        }
        let layout = view_layout(array, &indices, used);
        let mut subscripts = Vec::new();
        let mut axes = 0u8;
        for index in indices {
            match index {
                Index::At(at) => subscripts.push(Subscript::Index(at.cast(ir::Type::I64), access)),
                Index::Slice([None, None, None]) => {
                    axes += 1;
                    subscripts.push(Subscript::Full);
                }
                Index::Slice([start, stop, step]) => {
                    axes += 1;
                    subscripts.push(Subscript::Slice(start, stop, step));
                }
                Index::NewAxis => {
                    axes += 1;
                    subscripts.push(Subscript::NewAxis);
                }
                Index::Ellipsis => {
                    for _ in used..ndim {
                        axes += 1;
                        subscripts.push(Subscript::Full);
                    }
                }
                Index::Many(_) => {}
            }
        }
        if ellipses == 0 {
            for _ in used..ndim {
                axes += 1;
                subscripts.push(Subscript::Full);
            }
        }
        let ty =
            ArrayTy { dtype: array.dtype.clone(), ndim: axes, layout, readonly: array.readonly };
        let ir = ir_type(&Ty::Array(Arc::new(ty.clone())));
        Ok(Located::View(ty, Expr::new(ExprKind::View(Box::new(expr), subscripts), ir)))
    }

    /// `array[index]` along the first axis.
    pub(super) fn element_or_row(
        &mut self,
        array: &ArrayTy,
        expr: Expr,
        index: Expr,
        access: Access,
    ) -> Val {
        if array.ndim == 1 {
            let element = Element1 { array: expr, indices: vec![index], access };
            let ty = array.dtype.clone();
            return Val::run(
                ty.clone(),
                Expr::new(ExprKind::Element(Box::new(element)), ir_type(&ty)),
            );
        }
        let mut subscripts = vec![Subscript::Index(index, access)];
        subscripts.extend((1..array.ndim).map(|_| Subscript::Full));
        let layout = if array.layout == Layout::C { Layout::C } else { Layout::A };
        let ty = Ty::Array(Arc::new(ArrayTy { ndim: array.ndim - 1, layout, ..array.clone() }));
        Val::run(ty.clone(), Expr::new(ExprKind::View(Box::new(expr), subscripts), ir_type(&ty)))
    }

    pub(super) fn set_item(&mut self, container: Val, index: Val, val: Val, span: Span) -> Res<()> {
        let container = self.unwrap(container);
        let Val::Run { ty, expr, .. } = container else {
            return self.refuse_at(
                span,
                format!("items of {} cannot be set", container.describe()),
                "make an array",
            );
        };
        let array = match ty {
            Ty::Array(array) => array,
            Ty::Record(record) => {
                let field = index
                    .known_str()
                    .and_then(|name| record.fields.iter().position(|field| field.name == *name));
                let Some(field) = field else {
                    return self.refuse_at(
                        span,
                        "records are indexed with the name of a field, written as a string",
                        "write p[\"name\"] or p.name",
                    );
                };
                let value = self.coerce(val, &record.fields[field].ty, span)?;
                self.emit(StmtKind::SetField { record: expr, field: field as u32, value });
                return Ok(());
            }
            other => {
                return self.refuse_at(
                    span,
                    format!("items of {other} cannot be set"),
                    "make an array",
                );
            }
        };
        self.writable(&array, span)?;
        let indices = self.indices(index, span)?;
        let val = match val {
            Val::List(_) | Val::Tuple(_) | Val::Run { ty: Ty::Tuple(_), .. } => {
                let items = match val {
                    Val::List(items) => Val::Tuple(items),
                    other => other,
                };
                self.array_of(items, Some(array.dtype.clone()), span)?
            }
            other => self.unwrap(other),
        };
        if indices.iter().any(|index| matches!(index, Index::Many(_))) {
            let many = match &indices[..] {
                [Index::Many(many)] if array.ndim == 1 => many.clone(),
                _ => {
                    let (view, many, axis) = self.along(&array, expr, indices, span)?;
                    let done = self.prelude("put_along", vec![view, many, Val::int(axis), val])?;
                    self.effect(done);
                    return Ok(());
                }
            };
            let name = self.advanced(&array, &many, span, "put_mask", "put_items")?;
            let val = match val {
                Val::Run { ty, expr, .. } if ty.is_number() => {
                    let element = array.dtype.clone();
                    Val::run(element.clone(), expr.cast(ir_type(&element)))
                }
                other => other,
            };
            let name = match (is_array(&val), name) {
                (true, "put_mask") => "put_mask_array",
                (true, _) => "put_items_array",
                (false, name) => name,
            };
            let done = self.prelude(name, vec![Val::run(Ty::Array(array), expr), many, val])?;
            self.effect(done);
            return Ok(());
        }
        match self.locate(&array, expr, indices, span)? {
            Located::Element(element) => {
                let value = self.coerce(val, &array.dtype, span)?;
                self.emit(StmtKind::SetElement(element, value));
            }
            Located::View(ty, target) => self.set_view(&ty, target, val, span)?,
        }
        Ok(())
    }

    fn set_view(&mut self, array: &ArrayTy, target: Expr, val: Val, span: Span) -> Res<()> {
        if !self.elementwise_operand(&val) || !array.dtype.is_number() {
            return self.refuse_at(
                span,
                format!("{} cannot be written into {array}", val.describe()),
                "write numbers or arrays of numbers",
            );
        }
        if let Val::Run { ty: Ty::Array(from), .. } = &val {
            if from.ndim > array.ndim {
                return self.refuse_at(
                    span,
                    format!(
                        "an array with {} dimensions does not fit into one with {}",
                        from.ndim, array.ndim
                    ),
                    "index or reshape it first",
                );
            }
            if from.dtype == Ty::Complex128 && array.dtype != Ty::Complex128 {
                return self.refuse_at(
                    span,
                    "complex numbers cannot be written into real ones",
                    "take the real part: z.real",
                );
            }
        }
        let element = ir_type(&array.dtype);
        let tree = self.tree(vec![val], |mut elements| elements.remove(0).cast(element))?;
        self.emit(StmtKind::SetView(SetView { target, value: tree, overlap: ir::Overlap::Copy }));
        Ok(())
    }

    // ---- attributes and methods ----

    pub(super) fn array_attribute(
        &mut self,
        array: &ArrayTy,
        expr: Expr,
        name: &str,
    ) -> Res<Option<Val>> {
        let whole = Ty::Array(Arc::new(array.clone()));
        Ok(Some(match name {
            "shape" | "strides" => self.with_stmts(|walker| {
                let expr = walker.bind_expr(expr);
                let lengths = (0..u32::from(array.ndim)).map(|axis| {
                    let kind = match name {
                        "shape" => ExprKind::Length(Box::new(expr.clone()), axis),
                        _ => ExprKind::Stride(Box::new(expr.clone()), axis),
                    };
                    Val::run(Ty::I64, Expr::new(kind, ir::Type::I64))
                });
                Ok(Val::Tuple(lengths.collect()))
            })?,
            "ndim" => Val::int(i64::from(array.ndim)),
            "size" => Val::run(Ty::I64, Expr::new(ExprKind::Size(Box::new(expr)), ir::Type::I64)),
            "dtype" => Val::DType(array.dtype.clone()),
            "itemsize" => Val::int(array.dtype.item_size().unwrap_or(0) as i64),
            "nbytes" => {
                let size = Expr::new(ExprKind::Size(Box::new(expr)), ir::Type::I64);
                let item = Expr::int(array.dtype.item_size().unwrap_or(0) as i64);
                Val::run(Ty::I64, Expr::binary(Op::Mul, size, item))
            }
            "T" => {
                let axes = (0..u32::from(array.ndim)).rev().collect();
                self.transposed(array, expr, axes)
            }
            "real" if array.dtype == Ty::Complex128 => part(array, expr, Ty::Float64, 0),
            "imag" if array.dtype == Ty::Complex128 => part(array, expr, Ty::Float64, 8),
            "real" => Val::run(whole, expr),
            "flat" => self.flat(Val::run(whole, expr))?,
            _ => match &array.dtype {
                Ty::Record(record) => match record.field(name) {
                    Some(field) => part(array, expr, field.ty.clone(), field.offset),
                    None => return Ok(None),
                },
                _ => return Ok(None),
            },
        }))
    }

    /// The view with the axes in this order.
    pub(super) fn transposed(&mut self, array: &ArrayTy, expr: Expr, axes: Vec<u32>) -> Val {
        let order: Vec<u32> = (0..u32::from(array.ndim)).collect();
        if axes == order {
            return Val::run(Ty::Array(Arc::new(array.clone())), expr);
        }
        let reversed = axes.iter().rev().copied().eq(order);
        let layout = match array.layout {
            Layout::C if reversed => Layout::F,
            Layout::F if reversed => Layout::C,
            _ => Layout::A,
        };
        let ty = Ty::Array(Arc::new(ArrayTy { layout, ..array.clone() }));
        Val::run(ty.clone(), Expr::new(ExprKind::Transpose(Box::new(expr), axes), ir_type(&ty)))
    }

    /// All elements in C order, as one axis: a view if the array is dense so.
    pub(super) fn flat(&mut self, val: Val) -> Res<Val> {
        let Val::Run { ty: Ty::Array(array), expr, .. } = val else { return Ok(val) };
        if array.ndim == 1 {
            return Ok(Val::run(Ty::Array(array), expr));
        }
        let dense = if array.layout == Layout::C {
            expr
        } else {
            let ty = Ty::array(array.dtype.clone(), array.ndim, Layout::C);
            let tree = self
                .tree(vec![Val::run(Ty::Array(array.clone()), expr)], |mut elements| {
                    elements.remove(0)
                })?;
            Expr::new(ExprKind::Map(tree), ir_type(&ty))
        };
        let ty = Ty::Array(Arc::new(ArrayTy { ndim: 1, layout: Layout::C, ..(*array).clone() }));
        let kind = ExprKind::Reshape(Box::new(dense), vec![Expr::int(-1)]);
        Ok(Val::run(ty.clone(), Expr::new(kind, ir_type(&ty))))
    }

    fn copy(&mut self, val: Val) -> Res<Val> {
        let Val::Run { ty: Ty::Array(array), .. } = &val else { return Ok(val) };
        if !array.dtype.is_number() {
            return self.prelude("copy_records", vec![val]);
        }
        let dtype = array.dtype.clone();
        self.elementwise(vec![val], &dtype, |mut elements| elements.remove(0))
    }

    fn cast_elements(&mut self, val: Val, to: &Ty, span: Span) -> Res<Val> {
        if let Val::Run { ty: Ty::Array(array), .. } = &val
            && array.dtype == Ty::Complex128
            && !matches!(to, Ty::Complex128 | Ty::Bool)
        {
            return self.refuse_at(
                span,
                format!("complex numbers cannot become {to}"),
                "take the real part: z.real",
            );
        }
        let ir = ir_type(to);
        self.elementwise(vec![val], to, |mut elements| elements.remove(0).cast(ir))
    }

    fn reshape(&mut self, val: Val, shape: Vec<Val>, span: Span) -> Res<Val> {
        let Val::Run { ty: Ty::Array(array), expr, .. } = val else { return Ok(val) };
        if array.layout == Layout::A {
            return self.refuse_at(
                span,
                "only contiguous arrays can be reshaped, and this one may have strides",
                "copy it first: a.copy().reshape(...)",
            );
        }
        let lengths = self.lengths(shape, span)?;
        let ndim = lengths.len() as u8;
        // Elements of a Fortran array are taken in C order, which needs a copy.
        let expr = if array.layout == Layout::F && array.ndim > 1 {
            let flat = self.flat(Val::run(Ty::Array(array.clone()), expr))?;
            self.materialise(flat)?.1
        } else {
            expr
        };
        let ty = Ty::Array(Arc::new(ArrayTy { ndim, layout: Layout::C, ..(*array).clone() }));
        Ok(Val::run(
            ty.clone(),
            Expr::new(ExprKind::Reshape(Box::new(expr), lengths), ir_type(&ty)),
        ))
    }

    /// The lengths of a shape: one integer, several, or a tuple of them.
    fn lengths(&mut self, shape: Vec<Val>, span: Span) -> Res<Vec<Expr>> {
        let items = match <[Val; 1]>::try_from(shape) {
            Ok([one]) => match self.items(one) {
                Ok(items) => items,
                Err(Val::List(items)) => items,
                Err(one) => vec![one],
            },
            Err(many) => many,
        };
        items.into_iter().map(|item| self.index(item, span)).collect()
    }

    pub(super) fn array_method(
        &mut self,
        object: Val,
        name: &str,
        args: Vec<Val>,
        mut keywords: Keywords,
        span: Span,
    ) -> Res<Option<Val>> {
        let Val::Run { ty: Ty::Array(array), expr, .. } = &object else { return Ok(None) };
        let array = array.clone();
        Ok(match name {
            "copy" if args.is_empty() => Some(self.copy(object)?),
            "astype" => {
                let target = args
                    .first()
                    .or_else(|| keywords.first().map(|(_, val)| val))
                    .and_then(dtype_of);
                match target {
                    Some(to) => Some(self.cast_elements(object, &to, span)?),
                    None => None,
                }
            }
            "reshape" => Some(self.reshape(object, args, span)?),
            "ravel" if args.is_empty() => Some(self.flat(object)?),
            "flatten" if args.is_empty() => {
                let flat = self.flat(object)?;
                Some(self.copy(flat)?)
            }
            "fill" => {
                let [value] = &args[..] else { return Ok(None) };
                self.writable(&array, span)?;
                let expr = expr.clone();
                self.set_view(&array, expr, value.clone(), span)?;
                Some(Val::none())
            }
            "transpose" if args.is_empty() => {
                let axes = (0..u32::from(array.ndim)).rev().collect();
                let expr = expr.clone();
                Some(self.transposed(&array, expr, axes))
            }
            "transpose" => {
                let order = match <[Val; 1]>::try_from(args) {
                    Ok([order]) => order,
                    Err(axes) => Val::Tuple(axes),
                };
                self.numpy_function("transpose", &[object, order], &Vec::new(), span)?
            }
            "sort" if args.is_empty() => {
                self.writable(&array, span)?;
                Some(self.prelude("sort_in_place", vec![object])?)
            }
            "item" if args.is_empty() => Some(self.prelude("item", vec![object])?),
            "conj" | "conjugate" => Some(self.ufunc("conjugate", vec![object], span)?),
            "sum" | "prod" | "min" | "max" | "argmin" | "argmax" | "mean" | "std" | "var"
            | "any" | "all" | "cumsum" | "cumprod" | "argsort" | "dot" | "nonzero" | "repeat"
            | "clip" | "ptp" | "take" => {
                let mut all = vec![object];
                all.extend(args);
                let keywords = std::mem::take(&mut keywords);
                self.numpy_function(name, &all, &keywords, span)?
            }
            _ => None,
        })
    }

    // ---- NumPy's functions ----

    pub(super) fn numpy_function(
        &mut self,
        name: &str,
        args: &[Val],
        keywords: &Keywords,
        span: Span,
    ) -> Res<Option<Val>> {
        let name = canonical(name);
        if rules::ufunc_inputs(name)
            .is_some_and(|inputs| args.len() == inputs || args.len() == inputs + 1)
            && keywords.is_empty()
            && args.iter().all(|arg| self.elementwise_operand(arg))
        {
            return self.ufunc(name, args.to_vec(), span).map(Some);
        }
        let keyword = |name: &str| {
            keywords.iter().find(|(key, _)| &**key == name).map(|(_, val)| val.clone())
        };
        let positional =
            |index: usize, name: &str| args.get(index).cloned().or_else(|| keyword(name));
        let given = |val: Option<Val>| val.filter(|val| !val.is_none());
        let taken = keywords_of(name);
        if let Some((key, _)) = keywords.iter().find(|(key, _)| !taken.contains(&&**key)) {
            return self.refuse_at(
                span,
                format!("np.{name} takes no keyword `{key}` in kernels"),
                "give the arguments by position, or leave it out",
            );
        }
        let dtype = match given(keyword("dtype").or_else(|| {
            let index = match name {
                "zeros" | "ones" | "empty" | "zeros_like" | "ones_like" | "empty_like"
                | "array" | "asarray" => 1,
                "full" | "full_like" => 2,
                "arange" if args.len() == 4 => 3,
                "identity" => 1,
                "eye" if args.len() == 4 => 3,
                _ => return None,
            };
            args.get(index).cloned()
        })) {
            None => None,
            Some(val) => match dtype_of(&val) {
                Some(ty) => Some(ty),
                None => {
                    return self.refuse_at(
                        span,
                        format!("{} is no element type", val.describe()),
                        "write np.float64 or its like",
                    );
                }
            },
        };
        let first = positional(0, "a").or_else(|| keyword("shape"));
        let axis = match given(positional(1, "axis")) {
            Some(axis)
                if matches!(
                    name,
                    "sum"
                        | "argmin"
                        | "argmax"
                        | "any"
                        | "all"
                        | "prod"
                        | "min"
                        | "max"
                        | "mean"
                        | "std"
                        | "var"
                        | "cumsum"
                        | "cumprod"
                        | "median"
                        | "ptp"
                ) =>
            {
                Some(axis)
            }
            _ => None,
        };
        Ok(match name {
            "zeros" | "ones" | "empty" | "full" => {
                let Some(shape) = first else { return Ok(None) };
                let value = match name {
                    "full" => given(positional(1, "fill_value")),
                    "ones" => Some(Val::int(1)),
                    _ => None,
                };
                let dtype = dtype.unwrap_or_else(|| match (name, &value) {
                    ("full", Some(Val::Run { ty, .. })) => ty.clone(),
                    _ => Ty::Float64,
                });
                let lengths = self.lengths(vec![shape], span)?;
                Some(self.new_array(lengths, &dtype, Layout::C, value, span)?)
            }
            "zeros_like" | "ones_like" | "empty_like" | "full_like" => {
                let Some(Val::Run { ty: Ty::Array(array), expr, .. }) = first else {
                    return Ok(None);
                };
                let value = match name {
                    "full_like" => given(positional(1, "fill_value")),
                    "ones_like" => Some(Val::int(1)),
                    _ => None,
                };
                let dtype = dtype.unwrap_or_else(|| array.dtype.clone());
                let layout = if array.layout == Layout::F { Layout::F } else { Layout::C };
                Some(self.with_stmts(|walker| {
                    let expr = walker.bind_expr(expr);
                    let lengths = (0..u32::from(array.ndim))
                        .map(|axis| {
                            Expr::new(ExprKind::Length(Box::new(expr.clone()), axis), ir::Type::I64)
                        })
                        .collect();
                    walker.new_array(lengths, &dtype, layout, value, span)
                })?)
            }
            "eye" | "identity" => {
                let Some(n) = given(positional(0, "N").or(first)) else { return Ok(None) };
                let m = if name == "eye" { given(positional(1, "M")) } else { None };
                let k = if name == "eye" { given(positional(2, "k")) } else { None };
                let m = m.unwrap_or_else(|| n.clone());
                let dtype = Val::DType(dtype.unwrap_or(Ty::Float64));
                Some(self.prelude("eye", vec![n, m, k.unwrap_or_else(|| Val::int(0)), dtype])?)
            }
            "arange" => {
                let start = given(positional(0, "start"));
                let stop = given(positional(1, "stop"));
                let step = given(positional(2, "step"));
                let Some(start) = start else { return Ok(None) };
                let bounds: Vec<&Val> =
                    [Some(&start), stop.as_ref(), step.as_ref()].into_iter().flatten().collect();
                let has = |wanted: fn(&Ty) -> bool| {
                    bounds.iter().any(|bound| matches!(bound, Val::Run { ty, .. } if wanted(ty)))
                };
                let dtype = dtype.unwrap_or_else(|| {
                    if has(Ty::is_float) {
                        Ty::Float64
                    } else if has(|ty| *ty == Ty::U64) {
                        Ty::U64
                    } else {
                        Ty::I64
                    }
                });
                let (start, stop) = match stop {
                    Some(stop) => (start, stop),
                    None => (Val::int(0), start),
                };
                let step = step.unwrap_or_else(|| Val::int(1));
                let whole = [&start, &stop, &step]
                    .iter()
                    .all(|val| matches!(val, Val::Run { ty: Ty::Int(_) | Ty::Bool, .. }));
                let name = if whole { "arange_int" } else { "arange" };
                Some(self.prelude(name, vec![start, stop, step, Val::DType(dtype)])?)
            }
            "linspace" => {
                let (Some(start), Some(stop)) = (positional(0, "start"), positional(1, "stop"))
                else {
                    return Ok(None);
                };
                let num = positional(2, "num").unwrap_or_else(|| Val::int(50));
                Some(self.prelude("linspace", vec![start, stop, num])?)
            }
            "array" | "asarray" | "ascontiguousarray" | "copy" => match first {
                Some(val @ (Val::List(_) | Val::Tuple(_) | Val::Run { ty: Ty::Tuple(_), .. })) => {
                    Some(self.array_of(val, dtype, span)?)
                }
                Some(val @ Val::Run { ty: Ty::Array(_), .. }) => {
                    let Val::Run { ty: Ty::Array(array), .. } = &val else { return Ok(None) };
                    let same = dtype.as_ref().is_none_or(|dtype| *dtype == array.dtype);
                    match name {
                        "asarray" if same => Some(val),
                        "ascontiguousarray" if array.layout == Layout::C => Some(val),
                        _ if same => Some(self.copy(val)?),
                        _ => Some(self.cast_elements(val, &dtype.unwrap_or(Ty::Float64), span)?),
                    }
                }
                _ => None,
            },
            "sum" | "prod" => {
                let Some(val) = first else { return Ok(None) };
                match &val {
                    Val::Run { ty: Ty::Array(array), .. } if array.dtype.is_number() => {
                        let ty = dtype.unwrap_or_else(|| sum_type(&array.dtype));
                        match axis {
                            Some(_) if name != "sum" => return self.no_axis(name, span),
                            Some(axis) if array.ndim > 1 => {
                                let by = match self.known_axis(&axis, array.ndim, span)? {
                                    true => "sum_axis",
                                    false if array.ndim <= 3 => "sum_any_axis",
                                    false => return self.no_axis(name, span),
                                };
                                Some(self.prelude(by, vec![val, axis, Val::DType(ty)])?)
                            }
                            Some(axis) if !self.known_axis(&axis, 1, span)? => {
                                return self.refuse_at(
                                    span,
                                    "the axis of an array with one axis must be constant",
                                    "leave it out",
                                );
                            }
                            _ => Some(self.fold(
                                val,
                                if name == "sum" { FoldOp::Sum } else { FoldOp::Product },
                                &ty,
                                None,
                            )?),
                        }
                    }
                    _ => None,
                }
            }
            "min" | "max" => {
                let Some(val) = first else { return Ok(None) };
                match &val {
                    Val::Run { ty: Ty::Array(array), .. }
                        if array.dtype.is_number() && array.dtype != Ty::Complex128 =>
                    {
                        if axis.is_some() {
                            return self.no_axis(name, span);
                        }
                        let (op, which) = if name == "min" {
                            (FoldOp::Min, "minimum")
                        } else {
                            (FoldOp::Max, "maximum")
                        };
                        let message = format!(
                            "zero-size array to reduction operation {which} which has no identity"
                        );
                        let empty = ir::Raise {
                            class: "ValueError".into(),
                            args: vec![Expr::str(&message)],
                        };
                        let dtype = array.dtype.clone();
                        Some(self.fold(val, op, &dtype, Some(empty))?)
                    }
                    Val::Run { ty, .. } if ty.is_number() => Some(val),
                    _ => None,
                }
            }
            "any" | "all" => {
                let Some(val) = first else { return Ok(None) };
                if axis.is_some() {
                    return self.no_axis(name, span);
                }
                match &val {
                    Val::Run { ty: Ty::Array(array), .. } if array.dtype.is_number() => {
                        let op = if name == "any" { FoldOp::Or } else { FoldOp::And };
                        Some(self.fold(val, op, &Ty::Bool, None)?)
                    }
                    Val::Run { ty, .. } if ty.is_number() => {
                        Some(self.call_class(&Ty::Bool, vec![val], span)?)
                    }
                    _ => None,
                }
            }
            "count_nonzero" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                let tree = self.tree(vec![val], |mut elements| {
                    elements.remove(0).cast(ir::Type::BOOL).cast(ir::Type::I64)
                })?;
                let fold = Fold { op: FoldOp::Sum, value: tree, empty: None };
                Some(Val::run(Ty::I64, Expr::new(ExprKind::Fold(Box::new(fold)), ir::Type::I64)))
            }
            "mean" | "var" | "std" => {
                let Some(val) = first else { return Ok(None) };
                if axis.is_some() {
                    return self.no_axis(name, span);
                }
                match &val {
                    Val::Run { ty: Ty::Array(array), .. } if array.dtype.is_number() => {
                        Some(self.moments(name, val, span)?)
                    }
                    _ => None,
                }
            }
            "argmin" | "argmax" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                if let (Val::Run { ty: Ty::Array(array), .. }, Some(axis)) = (&val, axis) {
                    if !self.known_axis(&axis, array.ndim, span)? {
                        return self.refuse_at(
                            span,
                            "the axis must be constant",
                            "write it as a number",
                        );
                    }
                    if array.ndim > 1 {
                        let name = if name == "argmin" { "argmin_axis" } else { "argmax_axis" };
                        return self.prelude(name, vec![val, axis]).map(Some);
                    }
                }
                let flat = self.flat(val)?;
                Some(self.prelude(name, vec![flat])?)
            }
            "cumsum" | "cumprod" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                if axis.is_some() {
                    return self.no_axis(name, span);
                }
                let ty = match &val {
                    Val::Run { ty: Ty::Array(array), .. } => match &array.dtype {
                        Ty::Bool | Ty::Int(IntTy { signed: true, .. }) => Ty::I64,
                        other => other.clone(),
                    },
                    _ => Ty::Float64,
                };
                let flat = self.flat(val)?;
                Some(self.prelude(name, vec![flat, Val::DType(ty)])?)
            }
            "where" => match args {
                [condition, x, y] => {
                    Some(self.choose(condition.clone(), x.clone(), y.clone(), span)?)
                }
                [condition] if is_array(condition) => {
                    Some(self.prelude("nonzero", vec![condition.clone()])?)
                }
                _ => None,
            },
            "nonzero" | "flatnonzero" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                let name = if name == "nonzero" { "nonzero" } else { "flatnonzero" };
                Some(self.prelude(name, vec![val])?)
            }
            "clip" => {
                let Some(val) = first else { return Ok(None) };
                self.clip(val, given(positional(1, "a_min")), given(positional(2, "a_max")), span)?
            }
            "sort" | "argsort" => {
                let Some(val) = first.filter(is_array) else { return Ok(None) };
                let rest = args.len() > 1;
                if name == "sort" && !rest {
                    let copy = self.copy(val)?;
                    return self.prelude("sorted_copy", vec![copy]).map(Some);
                }
                let kind = keyword("kind");
                match kind.as_ref().map(|kind| kind.known_str().map(|kind| &**kind)) {
                    None | Some(Some("quicksort")) if !rest => {
                        Some(self.prelude("argsort", vec![val])?)
                    }
                    Some(Some("mergesort")) if !rest => {
                        Some(self.prelude("argsort_stable", vec![val])?)
                    }
                    _ => None,
                }
            }
            "dot" | "vdot" | "matmul" => match args {
                [a, b] => self.dot(a.clone(), b.clone(), span)?,
                _ => None,
            },
            "transpose" => match first {
                Some(Val::Run { ty: Ty::Array(array), expr, .. }) => {
                    let axes = match args.get(1) {
                        None => (0..u32::from(array.ndim)).rev().collect(),
                        Some(order) => {
                            let items = self.items(order.clone()).unwrap_or_default();
                            let axes: Option<Vec<u32>> = items
                                .iter()
                                .map(|item| {
                                    item.known_int().and_then(|axis| u32::try_from(axis).ok())
                                })
                                .collect();
                            match axes {
                                Some(axes) if axes.len() == usize::from(array.ndim) => axes,
                                _ => {
                                    return self.refuse_at(
                                        span,
                                        "the order of axes must be constant",
                                        "write it as numbers",
                                    );
                                }
                            }
                        }
                    };
                    Some(self.transposed(&array, expr, axes))
                }
                _ => None,
            },
            "swapaxes" | "expand_dims" => {
                let axes: Option<Vec<i64>> =
                    args[1.min(args.len())..].iter().map(Val::known_int).collect();
                let Some(Val::Run { ty: Ty::Array(array), expr, .. }) = first else {
                    return Ok(None);
                };
                let ndim = i64::from(array.ndim) + i64::from(name == "expand_dims");
                let axes = axes.unwrap_or_default().into_iter();
                let axes: Vec<i64> = axes.map(|at| if at < 0 { at + ndim } else { at }).collect();
                if axes.iter().any(|at| !(0..ndim).contains(at)) {
                    return self.refuse_at(span, "there is no such axis", "count axes from 0");
                }
                match (name, &axes[..]) {
                    ("swapaxes", [a, b]) => {
                        let mut order: Vec<u32> = (0..u32::from(array.ndim)).collect();
                        order.swap(*a as usize, *b as usize);
                        Some(self.transposed(&array, expr, order))
                    }
                    ("expand_dims", [axis]) => {
                        let mut subscripts = vec![Subscript::Full; usize::from(array.ndim)];
                        subscripts.insert(*axis as usize, Subscript::NewAxis);
                        let layout = array.layout;
                        let ty = ArrayTy { ndim: array.ndim + 1, layout, ..(*array).clone() };
                        let ty = Ty::Array(Arc::new(ty));
                        let kind = ExprKind::View(Box::new(expr), subscripts);
                        Some(Val::run(ty.clone(), Expr::new(kind, ir_type(&ty))))
                    }
                    _ => {
                        return self.refuse_at(
                            span,
                            "the axes must be constant",
                            "write them as numbers",
                        );
                    }
                }
            }
            "reshape" => match args {
                [val, shape] if is_array(val) => {
                    Some(self.reshape(val.clone(), vec![shape.clone()], span)?)
                }
                _ => None,
            },
            "ravel" => match first {
                Some(val) if is_array(&val) => Some(self.flat(val)?),
                _ => None,
            },
            "real" | "imag" => match first {
                Some(val) => Some(self.get_attribute(val, &Arc::from(name), span)?),
                None => None,
            },
            "shape" => match first {
                Some(val) if is_array(&val) => {
                    Some(self.get_attribute(val, &Arc::from("shape"), span)?)
                }
                _ => None,
            },
            "round" | "around" | "round_" => {
                let Some(val) = first else { return Ok(None) };
                let decimals = given(positional(1, "decimals")).unwrap_or_else(|| Val::int(0));
                self.round(val, decimals, span)?
            }
            "isclose" => match args {
                [a, b] => Some(self.prelude_map("isclose", a.clone(), b.clone(), span)?),
                _ => None,
            },
            "size" => first
                .filter(is_array)
                .map(|val| self.get_attribute(val, &Arc::from("size"), span))
                .transpose()?,
            "outer" | "diff" | "trace" | "flip" | "median" | "array_equal" | "searchsorted"
            | "unique" | "bincount" | "interp" | "repeat" | "roll" | "ptp" | "cross" | "kron"
            | "convolve" | "tril" | "triu" | "diag" | "fliplr" | "flipud" | "allclose"
            | "nansum" | "nanmin" | "nanmax" | "nanmean" | "take" | "append" | "argwhere"
            | "percentile" | "quantile" | "broadcast_to" | "histogram" | "partition" => {
                let known = super::prelude::function(name);
                match known {
                    Some(function)
                        if args.len() <= function.params.positional.len()
                            && args.len()
                                >= function
                                    .params
                                    .positional
                                    .iter()
                                    .filter(|param| param.default.is_none())
                                    .count() =>
                    {
                        let mut all = args.to_vec();
                        for param in &function.params.positional[args.len()..] {
                            if let Some(given) = keyword(&param.name) {
                                all.push(given);
                            } else if let Some(default) = &param.default {
                                all.push(self.expr(default)?);
                            }
                        }
                        Some(self.prelude(name, all)?)
                    }
                    _ => None,
                }
            }
            "concatenate" | "stack" | "vstack" | "hstack" | "column_stack" => {
                let Some(parts) = args.first().cloned() else { return Ok(None) };
                let items = match self.items(parts) {
                    Ok(items) if items.iter().all(is_array) && args.len() <= 2 => items,
                    _ => return Ok(None),
                };
                self.joined(name, items, given(positional(1, "axis")), span)?
            }
            "ndindex" => Some(Val::Indices(self.lengths(args.to_vec(), span)?, None)),
            "ndenumerate" => match first {
                Some(Val::Run { ty: Ty::Array(array), expr, .. }) => {
                    let expr = self.bind_expr(expr);
                    let lengths = (0..u32::from(array.ndim))
                        .map(|axis| {
                            Expr::new(ExprKind::Length(Box::new(expr.clone()), axis), ir::Type::I64)
                        })
                        .collect();
                    Some(Val::Indices(lengths, Some(Box::new(Val::run(Ty::Array(array), expr)))))
                }
                _ => None,
            },
            "dtype" => args.first().and_then(dtype_of).map(Val::DType),
            "iinfo" | "finfo" => {
                let dtype = args.first().and_then(dtype_of).and_then(|ty| DType::from_ty(&ty));
                dtype.and_then(|dtype| limits(name, &dtype)).map(Val::Host)
            }
            "ndim" => match first {
                Some(Val::Run { ty: Ty::Array(array), .. }) => {
                    Some(Val::int(i64::from(array.ndim)))
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// Whether an axis is constant; refuses one that an array with so many does not have.
    fn known_axis(&self, axis: &Val, ndim: u8, span: Span) -> Res<bool> {
        let ndim = i64::from(ndim);
        match axis.known_int() {
            None => Ok(false),
            Some(axis) if (-ndim..ndim).contains(&axis) => Ok(true),
            Some(axis) => self.refuse_at(
                span,
                format!("axis {axis} is out of bounds for an array with {ndim} dimensions"),
                "count axes from 0, or from the last with -1",
            ),
        }
    }

    /// `np.concatenate` and its kin.
    fn joined(
        &mut self,
        name: &str,
        items: Vec<Val>,
        axis: Option<Val>,
        span: Span,
    ) -> Res<Option<Val>> {
        let Some(Val::Run { ty: Ty::Array(first), .. }) = items.first() else { return Ok(None) };
        let ndim = i64::from(first.ndim) + i64::from(name == "stack");
        let axis = match (name, axis) {
            ("concatenate" | "stack", Some(axis)) => {
                if !self.known_axis(&axis, ndim as u8, span)? {
                    return self.refuse_at(
                        span,
                        "the axis must be constant",
                        "write it as a number",
                    );
                }
                axis.known_int().unwrap_or(0).rem_euclid(ndim)
            }
            (_, Some(_)) => return Ok(None),
            ("hstack", None) => i64::from(first.ndim > 1),
            ("column_stack", None) => 1,
            _ => 0,
        };
        let is_alone = items.len() == 1;
        let mut joined = None;
        for item in items {
            let is_flat = matches!(&item, Val::Run { ty: Ty::Array(array), .. } if array.ndim == 1);
            let item = match name {
                "stack" => self.prelude("with_axis", vec![item, Val::int(axis)])?,
                "vstack" | "column_stack" if is_flat => {
                    self.prelude("with_axis", vec![item, Val::int(axis)])?
                }
                _ => item,
            };
            joined = Some(match joined {
                None => item,
                Some(before) => self.prelude("concatenate", vec![before, item, Val::int(axis)])?,
            });
        }
        match joined {
            Some(joined) if is_alone => self.copy(joined).map(Some),
            joined => Ok(joined),
        }
    }

    fn no_axis<T>(&self, name: &str, span: Span) -> Res<T> {
        self.refuse_at(
            span,
            format!("np.{name} takes no axis in kernels"),
            "loop over the rows, or transpose",
        )
    }

    fn new_array(
        &mut self,
        lengths: Vec<Expr>,
        dtype: &Ty,
        layout: Layout,
        value: Option<Val>,
        span: Span,
    ) -> Res<Val> {
        let ty = Ty::array(dtype.clone(), lengths.len() as u8, layout);
        let fill = match value {
            None => Fill::Zero,
            Some(value) => Fill::Value(Box::new(self.coerce(value, dtype, span)?)),
        };
        Ok(Val::run(ty.clone(), Expr::new(ExprKind::NewArray(lengths, fill), ir_type(&ty))))
    }

    /// `np.array(items)` of nested lists or tuples of numbers.
    fn array_of(&mut self, items: Val, dtype: Option<Ty>, span: Span) -> Res<Val> {
        let mut shape = Vec::new();
        let mut flat = Vec::new();
        self.flatten(items, 0, &mut shape, &mut flat, span)?;
        let dtype = match dtype {
            Some(dtype) => dtype,
            None => {
                let mut dtype: Option<Ty> = None;
                for val in &flat {
                    let Val::Run { ty, .. } = val else { continue };
                    dtype = Some(match dtype {
                        None => ty.clone(),
                        Some(so_far) => match rules::promote(&so_far, ty) {
                            Some(ty) => ty,
                            None => {
                                return self.refuse_at(
                                    span,
                                    "an array holds numbers of one type",
                                    "convert the items",
                                );
                            }
                        },
                    });
                }
                match dtype {
                    Some(dtype) => dtype,
                    None => {
                        return self.refuse_at(
                            span,
                            "the type of an empty array is not known",
                            "write np.zeros(0, dtype=...)",
                        );
                    }
                }
            }
        };
        let mut elements = Vec::new();
        for val in flat {
            elements.push(self.coerce(val, &dtype, span)?);
        }
        let ty = Ty::array(dtype, shape.len() as u8, Layout::C);
        Ok(Val::run(ty.clone(), Expr::new(ExprKind::ArrayOf(shape, elements), ir_type(&ty))))
    }

    fn flatten(
        &mut self,
        val: Val,
        depth: usize,
        shape: &mut Vec<u32>,
        flat: &mut Vec<Val>,
        span: Span,
    ) -> Res<()> {
        let items = match val {
            Val::List(items) => Ok(items),
            other => self.items(other),
        };
        match items {
            Ok(items) => {
                if shape.len() == depth {
                    if !flat.is_empty() {
                        return self.refuse_at(
                            span,
                            "the rows of an array have one length",
                            "pad the shorter rows",
                        );
                    }
                    shape.push(items.len() as u32);
                } else if shape[depth] as usize != items.len() {
                    return self.refuse_at(
                        span,
                        "the rows of an array have one length",
                        "pad the shorter rows",
                    );
                }
                for item in items {
                    self.flatten(item, depth + 1, shape, flat, span)?;
                }
                Ok(())
            }
            Err(val @ Val::Run { .. })
                if depth == shape.len() && self.elementwise_operand(&val) && !is_array(&val) =>
            {
                flat.push(val);
                Ok(())
            }
            Err(val) => self.refuse_at(
                span,
                format!("an array cannot hold {}", val.describe()),
                "write numbers",
            ),
        }
    }

    fn fold(&mut self, val: Val, op: FoldOp, ty: &Ty, empty: Option<ir::Raise>) -> Res<Val> {
        let ir = ir_type(ty);
        let target = ir.clone();
        let tree = self.tree(vec![val], |mut elements| elements.remove(0).cast(target))?;
        let fold = Fold { op, value: tree, empty };
        Ok(Val::run(ty.clone(), Expr::new(ExprKind::Fold(Box::new(fold)), ir)))
    }

    /// The mean, variance or standard deviation of all elements.
    fn moments(&mut self, name: &str, val: Val, span: Span) -> Res<Val> {
        self.with_stmts(|walker| {
            let val = walker.bind(val);
            let Val::Run { ty: Ty::Array(array), expr, .. } = &val else { return Ok(val) };
            let ty = mean_type(&array.dtype);
            let size = Expr::new(ExprKind::Size(Box::new(expr.clone())), ir::Type::I64);
            let size = Val::run(Ty::I64, size);
            let total = walker.fold(val.clone(), FoldOp::Sum, &ty, None)?;
            let mean = walker.binary(BinaryOp::Div, total, size.clone(), span)?;
            if name == "mean" {
                return Ok(mean);
            }
            let mean = walker.bind(mean);
            let (mean_ty, mean) = walker.materialise(mean)?;
            let difference = rules::binary(BinaryOp::Sub, &array.dtype, &mean_ty);
            let Some(difference) = difference else {
                return walker.refuse_at(
                    span,
                    "this array has no variance",
                    "convert it to float64",
                );
            };
            let square = if difference.result == Ty::Float32 { Ty::Float32 } else { Ty::Float64 };
            let rule = difference.clone();
            let sum_ty = Ty::Float64;
            let tree = walker.tree(vec![val.clone()], |mut elements| {
                let x = elements.remove(0);
                let d = scalar_binary(BinaryOp::Sub, x, mean, None, &rule, OnZero::Value);
                let squared = if rule.result == Ty::Complex128 {
                    let (re, im) = (Expr::unary(Un::Real, d.clone()), Expr::unary(Un::Imag, d));
                    Expr::binary(
                        Op::Add,
                        Expr::binary(Op::Mul, re.clone(), re),
                        Expr::binary(Op::Mul, im.clone(), im),
                    )
                } else {
                    Expr::binary(Op::Mul, d.clone(), d)
                };
                squared.cast(ir_type(&square)).cast(ir::Type::F64)
            })?;
            let fold = Fold { op: FoldOp::Sum, value: tree, empty: None };
            let total = Val::run(sum_ty, Expr::new(ExprKind::Fold(Box::new(fold)), ir::Type::F64));
            let variance = walker.binary(BinaryOp::Div, total, size, span)?;
            if name == "var" {
                return Ok(variance);
            }
            let (_, variance) = walker.materialise(variance)?;
            Ok(Val::run(
                Ty::Float64,
                Expr::new(ExprKind::Math(MathFn::Sqrt, vec![variance]), ir::Type::F64),
            ))
        })
    }

    /// `np.where(condition, x, y)`.
    fn choose(&mut self, condition: Val, x: Val, y: Val, span: Span) -> Res<Val> {
        let types = self.element_types(&[condition.clone(), x.clone(), y.clone()], span)?;
        let Some(dtype) = rules::promote(&types[1], &types[2]) else {
            return self.refuse_at(
                span,
                format!("{} and {} have no type in common", types[1], types[2]),
                "convert with astype(...)",
            );
        };
        let ir = ir_type(&dtype);
        let value = |mut elements: Vec<Expr>| {
            let y = elements.remove(2).cast(ir.clone());
            let x = elements.remove(1).cast(ir.clone());
            if_else(elements.remove(0).cast(ir::Type::BOOL), x, y)
        };
        if [&condition, &x, &y].into_iter().any(is_array) {
            return self.elementwise(vec![condition, x, y], &dtype, value);
        }
        let mut exprs = Vec::new();
        for val in [condition, x, y] {
            exprs.push(self.materialise(val)?.1);
        }
        Ok(Val::run(dtype, value(exprs)))
    }

    fn clip(
        &mut self,
        val: Val,
        low: Option<Val>,
        high: Option<Val>,
        span: Span,
    ) -> Res<Option<Val>> {
        if !self.elementwise_operand(&val) {
            return Ok(None);
        }
        let mut vals = vec![val];
        vals.extend(low.clone());
        vals.extend(high.clone());
        let types = self.element_types(&vals, span)?;
        // Compared in the type that holds all, kept in the array's own.
        let dtype = types[0].clone();
        let mut wide = dtype.clone();
        for ty in &types[1..] {
            match rules::promote(&wide, ty) {
                Some(ty) => wide = ty,
                None => return Ok(None),
            }
        }
        let (ir, result) = (ir_type(&wide), ir_type(&dtype));
        let (has_low, has_high) = (low.is_some(), high.is_some());
        let value = |elements: Vec<Expr>| {
            let mut elements = elements.into_iter().map(|element| element.cast(ir.clone()));
            let mut value = elements.next().unwrap_or_else(|| Expr::int(0));
            if has_low && let Some(low) = elements.next() {
                value = Expr::binary(Op::Maximum, value, low);
            }
            if has_high && let Some(high) = elements.next() {
                value = Expr::binary(Op::Minimum, value, high);
            }
            value.cast(result.clone())
        };
        if vals.iter().any(is_array) {
            return self.elementwise(vals, &dtype, value).map(Some);
        }
        let mut exprs = Vec::new();
        for val in vals {
            exprs.push(self.materialise(val)?.1);
        }
        let value = value(exprs);
        Ok(Some(Val::run(dtype, value)))
    }

    fn dot(&mut self, a: Val, b: Val, span: Span) -> Res<Option<Val>> {
        let (Val::Run { ty: Ty::Array(x), .. }, Val::Run { ty: Ty::Array(y), .. }) = (&a, &b)
        else {
            if self.elementwise_operand(&a) && self.elementwise_operand(&b) {
                return self.binary(BinaryOp::Mul, a, b, span).map(Some);
            }
            return Ok(None);
        };
        if x.dtype != y.dtype || !(x.dtype.is_float() || x.dtype == Ty::Complex128) {
            return self.refuse_at(
                span,
                format!(
                    "np.dot takes two arrays of one float or complex type, not {} and {}",
                    x.dtype, y.dtype
                ),
                "convert with astype(np.float64)",
            );
        }
        let name = match (x.ndim, y.ndim) {
            (1, 1) => {
                let dtype = x.dtype.clone();
                return self
                    .with_stmts(|walker| {
                        let (a, b) = (walker.bind(a), walker.bind(b));
                        let checked =
                            walker.prelude("check_lengths", vec![a.clone(), b.clone()])?;
                        walker.effect(checked);
                        let tree = walker.tree(vec![a, b], |mut elements| {
                            let y = elements.remove(1);
                            Expr::binary(Op::Mul, elements.remove(0), y)
                        })?;
                        let fold = Fold { op: FoldOp::Sum, value: tree, empty: None };
                        Ok(Val::run(
                            dtype.clone(),
                            Expr::new(ExprKind::Fold(Box::new(fold)), ir_type(&dtype)),
                        ))
                    })
                    .map(Some);
            }
            (2, 1) => "dot_mv",
            (1, 2) => "dot_vm",
            (2, 2) => "dot_mm",
            _ => {
                return self.refuse_at(
                    span,
                    "np.dot takes vectors and matrices",
                    "index the arrays down to two dimensions",
                );
            }
        };
        self.prelude(name, vec![a, b]).map(Some)
    }

    fn round(&mut self, val: Val, decimals: Val, span: Span) -> Res<Option<Val>> {
        let types = self.element_types(std::slice::from_ref(&val), span)?;
        let ty = types[0].clone();
        if !ty.is_float() {
            return Ok(match ty {
                Ty::Int(_) => Some(val),
                _ => None,
            });
        }
        let ir = ir_type(&ty);
        let zero = decimals.known_int() == Some(0);
        let digits = self.index(decimals, span)?.cast(ir.clone());
        let value = |x: Expr| {
            if zero {
                Expr::new(ExprKind::Math(MathFn::Rint, vec![x]), ir.clone())
            } else {
                Expr::new(ExprKind::Math(MathFn::RoundDigits, vec![x, digits.clone()]), ir.clone())
            }
        };
        if is_array(&val) {
            return self
                .with_stmts(|walker| {
                    walker.elementwise(vec![val], &ty.clone(), |mut elements| {
                        value(elements.remove(0))
                    })
                })
                .map(Some);
        }
        let (_, expr) = self.materialise(val)?;
        Ok(Some(Val::run(ty, value(expr))))
    }

    /// A prelude function of two floats, on each pair of elements.
    fn prelude_map(&mut self, name: &str, a: Val, b: Val, span: Span) -> Res<Val> {
        self.element_types(&[a.clone(), b.clone()], span)?;
        self.prelude(name, vec![a, b])
    }
}

enum Located {
    Element(Element1),
    View(ArrayTy, Expr),
}

/// The array seen as one of part of each element.
fn part(array: &ArrayTy, expr: Expr, ty: Ty, offset: usize) -> Val {
    let ty = Ty::Array(Arc::new(ArrayTy {
        dtype: ty,
        ndim: array.ndim,
        layout: Layout::A,
        readonly: array.readonly,
    }));
    Val::run(ty.clone(), Expr::new(ExprKind::Part(Box::new(expr), offset as u32), ir_type(&ty)))
}

/// What Numba knows of the layout of a view from the kinds of its indices.
fn view_layout(array: &ArrayTy, indices: &[Index], used: usize) -> Layout {
    let keeps = |index: &Index, innermost: bool| match index {
        Index::At(_) | Index::Ellipsis => true,
        Index::Slice([_, _, step]) => innermost && step.is_none(),
        _ => false,
    };
    let contiguous = |indices: &[&Index]| match indices.split_last() {
        None => true,
        Some((last, outer)) => outer.iter().all(|index| keeps(index, false)) && keeps(last, true),
    };
    let at = indices.iter().position(|index| matches!(index, Index::Ellipsis));
    let (mut left, mut right): (Vec<&Index>, Vec<&Index>) = match at {
        Some(at) => (indices[..at].iter().collect(), indices[at + 1..].iter().collect()),
        None => (indices.iter().collect(), Vec::new()),
    };
    let full = used == usize::from(array.ndim);
    match array.layout {
        Layout::C => {
            if full {
                left.append(&mut right);
            }
            if right.is_empty() && contiguous(&left) { Layout::C } else { Layout::A }
        }
        Layout::F => {
            if full {
                left.append(&mut right);
                std::mem::swap(&mut left, &mut right);
            }
            right.reverse();
            if left.is_empty() && contiguous(&right) { Layout::F } else { Layout::A }
        }
        Layout::A => Layout::A,
    }
}

fn slice_items(items: &[Val], start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<Val> {
    let length = items.len() as i64;
    let clamp = |value: i64, low: i64, high: i64| {
        (if value < 0 { value + length } else { value }).clamp(low, high)
    };
    let mut taken = Vec::new();
    if step > 0 {
        let (mut at, stop) =
            (clamp(start.unwrap_or(0), 0, length), clamp(stop.unwrap_or(length), 0, length));
        while at < stop {
            taken.push(items[at as usize].clone());
            at += step;
        }
    } else if step < 0 {
        let mut at = start.map_or(length - 1, |start| clamp(start, -1, length - 1));
        let stop = stop.map_or(-1, |stop| clamp(stop, -1, length - 1));
        while at > stop {
            taken.push(items[at as usize].clone());
            at += step;
        }
    }
    taken
}

/// The type in which Numba sums elements of a type.
pub(super) fn sum_type(ty: &Ty) -> Ty {
    match ty {
        Ty::Bool | Ty::Int(IntTy { signed: true, .. }) => Ty::I64,
        Ty::Int(_) => Ty::U64,
        other => other.clone(),
    }
}

/// The type in which Numba sums elements for their mean.
pub(super) fn mean_type(ty: &Ty) -> Ty {
    match ty {
        Ty::Bool | Ty::Int(_) => Ty::Float64,
        other => other.clone(),
    }
}

/// The keywords that a function of NumPy takes in kernels.
fn keywords_of(name: &str) -> &'static [&'static str] {
    match name {
        "zeros" | "ones" | "empty" => &["shape", "dtype"],
        "full" => &["shape", "fill_value", "dtype"],
        "zeros_like" | "ones_like" | "empty_like" => &["a", "dtype"],
        "full_like" => &["a", "fill_value", "dtype"],
        "arange" => &["start", "stop", "step", "dtype"],
        "linspace" => &["start", "stop", "num"],
        "eye" => &["N", "M", "k", "dtype"],
        "identity" => &["n", "dtype"],
        "array" | "asarray" => &["dtype"],
        "sum" => &["a", "axis", "dtype"],
        "prod" | "min" | "max" | "mean" | "var" | "std" | "any" | "all" | "argmin" | "argmax"
        | "cumsum" | "cumprod" => &["a", "axis"],
        "clip" => &["a", "a_min", "a_max"],
        "round" | "around" => &["a", "decimals"],
        "argsort" => &["kind"],
        "concatenate" | "stack" => &["axis"],
        "searchsorted" => &["side"],
        "diff" => &["n"],
        "tril" | "triu" => &["k"],
        "bincount" => &["minlength"],
        "histogram" => &["bins", "range"],
        _ => &[],
    }
}

/// One name for each of NumPy's functions that have several.
fn canonical(name: &str) -> &str {
    match name {
        "true_divide" => "divide",
        "mod" => "remainder",
        "abs" => "absolute",
        "conj" => "conjugate",
        "bitwise_not" => "invert",
        "pow" => "power",
        "acos" => "arccos",
        "asin" => "arcsin",
        "atan" => "arctan",
        "atan2" => "arctan2",
        "acosh" => "arccosh",
        "asinh" => "arcsinh",
        "atanh" => "arctanh",
        "amax" => "max",
        "amin" => "min",
        "bitwise_left_shift" => "left_shift",
        "bitwise_right_shift" => "right_shift",
        "fix" => "trunc",
        other => other,
    }
}

/// The ufunc `name` of one element each. `exponent` is the second operand where it is a known integer.
fn scalar_ufunc(
    name: &str,
    elements: Vec<Expr>,
    exponent: Option<i64>,
    rule: &Rule,
) -> Option<Expr> {
    let ty = &rule.operands[0];
    let result = ir_type(&rule.result);
    let mut operands: Vec<Expr> = elements
        .into_iter()
        .zip(&rule.operands)
        .map(|(element, ty)| element.cast(ir_type(ty)))
        .collect();
    let scalar = ir_scalar(ty)?;
    let zero = OnZero::Ufunc;
    if operands.len() == 2 {
        let b = operands.remove(1);
        let a = operands.remove(0);
        let both = |op: Op, a: Expr, b: Expr| Some(Expr::binary(op, a, b));
        let boolean = *ty == Ty::Bool;
        let complex = *ty == Ty::Complex128;
        let truth = |expr: Expr| expr.cast(ir::Type::BOOL);
        return match name {
            "add" if boolean => both(Op::Or, a, b),
            "multiply" if boolean => both(Op::And, a, b),
            "maximum" | "fmax" if boolean => both(Op::Or, a, b),
            "minimum" | "fmin" if boolean => both(Op::And, a, b),
            "add" => both(Op::Add, a, b),
            "subtract" => both(Op::Sub, a, b),
            "multiply" => both(Op::Mul, a, b),
            "divide" => both(Op::TrueDiv(zero), a, b),
            "floor_divide" => both(Op::FloorDiv(zero), a, b),
            "remainder" => both(Op::Mod(zero), a, b),
            // Of integers Numba's is the remainder with the divisor's sign.
            "fmod" if scalar.is_int() => both(Op::Mod(zero), a, b),
            "fmod" => both(Op::Fmod(zero), a, b),
            "gcd" => both(Op::Gcd, a, b),
            "lcm" => both(Op::Lcm, a, b),
            "power" | "float_power" => match exponent {
                Some(2) if !complex => {
                    Some(Expr::new(ExprKind::PowConst(zero, Box::new(a), 2), result))
                }
                Some(exponent) if scalar.is_int() && exponent.unsigned_abs() <= 0x10000 => {
                    Some(Expr::new(ExprKind::PowConst(zero, Box::new(a), exponent), result))
                }
                _ => both(Op::Pow(zero), a, b),
            },
            "maximum" if !complex => both(Op::Maximum, a, b),
            "minimum" if !complex => both(Op::Minimum, a, b),
            "fmax" if !complex => both(Op::Fmax, a, b),
            "fmin" if !complex => both(Op::Fmin, a, b),
            "bitwise_and" => both(Op::And, a, b),
            "bitwise_or" => both(Op::Or, a, b),
            "bitwise_xor" => both(Op::Xor, a, b),
            "left_shift" => both(Op::Shl, a, b),
            "right_shift" => both(Op::Shr, a, b),
            "equal" => both(Op::Eq, a, b),
            "not_equal" => both(Op::Ne, a, b),
            "less" if !complex => both(Op::Lt, a, b),
            "less_equal" if !complex => both(Op::Le, a, b),
            "greater" if !complex => both(Op::Gt, a, b),
            "greater_equal" if !complex => both(Op::Ge, a, b),
            "logical_and" => both(Op::And, truth(a), truth(b)),
            "logical_or" => both(Op::Or, truth(a), truth(b)),
            "logical_xor" => both(Op::Xor, truth(a), truth(b)),
            "heaviside" => {
                let constant = |value: f64| Expr::float(value).cast(a.ty.clone());
                let positive =
                    if_else(Expr::binary(Op::Gt, a.clone(), constant(0.0)), constant(1.0), b);
                let at_most = if_else(
                    Expr::binary(Op::Lt, a.clone(), constant(0.0)),
                    constant(0.0),
                    positive,
                );
                Some(if_else(Expr::unary(Un::IsNan, a.clone()), a, at_most))
            }
            "ldexp" => {
                let n = b.cast(a.ty.clone());
                Some(Expr::new(ExprKind::Math(MathFn::Ldexp, vec![a, n]), result))
            }
            _ => math_named(name)
                .map(|function| Expr::new(ExprKind::Math(function, vec![a, b]), result)),
        };
    }
    let x = operands.pop()?;
    let exact = scalar.is_int() || scalar == ir::Scalar::Bool;
    Some(match name {
        "negative" => Expr::unary(Un::Neg, x),
        "positive" => x,
        "absolute" if exact && !scalar.is_signed() => x,
        "absolute" => Expr::unary(Un::Abs, x),
        "fabs" => Expr::unary(Un::Abs, x),
        "sign" if *ty == Ty::Complex128 => return None,
        "sign" => Expr::unary(Un::Sign, x),
        "conjugate" if *ty == Ty::Complex128 => Expr::unary(Un::Conj, x),
        "conjugate" => x,
        "square" if *ty == Ty::Complex128 => Expr::binary(Op::Mul, x.clone(), x),
        "square" => Expr::new(ExprKind::PowConst(zero, Box::new(x), 2), result),
        "reciprocal" if exact => {
            let one = Expr::int(1).cast(x.ty.clone());
            let zero_value = Expr::int(0).cast(x.ty.clone());
            let is = |value: Expr| Expr::binary(Op::Eq, x.clone(), value);
            let minus = Expr::unary(Un::Neg, one.clone());
            if scalar.is_signed() {
                if_else(is(one), x.clone(), if_else(is(minus), x.clone(), zero_value))
            } else {
                if_else(is(one), x.clone(), zero_value)
            }
        }
        "reciprocal" => {
            let one = Expr::int(1).cast(x.ty.clone());
            Expr::binary(Op::TrueDiv(zero), one, x)
        }
        "invert" => Expr::unary(Un::Invert, x),
        "logical_not" => Expr::unary(Un::Not, x.cast(ir::Type::BOOL)),
        "isnan" | "isinf" if exact => Expr::bool(false),
        "isfinite" if exact => Expr::bool(true),
        "isnan" => Expr::unary(Un::IsNan, x),
        "isinf" => Expr::unary(Un::IsInf, x),
        "isfinite" => Expr::unary(Un::IsFinite, x),
        "signbit" => Expr::unary(Un::SignBit, x),
        "floor" | "ceil" | "trunc" if exact => x,
        "degrees" | "rad2deg" => {
            let factor = Expr::float(180.0 / std::f64::consts::PI).cast(x.ty.clone());
            Expr::binary(Op::Mul, x, factor)
        }
        "radians" | "deg2rad" => {
            let factor = Expr::float(std::f64::consts::PI / 180.0).cast(x.ty.clone());
            Expr::binary(Op::Mul, x, factor)
        }
        _ => {
            let function = math_named(name)?;
            if *ty == Ty::Complex128 && !function.is_complex() {
                return None;
            }
            Expr::new(ExprKind::Math(function, vec![x]), result)
        }
    })
}
