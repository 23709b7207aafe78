//! The memory tier without races, against models; and with real threads, in the large.

use std::collections::{HashMap, HashSet};
use std::sync::Barrier;
use std::time::Duration;

use proptest::prelude::*;

use super::node::HIGH_ADDRESSES;
use super::*;
use crate::race::with_planted;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, now, thread};

/// Of 12 keys, four begin at each of three buckets; two of them share each tag.
fn few(id: u8) -> Key {
    let mut bytes = [7; 32];
    (bytes[0], bytes[7], bytes[31]) = (id % 3, id % 6, id);
    Key::from_bytes(bytes)
}

/// Uniform keys, as real ones are.
fn uniform(id: u64) -> Key {
    Key::from_bytes(*blake3::hash(&id.to_le_bytes()).as_bytes())
}

/// A small generator of numbers that are random enough.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

/// Counts how many of its kind live.
#[derive(Debug)]
struct Counted {
    id: u64,
    live: Arc<AtomicUsize>,
}

impl Counted {
    fn new(id: u64, live: &Arc<AtomicUsize>) -> Self {
        live.fetch_add(1, Ordering::Relaxed);
        Counted { id, live: Arc::clone(live) }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(self.id, &self.live)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until the epochs have freed all but this many.
fn wait_for(live: &AtomicUsize, expected: usize) {
    let begun = now();
    while live.load(Ordering::Relaxed) != expected {
        assert!(begun.elapsed() < Duration::from_secs(60), "{live:?} live, not {expected}");
        let epoch = Epoch;
        epoch.flush(&epoch.pin());
        thread::yield_now();
    }
}

#[derive(Clone, Debug)]
enum Op {
    Get(u8),
    Insert(u8, u32),
    Replace(u8, u32),
    Remove(u8),
    RemoveSeen(u8),
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..12_u8;
    let op = prop_oneof![
        4 => key.clone().prop_map(Op::Get),
        6 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
        4 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Replace(key, value)),
        4 => key.clone().prop_map(Op::Remove),
        2 => key.prop_map(Op::RemoveSeen),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(op, 1..120)
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }
}

/// Runs `ops` on a table and on `std`'s map, which must agree at each step.
fn compare_with_std<R: Reclaim>(ops: &[Op]) {
    let table = Table::<u32, R>::with_capacity(0);
    let mut model = HashMap::new();
    for op in ops {
        let guard = table.pin();
        match *op {
            Op::Get(id) => {
                assert_eq!(table.get(&few(id), &guard), model.get(&few(id)));
            }
            Op::Insert(id, value) => {
                let inserted = table.insert(&few(id), value, &guard);
                match model.get(&few(id)) {
                    Some(there) => assert!(matches!(inserted, Insert::Existing(v) if v == there)),
                    None => {
                        assert!(matches!(inserted, Insert::New(v) if *v == value));
                        model.insert(few(id), value);
                    }
                }
            }
            Op::Replace(id, value) => {
                let old = table.replace(&few(id), value, &guard);
                assert_eq!(old, Ok(model.insert(few(id), value).as_ref()));
            }
            Op::Remove(id) => {
                assert_eq!(table.remove(&few(id), &guard), model.remove(&few(id)).as_ref());
            }
            Op::RemoveSeen(id) => {
                if let Some(seen) = table.get(&few(id), &guard) {
                    assert!(table.remove_seen(&few(id), seen, &guard));
                    assert!(!table.remove_seen(&few(id), seen, &guard), "not there any more");
                    // The same value at another place is another value.
                    table.insert(&few(id), *seen, &guard);
                    assert!(!table.remove_seen(&few(id), seen, &guard));
                }
            }
            Op::Clear => {
                let mut cleared = 0;
                table.clear(|_| cleared += 1, &guard);
                assert_eq!(cleared, model.len());
                model.clear();
            }
        }
        assert_eq!(table.len(&guard), model.len());
        assert!(table.counts_are_right(&guard));
        let arrays = table.arrays(&guard);
        assert!(arrays.len() == 1 && arrays[0] <= 64, "{arrays:?}");
    }
    let guard = table.pin();
    let mut shown = Vec::new();
    table.for_each(|key, value| shown.push((*key, *value)), &guard);
    assert_eq!(shown.len(), model.len());
    assert_eq!(shown.into_iter().collect::<HashMap<_, _>>(), model);
}

proptest! {
    #![proptest_config(config())]

    /// Mutants: `find` that does not compare keys; `remove_if` that does not count; a seat that is taken twice.
    #[test]
    fn a_table_is_a_map(ops in ops()) {
        compare_with_std::<Epoch>(&ops);
        compare_with_std::<Keep>(&ops);
    }

    /// Mutant: `Memory::replace` that does not give the old value's room back.
    #[test]
    fn memory_keeps_to_its_limit_and_never_lies(
        ops in ops(),
        weights in prop::collection::vec(0..2_000_u64, 120),
    ) {
        const LIMIT: u64 = 1_500;
        let memory = Memory::<u32>::new(LIMIT);
        let mut model = HashMap::new();
        for (op, weight) in ops.into_iter().zip(weights) {
            let fits = Memory::<u32>::cost(weight) <= LIMIT;
            match op {
                Op::Get(id) => {
                    let value = memory.get(&few(id));
                    assert!(value.is_none() || value.as_ref() == model.get(&few(id)));
                }
                Op::Insert(id, value) => {
                    let there = memory.get(&few(id));
                    assert_eq!(memory.insert(&few(id), value, weight), there.unwrap_or(value));
                    if there.is_none() {
                        assert_eq!(memory.get(&few(id)), fits.then_some(value));
                        model.insert(few(id), value);
                    }
                }
                Op::Replace(id, value) => {
                    let old = memory.replace(&few(id), value, weight);
                    let before = model.insert(few(id), value);
                    assert!(old.is_none() || old == before);
                    assert_eq!(memory.get(&few(id)), fits.then_some(value));
                }
                Op::Remove(id) | Op::RemoveSeen(id) => {
                    let there = memory.get(&few(id));
                    assert_eq!(memory.remove(&few(id)), there);
                    assert_eq!(memory.get(&few(id)), None);
                }
                Op::Clear => {
                    memory.clear();
                    assert_eq!((memory.len(), memory.bytes()), (0, 0));
                }
            }
            let (mut costs, mut keys) = (0, 0);
            let guard = memory.table.pin();
            memory.table.for_each(|_, entry| (costs, keys) = (costs + entry.cost, keys + 1), &guard);
            assert_eq!((memory.bytes(), memory.len()), (costs, keys));
            assert!(costs <= LIMIT);
        }
    }
}

/// Mutant: `rebuild` that always doubles.
#[test]
fn arrays_do_not_grow_by_churn() {
    let table = Table::<u32, Epoch>::with_capacity(0);
    for round in 0..20_000 {
        let guard = table.pin();
        assert!(matches!(table.insert(&uniform(round % 7), 1, &guard), Insert::New(_)));
        assert_eq!(table.remove(&uniform(round % 7), &guard), Some(&1));
        assert!(table.arrays(&guard)[0] <= 16);
    }
}

/// Mutant: `place` that does not count removed buckets; a path then grows with the table.
#[test]
fn a_key_that_comes_and_goes_keeps_its_path_short() {
    let table = Table::<u32, Keep>::with_capacity(1_000);
    for round in 0..100 {
        table.insert(&few(0), round, &());
        let home = few(0).word(0) as usize;
        let mut steps = 0;
        table.sample(home, 1, |_, value| steps = usize::from(*value == round), &());
        assert_eq!(steps, 1);
        let stop = table.sample(home, 1, |_, _| {}, &());
        assert!(stop.wrapping_sub(home) <= 10, "{}", stop.wrapping_sub(home));
        table.remove(&few(0), &());
    }
}

#[test]
fn an_array_shrinks_with_its_table() {
    let table = Table::<u64, Keep>::with_capacity(0);
    (0..1_000)
        .for_each(|id| assert!(matches!(table.insert(&uniform(id), id, &()), Insert::New(_))));
    assert_eq!((table.len(&()), table.arrays(&())), (1_000, vec![2_048]));
    table.clear(|_| {}, &());
    assert_eq!(table.len(&()), 0);
    (0..1_000)
        .for_each(|id| _ = (table.insert(&uniform(id), id, &()), table.remove(&uniform(id), &())));
    assert!(table.arrays(&())[0] <= 16, "{:?}", table.arrays(&()));
}

/// Mutants: `Drop` of the table without its nodes; an inserter that forgets the node it could not place;
/// `Keep` without its `Drop`.
#[test]
fn every_value_is_dropped_once() {
    fn fill<R: Reclaim>(live: &Arc<AtomicUsize>) {
        let table = Table::<Counted, R>::with_capacity(0);
        for id in 0..200 {
            let guard = table.pin();
            table.insert(&uniform(id), Counted::new(id, live), &guard);
            table.insert(&uniform(id), Counted::new(id, live), &guard);
            if id % 3 == 0 {
                table.remove(&uniform(id), &guard);
            }
            if id % 2 == 0 {
                assert!(table.replace(&uniform(id), Counted::new(id, live), &guard).is_ok());
            }
        }
        assert!(live.load(Ordering::Relaxed) >= 166, "{live:?}");
    }
    let live = Arc::default();
    fill::<Keep>(&live);
    assert_eq!(live.load(Ordering::Relaxed), 0, "dropped with the table");
    fill::<Epoch>(&live);
    wait_for(&live, 0);
}

/// The guard frees what it should, and nothing early. Mutants: `retire` that drops at once; `retire` that
/// does nothing.
#[test]
fn a_guard_holds_back_what_was_there_and_nothing_else() {
    let live = Arc::default();
    let table = Arc::new(Table::<Counted, Epoch>::with_capacity(0));
    let insert = |id| {
        let guard = table.pin();
        assert!(matches!(
            table.insert(&uniform(id), Counted::new(id, &live), &guard),
            Insert::New(_)
        ));
    };
    insert(1);
    insert(2);

    let guard = table.pin();
    let removed = table.get(&uniform(1), &guard).unwrap();
    let replaced = table.get(&uniform(2), &guard).unwrap();
    let others = thread::spawn({
        let (table, live) = (Arc::clone(&table), Arc::clone(&live));
        move || {
            for round in 0..1_000 {
                let guard = table.pin();
                table.remove(&uniform(1), &guard);
                let new = Counted::new(3 + round, &live);
                assert!(table.replace(&uniform(2), new, &guard).is_ok());
                table.insert(&uniform(10 + round), Counted::new(9, &live), &guard);
                table.remove(&uniform(10 + round), &guard);
                table.reclaim().flush(&guard);
            }
        }
    });
    others.join().unwrap();
    assert_eq!((removed.id, replaced.id), (1, 2), "untouched under the guard");
    assert!(live.load(Ordering::Relaxed) >= 3);
    assert!(table.get(&uniform(1), &guard).is_none(), "removed, all the same");
    drop(guard);

    wait_for(&live, 1);
    assert_eq!(table.get(&uniform(2), &table.pin()).unwrap().id, 1_002);
    drop(table);
    wait_for(&live, 0);
}

/// Large values that were evicted do not wait for their thread to do more. Mutant: `is_heavy` that is never true.
#[test]
fn garbage_of_an_idle_thread_is_freed() {
    let live = Arc::default();
    let memory = Memory::<Counted>::new(4 * Memory::<Counted>::cost(1_000));
    let done = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..10 {
                memory.insert(&uniform(id), Counted::new(id, &live), 1_000);
            }
            assert_eq!((memory.len(), memory.evictions()), (4, 6));
            memory.remove(&uniform(9));
            done.wait();
            done.wait(); // idle until the other one has seen it
        });
        done.wait();
        wait_for(&live, 3);
        done.wait();
    });
}

#[test]
fn the_first_value_wins_and_the_last_replaces() {
    let memory = Memory::<&str>::new(1 << 20);
    assert_eq!(memory.insert(&few(1), "first", 5), "first");
    assert_eq!(memory.insert(&few(1), "second", 6), "first");
    assert_eq!(memory.bytes(), Memory::<&str>::cost(5));
    assert_eq!(memory.replace(&few(1), "third", 7), Some("first"));
    assert_eq!(memory.get_with(&few(1), |value| value.len()), Some(5));
    assert_eq!(memory.bytes(), Memory::<&str>::cost(7));
    assert_eq!((memory.remove(&few(1)), memory.remove(&few(1))), (Some("third"), None));
    assert_eq!((memory.bytes(), memory.len(), memory.evictions()), (0, 0, 0));
}

#[test]
fn what_is_too_large_is_not_kept() {
    let memory = Memory::<u32>::new(1_000);
    assert_eq!(memory.insert(&few(1), 1, 100), 1);
    for weight in [1_001, u64::MAX] {
        assert_eq!(memory.insert(&few(2), 2, weight), 2);
        assert_eq!(memory.get(&few(2)), None);
    }
    assert_eq!((memory.get(&few(1)), memory.evictions()), (Some(1), 0), "nothing went for it");
    assert_eq!(memory.replace(&few(1), 3, 1_001), Some(1));
    assert_eq!((memory.get(&few(1)), memory.bytes()), (None, 0), "the old value would be wrong");

    let none = Memory::<u32>::new(0);
    assert_eq!((none.insert(&few(1), 1, 0), none.get(&few(1)), none.len()), (1, None, 0));
}

/// Mutant: `insert` that does not release the room of a refused entry.
#[test]
fn an_address_that_does_not_fit_is_no_failure() {
    let memory = Memory::<u32>::new(1_000);
    memory.insert(&few(1), 1, 0);
    with_planted(HIGH_ADDRESSES, || {
        assert_eq!((memory.insert(&few(2), 2, 0), memory.get(&few(2))), (2, None));
        assert_eq!((memory.replace(&few(1), 3, 0), memory.get(&few(1))), (Some(1), None));
    });
    assert_eq!((memory.bytes(), memory.len()), (0, 0));
}

/// Mutants: `touch` that does nothing; `evict` that takes the first of its sample.
#[test]
fn what_is_used_stays_and_what_is_not_goes() {
    const ENTRIES: u64 = 200;
    let memory = Memory::<u64>::new(ENTRIES * Memory::<u64>::cost(0));
    for hot in 0..10 {
        memory.insert(&uniform(hot), hot, 0);
    }
    for cold in 0..10 * ENTRIES {
        memory.insert(&uniform(1_000 + cold), cold, 0);
        for hot in 0..10 {
            assert_eq!(memory.get(&uniform(hot)), Some(hot), "after {cold}");
        }
    }
    assert_eq!(memory.len() as u64, ENTRIES);
    assert_eq!(memory.evictions(), 10 + 9 * ENTRIES);
}

/// The hit rate of a skewed load is within three hundredths of exact LRU's.
#[test]
fn eviction_is_close_to_lru() {
    const ENTRIES: usize = 500;
    let memory = Memory::<u64>::new(ENTRIES as u64 * Memory::<u64>::cost(0));
    let mut exact: HashMap<u64, u64> = HashMap::new();
    let (mut hits, mut exact_hits) = (0_i32, 0_i32);
    let mut random = Random(42);
    for time in 0..40_000_u64 {
        // Squared: a key's share falls with its number; every 10,000 steps other keys are busy.
        let x = random.next() % 2_000;
        let id = x * x / 2_000 + time / 10_000 * 700;
        match memory.get(&uniform(id)) {
            Some(value) => hits += i32::from(value == id),
            None => _ = memory.insert(&uniform(id), id, 0),
        }
        exact_hits += i32::from(exact.insert(id, time).is_some());
        if exact.len() > ENTRIES {
            let oldest = *exact.iter().min_by_key(|(_, time)| **time).unwrap().0;
            exact.remove(&oldest);
        }
    }
    assert!(hits > exact_hits - 1_200, "{hits} hits, {exact_hits} with exact LRU");
}

/// Threads that insert, replace, remove and read at random under a small limit. A value names its key.
#[test]
fn threads_in_the_large() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 300;
    const LIMIT: u64 = 100 * 200;
    let live = Arc::default();
    let memory = Arc::new(Memory::<Counted>::new(LIMIT));
    let start = Arc::new(Barrier::new(THREADS as usize));
    let workers = (0..THREADS).map(|thread| {
        let (memory, live, start) = (Arc::clone(&memory), Arc::clone(&live), Arc::clone(&start));
        thread::spawn(move || {
            let mut random = Random(thread + 1);
            start.wait();
            for _ in 0..30_000 {
                let id = random.next() % KEYS;
                let (key, value) = (uniform(id), Counted::new(id, &live));
                match random.next() % 16 {
                    0..8 => {
                        let seen = memory.get_with(&key, |value| value.id);
                        assert!(seen.is_none_or(|seen| seen == id));
                    }
                    8..12 => assert_eq!(memory.insert(&key, value, random.next() % 200).id, id),
                    12..14 => {
                        let old = memory.replace(&key, value, random.next() % 200);
                        assert!(old.is_none_or(|old| old.id == id));
                    }
                    _ => assert!(memory.remove(&key).is_none_or(|old| old.id == id)),
                }
                assert!(memory.bytes() <= LIMIT);
            }
        })
    });
    workers.collect::<Vec<_>>().into_iter().for_each(|worker| worker.join().unwrap());

    let guard = memory.table.pin();
    let (mut costs, mut keys) = (0, HashSet::new());
    memory.table.for_each(
        |key, entry| {
            assert_eq!(*key, uniform(entry.value.id));
            assert!(keys.insert(*key), "one place per key");
            costs += entry.cost;
        },
        &guard,
    );
    drop(guard);
    assert_eq!((memory.len(), memory.bytes()), (keys.len(), costs));
    assert!(memory.evictions() > 0);
    wait_for(&live, keys.len());
    drop(memory);
    wait_for(&live, 0);
}

/// Inserters and removers of their own keys, one reader of all: no key is lost in any rebuild.
#[test]
fn no_key_is_lost_in_rebuilds() {
    let table = Arc::new(Table::<u64, Epoch>::with_capacity(0));
    let stop = Arc::new(AtomicBool::new(false));
    let always = 0..50_u64;
    always.clone().for_each(|id| _ = table.insert(&uniform(id), id, &table.pin()));
    let reader = thread::spawn({
        let (table, stop) = (Arc::clone(&table), Arc::clone(&stop));
        move || {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) || rounds < 10 {
                for id in always.clone() {
                    assert_eq!(table.get(&uniform(id), &table.pin()), Some(&id));
                }
                rounds += 1;
            }
        }
    });
    let writers = [1_u64, 2, 3].map(|writer| {
        let table = Arc::clone(&table);
        thread::spawn(move || {
            let keys = (0..400).map(|id| (uniform(writer << 32 | id), id)).collect::<Vec<_>>();
            for _ in 0..20 {
                for (key, id) in &keys {
                    let guard = table.pin();
                    assert!(matches!(table.insert(key, *id, &guard), Insert::New(_)));
                    assert_eq!(table.replace(key, id + 1, &guard), Ok(Some(id)));
                }
                for (key, id) in &keys {
                    let guard = table.pin();
                    assert_eq!(table.get(key, &guard), Some(&(id + 1)));
                    assert_eq!(table.remove(key, &guard), Some(&(id + 1)));
                    assert_eq!(table.get(key, &guard), None);
                }
            }
        })
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    assert_eq!(table.len(&table.pin()), 50);
}
