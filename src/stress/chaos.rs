//! Who is killed, stopped and damaged, and when.
//!
//! Half of the kills and stops are orders: the worker that passes a step for the n-th time does it to itself, so that
//! every step is met. The other half come from outside at any moment. Damage is done to copies that take the place of
//! files by rename: whoever has the file open keeps the bytes that were promised not to change. A disk is full for as
//! long as a file of the tool's takes all that is free.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use super::board::{Act, Board};
use super::disk::Filler;
use super::history::{Event, Kind, Writer, nanoseconds};
use super::payload::mix;
use crate::store::failpoint::Step;

const MS: u64 = 1_000_000;

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) kill: bool,
    pub(super) stop: bool,
    pub(super) corrupt: bool,
    /// Whether damage and clearing are kept away from.
    pub(super) roomy: bool,
}

impl Plan {
    /// Whether workers come to this step in such a run for sure. Some steps are for damage alone.
    pub(super) fn meets(&self, step: Step) -> bool {
        match step {
            // Segments of small caches have all their blocks from the start.
            Step::BlocksAllocated => false,
            Step::SegmentsScanned | Step::MetaWritten | Step::MetaNamed => self.corrupt,
            Step::EvictBegun
            | Step::EntryCarried
            | Step::VictimDead
            | Step::VictimUnlinked
            | Step::Cleared => !self.roomy,
            _ => true,
        }
    }
}

/// A worker as chaos sees it.
#[derive(Clone, Copy, Debug)]
struct Victim {
    pid: Pid,
    /// Whether it was killed from outside.
    killed: bool,
    /// Since when and until when it is stopped.
    stopped: Option<(u64, u64)>,
    /// When it got its last order.
    ordered: u64,
    /// When it was seen alive last.
    seen: u64,
}

/// The one who does it.
#[derive(Debug)]
pub(super) struct Chaos {
    plan: Plan,
    board: Board,
    space: PathBuf,
    spare: PathBuf,
    /// What fills the disk, if it is the run's own.
    filler: Option<Filler>,
    /// Since when the disk is full.
    full: Option<u64>,
    log: Writer,
    random: u64,
    victims: HashMap<usize, Victim>,
    next_order: u64,
    next_kill: u64,
    next_stop: u64,
    next_damage: u64,
    next_full: u64,
    /// How many workers were killed from outside.
    pub(super) kills: u64,
    /// How many times one was stopped.
    pub(super) stops: u64,
    /// How many files were damaged.
    pub(super) damages: u64,
    /// How many times the disk was full.
    pub(super) fills: u64,
}

impl Chaos {
    /// Chaos among the files of the cache in `space`, with `spare` on the same file system for the copies, and a disk
    /// to fill if there is a `filler`.
    pub(super) fn new(
        plan: Plan,
        board: Board,
        space: PathBuf,
        spare: PathBuf,
        filler: Option<Filler>,
        log: Writer,
        seed: u64,
    ) -> Self {
        let now = nanoseconds();
        Chaos {
            plan,
            board,
            space,
            spare,
            filler,
            full: None,
            log,
            random: mix(seed),
            victims: HashMap::new(),
            next_order: now + 100 * MS,
            next_kill: now + 500 * MS,
            next_stop: now + 300 * MS,
            next_damage: now + 700 * MS,
            next_full: now + 900 * MS,
            kills: 0,
            stops: 0,
            damages: 0,
            fills: 0,
        }
    }

    /// A worker was born.
    pub(super) fn born(&mut self, worker: usize, pid: Pid) {
        let now = nanoseconds();
        let victim = Victim { pid, killed: false, stopped: None, ordered: now, seen: now };
        self.victims.insert(worker, victim);
        // Some steps are done in the first moments only.
        if self.plan.kill && self.below(3) == 0 {
            self.order(worker, now);
        }
    }

    /// A worker was seen to be dead: whether it was because of this.
    pub(super) fn died(&mut self, worker: usize) -> bool {
        let Some(victim) = self.victims.remove(&worker) else { return false };
        let obeyed = self.board.obeyed(worker);
        self.board.bury(worker);
        let process = victim.pid.as_raw_nonzero().get() as u32;
        if let Some((since, _)) = victim.stopped {
            self.log.write(Event { begin: since, process, ..Event::now(Kind::Stopped, 0) });
        }
        self.log.write(Event { begin: victim.seen, process, ..Event::now(Kind::Killed, 0) });
        victim.killed || obeyed
    }

    /// Kills a worker that does not answer.
    pub(super) fn give_up(&mut self, worker: usize) {
        if self.victims.contains_key(&worker) {
            self.kill(worker);
        }
    }

    /// A worker was seen to have stopped.
    pub(super) fn stopped(&mut self, pid: Pid) {
        let now = nanoseconds();
        // Now and then longer than anybody waits.
        let time = if self.below(60) == 0 { 6_000 * MS } else { MS + self.below(150 * MS) };
        if let Some(victim) = self.victims.values_mut().find(|victim| victim.pid == pid) {
            victim.stopped.get_or_insert((victim.seen, now + time));
            self.stops += 1;
        }
    }

    /// Does what is due.
    pub(super) fn act(&mut self) {
        let now = nanoseconds();
        self.release(|until| until <= now);
        if now >= self.next_full {
            self.fill_or_empty(now);
        }
        let workers: Vec<usize> = self.victims.keys().copied().collect();
        for victim in self.victims.values_mut() {
            victim.seen = now;
        }
        if workers.is_empty() {
            return;
        }
        let any = workers[self.below(workers.len() as u64) as usize];
        if (self.plan.kill || self.plan.stop) && now >= self.next_order {
            self.next_order = now + 60 * MS + self.below(60 * MS);
            self.order(any, now);
        }
        if self.plan.kill && now >= self.next_kill {
            self.next_kill = now + 200 * MS + self.below(600 * MS);
            self.kill(any);
        }
        if self.plan.stop && now >= self.next_stop {
            self.next_stop = now + 100 * MS + self.below(300 * MS);
            let _ = kill_process(self.victims[&any].pid, Signal::STOP);
        }
        if self.plan.corrupt && now >= self.next_damage {
            self.next_damage = now + 100 * MS + self.below(500 * MS);
            // A file that went away in between is none to damage.
            if self.damage().is_ok() {
                self.damages += 1;
            }
        }
    }

    /// Lets everybody go on.
    pub(super) fn end(&mut self) {
        self.release(|_| true);
        self.empty();
        for (worker, victim) in &self.victims {
            // One that was told to stop may do so until it ends.
            self.board.cancel(*worker);
            let _ = kill_process(victim.pid, Signal::CONT);
        }
        self.log.flush();
    }

    fn order(&mut self, worker: usize, now: u64) {
        let victim = self.victims[&worker];
        let is_busy = self.board.has_order(worker) && now < victim.ordered + 1_000 * MS;
        if is_busy || victim.killed || victim.stopped.is_some() {
            return;
        }
        let act = match (self.plan.kill, self.plan.stop) {
            (true, true) if self.below(4) == 0 => Act::Stop,
            (true, _) => Act::Die,
            _ => Act::Stop,
        };
        let board = &self.board;
        let times = |step: Step| match act {
            Act::Die => board.died(step),
            Act::Stop => board.stopped(step),
        };
        let met: Vec<Step> =
            Step::ALL.iter().copied().filter(|step| self.plan.meets(*step)).collect();
        let least = met.iter().map(|step| times(*step)).min().unwrap_or(0);
        let rarest: Vec<Step> = met.iter().copied().filter(|step| times(*step) <= least).collect();
        // Some orders go to steps that are met often, or those that are hardly ever met would have them all.
        let choice = if self.below(3) == 0 { met } else { rarest };
        let step = choice[self.below(choice.len() as u64) as usize];
        let passes = if self.board.passed(step) < 100 { 1 } else { 1 + self.below(5) as u32 };
        self.board.order(worker, act, step, passes);
        let victim = self.victims.get_mut(&worker).expect("it was there just now");
        victim.ordered = now;
    }

    fn kill(&mut self, worker: usize) {
        self.board.cancel(worker);
        let victim = self.victims.get_mut(&worker).expect("it was there just now");
        victim.killed = true;
        self.kills += 1;
        let _ = kill_process(victim.pid, Signal::KILL);
    }

    fn release(&mut self, is_due: impl Fn(u64) -> bool) {
        for victim in self.victims.values_mut() {
            let Some((since, until)) = victim.stopped else { continue };
            if is_due(until) {
                let _ = kill_process(victim.pid, Signal::CONT);
                victim.stopped = None;
                let process = victim.pid.as_raw_nonzero().get() as u32;
                let event = Event::now(Kind::Stopped, 0);
                self.log.write(Event { begin: since, process, ..event });
            }
        }
    }

    /// A full disk has room again, or one with room is filled.
    fn fill_or_empty(&mut self, now: u64) {
        if self.full.is_some() {
            self.empty();
            self.next_full = now + 300 * MS + self.below(1_200 * MS);
            return;
        }
        let Some(filler) = &self.filler else { return };
        self.full = Some(now);
        if filler.fill().is_ok() {
            self.fills += 1;
        }
        self.next_full = now + 20 * MS + self.below(400 * MS);
    }

    fn empty(&mut self) {
        if let (Some(since), Some(filler)) = (self.full.take(), &self.filler) {
            filler.empty();
            self.log.write(Event { begin: since, ..Event::now(Kind::Full, 0) });
        }
    }

    fn damage(&mut self) -> io::Result<()> {
        match self.below(40) {
            0..2 => self.replace(&self.space.join("meta")),
            // Neither `CURRENT` nor any index: the segments are all there is to recover from.
            2..6 => {
                let shards = names(&self.space.join("s"))?;
                let shard = &shards[self.below(shards.len() as u64) as usize];
                for file in names(shard)? {
                    if is_named(&file, "CURRENT") || is_named(&file, "idx-") {
                        self.put_in_place(&file, &[0; 100])?;
                    }
                }
                Ok(())
            }
            _ => {
                let mut files = Vec::new();
                for shard in names(&self.space.join("s"))? {
                    files.extend(names(&shard)?);
                }
                files.retain(|file| !is_named(file, "tmp-"));
                let file = &files[self.below(files.len() as u64) as usize].clone();
                self.replace(file)
            }
        }
    }

    /// Puts a damaged copy of a file in its place.
    fn replace(&mut self, file: &Path) -> io::Result<()> {
        let mut bytes = fs::read(file)?;
        let length = bytes.len() as u64;
        match self.below(4) {
            0 => bytes.truncate(self.below(length) as usize),
            1 => {
                let from = self.below(length) as usize;
                let to = bytes.len().min(from + self.below(8192) as usize);
                bytes[from..to].fill(0);
            }
            _ => {
                for _ in 0..=self.below(8) {
                    let at = self.below(length) as usize;
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        self.put_in_place(file, &bytes)
    }

    fn put_in_place(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let copy = self.spare.join("copy");
        fs::write(&copy, bytes)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
        // One that was removed since is not to come back.
        fs::metadata(file)?;
        fs::rename(&copy, file)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random) % n.max(1)
    }
}

fn names(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let names: Vec<_> = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    if names.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(names) }
}

fn is_named(file: &Path, prefix: &str) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}
