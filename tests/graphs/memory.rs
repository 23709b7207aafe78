//! Large initialisers are in memory once, however many processes have the model.

#![cfg(target_os = "linux")]

#[path = "../../benches/common/smaps.rs"]
mod smaps;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use cachelift::config::Config;
use cachelift::graph::{Builder, ElementType, Mode, Session, Tensor};
use cachelift::store::Store;

const CHILD: &str = "GRAPHS_MEMORY_DIR";
/// How many numbers the initialiser has: 64 MiB, of which what the allocator keeps for later is no large part.
const LENGTH: usize = 16 << 20;

/// Not a test by itself: what the processes of the test below run.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let session = Session::new(Store::open(Config::default().dir(dir))).unwrap();
    let model = {
        let mut graph = Builder::new();
        let x = graph.input("x", ElementType::F32, &[1]);
        let numbers: Vec<f32> = (0..LENGTH).map(|at| at as f32).collect();
        let weights = graph.constant(Tensor::from_slice(&[LENGTH], &numbers));
        let product = graph.op("Mul", &[&weights, &x]);
        let axes = graph.constant(Tensor::from_slice(&[1], &[0_i64]));
        let most = graph.op("ReduceMax", &[&product, &axes]);
        graph.output("most", &most);
        session.prepare(&graph.finish().unwrap(), Mode::Fused).unwrap()
    };
    let outputs = model.run(&[Tensor::scalar(0.5_f32).reshape(&[1]).unwrap()]).unwrap();
    assert_eq!(outputs[0].to_f64s(), [(LENGTH - 1) as f64 / 2.0]);
    println!("ready");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

/// The real size is the bench's: `benches/graphs.rs`. Kills: constants left in memory of the process's own; a record of each
/// process's own.
#[test]
fn four_processes_have_large_initialisers_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut children: Vec<_> = (0..4)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "memory::child", "--nocapture", "--test-threads", "1"])
                .env(CHILD, dir.path().join("cache"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut children {
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("ready")));
    }
    let kilobytes = (LENGTH * 4 / 1024) as u64;
    let mut shared = 0;
    for child in &children {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps", child.id())).unwrap();
        shared += smaps::sum(&text, "Pss:", |line| line.contains("/cache/"));
        // What it computes with is the file; what the allocator keeps of memory that is free again is not ours to say.
        let mapped = smaps::sum(&text, "Rss:", |line| line.contains("/cache/"));
        assert!(mapped > kilobytes * 9 / 10, "{mapped} kB are mapped");
    }
    assert!((kilobytes * 9 / 10..=kilobytes * 11 / 10).contains(&shared), "{shared} kB");
    for mut child in children {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
