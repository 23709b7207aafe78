//! The figures for the eye: one file of HTML with its plots in it, in light and dark.

use std::fmt::Write;

use super::check::Sample;
use super::summary::{Latency, Moment, Summary};
use crate::store::failpoint::Step;

const STYLE: &str = include_str!("report.css");

/// The page.
pub(super) fn html(summary: &Summary) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n");
    let Summary { workers, threads, keys, seed, .. } = summary;
    let _ = write!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width\"><title>cachelift-stress</title>\n\
         <style>{STYLE}</style>\n<main><header><h1>cachelift-stress</h1>\
         <p>{workers} processes of {threads} threads on {keys} keys, {:.0} s, seed {seed}{}</p></header>\n",
        summary.seconds,
        match &summary.fault {
            Some(fault) => format!(", planted fault: <b>{}</b>", escape(fault)),
            None => String::new(),
        }
    );
    tiles(&mut page, summary);
    violations(&mut page, summary);
    section(&mut page, "Over time", "per second", |page| over_time(page, summary));
    section(
        &mut page,
        "Bytes on disk",
        "named files, 20 times a second: the most and the least",
        |page| {
            disk(page, summary);
        },
    );
    section(&mut page, "Latency", "calls by how long they took, both axes logarithmic", |page| {
        page.push_str("<div class=grid>");
        let histograms = summary.latency_us.values().flat_map(|l| l.histogram.values());
        let most = histograms.copied().max().unwrap_or(1);
        for (name, latency) in &summary.latency_us {
            histogram(page, name, latency, most);
        }
        page.push_str("</div>");
    });
    section(&mut page, "Steps of the protocol", "where workers were killed and stopped", |page| {
        steps(page, summary);
    });
    page.push_str("</main></html>\n");
    page
}

fn section(page: &mut String, title: &str, about: &str, fill: impl FnOnce(&mut String)) {
    let _ = write!(page, "<section><h2>{title} <small>{about}</small></h2>");
    fill(page);
    page.push_str("</section>\n");
}

fn tiles(page: &mut String, summary: &Summary) {
    page.push_str("<div class=tiles>");
    let broken: usize = summary.broken.values().sum();
    let tiles = [
        ("violations", broken.to_string(), if broken == 0 { "good" } else { "bad" }),
        ("operations per second", count(summary.operations_per_second), ""),
        ("hit rate", format!("{:.1} %", summary.hit_rate * 100.0), ""),
        ("kills", summary.kills.to_string(), ""),
        ("stops", summary.stops.to_string(), ""),
        ("damaged files", summary.damages.to_string(), ""),
        ("times the disk was full", summary.fills.to_string(), ""),
        (
            "required steps without a kill",
            summary.steps_missed.len().to_string(),
            if summary.steps_missed.is_empty() { "good" } else { "bad" },
        ),
    ];
    for (name, value, class) in tiles {
        let _ = write!(page, "<div class=\"tile {class}\"><b>{value}</b><span>{name}</span></div>");
    }
    page.push_str("</div>\n");
}

fn violations(page: &mut String, summary: &Summary) {
    if summary.violations.is_empty() {
        return;
    }
    section(page, "Violations", "the first of them", |page| {
        page.push_str("<ul class=bad>");
        for violation in summary.violations.iter().take(30) {
            let _ = write!(page, "<li>{}</li>", escape(&violation.to_string()));
        }
        page.push_str("</ul>");
    });
}

/// Where a plot's numbers go.
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    bottom: f64,
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn new(width: f64, height: f64, x: (f64, f64), y: (f64, f64)) -> Self {
        Frame { width, height, left: 58.0, bottom: 20.0, x, y }
    }

    fn at_x(&self, x: f64) -> f64 {
        let share = (x - self.x.0) / (self.x.1 - self.x.0);
        self.left + share * (self.width - self.left - 8.0)
    }

    fn at_y(&self, y: f64) -> f64 {
        let share = (y - self.y.0) / (self.y.1 - self.y.0);
        self.height - self.bottom - share * (self.height - self.bottom - 8.0)
    }

    fn open(&self, page: &mut String, label: &str) {
        let _ = write!(
            page,
            "<svg viewBox=\"0 0 {} {}\" role=img aria-label=\"{label}\">",
            self.width, self.height
        );
    }

    /// A line across with its number.
    fn level(&self, page: &mut String, y: f64, text: &str) {
        let (at, right) = (self.at_y(y), self.width - 8.0);
        let left = self.left;
        let _ = write!(
            page,
            "<line class=rule x1={left} x2={right} y1={at:.1} y2={at:.1} />\
             <text class=end x={:.1} y={:.1}>{text}</text>",
            left - 6.0,
            at + 4.0
        );
    }

    fn tick(&self, page: &mut String, x: f64, text: &str) {
        let (at, low) = (self.at_x(x), self.height - 5.0);
        let _ = write!(page, "<text class=mid x={at:.1} y={low}>{text}</text>");
    }

    fn seconds(&self, page: &mut String) {
        let step = nice(self.x.1 / 8.0);
        let mut at = 0.0;
        while at <= self.x.1 {
            self.tick(page, at, &format!("{at:.0} s"));
            at += step;
        }
    }

    fn path(&self, page: &mut String, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let _ = write!(page, "<path class=\"{class}\" d=\"");
        for (n, (x, y)) in points.enumerate() {
            let command = if n == 0 { 'M' } else { 'L' };
            let _ = write!(page, "{command}{:.1} {:.1}", self.at_x(x), self.at_y(y));
        }
        page.push_str("\"/>");
    }

    fn bar(&self, page: &mut String, class: &str, x: (f64, f64), y: f64, title: &str) {
        let (from, to) = (self.at_x(x.0), self.at_x(x.1));
        let (top, low) = (self.at_y(y), self.at_y(self.y.0));
        let _ = write!(
            page,
            "<rect class={class} x={:.1} y={top:.1} width={:.1} height={:.1} rx=1>\
             <title>{title}</title></rect>",
            from + 0.5,
            (to - from - 1.0).max(0.6),
            (low - top).max(0.0)
        );
    }
}

type Line = (&'static str, &'static str, fn(&Moment) -> u64);

fn over_time(page: &mut String, summary: &Summary) {
    // The last second is not a whole one.
    let whole = summary.moments.len().saturating_sub(1).max(1);
    let moments = &summary.moments[..whole.min(summary.moments.len())];
    let lines: [Line; 4] = [
        ("operations", "one", |moment| moment.operations),
        ("makes", "two", |moment| moment.made),
        ("deaths", "bad", |moment| moment.deaths),
        ("stops", "warn", |moment| moment.stops),
    ];
    for (name, class, of) in lines {
        let most = moments.iter().map(of).max().unwrap_or(0);
        if most == 0 {
            continue;
        }
        let step = nice(most as f64 / 2.0);
        let top = (most as f64 / step).ceil() * step;
        let frame = Frame::new(920.0, 96.0, (0.0, moments.len() as f64), (0.0, top));
        let _ = write!(page, "<h3>{name}</h3>");
        frame.open(page, name);
        let mut level = 0.0;
        while level <= top {
            frame.level(page, level, &count(level));
            level += step;
        }
        for (n, moment) in moments.iter().enumerate() {
            let (at, value) = (n as f64, of(moment));
            let title = format!("{name}: {value} in second {n}");
            frame.bar(page, class, (at, at + 1.0), value as f64, &title);
        }
        frame.seconds(page);
        page.push_str("</svg>");
    }
}

fn disk(page: &mut String, summary: &Summary) {
    let most = summary.allowed.max(summary.most_bytes) as f64 * 1.08;
    let frame = Frame::new(920.0, 220.0, (0.0, summary.seconds.max(1.0)), (0.0, most));
    frame.open(page, "bytes on disk");
    let step = nice(most / f64::from(1 << 20) / 4.0) * f64::from(1 << 20);
    let mut level = 0.0;
    while level <= most {
        frame.level(page, level, &format!("{:.1} MiB", level / f64::from(1 << 20)));
        level += step;
    }
    // Thousands of samples are a blot: the least and the most of each slice of the time, and what lies between.
    let slices = slices(&summary.samples, frame.x.1 / 230.0);
    let most = slices.iter().map(|(second, _, most)| (*second, *most));
    let least = slices.iter().map(|(second, least, _)| (*second, *least));
    frame.path(page, "area one", most.clone().chain(least.clone().rev()));
    frame.path(page, "line one", most);
    frame.path(page, "line faint one", least);
    let bounds = [
        ("limit", summary.max_size, "warn", 14.0),
        ("allowed: a segment per shard more", summary.allowed, "bad", -5.0),
    ];
    for (name, bytes, class, below) in bounds {
        let ends = [frame.x.0, frame.x.1].map(|x| (x, bytes as f64));
        frame.path(page, &format!("line dashed {class}"), ends.into_iter());
        let (x, y) = (frame.width - 12.0, frame.at_y(bytes as f64) + below);
        let _ = write!(page, "<text class=\"end strong\" x={x} y={y:.1}>{name}</text>");
    }
    frame.seconds(page);
    page.push_str("</svg>");
}

/// The least and the most bytes in each slice of so many seconds, with the second in its middle.
fn slices(samples: &[Sample], length: f64) -> Vec<(f64, f64, f64)> {
    let slice = |sample: &Sample| (sample.second / length) as u64;
    let of_slice = |samples: &[Sample]| {
        let bytes = samples.iter().map(|sample| sample.bytes);
        let (least, most) = (bytes.clone().min().unwrap_or(0), bytes.max().unwrap_or(0));
        ((slice(&samples[0]) as f64 + 0.5) * length, least as f64, most as f64)
    };
    samples.chunk_by(|one, two| slice(one) == slice(two)).map(of_slice).collect()
}

fn histogram(page: &mut String, name: &str, latency: &Latency, most: u64) {
    // From 250 ns to 16 s, in steps of a factor of the root of 2.
    let (from, to) = (16.0, 68.0);
    let top = (most as f64).log10().max(1.0).ceil();
    let frame = Frame { left: 34.0, ..Frame::new(300.0, 120.0, (from, to), (-0.3, top)) };
    let _ = write!(
        page,
        "<figure><figcaption><b>{name}</b> {} calls, half within {}, 99 % within {}</figcaption>",
        latency.count,
        time(latency.p50),
        time(latency.p99)
    );
    frame.open(page, name);
    for power in 0..=top as u32 {
        frame.level(page, f64::from(power), &count(10_f64.powi(power as i32)));
    }
    for (bucket, calls) in &latency.histogram {
        let at = f64::from(*bucket).clamp(from, to - 1.0);
        let us = |bucket: f64| time(2_f64.powf(bucket / 2.0) / 1000.0);
        let title = format!("{calls} calls of {} to {}", us(at), us(at + 1.0));
        frame.bar(page, "one", (at, at + 1.0), (*calls as f64).log10(), &title);
    }
    for (us, text) in [(1.0, "1 µs"), (100.0, "100 µs"), (1e4, "10 ms"), (1e6, "1 s")] {
        frame.tick(page, f64::log2(us * 1000.0) * 2.0, text);
    }
    page.push_str("</svg></figure>");
}

fn steps(page: &mut String, summary: &Summary) {
    let most = summary.steps.values().map(|at| at.killed + at.killed_behind).max();
    let most = most.unwrap_or(0).max(1) as f64;
    page.push_str(
        "<table><tr><th>step<th class=num>passed<th class=num>killed at it<th class=num>killed \
         behind it<th class=num>stopped at it<th class=wide></tr>",
    );
    for step in Step::ALL {
        let at = summary.steps[step.name()];
        let lacks = at.required && at.killed == 0;
        let width = |n: u64| n as f64 / most * 100.0;
        let _ = write!(
            page,
            "<tr{}><td>{}<td class=num>{}<td class=num>{}<td class=num>{}<td class=num>{}\
             <td class=wide><i class=bad style=\"width:{:.1}%\"></i>\
             <i class=soft style=\"width:{:.1}%\"></i></tr>",
            if lacks { " class=lacks" } else { "" },
            step.name(),
            at.passed,
            at.killed,
            at.killed_behind,
            at.stopped,
            width(at.killed),
            width(at.killed_behind)
        );
    }
    page.push_str("</table>");
}

/// The next larger of 1, 2 and 5 times a power of ten.
fn nice(n: f64) -> f64 {
    let power = 10_f64.powf(n.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step >= n).unwrap_or(power * 10.0);
    if n >= 0.5 { step.max(1.0) } else { step }
}

fn count(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{}M", n / 1e6),
        n if n >= 1e4 => format!("{:.0}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.1} s", us / 1e6),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.1} µs"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_its_least_and_its_most() {
        let sample = |second, bytes| Sample { second, bytes, temporary: 0 };
        let samples =
            [sample(0.1, 5), sample(0.9, 3), sample(1.9, 9), sample(2.0, 7), sample(9.0, 1)];
        let expected = [(1.0, 3.0, 9.0), (3.0, 7.0, 7.0), (9.0, 1.0, 1.0)];
        assert_eq!(slices(&samples, 2.0), expected);
        assert!(slices(&[], 2.0).is_empty());
    }
}
