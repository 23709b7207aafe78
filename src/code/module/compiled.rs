//! All that Cranelift says of a compiled function, kept as Cranelift writes it down itself.
//!
//! ```text
//!    0  magic "CLC\x01"      4  environment, 32 bytes      36  Cranelift's bytes
//! ```
//!
//! Nobody but Cranelift can put compiled code into a `Context`, and it does so in one place: where its own
//! incremental cache has a hit. So a hit here is handed over as a hit there. Cranelift computes its own key first,
//! which costs more than everything else, unless the function is tiny: for the time of the hand-over the context's
//! function is.

use std::borrow::Cow;
use std::mem;

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::incremental_cache::{CacheKvStore, try_finish_recompile};
use cranelift_codegen::ir::{Function, InstBuilder};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::{CompiledCode, Context};

use crate::key::Key;
use crate::store::Store;

const MAGIC: [u8; 4] = *b"CLC\x01";
const HEADER: usize = 36;

/// What the keys of such records are computed in.
pub(super) fn context(store: &Store, environment: &Key, isa: &dyn TargetIsa) -> Key {
    let mut key = store.key("cachelift compiled code v1");
    key.key("environment", environment);
    // No part of the environment, because it changes nothing that an artifact has.
    key.bool("machine_code_cfg_info", isa.flags().machine_code_cfg_info());
    key.finish()
}

/// A record's payload.
pub(super) fn encode(environment: &Key, stencil: &[u8]) -> Vec<u8> {
    [&MAGIC, &environment.as_bytes()[..], stencil].concat()
}

/// Cranelift's bytes, if the payload is one of this environment.
pub(super) fn decode<'a>(environment: &Key, payload: &'a [u8]) -> Option<&'a [u8]> {
    let (header, stencil) = payload.split_at_checked(HEADER)?;
    (header[..4] == MAGIC && header[4..] == *environment.as_bytes()).then_some(stencil)
}

/// As [`decode`] of whichever environment.
#[cfg(feature = "cli")]
pub(super) fn decode_any(payload: &[u8]) -> Option<&[u8]> {
    payload.strip_prefix(&MAGIC)?.get(HEADER - MAGIC.len()..)
}

/// What Cranelift's bytes say of this function.
pub(super) fn finish(func: &Function, stencil: &[u8]) -> Option<CompiledCode> {
    try_finish_recompile(func, stencil).ok()
}

/// Takes what Cranelift would put into its cache, and has nothing in it.
#[derive(Default)]
pub(super) struct Capture(Option<Vec<u8>>);

impl Capture {
    pub(super) fn taken(self) -> Option<Vec<u8>> {
        self.0
    }
}

impl CacheKvStore for Capture {
    fn get(&self, _: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn insert(&mut self, _: &[u8], value: Vec<u8>) {
        self.0 = Some(value);
    }
}

/// Has one thing under every key.
struct Handing<'a> {
    stencil: &'a [u8],
    refused: bool,
}

impl CacheKvStore for Handing<'_> {
    fn get(&self, _: &[u8]) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(self.stencil))
    }

    fn insert(&mut self, _: &[u8], _: Vec<u8>) {
        self.refused = true;
    }
}

/// Puts compiled code into contexts.
pub(super) struct Handover {
    /// The smallest function that can be compiled, should Cranelift not take what it is handed.
    tiny: Box<Function>,
}

impl Default for Handover {
    fn default() -> Self {
        let mut tiny = Box::new(Function::new());
        let block = tiny.dfg.make_block();
        let mut cursor = FuncCursor::new(&mut tiny);
        cursor.insert_block(block);
        cursor.ins().return_(&[]);
        Handover { tiny }
    }
}

impl Handover {
    /// Gives `ctx` the compiled code that these bytes say; whether it took it. If it did not, what is in there is
    /// of no use.
    pub(super) fn hand_over(
        &mut self,
        stencil: &[u8],
        ctx: &mut Context,
        isa: &dyn TargetIsa,
    ) -> bool {
        let mut handing = Handing { stencil, refused: false };
        // The parameters stay: source locations are relative to a base that is among them.
        mem::swap(&mut ctx.func.stencil, &mut self.tiny.stencil);
        let done = ctx.compile_with_cache(isa, &mut handing, &mut ControlPlane::default()).is_ok();
        mem::swap(&mut ctx.func.stencil, &mut self.tiny.stencil);
        if handing.refused {
            // It compiled the tiny function, and left it optimised.
            *self = Handover::default();
        }
        done && !handing.refused
    }
}
