//! Library routines that the CPU's lack of instructions, or a large frame, makes code call: one by one and in images.
#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::__m128i;

use cachelift::code::CachingModule;
use cachelift::store::Store;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_jit::JITBuilder;
use cranelift_module::default_libcall_names;

use crate::support::{address, define_with, store_in};

/// What `pshufb` does, for CPUs without it.
#[expect(improper_ctypes_definitions, reason = "it is how the ABI passes vectors")]
extern "C" fn pshufb(bytes: __m128i, mask: __m128i) -> __m128i {
    // SAFETY: plain bytes, in both directions.
    let [bytes, mask] =
        [bytes, mask].map(|v| unsafe { std::mem::transmute::<__m128i, [u8; 16]>(v) });
    let shuffled = mask.map(|at| if at & 0x80 != 0 { 0 } else { bytes[usize::from(at & 15)] });
    // SAFETY: as above.
    unsafe { std::mem::transmute::<[u8; 16], __m128i>(shuffled) }
}

/// Touches each page of a new frame whose size comes in `eax`; every register but `r11` is left as it was.
#[unsafe(naked)]
unsafe extern "C" fn probestack() {
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "mov r11, rax",
        "2:",
        "cmp r11, 0x1000",
        "jna 3f",
        "sub rsp, 0x1000",
        "test qword ptr [rsp + 8], rsp",
        "sub r11, 0x1000",
        "jmp 2b",
        "3:",
        "sub rsp, r11",
        "test qword ptr [rsp + 8], rsp",
        "leave",
        "ret",
    )
}

/// A builder for the plainest x86-64.
fn builder(flags: &[(&str, &str)]) -> JITBuilder {
    let mut shared = settings::builder();
    shared.set("use_colocated_libcalls", "false").unwrap();
    for (name, value) in flags {
        shared.set(name, value).unwrap();
    }
    let isa = cranelift_native::builder_with_options(false).unwrap();
    let isa = isa.finish(settings::Flags::new(shared)).unwrap();
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    builder.symbol("__cranelift_x86_pshufb", pshufb as *const u8);
    builder.symbol("__cranelift_probestack", probestack as *const u8);
    builder
}

/// Runs `check` on modules of each kind that have the functions of a text: compiled, found, and mapped; or the last alone.
fn each(flags: &[(&str, &str)], text: &str, images_alone: bool, check: impl Fn(&CachingModule)) {
    let dir = tempfile::tempdir().unwrap();
    for make in [CachingModule::new as fn(JITBuilder, Store) -> _, CachingModule::code_only] {
        for as_image in [false, true].into_iter().filter(|as_image| *as_image || !images_alone) {
            for _ in 0..2 {
                let store = store_in(dir.path());
                let mut module = make(builder(flags), store.clone());
                let key = store.key("test").str("text", text).finish();
                let build =
                    |module: &mut CachingModule| define_with(module, text, false, |_| {}).map(drop);
                match as_image {
                    true => drop(module.with_image(&key, build).unwrap()),
                    false => build(&mut module).unwrap(),
                }
                module.finalize_definitions().unwrap();
                check(&module);
            }
        }
    }
}

#[test]
fn shuffling_bytes() {
    let text = "function %shuffle(i64, i64, i64) system_v { block0(v0: i64, v1: i64, v2: i64):
        v3 = load.i8x16 v0 v4 = load.i8x16 v1 v5 = swizzle v3, v4 store v5, v2 return }";
    let bytes: [u8; 16] = std::array::from_fn(|n| 100 + n as u8);
    let mask = [0, 15, 1, 14, 0x80, 0x8F, 0xFF, 16, 31, 0x7F, 2, 2, 2, 13, 5, 0x70];
    let expected = mask.map(|at: u8| bytes.get(usize::from(at)).copied().unwrap_or(0));
    each(&[], text, false, |module| {
        let mut got = [0; 16];
        // SAFETY: it has this signature, and is handed 16 bytes each.
        unsafe {
            let shuffle: extern "C" fn(*const u8, *const u8, *mut u8) =
                std::mem::transmute(address(module, "shuffle"));
            shuffle(bytes.as_ptr(), mask.as_ptr(), got.as_mut_ptr());
        }
        assert_eq!(got, expected);
    });
}

/// Cranelift calls this routine as if it were near. A `JITModule` gives up where it is not, as it nearly always is; in an
/// image such calls go by way of a stub.
#[test]
fn probing_the_stack() {
    let flags = [("enable_probestack", "true"), ("probestack_strategy", "outline")];
    for pages in [1, 3, 30] {
        let (size, last) = (pages * 4096 + 16, pages * 4096);
        let text = format!(
            "function %main(i64, i64, i64, i64, i64, i64) -> i64 system_v {{
                ss0 = explicit_slot {size}
            block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64):
                v10 = stack_addr.i64 ss0
                store v0, v10
                store v5, v10+{last}
                v11 = load.i64 v10
                v12 = load.i64 v10+{last}
                v13 = iadd v11, v12
                v14 = iadd v13, v1
                v15 = iadd v14, v2
                v16 = iadd v15, v3
                v17 = iadd v16, v4
                return v17
            }}"
        );
        each(&flags, &text, true, |module| {
            type Main = extern "C" fn(i64, i64, i64, i64, i64, i64) -> i64;
            // SAFETY: it has this signature.
            let main: Main = unsafe { std::mem::transmute(address(module, "main")) };
            assert_eq!(main(1, 20, 300, 4000, 50_000, 600_000), 654_321);
        });
    }
}

#[test]
fn rounding() {
    let text = ["ceil", "floor", "trunc", "nearest"].map(|name| {
        format!(
            "function %{name}(f64) -> f64 system_v {{ block0(v0: f64): v1 = {name} v0 return v1 }}"
        )
    });
    let references = [f64::ceil, f64::floor, f64::trunc, f64::round_ties_even];
    each(&[], &text.join("\n"), false, |module| {
        for (name, reference) in ["ceil", "floor", "trunc", "nearest"].iter().zip(references) {
            // SAFETY: it has this signature.
            let function: extern "C" fn(f64) -> f64 =
                unsafe { std::mem::transmute(address(module, name)) };
            for x in [0.5, 1.5, -1.5, 2.5, 1e300, -0.3, 4503599627370495.5] {
                assert_eq!(function(x).to_bits(), reference(x).to_bits(), "{name} {x}");
            }
        }
    });
}
