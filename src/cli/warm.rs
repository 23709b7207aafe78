//! `cachelift warm`: compiles kernels for signatures ahead of time.
//!
//! ```text
//!   --sig, --signatures ──► a queue ──► threads, each with a session of its own ──► one cache
//! ```

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Args;

use super::exit::Exit;
use super::output::Output;
use crate::config::Config;
use crate::kernel::{Session, Used, on_deep_stack};
use crate::store::{Origin, Store};

/// Compile kernels of a file ahead of time
///
/// The file is loaded as a module, not as `__main__`, so what stands under `if __name__ == "__main__":` does not run. The
/// kernels are compiled in parallel for the signatures that are named, with all that they call.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cachelift warm shapes.py --sig 'area(int64, float64[:])' --sig 'norm(float64[:, ::1])'
  cachelift warm shapes.py --signatures signatures.txt")]
pub(super) struct Arguments {
    /// The file
    file: PathBuf,

    /// A function and the types of its arguments, as Numba's decorators take them
    #[arg(long = "sig", value_name = "SIGNATURE")]
    signatures: Vec<String>,

    /// A file with one signature a line; `#` begins a comment
    #[arg(long = "signatures", value_name = "FILE")]
    list: Option<PathBuf>,

    /// How many threads compile [default: all processors]
    #[arg(long, short, value_name = "N")]
    jobs: Option<usize>,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    let mut signatures = arguments.signatures.clone();
    if let Some(list) = &arguments.list {
        let text = match fs::read_to_string(list) {
            Ok(text) => text,
            Err(error) => {
                output.error(format_args!("{}: {error}", list.display()));
                return Exit::Failed;
            }
        };
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        signatures.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
    }
    if signatures.is_empty() {
        return output
            .usage(&"no signature: name one with --sig, or a file of them with --signatures");
    }
    let store = Store::open(config);
    let count = signatures.len();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.unwrap_or(processors).clamp(1, count);
    output.progress().begin("compiled", Some(count));
    let queue = Mutex::new(VecDeque::from(signatures));
    let done = AtomicUsize::new(0);
    let work = || work(arguments, &store, &queue, &done);
    let results = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| on_deep_stack(work))).collect();
        let mut shown = 0;
        while shown < count {
            let now = done.load(Ordering::Relaxed);
            (shown..now).for_each(|_| output.progress().step());
            shown = now;
            if workers.iter().all(thread::ScopedJoinHandle::is_finished) {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    output.progress().clear();

    let mut made = 0;
    let mut failed = 0;
    for result in results {
        match result {
            Ok(used) => {
                made += used.iter().filter(|unit| unit.origin == Origin::Made).count();
            }
            Err(message) => {
                failed += 1;
                output.say(message);
            }
        }
    }
    output.data(format_args!("{} signatures ready, {made} kernels compiled", count - failed));
    output.finish(if failed > 0 { Exit::Failed } else { Exit::Ok })
}

/// Takes signatures from the queue until it is empty.
fn work(
    arguments: &Arguments,
    store: &Store,
    queue: &Mutex<VecDeque<String>>,
    done: &AtomicUsize,
) -> Vec<Result<Vec<Used>, String>> {
    let colours = false;
    let mut session = match Session::new(store.clone()) {
        Ok(session) => session,
        Err(error) => return vec![Err(error.render(colours))],
    };
    session.search(super::module_path());
    session.print_to(Box::new(io::sink()));
    if let Err(error) = session.load(&arguments.file) {
        return vec![Err(error.render(colours))];
    }
    let mut results = Vec::new();
    let mut seen = 0;
    loop {
        let next = queue.lock().map_or(None, |mut queue| queue.pop_front());
        let Some(signature) = next else { break };
        let result = session.specialise(&signature);
        let used = session.used();
        results.push(match result {
            Ok(()) => Ok(used[seen..].to_vec()),
            Err(error) => Err(error.render(colours)),
        });
        seen = used.len();
        done.fetch_add(1, Ordering::Relaxed);
    }
    session.finish();
    results
}
