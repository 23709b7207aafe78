//! From the typed form to CLIF.
//!
//! ```text
//!   ir::Function ──► Lowered ─┬─ the unit, and its entry          (CLIF, a function of the typed form alone)
//!                             ├─ a part per parallel loop
//!                             └─ references: what u0:0, u0:1, … in all of them mean
//! ```

use cranelift_codegen::ir::Function as Clif;
use serde::{Deserialize, Serialize};

/// What one specialised kernel becomes.
#[derive(Debug)]
pub struct Lowered {
    /// The unit, then its entry, then the parts that its parallel loops run on other threads. The external name
    /// `u0:n` in any of them is `references[n]`.
    pub functions: Vec<Clif>,
    /// What the functions refer to.
    pub references: Vec<Reference>,
}

/// What an external name of a [`Lowered`] function means.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reference {
    /// Another unit, by [`Callee::name`](super::ir::Callee).
    Unit(String),
    /// One of the unit's own functions, by its index in [`Lowered::functions`].
    Own(u32),
    /// A helper of the runtime, by name.
    Runtime(String),
    /// Bytes: the texts of messages, descriptions of types. Aligned to 8.
    Bytes(Vec<u8>),
    /// A captured array, by [`ArrayConstant::name`](super::ir::ArrayConstant). Aligned to 64.
    Array(String),
}
