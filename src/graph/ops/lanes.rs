//! Kernels along one axis, which is the operands' last: softmax and its kin, norms, cumulative sums, extreme places, TopK.
//!
//! ```text
//!   other axes ──► row ──► fold, map, ... of the row
//! ```

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::arithmetic::{Math, wide};
use super::emit::{Array, Emitter, Lane};
use super::fold::{Fold, fold_row};
use super::rows::{Body, Source, Stride, map_row, step};
use crate::graph::node::{Arg, Map};
use crate::graph::tensor::ElementType;

/// The rows of the first input and the outputs; `body` is given where each begins, and how long the input's is.
fn rows(emitter: &mut Emitter<'_>, mut body: impl FnMut(&mut Emitter<'_>, &[Value], Value)) {
    let input = emitter.input(0);
    let outer = input.rank() - 1;
    let outputs = emitter.outputs.clone();
    let mut lanes = vec![input.lane_of(0..outer)];
    for output in outputs.iter().flatten() {
        lanes.push(output.lane_of(0..outer));
    }
    let n = input.dims[outer];
    emitter.walk(&input.dims[..outer], &lanes, |emitter, _, pointers| body(emitter, pointers, n));
}

fn number(emitter: &mut Emitter<'_>, element: ElementType, value: f64) -> Value {
    Math { emitter, element, lanes: 1 }.number(value)
}

/// Softmax, or LogSoftmax, along the last axis, or the one before it.
pub(super) fn softmax(emitter: &mut Emitter<'_>, axis: u32, log: bool) {
    let (x, y) = (emitter.input(0), emitter.output(0));
    if axis as usize + 1 < x.rank() {
        return softmax_columns(emitter, &x, &y, log);
    }
    let element = x.element;
    let (from, to) = (Stride::last(&x), Stride::last(&y));
    let sub = step(Map::Sub, &[Arg::Input(0), Arg::Input(1)]);
    let exp = step(Map::Exp, &[Arg::Step(0)]);
    let same = Body::identity(element);
    let shifted = Body::new(vec![sub.clone(), exp], vec![element; 2]);
    let less = Body::new(vec![sub], vec![element; 2]);
    let divide = step(Map::Div, &[Arg::Input(0), Arg::Input(1)]);
    let divide = Body::new(vec![divide], vec![element; 2]);
    rows(emitter, |emitter, pointers, n| {
        let source = Source::Lane(pointers[0], from);
        let least = Math { emitter, element, lanes: 1 }.least();
        let most = fold_row(emitter, &same, &[source], Fold::Max, least, n);
        let zero = number(emitter, element, 0.0);
        let shift = [source, Source::Value(most)];
        let target = (pointers[1], to);
        if log {
            let sum = fold_row(emitter, &shifted, &shift, Fold::Sum, zero, n);
            let rest = Math { emitter, element, lanes: 1 }.log(sum);
            map_row(emitter, &less, &shift, &[0], &[target], n);
            let written = [Source::Lane(pointers[1], to), Source::Value(rest)];
            map_row(emitter, &less, &written, &[0], &[target], n);
        } else {
            map_row(emitter, &shifted, &shift, &[1], &[target], n);
            let written = Source::Lane(pointers[1], to);
            let sum = fold_row(emitter, &same, &[written], Fold::Sum, zero, n);
            map_row(emitter, &divide, &[written, Source::Value(sum)], &[0], &[target], n);
        }
    });
}

/// As [`softmax`] along the axis before the last, for some neighbours on the last at once.
fn softmax_columns(emitter: &mut Emitter<'_>, x: &Array, y: &Array, log: bool) {
    let element = x.element;
    let outer = x.rank() - 2;
    let (n, width) = (x.dims[outer], x.dims[outer + 1]);
    let (from, to) = (x.strides[outer], y.strides[outer]);
    let column = |emitter: &mut Emitter<'_>, starts: &[Value], i: Value, lanes: u32| {
        let ty = wide(element, lanes);
        let mut at = Vec::new();
        for (array, &start) in [x, y].into_iter().zip(starts) {
            at.push(emitter.at(start, i, array.strides[outer + 1]));
        }
        let zero = emitter.int(0);
        let least = Math { emitter, element, lanes }.least();
        let most = emitter.range(zero, n, 1, &[at[0], least], |emitter, _, state| {
            let value = emitter.load_as(ty, state[0], 0);
            let most = Math { emitter, element, lanes }.max(state[1], value);
            vec![emitter.add(state[0], from), most]
        })[1];
        let none = Math { emitter, element, lanes }.zero();
        let sum = emitter.range(zero, n, 1, &[at[0], at[1], none], |emitter, _, state| {
            let value = emitter.load_as(ty, state[0], 0);
            let mut math = Math { emitter, element, lanes };
            let shifted = math.sub(value, most);
            let grown = math.exp(shifted);
            let sum = math.add(state[2], grown);
            emitter.store(if log { shifted } else { grown }, state[1]);
            vec![emitter.add(state[0], from), emitter.add(state[1], to), sum]
        })[2];
        let rest = if log { Math { emitter, element, lanes }.log(sum) } else { sum };
        emitter.range(zero, n, 1, &[at[1]], |emitter, _, state| {
            let value = emitter.load_as(ty, state[0], 0);
            let mut math = Math { emitter, element, lanes };
            let value = if log { math.sub(value, rest) } else { math.div(value, rest) };
            emitter.store(value, state[0]);
            vec![emitter.add(state[0], to)]
        });
        Vec::new()
    };
    let vectors = (element == ElementType::F32 || !log)
        && [x, y].iter().all(|array| matches!(Stride::last(array), Stride::Unit));
    let lanes = [x.lane_of(0..outer), y.lane_of(0..outer)];
    emitter.walk(&x.dims[..outer], &lanes, |emitter, _, starts| {
        let mut begin = emitter.int(0);
        if vectors {
            let lanes = 16 / element.size() as u32;
            let end = emitter.builder.ins().band_imm_s(width, -i64::from(lanes));
            emitter.range(begin, end, i64::from(lanes), &[], |emitter, i, _| {
                column(emitter, starts, i, lanes)
            });
            begin = end;
        }
        emitter.range(begin, width, 1, &[], |emitter, i, _| column(emitter, starts, i, 1));
    });
}

/// LpNormalization. A row whose norm is 0 is 0.
pub(super) fn lp_normalize(emitter: &mut Emitter<'_>, p: u32) {
    let (x, y) = (emitter.input(0), emitter.output(0));
    let element = x.element;
    let (from, to) = (Stride::last(&x), Stride::last(&y));
    let part = match p {
        1 => step(Map::Abs, &[Arg::Input(0)]),
        _ => step(Map::Mul, &[Arg::Input(0), Arg::Input(0)]),
    };
    let part = Body::new(vec![part], vec![element]);
    let divide = step(Map::Div, &[Arg::Input(0), Arg::Input(1)]);
    let divide = Body::new(vec![divide], vec![element; 2]);
    rows(emitter, |emitter, pointers, n| {
        let source = Source::Lane(pointers[0], from);
        let zero = number(emitter, element, 0.0);
        let sum = fold_row(emitter, &part, &[source], Fold::Sum, zero, n);
        let mut math = Math { emitter, element, lanes: 1 };
        let norm = if p == 1 { sum } else { math.sqrt(sum) };
        // What is 0 everywhere stays so, divided by 1.
        let one = math.number(1.0);
        let none = math.emitter.builder.ins().fcmp(FloatCC::Equal, norm, zero);
        let norm = math.choose(none, one, norm);
        let sources = [source, Source::Value(norm)];
        map_row(emitter, &divide, &sources, &[0], &[(pointers[1], to)], n);
    });
}

/// The address of element `i` of a row.
fn element_at(emitter: &mut Emitter<'_>, array: &Array, start: Value, i: Value) -> Value {
    let stride = *array.strides.last().expect("it has an axis");
    emitter.at(start, i, stride)
}

/// Whether `x` is preferred to `y`, the one before it: greater, or less, and NaN over all or under all.
fn preferred(
    emitter: &mut Emitter<'_>,
    element: ElementType,
    max: bool,
    or_equal: bool,
    nan_over: bool,
    (x, y): (Value, Value),
) -> Value {
    let (float, int) = match (max, or_equal) {
        (true, false) => (FloatCC::GreaterThan, IntCC::SignedGreaterThan),
        (true, true) => (FloatCC::GreaterThanOrEqual, IntCC::SignedGreaterThanOrEqual),
        (false, false) => (FloatCC::LessThan, IntCC::SignedLessThan),
        (false, true) => (FloatCC::LessThanOrEqual, IntCC::SignedLessThanOrEqual),
    };
    let mut math = Math { emitter, element, lanes: 1 };
    let better = math.compare(float, int, x, y);
    if !element.is_float() {
        return better;
    }
    let builder = &mut emitter.builder;
    let (over, under) = if nan_over { (x, y) } else { (y, x) };
    let nan = builder.ins().fcmp(FloatCC::Unordered, over, over);
    let nan = if or_equal {
        nan
    } else {
        let known = builder.ins().fcmp(FloatCC::Ordered, under, under);
        builder.ins().band(nan, known)
    };
    builder.ins().bor(better, nan)
}

/// The place of the extreme element of a row.
fn extreme(
    emitter: &mut Emitter<'_>,
    x: &Array,
    start: Value,
    n: Value,
    max: bool,
    last: bool,
) -> Value {
    let element = x.element;
    let zero = emitter.int(0);
    let some = emitter.compare_to(IntCC::SignedGreaterThan, n, 0);
    let find = |emitter: &mut Emitter<'_>| {
        let first = emitter.load(element, start);
        let one = emitter.int(1);
        let found = emitter.range(one, n, 1, &[first, zero], |emitter, i, state| {
            let at = element_at(emitter, x, start, i);
            let value = emitter.load(element, at);
            let better = preferred(emitter, element, max, last, true, (value, state[0]));
            let best = emitter.select(better, value, state[0]);
            let place = emitter.select(better, i, state[1]);
            vec![best, place]
        });
        vec![found[1]]
    };
    emitter.either(some, find, |_| vec![zero])[0]
}

/// ArgMax, ArgMin.
pub(super) fn arg_extreme(emitter: &mut Emitter<'_>, max: bool, last: bool) {
    let (x, y) = (emitter.input(0), emitter.output(0));
    let outer = x.rank() - 1;
    let lanes = [x.lane_of(0..outer), y.lane()];
    let n = x.dims[outer];
    emitter.walk(&x.dims[..outer], &lanes, |emitter, _, pointers| {
        let place = extreme(emitter, &x, pointers[0], n, max, last);
        emitter.store(place, pointers[1]);
    });
}

/// Hardmax: 1 at the first greatest element of a row, 0 elsewhere.
pub(super) fn hardmax(emitter: &mut Emitter<'_>) {
    let (x, y) = (emitter.input(0), emitter.output(0));
    let element = x.element;
    rows(emitter, |emitter, pointers, n| {
        let place = extreme(emitter, &x, pointers[0], n, true, false);
        let (zero, one) = (number(emitter, element, 0.0), number(emitter, element, 1.0));
        emitter.each(n, |emitter, i| {
            let here = emitter.compare(IntCC::Equal, i, place);
            let value = emitter.select(here, one, zero);
            let at = element_at(emitter, &y, pointers[1], i);
            emitter.store(value, at);
        });
    });
}

/// CumSum, CumProd.
pub(super) fn cumulate(emitter: &mut Emitter<'_>, product: bool, exclusive: bool, reverse: bool) {
    let (x, y) = (emitter.input(0), emitter.output(0));
    let element = x.element;
    let fold = if product { Fold::Product } else { Fold::Sum };
    rows(emitter, |emitter, pointers, n| {
        let (from, to) = (pointers[0], pointers[1]);
        let zero = emitter.int(0);
        let identity = fold.identity(&mut Math { emitter, element, lanes: 1 });
        emitter.range(zero, n, 1, &[identity], |emitter, i, state| {
            let place = if reverse {
                let after = emitter.sub(n, i);
                emitter.offset(after, -1)
            } else {
                i
            };
            let at = element_at(emitter, &x, from, place);
            let value = emitter.load(element, at);
            let folded = fold.join(&mut Math { emitter, element, lanes: 1 }, state[0], value);
            let at = element_at(emitter, &y, to, place);
            emitter.store(if exclusive { state[0] } else { folded }, at);
            vec![folded]
        });
    });
}

/// TopK: the best `k` of each row, best first, of equals the first.
///
/// A heap of the best so far lies in the outputs, the worst of them at its root; at the end it is sorted in place.
pub(super) fn top_k(emitter: &mut Emitter<'_>, largest: bool) {
    let x = emitter.input(0);
    let (values, places) = (emitter.output(0), emitter.output(1));
    let outer = x.rank() - 1;
    let (n, k) = (x.dims[outer], values.dims[outer]);
    let lanes: Vec<Lane> = [&x, &values, &places].map(|a| a.lane_of(0..outer)).to_vec();
    emitter.walk(&x.dims[..outer], &lanes, |emitter, _, pointers| {
        let heap =
            Heap { values: &values, places: &places, at: pointers[1], is: pointers[2], largest };
        let from = pointers[0];
        let load = |emitter: &mut Emitter<'_>, i: Value| {
            let at = element_at(emitter, &x, from, i);
            emitter.load(x.element, at)
        };
        let some = emitter.compare_to(IntCC::SignedGreaterThan, k, 0);
        emitter.when(some, |emitter| {
            emitter.each(k, |emitter, i| {
                let value = load(emitter, i);
                heap.set(emitter, i, (value, i));
            });
            // From the last parent to the root.
            let half = emitter.builder.ins().ushr_imm_u(k, 1);
            emitter.each(half, |emitter, i| {
                let parent = emitter.sub(half, i);
                let parent = emitter.offset(parent, -1);
                let item = heap.get(emitter, parent);
                heap.sink(emitter, parent, k, item);
            });
            emitter.range(k, n, 1, &[], |emitter, i, _| {
                let value = load(emitter, i);
                let zero = emitter.int(0);
                let worst = heap.get(emitter, zero);
                let better = heap.is_before(emitter, (value, i), worst);
                emitter.when(better, |emitter| heap.sink(emitter, zero, k, (value, i)));
                Vec::new()
            });
            // The worst goes to the end of what is left, again and again.
            let last = emitter.offset(k, -1);
            emitter.each(last, |emitter, i| {
                let end = emitter.sub(last, i);
                let zero = emitter.int(0);
                let worst = heap.get(emitter, zero);
                let item = heap.get(emitter, end);
                heap.set(emitter, end, worst);
                heap.sink(emitter, zero, end, item);
            });
        });
    });
}

/// A value, and where it was.
type Item = (Value, Value);

/// A heap in a row of two outputs, in which no child comes after its parent.
struct Heap<'a> {
    values: &'a Array,
    places: &'a Array,
    at: Value,
    is: Value,
    largest: bool,
}

impl Heap<'_> {
    fn get(&self, emitter: &mut Emitter<'_>, i: Value) -> Item {
        let at = element_at(emitter, self.values, self.at, i);
        let value = emitter.load(self.values.element, at);
        let at = element_at(emitter, self.places, self.is, i);
        (value, emitter.load(ElementType::I64, at))
    }

    fn set(&self, emitter: &mut Emitter<'_>, i: Value, (value, place): Item) {
        let at = element_at(emitter, self.values, self.at, i);
        emitter.store(value, at);
        let at = element_at(emitter, self.places, self.is, i);
        emitter.store(place, at);
    }

    /// Whether `a` comes before `b` in the output.
    fn is_before(&self, emitter: &mut Emitter<'_>, a: Item, b: Item) -> Value {
        let element = self.values.element;
        let largest = self.largest;
        let better = preferred(emitter, element, largest, false, largest, (a.0, b.0));
        let worse = preferred(emitter, element, largest, false, largest, (b.0, a.0));
        let first = emitter.compare(IntCC::SignedLessThan, a.1, b.1);
        let builder = &mut emitter.builder;
        let tie = builder.ins().bxor_imm_u(worse, 1);
        let tie = builder.ins().band(tie, first);
        builder.ins().bor(better, tie)
    }

    /// Puts an item into the heap of `count`, in the place of the one at `i` or below it.
    fn sink(&self, emitter: &mut Emitter<'_>, i: Value, count: Value, item: Item) {
        let turn = |emitter: &mut Emitter<'_>, state: &[Value]| {
            let hole = state[0];
            let twice = emitter.add(hole, hole);
            let left = emitter.offset(twice, 1);
            let inside = emitter.compare(IntCC::SignedLessThan, left, count);
            let down = |emitter: &mut Emitter<'_>| {
                // The worse of the two children.
                let right = emitter.offset(left, 1);
                let has_right = emitter.compare(IntCC::SignedLessThan, right, count);
                let other = emitter.select(has_right, right, left);
                let (a, b) = (self.get(emitter, left), self.get(emitter, other));
                let before = self.is_before(emitter, a, b);
                let child = emitter.select(before, other, left);
                let value = emitter.select(before, b.0, a.0);
                let place = emitter.select(before, b.1, a.1);
                let sinks = self.is_before(emitter, item, (value, place));
                emitter.when(sinks, |emitter| self.set(emitter, hole, (value, place)));
                let next = emitter.select(sinks, child, hole);
                vec![sinks, next]
            };
            let stay = |emitter: &mut Emitter<'_>| {
                let no = emitter.compare(IntCC::NotEqual, hole, hole);
                vec![no, hole]
            };
            let moved = emitter.either(inside, down, stay);
            (moved[0], vec![moved[1]])
        };
        let hole = emitter.repeat_while(&[i], turn)[0];
        self.set(emitter, hole, item);
    }
}
