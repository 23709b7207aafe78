//! Loading: which functions are live already, and one executable mapping for those that are not.
//!
//! ```text
//!   ┌────────────┬──────────┬───────────────┬──────────────────┐
//!   │ function   │ function │ function      │ stub, stub, …    │   one mapping, int3 between
//!   └────────────┴──────────┴───────────────┴──────────────────┘
//!      └ near calls reach each other           └ and reach everything else by way of stubs
//! ```

use std::collections::HashMap;
use std::ops::Range;

use super::artifact::{Artifact, Relocation, RelocationTarget};
use super::error::CodeError;
use super::exec::{self, Executable, Writable};
use super::handle::{Batch, Entry, Function, Handles, Memory};
use super::link::{Binding, Unit, link_keys};
use super::patch::{self, Need, PADDING, STUB};
use super::program::{Meaning, Program};
use crate::key::{Key, KeyMap};
use crate::sync::Arc;

/// A live function for each function of `program`, whose keys and artifacts these are. Functions begin at
/// multiples of `align`.
pub(crate) fn load(
    program: &mut Program,
    keys: &[Key],
    artifacts: &[Artifact<'_>],
    align: usize,
    handles: &Arc<Handles>,
) -> Result<Vec<Function>, CodeError> {
    let bindings = Bindings::of(program, artifacts)?;
    let units: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(i, key)| Unit { key: *key, bindings: bindings.of_function(i) })
        .collect();
    let link_keys = link_keys(&units);

    let mut loads = Vec::new();
    let mut first = KeyMap::default();
    let slots: Vec<_> = handles
        .get_many(&link_keys)
        .into_iter()
        .enumerate()
        .map(|(i, live)| match live {
            Some(live) => Slot::Live(live),
            // Functions that nobody can tell apart are loaded once.
            None => Slot::Load(*first.entry(link_keys[i]).or_insert_with(|| {
                loads.push(i);
                loads.len() - 1
            })),
        })
        .collect();

    let mut loaded = Vec::new();
    if !loads.is_empty() {
        let linker =
            Linker { program, artifacts, bindings: &bindings, slots: &slots, loads: &loads };
        let layout = linker.lay_out(align)?;
        let memory = Memory::Own(linker.fill(&layout)?);
        let keeps = linker.keeps();
        let entry = |(&i, &offset): (&usize, &usize)| {
            let definition = &mut program.functions[i];
            let signature = definition.take_signature();
            Entry {
                name: Arc::clone(&definition.name),
                link_key: link_keys[i],
                signature,
                offset: offset as u32,
                length: artifacts[i].code.len() as u32,
                traps: artifacts[i].trap_table().into(),
            }
        };
        let entries = loads.iter().zip(&layout.offsets).map(entry).collect();
        loaded = handles.add(Batch { memory, entries, keeps, handles: Arc::clone(handles) });
    }
    let function = |slot| match slot {
        Slot::Live(function) => function,
        Slot::Load(at) => Function::clone(&loaded[at]),
    };
    Ok(slots.into_iter().map(function).collect())
}

/// Where a function is had from.
enum Slot {
    Live(Function),
    /// The position among the functions to be loaded.
    Load(usize),
}

/// What the references of each function of a program mean.
struct Bindings {
    all: Vec<(u32, Binding)>,
    spans: Vec<Range<usize>>,
}

impl Bindings {
    /// The bindings of those references that the code mentions.
    fn of(program: &Program, artifacts: &[Artifact<'_>]) -> Result<Self, CodeError> {
        let mut bindings = Bindings { all: Vec::new(), spans: Vec::with_capacity(artifacts.len()) };
        let mut references = Vec::new();
        for (definition, artifact) in program.functions.iter().zip(artifacts) {
            references.clear();
            references.extend(artifact.relocations().filter_map(|r| reference(&r)));
            references.sort_unstable();
            references.dedup();
            let begin = bindings.all.len();
            for &reference in &references {
                let binding = match program.resolve(&definition.clif, reference) {
                    Meaning::Defined(index) => Binding::Inner(*index),
                    Meaning::Loaded(function) => Binding::Outer {
                        key: *function.link_key(),
                        address: function.address().addr() as u64,
                    },
                    Meaning::Host(address) => Binding::Host(*address),
                    Meaning::Nothing => {
                        return Err(CodeError::Undefined {
                            function: definition.name.to_string(),
                            callee: program.spell(&definition.clif, reference),
                        });
                    }
                };
                bindings.all.push((reference, binding));
            }
            bindings.spans.push(begin..bindings.all.len());
        }
        Ok(bindings)
    }

    fn of_function(&self, index: usize) -> &[(u32, Binding)] {
        &self.all[self.spans[index].clone()]
    }

    fn get(&self, index: usize, reference: u32) -> Binding {
        let bindings = self.of_function(index);
        let at = bindings
            .binary_search_by_key(&reference, |(reference, _)| *reference)
            .expect("every reference of the code is bound");
        bindings[at].1
    }
}

fn reference(relocation: &Relocation) -> Option<u32> {
    match relocation.target {
        RelocationTarget::Function(reference) | RelocationTarget::Symbol(reference) => {
            Some(reference)
        }
        RelocationTarget::Libcall(_) | RelocationTarget::Own(_) => None,
    }
}

/// Where a relocation's target lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// So far into the function itself.
    Own(u32),
    /// At a known address.
    At(u64),
    /// In the batch that is being loaded, by its position there.
    InBatch(usize),
}

/// Where everything goes in the memory of a batch.
struct Layout {
    /// Of each function, in the order of loading.
    offsets: Vec<usize>,
    stubs: Vec<Place>,
    stub_of: HashMap<Place, usize>,
    stubs_at: usize,
}

struct Linker<'a> {
    program: &'a Program,
    artifacts: &'a [Artifact<'a>],
    bindings: &'a Bindings,
    slots: &'a [Slot],
    /// The functions to be loaded, in the order in which they will lie in memory.
    loads: &'a [usize],
}

impl Linker<'_> {
    /// What a relocation of function `i` refers to.
    fn place(&self, i: usize, relocation: &Relocation) -> Result<Place, CodeError> {
        let reference = match relocation.target {
            RelocationTarget::Own(offset) => return Ok(Place::Own(offset)),
            RelocationTarget::Libcall(libcall) => {
                return exec::libcall(libcall).map(Place::At).ok_or_else(|| {
                    CodeError::MissingLibcall {
                        function: self.program.functions[i].name.to_string(),
                        libcall,
                    }
                });
            }
            RelocationTarget::Function(reference) | RelocationTarget::Symbol(reference) => {
                reference
            }
        };
        Ok(match self.bindings.get(i, reference) {
            Binding::Inner(to) => match &self.slots[to] {
                Slot::Live(function) => Place::At(function.address().addr() as u64),
                Slot::Load(at) => Place::InBatch(*at),
            },
            Binding::Outer { address, .. } | Binding::Host(address) => Place::At(address),
        })
    }

    fn lay_out(&self, align: usize) -> Result<Layout, CodeError> {
        let mut offsets = Vec::with_capacity(self.loads.len());
        let mut end = 0_usize;
        for &i in self.loads {
            let begin = end.next_multiple_of(self.artifacts[i].align.max(align));
            offsets.push(begin);
            end = begin + self.artifacts[i].code.len();
        }
        let stubs_at = end.next_multiple_of(STUB);
        let mut layout = Layout { offsets, stubs: Vec::new(), stub_of: HashMap::new(), stubs_at };
        for &i in self.loads {
            for relocation in self.artifacts[i].relocations() {
                let place = match patch::need(relocation.kind) {
                    Need::None => continue,
                    _ => self.place(i, &relocation)?,
                };
                if may_use_stub(&relocation, place) {
                    layout.stub_of.entry(place).or_insert_with(|| {
                        layout.stubs.push(place);
                        layout.stubs.len() - 1
                    });
                }
            }
        }
        // Then every near call within the batch reaches.
        let length = layout.length();
        if length > i32::MAX as usize {
            return Err(CodeError::Memory(format!("{length} bytes of code in one program")));
        }
        Ok(layout)
    }

    fn fill(&self, layout: &Layout) -> Result<Executable, CodeError> {
        let mut memory = Writable::allocate(layout.length()).map_err(CodeError::Memory)?;
        let base = memory.base();
        let bytes = memory.bytes();
        let mut end = 0;
        for (&i, &offset) in self.loads.iter().zip(&layout.offsets) {
            bytes[end..offset].fill(PADDING);
            end = offset + self.artifacts[i].code.len();
            let code = &mut bytes[offset..end];
            code.copy_from_slice(self.artifacts[i].code);
            self.relocate(i, code, base, base + offset as u64, layout)?;
        }
        bytes[end..layout.stubs_at].fill(PADDING);
        for (place, stub) in layout.stubs.iter().zip(bytes[layout.stubs_at..].as_chunks_mut().0) {
            patch::write_stub(stub, layout.address(*place, base, base));
        }
        memory.finish().map_err(CodeError::Memory)
    }

    /// Fills in the relocations of function `i`, whose code lies at `start` in the memory at `base`.
    fn relocate(
        &self,
        i: usize,
        code: &mut [u8],
        base: u64,
        start: u64,
        layout: &Layout,
    ) -> Result<(), CodeError> {
        for relocation in self.artifacts[i].relocations() {
            let place = self.place(i, &relocation)?;
            let stub = if may_use_stub(&relocation, place) {
                let stub = layout.stub_of.get(&place);
                stub.map(|at| base + (layout.stubs_at + at * STUB) as u64)
            } else {
                None
            };
            let address = layout.address(place, base, start);
            patch::patch(code, start, &relocation, address, stub).map_err(|error| {
                CodeError::Relocation {
                    function: self.program.functions[i].name.to_string(),
                    callee: self.spell(i, &relocation),
                    reason: error.to_string(),
                }
            })?;
        }
        Ok(())
    }

    /// The functions of other batches that the code to be loaded calls.
    fn keeps(&self) -> Vec<Function> {
        let mut keeps = Vec::new();
        for &i in self.loads {
            for (reference, binding) in self.bindings.of_function(i) {
                match *binding {
                    Binding::Inner(to) => {
                        if let Slot::Live(function) = &self.slots[to] {
                            keeps.push(function.clone());
                        }
                    }
                    Binding::Outer { .. } => {
                        let clif = &self.program.functions[i].clif;
                        if let Meaning::Loaded(function) = self.program.resolve(clif, *reference) {
                            keeps.push(function.clone());
                        }
                    }
                    Binding::Host(_) => {}
                }
            }
        }
        Function::one_per_batch(&mut keeps);
        keeps
    }

    fn spell(&self, i: usize, relocation: &Relocation) -> String {
        match relocation.target {
            RelocationTarget::Function(reference) | RelocationTarget::Symbol(reference) => {
                self.program.spell(&self.program.functions[i].clif, reference)
            }
            RelocationTarget::Libcall(libcall) => libcall.to_string(),
            RelocationTarget::Own(offset) => format!("its own byte {offset}"),
        }
    }
}

impl Layout {
    fn length(&self) -> usize {
        self.stubs_at + self.stubs.len() * STUB
    }

    /// The address of a place, in memory at `base`, for the function at `start`.
    fn address(&self, place: Place, base: u64, start: u64) -> u64 {
        match place {
            Place::Own(offset) => start + u64::from(offset),
            Place::At(address) => address,
            Place::InBatch(at) => base + self.offsets[at] as u64,
        }
    }
}

/// Whether a relocation may go by way of a stub for its target. A stub can stand in for a function that
/// is called, and not for data; places in the batch are near, but their address may be asked for.
fn may_use_stub(relocation: &Relocation, place: Place) -> bool {
    match (patch::need(relocation.kind), place) {
        (Need::None, _) | (_, Place::Own(_)) => false,
        (Need::Always, _) => true,
        (Need::IfFar, Place::InBatch(_)) => false,
        (Need::IfFar, Place::At(_)) => !matches!(relocation.target, RelocationTarget::Symbol(_)),
    }
}
