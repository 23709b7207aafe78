//! Products of small matrices, without what large ones gain by.
//!
//! ```text
//!            b: L columns
//!            │ │ │ │ │ │ │ │      per step of k: one row of b, L numbers in registers,
//!   a: R ── ┌───────────────┐     times R numbers of a, added to R · L sums in registers
//!   rows ── │ sums, then c  │
//!           └───────────────┘
//! ```
//!
//! `gemm` copies both matrices to blocks that fit the caches, whose sizes it asks the system for when it is first called:
//! that alone takes longer than all else that a process does to its first result. Small matrices fit the caches as they are.
//! The columns must lie side by side; those that are left over are taken eight, four, and one at a time.
//!
//! Which of the two computes a product depends on its sizes and strides alone, so that a product has one result.

use super::Matrices;

/// Products of at most so many multiplications are small.
const MOST: usize = 1 << 18;

/// Computes a product if it is small, and the processor has the instructions; says whether it did.
///
/// # Safety
///
/// As of [`multiply`](super::multiply).
pub(super) unsafe fn multiply<T: Number>(product: &Matrices<T>) -> bool {
    let Matrices { m, n, k, .. } = *product;
    let is_small = m.saturating_mul(n).saturating_mul(k) <= MOST;
    // For a single column, or hardly any depth, `gemm` has ways of its own that ask for nothing.
    if !is_small || n <= 1 || k <= 2 || product.c_columns != 1 || product.b_columns != 1 {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe { T::small(product) }
}

/// An element that there are vectors of.
pub(super) trait Number: Copy + Default + 'static {
    /// `self · b + c`, rounded once.
    fn multiply_add(self, b: Self, c: Self) -> Self;

    /// `self · b`.
    fn times(self, b: Self) -> Self;

    /// Computes a small product, if the processor has the instructions.
    ///
    /// # Safety
    ///
    /// As of [`multiply`], which has looked at the sizes.
    unsafe fn small(product: &Matrices<Self>) -> bool;
}

macro_rules! number {
    ($ty:ident, $wide:literal, $wide2:literal, $narrow:literal, $avx512:ident, $avx2:ident) => {
        impl Number for $ty {
            #[inline(always)]
            fn multiply_add(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }

            #[inline(always)]
            fn times(self, b: Self) -> Self {
                self * b
            }

            unsafe fn small(product: &Matrices<Self>) -> bool {
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx512f") {
                        // SAFETY: the instructions are there; else the caller's promise.
                        unsafe { $avx512(product) };
                        return true;
                    }
                    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                        // SAFETY: as above.
                        unsafe { $avx2(product) };
                        return true;
                    }
                }
                let _ = product;
                false
            }
        }

        /// # Safety
        ///
        /// As of [`columns`].
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        unsafe fn $avx512(product: &Matrices<$ty>) {
            // SAFETY: the caller's promise.
            unsafe { columns::<$ty, $wide, $wide2>(product) }
        }

        /// # Safety
        ///
        /// As of [`columns`].
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $avx2(product: &Matrices<$ty>) {
            // SAFETY: the caller's promise.
            unsafe { columns::<$ty, $narrow, $wide>(product) }
        }
    };
}

number!(f32, 16, 32, 8, f32_avx512, f32_avx2);
number!(f64, 8, 16, 4, f64_avx512, f64_avx2);

/// The whole product: `L2` columns at a time, then `L`, and so on.
///
/// # Safety
///
/// As of [`multiply`], which has looked at the sizes.
#[inline(always)]
unsafe fn columns<T: Number, const L: usize, const L2: usize>(product: &Matrices<T>) {
    let mut first = 0;
    // SAFETY: each takes columns below `n`; else the caller's promise.
    unsafe {
        rows::<T, L2>(product, &mut first);
        rows::<T, L>(product, &mut first);
        rows::<T, 8>(product, &mut first);
        rows::<T, 4>(product, &mut first);
        rows::<T, 1>(product, &mut first);
    }
}

/// Columns from `first` on, `L` at a time, as long as there are so many.
///
/// # Safety
///
/// As of [`columns`].
#[inline(always)]
unsafe fn rows<T: Number, const L: usize>(product: &Matrices<T>, first: &mut usize) {
    while *first + L <= product.n {
        let mut row = 0;
        // SAFETY: rows below `m`, columns below `n`; else the caller's promise.
        unsafe {
            let b = product.b.add(*first);
            let at = |row: usize| {
                let c = product.c.offset(row as isize * product.c_rows).add(*first);
                (c, product.a.offset(row as isize * product.a_rows))
            };
            while row + 6 <= product.m {
                tile::<T, 6, L>(product, at(row), b);
                row += 6;
            }
            while row + 2 <= product.m {
                tile::<T, 2, L>(product, at(row), b);
                row += 2;
            }
            if row < product.m {
                tile::<T, 1, L>(product, at(row), b);
            }
        }
        *first += L;
    }
}

/// `R` rows and `L` columns of the product.
///
/// # Safety
///
/// As of [`rows`]; `c`, `a` and `b` lead to the first of the rows and columns.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "loops of known length over two arrays become vectors"
)]
unsafe fn tile<T: Number, const R: usize, const L: usize>(
    product: &Matrices<T>,
    (c, mut a): (*mut T, *const T),
    mut b: *const T,
) {
    let mut sums = [[T::default(); L]; R];
    for _ in 0..product.k {
        // SAFETY: a row of `b` has `L` numbers from there on.
        let numbers = unsafe { b.cast::<[T; L]>().read_unaligned() };
        for row in 0..R {
            // SAFETY: an element of `a`.
            let x = unsafe { *a.offset(row as isize * product.a_rows) };
            for column in 0..L {
                sums[row][column] = x.multiply_add(numbers[column], sums[row][column]);
            }
        }
        a = a.wrapping_offset(product.a_columns);
        b = b.wrapping_offset(product.b_rows);
    }
    for row in 0..R {
        // SAFETY: the row is one of `c`, which has `L` columns from there on.
        let to = unsafe { c.offset(row as isize * product.c_rows) };
        for column in 0..L {
            // SAFETY: as above; `c` is the caller's alone.
            unsafe {
                let to = to.add(column);
                let new = sums[row][column].times(product.beta);
                *to = if product.accumulate { product.alpha.multiply_add(*to, new) } else { new };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the definition says, in the widest type.
    fn plain(product: &Matrices<f64>, c: &[f64], a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut result = c.to_vec();
        for row in 0..product.m as isize {
            for column in 0..product.n as isize {
                let term = |step: isize| {
                    let a = a[(row * product.a_rows + step * product.a_columns) as usize];
                    a * b[(step * product.b_rows + column * product.b_columns) as usize]
                };
                let sum: f64 = (0..product.k as isize).map(term).sum();
                let to = &mut result[(row * product.c_rows + column) as usize];
                let before = if product.accumulate { product.alpha * *to } else { 0.0 };
                *to = before + product.beta * sum;
            }
        }
        result
    }

    /// Mutants: the columns that are left over taken from the first ones; a row too few; `c` read where it is not to be.
    #[test]
    fn small_products_are_those_of_the_definition() {
        let sizes = [(1, 2, 3), (7, 9, 5), (6, 16, 4), (13, 33, 17), (64, 32, 48), (5, 7, 256)];
        for (m, n, k) in sizes {
            for (transpose_a, transpose_b, accumulate) in [
                (false, false, false),
                (true, false, true),
                (false, true, true),
                (true, true, false),
            ] {
                let numbers = |count: usize, seed: usize| -> Vec<f64> {
                    (0..count).map(|at| ((at * 7 + seed) % 11) as f64 - 5.0).collect()
                };
                let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
                let mut c = if accumulate { numbers(m * n, 3) } else { vec![f64::NAN; m * n] };
                let strides = |rows: usize, columns: usize, transpose: bool| match transpose {
                    false => (columns as isize, 1),
                    true => (1, rows as isize),
                };
                let ((a_rows, a_columns), (b_rows, b_columns)) =
                    (strides(m, k, transpose_a), strides(k, n, transpose_b));
                let (c_rows, c_columns) = (n as isize, 1);
                let mut product = Matrices {
                    m,
                    n,
                    k,
                    c: c.as_mut_ptr(),
                    c_rows,
                    c_columns,
                    a: a.as_ptr(),
                    a_rows,
                    a_columns,
                    b: b.as_ptr(),
                    b_rows,
                    b_columns,
                    accumulate,
                    alpha: 2.0,
                    beta: 0.5,
                };
                let expected = plain(&product, &c, &a, &b);
                product.c = c.as_mut_ptr();
                // SAFETY: the matrices are those of the vectors.
                if unsafe { multiply(&product) } {
                    assert!(!transpose_b);
                    // Sums of small whole numbers are exact.
                    assert_eq!(c, expected, "{m} {n} {k} {transpose_a} {transpose_b}");
                } else {
                    let has_none =
                        !cfg!(target_arch = "x86_64") || !is_x86_feature_detected!("avx2");
                    assert!(transpose_b || has_none);
                }
            }
        }
    }
}
