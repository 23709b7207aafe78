//! The checksum of records, XXH3-128, alone and while what it is of is copied.
//!
//! ```text
//!   up to 240 bytes   twox-hash
//!   longer            lines of 64 bytes, 16 to a block ──► eight sums ──► 128 bits
//!                     read, stored and summed at once: what was copied is not read again
//! ```
//!
//! `twox-hash` sums longer ones just as fast, but asks the processor first what it can. Under a hypervisor each such question is an
//! exit, and all of them together take longer (60 µs, nested) than to open a store and get a record. Here nothing is asked
//! before so much was summed that it pays.

use std::sync::atomic::{AtomicUsize, Ordering};

use twox_hash::XxHash3_128;

/// The length of a checksum in a record.
pub(super) const CHECKSUM: usize = 16;
/// What is summed at a time.
pub(super) const LINE: usize = 64;
/// Up to this many bytes another algorithm is used.
const SHORT: usize = 240;
/// After so many lines the sums are scrambled.
const BLOCK: usize = 16;

/// The algorithm's own secret.
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];
const PRIME32: [u64; 3] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d];
const PRIME64: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// The part of the secret from this byte on.
const fn secret(at: usize) -> &'static [u8; LINE] {
    SECRET.split_at(at).1.first_chunk().expect("it is inside")
}

const SCRAMBLE: &[u8; LINE] = secret(128);
const LAST: &[u8; LINE] = secret(121);
const LOW: &[u8; LINE] = secret(11);
const HIGH: &[u8; LINE] = secret(117);

/// The XXH3-128 of `bytes`.
pub(super) fn of(bytes: &[u8]) -> u128 {
    if bytes.len() <= SHORT {
        return XxHash3_128::oneshot(bytes);
    }
    let last = bytes.last_chunk().expect("it is longer");
    // The last line is summed by itself, whether it is whole or not.
    let (lines, _) = bytes[..bytes.len() - 1].as_chunks();
    let mut sums = Sums::new();
    sums.add(lines);
    sums.finish(last, bytes.len())
}

/// The sum of what was added.
pub(super) struct Sums {
    sums: [u64; 8],
    /// How many lines of the present block were added.
    lines: usize,
}

impl Sums {
    pub(super) fn new() -> Self {
        let ([a, b, c], [d, e, f, g, h]) = (PRIME32, PRIME64);
        Sums { sums: [c, d, e, f, g, b, h, a], lines: 0 }
    }

    /// Adds whole lines.
    fn add(&mut self, lines: &[[u8; LINE]]) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_wide(lines.len() * LINE) {
            // SAFETY: the processor has AVX2.
            return unsafe { wide::add(self, lines) };
        }
        for line in lines {
            self.add_line(line);
        }
    }

    /// The checksum of `length` bytes, the last of which are `last`; the whole lines that begin before the last byte were added.
    pub(super) fn finish(mut self, last: &[u8; LINE], length: usize) -> u128 {
        accumulate(&mut self.sums, last, LAST);
        let length = length as u64;
        let low = merge(&self.sums, length.wrapping_mul(PRIME64[0]), LOW);
        let high = merge(&self.sums, !length.wrapping_mul(PRIME64[1]), HIGH);
        u128::from(high) << 64 | u128::from(low)
    }

    #[inline(always)]
    fn add_line(&mut self, line: &[u8; LINE]) {
        accumulate(&mut self.sums, line, secret(8 * self.lines));
        self.lines += 1;
        if self.lines == BLOCK {
            self.lines = 0;
            for (sum, secret) in self.sums.iter_mut().zip(words(SCRAMBLE)) {
                *sum = (*sum ^ *sum >> 47 ^ secret).wrapping_mul(PRIME32[0]);
            }
        }
    }
}

fn words(line: &[u8; LINE]) -> [u64; 8] {
    let (words, _) = line.as_chunks();
    std::array::from_fn(|n| u64::from_le_bytes(words[n]))
}

#[inline(always)]
fn accumulate(sums: &mut [u64; 8], line: &[u8; LINE], secret: &[u8; LINE]) {
    let (line, secret) = (words(line), words(secret));
    for n in 0..8 {
        let mixed = line[n] ^ secret[n];
        let product = (mixed & u64::from(u32::MAX)).wrapping_mul(mixed >> 32);
        sums[n] = sums[n].wrapping_add(product).wrapping_add(line[n ^ 1]);
    }
}

fn merge(sums: &[u64; 8], start: u64, secret: &[u8; LINE]) -> u64 {
    let secret = words(secret);
    let pairs = (0..8).step_by(2).map(|n| {
        let product = u128::from(sums[n] ^ secret[n]) * u128::from(sums[n + 1] ^ secret[n + 1]);
        product as u64 ^ (product >> 64) as u64
    });
    let mut sum = pairs.fold(start, u64::wrapping_add);
    sum ^= sum >> 37;
    sum = sum.wrapping_mul(0x1656_6791_9e37_79f9);
    sum ^ sum >> 32
}

/// Whether the processor has AVX2; asked when it pays. `bytes` are about to be summed.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) fn is_wide(bytes: usize) -> bool {
    const YES: usize = usize::MAX;
    const NO: usize = usize::MAX - 1;
    /// To sum so many bytes without AVX2 takes some µs longer.
    const PATIENCE: usize = 256 << 10;
    /// What is known, or how many bytes were summed without asking.
    static WIDE: AtomicUsize = AtomicUsize::new(0);

    #[cold]
    fn ask(bytes: usize) -> bool {
        if bytes < PATIENCE {
            WIDE.store(bytes, Ordering::Relaxed);
            return false;
        }
        let wide = std::arch::is_x86_feature_detected!("avx2");
        WIDE.store(if wide { YES } else { NO }, Ordering::Relaxed);
        wide
    }

    match WIDE.load(Ordering::Relaxed) {
        YES => true,
        NO => false,
        summed => ask(summed.saturating_add(bytes).min(NO - 1)),
    }
}

/// With AVX2: half a line in a register.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) mod wide {
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::mem::MaybeUninit;

    use super::{BLOCK, LINE, PRIME32, SCRAMBLE, SECRET, Sums};
    use crate::sync::MappedU64;

    /// # Safety
    ///
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn add(sums: &mut Sums, lines: &[[u8; LINE]]) {
        let mut wide = Wide::new(sums);
        for line in lines {
            let line: *const __m256i = line.as_ptr().cast();
            // SAFETY: a line is two halves.
            wide.add(unsafe { [_mm256_loadu_si256(line), _mm256_loadu_si256(line.add(1))] });
        }
        wide.store(sums);
    }

    /// Copies lines, and adds what it copied. What is read may change meanwhile; what is added is what was copied.
    ///
    /// # Safety
    ///
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(in super::super) unsafe fn copy(
        sums: &mut Sums,
        from: &[[MappedU64; LINE / 8]],
        to: &mut [[MaybeUninit<u8>; LINE]],
    ) {
        let mut wide = Wide::new(sums);
        for (from, to) in from.iter().zip(to) {
            let [a, b]: [__m256i; 2];
            // SAFETY: reads and writes a line each, which are there. What is read may change meanwhile, in this process too: to
            // the compiler this is a relaxed load of whatever width.
            unsafe {
                asm!(
                    "vmovups {a}, [{from}]",
                    "vmovups {b}, [{from} + 32]",
                    "vmovups [{to}], {a}",
                    "vmovups [{to} + 32], {b}",
                    from = in(reg) from.as_ptr(),
                    to = in(reg) to.as_mut_ptr(),
                    a = out(ymm_reg) a,
                    b = out(ymm_reg) b,
                    options(nostack, preserves_flags),
                );
            }
            wide.add([a, b]);
        }
        wide.store(sums);
    }

    /// [`Sums`] in registers.
    struct Wide {
        sums: [__m256i; 2],
        lines: usize,
    }

    impl Wide {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn new(sums: &Sums) -> Self {
            let from: *const __m256i = sums.sums.as_ptr().cast();
            // SAFETY: eight words are two halves.
            let halves = unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] };
            Wide { sums: halves, lines: sums.lines }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn store(self, sums: &mut Sums) {
            let to: *mut __m256i = sums.sums.as_mut_ptr().cast();
            // SAFETY: as in `new`.
            unsafe {
                _mm256_storeu_si256(to, self.sums[0]);
                _mm256_storeu_si256(to.add(1), self.sums[1]);
            }
            sums.lines = self.lines;
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn add(&mut self, line: [__m256i; 2]) {
            debug_assert!(self.lines < BLOCK);
            for (half, line) in line.into_iter().enumerate() {
                // SAFETY: `lines` is below 16, so these 32 bytes end within 8 * 15 + 64 of 192.
                let secret = unsafe {
                    _mm256_loadu_si256(SECRET.as_ptr().add(8 * self.lines + 32 * half).cast())
                };
                let mixed = _mm256_xor_si256(line, secret);
                let product = _mm256_mul_epu32(mixed, _mm256_srli_epi64::<32>(mixed));
                let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(line);
                let sum = _mm256_add_epi64(product, swapped);
                self.sums[half] = _mm256_add_epi64(self.sums[half], sum);
            }
            self.lines += 1;
            if self.lines == BLOCK {
                self.lines = 0;
                self.scramble();
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn scramble(&mut self) {
            let prime = _mm256_set1_epi64x(PRIME32[0] as i64);
            for (half, sum) in self.sums.iter_mut().enumerate() {
                // SAFETY: half of a line.
                let secret = unsafe { _mm256_loadu_si256(SCRAMBLE.as_ptr().add(32 * half).cast()) };
                let mixed = _mm256_xor_si256(*sum, _mm256_srli_epi64::<47>(*sum));
                let mixed = _mm256_xor_si256(mixed, secret);
                let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(mixed), prime);
                let low = _mm256_mul_epu32(mixed, prime);
                *sum = _mm256_add_epi64(low, _mm256_slli_epi64::<32>(high));
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn bytes(length: usize) -> Vec<u8> {
        (0..length as u64).map(|n| (n.wrapping_mul(PRIME64[0]) >> 56) as u8).collect()
    }

    fn lengths() -> impl Iterator<Item = usize> {
        (0..=2200).chain([4096, 4097, 16_383, 16_384, 100_003])
    }

    /// Kills: a last line that is whole added twice; no scrambling after 16 lines, as the processor does it.
    #[test]
    fn it_is_xxh3() {
        for length in lengths() {
            let bytes = bytes(length);
            assert_eq!(of(&bytes), XxHash3_128::oneshot(&bytes), "{length}");
        }
    }

    /// Both ways, whatever the processor can. Kills: no scrambling after 16 lines, in either way.
    #[test]
    fn narrow_and_wide_are_one() {
        for length in lengths().filter(|length| *length > SHORT) {
            let bytes = bytes(length);
            let (lines, _) = bytes[..length - 1].as_chunks();
            let expected = XxHash3_128::oneshot(&bytes);
            let mut narrow = Sums::new();
            lines.iter().for_each(|line| narrow.add_line(line));
            assert_eq!(narrow.finish(bytes.last_chunk().unwrap(), length), expected, "{length}");
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if std::arch::is_x86_feature_detected!("avx2") {
                // In two parts, the second of which begins within a block.
                let (first, second) = lines.split_at(lines.len() / 3);
                let mut sums = Sums::new();
                // SAFETY: the processor has AVX2.
                unsafe { wide::add(&mut sums, first) };
                // SAFETY: as above.
                unsafe { wide::add(&mut sums, second) };
                assert_eq!(sums.finish(bytes.last_chunk().unwrap(), length), expected, "{length}");
            }
        }
    }
}
