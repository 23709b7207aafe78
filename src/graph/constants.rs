//! Large initialisers: stored once by what they hold, and mapped by every process that needs them.
//!
//! ```text
//!   bytes ──blake3──► <cache directory>/constants/<64 digits> ──map, compare the digest──► tensor
//!                        └ written beside it and linked there, if there is none
//! ```
//!
//! A file is trusted if it is ours, nobody else can write it, and it holds what its name says, which each process
//! checks before it uses it. It is never written to once it has its name. Where anything is in the way, the tensor stays in
//! this process's own memory: that costs memory and nothing else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::model::{Attribute, Graph};
use super::tensor::{Buffer, Tensor};
use crate::config::{Config, Mode};
use crate::store::Store;
use crate::sync::Arc;

/// Initialisers of at least so many bytes are shared.
pub(crate) const LARGE: usize = 64 << 10;

/// The folder in the cache directory.
const FOLDER: &str = "constants";

/// Shares the large constants of a graph, and of the graphs inside of it.
pub(crate) fn share(graph: &mut Graph, store: &Store) {
    let config = store.config();
    let Some(dir) = config.dir.as_ref().filter(|_| config.mode != Mode::Off) else { return };
    let folder = dir.join(FOLDER);
    let writable = config.mode != Mode::ReadOnly;
    share_in(graph, &folder, writable);
}

fn share_in(graph: &mut Graph, folder: &Path, writable: bool) {
    for (_, tensor) in &mut graph.constants {
        if tensor.len() * tensor.element().size() < LARGE {
            continue;
        }
        match mapped(tensor, folder, writable) {
            Ok(shared) => *tensor = shared,
            Err(error) => tracing::debug!(%error, "an initialiser stays in memory"),
        }
    }
    for node in &mut graph.nodes {
        for attribute in node.attributes.values_mut() {
            if let Attribute::Graph(body) = attribute {
                share_in(&mut body.graph, folder, writable);
            }
        }
    }
}

/// The same tensor in a mapped file.
fn mapped(tensor: &Tensor, folder: &Path, writable: bool) -> io::Result<Tensor> {
    let contiguous = tensor.contiguous();
    let bytes = contiguous.as_bytes().expect("it is contiguous");
    let digest = blake3::hash(bytes);
    let path = folder.join(digest.to_hex().as_str());
    let buffer = match open(&path, bytes.len(), &digest) {
        Ok(buffer) => buffer,
        Err(error) if !writable => return Err(error),
        Err(_) => {
            write(&path, folder, bytes, false)?;
            // What was in the way, and is not what it should be, is replaced.
            match open(&path, bytes.len(), &digest) {
                Ok(buffer) => buffer,
                Err(_) => {
                    write(&path, folder, bytes, true)?;
                    open(&path, bytes.len(), &digest)?
                }
            }
        }
    };
    Ok(Tensor::whole(tensor.element(), tensor.dims(), Arc::new(buffer)))
}

fn open(path: &Path, length: usize, digest: &blake3::Hash) -> io::Result<Buffer> {
    let no_links = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(no_links).open(path)?;
    let stat = file.metadata()?;
    let ours = stat.uid() == rustix::process::geteuid().as_raw();
    if !stat.is_file() || !ours || stat.mode() & 0o022 != 0 || stat.len() != length as u64 {
        return Err(io::Error::other("a file that is not a constant's"));
    }
    let buffer = Buffer::map(&file)?;
    match blake3::hash(buffer.bytes()) == *digest {
        true => Ok(buffer),
        false => Err(io::Error::other("a file that does not hold what its name says")),
    }
}

/// Writes a file of this name, in place of another or only if there is none: processes that start together shall all map
/// the first one's.
fn write(path: &Path, folder: &Path, bytes: &[u8], replace: bool) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let temporary = folder.join(format!("tmp-{:016x}", u64::from_le_bytes(random)));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file: File| file.write_all(bytes))
        .and_then(|()| match replace {
            true => fs::rename(&temporary, path),
            false => fs::hard_link(&temporary, path),
        });
    if !replace || written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    match written {
        Err(error) if !replace && error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        written => written,
    }
}

/// Removes every shared constant of a cache directory; processes that have mapped one keep it. Gives how many bytes there
/// were.
pub fn clear_constants(config: &Config) -> io::Result<u64> {
    let Some(folder) = config.dir.as_ref().map(|dir| dir.join(FOLDER)) else { return Ok(0) };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut bytes = 0;
    for entry in entries {
        let path: PathBuf = entry?.path();
        bytes += fs::symlink_metadata(&path).map_or(0, |stat| stat.len());
        fs::remove_file(&path)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tensor::ElementType;

    fn tensor(value: f32) -> Tensor {
        Tensor::from_slice(&[1 << 15], &[value; 1 << 15])
    }

    /// Mutants: the digest not compared; a link followed.
    #[test]
    fn only_a_file_that_holds_what_it_should_is_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("constants");
        let first = mapped(&tensor(1.0), &folder, true).unwrap();
        assert_eq!(first.to_f64s(), tensor(1.0).to_f64s());
        let path = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        assert!(mapped(&tensor(1.0), &folder, false).is_ok(), "it is there");
        assert!(mapped(&tensor(2.0), &folder, false).is_err(), "it is not");

        // Another in its place, as long as it is.
        let damaged = vec![0; first.len() * 4];
        fs::remove_file(&path).unwrap();
        fs::write(&path, &damaged).unwrap();
        assert!(mapped(&tensor(1.0), &folder, false).is_err());
        fs::remove_file(&path).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, tensor(1.0).as_bytes().unwrap()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(mapped(&tensor(1.0), &folder, false).is_err());
        // What was mapped stays as it was.
        assert_eq!(first.to_f64s()[0], 1.0);
        assert!(mapped(&tensor(1.0), &folder, true).is_ok(), "a link is replaced");
        assert_eq!(first.element(), ElementType::F32);
    }
}
