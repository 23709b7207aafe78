//! [`Fs`] on the kernel's own file systems: `rustix` for files, `fs4` for whole-file locks, `nix` for locks
//! on byte ranges that belong to the open file ("OFD" locks).
//!
//! Interrupted calls are repeated, short reads and writes continued. Nothing here keeps state: a
//! [`RealFs`] is a name for the kernel.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{
    self, AtFlags, FallocateFlags, FileType, Mode, OFlags, RawMode, RenameFlags, Timespec,
    Timestamps, UTIME_NOW, UTIME_OMIT,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::Resource;

use super::{Access, FileKind, Fs, FsClass, Stat};

/// The kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RealFs;

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: Mode = Mode::RWXU;

/// A FIFO or a device in a file's place must not block the open or become our terminal.
const SAFE: OFlags =
    OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A directory that may only be searched (mode 0711, say) can be walked through by this alone.
#[cfg(target_os = "linux")]
const WALK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const WALK: OFlags = OFlags::RDONLY;

impl Fs for RealFs {
    type Handle = File;

    fn root(&self) -> io::Result<File> {
        Ok(fs::open("/", WALK | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    fn walk(&self, at: &File, name: &str) -> io::Result<File> {
        let flags = WALK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        open_at(at, name, flags, Mode::empty()).map_err(link_is_no_directory)
    }

    fn read_link(&self, at: &File, name: &str) -> io::Result<String> {
        let target = fs::readlinkat(at, name, Vec::new())?;
        target.into_string().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn writable(&self, dir: &File) -> io::Result<bool> {
        let wanted = fs::Access::WRITE_OK | fs::Access::EXEC_OK;
        match fs::accessat(dir, ".", wanted, AtFlags::EACCESS) {
            Ok(()) => Ok(true),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn open_dir(&self, at: &File, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | SAFE;
        open_at(at, name, flags, Mode::empty()).map_err(link_is_no_directory)
    }

    fn make_dir(&self, at: &File, name: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::mkdirat(at, name, DIR_MODE))?)
    }

    fn open(&self, at: &File, name: &str, access: Access) -> io::Result<File> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::Ensure => OFlags::RDWR | OFlags::CREATE,
            Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        let mode = if flags.contains(OFlags::CREATE) { FILE_MODE } else { Mode::empty() };
        open_at(at, name, flags | SAFE, mode)
    }

    fn stat(&self, file: &File) -> io::Result<Stat> {
        Ok(stat_of(&fs::fstat(file)?))
    }

    fn stat_at(&self, at: &File, name: &str) -> io::Result<Stat> {
        Ok(stat_of(&fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            match retry_on_intr(|| rustix::io::pread(file, &mut buffer[done..], at))? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    fn write_all_at(&self, file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        within_size_limit(offset, bytes.len() as u64)?;
        while !bytes.is_empty() {
            match retry_on_intr(|| rustix::io::pwrite(file, bytes, offset))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    bytes = &bytes[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    fn allocate(&self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        within_size_limit(offset, length)?;
        let empty = FallocateFlags::empty();
        Ok(retry_on_intr(|| fs::fallocate(file, empty, offset, length))?)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::fsync(file))?)
    }

    fn rename(&self, at: &File, from: &str, to_dir: &File, to: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::renameat(at, from, to_dir, to))?)
    }

    fn rename_new(&self, at: &File, from: &str, to_dir: &File, to: &str) -> io::Result<()> {
        let flags = RenameFlags::NOREPLACE;
        match retry_on_intr(|| fs::renameat_with(at, from, to_dir, to, flags)) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                link_then_unlink(at, from, to_dir, to)
            }
            done => Ok(done?),
        }
    }

    fn unlink(&self, at: &File, name: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::unlinkat(at, name, AtFlags::empty()))?)
    }

    fn remove_dir(&self, at: &File, name: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::unlinkat(at, name, AtFlags::REMOVEDIR))?)
    }

    fn list(&self, at: &File) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        // Opens the directory anew: the position belongs to this listing alone.
        for entry in fs::Dir::read_from(at)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn touch(&self, file: &File) -> io::Result<()> {
        let nsec = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        let times =
            Timestamps { last_access: nsec(UTIME_OMIT), last_modification: nsec(UTIME_NOW) };
        Ok(fs::futimens(file, &times)?)
    }

    fn class(&self, file: &File) -> io::Result<FsClass> {
        class_of(file)
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        loop {
            // By the trait's name: the standard library has a method of this name too.
            match fs4::FileExt::try_lock(file) {
                Ok(()) => return Ok(true),
                Err(fs4::TryLockError::WouldBlock) => return Ok(false),
                Err(fs4::TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(fs4::TryLockError::Error(e)) => return Err(e),
            }
        }
    }

    fn unlock(&self, file: &File) -> io::Result<()> {
        fs4::FileExt::unlock(file)
    }

    fn try_lock_byte(&self, file: &File, offset: u64) -> io::Result<bool> {
        set_byte_lock(file, offset, ByteLock::Exclusive)
    }

    fn unlock_byte(&self, file: &File, offset: u64) -> io::Result<()> {
        set_byte_lock(file, offset, ByteLock::Free).map(drop)
    }

    fn unix_seconds(&self) -> u64 {
        crate::sync::unix_seconds()
    }

    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn process(&self) -> u32 {
        rustix::process::getpid().as_raw_pid().cast_unsigned()
    }

    fn boot_id(&self) -> [u8; 16] {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .and_then(|text| parse_uuid(text.trim()))
            .unwrap_or_else(|| self.random())
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_or_else(|_| improvised_random(), |()| bytes)
    }
}

/// Opens `name`, which may have several components, so that none of them is a link.
fn open_at(at: &File, name: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
    if !name.contains('/') {
        return Ok(retry_on_intr(|| fs::openat(at, name, flags, mode))?.into());
    }
    #[cfg(target_os = "linux")]
    {
        let resolve = fs::ResolveFlags::NO_SYMLINKS;
        match retry_on_intr(|| fs::openat2(at, name, flags, mode, resolve)) {
            // A kernel before 5.6, or a filter that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return Ok(opened?.into()),
        }
    }
    open_stepwise(at, name, flags, mode)
}

/// As [`open_at`], a component at a time.
fn open_stepwise(at: &File, name: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
    let (dirs, last) = name.rsplit_once('/').unwrap_or(("", name));
    let step = WALK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = None;
    for component in dirs.split('/').filter(|component| !component.is_empty()) {
        let from = dir.as_ref().unwrap_or(at);
        dir = Some(File::from(retry_on_intr(|| fs::openat(from, component, step, Mode::empty()))?));
    }
    Ok(retry_on_intr(|| fs::openat(dir.as_ref().unwrap_or(at), last, flags, mode))?.into())
}

/// The kernel says ELOOP or ENOTDIR of a link in a directory's place, depending on the call.
fn link_is_no_directory(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        return Errno::NOTDIR.into();
    }
    error
}

/// `rename_new` where the file system cannot refuse to replace. A link can: it is the atomic step.
fn link_then_unlink(at: &File, from: &str, to_dir: &File, to: &str) -> io::Result<()> {
    match retry_on_intr(|| fs::linkat(at, from, to_dir, to, AtFlags::empty())) {
        Ok(()) => {
            // Published; a name that stays behind is swept with the other temporary files.
            let _ = fs::unlinkat(at, from, AtFlags::empty());
            Ok(())
        }
        // Directories have no links, and some file systems have none at all: look, then rename. Two who
        // do this at once both succeed, the second with a file that is as good.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            match fs::statat(to_dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST.into()),
                Err(Errno::NOENT) => Ok(retry_on_intr(|| fs::renameat(at, from, to_dir, to))?),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// A write past `RLIMIT_FSIZE` would end the process by a signal.
fn within_size_limit(offset: u64, length: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    match offset.checked_add(length) {
        Some(end) if end <= limit => Ok(()),
        _ => Err(Errno::FBIG.into()),
    }
}

#[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "widths vary by platform")]
fn stat_of(stat: &fs::Stat) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode as RawMode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    };
    let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
    Stat {
        kind,
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        links: stat.st_nlink as u64,
        owner: stat.st_uid,
        group: stat.st_gid,
        mode: stat.st_mode as u32 & 0o7777,
        length: stat.st_size as u64,
        allocated: stat.st_blocks as u64 * 512,
        modified_ns: ns(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        changed_ns: ns(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
    }
}

#[cfg(target_os = "linux")]
fn class_of(file: &File) -> io::Result<FsClass> {
    const EXT: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const F2FS: i64 = 0xf2f5_2010;
    const TMPFS: i64 = 0x0102_1994;
    const OVERLAYFS: i64 = 0x794c_7630;
    const BTRFS: i64 = 0x9123_683e;
    const ZFS: i64 = 0x2fc1_2fc1;
    const BCACHEFS: i64 = 0xca45_1a4e;
    Ok(match fs::fstatfs(file)?.f_type {
        EXT | XFS | F2FS | TMPFS | OVERLAYFS => FsClass::Mappable,
        BTRFS | ZFS | BCACHEFS => FsClass::CopyOnWrite,
        _ => FsClass::Foreign,
    })
}

#[cfg(not(target_os = "linux"))]
fn class_of(_: &File) -> io::Result<FsClass> {
    Ok(FsClass::Foreign)
}

enum ByteLock {
    Exclusive,
    Free,
}

/// Locks of the open file, not of the process: closing another descriptor of the same file does not drop
/// them, and a forked child shares them.
#[cfg(target_os = "linux")]
fn set_byte_lock(file: &File, offset: u64, lock: ByteLock) -> io::Result<bool> {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    let range = libc::flock {
        l_type: match lock {
            ByteLock::Exclusive => libc::F_WRLCK,
            ByteLock::Free => libc::F_UNLCK,
        } as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset.try_into().map_err(|_| Errno::INVAL)?,
        l_len: 1,
        l_pid: 0,
    };
    loop {
        match fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&range)) {
            Ok(_) => return Ok(true),
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => return Ok(false),
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn set_byte_lock(_: &File, _: u64, _: ByteLock) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    (digits.len() == 32).then_some(())?;
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

/// Where the kernel gives no random bytes (no descriptor left for its device, a filter): enough to be
/// nobody else's, not enough to be secret, which nothing here needs.
fn improvised_random() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let seen = (std::process::id(), crate::sync::now());
    // Each `RandomState` has keys of its own.
    let word = || RandomState::new().hash_one(&seen);
    (u128::from(word()) << 64 | u128::from(word())).to_le_bytes()
}
