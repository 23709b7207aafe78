//! All records at once: counting, clearing, keeping to the size limit.
//!
//! Nothing here stops anyone. What a scan saw may be gone when it is looked at again, which is no error, and
//! a record that is removed while someone reads it is read to its end.

use std::io;

use super::name::{Name, TEMPORARY, is_hex, record_key, tree};
use super::{Failure, Large, Lookup, Place, modified_s};
use crate::key::Key;
use crate::store::disk::fs::{FileKind, Fs, FsClass, Stat};
use crate::store::disk::record::Kind;
use crate::store::disk::usage::{Entry, Usage, Verified};
use crate::sync::Ordering;

/// A temporary file of this age belongs to nobody any more.
const ORPHAN_S: u64 = 3600;
/// Cleaning up is considered every time this fraction of the limit was written, on average.
const CHECKS_PER_LIMIT: u64 = 32;

impl<F: Fs> Large<F> {
    /// Calls `visit` for each file that has a record's name. What vanishes meanwhile is left out; what comes
    /// may be.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Entry)) {
        self.scan(|_, item| {
            if let Item::Record { key, kind, stat } = item {
                visit(Entry {
                    key,
                    kind,
                    length: stat.length,
                    allocated: stat.allocated,
                    used_s: modified_s(&stat),
                });
            }
        });
    }

    /// What lies in the directory.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.scan(|_, item| match item {
            Item::Record { kind, stat, .. } => usage.of(kind).add(&stat),
            Item::Temporary { stat } => usage.temporary.add(&stat),
        });
        usage.occupied = usage.bytes();
        usage
    }

    /// Removes every entry that was there when this began, and orphaned temporary files; says what it
    /// removed. Others may go on working: folders and lock files stay, and so do records being written.
    pub(crate) fn clear(&self) -> Result<Usage, Failure> {
        self.writable()?;
        let mut removed = Usage::default();
        let now = self.fs().unix_seconds();
        self.scan(|place, item| match item {
            Item::Record { kind, stat, .. } => {
                if self.unlink(&place) {
                    removed.of(kind).add(&stat);
                }
            }
            Item::Temporary { stat } => {
                if is_orphan(&stat, now) && self.unlink(&place) {
                    removed.temporary.add(&stat);
                }
            }
        });
        Ok(removed)
    }

    /// Removes orphaned temporary files and, if everything together is over the limit, the entries that were
    /// used least recently, down to nine tenths of it. Says what it removed: nothing if another thread or
    /// process is at it.
    pub(crate) fn clean(&self) -> Usage {
        let process = self.fs().process();
        if self.cleaner.swap(process, Ordering::Acquire) == process {
            return Usage::default();
        }
        let guard = match self.root.held().class {
            // Locks of network file systems may wait where they should not.
            FsClass::Foreign => Ok(None),
            _ => self.cleaning.try_lock().map(Some),
        };
        let removed = match guard {
            Ok(Some(None)) => Usage::default(),
            Ok(_guard) => self.clean_alone(),
            Err(error) => {
                // The lock only saves work: two who clean up at once disturb nobody. And it has to work
                // where there is no space for a lock file.
                self.failure(error, "locking for a clean-up");
                self.clean_alone()
            }
        };
        self.cleaner.store(0, Ordering::Release);
        removed
    }

    fn clean_alone(&self) -> Usage {
        self.keep_to(self.max_size, self.max_size / 10 * 9, None)
    }

    /// Removes orphaned temporary files, entries that were not used for `unused_s` seconds and, if what is left
    /// is over `limit`, those that were used least recently, down to `goal`. Says what it removed.
    pub(crate) fn prune(&self, limit: u64, unused_s: Option<u64>) -> Result<Usage, Failure> {
        self.writable()?;
        Ok(self.keep_to(limit, limit, unused_s))
    }

    /// Reads every record, and removes those that are damaged. `step` is told how many are done, and of how
    /// many.
    pub(crate) fn verify(&self, mut step: impl FnMut(usize, usize)) -> Result<Verified, Failure> {
        let mut entries = Vec::new();
        self.for_each(|entry| entries.push(entry));
        let mut verified = Verified::default();
        for (done, entry) in entries.iter().enumerate() {
            step(done, entries.len());
            match self.look_at(&Name::new(entry.kind, &entry.key)) {
                Lookup::Hit(found) => {
                    verified.whole += 1;
                    verified.bytes += found.bytes.len() as u64;
                }
                // Not read is not damaged.
                Lookup::Miss(reason) if !reason.is_damage() => {}
                Lookup::Miss(_) => {
                    verified.damaged += 1;
                    // Where it may not be removed it goes on being a miss.
                    let _ = self.remove(&entry.key, entry.kind);
                }
            }
        }
        step(entries.len(), entries.len());
        Ok(verified)
    }

    fn keep_to(&self, limit: u64, goal: u64, unused_s: Option<u64>) -> Usage {
        let now = self.fs().unix_seconds();
        let (mut removed, mut kept) = (Usage::default(), 0);
        let mut entries = Vec::new();
        self.scan(|place, item| match item {
            Item::Record { kind, stat, .. }
                if unused_s.is_some_and(|most| now.saturating_sub(modified_s(&stat)) > most) =>
            {
                if self.unlink(&place) {
                    removed.of(kind).add(&stat);
                }
            }
            Item::Record { key, kind, stat } => {
                kept += stat.allocated;
                entries.push((stat.modified_ns, stat.allocated, key, kind));
            }
            Item::Temporary { stat } if is_orphan(&stat, now) => {
                if self.unlink(&place) {
                    removed.temporary.add(&stat);
                }
            }
            Item::Temporary { stat } => kept += stat.allocated,
        });
        if kept <= limit {
            return removed;
        }
        entries.sort_unstable_by_key(|&(modified, _, key, _)| (modified, key));
        let held = self.root.held();
        let Some(space) = &held.space else { return removed };
        for (modified, allocated, key, kind) in entries {
            if kept <= goal {
                break;
            }
            let name = Name::new(kind, &key);
            let Ok(dir) = self.fs().open_dir(space, name.folder()) else { continue };
            let place = Place { dir: &dir, name: name.file() };
            // Looked at again, as it may have been used or replaced since the scan.
            match self.fs().stat_at(place.dir, place.name) {
                Ok(stat) if stat.modified_ns == modified => {
                    if self.unlink(&place) {
                        removed.of(kind).add(&stat);
                        kept -= allocated;
                    }
                }
                Ok(_) => {}
                Err(_) => kept -= allocated,
            }
        }
        removed
    }

    /// Cleans up now and then: after a put of n bytes with the probability n / (limit / 32). All processes
    /// together so check about once per 32nd of the limit written, without keeping count anywhere.
    pub(super) fn consider_cleaning(&self, written: u64) {
        let step = (self.max_size / CHECKS_PER_LIMIT).max(1);
        let mut word = [0; 8];
        word.copy_from_slice(&self.fs().random()[..8]);
        let uniform = (u128::from(u64::from_le_bytes(word)) * u128::from(step)) >> 64;
        if uniform < u128::from(written.next_multiple_of(4096)) {
            self.clean();
        }
    }

    /// Visits every file that is ours. Stray ones are left out, and alone.
    fn scan(&self, mut visit: impl FnMut(Place<'_, F::Handle>, Item)) {
        let fs = self.fs();
        let held = self.root.held();
        let held = self.root.moved_on(&held).unwrap_or(held);
        let Some(space) = &held.space else { return };
        for kind in Kind::ALL {
            let tree = match fs.open_dir(space, tree(kind)) {
                Ok(tree) => tree,
                Err(error) => {
                    self.unless_gone(error);
                    continue;
                }
            };
            for fan_out in self.list(&tree) {
                if fan_out.len() != 2 || !is_hex(&fan_out) {
                    continue;
                }
                let dir = match fs.open_dir(&tree, &fan_out) {
                    Ok(dir) => dir,
                    Err(error) => {
                        self.unless_gone(error);
                        continue;
                    }
                };
                for name in self.list(&dir) {
                    let place = Place { dir: &dir, name: &name };
                    let key = record_key(&fan_out, &name);
                    if key.is_none() && !name.starts_with(TEMPORARY) {
                        continue;
                    }
                    match fs.stat_at(&dir, &name) {
                        Ok(stat) if stat.kind == FileKind::File => {
                            let item = match key {
                                Some(key) => Item::Record { key, kind, stat },
                                None => Item::Temporary { stat },
                            };
                            visit(place, item);
                        }
                        Ok(_) => {}
                        Err(error) => self.unless_gone(error),
                    }
                }
            }
        }
    }

    fn list(&self, dir: &F::Handle) -> Vec<String> {
        self.fs().list(dir).unwrap_or_else(|error| {
            self.unless_gone(error);
            Vec::new()
        })
    }

    fn unless_gone(&self, error: io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.failure(error, "listing records");
        }
    }
}

/// What a scan meets.
enum Item {
    Record { key: Key, kind: Kind, stat: Stat },
    Temporary { stat: Stat },
}

fn is_orphan(stat: &Stat, now: u64) -> bool {
    now.saturating_sub(modified_s(stat)) > ORPHAN_S
}
