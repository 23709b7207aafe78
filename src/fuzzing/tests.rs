//! The targets without a fuzzer: over the seeds in `fuzz/seeds`, and over a fixed stream of inputs.

use std::path::PathBuf;

use crate::race::{Fault, with_planted};

/// A target: its name, its body, and the inputs that a fuzzer begins with.
type Target = (&'static str, fn(&[u8]), &'static [(&'static str, &'static [u8])]);

const TARGETS: &[Target] = &[
    (
        "record",
        super::record,
        &[
            ("cut", b"\x11\x07\x05labelpayload\x14\x00\x01\x00"),
            ("empty", b"\x01\x07\x00"),
            ("flipped", b"\x11\x07\x05labelpayload of some length\x21\x00\x00\x01"),
            ("raw", b"\x00\x07\x00CLR\x01\x01\x00\x01\x00"),
        ],
    ),
    (
        "segment",
        super::segment,
        &[
            ("whole", b"\x01\x07"),
            ("raw", b"\x00CLSG\x01\x00"),
            ("cut", b"\x01\x0f\x02\x40\x03"),
            ("flipped", b"\x03\x0d\x08\x4a\x00\x00\x80\x01"),
            ("repeated", b"\x01\x07\x7c\x40\x00\x80\x00"),
            ("swapped", b"\x03\x0b\x05\x40\x00\x02\x00\x05\x80\x00\x03\x00"),
        ],
    ),
    (
        "index",
        super::index,
        &[
            ("whole", b"\x01\x00\x00\x01\x01\x02\x03\x04\x02\x01\x05\x03\x05\x02\x00\x00\x00"),
            ("raw", b"\x00CLIX\x00\x00\x00\x01\x01\x00\x00\x00\x07"),
            ("flipped-slot", b"\x05\x01\x00\x10\x10\x04\x02\x01\x05\x03"),
            ("filled-header", b"\x07\x01\x3f\x48\x00\xff\x01\x02\x03\x04\x05"),
            ("cut", b"\x03\x01\x02\x00\x12"),
            ("spliced", b"\x07\x02\x2e\x00\x10\x20\x10\x36\x40\x10\x80\x10\x00\x03\x01\x01\x01"),
        ],
    ),
    (
        "shard",
        super::shard,
        &[
            ("whole", b"\x00\x00\x01\x21\x44\x64\x87\xa8\xef\x0c\x2d"),
            ("flipped-payload", b"\x00\x01\x70\x00\x00\x00\xc8\x00\x60\x0c\x64"),
            ("elsewhere", b"\x40\x00\x04\x24\xef\x01\x21"),
            ("no-current", b"\x00\x01\x38\x00\x00\xef\x01\x44\x0b"),
            ("no-index", b"\x00\x01\x48\x00\x00\x01\x0c\x44\xef"),
            ("no-meta", b"\x00\x01\x28\x00\x00\x01\x04\x0d\xef"),
            ("cut-segment", b"\x10\x01\x50\x00\x00\x02\x80\x01\x01\x21\x0c\x44"),
            ("flipped-slot", b"\x0c\x01\x40\x00\x00\xf9\x10\x10\x01\x02\x03\x04\x05\x06\x07\x08\x0c\x44"),
            ("stray-names", b"\x00\x03\x4a\x00\x07\x5a\x00\x0c\x6a\x00\x0b\x04\x24\x44\x0b\xef\x0c"),
            ("obstacles", b"\x00\x02\x3e\x00\x00\x4f\x00\x0e\x01\x04\x0b\x0c"),
            ("holes", b"\x00\x02\x4c\x00\x00\xff\x7c\x00\x00\xff\x04\x44\x0c\x0b\xef"),
            ("forged", b"\x3f\x02\x51\x00\x00\x21\x50\x00\x01\x02\x03\x04\x40\x00\x00\x08\x48\x00\x0c\x01\x24"),
        ],
    ),
    #[cfg(feature = "jit")]
    (
        "artifact",
        super::artifact,
        &[
            ("whole", b"\x01\x05"),
            ("raw", b"\x00CLA\x01\x01\x00"),
            ("flipped", b"\x01\x1f\x08\x55\x00\x18\x60\x00"),
            ("relocated", b"\x03\x3f\x09\x50\x00\xff\xff\xff\xff"),
        ],
    ),
    #[cfg(feature = "jit")]
    (
        "image",
        super::image,
        &[
            ("whole", b"\x07\x00\x90\x91\x92\x93\x00\x01\x03\x02"),
            ("raw", b"\x00\x00CLI\x01\x01\x00\x0c\x00"),
            ("flipped", b"\x05\x01\x90\x91\x00\x01\x03\x02abc\x01\x00\x02\x01def\x08\x34\x00"),
            ("grouped", b"\x50\x01\x90\x00\x01\x03\x02abc\x01\t\t\t\t\t\t\t\t\x00"),
            ("spliced", b"\x03\x02\x90\x91\x92\x93\x01\x02\x02\x01abc\x0e\x40\x00\x80\x00"),
        ],
    ),
    #[cfg(feature = "graph")]
    (
        "model",
        super::model,
        &[
            ("recurrence", include_bytes!("../../examples/graphs/recurrence.onnx")),
            ("regression", include_bytes!("../../examples/graphs/logistic_regression.onnx")),
            ("none", b"\x08\x0a"),
        ],
    ),
    #[cfg(feature = "graph")]
    (
        "graph",
        super::graph,
        &[
            ("chain", b"\x02\x03\x04\x01\x00\x00\x00\x00\x19\x00\x01\x00\x1d\x00\x02\x00"),
            ("shapes", b"\x02\x02\x03\x35\x00\x00\x00\x45\x00\x00\x01\x01"),
            ("scalar", b"\x00\x01\x00\x00\x00\x00"),
        ],
    ),
];

fn folder(target: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds")).join(target)
}

/// The seeds on disk are those above. To write them anew: `WRITE_SEEDS=1 cargo test --lib fuzzing`.
#[test]
fn seeds_are_what_this_file_says() {
    for (target, body, seeds) in TARGETS {
        let folder = folder(target);
        if std::env::var_os("WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            for (name, bytes) in *seeds {
                std::fs::write(folder.join(name), bytes).unwrap();
            }
        }
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut expected: Vec<_> = seeds.iter().map(|(name, _)| *name).collect();
        expected.sort();
        assert_eq!(names, expected, "seeds of {target}");
        for (name, bytes) in *seeds {
            assert_eq!(std::fs::read(folder.join(name)).unwrap(), *bytes, "{target}/{name}");
            body(bytes);
        }
    }
}

/// The bodies hold on a fixed stream of inputs, and on seeds that such a stream is added to.
#[test]
fn bodies_hold_without_a_fuzzer() {
    let mut stream = blake3::Hasher::new().update(b"fuzzing").finalize_xof();
    let mut input = [0; 300];
    for (target, body, seeds) in TARGETS {
        let rounds = if ["shard", "graph"].contains(target) { 60 } else { 400 };
        for round in 0..rounds {
            let length = round % input.len();
            stream.fill(&mut input[..length]);
            body(&input[..length]);
            let (_, seed) = seeds[round % seeds.len()];
            body(&[seed, &input[..length / 8]].concat());
        }
    }
}

/// What the targets are there to find, they find without a fuzzer already.
#[test]
fn planted_faults_are_found() {
    for (fault, targets) in [
        (Fault("the checksum of a record is not compared"), &["record", "segment", "shard"][..]),
        (Fault("a record is published of which half was written"), &["shard"]),
    ] {
        for (target, body, seeds) in TARGETS.iter().filter(|(name, ..)| targets.contains(name)) {
            let mut stream = blake3::Hasher::new().update(b"planted").finalize_xof();
            let mut tail = [0; 40];
            let is_found = (0..300).any(|round| {
                stream.fill(&mut tail);
                let input = [seeds[round % seeds.len()].1, &tail[..round % 40]].concat();
                with_planted(fault, || std::panic::catch_unwind(|| body(&input))).is_err()
            });
            assert!(is_found, "{target} does not see that {}", fault.0);
        }
    }
}
