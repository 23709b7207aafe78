use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;

use super::rebuild::{Append, fit, may_append};
use super::*;
use crate::store::disk::format::header::Place;
use crate::store::disk::format::{CacheId, SegmentHeader, SegmentId};
use crate::store::disk::words::Array;
use crate::sync::{Arc, AtomicU64, Ordering};

const HERE: Place = Place { boot: [5; 16], device: 1, inode: 2 };

fn header(log2_slots: u8, salt: u64) -> IndexHeader {
    IndexHeader {
        cache: CacheId([7; 16]),
        shard: 3,
        generation: 1,
        base: SegmentId(10),
        log2_slots,
        salt: [salt, !salt],
        place: HERE,
    }
}

fn empty(header: IndexHeader) -> Index<Arc<Array>> {
    let words = HEADER_WORDS + SLOT_WORDS * header.slots();
    Index::create(Arc::new(Array::new(words)), header)
}

fn place(n: u64) -> Location {
    Location { segment: SegmentId(11 + n / 8), offset: 64 + n % 8 * 192, length: 192 }
}

fn fingerprint(bits: u64) -> Fingerprint {
    Fingerprint::from_bits(bits)
}

fn places<W: Words>(index: &Index<W>, key: Fingerprint) -> Vec<Location> {
    index.candidates(key).map(|candidate| candidate.location).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Insert {
        key: u64,
    },
    /// Kills the n-th of a key's entries.
    Kill {
        key: u64,
        n: usize,
    },
    Touch {
        key: u64,
        hour: u32,
    },
    Relocate {
        key: u64,
    },
    Rebuild {
        log2_slots: u8,
        salt: u64,
        keep: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    // Few keys: several entries of one, and chains that run together.
    let key = || 0..6_u64;
    prop_oneof![
        8 => key().prop_map(|key| Op::Insert { key }),
        4 => (key(), 0..4_usize).prop_map(|(key, n)| Op::Kill { key, n }),
        2 => (key(), 0..3_u32).prop_map(|(key, hour)| Op::Touch { key, hour }),
        2 => key().prop_map(|key| Op::Relocate { key }),
        1 => (1..6_u8, any::<u64>(), any::<u64>())
            .prop_map(|(log2_slots, salt, keep)| Op::Rebuild { log2_slots, salt, keep }),
    ]
}

/// The live places of each key in the order of their insertion, with hour and uses.
type Model = HashMap<u64, Vec<(Location, Recency)>>;

fn check(index: &Index<Arc<Array>>, model: &Model) {
    for key in 0..6 {
        let expected: Vec<Location> =
            model.get(&key).into_iter().flatten().map(|(place, _)| *place).collect();
        assert_eq!(places(index, fingerprint(key)), expected, "key {key}");
    }
    let all: BTreeSet<_> = index
        .entries()
        .map(|(c, r)| (c.fingerprint, c.location.segment, c.location.offset, r.pack()))
        .collect();
    let expected: BTreeSet<_> = model
        .iter()
        .flat_map(|(key, places)| {
            places.iter().map(|(l, r)| (fingerprint(*key), l.segment, l.offset, r.pack()))
        })
        .collect();
    assert_eq!(all, expected);
    assert_eq!(index.counts(), index.recount());
    assert_eq!(index.counts().live() as usize, expected.len());
    assert!(index.tail().is_none_or(|tail| !index.overruns(tail)));
}

proptest! {
    /// Mutants: entries listed from slot 0 (order lost where a chain wraps); `kill` without its
    /// count; the seal without the slot's number in `insert` only; `relocate` without `kill`;
    /// `touch` always.
    #[test]
    fn an_index_is_a_map_of_lists(ops in prop::collection::vec(op(), 1..80), salt in any::<u64>()) {
        let mut index = empty(header(3, salt));
        let mut model = Model::new();
        let mut next = 0;
        for op in ops {
            match op {
                Op::Insert { key } => {
                    let used = Recency::new(1, key);
                    match index.append(fingerprint(key), place(next), used) {
                        Ok(_) => model.entry(key).or_default().push((place(next), used)),
                        Err(refused) => {
                            prop_assert_eq!(refused, Refused::Full);
                            prop_assert_eq!(index.counts().entries as usize + 1, index.header().slots());
                        }
                    }
                    next += 1;
                }
                Op::Kill { key, n } => {
                    let candidate = index.candidates(fingerprint(key)).nth(n);
                    let list = model.entry(key).or_default();
                    prop_assert_eq!(candidate.is_some(), n < list.len());
                    if let Some(candidate) = candidate {
                        list.remove(n);
                        prop_assert!(index.kill(&candidate));
                        prop_assert!(!index.kill(&candidate), "it is dead already");
                    }
                }
                Op::Touch { key, hour } => {
                    if let Some(candidate) = index.candidates(fingerprint(key)).next() {
                        let (_, used) = &mut model.get_mut(&key).unwrap()[0];
                        prop_assert_eq!(index.touch(&candidate, hour), used.hour != hour);
                        if used.hour != hour {
                            *used = used.used(hour);
                        }
                    }
                }
                Op::Relocate { key } => {
                    if let Some(candidate) = index.candidates(fingerprint(key)).next() {
                        if index.relocate(&candidate, place(next)).is_ok() {
                            let list = model.get_mut(&key).unwrap();
                            let (_, used) = list.remove(0);
                            list.push((place(next), used));
                        }
                        next += 1;
                    }
                }
                Op::Rebuild { log2_slots, salt, keep } => {
                    let wanted = |place: &Location| keep >> (place.offset / 64 % 64) & 1 == 1;
                    let live = index.counts().live();
                    let new = empty(header(log2_slots, salt));
                    let rebuilt =
                        index.rebuild_into(&new, 1, |candidate| wanted(&candidate.location));
                    prop_assert_eq!(rebuilt.kept + rebuilt.dropped + rebuilt.refused, live);
                    if rebuilt.refused > 0 {
                        prop_assert_eq!(rebuilt.kept as usize + 1, new.header().slots());
                        continue;
                    }
                    index.retire();
                    prop_assert!(!index.in_use() && new.in_use());
                    index = new;
                    for list in model.values_mut() {
                        list.retain(|(place, _)| wanted(place));
                        list.iter_mut().for_each(|(_, used)| used.hour = used.hour.min(1));
                    }
                }
            }
            check(&index, &model);
        }
    }

    /// Whatever the words of slots and counters are: no panic, no more than 64 probes, and no
    /// candidate but those that were put into exactly that slot. Mutants: the seal not checked; a
    /// seal without slot or fingerprint.
    #[test]
    fn arbitrary_words_yield_only_what_was_put(
        keys in prop::collection::vec(0..40_u64, 0..40),
        harm in prop::collection::vec((STATE..HEADER_WORDS + SLOT_WORDS * 64, harm()), 0..60),
        log2_slots in 0..7_u8,
    ) {
        let index = empty(header(log2_slots, 99));
        let mut put = BTreeSet::new();
        for (n, key) in keys.into_iter().enumerate() {
            if let Ok(c) = index.append(fingerprint(key), place(n as u64), Recency::default()) {
                put.insert((c.slot, c.fingerprint, c.location.segment, c.location.offset));
            }
        }
        let words = index.words.clone();
        for (at, harm) in harm {
            let at = at.min(words.len() - 1);
            let value = match harm {
                Harm::Any(value) => value,
                Harm::Flip(bit) => words.load(at) ^ 1 << bit,
                Harm::State(state) => words.load(at) & !STATE_MASK | state,
                Harm::Copy(from) => words.load(HEADER_WORDS + from % (words.len() - HEADER_WORDS)),
            };
            words.store(at, value, Relaxed);
        }
        let index = Index::open(words).expect("the header is whole");
        for key in 0..40 {
            let found: Vec<_> = index.candidates(fingerprint(key)).collect();
            prop_assert!(found.len() <= PROBES);
            for c in found {
                prop_assert_eq!(c.fingerprint, fingerprint(key));
                let candidate = (c.slot, c.fingerprint, c.location.segment, c.location.offset);
                prop_assert!(put.contains(&candidate), "{:?} was never put", c);
            }
        }
        prop_assert!(index.entries().count() <= index.header().slots());
        prop_assert!(index.recount().live() as usize <= index.header().slots());
        if let Some(tail) = index.tail() {
            index.overruns(tail);
            may_append(&index, HERE, None, false);
        }
        index.next_base(SegmentId(500));
        let new = empty(header(7, 1));
        let rebuilt = index.rebuild_into(&new, 0, |_| true);
        prop_assert_eq!(new.recount().live(), rebuilt.kept);
        prop_assert_eq!(new.counts(), new.recount());
        for key in 0..40 {
            if let Ok(c) = index.append(fingerprint(key), place(key), Recency::default()) {
                prop_assert!(index.candidates(fingerprint(key)).any(|found| found == c));
                index.touch(&c, 7);
                index.kill(&c);
            }
            index.attempt(fingerprint(key));
        }
    }

    /// Any words at all, header and all.
    #[test]
    fn arbitrary_files_are_an_index_or_none(
        words in prop::collection::vec(any::<u64>(), 0..600),
        with_header in any::<bool>(),
        log2_slots in 0..5_u8,
    ) {
        let words = Array::of(words);
        if with_header && words.len() >= FIXED_WORDS {
            for (at, word) in header(log2_slots, 1).encode().into_iter().enumerate() {
                words.store(at, word, Relaxed);
            }
        }
        let right = HEADER_WORDS + (SLOT_WORDS << log2_slots);
        let (length, opened) = (words.len(), Index::open(words));
        prop_assert_eq!(opened.is_ok(), with_header && length == right);
        if let Ok(index) = opened {
            prop_assert_eq!(index.entries().count(), 0, "no seal is right by chance");
        }
    }
}

#[derive(Clone, Debug)]
enum Harm {
    Any(u64),
    Flip(u32),
    State(u64),
    /// Another word of the slots: moved slots, if it happens to four in a row.
    Copy(usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        any::<u64>().prop_map(Harm::Any),
        (0..64_u32).prop_map(Harm::Flip),
        (0..4_u64).prop_map(Harm::State),
        any::<usize>().prop_map(Harm::Copy),
    ]
}

/// Mutant: a seal without the slot's number.
#[test]
fn a_slot_copied_elsewhere_is_none() {
    let index = empty(header(3, 1));
    let c = index.insert(fingerprint(1), place(0), Recency::default()).unwrap();
    for to in (0..8).filter(|to| *to != c.slot) {
        for n in 0..4 {
            index.words.store(word(to, n), index.words.load(word(c.slot, n)), Relaxed);
        }
    }
    assert_eq!(index.candidates(fingerprint(1)).collect::<Vec<_>>(), [c]);
    assert_eq!(index.entries().count(), 1);
}

/// A table without an empty slot, of one fingerprint: neither a search nor an insertion goes round
/// for ever, and the answer is a rebuild. Mutant: `PROBES` without bound.
#[test]
fn a_full_table_refuses_and_a_larger_one_takes_over() {
    let index = empty(header(7, 1));
    let mut put = 0;
    let refused = loop {
        match index.append(fingerprint(1), place(put), Recency::default()) {
            Ok(_) => put += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!((put, refused), (PROBES as u64, Refused::Full));
    for other in 2..400 {
        let _ = index.insert(fingerprint(other), place(other), Recency::default());
    }
    for slot in 0..128 {
        index.words.store(word(slot, 0), fingerprint(77).word(LIVE), Relaxed);
    }
    assert_eq!(index.candidates(fingerprint(78)).count(), 0);
    assert_eq!(index.insert(fingerprint(78), place(0), Recency::default()), Err(Refused::Full));
    let far = Location { segment: SegmentId(1 << 30), ..place(0) };
    assert_eq!(index.insert(fingerprint(1), far, Recency::default()), Err(Refused::OutOfReach));
}

/// How long searches are at the fill at which an index is rebuilt: 64 probes are enough.
#[test]
fn half_full_tables_need_no_more_than_64_probes() {
    for salt in 0..4 {
        let index = empty(header(16, salt));
        let mut bits = salt;
        for n in 0..1 << 15 {
            bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let c = index.insert(fingerprint(bits), place(n % 1000), Recency::default()).unwrap();
            let home = c.fingerprint.home(index.header().salt, 16);
            assert!((c.slot + (1 << 16) - home) % (1 << 16) < PROBES);
        }
    }
}

/// Words on which a writer dies after so many writes.
#[derive(Clone, Debug)]
struct Dying {
    words: Arc<Array>,
    left: Arc<AtomicU64>,
}

impl Dying {
    fn lives(&self) -> bool {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        left > 0
    }
}

impl Words for Dying {
    fn len(&self) -> usize {
        self.words.len()
    }
    fn load(&self, at: usize) -> u64 {
        self.words.load(at)
    }
    fn acquire(&self) {
        self.words.acquire();
    }
}

impl WordsMut for Dying {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        if self.lives() {
            self.words.store(at, value, order);
        }
    }
    fn replace(&self, at: usize, current: u64, new: u64) -> bool {
        self.lives() && self.words.replace(at, current, new)
    }
    fn add(&self, at: usize, n: u64) -> u64 {
        if self.lives() { self.words.add(at, n) } else { self.words.load(at) }
    }
}

/// A writer that is killed between any two of its writes leaves an index whose entries are all
/// before the tail, in which what was there is found, and in which the next writer goes on.
/// Mutants: slot before tail in `append`; word 0 before the others in `insert`; `kill` before
/// `append` in `relocate`.
#[test]
fn a_writer_may_die_at_any_write() {
    let mut steps = 0;
    loop {
        let index = empty(header(3, 1));
        let old = index.append(fingerprint(1), place(0), Recency::default()).unwrap();
        let left = Arc::new(AtomicU64::new(steps));
        let dying = Dying { words: index.words.clone(), left: left.clone() };
        let dying = Index::open(dying).unwrap();
        let new = dying.append(fingerprint(2), place(1), Recency::default()).unwrap();
        let moved = dying.relocate(&old, place(2)).unwrap();
        let finished = left.load(Relaxed) > 0;

        let tail = index.tail().unwrap();
        assert!(!index.overruns(tail), "after {steps} writes");
        let all: Vec<_> = index.entries().map(|(c, _)| c).collect();
        assert!(all.iter().all(|c| [old, new, moved].contains(c)), "after {steps} writes");
        let first = places(&index, fingerprint(1));
        assert!(!first.is_empty() && first.iter().all(|p| [place(0), place(2)].contains(p)));
        assert!(index.counts().entries.abs_diff(index.recount().entries) <= 1);

        let end = Location { segment: tail.segment, offset: tail.end, length: 64 };
        let next = index.append(fingerprint(3), end, Recency::default()).unwrap();
        assert_eq!(places(&index, fingerprint(3)), [end]);
        assert!(!all.iter().any(|c| c.slot == next.slot));
        index.set_counts(index.recount());
        assert_eq!(index.counts().live(), index.entries().count() as u64);
        if finished {
            assert_eq!(first, [place(2)]);
            break;
        }
        steps += 1;
    }
    assert!(steps > 12, "all writes were cut at: {steps}");
}

/// Mutants: each condition of `may_append` dropped.
#[test]
fn appending_needs_the_boot_the_file_the_segment_and_a_tail_behind_all_entries() {
    let index = empty(header(3, 1));
    let segment = |id| SegmentHeader {
        cache: CacheId([7; 16]),
        shard: 3,
        id: SegmentId(id),
        boot: HERE.boot,
    };
    assert_eq!(may_append(&index, HERE, None, false), Append::Roll, "nothing to append to");
    index.append(fingerprint(1), place(0), Recency::default()).unwrap();
    let tail = Tail { segment: SegmentId(11), end: place(0).end() };
    let may = |segment, checked| may_append(&index, HERE, segment, checked);
    assert_eq!(may(Some(segment(11)), false), Append::At(tail));
    for place in
        [Place { boot: [6; 16], ..HERE }, Place { device: 9, ..HERE }, Place { inode: 9, ..HERE }]
    {
        assert_eq!(may_append(&index, place, Some(segment(11)), true), Append::Rebuild);
    }
    for other in [
        None,
        Some(segment(12)),
        Some(SegmentHeader { boot: [6; 16], ..segment(11) }),
        Some(SegmentHeader { shard: 4, ..segment(11) }),
        Some(SegmentHeader { cache: CacheId([8; 16]), ..segment(11) }),
    ] {
        assert_eq!(may(other, true), Append::Roll, "{other:?}");
    }
    index.insert(fingerprint(2), place(1), Recency::default()).unwrap();
    assert_eq!(may(Some(segment(11)), false), Append::Roll, "an entry lies beyond the tail");
    assert_eq!(may(Some(segment(11)), true), Append::At(tail), "checked once is enough");
}

#[test]
fn a_record_goes_behind_the_tail_or_not_at_all() {
    let tail = Tail { segment: SegmentId(11), end: 640 };
    let at = Location { segment: SegmentId(11), offset: 640, length: 384 };
    assert_eq!(fit(tail, 384, 1024), Some(at));
    assert_eq!(fit(tail, 448, 1024), None);
    assert_eq!(fit(tail, u64::MAX, 1024), None);
    assert_eq!(fit(Tail { end: u64::MAX - 63, ..tail }, 64, 1024), None);
}

#[test]
fn a_new_base_keeps_what_lives_in_reach() {
    let index = empty(header(3, 1));
    assert_eq!(index.next_base(SegmentId(500)), SegmentId(499));
    index.insert(fingerprint(1), place(80), Recency::default()).unwrap();
    index.insert(fingerprint(2), place(8), Recency::default()).unwrap();
    assert_eq!(index.next_base(SegmentId(500)), SegmentId(11));
    assert_eq!(index.next_base(SegmentId(0)), SegmentId(0));
    assert_eq!(index.next_base(SegmentId(3 << 20)), SegmentId((2 << 20) - 1));
    let reaches = [10, 11, 9 + (1 << 21), 10 + (1 << 21)].map(|id| index.reaches(SegmentId(id)));
    assert_eq!(reaches, [false, true, true, false]);
}

#[test]
fn attempts_are_counted_and_survive_a_rebuild() {
    let index = empty(header(3, 1));
    assert_eq!([0, 1, 2].map(|_| index.attempt(fingerprint(5))), [0, 1, 2]);
    let new = empty(header(4, 2));
    index.rebuild_into(&new, 0, |_| true);
    assert_eq!((new.attempts(fingerprint(5)), new.attempts(fingerprint(6))), (3, 0));
    new.forgive(fingerprint(5));
    assert_eq!(new.attempts(fingerprint(5)), 0);
}

#[test]
fn an_unknown_state_is_no_reason_to_believe_a_miss() {
    let index = empty(header(3, 1));
    assert!(index.in_use());
    index.words.store(STATE, 77, Relaxed);
    assert!(!index.in_use());
}
