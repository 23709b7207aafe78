//! The same steps on a simulated machine and on the kernel's own file system give the same answers, errors
//! included.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::Path;

use proptest::prelude::*;

use crate::store::disk::fs::real::RealFs;
use crate::store::disk::fs::sim::machine::{Content, Setup};
use crate::store::disk::fs::sim::{SimFs, World};
use crate::store::disk::fs::{Access, FileKind, Fs, Stat};

/// A step; files are named by their place in the list of those that are open.
#[derive(Clone, Debug)]
enum Step {
    Walk(usize, &'static str),
    ReadLink(usize, &'static str),
    Writable(usize),
    OpenDir(usize, &'static str),
    MakeDir(usize, &'static str),
    Open(usize, &'static str, Access),
    Stat(usize),
    StatAt(usize, &'static str),
    Read(usize, usize, u64),
    Write(usize, Vec<u8>, u64),
    Allocate(usize, u64, u64),
    Touch(usize),
    Rename(usize, &'static str, usize, &'static str),
    RenameNew(usize, &'static str, usize, &'static str),
    Unlink(usize, &'static str),
    RemoveDir(usize, &'static str),
    List(usize),
    TryLock(usize),
    Unlock(usize),
    TryLockByte(usize, u64),
    UnlockByte(usize, u64),
    Close(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let file = || 0usize..6;
    let name = || prop::sample::select(vec!["a", "b", "c", "d", "link"]);
    let path =
        || prop::sample::select(vec!["a", "b", "c", "d", "link", "c/a", "c/d", "link/a", "a/b"]);
    let access =
        prop::sample::select(vec![Access::Read, Access::Write, Access::Ensure, Access::CreateNew]);
    prop_oneof![
        1 => (file(), name()).prop_map(|(at, name)| Step::Walk(at, name)),
        1 => Just(Step::Walk(0, "..")),
        1 => (file(), name()).prop_map(|(at, name)| Step::ReadLink(at, name)),
        1 => file().prop_map(Step::Writable),
        3 => (file(), path()).prop_map(|(at, path)| Step::OpenDir(at, path)),
        4 => (file(), name()).prop_map(|(at, name)| Step::MakeDir(at, name)),
        8 => (file(), path(), access).prop_map(|(at, path, access)| Step::Open(at, path, access)),
        2 => file().prop_map(Step::Stat),
        2 => (file(), name()).prop_map(|(at, name)| Step::StatAt(at, name)),
        2 => (file(), 1usize..20, 0u64..20).prop_map(|(at, n, offset)| Step::Read(at, n, offset)),
        3 => (file(), prop::collection::vec(1u8.., 1..12), 0u64..20)
            .prop_map(|(at, bytes, offset)| Step::Write(at, bytes, offset)),
        1 => (file(), 0u64..20, 1u64..20).prop_map(|(at, from, n)| Step::Allocate(at, from, n)),
        1 => file().prop_map(Step::Touch),
        3 => (file(), name(), file(), name()).prop_map(|(a, from, b, to)| Step::Rename(a, from, b, to)),
        3 => (file(), name(), file(), name())
            .prop_map(|(a, from, b, to)| Step::RenameNew(a, from, b, to)),
        3 => (file(), name()).prop_map(|(at, name)| Step::Unlink(at, name)),
        2 => (file(), name()).prop_map(|(at, name)| Step::RemoveDir(at, name)),
        2 => file().prop_map(Step::List),
        3 => file().prop_map(Step::TryLock),
        2 => file().prop_map(Step::Unlock),
        3 => (file(), 0u64..3).prop_map(|(at, byte)| Step::TryLockByte(at, byte)),
        2 => (file(), 0u64..3).prop_map(|(at, byte)| Step::UnlockByte(at, byte)),
        2 => file().prop_map(Step::Close),
    ]
}

/// A file system with a list of open files, and whether each may be listed.
struct Table<F: Fs> {
    fs: F,
    open: Vec<(F::Handle, bool)>,
}

impl<F: Fs> Table<F> {
    fn new(fs: F, dir: &Path) -> Self {
        let mut at = fs.root().unwrap();
        let names: Vec<_> = dir.iter().skip(1).map(|name| name.to_str().unwrap()).collect();
        let (last, way) = names.split_last().unwrap();
        for name in way {
            at = fs.walk(&at, name).unwrap();
        }
        let dir = fs.open_dir(&at, last).unwrap();
        Table { fs, open: vec![(dir, true)] }
    }

    fn stat(&self, stat: &Stat) -> String {
        // Inodes have no numbers of their own; but which of the open files is it?
        let same = |file: &F::Handle| self.fs.stat(file).unwrap().identity() == stat.identity();
        let same: Vec<bool> = self.open.iter().map(|(file, _)| same(file)).collect();
        // How long a directory is, and how it counts links, is a file system's own business.
        let file = stat.kind == FileKind::File;
        let (links, length) = if file { (stat.links, stat.length) } else { (0, 0) };
        format!("{:?} {same:?} {links} {length} {:o}", stat.kind, stat.mode & 0o700)
    }

    /// The answer as text.
    fn take(&mut self, step: &Step) -> String {
        let count = self.open.len();
        let file = |at: &usize| &self.open[at % count].0;
        let fs = &self.fs;
        let opened: io::Result<(F::Handle, bool)> = match step {
            Step::Walk(at, name) => fs.walk(file(at), name).map(|handle| (handle, false)),
            Step::OpenDir(at, path) => fs.open_dir(file(at), path).map(|handle| (handle, true)),
            Step::Open(at, path, access) => {
                fs.open(file(at), path, *access).map(|handle| (handle, true))
            }
            Step::ReadLink(at, name) => return said(fs.read_link(file(at), name)),
            Step::Writable(at) => return said(fs.writable(file(at))),
            Step::MakeDir(at, name) => return said(fs.make_dir(file(at), name)),
            Step::Stat(at) => {
                let stat = fs.stat(file(at));
                return said(stat.map(|stat| self.stat(&stat)));
            }
            Step::StatAt(at, name) => {
                let stat = fs.stat_at(file(at), name);
                return said(stat.map(|stat| self.stat(&stat)));
            }
            Step::Read(at, n, offset) => {
                let mut buffer = vec![0; *n];
                let read = fs.read_at(file(at), &mut buffer, *offset);
                return said(read.map(|n| buffer[..n].to_vec()));
            }
            Step::Write(at, bytes, offset) => {
                return said(fs.write_all_at(file(at), bytes, *offset));
            }
            Step::Allocate(at, from, n) => return said(fs.allocate(file(at), *from, *n)),
            Step::Touch(at) => return said(fs.touch(file(at))),
            Step::Rename(a, from, b, to) => return said(fs.rename(file(a), from, file(b), to)),
            Step::RenameNew(a, from, b, to) => {
                return said(fs.rename_new(file(a), from, file(b), to));
            }
            Step::Unlink(at, name) => return said(fs.unlink(file(at), name)),
            Step::RemoveDir(at, name) => return said(fs.remove_dir(file(at), name)),
            // A directory that is only walked through is not to be listed.
            Step::List(at) if !self.open[at % count].1 => return String::new(),
            Step::List(at) => {
                let names = fs.list(file(at));
                return said(names.map(|mut names| {
                    names.sort();
                    names
                }));
            }
            Step::TryLock(at) => return said(fs.try_lock(file(at))),
            Step::Unlock(at) => return said(fs.unlock(file(at))),
            Step::TryLockByte(at, byte) => return said(fs.try_lock_byte(file(at), *byte)),
            Step::UnlockByte(at, byte) => return said(fs.unlock_byte(file(at), *byte)),
            Step::Close(at) => {
                // The directory that all begins with stays open.
                if at % count > 0 {
                    drop(self.open.remove(at % count));
                }
                return String::new();
            }
        };
        said(opened.map(|opened| self.open.push(opened)))
    }
}

fn said<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error {:?}", error.raw_os_error()),
    }
}

fn simulated() -> Table<SimFs> {
    let world = World::new(Setup { watch: false, ..Setup::default() }, 1);
    world.machine(|machine| {
        for dir in ["/top", "/top/dir"] {
            machine.place(dir, Content::directory(), 0, 0o700);
        }
        machine.place("/top/dir/link", Content::Symlink("c".into()), 0, 0o777);
        machine.place("/top/dir/pipe", Content::Fifo, 0, 0o600);
    });
    Table::new(world.process_of(0), Path::new("/top/dir"))
}

fn real(top: &Path) -> Table<RealFs> {
    let dir = &top.join("dir");
    std::fs::create_dir(dir).unwrap();
    std::os::unix::fs::symlink("c", dir.join("link")).unwrap();
    let made = rustix::fs::mknodat(
        File::open(dir).unwrap(),
        "pipe",
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    );
    made.unwrap();
    Table::new(RealFs, dir)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // Mutants: `EISDIR` for `ENOTDIR`, a lock per process instead of per open file, an unlink that takes
    // the inode away from those who have it open.
    #[test]
    fn sim_answers_as_the_kernel_does(steps in prop::collection::vec(step(), 1..40)) {
        // Root may do what an ordinary user may not; the simulated process is root, too.
        prop_assume!(rustix::process::geteuid().is_root());
        let dir = tempfile::tempdir().unwrap();
        let (mut simulated, mut real) = (simulated(), real(&dir.path().canonicalize().unwrap()));
        for (n, step) in steps.iter().enumerate() {
            prop_assert_eq!(simulated.take(step), real.take(step), "step {}: {:?}", n, step);
        }
    }
}
