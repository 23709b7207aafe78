//! What a thread saw, as records of a fixed size in a file of its own that is only appended to.
//!
//! What others' evidence depends on (a make that begins, a record that is offered) is in the file before it happens; the
//! rest may be lost with its process.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The bytes of an event in the file.
const LENGTH: usize = 40;
/// How many bytes wait in memory at most.
const BUFFER: usize = 400 * LENGTH;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    /// A record was found; `detail` is the tier, `nonce` its maker.
    Hit = 1,
    /// Nothing was found.
    Miss,
    /// A make begins; `detail` says why nobody was waited for, 0 that nobody else may make it.
    MakeBegin,
    /// A make ended.
    MakeEnd,
    /// A call that made the record has returned; `detail` is 1 if it was published.
    Made,
    /// A record is about to be put.
    PutBegin,
    /// It was put, or another was there (`detail` 1), or not (`detail` 2).
    Put,
    /// A note is about to be written.
    NoteBegin,
    /// It was written, or not (`detail` 1).
    Note,
    /// A note was read: `nonce` is its writer, 0 if there was none.
    NoteRead,
    /// Everything was cleared, or not (`detail` 1).
    Clear,
    /// The bytes of a hit or a note are wrong: `detail` says how.
    Wrong,
    /// Something panicked.
    Panic,
    /// A child did not end.
    Hang,
    /// A worker was stopped, by the tool.
    Stopped,
    /// A worker died, by the tool: from when it was alive for sure to when it was dead for sure.
    Killed,
    /// `value` records were found damaged; `detail` 1 if nobody damages any.
    Damage,
    /// A store was opened.
    Open,
    /// An image was loaded and run: `detail` is where it came from, `value` whether it was mapped.
    Image,
    /// The disk was full, by the tool.
    Full,
}

impl Kind {
    const ALL: [Kind; 20] = [
        Kind::Hit,
        Kind::Miss,
        Kind::MakeBegin,
        Kind::MakeEnd,
        Kind::Made,
        Kind::PutBegin,
        Kind::Put,
        Kind::NoteBegin,
        Kind::Note,
        Kind::NoteRead,
        Kind::Clear,
        Kind::Wrong,
        Kind::Panic,
        Kind::Hang,
        Kind::Stopped,
        Kind::Killed,
        Kind::Damage,
        Kind::Open,
        Kind::Image,
        Kind::Full,
    ];
}

/// One event. Times are of the machine's monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) process: u32,
    pub(super) thread: u16,
    pub(super) kind: Kind,
    pub(super) detail: u8,
    pub(super) key: u32,
    pub(super) value: u32,
    pub(super) nonce: u64,
}

impl Event {
    /// An event at this moment.
    pub(super) fn now(kind: Kind, key: u32) -> Event {
        let now = nanoseconds();
        Event {
            begin: now,
            end: now,
            process: 0,
            thread: 0,
            kind,
            detail: 0,
            key,
            value: 0,
            nonce: 0,
        }
    }

    fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0..8].copy_from_slice(&self.begin.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.process.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.thread.to_le_bytes());
        bytes[22] = self.kind as u8;
        bytes[23] = self.detail;
        bytes[24..28].copy_from_slice(&self.key.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.value.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; LENGTH]) -> Option<Event> {
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        Some(Event {
            begin: u64_at(0),
            end: u64_at(8),
            process: u32_at(16),
            thread: u16::from_le_bytes([bytes[20], bytes[21]]),
            kind: Kind::ALL.into_iter().find(|kind| *kind as u8 == bytes[22])?,
            detail: bytes[23],
            key: u32_at(24),
            value: u32_at(28),
            nonce: u64_at(32),
        })
    }
}

/// The machine's monotonic clock, which all processes share.
pub(super) fn nanoseconds() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The history that a thread writes.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    waiting: Vec<u8>,
    process: u32,
    thread: u16,
}

impl Writer {
    /// Appends to `path`.
    pub(super) fn open(path: &Path, thread: u16) -> io::Result<Writer> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Writer {
            path: path.to_owned(),
            file,
            waiting: Vec::with_capacity(BUFFER),
            process: std::process::id(),
            thread,
        })
    }

    /// Keeps an event, to be written with others.
    pub(super) fn keep(&mut self, event: Event) {
        let event = Event { process: self.process, thread: self.thread, ..event };
        self.waiting.extend(event.encode());
        if self.waiting.len() >= BUFFER {
            self.flush();
        }
    }

    /// Writes an event at once: it is known even if this process dies now.
    pub(super) fn write(&mut self, event: Event) {
        self.keep(event);
        self.flush();
    }

    /// Writes what is waiting.
    ///
    /// # Panics
    ///
    /// If it cannot be written: without evidence the run proves nothing.
    pub(super) fn flush(&mut self) {
        self.file.write_all(&self.waiting).expect("the history can be written");
        self.waiting.clear();
    }

    /// Goes on in a forked child, in a file of its own; the parent keeps what is waiting.
    pub(super) fn forked(&mut self) -> io::Result<()> {
        self.waiting.clear();
        self.process = std::process::id();
        let name = format!("fork-{}-{}.history", self.process, nanoseconds());
        let path = self.path.with_file_name(name);
        self.file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(())
    }
}

/// The events of every history in `dir`, in no order.
pub(super) fn read_all(dir: &Path) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "history") {
            continue;
        }
        let bytes = std::fs::read(&path)?;
        // The last write of a process that was killed may be short.
        events.extend(bytes.as_chunks::<LENGTH>().0.iter().filter_map(Event::decode));
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(&dir.path().join("a.history"), 3).unwrap();
        let events: Vec<_> = Kind::ALL
            .into_iter()
            .map(|kind| Event { detail: 9, value: 8, nonce: u64::MAX - 1, ..Event::now(kind, 77) })
            .collect();
        for event in &events {
            writer.keep(*event);
        }
        assert!(read_all(dir.path()).unwrap().is_empty());
        writer.flush();
        let process = std::process::id();
        let expected: Vec<_> =
            events.into_iter().map(|event| Event { process, thread: 3, ..event }).collect();
        assert_eq!(read_all(dir.path()).unwrap(), expected);
    }
}
