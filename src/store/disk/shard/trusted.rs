//! Opening what lies in the directory of a shard only if it may be trusted.

use std::io;

use crate::store::disk::fs::{Access, FileKind, Fs, Stat};
use crate::store::disk::reason::Reason;
use crate::store::disk::root::Root;

/// Opens a file: `Absent` if it has no such name.
pub(crate) fn open_file<F: Fs>(
    root: &Root<F>,
    dir: &F::Handle,
    name: &str,
    access: Access,
) -> Result<(F::Handle, Stat), Reason> {
    let file = root.fs().open(dir, name, access).map_err(|error| reason(&error))?;
    let stat = root.fs().stat(&file).map_err(|error| reason(&error))?;
    judge_file(root, &stat)?;
    Ok((file, stat))
}

/// Whether what was opened is a file that may be trusted.
pub(crate) fn judge_file<F: Fs>(root: &Root<F>, stat: &Stat) -> Result<(), Reason> {
    if stat.kind != FileKind::File {
        return Err(Reason::NotAFile);
    }
    judge(root, stat)?;
    if stat.links > 1 { Err(Reason::HardLinked) } else { Ok(()) }
}

/// Opens a directory: `Absent` if it has no such name.
pub(crate) fn open_dir<F: Fs>(
    root: &Root<F>,
    at: &F::Handle,
    name: &str,
) -> Result<F::Handle, Reason> {
    let dir = root.fs().open_dir(at, name).map_err(|error| reason(&error))?;
    let stat = root.fs().stat(&dir).map_err(|error| reason(&error))?;
    judge(root, &stat)?;
    Ok(dir)
}

fn judge<F: Fs>(root: &Root<F>, stat: &Stat) -> Result<(), Reason> {
    if !root.purpose().accepts_owner(stat.owner, root.user()) {
        return Err(Reason::Owner);
    }
    if stat.shared_for_writing() { Err(Reason::Mode) } else { Ok(()) }
}

/// As [`Reason::of`]; a name that is not there is an ordinary thing here.
pub(crate) fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::NotFound => Reason::Absent,
        _ => Reason::of(error),
    }
}
