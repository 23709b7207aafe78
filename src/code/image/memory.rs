//! Memory that images run in.
//!
//! ```text
//!   reserved   │ tables │ text, from the file or a copy of it     │ slots        │
//!   Unbound      shared   executable, shared │ writable, private    writable
//!   Bound        shared   executable                               readable       ──drop──► unmapped
//! ```
//!
//! Of a file, tables and text are one mapping: the page fault that brings the tables brings the first of the text as well. A
//! copy has no tables here.
//!
//! Nothing is ever writable and executable at once. Addresses to call are had of [`Bound`] only, and the way back does not
//! exist. A [`Region`] by itself is data: the graphs' large constants are in some.
//!
//! Invariants that the `SAFETY` comments cite:
//!
//! - *I1* A [`Region`] is one mapping, or several side by side, which nobody else knows and which lives until it is dropped.
//! - *I2* What is written to an image's region goes to its private parts, through no reference, before any of its code runs.
//!   Nothing reads it through a reference but its tables, which are a file's.
//! - *I3* A file that is mapped is never written or shortened: the store promises it. One that is in spite of that changes
//!   what is read, or raises SIGBUS, as with any program's own file.
//! - *I4* Whoever calls code in it holds a handle on it for as long as the call lasts: that is what the `# Safety` sections
//!   of all ways to a callable address say.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};

use super::PAGE;
use crate::sync::Arc;

/// The tables of an image that is mapped.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    region: Arc<Region>,
    length: usize,
}

impl Front {
    /// All bytes before the text.
    pub(crate) fn bytes(&self) -> &[u8] {
        let start = self.region.at(0).cast_const().cast();
        // SAFETY: so much of the region was mapped from a file, for reading, and lives as long as `self`; by I2 and I3 nobody
        // writes to it.
        unsafe { std::slice::from_raw_parts(start, self.length) }
    }
}

/// Text and slots of an image, of which the slots are still to be filled in.
#[derive(Debug)]
pub(crate) struct Unbound {
    region: Arc<Region>,
    /// Where in the region the text begins.
    start: usize,
    text: usize,
    slots: usize,
    is_mapped: bool,
}

/// An image that can run. Dropping it unmaps it.
#[derive(Debug)]
pub(crate) struct Bound {
    region: Arc<Region>,
    start: usize,
    text: usize,
    is_mapped: bool,
}

/// Memory of this process: private, or files side by side in it.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: by I1 the memory belongs to this value alone; a shared reference gives nothing but numbers.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Private memory of so many bytes, more than 0 of them: whole pages, all zeros.
    pub(crate) fn reserve(length: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address of the kernel's choice, takes no memory that anyone has.
        let start = unsafe { mm::mmap_anonymous(std::ptr::null_mut(), length, access, flags)? };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { start, length })
    }

    /// Puts `length` bytes of a file, from `offset` on, in place of what is at `at`. The file must be one that the store
    /// lent, `at` and `offset` multiples of [`PAGE`], and all of it inside.
    pub(crate) fn map(
        &mut self,
        at: usize,
        length: usize,
        file: &File,
        offset: u64,
        access: ProtFlags,
    ) -> io::Result<()> {
        let inside = at.checked_add(length).is_some_and(|end| end <= self.length);
        assert!(inside && at.is_multiple_of(PAGE), "{length} bytes at {at} of {}", self.length);
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: takes the place of pages that by I1 are ours alone, and within the region, which nobody refers into while
        // it is borrowed; by I3 what is mapped stays as it is.
        unsafe { mm::mmap(self.at(at), length, access, flags, file, offset)? };
        Ok(())
    }

    /// The byte at `offset`, which is inside.
    pub(crate) fn at(&self, offset: usize) -> *mut c_void {
        assert!(offset < self.length, "byte {offset} of {}", self.length);
        self.start.as_ptr().wrapping_byte_add(offset)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: by I1 the mapping is this value's own; by I2 no reference points into it; by I4 nobody executes it.
        let unmapped = unsafe { mm::munmap(self.start.as_ptr(), self.length) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl Unbound {
    /// Maps `length` bytes of a file from `offset` on, which are whole pages: an image. `parts` says by its bytes how long its
    /// tables are, and how many slots there is to be room for behind its text; none if it is no image.
    pub(crate) fn map(
        file: &File,
        offset: u64,
        length: usize,
        parts: impl Fn(&[u8]) -> Option<(usize, usize)>,
    ) -> io::Result<Option<(Front, Self)>> {
        // Nearly always that is room for all of them.
        let mut spare = PAGE;
        loop {
            let mut region = Region::reserve(length + spare)?;
            region.map(0, length, file, offset, ProtFlags::READ | ProtFlags::EXEC)?;
            let mut front = Front { region: Arc::new(region), length };
            let Some((tables, slots)) = parts(front.bytes()) else { return Ok(None) };
            let Some(text) = length.checked_sub(tables) else { return Ok(None) };
            if room(slots) > spare {
                spare = room(slots);
                continue;
            }
            front.length = tables;
            let region = Arc::clone(&front.region);
            return Ok(Some((
                front,
                Unbound { region, start: tables, text, slots, is_mapped: true },
            )));
        }
    }

    /// A copy of `text`, which is whole pages, with room for so many slots behind it.
    pub(crate) fn copy(text: &[u8], slots: usize) -> io::Result<Self> {
        let region = Region::reserve(text.len() + room(slots))?;
        // SAFETY: the region is longer, writable, ours alone by I1, and new: so the two do not overlap.
        unsafe { region.at(0).cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        let region = Arc::new(region);
        Ok(Unbound { region, start: 0, text: text.len(), slots, is_mapped: false })
    }

    /// The address of the text, which stays where it is.
    pub(crate) fn base(&self) -> u64 {
        self.region.at(self.start).addr() as u64
    }

    /// Fills in the slots, in their order, and makes the whole callable.
    ///
    /// # Panics
    ///
    /// If there are more or fewer addresses than slots.
    pub(crate) fn bind(self, addresses: &[u64]) -> io::Result<Bound> {
        assert_eq!(addresses.len(), self.slots, "an address for each slot");
        let room = room(self.slots);
        if room > 0 {
            let slots = self.region.at(self.start + self.text);
            // SAFETY: there is room for that many words, at a page and so aligned, writable, ours alone by I1 and I2.
            unsafe {
                slots.cast::<u64>().copy_from_nonoverlapping(addresses.as_ptr(), addresses.len());
            }
            // SAFETY: these pages are ours by I1, and by I2 nobody writes to them any more.
            unsafe { mm::mprotect(slots, room, MprotectFlags::READ)? };
        }
        if !self.is_mapped {
            let access = MprotectFlags::READ | MprotectFlags::EXEC;
            // SAFETY: as above, of the text.
            unsafe { mm::mprotect(self.region.at(self.start), self.text, access)? };
        }
        let Unbound { region, start, text, is_mapped, .. } = self;
        Ok(Bound { region, start, text, is_mapped })
    }
}

impl Bound {
    /// The address of the text.
    pub(crate) fn base(&self) -> u64 {
        self.region.at(self.start).addr() as u64
    }

    /// How many bytes of text there are.
    pub(crate) fn length(&self) -> usize {
        self.text
    }

    /// Whether the text is the file's.
    pub(crate) fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// The pointer to the byte at `offset` of the text, to be called.
    ///
    /// # Panics
    ///
    /// If there is no such byte.
    pub(crate) fn pointer(&self, offset: u32) -> *const u8 {
        assert!((offset as usize) < self.text, "an entry point lies in the text");
        self.region.at(self.start + offset as usize).cast_const().cast()
    }
}

/// The whole pages that so many slots take.
fn room(slots: usize) -> usize {
    (slots * size_of::<u64>()).next_multiple_of(PAGE)
}
