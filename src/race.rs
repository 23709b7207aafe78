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
//!       cargo test --release --no-default-features --lib -- loom_ races --nocapture
//!   RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle \
//!       cargo test --release --no-default-features --lib -- loom_ races
//! ```
//!
//! `RACE_PREEMPTIONS=3` makes loom look deeper, and `RACE_SEED=7` gives shuttle other schedules.
//!
//! A body builds what it needs, spawns its threads through [`crate::sync`], joins them and returns what it
//! saw. Tests of this kind stand in a module named `races` beside the code they are about; those of the index,
//! whose words loom has to see one by one, are models of their own in `loom_index`.
//!
//! Loom 0.7 misses executions in which a thread loads a word before it compares and swaps it (its issues
//! 166 and 392), so bodies keep to these rules:
//!
//! - The body's own thread prepares, spawns and joins; it races with nobody.
//! - Writers are spawned first, and each thread reads again what it wrote.
//! - Preemptions are bounded: two, unless `check_within` says otherwise.
//! - The *set* of outcomes is asserted: loom must see all of the legal ones and no other. A body with a single
//!   legal outcome must at least have run more than once.
//! - A [`Fault`] that is planted must be seen: `reject`.
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
#[cfg(not(any(test, feature = "stress")))]
#[inline(always)]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

/// Whether the environment of this process of the stress tool has planted `fault`, by its words.
#[cfg(all(feature = "stress", not(test)))]
pub(crate) fn planted(fault: Fault) -> bool {
    static PLANTED: crate::sync::OnceLock<Option<String>> = crate::sync::OnceLock::new();
    let planted = PLANTED.get_or_init(|| std::env::var("CACHELIFT_STRESS_FAULT").ok());
    planted.as_deref() == Some(fault.0)
}

#[cfg(test)]
pub(crate) use harness::planted;

#[cfg(all(test, any(loom, shuttle)))]
pub(crate) use harness::reject;

#[cfg(test)]
#[allow(unused_imports, reason = "not every build uses all of them")]
pub(crate) use harness::{any_planted, check, check_within, plant, planted_here, with_planted};

#[cfg(test)]
mod harness {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::fmt::Debug;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
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

    /// Plants `fault` for what `run` does on this thread.
    pub(crate) fn with_planted<T>(fault: Fault, run: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(fault));
        let result = catch_unwind(AssertUnwindSafe(run));
        PLANTED.set(None);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The fault that this thread's test has planted, to be given to threads that it starts.
    pub(crate) fn planted_here() -> Option<Fault> {
        PLANTED.get()
    }

    /// Plants on this thread what another thread's test has planted there.
    pub(crate) fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    /// Whether this test has planted any fault, so that nothing can be taken for granted.
    pub(crate) fn any_planted() -> bool {
        PLANTED.get().is_some()
    }

    /// Loom's bound where nothing else is said; enough to show every fault that is planted so far.
    const PREEMPTIONS: usize = 2;

    /// Runs `body` in the way the build offers. Panics unless its outcomes are exactly the `legal` ones under
    /// loom, and none but legal ones elsewhere.
    pub(crate) fn check<O: Ord + Debug + Send + 'static>(
        name: &str,
        legal: impl IntoIterator<Item = O>,
        body: impl Fn() -> O + Send + Sync + 'static,
    ) {
        check_within(PREEMPTIONS, name, legal, body);
    }

    /// As [`check`], with another bound on loom's preemptions: for bodies that would take minutes.
    pub(crate) fn check_within<O: Ord + Debug + Send + 'static>(
        preemptions: usize,
        name: &str,
        legal: impl IntoIterator<Item = O>,
        body: impl Fn() -> O + Send + Sync + 'static,
    ) {
        let legal = legal.into_iter().collect::<BTreeSet<O>>();
        let begun = Instant::now();
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let outcomes = Arc::clone(&seen);
        let runs = explore(preemptions, body, move |outcome| {
            outcomes.lock().unwrap().insert(outcome);
        });
        println!("race {name}: {runs} executions, {:.2?}", begun.elapsed());
        assert!(runs > 1, "{name} ran once: nothing raced");
        let seen = seen.lock().unwrap();
        let illegal = seen.difference(&legal).collect::<Vec<_>>();
        assert!(illegal.is_empty(), "{name}: saw {illegal:?}, which are not among {legal:?}");
        if cfg!(loom) {
            assert_eq!(*seen, legal, "{name}: a legal outcome was never seen");
        }
    }

    /// Plants `fault` and runs `body`, which must then panic or show an outcome that is not `legal`. Panics
    /// if nothing was noticed.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn reject<O: Ord + Debug + Send + Sync + 'static>(
        fault: Fault,
        legal: impl IntoIterator<Item = O>,
        body: fn() -> O,
    ) {
        struct Noticed(String);

        let legal = legal.into_iter().collect::<BTreeSet<O>>();
        let noticed = move |outcome: O| {
            if !legal.contains(&outcome) {
                resume_unwind(Box::new(Noticed(format!("{outcome:?}")))); // and explore no further
            }
        };
        let explore = || with_planted(fault, || explore(PREEMPTIONS, body, noticed));
        match catch_unwind(AssertUnwindSafe(explore)) {
            Ok(runs) => panic!("fault [{}] not noticed in {runs} executions", fault.0),
            Err(panic) => match panic.downcast::<Noticed>() {
                Ok(outcome) => println!("fault [{}] noticed: {}", fault.0, outcome.0),
                Err(_) => println!("fault [{}] noticed: a panic", fault.0),
            },
        }
    }

    /// Runs `body` many times, gives what it returns to `saw`, and returns how often it ran.
    fn explore<O: 'static>(
        preemptions: usize,
        body: impl Fn() -> O + Send + Sync + 'static,
        saw: impl Fn(O) + Send + Sync + 'static,
    ) -> usize {
        let runs = Arc::new(AtomicUsize::new(0));
        let once = {
            let runs = Arc::clone(&runs);
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
                saw(body());
            }
        };
        run(preemptions, once);
        runs.load(Ordering::Relaxed)
    }

    /// What the environment says, for runs by hand.
    #[cfg(any(loom, shuttle))]
    fn number(variable: &str) -> Option<usize> {
        let text = std::env::var(variable).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
    }

    #[cfg(loom)]
    fn run(preemptions: usize, once: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(number("RACE_PREEMPTIONS").unwrap_or(preemptions));
        builder.max_branches = 20_000;
        builder.check(once);
    }

    #[cfg(all(shuttle, not(loom)))]
    fn run(_: usize, once: impl Fn() + Send + Sync + 'static) {
        use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

        let seed = number("RACE_SEED").unwrap_or(1) as u64;
        let random = RandomScheduler::new_from_seed(seed, 2_000);
        let by_priority = PctScheduler::new_from_seed(seed, 3, 2_000);
        let schedulers: [Box<dyn Scheduler + Send>; 2] = [Box::new(random), Box::new(by_priority)];
        let once = Arc::new(once);
        for scheduler in schedulers {
            let once = Arc::clone(&once);
            shuttle::Runner::new(scheduler, shuttle::Config::new()).run(move || once());
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn run(_: usize, once: impl Fn() + Send + Sync + 'static) {
        (0..300).for_each(|_| once());
    }
}
