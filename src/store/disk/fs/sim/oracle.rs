//! What the processes of a run agree on in hindsight: what was offered, and so what a hit may be; what has
//! been published for good; who is where nobody else may be.

use std::collections::{BTreeMap, BTreeSet};

use super::SimFs;
use super::op::Pid;
use crate::key::Key;
use crate::sync::{Arc, Mutex};

/// Shared by all processes of a run. Clones are the same oracle.
#[derive(Clone, Default)]
pub(crate) struct Oracle(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    offered: BTreeMap<Key, BTreeSet<Vec<u8>>>,
    present: BTreeSet<Key>,
    inside: BTreeMap<u64, Pid>,
}

impl Oracle {
    /// Somebody is about to publish this.
    pub(crate) fn offer(&self, key: &Key, body: &[u8]) {
        self.0.lock().offered.entry(*key).or_default().insert(body.to_vec());
    }

    /// `fs` published `key`, or found it published, and nothing in this run removes it: from now on every
    /// look-up hits.
    pub(crate) fn published(&self, fs: &SimFs, key: &Key) {
        fs.witness(key.word(0), true);
        self.0.lock().present.insert(*key);
    }

    /// What was published may have gone, as after a power cut.
    pub(crate) fn forget_published(&self) {
        self.0.lock().present.clear();
    }

    /// Whether a look-up that `fs` begins now has to hit.
    pub(crate) fn must_hit(&self, fs: &SimFs, key: &Key) -> bool {
        fs.witness(key.word(0), false);
        self.0.lock().present.contains(key)
    }

    /// Checks a look-up's result. `must_hit` was asked before it began.
    ///
    /// # Panics
    ///
    /// If nobody offered this body under this key (I1), or if there is none and had to be one (I8).
    pub(crate) fn looked_up(&self, key: &Key, found: Option<&[u8]>, must_hit: bool) {
        match found {
            Some(body) => {
                let seen = self.0.lock();
                let known = seen.offered.get(key).is_some_and(|bodies| bodies.contains(body));
                assert!(known, "I1: a hit that nobody offered: {} bytes", body.len());
            }
            None => assert!(!must_hit, "I8: a miss of what was published"),
        }
    }

    /// `fs` is where one process at a time may be, from now on.
    ///
    /// # Panics
    ///
    /// If another one is there (I5).
    pub(crate) fn enter(&self, fs: &SimFs, place: u64) {
        fs.witness(place, true);
        let mut seen = self.0.lock();
        // Looked at with the machine standing still: one that was killed since its last step is not there.
        fs.world.machine(|machine| {
            if machine.process(fs.pid()).alive {
                let before = seen.inside.insert(place, fs.pid());
                let is_alive = before.is_some_and(|before| machine.process(before).alive);
                assert!(!is_alive, "I5: two inside at once");
            }
        });
    }

    /// `fs` goes away from there.
    pub(crate) fn leave(&self, fs: &SimFs, place: u64) {
        fs.witness(place, true);
        // Killed since, it has left already, and another may be there.
        let mut seen = self.0.lock();
        if seen.inside.get(&place) == Some(&fs.pid()) {
            seen.inside.remove(&place);
        }
    }
}
