use std::arch::naked_asm;
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;

/// A trampoline that leaves every register that a callee must keep in disorder before it calls.
#[unsafe(naked)]
unsafe extern "C" fn trampoline(callee: *const u8, values: *mut u128) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "xor ebx, ebx",
        "xor ebp, ebp",
        "mov r12, -1",
        "mov r13, -1",
        "mov r14, -1",
        "mov r15, -1",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
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

#[unsafe(naked)]
unsafe extern "C" fn writes(values: *mut u128) {
    naked_asm!("mov qword ptr [rdi], 42", "ret")
}

#[unsafe(naked)]
unsafe extern "C" fn illegal(values: *mut u128) {
    naked_asm!("mov qword ptr [rdi], 7", "std", "ud2")
}

#[unsafe(naked)]
unsafe extern "C" fn divides(values: *mut u128) {
    naked_asm!("xor ecx, ecx", "xor edx, edx", "mov eax, 1", "div ecx", "ret")
}

#[unsafe(naked)]
unsafe extern "C" fn reads_nothing(values: *mut u128) {
    naked_asm!("mov rax, [0x10]", "ret")
}

#[unsafe(naked)]
unsafe extern "C" fn reads_beyond_pointers(values: *mut u128) {
    naked_asm!("mov rax, 0x7000000000000000", "mov rax, [rax]", "ret")
}

#[unsafe(naked)]
unsafe extern "C" fn recurses(values: *mut u128) {
    naked_asm!("push rax", "call {}", "pop rax", "ret", sym recurses)
}

#[unsafe(naked)]
unsafe extern "C" fn breaks(values: *mut u128) {
    naked_asm!("int3", "ret")
}

fn guarded(callee: unsafe extern "C" fn(*mut u128)) -> (Result<(), FaultKind>, u128) {
    let mut values = [0];
    let kept = String::from("a local that must survive");
    // SAFETY: both are code of the C convention that touches nothing but `values`.
    let result = unsafe { call(trampoline as *const u8, callee as *const u8, values.as_mut_ptr()) };
    assert_eq!(kept, "a local that must survive");
    let flags: u64;
    // SAFETY: reads the flags.
    unsafe { std::arch::asm!("pushfq", "pop {}", out(reg) flags) };
    assert_eq!(flags & 1 << 10, 0, "the direction flag is set");
    (result.map_err(|fault| fault.kind), values[0])
}

#[test]
fn code_that_returns_returns() {
    assert_eq!(guarded(writes), (Ok(()), 42));
}

/// Mutants seen: `resume` that restores r12 and r13 in the wrong order; the handler that leaves the stack
/// pointer, or the direction flag, as it is.
#[test]
fn every_kind_of_trap_ends_the_call_and_not_the_process() {
    for _ in 0..3 {
        assert_eq!(guarded(illegal), (Err(FaultKind::Illegal), 7));
        assert_eq!(guarded(divides).0, Err(FaultKind::Arithmetic));
        assert_eq!(guarded(reads_nothing).0, Err(FaultKind::Address(Some(0x10))));
        assert_eq!(guarded(reads_beyond_pointers).0, Err(FaultKind::Address(None)));
        assert_eq!(guarded(recurses).0, Err(FaultKind::StackOverflow));
        assert_eq!(guarded(breaks).0, Err(FaultKind::Breakpoint));
        assert_eq!(guarded(writes), (Ok(()), 42));
    }
}

#[test]
fn a_fault_says_which_instruction_it_was() {
    // SAFETY: as above.
    let fault =
        unsafe { call(trampoline as *const u8, reads_nothing as *const u8, [0].as_mut_ptr()) };
    assert_eq!(fault.unwrap_err().instruction, reads_nothing as *const () as usize);
}

#[test]
fn threads_trap_apart() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    assert_eq!(guarded(illegal).0, Err(FaultKind::Illegal));
                    assert_eq!(guarded(writes), (Ok(()), 42));
                }
            });
        }
    });
}

/// Mutant seen: a call that stays the thread's active one when it has returned.
#[test]
fn faults_outside_a_call_are_nobody_s() {
    const CHILD: &str = "CACHELIFT_TEST_FAULT";
    let name = "code::guard::tests::faults_outside_a_call_are_nobody_s";
    if std::env::var_os(CHILD).is_some() {
        assert_eq!(guarded(illegal).0, Err(FaultKind::Illegal));
        // SAFETY: none of it: the point is that the process ends here, as it would without the guard.
        unsafe { illegal([0].as_mut_ptr()) };
        std::process::exit(0);
    }
    let test = std::env::current_exe().unwrap();
    let mut child = Command::new(test).args(["--exact", name]).env(CHILD, "1").spawn().unwrap();
    let bound = Instant::now() + Duration::from_secs(20);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > bound => {
                child.kill().unwrap();
                panic!("the handler keeps faults that are not its own");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(4), "{status}");
}
