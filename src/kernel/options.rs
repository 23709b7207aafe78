//! The options that decorators take, and what each means for the code.

use crate::kernel::diagnostic::Diagnostic;
use crate::kernel::value::{KernelDef, Value};

/// What a kernel's decorator asked for, as far as it shapes code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Options {
    /// Whether floats may be summed in any order.
    pub fastmath: bool,
    /// Whether `prange` runs on several threads.
    pub parallel: bool,
    /// Whether indices are checked.
    pub boundscheck: bool,
    /// Whether a division by zero gives inf, nan or 0 in place of an error.
    pub numpy_errors: bool,
    /// Whether the body is put into its callers.
    pub inline: bool,
    /// Whether the host runs it.
    pub forceobj: bool,
    /// Whether its code is kept.
    pub cache: bool,
}

impl Options {
    /// The options of `def`.
    ///
    /// # Errors
    ///
    /// If one has a value that it cannot have.
    pub(crate) fn of(def: &KernelDef) -> Result<Self, Diagnostic> {
        let mut options = Self {
            fastmath: false,
            parallel: false,
            boundscheck: true,
            numpy_errors: false,
            inline: false,
            forceobj: false,
            cache: true,
        };
        for (name, value) in &def.options {
            let switch =
                matches!(&**name, "fastmath" | "parallel" | "boundscheck" | "forceobj" | "cache");
            let flag = match value {
                Value::Bool(flag) => Some(*flag),
                Value::None => None,
                Value::Set(_) | Value::Dict(_) if &**name == "fastmath" => Some(true),
                _ if !switch => None,
                _ => {
                    return Err(Diagnostic::new(
                        &def.function.source,
                        def.decorator_span,
                        format!("the option {name} cannot have this value"),
                    )
                    .hint("give it True or False"));
                }
            };
            match (&**name, flag, value) {
                ("fastmath", Some(flag), _) => options.fastmath = flag,
                ("parallel", Some(flag), _) => options.parallel = flag,
                ("boundscheck", Some(flag), _) => options.boundscheck = flag,
                ("forceobj", Some(flag), _) => options.forceobj = flag,
                ("cache", Some(flag), _) => options.cache = flag,
                ("error_model", _, Value::Str(model)) => match &**model {
                    "numpy" => options.numpy_errors = true,
                    "python" => options.numpy_errors = false,
                    _ => {
                        return Err(Diagnostic::new(
                            &def.function.source,
                            def.decorator_span,
                            format!("there is no error model {model:?}"),
                        )
                        .hint("write error_model=\"python\" or error_model=\"numpy\""));
                    }
                },
                ("inline", _, Value::Str(when)) => match &**when {
                    "always" => options.inline = true,
                    "never" => options.inline = false,
                    _ => {
                        return Err(Diagnostic::new(
                            &def.function.source,
                            def.decorator_span,
                            format!("inline cannot be {when:?}"),
                        )
                        .hint("write inline=\"always\" or inline=\"never\""));
                    }
                },
                _ => {}
            }
        }
        Ok(options)
    }
}
