//! Arguments of a call, one for each parameter, and the signature that they are for.
//!
//! ```text
//!   f(1, k=2) ──bind──► a value or a default per parameter, `*args` as one tuple ──► types
//!                                                  declared signatures ──choose──►   │
//! ```

use std::sync::Arc;

use super::infer;
use super::syntax::{Name, Param};
use super::types::Ty;
use super::value::{ExceptionKind, KernelDef, Raised, Value};

/// What each parameter of a kernel gets.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) values: Vec<Value>,
    pub(crate) types: Vec<Ty>,
}

/// Gives each parameter its argument, or its default.
pub(crate) fn bind(
    def: &KernelDef,
    args: &[Value],
    keywords: &[(Name, Value)],
) -> Result<Bound, Raised> {
    let params = &def.function.params;
    let fail = |message: String| Raised::new(ExceptionKind::TypeError, message);
    let count = params.positional.len();
    if args.len() > count && params.star.is_none() {
        let (takes, got) = (count, args.len());
        return Err(fail(format!("too many arguments: expected {takes}, got {got}")));
    }
    let mut used = vec![false; keywords.len()];
    let mut keyword = |name: &Name| {
        let at = keywords.iter().position(|(keyword, _)| keyword == name)?;
        used[at] = true;
        Some(&keywords[at].1)
    };
    let mut bound = Bound { values: Vec::new(), types: Vec::new() };
    let missing = |param: &Param| fail(format!("missing a required argument: '{}'", param.name));
    for (at, param) in params.positional.iter().enumerate() {
        let named = if at < params.positional_only { None } else { keyword(&param.name) };
        match (args.get(at), named) {
            (Some(_), Some(_)) => {
                return Err(fail(format!("multiple values for argument '{}'", param.name)));
            }
            (Some(value), None) | (None, Some(value)) => bound.push(value)?,
            (None, None) => match def.closure.defaults.get(at).and_then(Option::as_ref) {
                Some(default) => bound.push_default(default)?,
                None => return Err(missing(param)),
            },
        }
    }
    if params.star.is_some() {
        let rest: Arc<[Value]> = args.iter().skip(count).cloned().collect();
        let types = rest.iter().map(type_of).collect::<Result<_, _>>()?;
        bound.types.push(Ty::StarArgs(types));
        bound.values.push(Value::Tuple(rest));
    }
    // Numba does not know their defaults: each must be given.
    for param in &params.keyword_only {
        match keyword(&param.name) {
            Some(value) => bound.push(value)?,
            None => {
                let (takes, got) = (params.iter().count(), args.len() + keywords.len());
                return Err(fail(format!("not enough arguments: expected {takes}, got {got}")));
            }
        }
    }
    if let Some(at) = used.iter().position(|used| !used) {
        return Err(fail(format!("got an unexpected keyword argument '{}'", keywords[at].0)));
    }
    Ok(bound)
}

impl Bound {
    fn push(&mut self, value: &Value) -> Result<(), Raised> {
        self.types.push(type_of(value)?);
        self.values.push(value.clone());
        Ok(())
    }

    /// A default is part of the signature, and needs no value.
    fn push_default(&mut self, default: &Value) -> Result<(), Raised> {
        match infer::literal_of(default) {
            Some(literal) => {
                self.types.push(Ty::Omitted(literal));
                self.values.push(Value::None);
                Ok(())
            }
            None => self.push(default),
        }
    }
}

/// The type of an argument.
pub(crate) fn type_of(value: &Value) -> Result<Ty, Raised> {
    infer::type_of(value).ok_or_else(|| {
        let message = format!("cannot determine Numba type of {value:?}");
        Raised::new(ExceptionKind::TypeError, message)
    })
}

/// The declared signature that arguments of these types are for. Without declared signatures any types will do.
pub(crate) fn choose(def: &KernelDef, types: &[Ty]) -> Result<Option<Vec<Ty>>, Raised> {
    if def.signatures.is_empty() {
        return Ok(None);
    }
    match infer::best_signature(&def.signatures, types) {
        Some(signature) => Ok(Some(signature.args.clone())),
        None => {
            let types: Vec<_> = types.iter().map(Ty::to_string).collect();
            let message =
                format!("No matching definition for argument type(s) {}", types.join(", "));
            Err(Raised::new(ExceptionKind::TypeError, message))
        }
    }
}
