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

use super::product::{Product, gemm_f32, gemm_f64};

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

/// How many words a [`Product`] has.
pub(crate) const PRODUCT_WORDS: usize = size_of::<Product>() / 8;
