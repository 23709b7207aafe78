//! N-dimensional arrays: views of buffers that host code and kernels share.
//!
//! ```text
//!   Buffer ◄── Array (offset, shape, strides, dtype)      many views of one buffer
//!          ◄── compiled code, through `pointer()`
//! ```
//!
//! Offsets and strides count bytes. A view never reaches outside of its buffer: [`Array::view`] checks it. As with
//! NumPy, two threads that write the same element at once leave either value there.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    any::Any,
    fmt,
    ptr::NonNull,
    sync::Arc,
};

use super::dtype::{DType, Scalar, float_to_i32, float_to_i64, float_to_u64};

/// Buffers begin at a multiple of this, so that vector code may.
const ALIGNMENT: usize = 64;

/// Memory for elements. Its address never changes.
pub struct Buffer {
    pointer: NonNull<u8>,
    size: usize,
    owner: Owner,
}

enum Owner {
    /// From the allocator.
    Heap(Layout),
    /// Something else's, which gives it back when dropped.
    Other(#[expect(dead_code, reason = "kept for its drop")] Box<dyn Any + Send + Sync>),
}

// SAFETY: the memory is plain bytes without an owner thread; racing accesses are the program's own, as with NumPy.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `size` zero bytes, or none where the allocator refuses.
    pub fn zeroed(size: usize) -> Option<Arc<Buffer>> {
        let layout = Layout::from_size_align(size.max(1), ALIGNMENT).ok()?;
        // SAFETY: the layout's size is not 0.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Arc::new(Buffer { pointer, size, owner: Owner::Heap(layout) }))
    }

    /// Memory that `owner` keeps alive.
    ///
    /// # Safety
    /// `size` bytes from `pointer` may be read and written until `owner` is dropped, and hold initialised bytes.
    pub unsafe fn foreign(
        pointer: NonNull<u8>,
        size: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Arc<Buffer> {
        Arc::new(Buffer { pointer, size, owner: Owner::Other(owner) })
    }

    /// The elements of a vector, not copied.
    pub fn from_vec<T: Element>(mut elements: Vec<T>) -> Arc<Buffer> {
        let pointer = NonNull::new(elements.as_mut_ptr().cast()).unwrap_or(NonNull::dangling());
        let size = size_of_val(elements.as_slice());
        // SAFETY: the vector owns the bytes and moves into the buffer; elements are plain numbers.
        unsafe { Self::foreign(pointer, size, Box::new(elements)) }
    }

    /// The first byte.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// The number of bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Owner::Heap(layout) = self.owner {
            // SAFETY: the pointer came from the allocator with this layout.
            unsafe { dealloc(self.pointer.as_ptr(), layout) }
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.size)
    }
}

/// A view of a buffer.
#[derive(Clone, Debug)]
pub struct Array {
    buffer: Arc<Buffer>,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
    dtype: DType,
    writable: bool,
}

impl Array {
    /// A view, or none where it would reach outside of the buffer.
    pub fn view(
        buffer: Arc<Buffer>,
        offset: usize,
        shape: Vec<usize>,
        strides: Vec<isize>,
        dtype: DType,
    ) -> Option<Array> {
        if shape.len() != strides.len() {
            return None;
        }
        let mut low = i128::try_from(offset).ok()?;
        let mut high = low + dtype.size() as i128;
        if !shape.contains(&0) {
            for (&n, &stride) in shape.iter().zip(&strides) {
                let reach = (n as i128 - 1) * stride as i128;
                if reach < 0 { low += reach } else { high += reach }
            }
            if low < 0 || high > buffer.size as i128 {
                return None;
            }
        }
        Some(Array { buffer, offset, shape, strides, dtype, writable: true })
    }

    /// An array of zeros in C order, or none where it is too large.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Option<Array> {
        let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        let size = count.checked_mul(dtype.size()).filter(|&size| isize::try_from(size).is_ok())?;
        let strides = c_strides(shape, dtype.size());
        Array::view(Buffer::zeroed(size)?, 0, shape.to_vec(), strides, dtype)
    }

    /// The elements of a vector in C order, not copied.
    ///
    /// # Panics
    /// If their number is not the product of `shape`.
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: &[usize]) -> Array {
        assert_eq!(elements.len(), shape.iter().product::<usize>(), "a shape for all elements");
        let strides = c_strides(shape, size_of::<T>());
        Array {
            buffer: Buffer::from_vec(elements),
            offset: 0,
            shape: shape.to_vec(),
            strides,
            dtype: T::DTYPE,
            writable: true,
        }
    }

    /// The buffer.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// Bytes from the buffer's begin to the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of dimensions.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Bytes between neighbours in each dimension.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The type of the elements.
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// Whether elements may be written.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// The same view, for reading alone.
    pub fn read_only(mut self) -> Array {
        self.writable = false;
        self
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The first element, for compiled code. Valid while the buffer lives.
    pub fn pointer(&self) -> *mut u8 {
        // Only formed, not read: of an empty array it may lie outside.
        self.buffer.pointer.as_ptr().wrapping_add(self.offset)
    }

    /// Whether elements lie one after the other with the last index moving fastest, as NumPy's flag says it: dimensions
    /// of length 1 do not matter, and empty arrays are contiguous both ways.
    pub fn is_c_contiguous(&self) -> bool {
        self.contiguous((0..self.ndim()).rev())
    }

    /// The same with the first index moving fastest.
    pub fn is_f_contiguous(&self) -> bool {
        self.contiguous(0..self.ndim())
    }

    fn contiguous(&self, order: impl Iterator<Item = usize>) -> bool {
        let mut expected = self.dtype.size() as isize;
        self.is_empty()
            || order.into_iter().all(|d| {
                let fits = self.shape[d] == 1 || self.strides[d] == expected;
                expected *= self.shape[d] as isize;
                fits
            })
    }

    /// The same buffer under another shape and strides, with the writability of `self`.
    ///
    /// # Panics
    /// If the view would reach outside of the buffer.
    pub fn with(
        &self,
        offset: usize,
        shape: Vec<usize>,
        strides: Vec<isize>,
        dtype: DType,
    ) -> Array {
        let mut view = Array::view(self.buffer.clone(), offset, shape, strides, dtype)
            .expect("a view of a view stays in the buffer");
        view.writable = self.writable;
        view
    }

    /// The view under index `i` of the first dimension, which is in range.
    pub fn at(&self, i: usize) -> Array {
        assert!(i < self.shape[0], "an index in range");
        let offset = (self.offset as isize + i as isize * self.strides[0]) as usize;
        self.with(offset, self.shape[1..].to_vec(), self.strides[1..].to_vec(), self.dtype.clone())
    }

    /// The view with dimensions reversed.
    pub fn transposed(&self) -> Array {
        let mut view = self.clone();
        view.shape.reverse();
        view.strides.reverse();
        view
    }

    /// The view of one field of a structured array.
    pub fn field(&self, name: &str) -> Option<Array> {
        let DType::Record(layout) = &self.dtype else { return None };
        let field = layout.field(name)?;
        let mut view = self.clone();
        view.offset += field.offset;
        view.dtype = field.dtype.clone();
        Some(view)
    }

    /// The view repeated to a larger shape, or none where the shapes do not broadcast.
    pub fn broadcast(&self, shape: &[usize]) -> Option<Array> {
        let extra = shape.len().checked_sub(self.ndim())?;
        let mut strides = vec![0; shape.len()];
        for (d, &n) in self.shape.iter().enumerate() {
            if n == shape[extra + d] {
                strides[extra + d] = self.strides[d];
            } else if n != 1 {
                return None;
            }
        }
        let mut view = self.clone();
        view.shape = shape.to_vec();
        view.strides = strides;
        view.writable = false;
        Some(view)
    }

    /// The byte offsets of all elements in C order.
    pub fn offsets(&self) -> Offsets {
        Offsets {
            shape: self.shape.clone(),
            strides: self.strides.clone(),
            index: vec![0; self.shape.len()],
            at: self.offset as isize,
            left: self.len(),
        }
    }

    /// The element at a byte offset that [`Array::offsets`] gave; none of a structured array.
    pub fn read(&self, offset: usize) -> Option<Scalar> {
        Some(match self.dtype {
            DType::Bool => Scalar::Bool(self.load::<u8>(offset) != 0),
            DType::I8 => Scalar::I8(self.load(offset)),
            DType::I16 => Scalar::I16(self.load(offset)),
            DType::I32 => Scalar::I32(self.load(offset)),
            DType::I64 => Scalar::I64(self.load(offset)),
            DType::U8 => Scalar::U8(self.load(offset)),
            DType::U16 => Scalar::U16(self.load(offset)),
            DType::U32 => Scalar::U32(self.load(offset)),
            DType::U64 => Scalar::U64(self.load(offset)),
            DType::F32 => Scalar::F32(self.load(offset)),
            DType::F64 => Scalar::F64(self.load(offset)),
            DType::C128 => Scalar::C128(self.load(offset), self.load(offset + 8)),
            DType::Record(_) => return None,
        })
    }

    /// Writes an element, cast to the array's type, at a byte offset that [`Array::offsets`] gave.
    pub fn write(&self, offset: usize, value: Scalar) {
        match value.cast(&self.dtype) {
            Scalar::Bool(v) => self.store::<u8>(offset, v.into()),
            Scalar::I8(v) => self.store(offset, v),
            Scalar::I16(v) => self.store(offset, v),
            Scalar::I32(v) => self.store(offset, v),
            Scalar::I64(v) => self.store(offset, v),
            Scalar::U8(v) => self.store(offset, v),
            Scalar::U16(v) => self.store(offset, v),
            Scalar::U32(v) => self.store(offset, v),
            Scalar::U64(v) => self.store(offset, v),
            Scalar::F32(v) => self.store(offset, v),
            Scalar::F64(v) => self.store(offset, v),
            Scalar::C128(re, im) => {
                self.store(offset, re);
                self.store(offset + 8, im);
            }
        }
    }

    /// The bytes of the element at a byte offset that [`Array::offsets`] gave.
    pub fn bytes(&self, offset: usize) -> Vec<u8> {
        (offset..offset + self.dtype.size()).map(|at| self.load(at)).collect()
    }

    /// Writes the bytes of one element at a byte offset that [`Array::offsets`] gave.
    pub fn set_bytes(&self, offset: usize, bytes: &[u8]) {
        for (i, &byte) in bytes.iter().take(self.dtype.size()).enumerate() {
            self.store(offset + i, byte);
        }
    }

    /// All elements' bytes in C order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = self.dtype.size();
        if self.is_c_contiguous() && !self.is_empty() {
            // SAFETY: a contiguous view lies wholly inside of the buffer, which holds initialised bytes.
            return unsafe { std::slice::from_raw_parts(self.pointer(), self.len() * size) }
                .to_vec();
        }
        self.offsets().flat_map(|offset| self.bytes(offset)).collect()
    }

    /// The elements in C order, cast; empty of a structured array.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        fn all<S: Element, T: Element>(array: &Array, cast: impl Fn(S) -> T) -> Vec<T> {
            let Some((&n, &stride)) = array.shape.last().zip(array.strides.last()) else {
                return vec![cast(array.load(array.offset))];
            };
            let mut out = Vec::with_capacity(array.len());
            let mut rows = array.clone();
            rows.shape.pop();
            rows.strides.pop();
            if n == 0 {
                return out;
            }
            for row in rows.offsets() {
                out.extend(
                    (0..n).map(|i| cast(array.load((row as isize + i as isize * stride) as usize))),
                );
            }
            out
        }
        match self.dtype {
            DType::Bool => all::<u8, T>(self, |v| T::from_int((v != 0).into())),
            DType::I8 => all::<i8, T>(self, |v| T::from_int(v.into())),
            DType::I16 => all::<i16, T>(self, |v| T::from_int(v.into())),
            DType::I32 => all::<i32, T>(self, |v| T::from_int(v.into())),
            DType::I64 => all::<i64, T>(self, T::from_int),
            DType::U8 => all::<u8, T>(self, |v| T::from_int(v.into())),
            DType::U16 => all::<u16, T>(self, |v| T::from_int(v.into())),
            DType::U32 => all::<u32, T>(self, |v| T::from_int(v.into())),
            DType::U64 => all::<u64, T>(self, T::from_unsigned),
            DType::F32 => all::<f32, T>(self, |v| T::from_float(v.into())),
            DType::F64 => all::<f64, T>(self, T::from_float),
            DType::C128 => all::<Complex, T>(self, T::from_complex),
            DType::Record(_) => Vec::new(),
        }
    }

    fn load<T: Element>(&self, offset: usize) -> T {
        assert!(offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.buffer.size));
        // SAFETY: the bytes lie inside of the buffer, and every pattern of them is a value of a plain number.
        unsafe { self.buffer.pointer.as_ptr().add(offset).cast::<T>().read_unaligned() }
    }

    fn store<T: Element>(&self, offset: usize, value: T) {
        assert!(offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.buffer.size));
        // SAFETY: the bytes lie inside of the buffer, which is memory for plain numbers.
        unsafe { self.buffer.pointer.as_ptr().add(offset).cast::<T>().write_unaligned(value) }
    }
}

/// The strides of a contiguous array in C order.
pub fn c_strides(shape: &[usize], item: usize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = item as isize;
    for (stride, &n) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.wrapping_mul(n.max(1) as isize);
    }
    strides
}

/// The byte offsets of an array's elements in C order.
#[derive(Clone, Debug)]
pub struct Offsets {
    shape: Vec<usize>,
    strides: Vec<isize>,
    index: Vec<usize>,
    at: isize,
    left: usize,
}

impl Iterator for Offsets {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let here = self.at;
        for d in (0..self.shape.len()).rev() {
            self.index[d] += 1;
            self.at += self.strides[d];
            if self.index[d] < self.shape[d] {
                break;
            }
            self.at -= self.strides[d] * self.shape[d] as isize;
            self.index[d] = 0;
        }
        Some(here as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// A complex number as arrays hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex {
    /// The real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
}

/// A Rust type that lies in arrays.
///
/// # Safety
/// A plain number: every pattern of bytes is a value, nothing is dropped, and its size is its dtype's.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The dtype of its arrays.
    const DTYPE: DType;
    /// The value that an integer of a signed type (or bool) casts to.
    fn from_int(value: i64) -> Self;
    /// The value that an integer of an unsigned type casts to.
    fn from_unsigned(value: u64) -> Self;
    /// The value that a float casts to.
    fn from_float(value: f64) -> Self;
    /// The value that a complex number casts to.
    fn from_complex(value: Complex) -> Self {
        Self::from_float(value.re)
    }
}

macro_rules! element {
    ($($ty:ty: $dtype:ident, $float:expr;)*) => {$(
        // SAFETY: a primitive number of the size of its dtype.
        unsafe impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            fn from_int(value: i64) -> Self {
                value as $ty
            }
            fn from_unsigned(value: u64) -> Self {
                value as $ty
            }
            fn from_float(value: f64) -> Self {
                let cast: fn(f64) -> $ty = $float;
                cast(value)
            }
        }
    )*};
}

element! {
    i8: I8, |v| float_to_i32(v) as i8;
    i16: I16, |v| float_to_i32(v) as i16;
    i32: I32, float_to_i32;
    i64: I64, float_to_i64;
    u8: U8, |v| float_to_i32(v) as u8;
    u16: U16, |v| float_to_i32(v) as u16;
    u32: U32, |v| float_to_i64(v) as u32;
    u64: U64, float_to_u64;
    f32: F32, |v| v as f32;
    f64: F64, |v| v;
}

// SAFETY: two floats without padding, as complex128 is laid out.
unsafe impl Element for Complex {
    const DTYPE: DType = DType::C128;
    fn from_int(value: i64) -> Self {
        Complex { re: value as f64, im: 0.0 }
    }
    fn from_unsigned(value: u64) -> Self {
        Complex { re: value as f64, im: 0.0 }
    }
    fn from_float(value: f64) -> Self {
        Complex { re: value, im: 0.0 }
    }
    fn from_complex(value: Complex) -> Self {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_outside_of_the_buffer_are_refused() {
        let buffer = Buffer::zeroed(24).unwrap();
        let view = |offset, n, stride| {
            Array::view(buffer.clone(), offset, vec![n], vec![stride], DType::I64)
        };
        assert!(view(0, 3, 8).is_some());
        assert!(view(16, 3, -8).is_some());
        assert!(view(0, 4, 8).is_none());
        assert!(view(8, 3, -8).is_none());
        assert!(view(17, 1, 8).is_none());
        assert!(view(99, 0, 8).is_some(), "nothing of an empty view is read");
    }

    #[test]
    fn strided_views_read_in_c_order() {
        let a = Array::from_vec((0..6i64).collect(), &[2, 3]);
        assert_eq!(a.transposed().to_vec::<i64>(), [0, 3, 1, 4, 2, 5]);
        assert_eq!(a.at(1).to_vec::<f32>(), [3.0, 4.0, 5.0]);
        assert!(a.is_c_contiguous() && !a.is_f_contiguous());
        assert!(a.transposed().is_f_contiguous());
    }
}
