//! Keys of random graphs, and of graphs that differ in one thing.

use proptest::prelude::*;

use super::*;

/// A graph in a form that is easy to change: nodes read inputs and earlier nodes by number.
#[derive(Clone, Debug)]
struct Plain {
    inputs: Vec<(ElementType, usize)>,
    constants: Vec<f32>,
    nodes: Vec<(usize, Vec<usize>, i64)>,
    outputs: Vec<usize>,
}

const OPS: [&str; 6] = ["Add", "Sub", "Mul", "Div", "Max", "Pow"];

impl Plain {
    fn sources(&self) -> usize {
        self.inputs.len() + self.constants.len()
    }

    /// The graph, its nodes in this order, with names that begin so.
    fn graph(&self, order: &[usize], prefix: &str) -> Graph {
        let mut graph = Graph::default();
        let mut ids = Vec::new();
        for (at, (element, rank)) in self.inputs.iter().enumerate() {
            let ty = ValueType::of_rank(*element, *rank);
            ids.push(graph.add(format!("{prefix}{at}"), ty));
            graph.inputs.push(ids[at]);
        }
        for value in &self.constants {
            let id = graph.add(format!("{prefix}c"), ValueType::default());
            graph.constants.push((id, Tensor::scalar(*value)));
            ids.push(id);
        }
        for at in 0..self.nodes.len() {
            ids.push(graph.add(format!("{prefix}n{at}"), ValueType::default()));
        }
        for &at in order {
            let (op, reads, attribute) = &self.nodes[at];
            graph.nodes.push(Node {
                name: format!("{prefix}{at}"),
                domain: String::new(),
                op: OPS[*op].into(),
                version: 20,
                inputs: reads.iter().map(|read| Some(ids[*read])).collect(),
                outputs: vec![Some(ids[self.sources() + at])],
                attributes: [("a".to_owned(), Attribute::Int(*attribute))].into(),
            });
        }
        graph.outputs = self.outputs.iter().map(|at| ids[*at]).collect();
        graph
    }

    fn key(&self) -> Key {
        let order: Vec<usize> = (0..self.nodes.len()).collect();
        canonical(&self.graph(&order, "v")).key
    }

    /// Another order in which each node stands after those it reads: from the last, by choice among those ready.
    fn shuffled(&self, choices: &[usize]) -> Vec<usize> {
        let mut order = Vec::new();
        let mut left: Vec<usize> = (0..self.nodes.len()).collect();
        while !left.is_empty() {
            let ready: Vec<usize> = left
                .iter()
                .copied()
                .filter(|at| {
                    let reads = &self.nodes[*at].1;
                    reads
                        .iter()
                        .all(|r| *r < self.sources() || order.contains(&(r - self.sources())))
                })
                .collect();
            let choice = choices.get(order.len()).copied().unwrap_or(0);
            let next = ready[choice % ready.len()];
            left.retain(|at| *at != next);
            order.push(next);
        }
        order
    }
}

fn plain() -> impl Strategy<Value = Plain> {
    (1..4_usize, 1..3_usize, 1..12_usize).prop_flat_map(|(inputs, constants, nodes)| {
        let element = prop_oneof![Just(ElementType::F32), Just(ElementType::I64)];
        let sources = inputs + constants;
        let node =
            |at: usize| (0..OPS.len(), proptest::collection::vec(0..sources + at, 2), 0..3_i64);
        let nodes: Vec<_> = (0..nodes).map(node).collect();
        let all = sources + nodes.len();
        (
            proptest::collection::vec((element, 0..4_usize), inputs),
            proptest::collection::vec(-2.0..2.0_f32, constants),
            nodes,
            proptest::collection::vec(0..all, 1..3),
        )
            .prop_map(|(inputs, constants, nodes, outputs)| Plain {
                inputs,
                constants,
                nodes,
                outputs,
            })
    })
}

proptest! {
    /// Mutant: nodes' names in the key.
    #[test]
    fn names_and_the_order_of_independent_nodes_do_not_matter(
        plain in plain(),
        choices in proptest::collection::vec(0..8_usize, 12),
    ) {
        let order = plain.shuffled(&choices);
        let other = canonical(&plain.graph(&order, "other"));
        prop_assert_eq!(other.key, plain.key());
        // The canonical form is its own.
        prop_assert_eq!(canonical(&other.graph).key, other.key);
        prop_assert!(other.graph.nodes.len() <= plain.nodes.len());
    }

    /// Every node that matters does, with each of its parts. Mutants: the op, the attributes, the constants' elements and the
    /// inputs' types left out, one at a time.
    #[test]
    fn one_change_gives_another_key(
        mut plain in plain(),
        pick in any::<prop::sample::Index>(),
        what in 0..4_usize,
    ) {
        // The last node is the output, and reads all that nobody else reads, so that nothing is left out.
        for at in 0..plain.sources() + plain.nodes.len() - 1 {
            let read = plain.nodes.iter().any(|(_, reads, _)| reads.contains(&at));
            if !read {
                plain.nodes.last_mut().unwrap().1.push(at);
            }
        }
        plain.outputs = vec![plain.sources() + plain.nodes.len() - 1];
        let before = plain.key();
        let mut after = plain.clone();
        let at = pick.index(plain.nodes.len());
        match what {
            0 => after.nodes[at].0 = (plain.nodes[at].0 + 1) % OPS.len(),
            1 => after.nodes[at].2 += 1,
            2 => {
                let at = pick.index(plain.constants.len());
                after.constants[at] += 1.0;
            }
            _ => {
                let at = pick.index(plain.inputs.len());
                after.inputs[at].1 += 1;
            }
        }
        prop_assert_ne!(after.key(), before);
    }
}

fn two(reads: [usize; 2]) -> Plain {
    Plain {
        inputs: vec![(ElementType::F32, 1), (ElementType::F32, 1)],
        constants: vec![1.0],
        nodes: vec![(1, reads.to_vec(), 0)],
        outputs: vec![3],
    }
}

/// Mutant: the inputs' digests sorted.
#[test]
fn an_edge_to_another_value_gives_another_key() {
    let keys = [two([0, 1]), two([1, 0]), two([0, 0]), two([0, 2])].map(|plain| plain.key());
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key));
    }
}

/// A graph that runs a body on one captured value, of two that are at hand.
fn with_body(captured: usize, inner: &str, formals: usize) -> Graph {
    let mut body = Graph::default();
    let here = body.add(inner, ValueType::default());
    body.inputs.push(here);
    for at in 0..formals {
        let id = body.add(format!("{inner}{at}"), ValueType::of_rank(ElementType::F32, 0));
        body.inputs.push(id);
    }
    let result = body.add(inner, ValueType::default());
    body.nodes.push(Node {
        name: String::new(),
        domain: String::new(),
        op: "Add".into(),
        version: 20,
        inputs: vec![Some(here), Some(*body.inputs.last().unwrap())],
        outputs: vec![Some(result)],
        attributes: Default::default(),
    });
    body.outputs.push(result);

    let mut graph = two([0, 1]).graph(&[0], "v");
    let capture = graph.inputs[captured];
    let output = graph.add("w", ValueType::default());
    let attributes =
        [("body".to_owned(), Attribute::Graph(Box::new(Body::new(body, vec![capture]))))];
    graph.nodes.push(Node {
        name: String::new(),
        domain: String::new(),
        op: "Loop".into(),
        version: 20,
        inputs: vec![],
        outputs: vec![Some(output)],
        attributes: attributes.into(),
    });
    graph.outputs = vec![output];
    graph
}

/// Mutants: captures left out of the key; a body's own first input taken for the first of the graph around it.
#[test]
fn bodies_are_told_apart_by_what_they_capture() {
    let key = |graph: Graph| canonical(&graph).key;
    assert_eq!(key(with_body(0, "a", 1)), key(with_body(0, "b", 1)));
    let keys =
        [with_body(0, "a", 1), with_body(1, "a", 1), with_body(0, "a", 0), with_body(0, "a", 2)]
            .map(key);
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{at}");
    }
    let kept = canonical(&with_body(0, "a", 1)).graph;
    let node = kept.nodes.iter().find(|node| node.op == "Loop").unwrap();
    let body = node.body("body").unwrap();
    assert_eq!(
        body.graph.nodes[0].inputs,
        [Some(body.graph.inputs[0]), Some(body.graph.inputs[1])]
    );
}

/// Constants are what they hold, and a body that captures one has it as its own.
/// Mutant: constants captured like any other value.
#[test]
fn captured_constants_become_the_bodys_own() {
    let mut graph = with_body(0, "a", 1);
    let constant = graph.constants[0].0;
    let Some(Attribute::Graph(body)) = graph.nodes[1].attributes.get_mut("body") else { panic!() };
    body.captures = vec![constant];
    let canonical = canonical(&graph);
    let node = canonical.graph.nodes.iter().find(|node| node.op == "Loop").unwrap();
    let body = node.body("body").unwrap();
    assert!(body.captures.is_empty());
    assert_eq!(body.graph.constants.len(), 1);
}
