//! One row of elements, and element-wise steps over it.
//!
//! ```text
//!   i = 0 ──── some vectors at a time ────► n & -some ──── one at a time ────► n
//! ```
//!
//! A row is a number of elements, each a stride from the one before. Vectors are used where every element that is
//! loaded or stored is next to the one before it, and every step has a vector form.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::arithmetic::{constant, wide};
use super::cast::{load_mask, spread_mask, store_mask};
use super::emit::{Array, Emitter};
use super::map::{apply, has_vectors, is_long};
use crate::graph::node::{Arg, Layout, Map, Step};
use crate::graph::tensor::ElementType;

/// How many vectors are in one turn of a loop: of short bodies several, since they wait for memory; long ones overlap
/// by themselves.
pub(super) fn unroll(body: &Body) -> u32 {
    if body.steps.iter().any(|step| is_long(&step.map)) { 1 } else { 4 }
}

/// The distance from an element of a row to the next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stride {
    /// None between them.
    Unit,
    /// They are the same.
    Zero,
    /// So many bytes.
    Bytes(Value),
}

impl Stride {
    /// The stride of the last axis of an operand.
    pub(super) fn last(array: &Array) -> Stride {
        match (array.layout, array.strides.last()) {
            (_, None) | (Layout::Single | Layout::Repeated, _) => Stride::Zero,
            (Layout::Contiguous | Layout::Rows, _) => Stride::Unit,
            (Layout::Strided, Some(&stride)) => Stride::Bytes(stride),
        }
    }
}

/// Where the elements of a row come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// One value.
    Value(Value),
    /// From here on.
    Lane(Value, Stride),
}

/// Steps, and the types of what they work on.
#[derive(Clone, Debug)]
pub(super) struct Body {
    steps: Vec<Step>,
    /// Of the sources.
    pub(super) inputs: Vec<ElementType>,
    /// Of the steps' results.
    results: Vec<ElementType>,
}

impl Body {
    pub(super) fn new(steps: Vec<Step>, inputs: Vec<ElementType>) -> Self {
        let mut body = Body { steps, inputs, results: Vec::new() };
        for index in 0..body.steps.len() {
            let types = body.types(index);
            body.results.push(body.steps[index].map.result(&types));
        }
        body
    }

    /// No step but one that gives back its input.
    pub(super) fn identity(element: ElementType) -> Self {
        // Bools move as bytes, of which there are vectors.
        let element = if element == ElementType::Bool { ElementType::U8 } else { element };
        Body::new(vec![step(Map::Identity, &[Arg::Input(0)])], vec![element])
    }

    /// The last step.
    pub(super) fn last(&self) -> u32 {
        self.steps.len() as u32 - 1
    }

    pub(super) fn result(&self, step: u32) -> ElementType {
        self.results[step as usize]
    }

    /// As this, and then e to the power of the last result less one more input, of the same type.
    pub(super) fn then_shifted_exp(&self, element: ElementType) -> Self {
        let (mut steps, mut inputs) = (self.steps.clone(), self.inputs.clone());
        let (last, shift) = (self.last(), inputs.len() as u32);
        inputs.push(element);
        steps.push(step(Map::Sub, &[Arg::Step(last), Arg::Input(shift)]));
        steps.push(step(Map::Exp, &[Arg::Step(last + 1)]));
        Body::new(steps, inputs)
    }

    fn types(&self, step: usize) -> Vec<ElementType> {
        let ty = |arg: &Arg| match *arg {
            Arg::Input(input) => self.inputs[input as usize],
            Arg::Step(step) => self.results[step as usize],
            Arg::Constant(scalar) => scalar.element,
        };
        self.steps[step].args.iter().map(ty).collect()
    }

    /// How many lanes vectors have, if every step has a vector form and all types but bools are as wide.
    pub(super) fn lanes(&self) -> Option<u32> {
        let mut all = self.inputs.iter().chain(&self.results);
        let size = all.clone().find(|&&element| element != ElementType::Bool)?.size();
        let fits = |element: ElementType| element == ElementType::Bool || element.size() == size;
        // A constant is no mask.
        let constants = self.steps.iter().flat_map(|step| &step.args);
        let mut constants = constants.filter_map(|arg| match arg {
            Arg::Constant(scalar) => Some(scalar.element),
            _ => None,
        });
        let vectors = |step: usize| has_vectors(&self.steps[step].map, &self.types(step), size);
        let all = all.all(|&element| fits(element))
            && constants.all(|element| element.size() == size && element != ElementType::Bool)
            && (0..self.steps.len()).all(vectors);
        // A bool's own vectors are of bytes, which are no masks.
        (all && (size > 1 || !self.has_bools())).then_some(16 / size as u32)
    }

    fn has_bools(&self) -> bool {
        self.inputs.iter().chain(&self.results).any(|&element| element == ElementType::Bool)
    }

    /// The results of all steps.
    pub(super) fn run(
        &self,
        emitter: &mut Emitter<'_>,
        inputs: &[Value],
        lanes: u32,
    ) -> Vec<Value> {
        let mut results: Vec<Value> = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let args: Vec<Value> = step
                .args
                .iter()
                .map(|arg| match arg {
                    Arg::Input(input) => inputs[*input as usize],
                    Arg::Step(step) => results[*step as usize],
                    Arg::Constant(scalar) => constant(emitter, scalar, lanes),
                })
                .collect();
            results.push(apply(emitter, &step.map, &args, &self.types(index), lanes));
        }
        results
    }
}

/// A step, in short.
pub(super) fn step(map: Map, args: &[Arg]) -> Step {
    Step { map, args: args.to_vec() }
}

/// Sources whose elements do not change along the row are loaded once. `n` is not 0.
pub(super) fn hoist(
    emitter: &mut Emitter<'_>,
    types: &[ElementType],
    sources: &[Source],
) -> Vec<Source> {
    let hoist = |(source, &element): (&Source, &ElementType)| match *source {
        Source::Lane(start, Stride::Zero) => Source::Value(emitter.load(element, start)),
        source => source,
    };
    sources.iter().zip(types).map(hoist).collect()
}

pub(super) fn is_unit(source: &Source) -> bool {
    matches!(source, Source::Value(_) | Source::Lane(_, Stride::Unit | Stride::Zero))
}

/// The address of element `i` of a row.
pub(super) fn address(
    emitter: &mut Emitter<'_>,
    start: Value,
    stride: Stride,
    element: ElementType,
    i: Value,
) -> Value {
    match stride {
        Stride::Zero => start,
        Stride::Bytes(stride) => emitter.at(start, i, stride),
        Stride::Unit => {
            let shift = i64::from(element.size().trailing_zeros());
            let by = emitter.builder.ins().ishl_imm_u(i, shift);
            emitter.add(start, by)
        }
    }
}

/// The elements `i` of the sources; or, of more than one lane, vectors that begin there, `nth` vectors later.
pub(super) fn fetch(
    emitter: &mut Emitter<'_>,
    body: &Body,
    sources: &[Source],
    i: Value,
    lanes: u32,
    nth: u32,
) -> Vec<Value> {
    let mut values = Vec::with_capacity(sources.len());
    for (source, &element) in sources.iter().zip(&body.inputs) {
        values.push(match *source {
            Source::Value(value) => value,
            Source::Lane(start, stride) => {
                let at = address(emitter, start, stride, element, i);
                load_lanes(emitter, element, at, lanes, nth)
            }
        });
    }
    values
}

/// An element; or, of more than one lane, a vector, `nth` vectors from the address.
pub(super) fn load_lanes(
    emitter: &mut Emitter<'_>,
    element: ElementType,
    at: Value,
    lanes: u32,
    nth: u32,
) -> Value {
    let offset = place(element, lanes, nth);
    if lanes > 1 && element == ElementType::Bool {
        return load_mask(emitter, at, offset, lanes);
    }
    emitter.load_as(wide(element, lanes), at, offset)
}

pub(super) fn store_lanes(
    emitter: &mut Emitter<'_>,
    element: ElementType,
    value: Value,
    at: Value,
    lanes: u32,
    nth: u32,
) {
    let offset = place(element, lanes, nth);
    if lanes > 1 && element == ElementType::Bool {
        return store_mask(emitter, value, at, offset, lanes);
    }
    emitter.store_at(value, at, offset);
}

/// How many bytes the `nth` vector lies from the first.
fn place(element: ElementType, lanes: u32, nth: u32) -> i32 {
    (nth * lanes * element.size() as u32) as i32
}

pub(super) fn spread_value(
    emitter: &mut Emitter<'_>,
    element: ElementType,
    value: Value,
    lanes: u32,
) -> Value {
    if element == ElementType::Bool {
        return spread_mask(emitter, value, lanes);
    }
    emitter.builder.ins().splat(wide(element, lanes), value)
}

/// The sources for vectors: values spread over all lanes.
pub(super) fn spread(
    emitter: &mut Emitter<'_>,
    body: &Body,
    sources: &[Source],
    lanes: u32,
) -> Vec<Source> {
    let spread = |(source, &element): (&Source, &ElementType)| match *source {
        Source::Value(value) => Source::Value(spread_value(emitter, element, value, lanes)),
        lane => lane,
    };
    sources.iter().zip(&body.inputs).map(spread).collect()
}

/// How many of `n` elements whole turns of vectors take.
pub(super) fn whole_turns(emitter: &mut Emitter<'_>, n: Value, lanes: u32, unroll: u32) -> Value {
    emitter.builder.ins().band_imm_s(n, -i64::from(lanes * unroll))
}

/// Computes some of the steps for `n` elements, and stores each in a row of its own.
pub(super) fn map_row(
    emitter: &mut Emitter<'_>,
    body: &Body,
    sources: &[Source],
    outputs: &[u32],
    targets: &[(Value, Stride)],
    n: Value,
) {
    let some = emitter.compare_to(IntCC::SignedGreaterThan, n, 0);
    emitter.when(some, |emitter| {
        let sources = hoist(emitter, &body.inputs, sources);
        let mut start = emitter.int(0);
        let units = sources.iter().all(is_unit)
            && targets.iter().all(|(_, stride)| matches!(stride, Stride::Unit));
        if let Some(lanes) = body.lanes().filter(|_| units) {
            let unroll = unroll(body);
            let end = whole_turns(emitter, n, lanes, unroll);
            let spread = spread(emitter, body, &sources, lanes);
            emitter.range(start, end, i64::from(lanes * unroll), &[], |emitter, i, _| {
                let mut stores = Vec::new();
                for nth in 0..unroll {
                    let values = fetch(emitter, body, &spread, i, lanes, nth);
                    let results = body.run(emitter, &values, lanes);
                    for (&output, &(target, stride)) in outputs.iter().zip(targets) {
                        let element = body.result(output);
                        let at = address(emitter, target, stride, element, i);
                        stores.push((element, results[output as usize], at, nth));
                    }
                }
                for (element, value, at, nth) in stores {
                    store_lanes(emitter, element, value, at, lanes, nth);
                }
                Vec::new()
            });
            start = end;
        }
        emitter.range(start, n, 1, &[], |emitter, i, _| {
            let values = fetch(emitter, body, &sources, i, 1, 0);
            let results = body.run(emitter, &values, 1);
            for (&output, &(target, stride)) in outputs.iter().zip(targets) {
                let at = address(emitter, target, stride, body.result(output), i);
                emitter.store(results[output as usize], at);
            }
            Vec::new()
        });
    });
}
