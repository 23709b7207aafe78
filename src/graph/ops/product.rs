//! Products of matrices: MatMul, Gemm, Einsum.
//!
//! ```text
//!   axes that both inputs and the output have   ─► loops
//!   one axis of each kind: rows, columns, summed ─► `gemm` by name, with strides; of integers, three loops
//!   what is left                                 ─► loops that add to what is there
//! ```

use cranelift_codegen::ir::{InstBuilder, Value};

use super::arithmetic::Math;
use super::cast::cast;
use super::elementwise;
use super::emit::{Array, Emitter, Lane};
use super::rows::{Body, step};
use crate::graph::node::{Arg, Float, Map, Scalar};
use crate::graph::runtime::PRODUCT_WORDS;
use crate::graph::tensor::ElementType;

/// A matrix: where it begins, and its strides in bytes.
#[derive(Clone, Copy)]
struct Matrix {
    start: Value,
    rows: Value,
    columns: Value,
}

/// `c = a b`, or `c += beta a b`.
struct Sizes {
    m: Value,
    n: Value,
    k: Value,
}

fn gemm(
    emitter: &mut Emitter<'_>,
    element: ElementType,
    sizes: &Sizes,
    [c, a, b]: [Matrix; 3],
    accumulate: Value,
    beta: f64,
) {
    let shift = i64::from(element.size().trailing_zeros());
    let mut words = vec![sizes.m, sizes.n, sizes.k];
    for matrix in [c, a, b] {
        words.push(matrix.start);
        for stride in [matrix.rows, matrix.columns] {
            words.push(emitter.builder.ins().sshr_imm_u(stride, shift));
        }
    }
    words.push(accumulate);
    for number in [1.0_f64, beta] {
        let bits = emitter.int(number.to_bits() as i64);
        words.push(bits);
    }
    debug_assert_eq!(words.len(), PRODUCT_WORDS);
    let product = emitter.stack(8 * words.len());
    for (at, word) in words.into_iter().enumerate() {
        emitter.store_at(word, product, 8 * at as i32);
    }
    let name = match element {
        ElementType::F32 => "cachelift_gemm_f32",
        _ => "cachelift_gemm_f64",
    };
    emitter.call(name, &[product]);
}

/// As [`gemm()`] of any type, with what becomes of each sum before it is stored at an address.
fn loops(
    emitter: &mut Emitter<'_>,
    element: ElementType,
    sizes: &Sizes,
    [c, a, b]: [Matrix; 3],
    finish: &dyn Fn(&mut Emitter<'_>, Value, Value) -> Value,
) {
    let lane = |start: Value, strides: &[Value]| Lane { start, strides: strides.to_vec() };
    let zero = emitter.int(0);
    let outer = [
        lane(c.start, &[c.rows, c.columns]),
        lane(a.start, &[a.rows, zero]),
        lane(b.start, &[zero, b.columns]),
    ];
    emitter.walk(&[sizes.m, sizes.n], &outer, |emitter, _, pointers| {
        let inner = [lane(pointers[1], &[a.columns]), lane(pointers[2], &[b.rows])];
        let none = Math { emitter, element, lanes: 1 }.zero();
        let sum = emitter.nest(&[sizes.k], &inner, &[none], |emitter, _, at, state| {
            let (x, y) = (emitter.load(element, at[0]), emitter.load(element, at[1]));
            let mut math = Math { emitter, element, lanes: 1 };
            let product = math.mul(x, y);
            vec![math.add(state[0], product)]
        });
        let result = finish(emitter, sum[0], pointers[0]);
        emitter.store(result, pointers[0]);
    });
}

fn matrix(array: &Array, start: Value) -> Matrix {
    let rank = array.rank();
    Matrix { start, rows: array.strides[rank - 2], columns: array.strides[rank - 1] }
}

/// MatMul of operands that all have the output's rank and batch dimensions.
pub(super) fn mat_mul(emitter: &mut Emitter<'_>) {
    let (a, b, c) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let rank = c.rank();
    let element = c.element;
    let sizes = Sizes { m: c.dims[rank - 2], n: c.dims[rank - 1], k: a.dims[rank - 1] };
    let lanes = [&c, &a, &b].map(|array| array.lane_of(0..rank - 2));
    emitter.walk(&c.dims[..rank - 2], &lanes, |emitter, _, pointers| {
        let matrices = [matrix(&c, pointers[0]), matrix(&a, pointers[1]), matrix(&b, pointers[2])];
        if element.is_float() {
            let no = emitter.int(0);
            gemm(emitter, element, &sizes, matrices, no, 1.0);
        } else {
            loops(emitter, element, &sizes, matrices, &|_, sum, _| sum);
        }
    });
}

/// Gemm: `alpha a b + beta c`.
pub(super) fn gemm_node(emitter: &mut Emitter<'_>, alpha: Float, beta: Float) {
    let (a, b, y) = (emitter.input(0), emitter.input(1), emitter.output(0));
    let c = emitter.inputs.get(2).cloned().flatten();
    let element = y.element;
    let (alpha, beta) = (f64::from(alpha.get()), f64::from(beta.get()));
    let sizes = Sizes { m: y.dims[0], n: y.dims[1], k: a.dims[1] };
    let matrices = [matrix(&y, y.data), matrix(&a, a.data), matrix(&b, b.data)];
    let accumulate = c.is_some();
    if let Some(c) = c {
        let scale = match element {
            ElementType::F32 => u64::from((beta as f32).to_bits()),
            _ => beta.to_bits(),
        };
        let scaled = if beta == 1.0 {
            Body::identity(element)
        } else if element.is_float() {
            let scale = Arg::Constant(Scalar { element, bits: scale });
            Body::new(vec![step(Map::Mul, &[Arg::Input(0), scale])], vec![element])
        } else {
            let scale = Arg::Constant(Scalar { element: ElementType::F64, bits: beta.to_bits() });
            let steps = vec![
                step(Map::Cast { to: ElementType::F64 }, &[Arg::Input(0)]),
                step(Map::Mul, &[Arg::Step(0), scale]),
                step(Map::Cast { to: element }, &[Arg::Step(1)]),
            ];
            Body::new(steps, vec![element])
        };
        let last = scaled.last();
        elementwise::emit_arrays(emitter, &scaled, &[c], &[last], std::slice::from_ref(&y));
    }
    if element.is_float() {
        let add = emitter.int(i64::from(accumulate));
        return gemm(emitter, element, &sizes, matrices, add, alpha);
    }
    let finish = |emitter: &mut Emitter<'_>, sum: Value, at: Value| {
        let mut result = sum;
        if alpha != 1.0 {
            let number = cast(emitter, sum, element, ElementType::F64);
            let mut math = Math { emitter, element: ElementType::F64, lanes: 1 };
            let factor = math.number(alpha);
            let scaled = math.mul(number, factor);
            result = cast(emitter, scaled, ElementType::F64, element);
        }
        if accumulate {
            let before = emitter.load(element, at);
            result = Math { emitter, element, lanes: 1 }.add(before, result);
        }
        result
    };
    loops(emitter, element, &sizes, matrices, &finish);
}

/// Einsum. See [`Op::Einsum`](crate::graph::node::Op::Einsum).
pub(super) fn einsum(emitter: &mut Emitter<'_>, terms: &[Vec<u8>], output: &[u8]) {
    let inputs: Vec<Array> = (0..terms.len()).map(|i| emitter.input(i)).collect();
    let y = emitter.output(0);
    let element = y.element;
    let zero = emitter.int(0);
    // Of each label: its dimension, and its strides in the output and in each input. An axis that stands twice in
    // an input is a diagonal.
    let labels = terms.iter().flatten().chain(output).map(|&label| usize::from(label) + 1).max();
    let mut axes: Vec<Axis> = Vec::new();
    for label in 0..labels.unwrap_or(0) as u8 {
        let mut axis = Axis { label, dim: zero, strides: vec![zero; 1 + inputs.len()] };
        let operands = [(output, &y)].into_iter();
        let operands = operands.chain(terms.iter().map(Vec::as_slice).zip(&inputs));
        for (operand, (labels, array)) in operands.enumerate() {
            for (at, _) in labels.iter().enumerate().filter(|(_, other)| **other == label) {
                axis.dim = array.dims[at];
                let before = axis.strides[operand];
                axis.strides[operand] = if before == zero {
                    array.strides[at]
                } else {
                    emitter.add(before, array.strides[at])
                };
            }
        }
        axes.push(axis);
    }
    let has = |operand: usize, label: u8| match operand {
        0 => output.contains(&label),
        _ => terms[operand - 1].contains(&label),
    };
    let (mut kept, mut summed): (Vec<Axis>, Vec<Axis>) =
        axes.into_iter().partition(|axis| has(0, axis.label));
    // In the output's order, so that it is written from front to back.
    kept.sort_by_key(|axis| output.iter().position(|label| *label == axis.label));

    if inputs.len() == 2 && element.is_float() {
        let only =
            |axis: &Axis, a: bool, b: bool| has(1, axis.label) == a && has(2, axis.label) == b;
        let row = kept.iter().rposition(|axis| only(axis, true, false));
        let column = kept.iter().rposition(|axis| only(axis, false, true));
        let sum = summed.iter().rposition(|axis| only(axis, true, true));
        if let (Some(row), Some(column), Some(sum)) = (row, column, sum) {
            let sum = summed.remove(sum);
            let (row, column) = (kept[row].clone(), kept[column].clone());
            kept.retain(|axis| axis.label != row.label && axis.label != column.label);
            return contract(emitter, &inputs, &y, &kept, &summed, [row, column, sum]);
        }
    }

    let starts = [&y].into_iter().chain(&inputs).map(|array| array.data);
    let starts: Vec<Value> = starts.collect();
    let outer = lanes(&kept, &starts);
    let dims: Vec<Value> = kept.iter().map(|axis| axis.dim).collect();
    emitter.walk(&dims, &outer, |emitter, _, pointers| {
        let inner = lanes(&summed, pointers);
        let dims: Vec<Value> = summed.iter().map(|axis| axis.dim).collect();
        let none = Math { emitter, element, lanes: 1 }.zero();
        let sum = emitter.nest(&dims, &inner[1..], &[none], |emitter, _, at, state| {
            let values: Vec<Value> = at.iter().map(|&at| emitter.load(element, at)).collect();
            let mut math = Math { emitter, element, lanes: 1 };
            let product =
                values[1..].iter().fold(values[0], |product, &value| math.mul(product, value));
            vec![math.add(state[0], product)]
        });
        emitter.store(sum[0], pointers[0]);
    });
}

/// An axis of an Einsum: its strides in the output, and in each input.
#[derive(Clone)]
struct Axis {
    label: u8,
    dim: Value,
    strides: Vec<Value>,
}

fn lanes(axes: &[Axis], starts: &[Value]) -> Vec<Lane> {
    let lane = |(operand, &start): (usize, &Value)| Lane {
        start,
        strides: axes.iter().map(|axis| axis.strides[operand]).collect(),
    };
    starts.iter().enumerate().map(lane).collect()
}

/// Two inputs: matrix products within loops over the axes that are left, of which the summed ones add up.
fn contract(
    emitter: &mut Emitter<'_>,
    inputs: &[Array],
    y: &Array,
    kept: &[Axis],
    summed: &[Axis],
    [row, column, sum]: [Axis; 3],
) {
    let element = y.element;
    let starts = [y.data, inputs[0].data, inputs[1].data];
    let sizes = Sizes { m: row.dim, n: column.dim, k: sum.dim };
    let product = |emitter: &mut Emitter<'_>, at: &[Value], accumulate: Value| {
        let matrices = [
            Matrix { start: at[0], rows: row.strides[0], columns: column.strides[0] },
            Matrix { start: at[1], rows: row.strides[1], columns: sum.strides[1] },
            Matrix { start: at[2], rows: sum.strides[2], columns: column.strides[2] },
        ];
        gemm(emitter, element, &sizes, matrices, accumulate, 1.0);
    };
    let dims: Vec<Value> = kept.iter().map(|axis| axis.dim).collect();
    if !summed.is_empty() {
        // All may have no turn at all.
        let none = Body::new(
            vec![step(Map::Identity, &[Arg::Constant(Scalar { element, bits: 0 })])],
            vec![],
        );
        elementwise::emit_arrays(emitter, &none, &[], &[0], std::slice::from_ref(y));
    }
    emitter.walk(&dims, &lanes(kept, &starts), |emitter, _, pointers| {
        if summed.is_empty() {
            let no = emitter.int(0);
            return product(emitter, pointers, no);
        }
        let dims: Vec<Value> = summed.iter().map(|axis| axis.dim).collect();
        emitter.walk(&dims, &lanes(summed, pointers), |emitter, _, at| {
            let yes = emitter.int(1);
            product(emitter, at, yes);
        });
    });
}
