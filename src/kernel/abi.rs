//! How compiled kernels are called: the one convention, and the way between host data and lanes.
//!
//! ```text
//!   unit:   (context, [results], lane, lane, …) -> (status, [result lane])     Cranelift's and C's convention
//!   entry:  (context, results: *mut u64, arguments: *const u64) -> status      the same for every signature
//! ```
//!
//! Every type is a sequence of *lanes*, scalars that fit a register ([`lanes`]):
//!
//! | type | lanes |
//! |---|---|
//! | `None` | none |
//! | bool, ints, floats | one; a bool is a byte of 0 or 1 |
//! | complex | real, imaginary |
//! | optional | a byte (0: `None`), then those of the value |
//! | tuple | those of its items |
//! | array | owner, data, the length of each axis; layout `A` also the stride of each axis, in bytes |
//! | record | owner, data |
//! | structref, function | one pointer |
//! | string | owner, data, length in bytes |
//!
//! - Results of at most one lane come back in a register behind the status; of more, in eight bytes each at `results`.
//! - The *status* is 0, or not: then the error is in the context, and there are no results. It is always checked.
//! - Arguments are *borrowed*: the caller keeps what they refer to alive. Results are *owned*: the caller gives back
//!   each owner. An owner may be null: nobody's memory, which outlives the call.
//! - A unit that calls others first compares the stack pointer with the context's limit.

use cranelift_codegen::ir::{AbiParam, Signature, Type as ClifType, types};
use cranelift_codegen::isa::TargetIsa;
use serde::{Deserialize, Serialize};

use super::ir::{ArrayType, Element, FunctionType, Layout, Scalar, Type};
use super::runtime::memory::Memory;

/// A register's worth of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// A byte: a bool, `int8`, `uint8`, whether an optional is something.
    I8,
    /// `int16`, `uint16`.
    I16,
    /// `int32`, `uint32`.
    I32,
    /// `int64`, `uint64`, lengths and strides, and pointers to what is owned by another lane or by nobody.
    I64,
    /// `float32`.
    F32,
    /// `float64`.
    F64,
    /// A counted reference, or null.
    Owner,
}

impl Lane {
    /// The lane's type in CLIF.
    pub fn clif(self) -> ClifType {
        match self {
            Lane::I8 => types::I8,
            Lane::I16 => types::I16,
            Lane::I32 => types::I32,
            Lane::I64 | Lane::Owner => types::I64,
            Lane::F32 => types::F32,
            Lane::F64 => types::F64,
        }
    }
}

/// The lanes of a type.
pub fn lanes(ty: &Type) -> Vec<Lane> {
    let mut lanes = Vec::new();
    push_lanes(ty, &mut lanes);
    lanes
}

/// How many lanes a type has.
pub fn lane_count(ty: &Type) -> usize {
    match ty {
        Type::None => 0,
        Type::Scalar(Scalar::C128) | Type::Record(_) => 2,
        Type::Scalar(_) | Type::Struct(_) | Type::Function(_) => 1,
        Type::Optional(inner) => 1 + lane_count(inner),
        Type::Tuple(items) => items.iter().map(lane_count).sum(),
        Type::Array(array) => {
            2 + array.ndim as usize * if array.layout == Layout::A { 2 } else { 1 }
        }
        Type::Str => 3,
    }
}

fn push_lanes(ty: &Type, lanes: &mut Vec<Lane>) {
    match ty {
        Type::None => {}
        Type::Scalar(scalar) => match scalar {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => lanes.push(Lane::I8),
            Scalar::I16 | Scalar::U16 => lanes.push(Lane::I16),
            Scalar::I32 | Scalar::U32 => lanes.push(Lane::I32),
            Scalar::I64 | Scalar::U64 => lanes.push(Lane::I64),
            Scalar::F32 => lanes.push(Lane::F32),
            Scalar::F64 => lanes.push(Lane::F64),
            Scalar::C128 => lanes.extend([Lane::F64, Lane::F64]),
        },
        Type::Optional(inner) => {
            lanes.push(Lane::I8);
            push_lanes(inner, lanes);
        }
        Type::Tuple(items) => items.iter().for_each(|item| push_lanes(item, lanes)),
        Type::Array(_) => {
            lanes.push(Lane::Owner);
            let rest = lane_count(ty) - 1;
            lanes.extend(std::iter::repeat_n(Lane::I64, rest));
        }
        Type::Record(_) => lanes.extend([Lane::Owner, Lane::I64]),
        Type::Struct(_) => lanes.push(Lane::Owner),
        Type::Function(_) => lanes.push(Lane::I64),
        Type::Str => lanes.extend([Lane::Owner, Lane::I64, Lane::I64]),
    }
}

/// Whether results of this type come back in memory.
pub fn returns_in_memory(result: &Type) -> bool {
    lane_count(result) > 1
}

/// The CLIF signature of a unit.
pub fn unit_signature(signature: &FunctionType, isa: &dyn TargetIsa) -> Signature {
    let mut clif = Signature::new(isa.default_call_conv());
    clif.params.push(AbiParam::new(types::I64));
    clif.returns.push(AbiParam::new(types::I64));
    if returns_in_memory(&signature.result) {
        clif.params.push(AbiParam::new(types::I64));
    } else {
        let lanes = lanes(&signature.result);
        clif.returns.extend(lanes.iter().map(|lane| AbiParam::new(lane.clif())));
    }
    for param in &signature.params {
        clif.params.extend(lanes(param).iter().map(|lane| AbiParam::new(lane.clif())));
    }
    clif
}

/// The CLIF signature of every entry: `(context, results, arguments) -> status`.
pub fn entry_signature(isa: &dyn TargetIsa) -> Signature {
    let mut clif = Signature::new(isa.default_call_conv());
    clif.params.extend([AbiParam::new(types::I64); 3]);
    clif.returns.push(AbiParam::new(types::I64));
    clif
}

/// Host data of the types that kernels know, independent of what the host calls them.
#[derive(Clone, Debug)]
pub enum Data {
    /// `None`.
    None,
    /// A bool.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// A string.
    Str(std::sync::Arc<str>),
    /// A tuple.
    Tuple(Vec<Data>),
    /// An array.
    Array(ArrayData),
    /// One record: an array without axes.
    Record(ArrayData),
    /// A structref.
    Struct(Memory),
    /// A function value: the address of a unit.
    Function(usize),
}

/// An array: where its elements lie, and what keeps them there.
#[derive(Clone, Debug)]
pub struct ArrayData {
    /// What it holds.
    pub element: Element,
    /// Keeps the elements alive. `None`: they outlive every use of this value.
    pub owner: Option<Memory>,
    /// The address of the first element.
    pub data: usize,
    /// The length of each axis.
    pub shape: Vec<u64>,
    /// The stride of each axis, in bytes.
    pub strides: Vec<i64>,
}

impl ArrayData {
    /// The strides of a dense array of this shape.
    pub fn dense_strides(shape: &[u64], size: u32, layout: Layout) -> Vec<i64> {
        let mut strides = vec![0; shape.len()];
        let mut stride = i64::from(size);
        let mut give = |axis: usize| {
            strides[axis] = stride;
            stride = stride.wrapping_mul(shape[axis] as i64);
        };
        match layout {
            Layout::F => (0..shape.len()).for_each(&mut give),
            Layout::C | Layout::A => (0..shape.len()).rev().for_each(&mut give),
        }
        strides
    }

    /// Whether the elements lie as this layout says.
    pub fn has_layout(&self, layout: Layout) -> bool {
        if layout == Layout::A || self.shape.contains(&0) {
            return true;
        }
        let dense = Self::dense_strides(&self.shape, self.element.size(), layout);
        let axes = self.shape.iter().zip(self.strides.iter().zip(&dense));
        axes.into_iter().all(|(&length, (is, should))| length == 1 || is == should)
    }

    /// The type that describes it best.
    pub fn array_type(&self) -> ArrayType {
        let layout = [Layout::C, Layout::F].into_iter().find(|&layout| self.has_layout(layout));
        ArrayType {
            element: self.element.clone(),
            ndim: self.shape.len() as u32,
            layout: layout.unwrap_or(Layout::A),
        }
    }
}

/// An exception that a kernel raised.
#[derive(Clone, Debug)]
pub struct KernelError {
    /// The name of its class.
    pub class: String,
    /// Its arguments.
    pub args: Vec<Data>,
}

impl KernelError {
    /// An exception with one text.
    pub fn new(class: &str, text: &str) -> Self {
        KernelError { class: class.into(), args: vec![Data::Str(text.into())] }
    }

    /// The first argument, if it is a text.
    pub fn text(&self) -> Option<&str> {
        match self.args.first() {
            Some(Data::Str(text)) => Some(text),
            _ => None,
        }
    }
}
