//! Folds: many elements, or what steps make of them, into one.
//!
//! ```text
//!   a row:     vectors of partial folds ──► across their lanes ──► the rest, one at a time
//!   columns:   a vector of neighbours, each folded by itself
//! ```

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::arithmetic::Math;
use super::emit::{Emitter, Lane};
use super::rows::{
    Body, Source, Stride, address, fetch, hoist, is_unit, load_lanes, spread, spread_value,
    store_lanes, unroll, whole_turns,
};
use crate::graph::tensor::ElementType;

/// How elements are folded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Sum,
    Product,
    Min,
    Max,
}

impl Fold {
    fn has_vectors(self, element: ElementType) -> bool {
        match self {
            // A fold of bools is one of bytes.
            _ if element == ElementType::Bool => false,
            Fold::Sum => true,
            Fold::Product | Fold::Min | Fold::Max => {
                element.is_float() || matches!(element.size(), 2 | 4)
            }
        }
    }

    /// What leaves the other as it is.
    pub(super) fn identity(self, math: &mut Math<'_, '_>) -> Value {
        match self {
            Fold::Sum => math.zero(),
            Fold::Product => math.number(1.0),
            Fold::Min => math.greatest(),
            Fold::Max => math.least(),
        }
    }

    pub(super) fn join(self, math: &mut Math<'_, '_>, a: Value, b: Value) -> Value {
        match self {
            Fold::Sum => math.add(a, b),
            Fold::Product => math.mul(a, b),
            Fold::Min => math.min(a, b),
            Fold::Max => math.max(a, b),
        }
    }
}

/// Folds the last step's results for `n` elements into `folded`.
pub(super) fn fold_row(
    emitter: &mut Emitter<'_>,
    body: &Body,
    sources: &[Source],
    fold: Fold,
    folded: Value,
    n: Value,
) -> Value {
    let output = body.last();
    let element = body.result(output);
    let some = emitter.compare_to(IntCC::SignedGreaterThan, n, 0);
    let inside = |emitter: &mut Emitter<'_>| {
        let sources = hoist(emitter, &body.inputs, sources);
        let zero = emitter.int(0);
        let lanes =
            body.lanes().filter(|_| sources.iter().all(is_unit) && fold.has_vectors(element));
        let (start, folded) = match lanes {
            None => (zero, folded),
            Some(lanes) => fold_vectors(emitter, body, &sources, fold, folded, n, lanes),
        };
        emitter.range(start, n, 1, &[folded], |emitter, i, state| {
            let values = fetch(emitter, body, &sources, i, 1, 0);
            let results = body.run(emitter, &values, 1);
            let mut math = Math { emitter, element, lanes: 1 };
            vec![fold.join(&mut math, state[0], results[output as usize])]
        })
    };
    emitter.either(some, inside, |_| vec![folded])[0]
}

/// Folds whole turns of vectors, and says where the rest begins.
fn fold_vectors(
    emitter: &mut Emitter<'_>,
    body: &Body,
    sources: &[Source],
    fold: Fold,
    folded: Value,
    n: Value,
    lanes: u32,
) -> (Value, Value) {
    let output = body.last();
    let element = body.result(output);
    let unroll = unroll(body);
    let end = whole_turns(emitter, n, lanes, unroll);
    let some = emitter.compare_to(IntCC::SignedGreaterThan, end, 0);
    let inside = |emitter: &mut Emitter<'_>| {
        let spread = spread(emitter, body, sources, lanes);
        let start = emitter.int(0);
        let identity = fold.identity(&mut Math { emitter, element, lanes });
        let state = vec![identity; unroll as usize];
        let all =
            emitter.range(start, end, i64::from(lanes * unroll), &state, |emitter, i, state| {
                let mut next = Vec::new();
                for (nth, &before) in state.iter().enumerate() {
                    let values = fetch(emitter, body, &spread, i, lanes, nth as u32);
                    let results = body.run(emitter, &values, lanes);
                    let mut math = Math { emitter, element, lanes };
                    next.push(fold.join(&mut math, before, results[output as usize]));
                }
                next
            });
        vec![across(emitter, fold, element, folded, &all, lanes)]
    };
    let folded = emitter.either(some, inside, |_| vec![folded])[0];
    (end, folded)
}

/// Folds the lanes of vectors into one value, by halves.
fn across(
    emitter: &mut Emitter<'_>,
    fold: Fold,
    element: ElementType,
    folded: Value,
    vectors: &[Value],
    lanes: u32,
) -> Value {
    let mut math = Math { emitter, element, lanes };
    let vector = vectors[1..]
        .iter()
        .fold(vectors[0], |joined, &vector| fold.join(&mut math, joined, vector));
    let builder = &mut math.emitter.builder;
    let mut values: Vec<Value> =
        (0..lanes).map(|lane| builder.ins().extractlane(vector, lane as u8)).collect();
    math.lanes = 1;
    while values.len() > 1 {
        let half = values.split_off(values.len() / 2);
        values = values.iter().zip(half).map(|(&a, b)| fold.join(&mut math, a, b)).collect();
    }
    fold.join(&mut math, folded, values[0])
}

/// Columns to be folded, each with its neighbours.
pub(super) struct Columns<'a> {
    pub(super) body: &'a Body,
    /// Of each source: how it leads through the nest, and to the neighbour.
    pub(super) lanes: &'a [(Lane, Stride)],
    /// Of the nest.
    pub(super) dims: &'a [Value],
    pub(super) fold: Fold,
    /// Where the results go, next to each other.
    pub(super) target: Value,
    pub(super) stored: ElementType,
    /// How many columns there are.
    pub(super) n: Value,
    /// Vectors of neighbours may be taken.
    pub(super) vectors: bool,
}

/// Folds the last step's results along columns: for each of `n` neighbours, over all of a nest. `finish` makes of each
/// fold what is stored.
pub(super) fn fold_columns(
    emitter: &mut Emitter<'_>,
    columns: &Columns<'_>,
    finish: &dyn Fn(&mut Emitter<'_>, Value, u32) -> Value,
) {
    let Columns { body, lanes: lanes_of, dims, fold, target, stored, n, vectors } = *columns;
    let output = body.last();
    let element = body.result(output);
    let width = body.lanes().filter(|_| vectors && fold.has_vectors(element));
    let mut start = emitter.int(0);
    let column = |emitter: &mut Emitter<'_>, i: Value, lanes: u32, unroll: u32| {
        let moved: Vec<Lane> = lanes_of
            .iter()
            .zip(&body.inputs)
            .map(|((lane, stride), &element)| Lane {
                start: address(emitter, lane.start, *stride, element, i),
                strides: lane.strides.clone(),
            })
            .collect();
        let identity = fold.identity(&mut Math { emitter, element, lanes });
        let state = vec![identity; unroll as usize];
        let folded = emitter.nest(dims, &moved, &state, |emitter, _, pointers, state| {
            let mut next = Vec::new();
            for (nth, &before) in state.iter().enumerate() {
                let mut values = Vec::new();
                for ((&at, (_, stride)), &element) in
                    pointers.iter().zip(lanes_of).zip(&body.inputs)
                {
                    values.push(match stride {
                        Stride::Zero if lanes > 1 => {
                            let value = emitter.load(element, at);
                            spread_value(emitter, element, value, lanes)
                        }
                        Stride::Zero => emitter.load(element, at),
                        _ => load_lanes(emitter, element, at, lanes, nth as u32),
                    });
                }
                let results = body.run(emitter, &values, lanes);
                let mut math = Math { emitter, element, lanes };
                next.push(fold.join(&mut math, before, results[output as usize]));
            }
            next
        });
        let at = address(emitter, target, Stride::Unit, stored, i);
        for (nth, value) in folded.into_iter().enumerate() {
            let value = finish(emitter, value, lanes);
            store_lanes(emitter, stored, value, at, lanes, nth as u32);
        }
        Vec::new()
    };
    if let Some(lanes) = width {
        let unroll = unroll(body);
        let end = whole_turns(emitter, n, lanes, unroll);
        emitter.range(start, end, i64::from(lanes * unroll), &[], |emitter, i, _| {
            column(emitter, i, lanes, unroll)
        });
        start = end;
    }
    emitter.range(start, n, 1, &[], |emitter, i, _| column(emitter, i, 1, 1));
}
