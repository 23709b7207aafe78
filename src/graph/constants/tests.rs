use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::config::Config;
use crate::graph::{Builder, ElementType, Mode as GraphMode, Session};
use crate::store::PruneLimits;

const MIB: usize = 1 << 20;

fn open(dir: &Path, max_size: usize) -> Store {
    Store::open(Config { max_size: max_size as u64, ..Config::default().dir(dir) })
}

/// So many bytes that are not those of another seed. The last piece is no whole page.
fn tensor(bytes: usize, seed: usize) -> Tensor {
    let numbers: Vec<f32> = (0..bytes / 4).map(|at| (at + seed) as f32).collect();
    Tensor::from_slice(&[numbers.len()], &numbers)
}

fn share_one(tensor: &Tensor, store: &Store, writes: bool) -> io::Result<Tensor> {
    mapped(tensor, &Contents::default().of(tensor), store, writes)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut ahead = vec![dir.to_owned()];
    let mut files = Vec::new();
    while let Some(dir) = ahead.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { ahead.push(path) } else { files.push(path) }
        }
    }
    files
}

/// Kills: every piece under one key; pieces of a sixteenth of the limit, which no shard keeps.
#[test]
fn pieces_side_by_side_are_the_tensor_and_count_as_what_lies_in_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("cache"), 64 * MIB);
    let whole = tensor(5 * MIB + 12, 1);
    let shared = share_one(&whole, &store, true).unwrap();
    assert_eq!(shared.as_bytes(), whole.as_bytes());
    assert_eq!(store.stats().made, 21);
    let usage = store.usage();
    assert_eq!(usage.artifacts.entries, 21);
    assert!(usage.artifacts.bytes >= 5 * MIB as u64 && usage.occupied >= 5 * MIB as u64);
    for entry in store.entries() {
        let meta = store.inspect(&entry.key).unwrap().record.meta();
        assert!(meta.label.starts_with("initialiser, "), "{}", meta.label);
    }
    // Another process: nothing is made, and nothing is read into its memory.
    let again = open(&dir.path().join("cache"), 64 * MIB);
    let second = share_one(&whole, &again, true).unwrap();
    assert_eq!(second.as_bytes(), whole.as_bytes());
    assert_eq!((again.stats().made, again.stats().memory, again.stats().disk), (0, 0, 21));
}

/// Kills: pieces of 8 MiB whatever the limit is.
#[test]
fn the_limit_holds_for_initialisers() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("cache"), 16 * MIB);
    let kept: Vec<Tensor> =
        (0..8).map(|seed| share_one(&tensor(4 * MIB, seed), &store, true).unwrap()).collect();
    let on_disk: u64 = files(dir.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(store.usage().occupied <= 17 * MIB as u64, "{:?}", store.usage());
    assert!(on_disk <= 18 * MIB as u64, "{on_disk} bytes");
    // What was evicted stays as it is for those who have it.
    for (seed, tensor_kept) in kept.iter().enumerate() {
        assert_eq!(tensor_kept.as_bytes(), tensor(4 * MIB, seed).as_bytes());
    }
}

/// Kills: files that are cut short before they are unlinked (it dies of SIGBUS).
#[test]
fn a_model_goes_on_when_its_initialisers_are_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("cache"), 64 * MIB);
    let session = Session::new(store.clone()).unwrap();
    let mut graph = Builder::new();
    let x = graph.input("x", ElementType::F32, &[1]);
    let weights = graph.constant(tensor(MIB, 0));
    let product = graph.op("Mul", &[&weights, &x]);
    let axes = graph.constant(Tensor::from_slice(&[1], &[0_i64]));
    let most = graph.op("ReduceMax", &[&product, &axes]);
    graph.output("most", &most);
    let model = session.prepare(&graph.finish().unwrap(), GraphMode::Fused).unwrap();
    let run = || model.run(&[Tensor::from_slice(&[1], &[0.5_f32])]).unwrap()[0].to_f64s();
    let expected = [(MIB / 4 - 1) as f64 / 2.0];
    assert_eq!(run(), expected);
    store.prune(PruneLimits { max_size: Some(0), ..PruneLimits::default() }).unwrap();
    assert_eq!(store.usage().artifacts.entries, 0);
    let long = files(dir.path()).into_iter().any(|path| path.metadata().unwrap().len() >= 1 << 18);
    assert!(!long, "its file is gone");
    assert_eq!(run(), expected);
}

/// Kills: what is lent not verified.
#[test]
fn a_damaged_piece_is_a_miss_and_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let whole = tensor(MIB, 0);
    let first = share_one(&whole, &open(&cache, 64 * MIB), true).unwrap();
    drop(first);
    let damaged = files(&cache).into_iter().find(|path| path.metadata().unwrap().len() > 1 << 18);
    let file = fs::OpenOptions::new().write(true).open(damaged.unwrap()).unwrap();
    file.write_all_at(&[0xff; 8], 100_000).unwrap();

    let store = open(&cache, 64 * MIB);
    assert_eq!(share_one(&whole, &store, true).unwrap().as_bytes(), whole.as_bytes());
    let stats = store.stats();
    assert_eq!((stats.made, stats.disk), (1, 3));
    assert_eq!(stats.reasons.get("damaged-checksum"), Some(&1), "{:?}", stats.reasons);
    let store = open(&cache, 64 * MIB);
    assert_eq!(share_one(&whole, &store, true).unwrap().as_bytes(), whole.as_bytes());
    assert_eq!((store.stats().made, store.stats().disk), (0, 4));
}

/// Kills: pieces made where nothing may be written.
#[test]
fn a_store_that_is_only_read_lends_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let whole = tensor(MIB, 0);
    share_one(&whole, &open(&cache, 64 * MIB), true).unwrap();
    let config =
        Config { mode: Mode::ReadOnly, max_size: 64 << 20, ..Config::default().dir(&cache) };
    let store = Store::open(config);
    assert!(share_one(&whole, &store, false).is_ok());
    assert!(share_one(&tensor(MIB, 1), &store, false).is_err());
    assert_eq!(store.stats().made, 0);
    assert!(!Store::open(Config::default().mode(Mode::Off)).lends());
}

#[test]
fn a_shard_has_room_for_several_pieces() {
    for (max_size, length) in [(0, 16), (64 << 20, 18), (2 << 30, 23), (1 << 40, 23)] {
        assert_eq!(piece_length(max_size), 1 << usize::max(length, 16));
    }
}
