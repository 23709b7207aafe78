//! Images: what a process that starts pays for a program of 100 functions, what a call costs, and how much memory eight
//! processes take for 16 MiB of code.
//!
//! Every start is a process of its own; beside it stands a process that does nothing but open, stat and map a file of the
//! same length and call into it. The lines are medians of this run.
//!
//! ```text
//! cargo bench --bench images
//! ```

#[allow(dead_code, reason = "the other benches use the rest")]
mod common;

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cachelift::code::{CachingModule, Engine, Function, Image, Program, Target};
use cachelift::config::Config;
use cachelift::store::{Origin, Store};
use cranelift_codegen::ir::{Function as Clif, Opcode, UserExternalName};
use cranelift_jit::JITModule;
use cranelift_module::{FuncOrDataId, Module};

use common::{FLAGS, builder, declare_host, define_all, functions, host, plain, signature};

const ROLE: &str = "CACHELIFT_BENCH_ROLE";
const DIR: &str = "CACHELIFT_BENCH_DIR";
/// Functions of the program, and steps of each.
const COUNT: usize = 100;
const STEPS: usize = 40;
/// Processes that are started of each kind.
const STARTS: usize = 60;
/// Functions of the large program, which have 16 MiB of code together, and steps of each.
const LARGE: (usize, usize) = (700, 1050);
const PROCESSES: usize = 8;

type Call = extern "C" fn(i64, i64, *mut i64) -> i64;

fn engine(dir: &Path, flags: &[(&str, &str)]) -> Engine {
    let store = Store::open(Config::default().dir(dir.join("cache")));
    Engine::new(store, Target::host_with(flags).unwrap())
}

fn program(clif: Vec<Clif>) -> Program {
    let mut program = Program::new();
    program.declare(UserExternalName::new(0, 0), "host").unwrap();
    for (n, clif) in clif.into_iter().enumerate() {
        program.define(&format!("f{n}"), clif).unwrap();
    }
    program
}

fn symbols(name: &str) -> Option<*const u8> {
    (name == "host").then_some(host as *const u8)
}

fn load(engine: &Engine, count: usize, steps: usize) -> Image {
    let mut key = engine.store().key("bench");
    let key = key.u64("count", count as u64).u64("steps", steps as u64).finish();
    let build = || Ok(program(functions(engine.target(), steps, count)));
    engine.load_image(&key, symbols, build).unwrap()
}

fn typed(function: &Function) -> Call {
    // SAFETY: all functions of the benches have this signature.
    unsafe { function.typed() }
}

/// What one process found: nanoseconds, or bytes.
fn say(numbers: &[u128]) {
    let numbers: Vec<_> = numbers.iter().map(u128::to_string).collect();
    println!("{}", numbers.join(" "));
}

/// A process that starts and runs one function of the program.
fn start(role: &str, dir: &Path) {
    let mut memory = [1_i64; 64];
    let name = std::fs::read_to_string(dir.join("function")).unwrap();
    let (name, offset) = name.split_once(' ').unwrap();
    let begin = Instant::now();
    match role {
        "image" => {
            let engine = engine(dir, FLAGS);
            let opened = Instant::now();
            let image = load(&engine, COUNT, STEPS);
            let loaded = Instant::now();
            let function = image.function(name).unwrap();
            black_box(typed(&function)(3, 4, memory.as_mut_ptr()));
            let first = Instant::now();
            // The shard is open now: what remains is the file, its mark, the mapping.
            let again = load(&engine, COUNT, STEPS);
            let function = again.function(name).unwrap();
            black_box(typed(&function)(3, 4, memory.as_mut_ptr()));
            let second = first.elapsed();
            assert!(image.is_mapped() && image.origin() == Origin::Disk);
            let times = [opened - begin, loaded - opened, first - opened, second];
            say(&times.map(|time| time.as_nanos()));
        }
        "module" => {
            let target = Target::host_with(FLAGS).unwrap();
            let store = Store::open(Config::default().dir(dir.join("cache")));
            let mut module = CachingModule::code_only(builder(&target), store);
            let opened = Instant::now();
            let key = module.store().key("bench").finish();
            let origin = module.with_image(&key, |_| panic!("it is found")).unwrap();
            module.finalize_definitions().unwrap();
            let Some(FuncOrDataId::Func(id)) = module.get_name(name) else { panic!("{name}") };
            // SAFETY: it has this signature.
            let call: Call = unsafe { std::mem::transmute(module.get_finalized_function(id)) };
            black_box(call(3, 4, memory.as_mut_ptr()));
            let first = Instant::now();
            assert_eq!(origin, Origin::Disk);
            say(&[(first - opened).as_nanos()]);
        }
        _ => {
            let offset: usize = offset.parse().unwrap();
            let file = std::fs::File::open(dir.join("bare")).unwrap();
            let length = file.metadata().unwrap().len() as usize;
            let options = memmap2::MmapOptions::new().len(length).clone();
            // SAFETY: nobody writes the file.
            let map = unsafe { options.map_exec(&file) }.unwrap();
            // SAFETY: a function of this signature that refers to nothing else begins there.
            let call: Call = unsafe { std::mem::transmute(map.as_ptr().add(offset)) };
            black_box(call(3, 4, memory.as_mut_ptr()));
            say(&[begin.elapsed().as_nanos()]);
        }
    }
}

/// A process that maps the large program, runs all of it, and says what its code takes, in KiB.
fn share(dir: &Path) {
    let engine = engine(dir, &[("opt_level", "none"), ("enable_verifier", "false")]);
    let image = load(&engine, LARGE.0, LARGE.1);
    assert!(image.is_mapped() && image.origin() == Origin::Disk);
    let mut memory = [1_i64; 64];
    let all: Vec<_> = image.names().map(|name| image.function(name).unwrap()).collect();
    for function in &all {
        black_box(typed(function)(3, 4, memory.as_mut_ptr()));
    }
    say(&[0]);
    // Until all of them are here.
    let _ = std::io::stdin().read(&mut [0]);
    let address = all[0].address().addr();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut inside, mut sizes) = (false, [0_u128; 3]);
    for line in smaps.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-') {
            let parse = |text| usize::from_str_radix(text, 16).unwrap();
            inside = (parse(from)..parse(to)).contains(&address);
        } else if inside {
            let at = ["Rss:", "Private_Dirty:", "Private_Clean:"];
            if let Some(at) = at.iter().position(|name| *name == first) {
                sizes[at] = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            }
        }
    }
    say(&sizes);
    let _ = std::io::stdin().read(&mut [0]);
}

fn child(role: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .env(ROLE, role)
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

fn run(role: &str, dir: &Path) -> Vec<f64> {
    let output = child(role, dir).wait_with_output().unwrap();
    assert!(output.status.success());
    numbers(std::str::from_utf8(&output.stdout).unwrap())
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// The medians of each column.
fn medians(rows: &[Vec<f64>]) -> Vec<f64> {
    (0..rows[0].len())
        .map(|n| median(&mut rows.iter().map(|row| row[n]).collect::<Vec<_>>()))
        .collect()
}

/// The code as it is mapped, for the process that does nothing but map it, and where in it a function begins that refers
/// to nothing.
fn write_bare(dir: &Path, image: &Image, clif: &[Clif]) -> String {
    let calls = |clif: &Clif| {
        let mut insts = clif.layout.blocks().flat_map(|block| clif.layout.block_insts(block));
        insts.any(|inst| clif.dfg.insts[inst].opcode() == Opcode::Call)
    };
    let addresses: Vec<_> = (0..clif.len())
        .map(|n| image.function(&format!("f{n}")).unwrap().address().addr())
        .collect();
    let (base, last) = (addresses.iter().min().unwrap(), addresses.iter().max().unwrap());
    let length = (last - base + 1).next_multiple_of(4096);
    let first = clif.iter().position(|clif| !calls(clif)).expect("most call nothing");
    let start = std::ptr::with_exposed_provenance::<u8>(*base);
    // SAFETY: the text of the image, which is mapped for reading and lives.
    let text = unsafe { std::slice::from_raw_parts(start, length) };
    std::fs::write(dir.join("bare"), text).unwrap();
    let name = format!("f{first}");
    std::fs::write(dir.join("function"), format!("{name} {}", addresses[first] - base)).unwrap();
    name
}

/// Nanoseconds per call of the same function where a `JITModule` has it, in an image, and in one by way of a module.
fn calls(dir: &Path, image: &Image, name: &str) -> Vec<f64> {
    let target = Target::host_with(FLAGS).unwrap();
    let own = signature(target.isa());
    let mut plain = JITModule::new(builder(&target));
    declare_host(&mut plain, &own);
    let clif = functions(&target, STEPS, COUNT);
    define_all(&mut plain, &own, clif, |module, id, context| module.define_function(id, context));
    plain.finalize_definitions().unwrap();
    let store = Store::open(Config::default().dir(dir.join("cache")));
    let mut module = CachingModule::code_only(builder(&target), store);
    let key = module.store().key("bench").finish();
    module.with_image(&key, |_| panic!("it is found")).unwrap();
    module.finalize_definitions().unwrap();
    let id = |id| match id {
        Some(FuncOrDataId::Func(id)) => id,
        _ => panic!("no {name}"),
    };
    let of_plain = plain.get_finalized_function(id(plain.get_name(name)));
    let of_module = module.get_finalized_function(id(module.get_name(name)));
    let function = image.function(name).unwrap();
    // SAFETY: all three have this signature.
    let [plain, module] = [of_plain, of_module]
        .map(|address| unsafe { std::mem::transmute::<*const u8, Call>(address) });
    let mut memory = [1_i64; 64];
    let mut rows = Vec::new();
    for _ in 0..41 {
        let mut row = Vec::new();
        for call in [plain, typed(&function), module] {
            const CALLS: i64 = 100_000;
            let begin = Instant::now();
            for n in 0..CALLS {
                black_box(call(n, 4, memory.as_mut_ptr()));
            }
            row.push(begin.elapsed().as_nanos() as f64 / CALLS as f64);
        }
        rows.push(row);
    }
    medians(&rows)
}

fn main() {
    if let (Ok(role), Some(dir)) = (std::env::var(ROLE), std::env::var_os(DIR)) {
        let dir = PathBuf::from(dir);
        if role == "share" {
            share(&dir)
        } else {
            start(&role, &dir)
        }
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let target = Target::host_with(FLAGS).unwrap();
    let clif = functions(&target, STEPS, COUNT);

    // Everything is made once before anything is measured.
    let first = engine(dir, FLAGS);
    let image = load(&first, COUNT, STEPS);
    let name = write_bare(dir, &image, &clif);
    let store = first.store().clone();
    let mut module = CachingModule::code_only(builder(&target), store);
    let own = signature(target.isa());
    let key = module.store().key("bench").finish();
    module
        .with_image(&key, |module| {
            declare_host(module, &own);
            define_all(module, &own, clif.clone(), |module, id, context| {
                module.define_function(id, context)
            });
            Ok(())
        })
        .unwrap();
    let large = engine(dir, &[("opt_level", "none"), ("enable_verifier", "false")]);
    load(&large, LARGE.0, LARGE.1);
    // A file is marked as verified when its last change is some time ago.
    std::thread::sleep(Duration::from_millis(2500));
    for role in ["image", "module"] {
        run(role, dir);
    }
    load(&large, LARGE.0, LARGE.1);

    let compile =
        median(&mut (0..7).map(|_| plain(&target, &clif).as_nanos() as f64).collect::<Vec<_>>());
    let (mut images, mut modules, mut bares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        images.push(run("image", dir));
        bares.push(run("bare", dir));
        modules.push(run("module", dir));
    }
    let (images, modules, bares) = (medians(&images), medians(&modules), medians(&bares));
    let us = |ns: f64| ns / 1e3;
    println!("{COUNT} functions of {STEPS} steps, in a process that starts; microseconds");
    println!("  compile them with a JITModule          {:>9.1}", us(compile));
    println!("  bare: open, stat, map, call            {:>9.1}", us(bares[0]));
    println!("  open the store, make the engine        {:>9.1}", us(images[0]));
    let line = |what: &str, ns: f64| {
        let (of_compile, of_bare) = (compile / ns, ns / bares[0]);
        println!(
            "  {what:<38} {:>9.1}  1/{of_compile:.0} of compiling, {of_bare:.1}x bare",
            us(ns)
        );
    };
    line("image: look up, map, first call", images[2]);
    line("the same again, the shard being open", images[3]);
    line("module: look up, map, declare, first call", modules[0]);

    let [plain, direct, module] = calls(dir, &image, &name)[..] else { unreachable!() };
    println!("a call of one of them, nanoseconds");
    println!("  in a JITModule                         {plain:>9.2}");
    println!("  in an image                            {direct:>9.2}  {:.3}x", direct / plain);
    println!("  in an image, by way of a module        {module:>9.2}  {:.3}x", module / plain);

    let mut all: Vec<_> = (0..PROCESSES).map(|_| child("share", dir)).collect();
    let mut outputs: Vec<_> =
        all.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
    let mut line = String::new();
    for output in &mut outputs {
        output.read_line(&mut line).unwrap();
    }
    println!(
        "{PROCESSES} processes with one image, each of which has run all of it; KiB of its text in memory"
    );
    for (child, output) in all.iter_mut().zip(&mut outputs) {
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
        let sizes = numbers(&line);
        println!(
            "  resident {:>6}   private dirty {:>3}   private clean {:>3}",
            sizes[0], sizes[1], sizes[2]
        );
        assert!(sizes[0] >= 16384.0 && sizes[1] == 0.0, "{sizes:?}");
    }
    // Only now: pages of the file that one process alone has mapped would count as its own.
    for mut child in all {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
