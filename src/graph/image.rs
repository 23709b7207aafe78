//! The code of a plan: kernel by kernel, or, where another process had it before, as one image.
//!
//! ```text
//!   plan ──names──► image ──there──► one mapping ──► kernels, entries
//!                     └ not there ──► each kernel by its own key, found or made ──► kept as an image for the next
//! ```
//!
//! Kernels have keys of their own, by which other graphs share them; the image is a second copy. It is named by what lies in
//! it, so that plans of a graph for many shapes have one, as they have the same kernels. A look-up and a mapping cost as much
//! as some kernels one by one: plans of few have none.

use super::error::GraphError;
use super::host::Host;
use super::kernel::{self, Kernel};
use super::plan::{Plan, Segment};
use super::runtime::SYMBOLS;
use super::session::Mode;
use super::whole::{self, Entry};
use crate::code::{CodeError, Engine, Image, Program};
use crate::config;
use crate::key::{Key, KeyBuilder};
use crate::store::Status;
use crate::sync::Arc;

/// Plans of at least so many kernels are kept as an image.
const LEAST: usize = 4;

/// What a plan calls.
pub(crate) struct Code {
    /// By the plan's specifications.
    pub(crate) kernels: Vec<Kernel>,
    /// In whole mode, the entry of each segment.
    pub(crate) entries: Vec<Option<Entry>>,
}

/// Names the image of a plan by all that [`program`] reads; `None` if it is to have none.
pub(crate) fn name(plan: &Plan, mode: Mode) -> Option<[u8; 32]> {
    if plan.specs.len() < LEAST {
        return None;
    }
    let bytes = |parts: postcard::Result<Vec<u8>>| parts.expect("a plan can be encoded");
    let mut name = KeyBuilder::new("cachelift graph image v1");
    name.bytes("kernels", &bytes(postcard::to_stdvec(&plan.specs)));
    if mode == Mode::Whole {
        let calls: Vec<_> = plan.calls.iter().map(|call| (call.spec, call.start)).collect();
        let entries = plan.segments.iter().map(|segment| match segment {
            Segment::Calls(start, end) => Some((start, end)),
            Segment::Node { .. } => None,
        });
        let entries: Vec<_> = entries.collect();
        name.bytes("entries", &bytes(postcard::to_stdvec(&(calls, entries))));
    }
    Some(*name.finish().as_bytes())
}

/// The code of a plan.
pub(crate) fn code(host: &Host, plan: &Plan, mode: Mode) -> Result<Code, GraphError> {
    let engine = &host.engine;
    let store = engine.store();
    let is_possible = engine.target().isa().flags().is_pic()
        && store.lends()
        && store.config().mode != config::Mode::Refresh;
    let name = plan.image.filter(|_| is_possible).map(Key::from_bytes);
    let is_kept = name.is_some_and(|name| store.contains(&engine.image_key(&name)));
    let load = |name: &Key| engine.load_image(name, address, || program(engine, plan, mode));
    // An audit looks at every image; else it is of use only where kernels are missing.
    if let Some(name) = name
        && is_kept
        && (store.config().audit || host.missing(&plan.specs) >= LEAST)
        && let Some(code) = code_of(host, &load(&name)?, plan, mode)
    {
        return Ok(code);
    }
    let kernels = host.kernels(&plan.specs)?;
    let entries = match mode {
        Mode::Whole => whole::entries(engine, plan, &kernels)?,
        _ => Vec::new(),
    };
    let is_writable = matches!(store.status(), Status::Disk { read_only: false, .. });
    if let Some(name) = name
        && !is_kept
        && is_writable
        // All that it is made of is in the store now.
        && let Err(error) = load(&name)
    {
        tracing::debug!(%error, "a plan has no image");
    }
    Ok(Code { kernels, entries })
}

/// The functions of a plan's image: the kernels by their place among its specifications, and in whole mode the entries.
fn program(engine: &Engine, plan: &Plan, mode: Mode) -> Result<Program, CodeError> {
    let specs: Vec<_> = plan.specs.iter().map(|spec| Arc::new(spec.clone())).collect();
    let mut program = kernel::program(engine, &specs)?;
    if mode == Mode::Whole {
        whole::define_all(&mut program, engine, plan)?;
    }
    Ok(program)
}

/// What of an image a plan calls; `None` if it is of another.
fn code_of(host: &Host, image: &Image, plan: &Plan, mode: Mode) -> Option<Code> {
    let kernel = |(number, spec)| {
        let function = image.function(&kernel::name(number))?;
        Some(Kernel::of(function, spec, &host.engine, image.origin()))
    };
    let kernels = plan.specs.iter().enumerate().map(kernel).collect::<Option<_>>()?;
    let entries = match mode {
        Mode::Whole => whole::entries_of(image, plan)?,
        _ => Vec::new(),
    };
    Some(Code { kernels: host.adopt(kernels), entries })
}

/// The address of what kernels call.
fn address(name: &str) -> Option<*const u8> {
    SYMBOLS.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.address())
}
