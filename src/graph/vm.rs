//! Runs plans: sets addresses, calls kernels, and lowers what could not be lowered before.
//!
//! ```text
//!   inputs, slots, arena, constants ──addresses──► words ──► kernel, kernel, …   (or one entry that calls them)
//!                                                     └ a node with unknown shapes: lowered once for each, then called
//! ```

use super::abi::{Call, Frame, Status, View};
use super::bind;
use super::error::GraphError;
use super::host::Host;
use super::infer::{self, Arg, Fact, Lowered, Source, Stop, Type, ViewOp, Work};
use super::kernel::Kernel;
use super::model::{Attribute, Graph, Node, ValueId};
use super::plan::{Base, Constant, Held, Plan, Segment, apply};
use super::tensor::{Buffer, Dims, ElementType, Strides, Tensor, TooLarge};
use super::whole::Entry;
use crate::sync::{self, Arc, Mutex};

/// A plan with all that it takes to run it.
pub(crate) struct Ready {
    pub(crate) plan: Plan,
    pub(crate) kernels: Vec<Kernel>,
    constants: Vec<Tensor>,
    /// The compiled entry of each segment of calls; empty if the calls are made one by one.
    entries: Vec<Option<Entry>>,
    /// What nodes were lowered to while the graph ran, by their segments.
    late: Vec<Late>,
    /// Memory of runs that are over.
    scratch: Mutex<Vec<Scratch>>,
}

/// What a node was lowered to, by the layouts of its inputs.
type Late = Mutex<Vec<(Layouts, Arc<Bound>)>>;

/// Types, dimensions and strides of a node's inputs.
type Layouts = Vec<Option<(ElementType, Dims, Strides)>>;

/// How many layouts of its inputs a node is remembered for.
const MOST_LAYOUTS: usize = 16;

/// A lowered node, with what it calls.
pub(crate) struct Bound {
    lowered: Lowered,
    call: Option<(Frame, Kernel)>,
}

/// The memory of one run at a time.
struct Scratch {
    words: Vec<u64>,
    /// What the words' addresses lead to.
    _arena: Buffer,
}

/// How long each call took in one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    /// The node, and nanoseconds.
    pub(crate) calls: Vec<(u32, u64)>,
}

/// The operators that a run meets and the VM does not know: those that run graphs.
pub(crate) trait Control {
    /// Runs a node on its inputs, followed by what its bodies capture.
    fn run(
        &self,
        number: u32,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Vec<Tensor>, GraphError>;
}

impl Ready {
    pub(crate) fn new(
        plan: Plan,
        kernels: Vec<Kernel>,
        entries: Vec<Option<Entry>>,
        graph: &Graph,
    ) -> Result<Self, GraphError> {
        let stale = || GraphError::invalid("plan", "it is not of this graph");
        let constant = |constant: &Constant| match constant {
            Constant::Graph(number) => {
                let (_, tensor) = graph.constants.get(*number as usize).ok_or_else(stale)?;
                Ok(tensor.contiguous())
            }
            Constant::Default(place) => {
                let input = graph.inputs.get(*place as usize).ok_or_else(stale)?;
                let found = graph.constants.iter().find(|(id, _)| id == input);
                Ok(found.ok_or_else(stale)?.1.contiguous())
            }
            Constant::Computed { element, dims, bytes } => {
                Tensor::from_bytes(*element, dims, bytes).ok_or_else(stale)
            }
        };
        let constants = plan.constants.iter().map(constant).collect::<Result<_, _>>()?;
        let late = plan.segments.iter().map(|_| Mutex::default()).collect();
        let scratch = Mutex::new(Vec::new());
        Ok(Ready { plan, kernels, constants, entries, late, scratch })
    }

    /// Runs the graph on inputs of the shapes that the plan is for.
    pub(crate) fn run(
        &self,
        graph: &Graph,
        host: &Host,
        control: &dyn Control,
        inputs: &[Option<Tensor>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<Tensor>, GraphError> {
        let plan = &self.plan;
        let inputs: Vec<Option<Tensor>> =
            inputs.iter().map(|input| input.as_ref().map(Tensor::contiguous)).collect();
        let mut slots: Vec<Option<Tensor>> = Vec::with_capacity(plan.slots.len());
        let mut addresses = Vec::with_capacity(plan.slots.len());
        for slot in &plan.slots {
            let tensor = match slot {
                Some((element, dims)) => Some(Tensor::zeros(*element, dims)?),
                None => None,
            };
            slots.push(tensor);
            let tensor = slots.last_mut().and_then(Option::as_mut);
            addresses.push(tensor.and_then(Tensor::as_mut_ptr));
        }
        let mut scratch = self.take()?;
        for patch in &plan.patches {
            let start: *const u8 = match patch.base {
                Base::Input(place) => match &inputs[place as usize] {
                    Some(tensor) => tensor.as_ptr(),
                    None => unreachable!("a plan reads no input that is left to its default"),
                },
                Base::Slot(slot) => addresses[slot as usize].expect("a kernel's slot has a type"),
                Base::Constant(_) | Base::Arena => continue,
            };
            let address = start.expose_provenance() as u64 + patch.offset;
            scratch.words[patch.word as usize] = address;
        }

        let result =
            self.segments(graph, host, control, &inputs, &mut slots, &scratch.words, profile);
        self.scratch.lock().push(scratch);
        result?;
        let outputs = plan.outputs.iter();
        Ok(outputs.map(|held| self.tensor(held, &inputs, &slots)).collect())
    }

    #[expect(clippy::too_many_arguments, reason = "the state of a run")]
    fn segments(
        &self,
        graph: &Graph,
        host: &Host,
        control: &dyn Control,
        inputs: &[Option<Tensor>],
        slots: &mut [Option<Tensor>],
        words: &[u64],
        mut profile: Option<&mut Profile>,
    ) -> Result<(), GraphError> {
        for (at, segment) in self.plan.segments.iter().enumerate() {
            match segment {
                Segment::Calls(start, end) => {
                    let calls = *start as usize..*end as usize;
                    if let Some(Some(entry)) = self.entries.get(at)
                        && profile.is_none()
                    {
                        // SAFETY: as of the single calls below, which the entry makes in their order.
                        let result = unsafe { entry.call(words) };
                        if let Err((call, status)) = result {
                            let call = &self.plan.calls[calls.start + call];
                            return Err(failed(graph, call.node, status));
                        }
                        continue;
                    }
                    for call in &self.plan.calls[calls] {
                        let begin = profile.as_ref().map(|_| sync::now());
                        let frame = &words[call.start as usize..][..call.length as usize];
                        // SAFETY: the plan bound this frame for this kernel; every address is that of a buffer that
                        // lives until the run is over and that the plan knows to be large enough; outputs are
                        // slots or pieces of the arena, which no other run and no live value shares.
                        let status = unsafe { self.kernels[call.spec as usize].call(frame) };
                        if status != Status::Done {
                            return Err(failed(graph, call.node, status));
                        }
                        if let (Some(profile), Some(begin)) = (profile.as_deref_mut(), begin) {
                            let took = (sync::now() - begin).as_nanos() as u64;
                            profile.calls.push((call.node, took));
                        }
                    }
                }
                Segment::Node { node: number, inputs: reads, outputs } => {
                    let begin = profile.as_ref().map(|_| sync::now());
                    let read: Vec<Option<Tensor>> = reads
                        .iter()
                        .map(|held| held.as_ref().map(|held| self.tensor(held, inputs, slots)))
                        .collect();
                    let node = &graph.nodes[*number as usize];
                    let results = self.node(at, graph, *number, node, &read, host, control)?;
                    for (place, slot) in outputs.iter().enumerate() {
                        let Some(slot) = slot else { continue };
                        let Some(result) = results.get(place) else {
                            let reason = format!("it gave {} outputs", results.len());
                            return Err(GraphError::node(graph, node, reason));
                        };
                        slots[*slot as usize] = Some(result.clone());
                    }
                    if let (Some(profile), Some(begin)) = (profile.as_deref_mut(), begin) {
                        profile.calls.push((*number, (sync::now() - begin).as_nanos() as u64));
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs a node whose inputs' types were not known when the plan was made.
    #[expect(clippy::too_many_arguments, reason = "the state of a run")]
    fn node(
        &self,
        segment: usize,
        graph: &Graph,
        number: u32,
        node: &Node,
        inputs: &[Option<Tensor>],
        host: &Host,
        control: &dyn Control,
    ) -> Result<Vec<Tensor>, GraphError> {
        if !node.domain.is_empty() {
            let Some(op) = host.op(node) else {
                return Err(GraphError::node(graph, node, "the op is not supported"));
            };
            return op(node, inputs).map_err(|reason| GraphError::node(graph, node, reason));
        }
        if infer::CONTROL.contains(&node.op.as_str()) {
            return control.run(number, node, inputs);
        }
        let layout = |tensor: &Tensor| {
            (
                tensor.element(),
                Dims::from_slice(tensor.dims()),
                Strides::from_slice(tensor.strides()),
            )
        };
        let layouts: Layouts = inputs.iter().map(|input| input.as_ref().map(layout)).collect();
        let late = &self.late[segment];
        let known = late.lock().iter().find(|(other, _)| *other == layouts).map(|(_, b)| b.clone());
        if let Some(bound) = known {
            return run_bound(graph, node, &bound, inputs);
        }
        let fact = |with_value: bool| {
            move |tensor: &Tensor| Fact {
                element: tensor.element(),
                dims: tensor.dims().into(),
                value: with_value.then(|| tensor.clone()),
            }
        };
        let facts = |with_values: bool| -> Vec<Option<Fact>> {
            inputs.iter().map(|input| input.as_ref().map(fact(with_values))).collect()
        };
        let wrong = |reason| GraphError::node(graph, node, reason);
        match infer::lower(node, &facts(false)) {
            Ok(lowered) => {
                let bound = Arc::new(bound(lowered, inputs, host)?);
                let mut late = late.lock();
                if late.len() == MOST_LAYOUTS {
                    late.clear();
                }
                late.push((layouts, Arc::clone(&bound)));
                drop(late);
                run_bound(graph, node, &bound, inputs)
            }
            Err(Stop::Wrong(reason)) => Err(wrong(reason)),
            // It depends on elements, which are others in every run.
            Err(Stop::Unknown) => match infer::lower(node, &facts(true)) {
                Ok(lowered) => run_lowered(graph, node, lowered, inputs, host),
                Err(Stop::Wrong(reason)) => Err(wrong(reason)),
                Err(Stop::Unknown) => Err(wrong("an input is not known".into())),
            },
        }
    }

    /// Memory for a run, with the addresses that never change.
    fn take(&self) -> Result<Scratch, GraphError> {
        if let Some(scratch) = self.scratch.lock().pop() {
            return Ok(scratch);
        }
        let bytes = self.plan.arena;
        let too_large = || TooLarge { element: ElementType::U8, dims: vec![bytes] };
        let small = Some(bytes).filter(|bytes| *bytes <= Tensor::MAX_BYTES);
        let arena = small.and_then(Buffer::zeroed).ok_or_else(too_large)?;
        let mut words = self.plan.words.clone();
        for patch in &self.plan.patches {
            let start = match patch.base {
                Base::Constant(number) => self.constants[number as usize].as_ptr(),
                Base::Arena => arena.as_ptr(),
                Base::Input(_) | Base::Slot(_) => continue,
            };
            words[patch.word as usize] = start.expose_provenance() as u64 + patch.offset;
        }
        Ok(Scratch { words, _arena: arena })
    }

    fn tensor(&self, held: &Held, inputs: &[Option<Tensor>], slots: &[Option<Tensor>]) -> Tensor {
        let slot = |slot: u32| slots[slot as usize].as_ref().expect("it was computed before");
        let place = match held {
            Held::Slot(number) => return slot(*number).clone(),
            Held::At(place) => place,
        };
        let whole = match place.base {
            Base::Input(place) => inputs[place as usize].as_ref().expect("it was given"),
            Base::Constant(number) => &self.constants[number as usize],
            Base::Slot(number) => slot(number),
            Base::Arena => unreachable!("what lies in the arena is for kernels alone"),
        };
        // An input may itself begin in the middle of its buffer.
        let mut region = place.region.clone();
        region.offset += whole.region().offset;
        whole.with_region(place.element, region)
    }
}

/// What a node's bodies capture, in the order in which it is passed after the inputs.
pub(crate) fn captures(node: &Node) -> impl Iterator<Item = ValueId> {
    let bodies = node.attributes.values().filter_map(|attribute| match attribute {
        Attribute::Graph(body) => Some(body),
        _ => None,
    });
    bodies.flat_map(|body| body.captures.iter().copied())
}

/// Binds a lowered node to inputs of these layouts.
fn bound(lowered: Lowered, inputs: &[Option<Tensor>], host: &Host) -> Result<Bound, GraphError> {
    let Work::Kernel { op, inputs: args, reshaped } = &lowered.work else {
        return Ok(Bound { lowered, call: None });
    };
    let arg = |one: &Option<Arg>| one.as_ref().map(|one| View::from(&seen(one, inputs)));
    let args: Vec<_> = args.iter().map(arg).collect();
    let result = |(at, ty): (usize, &Type)| {
        let dims = reshaped.as_ref().map_or(&ty.dims, |dims| &dims[at]);
        Some(View::contiguous(ty.element, dims))
    };
    let results: Vec<_> = lowered.outputs.iter().enumerate().map(result).collect();
    let Call { spec, frame } = bind(op, &args, &results);
    let kernel = host.kernels(std::slice::from_ref(&spec))?.remove(0);
    Ok(Bound { lowered, call: Some((frame, kernel)) })
}

/// Runs a lowered node on tensors.
pub(crate) fn run_lowered(
    graph: &Graph,
    node: &Node,
    lowered: Lowered,
    inputs: &[Option<Tensor>],
    host: &Host,
) -> Result<Vec<Tensor>, GraphError> {
    run_bound(graph, node, &bound(lowered, inputs, host)?, inputs)
}

/// Runs a node on inputs of the layouts that it was bound to.
fn run_bound(
    graph: &Graph,
    node: &Node,
    bound: &Bound,
    inputs: &[Option<Tensor>],
) -> Result<Vec<Tensor>, GraphError> {
    let Bound { lowered, call } = bound;
    let (args, reshaped) = match &lowered.work {
        Work::Known(tensors) => return Ok(tensors.clone()),
        Work::Views(args) => return Ok(args.iter().map(|arg| seen(arg, inputs)).collect()),
        Work::Kernel { inputs, reshaped, .. } => (inputs, reshaped),
    };
    let (frame, kernel) = call.as_ref().expect("a kernel was bound");
    let args: Vec<Option<Tensor>> =
        args.iter().map(|arg| arg.as_ref().map(|arg| seen(arg, inputs))).collect();
    let mut outputs = Vec::with_capacity(lowered.outputs.len());
    for (at, ty) in lowered.outputs.iter().enumerate() {
        let dims = reshaped.as_ref().map_or(&ty.dims, |dims| &dims[at]);
        outputs.push(Tensor::zeros(ty.element, dims)?);
    }
    let mut frame = frame.clone();
    let count = kernel.spec().inputs.len();
    for (at, arg) in args.iter().enumerate().take(count) {
        if let Some(arg) = arg {
            frame.set_address(at, arg.as_ptr());
        }
    }
    for (at, output) in outputs.iter_mut().enumerate() {
        let start = output.as_mut_ptr().expect("a new tensor is nobody else's");
        frame.set_address(count + at, start);
    }
    // SAFETY: the frame was bound for this kernel and tensors of these layouts, which live until it returns; the
    // outputs are new.
    let status = unsafe { kernel.call(&frame.words) };
    if status != Status::Done {
        return Err(GraphError::node(graph, node, reason(status)));
    }
    let shaped = outputs.into_iter().zip(&lowered.outputs);
    Ok(shaped.map(|(output, ty)| output.reshape(&ty.dims).expect("equally many")).collect())
}

/// What an argument is of a node's inputs.
fn seen(arg: &Arg, inputs: &[Option<Tensor>]) -> Tensor {
    let tensor = match &arg.from {
        Source::Constant(tensor) => tensor.clone(),
        Source::Input(index) => inputs[*index].clone().expect("an input that was lowered"),
    };
    arg.views.iter().fold(tensor, |tensor, op| view(&tensor, op))
}

fn view(tensor: &Tensor, op: &ViewOp) -> Tensor {
    match op {
        ViewOp::Reinterpret(element) => tensor.with_region(*element, tensor.region().clone()),
        ViewOp::Reshape(dims) => tensor.reshape(dims).expect("inference has checked the shapes"),
        op => {
            let region = apply(tensor.region(), op).expect("only to reshape may take a copy");
            tensor.with_region(tensor.element(), region)
        }
    }
}

fn failed(graph: &Graph, node: u32, status: Status) -> GraphError {
    GraphError::node(graph, &graph.nodes[node as usize], reason(status))
}

fn reason(status: Status) -> &'static str {
    match status {
        Status::Done => "it is done",
        Status::IndexOutOfRange => "an index is outside of its axis",
        Status::LengthOutOfRange => "a length is negative or more than the axis has",
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::config::{Config, Mode as CacheMode};
    use crate::graph::{Builder, Mode, Model, Session};
    use crate::store::Store;

    /// `1 - x'`, where `x'` is `x` or its transpose, as the condition has it.
    fn model() -> Model {
        let mut graph = Builder::new();
        let condition = graph.input("condition", ElementType::Bool, &[]);
        let x = graph.input("x", ElementType::F32, &[2, 2]);
        let branch = |op: &str| {
            let mut body = Builder::new();
            let x = body.capture(&x);
            let y = body.op(op, &[&x]);
            body.output("y", &y);
            body.into_body().unwrap()
        };
        let branches = [("then_branch", branch("Identity")), ("else_branch", branch("Transpose"))];
        let chosen = graph.op_with("If", &[Some(&condition)], &branches, 1).remove(0);
        let one = graph.constant(Tensor::scalar(1.0_f32));
        let y = graph.op("Sub", &[&one, &chosen]);
        graph.output("y", &y);
        graph.finish().unwrap()
    }

    /// Its inputs come in two layouts, each in many runs. Kills: layouts compared without strides; nothing remembered.
    #[test]
    fn what_follows_a_branch_is_lowered_once_for_each_layout() {
        let session = Session::new(Store::open(Config::default().mode(CacheMode::Off))).unwrap();
        let prepared = session.prepare(&model(), Mode::Fused).unwrap();
        let x = Tensor::from_slice(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]);
        for _ in 0..3 {
            for (condition, expected) in
                [(true, [0.0, -1.0, -2.0, -3.0]), (false, [0.0, -2.0, -1.0, -3.0])]
            {
                let inputs = [Tensor::scalar(condition), x.clone()];
                assert_eq!(prepared.run(&inputs).unwrap()[0].to_f64s(), expected);
            }
        }
        let ready = prepared.planned(None).unwrap();
        let remembered = ready.late.iter().map(|late| late.lock().len());
        assert_eq!(remembered.collect::<Vec<_>>(), [0, 2]);
    }
}
