//! Races as tests: one body, three ways to run it.
//!
//! ```text
//!   RUSTFLAGS="--cfg loom"    every interleaving within two preemptions, weak memory included
//!   RUSTFLAGS="--cfg shuttle" many random schedules of the same bodies, and of larger ones
//!   neither                   real threads, some hundred rounds
//! ```
//!
//! ```text
//!   RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
//!       cargo test --release --no-default-features --lib races -- --nocapture
//!   RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle \
//!       cargo test --release --no-default-features --lib races
//! ```
//!
//! A body builds what it needs, spawns its threads through [`crate::sync`], joins them and returns what it
//! saw. Tests of this kind stand in a module named `races` beside the code they are about.
//!
//! Loom 0.7 misses executions in which a thread loads a word before it compares and swaps it (its issues
//! 166 and 392), so bodies keep to these rules:
//!
//! - The body's own thread prepares, spawns and joins; it races with nobody.
//! - Writers are spawned first, and each thread reads again what it wrote.
//! - Preemptions are bounded, by [`check`] itself.
//! - The *set* of outcomes is asserted: loom must see all of the legal ones and no other. A body with a single
//!   legal outcome must at least have run more than once.
//! - A [`Fault`] that is planted must be seen: [`reject`].
//!
//! What watches a race must not take part in it: the outcomes are collected in `std`'s own types, which
//! loom and shuttle do not see.

/// A small wrong change that a test can plant in the code, to see that some check notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault(
    /// What the wrong code does, as words for the one who reads the test's output.
    pub(crate) &'static str,
);

/// Whether a test has planted `fault`. Always `false`, and gone, in code that is not a test's.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

#[cfg(test)]
pub(crate) use harness::planted;

#[cfg(test)]
#[allow(unused_imports, reason = "which of them is used depends on the way races are run")]
pub(crate) use harness::{any_planted, check, reject};

#[cfg(test)]
mod harness {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::fmt::Debug;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::Fault;

    thread_local! {
        // The threads of loom and shuttle are all run by the test's own thread: a planted fault is seen by
        // every thread of its test and by no other test.
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Whether this test has planted any fault, so that nothing can be taken for granted.
    pub(crate) fn any_planted() -> bool {
        PLANTED.get().is_some()
    }

    /// What was seen of a body: how often it ran, and all that it returned.
    struct Seen<O> {
        runs: usize,
        outcomes: BTreeSet<O>,
    }

    /// Runs `body` in every way the build offers. Panics unless its outcomes are exactly the `legal` ones
    /// under loom, and none but legal ones elsewhere.
    pub(crate) fn check<O: Ord + Debug + Send + 'static>(
        name: &str,
        legal: impl IntoIterator<Item = O>,
        body: fn() -> O,
    ) {
        let legal = legal.into_iter().collect::<BTreeSet<O>>();
        let begun = Instant::now();
        let seen = explore(body);
        println!("race {name}: {} executions, {:.2?}", seen.runs, begun.elapsed());
        assert!(seen.runs > 1, "{name} ran once: nothing raced");
        for outcome in &seen.outcomes {
            assert!(legal.contains(outcome), "{name}: {outcome:?} is not among {legal:?}");
        }
        if cfg!(loom) {
            assert_eq!(seen.outcomes, legal, "{name}: a legal outcome was never seen");
        }
    }

    /// Plants `fault` and runs `body`, which must then panic or show an outcome that is not `legal`. Panics
    /// if nothing was noticed.
    pub(crate) fn reject<O: Ord + Debug + Send + 'static>(
        fault: Fault,
        legal: impl IntoIterator<Item = O>,
        body: fn() -> O,
    ) {
        let legal = legal.into_iter().collect::<BTreeSet<O>>();
        PLANTED.set(Some(fault));
        let seen = catch_unwind(AssertUnwindSafe(|| explore(body)));
        PLANTED.set(None);
        match seen {
            Err(_) => println!("fault [{}] noticed: a panic", fault.0),
            Ok(seen) => match seen.outcomes.iter().find(|outcome| !legal.contains(outcome)) {
                Some(wrong) => println!("fault [{}] noticed: {wrong:?}", fault.0),
                None => panic!("fault [{}] not noticed in {} executions", fault.0, seen.runs),
            },
        }
    }

    fn explore<O: Ord + Send + 'static>(body: fn() -> O) -> Seen<O> {
        let runs = Arc::new(AtomicUsize::new(0));
        let outcomes = Arc::new(Mutex::new(BTreeSet::new()));
        let once = {
            let (runs, outcomes) = (Arc::clone(&runs), Arc::clone(&outcomes));
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
                let outcome = body();
                outcomes.lock().unwrap().insert(outcome);
            }
        };
        run(once);
        let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
        Seen { runs: runs.load(Ordering::Relaxed), outcomes }
    }

    #[cfg(loom)]
    fn run(once: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 20_000;
        builder.check(once);
    }

    #[cfg(all(shuttle, not(loom)))]
    fn run(once: impl Fn() + Send + Sync + 'static) {
        let once = Arc::new(once);
        let again = Arc::clone(&once);
        shuttle::check_random(move || again(), 2_000);
        shuttle::check_pct(move || once(), 2_000, 3);
    }

    #[cfg(not(any(loom, shuttle)))]
    fn run(once: impl Fn() + Send + Sync + 'static) {
        (0..300).for_each(|_| once());
    }
}
