//! State that a forked child does not share with its parent.
//!
//! A child has a copy of whatever its parent's threads were in the middle of, and none of those threads:
//! claims that nobody will settle, mutexes that nobody will unlock. So such state hangs in a chain, of which a process
//! uses the last link alone, and appends its own when the last one is another's:
//!
//! ```text
//!   parent 71 ──► child 84 ──► grandchild 90       each process has its own copy of the chain up to itself
//! ```

use crate::sync::fork::SetOnce;

/// A value per process.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    process: u32,
    value: T,
    child: SetOnce<PerProcess<T>>,
}

impl<T> PerProcess<T> {
    pub(crate) fn new(process: u32, value: T) -> Self {
        PerProcess { process, value, child: SetOnce::new() }
    }

    /// The value of `process`, which is the calling one. A child's first call makes its own.
    pub(crate) fn get(&self, process: u32, make: impl FnOnce() -> T) -> &T {
        let mut last = self;
        while let Some(child) = last.child.get() {
            last = child;
        }
        // Only the last link is compared: an earlier process may be dead and its id in use again.
        if last.process == process {
            return &last.value;
        }
        // Nobody waits for a thread that is at the same: in a child that is forked meanwhile it never ends.
        &last.child.set(PerProcess::new(process, make())).value
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::PerProcess;

    // Mutant: compare every link instead of the last one; the grandchild then gets the first value.
    #[test]
    fn each_process_has_its_own_value() {
        let chain = PerProcess::new(71, 'a');
        assert_eq!(*chain.get(71, || unreachable!()), 'a');
        assert_eq!(*chain.get(84, || 'b'), 'b');
        assert_eq!(*chain.get(84, || unreachable!()), 'b');
        // The first process has ended, and a grandchild got its id.
        assert_eq!(*chain.get(71, || 'c'), 'c');
    }

    /// The first thread stands for one that was at it when the second one's process was forked. Mutant: `OnceLock` in
    /// place of `SetOnce`; the test does not end.
    #[test]
    fn a_link_that_is_being_made_is_not_waited_for() {
        let chain = PerProcess::new(71, 'a');
        let (making, is_making) = channel();
        let (end, ends) = channel::<()>();
        thread::scope(|scope| {
            let chain = &chain;
            let first = scope.spawn(move || {
                *chain.get(84, || {
                    making.send(()).unwrap();
                    ends.recv().unwrap();
                    'b'
                })
            });
            is_making.recv().unwrap();
            assert_eq!(*chain.get(84, || 'c'), 'c');
            end.send(()).unwrap();
            assert_eq!(first.join().unwrap(), 'c');
        });
    }
}
