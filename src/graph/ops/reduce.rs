//! Reductions, of inputs or of what element-wise steps make of them.
//!
//! ```text
//!   kept axes ──► reduced axes ──► a row along the last reduced axis
//!   kept axes ──► a few neighbours of the last kept axis at once ──► reduced axes     where those lie together
//! ```
//!
//! The reduced axes are the last; in the second form, which takes whole vectors from each place, the last kept axis comes
//! after them.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::arithmetic::{Math, wide};
use super::cast::cast;
use super::emit::{Array, Emitter, Lane};
use super::fold::{Columns, Fold, fold_columns, fold_row};
use super::rows::{Body, Source, Stride, step};
use crate::graph::node::{Arg, Layout, Map, Reduction, Step};
use crate::graph::tensor::ElementType;

/// Reduces the last of `steps` over `axes` of the inputs' common shape, to the one output.
pub(super) fn emit(emitter: &mut Emitter<'_>, mut steps: Vec<Step>, kind: Reduction, axes: &[u32]) {
    let inputs: Vec<Array> = (0..emitter.inputs.len()).map(|i| emitter.input(i)).collect();
    let output = emitter.output(0);
    let types: Vec<ElementType> = inputs.iter().map(|array| array.element).collect();
    let element = {
        let body = Body::new(steps.clone(), types.clone());
        body.result(body.last())
    };
    let plan = Plan::of(kind, element);
    for map in &plan.before {
        let last = steps.len() as u32 - 1;
        steps.push(step(*map, &[Arg::Step(last)]));
    }
    if Plan::squares(kind) {
        let last = steps.len() as u32 - 1;
        steps.push(step(Map::Mul, &[Arg::Step(last), Arg::Step(last)]));
    }
    let reduction = Reducer { kind, plan, element, body: Body::new(steps, types) };
    let rank = inputs[0].rank();
    match axes.last() {
        Some(&last) if (last as usize) + 1 < rank => {
            reduction.columns(emitter, &inputs, &output, axes);
        }
        _ => reduction.rows(emitter, &inputs, &output, rank - axes.len()),
    }
}

/// Whether a reduction can be done in columns.
pub(in crate::graph) fn has_columns(kind: Reduction) -> bool {
    kind != Reduction::LogSumExp
}

struct Reducer {
    kind: Reduction,
    plan: Plan,
    /// Of the output.
    element: ElementType,
    body: Body,
}

impl Reducer {
    fn rows(&self, emitter: &mut Emitter<'_>, inputs: &[Array], output: &Array, kept: usize) {
        let dims = inputs[0].dims.clone();
        let (outer, reduced) = dims.split_at(kept);
        let count = emitter.product(reduced);
        let flat = inputs.iter().all(|a| matches!(a.layout, Layout::Contiguous | Layout::Single));
        let mut lanes: Vec<Lane> = inputs.iter().map(|array| array.lane_of(0..kept)).collect();
        lanes.push(output.lane());
        emitter.walk(outer, &lanes, |emitter, _, pointers| {
            let (to, from) = pointers.split_last().expect("one is the output's");
            let space = Space { inputs, starts: from, kept, reduced, flat, count };
            let result = self.reduce(emitter, &space);
            emitter.store(result, *to);
        });
    }

    /// One element of the output.
    fn reduce(&self, emitter: &mut Emitter<'_>, space: &Space<'_>) -> Value {
        let Plan { fold, element, .. } = self.plan;
        let identity = fold.identity(&mut Math { emitter, element, lanes: 1 });
        if self.kind != Reduction::LogSumExp {
            let folded = space.fold(emitter, &self.body, fold, &[], identity);
            return finish(emitter, self.kind, &self.plan, self.element, folded, space.count, 1);
        }
        // ln Σ eˣ = m + ln Σ e^(x - m), of which no term overflows.
        let least = Math { emitter, element, lanes: 1 }.least();
        let most = space.fold(emitter, &self.body, Fold::Max, &[], least);
        let mut math = Math { emitter, element, lanes: 1 };
        let size = math.abs(most);
        let infinity = math.number(f64::INFINITY);
        let zero = math.zero();
        let infinite = math.emitter.builder.ins().fcmp(FloatCC::Equal, size, infinity);
        let shift = math.choose(infinite, zero, most);
        let body = self.body.then_shifted_exp(element);
        let sum = space.fold(emitter, &body, Fold::Sum, &[Source::Value(shift)], identity);
        let mut math = Math { emitter, element, lanes: 1 };
        let log = math.log(sum);
        let result = math.add(log, shift);
        cast(emitter, result, element, self.element)
    }

    /// Whether what becomes of a fold has a vector form.
    fn finishes_vectors(&self) -> bool {
        match self.kind {
            Reduction::LogSum | Reduction::LogSumExp => false,
            Reduction::Mean => self.element.is_float(),
            _ => true,
        }
    }

    fn columns(&self, emitter: &mut Emitter<'_>, inputs: &[Array], output: &Array, axes: &[u32]) {
        let rank = inputs[0].rank();
        let dims = inputs[0].dims.clone();
        let first = rank - 1 - axes.len();
        let n = dims[rank - 1];
        let reduced = &dims[first..rank - 1];
        let count = emitter.product(reduced);
        let mut lanes: Vec<Lane> = inputs.iter().map(|array| array.lane_of(0..first)).collect();
        lanes.push(output.lane_of(0..first));
        emitter.walk(&dims[..first], &lanes, |emitter, _, pointers| {
            let (to, from) = pointers.split_last().expect("one is the output's");
            let inner: Vec<(Lane, Stride)> = inputs
                .iter()
                .zip(from)
                .map(|(array, &start)| {
                    let lane = array.lane_of(first..rank - 1);
                    (Lane { start, ..lane }, Stride::last(array))
                })
                .collect();
            let vectors = self.finishes_vectors()
                && inputs.iter().all(|array| array.layout != Layout::Strided);
            let finish = |emitter: &mut Emitter<'_>, folded: Value, lanes: u32| {
                finish(emitter, self.kind, &self.plan, self.element, folded, count, lanes)
            };
            let columns = Columns {
                body: &self.body,
                lanes: &inner,
                dims: reduced,
                fold: self.plan.fold,
                target: *to,
                stored: self.element,
                n,
                vectors,
            };
            fold_columns(emitter, &columns, &finish);
        });
    }
}

/// What is reduced to one element.
struct Space<'a> {
    inputs: &'a [Array],
    /// Where each input's part begins.
    starts: &'a [Value],
    /// How many axes come before.
    kept: usize,
    reduced: &'a [Value],
    /// It is one row.
    flat: bool,
    count: Value,
}

impl Space<'_> {
    /// Folds the body's last step, whose first inputs are these and then `extra`.
    fn fold(
        &self,
        emitter: &mut Emitter<'_>,
        body: &Body,
        fold: Fold,
        extra: &[Source],
        identity: Value,
    ) -> Value {
        let sources = |pointers: &[Value]| -> Vec<Source> {
            let lane = |(&pointer, array): (&Value, &Array)| {
                let stride = match array.layout {
                    _ if self.reduced.is_empty() => Stride::Zero,
                    _ => Stride::last(array),
                };
                Source::Lane(pointer, stride)
            };
            let mut sources: Vec<Source> = pointers.iter().zip(self.inputs).map(lane).collect();
            sources.extend_from_slice(extra);
            sources
        };
        if self.flat || self.reduced.is_empty() {
            return fold_row(emitter, body, &sources(self.starts), fold, identity, self.count);
        }
        let (n, outer) = self.reduced.split_last().expect("there are some");
        let lanes: Vec<Lane> = self
            .inputs
            .iter()
            .zip(self.starts)
            .map(|(array, &start)| {
                let axes = self.kept..self.kept + outer.len();
                Lane { start, ..array.lane_of(axes) }
            })
            .collect();
        let folded = emitter.nest(outer, &lanes, &[identity], |emitter, _, pointers, state| {
            vec![fold_row(emitter, body, &sources(pointers), fold, state[0], *n)]
        });
        folded[0]
    }
}

/// What a reduction folds, of which function of each element, in which type; and what becomes of the fold.
struct Plan {
    fold: Fold,
    /// Between an element and the fold.
    before: Vec<Map>,
    /// The type that is folded in.
    element: ElementType,
}

impl Plan {
    /// How an element type is reduced. For LogSumExp this is the second pass.
    fn of(kind: Reduction, element: ElementType) -> Plan {
        // Roots and logarithms of integers are those of numbers.
        let rooted = matches!(kind, Reduction::L2 | Reduction::LogSum | Reduction::LogSumExp);
        let number = rooted && !element.is_float();
        let mut before = Vec::new();
        if number {
            before.push(Map::Cast { to: ElementType::F64 });
        }
        let fold = match kind {
            Reduction::Prod => Fold::Product,
            Reduction::Min => Fold::Min,
            Reduction::Max => Fold::Max,
            _ => Fold::Sum,
        };
        if kind == Reduction::L1 {
            before.push(Map::Abs);
        }
        Plan { fold, before, element: if number { ElementType::F64 } else { element } }
    }

    /// Whether elements are squared before they are summed.
    fn squares(kind: Reduction) -> bool {
        matches!(kind, Reduction::L2 | Reduction::SumSquare)
    }
}

/// What becomes of a fold over `count` elements.
fn finish(
    emitter: &mut Emitter<'_>,
    kind: Reduction,
    plan: &Plan,
    element: ElementType,
    folded: Value,
    count: Value,
    lanes: u32,
) -> Value {
    let result = match kind {
        Reduction::Mean => {
            let count = cast(emitter, count, ElementType::I64, plan.element);
            let count = if lanes > 1 {
                emitter.builder.ins().splat(wide(plan.element, lanes), count)
            } else {
                count
            };
            Math { emitter, element: plan.element, lanes }.div(folded, count)
        }
        Reduction::L2 => Math { emitter, element: plan.element, lanes }.sqrt(folded),
        Reduction::LogSum | Reduction::LogSumExp => {
            Math { emitter, element: plan.element, lanes }.log(folded)
        }
        _ => folded,
    };
    if plan.element == element { result } else { cast(emitter, result, plan.element, element) }
}
