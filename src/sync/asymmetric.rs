//! Two fences that meet, of which the frequent one costs nothing.
//!
//! ```text
//!   often:   store a; light(); load b          seldom:   store b; heavy(); load a
//! ```
//!
//! One of the two sees the other's store, as if both fences were sequentially consistent. Where the kernel has
//! `membarrier(2)`, the light one is only a limit to the compiler, and the heavy one makes each processor that runs
//! a thread of this process pass a full fence, some microseconds in all. Elsewhere both are full fences: under
//! loom and shuttle too, which cannot see the kernel's.

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) use linux::{heavy, light};
#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
pub(crate) use portable::{heavy, light};

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod linux {
    use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

    use rustix::io::Errno;
    use rustix::thread::MembarrierCommand::{PrivateExpedited, RegisterPrivateExpedited};
    use rustix::thread::membarrier;

    const UNDECIDED: u8 = 0;
    const BY_KERNEL: u8 = 1;
    const BY_FENCE: u8 = 2;

    /// Decided once. Undecided counts as `BY_FENCE` for the light side, and is not left so by the heavy one:
    /// who runs a light fence without an instruction is met by a heavy one that knows of it.
    static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

    /// The frequent side.
    #[inline(always)]
    pub(crate) fn light() {
        match MODE.load(Ordering::Relaxed) {
            BY_KERNEL => compiler_fence(Ordering::SeqCst),
            _ => fence(Ordering::SeqCst),
        }
    }

    /// The seldom side. Says `false` if it could not be done, which must then be taken for not done.
    pub(crate) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        match MODE.load(Ordering::Relaxed) {
            BY_FENCE => true,
            BY_KERNEL => by_kernel(),
            _ => {
                let mode = if by_kernel() { BY_KERNEL } else { BY_FENCE };
                match MODE.compare_exchange(UNDECIDED, mode, Ordering::Relaxed, Ordering::Relaxed) {
                    Err(BY_KERNEL) => by_kernel(),
                    // With `BY_KERNEL` just set, the light ones until now were full fences.
                    Ok(_) | Err(_) => true,
                }
            }
        }
    }

    fn by_kernel() -> bool {
        // A process must register; its child after a fork may have to do so again.
        match membarrier(PrivateExpedited) {
            Err(Errno::PERM) => {
                membarrier(RegisterPrivateExpedited).is_ok() && membarrier(PrivateExpedited).is_ok()
            }
            done => done.is_ok(),
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
mod portable {
    use super::super::{Ordering, fence};

    /// The frequent side.
    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    /// The seldom side; always done.
    pub(crate) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }
}
