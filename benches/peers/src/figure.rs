//! A figure: two medians of one run, their ratio, and what it should be.

use std::fmt::Write;

use serde_json::{Value, json};

/// What is compared, of the two times a figure has.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The peer takes at least this many times as long as we do.
    AtLeast(f64),
    /// The peer takes longer.
    Faster,
    /// To be known, not to be reached.
    None,
}

/// One comparison.
#[derive(Debug)]
pub struct Figure {
    /// `get/1KiB/1000/1p`.
    pub name: String,
    /// What ours is compared with.
    pub peer: String,
    /// Our median, in nanoseconds per operation.
    pub ours: f64,
    /// The peer's.
    pub theirs: f64,
    pub target: Target,
}

impl Figure {
    fn ratio(&self) -> f64 {
        self.theirs / self.ours
    }

    fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(times) => Some(self.ratio() >= times),
            Target::Faster => Some(self.ratio() > 1.0),
            Target::None => None,
        }
    }

    fn target(&self) -> String {
        match self.target {
            Target::AtLeast(times) => format!(">= {times}"),
            Target::Faster => "> 1".into(),
            Target::None => String::new(),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        }
    }
}

/// All figures of a run.
#[derive(Debug, Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// Adds a figure, and says so on stderr.
    pub fn add(&mut self, figure: Figure) {
        let Figure { name, peer, .. } = &figure;
        let (ours, theirs) = (time(figure.ours), time(figure.theirs));
        let (ratio, target, verdict) = (figure.ratio(), figure.target(), figure.verdict());
        eprintln!("  {name} / {peer}: {ours}, {theirs}: {ratio:.2} {target} {verdict}");
        self.0.push(figure);
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut table = format!(
            "{:<24} {:<26} {:>10} {:>10} {:>8}  {:<8} {}\n",
            "figure", "peer", "ours", "peer's", "ratio", "target", ""
        );
        for figure in &self.0 {
            let Figure { name, peer, ours, theirs, .. } = figure;
            let line = format!(
                "{name:<24} {peer:<26} {:>10} {:>10} {:>7.2}x  {:<8} {}",
                time(*ours),
                time(*theirs),
                figure.ratio(),
                figure.target(),
                figure.verdict()
            );
            let _ = writeln!(table, "{}", line.trim_end());
        }
        let (met, all) = self.count();
        let _ = writeln!(table, "{met} of {all} targets met");
        table
    }

    /// The same for programs; times in nanoseconds.
    pub fn json(&self) -> Value {
        let figures: Vec<Value> = self
            .0
            .iter()
            .map(|figure| {
                let Figure { name, peer, ours, theirs, .. } = figure;
                json!({
                    "figure": name, "peer": peer, "ours_ns": ours, "peer_ns": theirs,
                    "ratio": figure.ratio(), "target": figure.target(), "met": figure.is_met(),
                })
            })
            .collect();
        let (met, all) = self.count();
        json!({ "schema": 1, "figures": figures, "targets": all, "met": met })
    }

    fn count(&self) -> (usize, usize) {
        let verdicts: Vec<bool> = self.0.iter().filter_map(Figure::is_met).collect();
        (verdicts.iter().filter(|met| **met).count(), verdicts.len())
    }
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 100.0 => format!("{ns:.2} ns"),
        ns if ns < 10_000.0 => format!("{ns:.0} ns"),
        ns => format!("{:.1} us", ns / 1e3),
    }
}

/// The median.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
