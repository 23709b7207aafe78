//! Named points between the steps of the protocol, where the stress tool lets a process die, stop, or be found.
//!
//! Without the feature `stress` a point is nothing at all.

macro_rules! steps {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A point that a thread passes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[cfg_attr(not(feature = "stress"), allow(dead_code, reason = "nobody looks"))]
        pub(crate) enum Step {
            $($(#[doc = $doc])+ $variant,)+
        }

        #[cfg_attr(not(feature = "stress"), allow(dead_code, reason = "nobody looks"))]
        impl Step {
            /// Every point, in the order of the enum.
            pub(crate) const ALL: &'static [Step] = &[$(Step::$variant,)+];

            /// The name that reports use.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Step::$variant => $name,)+ }
            }
        }
    };
}

steps! {
    /// The lease of a key was taken.
    LeaseTaken = "lease-taken",
    /// The value is there and not published.
    Made = "made",
    /// It is published, and the lease not given back.
    Published = "published",
    /// The lease was given back, and the threads that wait are not told.
    LeaseBack = "lease-back",
    /// This thread is its process's writer, and has no lock of the shard.
    TurnBegun = "turn-begun",
    /// The shard is locked.
    TurnLocked = "turn-locked",
    /// All is done, the shard is still locked.
    TurnEnding = "turn-ending",
    /// The shard is unlocked, the process's other threads still locked out.
    TurnUnlocked = "turn-unlocked",
    /// A segment has more blocks.
    BlocksAllocated = "blocks-allocated",
    /// A record is about to be written.
    RecordWriting = "record-writing",
    /// The first half of a record is written.
    RecordTorn = "record-torn",
    /// A record is written where nothing leads to.
    RecordWritten = "record-written",
    /// The tail is behind a record that nothing leads to.
    TailMoved = "tail-moved",
    /// A slot is filled in and still empty.
    SlotFilling = "slot-filling",
    /// A slot is live, and not counted.
    SlotLive = "slot-live",
    /// The older entries of a key are about to die.
    OldLive = "old-live",
    /// A file has a temporary name and nothing in it.
    FileMade = "file-made",
    /// A file is whole and has no name.
    FileFilled = "file-filled",
    /// A file has its name.
    FileNamed = "file-named",
    /// A segment of its own is there, and nothing leads to it.
    AloneWritten = "alone-written",
    /// A new segment is at the tail, and none is evicted.
    SegmentRolled = "segment-rolled",
    /// A segment is about to be evicted.
    EvictBegun = "evict-begun",
    /// An entry of the victim was carried.
    EntryCarried = "entry-carried",
    /// All entries of the victim are dead.
    VictimDead = "victim-dead",
    /// The victim's name is gone.
    VictimUnlinked = "victim-unlinked",
    /// A generation has its name, and is not in use.
    IndexNamed = "index-named",
    /// The older generations are retired, and `CURRENT` names one of them.
    IndexRetired = "index-retired",
    /// `CURRENT` names the new generation.
    CurrentNamed = "current-named",
    /// The older generations' names are gone.
    IndexUnlinked = "index-unlinked",
    /// There is no generation to write in.
    RecoverBegun = "recover-begun",
    /// There was no generation at all, and the segments are read.
    SegmentsScanned = "segments-scanned",
    /// Everything was cleared, and the segments are still there.
    Cleared = "cleared",
    /// `meta` is written and has no name.
    MetaWritten = "meta-written",
    /// `meta` has its name.
    MetaNamed = "meta-named",
}

#[cfg(not(feature = "stress"))]
mod imp {
    use super::Step;

    #[inline(always)]
    pub(crate) fn at(_: Step) {}

    #[inline(always)]
    pub(crate) fn making(_: u8) {}
}

#[cfg(feature = "stress")]
mod imp {
    use std::cell::Cell;

    use super::Step;
    use crate::sync::OnceLock;

    static HOOK: OnceLock<fn(Step)> = OnceLock::new();

    thread_local! {
        static MAKING: Cell<u8> = const { Cell::new(0) };
        static PUBLISHED: Cell<u64> = const { Cell::new(0) };
    }

    /// Calls whoever looks.
    #[inline]
    pub(crate) fn at(step: Step) {
        if step == Step::Published {
            PUBLISHED.set(PUBLISHED.get() + 1);
        }
        if let Some(hook) = HOOK.get() {
            hook(step);
        }
    }

    /// Everyone's points call `hook` from now on. The first one stays.
    pub(crate) fn watch(hook: fn(Step)) {
        let _ = HOOK.set(hook);
    }

    /// A make begins on this thread, for another reason than that nobody else makes the key if it is not 0.
    pub(crate) fn making(reason: u8) {
        MAKING.set(reason);
    }

    /// Why this thread makes what it makes.
    pub(crate) fn reason_to_make() -> u8 {
        MAKING.get()
    }

    /// How often this thread published something it made.
    pub(crate) fn published() -> u64 {
        PUBLISHED.get()
    }
}

pub(crate) use imp::*;
