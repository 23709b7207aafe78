//! Lowers the nodes of a graph, one after another, and runs those whose inputs are known.

use super::super::error::GraphError;
use super::super::host::Host;
use super::super::image;
use super::super::infer::{self, Arg, CONTROL, Fact, Lowered, Source, Stop, ViewOp, Work};
use super::super::model::{Graph, Node, ValueId};
use super::super::node::Op;
use super::super::region::Region;
use super::super::session::Mode;
use super::super::tensor::{Dims, Tensor, byte_length};
use super::super::vm;
use super::place;
use super::{Base, Constant, Held, Place, Plan};

/// The most bytes that a computed constant may have: plans are stored with them.
const MAX_COMPUTED: usize = 1 << 16;

/// A part of a plan that is being made.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// A call of a kernel. Outputs are whole slots.
    Call { op: Op, inputs: Vec<Option<Place>>, outputs: Vec<Option<Place>>, node: u32 },
    /// A node that is lowered while the graph runs.
    Node { node: u32, inputs: Vec<Option<Held>>, outputs: Vec<Option<u32>> },
}

/// A slot of a plan that is being made.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Its type, if it is known.
    pub(super) ty: Option<(super::ElementType, Vec<usize>)>,
    /// It outlives the kernels: an output of the graph, or seen by a node that is lowered while it runs.
    pub(super) escapes: bool,
}

/// Makes the plan of a graph for these inputs. Where an input's value is known too, it is used as its default.
pub(crate) fn build(
    graph: &Graph,
    inputs: &[Fact],
    mode: Mode,
    host: &Host,
) -> Result<Plan, GraphError> {
    let mut builder = Builder {
        graph,
        host,
        held: vec![None; graph.values.len()],
        constants: Vec::new(),
        tensors: Vec::new(),
        slots: Vec::new(),
        parts: Vec::new(),
    };
    for (place, (id, fact)) in graph.inputs.iter().zip(inputs).enumerate() {
        let held = match &fact.value {
            Some(value) => builder.constant(Constant::Default(place as u32), value.clone()),
            None => Place {
                base: Base::Input(place as u32),
                element: fact.element,
                region: Region::whole(&fact.dims),
            },
        };
        builder.held[id.index()] = Some(Held::At(held));
    }
    for (number, (id, tensor)) in graph.constants.iter().enumerate() {
        if builder.held[id.index()].is_none() {
            let place = builder.constant(Constant::Graph(number as u32), tensor.clone());
            builder.held[id.index()] = Some(Held::At(place));
        }
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        builder.node(number as u32, node)?;
    }
    let outputs: Vec<Held> = graph.outputs.iter().map(|id| builder.output(*id)).collect();
    let Builder { mut parts, slots, constants, .. } = builder;
    if mode == Mode::Fused {
        parts = super::fuse::fuse(parts, &slots);
    }
    let mut plan = place::place(parts, slots, constants, outputs);
    plan.image = image::name(&plan, mode);
    Ok(plan)
}

struct Builder<'a> {
    graph: &'a Graph,
    host: &'a Host,
    /// Where each value is, once it is known.
    held: Vec<Option<Held>>,
    constants: Vec<Constant>,
    /// The constants themselves.
    tensors: Vec<Tensor>,
    slots: Vec<Slot>,
    parts: Vec<Part>,
}

impl Builder<'_> {
    fn constant(&mut self, constant: Constant, tensor: Tensor) -> Place {
        let base = Base::Constant(self.constants.len() as u32);
        // What a plan holds of a constant is its elements in order.
        let tensor = tensor.contiguous();
        let place = Place { base, element: tensor.element(), region: Region::whole(tensor.dims()) };
        self.constants.push(constant);
        self.tensors.push(tensor);
        place
    }

    fn slot(&mut self, element: super::ElementType, dims: &[usize]) -> Place {
        let base = Base::Slot(self.slots.len() as u32);
        self.slots.push(Slot { ty: Some((element, dims.to_vec())), escapes: false });
        Place { base, element, region: Region::whole(dims) }
    }

    /// The tensor at a place, if it is known.
    fn known(&self, place: &Place) -> Option<Tensor> {
        match place.base {
            Base::Constant(number) => {
                let tensor = &self.tensors[number as usize];
                Some(tensor.with_region(place.element, place.region.clone()))
            }
            _ => None,
        }
    }

    fn node(&mut self, number: u32, node: &Node) -> Result<(), GraphError> {
        let mut facts = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            facts.push(match input {
                None => None,
                Some(id) => match &self.held[id.index()] {
                    Some(Held::At(place)) => Some(Fact {
                        element: place.element,
                        dims: place.region.dims.clone(),
                        value: self.known(place),
                    }),
                    _ => {
                        self.later(number, node);
                        return Ok(());
                    }
                },
            });
        }
        if !node.domain.is_empty() || CONTROL.contains(&node.op.as_str()) {
            self.later(number, node);
            return Ok(());
        }
        let lowered = match infer::lower(node, &facts) {
            Ok(lowered) => lowered,
            Err(Stop::Unknown) => {
                self.later(number, node);
                return Ok(());
            }
            Err(Stop::Wrong(reason)) => return Err(GraphError::node(self.graph, node, reason)),
        };
        let small = |ty: &infer::Type| {
            byte_length(ty.element, &ty.dims).is_some_and(|bytes| bytes <= MAX_COMPUTED)
        };
        let known = facts.iter().flatten().all(|fact| fact.value.is_some());
        if known && matches!(lowered.work, Work::Kernel { .. }) && lowered.outputs.iter().all(small)
        {
            let inputs: Vec<_> =
                facts.into_iter().map(|fact| fact.and_then(|fact| fact.value)).collect();
            let outputs = vm::run_lowered(self.graph, node, lowered, &inputs, self.host)?;
            for (id, tensor) in node.outputs.iter().zip(outputs) {
                if let Some(id) = id {
                    let place = self.constant(Constant::computed(&tensor), tensor);
                    self.held[id.index()] = Some(Held::At(place));
                }
            }
            return Ok(());
        }
        self.lowered(number, node, lowered);
        Ok(())
    }

    /// Leaves a node for the run.
    fn later(&mut self, number: u32, node: &Node) {
        let inputs: Vec<_> =
            node.inputs.iter().map(|input| input.map(|id| self.escaping(id))).collect();
        let captured: Vec<ValueId> = vm::captures(node).collect();
        let captured: Vec<_> = captured.into_iter().map(|id| Some(self.escaping(id))).collect();
        let outputs: Vec<_> = node
            .outputs
            .iter()
            .map(|output| {
                output.map(|id| {
                    let slot = self.slots.len() as u32;
                    self.slots.push(Slot { ty: None, escapes: true });
                    self.held[id.index()] = Some(Held::Slot(slot));
                    slot
                })
            })
            .collect();
        let inputs = inputs.into_iter().chain(captured).collect();
        self.parts.push(Part::Node { node: number, inputs, outputs });
    }

    fn output(&mut self, id: ValueId) -> Held {
        self.escaping(id)
    }

    /// Where a value is that others than kernels see.
    fn escaping(&mut self, id: ValueId) -> Held {
        let held = self.held[id.index()].clone().expect("nodes stand after those they depend on");
        if let Held::At(Place { base: Base::Slot(slot), .. }) = &held {
            self.slots[*slot as usize].escapes = true;
        }
        held
    }

    fn lowered(&mut self, number: u32, node: &Node, lowered: Lowered) {
        let Lowered { outputs: types, work } = lowered;
        let places: Vec<Place> = match work {
            Work::Known(tensors) => {
                let constant = |tensor: Tensor| self.constant(Constant::computed(&tensor), tensor);
                tensors.into_iter().map(constant).collect()
            }
            Work::Views(args) => args.into_iter().map(|arg| self.arg(number, node, arg)).collect(),
            Work::Kernel { op, inputs, reshaped } => {
                let inputs = inputs
                    .into_iter()
                    .map(|arg| arg.map(|arg| self.arg(number, node, arg)))
                    .collect();
                let places: Vec<Place> =
                    types.iter().map(|ty| self.slot(ty.element, &ty.dims)).collect();
                let seen = |(at, place): (usize, &Place)| {
                    let dims = match &reshaped {
                        Some(dims) => &dims[at],
                        None => &types[at].dims,
                    };
                    Some(Place { region: Region::whole(dims), ..place.clone() })
                };
                let outputs = places.iter().enumerate().map(seen).collect();
                self.parts.push(Part::Call { op, inputs, outputs, node: number });
                places
            }
        };
        for (id, place) in node.outputs.iter().zip(places) {
            if let Some(id) = id {
                self.held[id.index()] = Some(Held::At(place));
            }
        }
    }

    /// The place that an argument means, after its views.
    fn arg(&mut self, number: u32, node: &Node, arg: Arg) -> Place {
        let mut place = match arg.from {
            Source::Constant(tensor) => self.constant(Constant::computed(&tensor), tensor),
            Source::Input(index) => {
                let id = node.inputs[index].expect("an input that was lowered is there");
                match &self.held[id.index()] {
                    Some(Held::At(place)) => place.clone(),
                    _ => unreachable!("an input that was lowered has a place"),
                }
            }
        };
        for view in &arg.views {
            if let ViewOp::Reinterpret(element) = view {
                place.element = *element;
                continue;
            }
            place.region = match apply(&place.region, view) {
                Some(region) => region,
                None => {
                    let copy = self.copy(number, &place);
                    place.base = copy.base;
                    apply(&copy.region, view).expect("what has no gaps can be reshaped")
                }
            };
        }
        place
    }

    /// A copy without gaps.
    fn copy(&mut self, number: u32, place: &Place) -> Place {
        let copy = self.slot(place.element, &place.region.dims);
        let (inputs, outputs) = (vec![Some(place.clone())], vec![Some(copy.clone())]);
        self.parts.push(Part::Call { op: Op::Copy, inputs, outputs, node: number });
        copy
    }
}

/// A view of a region; `None` if it takes a copy.
pub(crate) fn apply(region: &Region, view: &ViewOp) -> Option<Region> {
    match view {
        ViewOp::Reshape(dims) => region.reshape(dims),
        ViewOp::Permute(order) => Some(region.permute(order)),
        ViewOp::Slice { axis, start, step, count } => {
            Some(region.slice(*axis, *start, *step, *count))
        }
        ViewOp::Broadcast(dims) => {
            Some(region.broadcast(dims).expect("inference has checked the shapes"))
        }
        ViewOp::Insert(axes) => Some(region.insert_axes(axes)),
        ViewOp::Remove(axes) => Some(region.remove_axes(axes)),
        ViewOp::Reinterpret(_) => Some(region.clone()),
    }
}

/// The dimensions that a list of parts computes are those of its slots.
pub(super) fn dims_of(place: &Place) -> &Dims {
    &place.region.dims
}
