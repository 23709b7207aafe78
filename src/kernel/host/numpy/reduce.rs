//! Functions that combine the elements of an axis: sums, extremes, sorting, products of matrices.

use std::{cmp::Ordering, ops::Add, sync::Arc};

use super::{array, cast, element, make, shape, ufunc, zeros};
use crate::kernel::{
    array::{Array, Complex},
    dtype::{DType, Kind, Scalar},
    exception::ExceptionKind as E,
    host::{
        Host,
        call::{Args, Keywords},
        error::{raise, refuse},
        number,
    },
    syntax::BinaryOp,
    value::{Run, Value},
};

/// Which axes a function combines, none meaning all.
fn axis_of(host: &mut Host, axis: Option<Value>, ndim: usize) -> Run<Option<usize>> {
    match axis {
        None | Some(Value::None) => Ok(None),
        Some(Value::Tuple(axes)) if axes.len() == ndim => Ok(None),
        Some(Value::Tuple(axes)) if axes.len() == 1 => axis_of(host, Some(axes[0].clone()), ndim),
        Some(Value::Tuple(_)) => {
            refuse("several axes at once are not supported", "combine one axis after the other")
        }
        Some(axis) => {
            let Some(at) = host.index(&axis)? else {
                return raise(
                    E::TypeError,
                    format!("'{}' object cannot be interpreted as an integer", axis.type_name()),
                );
            };
            shape::axis(at, ndim).map(Some)
        }
    }
}

/// The lines along an axis, each a view of one dimension, in C order of the other dimensions; all elements as one line
/// where there is no axis.
fn lines(a: &Array, axis: Option<usize>) -> Run<(Vec<Array>, Vec<usize>)> {
    let Some(axis) = axis else { return Ok((vec![shape::ravel(a)?], Vec::new())) };
    let mut rest = a.shape().to_vec();
    let n = rest.remove(axis);
    let mut strides = a.strides().to_vec();
    let stride = strides.remove(axis);
    if n == 0 {
        // No element exists from which a line could begin.
        let empty = zeros(a.dtype().clone(), &[0])?;
        return Ok((vec![empty; rest.iter().product()], rest));
    }
    let starts = a.with(a.offset(), rest.clone(), strides, a.dtype().clone());
    let line = |at: usize| a.with(at, vec![n], vec![stride], a.dtype().clone());
    Ok((starts.offsets().map(line).collect(), rest))
}

/// The sum as NumPy adds: in halves down to blocks of 128, which have eight running sums.
fn pairwise<T: Copy + Default + Add<Output = T>>(values: &[T]) -> T {
    let n = values.len();
    if n < 8 {
        return values.iter().fold(T::default(), |total, v| total + *v);
    }
    if n <= 128 {
        let mut r = [T::default(); 8];
        r.copy_from_slice(&values[..8]);
        let blocks = n - n % 8;
        for block in values[8..blocks].chunks_exact(8) {
            for (total, v) in r.iter_mut().zip(block) {
                *total = *total + *v;
            }
        }
        let total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        return values[blocks..].iter().fold(total, |total, v| total + *v);
    }
    let half = n / 2 - n / 2 % 8;
    pairwise(&values[..half]) + pairwise(&values[half..])
}

/// The sum or product of a line in the dtype of the result.
fn total(line: &Array, name: &str, dtype: &DType, along_rows: bool) -> Scalar {
    let sum = name == "sum";
    match dtype.kind() {
        Kind::Float if *dtype == DType::F32 => {
            let values = line.to_vec::<f32>();
            Scalar::F32(match (sum, along_rows) {
                (true, false) => pairwise(&values),
                (true, true) => values.iter().fold(0.0, |t, v| t + v),
                _ => values.iter().product(),
            })
        }
        Kind::Float => {
            let values = line.to_vec::<f64>();
            Scalar::F64(match (sum, along_rows) {
                (true, false) => pairwise(&values),
                (true, true) => values.iter().fold(0.0, |t, v| t + v),
                _ => values.iter().product(),
            })
        }
        Kind::Complex => {
            let values = line.to_vec::<Complex>();
            if sum {
                let part =
                    |f: fn(&Complex) -> f64| pairwise(&values.iter().map(f).collect::<Vec<_>>());
                Scalar::C128(part(|z| z.re), part(|z| z.im))
            } else {
                let (re, im) =
                    values.iter().fold((1.0, 0.0), |t, z| number::complex_mul(t, (z.re, z.im)));
                Scalar::C128(re, im)
            }
        }
        Kind::Unsigned => {
            let values = line.to_vec::<u64>();
            let total = if sum {
                values.into_iter().fold(0, u64::wrapping_add)
            } else {
                values.into_iter().fold(1, u64::wrapping_mul)
            };
            Scalar::U64(total).cast(dtype)
        }
        _ => {
            let values = line.to_vec::<i64>();
            let total = if sum {
                values.into_iter().fold(0, i64::wrapping_add)
            } else {
                values.into_iter().fold(1, i64::wrapping_mul)
            };
            Scalar::I64(total).cast(dtype)
        }
    }
}

/// How two elements of one dtype are ordered; `nan` after all else.
fn order(a: &Scalar, b: &Scalar) -> Ordering {
    match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let (p, q) = (a.as_complex(), b.as_complex());
            let by =
                |x: f64, y: f64| x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()));
            by(p.0, q.0).then(by(p.1, q.1))
        }
    }
}

fn elements(line: &Array) -> Vec<Scalar> {
    line.offsets().filter_map(|at| line.read(at)).collect()
}

/// The position of the least (or greatest) element, the first of equals; a `nan` wins.
fn extreme(values: &[Scalar], greatest: bool) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        let is_nan = |v: &Scalar| v.as_complex().0.is_nan() || v.as_complex().1.is_nan();
        if is_nan(&values[best]) {
            break;
        }
        let better = is_nan(value)
            || if greatest {
                order(value, &values[best]) == Ordering::Greater
            } else {
                order(value, &values[best]) == Ordering::Less
            };
        if better {
            best = at;
        }
    }
    best
}

/// Sorts along an axis, the last unless told otherwise.
pub(super) fn sort(host: &mut Host, a: &Array, axis: Option<Value>) -> Run<Array> {
    let source = match axis {
        Some(Value::None) => shape::ravel(a)?,
        _ => a.clone(),
    };
    if source.ndim() == 0 {
        return raise(E::ValueError, "axis -1 is out of bounds for array of dimension 0");
    }
    let axis = match axis {
        None | Some(Value::None) => Some(Value::Int(-1)),
        other => other,
    };
    let axis = axis_of(host, axis, source.ndim())?;
    let out = cast(&source, source.dtype())?;
    for line in lines(&out, axis)?.0 {
        let mut values = elements(&line);
        values.sort_by(order);
        for (at, value) in line.offsets().zip(values) {
            line.write(at, value);
        }
    }
    Ok(out)
}

/// Calls a function that combines elements; `None` where `name` is none.
pub(super) fn call(
    host: &mut Host,
    name: &str,
    args: &[Value],
    keywords: &Keywords,
) -> Run<Option<Value>> {
    let a = |function: &'static str| Args::new(function, args.to_vec(), keywords.clone());
    Ok(Some(match name {
        "sum" | "prod" | "mean" | "min" | "max" | "any" | "all" | "argmin" | "argmax" | "ptp"
        | "std" | "var" | "median" | "nansum" | "nanmax" | "nanmin" | "nanmean" | "nanprod"
        | "count_nonzero" => {
            let [object, axis, dtype, keepdims, ddof, out] = match name {
                "std" | "var" => {
                    a("var").take(["a", "axis", "dtype", "keepdims", "ddof", "out"], 1)?
                }
                "sum" | "prod" | "mean" => {
                    a("sum").take(["a", "axis", "dtype", "keepdims", "", "out"], 1)?
                }
                _ => {
                    let [object, axis, out, keepdims] =
                        a("max").take(["a", "axis", "out", "keepdims"], 1)?;
                    [object, axis, None, keepdims, None, out]
                }
            };
            if out.is_some_and(|out| !matches!(out, Value::None)) {
                return refuse("`out=` is not supported", "assign the result");
            }
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let axis = axis_of(host, axis, source.ndim())?;
            let dtype = make::dtype_option(host, dtype)?;
            let keep = match keepdims {
                Some(keep) => host.truth(&keep)?,
                None => false,
            };
            let ddof = match ddof {
                Some(ddof) => host.make_float(ddof)?,
                None => 0.0,
            };
            let (lines, mut rest) = lines(&source, axis)?;
            // Sums over rows of contiguous memory go row by row.
            let along_rows =
                axis.is_some_and(|axis| axis + 1 < source.ndim()) && source.is_c_contiguous();
            let mut values = Vec::with_capacity(lines.len());
            for line in &lines {
                values.push(reduce_line(name, line, dtype.as_ref(), ddof, along_rows)?);
            }
            if keep {
                match axis {
                    Some(axis) => rest.insert(axis, 1),
                    None => rest = vec![1; source.ndim()],
                }
            }
            let result = match values.first() {
                Some(first) => first.dtype(),
                None => reduce_line(
                    name,
                    &zeros(source.dtype().clone(), &[1])?,
                    dtype.as_ref(),
                    ddof,
                    false,
                )?
                .dtype(),
            };
            let out = zeros(result, &rest)?;
            for (at, value) in out.offsets().zip(values) {
                out.write(at, value);
            }
            match name {
                "count_nonzero" if axis.is_none() => match element(&out) {
                    Value::Scalar(scalar) => crate::kernel::host::attributes::item(&scalar),
                    other => other,
                },
                _ => element(&out),
            }
        }
        "cumsum" | "cumprod" => {
            let [object, axis, dtype] = a("cumsum").take(["a", "axis", "dtype"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let axis = axis_of(host, axis, source.ndim())?;
            let source = if axis.is_none() { shape::ravel(&source)? } else { (*source).clone() };
            let dtype =
                make::dtype_option(host, dtype)?.unwrap_or_else(|| sum_dtype(source.dtype()));
            let out = cast(&source, &dtype)?;
            let op = if name == "cumsum" { BinaryOp::Add } else { BinaryOp::Mul };
            for line in lines(&out, Some(axis.unwrap_or(0)))?.0 {
                let mut before: Option<Value> = None;
                for at in line.offsets() {
                    let here = Value::Scalar(line.read(at).unwrap_or(Scalar::I64(0)));
                    let now = match before {
                        Some(before) => ufunc::binary(host, op, &before, &here)?,
                        None => here,
                    };
                    if let Value::Scalar(scalar) = now {
                        line.write(at, scalar);
                    }
                    before = Some(now);
                }
            }
            array(out)
        }
        "sort" => {
            let [object, axis] = a("sort").take(["a", "axis"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            array(sort(host, &source, axis)?)
        }
        "argsort" => {
            let [object, axis, _] = a("argsort").take(["a", "axis", "kind"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let axis = axis_of(host, Some(axis.unwrap_or(Value::Int(-1))), source.ndim())?;
            let source = if axis.is_none() { shape::ravel(&source)? } else { (*source).clone() };
            let out = zeros(DType::I64, source.shape())?;
            let axis = Some(axis.unwrap_or(0));
            for (line, to) in lines(&source, axis)?.0.iter().zip(lines(&out, axis)?.0) {
                let values = elements(line);
                let mut places: Vec<usize> = (0..values.len()).collect();
                places.sort_by(|&i, &j| order(&values[i], &values[j]));
                for (at, place) in to.offsets().zip(places) {
                    to.write(at, Scalar::I64(place as i64));
                }
            }
            array(out)
        }
        "unique" => {
            let [object] = a("unique").take(["ar"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let mut values = elements(&source);
            values.sort_by(order);
            values.dedup_by(|a, b| order(a, b) == Ordering::Equal);
            let out = zeros(source.dtype().clone(), &[values.len()])?;
            for (at, value) in out.offsets().zip(values) {
                out.write(at, value);
            }
            array(out)
        }
        "dot" | "matmul" => {
            let [x, y] = a("dot").exactly()?;
            matmul_or_dot(host, &x, &y, name == "dot")?
        }
        "outer" => {
            let [x, y] = a("outer").exactly()?;
            let (x, y) = (make::as_array(host, &x)?, make::as_array(host, &y)?);
            let column = shape::ravel(&x)?;
            let column = column.with(
                column.offset(),
                vec![column.len(), 1],
                vec![column.strides()[0], 0],
                column.dtype().clone(),
            );
            let row = shape::ravel(&y)?;
            ufunc::binary(host, BinaryOp::Mul, &array(column), &array(row))?
        }
        "diff" => {
            let [object] = a("diff").take(["a"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            if source.ndim() != 1 {
                return refuse(
                    "`np.diff` of several dimensions is not supported in host code",
                    "compute it in a kernel",
                );
            }
            let n = source.len().saturating_sub(1);
            let part = |from: usize| {
                let offset = if n == 0 {
                    source.offset() as isize
                } else {
                    source.offset() as isize + from as isize * source.strides()[0]
                };
                array(source.with(
                    offset as usize,
                    vec![n],
                    source.strides().to_vec(),
                    source.dtype().clone(),
                ))
            };
            ufunc::binary(host, BinaryOp::Sub, &part(1), &part(0))?
        }
        "allclose" | "isclose" => {
            let [x, y, rtol, atol] = a("isclose").take(["a", "b", "rtol", "atol"], 2)?;
            let rtol = rtol.map_or(Ok(1e-5), |v| host.make_float(v))?;
            let atol = atol.map_or(Ok(1e-8), |v| host.make_float(v))?;
            let (x, y) = (
                make::as_array(host, &x.unwrap_or_default())?,
                make::as_array(host, &y.unwrap_or_default())?,
            );
            let shape = ufunc::broadcast_shape(&[x.shape(), y.shape()])?;
            let values =
                |a: &Array| a.broadcast(&shape).map_or_else(Vec::new, |a| a.to_vec::<Complex>());
            let close: Vec<bool> = values(&x)
                .into_iter()
                .zip(values(&y))
                .map(|(x, y)| {
                    let finite = x.re.is_finite()
                        && x.im.is_finite()
                        && y.re.is_finite()
                        && y.im.is_finite();
                    if finite {
                        (x.re - y.re).hypot(x.im - y.im) <= atol + rtol * y.re.hypot(y.im)
                    } else {
                        x == y
                    }
                })
                .collect();
            if name == "allclose" {
                Value::Bool(close.into_iter().all(|c| c))
            } else {
                let bools = close.into_iter().map(ufunc::Bool::new).collect();
                element(&Array::from_vec::<ufunc::Bool>(bools, &shape))
            }
        }
        "array_equal" => {
            let [x, y] = a("array_equal").exactly()?;
            let (x, y) = (make::as_array(host, &x)?, make::as_array(host, &y)?);
            if x.shape() != y.shape() {
                return Ok(Some(Value::Bool(false)));
            }
            let same = ufunc::compare(
                host,
                crate::kernel::syntax::CompareOp::Eq,
                &array((*x).clone()),
                &array((*y).clone()),
            )?;
            let all = call(host, "all", &[same], &Vec::new())?.unwrap_or_default();
            Value::Bool(host.truth(&all)?)
        }
        "trace" => {
            let [object] = a("trace").take(["a"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let diagonal = shape::diagonal(&source)?;
            return call(host, "sum", &[array(diagonal)], &Vec::new());
        }
        "bincount" => {
            let [object, _, minlength] = a("bincount").take(["x", "weights", "minlength"], 1)?;
            let source = make::as_array(host, &object.unwrap_or_default())?;
            let values = source.to_vec::<i64>();
            if values.iter().any(|&v| v < 0) {
                return raise(E::ValueError, "'list' argument must have no negative elements");
            }
            let least = match minlength {
                Some(n) => host.index(&n)?.unwrap_or(0).max(0) as usize,
                None => 0,
            };
            let n = values.iter().max().map_or(0, |&v| v as usize + 1).max(least);
            zeros(DType::I64, &[n])?;
            let mut counts = vec![0i64; n];
            values.iter().for_each(|&v| counts[v as usize] += 1);
            array(Array::from_vec(counts, &[n]))
        }
        "searchsorted" => {
            let [sorted, values, side] = a("searchsorted").take(["a", "v", "side"], 2)?;
            let right = matches!(side, Some(Value::Str(side)) if &*side == "right");
            let sorted = elements(&*make::as_array(host, &sorted.unwrap_or_default())?);
            let values = make::as_array(host, &values.unwrap_or_default())?;
            let places: Vec<i64> = elements(&values)
                .iter()
                .map(|v| {
                    sorted.partition_point(|s| match order(s, v) {
                        Ordering::Less => true,
                        Ordering::Equal => right,
                        Ordering::Greater => false,
                    }) as i64
                })
                .collect();
            element(&Array::from_vec(places, values.shape()))
        }
        _ => return Ok(None),
    }))
}

/// The dtype that sums of integers widen to.
fn sum_dtype(dtype: &DType) -> DType {
    match dtype.kind() {
        Kind::Bool | Kind::Signed => DType::I64,
        Kind::Unsigned => DType::U64,
        _ => dtype.clone(),
    }
}

fn reduce_line(
    name: &str,
    line: &Array,
    dtype: Option<&DType>,
    ddof: f64,
    along_rows: bool,
) -> Run<Scalar> {
    if let DType::Record(_) = line.dtype() {
        return raise(E::TypeError, format!("`np.{name}` is not supported for records"));
    }
    let without_nan = || -> Array {
        let kept: Vec<f64> = line.to_vec::<f64>().into_iter().filter(|v| !v.is_nan()).collect();
        let n = kept.len();
        Array::from_vec(kept, &[n])
    };
    if let Some(name) = name.strip_prefix("nan")
        && line.dtype().kind() == Kind::Float
    {
        let scalar = reduce_line(name, &without_nan(), dtype, ddof, along_rows)?;
        return Ok(scalar.cast(line.dtype()));
    }
    let name = name.strip_prefix("nan").unwrap_or(name);
    let n = line.len();
    Ok(match name {
        "sum" | "prod" => {
            let dtype = dtype.cloned().unwrap_or_else(|| sum_dtype(line.dtype()));
            total(line, name, &dtype, along_rows)
        }
        "any" | "all" => {
            let mut truths = line.offsets().map(|at| line.read(at).is_some_and(|v| v.truth()));
            Scalar::Bool(if name == "any" { truths.any(|t| t) } else { truths.all(|t| t) })
        }
        "count_nonzero" => Scalar::I64(
            line.offsets().filter(|at| line.read(*at).is_some_and(|v| v.truth())).count() as i64,
        ),
        "min" | "max" | "argmin" | "argmax" => {
            if n == 0 {
                return raise(
                    E::ValueError,
                    if name.starts_with("arg") {
                        format!("attempt to get {name} of an empty sequence")
                    } else {
                        format!(
                            "zero-size array to reduction operation {}imum which has no identity",
                            if name == "min" { "min" } else { "max" }
                        )
                    },
                );
            }
            let values = elements(line);
            let at = extreme(&values, name.ends_with("max"));
            if name.starts_with("arg") { Scalar::I64(at as i64) } else { values[at] }
        }
        "ptp" => {
            let high = reduce_line("max", line, None, 0.0, false)?;
            let low = reduce_line("min", line, None, 0.0, false)?;
            match (high.as_int(), low.as_int()) {
                (Some(h), Some(l)) => Scalar::I64(h.wrapping_sub(l) as i64).cast(line.dtype()),
                _ => Scalar::F64(high.as_complex().0 - low.as_complex().0).cast(line.dtype()),
            }
        }
        "median" => {
            let mut values = line.to_vec::<f64>();
            values.sort_by(f64::total_cmp);
            let middle = if values.iter().any(|v| v.is_nan()) || n == 0 {
                f64::NAN
            } else if n % 2 == 1 {
                values[n / 2]
            } else {
                (values[n / 2 - 1] + values[n / 2]) / 2.0
            };
            Scalar::F64(middle).cast(if *line.dtype() == DType::F32 {
                &DType::F32
            } else {
                &DType::F64
            })
        }
        _ => {
            // mean, var, std
            let float = match line.dtype() {
                DType::F32 => DType::F32,
                DType::C128 => DType::C128,
                _ => DType::F64,
            };
            let float = dtype.cloned().unwrap_or(float);
            let count = n as f64;
            let sum = total(line, "sum", &float, along_rows);
            let divide = |scalar: Scalar, by: f64| match scalar {
                Scalar::F32(v) => Scalar::F32(v / by as f32),
                Scalar::C128(re, im) => Scalar::C128(re / by, im / by),
                other => Scalar::F64(other.as_float().unwrap_or(f64::NAN) / by),
            };
            let mean = divide(sum, count);
            if name == "mean" {
                return Ok(mean);
            }
            let squares = match (&float, mean) {
                (DType::F32, Scalar::F32(mean)) => {
                    let squares: Vec<f32> =
                        line.to_vec::<f32>().iter().map(|v| (v - mean) * (v - mean)).collect();
                    total(&Array::from_vec(squares, &[n]), "sum", &float, along_rows)
                }
                (_, mean) => {
                    let (re, im) = mean.as_complex();
                    let squares: Vec<f64> = line
                        .to_vec::<Complex>()
                        .iter()
                        .map(|z| (z.re - re) * (z.re - re) + (z.im - im) * (z.im - im))
                        .collect();
                    total(&Array::from_vec(squares, &[n]), "sum", &DType::F64, along_rows)
                }
            };
            let variance = divide(squares, (count - ddof).max(0.0));
            match (name, variance) {
                ("std", Scalar::F32(v)) => Scalar::F32(v.sqrt()),
                ("std", Scalar::F64(v)) => Scalar::F64(v.sqrt()),
                (_, other) => other,
            }
        }
    })
}

/// `left @ right`.
pub(super) fn matmul(host: &mut Host, left: &Value, right: &Value) -> Run<Value> {
    matmul_or_dot(host, left, right, false)
}

fn matmul_or_dot(host: &mut Host, left: &Value, right: &Value, dot: bool) -> Run<Value> {
    let (x, y) = (make::as_array(host, left)?, make::as_array(host, right)?);
    if x.ndim() == 0 || y.ndim() == 0 {
        if dot {
            return ufunc::binary(host, BinaryOp::Mul, &element(&x), &element(&y));
        }
        return raise(
            E::ValueError,
            "matmul: Input operand 0 does not have enough dimensions (has 0, gufunc core with signature (n?,k),(k,m?)->(n?,m?) requires 1)",
        );
    }
    if x.ndim() > 2 || y.ndim() > 2 {
        return refuse(
            "products of more than two dimensions are not supported in host code",
            "compute them in a kernel",
        );
    }
    let Some(dtype) = x.dtype().promote(y.dtype()).filter(|d| d.kind() != Kind::Record) else {
        return raise(E::TypeError, "records have no product");
    };
    let (rows, k) = if x.ndim() == 2 { (x.shape()[0], x.shape()[1]) } else { (1, x.shape()[0]) };
    let (k2, columns) =
        if y.ndim() == 2 { (y.shape()[0], y.shape()[1]) } else { (y.shape()[0], 1) };
    if k != k2 {
        let shown =
            |a: &Arc<Array>| crate::kernel::format::array::shape(a.shape()).replace(", ", ",");
        return raise(
            E::ValueError,
            format!(
                "shapes {} and {} not aligned: {k} (dim {}) != {k2} (dim 0)",
                shown(&x),
                shown(&y),
                x.ndim() - 1
            ),
        );
    }
    let mut out_shape = Vec::new();
    if x.ndim() == 2 {
        out_shape.push(rows);
    }
    if y.ndim() == 2 {
        out_shape.push(columns);
    }
    let out = zeros(dtype.clone(), &out_shape)?;
    fn product<T: crate::kernel::array::Element>(
        (x, y): (&Array, &Array),
        (rows, k, columns): (usize, usize, usize),
        zero: T,
        step: impl Fn(T, T, T) -> T,
    ) -> Vec<T> {
        let (x, y) = (x.to_vec::<T>(), y.to_vec::<T>());
        let mut out = vec![zero; rows * columns];
        for i in 0..rows {
            for l in 0..k {
                let a = x[i * k + l];
                for j in 0..columns {
                    out[i * columns + j] = step(out[i * columns + j], a, y[l * columns + j]);
                }
            }
        }
        out
    }
    let (pair, size) = ((&*x, &*y), (rows, k, columns));
    let made = match dtype.kind() {
        Kind::Float if dtype == DType::F32 => {
            Array::from_vec(product(pair, size, 0f32, |t, a, b| t + a * b), &out_shape)
        }
        Kind::Float => Array::from_vec(product(pair, size, 0f64, |t, a, b| t + a * b), &out_shape),
        Kind::Complex => {
            let zero = Complex::default();
            let step = |t: Complex, a: Complex, b: Complex| {
                let (re, im) = number::complex_mul((a.re, a.im), (b.re, b.im));
                Complex { re: t.re + re, im: t.im + im }
            };
            Array::from_vec(product(pair, size, zero, step), &out_shape)
        }
        Kind::Bool => {
            let counts =
                Array::from_vec(product(pair, size, 0i64, |t, a, b| t + a * b), &out_shape);
            cast(&counts, &DType::Bool)?
        }
        Kind::Unsigned => {
            let step = |t: u64, a: u64, b: u64| t.wrapping_add(a.wrapping_mul(b));
            cast(&Array::from_vec(product(pair, size, 0u64, step), &out_shape), out.dtype())?
        }
        _ => {
            let step = |t: i64, a: i64, b: i64| t.wrapping_add(a.wrapping_mul(b));
            cast(&Array::from_vec(product(pair, size, 0i64, step), &out_shape), out.dtype())?
        }
    };
    Ok(element(&made))
}
