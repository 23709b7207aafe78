//! The id of the calling process, without a system call.
//!
//! Guards, claims and turns belong to the process that took them, so each asks for it, several times for every
//! record that is published. The id is kept in a page that the kernel hands a forked child empty
//! (`MADV_WIPEONFORK`), whichever way the child was made: there it is asked for anew.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use std::sync::atomic::AtomicU32;

use crate::sync::{MappedU64, OnceLock, Ordering};

const PAGE: usize = 4096;

/// The first so many calls ask: who looks for a record or two has no use for a page.
const ASKED: u32 = 4;

/// The id of the calling process.
pub(super) fn id() -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let calls = CALLS.load(Ordering::Relaxed);
    if calls < ASKED {
        CALLS.store(calls + 1, Ordering::Relaxed);
        return ask();
    }
    static KEPT: OnceLock<Option<&'static MappedU64>> = OnceLock::new();
    let Some(kept) = KEPT.get_or_init(wiped_on_fork) else { return ask() };
    match kept.load(Ordering::Relaxed) {
        0 => {
            let id = ask();
            kept.store(id.into(), Ordering::Relaxed);
            id
        }
        id => id as u32,
    }
}

fn ask() -> u32 {
    rustix::process::getpid().as_raw_pid().cast_unsigned()
}

/// A word that is 0 in every process that has not written it; none where the kernel has no such pages.
fn wiped_on_fork() -> Option<&'static MappedU64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // It is written at once: no fault for it.
    let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
    // SAFETY: a new mapping, at an address of the kernel's choice, takes no memory that anyone has.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, access, flags) }.ok()?;
    // SAFETY: the page is ours alone and nothing is in it yet.
    unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: a page is aligned for a word, is never unmapped, and is reached through this reference alone; a child
    // finds zeros in it, which are a valid word.
    Some(unsafe { MappedU64::from_ptr(page.cast()) })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use nix::libc;

    use super::*;

    /// Mutant seen killed: no `madvise`; the child takes its parent's id for its own.
    #[test]
    fn a_forked_child_has_an_id_of_its_own() {
        for _ in 0..=ASKED {
            assert_eq!(id(), std::process::id());
        }
        assert_eq!(id(), std::process::id(), "the kept one");
        // SAFETY: the child makes two system calls and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = id() == ask() && id() == ask();
            // SAFETY: ends the process; nothing of it is run down.
            unsafe { libc::_exit(i32::from(!right)) }
        }
        let child = rustix::process::Pid::from_raw(child);
        let ended = rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
        assert_eq!(ended.unwrap().unwrap().1.exit_status(), Some(0));
        assert_eq!(id(), std::process::id());
    }
}
