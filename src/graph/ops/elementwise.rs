//! Element-wise kernels: one function, or a fused group of them.
//!
//! ```text
//!   every operand without gaps, or one element:  one row of all elements
//!   else:                                        a loop per axis, a row along the last
//! ```

use cranelift_codegen::ir::Value;

use super::emit::{Array, Emitter, Lane};
use super::rows::{Body, Source, Stride, map_row};
use crate::graph::node::Layout;

/// Writes the results of these steps to the outputs, from the inputs, all of one shape.
pub(super) fn emit(emitter: &mut Emitter<'_>, body: &Body, outputs: &[u32]) {
    let inputs: Vec<Array> = (0..emitter.inputs.len()).map(|i| emitter.input(i)).collect();
    let targets: Vec<Array> = (0..emitter.outputs.len()).map(|i| emitter.output(i)).collect();
    emit_arrays(emitter, body, &inputs, outputs, &targets);
}

/// As [`emit`], of operands that need not be the kernel's.
pub(super) fn emit_arrays(
    emitter: &mut Emitter<'_>,
    body: &Body,
    inputs: &[Array],
    outputs: &[u32],
    targets: &[Array],
) {
    let dims = targets[0].dims.clone();
    let flat = targets.iter().all(|array| array.layout == Layout::Contiguous)
        && inputs.iter().all(|array| matches!(array.layout, Layout::Contiguous | Layout::Single));
    if flat {
        let n = emitter.product(&dims);
        let sources: Vec<Source> = inputs
            .iter()
            .map(|array| match array.layout {
                Layout::Single => Source::Lane(array.data, Stride::Zero),
                _ => Source::Lane(array.data, Stride::Unit),
            })
            .collect();
        let targets: Vec<(Value, Stride)> =
            targets.iter().map(|array| (array.data, Stride::Unit)).collect();
        return map_row(emitter, body, &sources, outputs, &targets, n);
    }
    let outer = dims.len() - 1;
    let all: Vec<&Array> = inputs.iter().chain(targets).collect();
    let lanes: Vec<Lane> = all.iter().map(|array| array.lane_of(0..outer)).collect();
    emitter.walk(&dims[..outer], &lanes, |emitter, _, pointers| {
        let rows: Vec<(Value, Stride)> = pointers
            .iter()
            .zip(&all)
            .map(|(&pointer, array)| (pointer, Stride::last(array)))
            .collect();
        let (from, to) = rows.split_at(inputs.len());
        let sources: Vec<Source> =
            from.iter().map(|&(pointer, stride)| Source::Lane(pointer, stride)).collect();
        map_row(emitter, body, &sources, outputs, to, dims[outer]);
    });
}
