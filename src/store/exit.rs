//! Stores that are open when the process ends: one in a `static`, say, or in a module that was forgotten, as a JIT that never
//! frees its code does. Nobody drops them, and what they counted would not be told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::disk::fs::real::RealFs;
use super::tiers::Tiers;
use crate::sync::{Arc, Mutex, OnceLock, Weak};

static OPEN: OnceLock<Mutex<Vec<Weak<Tiers<RealFs>>>>> = OnceLock::new();

/// Lets a store tell what it counted, at the end of the process at the latest.
pub(super) fn watch(store: &Arc<Tiers<RealFs>>) {
    let open = OPEN.get_or_init(|| {
        // SAFETY: the handler has this signature, takes nothing for granted, and does not unwind.
        unsafe { nix::libc::atexit(tell) };
        Mutex::default()
    });
    if let Some(mut open) = open.lock_soon() {
        open.retain(|store| store.strong_count() > 0);
        open.push(Arc::downgrade(store));
    }
}

/// Other threads may still be running: they go on with what they have.
extern "C" fn tell() {
    let stores = OPEN.get().and_then(Mutex::try_lock).map(|mut open| std::mem::take(&mut *open));
    for store in stores.into_iter().flatten().filter_map(|store| store.upgrade()) {
        // There is nobody any more whom a panic could tell anything.
        let _ = catch_unwind(AssertUnwindSafe(|| store.tell()));
    }
}
