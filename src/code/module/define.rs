//! A function's way into a module: from the store, or through a compile.

use cranelift_codegen::Context;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{Function, UserExternalNameRef};
use cranelift_codegen::{CompiledCode, FinalizedRelocTarget, ir::ExternalName};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module, ModuleError, ModuleReloc, ModuleRelocTarget, ModuleResult};

use super::compiled::{self, Capture};
use super::{CachingModule, Keep, host};
use crate::code::CodeError;
use crate::code::artifact::{self, Artifact, RelocationTarget};
use crate::code::audit;
use crate::key::Key;
use crate::store::{Draft, Meta, Origin, Record, Store};

/// Why a maker made nothing.
enum Unmade {
    /// The function cannot be compiled.
    Failed(ModuleError),
    /// It was compiled to something that cannot be kept: the reason.
    Unkept(String),
}

impl CachingModule {
    /// Defines a function, by way of the store if it can be kept there.
    pub(super) fn define(
        &mut self,
        id: FuncId,
        ctx: &mut Context,
        ctrl_plane: &mut ControlPlane,
    ) -> ModuleResult<()> {
        // Without a compile first.
        self.check_definable(id)?;
        if ctx.want_disasm {
            return self.define_uncached(id, ctx, ctrl_plane, "disassembly");
        }
        if !ctx.func.dfg.exception_tables.is_empty() {
            // A `JITModule` registers the handlers of what it compiles itself, and of nothing else.
            return self.define_uncached(id, ctx, ctrl_plane, "try-call");
        }
        if self.recording.is_some() && host::first_address(&ctx.func).is_some() {
            self.note_unkept("host-address");
        }
        let settings = self.settings();
        let key = self.stream.key(&settings.context, &ctx.func);
        match self.keep {
            Keep::CompiledCode => self.define_compiled(id, &key, ctx, ctrl_plane),
            Keep::CodeOnly => self.define_code(id, &key, ctx, ctrl_plane),
        }
    }

    /// Lets the `JITModule` compile a function, for a reason that is counted.
    pub(super) fn define_uncached(
        &mut self,
        id: FuncId,
        ctx: &mut Context,
        ctrl_plane: &mut ControlPlane,
        reason: &'static str,
    ) -> ModuleResult<()> {
        self.check_definable(id)?;
        let name = name_of(self, id);
        self.store.count_reason(reason, format_args!("{name} is compiled here and not kept"));
        self.inner.define_function_with_control_plane(id, ctx, ctrl_plane)?;
        let compiled = ctx.compiled_code().expect("a compile leaves it there");
        let relocs = compiled.buffer.relocs().iter();
        let relocs: Vec<_> =
            relocs.map(|reloc| ModuleReloc::from_mach_reloc(reloc, &ctx.func, id)).collect();
        self.note_unkept(reason);
        self.note_compiled_here(id, &relocs)
    }

    /// The way of a module that keeps code alone.
    fn define_code(
        &mut self,
        id: FuncId,
        key: &Key,
        ctx: &mut Context,
        ctrl_plane: &mut ControlPlane,
    ) -> ModuleResult<()> {
        let settings = self.settings();
        let (inner, store) = (&self.inner, &self.store);
        let (isa, environment) = (settings.isa(inner), &settings.environment);
        let got = store.try_get_with(key, || {
            let meta = begun(inner, store, id, &ctx.func);
            ctx.compile(isa, ctrl_plane).map_err(|error| Unmade::Failed(error.into()))?;
            let compiled = ctx.compiled_code().expect("just compiled");
            let payload =
                artifact::encode(compiled, &ctx.func, environment).map_err(Unmade::Unkept)?;
            Ok(Draft { payload, meta })
        });
        let (record, origin) = match got {
            Ok(got) => got,
            Err(unmade) => return self.define_unmade(id, ctx, unmade),
        };
        if origin != Origin::Made {
            // What was compiled in this context before is another function.
            ctx.take_compiled_code();
        }
        if self.audits(origin) {
            self.audit_code(id, ctx, ctrl_plane, &record)?;
        }
        if let Some(artifact) = self.usable(&record, id, &ctx.func) {
            let align = artifact.align as u64;
            return self.define_relocated(id, align, artifact.code);
        }
        self.unusable(key);
        ctx.compile(settings.isa(&self.inner), ctrl_plane)?;
        self.define_from_context(id, ctx)
    }

    /// The way of a module that keeps all that Cranelift says of a function.
    fn define_compiled(
        &mut self,
        id: FuncId,
        key: &Key,
        ctx: &mut Context,
        ctrl_plane: &mut ControlPlane,
    ) -> ModuleResult<()> {
        let settings = self.settings();
        let (inner, store) = (&self.inner, &self.store);
        let (isa, environment) = (settings.isa(inner), &settings.environment);
        let got = store.try_get_with(key, || {
            let meta = begun(inner, store, id, &ctx.func);
            let mut capture = Capture::default();
            ctx.compile_with_cache(isa, &mut capture, ctrl_plane)
                .map_err(|error| Unmade::Failed(error.into()))?;
            let stencil = capture
                .taken()
                .ok_or_else(|| Unmade::Unkept("Cranelift cannot write it down".into()))?;
            Ok(Draft { payload: compiled::encode(environment, &stencil), meta })
        });
        let (record, origin) = match got {
            Ok(got) => got,
            Err(unmade) => return self.define_unmade(id, ctx, unmade),
        };
        if origin == Origin::Made {
            return self.define_from_context(id, ctx);
        }
        if self.audits(origin) {
            self.audit_compiled(id, ctx, ctrl_plane, &record)?;
            return self.define_from_context(id, ctx);
        }
        let isa = settings.isa(&self.inner);
        let handed = compiled::decode(&settings.environment, record.payload())
            .is_some_and(|stencil| self.handover.hand_over(stencil, ctx, isa));
        if !handed || !ctx.compiled_code().is_some_and(|compiled| fits(compiled, &ctx.func)) {
            self.unusable(key);
            ctx.compile(settings.isa(&self.inner), ctrl_plane)?;
        }
        self.define_from_context(id, ctx)
    }

    /// What is left to do for a function of which nothing can be kept.
    fn define_unmade(&mut self, id: FuncId, ctx: &Context, unmade: Unmade) -> ModuleResult<()> {
        match unmade {
            Unmade::Failed(error) => Err(error),
            Unmade::Unkept(reason) => {
                let name = name_of(self, id);
                self.store
                    .count_reason("uncacheable", format_args!("{name} is not kept: {reason}"));
                self.define_from_context(id, ctx)
            }
        }
    }

    /// Defines a function as it lies compiled in its context.
    fn define_from_context(&mut self, id: FuncId, ctx: &Context) -> ModuleResult<()> {
        let compiled = ctx.compiled_code().expect("a compile leaves it there");
        self.relocs.clear();
        let relocs = compiled.buffer.relocs().iter();
        self.relocs.extend(relocs.map(|reloc| ModuleReloc::from_mach_reloc(reloc, &ctx.func, id)));
        self.define_relocated(id, compiled.buffer.alignment.into(), compiled.code_buffer())
    }

    /// Defines a function by its code and the relocations at hand.
    fn define_relocated(&mut self, id: FuncId, align: u64, code: &[u8]) -> ModuleResult<()> {
        let relocs = std::mem::take(&mut self.relocs);
        if self.is_imaging() {
            self.note_text(id, align, code, &relocs);
        } else {
            self.define_here(id, align, code, &relocs)?;
            self.note_function(id, align, code, &relocs);
        }
        self.relocs = relocs;
        Ok(())
    }

    /// The artifact in a record, if it is one and fits the function; its relocations are at hand then.
    fn usable<'a>(
        &mut self,
        record: &'a Record,
        id: FuncId,
        func: &Function,
    ) -> Option<Artifact<'a>> {
        let artifact = Artifact::decode(record.payload(), &self.settings().environment).ok()?;
        let table = func.params.user_named_funcs();
        if artifact.references as usize > table.len() {
            return None;
        }
        self.relocs.clear();
        self.relocs.extend(artifact.relocations().map(|relocation| ModuleReloc {
            offset: relocation.offset,
            kind: relocation.kind.reloc(),
            name: match relocation.target {
                RelocationTarget::Function(n) | RelocationTarget::Symbol(n) => {
                    let name = &table[UserExternalNameRef::from_u32(n)];
                    ModuleRelocTarget::user(name.namespace, name.index)
                }
                RelocationTarget::Libcall(libcall) => ModuleRelocTarget::LibCall(libcall),
                RelocationTarget::Own(offset) => ModuleRelocTarget::FunctionOffset(id, offset),
            },
            addend: relocation.addend,
        }));
        Some(artifact)
    }

    /// A record that is whole but nothing of this environment is a miss. It cannot be replaced under its key, whose
    /// first publisher wins, so what is compiled here stays here.
    fn unusable(&self, key: &Key) {
        let detail = format_args!("what lies under {key} cannot be used and is compiled again");
        self.store.count_reason("unusable", detail);
    }

    fn audits(&self, origin: Origin) -> bool {
        let asked = self.inner.isa().flags().enable_incremental_compilation_cache_checks();
        origin != Origin::Made && (asked || self.store.config().audit)
    }

    fn audit_code(
        &mut self,
        id: FuncId,
        ctx: &mut Context,
        ctrl_plane: &mut ControlPlane,
        record: &Record,
    ) -> ModuleResult<()> {
        self.store.count_audited();
        let settings = self.settings();
        let environment = &settings.environment;
        ctx.compile(settings.isa(&self.inner), ctrl_plane)?;
        let compiled = ctx.compiled_code().expect("just compiled");
        let name = name_of(self, id);
        artifact::encode(compiled, &ctx.func, environment)
            .map_err(|reason| CodeError::Unsupported { function: name.clone(), reason })
            .and_then(|compiled| audit::compare(&name, record.payload(), &compiled))
            .map_err(|error| ModuleError::Backend(error.into()))
    }

    fn audit_compiled(
        &mut self,
        id: FuncId,
        ctx: &mut Context,
        ctrl_plane: &mut ControlPlane,
        record: &Record,
    ) -> ModuleResult<()> {
        self.store.count_audited();
        let settings = self.settings();
        let environment = &settings.environment;
        ctx.compile(settings.isa(&self.inner), ctrl_plane)?;
        let compiled = ctx.compiled_code().expect("just compiled");
        let cached = compiled::decode(environment, record.payload())
            .and_then(|stencil| compiled::finish(&ctx.func, stencil));
        if cached.as_ref() == Some(compiled) {
            return Ok(());
        }
        let list = |code: &CompiledCode| match artifact::encode(code, &ctx.func, environment) {
            Ok(bytes) => audit::listing(&bytes),
            Err(reason) => format!("{} bytes: {reason}\n", code.code_buffer().len()),
        };
        let cached = cached.as_ref().map_or_else(|| "not code of this environment\n".into(), list);
        let error = audit::difference(&name_of(self, id), cached, list(compiled));
        Err(ModuleError::Backend(error.into()))
    }
}

/// Whether compiled code that was found refers to nothing but itself and what `func` has references to.
fn fits(compiled: &CompiledCode, func: &Function) -> bool {
    let end = compiled.code_buffer().len();
    let references = func.params.user_named_funcs().len();
    compiled.buffer.relocs().iter().all(|reloc| {
        let width = if reloc.kind == Reloc::Abs8 { 8 } else { 4 };
        let inside = match &reloc.target {
            FinalizedRelocTarget::Func(offset) => *offset as usize <= end,
            FinalizedRelocTarget::ExternalName(ExternalName::User(reference)) => {
                (reference.as_u32() as usize) < references
            }
            FinalizedRelocTarget::ExternalName(_) => true,
        };
        inside && reloc.offset as usize + width <= end
    })
}

/// A function begins to be made: host addresses in it are told of. Gives what is remembered of it.
fn begun(inner: &JITModule, store: &Store, id: FuncId, func: &Function) -> Meta {
    let name = inner.declarations().get_function_decl(id).linkage_name(id);
    host::report(store, &name, func);
    Meta {
        label: format!("{name}{}", func.signature),
        producer: concat!("cachelift ", env!("CARGO_PKG_VERSION"), " module").into(),
        ..Meta::default()
    }
}

fn name_of(module: &CachingModule, id: FuncId) -> String {
    module.inner.declarations().get_function_decl(id).linkage_name(id).into_owned()
}
