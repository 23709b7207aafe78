//! Functions of images, which the `JITModule` does not know: where they are, and what refers to them from its code and data.
//!
//! ```text
//!   defined after the image      an address ──► written into the bytes      a near call ──► written, once both places are known
//!                                                                                └ too far: to a jump in the module's memory
//!   defined before the image     the jump is the function's one address: nobody has been given another
//! ```

use std::borrow::Cow;
use std::collections::HashSet;

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::entity::SecondaryMap;
use cranelift_module::{
    DataDescription, FuncId, Init, Module, ModuleError, ModuleReloc, ModuleRelocTarget,
    ModuleResult,
};

use super::CachingModule;
use super::near::reaches;

/// `jmp *0(%rip)`, before the address that it goes to. It changes no register.
const JUMP: [u8; 6] = [0xFF, 0x25, 0, 0, 0, 0];

/// A function in an image.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Which of the module's images.
    image: u32,
    /// Where in its text.
    offset: u32,
}

/// What a module knows of its functions.
#[derive(Default)]
pub(super) struct Places {
    /// Whether it has a definition, in the `JITModule` or in an image.
    defined: SecondaryMap<FuncId, bool>,
    in_images: SecondaryMap<FuncId, Option<Place>>,
    /// Those of them that the `JITModule` knows by a jump.
    jumps: HashSet<FuncId>,
    /// What the `JITModule` is to resolve when it is finalized next, and that had no definition when it was referred to.
    awaited: HashSet<FuncId>,
}

impl Places {
    /// There will be functions of these ids.
    pub(super) fn make_room(&mut self, ids: impl Iterator<Item = FuncId>) {
        let length = ids.map(|id| id.as_u32() as usize + 1).max().unwrap_or_default();
        if length > self.in_images.keys().len() {
            self.in_images.resize(length);
            self.defined.resize(length.max(self.defined.keys().len()));
        }
    }

    pub(super) fn note_finalized(&mut self) {
        self.awaited.clear();
    }
}

/// The function that a name stands for.
fn function_of(name: &ModuleRelocTarget) -> Option<FuncId> {
    match name {
        ModuleRelocTarget::User { namespace: 0, .. } => Some(FuncId::from_name(name)),
        _ => None,
    }
}

impl CachingModule {
    /// Fails if a function cannot be defined, because it is an import or because it is defined.
    pub(super) fn check_definable(&self, id: FuncId) -> ModuleResult<()> {
        let decl = self.inner.declarations().get_function_decl(id);
        let name = || decl.linkage_name(id).into_owned();
        if !decl.linkage.is_definable() {
            Err(ModuleError::InvalidImportDefinition(name()))
        } else if self.places.defined[id] || self.is_in_text(id) {
            Err(ModuleError::DuplicateDefinition(name()))
        } else {
            Ok(())
        }
    }

    /// Defines a function in the `JITModule`.
    pub(super) fn define_here(
        &mut self,
        id: FuncId,
        align: u64,
        code: &[u8],
        relocs: &[ModuleReloc],
    ) -> ModuleResult<()> {
        self.check_definable(id)?;
        if !relocs.iter().any(|reloc| self.image_address(&reloc.name).is_some()) {
            self.inner.define_function_bytes(id, align, code, relocs)?;
            self.note_defined_here(id, relocs);
            return Ok(());
        }
        let mut code = code.to_vec();
        let (mut others, mut near) = (Vec::new(), Vec::new());
        for reloc in relocs {
            match (self.image_address(&reloc.name), reloc.kind) {
                (Some(address), Reloc::Abs8) => {
                    let address = address.wrapping_add_signed(reloc.addend);
                    code[reloc.offset as usize..][..8].copy_from_slice(&address.to_le_bytes());
                }
                (Some(_), Reloc::X86PCRel4 | Reloc::X86CallPCRel4) => near.push(reloc),
                (address, _) => {
                    if address.is_some() {
                        self.add_jump(&reloc.name)?;
                    }
                    others.push(reloc.clone());
                }
            }
        }
        self.inner.define_function_bytes(id, align, &code, &others)?;
        self.note_defined_here(id, &others);
        near.into_iter().try_for_each(|reloc| self.write_near(id, code.len(), reloc))
    }

    /// Writes a near reference to a function of an image into a function that was just defined.
    fn write_near(&mut self, id: FuncId, length: usize, reloc: &ModuleReloc) -> ModuleResult<()> {
        let offset = reloc.offset as usize;
        assert!(offset + 4 <= length, "a relocation lies within its function");
        let at = self.inner.get_address(&id.into()).wrapping_add(offset);
        let distance =
            |to: u64| to.wrapping_add_signed(reloc.addend).wrapping_sub(at.addr() as u64);
        let mut distance_there = distance(self.image_address(&reloc.name).expect("in an image"));
        if reaches(distance_there as i64).is_none() {
            self.add_jump(&reloc.name)?;
            distance_there = distance(self.inner.get_address(&reloc.name).addr() as u64);
        }
        match reaches(distance_there as i64) {
            // SAFETY: the function's memory was given for writing and is not finalized, nobody else knows of it, and these
            // four bytes are within it.
            Some(distance) => unsafe { at.cast_mut().cast::<i32>().write_unaligned(distance) },
            None => self.note_near(id, std::slice::from_ref(reloc)),
        }
        Ok(())
    }

    /// Has the `JITModule` know the function by a jump to where it is.
    fn add_jump(&mut self, name: &ModuleRelocTarget) -> ModuleResult<()> {
        let id = function_of(name).expect("a function of an image");
        if self.places.jumps.insert(id) {
            let address = self.image_address(name).expect("in an image");
            self.define_jump(id, address)?;
        }
        Ok(())
    }

    fn define_jump(&mut self, id: FuncId, address: u64) -> ModuleResult<()> {
        let mut jump = [0; 14];
        jump[..6].copy_from_slice(&JUMP);
        jump[6..].copy_from_slice(&address.to_le_bytes());
        self.inner.define_function_bytes(id, 1, &jump, &[])
    }

    /// A function was defined in the `JITModule`, which resolves these.
    pub(super) fn note_defined_here(&mut self, id: FuncId, relocs: &[ModuleReloc]) {
        self.places.defined[id] = true;
        self.note_near(id, relocs);
        for reloc in relocs {
            self.await_definition(&reloc.name);
        }
    }

    /// As [`note_defined_here`](Self::note_defined_here) of a function that the `JITModule` has compiled itself.
    pub(super) fn note_compiled_here(
        &mut self,
        id: FuncId,
        relocs: &[ModuleReloc],
    ) -> ModuleResult<()> {
        self.note_defined_here(id, relocs);
        for reloc in relocs {
            if self.image_address(&reloc.name).is_some() {
                self.add_jump(&reloc.name)?;
            }
        }
        Ok(())
    }

    fn await_definition(&mut self, name: &ModuleRelocTarget) {
        if let Some(id) = function_of(name)
            && !self.places.defined[id]
        {
            self.places.awaited.insert(id);
        }
    }

    /// What the `JITModule` is to make of a data object: the addresses of functions in images are written into it.
    pub(super) fn data_here<'a>(&mut self, data: &'a DataDescription) -> Cow<'a, DataDescription> {
        let names = data.function_decls.values().chain(data.data_decls.values());
        if !names.clone().any(|name| self.image_address(name).is_some()) {
            names.for_each(|name| self.await_definition(name));
            return Cow::Borrowed(data);
        }
        let mut data = data.clone();
        if let Init::Zeros { size } = data.init {
            data.init = Init::Bytes { contents: vec![0; size].into() };
        }
        let DataDescription {
            init, function_decls, data_decls, function_relocs, data_relocs, ..
        } = &mut data;
        let mut keep = |at: u32, name: &ModuleRelocTarget, addend: i64| match (
            self.image_address(name),
            &mut *init,
        ) {
            (Some(address), Init::Bytes { contents }) => {
                let address = address.wrapping_add_signed(addend);
                contents[at as usize..][..8].copy_from_slice(&address.to_le_bytes());
                false
            }
            _ => {
                self.await_definition(name);
                true
            }
        };
        function_relocs.retain(|(at, function)| keep(*at, &function_decls[*function], 0));
        data_relocs.retain(|(at, object, addend)| keep(*at, &data_decls[*object], *addend));
        Cow::Owned(data)
    }

    /// Defines a function at a place of an image, which has no definition yet.
    pub(super) fn define_in_image(
        &mut self,
        id: FuncId,
        image: u32,
        offset: u32,
    ) -> ModuleResult<()> {
        self.places.defined[id] = true;
        if self.places.awaited.contains(&id) {
            return self.define_jump(id, self.images.address(image, offset));
        }
        self.places.in_images[id] = Some(Place { image, offset });
        Ok(())
    }

    /// Where a function is, if an image has it.
    pub(super) fn image_address(&self, name: &ModuleRelocTarget) -> Option<u64> {
        let (id, offset) = match *name {
            ModuleRelocTarget::FunctionOffset(id, offset) => (id, offset),
            _ => (function_of(name)?, 0),
        };
        let place = self.places.in_images[id]?;
        Some(self.images.address(place.image, place.offset) + u64::from(offset))
    }

    /// The pointer to a function that an image has, if one does.
    ///
    /// # Panics
    ///
    /// If the image is not finalized.
    pub(super) fn function_in_image(&self, id: FuncId) -> Option<*const u8> {
        let place = self.places.in_images[id]?;
        let pointer = self.images.pointer(place.image, place.offset);
        Some(pointer.expect("function not yet finalized"))
    }
}
