//! How long to wait for another maker, and how often to look.
//!
//! Waiting is a matter of speed alone: whoever stops waiting makes the value itself, and the first one to
//! publish wins. So it is bounded, whatever became of the other maker.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::sync;

/// Time, as the waiting sees it.
pub(crate) trait Clock: Send + Sync {
    fn now(&self) -> Instant;
    fn sleep(&self, duration: Duration);
}

/// The monotonic clock of the process.
#[derive(Debug, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        sync::now()
    }

    fn sleep(&self, duration: Duration) {
        sync::sleep(duration);
    }
}

/// How long one call waits before it does the work itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    since: Instant,
    limit: Duration,
}

impl Patience {
    /// A key that nobody remembers making is waited for this long.
    pub(crate) const UNKNOWN: Duration = Duration::from_secs(5);
    /// The shortest wait where the cost is known.
    pub(crate) const LEAST: Duration = Duration::from_millis(50);
    /// The longest wait where the cost is known.
    pub(crate) const MOST: Duration = Duration::from_secs(30);

    /// Begins to wait for something that took `cost` to make the last time.
    pub(crate) fn begin(since: Instant, cost: Option<Duration>) -> Self {
        let limit = cost
            .map_or(Self::UNKNOWN, |cost| cost.saturating_mul(4).clamp(Self::LEAST, Self::MOST));
        Patience { since, limit }
    }

    /// How much longer to wait for another process.
    pub(crate) fn left_for_process(&self, now: Instant) -> Duration {
        self.limit.saturating_sub(now.saturating_duration_since(self.since))
    }

    /// How much longer to wait for a thread of this process: twice as long in all, because that thread may
    /// itself have waited for another process before it began.
    pub(crate) fn left_for_thread(&self, now: Instant) -> Duration {
        (self.limit * 2).saturating_sub(now.saturating_duration_since(self.since))
    }
}

/// The pauses between two looks: 0.2 ms, doubling up to 10 ms, each shortened by up to half at random, so
/// that those who wait for one thing do not all look at once.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    pause: Duration,
    random: u64,
}

impl Backoff {
    /// The first pause.
    pub(crate) const FIRST: Duration = Duration::from_micros(200);
    /// The longest pause, and so about the longest time for which a dead maker goes unnoticed.
    pub(crate) const LONGEST: Duration = Duration::from_millis(10);

    pub(crate) fn new(seed: u64) -> Self {
        Backoff { pause: Self::FIRST, random: seed }
    }

    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(Self::LONGEST);
        self.random = mix(self.random);
        let half = pause.as_nanos() as u64 / 2;
        pause - Duration::from_nanos(self.random % (half + 1))
    }

    /// Back to the first pause: something happened.
    pub(crate) fn reset(&mut self) {
        self.pause = Self::FIRST;
    }
}

/// The next number of a cheap pseudo-random sequence (SplitMix64).
pub(crate) fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

sync::thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's has no const form")]
    static DEPTH: Cell<usize> = Cell::new(0);
}

/// Says that this thread is making something for as long as it lives.
#[derive(Debug)]
pub(crate) struct Making(());

impl Making {
    pub(crate) fn begin() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Making(())
    }

    /// Whether this thread is making something. It has a key then, and must not wait for another: two
    /// threads that make each other's callees would wait in a circle.
    pub(crate) fn is_nested() -> bool {
        DEPTH.with(|depth| depth.get() > 0)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    // Mutants: `* 3` for `* 4`; `unwrap_or_default()` for `UNKNOWN`; no `clamp`.
    #[test]
    fn patience_depends_on_the_known_cost() {
        let now = sync::now();
        let limit = |cost| Patience::begin(now, cost).left_for_process(now);
        assert_eq!(limit(None), 5000 * MS);
        assert_eq!(limit(Some(MS)), 50 * MS);
        assert_eq!(limit(Some(100 * MS)), 400 * MS);
        assert_eq!(limit(Some(60_000 * MS)), 30_000 * MS);
        assert_eq!(limit(Some(Duration::MAX)), 30_000 * MS);
    }

    #[test]
    fn patience_runs_out_once() {
        let now = sync::now();
        let patience = Patience::begin(now, None);
        assert_eq!(patience.left_for_process(now + 4999 * MS), MS);
        assert_eq!(patience.left_for_process(now + 5000 * MS), Duration::ZERO);
        assert_eq!(patience.left_for_process(now + 7000 * MS), Duration::ZERO);
        assert_eq!(patience.left_for_thread(now + 5000 * MS), 5000 * MS);
        assert_eq!(patience.left_for_thread(now + 10_000 * MS), Duration::ZERO);
    }

    proptest! {
        // Mutants: no `min(LONGEST)`; jitter over the whole pause; `random` not advanced.
        #[test]
        fn pauses_grow_within_bounds(seed: u64) {
            let mut backoff = Backoff::new(seed);
            let mut whole = Backoff::FIRST;
            for _ in 0..12 {
                let pause = backoff.next();
                prop_assert!(whole / 2 <= pause && pause <= whole, "{pause:?} of {whole:?}");
                whole = (whole * 2).min(Backoff::LONGEST);
            }
            let late: std::collections::BTreeSet<_> = (0..8).map(|_| backoff.next()).collect();
            prop_assert!(late.len() > 1, "no jitter");
            backoff.reset();
            prop_assert!(backoff.next() <= Backoff::FIRST);
        }
    }

    #[test]
    fn making_is_a_property_of_the_thread() {
        assert!(!Making::is_nested());
        let outer = Making::begin();
        let inner = Making::begin();
        drop(inner);
        assert!(Making::is_nested());
        sync::thread::spawn(|| assert!(!Making::is_nested())).join().unwrap();
        let _ = std::panic::catch_unwind(|| {
            let _inner = Making::begin();
            std::panic::resume_unwind(Box::new(()));
        });
        drop(outer);
        assert!(!Making::is_nested());
    }
}
