//! Element-wise trees on vectors of 128 bits: two or four elements at a time.
//!
//! A tree can be computed so if all of its scalars have the size of the result's, and nothing in it branches, calls or
//! raises; a choice becomes a selection by a mask of bits.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type as ClifType, Value};
use cranelift_frontend::Variable;

use super::elementwise::{Source, Tree, is_instruction};
use super::r#gen::{Gen, heap};
use super::scalar::{clif, float_condition, int_condition};
use super::visit::expr_children;
use crate::kernel::ir::{
    BinaryOp, Const, Expr, ExprKind, FoldOp, LocalId, MathFn, OnZero, Scalar, UnaryOp,
};

/// How many vectors are computed in one round of a loop.
pub(super) const VECTORS: u32 = 2;

/// What is known where the values of some elements are computed.
#[derive(Clone, Copy)]
pub(super) struct Strip<'k> {
    /// Locals that have a value in each lane; the last of a name counts.
    pub(super) known: &'k [(LocalId, Value)],
    pub(super) lanes: u32,
    /// How far behind the counter the first of the elements is.
    pub(super) next: u32,
}

impl<'a> Gen<'a, '_> {
    /// How many elements fit a vector, if the tree can be computed on vectors.
    pub(super) fn vector_step(
        &self,
        tree: &Tree<'a>,
        sources: &[Source],
        out: Scalar,
    ) -> Option<u32> {
        let lanes = match out {
            Scalar::F64 | Scalar::I64 | Scalar::U64 => 2,
            Scalar::F32 | Scalar::I32 | Scalar::U32 => 4,
            _ => return None,
        };
        let size = out.size();
        let mut is_local = |leaf: &Expr| matches!(leaf.kind, ExprKind::Local(_));
        let fits =
            sources.iter().all(|source| source.scalar.size() == size && is_vector(source.scalar))
                && !sources.is_empty()
                && tree.exprs().all(|expr| can_be_vector(expr, size, &mut is_local))
                && tree.inputs.iter().all(|input| {
                    let ty = &input.expr.ty;
                    let fits = |scalar: Scalar| scalar.size() == size && is_vector(scalar);
                    ty.as_array().is_some() || ty.scalar().is_some_and(fits)
                });
        fits.then_some(lanes)
    }

    /// What does not change in the loop, in every lane of a vector.
    pub(super) fn splats(
        &mut self,
        tree: &Tree<'a>,
        sources: &[Source],
        lanes: u32,
    ) -> Vec<(LocalId, Value)> {
        let mut own: Vec<LocalId> = sources.iter().map(|source| source.param).collect();
        own.extend(tree.lets.iter().map(|(param, _)| *param));
        let mut outer = Vec::new();
        for expr in tree.exprs() {
            each_local(expr, &mut |local| {
                if !own.contains(&local) && !outer.contains(&local) {
                    outer.push(local);
                }
            });
        }
        let splat = |local: LocalId| {
            let value = self.get_vars(local)[0];
            let ty = self.b.func.dfg.value_type(value).by(lanes).expect("128 bits");
            (local, self.b.ins().splat(ty, value))
        };
        outer.into_iter().map(splat).collect()
    }

    /// The values of the tree from element `at + next` on.
    pub(super) fn vector_element(
        &mut self,
        tree: &Tree<'a>,
        sources: &[Source],
        constants: &[(LocalId, Value)],
        at: Value,
        next: u32,
        lanes: u32,
    ) -> Value {
        let mut known = constants.to_vec();
        for source in sources {
            let offset = self.scale(at, source.scalar.size());
            let address = self.b.ins().iadd(source.data, offset);
            let ty = clif(source.scalar).by(lanes).expect("128 bits");
            let offset = (next * source.scalar.size()) as i32;
            let value = self.b.ins().load(ty, heap(), address, offset);
            known.push((source.param, value));
        }
        for (param, expr) in &tree.lets {
            let value = self.vector(expr, Strip { known: &known, lanes, next });
            known.push((*param, value));
        }
        self.vector(tree.value, Strip { known: &known, lanes, next })
    }

    pub(super) fn vector_sum(
        &mut self,
        tree: &Tree<'a>,
        sources: &[Source],
        scalar: Scalar,
        count: Value,
        lanes: u32,
        acc: &[Variable],
    ) -> Value {
        let ty = clif(scalar).by(lanes).expect("128 bits");
        let zero =
            if scalar.is_float() { self.float_of(scalar, 0.0) } else { self.int_of(scalar, 0) };
        let zero = self.b.ins().splat(ty, zero);
        // Sums of their own, which do not wait for each other.
        let sums: Vec<Variable> = (0..VECTORS).map(|_| self.b.declare_var(ty)).collect();
        for sum in &sums {
            self.b.def_var(*sum, zero);
        }
        let constants = self.splats(tree, sources, lanes);
        let begin = self.int(0);
        let width = VECTORS * lanes;
        let end = self.b.ins().band_imm_s(count, -i64::from(width));
        self.step_to(begin, end, i64::from(width), |this, at| {
            for (vector, sum) in sums.iter().enumerate() {
                let next = vector as u32 * lanes;
                let value = this.vector_element(tree, sources, &constants, at, next, lanes);
                let before = this.b.use_var(*sum);
                let joined = if scalar.is_float() {
                    this.b.ins().fadd(before, value)
                } else {
                    this.b.ins().iadd(before, value)
                };
                this.b.def_var(*sum, joined);
            }
        });
        for sum in sums {
            let sum = self.b.use_var(sum);
            for lane in 0..lanes {
                let part = self.b.ins().extractlane(sum, lane as u8);
                self.join_in(FoldOp::Sum, scalar, acc, &[part]);
            }
        }
        end
    }

    pub(super) fn vector(&mut self, expr: &'a Expr, strip: Strip<'_>) -> Value {
        match &expr.kind {
            ExprKind::Local(local) => {
                let found = strip.known.iter().rev().find(|(param, _)| param == local);
                found.expect("splat or computed before").1
            }
            ExprKind::Const(_) => {
                let value = self.expr(expr)[0];
                let ty = self.b.func.dfg.value_type(value).by(strip.lanes).expect("128 bits");
                self.b.ins().splat(ty, value)
            }
            ExprKind::Element(element) => {
                let scalar = expr.ty.scalar().expect("looked at before");
                let address = self.address_of(element);
                let ty = clif(scalar).by(strip.lanes).expect("128 bits");
                let offset = (strip.next * scalar.size()) as i32;
                self.b.ins().load(ty, heap(), address, offset)
            }
            ExprKind::Cast(inner) => self.vector(inner, strip),
            ExprKind::Unary(op, x) => {
                let is_float = x.ty.scalar().is_some_and(Scalar::is_float);
                let x = self.vector(x, strip);
                match op {
                    UnaryOp::Neg if is_float => self.b.ins().fneg(x),
                    UnaryOp::Neg => self.b.ins().ineg(x),
                    UnaryOp::Abs if is_float => self.b.ins().fabs(x),
                    UnaryOp::Abs => self.b.ins().iabs(x),
                    _ => self.b.ins().bnot(x),
                }
            }
            ExprKind::Math(function, args) => {
                let x = self.vector(&args[0], strip);
                match function {
                    MathFn::Sqrt => self.b.ins().sqrt(x),
                    MathFn::Floor => self.b.ins().floor(x),
                    MathFn::Ceil => self.b.ins().ceil(x),
                    MathFn::Trunc => self.b.ins().trunc(x),
                    _ => self.b.ins().nearest(x),
                }
            }
            ExprKind::PowConst(_, x, exponent) => {
                let is_float = x.ty.scalar().is_some_and(Scalar::is_float);
                let mut square = self.vector(x, strip);
                let mut result = None;
                let mut left = *exponent;
                while left != 0 {
                    if left & 1 == 1 {
                        result = Some(match result {
                            Some(result) => self.times(is_float, result, square),
                            None => square,
                        });
                    }
                    left >>= 1;
                    if left != 0 {
                        square = self.times(is_float, square, square);
                    }
                }
                result.expect("the exponent is positive")
            }
            ExprKind::IfElse(condition, a, b) => {
                let mask = self.vector_mask(condition, strip);
                let (a, b) = (self.vector(a, strip), self.vector(b, strip));
                self.choose(mask, a, b)
            }
            ExprKind::Binary(op, a, b) => {
                let scalar = a.ty.scalar().expect("checked");
                let (x, y) = (self.vector(a, strip), self.vector(b, strip));
                self.vector_binary(*op, scalar, x, y)
            }
            _ => unreachable!("looked at before"),
        }
    }

    fn times(&mut self, is_float: bool, a: Value, b: Value) -> Value {
        if is_float { self.b.ins().fmul(a, b) } else { self.b.ins().imul(a, b) }
    }

    /// `a` where the mask's bits are set, `b` elsewhere.
    fn choose(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        let mask = self.like(mask, ty);
        self.b.ins().bitselect(mask, a, b)
    }

    /// The same bits as a vector of another type.
    fn like(&mut self, value: Value, ty: ClifType) -> Value {
        if self.b.func.dfg.value_type(value) == ty {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.b.ins().bitcast(ty, flags, value)
    }

    fn vector_mask(&mut self, condition: &'a Expr, strip: Strip<'_>) -> Value {
        let ExprKind::Binary(op, a, b) = &condition.kind else { unreachable!("looked at before") };
        let scalar = a.ty.scalar().expect("checked");
        let (x, y) = (self.vector(a, strip), self.vector(b, strip));
        self.vector_compare(*op, scalar, x, y)
    }

    fn vector_compare(&mut self, op: BinaryOp, scalar: Scalar, x: Value, y: Value) -> Value {
        if scalar.is_float() {
            self.b.ins().fcmp(float_condition(op), x, y)
        } else {
            self.b.ins().icmp(int_condition(op, scalar.is_signed()), x, y)
        }
    }

    fn vector_binary(&mut self, op: BinaryOp, scalar: Scalar, x: Value, y: Value) -> Value {
        let is_float = scalar.is_float();
        match op {
            BinaryOp::Add if is_float => self.b.ins().fadd(x, y),
            BinaryOp::Add => self.b.ins().iadd(x, y),
            BinaryOp::Sub if is_float => self.b.ins().fsub(x, y),
            BinaryOp::Sub => self.b.ins().isub(x, y),
            BinaryOp::Mul => self.times(is_float, x, y),
            BinaryOp::TrueDiv(_) => self.b.ins().fdiv(x, y),
            BinaryOp::FloorDiv(_) => {
                let quotient = self.b.ins().fdiv(x, y);
                self.b.ins().floor(quotient)
            }
            BinaryOp::And => self.b.ins().band(x, y),
            BinaryOp::Or => self.b.ins().bor(x, y),
            BinaryOp::Xor => self.b.ins().bxor(x, y),
            BinaryOp::Min => {
                let less = self.vector_compare(BinaryOp::Lt, scalar, y, x);
                self.choose(less, y, x)
            }
            BinaryOp::Max => {
                let greater = self.vector_compare(BinaryOp::Gt, scalar, y, x);
                self.choose(greater, y, x)
            }
            // Minimum and maximum: of equals the first; not-a-number wins.
            _ => {
                let keep = if op == BinaryOp::Minimum { BinaryOp::Le } else { BinaryOp::Ge };
                let mut first = self.vector_compare(keep, scalar, x, y);
                if is_float {
                    let is_nan = self.b.ins().fcmp(FloatCC::Unordered, x, x);
                    first = self.b.ins().bor(first, is_nan);
                }
                self.choose(first, x, y)
            }
        }
    }
}

/// Whether vectors of these can be computed with.
pub(super) fn is_vector(scalar: Scalar) -> bool {
    use Scalar::{F32, F64, I32, I64, U32, U64};
    matches!(scalar, F64 | F32 | I64 | U64 | I32 | U32)
}

/// Whether an expression can be computed on vectors of scalars of this size: without branches, calls and errors. What it
/// says of locals and elements, `leaf` has to allow too.
pub(super) fn can_be_vector<'e>(
    expr: &'e Expr,
    size: u32,
    leaf: &mut dyn FnMut(&'e Expr) -> bool,
) -> bool {
    let Some(scalar) = expr.ty.scalar() else { return false };
    if !is_vector(scalar) || scalar.size() != size {
        return false;
    }
    let mut all = |exprs: &[&'e Expr]| exprs.iter().all(|expr| can_be_vector(expr, size, leaf));
    match &expr.kind {
        ExprKind::Local(_) | ExprKind::Element(_) => leaf(expr),
        ExprKind::Const(constant) => matches!(constant, Const::Int(_) | Const::Float(_)),
        // Between signed and unsigned: the same bits.
        ExprKind::Cast(x) => {
            let is_int = x.ty.scalar().is_some_and(Scalar::is_int);
            (x.ty == expr.ty || is_int && scalar.is_int()) && all(&[x])
        }
        ExprKind::Unary(op, x) => {
            let fits = match op {
                UnaryOp::Neg => true,
                UnaryOp::Abs => scalar.is_float() || scalar.is_signed(),
                UnaryOp::Invert => scalar.is_int(),
                _ => false,
            };
            fits && all(&[x])
        }
        ExprKind::Math(function, args) => {
            is_instruction(*function) && *function != MathFn::CopySign && all(&[&args[0]])
        }
        ExprKind::PowConst(_, x, exponent) => *exponent > 0 && all(&[x]),
        ExprKind::IfElse(condition, a, b) => {
            let ExprKind::Binary(op, x, y) = &condition.kind else { return false };
            op.is_comparison() && all(&[x, y, a, b])
        }
        ExprKind::Binary(op, x, y) => {
            let fits = match op {
                BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => true,
                BinaryOp::TrueDiv(zero) => *zero != OnZero::Raise,
                BinaryOp::FloorDiv(zero) => *zero == OnZero::Ufunc && scalar.is_float(),
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => scalar.is_int(),
                BinaryOp::Min | BinaryOp::Max | BinaryOp::Minimum | BinaryOp::Maximum => true,
                _ => false,
            };
            fits && all(&[x, y])
        }
        _ => false,
    }
}

fn each_local(expr: &Expr, visit: &mut dyn FnMut(LocalId)) {
    if let ExprKind::Local(local) = expr.kind {
        visit(local);
    }
    expr_children(expr, &mut |child| each_local(child, visit));
}
