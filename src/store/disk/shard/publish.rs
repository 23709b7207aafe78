//! One record more.
//!
//! ```text
//!   found whole? ── yes: theirs
//!        │ no
//!   room in the index, room behind the tail ──► write ──► tail ──► slot ──► old slots die
//! ```
//!
//! A process that dies anywhere in between has published the record or has not. Bytes behind the
//! tail are nobody's, and the next writer's.

use super::generation::Held;
use super::lend::PAGE;
use super::turn::{Active, Turn};
use super::{Shard, Unwritten};
use crate::key::Key;
use crate::race::{Fault, planted};
use crate::store::disk::format::header::Tail;
use crate::store::disk::format::slot::{Fingerprint, Location};
use crate::store::disk::format::{SEGMENT_HEADER, SegmentHeader, SegmentId};
use crate::store::disk::fs::Access;
use crate::store::disk::index::find::{Generations, Reading};
use crate::store::disk::index::rebuild::{Append, fit, may_append};
use crate::store::disk::index::{Candidate, Refused};
use crate::store::disk::large::{Found, Put, Replace};
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;
use crate::store::disk::record::{self, Kind, Layout};
use crate::store::disk::sizing::{self, Sizing};
use crate::store::failpoint::{self, Step};

/// A fault that tests plant.
const HALF: Fault = Fault("a record is published of which half was written");

/// Where a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// With others, unless it is too long for that.
    AsFits,
    /// In a segment of its own.
    Alone,
}

impl<F: MapFs> Turn<'_, F> {
    /// Publishes `record`, which [`record::encode`] made for this key and kind.
    pub(crate) fn put(
        &mut self,
        key: &Key,
        kind: Kind,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Unwritten> {
        self.put_in(Room::AsFits, key, kind, record, replace)
    }

    /// As [`put`](Self::put), in a segment of its own however short it is, so that it can be [lent](Shard::lend).
    pub(crate) fn put_alone(
        &mut self,
        key: &Key,
        kind: Kind,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Unwritten> {
        self.put_in(Room::Alone, key, kind, record, replace)
    }

    fn put_in(
        &mut self,
        room: Room,
        key: &Key,
        kind: Kind,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Unwritten> {
        let layout = record::parse(record, key, kind).map_err(Reason::from)?;
        let meta = record::decode_meta(&record[layout.meta.clone()]);
        let recency = self.shard.new_recency(&meta);
        let fingerprint = Fingerprint::of(key, kind);
        // The second time in a new generation, which has a slot for it.
        for _ in 0..2 {
            let held = self.ready()?;
            if replace == Replace::Damaged
                && let Some((_, found)) = self.entries_of(&held, key, kind).pop()
            {
                return Ok(Put::Existing(found));
            }
            let (held, location) = self.write(held, room, record, &layout)?;
            let old = self.entries_of(&held, key, kind);
            let writer = held.writer().ok_or(Reason::NotWritable)?;
            let is_tail = |tail: Tail| tail.segment == location.segment;
            let put = if held.tail().is_some_and(is_tail) {
                writer.append(fingerprint, location, recency)
            } else {
                writer.insert(fingerprint, location, recency)
            };
            match put {
                Ok(_) => {
                    failpoint::at(Step::OldLive);
                    for (candidate, _) in old {
                        writer.kill(&candidate);
                    }
                    return Ok(Put::New);
                }
                Err(Refused::Full) => {
                    let log2 = held.header().log2_slots + 1;
                    self.rebuild(&held, log2.min(self.shard.sizing.max_log2_slots))?;
                }
                Err(Refused::OutOfReach) => {
                    self.rebuild(&held, held.header().log2_slots)?;
                }
            }
        }
        Err(Reason::OverLimit.into())
    }

    /// Takes every entry of a key out: whether there was one.
    pub(crate) fn remove(&mut self, key: &Key, kind: Kind) -> Result<bool, Unwritten> {
        let held = self.ready()?;
        let entries = self.entries_of(&held, key, kind);
        let removed = entries
            .iter()
            .filter(|(candidate, _)| held.writer().is_some_and(|writer| writer.kill(candidate)));
        Ok(removed.count() > 0)
    }

    /// The whole entries of a key, the latest last. What leads nowhere is taken out: nothing is
    /// being moved while this turn lasts.
    fn entries_of(&self, held: &Held<F>, key: &Key, kind: Kind) -> Vec<(Candidate, Found)> {
        let candidates: Vec<_> = held.candidates(Fingerprint::of(key, kind)).collect();
        let mut entries = Vec::new();
        for candidate in candidates {
            match self.shard.read(held, &candidate, key, kind) {
                Reading::Whole(found) => entries.push((candidate, found)),
                Reading::Other => {}
                Reading::Damaged | Reading::Gone => self.shard.kill(held, &candidate),
            }
        }
        entries
    }

    /// Writes a record where it may be written, making room for it first: the generation it can be
    /// published in, and its place.
    fn write(
        &mut self,
        held: Held<F>,
        room: Room,
        record: &[u8],
        layout: &Layout,
    ) -> Result<(Held<F>, Location), Unwritten> {
        let sizing = self.shard.sizing;
        let length = record.len() as u64;
        if length > sizing.limit / 2 {
            return Err(Reason::OverLimit.into());
        }
        let held = self.room_for_an_entry(held)?;
        if room == Room::Alone || length > sizing.shared {
            return self.write_alone(held, record, layout);
        }
        let (held, location) = self.room_for_bytes(held, length)?;
        self.write_behind(&held, location, record)?;
        Ok((held, location))
    }

    /// Sees to it that the index takes an entry more.
    fn room_for_an_entry(&mut self, held: Held<F>) -> Result<Held<F>, Unwritten> {
        let log2 = held.header().log2_slots;
        match self.shard.sizing.room(log2, held.counts()) {
            sizing::Room::Enough => Ok(held),
            sizing::Room::Rebuild(log2) => self.rebuild(&held, log2),
            sizing::Room::Evict => {
                self.evict_entries(&held)?;
                self.rebuild(&held, self.shard.sizing.max_log2_slots)
            }
        }
    }

    /// A place for so many bytes behind the tail.
    fn room_for_bytes(
        &mut self,
        mut held: Held<F>,
        length: u64,
    ) -> Result<(Held<F>, Location), Unwritten> {
        for _ in 0..4 {
            match self.may_append(&held)? {
                Append::At(tail) => {
                    if let Some(location) = fit(tail, length, self.shard.sizing.segment) {
                        return Ok((held, location));
                    }
                    held = self.roll(held)?;
                }
                Append::Roll => held = self.roll(held)?,
                Append::Rebuild => held = self.rebuild(&held, held.header().log2_slots)?,
            }
        }
        Err(Reason::Other.into())
    }

    /// Whether the tail of this generation may be appended to.
    pub(super) fn may_append(&mut self, held: &Held<F>) -> Result<Append, Unwritten> {
        let segment = match held.tail() {
            Some(tail) => self.active(held, tail.segment)?.map(|active| active.header),
            None => None,
        };
        let checked = self.writer.checked.as_ref() == Some(held.header());
        let append = may_append(held, held.place(self.shard.root.boot_id()), segment, checked);
        if let Append::At(_) = append {
            self.writer.checked = Some(*held.header());
        }
        Ok(append)
    }

    /// The segment `id`, open to be appended to; none if it is gone or not to be trusted.
    fn active(
        &mut self,
        held: &Held<F>,
        id: SegmentId,
    ) -> Result<Option<&mut Active<F::Handle>>, Unwritten> {
        let shard = self.shard;
        let fs = shard.fs();
        // Once a turn: it is unlinked by a hand only while the turn lasts.
        let is_there = match &self.writer.active {
            Some(active) if active.id == id => {
                self.seen == Some(id) || fs.stat(&active.file)?.links > 0
            }
            _ => false,
        };
        self.seen = Some(id);
        if !is_there {
            self.writer.active = None;
            let Ok((file, stat)) = shard.open_file(held.dir(), &id.to_string(), Access::Write)
            else {
                return Ok(None);
            };
            let mut header = [0; SEGMENT_HEADER];
            let read = fs.read_at(&file, &mut header, 0)?;
            let Ok(header) = SegmentHeader::parse(&header[..read]) else { return Ok(None) };
            let allocated = stat.allocated.min(stat.length);
            self.writer.active = Some(Active { id, file, header, allocated });
        }
        Ok(self.writer.active.as_mut())
    }

    /// Writes bytes behind the tail, where nobody reads, after seeing to it that they have blocks.
    pub(super) fn write_behind(
        &mut self,
        held: &Held<F>,
        location: Location,
        bytes: &[u8],
    ) -> Result<(), Unwritten> {
        let Sizing { step, segment, .. } = self.shard.sizing;
        let fs = self.shard.fs();
        let active = self.active(held, location.segment)?.ok_or(Reason::Vanished)?;
        let end = location.end();
        if end > active.allocated {
            let to = end.next_multiple_of(step).min(segment).max(end);
            fs.allocate(&active.file, active.allocated, to - active.allocated)?;
            active.allocated = to;
            failpoint::at(Step::BlocksAllocated);
        }
        failpoint::at(Step::RecordWriting);
        if cfg!(feature = "stress") {
            fs.write_all_at(&active.file, &bytes[..bytes.len() / 2], location.offset)?;
            failpoint::at(Step::RecordTorn);
        }
        if !planted(HALF) {
            fs.write_all_at(&active.file, bytes, location.offset)?;
        }
        failpoint::at(Step::RecordWritten);
        Ok(())
    }

    /// Begins another segment, and evicts some if there are too many then.
    fn roll(&mut self, mut held: Held<F>) -> Result<Held<F>, Unwritten> {
        let sizing = self.shard.sizing;
        let survey = self.survey(held.dir())?;
        let id = self.next_id(&held, &survey);
        if !held.reaches(id) {
            held = self.rebuild(&held, held.header().log2_slots)?;
        }
        self.give(&held, id);
        let header = self.segment_header(id);
        let fill = |file: &F::Handle| {
            self.shard.fs().write_all_at(file, &header.encode(), 0).map_err(Unwritten::from)
        };
        let made = self.make_file(held.dir(), sizing.step, &id.to_string(), fill);
        let (file, ()) = match made {
            Ok(made) => made,
            Err(error) => {
                self.evict_for_space(&held, survey, &error);
                return Err(error);
            }
        };
        self.writer.active = Some(Active { id, file, header, allocated: sizing.step });
        let tail = Tail { segment: id, end: SEGMENT_HEADER as u64 };
        held.writer().ok_or(Reason::NotWritable)?.set_tail(Some(tail));
        failpoint::at(Step::SegmentRolled);
        self.evict_down_to(&held, survey, sizing.limit.saturating_sub(sizing.segment))?;
        Ok(held)
    }

    /// Writes a record into a segment of its own.
    fn write_alone(
        &mut self,
        held: Held<F>,
        record: &[u8],
        layout: &Layout,
    ) -> Result<(Held<F>, Location), Unwritten> {
        let survey = self.survey(held.dir())?;
        let segment = self.next_id(&held, &survey);
        self.give(&held, segment);
        let payload = layout.payload.start as u64;
        let offset = (SEGMENT_HEADER as u64 + payload).next_multiple_of(PAGE) - payload;
        let location = Location { segment, offset, length: record.len() as u64 };
        let (limit, header) = (self.shard.sizing.limit, self.segment_header(segment));
        self.evict_down_to(&held, survey, limit.saturating_sub(location.end()))?;
        let fill = |file: &F::Handle| {
            let fs = self.shard.fs();
            fs.write_all_at(file, &header.encode(), 0)?;
            fs.write_all_at(file, record, offset)?;
            Ok(())
        };
        self.make_file(held.dir(), location.end(), &segment.to_string(), fill)?;
        failpoint::at(Step::AloneWritten);
        Ok((held, location))
    }

    pub(super) fn segment_header(&self, id: SegmentId) -> SegmentHeader {
        let Shard { cache, number, .. } = *self.shard;
        SegmentHeader { cache, shard: number, id, boot: self.shard.root.boot_id() }
    }
}
