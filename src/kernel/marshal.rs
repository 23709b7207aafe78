//! Host values as kernels take them, and what kernels return as host values.
//!
//! ```text
//!   Value ──argument(value, type)──► Data ──► lanes ──► kernel ──► lanes ──► Data ──result(data, type)──► Value
//!   array, record: the same memory both ways        structref: the same object
//! ```

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use super::abi::{ArrayData, Data, KernelError};
use super::infer;
use super::ir::{Element, Type};
use super::runtime::memory::Memory;
use super::types::{ArrayTy, RecordTy, Ty};
use super::value::{
    Array, Buffer, Class, DType, ExceptionKind, Raised, Scalar, StructRef, Value,
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
    let buffer: Arc<dyn Any + Send + Sync> = Arc::clone(array.buffer()) as _;
    let owner = Memory::foreign(buffer).ok_or_else(out_of_memory)?;
    Ok(ArrayData {
        element: element(array.dtype()),
        owner: Some(owner),
        data: array.pointer().expose_provenance(),
        shape: array.shape().iter().map(|length| *length as u64).collect(),
        strides: array.strides().iter().map(|stride| *stride as i64).collect(),
    })
}

fn out_of_memory() -> Raised {
    Raised::new(ExceptionKind::MemoryError, "Allocation failed (probably too large).")
}

fn element(dtype: &DType) -> Element {
    match infer::ir_type(&Ty::Array(Arc::new(ArrayTy {
        dtype: dtype.ty(),
        ndim: 1,
        layout: super::types::Layout::C,
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
        (Data::Array(data), Ty::Array(array)) => match view(data, &array.dtype) {
            Some(view) if array.readonly => Value::Array(Arc::new(view.read_only())),
            Some(view) => Value::Array(Arc::new(view)),
            None => Value::None,
        },
        (Data::Record(data), ty) => {
            view(data, ty).map_or(Value::None, |view| Value::Record(Arc::new(view)))
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

/// An array of host code over the memory that a kernel returned.
pub(crate) fn view(data: ArrayData, dtype: &Ty) -> Option<Array> {
    let dtype = DType::from_ty(dtype)?;
    let shape: Vec<usize> = data.shape.iter().map(|length| *length as usize).collect();
    let strides: Vec<isize> = data.strides.iter().map(|stride| *stride as isize).collect();
    let foreign = data.owner.as_ref().and_then(Memory::as_foreign).cloned();
    // What came from the host goes back as the same buffer.
    if let Some(buffer) = foreign.and_then(|foreign| foreign.downcast::<Buffer>().ok()) {
        let offset = data.data.wrapping_sub(buffer.pointer().addr());
        return Array::view(buffer, offset, shape, strides, dtype);
    }
    let (owner, low, size) = match data.owner {
        Some(owner) if owner.len() > 0 => {
            let (low, size) = (owner.data().expose_provenance(), owner.len());
            (Some(owner), low, size)
        }
        owner => {
            // Memory that outlives every use, or no elements at all.
            let reach = |(length, stride): (&usize, &isize)| {
                (length.saturating_sub(1) as isize) * stride
            };
            let empty = shape.contains(&0);
            let spans = shape.iter().zip(&strides).map(reach);
            let (back, ahead): (Vec<_>, Vec<_>) = spans.partition(|span| *span < 0);
            let back = back.iter().sum::<isize>().unsigned_abs();
            let ahead = ahead.iter().sum::<isize>() as usize + dtype.size();
            let size = if empty { 0 } else { back + ahead };
            (owner, data.data.wrapping_sub(back), size)
        }
    };
    if size == 0 || data.data == 0 {
        let buffer = Buffer::zeroed(dtype.size())?;
        return Array::view(buffer, 0, shape, strides, dtype);
    }
    let pointer = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(low))?;
    // SAFETY: the bytes lie in the block that `owner` keeps, or in memory that outlives every use of the value, and kernels
    // write all that they allocate.
    let buffer = unsafe { Buffer::foreign(pointer, size, Box::new(owner)) };
    Array::view(buffer, data.data.wrapping_sub(low), shape, strides, dtype)
}

/// An exception that a kernel raised, as host code sees it.
pub(crate) fn raised(error: &KernelError) -> Raised {
    let kind = ExceptionKind::named(&error.class).unwrap_or(ExceptionKind::RuntimeError);
    let plain = |data: &Data| result(data.clone(), &Ty::None, &|_| None);
    Raised::with(kind.class(), error.args.iter().map(plain).collect())
}

/// The dtype of a structured type, for messages and signatures.
pub(crate) fn record_dtype(record: &RecordTy) -> Option<DType> {
    DType::from_ty(&Ty::Record(Arc::new(record.clone())))
}
