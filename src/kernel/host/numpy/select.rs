//! Indexing.
//!
//! ```text
//!   index ─► parts ─┬─ integers, slices, None, ... ──► a view
//!                   └─ arrays of integers or bools ──► offsets of the chosen elements
//! ```

use std::sync::Arc;

use super::{array, element, make, ufunc, zeros};
use crate::kernel::{
    array::Array,
    dtype::{DType, Kind, Scalar},
    exception::ExceptionKind as E,
    host::{
        Host,
        error::{raise, refuse},
        number::Number,
        ops,
    },
    value::{Run, Value},
};

/// What an index chooses.
enum Chosen {
    View(Array),
    Elements { source: Array, offsets: Vec<usize>, shape: Vec<usize> },
}

fn choose(host: &mut Host, a: &Array, index: &Value) -> Run<Chosen> {
    let parts: Vec<Value> = match index {
        Value::Tuple(parts) => parts.to_vec(),
        other => vec![other.clone()],
    };
    let mut arrays: Vec<Option<Arc<Array>>> = Vec::new();
    let mut used = 0;
    for part in &parts {
        let found = match part {
            Value::List(_) => {
                let list = make::as_array(host, part)?;
                // An empty list chooses nothing, whatever its dtype.
                Some(if list.is_empty() {
                    Arc::new(zeros(DType::I64, list.shape())?)
                } else {
                    list
                })
            }
            Value::Array(index) if index.ndim() > 0 || *index.dtype() == DType::Bool => {
                Some(index.clone())
            }
            Value::Bool(v) => Some(Arc::new(make::scalar_array(Scalar::Bool(*v)))),
            Value::Scalar(s @ Scalar::Bool(_)) => Some(Arc::new(make::scalar_array(*s))),
            _ => None,
        };
        used += match (&found, part) {
            (Some(mask), _) if *mask.dtype() == DType::Bool => mask.ndim(),
            (_, Value::None | Value::Ellipsis) => 0,
            _ => 1,
        };
        arrays.push(found);
    }
    if used > a.ndim() {
        return raise(
            E::IndexError,
            format!(
                "too many indices for array: array is {}-dimensional, but {used} were indexed",
                a.ndim()
            ),
        );
    }
    if parts.iter().filter(|part| matches!(part, Value::Ellipsis)).count() > 1 {
        return raise(E::IndexError, "an index can only have a single ellipsis ('...')");
    }
    let mut rest = a.ndim() - used;
    let mut offset = a.offset() as isize;
    let (mut shape, mut strides): (Vec<usize>, Vec<isize>) = (Vec::new(), Vec::new());
    // Index arrays with the stride and length of the dimension that each runs over, and where the result goes.
    let mut chosen: Vec<(Vec<i64>, Vec<usize>, isize)> = Vec::new();
    let mut place = None;
    let mut apart = false;
    let mut last_array = None;
    let mut axis = 0;
    let mut with_end: Vec<(Value, Option<Arc<Array>>)> = parts.into_iter().zip(arrays).collect();
    if !with_end.iter().any(|(part, _)| matches!(part, Value::Ellipsis)) {
        with_end.push((Value::Ellipsis, None));
    }
    let any_array = with_end.iter().any(|(_, array)| array.is_some());
    for (number, (part, index)) in with_end.into_iter().enumerate() {
        // Where index arrays are used, an integer is one of them.
        let index = match (&part, index) {
            (_, Some(index)) => Some(index),
            (Value::Int(_) | Value::Scalar(_), None) if any_array => match host.index(&part)? {
                Some(_) => Some(make::as_array(host, &part)?),
                None => None,
            },
            _ => None,
        };
        if let Some(index) = index {
            apart |= last_array.is_some_and(|last| last + 1 != number);
            last_array = Some(number);
            place = place.or(Some(shape.len()));
            if *index.dtype() == DType::Bool {
                for d in 0..index.ndim() {
                    let (n, m) = (a.shape()[axis + d], index.shape()[d]);
                    if n != m {
                        return raise(
                            E::IndexError,
                            format!(
                                "boolean index did not match indexed array along axis {}; size of axis is {n} but size of corresponding boolean axis is {m}",
                                axis + d
                            ),
                        );
                    }
                }
                let positions: Vec<usize> = index
                    .offsets()
                    .enumerate()
                    .filter(|(_, at)| index.read(*at).is_some_and(|v| v.truth()))
                    .map(|(at, _)| at)
                    .collect();
                let mut inner = 1;
                for d in (0..index.ndim()).rev() {
                    let m = index.shape()[d].max(1);
                    let along: Vec<i64> =
                        positions.iter().map(|p| (p / inner % m) as i64).collect();
                    let count = along.len();
                    chosen.push((along, vec![count], a.strides()[axis + d]));
                    inner *= m;
                }
                if index.ndim() == 0 {
                    // A bool adds a dimension of length 0 or 1.
                    chosen.push((vec![0; positions.len()], vec![positions.len()], 0));
                }
                axis += index.ndim();
                continue;
            }
            if index.dtype().kind() > Kind::Signed {
                return raise(
                    E::IndexError,
                    "arrays used as indices must be of integer (or boolean) type",
                );
            }
            let n = a.shape()[axis] as i64;
            let mut along = index.to_vec::<i64>();
            for at in &mut along {
                if *at < -n || *at >= n {
                    return out_of_bounds(*at, axis, n as usize);
                }
                if *at < 0 {
                    *at += n;
                }
            }
            chosen.push((along, index.shape().to_vec(), a.strides()[axis]));
            axis += 1;
            continue;
        }
        match &part {
            Value::None => {
                shape.push(1);
                strides.push(0);
            }
            Value::Ellipsis => {
                for _ in 0..std::mem::take(&mut rest) {
                    shape.push(a.shape()[axis]);
                    strides.push(a.strides()[axis]);
                    axis += 1;
                }
            }
            Value::Slice(slice) => {
                let span = host.slice(slice, a.shape()[axis])?;
                if span.count > 0 {
                    offset += span.start as isize * a.strides()[axis];
                }
                shape.push(span.count);
                strides.push(a.strides()[axis] * span.step as isize);
                axis += 1;
            }
            other => {
                let Some(at) = host.index(other)? else {
                    return raise(
                        E::IndexError,
                        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices",
                    );
                };
                let n = a.shape()[axis];
                let positive = if at < 0 { at + n as i128 } else { at };
                if positive < 0 || positive >= n as i128 {
                    return out_of_bounds(at, axis, n);
                }
                offset += positive as isize * a.strides()[axis];
                axis += 1;
            }
        }
    }
    let empty = shape.contains(&0);
    let view =
        a.with(if empty { a.offset() } else { offset as usize }, shape, strides, a.dtype().clone());
    if chosen.is_empty() {
        return Ok(Chosen::View(view));
    }
    let shapes: Vec<&[usize]> = chosen.iter().map(|(_, shape, _)| shape.as_slice()).collect();
    let Ok(index_shape) = ufunc::broadcast_shape(&shapes) else {
        let shown: Vec<String> = shapes
            .iter()
            .map(|s| crate::kernel::format::array::shape(s).replace(", ", ","))
            .collect();
        return raise(
            E::IndexError,
            format!(
                "shape mismatch: indexing arrays could not be broadcast together with shapes {} ",
                shown.join(" ")
            ),
        );
    };
    let count: usize = index_shape.iter().product();
    let mut jumps = vec![0isize; count];
    for (along, shape, stride) in &chosen {
        let along = Array::from_vec(along.clone(), shape);
        let Some(along) = along.broadcast(&index_shape) else { continue };
        for (jump, at) in jumps.iter_mut().zip(along.to_vec::<i64>()) {
            *jump += at as isize * stride;
        }
    }
    // The dimensions of the index arrays stand where the arrays stood, or first where something stood between them.
    let at = if apart { 0 } else { place.unwrap_or(0) };
    let (before, after) = view.shape().split_at(at);
    let outer =
        a.with(view.offset(), before.to_vec(), view.strides()[..at].to_vec(), a.dtype().clone());
    let inner_strides = view.strides()[at..].to_vec();
    let mut offsets = Vec::new();
    if !view.is_empty() && count > 0 {
        for first in outer.offsets() {
            for jump in &jumps {
                let from = (first as isize + jump) as usize;
                let inner = a.with(from, after.to_vec(), inner_strides.clone(), a.dtype().clone());
                offsets.extend(inner.offsets());
            }
        }
    }
    let shape = before.iter().chain(&index_shape).chain(after).copied().collect();
    Ok(Chosen::Elements { source: a.clone(), offsets, shape })
}

fn out_of_bounds<T>(at: impl std::fmt::Display, axis: usize, n: usize) -> Run<T> {
    raise(E::IndexError, format!("index {at} is out of bounds for axis {axis} with size {n}"))
}

/// `array[index]`.
pub(crate) fn get_item(host: &mut Host, object: &Value, index: &Value) -> Run<Value> {
    let Value::Array(a) = object else { return Ok(Value::None) };
    match index {
        Value::Str(name) => {
            return match a.field(name) {
                Some(field) => Ok(array(field)),
                None if matches!(a.dtype(), DType::Record(_)) => {
                    raise(E::ValueError, format!("no field of name {name}"))
                }
                None => raise(
                    E::IndexError,
                    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices",
                ),
            };
        }
        Value::List(names) if matches!(names.lock().first(), Some(Value::Str(_))) => {
            return refuse("several fields at once are not supported", "take one field at a time");
        }
        _ => {}
    }
    match choose(host, a, index)? {
        // An ellipsis alone keeps an array where there are no dimensions.
        Chosen::View(view) if contains_ellipsis(index) => Ok(array(view)),
        Chosen::View(view) => Ok(element(&view)),
        Chosen::Elements { source, offsets, shape } => {
            let out = zeros(source.dtype().clone(), &shape)?;
            for (to, from) in out.offsets().zip(offsets) {
                out.set_bytes(to, &source.bytes(from));
            }
            Ok(element(&out))
        }
    }
}

fn contains_ellipsis(index: &Value) -> bool {
    match index {
        Value::Ellipsis => true,
        Value::Tuple(parts) => parts.iter().any(|part| matches!(part, Value::Ellipsis)),
        _ => false,
    }
}

/// `array[index] = value`.
pub(crate) fn set_item(host: &mut Host, a: &Arc<Array>, index: &Value, value: &Value) -> Run<()> {
    check_writable(a)?;
    if let Value::Str(name) = index {
        return match a.field(name) {
            Some(field) => assign(host, &field, value),
            None => raise(E::ValueError, format!("no field of name {name}")),
        };
    }
    match choose(host, a, index)? {
        Chosen::View(view) => assign(host, &view, value),
        Chosen::Elements { source, offsets, shape } => {
            let values = zeros(source.dtype().clone(), &shape)?;
            assign(host, &values, value)?;
            for (to, from) in offsets.into_iter().zip(values.offsets()) {
                source.set_bytes(to, &values.bytes(from));
            }
            Ok(())
        }
    }
}

/// A `ValueError` where elements may only be read.
pub(super) fn check_writable(a: &Array) -> Run<()> {
    if a.writable() { Ok(()) } else { raise(E::ValueError, "assignment destination is read-only") }
}

/// `record[index]`.
pub(crate) fn record_item(host: &mut Host, record: &Array, index: &Value) -> Run<Value> {
    if let Value::Str(name) = index {
        return match record.field(name) {
            Some(field) => Ok(element(&field)),
            None => raise(E::ValueError, format!("no field of name {name}")),
        };
    }
    let items = Value::tuple(super::record_items(record));
    host.item(&items, index)
}

/// `record[index] = value`.
pub(crate) fn set_record_item(
    host: &mut Host,
    record: &Array,
    index: &Value,
    value: &Value,
) -> Run<()> {
    let name = match (index, record.dtype(), host.index(index)?) {
        (Value::Str(name), ..) => Some(name.clone()),
        (_, DType::Record(layout), Some(at)) => {
            let n = layout.fields.len() as i128;
            let at = if at < 0 { at + n } else { at };
            usize::try_from(at)
                .ok()
                .and_then(|at| layout.fields.get(at))
                .map(|field| field.name.clone())
        }
        _ => None,
    };
    match name.as_ref().and_then(|name| record.field(name)) {
        Some(field) => assign(host, &field, value),
        None => raise(E::IndexError, "invalid index"),
    }
}

/// Writes a value, repeated as broadcasting says, to all elements of a view.
pub(super) fn assign(host: &mut Host, target: &Array, value: &Value) -> Run<()> {
    let record = matches!(target.dtype(), DType::Record(_));
    match value {
        Value::List(_) | Value::Array(_) | Value::Range(_) => {}
        Value::Tuple(_) if !record => {}
        single => {
            let single_record = matches!(single, Value::Record(_)) && !record;
            if single_record {
                return refuse("a record cannot become a number", "take one of its fields");
            }
            // Converted once, written everywhere.
            let one = zeros(target.dtype().clone(), &[])?;
            write_element(host, &one, one.offset(), single)?;
            let bytes = one.bytes(one.offset());
            for at in target.offsets() {
                target.set_bytes(at, &bytes);
            }
            return Ok(());
        }
    }
    let source = if let (Value::List(_), true) = (value, record) {
        let dtype = Value::DType(target.dtype().clone());
        match make::call(host, "array", &[value.clone(), dtype], &Vec::new())? {
            Some(Value::Array(a)) => a,
            _ => return Ok(()),
        }
    } else {
        make::as_array(host, value)?
    };
    // Leading dimensions of length 1 do not count.
    let mut view = (*source).clone();
    while view.ndim() > target.ndim() && view.shape()[0] == 1 {
        view = view.at(0);
    }
    let Some(view) = view.broadcast(target.shape()) else {
        return make::cannot_broadcast(source.shape(), target.shape());
    };
    if view.dtype().kind() == Kind::Complex && target.dtype().kind() < Kind::Complex {
        return refuse("complex numbers would lose their imaginary part", "take `.real` first");
    }
    if record && view.dtype() != target.dtype() {
        return refuse("these records differ in their fields", "copy field by field");
    }
    copy_into(target, &view);
    Ok(())
}

/// Copies elements between arrays of one shape. The source may overlap with the target.
pub(super) fn copy_into(target: &Array, source: &Array) {
    if source.dtype() == target.dtype() {
        let values: Vec<Vec<u8>> = source.offsets().map(|at| source.bytes(at)).collect();
        for (at, value) in target.offsets().zip(values) {
            target.set_bytes(at, &value);
        }
    } else {
        let values: Vec<Option<Scalar>> = source.offsets().map(|at| source.read(at)).collect();
        for (at, value) in target.offsets().zip(values) {
            if let Some(value) = value {
                target.write(at, value);
            }
        }
    }
}

/// Writes one value to one element.
pub(super) fn write_element(host: &mut Host, target: &Array, at: usize, value: &Value) -> Run<()> {
    if let DType::Record(layout) = target.dtype() {
        return match value {
            Value::Tuple(items) => {
                if items.len() != layout.fields.len() {
                    return raise(
                        E::ValueError,
                        format!(
                            "could not assign tuple of length {} to structure with {} fields.",
                            items.len(),
                            layout.fields.len()
                        ),
                    );
                }
                for (field, item) in layout.fields.iter().zip(items.iter()) {
                    let place =
                        target.with(at + field.offset, Vec::new(), Vec::new(), field.dtype.clone());
                    write_element(host, &place, at + field.offset, item)?;
                }
                Ok(())
            }
            Value::Record(record) if record.dtype() == target.dtype() => {
                target.set_bytes(at, &record.bytes(record.offset()));
                Ok(())
            }
            _ => {
                for field in &layout.fields {
                    let place =
                        target.with(at + field.offset, Vec::new(), Vec::new(), field.dtype.clone());
                    write_element(host, &place, at + field.offset, value)?;
                }
                Ok(())
            }
        };
    }
    let scalar = match value {
        Value::Scalar(scalar) => {
            if matches!(scalar, Scalar::C128(..)) && target.dtype().kind() < Kind::Complex {
                return refuse(
                    "complex numbers would lose their imaginary part",
                    "take `.real` first",
                );
            }
            *scalar
        }
        Value::Bool(v) => Scalar::Bool(*v),
        Value::Array(a) if a.ndim() == 0 => a.read(a.offset()).unwrap_or(Scalar::I64(0)),
        Value::Float(v) if target.dtype().is_integer() && !v.is_finite() => {
            host.float_to_int(*v)?;
            Scalar::I64(0)
        }
        _ => match Number::of(value) {
            Some(number) => make::number_element(number, target.dtype())?,
            None if ops::is_numpy(value)
                || value.is_iterable() && !matches!(value, Value::Str(_)) =>
            {
                return raise(E::ValueError, "setting an array element with a sequence.");
            }
            None => {
                let v = host.make_float(value.clone())?;
                Scalar::F64(v)
            }
        },
    };
    target.write(at, scalar);
    Ok(())
}
