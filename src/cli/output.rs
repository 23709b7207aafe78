//! What the command says: data on stdout, words for people on stderr, colours where they are wanted.

use std::fmt::{self, Arguments, Display};
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::time::Duration;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use clap::{ColorChoice, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::EnvFilter;

use super::exit::Exit;
use crate::error::ConfigError;
use crate::sync;

/// Of what failed.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Of what went well.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Of what is worth a look.
pub(super) const NOTE: Style = AnsiColor::Yellow.on_default();
/// Of headings.
pub(super) const HEAD: Style = Style::new().bold();

/// For whom a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Form {
    Human,
    Json,
}

/// `what` in this style; the colours are taken out where they are not wanted.
pub(super) fn styled(style: Style, what: impl Display) -> impl Display {
    fmt::from_fn(move |f| write!(f, "{style}{what}{style:#}"))
}

/// The command's two streams, and its progress bar.
pub(super) struct Output {
    /// Unless another has it.
    stdout: Option<AutoStream<io::StdoutLock<'static>>>,
    /// The first error of stdout, after which nothing is written to it.
    broken: Option<io::Error>,
    progress: Progress,
}

impl Output {
    /// Writes to the process's streams.
    pub(super) fn new(color: ColorChoice) -> Self {
        match color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        }
        .write_global();
        Output {
            stdout: Some(anstream::stdout().lock()),
            broken: None,
            progress: Progress::default(),
        }
    }

    /// Gives stdout to somebody else: a program that runs in this process.
    #[cfg(feature = "kernel")]
    pub(super) fn without_stdout(mut self) -> Self {
        self.stdout = None;
        self
    }

    /// Whether words for people are coloured.
    #[cfg(feature = "kernel")]
    pub(super) fn colours(&self) -> bool {
        anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
    }

    /// Writes a line of data to stdout.
    pub(super) fn data(&mut self, line: Arguments<'_>) {
        if self.broken.is_none()
            && let Some(stdout) = &mut self.stdout
        {
            self.broken = self.progress.aside(|| writeln!(stdout, "{line}")).err();
        }
    }

    /// Writes a line for people to stderr.
    pub(super) fn say(&self, line: impl Display) {
        // Nobody is left to hear that stderr is gone.
        let _ = self.progress.aside(|| writeln!(stderr(), "{line}"));
    }

    /// Says what went wrong.
    pub(super) fn error(&self, error: impl Display) {
        self.say(format_args!("{} {error}", styled(BAD, "error:")));
    }

    /// Says what may be worth knowing.
    pub(super) fn note(&self, note: impl Display) {
        self.say(format_args!("{} {note}", styled(NOTE, "note:")));
    }

    /// Says what is wrong with the command line or the environment.
    pub(super) fn usage(&self, error: &dyn Display) -> Exit {
        self.error(error);
        Exit::Usage
    }

    /// The progress of work of which the user may want to see how far it is.
    pub(super) fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    /// Ends the output. Not to be able to write data is a failure, unless the reader chose to read no more.
    pub(super) fn finish(mut self, exit: Exit) -> Exit {
        self.progress.clear();
        let flushed = self.stdout.as_mut().and_then(|stdout| stdout.flush().err());
        match self.broken.take().or(flushed) {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                self.error(format_args!("stdout: {error}"));
                Exit::Failed
            }
            _ => exit,
        }
    }
}

fn stderr() -> AutoStream<io::StderrLock<'static>> {
    anstream::stderr().lock()
}

/// A bar on stderr for work that takes longer than half a second; only on a terminal, and never under CI.
#[derive(Default)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Short work shows no bar.
    const PATIENCE: Duration = Duration::from_millis(500);

    /// Begins a stretch of `steps` steps, if it is known how many, of what `what` says.
    pub(super) fn begin(&mut self, what: &'static str, steps: Option<usize>) {
        self.clear();
        if !io::stderr().is_terminal() || std::env::var_os("CI").is_some_and(|ci| !ci.is_empty()) {
            return;
        }
        let length = steps.map(|steps| steps as u64);
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        let template = match steps {
            Some(_) => "{msg} {wide_bar} {pos}/{len}",
            None => "{msg} {pos}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        self.bar = Some(bar);
    }

    /// One step is done.
    pub(super) fn step(&mut self) {
        if let Some(bar) = &self.bar {
            if bar.is_hidden() && bar.elapsed() >= Self::PATIENCE {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            bar.inc(1);
        }
    }

    /// Takes the bar away.
    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Does something that writes to the terminal, with the bar out of the way.
    fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// Logs to stderr what `CACHELIFT_LOG` says.
pub(super) fn start_log() -> Result<(), ConfigError> {
    const VARIABLE: &str = "CACHELIFT_LOG";
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let text = text.as_deref().unwrap_or("warn");
    let filter = EnvFilter::try_new(text).map_err(|_| ConfigError {
        variable: VARIABLE.into(),
        value: text.into(),
        expected: "a level such as warn or debug, or a filter such as cachelift=debug".into(),
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(anstream::stderr)
        .without_time()
        .finish();
    // Only a test that runs the command twice in one process has one already.
    let _ = tracing::subscriber::set_global_default(log);
    Ok(())
}

/// Keeps panics inside the compiler and its reader from being told twice: they come back as errors, which
/// say where in the user's file they come from.
pub(super) fn silence_compiler() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let theirs = |location: &panic::Location<'_>| {
            let file = location.file();
            file.contains("/cranelift-") || file.contains("/regalloc2-")
        };
        if !info.location().is_some_and(theirs) {
            default(info);
        }
    }));
}

/// A time in microseconds, for people.
pub(super) fn micros(us: u64) -> impl Display {
    fmt::from_fn(move |f| match us {
        0..10_000 => write!(f, "{us} µs"),
        10_000..10_000_000 => write!(f, "{:.1} ms", us as f64 / 1e3),
        _ => write!(f, "{:.1} s", us as f64 / 1e6),
    })
}

/// A number of bytes, for people.
pub(super) fn size(bytes: u64) -> impl Display {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    fmt::from_fn(move |f| {
        let mut value = bytes as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        match unit {
            0 => write!(f, "{bytes} {}", UNITS[0]),
            _ => write!(f, "{value:.1} {}", UNITS[unit]),
        }
    })
}

/// The time since `start`, in microseconds.
pub(super) fn micros_since(start: std::time::Instant) -> u64 {
    (sync::now() - start).as_micros() as u64
}
