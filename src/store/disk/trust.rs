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
//! Where every directory above is a plain one, it is judged by its path, from the top down, and only the last one is opened: one
//! system call for each in place of three. That is as good, since nobody can put another in the place of one whose own
//! directory was judged before it. The first that is a link, or is refused, has everything walked one by one.
//!
//! In a place that is refused nothing is changed, and the mode of something that exists never is.

use std::borrow::Cow;
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
    /// The user as whom it was judged: what lies in it has to belong to the same.
    pub(crate) user: u32,
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
    let find = |make, tagged| match judge.directory(&root, SPACE, &space_path, make, tagged) {
        Ok((space, stat, _)) => Ok(Some((space, stat.identity()))),
        Err(Refusal { cause: Cause::Missing, .. }) => Ok(None),
        Err(refusal) => Err(refusal),
    };
    let mut space = find(false, false)?;
    let writable = match &space {
        Some((space, _)) => ask(space, &space_path)?,
        None => {
            let mut writable = ask(&root, &root_path)?;
            if make && writable {
                // A directory that the user made has no tag, and might be more than a cache: the tag goes below.
                let tagged = made || fs.stat_at(&root, TAG).is_ok();
                space = find(true, !tagged)?;
                if let Some((space, _)) = &space {
                    writable = ask(space, &space_path)?;
                }
            }
            writable
        }
    };
    let class = fs.class(&root).unwrap_or(FsClass::Foreign);
    let (space, space_identity) = space.unzip();
    let root_identity = root_stat.identity();
    let user = judge.user;
    Ok(Opened { parent, name, root, root_identity, space, space_identity, user, writable, class })
}

/// The path from the root of the file system on.
pub(crate) fn absolute(path: &Path) -> io::Result<Cow<'_, Path>> {
    if path.is_absolute() {
        return Ok(path.into());
    }
    std::path::absolute(path).map(Cow::Owned)
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
        let absolute = absolute(path).map_err(|error| io(path, error))?;
        let slash = || fs.root().map_err(|error| io(Path::new("/"), error));
        let mut at = slash()?;
        let mut at_path = PathBuf::from("/");
        let stat = fs.stat(&at).map_err(|error| io(&at_path, error))?;
        let slash_owner = stat.owner;
        self.judge_above(&stat, &at_path, slash_owner)?;
        if let Some(plain) = self.walk_plain(&at, &absolute, slash_owner) {
            return Ok(plain);
        }

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

    /// As [`walk`](Self::walk) where all above is there, is no link, and passes.
    fn walk_plain(
        &self,
        slash: &F::Handle,
        absolute: &Path,
        slash_owner: u32,
    ) -> Option<(F::Handle, PathBuf, String)> {
        let (above, name) = absolute.to_str()?.strip_prefix('/')?.rsplit_once('/')?;
        let is_plain = |name: &str| !matches!(name, "" | "." | "..");
        if !is_plain(name) || !above.split('/').all(is_plain) {
            return None;
        }
        let above_path = PathBuf::from("/").join(above);
        let passes = |stat: Stat| {
            stat.kind == FileKind::Directory
                && self.judge_above(&stat, &above_path, slash_owner).is_ok()
        };
        // In this order: what one of them holds is settled by who can write it.
        for (end, _) in above.match_indices('/') {
            self.fs.stat_at(slash, &above[..end]).ok().filter(|stat| passes(*stat))?;
        }
        let parent = self.fs.walk(slash, above).ok()?;
        self.fs.stat(&parent).ok().filter(|stat| passes(*stat))?;
        Some((parent, above_path, name.to_owned()))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;
    use crate::store::disk::fs::real::RealFs;
    use crate::store::disk::testing::{
        Faulty, again, as_ordinary_user, in_namespace, quick_temp, role, sh, skipped, succeed,
        test_path,
    };

    fn temp() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn try_open(path: impl AsRef<Path>) -> Result<Opened<fs::File>, Refusal> {
        open(&RealFs, path.as_ref(), Purpose::Cache, true)
    }

    fn refused(path: impl AsRef<Path>) -> Refusal {
        try_open(path).map(|_| ()).unwrap_err()
    }

    fn set_mode(path: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Everything below a directory with its mode, owner, kind and contents: what must not change.
    fn picture(path: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        let mut ahead = vec![path.to_owned()];
        while let Some(path) = ahead.pop() {
            let stat = fs::symlink_metadata(&path).unwrap();
            let text = if stat.is_file() { fs::read(&path).unwrap() } else { vec![] };
            let (mode, owner, time) = (stat.mode(), stat.uid(), stat.mtime_nsec());
            lines.push(format!("{} {mode:o} {owner} {time} {text:?}", path.display()));
            if stat.is_dir() {
                ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        lines.sort();
        lines
    }

    #[test]
    fn the_space_is_named_by_format_and_machine() {
        let arch = std::env::consts::ARCH;
        assert_eq!(SPACE, format!("v{}-{arch}-le64", crate::store::disk::record::FORMAT));
    }

    #[test]
    fn a_missing_directory_is_made_private_and_tagged() {
        let temp = temp();
        let path = temp.path().join("above/more/cache");
        let opened = try_open(&path).unwrap();
        assert!(opened.writable && opened.space.is_some());
        for made in ["above", "above/more", "above/more/cache"] {
            assert_eq!(fs::metadata(temp.path().join(made)).unwrap().mode() & 0o7777, 0o700);
        }
        assert_eq!(fs::metadata(path.join(SPACE)).unwrap().mode() & 0o7777, 0o700);
        let tag = fs::read_to_string(path.join("CACHEDIR.TAG")).unwrap();
        assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55\n"));
        assert_eq!(fs::read_to_string(path.join(".gitignore")).unwrap(), "*\n");
        // Nothing else, no temporary directory above all.
        assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        // And again, as it is.
        let before = picture(&path);
        let again = try_open(&path).unwrap();
        assert_eq!(again.root_identity, opened.root_identity);
        assert_eq!(again.space_identity, opened.space_identity);
        assert_eq!(picture(&path), before);
    }

    /// A directory that the user made may be more than a cache. Mutant seen killed: the tag put into it.
    #[test]
    fn an_existing_directory_is_taken_as_it_is_and_only_the_space_is_tagged() {
        let temp = temp();
        let path = temp.path().join("cache");
        fs::create_dir(&path).unwrap();
        set_mode(&path, 0o755);
        fs::write(path.join("mine"), "text").unwrap();
        assert!(try_open(&path).unwrap().writable);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
        let mut names: Vec<_> =
            fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["mine", SPACE]);
        assert!(path.join(SPACE).join("CACHEDIR.TAG").exists());
    }

    /// Mutant seen killed: `AlreadyExists` taken for a failure.
    #[test]
    fn whoever_loses_the_race_to_make_it_uses_what_the_winner_made() {
        let temp = temp();
        let path = temp.path().join("a/cache");
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                crate::sync::thread::spawn(move || try_open(path).unwrap().space_identity.unwrap())
            })
            .collect();
        let mut seen: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        seen.dedup();
        assert_eq!(seen.len(), 1);
        assert_eq!(fs::read_dir(temp.path().join("a")).unwrap().count(), 1);

        // The same, at each operation in turn.
        for n in 0.. {
            let path = temp.path().join(format!("b-{n}/cache"));
            let faulty = Faulty::default();
            let rival = path.clone();
            faulty.before(n, move || drop(try_open(&rival).unwrap()));
            let opened = open(&faulty, &path, Purpose::Cache, true).unwrap();
            assert_eq!(opened.space_identity, try_open(&path).unwrap().space_identity);
            assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "{n}");
            if faulty.operations() < n {
                break;
            }
        }
    }

    /// Whatever fails, and wherever: a refusal, never a panic, and nothing half-made in the way of the next.
    #[test]
    fn any_failure_of_any_operation_is_a_refusal_or_does_not_matter() {
        use rustix::io::Errno;
        let errors = [
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::ROFS,
            Errno::ACCESS,
            Errno::MFILE,
            Errno::IO,
            Errno::NOENT,
            Errno::STALE,
            Errno::NOTDIR,
            Errno::EXIST,
            Errno::NOMEM,
            Errno::LOOP,
        ];
        for errno in errors {
            for n in 0.. {
                let temp = quick_temp();
                let path = temp.path().join("above/cache");
                let faulty = Faulty::default();
                faulty.fail(n, errno);
                if let Err(refusal) = open(&faulty, &path, Purpose::Cache, true) {
                    assert!(refusal.to_string().len() > 20, "{refusal}");
                }
                if faulty.operations() <= n {
                    assert!(n > 10, "{n} operations");
                    break;
                }
                faulty.heal();
                let opened = open(&faulty, &path, Purpose::Cache, true).unwrap();
                assert!(opened.writable, "{errno} at {n}");
                assert!(path.join("CACHEDIR.TAG").exists(), "{errno} at {n}");
            }
        }
    }

    /// Mutants seen killed: the mode not looked at, of the directory, of the space, or of what is above.
    #[test]
    fn what_others_can_write_is_refused() {
        for mode in [0o777, 0o757, 0o775, 0o770, 0o720, 0o1777] {
            let temp = temp();
            let path = temp.path().join("cache");
            fs::create_dir(&path).unwrap();
            set_mode(&path, mode);
            let before = picture(temp.path());
            let refusal = refused(&path);
            assert!(matches!(refusal.cause, Cause::Mode(found) if found == mode), "{refusal}");
            assert_eq!(refusal.path, path);
            assert_eq!(picture(temp.path()), before, "nothing is changed");
            let said = refusal.to_string();
            assert!(said.contains(&format!("{} can be written by other users", path.display())));
            assert!(said.contains("chmod -R go-w") && said.contains("CACHELIFT_DIR"), "{said}");

            // The space in it.
            set_mode(&path, 0o700);
            fs::create_dir(path.join(SPACE)).unwrap();
            set_mode(path.join(SPACE), mode);
            let refusal = refused(&path);
            assert!(matches!(refusal.cause, Cause::Mode(found) if found == mode), "{refusal}");
            assert_eq!(refusal.path, path.join(SPACE));

            // A directory above it.
            set_mode(path.join(SPACE), 0o700);
            set_mode(temp.path(), mode);
            chown(temp.path(), None, Some(foreign_group())).ok();
            match mode {
                // Where only the owner of an entry can move it.
                0o1777 => drop(try_open(&path).unwrap()),
                _ if mode & 0o002 != 0 => assert_eq!(refused(&path).path, temp.path()),
                _ if fs::metadata(temp.path()).unwrap().gid() == foreign_group() => {
                    assert_eq!(refused(&path).path, temp.path());
                }
                _ => {}
            }
            set_mode(temp.path(), 0o700);
        }
    }

    fn foreign_group() -> u32 {
        RealFs.user() + 4321
    }

    /// Umask 002 and a group for every user: the way of Debian, Fedora and others. Mutant seen killed: no
    /// exception for it; the exception for every group.
    #[test]
    fn a_directory_above_may_be_writable_by_the_users_own_group() {
        let temp = temp();
        let path = temp.path().join("cache");
        set_mode(temp.path(), 0o775);
        let own = chown(temp.path(), None, Some(RealFs.user())).is_ok();
        if !own {
            skipped(
                test_path!(a_directory_above_may_be_writable_by_the_users_own_group),
                "this user has no group of the same number",
            );
            return;
        }
        assert!(try_open(&path).unwrap().writable);
        if chown(temp.path(), None, Some(foreign_group())).is_ok() {
            assert_eq!(refused(&path).path, temp.path());
        }
        set_mode(temp.path(), 0o700);
    }

    /// Mutants seen killed: the owner not looked at, of the directory, of the space, or of what is above.
    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let temp = temp();
        let path = temp.path().join("cache");
        drop(try_open(&path).unwrap());
        // The same files with other eyes: ours become another user's.
        let stranger = Faulty::default();
        let me = RealFs.user();
        stranger.become_user(me + 1);
        if me != 0 {
            // What is above the temporary directory is not root's for the stranger, but ours.
            let refusal = open(&stranger, &path, Purpose::Cache, true).unwrap_err();
            assert!(matches!(refusal.cause, Cause::Owner { .. }), "{refusal}");
            return;
        }
        let before = picture(temp.path());
        let refusal = open(&stranger, &path, Purpose::Cache, true).unwrap_err();
        assert!(matches!(refusal.cause, Cause::Owner { owner: 0, user: 1 }), "{refusal}");
        assert_eq!(refusal.path, path);
        assert_eq!(
            refusal.to_string(),
            format!(
                "{} belongs to user 0, but this program runs as user 1: set CACHELIFT_BASE_DIR to it to read it, and set CACHELIFT_DIR to a directory of user 1",
                path.display()
            )
        );
        // Root's is good enough to be read.
        let base = open(&stranger, &path, Purpose::Base, true).unwrap();
        assert!(!base.writable && base.space.is_some());
        assert_eq!(picture(temp.path()), before);

        // And the other way round: root refuses what is a user's, above, itself, and in it.
        for (what, owner) in [("", 1234), ("cache", 1234), ("cache/v1", 1234)] {
            let what = temp.path().join(what.replace("v1", SPACE));
            chown(&what, Some(owner), None).unwrap();
            let before = picture(temp.path());
            for purpose in [Purpose::Cache, Purpose::CacheReadOnly, Purpose::Base] {
                let refusal = open(&RealFs, &path, purpose, true).unwrap_err();
                assert!(matches!(refusal.cause, Cause::Owner { owner: 1234, user: 0 }));
                assert_eq!(refusal.path.components().count(), what.components().count());
            }
            assert_eq!(picture(temp.path()), before);
            chown(&what, Some(0), None).unwrap();
        }
        drop(try_open(&path).unwrap());
    }

    /// Mutants seen killed: NOFOLLOW given up for the directory; links above not followed.
    #[test]
    fn the_directory_is_no_link_and_links_above_are_walked() {
        let temp = temp();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir_all(at("real/above")).unwrap();
        set_mode(at("real"), 0o755);
        // The directory itself.
        symlink(at("real"), at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        let before = picture(temp.path());
        for (link, target) in
            [("link", at("real").display().to_string()), ("dangling", "nowhere".into())]
        {
            let refusal = refused(at(link));
            assert!(matches!(&refusal.cause, Cause::Symlink(to) if *to == target), "{refusal}");
            assert_eq!(refusal.path, at(link));
            assert!(refusal.to_string().ends_with(&format!(
                "lead elsewhere: set CACHELIFT_DIR to what it leads to, {target}"
            )));
        }
        assert_eq!(picture(temp.path()), before);
        // Above it: absolute, relative, with `..`, one through the other, and one that dangles.
        symlink("real/above/..", at("relative")).unwrap();
        symlink(at("relative"), at("absolute")).unwrap();
        symlink("absolute/above", at("chain")).unwrap();
        let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
        for (through, real) in [
            ("link/c", "real/c"),
            ("relative/c", "real/c"),
            ("absolute/c", "real/c"),
            ("chain/d", "real/above/d"),
            ("link/../real/./above//d/", "real/above/d"),
        ] {
            let opened = try_open(at(through)).unwrap();
            assert_eq!(opened.root_identity.1, inode(at(real)), "{through}");
        }
        assert!(try_open(at("dangling/c")).unwrap().writable, "what it leads to is made");
        assert!(at("nowhere/c").is_dir());
        // For ever.
        symlink("loop", at("loop")).unwrap();
        let refusal = refused(at("loop/c"));
        assert!(matches!(refusal.cause, Cause::LinkLoop), "{refusal}");
        // Another user's link, where it could lead us anywhere.
        if RealFs.user() == 0 {
            set_mode(temp.path(), 0o1777);
            std::os::unix::fs::lchown(at("link"), Some(1234), None).unwrap();
            let refusal = refused(at("link/c"));
            assert!(matches!(refusal.cause, Cause::Owner { owner: 1234, .. }), "{refusal}");
            assert_eq!(refusal.path, at("link"));
        }
        // The space in it.
        fs::remove_dir_all(at("real/c").join(SPACE)).unwrap();
        symlink("../above", at("real/c").join(SPACE)).unwrap();
        let refusal = refused(at("real/c"));
        assert!(matches!(refusal.cause, Cause::Symlink(_)), "{refusal}");
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let temp = temp();
        let file = temp.path().join("file");
        fs::write(&file, "text").unwrap();
        let fifo = temp.path().join("fifo");
        sh("mkfifo", &[fifo.to_str().unwrap()]);
        let before = picture(temp.path());
        for path in [&file, &file.join("cache"), &file.join("cache/more")] {
            let refusal = refused(path);
            assert!(matches!(refusal.cause, Cause::NotADirectory(FileKind::File)), "{refusal}");
            assert_eq!(refusal.path, file);
        }
        assert_eq!(
            refused(&file).to_string(),
            format!("{} is a file: remove it, or set CACHELIFT_DIR to a directory", file.display())
        );
        assert!(matches!(refused(&fifo).cause, Cause::NotADirectory(FileKind::Other)));
        assert_eq!(picture(temp.path()), before);
        let slash = refused("/");
        assert!(matches!(slash.cause, Cause::Slash), "{slash}");
        use std::os::unix::ffi::OsStrExt;
        let odd = temp.path().join(std::ffi::OsStr::from_bytes(b"\xff")).join("cache");
        assert!(matches!(refused(odd).cause, Cause::NotUtf8));
    }

    #[test]
    fn what_is_only_read_is_never_made() {
        let temp = temp();
        let path = temp.path().join("above/cache");
        for purpose in [Purpose::CacheReadOnly, Purpose::Base] {
            let refusal = open(&RealFs, &path, purpose, true).unwrap_err();
            assert!(matches!(refusal.cause, Cause::Missing), "{refusal}");
        }
        let refusal = open(&RealFs, &path, Purpose::Cache, false).unwrap_err();
        assert!(matches!(refusal.cause, Cause::Missing), "{refusal}");
        fs::create_dir_all(&path).unwrap();
        let before = picture(temp.path());
        let opened = open(&RealFs, &path, Purpose::CacheReadOnly, true).unwrap();
        assert!(!opened.writable && opened.space.is_none());
        assert_eq!(picture(temp.path()), before);
    }

    #[test]
    fn a_relative_path_is_the_same_directory() {
        let test = test_path!(a_relative_path_is_the_same_directory);
        if let Some((_, dir)) = role() {
            std::env::set_current_dir(dir).unwrap();
            drop(try_open("some/../some/cache").unwrap());
            return;
        }
        let temp = temp();
        succeed(again(test, "relative", temp.path()));
        assert!(temp.path().join("some/cache/CACHEDIR.TAG").exists());
    }

    /// As an ordinary user, where modes bind.
    #[test]
    fn an_unwritable_directory_is_read() {
        let test = test_path!(an_unwritable_directory_is_read);
        if let Some((_, dir)) = role() {
            let path = dir.join("cache");
            drop(try_open(&path).unwrap());
            for (root, space) in [(0o500, 0o700), (0o500, 0o500), (0o700, 0o500)] {
                set_mode(path.join(SPACE), space);
                set_mode(&path, root);
                let before = picture(&path);
                let opened = try_open(&path).unwrap();
                assert_eq!(opened.writable, space == 0o700, "{root:o} {space:o}");
                assert!(opened.space.is_some());
                assert_eq!(picture(&path), before);
                set_mode(&path, 0o700);
            }
            // Nothing in it, and nothing can be made.
            let empty = dir.join("empty");
            fs::create_dir(&empty).unwrap();
            set_mode(&empty, 0o500);
            let opened = try_open(&empty).unwrap();
            assert!(!opened.writable && opened.space.is_none());
            // Missing, where nothing can be made; and where nothing can even be found.
            let refusal = refused(empty.join("cache"));
            assert!(matches!(&refusal.cause, Cause::Io("made", _)), "{refusal}");
            assert_eq!(refusal.cause.reason(), Reason::Denied);
            set_mode(&empty, 0);
            let refusal = refused(empty.join("cache"));
            assert_eq!(refusal.cause.reason(), Reason::Denied, "{refusal}");
            // The root directory of the system is root's.
            let refusal = refused("/usr");
            assert!(matches!(refusal.cause, Cause::Owner { owner: 0, .. }), "{refusal}");
            // A directory above that can be searched but not listed.
            let above = dir.join("above");
            fs::create_dir_all(above.join("more")).unwrap();
            set_mode(&above, 0o100);
            assert!(try_open(above.join("more/cache")).unwrap().writable);
            for path in [&empty, &above] {
                set_mode(path, 0o700);
            }
            return;
        }
        let temp = temp();
        succeed(as_ordinary_user(test, "user", temp.path()));
    }

    /// With file systems mounted for it: for reading only, without the right to execute, and full.
    #[test]
    fn mounts_are_taken_as_they_are() {
        let test = test_path!(mounts_are_taken_as_they_are);
        if let Some((_, dir)) = role() {
            let dir = dir.to_str().unwrap();
            let path = dir.to_owned() + "/cache";
            let mount = |options: &str| sh("mount", &["-t", "tmpfs", "none", "-o", options, dir]);
            mount("mode=0700,noexec");
            assert!(try_open(&path).unwrap().writable);
            sh("mount", &["-o", "remount,bind,ro,noexec", dir]);
            let opened = try_open(&path).unwrap();
            assert!(!opened.writable && opened.space.is_some());
            let refusal = refused(format!("{dir}/other"));
            assert_eq!(refusal.cause.reason(), Reason::ReadOnlyFs, "{refusal}");
            // Two inodes: the mount's own directory, and one to begin with and fail behind.
            mount("mode=0700,nr_inodes=2");
            let refusal = refused(&path);
            assert_eq!(refusal.cause.reason(), Reason::NoSpace, "{refusal}");
            assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "nothing half-made");
            assert!(
                refusal.to_string().contains(&format!("{path} could not be made (No space left"))
            );
            return;
        }
        let temp = temp();
        if let Some(command) = in_namespace(test, "mount", temp.path()) {
            succeed(command);
        }
    }

    /// In a namespace in which root is nobody, `/` belongs to nobody too. Mutant seen killed: its owner not
    /// trusted.
    #[test]
    fn a_user_namespace_without_root_has_its_cache() {
        let test = test_path!(a_user_namespace_without_root_has_its_cache);
        match role() {
            None => {
                let temp = temp();
                succeed(as_ordinary_user(test, "user", temp.path()));
            }
            Some((role, dir)) if role == "user" => {
                if let Some(command) = in_namespace(test, "namespace", &dir) {
                    succeed(command);
                }
            }
            Some((_, dir)) => {
                assert_ne!(fs::metadata("/").unwrap().uid(), 0);
                assert_eq!(RealFs.user(), 0);
                assert!(try_open(dir.join("cache")).unwrap().writable);
            }
        }
    }
}
