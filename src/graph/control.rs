//! The operators that run graphs: If, Loop, Scan.
//!
//! ```text
//!   If    condition ──► one of two bodies
//!   Loop  state ──► body ──► state, and an element of each scan output, while the condition holds
//!   Scan  state, the next element of each scan input ──► body ──► state, an element of each scan output
//! ```
//!
//! A body's plan is made once for each shape of what it is given, so a loop whose state keeps its shape plans once.

use super::error::GraphError;
use super::model::Node;
use super::plan::Held;
use super::runner::{Part, Runner, Signature};
use super::tensor::{Dims, ElementType, Tensor, byte_length};

/// Runs a node on its inputs, followed by what its bodies capture.
pub(crate) fn run(
    runner: &Runner,
    number: u32,
    node: &Node,
    inputs: &[Option<Tensor>],
) -> Result<Vec<Tensor>, GraphError> {
    let call = Call { runner, number, node, inputs };
    match node.op.as_str() {
        "If" => call.branch(),
        "Loop" => call.repeat(),
        _ => call.scan(),
    }
}

struct Call<'a> {
    runner: &'a Runner,
    number: u32,
    node: &'a Node,
    inputs: &'a [Option<Tensor>],
}

impl<'a> Call<'a> {
    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, GraphError> {
        Err(GraphError::node(&self.runner.graph, self.node, reason))
    }

    fn body(&self, name: &str) -> Result<Part<'a>, GraphError> {
        match self.runner.body(self.number, self.node, name) {
            Some(part) => Ok(part),
            None => self.fail(format!("it has no graph \"{name}\"")),
        }
    }

    /// The node's own inputs.
    fn own(&self) -> &'a [Option<Tensor>] {
        &self.inputs[..self.node.inputs.len()]
    }

    /// All of some inputs; none may be missing.
    fn given(&self, from: usize) -> Result<Vec<Tensor>, GraphError> {
        let mut given = Vec::new();
        for (place, input) in self.own().iter().enumerate().skip(from) {
            match input {
                Some(tensor) => given.push(tensor.clone()),
                None => return self.fail(format!("input {place} is missing")),
            }
        }
        Ok(given)
    }

    fn truth(&self, what: &str, tensor: &Tensor) -> Result<bool, GraphError> {
        match tensor.to_vec::<bool>().as_deref() {
            Some([value]) => Ok(*value),
            _ => self.fail(format!("{what} is {:?}, not one truth value", tensor)),
        }
    }

    /// A body's inputs: what it captures, then its own.
    fn inputs(&self, part: &Part<'_>, own: Vec<Tensor>) -> Result<Vec<Option<Tensor>>, GraphError> {
        let takes = part.runner.graph.inputs.len() - part.captures.len();
        if takes != own.len() {
            return self.fail(format!("its body takes {takes} inputs, not {}", own.len()));
        }
        let captured = self.inputs[part.captures.clone()].iter().cloned();
        Ok(captured.chain(own.into_iter().map(Some)).collect())
    }

    fn branch(&self) -> Result<Vec<Tensor>, GraphError> {
        let given = self.given(0)?;
        let [condition] = &given[..] else { return self.fail("it has not one input") };
        let taken = self.truth("its condition", condition)?;
        let part = self.body(if taken { "then_branch" } else { "else_branch" })?;
        part.runner.run(&self.inputs(&part, Vec::new())?, None)
    }

    fn repeat(&self) -> Result<Vec<Tensor>, GraphError> {
        let own = self.own();
        let part = self.body("body")?;
        let most = match own.first() {
            Some(Some(most)) => match most.to_i64s().as_deref() {
                Some([most]) => Some(*most),
                _ => return self.fail(format!("its count is {most:?}, not one integer")),
            },
            _ => None,
        };
        let mut going = match own.get(1) {
            Some(Some(condition)) => self.truth("its condition", condition)?,
            _ => true,
        };
        let mut state = self.given(2)?;
        let outputs = part.runner.graph.outputs.len();
        let Some(scans) = outputs.checked_sub(1 + state.len()) else {
            return self.fail(format!("its body gives {outputs} outputs, too few"));
        };
        let mut stacks = vec![Vec::new(); scans];
        let mut bytes = 0;
        let mut turn = 0_i64;
        while going && most.is_none_or(|most| turn < most) {
            let mut given = vec![Tensor::scalar(turn), Tensor::scalar(true)];
            given.append(&mut state);
            let mut results = part.runner.run(&self.inputs(&part, given)?, None)?.into_iter();
            let Some(condition) = results.next() else {
                return self.fail("its body gives nothing");
            };
            going = self.truth("its body's condition", &condition)?;
            let count = outputs - 1 - scans;
            state = results.by_ref().take(count).collect();
            for (stack, result) in stacks.iter_mut().zip(results) {
                self.push(stack, result, &mut bytes)?;
            }
            turn += 1;
        }
        let empty = stacks.iter().any(Vec::is_empty);
        let kinds = match empty {
            true => {
                let mut given = vec![Tensor::scalar(0_i64), Tensor::scalar(true)];
                given.extend(state.iter().cloned());
                self.kinds(&part, &self.inputs(&part, given)?)?
            }
            false => Vec::new(),
        };
        for (place, stack) in stacks.into_iter().enumerate() {
            let kind = kinds.get(outputs - scans + place).cloned().flatten();
            state.push(self.stack(&stack, kind)?);
        }
        Ok(state)
    }

    fn scan(&self) -> Result<Vec<Tensor>, GraphError> {
        if self.node.version < 9 {
            return self.fail("its version before 9 is not supported");
        }
        let given = self.given(0)?;
        let count = self.node.int("num_scan_inputs").and_then(|n| usize::try_from(n).ok());
        let Some(states) = count.and_then(|count| given.len().checked_sub(count)) else {
            return self.fail("num_scan_inputs is missing, or more than it has inputs");
        };
        let (first, read) = given.split_at(states);
        let part = self.body("body")?;
        let outputs = part.runner.graph.outputs.len();
        let Some(scans) = outputs.checked_sub(states) else {
            return self.fail(format!("its body gives {outputs} outputs, too few"));
        };
        let list = |name: &str, place: usize| -> i64 {
            self.node.ints(name).and_then(|list| list.get(place)).copied().unwrap_or(0)
        };
        let mut axes = Vec::new();
        let mut length = None;
        for (place, tensor) in read.iter().enumerate() {
            let axis = self.axis(list("scan_input_axes", place), tensor.rank())?;
            let size = tensor.dims()[axis];
            if *length.get_or_insert(size) != size {
                return self.fail(format!(
                    "scan input {place} of shape {:?} has not {} elements on axis {axis}",
                    tensor.dims(),
                    length.unwrap_or(0)
                ));
            }
            axes.push(axis);
        }
        let Some(length) = length else { return self.fail("it has no scan input") };
        let element = |at: usize| -> Vec<Tensor> {
            let along = read.iter().zip(&axes).enumerate().map(|(place, (tensor, &axis))| {
                let backward = list("scan_input_directions", place) == 1;
                let at = if backward { length - 1 - at } else { at };
                let view = tensor.region().slice(axis, at, 1, 1).remove_axes(&[axis]);
                tensor.with_region(tensor.element(), view)
            });
            along.collect()
        };

        let mut state = first.to_vec();
        let mut stacks = vec![Vec::new(); scans];
        let mut bytes = 0;
        for at in 0..length {
            state.extend(element(at));
            let given = self.inputs(&part, std::mem::take(&mut state))?;
            let mut results = part.runner.run(&given, None)?.into_iter();
            state = results.by_ref().take(states).collect();
            for (stack, result) in stacks.iter_mut().zip(results) {
                self.push(stack, result, &mut bytes)?;
            }
        }
        let kinds = match length {
            0 => {
                let mut given = state.clone();
                for (tensor, &axis) in read.iter().zip(&axes) {
                    let mut dims = Dims::from_slice(tensor.dims());
                    dims.remove(axis);
                    given.push(Tensor::zeros(tensor.element(), &dims)?);
                }
                self.kinds(&part, &self.inputs(&part, given)?)?
            }
            _ => Vec::new(),
        };
        for (place, mut stack) in stacks.into_iter().enumerate() {
            if list("scan_output_directions", place) == 1 {
                stack.reverse();
            }
            let stacked = self.stack(&stack, kinds.get(states + place).cloned().flatten())?;
            let axis = self.axis(list("scan_output_axes", place), stacked.rank())?;
            let mut order: Vec<usize> = (1..stacked.rank()).collect();
            order.insert(axis, 0);
            state.push(stacked.permute(&order));
        }
        Ok(state)
    }

    fn axis(&self, given: i64, rank: usize) -> Result<usize, GraphError> {
        let counted = if given < 0 { given.saturating_add(rank as i64) } else { given };
        match usize::try_from(counted) {
            Ok(axis) if axis < rank => Ok(axis),
            _ => self.fail(format!("axis {given} is outside of {rank} dimensions")),
        }
    }

    /// Keeps an element of a scan output.
    fn push(
        &self,
        stack: &mut Vec<Tensor>,
        next: Tensor,
        bytes: &mut usize,
    ) -> Result<(), GraphError> {
        if let Some(first) = stack.first()
            && (first.dims() != next.dims() || first.element() != next.element())
        {
            return self.fail(format!(
                "its body gives {}{:?} after {}{:?}, which cannot be stacked",
                next.element(),
                next.dims(),
                first.element(),
                first.dims()
            ));
        }
        *bytes += (next.len() * next.element().size()).max(size_of::<Tensor>());
        if *bytes > Tensor::MAX_BYTES {
            return self.fail("what its body gives is too large to be stacked");
        }
        stack.push(next);
        Ok(())
    }

    fn stack(
        &self,
        stack: &[Tensor],
        kind: Option<(ElementType, Dims)>,
    ) -> Result<Tensor, GraphError> {
        if !stack.is_empty() {
            return Ok(Tensor::stack(stack)?);
        }
        let Some((element, mut dims)) = kind else {
            return self
                .fail("its body did not run, so that the shape of its outputs is not known");
        };
        dims.insert(0, 0);
        match byte_length(element, &dims) {
            Some(_) => Ok(Tensor::zeros(element, &dims)?),
            None => self.fail("the shape of its outputs is too large"),
        }
    }

    /// The types of a body's outputs for these inputs, as far as they are known without running it.
    fn kinds(
        &self,
        part: &Part<'_>,
        inputs: &[Option<Tensor>],
    ) -> Result<Vec<Option<(ElementType, Dims)>>, GraphError> {
        let ty = |tensor: &Tensor| (tensor.element(), Dims::from_slice(tensor.dims()));
        let signature: Signature = inputs.iter().map(|input| input.as_ref().map(ty)).collect();
        let planned = part.runner.plan(&signature)?;
        let outputs = planned.ready.plan.outputs.iter();
        Ok(outputs
            .map(|held| match held {
                Held::At(place) => Some((place.element, place.region.dims.clone())),
                Held::Slot(_) => None,
            })
            .collect())
    }
}
