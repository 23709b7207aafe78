//! An entry as it is handed in and handed out.

use std::fmt;
use std::ops::Range;

use super::disk::record::{self, Kind, Layout, Meta};
use crate::key::Key;
use crate::sync::Arc;

/// A verified entry: its bytes cannot be torn, stale or another key's. Cheap to clone.
#[derive(Clone)]
pub struct Record {
    bytes: Arc<Vec<u8>>,
    meta: Range<usize>,
    payload: Range<usize>,
}

impl Record {
    /// The record that was verified to lie in `bytes` so.
    pub(super) fn verified(bytes: Vec<u8>, layout: Layout) -> Self {
        Record { bytes: Arc::new(bytes), meta: layout.meta, payload: layout.payload }
    }

    /// A record of `draft`, to be published; `None` if no record can hold so much.
    pub(super) fn encode(key: &Key, kind: Kind, draft: &Draft) -> Option<Self> {
        if draft.payload.len() > record::MAX_PAYLOAD {
            return None;
        }
        let bytes = record::encode(key, kind, &draft.meta, &draft.payload);
        let layout = record::parse(&bytes, key, kind).expect("what was just encoded parses");
        Some(Self::verified(bytes, layout))
    }

    /// A record that will stay with this process.
    pub(crate) fn unpublished(draft: Draft) -> Self {
        let payload = 0..draft.payload.len();
        Record { bytes: Arc::new(draft.payload), meta: 0..0, payload }
    }

    /// Everything, as it lies on disk.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The payload, as it was put.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.payload.clone()]
    }

    /// What is remembered of the entry beside its payload; decoded at each call.
    pub fn meta(&self) -> Meta {
        record::decode_meta(&self.bytes[self.meta.clone()])
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} bytes)", self.payload.len())
    }
}

/// An entry as its maker hands it over.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// What a hit will return.
    pub payload: Vec<u8>,
    /// What is remembered beside it. The store fills in the time and the cost where they are 0.
    pub meta: Meta,
}

impl Draft {
    /// A payload about which there is nothing to remember.
    pub fn new(payload: Vec<u8>) -> Self {
        Draft { payload, meta: Meta::default() }
    }
}

/// Where a record came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// This process had it.
    Memory,
    /// The cache directory had it.
    Disk,
    /// The shared tier had it.
    Remote,
    /// Another thread or process was making it, and was waited for.
    Waited,
    /// It was made here.
    Made,
}

impl Origin {
    /// The lower-case name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Memory => "memory",
            Origin::Disk => "disk",
            Origin::Remote => "remote",
            Origin::Waited => "waited",
            Origin::Made => "made",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What became of a [`Store::put`](super::Store::put).
#[derive(Clone, Debug)]
pub enum Published {
    /// The record is in the cache now.
    New(Record),
    /// Another was there first, and is the one to use.
    Existing(Record),
}
