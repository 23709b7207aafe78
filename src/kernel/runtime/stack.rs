//! How far the stack of this thread may be used.

use nix::libc;

use crate::sync::thread_local;

/// What is left free for helpers, the host and the signal handlers of others.
const RESERVE: usize = 192 << 10;

thread_local! {
    static LIMIT: usize = lowest().map_or(0, |lowest| lowest + RESERVE);
}

/// The lowest address that a kernel's frame may reach.
pub(in crate::kernel) fn limit() -> usize {
    LIMIT.with(|limit| *limit)
}

/// The lowest address of this thread's stack, if the system says.
#[cfg(target_os = "linux")]
fn lowest() -> Option<usize> {
    // SAFETY: the attributes are initialised by the first call, which says whether it did, read by the second, and
    // given back by the third.
    unsafe {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let (mut start, mut size) = (std::ptr::null_mut(), 0);
        let failed = libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (failed == 0).then(|| start.addr())
    }
}

/// The lowest address of this thread's stack.
#[cfg(not(target_os = "linux"))]
fn lowest() -> Option<usize> {
    // SAFETY: both calls only read what the system knows of this thread.
    unsafe {
        let thread = libc::pthread_self();
        let top = libc::pthread_get_stackaddr_np(thread).addr();
        top.checked_sub(libc::pthread_get_stacksize_np(thread))
    }
}
