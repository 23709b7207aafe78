//! Looking an entry up while generations change and segments go.
//!
//! ```text
//!   held generation ──► candidates, latest first ──► read each ──► whole: found
//!        ▲                                             │ none
//!        │ another generation, or a segment was gone   ▼
//!        └───────────────────────────────── is this still the ground? ── yes: not there
//! ```
//!
//! Nothing is removed before what replaces it can be found: a moved entry's new slot is filled before the
//! old one is killed, an index is complete before `CURRENT` names it, and a segment is unlinked last. So a
//! look that fails says nothing if the ground moved under it; where it has not moved, the entry is absent.
//!
//! Whether it moved, a word of the index tells without a system call: a writer retires every older
//! generation before it publishes in a new one ([`Index::settle`]). What that word cannot tell is that someone removed the
//! directory by hand, or that this process's mapping went stale; asking `CURRENT` can.

use std::ops::Deref;

use super::{Candidate, Index};
use crate::store::disk::format::slot::Fingerprint;
use crate::store::disk::words::Words;

/// How often a look is repeated. Each time something replaced what was looked at, which takes a writer far
/// longer than the look.
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
    /// Takes out an entry that leads nowhere. Does nothing where the index may not be written.
    fn kill(&self, held: &Self::Held, candidate: &Candidate);
}

/// When a look that found nothing is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// When the generation says that it is in use: no system call.
    Quick,
    /// When `CURRENT` says so: before something dear is done because of the miss.
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

/// The latest entry of `fingerprint` that `read` finds whole. An entry that is there from before the call
/// until after it is found, wherever it is moved meanwhile.
pub(crate) fn find<G: Generations, T>(
    generations: &G,
    fingerprint: Fingerprint,
    care: Care,
    mut read: impl FnMut(&G::Held, &Candidate) -> Reading<T>,
) -> Option<Found<G::Held, T>> {
    let mut held = match generations.held() {
        Some(held) if held.in_use() => held,
        _ => generations.current()?,
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
                Reading::Whole(value) => return Some(Found { held, candidate, value }),
                Reading::Other => {}
                Reading::Damaged => generations.kill(&held, &candidate),
                // What was moved is gone from its old place only: what is gone twice leads nowhere.
                Reading::Gone if suspects.contains(&candidate) => {
                    generations.kill(&held, &candidate);
                }
                Reading::Gone => gone.push(candidate),
            }
        }
        if care == Care::Quick && gone.is_empty() && held.in_use() {
            return None;
        }
        let current = generations.current()?;
        if current.header() != held.header() {
            held = current;
            suspects.clear();
        } else if gone.is_empty() {
            return None;
        } else {
            suspects = gone;
        }
    }
    None
}
