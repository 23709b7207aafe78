//! Graphs: the price of the VM, what a warm start costs, and how much memory four processes take for a large model.
//!
//! ```text
//! cargo bench --bench graphs                                 tables in Markdown
//! cargo bench --bench graphs -- --quick --format json        the same, less exact, as one line of JSON
//! cargo bench --bench graphs -- --models FILE.onnx...        a line of JSON for each model: from nothing to the first
//!                                                            result, and calls after that. The cache is that of the
//!                                                            environment, so a second process finds what the first left
//! python benches/graphs/peers.py                             the same of PyTensor and ONNX Runtime, and ratios
//! ```

#[path = "common/smaps.rs"]
mod smaps;

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cachelift::config::{Config, Mode as CacheMode};
use cachelift::graph::model::Dim;
use cachelift::graph::{Builder, ElementType, Input, Mode, Model, Prepared, Session, Tensor, onnx};
use cachelift::store::Store;
use serde_json::{Value, json};

const MODES: [Mode; 3] = [Mode::PerNode, Mode::Whole, Mode::Fused];
const DIR: &str = "CACHELIFT_BENCH_DIR";
/// Initialisers of the large model, and how many numbers each has: 500 MB.
const LARGE: (usize, usize) = (5, 25_000_000);
const PROCESSES: usize = 4;

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

/// The median time of a call in nanoseconds, of at least 30 calls in about `time`.
fn per_call(model: &Prepared, inputs: &[Tensor], time: Duration) -> u64 {
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 30 || begin.elapsed() < time {
        let start = Instant::now();
        black_box(model.run(black_box(inputs)).expect("it ran before"));
        times.push(start.elapsed().as_nanos() as u64);
    }
    median(times)
}

fn median(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    numbers[numbers.len() / 2]
}

/// Calls in each mode, by how many elements the vectors have.
fn price_of_the_vm(time: Duration) -> Vec<Value> {
    let session = Session::new(Store::open(Config::default().mode(CacheMode::Off)))
        .expect("there is a code generator for this machine");
    let price = |elements: usize| {
        let graph = chain(elements);
        let [per_node, whole, fused] = MODES.map(|mode| {
            let model = session.prepare(&graph, mode).expect("it can be prepared");
            let inputs = given(model.inputs());
            model.run(&inputs).expect("it runs");
            per_call(&model, &inputs, time)
        });
        json!({"elements": elements, "per_node_ns": per_node, "whole_ns": whole, "fused_ns": fused})
    };
    [10, 1_000, 1_000_000].map(price).into()
}

/// Parts of the time that a model takes to its first result, in a session that is there already.
fn first(session: &Session, path: &Path) -> (Value, Prepared, Model) {
    let mut start = Instant::now();
    let mut lap = || {
        let micros = start.elapsed().as_nanos() as f64 / 1e3;
        start = Instant::now();
        micros
    };
    let graph = onnx::read(path).expect("a model");
    let read = lap();
    let model = session.prepare(&graph, Mode::Fused).expect("it can be prepared");
    let prepared = lap();
    let inputs = given(model.inputs());
    lap();
    black_box(model.run(&inputs).expect("it runs"));
    let ran = lap();
    let times = json!({"read_us": read, "prepare_us": prepared, "run_us": ran,
        "first_us": read + prepared + ran});
    (times, model, graph)
}

/// A line for each model. The first one's time has in it what it takes to open the cache.
fn models(files: &[String], time: Option<Duration>) {
    let start = Instant::now();
    let store = Store::open(Config::from_env().expect("a good environment"));
    let session = Session::new(store.clone()).expect("there is a code generator for this machine");
    let mut open = start.elapsed().as_nanos() as f64 / 1e3;
    for file in files {
        let (mut line, model, graph) = first(&session, Path::new(file));
        line["model"] = json!(file);
        line["open_us"] = json!(open);
        line["first_us"] = json!(line["first_us"].as_f64().expect("a time") + open);
        line["made"] = json!(store.stats().made);
        open = 0.0;
        if let Some(time) = time {
            let inputs = given(model.inputs());
            line["call_ns"] = json!(per_call(&model, &inputs, time));
            for (mode, field) in [(Mode::PerNode, "per_node_ns"), (Mode::Whole, "whole_ns")] {
                let model = session.prepare(&graph, mode).expect("it was prepared before");
                model.run(&inputs).expect("it runs");
                line[field] = json!(per_call(&model, &inputs, time));
            }
        }
        println!("{line}");
    }
}

/// The large model, run once; then the process stays until its input is closed.
fn hold(dir: &str) {
    let store = Store::open(Config::default().dir(dir));
    let session = Session::new(store.clone()).expect("there is a code generator for this machine");
    let graph = {
        let mut graph = Builder::new();
        let x = graph.input("x", ElementType::F32, &[1]);
        let axes = graph.constant(Tensor::from_slice(&[1], &[0_i64]));
        for seed in 0..LARGE.0 {
            let numbers: Vec<f32> = (0..LARGE.1).map(|at| (at ^ seed) as f32).collect();
            let weights = graph.constant(Tensor::from_slice(&[LARGE.1], &numbers));
            let product = graph.op("Mul", &[&weights, &x]);
            let most = graph.op("ReduceMax", &[&product, &axes]);
            graph.output(&format!("most{seed}"), &most);
        }
        graph.finish().expect("a graph that holds")
    };
    let start = Instant::now();
    let model = session.prepare(&graph, Mode::Fused).expect("it can be prepared");
    drop(graph);
    let prepared = start.elapsed();
    model.run(&[Tensor::from_slice(&[1], &[0.5_f32])]).expect("it runs");
    println!("{}", json!({"prepare_ms": prepared.as_millis() as u64, "made": store.stats().made}));
    std::io::stdout().flush().expect("someone listens");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Starts processes with the large model one after another, and looks at their memory when all have it.
fn memory() -> Value {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let cache = dir.path().join("cache");
    let mut children: Vec<(Child, Value)> = Vec::new();
    for _ in 0..PROCESSES {
        let mut child = Command::new(std::env::current_exe().expect("it runs"))
            .env(DIR, &cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        children.push((child, serde_json::from_str(&line).expect("it says how long it took")));
    }
    let read = |child: &Child| {
        std::fs::read_to_string(format!("/proc/{}/smaps", child.id())).expect("it runs")
    };
    let all: Vec<String> = children.iter().map(|(child, _)| read(child)).collect();
    let place = cache.to_string_lossy().into_owned();
    let total = |field: &str, ours: bool| -> u64 {
        all.iter().map(|text| smaps::sum(text, field, |line| !ours || line.contains(&place))).sum()
    };
    let result = json!({
        "initialisers_kb": LARGE.0 * LARGE.1 * 4 / 1024,
        "processes": PROCESSES,
        "pss_of_cache_kb": total("Pss:", true),
        "rss_of_cache_kb": total("Rss:", true),
        "pss_kb": total("Pss:", false),
        "anonymous_kb": total("Anonymous:", false),
        "first": children[0].1,
        "others": children[1..].iter().map(|(_, line)| line.clone()).collect::<Vec<_>>(),
    });
    for (mut child, _) in children {
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }
    result
}

fn tables(price: &[Value], memory: &Value) {
    println!("Nine nodes over vectors, µs per call:\n");
    println!("| elements | per-node | whole | fused | whole, faster by | fused, faster by |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for row in price {
        let time = |field: &str| row[field].as_f64().expect("a time") / 1e3;
        let (per_node, whole, fused) = (time("per_node_ns"), time("whole_ns"), time("fused_ns"));
        println!(
            "| {} | {per_node:.2} | {whole:.2} | {fused:.2} | {:.2}x | {:.2}x |",
            row["elements"],
            per_node / whole,
            per_node / fused
        );
    }
    let mib = |field: &str| memory[field].as_f64().expect("a size") / 1024.0;
    println!("\nInitialisers of {:.0} MiB in {PROCESSES} processes:\n", mib("initialisers_kb"));
    println!("| | MiB, all processes together |\n|---|---:|");
    for (name, field) in [
        ("resident pages of the cache's files, each process's counted", "rss_of_cache_kb"),
        ("the same, shared pages counted once (PSS)", "pss_of_cache_kb"),
        ("everything, shared pages counted once (PSS)", "pss_kb"),
        ("private memory", "anonymous_kb"),
    ] {
        println!("| {name} | {:.1} |", mib(field));
    }
    let took = |line: &Value| format!("{} ms", line["prepare_ms"]);
    let others: Vec<String> =
        memory["others"].as_array().expect("a list").iter().map(took).collect();
    println!(
        "\nPreparing it took the first {}, the others {}.",
        took(&memory["first"]),
        others.join(", ")
    );
}

fn main() {
    if let Ok(dir) = std::env::var(DIR) {
        return hold(&dir);
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let has = |name: &str| arguments.iter().any(|arg| arg == name);
    let time = Duration::from_millis(if has("--quick") { 30 } else { 300 });
    if let Some(at) = arguments.iter().position(|arg| arg == "--models") {
        return models(&arguments[at + 1..], (!has("--first-only")).then_some(time));
    }
    let (price, memory) = (price_of_the_vm(time), memory());
    if arguments.windows(2).any(|pair| pair == ["--format", "json"]) {
        println!("{}", json!({"schema": 1, "price": price, "memory": memory}));
    } else {
        tables(&price, &memory);
    }
}
