//! NumPy for host code: enough to make arrays, look at them and combine them.
//!
//! ```text
//!   member: names ─► Builtin            call ─┬─ make.rs    zeros, arange, array, load, ...
//!   attribute: of arrays and scalars          ├─ ufunc.rs   element-wise: operators, sin, where, ...
//!                                             ├─ reduce.rs  sum, max, cumsum, sort, dot, ...
//!   select.rs: indexing                       └─ shape.rs   reshape, stack, flip, ...
//! ```

mod make;
mod npy;
mod reduce;
mod select;
mod shape;
mod ufunc;

use std::sync::Arc;

pub(in crate::kernel) use make::limits;
pub(super) use make::make_scalar;
pub(super) use select::{get_item, record_item, set_item, set_record_item};
pub(super) use ufunc::{binary, binary_in_place, compare, unary};

use super::{
    Host,
    call::{Args, Keywords, method},
    error::{raise, refuse},
    modules,
};
use crate::kernel::{
    array::{Array, Element},
    dtype::{DType, Kind, Scalar},
    exception::ExceptionKind as E,
    value::{Builtin, Run, Value},
};

/// The functions and types that host code or kernels know. NumPy's aliases stand in [`ALIASES`].
const NAMES: &[&str] = &[
    "numpy.absolute",
    "numpy.add",
    "numpy.all",
    "numpy.allclose",
    "numpy.any",
    "numpy.append",
    "numpy.arange",
    "numpy.arccos",
    "numpy.arccosh",
    "numpy.arcsin",
    "numpy.arcsinh",
    "numpy.arctan",
    "numpy.arctan2",
    "numpy.arctanh",
    "numpy.argmax",
    "numpy.argmin",
    "numpy.argsort",
    "numpy.argwhere",
    "numpy.array",
    "numpy.array_equal",
    "numpy.asarray",
    "numpy.ascontiguousarray",
    "numpy.asfortranarray",
    "numpy.atleast_1d",
    "numpy.atleast_2d",
    "numpy.average",
    "numpy.bincount",
    "numpy.bitwise_and",
    "numpy.bitwise_or",
    "numpy.bitwise_xor",
    "numpy.broadcast_to",
    "numpy.cbrt",
    "numpy.ceil",
    "numpy.clip",
    "numpy.column_stack",
    "numpy.concatenate",
    "numpy.conjugate",
    "numpy.convolve",
    "numpy.copy",
    "numpy.copysign",
    "numpy.copyto",
    "numpy.cos",
    "numpy.cosh",
    "numpy.count_nonzero",
    "numpy.cross",
    "numpy.cumprod",
    "numpy.cumsum",
    "numpy.deg2rad",
    "numpy.degrees",
    "numpy.delete",
    "numpy.diag",
    "numpy.diff",
    "numpy.digitize",
    "numpy.divide",
    "numpy.divmod",
    "numpy.dot",
    "numpy.dtype",
    "numpy.empty",
    "numpy.empty_like",
    "numpy.equal",
    "numpy.exp",
    "numpy.exp2",
    "numpy.expand_dims",
    "numpy.expm1",
    "numpy.eye",
    "numpy.fabs",
    "numpy.fill_diagonal",
    "numpy.finfo",
    "numpy.flatnonzero",
    "numpy.flip",
    "numpy.fliplr",
    "numpy.flipud",
    "numpy.float_power",
    "numpy.floating",
    "numpy.floor",
    "numpy.floor_divide",
    "numpy.fmax",
    "numpy.fmin",
    "numpy.fmod",
    "numpy.frombuffer",
    "numpy.full",
    "numpy.full_like",
    "numpy.generic",
    "numpy.geomspace",
    "numpy.gcd",
    "numpy.greater",
    "numpy.greater_equal",
    "numpy.histogram",
    "numpy.hstack",
    "numpy.hypot",
    "numpy.identity",
    "numpy.iinfo",
    "numpy.imag",
    "numpy.inner",
    "numpy.integer",
    "numpy.interp",
    "numpy.invert",
    "numpy.iscomplexobj",
    "numpy.isclose",
    "numpy.isfinite",
    "numpy.isin",
    "numpy.isinf",
    "numpy.isnan",
    "numpy.isscalar",
    "numpy.kron",
    "numpy.lcm",
    "numpy.left_shift",
    "numpy.less",
    "numpy.less_equal",
    "numpy.linspace",
    "numpy.load",
    "numpy.log",
    "numpy.log10",
    "numpy.log1p",
    "numpy.log2",
    "numpy.logaddexp",
    "numpy.logical_and",
    "numpy.logical_not",
    "numpy.logical_or",
    "numpy.logical_xor",
    "numpy.logspace",
    "numpy.matmul",
    "numpy.max",
    "numpy.maximum",
    "numpy.mean",
    "numpy.median",
    "numpy.meshgrid",
    "numpy.min",
    "numpy.minimum",
    "numpy.moveaxis",
    "numpy.multiply",
    "numpy.nan_to_num",
    "numpy.nanargmax",
    "numpy.nanargmin",
    "numpy.nancumsum",
    "numpy.nanmax",
    "numpy.nanmean",
    "numpy.nanmedian",
    "numpy.nanmin",
    "numpy.nanprod",
    "numpy.nanstd",
    "numpy.nansum",
    "numpy.nanvar",
    "numpy.ndarray",
    "numpy.ndenumerate",
    "numpy.ndim",
    "numpy.ndindex",
    "numpy.negative",
    "numpy.nextafter",
    "numpy.nonzero",
    "numpy.not_equal",
    "numpy.number",
    "numpy.ones",
    "numpy.ones_like",
    "numpy.outer",
    "numpy.percentile",
    "numpy.positive",
    "numpy.power",
    "numpy.prod",
    "numpy.ptp",
    "numpy.quantile",
    "numpy.rad2deg",
    "numpy.radians",
    "numpy.ravel",
    "numpy.real",
    "numpy.reciprocal",
    "numpy.remainder",
    "numpy.repeat",
    "numpy.reshape",
    "numpy.right_shift",
    "numpy.rint",
    "numpy.roll",
    "numpy.rot90",
    "numpy.round",
    "numpy.row_stack",
    "numpy.save",
    "numpy.searchsorted",
    "numpy.shape",
    "numpy.sign",
    "numpy.signbit",
    "numpy.sin",
    "numpy.sinc",
    "numpy.sinh",
    "numpy.size",
    "numpy.sort",
    "numpy.split",
    "numpy.sqrt",
    "numpy.square",
    "numpy.squeeze",
    "numpy.stack",
    "numpy.std",
    "numpy.subtract",
    "numpy.sum",
    "numpy.swapaxes",
    "numpy.take",
    "numpy.tan",
    "numpy.tanh",
    "numpy.tile",
    "numpy.trace",
    "numpy.transpose",
    "numpy.trapezoid",
    "numpy.tri",
    "numpy.tril",
    "numpy.triu",
    "numpy.trunc",
    "numpy.union1d",
    "numpy.unique",
    "numpy.var",
    "numpy.void",
    "numpy.vstack",
    "numpy.where",
    "numpy.zeros",
    "numpy.zeros_like",
];

/// Other names of the same functions.
const ALIASES: &[(&str, &str)] = &[
    ("abs", "absolute"),
    ("acos", "arccos"),
    ("acosh", "arccosh"),
    ("amax", "max"),
    ("amin", "min"),
    ("around", "round"),
    ("asin", "arcsin"),
    ("asinh", "arcsinh"),
    ("atan", "arctan"),
    ("atan2", "arctan2"),
    ("atanh", "arctanh"),
    ("bitwise_invert", "invert"),
    ("bitwise_left_shift", "left_shift"),
    ("bitwise_not", "invert"),
    ("bitwise_right_shift", "right_shift"),
    ("concat", "concatenate"),
    ("conj", "conjugate"),
    ("mod", "remainder"),
    ("permute_dims", "transpose"),
    ("pow", "power"),
    ("true_divide", "divide"),
];

/// What the module has under a name.
pub(super) fn member(name: &str) -> Option<Value> {
    let dtype = match name {
        "bool" | "bool_" => Some(DType::Bool),
        "int_" | "intp" | "long" | "longlong" => Some(DType::I64),
        "uint" | "uintp" | "ulong" | "ulonglong" => Some(DType::U64),
        "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64"
        | "float32" | "float64" | "complex128" | "byte" | "ubyte" | "short" | "ushort" | "intc"
        | "uintc" | "single" | "double" | "cdouble" => DType::named(name),
        _ => None,
    };
    if let Some(dtype) = dtype {
        return Some(Value::ScalarType(dtype));
    }
    Some(match name {
        "pi" => Value::Float(std::f64::consts::PI),
        "e" => Value::Float(std::f64::consts::E),
        "inf" => Value::Float(f64::INFINITY),
        "nan" => Value::Float(f64::NAN),
        "euler_gamma" => Value::Float(0.577_215_664_901_532_9),
        "newaxis" => Value::None,
        "__version__" => Value::str("2.4.6".into()),
        "True_" => Value::Scalar(Scalar::Bool(true)),
        "False_" => Value::Scalar(Scalar::Bool(false)),
        _ => {
            let name =
                ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
            return modules::builtin_of(NAMES, &format!("numpy.{name}"));
        }
    })
}

/// The dtype that a value means, as `dtype=` takes it.
pub(super) fn dtype_of(value: &Value) -> Option<DType> {
    match value {
        Value::DType(dtype) | Value::ScalarType(dtype) => Some(dtype.clone()),
        Value::Builtin(Builtin("builtins.int")) => Some(DType::I64),
        Value::Builtin(Builtin("builtins.float")) => Some(DType::F64),
        Value::Builtin(Builtin("builtins.bool")) => Some(DType::Bool),
        Value::Builtin(Builtin("builtins.complex")) => Some(DType::C128),
        Value::Str(name) => DType::named(name),
        Value::Type(ty) => DType::from_ty(ty),
        _ => None,
    }
}

/// The dtype that an argument names; a list describes a record.
pub(super) fn dtype_argument(host: &mut Host, value: &Value) -> Run<DType> {
    if let Value::List(_) = value {
        return make::record_dtype(host, value, false);
    }
    match (dtype_of(value), value) {
        (Some(dtype), _) => Ok(dtype),
        (None, Value::None) => Ok(DType::F64),
        (None, _) => refuse(
            "this dtype is not supported",
            "bool, int8 to int64, uint8 to uint64, float32, float64, complex128 and lists of fields are",
        ),
    }
}

/// An array without dimensions as its scalar or record; others as they are.
pub(super) fn element(array: &Array) -> Value {
    if array.ndim() > 0 {
        return Value::Array(Arc::new(array.clone()));
    }
    match array.read(array.offset()) {
        Some(scalar) => Value::Scalar(scalar),
        None => Value::Record(Arc::new(array.clone())),
    }
}

/// An array value.
pub(super) fn array(array: Array) -> Value {
    Value::Array(Arc::new(array))
}

/// An array of zeros; an error where it is too large.
pub(super) fn zeros(dtype: DType, shape: &[usize]) -> Run<Array> {
    match Array::zeros(dtype.clone(), shape) {
        Some(array) => Ok(array),
        None => raise(
            E::MemoryError,
            format!(
                "Unable to allocate an array with shape {} and data type {dtype}",
                crate::kernel::format::array::shape(shape)
            ),
        ),
    }
}

/// The elements as another type, in C order; the same array where nothing changes.
pub(super) fn cast(array: &Array, dtype: &DType) -> Run<Array> {
    let shape = array.shape();
    fn all<T: Element>(array: &Array) -> Array {
        Array::from_vec(array.to_vec::<T>(), array.shape())
    }
    Ok(match dtype {
        DType::Record(_) => {
            if array.dtype() != dtype {
                return refuse(
                    "this cast between records is not supported",
                    "make the array with the right dtype",
                );
            }
            let out = zeros(dtype.clone(), shape)?;
            for (from, to) in array.offsets().zip(out.offsets()) {
                out.set_bytes(to, &array.bytes(from));
            }
            out
        }
        _ if matches!(array.dtype(), DType::Record(_)) => {
            return refuse("a record cannot become a number", "take one of its fields");
        }
        DType::Bool => {
            let truth =
                |scalar: Option<Scalar>| ufunc::Bool::new(scalar.is_some_and(|s| s.truth()));
            let bools: Vec<ufunc::Bool> = array.offsets().map(|at| truth(array.read(at))).collect();
            Array::from_vec(bools, shape)
        }
        DType::I8 => all::<i8>(array),
        DType::I16 => all::<i16>(array),
        DType::I32 => all::<i32>(array),
        DType::I64 => all::<i64>(array),
        DType::U8 => all::<u8>(array),
        DType::U16 => all::<u16>(array),
        DType::U32 => all::<u32>(array),
        DType::U64 => all::<u64>(array),
        DType::F32 if array.dtype().is_integer() => {
            // Through float64 it would be rounded twice.
            let out = zeros(DType::F32, shape)?;
            for (from, to) in array.offsets().zip(out.offsets()) {
                if let Some(scalar) = array.read(from) {
                    out.write(to, scalar);
                }
            }
            out
        }
        DType::F32 => all::<f32>(array),
        DType::F64 => all::<f64>(array),
        DType::C128 => all::<crate::kernel::array::Complex>(array),
    })
}

/// Whether any element is true.
pub(super) fn any(value: &Value) -> Run<bool> {
    Ok(match value {
        Value::Array(array) => array.offsets().any(|at| array.read(at).is_some_and(|v| v.truth())),
        Value::Scalar(scalar) => scalar.truth(),
        Value::Bool(v) => *v,
        _ => false,
    })
}

/// The values of a record's fields.
pub(super) fn record_items(record: &Array) -> Vec<Value> {
    match record.dtype() {
        DType::Record(layout) => layout
            .fields
            .iter()
            .filter_map(|field| record.field(&field.name))
            .map(|f| element(&f))
            .collect(),
        _ => Vec::new(),
    }
}

/// A field of a record.
pub(super) fn record_field(record: &Array, name: &str) -> Option<Array> {
    record.field(name)
}

/// Writes a value to all elements of a view.
pub(super) fn fill(host: &mut Host, target: &Array, value: &Value) -> Run<()> {
    select::assign(host, target, value)
}

const METHODS: &[&str] = &[
    "array.all",
    "array.any",
    "array.argmax",
    "array.argmin",
    "array.argsort",
    "array.astype",
    "array.clip",
    "array.conj",
    "array.conjugate",
    "array.copy",
    "array.cumprod",
    "array.cumsum",
    "array.diagonal",
    "array.dot",
    "array.fill",
    "array.flatten",
    "array.item",
    "array.max",
    "array.mean",
    "array.min",
    "array.nonzero",
    "array.prod",
    "array.ptp",
    "array.ravel",
    "array.repeat",
    "array.reshape",
    "array.round",
    "array.setflags",
    "array.sort",
    "array.squeeze",
    "array.std",
    "array.sum",
    "array.swapaxes",
    "array.take",
    "array.tobytes",
    "array.tolist",
    "array.trace",
    "array.transpose",
    "array.var",
    "array.view",
];

fn find_method(object: &Value, name: &str) -> Option<Value> {
    let path = METHODS.iter().find(|path| path.strip_prefix("array.") == Some(name))?;
    Some(method(object, path))
}

/// An attribute of an array.
pub(super) fn attribute(a: &Arc<Array>, object: &Value, name: &str) -> Run<Option<Value>> {
    let int = |n: usize| Value::Int(n as i128);
    Ok(Some(match name {
        "shape" => Value::tuple(a.shape().iter().map(|&n| int(n)).collect()),
        "strides" => Value::tuple(a.strides().iter().map(|&n| Value::Int(n as i128)).collect()),
        "ndim" => int(a.ndim()),
        "size" => int(a.len()),
        "itemsize" => int(a.dtype().size()),
        "nbytes" => int(a.dtype().size() * a.len()),
        "dtype" => Value::DType(a.dtype().clone()),
        "T" => array(a.transposed()),
        "real" => match a.dtype() {
            DType::C128 => array(part(a, 0)),
            _ => object.clone(),
        },
        "imag" => match a.dtype() {
            DType::C128 => array(part(a, 8)),
            dtype => array(zeros(dtype.clone(), a.shape())?.read_only()),
        },
        "flat" => Value::iterator(super::Iter::Items(shape::flat(a).into_iter())),
        "flags" => {
            return refuse(
                "`flags` is not supported",
                "ask a type in an overload, or copy the array",
            );
        }
        "ctypes" => {
            return refuse("`ctypes` of an array is not supported", "pass the array to a kernel");
        }
        _ => return Ok(find_method(object, name)),
    }))
}

/// The real or imaginary parts, as a view.
fn part(a: &Array, offset: usize) -> Array {
    a.with(a.offset() + offset, a.shape().to_vec(), a.strides().to_vec(), DType::F64)
}

/// An attribute of a scalar.
pub(super) fn scalar_attribute(scalar: &Scalar, object: &Value, name: &str) -> Option<Value> {
    let dtype = scalar.dtype();
    Some(match name {
        "dtype" => Value::DType(dtype),
        "shape" | "strides" => Value::tuple(Vec::new()),
        "ndim" => Value::Int(0),
        "size" => Value::Int(1),
        "itemsize" | "nbytes" => Value::Int(dtype.size() as i128),
        "real" => match *scalar {
            Scalar::C128(re, _) => Value::Scalar(Scalar::F64(re)),
            _ => object.clone(),
        },
        "imag" => match *scalar {
            Scalar::C128(_, im) => Value::Scalar(Scalar::F64(im)),
            _ => Value::Scalar(Scalar::I64(0).cast(&dtype)),
        },
        "T" => object.clone(),
        "is_integer" if matches!(dtype.kind(), Kind::Float) => method(object, "array.is_integer"),
        "bit_count" if dtype.is_integer() => method(object, "array.bit_count"),
        _ => return find_method(object, name),
    })
}

/// An attribute of a dtype.
pub(super) fn dtype_attribute(dtype: &DType, object: &Value, name: &str) -> Option<Value> {
    Some(match name {
        "name" => Value::str(match dtype {
            DType::Record(layout) => format!("void{}", layout.size * 8),
            other => other.name().into(),
        }),
        "itemsize" => Value::Int(dtype.size() as i128),
        "alignment" => Value::Int(dtype.alignment() as i128),
        "kind" => Value::str(dtype.code()[1..2].into()),
        "str" => Value::str(dtype.code()),
        "type" => match dtype {
            DType::Record(_) => Value::Builtin(Builtin("numpy.void")),
            other => Value::ScalarType(other.clone()),
        },
        "names" => match dtype {
            DType::Record(layout) => Value::tuple(
                layout.fields.iter().map(|field| Value::Str(field.name.clone())).collect(),
            ),
            _ => Value::None,
        },
        "fields" => match dtype {
            DType::Record(layout) => super::containers::dict(layout.fields.iter().map(|field| {
                let place =
                    vec![Value::DType(field.dtype.clone()), Value::Int(field.offset as i128)];
                (Value::Str(field.name.clone()), Value::tuple(place))
            })),
            _ => Value::None,
        },
        "base" => object.clone(),
        "shape" => Value::tuple(Vec::new()),
        _ => return None,
    })
}

/// `dtype["field"]`.
pub(super) fn dtype_item(object: &Value, index: &Value) -> Run<Value> {
    if let (Value::DType(DType::Record(layout)), Value::Str(name)) = (object, index) {
        if let Some(field) = layout.field(name) {
            return Ok(Value::DType(field.dtype.clone()));
        }
        return raise(E::KeyError, format!("\"Field named '{name}' not found.\""));
    }
    raise(E::KeyError, format!("\"There are no fields in dtype {}.\"", object.type_name()))
}

/// Calls one of NumPy's functions.
pub(super) fn call(
    host: &mut Host,
    builtin: Builtin,
    args: Vec<Value>,
    keywords: Keywords,
) -> Run<Value> {
    let name = builtin.name();
    if let Some(result) = make::call(host, name, &args, &keywords)? {
        return Ok(result);
    }
    if let Some(result) = ufunc::call(host, name, &args, &keywords)? {
        return Ok(result);
    }
    if let Some(result) = reduce::call(host, name, &args, &keywords)? {
        return Ok(result);
    }
    if let Some(result) = shape::call(host, name, &args, &keywords)? {
        return Ok(result);
    }
    refuse(
        format!("`numpy.{name}` is not supported in host code"),
        "compute it in a kernel or in host code of your own",
    )
}

/// Calls a method of an array or scalar.
pub(super) fn call_method(
    host: &mut Host,
    object: &Value,
    name: &str,
    builtin: Builtin,
    args: Vec<Value>,
    keywords: Keywords,
) -> Run<Value> {
    let a = make::as_array(host, object)?;
    let take = |args, keywords| Args::new(builtin.name(), args, keywords);
    Ok(match name {
        "astype" => {
            let [dtype, copy] = take(args, keywords).take(["dtype", "copy"], 1)?;
            let dtype = dtype_argument(host, &dtype.unwrap_or_default())?;
            let same = a.dtype() == &dtype && matches!(copy, Some(Value::Bool(false)));
            if same { object.clone() } else { element(&shape::copy_as(&a, &dtype)?) }
        }
        "copy" => {
            take(args, keywords).take(["order"], 0)?;
            element(&cast(&a, a.dtype())?)
        }
        "tolist" => {
            take(args, keywords).exactly::<0>()?;
            shape::to_list(&a)
        }
        "item" => {
            let index = take(args, keywords).all()?;
            let found = match index.as_slice() {
                [] if a.len() == 1 => {
                    element(&a.with(a.offset(), Vec::new(), Vec::new(), a.dtype().clone()))
                }
                [] => {
                    return raise(
                        E::ValueError,
                        "can only convert an array of size 1 to a Python scalar",
                    );
                }
                [one] if a.ndim() != 1 && !matches!(one, Value::Tuple(_)) => {
                    let flat = array(shape::ravel(&a)?);
                    host.item(&flat, one)?
                }
                [one] => host.item(&array((*a).clone()), one)?,
                many => host.item(&array((*a).clone()), &Value::tuple(many.to_vec()))?,
            };
            match found {
                Value::Scalar(scalar) => super::attributes::item(&scalar),
                Value::Record(record) => Value::tuple(
                    record_items(&record)
                        .into_iter()
                        .map(|item| match item {
                            Value::Scalar(scalar) => super::attributes::item(&scalar),
                            other => other,
                        })
                        .collect(),
                ),
                other => other,
            }
        }
        "fill" => {
            let [value] = take(args, keywords).exactly()?;
            select::check_writable(&a)?;
            fill(host, &a, &value)?;
            Value::None
        }
        "tobytes" => {
            take(args, keywords).exactly::<0>()?;
            Value::Bytes(a.to_bytes().into())
        }
        "is_integer" => match object {
            Value::Scalar(scalar) => {
                Value::Bool(scalar.as_float().is_some_and(|v| v.is_finite() && v.fract() == 0.0))
            }
            _ => Value::None,
        },
        "bit_count" => match object {
            Value::Scalar(scalar) => {
                Value::Int(scalar.as_int().unwrap_or_default().unsigned_abs().count_ones().into())
            }
            _ => Value::None,
        },
        "setflags" => {
            let [write] = take(args, keywords).take(["write"], 0)?;
            match write {
                Some(Value::Bool(false)) => {
                    return refuse("`setflags` is not supported", "give a copy away instead");
                }
                _ => Value::None,
            }
        }
        "view" => {
            let [dtype] = take(args, keywords).take(["dtype"], 0)?;
            match dtype {
                None => array((*a).clone()),
                Some(dtype) => {
                    let dtype = dtype_argument(host, &dtype)?;
                    if dtype.size() != a.dtype().size() {
                        return refuse(
                            "a view of another element size is not supported",
                            "use `astype`",
                        );
                    }
                    element(&a.with(a.offset(), a.shape().to_vec(), a.strides().to_vec(), dtype))
                }
            }
        }
        "sort" => {
            let [axis] = take(args, keywords).take(["axis"], 0)?;
            select::check_writable(&a)?;
            let sorted = reduce::sort(host, &a, axis)?;
            fill(host, &a, &array(sorted))?;
            Value::None
        }
        "flatten" => {
            take(args, keywords).take(["order"], 0)?;
            let flat = cast(&a, a.dtype())?;
            array(shape::ravel(&flat)?)
        }
        _ => {
            // The rest are functions of the same name.
            let function = match name {
                "conj" => "conjugate",
                other => other,
            };
            let Some(Value::Builtin(function)) = member(function) else {
                return refuse(
                    format!("arrays have no `{name}` here"),
                    "use the function of the same name",
                );
            };
            let mut all = vec![object.clone()];
            match name {
                // Several integers are one shape.
                "reshape" | "transpose" if args.len() > 1 => all.push(Value::tuple(args)),
                _ => all.extend(args),
            }
            call(host, function, all, keywords)?
        }
    })
}
