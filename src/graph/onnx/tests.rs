//! Files that are wrong in one thing, and files of any bytes.

use super::proto::{
    DimensionProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto,
};
use super::*;
use crate::config::{Config, Mode as CacheMode};
use crate::graph::structure::canonical;
use crate::graph::{Mode, Session};
use crate::store::Store;

fn value(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim = |dim: &i64| DimensionProto { dim_value: Some(*dim), dim_param: None };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape });
    let ty = TypeProto { tensor_type, ..Default::default() };
    ValueInfoProto { name: name.into(), r#type: Some(ty) }
}

fn node(op: &str, input: &[&str], output: &[&str]) -> NodeProto {
    NodeProto {
        op_type: op.into(),
        input: input.iter().map(|name| (*name).into()).collect(),
        output: output.iter().map(|name| (*name).into()).collect(),
        ..Default::default()
    }
}

fn opset() -> Vec<OperatorSetIdProto> {
    let import = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    vec![import("", 20), import("my", 1)]
}

/// A model of one input `x` and one output `y`, both of shape [3].
fn model(nodes: Vec<NodeProto>) -> ModelProto {
    let graph = GraphProto {
        name: "g".into(),
        node: nodes,
        input: vec![value("x", &[3])],
        output: vec![value("y", &[3])],
        ..Default::default()
    };
    ModelProto { ir_version: 10, graph: Some(graph), opset_import: opset(), functions: vec![] }
}

fn refusal(model: &ModelProto) -> String {
    decode(model.encode_to_vec(), None).unwrap_err().to_string()
}

fn tensor(name: &str, dims: &[i64], bytes: usize) -> TensorProto {
    let raw_data = Some(Bytes::from(vec![1; bytes]));
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: 1,
        raw_data,
        ..Default::default()
    }
}

/// Mutants: nodes left in the order in which they stand; two values of one name; a name that nothing defines taken for
/// the first value.
#[test]
fn graphs_that_do_not_hold_together_are_refused() {
    let cases = [
        (
            vec![node("Add", &["x", "z"], &["y"])],
            "node of \"y\" (Add): input 1: nothing computes \"z\"",
        ),
        (vec![node("Neg", &["x"], &["z"])], "graph \"g\": nothing computes the output \"y\""),
        (
            vec![node("Neg", &["x"], &["y"]), node("Abs", &["x"], &["y"])],
            "graph \"g\": \"y\" is defined twice",
        ),
        (vec![node("Neg", &["x"], &["x"])], "graph \"g\": \"x\" is defined twice"),
        (
            vec![
                node("Add", &["x", "b"], &["a"]),
                node("Neg", &["a"], &["b"]),
                node("Neg", &["a"], &["y"]),
            ],
            "node of \"a\" (Add): it depends on itself, through a cycle of nodes",
        ),
    ];
    for (nodes, expected) in cases {
        assert_eq!(refusal(&model(nodes)), expected);
    }
    // In any other order it is none.
    let model = model(vec![node("Neg", &["a"], &["y"]), node("Abs", &["x"], &["a"])]);
    let read = decode(model.encode_to_vec(), None).unwrap();
    assert_eq!(read.graph.nodes[0].op, "Abs");
}

/// Mutant: data of another length padded with zeros.
#[test]
fn initialisers_that_are_not_what_they_say_are_refused() {
    let refused = |tensor: TensorProto| {
        let mut model = model(vec![node("Add", &["x", "w"], &["y"])]);
        model.graph.as_mut().unwrap().initializer.push(tensor);
        refusal(&model)
    };
    assert!(
        refused(tensor("w", &[3], 8)).contains("8 bytes of data, but f32 in the shape [3] take 12")
    );
    assert!(refused(tensor("w", &[-3], 12)).contains("the dimension -3 is negative"));
    assert!(refused(tensor("w", &[1 << 40, 1 << 40], 12)).contains("is too large"));
    let text = refused(TensorProto { data_type: 10, ..tensor("w", &[3], 6) });
    assert!(text.contains("elements of type float16 are not supported"), "{text}");
    let mut negative = model(vec![node("Neg", &["x"], &["y"])]);
    negative.graph.as_mut().unwrap().input[0] = value("x", &[-3]);
    assert!(refusal(&negative).contains("the dimension -3 is negative"));
}

/// Mutants: `..` followed; a link followed out of the folder.
#[test]
fn external_data_lies_below_the_models_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    fs::create_dir(&folder).unwrap();
    let data: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    fs::write(folder.join("data"), [&[0; 4], &data[..]].concat()).unwrap();
    fs::write(dir.path().join("outside"), &data).unwrap();
    std::os::unix::fs::symlink(dir.path().join("outside"), folder.join("link")).unwrap();
    let read = |location: &str, offset: &str| {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: key.into(),
            value: value.into(),
        };
        let external_data = vec![entry("location", location), entry("offset", offset)];
        let w =
            TensorProto { raw_data: None, data_location: 1, external_data, ..tensor("w", &[3], 0) };
        let mut model = model(vec![node("Add", &["x", "w"], &["y"])]);
        model.graph.as_mut().unwrap().initializer.push(w);
        decode(model.encode_to_vec(), Some(&folder))
    };
    let model = read("data", "4").unwrap();
    assert_eq!(model.graph.constants[0].1.to_f64s(), [1.0, 2.0, 3.0]);
    for (location, offset, expected) in [
        ("../outside", "0", "outside of the model's folder"),
        ("/etc/passwd", "0", "outside of the model's folder"),
        ("link", "0", "outside of the model's folder"),
        ("data", "8", "has 16 bytes, too few for 12 from 8"),
        ("data", "18446744073709551615", "too few"),
        ("data", "-1", "is no number"),
        ("missing", "0", "missing"),
    ] {
        let text = read(location, offset).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.into(),
        domain: "my".into(),
        input: vec!["x".into()],
        output: vec!["y".into()],
        node: nodes,
        opset_import: opset(),
        ..Default::default()
    }
}

fn call(op: &str, input: &str, output: &str) -> NodeProto {
    NodeProto { domain: "my".into(), ..node(op, &[input], &[output]) }
}

/// Mutant: calls not remembered.
#[test]
fn functions_that_never_end_are_refused() {
    let mut itself = model(vec![call("f", "x", "y")]);
    itself.functions =
        vec![function("f", vec![call("g", "x", "y")]), function("g", vec![call("f", "x", "y")])];
    assert!(refusal(&itself).contains("the function \"f\" calls itself"));

    // Each calls the next twice.
    let mut many = model(vec![call("f0", "x", "y")]);
    let next = |at: usize| format!("f{}", at + 1);
    many.functions = (0..40)
        .map(|at| {
            function(&format!("f{at}"), vec![call(&next(at), "x", "a"), call(&next(at), "a", "y")])
        })
        .collect();
    many.functions.push(function("f40", vec![node("Neg", &["x"], &["y"])]));
    assert!(refusal(&many).contains("more than 262144 nodes"));

    let mut deep = model(vec![call("f0", "x", "y")]);
    deep.functions =
        (0..100).map(|at| function(&format!("f{at}"), vec![call(&next(at), "x", "y")])).collect();
    deep.functions.push(function("f100", vec![node("Neg", &["x"], &["y"])]));
    assert!(refusal(&deep).contains("more than 64 deep"));
}

/// A function is its nodes: it makes the same graph as these written by hand.
/// Mutant: a reference to an attribute that the caller left out taken for 0.
#[test]
fn functions_are_written_out() {
    let mut with = model(vec![NodeProto {
        attribute: vec![AttributeProto {
            name: "a".into(),
            f: 0.5,
            r#type: 1,
            ..Default::default()
        }],
        ..call("f", "x", "y")
    }]);
    let reference = |name: &str, of: &str| AttributeProto {
        name: name.into(),
        ref_attr_name: of.into(),
        r#type: 1,
        ..Default::default()
    };
    let inner =
        NodeProto { attribute: vec![reference("alpha", "a")], ..node("Elu", &["x"], &["t"]) };
    let other =
        NodeProto { attribute: vec![reference("alpha", "b")], ..node("Elu", &["t"], &["y"]) };
    with.functions = vec![function("f", vec![inner, other])];
    let alpha = AttributeProto { name: "alpha".into(), f: 0.5, r#type: 1, ..Default::default() };
    let inner = NodeProto { attribute: vec![alpha], ..node("Elu", &["x"], &["t"]) };
    let without = model(vec![inner, node("Elu", &["t"], &["y"])]);
    let key =
        |model: &ModelProto| canonical(&decode(model.encode_to_vec(), None).unwrap().graph).key;
    assert_eq!(key(&with), key(&without));
}

/// A graph in a graph in a graph…
fn nested(depth: usize) -> ModelProto {
    let mut inner = GraphProto {
        node: vec![node("Neg", &["x"], &["y"])],
        output: vec![value("y", &[3])],
        ..Default::default()
    };
    for _ in 0..depth {
        let branch = |name: &str, graph: &GraphProto| AttributeProto {
            name: name.into(),
            g: Some(Box::new(graph.clone())),
            r#type: 5,
            ..Default::default()
        };
        let leaf = GraphProto {
            node: vec![node("Abs", &["x"], &["y"])],
            output: vec![value("y", &[3])],
            ..Default::default()
        };
        let attribute = vec![branch("then_branch", &inner), branch("else_branch", &leaf)];
        inner = GraphProto {
            node: vec![
                node("ReduceMax", &["x"], &["m"]),
                node("IsNaN", &["m"], &["n"]),
                node("Squeeze", &["n"], &["c"]),
                NodeProto { attribute, ..node("If", &["c"], &["y"]) },
            ],
            output: vec![value("y", &[3])],
            ..Default::default()
        };
    }
    inner.input = vec![value("x", &[3])];
    ModelProto { ir_version: 10, graph: Some(inner), opset_import: opset(), functions: vec![] }
}

#[test]
fn deep_nesting_is_refused() {
    let session = Session::new(Store::open(Config::default().mode(CacheMode::Off))).unwrap();
    let model = decode(nested(20).encode_to_vec(), None).unwrap();
    let prepared = session.prepare(&model, Mode::Fused).unwrap();
    let outputs = prepared.run(&[Tensor::from_slice(&[3], &[-1.0_f32, 2.0, -3.0])]).unwrap();
    assert_eq!(outputs[0].to_f64s(), [1.0, 2.0, 3.0]);
    let text = refusal(&nested(60));
    assert!(text.contains("recursion limit"), "{text}");
}

/// Every cut and every flipped bit of a file: an error, or another model, but no crash.
/// Mutant: nodes left in the order in which they stand.
#[test]
fn damaged_files_are_refused_or_read() {
    let mut model = model(vec![
        node("Add", &["x", "w"], &["a"]),
        NodeProto {
            attribute: vec![AttributeProto {
                name: "axis".into(),
                i: -1,
                r#type: 2,
                ..Default::default()
            }],
            ..node("Softmax", &["a"], &["y"])
        },
    ]);
    model.graph.as_mut().unwrap().initializer.push(tensor("w", &[3], 12));
    let bytes = model.encode_to_vec();
    let session = Session::new(Store::open(Config::default().mode(CacheMode::Off))).unwrap();
    let check = |bytes: Vec<u8>| {
        let Ok(model) = decode(bytes, None) else { return false };
        let Ok(prepared) = session.prepare(&model, Mode::PerNode) else { return false };
        prepared.run(&[Tensor::from_slice(&[3], &[1.0_f32, 2.0, 3.0])]).is_ok()
    };
    assert!(check(bytes.clone()));
    let refused = (0..bytes.len()).filter(|&length| !check(bytes[..length].to_vec())).count();
    assert!(refused > bytes.len() / 2);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(flipped);
    }
}
