//! Two fences that meet, of which the frequent one costs nothing.
//!
//! ```text
//!   often:   store a; light(); load b          seldom:   store b; heavy(); load a
//! ```
//!
//! One of the two sees the other's store, as if both fences were sequentially consistent. Where the kernel has
//! `membarrier(2)`, the light one is only a limit to the compiler, and the heavy one makes each processor that runs
//! a thread of this process pass a full fence, some microseconds in all. Elsewhere both are full fences: under
//! loom too, which cannot see the kernel's.
//!
//! The kernel wants to be told beforehand, which takes it some 15 ms in a process that has threads. That is done by the
//! first heavy fence, or when a thread has spent about as long on light ones.

#[cfg(all(target_os = "linux", not(any(loom, miri))))]
pub(crate) use linux::{heavy, light};
#[cfg(not(all(target_os = "linux", not(any(loom, miri)))))]
pub(crate) use portable::{heavy, light};

#[cfg(all(target_os = "linux", not(any(loom, miri))))]
mod linux {
    use std::cell::Cell;
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

    /// The light fences of a thread that take as long as telling the kernel.
    const PATIENCE: u32 = 1 << 20;

    std::thread_local! {
        static PAID: Cell<u32> = const { Cell::new(0) };
    }

    /// The frequent side.
    #[inline(always)]
    pub(crate) fn light() {
        // It acquires what was done before the heavy fence that set it.
        match MODE.load(Ordering::Acquire) {
            BY_KERNEL => compiler_fence(Ordering::SeqCst),
            _ => by_fence(),
        }
    }

    #[cold]
    fn by_fence() {
        fence(Ordering::SeqCst);
        let paid = PAID.get().saturating_add(1);
        PAID.set(paid);
        if paid == PATIENCE {
            heavy();
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
                match MODE.compare_exchange(UNDECIDED, mode, Ordering::AcqRel, Ordering::Relaxed) {
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

#[cfg(not(all(target_os = "linux", not(any(loom, miri)))))]
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
