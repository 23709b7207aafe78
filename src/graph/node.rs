//! What a kernel is: everything that its emitter reads, and nothing else. The key is the hash of this value.
//!
//! ```text
//!   op with its attributes ┐
//!   inputs:  type, rank, layout class ├─► NodeSpec ──encode (injective)──► key
//!   outputs: type, rank, layout class ┘       └──► emitter ──► CLIF
//! ```
//!
//! Dimensions, strides and addresses are arguments of the call, so a kernel serves every shape of its ranks.
//! Attributes stand here as the operators' specifications define them, with defaults filled in, axes counted from
//! the front and sorted, and the differences between an operator's versions resolved: where two versions mean
//! the same, they share the kernel.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::tensor::ElementType;
use crate::key::{Key, KeyBuilder};

/// The domain of the keys of nodes.
const DOMAIN: &str = "cachelift graph node v1";

/// A kernel: an operator on operands of known types, ranks and layouts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeSpec {
    /// What is computed.
    pub op: Op,
    /// The inputs; `None` for an optional one that is left out.
    pub inputs: Vec<Option<Operand>>,
    /// The outputs; `None` for an optional one that nobody reads.
    pub outputs: Vec<Option<Operand>>,
}

/// An operand as a kernel knows it when it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    /// The type of its elements.
    pub element: ElementType,
    /// How many axes it has.
    pub rank: u32,
    /// What is known of its strides.
    pub layout: Layout,
}

/// What is known of an operand's strides. Each kernel is right for all operands of its classes; the classes are
/// tried in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Layout {
    /// Row-major without gaps.
    Contiguous,
    /// All strides are 0: one element, repeated.
    Single,
    /// The last axis is without gaps.
    Rows,
    /// The last axis has stride 0.
    Repeated,
    /// Nothing is known.
    Strided,
}

/// A 32-bit floating-point attribute, compared by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Float(u32);

/// An element, by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scalar {
    /// Its type.
    pub element: ElementType,
    /// Its little-endian bytes, zero-extended.
    pub bits: u64,
}

/// An operator with its attributes.
///
/// Views (Reshape, Transpose, Slice, Split, Squeeze, Expand, ...) and what shapes alone decide (Shape, Size) have
/// no kernel. Unless it says otherwise, an operator has the inputs and outputs of its namesake in ONNX.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op {
    /// An element-wise function. The inputs are broadcast together.
    Map(Map),
    /// Several element-wise functions, and perhaps a reduction of the last, in one pass.
    Fused(Group),
    /// Copies the input, element by element, to the output of the same shape. Also DepthToSpace and SpaceToDepth,
    /// whose input is a transposed view.
    Copy,
    /// A reduction over axes. The output keeps them, with dimension 1, or not. Over no axis at all each element is
    /// reduced by itself.
    Reduce {
        /// Which reduction.
        kind: Reduction,
        /// Sorted, without duplicates.
        axes: Vec<u32>,
    },
    /// ArgMax, ArgMin.
    ArgExtreme {
        /// ArgMax.
        max: bool,
        /// Of ties, take the last (`select_last_index`).
        last: bool,
        /// The axis.
        axis: u32,
    },
    /// CumSum, CumProd. The axis is no input here.
    Cumulate {
        /// CumProd.
        product: bool,
        /// The attribute.
        exclusive: bool,
        /// The attribute.
        reverse: bool,
        /// The axis.
        axis: u32,
    },
    /// TopK. `k` is the outputs' dimension. Outputs are sorted, whatever the attribute says.
    TopK {
        /// The attribute.
        largest: bool,
        /// The axis.
        axis: u32,
    },
    /// Softmax.
    Softmax {
        /// The axis.
        axis: u32,
    },
    /// LogSoftmax.
    LogSoftmax {
        /// The axis.
        axis: u32,
    },
    /// Hardmax.
    Hardmax {
        /// The axis.
        axis: u32,
    },
    /// LpNormalization.
    LpNormalize {
        /// 1 or 2.
        p: u32,
        /// The axis.
        axis: u32,
    },
    /// LayerNormalization: `x, scale, bias?` to `y, mean?, inverse deviation?`. `scale` and `bias` are broadcast to
    /// `x`.
    LayerNormalize {
        /// The first normalised axis.
        axis: u32,
        /// The attribute.
        epsilon: Float,
    },
    /// RMSNormalization: `x, scale`. `scale` is broadcast to `x`.
    RmsNormalize {
        /// The first normalised axis.
        axis: u32,
        /// The attribute.
        epsilon: Float,
    },
    /// BatchNormalization: `x, scale, bias, mean, variance` to `y` and, in training, to running mean and variance.
    BatchNormalize {
        /// The attribute.
        epsilon: Float,
        /// The attribute; matters in training only.
        momentum: Float,
        /// `training_mode`.
        training: bool,
    },
    /// MatMul, as `numpy.matmul`.
    MatMul,
    /// Gemm: `a, b, c?`. `c` is broadcast to the output.
    Gemm {
        /// The attribute.
        alpha: Float,
        /// The attribute.
        beta: Float,
        /// The attribute.
        trans_a: bool,
        /// The attribute.
        trans_b: bool,
    },
    /// Einsum. Each axis of each input, and of the output, has a label; dimensions with one label are equal, or 1 and
    /// broadcast. Labels that the output lacks are summed over. An ellipsis is written out.
    Einsum {
        /// The labels of each input.
        inputs: Vec<Vec<u8>>,
        /// The output's labels, none twice.
        output: Vec<u8>,
    },
    /// Concat.
    Concat {
        /// The axis.
        axis: u32,
    },
    /// Tile: the input alone; the output's dimensions are multiples of its.
    Tile,
    /// Gather.
    Gather {
        /// The axis.
        axis: u32,
    },
    /// GatherElements.
    GatherElements {
        /// The axis.
        axis: u32,
    },
    /// GatherND.
    GatherNd {
        /// The attribute.
        batch_dims: u32,
    },
    /// ScatterElements.
    ScatterElements {
        /// The axis.
        axis: u32,
        /// The attribute.
        reduction: ScatterReduction,
    },
    /// ScatterND.
    ScatterNd {
        /// The attribute.
        reduction: ScatterReduction,
    },
    /// Compress along an axis: `data, condition`. Without an axis, ONNX flattens first. The output has as many places
    /// on the axis as `condition` has true elements within the axis.
    Compress {
        /// The axis.
        axis: u32,
    },
    /// OneHot: `indices, values`. The depth is the output's dimension on the axis.
    OneHot {
        /// The axis in the output.
        axis: u32,
    },
    /// Pad: `data, pads, value?`, where `pads` is one `int64` per axis: how many elements are added before it;
    /// negative ones are taken away. What is added after follows from the output's dimension.
    Pad {
        /// The attribute.
        mode: PadMode,
    },
    /// Range: `start, delta`. The output says how many.
    Range,
    /// EyeLike: no input.
    EyeLike {
        /// The attribute.
        k: i64,
    },
    /// Trilu: `x, k`, where `k` is an `int64`.
    Trilu {
        /// The attribute.
        upper: bool,
    },
    /// ReverseSequence.
    ReverseSequence {
        /// The attribute.
        time_axis: u32,
        /// The attribute.
        batch_axis: u32,
    },
}

/// An element-wise function. Its arguments have one type, and its result has it too, unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Map {
    /// x.
    Identity,
    /// |x|; wraps for the least integer.
    Abs,
    /// -x; wraps.
    Neg,
    /// -1, 0 or 1; NaN for NaN.
    Sign,
    /// 1 / x.
    Reciprocal,
    /// The square root.
    Sqrt,
    /// eˣ.
    Exp,
    /// The natural logarithm.
    Log,
    /// Rounds down.
    Floor,
    /// Rounds up.
    Ceil,
    /// Rounds to the nearest integer, halves to even.
    Round,
    /// The sine.
    Sin,
    /// The cosine.
    Cos,
    /// The tangent.
    Tan,
    /// The inverse sine.
    Asin,
    /// The inverse cosine.
    Acos,
    /// The inverse tangent.
    Atan,
    /// The hyperbolic sine.
    Sinh,
    /// The hyperbolic cosine.
    Cosh,
    /// The hyperbolic tangent.
    Tanh,
    /// The inverse hyperbolic sine.
    Asinh,
    /// The inverse hyperbolic cosine.
    Acosh,
    /// The inverse hyperbolic tangent.
    Atanh,
    /// The error function.
    Erf,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// max(0, x); also of integers.
    Relu,
    /// x < 0 ? alpha x : x.
    LeakyRelu {
        /// The attribute.
        alpha: Float,
    },
    /// x < 0 ? alpha (eˣ - 1) : x.
    Elu {
        /// The attribute.
        alpha: Float,
    },
    /// max(0, x) + min(0, alpha (e^(x / alpha) - 1)).
    Celu {
        /// The attribute.
        alpha: Float,
    },
    /// x <= 0 ? gamma (alpha eˣ - alpha) : gamma x.
    Selu {
        /// The attribute.
        alpha: Float,
        /// The attribute.
        gamma: Float,
    },
    /// max(0, min(1, alpha x + beta)).
    HardSigmoid {
        /// The attribute.
        alpha: Float,
        /// The attribute.
        beta: Float,
    },
    /// x max(0, min(1, x / 6 + 1 / 2)).
    HardSwish,
    /// ln(eˣ + 1).
    Softplus,
    /// x / (1 + |x|).
    Softsign,
    /// x tanh(ln(eˣ + 1)).
    Mish,
    /// x / (1 + e^(-alpha x)).
    Swish {
        /// The attribute.
        alpha: Float,
    },
    /// x > alpha ? x : 0.
    ThresholdedRelu {
        /// The attribute.
        alpha: Float,
    },
    /// x Φ(x), where Φ is the normal distribution's, or its approximation by tanh.
    Gelu {
        /// The attribute `approximate` is `tanh`.
        tanh: bool,
    },
    /// x < -lambd ? x + bias : x > lambd ? x - bias : 0; also of integers.
    Shrink {
        /// The attribute.
        bias: Float,
        /// The attribute.
        lambd: Float,
    },
    /// Of bools.
    Not,
    /// Every bit of an integer.
    BitwiseNot,
    /// A float to a bool.
    IsNan,
    /// A float to a bool.
    IsInf {
        /// Counts +∞.
        positive: bool,
        /// Counts -∞.
        negative: bool,
    },
    /// Any type to any other. A float becomes the nearest of the widest integers towards 0 (NaN: 0), of which a narrower
    /// type keeps the low bits.
    Cast {
        /// The result's type.
        to: ElementType,
    },
    /// x + y; wraps.
    Add,
    /// x - y; wraps.
    Sub,
    /// x y; wraps.
    Mul,
    /// x / y. Of integers: truncates; wraps; 0 where y is 0.
    Div,
    /// Mod of integers, or, for `fmod`, what C's `fmod` and `%` do. 0 where an integer y is 0.
    Mod {
        /// The result has the dividend's sign, not the divisor's.
        fmod: bool,
    },
    /// xʸ, of two types that may differ, as x's. Of integers: wraps; for a negative y, what truncation leaves.
    Pow,
    /// Of bools.
    And,
    /// Of bools.
    Or,
    /// Of bools.
    Xor,
    /// Of integers.
    BitwiseAnd,
    /// Of integers.
    BitwiseOr,
    /// Of integers.
    BitwiseXor,
    /// Of integers. Amounts that are negative, or not less than the width, shift everything out.
    BitShift {
        /// The direction.
        left: bool,
    },
    /// To a bool.
    Equal,
    /// To a bool.
    Less,
    /// To a bool.
    LessOrEqual,
    /// To a bool.
    Greater,
    /// To a bool.
    GreaterOrEqual,
    /// x < 0 ? y x : x.
    PRelu,
    /// A bool and two values.
    Where,
    /// x, then the lower bound if there is one, then the upper if there is one. The upper wins where they cross.
    Clip {
        /// There is a lower bound.
        min: bool,
        /// There is an upper bound.
        max: bool,
    },
    /// Of one or more; NaN if any is.
    Min,
    /// Of one or more; NaN if any is.
    Max,
    /// Of one or more.
    Sum,
    /// Of one or more.
    Mean,
}

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reduction {
    /// Σ x; of nothing: 0.
    Sum,
    /// Σ x / n; of nothing: NaN, of integers 0.
    Mean,
    /// Π x; of nothing: 1.
    Prod,
    /// The least, also of bools; NaN if any is; of nothing: +∞ or the greatest of the type.
    Min,
    /// The greatest, also of bools; NaN if any is; of nothing: -∞ or the least of the type.
    Max,
    /// Σ |x|.
    L1,
    /// √ Σ x².
    L2,
    /// Σ x².
    SumSquare,
    /// ln Σ x.
    LogSum,
    /// ln Σ eˣ.
    LogSumExp,
}

/// What a scatter does with an element that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScatterReduction {
    /// Replaces it.
    None,
    /// Adds to it.
    Add,
    /// Multiplies it.
    Mul,
    /// Takes the lesser; NaN if one is.
    Min,
    /// Takes the greater; NaN if one is.
    Max,
}

/// What Pad adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PadMode {
    /// A value; without one, 0.
    Constant,
    /// The mirror image, without the edge.
    Reflect,
    /// The element at the edge.
    Edge,
    /// The other end, as in a torus.
    Wrap,
}

/// Element-wise functions that are computed in one pass, each of what inputs or earlier ones give.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    /// In an order in which arguments come before their use.
    pub steps: Vec<Step>,
    /// Which steps are the outputs.
    pub outputs: Vec<u32>,
    /// The last output is reduced over these (sorted) axes of the inputs' common shape, and is the only one.
    pub reduce: Option<(Reduction, Vec<u32>)>,
}

/// One function of a [`Group`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    /// The function.
    pub map: Map,
    /// Its arguments.
    pub args: Vec<Arg>,
}

/// An argument of a [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Arg {
    /// An element of an input of the group.
    Input(u32),
    /// The result of an earlier step.
    Step(u32),
    /// A constant.
    Constant(Scalar),
}

impl NodeSpec {
    /// The key of the kernel, which the environment of the [engine](crate::code::Engine) is added to.
    pub fn key(&self) -> Key {
        let mut parts = KeyBuilder::new(DOMAIN);
        self.encode(&mut parts);
        parts.finish()
    }

    /// Names the parts of this value: the operator and its attributes, and each operand.
    ///
    /// The encoding is injective: postcard's bytes of a value say which value of the type it is.
    pub fn encode(&self, parts: &mut KeyBuilder) {
        parts.str("op", self.op.name()).bytes("attributes", &bytes(&self.op));
        for (name, operands) in [("inputs", &self.inputs), ("outputs", &self.outputs)] {
            parts.group(name, |parts| {
                for operand in operands {
                    match operand {
                        Some(operand) => parts.str("operand", &operand.to_string()),
                        None => parts.bool("absent", true),
                    };
                }
            });
        }
    }

    /// The input at this position.
    ///
    /// # Panics
    /// Panics if it is absent.
    pub fn input(&self, index: usize) -> &Operand {
        self.inputs[index].as_ref().expect("the input is there")
    }

    /// The output at this position.
    ///
    /// # Panics
    /// Panics if it is absent.
    pub fn output(&self, index: usize) -> &Operand {
        self.outputs[index].as_ref().expect("the output is there")
    }

    /// The operands that are there, inputs first: those that a call passes.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.inputs.iter().chain(&self.outputs).flatten()
    }
}

fn bytes(op: &Op) -> Vec<u8> {
    postcard::to_stdvec(op).expect("an operator has nothing that cannot be encoded")
}

/// `Add(float[2] contiguous, float[2] single) -> float[2] contiguous`.
impl fmt::Display for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |operands: &[Option<Operand>]| {
            let text = |operand: &Option<Operand>| match operand {
                Some(operand) => operand.to_string(),
                None => "-".into(),
            };
            operands.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        write!(f, "{}({}) -> {}", self.op.name(), list(&self.inputs), list(&self.outputs))
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = match self.layout {
            Layout::Contiguous => "contiguous",
            Layout::Single => "single",
            Layout::Rows => "rows",
            Layout::Repeated => "repeated",
            Layout::Strided => "strided",
        };
        write!(f, "{}[{}] {layout}", self.element, self.rank)
    }
}

impl Layout {
    /// The class of an operand whose elements have `size` bytes, with these dimensions and strides in bytes.
    ///
    /// It depends on dimensions as little as it can, so that one kernel serves many shapes: a stride that is not 0 on
    /// an axis of dimension 1 counts as that of an array without gaps, and nothing else is made of a dimension.
    pub fn of(size: usize, dims: &[usize], strides: &[isize]) -> Layout {
        let size = size as isize;
        let mut natural = size;
        let mut contiguous = true;
        for (&dim, &stride) in dims.iter().zip(strides).rev() {
            contiguous &= stride == natural || dim == 1 && stride != 0;
            natural = natural.wrapping_mul(dim.max(1) as isize);
        }
        let last = dims.last().copied().zip(strides.last().copied());
        match last {
            _ if contiguous => Layout::Contiguous,
            _ if strides.iter().all(|&stride| stride == 0) => Layout::Single,
            Some((_, stride)) if stride == size => Layout::Rows,
            Some((1, stride)) if stride != 0 => Layout::Rows,
            Some((_, 0)) => Layout::Repeated,
            _ => Layout::Strided,
        }
    }
}

impl Op {
    /// Its name: ONNX's for element-wise functions, and for most others.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Map(map) => map.name(),
            Op::Fused(_) => "Fused",
            Op::Copy => "Copy",
            Op::Reduce { kind, .. } => kind.name(),
            Op::ArgExtreme { max: true, .. } => "ArgMax",
            Op::ArgExtreme { max: false, .. } => "ArgMin",
            Op::Cumulate { product: false, .. } => "CumSum",
            Op::Cumulate { product: true, .. } => "CumProd",
            Op::TopK { .. } => "TopK",
            Op::Softmax { .. } => "Softmax",
            Op::LogSoftmax { .. } => "LogSoftmax",
            Op::Hardmax { .. } => "Hardmax",
            Op::LpNormalize { .. } => "LpNormalization",
            Op::LayerNormalize { .. } => "LayerNormalization",
            Op::RmsNormalize { .. } => "RMSNormalization",
            Op::BatchNormalize { .. } => "BatchNormalization",
            Op::MatMul => "MatMul",
            Op::Gemm { .. } => "Gemm",
            Op::Einsum { .. } => "Einsum",
            Op::Concat { .. } => "Concat",
            Op::Tile => "Tile",
            Op::Gather { .. } => "Gather",
            Op::GatherElements { .. } => "GatherElements",
            Op::GatherNd { .. } => "GatherND",
            Op::ScatterElements { .. } => "ScatterElements",
            Op::ScatterNd { .. } => "ScatterND",
            Op::Compress { .. } => "Compress",
            Op::OneHot { .. } => "OneHot",
            Op::Pad { .. } => "Pad",
            Op::Range => "Range",
            Op::EyeLike { .. } => "EyeLike",
            Op::Trilu { .. } => "Trilu",
            Op::ReverseSequence { .. } => "ReverseSequence",
        }
    }
}

impl Map {
    /// The name of the operator in ONNX.
    pub const fn name(&self) -> &'static str {
        match self {
            Map::Identity => "Identity",
            Map::Abs => "Abs",
            Map::Neg => "Neg",
            Map::Sign => "Sign",
            Map::Reciprocal => "Reciprocal",
            Map::Sqrt => "Sqrt",
            Map::Exp => "Exp",
            Map::Log => "Log",
            Map::Floor => "Floor",
            Map::Ceil => "Ceil",
            Map::Round => "Round",
            Map::Sin => "Sin",
            Map::Cos => "Cos",
            Map::Tan => "Tan",
            Map::Asin => "Asin",
            Map::Acos => "Acos",
            Map::Atan => "Atan",
            Map::Sinh => "Sinh",
            Map::Cosh => "Cosh",
            Map::Tanh => "Tanh",
            Map::Asinh => "Asinh",
            Map::Acosh => "Acosh",
            Map::Atanh => "Atanh",
            Map::Erf => "Erf",
            Map::Sigmoid => "Sigmoid",
            Map::Relu => "Relu",
            Map::LeakyRelu { .. } => "LeakyRelu",
            Map::Elu { .. } => "Elu",
            Map::Celu { .. } => "Celu",
            Map::Selu { .. } => "Selu",
            Map::HardSigmoid { .. } => "HardSigmoid",
            Map::HardSwish => "HardSwish",
            Map::Softplus => "Softplus",
            Map::Softsign => "Softsign",
            Map::Mish => "Mish",
            Map::Swish { .. } => "Swish",
            Map::ThresholdedRelu { .. } => "ThresholdedRelu",
            Map::Gelu { .. } => "Gelu",
            Map::Shrink { .. } => "Shrink",
            Map::Not => "Not",
            Map::BitwiseNot => "BitwiseNot",
            Map::IsNan => "IsNaN",
            Map::IsInf { .. } => "IsInf",
            Map::Cast { .. } => "Cast",
            Map::Add => "Add",
            Map::Sub => "Sub",
            Map::Mul => "Mul",
            Map::Div => "Div",
            Map::Mod { .. } => "Mod",
            Map::Pow => "Pow",
            Map::And => "And",
            Map::Or => "Or",
            Map::Xor => "Xor",
            Map::BitwiseAnd => "BitwiseAnd",
            Map::BitwiseOr => "BitwiseOr",
            Map::BitwiseXor => "BitwiseXor",
            Map::BitShift { .. } => "BitShift",
            Map::Equal => "Equal",
            Map::Less => "Less",
            Map::LessOrEqual => "LessOrEqual",
            Map::Greater => "Greater",
            Map::GreaterOrEqual => "GreaterOrEqual",
            Map::PRelu => "PRelu",
            Map::Where => "Where",
            Map::Clip { .. } => "Clip",
            Map::Min => "Min",
            Map::Max => "Max",
            Map::Sum => "Sum",
            Map::Mean => "Mean",
        }
    }

    /// The type of the result, for arguments of these types.
    pub fn result(&self, args: &[ElementType]) -> ElementType {
        match self {
            Map::IsNan
            | Map::IsInf { .. }
            | Map::Equal
            | Map::Less
            | Map::LessOrEqual
            | Map::Greater
            | Map::GreaterOrEqual => ElementType::Bool,
            Map::Cast { to } => *to,
            Map::Where => args[1],
            _ => args[0],
        }
    }
}

impl Reduction {
    /// The name of the operator in ONNX.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "ReduceSum",
            Reduction::Mean => "ReduceMean",
            Reduction::Prod => "ReduceProd",
            Reduction::Min => "ReduceMin",
            Reduction::Max => "ReduceMax",
            Reduction::L1 => "ReduceL1",
            Reduction::L2 => "ReduceL2",
            Reduction::SumSquare => "ReduceSumSquare",
            Reduction::LogSum => "ReduceLogSum",
            Reduction::LogSumExp => "ReduceLogSumExp",
        }
    }
}

impl Float {
    /// The number.
    pub const fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for Float {
    fn from(value: f32) -> Self {
        Float(value.to_bits())
    }
}

impl fmt::Debug for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
