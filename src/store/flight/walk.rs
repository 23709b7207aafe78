//! The order in which one caller works through keys that others may be working through as well.
//!
//! Each caller begins somewhere else and goes on in order. Where it meets a key that another is making, that
//! one probably goes on in order, too: so it leaves the nearer half of what lies ahead for later and goes
//! on with the farther one. Two callers then meet about log(n) times instead of at every key.
//!
//! ```text
//!   A ────────────►                         A made this far, B stands before A's key
//!                  │◄── later ──►│◄── B goes on here ──►│
//! ```

use std::ops::Range;

/// A walk over the numbers below `length`, each returned until it is not [`busy`](Self::busy).
#[derive(Debug)]
pub(crate) struct Walk {
    length: usize,
    offset: usize,
    /// Positions not yet visited, the next ones last. Position 0 is number `offset`.
    ahead: Vec<Range<usize>>,
    busy: Vec<usize>,
}

impl Walk {
    /// A walk that begins at `start`, taken modulo `length`.
    pub(crate) fn new(length: usize, start: u64) -> Self {
        let offset = start.checked_rem(length as u64).unwrap_or(0) as usize;
        let whole = 0..length;
        Walk { length, offset, ahead: vec![whole], busy: Vec::new() }
    }

    /// The next number to try.
    pub(crate) fn next(&mut self) -> Option<usize> {
        while let Some(range) = self.ahead.last_mut() {
            match range.next() {
                Some(position) => return Some(self.number(position)),
                None => drop(self.ahead.pop()),
            }
        }
        None
    }

    /// Another is making the number that [`next`](Self::next) just returned.
    pub(crate) fn busy(&mut self) {
        let Some(Range { start, end }) = self.ahead.pop() else { return };
        let position = start - 1;
        if start == end {
            // It stood last: nothing of this walk lies between it and what was left for later.
            self.busy.push(self.number(position));
        } else {
            let middle = start + (end - start) / 2;
            self.ahead.extend([position..middle, middle..end]);
        }
    }

    /// The numbers that were busy to the last.
    pub(crate) fn into_busy(self) -> Vec<usize> {
        self.busy
    }

    fn number(&self, position: usize) -> usize {
        (position + self.offset) % self.length
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use proptest::prelude::*;

    use super::Walk;

    /// Workers on one list, in simulated time: to make a key takes 100, to load one 10, to meet a busy one
    /// 1. Says when the last worker was through, how often a key was made, and how often one was met busy.
    fn simulate(length: usize, starts: &[u64], busy: impl Fn(&mut Walk)) -> (u64, usize, usize) {
        #[derive(Clone, Copy)]
        enum Key {
            Missing,
            MadeAt(u64),
        }
        let mut keys = vec![Key::Missing; length];
        let mut workers: Vec<_> = starts.iter().map(|&at| (0, Walk::new(length, at))).collect();
        let (mut made, mut met, mut last) = (0, 0, 0);
        // Always the worker that is behind in time goes on, so that it sees what happened before.
        while let Some(at) = (0..workers.len()).min_by_key(|&at| workers[at].0) {
            let (now, walk) = &mut workers[at];
            let Some(key) = walk.next() else {
                let (now, walk) = workers.remove(at);
                let waits = walk.into_busy().into_iter().map(|key| match keys[key] {
                    Key::Missing => unreachable!("a busy key is being made"),
                    Key::MadeAt(when) => when,
                });
                last = waits.chain([now, last]).max().unwrap();
                continue;
            };
            match keys[key] {
                Key::Missing => {
                    *now += 100;
                    keys[key] = Key::MadeAt(*now);
                    made += 1;
                }
                Key::MadeAt(when) if when > *now => {
                    *now += 1;
                    busy(walk);
                    met += 1;
                }
                Key::MadeAt(_) => *now += 10,
            }
        }
        (last, made, met)
    }

    // Mutants: `busy` drops the nearer half; `busy` does not record the last one; `next` forgets `offset`.
    proptest! {
        #[test]
        fn every_number_is_settled_or_busy(
            length in 0..200_usize,
            start: u64,
            busy in proptest::collection::vec(proptest::bool::weighted(0.3), 0..1000),
        ) {
            let mut walk = Walk::new(length, start);
            let mut busy = busy.into_iter();
            let mut settled = vec![];
            let mut first = None;
            while let Some(number) = walk.next() {
                first = first.or(Some(number));
                if busy.next().unwrap_or(false) { walk.busy() } else { settled.push(number) }
            }
            prop_assert_eq!(first, (length > 0).then(|| (start % length.max(1) as u64) as usize));
            settled.extend(walk.into_busy());
            settled.sort_unstable();
            prop_assert_eq!(settled, (0..length).collect::<Vec<_>>());
        }

        // The promise of a shared cold start, with the costs of compiles and loads as above. Mutant: `busy`
        // goes on with the next key; the workers then meet at every other key.
        #[test]
        fn two_workers_share_the_work(length in 100..1000_usize, starts: [u64; 2]) {
            let (took, made, met) = simulate(length, &starts, Walk::busy);
            prop_assert_eq!(made, length);
            prop_assert!(took <= 60 * length as u64, "{took} for {length} keys");
            prop_assert!(met <= 60, "met {met} times");
        }

        #[test]
        fn four_workers_share_the_work(length in 100..1000_usize, starts: [u64; 4]) {
            let (took, made, _) = simulate(length, &starts, Walk::busy);
            prop_assert_eq!(made, length);
            prop_assert!(took <= 40 * length as u64, "{took} for {length} keys");
        }
    }

    #[test]
    fn workers_that_begin_at_one_key_share_the_work_too() {
        for workers in [2, 4] {
            let (took, made, _) = simulate(1000, &vec![7; workers], Walk::busy);
            assert_eq!(made, 1000);
            assert!(took <= 1000 * (100 / workers as u64 + 15), "{took} for {workers}");
        }
    }
}
