//! The chunks of a parallel loop on threads.
//!
//! ```text
//!   rounds 0..count ─► chunks of neighbouring rounds, one per thread ─► a status and partial results each
//! ```
//!
//! Chunks depend on the number of rounds and of threads alone, and results are joined in their order: the same machine
//! gives the same sum each time.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::context::Context;

/// The most chunks a loop is divided into.
pub(crate) const MOST_CHUNKS: usize = 64;

/// How many bytes of stack each thread has, as the main thread has by default.
const STACK: usize = 8 << 20;

/// A part of a loop, as compiled: context, frame, first round, rounds, start, step, partial results.
pub(super) type Part =
    unsafe extern "C" fn(*mut Context<'_>, usize, u64, u64, i64, i64, usize) -> u64;

/// What the unit hands over.
pub(super) struct Loop {
    pub(super) part: Part,
    pub(super) frame: usize,
    pub(super) count: u64,
    pub(super) start: i64,
    pub(super) step: i64,
    pub(super) partials: usize,
    pub(super) stride: usize,
}

/// How many threads a loop runs on: `CACHELIFT_NUM_THREADS`, else as many as there are processors.
pub(crate) fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let wanted = std::env::var("CACHELIFT_NUM_THREADS").ok();
        let wanted = wanted.and_then(|text| text.trim().parse().ok()).filter(|&count| count > 0);
        let here = || std::thread::available_parallelism().map_or(1, usize::from);
        wanted.unwrap_or_else(here).min(MOST_CHUNKS)
    })
}

/// The threads; none if they cannot be had, or if this process was forked from one that has them.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<(u32, Option<ThreadPool>)> = OnceLock::new();
    let (process, pool) = POOL.get_or_init(|| {
        let builder = ThreadPoolBuilder::new().num_threads(threads().max(2) - 1).stack_size(STACK);
        let builder = builder.thread_name(|number| format!("kernel-{number}"));
        (std::process::id(), builder.build().ok())
    });
    pool.as_ref().filter(|_| *process == std::process::id())
}

/// Runs a loop. Gives the number of chunks, or the context the error of the first that failed.
pub(super) fn run(context: &mut Context<'_>, rounds: &Loop) -> Option<u64> {
    let chunks = (threads() as u64).min(rounds.count);
    let bounds =
        |chunk: u64| (u128::from(rounds.count) * u128::from(chunk) / u128::from(chunks)) as u64;
    let host = context.host;
    let one = |chunk: u64| {
        let mut own = Context::new(host);
        let (first, end) = (bounds(chunk), bounds(chunk + 1));
        let partial = rounds.partials + chunk as usize * rounds.stride;
        let frame = rounds.frame;
        // SAFETY: the unit that asks for it was compiled with this part, whose frame and partial results lie in the
        // unit's own frame until all chunks are done; each chunk has its own partial results.
        let status = unsafe {
            let (start, step) = (rounds.start, rounds.step);
            (rounds.part)(&mut own, frame, first, end - first, start, step, partial)
        };
        (status != 0).then(|| own.take_error())
    };
    let mut errors: Vec<_> = (0..chunks).map(|_| None).collect();
    if let Some((first, rest)) = errors.split_first_mut() {
        match pool().filter(|_| !rest.is_empty()) {
            Some(pool) => pool.in_place_scope(|scope| {
                let one = &one;
                for (chunk, error) in rest.iter_mut().enumerate() {
                    scope.spawn(move |_| *error = one(chunk as u64 + 1));
                }
                *first = one(0);
            }),
            None => {
                *first = one(0);
                for (chunk, error) in rest.iter_mut().enumerate() {
                    *error = one(chunk as u64 + 1);
                }
            }
        }
    }
    match errors.into_iter().flatten().next() {
        Some(error) => {
            context.error = Some(error);
            None
        }
        None => Some(chunks),
    }
}
