//! The context of a call, which every unit is passed first.

use std::mem::offset_of;

use super::stack;
use crate::kernel::abi::{Data, KernelError};

/// What kernels need of the host.
pub(crate) trait Host: Sync {
    /// Prints the values of one `print`, separated by blanks, and a line feed.
    fn print(&self, values: &[Data]) -> Result<(), KernelError>;
}

/// The state of a call on one thread.
#[repr(C)]
pub(crate) struct Context<'h> {
    stack_limit: usize,
    pub(crate) host: &'h dyn Host,
    /// What was raised last.
    pub(crate) error: Option<KernelError>,
    /// Errors that handlers keep, to be raised again.
    pub(crate) kept: Vec<KernelError>,
    /// Values that were handed over and not used yet.
    pub(crate) handed: Vec<Data>,
}

/// Where in a context the stack's limit lies.
pub(crate) const STACK_LIMIT: i32 = offset_of!(Context<'static>, stack_limit) as i32;

impl<'h> Context<'h> {
    /// A context for calls on this thread.
    pub(crate) fn new(host: &'h dyn Host) -> Self {
        Context {
            stack_limit: stack::limit(),
            host,
            error: None,
            kept: Vec::new(),
            handed: Vec::new(),
        }
    }

    /// The error of a call whose status was not zero.
    pub(crate) fn take_error(&mut self) -> KernelError {
        self.handed.clear();
        let unknown = || KernelError::new("SystemError", "a kernel failed without saying why");
        self.error.take().unwrap_or_else(unknown)
    }

    pub(crate) fn raise(&mut self, class: &str, text: &str) {
        self.handed.clear();
        self.error = Some(KernelError::new(class, text));
    }
}
