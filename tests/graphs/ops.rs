//! Operators at their edges: older versions, empty and scalar tensors, ties, numbers that are none. What is expected is
//! the specification's word, worked out by hand.

use std::slice;

use cachelift::config::{Config, Mode as CacheMode};
use cachelift::graph::model::Attribute::{self, Float, Int, Ints, Text};
use cachelift::graph::{Builder, Element, Mode, Session, Tensor};
use cachelift::store::Store;

/// Numbers, and their dimensions.
fn tensor<T: Element>(dims: &[usize], elements: &[T]) -> Option<Tensor> {
    Some(Tensor::from_slice(dims, elements))
}

fn row<T: Element>(elements: &[T]) -> Option<Tensor> {
    tensor(&[elements.len()], elements)
}

/// The outputs of one node, which are the same in every mode, whether its inputs are known beforehand or not, and whether they
/// lie in rows or in columns.
fn run(
    version: i64,
    op: &str,
    inputs: &[Option<Tensor>],
    attributes: &[(&str, Attribute)],
    outputs: usize,
) -> Vec<(Vec<usize>, Vec<f64>)> {
    let off = Config::default().mode(CacheMode::Off);
    let session = Session::new(Store::open(off)).unwrap();
    let mut all = Vec::new();
    for mode in [Mode::PerNode, Mode::Fused, Mode::Whole] {
        for known in [false, true] {
            let mut graph = Builder::with_version(version);
            let mut given = Vec::new();
            let mut values = Vec::new();
            for (place, input) in inputs.iter().enumerate() {
                values.push(input.as_ref().map(|tensor| {
                    if known {
                        return graph.constant(tensor.clone());
                    }
                    let order: Vec<usize> = (0..tensor.rank()).rev().collect();
                    let columns = tensor.permute(&order).contiguous();
                    let name = format!("x{place}");
                    let value = graph.input(&name, tensor.element(), columns.dims());
                    given.push(columns);
                    graph.op("Transpose", &[&value])
                }));
            }
            let values: Vec<_> = values.iter().map(Option::as_ref).collect();
            for (place, value) in graph.op_with(op, &values, attributes, outputs).iter().enumerate()
            {
                graph.output(&format!("y{place}"), value);
            }
            let model = session.prepare(&graph.finish().unwrap(), mode).unwrap();
            let results = model.run(&given).unwrap();
            let plain = |tensor: &Tensor| (tensor.dims().to_vec(), tensor.to_f64s());
            all.push(results.iter().map(plain).collect::<Vec<_>>());
        }
    }
    let first = all.remove(0);
    let text = format!("{first:?}");
    assert!(all.iter().all(|other| format!("{other:?}") == text), "{op}: {first:?} {all:?}");
    first
}

/// The one output.
fn one(
    version: i64,
    op: &str,
    inputs: &[Option<Tensor>],
    attributes: &[(&str, Attribute)],
) -> (Vec<usize>, Vec<f64>) {
    run(version, op, inputs, attributes, 1).remove(0)
}

/// Kills: the attribute of an older version left out; the number of the newest version taken for all.
#[test]
fn older_versions_have_attributes_for_inputs() {
    let x = row(&[1.0_f32, 2.0]);
    let pads = [("pads", Ints(vec![1, 2])), ("value", Float(3.0))];
    assert_eq!(one(2, "Pad", slice::from_ref(&x), &pads).1, [3.0, 1.0, 2.0, 3.0, 3.0]);
    let bounds = [("min", Float(1.5)), ("max", Float(9.0))];
    assert_eq!(one(6, "Clip", slice::from_ref(&x), &bounds).1, [1.5, 2.0]);
    let slice = [("starts", Ints(vec![1])), ("ends", Ints(vec![9])), ("axes", Ints(vec![0]))];
    assert_eq!(one(9, "Slice", slice::from_ref(&x), &slice).1, [2.0]);
    let axes = [("axes", Ints(vec![0])), ("keepdims", Int(0))];
    assert_eq!(one(11, "ReduceSum", slice::from_ref(&x), &axes), (vec![], vec![3.0]));
    assert_eq!(one(11, "Unsqueeze", slice::from_ref(&x), &[("axes", Ints(vec![0]))]).0, [1, 2]);
    let split = run(11, "Split", &[x], &[("split", Ints(vec![2, 0]))], 2);
    assert_eq!(split[1], (vec![0], vec![]));
    // Before version 13 all axes from this one on are one row.
    let ones = tensor(&[2, 2, 2], &[0.0_f32; 8]);
    assert_eq!(one(11, "Softmax", slice::from_ref(&ones), &[]).1, [0.25; 8]);
    assert_eq!(one(13, "Softmax", &[ones], &[]).1, [0.5; 8]);
}

/// Kills: a length of 0 that is taken for none given (TopK).
#[test]
fn empty_tensors_have_shapes_and_results() {
    let nothing = |dims: &[usize]| tensor::<f32>(dims, &[]);
    assert_eq!(
        one(21, "MatMul", &[nothing(&[2, 0]), nothing(&[0, 3])], &[]),
        (vec![2, 3], vec![0.0; 6])
    );
    let bias = row(&[1.0_f32, 2.0, 3.0]);
    let gemm = one(13, "Gemm", &[nothing(&[2, 0]), nothing(&[0, 3]), bias], &[]);
    assert_eq!(gemm, (vec![2, 3], vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0]));
    assert_eq!(
        one(
            21,
            "Concat",
            &[nothing(&[0, 2]), tensor(&[1, 2], &[1.0_f32, 2.0])],
            &[("axis", Int(0))]
        )
        .0,
        [1, 2]
    );
    assert_eq!(
        one(18, "ReduceProd", &[nothing(&[0, 2]), row(&[0_i64])], &[]),
        (vec![1, 2], vec![1.0; 2])
    );
    assert_eq!(one(18, "ReduceMax", &[nothing(&[0]), row(&[0_i64])], &[]).1, [f64::NEG_INFINITY]);
    assert_eq!(one(13, "Expand", &[tensor(&[1], &[1.0_f32]), row(&[0_i64])], &[]).0, [0]);
    assert_eq!(one(13, "Tile", &[row(&[1.0_f32]), row(&[0_i64])], &[]).0, [0]);
    let top = run(11, "TopK", &[row(&[2.0_f32, 1.0]), row(&[0_i64])], &[], 2);
    assert_eq!(top, [(vec![0], vec![]), (vec![0], vec![])]);
    assert_eq!(
        one(14, "Reshape", &[nothing(&[0, 3]), row(&[3_i64, 0])], &[("allowzero", Int(1))]).0,
        [3, 0]
    );
    assert_eq!(one(11, "Compress", &[row(&[1.0_f32, 2.0]), row(&[false, false])], &[]).0, [0]);
}

/// Kills: a size that is a row of one; the axis after the last refused of a scalar (Flatten).
#[test]
fn scalars_have_no_dimensions() {
    let scalar = |number: f32| tensor(&[], &[number]);
    assert_eq!(
        one(13, "Add", &[scalar(1.0), row(&[1.0_f32, 2.0])], &[]),
        (vec![2], vec![2.0, 3.0])
    );
    assert_eq!(one(13, "Flatten", &[scalar(1.0)], &[("axis", Int(0))]).0, [1, 1]);
    assert_eq!(one(13, "Reshape", &[row(&[1.0_f32]), row::<i64>(&[])], &[]).0, [0_usize; 0]);
    assert_eq!(
        one(13, "Gather", &[row(&[1.0_f32, 2.0]), tensor(&[], &[-1_i64])], &[]),
        (vec![], vec![2.0])
    );
    assert_eq!(
        one(13, "MatMul", &[row(&[1.0_f32, 2.0]), row(&[3.0_f32, 4.0])], &[]),
        (vec![], vec![11.0])
    );
    assert_eq!(one(13, "Size", &[scalar(1.0)], &[]), (vec![], vec![1.0]));
    assert_eq!(one(18, "ReduceSum", &[scalar(2.0)], &[]), (vec![], vec![2.0]));
    assert_eq!(one(19, "Pad", &[scalar(2.0), row::<i64>(&[])], &[]), (vec![], vec![2.0]));
}

/// Kills: the last of equals taken unless it is asked for; a comparison that lets NaN by (Max).
#[test]
fn ties_and_numbers_that_are_none() {
    let ties = row(&[1.0_f32, 3.0, 3.0, 1.0]);
    assert_eq!(one(13, "ArgMax", slice::from_ref(&ties), &[]).1, [1.0]);
    assert_eq!(
        one(13, "ArgMax", slice::from_ref(&ties), &[("select_last_index", Int(1))]).1,
        [2.0]
    );
    assert_eq!(one(13, "ArgMin", &[ties], &[("select_last_index", Int(1))]).1, [3.0]);
    let none = f32::NAN;
    let max = one(13, "Max", &[row(&[none, 1.0]), row(&[1.0_f32, none])], &[]).1;
    assert!(max.iter().all(|number| number.is_nan()));
    let both = [("detect_negative", Int(0))];
    assert_eq!(
        one(20, "IsInf", &[row(&[f32::INFINITY, f32::NEG_INFINITY, none])], &both).1,
        [1.0, 0.0, 0.0]
    );
    // A row of minus infinity sums to nothing at all, not to NaN.
    let low = tensor(&[1, 2], &[f32::NEG_INFINITY; 2]);
    assert_eq!(one(18, "ReduceLogSumExp", &[low, row(&[1_i64])], &[]).1, [f64::NEG_INFINITY]);
    assert_eq!(one(13, "Round", &[row(&[0.5_f32, 1.5, -2.5])], &[]).1, [0.0, 2.0, -2.0]);
}

/// Kills: ends that are not clamped; a negative step that begins past the end. Pads that only add: `graph::ops::tests`.
#[test]
fn slices_and_pads_reach_over_the_ends() {
    let x = || row(&[0.0_f32, 1.0, 2.0, 3.0]);
    let slice = |start: i64, end: i64, step: i64| {
        one(13, "Slice", &[x(), row(&[start]), row(&[end]), row(&[0_i64]), row(&[step])], &[]).1
    };
    assert_eq!(slice(-2, i64::MAX, 1), [2.0, 3.0]);
    assert_eq!(slice(9, i64::MIN, -2), [3.0, 1.0]);
    assert_eq!(slice(2, 1, 1), [0.0; 0]);
    assert_eq!(slice(-9, 9, 3), [0.0, 3.0]);
    let pad = |mode: &str, pads: [i64; 2]| {
        one(19, "Pad", &[x(), row(&pads)], &[("mode", Text(mode.into()))]).1
    };
    assert_eq!(pad("constant", [-1, 1]), [1.0, 2.0, 3.0, 0.0]);
    assert_eq!(pad("reflect", [2, 1]), [2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0]);
    assert_eq!(pad("edge", [1, 2]), [0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 3.0]);
    assert_eq!(pad("wrap", [5, 0]), [3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
}

/// Kills: a letter that stands twice taken for two axes; dots in the result left out.
#[test]
fn einsum_knows_diagonals_dots_and_implied_results() {
    let square = || tensor(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]);
    let einsum = |equation: &str, inputs: &[Option<Tensor>]| {
        one(12, "Einsum", inputs, &[("equation", Text(equation.into()))])
    };
    assert_eq!(einsum("ii", &[square()]), (vec![], vec![5.0]));
    assert_eq!(einsum("ii->i", &[square()]), (vec![2], vec![1.0, 4.0]));
    assert_eq!(einsum("ba", &[square()]).1, [1.0, 3.0, 2.0, 4.0]);
    assert_eq!(einsum("...i->...", &[square()]).1, [3.0, 7.0]);
    assert_eq!(einsum(" i j , j k -> i k ", &[square(), square()]).1, [7.0, 10.0, 15.0, 22.0]);
    assert_eq!(einsum("...ij,...jk->...ik", &[square(), square()]).0, [2, 2]);
}
