//! Many keys at once: what nobody is making first, what others are making last.
//!
//! ```text
//!   1  look up every key            everything present is taken, no lock is touched
//!   2  walk over the missing ones   claim, lease, look up again, make; or pass by: another makes it
//!   3  come back to those           look up, pause, try again; after the deadline, make
//! ```
//!
//! Callers that start together thus make different keys, and nobody waits for a key while there is another
//! to make. No key is held while waiting.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::cell::{Claim, Follower};
use super::lease::ByteLocks;
use super::wait::{Backoff, Clock, Patience};
use super::walk::Walk;
use super::{Call, Got, Other, Permit, SingleFlight, Tiers};
use crate::key::Key;
use crate::store::Origin;

impl<T: Clone, L: ByteLocks, C: Clock> SingleFlight<T, L, C> {
    /// The values of `keys`, in their order, as [`get`](Self::get) gives them; none need have been looked
    /// for. `make` is told the place of the key. A key that stands twice is made once, unless making it
    /// failed.
    pub(crate) fn get_many<E>(
        &self,
        keys: &[Key],
        tiers: &impl Tiers<T>,
        make: impl FnMut(usize) -> Result<T, E>,
    ) -> Vec<Result<Got<T>, E>> {
        let results = keys.iter().map(|_| None).collect();
        let mut batch = Batch { flight: self, keys, tiers, make, results };
        let (missing, repeats) = batch.take_present();
        let left = batch.make_free(&missing);
        batch.wait_for(left);
        batch.repeat(repeats);
        batch.results.into_iter().map(|result| result.expect("every place is settled")).collect()
    }
}

/// One call's keys. A place is an index into `keys`, and of its result.
struct Batch<'b, T, L, C, S, M, E> {
    flight: &'b SingleFlight<T, L, C>,
    keys: &'b [Key],
    tiers: &'b S,
    make: M,
    results: Vec<Option<Result<Got<T>, E>>>,
}

/// Another is making the key: the thread that is followed, or else a process.
struct Busy<T>(Option<Follower<T>>);

impl<'b, T, L, C, S, M, E> Batch<'b, T, L, C, S, M, E>
where
    T: Clone,
    L: ByteLocks,
    C: Clock,
    S: Tiers<T>,
    M: FnMut(usize) -> Result<T, E>,
{
    /// Takes what is there. Gives the places of what is not, and of keys that stood before, with the place
    /// where they first stood.
    fn take_present(&mut self) -> (Vec<usize>, Vec<(usize, usize)>) {
        let mut first = HashMap::with_capacity(self.keys.len());
        let (mut missing, mut repeats) = (Vec::new(), Vec::new());
        // Whoever is about to make a key looks for it once more.
        let mut nothing = false;
        for (place, key) in self.keys.iter().enumerate() {
            match first.entry(key) {
                Entry::Occupied(first) => repeats.push((place, *first.get())),
                Entry::Vacant(entry) => {
                    entry.insert(place);
                    if !nothing && self.take(place, None) {
                        continue;
                    }
                    nothing = nothing || missing.is_empty() && self.tiers.is_empty();
                    missing.push(place);
                }
            }
        }
        (missing, repeats)
    }

    /// Makes what nobody else is making, and gives the places of the rest.
    fn make_free(&mut self, missing: &[usize]) -> Vec<usize> {
        let mut walk = Walk::new(missing.len(), self.flight.random());
        // After a key that others made come more of the kind: those cost a look-up, and no lock.
        let mut made_by_others = false;
        while let Some(at) = walk.next() {
            let place = missing[at];
            if made_by_others && self.take(place, None) {
                continue;
            }
            made_by_others = false;
            match self.visit(place, None) {
                Err(Busy(_)) => walk.busy(),
                Ok(()) => {
                    let result = self.results[place].as_ref();
                    made_by_others = matches!(result, Some(Ok(got)) if got.origin != Origin::Made);
                }
            }
        }
        walk.into_busy().into_iter().map(|at| missing[at]).collect()
    }

    /// Waits for what others are making, and makes what they do not.
    fn wait_for(&mut self, places: Vec<usize>) {
        let flight = self.flight;
        let patience = |&place: &usize| {
            Patience::begin(flight.clock.now(), self.tiers.cost(&self.keys[place]))
        };
        let patience: Vec<_> = places.iter().map(patience).collect();
        let mut left: Vec<_> = places.into_iter().zip(patience).collect();
        let mut backoff = Backoff::new(flight.random());
        loop {
            let before = left.len();
            let mut thread = None;
            left.retain(|&(place, patience)| {
                if self.take(place, Some(patience)) {
                    return false;
                }
                match self.visit(place, Some(patience)) {
                    Ok(()) => false,
                    Err(Busy(follower)) => {
                        thread = thread.take().or(follower);
                        true
                    }
                }
            });
            if left.is_empty() {
                return;
            }
            if left.len() < before {
                backoff.reset();
            }
            match thread {
                // What it comes to is seen in the next round.
                Some(follower) => drop(follower.wait(backoff.next())),
                None => flight.clock.sleep(backoff.next()),
            }
        }
    }

    /// Settles keys that stood before.
    fn repeat(&mut self, repeats: Vec<(usize, usize)>) {
        for (place, first) in repeats {
            self.results[place] = Some(match &self.results[first] {
                Some(Ok(got)) => {
                    Ok(Got { value: got.value.clone(), origin: Origin::Memory, duplicate: None })
                }
                _ => self.flight.get(&self.keys[place], self.tiers, || (self.make)(place)),
            });
        }
    }

    /// Settles the place if a tier has its key.
    fn take(&mut self, place: usize, patience: Option<Patience>) -> bool {
        let found = self.call(place, patience).look_up();
        let taken = found.is_some();
        self.results[place] = found.map(Ok);
        taken
    }

    /// Settles the place unless another is making its key. With `patience` also then, once it has run out.
    fn visit(&mut self, place: usize, patience: Option<Patience>) -> Result<(), Busy<T>> {
        let flight = self.flight;
        let mut call = self.call(place, patience);
        let result = match flight.cells.claim(call.key) {
            Claim::Follower(follower) => match call.gives_up(Other::Thread) {
                None => return Err(Busy(Some(follower))),
                Some(reason) => call.make(Permit::without(reason), || (self.make)(place)),
            },
            Claim::Leader(leader) => {
                let permit = match flight.acquire(&leader) {
                    Some(permit) => permit,
                    None => match call.gives_up(Other::Process) {
                        None => return Err(Busy(None)),
                        Some(reason) => Permit::without(reason),
                    },
                };
                let result = call.make(permit, || (self.make)(place));
                if let Ok(got) = &result {
                    leader.finish(got.value.clone());
                }
                result
            }
        };
        self.results[place] = Some(result);
        Ok(())
    }

    fn call(&self, place: usize, patience: Option<Patience>) -> Call<'b, T, L, C, S> {
        Call { flight: self.flight, key: &self.keys[place], tiers: self.tiers, patience }
    }
}
