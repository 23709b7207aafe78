//! One simulated machine as plain data: inodes, names, open files, locks, a clock. It is a
//! single-threaded state machine: [`Machine::step`] takes one operation of one process. Threads,
//! schedules and faults are the business of the files above it.
//!
//! ```text
//!   process ──► fd ──► description ──► inode ──► data   volatile image + pending changes
//!              (fork shares these;       │               over a durable image
//!               locks belong here)       └────► names  likewise, each name on its own
//! ```
//!
//! Everything is numbered per process (inodes, descriptions, random bytes), so that steps of two
//! processes that touch nothing in common give the same machine in either order.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use rustix::io::Errno;

use super::super::{Access, FileKind, FsClass, Stat};
use super::op::{Fd, Footprint, Ino, Object, Op, Pid, Reply};

pub(super) const BLOCK: u64 = 4096;
const ROOT: Ino = 1;
/// What processes and inodes made by hand are numbered under.
pub(crate) const NOBODY: Pid = 0;

type Description = u64;

/// A change of a file's bytes that a power cut may lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataChange {
    Write { offset: usize, bytes: Arc<[u8]> },
    Length(usize),
    Word { at: usize, value: u64 },
}

/// A change of one name that a power cut may lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameChange {
    pub(crate) name: String,
    pub(crate) to: Option<Ino>,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The bytes as they are, as a power cut that keeps nothing would leave them, and what lies between.
    File {
        data: Arc<Vec<u8>>,
        durable: Arc<Vec<u8>>,
        pending: Vec<DataChange>,
    },
    Directory {
        names: BTreeMap<String, Ino>,
        durable: BTreeMap<String, Ino>,
        pending: Vec<NameChange>,
    },
    Symlink(String),
    Fifo,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) owner: u32,
    pub(crate) mode: u32,
    pub(crate) links: u64,
    pub(crate) modified_ns: i128,
    pub(crate) changed_ns: i128,
    /// Bytes from the start of the file that have blocks.
    pub(crate) allocated: u64,
    lock: Option<Description>,
    byte_locks: BTreeMap<u64, Description>,
    /// It had a name that promises its bytes never change.
    pub(crate) published: bool,
    /// Ranges of its bytes that must never change.
    protected: Vec<(u64, u64)>,
    /// Somebody mapped it to write.
    mapped_to_write: bool,
    /// The last name it was given, and where.
    name: Option<(Ino, String)>,
    /// Somebody took a lock on it.
    pub(crate) locked_once: bool,
}

#[derive(Clone, Debug)]
struct Open {
    inode: Ino,
    reads: bool,
    writes: bool,
    holders: u32,
    /// Where it was opened: what two lock holders must not have in common.
    place: (Ino, String),
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    pub(crate) user: u32,
    files: BTreeMap<Fd, Description>,
    /// What it has mapped, and how often.
    maps: BTreeMap<Ino, u32>,
    next_fd: Fd,
    next_node: u64,
    next_description: u64,
    random: u64,
    /// Steps taken, and those of them that write.
    pub(crate) steps: u64,
    pub(crate) writes: u64,
    /// Those that ask the kernel.
    pub(crate) calls: u64,
    /// Steps that a fault struck.
    pub(crate) struck: u64,
    /// It is a user's hand: lock files mean nothing to it.
    pub(crate) meddles: bool,
}

/// What the code under test promised never to do, found done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) String);

/// What a step may come to.
pub(crate) enum Failed {
    Error(io::Error),
    Violation(Violation),
}

impl std::fmt::Debug for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Error(error) => error.fmt(f),
            Failed::Violation(violation) => violation.fmt(f),
        }
    }
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Failed::Error(errno.into())
    }
}

type Outcome<T> = Result<T, Failed>;

fn violation<T>(text: String) -> Outcome<T> {
    Err(Failed::Violation(Violation(text)))
}

/// A store to a word of a mapped file, about to be made.
pub(crate) struct WordStore<'a> {
    /// The last name that the file was given.
    pub(crate) name: &'a str,
    pub(crate) at: usize,
    pub(crate) old: u64,
    pub(crate) new: u64,
    /// The other words of the file.
    pub(crate) load: &'a dyn Fn(usize) -> u64,
}

/// Bytes of another file in the same directory that must not change once a word is stored.
pub(crate) struct Publishes {
    pub(crate) file: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Settings that tests change.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The most bytes that files may occupy together.
    pub(crate) capacity: Option<u64>,
    /// The most files a process may have open.
    pub(crate) open_files: usize,
    pub(crate) class: FsClass,
    /// There is no rename that refuses to replace: a link and an unlink stand in for it.
    pub(crate) links_for_rename: bool,
    /// The file system is mounted read-only.
    pub(crate) read_only: bool,
    /// Every process sees this number as its own, as in containers.
    pub(crate) same_process_id: bool,
    /// Names of files whose bytes must never change again.
    pub(crate) published: fn(&str) -> bool,
    /// Names that are given once and never again.
    pub(crate) once: fn(&str) -> bool,
    /// What may be stored to a word of a mapped file, and what that publishes.
    pub(crate) words: fn(&WordStore<'_>) -> Result<Option<Publishes>, String>,
    /// So many words at the beginning of a mapped file never change: to load one is no step.
    pub(crate) fixed_words: usize,
    /// Look for broken promises.
    pub(crate) watch: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            capacity: None,
            open_files: 1024,
            class: FsClass::Mappable,
            links_for_rename: false,
            read_only: false,
            same_process_id: false,
            published: |_| false,
            once: |_| false,
            words: |_| Ok(None),
            fixed_words: 0,
            watch: true,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Shared with the copies of the machine that have the same.
    pub(crate) nodes: BTreeMap<Ino, Arc<Node>>,
    open: BTreeMap<Description, Open>,
    processes: BTreeMap<Pid, Process>,
    pub(crate) clock_ns: i128,
    pub(crate) boot: u64,
    pub(crate) setup: Setup,
    seed: u64,
    /// A user removed files by hand: a lock file may have been replaced under its holder.
    meddled: bool,
    /// Names, by directory, that are given once in a boot, and were.
    given: BTreeSet<(Ino, String)>,
}

impl Machine {
    /// A machine with an empty directory `/`, which is root's.
    pub(crate) fn new(setup: Setup, seed: u64) -> Self {
        let mut machine = Machine {
            nodes: BTreeMap::new(),
            open: BTreeMap::new(),
            processes: BTreeMap::new(),
            clock_ns: 1_700_000_000_000_000_000,
            boot: 1,
            setup,
            seed,
            meddled: false,
            given: BTreeSet::new(),
        };
        let root = Node { links: 1, ..machine.node(Content::directory(), 0, 0o755) };
        machine.nodes.insert(ROOT, Arc::new(root));
        machine.start_as(NOBODY, 0);
        machine
    }

    /// The machine after its next boot: nobody runs, nothing is open or locked. What the disk holds is
    /// still as it was.
    pub(super) fn rebooted(&self) -> Self {
        let mut machine = Machine {
            nodes: self.nodes.clone(),
            open: BTreeMap::new(),
            processes: BTreeMap::new(),
            clock_ns: self.clock_ns + 60_000_000_000,
            boot: self.boot + 1,
            setup: self.setup.clone(),
            given: BTreeSet::new(),
            seed: self.seed,
            meddled: self.meddled,
        };
        machine.start_as(NOBODY, 0);
        for node in machine.nodes.values_mut().map(Arc::make_mut) {
            node.lock = None;
            node.byte_locks.clear();
            node.protected.clear();
        }
        machine
    }

    /// Counts links anew, after names were changed behind its back.
    pub(super) fn count_links(&mut self) {
        for node in self.nodes.values_mut().map(Arc::make_mut) {
            (node.links, node.published) = (0, false);
        }
        let named: Vec<(String, Ino)> = self
            .nodes
            .values()
            .filter_map(|node| match &node.content {
                Content::Directory { names, .. } => Some(names.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        for (name, inode) in named {
            let published = (self.setup.published)(&name);
            let node = self.node_mut(inode);
            node.links += 1;
            node.published |= published;
        }
        self.node_mut(ROOT).links += 1;
    }

    /// Starts a process of `user`.
    pub(crate) fn start(&mut self, user: u32) -> Pid {
        let pid = self.processes.keys().last().map_or(1, |last| last + 1);
        self.start_as(pid, user);
        pid
    }

    fn start_as(&mut self, pid: Pid, user: u32) {
        let random = self.seed ^ (self.boot << 40) ^ (u64::from(pid) << 20);
        let process = Process {
            alive: true,
            user,
            files: BTreeMap::new(),
            maps: BTreeMap::new(),
            next_fd: 3,
            next_node: 0,
            next_description: 0,
            random,
            steps: 0,
            writes: 0,
            calls: 0,
            struck: 0,
            meddles: false,
        };
        self.processes.insert(pid, process);
    }

    /// Forks: the child has its own table of the same open files.
    pub(crate) fn fork(&mut self, parent: Pid) -> Pid {
        let child = self.start(self.process(parent).user);
        let (files, maps) = (self.process(parent).files.clone(), self.process(parent).maps.clone());
        for description in files.values() {
            self.open.get_mut(description).expect("open").holders += 1;
        }
        let next_fd = self.process(parent).next_fd;
        let process = self.process_mut(child);
        (process.files, process.maps) = (files, maps);
        process.next_fd = next_fd;
        child
    }

    /// Kills a process: the kernel closes everything it had open.
    pub(crate) fn kill(&mut self, pid: Pid) {
        self.process_mut(pid).alive = false;
        self.process_mut(pid).maps.clear();
        let files: Vec<Fd> = self.process(pid).files.keys().copied().collect();
        for fd in files {
            self.close(pid, fd);
        }
    }

    pub(crate) fn process(&self, pid: Pid) -> &Process {
        &self.processes[&pid]
    }

    pub(crate) fn process_mut(&mut self, pid: Pid) -> &mut Process {
        self.processes.get_mut(&pid).expect("a process that was started")
    }

    pub(crate) fn visible_process(&self, pid: Pid) -> u32 {
        if self.setup.same_process_id { 1 } else { 100 + pid }
    }

    pub(crate) fn open_files(&self, pid: Pid) -> usize {
        self.process(pid).files.len()
    }

    pub(crate) fn random(&mut self, pid: Pid) -> [u8; 16] {
        let process = self.process_mut(pid);
        let mut bytes = [0; 16];
        for half in bytes.chunks_exact_mut(8) {
            process.random = process.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            half.copy_from_slice(&mix(process.random).to_le_bytes());
        }
        bytes
    }

    /// Takes one step of a process. An error leaves the machine as it was, except for a write that found
    /// too little space.
    pub(crate) fn step(&mut self, pid: Pid, op: &Op) -> Outcome<Reply> {
        match op {
            Op::Root => self.opened(pid, ROOT, (ROOT, String::new()), false, false),
            Op::Walk { at, name } => {
                let directory = self.directory(pid, *at)?;
                let inode = match name.as_str() {
                    ".." => self.parent(directory),
                    name => self.look_up(pid, directory, name)?,
                };
                match self.nodes[&inode].content {
                    Content::Directory { .. } => {
                        self.opened(pid, inode, (directory, name.clone()), false, false)
                    }
                    _ => Err(Errno::NOTDIR.into()),
                }
            }
            Op::ReadLink { at, name } => {
                let directory = self.directory(pid, *at)?;
                let inode = self.look_up(pid, directory, name)?;
                match &self.nodes[&inode].content {
                    Content::Symlink(to) => Ok(Reply::Text(to.clone())),
                    _ => Err(Errno::INVAL.into()),
                }
            }
            Op::Writable(fd) => {
                let directory = self.directory(pid, *fd)?;
                Ok(Reply::Said(self.may_change(pid, directory).is_ok()))
            }
            Op::OpenDir { at, name } => {
                let (directory, last) = self.descend(pid, *at, name, Errno::NOTDIR)?;
                let inode = self.look_up(pid, directory, last)?;
                match self.nodes[&inode].content {
                    Content::Directory { .. } if self.may(pid, inode, 4) => {
                        self.opened(pid, inode, (directory, last.into()), true, false)
                    }
                    Content::Directory { .. } => Err(Errno::ACCESS.into()),
                    _ => Err(Errno::NOTDIR.into()),
                }
            }
            Op::MakeDir { at, name } => {
                let directory = self.directory(pid, *at)?;
                self.create(pid, directory, name, Content::directory(), 0o700)?;
                Ok(Reply::Done)
            }
            Op::MakeLink { at, name, target } => {
                let directory = self.directory(pid, *at)?;
                self.create(pid, directory, name, Content::Symlink(target.clone()), 0o777)?;
                Ok(Reply::Done)
            }
            Op::Open { at, name, access } => self.open(pid, *at, name, *access),
            Op::Stat(fd) => Ok(Reply::Stat(self.stat(self.file(pid, *fd)?.inode))),
            Op::StatAt { at, name } => {
                let (directory, name) = self.descend(pid, *at, name, Errno::LOOP)?;
                let inode = self.look_up(pid, directory, name)?;
                Ok(Reply::Stat(self.stat(inode)))
            }
            Op::Read { file, length, offset } => self.read(pid, *file, *length, *offset),
            Op::Write { file, bytes, offset } => self.write(pid, *file, bytes, *offset),
            Op::Allocate { file, offset, length } => self.allocate(pid, *file, *offset, *length),
            Op::Sync(fd) => {
                let inode = self.usable(pid, *fd)?.inode;
                self.sync(inode);
                Ok(Reply::Done)
            }
            Op::Rename { at, from, to_dir, to, replace } => {
                let (at, to_dir) = (self.directory(pid, *at)?, self.directory(pid, *to_dir)?);
                self.rename(pid, (at, from), (to_dir, to), *replace)
            }
            Op::Link { at, from, to_dir, to } => {
                let (at, to_dir) = (self.directory(pid, *at)?, self.directory(pid, *to_dir)?);
                let inode = self.look_up(pid, at, from)?;
                self.may_change(pid, to_dir)?;
                match self.nodes[&inode].content {
                    Content::Directory { .. } => return Err(Errno::PERM.into()),
                    _ if self.entry(to_dir, to).is_some() => return Err(Errno::EXIST.into()),
                    _ => {}
                }
                self.gives_once(to_dir, to)?;
                self.set_name(to_dir, to, Some(inode));
                Ok(Reply::Done)
            }
            Op::Unlink { at, name } => {
                let directory = self.directory(pid, *at)?;
                let inode = self.look_up(pid, directory, name)?;
                self.may_change(pid, directory)?;
                if let Content::Directory { .. } = self.nodes[&inode].content {
                    return Err(Errno::ISDIR.into());
                }
                self.keeps_lock_files(pid, directory, name, inode)?;
                self.set_name(directory, name, None);
                Ok(Reply::Done)
            }
            Op::RemoveDir { at, name } => {
                let directory = self.directory(pid, *at)?;
                let inode = self.look_up(pid, directory, name)?;
                self.may_change(pid, directory)?;
                match &self.nodes[&inode].content {
                    Content::Directory { names, .. } if names.is_empty() => {
                        self.set_name(directory, name, None);
                        Ok(Reply::Done)
                    }
                    Content::Directory { .. } => Err(Errno::NOTEMPTY.into()),
                    _ => Err(Errno::NOTDIR.into()),
                }
            }
            Op::List { at, after } => {
                let directory = self.directory(pid, *at)?;
                self.usable(pid, *at)?;
                let names = self.names(directory).keys();
                Ok(Reply::Names(match after {
                    None => names.cloned().collect(),
                    Some(after) => names.filter(|name| *name > after).cloned().collect(),
                }))
            }
            Op::Touch(fd) => {
                let (inode, now) = (self.usable(pid, *fd)?.inode, self.clock_ns);
                if !self.may(pid, inode, 2) {
                    return Err(Errno::ACCESS.into());
                }
                let node = self.node_mut(inode);
                (node.modified_ns, node.changed_ns) = (now, now);
                Ok(Reply::Done)
            }
            Op::Class(fd) => {
                self.file(pid, *fd)?;
                Ok(Reply::Class(self.setup.class))
            }
            Op::TryLock(fd) => self.try_lock(pid, *fd, None),
            Op::Unlock(fd) => self.unlock(pid, *fd, None),
            Op::TryLockByte { file, offset } => self.try_lock(pid, *file, Some(*offset)),
            Op::UnlockByte { file, offset } => self.unlock(pid, *file, Some(*offset)),
            Op::Close(fd) => {
                self.close(pid, *fd);
                Ok(Reply::Done)
            }
            Op::Map { file, length, write } => self.map(pid, *file, *length, *write),
            Op::Load { inode, at } => Ok(Reply::Word(self.word(*inode, *at)?)),
            Op::Store { inode, at, value } => {
                self.store(*inode, *at, *value)?;
                Ok(Reply::Done)
            }
            Op::Exchange { inode, at, current, new } => {
                let same = self.word(*inode, *at)? == *current;
                if same {
                    self.store(*inode, *at, *new)?;
                }
                Ok(Reply::Said(same))
            }
            Op::Add { inode, at, n } => {
                let word = self.word(*inode, *at)?;
                self.store(*inode, *at, word.wrapping_add(*n))?;
                Ok(Reply::Word(word))
            }
            // The scheduler lets the time pass.
            Op::Sleep(_) | Op::Witness { .. } => Ok(Reply::Done),
        }
    }

    /// A step in words: files by the names they were opened by.
    pub(crate) fn describe(&self, pid: Pid, op: &Op) -> String {
        let of = |fd: &Fd| match self.file(pid, *fd) {
            Ok(open) => format!("`{}`", open.place.1),
            Err(_) => "a closed file".into(),
        };
        match op {
            Op::Write { file, bytes, offset } => {
                format!("write {} bytes at {offset} to {}", bytes.len(), of(file))
            }
            Op::Read { file, length, offset } => {
                format!("read {length} at {offset} of {}", of(file))
            }
            Op::Rename { at, from, to_dir, to, replace } => {
                let new = if *replace { "" } else { ", unless taken" };
                format!("rename `{from}` in {} to `{to}` in {}{new}", of(at), of(to_dir))
            }
            Op::Open { at, name, access } => format!("open `{name}` in {} to {access:?}", of(at)),
            Op::OpenDir { at, name } => format!("open directory `{name}` in {}", of(at)),
            Op::StatAt { at, name } => format!("stat `{name}` in {}", of(at)),
            Op::Unlink { at, name } => format!("unlink `{name}` in {}", of(at)),
            Op::Stat(fd) => format!("stat {}", of(fd)),
            Op::TryLock(fd) => format!("try to lock {}", of(fd)),
            Op::Unlock(fd) => format!("unlock {}", of(fd)),
            Op::TryLockByte { file, offset } => {
                format!("try to lock byte {offset} of {}", of(file))
            }
            Op::UnlockByte { file, offset } => format!("unlock byte {offset} of {}", of(file)),
            Op::Close(fd) => format!("close {}", of(fd)),
            other => format!("{other:?}"),
        }
    }

    /// What a step would touch if it were taken now.
    pub(crate) fn footprint(&self, pid: Pid, op: &Op) -> Footprint {
        let mut list = Vec::with_capacity(6);
        let inode = |fd: &Fd| self.file(pid, *fd).map_or(0, |open| open.inode);
        let spaced = self.setup.capacity.is_some();
        match op {
            Op::Root | Op::Writable(_) => {}
            Op::Walk { at, name } | Op::ReadLink { at, name } => {
                list.push((name_of(inode(at), name), false));
            }
            Op::OpenDir { at, name } => {
                self.looked_up(inode(at), name, &mut list);
            }
            Op::MakeDir { at, name } | Op::MakeLink { at, name, .. } => {
                let missing = self.entry(inode(at), name).is_none();
                list.push((name_of(inode(at), name), missing));
            }
            Op::Open { at, name, access } => {
                let creates = matches!(access, Access::Ensure | Access::CreateNew);
                let missing = self.looked_up(inode(at), name, &mut list).is_none();
                if let Some((_, change)) = list.last_mut() {
                    *change = creates && missing;
                }
            }
            Op::Stat(fd) => {
                list.extend([(Object::Length(inode(fd)), false), (Object::Meta(inode(fd)), false)]);
            }
            Op::StatAt { at, name } => {
                if let Some(found) = self.looked_up(inode(at), name, &mut list) {
                    list.extend([(Object::Length(found), false), (Object::Meta(found), false)]);
                }
            }
            Op::Read { file, .. } => list.push((Object::Data(inode(file)), false)),
            Op::Write { file, .. } | Op::Allocate { file, .. } => {
                list.extend([
                    (Object::Data(inode(file)), true),
                    (Object::Length(inode(file)), true),
                ]);
                if spaced {
                    list.push((Object::Space, true));
                }
            }
            Op::Sync(fd) => list.push((Object::Data(inode(fd)), true)),
            Op::Rename { at, from, to_dir, to, .. } | Op::Link { at, from, to_dir, to } => {
                list.push((name_of(inode(at), from), true));
                list.push((name_of(inode(to_dir), to), true));
                for found in [self.entry(inode(at), from), self.entry(inode(to_dir), to)] {
                    list.extend(found.map(|inode| (Object::Meta(inode), true)));
                }
                if spaced {
                    list.push((Object::Space, true));
                }
            }
            Op::Unlink { at, name } | Op::RemoveDir { at, name } => {
                list.push((name_of(inode(at), name), true));
                if let Some(found) = self.entry(inode(at), name) {
                    list.push((Object::Meta(found), true));
                    if let Content::Directory { .. } = self.nodes[&found].content {
                        list.push((Object::Names(found), true));
                    }
                }
                if spaced {
                    list.push((Object::Space, true));
                }
            }
            Op::List { at, .. } => list.push((Object::Names(inode(at)), false)),
            Op::Touch(fd) => list.push((Object::Meta(inode(fd)), true)),
            Op::Class(_) => {}
            Op::TryLock(fd) | Op::Unlock(fd) => list.push((Object::Lock(inode(fd)), true)),
            Op::TryLockByte { file, offset } | Op::UnlockByte { file, offset } => {
                list.push((Object::Byte(inode(file), *offset), true));
            }
            Op::Close(fd) => {
                let inode = inode(fd);
                list.push((Object::Lock(inode), true));
                if let (Some(node), Some(description)) =
                    (self.nodes.get(&inode), self.process(pid).files.get(fd))
                {
                    let mine = node.byte_locks.iter().filter(|(_, holder)| *holder == description);
                    list.extend(mine.map(|(byte, _)| (Object::Byte(inode, *byte), true)));
                }
                if spaced {
                    list.push((Object::Space, true));
                }
            }
            Op::Map { file, .. } => list.push((Object::Length(inode(file)), false)),
            Op::Load { inode, at } => list.push((Object::Word(*inode, *at as u64), false)),
            Op::Store { inode, at, .. }
            | Op::Exchange { inode, at, .. }
            | Op::Add { inode, at, .. } => list.push((Object::Word(*inode, *at as u64), true)),
            Op::Sleep(_) => list.push((Object::Clock, true)),
            Op::Witness { what, change } => list.push((Object::Witness(*what), *change)),
        }
        Footprint(list)
    }

    /// Whether others see that this is closed: a lock goes, or space becomes free.
    pub(crate) fn close_is_seen(&self, pid: Pid, fd: Fd) -> bool {
        let Some(description) = self.process(pid).files.get(&fd) else { return false };
        let open = &self.open[description];
        let node = &self.nodes[&open.inode];
        open.holders == 1
            && (node.lock == Some(*description)
                || node.byte_locks.values().any(|holder| holder == description)
                || (node.links == 0 && self.setup.capacity.is_some()))
    }

    fn open(&mut self, pid: Pid, at: Fd, name: &str, access: Access) -> Outcome<Reply> {
        let (directory, name) = self.descend(pid, at, name, Errno::LOOP)?;
        let writes = access != Access::Read;
        if self.open_files(pid) >= self.setup.open_files {
            return Err(Errno::MFILE.into());
        }
        let inode = match self.look_up(pid, directory, name) {
            Ok(_) if access == Access::CreateNew => return Err(Errno::EXIST.into()),
            Ok(inode) => inode,
            Err(Failed::Error(error)) if error.kind() == io::ErrorKind::NotFound => {
                if matches!(access, Access::Read | Access::Write) {
                    return Err(Errno::NOENT.into());
                }
                self.create(pid, directory, name, Content::file(), 0o600)?
            }
            Err(other) => return Err(other),
        };
        match self.nodes[&inode].content {
            Content::Symlink(_) => return Err(Errno::LOOP.into()),
            Content::Directory { .. } if writes => return Err(Errno::ISDIR.into()),
            _ => {}
        }
        if !self.may(pid, inode, if writes { 6 } else { 4 }) {
            return Err(Errno::ACCESS.into());
        }
        if writes && self.setup.read_only {
            return Err(Errno::ROFS.into());
        }
        self.opened(pid, inode, (directory, name.into()), true, writes)
    }

    fn opened(
        &mut self,
        pid: Pid,
        inode: Ino,
        place: (Ino, String),
        reads: bool,
        writes: bool,
    ) -> Outcome<Reply> {
        if self.open_files(pid) >= self.setup.open_files {
            return Err(Errno::MFILE.into());
        }
        let process = self.process_mut(pid);
        process.next_description += 1;
        let description = u64::from(pid) << 32 | process.next_description;
        let fd = process.next_fd;
        process.next_fd += 1;
        process.files.insert(fd, description);
        self.open.insert(description, Open { inode, reads, writes, holders: 1, place });
        Ok(Reply::Opened(fd))
    }

    fn close(&mut self, pid: Pid, fd: Fd) {
        let Some(description) = self.process_mut(pid).files.remove(&fd) else { return };
        let open = self.open.get_mut(&description).expect("open");
        open.holders -= 1;
        if open.holders == 0 {
            let inode = open.inode;
            self.open.remove(&description);
            let node = self.node_mut(inode);
            node.lock.take_if(|holder| *holder == description);
            node.byte_locks.retain(|_, holder| *holder != description);
        }
    }

    fn read(&self, pid: Pid, fd: Fd, length: usize, offset: u64) -> Outcome<Reply> {
        let open = self.usable(pid, fd)?;
        let node = &self.nodes[&open.inode];
        self.is_trusted(pid, open.inode, "read from")?;
        match &node.content {
            Content::File { data, .. } => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
                let end = start.saturating_add(length).min(data.len());
                Ok(Reply::Bytes(data[start..end].to_vec()))
            }
            Content::Directory { .. } => Err(Errno::ISDIR.into()),
            _ => Err(Errno::AGAIN.into()),
        }
    }

    fn write(&mut self, pid: Pid, fd: Fd, bytes: &[u8], offset: u64) -> Outcome<Reply> {
        let open = self.file(pid, fd)?;
        let inode = open.inode;
        if !open.writes {
            return Err(Errno::BADF.into());
        }
        self.is_trusted(pid, inode, "write to")?;
        self.keeps_published_bytes(inode, offset, offset + bytes.len() as u64)?;
        let room = self.room(inode).saturating_sub(offset);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let now = self.clock_ns;
        let node = self.node_mut(inode);
        let Content::File { data, pending, .. } = &mut node.content else {
            return Err(Errno::INVAL.into());
        };
        let start = usize::try_from(offset).expect("small files");
        let change = DataChange::Write { offset: start, bytes: bytes[..fits].into() };
        change.apply(Arc::make_mut(data));
        pending.push(change);
        node.allocated = node.allocated.max((offset + fits as u64).next_multiple_of(BLOCK));
        (node.modified_ns, node.changed_ns) = (now, now);
        if fits < bytes.len() { Err(Errno::NOSPC.into()) } else { Ok(Reply::Done) }
    }

    fn allocate(&mut self, pid: Pid, fd: Fd, offset: u64, length: u64) -> Outcome<Reply> {
        let open = self.file(pid, fd)?;
        let inode = open.inode;
        if !open.writes {
            return Err(Errno::BADF.into());
        }
        if self.room(inode) < offset + length {
            return Err(Errno::NOSPC.into());
        }
        let node = self.node_mut(inode);
        let Content::File { data, pending, .. } = &mut node.content else {
            return Err(Errno::NODEV.into());
        };
        let end = usize::try_from(offset + length).expect("small files");
        if end > data.len() {
            pending.push(DataChange::Length(end));
            Arc::make_mut(data).resize(end, 0);
        }
        node.allocated = node.allocated.max((offset + length).next_multiple_of(BLOCK));
        Ok(Reply::Done)
    }

    /// Makes what an inode holds survive a power cut.
    pub(crate) fn sync(&mut self, inode: Ino) {
        match &mut self.node_mut(inode).content {
            Content::File { data, durable, pending } => {
                pending.clear();
                durable.clone_from(data);
            }
            Content::Directory { names, durable, pending } => {
                pending.clear();
                durable.clone_from(names);
            }
            _ => {}
        }
    }

    fn rename(
        &mut self,
        pid: Pid,
        from: (Ino, &str),
        to: (Ino, &str),
        replace: bool,
    ) -> Outcome<Reply> {
        let inode = self.look_up(pid, from.0, from.1)?;
        let taken = match self.look_up(pid, to.0, to.1) {
            Ok(inode) => Some(inode),
            Err(Failed::Error(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(other) => return Err(other),
        };
        if taken.is_some() && !replace {
            return Err(Errno::EXIST.into());
        }
        if self.is_above(inode, to.0) {
            return Err(Errno::INVAL.into());
        }
        if taken.is_some_and(|old| self.is_above(old, from.0)) {
            return Err(Errno::NOTEMPTY.into());
        }
        self.may_change(pid, from.0)?;
        self.may_change(pid, to.0)?;
        if self.nodes[&to.0].links == 0 {
            return Err(Errno::NOENT.into());
        }
        self.keeps_lock_files(pid, from.0, from.1, inode)?;
        if let Some(old) = taken {
            if old == inode {
                return Ok(Reply::Done);
            }
            match (&self.nodes[&inode].content, &self.nodes[&old].content) {
                (Content::Directory { .. }, Content::Directory { names, .. })
                    if !names.is_empty() =>
                {
                    return Err(Errno::NOTEMPTY.into());
                }
                (Content::Directory { .. }, Content::Directory { .. }) => {}
                (Content::Directory { .. }, _) => return Err(Errno::NOTDIR.into()),
                (_, Content::Directory { .. }) => return Err(Errno::ISDIR.into()),
                _ => {}
            }
            self.keeps_lock_files(pid, to.0, to.1, old)?;
        }
        self.gives_once(to.0, to.1)?;
        self.set_name(to.0, to.1, Some(inode));
        self.set_name(from.0, from.1, None);
        Ok(Reply::Done)
    }

    fn try_lock(&mut self, pid: Pid, fd: Fd, byte: Option<u64>) -> Outcome<Reply> {
        let open = self.usable(pid, fd)?.clone();
        if byte.is_some() && !open.writes {
            return Err(Errno::BADF.into());
        }
        let description = self.process(pid).files[&fd];
        let holder = |node: &Node| match byte {
            None => node.lock,
            Some(byte) => node.byte_locks.get(&byte).copied(),
        };
        if holder(&self.nodes[&open.inode]).is_some_and(|holder| holder != description) {
            return Ok(Reply::Said(false));
        }
        // The inode is free. Is the place? A lock file that was replaced has two lives.
        let twin = self.open.iter().find(|(other, theirs)| {
            **other != description
                && theirs.place == open.place
                && holder(&self.nodes[&theirs.inode]) == Some(**other)
        });
        if twin.is_some() && !self.meddled && self.setup.watch {
            return violation(format!("I5: two holders of the lock `{}`", open.place.1));
        }
        let node = self.node_mut(open.inode);
        node.locked_once = true;
        match byte {
            None => node.lock = Some(description),
            Some(byte) => _ = node.byte_locks.insert(byte, description),
        }
        Ok(Reply::Said(true))
    }

    fn unlock(&mut self, pid: Pid, fd: Fd, byte: Option<u64>) -> Outcome<Reply> {
        let inode = self.usable(pid, fd)?.inode;
        let description = self.process(pid).files[&fd];
        let opener = (description >> 32) as Pid;
        let node = self.node_mut(inode);
        let held = match byte {
            None => node.lock.take_if(|holder| *holder == description).is_some(),
            Some(byte) => {
                let mine = node.byte_locks.get(&byte) == Some(&description);
                mine && node.byte_locks.remove(&byte).is_some()
            }
        };
        if held && opener != pid && self.setup.watch {
            return violation("I17: a forked child released its parent's lock".into());
        }
        Ok(Reply::Done)
    }

    // Mappings.

    fn map(&mut self, pid: Pid, fd: Fd, length: u64, write: bool) -> Outcome<Reply> {
        let open = self.usable(pid, fd)?;
        let inode = open.inode;
        if write && !open.writes {
            return Err(Errno::ACCESS.into());
        }
        self.is_trusted(pid, inode, "map")?;
        if length == 0 || !length.is_multiple_of(8) {
            return Err(Errno::INVAL.into());
        }
        self.node_mut(inode).mapped_to_write |= write;
        *self.process_mut(pid).maps.entry(inode).or_default() += 1;
        Ok(Reply::Mapped(inode))
    }

    pub(crate) fn unmap(&mut self, pid: Pid, inode: Ino) {
        let maps = &mut self.process_mut(pid).maps;
        if let Some(count) = maps.get_mut(&inode) {
            *count -= 1;
            maps.retain(|_, count| *count > 0);
        }
    }

    /// Whether loading this word is a step, because somebody may change it.
    pub(crate) fn load_is_seen(&self, inode: Ino, at: usize) -> bool {
        at >= self.setup.fixed_words && self.nodes[&inode].mapped_to_write
    }

    pub(crate) fn word(&self, inode: Ino, at: usize) -> Outcome<u64> {
        let Content::File { data, .. } = &self.nodes[&inode].content else {
            unreachable!("only files are mapped")
        };
        match data.get(at * 8..at * 8 + 8) {
            Some(word) => Ok(u64::from_le_bytes(word.try_into().expect("eight bytes"))),
            None => violation(format!("I12: SIGBUS, word {at} is beyond the end of its file")),
        }
    }

    fn store(&mut self, inode: Ino, at: usize, value: u64) -> Outcome<()> {
        let old = self.word(inode, at)?;
        let node = &self.nodes[&inode];
        if (at as u64 * 8) >= node.allocated && self.setup.watch {
            return violation(format!("I12: SIGBUS, word {at} is in a page without blocks"));
        }
        if let (Some((directory, name)), true) = (&node.name, self.setup.watch) {
            let load = |at| self.word(inode, at).unwrap_or(0);
            let store = WordStore { name, at, old, new: value, load: &load };
            let directory = *directory;
            match (self.setup.words)(&store) {
                Err(text) => return violation(text),
                Ok(Some(Publishes { file, from, to })) => {
                    if let Some(inode) = self.entry(directory, &file) {
                        self.node_mut(inode).protected.push((from, to));
                    }
                }
                Ok(None) => {}
            }
        }
        let Content::File { data, pending, .. } = &mut self.node_mut(inode).content else {
            unreachable!("only files are mapped")
        };
        let change = DataChange::Word { at, value };
        change.apply(Arc::make_mut(data));
        pending.push(change);
        Ok(())
    }

    // Names.

    pub(crate) fn names(&self, directory: Ino) -> &BTreeMap<String, Ino> {
        match &self.nodes[&directory].content {
            Content::Directory { names, .. } => names,
            _ => unreachable!("only directories have names"),
        }
    }

    fn entry(&self, directory: Ino, name: &str) -> Option<Ino> {
        match &self.nodes.get(&directory)?.content {
            Content::Directory { names, .. } => names.get(name).copied(),
            _ => None,
        }
    }

    fn look_up(&self, pid: Pid, directory: Ino, name: &str) -> Outcome<Ino> {
        assert!(
            !name.is_empty() && name != "." && name != ".." && !name.contains('/'),
            "`{name}` is not a single component"
        );
        if !self.may(pid, directory, 1) {
            return Err(Errno::ACCESS.into());
        }
        self.entry(directory, name).ok_or(Errno::NOENT.into())
    }

    /// Gives a name to an inode, or to none, and counts links.
    pub(crate) fn set_name(&mut self, directory: Ino, name: &str, to: Option<Ino>) {
        let now = self.clock_ns;
        let published = (self.setup.published)(name);
        let node = self.node_mut(directory);
        (node.modified_ns, node.changed_ns) = (now, now);
        let Content::Directory { names, pending, .. } = &mut node.content else {
            unreachable!("only directories have names")
        };
        pending.push(NameChange { name: name.into(), to });
        let old = match to {
            Some(inode) => names.insert(name.into(), inode),
            None => names.remove(name),
        };
        for (inode, links) in [(old, -1), (to, 1)] {
            if let Some(inode) = inode {
                let node = self.node_mut(inode);
                node.links = node.links.strict_add_signed(links);
                node.changed_ns = now;
                node.published |= published && links > 0;
                if links > 0 {
                    node.name = Some((directory, name.into()));
                }
            }
        }
    }

    fn create(
        &mut self,
        pid: Pid,
        directory: Ino,
        name: &str,
        content: Content,
        mode: u32,
    ) -> Outcome<Ino> {
        match self.look_up(pid, directory, name) {
            Ok(_) => return Err(Errno::EXIST.into()),
            Err(Failed::Error(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(other) => return Err(other),
        }
        self.may_change(pid, directory)?;
        if self.nodes[&directory].links == 0 {
            return Err(Errno::NOENT.into());
        }
        Ok(self.put(pid, directory, name, content, mode))
    }

    /// As creating, without asking whether it is allowed.
    pub(crate) fn put(
        &mut self,
        pid: Pid,
        directory: Ino,
        name: &str,
        content: Content,
        mode: u32,
    ) -> Ino {
        let process = self.process_mut(pid);
        process.next_node += 1;
        let (next, user) = (process.next_node, process.user);
        let inode = (u64::from(pid) + 1) << 32 | self.boot << 24 | next;
        let node = self.node(content, user, mode);
        self.nodes.insert(inode, Arc::new(node));
        self.set_name(directory, name, Some(inode));
        inode
    }

    /// Whether `above` is this directory or one that it is in.
    fn is_above(&self, above: Ino, mut directory: Ino) -> bool {
        while directory != above && directory != ROOT {
            directory = self.parent(directory);
        }
        directory == above
    }

    fn parent(&self, directory: Ino) -> Ino {
        let has = |node: &Node| match &node.content {
            Content::Directory { names, .. } => names.values().any(|child| *child == directory),
            _ => false,
        };
        self.nodes.iter().find(|(_, node)| has(node)).map_or(ROOT, |(parent, _)| *parent)
    }

    /// The directory that the last of several components is to be looked up in, and that component. A link
    /// on the way is an error: this one.
    fn descend<'n>(&self, pid: Pid, at: Fd, path: &'n str, link: Errno) -> Outcome<(Ino, &'n str)> {
        let mut directory = self.directory(pid, at)?;
        let (way, last) = path.rsplit_once('/').unwrap_or(("", path));
        for name in way.split('/').filter(|name| !name.is_empty()) {
            directory = self.look_up(pid, directory, name)?;
            match self.nodes[&directory].content {
                Content::Directory { .. } => {}
                Content::Symlink(_) => return Err(link.into()),
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        Ok((directory, last))
    }

    /// Adds the names that looking up a path reads; the inode at its end.
    fn looked_up(&self, at: Ino, path: &str, list: &mut Vec<(Object, bool)>) -> Option<Ino> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(at, |directory, name| {
            list.push((name_of(directory, name), false));
            self.entry(directory, name)
        })
    }

    // Rules.

    fn may(&self, pid: Pid, inode: Ino, bits: u32) -> bool {
        let (user, node) = (self.process(pid).user, &self.nodes[&inode]);
        let allowed = if node.owner == user { node.mode >> 6 } else { node.mode };
        user == 0 || allowed & bits == bits
    }

    fn may_change(&self, pid: Pid, directory: Ino) -> Outcome<()> {
        if self.setup.read_only {
            return Err(Errno::ROFS.into());
        }
        if self.may(pid, directory, 3) { Ok(()) } else { Err(Errno::ACCESS.into()) }
    }

    fn is_trusted(&self, pid: Pid, inode: Ino, what: &str) -> Outcome<()> {
        let (user, node) = (self.process(pid).user, &self.nodes[&inode]);
        if !self.setup.watch {
            return Ok(());
        }
        if !matches!(node.content, Content::File { .. }) {
            return violation(format!("I16: {what} something that is no file"));
        }
        if node.owner != user || node.mode & 0o022 != 0 || node.links > 1 {
            return violation(format!(
                "I16: {what} a file of user {}, mode {:03o}, {} links",
                node.owner, node.mode, node.links
            ));
        }
        Ok(())
    }

    fn keeps_published_bytes(&self, inode: Ino, from: u64, to: u64) -> Outcome<()> {
        let node = &self.nodes[&inode];
        let overlaps = |(begin, end): &(u64, u64)| from < *end && *begin < to;
        if self.setup.watch && (node.published || node.protected.iter().any(overlaps)) {
            return violation(format!("I3: published bytes {from}..{to} were written in place"));
        }
        Ok(())
    }

    /// Some names are given once.
    fn gives_once(&mut self, directory: Ino, name: &str) -> Outcome<()> {
        if self.setup.watch
            && !self.meddled
            && (self.setup.once)(name)
            && !self.given.insert((directory, name.into()))
        {
            return violation(format!("I4: the name `{name}` was given twice"));
        }
        Ok(())
    }

    fn keeps_lock_files(
        &mut self,
        pid: Pid,
        directory: Ino,
        name: &str,
        inode: Ino,
    ) -> Outcome<()> {
        if self.process(pid).meddles {
            self.meddled = true;
            return Ok(());
        }
        let here = self.entry(directory, name) == Some(inode);
        if here && self.nodes[&inode].locked_once && self.setup.watch {
            return violation(format!("R4: the lock file `{name}` was unlinked or renamed"));
        }
        Ok(())
    }

    // Inodes.

    fn node(&self, content: Content, owner: u32, mode: u32) -> Node {
        Node {
            content,
            owner,
            mode,
            links: 0,
            modified_ns: self.clock_ns,
            changed_ns: self.clock_ns,
            allocated: 0,
            lock: None,
            byte_locks: BTreeMap::new(),
            published: false,
            protected: Vec::new(),
            mapped_to_write: false,
            name: None,
            locked_once: false,
        }
    }

    pub(crate) fn node_mut(&mut self, inode: Ino) -> &mut Node {
        Arc::make_mut(self.nodes.get_mut(&inode).expect("inodes are kept"))
    }

    /// As [`file`](Self::file), unless it is a directory that may only be walked through.
    fn usable(&self, pid: Pid, fd: Fd) -> Outcome<&Open> {
        let open = self.file(pid, fd)?;
        if open.reads { Ok(open) } else { Err(Errno::BADF.into()) }
    }

    fn file(&self, pid: Pid, fd: Fd) -> Outcome<&Open> {
        let description = self.process(pid).files.get(&fd).ok_or(Errno::BADF)?;
        Ok(&self.open[description])
    }

    fn directory(&self, pid: Pid, fd: Fd) -> Outcome<Ino> {
        let inode = self.file(pid, fd)?.inode;
        match self.nodes[&inode].content {
            Content::Directory { .. } => Ok(inode),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn stat(&self, inode: Ino) -> Stat {
        let node = &self.nodes[&inode];
        let (kind, length) = match &node.content {
            Content::File { data, .. } => (FileKind::File, data.len()),
            Content::Directory { .. } => (FileKind::Directory, BLOCK as usize),
            Content::Symlink(to) => (FileKind::Symlink, to.len()),
            Content::Fifo => (FileKind::Other, 0),
        };
        Stat {
            kind,
            device: 7,
            inode,
            links: node.links,
            owner: node.owner,
            group: node.owner,
            mode: node.mode,
            length: length as u64,
            allocated: node.allocated,
            modified_ns: node.modified_ns,
            changed_ns: node.changed_ns,
        }
    }

    /// Bytes that files occupy: those that have a name, and those that are still open too.
    pub(crate) fn occupied(&self, named_only: bool) -> u64 {
        let held = |inode: Ino| {
            self.open.values().any(|open| open.inode == inode)
                || self.processes.values().any(|process| process.maps.contains_key(&inode))
        };
        self.nodes
            .iter()
            .filter(|(inode, node)| node.links > 0 || (!named_only && held(**inode)))
            .map(|(_, node)| node.allocated)
            .sum()
    }

    /// The length that a file could have with the space there is.
    fn room(&self, inode: Ino) -> u64 {
        let Some(capacity) = self.setup.capacity else { return u64::MAX / 2 };
        let own = self.nodes[&inode].allocated;
        (capacity.saturating_sub(self.occupied(false) - own) / BLOCK * BLOCK).max(own)
    }

    /// Removes the name that a file was opened by.
    pub(crate) fn unlink_place(&mut self, pid: Pid, fd: Fd) {
        let Ok(open) = self.file(pid, fd) else { return };
        let ((directory, name), inode) = (open.place.clone(), open.inode);
        if self.entry(directory, &name) == Some(inode) {
            self.set_name(directory, &name, None);
        }
    }

    // What a user, or another program, does by hand.

    /// The inode at an absolute path.
    pub(crate) fn find(&self, path: &str) -> Option<Ino> {
        components(Path::new(path)).iter().try_fold(ROOT, |at, name| self.entry(at, name))
    }

    /// Puts something new at an absolute path, in place of what is there, with everything durable.
    pub(crate) fn place(&mut self, path: &str, content: Content, owner: u32, mode: u32) -> Ino {
        let (parent, name) = path.rsplit_once('/').expect("an absolute path");
        let parent = self.find(parent).expect("the parent is there");
        let inode = self.put(NOBODY, parent, name, content, mode);
        self.node_mut(inode).owner = owner;
        self.sync(parent);
        self.sync(inode);
        inode
    }

    /// The bytes of the file at an absolute path.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        match &self.nodes[&self.find(path)?].content {
            Content::File { data, .. } => Some(data.to_vec()),
            _ => None,
        }
    }

    /// Changes a bit of a byte of the file at an absolute path, on the disk too.
    pub(crate) fn flip(&mut self, path: &str, at: usize) {
        let inode = self.find(path).expect("it is there");
        if let Content::File { data, .. } = &mut self.node_mut(inode).content {
            Arc::make_mut(data)[at] ^= 1;
        }
        self.sync(inode);
    }

    /// The paths from `path` down whose content is like this.
    pub(crate) fn paths(&self, path: &str, like: fn(&Content) -> bool) -> Vec<String> {
        let Some(inode) = self.find(path) else { return Vec::new() };
        let content = &self.nodes[&inode].content;
        let mut paths: Vec<String> = like(content).then(|| path.to_owned()).into_iter().collect();
        if let Content::Directory { names, .. } = content {
            paths.extend(names.keys().flat_map(|name| self.paths(&format!("{path}/{name}"), like)));
        }
        paths
    }

    /// `rm -rf path`, as one step.
    pub(crate) fn remove_tree(&mut self, path: &str) {
        let (parent, name) = path.rsplit_once('/').expect("an absolute path");
        let Some(inode) = self.find(path) else { return };
        self.meddled = true;
        if let Content::Directory { names, .. } = &self.nodes[&inode].content {
            let names: Vec<String> = names.keys().cloned().collect();
            for child in names {
                self.remove_tree(&format!("{path}/{child}"));
            }
        }
        let parent = self.find(parent).expect("the parent is there");
        self.set_name(parent, name, None);
    }
}

impl Content {
    pub(crate) fn file() -> Self {
        Content::file_of(Vec::new())
    }

    pub(crate) fn file_of(data: Vec<u8>) -> Self {
        let data = Arc::new(data);
        Content::File { durable: data.clone(), data, pending: Vec::new() }
    }

    pub(crate) fn directory() -> Self {
        Content::Directory { names: BTreeMap::new(), durable: BTreeMap::new(), pending: Vec::new() }
    }
}

impl DataChange {
    pub(crate) fn apply(&self, data: &mut Vec<u8>) {
        match self {
            DataChange::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if data.len() < end {
                    data.resize(end, 0);
                }
                data[*offset..end].copy_from_slice(bytes);
            }
            DataChange::Length(length) => {
                if data.len() < *length {
                    data.resize(*length, 0);
                }
            }
            DataChange::Word { at, value } => {
                let (from, to) = (at * 8, at * 8 + 8);
                if data.len() < to {
                    data.resize(to, 0);
                }
                data[from..to].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

fn components(path: &Path) -> Vec<String> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => {
                Some(name.to_str().expect("simulated names are text").into())
            }
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

fn name_of(directory: Ino, name: &str) -> Object {
    Object::Name(directory, name.bytes().fold(directory, |hash, byte| mix(hash ^ u64::from(byte))))
}

/// A good mixing of 64 bits (the finaliser of SplitMix64).
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
