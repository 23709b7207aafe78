//! Subscripts: elements and views of arrays, tuples and records, read and assigned.
//!
//! ```text
//!   a[i, 1:, None]   integers, slices, new axes ──► an element, or a view       (locate)
//!   a[mask], a[:, k] an array among them        ──► a copy, made by the prelude (advanced, along)
//! ```

use std::sync::Arc;

use super::arrays::part;
use super::expr::is_array;
use super::val::{Val, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{
    self, Access, BinaryOp as Op, Element1, Expr, ExprKind, SetView, StmtKind, Subscript,
};
use crate::kernel::syntax::{self, ExprKind as S, Span};
use crate::kernel::types::{ArrayTy, IntTy, Layout, Ty};

/// An index, sorted by what it does to its axis.
enum Index {
    At(Expr),
    Slice([Option<Expr>; 3]),
    NewAxis,
    Ellipsis,
    Many(Val),
}

enum Located {
    Element(Element1),
    View(ArrayTy, Expr),
}

impl Walker<'_> {
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

    pub(super) fn set_view(
        &mut self,
        array: &ArrayTy,
        target: Expr,
        val: Val,
        span: Span,
    ) -> Res<()> {
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

    pub(super) fn writable(&self, array: &ArrayTy, span: Span) -> Res<()> {
        if array.readonly {
            return self.refuse_at(
                span,
                "this array cannot be written to: it is read-only or a captured constant",
                "pass it as an argument, or write into a copy",
            );
        }
        Ok(())
    }
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
