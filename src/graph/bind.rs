//! From a node and its operands to a kernel and its arguments.
//!
//! ```text
//!   op, axes, operands as the graph has them ──► op, operands as a kernel has them
//!        broadcast: dimensions and strides of the output
//!        along an axis: that axis is the last, or comes before it where neighbours are taken together
//!        reduced axes: the last ones; the output has none of them
//!        transposed: by strides
//! ```
//!
//! So one kernel serves a Softmax over any axis, and no kernel knows what is transposed.

use super::abi::{Call, Frame, View};
use super::node::{Layout, NodeSpec, Op, Reduction};
use super::ops;

/// The kernel for a node, and the frame to call it with. Operands that are absent are `None`.
///
/// Types, ranks and dimensions must be as the operator wants them: inference has seen to that. Outputs are
/// contiguous.
///
/// # Panics
/// May panic if they are not.
pub fn bind(op: &Op, inputs: &[Option<View>], outputs: &[Option<View>]) -> Call {
    let (op, inputs, outputs) = normalise(op, inputs, outputs);
    let operand = |view: &Option<View>| view.as_ref().map(View::operand);
    let spec = NodeSpec {
        op,
        inputs: inputs.iter().map(operand).collect(),
        outputs: outputs.iter().map(operand).collect(),
    };
    let frame = Frame::new(inputs.iter().chain(&outputs).map(Option::as_ref));
    Call { spec, frame }
}

type Views = Vec<Option<View>>;

fn normalise(op: &Op, inputs: &[Option<View>], outputs: &[Option<View>]) -> (Op, Views, Views) {
    let views = |views: &[Option<View>], f: &dyn Fn(&View) -> View| -> Views {
        views.iter().map(|view| view.as_ref().map(f)).collect()
    };
    let given = |views: &[Option<View>], index: usize| -> View {
        views[index].clone().expect("the operand is there")
    };
    let same = |views: &[Option<View>]| views.to_vec();
    match op {
        Op::Map(_) | Op::Copy | Op::Fused(_) => {
            let reduced = match op {
                Op::Fused(group) => group.reduce.as_ref().map(|(_, axes)| axes),
                _ => None,
            };
            match reduced {
                None => {
                    let dims = given(outputs, 0).dims;
                    (op.clone(), views(inputs, &|view| view.broadcast(&dims)), same(outputs))
                }
                Some(axes) => {
                    let dims = common(inputs);
                    let wide = views(inputs, &|view| view.broadcast(&dims));
                    let Op::Fused(mut group) = op.clone() else { unreachable!("it is a group") };
                    let (kind, _) = group.reduce.expect("it has a reduction");
                    let (order, placed) = reduced_order(kind, &wide, dims.len(), axes);
                    group.reduce = Some((kind, placed));
                    let input = |view: &View| view.permute(order.iter().copied());
                    let output = |view: &View| without(view, dims.len(), axes);
                    (Op::Fused(group), views(&wide, &input), views(outputs, &output))
                }
            }
        }
        Op::Reduce { kind, axes } => {
            let rank = given(inputs, 0).rank();
            let (order, placed) = reduced_order(*kind, &inputs[..1], rank, axes);
            let op = Op::Reduce { kind: *kind, axes: placed };
            let inputs = views(&inputs[..1], &|view| view.permute(order.iter().copied()));
            (op, inputs, views(outputs, &|view| without(view, rank, axes)))
        }
        Op::ArgExtreme { max, last: tie, axis } => {
            let input = given(inputs, 0);
            let rank = input.rank();
            let op = Op::ArgExtreme { max: *max, last: *tie, axis: end(rank) };
            let inputs = views(inputs, &|view| view.with_last(*axis as usize));
            (op, inputs, views(outputs, &|view| without(view, rank, &[*axis])))
        }
        Op::Softmax { axis } | Op::LogSoftmax { axis } if is_column(inputs, outputs, *axis) => {
            let (rank, at) = (given(inputs, 0).rank(), *axis as usize);
            let mut op = op.clone();
            if let Op::Softmax { axis } | Op::LogSoftmax { axis } = &mut op {
                *axis = rank as u32 - 2;
            }
            let others = (0..rank - 1).filter(|&other| other != at);
            let order: Vec<usize> = others.chain([at, rank - 1]).collect();
            let across = |view: &View| view.permute(order.iter().copied());
            (op, views(&inputs[..1], &across), views(outputs, &across))
        }
        Op::Cumulate { axis, .. }
        | Op::TopK { axis, .. }
        | Op::Softmax { axis }
        | Op::LogSoftmax { axis }
        | Op::Hardmax { axis }
        | Op::LpNormalize { axis, .. } => {
            let at = *axis as usize;
            let mut op = op.clone();
            if let Op::Cumulate { axis, .. }
            | Op::TopK { axis, .. }
            | Op::Softmax { axis }
            | Op::LogSoftmax { axis }
            | Op::Hardmax { axis }
            | Op::LpNormalize { axis, .. } = &mut op
            {
                *axis = end(given(inputs, 0).rank());
            }
            let along = |view: &View| view.with_last(at);
            // TopK's `k` is read from the outputs; its input holds x alone.
            (op, views(&inputs[..1], &along), views(outputs, &along))
        }
        Op::LayerNormalize { axis, .. } | Op::RmsNormalize { axis, .. } => {
            let dims = given(inputs, 0).dims;
            let kept = *axis as usize;
            let statistics = |view: &View| view.permute(0..kept);
            let mut normalised = same(&outputs[..1]);
            normalised.extend(views(&outputs[1..], &statistics));
            (op.clone(), views(inputs, &|view| view.broadcast(&dims)), normalised)
        }
        Op::MatMul => {
            let (mut a, mut b) = (given(inputs, 0), given(inputs, 1));
            let mut y = given(outputs, 0);
            // A vector is a row on the left and a column on the right, and the output lacks that axis.
            if b.rank() == 1 {
                push(&mut b, 1);
                let at = y.rank();
                insert(&mut y, at);
            }
            if a.rank() == 1 {
                insert(&mut a, 0);
                let at = y.rank() - 1;
                insert(&mut y, at);
            }
            let batch = &y.dims[..y.rank() - 2];
            let wide = |view: &View| {
                let dims = [batch, &view.dims[view.rank() - 2..]].concat();
                view.broadcast(&dims)
            };
            (Op::MatMul, vec![Some(wide(&a)), Some(wide(&b))], vec![Some(y)])
        }
        Op::Gemm { alpha, beta, trans_a, trans_b } => {
            let turn = |view: View, turned: bool| {
                if turned { view.permute([1, 0]) } else { view }
            };
            let y = given(outputs, 0);
            let op = Op::Gemm { alpha: *alpha, beta: *beta, trans_a: false, trans_b: false };
            let c = inputs.get(2).cloned().flatten().map(|c| c.broadcast(&y.dims));
            let a = turn(given(inputs, 0), *trans_a);
            let b = turn(given(inputs, 1), *trans_b);
            (op, vec![Some(a), Some(b), c], vec![Some(y)])
        }
        Op::Einsum { inputs: terms, output } => {
            let mut names: Vec<u8> = Vec::new();
            let mut number = |label: &u8| {
                let at = names.iter().position(|name| name == label).unwrap_or(names.len());
                if at == names.len() {
                    names.push(*label);
                }
                at as u8
            };
            let terms: Vec<Vec<u8>> =
                terms.iter().map(|term| term.iter().map(&mut number).collect()).collect();
            let output: Vec<u8> = output.iter().map(&mut number).collect();
            // A dimension of 1 is repeated where others with its label are larger.
            let mut sizes = vec![1; names.len()];
            for (term, view) in terms.iter().zip(inputs) {
                let view = view.as_ref().expect("the operand is there");
                for (&label, &dim) in term.iter().zip(&view.dims) {
                    if dim != 1 {
                        sizes[usize::from(label)] = dim;
                    }
                }
            }
            let inputs = terms.iter().zip(inputs).map(|(term, view)| {
                let dims: Vec<usize> =
                    term.iter().map(|&label| sizes[usize::from(label)]).collect();
                view.as_ref().map(|view| view.broadcast(&dims))
            });
            let inputs = inputs.collect();
            (Op::Einsum { inputs: terms, output }, inputs, same(outputs))
        }
        Op::Tile => {
            // Each axis becomes two: how often, and the input's own.
            let (x, y) = (given(inputs, 0), given(outputs, 0));
            let (mut from, mut dims) =
                (View { dims: vec![], strides: vec![], ..x.clone() }, vec![]);
            for axis in 0..x.rank() {
                let times = y.dims[axis].checked_div(x.dims[axis]).unwrap_or(0);
                dims.extend([times, x.dims[axis]]);
                from.strides.extend([0, x.strides[axis]]);
            }
            from.dims.clone_from(&dims);
            let to = View::contiguous(y.element, &dims);
            (Op::Copy, vec![Some(from)], vec![Some(to)])
        }
        Op::BatchNormalize { .. } => {
            // Without an axis for channels there is one channel.
            let channel = |view: &View| {
                let mut view = view.clone();
                if view.rank() == 1 {
                    push(&mut view, 1);
                }
                let rank = view.rank();
                view.permute([1].into_iter().chain((0..rank).filter(|&axis| axis != 1)))
            };
            let mut to = vec![outputs[0].as_ref().map(channel)];
            to.extend_from_slice(&outputs[1..]);
            let mut from = vec![inputs[0].as_ref().map(channel)];
            from.extend_from_slice(&inputs[1..]);
            (op.clone(), from, to)
        }
        Op::Range => {
            let scalar = |view: &View| view.permute([]);
            (op.clone(), views(inputs, &scalar), same(outputs))
        }
        Op::Trilu { .. } | Op::Pad { .. } => {
            let mut from = same(inputs);
            if let Op::Trilu { .. } = op {
                from[1] = from[1].as_ref().map(|k| k.permute([]));
            } else if let Some(value) = from.get_mut(2) {
                *value = value.as_ref().map(|value| value.permute([]));
            }
            (op.clone(), from, same(outputs))
        }
        Op::Concat { .. }
        | Op::Gather { .. }
        | Op::GatherElements { .. }
        | Op::GatherNd { .. }
        | Op::ScatterElements { .. }
        | Op::ScatterNd { .. }
        | Op::Compress { .. }
        | Op::OneHot { .. }
        | Op::EyeLike { .. }
        | Op::ReverseSequence { .. } => (op.clone(), same(inputs), same(outputs)),
    }
}

/// Whether an axis is not the last, on which elements lie next to each other.
fn is_column(inputs: &[Option<View>], outputs: &[Option<View>], axis: u32) -> bool {
    let mut views = inputs[..1].iter().chain(outputs).flatten();
    views.all(|view| {
        let layout = view.operand().layout;
        axis as usize + 1 < view.rank() && matches!(layout, Layout::Contiguous | Layout::Rows)
    })
}

/// The last axis.
fn end(rank: usize) -> u32 {
    rank as u32 - 1
}

/// The order that a reduction takes axes in, and which of them, in that order, it reduces: the last; or, where the last
/// axis is kept and elements lie next to each other on it, those before the last.
fn reduced_order(
    kind: Reduction,
    inputs: &[Option<View>],
    rank: usize,
    axes: &[u32],
) -> (Vec<usize>, Vec<u32>) {
    let is_reduced = |axis: &usize| axes.contains(&(*axis as u32));
    let kept = rank - axes.len();
    let mut order: Vec<usize> = (0..rank).filter(|axis| !is_reduced(axis)).collect();
    order.extend((0..rank).filter(is_reduced));
    let together = |view: &View| view.operand().layout != Layout::Strided;
    let columns = ops::has_columns(kind)
        && !axes.is_empty()
        && !is_reduced(&(rank - 1))
        && inputs.iter().flatten().all(together);
    if columns {
        let last = order.remove(kept - 1);
        order.push(last);
        return (order, (kept as u32 - 1..rank as u32 - 1).collect());
    }
    (order, (kept as u32..rank as u32).collect())
}

/// An output without the reduced axes, if it has as many as the input.
fn without(view: &View, rank: usize, axes: &[u32]) -> View {
    if view.rank() != rank || axes.is_empty() {
        return view.clone();
    }
    view.permute((0..rank).filter(|axis| !axes.contains(&(*axis as u32))))
}

/// The dimensions that all are broadcast to.
fn common(views: &[Option<View>]) -> Vec<usize> {
    let rank = views.iter().flatten().map(View::rank).max().unwrap_or(0);
    let mut dims = vec![1; rank];
    for view in views.iter().flatten() {
        let added = rank - view.rank();
        for (axis, &dim) in view.dims.iter().enumerate() {
            if dim != 1 {
                dims[added + axis] = dim;
            }
        }
    }
    dims
}

fn push(view: &mut View, dim: usize) {
    view.dims.push(dim);
    view.strides.push(view.element.size() as isize);
}

fn insert(view: &mut View, axis: usize) {
    let stride = match view.dims.get(axis) {
        Some(&dim) => view.strides[axis].wrapping_mul(dim.max(1) as isize),
        None => view.element.size() as isize,
    };
    view.dims.insert(axis, 1);
    view.strides.insert(axis, stride);
}
