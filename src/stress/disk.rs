//! A small file system for a run alone, so that its disk can be filled and nobody else's is.
//!
//! ```text
//!   own mount namespace:  ROOT/disk = tmpfs of so many bytes ── cache/   what the run is about
//!                                                            ├─ spare/   damaged copies, before they are put in place
//!                                                            └─ filler   now and then: all that is free
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Mounts a file system of `bytes` at `dir`, for this process and those that it starts.
///
/// To be called while the process has one thread.
pub(super) fn mount_small(dir: &Path, bytes: u64) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let own =
        if user == 0 { UnshareFlags::NEWNS } else { UnshareFlags::NEWUSER | UnshareFlags::NEWNS };
    // SAFETY: neither flag concerns memory or descriptors that other code relies on.
    unsafe { unshare_unsafe(own) }?;
    if user != 0 {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let data = std::ffi::CString::new(format!("size={bytes},mode=700")).expect("it has no NUL");
    mount("none", dir, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, data.as_c_str())?;
    Ok(())
}

/// What takes all that is free.
#[derive(Debug)]
pub(super) struct Filler(PathBuf);

impl Filler {
    pub(super) fn new(disk: &Path) -> Filler {
        Filler(disk.join("filler"))
    }

    /// Leaves nothing free.
    pub(super) fn fill(&self) -> io::Result<()> {
        let file = File::create(&self.0)?;
        let mut length = 0;
        loop {
            let free = statvfs(&self.0)?;
            let bytes = free.f_bavail * free.f_frsize;
            if bytes == 0 {
                return Ok(());
            }
            // Others take and give back meanwhile: what could not be had in one piece is asked for in halves.
            let mut wanted = bytes;
            while fallocate(&file, FallocateFlags::empty(), length, wanted).is_err() {
                wanted /= 2;
                if wanted < free.f_frsize {
                    return Ok(());
                }
            }
            length += wanted;
        }
    }

    /// Gives it back.
    pub(super) fn empty(&self) {
        let _ = fs::remove_file(&self.0);
    }
}
