//! Attributes of modules, arrays, records and structrefs.

use super::val::{Val, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{self, Expr, ExprKind, StmtKind};
use crate::kernel::syntax::{Name, Span};
use crate::kernel::types::Ty;

impl Walker<'_> {
    pub(super) fn get_attribute(&mut self, object: Val, name: &Name, span: Span) -> Res<Val> {
        match object {
            Val::Host(value) => match self.world.attribute(&value, name)? {
                Some(found) => self.host(&found, name, span),
                None => self.refuse_at(
                    span,
                    format!("there is no attribute `{name}`"),
                    "look at what the module defines",
                ),
            },
            Val::Builtin(module) => {
                // Only the prelude sees modules in this form.
                Ok(super::prelude::attribute(&module, name))
            }
            Val::Run { ty: Ty::Optional(_), .. } => {
                let held = self.unwrap(object);
                self.get_attribute(held, name, span)
            }
            Val::Run { ty, expr, literal } => {
                let whole = |ty: Ty, expr: Expr| Ok(Val::run(ty, expr));
                match (&ty, &**name) {
                    (Ty::Array(array), attribute) => {
                        let array = array.clone();
                        if let Some(val) = self.array_attribute(&array, expr.clone(), attribute)? {
                            return Ok(val);
                        }
                    }
                    (Ty::Record(record), _) => {
                        if let Some(field) =
                            record.fields.iter().position(|field| field.name == *name)
                        {
                            return Ok(self.record_field(record, expr, field));
                        }
                    }
                    (Ty::StructRef(structref), _) => {
                        if let Some((index, field)) = structref.field(name) {
                            let kind = ExprKind::Attribute(Box::new(expr), index as u32);
                            let expr = Expr::new(kind, ir_type(field));
                            let field = field.clone();
                            return Ok(self.val_of(&field, expr));
                        }
                    }
                    (Ty::Complex128, "real") => {
                        return whole(Ty::Float64, Expr::unary(ir::UnaryOp::Real, expr));
                    }
                    (Ty::Complex128, "imag") => {
                        return whole(Ty::Float64, Expr::unary(ir::UnaryOp::Imag, expr));
                    }
                    (Ty::Int(_) | Ty::Float32 | Ty::Float64 | Ty::Bool, "real") => {
                        return whole(ty, expr);
                    }
                    (Ty::Int(_) | Ty::Float32 | Ty::Float64 | Ty::Bool, "imag") => {
                        let zero = Expr::int(0).cast(ir_type(&ty));
                        return whole(ty, zero);
                    }
                    _ => {}
                }
                Ok(Val::Method(Box::new(Val::Run { ty, expr, literal }), name.clone()))
            }
            Val::DType(ty) if &**name == "type" => Ok(Val::Class(ty)),
            Val::DType(ty) if &**name == "itemsize" => {
                Ok(Val::int(ty.item_size().unwrap_or(0) as i64))
            }
            other => Ok(Val::Method(Box::new(other), name.clone())),
        }
    }

    pub(super) fn record_field(
        &mut self,
        record: &crate::kernel::types::RecordTy,
        expr: Expr,
        field: usize,
    ) -> Val {
        let ty = record.fields[field].ty.clone();
        let expr = Expr::new(ExprKind::Field(Box::new(expr), field as u32), ir_type(&ty));
        Val::run(ty, expr)
    }

    pub(super) fn set_attribute(
        &mut self,
        object: Val,
        name: &Name,
        val: Val,
        span: Span,
    ) -> Res<()> {
        let object = self.unwrap(object);
        match object {
            Val::Run { ty: Ty::Record(record), expr, .. } => {
                let Some(field) = record.fields.iter().position(|field| field.name == *name) else {
                    return self.refuse_at(
                        span,
                        format!("the record has no field `{name}`"),
                        fields_hint(record.fields.iter().map(|field| &*field.name)),
                    );
                };
                let value = self.coerce(val, &record.fields[field].ty, span)?;
                self.emit(StmtKind::SetField { record: expr, field: field as u32, value });
                Ok(())
            }
            Val::Run { ty: Ty::StructRef(structref), expr, .. } => {
                let Some((field, ty)) = structref.field(name) else {
                    return self.refuse_at(
                        span,
                        format!("{} has no field `{name}`", structref.class),
                        fields_hint(structref.fields.iter().map(|(field, _)| &**field)),
                    );
                };
                let value = self.coerce(val, ty, span)?;
                self.emit(StmtKind::SetAttribute { object: expr, field: field as u32, value });
                Ok(())
            }
            other => self.refuse_at(
                span,
                format!("`{name}` of {} cannot be set", other.describe()),
                "set fields of records and structrefs only",
            ),
        }
    }
}

fn fields_hint<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("its fields are {}", names.collect::<Vec<_>>().join(", "))
}
