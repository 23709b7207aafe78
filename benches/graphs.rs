//! Graphs: the price of the VM, and what `graphs/peers.py` measures beside its peers.
//!
//! ```text
//! cargo bench --features graph --bench graphs                      per-node, whole and fused on three sizes
//! cargo bench --features graph --bench graphs -- FILE.onnx...      a line of JSON for each model: from nothing to
//!                                                                  the first result, and a call after that
//! python benches/graphs/peers.py                                   the same of PyTensor and ONNX Runtime, and ratios
//! ```
//!
//! Where files are named the cache is that of the environment, so that a second process finds what the first left.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use cachelift::config::{Config, Mode as CacheMode};
use cachelift::graph::model::Dim;
use cachelift::graph::{Builder, ElementType, Input, Mode, Model, Prepared, Session, Tensor, onnx};
use cachelift::store::Store;

const MODES: [Mode; 3] = [Mode::PerNode, Mode::Whole, Mode::Fused];

/// Eight element-wise nodes and a sum over vectors of this length.
fn chain(length: usize) -> Model {
    let mut graph = Builder::new();
    let x = graph.input("x", ElementType::F32, &[length]);
    let y = graph.input("y", ElementType::F32, &[length]);
    let mut value = x;
    for _ in 0..2 {
        value = graph.op("Mul", &[&value, &y]);
        value = graph.op("Add", &[&value, &x]);
        value = graph.op("Abs", &[&value]);
        value = graph.op("Sqrt", &[&value]);
    }
    graph.output("z", &value);
    let axes = graph.constant(Tensor::from_slice(&[1], &[0_i64]));
    let sum = graph.op("ReduceSum", &[&value, &axes]);
    graph.output("sum", &sum);
    graph.finish().expect("a graph that holds")
}

fn noise(element: ElementType, dims: &[usize], seed: usize) -> Tensor {
    let count = dims.iter().product::<usize>();
    let number = |at: usize| ((at * 31 + seed * 17) % 29) as f64 / 14.5 - 1.0;
    match element {
        ElementType::F32 => {
            Tensor::from_slice(dims, &(0..count).map(|at| number(at) as f32).collect::<Vec<_>>())
        }
        ElementType::F64 => Tensor::from_slice(dims, &(0..count).map(number).collect::<Vec<_>>()),
        _ => Tensor::zeros(element, dims).expect("it is small"),
    }
}

/// Numbers for an input; dimensions that are not fixed are 1.
fn given(inputs: &[Input]) -> Vec<Tensor> {
    let tensor = |(seed, input): (usize, &Input)| {
        let dims = input.ty.dims.as_deref().unwrap_or_default();
        let size = |dim: &Dim| if let Dim::Known(size) = dim { *size } else { 1 };
        let dims: Vec<usize> = dims.iter().map(size).collect();
        noise(input.ty.element.unwrap_or(ElementType::F32), &dims, seed)
    };
    inputs.iter().enumerate().filter(|(_, input)| !input.optional).map(tensor).collect()
}

/// The median time of a call, of at least 30 in about 0.3 s.
fn per_call(model: &Prepared, inputs: &[Tensor]) -> Duration {
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 30 || begin.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        black_box(model.run(black_box(inputs)).expect("it ran before"));
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn price_of_the_vm() {
    println!("nine nodes, per call: per-node, whole, fused");
    let session = Session::new(Store::open(Config::default().mode(CacheMode::Off)))
        .expect("there is a code generator for this machine");
    for length in [10, 1_000, 1_000_000] {
        let graph = chain(length);
        let times = MODES.map(|mode| {
            let model = session.prepare(&graph, mode).expect("it can be prepared");
            let inputs = given(model.inputs());
            model.run(&inputs).expect("it runs");
            per_call(&model, &inputs).as_nanos() as f64
        });
        let [per_node, whole, fused] = times.map(|nanos| nanos / 1e3);
        println!(
            "{length:>9} elements  {per_node:>9.2} µs  {whole:>9.2} µs  {fused:>9.2} µs   \
             whole {:.2}x, fused {:.2}x as fast as per-node",
            per_node / whole,
            per_node / fused
        );
    }
}

fn measure(path: &Path) {
    let start = Instant::now();
    let store = Store::open(Config::from_env().expect("a good environment"));
    let session = Session::new(store.clone()).expect("there is a code generator for this machine");
    let model = onnx::read(path).expect("a model");
    let model = session.prepare(&model, Mode::Fused).expect("it can be prepared");
    let prepared = start.elapsed();
    let inputs = given(model.inputs());
    let start = Instant::now();
    model.run(&inputs).expect("it runs");
    let first = prepared + start.elapsed();
    let call = per_call(&model, &inputs);
    println!(
        "{{\"model\":{:?},\"first_us\":{},\"call_ns\":{},\"made\":{}}}",
        path.display().to_string(),
        first.as_micros(),
        call.as_nanos(),
        store.stats().made
    );
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if files.is_empty() {
        price_of_the_vm();
    }
    for file in files {
        measure(Path::new(&file));
    }
}
