//! One maker per key among the threads of a process.
//!
//! ```text
//!   claim(key) ──no cell──► Leader ──finish(value)──► the cell leaves the table: followers have the value
//!       │                     └──dropped, panic─────► the cell leaves the table: followers claim anew
//!       └──a cell────► Follower ──wait──► Value | Abandoned | TimedOut
//! ```
//!
//! A cell goes from `Making` to `Done` or `Abandoned` once, by its leader, in the same critical section in
//! which it leaves the table. So a claim meets a cell that is being made or none, a leader removes no cell
//! but its own, and the table is as long as there are threads that make something.

use std::fmt;
use std::time::Duration;

use super::fork::PerProcess;
use crate::key::Key;
use crate::race::{Fault, planted};
use crate::sync::{self, Arc, Condvar, Mutex};

/// Faults that the race tests plant.
pub(super) mod faults {
    use super::Fault;

    pub(in super::super) const SILENT: Fault = Fault("a leader does not wake its followers");
    pub(in super::super) const REMOVES_TWICE: Fault =
        Fault("a leader removes whichever cell its key has, once more");
}

/// Shards lessen contention; a model checks what happens within one.
const SHARDS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// The keys that this process is making. `T` is what followers get, cheap to clone.
pub(crate) struct Flights<T> {
    tables: PerProcess<Table<T>>,
    process: Box<dyn Fn() -> u32 + Send + Sync>,
}

type Table<T> = [Shard<T>; SHARDS];
/// A list, not a map: it rarely has more than one entry.
type Shard<T> = Mutex<Vec<Arc<Cell<T>>>>;

#[derive(Debug)]
struct Cell<T> {
    key: Key,
    state: Mutex<State<T>>,
    settled: Condvar,
}

#[derive(Debug)]
enum State<T> {
    /// With how many followers who wait.
    Making(usize),
    Done(T),
    Abandoned,
}

/// What [`Flights::claim`] gives.
#[derive(Debug)]
pub(crate) enum Claim<'a, T> {
    /// The caller is to make the value.
    Leader(Leader<'a, T>),
    /// Another thread is making it.
    Follower(Follower<T>),
}

/// What a follower's wait came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited<T> {
    /// The leader's value.
    Value(T),
    /// The leader gave up: claim anew.
    Abandoned,
    /// The leader is still at it.
    TimedOut,
}

impl<T> Flights<T> {
    /// No key is being made. `process` gives the id of the calling process.
    pub(crate) fn new(process: impl Fn() -> u32 + Send + Sync + 'static) -> Self {
        let tables = PerProcess::new(process(), new_table());
        Flights { tables, process: Box::new(process) }
    }

    /// The id of the calling process.
    pub(crate) fn process(&self) -> u32 {
        (self.process)()
    }

    /// Makes the caller the leader of `key`, or the follower of the thread that is. A forked child starts
    /// with no claims: its parent's leaders do not run in it.
    pub(crate) fn claim(&self, key: &Key) -> Claim<'_, T> {
        let process = self.process();
        let table = self.tables.get(process, new_table);
        let shard = &table[key.word(3) as usize % SHARDS];
        let mut cells = shard.lock();
        if let Some(cell) = cells.iter().find(|cell| cell.key == *key) {
            return Claim::Follower(Follower { cell: cell.clone() });
        }
        let cell = Arc::new(Cell {
            key: *key,
            state: Mutex::new(State::Making(0)),
            settled: Condvar::new(),
        });
        cells.push(cell.clone());
        Claim::Leader(Leader { flights: self, shard, cell, value: None, process })
    }

    /// How many keys are being made.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let table = self.tables.get(self.process(), new_table);
        table.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl<T> fmt::Debug for Flights<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").finish_non_exhaustive()
    }
}

fn new_table<T>() -> Table<T> {
    std::array::from_fn(|_| Mutex::new(Vec::new()))
}

/// The one thread that makes a key's value. Dropping it, by a panic too, abandons the key.
#[derive(Debug)]
pub(crate) struct Leader<'a, T> {
    flights: &'a Flights<T>,
    shard: &'a Shard<T>,
    cell: Arc<Cell<T>>,
    value: Option<T>,
    process: u32,
}

impl<T> Leader<'_, T> {
    pub(crate) fn key(&self) -> &Key {
        &self.cell.key
    }

    /// Gives the followers the value. It must be where a later look-up finds it: from now on the key may
    /// be claimed again.
    pub(crate) fn finish(mut self, value: T) {
        self.value = Some(value);
    }
}

impl<T> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        // In a child that was forked meanwhile, nobody follows, and nobody unlocks what was locked.
        if self.process != self.flights.process() {
            return;
        }
        let outcome = self.value.take().map_or(State::Abandoned, State::Done);
        let mut cells = self.shard.lock();
        cells.retain(|cell| !Arc::ptr_eq(cell, &self.cell));
        let before = std::mem::replace(&mut *self.cell.state.lock(), outcome);
        drop(cells);
        // To wake nobody costs a system call.
        let is_awaited = !matches!(before, State::Making(0));
        if is_awaited && !planted(faults::SILENT) {
            self.cell.settled.notify_all();
        }
        if planted(faults::REMOVES_TWICE) {
            self.shard.lock().retain(|cell| cell.key != self.cell.key);
        }
    }
}

/// A thread that waits for a leader.
#[derive(Debug)]
pub(crate) struct Follower<T> {
    cell: Arc<Cell<T>>,
}

impl<T: Clone> Follower<T> {
    /// Waits until the leader is done or gives up, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Waited<T> {
        let deadline = sync::now() + limit;
        let mut state = self.cell.state.lock();
        loop {
            let left = deadline.saturating_duration_since(sync::now());
            match &mut *state {
                State::Done(value) => return Waited::Value(value.clone()),
                State::Abandoned => return Waited::Abandoned,
                State::Making(_) if left.is_zero() => return Waited::TimedOut,
                // Once more for each time that it is woken for nothing: what counts is that it is not 0.
                State::Making(waiters) => *waiters += 1,
            }
            (state, _) = self.cell.settled.wait_timeout(state, left);
        }
    }
}
