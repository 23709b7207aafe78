//! Kernels over arrays: ufuncs, element by element, and row kernels, block by block.
//!
//! ```text
//!   arguments ──► loop by their element types ──► broadcast ──► axes that lie one after the other are one axis
//!                                                                 └─► a call of the loop per row, of a row kernel per block
//! ```
//!
//! A ufunc's kernel is compiled together with the loop that applies it to arrays ([`each`](super::lower::each)).
//! Which of a ufunc's declared loops runs is NumPy's choice: the first that every argument can be cast to safely.

use std::sync::Arc;

use super::abi::{Callable, Data};
use super::dispatch::{self, Dispatcher, Request, Spec, refuse};
use super::host::Host;
use super::make;
use super::marshal;
use super::rules::{self, Rule};
use super::syntax::Name;
use super::types::Ty;
use super::value::{Array, Builtin, DType, ExceptionKind, KernelDef, Raised, Run, Scalar, Value};

fn fail<T>(kind: ExceptionKind, message: impl AsRef<str>) -> Run<T> {
    Err(Raised::new(kind, message).into())
}

/// The argument as an array; a number is one without axes.
fn as_array(value: &Value) -> Run<Arc<Array>> {
    if let Value::Array(array) = value {
        return Ok(Arc::clone(array));
    }
    let Some(scalar) = marshal::number(value) else {
        return fail(ExceptionKind::TypeError, "a ufunc takes numbers and arrays of them");
    };
    let array = zeros(&scalar.dtype(), &[])?;
    array.write(array.offset(), scalar);
    Ok(Arc::new(array))
}

fn zeros(dtype: &DType, shape: &[usize]) -> Run<Array> {
    match Array::zeros(dtype.clone(), shape) {
        Some(array) => Ok(array),
        None => fail(ExceptionKind::MemoryError, "Unable to allocate the result"),
    }
}

/// An array's elements as ones of another type.
fn cast(array: &Arc<Array>, dtype: &DType) -> Run<Arc<Array>> {
    if array.dtype() == dtype {
        return Ok(Arc::clone(array));
    }
    let out = zeros(dtype, array.shape())?;
    copy(array, &out);
    Ok(Arc::new(out))
}

/// Writes the elements of one array to those of another, one by one.
fn copy(from: &Array, to: &Array) {
    for (from_at, to_at) in from.offsets().zip(to.offsets()) {
        if let Some(scalar) = from.read(from_at) {
            to.write(to_at, scalar);
        }
    }
}

/// The shape that these broadcast to.
fn broadcast(shapes: &[&[usize]]) -> Run<Vec<usize>> {
    let ndim = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut out = vec![1; ndim];
    for shape in shapes {
        for (at, &length) in shape.iter().rev().enumerate() {
            let place = &mut out[ndim - 1 - at];
            if *place == 1 {
                *place = length;
            } else if length != 1 && length != *place {
                let shapes: Vec<_> = shapes.iter().map(|shape| tuple(shape)).collect();
                let message = format!(
                    "operands could not be broadcast together with shapes {} ",
                    shapes.join(" ")
                );
                return fail(ExceptionKind::ValueError, message);
            }
        }
    }
    Ok(out)
}

fn tuple(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        shape => {
            let lengths: Vec<_> = shape.iter().map(usize::to_string).collect();
            format!("({})", lengths.join(","))
        }
    }
}

/// What a scalar result is to host code.
fn scalar_of(array: &Array) -> Value {
    array.read(array.offset()).map_or(Value::None, Value::Scalar)
}

/// The kernel of a ufunc for some types: numbers in, one number out.
struct Elements {
    spec: Arc<Spec>,
    /// The loop over it.
    each: Callable,
    operands: Vec<DType>,
    returns: DType,
}

impl Elements {
    /// One call of the kernel.
    fn call(&self, host: &mut Host, args: &[Scalar]) -> Run<Scalar> {
        let data = args.iter().zip(&self.operands).map(|(scalar, dtype)| data(scalar.cast(dtype)));
        let data: Vec<_> = data.collect();
        Ok(scalar(&self.spec.call_data(host, &data)?, &self.returns))
    }

    /// The kernel for each element of views of one shape and of its types; the results go to the last.
    fn run(&self, host: &mut Host, views: &[Array]) -> Run<()> {
        rows(views, &mut |length, starts| {
            let row = views.iter().zip(starts).map(|(view, &(offset, stride))| {
                let first = view.buffer().pointer().wrapping_add(offset);
                Ok(Data::Array(marshal::block_data(view, first, &[length], &[stride])?))
            });
            let row = row.collect::<Run<Vec<_>>>()?;
            dispatch::call_data(host, &self.each, &row, &self.spec, 1)?;
            Ok(())
        })
    }
}

/// What is done with a row: how many elements it has, and where it begins in each view and goes on.
type Visit<'v> = dyn FnMut(usize, &[(usize, isize)]) -> Run<()> + 'v;

/// Visits rows of views of one shape, in C order. Axes that lie one after the other in all views are one.
fn rows(views: &[Array], visit: &mut Visit) -> Run<()> {
    let Some(shape) = views.first().map(Array::shape) else { return Ok(()) };
    if shape.contains(&0) {
        return Ok(());
    }
    let mut axes: Vec<(usize, Vec<isize>)> = Vec::new();
    for (axis, &length) in shape.iter().enumerate() {
        let strides: Vec<_> = views.iter().map(|view| view.strides()[axis]).collect();
        if length == 1 {
            continue;
        }
        if let Some((before, outer)) = axes.last_mut()
            && outer.iter().zip(&strides).all(|(outer, own)| *outer == own * length as isize)
        {
            *before *= length;
            *outer = strides;
        } else {
            axes.push((length, strides));
        }
    }
    let (length, steps) = axes.pop().unwrap_or_else(|| (1, vec![0; views.len()]));
    let mut starts: Vec<_> =
        views.iter().zip(steps).map(|(view, step)| (view.offset(), step)).collect();
    let mut index = vec![0; axes.len()];
    loop {
        visit(length, &starts)?;
        let mut axis = axes.len();
        loop {
            let Some(next) = axis.checked_sub(1) else { return Ok(()) };
            axis = next;
            let (length, strides) = &axes[axis];
            index[axis] += 1;
            let back = if index[axis] == *length { 1 - *length as isize } else { 1 };
            for ((start, _), stride) in starts.iter_mut().zip(strides) {
                *start = start.wrapping_add_signed(back * stride);
            }
            if index[axis] < *length {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// Whether two views share memory other than element by element.
fn overlaps(a: &Array, b: &Array) -> bool {
    let same = a.offset() == b.offset() && a.shape() == b.shape() && a.strides() == b.strides();
    Arc::ptr_eq(a.buffer(), b.buffer()) && !same
}

fn data(scalar: Scalar) -> Data {
    match scalar {
        Scalar::Bool(value) => Data::Bool(value),
        Scalar::F32(value) => Data::Float(value.into()),
        Scalar::F64(value) => Data::Float(value),
        Scalar::C128(re, im) => Data::Complex(re, im),
        Scalar::U8(value) => Data::UInt(value.into()),
        Scalar::U16(value) => Data::UInt(value.into()),
        Scalar::U32(value) => Data::UInt(value.into()),
        Scalar::U64(value) => Data::UInt(value),
        other => Data::Int(other.as_int().unwrap_or_default() as i64),
    }
}

fn scalar(data: &Data, dtype: &DType) -> Scalar {
    let scalar = match data {
        Data::Bool(value) => Scalar::Bool(*value),
        Data::Int(value) => Scalar::I64(*value),
        Data::UInt(value) => Scalar::U64(*value),
        Data::Float(value) => Scalar::F64(*value),
        Data::Complex(re, im) => Scalar::C128(*re, *im),
        _ => Scalar::F64(f64::NAN),
    };
    scalar.cast(dtype)
}

/// The loop of a ufunc for elements of these types.
fn elements(
    dispatcher: &Dispatcher,
    host: &mut Host,
    def: &Arc<KernelDef>,
    types: &[Ty],
) -> Run<Elements> {
    let specialise = |host: &mut Host, args: Vec<Ty>| {
        dispatcher.specialise(host, &Request { def: Arc::clone(def), args })
    };
    let args = if def.signatures.is_empty() {
        types.to_vec()
    } else {
        let mut loops = Vec::with_capacity(def.signatures.len());
        for signature in &def.signatures {
            let result = match &signature.returns {
                Some(returns) => returns.clone(),
                None => specialise(host, signature.args.clone())?.returns.clone(),
            };
            loops.push(Rule { operands: signature.args.clone(), result });
        }
        match rules::select(loops.into_iter(), types, None) {
            Some(rule) => rule.operands,
            None => {
                let message = format!(
                    "ufunc '{}' not supported for the input types, and the inputs could not be safely coerced to any \
                     supported types according to the casting rule ''safe''",
                    def.name()
                );
                return fail(ExceptionKind::TypeError, message);
            }
        }
    };
    let spec = specialise(host, args)?;
    let dtype = |ty: &Ty| {
        DType::from_ty(ty).ok_or_else(|| {
            refuse(def, format!("a ufunc takes and returns numbers, not {ty}"))
                .hint("return one number")
        })
    };
    let operands = spec.args.iter().map(dtype).collect::<Result<_, _>>()?;
    let returns = dtype(&spec.returns)?;
    let each = make::each(&spec.functions, &spec.kept.signature);
    let Some(each) = each else {
        return Err(refuse(def, "a ufunc takes and returns numbers".into()).into());
    };
    Ok(Elements { spec, each, operands, returns })
}

/// Lists and tuples among these as arrays.
fn arrays_of_lists(host: &mut Host, args: &[Value]) -> Run<Vec<Value>> {
    let make = Value::Builtin(Builtin("numpy.array"));
    let mut arrays = Vec::with_capacity(args.len());
    for arg in args {
        arrays.push(match arg {
            Value::List(_) | Value::Tuple(_) => host.call(&make, vec![arg.clone()], Vec::new())?,
            other => other.clone(),
        });
    }
    Ok(arrays)
}

/// The arguments with those that `out=` names behind them. A ufunc takes no other keyword here.
fn with_out(
    host: &mut Host,
    def: &KernelDef,
    args: &[Value],
    keywords: &[(Name, Value)],
) -> Run<Vec<Value>> {
    let mut args = arrays_of_lists(host, args)?;
    for (name, value) in keywords {
        match (&**name, value) {
            ("out", Value::None) => {}
            ("out", Value::Tuple(outputs)) => args.extend(outputs.iter().cloned()),
            ("out", out) => args.push(out.clone()),
            _ => {
                return Err(refuse(def, format!("`{name}=` of a ufunc is not supported"))
                    .hint("pass the inputs, and `out=` for the result")
                    .into());
            }
        }
    }
    Ok(args)
}

/// Calls a ufunc. Further arguments than it has parameters, or `out=`, are where the result goes.
pub(crate) fn call(
    dispatcher: &Dispatcher,
    host: &mut Host,
    def: &Arc<KernelDef>,
    args: &[Value],
    keywords: &[(Name, Value)],
) -> Run<Value> {
    let args = &with_out(host, def, args, keywords)?;
    let count = def.function.params.positional.len();
    if args.len() < count || args.len() > count + 1 {
        let message = format!(
            "{}() takes from {count} to {} positional arguments but {} were given",
            def.name(),
            count + 1,
            args.len()
        );
        return fail(ExceptionKind::TypeError, message);
    }
    let (inputs, outputs) = args.split_at(count);
    let arrays = inputs.iter().map(as_array).collect::<Run<Vec<_>>>()?;
    let types: Vec<_> = arrays.iter().map(|array| array.dtype().ty()).collect();
    let elements = elements(dispatcher, host, def, &types)?;
    let shapes: Vec<_> = arrays.iter().map(|array| array.shape()).collect();
    let shape = broadcast(&shapes)?;
    let out = match outputs.first() {
        Some(Value::Array(out)) if out.shape() == shape => Arc::clone(out),
        Some(_) => return fail(ExceptionKind::ValueError, "the output has the wrong shape"),
        None => Arc::new(zeros(&elements.returns, &shape)?),
    };
    let fits = *out.dtype() == elements.returns;
    let results = match fits {
        true => Array::clone(&out),
        false => zeros(&elements.returns, &shape)?,
    };
    let mut views = Vec::with_capacity(count + 1);
    for (array, dtype) in arrays.iter().zip(&elements.operands) {
        let mut array = cast(array, dtype)?;
        if overlaps(&array, &results) {
            // What is read is as it was before.
            let before = zeros(dtype, array.shape())?;
            copy(&array, &before);
            array = Arc::new(before);
        }
        let view = array.broadcast(&shape);
        views.push(view.expect("the shape is what all are broadcast to"));
    }
    views.push(results);
    elements.run(host, &views)?;
    if !fits && let Some(results) = views.last() {
        copy(results, &out);
    }
    let all_numbers = inputs.iter().all(|input| !matches!(input, Value::Array(_)));
    Ok(match outputs.is_empty() && (all_numbers || shape.is_empty()) {
        true => scalar_of(&out),
        false => Value::Array(out),
    })
}

/// `reduce`, `accumulate` and `outer` of a ufunc of two parameters.
pub(crate) fn call_method(
    dispatcher: &Dispatcher,
    host: &mut Host,
    def: &Arc<KernelDef>,
    method: &'static str,
    args: &[Value],
    keywords: &[(Name, Value)],
) -> Run<Value> {
    if def.function.params.positional.len() != 2 {
        let message = format!("{method} only supported for binary functions");
        return fail(ExceptionKind::ValueError, message);
    }
    let args = &arrays_of_lists(host, args)?[..];
    let keyword = |name: &str| keywords.iter().find(|(key, _)| &**key == name).map(|(_, v)| v);
    match (method, args) {
        ("outer", [a, b]) => {
            let (a, b) = (as_array(a)?, as_array(b)?);
            let mut shape = a.shape().to_vec();
            shape.extend(std::iter::repeat_n(1, b.ndim()));
            let mut strides = a.strides().to_vec();
            strides.extend(std::iter::repeat_n(0, b.ndim()));
            let a = a.with(a.offset(), shape, strides, a.dtype().clone());
            call(dispatcher, host, def, &[Value::Array(Arc::new(a)), Value::Array(b)], keywords)
        }
        ("reduce" | "accumulate", [value, rest @ ..]) => {
            let array = as_array(value)?;
            let axis = match rest.first().or_else(|| keyword("axis")) {
                Some(Value::None) if method == "reduce" => None,
                Some(value) => match marshal::number(value).and_then(|n| n.as_int()) {
                    Some(axis) => Some(axis),
                    None => return fail(ExceptionKind::TypeError, "an axis is an integer"),
                },
                None => Some(0),
            };
            let keep = matches!(keyword("keepdims"), Some(Value::Bool(true)));
            let ty = array.dtype().ty();
            let elements = elements(dispatcher, host, def, &[ty.clone(), ty])?;
            let Some(axis) = axis else {
                let flat = zeros(array.dtype(), &[array.len()])?;
                copy(&array, &flat);
                let out = fold(host, def, &elements, &flat, 0, false, false)?;
                return Ok(scalar_of(&out));
            };
            let ndim = array.ndim() as i128;
            if axis < -ndim || axis >= ndim {
                let message = format!("axis {axis} is out of bounds for array of dimension {ndim}");
                return fail(ExceptionKind::ValueError, message);
            }
            let axis = axis.rem_euclid(ndim) as usize;
            let out = fold(host, def, &elements, &array, axis, method == "accumulate", keep)?;
            Ok(match out.ndim() {
                0 => scalar_of(&out),
                _ => Value::Array(Arc::new(out)),
            })
        }
        _ => fail(ExceptionKind::TypeError, format!("wrong arguments for {method}")),
    }
}

/// Folds an axis away, or keeps every step of it.
fn fold(
    host: &mut Host,
    def: &KernelDef,
    elements: &Elements,
    array: &Array,
    axis: usize,
    every: bool,
    keep: bool,
) -> Run<Array> {
    let length = array.shape()[axis];
    if length == 0 && !every {
        let message =
            format!("zero-size array to reduction operation {} which has no identity", def.name());
        return fail(ExceptionKind::ValueError, message);
    }
    if length == 0 {
        return zeros(&elements.returns, array.shape());
    }
    let mut shape = array.shape().to_vec();
    let full = shape.clone();
    let mut strides = array.strides().to_vec();
    let stride = strides[axis];
    shape[axis] = 1;
    let lines = array.with(array.offset(), shape.clone(), strides.clone(), array.dtype().clone());
    let out = zeros(&elements.returns, if every { &full } else { &shape })?;
    strides.clear();
    let out_stride = out.strides()[axis];
    let out_lines =
        out.with(out.offset(), shape.clone(), out.strides().to_vec(), out.dtype().clone());
    let is_closed = elements.operands == [elements.returns.clone(), array.dtype().clone()];
    for (from, to) in lines.offsets().zip(out_lines.offsets()) {
        let read = |at: usize| {
            let offset = (from as isize + at as isize * stride) as usize;
            array.read(offset).unwrap_or(Scalar::Bool(false))
        };
        let mut sum = read(0).cast(&elements.returns);
        if is_closed {
            // Each step reads what the one before has written.
            out.write(to, sum);
            let view = |array: &Array, offset: usize, stride: isize| {
                let dtype = array.dtype().clone();
                array.with(offset, vec![length - 1], vec![stride], dtype)
            };
            let step = if every { out_stride } else { 0 };
            let last = |at: usize, stride: isize| match length {
                1 => at,
                _ => at.wrapping_add_signed(stride),
            };
            let views = [
                view(&out, to, step),
                view(array, last(from, stride), stride),
                view(&out, last(to, step), step),
            ];
            elements.run(host, &views)?;
            continue;
        }
        for at in 0..length {
            if at > 0 {
                sum = elements.call(host, &[sum, read(at)])?;
            }
            if every {
                out.write((to as isize + at as isize * out_stride) as usize, sum);
            }
        }
        if !every {
            out.write(to, sum);
        }
    }
    if every || keep {
        return Ok(out);
    }
    let mut strides = out.strides().to_vec();
    shape.remove(axis);
    strides.remove(axis);
    Ok(out.with(out.offset(), shape, strides, out.dtype().clone()))
}

/// The core dimensions of a row kernel's parameters: `(m,n),(n)->(m)`.
struct Rows {
    inputs: Vec<Vec<String>>,
    outputs: Vec<Vec<String>>,
}

impl Rows {
    fn parse(layout: &str) -> Option<Self> {
        let (inputs, outputs) = layout.split_once("->")?;
        Some(Rows { inputs: groups(inputs)?, outputs: groups(outputs)? })
    }
}

/// `(m,n),(n)` as lists of names.
fn groups(text: &str) -> Option<Vec<Vec<String>>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut groups = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (group, after) = rest.strip_prefix('(')?.split_once(')')?;
        let names = group.split(',').filter(|name| !name.is_empty());
        groups.push(names.map(str::to_owned).collect());
        rest = match after.strip_prefix(',') {
            Some(after) => after,
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(groups)
}

/// Calls a row kernel on blocks of its arguments.
pub(crate) fn call_rows(
    dispatcher: &Dispatcher,
    host: &mut Host,
    def: &Arc<KernelDef>,
    layout: &str,
    args: &[Value],
    keywords: &[(Name, Value)],
) -> Run<Value> {
    let args = &with_out(host, def, args, keywords)?;
    let Some(rows) = Rows::parse(layout) else {
        return Err(refuse(def, format!("{layout:?} is no layout"))
            .hint("write one like \"(n),(n)->()\"")
            .into());
    };
    let (nin, nout) = (rows.inputs.len(), rows.outputs.len());
    if args.len() != nin && args.len() != nin + nout {
        let message = format!(
            "{}() takes from {nin} to {} positional arguments but {} were given",
            def.name(),
            nin + nout,
            args.len()
        );
        return fail(ExceptionKind::TypeError, message);
    }
    let mut arrays = args.iter().map(as_array).collect::<Run<Vec<_>>>()?;
    let given = arrays.split_off(nin);

    // The loop: the first declared one whose inputs the arguments can be cast to.
    let types: Vec<_> = arrays.iter().map(|array| array.dtype().ty()).collect();
    let params = match rows_signature(def, &types, nin)? {
        Some(params) => params,
        None => {
            if given.len() != nout {
                let message = "a row kernel without declared signatures needs its outputs";
                return fail(ExceptionKind::TypeError, message);
            }
            let cores = rows.inputs.iter().chain(&rows.outputs);
            let all = arrays.iter().chain(&given).zip(cores).enumerate();
            all.map(|(at, (array, core))| {
                let ndim = match (core.len(), at < nin) {
                    (0, true) => return array.dtype().ty(),
                    (0, false) => 1,
                    (ndim, _) => ndim as u8,
                };
                Ty::array(array.dtype().ty(), ndim, super::types::Layout::A)
            })
            .collect()
        }
    };
    let spec = dispatcher.specialise(host, &Request { def: Arc::clone(def), args: params })?;
    let dtypes = spec.args.iter().map(|ty| {
        let element = ty.as_array().map_or(ty, |array| &array.dtype);
        DType::from_ty(element)
            .ok_or_else(|| refuse(def, format!("a row kernel takes numbers and arrays, not {ty}")))
    });
    let dtypes = dtypes.collect::<Result<Vec<_>, _>>()?;

    // Lengths of the core dimensions, and the shape of the loop around them.
    let mut lengths: Vec<(String, usize)> = Vec::new();
    let mut outer = Vec::new();
    for (at, (array, core)) in arrays.iter().zip(&rows.inputs).enumerate() {
        let Some(split) = array.ndim().checked_sub(core.len()) else {
            let message = format!(
                "{}: Input operand {at} does not have enough dimensions (has {}, gufunc core with signature {layout} \
                 requires {})",
                def.name(),
                array.ndim(),
                core.len()
            );
            return fail(ExceptionKind::ValueError, message);
        };
        outer.push(&array.shape()[..split]);
        for (dimension, (name, &length)) in core.iter().zip(&array.shape()[split..]).enumerate() {
            match lengths.iter().find(|(known, _)| known == name) {
                Some((_, known)) if *known != length => {
                    let message = format!(
                        "{}: Input operand {at} has a mismatch in its core dimension {dimension}, with gufunc signature \
                         {layout} (size {length} is different from {known})",
                        def.name()
                    );
                    return fail(ExceptionKind::ValueError, message);
                }
                Some(_) => {}
                None => lengths.push((name.clone(), length)),
            }
        }
    }
    let shape = broadcast(&outer)?;
    let mut outs = Vec::with_capacity(nout);
    for (at, core) in rows.outputs.iter().enumerate() {
        let mut full = shape.clone();
        for name in core {
            let known = lengths.iter().find(|(known, _)| known == name).map(|(_, length)| *length);
            match known.or_else(|| name.parse().ok()) {
                Some(length) => full.push(length),
                None => match given.get(at) {
                    Some(out) if out.ndim() == shape.len() + core.len() => {
                        full = out.shape().to_vec();
                        break;
                    }
                    _ => {
                        let message = format!("{}: the length of {name} is not known", def.name());
                        return fail(ExceptionKind::ValueError, message);
                    }
                },
            }
        }
        outs.push(match given.get(at) {
            Some(out) if out.shape() == full => Arc::clone(out),
            Some(_) => {
                let message = format!("{}: output {at} has the wrong shape", def.name());
                return fail(ExceptionKind::ValueError, message);
            }
            None => Arc::new(zeros(&dtypes[nin + at], &full)?),
        });
    }

    let inputs = arrays.iter().zip(&dtypes).map(|(array, dtype)| cast(array, dtype));
    let inputs = inputs.collect::<Run<Vec<_>>>()?;
    let operands = inputs.iter().zip(&rows.inputs).chain(outs.iter().zip(&rows.outputs));
    let blocks: Vec<_> =
        operands.map(|(array, core)| Block::of(array, core.len(), &shape)).collect::<Run<_>>()?;
    let count: usize = shape.iter().product();
    let mut offsets: Vec<_> = blocks.iter().map(|block| block.outer.offsets()).collect();
    for _ in 0..count {
        let mut data = Vec::with_capacity(blocks.len());
        for ((block, offsets), ty) in blocks.iter().zip(&mut offsets).zip(&spec.args) {
            let Some(offset) = offsets.next() else { continue };
            data.push(block.data(offset, ty)?);
        }
        spec.call_data(host, &data)?;
    }
    let is_scalar = given.is_empty() && args.iter().all(|arg| !matches!(arg, Value::Array(_)));
    let results = outs.into_iter().map(|out| match out.ndim() {
        0 if is_scalar || given.is_empty() => scalar_of(&out),
        _ => Value::Array(out),
    });
    let mut results: Vec<_> = results.collect();
    Ok(match results.len() {
        1 => results.remove(0),
        _ => Value::Tuple(results.into()),
    })
}

/// The declared signature of a row kernel that inputs of these element types are for; none if none is declared.
fn rows_signature(def: &KernelDef, types: &[Ty], nin: usize) -> Run<Option<Vec<Ty>>> {
    if def.signatures.is_empty() {
        return Ok(None);
    }
    let element = |ty: &Ty| ty.as_array().map_or_else(|| ty.clone(), |array| array.dtype.clone());
    let loops: Vec<_> = def
        .signatures
        .iter()
        .enumerate()
        .map(|(at, signature)| Rule {
            operands: signature.args.iter().take(nin).map(element).collect(),
            // Which one it is comes back as a literal.
            result: Ty::Literal(super::types::Literal::Int(at as i64)),
        })
        .collect();
    match rules::select(loops.into_iter(), types, None).map(|rule| rule.result) {
        Some(Ty::Literal(super::types::Literal::Int(at))) => {
            Ok(Some(def.signatures[at as usize].args.clone()))
        }
        _ => {
            let message = format!(
                "ufunc '{}' did not contain a loop with signature matching types",
                def.name()
            );
            fail(ExceptionKind::TypeError, message)
        }
    }
}

/// An operand of a row kernel: where each of its blocks begins, and what a block looks like.
struct Block {
    array: Arc<Array>,
    outer: Array,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl Block {
    fn of(array: &Arc<Array>, core: usize, shape: &[usize]) -> Run<Self> {
        let split = array.ndim() - core;
        let (outer_shape, core_shape) = array.shape().split_at(split);
        let (outer_strides, core_strides) = array.strides().split_at(split);
        let dtype = array.dtype().clone();
        // The blocks of an empty array have nothing in them, and no place.
        let outer = match array.len() {
            0 => zeros(&dtype, &[])?,
            _ => array.with(array.offset(), outer_shape.to_vec(), outer_strides.to_vec(), dtype),
        };
        let Some(outer) = outer.broadcast(shape) else {
            return fail(ExceptionKind::ValueError, "operands could not be broadcast together");
        };
        Ok(Block {
            array: Arc::clone(array),
            outer,
            shape: core_shape.to_vec(),
            strides: core_strides.to_vec(),
        })
    }

    /// The block that begins here, as the kernel takes it.
    fn data(&self, offset: usize, ty: &Ty) -> Run<Data> {
        let Some(array) = ty.as_array() else {
            let scalar = self.array.read(offset).unwrap_or(Scalar::Bool(false));
            return Ok(data(scalar));
        };
        let (mut shape, mut strides) = (self.shape.clone(), self.strides.clone());
        // One number is an array of one to the kernel.
        while shape.len() < usize::from(array.ndim) {
            shape.push(1);
            strides.push(self.array.dtype().size() as isize);
        }
        let first = self.array.buffer().pointer().wrapping_add(offset);
        Ok(Data::Array(marshal::block_data(&self.array, first, &shape, &strides)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_lists_of_names() {
        let rows = Rows::parse("(m, n),(n) -> (m),()").unwrap();
        assert_eq!(rows.inputs, [vec!["m".to_owned(), "n".into()], vec!["n".into()]]);
        assert_eq!(rows.outputs, [vec!["m".to_owned()], vec![]]);
        for wrong in ["(n)", "n->n", "(n->(n)", "(n)(n)->()"] {
            assert!(Rows::parse(wrong).is_none(), "{wrong}");
        }
    }

    /// Rows cover every element of every view once, in C order, and are as long as they can be.
    /// Kills: a merge that looks at the first view alone; an odometer that does not go back.
    #[test]
    fn rows_are_what_lies_in_a_row() {
        let array = Array::from_vec((0..24).map(f64::from).collect(), &[2, 3, 4]);
        let visited = |views: &[Array]| {
            let (mut rows_seen, mut seen) = (0, vec![Vec::new(); views.len()]);
            rows(views, &mut |length, starts| {
                rows_seen += 1;
                for (seen, &(offset, stride)) in seen.iter_mut().zip(starts) {
                    seen.extend(
                        (0..length).map(|at| offset.wrapping_add_signed(at as isize * stride)),
                    );
                }
                Ok(())
            })
            .unwrap();
            for (view, seen) in views.iter().zip(seen) {
                assert_eq!(view.offsets().collect::<Vec<_>>(), seen);
            }
            rows_seen
        };
        assert_eq!(visited(std::slice::from_ref(&array)), 1);
        assert_eq!(visited(&[array.transposed()]), 12);
        let one = Array::from_vec(vec![1.0], &[]).broadcast(&[2, 3, 4]).unwrap();
        assert_eq!(visited(&[array.clone(), one]), 1);
        let column = Array::from_vec(vec![1.0, 2.0, 3.0], &[3, 1]).broadcast(&[2, 3, 4]).unwrap();
        assert_eq!(visited(&[array.clone(), column]), 6);
        assert_eq!(visited(&[array.with(0, vec![2, 0], vec![96, 8], DType::F64)]), 0);
        assert_eq!(visited(&[Array::from_vec(vec![1.0], &[])]), 1);
    }

    #[test]
    fn shapes_broadcast_from_the_right() {
        assert_eq!(broadcast(&[&[2, 1, 3], &[4, 1]]).unwrap(), [2, 4, 3]);
        assert_eq!(broadcast(&[]).unwrap(), [0_usize; 0]);
        assert!(broadcast(&[&[2], &[3]]).is_err());
    }
}
