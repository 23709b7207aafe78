//! Kernels that are called from C, by pointers that carry no context.
//!
//! ```text
//!   C ──► entry ──► c_begin: a context ──► unit ──► c_end: says what was raised, gives the context back
//! ```

use std::io::Write;

use super::context::{Context, Host};
use crate::kernel::abi::{Data, KernelError};
use crate::kernel::dtype::Scalar;
use crate::kernel::format::array::scalar_str;

/// C knows of no session: what is printed goes to the process's own stdout, and what is raised to the log.
struct Process;

impl Host for Process {
    fn print(&self, values: &[Data]) -> Result<(), KernelError> {
        let words: Vec<_> = values.iter().map(word).collect();
        // As for host code, what cannot be written is not raised here.
        let _ = writeln!(std::io::stdout(), "{}", words.join(" "));
        Ok(())
    }
}

/// A value as `print` shows it.
fn word(value: &Data) -> String {
    match value {
        Data::None => "None".into(),
        Data::Bool(value) => scalar_str(&Scalar::Bool(*value)),
        Data::Int(value) => value.to_string(),
        Data::UInt(value) => value.to_string(),
        Data::Float(value) => scalar_str(&Scalar::F64(*value)),
        Data::Complex(re, im) => scalar_str(&Scalar::C128(*re, *im)),
        Data::Str(text) => text.to_string(),
        Data::Tuple(items) if items.len() == 1 => format!("({},)", word(&items[0])),
        Data::Tuple(items) => {
            format!("({})", items.iter().map(word).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

pub(super) extern "C" fn begin() -> *mut Context<'static> {
    Box::into_raw(Box::new(Context::new(&Process)))
}

pub(super) unsafe extern "C" fn end(context: *mut Context<'static>, status: u64) {
    // SAFETY: it comes from `begin`, and is not used again.
    let mut context = unsafe { Box::from_raw(context) };
    if status != 0 {
        let error = context.take_error();
        tracing::error!(%error, "raised in a callback from C, which was given zero");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What C's caller sees printed is what CPython prints. Mutant: a tuple of one without its comma.
    #[test]
    fn words_are_as_print_shows_them() {
        let pair = Data::Tuple(vec![Data::Int(-3), Data::Float(0.1)]);
        let values = [
            (Data::None, "None"),
            (Data::Bool(true), "True"),
            (Data::UInt(u64::MAX), "18446744073709551615"),
            (Data::Float(1e16), "1e+16"),
            (Data::Float(2.0), "2.0"),
            (Data::Complex(1.0, -2.5), "(1-2.5j)"),
            (Data::Str("text".into()), "text"),
            (pair, "(-3, 0.1)"),
            (Data::Tuple(vec![Data::Bool(false)]), "(False,)"),
        ];
        for (value, shown) in values {
            assert_eq!(word(&value), shown);
        }
    }
}
