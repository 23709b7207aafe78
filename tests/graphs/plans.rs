//! Plans in later processes: their code is one image, and what shapes only a run knows is planned once.

use std::path::Path;

use cachelift::config::{Config, Mode as CacheMode};
use cachelift::graph::model::{Dim, ValueType};
use cachelift::graph::{Builder, ElementType, Mode, Model, Session, Tensor};
use cachelift::key::Key;
use cachelift::stats::Stats;
use cachelift::store::{Origin, Store};

const MODES: [Mode; 3] = [Mode::PerNode, Mode::Fused, Mode::Whole];

/// Five kernels in every mode, over rows of any number.
fn model() -> Model {
    let mut graph = Builder::new();
    let rows = vec![Dim::Symbol("rows".into()), Dim::Known(4)];
    let ty = ValueType { element: Some(ElementType::F32), dims: Some(rows) };
    let x = graph.input_of("x", ty);
    let weights: Vec<f32> = (0..16).map(|at| at as f32 / 16.0).collect();
    let weights = graph.constant(Tensor::from_slice(&[4, 4], &weights));
    let product = graph.op("MatMul", &[&x, &weights]);
    let soft = graph.op("Softmax", &[&product]);
    let axis = graph.constant(Tensor::scalar(1_i64));
    let sums = graph.op("CumSum", &[&soft, &axis]);
    let hard = graph.op("Hardmax", &[&sums]);
    let last = graph.op("Add", &[&hard, &sums]);
    graph.output("y", &last);
    graph.finish().unwrap()
}

fn input(rows: usize) -> Tensor {
    let numbers: Vec<f32> = (0..rows * 4).map(|at| (at as f32).sin()).collect();
    Tensor::from_slice(&[rows, 4], &numbers)
}

/// What a process computes on a cache for inputs of these many rows, what it counted, and where its kernels came from.
fn process(config: Config, mode: Mode, rows: &[usize]) -> (Vec<Vec<f64>>, Stats, Vec<Origin>) {
    let store = Store::open(config);
    let session = Session::new(store.clone()).unwrap();
    let prepared = session.prepare(&model(), mode).unwrap();
    let results = rows.iter().map(|rows| prepared.run(&[input(*rows)]).unwrap()[0].to_f64s());
    let results = results.collect();
    let origins = session.kernels().iter().map(|kernel| kernel.origin()).collect();
    (results, store.stats(), origins)
}

fn at(dir: &Path) -> Config {
    Config::default().dir(dir.join("cache"))
}

fn off() -> Config {
    Config::default().mode(CacheMode::Off)
}

/// The keys of the images that a cache holds.
fn images(store: &Store) -> Vec<Key> {
    let keys = store.entries().into_iter().map(|entry| entry.key);
    let is_image = |key: &Key| {
        let found = store.inspect(key).unwrap();
        found.record.meta().label.starts_with("image of ")
    };
    keys.filter(is_image).collect()
}

/// Takes the image out of a cache.
fn remove_image(dir: &Path) {
    let store = Store::open(at(dir));
    let [image] = images(&store)[..] else { panic!("there is one image") };
    assert!(store.remove(&image).unwrap());
}

/// Kills: the image not made, or not looked at.
#[test]
fn a_later_process_looks_up_a_plan_and_an_image() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let (expected, ..) = process(off(), mode, &[3]);
        let (first, cold, origins) = process(at(dir.path()), mode, &[3]);
        assert!(origins.len() >= 4 && origins.iter().all(|origin| *origin == Origin::Made));
        let entries = u64::from(mode == Mode::Whole);
        // The kernels, the entry, the plan, the image.
        assert_eq!(cold.made, origins.len() as u64 + entries + 2);
        let (second, warm, origins) = process(at(dir.path()), mode, &[3]);
        assert_eq!((&first, &second), (&expected, &expected));
        assert_eq!((warm.made, warm.disk, warm.memory), (0, 2, 0), "{mode:?}: {warm:?}");
        assert!(origins.iter().all(|origin| *origin == Origin::Disk));
    }
}

/// Kills: an image's name of a plan's sizes.
#[test]
fn other_shapes_have_the_same_image() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let rows = [3, 5, 8];
        let (expected, ..) = process(off(), mode, &rows);
        process(at(dir.path()), mode, &rows);
        assert_eq!(images(&Store::open(at(dir.path()))).len(), 1, "{mode:?}");
        let (results, warm, _) = process(at(dir.path()), mode, &rows);
        assert_eq!(results, expected);
        // Each shape's plan, and the image once.
        assert_eq!(warm.made, 0, "{mode:?}: {warm:?}");
        if mode != Mode::Whole {
            assert_eq!(warm.disk, 4, "{mode:?}: {warm:?}");
        }
    }
}

/// Kills: the image not made.
#[test]
fn an_image_that_is_gone_is_made_of_the_kernels() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let (expected, ..) = process(at(dir.path()), mode, &[3]);
        remove_image(dir.path());
        for made in [1, 0] {
            let (results, stats, origins) = process(at(dir.path()), mode, &[3]);
            assert_eq!(results, expected);
            assert_eq!(stats.made, made, "{mode:?}: {stats:?}");
            assert!(origins.iter().all(|origin| *origin == Origin::Disk));
        }
    }
}

/// Kills: an image made where nothing may be written.
#[test]
fn a_cache_that_is_only_read_keeps_no_image() {
    let dir = tempfile::tempdir().unwrap();
    process(at(dir.path()), Mode::Fused, &[3]);
    remove_image(dir.path());
    let read = at(dir.path()).mode(CacheMode::ReadOnly);
    let (_, stats, _) = process(read, Mode::Fused, &[3]);
    assert_eq!(stats.made, 0, "{stats:?}");
}

/// Kills: an audit that leaves images out.
#[test]
fn an_audit_makes_images_again() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let (expected, ..) = process(at(dir.path()), mode, &[3]);
        let (results, stats, origins) = process(at(dir.path()).audit(true), mode, &[3]);
        assert_eq!(results, expected);
        assert!(stats.audited > origins.len() as u64, "{mode:?}: {stats:?}");
    }
}

/// Two graphs of the same kernels, the second of which calls one of them once more. Kills: an image's name of its kernels alone.
#[test]
fn entries_of_other_calls_lie_in_another_image() {
    let model = |times: usize| {
        let mut graph = Builder::new();
        let x = graph.input("x", ElementType::F32, &[2, 3]);
        let mut value = x;
        for op in ["Abs", "Softmax", "Neg", "Exp"] {
            value = graph.op(op, &[&value]);
        }
        for _ in 0..times {
            value = graph.op("Neg", &[&value]);
        }
        graph.output("y", &value);
        graph.finish().unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let run = |config: Config, times: usize| {
        let session = Session::new(Store::open(config)).unwrap();
        let prepared = session.prepare(&model(times), Mode::Whole).unwrap();
        let x = Tensor::from_slice(&[2, 3], &[0.1_f32, 0.2, 0.3, 0.4, 0.5, 0.6]);
        prepared.run(&[x]).unwrap()[0].to_f64s()
    };
    for _ in 0..2 {
        for times in 0..3 {
            assert_eq!(run(at(dir.path()), times), run(off(), times), "{times}");
        }
    }
}
