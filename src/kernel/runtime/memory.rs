//! Counted memory: what arrays, structrefs and strings made by kernels live in, and a handle on it for the host.
//!
//! ```text
//!   owner ─► ┌ count │ bytes │ counted lanes │ foreign ┐ 64 bytes, then the data
//!            └──────────────────────────────────────────┘
//! ```
//!
//! The data begins at a multiple of 64. A structref's data are lanes, eight bytes each; the bits of `counted lanes`
//! say which are owners themselves, to be given back when it dies. `foreign` keeps a host value alive instead.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering, fence};

/// How many bytes lie before the data.
pub(crate) const HEADER: usize = 64;

/// The most that is asked of the allocator: more is refused at once.
const MOST: usize = isize::MAX as usize - 4096;

/// What lies before the data.
#[repr(C, align(64))]
struct Header {
    count: AtomicUsize,
    bytes: usize,
    counted: u64,
    foreign: Option<Arc<dyn Any + Send + Sync>>,
}

/// Blocks that are alive in this process: what tests of leaks look at.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// How many blocks are alive in this process.
#[cfg(test)]
pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::SeqCst)
}

/// A counted reference to a block. A clone refers to the same block.
pub struct Memory(NonNull<Header>);

// SAFETY: the count is atomic, and what is foreign may cross threads; that the data is not raced for is the promise of
// those who call kernels, as it is of those who share an array among threads in Python.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// A block of this many bytes, all zero. `None` if it cannot be had.
    pub fn zeroed(bytes: usize) -> Option<Memory> {
        Self::block(bytes, 0, None, true)
    }

    /// A block of this many bytes, for a kernel that writes each before it is read.
    pub(crate) fn unwritten(bytes: usize) -> Option<Memory> {
        Self::block(bytes, 0, None, false)
    }

    /// A block with these bytes. `None` if it cannot be had.
    pub fn copied(bytes: &[u8]) -> Option<Memory> {
        let memory = Self::block(bytes.len(), 0, None, false)?;
        // SAFETY: the block has that many bytes, nobody else knows it, and it cannot overlap with a slice.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.data(), bytes.len()) };
        Some(memory)
    }

    /// A block without data that keeps `value` alive.
    pub fn foreign(value: Arc<dyn Any + Send + Sync>) -> Option<Memory> {
        Self::block(0, 0, Some(value), false)
    }

    /// The block of a structref: so many lanes, all zero, and which of them are owners.
    pub(crate) fn lanes(lanes: usize, counted: u64) -> Option<Memory> {
        Self::block(lanes * 8, counted, None, true)
    }

    fn block(
        bytes: usize,
        counted: u64,
        foreign: Option<Arc<dyn Any + Send + Sync>>,
        zero: bool,
    ) -> Option<Memory> {
        let layout = layout(bytes)?;
        // SAFETY: the layout is not empty: it has room for the header.
        let start =
            NonNull::new(unsafe { if zero { alloc_zeroed(layout) } else { alloc(layout) } })?;
        let header = start.cast::<Header>();
        // SAFETY: there is room for a header, rightly aligned.
        unsafe { header.write(Header { count: AtomicUsize::new(1), bytes, counted, foreign }) };
        LIVE.fetch_add(1, Ordering::Relaxed);
        Some(Memory(header))
    }

    /// The address of the first byte of data.
    pub fn data(&self) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().wrapping_add(HEADER)
    }

    /// How many bytes of data there are.
    pub fn len(&self) -> usize {
        self.header().bytes
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The host value that it keeps alive.
    pub fn as_foreign(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.header().foreign.as_ref()
    }

    /// Gives the reference away, as an owner lane.
    pub fn into_owner(self) -> usize {
        let owner = self.0.as_ptr().expose_provenance();
        std::mem::forget(self);
        owner
    }

    /// The owner lane of a reference that is kept.
    pub fn as_owner(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// Takes over the reference of an owner lane; none if it is null.
    ///
    /// # Safety
    ///
    /// The lane came from [`into_owner`](Self::into_owner) or from a kernel's result, and is not used again.
    pub unsafe fn from_owner(owner: usize) -> Option<Memory> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(owner)).map(Memory)
    }

    fn header(&self) -> &Header {
        // SAFETY: the block lives as long as the reference, and its header is only written before it is shared.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        self.header().count.fetch_add(1, Ordering::Relaxed);
        Memory(self.0)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.header().count.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            free(self.0);
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({:p}, {} bytes)", self.data(), self.len())
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    if bytes > MOST {
        return None;
    }
    Layout::from_size_align(HEADER + bytes, align_of::<Header>()).ok()
}

/// Frees a block whose last reference is gone, and those that only it referred to. A chain of them may be longer than
/// the stack: no recursion.
#[cold]
fn free(first: NonNull<Header>) {
    let mut blocks = vec![first];
    while let Some(block) = blocks.pop() {
        // SAFETY: its last reference is gone, so nobody else reads or writes it.
        let header = unsafe { block.read() };
        let lanes = block.as_ptr().cast::<u8>().wrapping_add(HEADER).cast::<usize>();
        for lane in (0..64).filter(|lane| header.counted >> lane & 1 == 1) {
            // SAFETY: a counted lane lies in the data of its block, which is aligned, and holds an owner or null.
            let owner = unsafe { lanes.add(lane).read() };
            let inner = std::ptr::with_exposed_provenance_mut::<Header>(owner);
            if let Some(inner) = NonNull::new(inner) {
                // SAFETY: the lane was a reference to it.
                let count = unsafe { &inner.as_ref().count };
                if count.fetch_sub(1, Ordering::Release) == 1 {
                    fence(Ordering::Acquire);
                    blocks.push(inner);
                }
            }
        }
        let layout = layout(header.bytes).expect("it was allocated with it");
        // SAFETY: allocated with this layout; the header was moved out of it.
        unsafe { dealloc(block.as_ptr().cast(), layout) };
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}
