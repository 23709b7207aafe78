//! Opening the index that `CURRENT` names.

use std::fmt;
use std::io;
use std::ops::Deref;

use super::trusted::{self, reason};
use super::{Shard, View};
use crate::store::disk::format::header::{IndexHeader, MAX_LOG2_SLOTS, Place};
use crate::store::disk::format::{CURRENT_LEN, Current, META, META_LEN, Meta, Name};
use crate::store::disk::fs::{Access, Stat};
use crate::store::disk::index::find::Generations;
use crate::store::disk::index::{Candidate, Index};
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;
use crate::sync::Arc;

/// The name of the file that names the index.
pub(super) const CURRENT: &str = "CURRENT";

/// What was listed is gone already: it has been replaced.
struct Moved;

/// An open generation: its index is mapped for as long as this is held.
pub(crate) struct Held<F: MapFs>(Arc<Generation<F>>);

struct Generation<F: MapFs> {
    index: Index<F::Map>,
    writer: Option<Index<F::MapMut>>,
    dir: F::Handle,
    /// Device and inode of its file.
    identity: (u64, u64),
    /// Its name in the space.
    name: String,
}

impl<F: MapFs> Held<F> {
    /// The index in `map`, which was just made and opened in `dir`.
    pub(super) fn written(
        writer: Index<F::MapMut>,
        map: F::Map,
        dir: F::Handle,
        folder: &str,
    ) -> Result<Self, Reason> {
        let Place { device, inode, .. } = writer.header().place;
        let identity = (device, inode);
        let name = format!("{folder}/{}", Name::index(writer.header().generation));
        let index = Index::open(map).map_err(|_| Reason::Magic)?;
        Ok(Held(Arc::new(Generation { index, writer: Some(writer), dir, identity, name })))
    }

    /// The same words to write, where that is allowed.
    pub(super) fn writer(&self) -> Option<&Index<F::MapMut>> {
        self.0.writer.as_ref()
    }

    /// The shard's directory.
    pub(super) fn dir(&self) -> &F::Handle {
        &self.0.dir
    }

    /// When and where its file is open, in this boot.
    pub(super) fn place(&self, boot: [u8; 16]) -> Place {
        let (device, inode) = self.0.identity;
        Place { boot, device, inode }
    }

    fn is_named_by(&self, current: &Current) -> bool {
        *current == current_of(self.header())
    }
}

/// What `CURRENT` holds to name this index.
pub(super) fn current_of(header: &IndexHeader) -> Current {
    let IndexHeader { cache, shard, generation, .. } = *header;
    Current { cache, shard, generation, check: header.check() }
}

impl<F: MapFs> Clone for Held<F> {
    fn clone(&self) -> Self {
        Held(self.0.clone())
    }
}

impl<F: MapFs> Deref for Held<F> {
    type Target = Index<F::Map>;
    fn deref(&self) -> &Index<F::Map> {
        &self.0.index
    }
}

impl<F: MapFs> fmt::Debug for Held<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({:?})", self.header())
    }
}

impl<F: MapFs> Generations for Shard<F> {
    type Words = F::Map;
    type Held = Held<F>;

    fn held(&self) -> Option<Held<F>> {
        self.view.with(|view| view.held.clone())
    }

    fn current(&self) -> Option<Held<F>> {
        // Each time but the first, another writer named a newer one and removed the one we looked
        // for.
        for _ in 0..4 {
            let Ok(current) = self.read_current() else {
                match self.newest() {
                    Ok(newest) => return newest,
                    // Somebody else made it anew.
                    Err(Moved) => continue,
                }
            };
            let held = self.held();
            if held.as_ref().is_some_and(|held| held.is_named_by(&current)) {
                return held;
            }
            match self.open_index(&current) {
                Ok(new) => {
                    // In a generation that was made without the last one, from what segments there were, ids may come again:
                    // no mapping is kept.
                    self.view.set(View { held: Some(new.clone()), segments: Vec::new() });
                    if held.is_some() {
                        self.view.settle();
                    }
                    return Some(new);
                }
                Err(Reason::Absent) => {}
                Err(reason) => {
                    self.root.failed(reason, "opening the index of a shard");
                    return None;
                }
            }
        }
        None
    }

    fn has_its_name(&self, held: &Held<F>) -> bool {
        self.root.leads_to(&self.opened, &held.0.name, held.0.identity)
    }

    fn kill(&self, held: &Held<F>, candidate: &Candidate) {
        if let Some(writer) = held.writer() {
            writer.kill(candidate);
        }
    }
}

impl<F: MapFs> Shard<F> {
    /// What `CURRENT` says: `Absent` if there is none, or no shard at all.
    pub(super) fn read_current(&self) -> Result<Current, Reason> {
        let name = format!("{}/{CURRENT}", self.folder);
        let (file, _) = self.open_file(self.space()?, &name, Access::Read)?;
        let mut bytes = [0; CURRENT_LEN];
        let read = self.fs().read_at(&file, &mut bytes, 0).map_err(|error| reason(&error))?;
        let current = Current::parse(&bytes[..read]).map_err(|_| Reason::Magic)?;
        let ours = (current.cache, current.shard) == (self.cache, self.number);
        if ours { Ok(current) } else { Err(Reason::Key) }
    }

    /// Whether `meta` says that the directory is another cache's by now: it was damaged, and made anew. Who went on
    /// with the old one and who began with the new would take each other's entries for damage.
    pub(super) fn belongs_to_another(&self) -> bool {
        let read = || {
            let (file, _) = self.open_file(self.space()?, META, Access::Read)?;
            let mut bytes = [0; META_LEN];
            let read = self.fs().read_at(&file, &mut bytes, 0).map_err(|error| reason(&error))?;
            Meta::parse(&bytes[..read]).map_err(|_| Reason::Magic)
        };
        read().is_ok_and(|meta| meta.cache != self.cache)
    }

    /// The newest index that there is, for lack of a `CURRENT` that can be read.
    fn newest(&self) -> Result<Option<Held<F>>, Moved> {
        let Ok(dir) = self.open_folder() else { return Ok(None) };
        let Ok(survey) = self.survey(&dir) else { return Ok(None) };
        let mut moved = Ok(None);
        for generation in survey.generations.iter().rev() {
            match self.open_generation(*generation) {
                Ok(held) => return Ok(Some(held)),
                Err(Reason::Absent) => moved = Err(Moved),
                Err(_) => {}
            }
        }
        moved
    }

    /// Opens the index that `current` names: `Absent` if its name is gone.
    pub(super) fn open_index(&self, current: &Current) -> Result<Held<F>, Reason> {
        let held = self.open_generation(current.generation)?;
        if held.is_named_by(current) { Ok(held) } else { Err(Reason::Key) }
    }

    /// Opens the index of this number, to write too where that is allowed.
    pub(super) fn open_generation(&self, generation: u64) -> Result<Held<F>, Reason> {
        let fs = self.fs();
        let dir = self.open_folder()?;
        let name = Name::index(generation);
        let opened = if self.opened.writable {
            match self.open_file(&dir, &name, Access::Write) {
                Err(Reason::Denied | Reason::ReadOnlyFs) => None,
                opened => Some(opened?),
            }
        } else {
            None
        };
        let to_write = opened.is_some();
        let (file, stat) = match opened {
            Some(opened) => opened,
            None => self.open_file(&dir, &name, Access::Read)?,
        };
        // Its header says how long it is; this bounds what is mapped before that is known.
        if !stat.length.is_multiple_of(8) || stat.length > IndexHeader::file_length(MAX_LOG2_SLOTS)
        {
            return Err(Reason::Length);
        }
        let mapping = |error: io::Error| reason(&error);
        // A store to a page without blocks could find the disk full, which is a signal.
        let writer = if to_write && stat.allocated >= stat.length {
            Some(fs.map_mut(&file, stat.length).map_err(mapping)?)
        } else {
            None
        };
        let map = match &writer {
            Some(writer) => F::reader(writer),
            None => fs.map(&file, stat.length).map_err(mapping)?,
        };
        let index = Index::open(map).map_err(|_| Reason::Magic)?;
        let header = index.header();
        if (header.cache, header.shard, header.generation) != (self.cache, self.number, generation)
        {
            return Err(Reason::Key);
        }
        let writer = writer.map(Index::open).transpose().map_err(|_| Reason::Magic)?;
        let (identity, name) = (stat.identity(), format!("{}/{name}", self.folder));
        Ok(Held(Arc::new(Generation { index, writer, dir, identity, name })))
    }

    /// Opens the shard's directory.
    pub(super) fn open_folder(&self) -> Result<F::Handle, Reason> {
        trusted::open_dir(&self.root, self.space()?, &self.folder)
    }

    /// Opens a file in the shard's directory.
    pub(super) fn open_file(
        &self,
        dir: &F::Handle,
        name: &str,
        access: Access,
    ) -> Result<(F::Handle, Stat), Reason> {
        trusted::open_file(&self.root, dir, name, access)
    }
}
