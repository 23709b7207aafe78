//! A worker: threads that do everything a user of the store may do, and write down what they saw.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork};
use rustix::process::{Signal, getpid, getppid, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::board::{self, Board, Call};
use super::history::{Event, Kind, Writer, nanoseconds};
#[cfg(feature = "jit")]
use super::image;
use super::payload::{self, Wrong, mix};
use super::process::state_of;
#[cfg(feature = "jit")]
use crate::code::{Engine, Function};
use crate::config::{Config, Mode};
use crate::key::Key;
use crate::race::{Fault, planted};
use crate::store::failpoint;
use crate::store::{Draft, Origin, PruneLimits, Published, Record, Status, Store};
use crate::sync;

/// The environment variable that makes a process a worker.
pub(super) const JOB: &str = "CACHELIFT_STRESS_JOB";
/// How long a child may take in all: some of its calls may wait for others that are stopped.
const CHILD: Duration = Duration::from_secs(40);
/// How long it may take when the run is over, for its last call.
const LAST: Duration = Duration::from_secs(12);
/// When a child that nobody waits for any more ends whatever it is at.
const ALARM_S: u32 = 60;
/// Faults that tests plant, to see that the tool does not wait for ever.
const SILENT: Fault = Fault("a worker does not answer");
const SILENT_CHILD: Fault = Fault("a forked child does not end");
/// The reason to make of a store that does not know what others make.
const NO_LOCKS: u8 = 4;
/// The tier of a hit of which no tier is told.
pub(super) const UNTOLD: u8 = 5;
/// The longest payload where there is to be room for all.
pub(super) const SHORT: usize = 500;
/// Counts of reasons with this prefix say that something on disk was not as it was written.
const DAMAGE: &str = "damaged-";

/// What a process is told to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) cache: PathBuf,
    pub(super) histories: PathBuf,
    pub(super) board: PathBuf,
    pub(super) role: Role,
    pub(super) worker: usize,
    /// The process of the tool.
    pub(super) tool: u32,
    pub(super) seed: u64,
    pub(super) threads: usize,
    pub(super) keys: u32,
    pub(super) max_size: u64,
    /// Whether somebody damages files.
    pub(super) corrupted: bool,
    /// Whether there is room for all, so that nothing is to be lost: nothing is cleared or replaced then.
    pub(super) roomy: bool,
    /// Whether images are mapped and run.
    pub(super) images: bool,
}

/// What kind of process it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// Works until the end, and takes orders.
    Worker,
    /// Reads for a moment, and may write nothing.
    Reader,
    /// Was started by a worker, and works for a moment.
    Brief,
}

/// One thread of a worker.
struct Thread<'j> {
    job: &'j Job,
    keys: &'j [Key],
    config: Config,
    log: Writer,
    random: Random,
    store: Store,
    anew: Option<Store>,
    held: Vec<(u32, Record, u64)>,
    #[cfg(feature = "jit")]
    images: Images,
    /// How much damage of this store was told.
    damage_told: u64,
    /// Whether this is a forked child.
    is_child: bool,
}

/// What a thread has mapped.
#[cfg(feature = "jit")]
#[derive(Default)]
struct Images {
    /// On the thread's store.
    engine: Option<Engine>,
    held: Vec<(u32, Function)>,
}

/// Numbers for one thread.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// A key: the first are asked for most.
    fn key(&mut self, keys: u32) -> u32 {
        let (n, range) = (u64::from(keys), 1 << 20);
        let at = self.below(range);
        ((at * at / range) * n / range) as u32
    }
}

/// A number that no other maker or writer has.
fn nonce() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("there is randomness");
    u64::from_le_bytes(bytes).max(1)
}

/// Does the job, if this process has one: its exit code.
pub(super) fn run_if_told() -> Option<u8> {
    let job: Job = serde_json::from_str(&std::env::var(JOB).ok()?).expect("a job is JSON");
    Some(run(&job))
}

/// Sees to it that this process does not outlive its parent or, where it may, not for long.
fn end_with_parent(job: &Job) {
    if job.role == Role::Brief {
        alarm::set(ALARM_S);
        return;
    }
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid().map(|pid| pid.as_raw_nonzero().get() as u32) != Some(job.tool) {
        // It was too late to be told.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

/// Says something, by one system call: in a forked child the lock of `stderr` may be one that nobody unlocks.
fn say(what: impl std::fmt::Display) {
    let line = format!("cachelift-stress: {what}\n");
    let _ = rustix::io::write(std::io::stderr(), line.as_bytes());
}

fn run(job: &Job) -> u8 {
    end_with_parent(job);
    // Looked up now: a child may be forked while another thread does so.
    let _ = planted(SILENT);
    let board = Board::open(&job.board).expect("the board can be mapped");
    board::join(board.clone(), job.worker);
    let mut config = Config::default().dir(&job.cache);
    config.max_size = job.max_size;
    // Little memory sends most requests to the directory.
    config.memory_size = [16 << 10, 256 << 10, 16 << 20][job.seed as usize % 3];
    if job.role == Role::Reader {
        config.mode = Mode::ReadOnly;
    }
    let began = nanoseconds();
    let store = Store::open(config.clone());
    let keys: Vec<Key> =
        (0..job.keys).map(|n| store.key("stress v1").u64("n", u64::from(n)).finish()).collect();
    sync::thread::scope(|scope| {
        for number in 0..job.threads {
            let (board, keys, config, store) = (&board, &keys[..], config.clone(), store.clone());
            scope.spawn(move || {
                let name = format!("{:?}-{}-{number}.history", job.role, std::process::id());
                let name = format!("{}-{name}", nanoseconds());
                let log = Writer::open(&job.histories.join(name), number as u16);
                let log = log.expect("a history can be made");
                if job.role == Role::Worker {
                    board::sit(number);
                }
                let random = Random(mix(job.seed) ^ mix(number as u64));
                let (anew, held) = (None, Vec::new());
                let thread = Thread {
                    job,
                    keys,
                    config,
                    log,
                    random,
                    store,
                    anew,
                    held,
                    #[cfg(feature = "jit")]
                    images: Images::default(),
                    damage_told: 0,
                    is_child: false,
                };
                thread.work(board, began);
            });
        }
    });
    0
}

impl Thread<'_> {
    fn work(mut self, board: &Board, began: u64) {
        self.opened(began);
        let operations = match self.job.role {
            Role::Worker => u64::MAX,
            Role::Reader | Role::Brief => 60,
        };
        for _ in 0..operations {
            if board.is_over() {
                break;
            }
            self.safely(|thread| thread.anything(board));
            board::leave();
        }
        self.look_at_held();
        self.tell_damage();
        self.log.flush();
        board::leave();
    }

    /// Does it, and notes a panic.
    fn safely(&mut self, act: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| act(self))).is_err() {
            self.log.write(Event::now(Kind::Panic, 0));
        }
    }

    fn anything(&mut self, board: &Board) {
        let key = self.random.key(self.job.keys);
        let writes = self.job.role != Role::Reader;
        let calm = self.job.roomy;
        #[cfg(feature = "jit")]
        if self.job.images && self.random.below(3) == 0 {
            return self.run_image(key);
        }
        if writes && !calm && self.random.below(2000) == 0 {
            return self.prune();
        }
        match self.random.below(1000) {
            0..500 => get_or_make(self, None, key, 0),
            500..620 => self.get(key),
            620..720 => self.read_note(key),
            720..780 if writes => self.write_note(key),
            780..810 if writes => self.put(key),
            810..825 => self.get_many(),
            825..835 => {
                board::begin(Call::Look, key);
                let began = nanoseconds();
                let found = self.store.contains(&self.keys[key as usize]);
                let inspected = self.store.inspect(&self.keys[key as usize]);
                if let (true, Some(inspection)) = (found, inspected) {
                    self.see(key, &inspection.record, Some(inspection.origin), began);
                }
            }
            835..845 if writes && !calm => self.edit(key),
            845..850 => self.reopen(),
            850..851 if writes && !calm && self.random.below(3) == 0 => self.clear(),
            851..853 if writes && !self.is_child => self.fork(board),
            853..854 if writes && !self.is_child => self.start_another(board),
            854..856 => {
                board::begin(Call::Survey, 0);
                drop((self.store.usage(), self.store.entries()));
            }
            856..866 => self.look_at_held(),
            866..890 => self.tell_damage(),
            _ => get_or_make(self, None, key, 0),
        }
    }

    /// Looks at a record that was found.
    fn see(&mut self, key: u32, record: &Record, origin: Option<Origin>, began: u64) {
        let mut event = Event { begin: began, ..Event::now(Kind::Hit, key) };
        event.detail = origin.map_or(UNTOLD, |origin| origin as u8);
        match payload::check(record.payload(), key) {
            Ok(maker) => {
                event.nonce = maker;
                self.log.keep(event);
                // Making memory executable costs more than all the rest.
                if self.random.below(4) == 0
                    && let Some(value) = payload::run(record.payload())
                    && value != payload::value(key)
                {
                    self.wrong(key, Wrong::Value, value);
                }
                if self.random.below(50) == 0 {
                    if self.held.len() >= 16 {
                        self.held.swap_remove(0);
                    }
                    self.held.push((key, record.clone(), maker));
                }
            }
            Err(wrong) => self.wrong(key, wrong, 0),
        }
    }

    fn wrong(&mut self, key: u32, wrong: Wrong, value: u32) {
        self.log.write(Event { detail: wrong as u8, value, ..Event::now(Kind::Wrong, key) });
    }

    /// Maps an image, runs it, and keeps some, to be run again when the cache has changed.
    #[cfg(feature = "jit")]
    fn run_image(&mut self, key: u32) {
        board::begin(Call::Image, key);
        let began = nanoseconds();
        if self.images.engine.is_none() {
            self.images.engine = image::engine(&self.store).ok();
        }
        let Some(engine) = &self.images.engine else { return };
        match image::load(engine, key) {
            Ok(loaded) => {
                let main = loaded.function("f0").expect("every one has it");
                let (detail, value) = (loaded.origin() as u8, u32::from(loaded.is_mapped()));
                let right = image::is_right(&main, key, 50);
                let event = Event { begin: began, detail, value, ..Event::now(Kind::Image, key) };
                self.log.keep(event);
                if !right {
                    self.wrong(key, Wrong::Value, 0);
                }
                if self.random.below(8) == 0 {
                    if self.images.held.len() >= 16 {
                        self.images.held.swap_remove(0);
                    }
                    self.images.held.push((key, main));
                }
            }
            Err(error) => {
                say(format_args!("image of key {key}: {error}"));
                self.log.write(Event::now(Kind::Panic, key));
            }
        }
        for n in 0..self.images.held.len() {
            let (key, main) = &self.images.held[n];
            if !image::is_right(main, *key, 200) {
                self.wrong(*key, Wrong::Changed, 0);
            }
        }
    }

    fn prune(&mut self) {
        board::begin(Call::Prune, 0);
        let limits =
            PruneLimits { max_size: Some(self.job.max_size / 4), ..PruneLimits::default() };
        // What is wrong with it the store has counted.
        let _ = self.store.prune(limits);
    }

    fn look_at_held(&mut self) {
        for (key, record, maker) in std::mem::take(&mut self.held) {
            if payload::check(record.payload(), key) == Ok(maker) {
                self.held.push((key, record, maker));
            } else {
                self.wrong(key, Wrong::Changed, 0);
            }
        }
    }

    fn get(&mut self, key: u32) {
        board::begin(Call::Get, key);
        let fault = if self.is_child { SILENT_CHILD } else { SILENT };
        while planted(fault) {
            sync::sleep(Duration::from_secs(1));
        }
        let began = nanoseconds();
        match self.store.get(&self.keys[key as usize]) {
            Some(record) => self.see(key, &record, None, began),
            None => self.log.keep(Event { begin: began, ..Event::now(Kind::Miss, key) }),
        }
    }

    fn put(&mut self, key: u32) {
        board::begin(Call::Put, key);
        let nonce = nonce();
        let begin = Event { nonce, ..Event::now(Kind::PutBegin, key) };
        self.log.write(begin);
        let draft = Draft::new(payload::build(key, nonce, length(self.job, key)));
        let put = self.store.put(&self.keys[key as usize], draft);
        let detail = match &put {
            Ok(Published::New(_)) => 0,
            Ok(Published::Existing(theirs)) => {
                self.see(key, theirs, None, begin.begin);
                1
            }
            Err(_) => 2,
        };
        self.log.keep(Event { begin: begin.begin, detail, nonce, ..Event::now(Kind::Put, key) });
    }

    fn read_note(&mut self, key: u32) {
        board::begin(Call::NoteRead, key);
        let began = nanoseconds();
        let note = self.store.note(&self.keys[key as usize]);
        let mut event = Event { begin: began, ..Event::now(Kind::NoteRead, key) };
        match note.map(|note| payload::check(&note, key)) {
            Some(Err(wrong)) => return self.wrong(key, wrong, 0),
            Some(Ok(writer)) => event.nonce = writer,
            None => {}
        }
        self.log.keep(event);
    }

    fn write_note(&mut self, key: u32) {
        board::begin(Call::NoteWrite, key);
        let nonce = nonce();
        let begin = Event { nonce, ..Event::now(Kind::NoteBegin, key) };
        self.log.write(begin);
        let length = 32 + self.random.below(300) as usize;
        let note = payload::build(key, nonce, length);
        let written = self.store.set_note(&self.keys[key as usize], &note);
        let detail = u8::from(written.is_err());
        self.log.keep(Event { begin: begin.begin, detail, nonce, ..Event::now(Kind::Note, key) });
    }

    fn get_many(&mut self) {
        let wanted: Vec<u32> = (0..5).map(|_| self.random.key(self.job.keys)).collect();
        board::begin(Call::GetMany, wanted[0]);
        let keys: Vec<Key> = wanted.iter().map(|key| self.keys[*key as usize]).collect();
        let (store, began) = (self.store.clone(), nanoseconds());
        let got = store
            .try_get_many_with(&keys, |at| Ok::<_, Infallible>(self.make(&store, wanted[at], 1).0));
        for (at, got) in got.into_iter().enumerate() {
            let Ok((record, origin)) = got;
            self.see(wanted[at], &record, Some(origin), began);
        }
    }

    /// Makes a record anew, in place of what there is.
    fn edit(&mut self, key: u32) {
        board::begin(Call::Edit, key);
        let config = self.config.clone().mode(Mode::Refresh);
        let anew = self.anew.take().unwrap_or_else(|| Store::open(config));
        get_or_make(self, Some(&anew), key, 0);
        // What it has made it finds in memory.
        if self.random.below(4) > 0 {
            self.anew = Some(anew);
        }
    }

    fn reopen(&mut self) {
        board::begin(Call::Open, 0);
        self.tell_damage();
        let began = nanoseconds();
        self.store = Store::open(self.config.clone());
        #[cfg(feature = "jit")]
        {
            self.images.engine = None;
        }
        self.damage_told = 0;
        self.opened(began);
    }

    /// Notes whether the store that was opened since `began` has its directory.
    fn opened(&mut self, began: u64) {
        let has_it = matches!(self.store.status(), Status::Disk { .. });
        let event = Event { begin: began, detail: u8::from(!has_it), ..Event::now(Kind::Open, 0) };
        if !has_it {
            say(self.store.status());
        }
        self.log.write(event);
    }

    fn clear(&mut self) {
        board::begin(Call::Clear, 0);
        let began = nanoseconds();
        let cleared = self.store.clear();
        let detail = u8::from(cleared.is_err());
        self.log.write(Event { begin: began, detail, ..Event::now(Kind::Clear, 0) });
    }

    /// Notes how much was found damaged since the store was opened.
    fn tell_damage(&mut self) {
        let reasons = self.store.stats().reasons;
        let damage = reasons.iter().filter(|(reason, _)| reason.starts_with(DAMAGE));
        let found: u64 = damage.map(|(_, count)| count).sum();
        let news = found.saturating_sub(std::mem::replace(&mut self.damage_told, found));
        if news > 0 {
            let detail = u8::from(!self.job.corrupted);
            if detail == 1 {
                say(format_args!("{reasons:?}"));
            }
            let event = Event { detail, value: news as u32, ..Event::now(Kind::Damage, 0) };
            self.log.write(event);
        }
    }

    /// Makes the payload of `key`: what was made, and by whom.
    fn make(&mut self, store: &Store, key: u32, depth: u32) -> (Draft, u64) {
        let alone = matches!(store.status(), Status::Disk { read_only: false, .. })
            && store.config().mode == Mode::ReadWrite;
        let detail = if alone { failpoint::reason_to_make() } else { NO_LOCKS };
        let nonce = nonce();
        board::begin(Call::Make, key);
        let begin = Event { detail, nonce, ..Event::now(Kind::MakeBegin, key) };
        self.log.write(begin);
        match self.random.below(100) {
            0..50 => {}
            50..90 => sync::sleep(Duration::from_micros(self.random.below(2000))),
            90..98 => sync::sleep(Duration::from_millis(self.random.below(20))),
            _ if depth == 0 => {
                let another = self.random.key(self.job.keys);
                if another != key {
                    get_or_make(self, None, another, depth + 1);
                }
            }
            _ => {}
        }
        let draft = Draft::new(payload::build(key, nonce, length(self.job, key)));
        self.log.write(Event { begin: begin.begin, nonce, ..Event::now(Kind::MakeEnd, key) });
        board::begin(Call::GetOrMake, key);
        (draft, nonce)
    }

    /// Goes on for a moment in a forked child too, with the same store.
    fn fork(&mut self, board: &Board) {
        self.log.flush();
        // SAFETY: the child has this thread alone, with a copy of everything the others were in the middle of. It
        // uses the store, which promises to work in one, the allocator, which the C library puts in order for it,
        // and files of its own; it returns into nothing of the parent's, and ends without running exit handlers.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                board::forked();
                alarm::set(ALARM_S);
                self.is_child = true;
                let result = catch_unwind(AssertUnwindSafe(|| {
                    self.log.forked().expect("a history can be made");
                    self.random.0 ^= mix(u64::from(std::process::id()));
                    for _ in 0..20 {
                        if board.is_over() {
                            break;
                        }
                        self.safely(|thread| thread.anything(board));
                    }
                    self.log.flush();
                }));
                // SAFETY: ends the process, and nothing else.
                unsafe { nix::libc::_exit(i32::from(result.is_err())) }
            }
            Ok(ForkResult::Parent { child }) => self.await_child(board, child),
            Err(_) => {}
        }
    }

    fn start_another(&mut self, board: &Board) {
        let job =
            Job { role: Role::Brief, threads: 1, seed: self.random.next(), ..self.job.clone() };
        if let Ok(child) = start(&job, Path::new("/proc/self/exe")) {
            self.await_child(board, Pid::from_raw(child.id() as i32));
        }
    }

    fn await_child(&mut self, board: &Board, child: Pid) {
        board::begin(Call::Fork, child.as_raw() as u32);
        let (began, mut ending) = (sync::now(), None);
        let status = loop {
            match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                status => break status,
            }
            if board.is_over() {
                ending.get_or_insert_with(sync::now);
            }
            if began.elapsed() > CHILD || ending.is_some_and(|ending| ending.elapsed() > LAST) {
                break Ok(WaitStatus::StillAlive);
            }
            sync::sleep(Duration::from_millis(1));
        };
        let seen = board::child_gone();
        match status {
            Ok(WaitStatus::StillAlive) => {
                let at = seen.map_or_else(String::new, |seen| format!("{seen}; "));
                say(format_args!("process {child} does not end: {at}{}", state_of(child.as_raw())));
                self.log.write(Event::now(Kind::Hang, seen.map_or(0, |seen| seen.key)));
                if let Some(pid) = rustix::process::Pid::from_raw(child.as_raw()) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                let _ = waitpid(child, None);
            }
            Ok(WaitStatus::Exited(_, 0)) | Err(_) => {}
            Ok(_) => self.log.write(Event::now(Kind::Panic, 0)),
        }
    }
}

/// Gets the record of `key` from the thread's store, or from `anew`, and notes what came of it.
fn get_or_make(thread: &mut Thread<'_>, anew: Option<&Store>, key: u32, depth: u32) {
    board::begin(Call::GetOrMake, key);
    let store = anew.cloned().unwrap_or_else(|| thread.store.clone());
    let (began, name) = (nanoseconds(), thread.keys[key as usize]);
    let mut made = None;
    let got = store.try_get_with(&name, || {
        let (draft, nonce) = thread.make(&store, key, depth);
        made = Some((nonce, failpoint::published()));
        Ok::<_, Infallible>(draft)
    });
    let Ok((record, origin)) = got;
    if let (Some((nonce, before)), Origin::Made) = (made, origin) {
        let detail = u8::from(failpoint::published() > before);
        let event = Event { begin: began, detail, nonce, ..Event::now(Kind::Made, key) };
        thread.log.keep(event);
    }
    thread.see(key, &record, Some(origin), began);
}

/// How long what is made of `key` is. Where there is to be room for all, it is short, so that much can be written.
fn length(job: &Job, key: u32) -> usize {
    let length = payload::length(key);
    if job.roomy { length.min(SHORT) } else { length }
}

/// Starts a process with a job.
pub(super) fn start(job: &Job, program: &Path) -> std::io::Result<std::process::Child> {
    let job = serde_json::to_string(job).expect("a job is plain data");
    Command::new(program).env(JOB, job).stdin(std::process::Stdio::null()).spawn()
}
