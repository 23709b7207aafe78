//! Hits against compiles: functions of about 12, 200 and 5,000 instructions through the whole of
//! [`Engine::load`], from the memory tier and, in a new process, from the cache directory, beside a plain
//! `JITModule` with the same flags.
//!
//! Building the CLIF and setting up the ISA are left out on all sides, and so is the verifier, which a hit
//! does not run. The last lines are ratios of medians of this run.
//!
//! ```text
//! cargo bench --bench code
//! ```

mod common;

use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cachelift::code::{Engine, Program, Target};
use cachelift::config::Config;
use cachelift::store::{Origin, Store};
use cranelift_codegen::ir::{Function, UserExternalName};
use criterion::Criterion;

use common::{FLAGS, SIZES, functions, host, measure, plain};

/// In a process that loads from the cache directory: the size to load.
const CHILD: &str = "CACHELIFT_BENCH_CHILD";

fn program(functions: Vec<Function>) -> Program {
    let mut program = Program::new();
    program.symbol("host", host as *const u8).unwrap();
    program.declare(UserExternalName::new(0, 0), "host").unwrap();
    for (i, function) in functions.into_iter().enumerate() {
        program.define(&format!("f{i}"), function).unwrap();
    }
    program
}

fn hit(engine: &Engine, functions: &[Function], origin: Origin) -> Duration {
    let functions = functions.to_vec();
    let start = Instant::now();
    let loaded = engine.load(program(functions)).unwrap();
    black_box(loaded.function("f0").unwrap().address());
    let time = start.elapsed();
    assert!(loaded.units().all(|unit| unit.origin == origin));
    time
}

fn engine(target: &Target, dir: Option<&Path>) -> Engine {
    let config = Config::default();
    let config = match dir {
        Some(dir) => config.dir(dir),
        None => config,
    };
    Engine::new(Store::open(config), target.clone())
}

/// In another process: loads what is in the directory, and prints how many nanoseconds that took.
fn child(size: &str) {
    let (_, steps, count) = SIZES.into_iter().find(|(name, ..)| *name == size).unwrap();
    let target = Target::host_with(FLAGS).unwrap();
    let functions = functions(&target, steps, count);
    let dir = env::var_os("CACHELIFT_DIR").unwrap();
    let engine = engine(&target, Some(dir.as_ref()));
    println!("{}", hit(&engine, &functions, Origin::Disk).as_nanos());
}

fn in_new_process(size: &str, dir: &Path) -> Duration {
    let output = Command::new(env::current_exe().unwrap())
        .env(CHILD, size)
        .env("CACHELIFT_DIR", dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Duration::from_nanos(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
}

fn main() {
    if let Ok(size) = env::var(CHILD) {
        return child(&size);
    }
    let mut criterion = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let target = Target::host_with(FLAGS).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut lines = Vec::new();
    for (name, steps, count) in SIZES {
        let functions = functions(&target, steps, count);
        let instructions = functions.iter().map(|f| f.dfg.num_insts()).sum::<usize>() / count;
        let cache = dir.path().join(name);
        let warm = engine(&target, Some(&cache));
        drop(warm.load(program(functions.clone())).unwrap());

        let mut case = |what: &str, run: &mut dyn FnMut() -> Duration| {
            measure(&mut criterion, &format!("{name}/{what} of {count}"), count, run)
        };
        let compile = case("compile", &mut || plain(&target, &functions));
        let memory = case("memory hit", &mut || hit(&warm, &functions, Origin::Memory));
        let disk = case("disk hit, new process", &mut || in_new_process(name, &cache));
        lines.push(format!(
            "{name:<8} {instructions:>12} {compile:>10.2} {memory:>10.2} {:>7.1}x {disk:>10.2} {:>7.1}x",
            compile / memory,
            compile / disk
        ));
    }
    criterion.final_summary();
    println!("\nmedians in microseconds per function, and how many times faster than compiling");
    println!("         instructions    compile     memory    ratio       disk    ratio");
    lines.iter().for_each(|line| println!("{line}"));
}
