//! What a graph is, whatever its values are called and in whichever order its independent nodes stand.
//!
//! ```text
//!   inputs by place, constants by content ──► digest of each node: op, attributes, digests of what it reads
//!                                                └─► key of the graph: its inputs' types, its outputs' digests
//! ```
//!
//! A node's digest names all that its outputs depend on, every edge included, so nodes with equal digests compute the
//! same and are one in the canonical graph; nodes that no output depends on are none in it. Its nodes stand in the
//! order in which a walk from the outputs, along the inputs in their order, finishes them. A body's captured values
//! stand in the order of their first use by that walk.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::model::{Attribute, Body, Dim, Graph, Node, ValueId, ValueType};
use super::region::Region;
use super::tensor::{ElementType, Tensor};
use crate::key::{Key, KeyBuilder};

/// A graph in its canonical form.
#[derive(Debug)]
pub(crate) struct Canonical {
    pub(crate) graph: Graph,
    /// What it is, independent of names and order.
    pub(crate) key: Key,
    /// What its constants are.
    pub(crate) contents: Contents,
}

/// The canonical form of a whole graph.
pub(crate) fn canonical(graph: &Graph) -> Canonical {
    let mut graph = graph.clone();
    hand_down(&mut graph);
    let contents = Contents::default();
    let (graph, _) = reorder(&graph, &[], &contents);
    let key = key(&graph, &contents);
    Canonical { graph, key, contents }
}

/// Makes constants that bodies capture constants of theirs, so that what depends on them is known there too.
fn hand_down(graph: &mut Graph) {
    let inputs: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    let fixed = graph.constants.iter().filter(|(id, _)| !inputs.contains(id));
    let constants: HashMap<ValueId, &Tensor> = fixed.map(|(id, tensor)| (*id, tensor)).collect();
    for node in &mut graph.nodes {
        for attribute in node.attributes.values_mut() {
            let Attribute::Graph(body) = attribute else { continue };
            let Body { graph: inner, captures, .. } = &mut **body;
            let own = inner.inputs.split_off(captures.len());
            let here = std::mem::take(&mut inner.inputs);
            for (outer, here) in std::mem::take(captures).into_iter().zip(here) {
                match constants.get(&outer) {
                    Some(tensor) => inner.constants.push((here, (*tensor).clone())),
                    None => {
                        captures.push(outer);
                        inner.inputs.push(here);
                    }
                }
            }
            inner.inputs.extend(own);
            hand_down(inner);
        }
    }
}

/// The canonical form of a graph whose first inputs are captured values with these digests, and which of them it
/// uses, in the order of their first use.
fn reorder(graph: &Graph, captured: &[Key], contents: &Contents) -> (Graph, Vec<usize>) {
    enum Visit {
        Value(ValueId),
        Node(usize),
    }
    let mut digests = Digests::of(graph, captured, contents);
    let mut maker = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        for output in node.outputs.iter().flatten() {
            maker.entry(digests.value(*output)).or_insert(at);
        }
    }
    let mut ordered = Graph { name: graph.name.clone(), ..Graph::default() };
    let mut known: HashMap<Key, ValueId> = HashMap::new();
    let mut captures = Vec::new();
    let mut formals = Vec::new();
    for (place, id) in graph.inputs.iter().enumerate().skip(captured.len()) {
        let value = &graph.values[id.index()];
        let new = ordered.add(value.name.as_str(), value.ty.clone());
        if let Some((_, default)) = graph.constants.iter().find(|(other, _)| other == id) {
            ordered.constants.push((new, default.clone()));
        }
        known.insert(digests.value(graph.inputs[place]), new);
        formals.push(new);
    }

    let mut entered = vec![false; graph.nodes.len()];
    let mut visits: Vec<Visit> = graph.outputs.iter().rev().map(|id| Visit::Value(*id)).collect();
    while let Some(visit) = visits.pop() {
        match visit {
            Visit::Value(id) => {
                let digest = digests.value(id);
                if known.contains_key(&digest) {
                    continue;
                }
                let value = &graph.values[id.index()];
                match maker.get(&digest) {
                    Some(&at) if !entered[at] => {
                        entered[at] = true;
                        visits.push(Visit::Node(at));
                        let reads = digests.reads(graph, at);
                        visits.extend(reads.into_iter().rev().map(Visit::Value));
                    }
                    Some(_) => {}
                    None => {
                        let new = ordered.add(value.name.as_str(), value.ty.clone());
                        known.insert(digest, new);
                        match captured.iter().position(|key| *key == digest) {
                            Some(place) => captures.push((place, new)),
                            None => {
                                let constants = &graph.constants;
                                let found = constants.iter().find(|(other, _)| *other == id);
                                let (_, tensor) = found.expect("it is no input and no output");
                                ordered.constants.push((new, tensor.clone()));
                            }
                        }
                    }
                }
            }
            Visit::Node(at) => {
                let mut node = graph.nodes[at].clone();
                for input in node.inputs.iter_mut().flatten() {
                    *input = known[&digests.value(*input)];
                }
                for (name, attribute) in &mut node.attributes {
                    if let Attribute::Graph(body) = attribute {
                        **body =
                            digests.bodies.remove(&(at, name.clone())).expect("each body once");
                        for capture in &mut body.captures {
                            *capture = known[&digests.value(*capture)];
                        }
                    }
                }
                for output in node.outputs.iter_mut().flatten() {
                    let value = &graph.values[output.index()];
                    let new = ordered.add(value.name.as_str(), value.ty.clone());
                    known.insert(digests.value(*output), new);
                    *output = new;
                }
                ordered.nodes.push(node);
            }
        }
    }
    ordered.outputs = graph.outputs.iter().map(|id| known[&digests.value(*id)]).collect();
    ordered.inputs = captures.iter().map(|(_, new)| *new).chain(formals).collect();
    (ordered, captures.into_iter().map(|(place, _)| place).collect())
}

/// The key of a graph that is in its canonical form.
fn key(graph: &Graph, contents: &Contents) -> Key {
    let digests = Digests::of(graph, &[], contents);
    let mut parts = KeyBuilder::new("cachelift graph v1");
    let mut symbols = HashMap::new();
    for input in &graph.inputs {
        parts.group("input", |parts| {
            declared(parts, &graph.values[input.index()].ty, &mut symbols);
            if let Some((_, default)) = graph.constants.iter().find(|(id, _)| id == input) {
                parts.key("default", &contents.of(default));
            }
        });
    }
    for output in &graph.outputs {
        parts.key("output", &digests.value(*output));
    }
    parts.finish()
}

/// What the model says of a value. Symbols are told apart, not by name.
fn declared<'a>(parts: &mut KeyBuilder, ty: &'a ValueType, symbols: &mut HashMap<&'a str, u64>) {
    parts.str("element", ty.element.map_or("?", |element| element.name()));
    let Some(dims) = &ty.dims else { return };
    parts.group("dims", |parts| {
        for dim in dims {
            match dim {
                Dim::Known(size) => parts.u64("known", *size as u64),
                Dim::Symbol(name) => {
                    let next = symbols.len() as u64;
                    parts.u64("symbol", *symbols.entry(name).or_insert(next))
                }
                Dim::Unknown => parts.bool("unknown", true),
            };
        }
    });
}

/// The keys of constants, each of what it holds. Those of large ones are remembered while a graph is looked at: it is so
/// more than once.
#[derive(Debug, Default)]
pub(crate) struct Contents(RefCell<HashMap<(*const u8, ElementType, Region), Key>>);

impl Contents {
    /// Constants of fewer bytes are digested anew.
    const LARGE: usize = 1 << 12;

    /// The key of a constant. It must be one of the graph whose these are.
    pub(crate) fn of(&self, tensor: &Tensor) -> Key {
        if tensor.len() < Self::LARGE {
            return content(tensor);
        }
        // The graph holds the tensor, so that its place is nobody else's.
        let place = (tensor.as_ptr(), tensor.element(), tensor.region().clone());
        *self.0.borrow_mut().entry(place).or_insert_with(|| content(tensor))
    }
}

fn content(tensor: &Tensor) -> Key {
    let contiguous = tensor.contiguous();
    let bytes = contiguous.as_bytes().expect("it is contiguous");
    let mut parts = KeyBuilder::new("cachelift constant v1");
    parts.str("element", tensor.element().name());
    parts.group("dims", |parts| {
        for &dim in tensor.dims() {
            parts.u64("dim", dim as u64);
        }
    });
    // Hashed apart, so that large ones are not copied into the encoding.
    parts.bytes("digest", blake3::hash(bytes).as_bytes());
    parts.finish()
}

/// The digests of a graph's values.
struct Digests<'a> {
    contents: &'a Contents,
    /// By value; `None` for one that nothing defines.
    values: Vec<Option<Key>>,
    /// The nodes' bodies in canonical form, by node and attribute.
    bodies: HashMap<(usize, String), Body>,
    /// How often each node of another domain than ONNX's has been seen.
    foreign: HashMap<Key, u64>,
}

impl<'a> Digests<'a> {
    /// `captured` are the digests of the first inputs, if they are known by what they are and not by place.
    fn of(graph: &Graph, captured: &[Key], contents: &'a Contents) -> Self {
        let mut digests = Digests {
            contents,
            values: vec![None; graph.values.len()],
            bodies: HashMap::new(),
            foreign: HashMap::new(),
        };
        for (id, tensor) in &graph.constants {
            digests.values[id.index()] = Some(contents.of(tensor));
        }
        for (place, id) in graph.inputs.iter().enumerate() {
            digests.values[id.index()] = Some(match captured.get(place) {
                Some(key) => *key,
                None => {
                    let mut parts = KeyBuilder::new("cachelift graph input v1");
                    parts.u64("place", (place - captured.len()) as u64);
                    // So that an input of a body is not taken for one of the graph around it.
                    for key in captured {
                        parts.key("captured", key);
                    }
                    parts.finish()
                }
            });
        }
        for (at, node) in graph.nodes.iter().enumerate() {
            let key = digests.node(at, node);
            for (place, output) in node.outputs.iter().enumerate() {
                if let Some(output) = output {
                    let mut parts = KeyBuilder::new("cachelift graph value v1");
                    parts.key("node", &key).u64("place", place as u64);
                    digests.values[output.index()] = Some(parts.finish());
                }
            }
        }
        digests
    }

    fn value(&self, id: ValueId) -> Key {
        self.values[id.index()].expect("nodes stand after those they depend on")
    }

    fn node(&mut self, at: usize, node: &Node) -> Key {
        let mut bodies = Vec::new();
        let mut parts = KeyBuilder::new("cachelift graph operation v1");
        parts.str("domain", &node.domain).str("op", &node.op).i64("version", node.version);
        parts.u64("outputs", node.outputs.len() as u64);
        parts.group("attributes", |parts| {
            for (name, attribute) in &node.attributes {
                match attribute {
                    Attribute::Graph(body) => {
                        let body = self.body(body);
                        parts.group(name, |parts| {
                            parts.key("body", &body.key.expect("it is canonical"));
                            for capture in &body.captures {
                                parts.key("capture", &self.value(*capture));
                            }
                        });
                        bodies.push(((at, name.clone()), body));
                    }
                    attribute => encode(parts, name, attribute, self.contents),
                }
            }
        });
        parts.group("inputs", |parts| {
            for input in &node.inputs {
                match input {
                    Some(input) => parts.key("input", &self.value(*input)),
                    None => parts.bool("absent", true),
                };
            }
        });
        // Which outputs are wanted decides what some operators do.
        parts.group("wanted", |parts| {
            for output in &node.outputs {
                parts.bool("output", output.is_some());
            }
        });
        self.bodies.extend(bodies);
        if !node.domain.is_empty() {
            // An op from outside may do something else each time: two are never one.
            let key = parts.finish();
            let seen = self.foreign.entry(key).or_insert(0);
            *seen += 1;
            parts.u64("occurrence", *seen);
        }
        parts.finish()
    }

    /// A body in canonical form.
    fn body(&self, body: &Body) -> Body {
        if body.key.is_some() {
            return body.clone();
        }
        let captured: Vec<Key> = body.captures.iter().map(|id| self.value(*id)).collect();
        let (graph, kept) = reorder(&body.graph, &captured, self.contents);
        let captures = kept.into_iter().map(|place| body.captures[place]).collect();
        let key = Some(key(&graph, self.contents));
        Body { graph, captures, key }
    }

    /// What a node reads: its inputs, then what its bodies capture.
    fn reads(&self, graph: &Graph, at: usize) -> Vec<ValueId> {
        let node = &graph.nodes[at];
        let mut reads: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        for (name, attribute) in &node.attributes {
            if let Attribute::Graph(_) = attribute {
                reads.extend(&self.bodies[&(at, name.clone())].captures);
            }
        }
        reads
    }
}

fn encode(parts: &mut KeyBuilder, name: &str, attribute: &Attribute, contents: &Contents) {
    match attribute {
        Attribute::Int(value) => parts.i64(name, *value),
        Attribute::Float(value) => parts.group(name, |parts| {
            parts.u64("float", value.to_bits().into());
        }),
        Attribute::Text(value) => parts.str(name, value),
        Attribute::Tensor(value) => parts.key(name, &contents.of(value)),
        Attribute::Ints(values) => parts.group(name, |parts| {
            parts.u64("ints", values.len() as u64);
            for value in values {
                parts.i64("", *value);
            }
        }),
        Attribute::Floats(values) => parts.group(name, |parts| {
            parts.u64("floats", values.len() as u64);
            for value in values {
                parts.u64("", value.to_bits().into());
            }
        }),
        Attribute::Texts(values) => parts.group(name, |parts| {
            parts.u64("texts", values.len() as u64);
            for value in values {
                parts.str("", value);
            }
        }),
        Attribute::Graph(_) => unreachable!("bodies are encoded with their captures"),
    };
}

#[cfg(test)]
mod tests;
