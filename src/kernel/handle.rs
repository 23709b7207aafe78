//! Handles on kernels: called with values of any types from the session's thread, or with numbers from any thread.
//!
//! ```text
//!   Function ── name, looked up at each call ──► host, dispatcher
//!   Typed    ── slot ──► code                    a refresh puts the new code in; calls under way finish in the old
//! ```

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::abi::KernelError;
use super::dispatch::{Dispatcher, Spec};
use super::marshal::{self, Argument};
use super::session::{Error, Program};
use super::types::Ty;
use super::value::Value;

/// A kernel, or a function of host code, of a session's program. It is looked up by its name at each call, so after a
/// refresh it is the new one.
#[derive(Clone)]
pub struct Function {
    pub(crate) program: Rc<RefCell<Program>>,
    pub(crate) name: String,
}

impl Function {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls it.
    ///
    /// # Errors
    ///
    /// What it raises; what of it is not supported.
    ///
    /// # Panics
    ///
    /// If called from within a call of the same session.
    pub fn call(&self, args: &[Value]) -> Result<Value, Error> {
        self.program.borrow_mut().call(&self.name, args)
    }

    /// Calls it with arrays of this process, which are not copied: the kernel reads and writes them where they lie.
    /// Arrays that it returns are.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call); a function that is no kernel takes no such arguments.
    ///
    /// # Panics
    ///
    /// As for `call`.
    pub fn call_with(&self, args: &mut [Argument<'_>]) -> Result<Value, Error> {
        self.program.borrow_mut().call_with(&self.name, args)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name)
    }
}

/// Code that a typed handle calls, with what keeps it.
pub(crate) struct Code {
    spec: Arc<Spec>,
    /// Its constants.
    _dispatcher: Arc<Dispatcher>,
}

/// Where the current code of a typed handle is.
pub(crate) struct Slot {
    now: AtomicPtr<Code>,
    /// All that was ever put in: calls may be under way in any of it.
    all: Mutex<Vec<Arc<Code>>>,
}

impl Slot {
    pub(crate) fn new(spec: Arc<Spec>, dispatcher: Arc<Dispatcher>) -> Arc<Self> {
        let slot = Slot { now: AtomicPtr::default(), all: Mutex::default() };
        slot.put(spec, dispatcher);
        Arc::new(slot)
    }

    /// From now on calls run this code.
    pub(crate) fn put(&self, spec: Arc<Spec>, dispatcher: Arc<Dispatcher>) {
        let code = Arc::new(Code { spec, _dispatcher: dispatcher });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        self.now.store(Arc::as_ptr(&code).cast_mut(), Ordering::Release);
        all.push(code);
    }
}

/// A kernel of one signature, `fn(i64, f64) -> f64` for example, that can be called from any thread.
///
/// A call costs little more than one by a pointer. Code that a refresh has replaced stays in memory until the last clone of
/// the handle is gone.
pub struct Typed<F> {
    pub(crate) slot: Arc<Slot>,
    pub(crate) signature: PhantomData<fn() -> F>,
}

impl<F> Clone for Typed<F> {
    fn clone(&self) -> Self {
        Typed { slot: Arc::clone(&self.slot), signature: PhantomData }
    }
}

impl<F> fmt::Debug for Typed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Typed")
    }
}

/// A number, as a typed handle takes and returns it.
pub trait Number: Copy + sealed::Sealed {
    /// Its type in kernels.
    const TYPE: Ty;
    /// The number in a register's worth of memory.
    fn to_lane(self) -> u64;
    /// The number that a register's worth of memory holds.
    fn from_lane(lane: u64) -> Self;
}

/// A type of functions that a typed handle can stand for: `fn(A, B) -> R` of up to six numbers.
pub trait Signature: sealed::Sealed {
    /// The arguments, as a tuple.
    type Arguments;
    /// The result.
    type Result;
    /// The types of the parameters in kernels.
    fn parameters() -> Vec<Ty>;
    /// The type of the result in kernels.
    fn result() -> Ty;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty: $ty:expr, $to:expr, $from:expr;)*) => {$(
        impl sealed::Sealed for $number {}
        impl Number for $number {
            const TYPE: Ty = $ty;
            fn to_lane(self) -> u64 {
                let to: fn($number) -> u64 = $to;
                to(self)
            }
            fn from_lane(lane: u64) -> Self {
                let from: fn(u64) -> $number = $from;
                from(lane)
            }
        }
    )*};
}

numbers! {
    bool: Ty::Bool, u64::from, |lane| lane & 1 == 1;
    i8: Ty::I8, |n| n as u64, |lane| lane as i8;
    i16: Ty::I16, |n| n as u64, |lane| lane as i16;
    i32: Ty::I32, |n| n as u64, |lane| lane as i32;
    i64: Ty::I64, |n| n as u64, |lane| lane as i64;
    u8: Ty::U8, u64::from, |lane| lane as u8;
    u16: Ty::U16, u64::from, |lane| lane as u16;
    u32: Ty::U32, u64::from, |lane| lane as u32;
    u64: Ty::U64, |n| n, |lane| lane;
    f32: Ty::Float32, |n| n.to_bits().into(), |lane| f32::from_bits(lane as u32);
    f64: Ty::Float64, f64::to_bits, f64::from_bits;
}

macro_rules! signatures {
    ($(($($argument:ident $number:ident),*);)*) => {$(
        impl<$($number: Number,)* R: Number> sealed::Sealed for fn($($number),*) -> R {}

        impl<$($number: Number,)* R: Number> Signature for fn($($number),*) -> R {
            type Arguments = ($($number,)*);
            type Result = R;
            fn parameters() -> Vec<Ty> {
                vec![$($number::TYPE),*]
            }
            fn result() -> Ty {
                R::TYPE
            }
        }

        impl<$($number: Number,)* R: Number> Typed<fn($($number),*) -> R> {
            /// Calls it.
            ///
            /// # Errors
            ///
            /// What the kernel raises.
            pub fn call(&self, $($argument: $number),*) -> Result<R, KernelError> {
                let lanes = [$($argument.to_lane()),*];
                self.call_lanes(&lanes).map(R::from_lane)
            }
        }
    )*};
}

signatures! {
    ();
    (a A);
    (a A, b B);
    (a A, b B, c C);
    (a A, b B, c C, d D);
    (a A, b B, c C, d D, e E);
    (a A, b B, c C, d D, e E, f F);
}

impl<F> Typed<F> {
    fn call_lanes(&self, lanes: &[u64]) -> Result<u64, KernelError> {
        let code = self.slot.now.load(Ordering::Acquire);
        // SAFETY: what was put in stays in the slot's list as long as the slot.
        let code = unsafe { &*code };
        let mut result = 0;
        // SAFETY: the handle was made for a specialisation of this signature, one lane per number.
        unsafe { code.spec.callable.call_lanes(lanes, std::slice::from_mut(&mut result)) }
            .map(|()| result)
    }

    /// The signature of the code that calls run now, as Numba spells it.
    pub fn spelled(&self) -> String {
        let code = self.slot.now.load(Ordering::Acquire);
        // SAFETY: as above.
        let spec = unsafe { &(*code).spec };
        let args: Vec<_> = spec.args.iter().map(Ty::to_string).collect();
        format!("({}) -> {}", args.join(", "), spec.returns)
    }
}

impl From<Value> for Argument<'_> {
    fn from(value: Value) -> Self {
        Argument::value(value)
    }
}

macro_rules! arguments {
    ($($number:ty => $value:expr;)*) => {$(
        impl From<$number> for Argument<'_> {
            fn from(number: $number) -> Self {
                let value: fn($number) -> Value = $value;
                Argument::value(value(number))
            }
        }
    )*};
}

arguments! {
    bool => Value::Bool;
    i64 => |n| Value::Int(n.into());
    f64 => Value::Float;
}

impl<'a, T: marshal::Element, D: ndarray::Dimension> From<&'a mut ndarray::Array<T, D>>
    for Argument<'a>
{
    fn from(array: &'a mut ndarray::Array<T, D>) -> Self {
        Argument::from(array.view_mut())
    }
}

impl<'a, T: marshal::Element, D: ndarray::Dimension> From<ndarray::ArrayViewMut<'a, T, D>>
    for Argument<'a>
{
    fn from(mut view: ndarray::ArrayViewMut<'a, T, D>) -> Self {
        let pointer = view.as_mut_ptr();
        Argument::array(pointer, view.shape(), view.strides(), true)
    }
}

impl<'a, T: marshal::Element, D: ndarray::Dimension> From<ndarray::ArrayView<'a, T, D>>
    for Argument<'a>
{
    fn from(view: ndarray::ArrayView<'a, T, D>) -> Self {
        let pointer = view.as_ptr().cast_mut();
        Argument::array(pointer, view.shape(), view.strides(), false)
    }
}
