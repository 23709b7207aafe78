//! The shards of a cache directory: which one a key belongs to, and all of them together.
//!
//! ```text
//!   v1-x86_64-le64/   meta             how many shards, and which cache this is; made once
//!                     shard-0a.lock    eternal: whoever holds it writes in s/0a
//!                     s/0a/            CURRENT, an index, segments
//! ```
//!
//! Opening costs the same for ten entries and for a million: nothing is read but `meta`, and of a
//! shard, when it is first used, `CURRENT` and the header of its index.

use crate::key::Key;
use crate::store::failpoint::{self, Step};
use crate::store::snapshot::Snapshot;
use crate::sync::fork::SetOnce;
use crate::sync::{Arc, AtomicU64, Ordering};

use super::format::slot::shard_of;
use super::format::{CacheId, META, META_LEN, Malformed, Meta, Name};
use super::fs::Access;
use super::index::find::{Absent, Care};
use super::large::{Failure, Lookup, Put, Replace};
use super::lock::{self, LockFile};
use super::map::MapFs;
use super::reason::Reason;
use super::record::Kind;
use super::root::Root;
use super::shard::lend::{self, Lent, Unlent};
use super::shard::way::{self, Way};
use super::shard::{Shard, Turn, Unwritten, trusted};
use super::sizing::{Sizing, shard_bits};
use super::trust::Opened;
use super::usage::{Entry, ShardUsage, Usage, Verified};

/// How long writing is left alone after an error that would come again.
const BACK_OFF_S: u64 = 60;
/// One in so many that remember a way looks for those that lead nowhere.
const WAYS: u64 = 32;

/// The backend of records in shards.
#[derive(Debug)]
pub(crate) struct Shards<F: MapFs> {
    root: Arc<Root<F>>,
    max_size: u64,
    open: Snapshot<Option<Arc<Open<F>>>, F::Reclaim>,
    cleaning: LockFile<F>,
    /// The second, since 1970, in which a write failed for a lasting reason; 0 if none did.
    failed_s: AtomicU64,
}

/// The shards of one directory. If a hand removes it, and another is made, they are others.
#[derive(Debug)]
struct Open<F: MapFs> {
    root: Arc<Root<F>>,
    opened: Arc<Opened<F::Handle>>,
    cache: CacheId,
    shard_bits: u32,
    sizing: Sizing,
    /// Each is made when it is first used: a process that looks for one record has no use for the others.
    shards: Vec<SetOnce<Shard<F>>>,
}

impl<F: MapFs> Open<F> {
    fn of(&self, key: &Key) -> &Shard<F> {
        self.shard(shard_of(key, self.shard_bits))
    }

    fn shard(&self, number: u16) -> &Shard<F> {
        let shard = &self.shards[usize::from(number)];
        shard.get().unwrap_or_else(|| {
            let (root, opened) = (self.root.clone(), self.opened.clone());
            shard.set(Shard::new(root, opened, self.cache, number, self.sizing))
        })
    }

    /// All of them.
    fn shards(&self) -> impl ExactSizeIterator<Item = &Shard<F>> {
        (0..1_u16 << self.shard_bits).map(|number| self.shard(number))
    }
}

impl<F: MapFs> Shards<F> {
    /// The shards in `root`, which are kept within `max_size` bytes.
    pub(crate) fn new(root: Arc<Root<F>>, max_size: u64) -> Self {
        let cleaning = LockFile::new(root.clone(), lock::CLEANING);
        let (open, failed_s) = (Snapshot::new(None), AtomicU64::new(0));
        Shards { root, max_size, open, cleaning, failed_s }
    }

    /// The entry of `key`.
    pub(crate) fn get(&self, key: &Key, kind: Kind, care: Care) -> Lookup {
        let at_once = {
            let guard = self.open.pin();
            let open = self.open.get(&guard).as_ref();
            open.and_then(|open| open.of(key).get_at_once(key, kind, &guard))
        };
        if let Some(found) = at_once {
            return Lookup::Hit(found);
        }
        let Some(open) = self.held() else { return Lookup::Miss(Reason::Absent) };
        let mut found = open.of(key).get(key, kind, care);
        if found.as_ref().is_err_and(|absent| *absent == Absent::Unsure)
            && care == Care::Thorough
            && let Some(moved) = self.root.moved_on(&open.opened)
            && let Ok(Some(open)) = self.open_in(moved)
        {
            found = open.of(key).get(key, kind, care);
        }
        found.map_or(Lookup::Miss(Reason::Absent), Lookup::Hit)
    }

    /// Whether this process has read the directory's `meta`, and understood it.
    pub(crate) fn is_open(&self) -> bool {
        self.open.with(Option::is_some)
    }

    /// Whether there are no shards yet.
    pub(crate) fn is_unborn(&self) -> bool {
        self.held().is_none()
    }

    /// Whether the index has an entry for the artifact of `key`; whether it is whole, only
    /// [`get`](Self::get) tells.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.held().is_some_and(|open| open.of(key).contains(key, Kind::Artifact))
    }

    /// How many makers of `key` began and did not come back. Keys share counters.
    pub(crate) fn attempts(&self, key: &Key) -> u64 {
        self.held().map_or(0, |open| open.of(key).attempts(key))
    }

    /// A maker of `key` begins.
    pub(crate) fn attempt(&self, key: &Key) {
        if let Some(open) = self.held() {
            open.of(key).attempt(key);
        }
    }

    /// A maker of `key` came back.
    pub(crate) fn forgive(&self, key: &Key) {
        if let Some(open) = self.held() {
            open.of(key).forgive(key);
        }
    }

    /// Publishes `record`, which [`record::encode`](super::record::encode) made for this key and kind.
    pub(crate) fn put(
        &self,
        key: &Key,
        kind: Kind,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Failure> {
        self.put_by(|open| open.of(key).turn()?.put(key, kind, record, replace))
    }

    /// As [`put`](Self::put) of an artifact, in a segment of its own, so that it can be [lent](Self::lend).
    pub(crate) fn put_alone(
        &self,
        key: &Key,
        record: &[u8],
        replace: Replace,
    ) -> Result<Put, Failure> {
        let kind = Kind::Artifact;
        let put = self.put_by(|open| open.of(key).turn()?.put_alone(key, kind, record, replace));
        if matches!(put, Ok(Put::New)) {
            self.forget_way(key);
        }
        put
    }

    /// The artifact of `key` as a place in a file. If what is `known` of it leads there, it is lent at once; and if the file
    /// is as it was then, it is not verified again.
    pub(crate) fn lend(&self, key: &Key, known: Option<&Way>) -> Result<Lent<F::Handle>, Unlent> {
        let opened = self.root.held();
        if let (Some(way), Some(space)) = (known, &opened.space)
            && let Some(lent) = lend::lend_by(&self.root, space, key, way)
        {
            return Ok(lent);
        }
        self.held().ok_or(Unlent::Absent)?.of(key).lend(key, known)
    }

    /// What is known of the artifact of `key`, for [`lend`](Self::lend).
    pub(crate) fn way(&self, key: &Key) -> Option<Way> {
        let opened = self.root.held();
        let text = self.root.fs().read_link(opened.space.as_ref()?, &way::name(key)).ok()?;
        Way::parse(&text)
    }

    /// Remembers what is known of the artifact of `key`, in place of what was. Where that fails it is found out again.
    pub(crate) fn set_way(&self, key: &Key, way: &Way) {
        let opened = self.root.held();
        let Some(space) = opened.space.as_ref().filter(|_| opened.writable) else { return };
        let (fs, name, text) = (self.root.fs(), way::name(key), way.text());
        let mut made = fs.make_link(space, &name, &text);
        if made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists) {
            made = fs.unlink(space, &name).and_then(|()| fs.make_link(space, &name, &text));
        }
        if let Err(error) = made
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            self.root.failed(Reason::of(&error), "remembering where a record lies");
        }
        if key.word(1).is_multiple_of(WAYS) {
            self.sweep_ways();
        }
    }

    /// Forgets what is known of the artifact of `key`.
    fn forget_way(&self, key: &Key) {
        let opened = self.root.held();
        if let Some(space) = opened.space.as_ref().filter(|_| opened.writable) {
            let _ = self.root.fs().unlink(space, &way::name(key));
        }
    }

    /// Removes the ways to files that are there no more.
    fn sweep_ways(&self) {
        let opened = self.root.held();
        let Some(space) = opened.space.as_ref().filter(|_| opened.writable) else { return };
        let fs = self.root.fs();
        for name in fs.list(space).unwrap_or_default() {
            let Some(key) = name.strip_prefix(way::PREFIX) else { continue };
            let way = key.parse::<Key>().ok().and_then(|_| {
                let text = fs.read_link(space, &name).ok()?;
                Way::parse(&text)
            });
            let leads = |way: Way| fs.stat_at(space, &way.file()).is_ok();
            if !way.is_some_and(leads) {
                let _ = fs.unlink(space, &name);
            }
        }
    }

    fn put_by(&self, put: impl FnMut(&Open<F>) -> Result<Put, Unwritten>) -> Result<Put, Failure> {
        const DOING: &str = "publishing a record";
        let failed_s = self.failed_s.load(Ordering::Relaxed);
        // A clock that was set back must not make the minute longer.
        if failed_s != 0 && self.root.fs().unix_seconds().abs_diff(failed_s) < BACK_OFF_S {
            return Err(self.failure(Reason::BackingOff.into(), DOING));
        }
        let put = self.write(DOING, put);
        match &put {
            Ok(_) => self.failed_s.store(0, Ordering::Relaxed),
            Err(failure) if failure.reason.is_lasting() => {
                self.failed_s.store(self.root.fs().unix_seconds().max(1), Ordering::Relaxed);
            }
            Err(_) => {}
        }
        put
    }

    /// Takes an entry out; says whether there was one.
    pub(crate) fn remove(&self, key: &Key, kind: Kind) -> Result<bool, Failure> {
        let removed =
            self.write("removing a record", |open| open.of(key).turn()?.remove(key, kind));
        if kind == Kind::Artifact {
            self.forget_way(key);
        }
        removed
    }

    /// Calls `visit` for each entry.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Entry)) {
        let Some(open) = self.held() else { return };
        for shard in open.shards() {
            shard.for_each(|key, kind, candidate, recency| {
                let length = candidate.location.length;
                let used_s = u64::from(recency.hour) * 3600;
                visit(Entry { key, kind, length, allocated: length, used_s });
            });
        }
    }

    /// What lies in the shards.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.for_each(|entry| {
            let amount = usage.of(entry.kind);
            amount.entries += 1;
            amount.bytes += entry.allocated;
        });
        if let Some(open) = self.held() {
            usage.occupied = open.shards().map(Shard::occupied).sum();
        }
        usage
    }

    /// How full each shard is.
    pub(crate) fn fills(&self) -> Vec<ShardUsage> {
        self.held().map(|open| open.shards().map(Shard::fill).collect()).unwrap_or_default()
    }

    /// Removes every entry; says what there was.
    pub(crate) fn clear(&self) -> Result<Usage, Failure> {
        let usage = self.usage();
        self.each("clearing", |mut turn| turn.clear())?;
        self.sweep_ways();
        Ok(usage)
    }

    /// Removes what is dispensable until all of it occupies `max_size` bytes or less, and what was
    /// not used for so many hours.
    pub(crate) fn prune(&self, max_size: u64, unused_hours: Option<u32>) -> Result<(), Failure> {
        self.write("pruning", |open| {
            let sizing = Sizing::of(max_size, open.shard_bits);
            open.shards().try_for_each(|shard| shard.turn()?.prune(&sizing, unused_hours))
        })?;
        self.sweep_ways();
        Ok(())
    }

    /// Reads every record, and takes out those that are damaged. `step` is told how many shards are done, and
    /// of how many.
    pub(crate) fn verify(&self, mut step: impl FnMut(usize, usize)) -> Result<Verified, Failure> {
        self.write("verifying", |open| {
            let mut sum = Verified::default();
            for (done, shard) in open.shards().enumerate() {
                step(done, open.shards().len());
                sum += shard.turn()?.verify()?;
            }
            step(open.shards().len(), open.shards().len());
            Ok(sum)
        })
    }

    fn each(
        &self,
        doing: &'static str,
        mut act: impl FnMut(Turn<'_, F>) -> Result<(), Unwritten>,
    ) -> Result<(), Failure> {
        self.write(doing, |open| open.shards().try_for_each(|shard| act(shard.turn()?)))
    }

    /// Runs `act` on the shards of the directory that is at the path.
    fn write<T>(
        &self,
        doing: &'static str,
        mut act: impl FnMut(&Open<F>) -> Result<T, Unwritten>,
    ) -> Result<T, Failure> {
        let mut tries = 0;
        loop {
            let done = self.to_write().and_then(|open| act(&open));
            match done {
                // A hand removed something in between.
                Err(Unwritten::Moved | Unwritten::Reason(Reason::Absent | Reason::Vanished))
                    if tries < 3 => {}
                Err(Unwritten::Io(error))
                    if error.kind() == std::io::ErrorKind::NotFound && tries < 3 => {}
                done => return done.map_err(|unwritten| self.failure(unwritten, doing)),
            }
            tries += 1;
            self.open.set(None);
            self.open.settle();
        }
    }

    fn failure(&self, unwritten: Unwritten, doing: &'static str) -> Failure {
        let (reason, source) = match unwritten {
            Unwritten::Io(error) => (Reason::of(&error), Some(error)),
            Unwritten::Reason(reason) => (reason, None),
            Unwritten::Moved => (Reason::Vanished, None),
        };
        self.root.failed(reason, doing);
        Failure { reason, doing, source }
    }

    /// The shards as this process has them open; opened, if there are any, when they are first
    /// needed.
    fn held(&self) -> Option<Arc<Open<F>>> {
        let open = self.open.with(Option::clone);
        open.or_else(|| self.open_in(self.root.held()).ok()?)
    }

    /// The shards of the directory, made if there are none.
    fn to_write(&self) -> Result<Arc<Open<F>>, Unwritten> {
        let open = self.open.with(Option::clone);
        if let Some(open) = open {
            return Ok(open);
        }
        let current = self.root.current().map_err(|refusal| refusal.cause.reason())?;
        if !current.writable {
            return Err(Reason::NotWritable.into());
        }
        for _ in 0..4 {
            if let Some(open) = self.open_in(current.clone())? {
                return Ok(open);
            }
            self.make_meta(&current)?;
        }
        Err(Reason::Vanished.into())
    }

    /// Opens the shards in a directory; none if it has no `meta`.
    fn open_in(&self, opened: Arc<Opened<F::Handle>>) -> Result<Option<Arc<Open<F>>>, Reason> {
        let meta = match self.read_meta(&opened) {
            Ok(Ok(meta)) => meta,
            // Of two names one is left over from its making.
            Ok(Err(_)) | Err(Reason::Absent | Reason::HardLinked) => return Ok(None),
            Err(reason) => return Err(reason),
        };
        let open = Arc::new(Open {
            root: self.root.clone(),
            opened,
            cache: meta.cache,
            shard_bits: meta.shard_bits,
            sizing: Sizing::of(self.max_size, meta.shard_bits),
            shards: (0..1 << meta.shard_bits).map(|_| SetOnce::new()).collect(),
        });
        let was_open = self.is_open();
        self.open.set(Some(open.clone()));
        if was_open {
            self.open.settle();
        }
        Ok(Some(open))
    }

    fn read_meta(&self, opened: &Opened<F::Handle>) -> Result<Result<Meta, Malformed>, Reason> {
        let space = opened.space.as_ref().ok_or(Reason::Absent)?;
        let (file, _) = trusted::open_file(&self.root, space, META, Access::Read)?;
        let mut bytes = [0; META_LEN];
        let read = self.root.fs().read_at(&file, &mut bytes, 0);
        let read = read.map_err(|error| Reason::of(&error))?;
        Ok(Meta::parse(&bytes[..read]))
    }

    /// Makes `meta`, or makes it anew if it is damaged: the shards then belong to no cache, and are
    /// made anew too.
    fn make_meta(&self, opened: &Opened<F::Handle>) -> Result<(), Unwritten> {
        let fs = self.root.fs();
        let space = opened.space.as_ref().ok_or(Reason::NotWritable)?;
        let lock = self.cleaning.try_lock()?;
        // Looked at once: what was absent may be whole by now, and is not to be replaced then.
        let is_damaged = match self.read_meta(opened) {
            Ok(Ok(_)) => return Ok(()),
            // A newer version's is left alone.
            Ok(Err(Malformed::Format)) => return Err(Reason::Newer.into()),
            // Of two who see damage, one replaces it.
            Ok(Err(_)) | Err(Reason::HardLinked) if lock.is_none() => {
                return Err(Reason::Busy.into());
            }
            Ok(Err(_)) | Err(Reason::HardLinked) => true,
            Err(Reason::Absent) => false,
            Err(reason) => return Err(reason.into()),
        };
        let meta = Meta {
            cache: CacheId(fs.random()),
            shard_bits: shard_bits(self.max_size),
            created_s: fs.unix_seconds(),
        };
        let temporary = Name::temporary(fs.random());
        let file = fs.open(space, &temporary, Access::CreateNew)?;
        let made = fs.write_all_at(&file, &meta.encode(), 0).and_then(|()| {
            failpoint::at(Step::MetaWritten);
            if is_damaged {
                fs.rename(space, &temporary, space, META)
            } else {
                fs.rename_new(space, &temporary, space, META)
            }
        });
        match made {
            Ok(()) => {
                failpoint::at(Step::MetaNamed);
                Ok(())
            }
            Err(error) => {
                let _ = fs.unlink(space, &temporary);
                // Another was faster: theirs it is.
                let is_theirs = error.kind() == std::io::ErrorKind::AlreadyExists;
                if is_theirs { Ok(()) } else { Err(error.into()) }
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
