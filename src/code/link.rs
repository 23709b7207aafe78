//! Under which key loaded code is kept: the *link key*.
//!
//! Artifacts are shared by what they are; loaded code must also agree on what it is bound to. Two callers
//! may have the same machine code and call different functions (`apply(halve)`, `apply(negate)`): one
//! artifact, two pieces of loaded code.
//!
//! ```text
//!   unit key                                no references: the unit key itself
//!   unit key + what each reference means    a function's link key, or a host symbol's address
//!   a cycle of functions                    hashed as one, then each member by its place in it
//! ```
//!
//! A cycle has no first function, so one is chosen that does not depend on names or on the order of
//! definition: walk the cycle from each candidate, numbering functions as references reach them and
//! writing down what is seen; the walk with the smallest digest stands for the group. Candidates are the
//! functions with the smallest unit key, nearly always one. Where several walks are equal the functions
//! cannot be told apart by any caller, and they get one key.

use crate::key::{Key, KeyBuilder};

/// What one reference of a function means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// A function of the same list, by its index.
    Inner(usize),
    /// Code loaded earlier.
    Outer {
        /// Its link key.
        key: Key,
        /// Where it lies now, which does not shape the link key.
        address: u64,
    },
    /// An address in this process.
    Host(u64),
}

/// A function to be linked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// The key of its artifact.
    pub(crate) key: Key,
    /// What each reference that its code mentions means, in the order of the references' numbers.
    pub(crate) bindings: &'a [(u32, Binding)],
}

/// The link key of each unit.
pub(crate) fn link_keys(units: &[Unit<'_>]) -> Vec<Key> {
    let mut linker = Linker {
        units,
        context: KeyBuilder::new("cachelift link v1").finish(),
        keys: vec![None; units.len()],
        group: vec![NOT_YET; units.len()],
        number: vec![NOT_YET; units.len()],
        bytes: Vec::new(),
    };
    // Callees come before their callers, so that their keys are known.
    for (number, members) in components(units).into_iter().enumerate() {
        for &member in &members {
            linker.group[member] = number;
        }
        linker.name(&members);
    }
    linker.keys.into_iter().map(|key| key.expect("every unit is in a component")).collect()
}

/// In place of a number that is not given yet.
const NOT_YET: usize = usize::MAX;

struct Linker<'a> {
    units: &'a [Unit<'a>],
    context: Key,
    keys: Vec<Option<Key>>,
    /// The number of the component that each unit is in.
    group: Vec<usize>,
    /// During a walk, the number that the walk gave each unit.
    number: Vec<usize>,
    bytes: Vec<u8>,
}

impl Linker<'_> {
    /// Gives each function of a component its key.
    fn name(&mut self, members: &[usize]) {
        let first = members[0];
        let is_cycle = members.len() > 1
            || self.units[first].bindings.iter().any(|(_, to)| *to == Binding::Inner(first));
        if !is_cycle {
            let unit = self.units[first];
            self.keys[first] = Some(if unit.bindings.is_empty() {
                unit.key
            } else {
                self.walk(first, &mut Vec::new())
            });
            return;
        }

        let smallest = members.iter().map(|&member| self.units[member].key).min();
        let mut best = None;
        let mut place = vec![NOT_YET; members.len()];
        let index = |member: usize| members.binary_search(&member).expect("members are sorted");
        let mut order = Vec::new();
        for &root in members.iter().filter(|&&member| Some(self.units[member].key) == smallest) {
            let digest = self.walk(root, &mut order);
            if best.is_none_or(|best| digest < best) {
                best = Some(digest);
                place.fill(NOT_YET);
            }
            if best == Some(digest) {
                for (i, &member) in order.iter().enumerate() {
                    let place = &mut place[index(member)];
                    *place = i.min(*place);
                }
            }
        }
        let group = best.expect("a component has members");
        for (&member, place) in members.iter().zip(place) {
            self.keys[member] = Some(group.derive(&(place as u64).to_le_bytes()));
        }
    }

    /// The digest of everything that can be seen from `root` without leaving its component, and in
    /// `order` the functions in the order in which they are seen.
    fn walk(&mut self, root: usize, order: &mut Vec<usize>) -> Key {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        order.clear();
        order.push(root);
        self.number[root] = 0;
        let mut at = 0;
        while let Some(&function) = order.get(at) {
            at += 1;
            let unit = self.units[function];
            bytes.extend_from_slice(unit.key.as_bytes());
            bytes.extend_from_slice(&(unit.bindings.len() as u64).to_le_bytes());
            for (reference, binding) in unit.bindings {
                bytes.extend_from_slice(&reference.to_le_bytes());
                match *binding {
                    Binding::Inner(to) if self.group[to] == self.group[root] => {
                        if self.number[to] == NOT_YET {
                            self.number[to] = order.len();
                            order.push(to);
                        }
                        bytes.push(0);
                        bytes.extend_from_slice(&(self.number[to] as u64).to_le_bytes());
                    }
                    Binding::Inner(to) => {
                        let key = self.keys[to].expect("callees are named before their callers");
                        bytes.push(1);
                        bytes.extend_from_slice(key.as_bytes());
                    }
                    Binding::Outer { key, .. } => {
                        bytes.push(1);
                        bytes.extend_from_slice(key.as_bytes());
                    }
                    Binding::Host(address) => {
                        bytes.push(2);
                        bytes.extend_from_slice(&address.to_le_bytes());
                    }
                }
            }
        }
        for &function in order.iter() {
            self.number[function] = NOT_YET;
        }
        let digest = self.context.derive(&bytes);
        self.bytes = bytes;
        digest
    }
}

/// The strongly connected components, callees before callers; the members of each in ascending order.
///
/// Tarjan's algorithm with its own stack: chains of calls are as long as programs are.
fn components(units: &[Unit<'_>]) -> Vec<Vec<usize>> {
    let mut components = Vec::new();
    let mut seen = vec![NOT_YET; units.len()];
    let mut low = vec![0; units.len()];
    let mut open = vec![false; units.len()];
    let mut stack = Vec::new();
    let mut frames: Vec<(usize, usize)> = Vec::new();
    let mut count = 0;
    for root in 0..units.len() {
        if seen[root] != NOT_YET {
            continue;
        }
        frames.push((root, 0));
        while let Some((unit, next)) = frames.last_mut() {
            let unit = *unit;
            if *next == 0 {
                seen[unit] = count;
                low[unit] = count;
                count += 1;
                open[unit] = true;
                stack.push(unit);
            }
            let callee =
                units[unit].bindings[*next..].iter().enumerate().find_map(|(i, (_, to))| {
                    let Binding::Inner(to) = *to else { return None };
                    (seen[to] == NOT_YET || open[to]).then_some((i, to))
                });
            if let Some((skipped, to)) = callee {
                *next += skipped + 1;
                if seen[to] == NOT_YET {
                    frames.push((to, 0));
                } else {
                    low[unit] = low[unit].min(seen[to]);
                }
                continue;
            }
            frames.pop();
            if let Some((caller, _)) = frames.last() {
                low[*caller] = low[*caller].min(low[unit]);
            }
            if low[unit] == seen[unit] {
                let at = stack.iter().rposition(|&member| member == unit).expect("still open");
                let mut members = stack.split_off(at);
                for &member in &members {
                    open[member] = false;
                }
                members.sort_unstable();
                components.push(members);
            }
        }
    }
    components
}
