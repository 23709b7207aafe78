//! What one process's store did: counters on the hot paths, counts by reason on the rare ones, and one
//! JSON line when the store closes.
//!
//! A reason is a short, stable name such as `checksum` or `no-space`. The first time one is met it is
//! also logged, with its detail; after that it is only counted, so that a bad directory cannot flood a log.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crossbeam::utils::CachePadded;
use serde::Serialize;

use crate::store::Origin;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};

/// The counters of a store since it was opened, in this process alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Records found in this process's memory.
    pub memory: u64,
    /// Records found in the cache directory.
    pub disk: u64,
    /// Records found in the shared tier.
    pub remote: u64,
    /// Records that another thread or process was making, and that were waited for.
    pub waited: u64,
    /// Records made here.
    pub made: u64,
    /// Lookups that found nothing anywhere.
    pub missed: u64,
    /// Records published by this process: made, and the first of their key.
    pub published: u64,
    /// Records that were found and then made again to be compared.
    pub audited: u64,
    /// Time spent in makers, in microseconds, all threads together.
    pub us_make: u64,
    /// Time spent waiting for other makers, in microseconds, all threads together.
    pub us_wait: u64,
    /// Everything out of the ordinary, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl Stats {
    /// The share of requests that were answered without making, from 0 to 1; 0 before the first.
    pub fn hit_rate(&self) -> f64 {
        let hits = self.memory + self.disk + self.remote + self.waited;
        let all = hits + self.made;
        if all == 0 { 0.0 } else { hits as f64 / all as f64 }
    }
}

/// The line that a process leaves behind.
#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    pid: u32,
    run: Option<String>,
    test: Option<String>,
    #[serde(flatten)]
    stats: &'a Stats,
}

impl Stats {
    /// Appends one JSON line to `file`: schema, process, the test runner's run and test if it names them, and
    /// every counter. Lines of processes that end together do not mix. A file that cannot be written is
    /// logged, nothing more.
    pub fn append_to(&self, file: &Path) {
        let named = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok());
        let line = Line {
            schema: 1,
            pid: std::process::id(),
            run: named(&["NEXTEST_RUN_ID", "PYTEST_XDIST_TESTRUNUID"]),
            test: named(&["NEXTEST_TEST_NAME", "PYTEST_CURRENT_TEST"]),
            stats: self,
        };
        let mut text = serde_json::to_string(&line).expect("plain data encodes");
        text.push('\n');
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, file = %file.display(), "the counters were not written");
        }
    }
}

/// The counters as the store keeps them.
#[derive(Default)]
pub(crate) struct Counters {
    /// Threads do not fight over them: each adds to a line of its own, or shares one with few.
    stripes: [CachePadded<Counts>; STRIPES],
    reasons: Mutex<BTreeMap<&'static str, u64>>,
}

const STRIPES: usize = 8;

#[derive(Default)]
struct Counts {
    memory: AtomicU64,
    disk: AtomicU64,
    remote: AtomicU64,
    waited: AtomicU64,
    made: AtomicU64,
    missed: AtomicU64,
    published: AtomicU64,
    audited: AtomicU64,
    us_make: AtomicU64,
    us_wait: AtomicU64,
}

impl Counters {
    /// Counts a request that was answered.
    pub(crate) fn answered(&self, origin: Origin) {
        self.add(1, |counts| match origin {
            Origin::Memory => &counts.memory,
            Origin::Disk => &counts.disk,
            Origin::Remote => &counts.remote,
            Origin::Waited => &counts.waited,
            Origin::Made => &counts.made,
        });
    }

    /// Counts a lookup that found nothing.
    pub(crate) fn missed(&self) {
        self.add(1, |counts| &counts.missed);
    }

    /// Counts a record that this process was the first to publish.
    pub(crate) fn published(&self) {
        self.add(1, |counts| &counts.published);
    }

    /// Counts a record that was made again to be compared.
    pub(crate) fn audited(&self) {
        self.add(1, |counts| &counts.audited);
    }

    /// Adds time spent in a maker.
    pub(crate) fn made_in(&self, time: Duration) {
        self.add(micros(time), |counts| &counts.us_make);
    }

    /// Adds time spent waiting for another maker.
    pub(crate) fn waited_for(&self, time: Duration) {
        self.add(micros(time), |counts| &counts.us_wait);
    }

    /// Counts something out of the ordinary, and logs the first of its reason.
    pub(crate) fn reason(&self, reason: &'static str, detail: impl fmt::Display) {
        let count = {
            let Some(mut reasons) = self.reasons.lock_soon() else { return };
            let count = reasons.entry(reason).or_default();
            *count += 1;
            *count
        };
        if count == 1 {
            tracing::warn!(reason, "{detail}");
        } else {
            tracing::trace!(reason, count, "{detail}");
        }
    }

    /// The counters as they stand; those of other threads may be a little behind each other.
    pub(crate) fn snapshot(&self) -> Stats {
        let sum = |of: fn(&Counts) -> &AtomicU64| {
            let counts = self.stripes.iter().map(|stripe| of(stripe).load(Ordering::Relaxed));
            counts.fold(0, u64::wrapping_add)
        };
        Stats {
            memory: sum(|counts| &counts.memory),
            disk: sum(|counts| &counts.disk),
            remote: sum(|counts| &counts.remote),
            waited: sum(|counts| &counts.waited),
            made: sum(|counts| &counts.made),
            missed: sum(|counts| &counts.missed),
            published: sum(|counts| &counts.published),
            audited: sum(|counts| &counts.audited),
            us_make: sum(|counts| &counts.us_make),
            us_wait: sum(|counts| &counts.us_wait),
            reasons: self.reasons.lock_soon().map(|reasons| reasons.clone()).unwrap_or_default(),
        }
    }

    fn add(&self, n: u64, to: impl FnOnce(&Counts) -> &AtomicU64) {
        to(&self.stripes[stripe()]).fetch_add(n, Ordering::Relaxed);
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(not(any(loom, shuttle)))]
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    MINE.with(|mine| *mine)
}

#[cfg(any(loom, shuttle))]
fn stripe() -> usize {
    0
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| (0..100).for_each(|_| counters.answered(Origin::Disk)));
            }
        });
        let stats = counters.snapshot();
        assert_eq!(stats.disk, 200 * STRIPES as u64);
        assert_eq!((stats.memory, stats.hit_rate()), (0, 1.0));
    }

    #[test]
    fn reasons_are_counted_by_name() {
        let counters = Counters::default();
        counters.reason("no-space", "first");
        counters.reason("no-space", "second");
        counters.reason("checksum", "other");
        assert_eq!(counters.snapshot().reasons, BTreeMap::from([("checksum", 1), ("no-space", 2)]));
    }
}
