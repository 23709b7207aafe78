//! A program that is loaded: its functions by name, and how each was got.

use std::fmt;

use cranelift_codegen::ir::Signature;

use super::error::CodeError;
use super::handle::Function;
use super::program::Names;
use crate::key::Key;
use crate::store::Origin;
use crate::sync::Arc;

/// The loaded functions of a program. They stay loaded as long as this, or a clone of a function's handle,
/// lives.
pub struct Loaded {
    names: Names,
    functions: Vec<Got>,
    trampolines: Vec<usize>,
}

/// One function, and how it was got.
pub(crate) struct Got {
    /// Its name in the program.
    pub(crate) name: Arc<str>,
    pub(crate) function: Function,
    pub(crate) key: Key,
    pub(crate) origin: Origin,
    pub(crate) micros: u64,
}

/// How one function of a program was got.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The function's name in the program; that of a trampoline is `call` and its signature.
    pub name: String,
    /// Its signature, as CLIF writes it.
    pub signature: String,
    /// The key of its artifact.
    pub key: Key,
    /// Where the artifact came from.
    pub origin: Origin,
    /// How long this process compiled it, in microseconds; 0 if it did not.
    pub micros: u64,
    /// Whether it was added to make another function callable.
    pub is_trampoline: bool,
}

impl Loaded {
    /// `functions` are the program's, in their order; `trampolines` has the index of that of each function
    /// of a callable program, and is empty otherwise.
    pub(crate) fn new(names: Names, functions: Vec<Got>, trampolines: Vec<usize>) -> Self {
        Loaded { names, functions, trampolines }
    }

    /// The function of this name, if the program defines one.
    pub fn function(&self, name: &str) -> Option<&Function> {
        Some(&self.functions[self.names.index_of(name)?].function)
    }

    /// How the function of this name was got, if the program defines one.
    pub fn unit(&self, name: &str) -> Option<Unit> {
        Some(self.unit_at(self.names.index_of(name)?))
    }

    /// How each function was got, in the order of their definition; then the trampolines.
    pub fn units(&self) -> impl ExactSizeIterator<Item = Unit> {
        (0..self.functions.len()).map(|index| self.unit_at(index))
    }

    fn unit_at(&self, index: usize) -> Unit {
        let defined = match self.trampolines.len() {
            0 => self.functions.len(),
            callable => callable,
        };
        let got = &self.functions[index];
        Unit {
            name: got.name.to_string(),
            signature: got.function.signature().to_string(),
            key: got.key,
            origin: got.origin,
            micros: got.micros,
            is_trampoline: index >= defined,
        }
    }

    /// The function of this name, and how it was got.
    #[cfg(feature = "kernel")]
    pub(crate) fn got_as(&self, name: &str) -> Option<&Got> {
        Some(&self.functions[self.names.index_of(name)?])
    }

    /// How each function was got, as [`units`](Self::units) tells it.
    #[cfg(feature = "cli")]
    pub(crate) fn got(&self) -> &[Got] {
        &self.functions
    }

    /// The function of this name, and the trampoline to call it by.
    pub(crate) fn callable(&self, name: &str) -> Result<(&Function, &Function), CodeError> {
        let index = self.names.index_of(name).ok_or_else(|| CodeError::NoFunction(name.into()))?;
        let trampoline = *self.trampolines.get(index).ok_or_else(|| CodeError::Unsupported {
            function: name.into(),
            reason: "its program was not made callable".into(),
        })?;
        Ok((&self.functions[index].function, &self.functions[trampoline].function))
    }

    /// The signature of the function of this name, if the program defines one.
    pub fn signature(&self, name: &str) -> Option<&Signature> {
        Some(self.function(name)?.signature())
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.functions.iter().map(|got| &got.function)).finish()
    }
}
