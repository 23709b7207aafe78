//! Tensors: elements of one type in a shared buffer, seen through dimensions and strides.
//!
//! ```text
//!   Tensor { element type, dims, strides, offset } ──Arc──► Buffer
//!      └ permute, slice, expand, reshape: other views of the same buffer
//! ```
//!
//! Strides are in elements and may be zero (an expanded axis) or negative (a reversed one). A kernel
//! writes only tensors whose buffer nobody else has.

mod buffer;

use std::fmt;

use ndarray::{ArrayView, ArrayViewD, Dimension};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::region::Region;
use crate::sync::Arc;
pub(crate) use buffer::Buffer;
pub use buffer::Plain;

/// Dimensions, outermost first.
pub type Dims = SmallVec<[usize; 6]>;
/// Strides in elements, one per dimension.
pub type Strides = SmallVec<[isize; 6]>;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "named as the types are")]
pub enum ElementType {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl ElementType {
    /// All of them.
    pub const ALL: [ElementType; 11] = [
        ElementType::F32,
        ElementType::F64,
        ElementType::I8,
        ElementType::I16,
        ElementType::I32,
        ElementType::I64,
        ElementType::U8,
        ElementType::U16,
        ElementType::U32,
        ElementType::U64,
        ElementType::Bool,
    ];

    /// The size of an element in bytes.
    pub fn size(self) -> usize {
        match self {
            ElementType::I8 | ElementType::U8 | ElementType::Bool => 1,
            ElementType::I16 | ElementType::U16 => 2,
            ElementType::F32 | ElementType::I32 | ElementType::U32 => 4,
            ElementType::F64 | ElementType::I64 | ElementType::U64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, ElementType::F32 | ElementType::F64)
    }

    /// Whether it is an integer type; truth values are none.
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != ElementType::Bool
    }

    /// Whether it has negative values.
    pub fn is_signed(self) -> bool {
        use ElementType::*;
        matches!(self, F32 | F64 | I8 | I16 | I32 | I64)
    }

    /// The name, as messages and summaries have it: `f32`, `i64`, `bool`.
    pub fn name(self) -> &'static str {
        match self {
            ElementType::F32 => "f32",
            ElementType::F64 => "f64",
            ElementType::I8 => "i8",
            ElementType::I16 => "i16",
            ElementType::I32 => "i32",
            ElementType::I64 => "i64",
            ElementType::U8 => "u8",
            ElementType::U16 => "u16",
            ElementType::U32 => "u32",
            ElementType::U64 => "u64",
            ElementType::Bool => "bool",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A Rust type that a tensor's elements can be read as.
pub trait Element: Plain {
    /// The element type.
    const TYPE: ElementType;

    /// An integer or truth value in the range of `i64`.
    fn to_i64(self) -> Option<i64>;

    /// The nearest `f64`.
    fn to_f64(self) -> f64;
}

macro_rules! elements {
    ($($rust:ty => $element:ident, $int:expr, $float:expr;)*) => {
        $(impl Element for $rust {
            const TYPE: ElementType = ElementType::$element;

            fn to_i64(self) -> Option<i64> {
                let convert: fn(Self) -> Option<i64> = $int;
                convert(self)
            }

            fn to_f64(self) -> f64 {
                let convert: fn(Self) -> f64 = $float;
                convert(self)
            }
        })*
    };
}

elements! {
    f32 => F32, |_| None, f64::from;
    f64 => F64, |_| None, |x| x;
    i8 => I8, |x| Some(x.into()), f64::from;
    i16 => I16, |x| Some(x.into()), f64::from;
    i32 => I32, |x| Some(x.into()), f64::from;
    i64 => I64, Some, |x| x as f64;
    u8 => U8, |x| Some(x.into()), f64::from;
    u16 => U16, |x| Some(x.into()), f64::from;
    u32 => U32, |x| Some(x.into()), f64::from;
    u64 => U64, |x| x.try_into().ok(), |x| x as f64;
    bool => Bool, |x| Some(x.into()), |x| f64::from(u8::from(x));
}

/// An expression in which a name stands for the Rust type of an element type.
macro_rules! with_element {
    ($element:expr, $name:ident => $body:expr) => {{
        use $crate::graph::tensor::ElementType;
        macro_rules! of {
            ($rust:ty) => {{
                type $name = $rust;
                $body
            }};
        }
        match $element {
            ElementType::F32 => of!(f32),
            ElementType::F64 => of!(f64),
            ElementType::I8 => of!(i8),
            ElementType::I16 => of!(i16),
            ElementType::I32 => of!(i32),
            ElementType::I64 => of!(i64),
            ElementType::U8 => of!(u8),
            ElementType::U16 => of!(u16),
            ElementType::U32 => of!(u32),
            ElementType::U64 => of!(u64),
            ElementType::Bool => of!(bool),
        }
    }};
}
#[cfg(feature = "cli")]
pub(crate) use with_element;

/// A tensor that is too large for this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tensor of type {element} and shape {dims:?} is too large")]
pub struct TooLarge {
    /// Its element type.
    pub element: ElementType,
    /// Its dimensions.
    pub dims: Vec<usize>,
}

/// Elements of one type in some dimensions. Clones and views share the elements.
///
/// ```
/// use cachelift::graph::Tensor;
///
/// let x = Tensor::from_slice(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let t = x.permute(&[1, 0]);
/// assert_eq!(t.dims(), [3, 2]);
/// assert_eq!(t.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// ```
#[derive(Clone)]
pub struct Tensor {
    element: ElementType,
    region: Region,
    buffer: Arc<Buffer>,
}

impl Tensor {
    /// The most bytes that one tensor may have: 8 GiB; less where any graph is to be run.
    pub const MAX_BYTES: usize =
        if cfg!(any(test, feature = "fuzzing")) { 64 << 20 } else { 8 << 30 };

    /// A tensor of zeros.
    ///
    /// # Errors
    ///
    /// If it would have more than [`MAX_BYTES`](Self::MAX_BYTES), or memory is short.
    pub fn zeros(element: ElementType, dims: &[usize]) -> Result<Self, TooLarge> {
        let too_large = || TooLarge { element, dims: dims.to_vec() };
        let bytes = byte_length(element, dims).ok_or_else(too_large)?;
        let buffer = Buffer::zeroed(bytes).ok_or_else(too_large)?;
        Ok(Self::whole(element, dims, Arc::new(buffer)))
    }

    /// A tensor of these elements, in row-major order.
    ///
    /// # Panics
    ///
    /// If there are more or fewer elements than the dimensions say.
    pub fn from_slice<T: Element>(dims: &[usize], elements: &[T]) -> Self {
        let count = dims.iter().product::<usize>();
        assert_eq!(count, elements.len(), "as many elements as the dimensions say");
        let bytes = buffer::bytes_of(elements);
        let mut tensor = Self::zeros(T::TYPE, dims).expect("as large as a slice that exists");
        tensor.bytes_mut().expect("a new tensor is nobody else's").copy_from_slice(bytes);
        tensor
    }

    /// A tensor without dimensions: one element.
    pub fn scalar<T: Element>(element: T) -> Self {
        Self::from_slice(&[], &[element])
    }

    /// A tensor of the elements of an array.
    pub fn from_array<T: Element, D: Dimension>(array: &ArrayView<'_, T, D>) -> Self {
        let elements: Vec<T> = array.iter().copied().collect();
        Self::from_slice(array.shape(), &elements)
    }

    /// A tensor of little-endian elements in row-major order, as ONNX and NumPy store them. Truth values may be
    /// any byte that is not 0. `None` if the bytes are not as many as the dimensions say.
    pub fn from_bytes(element: ElementType, dims: &[usize], bytes: &[u8]) -> Option<Self> {
        if byte_length(element, dims)? != bytes.len() {
            return None;
        }
        let mut tensor = Self::zeros(element, dims).ok()?;
        let to = tensor.bytes_mut()?;
        match element {
            ElementType::Bool => {
                to.iter_mut().zip(bytes).for_each(|(to, from)| *to = u8::from(*from != 0))
            }
            _ => to.copy_from_slice(bytes),
        }
        Some(tensor)
    }

    /// Tensors of one type and shape, one after another along a new first axis.
    pub(crate) fn stack(tensors: &[Tensor]) -> Result<Self, TooLarge> {
        let first = &tensors[0];
        let mut dims = Dims::from_slice(first.dims());
        dims.insert(0, tensors.len());
        let mut stacked = Self::zeros(first.element, &dims)?;
        let to = stacked.bytes_mut().expect("a new tensor is nobody else's");
        let each = first.len() * first.element.size();
        for (tensor, to) in tensors.iter().zip(to.chunks_exact_mut(each.max(1))) {
            let contiguous = tensor.contiguous();
            to.copy_from_slice(contiguous.as_bytes().expect("it is contiguous"));
        }
        Ok(stacked)
    }

    /// All of a buffer, which has at least as many bytes as the dimensions say.
    pub(crate) fn whole(element: ElementType, dims: &[usize], buffer: Arc<Buffer>) -> Self {
        debug_assert!(byte_length(element, dims).is_some_and(|n| n <= buffer.bytes().len()));
        Tensor { element, region: Region::whole(dims), buffer }
    }

    /// Another view of the same buffer. Every element of the region must lie in it.
    pub(crate) fn with_region(&self, element: ElementType, region: Region) -> Self {
        Tensor { element, region, buffer: Arc::clone(&self.buffer) }
    }

    /// Which elements of the buffer it has.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// The type of its elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Its dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.region.dims
    }

    /// How far apart neighbours lie along each dimension, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.region.strides
    }

    /// How many dimensions it has.
    pub fn rank(&self) -> usize {
        self.region.dims.len()
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.region.is_empty()
    }

    /// Whether its elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.region.is_contiguous()
    }

    /// Where its first element lies in the buffer, in bytes.
    fn start(&self) -> usize {
        match self.is_empty() {
            true => 0,
            false => self.region.offset * self.element.size(),
        }
    }

    /// The address of its first element, for kernels. Valid as long as the tensor or a view of it lives.
    pub fn as_ptr(&self) -> *const u8 {
        self.buffer.bytes()[self.start()..].as_ptr()
    }

    /// As [`as_ptr`](Self::as_ptr) for writing: `None` if anything else shares the elements.
    pub fn as_mut_ptr(&mut self) -> Option<*mut u8> {
        let offset = self.start();
        Some(Arc::get_mut(&mut self.buffer)?.bytes_mut()?[offset..].as_mut_ptr())
    }

    /// Whether nothing else shares the elements, so that they may be written.
    pub fn is_unique(&mut self) -> bool {
        Arc::get_mut(&mut self.buffer).is_some_and(|buffer| buffer.bytes_mut().is_some())
    }

    /// Its elements in row-major order, if they lie so and are of this type.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if T::TYPE != self.element {
            return None;
        }
        buffer::cast(self.as_bytes()?)
    }

    /// As [`as_slice`](Self::as_slice), as bytes and of any type.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        let length = self.len() * self.element.size();
        self.is_contiguous().then(|| &self.buffer.bytes()[self.start()..][..length])
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let length = self.len() * self.element.size();
        let offset = self.start();
        if !self.is_contiguous() {
            return None;
        }
        Some(&mut Arc::get_mut(&mut self.buffer)?.bytes_mut()?[offset..][..length])
    }

    /// Its elements in row-major order, copied; `None` if they are of another type.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        let contiguous = self.contiguous();
        Some(contiguous.as_slice()?.to_vec())
    }

    /// Its elements as an array; `None` if they are of another type.
    pub fn view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        if T::TYPE != self.element {
            return None;
        }
        if self.is_empty() {
            return ArrayViewD::from_shape(self.dims(), &[]).ok();
        }
        // SAFETY: every index below the dimensions lies in the buffer, which each way to make a view keeps;
        // the buffer is alive and unwritten while `self` is borrowed; elements are aligned, since
        // buffers are and offsets are whole elements.
        Some(unsafe { buffer::array_view(self.as_ptr(), self.dims(), self.strides()) })
    }

    /// Integers and truth values as `i64`, in row-major order; `None` of floating-point numbers and of `u64`s above
    /// the range.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        if self.element.is_float() {
            return None;
        }
        with_element!(self.element, T => self.to_vec::<T>()?.into_iter().map(T::to_i64).collect())
    }

    /// Numbers and truth values as `f64`, in row-major order, rounded where they must be.
    pub fn to_f64s(&self) -> Vec<f64> {
        with_element!(self.element, T => {
            self.to_vec::<T>().unwrap_or_default().into_iter().map(T::to_f64).collect()
        })
    }

    /// The same elements in row-major order without gaps: itself if they lie so, else a copy.
    pub fn contiguous(&self) -> Tensor {
        if self.is_contiguous() {
            return self.clone();
        }
        // An expanded tensor may be larger than anything that was allocated.
        let mut copy =
            Tensor::zeros(self.element, self.dims()).expect("checked when it was expanded");
        let to = copy.bytes_mut().expect("a new tensor is nobody else's");
        let size = self.element.size();
        let from = self.buffer.bytes();
        let mut next = to.chunks_exact_mut(size);
        self.region.each(|at| {
            if let Some(to) = next.next() {
                to.copy_from_slice(&from[at * size..][..size]);
            }
        });
        copy
    }

    /// A view with its axes in this order.
    ///
    /// # Panics
    ///
    /// If `order` does not name each axis once.
    pub fn permute(&self, order: &[usize]) -> Tensor {
        let mut seen: SmallVec<[bool; 6]> = SmallVec::from_elem(false, self.rank());
        assert_eq!(order.len(), self.rank(), "an order of all axes");
        for &axis in order {
            assert!(!std::mem::replace(&mut seen[axis], true), "each axis once");
        }
        self.with_region(self.element, self.region.permute(order))
    }

    /// A view of `count` places along an axis: the one at `start`, and each `step` further.
    ///
    /// # Panics
    ///
    /// If one of the places is outside.
    pub fn slice(&self, axis: usize, start: usize, step: isize, count: usize) -> Tensor {
        if count > 0 {
            let last = start as i128 + step as i128 * (count as i128 - 1);
            let inside = 0..self.dims()[axis] as i128;
            assert!(inside.contains(&(start as i128)) && inside.contains(&last), "inside the axis");
        }
        self.with_region(self.element, self.region.slice(axis, start, step, count))
    }

    /// A view of larger dimensions, which repeats what has dimension 1 or is missing on the left, as ONNX and NumPy
    /// broadcast; `None` if it cannot be so seen.
    pub fn broadcast(&self, dims: &[usize]) -> Option<Tensor> {
        byte_length(self.element, dims)?;
        Some(self.with_region(self.element, self.region.broadcast(dims)?))
    }

    /// The same elements in other dimensions: a view if they lie in order, else a copy. `None` if there are not
    /// as many.
    pub fn reshape(&self, dims: &[usize]) -> Option<Tensor> {
        byte_length(self.element, dims)?;
        if dims.iter().product::<usize>() != self.len() {
            return None;
        }
        let contiguous = self.contiguous();
        let region = contiguous.region.reshape(dims)?;
        Some(contiguous.with_region(self.element, region))
    }
}

/// Prints type and shape, and the elements of small tensors.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.element, self.dims())?;
        match self.len() {
            0..=16 => write!(f, " {:?}", self.to_f64s()),
            _ => Ok(()),
        }
    }
}

/// The strides of row-major order without gaps.
pub fn contiguous_strides(dims: &[usize]) -> Strides {
    let mut strides = Strides::from_elem(1, dims.len());
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(dims[axis].max(1) as isize);
    }
    strides
}

/// How many bytes so many elements have; `None` if they are more than a tensor may have. Dimensions that are
/// multiplied after a 0 must not overflow either: strides are computed of them.
pub fn byte_length(element: ElementType, dims: &[usize]) -> Option<usize> {
    let spread = dims.iter().try_fold(element.size(), |bytes, &dim| {
        bytes.checked_mul(dim.max(1)).filter(|&bytes| bytes <= Tensor::MAX_BYTES)
    })?;
    Some(if dims.contains(&0) { 0 } else { spread })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(dims: &[usize]) -> Tensor {
        let elements: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
        Tensor::from_slice(dims, &elements)
    }

    /// Mutants: the offset of a slice left out; a negative step taken for a positive one.
    #[test]
    fn views_see_what_arrays_see() {
        let x = counting(&[3, 4, 5]);
        let view = x.permute(&[2, 0, 1]).slice(0, 4, -2, 3).slice(2, 1, 1, 2);
        let array = x.view::<i32>().unwrap();
        let array = array.permuted_axes(vec![2, 0, 1]);
        let array = array.slice(ndarray::s![..;-2, .., 1..3]);
        assert_eq!(view.dims(), array.shape());
        let expected: Vec<i32> = array.iter().copied().collect();
        assert_eq!(view.to_vec::<i32>().unwrap(), expected);
        let seen: Vec<i32> = view.view::<i32>().unwrap().iter().copied().collect();
        assert_eq!(seen, expected);
        let flat = view.reshape(&[18]).unwrap();
        assert_eq!(flat.to_vec::<i32>().unwrap(), expected);
    }

    /// Mutant: a dimension of 1 keeps its stride.
    #[test]
    fn broadcasting_repeats() {
        let x = counting(&[3, 1]).broadcast(&[2, 3, 2]).unwrap();
        assert_eq!(x.to_vec::<i32>().unwrap(), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        assert!(counting(&[3]).broadcast(&[2]).is_none());
        assert!(counting(&[3, 1]).broadcast(&[3]).is_none());
    }

    /// Mutant: no limit but the largest number.
    #[test]
    fn what_is_too_large_is_refused() {
        assert!(Tensor::zeros(ElementType::F64, &[1 << 40, 1 << 40]).is_err());
        assert!(Tensor::zeros(ElementType::U8, &[usize::MAX, 0]).is_err());
        assert!(counting(&[1]).broadcast(&[1 << 40]).is_none());
        assert_eq!(Tensor::zeros(ElementType::U8, &[3, 0]).unwrap().len(), 0);
    }

    #[test]
    fn shared_elements_are_not_written() {
        let mut x = counting(&[2]);
        let y = x.clone();
        assert!(x.as_mut_ptr().is_none());
        drop(y);
        assert!(x.as_mut_ptr().is_some());
    }
}
