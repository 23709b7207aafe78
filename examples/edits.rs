//! The cache at work on a program of three files: this runs the program of `examples/kernels/edit` in a new process, in
//! another, and once more after an edit. The first run compiles, the second loads, the third compiles what was edited.
//!
//! ```text
//! cargo run --release --example edits
//! ```

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use cachelift::config::Config;
use cachelift::kernel::Session;
use cachelift::store::{Origin, Store};

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(program) = env::var_os("EDITS_CHILD") {
        return run(Path::new(&program));
    }
    let dir = tempfile::tempdir()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kernels/edit");
    for file in ["main.py", "prices.py", "taxes.py"] {
        fs::copy(source.join(file), dir.path().join(file))?;
    }
    let in_a_new_process = |what: &str| {
        println!("{what}, a new process:");
        let status = Command::new(env::current_exe()?)
            .env("EDITS_CHILD", dir.path().join("main.py"))
            .env("CACHELIFT_DIR", dir.path().join("cache"))
            .status()?;
        if status.success() { Ok(()) } else { Err(format!("the {what} failed: {status}").into()) }
    };
    in_a_new_process("first run")?;
    in_a_new_process("second run")?;
    let prices = dir.path().join("prices.py");
    fs::write(&prices, fs::read_to_string(&prices)?.replace("return 10", "return 20"))?;
    in_a_new_process("third run, `discount` in prices.py was edited")
}

/// What every process does, whether the cache has the code or not.
fn run(program: &Path) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let mut session = Session::new(Store::open(Config::from_env()?))?;
    session.run(program)?;
    let took = began.elapsed();
    let names = |is_made: bool| {
        let used = session.used();
        let these = used.iter().filter(|used| (used.origin == Origin::Made) == is_made);
        let names: Vec<_> = these.map(|used| used.name.rsplit(':').next().unwrap_or("")).collect();
        if names.is_empty() { "nothing".to_string() } else { names.join(", ") }
    };
    println!("  compiled {}; loaded {}", names(true), names(false));
    println!("  {:.2} ms in all", took.as_secs_f64() * 1e3);
    Ok(())
}
