//! A run from begin to end.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::Options;
use super::board::{Board, Sight};
use super::chaos::{Chaos, Plan};
use super::check::{self, Rules, Sample, Violation};
use super::disk::{self, Filler};
use super::history::{self, Event, Kind, Writer, nanoseconds};
use super::payload;
use super::process::{children_of, state_of};
use super::summary::{Chaotic, Summary};
use super::worker::{self, Job, Role};
use crate::config::Config;
use crate::store::disk::sizing::{Sizing, shard_bits};
use crate::store::disk::trust::SPACE;
use crate::store::{Draft, Store};
use crate::sync;

const SECOND: u64 = 1_000_000_000;
/// How long workers may take to end. Longer than any wait in the store, and than the last call of a child may take.
const ENDING: u64 = 20 * SECOND;
/// How long a worker may be at one thing, children included. Calls that return are held to [`PATIENCE`] afterwards.
const ANSWER: u64 = 50 * SECOND;
/// How long a call may take beside its own make: what the store promises, and a machine with other work to do.
const PATIENCE: u64 = 20 * SECOND;
/// A directory of another format that lies beside ours.
const OLD: &str = "v0-x86_64-le64";

/// What a small file system has beside what the cache may take: the copies, and files that are replaced.
const SLACK: u64 = 2 << 20;

/// The directories of a run.
struct Place {
    root: PathBuf,
    is_ours: bool,
    /// Whether the cache has a small file system of its own; if it should have had one, why not.
    small: Result<bool, io::Error>,
}

impl Place {
    fn make(options: &Options, bytes: u64) -> io::Result<Place> {
        let is_ours = options.dir.is_none();
        let root = options.dir.clone().unwrap_or_else(|| {
            std::env::temp_dir().join(format!("cachelift-stress-{}", std::process::id()))
        });
        let root = std::path::absolute(root)?;
        let disk = root.join("disk");
        fs::create_dir_all(&disk)?;
        let small =
            if options.full { disk::mount_small(&disk, bytes).map(|()| true) } else { Ok(false) };
        for name in ["disk/cache", "histories", "disk/spare"] {
            if root.join(name).exists() {
                fs::remove_dir_all(root.join(name))?;
            }
            fs::create_dir_all(root.join(name))?;
        }
        let _ = fs::remove_file(root.join("board"));
        use std::os::unix::fs::PermissionsExt;
        let place = Place { root, is_ours, small };
        fs::set_permissions(place.cache(), fs::Permissions::from_mode(0o700))?;
        fs::create_dir(place.cache().join(OLD))?;
        fs::write(place.cache().join(OLD).join("idx"), old())?;
        Ok(place)
    }

    fn disk(&self) -> PathBuf {
        self.root.join("disk")
    }

    fn cache(&self) -> PathBuf {
        self.disk().join("cache")
    }

    fn space(&self) -> PathBuf {
        self.cache().join(SPACE)
    }
}

fn old() -> Vec<u8> {
    payload::build(0, 1, 5000)
}

/// Runs the workers, and looks at what they saw.
pub(super) fn run(options: &Options) -> io::Result<Summary> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let bits = shard_bits(options.max_size);
    let allowed = options.max_size + (Sizing::of(options.max_size, bits).segment << bits);
    let place = Place::make(options, allowed + SLACK)?;
    if let Err(error) = &place.small {
        eprintln!(
            "cachelift-stress: the disk is not filled, as a small one cannot be mounted: {error}"
        );
    }
    let board = Board::open(&place.root.join("board"))?;
    let all: u64 = (0..options.keys).map(|key| payload::length(key) as u64 + 512).sum();
    let roomy =
        options.max_size >= 8 * all && !options.corrupt && !options.full && !options.images();
    let plan = Plan { kill: options.kill, stop: options.stop, corrupt: options.corrupt, roomy };
    let log = Writer::open(&place.root.join("histories/chaos.history"), 0)?;
    let spare = place.disk().join("spare");
    let filler = matches!(place.small, Ok(true)).then(|| Filler::new(&place.disk()));
    let chaos = Chaos::new(plan, board.clone(), place.space(), spare, filler, log, options.seed);
    let job = Job {
        cache: place.cache(),
        histories: place.root.join("histories"),
        board: place.root.join("board"),
        role: Role::Worker,
        worker: 0,
        tool: std::process::id(),
        seed: options.seed,
        threads: options.threads.into(),
        keys: options.keys,
        max_size: options.max_size,
        corrupted: options.corrupt,
        roomy,
        images: options.images(),
    };
    let mut run = Run {
        job,
        chaos,
        board,
        program: std::env::current_exe()?,
        began: nanoseconds(),
        workers: HashMap::new(),
        readers: 0,
        births: 0,
        samples: Vec::new(),
        violations: Vec::new(),
        allowed,
        is_over: false,
    };
    run.go_on(options)?;
    run.wait_for_all();
    let seconds = (nanoseconds() - run.began) as f64 / SECOND as f64;
    run.look_afterwards(&place);

    let mut events = history::read_all(&place.root.join("histories"))?;
    events.sort_unstable_by_key(|event| (event.begin, event.end));
    let roomy_until = if roomy { roomy_until(&events, options.max_size / 4) } else { 0 };
    let rules = Rules { corrupted: options.corrupt, roomy_until, patience: PATIENCE };
    let mut violations = run.violations;
    violations.extend(check::check(&events, &rules));
    violations.extend(check::check_sizes(&run.samples, run.allowed));
    let chaotic = Chaotic {
        births: run.births,
        kills: run.chaos.kills,
        stops: run.chaos.stops,
        damages: run.chaos.damages,
        fills: run.chaos.fills,
        plan,
    };
    let summary = Summary::new(
        options,
        seconds,
        run.began,
        &events,
        run.samples,
        run.allowed,
        &run.board,
        chaotic,
        violations,
    );
    if place.is_ours && summary.violations.is_empty() {
        if options.full && place.small.is_ok() {
            rustix::mount::unmount(place.disk(), rustix::mount::UnmountFlags::DETACH)?;
        }
        fs::remove_dir_all(&place.root)?;
    } else {
        if matches!(place.small, Ok(true)) {
            // The small file system goes with this process.
            copy(&place.disk(), &place.root.join("kept"))?;
        }
        eprintln!("cachelift-stress: everything is kept in {}", place.root.display());
    }
    Ok(summary)
}

/// Until when so few bytes were written that there was room for all of them.
fn roomy_until(events: &[Event], room: u64) -> u64 {
    let mut bytes = 0;
    for event in events {
        bytes += match event.kind {
            Kind::MakeBegin | Kind::PutBegin => (worker::SHORT + 256) as u64,
            Kind::NoteBegin => 600,
            _ => 0,
        };
        if bytes > room {
            return event.begin;
        }
    }
    u64::MAX
}

/// What is going on.
struct Run {
    job: Job,
    chaos: Chaos,
    board: Board,
    program: PathBuf,
    began: u64,
    /// The workers by process.
    workers: HashMap<i32, usize>,
    readers: u64,
    births: u64,
    samples: Vec<Sample>,
    violations: Vec<Violation>,
    allowed: u64,
    is_over: bool,
}

impl Run {
    fn go_on(&mut self, options: &Options) -> io::Result<()> {
        let bar = ProgressBar::new(options.seconds * 10);
        let style = "{bar:30} {elapsed} of {prefix}  {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        bar.set_prefix(format!("{}s", options.seconds));
        for worker in 0..options.workers.into() {
            self.start(worker)?;
        }
        let (mut next_sample, mut next_reader) = (0, self.began + SECOND);
        let mut next_look = self.began + ANSWER;
        loop {
            let now = nanoseconds();
            if now >= self.began + options.seconds * SECOND {
                break;
            }
            for worker in self.reap() {
                self.start(worker)?;
            }
            self.chaos.act();
            if now >= next_sample {
                next_sample = now + SECOND / 20;
                self.sample();
                let bytes = self.samples.last().map_or(0, |sample| sample.bytes);
                bar.set_position((now - self.began) * 10 / SECOND);
                let births = self.births - u64::from(options.workers);
                bar.set_message(format!("{births} deaths, {} KiB on disk", bytes / 1024));
            }
            if now >= next_look {
                next_look = now + SECOND;
                self.look_for_silent(now);
            }
            if now >= next_reader {
                next_reader = now + SECOND;
                let seed = payload::mix(self.readers);
                self.readers += 1;
                let job = Job { role: Role::Reader, threads: 1, seed, ..self.job.clone() };
                worker::start(&job, &self.program)?;
            }
            sync::sleep(Duration::from_millis(4));
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn start(&mut self, worker: usize) -> io::Result<()> {
        self.births += 1;
        let seed = payload::mix(self.job.seed ^ (self.births << 20));
        let job = Job { worker, seed, ..self.job.clone() };
        let child = worker::start(&job, &self.program)?;
        let pid = child.id() as i32;
        self.workers.insert(pid, worker);
        self.chaos.born(worker, Pid::from_raw(pid).expect("a process has an id"));
        Ok(())
    }

    /// Takes note of those that died or stopped: the workers that died.
    fn reap(&mut self) -> Vec<usize> {
        let mut dead = Vec::new();
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        loop {
            let (pid, how) = match waitpid(None, Some(flags)).unwrap_or(WaitStatus::StillAlive) {
                WaitStatus::Stopped(pid, _) => {
                    self.chaos.stopped(Pid::from_raw(pid.as_raw()).expect("it has an id"));
                    continue;
                }
                WaitStatus::Exited(pid, 0) => (pid, None),
                WaitStatus::Exited(pid, code) => (pid, Some(format!("exited with {code}"))),
                WaitStatus::Signaled(pid, signal, _) => (pid, Some(format!("died of {signal:?}"))),
                _ => break,
            };
            let worker = self.workers.remove(&pid.as_raw());
            let is_told = worker.is_some_and(|worker| self.chaos.died(worker));
            dead.extend(worker);
            let is_well = match &how {
                None => worker.is_none() || self.is_over,
                Some(how) => is_told && how == "died of SIGKILL",
            };
            if !is_well {
                let how = how.unwrap_or_else(|| "ended too early".into());
                self.violations.push(Violation::new("I12", format!("process {pid} {how}")));
            }
        }
        dead
    }

    fn wait_for_all(&mut self) {
        self.is_over = true;
        self.board.end();
        let until = nanoseconds() + ENDING;
        loop {
            self.chaos.end();
            self.reap();
            // Only looks: the next round takes note.
            let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if matches!(waitid(WaitId::All, flags), Err(rustix::io::Errno::CHILD)) {
                return;
            }
            if nanoseconds() > until {
                break;
            }
            sync::sleep(Duration::from_millis(5));
        }
        for (pid, worker) in self.workers.clone() {
            self.give_up(pid, worker);
        }
        self.kill_the_rest();
    }

    /// Ends the workers that are at one thing for too long.
    fn look_for_silent(&mut self, now: u64) {
        for (pid, worker) in self.workers.clone() {
            let is_silent = |seen: Sight| now.saturating_sub(seen.since) > ANSWER;
            if self.board.sights(worker, false).any(is_silent) {
                self.give_up(pid, worker);
            }
        }
    }

    /// I7: tells what a worker is at that does not answer, and ends it.
    fn give_up(&mut self, pid: i32, worker: usize) {
        let mut what = format!("worker {worker} (process {pid}) does not answer");
        for (children, whose) in [(false, ""), (true, "the child of ")] {
            for seen in self.board.sights(worker, children) {
                what += &format!("; {whose}{seen}");
            }
        }
        self.violations.push(Violation::new("I7", format!("{what}; {}", state_of(pid))));
        self.chaos.give_up(worker);
    }

    /// I17: ends what is left of the processes of this run, down to the last.
    fn kill_the_rest(&mut self) {
        // Children come here when their parents are dead.
        for round in 0..500 {
            for pid in children_of(std::process::id() as i32) {
                if round == 0 && !self.workers.contains_key(&pid) {
                    let what = format!("process {pid} does not end: {}", state_of(pid));
                    self.violations.push(Violation::new("I17", what));
                }
                if let Some(pid) = Pid::from_raw(pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            if let Err(nix::errno::Errno::ECHILD) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                return;
            }
            sync::sleep(Duration::from_millis(2));
        }
    }

    /// Notes how many bytes are on disk. Files come and go while they are counted, so what seems too much is counted
    /// again.
    fn sample(&mut self) {
        let second = (nanoseconds() - self.began) as f64 / SECOND as f64;
        let mut sample = Sample { second, bytes: u64::MAX, temporary: 0 };
        for _ in 0..4 {
            let (mut bytes, mut temporary) = (0, 0);
            count(&self.job.cache.join(SPACE), &mut bytes, &mut temporary);
            if bytes < sample.bytes {
                sample = Sample { second, bytes, temporary };
            }
            if sample.bytes <= self.allowed {
                break;
            }
        }
        self.samples.push(sample);
    }

    /// I11 and I18: whatever happened, the directory works, and another format's is as it was.
    fn look_afterwards(&mut self, place: &Place) {
        let mut config = Config::default().dir(place.cache());
        config.max_size = self.job.max_size;
        let store = Store::open(config.clone());
        let key = store.key("stress afterwards").finish();
        let mut why = None;
        // Damage is met, and put right, by whoever writes next.
        for n in 0..4 {
            let draft = Draft::new(payload::build(n, 1, 500));
            match store.put(&key, draft) {
                Ok(_) => why = None,
                Err(error) => why = Some(error.to_string()),
            }
        }
        if why.is_none() && Store::open(config).get(&key).is_none() {
            why = Some("what was put is not found".into());
        }
        if let Some(why) = why {
            self.violations.push(Violation::new("I11", format!("afterwards: {why}")));
        }
        if fs::read(place.cache().join(OLD).join("idx")).ok() != Some(old()) {
            self.violations.push(Violation::new("I18", "another format's directory was touched"));
        }
    }
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Adds up what files occupy.
fn count(dir: &Path, bytes: &mut u64, temporary: &mut u64) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let Ok(meta) = entry.path().symlink_metadata() else { continue };
        if meta.is_dir() {
            count(&entry.path(), bytes, temporary);
        } else if entry.file_name().to_string_lossy().starts_with("tmp-") {
            *temporary += meta.blocks() * 512;
        } else {
            *bytes += meta.blocks() * 512;
        }
    }
}
