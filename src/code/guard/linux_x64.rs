//! Signals and saved registers on Linux for x86-64.

use std::cell::Cell;
use std::{mem, ptr};

use nix::libc::{self, c_int, c_void, sigaction, siginfo_t, ucontext_t};

use super::{Fault, FaultKind};
use crate::sync::fork::SetOnce;
use crate::sync::{AtomicBool, Ordering};

/// Calls `trampoline(callee, values)`.
///
/// Returns the fault if the code trapped; what it had written until then is written.
///
/// # Safety
///
/// `trampoline` must be compiled code that takes `callee` and `values` in the platform's C convention and
/// may be called with them. Host functions that it reaches must be without locks and destructors, and must
/// not unwind.
pub unsafe fn call(
    trampoline: *const u8,
    callee: *const u8,
    values: *mut u128,
) -> Result<(), Fault> {
    install();
    let frame = Frame { stack: Cell::new(0), fault: Cell::new(None) };
    let outer = ACTIVE.replace(&frame);
    // SAFETY: the caller vouches for the code; `frame` outlives the call, on this thread.
    let ended = unsafe { enter(&frame, trampoline, callee, values) };
    ACTIVE.set(outer);
    match frame.fault.get() {
        Some(fault) if ended != 0 => Err(fault),
        _ => Ok(()),
    }
}

/// The state of one [`call`], on its stack.
#[repr(C)]
struct Frame {
    /// The stack pointer inside `enter`, behind the saved registers. `enter` writes it: first field.
    stack: Cell<usize>,
    /// Why the call ended early; the handler writes it.
    fault: Cell<Option<Fault>>,
}

thread_local! {
    /// The innermost call of this thread. A constant without a destructor, so that the handler may read it.
    static ACTIVE: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Saves what a callee must keep, notes the stack in the frame and calls; returns 0, or 1 through `resume`.
#[unsafe(naked)]
unsafe extern "C" fn enter(
    frame: *const Frame,
    trampoline: *const u8,
    callee: *const u8,
    values: *mut u128,
) -> u64 {
    std::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdi], rsp",
        "mov rax, rsi",
        "mov rdi, rdx",
        "mov rsi, rcx",
        "call rax",
        "xor eax, eax",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// The end of `enter` for a call that trapped: the handler sets the stack pointer and continues here.
#[unsafe(naked)]
unsafe extern "C" fn resume() {
    std::arch::naked_asm!(
        "mov eax, 1",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

const SIGNALS: [c_int; 5] =
    [libc::SIGILL, libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP];

/// Who handled these signals before.
static BEFORE: SetOnce<[sigaction; SIGNALS.len()]> = SetOnce::new();
/// Whether the handler is in place.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Puts the handler in place. Threads that come to it at once all do so, for none may wait for another: in a child that
/// is forked meanwhile, the other never gets on.
fn install() {
    if INSTALLED.load(Ordering::Acquire) {
        return;
    }
    // Told before the first handler is in place: who still finds an old one there finds them all old, and of those who
    // find ours none is the first to tell.
    BEFORE.set(SIGNALS.map(|signal| {
        // SAFETY: a `sigaction` of zeros is valid, and the call only fills it in.
        unsafe {
            let mut action: sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut action);
            action
        }
    }));
    for signal in SIGNALS {
        // SAFETY: as above; `handler` has the signature that SA_SIGINFO asks for. It needs a stack of its own to tell an
        // overflow of the usual one; Rust's threads have one.
        unsafe {
            let mut action: sigaction = mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
    INSTALLED.store(true, Ordering::Release);
}

/// Ends the call of this thread, if it is in one. Touches only this thread's data and its saved context.
extern "C" fn handler(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: a frame in `ACTIVE` is alive as long as it is there.
    let frame = unsafe { ACTIVE.get().as_ref() };
    // SAFETY: the kernel gives both for a handler with SA_SIGINFO, for this handler alone.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<ucontext_t>()) };
    // Signals that another process sent are none of the code's doing: their codes are not positive.
    let Some(frame) = frame.filter(|_| info.si_code > 0) else {
        return pass_on(signal, info.si_code);
    };
    let registers = &mut context.uc_mcontext.gregs;
    let stack = registers[libc::REG_RSP as usize] as usize;
    // SAFETY: these signals, raised by the processor, come with an address.
    let address = unsafe { info.si_addr() } as usize;
    let kind = match signal {
        libc::SIGILL => FaultKind::Illegal,
        libc::SIGFPE => FaultKind::Arithmetic,
        libc::SIGTRAP => FaultKind::Breakpoint,
        // A push goes just below the stack pointer, a big frame is probed page by page.
        _ if address.abs_diff(stack) <= STACK_REACH => FaultKind::StackOverflow,
        // An address that no pointer can have is not told.
        _ => FaultKind::Address((info.si_code != SI_KERNEL).then_some(address)),
    };
    let instruction = registers[libc::REG_RIP as usize] as usize;
    frame.fault.set(Some(Fault { kind, instruction }));
    registers[libc::REG_RSP as usize] = frame.stack.get() as i64;
    registers[libc::REG_RIP as usize] = resume as *const () as i64;
    // Rust expects string instructions to go upwards.
    registers[libc::REG_EFL as usize] &= !DIRECTION_FLAG;
}

/// How far below the stack pointer a fault still is one of the stack.
const STACK_REACH: usize = 64 << 10;
/// What the kernel calls a fault of which it knows no more.
const SI_KERNEL: c_int = 128;
/// The direction flag of the processor's flags.
const DIRECTION_FLAG: i64 = 1 << 10;

/// Hands the signal back to whoever had it before.
fn pass_on(signal: c_int, code: c_int) {
    let at = SIGNALS.iter().position(|known| *known == signal);
    // SAFETY: a `sigaction` of zeros asks for the default.
    let default = || unsafe { mem::zeroed() };
    let before = at.and_then(|at| Some(BEFORE.get()?[at])).unwrap_or_else(default);
    // SAFETY: `before` was in place for this signal, or is the default.
    unsafe {
        libc::sigaction(signal, &before, ptr::null_mut());
    }
    // An instruction that faults does so again and finds them; what was sent, or stands behind a
    // breakpoint, must be sent anew.
    if code <= 0 || signal == libc::SIGTRAP {
        // SAFETY: sends a signal to this thread.
        unsafe {
            libc::raise(signal);
        }
    }
}
