//! The figures of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Options;
use super::board::Board;
use super::chaos::Plan;
use super::check::{Sample, Violation};
use super::history::{Event, Kind};
use super::worker::UNTOLD;
use crate::store::failpoint::Step;

/// A run of so many seconds is long enough to meet every step of the protocol.
const COVERING_S: f64 = 100.0;

/// What chaos did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chaotic {
    pub(super) births: u64,
    pub(super) kills: u64,
    pub(super) stops: u64,
    pub(super) damages: u64,
    pub(super) fills: u64,
    pub(super) plan: Plan,
}

/// How long an operation took, in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Latency {
    pub(super) count: u64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
    /// How many took from 2^(n/2) to 2^((n+1)/2) nanoseconds, by n.
    pub(super) histogram: BTreeMap<u32, u64>,
}

/// What happened at a step of the protocol.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct AtStep {
    /// How often threads passed it.
    pub(super) passed: u64,
    /// How many workers were killed right there.
    pub(super) killed: u64,
    /// How many threads were between it and the next when their worker was killed from outside.
    pub(super) killed_behind: u64,
    /// How many workers were stopped right there.
    pub(super) stopped: u64,
    /// Whether a run of this kind must kill there.
    pub(super) required: bool,
}

/// What happened in a second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Moment {
    pub(super) operations: u64,
    pub(super) made: u64,
    pub(super) deaths: u64,
    pub(super) stops: u64,
}

/// The figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// Of this form of the figures.
    pub(super) version: u32,
    pub(super) workers: u16,
    pub(super) threads: u16,
    pub(super) keys: u32,
    pub(super) seed: u64,
    /// The fault that was planted.
    pub(super) fault: Option<String>,
    pub(super) seconds: f64,
    pub(super) operations: u64,
    pub(super) operations_per_second: f64,
    /// Requests that were answered, by where from.
    pub(super) answered: BTreeMap<&'static str, u64>,
    /// The share of them that was not made.
    pub(super) hit_rate: f64,
    pub(super) missed: u64,
    /// Makes that did not wait for others, by reason.
    pub(super) duplicates: BTreeMap<&'static str, u64>,
    pub(super) latency_us: BTreeMap<&'static str, Latency>,
    /// Processes that were started as workers.
    pub(super) births: u64,
    pub(super) kills: u64,
    pub(super) stops: u64,
    pub(super) damages: u64,
    /// How many times the disk was full.
    pub(super) fills: u64,
    /// Records and files that were found damaged, as far as it was told.
    pub(super) damage_found: u64,
    pub(super) steps: BTreeMap<&'static str, AtStep>,
    /// Required steps at which nobody was killed.
    pub(super) steps_missed: Vec<&'static str>,
    pub(super) max_size: u64,
    /// The bytes that may be on disk: the limit, and a segment per shard.
    pub(super) allowed: u64,
    pub(super) most_bytes: u64,
    pub(super) most_temporary: u64,
    pub(super) samples: Vec<Sample>,
    pub(super) moments: Vec<Moment>,
    /// How often each invariant was broken.
    pub(super) broken: BTreeMap<&'static str, usize>,
    /// The first hundred of each.
    pub(super) violations: Vec<Violation>,
}

impl Summary {
    #[allow(clippy::too_many_arguments, reason = "each is asked for once, by the only caller")]
    pub(super) fn new(
        options: &Options,
        seconds: f64,
        began: u64,
        events: &[Event],
        samples: Vec<Sample>,
        allowed: u64,
        board: &Board,
        chaotic: Chaotic,
        all: Vec<Violation>,
    ) -> Self {
        let mut answered = BTreeMap::new();
        let mut duplicates = BTreeMap::new();
        let mut times: BTreeMap<&'static str, Vec<u64>> = BTreeMap::new();
        let mut moments = vec![Moment::default(); seconds as usize + 1];
        let (mut missed, mut damage_found) = (0, 0);
        for event in events {
            let second = event.end.saturating_sub(began) / 1_000_000_000;
            let last = moments.len() - 1;
            let moment = &mut moments[last.min(second as usize)];
            let operation = match event.kind {
                Kind::Hit => {
                    let tier = tier(event.detail);
                    if event.detail != UNTOLD {
                        *answered.entry(tier).or_default() += 1;
                    }
                    tier
                }
                Kind::Miss => {
                    missed += 1;
                    "miss"
                }
                Kind::Image => "image",
                Kind::Put => "put",
                Kind::Note => "note-write",
                Kind::NoteRead => "note-read",
                Kind::Clear => "clear",
                other => {
                    match other {
                        Kind::MakeBegin if event.detail > 0 => {
                            *duplicates.entry(reason(event.detail)).or_default() += 1;
                        }
                        Kind::MakeEnd => moment.made += 1,
                        Kind::Killed => moment.deaths += 1,
                        Kind::Stopped => moment.stops += 1,
                        Kind::Damage => damage_found += u64::from(event.value),
                        _ => {}
                    }
                    continue;
                }
            };
            moment.operations += 1;
            times.entry(operation).or_default().push(event.end.saturating_sub(event.begin));
        }
        let operations = times.values().map(|times| times.len() as u64).sum();
        let requests: u64 = answered.values().sum();
        let made = answered.get("made").copied().unwrap_or(0);
        let steps = steps(board, &chaotic.plan);
        let steps_missed = if chaotic.plan.kill {
            let missed = steps.iter().filter(|(_, at)| at.required && at.killed == 0);
            missed.map(|(name, _)| *name).collect()
        } else {
            Vec::new()
        };
        let mut broken = BTreeMap::new();
        let mut violations = all;
        violations.retain(|violation| {
            let count: &mut usize = broken.entry(violation.invariant).or_default();
            *count += 1;
            *count <= 100
        });
        Summary {
            version: 1,
            workers: options.workers,
            threads: options.threads,
            keys: options.keys,
            seed: options.seed,
            fault: std::env::var("CACHELIFT_STRESS_FAULT").ok(),
            seconds,
            operations,
            operations_per_second: operations as f64 / seconds,
            hit_rate: if requests == 0 { 0.0 } else { 1.0 - made as f64 / requests as f64 },
            answered,
            missed,
            duplicates,
            latency_us: times.into_iter().map(|(name, times)| (name, latency(times))).collect(),
            births: chaotic.births,
            kills: chaotic.kills + steps.values().map(|at| at.killed).sum::<u64>(),
            stops: chaotic.stops,
            damages: chaotic.damages,
            fills: chaotic.fills,
            damage_found,
            steps,
            steps_missed,
            max_size: options.max_size,
            allowed,
            most_bytes: samples.iter().map(|sample| sample.bytes).max().unwrap_or(0),
            most_temporary: samples.iter().map(|sample| sample.temporary).max().unwrap_or(0),
            samples,
            moments,
            broken,
            violations,
        }
    }

    /// Whether nothing was broken, and every step that must be was met by a kill.
    pub(super) fn is_good(&self) -> bool {
        let covered = self.steps_missed.is_empty() || self.seconds < COVERING_S;
        self.violations.is_empty() && covered && self.operations > 0
    }

    /// The figures as JSON.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data encodes")
    }
}

fn steps(board: &Board, plan: &Plan) -> BTreeMap<&'static str, AtStep> {
    let at = |step: Step| AtStep {
        passed: board.passed(step),
        killed: board.died(step),
        killed_behind: board.found(step),
        stopped: board.stopped(step),
        required: plan.kill && plan.meets(step),
    };
    Step::ALL.iter().map(|step| (step.name(), at(*step))).collect()
}

fn tier(detail: u8) -> &'static str {
    ["memory", "disk", "remote", "waited", "made", "get"].get(usize::from(detail)).unwrap_or(&"?")
}

fn reason(detail: u8) -> &'static str {
    let reasons = ["", "deadline-passed", "lock-unavailable", "nested", "without-locks"];
    reasons.get(usize::from(detail)).unwrap_or(&"?")
}

fn latency(mut times: Vec<u64>) -> Latency {
    times.sort_unstable();
    let us = |n: usize| times[n.min(times.len() - 1)] as f64 / 1000.0;
    let at = |share: f64| us((times.len() as f64 * share) as usize);
    let mut histogram = BTreeMap::new();
    for time in &times {
        let bucket = ((*time).max(1) as f64).log2() * 2.0;
        *histogram.entry(bucket as u32).or_default() += 1;
    }
    Latency {
        count: times.len() as u64,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: us(times.len() - 1),
        histogram,
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_second = self.operations_per_second;
        let Summary { workers, threads, operations, seconds, .. } = self;
        writeln!(
            f,
            "{operations} operations in {seconds:.1} s by {workers} × {threads}: {per_second:.0}/s"
        )?;
        write!(f, "answered ")?;
        for (tier, count) in &self.answered {
            write!(f, " {tier} {count} ")?;
        }
        writeln!(f, " hit rate {:.1} %, missed {}", self.hit_rate * 100.0, self.missed)?;
        write!(f, "made without waiting ")?;
        for (reason, count) in &self.duplicates {
            write!(f, " {reason} {count} ")?;
        }
        writeln!(
            f,
            "\n\n{:12} {:>9} {:>10} {:>10} {:>10} {:>10} {:>12}",
            "latency, µs", "count", "50 %", "90 %", "99 %", "99.9 %", "most"
        )?;
        for (name, l) in &self.latency_us {
            let Latency { count, p50, p90, p99, p999, max, .. } = l;
            writeln!(
                f,
                "{name:12} {count:>9} {p50:>10.1} {p90:>10.1} {p99:>10.1} {p999:>10.1} {max:>12.1}"
            )?;
        }
        let Summary { births, kills, stops, damages, damage_found, fills, .. } = self;
        writeln!(
            f,
            "\n{births} workers, {kills} kills, {stops} stops, {damages} files damaged ({damage_found} times found), {fills} times a full disk"
        )?;
        writeln!(
            f,
            "{:20} {:>10} {:>8} {:>8} {:>8}",
            "step", "passed", "killed", "behind", "stopped"
        )?;
        for step in Step::ALL {
            let at = self.steps[step.name()];
            let mark = if at.required && at.killed == 0 { "  never killed" } else { "" };
            let AtStep { passed, killed, killed_behind, stopped, .. } = at;
            writeln!(
                f,
                "{:20} {passed:>10} {killed:>8} {killed_behind:>8} {stopped:>8}{mark}",
                step.name()
            )?;
        }
        let kib = |bytes: u64| bytes / 1024;
        writeln!(
            f,
            "\non disk at most {} KiB, limit {} KiB, allowed {} KiB; temporary files at most {} KiB",
            kib(self.most_bytes),
            kib(self.max_size),
            kib(self.allowed),
            kib(self.most_temporary)
        )?;
        if self.violations.is_empty() {
            writeln!(f, "violations: 0")?;
        } else {
            writeln!(f, "violations: {:?}", self.broken)?;
            for violation in self.violations.iter().take(20) {
                writeln!(f, "  {violation}")?;
            }
        }
        if !self.steps_missed.is_empty() {
            writeln!(f, "nobody was killed at: {}", self.steps_missed.join(", "))?;
        }
        Ok(())
    }
}
