//! What the workers cache: code that returns a number computed from its key, and bytes that belong to it alone.
//!
//! ```text
//!   0            16       24    28       32
//!   mov eax, v   nonce    key   length   bytes that follow from nonce and key …
//!   ret
//! ```
//!
//! Two makers of one key make different bytes of the same code, so that a record of two makers' halves is seen.

use memmap2::MmapMut;

const HEAD: usize = 32;

/// The number that the code of `key` returns.
pub(super) fn value(key: u32) -> u32 {
    mix(u64::from(key) ^ 0xc0de) as u32
}

/// The payload that the maker `nonce` makes for `key`.
pub(super) fn build(key: u32, nonce: u64, length: usize) -> Vec<u8> {
    let length = length.max(HEAD);
    let mut bytes = Vec::with_capacity(length + 8);
    bytes.push(0xb8);
    bytes.extend(value(key).to_le_bytes());
    bytes.push(0xc3);
    bytes.resize(16, 0xcc);
    bytes.extend(nonce.to_le_bytes());
    bytes.extend(key.to_le_bytes());
    bytes.extend((length as u32).to_le_bytes());
    let mut word = nonce ^ u64::from(key).rotate_left(32);
    while bytes.len() < length {
        word = mix(word);
        bytes.extend(word.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The maker of a payload of `key`; an error says what is wrong with it.
pub(super) fn check(bytes: &[u8], key: u32) -> Result<u64, Wrong> {
    let head = bytes.first_chunk::<HEAD>().ok_or(Wrong::Bytes)?;
    let nonce = u64::from_le_bytes(head[16..24].try_into().expect("eight bytes"));
    let its_key = u32::from_le_bytes(head[24..28].try_into().expect("four bytes"));
    if its_key != key {
        return Err(Wrong::Key);
    }
    if build(key, nonce, bytes.len()) == bytes { Ok(nonce) } else { Err(Wrong::Bytes) }
}

/// What can be wrong with what a hit returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Another key's.
    Key = 1,
    /// Of no maker.
    Bytes = 2,
    /// The code returned another number.
    Value = 3,
    /// It changed while it was held.
    Changed = 4,
}

/// Maps and runs the code of a payload that [`check`] accepted: what it returns. `None` if there is no memory for it.
#[cfg(target_arch = "x86_64")]
pub(super) fn run(bytes: &[u8]) -> Option<u32> {
    let mut map = MmapMut::map_anon(4096).ok()?;
    map[..16].copy_from_slice(&bytes[..16]);
    let map = map.make_exec().ok()?;
    // SAFETY: `check` saw that these bytes are what `build` made: `mov eax, imm32; ret`, a function of the C calling
    // convention that touches no memory but its return address. The mapping is executable and outlives the call.
    let code: extern "C" fn() -> u32 = unsafe { std::mem::transmute(map.as_ptr()) };
    Some(code())
}

/// Elsewhere, the number is read from the code.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn run(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes[1..5].try_into().expect("four bytes")))
}

/// How long the payloads of `key` are: short ones are many, and some get segments of their own.
pub(super) fn length(key: u32) -> usize {
    let n = (mix(u64::from(key)) % 64) as usize;
    200 + n * n * 8
}

/// A number that looks random, from another.
pub(super) fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutant: the bytes behind the head are not compared.
    #[test]
    fn every_changed_byte_is_seen() {
        let bytes = build(7, 42, 300);
        assert_eq!(check(&bytes, 7), Ok(42));
        assert_eq!(run(&bytes), Some(value(7)));
        assert_eq!(check(&bytes, 8), Err(Wrong::Key));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(check(&bad, 7).is_err(), "byte {at}");
        }
        let mut torn = build(7, 43, 300);
        torn[..150].copy_from_slice(&bytes[..150]);
        assert_eq!(check(&torn, 7), Err(Wrong::Bytes));
        assert!(check(&bytes[..299], 7).is_err());
    }
}
