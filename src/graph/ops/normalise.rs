//! LayerNormalization, RMSNormalization, BatchNormalization.
//!
//! ```text
//!   Σ x / n = mean ──► Σ (x - mean)² / n = variance ──► (x - mean) / √(variance + ε) · scale + bias
//! ```
//!
//! In two passes for the statistics, since one alone cancels where the mean is large.

use cranelift_codegen::ir::Value;

use super::arithmetic::Math;
use super::cast::cast;
use super::emit::{Array, Emitter, Lane};
use super::fold::{Fold, fold_row};
use super::rows::{Body, Source, Stride, map_row, step};
use crate::graph::node::{Arg, Float, Layout, Map};
use crate::graph::tensor::ElementType;

/// Some of the axes of some operands, from where they begin.
struct Part<'a> {
    arrays: &'a [Array],
    starts: Vec<Value>,
    first: usize,
}

impl Part<'_> {
    fn source(array: &Array, pointer: Value) -> Source {
        Source::Lane(pointer, Stride::last(array))
    }

    /// The dims, and all but the last of them.
    fn dims(&self) -> (&[Value], &[Value]) {
        let dims = &self.arrays[0].dims[self.first..];
        (dims, &dims[..dims.len() - 1])
    }

    /// Whether the part is one row of the first operands.
    fn is_flat(&self, count: usize) -> bool {
        self.arrays[..count].iter().all(|array| array.layout == Layout::Contiguous)
    }

    fn lanes(&self, count: usize) -> Vec<Lane> {
        let (_, outer) = self.dims();
        let axes = self.first..self.first + outer.len();
        let lane =
            |(array, &start): (&Array, &Value)| Lane { start, ..array.lane_of(axes.clone()) };
        self.arrays[..count].iter().zip(&self.starts).map(lane).collect()
    }

    /// Folds a body of the first operand, and of values.
    fn fold(&self, emitter: &mut Emitter<'_>, body: &Body, values: &[Value]) -> Value {
        let element = self.arrays[0].element;
        let zero = Math { emitter, element, lanes: 1 }.zero();
        let sources = |pointer: Value| -> Vec<Source> {
            let lane = Part::source(&self.arrays[0], pointer);
            [lane].into_iter().chain(values.iter().copied().map(Source::Value)).collect()
        };
        let (dims, outer) = self.dims();
        if self.is_flat(1) {
            let n = emitter.product(dims);
            return fold_row(emitter, body, &sources(self.starts[0]), Fold::Sum, zero, n);
        }
        let n = dims[outer.len()];
        let folded = emitter.nest(outer, &self.lanes(1), &[zero], |emitter, _, pointers, state| {
            vec![fold_row(emitter, body, &sources(pointers[0]), Fold::Sum, state[0], n)]
        });
        folded[0]
    }

    /// Writes the last step of a body of all operands but the last, and of values, to the last operand.
    fn map(&self, emitter: &mut Emitter<'_>, body: &Body, values: &[Value]) {
        let count = self.arrays.len();
        let (dims, outer) = self.dims();
        let row = |emitter: &mut Emitter<'_>, pointers: &[Value], n: Value| {
            let (to, from) = pointers.split_last().expect("one is the output's");
            let mut sources: Vec<Source> = self
                .arrays
                .iter()
                .zip(from)
                .map(|(array, &pointer)| Part::source(array, pointer))
                .collect();
            sources.extend(values.iter().copied().map(Source::Value));
            let target = (*to, Stride::last(&self.arrays[count - 1]));
            map_row(emitter, body, &sources, &[body.last()], &[target], n);
        };
        if self.is_flat(count) {
            let n = emitter.product(dims);
            return row(emitter, &self.starts, n);
        }
        let n = dims[outer.len()];
        emitter.walk(outer, &self.lanes(count), |emitter, _, pointers| row(emitter, pointers, n));
    }
}

/// `1 / √(variance + ε)`.
fn inverse_deviation(
    emitter: &mut Emitter<'_>,
    element: ElementType,
    variance: Value,
    epsilon: Float,
) -> Value {
    let mut math = Math { emitter, element, lanes: 1 };
    let epsilon = math.number(f64::from(epsilon.get()));
    let sum = math.add(variance, epsilon);
    let deviation = math.sqrt(sum);
    let one = math.number(1.0);
    math.div(one, deviation)
}

fn sum_of(steps: &[Map], element: ElementType, inputs: usize) -> Body {
    let mut body = Vec::new();
    for map in steps {
        let last = body.len() as u32;
        body.push(match (map, last) {
            (Map::Sub, _) => step(Map::Sub, &[Arg::Input(0), Arg::Input(1)]),
            (Map::Mul, 0) => step(Map::Mul, &[Arg::Input(0), Arg::Input(0)]),
            (map, _) => step(*map, &[Arg::Step(last - 1), Arg::Step(last - 1)]),
        });
    }
    Body::new(body, vec![element; inputs])
}

/// LayerNormalization, or, without a mean, RMSNormalization.
pub(super) fn layer(emitter: &mut Emitter<'_>, axis: u32, epsilon: Float, centred: bool) {
    let first = axis as usize;
    let (x, scale, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let bias = emitter.inputs.get(2).cloned().flatten();
    let element = x.element;

    // Inputs of the last body: x, scale, bias?, then the inverse deviation and the mean.
    let operands = 2 + u32::from(bias.is_some());
    let (inverse, mean) = (Arg::Input(operands), Arg::Input(operands + 1));
    let mut steps = Vec::new();
    let mut value = Arg::Input(0);
    let mut push = |map: Map, args: &[Arg]| {
        steps.push(step(map, args));
        Arg::Step(steps.len() as u32 - 1)
    };
    if centred {
        value = push(Map::Sub, &[value, mean]);
    }
    value = push(Map::Mul, &[value, inverse]);
    let cast_to = |push: &mut dyn FnMut(Map, &[Arg]) -> Arg, arg: Arg, from: ElementType| {
        if from == element { arg } else { push(Map::Cast { to: element }, &[arg]) }
    };
    let scaled_by = cast_to(&mut push, Arg::Input(1), scale.element);
    value = push(Map::Mul, &[value, scaled_by]);
    if let Some(bias) = &bias {
        let raised_by = cast_to(&mut push, Arg::Input(2), bias.element);
        push(Map::Add, &[value, raised_by]);
    }
    let mut types = vec![element, scale.element];
    types.extend(bias.iter().map(|bias| bias.element));
    types.extend([element; 2]);
    let last = Body::new(steps, types);

    let mut arrays = vec![x.clone(), scale];
    arrays.extend(bias);
    arrays.push(y.clone());
    let statistics: Vec<Option<Array>> = emitter.outputs[1..].to_vec();
    let mut lanes: Vec<Lane> = arrays.iter().map(|array| array.lane_of(0..first)).collect();
    lanes.extend(statistics.iter().flatten().map(Array::lane));

    emitter.walk(&x.dims[..first], &lanes, |emitter, _, pointers| {
        let (starts, places) = pointers.split_at(arrays.len());
        let part = Part { arrays: &arrays, starts: starts.to_vec(), first };
        let count = emitter.product(&x.dims[first..]);
        let count = cast(emitter, count, ElementType::I64, element);
        let (mean, sum) = if centred {
            let sum = part.fold(emitter, &Body::identity(element), &[]);
            let mean = Math { emitter, element, lanes: 1 }.div(sum, count);
            let squares = sum_of(&[Map::Sub, Map::Mul], element, 2);
            (mean, part.fold(emitter, &squares, &[mean]))
        } else {
            let zero = Math { emitter, element, lanes: 1 }.zero();
            (zero, part.fold(emitter, &sum_of(&[Map::Mul], element, 1), &[]))
        };
        let variance = Math { emitter, element, lanes: 1 }.div(sum, count);
        let inverse = inverse_deviation(emitter, element, variance, epsilon);
        part.map(emitter, &last, &[inverse, mean]);
        let mut places = places.iter();
        for (statistic, value) in statistics.iter().zip([mean, inverse]) {
            if let Some(array) = statistic
                && let Some(&place) = places.next()
            {
                let value = cast(emitter, value, element, array.element);
                emitter.store(value, place);
            }
        }
    });
}

/// BatchNormalization. Channels are the first axis.
pub(super) fn batch(emitter: &mut Emitter<'_>, epsilon: Float, momentum: Float, training: bool) {
    let [x, scale, bias, mean, variance] = [0, 1, 2, 3, 4].map(|i| emitter.input(i));
    let y = emitter.output(0);
    let element = x.element;
    let running: Vec<Option<Array>> = emitter.outputs[1..].to_vec();
    let parameters = [&scale, &bias, &mean, &variance];
    let mut lanes = vec![x.lane_of([0]), y.lane_of([0])];
    lanes.extend(parameters.iter().map(|array| array.lane()));
    lanes.extend(running.iter().flatten().map(Array::lane));

    // (x - mean) · factor + bias
    let steps = vec![
        step(Map::Sub, &[Arg::Input(0), Arg::Input(1)]),
        step(Map::Mul, &[Arg::Step(0), Arg::Input(2)]),
        step(Map::Add, &[Arg::Step(1), Arg::Input(3)]),
    ];
    let last = Body::new(steps, vec![element; 4]);
    let arrays = [x.clone(), y.clone()];
    emitter.walk(&x.dims[..1], &lanes, |emitter, _, pointers| {
        let part = Part { arrays: &arrays, starts: pointers[..2].to_vec(), first: 1 };
        let mut given = Vec::new();
        for (array, &pointer) in parameters.iter().zip(&pointers[2..]) {
            let value = emitter.load(array.element, pointer);
            given.push(cast(emitter, value, array.element, element));
        }
        let (mut centre, mut spread) = (given[2], given[3]);
        if training {
            let count = emitter.product(&x.dims[1..]);
            let count = cast(emitter, count, ElementType::I64, element);
            let sum = part.fold(emitter, &Body::identity(element), &[]);
            centre = Math { emitter, element, lanes: 1 }.div(sum, count);
            let squares = sum_of(&[Map::Sub, Map::Mul], element, 2);
            let sum = part.fold(emitter, &squares, &[centre]);
            spread = Math { emitter, element, lanes: 1 }.div(sum, count);
            let mut places = pointers[6..].iter();
            let updates = [(given[2], centre), (given[3], spread)];
            for (array, (before, now)) in running.iter().zip(updates) {
                let (Some(array), Some(&place)) = (array, places.next()) else { continue };
                let mut math = Math { emitter, element, lanes: 1 };
                let keep = math.number(f64::from(momentum.get()));
                let take = math.number(1.0 - f64::from(momentum.get()));
                let (kept, taken) = (math.mul(before, keep), math.mul(now, take));
                let value = math.add(kept, taken);
                let value = cast(emitter, value, element, array.element);
                emitter.store(value, place);
            }
        }
        let inverse = inverse_deviation(emitter, element, spread, epsilon);
        let factor = Math { emitter, element, lanes: 1 }.mul(inverse, given[0]);
        part.map(emitter, &last, &[centre, factor, given[1]]);
    });
}
