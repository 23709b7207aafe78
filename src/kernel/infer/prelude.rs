//! The functions that are written in kernel language and inlined where kernels call them.
//!
//! ```text
//!   prelude/*.py ──parse, once──► name → syntax      its names: np, math, _prelude, builtins, and each other
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::val::Val;
use crate::kernel::parse::parse_module;
use crate::kernel::source::Source;
use crate::kernel::syntax::{Function, StmtKind};
use crate::kernel::value::{Builtin, Value};

const ARRAYS: &str = include_str!("../prelude/arrays.py");

fn functions() -> &'static BTreeMap<Arc<str>, Arc<Function>> {
    static FUNCTIONS: OnceLock<BTreeMap<Arc<str>, Arc<Function>>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let source = Arc::new(Source::new("<prelude>", None, ARRAYS));
        let module = parse_module(&source);
        let body = module.map(|module| module.body).unwrap_or_default();
        body.into_iter()
            .filter_map(|stmt| match stmt.kind {
                StmtKind::Def(function) => Some((function.name.clone(), function)),
                _ => None,
            })
            .collect()
    })
}

/// The function called `name`.
pub(super) fn function(name: &str) -> Option<Arc<Function>> {
    functions().get(name).cloned()
}

/// Whether the function indexes arrays only where they have elements, whatever it is called with.
pub(super) fn stays_in_bounds(name: &str) -> bool {
    matches!(
        name,
        "eye"
            | "arange"
            | "arange_int"
            | "linspace"
            | "argmin"
            | "argmax"
            | "cumsum"
            | "cumprod"
            | "dot_mv"
            | "dot_vm"
            | "dot_mm"
            | "take_mask"
            | "put_mask"
            | "nonzero"
            | "flatnonzero"
            | "sorted_copy"
            | "sort_in_place"
            | "argsort"
            | "median"
            | "unique"
    )
}

/// What a name that the prelude does not bind stands for there.
pub(super) fn lookup(name: &str) -> Option<Val> {
    if let Some(function) = function(name) {
        return Some(Val::Local(Arc::new(super::val::Closure {
            function,
            frame: usize::MAX,
            defaults: Vec::new(),
        })));
    }
    Some(match name {
        "np" => Val::Builtin("numpy".into()),
        "math" => Val::Builtin("math".into()),
        "_prelude" => Val::Builtin("_prelude".into()),
        "ValueError" | "IndexError" => Val::Host(crate::kernel::host::builtin(name)?),
        other => Val::Builtin(format!("builtins.{other}").into()),
    })
}

/// What an attribute of a module stands for in the prelude.
pub(super) fn attribute(module: &str, name: &str) -> Val {
    use crate::kernel::types::{Literal, Ty};
    match (module, name) {
        ("numpy", "nan") => Val::literal(&Literal::Float(f64::NAN)),
        ("numpy", "int64") => Val::Class(Ty::I64),
        _ => Val::Builtin(format!("{module}.{name}").into()),
    }
}

/// The host's value for one of the functions that cachelift provides.
pub(super) fn host_builtin(name: &str) -> Option<Value> {
    let last = name.rsplit('.').next()?;
    match crate::kernel::host::builtin(last) {
        Some(value @ Value::Builtin(Builtin(found))) if found == name => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prelude_parses() {
        let source = Arc::new(Source::new("<prelude>", None, ARRAYS));
        parse_module(&source).expect("the prelude is a module");
        assert!(function("linspace").is_some());
    }
}
