//! Random graphs in a plain form: they can be built, built again with other names in another order, and changed.

use cachelift::graph::model::Attribute;
use cachelift::graph::{Builder, ElementType, Model, Tensor, Value};
use proptest::prelude::*;

/// An operator, and what it reads: inputs and earlier nodes by number.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) kind: usize,
    pub(crate) reads: [usize; 2],
    pub(crate) axis: i64,
}

/// Inputs of shape [3, 4], a constant, then nodes; all values are of this shape.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    pub(crate) constant: f32,
    pub(crate) nodes: Vec<Op>,
    pub(crate) element: ElementType,
}

const INPUTS: usize = 2;
/// Inputs and the constant.
const SOURCES: usize = INPUTS + 1;
pub(crate) const KINDS: usize = 14;

impl Plain {
    /// The model; its nodes stand in this order.
    pub(crate) fn model(&self, order: &[usize], prefix: &str) -> Model {
        let mut graph = Builder::new();
        let mut values: Vec<Option<Value>> = Vec::new();
        for at in 0..INPUTS {
            values.push(Some(graph.input(&format!("{prefix}{at}"), self.element, &[3, 4])));
        }
        let constant = match self.element {
            ElementType::F64 => Tensor::from_slice(&[4], &[f64::from(self.constant); 4]),
            _ => Tensor::from_slice(&[4], &[self.constant; 4]),
        };
        values.push(Some(graph.constant(constant)));
        values.resize(SOURCES + self.nodes.len(), None);
        let shape = graph.constant(Tensor::from_slice(&[2], &[3_i64, 4]));
        for &at in order {
            let op = &self.nodes[at];
            let read = |place: usize| values[op.reads[place]].expect("an order that holds");
            let (a, b) = (read(0), read(1));
            let axis = [("axis", Attribute::Int(op.axis))];
            let value = match op.kind {
                0 => graph.op("Add", &[&a, &b]),
                1 => graph.op("Sub", &[&a, &b]),
                2 => graph.op("Mul", &[&a, &b]),
                3 => graph.op("Max", &[&a, &b]),
                4 => graph.op("Tanh", &[&a]),
                5 => graph.op("Sigmoid", &[&a]),
                6 => graph.op("Neg", &[&a]),
                7 => graph.op("Abs", &[&a]),
                8 => {
                    let wide = graph.op("Expand", &[&a, &shape]);
                    let turned = graph.op("Transpose", &[&wide]);
                    let sum = graph.op("Relu", &[&turned]);
                    graph.op("Transpose", &[&sum])
                }
                9 => {
                    let wide = graph.op("Expand", &[&a, &shape]);
                    graph.op_with("Softmax", &[Some(&wide)], &axis, 1)[0]
                }
                10 => {
                    let wide = graph.op("Expand", &[&a, &shape]);
                    let axes = graph.constant(Tensor::from_slice(&[1], &[op.axis]));
                    let sum = graph.op("ReduceSum", &[&wide, &axes]);
                    graph.op("Add", &[&sum, &b])
                }
                11 => {
                    let wide = graph.op("Expand", &[&a, &shape]);
                    let other = graph.op("Expand", &[&b, &shape]);
                    let turned = graph.op("Transpose", &[&other]);
                    let square = graph.op("MatMul", &[&wide, &turned]);
                    graph.op("MatMul", &[&square, &wide])
                }
                12 => {
                    let less = graph.op("Less", &[&a, &b]);
                    graph.op("Where", &[&less, &a, &b])
                }
                _ => {
                    let wide = graph.op("Expand", &[&a, &shape]);
                    let axis = graph.constant(Tensor::scalar(op.axis));
                    graph.op("CumSum", &[&wide, &axis])
                }
            };
            values[SOURCES + at] = Some(value);
        }
        let last = values.last().copied().flatten().expect("there is a node");
        let wide = graph.op("Expand", &[&last, &shape]);
        graph.output("out", &wide);
        graph.finish().expect("a graph that holds")
    }

    pub(crate) fn in_order(&self) -> Model {
        self.model(&(0..self.nodes.len()).collect::<Vec<_>>(), "v")
    }

    /// Another order in which each node stands after those it reads.
    pub(crate) fn shuffled(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        while order.len() < self.nodes.len() {
            let ready = |at: &usize| {
                let reads = self.nodes[*at].reads;
                !order.contains(at)
                    && reads.iter().all(|r| *r < SOURCES || order.contains(&(r - SOURCES)))
            };
            let next = (0..self.nodes.len()).rev().find(ready).expect("one is ready");
            order.push(next);
        }
        order
    }

    pub(crate) fn inputs(&self, seed: u32) -> Vec<Tensor> {
        let value = |at: u32| {
            let bits = (at + 1).wrapping_mul(seed.wrapping_mul(2) + 1).wrapping_mul(2_654_435_761);
            f64::from(bits >> 8) / f64::from(1_u32 << 23) - 1.0
        };
        let tensor = |input: usize| {
            let values: Vec<f64> = (0..12).map(|at| value(at + 100 * input as u32)).collect();
            match self.element {
                ElementType::F64 => Tensor::from_slice(&[3, 4], &values),
                _ => {
                    let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
                    Tensor::from_slice(&[3, 4], &values)
                }
            }
        };
        (0..INPUTS).map(tensor).collect()
    }
}

pub(crate) fn plain() -> impl Strategy<Value = Plain> {
    (1..10_usize).prop_flat_map(|count| {
        let node = |at: usize| {
            let reads = (0..SOURCES + at, 0..SOURCES + at);
            // The last node reads the one before it, so that few are left out.
            (0..KINDS, reads, 0..2_i64).prop_map(move |(kind, (a, b), axis)| Op {
                kind,
                reads: [if at + 1 == count && at > 0 { SOURCES + at - 1 } else { a }, b],
                axis,
            })
        };
        let nodes: Vec<_> = (0..count).map(node).collect();
        let element = prop_oneof![Just(ElementType::F32), Just(ElementType::F64)];
        (-2.0..2.0_f32, nodes, element).prop_map(|(constant, nodes, element)| Plain {
            constant,
            nodes,
            element,
        })
    })
}
