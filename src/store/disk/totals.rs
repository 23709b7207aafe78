//! What all processes did together: each adds its counters to one small file when it closes its store.
//!
//! ```text
//!   close ──► lock it, for a moment ──► one line more                       readers take no lock, and add up the lines
//!                                  └──► too long: the sum, written aside ──► rename
//! ```
//!
//! To rename a file over another makes ext4 write it to the disk first, which takes longer than to open a store and get a
//! record; so that is done once in a hundred times or so.
//!
//! Nothing is counted here while a store is open, so that a hit costs nothing. Who is killed, or never closes its store,
//! is not in it; nor is who finds the lock taken for too long. It is for people to read and nothing is decided by it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::format::{META, META_LEN, Malformed, Meta, Name};
use super::fs::{Access, Fs};
use super::root::Root;
use super::shard::trusted;
use crate::stats::Stats;
use crate::sync;

/// The name of the file.
pub(crate) const TOTALS: &str = "totals.json";
/// No such file is as long.
const LONGEST: usize = 64 << 10;
/// One that would become longer is replaced by its sum.
const LONG: u64 = 32 << 10;
/// How often the lock is tried for, a millisecond apart.
const TRIES: usize = 50;

/// What the processes did that used a cache directory and closed their stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Totals {
    /// When the first of them closed its store, in seconds since 1970; 0 if none did.
    pub since_s: u64,
    /// How many stores were closed after they were used.
    pub stores: u64,
    /// Records found in a process's memory.
    pub memory: u64,
    /// Records found in the directory.
    pub disk: u64,
    /// Records found in the shared tier.
    pub remote: u64,
    /// Records that another was making, and that were waited for.
    pub waited: u64,
    /// Records made.
    pub made: u64,
    /// Lookups that found nothing anywhere.
    pub missed: u64,
    /// Records published.
    pub published: u64,
    /// Time spent in makers, in microseconds.
    pub us_make: u64,
    /// Time spent waiting for other makers, in microseconds.
    pub us_wait: u64,
    /// Everything out of the ordinary, by reason.
    pub reasons: BTreeMap<String, u64>,
}

impl Totals {
    /// The share of requests that were answered without making, from 0 to 1; none before the first.
    pub fn hit_rate(&self) -> Option<f64> {
        let hits = [self.memory, self.disk, self.remote, self.waited]
            .into_iter()
            .fold(0, u64::saturating_add);
        let all = hits.saturating_add(self.made);
        (all > 0).then(|| hits as f64 / all as f64)
    }

    /// What one store did that is closed now.
    fn of(stats: &Stats, now_s: u64) -> Self {
        let reasons = stats.reasons.iter().map(|(reason, count)| ((*reason).to_string(), *count));
        Totals {
            since_s: now_s,
            stores: 1,
            memory: stats.memory,
            disk: stats.disk,
            remote: stats.remote,
            waited: stats.waited,
            made: stats.made,
            missed: stats.missed,
            published: stats.published,
            us_make: stats.us_make,
            us_wait: stats.us_wait,
            reasons: reasons.collect(),
        }
    }

    fn add(&mut self, more: Totals) {
        let pairs = [
            (&mut self.stores, more.stores),
            (&mut self.memory, more.memory),
            (&mut self.disk, more.disk),
            (&mut self.remote, more.remote),
            (&mut self.waited, more.waited),
            (&mut self.made, more.made),
            (&mut self.missed, more.missed),
            (&mut self.published, more.published),
            (&mut self.us_make, more.us_make),
            (&mut self.us_wait, more.us_wait),
        ];
        for (total, more) in pairs {
            *total = total.saturating_add(more);
        }
        for (reason, more) in more.reasons {
            let total = self.reasons.entry(reason).or_default();
            *total = total.saturating_add(more);
        }
        let known = [self.since_s, more.since_s].into_iter().filter(|since| *since > 0);
        self.since_s = known.min().unwrap_or(0);
    }

    /// The sum of the lines; those that are none of ours count for nothing.
    fn sum(lines: &[u8]) -> Self {
        let mut sum = Totals::default();
        let lines = lines.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).for_each(|line| sum.add(line));
        sum
    }
}

/// What the file of this directory says; nothing if there is none, or it is damaged.
pub(crate) fn read<F: Fs>(root: &Root<F>) -> Totals {
    let held = root.held();
    let text = held.space.as_ref().and_then(|space| {
        let (file, stat) = trusted::open_file(root, space, TOTALS, Access::Read).ok()?;
        let length = usize::try_from(stat.length).ok().filter(|length| *length <= LONGEST)?;
        root.fs().read_new(&file, length, 0).ok()
    });
    text.map(|text| Totals::sum(&text)).unwrap_or_default()
}

/// Adds what a store did. What stands in the way is no one's concern. `known` says that the directory is of this version.
pub(crate) fn add<F: Fs>(root: &Root<F>, stats: &Stats, known: bool) {
    // In a directory that a hand removed nothing can be made, and it is not made again to say what was done in it.
    if *stats != Stats::default() {
        let _ = try_add(root, stats, known);
    }
}

/// Whether a newer version says how things are in this directory: then nothing in it is changed.
fn is_newer<F: Fs>(root: &Root<F>, space: &F::Handle) -> bool {
    let Ok((file, _)) = trusted::open_file(root, space, META, Access::Read) else { return false };
    let mut bytes = [0; META_LEN];
    let read = root.fs().read_at(&file, &mut bytes, 0).unwrap_or(0);
    Meta::parse(&bytes[..read]) == Err(Malformed::Format)
}

/// Whether they were added: not where they may not be, nor while others have the lock for too long.
fn try_add<F: Fs>(root: &Root<F>, stats: &Stats, known: bool) -> io::Result<bool> {
    let fs = root.fs();
    let held = root.held();
    let Some(space) = held.space.as_ref().filter(|_| held.writable) else { return Ok(false) };
    if !known && is_newer(root, space) {
        return Ok(false);
    }
    // Closed, and so unlocked, at the end.
    let Some((file, length)) = locked(root, space)? else { return Ok(false) };
    let mut totals = Totals::of(stats, fs.unix_seconds());
    // Begun with a line's end, so that it stands alone whatever a crash left before it.
    let mut text = b"\n".to_vec();
    serde_json::to_writer(&mut text, &totals).map_err(io::Error::other)?;
    if length + text.len() as u64 <= LONG {
        return fs.write_all_at(&file, &text, length).map(|()| true);
    }
    totals.add(read(root));
    let text = serde_json::to_vec(&totals).map_err(io::Error::other)?;
    let temporary = Name::temporary(fs.random());
    let sum = fs.open(space, &temporary, Access::CreateNew)?;
    let named =
        fs.write_all_at(&sum, &text, 0).and_then(|()| fs.rename(space, &temporary, space, TOTALS));
    named.inspect_err(|_| drop(fs.unlink(space, &temporary))).map(|()| true)
}

/// The file that has the name, locked, and its length. One that was replaced while it was waited for has no name any more, and
/// what has it is locked in its place.
fn locked<F: Fs>(root: &Root<F>, space: &F::Handle) -> io::Result<Option<(F::Handle, u64)>> {
    let fs = root.fs();
    let mut file = fs.open(space, TOTALS, Access::Ensure)?;
    for _ in 0..TRIES {
        if !fs.try_lock(&file)? {
            sync::sleep(Duration::from_millis(1));
            continue;
        }
        let stat = fs.stat(&file)?;
        if stat.links > 0 {
            // What may not be trusted is replaced, as what is too long.
            let trusted = trusted::judge_file(root, &stat).is_ok();
            return Ok(Some((file, if trusted { stat.length } else { LONG })));
        }
        file = fs.open(space, TOTALS, Access::Ensure)?;
    }
    Ok(None)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::store::disk::testing::{again, role, root, test_path};
    use crate::store::disk::trust::SPACE;

    const PROCESSES: u64 = 4;
    // Enough for all processes to be at it at once.
    const STORES: u64 = 500;

    fn done() -> Stats {
        let reasons = BTreeMap::from([("checksum", 2)]);
        Stats { disk: 3, made: 1, us_make: 50, reasons, ..Stats::default() }
    }

    /// Mutant seen killed: the lock not taken.
    #[test]
    fn no_process_loses_what_another_adds() {
        let test = test_path!(no_process_loses_what_another_adds);
        if let Some((_, dir)) = role() {
            let root = root(dir);
            for _ in 0..STORES {
                // A slow machine makes those wait long who take turns.
                let added = (0..1000).any(|_| try_add(&root, &done(), false).unwrap());
                assert!(added, "the lock is never free");
            }
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("cache");
        let root = root(&dir);
        let mut started: Vec<_> =
            (0..PROCESSES).map(|_| again(test, "add", &dir).spawn().unwrap()).collect();
        // A reader sees the counts of whole additions, and more of them each time.
        let mut last = 0;
        while started.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
            let totals = read(&root);
            assert!(totals.disk == 3 * totals.stores && totals.stores >= last, "{totals:?}");
            last = totals.stores;
        }
        let totals = read(&root);
        assert_eq!(totals.stores, PROCESSES * STORES);
        assert_eq!((totals.made, totals.us_make), (totals.stores, 50 * totals.stores));
        assert_eq!(totals.reasons["checksum"], 2 * totals.stores);
        assert_eq!(totals.hit_rate(), Some(0.75));
        assert!(totals.since_s > 0);
        let names =
            std::fs::read_dir(dir.join(SPACE)).unwrap().map(|name| name.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, [TOTALS]);
    }

    /// Mutant seen killed: the lines before it left out of the sum that takes their place.
    #[test]
    fn a_long_file_is_replaced_by_its_sum() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("cache");
        let root = root(&dir);
        let (mut last, mut shorter) = (0, 0);
        for n in 1..=600 {
            assert!(try_add(&root, &done(), false).unwrap());
            assert_eq!((read(&root).stores, read(&root).disk), (n, 3 * n));
            let length = std::fs::metadata(dir.join(SPACE).join(TOTALS)).unwrap().len();
            assert!(length <= LONG);
            shorter += usize::from(length < last);
            last = length;
        }
        assert!(shorter > 1, "it was replaced {shorter} times");
    }

    /// What a crash left of the last line is no one's. Mutant seen killed: a line that does not begin with a line's end.
    #[test]
    fn half_a_line_costs_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("cache");
        let root = root(&dir);
        let path = dir.join(SPACE).join(TOTALS);
        add(&root, &done(), false);
        let one = std::fs::read(&path).unwrap();
        for cut in 1..one.len() {
            std::fs::write(&path, [&one[..], &one[..cut]].concat()).unwrap();
            assert_eq!(read(&root).stores, 1);
            add(&root, &done(), false);
            assert_eq!(read(&root).stores, 2, "cut at {cut}");
        }
    }

    /// Mutant seen killed: a sum that overflows.
    #[test]
    fn any_file_will_do_and_none_is_made_where_nothing_is() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("cache");
        let root = root(&dir);
        add(&root, &Stats::default(), false);
        assert!(!dir.join(SPACE).join(TOTALS).exists(), "nothing was done");
        let texts = [
            "",
            "{",
            "[1]",
            "{\"disk\":-1}",
            "{\"since_s\":7,\"disk\":18446744073709551615,\"new\":[]}",
        ];
        for text in texts.map(String::from).into_iter().chain([" ".repeat(1 << 20)]) {
            std::fs::write(dir.join(SPACE).join(TOTALS), &text).unwrap();
            add(&root, &done(), false);
            let totals = read(&root);
            let known = text.contains("since_s");
            let expected = if known { (u64::MAX, 7) } else { (3, totals.since_s) };
            assert_eq!((totals.disk, totals.since_s, totals.stores), (expected.0, expected.1, 1));
        }
        std::fs::remove_dir_all(&dir).unwrap();
        add(&root, &done(), false);
        assert!(!dir.exists());
    }
}
