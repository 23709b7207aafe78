//! Shards: publish, look up, rebuild, evict, clear, recover, over each other.
//!
//! The machine watches every store to a word of an index (I4: a slot goes from empty to live to dead, and
//! says one thing as long as it is not empty), every byte that a live slot publishes (I3: it never changes
//! again), and every name of an index or a segment (I4: given once).

use super::*;
use crate::store::disk::format::Name;
use crate::store::disk::format::header::{FIXED_WORDS, HEADER_WORDS, IndexHeader, SLOT_WORDS};
use crate::store::disk::format::slot::{DEAD, EMPTY, LIVE, Location, STATE_MASK};
use crate::store::disk::fs::sim::crash::Images;
use crate::store::disk::fs::sim::machine::{Content, Publishes, WordStore};
use crate::sync::simulated::Clock;

pub(super) fn setup() -> Setup {
    Setup {
        class: FsClass::Mappable,
        once: |name| matches!(Name::parse(name), Some(Name::Index(_) | Name::Segment(_))),
        words: index_words,
        fixed_words: FIXED_WORDS,
        ..Setup::default()
    }
}

/// What may be stored to a word of an index.
fn index_words(store: &WordStore<'_>) -> Result<Option<Publishes>, String> {
    let WordStore { name, at, old, new, load } = *store;
    let fixed: [u64; FIXED_WORDS] = std::array::from_fn(load);
    let Ok(header) = IndexHeader::parse(&fixed) else { return Ok(None) };
    if at < FIXED_WORDS {
        return if old == new { Ok(None) } else { Err(format!("I4: word {at} of {name} changed")) };
    }
    let Some(n) = at.checked_sub(HEADER_WORDS) else { return Ok(None) };
    let word = |part| load(HEADER_WORDS + n / SLOT_WORDS * SLOT_WORDS + part);
    let is_empty = word(0) & STATE_MASK == EMPTY;
    match n % SLOT_WORDS {
        0 => match (old & STATE_MASK, new & STATE_MASK) {
            (EMPTY, LIVE) => {
                let place =
                    Location::unpack(word(1), header.base).ok_or("I4: live, and nowhere")?;
                let (file, from) = (place.segment.to_string(), place.offset);
                Ok(Some(Publishes { file, from, to: place.end() }))
            }
            (LIVE, DEAD) if old & !STATE_MASK == new & !STATE_MASK => Ok(None),
            _ => Err(format!("I4: a slot went from {old:x} to {new:x}")),
        },
        1 | 2 if !is_empty && old != new => Err("I4: a slot that is not empty changed".into()),
        _ => Ok(None),
    }
}

/// So many records are there, under keys from 100 on.
pub(super) fn filled(explorer: Explorer, records: u8, length: usize) -> Explorer {
    explorer.after(|world| {
        let cache = Cache::open(world.process(), &Oracle::default()).expect("a new cache");
        for n in 0..records {
            cache.put(&key(100 + n), &vec![n; length]).expect("there is room");
        }
    })
}

/// What [`filled`] has put there.
pub(super) fn knows(oracle: &Oracle, records: u8, length: usize) {
    for n in 0..records {
        oracle.offer(&key(100 + n), &vec![n; length]);
    }
}

#[test]
fn sim_shards_publish_in_every_order() {
    assert!(warmed("shards: publish, pair").all(publish::pair).holds().complete);
    warmed("shards: publish, warm").bounded(1, publish::warm).holds();
    warmed("shards: publish, warm").random(500, publish::warm).holds();
    sharded("shards: publish, cold").bounded(1, publish::cold).holds();
    sharded("shards: publish, cold").random(200, publish::cold).holds();
}

/// Keys that a reader missed, to be told when all is over.
type Missed = Arc<crate::sync::Mutex<Vec<Key>>>;

/// I9: what is there in the end, and nobody published in between, was there all the time.
fn was_never_gone(world: &World, oracle: &Oracle, missed: &Missed) {
    let cache = Cache::open(world.process(), oracle).expect("a cache that opens");
    for key in missed.lock().iter() {
        assert!(!cache.get(key), "I9: missed, and there all the time");
    }
}

/// One fills the index until it is rebuilt, another looks up what was there before, and what comes.
pub(super) fn rebuilt(run: &Run) {
    let oracle = Oracle::default();
    knows(&oracle, 62, 16);
    let fs = run.world().process();
    for n in [0, 31, 61] {
        oracle.published(&fs, &key(100 + n));
    }
    process(run, &oracle, |cache| {
        cache.put_for_good(&key(0), &body(0));
        cache.put_for_good(&key(1), &body(1));
    });
    process(run, &oracle, |cache| {
        cache.get(&key(131));
        cache.get_quickly(&key(0));
        cache.get_quickly(&key(1));
        cache.get(&key(1));
        cache.get_quickly(&key(100));
    });
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1), key(161)]);
}

fn to_be_rebuilt(name: &'static str) -> Explorer {
    filled(sharded(name), 62, 16).warmed()
}

/// A shard of four segments that are nearly full.
const SMALL_SHARD: u64 = 256 << 10;
const LONG: usize = 15_000;

/// Two publish what does not fit, so that segments are evicted, while a third looks up what was there.
pub(super) fn evicted(run: &Run) {
    let oracle = Oracle::default();
    knows(&oracle, 12, LONG);
    let missed = Missed::default();
    limited_process(run, &oracle, SMALL_SHARD, |cache| {
        for n in 0..3 {
            let _ = cache.put(&key(n), &[n; LONG]);
        }
    });
    let theirs = missed.clone();
    limited_process(run, &oracle, SMALL_SHARD, move |cache| {
        for n in [100, 105, 111, 100] {
            let struck = cache.fs().struck();
            if !cache.get(&key(n)) && cache.fs().struck() == struck {
                theirs.lock().push(key(n));
            }
        }
    });
    run.join();
    was_never_gone(run.world(), &oracle, &missed);
    let last = Cache::limited(run.world().process(), &oracle, SMALL_SHARD).expect("it opens");
    for n in 200..208 {
        let _ = last.put(&key(n), &[n; LONG]);
    }
    drop(last);
    keeps_the_limit(run.world());
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(111)]);
}

/// I13: a segment, and a few blocks for the index and its names, may be too much.
fn keeps_the_limit(world: &World) {
    let occupied = world.machine(|machine| machine.occupied(true));
    assert!(occupied <= SMALL_SHARD + (64 << 10) + (16 << 10), "I13: {occupied} bytes");
}

pub(super) fn before_a_rebuild() -> Explorer {
    to_be_rebuilt("on threads")
}

pub(super) fn before_an_eviction() -> Explorer {
    to_be_evicted("on threads")
}

fn to_be_evicted(name: &'static str) -> Explorer {
    sharded(name).after(|world| {
        let oracle = Oracle::default();
        let cache = Cache::limited(world.process(), &oracle, SMALL_SHARD).expect("a new cache");
        for n in 0..12 {
            cache.put(&key(100 + n), &vec![n; LONG]).expect("there is room");
        }
        // The first segment is worth the least, but for one entry, which is carried on when it goes.
        for n in 1..4 {
            cache.records.remove(&key(100 + n), Kind::Artifact).expect("it is there");
            cache.fs().sleep(std::time::Duration::from_secs(3600));
            assert!(cache.get(&key(100)));
        }
    })
}

/// A record's bytes are damaged on the disk. Two look it up while two publish it anew.
pub(super) fn damaged(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.put(&key(0), &body(0)).unwrap();
    run.world().machine(|machine| {
        let segment = format!("{}/{SPACE}/s/00/seg-000000000001", dir());
        machine.flip(&segment, 64 + 200);
    });
    process(run, &oracle, |cache| {
        cache.get(&key(0));
        cache.get_quickly(&key(0));
    });
    for n in [1, 2] {
        process(run, &oracle, move |cache| {
            cache.put_for_good(&key(0), &body(n));
            cache.get(&key(0));
        });
    }
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0)]);
}

/// Pruning and verifying take out nothing that is whole and within the limit.
pub(super) fn pruned(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.put_for_good(&key(1), &body(1));
    process(run, &oracle, |cache| {
        cache.put_for_good(&key(0), &body(0));
        cache.get_quickly(&key(0));
    });
    process(run, &oracle, |cache| {
        cache.clean();
        cache.get(&key(1));
    });
    process(run, &oracle, |cache| {
        if let Ok(verified) = cache.shards().verify(|_, _| ()) {
            assert_eq!(verified.damaged, 0, "I12: a whole record is called damaged");
        }
        cache.get(&key(1));
    });
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

/// Two take an entry out, and one of them did; others go on with theirs.
pub(super) fn taken_out(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.put(&key(0), &body(0)).expect("there is room");
    let told = Arc::new(crate::sync::Mutex::new(Vec::new()));
    for _ in 0..2 {
        let told = told.clone();
        process(run, &oracle, move |cache| {
            if let Ok(was_there) = cache.records.remove(&key(0), Kind::Artifact) {
                told.lock().push(was_there);
                assert!(!cache.get(&key(0)), "taken out, and still there");
            }
        });
    }
    process(run, &oracle, |cache| {
        cache.put_for_good(&key(1), &body(1));
        cache.get(&key(0));
        cache.get(&key(1));
    });
    run.join();
    let took = told.lock().iter().filter(|was_there| **was_there).count();
    assert!(took <= 1 && (took == 1 || told.lock().len() < 2), "{told:?}");
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

/// One prunes all of it away while another publishes.
pub(super) fn emptied(run: &Run) {
    let oracle = Oracle::default();
    let before = Cache::open(run.world().process(), &oracle).expect("a new cache");
    before.put(&key(0), &body(0)).expect("there is room");
    process(run, &oracle, |cache| {
        let _ = cache.records.prune(0, None);
        cache.get(&key(0));
    });
    process(run, &oracle, |cache| {
        let _ = cache.put(&key(1), &body(1));
        cache.get(&key(0));
        cache.get(&key(1));
    });
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1)]);
}

/// Four processes do all there is to do in a small shard.
pub(super) fn all_at_once(run: &Run) {
    let oracle = Oracle::default();
    knows(&oracle, 12, LONG);
    let small = |body: fn(&Cache)| limited_process(run, &oracle, SMALL_SHARD, body);
    small(|cache| {
        for n in 0..3 {
            let _ = cache.put(&key(n), &[n; LONG]);
            cache.get(&key(n));
        }
    });
    small(|cache| {
        let _ = cache.set_note(&key(0), &body(7));
        cache.note(&key(0));
        cache.get(&key(100));
        let _ = cache.put(&key(0), &body(4));
        cache.get(&key(105));
    });
    small(|cache| {
        cache.clean();
        let _ = cache.records.remove(&key(105), Kind::Artifact);
        let _ = cache.put(&key(3), &body(3));
        let _ = cache.shards().verify(|_, _| ());
    });
    small(|cache| {
        cache.get(&key(2));
        let _ = cache.records.clear();
        let _ = cache.put(&key(2), &body(2));
        cache.get(&key(2));
    });
    run.join();
    keeps_the_limit(run.world());
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(2), key(105)]);
}

#[test]
fn sim_shards_rebuild_in_every_order() {
    to_be_rebuilt("shards: rebuild").bounded(1, rebuilt).holds();
    to_be_rebuilt("shards: rebuild").random(300, rebuilt).holds();
}

#[test]
fn sim_shards_evict_in_every_order() {
    to_be_evicted("shards: evict").bounded(1, evicted).holds();
    to_be_evicted("shards: evict").random(300, evicted).holds();
}

#[test]
fn sim_shards_replace_damage_in_every_order() {
    sharded("shards: damage").bounded(1, damaged).holds();
    sharded("shards: damage").random(300, damaged).holds();
}

#[test]
fn sim_shards_keep_what_is_pruned_in_every_order() {
    warmed("shards: prune").bounded(1, pruned).holds();
    sharded("shards: prune").random(300, pruned).holds();
}

#[test]
fn sim_shards_clear_in_every_order() {
    warmed("shards: clear").bounded(2, clear::while_in_use).holds();
    warmed("shards: clear, and it is empty").bounded(2, clear::clears).holds();
    sharded("shards: clear").random(300, clear::while_in_use).holds();
}

#[test]
fn sim_shards_note_in_every_order() {
    warmed("shards: notes").bounded(1, notes::replaced).holds();
    warmed("shards: notes").random(300, notes::replaced).holds();
}

// Mutant: a removal that removes nothing.
#[test]
fn sim_shards_take_out_and_empty_in_every_order() {
    warmed("shards: take out").bounded(1, taken_out).holds();
    sharded("shards: take out").random(300, taken_out).holds();
    warmed("shards: empty").bounded(2, emptied).holds();
    sharded("shards: empty").random(300, emptied).holds();
}

#[test]
fn sim_shards_all_at_once() {
    to_be_evicted("shards: all at once").random(80, all_at_once).holds();
    to_be_evicted("shards: all at once, and a fault").storm(120, all_at_once).holds();
    sharded("shards: from nothing, and a fault").storm(120, all_at_once).holds();
}

#[test]
fn sim_shards_removed_while_in_use() {
    warmed("shards: rm -rf").bounded(1, remove::all_of_it).holds();
    sharded("shards: rm -rf").random(300, remove::all_of_it).holds();
    warmed("shards: rm -rf of the space").bounded(1, remove::the_space).holds();
    warmed("shards: rm -rf of the shards").bounded(1, remove::the_shards).holds();
}

#[test]
fn sim_shards_in_flight() {
    sharded("shards: flight").bounded(1, flight::two).holds();
    sharded("shards: flight, a death").kills(0, flight::soon).holds();
    sharded("shards: flight, a stop").stops(0, flight::whatever_happens).holds();
}

#[test]
fn sim_shards_and_die() {
    sharded("shards: publish, a death").kills(0, publish::cold).holds();
    warmed("shards: publish, a death").kills(1, publish::pair).holds();
    to_be_rebuilt("shards: rebuild, a death").kills(0, rebuilt).holds();
    to_be_evicted("shards: evict, a death").kills(0, evicted).holds();
    warmed("shards: clear, a death").kills(0, clear::while_in_use).holds();
    sharded("shards: damage, a death").kills(0, damaged).holds();
    warmed("shards: take out, a death").kills(0, taken_out).holds();
    warmed("shards: empty, a death").kills(0, emptied).holds();
    warmed("shards: notes, a death").kills(0, notes::replaced).holds();
    warmed("shards: rm -rf, a death").kills(0, remove::all_of_it).holds();
}

#[test]
fn sim_shards_and_stop() {
    warmed("shards: publish, a stop").stops(0, publish::pair).holds();
    to_be_rebuilt("shards: rebuild, a stop").stops(0, rebuilt).holds();
    to_be_evicted("shards: evict, a stop").stops(0, evicted).holds();
    warmed("shards: clear, a stop").stops(0, clear::while_in_use).holds();
    warmed("shards: empty, a stop").stops(0, emptied).holds();
    warmed("shards: notes, a stop").stops(0, notes::replaced).holds();
}

// Mutants, both of which were there until this test: an index whose name cannot be looked at is overlooked when the
// next is made; the old one in hand is opened again to be retired, which may fail.
#[test]
fn sim_shards_on_a_failing_disk() {
    sharded("shards: publish, an error").thinned(4).errors(0, publish::cold).holds();
    to_be_rebuilt("shards: rebuild, an error").thinned(4).errors(0, rebuilt).holds();
    to_be_evicted("shards: evict, an error").thinned(4).errors(0, evicted).holds();
    warmed("shards: clear, an error").thinned(4).errors(0, clear::while_in_use).holds();
    sharded("shards: flight, an error").thinned(4).errors(0, flight::whatever_happens).holds();
    warmed("shards: take out, an error").thinned(4).errors(0, taken_out).holds();
    warmed("shards: empty, an error").thinned(4).errors(0, emptied).holds();
    warmed("shards: notes, an error").thinned(4).errors(0, notes::replaced).holds();
    sharded("shards: damage, an error").thinned(4).errors(0, damaged).holds();
}

pub(super) const FEW_IMAGES: Images =
    Images { all_below: 20, sample: 6, corners: false, seed: 1, cuts: (30, 2) };

/// After the power came back: what is found stays, whatever is put behind it, and all can be put.
pub(super) fn recover(world: &World, oracle: &Oracle) {
    oracle.forget_published();
    let cache = Cache::open(world.process(), oracle).expect("a cache that opens");
    let keys = [0, 1, 100, 161].map(key);
    let found: Vec<&Key> = keys.iter().filter(|key| cache.get(key)).collect();
    for n in 200..203 {
        cache.put(&key(n), &body(n)).expect("a cache that takes records");
    }
    for key in found {
        assert!(cache.get(key), "I3: found after the cut, and gone after the next put");
    }
    Cache::proves_usable(world, oracle, &keys).clean();
}

/// One publishes two records.
fn published(run: &Run) -> Oracle {
    let oracle = Oracle::default();
    knows(&oracle, 62, 16);
    process(run, &oracle, |cache| {
        let _ = cache.put(&key(0), &[3; 3000]);
        let _ = cache.put(&key(1), &body(1));
    });
    run.join();
    oracle
}

#[test]
fn sim_shards_power_cut_anywhere() {
    sharded("shards: power cut").crashes(2, FEW_IMAGES, crash::work, crash::recover).holds();
    to_be_rebuilt("shards: rebuild, power cut").crashes(1, FEW_IMAGES, published, recover).holds();
}

#[test]
fn sim_shards_power_cut_mutants() {
    let corners = Images { corners: true, cuts: (1000, 1), ..FEW_IMAGES };
    let cut = |images| warmed("shards: power cut, wrongly").crashes(1, images, published, recover);
    rejects("what another boot wrote is written over", "I3", || cut(corners));
    rejects("the checksum of a record is not compared", "I1", || cut(corners));
}

/// A full disk: what is there is served, what does not fit is not kept, and nothing is stored to a page
/// without blocks (which would be SIGBUS).
#[test]
fn sim_shards_on_a_full_disk() {
    for capacity in (0..40).map(|n| n * 8192) {
        let world = World::new(Setup { capacity: Some(capacity), ..setup() }, 1);
        let oracle = Oracle::default();
        let Ok(cache) = Cache::open(world.process(), &oracle) else { continue };
        let mut kept = Vec::new();
        for n in 0..20 {
            if cache.put(&key(n), &[n; LONG]).is_ok() {
                kept.push(n);
            }
            let newest = kept.last().copied();
            assert!(
                newest.is_none_or(|n| cache.get(&key(n))),
                "I8: {newest:?} of {kept:?} is gone"
            );
            // It is a minute later, and writing is tried again.
            cache.fs().sleep(std::time::Duration::from_secs(61));
        }
        world.machine(|machine| machine.setup.capacity = None);
        Cache::proves_usable(&world, &oracle, &[key(0), key(50)]);
    }
}

/// I14: a look-up in a process that has looked there twice before asks the kernel for nothing.
#[test]
fn sim_shards_a_warm_hit_is_no_call() {
    let world = World::new(setup(), 1);
    let oracle = Oracle::default();
    Cache::open(world.process(), &oracle).unwrap().put(&key(0), &body(0)).unwrap();
    let cache = Cache::open(world.process(), &oracle).unwrap();
    // The second one maps the segment.
    assert!(cache.get(&key(0)) && cache.get(&key(0)));
    let calls = cache.fs().calls();
    assert!(cache.get_quickly(&key(0)) && !cache.get_quickly(&key(7)));
    assert_eq!(cache.fs().calls(), calls, "I14: a warm look-up called the kernel");
    let writes = cache.fs().steps().1;
    assert!(cache.get(&key(0)) && !cache.get(&key(7)));
    assert_eq!(cache.fs().steps().1, writes, "I14: a look-up wrote");
}

/// I12: whatever is in whichever file is a miss at worst, or a shard that is made anew.
#[test]
fn sim_shards_survive_damage_of_any_file() {
    let oracle = Oracle::default();
    let fill = |world: &World| {
        let cache = Cache::open(world.process(), &oracle).expect("a new cache");
        cache.put(&key(0), &body(0)).expect("there is room");
        cache.put(&key(1), &body(1)).expect("there is room");
        cache.set_note(&key(0), &body(2)).expect("there is room");
        cache.clean();
    };
    let is_file = |content: &Content| matches!(content, Content::File { .. });
    let filled = World::new(setup(), 1);
    fill(&filled);
    let paths = filled.machine(|machine| machine.paths(&dir(), is_file));
    assert!(paths.len() >= 6, "{paths:?}");
    for path in &paths {
        let whole = filled.machine(|machine| machine.bytes(path)).expect("a file");
        let flipped = (0..24).map(|n| {
            let mut bytes = whole.clone();
            let at = n * bytes.len() / 24;
            bytes.get_mut(at..).and_then(<[u8]>::first_mut).into_iter().for_each(|b| *b ^= 0x40);
            bytes
        });
        let junk =
            [vec![], vec![0], vec![0; 5000], vec![0xff; 70_000], whole[..whole.len() / 2].into()];
        for bytes in junk.into_iter().chain(flipped) {
            let world = World::new(setup(), 1);
            fill(&world);
            world.machine(|machine| machine.place(path, Content::file_of(bytes), 1000, 0o600));
            let cache = Cache::proves_usable(&world, &oracle, &[key(0), key(1)]);
            cache.note(&key(0));
            cache.set_note(&key(0), &body(3)).expect("a cache that takes notes");
            assert_eq!(cache.note(&key(0)), Some(body(3)));
            cache.clean();
            cache.records.clear().expect("a cache that can be cleared");
            assert!(!cache.get(&key(0)) && cache.note(&key(0)).is_none());
        }
    }
}

/// I16: the machine watches what is read, mapped and written. Mutant: nobody asks whose a file is.
#[test]
fn sim_shards_use_nothing_untrusted() {
    let planted = World::new(setup(), 1);
    let put = |world: &World| {
        let cache = Cache::open(world.process(), &Oracle::default()).expect("a new cache");
        cache.put(&key(0), &body(0)).expect("there is room");
    };
    put(&planted);
    let paths = planted.machine(|machine| machine.paths(&format!("{}/{SPACE}", dir()), |_| true));
    for path in paths.iter().filter(|path| !path.ends_with(SPACE)) {
        let bytes = planted.machine(|machine| machine.bytes(path));
        let same = bytes.map_or(Content::directory(), Content::file_of);
        let contents: [(Content, u32, u32); 6] = [
            (same.clone(), 7, 0o755),
            (same.clone(), 1000, 0o770),
            (same, 1000, 0o707),
            (Content::Symlink("/other".into()), 1000, 0o777),
            (Content::Fifo, 1000, 0o600),
            (Content::directory(), 1000, 0o700),
        ];
        for (content, owner, mode) in contents {
            let oracle = Oracle::default();
            oracle.offer(&key(0), &body(0));
            let world = World::new(setup(), 1);
            put(&world);
            world.machine(|machine| {
                machine.place("/other", Content::directory(), 7, 0o777);
                machine.remove_tree(path);
                machine.place(path, content.clone(), owner, mode);
            });
            trust::use_it(&world, &oracle);
        }
    }
}

/// I17: a child goes on beside its parent, with what that had mapped, open and remembered.
pub(super) fn forked(run: &Run) {
    let oracle = Oracle::default();
    let parent = run.world().process();
    let of = |fs: &SimFs, n: u8| {
        let cache = Cache::limited(fs.clone(), &oracle, SMALL_SHARD).expect("a new cache");
        cache.put(&key(n), &[n; LONG]).expect("there is room");
        cache.get(&key(n));
        cache
    };
    let child = parent.same_process();
    let (of_parent, of_child) = (of(&parent, 10), of(&child, 11));
    child.act_as(parent.fork());
    run.process_on(parent, move |_| {
        of_parent.put_for_good(&key(0), &[0; LONG]);
        of_parent.get(&key(11));
        of_parent.get_quickly(&key(1));
    });
    run.process_on(child, move |_| {
        of_child.put_for_good(&key(1), &[1; LONG]);
        of_child.get(&key(10));
        of_child.get_quickly(&key(0));
    });
    run.join();
    Cache::proves_usable(run.world(), &oracle, &[key(0), key(1), key(10)]);
}

// Mutant: the inherited lock file is kept.
#[test]
fn sim_shards_go_on_in_a_forked_child() {
    sharded("shards: fork").bounded(1, forked).holds();
    sharded("shards: fork").random(200, forked).holds();
}

/// What each check is good for: it sees what is planted.
#[test]
fn sim_shards_mutants() {
    let pair = || warmed("shards: publish, wrongly").bounded(1, publish::pair);
    rejects("a record is published of which half was written", "I8", pair);
    rejects("a shard is written without its lock", "I", pair);
    let rebuilds = || to_be_rebuilt("shards: rebuild, wrongly").bounded(1, rebuilt);
    rejects("a new generation has none of the old one's entries", "I8", rebuilds);
    rejects("an old generation stays in use", "I8", rebuilds);
    let evicts = || to_be_evicted("shards: evict, wrongly").bounded(1, evicted);
    rejects("nothing is ever evicted", "I13", evicts);
    rejects("an entry dies before it is found elsewhere", "I9", evicts);
    let empties = || warmed("shards: empty, wrongly").bounded(1, emptied);
    rejects("the id of a segment that is gone is given again", "I4", empties);
    let damages = || sharded("shards: damage, wrongly").bounded(0, damaged);
    rejects("the checksum of a record is not compared", "I1", damages);
    let asks = || sharded("shards: flight, wrongly").bounded(1, flight::two);
    rejects("no other process is asked before a key is made", "I6", asks);
    let locks = warmed("shards: lock, wrongly").mutant(Mutant::UnlockUnlinks);
    locks.bounded(1, publish::pair).breaks("I5");
}
