//! The bytes behind tensors: one allocation or files that are mapped side by side, shared by every view of it.
//!
//! ```text
//!   Tensor ──Arc──► Buffer ── owned, aligned to 64 bytes: kernels write it while it has one owner
//!                          └─ mapped, read-only
//! ```
//!
//! The only file of tensors with `unsafe` in it. Invariants:
//!
//! - **Alive**: memory lives as long as its `Buffer`.
//! - **Initialised**: owned memory is zeroed when it is allocated, and so is what is left of mapped memory's last page.
//! - **One writer**: bytes are written through `&mut Buffer` alone, which nobody else can hold.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::slice;

use rustix::mm::ProtFlags;

use crate::code::image::memory::Region;
use crate::store::{Lent, PAGE};

/// The alignment of owned memory, in bytes: a cache line, and the widest vector.
const ALIGN: usize = 64;

/// Bytes that tensors are views of.
pub(crate) struct Buffer(Memory);

enum Memory {
    Owned { start: NonNull<u8>, length: usize },
    Mapped { region: Region, length: usize },
}

// SAFETY: owned memory belongs to this value alone, and is written through `&mut` alone.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `length` zeroed bytes; `None` if the system has no room for them.
    pub(crate) fn zeroed(length: usize) -> Option<Self> {
        let layout = layout(length)?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Buffer(Memory::Owned { start, length }))
    }

    /// What the store lent, mapped side by side: one thing at least, and all but the last of whole pages.
    ///
    /// # Panics
    ///
    /// If there is nothing, or something in the middle is not of whole pages.
    pub(crate) fn map(pieces: &[Lent<File>]) -> io::Result<Self> {
        let length: u64 = pieces.iter().map(|piece| piece.length).sum();
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut region = Region::reserve(length.next_multiple_of(PAGE as usize))?;
        let mut at = 0;
        for piece in pieces {
            let length = piece.length as usize;
            region.map(at, length, &piece.file, piece.offset, ProtFlags::READ)?;
            at += length;
        }
        Ok(Buffer(Memory::Mapped { region, length }))
    }

    /// All the bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: alive, initialised, and shared for as long as `self` is.
            Memory::Owned { start, length } => unsafe {
                slice::from_raw_parts(start.as_ptr(), *length)
            },
            // SAFETY: alive and initialised; nobody writes to what the store lent.
            Memory::Mapped { region, length } => unsafe {
                slice::from_raw_parts(region.at(0).cast_const().cast(), *length)
            },
        }
    }

    /// The address of the first byte.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        match &self.0 {
            Memory::Owned { start, .. } => start.as_ptr(),
            Memory::Mapped { region, .. } => region.at(0).cast_const().cast(),
        }
    }

    /// All the bytes, for the one who owns them alone; `None` of mapped files.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Memory::Owned { start, length } => {
                // SAFETY: alive, initialised, and nobody else's while `self` is borrowed.
                Some(unsafe { slice::from_raw_parts_mut(start.as_ptr(), *length) })
            }
            Memory::Mapped { .. } => None,
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Memory::Owned { start, length } = self.0 {
            let layout = layout(length).expect("the layout it was allocated with");
            // SAFETY: allocated with this layout, and freed once.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

/// Never of size 0, so that every buffer has an address.
fn layout(length: usize) -> Option<Layout> {
    Layout::from_size_align(length.max(1), ALIGN).ok()
}

/// A type that elements are read as.
///
/// # Safety
///
/// Any bytes that a tensor of [`Element::TYPE`](super::Element::TYPE) holds are a value of the type, it has no padding, and
/// its alignment is its size.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: every bit pattern is a number.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: as above.
unsafe impl Plain for i8 {}
// SAFETY: as above.
unsafe impl Plain for i16 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: as above.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: tensors of truth values hold the bytes 0 and 1 alone: readers see to it, and so do kernels.
unsafe impl Plain for bool {}

/// Bytes as elements; `None` if they are not aligned, or no whole number of elements.
pub(crate) fn cast<T: Plain>(bytes: &[u8]) -> Option<&[T]> {
    let size = size_of::<T>();
    if !bytes.len().is_multiple_of(size) || !bytes.as_ptr().cast::<T>().is_aligned() {
        return None;
    }
    // SAFETY: aligned, in bounds, and any bytes are a `T`.
    Some(unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size) })
}

/// Elements as bytes.
pub(crate) fn bytes_of<T: Plain>(elements: &[T]) -> &[u8] {
    // SAFETY: a `T` has no padding.
    unsafe { slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// A view of elements that lie apart, in ndarray's terms.
///
/// # Safety
///
/// Every index below `dims` must lie in the bytes from `start` on, in `strides`, and be aligned; the
/// memory must outlive `'a`, unwritten.
pub(crate) unsafe fn array_view<'a, T: Plain>(
    start: *const u8,
    dims: &[usize],
    strides: &[isize],
) -> ndarray::ArrayViewD<'a, T> {
    use ndarray::{ArrayView, IxDyn, ShapeBuilder};
    // ndarray takes strides that go forward; axes that go backward are turned round afterwards.
    let mut start: *const T = start.cast();
    let mut forward = Vec::with_capacity(strides.len());
    for (&dim, &stride) in dims.iter().zip(strides) {
        if stride < 0 && dim > 0 {
            // SAFETY: the last index of the axis is in bounds.
            start = unsafe { start.offset(stride * (dim as isize - 1)) };
        }
        forward.push(stride.unsigned_abs());
    }
    let shape = IxDyn(dims).strides(IxDyn(&forward));
    // SAFETY: the caller's promise.
    let mut view = unsafe { ArrayView::from_shape_ptr(shape, start) };
    for (axis, &stride) in strides.iter().enumerate() {
        if stride < 0 {
            view.invert_axis(ndarray::Axis(axis));
        }
    }
    view
}
