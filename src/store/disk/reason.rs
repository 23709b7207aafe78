//! Why the disk tier did not do what it was asked: one list for all of it, and a counter for each.
//!
//! No failure here reaches a caller as more than a miss or an unpublished record, so these counters are
//! all that tells a slow cache from a broken one.

use std::io;

use super::record::Damage;
use crate::sync::{AtomicU64, Ordering};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A reason, with a name that reports and scripts may rely on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Reason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Reason {
            /// Every reason, in the order of the counters.
            pub(crate) const ALL: &[Reason] = &[$(Reason::$variant,)+];

            /// The stable name.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name,)+ }
            }
        }
    };
}

reasons! {
    /// There is no such entry: an ordinary miss.
    Absent = "absent",

    // What was found is no record of the key.
    /// The record is shorter than it says.
    Truncated = "damaged-truncated",
    /// The file does not begin as a record of this format.
    Magic = "damaged-magic",
    /// The record's lengths contradict each other or the file's.
    Length = "damaged-length",
    /// The record is whole but another key's.
    Key = "damaged-key",
    /// The bytes are not those that were written.
    Checksum = "damaged-checksum",
    /// The file is longer than any record.
    TooLong = "damaged-too-long",
    /// The record is whole, but of a kind or with a flag that only a newer version knows.
    Newer = "newer-version",

    // What was found may not be trusted, so it was not read.
    /// A directory, a FIFO or a device in the place of a file.
    NotAFile = "untrusted-not-a-file",
    /// A file, or something else, in the place of a directory.
    NotADirectory = "untrusted-not-a-directory",
    /// A symbolic link where none may be.
    Symlink = "untrusted-symlink",
    /// The file has another name somewhere, by which it could be changed.
    HardLinked = "untrusted-hard-linked",
    /// It belongs to another user.
    Owner = "untrusted-owner",
    /// Group or others may write it.
    Mode = "untrusted-mode",

    // What the file system said.
    /// No space is left.
    NoSpace = "no-space",
    /// The user's quota is used up.
    Quota = "quota",
    /// The file system is mounted for reading only.
    ReadOnlyFs = "read-only-file-system",
    /// The user may not do this here.
    Denied = "permission-denied",
    /// The process or the machine has no descriptor left.
    TooManyFiles = "too-many-open-files",
    /// The device failed.
    Device = "io-error",
    /// The file is over the limit of the process or the file system.
    FileTooBig = "file-too-big",
    /// A network file system lost the file.
    Stale = "stale-handle",
    /// No lock is left, or the file system has none.
    NoLocks = "no-locks",
    /// The kernel has no memory left.
    NoMemory = "out-of-memory",
    /// What was worked on was removed meanwhile.
    Vanished = "vanished",
    /// Anything else.
    Other = "other-error",

    // What was not tried.
    /// Others were writing in the same place, and were not waited for.
    Busy = "busy",
    /// The record is too large for the limit on the cache's size.
    OverLimit = "over-the-size-limit",
    /// A write failed less than a minute ago, and would again.
    BackingOff = "backing-off",
    /// The directory may not be written, or has gone and cannot be made.
    NotWritable = "not-writable",
}

impl Reason {
    /// The reason that a file system's error gives.
    pub(crate) fn of(error: &io::Error) -> Self {
        use io::ErrorKind;
        use rustix::io::Errno;
        match error.kind() {
            ErrorKind::StorageFull => Reason::NoSpace,
            ErrorKind::QuotaExceeded => Reason::Quota,
            ErrorKind::ReadOnlyFilesystem => Reason::ReadOnlyFs,
            ErrorKind::PermissionDenied => Reason::Denied,
            ErrorKind::FileTooLarge => Reason::FileTooBig,
            ErrorKind::StaleNetworkFileHandle => Reason::Stale,
            ErrorKind::OutOfMemory => Reason::NoMemory,
            ErrorKind::NotFound => Reason::Vanished,
            ErrorKind::NotADirectory => Reason::NotADirectory,
            ErrorKind::IsADirectory => Reason::NotAFile,
            _ => match Errno::from_io_error(error) {
                Some(Errno::MFILE | Errno::NFILE) => Reason::TooManyFiles,
                Some(Errno::IO) => Reason::Device,
                Some(Errno::NOLCK) => Reason::NoLocks,
                Some(Errno::LOOP) => Reason::Symlink,
                Some(Errno::NXIO) => Reason::NotAFile,
                _ => Reason::Other,
            },
        }
    }

    /// Whether bytes were read and are no record of the key, nor ever will be.
    pub(crate) fn is_damage(self) -> bool {
        use Reason::*;
        matches!(self, Truncated | Magic | Length | Key | Checksum)
    }

    /// Whether the next write would fail the same way, so that it need not be tried for a while.
    pub(crate) fn is_lasting(self) -> bool {
        use Reason::*;
        matches!(self, NoSpace | Quota | ReadOnlyFs | Denied | Device)
    }
}

impl From<Damage> for Reason {
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Truncated => Reason::Truncated,
            Damage::Magic => Reason::Magic,
            Damage::Format => Reason::Newer,
            Damage::Length => Reason::Length,
            Damage::Key => Reason::Key,
            Damage::Checksum => Reason::Checksum,
        }
    }
}

/// How often each reason was met by this process.
#[derive(Debug)]
pub(crate) struct Counters(Vec<AtomicU64>);

impl Default for Counters {
    fn default() -> Self {
        Counters(Reason::ALL.iter().map(|_| AtomicU64::new(0)).collect())
    }
}

impl Counters {
    /// Counts one, and says so in the log the first time. `what` is what was being done.
    pub(crate) fn count(&self, reason: Reason, what: &str) {
        // Relaxed: a sum that nothing is concluded from.
        if self.0[reason as usize].fetch_add(1, Ordering::Relaxed) == 0 && reason != Reason::Absent
        {
            tracing::warn!(reason = reason.name(), "cache directory: {what}");
        }
    }

    /// How often this reason was met.
    pub(crate) fn get(&self, reason: Reason) -> u64 {
        self.0[reason as usize].load(Ordering::Relaxed)
    }

    /// The reasons that were met, with how often.
    pub(crate) fn met(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, n)| n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kebab_case_and_distinct_and_in_the_counters_order() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        for (i, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
            assert!(reason.name().bytes().all(|c| c.is_ascii_lowercase() || c == b'-'));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }

    #[test]
    fn counters_count_by_reason() {
        let counters = Counters::default();
        counters.count(Reason::NoSpace, "test");
        counters.count(Reason::NoSpace, "test");
        counters.count(Reason::Checksum, "test");
        assert_eq!(
            counters.met().collect::<Vec<_>>(),
            [(Reason::Checksum, 1), (Reason::NoSpace, 2)]
        );
    }
}
