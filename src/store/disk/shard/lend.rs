//! A record lent: as a place in a file that the caller maps, in place of bytes in memory.
//!
//! ```text
//!   segment    │ header, ░ │ record's header, metadata │ payload …            │ trailer │
//!                                                      └ at a page: file, offset, length
//! ```
//!
//! Only records that were put in segments of their own lie so. Such a file is never written again, so what was verified
//! once need not be verified at every map: a [mark](super::way) says which file was, and in which boot of the machine. It holds for as
//! long as nothing of what the kernel says of the file has changed: device, inode, length, times of modification and of
//! change. A change within the same tick of the clock as the verification would not show, so a file gets a mark only
//! when its last change is two seconds ago or more.
//!
//! Whoever has the file mapped goes on with what was lent, whatever becomes of its name.

use super::artifact;
use super::generation::Held;
use super::trusted::{self, reason};
use super::way::{Mark, Way};
use super::{HOUR_S, Shard};
use crate::key::Key;
use crate::race::{Fault, planted};
use crate::store::disk::format::slot::Location;
use crate::store::disk::fs::{Access, Stat};
use crate::store::disk::index::Candidate;
use crate::store::disk::index::find::{Care, Reading, find};
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;
use crate::store::disk::record::{self, HEADER, Kind};
use crate::store::disk::root::Root;

/// Payloads in segments of their own begin at a multiple of this, so that they can be mapped.
pub(crate) const PAGE: u64 = 4096;
/// How much of a record is read to find out about it.
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
    /// What to remember of the file, if it is news and may be remembered.
    pub(crate) way: Option<Way>,
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

impl<F: MapFs> Shard<F> {
    /// See [`Shards::lend`](crate::store::disk::shards::Shards::lend).
    pub(crate) fn lend(&self, key: &Key, known: Option<&Way>) -> Result<Lent<F::Handle>, Unlent> {
        let read = |held: &Held<F>, candidate: &Candidate| match self.lend_at(
            held,
            candidate.location,
            key,
            known,
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
        known: Option<&Way>,
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
        let mark = Mark::of(key, self.root.boot_id(), &stat, location);
        let is_marked = if known.is_some_and(|known| mark.is(&known.mark)) {
            true
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
            let stays = Mark::of(key, self.root.boot_id(), &after, location) == mark;
            stays && is_settled(&stat, now)
        };
        let length = layout.payload.len() as u64;
        let payload = (layout.payload.start as u64, length);
        let way = Way { mark, shard: self.number, location, payload, hour: self.hour() };
        let way = Some(way).filter(|way| is_marked && Some(way) != known);
        Ok(Some(Lent { file, offset, length, way }))
    }

    /// Whether the payload of the record at a place begins at a page.
    pub(super) fn is_on_page(&self, held: &Held<F>, location: Location) -> bool {
        let header = self.copy(held, location, HEADER as u64);
        let payload = header.and_then(|header| record::announced_payload_any(&header).ok());
        payload.is_some_and(|payload| (location.offset + payload as u64).is_multiple_of(PAGE))
    }
}

/// The record at the end of a way, past shard and index; none if it leads nowhere now.
pub(crate) fn lend_by<F: MapFs>(
    root: &Root<F>,
    space: &F::Handle,
    key: &Key,
    way: &Way,
) -> Option<Lent<F::Handle>> {
    let fs = root.fs();
    if u64::from(way.hour) != fs.unix_seconds() / HOUR_S {
        return None;
    }
    let (file, stat) = trusted::open_file(root, space, &way.file(), Access::Read).ok()?;
    let (start, length) = way.payload;
    let offset = way.location.offset + start;
    let is_same = Mark::of(key, root.boot_id(), &stat, way.location).is(&way.mark);
    if !is_same || stat.length < way.location.end() || !offset.is_multiple_of(PAGE) {
        return None;
    }
    Some(Lent { file, offset, length, way: None })
}

/// Whether a change from this second on would change the file's times.
fn is_settled(stat: &Stat, now_s: u64) -> bool {
    let changed_s = stat.changed_ns.max(stat.modified_ns).div_euclid(1_000_000_000);
    i128::from(now_s) - changed_s >= i128::from(SETTLED_S) || planted(HASTY)
}
