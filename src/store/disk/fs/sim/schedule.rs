//! Who goes next. A strategy is asked before every step of every process; the same strategy asked the same
//! questions gives the same run, so that a run is its schedule.
//!
//! | strategy | tries |
//! |---|---|
//! | [`Search::all`] | every order of steps; of orders that differ only in steps that commute, one |
//! | [`Search::bounded`] | every order with at most so many preemptions |
//! | [`Random`] | a uniform choice at every step, by seed |
//! | [`Priorities`] | PCT: random priorities, lowered at a few random steps, by seed |
//! | [`Replay`] | one schedule, as a failure printed it |

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::machine::mix;
use super::op::{Footprint, Object};

/// A task that could take a step.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) task: usize,
    /// What the step touches; empty unless the strategy wants to know.
    pub(crate) footprint: Footprint,
    /// It sleeps until then: choosing it lets the time come.
    pub(crate) asleep: Option<i128>,
}

impl Candidate {
    fn is_awake(&self) -> bool {
        self.asleep.is_none()
    }
}

/// A way to choose the next task.
pub(crate) enum Strategy {
    Search(Search),
    Random(Random),
    Priorities(Priorities),
    Replay(Replay),
}

impl Strategy {
    pub(crate) fn into_search(self) -> Option<Search> {
        match self {
            Strategy::Search(search) => Some(search),
            _ => None,
        }
    }

    pub(crate) fn wants_footprints(&self) -> bool {
        matches!(self, Strategy::Search(_))
    }

    /// The task to go next: an index into `candidates`, which is never empty. `current` is the task that
    /// took the step before. `None` ends the run: whatever it would show has been seen.
    pub(crate) fn pick(
        &mut self,
        current: Option<usize>,
        candidates: &[Candidate],
    ) -> Option<usize> {
        match self {
            Strategy::Search(search) => search.pick(current, candidates),
            Strategy::Random(random) => Some(random.pick(candidates)),
            Strategy::Priorities(priorities) => Some(priorities.pick(candidates)),
            Strategy::Replay(replay) => replay.pick(current, candidates),
        }
    }
}

/// The task that goes on if nobody interferes: the current one, else the next one that is awake, else
/// the first to wake.
fn natural(current: Option<usize>, candidates: &[Candidate]) -> usize {
    let after = current.map_or(0, |task| task + 1);
    let rank = |index: &usize| {
        let candidate = &candidates[*index];
        let turn = if Some(candidate.task) == current {
            0
        } else {
            1 + usize::from(candidate.task < after)
        };
        (candidate.asleep, turn, candidate.task)
    };
    (0..candidates.len()).min_by_key(rank).expect("there are candidates")
}

/// Depth-first search over schedules.
///
/// With a bound, every choice is tried at every step where it can matter, as long as the preemptions last: a
/// process is interrupted before a step only if that touches something which another process touches too, in
/// some run, and one of them changes. What it touches alone it might as well touch before. Without a bound, the
/// search is dynamic partial order reduction (Flanagan and Godefroid, 2005) with sleep sets: a step is
/// moved before an earlier one of another task only where the two conflict and nothing else orders them,
/// and an order that was tried is not tried again. Of all orders that differ in steps that commute, about
/// one is run to its end.
pub(crate) struct Search {
    path: Vec<Choice>,
    depth: usize,
    /// Steps of the path whose conflicts are known.
    examined: usize,
    /// The most preemptions, or `None` for all orders up to commuting steps.
    preemptions: Option<u32>,
    /// Every step is taken to matter to others.
    everywhere: bool,
    /// What was touched by which tasks (a bit each), and changed by which.
    touched: BTreeMap<Object, (u8, u8)>,
    /// How much of that two tasks had in common when the search began (again).
    common: usize,
}

/// A point of the path: what could be chosen, what has been.
struct Choice {
    candidates: Vec<Candidate>,
    current: Option<usize>,
    chosen: usize,
    /// Tasks that need not go here: the orders in which they do have been tried.
    sleep: Vec<usize>,
    done: Vec<usize>,
    /// Tasks that have to go here too, without a bound.
    wanted: Vec<usize>,
    /// Preemptions on the path before this point.
    spent: u32,
    /// The current task's step touches what others do, so that it matters whether they come before it.
    matters: bool,
    /// For each task, how many steps of the path come before this one whatever the schedule.
    clock: Vec<usize>,
}

impl Choice {
    fn task(&self) -> usize {
        self.candidates[self.chosen].task
    }

    fn footprint(&self) -> &Footprint {
        &self.candidates[self.chosen].footprint
    }

    fn candidate(&self, task: usize) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.task == task)
    }

    /// What choosing this candidate adds to the preemptions: a switch away from a task that could go on,
    /// and time that passes while somebody could go on.
    fn cost(&self, index: usize) -> u32 {
        let natural = natural(self.current, &self.candidates);
        let goes_on = self.current == Some(self.candidates[natural].task);
        let rushed = !self.candidates[index].is_awake() && self.candidates[natural].is_awake();
        u32::from(index != natural && (goes_on || rushed))
    }

    fn next(&self, preemptions: Option<u32>) -> Option<usize> {
        let first = natural(self.current, &self.candidates);
        let all = || std::iter::once(first).chain(0..self.candidates.len());
        match preemptions {
            Some(most) => all().find(|index| {
                let tried = self.done.contains(&self.candidates[*index].task);
                let cost = self.cost(*index);
                !tried && self.spent.saturating_add(cost) <= most && (cost == 0 || self.matters)
            }),
            None => all().find(|index| {
                let candidate = &self.candidates[*index];
                let task = &candidate.task;
                let wanted = self.wanted.is_empty() || self.wanted.contains(task);
                // Time passes only when everybody sleeps, and then up to the first to wake.
                let may = candidate.is_awake() || *index == first;
                wanted && may && !self.sleep.contains(task) && !self.done.contains(task)
            }),
        }
    }
}

impl Search {
    /// Every order of steps, up to steps that commute. Time passes only when everybody sleeps.
    pub(crate) fn all() -> Self {
        Search {
            path: Vec::new(),
            depth: 0,
            examined: 0,
            preemptions: None,
            everywhere: false,
            touched: BTreeMap::new(),
            common: 0,
        }
    }

    /// Every order with at most `preemptions` switches away from a process that could go on.
    pub(crate) fn bounded(preemptions: u32) -> Self {
        Search { preemptions: Some(preemptions), ..Search::all() }
    }

    /// Every order, whether it can matter or not.
    pub(crate) fn brute() -> Self {
        Search { everywhere: true, ..Search::bounded(u32::MAX) }
    }

    /// Moves on to the next schedule; `false` if there is none.
    pub(crate) fn advance(&mut self) -> bool {
        if self.preemptions.is_none() {
            self.find_conflicts();
        }
        self.depth = 0;
        while let Some(mut choice) = self.path.pop() {
            choice.done.push(choice.task());
            if let Some(next) = choice.next(self.preemptions) {
                choice.chosen = next;
                self.examined = self.path.len();
                self.path.push(choice);
                return true;
            }
        }
        // With more in common than was known, there are more places to interrupt.
        let common = self.count_common();
        let more = std::mem::replace(&mut self.common, common) != common;
        more && !self.everywhere && self.preemptions.is_some_and(|most| most > 0)
    }

    /// A search anew, with another bound, that knows what this one has found out.
    pub(crate) fn anew(&self, preemptions: u32) -> Self {
        let touched = self.touched.clone();
        Search { touched, common: self.count_common(), ..Search::bounded(preemptions) }
    }

    fn count_common(&self) -> usize {
        self.touched.values().filter(|(by, changed)| is_common(*by, *changed)).count()
    }

    /// Remembers that a task touches this.
    fn touch(&mut self, task: usize, footprint: &Footprint) {
        for (object, change) in &footprint.0 {
            // A listing has every name of its directory in common with whoever changes one.
            let names = match object {
                Object::Name(directory, _) if *change => Some(Object::Names(*directory)),
                _ => None,
            };
            // So has whoever reads or writes a file with those who map it.
            let data = match object {
                Object::Word(inode, _) => Some(Object::Data(*inode)),
                _ => None,
            };
            for object in [Some(*object), names, data].into_iter().flatten() {
                let (by, changed) = self.touched.entry(object).or_default();
                *by |= 1 << task;
                *changed |= u8::from(*change) << task;
            }
        }
    }

    fn matters(&self, footprint: &Footprint) -> bool {
        footprint.0.iter().any(|(object, _)| match object {
            Object::Everything | Object::Clock => true,
            object => {
                self.is_common(*object)
                    || match object {
                        Object::Name(directory, _) => self.is_common(Object::Names(*directory)),
                        _ => false,
                    }
            }
        })
    }

    fn is_common(&self, object: Object) -> bool {
        self.touched.get(&object).is_some_and(|(by, changed)| is_common(*by, *changed))
    }

    /// Wants every step that conflicts with an earlier one, and could have come before it, to do so once.
    fn find_conflicts(&mut self) {
        for step in self.examined..self.path.len() {
            let (task, footprint) = (self.path[step].task(), self.path[step].footprint().clone());
            let own = self.path[..step].iter().rposition(|choice| choice.task() == task);
            let mut clock = own.map_or_else(Vec::new, |own| self.path[own].clock.clone());
            for earlier in (0..step).rev() {
                let other = self.path[earlier].task();
                if other == task || !self.path[earlier].footprint().conflicts(&footprint) {
                    continue;
                }
                if clock.get(other).is_none_or(|known| *known <= earlier) {
                    self.path[earlier].want(task);
                }
                join(&mut clock, &self.path[earlier].clock);
            }
            let length = clock.len().max(task + 1);
            clock.resize(length, 0);
            clock[task] = step + 1;
            self.path[step].clock = clock;
        }
        self.examined = self.path.len();
    }

    fn sleep(&self, candidates: &[Candidate]) -> Vec<usize> {
        let Some(parent) = self.path.last().filter(|_| self.preemptions.is_none()) else {
            return Vec::new();
        };
        let still_commutes = |task: &&usize| {
            parent.candidate(**task).is_some_and(|it| !it.footprint.conflicts(parent.footprint()))
                && candidates.iter().any(|candidate| candidate.task == **task)
        };
        parent.sleep.iter().chain(&parent.done).filter(still_commutes).copied().collect()
    }

    fn pick(&mut self, current: Option<usize>, candidates: &[Candidate]) -> Option<usize> {
        self.depth += 1;
        if let Some(choice) = self.path.get(self.depth - 1) {
            let same =
                choice.candidates.iter().map(|c| c.task).eq(candidates.iter().map(|c| c.task));
            assert!(
                same,
                "the body is not deterministic: a replay diverged at step {}",
                self.depth
            );
            return Some(choice.chosen);
        }
        let spent = self.path.last().map_or(0, |last| last.spent + last.cost(last.chosen));
        let natural = &candidates[natural(current, candidates)];
        let mut choice = Choice {
            candidates: candidates.to_vec(),
            current,
            chosen: 0,
            sleep: self.sleep(candidates),
            done: Vec::new(),
            wanted: Vec::new(),
            spent,
            matters: self.everywhere || self.matters(&natural.footprint),
            clock: Vec::new(),
        };
        choice.chosen = choice.next(self.preemptions)?;
        choice.wanted.push(choice.task());
        self.touch(choice.task(), choice.footprint());
        self.path.push(choice);
        self.path.last().map(|choice| choice.chosen)
    }
}

impl Choice {
    /// Has the task go here too; everybody, if it could not.
    fn want(&mut self, task: usize) {
        if self.candidate(task).is_some_and(Candidate::is_awake) {
            if !self.wanted.contains(&task) {
                self.wanted.push(task);
            }
        } else {
            self.wanted = self.candidates.iter().map(|candidate| candidate.task).collect();
        }
    }
}

/// Whether two tasks have something in common that one of them changes.
fn is_common(by: u8, changed: u8) -> bool {
    changed != 0 && by.count_ones() > 1
}

fn join(clock: &mut Vec<usize>, other: &[usize]) {
    clock.resize(clock.len().max(other.len()), 0);
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// A uniform choice at every step.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn pick(&mut self, candidates: &[Candidate]) -> usize {
        below(&mut self.0, candidates.len())
    }
}

/// Probabilistic concurrency testing (Burckhardt et al., 2010): the task of highest priority goes; at
/// `depth - 1` random steps the one that goes drops below all others.
pub(crate) struct Priorities {
    random: u64,
    priorities: Vec<i64>,
    changes: Vec<usize>,
    step: usize,
}

impl Priorities {
    /// For runs of about `steps` steps.
    pub(crate) fn new(seed: u64, depth: usize, steps: usize) -> Self {
        let mut random = seed;
        let changes = (1..depth).map(|_| below(&mut random, steps.max(1))).collect();
        Priorities { random, priorities: Vec::new(), changes, step: 0 }
    }

    fn pick(&mut self, candidates: &[Candidate]) -> usize {
        let last = candidates.iter().map(|candidate| candidate.task).max().unwrap_or(0);
        while self.priorities.len() <= last {
            self.priorities.push(below(&mut self.random, 1 << 30) as i64 + 1);
        }
        // A sleeper is woken only when nobody else can go, or it would keep the rest from ever going.
        let rank = |candidate: &Candidate| (candidate.is_awake(), self.priorities[candidate.task]);
        let chosen = (0..candidates.len()).max_by_key(|index| rank(&candidates[*index]));
        let chosen = chosen.expect("there are candidates");
        if self.changes.contains(&self.step) {
            self.priorities[candidates[chosen].task] = -(self.step as i64);
        }
        self.step += 1;
        chosen
    }
}

/// A schedule that was seen before; past its end, nobody interferes.
pub(crate) struct Replay {
    schedule: Schedule,
    step: usize,
}

impl Replay {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Replay { schedule, step: 0 }
    }

    fn pick(&mut self, current: Option<usize>, candidates: &[Candidate]) -> Option<usize> {
        let task = self.schedule.0.get(self.step).copied();
        self.step += 1;
        match task {
            Some(task) => candidates.iter().position(|candidate| candidate.task == task),
            None => Some(natural(current, candidates)),
        }
    }
}

/// Which task took each step. Prints as `0*5 1*3 0*2`, and reads the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule(pub(crate) Vec<usize>);

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a == b);
        for (n, run) in runs.enumerate() {
            let space = if n == 0 { "" } else { " " };
            write!(f, "{space}{}*{}", run[0], run.len())?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let run = |run: &str| -> Option<Vec<usize>> {
            let (task, length) = run.split_once('*')?;
            Some(vec![task.parse().ok()?; length.parse().ok()?])
        };
        let runs: Option<Vec<_>> = text.split_whitespace().map(run).collect();
        runs.map(|runs| Schedule(runs.concat())).ok_or_else(|| format!("no schedule: `{text}`"))
    }
}

fn below(random: &mut u64, n: usize) -> usize {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    (mix(*random) % n as u64) as usize
}
