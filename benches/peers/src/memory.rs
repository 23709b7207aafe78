//! The figures of tables in memory: a hit, on one thread and on two at once.
//!
//! Values are words, which stand for the address of code, and all tables take the bits of a key as its hash.

use std::hash::BuildHasherDefault;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use cachelift::benching::{Tier, Unguarded, guard};
use cachelift::key::{Key, KeyHasher};

use crate::Effort;
use crate::figure::{Figure, Figures, Target, median};
use crate::records::{PRESENT, Random, key};

type Identity = BuildHasherDefault<KeyHasher>;

/// Threads get these keys, each its own, and a hit takes so many nanoseconds.
type Round<'a> = Box<dyn Fn(&[Vec<Key>]) -> f64 + 'a>;

/// A table and what a hit in it costs, in nanoseconds, round by round.
struct Entrant<'a> {
    title: &'static str,
    round: Round<'a>,
    times: Vec<f64>,
}

fn entrant<'a>(title: &'static str, get: impl Fn(&Key) -> Option<u64> + Sync + 'a) -> Entrant<'a> {
    let round = move |threads: &[Vec<Key>]| time(threads, &get);
    Entrant { title, round: Box::new(round), times: Vec::new() }
}

/// Nanoseconds per hit: the mean over threads, each of which gets its keys in turn.
fn time(threads: &[Vec<Key>], get: &(impl Fn(&Key) -> Option<u64> + Sync)) -> f64 {
    const LONG: Duration = Duration::from_millis(15);
    let barrier = Barrier::new(threads.len());
    let run = |keys: &[Key]| {
        // What the one before left in the caches is nobody's doing: all begin with their own.
        let warm = keys.iter().map(|key| get(key).expect("it is there"));
        black_box(warm.fold(0, u64::wrapping_add));
        barrier.wait();
        let began = Instant::now();
        let (mut count, mut sum) = (0, 0_u64);
        loop {
            for key in keys {
                sum = sum.wrapping_add(get(key).expect("it is there"));
            }
            count += keys.len();
            let time = began.elapsed();
            if time > LONG {
                black_box(sum);
                return time.as_nanos() as f64 / count as f64;
            }
        }
    };
    let times: Vec<f64> = std::thread::scope(|scope| {
        let others: Vec<_> = threads[1..].iter().map(|keys| scope.spawn(|| run(keys))).collect();
        let first = run(&threads[0]);
        let others = others.into_iter().map(|thread| thread.join().expect("no thread panics"));
        std::iter::once(first).chain(others).collect()
    });
    times.iter().sum::<f64>() / times.len() as f64
}

/// Measures what is wanted.
pub fn measure(effort: &Effort, figures: &mut Figures) {
    for count in [1_000, 100_000] {
        for threads in [1, 2] {
            let name = format!("memory/{count}/{threads}t");
            if effort.wants(&name) {
                hits(effort, &name, count, threads, figures);
            }
        }
    }
}

fn hits(effort: &Effort, name: &str, count: usize, threads: usize, figures: &mut Figures) {
    let entries: Vec<(Key, u64)> = (0..count as u64).map(|n| (key(PRESENT, n), n)).collect();
    let orders: Vec<Vec<Key>> = (0..threads)
        .map(|thread| {
            let mut random = Random::new(thread as u64 + 1);
            let mut keys: Vec<Key> = entries.iter().map(|(key, _)| *key).collect();
            (1..keys.len()).for_each(|n| keys.swap(n, random.below(n as u64 + 1) as usize));
            keys
        })
        .collect();

    let tier = Tier::new(entries.iter().copied());
    let unguarded = Unguarded::new(entries.iter().copied());
    let papaya = papaya::HashMap::with_hasher(Identity::default());
    let dashmap = dashmap::DashMap::with_hasher(Identity::default());
    let quick = quick_cache::sync::Cache::with(
        2 * count,
        2 * count as u64,
        quick_cache::UnitWeighter,
        Identity::default(),
        quick_cache::sync::DefaultLifecycle::default(),
    );
    let moka = moka::sync::Cache::builder()
        .max_capacity(2 * count as u64)
        .build_with_hasher(Identity::default());
    for &(key, value) in &entries {
        papaya.pin().insert(key, value);
        dashmap.insert(key, value);
        quick.insert(key, value);
        moka.insert(key, value);
    }
    moka.run_pending_tasks();

    let mut entrants = [
        entrant("cachelift", |key| tier.get(key)),
        entrant("cachelift, no guard", |key| unguarded.get(key)),
        entrant("a guard alone", |_| {
            guard();
            Some(0)
        }),
        entrant("papaya", |key| papaya.pin().get(key).copied()),
        entrant("dashmap", |key| dashmap.get(key).map(|value| *value)),
        entrant("quick_cache", |key| quick.get(key)),
        entrant("moka", |key| moka.get(key)),
    ];
    for _ in 0..effort.rounds(15) {
        for entrant in &mut entrants {
            let time = (entrant.round)(&orders);
            entrant.times.push(time);
        }
    }

    let medians = entrants.map(|entrant| (entrant.title, median(entrant.times)));
    let ours = medians[0].1;
    let mut add = |peer: &str, theirs, target| {
        let (name, peer) = (name.to_owned(), peer.to_owned());
        figures.add(Figure { name, peer, ours, theirs, target });
    };
    for (title, theirs) in &medians[1..] {
        let target = match (*title, threads) {
            ("papaya", _) => Target::Faster,
            ("moka", _) => Target::AtLeast(10.0),
            ("dashmap" | "quick_cache", 1) => Target::AtLeast(1.0),
            ("dashmap" | "quick_cache", _) => Target::AtLeast(3.0),
            _ => Target::None,
        };
        add(title, *theirs, target);
    }
    if count == 1_000 {
        add("the goal, 2.5 ns", 2.5, Target::AtLeast(1.0));
    }
}
