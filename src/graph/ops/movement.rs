//! Kernels that move elements: by position, by index, by condition.
//!
//! ```text
//!   Concat, Pad                  parts of the output, row by row
//!   Gather*, Scatter*, Compress  an index leads to a part of an operand
//!   OneHot, Range, EyeLike, Trilu, ReverseSequence      each element by its place
//! ```

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::arithmetic::Math;
use super::cast::cast;
use super::elementwise::emit_arrays;
use super::emit::{Array, Emitter, Lane};
use super::rows::{Body, Source, Stride, map_row};
use crate::graph::abi::Status;
use crate::graph::node::{Layout, PadMode, ScatterReduction};
use crate::graph::tensor::ElementType;

/// Copies some axes of one operand to as many of another.
fn copy(
    emitter: &mut Emitter<'_>,
    dims: &[Value],
    (from, source, from_axes): (Value, &Array, &[usize]),
    (to, target, to_axes): (Value, &Array, &[usize]),
) {
    let body = Body::identity(source.element);
    let row = |emitter: &mut Emitter<'_>, from: Source, to: (Value, Stride), n: Value| {
        map_row(emitter, &body, &[from], &[0], &[to], n);
    };
    let Some((&n, outer)) = dims.split_last() else {
        let one = emitter.int(1);
        return row(emitter, Source::Lane(from, Stride::Zero), (to, Stride::Unit), one);
    };
    // The last axes of operands without gaps are one row.
    let are_last = |array: &Array, axes: &[usize]| {
        let first = array.rank() - axes.len();
        array.layout == Layout::Contiguous && axes.iter().copied().eq(first..array.rank())
    };
    if are_last(source, from_axes) && are_last(target, to_axes) {
        let n = emitter.product(dims);
        return row(emitter, Source::Lane(from, Stride::Unit), (to, Stride::Unit), n);
    }
    let stride = |array: &Array, axes: &[usize]| match axes[outer.len()] {
        axis if axis + 1 == array.rank() => Stride::last(array),
        axis => Stride::Bytes(array.strides[axis]),
    };
    let (inner_from, inner_to) = (stride(source, from_axes), stride(target, to_axes));
    let axes = |array: &Array, axes: &[usize], start: Value| {
        let axes = axes[..outer.len()].iter().copied();
        Lane { start, ..array.lane_of(axes) }
    };
    let lanes = [axes(source, from_axes, from), axes(target, to_axes, to)];
    emitter.walk(outer, &lanes, |emitter, _, at| {
        row(emitter, Source::Lane(at[0], inner_from), (at[1], inner_to), n);
    });
}

/// Concat.
pub(super) fn concat(emitter: &mut Emitter<'_>, axis: u32) {
    let axis = axis as usize;
    let y = emitter.output(0);
    let (rank, mut to) = (y.rank(), y.data);
    let after: Vec<usize> = (axis..rank).collect();
    for index in 0..emitter.inputs.len() {
        let x = emitter.input(index);
        let lanes = [x.lane_of(0..axis), Lane { start: to, ..y.lane_of(0..axis) }];
        emitter.walk(&x.dims[..axis], &lanes, |emitter, _, at| {
            copy(emitter, &x.dims[axis..], (at[0], &x, &after), (at[1], &y, &after));
        });
        to = emitter.at(to, x.dims[axis], y.strides[axis]);
    }
}

/// An index as it counts from the front; leaves the kernel if it is out of range.
fn index_in(emitter: &mut Emitter<'_>, index: Value, element: ElementType, dim: Value) -> Value {
    let index = cast(emitter, index, element, ElementType::I64);
    let index = from_front(emitter, index, dim);
    let out = emitter.compare(IntCC::UnsignedGreaterThanOrEqual, index, dim);
    emitter.fail_if(out, Status::IndexOutOfRange);
    index
}

fn from_front(emitter: &mut Emitter<'_>, index: Value, dim: Value) -> Value {
    let negative = emitter.compare_to(IntCC::SignedLessThan, index, 0);
    let wrapped = emitter.add(index, dim);
    emitter.select(negative, wrapped, index)
}

/// Gather.
pub(super) fn gather(emitter: &mut Emitter<'_>, axis: u32) {
    let axis = axis as usize;
    let (x, indices, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let middle = axis + indices.rank();
    let before = [x.lane_of(0..axis), y.lane_of(0..axis)];
    let (from_axes, to_axes): (Vec<usize>, Vec<usize>) =
        ((axis + 1..x.rank()).collect(), (middle..y.rank()).collect());
    emitter.walk(&x.dims[..axis], &before, |emitter, _, outer| {
        let (from, to) = (outer[0], outer[1]);
        let places = [indices.lane(), Lane { start: to, ..y.lane_of(axis..middle) }];
        emitter.walk(&indices.dims, &places, |emitter, _, at| {
            let index = emitter.load(indices.element, at[0]);
            let index = index_in(emitter, index, indices.element, x.dims[axis]);
            let from = emitter.at(from, index, x.strides[axis]);
            copy(emitter, &x.dims[axis + 1..], (from, &x, &from_axes), (at[1], &y, &to_axes));
        });
    });
}

/// The lane of an operand that does not move along one axis.
fn without(emitter: &mut Emitter<'_>, array: &Array, axis: usize) -> Lane {
    let mut lane = array.lane();
    lane.strides[axis] = emitter.int(0);
    lane
}

/// GatherElements.
pub(super) fn gather_elements(emitter: &mut Emitter<'_>, axis: u32) {
    let axis = axis as usize;
    let (x, indices, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let from = without(emitter, &x, axis);
    emitter.walk(&y.dims, &[indices.lane(), from, y.lane()], |emitter, _, at| {
        let index = emitter.load(indices.element, at[0]);
        let index = index_in(emitter, index, indices.element, x.dims[axis]);
        let from = emitter.at(at[1], index, x.strides[axis]);
        let value = emitter.load(x.element, from);
        emitter.store(value, at[2]);
    });
}

/// Where a tuple of indices leads, along the axes of `array` from `first` on.
fn follow(
    emitter: &mut Emitter<'_>,
    indices: &Array,
    tuple: Value,
    (array, first, count): (&Array, usize, usize),
    start: Value,
) -> Value {
    let stride = *indices.strides.last().expect("it has an axis");
    let mut at = start;
    for nth in 0..count {
        let place = emitter.int(nth as i64);
        let place = emitter.at(tuple, place, stride);
        let index = emitter.load(indices.element, place);
        let index = index_in(emitter, index, indices.element, array.dims[first + nth]);
        at = emitter.at(at, index, array.strides[first + nth]);
    }
    at
}

/// GatherND.
pub(super) fn gather_nd(emitter: &mut Emitter<'_>, batch: u32) {
    let batch = batch as usize;
    let (x, indices, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let tuples = indices.rank() - 1;
    // The output has the tuples' axes and those of x that a tuple does not name.
    let named = tuples + x.rank() - batch - y.rank();
    let first = batch + named;
    let (from_axes, to_axes): (Vec<usize>, Vec<usize>) =
        ((first..x.rank()).collect(), (tuples..y.rank()).collect());
    let zero = emitter.int(0);
    let mut from = x.lane_of(0..batch);
    from.strides.resize(tuples, zero);
    let lanes = [indices.lane_of(0..tuples), from, y.lane_of(0..tuples)];
    emitter.walk(&indices.dims[..tuples], &lanes, |emitter, _, at| {
        let from = follow(emitter, &indices, at[0], (&x, batch, named), at[1]);
        copy(emitter, &x.dims[first..], (from, &x, &from_axes), (at[2], &y, &to_axes));
    });
}

/// The element that a scatter leaves.
fn scattered(
    emitter: &mut Emitter<'_>,
    element: ElementType,
    reduction: ScatterReduction,
    before: Value,
    update: Value,
) -> Value {
    let mut math = Math { emitter, element, lanes: 1 };
    match reduction {
        ScatterReduction::None => update,
        // Of bools, what is not 0 is true.
        ScatterReduction::Add if element == ElementType::Bool => {
            math.emitter.builder.ins().bor(before, update)
        }
        ScatterReduction::Add => math.add(before, update),
        ScatterReduction::Mul => math.mul(before, update),
        ScatterReduction::Min => math.min(before, update),
        ScatterReduction::Max => math.max(before, update),
    }
}

fn copy_first(emitter: &mut Emitter<'_>, x: &Array, y: &Array) {
    let body = Body::identity(x.element);
    let (from, to) = (std::slice::from_ref(x), std::slice::from_ref(y));
    emit_arrays(emitter, &body, from, &[0], to);
}

/// ScatterElements.
pub(super) fn scatter_elements(emitter: &mut Emitter<'_>, axis: u32, reduction: ScatterReduction) {
    let axis = axis as usize;
    let [x, indices, updates] = [0, 1, 2].map(|i| emitter.input(i));
    let y = emitter.output(0);
    copy_first(emitter, &x, &y);
    let to = without(emitter, &y, axis);
    let lanes = [indices.lane(), updates.lane(), to];
    emitter.walk(&indices.dims, &lanes, |emitter, _, at| {
        let index = emitter.load(indices.element, at[0]);
        let index = index_in(emitter, index, indices.element, y.dims[axis]);
        let place = emitter.at(at[2], index, y.strides[axis]);
        let update = emitter.load(y.element, at[1]);
        let before = emitter.load(y.element, place);
        let value = scattered(emitter, y.element, reduction, before, update);
        emitter.store(value, place);
    });
}

/// ScatterND.
pub(super) fn scatter_nd(emitter: &mut Emitter<'_>, reduction: ScatterReduction) {
    let [x, indices, updates] = [0, 1, 2].map(|i| emitter.input(i));
    let y = emitter.output(0);
    copy_first(emitter, &x, &y);
    let tuples = indices.rank() - 1;
    let named = tuples + y.rank() - updates.rank();
    let lanes = [indices.lane_of(0..tuples), updates.lane_of(0..tuples)];
    emitter.walk(&indices.dims[..tuples], &lanes, |emitter, _, at| {
        let to = follow(emitter, &indices, at[0], (&y, 0, named), y.data);
        let inner = [
            Lane { start: at[1], ..updates.lane_of(tuples..updates.rank()) },
            Lane { start: to, ..y.lane_of(named..y.rank()) },
        ];
        emitter.walk(&y.dims[named..], &inner, |emitter, _, at| {
            let update = emitter.load(y.element, at[0]);
            let before = emitter.load(y.element, at[1]);
            let value = scattered(emitter, y.element, reduction, before, update);
            emitter.store(value, at[1]);
        });
    });
}

/// Compress.
pub(super) fn compress(emitter: &mut Emitter<'_>, axis: u32) {
    let axis = axis as usize;
    let (x, condition, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let others: Vec<usize> = (0..x.rank()).filter(|&other| other != axis).collect();
    let dims: Vec<Value> = others.iter().map(|&other| x.dims[other]).collect();
    let (length, dim) = (condition.dims[0], x.dims[axis]);
    let shorter = emitter.compare(IntCC::SignedLessThan, length, dim);
    let length = emitter.select(shorter, length, dim);
    let zero = emitter.int(0);
    emitter.range(zero, length, 1, &[zero], |emitter, i, state| {
        let at = emitter.at(condition.data, i, condition.strides[0]);
        let holds = emitter.load(ElementType::Bool, at);
        let take = |emitter: &mut Emitter<'_>| {
            let from = emitter.at(x.data, i, x.strides[axis]);
            let to = emitter.at(y.data, state[0], y.strides[axis]);
            copy(emitter, &dims, (from, &x, &others), (to, &y, &others));
            vec![emitter.offset(state[0], 1)]
        };
        emitter.either(holds, take, |_| vec![state[0]])
    });
}

/// OneHot.
pub(super) fn one_hot(emitter: &mut Emitter<'_>, axis: u32) {
    let axis = axis as usize;
    let (indices, values, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let off = emitter.load(y.element, values.data);
    let on = emitter.add(values.data, values.strides[0]);
    let on = emitter.load(y.element, on);
    let mut from = indices.lane();
    let zero = emitter.int(0);
    from.strides.insert(axis, zero);
    emitter.walk(&y.dims, &[from, y.lane()], |emitter, index, at| {
        let hot = emitter.load(indices.element, at[0]);
        let hot = cast(emitter, hot, indices.element, ElementType::I64);
        let hot = from_front(emitter, hot, y.dims[axis]);
        let is_hot = emitter.compare(IntCC::Equal, hot, index[axis]);
        let value = emitter.select(is_hot, on, off);
        emitter.store(value, at[1]);
    });
}

/// Pad.
pub(super) fn pad(emitter: &mut Emitter<'_>, mode: PadMode) {
    let (x, pads, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let begins: Vec<Value> = (0..x.rank())
        .map(|axis| {
            let place = emitter.int(axis as i64);
            let at = emitter.at(pads.data, place, pads.strides[0]);
            emitter.load(ElementType::I64, at)
        })
        .collect();
    if mode == PadMode::Constant {
        return pad_with_value(emitter, &x, &y, &begins);
    }
    let (some, room) = (emitter.product(&x.dims), emitter.product(&y.dims));
    let wanted = emitter.compare_to(IntCC::NotEqual, room, 0);
    let empty = emitter.compare_to(IntCC::Equal, some, 0);
    let nothing = emitter.builder.ins().band(wanted, empty);
    emitter.fail_if(nothing, Status::IndexOutOfRange);
    emitter.walk(&y.dims, &[y.lane()], |emitter, index, at| {
        let mut from = x.data;
        for axis in 0..x.rank() {
            let place = emitter.sub(index[axis], begins[axis]);
            let place = inside(emitter, mode, place, x.dims[axis]);
            from = emitter.at(from, place, x.strides[axis]);
        }
        let value = emitter.load(x.element, from);
        emitter.store(value, at[0]);
    });
}

/// Fills the output, then copies what of the input lies within it.
fn pad_with_value(emitter: &mut Emitter<'_>, x: &Array, y: &Array, begins: &[Value]) {
    let element = x.element;
    let value = match emitter.inputs.get(2).cloned().flatten() {
        Some(value) => emitter.load(element, value.data),
        None => Math { emitter, element, lanes: 1 }.zero(),
    };
    let n = emitter.product(&y.dims);
    let body = Body::identity(element);
    map_row(emitter, &body, &[Source::Value(value)], &[0], &[(y.data, Stride::Unit)], n);
    let (mut from, mut to, mut dims) = (x.data, y.data, Vec::new());
    let zero = emitter.int(0);
    for (axis, &begin) in begins.iter().enumerate() {
        let cut = emitter.compare_to(IntCC::SignedLessThan, begin, 0);
        let turned = emitter.sub(zero, begin);
        let skip_from = emitter.select(cut, turned, zero);
        let skip_to = emitter.select(cut, zero, begin);
        let (left, room) =
            (emitter.sub(x.dims[axis], skip_from), emitter.sub(y.dims[axis], skip_to));
        let less = emitter.compare(IntCC::SignedLessThan, left, room);
        let count = emitter.select(less, left, room);
        // A negative number of elements is none.
        dims.push(count);
        from = emitter.at(from, skip_from, x.strides[axis]);
        to = emitter.at(to, skip_to, y.strides[axis]);
    }
    let Some((&n, outer)) = dims.split_last() else {
        let value = emitter.load(element, x.data);
        return emitter.store(value, y.data);
    };
    let axes = 0..outer.len();
    let lanes =
        [Lane { start: from, ..x.lane_of(axes.clone()) }, Lane { start: to, ..y.lane_of(axes) }];
    emitter.walk(outer, &lanes, |emitter, _, at| {
        let source = Source::Lane(at[0], Stride::last(x));
        map_row(emitter, &body, &[source], &[0], &[(at[1], Stride::Unit)], n);
    });
}

/// The place in the input, of `dim` elements on an axis, that a place outside of it stands for.
fn inside(emitter: &mut Emitter<'_>, mode: PadMode, place: Value, dim: Value) -> Value {
    let zero = emitter.int(0);
    let last = emitter.offset(dim, -1);
    match mode {
        PadMode::Constant => unreachable!("it has no place for what it adds"),
        PadMode::Edge => {
            let before = emitter.compare_to(IntCC::SignedLessThan, place, 0);
            let place = emitter.select(before, zero, place);
            let after = emitter.compare(IntCC::SignedGreaterThan, place, last);
            emitter.select(after, last, place)
        }
        PadMode::Wrap => floor_mod(emitter, place, dim),
        PadMode::Reflect => {
            // There and back, without the two ends on the way back.
            let period = emitter.add(last, last);
            let place = floor_mod(emitter, place, period);
            let back = emitter.compare(IntCC::SignedGreaterThan, place, last);
            let mirrored = emitter.sub(period, place);
            emitter.select(back, mirrored, place)
        }
    }
}

/// The remainder with the divisor's sign; 0 of 0.
fn floor_mod(emitter: &mut Emitter<'_>, x: Value, y: Value) -> Value {
    Math { emitter, element: ElementType::I64, lanes: 1 }.modulo(x, y, false)
}

/// Range.
pub(super) fn range(emitter: &mut Emitter<'_>) {
    let (start, delta, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let element = y.element;
    let (first, step) = (emitter.load(element, start.data), emitter.load(element, delta.data));
    emitter.walk(&y.dims, &[y.lane()], |emitter, index, at| {
        let count = cast(emitter, index[0], ElementType::I64, element);
        let mut math = Math { emitter, element, lanes: 1 };
        let by = math.mul(count, step);
        let value = math.add(first, by);
        emitter.store(value, at[0]);
    });
}

/// EyeLike.
pub(super) fn eye_like(emitter: &mut Emitter<'_>, k: i64) {
    let y = emitter.output(0);
    let element = y.element;
    let mut math = Math { emitter, element, lanes: 1 };
    let (zero, one) = (math.zero(), math.number(1.0));
    emitter.walk(&y.dims, &[y.lane()], |emitter, index, at| {
        let diagonal = emitter.sub(index[1], index[0]);
        let here = emitter.compare_to(IntCC::Equal, diagonal, k);
        let value = emitter.select(here, one, zero);
        emitter.store(value, at[0]);
    });
}

/// Trilu.
pub(super) fn trilu(emitter: &mut Emitter<'_>, upper: bool) {
    let (x, k, y) = (emitter.input(0), emitter.inputs[1].clone(), emitter.output(0));
    let k = match k {
        Some(k) => emitter.load(ElementType::I64, k.data),
        None => emitter.int(0),
    };
    let rank = y.rank();
    let zero = Math { emitter, element: x.element, lanes: 1 }.zero();
    emitter.walk(&y.dims, &[x.lane(), y.lane()], |emitter, index, at| {
        let diagonal = emitter.sub(index[rank - 1], index[rank - 2]);
        let cond =
            if upper { IntCC::SignedGreaterThanOrEqual } else { IntCC::SignedLessThanOrEqual };
        let keep = emitter.compare(cond, diagonal, k);
        let value = emitter.load(x.element, at[0]);
        let value = emitter.select(keep, value, zero);
        emitter.store(value, at[1]);
    });
}

/// ReverseSequence.
pub(super) fn reverse_sequence(emitter: &mut Emitter<'_>, time: u32, batch: u32) {
    let (time, batch) = (time as usize, batch as usize);
    let (x, lengths, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let dims = [x.dims[batch]];
    emitter.walk(&dims, &[lengths.lane()], |emitter, _, at| {
        let length = emitter.load(ElementType::I64, at[0]);
        let out = emitter.compare(IntCC::UnsignedGreaterThan, length, x.dims[time]);
        emitter.fail_if(out, Status::LengthOutOfRange);
    });
    let from = without(emitter, &x, time);
    let zero = emitter.int(0);
    let mut length_lane = Lane { start: lengths.data, strides: vec![zero; x.rank()] };
    length_lane.strides[batch] = lengths.strides[0];
    emitter.walk(&y.dims, &[from, length_lane, y.lane()], |emitter, index, at| {
        let length = emitter.load(ElementType::I64, at[1]);
        let within = emitter.compare(IntCC::SignedLessThan, index[time], length);
        let back = emitter.sub(length, index[time]);
        let back = emitter.offset(back, -1);
        let place = emitter.select(within, back, index[time]);
        let from = emitter.at(at[0], place, x.strides[time]);
        let value = emitter.load(x.element, from);
        emitter.store(value, at[2]);
    });
}
