//! A record lent: as a place in a file that the caller maps, in place of bytes in memory.
//!
//! ```text
//!   segment    │ header, ░ │ record's header, metadata │ payload …            │ trailer │
//!                                                      └ at a page: file, offset, length
//! ```
//!
//! Only records that were put in segments of their own lie so. Such a file is never written again, so what was verified
//! once need not be verified at every map: a *mark* says which file was, and in which boot of the machine. It holds for as
//! long as nothing of what the kernel says of the file has changed: device, inode, length, times of modification and of
//! change. A change within the same tick of the clock as the verification would not show, so a file gets a mark only
//! when its last change is two seconds ago or more.
//!
//! Whoever has the file mapped goes on with what was lent, whatever becomes of its name.

use super::Shard;
use super::artifact;
use super::generation::Held;
use super::trusted::reason;
use crate::key::Key;
use crate::race::{Fault, planted};
use crate::store::disk::format::slot::Location;
use crate::store::disk::fs::{Access, Stat};
use crate::store::disk::index::Candidate;
use crate::store::disk::index::find::{Care, Reading, find};
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;
use crate::store::disk::record::{self, HEADER, Kind};

/// Payloads in segments of their own begin at a multiple of this, so that they can be mapped.
pub(crate) const PAGE: u64 = 4096;
/// How much of a record is read to find out about it: with it come the first bytes of the payload.
const HEAD: u64 = 16 << 10;
/// No clock of a file system ticks slower than once in so many seconds.
const SETTLED_S: u64 = 2;

/// A fault that tests plant.
pub(crate) const TRUSTING: Fault = Fault("a mark holds whatever was done to its file");

/// A fault that tests plant.
pub(crate) const HASTY: Fault = Fault("a file is marked in the moment of its last change");

/// A verified record's payload in a file.
#[derive(Debug)]
#[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "for the code layer"))]
pub(crate) struct Lent<H> {
    /// The file, open for reading.
    pub(crate) file: H,
    /// Where in the file the payload begins: at a multiple of [`PAGE`].
    pub(crate) offset: u64,
    /// How long the payload is.
    pub(crate) length: u64,
    /// Some of its first bytes, if it was cheap to read them.
    pub(crate) head: Vec<u8>,
    /// What to remember of the file, if it was verified just now and may be remembered.
    pub(crate) mark: Option<Mark>,
}

/// Why a record is not lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlent {
    /// There is none, or none that is whole.
    Absent,
    /// There is no directory whose file system has files to map.
    FileSystem,
    /// It has no file of its own.
    Shared,
}

impl Unlent {
    /// The name that counters have.
    #[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "for the code layer"))]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unlent::Absent => "image-not-in-the-cache",
            Unlent::FileSystem => "image-foreign-file-system",
            Unlent::Shared => "image-no-own-file",
        }
    }
}

/// That a file was verified, and how one recognises it: boot, device, inode, length, both times, place of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark([u8; Mark::LENGTH]);

impl Mark {
    const LENGTH: usize = 88;

    fn of(boot: [u8; 16], stat: &Stat, location: Location) -> Self {
        let mut bytes = Vec::with_capacity(Self::LENGTH);
        bytes.extend(boot);
        bytes.extend([stat.device, stat.inode, stat.length].iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend([stat.modified_ns, stat.changed_ns].iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend([location.offset, location.length].iter().flat_map(|n| n.to_le_bytes()));
        Mark(bytes.try_into().expect("that many bytes"))
    }

    /// As it is kept.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether what is kept is this mark.
    pub(crate) fn is(&self, kept: &[u8]) -> bool {
        kept == self.0 || planted(TRUSTING) && kept.len() == Self::LENGTH
    }
}

impl<F: MapFs> Shard<F> {
    /// See [`Shards::lend`](crate::store::disk::shards::Shards::lend).
    pub(crate) fn lend(
        &self,
        key: &Key,
        is_marked: &dyn Fn(&Mark) -> bool,
    ) -> Result<Lent<F::Handle>, Unlent> {
        let read = |held: &Held<F>, candidate: &Candidate| match self.lend_at(
            held,
            candidate.location,
            key,
            is_marked,
        ) {
            Ok(lent) => Reading::Whole(lent),
            Err(Reason::Absent | Reason::Stale) => Reading::Gone,
            Err(Reason::Key | Reason::Newer) => Reading::Other,
            Err(reason) => {
                self.root.failed(reason, "lending a record");
                if reason.is_damage() { Reading::Damaged } else { Reading::Other }
            }
        };
        let found = find(self, artifact(key), Care::Quick, read).map_err(|_| Unlent::Absent)?;
        if let Some(writer) = found.held.writer() {
            writer.touch(&found.candidate, self.hour());
        }
        found.value.ok_or(Unlent::Shared)
    }

    /// The record at a place; none if it cannot be mapped there.
    fn lend_at(
        &self,
        held: &Held<F>,
        location: Location,
        key: &Key,
        is_marked: &dyn Fn(&Mark) -> bool,
    ) -> Result<Option<Lent<F::Handle>>, Reason> {
        let fs = self.fs();
        let name = location.segment.to_string();
        let (file, stat) = self.open_file(held.dir(), &name, Access::Read)?;
        if stat.length < location.end() {
            return Err(Reason::Truncated);
        }
        let length = HEAD.min(location.length) as usize;
        let head = fs.read_new(&file, length, location.offset).map_err(|error| reason(&error))?;
        let layout = record::announced_layout(&head, key, Kind::Artifact)?;
        if layout.total as u64 != location.length {
            return Err(Reason::Length);
        }
        let offset = location.offset + layout.payload.start as u64;
        if !offset.is_multiple_of(PAGE) {
            return Ok(None);
        }
        let mark = Mark::of(self.root.boot_id(), &stat, location);
        let new_mark = if is_marked(&mark) {
            None
        } else {
            let now = fs.unix_seconds();
            record::parse_in_pieces(&head, key, Kind::Artifact, |piece, at| {
                let read = fs.read_at(&file, piece, location.offset + at as u64);
                match read.map_err(|error| reason(&error))? {
                    n if n == piece.len() => Ok(()),
                    _ => Err(Reason::Truncated),
                }
            })?;
            let after = fs.stat(&file).map_err(|error| reason(&error))?;
            let stays = Mark::of(self.root.boot_id(), &after, location) == mark;
            (stays && is_settled(&stat, now)).then_some(mark)
        };
        let mut head = head;
        head.truncate(layout.payload.end);
        head.drain(..layout.payload.start.min(head.len()));
        let length = layout.payload.len() as u64;
        Ok(Some(Lent { file, offset, length, head, mark: new_mark }))
    }

    /// Whether the payload of the record at a place begins at a page.
    pub(super) fn is_on_page(&self, held: &Held<F>, location: Location) -> bool {
        let header = self.copy(held, location, HEADER as u64);
        let payload = header.and_then(|header| record::announced_payload_any(&header).ok());
        payload.is_some_and(|payload| (location.offset + payload as u64).is_multiple_of(PAGE))
    }
}

/// Whether a change from this second on would change the file's times.
fn is_settled(stat: &Stat, now_s: u64) -> bool {
    let changed_s = stat.changed_ns.max(stat.modified_ns).div_euclid(1_000_000_000);
    i128::from(now_s) - changed_s >= i128::from(SETTLED_S) || planted(HASTY)
}
