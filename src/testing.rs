//! One body, three runners: every interleaving under loom, many random ones under shuttle, and real threads
//! otherwise.
//!
//! ```text
//!   RUSTFLAGS="--cfg loom"    CARGO_TARGET_DIR=target/loom    cargo test --release --no-default-features --lib loom_
//!   RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle cargo test --release --no-default-features --lib shuttle_
//! ```
//!
//! What to know of loom 0.7 when writing a body: it misses interleavings if the main thread takes part (let
//! it spawn and join alone), if readers are spawned before writers, and without a bound on preemptions. It
//! explores nothing at all if the body has no races, so a test states every outcome it must have seen.

use std::collections::BTreeSet;
use std::fmt::Debug;
// What is counted across executions is no part of them, so it is not loom's.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Runs `body` over and over. Fails if an execution fails, if one ends in an outcome that is not expected
/// and, under loom, if an expected outcome never came.
pub(crate) fn explore<O>(
    name: &str,
    expected: impl IntoIterator<Item = O>,
    body: impl Fn() -> O + Send + Sync + 'static,
) where
    O: Ord + Debug + Send + 'static,
{
    let executions = Arc::new(AtomicUsize::new(0));
    let outcomes = Arc::new(Mutex::new(BTreeSet::new()));
    let counted = {
        let (executions, outcomes) = (executions.clone(), outcomes.clone());
        move || {
            executions.fetch_add(1, Ordering::Relaxed);
            let outcome = body();
            outcomes.lock().unwrap().insert(outcome);
        }
    };
    run(counted);
    let executions = executions.load(Ordering::Relaxed);
    let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
    println!("{name}: {executions} executions, outcomes {outcomes:?}");
    let expected: BTreeSet<O> = expected.into_iter().collect();
    let unexpected: Vec<_> = outcomes.difference(&expected).collect();
    assert!(unexpected.is_empty(), "{name}: unexpected {unexpected:?}");
    if cfg!(loom) {
        let unseen: Vec<_> = expected.difference(&outcomes).collect();
        assert!(unseen.is_empty(), "{name}: never saw {unseen:?}");
        assert!(executions > 1, "{name}: nothing was interleaved");
    }
}

#[cfg(loom)]
fn run(body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.max_branches = 20_000;
    model.check(body);
}

#[cfg(all(shuttle, not(loom)))]
fn run(body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let again = body.clone();
    shuttle::check_random(move || body(), 2000);
    shuttle::check_pct(move || again(), 2000, 3);
}

#[cfg(not(any(loom, shuttle)))]
fn run(body: impl Fn() + Send + Sync + 'static) {
    (0..200).for_each(|_| body());
}
