//! Kernels: functions in Python files, each compiled once, and again only when its machine code can have changed.
//!
//! ```text
//!   file ─parse─► syntax ─host─► the program runs; decorated functions become kernels      resolve: what `import` finds
//!                                   │ a call
//!                                   ▼
//!   dispatch ──► direct ─ manifest: the files are in a state that was seen
//!            ──► deep ─── canon, keys: the function, with all it can reach, was seen   ──► plan: what to load and link
//!            ──► unit ─── infer ──► ir ──► lower ──► CLIF ──► the code layer: found or made      (make)
//!                                   │
//!                      marshal, abi ▼ runtime: memory, threads, errors, functions of the C library
//!                              compiled code
//! ```
//!
//! | layer | modules |
//! |---|---|
//! | text | `source`, `syntax`, `parse`, `resolve`, `diagnostic` |
//! | values of the host | `value`, `array`, `dtype`, `table`, `exception`, `format`, and `host`, which computes with them |
//! | typing | `types`, `rules`, `options`, `world`, `infer` |
//! | code | `ir`, `lower`, `runtime`, `abi`, `marshal` |
//! | identity | `canon`, `keys`, `manifest`, `plan`, `constants`, `sites`, `why` |
//! | calls | `bind`, `dispatch`, `make`, `ufunc`, `handle`, `session` |
//!
//! Text, typing and lowering know nothing of the store.

mod abi;
pub mod array;
mod bind;
mod canon;
mod check;
mod constants;
mod diagnostic;
mod dispatch;
pub mod dtype;
pub mod exception;
mod format;
mod handle;
mod host;
mod infer;
mod ir;
mod keys;
mod lower;
mod make;
mod manifest;
mod marshal;
mod options;
mod parse;
mod plan;
mod resolve;
mod rules;
mod runtime;
mod session;
mod sites;
mod source;
mod syntax;
mod table;
mod tree;
mod types;
mod ufunc;
pub mod value;
mod why;
mod world;

pub use check::{Checked, check};
pub use diagnostic::{Diagnostic, Report};
pub use dispatch::{Question, Used};
pub use handle::{Function, Number, Signature, Typed};
pub use host::on_deep_stack;
pub use marshal::Argument;
pub use session::{Error, Session};
