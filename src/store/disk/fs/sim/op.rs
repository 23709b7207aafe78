//! The operations of [`Fs`](super::super::Fs) as data, so that a scheduler can look at one before it
//! happens, and which of them commute.

use std::time::Duration;

use super::super::{Access, FsClass, Stat};

/// A process of the simulation.
pub(crate) type Pid = u32;
/// An entry of a process's table of open files.
pub(crate) type Fd = u32;
/// The number of an inode.
pub(crate) type Ino = u64;

/// One step that a process asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Root,
    Walk {
        at: Fd,
        name: String,
    },
    ReadLink {
        at: Fd,
        name: String,
    },
    MakeLink {
        at: Fd,
        name: String,
        target: String,
    },
    Writable(Fd),
    OpenDir {
        at: Fd,
        name: String,
    },
    MakeDir {
        at: Fd,
        name: String,
    },
    Open {
        at: Fd,
        name: String,
        access: Access,
    },
    Stat(Fd),
    StatAt {
        at: Fd,
        name: String,
    },
    Read {
        file: Fd,
        length: usize,
        offset: u64,
    },
    Write {
        file: Fd,
        bytes: Vec<u8>,
        offset: u64,
    },
    Allocate {
        file: Fd,
        offset: u64,
        length: u64,
    },
    Sync(Fd),
    Rename {
        at: Fd,
        from: String,
        to_dir: Fd,
        to: String,
        replace: bool,
    },
    /// A second name for a file; an error if it is taken.
    Link {
        at: Fd,
        from: String,
        to_dir: Fd,
        to: String,
    },
    Unlink {
        at: Fd,
        name: String,
    },
    RemoveDir {
        at: Fd,
        name: String,
    },
    /// The names after this one: a listing takes two steps, and the directory may change between them.
    List {
        at: Fd,
        after: Option<String>,
    },
    Touch(Fd),
    Class(Fd),
    TryLock(Fd),
    Unlock(Fd),
    TryLockByte {
        file: Fd,
        offset: u64,
    },
    UnlockByte {
        file: Fd,
        offset: u64,
    },
    Close(Fd),
    /// The whole words of a file's first bytes, as memory.
    Map {
        file: Fd,
        length: u64,
        write: bool,
    },
    Load {
        inode: Ino,
        at: usize,
    },
    Store {
        inode: Ino,
        at: usize,
        value: u64,
    },
    Exchange {
        inode: Ino,
        at: usize,
        current: u64,
        new: u64,
    },
    Add {
        inode: Ino,
        at: usize,
        n: u64,
    },
    Sleep(Duration),
    /// No operation of a file system: a test writes down, or looks up, what all its processes share. It is
    /// a step so that the order of such notes and real steps is explored too.
    Witness {
        what: u64,
        change: bool,
    },
}

/// What can go wrong with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Risk {
    /// Nothing but the death of its process: it is an access to memory.
    Memory,
    /// It can fail.
    Call,
    /// It can fail, and change something.
    Change,
    /// It can fail half-way.
    Write,
}

/// A step that was taken, for what could have gone wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) risk: Risk,
    /// Others can see that it was taken: to die before one that nobody sees is to die before the next.
    pub(crate) seen: bool,
}

impl Op {
    pub(crate) fn as_step(&self) -> Step {
        let locks = matches!(
            self,
            Op::TryLock(_)
                | Op::Unlock(_)
                | Op::TryLockByte { .. }
                | Op::UnlockByte { .. }
                | Op::Close(_)
        );
        Step { risk: self.risk(), seen: locks || self.changes() }
    }

    pub(crate) fn risk(&self) -> Risk {
        match self {
            Op::Load { .. } | Op::Store { .. } | Op::Exchange { .. } | Op::Add { .. } => {
                Risk::Memory
            }
            Op::Sleep(_) | Op::Witness { .. } => Risk::Memory,
            Op::Write { .. } => Risk::Write,
            _ if self.writes() => Risk::Change,
            _ => Risk::Call,
        }
    }

    /// Whether something that a power cut leaves or loses is different after it.
    pub(crate) fn changes(&self) -> bool {
        matches!(self, Op::Store { .. } | Op::Exchange { .. } | Op::Add { .. }) || self.writes()
    }

    /// Whether the kernel would write something because of it (the age of a file counts).
    pub(crate) fn writes(&self) -> bool {
        match self {
            Op::MakeDir { .. }
            | Op::MakeLink { .. }
            | Op::Write { .. }
            | Op::Allocate { .. }
            | Op::Sync(_)
            | Op::Rename { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::RemoveDir { .. }
            | Op::Touch(_) => true,
            Op::Open { access, .. } => matches!(access, Access::Ensure | Access::CreateNew),
            _ => false,
        }
    }
}

/// What a step gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    Opened(Fd),
    Stat(Stat),
    Bytes(Vec<u8>),
    Names(Vec<String>),
    Text(String),
    Mapped(Ino),
    Word(u64),
    Class(FsClass),
    Said(bool),
}

/// A part of the machine that two steps may both touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    /// One name (by hash) in a directory.
    Name(Ino, u64),
    /// All names in a directory.
    Names(Ino),
    /// The bytes of a file.
    Data(Ino),
    /// One of them, in a mapping.
    Word(Ino, u64),
    /// How many there are.
    Length(Ino),
    /// Link count and stamps of an inode.
    Meta(Ino),
    /// The whole-file lock of an inode.
    Lock(Ino),
    /// The lock on one byte of an inode.
    Byte(Ino, u64),
    /// The free space.
    Space,
    Clock,
    Witness(u64),
    Everything,
}

impl Object {
    fn overlaps(self, other: Object) -> bool {
        match (self, other) {
            (Object::Everything, _) | (_, Object::Everything) => true,
            (Object::Names(a), Object::Name(b, _)) | (Object::Name(a, _), Object::Names(b)) => {
                a == b
            }
            (Object::Data(a), Object::Word(b, _)) | (Object::Word(a, _), Object::Data(b)) => a == b,
            _ => self == other,
        }
    }
}

/// What a step would touch if it were taken now; `true` where it would change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint(pub(crate) Vec<(Object, bool)>);

impl Footprint {
    /// Of a step that may do anything, such as to die.
    pub(crate) fn everything() -> Self {
        Footprint(vec![(Object::Everything, true)])
    }

    /// Whether the order of two steps can matter.
    pub(crate) fn conflicts(&self, other: &Footprint) -> bool {
        self.0.iter().any(|(mine, change)| {
            other.0.iter().any(|(theirs, changed)| (*change || *changed) && mine.overlaps(*theirs))
        })
    }
}
