//! New arrays: of a shape, and of nested lists and tuples.

use super::expr::is_array;
use super::val::{Val, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{Expr, ExprKind, Fill};
use crate::kernel::rules;
use crate::kernel::syntax::Span;
use crate::kernel::types::{Layout, Ty};

impl Walker<'_> {
    pub(super) fn new_array(
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
    pub(super) fn array_of(&mut self, items: Val, dtype: Option<Ty>, span: Span) -> Res<Val> {
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

    pub(super) fn flatten(
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
}
