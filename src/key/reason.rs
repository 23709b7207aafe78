//! Why a key missed: the parts that differ from those of another key.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use super::PartDigest;

/// One way in which two lists of parts differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum PartChange {
    /// The part is in the new list only.
    Added {
        /// The part's name.
        name: String,
        /// The beginning of its value.
        new: String,
    },
    /// The part is in the old list only.
    Removed {
        /// The part's name.
        name: String,
        /// The beginning of its value.
        old: String,
    },
    /// The part is in both, with two values.
    Changed {
        /// The part's name.
        name: String,
        /// The beginning of the old value.
        old: String,
        /// The beginning of the new value.
        new: String,
    },
    /// All parts are in both, in another order.
    Reordered,
}

/// The parts by which `new` differs from `old`, in the order of `new`, then what `old` had besides. Empty
/// if and only if both are of one key.
///
/// Parts are matched by name; the n-th part of a name is matched with the n-th of that name. A group is
/// mentioned only if none of its parts is.
pub fn diff(old: &[PartDigest], new: &[PartDigest]) -> Vec<PartChange> {
    let mut unmatched: HashMap<&str, VecDeque<&PartDigest>> = HashMap::new();
    for part in old {
        unmatched.entry(&part.name).or_default().push_back(part);
    }
    let mut changes = Vec::new();
    for part in new {
        let was = unmatched.get_mut(&*part.name).and_then(VecDeque::pop_front);
        let (name, new) = (part.name.clone(), part.preview.clone());
        match was {
            None => changes.push((part, PartChange::Added { name, new })),
            Some(was) if !is_same(was, part) => {
                let old = was.preview.clone();
                changes.push((part, PartChange::Changed { name, old, new }));
            }
            Some(_) => {}
        }
    }
    for part in old {
        // What is left of a name are its last parts, which stand in the order of `old`.
        let left = unmatched.get_mut(&*part.name).expect("every old part was entered");
        if left.front().is_some_and(|first| std::ptr::eq(*first, part)) {
            left.pop_front();
            let (name, old) = (part.name.clone(), part.preview.clone());
            changes.push((part, PartChange::Removed { name, old }));
        }
    }
    let is_told = |group: &PartDigest| {
        let is_within =
            |name: &str| name.strip_prefix(&*group.name).is_some_and(|rest| rest.starts_with('.'));
        group.kind == "group" && changes.iter().any(|(part, _)| is_within(&part.name))
    };
    let mut changes: Vec<_> = changes
        .iter()
        .filter(|(part, _)| !is_told(part))
        .map(|(_, change)| change.clone())
        .collect();
    let same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| is_same(old, new));
    if changes.is_empty() && !same {
        changes.push(PartChange::Reordered);
    }
    changes
}

fn is_same(one: &PartDigest, other: &PartDigest) -> bool {
    (&one.name, &one.kind, one.digest) == (&other.name, &other.kind, other.digest)
}
