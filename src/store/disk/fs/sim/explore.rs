//! Runs a body of simulated processes over and over: every schedule, every place to die, every error, every
//! power cut.
//!
//! ```text
//!   Explorer::new("name")
//!       .all(body)          every order of steps (up to steps that commute)
//!       .bounded(2, body)   every order with at most two preemptions
//!       .random(n, body)    n schedules by seed, half uniform, half PCT
//!       .kills(1, body)     a process dies before any one step,   under every order with one preemption
//!       .stops(1, body)     a process stops there, and goes on when the others are done
//!       .errors(0, body)    a step fails, in every way
//!       .storm(n, body)     n schedules by seed, each with a death, a stop or an error somewhere
//!       .crashes(.., body, recover)   the power goes after any step that writes, and again while `recover` runs
//! ```
//!
//! A body sets up what it wants, gives the [`Run`] its processes, and calls [`Run::join`]; what stands behind
//! that is checked in every run that came so far:
//!
//! ```ignore
//! fn body(run: &Run) {
//!     let oracle = Oracle::default();
//!     let theirs = oracle.clone();
//!     run.process(move |fs| publish(&fs, &theirs));
//!     run.process(...);
//!     run.join();
//!     look_up(&run.world().process(), &oracle);
//! }
//! Explorer::new("publish and publish").all(body).holds();
//! ```
//!
//! A failure prints its faults and its schedule. Set `CACHELIFT_SIM_REPLAY` to that text and run the same
//! test alone: it runs this one schedule and prints every step. `CACHELIFT_SIM_DEPTH` (default 1) deepens
//! every search: each level adds a preemption, and tenfold the runs, samples and images.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::crash::{Fate, Images};
use super::machine::{Machine, Setup, mix};
use super::op::{Risk, Step};
use super::schedule::{Priorities, Random, Replay, Schedule, Search, Strategy};
use super::{Fault, FaultKind, Job, MOST_TASKS, Mutant, SimFs, TASK, Task, Tasks, Unwind, World};
use crate::race;
use crate::sync::{simulated, thread};

/// The errors that a step may meet.
pub(crate) const ERRORS: [Errno; 7] =
    [Errno::NOSPC, Errno::IO, Errno::INTR, Errno::DQUOT, Errno::MFILE, Errno::NOLCK, Errno::STALE];

/// In which ways a step may fail.
fn failures() -> Vec<FaultKind> {
    let mut kinds: Vec<FaultKind> = ERRORS.into_iter().map(FaultKind::Error).collect();
    kinds.extend([
        FaultKind::ShortWrite,
        FaultKind::LostReply(Errno::IO),
        FaultKind::ErrorsFromHere(Errno::NOSPC),
        FaultKind::ErrorsFromHere(Errno::IO),
    ]);
    kinds
}

/// No run of a process outside of its file system lasts so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How deep to search: the value of `CACHELIFT_SIM_DEPTH`.
pub(crate) fn depth() -> u32 {
    let value = std::env::var("CACHELIFT_SIM_DEPTH").ok();
    value.map_or(1, |text| text.parse().expect("CACHELIFT_SIM_DEPTH is a number from 1 to 4"))
}

/// What to explore.
pub(crate) struct Explorer {
    name: &'static str,
    start: Machine,
    mutant: Option<Mutant>,
    faults: Vec<Fault>,
    most_runs: u64,
    warm: bool,
    thinned: usize,
}

/// What was explored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Runs to their end.
    pub(crate) runs: u64,
    /// Runs ended early, for what they would show had been seen.
    pub(crate) pruned: u64,
    /// Steps of all processes in all runs.
    pub(crate) steps: u64,
    /// Places at which something went wrong: one fault each, or a power cut.
    pub(crate) places: u64,
    /// What power cuts left, looked at.
    pub(crate) images: u64,
    /// There was nothing more to try within the bounds.
    pub(crate) complete: bool,
}

/// A run that broke a promise.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    recipe: Recipe,
    log: Vec<String>,
}

/// All that determines a run. Prints as `kill 0@7 | 0*5 1*3 | cut 4: 0 1 1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Recipe {
    faults: Vec<Fault>,
    schedule: Schedule,
    /// Power cuts, each at a snapshot and with a fate: the first in the body, the next in its recovery.
    cuts: Vec<(usize, Fate)>,
}

/// One run of a body.
pub(crate) struct Run {
    world: World,
    processes: RefCell<Vec<Process>>,
    driver: Option<RefCell<Driver>>,
    /// The body's processes should have used the cache before it begins.
    pub(crate) warm: bool,
    /// Without a driver: somebody kills the first process, at any time.
    killer: bool,
}

type Process = (SimFs, Box<dyn FnOnce(SimFs) + Send>);

/// What a controlled run needs beside its world.
struct Driver {
    strategy: Option<Strategy>,
    faults: Vec<Fault>,
    pool: Pool,
    schedule: Schedule,
    steps: Vec<Vec<Step>>,
}

impl Run {
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// A process that does this.
    pub(crate) fn process(&self, body: impl FnOnce(SimFs) + Send + 'static) {
        self.process_on(self.world.process(), body);
    }

    /// The same for a process that was there before, or another thread of one. Two threads of one process
    /// must not wait for each other but through the file system, unless shuttle runs them.
    pub(crate) fn process_on(&self, fs: SimFs, body: impl FnOnce(SimFs) + Send + 'static) {
        self.processes.borrow_mut().push((fs, Box::new(body)));
    }

    /// Runs the processes to their ends. Does not come back from a run that is over before.
    pub(crate) fn join(&self) {
        let processes = self.processes.take();
        assert!(processes.len() <= MOST_TASKS, "at most {MOST_TASKS} processes");
        match &self.driver {
            Some(driver) => driver.borrow_mut().run(&self.world, processes),
            None => {
                let victim = processes.first().filter(|_| self.killer).map(|(fs, _)| fs.clone());
                let fault = race::planted_here();
                let start = |(fs, body): Process| {
                    thread::spawn(move || {
                        race::plant(fault);
                        if !cfg!(shuttle) {
                            simulated::set(Some(Rc::new(fs.clone())));
                        }
                        outcome(|| body(fs))
                    })
                };
                let threads: Vec<_> = processes.into_iter().map(start).collect();
                let killer = victim.map(|fs| thread::spawn(move || fs.kill()));
                killer.into_iter().for_each(|killer| killer.join().expect("it only kills"));
                for thread in threads {
                    if let Err(message) = thread.join().expect("caught") {
                        panic!("{message}");
                    }
                }
            }
        }
    }
}

/// What a process came to: a message if it panicked of its own.
fn outcome<T>(body: impl FnOnce() -> T) -> Result<Option<T>, String> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => Ok(Some(value)),
        Err(payload) if payload.is::<Unwind>() => Ok(None),
        Err(payload) => Err(payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).into()))
            .unwrap_or_else(|| "a panic without words".into())),
    }
}

impl Driver {
    fn run(&mut self, world: &World, processes: Vec<Process>) {
        let tasks = processes.iter().map(|(fs, _)| Task {
            thread: None,
            pid: fs.pid(),
            pending: None,
            wake_ns: 0,
            stopped: false,
            finished: false,
            steps: Vec::new(),
        });
        let tasks = tasks.collect();
        let fault = race::planted_here();
        let unstarted = processes.into_iter().enumerate().map(|(task, (fs, body))| {
            let (world, worker) = (world.clone(), self.pool.worker(task));
            let job: Job = Box::new(move || {
                race::plant(fault);
                TASK.set(Some(task));
                simulated::set(Some(Rc::new(fs.clone())));
                let outcome = outcome(|| body(fs));
                simulated::set(None);
                world.finish(task, outcome.err());
                TASK.set(None);
            });
            let start: Job = Box::new(move || worker.send(job).expect("the worker is there"));
            start
        });
        let tasks = Tasks {
            tasks,
            unstarted: unstarted.collect::<VecDeque<_>>(),
            current: None,
            strategy: self.strategy.take(),
            schedule: Schedule::default(),
            faults: self.faults.clone(),
            abandoned: false,
        };
        let tasks = world.run(tasks, PATIENCE);
        self.strategy = tasks.strategy;
        self.schedule = tasks.schedule;
        let abandoned = tasks.abandoned;
        self.steps = tasks.tasks.into_iter().map(|task| task.steps).collect();
        if abandoned {
            resume_unwind(Box::new(Unwind::Abandoned));
        }
    }
}

impl World {
    /// Runs tasks to their ends, or until the run is abandoned.
    fn run(&self, tasks: Tasks, patience: Duration) -> Tasks {
        let mut state = self.state();
        if let Some(log) = &mut state.log {
            log.clear();
        }
        state.run = Some(tasks);
        state = self.hand_over(state);
        loop {
            let run = state.run.as_ref().expect("it is running");
            let running = run.tasks.iter().filter(|task| !task.finished).count();
            let expected = if run.abandoned { run.unstarted.len() } else { 0 };
            if running == expected {
                return state.run.take().expect("it is running");
            }
            let late;
            (state, late) = self.0.over.wait_timeout(state, patience);
            assert!(!late, "a process waits for something outside its file system");
        }
    }

    fn finish(&self, task: usize, message: Option<String>) {
        let mut state = self.state();
        let run = state.run.as_mut().expect("it is running");
        run.tasks[task].finished = true;
        if let Some(message) = message {
            run.abandoned = true;
            state.violation.get_or_insert(super::machine::Violation(message));
        }
        drop(self.hand_over(state));
    }
}

/// Threads that are used again in every run. All live on one processor, where handing over is cheapest.
#[derive(Clone)]
struct Pool(Vec<mpsc::Sender<Job>>);

impl Pool {
    fn new() -> Self {
        pin();
        let workers = (0..MOST_TASKS).map(|_| {
            let (sender, jobs) = mpsc::channel::<Job>();
            thread::spawn(move || jobs.iter().for_each(|job| job()));
            sender
        });
        Pool(workers.collect())
    }

    fn worker(&self, task: usize) -> mpsc::Sender<Job> {
        self.0[task].clone()
    }
}

/// Keeps this thread, and those it starts, on the processor it is on.
fn pin() {
    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    // It is a matter of speed alone.
    let _ = sched_setaffinity(None, &here);
}

/// How a run ended.
struct Ended<T> {
    value: Result<Option<T>, String>,
    strategy: Option<Strategy>,
    schedule: Schedule,
    steps: Vec<Vec<Step>>,
    snapshots: Vec<Machine>,
    log: Vec<String>,
}

/// What to record of a run.
#[derive(Clone, Copy, Default)]
struct Record {
    log: bool,
    snapshots: bool,
}

impl Explorer {
    /// An exploration of this name, on a machine as [`Setup::default`] has it.
    pub(crate) fn new(name: &'static str) -> Self {
        let most_runs = 20_000 * 10u64.pow(depth() - 1);
        let start = World::new(Setup::default(), 1).machine(|machine| machine.clone());
        Explorer {
            name,
            start,
            mutant: None,
            faults: Vec::new(),
            most_runs,
            warm: false,
            thinned: 1,
        }
    }

    pub(crate) fn setup(mut self, setup: Setup) -> Self {
        self.start.setup = setup;
        self
    }

    /// What has happened before every run.
    pub(crate) fn after(self, prepare: impl FnOnce(&World)) -> Self {
        let world = World::of(self.start);
        simulated::set(Some(Rc::new(world.process())));
        prepare(&world);
        simulated::set(None);
        let start = world.machine(|machine| machine.clone());
        Explorer { start, ..self }
    }

    /// Bodies are told that their processes should have used the cache before the run begins.
    pub(crate) fn warmed(self) -> Self {
        Explorer { warm: true, ..self }
    }

    /// Of all that can go wrong at a step, every so manieth: each step has its turn, and each error.
    pub(crate) fn thinned(self, stride: usize) -> Self {
        Explorer { thinned: if depth() > 1 { 1 } else { stride }, ..self }
    }

    /// With a wrong turn in every run.
    pub(crate) fn mutant(self, mutant: Mutant) -> Self {
        Explorer { mutant: Some(mutant), ..self }
    }

    /// With this fault in every run.
    pub(crate) fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// No search tries more schedules than this, times ten for every level of depth.
    pub(crate) fn most_runs(self, runs: u64) -> Self {
        Explorer { most_runs: runs * 10u64.pow(depth() - 1), ..self }
    }

    /// Runs a body once on threads that nobody here controls: the machine's own, or shuttle's. Its first
    /// process may be killed at any time, or not at all.
    pub(crate) fn free(self, killer: bool, body: impl Fn(&Run)) {
        let (world, warm) = (World::of(self.start), self.warm);
        world.set_mutant(self.mutant);
        // Shuttle's threads are all one thread to the clock, so it must be nobody's who dies.
        simulated::set(Some(Rc::new(world.process())));
        body(&Run { world, processes: RefCell::default(), driver: None, warm, killer });
        simulated::set(None);
    }

    /// Every order of steps, up to steps that commute.
    pub(crate) fn all<T>(&self, body: impl Fn(&Run) -> T) -> Explored {
        self.explore(
            || {
                let mut report = Report { complete: true, ..Report::default() };
                self.search(Search::all(), &self.faults, &body, &mut report)?;
                Ok(report)
            },
            &body,
            None::<&fn(&World, &T)>,
        )
    }

    /// Every order of steps with at most so many preemptions.
    pub(crate) fn bounded<T>(&self, preemptions: u32, body: impl Fn(&Run) -> T) -> Explored {
        self.explore(
            || {
                let mut report = Report { complete: true, ..Report::default() };
                self.search(
                    Search::bounded(deepened(preemptions)),
                    &self.faults,
                    &body,
                    &mut report,
                )?;
                Ok(report)
            },
            &body,
            None::<&fn(&World, &T)>,
        )
    }

    /// Every order of steps, whether it can matter or not: to compare the others with.
    pub(crate) fn brute<T>(&self, body: impl Fn(&Run) -> T) -> Explored {
        self.explore(
            || {
                let mut report = Report { complete: true, ..Report::default() };
                self.search(Search::brute(), &self.faults, &body, &mut report)?;
                Ok(report)
            },
            &body,
            None::<&fn(&World, &T)>,
        )
    }

    /// So many schedules by seed, times ten for every level of depth: every other one uniform, the rest PCT
    /// with three changes of priority.
    pub(crate) fn random<T>(&self, runs: u64, body: impl Fn(&Run) -> T) -> Explored {
        self.explore(
            || {
                let mut report = Report::default();
                let pool = Pool::new();
                let (natural, _) = self.natural(&pool, &body)?;
                let steps = total(&natural) as usize;
                for seed in 0..runs * 10u64.pow(depth() - 1) {
                    let strategy: Strategy = match seed % 2 {
                        0 => Strategy::Random(Random(mix(seed))),
                        _ => Strategy::Priorities(Priorities::new(mix(seed), 4, steps)),
                    };
                    self.run(&pool, strategy, &self.faults, &body, &mut report)?;
                }
                Ok(report)
            },
            &body,
            None::<&fn(&World, &T)>,
        )
    }

    /// One process dies before one of its steps: each process, each step, each under every order with at
    /// most so many preemptions.
    pub(crate) fn kills<T>(&self, preemptions: u32, body: impl Fn(&Run) -> T) -> Explored {
        self.faulty(preemptions, &[FaultKind::Kill], body)
    }

    /// As [`kills`](Self::kills), but the process stops, and goes on when all others are done.
    pub(crate) fn stops<T>(&self, preemptions: u32, body: impl Fn(&Run) -> T) -> Explored {
        self.faulty(preemptions, &[FaultKind::Stop], body)
    }

    /// One step fails: each process, each step, with each of [`ERRORS`], with half of a write done, with a
    /// success that is told as a failure, and with a disk that fills up or breaks for good.
    pub(crate) fn errors<T>(&self, preemptions: u32, body: impl Fn(&Run) -> T) -> Explored {
        self.faulty(preemptions, &failures(), body)
    }

    /// So many schedules by seed, as [`random`](Self::random) has them, each with something that goes wrong
    /// at some step of some process: it dies, stops or meets an error.
    pub(crate) fn storm<T>(&self, runs: u64, body: impl Fn(&Run) -> T) -> Explored {
        self.explore(
            || {
                let mut report = Report::default();
                let pool = Pool::new();
                let (natural, _) = self.natural(&pool, &body)?;
                let steps = total(&natural) as usize;
                let places = |kind: FaultKind| -> Vec<Fault> {
                    let of = |(task, steps): (usize, &Vec<Step>)| {
                        let steps = (0..).zip(steps.clone());
                        let concerned = steps.filter(move |(_, step)| kind.concerns(*step));
                        concerned.map(move |(at, _)| Fault { task, at, kind })
                    };
                    natural.iter().enumerate().flat_map(of).collect()
                };
                // A third of each.
                let kinds = [vec![FaultKind::Kill], vec![FaultKind::Stop], failures()];
                let kinds = kinds.map(|kinds| kinds.into_iter().map(places).collect::<Vec<_>>());
                for seed in 0..runs * 10u64.pow(depth() - 1) {
                    let below = |n: usize, salt: u64| (mix(mix(seed) ^ salt) % n as u64) as usize;
                    let kinds = &kinds[below(kinds.len(), 1)];
                    let places = &kinds[below(kinds.len(), 2)];
                    let fault = places[below(places.len(), 3)];
                    let faults = [&self.faults[..], &[fault]].concat();
                    report.places += 1;
                    let strategy: Strategy = match seed % 2 {
                        0 => Strategy::Random(Random(mix(seed))),
                        _ => Strategy::Priorities(Priorities::new(mix(seed), 4, steps)),
                    };
                    self.run(&pool, strategy, &faults, &body, &mut report)?;
                }
                Ok(report)
            },
            &body,
            None::<&fn(&World, &T)>,
        )
    }

    fn faulty<T>(
        &self,
        preemptions: u32,
        kinds: &[FaultKind],
        body: impl Fn(&Run) -> T,
    ) -> Explored {
        self.explore(
            || {
                let mut report = Report { complete: true, ..Report::default() };
                let (natural, search) = self.natural(&Pool::new(), &body)?;
                let mut possible = 0;
                for (task, steps) in natural.iter().enumerate() {
                    for (at, step) in (0..).zip(steps) {
                        for &kind in kinds.iter().filter(|kind| kind.concerns(*step)) {
                            possible += 1;
                            if possible % self.thinned != 0 {
                                continue;
                            }
                            report.places += 1;
                            let mut faults = self.faults.clone();
                            faults.push(Fault { task, at, kind });
                            let search = search.anew(deepened(preemptions));
                            self.search(search, &faults, &body, &mut report)?;
                        }
                    }
                }
                Ok(report)
            },
            &body,
            None::<&fn(&World, &T)>,
        )
    }

    /// The power goes before any step that writes and after the last one, under `orders` schedules; the
    /// machine boots with what the cut left, in every way that `images` allows, and `recover` is called. In
    /// some of those the power goes again, at every step of `recover` that writes, and `recover` is called
    /// on what that left.
    pub(crate) fn crashes<T>(
        &self,
        orders: u64,
        images: Images,
        body: impl Fn(&Run) -> T,
        recover: impl Fn(&World, &T),
    ) -> Explored {
        let tenfold = 10usize.pow(depth() - 1);
        let images = Images {
            all_below: images.all_below * tenfold,
            sample: images.sample * tenfold,
            cuts: (images.cuts.0 * tenfold, images.cuts.1 * tenfold),
            ..images
        };
        let again_images = Images { all_below: 4, sample: 2, corners: false, ..images };
        self.explore(
            || {
                let mut report = Report::default();
                let pool = Pool::new();
                let record = Record { snapshots: true, log: false };
                for order in 0..orders * tenfold as u64 {
                    let strategy: Strategy = match order {
                        0 => Strategy::Replay(Replay::new(Schedule::default())),
                        _ => Strategy::Random(Random(mix(order))),
                    };
                    let ended = self.once(&pool, strategy, &self.faults, record, &body);
                    let mut recipe = Recipe { faults: self.faults.clone(), ..Recipe::default() };
                    recipe.schedule = ended.schedule;
                    report.runs += 1;
                    report.steps += total(&ended.steps);
                    let value = match ended.value {
                        Ok(Some(value)) => value,
                        Ok(None) => continue,
                        Err(message) => return Err(Failed { message, recipe }),
                    };
                    for (at, machine) in spread(&ended.snapshots, images.cuts.0, order) {
                        report.places += 1;
                        for (n, fate) in machine.fates(images).into_iter().enumerate() {
                            // The first two are everything kept and everything dropped.
                            let again = n < 2 || mix(n as u64 ^ images.seed).is_multiple_of(16);
                            recipe.cuts = vec![(at, fate.clone())];
                            let snapshots = self
                                .recover(&machine.image(&fate), &value, &recover, again)
                                .map_err(|message| Failed { message, recipe: recipe.clone() })?;
                            report.images += 1;
                            let first = (at + n) as u64;
                            for (at, machine) in spread(&snapshots, images.cuts.1, first) {
                                for fate in machine.fates(again_images) {
                                    recipe.cuts.truncate(1);
                                    recipe.cuts.push((at, fate.clone()));
                                    self.recover(&machine.image(&fate), &value, &recover, false)
                                        .map_err(|message| Failed {
                                            message,
                                            recipe: recipe.clone(),
                                        })?;
                                    report.images += 1;
                                }
                            }
                        }
                    }
                }
                Ok(report)
            },
            &body,
            Some(&recover),
        )
    }

    /// Recovers from a power cut; the machine at every step of that, if wanted.
    fn recover<T>(
        &self,
        machine: &Machine,
        value: &T,
        recover: &impl Fn(&World, &T),
        snapshots: bool,
    ) -> Result<Vec<Machine>, String> {
        let world = World::of(machine.clone());
        world.set_mutant(self.mutant);
        world.state().snapshots = snapshots.then(Vec::new);
        simulated::set(Some(Rc::new(world.process())));
        let recovered = outcome(|| recover(&world, value));
        simulated::set(None);
        recovered?;
        let mut state = world.state();
        let mut taken = state.snapshots.take().unwrap_or_default();
        if snapshots {
            taken.push(state.machine.clone());
        }
        Ok(taken)
    }

    /// The steps that each process takes, at most, in the first few orders with one preemption, and what
    /// can go wrong with them.
    fn natural<T>(
        &self,
        pool: &Pool,
        body: &impl Fn(&Run) -> T,
    ) -> Result<(Vec<Vec<Step>>, Search), Failed> {
        let mut search = Search::bounded(1);
        let mut most: Vec<Vec<Step>> = Vec::new();
        for _ in 0..100 {
            let strategy = Strategy::Search(search);
            let ended = self.once(pool, strategy, &self.faults, Record::default(), body);
            if let Err(message) = ended.value {
                return Err(Failed::of(message, &self.faults, ended.schedule));
            }
            most.resize(ended.steps.len(), Vec::new());
            for (most, steps) in most.iter_mut().zip(ended.steps) {
                let nothing = Step { risk: Risk::Memory, seen: false };
                most.resize(steps.len().max(most.len()), nothing);
                for (most, step) in most.iter_mut().zip(steps) {
                    most.risk = most.risk.max(step.risk);
                    most.seen |= step.seen;
                }
            }
            search = ended.strategy.and_then(Strategy::into_search).expect("it was one");
            if !search.advance() {
                break;
            }
        }
        Ok((most, search))
    }

    fn search<T>(
        &self,
        mut search: Search,
        faults: &[Fault],
        body: &impl Fn(&Run) -> T,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let pool = Pool::new();
        for _ in 0..self.most_runs {
            let strategy = self.run(&pool, Strategy::Search(search), faults, body, report)?;
            search = strategy.and_then(Strategy::into_search).expect("it was one");
            if !search.advance() {
                return Ok(());
            }
        }
        report.complete = false;
        Ok(())
    }

    fn run<T>(
        &self,
        pool: &Pool,
        strategy: Strategy,
        faults: &[Fault],
        body: &impl Fn(&Run) -> T,
        report: &mut Report,
    ) -> Result<Option<Strategy>, Failed> {
        let ended = self.once(pool, strategy, faults, Record::default(), body);
        report.steps += total(&ended.steps);
        match ended.value {
            Ok(Some(_)) => report.runs += 1,
            Ok(None) => report.pruned += 1,
            Err(message) => return Err(Failed::of(message, faults, ended.schedule)),
        }
        Ok(ended.strategy)
    }

    /// Runs the body once.
    fn once<T>(
        &self,
        pool: &Pool,
        strategy: Strategy,
        faults: &[Fault],
        record: Record,
        body: &impl Fn(&Run) -> T,
    ) -> Ended<T> {
        let world = World::of(self.start.clone());
        world.set_mutant(self.mutant);
        {
            let mut state = world.state();
            state.log = record.log.then(Vec::new);
            state.snapshots = record.snapshots.then(Vec::new);
        }
        let driver = Driver {
            strategy: Some(strategy),
            faults: faults.to_vec(),
            pool: pool.clone(),
            schedule: Schedule::default(),
            steps: Vec::new(),
        };
        simulated::set(Some(Rc::new(world.process())));
        let run = Run {
            world,
            processes: RefCell::default(),
            driver: Some(RefCell::new(driver)),
            warm: self.warm,
            killer: false,
        };
        let value = outcome(|| body(&run));
        simulated::set(None);
        let driver = run.driver.expect("it was given").into_inner();
        let mut state = run.world.state();
        let value = match state.violation.take() {
            Some(violation) => Err(violation.0),
            None => value,
        };
        let mut snapshots = state.snapshots.take().unwrap_or_default();
        if record.snapshots {
            snapshots.push(state.machine.clone());
        }
        Ended {
            value,
            strategy: driver.strategy,
            schedule: driver.schedule,
            steps: driver.steps,
            snapshots,
            log: state.log.take().unwrap_or_default(),
        }
    }

    /// Explores, or replays what the environment says.
    fn explore<T, R: Fn(&World, &T)>(
        &self,
        explore: impl FnOnce() -> Result<Report, Failed>,
        body: &impl Fn(&Run) -> T,
        recover: Option<&R>,
    ) -> Explored {
        let began = Instant::now();
        let result = match std::env::var("CACHELIFT_SIM_REPLAY") {
            Ok(recipe) => {
                let recipe: Recipe = recipe.parse().expect("as a failure printed it");
                let failure = self.replay(recipe, "replayed".into(), body, recover);
                println!("{}: {failure}", self.name);
                Ok(Report { runs: 1, ..Report::default() })
            }
            Err(_) => explore().map_err(|Failed { message, recipe }| {
                Box::new(self.replay(recipe, message, body, recover))
            }),
        };
        Explored { name: self.name, took: began.elapsed(), result }
    }

    /// Runs what a failure of this exploration printed: the same failure, if there is a run at all.
    pub(crate) fn replays<T>(&self, failure: &Failure, body: impl Fn(&Run) -> T) -> Failure {
        let recipe: Recipe =
            failure.recipe.to_string().parse().expect("a recipe reads as it prints");
        let mut again = self.replay(recipe, String::new(), &body, None::<&fn(&World, &T)>);
        again.message = again.log.last().cloned().unwrap_or_default();
        again
    }

    /// Runs a failed run again, to see its steps.
    fn replay<T, R: Fn(&World, &T)>(
        &self,
        recipe: Recipe,
        message: String,
        body: &impl Fn(&Run) -> T,
        recover: Option<&R>,
    ) -> Failure {
        let record = Record { log: true, snapshots: true };
        let strategy = Strategy::Replay(Replay::new(recipe.schedule.clone()));
        let ended = self.once(&Pool::new(), strategy, &recipe.faults, record, body);
        let mut log = ended.log;
        let mut seen = ended.value.as_ref().err().cloned();
        if let (Ok(Some(value)), Some(recover)) = (&ended.value, recover) {
            let mut snapshots = ended.snapshots;
            for (at, fate) in &recipe.cuts {
                log.push(format!("power cut before writing step {at}, fates {fate:?}"));
                let world = World::of(snapshots[*at].image(fate));
                world.set_mutant(self.mutant);
                {
                    let mut state = world.state();
                    (state.log, state.snapshots) = (Some(Vec::new()), Some(Vec::new()));
                }
                simulated::set(Some(Rc::new(world.process())));
                seen = outcome(|| recover(&world, value)).err();
                simulated::set(None);
                let mut state = world.state();
                log.append(&mut state.log.take().unwrap_or_default());
                snapshots = state.snapshots.take().unwrap_or_default();
                snapshots.push(state.machine.clone());
            }
        }
        log.extend(seen);
        Failure { message, recipe, log }
    }
}

/// At most `most` of these, at even distances from a place that depends on `first`, and the last one.
fn spread<T>(all: &[T], most: usize, first: u64) -> impl Iterator<Item = (usize, &T)> {
    let stride = all.len().div_ceil(most.max(1)).max(1);
    let (first, last) = (first as usize % stride, all.len().saturating_sub(1));
    all.iter().enumerate().filter(move |(n, _)| *n % stride == first || *n == last)
}

fn total(steps: &[Vec<Step>]) -> u64 {
    steps.iter().map(|steps| steps.len() as u64).sum()
}

/// As many preemptions, and one more for every level of depth.
fn deepened(preemptions: u32) -> u32 {
    preemptions + depth() - 1
}

struct Failed {
    message: String,
    recipe: Recipe,
}

impl Failed {
    fn of(message: String, faults: &[Fault], schedule: Schedule) -> Self {
        Failed { message, recipe: Recipe { faults: faults.to_vec(), schedule, cuts: Vec::new() } }
    }
}

/// What came of an exploration.
#[must_use]
pub(crate) struct Explored {
    name: &'static str,
    took: Duration,
    result: Result<Report, Box<Failure>>,
}

impl Explored {
    /// Expects every run to keep every promise.
    ///
    /// # Panics
    ///
    /// If one did not, with all that is needed to see it again; and if there was one run only, which would
    /// prove nothing.
    pub(crate) fn holds(self) -> Report {
        let (name, took) = (self.name, self.took);
        let report = self.report();
        println!("{name}: {report}, {took:.2?}");
        let replay = std::env::var_os("CACHELIFT_SIM_REPLAY").is_some();
        assert!(report.runs + report.images > 1 || replay, "{name}: one run proves nothing");
        report
    }

    /// As [`holds`](Self::holds), silently and of however many runs.
    pub(crate) fn report(self) -> Report {
        self.result.unwrap_or_else(|failure| panic!("{}: {failure}", self.name))
    }

    /// Expects a run that breaks the promise whose name is in its message.
    ///
    /// # Panics
    ///
    /// If none did, or another one was broken.
    pub(crate) fn breaks(self, promise: &str) -> Failure {
        match self.result {
            Ok(report) => panic!("{}: nothing broken in {report}", self.name),
            Err(failure) => {
                println!("{}: as expected, {}", self.name, failure.message);
                assert!(failure.message.contains(promise), "{}: {failure}", self.name);
                *failure
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { runs, pruned, steps, places, images, complete } = self;
        write!(f, "{runs} runs ({pruned} pruned), {steps} steps")?;
        if *places > 0 {
            write!(f, ", {places} places")?;
        }
        if *images > 0 {
            write!(f, ", {images} images")?;
        }
        write!(f, "{}", if *complete { ", complete" } else { "" })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        writeln!(f, "CACHELIFT_SIM_REPLAY='{}'", self.recipe)?;
        self.log.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Fault { task, at, kind } in &self.faults {
            match kind {
                FaultKind::Kill => write!(f, "kill {task} {at}; ")?,
                FaultKind::Stop => write!(f, "stop {task} {at}; ")?,
                FaultKind::ShortWrite => write!(f, "short {task} {at}; ")?,
                FaultKind::Error(e) => write!(f, "error {task} {at} {}; ", e.raw_os_error())?,
                FaultKind::LostReply(e) => write!(f, "lost {task} {at} {}; ", e.raw_os_error())?,
                FaultKind::ErrorsFromHere(e) => {
                    write!(f, "errors {task} {at} {}; ", e.raw_os_error())?;
                }
            }
        }
        write!(f, "run {}", self.schedule)?;
        for (at, fate) in &self.cuts {
            write!(f, "; cut {at}")?;
            fate.iter().try_for_each(|choice| write!(f, " {choice}"))?;
        }
        Ok(())
    }
}

impl FromStr for Recipe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut recipe = Recipe::default();
        for part in text.split(';') {
            let (what, rest) = part.trim().split_once(' ').unwrap_or((part.trim(), ""));
            if what == "run" {
                recipe.schedule = rest.parse()?;
                continue;
            }
            let numbers: Result<Vec<usize>, _> = rest.split(' ').map(str::parse).collect();
            let numbers = numbers.map_err(|_| format!("no part of a recipe: `{part}`"))?;
            let errno = |n: usize| Errno::from_raw_os_error(n as i32);
            let (task, at) = (numbers[0], numbers.get(1).copied().unwrap_or(0) as u64);
            let kind = match (what, &numbers[..]) {
                ("cut", [at, fate @ ..]) => {
                    recipe.cuts.push((*at, fate.to_vec()));
                    continue;
                }
                ("kill", [_, _]) => FaultKind::Kill,
                ("stop", [_, _]) => FaultKind::Stop,
                ("short", [_, _]) => FaultKind::ShortWrite,
                ("error", [_, _, e]) => FaultKind::Error(errno(*e)),
                ("lost", [_, _, e]) => FaultKind::LostReply(errno(*e)),
                ("errors", [_, _, e]) => FaultKind::ErrorsFromHere(errno(*e)),
                _ => return Err(format!("no part of a recipe: `{part}`")),
            };
            recipe.faults.push(Fault { task, at, kind });
        }
        Ok(recipe)
    }
}
