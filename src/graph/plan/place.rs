//! Gives every buffer of a plan its memory, and binds its calls.
//!
//! ```text
//!   slot ── escapes ──► a tensor of the run
//!       └── else: from the first part that writes it to the last that reads it ──► bytes of the arena
//! ```

use std::collections::HashMap;

use super::build::{Part, Slot};
use super::{Base, CallSite, Constant, Held, Patch, Place, Plan, Segment};
use crate::graph::abi::View;
use crate::graph::bind;
use crate::graph::node::NodeSpec;
use crate::graph::tensor::byte_length;

/// Buffers in the arena begin at multiples of this many bytes.
const ALIGN: usize = 64;

pub(super) fn place(
    parts: Vec<Part>,
    slots: Vec<Slot>,
    constants: Vec<Constant>,
    outputs: Vec<Held>,
) -> Plan {
    let (offsets, arena) = arena(&parts, &slots);
    // Slots that are left get new numbers.
    let mut numbers = vec![None; slots.len()];
    let mut kept = Vec::new();
    for (at, slot) in slots.into_iter().enumerate() {
        if offsets[at].is_none() && slot.escapes {
            numbers[at] = Some(kept.len() as u32);
            kept.push(slot.ty);
        }
    }
    let number = |slot: u32| numbers[slot as usize].expect("a slot that escapes is kept");
    let held = |held: Held| match held {
        Held::Slot(slot) => Held::Slot(number(slot)),
        Held::At(mut place) => {
            if let Base::Slot(slot) = place.base {
                place.base = Base::Slot(number(slot));
            }
            Held::At(place)
        }
    };

    let mut plan = Plan {
        specs: Vec::new(),
        calls: Vec::new(),
        words: Vec::new(),
        patches: Vec::new(),
        segments: Vec::new(),
        constants,
        slots: kept,
        arena,
        outputs: outputs.into_iter().map(held).collect(),
        image: None,
    };
    let mut specs: HashMap<NodeSpec, u32> = HashMap::new();
    for part in parts {
        match part {
            Part::Node { node, inputs, outputs } => {
                let inputs = inputs.into_iter().map(|input| input.map(held)).collect();
                let outputs = outputs.into_iter().map(|slot| slot.map(number)).collect();
                plan.segments.push(Segment::Node { node, inputs, outputs });
            }
            Part::Call { op, inputs, outputs, node } => {
                let views = |places: &[Option<Place>]| -> Vec<Option<View>> {
                    places.iter().map(|place| place.as_ref().map(view)).collect()
                };
                let call = bind(&op, &views(&inputs), &views(&outputs));
                let start = plan.words.len() as u32;
                let count = call.spec.inputs.len();
                let operands = (0..count)
                    .map(|at| inputs.get(at))
                    .chain(outputs.iter().map(Some))
                    .map(|place| place.and_then(Option::as_ref));
                for (place, address) in operands.zip(&call.frame.addresses) {
                    let (Some(place), Some(address)) = (place, address) else { continue };
                    let mut offset = match place.region.is_empty() {
                        true => 0,
                        false => place.region.offset * place.element.size(),
                    };
                    let base = match place.base {
                        Base::Slot(slot) => match offsets[slot as usize] {
                            Some(at) => {
                                offset += at;
                                Base::Arena
                            }
                            None => Base::Slot(number(slot)),
                        },
                        base => base,
                    };
                    plan.patches.push(Patch { word: start + address, base, offset: offset as u64 });
                }
                let next = specs.len() as u32;
                let spec = *specs.entry(call.spec.clone()).or_insert_with(|| {
                    plan.specs.push(call.spec);
                    next
                });
                let length = call.frame.words.len() as u32;
                plan.words.extend(call.frame.words);
                let at = plan.calls.len() as u32;
                plan.calls.push(CallSite { spec, node, start, length });
                match plan.segments.last_mut() {
                    Some(Segment::Calls(_, end)) => *end = at + 1,
                    _ => plan.segments.push(Segment::Calls(at, at + 1)),
                }
            }
        }
    }
    plan
}

fn view(place: &Place) -> View {
    let size = place.element.size() as isize;
    View {
        element: place.element,
        dims: place.region.dims.to_vec(),
        strides: place.region.strides.iter().map(|stride| stride.wrapping_mul(size)).collect(),
    }
}

/// The place of each slot that does not escape, in the arena, and the arena's size.
fn arena(parts: &[Part], slots: &[Slot]) -> (Vec<Option<usize>>, usize) {
    let mut last = vec![None; slots.len()];
    for (at, part) in parts.iter().enumerate() {
        if let Part::Call { inputs, outputs, .. } = part {
            for place in inputs.iter().chain(outputs).flatten() {
                if let Base::Slot(slot) = place.base {
                    last[slot as usize] = Some(at);
                }
            }
        }
    }
    let mut offsets = vec![None; slots.len()];
    // What is taken: offset, length, the slot's last use. Sorted by offset.
    let mut taken: Vec<(usize, usize, usize)> = Vec::new();
    let mut size = 0;
    for (at, part) in parts.iter().enumerate() {
        let Part::Call { outputs, .. } = part else { continue };
        taken.retain(|(_, _, last)| *last >= at);
        for place in outputs.iter().flatten() {
            let Base::Slot(slot) = place.base else { continue };
            let slot = slot as usize;
            if slots[slot].escapes || offsets[slot].is_some() {
                continue;
            }
            let bytes = slots[slot].ty.as_ref().and_then(|(e, dims)| byte_length(*e, dims));
            let length =
                bytes.expect("a kernel's output has a type").max(1).next_multiple_of(ALIGN);
            let mut offset = 0;
            let mut index = 0;
            for (begin, other, _) in &taken {
                if offset + length <= *begin {
                    break;
                }
                offset = begin + other;
                index += 1;
            }
            taken.insert(index, (offset, length, last[slot].unwrap_or(at)));
            offsets[slot] = Some(offset);
            size = size.max(offset + length);
        }
    }
    (offsets, size)
}
