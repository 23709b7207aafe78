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
//! cannot be told apart by any caller, and they get one key. In a large cycle of many equal candidates not
//! all of them are walked from, to bound the time; then the order of definition may show in the keys, and
//! the price is that code which is live already is loaded a second time.

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

/// How many functions the walks of one component may visit, except that there is always one walk.
const MAX_VISITS: usize = 1 << 16;

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
        let candidates = members.iter().filter(|&&member| Some(self.units[member].key) == smallest);
        for &root in candidates.take((MAX_VISITS / members.len()).max(1)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A graph as lists: the unit key's number, and what each reference means.
    type Graph = Vec<(u8, Vec<(u32, Binding)>)>;

    fn key(number: u8) -> Key {
        KeyBuilder::new("test").u64("number", number.into()).finish()
    }

    fn keys(graph: &Graph) -> Vec<Key> {
        let units: Vec<_> =
            graph.iter().map(|(number, bindings)| Unit { key: key(*number), bindings }).collect();
        link_keys(&units)
    }

    /// The graph with unit `i` moved to `order[i]`.
    fn permuted(graph: &Graph, order: &[usize]) -> Graph {
        let mut moved = vec![(0, Vec::new()); graph.len()];
        for (i, (number, bindings)) in graph.iter().enumerate() {
            let bindings = bindings.iter().map(|(reference, to)| match to {
                Binding::Inner(to) => (*reference, Binding::Inner(order[*to])),
                other => (*reference, *other),
            });
            moved[order[i]] = (*number, bindings.collect());
        }
        moved
    }

    /// Whether the two units cannot be told apart by anything that calls them: the largest relation under
    /// which equal units lead to equal units, found by striking out pairs.
    fn alike(graph: &Graph, a: usize, b: usize) -> bool {
        let n = graph.len();
        let mut same = vec![vec![true; n]; n];
        loop {
            let mut changed = false;
            for i in 0..n {
                for j in 0..n {
                    let (x, y) = (&graph[i], &graph[j]);
                    let still = x.0 == y.0
                        && x.1.len() == y.1.len()
                        && x.1.iter().zip(&y.1).all(|(x, y)| {
                            x.0 == y.0
                                && match (x.1, y.1) {
                                    (Binding::Inner(x), Binding::Inner(y)) => same[x][y],
                                    (x, y) => x == y,
                                }
                        });
                    if same[i][j] && !still {
                        same[i][j] = false;
                        changed = true;
                    }
                }
            }
            if !changed {
                return same[a][b];
            }
        }
    }

    fn graphs() -> impl Strategy<Value = (Graph, Vec<usize>)> {
        (1_usize..8).prop_flat_map(|n| {
            let binding = prop_oneof![
                6 => (0..n).prop_map(Binding::Inner),
                1 => (0_u64..2).prop_map(Binding::Host),
                1 => (100_u8..102).prop_map(|n| Binding::Outer { key: key(n), address: n.into() }),
            ];
            let bindings = prop::collection::btree_map(0_u32..3, binding, 0..3)
                .prop_map(|map| map.into_iter().collect::<Vec<_>>());
            let unit = (0_u8..2, bindings);
            let order = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
            (prop::collection::vec(unit, n), order)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// The order of definition does not count.
        /// Mutants: the root of a ring taken by its index; a place that is the first walk's.
        #[test]
        fn order_does_not_count((graph, order) in graphs()) {
            let before = keys(&graph);
            let after = keys(&permuted(&graph, &order));
            for i in 0..graph.len() {
                prop_assert_eq!(before[i], after[order[i]]);
            }
        }

        /// Two units with one link key are two names for one thing, in one program or in two.
        /// Mutants: the references' numbers, the places in a ring, host addresses, outer keys or unit keys
        /// left out.
        #[test]
        fn one_key_is_one_thing((a, _) in graphs(), (b, _) in graphs()) {
            let offset = a.len();
            let moved = b.iter().map(|(number, bindings)| {
                let bindings = bindings.iter().map(|(reference, to)| match to {
                    Binding::Inner(to) => (*reference, Binding::Inner(to + offset)),
                    other => (*reference, *other),
                });
                (*number, bindings.collect())
            });
            let both: Graph = a.iter().cloned().chain(moved).collect();
            let separate: Vec<_> = keys(&a).into_iter().chain(keys(&b)).collect();
            let together = keys(&both);
            prop_assert_eq!(&separate, &together, "what else is in the program does not count");
            for i in 0..both.len() {
                for j in 0..i {
                    if together[i] == together[j] {
                        prop_assert!(alike(&both, i, j), "{i} and {j} of {both:?}");
                    }
                }
            }
        }
    }

    fn inner(to: usize) -> Binding {
        Binding::Inner(to)
    }

    /// What calls nothing is known by its own key.
    #[test]
    fn leaves_keep_their_unit_key() {
        assert_eq!(keys(&vec![(1, vec![])]), [key(1)]);
        assert_ne!(keys(&vec![(1, vec![(0, inner(0))])]), [key(1)]);
    }

    /// Equal trees are equal things, and so are equal rings.
    #[test]
    fn equal_things_have_one_key() {
        let tree =
            vec![(1, vec![(0, inner(2))]), (1, vec![(0, inner(3))]), (0, vec![]), (0, vec![])];
        let keys_of_tree = keys(&tree);
        assert_eq!(keys_of_tree[0], keys_of_tree[1]);
        let rings = vec![
            (1, vec![(0, inner(1))]),
            (0, vec![(0, inner(0))]),
            (0, vec![(0, inner(3))]),
            (1, vec![(0, inner(2))]),
        ];
        let keys_of_rings = keys(&rings);
        assert_eq!(keys_of_rings[0], keys_of_rings[3]);
        assert_eq!(keys_of_rings[1], keys_of_rings[2]);
        assert_ne!(keys_of_rings[0], keys_of_rings[1]);
    }

    /// Where code lies is no part of what it is. Mutant: the address of outer code hashed.
    #[test]
    fn addresses_of_loaded_code_do_not_count() {
        let at = |address| keys(&vec![(0, vec![(0, Binding::Outer { key: key(9), address })])]);
        assert_eq!(at(1), at(2));
        let host = |address| keys(&vec![(0, vec![(0, Binding::Host(address))])]);
        assert_ne!(host(1), host(2));
    }

    /// A hundred thousand calls deep, and a ring as large: no recursion, and no time to speak of.
    #[test]
    fn long_chains_and_large_rings() {
        let count = 100_000;
        let mut graph: Graph = (0..count).map(|i| (0, vec![(0, inner(i + 1))])).collect();
        graph.push((1, vec![]));
        assert_eq!(keys(&graph).len(), count + 1);
        graph[count] = (1, vec![(0, inner(0))]);
        let mut seen: Vec<_> = keys(&graph);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count + 1, "each has its own place in the ring");
    }
}
