//! A function far over the usual size, for the tests of the code layer and of modules.

/// The text of `%big`, 50,000 instructions of this calling convention (none: the default), with numbers that need
/// more than two bytes in a key; and what it returns for 3.
pub(crate) fn big(convention: &str) -> (String, i64) {
    let mut text = format!("function %big(i64) -> i64 {convention} {{ block0(v0: i64):\n");
    let mut expected = 3_i64;
    for i in 0..25_000_i64 {
        let (constant, last, next) = (2 * i + 1, if i == 0 { 0 } else { 2 * i }, 2 * i + 2);
        text += &format!("v{constant} = iconst.i64 {}\n", i * 7 + 1);
        let operation = if i % 3 == 0 { "imul" } else { "bxor" };
        text += &format!("v{next} = {operation} v{last}, v{constant}\n");
        expected = match i % 3 {
            0 => expected.wrapping_mul(i * 7 + 1),
            _ => expected ^ (i * 7 + 1),
        };
    }
    (text + "return v50000 }", expected)
}
