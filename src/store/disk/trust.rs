//! Whether a directory may be used at all, and the one way to open it.
//!
//! A cache hands out machine code, so who can write the directory can run code as its user. No checksum
//! changes that; owners and modes do. The path is therefore walked a component at a time, each opened
//! without following links and judged by what was opened, and everything later is done relative to the
//! directory that was judged:
//!
//! ```text
//!   /home/ann/.cache   every directory above    owner: root, the user, or whoever owns `/`
//!                                               writable by others only if sticky
//!                                               a link is followed if its owner passes, and walked the same
//!   cachelift          the directory            owner: the user; not writable by group or others; no link
//!   v1-x86_64-le64     this format's space      the same
//!   big/ab/cdef...     records                  the same, as files of one name: checked by `large`
//! ```
//!
//! Three rules need their reasons:
//!
//! - *Whoever owns `/`* already chooses every program and library that runs here. It is root, except in a
//!   user namespace that does not map root, where it is the overflow user.
//! - A directory above may be writable by the *user's own group* (its number is the user's) and by root's:
//!   with the usual umask 002 of systems that give every user a group, all of a user's directories are.
//!   Who could rename directories there could at worst put another directory of the same user in this
//!   one's place. The directory itself has to be writable by its owner alone.
//! - A *base* directory is only read, and may belong to root instead: root can do anything anyway. A
//!   cache directory of root's, used by another user, is refused with the hint to make it the base.
//!
//! In a place that is refused nothing is changed, and the mode of something that exists never is.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::fs::{Access, FileKind, Fs, FsClass, Stat};
use super::reason::Reason;

/// What a directory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The cache directory; made if it is missing.
    Cache,
    /// The cache directory, to read alone: nothing in it is made or changed.
    CacheReadOnly,
    /// A read-only directory under the cache directory; root's will do.
    Base,
}

impl Purpose {
    fn writes(self) -> bool {
        self == Purpose::Cache
    }

    fn variable(self) -> &'static str {
        match self {
            Purpose::Cache | Purpose::CacheReadOnly => "CACHELIFT_DIR",
            Purpose::Base => "CACHELIFT_BASE_DIR",
        }
    }

    /// Whether things in the directory may belong to `owner`.
    pub(crate) fn accepts_owner(self, owner: u32, user: u32) -> bool {
        owner == user || (self == Purpose::Base && owner == 0)
    }
}

/// A directory that may be used.
#[derive(Debug)]
pub(crate) struct Opened<H> {
    /// The directory that it is in, and its name there.
    pub(crate) parent: H,
    pub(crate) name: String,
    /// The directory.
    pub(crate) root: H,
    pub(crate) root_identity: (u64, u64),
    /// The directory in it for entries of this format and machine, under which everything is done.
    /// `None` where it is missing and may not be made: there is nothing to read.
    pub(crate) space: Option<H>,
    pub(crate) space_identity: Option<(u64, u64)>,
    /// Whether entries can be made; otherwise they are only read.
    pub(crate) writable: bool,
    /// What the file system can be trusted with.
    pub(crate) class: FsClass,
}

/// Why a directory is not used: a sentence that names the path, the cause and the way out.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What was refused: the directory, or one above or in it.
    pub(crate) path: PathBuf,
    pub(crate) cause: Cause,
    purpose: Purpose,
}

/// What is wrong with a path.
#[derive(Debug)]
pub(crate) enum Cause {
    /// It is not there, and is only to be read.
    Missing,
    /// It is a symbolic link to this.
    Symlink(String),
    /// It is no directory.
    NotADirectory(FileKind),
    /// It belongs to another user.
    Owner { owner: u32, user: u32 },
    /// Others can write it.
    Mode(u32),
    /// Links upon links.
    LinkLoop,
    /// It is no text.
    NotUtf8,
    /// It is `/`.
    Slash,
    /// The file system refused.
    Io(&'static str, io::Error),
}

impl Cause {
    /// The reason to count.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Cause::Missing => Reason::Absent,
            Cause::Symlink(_) | Cause::LinkLoop => Reason::Symlink,
            Cause::NotADirectory(_) | Cause::Slash => Reason::NotADirectory,
            Cause::Owner { .. } => Reason::Owner,
            Cause::Mode(_) => Reason::Mode,
            Cause::NotUtf8 => Reason::Other,
            Cause::Io(_, error) => Reason::of(error),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, variable) = (self.path.display(), self.purpose.variable());
        match &self.cause {
            Cause::Missing => write!(f, "{path} does not exist, and is only to be read"),
            Cause::Symlink(target) => write!(
                f,
                "{path} is a symbolic link, which could come to lead elsewhere: set {variable} to what it leads to, {target}"
            ),
            Cause::NotADirectory(kind) => {
                let kind = if *kind == FileKind::File { "a file" } else { "no directory" };
                write!(f, "{path} is {kind}: remove it, or set {variable} to a directory")
            }
            Cause::Owner { owner, user } => {
                write!(
                    f,
                    "{path} belongs to user {owner}, but this program runs as user {user}: "
                )?;
                if *owner == 0 && self.purpose != Purpose::Base {
                    write!(f, "set CACHELIFT_BASE_DIR to it to read it, and ")?;
                }
                write!(f, "set {variable} to a directory of user {user}")
            }
            Cause::Mode(mode) => write!(
                f,
                "{path} can be written by other users (mode {mode:04o}), who could plant code in it: remove it, or run `chmod -R go-w` on it if you trust what is there, or set {variable} to another directory"
            ),
            Cause::LinkLoop => write!(
                f,
                "{path} leads through too many symbolic links: set {variable} to where they should lead"
            ),
            Cause::NotUtf8 => {
                write!(f, "{path} is not valid UTF-8: set {variable} to a path that is")
            }
            Cause::Slash => write!(
                f,
                "{path} is the whole file system: set {variable} to a directory for the cache alone"
            ),
            Cause::Io(doing, error) => {
                write!(
                    f,
                    "{path} could not be {doing} ({error}): set {variable} to a directory that can be"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

/// The directory in a cache directory for the entries of this format and machine. Other formats have
/// theirs beside it, and are never touched.
pub(crate) const SPACE: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "v1-x86_64-le64",
    b"aarch64" => "v1-aarch64-le64",
    b"riscv64" => "v1-riscv64-le64",
    _ => panic!("an architecture that has no name here"),
};

/// Opens the directory `path`. What is missing is made first if `make` is set and `purpose` allows it.
pub(crate) fn open<F: Fs>(
    fs: &F,
    path: &Path,
    purpose: Purpose,
    make: bool,
) -> Result<Opened<F::Handle>, Refusal> {
    let make = make && purpose.writes();
    let judge = Judge { fs, user: fs.user(), purpose, make };
    let (parent, parent_path, name) = judge.walk(path)?;
    let root_path = parent_path.join(&name);
    let (root, root_stat, made) = judge.directory(&parent, &name, &root_path, make, true)?;

    let space_path = root_path.join(SPACE);
    let ask = |dir: &F::Handle, path: &Path| {
        let answer = if purpose.writes() { fs.writable(dir) } else { Ok(false) };
        answer.map_err(|error| judge.refuse(path, Cause::Io("examined", error)))
    };
    let mut writable = ask(&root, &root_path)?;
    // A directory that the user made has no tag, and might be more than a cache: the tag goes below.
    let tagged = made || fs.stat_at(&root, TAG).is_ok();
    let space = match judge.directory(&root, SPACE, &space_path, make && writable, !tagged) {
        Ok((space, stat, _)) => Some((space, stat.identity())),
        Err(Refusal { cause: Cause::Missing, .. }) => None,
        Err(refusal) => return Err(refusal),
    };
    if let Some((space, _)) = &space {
        writable = ask(space, &space_path)?;
    }
    let class = fs.class(&root).unwrap_or(FsClass::Foreign);
    let (space, space_identity) = space.unzip();
    let root_identity = root_stat.identity();
    Ok(Opened { parent, name, root, root_identity, space, space_identity, writable, class })
}

/// As the kernel's own limit.
const MAX_LINKS: usize = 40;

struct Judge<'a, F> {
    fs: &'a F,
    user: u32,
    purpose: Purpose,
    make: bool,
}

impl<F: Fs> Judge<'_, F> {
    fn refuse(&self, path: &Path, cause: Cause) -> Refusal {
        Refusal { path: path.to_owned(), cause, purpose: self.purpose }
    }

    /// Opens what the last component of `path` is in, and says its name there.
    fn walk(&self, path: &Path) -> Result<(F::Handle, PathBuf, String), Refusal> {
        let fs = self.fs;
        let io = |path: &Path, error| self.refuse(path, Cause::Io("opened", error));
        let absolute = std::path::absolute(path).map_err(|error| io(path, error))?;
        let slash = || fs.root().map_err(|error| io(Path::new("/"), error));
        let mut at = slash()?;
        let mut at_path = PathBuf::from("/");
        let stat = fs.stat(&at).map_err(|error| io(&at_path, error))?;
        let slash_owner = stat.owner;
        self.judge_above(&stat, &at_path, slash_owner)?;

        // The components still to walk, the next one last.
        let mut ahead = Vec::new();
        self.push_components(&absolute, &absolute, &mut ahead)?;
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            if ahead.is_empty() {
                return Ok((at, at_path, name));
            }
            let path = at_path.join(&name);
            match fs.walk(&at, &name) {
                Ok(dir) => {
                    let stat = fs.stat(&dir).map_err(|error| io(&path, error))?;
                    self.judge_above(&stat, &path, slash_owner)?;
                    at = dir;
                    if name == ".." {
                        at_path.pop();
                    } else {
                        at_path = path;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    let stat = fs.stat_at(&at, &name).map_err(|error| io(&path, error))?;
                    if stat.kind != FileKind::Symlink {
                        return Err(self.refuse(&path, Cause::NotADirectory(stat.kind)));
                    }
                    self.judge_owner_above(&stat, &path, slash_owner)?;
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(self.refuse(&absolute, Cause::LinkLoop));
                    }
                    let target = fs.read_link(&at, &name).map_err(|error| io(&path, error))?;
                    if target.starts_with('/') {
                        at = slash()?;
                        at_path = PathBuf::from("/");
                    }
                    self.push_components(Path::new(&target), &path, &mut ahead)?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !self.make {
                        return Err(self.refuse(&path, Cause::Missing));
                    }
                    match fs.make_dir(&at, &name) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(self.refuse(&path, Cause::Io("made", error)));
                        }
                        _ => ahead.push(name),
                    }
                }
                Err(error) => return Err(io(&path, error)),
            }
        }
        Err(self.refuse(&absolute, Cause::Slash))
    }

    fn push_components(
        &self,
        path: &Path,
        whole: &Path,
        ahead: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => {
                    let name = name.to_str().ok_or_else(|| self.refuse(whole, Cause::NotUtf8))?;
                    ahead.push(name.to_owned());
                }
                Component::ParentDir => ahead.push("..".to_owned()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(())
    }

    /// Whether a directory above the cache directory is safe to walk through.
    fn judge_above(&self, stat: &Stat, path: &Path, slash_owner: u32) -> Result<(), Refusal> {
        self.judge_owner_above(stat, path, slash_owner)?;
        let sticky = stat.mode & 0o1000 != 0;
        let own_group = stat.mode & 0o002 == 0 && (stat.group == 0 || stat.group == self.user);
        if stat.shared_for_writing() && !sticky && !own_group {
            return Err(self.refuse(path, Cause::Mode(stat.mode)));
        }
        Ok(())
    }

    fn judge_owner_above(&self, stat: &Stat, path: &Path, slash_owner: u32) -> Result<(), Refusal> {
        if stat.owner != self.user && stat.owner != 0 && stat.owner != slash_owner {
            let (owner, user) = (stat.owner, self.user);
            return Err(self.refuse(path, Cause::Owner { owner, user }));
        }
        Ok(())
    }

    /// Opens the directory `name`, judged as strictly as everything from the cache directory down. If it is
    /// missing and `make` is set, makes it, `tagged` as a cache. Says whether it did.
    fn directory(
        &self,
        at: &F::Handle,
        name: &str,
        path: &Path,
        make: bool,
        tagged: bool,
    ) -> Result<(F::Handle, Stat, bool), Refusal> {
        let mut made = false;
        // A directory removed as soon as it is made is made again, but not for ever.
        for _ in 0..3 {
            match self.fs.open_dir(at, name) {
                Ok(dir) => {
                    let stat = self.fs.stat(&dir);
                    let stat =
                        stat.map_err(|error| self.refuse(path, Cause::Io("examined", error)))?;
                    self.judge_directory(&stat, path, || None)?;
                    return Ok((dir, stat, made));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !make {
                        return Err(self.refuse(path, Cause::Missing));
                    }
                    made = true;
                    let done = if tagged {
                        self.make_tagged(at, name)
                    } else {
                        self.fs.make_dir(at, name)
                    };
                    match done {
                        // Someone else was first, and theirs is as good.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => made = false,
                        Err(error) => return Err(self.refuse(path, Cause::Io("made", error))),
                        Ok(()) => {}
                    }
                }
                Err(error) => {
                    // What is there says more than why it did not open.
                    if let Ok(stat) = self.fs.stat_at(at, name) {
                        self.judge_directory(&stat, path, || self.fs.read_link(at, name).ok())?;
                    }
                    return Err(self.refuse(path, Cause::Io("opened", error)));
                }
            }
        }
        Err(self.refuse(path, Cause::Missing))
    }

    fn judge_directory(
        &self,
        stat: &Stat,
        path: &Path,
        target: impl FnOnce() -> Option<String>,
    ) -> Result<(), Refusal> {
        let cause = match stat.kind {
            FileKind::Symlink => Cause::Symlink(target().unwrap_or_else(|| "nothing".to_owned())),
            FileKind::File | FileKind::Other => Cause::NotADirectory(stat.kind),
            FileKind::Directory if !self.purpose.accepts_owner(stat.owner, self.user) => {
                Cause::Owner { owner: stat.owner, user: self.user }
            }
            FileKind::Directory if stat.shared_for_writing() => Cause::Mode(stat.mode),
            FileKind::Directory => return Ok(()),
        };
        Err(self.refuse(path, cause))
    }

    /// Makes a directory that backups and Git leave out. It gets its name when it is complete, so nobody
    /// ever sees it without its tag; `AlreadyExists` if the name is taken by then.
    fn make_tagged(&self, at: &F::Handle, name: &str) -> io::Result<()> {
        let fs = self.fs;
        let temporary = format!(".cachelift-{:032x}", u128::from_le_bytes(fs.random()));
        fs.make_dir(at, &temporary)?;
        let done = fs.open_dir(at, &temporary).and_then(|dir| {
            let fill = |name, text: &str| {
                let file = fs.open(&dir, name, Access::CreateNew)?;
                fs.write_all_at(&file, text.as_bytes(), 0)
            };
            let done = fill(TAG, TAG_TEXT)
                .and_then(|()| fill(GITIGNORE, "*\n"))
                .and_then(|()| fs.rename_new(at, &temporary, at, name));
            if done.is_err() {
                // As far as it goes: an empty directory of this name is left at worst.
                let _ = fs.unlink(&dir, TAG);
                let _ = fs.unlink(&dir, GITIGNORE);
            }
            done
        });
        if done.is_err() {
            let _ = fs.remove_dir(at, &temporary);
        }
        done
    }
}

const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &str = "\
Signature: 8a477f597d28d172789f06886806bc55
# This directory is a cache of compiled code made by cachelift. It may be removed at any time.
# For information about cache directory tags see https://bford.info/cachedir/
";
const GITIGNORE: &str = ".gitignore";
