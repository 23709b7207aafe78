//! Models that are wrong in one thing: one clear error each.

use cachelift::config::{Config, Mode as CacheMode};
use cachelift::graph::model::{Attribute, Dim, ValueType};
use cachelift::graph::{Builder, ElementType, Mode, Model, Session, Tensor, Value, onnx};
use cachelift::store::Store;

fn session() -> Session {
    Session::new(Store::open(Config::default().mode(CacheMode::Off))).unwrap()
}

/// What is said of a graph that is built so, when it is prepared.
fn refusal(build: impl FnOnce(&mut Builder) -> Value) -> String {
    let mut graph = Builder::new();
    let value = build(&mut graph);
    graph.output("y", &value);
    session().prepare(&graph.finish().unwrap(), Mode::Fused).unwrap_err().to_string()
}

fn floats(graph: &mut Builder, name: &str, dims: &[usize]) -> Value {
    graph.input(name, ElementType::F32, dims)
}

/// Errors name the node, the op, the input and both shapes. Mutant: dimensions that differ taken for broadcast.
#[test]
fn shapes_that_do_not_fit_are_named() {
    let text = refusal(|graph| {
        let (a, b) = (floats(graph, "a", &[2, 3]), floats(graph, "b", &[4]));
        graph.op("Add", &[&a, &b])
    });
    assert_eq!(
        text,
        "node of \"y\" (Add): input 1 of shape [4] cannot be broadcast with input 0 of shape [2, 3]"
    );
    let text = refusal(|graph| {
        let (a, b) = (floats(graph, "a", &[2, 3]), floats(graph, "b", &[4, 5]));
        graph.op("MatMul", &[&a, &b])
    });
    assert_eq!(
        text,
        "node of \"y\" (MatMul): input 0 of shape [2, 3] and input 1 of shape [4, 5] cannot be multiplied"
    );
    let text = refusal(|graph| {
        let a = floats(graph, "a", &[2, 3]);
        let b = graph.input("b", ElementType::I64, &[2, 3]);
        graph.op("Mul", &[&a, &b])
    });
    assert_eq!(
        text,
        "node of \"y\" (Mul): input 0 is of type f32, input 1 of type i64: they must be one"
    );
    let text = refusal(|graph| {
        let a = floats(graph, "a", &[2, 3]);
        graph.op_with("Softmax", &[Some(&a)], &[("axis", Attribute::Int(2))], 1)[0]
    });
    assert_eq!(text, "node of \"y\" (Softmax): axis 2 is outside of 2 dimensions");
    let text = refusal(|graph| {
        let a = floats(graph, "a", &[2, 3]);
        graph.op("Add", &[&a])
    });
    assert_eq!(text, "node of \"y\" (Add): input 1 is missing");
}

/// Before anything is compiled, and wherever the op stands. Mutant: ops looked up when their node is planned.
#[test]
fn unknown_ops_are_refused_by_name() {
    let text = refusal(|graph| {
        let a = floats(graph, "a", &[2, 3]);
        let product = graph.op("MatMul", &[&a, &a]);
        graph.op("Imaginary", &[&product])
    });
    assert_eq!(text, "node of \"y\" (Imaginary): the op of version 28 is not supported");
    let text = refusal(|graph| {
        let a = floats(graph, "a", &[2, 3]);
        graph.foreign("elsewhere", "Add", &[Some(&a)], &[], 1)[0]
    });
    assert_eq!(text, "node of \"y\" (elsewhere.Add): the op of version 1 is not supported");
}

/// Dimensions that overflow or are too large are refused before memory is taken. Mutant: no limit but the largest number.
#[test]
fn huge_shapes_are_refused() {
    for dims in [[1 << 40, 1 << 40], [1 << 20, 1 << 20], [1 << 31, 1 << 31], [-1, 3], [i64::MAX, 0]]
    {
        let text = refusal(|graph| {
            let shape = graph.constant(Tensor::from_slice(&[2], &dims));
            graph.op("ConstantOfShape", &[&shape])
        });
        assert!(text.contains("(ConstantOfShape)"), "{text}");
    }
    let text = refusal(|graph| {
        let a = floats(graph, "a", &[2]);
        let times = graph.constant(Tensor::from_slice(&[1], &[i64::MAX]));
        graph.op("Tile", &[&a, &times])
    });
    assert!(text.contains("too large"), "{text}");
    let text = refusal(|graph| {
        let numbers = [0, i64::MAX, 1].map(|n| graph.constant(Tensor::scalar(n)));
        graph.op("Range", &[&numbers[0], &numbers[1], &numbers[2]])
    });
    assert!(text.contains("too large"), "{text}");
}

/// Mutant: an input's shape not compared with the model's.
#[test]
fn inputs_are_checked() {
    let mut graph = Builder::new();
    let n = || vec![Dim::Symbol("n".into()), Dim::Known(2)];
    let ty = ValueType { element: Some(ElementType::F32), dims: Some(n()) };
    let (a, b) = (graph.input_of("a", ty.clone()), graph.input_of("b", ty));
    let y = graph.op("Add", &[&a, &b]);
    graph.output("y", &y);
    let model = session().prepare(&graph.finish().unwrap(), Mode::Fused).unwrap();
    let zeros = |dims: &[usize]| Tensor::zeros(ElementType::F32, dims).unwrap();
    let run = |inputs: &[Tensor]| model.run(inputs).map_err(|error| error.to_string());
    assert_eq!(run(&[zeros(&[3, 2]), zeros(&[3, 2])]).unwrap()[0].dims(), [3, 2]);
    assert_eq!(run(&[zeros(&[0, 2]), zeros(&[0, 2])]).unwrap()[0].dims(), [0, 2]);
    for (inputs, expected) in [
        (vec![zeros(&[3, 2])], "input \"b\": it is missing"),
        (vec![zeros(&[3, 3]), zeros(&[3, 2])], "input \"a\": expected f32[n, 2], got f32[3, 3]"),
        (vec![zeros(&[3]), zeros(&[3, 2])], "input \"a\": expected f32[n, 2], got f32[3]"),
        (
            vec![zeros(&[3, 2]), zeros(&[4, 2])],
            "input \"b\": expected f32[n, 2] where n is 3, got f32[4, 2]",
        ),
        (
            vec![Tensor::zeros(ElementType::F64, &[3, 2]).unwrap(), zeros(&[3, 2])],
            "input \"a\": expected f32[n, 2], got f64[3, 2]",
        ),
    ] {
        assert_eq!(run(&inputs).unwrap_err(), expected);
    }
}

/// Mutant: a kernel's status not looked at.
#[test]
fn an_index_outside_of_its_axis_is_an_error() {
    let mut graph = Builder::new();
    let x = graph.input("x", ElementType::F32, &[3]);
    let at = graph.input("at", ElementType::I64, &[1]);
    let y = graph.op("Gather", &[&x, &at]);
    graph.output("y", &y);
    let graph: Model = graph.finish().unwrap();
    let x = Tensor::from_slice(&[3], &[1.0_f32, 2.0, 3.0]);
    for mode in [Mode::PerNode, Mode::Fused, Mode::Whole] {
        let model = session().prepare(&graph, mode).unwrap();
        let run = |at: i64| model.run(&[x.clone(), Tensor::from_slice(&[1], &[at])]);
        assert_eq!(run(-1).unwrap()[0].to_f64s(), [3.0]);
        for at in [3, -4, i64::MAX, i64::MIN] {
            let text = run(at).unwrap_err().to_string();
            assert_eq!(text, "node of \"y\" (Gather): an index is outside of its axis");
        }
    }
}

/// Bytes that are no model. Mutant: a missing graph taken for an empty one.
#[test]
fn other_bytes_are_no_model() {
    for bytes in
        [&b""[..], b"\x08\x0a", b"not a model", &[0xff; 64], &[0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f]]
    {
        let text = onnx::decode(bytes.to_vec(), None).unwrap_err().to_string();
        assert!(text.starts_with("not an ONNX model: "), "{text}");
    }
}
