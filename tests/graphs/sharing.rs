//! A suite of 300 small graphs over 40 kinds of nodes, run by four processes at once: each node is made once in all.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use cachelift::config::Config;
use cachelift::graph::model::Attribute;
use cachelift::graph::{Builder, ElementType, Mode, Model, Session, Tensor};
use cachelift::store::Store;
use serde_json::Value;

const CHILD: &str = "GRAPHS_CHILD_STATS";
const GRAPHS: usize = 300;

#[rustfmt::skip]
const UNARY: [&str; 22] = [
    "Abs", "Neg", "Sign", "Exp", "Floor", "Ceil", "Round", "Sin", "Cos", "Atan", "Tanh", "Erf", "Sigmoid", "Relu",
    "LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Mish",
];
const BINARY: [&str; 7] = ["Add", "Sub", "Mul", "Min", "Max", "Sum", "Mean"];
const REDUCING: [&str; 6] =
    ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare"];
const AXIS: [&str; 5] = ["Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "CumSum"];

/// The graph of this number: five nodes that its digits choose.
fn graph(number: usize) -> Model {
    let mut graph = Builder::new();
    let x = graph.input("x", ElementType::F32, &[4, 5 + number % 3]);
    let mut value = x;
    let mut digits = number.wrapping_mul(2_654_435_761) >> 3;
    for _ in 0..5 {
        let all = UNARY.len() + BINARY.len() + REDUCING.len() + AXIS.len();
        let choice = digits % all;
        digits /= all;
        digits = digits.wrapping_mul(31).wrapping_add(number);
        value = if let Some(op) = UNARY.get(choice) {
            graph.op(op, &[&value])
        } else if let Some(op) = BINARY.get(choice - UNARY.len()) {
            graph.op(op, &[&value, &x])
        } else if let Some(op) = REDUCING.get(choice - UNARY.len() - BINARY.len()) {
            let axes = graph.constant(Tensor::from_slice(&[1], &[(digits % 2) as i64]));
            let reduced = graph.op(op, &[&value, &axes]);
            graph.op("Add", &[&reduced, &x])
        } else {
            match AXIS[choice - UNARY.len() - BINARY.len() - REDUCING.len()] {
                "CumSum" => {
                    let axis = graph.constant(Tensor::scalar(1_i64));
                    graph.op("CumSum", &[&value, &axis])
                }
                op => graph.op_with(op, &[Some(&value)], &[("axis", Attribute::Int(-1))], 1)[0],
            }
        };
    }
    graph.output("y", &value);
    graph.finish().unwrap()
}

/// Runs the suite on a cache directory, beginning with the graph of this number.
fn suite(dir: &Path, first: usize) -> Store {
    let store = Store::open(Config::default().dir(dir));
    let session = Session::new(store.clone()).unwrap();
    for number in 0..GRAPHS {
        let number = (first + number) % GRAPHS;
        let columns = 5 + number % 3;
        let values: Vec<f32> = (0..4 * columns).map(|at| at as f32 / 10.0 - 1.0).collect();
        let model = session.prepare(&graph(number), Mode::PerNode).unwrap();
        let outputs = model.run(&[Tensor::from_slice(&[4, columns], &values)]).unwrap();
        assert_eq!(outputs.len(), 1);
    }
    store
}

/// Not a test by itself: what the processes of the test below run.
#[test]
fn child() {
    let Some(out) = std::env::var_os(CHILD) else { return };
    let dir = std::env::var_os("GRAPHS_CHILD_DIR").unwrap();
    let first = std::env::var("GRAPHS_CHILD_FIRST").unwrap().parse().unwrap();
    let store = suite(Path::new(&dir), first);
    std::fs::write(out, serde_json::to_vec(&store.stats()).unwrap()).unwrap();
}

fn processes(dir: &Path, count: usize) -> Vec<Value> {
    let spawn = |at: usize| -> (Child, std::path::PathBuf) {
        let out = dir.join(format!("stats{at}"));
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sharing::child", "--test-threads", "1"])
            .env(CHILD, &out)
            .env("GRAPHS_CHILD_DIR", dir.join("cache"))
            // Each begins elsewhere, as parallel runners do.
            .env("GRAPHS_CHILD_FIRST", (at * GRAPHS / count).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        (child, out)
    };
    let children: Vec<_> = (0..count).map(spawn).collect();
    let finish = |(mut child, out): (Child, std::path::PathBuf)| {
        assert!(child.wait().unwrap().success());
        serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap()
    };
    children.into_iter().map(finish).collect()
}

fn made(stats: &[Value]) -> u64 {
    stats.iter().map(|stats| stats["made"].as_u64().unwrap()).sum()
}

/// Mutant: the process's number in the key of a kernel.
#[test]
fn four_processes_make_each_node_once() {
    let alone = tempfile::tempdir().unwrap();
    let once = suite(&alone.path().join("cache"), 0).stats().made;
    assert!(once > 40, "{once} records");

    let dir = tempfile::tempdir().unwrap();
    let cold = processes(dir.path(), 4);
    // Whoever waits too long for another makes the record itself, and that is counted.
    let twice = cold.iter().map(|stats| {
        let published = stats["published"].as_u64().unwrap();
        stats["made"].as_u64().unwrap() - published
    });
    assert_eq!(made(&cold) - twice.sum::<u64>(), once);
    assert_eq!(made(&processes(dir.path(), 4)), 0);
}
