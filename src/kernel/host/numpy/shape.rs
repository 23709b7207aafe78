//! Functions that rearrange elements.

use super::{array, cast, element, make, ufunc, zeros};
use crate::kernel::{
    array::{Array, c_strides},
    dtype::{DType, Scalar},
    exception::ExceptionKind as E,
    format::array::shape as show_shape,
    host::{
        Host, attributes,
        call::{Args, Keywords},
        error::{raise, refuse},
    },
    value::{Run, Value},
};

/// An axis that may count from the end.
pub(super) fn axis(at: i128, ndim: usize) -> Run<usize> {
    let n = ndim as i128;
    let place = if at < 0 { at + n } else { at };
    if place < 0 || place >= n {
        return raise(
            E::ValueError,
            format!("axis {at} is out of bounds for array of dimension {ndim}"),
        );
    }
    Ok(place as usize)
}

/// The elements as one dimension in C order: a view where they lie so.
pub(super) fn ravel(a: &Array) -> Run<Array> {
    reshape(a, vec![a.len()])
}

/// The elements under another shape of the same size.
fn reshape(a: &Array, shape: Vec<usize>) -> Run<Array> {
    let source = if a.is_c_contiguous() { a.clone() } else { cast(a, a.dtype())? };
    let strides = c_strides(&shape, source.dtype().size());
    Ok(source.with(source.offset(), shape, strides, source.dtype().clone()))
}

/// A copy whose first index moves fastest.
pub(super) fn fortran(a: &Array) -> Run<Array> {
    Ok(cast(&a.transposed(), a.dtype())?.transposed())
}

/// A cast copy that keeps Fortran order, as `astype` does.
pub(super) fn copy_as(a: &Array, dtype: &DType) -> Run<Array> {
    if a.is_f_contiguous() && !a.is_c_contiguous() {
        return Ok(cast(&a.transposed(), dtype)?.transposed());
    }
    cast(a, dtype)
}

/// The elements in C order.
pub(super) fn flat(a: &Array) -> Vec<Value> {
    a.offsets().map(|at| element(&a.with(at, Vec::new(), Vec::new(), a.dtype().clone()))).collect()
}

/// Nested lists of Python's own numbers.
pub(super) fn to_list(a: &Array) -> Value {
    if a.ndim() == 0 {
        return match element(a) {
            Value::Scalar(scalar) => attributes::item(&scalar),
            Value::Record(record) => Value::tuple(
                super::record_items(&record)
                    .into_iter()
                    .map(|item| match item {
                        Value::Scalar(scalar) => attributes::item(&scalar),
                        other => other,
                    })
                    .collect(),
            ),
            other => other,
        };
    }
    Value::list((0..a.shape()[0]).map(|i| to_list(&a.at(i))).collect())
}

/// The main diagonal, as a view.
pub(super) fn diagonal(a: &Array) -> Run<Array> {
    let [n, m] = *a.shape() else {
        return raise(E::ValueError, "diag requires an array of at least two dimensions");
    };
    let strides = vec![a.strides()[0] + a.strides()[1]];
    Ok(a.with(a.offset(), vec![n.min(m)], strides, a.dtype().clone()))
}

fn arrays_of(host: &mut Host, value: &Value) -> Run<Vec<Array>> {
    let mut all = Vec::new();
    for item in host.collect(value)? {
        all.push((*make::as_array(host, &item)?).clone());
    }
    if all.is_empty() {
        return raise(E::ValueError, "need at least one array to concatenate");
    }
    Ok(all)
}

fn concatenate(all: &[Array], at: usize) -> Run<Array> {
    let mut dtype = all[0].dtype().clone();
    let mut shape = all[0].shape().to_vec();
    for part in &all[1..] {
        dtype = match dtype.promote(part.dtype()) {
            Some(dtype) => dtype,
            None => return raise(E::TypeError, "these dtypes do not share an array"),
        };
        if part.ndim() != shape.len() {
            return raise(
                E::ValueError,
                format!(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along dimension 0, the array at index 0 has {} dimension(s) and another has {} dimension(s)",
                    shape.len(),
                    part.ndim()
                ),
            );
        }
        for d in (0..shape.len()).filter(|d| *d != at) {
            if part.shape()[d] != shape[d] {
                return raise(
                    E::ValueError,
                    format!(
                        "all the input array dimensions except for the concatenation axis must match exactly, but along dimension {d}, the array at index 0 has size {} and the array at index 1 has size {}",
                        shape[d],
                        part.shape()[d]
                    ),
                );
            }
        }
        shape[at] += part.shape()[at];
    }
    let out = zeros(dtype, &shape)?;
    let mut from = 0;
    for part in all {
        let mut shape = out.shape().to_vec();
        shape[at] = part.shape()[at];
        if shape[at] == 0 || out.is_empty() {
            continue;
        }
        let offset = out.offset() as isize + from as isize * out.strides()[at];
        let place = out.with(offset as usize, shape, out.strides().to_vec(), out.dtype().clone());
        super::select::copy_into(&place, part);
        from += part.shape()[at];
    }
    Ok(out)
}

/// A view with a dimension of length 1 more.
fn expand(a: &Array, at: usize) -> Array {
    let (mut shape, mut strides) = (a.shape().to_vec(), a.strides().to_vec());
    shape.insert(at, 1);
    strides.insert(at, 0);
    a.with(a.offset(), shape, strides, a.dtype().clone())
}

fn flip(a: &Array, axes: &[usize]) -> Array {
    let mut offset = a.offset() as isize;
    let mut strides = a.strides().to_vec();
    if a.is_empty() {
        return a.clone();
    }
    for &at in axes {
        offset += (a.shape()[at] as isize - 1) * strides[at];
        strides[at] = -strides[at];
    }
    a.with(offset as usize, a.shape().to_vec(), strides, a.dtype().clone())
}

/// Calls a function that rearranges elements; `None` where `name` is none.
pub(super) fn call(
    host: &mut Host,
    name: &str,
    args: &[Value],
    keywords: &Keywords,
) -> Run<Option<Value>> {
    let a = |function: &'static str| Args::new(function, args.to_vec(), keywords.clone());
    let axis_argument = |host: &mut Host, value: Option<Value>, default: i128| -> Run<i128> {
        match value {
            Some(value) => Ok(host.index(&value)?.unwrap_or(default)),
            None => Ok(default),
        }
    };
    Ok(Some(match name {
        "reshape" => {
            let [object, shape, order] = a("reshape").take(["a", "shape", "order"], 2)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let shape = shape.unwrap_or_default();
            let items = match host.index(&shape)? {
                Some(n) => vec![Value::Int(n)],
                None => host.collect(&shape)?,
            };
            let mut sizes = Vec::new();
            for item in &items {
                sizes.push(host.index(item)?.unwrap_or(-2));
            }
            let known: i128 = sizes.iter().filter(|n| **n >= 0).product();
            let unknown = sizes.iter().filter(|n| **n == -1).count();
            let length = source.len() as i128;
            let cannot = |sizes: &[i128]| {
                let shown: Vec<String> = sizes.iter().map(i128::to_string).collect();
                let comma = if shown.len() == 1 { "," } else { "" };
                raise(
                    E::ValueError,
                    format!(
                        "cannot reshape array of size {length} into shape ({}{comma})",
                        shown.join(",")
                    ),
                )
            };
            match unknown {
                0 => {}
                1 if known > 0 && length % known == 0 => {
                    for n in &mut sizes {
                        if *n == -1 {
                            *n = length / known;
                        }
                    }
                }
                1 => return cannot(&sizes),
                _ => return raise(E::ValueError, "can only specify one unknown dimension"),
            }
            if sizes.iter().any(|n| *n < 0) || sizes.iter().product::<i128>() != length {
                return cannot(&sizes);
            }
            let shape: Vec<usize> = sizes.iter().map(|n| *n as usize).collect();
            match order {
                Some(Value::Str(order)) if &*order == "F" => {
                    let reversed: Vec<usize> = shape.into_iter().rev().collect();
                    array(reshape(&source.transposed(), reversed)?.transposed())
                }
                _ => array(reshape(&source, shape)?),
            }
        }
        "ravel" => {
            let [object] = a("ravel").take(["a"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            array(ravel(&source)?)
        }
        "transpose" => {
            let [object, axes] = a("transpose").take(["a", "axes"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            match axes.filter(|axes| !matches!(axes, Value::None)) {
                None => array(source.transposed()),
                Some(axes) => {
                    let mut order = Vec::new();
                    for item in host.collect(&axes)? {
                        order.push(axis(host.index(&item)?.unwrap_or(0), source.ndim())?);
                    }
                    let mut sorted = order.clone();
                    sorted.sort_unstable();
                    if sorted != (0..source.ndim()).collect::<Vec<_>>() {
                        return raise(E::ValueError, "axes don't match array");
                    }
                    let shape = order.iter().map(|&d| source.shape()[d]).collect();
                    let strides = order.iter().map(|&d| source.strides()[d]).collect();
                    array(source.with(source.offset(), shape, strides, source.dtype().clone()))
                }
            }
        }
        "swapaxes" => {
            let [object, first, second] = a("swapaxes").exactly()?;
            let source = make::as_array(host, &object)?;
            let first = axis(host.index(&first)?.unwrap_or(0), source.ndim())?;
            let second = axis(host.index(&second)?.unwrap_or(0), source.ndim())?;
            let (mut shape, mut strides) = (source.shape().to_vec(), source.strides().to_vec());
            shape.swap(first, second);
            strides.swap(first, second);
            array(source.with(source.offset(), shape, strides, source.dtype().clone()))
        }
        "squeeze" => {
            let [object] = a("squeeze").take(["a"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let kept: Vec<usize> = (0..source.ndim()).filter(|&d| source.shape()[d] != 1).collect();
            let shape = kept.iter().map(|&d| source.shape()[d]).collect();
            let strides = kept.iter().map(|&d| source.strides()[d]).collect();
            array(source.with(source.offset(), shape, strides, source.dtype().clone()))
        }
        "expand_dims" => {
            let [object, at] = a("expand_dims").take(["a", "axis"], 2)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let at = axis(axis_argument(host, at, 0)?, source.ndim() + 1)?;
            array(expand(&source, at))
        }
        "broadcast_to" => {
            let [object, shape] = a("broadcast_to").take(["array", "shape"], 2)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let shape = make::shape_of(host, &shape.unwrap_or_default())?;
            match source.broadcast(&shape) {
                Some(view) => array(view),
                None => {
                    return raise(
                        E::ValueError,
                        format!(
                            "operands could not be broadcast together with remapped shapes [original->remapped]: {}  and requested shape {}",
                            show_shape(source.shape()).replace(", ", ","),
                            show_shape(&shape).replace(", ", ",")
                        ),
                    );
                }
            }
        }
        "concatenate" => {
            let [all, at] = a("concatenate").take(["arrays", "axis"], 1)?;
            let all = arrays_of(host, &all.unwrap_or_default())?;
            if all[0].ndim() == 0 {
                return raise(E::ValueError, "zero-dimensional arrays cannot be concatenated");
            }
            let at = axis(axis_argument(host, at, 0)?, all[0].ndim())?;
            array(concatenate(&all, at)?)
        }
        "stack" => {
            let [all, at] = a("stack").take(["arrays", "axis"], 1)?;
            let all = arrays_of(host, &all.unwrap_or_default())?;
            if all.iter().any(|part| part.shape() != all[0].shape()) {
                return raise(E::ValueError, "all input arrays must have the same shape");
            }
            let at = axis(axis_argument(host, at, 0)?, all[0].ndim() + 1)?;
            let all: Vec<Array> = all.iter().map(|part| expand(part, at)).collect();
            array(concatenate(&all, at)?)
        }
        "vstack" | "row_stack" => {
            let [all] = a("vstack").take(["tup"], 1)?;
            let all = arrays_of(host, &all.unwrap_or_default())?;
            let mut rows = Vec::new();
            for part in all {
                rows.push(match part.ndim() {
                    0 => expand(&expand(&part, 0), 0),
                    1 => expand(&part, 0),
                    _ => part,
                });
            }
            array(concatenate(&rows, 0)?)
        }
        "hstack" => {
            let [all] = a("hstack").take(["tup"], 1)?;
            let all: Vec<Array> = arrays_of(host, &all.unwrap_or_default())?
                .into_iter()
                .map(|part| if part.ndim() == 0 { expand(&part, 0) } else { part })
                .collect();
            let at = usize::from(all[0].ndim() > 1);
            array(concatenate(&all, at)?)
        }
        "column_stack" => {
            let [all] = a("column_stack").take(["tup"], 1)?;
            let all: Vec<Array> = arrays_of(host, &all.unwrap_or_default())?
                .into_iter()
                .map(|part| if part.ndim() == 1 { expand(&part, 1) } else { part })
                .collect();
            array(concatenate(&all, 1)?)
        }
        "append" => {
            let [object, values] = a("append").exactly()?;
            let (x, y) = (make::as_array(host, &object)?, make::as_array(host, &values)?);
            array(concatenate(&[ravel(&x)?, ravel(&y)?], 0)?)
        }
        "flip" | "flipud" | "fliplr" => {
            let [object, at] = a("flip").take(["m", "axis"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let axes = match (name, at.filter(|at| !matches!(at, Value::None))) {
                ("flipud", _) => vec![axis(0, source.ndim())?],
                ("fliplr", _) => vec![axis(1, source.ndim())?],
                (_, None) => (0..source.ndim()).collect(),
                (_, Some(at)) => vec![axis(host.index(&at)?.unwrap_or(0), source.ndim())?],
            };
            array(flip(&source, &axes))
        }
        "roll" => {
            let [object, shift, at] = a("roll").take(["a", "shift", "axis"], 2)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let shift = host.index(&shift.unwrap_or_default())?.unwrap_or(0);
            let (line, at) = match at.filter(|at| !matches!(at, Value::None)) {
                None => (ravel(&source)?, 0),
                Some(at) => {
                    ((*source).clone(), axis(host.index(&at)?.unwrap_or(0), source.ndim())?)
                }
            };
            if line.is_empty() {
                return Ok(Some(array(cast(&source, source.dtype())?)));
            }
            let n = line.shape()[at];
            let cut = n - shift.rem_euclid(n as i128) as usize;
            let part = |from: usize, to: usize| {
                let mut shape = line.shape().to_vec();
                shape[at] = to - from;
                let offset = line.offset() as isize + (from % n) as isize * line.strides()[at];
                line.with(offset as usize, shape, line.strides().to_vec(), line.dtype().clone())
            };
            let rolled = concatenate(&[part(cut, n), part(0, cut)], at)?;
            array(reshape(&rolled, source.shape().to_vec())?)
        }
        "repeat" => {
            let [object, count, at] = a("repeat").take(["a", "repeats", "axis"], 2)?;
            if at.is_some_and(|at| !matches!(at, Value::None)) {
                return refuse(
                    "`np.repeat` along an axis is not supported in host code",
                    "compute it in a kernel",
                );
            }
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let Some(count) =
                host.index(&count.unwrap_or_default())?.and_then(|n| usize::try_from(n).ok())
            else {
                return refuse("`np.repeat` takes one count here", "give an integer");
            };
            let line = expand(&ravel(&source)?, 1);
            let n = source.len();
            let Some(wide) = line.broadcast(&[n, count]) else { return Ok(None) };
            array(reshape(&cast(&wide, source.dtype())?, vec![n * count])?)
        }
        "tile" => {
            let [object, count] = a("tile").exactly()?;
            let source = make::as_array(host, &object)?;
            let mut counts = make::shape_of(host, &count)?;
            let mut view = (*source).clone();
            while view.ndim() < counts.len() {
                view = expand(&view, 0);
            }
            while counts.len() < view.ndim() {
                counts.insert(0, 1);
            }
            let (mut shape, mut strides, mut final_shape) = (Vec::new(), Vec::new(), Vec::new());
            for ((&n, &stride), &count) in view.shape().iter().zip(view.strides()).zip(&counts) {
                shape.extend([count, n]);
                strides.extend([0, stride]);
                final_shape.push(n * count);
            }
            let wide = view.with(view.offset(), shape, strides, view.dtype().clone());
            array(reshape(&cast(&wide, view.dtype())?, final_shape)?)
        }
        "diag" | "diagonal" => {
            let [object] = a("diag").take(["v"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            match source.ndim() {
                1 => {
                    let n = source.len();
                    let out = zeros(source.dtype().clone(), &[n, n])?;
                    super::select::copy_into(&diagonal(&out)?, &source);
                    array(out)
                }
                _ => array(cast(&diagonal(&source)?, source.dtype())?),
            }
        }
        "nonzero" | "flatnonzero" => {
            let [object] = a("nonzero").exactly()?;
            let source = make::as_array(host, &object)?;
            let places: Vec<usize> = source
                .offsets()
                .enumerate()
                .filter(|(_, at)| source.read(*at).is_some_and(|v| v.truth()))
                .map(|(place, _)| place)
                .collect();
            let mut inner = 1;
            let mut all = Vec::new();
            let shape =
                if name == "flatnonzero" { vec![source.len()] } else { source.shape().to_vec() };
            for &n in shape.iter().rev() {
                let along: Vec<i64> =
                    places.iter().map(|p| (p / inner % n.max(1)) as i64).collect();
                all.push(array(Array::from_vec(along, &[places.len()])));
                inner *= n.max(1);
            }
            all.reverse();
            if name == "flatnonzero" { all.remove(0) } else { Value::tuple(all) }
        }
        "take" => {
            let [object, index, at] = a("take").take(["a", "indices", "axis"], 2)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let index = index.unwrap_or_default();
            match at.filter(|at| !matches!(at, Value::None)) {
                None => host.item(&array(ravel(&source)?), &index)?,
                Some(at) => {
                    let at = axis(host.index(&at)?.unwrap_or(0), source.ndim())?;
                    let all = Value::Slice(std::sync::Arc::new(crate::kernel::value::Slice {
                        start: Value::None,
                        stop: Value::None,
                        step: Value::None,
                    }));
                    let mut parts = vec![all; at];
                    parts.push(index);
                    host.item(&array((*source).clone()), &Value::tuple(parts))?
                }
            }
        }
        "atleast_1d" => {
            let [object] = a("atleast_1d").exactly()?;
            let source = make::as_array(host, &object)?;
            array(if source.ndim() == 0 { expand(&source, 0) } else { (*source).clone() })
        }
        "triu" | "tril" => {
            let [object, k] = a("triu").take(["m", "k"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let k = axis_argument(host, k, 0)?;
            let out = cast(&source, source.dtype())?;
            let Some(&m) = out.shape().last().filter(|_| out.ndim() == 2) else {
                return raise(E::ValueError, "triangles are of arrays with two dimensions here");
            };
            for (place, at) in out.offsets().enumerate() {
                let distance = (place % m.max(1)) as i128 - (place / m.max(1)) as i128;
                if if name == "triu" { distance < k } else { distance > k } {
                    out.write(at, Scalar::I64(0));
                }
            }
            array(out)
        }
        "meshgrid" => {
            let (objects, options) = a("meshgrid").rest();
            let ij = options.iter().any(|(name, value)| {
                &**name == "indexing" && matches!(value, Value::Str(v) if &**v == "ij")
            });
            let [x, y] = objects.as_slice() else {
                return refuse(
                    "`np.meshgrid` takes two arrays here",
                    "combine them by broadcasting",
                );
            };
            let (x, y) = (make::as_array(host, x)?, make::as_array(host, y)?);
            let (n, m) = (x.len(), y.len());
            let (shape, x, y) = if ij {
                ([n, m], expand(&ravel(&x)?, 1), expand(&ravel(&y)?, 0))
            } else {
                ([m, n], expand(&ravel(&x)?, 0), expand(&ravel(&y)?, 1))
            };
            let mut both = Vec::new();
            for part in [x, y] {
                let Some(wide) = part.broadcast(&shape) else { return Ok(None) };
                both.push(array(cast(&wide, part.dtype())?));
            }
            Value::list(both)
        }
        "copyto" => {
            let [target, value] = a("copyto").exactly()?;
            match &target {
                Value::Array(target) => {
                    super::select::check_writable(target)?;
                    super::select::assign(host, target, &value)?;
                    Value::None
                }
                _ => return raise(E::TypeError, "copyto() argument 1 must be numpy.ndarray"),
            }
        }
        "isin" => {
            let [object, of] = a("isin").exactly()?;
            let (source, of) = (make::as_array(host, &object)?, make::as_array(host, &of)?);
            let known: Vec<Scalar> = of.offsets().filter_map(|at| of.read(at)).collect();
            let same = |a: &Scalar, b: &Scalar| match (a.as_int(), b.as_int()) {
                (Some(a), Some(b)) => a == b,
                _ => a.as_complex() == b.as_complex(),
            };
            let found: Vec<ufunc::Bool> = source
                .offsets()
                .filter_map(|at| source.read(at))
                .map(|v| ufunc::Bool::new(known.iter().any(|k| same(&v, k))))
                .collect();
            element(&Array::from_vec(found, source.shape()))
        }
        _ => return Ok(None),
    }))
}
