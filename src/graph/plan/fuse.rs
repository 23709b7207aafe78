//! Makes one kernel of element-wise calls that feed each other, and of the reduction at their end.
//!
//! ```text
//!   a ─► Mul ─► Add ─► ReduceSum        ──►        a ─► Fused(Mul, Add; ReduceSum)
//! ```
//!
//! A call joins the group of its reader if nothing else reads what it writes, and if both compute elements of the
//! same dimensions. So no element is computed twice, and what is computed in between is never written.

use std::collections::HashMap;

use super::build::{Part, Slot, dims_of};
use super::{Base, Place};
use crate::graph::node::{Arg, Group, Map, Op, Step};

/// The most functions that one group has, and the most inputs: registers are few.
const MAX_STEPS: usize = 32;
const MAX_INPUTS: usize = 12;

pub(super) fn fuse(parts: Vec<Part>, slots: &[Slot]) -> Vec<Part> {
    let mut readers = vec![0_usize; slots.len()];
    for part in &parts {
        if let Part::Call { inputs, .. } = part {
            for place in inputs.iter().flatten() {
                if let Base::Slot(slot) = place.base {
                    readers[slot as usize] += 1;
                }
            }
        }
    }
    // Element-wise calls that may still join their reader, by the slot they write.
    let mut open: HashMap<u32, usize> = HashMap::new();
    let mut fused: Vec<Option<Part>> = Vec::with_capacity(parts.len());
    for part in parts {
        let joined = join(part, &mut open, &mut fused);
        if let Part::Call {
            op: Op::Map(_) | Op::Fused(Group { reduce: None, .. }), outputs, ..
        } = &joined
            && let [Some(Place { base: Base::Slot(slot), .. })] = outputs[..]
            && readers[slot as usize] == 1
            && !slots[slot as usize].escapes
        {
            open.insert(slot, fused.len());
        }
        fused.push(Some(joined));
    }
    fused.into_iter().flatten().collect()
}

/// Takes into a call those it reads from, where they may join it.
fn join(part: Part, open: &mut HashMap<u32, usize>, fused: &mut [Option<Part>]) -> Part {
    let Part::Call { op, inputs, outputs, node } = part else { return part };
    let reduce = match &op {
        Op::Map(_) => None,
        Op::Reduce { kind, axes } => Some((*kind, axes.clone())),
        _ => return Part::Call { op, inputs, outputs, node },
    };
    let Some(Some(first)) = inputs.first() else {
        return Part::Call { op, inputs, outputs, node };
    };
    let common = match reduce {
        Some(_) => dims_of(first).clone(),
        None => match &outputs[..] {
            [Some(output)] => dims_of(output).clone(),
            _ => return Part::Call { op, inputs, outputs, node },
        },
    };
    let mut group = Builder::default();
    let mut taken = Vec::new();
    let mut args = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        let Some(input) = input else { return Part::Call { op, inputs, outputs, node } };
        let producer = match input.base {
            Base::Slot(slot) => open.get(&slot).map(|at| (slot, *at)),
            _ => None,
        };
        let rest = inputs.len() - at - 1;
        let found = producer.and_then(|(slot, at)| {
            let Some(Part::Call { op, inputs, outputs, .. }) = &fused[at] else { return None };
            let [Some(output)] = &outputs[..] else { return None };
            let whole = output.region == input.region && dims_of(output) == &common;
            let room = group.steps.len() + steps_of(op) < MAX_STEPS
                && group.inputs.len() + inputs.len() + rest <= MAX_INPUTS;
            (whole && room).then(|| (slot, at, group.add_call(op, inputs)))
        });
        args.push(match found {
            Some((slot, at, arg)) => {
                taken.push((slot, at));
                arg
            }
            None => group.input(input),
        });
    }
    if taken.is_empty() {
        return Part::Call { op, inputs, outputs, node };
    }
    for (slot, at) in taken {
        open.remove(&slot);
        fused[at] = None;
    }
    let last = match (&op, args.first()) {
        (Op::Map(map), _) => group.step(*map, args),
        (_, Some(Arg::Step(step))) => *step,
        _ => unreachable!("a reduction has one input, and it was taken"),
    };
    let Builder { steps, inputs, .. } = group;
    let op = Op::Fused(Group { steps, outputs: vec![last], reduce });
    Part::Call { op, inputs: inputs.into_iter().map(Some).collect(), outputs, node }
}

fn steps_of(op: &Op) -> usize {
    match op {
        Op::Fused(group) => group.steps.len(),
        _ => 1,
    }
}

/// A group that is being put together.
#[derive(Default)]
struct Builder {
    steps: Vec<Step>,
    inputs: Vec<Place>,
}

impl Builder {
    /// An input; one that is there already is not passed twice.
    fn input(&mut self, place: &Place) -> Arg {
        let same = |other: &Place| {
            other.base == place.base
                && other.element == place.element
                && other.region == place.region
        };
        let at = self.inputs.iter().position(same).unwrap_or_else(|| {
            self.inputs.push(place.clone());
            self.inputs.len() - 1
        });
        Arg::Input(at as u32)
    }

    fn step(&mut self, map: Map, args: Vec<Arg>) -> u32 {
        self.steps.push(Step { map, args });
        self.steps.len() as u32 - 1
    }

    /// All of an element-wise call; its result.
    fn add_call(&mut self, op: &Op, inputs: &[Option<Place>]) -> Arg {
        let args: Vec<Arg> = inputs.iter().flatten().map(|place| self.input(place)).collect();
        match op {
            Op::Map(map) => Arg::Step(self.step(*map, args)),
            Op::Fused(group) => {
                let first = self.steps.len() as u32;
                for step in &group.steps {
                    let moved = step.args.iter().map(|arg| match arg {
                        Arg::Input(at) => args[*at as usize],
                        Arg::Step(at) => Arg::Step(first + at),
                        Arg::Constant(scalar) => Arg::Constant(*scalar),
                    });
                    let args = moved.collect();
                    self.step(step.map, args);
                }
                Arg::Step(first + group.outputs[0])
            }
            _ => unreachable!("only element-wise calls join"),
        }
    }
}
