//! Near references, which reach 2 GiB: whether what they refer to lies within that.
//!
//! Where things lie is decided by the module's memory provider, when they are defined. A `JITModule` panics over a reference
//! that is too long. Here they are looked at before it would.

use cranelift_codegen::binemit::Reloc;
use cranelift_module::{
    FuncId, Module, ModuleDeclarations, ModuleError, ModuleReloc, ModuleRelocTarget, ModuleResult,
};

use super::CachingModule;
use crate::code::CodeError;

/// A near reference in a function that is defined and not finalized.
#[derive(Debug)]
pub(super) struct Near {
    function: FuncId,
    offset: u32,
    target: ModuleRelocTarget,
    addend: i64,
}

/// What a near reference over this distance is, if it reaches so far.
pub(super) fn reaches(distance: i64) -> Option<i32> {
    i32::try_from(distance).ok()
}

/// A near reference of x86-64 to something else than the function itself, if this is one.
fn near(function: FuncId, reloc: &ModuleReloc) -> Option<Near> {
    let is_near = matches!(reloc.kind, Reloc::X86PCRel4 | Reloc::X86CallPCRel4);
    let is_own = matches!(reloc.name, ModuleRelocTarget::FunctionOffset(id, _) if id == function);
    (is_near && !is_own).then(|| Near {
        function,
        offset: reloc.offset,
        target: reloc.name.clone(),
        addend: reloc.addend,
    })
}

impl CachingModule {
    /// A function has these relocations.
    pub(super) fn note_near(&mut self, function: FuncId, relocs: &[ModuleReloc]) {
        self.near.extend(relocs.iter().filter_map(|reloc| near(function, reloc)));
    }

    /// Fails if a near reference of what was defined since the last time does not reach what it refers to.
    pub(super) fn check_near(&mut self) -> ModuleResult<()> {
        for near in &self.near {
            let own = self.inner.get_address(&ModuleRelocTarget::from(near.function)).addr() as i64;
            let other = self.inner.get_address(&near.target).addr() as i64;
            let distance = other.wrapping_add(near.addend) - own.wrapping_add(near.offset.into());
            if reaches(distance).is_none() {
                return Err(self.too_far(near, distance));
            }
        }
        self.near.clear();
        Ok(())
    }

    fn too_far(&self, near: &Near, distance: i64) -> ModuleError {
        let declarations = self.inner.declarations();
        let function = declarations.get_function_decl(near.function).linkage_name(near.function);
        let callee = match &near.target {
            name @ ModuleRelocTarget::User { .. } if ModuleDeclarations::is_function(name) => {
                let id = FuncId::from_name(name);
                declarations.get_function_decl(id).linkage_name(id).into_owned()
            }
            ModuleRelocTarget::User { .. } => {
                let id = cranelift_module::DataId::from_name(&near.target);
                declarations.get_data_decl(id).linkage_name(id).into_owned()
            }
            other => other.to_string(),
        };
        let reason = format!(
            "it is {} MiB away, and a near reference reaches 2048: give the builder an ArenaMemoryProvider, which keeps \
             everything together",
            distance.unsigned_abs() >> 20
        );
        let error = CodeError::Relocation { function: function.into_owned(), callee, reason };
        ModuleError::Backend(error.into())
    }
}
