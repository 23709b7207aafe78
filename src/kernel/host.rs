//! The host evaluator: runs module bodies and undecorated functions, and hands decorated ones to a dispatcher.
//!
//! ```text
//!   entry ─► resolve, parse ─► Host: statements, expressions, calls ──► Kernels::call   (decorated functions)
//!                                │      ▲                                   │
//!                                ▼      └── overload bodies, host values ◄──┘
//!                            Registry: overloads, structrefs, ordinals
//! ```

use std::{collections::HashMap, io::Write, sync::Arc};

use super::{
    resolve::Resolver,
    syntax::Name,
    value::{Builtin, Class, KernelDef, Module, Overload, Run, StructDef, Value},
};

/// What calls kernels for host code.
///
/// A dispatcher gets the host back at each call, to run overload bodies and to look up values; it keeps its own state
/// behind a shared reference, because kernels may be called while one is being called.
pub trait Kernels {
    /// A decorator made a kernel. Signatures that it names are compiled here.
    ///
    /// # Errors
    /// What the kernel's types make impossible.
    fn define(&self, host: &mut Host, def: &Arc<KernelDef>) -> Run<()>;

    /// Calls a kernel. Those with `forceobj`, `cfunc`s called by name and `register_jitable` functions do not come here:
    /// the host runs them itself.
    ///
    /// # Errors
    /// What the kernel raised, or what cannot be compiled.
    fn call(
        &self,
        host: &mut Host,
        def: &Arc<KernelDef>,
        args: &[Value],
        keywords: &[(Name, Value)],
    ) -> Run<Value>;

    /// Calls a method of a kernel: `ctypes` of a `cfunc`; `reduce`, `accumulate` and `outer` of a ufunc.
    ///
    /// # Errors
    /// As for `call`.
    fn call_method(
        &self,
        host: &mut Host,
        def: &Arc<KernelDef>,
        method: &'static str,
        args: &[Value],
        keywords: &[(Name, Value)],
    ) -> Run<Value>;

    /// The address of a `cfunc`.
    ///
    /// # Errors
    /// What cannot be compiled.
    fn address(&self, host: &mut Host, def: &Arc<KernelDef>) -> Run<u64>;

    /// Makes a structref of the class `proxy` from its fields' values: `StructRefProxy.__new__(cls, *fields)`.
    ///
    /// # Errors
    /// Values that no field can hold.
    fn construct(&self, host: &mut Host, proxy: &Arc<Class>, fields: &[Value]) -> Run<Value>;
}

/// What a program registered with Numba, in order.
#[derive(Debug, Default)]
pub struct Registry {
    /// `overload`, `overload_method`, `overload_attribute`.
    pub overloads: Vec<Arc<Overload>>,
    /// `structref.define_proxy` and its parts.
    pub structs: Vec<Arc<StructDef>>,
    /// How many kernels of each file and name there are.
    ordinals: HashMap<(Name, Name), u32>,
}

impl Registry {
    /// The number of the next kernel called `name` in `file`, from 1.
    pub fn next_ordinal(&mut self, file: &str, name: &str) -> u32 {
        let count = self.ordinals.entry((file.into(), name.into())).or_default();
        *count += 1;
        *count
    }

    /// The structref whose proxy is `class`.
    pub fn struct_of_proxy(&self, class: &Arc<Class>) -> Option<&Arc<StructDef>> {
        self.structs.iter().rev().find(|def| Arc::ptr_eq(&def.proxy, class))
    }

    /// The structref whose registered type is `class`.
    pub fn struct_of_type(&self, class: &Arc<Class>) -> Option<&Arc<StructDef>> {
        self.structs.iter().rev().find(|def| Arc::ptr_eq(&def.type_class, class))
    }
}

/// A running program.
pub struct Host {
    /// What it registered.
    pub registry: Registry,
    /// Where modules come from, and which files were read or found absent.
    pub resolver: Resolver,
    /// The modules that were imported (or are being imported), by dotted name.
    pub modules: HashMap<Name, Arc<Module>>,
    /// What calls kernels.
    pub kernels: Arc<dyn Kernels>,
    /// `sys.argv`.
    pub argv: Vec<Arc<str>>,
    /// Where `print` writes.
    pub stdout: Box<dyn Write>,
}

/// The state of an iterator of host code.
#[derive(Debug)]
pub enum Iter {
    /// Items that are known already.
    Items(std::vec::IntoIter<Value>),
}

/// A name of Python's `builtins`.
pub fn builtin(name: &str) -> Option<Value> {
    super::exception::ExceptionKind::named(name)
        .map(|kind| Value::Class(kind.class()))
        .or_else(|| (name == "len").then_some(Value::Builtin(Builtin("builtins.len"))))
}
