//! Keyed groups as images: functions that a module calls where the cache has them, in place of copies.
//!
//! ```text
//!   with_image(key, build) ──► store ──hit──► mapped ──► per function: a declaration, and its place
//!                                │ miss                    slots: filled in by finalize_definitions
//!                                └► build(module), compiled to code that is independent of where it lies
//! ```
//!
//! A `JITModule` knows functions by what it holds itself, and these it does not hold: what refers to them from its code and
//! data is [resolved here](super::place). Within an image near calls go to the function at once.

use std::mem::ManuallyDrop;

use cranelift_module::{
    FuncId, FuncOrDataId, Module, ModuleError, ModuleReloc, ModuleRelocTarget, ModuleResult,
};
use target_lexicon::Architecture;

use super::group::{Group, Recording, Target, Unmade};
use super::{CachingModule, Settings};
use crate::code::artifact::RelocationKind;
use crate::code::image::build::{self, Piece, Reference};
use crate::code::image::load::{self, Opened};
use crate::code::image::memory::{Bound, Unbound};
use crate::code::image::{self, Slot};
use crate::code::{CodeError, audit, target};
use crate::key::Key;
use crate::store::{Draft, Meta, Origin};
use crate::sync::Arc;

/// The images of a module, numbered in the order in which they were defined.
#[derive(Default)]
pub(super) struct Images {
    /// Those that can be called; none in place of one that could not be made so. A module that is dropped leaves its code
    /// where it is, as a `JITModule` does.
    bound: ManuallyDrop<Vec<Option<Bound>>>,
    /// Those that follow.
    pending: Vec<Pending>,
}

/// An image whose functions are defined and cannot be called yet.
struct Pending {
    memory: Unbound,
    slots: Vec<Address>,
}

/// What a slot is to hold.
enum Address {
    Known(u64),
    Of(ModuleRelocTarget),
}

impl Images {
    /// Unmaps all of them.
    pub(super) fn free(mut self) {
        drop(std::mem::take(&mut *self.bound));
    }

    /// The number of one that is defined now.
    fn add(&mut self, pending: Pending) -> u32 {
        self.pending.push(pending);
        (self.bound.len() + self.pending.len() - 1) as u32
    }

    /// Where such a place of an image's text is.
    pub(super) fn address(&self, image: u32, offset: u32) -> u64 {
        let image = image as usize;
        let base = match self.bound.get(image) {
            Some(Some(bound)) => bound.base(),
            Some(None) => 0,
            None => self.pending[image - self.bound.len()].memory.base(),
        };
        base + u64::from(offset)
    }

    /// The pointer to it, if the image can be called.
    pub(super) fn pointer(&self, image: u32, offset: u32) -> Option<*const u8> {
        self.bound.get(image as usize)?.as_ref().map(|bound| bound.pointer(offset))
    }
}

/// A group that was built as an image.
struct Built {
    /// By the group's numbers.
    ids: Vec<FuncOrDataId>,
    payload: Vec<u8>,
    functions: usize,
    /// Why it cannot be kept.
    unkept: Option<&'static str>,
}

impl CachingModule {
    /// As [`with_key`](Self::with_key), with all functions of the group as one image: machine code that every process maps
    /// from the one file in the cache, in place of a copy of its own. A hit costs next to nothing per function, no memory for
    /// code, and what is mapped stays while it is in use, whatever becomes of the cache.
    ///
    /// ```no_run
    /// # use cachelift::code::CachingModule;
    /// # use cranelift_module::{FuncOrDataId, Module, ModuleResult};
    /// # fn compile(module: &mut CachingModule, source: &str) -> ModuleResult<()> { Ok(()) }
    /// # fn f(module: &mut CachingModule, source: &str) -> ModuleResult<()> {
    /// let key = module.store().key("my language v3").str("source", source).finish();
    /// module.with_image(&key, |module| compile(module, source))?; // was: module.with_key(..)
    /// module.finalize_definitions()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An image has a file of its own and takes two pages at least, so it is for groups that are worth that: programs, modules,
    /// libraries; for a function or two [`with_key`](Self::with_key) is the better choice. The functions are compiled to
    /// position-independent code, and have other keys than those of the same module outside of images. `build` must not
    /// finalize what it defines. [`inner`](Self::inner) does not know the functions of an image.
    ///
    /// Where the file cannot be mapped as executable (`noexec`, a security policy, a file system of another kind, no directory)
    /// it is copied into the module's own memory; `Stats::reasons` counts why (`image-…`). Within another group this is
    /// part of that group, and elsewhere than on x86-64 it is `with_key`.
    ///
    /// # Errors
    ///
    /// As [`with_key`](Self::with_key); and that the system gives no memory.
    pub fn with_image(
        &mut self,
        key: &Key,
        build: impl FnOnce(&mut Self) -> ModuleResult<()>,
    ) -> ModuleResult<Origin> {
        let supported = self.inner.isa().triple().architecture == Architecture::X86_64;
        if self.recording.is_some() || !supported {
            return self.with_key(key, build);
        }
        let name = self
            .store
            .key("cachelift image v1")
            .key("environment", &self.own.environment)
            .key("group", key)
            .finish();
        let store = self.store.clone();
        let mut build = Some(build);
        let mut built = None;
        let got = store.try_lend_with(&name, || {
            let build = build.take().expect("made once");
            let made = built.insert(self.build_image(build).map_err(Unmade::Failed)?);
            match made.unkept {
                Some(reason) => Err(Unmade::Unkept(reason)),
                None => Ok(Draft { payload: made.payload.clone(), meta: made.meta() }),
            }
        });
        let (loan, origin) = match got {
            Ok((loan, origin)) => (Some(loan), origin),
            Err(Unmade::Failed(error)) => return Err(error),
            Err(Unmade::Unkept(reason)) => {
                store.count_reason(reason, "an image cannot be kept because of what is in it");
                (None, Origin::Made)
            }
        };
        if store.config().audit
            && let (Some(loan), Some(build)) = (&loan, build.take())
        {
            store.count_audited();
            let made = built.insert(self.build_image(build)?);
            let kept = load::payload(loan).unwrap_or_default();
            if made.unkept.is_some() || kept != made.payload {
                return Err(backend(made.difference(&name, &kept)));
            }
        }
        let opened = match &loan {
            Some(loan) => load::open(loan, &self.own.environment, &store).map_err(backend)?,
            None => None,
        };
        match (opened, built) {
            // Of two who made it at once, one has the other's: these must be the same to its ids.
            (Some(opened), Some(built)) if built.payload.starts_with(opened.tables.bytes()) => {
                self.define_image(opened, Some(built.ids))?;
                Ok(origin)
            }
            (_, Some(built)) => {
                self.define_copy(built)?;
                Ok(Origin::Made)
            }
            (opened, None) => {
                if let Some(opened) = opened
                    && self.define_image(opened, None)?
                {
                    return Ok(origin);
                }
                store
                    .count_reason("unusable", "an image does not fit what the module has declared");
                let build = build.take().expect("nothing was made");
                let built = self.build_image(build)?;
                self.define_copy(built)?;
                Ok(Origin::Made)
            }
        }
    }

    /// For whom functions are compiled now.
    pub(super) fn settings(&self) -> Arc<Settings> {
        match &self.independent {
            Some(independent) if self.is_imaging() => Arc::clone(independent),
            _ => Arc::clone(&self.own),
        }
    }

    /// Whether what is defined is to be part of an image.
    pub(super) fn is_imaging(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.imaging)
    }

    /// A function is defined that is to be in the text of the image that is being made.
    pub(super) fn note_text(
        &mut self,
        id: FuncId,
        align: u64,
        code: &[u8],
        relocs: &[ModuleReloc],
    ) {
        let recording = self.recording.as_mut().expect("an image is being made");
        recording.note_text(id, align, code, relocs);
    }

    /// Whether a function is in the text of the image that is being made.
    pub(super) fn is_in_text(&self, id: FuncId) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.is_in_text(id))
    }

    /// Fills in the slots of the images that were defined since the last time.
    pub(super) fn bind_images(&mut self) -> ModuleResult<()> {
        let slots = |pending: &Pending| {
            let address = |slot: &Address| match slot {
                Address::Known(address) => *address,
                Address::Of(name) => self.get_address(name).expose_provenance() as u64,
            };
            pending.slots.iter().map(address).collect::<Vec<_>>()
        };
        let addresses: Vec<_> = self.images.pending.iter().map(slots).collect();
        let mut result = Ok(());
        for (pending, addresses) in
            std::mem::take(&mut self.images.pending).into_iter().zip(addresses)
        {
            let bound =
                pending.memory.bind(&addresses).map_err(load::memory_error).map_err(backend);
            self.images.bound.push(match bound {
                Ok(bound) => Some(bound),
                Err(error) => {
                    result = result.and(Err(error));
                    None
                }
            });
        }
        result
    }

    /// Builds a group whose functions are compiled to position-independent code.
    fn build_image(
        &mut self,
        build: impl FnOnce(&mut Self) -> ModuleResult<()>,
    ) -> ModuleResult<Built> {
        if self.independent.is_none() {
            let isa = target::position_independent(self.inner.isa())
                .ok_or_else(|| backend(unsupported("no position-independent code")))?;
            let settings = Settings::new(&self.store, self.keep, &*isa);
            self.independent = Some(Arc::new(Settings { isa: Some(isa), ..settings }));
        }
        self.recording = Some(Recording::of_image());
        let built = build(self);
        let mut recording = self.recording.take().unwrap_or_default();
        built?;
        let text = std::mem::take(&mut recording.text);
        let (ids, unkept) = (recording.ids.clone(), recording.unkept.take());
        let (environment, declarations) = (&self.own.environment, self.inner.declarations());
        // What cannot be kept because of its names can be loaded here, by its ids.
        let (group, unkept) = match recording.group(environment, declarations) {
            Ok(group) => (postcard::to_allocvec(&group).expect("plain data encodes"), unkept),
            Err(reason) => (Vec::new(), unkept.or(Some(reason))),
        };

        let piece_of: std::collections::HashMap<_, _> =
            text.iter().enumerate().map(|(n, code)| (code.declaration, n)).collect();
        let name_of = |number: u32| match ids[number as usize] {
            FuncOrDataId::Func(id) => declarations.get_function_decl(id).name.as_deref(),
            FuncOrDataId::Data(id) => declarations.get_data_decl(id).name.as_deref(),
        };
        let align = self.inner.isa().function_alignment().preferred as usize;
        let mut pieces = Vec::with_capacity(text.len());
        for code in &text {
            let references = code.relocs.iter().map(|(offset, kind, target, addend)| {
                let kind = RelocationKind::from_reloc(*kind)
                    .ok_or_else(|| format!("relocations {kind:?} are not supported"))?;
                let target = match *target {
                    // What the module gives out as a function's address need not be the function itself.
                    Target::Declared(number) if kind == RelocationKind::X86GotPcRel4 => {
                        build::Target::Symbol(number)
                    }
                    Target::Declared(number) => match piece_of.get(&number) {
                        Some(piece) => build::Target::Piece(*piece, 0),
                        None => build::Target::Symbol(number),
                    },
                    Target::Within(number, offset) => {
                        build::Target::Piece(piece_of[&number], offset)
                    }
                    Target::Libcall(libcall) => build::Target::Libcall(libcall),
                };
                Ok(Reference { offset: *offset, kind, target, addend: *addend })
            });
            pieces.push(Piece {
                name: name_of(code.declaration).unwrap_or_default(),
                number: code.declaration,
                detail: Vec::new(),
                code: &code.code,
                align: align.max(usize::try_from(code.align).unwrap_or(usize::MAX)),
                references: references
                    .collect::<Result<_, String>>()
                    .map_err(|reason| backend(unsupported(&reason)))?,
                traps: &[],
            });
        }
        let payload = build::build(environment, &pieces, &[], &group)
            .map_err(|reason| backend(unsupported(&reason)))?;
        Ok(Built { functions: pieces.len(), payload, unkept, ids })
    }

    /// Defines the functions of an image that was built just now, in memory of this process.
    fn define_copy(&mut self, built: Built) -> ModuleResult<()> {
        let opened = load::copy(&built.payload, &self.own.environment).map_err(backend)?;
        let opened = opened.expect("what was just built is an image");
        self.define_image(opened, Some(built.ids)).map(drop)
    }

    /// Defines the functions of an image. `ids` are those of a group that was built here, so that all but the text is
    /// declared and defined already. Nothing is defined, and the answer is no, if it does not fit.
    fn define_image(
        &mut self,
        opened: Opened,
        ids: Option<Vec<FuncOrDataId>>,
    ) -> ModuleResult<bool> {
        let Opened { tables, memory } = opened;
        let (ids, group) = match ids {
            Some(ids) => (ids, None),
            None => {
                let Some(group) = Group::decode(tables.group(), &self.own.environment) else {
                    return Ok(false);
                };
                let numbers = group.declarations.len();
                let fits = tables.places().all(|(number, _)| group.is_function(number))
                    && tables.slots().all(|slot| match slot {
                        Slot::Symbol(number) => (number as usize) < numbers,
                        _ => true,
                    });
                if !fits {
                    return Ok(false);
                }
                let Some(ids) = self.declare_group(&group) else { return Ok(false) };
                (ids, Some(group))
            }
        };
        let base = memory.base();
        let slots = tables
            .slots()
            .map(|slot| match slot {
                Slot::Symbol(number) => Address::Of(match ids[number as usize] {
                    FuncOrDataId::Func(id) => ModuleRelocTarget::from(id),
                    FuncOrDataId::Data(id) => ModuleRelocTarget::from(id),
                }),
                Slot::Libcall(libcall) => Address::Of(ModuleRelocTarget::LibCall(libcall)),
                Slot::Own(offset) => Address::Known(base + u64::from(offset)),
            })
            .collect();
        let function = |number: u32| match ids[number as usize] {
            FuncOrDataId::Func(id) => id,
            FuncOrDataId::Data(_) => unreachable!("it is a function's number"),
        };
        tables.places().try_for_each(|(number, _)| self.check_definable(function(number)))?;
        self.places.make_room(tables.places().map(|(number, _)| function(number)));
        let image = self.images.add(Pending { memory, slots });
        for (number, offset) in tables.places() {
            self.define_in_image(function(number), image, offset)?;
        }
        if let Some(group) = group {
            self.define_group(&group, &ids)?;
        }
        Ok(true)
    }
}

impl Built {
    fn meta(&self) -> Meta {
        Meta {
            label: format!("image of {} functions", self.functions),
            producer: concat!("cachelift ", env!("CARGO_PKG_VERSION"), " module").into(),
            ..Meta::default()
        }
    }

    /// The error that says that what was kept is something else.
    fn difference(&self, name: &Key, kept: &[u8]) -> CodeError {
        let list = |bytes: &[u8]| {
            image::listing(bytes).unwrap_or_else(|| format!("{} bytes\n", bytes.len()))
        };
        let made = match self.unkept {
            Some(reason) => format!("what cannot be kept: {reason}\n"),
            None => list(&self.payload),
        };
        audit::difference(&format!("of the image {name}"), list(kept), made)
    }
}

fn unsupported(reason: &str) -> CodeError {
    CodeError::Unsupported { function: "of an image".into(), reason: reason.into() }
}

fn backend(error: CodeError) -> ModuleError {
    ModuleError::Backend(error.into())
}
