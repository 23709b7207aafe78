//! Constant expressions, folded as Python's compiler folds them.

use crate::kernel::syntax::{self, BinaryOp, ExprKind as S, UnaryOp};

/// A constant that CPython folds before Numba sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Folded {
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

/// The value of an expression of number literals, as CPython's compiler folds it.
pub(super) fn fold(expr: &syntax::Expr) -> Option<Folded> {
    use Folded as F;
    match &expr.kind {
        S::Int(value) => Some(F::Int(*value)),
        S::Float(value) => Some(F::Float(*value)),
        S::Imaginary(value) => Some(F::Complex(0.0, *value)),
        S::Unary { op, value } => match (op, fold(value)?) {
            (UnaryOp::Minus, F::Int(value)) => Some(F::Int(-value)),
            (UnaryOp::Minus, F::Float(value)) => Some(F::Float(-value)),
            (UnaryOp::Minus, F::Complex(re, im)) => Some(F::Complex(-re, -im)),
            (UnaryOp::Plus, value) => Some(value),
            (UnaryOp::Invert, F::Int(value)) => Some(F::Int(!value)),
            _ => None,
        },
        S::Binary { left, op, right } => fold_binary(*op, fold(left)?, fold(right)?),
        _ => None,
    }
}

fn fold_binary(op: BinaryOp, a: Folded, b: Folded) -> Option<Folded> {
    use BinaryOp as B;
    use Folded as F;
    let float = |value: Folded| match value {
        F::Int(value) => Some(value as f64),
        F::Float(value) => Some(value),
        F::Complex(..) => None,
    };
    let complex = |value: Folded| match value {
        F::Complex(re, im) => (re, im),
        F::Int(value) => (value as f64, 0.0),
        F::Float(value) => (value, 0.0),
    };
    match (a, b) {
        (F::Int(a), F::Int(b)) => Some(match op {
            B::Add => F::Int(a.checked_add(b)?),
            B::Sub => F::Int(a.checked_sub(b)?),
            B::Mul => F::Int(a.checked_mul(b)?),
            B::Div if b != 0 => F::Float(a as f64 / b as f64),
            B::FloorDiv if b != 0 => {
                let floor = a.checked_div_euclid(b)?;
                F::Int(if b < 0 && a.checked_rem_euclid(b)? != 0 { floor - 1 } else { floor })
            }
            B::Mod if b != 0 => {
                let rest = a.checked_rem(b)?;
                F::Int(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
            }
            B::Pow if b >= 0 => F::Int(a.checked_pow(u32::try_from(b).ok()?)?),
            B::Pow if a != 0 => F::Float((a as f64).powf(b as f64)),
            B::Shl if (0..100).contains(&b) => F::Int(a.checked_mul(1i128.checked_shl(b as u32)?)?),
            B::Shr if (0..128).contains(&b) => F::Int(a >> b),
            B::BitAnd => F::Int(a & b),
            B::BitOr => F::Int(a | b),
            B::BitXor => F::Int(a ^ b),
            _ => return None,
        }),
        (F::Complex(..), _) | (_, F::Complex(..)) => {
            let ((a, b), (c, d)) = (complex(a), complex(b));
            Some(match op {
                B::Add => F::Complex(a + c, b + d),
                B::Sub => F::Complex(a - c, b - d),
                B::Mul => F::Complex(a * c - b * d, a * d + b * c),
                _ => return None,
            })
        }
        _ => {
            let (a, b) = (float(a)?, float(b)?);
            Some(match op {
                B::Add => F::Float(a + b),
                B::Sub => F::Float(a - b),
                B::Mul => F::Float(a * b),
                B::Div if b != 0.0 => F::Float(a / b),
                B::Pow if a > 0.0 || b.fract() == 0.0 && a != 0.0 => F::Float(a.powf(b)),
                _ => return None,
            })
        }
    }
}
