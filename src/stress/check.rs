//! What must not have happened, looked for in the histories of a run.
//!
//! | invariant | what would break it |
//! |---|---|
//! | I1 | a hit on bytes that nobody offered for this key, or that are no maker's; code that returns another number |
//! | I6 | two makes of a key at once, neither of which had a reason not to wait |
//! | I7 | a call that took longer than its own make, the patience and what it was stopped for |
//! | I8 | a note older than one that was written or read before; with room for all, a miss or a make after a publication |
//! | I10 | bytes that changed while they were held |
//! | I11 | a directory that does not open, or damage where nobody does any |
//! | I13 | more bytes on disk than the limit and a segment per shard |
//! | I15 | a panic |
//! | I17 | a forked child that does not end |
//!
//! I5 is seen by its consequences: two holders of a key's lock break I6, two of a shard's break I1, I8 or I11. I9 is I8
//! as far as there is room for all; where there is not, an entry that was carried in vain cannot be told from one that
//! was evicted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::Serialize;

use super::history::{Event, Kind};

/// What may be assumed of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    /// Whether somebody damaged files.
    pub(super) corrupted: bool,
    /// Until when nothing can have been evicted or cleared; 0 if it may have been from the start.
    pub(super) roomy_until: u64,
    /// How long a call may take beside its own make and while it was stopped, in nanoseconds.
    pub(super) patience: u64,
}

/// What should not have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Violation {
    /// The invariant that it breaks.
    pub(super) invariant: &'static str,
    /// What was seen.
    pub(super) what: String,
}

impl Violation {
    pub(super) fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Violation { invariant, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// The bytes that lay in the cache directory at a time, under names that are not temporary, and under those that are.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    /// Seconds since the run began.
    pub(super) second: f64,
    /// Of named files.
    pub(super) bytes: u64,
    /// Of temporary ones.
    pub(super) temporary: u64,
}

/// Looks for sizes above what is allowed.
pub(super) fn check_sizes(samples: &[Sample], allowed: u64) -> Vec<Violation> {
    let over = samples.iter().filter(|sample| sample.bytes > allowed);
    let most = over.clone().map(|sample| sample.bytes).max();
    let count = over.count();
    most.map(|most| {
        Violation::new(
            "I13",
            format!("{most} bytes on disk, {allowed} allowed, in {count} samples"),
        )
    })
    .into_iter()
    .collect()
}

/// Looks for everything else.
pub(super) fn check(events: &[Event], rules: &Rules) -> Vec<Violation> {
    let mut violations = Vec::new();
    told(events, &mut violations);
    offered(events, &mut violations);
    made_once(events, &mut violations);
    bounded(events, rules, &mut violations);
    if !rules.corrupted {
        latest_note(events, &mut violations);
    }
    kept(events, rules, &mut violations);
    violations
}

/// What the workers saw themselves.
fn told(events: &[Event], violations: &mut Vec<Violation>) {
    let full: Vec<(u64, u64)> = events
        .iter()
        .filter(|event| event.kind == Kind::Full)
        .map(|event| (event.begin, event.end))
        .collect();
    // Where nothing can be made, a directory cannot either.
    let was_full =
        |event: &Event| full.iter().any(|(begin, end)| *begin <= event.end && event.begin <= *end);
    for event in events {
        let (key, process) = (event.key, event.process);
        let seen = match (event.kind, event.detail) {
            (Kind::Wrong, 1) => ("I1", format!("key {key} has another key's record")),
            (Kind::Wrong, 2) => ("I1", format!("key {key} has bytes that no maker made")),
            (Kind::Wrong, 3) => ("I1", format!("the code of key {key} returns {}", event.value)),
            (Kind::Wrong, _) => ("I10", format!("what was held of key {key} changed")),
            (Kind::Panic, _) => ("I15", format!("process {process} panicked at key {key}")),
            (Kind::Hang, _) => ("I17", format!("a child of process {process} does not end")),
            (Kind::Open, 1) if !was_full(event) => {
                ("I11", format!("process {process} did not get the directory"))
            }
            (Kind::Damage, 1) => {
                ("I11", format!("process {process} found {} records damaged", event.value))
            }
            _ => continue,
        };
        violations.push(Violation::new(seen.0, seen.1));
    }
}

/// I1: whatever is found was offered before.
fn offered(events: &[Event], violations: &mut Vec<Violation>) {
    let mut records = HashMap::new();
    let mut notes = HashMap::new();
    for event in events {
        match event.kind {
            Kind::MakeBegin | Kind::PutBegin => {
                records.insert((event.key, event.nonce), event.begin)
            }
            Kind::NoteBegin => notes.insert((event.key, event.nonce), event.begin),
            _ => None,
        };
    }
    for event in events {
        let (offers, what) = match event.kind {
            Kind::Hit => (&records, "record"),
            Kind::NoteRead if event.nonce != 0 => (&notes, "note"),
            _ => continue,
        };
        let offer = offers.get(&(event.key, event.nonce));
        if offer.is_none_or(|begin| *begin > event.end) {
            let what = format!("key {} has a {what} that nobody offered", event.key);
            violations.push(Violation::new("I1", what));
        }
    }
}

/// I6: of the makes of a key that had no reason not to wait, none began during another.
fn made_once(events: &[Event], violations: &mut Vec<Violation>) {
    let ends: HashMap<u64, u64> = events
        .iter()
        .filter(|event| event.kind == Kind::MakeEnd)
        .map(|event| (event.nonce, event.end))
        .collect();
    let mut makes: BTreeMap<u32, Vec<(u64, u64, u32)>> = BTreeMap::new();
    for event in events {
        // One that did not end was killed, and its lease with it, nobody knows when.
        if event.kind == Kind::MakeBegin
            && event.detail == 0
            && let Some(end) = ends.get(&event.nonce)
        {
            makes.entry(event.key).or_default().push((event.begin, *end, event.process));
        }
    }
    for (key, mut makes) in makes {
        makes.sort_unstable();
        let mut last = (0, 0);
        for (begin, end, process) in makes {
            if begin < last.0 {
                let what = format!("key {key} was made by {} and {process} at once", last.1);
                violations.push(Violation::new("I6", what));
            }
            if end > last.0 {
                last = (end, process);
            }
        }
    }
}

/// I7: no call takes longer than it may.
fn bounded(events: &[Event], rules: &Rules, violations: &mut Vec<Violation>) {
    let mut stops: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let mut makes: HashMap<u64, u64> = HashMap::new();
    for event in events {
        match event.kind {
            Kind::Stopped => {
                stops.entry(event.process).or_default().push((event.begin, event.end));
            }
            Kind::MakeEnd => {
                makes.insert(event.nonce, event.end - event.begin);
            }
            _ => {}
        }
    }
    for event in events {
        let is_call = matches!(
            event.kind,
            Kind::Hit | Kind::Miss | Kind::Made | Kind::Put | Kind::Note | Kind::NoteRead
        );
        let took = event.end.saturating_sub(event.begin);
        if !is_call || took <= rules.patience {
            continue;
        }
        let own = if event.kind == Kind::Made { makes.get(&event.nonce) } else { None };
        let stops = stops.get(&event.process).into_iter().flatten();
        let stopped: u64 = stops
            .map(|(begin, end)| (*end).min(event.end).saturating_sub((*begin).max(event.begin)))
            .sum();
        let waited = took.saturating_sub(own.copied().unwrap_or(0)).saturating_sub(stopped);
        if waited > rules.patience {
            let what =
                format!("{:?} of key {} took {} ms", event.kind, event.key, took / 1_000_000);
            violations.push(Violation::new("I7", what));
        }
    }
}

/// I8, for notes: a reader does not find one that was overwritten before it began to read.
fn latest_note(events: &[Event], violations: &mut Vec<Violation>) {
    #[derive(Default)]
    struct Notes {
        /// When a write began and, if it is known, ended.
        writes: HashMap<u64, (u64, Option<u64>)>,
        /// When a write was seen to have happened: (seen by then, the write).
        seen: Vec<(u64, u64)>,
        reads: Vec<(u64, u64)>,
    }
    let mut keys: BTreeMap<u32, Notes> = BTreeMap::new();
    for event in events {
        let notes = keys.entry(event.key).or_default();
        match event.kind {
            Kind::NoteBegin => {
                notes.writes.entry(event.nonce).or_insert((event.begin, None));
            }
            Kind::Note => {
                notes.writes.insert(event.nonce, (event.begin, Some(event.end)));
                if event.detail == 0 {
                    notes.seen.push((event.end, event.nonce));
                }
            }
            Kind::NoteRead if event.nonce != 0 => {
                notes.seen.push((event.end, event.nonce));
                notes.reads.push((event.begin, event.nonce));
            }
            _ => {}
        }
    }
    for (key, mut notes) in keys {
        notes.seen.sort_unstable();
        notes.reads.sort_unstable();
        let mut seen = notes.seen.iter().peekable();
        let mut latest = 0;
        for (begin, nonce) in &notes.reads {
            while let Some((_, write)) = seen.next_if(|(by, _)| by < begin) {
                latest = latest.max(notes.writes.get(write).map_or(0, |(begin, _)| *begin));
            }
            if let Some((_, Some(end))) = notes.writes.get(nonce)
                && *end < latest
            {
                let what = format!(
                    "key {key} has a note that was replaced {} ms before",
                    (begin - latest.min(*begin)) / 1_000_000
                );
                violations.push(Violation::new("I8", what));
            }
        }
    }
}

/// I8, for records, while there is room for all: what was published is found, and not made again.
fn kept(events: &[Event], rules: &Rules, violations: &mut Vec<Violation>) {
    let mut published: HashMap<u32, u64> = HashMap::new();
    for event in events {
        let is_there = match event.kind {
            Kind::Made => event.detail == 1,
            Kind::Put => event.detail < 2,
            Kind::Hit => event.detail == 1,
            _ => false,
        };
        if is_there {
            let by = published.entry(event.key).or_insert(u64::MAX);
            *by = event.end.min(*by);
        }
    }
    let mut told = HashSet::new();
    for event in events {
        let what = match event.kind {
            Kind::Miss => "missed",
            Kind::MakeBegin if event.detail < 4 => "made again",
            _ => continue,
        };
        let by = published.get(&event.key).copied().unwrap_or(u64::MAX);
        if event.begin > by && event.end < rules.roomy_until && told.insert((event.key, what)) {
            let what = format!("key {} was published and {what} afterwards", event.key);
            violations.push(Violation::new("I8", what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn event(kind: Kind, process: u32, begin: u64, end: u64, nonce: u64) -> Event {
        Event { begin, end, process, thread: 0, kind, detail: 0, key: 1, value: 0, nonce }
    }

    fn make(process: u32, begin: u64, end: u64, nonce: u64) -> [Event; 3] {
        [
            event(Kind::MakeBegin, process, begin, begin, nonce),
            event(Kind::MakeEnd, process, begin, end, nonce),
            Event { detail: 1, ..event(Kind::Made, process, begin, end + 1, nonce) },
        ]
    }

    fn broken(events: &[Event], rules: Rules) -> Vec<&'static str> {
        check(events, &rules).iter().map(|violation| violation.invariant).collect()
    }

    fn rules() -> Rules {
        Rules { corrupted: false, roomy_until: 0, patience: 10 * S }
    }

    #[test]
    fn a_history_in_order_breaks_nothing() {
        let mut events = make(1, 10, 20, 7).to_vec();
        events.push(Event { detail: 1, ..event(Kind::Hit, 2, 30, 40, 7) });
        events.push(event(Kind::NoteBegin, 1, 5, 5, 9));
        events.push(event(Kind::Note, 1, 5, 8, 9));
        events.push(event(Kind::NoteRead, 2, 9, 10, 9));
        events.push(event(Kind::NoteRead, 2, 11, 12, 0));
        assert_eq!(broken(&events, Rules { roomy_until: 100, ..rules() }), [""; 0]);
    }

    #[test]
    fn i1_a_hit_that_nobody_offered() {
        let mut events = make(1, 10, 20, 7).to_vec();
        events.push(event(Kind::Hit, 2, 30, 40, 8));
        assert_eq!(broken(&events, rules()), ["I1"]);
        // Offered for another key.
        events[3] = Event { key: 2, ..event(Kind::Hit, 2, 30, 40, 7) };
        assert_eq!(broken(&events, rules()), ["I1"]);
        // Found before it was offered.
        events[3] = event(Kind::Hit, 2, 3, 4, 7);
        assert_eq!(broken(&events, rules()), ["I1"]);
        events[3] = event(Kind::NoteRead, 2, 3, 4, 7);
        assert_eq!(broken(&events, rules()), ["I1"]);
        for detail in 1..=3 {
            events[3] = Event { detail, ..event(Kind::Wrong, 2, 3, 4, 7) };
            assert_eq!(broken(&events, rules()), ["I1"]);
        }
    }

    #[test]
    fn i6_two_makes_at_once() {
        let mut events = [make(1, 10, 20, 7), make(2, 15, 30, 8)].concat();
        assert_eq!(broken(&events, rules()), ["I6"]);
        // One inside a longer one, behind a short one.
        let nested = [make(1, 10, 90, 7), make(2, 15, 20, 8), make(3, 40, 50, 9)].concat();
        assert_eq!(broken(&nested, rules()), ["I6", "I6"]);
        // Another key.
        let mut other = events.clone();
        other.iter_mut().skip(3).for_each(|event| event.key = 2);
        assert_eq!(broken(&other, rules()), [""; 0]);
        // With a reason; or the first one was killed.
        events[3].detail = 1;
        assert_eq!(broken(&events, rules()), [""; 0]);
        events[3].detail = 0;
        events.remove(1);
        assert_eq!(broken(&events, rules()), [""; 0]);
    }

    #[test]
    fn i7_a_wait_without_end() {
        let mut events = make(1, 10, 20, 7).to_vec();
        events.push(event(Kind::Hit, 2, S, 12 * S, 7));
        assert_eq!(broken(&events, rules()), ["I7"]);
        events.push(event(Kind::Stopped, 2, 2 * S, 4 * S, 0));
        assert_eq!(broken(&events, rules()), [""; 0]);
        let slow = make(1, 10, 12 * S, 7);
        assert_eq!(broken(&slow, rules()), [""; 0]);
    }

    #[test]
    fn i8_a_note_that_was_replaced() {
        let mut events = vec![
            event(Kind::NoteBegin, 1, 1, 1, 7),
            event(Kind::Note, 1, 1, 5, 7),
            event(Kind::NoteBegin, 2, 6, 6, 8),
            event(Kind::Note, 2, 6, 9, 8),
            event(Kind::NoteRead, 3, 10, 11, 7),
        ];
        assert_eq!(broken(&events, rules()), ["I8"]);
        assert_eq!(broken(&events, Rules { corrupted: true, ..rules() }), [""; 0]);
        // The two overlapped, or the write and the read did.
        let mut overlap = events.clone();
        overlap[1].end = 7;
        assert_eq!(broken(&overlap, rules()), [""; 0]);
        events[4].begin = 8;
        assert_eq!(broken(&events, rules()), [""; 0]);
        // The writer died, but its note was seen.
        events.remove(3);
        events[3].begin = 12;
        assert_eq!(broken(&events, rules()), [""; 0]);
        events.push(event(Kind::NoteRead, 4, 7, 9, 8));
        assert_eq!(broken(&events, rules()), ["I8"]);
    }

    #[test]
    fn i8_a_record_that_was_lost() {
        let roomy = Rules { roomy_until: 1000, ..rules() };
        let mut events = make(1, 10, 20, 7).to_vec();
        events.push(event(Kind::Miss, 2, 30, 40, 0));
        assert_eq!(broken(&events, roomy), ["I8"]);
        assert_eq!(broken(&events, rules()), [""; 0]);
        events[3].begin = 15;
        assert_eq!(broken(&events, roomy), [""; 0]);
        let twice = [make(1, 10, 20, 7), make(2, 30, 40, 8)].concat();
        assert_eq!(broken(&twice, roomy), ["I8"]);
        // It was not published.
        let mut failed = twice.clone();
        failed[2].detail = 0;
        assert_eq!(broken(&failed, roomy), [""; 0]);
    }

    #[test]
    fn what_a_worker_saw_itself() {
        let seen = |kind, detail| broken(&[Event { detail, ..event(kind, 1, 1, 1, 0) }], rules());
        assert_eq!(seen(Kind::Wrong, 4), ["I10"]);
        assert_eq!(seen(Kind::Panic, 0), ["I15"]);
        assert_eq!(seen(Kind::Hang, 0), ["I17"]);
        assert_eq!(seen(Kind::Damage, 1), ["I11"]);
        assert_eq!(seen(Kind::Damage, 0), [""; 0]);
        assert_eq!(seen(Kind::Open, 1), ["I11"]);
        let open = Event { detail: 1, ..event(Kind::Open, 1, 30, 40, 0) };
        assert_eq!(broken(&[event(Kind::Full, 0, 35, 50, 0), open], rules()), [""; 0]);
        assert_eq!(broken(&[event(Kind::Full, 0, 41, 50, 0), open], rules()), ["I11"]);
    }

    #[test]
    fn i13_too_many_bytes() {
        let sample = |bytes| Sample { second: 1.0, bytes, temporary: 1 << 40 };
        assert!(check_sizes(&[sample(100)], 100).is_empty());
        assert_eq!(check_sizes(&[sample(100), sample(101)], 100)[0].invariant, "I13");
    }
}
