//! How far the stack may be used, and how it grows.
//!
//! The passes over a program recurse as deep as its text nests and its functions are inlined into each other. A thread
//! of the user's may have any stack, so each step of such a recursion goes through [`deep`], which goes on in a new
//! segment where little is left. Kernels and host code do not grow the stack: they compare with [`limit`], which is that
//! of the segment they run in.

/// What is left free for helpers, the host and the signal handlers of others.
const RESERVE: usize = 192 << 10;

/// With less than this left, a recursion goes on in a segment of its own. Host code that a pass calls finds as much.
const LEAST: usize = 1 << 20;

/// The size of a new segment. Pages that are not touched cost nothing.
const SEGMENT: usize = 16 << 20;

/// The lowest address that a kernel's frame may reach; 0 where the system does not say where the stack ends.
pub(in crate::kernel) fn limit() -> usize {
    let here = 0u8;
    let here = std::ptr::from_ref(&here).addr();
    stacker::remaining_stack().map_or(0, |left| here.saturating_sub(left) + RESERVE)
}

/// Runs one step of a recursion over a program.
#[inline]
pub(in crate::kernel) fn deep<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEAST, SEGMENT, step)
}
