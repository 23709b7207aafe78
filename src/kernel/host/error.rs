//! Short ways to raise and to refuse.

use crate::kernel::{
    diagnostic::Diagnostic,
    exception::{ExceptionKind, Raised},
    value::{Run, Stop},
};

/// Raises an exception of a builtin class.
pub(super) fn raise<T>(kind: ExceptionKind, message: impl AsRef<str>) -> Run<T> {
    Err(Raised::new(kind, message).into())
}

/// Refuses something that cachelift does not support; the evaluator adds the place.
pub(super) fn refuse<T>(message: impl Into<String>, hint: impl Into<String>) -> Run<T> {
    Err(Stop::from(Diagnostic::placeless(message).hint(hint)))
}

/// Turns an absent value into an exception.
pub(super) trait Raise<T> {
    fn or_raise(self, kind: ExceptionKind, message: impl FnOnce() -> String) -> Run<T>;
}

impl<T> Raise<T> for Option<T> {
    fn or_raise(self, kind: ExceptionKind, message: impl FnOnce() -> String) -> Run<T> {
        self.ok_or_else(|| Raised::new(kind, message()).into())
    }
}

/// Turns an integer that left 128 bits into an error.
pub(super) fn bounded<T>(result: Option<T>) -> Run<T> {
    match result {
        Some(value) => Ok(value),
        None => refuse(
            "this integer leaves 128 bits",
            "keep host integers below 2**127, or reduce them with `%` as you go",
        ),
    }
}
