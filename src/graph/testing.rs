//! Runs single nodes, for tests.

use std::sync::OnceLock;

use super::abi::{Status, View};
use super::node::Op;
use super::tensor::{ElementType, Tensor};
use super::{bind, compile};
use crate::code::{Engine, Target};
use crate::config::Config;
use crate::store::Store;

/// An engine without a directory.
pub(super) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        Engine::new(Store::open(Config::default()), Target::host().expect("this machine is one"))
    })
}

/// What a node makes of these inputs, in outputs of these types and dimensions.
pub(super) fn evaluate(
    op: &Op,
    inputs: &[Option<Tensor>],
    outputs: &[(ElementType, Vec<usize>)],
) -> Result<Vec<Tensor>, Status> {
    let view = |tensor: &Option<Tensor>| tensor.as_ref().map(View::from);
    let mut results: Vec<Tensor> = outputs
        .iter()
        .map(|(element, dims)| Tensor::zeros(*element, dims).expect("it is small"))
        .collect();
    let from: Vec<Option<View>> = inputs.iter().map(view).collect();
    let to: Vec<Option<View>> = results.iter().map(|tensor| Some(View::from(tensor))).collect();
    let mut call = bind(op, &from, &to);
    let kernel = compile(engine(), std::slice::from_ref(&call.spec)).expect("it compiles");
    let operands = call.spec.inputs.len();
    for (index, tensor) in inputs.iter().enumerate().take(operands) {
        if let Some(tensor) = tensor {
            call.frame.set_address(index, tensor.as_ptr());
        }
    }
    for (index, tensor) in results.iter_mut().enumerate() {
        let address = tensor.as_mut_ptr().expect("it is new");
        call.frame.set_address(operands + index, address);
    }
    // SAFETY: the frame was bound to these tensors, whose addresses it has.
    match unsafe { kernel[0].call(&call.frame.words) } {
        Status::Done => Ok(results),
        status => Err(status),
    }
}
