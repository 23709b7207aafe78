//! Element-wise trees: maps, folds, and assignments to views. One loop each, whatever they are made of.
//!
//! ```text
//!   a * (1 - t) + b * t      inputs a, t, b ─► sources (arrays), constants of the loop (scalars)
//!                            nested maps   ─► lets: values computed in between, never stored
//!
//!   all sources dense, of one shape?  ── yes ─► one flat loop, two or four elements at a time where possible
//!                                     └─ no ──► a loop per axis, strides of repeated axes are 0
//! ```

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::Variable;

use super::r#gen::{Gen, Lanes, heap};
use super::vector::VECTORS;
use super::visit::expr_children;
use crate::kernel::abi;
use crate::kernel::ir::{
    ArrayType, BinaryOp, Element, Elementwise, Expr, ExprKind, Fold, FoldOp, Layout, LocalId,
    MathFn, Overlap, Scalar, SetView, Type,
};

/// A tree with the maps inside of it written out.
pub(super) struct Tree<'a> {
    pub(super) inputs: Vec<Input<'a>>,
    /// What nested maps compute of one element, in order.
    pub(super) lets: Vec<(LocalId, &'a Expr)>,
    pub(super) value: &'a Expr,
}

/// An input of a tree, or of a map inside of it.
pub(super) struct Input<'a> {
    pub(super) expr: &'a Expr,
    param: LocalId,
    /// Whether it is of a map inside of the tree: that map's values are of the time before the tree's first is used.
    is_inner: bool,
}

/// An array that is read or written element by element.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) param: LocalId,
    pub(super) scalar: Scalar,
    pub(super) data: Value,
    shape: Vec<Value>,
    strides: Vec<Value>,
    layout: Layout,
    /// Whether it was made for this tree alone, so that it overlaps with nothing.
    is_fresh: bool,
    /// Whether it is read by a map inside of the tree.
    is_inner: bool,
    /// Which input it is, for messages.
    number: usize,
}

impl<'a> Tree<'a> {
    fn of(tree: &'a Elementwise) -> Self {
        let mut flat = Tree { inputs: Vec::new(), lets: Vec::new(), value: &tree.value };
        flat.add(tree, false);
        flat
    }

    fn add(&mut self, tree: &'a Elementwise, is_inner: bool) {
        let arrays = tree.inputs.iter().filter(|input| input.ty.as_array().is_some()).count();
        // A call between the inner tree and the loop might change what the inner one reads.
        let calls = tree.inputs.iter().any(calls);
        for (expr, &param) in tree.inputs.iter().zip(&tree.params) {
            match &expr.kind {
                // An inner tree that is repeated along an axis would be computed anew: fine if it is cheap.
                ExprKind::Map(inner) if !calls && (arrays == 1 || !is_costly(&inner.value)) => {
                    self.add(inner, true);
                    self.lets.push((param, &inner.value));
                }
                _ => self.inputs.push(Input { expr, param, is_inner }),
            }
        }
    }

    pub(super) fn exprs(&self) -> impl Iterator<Item = &'a Expr> + '_ {
        self.lets.iter().map(|(_, expr)| *expr).chain(std::iter::once(self.value))
    }
}

/// Whether evaluating an expression may change arrays.
fn calls(expr: &Expr) -> bool {
    let mut found = matches!(expr.kind, ExprKind::Call(..) | ExprKind::Block(..));
    expr_children(expr, &mut |child| found = found || calls(child));
    found
}

/// Whether an expression calls something, or has statements.
fn is_costly(expr: &Expr) -> bool {
    let here = match &expr.kind {
        ExprKind::Call(..) | ExprKind::Block(..) | ExprKind::Text(..) => true,
        ExprKind::Math(function, _) => !is_instruction(*function),
        ExprKind::Binary(op, a, _) => {
            use BinaryOp::{Gcd, Lcm, Pow, PowInt};
            matches!(op, Pow(_) | PowInt | Gcd | Lcm) || a.ty == Type::C128
        }
        _ => false,
    };
    let mut found = here;
    expr_children(expr, &mut |child| found = found || is_costly(child));
    found
}

/// Whether a function is an instruction of the processor.
pub(super) fn is_instruction(function: MathFn) -> bool {
    use MathFn::{Ceil, CopySign, Floor, Rint, Sqrt, Trunc};
    matches!(function, Sqrt | Floor | Ceil | Trunc | Rint | CopySign)
}

impl<'a> Gen<'a, '_> {
    /// A new array of a tree's values.
    pub(super) fn map(&mut self, tree: &'a Elementwise, ty: &ArrayType) -> Lanes {
        let tree = Tree::of(tree);
        let sources = self.sources(&tree);
        let shape = self.broadcast(&sources, ty.ndim as usize);
        let lanes = self.allocate(&shape, ty, false);
        let Element::Scalar(scalar) = ty.element else { unreachable!("checked") };
        let strides = self.dense_strides(&shape, scalar.size(), ty.layout);
        let out = Source {
            param: LocalId(0),
            scalar,
            data: lanes[1],
            shape: shape.clone(),
            strides,
            layout: ty.layout,
            is_fresh: true,
            is_inner: false,
            number: 0,
        };
        self.fill(&tree, &sources, &out, None);
        lanes
    }

    /// `target[...] = tree`.
    pub(super) fn set_view(&mut self, set: &'a SetView) {
        let tree = Tree::of(&set.value);
        let target = self.operand(&set.target, set.value.inputs.iter());
        let ty = set.target.ty.as_array().expect("checked");
        let out = self.source(&target, ty, LocalId(0), 0, false);
        let mut sources = self.sources(&tree);
        let ndim = sources.iter().map(|source| source.shape.len()).max().unwrap_or(0);
        let shape = self.broadcast(&sources, ndim);
        self.check_assigned(&shape, &out.shape, set.overlap);

        let mut in_order = None;
        for source in &mut sources {
            if source.is_fresh {
                continue;
            }
            let overlaps = self.overlaps(source, &out);
            match set.overlap {
                Overlap::InOrder if !source.is_inner => {
                    in_order = Some(match in_order {
                        Some(before) => self.b.ins().bor(before, overlaps),
                        None => overlaps,
                    });
                }
                _ => self.copy_if(overlaps, source),
            }
        }
        self.fill(&tree, &sources, &out, in_order);
    }

    /// Writes a tree's values to `out`, whose shape its sources are repeated to. `in_order`, if it is set when it runs,
    /// forbids to compute several elements at once.
    fn fill(&mut self, tree: &Tree<'a>, sources: &[Source], out: &Source, in_order: Option<Value>) {
        let scalar = out.scalar;
        let step = self.vector_step(tree, sources, scalar);
        let (flat, general) = self.ways(tree, sources, Some(out), in_order);
        let behind = self.b.create_block();
        if let Some((block, count)) = flat {
            self.b.switch_to_block(block);
            self.b.seal_block(block);
            let mut begin = self.int(0);
            if let Some(lanes) = step {
                let width = VECTORS * lanes;
                let end = self.b.ins().band_imm_s(count, -i64::from(width));
                let constants = self.splats(tree, sources, lanes);
                self.step_to(begin, end, i64::from(width), |this, at| {
                    let offset = this.scale(at, scalar.size());
                    let address = this.b.ins().iadd(out.data, offset);
                    for vector in 0..VECTORS {
                        let next = vector * lanes;
                        let value = this.vector_element(tree, sources, &constants, at, next, lanes);
                        let offset = (next * scalar.size()) as i32;
                        this.b.ins().store(heap(), value, address, offset);
                    }
                });
                begin = end;
            }
            self.step_to(begin, count, 1, |this, at| {
                let value = this.flat_element(tree, sources, at);
                let offset = this.scale(at, scalar.size());
                let address = this.b.ins().iadd(out.data, offset);
                this.store_scalar(scalar, address, 0, &value);
            });
            self.b.ins().jump(behind, &[]);
        }
        if let Some(block) = general {
            self.b.switch_to_block(block);
            self.b.seal_block(block);
            let mut all = sources.to_vec();
            all.push(out.clone());
            self.axes(&out.shape, all, out.layout == Layout::F, &mut |this, addresses| {
                let (to, from) = addresses.split_last().expect("the target is the last");
                let value = this.element_at(tree, sources, from);
                this.store_scalar(scalar, *to, 0, &value);
            });
            self.b.ins().jump(behind, &[]);
        }
        self.b.switch_to_block(behind);
        self.b.seal_block(behind);
    }

    /// All of a tree's values folded into one.
    pub(super) fn fold(&mut self, fold: &'a Fold, ty: &Type) -> Lanes {
        let scalar = ty.scalar().expect("checked");
        let tree = Tree::of(&fold.value);
        let sources = self.sources(&tree);
        let ndim = sources.iter().map(|source| source.shape.len()).max().unwrap_or(0);
        let shape = self.broadcast(&sources, ndim);
        if let Some(raise) = &fold.empty {
            let total = self.product(&shape);
            let (empty, go_on) = (self.b.create_block(), self.b.create_block());
            self.b.set_cold_block(empty);
            self.b.ins().brif(total, go_on, &[], empty, &[]);
            self.b.switch_to_block(empty);
            self.b.seal_block(empty);
            self.raise(raise);
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(go_on);
            self.b.seal_block(go_on);
        }
        let first = match fold.op {
            FoldOp::Min | FoldOp::Max => {
                let addresses: Vec<Value> = sources.iter().map(|source| source.data).collect();
                self.element_at(&tree, &sources, &addresses)
            }
            op => self.neutral(op, scalar),
        };
        let acc: Vec<Variable> =
            abi::lanes(ty).iter().map(|lane| self.b.declare_var(lane.clif())).collect();
        self.set(&acc, &first);

        let joins = fold.op == FoldOp::Sum && (scalar.is_int() || self.ir.fastmath);
        let step = if joins { self.vector_step(&tree, &sources, scalar) } else { None };
        let (flat, general) = self.ways(&tree, &sources, None, None);
        let behind = self.b.create_block();
        if let Some((block, count)) = flat {
            self.b.switch_to_block(block);
            self.b.seal_block(block);
            let mut begin = self.int(0);
            if let Some(lanes) = step {
                begin = self.vector_sum(&tree, &sources, scalar, count, lanes, &acc);
            }
            self.step_to(begin, count, 1, |this, at| {
                let value = this.flat_element(&tree, &sources, at);
                this.join_in(fold.op, scalar, &acc, &value);
            });
            self.b.ins().jump(behind, &[]);
        }
        if let Some(block) = general {
            self.b.switch_to_block(block);
            self.b.seal_block(block);
            self.axes(&shape, sources.clone(), false, &mut |this, addresses| {
                let value = this.element_at(&tree, &sources, addresses);
                this.join_in(fold.op, scalar, &acc, &value);
            });
            self.b.ins().jump(behind, &[]);
        }
        self.b.switch_to_block(behind);
        self.b.seal_block(behind);
        acc.iter().map(|var| self.b.use_var(*var)).collect()
    }

    fn set(&mut self, vars: &[Variable], values: &[Value]) {
        for (var, value) in vars.iter().zip(values) {
            self.b.def_var(*var, *value);
        }
    }

    pub(super) fn join_in(
        &mut self,
        op: FoldOp,
        scalar: Scalar,
        acc: &[Variable],
        value: &[Value],
    ) {
        let before: Lanes = acc.iter().map(|var| self.b.use_var(*var)).collect();
        let joined = self.join_values(op, scalar, &before, value);
        self.set(acc, &joined);
    }

    /// Two partial results in one.
    pub(super) fn join_values(
        &mut self,
        op: FoldOp,
        scalar: Scalar,
        a: &[Value],
        b: &[Value],
    ) -> Lanes {
        let op = match op {
            FoldOp::Sum => BinaryOp::Add,
            FoldOp::Product => BinaryOp::Mul,
            FoldOp::Min => BinaryOp::Minimum,
            FoldOp::Max => BinaryOp::Maximum,
            FoldOp::And => BinaryOp::And,
            FoldOp::Or => BinaryOp::Or,
            FoldOp::Xor => BinaryOp::Xor,
        };
        self.binary(op, scalar, a, b, None)
    }

    /// What changes nothing when it is joined; of `Min` and `Max` there is none.
    pub(super) fn neutral(&mut self, op: FoldOp, scalar: Scalar) -> Lanes {
        let number = |this: &mut Self, value: f64| match scalar {
            Scalar::C128 => vec![this.b.ins().f64const(value), this.b.ins().f64const(0.0)],
            _ if scalar.is_float() => vec![this.float_of(scalar, value)],
            _ => vec![this.int_of(scalar, value as i64)],
        };
        match op {
            FoldOp::Product => number(self, 1.0),
            FoldOp::And if scalar == Scalar::Bool => vec![self.int_of(scalar, 1)],
            FoldOp::And => vec![self.int_of(scalar, -1)],
            _ => number(self, 0.0),
        }
    }

    // Sources.

    /// Evaluates a tree's inputs: arrays become sources, scalars constants of the loop.
    fn sources(&mut self, tree: &Tree<'a>) -> Vec<Source> {
        let mut sources = Vec::new();
        for (at, input) in tree.inputs.iter().enumerate() {
            let later = tree.inputs[at + 1..].iter().map(|input| input.expr);
            let lanes = self.operand(input.expr, later);
            match &input.expr.ty {
                Type::Array(ty) => {
                    let is_fresh = matches!(
                        input.expr.kind,
                        ExprKind::Map(_) | ExprKind::NewArray(..) | ExprKind::ArrayOf(..)
                    );
                    let mut source = self.source(&lanes, ty, input.param, at, is_fresh);
                    source.is_inner = input.is_inner;
                    sources.push(source);
                }
                _ => self.set_vars(input.param, &lanes),
            }
        }
        sources
    }

    fn source(
        &mut self,
        lanes: &[Value],
        ty: &ArrayType,
        param: LocalId,
        number: usize,
        is_fresh: bool,
    ) -> Source {
        let Element::Scalar(scalar) = ty.element else { unreachable!("checked") };
        Source {
            param,
            scalar,
            data: lanes[1],
            shape: lanes[2..2 + ty.ndim as usize].to_vec(),
            strides: self.strides(ty, lanes),
            layout: ty.layout,
            is_fresh,
            is_inner: false,
            number,
        }
    }

    /// The shape that all sources are repeated to.
    fn broadcast(&mut self, sources: &[Source], ndim: usize) -> Vec<Value> {
        let mut shape: Vec<Option<Value>> = vec![None; ndim];
        for source in sources {
            let skipped = ndim - source.shape.len();
            let mut is_wrong = None;
            for (axis, &length) in source.shape.iter().enumerate() {
                let slot = &mut shape[skipped + axis];
                let Some(before) = *slot else {
                    *slot = Some(length);
                    continue;
                };
                if before == length {
                    continue;
                }
                let was_one = self.b.ins().icmp_imm_s(IntCC::Equal, before, 1);
                let joined = self.b.ins().select(was_one, length, before);
                let differs = self.b.ins().icmp(IntCC::NotEqual, joined, length);
                let is_many = self.b.ins().icmp_imm_s(IntCC::NotEqual, length, 1);
                let wrong = self.b.ins().band(differs, is_many);
                is_wrong = Some(match is_wrong {
                    Some(before) => self.b.ins().bor(before, wrong),
                    None => wrong,
                });
                shape[skipped + axis] = Some(joined);
            }
            if let Some(is_wrong) = is_wrong {
                let text =
                    format!("unable to broadcast argument {} to output array", source.number);
                self.raise_if(is_wrong, "ValueError", &text);
            }
        }
        shape.into_iter().map(|length| length.unwrap_or_else(|| self.int(1))).collect()
    }

    /// Raises if a value of this shape cannot be repeated to the target's.
    fn check_assigned(&mut self, shape: &[Value], target: &[Value], overlap: Overlap) {
        let mut is_wrong = None;
        let more = shape.len().saturating_sub(target.len());
        for (axis, &length) in shape.iter().enumerate() {
            let is_many = self.b.ins().icmp_imm_s(IntCC::NotEqual, length, 1);
            let wrong = if axis < more {
                is_many
            } else {
                let wanted = target[target.len() + axis - shape.len()];
                if wanted == length {
                    continue;
                }
                let differs = self.b.ins().icmp(IntCC::NotEqual, length, wanted);
                self.b.ins().band(differs, is_many)
            };
            is_wrong = Some(match is_wrong {
                Some(before) => self.b.ins().bor(before, wrong),
                None => wrong,
            });
        }
        let Some(is_wrong) = is_wrong else { return };
        if overlap == Overlap::InOrder {
            let text = "unable to broadcast argument 1 to output array";
            self.raise_if(is_wrong, "ValueError", text);
            return;
        }
        let (wrong, go_on) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(wrong);
        self.b.ins().brif(is_wrong, wrong, &[], go_on, &[]);
        self.b.switch_to_block(wrong);
        self.b.seal_block(wrong);
        let slot = self.slot(shape.len() + target.len());
        let address = self.slot_address(slot);
        self.store_lanes(address, 0, shape);
        self.store_lanes(address, 8 * shape.len() as i32, target);
        let (from, to) = (self.int(shape.len() as i64), self.int(target.len() as i64));
        let context = self.context;
        self.helper("raise_shapes", &[context, address, from, to], &[]);
        self.fail();
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
        self.b.seal_block(go_on);
    }

    // Overlap.

    /// The first byte of a source and the one behind its last.
    fn extent(&mut self, source: &Source) -> (Value, Value) {
        let zero = self.int(0);
        let (mut low, mut high) = (source.data, source.data);
        for (&length, &stride) in source.shape.iter().zip(&source.strides) {
            let last = self.b.ins().iadd_imm_s(length, -1);
            let reach = self.b.ins().imul(last, stride);
            let down = self.b.ins().smin(reach, zero);
            let up = self.b.ins().smax(reach, zero);
            low = self.b.ins().iadd(low, down);
            high = self.b.ins().iadd(high, up);
        }
        let high = self.b.ins().iadd_imm_s(high, i64::from(source.scalar.size()));
        (low, high)
    }

    /// Whether two arrays share memory other than element by element. Of empty ones the answer does not matter.
    fn overlaps(&mut self, source: &Source, out: &Source) -> Value {
        let (low, high) = self.extent(source);
        let (out_low, out_high) = self.extent(out);
        let before = self.b.ins().icmp(IntCC::UnsignedLessThan, low, out_high);
        let behind = self.b.ins().icmp(IntCC::UnsignedLessThan, out_low, high);
        let shares = self.b.ins().band(before, behind);
        if source.shape.len() != out.shape.len() || source.scalar != out.scalar {
            return shares;
        }
        let mut same = self.b.ins().icmp(IntCC::Equal, source.data, out.data);
        let pairs = source.strides.iter().zip(&out.strides);
        for (&a, &b) in pairs.chain(source.shape.iter().zip(&out.shape)) {
            let equal = self.b.ins().icmp(IntCC::Equal, a, b);
            same = self.b.ins().band(same, equal);
        }
        let differs = self.not(same);
        self.b.ins().band(shares, differs)
    }

    /// Lets a source be a dense copy of itself if `condition` is set.
    fn copy_if(&mut self, condition: Value, source: &mut Source) {
        let ndim = source.shape.len();
        let (copy, behind) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(copy);
        let owner = self.b.append_block_param(behind, types::I64);
        let data = self.b.append_block_param(behind, types::I64);
        let strides: Vec<Value> =
            (0..ndim).map(|_| self.b.append_block_param(behind, types::I64)).collect();
        let mut plain = vec![self.int(0), source.data];
        plain.extend_from_slice(&source.strides);
        let plain: Vec<_> = plain.into_iter().map(Into::into).collect();
        self.b.ins().brif(condition, copy, &[], behind, &plain);

        self.b.switch_to_block(copy);
        self.b.seal_block(copy);
        let slot = self.slot(2 * ndim);
        let address = self.slot_address(slot);
        self.store_lanes(address, 0, &source.shape);
        self.store_lanes(address, 8 * ndim as i32, &source.strides);
        let (count, size) = (self.int(ndim as i64), self.int(i64::from(source.scalar.size())));
        let args = [self.context, source.data, address, count, size];
        let made = self.helper("copy_view", &args, &[types::I64])[0];
        let exit = self.failed();
        let go_on = self.b.create_block();
        self.b.ins().brif(made, go_on, &[], exit, &[]);
        self.b.switch_to_block(go_on);
        self.b.seal_block(go_on);
        let mut dense = vec![made, self.struct_data(made)];
        dense.extend(self.dense_strides(&source.shape, source.scalar.size(), Layout::C));
        self.jump(behind, &dense);

        self.b.switch_to_block(behind);
        self.b.seal_block(behind);
        self.own_lane(owner);
        source.data = data;
        source.strides = strides;
        source.layout = Layout::A;
    }

    // Ways through the elements.

    /// The blocks of the flat loop, with its number of elements, and of the general one; or one of the two.
    fn ways(
        &mut self,
        tree: &Tree<'a>,
        sources: &[Source],
        out: Option<&Source>,
        in_order: Option<Value>,
    ) -> (Option<(cranelift_codegen::ir::Block, Value)>, Option<cranelift_codegen::ir::Block>) {
        let all: Vec<&Source> = sources.iter().chain(out).collect();
        let Some(first) = all.last() else {
            let general = self.b.create_block();
            self.b.ins().jump(general, &[]);
            return (None, Some(general));
        };
        let ndim = first.shape.len();
        let order = if all.iter().all(|source| source.layout == Layout::F) && ndim > 1 {
            Layout::F
        } else {
            Layout::C
        };
        let can_be_flat = all.iter().all(|source| source.shape.len() == ndim);
        let costly = tree.exprs().any(is_costly);
        let mut is_flat: Option<Value> = in_order.map(|in_order| self.not(in_order));
        let mut and = |this: &mut Self, condition: Value| {
            is_flat = Some(match is_flat {
                Some(before) => this.b.ins().band(before, condition),
                None => condition,
            });
        };
        if can_be_flat {
            for source in &all {
                for (&a, &b) in source.shape.iter().zip(&first.shape) {
                    if a != b {
                        let equal = self.b.ins().icmp(IntCC::Equal, a, b);
                        and(self, equal);
                    }
                }
                if source.layout != order {
                    let size = source.scalar.size();
                    let dense = self.dense_strides(&source.shape, size, order);
                    for (&a, &b) in source.strides.iter().zip(&dense) {
                        let equal = self.b.ins().icmp(IntCC::Equal, a, b);
                        and(self, equal);
                    }
                }
            }
        }
        let general = self.b.create_block();
        if !can_be_flat || costly && is_flat.is_some() {
            self.b.ins().jump(general, &[]);
            return (None, Some(general));
        }
        let count = self.product(&first.shape);
        let flat = self.b.create_block();
        match is_flat {
            Some(is_flat) => {
                self.b.ins().brif(is_flat, flat, &[], general, &[]);
                (Some((flat, count)), Some(general))
            }
            None => {
                self.b.ins().jump(flat, &[]);
                (Some((flat, count)), None)
            }
        }
    }

    /// A loop per axis of `shape`; `body` gets the address of each source's element.
    fn axes(
        &mut self,
        shape: &[Value],
        mut sources: Vec<Source>,
        first_fastest: bool,
        body: &mut dyn FnMut(&mut Self, &[Value]),
    ) {
        let ndim = shape.len();
        // An axis of length one is repeated.
        for source in &mut sources {
            let skipped = ndim.saturating_sub(source.shape.len());
            let more = source.shape.len().saturating_sub(ndim);
            source.shape.drain(..more);
            source.strides.drain(..more);
            for axis in 0..source.shape.len() {
                if source.shape[axis] == shape[skipped + axis] {
                    continue;
                }
                let is_one = self.b.ins().icmp_imm_s(IntCC::Equal, source.shape[axis], 1);
                let zero = self.int(0);
                let stride = source.strides[axis];
                source.strides[axis] = self.b.ins().select(is_one, zero, stride);
            }
        }
        let mut order: Vec<usize> = (0..ndim).collect();
        if first_fastest {
            order.reverse();
        }
        let bases = sources.iter().map(|source| source.data).collect();
        self.axis(shape, &sources, &order, bases, body);
    }

    fn axis(
        &mut self,
        shape: &[Value],
        sources: &[Source],
        order: &[usize],
        bases: Vec<Value>,
        body: &mut dyn FnMut(&mut Self, &[Value]),
    ) {
        let Some((&axis, inner)) = order.split_first() else {
            body(self, &bases);
            return;
        };
        self.up_to(shape[axis], |this, at| {
            let mut addresses = Vec::with_capacity(sources.len());
            for (source, &base) in sources.iter().zip(&bases) {
                let skipped = shape.len() - source.shape.len();
                addresses.push(match axis.checked_sub(skipped) {
                    Some(own) => {
                        let offset = this.b.ins().imul(at, source.strides[own]);
                        this.b.ins().iadd(base, offset)
                    }
                    None => base,
                });
            }
            this.axis(shape, sources, inner, addresses, body);
        });
    }

    /// The value of the tree for the elements at these addresses.
    fn element_at(&mut self, tree: &Tree<'a>, sources: &[Source], addresses: &[Value]) -> Lanes {
        for (source, &address) in sources.iter().zip(addresses) {
            let lanes = self.load_scalar(source.scalar, address, 0);
            self.set_vars(source.param, &lanes);
        }
        let border = self.enter_border();
        let mark = self.mark();
        for (param, expr) in &tree.lets {
            let lanes = self.expr(expr);
            self.set_vars(*param, &lanes);
        }
        let value = self.expr(tree.value);
        self.release_to(mark);
        self.leave_border(border);
        value
    }

    fn flat_element(&mut self, tree: &Tree<'a>, sources: &[Source], at: Value) -> Lanes {
        let mut addresses = Vec::with_capacity(sources.len());
        for source in sources {
            let offset = self.scale(at, source.scalar.size());
            addresses.push(self.b.ins().iadd(source.data, offset));
        }
        self.element_at(tree, sources, &addresses)
    }
}
