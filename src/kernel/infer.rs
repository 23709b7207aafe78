//! Types a kernel for the types of its arguments, by Numba's rules, and writes it down as typed IR.
//!
//! ```text
//!   KernelDef + argument types ──► walk over the syntax ──► ir::Function + callees
//!                                    │        ▲
//!                          World: names, overloads, callees' return types
//! ```
//!
//! One walk does both. It keeps the type of every variable at the place it has reached; where paths meet, types are
//! unified and values converted, and a loop is walked again until the types at its head stay as they are. A variable
//! may thus have other types at other places, as in Numba.
//!
//! A call of another kernel enters as its types alone; local functions, lambdas, `inline="always"` kernels and the
//! prelude's array functions enter with their bodies.

mod arrays;
mod assign;
mod attempt;
mod attributes;
mod builtins;
mod calls;
mod elementwise;
mod expr;
mod fold;
mod index;
mod inline;
mod loops;
mod make;
mod math;
mod numpy;
mod ops;
mod params;
mod paths;
mod prelude;
mod reduce;
mod stmt;
mod val;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

pub(in crate::kernel) use loops::assigned;
pub(super) use params::best_signature;
pub(super) use val::{ir_type, literal_of, type_of};

use crate::kernel::diagnostic::Diagnostic;
use crate::kernel::ir;
use crate::kernel::types::{FunctionTy, StructRefTy, Ty};
use crate::kernel::value::{KernelDef, Value};
use walk::{Stop, Walker};

/// What typing asks of the program around a kernel.
pub(super) trait World {
    /// What the types of kernels were found to be; the world only keeps it.
    fn memo(&mut self) -> &mut Memo;

    /// The return type of `def` for `args` where a cache knows it, which saves typing it.
    fn known_return(&mut self, def: &Arc<KernelDef>, args: &[Ty]) -> Option<Ty>;

    /// The value of a name that `def` does not bind: of a closure cell, else of a global of its module, else a
    /// builtin's. A value that was read is frozen: it never changes for this kernel.
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
    fn structref(
        &mut self,
        class: &Value,
        fields: &[Ty],
    ) -> Result<Option<Arc<StructRefTy>>, Diagnostic>;
}

/// A kernel for arguments of certain types.
#[derive(Clone, Debug)]
pub(crate) struct Specialised {
    /// Its code. Callees are named `callee0`, `callee1`, ... in the order of [`callees`](Self::callees).
    pub function: ir::Function,
    /// The kernels that it calls, in the order of their first use.
    pub callees: Vec<Callee>,
    /// The type of what it returns.
    pub returns: Ty,
}

/// A kernel as another one calls it.
#[derive(Clone, Debug)]
pub(crate) struct Callee {
    /// Its definition.
    pub def: Arc<KernelDef>,
    /// The types of the arguments.
    pub args: Vec<Ty>,
    /// The type of what it returns.
    pub returns: Ty,
}

/// What is known so far of the return types of kernels.
#[derive(Default)]
pub(crate) struct Memo {
    entries: HashMap<(FunctionTy, Vec<Ty>), Entry>,
    /// How many kernels are being typed.
    depth: usize,
    /// The outermost kernel whose estimate was used since.
    lowest: usize,
}

struct Entry {
    /// What returns seen so far unify to.
    estimate: Option<Ty>,
    /// How deep its typing began; `None` once it is final.
    open: Option<usize>,
    /// Whether somebody used the estimate.
    consulted: bool,
    /// The outcome, until it is fetched.
    specialised: Option<Box<Specialised>>,
}

/// The typed IR of `def` for arguments of these types, one for each parameter (see [`bind`](super::bind)).
///
/// # Errors
///
/// What the kernel does that the language has not, or that has no type, with its place and a hint.
pub(super) fn specialise(
    def: &Arc<KernelDef>,
    args: &[Ty],
    world: &mut dyn World,
) -> Result<Specialised, Diagnostic> {
    let key = (FunctionTy(def.clone()), args.to_vec());
    for _ in 0..2 {
        if let Some(entry) = world.memo().entries.get_mut(&key)
            && entry.open.is_none()
        {
            if let Some(specialised) = entry.specialised.take() {
                return Ok(*specialised);
            }
            let estimate = entry.estimate.clone();
            let forced = forced(def, args);
            return match Walker::run(world, def, args, estimate, forced.as_ref())
                .map_err(|stop| refused(stop, def))?
            {
                (Some(specialised), _, _) => Ok(specialised),
                _ => Err(endless(def)),
            };
        }
        infer(def, args, world)?;
    }
    Err(endless(def))
}

/// The return type, or `None` where it hangs on a kernel that is being typed.
fn return_type(
    def: &Arc<KernelDef>,
    args: &[Ty],
    world: &mut dyn World,
) -> Result<Option<Ty>, Stop> {
    let key = (FunctionTy(def.clone()), args.to_vec());
    let memo = world.memo();
    if let Some(entry) = memo.entries.get_mut(&key) {
        if let Some(depth) = entry.open {
            entry.consulted = true;
            let estimate = entry.estimate.clone();
            memo.lowest = memo.lowest.min(depth);
            return Ok(estimate);
        }
        return Ok(entry.estimate.clone());
    }
    if let Some(known) = world.known_return(def, args) {
        let entry = Entry {
            estimate: Some(known.clone()),
            open: None,
            consulted: false,
            specialised: None,
        };
        world.memo().entries.insert(key, entry);
        return Ok(Some(known));
    }
    infer(def, args, world).map_err(|diagnostic| Stop::Refused(Box::new(diagnostic)))
}

/// Types `def` until what it returns is settled, or as far as the kernels around it allow.
fn infer(
    def: &Arc<KernelDef>,
    args: &[Ty],
    world: &mut dyn World,
) -> Result<Option<Ty>, Diagnostic> {
    let key = (FunctionTy(def.clone()), args.to_vec());
    let forced = forced(def, args);
    let memo = world.memo();
    if memo.depth > 200 {
        return Err(Diagnostic::new(
            &def.function.source,
            def.function.name_span,
            "kernels call each other with ever new types",
        )
        .hint("convert the arguments so that the types come back"));
    }
    memo.depth += 1;
    let depth = memo.depth;
    let outer = std::mem::replace(&mut memo.lowest, usize::MAX);
    let entry =
        Entry { estimate: forced.clone(), open: Some(depth), consulted: false, specialised: None };
    memo.entries.insert(key.clone(), entry);
    let mut estimate = forced.clone();
    let outcome = loop {
        let walked = Walker::run(world, def, args, estimate.clone(), forced.as_ref());
        let (specialised, returns, recursive) = match walked {
            Ok(walked) => walked,
            Err(stop) => break Err(refused(stop, def)),
        };
        let entry = world.memo().entries.get_mut(&key);
        let consulted = recursive || entry.as_ref().is_some_and(|entry| entry.consulted);
        let settled = returns == estimate || !consulted;
        if let Some(entry) = entry {
            entry.estimate = returns.clone();
        }
        estimate = returns;
        if settled || estimate.is_none() {
            break Ok(specialised);
        }
    };
    let memo = world.memo();
    memo.depth -= 1;
    let lowest = memo.lowest;
    memo.lowest = outer.min(lowest);
    match outcome {
        // Nothing outside of it was still open, so it is final.
        Ok(Some(specialised)) if lowest >= depth => {
            if let Some(entry) = memo.entries.get_mut(&key) {
                entry.open = None;
                entry.specialised = Some(Box::new(specialised));
            }
            Ok(estimate)
        }
        Ok(_) => {
            memo.entries.remove(&key);
            if lowest >= depth {
                return Err(endless(def));
            }
            Ok(estimate)
        }
        Err(diagnostic) => {
            memo.entries.remove(&key);
            Err(diagnostic)
        }
    }
}

/// The return type that the decorator gives for these arguments.
fn forced(def: &KernelDef, args: &[Ty]) -> Option<Ty> {
    def.signatures.iter().find(|signature| signature.args == args)?.returns.clone()
}

fn refused(stop: Stop, def: &KernelDef) -> Diagnostic {
    match stop {
        Stop::Refused(diagnostic) => *diagnostic,
        Stop::Unknown => endless(def),
    }
}

fn endless(def: &KernelDef) -> Diagnostic {
    Diagnostic::new(
        &def.function.source,
        def.function.name_span,
        format!("the return type of `{}` cannot be found: every path calls itself", def.name()),
    )
    .hint("return a value without recursion on one path, or give a signature: @njit(\"int64(int64)\")")
}
