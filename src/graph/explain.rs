//! What each node of a prepared model needs, and how long it takes: for commands and pictures.

use std::collections::HashMap;

use super::error::{GraphError, label};
use super::kernel::Kernel;
use super::plan::Segment;
use super::session::Prepared;
use super::tensor::Tensor;
use super::vm::captures;
use crate::config::Config;
use crate::store::{Entry, Origin, Store};

/// A node of the canonical graph.
pub(crate) struct Explained {
    /// Its name and op.
    pub(crate) label: String,
    /// The nodes whose outputs it reads.
    pub(crate) reads: Vec<usize>,
    pub(crate) role: Role,
}

/// What a node is in the plan for the model's fixed shapes.
pub(crate) enum Role {
    /// It calls these.
    Kernels(Vec<Kernel>),
    /// A view, known beforehand, or part of a later node's kernel.
    Free,
    /// What it comes to is known in a run alone: it runs a graph, or its shapes depend on elements.
    Late,
}

/// The kernels that a cache holds, as their records are called.
pub(crate) struct Seen(Vec<String>);

impl Seen {
    /// What lies in the cache now. The look at it leaves no record in the memory of another store.
    pub(crate) fn of(config: &Config) -> Self {
        let store = Store::open(config.clone());
        let label = |entry: Entry| Some(store.inspect(&entry.key)?.record.meta().label.clone());
        let is_kernel = |label: &String| label.contains(") -> ");
        Seen(store.entries().into_iter().filter_map(label).filter(is_kernel).collect())
    }

    /// Why a kernel was found or made.
    fn why(&self, kernel: &Kernel) -> String {
        if kernel.origin() != Origin::Made {
            return "its key was there".into();
        }
        let label = kernel.spec().to_string();
        let op = |label: &str| label.split('(').next().map(str::to_owned);
        let same = self.0.iter().filter(|other| op(other) == op(&label));
        match same.min_by_key(|other| difference(other, &label)) {
            None => "no kernel of its operator was there".into(),
            Some(other) if *other == label => {
                "one of the same operands was there, of other attributes".into()
            }
            Some(other) => format!("the nearest that was there is {other}"),
        }
    }
}

/// In how many words two labels differ.
fn difference(a: &str, b: &str) -> usize {
    let words =
        |text: &str| text.split([' ', ',', '(', ')', '[', ']']).map(str::to_owned).collect();
    let (a, b): (Vec<String>, Vec<String>) = (words(a), words(b));
    a.len().abs_diff(b.len()) + a.iter().zip(&b).filter(|(a, b)| a != b).count()
}

impl Explained {
    /// The role in words, a line each. `seen` is what was there before the model was prepared.
    pub(crate) fn lines(&self, seen: &Seen) -> Vec<String> {
        match &self.role {
            Role::Free => {
                vec!["no kernel: a view, known beforehand, or part of a later node's kernel".into()]
            }
            Role::Late => vec![
                "known in a run alone: it runs a graph, is from outside, or its shapes are not fixed".into(),
            ],
            Role::Kernels(kernels) => kernels
                .iter()
                .map(|kernel| {
                    let (key, origin, spec) = (kernel.key(), kernel.origin(), kernel.spec());
                    let why = seen.why(kernel);
                    match kernel.micros() {
                        0 => format!("{key}  {origin}: {why}  {spec}"),
                        us => format!("{key}  {origin} in {us} µs: {why}  {spec}"),
                    }
                })
                .collect(),
        }
    }
}

/// Every node, in the order of the canonical graph, for these inputs; without them, for those that the model fixes.
pub(crate) fn explain(prepared: &Prepared, inputs: Option<&[Option<Tensor>]>) -> Vec<Explained> {
    let graph = prepared.graph();
    let planned = prepared.planned(inputs);
    let mut roles: HashMap<u32, Role> = HashMap::new();
    if let Some(ready) = &planned {
        for call in &ready.plan.calls {
            let kernel = ready.kernels[call.spec as usize].clone();
            match roles.entry(call.node).or_insert_with(|| Role::Kernels(Vec::new())) {
                Role::Kernels(kernels) => kernels.push(kernel),
                _ => unreachable!("only calls so far"),
            }
        }
        for segment in &ready.plan.segments {
            if let Segment::Node { node, .. } = segment {
                roles.insert(*node, Role::Late);
            }
        }
    }
    let mut maker = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        maker.extend(node.outputs.iter().flatten().map(|id| (*id, at)));
    }
    let explained = graph.nodes.iter().enumerate().map(|(at, node)| {
        let read = node.inputs.iter().flatten().copied().chain(captures(node));
        let mut reads: Vec<usize> = read.filter_map(|id| maker.get(&id).copied()).collect();
        reads.sort_unstable();
        reads.dedup();
        let unknown = if planned.is_some() { Role::Free } else { Role::Late };
        let role = roles.remove(&(at as u32)).unwrap_or(unknown);
        Explained { label: label(graph, node), reads, role }
    });
    explained.collect()
}

/// Runs a model some times, and gives for each node the least time that its calls took, in nanoseconds.
pub(crate) fn profile(
    prepared: &Prepared,
    inputs: Vec<Option<Tensor>>,
) -> Result<Vec<u64>, GraphError> {
    const RUNS: usize = 5;
    let mut best = vec![u64::MAX; prepared.graph().nodes.len()];
    for _ in 0..RUNS {
        let (_, profile) = prepared.run_profiled(inputs.clone())?;
        let mut times = vec![0; best.len()];
        for (node, nanos) in profile.calls {
            times[node as usize] += nanos;
        }
        best.iter_mut().zip(times).for_each(|(best, time)| *best = (*best).min(time));
    }
    Ok(best)
}
