//! The only unsafe part of this layer: memory that is executed, routines that code calls by name, and
//! calls into code.
//!
//! ```text
//!   Writable (readable, writable) ──finish──► Executable (readable, executable) ──drop──► unmapped
//! ```
//!
//! Memory is never writable and executable at once, and the types say which it is: bytes can be had of
//! [`Writable`] only, addresses to call of [`Executable`] only, and the way back does not exist.
//!
//! Invariants that the `SAFETY` comments cite:
//!
//! - *E1* The memory of a `Writable` or an `Executable` is one mapping of its own, which nobody else knows
//!   and which lives until the value is dropped.
//! - *E2* Nothing reads or writes an `Executable`'s memory through a reference.
//! - *E3* Whoever calls generated code holds a handle on it for as long as the call lasts, or longer; that
//!   is what the `# Safety` section of every way to a callable address says.

use std::ptr::NonNull;

use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::LibCall;
use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider, SystemMemoryProvider};
use cranelift_module::ModuleError;

use super::call;
use super::error::CodeError;
use super::handle::Function;
use super::loaded::Loaded;

/// Memory for a batch of code, still to be filled in.
pub(crate) struct Writable {
    provider: SystemMemoryProvider,
    start: NonNull<u8>,
    length: usize,
}

impl Writable {
    /// At least one byte of zeroed memory, at the beginning of a page.
    ///
    /// One allocation holds a whole batch, so all of its code is within reach of near calls, and one
    /// change of protection makes all of it executable. An arena would add nothing to that, and
    /// Cranelift's panics where the system refuses to make memory executable.
    pub(crate) fn allocate(length: usize) -> Result<Self, String> {
        let length = length.max(1);
        let mut provider = SystemMemoryProvider::new();
        let start = provider
            .allocate(length, 1, JITMemoryKind::Executable)
            .map_err(|error| error.to_string())?;
        let start = NonNull::new(start).ok_or("no address")?;
        Ok(Writable { provider, start, length })
    }

    /// The address of the first byte.
    pub(crate) fn base(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// The bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: by E1 these bytes are mapped, writable, initialised (the system zeroes them), nobody
        // else's, and borrowed from `self` here.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Makes the memory executable, and no longer writable.
    pub(crate) fn finish(mut self) -> Result<Executable, String> {
        let finished = self.provider.finalize(BranchProtection::None);
        let memory = Executable { provider: self.provider, start: self.start, length: self.length };
        // On an error `memory` is dropped and unmapped here.
        finished.map(|()| memory).map_err(|error| match error {
            // With its causes, which the plain form leaves out.
            ModuleError::Backend(error) => format!("{error:#}"),
            error => error.to_string(),
        })
    }
}

/// Memory that holds finished code. Dropping it unmaps it.
pub(crate) struct Executable {
    provider: SystemMemoryProvider,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the pointer is the only thing in it that is not Send and Sync by itself (the provider has
// pointers of its own into the same mapping). By E1 the mapping belongs to this value alone, and a
// shared reference gives nothing but numbers: the provider is used by `drop` only, which has it alone.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Executable {
    /// The address of the first byte.
    pub(crate) fn base(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// How many bytes of code and stubs there are.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The pointer to the byte at `offset`, to be called.
    ///
    /// # Panics
    ///
    /// If there is no such byte.
    pub(crate) fn pointer(&self, offset: u32) -> *const u8 {
        assert!((offset as usize) < self.length, "an entry point lies in the code");
        self.start.as_ptr().wrapping_add(offset as usize)
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: by E1 the mapping is this value's own; by E2 no reference points into it; by E3
        // nobody executes it any more, since every handle on it is gone.
        unsafe { self.provider.free_memory() }
    }
}

impl Function {
    /// The code as a pointer of the type `F`, to be called from Rust:
    ///
    /// ```no_run
    /// # fn demo(function: &cachelift::code::Function) {
    /// // SAFETY: the CLIF has the signature (i32, i32) -> i32 system_v, reads no memory, and `function`
    /// // outlives the call.
    /// let three = unsafe {
    ///     let add = function.typed::<extern "C" fn(i32, i32) -> i32>();
    ///     add(1, 2)
    /// };
    /// # }
    /// ```
    ///
    /// # Safety
    ///
    /// `F` is a function pointer type with the calling convention and the types of the function's CLIF
    /// signature. It is called only while this handle or a clone of it lives. Calling it has whatever
    /// effects the CLIF has, on whatever memory it is handed.
    ///
    /// # Panics
    ///
    /// If `F` is not the size of a pointer.
    pub unsafe fn typed<F: Copy>(&self) -> F {
        let pointer = self.address();
        assert_eq!(size_of::<F>(), size_of_val(&pointer), "F is a function pointer");
        // SAFETY: of the same size; that F may have this value is the caller's promise.
        unsafe { std::mem::transmute_copy(&pointer) }
    }
}

impl Loaded {
    /// Calls a function of a [callable](super::Program::callable) program.
    ///
    /// Fails if there is no such function, or if the arguments do not fit its signature.
    ///
    /// # Safety
    ///
    /// The function's CLIF is trusted: it may read and write whatever memory it computes an address of,
    /// and a trap raises a signal. What it refers to must be what it takes it for.
    pub unsafe fn call(
        &self,
        name: &str,
        arguments: &[DataValue],
    ) -> Result<Vec<DataValue>, CodeError> {
        let (function, trampoline) = self.callable(name)?;
        let mut slots = call::fill_slots(name, function.signature(), arguments)?;
        // SAFETY: trampolines have this signature, in the host's default calling convention, which is
        // Rust's `extern "C"`. This one was made for the function's signature, and the slots were filled
        // in for that; `self` keeps both alive. What the function does is the caller's promise.
        unsafe {
            let trampoline = trampoline.typed::<extern "C" fn(*const u8, *mut u128)>();
            trampoline(function.address(), slots.as_mut_ptr());
        }
        Ok(call::read_slots(function.signature(), &slots))
    }
}

/// The address of a library routine in this process, if it has one.
pub(crate) fn libcall(libcall: LibCall) -> Option<u64> {
    macro_rules! address {
        ($function:path as $type:ty) => {{
            let function: $type = $function;
            function as usize as u64
        }};
    }
    type Unary64 = extern "C" fn(f64) -> f64;
    type Unary32 = extern "C" fn(f32) -> f32;
    type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
    Some(match libcall {
        LibCall::CeilF32 => address!(routines::ceilf as Unary32),
        LibCall::CeilF64 => address!(routines::ceil as Unary64),
        LibCall::FloorF32 => address!(routines::floorf as Unary32),
        LibCall::FloorF64 => address!(routines::floor as Unary64),
        LibCall::TruncF32 => address!(routines::truncf as Unary32),
        LibCall::TruncF64 => address!(routines::trunc as Unary64),
        LibCall::NearestF32 => address!(routines::nearbyintf as Unary32),
        LibCall::NearestF64 => address!(routines::nearbyint as Unary64),
        LibCall::FmaF32 => address!(routines::fmaf as extern "C" fn(f32, f32, f32) -> f32),
        LibCall::FmaF64 => address!(routines::fma as extern "C" fn(f64, f64, f64) -> f64),
        LibCall::Memcpy => address!(routines::memcpy as Copy),
        LibCall::Memmove => address!(routines::memmove as Copy),
        LibCall::Memset => {
            address!(routines::memset as unsafe extern "C" fn(*mut u8, i32, usize) -> *mut u8)
        }
        LibCall::Memcmp => {
            address!(routines::memcmp as unsafe extern "C" fn(*const u8, *const u8, usize) -> i32)
        }
        #[cfg(target_arch = "x86_64")]
        LibCall::Probestack => address!(routines::probestack as unsafe extern "C" fn()),
        #[cfg(target_arch = "x86_64")]
        LibCall::X86Pshufb => address!(
            routines::pshufb
                as extern "C" fn(
                    std::arch::x86_64::__m128i,
                    std::arch::x86_64::__m128i,
                ) -> std::arch::x86_64::__m128i
        ),
        _ => return None,
    })
}

/// The routines that compiled code calls for what the CPU cannot do by itself.
mod routines {
    macro_rules! round {
        ($($name:ident: $type:ty => $method:ident;)*) => {
            $(pub(super) extern "C" fn $name(x: $type) -> $type {
                x.$method()
            })*
        };
    }
    round! {
        ceil: f64 => ceil;
        ceilf: f32 => ceil;
        floor: f64 => floor;
        floorf: f32 => floor;
        trunc: f64 => trunc;
        truncf: f32 => trunc;
        nearbyint: f64 => round_ties_even;
        nearbyintf: f32 => round_ties_even;
    }

    pub(super) extern "C" fn fma(x: f64, y: f64, z: f64) -> f64 {
        x.mul_add(y, z)
    }

    pub(super) extern "C" fn fmaf(x: f32, y: f32, z: f32) -> f32 {
        x.mul_add(y, z)
    }

    // SAFETY: the C library's, which Rust's own needs and links: these are their signatures.
    unsafe extern "C" {
        pub(super) fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8;
        pub(super) fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8;
        pub(super) fn memset(to: *mut u8, byte: i32, length: usize) -> *mut u8;
        pub(super) fn memcmp(a: *const u8, b: *const u8, length: usize) -> i32;
    }

    /// Cranelift's shuffle of bytes for CPUs without SSSE3.
    #[cfg(target_arch = "x86_64")]
    #[expect(
        improper_ctypes_definitions,
        reason = "the x86-64 ABI has vectors in SSE registers, and Rust follows it"
    )]
    pub(super) extern "C" fn pshufb(
        bytes: std::arch::x86_64::__m128i,
        mask: std::arch::x86_64::__m128i,
    ) -> std::arch::x86_64::__m128i {
        // SAFETY: 16 bytes without padding, of which every pattern is valid, both ways.
        let (bytes, mask): ([u8; 16], [u8; 16]) = unsafe { std::mem::transmute((bytes, mask)) };
        let shuffled = mask.map(|at| if at & 0x80 == 0 { bytes[(at & 15) as usize] } else { 0 });
        // SAFETY: as above.
        unsafe { std::mem::transmute(shuffled) }
    }

    /// Touches each page of a new stack frame, from the top, so that none jumps over the guard page. The
    /// frame's size comes in `eax`; every register but `r11` is left as it was.
    #[cfg(target_arch = "x86_64")]
    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn probestack() {
        core::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "mov r11, rax",
            "cmp r11, 0x1000",
            "jna 3f",
            "2:",
            "sub rsp, 0x1000",
            "test qword ptr [rsp + 8], rsp",
            "sub r11, 0x1000",
            "cmp r11, 0x1000",
            "ja 2b",
            "3:",
            "sub rsp, r11",
            "test qword ptr [rsp + 8], rsp",
            "leave",
            "ret",
        )
    }
}
