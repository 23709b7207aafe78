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
    memory: Striped,
    disk: Striped,
    remote: Striped,
    waited: Striped,
    made: Striped,
    missed: Striped,
    published: Striped,
    audited: Striped,
    us_make: Striped,
    us_wait: Striped,
    reasons: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    /// Counts a request that was answered.
    pub(crate) fn answered(&self, origin: Origin) {
        match origin {
            Origin::Memory => &self.memory,
            Origin::Disk => &self.disk,
            Origin::Remote => &self.remote,
            Origin::Waited => &self.waited,
            Origin::Made => &self.made,
        }
        .add(1);
    }

    /// Counts a lookup that found nothing.
    pub(crate) fn missed(&self) {
        self.missed.add(1);
    }

    /// Counts a record that this process was the first to publish.
    pub(crate) fn published(&self) {
        self.published.add(1);
    }

    /// Counts a record that was made again to be compared.
    pub(crate) fn audited(&self) {
        self.audited.add(1);
    }

    /// Adds time spent in a maker.
    pub(crate) fn made_in(&self, time: Duration) {
        self.us_make.add(micros(time));
    }

    /// Adds time spent waiting for another maker.
    pub(crate) fn waited_for(&self, time: Duration) {
        self.us_wait.add(micros(time));
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
        Stats {
            memory: self.memory.sum(),
            disk: self.disk.sum(),
            remote: self.remote.sum(),
            waited: self.waited.sum(),
            made: self.made.sum(),
            missed: self.missed.sum(),
            published: self.published.sum(),
            audited: self.audited.sum(),
            us_make: self.us_make.sum(),
            us_wait: self.us_wait.sum(),
            reasons: self.reasons.lock_soon().map(|reasons| reasons.clone()).unwrap_or_default(),
        }
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

const STRIPES: usize = 8;

/// A counter that threads do not fight over: each adds to a line of its own, or shares one with few.
#[derive(Default)]
struct Striped([CachePadded<AtomicU64>; STRIPES]);

impl Striped {
    fn add(&self, n: u64) {
        self.0[stripe()].fetch_add(n, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
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
