use super::*;

/// Numbers that leave something to round.
fn numbers<T: Number>(count: usize, seed: usize) -> Vec<T> {
    let number = |at: usize| ((at * 7919 + seed * 104_729) % 1009) as f64 / 337.0 - 1.5;
    (0..count).map(|at| T::of(number(at))).collect()
}

/// Strides of a matrix of this many rows and columns: row by row, or column by column, with a gap or without.
fn strides(rows: usize, columns: usize, by_rows: bool, gap: usize) -> (i64, i64, usize) {
    match by_rows {
        true => ((columns + gap) as i64, 1, rows * (columns + gap)),
        false => (1, (rows + gap) as i64, (rows + gap) * columns),
    }
}

fn same_bits<T: Number + std::fmt::Debug + PartialEq>(shape: [usize; 3], layout: usize) -> bool {
    let [m, n, k] = shape;
    let bit = |at: usize| layout >> at & 1 == 1;
    let gap = 3 * usize::from(bit(3));
    let (a_rows, a_columns, a_length) = strides(m, k, bit(0), gap);
    let (b_rows, b_columns, b_length) = strides(k, n, bit(1), gap);
    let (c_rows, c_columns, c_length) = strides(m, n, bit(2), gap);
    let (a, b) = (numbers::<T>(a_length, 1), numbers::<T>(b_length, 2));
    let product = |c: &mut [T]| Product {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        c: c.as_mut_ptr().expose_provenance() as u64,
        c_rows,
        c_columns,
        a: a.as_ptr().expose_provenance() as u64,
        a_rows,
        a_columns,
        b: b.as_ptr().expose_provenance() as u64,
        b_rows,
        b_columns,
        accumulate: (layout >> 4 > 0).into(),
        alpha: [0.0_f64, 1.0, 0.7, 0.0][layout >> 4].to_bits(),
        beta: [1.0_f64, 1.0, 1.3, 0.3][layout >> 4].to_bits(),
    };
    let mut here = numbers::<T>(c_length, 3);
    let mut there = here.clone();
    let first = product(&mut here);
    if !first.is_plain() || !few::is_possible() {
        return false;
    }
    // SAFETY: the matrices are those above, and as long as their strides lead; the processor was asked.
    unsafe { few::multiply::<T>(&first) };
    // SAFETY: as above.
    unsafe { by_gemm::<T>(&product(&mut there)) };
    assert_eq!(here, there, "{shape:?} {layout}");
    true
}

/// A result must not depend on what a process computed before. Kills: products rounded before they are added; sums from the
/// last to the first; small products of rows with columns, which `gemm` sums in parts, taken too; what is added to left out.
#[test]
fn the_first_products_have_the_bits_of_all_others() {
    let sizes = [1, 2, 3, 5, 16, 17, 33, 70];
    let lengths = [1, 2, 3, 4, 31, 130, 512, 513];
    let mut compared = 0;
    for m in sizes {
        for n in sizes {
            for k in lengths {
                for layout in 0..64 {
                    let shape = [m, n, k];
                    compared += usize::from(same_bits::<f32>(shape, layout));
                    compared += usize::from(same_bits::<f64>(shape, layout));
                }
            }
        }
    }
    assert!(compared > 10_000 || !few::is_possible(), "{compared} products");
}
