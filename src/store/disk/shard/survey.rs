//! What lies in the directory of a shard.

use super::Shard;
use super::trusted::reason;
use crate::store::disk::format::{Name, SegmentId};
use crate::store::disk::fs::FileKind;
use crate::store::disk::map::MapFs;
use crate::store::disk::reason::Reason;

/// A temporary file of this age belongs to nobody any more.
const ORPHAN_S: u64 = 3600;

/// The files of a shard, as whoever has its turn finds them.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Segments with the bytes that they occupy, the oldest first.
    pub(super) segments: Vec<(SegmentId, u64)>,
    /// Generations that have a file.
    pub(super) generations: Vec<u64>,
    /// The names of temporary files whose makers have died.
    pub(super) orphans: Vec<String>,
    /// The bytes that everything occupies, but for what is not published yet.
    pub(super) occupied: u64,
}

impl<F: MapFs> Shard<F> {
    /// The bytes that the shard's files occupy.
    pub(crate) fn occupied(&self) -> u64 {
        let dir = self.open_folder().ok();
        dir.and_then(|dir| self.survey(&dir).ok()).map_or(0, |survey| survey.occupied)
    }

    /// Looks at every file.
    pub(super) fn survey(&self, dir: &F::Handle) -> Result<Survey, Reason> {
        let fs = self.fs();
        let mut survey = Survey::default();
        for name in fs.list(dir).map_err(|error| reason(&error))? {
            let stat = fs.stat_at(dir, &name);
            if stat.as_ref().is_ok_and(|stat| stat.kind != FileKind::File) {
                continue;
            }
            let is_gone = stat.as_ref().is_err_and(|error| reason(error) == Reason::Absent);
            let stat = stat.ok();
            let allocated = stat.map_or(0, |stat| stat.allocated);
            match Name::parse(&name) {
                Some(Name::Temporary) => {
                    let made_s = stat.map(|stat| stat.modified_ns / 1_000_000_000);
                    let made_s = made_s.map_or(u64::MAX, |s| u64::try_from(s).unwrap_or(0));
                    if fs.unix_seconds().saturating_sub(made_s) > ORPHAN_S {
                        survey.orphans.push(name);
                    }
                    continue;
                }
                // Of which nothing else is known: one that was overlooked would stay in use beside the next, and
                // one that has gone by now has been replaced.
                Some(Name::Index(generation)) => survey.generations.push(generation),
                _ if is_gone => continue,
                Some(Name::Segment(id)) => survey.segments.push((id, allocated)),
                None => {}
            }
            survey.occupied += allocated;
        }
        survey.segments.sort_unstable();
        survey.generations.sort_unstable();
        Ok(survey)
    }
}
