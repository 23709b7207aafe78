//! Looking an entry up while generations change and segments go.
//!
//! ```text
//!   held generation ──► candidates, latest first ──► read each ──► whole: found
//!        ▲                                             │ none
//!        │ another generation, or a segment was gone   ▼
//!        └───────────────────────────────── is this still the ground? ── yes: not there
//! ```
//!
//! Nothing is removed before what replaces it can be found: a moved entry's new slot is filled
//! before the old one is killed, an index is complete before `CURRENT` names it, and a segment is
//! unlinked last. So a look that fails says nothing if the ground moved under it; where it has not
//! moved, the entry is absent.
//!
//! Whether it moved, a word of the index tells without a system call: a writer retires a generation
//! before `CURRENT` names the next ([`Index::retire`]). What that word cannot tell is that someone
//! removed the directory by hand, or that this process's mapping went stale; the index's name can:
//! the file that is mapped has it, or `CURRENT` is asked.

use std::ops::Deref;

use super::{Candidate, Index};
use crate::store::disk::format::slot::Fingerprint;
use crate::store::disk::words::Words;

/// How often a look is repeated. Each time something replaced what was looked at, which takes a
/// writer far longer than the look.
const ROUNDS: usize = 16;

/// The generations of a shard's index, as a process has them open.
pub(crate) trait Generations {
    type Words: Words;
    /// An open generation: cheap to clone, and mapped for as long as it is held.
    type Held: Clone + Deref<Target = Index<Self::Words>>;

    /// The generation this process used last, without asking anyone.
    fn held(&self) -> Option<Self::Held>;
    /// The generation that `CURRENT` names now.
    fn current(&self) -> Option<Self::Held>;
    /// Whether the file that is mapped is the one that has the generation's name, in the directory that is at the
    /// path now: then its words are everybody's.
    fn has_its_name(&self, held: &Self::Held) -> bool;
    /// Takes out an entry that leads nowhere. Does nothing where the index may not be written.
    fn kill(&self, held: &Self::Held, candidate: &Candidate);
}

/// Why an entry was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The generation that is in use in the directory at the path says so.
    Certain,
    /// The generation that this process has open says so, or none could be opened.
    Unsure,
}

/// When a look that found nothing is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// When the generation says that it is in use: no system call.
    Quick,
    /// When the files say so too: before something dear is done because of the miss. One system call.
    Thorough,
}

/// What a candidate's place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading<T> {
    /// A whole record of the key.
    Whole(T),
    /// A whole record of another key.
    Other,
    /// Neither, on a second look at the file by its name.
    Damaged,
    /// The segment's name is gone.
    Gone,
}

/// An entry that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found<H, T> {
    /// The generation it was found in, for [`Index::touch`].
    pub(crate) held: H,
    pub(crate) candidate: Candidate,
    pub(crate) value: T,
}

/// The latest entry of `fingerprint` that `read` finds whole. An entry that is there from before
/// the call until after it is found, wherever it is moved meanwhile.
pub(crate) fn find<G: Generations, T>(
    generations: &G,
    fingerprint: Fingerprint,
    care: Care,
    mut read: impl FnMut(&G::Held, &Candidate) -> Reading<T>,
) -> Result<Found<G::Held, T>, Absent> {
    let mut held = match generations.held() {
        Some(held) if held.in_use() => held,
        _ => generations.current().ok_or(Absent::Unsure)?,
    };
    let mut suspects: Vec<Candidate> = Vec::new();
    for _ in 0..ROUNDS {
        let mut gone = Vec::new();
        let mut candidates = held.candidates(fingerprint);
        let first = candidates.next();
        // Nearly always there is one, and this allocates nothing.
        let others: Vec<Candidate> = candidates.collect();
        for candidate in others.into_iter().rev().chain(first) {
            match read(&held, &candidate) {
                Reading::Whole(value) => return Ok(Found { held, candidate, value }),
                Reading::Other => {}
                Reading::Damaged => generations.kill(&held, &candidate),
                // What was moved is gone from its old place only; what is gone twice leads nowhere.
                Reading::Gone if suspects.contains(&candidate) => {
                    generations.kill(&held, &candidate);
                }
                Reading::Gone => gone.push(candidate),
            }
        }
        if gone.is_empty() {
            let named = care == Care::Thorough && generations.has_its_name(&held);
            // Asked last: if it is in use now, nobody could have published elsewhere before.
            if (named || care == Care::Quick) && held.in_use() {
                return Err(if named { Absent::Certain } else { Absent::Unsure });
            }
        }
        let current = generations.current().ok_or(Absent::Unsure)?;
        if current.header() != held.header() {
            held = current;
            suspects.clear();
        } else if gone.is_empty() {
            return Err(Absent::Unsure);
        } else {
            suspects = gone;
        }
    }
    Err(Absent::Unsure)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::store::disk::format::header::{IndexHeader, Place};
    use crate::store::disk::format::slot::{Location, Recency};
    use crate::store::disk::format::{CacheId, SegmentId};
    use crate::store::disk::words::Array;
    use crate::sync::Arc;

    const KEY: u64 = 4;

    /// A process of several generations: asked for the current one, it says the next one each time,
    /// until the last.
    struct Process {
        generations: Vec<Arc<Index<Array>>>,
        current: Cell<usize>,
        asked: Cell<usize>,
        /// Whether the index that is held has its name.
        named: Cell<bool>,
        read_only: bool,
    }

    impl Process {
        fn new(generations: usize) -> Self {
            let generations = (0..generations as u64).map(|n| Arc::new(index(n))).collect();
            let (current, asked, named) = (Cell::new(0), Cell::new(0), Cell::new(true));
            Process { generations, current, asked, named, read_only: false }
        }

        fn put(&self, generation: usize, segment: u64) -> Candidate {
            let key = Fingerprint::from_bits(KEY);
            let location = Location { segment: SegmentId(segment), offset: 64, length: 192 };
            self.generations[generation].append(key, location, Recency::default()).unwrap()
        }

        /// The segments that are read, in their order, and the one that is found.
        fn find(&self, read: impl Fn(u64) -> Reading<()>) -> (Vec<u64>, Option<u64>) {
            let reads = RefCell::new(Vec::new());
            let found = find(self, Fingerprint::from_bits(KEY), Care::Quick, |_, candidate| {
                let segment = candidate.location.segment.0;
                reads.borrow_mut().push(segment);
                read(segment)
            });
            (reads.into_inner(), found.ok().map(|found| found.candidate.location.segment.0))
        }
    }

    fn index(generation: u64) -> Index<Array> {
        let header = IndexHeader {
            cache: CacheId([7; 16]),
            shard: 3,
            generation,
            base: SegmentId(0),
            log2_slots: 7,
            salt: [11, 13],
            place: Place { boot: [5; 16], device: 1, inode: generation },
        };
        Index::create(Array::new(IndexHeader::file_length(7) as usize / 8), header)
    }

    impl Generations for Process {
        type Words = Array;
        type Held = Arc<Index<Array>>;

        fn held(&self) -> Option<Self::Held> {
            self.generations.get(self.current.get()).cloned()
        }

        fn has_its_name(&self, _: &Self::Held) -> bool {
            self.named.get()
        }

        fn current(&self) -> Option<Self::Held> {
            self.asked.set(self.asked.get() + 1);
            let last = self.generations.len().saturating_sub(1);
            self.current.set(last.min(self.current.get() + 1));
            self.held()
        }

        fn kill(&self, held: &Self::Held, candidate: &Candidate) {
            if !self.read_only {
                held.kill(candidate);
            }
        }
    }

    /// Mutant: the order of insertion.
    #[test]
    fn the_latest_whole_record_is_found() {
        let process = Process::new(1);
        for segment in [1, 2, 3] {
            process.put(0, segment);
        }
        assert_eq!(process.find(|_| Reading::Whole(())), (vec![3], Some(3)));
        let of_another_key = |segment| {
            if segment == 3 { Reading::Other } else { Reading::Whole(()) }
        };
        assert_eq!(process.find(of_another_key), (vec![3, 2], Some(2)));
        assert_eq!(process.find(|_| Reading::Other), (vec![3, 2, 1], None));
        assert_eq!(process.generations[0].counts().dead, 0);
    }

    /// Mutant: damaged entries left alive.
    #[test]
    fn a_damaged_entry_is_taken_out() {
        let process = Process::new(1);
        for segment in [1, 2] {
            process.put(0, segment);
        }
        let damaged = |segment| if segment == 2 { Reading::Damaged } else { Reading::Whole(()) };
        assert_eq!(process.find(damaged), (vec![2, 1], Some(1)));
        assert_eq!(process.find(damaged), (vec![1], Some(1)));
    }

    /// Mutants: killed when gone once; never killed.
    #[test]
    fn an_entry_that_is_gone_twice_is_taken_out() {
        let process = Process::new(1);
        for segment in [1, 2, 3] {
            process.put(0, segment);
        }
        let gone = |segment| if segment == 1 { Reading::Other } else { Reading::Gone };
        assert_eq!(process.find(gone), (vec![3, 2, 1, 3, 2, 1], None));
        assert_eq!(process.generations[0].counts().dead, 2);
        assert_eq!(process.find(gone), (vec![1], None));

        let process = Process { read_only: true, ..Process::new(1) };
        process.put(0, 1);
        assert_eq!(process.find(|_| Reading::Gone), (vec![1, 1], None), "there is an end to it");
        assert_eq!(process.generations[0].counts().dead, 0);

        let process = Process::new(2);
        process.put(0, 1);
        process.put(1, 2);
        let moved = |segment| if segment == 1 { Reading::Gone } else { Reading::Whole(()) };
        assert_eq!(process.find(moved), (vec![1, 2], Some(2)));
        assert_eq!(process.generations[0].counts().dead, 0, "it was only moved");
    }

    /// Mutants: `Care` ignored, either way; a generation without its name believed; one believed that is not in use.
    #[test]
    fn a_thorough_miss_asks_whether_the_index_has_its_name() {
        let process = Process::new(1);
        let miss = |care| {
            let read = |_: &_, _: &Candidate| Reading::<()>::Other;
            let absent = find(&process, Fingerprint::from_bits(KEY), care, read).unwrap_err();
            (absent, process.asked.take())
        };
        assert_eq!(miss(Care::Quick), (Absent::Unsure, 0));
        assert_eq!(miss(Care::Thorough), (Absent::Certain, 0));
        process.named.set(false);
        assert_eq!(miss(Care::Quick), (Absent::Unsure, 0));
        assert_eq!(miss(Care::Thorough), (Absent::Unsure, 1));
        process.named.set(true);
        process.generations[0].retire();
        for care in [Care::Quick, Care::Thorough] {
            assert_eq!(miss(care), (Absent::Unsure, 2), "before it looks, and before it believes");
        }
    }

    #[test]
    fn a_look_at_ever_new_generations_ends() {
        let process = Process::new(100);
        let (reads, found) = process.find(|_| Reading::Other);
        assert_eq!((reads.len(), found), (0, None));
        process.generations.iter().for_each(|index| index.retire());
        process.current.set(0);
        assert_eq!(process.find(|_| Reading::Other), (vec![], None));
        assert!(process.asked.get() <= ROUNDS + 1);
        assert!(Process::new(0).find(|_| Reading::Whole(())).1.is_none(), "no generation at all");
    }
}
