//! What is loaded together: functions, and what the names in them mean.
//!
//! ```text
//!   fn0 = u0:3   ──declare──┐
//!   fn1 = %halve ───────────┴─► name ──► a function of the program | one loaded earlier | a host address
//! ```
//!
//! CLIF refers to other functions by numbers (`u0:3`) or by text (`%halve`). Neither enters a key: text is
//! replaced by a number when a function is defined, and numbers stand outside of what is hashed.
//!
//! A front end that knows more of a function than its CLIF shows says so with a digest
//! ([`define_as`](Program::define_as)), and one that has noted what an earlier program came to needs no CLIF at all
//! ([`define_known`](Program::define_known)).

use std::collections::HashMap;

use cranelift_codegen::ir::{
    ExternalName, Function as Clif, GlobalValueData, Signature, UserExternalName,
    UserExternalNameRef, UserFuncName,
};

use super::error::CodeError;
use super::handle::Function;
use crate::key::Key;
use crate::sync::Arc;

/// The namespace of external names that were text. No other name may be in it.
pub const TEXT_NAMESPACE: u32 = u32::MAX;

/// Functions to be loaded together, and what the names in them mean.
///
/// Definitions, declarations and links may come in any order; what is missing is noticed when the program
/// is loaded.
#[derive(Default)]
pub struct Program {
    names: Names,
    externals: HashMap<UserExternalName, u32>,
    pub(crate) functions: Vec<Definition>,
    pub(crate) callable: bool,
}

/// The names of a program, and what they mean.
#[derive(Default)]
pub(crate) struct Names {
    numbers: HashMap<Arc<str>, u32>,
    /// By the names' numbers.
    texts: Vec<Arc<str>>,
    /// By the names' numbers.
    meanings: Vec<Meaning>,
}

/// What a name means.
#[derive(Clone, Debug, Default)]
pub(crate) enum Meaning {
    /// Nothing yet.
    #[default]
    Nothing,
    /// The function of the program with this index.
    Defined(usize),
    /// A function that was loaded before.
    Loaded(Function),
    /// An address in this process.
    Host(u64),
}

/// A function of a program.
pub(crate) struct Definition {
    pub(crate) name: Arc<str>,
    pub(crate) clif: Box<Clif>,
    pub(crate) identity: Identity,
}

/// What the key of a function is made of.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// Its CLIF.
    Clif,
    /// Its CLIF, and a digest of what else its front end tells functions apart by.
    With {
        digest: Key,
        /// What the record is called.
        label: Arc<str>,
        /// Whether it goes through the store.
        stored: bool,
    },
    /// Nothing here: this is the key, and of the CLIF there is the signature and the table of names.
    Known(Key),
}

/// A function as its front end names it, for [`Program::define_as`].
#[derive(Clone, Debug)]
pub struct Naming<'a> {
    /// A digest that enters the key beside the CLIF.
    pub digest: Key,
    /// What people see of the record: the function's name in its own language, and its types.
    pub label: &'a str,
    /// Whether the code may be kept and found in the store. What is not is compiled in each process.
    pub stored: bool,
}

impl Program {
    /// A program without functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also makes what [`Loaded::call`](super::Loaded::call) needs: a small function per signature.
    pub fn callable(&mut self) -> &mut Self {
        self.callable = true;
        self
    }

    /// Adds a function. Others refer to it by `name`; the name inside of `clif` means nothing.
    ///
    /// Fails if the name has a meaning already, or if the function uses the
    /// [namespace](TEXT_NAMESPACE) that is set aside for text.
    pub fn define(&mut self, name: &str, clif: Clif) -> Result<&mut Self, CodeError> {
        self.add(name, clif, Identity::Clif)
    }

    /// As [`define`](Self::define), for a function that is told apart from others of the same CLIF by a digest: code
    /// is shared by those alone that agree in both.
    ///
    /// Fails as `define` does.
    pub fn define_as(
        &mut self,
        name: &str,
        clif: Clif,
        naming: Naming<'_>,
    ) -> Result<&mut Self, CodeError> {
        let Naming { digest, label, stored } = naming;
        self.add(name, clif, Identity::With { digest, label: label.into(), stored })
    }

    /// Adds a function whose code is in the store under `key`, as [`Unit::key`](super::Unit::key) told it when the code
    /// was made: no CLIF is built. `references` are the names that it refers to, as [`references`](Self::references) gave
    /// them then, or others with the same meanings.
    ///
    /// Fails as [`define`](Self::define) does. The load fails with [`CodeError::Gone`] where the store has no such
    /// code; then it is to be defined with its CLIF.
    pub fn define_known(
        &mut self,
        name: &str,
        key: Key,
        signature: Signature,
        references: &[impl AsRef<str>],
    ) -> Result<&mut Self, CodeError> {
        let mut clif = Clif::with_name_signature(UserFuncName::default(), signature);
        for (at, reference) in references.iter().enumerate() {
            let number = self.names.number(&Arc::from(reference.as_ref()));
            let mut user = UserExternalName { namespace: TEXT_NAMESPACE, index: number };
            if references[..at].iter().any(|before| before.as_ref() == reference.as_ref()) {
                // Two entries of a table may have one meaning, and a table holds no name twice.
                user.namespace -= 1 + at as u32;
                self.externals.insert(user.clone(), number);
            }
            clif.params.ensure_user_func_name(user);
        }
        let name = Arc::from(name);
        self.names.mean(&name, Meaning::Defined(self.functions.len()))?;
        self.functions.push(Definition {
            name,
            clif: Box::new(clif),
            identity: Identity::Known(key),
        });
        Ok(self)
    }

    /// The names that the function of this name refers to, in the order of its table: what
    /// [`define_known`](Self::define_known) wants.
    pub fn references(&self, name: &str) -> Option<Vec<&str>> {
        let definition = &self.functions[self.names.index_of(name)?];
        let table = definition.clif.params.user_named_funcs();
        let text = |user: &UserExternalName| match user.namespace {
            TEXT_NAMESPACE => self.names.text(user.index),
            _ => self.externals.get(user).map_or("", |number| self.names.text(*number)),
        };
        Some(table.values().map(text).collect())
    }

    fn add(
        &mut self,
        name: &str,
        mut clif: Clif,
        identity: Identity,
    ) -> Result<&mut Self, CodeError> {
        if clif.params.user_named_funcs().values().any(|user| user.namespace == TEXT_NAMESPACE) {
            let reason = format!("the namespace u{TEXT_NAMESPACE} is set aside");
            return Err(CodeError::Unsupported { function: name.into(), reason });
        }
        let name = Arc::from(name);
        self.names.mean(&name, Meaning::Defined(self.functions.len()))?;
        self.replace_text(&mut clif);
        self.functions.push(Definition { name, clif: Box::new(clif), identity });
        Ok(self)
    }

    /// Says which name the number `user` stands for in the CLIF of this program.
    ///
    /// Fails if it stands for another already.
    pub fn declare(&mut self, user: UserExternalName, name: &str) -> Result<&mut Self, CodeError> {
        let number = self.names.number(&Arc::from(name));
        match self.externals.insert(user.clone(), number) {
            Some(before) if before != number => {
                Err(CodeError::Duplicate { name: user.to_string() })
            }
            _ => Ok(self),
        }
    }

    /// Lets `name` mean a function that is loaded. The program's code keeps it alive.
    ///
    /// Fails if the name has a meaning already.
    pub fn link(&mut self, name: &str, function: &Function) -> Result<&mut Self, CodeError> {
        self.names.mean(&Arc::from(name), Meaning::Loaded(function.clone()))?;
        Ok(self)
    }

    /// Lets `name` mean an address in this process: a function to call, or data.
    ///
    /// What lies there must be what the CLIF takes it for, and stay for as long as the code is loaded;
    /// that is part of what calling the code promises. Fails if the name has a meaning already.
    pub fn symbol(&mut self, name: &str, address: *const u8) -> Result<&mut Self, CodeError> {
        self.names.mean(&Arc::from(name), Meaning::Host(address.expose_provenance() as u64))?;
        Ok(self)
    }

    /// What a reference in the function means.
    pub(crate) fn resolve(&self, clif: &Clif, reference: u32) -> &Meaning {
        let user = user_name(clif, reference);
        let number = user.and_then(|user| match user.namespace {
            TEXT_NAMESPACE => Some(user.index),
            _ => self.externals.get(user).copied(),
        });
        number.map_or(&Meaning::Nothing, |number| &self.names.meanings[number as usize])
    }

    /// How CLIF writes a reference in the function.
    pub(crate) fn spell(&self, clif: &Clif, reference: u32) -> String {
        match user_name(clif, reference) {
            Some(user) if user.namespace == TEXT_NAMESPACE => {
                format!("%{}", self.names.text(user.index))
            }
            Some(user) => match self.externals.get(user) {
                Some(number) => format!("{user} ({})", self.names.text(*number)),
                None => user.to_string(),
            },
            None => format!("reference {reference}"),
        }
    }

    /// The function as text, with the names that it was defined with.
    pub(crate) fn source(&self, definition: &Definition) -> String {
        let mut clif = Clif::clone(&definition.clif);
        let table = clif.params.user_named_funcs().clone();
        each_name(&mut clif, |name| {
            if let ExternalName::User(reference) = name
                && let Some(user) = table.get(*reference)
                && user.namespace == TEXT_NAMESPACE
            {
                *name = ExternalName::testcase(self.names.text(user.index));
            }
        });
        clif.to_string()
    }

    /// The names of the functions, and the functions. What the other names mean is let go of: the code
    /// that needs it keeps it.
    pub(crate) fn into_parts(mut self) -> (Names, Vec<Definition>) {
        for meaning in &mut self.names.meanings {
            if let Meaning::Loaded(_) = meaning {
                *meaning = Meaning::Nothing;
            }
        }
        (self.names, self.functions)
    }

    /// Replaces names that are text by numbers, which are not hashed.
    fn replace_text(&mut self, clif: &mut Clif) {
        let mut found = Vec::new();
        each_name(clif, |name| {
            if let ExternalName::TestCase(text) = name {
                found.push(Arc::from(String::from_utf8_lossy(text.raw())));
            }
        });
        if found.is_empty() {
            return;
        }
        let mut references = Vec::with_capacity(found.len());
        for text in found {
            let user =
                UserExternalName { namespace: TEXT_NAMESPACE, index: self.names.number(&text) };
            references.push(clif.params.ensure_user_func_name(user));
        }
        let mut references = references.into_iter();
        each_name(clif, |name| {
            if let ExternalName::TestCase(_) = name {
                let reference = references.next().expect("one for each text");
                *name = ExternalName::User(reference);
            }
        });
    }
}

impl Names {
    /// The index of the function that a name means.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        match self.meanings[*self.numbers.get(name)? as usize] {
            Meaning::Defined(index) => Some(index),
            _ => None,
        }
    }

    fn mean(&mut self, name: &Arc<str>, meaning: Meaning) -> Result<(), CodeError> {
        let number = self.number(name);
        let slot = &mut self.meanings[number as usize];
        if !matches!(slot, Meaning::Nothing) {
            return Err(CodeError::Duplicate { name: name.to_string() });
        }
        *slot = meaning;
        Ok(())
    }

    fn number(&mut self, name: &Arc<str>) -> u32 {
        let next = u32::try_from(self.meanings.len()).expect("fewer than 4 billion names");
        let number = *self.numbers.entry(Arc::clone(name)).or_insert(next);
        if number == next {
            self.texts.push(Arc::clone(name));
            self.meanings.push(Meaning::Nothing);
        }
        number
    }

    /// The name with this number.
    fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }
}

fn user_name(clif: &Clif, reference: u32) -> Option<&UserExternalName> {
    clif.params.user_named_funcs().get(UserExternalNameRef::from_u32(reference))
}

/// Every external name in a function, in an order that depends on nothing but the function.
fn each_name(clif: &mut Clif, mut visit: impl FnMut(&mut ExternalName)) {
    for function in clif.stencil.dfg.ext_funcs.values_mut() {
        visit(&mut function.name);
    }
    for value in clif.stencil.global_values.values_mut() {
        if let GlobalValueData::Symbol { name, .. } = value {
            visit(name);
        }
    }
}
