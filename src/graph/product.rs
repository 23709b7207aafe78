//! Products of matrices: `gemm`, and what serves the first small ones of a process.
//!
//! ```text
//!   product ──► small, and little was computed so far ──► sums in registers, here
//!           └─► else ────────────────────────────────────► gemm
//! ```
//!
//! On its first call `gemm` reads the sizes of all caches from the file system and makes itself a buffer, which takes as long
//! as thousands of small products. Most processes that start on a warm cache compute a few and end. So the first ones
//! are computed here, a little slower and bit for bit the same: each element is one sum, from the first product to
//! the last, by fused multiply-add. What `gemm` sums in another order is left to it; that reads nothing.

use gemm::Parallelism;

use crate::sync::{MappedU64, Ordering};

/// A product of matrices: `c = beta a b`, or `c = alpha c + beta a b` where `accumulate` is not 0. Strides are in
/// elements.
#[repr(C)]
pub(super) struct Product {
    pub(super) m: u64,
    pub(super) n: u64,
    pub(super) k: u64,
    pub(super) c: u64,
    pub(super) c_rows: i64,
    pub(super) c_columns: i64,
    pub(super) a: u64,
    pub(super) a_rows: i64,
    pub(super) a_columns: i64,
    pub(super) b: u64,
    pub(super) b_rows: i64,
    pub(super) b_columns: i64,
    pub(super) accumulate: u64,
    /// The bits of an `f64`.
    pub(super) alpha: u64,
    /// The bits of an `f64`.
    pub(super) beta: u64,
}

/// Products of fewer multiplications are computed by the calling thread: with two, one of 2 million takes as long, one of
/// 16 million two thirds of the time.
const ALONE: u64 = 1 << 23;
/// How many multiplications are done before `gemm` is called: about as long as its first call takes.
const BEFORE: u64 = 1 << 21;
/// `gemm` sums longer rows in pieces.
const LONGEST: u64 = 512;

/// How many multiplications this process has done here; at least [`BEFORE`] once `gemm` has been called.
static DONE: MappedU64 = MappedU64::new(0);

impl Product {
    fn multiplications(&self) -> u64 {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }

    /// Whether it is one that `gemm` looks at the caches for, and sums from first to last.
    fn is_plain(&self) -> bool {
        let Product { m, n, k, a_columns, b_rows, .. } = *self;
        let by_dots = a_columns == 1 && b_rows == 1 && m.saturating_mul(n) <= 256;
        m > 1 && n > 1 && (3..=LONGEST).contains(&k) && !by_dots
    }
}

/// # Safety
///
/// `product` must describe matrices of `f32` whose elements lie in live memory, that of `c` nobody else's.
pub(super) unsafe extern "C" fn gemm_f32(product: *const Product) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<f32>(&*product) }
}

/// # Safety
///
/// As [`gemm_f32`], of `f64`.
pub(super) unsafe extern "C" fn gemm_f64(product: *const Product) {
    // SAFETY: the caller's promise.
    unsafe { multiply::<f64>(&*product) }
}

/// # Safety
///
/// As [`gemm_f32`], of `T`.
unsafe fn multiply<T: Number>(product: &Product) {
    if product.m == 0 || product.n == 0 {
        return;
    }
    if product.is_plain() && DONE.load(Ordering::Relaxed) < BEFORE {
        let count = product.multiplications();
        let done = DONE.fetch_add(count.min(BEFORE), Ordering::Relaxed);
        if done.saturating_add(count) <= BEFORE && few::is_possible() {
            // SAFETY: the caller's promise; what it takes of the processor is there.
            return unsafe { few::multiply::<T>(product) };
        }
        DONE.fetch_max(BEFORE, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise.
    unsafe { by_gemm::<T>(product) }
}

/// # Safety
///
/// As [`gemm_f32`], of `T`.
unsafe fn by_gemm<T: Number>(product: &Product) {
    let Product { m, n, k, c, c_rows, c_columns, a, a_rows, a_columns, .. } = *product;
    let Product { b, b_rows, b_columns, accumulate, alpha, beta, .. } = *product;
    let pointer = |address: u64| std::ptr::with_exposed_provenance::<T>(address as usize);
    // Small products are done before other threads have begun, and programs that have no others need no threads.
    let parallelism = match product.multiplications() < ALONE {
        true => Parallelism::None,
        false => Parallelism::Rayon(0),
    };
    // SAFETY: the matrices lie in live memory, and `c` is the caller's.
    unsafe {
        gemm::gemm(
            m as usize,
            n as usize,
            k as usize,
            pointer(c).cast_mut(),
            c_columns as isize,
            c_rows as isize,
            accumulate != 0,
            pointer(a),
            a_columns as isize,
            a_rows as isize,
            pointer(b),
            b_columns as isize,
            b_rows as isize,
            T::of(f64::from_bits(alpha)),
            T::of(f64::from_bits(beta)),
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// The elements of products.
trait Number: Copy + 'static {
    const ZERO: Self;

    fn of(value: f64) -> Self;

    /// `self * factor + sum`, rounded once.
    fn mul_add(self, factor: Self, sum: Self) -> Self;

    fn mul(self, factor: Self) -> Self;

    fn add(self, other: Self) -> Self;

    fn is(self, value: f64) -> bool;
}

macro_rules! number {
    ($ty:ident) => {
        impl Number for $ty {
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn of(value: f64) -> Self {
                value as $ty
            }

            #[inline(always)]
            fn mul_add(self, factor: Self, sum: Self) -> Self {
                $ty::mul_add(self, factor, sum)
            }

            #[inline(always)]
            fn mul(self, factor: Self) -> Self {
                self * factor
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn is(self, value: f64) -> bool {
                self == value as $ty
            }
        }
    };
}

number!(f32);
number!(f64);

#[cfg(target_arch = "x86_64")]
mod few {
    use super::{LONGEST, Number, Product};

    /// How many columns are summed at once, in registers.
    const COLUMNS: usize = 16;
    /// How many rows.
    const ROWS: usize = 4;

    pub(super) fn is_possible() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }

    /// # Safety
    ///
    /// As of [`gemm_f32`](super::gemm_f32), and the processor has AVX2 and FMA. The product must be plain.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn multiply<T: Number>(product: &Product) {
        let (m, n, k) = (product.m as usize, product.n as usize, product.k as usize);
        let b = std::ptr::with_exposed_provenance::<T>(product.b as usize);
        let mut panel = [[T::ZERO; COLUMNS]; LONGEST as usize];
        let panel = &mut panel[..k];
        for column in (0..n).step_by(COLUMNS) {
            let columns = COLUMNS.min(n - column);
            for (at, row) in panel.iter_mut().enumerate() {
                for (to, place) in row[..columns].iter_mut().zip(column..) {
                    let offset = at as i64 * product.b_rows + place as i64 * product.b_columns;
                    // SAFETY: within the matrix, which the caller vouches for.
                    *to = unsafe { *b.offset(offset as isize) };
                }
            }
            let mut row = 0;
            while row + ROWS <= m {
                // SAFETY: rows and columns are within the matrices.
                unsafe { rows::<T, ROWS>(product, panel, row, column, columns) };
                row += ROWS;
            }
            for row in row..m {
                // SAFETY: as above.
                unsafe { rows::<T, 1>(product, panel, row, column, columns) };
            }
        }
    }

    /// Some rows of some columns of the result.
    ///
    /// # Safety
    ///
    /// As of [`multiply`]; the rows and columns must be within the result.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn rows<T: Number, const R: usize>(
        product: &Product,
        panel: &[[T; COLUMNS]],
        row: usize,
        column: usize,
        columns: usize,
    ) {
        let a = std::ptr::with_exposed_provenance::<T>(product.a as usize);
        let c = std::ptr::with_exposed_provenance_mut::<T>(product.c as usize);
        let mut sums = [[T::ZERO; COLUMNS]; R];
        for (at, factors) in panel.iter().enumerate() {
            for (number, sums) in sums.iter_mut().enumerate() {
                let place = (row + number) as i64 * product.a_rows + at as i64 * product.a_columns;
                // SAFETY: within the matrix, which the caller vouches for.
                let factor = unsafe { *a.offset(place as isize) };
                for (sum, &other) in sums.iter_mut().zip(factors) {
                    *sum = factor.mul_add(other, *sum);
                }
            }
        }
        let (alpha, beta) =
            (T::of(f64::from_bits(product.alpha)), T::of(f64::from_bits(product.beta)));
        let accumulates = product.accumulate != 0 && !alpha.is(0.0);
        for (number, sums) in sums.iter().enumerate() {
            for (&sum, place) in sums[..columns].iter().zip(column..) {
                let offset =
                    (row + number) as i64 * product.c_rows + place as i64 * product.c_columns;
                // SAFETY: within the matrix, which is the caller's.
                unsafe {
                    let to = c.offset(offset as isize);
                    *to = match accumulates {
                        false => beta.mul(sum),
                        true if alpha.is(1.0) => beta.mul_add(sum, *to),
                        true => alpha.mul(*to).add(beta.mul(sum)),
                    };
                }
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod few {
    use super::{Number, Product};

    pub(super) fn is_possible() -> bool {
        false
    }

    /// # Safety
    ///
    /// It is not called.
    pub(super) unsafe fn multiply<T: Number>(_: &Product) {
        unreachable!("it is not possible here")
    }
}

#[cfg(test)]
mod tests;
