//! ONNX files, and small graphs that are run.

use super::input::Input;
use crate::config::{Config, Mode as CacheMode};
use crate::graph::model::Attribute;
use crate::graph::{Builder, ElementType, Mode, Model, Session, Tensor, canonical_key, onnx};
use crate::store::Store;
use crate::sync::OnceLock;

/// A file is refused, or is a model whose canonical form can be told. The input is the file.
pub fn model(input: &[u8]) {
    if let Ok(model) = onnx::decode(input.to_vec(), None) {
        assert_eq!(canonical_key(&model), canonical_key(&model.clone()));
    }
}

/// A small model is refused, or gives the same in every mode.
///
/// The input is `rank, dims..., nodes...`, a node being `op, input, input, attribute`.
pub fn graph(input: &[u8]) {
    let mut input = Input::new(input);
    let rank = usize::from(input.byte() % 4);
    let dims: Vec<usize> = (0..rank).map(|_| usize::from(input.byte() % 5)).collect();
    let model = build(&dims, &mut input);
    static SESSION: OnceLock<Session> = OnceLock::new();
    let session = SESSION.get_or_init(|| {
        let store = Store::open(Config::default().mode(CacheMode::Off));
        Session::new(store).expect("there is a code generator for this machine")
    });
    let run = |mode: Mode| -> Option<Vec<Tensor>> {
        let prepared = session.prepare(&model, mode).ok()?;
        let count = dims.iter().product::<usize>();
        let elements: Vec<f32> = (0..count).map(|at| at as f32 / 8.0 - 1.0).collect();
        prepared.run(&[Tensor::from_slice(&dims, &elements)]).ok()
    };
    let (one, whole) = (run(Mode::PerNode), run(Mode::Whole));
    let bits = |tensors: &Option<Vec<Tensor>>| -> Option<Vec<Vec<u8>>> {
        let bytes = |tensor: &Tensor| tensor.contiguous().as_bytes().map(<[u8]>::to_vec);
        tensors.as_ref()?.iter().map(bytes).collect()
    };
    assert_eq!(bits(&one), bits(&whole));
    assert_eq!(run(Mode::Fused).is_some(), one.is_some());
}

#[rustfmt::skip]
const OPS: &[(&str, usize)] = &[
    ("Add", 2), ("Mul", 2), ("Sub", 2), ("Max", 2), ("Neg", 1), ("Relu", 1), ("Tanh", 1), ("MatMul", 2),
    ("Transpose", 1), ("Softmax", 1), ("ReduceSum", 1), ("ReduceMax", 1), ("Flatten", 1), ("Shape", 1),
    ("Concat", 2), ("Gather", 2), ("Reshape", 2), ("Expand", 2), ("Slice", 3), ("Unsqueeze", 2), ("Squeeze", 2),
    ("Cast", 1), ("Where", 3), ("Less", 2), ("Split", 1), ("Pad", 2), ("ArgMax", 1), ("CumSum", 2),
    ("Trilu", 1), ("TopK", 2), ("OneHot", 3), ("Range", 3), ("ConstantOfShape", 1), ("Compress", 2),
];

fn build(dims: &[usize], input: &mut Input<'_>) -> Model {
    let mut graph = Builder::new();
    let mut values = vec![graph.input("x", ElementType::F32, dims)];
    for _ in 0..8 {
        if input.is_empty() {
            break;
        }
        let choice = usize::from(input.byte());
        if choice % 4 == 0 {
            // Small integers, for shapes, axes and indices.
            let count = usize::from(input.byte() % 4);
            let numbers: Vec<i64> = (0..count).map(|_| i64::from(input.byte() as i8 % 6)).collect();
            values.push(graph.constant(Tensor::from_slice(&[count], &numbers)));
            continue;
        }
        let (op, count) = OPS[(choice / 4 + usize::from(input.byte()) * 64) % OPS.len()];
        let reads: Vec<_> =
            (0..count).map(|_| values[usize::from(input.byte()) % values.len()]).collect();
        let reads: Vec<_> = reads.iter().map(Some).collect();
        let number = i64::from(input.byte() as i8 % 8);
        let attributes: &[(&str, Attribute)] = match op {
            "Softmax" | "Flatten" | "Concat" | "Gather" | "Split" | "ArgMax" | "TopK"
            | "OneHot" | "Compress" => &[("axis", Attribute::Int(number))],
            "Cast" => &[("to", Attribute::Int(number.abs() + 1))],
            _ => &[],
        };
        let outputs = if op == "Split" || op == "TopK" { 2 } else { 1 };
        values.extend(graph.op_with(op, &reads, attributes, outputs));
    }
    let last = values[values.len() - 1];
    graph.output("y", &last);
    graph.finish().expect("every value is its own")
}
