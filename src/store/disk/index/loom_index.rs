//! The index's protocol under loom (every interleaving of a small case, up to a bound on
//! preemptions, with weak memory), under shuttle (many random ones) and on threads. The code is the
//! one that runs on mapped files; only the words are others, and the bytes of records are relaxed
//! words too, as bytes are that were written by a system call and are seen through a mapping.
//!
//! How to run them is written in [`crate::race`], whose harness they use.
//!
//! Each model asserts the set of outcomes over all executions: loom misses executions where a
//! thread loads a word before it replaces it, and a model that explored too little would pass for
//! the wrong reason. Each has mutants, which bend the words' behaviour ([`Bend`]) or change the
//! order of the writer's steps, and are seen to be rejected.

use std::ops::Deref;

use super::find::{Care, Generations, Reading, find};
use super::{Candidate, Index};
use crate::race::check;
use crate::store::disk::format::header::{
    DEAD as DEAD_COUNT, ENTRIES, FIXED_WORDS, HEADER_WORDS, IN_USE, IndexHeader, Place, SLOT_WORDS,
    STATE, TAIL,
};
use crate::store::disk::format::slot::{DEAD, EMPTY, Fingerprint, Location, Recency, STATE_MASK};
use crate::store::disk::format::{CacheId, SegmentId};
use crate::store::disk::words::{Words, WordsMut};
use crate::sync::{Arc, AtomicU64, Ordering, fence, thread};
use Ordering::{Acquire, Relaxed, Release};

/// How a thread's view of the words departs from the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bend {
    /// Not at all.
    No,
    /// Its stores release nothing.
    RelaxedStores,
    /// Its acquire fences do nothing.
    NoAcquire,
    /// It takes dead slots for empty ones, and so fills them again.
    ReusesDead,
    /// It compares, then stores.
    ReplaceInTwo,
    /// Its store of a slot's word 3 writes word 0 as well, with what it had just read there.
    WideTouch,
}

/// The words of an index, without those that no model looks at: loom pays for each.
#[derive(Debug)]
struct Few {
    fixed: [u64; FIXED_WORDS],
    counters: [AtomicU64; 4],
    slots: Vec<AtomicU64>,
}

impl Few {
    fn at(&self, at: usize) -> Option<&AtomicU64> {
        let counter = [STATE, TAIL, ENTRIES, DEAD_COUNT].iter().position(|&n| n == at);
        match counter {
            Some(n) => Some(&self.counters[n]),
            None => at.checked_sub(HEADER_WORDS).map(|n| &self.slots[n]),
        }
    }
}

/// One thread's view of the words.
#[derive(Clone, Debug)]
struct View {
    words: Arc<Few>,
    bend: Bend,
}

impl Words for View {
    fn len(&self) -> usize {
        HEADER_WORDS + self.words.slots.len()
    }

    fn load(&self, at: usize) -> u64 {
        let Some(word) = self.words.at(at) else {
            return self.words.fixed.get(at).copied().unwrap_or(0);
        };
        let value = word.load(Relaxed);
        let is_dead =
            at >= HEADER_WORDS && at.is_multiple_of(SLOT_WORDS) && value & STATE_MASK == DEAD;
        if self.bend == Bend::ReusesDead && is_dead { EMPTY } else { value }
    }

    fn acquire(&self) {
        if self.bend != Bend::NoAcquire {
            fence(Acquire);
        }
    }
}

impl WordsMut for View {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        let Some(word) = self.words.at(at) else { return assert_eq!(value, 0, "word {at}") };
        if self.bend == Bend::WideTouch && at >= HEADER_WORDS && at % SLOT_WORDS == 3 {
            let beside = self.words.at(at - 3).unwrap();
            let seen = beside.load(Relaxed);
            word.store(value, order);
            beside.store(seen, Relaxed);
            return;
        }
        word.store(value, if self.bend == Bend::RelaxedStores { Relaxed } else { order });
    }

    fn replace(&self, at: usize, current: u64, new: u64) -> bool {
        let word = self.words.at(at).unwrap();
        if self.bend == Bend::ReplaceInTwo {
            let is_current = word.load(Acquire) == current;
            if is_current {
                word.store(new, Release);
            }
            return is_current;
        }
        word.compare_exchange(current, new, Ordering::AcqRel, Relaxed).is_ok()
    }

    fn add(&self, at: usize, n: u64) -> u64 {
        self.words.at(at).unwrap().fetch_add(n, Relaxed)
    }
}

/// An empty index of 2 to `log2_slots` slots.
fn words(generation: u64, log2_slots: u8) -> Arc<Few> {
    let header = IndexHeader {
        cache: CacheId([7; 16]),
        shard: 3,
        generation,
        base: SegmentId(0),
        log2_slots,
        salt: [11, 13],
        place: Place { boot: [5; 16], device: 1, inode: generation },
    };
    Arc::new(Few {
        fixed: header.encode(),
        counters: [IN_USE, 0, 0, 0].map(AtomicU64::new),
        slots: (0..SLOT_WORDS << log2_slots).map(|_| AtomicU64::new(0)).collect(),
    })
}

fn view(words: &Arc<Few>, bend: Bend) -> Index<View> {
    Index::open(View { words: words.clone(), bend }).expect("the header is right")
}

/// The records of segment 1, 2, and so on: two words each, of which a reader must see both or be
/// told that the segment is gone.
#[derive(Debug)]
struct Segments(Vec<[AtomicU64; 3]>);

impl Segments {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Segments((0..count).map(|_| [0, 0, 0].map(AtomicU64::new)).collect()))
    }

    /// Writes segment `id`'s record, which says `what`.
    fn write(&self, id: u64, what: u64) -> Location {
        let [first, second, _] = &self.0[id as usize - 1];
        first.store(what, Relaxed);
        second.store(what, Relaxed);
        place(id)
    }

    /// What the record at a place says.
    fn read(&self, location: Location) -> Reading<u64> {
        let [first, second, gone] = &self.0[location.segment.0 as usize - 1];
        if gone.load(Acquire) == 1 {
            return Reading::Gone;
        }
        let (first, second) = (first.load(Relaxed), second.load(Relaxed));
        assert!(first == second && first != 0, "a published record is whole: {first} {second}");
        Reading::Whole(first)
    }

    fn unlink(&self, id: u64) {
        self.0[id as usize - 1][2].store(1, Release);
    }
}

fn place(id: u64) -> Location {
    Location { segment: SegmentId(id), offset: 64, length: 192 }
}

fn key(bits: u64) -> Fingerprint {
    Fingerprint::from_bits(bits)
}

/// One or two generations of a shard as one process sees them.
struct Process {
    generations: Vec<Index<View>>,
    /// Stands for the file `CURRENT`: renaming and opening it order what is around them.
    current: Arc<AtomicU64>,
    asks_current: bool,
}

#[derive(Clone)]
struct Held(Arc<Index<View>>);

impl Deref for Held {
    type Target = Index<View>;
    fn deref(&self) -> &Index<View> {
        &self.0
    }
}

impl Process {
    /// Holds the only generation there is.
    fn of(index: Index<View>) -> Self {
        Process {
            generations: vec![index],
            current: Arc::new(AtomicU64::new(0)),
            asks_current: true,
        }
    }

    fn get(&self, care: Care, key: Fingerprint, segments: &Segments) -> Option<u64> {
        let read = |_: &Held, candidate: &Candidate| segments.read(candidate.location);
        find(self, key, care, read).ok().map(|found| found.value)
    }
}

impl Generations for Process {
    type Words = View;
    type Held = Held;

    fn held(&self) -> Option<Held> {
        Some(Held(Arc::new(self.generations[0].clone())))
    }

    fn current(&self) -> Option<Held> {
        let n = if self.asks_current { self.current.load(Acquire) as usize } else { 0 };
        Some(Held(Arc::new(self.generations[n].clone())))
    }

    /// An index keeps its name until the next one is named, and a while longer.
    fn has_its_name(&self, _: &Held) -> bool {
        true
    }

    fn kill(&self, held: &Held, candidate: &Candidate) {
        held.0.kill(candidate);
    }
}

/// M1: a writer publishes, two readers look. Who sees the slot sees the record.
fn publish(writer: Bend, reader: Bend) {
    let both = [(None, None), (None, Some(9)), (Some(9), None), (Some(9), Some(9))];
    check("M1 publish", both, move || {
        let (index, segments) = (words(1, 1), Segments::new(1));
        let write = thread::spawn({
            let (index, segments) = (view(&index, writer), segments.clone());
            move || {
                let at = segments.write(1, 9);
                index.append(key(4), at, Recency::default()).unwrap();
                let own = Process::of(index).get(Care::Quick, key(4), &segments);
                assert_eq!(own, Some(9), "a writer finds what it put");
            }
        });
        let look = || {
            let (index, segments) = (view(&index, reader), segments.clone());
            thread::spawn(move || Process::of(index).get(Care::Quick, key(4), &segments))
        };
        let (one, two) = (look(), look());
        write.join().unwrap();
        (one.join().unwrap(), two.join().unwrap())
    });
}

#[test]
fn m1_who_sees_the_slot_sees_the_record() {
    publish(Bend::No, Bend::No);
}

#[cfg(loom)]
#[test]
#[should_panic(expected = "a published record is whole")]
fn m1_rejects_a_relaxed_publish() {
    publish(Bend::RelaxedStores, Bend::No);
}

#[cfg(loom)]
#[test]
#[should_panic(expected = "a published record is whole")]
fn m1_rejects_a_reader_that_does_not_acquire() {
    publish(Bend::No, Bend::NoAcquire);
}

/// M2: a writer replaces an entry twice while another thread, which found the first damaged, takes
/// that out, and a third looks. One of the two takes it out; nobody takes out another.
fn kill(writer: Bend, killer: Bend) {
    let by_writer = [1, 2, 3].map(|seen| (true, false, Some(seen)));
    let by_other = [None, Some(1), Some(2), Some(3)].map(|seen| (false, true, seen));
    check("M2 kill", by_writer.into_iter().chain(by_other), move || {
        let (index, segments) = (words(1, 2), Segments::new(3));
        let first = segments.write(1, 1);
        let first = view(&index, Bend::No).append(key(4), first, Recency::default()).unwrap();
        let write = thread::spawn({
            let (index, segments) = (view(&index, writer), segments.clone());
            move || {
                let second = segments.write(2, 2);
                let second = index.append(key(4), second, Recency::default()).unwrap();
                let killed = index.kill(&first);
                let third = segments.write(3, 3);
                index.append(key(4), third, Recency::default()).unwrap();
                assert!(index.kill(&second), "only its writer knows of it");
                killed
            }
        });
        let other = thread::spawn({
            let index = view(&index, killer);
            move || index.kill(&first)
        });
        let look = thread::spawn({
            let (index, segments) = (view(&index, Bend::No), segments.clone());
            move || Process::of(index).get(Care::Quick, key(4), &segments)
        });
        let (writer, other) = (write.join().unwrap(), other.join().unwrap());
        let index = view(&index, Bend::No);
        assert!(writer != other, "one of two takes an entry out");
        assert_eq!(index.recount(), index.counts(), "each dead slot was counted once");
        let last = Process::of(index).get(Care::Quick, key(4), &segments);
        assert_eq!(last, Some(3), "the last entry stays");
        (writer, other, look.join().unwrap())
    });
}

#[test]
fn m2_one_of_two_kills_and_of_the_right_entry() {
    kill(Bend::No, Bend::No);
}

#[cfg(any(loom, shuttle))]
#[test]
#[should_panic(expected = "one of two takes an entry out")]
fn m2_rejects_a_replace_in_two_steps() {
    kill(Bend::ReplaceInTwo, Bend::ReplaceInTwo);
}

#[cfg(any(loom, shuttle))]
#[test]
#[should_panic(expected = "one of two takes an entry out")]
fn m2_rejects_the_reuse_of_slots() {
    kill(Bend::ReusesDead, Bend::No);
}

/// The steps of a change of generation, in the order of a writer's doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Copy,
    Retire,
    Switch,
    Publish,
}

const STEPS: [Step; 4] = [Step::Copy, Step::Retire, Step::Switch, Step::Publish];

/// M3: a writer makes a new generation and publishes in it, while a reader that holds the old one
/// looks for what was there all along and for what is new.
fn generations(care: Care, asks_current: bool, steps: [Step; 4]) {
    // (it was told of the new entry before it looked, it found the new entry)
    let outcomes = [(false, false), (false, true), (true, true)];
    check(&format!("M3 generations, {care:?}"), outcomes, move || {
        let (old, new, segments) = (words(1, 1), words(2, 2), Segments::new(2));
        let (current, told) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let first = segments.write(1, 1);
        view(&old, Bend::No).append(key(4), first, Recency::default()).unwrap();
        let process = |asks_current| Process {
            generations: vec![view(&old, Bend::No), view(&new, Bend::No)],
            current: current.clone(),
            asks_current,
        };
        let write = thread::spawn({
            let (writer, segments, told) = (process(true), segments.clone(), told.clone());
            move || {
                let [old, new] = &writer.generations[..] else { unreachable!() };
                for step in steps {
                    match step {
                        Step::Copy => assert_eq!(old.rebuild_into(new, 0, |_| true).kept, 1),
                        Step::Switch => writer.current.store(1, Release),
                        Step::Retire => old.retire(),
                        Step::Publish => {
                            let second = segments.write(2, 2);
                            new.append(key(5), second, Recency::default()).unwrap();
                            told.store(1, Release);
                        }
                    }
                }
                let own = writer.get(care, key(5), &segments);
                assert_eq!(own, Some(2), "a writer finds what it put");
            }
        });
        let look = thread::spawn({
            let reader = process(asks_current);
            move || {
                let told = told.load(Acquire) == 1;
                let second = reader.get(care, key(5), &segments);
                let first = reader.get(care, key(4), &segments);
                assert_eq!(first, Some(1), "an entry that is always there is always found");
                assert!(second.is_some() || !told, "a published entry is found");
                (told, second.is_some())
            }
        });
        write.join().unwrap();
        look.join().unwrap()
    });
}

#[test]
fn m3_a_new_generation_hides_nothing() {
    generations(Care::Quick, true, STEPS);
}

#[test]
fn m3_a_new_generation_hides_nothing_from_who_asks_current() {
    generations(Care::Thorough, true, STEPS);
}

#[cfg(any(loom, shuttle))]
#[test]
#[should_panic(expected = "a published entry is found")]
fn m3_rejects_a_miss_that_is_not_looked_at_again() {
    generations(Care::Thorough, false, STEPS);
}

#[cfg(any(loom, shuttle))]
#[test]
#[should_panic(expected = "a published entry is found")]
fn m3_rejects_publishing_before_the_old_one_is_retired() {
    generations(Care::Quick, true, [Step::Copy, Step::Switch, Step::Publish, Step::Retire]);
}

#[cfg(loom)]
#[test]
#[should_panic(expected = "an entry that is always there is always found")]
fn m3_rejects_a_switch_to_an_unfinished_index() {
    generations(Care::Thorough, true, [Step::Retire, Step::Switch, Step::Copy, Step::Publish]);
}

/// M4: a writer carries an entry on, twice, and unlinks what it left behind, while two readers
/// look.
fn relocate(writer: Bend, reader: Bend, kills_first: bool) {
    let places = [1, 2, 3].into_iter().flat_map(|one| [1, 2, 3].map(|two| (one, two)));
    check("M4 relocate", places, move || {
        let (index, segments) = (words(1, 2), Segments::new(3));
        let first = segments.write(1, 1);
        let first = view(&index, Bend::No).append(key(4), first, Recency::default()).unwrap();
        let write = thread::spawn({
            let (index, segments) = (view(&index, writer), segments.clone());
            move || {
                let mut from = first;
                for id in [2, 3] {
                    let to = segments.write(id, id);
                    if kills_first {
                        index.kill(&from);
                    }
                    from = index.relocate(&from, to).unwrap();
                    segments.unlink(id - 1);
                }
                let own = Process::of(index).get(Care::Quick, key(4), &segments);
                assert_eq!(own, Some(3), "a writer finds what it put");
            }
        });
        let look = || {
            let (index, segments) = (view(&index, reader), segments.clone());
            thread::spawn(move || {
                let found = Process::of(index).get(Care::Quick, key(4), &segments);
                found.expect("an entry that is always there is always found")
            })
        };
        let (one, two) = (look(), look());
        write.join().unwrap();
        (one.join().unwrap(), two.join().unwrap())
    });
}

#[test]
fn m4_a_carried_entry_is_never_missed() {
    relocate(Bend::No, Bend::No, false);
}

#[cfg(any(loom, shuttle))]
#[test]
#[should_panic(expected = "an entry that is always there is always found")]
fn m4_rejects_killing_before_putting() {
    relocate(Bend::No, Bend::No, true);
}

#[cfg(any(loom, shuttle))]
#[test]
#[should_panic(expected = "an entry that is always there is always found")]
fn m4_rejects_the_reuse_of_slots() {
    relocate(Bend::ReusesDead, Bend::No, false);
}

#[cfg(loom)]
#[test]
#[should_panic(expected = "a published record is whole")]
fn m4_rejects_a_reader_that_does_not_acquire() {
    relocate(Bend::No, Bend::NoAcquire, false);
}

/// M5: two readers remember a use while a writer kills the entry and puts another.
fn touch(reader: Bend) {
    // (hour remembered in the end, whether each reader found the entry alive before)
    let outcomes =
        [(1, false, false), (7, true, false), (8, false, true), (7, true, true), (8, true, true)];
    check("M5 touch", outcomes, move || {
        let (index, segments) = (words(1, 2), Segments::new(2));
        let first = segments.write(1, 1);
        let used = Recency { hour: 1, ..Recency::default() };
        let first = view(&index, Bend::No).append(key(4), first, used).unwrap();
        let slot: Vec<u64> = index.slots[SLOT_WORDS * first.slot..][..3]
            .iter()
            .map(|word| word.load(Relaxed))
            .collect();
        let write = thread::spawn({
            let (index, segments) = (view(&index, Bend::No), segments.clone());
            move || {
                assert!(index.kill(&first));
                let second = segments.write(2, 2);
                index.append(key(5), second, Recency::default()).unwrap();
                let own = Process::of(index).get(Care::Quick, key(5), &segments);
                assert_eq!(own, Some(2), "a writer finds what it put");
            }
        });
        let look = |hour| {
            let index = view(&index, reader);
            thread::spawn(move || {
                let found = index.candidates(key(4)).next();
                found.is_some_and(|candidate| index.touch(&candidate, hour))
            })
        };
        let (one, two) = (look(7), look(8));
        write.join().unwrap();
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        let after = &index.slots[SLOT_WORDS * first.slot..][..4];
        assert_eq!(after[0].load(Relaxed), key(4).word(DEAD), "a dead slot stays dead");
        assert_eq!([1, 2].map(|n| after[n].load(Relaxed)), slot[1..], "its place never changes");
        assert_eq!(
            view(&index, Bend::No).candidates(key(5)).count(),
            1,
            "the other entry is whole"
        );
        (Recency::unpack(after[3].load(Relaxed)).hour, one, two)
    });
}

#[test]
fn m5_recency_disturbs_nothing() {
    touch(Bend::No);
}

#[cfg(any(loom, shuttle))]
#[test]
#[should_panic(expected = "a dead slot stays dead")]
fn m5_rejects_a_touch_that_writes_more() {
    touch(Bend::WideTouch);
}
