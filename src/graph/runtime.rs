//! What kernels call by name: functions of the C library, and matrix products.
//!
//! ```text
//!   emitter ── call "expf" ──► reference by its place in SYMBOLS ──load──► address in this process
//! ```
//!
//! A kernel's artifact refers to these by number, so the table is part of what artifacts mean; any change of it is one
//! of the sources, which are in every key.

use cranelift_codegen::ir::Type;
use cranelift_codegen::ir::types::{F32, F64, I64};
use gemm::Parallelism;

/// A function that kernels call.
pub(crate) struct Symbol {
    /// The name in CLIF.
    pub(crate) name: &'static str,
    /// Its parameters.
    pub(crate) params: &'static [Type],
    /// Its result.
    pub(crate) result: Option<Type>,
    address: fn() -> *const u8,
}

impl Symbol {
    /// Its address in this process.
    pub(crate) fn address(&self) -> *const u8 {
        (self.address)()
    }
}

macro_rules! libm {
    ($(($name32:ident, $name64:ident, $($arg:ident)*),)*) => {
        mod libm {
            // SAFETY: they take and give plain numbers, and C's library declares them so.
            unsafe extern "C" {
                $(pub(super) safe fn $name32($($arg: f32),*) -> f32;
                pub(super) safe fn $name64($($arg: f64),*) -> f64;)*
            }
        }

        /// Every function that kernels call. A reference to one is its place here.
        pub(crate) static SYMBOLS: &[Symbol] = &[
            $(Symbol {
                name: stringify!($name32),
                params: libm!(@params F32 $($arg)*),
                result: Some(F32),
                address: || libm::$name32 as *const u8,
            },
            Symbol {
                name: stringify!($name64),
                params: libm!(@params F64 $($arg)*),
                result: Some(F64),
                address: || libm::$name64 as *const u8,
            },)*
            Symbol {
                name: "cachelift_gemm_f32",
                params: &[I64],
                result: None,
                address: || gemm_f32 as *const u8,
            },
            Symbol {
                name: "cachelift_gemm_f64",
                params: &[I64],
                result: None,
                address: || gemm_f64 as *const u8,
            },
        ];
    };
    (@params $ty:ident x) => { &[$ty] };
    (@params $ty:ident x y) => { &[$ty, $ty] };
}

libm! {
    (expf, exp, x),
    (expm1f, expm1, x),
    (logf, log, x),
    (log1pf, log1p, x),
    (sinf, sin, x),
    (cosf, cos, x),
    (tanf, tan, x),
    (asinf, asin, x),
    (acosf, acos, x),
    (atanf, atan, x),
    (sinhf, sinh, x),
    (coshf, cosh, x),
    (tanhf, tanh, x),
    (asinhf, asinh, x),
    (acoshf, acosh, x),
    (atanhf, atanh, x),
    (erff, erf, x),
    (powf, pow, x y),
    (fmodf, fmod, x y),
}

/// A product of matrices: `c = beta a b`, or `c = alpha c + beta a b` where `accumulate` is not 0. Strides are in
/// elements.
#[repr(C)]
pub(crate) struct Product {
    m: u64,
    n: u64,
    k: u64,
    c: u64,
    c_rows: i64,
    c_columns: i64,
    a: u64,
    a_rows: i64,
    a_columns: i64,
    b: u64,
    b_rows: i64,
    b_columns: i64,
    accumulate: u64,
    /// The bits of an `f64`.
    alpha: u64,
    /// The bits of an `f64`.
    beta: u64,
}

/// Products of fewer multiplications are computed by the calling thread: with two, one of 2 million takes as long, one of
/// 16 million two thirds of the time.
const ALONE: u64 = 1 << 23;

/// How many words a [`Product`] has.
pub(crate) const PRODUCT_WORDS: usize = size_of::<Product>() / 8;

/// # Safety
///
/// `product` must describe matrices of `f32` whose elements lie in live memory, that of `c` nobody else's.
unsafe extern "C" fn gemm_f32(product: *const Product) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<f32>(&*product, |x| x as f32) }
}

/// # Safety
///
/// As [`gemm_f32`], of `f64`.
unsafe extern "C" fn gemm_f64(product: *const Product) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<f64>(&*product, |x| x) }
}

/// # Safety
///
/// As [`gemm_f32`], of `T`.
unsafe fn multiply<T: Copy + 'static>(product: &Product, number: fn(f64) -> T) {
    let Product { m, n, k, c, c_rows, c_columns, a, a_rows, a_columns, .. } = *product;
    let Product { b, b_rows, b_columns, accumulate, alpha, beta, .. } = *product;
    if m == 0 || n == 0 {
        return;
    }
    let pointer = |address: u64| std::ptr::with_exposed_provenance::<T>(address as usize);
    let c = pointer(c).cast_mut();
    let read = accumulate != 0;
    let (alpha, beta) = (number(f64::from_bits(alpha)), number(f64::from_bits(beta)));
    // Small products are done before other threads have begun, and programs that have no others need no threads.
    let parallelism = if m.saturating_mul(n).saturating_mul(k) < ALONE {
        Parallelism::None
    } else {
        Parallelism::Rayon(0)
    };
    // SAFETY: the matrices lie in live memory, and `c` is the caller's.
    unsafe {
        gemm::gemm(
            m as usize,
            n as usize,
            k as usize,
            c,
            c_columns as isize,
            c_rows as isize,
            read,
            pointer(a),
            a_columns as isize,
            a_rows as isize,
            pointer(b),
            b_columns as isize,
            b_rows as isize,
            alpha,
            beta,
            false,
            false,
            false,
            parallelism,
        );
    }
}
