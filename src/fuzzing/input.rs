//! The fuzzer's bytes, read as decisions.

/// What is left of the input. When it is used up, every decision is 0.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Input(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes, at most so many.
    pub(super) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    #[cfg(feature = "jit")]
    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number below `n`, which is not 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::from(self.u16()) % n
    }
}

/// Changes `bytes` once as the input says: flips, overwrites, cuts, lengthens, repeats, swaps, or splices a part of
/// `other` in. They stay below `longest`.
pub(super) fn bend(bytes: &mut Vec<u8>, other: &[u8], longest: usize, input: &mut Input<'_>) {
    const BLOCK: usize = 64;
    let edit = input.byte();
    let at = input.below(bytes.len().max(1));
    if bytes.is_empty() {
        bytes.extend_from_slice(input.bytes(usize::from(edit)));
        return;
    }
    match edit % 8 {
        0 => bytes[at] ^= 1 << (edit >> 3 & 7),
        1 => {
            let new = input.bytes(usize::from(edit >> 3));
            let length = new.len().min(bytes.len() - at);
            bytes[at..at + length].copy_from_slice(&new[..length]);
        }
        2 => bytes.truncate(at),
        3 => bytes.resize((bytes.len() + BLOCK * at).min(longest), 0),
        4 => {
            let repeated = bytes[at..]
                .iter()
                .copied()
                .take(BLOCK * usize::from(edit >> 3))
                .collect::<Vec<_>>();
            let to = input.below(bytes.len());
            bytes.splice(to..to, repeated);
            bytes.truncate(longest);
        }
        5 => {
            let blocks = bytes.len() / BLOCK;
            let (a, b) = (at / BLOCK, input.below(blocks.max(1)));
            for n in (0..BLOCK).filter(|_| a < blocks && b < blocks) {
                bytes.swap(a * BLOCK + n, b * BLOCK + n);
            }
        }
        6 => {
            let from = input.below(other.len().max(1));
            let length = (BLOCK * usize::from(edit >> 3)).min(other.len() - from.min(other.len()));
            let length = length.min(bytes.len() - at);
            bytes[at..at + length].copy_from_slice(&other[from..from + length]);
        }
        _ => {
            let end = (at + BLOCK * usize::from(edit >> 3)).min(bytes.len());
            bytes[at..end].fill(input.byte());
        }
    }
}
