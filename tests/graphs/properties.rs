//! Random graphs: with the cache and without, in every mode, renamed, reordered and changed.

use std::sync::OnceLock;

use cachelift::config::{Config, Mode as CacheMode};
use cachelift::graph::{Mode, Model, Session, Tensor};
use cachelift::store::Store;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::random::{KINDS, Plain, plain};

/// One directory for all cases: what earlier ones left must never be taken for something else.
fn config() -> Config {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| tempfile::tempdir().unwrap());
    Config::default().dir(dir.path().join("cache"))
}

fn run(config: Config, model: &Model, mode: Mode, inputs: &[Tensor]) -> (Tensor, u64) {
    let store = Store::open(config);
    let session = Session::new(store.clone()).unwrap();
    let mut outputs = session.prepare(model, mode).unwrap().run(inputs).unwrap();
    (outputs.remove(0), store.stats().made)
}

fn off() -> Config {
    Config::default().mode(CacheMode::Off)
}

fn bits(tensor: &Tensor) -> Vec<u8> {
    tensor.contiguous().as_bytes().unwrap().to_vec()
}

fn close(a: &Tensor, b: &Tensor) -> bool {
    let same = |(a, b): (f64, f64)| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6 + 1e-3 * b.abs()
    };
    a.dims() == b.dims() && a.to_f64s().into_iter().zip(b.to_f64s()).all(same)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Mutants: a plan's key without its graph; buffers that share the arena while both are alive; a group that takes in a
    /// node that others read too.
    #[test]
    fn the_result_is_the_same_with_the_cache_and_without(plain in plain(), seed in 0..1000_u32) {
        let model = plain.in_order();
        let inputs = plain.inputs(seed);
        let (expected, _) = run(off(), &model, Mode::PerNode, &inputs);
        for mode in [Mode::PerNode, Mode::Whole] {
            let (first, _) = run(config(), &model, mode, &inputs);
            let (second, made) = run(config(), &model, mode, &inputs);
            prop_assert_eq!(bits(&first), bits(&expected), "{:?}", mode);
            prop_assert_eq!(bits(&second), bits(&expected), "{:?}", mode);
            prop_assert_eq!(made, 0);
        }
        let (without, _) = run(off(), &model, Mode::Fused, &inputs);
        let (with, _) = run(config(), &model, Mode::Fused, &inputs);
        prop_assert_eq!(bits(&with), bits(&without));
        prop_assert!(close(&with, &expected), "{:?} is not {:?}", with, expected);
    }

    /// Mutant: the key of a graph as it stands, not of its canonical form.
    #[test]
    fn other_names_and_orders_make_nothing(plain in plain(), seed in 0..1000_u32) {
        let inputs = plain.inputs(seed);
        for mode in [Mode::PerNode, Mode::Fused, Mode::Whole] {
            let (expected, _) = run(config(), &plain.in_order(), mode, &inputs);
            let other = plain.model(&plain.shuffled(), "renamed");
            let (got, made) = run(config(), &other, mode, &inputs);
            prop_assert_eq!(made, 0);
            prop_assert_eq!(bits(&got), bits(&expected));
        }
    }

    /// The old model is run first, so that all that it left lies in the cache. Mutants: attributes and constants left out
    /// of the key of a graph; an image's name without its kernels (the process dies).
    #[test]
    fn a_change_never_gives_the_old_result(
        plain in plain(),
        pick in any::<prop::sample::Index>(),
        what in 0..4_usize,
        to in 1..20_usize,
        seed in 0..1000_u32,
    ) {
        let inputs = plain.inputs(seed);
        let mut changed: Plain = plain.clone();
        let at = pick.index(plain.nodes.len());
        match what {
            0 => changed.nodes[at].kind = (plain.nodes[at].kind + to) % KINDS,
            1 => changed.nodes[at].reads[0] = (plain.nodes[at].reads[0] + to) % (3 + at),
            2 => changed.nodes[at].axis = 1 - plain.nodes[at].axis,
            _ => changed.constant += to as f32,
        }
        for mode in [Mode::PerNode, Mode::Fused, Mode::Whole] {
            run(config(), &plain.in_order(), mode, &inputs);
            let (expected, _) = run(off(), &changed.in_order(), mode, &inputs);
            let (got, _) = run(config(), &changed.in_order(), mode, &inputs);
            prop_assert_eq!(bits(&got), bits(&expected), "{:?}", mode);
        }
    }
}

/// What runs at the same time on one prepared model does not meet.
#[test]
fn threads_share_a_prepared_model() {
    let session = Session::new(Store::open(config())).unwrap();
    let mut graph = cachelift::graph::Builder::new();
    let x = graph.input("x", cachelift::graph::ElementType::F64, &[1000]);
    let y = graph.op("Mul", &[&x, &x]);
    let z = graph.op("Sub", &[&y, &x]);
    graph.output("z", &z);
    let model = session.prepare(&graph.finish().unwrap(), Mode::PerNode).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let model = &model;
            scope.spawn(move || {
                let value = f64::from(thread);
                let input = Tensor::from_slice(&[1000], &[value; 1000]);
                for _ in 0..200 {
                    let outputs = model.run(std::slice::from_ref(&input)).unwrap();
                    let expected = value * value - value;
                    assert!(outputs[0].to_f64s().iter().all(|got| *got == expected));
                }
            });
        }
    });
}

/// A function of this program runs uncached in a graph whose other nodes are kept. Mutant: its first result kept.
#[test]
fn host_operators_run_each_time() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let session =
        Session::new(Store::open(config())).unwrap().with_op("test", "Count", move |_, inputs| {
            let count = counted.fetch_add(1, Ordering::Relaxed);
            let Some(Some(x)) = inputs.first() else { return Err("no input".into()) };
            let values: Vec<f64> = x.to_f64s().iter().map(|v| v + f64::from(count)).collect();
            Ok(vec![Tensor::from_slice(x.dims(), &values)])
        });
    let mut graph = cachelift::graph::Builder::new();
    let x = graph.input("x", cachelift::graph::ElementType::F64, &[2]);
    let doubled = graph.op("Add", &[&x, &x]);
    let counted = graph.foreign("test", "Count", &[Some(&doubled)], &[], 1)[0];
    let y = graph.op("Neg", &[&counted]);
    graph.output("y", &y);
    let model = session.prepare(&graph.finish().unwrap(), Mode::Fused).unwrap();
    let input = [Tensor::from_slice(&[2], &[1.0, 2.0])];
    assert_eq!(model.run(&input).unwrap()[0].to_f64s(), [-2.0, -4.0]);
    assert_eq!(model.run(&input).unwrap()[0].to_f64s(), [-3.0, -5.0]);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}
