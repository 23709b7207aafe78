//! The `cachelift` command.

use std::alloc::{GlobalAlloc, Layout};
use std::process::ExitCode;

use mimalloc::MiMalloc;
use rustix::mm::{Advice, madvise};

/// A fifth of a run from a warm cache was spent in the C library's allocator. Huge pages are for large blocks alone: to
/// zero one for a small program's heap took a fifth of its run, while arrays are filled a tenth faster with them.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

struct Allocator;

/// Blocks of so many bytes are backed with huge pages where the system has them, as NumPy's arrays are.
const LARGE: usize = 4 << 20;

/// The size of a huge page, which also is what their addresses are multiples of.
const HUGE: usize = 2 << 20;

impl Allocator {
    /// Asks for huge pages under a block, if it is large.
    fn advise(start: *mut u8, size: usize) {
        if size < LARGE || start.is_null() {
            return;
        }
        let skipped = start.align_offset(HUGE);
        if skipped < size {
            let whole = (size - skipped) / HUGE * HUGE;
            // SAFETY: these whole pages lie inside a block that was allocated; their contents do not change.
            let _ = unsafe { madvise(start.add(skipped).cast(), whole, Advice::LinuxHugepage) };
        }
    }
}

// SAFETY: every method is `MiMalloc`'s; blocks are only advised on.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let start = unsafe { MiMalloc.alloc(layout) };
        Self::advise(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let start = unsafe { MiMalloc.alloc_zeroed(layout) };
        Self::advise(start, layout.size());
        start
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { MiMalloc.realloc(start, layout, size) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { MiMalloc.dealloc(start, layout) }
    }
}

fn main() -> ExitCode {
    // The allocator turned them off for the whole process.
    let _ = rustix::thread::disable_transparent_huge_pages(false);
    cachelift::cli::main(std::env::args_os()).into()
}
