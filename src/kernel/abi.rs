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
use std::fmt;

use super::ir::{ArrayType, Element, FunctionType, Layout, Scalar, Type};
use super::runtime::Host;
use super::runtime::context::Context;
use super::runtime::memory::Memory;
use crate::code::Function;

/// A register's worth of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Lane {
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
    pub(super) fn clif(self) -> ClifType {
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
pub(super) fn lanes(ty: &Type) -> Vec<Lane> {
    let mut lanes = Vec::new();
    push_lanes(ty, &mut lanes);
    lanes
}

/// How many lanes a type has.
pub(super) fn lane_count(ty: &Type) -> usize {
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
pub(super) fn returns_in_memory(result: &Type) -> bool {
    lane_count(result) > 1
}

/// The CLIF signature of a unit.
pub(super) fn unit_signature(signature: &FunctionType, isa: &dyn TargetIsa) -> Signature {
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
pub(super) fn entry_signature(isa: &dyn TargetIsa) -> Signature {
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
    element: Element,
    owner: Option<Memory>,
    data: usize,
    shape: Vec<u64>,
    strides: Vec<i64>,
}

impl ArrayData {
    /// An array whose first element lies at `data`; `strides` are in bytes.
    ///
    /// # Safety
    ///
    /// Every element may be read and written, and holds what `element` says, for as long as `owner` lives; without an
    /// owner, for as long as this value and all that kernels make of it.
    ///
    /// # Panics
    ///
    /// If there are not as many strides as axes.
    pub unsafe fn new(
        element: Element,
        owner: Option<Memory>,
        data: *mut u8,
        shape: Vec<u64>,
        strides: Vec<i64>,
    ) -> Self {
        assert_eq!(shape.len(), strides.len(), "a stride for each axis");
        ArrayData { element, owner, data: data.expose_provenance(), shape, strides }
    }

    /// A dense array, in C order, of these bytes. `None` if there is no memory, or not one byte for each.
    pub fn copied(element: Element, shape: Vec<u64>, bytes: &[u8]) -> Option<Self> {
        let count = shape.iter().try_fold(1u64, |count, length| count.checked_mul(*length))?;
        if count.checked_mul(element.size().into())? != bytes.len() as u64 {
            return None;
        }
        let memory = Memory::copied(bytes)?;
        let strides = Self::dense_strides(&shape, element.size(), Layout::C);
        let data = memory.data().expose_provenance();
        Some(ArrayData { element, owner: Some(memory), data, shape, strides })
    }

    /// What it holds.
    pub fn element(&self) -> &Element {
        &self.element
    }

    /// What keeps the elements alive.
    pub fn owner(&self) -> Option<&Memory> {
        self.owner.as_ref()
    }

    /// The first element.
    pub fn data(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.data)
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The stride of each axis, in bytes.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// The bytes of all elements, in C order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = self.element.size() as usize;
        let mut bytes = Vec::new();
        let mut index = vec![0; self.shape.len()];
        for _ in 0..self.shape.iter().product::<u64>() {
            let offset: i64 = index.iter().zip(&self.strides).map(|(i, s)| *i as i64 * s).sum();
            let from = self.data().wrapping_offset(offset as isize);
            // SAFETY: whoever made the array vouched for all of its elements.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(from, size) });
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        bytes
    }

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
    /// The name of its class; behind its module and a colon, if it is the program's own.
    pub class: String,
    /// Its arguments.
    pub args: Vec<Data>,
    /// The functions that it left, innermost first: the number of the statement, and above it that of the reference that
    /// was called, from 1.
    pub(crate) left: Vec<u64>,
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.class.rsplit(':').next().unwrap_or_default();
        match self.text() {
            Some(text) => write!(f, "{class}: {text}"),
            None => f.write_str(class),
        }
    }
}

impl std::error::Error for KernelError {}

impl KernelError {
    /// An exception with one text.
    pub fn new(class: &str, text: &str) -> Self {
        KernelError { class: class.into(), args: vec![Data::Str(text.into())], left: Vec::new() }
    }

    /// The first argument, if it is a text.
    pub fn text(&self) -> Option<&str> {
        match self.args.first() {
            Some(Data::Str(text)) => Some(text),
            _ => None,
        }
    }
}

/// A type as bytes, for the runtime to know what it is handed.
pub(crate) fn describe(ty: &Type) -> Vec<u8> {
    postcard::to_stdvec(ty).expect("plain data")
}

/// A compiled kernel that can be called.
#[derive(Clone, Debug)]
pub(crate) struct Callable {
    entry: Function,
    signature: FunctionType,
}

impl Callable {
    /// The kernel with this entry.
    ///
    /// # Safety
    ///
    /// `entry` is the second of the functions that [`lower`](super::lower::lower) gave for a kernel of this signature,
    /// and everything that it and what it calls refer to is what [`Reference`](super::lower::Reference) says.
    pub(crate) unsafe fn new(entry: Function, signature: FunctionType) -> Self {
        Callable { entry, signature }
    }

    /// Calls it. Fails with what it raises, or with a `TypeError` if the arguments are not of its types.
    pub(crate) fn call(&self, args: &[Data], host: &dyn Host) -> Result<Data, KernelError> {
        let params = &self.signature.params;
        if args.len() != params.len() {
            let text = format!("expected {} arguments, got {}", params.len(), args.len());
            return Err(KernelError::new("TypeError", &text));
        }
        let mut packed = Packed::default();
        for (arg, param) in args.iter().zip(params) {
            packed.pack(arg, param)?;
        }
        let mut results = vec![0u64; lane_count(&self.signature.result)];
        let mut context = Context::new(host);
        // SAFETY: that is the signature of every entry; the lanes are those of its parameters' types, and what they refer
        // to lives in `args` and `packed`; there is room for its results; `self` keeps the code loaded.
        let status = unsafe {
            type Entry = unsafe extern "C" fn(*mut Context<'_>, *mut u64, *const u64) -> u64;
            let entry = self.entry.typed::<Entry>();
            entry(&mut context, results.as_mut_ptr(), packed.lanes.as_ptr())
        };
        if status != 0 {
            return Err(context.take_error());
        }
        // SAFETY: these are the lanes of its result, which is owned.
        Ok(unsafe { unpack_owned(&self.signature.result, &results) })
    }
}

impl Callable {
    /// Calls it with the lanes of arguments as they are; its result's come at the beginning of `results`. What it prints is
    /// lost.
    ///
    /// # Safety
    ///
    /// The lanes are those of its parameters' types, which are numbers, and there is room for those of its result.
    pub(crate) unsafe fn call_lanes(
        &self,
        lanes: &[u64],
        results: &mut [u64],
    ) -> Result<(), KernelError> {
        let mut context = Context::new(&Silent);
        // SAFETY: that is the signature of every entry; the caller vouches for the lanes; `self` keeps the code loaded.
        let status = unsafe {
            type Entry = unsafe extern "C" fn(*mut Context<'_>, *mut u64, *const u64) -> u64;
            let entry = self.entry.typed::<Entry>();
            entry(&mut context, results.as_mut_ptr(), lanes.as_ptr())
        };
        if status == 0 { Ok(()) } else { Err(context.take_error()) }
    }
}

/// A host without output.
struct Silent;

impl Host for Silent {
    fn print(&self, _: &[Data]) -> Result<(), KernelError> {
        Ok(())
    }
}

/// A structref of this type with these fields, as a kernel makes one.
///
/// Fails with a `TypeError` if the fields are not of its types, with a `MemoryError` if there is no memory.
pub(super) fn new_struct(ty: &Type, fields: &[Data]) -> Result<Memory, KernelError> {
    let Type::Struct(layout) = ty else { return Err(mismatch(ty)) };
    if fields.len() != layout.fields.len() {
        return Err(mismatch(ty));
    }
    let mut packed = Packed::default();
    let mut kinds = Vec::new();
    for (value, (_, ty)) in fields.iter().zip(&layout.fields) {
        packed.pack(value, ty)?;
        push_lanes(ty, &mut kinds);
    }
    let counted = counted_lanes(&kinds);
    let memory = counted.and_then(|counted| Memory::lanes(kinds.len(), counted));
    let memory =
        memory.ok_or_else(|| KernelError::new("MemoryError", "no memory for a structref"))?;
    for (at, (lane, kind)) in packed.lanes.iter().zip(&kinds).enumerate() {
        if *kind == Lane::Owner {
            // SAFETY: the lane is an owner, borrowed from a field's value; the structref gets a reference of its own.
            let owner = unsafe { Memory::from_owner(*lane as usize) };
            std::mem::forget(owner.clone());
            std::mem::forget(owner);
        }
        // SAFETY: the block has a lane for each, and is still nobody else's.
        unsafe { memory.data().cast::<u64>().add(at).write(*lane) };
    }
    Ok(memory)
}

/// The bits of those lanes that are owners; none if there are more lanes than bits.
pub(crate) fn counted_lanes(kinds: &[Lane]) -> Option<u64> {
    let owner = |(at, kind): (usize, &Lane)| u64::from(*kind == Lane::Owner) << at;
    (kinds.len() <= 64).then(|| kinds.iter().enumerate().map(owner).sum())
}

/// Lanes of arguments, and what they refer to besides the arguments themselves.
#[derive(Default)]
struct Packed {
    lanes: Vec<u64>,
    keep: Vec<Memory>,
}

impl Packed {
    /// Adds the lanes of a value.
    fn pack(&mut self, value: &Data, ty: &Type) -> Result<(), KernelError> {
        match (value, ty) {
            // What inference knows takes no room, whatever the host calls it.
            (_, Type::None) => {}
            (Data::None, Type::Optional(_)) => {
                self.lanes.extend(std::iter::repeat_n(0, lane_count(ty)));
            }
            (value, Type::Optional(inner)) => {
                self.lanes.push(1);
                self.pack(value, inner)?;
            }
            (value, Type::Scalar(scalar)) => self.pack_scalar(value, *scalar)?,
            (Data::Tuple(items), Type::Tuple(types)) if items.len() == types.len() => {
                for (item, ty) in items.iter().zip(types) {
                    self.pack(item, ty)?;
                }
            }
            (Data::Array(array), Type::Array(ty))
                if array.element == ty.element
                    && array.shape.len() == ty.ndim as usize
                    && array.has_layout(ty.layout) =>
            {
                self.pack_place(array);
                self.lanes.extend_from_slice(&array.shape);
                if ty.layout == Layout::A {
                    self.lanes.extend(array.strides.iter().map(|stride| *stride as u64));
                }
            }
            (Data::Record(record), Type::Record(ty)) if matches!(&record.element, Element::Record(own) if own == ty) =>
            {
                self.pack_place(record);
            }
            (Data::Struct(memory), Type::Struct(_)) => self.lanes.push(memory.as_owner() as u64),
            (Data::Function(address), Type::Function(_)) => self.lanes.push(*address as u64),
            (Data::Str(text), Type::Str) => {
                let refused = || KernelError::new("MemoryError", "a string is too long");
                let memory = Memory::copied(text.as_bytes()).ok_or_else(refused)?;
                let data = memory.data().expose_provenance();
                self.lanes.extend([memory.as_owner() as u64, data as u64, text.len() as u64]);
                self.keep.push(memory);
            }
            _ => return Err(mismatch(ty)),
        }
        Ok(())
    }

    fn pack_place(&mut self, array: &ArrayData) {
        let owner = array.owner.as_ref().map_or(0, Memory::as_owner);
        self.lanes.extend([owner as u64, array.data as u64]);
    }

    fn pack_scalar(&mut self, value: &Data, scalar: Scalar) -> Result<(), KernelError> {
        let lane = match (value, scalar) {
            (Data::Bool(value), Scalar::Bool) => u64::from(*value),
            (Data::Bool(value), _) if scalar.is_int() => u64::from(*value),
            (Data::Int(value), _) if scalar.is_int() => *value as u64,
            (Data::UInt(value), _) if scalar.is_int() => *value,
            (Data::Complex(re, im), Scalar::C128) => {
                self.lanes.push(re.to_bits());
                im.to_bits()
            }
            (value, Scalar::F32 | Scalar::F64 | Scalar::C128) => {
                let number = match value {
                    Data::Float(value) => *value,
                    Data::Int(value) => *value as f64,
                    Data::UInt(value) => *value as f64,
                    Data::Bool(value) => f64::from(u8::from(*value)),
                    _ => return Err(mismatch(&Type::Scalar(scalar))),
                };
                match scalar {
                    Scalar::F32 => u64::from((number as f32).to_bits()),
                    Scalar::F64 => number.to_bits(),
                    _ => {
                        self.lanes.push(number.to_bits());
                        0
                    }
                }
            }
            _ => return Err(mismatch(&Type::Scalar(scalar))),
        };
        self.lanes.push(lane);
        Ok(())
    }
}

fn mismatch(ty: &Type) -> KernelError {
    KernelError::new("TypeError", &format!("an argument is not of its type {ty:?}"))
}

/// The value that these lanes are; its owners are counted once more.
///
/// # Safety
///
/// The lanes are those of a live value of this type; of a narrow lane the low bytes count.
pub(crate) unsafe fn unpack_borrowed(ty: &Type, lanes: &[u64]) -> Data {
    let mut reader = Reader { lanes: lanes.iter(), is_owned: false };
    reader.read(ty)
}

/// The value that these lanes are; its owners are taken over.
///
/// # Safety
///
/// As for [`unpack_borrowed`], and the lanes are not used again.
pub(crate) unsafe fn unpack_owned(ty: &Type, lanes: &[u64]) -> Data {
    let mut reader = Reader { lanes: lanes.iter(), is_owned: true };
    reader.read(ty)
}

/// Reads lanes. Made by the two functions above alone, whose callers vouch for the lanes.
struct Reader<'a> {
    lanes: std::slice::Iter<'a, u64>,
    is_owned: bool,
}

impl Reader<'_> {
    fn lane(&mut self) -> u64 {
        *self.lanes.next().expect("as many lanes as the type has")
    }

    fn owner(&mut self) -> Option<Memory> {
        let owner = self.lane() as usize;
        // SAFETY: an owner lane of a live value.
        let memory = unsafe { Memory::from_owner(owner) };
        if !self.is_owned {
            std::mem::forget(memory.clone());
        }
        memory
    }

    fn read(&mut self, ty: &Type) -> Data {
        match ty {
            Type::None => Data::None,
            Type::Scalar(scalar) => self.scalar(*scalar),
            Type::Optional(inner) => {
                let is_some = self.lane() as u8 != 0;
                let value = self.read(inner);
                if is_some { value } else { Data::None }
            }
            Type::Tuple(items) => Data::Tuple(items.iter().map(|item| self.read(item)).collect()),
            Type::Array(array) => {
                let (owner, data) = (self.owner(), self.lane() as usize);
                let shape: Vec<u64> = (0..array.ndim).map(|_| self.lane()).collect();
                let strides = match array.layout {
                    Layout::A => (0..array.ndim).map(|_| self.lane() as i64).collect(),
                    layout => ArrayData::dense_strides(&shape, array.element.size(), layout),
                };
                Data::Array(ArrayData {
                    element: array.element.clone(),
                    owner,
                    data,
                    shape,
                    strides,
                })
            }
            Type::Record(record) => {
                let (owner, data) = (self.owner(), self.lane() as usize);
                let element = Element::Record(record.clone());
                let (shape, strides) = (Vec::new(), Vec::new());
                Data::Record(ArrayData { element, owner, data, shape, strides })
            }
            Type::Struct(_) => self.owner().map_or(Data::None, Data::Struct),
            Type::Function(_) => Data::Function(self.lane() as usize),
            Type::Str => {
                let (owner, data, length) = (self.owner(), self.lane(), self.lane() as usize);
                let data = std::ptr::with_exposed_provenance::<u8>(data as usize);
                let bytes = if length == 0 {
                    &[]
                } else {
                    // SAFETY: the lanes of a live string.
                    unsafe { std::slice::from_raw_parts(data, length) }
                };
                let text = String::from_utf8_lossy(bytes).into();
                drop(owner);
                Data::Str(text)
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Data {
        let lane = self.lane();
        match scalar {
            Scalar::Bool => Data::Bool(lane as u8 != 0),
            Scalar::I8 => Data::Int((lane as i8).into()),
            Scalar::I16 => Data::Int((lane as i16).into()),
            Scalar::I32 => Data::Int((lane as i32).into()),
            Scalar::I64 => Data::Int(lane as i64),
            Scalar::U8 => Data::UInt((lane as u8).into()),
            Scalar::U16 => Data::UInt((lane as u16).into()),
            Scalar::U32 => Data::UInt((lane as u32).into()),
            Scalar::U64 => Data::UInt(lane),
            Scalar::F32 => Data::Float(f32::from_bits(lane as u32).into()),
            Scalar::F64 => Data::Float(f64::from_bits(lane)),
            Scalar::C128 => Data::Complex(f64::from_bits(lane), f64::from_bits(self.lane())),
        }
    }
}
