//! What a run came to: counts for people, and a summary for people or programs.

use std::fmt::{self, Display, Write as _};

use serde::Serialize;

use crate::cli::output::{BAD, Form, GOOD, HEAD, NOTE, Output, micros, styled};
use crate::store::Origin;

/// How many run lines passed and failed; files that could not be run count as failed. Files and targets that
/// were left out are skipped.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cli) struct Tally {
    pub(in crate::cli) passed: usize,
    pub(in crate::cli) failed: usize,
    pub(in crate::cli) skipped: usize,
}

/// `3 passed, 0 failed, 1 skipped`
impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n, style, what| match n {
            0 => styled(Default::default(), format!("0 {what}")),
            n => styled(style, format!("{n} {what}")),
        };
        let passed = count(self.passed, GOOD, "passed");
        let failed = count(self.failed, BAD, "failed");
        write!(f, "{passed}, {failed}, {}", count(self.skipped, NOTE, "skipped"))
    }
}

/// A function, and where its code came from.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Unit {
    pub(in crate::cli) name: String,
    pub(in crate::cli) signature: String,
    #[serde(serialize_with = "origin_name")]
    pub(in crate::cli) origin: Origin,
    /// How long this process took to make it, in microseconds.
    pub(in crate::cli) us: u64,
    /// For people: what `inspect` wants, or why it was made.
    #[serde(skip)]
    pub(in crate::cli) note: String,
    /// What is told of kernels alone.
    #[serde(flatten)]
    pub(in crate::cli) kernel: Option<KernelUnit>,
}

/// What is told of a specialised kernel besides.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct KernelUnit {
    /// The n-th kernel of its name that the run created.
    pub(in crate::cli) ordinal: u32,
    /// Which question had the answer.
    pub(in crate::cli) question: &'static str,
    pub(in crate::cli) why: String,
}

fn origin_name<S: serde::Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(origin.name())
}

/// The summary of a run. Its JSON is stable: fields may come to be, none goes or changes.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Report {
    schema: u32,
    units: Vec<Unit>,
    counts: Counts,
    time_us: Times,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    made: usize,
    memory: usize,
    disk: usize,
    remote: usize,
    waited: usize,
    passed: usize,
    failed: usize,
    skipped: usize,
}

/// Where the time went, in microseconds.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Times {
    /// From the command's start to its end.
    total: u64,
    /// Compiling.
    make: u64,
    /// All else between files that are read and functions that can be called: looking up, publishing,
    /// waiting, linking.
    load: u64,
}

impl Times {
    /// The times of a run of `total`, of which making and loading took `loading`, and making alone `make`.
    pub(in crate::cli) fn new(total: u64, make: u64, loading: u64) -> Self {
        Times { total, make, load: loading.saturating_sub(make) }
    }
}

impl Report {
    /// The report on these units.
    pub(in crate::cli) fn new(units: Vec<Unit>, tally: Tally, time_us: Times) -> Self {
        let Tally { passed, failed, skipped } = tally;
        let mut counts = Counts { passed, failed, skipped, ..Counts::default() };
        for unit in &units {
            *match unit.origin {
                Origin::Made => &mut counts.made,
                Origin::Memory => &mut counts.memory,
                Origin::Disk => &mut counts.disk,
                Origin::Remote => &mut counts.remote,
                Origin::Waited => &mut counts.waited,
            } += 1;
        }
        Report { schema: 1, units, counts, time_us }
    }

    /// Says it in the form that was asked for, if one was.
    pub(in crate::cli) fn say(&self, form: Option<Form>, output: &Output) {
        match form {
            None => {}
            Some(Form::Human) => output.say(self.human()),
            Some(Form::Json) => output.say(self.json()),
        }
    }

    /// One line of JSON.
    pub(in crate::cli) fn json(&self) -> impl Display {
        serde_json::to_string(self).expect("numbers and text alone")
    }

    /// A short table: every function with its key where they are few, and how many came from where.
    pub(in crate::cli) fn human(&self) -> impl Display {
        const FEW: usize = 20;
        let mut text = String::new();
        let mut row = |row: fmt::Arguments<'_>| {
            let _ = writeln!(text, "{row}");
        };
        if self.units.len() <= FEW {
            let names = || self.units.iter().map(|unit| unit.name.chars().count());
            let width = names().max().unwrap_or_default();
            for Unit { name, origin, us, note, .. } in &self.units {
                let us = micros(*us).to_string();
                row(format_args!("{name:width$}  {:6}  {us:>9}  {note}", origin.name()));
            }
        }
        let Counts { made, memory, disk, remote, waited, .. } = self.counts;
        row(format_args!("{}", styled(HEAD, "functions")));
        for (n, what) in [
            (made, "made here"),
            (memory, "had in memory"),
            (disk, "loaded from disk"),
            (remote, "loaded from the shared tier"),
            (waited, "made by another process"),
        ] {
            if n > 0 {
                row(format_args!("{n:>9}  {what}"));
            }
        }
        row(format_args!("{}", styled(HEAD, "time")));
        let Times { total, make, load } = self.time_us;
        for (us, what) in [(make, "compiling"), (load, "loading"), (total, "in all")] {
            row(format_args!("{:>9}  {what}", micros(us).to_string()));
        }
        text.truncate(text.trim_end().len());
        text
    }
}
