//! [`Fs`] on the kernel's own file systems: `rustix` for files, `fs4` for whole-file locks, `nix` for locks
//! on byte ranges that belong to the open file ("OFD" locks).
//!
//! Interrupted calls are repeated, short reads and writes continued. Nothing here keeps state: a
//! [`RealFs`] is a name for the kernel.

mod process;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
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

    fn make_link(&self, at: &File, name: &str, target: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::symlinkat(target, at, name))?)
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

    fn read_new(&self, file: &File, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| Errno::NOMEM)?;
        while bytes.len() < length {
            let at = offset + bytes.len() as u64;
            // Into fresh memory, which so need not be zeroed first.
            if retry_on_intr(|| rustix::io::pread(file, spare_capacity(&mut bytes), at))? == 0 {
                break;
            }
        }
        bytes.truncate(length);
        Ok(bytes)
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

    #[cfg(test)]
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
        for entry in retry_on_intr(|| fs::Dir::read_from(at))? {
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
        process::id()
    }

    fn boot_id(&self) -> [u8; 16] {
        // A read, and no question for a length that it does not have.
        let mut text = [0; 36];
        std::fs::File::open("/proc/sys/kernel/random/boot_id")
            .ok()
            .and_then(|file| retry_on_intr(|| rustix::io::read(&file, &mut text[..])).ok())
            .and_then(|read| std::str::from_utf8(&text[..read]).ok())
            .and_then(parse_uuid)
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
    let word = || RandomState::new().hash_one(seen);
    (u128::from(word()) << 64 | u128::from(word())).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
    use std::path::Path;
    use std::process::{Child, Command};

    use super::*;
    use crate::store::disk::testing::{
        again, in_namespace, role, sh, succeed, succeeded, test_path,
    };

    fn temp() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn dir(path: &Path) -> File {
        File::open(path).unwrap()
    }

    #[test]
    fn files_are_made_for_their_owner_alone_whatever_the_umask() {
        if let Some((_, at)) = role() {
            rustix::process::umask(Mode::empty());
            let at = dir(&at);
            RealFs.open(&at, "file", Access::CreateNew).unwrap();
            RealFs.open(&at, "ensured", Access::Ensure).unwrap();
            RealFs.make_dir(&at, "dir").unwrap();
            return;
        }
        let temp = temp();
        succeed(again(
            test_path!(files_are_made_for_their_owner_alone_whatever_the_umask),
            "umask",
            temp.path(),
        ));
        for (name, mode) in [("file", 0o600), ("ensured", 0o600), ("dir", 0o700)] {
            let made = std::fs::metadata(temp.path().join(name)).unwrap();
            assert_eq!(made.mode() & 0o7777, mode, "{name}");
        }
    }

    /// Mutants seen killed: NOFOLLOW left out of a plain open; RESOLVE_NO_SYMLINKS left out of one by
    /// components, and NOFOLLOW from its steps.
    #[test]
    fn no_open_follows_a_link() {
        let temp = temp();
        std::fs::create_dir_all(temp.path().join("real/sub")).unwrap();
        std::fs::write(temp.path().join("real/sub/file"), "text").unwrap();
        symlink("real", temp.path().join("link")).unwrap();
        symlink("file", temp.path().join("real/sub/file-link")).unwrap();
        let at = dir(temp.path());
        let real = RealFs.open_dir(&at, "real").unwrap();
        let sub = RealFs.open_dir(&real, "sub").unwrap();
        let open = |at, name| RealFs.open(at, name, Access::Read).map(drop);
        let stepwise =
            |name| open_stepwise(&at, name, OFlags::RDONLY | SAFE, Mode::empty()).map(drop);
        open(&at, "real/sub/file").unwrap();
        stepwise("real/sub/file").unwrap();
        let looped = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        };
        looped(open(&sub, "file-link"));
        looped(open(&at, "real/sub/file-link"));
        looped(open(&at, "link/sub/file"));
        looped(stepwise("real/sub/file-link"));
        assert_eq!(stepwise("link/sub/file").unwrap_err().kind(), io::ErrorKind::NotADirectory);
        for name in ["link", "link/sub", "real/sub/file-link"] {
            let error = RealFs.open_dir(&at, name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{name}");
        }
        assert_eq!(RealFs.walk(&at, "link").unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(RealFs.stat_at(&at, "link").unwrap().kind, FileKind::Symlink);
        assert_eq!(RealFs.read_link(&at, "link").unwrap(), "real");
    }

    /// Mutant seen killed: NONBLOCK left out, which waits here for ever.
    #[test]
    fn a_fifo_blocks_no_open() {
        let temp = temp();
        sh("mkfifo", &[temp.path().join("fifo").to_str().unwrap()]);
        let file = RealFs.open(&dir(temp.path()), "fifo", Access::Read).unwrap();
        assert_eq!(RealFs.stat(&file).unwrap().kind, FileKind::Other);
        assert!(file.metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn what_is_written_is_read_and_described() {
        let temp = temp();
        let at = dir(temp.path());
        let file = RealFs.open(&at, "file", Access::CreateNew).unwrap();
        let exists = RealFs.open(&at, "file", Access::CreateNew).unwrap_err();
        assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
        RealFs.write_all_at(&file, b"defg", 3).unwrap();
        RealFs.write_all_at(&file, b"abc", 0).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(RealFs.read_at(&file, &mut buffer, 1).unwrap(), 6);
        assert_eq!(&buffer[..6], b"bcdefg");
        assert_eq!(RealFs.read_new(&file, 4, 2).unwrap(), b"cdef");
        assert_eq!(RealFs.read_new(&file, 100, 2).unwrap(), b"cdefg");
        assert_eq!(RealFs.read_new(&file, 0, 0).unwrap(), b"");
        let none = RealFs.read_new(&file, 1 << 60, 0).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::OutOfMemory);
        RealFs.allocate(&file, 0, 1 << 20).unwrap();
        RealFs.sync(&file).unwrap();
        RealFs.sync(&at).unwrap();
        let stat = RealFs.stat(&file).unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!(stat, RealFs.stat_at(&at, "file").unwrap());
        assert_eq!((stat.kind, stat.length, stat.links), (FileKind::File, 1 << 20, 1));
        assert!(stat.allocated >= 1 << 20);
        assert_eq!(stat.identity(), (meta.dev(), meta.ino()));
        assert_eq!((stat.owner, stat.group, stat.mode), (meta.uid(), meta.gid(), 0o600));
        assert_eq!(stat.modified_ns / 1_000_000_000, i128::from(meta.mtime()));
        assert_eq!(stat.owner, RealFs.user());
    }

    #[test]
    fn touching_sets_the_time_of_modification_to_now() {
        let temp = temp();
        let at = dir(temp.path());
        let file = RealFs.open(&at, "file", Access::CreateNew).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(RealFs.stat(&file).unwrap().modified_ns, 0);
        // With the right to read alone, as a look-up has it.
        RealFs.touch(&RealFs.open(&at, "file", Access::Read).unwrap()).unwrap();
        let modified = RealFs.stat(&file).unwrap().modified_ns / 1_000_000_000;
        assert!(modified.unsigned_abs().abs_diff(u128::from(RealFs.unix_seconds())) < 100);
    }

    /// Mutant seen killed: the limit not asked for, which ends the child by SIGXFSZ.
    #[test]
    fn a_write_over_the_processes_limit_is_an_error_and_no_signal() {
        if let Some((_, at)) = role() {
            let limit = rustix::process::Rlimit { current: Some(1000), maximum: None };
            rustix::process::setrlimit(Resource::Fsize, limit).unwrap();
            let file = RealFs.open(&dir(&at), "file", Access::CreateNew).unwrap();
            RealFs.write_all_at(&file, &[1; 1000], 0).unwrap();
            for error in [
                RealFs.write_all_at(&file, &[1; 1001], 0).unwrap_err(),
                RealFs.write_all_at(&file, &[1], 1000).unwrap_err(),
                RealFs.write_all_at(&file, &[1], u64::MAX).unwrap_err(),
                RealFs.allocate(&file, 0, 2000).unwrap_err(),
            ] {
                assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
            }
            return;
        }
        let temp = temp();
        let test = test_path!(a_write_over_the_processes_limit_is_an_error_and_no_signal);
        succeed(again(test, "limit", temp.path()));
    }

    /// Both ways of doing it. Mutant seen killed: a plain rename in either.
    #[test]
    fn rename_new_never_replaces() {
        type Rename = fn(&File, &str, &File, &str) -> io::Result<()>;
        let ways: [Rename; 2] =
            [|at, from, to_dir, to| RealFs.rename_new(at, from, to_dir, to), link_then_unlink];
        for rename_new in ways {
            let temp = temp();
            let at = dir(temp.path());
            let read = |name: &str| std::fs::read_to_string(temp.path().join(name)).unwrap();
            std::fs::write(temp.path().join("one"), "1").unwrap();
            std::fs::write(temp.path().join("two"), "2").unwrap();
            rename_new(&at, "one", &at, "new").unwrap();
            assert_eq!(read("new"), "1");
            assert_eq!(RealFs.stat_at(&at, "new").unwrap().links, 1);
            let missing = rename_new(&at, "one", &at, "other").unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
            let exists = rename_new(&at, "two", &at, "new").unwrap_err();
            assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!((read("new"), read("two")), ("1".into(), "2".into()));
            // Directories, which have no links.
            RealFs.make_dir(&at, "dir").unwrap();
            rename_new(&at, "dir", &at, "new-dir").unwrap();
            RealFs.make_dir(&at, "dir").unwrap();
            let exists = rename_new(&at, "dir", &at, "new-dir").unwrap_err();
            assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
            // And what does replace.
            RealFs.rename(&at, "two", &at, "new").unwrap();
            assert_eq!(read("new"), "2");
            let mut names = RealFs.list(&at).unwrap();
            names.sort();
            assert_eq!(names, ["dir", "new", "new-dir"]);
        }
    }

    #[test]
    fn a_listing_has_every_name_once_whatever_was_listed_before() {
        let temp = temp();
        let at = dir(temp.path());
        let mut expected: Vec<_> = (0..300).map(|i| format!("file-{i:03}")).collect();
        for name in &expected {
            std::fs::write(temp.path().join(name), "").unwrap();
        }
        for _ in 0..2 {
            let mut names = RealFs.list(&at).unwrap();
            names.sort();
            assert_eq!(names, expected);
        }
        for name in expected.drain(..) {
            RealFs.unlink(&at, &name).unwrap();
        }
        assert!(RealFs.list(&at).unwrap().is_empty());
        std::fs::remove_dir(temp.path()).unwrap();
        assert!(RealFs.list(&at).is_err() || RealFs.list(&at).unwrap().is_empty());
        std::fs::create_dir(temp.path()).unwrap();
    }

    /// Mutant seen killed: a class for every magic number.
    #[test]
    fn file_systems_have_their_class() {
        if let Some((_, at)) = role() {
            let at = at.to_str().unwrap();
            sh("mount", &["-t", "tmpfs", "none", at]);
            let sub = |name: &str| {
                let path = format!("{at}/{name}");
                std::fs::create_dir(&path).unwrap();
                path
            };
            let (lower, upper, work, merged) =
                (sub("lower"), sub("upper"), sub("work"), sub("merged"));
            assert_eq!(RealFs.class(&dir(at.as_ref())).unwrap(), FsClass::Mappable);
            let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
            sh("mount", &["-t", "overlay", "none", "-o", &options, &merged]);
            assert_eq!(RealFs.class(&dir(merged.as_ref())).unwrap(), FsClass::Mappable);
            return;
        }
        assert_eq!(RealFs.class(&dir("/proc".as_ref())).unwrap(), FsClass::Foreign);
        let temp = temp();
        let test = test_path!(file_systems_have_their_class);
        if let Some(command) = in_namespace(test, "mount", temp.path()) {
            succeed(command);
        }
    }

    #[test]
    fn a_boots_id_stays_and_randomness_does_not() {
        assert_eq!(RealFs.boot_id(), RealFs.boot_id());
        assert_ne!(RealFs.random(), RealFs.random());
        assert_ne!(improvised_random(), improvised_random());
        let id = parse_uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!(id[..4], [0x00, 0x11, 0x22, 0x33]);
        for text in
            ["", "00112233-4455-6677-8899-aabbccddeef", "x0112233-4455-6677-8899-aabbccddeeff"]
        {
            assert_eq!(parse_uuid(text), None);
        }
    }

    #[test]
    fn access_tells_a_directory_that_may_be_written() {
        if let Some((_, at)) = role() {
            let probe = |mode| {
                std::fs::set_permissions(&at, std::fs::Permissions::from_mode(mode)).unwrap();
                let writable = RealFs.writable(&dir(&at)).unwrap();
                std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o700)).unwrap();
                writable
            };
            assert!(probe(0o700));
            assert!(!probe(0o500));
            return;
        }
        let temp = temp();
        let test = test_path!(access_tells_a_directory_that_may_be_written);
        succeed(crate::store::disk::testing::as_ordinary_user(test, "user", temp.path()));
    }

    /// Another process that has taken a lock, and keeps it until it is told otherwise or killed.
    fn holder(test: &str, what: &str, at: &Path) -> Child {
        let mut child = again(test, what, at).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("locked")), "the holder has no lock");
        // The rest of what it says is of no interest, but has to go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        child
    }

    /// The two kinds of lock, each between processes: `fs4`'s answer to "busy" has changed its type before.
    /// Mutants seen killed: "busy" taken for a lock, for either kind.
    #[test]
    fn locks_exclude_other_processes_and_end_with_them() {
        let test = test_path!(locks_exclude_other_processes_and_end_with_them);
        let take = |what: &str, file: &File| match what {
            "file" => RealFs.try_lock(file).unwrap(),
            byte => RealFs.try_lock_byte(file, byte.parse().unwrap()).unwrap(),
        };
        if let Some((what, at)) = role() {
            let file = RealFs.open(&dir(&at), "lock", Access::Ensure).unwrap();
            assert!(take(&what, &file));
            println!("locked");
            std::io::stdout().flush().unwrap();
            // Until the other end is closed; or this is killed.
            let _ = std::io::stdin().read(&mut [0]);
            match &what[..] {
                "file" => RealFs.unlock(&file).unwrap(),
                byte => RealFs.unlock_byte(&file, byte.parse().unwrap()).unwrap(),
            }
            return;
        }
        for what in ["file", "0", "7", "9223372036854775806"] {
            let temp = temp();
            let file = RealFs.open(&dir(temp.path()), "lock", Access::Ensure).unwrap();
            for kill in [false, true] {
                let mut child = holder(test, what, temp.path());
                assert!(!take(what, &file), "{what} is another's");
                if what == "7" {
                    assert!(take("8", &file), "another byte is free");
                    RealFs.unlock_byte(&file, 8).unwrap();
                }
                if kill {
                    child.kill().unwrap();
                }
                drop(child.stdin.take());
                child.wait().unwrap();
                assert!(take(what, &file), "{what} is free again");
                match what {
                    "file" => RealFs.unlock(&file).unwrap(),
                    byte => RealFs.unlock_byte(&file, byte.parse().unwrap()).unwrap(),
                }
            }
            // What is released here is free there.
            let mut child = holder(test, what, temp.path());
            drop(child.stdin.take());
            assert!(child.wait().unwrap().success());
        }
        // Out of the range of a lock.
        let temp = temp();
        let file = RealFs.open(&dir(temp.path()), "lock", Access::Ensure).unwrap();
        assert!(RealFs.try_lock_byte(&file, u64::MAX).is_err());
    }

    /// Mutants seen killed: the three loops, of `rustix`, `nix` and `fs4`, left out in turn.
    #[test]
    fn interrupted_calls_are_repeated() {
        let test = test_path!(interrupted_calls_are_repeated);
        if let Some((_, at)) = role() {
            let at = dir(&at);
            let file = RealFs.open(&at, "file", Access::CreateNew).unwrap();
            RealFs.write_all_at(&file, b"text", 0).unwrap();
            assert_eq!(RealFs.read_new(&file, 4, 0).unwrap(), b"text");
            let mut buffer = [0; 4];
            assert_eq!(RealFs.read_at(&file, &mut buffer, 0).unwrap(), 4);
            RealFs.rename_new(&at, "file", &at, "new").unwrap();
            RealFs.open(&dir("/".as_ref()), "proc/self", Access::Read).unwrap_err();
            RealFs.open(&at, "new", Access::Read).unwrap();
            assert!(RealFs.try_lock_byte(&file, 1).unwrap());
            assert!(RealFs.try_lock(&file).unwrap());
            RealFs.unlink(&at, "new").unwrap();
            return;
        }
        if !Command::new("strace").arg("-V").output().is_ok_and(|o| o.status.success()) {
            crate::store::disk::testing::skipped(test, "there is no `strace`");
            return;
        }
        // The standard library makes `fcntl` calls of its own before ours.
        let calls = ["openat", "openat2", "pwrite64", "pread64", "renameat2", "unlinkat", "flock"];
        let fcntl = [1, 2, 3, 4].map(|n| ("fcntl", n));
        for (call, n) in calls.map(|call| (call, 1)).into_iter().chain(fcntl) {
            let temp = temp();
            let child = again(test, "interrupted", temp.path());
            let output = Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null"])
                .arg("-P")
                .arg(temp.path())
                .arg("-P")
                .arg(temp.path().join("file"))
                .arg("-P")
                .arg(temp.path().join("new"))
                .arg("-P")
                .arg("/")
                .args(["-e", &format!("inject={call}:error=EINTR:when={n}")])
                .arg(child.get_program())
                .args(child.get_args())
                .envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))))
                .current_dir("/")
                .output()
                .unwrap();
            succeeded(&output);
        }
    }
}
