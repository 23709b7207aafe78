//! What each node of a prepared model needs, and how long it takes: for commands and pictures.

use std::collections::HashMap;

use super::error::{GraphError, label};
use super::kernel::Kernel;
use super::plan::Segment;
use super::session::Prepared;
use super::tensor::Tensor;
use super::vm::captures;

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
    /// It is lowered in each run: it runs a graph, or its shapes depend on elements.
    Late,
}

impl Explained {
    /// The role in words, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        match &self.role {
            Role::Free => {
                vec!["no kernel: a view, known beforehand, or part of a later node's kernel".into()]
            }
            Role::Late => vec![
                "lowered in each run: it runs a graph, is from outside, or its shapes depend on elements".into(),
            ],
            Role::Kernels(kernels) => kernels
                .iter()
                .map(|kernel| {
                    let (key, origin) = (kernel.key(), kernel.origin());
                    match kernel.micros() {
                        0 => format!("{key}  {origin}  {}", kernel.spec()),
                        us => format!("{key}  {origin} in {us} µs  {}", kernel.spec()),
                    }
                })
                .collect(),
        }
    }
}

/// Every node, in the order of the canonical graph.
pub(crate) fn explain(prepared: &Prepared) -> Vec<Explained> {
    let graph = prepared.graph();
    let planned = prepared.planned();
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
