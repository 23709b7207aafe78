//! Loaded code, and who keeps it alive.
//!
//! ```text
//!   Function ──Arc──► Batch ── executable memory, entries, traps
//!      │                └─keeps─► Functions of earlier batches that this code calls
//!      └─ weakly, under its link key and its addresses, in Handles
//! ```
//!
//! Code is loaded in batches, and a batch lives as long as any handle on one of its functions, or any
//! later batch that calls into it. The last one to go frees the memory. Nothing that happens to the cache
//! (eviction, `prune`, `clear`) matters to code that is loaded.

use std::collections::BTreeMap;
use std::fmt;

use cranelift_codegen::ir::{Signature, TrapCode};

use super::artifact::find_trap;
use super::exec::Executable;
use super::image::program::LoadedImage;
use crate::key::{Key, KeyMap};
use crate::sync::fork::OwnMutex;
use crate::sync::{Arc, Weak};

/// A function that is loaded and can be called, as long as this handle or a clone of it lives.
#[derive(Clone)]
pub struct Function {
    batch: Arc<Batch>,
    index: usize,
}

impl Function {
    /// A pointer to the code, for calls and for tables of functions. It dangles once the last handle on
    /// the function is gone.
    pub fn address(&self) -> *const u8 {
        self.batch.memory.pointer(self.entry().offset)
    }

    /// The name under which the function was first loaded.
    pub fn name(&self) -> &str {
        &self.entry().name
    }

    /// The function's signature.
    pub fn signature(&self) -> &Signature {
        &self.entry().signature
    }

    /// The key that this piece of loaded code is kept under: its artifact's key, and what it is bound to.
    /// It means nothing in another process.
    pub fn link_key(&self) -> &Key {
        &self.entry().link_key
    }

    /// The function of a batch that has one function, of an image.
    pub(crate) fn of_image(batch: Batch) -> Self {
        Function { batch: Arc::new(batch), index: 0 }
    }

    /// Leaves one handle per batch: as many as it takes to keep all of them alive.
    pub(crate) fn one_per_batch(functions: &mut Vec<Function>) {
        let batch = |function: &mut Function| Arc::as_ptr(&function.batch);
        functions.sort_unstable_by_key(|function| Arc::as_ptr(&function.batch));
        functions.dedup_by_key(batch);
    }

    fn entry(&self) -> &Entry {
        &self.batch.entries[self.index]
    }
}

/// Two handles are equal if they are on the same piece of loaded code.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        // While both live no other code is there.
        self.address() == other.address()
    }
}

impl Eq for Function {}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({} at {:p})", self.name(), self.address())
    }
}

/// A trap that an instruction of loaded code raises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrapInfo {
    /// The name of the function that the instruction is in.
    pub function: String,
    /// Why it traps.
    pub code: TrapCode,
    /// Where in the function's code the instruction lies, in bytes.
    pub offset: u32,
}

/// A function in a batch.
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) link_key: Key,
    pub(crate) signature: Signature,
    /// Where its code begins in the batch's memory.
    pub(crate) offset: u32,
    /// How many bytes of code it has.
    pub(crate) length: u32,
    /// Its table of traps, as the artifact has it.
    pub(crate) traps: Box<[u8]>,
}

/// Where code lies.
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large kind")]
pub(crate) enum Memory {
    /// In memory of its own.
    Own(Executable),
    /// In an image, which others share.
    Image(Arc<LoadedImage>),
}

impl Memory {
    /// The address of the first byte.
    fn base(&self) -> u64 {
        match self {
            Memory::Own(memory) => memory.base(),
            Memory::Image(image) => image.memory().base(),
        }
    }

    /// How many bytes of code there are.
    fn length(&self) -> usize {
        match self {
            Memory::Own(memory) => memory.length(),
            Memory::Image(image) => image.memory().length(),
        }
    }

    fn pointer(&self, offset: u32) -> *const u8 {
        match self {
            Memory::Own(memory) => memory.pointer(offset),
            Memory::Image(image) => image.memory().pointer(offset),
        }
    }
}

/// Code that was loaded, and will be freed, together.
pub(crate) struct Batch {
    pub(crate) memory: Memory,
    /// In the order of their offsets.
    pub(crate) entries: Box<[Entry]>,
    /// Functions of other batches that this one's code calls.
    pub(crate) keeps: Vec<Function>,
    pub(crate) handles: Arc<Handles>,
}

impl Batch {
    fn find_trap(&self, offset: u64) -> Option<TrapInfo> {
        let offset = u32::try_from(offset).ok()?;
        let after = self.entries.partition_point(|entry| entry.offset <= offset);
        let entry = &self.entries[after.checked_sub(1)?];
        let offset = offset - entry.offset;
        let code = find_trap(&entry.traps, offset)?;
        (offset < entry.length).then(|| TrapInfo { function: entry.name.to_string(), code, offset })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Memory::Own(_) = self.memory {
            self.handles.forget(self);
        }
        // A chain of batches that keep each other may be longer than the stack: no recursion.
        let mut released = std::mem::take(&mut self.keeps);
        while let Some(function) = released.pop() {
            if let Some(mut batch) = Arc::into_inner(function.batch) {
                released.append(&mut batch.keeps);
            }
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} functions, keeps {:?})", self.entries.len(), self.keeps)
    }
}

/// The loaded code of an engine, by link key and by address. It keeps nothing alive.
///
/// In a child that was forked while another thread was at it, code is loaded as if none were, and traps are not told by
/// name.
#[derive(Default)]
pub(crate) struct Handles(OwnMutex<Tables>);

#[derive(Default)]
struct Tables {
    functions: KeyMap<(Weak<Batch>, usize)>,
    /// The first and the last address of each batch.
    batches: BTreeMap<u64, (u64, Weak<Batch>)>,
    /// The same of each image.
    images: BTreeMap<u64, (u64, Weak<LoadedImage>)>,
}

// A handle that is dropped under the lock could be its batch's last, whose drop takes the lock again: so
// nothing here drops a handle before the lock is released.
impl Handles {
    /// The live function under each of these keys.
    pub(crate) fn get_many(&self, keys: &[Key]) -> Vec<Option<Function>> {
        let Some(tables) = self.0.lock() else { return vec![None; keys.len()] };
        let get = |key| {
            let (batch, index) = tables.functions.get(key)?;
            Some(Function { batch: batch.upgrade()?, index: *index })
        };
        keys.iter().map(get).collect()
    }

    /// Adds the functions of a batch, and gives a handle on each: on a live function that another thread
    /// has added under its key, if there is one, else on the batch's.
    pub(crate) fn add(&self, batch: Batch) -> Vec<Function> {
        let batch = Arc::new(batch);
        let range = batch.memory.base()..=batch.memory.base() + batch.memory.length() as u64 - 1;
        let Some(mut tables) = self.0.lock() else {
            let own = |index| Function { batch: Arc::clone(&batch), index };
            return (0..batch.entries.len()).map(own).collect();
        };
        tables.batches.insert(*range.start(), (*range.end(), Arc::downgrade(&batch)));
        let functions = (0..batch.entries.len())
            .map(|index| {
                let slot = tables
                    .functions
                    .entry(batch.entries[index].link_key)
                    .or_insert_with(|| (Weak::new(), 0));
                if let Some(batch) = slot.0.upgrade() {
                    return Function { batch, index: slot.1 };
                }
                *slot = (Arc::downgrade(&batch), index);
                Function { batch: Arc::clone(&batch), index }
            })
            .collect();
        drop(tables);
        functions
    }

    /// Adds an image.
    pub(crate) fn add_image(&self, image: &Arc<LoadedImage>) {
        let start = image.memory().base();
        let end = start + image.memory().length() as u64 - 1;
        if let Some(mut tables) = self.0.lock() {
            tables.images.insert(start, (end, Arc::downgrade(image)));
        }
    }

    /// An image is about to be unmapped.
    pub(crate) fn forget_image(&self, image: &LoadedImage) {
        if let Some(mut tables) = self.0.lock() {
            tables.images.remove(&image.memory().base());
        }
    }

    /// The trap that the instruction at this address raises, if it is one of live code that traps.
    pub(crate) fn find_trap(&self, address: u64) -> Option<TrapInfo> {
        let tables = self.0.lock()?;
        if let Some((&start, (end, image))) = tables.images.range(..=address).next_back()
            && address <= *end
        {
            let image = image.upgrade();
            drop(tables);
            return image?.find_trap(address - start);
        }
        let (&start, (end, batch)) = tables.batches.range(..=address).next_back()?;
        let batch = if address <= *end { batch.upgrade() } else { None };
        drop(tables);
        batch?.find_trap(address - start)
    }

    /// How many batches and images are loaded.
    pub(crate) fn batches(&self) -> usize {
        self.0.lock().map_or(0, |tables| tables.batches.len() + tables.images.len())
    }

    /// Locks the tables as a thread of another process has done that was forked.
    #[cfg(test)]
    pub(crate) fn leave_locked(&self) -> impl Drop + '_ {
        let guard = self.0.lock();
        self.0.pretend_held_by(u32::MAX);
        guard.expect("nobody else has it")
    }

    fn forget(&self, batch: &Batch) {
        let Some(mut tables) = self.0.lock() else { return };
        for entry in &batch.entries {
            // Another batch may have taken the key over since this one's last handle was dropped.
            if tables
                .functions
                .get(&entry.link_key)
                .is_some_and(|(there, _)| there.strong_count() == 0)
            {
                tables.functions.remove(&entry.link_key);
            }
        }
        tables.batches.remove(&batch.memory.base());
    }
}
