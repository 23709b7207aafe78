//! The measured processes, and how they are told what to do and when.
//!
//! ```text
//!   parent   go N ──────────────►          go N ──────────────►
//!   child          ready │ N operations │ nanoseconds      │ N operations │ ...
//! ```
//!
//! Keys and payloads of a round are made before its clock runs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::peer::Peer;
use crate::records::{ABSENT, PRESENT, Random, Records, key, payload};

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Task {
    /// Opens and gets, once.
    Open,
    /// Gets what is there, for as many milliseconds as it is told.
    Get,
    /// Gets what is not there, for as many milliseconds as it is told.
    Absent,
    /// Puts as many new records as it is told.
    Put,
}

/// A child's work.
#[derive(Args, Clone, Debug)]
pub struct Job {
    pub task: Task,
    pub peer: Peer,
    pub size: usize,
    pub count: u64,
    /// Which of the children it is.
    pub number: u64,
    pub dir: PathBuf,
}

/// How many keys are made at a time.
const BATCH: usize = 500;

/// The child's side. Prints a line when it is ready, and one per round: nanoseconds per operation, or for [`Task::Put`]
/// for all of them.
pub fn run(job: &Job) {
    match job.task {
        Task::Open => open(job),
        Task::Get => get(job, PRESENT, job.count),
        Task::Absent => get(job, ABSENT, u64::MAX),
        Task::Put => put(job),
    }
}

fn open(job: &Job) {
    rounds(|n| {
        let key = key(PRESENT, Random::new(job.number + n * 7).below(job.count));
        let began = Instant::now();
        let found = job.peer.open(&job.dir).get(&key);
        let time = began.elapsed();
        assert_eq!(found, Some(job.size));
        time.as_nanos() as f64
    });
}

fn get(job: &Job, series: u64, below: u64) {
    let mut cache = job.peer.open(&job.dir);
    let expected = (series == PRESENT).then_some(job.size);
    if series == PRESENT {
        // Everything is in the page cache, and mapped, before anything is timed.
        (0..below).for_each(|n| assert_eq!(cache.get(&key(series, n)), expected));
    }
    let mut random = Random::new(job.number + 1);
    rounds(|milliseconds| {
        let limit = Duration::from_millis(milliseconds);
        let (mut time, mut count) = (Duration::ZERO, 0);
        while time < limit {
            let keys: Vec<_> = (0..BATCH).map(|_| key(series, random.below(below))).collect();
            let began = Instant::now();
            for key in &keys {
                assert_eq!(cache.get(key), expected);
                count += 1;
                // Slow ones are not asked for the whole batch.
                if count % 64 == 0 && time + began.elapsed() > limit {
                    break;
                }
            }
            time += began.elapsed();
        }
        time.as_nanos() as f64 / f64::from(count)
    });
}

fn put(job: &Job) {
    let mut cache = job.peer.open(&job.dir);
    let mut round = 0;
    rounds(|count| {
        round += 1;
        let series = 1000 * round + job.number;
        let records: Vec<_> =
            (0..count).map(|n| key(series, n)).map(|key| (key, payload(&key, job.size))).collect();
        let began = Instant::now();
        for (key, payload) in &records {
            cache.put(key, payload);
        }
        began.elapsed().as_nanos() as f64
    });
}

fn rounds(mut round: impl FnMut(u64) -> f64) {
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("the parent is there");
        println!("{}", round(line.parse().expect("the parent says a number")));
    }
}

/// Several children with the same work.
pub struct Team(Vec<Member>);

struct Member {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Team {
    /// Starts this many, and waits until they are ready.
    pub fn start(task: Task, peer: Peer, records: Records, dir: &Path, members: usize) -> Self {
        let member = |number: usize| {
            let program = std::env::current_exe().expect("this program has a path");
            let mut child = Command::new(program)
                .args(["child", &name(&task), &name(&peer)])
                .args([records.size as u64, records.count, number as u64].map(|n| n.to_string()))
                .arg(dir)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a child starts");
            let orders = child.stdin.take().expect("it is piped");
            let answers = BufReader::new(child.stdout.take().expect("it is piped"));
            Member { child, orders, answers }
        };
        let mut team = Team((0..members).map(member).collect());
        team.0.iter_mut().for_each(|member| assert_eq!(member.answer(), "ready"));
        team
    }

    /// Lets all of them do a round at once: what each of them says.
    pub fn round(&mut self, order: u64) -> Vec<f64> {
        for member in &mut self.0 {
            writeln!(member.orders, "{order}").expect("a child listens");
        }
        self.0.iter_mut().map(|m| m.answer().parse().expect("a child says a number")).collect()
    }
}

impl Member {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a child speaks");
        line.trim_end().to_owned()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for Member { child, orders, .. } in self.0.drain(..) {
            drop(orders);
            let mut child = child;
            assert!(child.wait().expect("a child ends").success(), "a child failed");
        }
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is skipped").get_name().to_owned()
}
