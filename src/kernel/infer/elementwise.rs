//! Element-wise expressions: ufuncs and operators over arrays, which lowering fuses into one loop.

use super::expr::is_array;
use super::math::math_named;
use super::ops::if_else;
use super::val::{Val, ir_scalar, ir_type};
use super::walk::{Res, Walker};
use crate::kernel::ir::{
    self, BinaryOp as Op, Elementwise, Expr, ExprKind, MathFn, OnZero, SetView, StmtKind,
    UnaryOp as Un,
};
use crate::kernel::rules::{self, Rule};
use crate::kernel::syntax::{BinaryOp, Span};
use crate::kernel::types::{Layout, Ty};

impl Walker<'_> {
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

    pub(super) fn tree(
        &mut self,
        vals: Vec<Val>,
        value: impl FnOnce(Vec<Expr>) -> Expr,
    ) -> Res<Elementwise> {
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

    pub(super) fn element_types(&self, vals: &[Val], span: Span) -> Res<Vec<Ty>> {
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
