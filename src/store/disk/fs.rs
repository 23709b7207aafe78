//! Every operation the disk tier asks of a file system, as a trait: [`real`] asks the kernel, a simulated
//! one answers in tests (kill, power cut and error at any operation).
//!
//! All names are relative to an open directory, and no symbolic link is ever followed. A name is a single
//! component, except in [`open`](Fs::open) and [`open_dir`](Fs::open_dir), where it may be several with `/`
//! between them: no component, the last or another, is followed if it is a link.

pub(crate) mod real;
#[cfg(all(test, not(loom)))]
pub(crate) mod sim;

use std::io;

/// What `stat` says of an open file or of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) kind: FileKind,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) links: u64,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    /// Permission bits, `0o7777` at most.
    pub(crate) mode: u32,
    pub(crate) length: u64,
    /// Bytes the file occupies.
    pub(crate) allocated: u64,
    pub(crate) modified_ns: i128,
    pub(crate) changed_ns: i128,
}

impl Stat {
    /// What makes it this file and no other, while anyone has it open.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether group or others may write it.
    pub(crate) fn shared_for_writing(&self) -> bool {
        self.mode & 0o022 != 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Directory,
    Symlink,
    Other,
}

/// How a file is opened. None of them truncates, follows a link, or blocks on a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Existing file, reading.
    Read,
    /// Existing file, reading and writing.
    Write,
    /// Reading and writing; made with mode 0600 if it is missing.
    Ensure,
    /// Reading and writing; made with mode 0600, an error if it exists.
    CreateNew,
}

/// What a mapping of a file of this file system may be trusted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FsClass {
    /// Local, coherent maps, stable blocks: ext4, xfs, f2fs, tmpfs, overlayfs.
    Mappable,
    /// Local, but allocated blocks may move or be missing when written: btrfs, zfs, bcachefs.
    CopyOnWrite,
    /// Anything else, network file systems among them.
    Foreign,
}

/// The operations. `Handle` is an open file or directory; dropping it closes it.
pub(crate) trait Fs: Send + Sync + 'static {
    type Handle: Send + Sync + std::fmt::Debug;

    /// The root of the file system, to walk from.
    fn root(&self) -> io::Result<Self::Handle>;
    /// Opens a directory to be walked through: its names can be looked up, its contents not be listed.
    /// `NotADirectory` for anything else, a symbolic link among it.
    fn walk(&self, at: &Self::Handle, name: &str) -> io::Result<Self::Handle>;
    /// What a symbolic link holds.
    fn read_link(&self, at: &Self::Handle, name: &str) -> io::Result<String>;
    /// Makes a symbolic link that holds `target`. `AlreadyExists` if the name is taken.
    fn make_link(&self, at: &Self::Handle, name: &str, target: &str) -> io::Result<()>;
    /// Whether this user may make and remove names in a directory.
    fn writable(&self, dir: &Self::Handle) -> io::Result<bool>;
    /// Opens a directory to be listed and worked in. `NotADirectory` for anything else, a symbolic link
    /// among it.
    fn open_dir(&self, at: &Self::Handle, name: &str) -> io::Result<Self::Handle>;
    /// Makes a directory with mode 0700. `AlreadyExists` if the name is taken.
    fn make_dir(&self, at: &Self::Handle, name: &str) -> io::Result<()>;
    /// Opens a file. Whatever it opens says `stat`: a directory or a FIFO is no error here.
    fn open(&self, at: &Self::Handle, name: &str, access: Access) -> io::Result<Self::Handle>;
    fn stat(&self, file: &Self::Handle) -> io::Result<Stat>;
    /// Of the name itself, not of what a link there points to. The name may be a path, as far as the caller does not
    /// mind links on the way.
    fn stat_at(&self, at: &Self::Handle, name: &str) -> io::Result<Stat>;
    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, file: &Self::Handle, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Reads up to `length` bytes into memory of their own; fewer only at the end of the file. `OutOfMemory`
    /// if there is none.
    fn read_new(&self, file: &Self::Handle, length: usize, offset: u64) -> io::Result<Vec<u8>>;
    /// Writes all of `bytes`. Past the process's limit on file sizes it is an error, never a signal.
    fn write_all_at(&self, file: &Self::Handle, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes sure that `length` bytes from `offset` have blocks, extending the file.
    fn allocate(&self, file: &Self::Handle, offset: u64, length: u64) -> io::Result<()>;
    /// Waits until the file's data (a directory's names) would survive a power cut.
    #[cfg(test)]
    fn sync(&self, file: &Self::Handle) -> io::Result<()>;
    /// Gives `from` the name `to`, atomically replacing what had it.
    fn rename(
        &self,
        at: &Self::Handle,
        from: &str,
        to_dir: &Self::Handle,
        to: &str,
    ) -> io::Result<()>;
    /// As [`rename`](Self::rename); `AlreadyExists` if `to` is taken. Where the file system has no such
    /// operation, a file may for a moment have both names, and an empty directory may be replaced.
    fn rename_new(
        &self,
        at: &Self::Handle,
        from: &str,
        to_dir: &Self::Handle,
        to: &str,
    ) -> io::Result<()>;
    fn unlink(&self, at: &Self::Handle, name: &str) -> io::Result<()>;
    fn remove_dir(&self, at: &Self::Handle, name: &str) -> io::Result<()>;
    /// The names in a directory, without `.` and `..`, in any order. Names that are not UTF-8 are left out:
    /// nothing here makes one.
    fn list(&self, at: &Self::Handle) -> io::Result<Vec<String>>;
    /// Sets a file's modification time to now.
    fn touch(&self, file: &Self::Handle) -> io::Result<()>;
    fn class(&self, file: &Self::Handle) -> io::Result<FsClass>;

    /// Takes the whole-file advisory lock without waiting: whether it was free. It belongs to the open
    /// file and ends when that is closed by every process that has it.
    fn try_lock(&self, file: &Self::Handle) -> io::Result<bool>;
    fn unlock(&self, file: &Self::Handle) -> io::Result<()>;
    /// Takes the lock on one byte without waiting: whether it was free. Locks of one open file do not
    /// exclude each other.
    fn try_lock_byte(&self, file: &Self::Handle, offset: u64) -> io::Result<bool>;
    fn unlock_byte(&self, file: &Self::Handle, offset: u64) -> io::Result<()>;

    /// Seconds since 1970.
    fn unix_seconds(&self) -> u64;
    /// The effective user.
    fn user(&self) -> u32;
    /// The process: changes in a forked child.
    fn process(&self) -> u32;
    /// Changes with every boot of the machine; where nothing tells the boot, with every call.
    fn boot_id(&self) -> [u8; 16];
    /// Bytes that nobody else gets.
    fn random(&self) -> [u8; 16];
}
