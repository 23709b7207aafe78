//! Host values as kernels take them, and what kernels return as host values.
//!
//! ```text
//!   Value ──argument(value, type)──► Data ──► lanes ──► kernel ──► lanes ──► Data ──result(data, type)──► Value
//!   array, record: the same memory both ways        structref: the same object
//! ```

use std::any::Any;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::abi::{ArrayData, Data, KernelError};
use super::bind;
use super::dispatch::{Dispatcher, Request};
use super::host::{Host, static_attribute};
use super::infer;
use super::ir::{self, Type};
use super::runtime::{self, memory::Memory};
use super::types::{ArrayTy, Layout, Ty};
use super::value::{
    Array, Buffer, Class, DType, ExceptionKind, KernelDef, Raised, Run, Scalar, StructRef, Value,
};

/// What turns a structref that a kernel returns into a value of host code: its proxy's class.
pub(crate) type Proxies<'a> = &'a dyn Fn(&Ty) -> Option<Arc<Class>>;

/// A value as a kernel takes it for a parameter of type `ty`: numbers are converted as Numba converts them for an explicit
/// signature.
pub(crate) fn argument(value: &Value, ty: &Ty) -> Result<Data, Raised> {
    let data = match (ty, value) {
        (Ty::None | Ty::Omitted(_) | Ty::Function(_), _)
        | (Ty::Class(_) | Ty::DType(_) | Ty::Literal(_), _) => Data::None,
        (Ty::Optional(_), Value::None) => Data::None,
        (Ty::Optional(inner), value) => return argument(value, inner),
        (Ty::Bool, value) => Data::Bool(number(value).is_some_and(|scalar| scalar.truth())),
        (Ty::Int(int), value) => match number(value) {
            Some(scalar) => integer(scalar, int.signed),
            None => return Err(mismatch(value, ty)),
        },
        (Ty::Float32 | Ty::Float64, value) => match number(value).and_then(|n| n.as_float()) {
            Some(float) => Data::Float(float),
            None => return Err(mismatch(value, ty)),
        },
        (Ty::Complex128, value) => match number(value) {
            Some(scalar) => {
                let (re, im) = scalar.as_complex();
                Data::Complex(re, im)
            }
            None => return Err(mismatch(value, ty)),
        },
        (Ty::Str, Value::Str(text)) => Data::Str(Arc::clone(text)),
        (Ty::Tuple(types) | Ty::StarArgs(types), Value::Tuple(items))
            if types.len() == items.len() =>
        {
            let items = items.iter().zip(types.iter());
            Data::Tuple(items.map(|(item, ty)| argument(item, ty)).collect::<Result<_, _>>()?)
        }
        (Ty::Array(_), Value::Array(array)) => Data::Array(array_data(array)?),
        (Ty::Record(_), Value::Record(record)) => Data::Record(array_data(record)?),
        (Ty::StructRef(_), Value::StructRef(structref)) => {
            match structref.memory.downcast_ref::<Memory>() {
                Some(memory) => Data::Struct(memory.clone()),
                None => return Err(mismatch(value, ty)),
            }
        }
        (ty, value) => return Err(mismatch(value, ty)),
    };
    Ok(data)
}

/// A number of host code as one element.
pub(crate) fn number(value: &Value) -> Option<Scalar> {
    Some(match value {
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Int(value) => match i64::try_from(*value) {
            Ok(value) => Scalar::I64(value),
            Err(_) => Scalar::U64(*value as u64),
        },
        Value::Float(value) => Scalar::F64(*value),
        Value::Complex(re, im) => Scalar::C128(*re, *im),
        Value::Scalar(scalar) => *scalar,
        Value::Array(array) if array.ndim() == 0 => array.read(array.offset())?,
        _ => return None,
    })
}

fn integer(scalar: Scalar, signed: bool) -> Data {
    let scalar = scalar.cast(if signed { &DType::I64 } else { &DType::U64 });
    match scalar {
        Scalar::U64(value) => Data::UInt(value),
        other => Data::Int(other.as_int().unwrap_or_default() as i64),
    }
}

fn mismatch(value: &Value, ty: &Ty) -> Raised {
    let found = infer::type_of(value).map_or("this value".into(), |ty| ty.to_string());
    Raised::new(ExceptionKind::TypeError, format!("can't unbox {found} as {ty}"))
}

/// An array as a kernel sees it: the same memory, kept alive by the array's buffer.
pub(crate) fn array_data(array: &Array) -> Result<ArrayData, Raised> {
    block_data(array, array.pointer(), array.shape(), array.strides())
}

/// As [`array_data`], for a part of the array's buffer.
pub(crate) fn block_data(
    array: &Array,
    first: *mut u8,
    shape: &[usize],
    strides: &[isize],
) -> Result<ArrayData, Raised> {
    let buffer: Arc<dyn Any + Send + Sync> = Arc::clone(array.buffer()) as _;
    let owner = Memory::foreign(buffer).ok_or_else(out_of_memory)?;
    let shape = shape.iter().map(|length| *length as u64).collect();
    let strides = strides.iter().map(|stride| *stride as i64).collect();
    // SAFETY: the array was checked to lie inside of its buffer, which the owner keeps; all its bytes are initialised.
    Ok(unsafe { ArrayData::new(element(array.dtype()), Some(owner), first, shape, strides) })
}

fn out_of_memory() -> Raised {
    Raised::new(ExceptionKind::MemoryError, "Allocation failed (probably too large).")
}

fn element(dtype: &DType) -> ir::Element {
    match infer::ir_type(&Ty::Array(Arc::new(ArrayTy {
        dtype: dtype.ty(),
        ndim: 1,
        layout: Layout::C,
        readonly: false,
    }))) {
        Type::Array(array) => array.element,
        _ => unreachable!("an array type stays one"),
    }
}

/// What a kernel returned as Numba gives it to Python: numbers as Python's own, whatever their width.
pub(crate) fn result(data: Data, ty: &Ty, proxies: Proxies<'_>) -> Value {
    match (data, ty) {
        (Data::None, Ty::Function(def)) => Value::Kernel(Arc::clone(&def.0)),
        (Data::None, Ty::Class(ty)) => Value::Type(Ty::clone(ty)),
        (Data::None, Ty::DType(ty)) => DType::from_ty(ty).map_or(Value::None, Value::DType),
        (data, Ty::Optional(inner)) => match data {
            Data::None => Value::None,
            data => result(data, inner, proxies),
        },
        (Data::None | Data::Function(_), _) => Value::None,
        (Data::Bool(value), _) => Value::Bool(value),
        (Data::Int(value), _) => Value::Int(value.into()),
        (Data::UInt(value), _) => Value::Int(value.into()),
        (Data::Float(value), _) => Value::Float(value),
        (Data::Complex(re, im), _) => Value::Complex(re, im),
        (Data::Str(text), _) => Value::Str(text),
        (Data::Tuple(items), ty) => {
            let types = ty.elements().unwrap_or_default();
            let item = |(at, data)| result(data, types.get(at).unwrap_or(&Ty::None), proxies);
            Value::Tuple(items.into_iter().enumerate().map(item).collect())
        }
        (Data::Array(data), Ty::Array(array)) => match view(&data, &array.dtype) {
            Some(view) if array.readonly => Value::Array(Arc::new(view.read_only())),
            Some(view) => Value::Array(Arc::new(view)),
            None => Value::None,
        },
        (Data::Record(data), ty) => {
            view(&data, ty).map_or(Value::None, |view| Value::Record(Arc::new(view)))
        }
        (Data::Struct(memory), ty) => match proxies(ty) {
            Some(class) => Value::StructRef(Arc::new(StructRef {
                class,
                ty: ty.clone(),
                memory: Box::new(memory),
            })),
            None => Value::None,
        },
        (Data::Array(_), _) => Value::None,
    }
}

/// An array of host code over the memory that a kernel returned; a copy where nobody keeps that memory.
pub(crate) fn view(data: &ArrayData, dtype: &Ty) -> Option<Array> {
    let dtype = DType::from_ty(dtype)?;
    let shape: Vec<usize> = data.shape().iter().map(|length| *length as usize).collect();
    let strides: Vec<isize> = data.strides().iter().map(|stride| *stride as isize).collect();
    let first = data.data().addr();
    match data.owner() {
        Some(owner) if !shape.contains(&0) => {
            // What came from the host goes back as the same buffer.
            let foreign = owner.as_foreign().cloned();
            if let Some(buffer) = foreign.and_then(|foreign| foreign.downcast::<Buffer>().ok()) {
                let offset = first.wrapping_sub(buffer.pointer().addr());
                return Array::view(buffer, offset, shape, strides, dtype);
            }
            let pointer = NonNull::new(owner.data())?;
            let (size, low) = (owner.len(), pointer.addr().get());
            // SAFETY: the block has that many bytes for as long as it is kept, and kernels write all that they allocate.
            let buffer = unsafe { Buffer::foreign(pointer, size, Box::new(owner.clone())) };
            Array::view(buffer, first.wrapping_sub(low), shape, strides, dtype)
        }
        _ => {
            let out = Array::zeros(dtype.clone(), &shape)?;
            let bytes = data.to_bytes();
            for (offset, bytes) in out.offsets().zip(bytes.chunks(dtype.size().max(1))) {
                out.set_bytes(offset, bytes);
            }
            Some(out)
        }
    }
}

/// An exception that a kernel raised, as host code sees it.
pub(crate) fn raised(error: &KernelError) -> Raised {
    let kind = ExceptionKind::named(&error.class).unwrap_or(ExceptionKind::RuntimeError);
    Raised::with(kind.class(), error.args.iter().cloned().map(plain).collect())
}

/// An exception that a kernel raised, as host code sees it: one of the program's own classes is made by calling it.
///
/// # Errors
/// What making it raises.
pub(crate) fn raised_in(host: &mut Host, error: &KernelError) -> Run<Raised> {
    let Some((module, path)) = error.class.split_once(':') else { return Ok(raised(error)) };
    let mut found = host.modules.get(module).cloned().map(Value::Module);
    for name in path.split('.') {
        found = found.and_then(|value| static_attribute(&value, name));
    }
    let Some(class @ Value::Class(_)) = found else { return Ok(raised(error)) };
    let args = error.args.iter().cloned().map(plain).collect();
    match host.call(&class, args, Vec::new())? {
        Value::Exception(exception) => Ok(Raised { exception, trace: Vec::new() }),
        _ => Ok(raised(error)),
    }
}

/// What a kernel printed, for the host to write: the values of each `print`.
#[derive(Default)]
pub(crate) struct Printed(Mutex<Vec<Vec<Data>>>);

impl Printed {
    /// Takes the lines.
    pub(crate) fn take(&self) -> Vec<Vec<Value>> {
        let lines = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let values = |line: Vec<Data>| line.into_iter().map(plain).collect();
        lines.into_iter().map(values).collect()
    }
}

impl runtime::Host for Printed {
    fn print(&self, values: &[Data]) -> Result<(), KernelError> {
        // An array may change before it is written.
        let frozen = values.iter().map(|value| match value {
            Data::Array(array) => {
                let (element, shape) = (array.element().clone(), array.shape().to_vec());
                ArrayData::copied(element, shape, &array.to_bytes()).map_or(Data::None, Data::Array)
            }
            value => value.clone(),
        });
        let frozen = frozen.collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(frozen);
        Ok(())
    }
}

/// A value whose type is not known but from itself.
fn plain(data: Data) -> Value {
    let dtype = |element: &ir::Element| match element {
        ir::Element::Scalar(scalar) => Some(scalar_type(*scalar)),
        _ => None,
    };
    match data {
        Data::Array(data) => {
            let view = dtype(data.element()).and_then(|dtype| view(&data, &dtype));
            view.map_or(Value::None, |view| Value::Array(Arc::new(view)))
        }
        Data::Tuple(items) => Value::Tuple(items.into_iter().map(plain).collect()),
        data => result(data, &Ty::None, &|_| None),
    }
}

fn scalar_type(scalar: ir::Scalar) -> Ty {
    use ir::Scalar as S;
    match scalar {
        S::Bool => Ty::Bool,
        S::I8 => Ty::I8,
        S::I16 => Ty::I16,
        S::I32 => Ty::I32,
        S::I64 => Ty::I64,
        S::U8 => Ty::U8,
        S::U16 => Ty::U16,
        S::U32 => Ty::U32,
        S::U64 => Ty::U64,
        S::F32 => Ty::Float32,
        S::F64 => Ty::Float64,
        S::C128 => Ty::Complex128,
    }
}

/// An argument of a call from Rust: a value, or an array that is borrowed for the call.
pub struct Argument<'a> {
    kind: Kind,
    borrowed: PhantomData<&'a mut ()>,
}

enum Kind {
    Value(Value),
    Array { first: *mut u8, ty: Ty, shape: Vec<u64>, strides: Vec<i64> },
}

/// The numbers that arrays of Rust's may hold.
pub trait Element: super::array::Element {}

impl<T: super::array::Element> Element for T {}

impl Argument<'_> {
    /// A value.
    pub fn value(value: Value) -> Self {
        Argument { kind: Kind::Value(value), borrowed: PhantomData }
    }

    /// An array whose first element lies there; strides are in elements. The caller has it borrowed for as long as the
    /// argument lives.
    pub(crate) fn array<T: Element>(
        first: *mut T,
        shape: &[usize],
        strides: &[isize],
        writable: bool,
    ) -> Self {
        let size = size_of::<T>() as i64;
        let shape: Vec<_> = shape.iter().map(|length| *length as u64).collect();
        let strides: Vec<_> = strides.iter().map(|stride| *stride as i64 * size).collect();
        let dense = |order: Layout| {
            let ir_order = match order {
                Layout::F => ir::Layout::F,
                _ => ir::Layout::C,
            };
            let dense = ArrayData::dense_strides(&shape, size as u32, ir_order);
            let mut axes = shape.iter().zip(strides.iter().zip(&dense));
            shape.contains(&0) || axes.all(|(length, (is, should))| *length == 1 || is == should)
        };
        let layout = [Layout::C, Layout::F].into_iter().find(|order| dense(*order));
        let ty = Ty::Array(Arc::new(ArrayTy {
            dtype: T::DTYPE.ty(),
            ndim: shape.len() as u8,
            layout: layout.unwrap_or(Layout::A),
            readonly: !writable,
        }));
        let kind = Kind::Array { first: first.cast(), ty, shape, strides };
        Argument { kind, borrowed: PhantomData }
    }
}

/// Calls a kernel with borrowed arrays. What it returns owns its memory.
pub(crate) fn call_with(
    dispatcher: &Dispatcher,
    host: &mut Host,
    def: &Arc<KernelDef>,
    args: &mut [Argument<'_>],
) -> Run<Value> {
    let types = args.iter().map(|arg| match &arg.kind {
        Kind::Value(value) => bind::type_of(value),
        Kind::Array { ty, .. } => Ok(ty.clone()),
    });
    let types = types.collect::<Result<Vec<_>, _>>()?;
    // A structref could keep an array for longer than it is borrowed.
    if let Some(ty) = types.iter().find(|ty| matches!(ty, Ty::StructRef(_))) {
        let message = format!("{ty} cannot be passed beside borrowed arrays");
        return Err(Raised::new(ExceptionKind::TypeError, message).into());
    }
    let types = bind::choose(def, &types)?.unwrap_or(types);
    let request = Request { def: Arc::clone(def), args: types };
    let spec = dispatcher.specialise(host, &request)?;
    let data = args.iter().zip(&spec.args).map(|(arg, ty)| match &arg.kind {
        Kind::Value(value) => argument(value, ty),
        Kind::Array { first, ty, shape, strides } => {
            let element = ty.as_array().and_then(|array| DType::from_ty(&array.dtype));
            let element = self::element(&element.unwrap_or(DType::U8));
            // SAFETY: the array is borrowed for the call, for writing where the kernel may write; what outlives the call is
            // copied, because nobody owns the memory.
            let data =
                unsafe { ArrayData::new(element, None, *first, shape.clone(), strides.clone()) };
            Ok(Data::Array(data))
        }
    });
    let data = data.collect::<Result<Vec<_>, _>>()?;
    let result = spec.call_data(host, &data)?;
    Ok(self::result(result, &spec.returns, &|_| None))
}
