//! Three models, read from ONNX files and built in Rust: they are the same, and share all that was compiled.
//!
//! ```sh
//! cargo run --release --features graph --example graphs
//! ```
//!
//! `generate.py` beside this file writes the ONNX files.

use std::error::Error;
use std::path::Path;

use cachelift::config::Config;
use cachelift::graph::model::{Attribute, Dim, ValueType};
use cachelift::graph::{
    Builder, ElementType, GraphError, Mode, Model, Session, Tensor, canonical_key, onnx,
};
use cachelift::store::Store;

const F32: ElementType = ElementType::F32;

/// One step of gradient descent on 64 samples of 8 features.
fn logistic_regression() -> Result<Model, GraphError> {
    let mut g = Builder::with_version(21);
    let (x, y) = (g.input("x", F32, &[64, 8]), g.input("y", F32, &[64]));
    let (w, b) = (g.input("w", F32, &[8]), g.input("b", F32, &[]));
    let one = g.constant(Tensor::scalar(1_f32));
    let rate = g.constant(Tensor::scalar((0.1_f64 / 64.0) as f32));
    let no_axes = [("keepdims", Attribute::Int(0))];

    let product = g.op("MatMul", &[&x, &w]);
    let z = g.op("Add", &[&product, &b]);
    let p = g.op("Sigmoid", &[&z]);
    let log_p = g.op("Log", &[&p]);
    let hit = g.op("Mul", &[&y, &log_p]);
    let (not_y, not_p) = (g.op("Sub", &[&one, &y]), g.op("Sub", &[&one, &p]));
    let log_not_p = g.op("Log", &[&not_p]);
    let miss = g.op("Mul", &[&not_y, &log_not_p]);
    let likelihood = g.op("Add", &[&hit, &miss]);
    let mean = g.op_with("ReduceMean", &[Some(&likelihood)], &no_axes, 1)[0];
    let loss = g.op("Neg", &[&mean]);

    let error = g.op("Sub", &[&p, &y]);
    let turned = g.op("Transpose", &[&x]);
    let sum = g.op("MatMul", &[&turned, &error]);
    let step = g.op("Mul", &[&sum, &rate]);
    let new_w = g.op("Sub", &[&w, &step]);
    let error_sum = g.op_with("ReduceSum", &[Some(&error)], &no_axes, 1)[0];
    let step_b = g.op("Mul", &[&error_sum, &rate]);
    let new_b = g.op("Sub", &[&b, &step_b]);
    g.output("new_w", &new_w);
    g.output("new_b", &new_b);
    g.output("loss", &loss);
    g.finish()
}

/// A perceptron of two layers; the batch may be of any size.
fn mlp() -> Result<Model, GraphError> {
    let ramp = |dims: &[usize]| {
        let count = dims.iter().product::<usize>();
        let elements: Vec<f32> = (0..count).map(|at| ((at % 13) as f32 - 6.0) / 16.0).collect();
        Tensor::from_slice(dims, &elements)
    };
    let mut g = Builder::with_version(21);
    let dims = Some(vec![Dim::Symbol("batch".into()), Dim::Known(16)]);
    let x = g.input_of("x", ValueType { element: Some(F32), dims });
    let (w1, b1) = (g.constant(ramp(&[16, 32])), g.constant(ramp(&[32])));
    let (w2, b2) = (g.constant(ramp(&[32, 4])), g.constant(ramp(&[4])));
    let hidden = g.op("Gemm", &[&x, &w1, &b1]);
    let active = g.op("Relu", &[&hidden]);
    let z = g.op("Gemm", &[&active, &w2, &b2]);
    let y = g.op_with("Softmax", &[Some(&z)], &[("axis", Attribute::Int(-1))], 1)[0];
    g.output("y", &y);
    g.finish()
}

/// h = tanh(h w + x), over a sequence of ten.
fn recurrence() -> Result<Model, GraphError> {
    let mut g = Builder::with_version(21);
    let (h0, x) = (g.input("h0", F32, &[1, 4]), g.input("x", F32, &[10, 1, 4]));
    let w = g.input("w", F32, &[4, 4]);

    let mut step = Builder::with_version(21);
    let w = step.capture(&w);
    let (h, e) = (step.input("h", F32, &[1, 4]), step.input("e", F32, &[1, 4]));
    let product = step.op("MatMul", &[&h, &w]);
    let z = step.op("Add", &[&product, &e]);
    let next = step.op("Tanh", &[&z]);
    let seen = step.op("Identity", &[&next]);
    step.output("next", &next);
    step.output("seen", &seen);

    let attributes = [("body", step.into_body()?), ("num_scan_inputs", Attribute::Int(1))];
    let outputs = g.op_with("Scan", &[Some(&h0), Some(&x)], &attributes, 2);
    g.output("last", &outputs[0]);
    g.output("all", &outputs[1]);
    g.finish()
}

/// Numbers between -1 and 1 in some order.
fn noise(dims: &[usize], seed: usize) -> Tensor {
    let count = dims.iter().product::<usize>();
    let number = |at: usize| ((at * 31 + seed * 17) % 29) as f32 / 14.5 - 1.0;
    Tensor::from_slice(dims, &(0..count).map(number).collect::<Vec<_>>())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/graphs");
    let store = Store::open(Config::from_env()?);
    let session = Session::new(store.clone())?;
    let labels: Vec<f32> = (0..64).map(|at| (at % 2) as f32).collect();
    let models = [
        (
            "logistic_regression",
            logistic_regression()?,
            vec![
                noise(&[64, 8], 1),
                Tensor::from_slice(&[64], &labels),
                noise(&[8], 2),
                Tensor::scalar(0_f32),
            ],
        ),
        ("mlp", mlp()?, vec![noise(&[5, 16], 3)]),
        (
            "recurrence",
            recurrence()?,
            vec![noise(&[1, 4], 4), noise(&[10, 1, 4], 5), noise(&[4, 4], 6)],
        ),
    ];
    for (name, built, inputs) in models {
        let read = onnx::read(&folder.join(format!("{name}.onnx")))?;
        assert_eq!(canonical_key(&read), canonical_key(&built), "{name} is the same");
        let model = session.prepare(&read, Mode::Fused)?;
        let outputs = model.run(&inputs)?;
        let of_built = session.prepare(&built, Mode::Fused)?.run(&inputs)?;
        println!("{name}");
        for ((name, output), other) in model.outputs().iter().zip(&outputs).zip(&of_built) {
            assert_eq!(output.as_bytes(), other.as_bytes());
            let shown: Vec<String> =
                output.to_f64s().iter().take(4).map(|value| format!("{value:.4}")).collect();
            println!("    {name} {:?}: {} …", output.dims(), shown.join(" "));
        }
    }
    let stats = store.stats();
    println!("{} made, {} loaded from disk", stats.made, stats.disk);
    Ok(())
}
