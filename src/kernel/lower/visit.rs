//! The expressions that statements and expressions hold themselves, to be seen and to be changed: one list for both.

use crate::kernel::ir::{Elementwise, Expr, ExprKind, Fill, For, Stmt, StmtKind, Subscript};

macro_rules! visitors {
    ($stmt:ident, $expr:ident, $tree:ident, $iter:ident $(, $mut:tt)?) => {
        /// The expressions that a statement holds itself.
        pub(super) fn $stmt<'e>(stmt: &'e $($mut)? Stmt, visit: &mut dyn FnMut(&'e $($mut)? Expr)) {
            let mut rounds = |rounds: &'e $($mut)? For| {
                visit(&$($mut)? rounds.start);
                visit(&$($mut)? rounds.stop);
                visit(&$($mut)? rounds.step);
            };
            match &$($mut)? stmt.kind {
                StmtKind::For(it) => rounds(it),
                StmtKind::ParFor(it) => rounds(&$($mut)? it.rounds),
                StmtKind::Assign(_, value)
                | StmtKind::Eval(value)
                | StmtKind::If(value, ..)
                | StmtKind::Return(Some(value)) => visit(value),
                StmtKind::Raise(raise) => raise.args.$iter().for_each(visit),
                StmtKind::Print(values) => values.$iter().for_each(visit),
                StmtKind::SetElement(element, value) => {
                    visit(&$($mut)? element.array);
                    element.indices.$iter().for_each(&mut *visit);
                    visit(value);
                }
                StmtKind::SetView(set) => {
                    visit(&$($mut)? set.target);
                    $tree(&$($mut)? set.value, visit);
                }
                StmtKind::SetField { record: a, value, .. }
                | StmtKind::SetAttribute { object: a, value, .. } => {
                    visit(a);
                    visit(value);
                }
                StmtKind::Block(..)
                | StmtKind::Try(..)
                | StmtKind::RaiseAgain
                | StmtKind::Loop(..)
                | StmtKind::Leave(_)
                | StmtKind::Next(_)
                | StmtKind::Return(None) => {}
            }
        }

        fn $tree<'e>(tree: &'e $($mut)? Elementwise, visit: &mut dyn FnMut(&'e $($mut)? Expr)) {
            tree.inputs.$iter().for_each(&mut *visit);
            visit(&$($mut)? tree.value);
        }

        /// The expressions that an expression holds itself; not those of its statements.
        pub(super) fn $expr<'e>(expr: &'e $($mut)? Expr, visit: &mut dyn FnMut(&'e $($mut)? Expr)) {
            match &$($mut)? expr.kind {
                ExprKind::Const(_) | ExprKind::Constant(_) | ExprKind::Local(_) => {}
                ExprKind::Cast(a)
                | ExprKind::Unary(_, a)
                | ExprKind::PowConst(_, a, _)
                | ExprKind::IsNone(a)
                | ExprKind::Item(a, _)
                | ExprKind::StrLen(a)
                | ExprKind::Length(a, _)
                | ExprKind::Stride(a, _)
                | ExprKind::Size(a)
                | ExprKind::Transpose(a, _)
                | ExprKind::Part(a, _)
                | ExprKind::Relayout(a)
                | ExprKind::Field(a, _)
                | ExprKind::Attribute(a, _)
                | ExprKind::Block(_, a) => visit(a),
                ExprKind::Binary(_, a, b)
                | ExprKind::DivMod(_, a, b)
                | ExprKind::Complex(a, b)
                | ExprKind::ItemAt(a, b, _) => {
                    visit(a);
                    visit(b);
                }
                ExprKind::IfElse(a, b, c) => {
                    visit(a);
                    visit(b);
                    visit(c);
                }
                ExprKind::Math(_, all)
                | ExprKind::Tuple(all)
                | ExprKind::Text(all)
                | ExprKind::Call(_, all)
                | ExprKind::ArrayOf(_, all)
                | ExprKind::NewStruct(all) => all.$iter().for_each(visit),
                ExprKind::Reshape(a, all) => {
                    visit(a);
                    all.$iter().for_each(visit);
                }
                ExprKind::NewArray(shape, fill) => {
                    shape.$iter().for_each(&mut *visit);
                    if let Fill::Value(value) = fill {
                        visit(value);
                    }
                }
                ExprKind::Element(element) => {
                    visit(&$($mut)? element.array);
                    element.indices.$iter().for_each(visit);
                }
                ExprKind::View(a, subscripts) => {
                    visit(a);
                    for subscript in subscripts {
                        match subscript {
                            Subscript::Index(index, _) => visit(index),
                            Subscript::Slice(a, b, c) => {
                                [a, b, c].into_iter().flatten().for_each(&mut *visit);
                            }
                            Subscript::Full | Subscript::NewAxis => {}
                        }
                    }
                }
                ExprKind::Map(tree) => $tree(tree, visit),
                ExprKind::Fold(fold) => {
                    $tree(&$($mut)? fold.value, visit);
                    if let Some(raise) = &$($mut)? fold.empty {
                        raise.args.$iter().for_each(visit);
                    }
                }
            }
        }
    };
}

visitors!(stmt_exprs, expr_children, tree_exprs, iter);
visitors!(stmt_exprs_mut, expr_children_mut, tree_exprs_mut, iter_mut, mut);
