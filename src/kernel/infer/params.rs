//! What each parameter of a function takes from a call, and the signature that arguments are for.

use super::val::Val;
use crate::kernel::rules;
use crate::kernel::syntax::{self, Name};
use crate::kernel::types::Ty;
use crate::kernel::value::{KernelDef, Signature, Value};

/// Keyword arguments.
pub(super) type Keywords = Vec<(Name, Val)>;

/// What a parameter is bound to by a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound<T> {
    /// An argument.
    Given(T),
    /// Its default, by its index among the positional or the keyword-only parameters.
    Default {
        /// Whether it can only be given by its keyword.
        keyword_only: bool,
        /// The index.
        index: usize,
    },
    /// What is left of the positional arguments.
    Star(Vec<T>),
}

/// Which argument of a call each parameter of `function` takes, in the order of its parameters.
///
/// # Errors
///
/// What does not fit, in Python's words.
pub(crate) fn bind<T>(
    function: &syntax::Function,
    positional: Vec<T>,
    mut keywords: Vec<(Name, T)>,
) -> Result<Vec<Bound<T>>, String> {
    let params = &function.params;
    let name = &function.name;
    if params.double_star.is_some() {
        return Err(format!("{name}() takes **keywords, which kernels cannot"));
    }
    let mut bound = Vec::new();
    let mut given = positional.into_iter();
    for (index, param) in params.positional.iter().enumerate() {
        let keyword = keywords.iter().position(|(key, _)| *key == param.name);
        match (given.next(), keyword) {
            (Some(_), Some(_)) => {
                return Err(format!("{name}() got multiple values for argument '{}'", param.name));
            }
            (Some(arg), None) => bound.push(Bound::Given(arg)),
            (None, Some(_)) if index < params.positional_only => {
                return Err(format!("{name}() takes '{}' by its position only", param.name));
            }
            (None, Some(keyword)) => bound.push(Bound::Given(keywords.remove(keyword).1)),
            (None, None) if param.default.is_some() => {
                bound.push(Bound::Default { keyword_only: false, index })
            }
            (None, None) => {
                return Err(format!("{name}() missing a required argument: '{}'", param.name));
            }
        }
    }
    let rest: Vec<T> = given.collect();
    if params.star.is_some() {
        bound.push(Bound::Star(rest));
    } else if !rest.is_empty() {
        let most = params.positional.len();
        return Err(format!(
            "{name}() takes {most} positional arguments but {} were given",
            most + rest.len()
        ));
    }
    for (index, param) in params.keyword_only.iter().enumerate() {
        match keywords.iter().position(|(key, _)| *key == param.name) {
            Some(keyword) => bound.push(Bound::Given(keywords.remove(keyword).1)),
            None if param.default.is_some() => {
                bound.push(Bound::Default { keyword_only: true, index })
            }
            None => {
                return Err(format!(
                    "{name}() missing a required keyword argument: '{}'",
                    param.name
                ));
            }
        }
    }
    match keywords.first() {
        Some((key, _)) => Err(format!("{name}() got an unexpected keyword argument '{key}'")),
        None => Ok(bound),
    }
}

/// The value of a default that a call left to it.
pub(crate) fn default_value(def: &KernelDef, keyword_only: bool, index: usize) -> Option<&Value> {
    let defaults = if keyword_only { &def.closure.keyword_defaults } else { &def.closure.defaults };
    defaults.get(index).and_then(Option::as_ref)
}

/// The signature among those that the decorator named which fits arguments of these types best.
pub(crate) fn best_signature<'a>(
    signatures: &'a [Signature],
    args: &[Ty],
) -> Option<&'a Signature> {
    let cost = |signature: &Signature| {
        if signature.args.len() != args.len() {
            return None;
        }
        let conversions: Option<Vec<rules::Conversion>> =
            args.iter().zip(&signature.args).map(|(from, to)| rules::convert(from, to)).collect();
        let conversions = conversions?;
        let count = |kind| conversions.iter().filter(|conversion| **conversion == kind).count();
        Some((
            count(rules::Conversion::Unsafe),
            count(rules::Conversion::Safe),
            count(rules::Conversion::Promote),
        ))
    };
    signatures
        .iter()
        .filter_map(|signature| Some((cost(signature)?, signature)))
        .min_by_key(|(cost, _)| *cost)
        .map(|(_, signature)| signature)
}
