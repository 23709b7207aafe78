//! Making arrays.

use std::{path::Path, sync::Arc};

use super::{array, cast, dtype_argument, dtype_of, element, npy, select, zeros};
use crate::kernel::{
    array::{Array, Complex},
    dtype::{DType, Kind, RecordLayout, Scalar},
    exception::ExceptionKind as E,
    format::array::shape as show_shape,
    host::{
        Host,
        call::{Args, Keywords},
        error::{raise, refuse},
        number::Number,
    },
    syntax::Name,
    types::Ty,
    value::{Module, Run, Value},
};

/// What `np.iinfo` or `np.finfo` gives for a type: its attributes as a module's.
pub(in crate::kernel) fn limits(name: &str, dtype: &DType) -> Option<Value> {
    let float = |v: f64| Value::Scalar(Scalar::F64(v).cast(dtype));
    let known = match (name, dtype.ty()) {
        ("iinfo", Ty::Int(int)) => {
            let bits = u32::from(int.bits);
            let (min, max) = match int.signed {
                true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                false => (0, (1i128 << bits) - 1),
            };
            vec![
                ("min", Value::Int(min)),
                ("max", Value::Int(max)),
                ("bits", Value::Int(bits.into())),
            ]
        }
        ("finfo", Ty::Float64) => vec![
            ("eps", float(f64::EPSILON)),
            ("max", float(f64::MAX)),
            ("min", float(f64::MIN)),
            ("tiny", float(f64::MIN_POSITIVE)),
            ("bits", Value::Int(64)),
        ],
        ("finfo", Ty::Float32) => vec![
            ("eps", float(f32::EPSILON.into())),
            ("max", float(f32::MAX.into())),
            ("min", float(f32::MIN.into())),
            ("tiny", float(f32::MIN_POSITIVE.into())),
            ("bits", Value::Int(32)),
        ],
        _ => return None,
    };
    let module = Module {
        name: format!("numpy.{name}").into(),
        source: None,
        package: "numpy".into(),
        folder: None,
        globals: Default::default(),
    };
    known.into_iter().for_each(|(name, value)| module.set(name.into(), value));
    Some(Value::Module(Arc::new(module)))
}

/// An array without dimensions that holds one element.
pub(super) fn scalar_array(scalar: Scalar) -> Array {
    match scalar {
        Scalar::Bool(v) => Array::from_vec(vec![super::ufunc::Bool::new(v)], &[]),
        Scalar::I8(v) => Array::from_vec(vec![v], &[]),
        Scalar::I16(v) => Array::from_vec(vec![v], &[]),
        Scalar::I32(v) => Array::from_vec(vec![v], &[]),
        Scalar::I64(v) => Array::from_vec(vec![v], &[]),
        Scalar::U8(v) => Array::from_vec(vec![v], &[]),
        Scalar::U16(v) => Array::from_vec(vec![v], &[]),
        Scalar::U32(v) => Array::from_vec(vec![v], &[]),
        Scalar::U64(v) => Array::from_vec(vec![v], &[]),
        Scalar::F32(v) => Array::from_vec(vec![v], &[]),
        Scalar::F64(v) => Array::from_vec(vec![v], &[]),
        Scalar::C128(re, im) => Array::from_vec(vec![Complex { re, im }], &[]),
    }
}

/// A Python number as an element; integers must fit.
pub(super) fn number_element(number: Number, dtype: &DType) -> Run<Scalar> {
    let scalar = match number {
        Number::Float(v) => Scalar::F64(v),
        Number::Complex(re, im) => {
            if dtype.kind() < Kind::Complex {
                return raise(
                    E::TypeError,
                    "float() argument must be a string or a real number, not 'complex'",
                );
            }
            Scalar::C128(re, im)
        }
        Number::Int(v) => match dtype.kind() {
            Kind::Signed | Kind::Unsigned => {
                let wrapped = Scalar::I64(v as i64).cast(dtype);
                let exact = if *dtype == DType::U64 { Scalar::U64(v as u64) } else { wrapped };
                if exact.as_int() != Some(v) {
                    return raise(
                        E::OverflowError,
                        format!("Python integer {v} out of bounds for {dtype}"),
                    );
                }
                return Ok(exact);
            }
            Kind::Bool => Scalar::Bool(v != 0),
            _ => Scalar::F64(v as f64),
        },
    };
    Ok(scalar.cast(dtype))
}

/// The dtype that NumPy finds for an element.
fn found_dtype(value: &Value) -> Run<DType> {
    Ok(match value {
        Value::Bool(_) => DType::Bool,
        Value::Int(v) if i64::try_from(*v).is_ok() => DType::I64,
        Value::Int(v) if u64::try_from(*v).is_ok() => DType::U64,
        Value::Float(_) => DType::F64,
        Value::Complex(..) => DType::C128,
        Value::Scalar(scalar) => scalar.dtype(),
        Value::Array(a) | Value::Record(a) => a.dtype().clone(),
        other => {
            return refuse(
                format!("an array of '{}' is not supported", other.type_name()),
                "arrays hold bools, integers, floats, complex numbers and records",
            );
        }
    })
}

/// `np.asarray(value)`.
pub(crate) fn as_array(host: &mut Host, value: &Value) -> Run<Arc<Array>> {
    match value {
        Value::Array(a) | Value::Record(a) => Ok(a.clone()),
        Value::Scalar(scalar) => Ok(Arc::new(scalar_array(*scalar))),
        _ => from_value(host, value, None).map(Arc::new),
    }
}

/// `np.array(value, dtype)`: always a new array.
fn from_value(host: &mut Host, value: &Value, dtype: Option<&DType>) -> Run<Array> {
    match value {
        Value::Array(a) | Value::Record(a) => return cast(a, dtype.unwrap_or(a.dtype())),
        _ => {}
    }
    let record = matches!(dtype, Some(DType::Record(_)));
    let mut shape = Vec::new();
    let mut leaves = Vec::new();
    gather(host, value, 0, record, &mut shape, &mut leaves)?;
    let dtype = match dtype {
        Some(dtype) => dtype.clone(),
        None => {
            let mut common: Option<DType> = None;
            for leaf in &leaves {
                let found = found_dtype(leaf)?;
                common = Some(match common {
                    None => found,
                    Some(known) => match known.promote(&found) {
                        Some(dtype) => dtype,
                        None => {
                            return refuse(
                                "records and numbers do not share an array",
                                "give a dtype",
                            );
                        }
                    },
                });
            }
            common.unwrap_or(DType::F64)
        }
    };
    let out = zeros(dtype, &shape)?;
    let offsets: Vec<usize> = out.offsets().collect();
    let step = if leaves.is_empty() { 1 } else { offsets.len() / leaves.len() };
    for (i, leaf) in leaves.iter().enumerate() {
        match leaf {
            Value::Array(a) if a.ndim() > 0 => {
                let part = cast(a, out.dtype())?;
                for (from, &to) in part.offsets().zip(&offsets[i * step..]) {
                    out.set_bytes(to, &part.bytes(from));
                }
            }
            leaf => select::write_element(host, &out, offsets[i], leaf)?,
        }
    }
    Ok(out)
}

/// Finds the shape of nested sequences, and their elements in order.
fn gather(
    host: &mut Host,
    value: &Value,
    depth: usize,
    record: bool,
    shape: &mut Vec<usize>,
    leaves: &mut Vec<Value>,
) -> Run<()> {
    let items = match value {
        Value::List(items) => items.get(),
        // A tuple is a record where records are wanted.
        Value::Tuple(items) if !record => items.to_vec(),
        Value::Range(_) | Value::View(_) => host.collect(value)?,
        Value::Array(a) => {
            if leaves.is_empty() {
                shape.extend(a.shape());
            } else if shape.get(depth..) != Some(a.shape()) {
                return ragged(&shape[..depth]);
            }
            leaves.push(value.clone());
            return Ok(());
        }
        Value::Str(_) => {
            return refuse("arrays of strings are not supported", "keep strings in a list");
        }
        leaf => {
            if depth < shape.len() {
                return ragged(&shape[..depth]);
            }
            leaves.push(leaf.clone());
            return Ok(());
        }
    };
    if depth >= 64 {
        return raise(E::ValueError, "setting an array element with a sequence");
    }
    if depth == shape.len() {
        if !leaves.is_empty() {
            return ragged(&shape[..depth]);
        }
        shape.push(items.len());
    } else if shape[depth] != items.len() {
        return ragged(&shape[..depth]);
    }
    for item in &items {
        gather(host, item, depth + 1, record, shape, leaves)?;
    }
    Ok(())
}

fn ragged(shape: &[usize]) -> Run<()> {
    raise(
        E::ValueError,
        format!(
            "setting an array element with a sequence. The requested array has an inhomogeneous shape after {} dimensions. The detected shape was {} + inhomogeneous part.",
            shape.len(),
            show_shape(shape)
        ),
    )
}

/// `np.dtype([...])`.
pub(super) fn record_dtype(host: &mut Host, fields: &Value, align: bool) -> Run<DType> {
    let mut all: Vec<(Name, DType)> = Vec::new();
    for field in host.collect(fields)? {
        let field = host.collect(&field)?;
        match field.as_slice() {
            [Value::Str(name), dtype] => {
                if all.iter().any(|(known, _)| known == name) {
                    return raise(E::ValueError, format!("field '{name}' occurs more than once"));
                }
                let dtype = dtype_argument(host, dtype)?;
                all.push((name.clone(), dtype));
            }
            [_, _, _] => {
                return refuse(
                    "arrays inside of records are not supported",
                    "give each element a field of its own",
                );
            }
            _ => {
                return raise(
                    E::TypeError,
                    "Field elements must be 2- or 3-tuples, got another value",
                );
            }
        }
    }
    Ok(DType::Record(Arc::new(RecordLayout::new(all, align))))
}

/// A shape from an integer or a sequence of them.
pub(super) fn shape_of(host: &mut Host, value: &Value) -> Run<Vec<usize>> {
    let items = match host.index(value)? {
        Some(n) => vec![n],
        None => {
            let mut items = Vec::new();
            for item in host.collect(value)? {
                match host.index(&item)? {
                    Some(n) => items.push(n),
                    None => {
                        return raise(
                            E::TypeError,
                            format!(
                                "'{}' object cannot be interpreted as an integer",
                                item.type_name()
                            ),
                        );
                    }
                }
            }
            items
        }
    };
    let mut shape = Vec::new();
    for n in items {
        match usize::try_from(n) {
            Ok(n) => shape.push(n),
            Err(_) => return raise(E::ValueError, "negative dimensions are not allowed"),
        }
    }
    Ok(shape)
}

/// `np.float32(value)`.
pub(crate) fn make_scalar(
    host: &mut Host,
    dtype: &DType,
    args: Vec<Value>,
    keywords: Keywords,
) -> Run<Value> {
    let [value] = Args::new(dtype.name(), args, keywords).take(["value"], 0)?;
    let value = value.unwrap_or(Value::Int(0));
    let scalar = match &value {
        Value::Str(_) if matches!(dtype.kind(), Kind::Float) => {
            let v = host.make_float(value)?;
            Scalar::F64(v).cast(dtype)
        }
        Value::Str(text) => {
            let v = crate::kernel::host::strings::parse_int(text, 10)?;
            number_element(Number::Int(v), dtype)?
        }
        Value::Scalar(scalar) => scalar.cast(dtype),
        Value::Array(a) => return Ok(element(&cast(a, dtype)?)),
        Value::Bool(v) => Scalar::Bool(*v).cast(dtype),
        Value::List(_) | Value::Tuple(_) => {
            let a = as_array(host, &value)?;
            return Ok(array(cast(&a, dtype)?));
        }
        _ => match Number::of(&value) {
            Some(Number::Float(v)) if dtype.is_integer() && !v.is_finite() => {
                host.float_to_int(v)?;
                Scalar::I64(0)
            }
            Some(number) => number_element(number, dtype)?,
            None => {
                return raise(
                    E::TypeError,
                    format!(
                        "{}() argument must be a number, not '{}'",
                        dtype.name(),
                        value.type_name()
                    ),
                );
            }
        },
    };
    Ok(Value::Scalar(scalar))
}

fn filled(host: &mut Host, dtype: DType, shape: &[usize], value: &Value) -> Run<Value> {
    let out = zeros(dtype, shape)?;
    select::assign(host, &out, value)?;
    Ok(array(out))
}

/// Calls a function that makes arrays; `None` where `name` is none.
pub(super) fn call(
    host: &mut Host,
    name: &str,
    args: &[Value],
    keywords: &Keywords,
) -> Run<Option<Value>> {
    let a = |function: &'static str| Args::new(function, args.to_vec(), keywords.clone());
    let optional = |host: &mut Host, dtype: Option<Value>| match dtype {
        None | Some(Value::None) => Ok(None),
        Some(dtype) => dtype_argument(host, &dtype).map(Some),
    };
    let one = Value::Int(1);
    Ok(Some(match name {
        "zeros" | "empty" | "ones" => {
            let [shape, dtype, order] = a("zeros").take(["shape", "dtype", "order"], 1)?;
            let shape = shape_of(host, &shape.unwrap_or_default())?;
            let dtype = optional(host, dtype)?.unwrap_or(DType::F64);
            let fortran = matches!(order, Some(Value::Str(order)) if &*order == "F");
            let shape: Vec<usize> = if fortran { shape.into_iter().rev().collect() } else { shape };
            let made = zeros(dtype, &shape)?;
            if name == "ones" {
                select::assign(host, &made, &one)?;
            }
            array(if fortran { made.transposed() } else { made })
        }
        "full" => {
            let [shape, value, dtype] = a("full").take(["shape", "fill_value", "dtype"], 2)?;
            let shape = shape_of(host, &shape.unwrap_or_default())?;
            let value = value.unwrap_or_default();
            let dtype = match optional(host, dtype)? {
                Some(dtype) => dtype,
                None => as_array(host, &value)?.dtype().clone(),
            };
            if matches!((&dtype, &value), (DType::Record(_), Value::Tuple(_))) {
                return refuse(
                    "`np.full` with a tuple for a record is not supported",
                    "make zeros and assign the tuple to all: `a[:] = (1, 2.0)`",
                );
            }
            filled(host, dtype, &shape, &value)?
        }
        "zeros_like" | "ones_like" | "empty_like" | "full_like" => {
            let (names, required) = if name == "full_like" {
                (["a", "fill_value", "dtype"], 2)
            } else {
                (["a", "dtype", ""], 1)
            };
            let [like, second, third] = a("zeros_like").take(names, required)?;
            let like = as_array(host, &like.unwrap_or_default())?;
            let (value, dtype) = if name == "full_like" {
                (second.unwrap_or_default(), third)
            } else {
                (Value::Int(0), second)
            };
            let dtype = optional(host, dtype)?.unwrap_or(like.dtype().clone());
            let fortran = like.is_f_contiguous() && !like.is_c_contiguous();
            let shape: Vec<usize> = if fortran {
                like.shape().iter().rev().copied().collect()
            } else {
                like.shape().to_vec()
            };
            let made = zeros(dtype, &shape)?;
            match name {
                "ones_like" => select::assign(host, &made, &one)?,
                "full_like" => select::assign(host, &made, &value)?,
                _ => {}
            }
            element_or_array(if fortran { made.transposed() } else { made })
        }
        "array" | "asarray" | "ascontiguousarray" | "asfortranarray" | "copy" => {
            let [value, dtype, order, _] =
                a("array").take(["object", "dtype", "order", "copy"], 1)?;
            let value = value.unwrap_or_default();
            let dtype = optional(host, dtype)?;
            let fortran =
                name == "asfortranarray" || matches!(&order, Some(Value::Str(o)) if &**o == "F");
            if let (Value::Array(known), false) = (&value, matches!(name, "array" | "copy")) {
                let kept = dtype.as_ref().is_none_or(|dtype| dtype == known.dtype());
                let ordered = match name {
                    "ascontiguousarray" => known.is_c_contiguous(),
                    "asfortranarray" => known.is_f_contiguous(),
                    _ => true,
                };
                if kept && ordered {
                    return Ok(Some(value));
                }
            }
            let made = from_value(host, &value, dtype.as_ref())?;
            array(if fortran { super::shape::fortran(&made)? } else { made })
        }
        "arange" => {
            let [start, stop, step, dtype] =
                a("arange").take(["start", "stop", "step", "dtype"], 1)?;
            let (start, stop) = match stop {
                None | Some(Value::None) => (Value::Int(0), start.unwrap_or_default()),
                Some(stop) => (start.unwrap_or_default(), stop),
            };
            let step = step.filter(|s| !matches!(s, Value::None)).unwrap_or(Value::Int(1));
            let dtype = optional(host, dtype)?;
            arange(host, &start, &stop, &step, dtype)?
        }
        "linspace" => {
            let [start, stop, num, endpoint, retstep, dtype] =
                a("linspace").take(["start", "stop", "num", "endpoint", "retstep", "dtype"], 2)?;
            let start = host.make_float(start.unwrap_or_default())?;
            let stop = host.make_float(stop.unwrap_or_default())?;
            let n = match num {
                Some(num) => host.index(&num)?.unwrap_or(50),
                None => 50,
            };
            let Ok(n) = usize::try_from(n) else {
                return raise(
                    E::ValueError,
                    format!("Number of samples, {n}, must be non-negative."),
                );
            };
            let endpoint = match endpoint {
                Some(endpoint) => host.truth(&endpoint)?,
                None => true,
            };
            let parts = if endpoint { n.saturating_sub(1) } else { n };
            let delta = stop - start;
            let step = delta / parts as f64;
            let mut values: Vec<f64> = (0..n)
                .map(|i| {
                    if parts == 0 {
                        start + i as f64 * delta
                    } else if step == 0.0 {
                        i as f64 / parts as f64 * delta + start
                    } else {
                        i as f64 * step + start
                    }
                })
                .collect();
            if endpoint && n > 1 {
                values[n - 1] = stop;
            }
            let made = Array::from_vec(values, &[n]);
            let made = match optional(host, dtype)? {
                Some(dtype) => cast(&made, &dtype)?,
                None => made,
            };
            match retstep {
                Some(Value::Bool(true)) => {
                    Value::tuple(vec![array(made), Value::Scalar(Scalar::F64(step))])
                }
                _ => array(made),
            }
        }
        "eye" | "identity" => {
            let [n, m, k, dtype] = a("eye").take(["N", "M", "k", "dtype"], 1)?;
            let n = shape_of(host, &n.unwrap_or_default())?;
            let n = n.first().copied().unwrap_or(0);
            let m = match m.filter(|m| !matches!(m, Value::None)) {
                Some(m) => shape_of(host, &m)?.first().copied().unwrap_or(0),
                None => n,
            };
            let k = match k {
                Some(k) => host.index(&k)?.unwrap_or(0),
                None => 0,
            };
            let made = zeros(optional(host, dtype)?.unwrap_or(DType::F64), &[n, m])?;
            for (at, offset) in made.offsets().enumerate() {
                if (at % m.max(1)) as i128 - (at / m.max(1)) as i128 == k {
                    made.write(offset, Scalar::I64(1));
                }
            }
            array(made)
        }
        "dtype" => {
            let [fields, align] = a("dtype").take(["dtype", "align"], 1)?;
            let align = match align {
                Some(align) => host.truth(&align)?,
                None => false,
            };
            match fields.unwrap_or_default() {
                fields @ Value::List(_) => Value::DType(record_dtype(host, &fields, align)?),
                Value::Dict(_) => {
                    return refuse(
                        "this description of a dtype is not supported",
                        "write a list of pairs of name and dtype",
                    );
                }
                other => Value::DType(dtype_argument(host, &other)?),
            }
        }
        "load" | "save" => {
            let [file, value] =
                a(if name == "load" { "load" } else { "save" }).take(["file", "arr"], 1)?;
            let Some(Value::Str(file)) = file else {
                return refuse(
                    format!("`np.{name}` takes a file's name"),
                    "give a path as a string",
                );
            };
            match (name, value) {
                ("load", _) => {
                    host.impure = true;
                    match host.resolver.read_data(Path::new(&*file)) {
                        Ok(bytes) => array(npy::read(&bytes)?),
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                            return raise(
                                E::FileNotFoundError,
                                format!("[Errno 2] No such file or directory: '{file}'"),
                            );
                        }
                        Err(error) => return raise(E::OSError, format!("{error}: '{file}'")),
                    }
                }
                (_, Some(value)) => {
                    host.no_effects()?;
                    host.impure = true;
                    let a = as_array(host, &value)?;
                    let file = if file.ends_with(".npy") {
                        file.to_string()
                    } else {
                        format!("{file}.npy")
                    };
                    if let Err(error) = std::fs::write(&file, npy::write(&a)) {
                        return raise(E::OSError, format!("{error}: '{file}'"));
                    }
                    Value::None
                }
                _ => {
                    return raise(
                        E::TypeError,
                        "save() missing 1 required positional argument: 'arr'",
                    );
                }
            }
        }
        "iinfo" | "finfo" => {
            let [ty] = a(if name == "iinfo" { "iinfo" } else { "finfo" }).exactly()?;
            let dtype = dtype_argument(host, &ty)?;
            match limits(name, &dtype) {
                Some(limits) => limits,
                None => {
                    let kind = if name == "iinfo" { "integer" } else { "inexact" };
                    let message = format!("data type {dtype} not {kind}");
                    return raise(E::ValueError, message);
                }
            }
        }
        "isscalar" => {
            let [value] = a("isscalar").exactly()?;
            Value::Bool(
                matches!(value, Value::Scalar(_) | Value::Str(_)) || Number::of(&value).is_some(),
            )
        }
        "ndim" | "shape" | "size" => {
            let [value] = a("ndim").exactly()?;
            let a = as_array(host, &value)?;
            match name {
                "ndim" => Value::Int(a.ndim() as i128),
                "size" => Value::Int(a.len() as i128),
                _ => Value::tuple(a.shape().iter().map(|&n| Value::Int(n as i128)).collect()),
            }
        }
        "ndarray" => {
            return refuse("`np.ndarray` cannot be called", "use `np.empty` or `np.zeros`");
        }
        _ => return Ok(None),
    }))
}

fn element_or_array(made: Array) -> Value {
    array(made)
}

fn arange(
    host: &mut Host,
    start: &Value,
    stop: &Value,
    step: &Value,
    dtype: Option<DType>,
) -> Run<Value> {
    let ints = (host.index(start)?, host.index(stop)?, host.index(step)?);
    if let (Some(start), Some(stop), Some(step)) = ints
        && dtype.as_ref().is_none_or(|dtype| dtype.is_integer())
    {
        if step == 0 {
            return raise(E::ZeroDivisionError, "division by zero");
        }
        let n = if step > 0 {
            (stop - start + step - 1) / step
        } else {
            (start - stop - step - 1) / -step
        };
        let n = usize::try_from(n.max(0)).unwrap_or(usize::MAX);
        if n > 1 << 40 {
            zeros(DType::I64, &[n])?;
        }
        let found = [start, stop, step].iter().all(|v| i64::try_from(*v).is_ok());
        if !found {
            return raise(E::OverflowError, "Python int too large to convert to C long");
        }
        let values: Vec<i64> = (0..n as i64).map(|i| start as i64 + i * step as i64).collect();
        let made = Array::from_vec(values, &[n]);
        return Ok(array(match dtype {
            Some(dtype) => cast(&made, &dtype)?,
            None => made,
        }));
    }
    let single = [start, stop, step].iter().all(|v| match v {
        Value::Scalar(s) => s.dtype() == DType::F32,
        _ => false,
    });
    let mut number = |v: &Value| host.make_float(v.clone());
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
    let count = ((stop - start) / step).ceil();
    if count.is_nan() {
        return raise(E::ValueError, "arange: cannot compute length");
    }
    let n = count.clamp(0.0, 1e15) as usize;
    if n > 1 << 40 {
        zeros(DType::F64, &[n])?;
    }
    // The distance is taken from the first two, as NumPy fills.
    let delta = (start + step) - start;
    let values: Vec<f64> = (0..n)
        .map(|i| match i {
            0 => start,
            1 => start + step,
            _ => start + i as f64 * delta,
        })
        .collect();
    let made = Array::from_vec(values, &[n]);
    let dtype = dtype.or(single.then_some(DType::F32));
    Ok(array(match dtype {
        Some(dtype) => cast(&made, &dtype)?,
        None => made,
    }))
}

/// A dtype given as an optional argument.
pub(super) fn dtype_option(host: &mut Host, dtype: Option<Value>) -> Run<Option<DType>> {
    match dtype {
        None | Some(Value::None) => Ok(None),
        Some(value) => match dtype_of(&value) {
            Some(dtype) => Ok(Some(dtype)),
            None => dtype_argument(host, &value).map(Some),
        },
    }
}

/// `could not broadcast` in NumPy's words.
pub(super) fn cannot_broadcast<T>(from: &[usize], into: &[usize]) -> Run<T> {
    let shown = |shape: &[usize]| show_shape(shape).replace(", ", ",");
    raise(
        E::ValueError,
        format!(
            "could not broadcast input array from shape {} into shape {}",
            shown(from),
            shown(into)
        ),
    )
}
