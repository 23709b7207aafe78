//! The loop of a ufunc: a kernel on numbers, applied to each element of arrays.
//!
//! ```text
//!   f(x, y) -> z      each(xs, ys, zs):
//!                         all dense?  ── yes ─► for i in range(len(zs)): zs[i] = f(xs[i], ys[i])   the body itself, if it
//!                                     └─ no ──► the same on any strides: 0 for what is repeated    is plain; else a call
//! ```
//!
//! The arrays have one axis and one length, which whoever calls the loop sees to.

use super::facts::{each_assigned, each_expr, each_stmt};
use crate::kernel::ir::{
    Access, BinaryOp, Callee, CalleeId, Const, Element, Element1, Expr, ExprKind, For, Function,
    FunctionType, Label, Layout, Local, LocalId, Scalar, Stmt, StmtKind, Type,
};

/// A body with more expressions than this is called, not written out.
const MOST: usize = 200;

/// The signature of the loop of a kernel of this signature: an array for each parameter, one for the results. `None` if it
/// has none, because something is no scalar.
pub(crate) fn signature(of: &FunctionType) -> Option<FunctionType> {
    let array = |ty: &Type| Some(Type::array(ty.scalar()?, 1, Layout::A));
    let params = of.params.iter().chain([&of.result]).map(array).collect::<Option<_>>()?;
    Some(FunctionType { params, result: Type::None })
}

/// The loop of a kernel, which is linked by this name.
pub(crate) fn each(function: &Function, name: &str) -> Option<Function> {
    let types = function.params.iter().map(|param| function.locals[param.0 as usize].ty.clone());
    let of = FunctionType { params: types.collect(), result: function.result.clone() };
    let signature = signature(&of)?;
    let mut each = Each {
        of,
        kernel: function,
        callee: None,
        out: Function {
            name: function.name.clone(),
            params: Vec::new(),
            locals: function.locals.clone(),
            result: Type::None,
            body: Vec::new(),
            callees: function.callees.clone(),
            constants: function.constants.clone(),
            fastmath: function.fastmath,
        },
        label: 0,
    };
    each_stmt(&function.body, &mut |stmt| {
        if let StmtKind::Block(label, _) | StmtKind::Loop(label, _) = &stmt.kind {
            each.label = each.label.max(label.0);
        }
        if let StmtKind::For(rounds) = &stmt.kind {
            each.label = each.label.max(rounds.label.0);
        }
    });
    if !is_plain(function) {
        let callees = &mut each.out.callees;
        let known = callees.iter().position(|callee| callee.name == name);
        let at = known.unwrap_or_else(|| {
            callees.push(Callee { name: name.to_owned(), signature: each.of.clone() });
            callees.len() - 1
        });
        each.callee = Some(CalleeId(at as u32));
    }

    let arrays: Vec<LocalId> = signature.params.iter().map(|ty| each.local(ty.clone())).collect();
    each.out.params.clone_from(&arrays);
    let any = vec![each.round(&arrays)];
    let mut dense = Vec::new();
    let mut is_dense = None;
    let mut views = Vec::new();
    for &array in &arrays {
        let ty = each.out.locals[array.0 as usize].ty.clone();
        let scalar = scalar_of(&ty);
        let stride = int(ExprKind::Stride(Box::new(read(array, &ty)), 0));
        let size = int(ExprKind::Const(Const::Int(scalar.size().into())));
        let fits = Expr {
            kind: ExprKind::Binary(BinaryOp::Eq, Box::new(stride), Box::new(size)),
            ty: Type::BOOL,
        };
        is_dense = Some(match is_dense {
            None => fits,
            Some(before) => Expr {
                kind: ExprKind::Binary(BinaryOp::And, Box::new(before), Box::new(fits)),
                ty: Type::BOOL,
            },
        });
        let to = Type::array(scalar, 1, Layout::C);
        let view = each.local(to.clone());
        let value = Expr { kind: ExprKind::Relayout(Box::new(read(array, &ty))), ty: to };
        dense.push(stmt(StmtKind::Assign(view, value)));
        views.push(view);
    }
    dense.push(each.round(&views));
    each.out.body = vec![stmt(StmtKind::If(is_dense.expect("there is a result"), dense, any))];
    Some(each.out)
}

/// Whether a body can be written out in a loop: with locals that are scalars, so that a round leaves nothing to the next.
fn is_plain(function: &Function) -> bool {
    let mut size = 0;
    each_expr(&function.body, &mut |_| size += 1);
    let mut plain = size <= MOST;
    each_stmt(&function.body, &mut |stmt| {
        plain &= !matches!(stmt.kind, StmtKind::ParFor(_) | StmtKind::Try(..));
    });
    // A value that is returned from inside of an expression is not found there.
    let (mut all, mut found) = (0, 0);
    each_stmt(&function.body, &mut |stmt| all += usize::from(is_return(stmt)));
    count_returns(&function.body, &mut found);
    plain && all == found && function.locals.iter().all(|local| local.ty.scalar().is_some())
}

fn is_return(stmt: &Stmt) -> bool {
    matches!(stmt.kind, StmtKind::Return(_))
}

fn count_returns(body: &[Stmt], count: &mut usize) {
    for stmt in body {
        *count += usize::from(is_return(stmt));
        match &stmt.kind {
            StmtKind::If(_, then, otherwise) => {
                count_returns(then, count);
                count_returns(otherwise, count);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) => count_returns(body, count),
            StmtKind::For(rounds) => count_returns(&rounds.body, count),
            _ => {}
        }
    }
}

struct Each<'k> {
    kernel: &'k Function,
    /// The kernel's signature.
    of: FunctionType,
    /// The kernel, if it is called.
    callee: Option<CalleeId>,
    out: Function,
    /// The last label.
    label: u32,
}

impl Each<'_> {
    fn local(&mut self, ty: Type) -> LocalId {
        self.out.locals.push(Local { name: String::new(), ty });
        LocalId(self.out.locals.len() as u32 - 1)
    }

    fn label(&mut self) -> Label {
        self.label += 1;
        Label(self.label)
    }

    /// The loop over these arrays, the results last.
    fn round(&mut self, arrays: &[LocalId]) -> Stmt {
        let counter = self.local(Type::I64);
        let types: Vec<Type> =
            arrays.iter().map(|array| self.out.locals[array.0 as usize].ty.clone()).collect();
        let element = |at: usize| Element1 {
            array: read(arrays[at], &types[at]),
            indices: vec![read(counter, &Type::I64)],
            access: Access::InRange,
        };
        let load = |at: usize| {
            let ty = Type::Scalar(scalar_of(&types[at]));
            Expr { kind: ExprKind::Element(Box::new(element(at))), ty }
        };
        let last = arrays.len() - 1;
        let set = |value: Expr| stmt(StmtKind::SetElement(element(last), value));
        let result = self.of.result.clone();
        let mut body = Vec::new();
        if let Some(callee) = self.callee {
            let args = (0..last).map(load).collect();
            body.push(set(Expr { kind: ExprKind::Call(callee, args), ty: result }));
        } else {
            for (at, &param) in self.kernel.params.iter().enumerate() {
                body.push(stmt(StmtKind::Assign(param, load(at))));
            }
            let (end, straight) = match self.kernel.body.split_last() {
                Some((end, rest)) => {
                    let assigns = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Assign(..));
                    (Some(&end.kind), rest.iter().all(assigns).then_some(rest))
                }
                None => (None, None),
            };
            if let (Some(StmtKind::Return(Some(value))), Some(rest)) = (end, straight) {
                body.extend_from_slice(rest);
                body.push(set(value.clone()));
            } else {
                let mut unset = Vec::new();
                each_assigned(&self.kernel.body, &mut |local| unset.push(local));
                unset.retain(|local| !self.kernel.params.contains(local));
                unset.sort_unstable();
                unset.dedup();
                let value = self.local(result.clone());
                unset.push(value);
                for local in unset {
                    let ty = self.out.locals[local.0 as usize].ty.clone();
                    let nothing = Expr { kind: ExprKind::Const(Const::Unset), ty };
                    body.push(stmt(StmtKind::Assign(local, nothing)));
                }
                let label = self.label();
                let written = returning(&self.kernel.body, value, label);
                body.push(stmt(StmtKind::Block(label, written)));
                body.push(set(read(value, &result)));
            }
        }
        let label = self.label();
        let length = ExprKind::Length(Box::new(read(arrays[last], &types[last])), 0);
        stmt(StmtKind::For(Box::new(For {
            label,
            local: counter,
            start: int(ExprKind::Const(Const::Int(0))),
            stop: int(length),
            step: int(ExprKind::Const(Const::Int(1))),
            body,
        })))
    }
}

/// The statements with a block in place of the function around them: what they return goes to a local.
fn returning(body: &[Stmt], value: LocalId, label: Label) -> Vec<Stmt> {
    let mut written = Vec::with_capacity(body.len());
    for it in body {
        let inside = |body: &[Stmt]| returning(body, value, label);
        let kind = match &it.kind {
            StmtKind::Return(returned) => {
                if let Some(returned) = returned {
                    written.push(stmt(StmtKind::Assign(value, returned.clone())));
                }
                StmtKind::Leave(label)
            }
            StmtKind::If(condition, then, otherwise) => {
                StmtKind::If(condition.clone(), inside(then), inside(otherwise))
            }
            StmtKind::Block(own, body) => StmtKind::Block(*own, inside(body)),
            StmtKind::Loop(own, body) => StmtKind::Loop(*own, inside(body)),
            StmtKind::For(rounds) => {
                let body = inside(&rounds.body);
                StmtKind::For(Box::new(For { body, ..For::clone(rounds) }))
            }
            kind => kind.clone(),
        };
        written.push(Stmt { kind, site: it.site });
    }
    written
}

fn stmt(kind: StmtKind) -> Stmt {
    Stmt::new(kind)
}

fn read(local: LocalId, ty: &Type) -> Expr {
    Expr { kind: ExprKind::Local(local), ty: ty.clone() }
}

fn int(kind: ExprKind) -> Expr {
    Expr { kind, ty: Type::I64 }
}

fn scalar_of(array: &Type) -> Scalar {
    match array.as_array().map(|array| &array.element) {
        Some(Element::Scalar(scalar)) => *scalar,
        _ => unreachable!("an array of scalars"),
    }
}
