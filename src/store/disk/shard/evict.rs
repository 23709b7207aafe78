//! One segment less.
//!
//! ```text
//!   victim ──► its worthiest entries written again at the tail, found there ──► the others die ──► unlink
//! ```
//!
//! At every moment each entry that is kept is found. Who reads in the victim goes on reading: its
//! file lives for as long as somebody has it open or mapped. Who had its place and comes too late
//! to open it looks again.

use super::Unwritten;
use super::generation::Held;
use super::survey::Survey;
use super::turn::Turn;
use crate::race::{Fault, planted};
use crate::store::disk::format::SegmentId;
use crate::store::disk::format::slot::Fingerprint;
use crate::store::disk::index::Candidate;
use crate::store::disk::index::rebuild::fit;
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;
use crate::store::disk::record;
use crate::store::disk::segment::victim::Census;
use crate::store::disk::sizing::Sizing;
use crate::store::disk::usage::Verified;
use crate::store::failpoint::{self, Step};

/// A fault that tests plant.
const NO_LIMIT: Fault = Fault("nothing is ever evicted");

/// A fault that tests plant.
const DEAD_FIRST: Fault = Fault("an entry dies before it is found elsewhere");

/// A segment of which nothing was used for so long goes, even if there is room.
const UNUSED_HOURS: u32 = 14 * 24;

impl<F: MapFs> Turn<'_, F> {
    /// Keeps the shard within the limit of `sizing` and without entries that were not used for `unused_hours`.
    pub(crate) fn prune(
        &mut self,
        sizing: &Sizing,
        unused_hours: Option<u32>,
    ) -> Result<(), Unwritten> {
        if self.is_unborn() {
            return Ok(());
        }
        let held = self.ready()?;
        let writer = held.writer().ok_or(Reason::NotWritable)?;
        if let Some(most) = unused_hours {
            let hour = self.shard.hour();
            for (candidate, recency) in held.entries() {
                if hour.saturating_sub(recency.hour) > most {
                    writer.kill(&candidate);
                }
            }
        }
        let survey = self.survey(held.dir())?;
        self.evict_down_to(&held, survey, u64::MAX)?;
        let survey = self.survey(held.dir())?;
        if survey.occupied <= sizing.limit {
            return Ok(());
        }
        // The segment that is being filled is no exception.
        writer.set_tail(None);
        self.writer.active = None;
        if !self.is_packed_to(sizing.limit) || planted(NO_LIMIT) {
            return self.evict_down_to(&held, survey, sizing.limit);
        }
        // There is room for what is written, within what a full shard may occupy.
        let most = self.shard.sizing.limit + self.shard.sizing.segment;
        self.evict_down_to(&held, survey, most.saturating_sub(sizing.limit))?;
        let survey = self.survey(held.dir())?;
        match self.pack(&held, &survey, sizing) {
            // The less there is room for on the disk, the more is to go.
            Err(_) => self.evict_down_to(&held, survey, sizing.limit),
            Ok(()) => Ok(()),
        }
    }

    /// Reads every record, and takes out those that are not what they should be.
    pub(crate) fn verify(&mut self) -> Result<Verified, Unwritten> {
        if self.is_unborn() {
            return Ok(Verified::default());
        }
        let held = self.ready()?;
        let writer = held.writer().ok_or(Reason::NotWritable)?;
        let mut verified = Verified::default();
        for (candidate, _) in held.entries() {
            match self.whole(&held, &candidate) {
                Ok(bytes) => {
                    verified.whole += 1;
                    verified.bytes += bytes.len() as u64;
                }
                // Not read is not damaged.
                Err(reason) if !reason.is_damage() && reason != Reason::Absent => {}
                Err(reason) => {
                    self.shard.root.failed(reason, "verifying a record");
                    verified.damaged += 1;
                    writer.kill(&candidate);
                }
            }
        }
        Ok(verified)
    }

    /// Evicts segments until everything occupies `goal` bytes or less, and those that nothing is
    /// alive in or that were not used for long. `survey` may lack the segment at the tail, which is
    /// never evicted.
    pub(super) fn evict_down_to(
        &mut self,
        held: &Held<F>,
        survey: Survey,
        goal: u64,
    ) -> Result<(), Unwritten> {
        let hour = self.shard.hour();
        let census = Census::of(held.entries(), hour);
        let mut occupied = survey.occupied;
        let mut files = Self::evictable(held, survey);
        let is_unused = |id: &SegmentId| {
            let used = census.segments.get(id).map(|live| live.hour);
            used.is_none_or(|used| hour.saturating_sub(used) > UNUSED_HOURS)
        };
        let unused: Vec<_> = files.iter().copied().filter(|(id, _)| is_unused(id)).collect();
        files.retain(|(id, _)| !is_unused(id));
        for (id, bytes) in unused {
            self.evict(held, id, &[]);
            occupied = occupied.saturating_sub(bytes);
        }
        while occupied > goal
            && let Some(victim) = census.victim(&files)
        {
            files.retain(|(id, _)| *id != victim.id);
            let entries: Vec<_> =
                held.entries().filter(|(entry, _)| entry.location.segment == victim.id).collect();
            self.evict(held, victim.id, &census.carried(&victim, &entries, hour));
            occupied = occupied.saturating_sub(victim.bytes);
        }
        Ok(())
    }

    /// Evicts segments until the index is not too full of live entries.
    pub(super) fn evict_entries(&mut self, held: &Held<F>) -> Result<(), Unwritten> {
        let survey = self.survey(held.dir())?;
        let census = Census::of(held.entries(), self.shard.hour());
        let mut files = Self::evictable(held, survey);
        let mut live = census.all.entries;
        while live > self.shard.sizing.most_live()
            && let Some(victim) = census.victim(&files)
        {
            files.retain(|(id, _)| *id != victim.id);
            live -= census.segments.get(&victim.id).map_or(0, |tally| tally.entries);
            self.evict(held, victim.id, &[]);
        }
        Ok(())
    }

    /// Evicts one segment if `error` says that there is no space, so that the next attempt may find
    /// some.
    pub(super) fn evict_for_space(&mut self, held: &Held<F>, survey: Survey, error: &Unwritten) {
        let Unwritten::Io(error) = error else { return };
        if !matches!(Reason::of(error), Reason::NoSpace | Reason::Quota) {
            return;
        }
        let census = Census::of(held.entries(), self.shard.hour());
        if let Some(victim) = census.victim(&Self::evictable(held, survey)) {
            self.evict(held, victim.id, &[]);
        }
    }

    fn evictable(held: &Held<F>, survey: Survey) -> Vec<(SegmentId, u64)> {
        let tail = held.tail().map(|tail| tail.segment);
        survey.segments.into_iter().filter(|(id, _)| Some(*id) != tail).collect()
    }

    /// Removes a segment, after writing `carried` of its entries again.
    fn evict(&mut self, held: &Held<F>, victim: SegmentId, carried: &[Candidate]) {
        let Some(writer) = held.writer() else { return };
        if planted(NO_LIMIT) {
            return;
        }
        failpoint::at(Step::EvictBegun);
        for candidate in carried {
            if !self.carry(held, candidate) {
                break;
            }
            failpoint::at(Step::EntryCarried);
        }
        for (candidate, _) in held.entries() {
            if candidate.location.segment == victim {
                writer.kill(&candidate);
            }
        }
        failpoint::at(Step::VictimDead);
        self.remove_file(held.dir(), &victim.to_string());
        failpoint::at(Step::VictimUnlinked);
        self.shard.forget(victim);
    }

    /// Writes an entry again at the tail: whether there was room. Half of the segment is left to
    /// new ones.
    fn carry(&mut self, held: &Held<F>, candidate: &Candidate) -> bool {
        let (Some(writer), Some(tail)) = (held.writer(), held.tail()) else { return false };
        let room = self.shard.sizing.segment / 2;
        let Some(location) = fit(tail, candidate.location.length, room) else { return false };
        // What cannot be read is not carried, and no reason to stop.
        let Ok(bytes) = self.whole(held, candidate) else { return true };
        if planted(DEAD_FIRST) {
            writer.kill(candidate);
        }
        self.write_behind(held, location, &bytes).is_ok()
            && writer.relocate(candidate, location).is_ok()
    }

    /// The bytes of an entry, if they are a whole record of its fingerprint.
    pub(super) fn whole(&self, held: &Held<F>, candidate: &Candidate) -> Result<Vec<u8>, Reason> {
        let bytes = self.shard.read_by_name(held, candidate.location)?;
        let (key, kind, layout) = record::parse_any(&bytes)?;
        let is_its =
            layout.total == bytes.len() && Fingerprint::of(&key, kind) == candidate.fingerprint;
        if is_its { Ok(bytes) } else { Err(Reason::Key) }
    }
}
