//! Emitters: from a [`NodeSpec`] to CLIF, and from nothing else.
//!
//! ```text
//!   NodeSpec ──► elementwise ┐
//!           ├──► reduce      ├─► rows ─► map ─► arithmetic, math, cast
//!           ├──► lanes       │  └ fold         scalars, or vectors
//!           ├──► normalise   ┘
//!           ├──► product      ─► gemm, by name
//!           └──► movement
//!                 all on emit: operands, loops, calls
//! ```

mod arithmetic;
mod cast;
mod elementwise;
mod emit;
mod fold;
mod lanes;
mod map;
mod math;
mod movement;
mod normalise;
mod product;
mod reduce;
mod rows;
#[cfg(test)]
mod tests;

use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::TargetFrontendConfig;

pub(super) use emit::{NAMESPACE, declaration};
pub(super) use reduce::has_columns;

use self::emit::Emitter;
use self::rows::{Body, step};
use super::node::{Arg, Map, NodeSpec, Op};
use super::tensor::ElementType;

/// The kernel of a specification.
pub(super) fn emit(spec: &NodeSpec, config: TargetFrontendConfig) -> Function {
    emit::function(spec, config, |emitter| body(emitter, spec))
}

fn body(emitter: &mut Emitter<'_>, spec: &NodeSpec) {
    let types = || -> Vec<ElementType> {
        spec.inputs.iter().flatten().map(|operand| operand.element).collect()
    };
    match &spec.op {
        Op::Map(map) => {
            let args: Vec<Arg> = (0..spec.inputs.len() as u32).map(Arg::Input).collect();
            let body = Body::new(vec![step(*map, &args)], types());
            elementwise::emit(emitter, &body, &[0]);
        }
        Op::Copy => {
            let body = Body::identity(spec.input(0).element);
            elementwise::emit(emitter, &body, &[0]);
        }
        Op::Fused(group) => match &group.reduce {
            None => {
                let body = Body::new(group.steps.clone(), types());
                elementwise::emit(emitter, &body, &group.outputs);
            }
            Some((kind, axes)) => reduce::emit(emitter, group.steps.clone(), *kind, axes),
        },
        Op::Reduce { kind, axes } => {
            let steps = vec![step(Map::Identity, &[Arg::Input(0)])];
            reduce::emit(emitter, steps, *kind, axes);
        }
        Op::ArgExtreme { max, last, .. } => lanes::arg_extreme(emitter, *max, *last),
        Op::Cumulate { product, exclusive, reverse, .. } => {
            lanes::cumulate(emitter, *product, *exclusive, *reverse);
        }
        Op::TopK { largest, .. } => lanes::top_k(emitter, *largest),
        Op::Softmax { axis } => lanes::softmax(emitter, *axis, false),
        Op::LogSoftmax { axis } => lanes::softmax(emitter, *axis, true),
        Op::Hardmax { .. } => lanes::hardmax(emitter),
        Op::LpNormalize { p, .. } => lanes::lp_normalize(emitter, *p),
        Op::LayerNormalize { axis, epsilon } => normalise::layer(emitter, *axis, *epsilon, true),
        Op::RmsNormalize { axis, epsilon } => normalise::layer(emitter, *axis, *epsilon, false),
        Op::BatchNormalize { epsilon, momentum, training } => {
            normalise::batch(emitter, *epsilon, *momentum, *training);
        }
        Op::MatMul => product::mat_mul(emitter),
        Op::Gemm { alpha, beta, .. } => product::gemm_node(emitter, *alpha, *beta),
        Op::Einsum { inputs, output } => product::einsum(emitter, inputs, output),
        Op::Concat { axis } => movement::concat(emitter, *axis),
        Op::Tile => unreachable!("it is bound as a copy"),
        Op::Gather { axis } => movement::gather(emitter, *axis),
        Op::GatherElements { axis } => movement::gather_elements(emitter, *axis),
        Op::GatherNd { batch_dims } => movement::gather_nd(emitter, *batch_dims),
        Op::ScatterElements { axis, reduction } => {
            movement::scatter_elements(emitter, *axis, *reduction);
        }
        Op::ScatterNd { reduction } => movement::scatter_nd(emitter, *reduction),
        Op::Compress { axis } => movement::compress(emitter, *axis),
        Op::OneHot { axis } => movement::one_hot(emitter, *axis),
        Op::Pad { mode } => movement::pad(emitter, *mode),
        Op::Range => movement::range(emitter),
        Op::EyeLike { k } => movement::eye_like(emitter, *k),
        Op::Trilu { upper } => movement::trilu(emitter, *upper),
        Op::ReverseSequence { time_axis, batch_axis } => {
            movement::reverse_sequence(emitter, *time_axis, *batch_axis);
        }
    }
}
