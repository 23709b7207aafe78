//! `cachelift stats`: what lies in the cache directory, and what was done with it.

use std::fmt::Display;

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Form, HEAD, Output, micros, size, styled};
use crate::config::Config;
use crate::store::{Amount, Entry, ShardUsage, Totals, Usage};
use crate::sync;

/// Say what lies in the cache directory, and what was done with it
///
/// Counts entries and the bytes that they occupy on disk, how full each shard is, and when entries were used last.
/// Hit rate and reasons are those of all processes that closed their stores since the directory was made; what a
/// single one did is in the file that CACHELIFT_STATS names.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cachelift stats
  cachelift stats --format json")]
pub(super) struct Arguments {
    /// How to say it
    #[arg(long, value_name = "FORM", default_value = "human")]
    format: Form,
}

/// The numbers as JSON: fields may come to be, none goes or changes.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    dir: Option<&'a str>,
    max_size: u64,
    #[serde(flatten)]
    usage: Usage,
    shards: Vec<ShardUsage>,
    ages: Vec<Age>,
    hit_rate: Option<f64>,
    totals: Totals,
}

/// The entries whose last use is less than so long ago, and not in a row above.
#[derive(Serialize)]
struct Age {
    /// In seconds; of the last row there is no end.
    within_s: Option<u64>,
    #[serde(flatten)]
    amount: Amount,
}

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;

/// The rows of the ages, and what people call them.
const AGES: [(Option<u64>, &str); 6] = [
    // Use is known to the hour.
    (Some(2 * HOUR_S), "last 2 hours"),
    (Some(DAY_S), "last day"),
    (Some(7 * DAY_S), "last week"),
    (Some(14 * DAY_S), "last 2 weeks"),
    (Some(28 * DAY_S), "last 4 weeks"),
    (None, "longer ago"),
];

/// Runs the command. It changes nothing in the cache, and does not make its directory.
pub(super) fn run(arguments: &Arguments, config: Config, mut output: Output) -> Exit {
    let store = super::look(config.clone());
    let store = store.as_ref();
    let usage = store.map(|store| store.usage()).unwrap_or_default();
    let shards = store.map(|store| store.shards()).unwrap_or_default();
    let ages = ages(&store.map(|store| store.entries()).unwrap_or_default(), sync::unix_seconds());
    let totals = store.map(|store| store.totals()).unwrap_or_default();
    match arguments.format {
        Form::Json => {
            let dir = config.dir.as_ref().map(|dir| dir.to_string_lossy());
            let (max_size, hit_rate) = (config.max_size, totals.hit_rate());
            let dir = dir.as_deref();
            let json = Json { schema: 1, dir, max_size, usage, shards, ages, hit_rate, totals };
            let json = serde_json::to_string(&json).expect("numbers and text alone");
            output.data(format_args!("{json}"));
        }
        Form::Human => human(&mut output, &config, &usage, &shards, &ages, &totals),
    }
    output.finish(Exit::Ok)
}

fn ages(entries: &[Entry], now_s: u64) -> Vec<Age> {
    let mut ages: Vec<Age> = AGES
        .iter()
        .map(|(within_s, _)| Age { within_s: *within_s, amount: Amount::default() })
        .collect();
    for entry in entries {
        let age_s = now_s.saturating_sub(entry.used_s);
        let row = ages.iter_mut().find(|age| age.within_s.is_none_or(|within_s| age_s < within_s));
        let amount = &mut row.expect("the last row has no end").amount;
        amount.entries += 1;
        amount.bytes += entry.allocated;
    }
    ages
}

fn human(
    output: &mut Output,
    config: &Config,
    usage: &Usage,
    shards: &[ShardUsage],
    ages: &[Age],
    totals: &Totals,
) {
    let mut row = |name: &str, value: String| {
        let name = styled(HEAD, format_args!("{name:<10}")).to_string();
        output.data(format_args!("{name}  {value}"));
    };
    let amount = |Amount { entries, bytes }: Amount| format!("{entries}, {}", size(bytes));
    row("directory", super::dir_of(config));
    row("artifacts", amount(usage.artifacts));
    row("notes", amount(usage.notes));
    row("unfinished", amount(usage.temporary));
    row("on disk", format!("{} of at most {}", size(usage.occupied), size(config.max_size)));
    if let Some(rate) = totals.hit_rate() {
        let Totals { memory, disk, remote, waited, made, stores, .. } = *totals;
        let made_in = micros(totals.us_make);
        row(
            "hit rate",
            format!("{:.1} % of {} requests", 100.0 * rate, memory + disk + remote + waited + made),
        );
        row(
            "",
            format!(
                "{memory} memory, {disk} disk, {remote} remote, {waited} waited, {made} made in {made_in}"
            ),
        );
        row("", format!("by {}, since the first was closed", plural(stores, "store")));
    }
    for (n, (reason, count)) in totals.reasons.iter().enumerate() {
        row(if n == 0 { "reasons" } else { "" }, format!("{count} {reason}"));
    }
    let most = ages.iter().map(|age| age.amount.entries).max().unwrap_or(0);
    if most > 0 {
        for (n, (age, (_, name))) in ages.iter().zip(AGES).enumerate() {
            let bar = bar(age.amount.entries, most);
            row(
                if n == 0 { "last used" } else { "" },
                format!("{name:<12}  {bar} {}", amount(age.amount)),
            );
        }
    }
    for (n, shard) in shards.iter().enumerate() {
        let ShardUsage { entries, slots, occupied, limit, .. } = *shard;
        let percent = 100.0 * occupied as f64 / limit.max(1) as f64;
        row(
            if n == 0 { "shards" } else { "" },
            format!(
                "{:02x}  {} {percent:>5.1} %  {}, {} of {slots} slots used, {}",
                shard.shard,
                bar(occupied, limit),
                plural(entries, "entry"),
                shard.used_slots,
                size(occupied),
            ),
        );
    }
}

/// A bar of a fixed width, filled by `part` of `whole`; anything at all shows.
fn bar(part: u64, whole: u64) -> String {
    const WIDTH: usize = 20;
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let share = part as f64 / whole.max(1) as f64;
    let eighths = (share.min(1.0) * (8 * WIDTH) as f64).ceil() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    format!("{bar:<WIDTH$}▏")
}

fn plural(n: u64, what: &str) -> impl Display {
    match (n, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (n, Some(stem)) => format!("{n} {stem}ies"),
        (n, None) => format!("{n} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::store::Kind;

    #[test]
    fn each_entry_is_in_one_row() {
        let now_s = 100 * DAY_S;
        let at = |used_s| Entry {
            key: Key::from_bytes([1; 32]),
            kind: Kind::Note,
            length: 64,
            allocated: 64,
            used_s,
        };
        let used = [
            0,
            1,
            2 * HOUR_S - 1,
            2 * HOUR_S,
            DAY_S,
            7 * DAY_S,
            14 * DAY_S,
            28 * DAY_S,
            99 * DAY_S,
        ];
        let mut entries: Vec<Entry> = used.iter().map(|age_s| at(now_s - age_s)).collect();
        entries.push(at(now_s + 5 * DAY_S));
        let rows: Vec<u64> = ages(&entries, now_s).iter().map(|age| age.amount.entries).collect();
        assert_eq!(rows, [4, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(0, 10).chars().filter(|c| *c == '█').count(), 0);
        assert_eq!(bar(10, 10).chars().filter(|c| *c == '█').count(), 20);
        assert_eq!(bar(5, 10).chars().filter(|c| *c == '█').count(), 10);
        assert!(
            bar(1, 1 << 40).starts_with('▏')
                && bar(20, 10) == bar(10, 10)
                && bar(0, 0).starts_with(' ')
        );
        assert!([0, 3, 10].iter().all(|part| bar(*part, 10).chars().count() == 21));
    }
}
