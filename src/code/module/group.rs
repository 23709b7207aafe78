//! Keyed groups: what a caller can name by its input is not even built on a hit.
//!
//! ```text
//!   with_key(key, build) ──► store ──hit──► declarations, code, data ──► declared and defined in this module
//!                              │ miss
//!                              └► build(module), recorded as it declares and defines ──► kept as one record
//! ```
//!
//! Ids of the module that recorded do not count in another, so a group numbers what it declares and what it refers to
//! by itself.

mod format;

use std::collections::{HashMap, HashSet};

use cranelift_module::{
    DataDescription, DataId, FuncId, FuncOrDataId, Init, Module, ModuleDeclarations, ModuleError,
    ModuleReloc, ModuleRelocTarget, ModuleResult,
};

use super::CachingModule;
use crate::code::CodeError;
use crate::key::Key;
use crate::store::{Draft, Meta, Origin};
use format::{Contents, Data, Declaration, FORMAT, Signatures};

#[cfg(any(test, feature = "cli", feature = "fuzzing"))]
pub(super) use format::listing;
pub(super) use format::{Code, Group, Target};

/// What a group declares and defines, while it is built.
#[derive(Clone, Default)]
pub(super) struct Recording {
    pub(super) ids: Vec<FuncOrDataId>,
    /// Those that were declared meanwhile; the others are referred to.
    declared: HashSet<FuncOrDataId>,
    numbers: HashMap<FuncOrDataId, u32>,
    functions: Vec<Code<'static>>,
    data: Vec<Data<'static>>,
    /// Why it cannot be kept.
    pub(super) unkept: Option<&'static str>,
    /// Whether it is to be an image.
    pub(super) imaging: bool,
    /// The functions that are to be in its text.
    pub(super) text: Vec<Code<'static>>,
    /// Their numbers.
    defined: HashSet<u32>,
}

impl Recording {
    /// Of a group that is to be an image.
    pub(super) fn of_image() -> Self {
        Recording { imaging: true, ..Self::default() }
    }

    fn number(&mut self, id: FuncOrDataId) -> u32 {
        let next = self.ids.len() as u32;
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.ids.push(id);
        }
        number
    }

    fn target(&mut self, target: &ModuleRelocTarget) -> Option<Target> {
        Some(match *target {
            ModuleRelocTarget::User { .. } => Target::Declared(self.number(id_of(target)?)),
            ModuleRelocTarget::LibCall(libcall) => Target::Libcall(libcall),
            ModuleRelocTarget::FunctionOffset(id, offset) => {
                Target::Within(self.number(FuncOrDataId::Func(id)), offset)
            }
            ModuleRelocTarget::KnownSymbol(_) => return None,
        })
    }

    /// Adds a function of the text of an image.
    pub(super) fn note_text(
        &mut self,
        id: FuncId,
        align: u64,
        code: &[u8],
        relocs: &[ModuleReloc],
    ) {
        let declaration = self.number(FuncOrDataId::Func(id));
        self.defined.insert(declaration);
        let relocs = relocs.iter().map(|reloc| {
            let target = self.target(&reloc.name)?;
            Some((reloc.offset, reloc.kind, target, reloc.addend))
        });
        match relocs.collect() {
            Some(relocs) => {
                let code = code.to_vec().into();
                self.text.push(Code { declaration, align, code, relocs });
            }
            None => self.unkept = Some("uncacheable"),
        }
    }

    /// Whether it is in the text.
    pub(super) fn is_in_text(&self, id: FuncId) -> bool {
        let number = self.numbers.get(&FuncOrDataId::Func(id));
        number.is_some_and(|number| self.defined.contains(number))
    }

    /// What is kept of it; or why nothing is.
    pub(super) fn group<'a>(
        self,
        environment: &Key,
        declarations: &'a ModuleDeclarations,
    ) -> Result<Group<'a>, &'static str> {
        if let Some(reason) = self.unkept {
            return Err(reason);
        }
        let mut signatures = Signatures::default();
        let declare = |id: &FuncOrDataId| {
            let declaration = declaration(declarations, *id, &mut signatures);
            // What has no name and was declared before cannot be found again.
            if declaration.name().is_none() && !self.declared.contains(id) {
                Err("anonymous")
            } else {
                Ok(declaration)
            }
        };
        Ok(Group {
            format: FORMAT,
            environment: *environment.as_bytes(),
            declarations: self.ids.iter().map(declare).collect::<Result<_, _>>()?,
            signatures: signatures.list.into_iter().cloned().collect(),
            functions: self.functions,
            data: self.data,
        })
    }

    /// Adds what was recorded within.
    fn absorb(&mut self, inner: Recording) {
        let numbers: Vec<_> = inner.ids.iter().map(|id| self.number(*id)).collect();
        let at = |number: u32| numbers[number as usize];
        self.declared.extend(inner.declared);
        self.functions.extend(inner.functions.into_iter().map(|mut code| {
            code.declaration = at(code.declaration);
            for (_, _, target, _) in &mut code.relocs {
                *target = match *target {
                    Target::Declared(number) => Target::Declared(at(number)),
                    Target::Within(number, offset) => Target::Within(at(number), offset),
                    libcall => libcall,
                };
            }
            code
        }));
        self.data.extend(inner.data.into_iter().map(|mut data| {
            data.declaration = at(data.declaration);
            data.addresses.iter_mut().for_each(|(_, number, _)| *number = at(*number));
            data
        }));
        self.unkept = self.unkept.or(inner.unkept);
    }
}

/// A declaration of a module, as a group keeps it.
fn declaration<'a>(
    declarations: &'a ModuleDeclarations,
    id: FuncOrDataId,
    signatures: &mut Signatures<'a>,
) -> Declaration<'a> {
    match id {
        FuncOrDataId::Func(id) => {
            let decl = declarations.get_function_decl(id);
            Declaration::Function {
                name: decl.name.as_deref(),
                linkage: decl.linkage,
                signature: signatures.number(&decl.signature),
            }
        }
        FuncOrDataId::Data(id) => {
            let decl = declarations.get_data_decl(id);
            Declaration::Data {
                name: decl.name.as_deref(),
                linkage: decl.linkage,
                writable: decl.writable,
            }
        }
    }
}

/// The id that a name of a module stands for.
fn id_of(name: &ModuleRelocTarget) -> Option<FuncOrDataId> {
    match name {
        ModuleRelocTarget::User { namespace: 0, .. } => {
            Some(FuncOrDataId::Func(FuncId::from_name(name)))
        }
        ModuleRelocTarget::User { namespace: 1, .. } => {
            Some(FuncOrDataId::Data(DataId::from_name(name)))
        }
        _ => None,
    }
}

/// Why a group is not in the store.
pub(super) enum Unmade {
    Failed(ModuleError),
    /// It is in the module, and cannot be kept.
    Unkept(&'static str),
}

impl CachingModule {
    /// Declares and defines what `build` does, without calling it if another process, or this one, has built the
    /// same before. Says where it came from.
    ///
    /// The caller vouches that `key` names all that `build` depends on: the source text that it compiles, say, and the
    /// version of the compiler that does it. [`Store::key`](crate::store::Store::key) begins such a key. What is not
    /// the caller's is added here: the target with all its settings, Cranelift's version, and this crate's.
    ///
    /// ```no_run
    /// # use cachelift::code::CachingModule;
    /// # use cranelift_module::{FuncOrDataId, Module, ModuleResult};
    /// # fn compile(module: &mut CachingModule, source: &str) -> ModuleResult<()> { Ok(()) }
    /// # fn f(module: &mut CachingModule, source: &str) -> ModuleResult<()> {
    /// let key = module.store().key("my language v3").str("source", source).finish();
    /// module.with_key(&key, |module| compile(module, source))?;
    /// module.finalize_definitions()?;
    /// let Some(FuncOrDataId::Func(main)) = module.get_name("main") else { panic!("no main") };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// After a hit the module has the same declarations and definitions under the same names as after a build; their
    /// ids may differ, so they are looked up by name (`Module::get_name`). What `build` does besides is not done.
    ///
    /// The functions of a group that is built come from the store as always, one by one, so that a source in which
    /// one function changed compiles that one. A group is not kept, and its build runs each time, if it has a function
    /// that is not kept, host addresses (`host-address`), or refers to something without a name that was declared
    /// before it (`anonymous`). Groups may be nested. Data must not have addresses of this process in its bytes:
    /// nobody would notice.
    ///
    /// A larger group costs less as an image: see [`with_image`](Self::with_image). To let go of a group, load it into a module
    /// of its own and [free](Self::free_memory) that.
    ///
    /// # Errors
    ///
    /// Those of `build`; and under an audit, that what `build` gives differs from what was kept.
    pub fn with_key(
        &mut self,
        key: &Key,
        build: impl FnOnce(&mut Self) -> ModuleResult<()>,
    ) -> ModuleResult<Origin> {
        if self.recording.as_ref().is_some_and(|recording| recording.imaging) {
            // It becomes part of the image that is being made.
            build(self)?;
            return Ok(Origin::Made);
        }
        let name = self
            .store
            .key("cachelift group v1")
            .key("environment", &self.own.environment)
            .key("group", key)
            .finish();
        let store = self.store.clone();
        let mut build = Some(build);
        let got = store.try_get_with(&name, || {
            let build = build.take().expect("made once");
            let group = self.record(build)?.group(&self.own.environment, self.inner.declarations());
            let group = group.map_err(Unmade::Unkept)?;
            let payload = postcard::to_allocvec(&group).map_err(|_| Unmade::Unkept("too-large"))?;
            let meta = Meta {
                label: format!("group of {} functions", group.functions.len()),
                producer: concat!("cachelift ", env!("CARGO_PKG_VERSION"), " module").into(),
                ..Meta::default()
            };
            Ok(Draft { payload, meta })
        });
        let (record, origin) = match got {
            Ok((_, Origin::Made)) => return Ok(Origin::Made),
            Ok(got) => got,
            Err(Unmade::Failed(error)) => return Err(error),
            Err(Unmade::Unkept(reason)) => {
                store.count_reason(reason, "a keyed group cannot be kept because of what is in it");
                return Ok(Origin::Made);
            }
        };
        let build = build.take().expect("nothing was made");
        if store.config().audit {
            self.audit_group(&name, record.payload(), build)?;
            return Ok(origin);
        }
        let replayed = match Group::decode(record.payload(), &self.own.environment) {
            Some(group) => self.replay(&group)?,
            None => false,
        };
        if replayed {
            return Ok(origin);
        }
        store.count_reason("unusable", "a keyed group does not fit what the module has declared");
        build(self)?;
        Ok(Origin::Made)
    }

    /// Builds a group, and gives what it declares and defines.
    fn record(
        &mut self,
        build: impl FnOnce(&mut Self) -> ModuleResult<()>,
    ) -> Result<Recording, Unmade> {
        let outer = self.recording.replace(Recording::default());
        let built = build(self);
        let recording = std::mem::replace(&mut self.recording, outer).unwrap_or_default();
        built.map_err(Unmade::Failed)?;
        if let Some(outer) = &mut self.recording {
            outer.absorb(recording.clone());
        }
        Ok(recording)
    }

    /// Declares and defines what is in a group. Nothing is defined, and the answer is no, if the module has declared
    /// something otherwise than the group's code takes it for.
    fn replay(&mut self, group: &Group<'_>) -> ModuleResult<bool> {
        let Some(ids) = self.declare_group(group) else { return Ok(false) };
        self.define_group(group, &ids)?;
        Ok(true)
    }

    /// Declares what a group declares, and gives the ids by the group's numbers. None if the module has declared something
    /// otherwise than the group's code takes it for.
    pub(super) fn declare_group(&mut self, group: &Group<'_>) -> Option<Vec<FuncOrDataId>> {
        let mut ids = Vec::with_capacity(group.declarations.len());
        let signature_of = |number: u32| &group.signatures[number as usize];
        for declaration in &group.declarations {
            let id = match declaration {
                Declaration::Function { name: Some(name), linkage, signature } => {
                    let signature = signature_of(*signature);
                    self.declare_function(name, *linkage, signature).map(FuncOrDataId::Func)
                }
                Declaration::Function { name: None, signature, .. } => self
                    .declare_anonymous_function(signature_of(*signature))
                    .map(FuncOrDataId::Func),
                Declaration::Data { name: Some(name), linkage, writable } => {
                    self.declare_data(name, *linkage, *writable, false).map(FuncOrDataId::Data)
                }
                Declaration::Data { name: None, writable, .. } => {
                    self.declare_anonymous_data(*writable, false).map(FuncOrDataId::Data)
                }
            };
            let id = id.ok()?;
            // A near reference was made because the declaration was final.
            let here = match id {
                FuncOrDataId::Func(id) => self.declarations().get_function_decl(id).linkage,
                FuncOrDataId::Data(id) => self.declarations().get_data_decl(id).linkage,
            };
            if declaration.linkage().is_final() && !here.is_final() {
                return None;
            }
            ids.push(id);
        }
        Some(ids)
    }

    /// Defines what a group defines.
    pub(super) fn define_group(
        &mut self,
        group: &Group<'_>,
        ids: &[FuncOrDataId],
    ) -> ModuleResult<()> {
        let function = |number: u32| match ids[number as usize] {
            FuncOrDataId::Func(id) => id,
            FuncOrDataId::Data(_) => unreachable!("checked when it was decoded"),
        };
        let name_of = |number: u32| match ids[number as usize] {
            FuncOrDataId::Func(id) => ModuleRelocTarget::from(id),
            FuncOrDataId::Data(id) => ModuleRelocTarget::from(id),
        };
        let mut relocs = Vec::new();
        for code in &group.functions {
            relocs.clear();
            relocs.extend(code.relocs.iter().map(|&(offset, kind, target, addend)| {
                let name = match target {
                    Target::Declared(number) => name_of(number),
                    Target::Libcall(libcall) => ModuleRelocTarget::LibCall(libcall),
                    Target::Within(number, offset) => {
                        ModuleRelocTarget::FunctionOffset(function(number), offset)
                    }
                };
                ModuleReloc { offset, kind, name, addend }
            }));
            self.define_function_bytes(
                function(code.declaration),
                code.align,
                &code.code,
                &relocs,
            )?;
        }
        for data in &group.data {
            let mut description = DataDescription::new();
            match &data.contents {
                Contents::Zeros(length) => description.define_zeroinit(*length as usize),
                Contents::Bytes(bytes) => description.define(bytes[..].into()),
            }
            description.align = data.align;
            for &(offset, number, addend) in &data.addresses {
                match (ids[number as usize], addend) {
                    (FuncOrDataId::Func(id), 0) => {
                        let function = description.import_function(id.into());
                        description.write_function_addr(offset, function);
                    }
                    _ => {
                        let value = description.import_global_value(name_of(number));
                        description.write_data_addr(offset, value, addend);
                    }
                }
            }
            let FuncOrDataId::Data(id) = ids[data.declaration as usize] else {
                unreachable!("checked when it was decoded")
            };
            self.define_data(id, &description)?;
        }
        Ok(())
    }

    /// Builds a group that was found, and fails unless it is what was found.
    fn audit_group(
        &mut self,
        name: &Key,
        kept: &[u8],
        build: impl FnOnce(&mut Self) -> ModuleResult<()>,
    ) -> ModuleResult<()> {
        self.store.count_audited();
        let group = self.record(build).and_then(|recording| {
            let group = recording.group(&self.own.environment, self.inner.declarations());
            group.map_err(Unmade::Unkept)
        });
        let group = match group {
            Ok(group) => group,
            Err(Unmade::Failed(error)) => return Err(error),
            Err(Unmade::Unkept(reason)) => {
                let compiled = format!("what cannot be kept: {reason}\n");
                let error = CodeError::Audit {
                    function: format!("of the group {name}"),
                    cached: format!("{} bytes\n", kept.len()),
                    compiled,
                };
                return Err(ModuleError::Backend(error.into()));
            }
        };
        let kept = Group::decode(kept, &self.own.environment);
        let same = kept.as_ref().is_some_and(|kept| group == *kept);
        if same {
            return Ok(());
        }
        let function = format!("of the group {name}");
        let cached = kept.map_or_else(|| "no group of this environment\n".into(), |k| k.listing());
        let error = crate::code::audit::difference(&function, cached, group.listing());
        Err(ModuleError::Backend(error.into()))
    }

    pub(super) fn note_declared(&mut self, id: FuncOrDataId) {
        if let Some(recording) = &mut self.recording {
            recording.declared.insert(id);
            recording.number(id);
        }
    }

    pub(super) fn note_function(
        &mut self,
        id: FuncId,
        align: u64,
        code: &[u8],
        relocs: &[ModuleReloc],
    ) {
        let Some(recording) = &mut self.recording else { return };
        let declaration = recording.number(FuncOrDataId::Func(id));
        let relocs = relocs.iter().map(|reloc| {
            let target = recording.target(&reloc.name)?;
            Some((reloc.offset, reloc.kind, target, reloc.addend))
        });
        match relocs.collect() {
            Some(relocs) => {
                let code = code.to_vec().into();
                recording.functions.push(Code { declaration, align, code, relocs });
            }
            None => recording.unkept = Some("uncacheable"),
        }
    }

    pub(super) fn note_data(&mut self, id: DataId, data: &DataDescription) {
        let Some(recording) = &mut self.recording else { return };
        let declaration = recording.number(FuncOrDataId::Data(id));
        let contents = match &data.init {
            Init::Zeros { size } => Contents::Zeros(*size as u64),
            Init::Bytes { contents } => Contents::Bytes(contents.to_vec().into()),
            Init::Uninitialized => unreachable!("refused by the module"),
        };
        let functions =
            data.function_relocs.iter().map(|(at, id)| (*at, &data.function_decls[*id], 0));
        let objects =
            data.data_relocs.iter().map(|(at, id, addend)| (*at, &data.data_decls[*id], *addend));
        let addresses = functions.chain(objects).map(|(at, name, addend)| {
            let id = id_of(name)?;
            Some((at, recording.number(id), addend))
        });
        match addresses.collect() {
            Some(addresses) => {
                recording.data.push(Data { declaration, align: data.align, contents, addresses });
            }
            None => recording.unkept = Some("uncacheable"),
        }
    }

    /// What is being built has something in it that cannot be kept.
    pub(super) fn note_unkept(&mut self, reason: &'static str) {
        if let Some(recording) = &mut self.recording {
            recording.unkept = Some(reason);
        }
    }
}
