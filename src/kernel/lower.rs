//! From the typed form to CLIF.
//!
//! ```text
//!   ir::Function ──► Lowered ─┬─ the unit, and its entry          (CLIF, a function of the typed form alone)
//!                             ├─ a part per parallel loop
//!                             └─ references: what u0:0, u0:1, … in all of them mean
//! ```
//!
//! | file | has |
//! |---|---|
//! | `gen` | what is at hand while a function is built: locals, owned temporaries, ways out with an error |
//! | `stmt` | statements and loops |
//! | `expr` | expressions |
//! | `scalar`, `complex` | arithmetic |
//! | `array` | elements, views, new arrays |
//! | `elementwise` | maps, folds, assignments to views: one loop each |
//! | `vector` | the same on vectors |
//! | `copies` | locals that are but another name |
//! | `facts` | what is known of indices, so that they need no check |
//! | `strips`, `carry` | innermost loops: several rounds at a time, elements in registers |
//! | `each` | the loop of a ufunc |
//! | `parallel` | loops on many threads |
//! | `entry` | the way in from the host |

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cranelift_codegen::ir::Function as Clif;
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use serde::{Deserialize, Serialize};

use super::ir;

mod array;
mod carry;
mod check;
mod complex;
mod copies;
pub(super) mod each;
mod elementwise;
mod entry;
mod expr;
mod facts;
mod r#gen;
mod parallel;
mod scalar;
mod stmt;
mod strips;
mod vector;
mod visit;

#[cfg(test)]
mod tests;

/// What one specialised kernel becomes.
#[derive(Debug)]
pub(super) struct Lowered {
    /// The unit, then its entry, then the parts that its parallel loops run on other threads. The external name
    /// `u0:n` in any of them is `references[n]`.
    pub functions: Vec<Clif>,
    /// What the functions refer to.
    pub references: Vec<Reference>,
}

/// What an external name of a [`Lowered`] function means.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Reference {
    /// Another unit, by [`Callee::name`](super::ir::Callee).
    Unit(String),
    /// One of the unit's own functions, by its index in [`Lowered::functions`].
    Own(u32),
    /// A helper of the runtime, by name: [`runtime::address`](super::runtime::address).
    Runtime(String),
    /// Bytes: the texts of messages, descriptions of types. Aligned to 8.
    Bytes(Vec<u8>),
    /// A captured array, by [`ArrayConstant::name`](super::ir::ArrayConstant). Aligned to 64.
    Array(String),
}

/// Why a typed form could not be lowered: it breaks a rule of the typed form, or is beyond a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LowerError {
    /// The kernel.
    pub function: String,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}: {}", self.function, self.reason)
    }
}

impl std::error::Error for LowerError {}

/// The functions that a specialised kernel becomes. They depend on nothing but `function` and the ISA.
pub(super) fn lower(function: &ir::Function, isa: &dyn TargetIsa) -> Result<Lowered, LowerError> {
    check::check(function)
        .map_err(|reason| LowerError { function: function.name.clone(), reason })?;
    // What the rules do not rule out and the builder asserts is an error of this kernel, not the end of the process.
    let built = catch_unwind(AssertUnwindSafe(|| build(function, isa)));
    built.map_err(|_| LowerError {
        function: function.name.clone(),
        reason: "it could not be lowered, which is a fault of cachelift".into(),
    })
}

fn build(function: &ir::Function, isa: &dyn TargetIsa) -> Lowered {
    let function = &*copies::propagate(function);
    let mut shared = Shared::default();
    let mut context = FunctionBuilderContext::new();
    let unit = r#gen::unit(function, isa, &mut shared, &mut context);
    let entry = entry::entry(function, isa, &mut shared, &mut context);
    let mut functions = vec![unit, entry];
    let mut done = 0;
    while let Some(part) = shared.parts.get(done).cloned() {
        functions.push(parallel::part(function, &part, isa, &mut shared, &mut context));
        done += 1;
    }
    Lowered { functions, references: shared.references }
}

/// A function by C's convention, with the parameters and the result of the unit `name`, that calls it: what a
/// `cfunc`'s address points to. What it raises goes to the log, as C cannot be told, and the result
/// is zero then.
///
/// Fails if a parameter or the result is no number.
pub(super) fn c_entry(
    name: &str,
    signature: &ir::FunctionType,
    isa: &dyn TargetIsa,
) -> Result<Lowered, LowerError> {
    let is_number = |ty: &ir::Type| ty.scalar().is_some_and(|scalar| scalar != ir::Scalar::C128);
    let fits = signature.params.iter().all(is_number)
        && (signature.result == ir::Type::None || is_number(&signature.result));
    if !fits {
        let reason = "a C callback takes and returns numbers".into();
        return Err(LowerError { function: name.into(), reason });
    }
    let mut shared = Shared::default();
    let mut context = FunctionBuilderContext::new();
    let function = entry::c_entry(name, signature, isa, &mut shared, &mut context);
    Ok(Lowered { functions: vec![function], references: shared.references })
}

/// What the functions of one kernel share while they are built.
#[derive(Default)]
struct Shared<'a> {
    references: Vec<Reference>,
    numbers: HashMap<Reference, u32>,
    parts: Vec<parallel::Part<'a>>,
}

impl Shared<'_> {
    /// The number of a reference.
    fn number(&mut self, reference: Reference) -> u32 {
        if let Some(number) = self.numbers.get(&reference) {
            return *number;
        }
        let number = self.references.len() as u32;
        self.references.push(reference.clone());
        self.numbers.insert(reference, number);
        number
    }
}
