//! Why a key missed: the parts that differ from those of another key.

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
}

/// The parts by which `new` differs from `old`, in the order of `new`, then what `old` had besides.
///
/// Parts are matched by name; the n-th part of a name is matched with the n-th of that name.
pub fn diff(old: &[PartDigest], new: &[PartDigest]) -> Vec<PartChange> {
    let nth = |list: &[PartDigest], at: usize| {
        list[..at].iter().filter(|part| part.name == list[at].name).count()
    };
    let find = |list: &[PartDigest], name: &str, n: usize| {
        list.iter().filter(|part| part.name == name).nth(n).cloned()
    };
    let mut changes = Vec::new();
    for (at, part) in new.iter().enumerate() {
        match find(old, &part.name, nth(new, at)) {
            None => {
                changes
                    .push(PartChange::Added { name: part.name.clone(), new: part.preview.clone() });
            }
            Some(was) if was.digest != part.digest || was.kind != part.kind => {
                changes.push(PartChange::Changed {
                    name: part.name.clone(),
                    old: was.preview,
                    new: part.preview.clone(),
                });
            }
            Some(_) => {}
        }
    }
    for (at, part) in old.iter().enumerate() {
        if find(new, &part.name, nth(old, at)).is_none() {
            changes
                .push(PartChange::Removed { name: part.name.clone(), old: part.preview.clone() });
        }
    }
    changes
}
