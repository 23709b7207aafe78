//! The records that all caches hold: the same keys, the same payloads.

use cachelift::key::Key;

/// Records of one length, as many as a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    pub size: usize,
    pub count: u64,
}

/// What is measured.
pub const RECORDS: [Records; 7] = [
    Records { size: 200, count: 1_000 },
    Records { size: 200, count: 100_000 },
    Records { size: 200, count: 1_000_000 },
    Records { size: 1 << 10, count: 1_000 },
    Records { size: 1 << 10, count: 100_000 },
    Records { size: 16 << 10, count: 1_000 },
    Records { size: 16 << 10, count: 10_000 },
];

impl Records {
    /// `get/1KiB/1000/2p`.
    pub fn name(&self, figure: &str, processes: usize) -> String {
        format!("{figure}/{}/{}/{processes}p", size(self.size), self.count)
    }
}

/// A length, as it is called in names.
pub fn size(bytes: usize) -> String {
    if bytes < 1 << 10 { format!("{bytes}B") } else { format!("{}KiB", bytes >> 10) }
}

/// The `n`-th key of a series. Keys are digests, as in use.
pub fn key(series: u64, n: u64) -> Key {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&series.to_le_bytes());
    name[8..].copy_from_slice(&n.to_le_bytes());
    Key::from_bytes(*blake3::hash(&name).as_bytes())
}

/// The series of the keys that are there.
pub const PRESENT: u64 = 0;
/// The series of keys that are not.
pub const ABSENT: u64 = 1;

/// The payload of a key: its own, and incompressible.
pub fn payload(key: &Key, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    blake3::Hasher::new_keyed(key.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Numbers below `n`, in no order.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }
}
