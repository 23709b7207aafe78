//! Kernels that are called from C, by pointers that carry no context.
//!
//! ```text
//!   C ──► entry ──► c_begin: a context ──► unit ──► c_end: says what was raised, gives the context back
//! ```

use std::sync::OnceLock;

use super::context::{Context, Host};
use crate::kernel::abi::KernelError;

/// What calls from C need of the host: also somebody to tell of errors, which C has no way to see.
pub trait CHost: Host + Send {
    /// A callback raised this, and returned zero.
    fn failed(&self, error: &KernelError);
}

static HOST: OnceLock<Box<dyn CHost>> = OnceLock::new();

/// Says who prints for callbacks, and hears of their errors. The first to say so stays.
pub fn set_host(host: Box<dyn CHost>) {
    // A second one finds it set.
    let _ = HOST.set(host);
}

/// In place of a host that was not set.
struct Nobody;

impl Host for Nobody {
    fn print(&self, _: &[crate::kernel::abi::Data]) -> Result<(), KernelError> {
        Ok(())
    }
}

pub(super) extern "C" fn begin() -> *mut Context<'static> {
    let host: &'static dyn Host = match HOST.get() {
        Some(host) => &**host,
        None => &Nobody,
    };
    Box::into_raw(Box::new(Context::new(host)))
}

pub(super) unsafe extern "C" fn end(context: *mut Context<'static>, status: u64) {
    // SAFETY: it comes from `begin`, and is not used again.
    let mut context = unsafe { Box::from_raw(context) };
    if status != 0 {
        let error = context.take_error();
        if let Some(host) = HOST.get() {
            let told = std::panic::AssertUnwindSafe(|| host.failed(&error));
            // A host that panics has told nobody; C cannot be told either.
            let _ = std::panic::catch_unwind(told);
        }
    }
}
