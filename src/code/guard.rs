//! Calls compiled code so that a trap in it ends the call and not the process.
//!
//! ```text
//!   call ──► enter: saves registers and stack in a Frame ──► trampoline ──► compiled code
//!                                                                              │ ud2, division by 0, bad address
//!   Err(Fault) ◄── resume: restores them ◄── handler: sets the program counter ◄┘ signal
//! ```
//!
//! Between `enter` and the fault there is nothing but compiled code and the library routines it calls
//! (arithmetic, copying): no frame with a destructor, no lock. That is what makes it sound to leave them.
//!
//! Here alone signals are handled; only those that the processor raises in the very thread, and only while
//! that thread is inside [`call`]. Any other fault goes to whoever handled such signals before.

use std::fmt;

use cranelift_codegen::data_value::DataValue;

use super::call as values;
use super::error::CodeError;
use super::loaded::Loaded;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux_x64;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use linux_x64::call;

/// What a trap looked like to the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of fault it was.
    pub kind: FaultKind,
    /// The address of the instruction that trapped.
    pub instruction: usize,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An instruction that is there to trap.
    Illegal,
    /// A division by zero, or one whose result does not fit.
    Arithmetic,
    /// An address that may not be touched so, if the processor says which.
    Address(Option<usize>),
    /// The stack is used up.
    StackOverflow,
    /// A breakpoint, with no debugger to take it.
    Breakpoint,
}

/// What a person reads of a fault whose place says nothing better.
impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Illegal => f.write_str("illegal instruction"),
            FaultKind::Arithmetic => f.write_str("division by zero or overflow"),
            FaultKind::Address(Some(address)) => write!(f, "bad address {address:#x}"),
            FaultKind::Address(None) => f.write_str("bad address"),
            FaultKind::StackOverflow => f.write_str("stack overflow"),
            FaultKind::Breakpoint => f.write_str("breakpoint"),
        }
    }
}

/// Calls `trampoline(callee, values)`; here a trap ends the process.
///
/// # Safety
///
/// `trampoline` must be compiled code that takes `callee` and `values` in the platform's C convention and
/// may be called with them.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub unsafe fn call(
    trampoline: *const u8,
    callee: *const u8,
    values: *mut u128,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for it.
    unsafe {
        let trampoline: unsafe extern "C" fn(*const u8, *mut u128) =
            std::mem::transmute(trampoline);
        trampoline(callee, values);
    }
    Ok(())
}

impl Loaded {
    /// As [`Loaded::call`], but a trap in the code ends the call and not the process.
    ///
    /// # Safety
    ///
    /// As for [`Loaded::call`]. And the host functions that the code reaches are without locks and
    /// destructors, and do not unwind; the library routines of CLIF are.
    pub unsafe fn call_guarded(
        &self,
        name: &str,
        arguments: &[DataValue],
    ) -> Result<Result<Vec<DataValue>, Fault>, CodeError> {
        let (function, trampoline) = self.callable(name)?;
        let mut slots = values::fill_slots(name, function.signature(), arguments)?;
        // SAFETY: this trampoline was made for the function's signature, for which the slots were filled
        // in; `self` keeps both alive. What they do is the caller's promise.
        let ended = unsafe { call(trampoline.address(), function.address(), slots.as_mut_ptr()) };
        Ok(ended.map(|()| values::read_slots(function.signature(), &slots)))
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests;
