//! Types a kernel for the types of its arguments, by Numba's rules, and writes it down as typed IR.
//!
//! ```text
//!   KernelDef + argument types ──► walk over the syntax ──► ir::Function
//!                                    │        ▲
//!                          World: names, overloads, callees' return types
//! ```
//!
//! One walk does both. It keeps the type of every variable at the place it has reached; where paths meet, types are
//! unified and values converted, and a loop is walked again until the types at its head stay as they are. A variable
//! may thus have other types at other places, as in Numba.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kernel::diagnostic::Diagnostic;
use crate::kernel::ir;
use crate::kernel::types::{FunctionTy, StructRefTy, Ty};
use crate::kernel::value::{KernelDef, Value};

/// What typing asks of the program around a kernel.
pub trait World {
    /// What the types of kernels were found to be; the world only keeps it.
    fn memo(&mut self) -> &mut Memo;

    /// The return type of `def` for `args` where a cache knows it, which saves typing it.
    fn known_return(&mut self, def: &Arc<KernelDef>, args: &[Ty]) -> Option<Ty>;

    /// The value of a name that `def` does not bind: of a closure cell, else of a global of its module, else `None` (a
    /// builtin or an error). A value that was read is frozen: it never changes for this kernel.
    fn free(&mut self, def: &Arc<KernelDef>, name: &str) -> Result<Option<Value>, Diagnostic>;

    /// The attribute of a module, class or other host value.
    fn attribute(&mut self, of: &Value, name: &str) -> Result<Option<Value>, Diagnostic>;

    /// The first registered `@overload` of `function` that has an implementation for arguments of these types, as the
    /// kernel that its body returned.
    fn overload(
        &mut self,
        function: &Value,
        args: &[Ty],
        keywords: &[(Arc<str>, Ty)],
    ) -> Result<Option<Arc<KernelDef>>, Diagnostic>;

    /// The `@overload_method` called `name` of the most specific class of `receiver`, likewise.
    fn overload_method(
        &mut self,
        receiver: &Ty,
        name: &str,
        args: &[Ty],
        keywords: &[(Arc<str>, Ty)],
    ) -> Result<Option<Arc<KernelDef>>, Diagnostic>;

    /// The type of the structref that `class`, a proxy, constructs from fields of these types, and `None` where the class
    /// is no proxy.
    fn structref(&mut self, class: &Value, fields: &[Ty]) -> Result<Option<Arc<StructRefTy>>, Diagnostic>;
}

/// What is known so far of the return types of kernels.
#[derive(Default)]
pub struct Memo {
    entries: HashMap<(FunctionTy, Vec<Ty>), Entry>,
}

struct Entry {
    /// What returns seen so far unify to.
    estimate: Option<Ty>,
    /// Whether it is final.
    done: bool,
}

/// The typed IR of `def` for arguments of these types, one for each parameter (see [`bind`]).
///
/// # Errors
///
/// What the kernel does that the language has not, or that has no type, with its place and a hint.
pub fn specialise(def: &Arc<KernelDef>, args: &[Ty], world: &mut dyn World) -> Result<ir::Function, Diagnostic> {
    unimplemented_body(def, args, world)
}
