//! The cache directory as a process holds it: opened once, and again when someone removed it by hand.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::fs::Fs;
use super::reason::{Counters, Reason};
use super::trust::{self, Opened, Purpose, Refusal};
use crate::sync::fork::SetOnce;
use crate::sync::{Arc, Mutex};

/// A directory that passed [`trust::open`], the file system it is on, and the counters of what went wrong
/// there. The parts of the disk tier share one.
///
/// It may be removed at any time. Whoever finds something missing asks [`current`](Self::current), which
/// sees by name and (device, inode) that the held directory is no longer the one at the path, and opens
/// that.
#[derive(Debug)]
pub(crate) struct Root<F: Fs> {
    fs: F,
    path: PathBuf,
    purpose: Purpose,
    /// The directory as it was opened first, for a forked child that cannot have the lock.
    first: Arc<Opened<F::Handle>>,
    /// Locked to take or replace the handle only, never during a system call: a forked child of a process
    /// with threads finds it free.
    held: Mutex<Arc<Opened<F::Handle>>>,
    counters: Counters,
    boot: SetOnce<[u8; 16]>,
}

impl<F: Fs> Root<F> {
    pub(crate) fn open(fs: F, path: &Path, purpose: Purpose) -> Result<Arc<Self>, Refusal> {
        let opened = trust::open(&fs, path, purpose, true)?;
        // The working directory may change before the directory is opened again.
        let path = trust::absolute(path).map_or_else(|_| path.to_owned(), Cow::into_owned);
        let first = Arc::new(opened);
        let held = Mutex::new(first.clone());
        let (counters, boot) = (Counters::default(), SetOnce::new());
        Ok(Arc::new(Root { fs, path, purpose, first, held, counters, boot }))
    }

    pub(crate) fn fs(&self) -> &F {
        &self.fs
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The user as whom the directory was judged: what lies in it has to belong to the same.
    pub(crate) fn user(&self) -> u32 {
        self.first.user
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The machine's boot, asked for once: by who writes, and by no one who only reads.
    pub(crate) fn boot_id(&self) -> [u8; 16] {
        *self.boot.get().unwrap_or_else(|| self.boot.set(self.fs.boot_id()))
    }

    /// Another boot than the machine's. Only before anybody asked.
    #[cfg(test)]
    pub(crate) fn pretend_boot(&self, boot: [u8; 16]) {
        assert_eq!(*self.boot.set(boot), boot);
    }

    /// The directory as it was opened last; nothing says that it is still there.
    pub(crate) fn held(&self) -> Arc<Opened<F::Handle>> {
        self.held.lock_soon().map_or_else(|| self.first.clone(), |held| held.clone())
    }

    /// The directory that is at the path now. One that has gone is made anew if it may be.
    pub(crate) fn current(&self) -> Result<Arc<Opened<F::Handle>>, Refusal> {
        let held = self.held();
        if self.is_current(&held) {
            return Ok(held);
        }
        match trust::open(&self.fs, &self.path, self.purpose, true) {
            Ok(opened) => {
                let opened = Arc::new(opened);
                self.held.try_set(opened.clone());
                Ok(opened)
            }
            Err(refusal) => {
                self.counters.count(refusal.cause.reason(), &refusal.to_string());
                Err(refusal)
            }
        }
    }

    /// As [`current`](Self::current) for someone who misses something in `held` and only reads: makes
    /// nothing, and is `None` if looking again is of no use.
    pub(crate) fn moved_on(&self, held: &Opened<F::Handle>) -> Option<Arc<Opened<F::Handle>>> {
        if self.is_current(held) {
            return None;
        }
        let opened = trust::open(&self.fs, &self.path, self.purpose, false).ok()?;
        opened.space.as_ref()?;
        let opened = Arc::new(opened);
        self.held.try_set(opened.clone());
        Some(opened)
    }

    /// Whether the directory that is at the path now has this file in its space, under this name. If so, it is `held`:
    /// one system call for what could be asked of the directory, the space and the name one by one.
    ///
    /// A link on the way does no harm here: the file at its end is one that was judged when it was opened.
    pub(crate) fn leads_to(
        &self,
        held: &Opened<F::Handle>,
        name: &str,
        identity: (u64, u64),
    ) -> bool {
        // Of one piece: this is asked several times for every record that is published.
        let path = [held.name.as_str(), "/", trust::SPACE, "/", name].concat();
        self.fs.stat_at(&held.parent, &path).is_ok_and(|stat| stat.identity() == identity)
    }

    fn is_current(&self, held: &Opened<F::Handle>) -> bool {
        let identity = |at, name: &str| self.fs.stat_at(at, name).ok().map(|stat| stat.identity());
        if held.space_identity.is_some() {
            let space = format!("{}/{}", held.name, trust::SPACE);
            return identity(&held.parent, &space) == held.space_identity;
        }
        identity(&held.parent, &held.name) == Some(held.root_identity)
            && identity(&held.root, trust::SPACE).is_none()
    }

    /// Counts a failure and gives it back.
    pub(crate) fn failed(&self, reason: Reason, doing: &str) -> Reason {
        self.counters.count(reason, doing);
        reason
    }
}
