//! Operators that move no element: views, and what types alone decide. Also those that rearrange what a view can
//! name and one copy writes.

use super::{
    Arg, Args, Fact, Lowered, Stop, Type, ViewOp, Work, any, axis, broadcast, distinct_axes,
    numbers, wrong,
};
use crate::graph::node::Op;
use crate::graph::onnx::element_type;
use crate::graph::tensor::{Dims, ElementType, Tensor};

/// The operators of this family.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "ConstantOfShape", "DepthToSpace", "Expand", "EyeLike", "Flatten", "Identity", "Range", "Reshape", "Shape",
    "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
];

pub(super) fn is_known(op: &str) -> bool {
    NAMES.contains(&op)
}

pub(super) fn lower(args: &Args<'_>) -> Option<Result<Lowered, Stop>> {
    Some(match args.node.op.as_str() {
        "Identity" => identity(args),
        "Shape" => shape(args),
        "Size" => size(args),
        "Reshape" => reshape(args),
        "Flatten" => flatten(args),
        "Squeeze" => squeeze(args),
        "Unsqueeze" => unsqueeze(args),
        "Transpose" => transpose(args),
        "Expand" => expand(args),
        "Slice" => slice(args),
        "Split" => split(args),
        "Tile" => tile(args),
        "ConstantOfShape" => constant_of_shape(args),
        "EyeLike" => eye_like(args),
        "Range" => range(args),
        "DepthToSpace" | "SpaceToDepth" => blocks(args),
        _ => return None,
    })
}

fn reshaped(element: ElementType, dims: impl Into<Dims>) -> Lowered {
    let dims: Dims = dims.into();
    let view = Arg::input(0).then(ViewOp::Reshape(dims.clone()));
    Lowered::view(view, Type { element, dims })
}

fn identity(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let fact = args.fact(0)?;
    Ok(Lowered::view(Arg::input(0), Type::new(fact.element, fact.dims.clone())))
}

fn shape(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let dims = args.dims(0)?;
    let rank = dims.len() as i64;
    let place = |name: &str, default: i64| {
        let given = args.node.int(name).unwrap_or(default);
        (if given < 0 { given.saturating_add(rank) } else { given }).clamp(0, rank) as usize
    };
    let (start, end) = (place("start", 0), place("end", rank));
    let part: Vec<i64> = dims[start..end.max(start)].iter().map(|&dim| dim as i64).collect();
    known(Tensor::from_slice(&[part.len()], &part))
}

fn size(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    known(Tensor::scalar(args.dims(0)?.iter().product::<usize>() as i64))
}

fn known(tensor: Tensor) -> Result<Lowered, Stop> {
    let output = Type::new(tensor.element(), tensor.dims());
    Ok(Lowered { outputs: vec![output], work: Work::Known(vec![tensor]) })
}

fn reshape(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    let given = match args.node.ints("shape") {
        Some(shape) => shape.to_vec(),
        None => args.ints(1)?,
    };
    let allow_zero = args.flag("allowzero", false);
    let mismatch =
        || wrong(format!("input 0 of shape {:?} cannot be reshaped to {given:?}", fact.dims));
    let mut dims = Dims::new();
    let mut open = None;
    for (place, &dim) in given.iter().enumerate() {
        dims.push(match dim {
            -1 if open.is_none() => {
                open = Some(place);
                1
            }
            0 if !allow_zero => match fact.dims.get(place) {
                Some(&dim) => dim,
                None => return mismatch(),
            },
            dim => match usize::try_from(dim) {
                Ok(dim) => dim,
                Err(_) => return mismatch(),
            },
        });
    }
    let count: usize = fact.dims.iter().product();
    let fixed = dims.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
    let Some(fixed) = fixed else { return mismatch() };
    if let Some(place) = open {
        if fixed == 0 || !count.is_multiple_of(fixed) {
            return mismatch();
        }
        dims[place] = count / fixed;
    } else if fixed != count {
        return mismatch();
    }
    Ok(reshaped(fact.element, dims))
}

fn flatten(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let fact = args.fact(0)?;
    let rank = fact.dims.len();
    let at = match args.node.int("axis").unwrap_or(1) {
        end if end == rank as i64 => rank,
        given => axis(given, rank)?,
    };
    let (outer, inner) = fact.dims.split_at(at);
    Ok(reshaped(fact.element, [outer.iter().product(), inner.iter().product()].as_slice()))
}

fn squeeze(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    let mut axes = match args.axes(1)? {
        Some(axes) => distinct_axes(&axes, fact.dims.len())?,
        None => (0..fact.dims.len()).filter(|&axis| fact.dims[axis] == 1).collect(),
    };
    axes.sort_unstable();
    if let Some(axis) = axes.iter().find(|&&axis| fact.dims[axis] != 1) {
        return wrong(format!("axis {axis} of input 0 of shape {:?} is not 1", fact.dims));
    }
    let mut dims = fact.dims.clone();
    for &axis in axes.iter().rev() {
        dims.remove(axis);
    }
    let view = Arg::input(0).then(ViewOp::Remove(axes));
    Ok(Lowered::view(view, Type::new(fact.element, dims)))
}

fn unsqueeze(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    let Some(axes) = args.axes(1)? else { return wrong("it has no axes") };
    let mut axes = distinct_axes(&axes, fact.dims.len() + axes.len())?;
    axes.sort_unstable();
    let mut dims = fact.dims.clone();
    axes.iter().for_each(|&axis| dims.insert(axis, 1));
    let view = Arg::input(0).then(ViewOp::Insert(axes));
    Ok(Lowered::view(view, Type::new(fact.element, dims)))
}

fn transpose(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let fact = args.fact(0)?;
    let rank = fact.dims.len();
    let order = match args.node.ints("perm") {
        Some(perm) => distinct_axes(perm, rank)?,
        None => (0..rank).rev().collect(),
    };
    if order.len() != rank {
        return wrong(format!("perm names {} axes, input 0 has {rank}", order.len()));
    }
    let dims: Dims = order.iter().map(|&axis| fact.dims[axis]).collect();
    let view = Arg::input(0).then(ViewOp::Permute(order));
    Ok(Lowered::view(view, Type { element: fact.element, dims }))
}

/// Dimensions that an input names.
fn dimensions(args: &Args<'_>, index: usize) -> Result<Dims, Stop> {
    let given = args.ints(index)?;
    let dims = given.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Dims, _>>();
    dims.map_or_else(|_| wrong(format!("input {index} has a negative dimension: {given:?}")), Ok)
}

fn expand(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    let wanted = dimensions(args, 1)?;
    let Ok(dims) = broadcast([(0, &fact.dims[..]), (1, &wanted[..])]) else {
        return wrong(format!("input 0 of shape {:?} cannot be expanded to {wanted:?}", fact.dims));
    };
    let view = Arg::input(0).then(ViewOp::Broadcast(dims.clone()));
    Ok(Lowered::view(view, Type { element: fact.element, dims }))
}

fn slice(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(5)?;
    let fact = args.fact(0)?;
    let rank = fact.dims.len();
    let list = |index: usize, name: &str| match args.node.ints(name) {
        Some(values) => Ok(Some(values.to_vec())),
        None if args.has(index) => args.ints(index).map(Some),
        None => Ok(None),
    };
    let Some(starts) = list(1, "starts")? else { return wrong("it has no starts") };
    let Some(ends) = list(2, "ends")? else { return wrong("it has no ends") };
    let axes = list(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return wrong("starts, ends, axes and steps are not equally many");
    }
    let axes = distinct_axes(&axes, rank)?;
    let mut arg = Arg::input(0);
    let mut dims = fact.dims.clone();
    for (((axis, start), end), step) in axes.into_iter().zip(starts).zip(ends).zip(steps) {
        let size = dims[axis] as i64;
        let place = |given: i64| if given < 0 { given.saturating_add(size) } else { given };
        let (start, count) = match step {
            0 => return wrong("a step is 0"),
            1.. => {
                let (start, end) = (place(start).clamp(0, size), place(end).clamp(0, size));
                (start, (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()))
            }
            _ => {
                let (start, end) =
                    (place(start).clamp(-1, size - 1), place(end).clamp(-1, size - 1));
                (start, (start - end).max(0).unsigned_abs().div_ceil(step.unsigned_abs()))
            }
        };
        let (start, count) = if count == 0 { (0, 0) } else { (start as usize, count as usize) };
        dims[axis] = count;
        arg = arg.then(ViewOp::Slice { axis, start, step: step as isize, count });
    }
    Ok(Lowered::view(arg, Type { element: fact.element, dims }))
}

fn split(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    let at = args.axis(0, fact.dims.len())?;
    let size = fact.dims[at];
    let given = match args.node.ints("split") {
        Some(sizes) => Some(sizes.to_vec()),
        None if args.has(1) => Some(args.ints(1)?),
        None => None,
    };
    let parts = args.node.outputs.len();
    let sizes: Vec<usize> = match given {
        Some(sizes) => {
            let counted =
                sizes.iter().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>();
            let sum = |sizes: &[usize]| {
                sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size))
            };
            match counted {
                Ok(counted) if counted.len() == parts && sum(&counted) == Some(size) => counted,
                _ => {
                    return wrong(format!(
                        "axis {at} of input 0 of shape {:?} cannot be split into {sizes:?} for {parts} outputs",
                        fact.dims
                    ));
                }
            }
        }
        None => {
            if args.node.int("num_outputs").is_some_and(|count| count != parts as i64) {
                return wrong(format!("num_outputs is not the number of outputs, {parts}"));
            }
            let each = size.div_ceil(parts.max(1));
            (0..parts).map(|part| each.min(size.saturating_sub(part * each))).collect()
        }
    };
    let mut start = 0;
    let mut lowered = Lowered { outputs: Vec::new(), work: Work::Known(Vec::new()) };
    let mut views = Vec::new();
    for count in sizes {
        let mut dims = fact.dims.clone();
        dims[at] = count;
        lowered.outputs.push(Type { element: fact.element, dims });
        let start_here = if count == 0 { 0 } else { start };
        views.push(Arg::input(0).then(ViewOp::Slice {
            axis: at,
            start: start_here,
            step: 1,
            count,
        }));
        start += count;
    }
    lowered.work = Work::Views(views);
    Ok(lowered)
}

fn tile(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    let repeats = dimensions(args, 1)?;
    if repeats.len() != fact.dims.len() {
        return wrong(format!(
            "input 0 of shape {:?} cannot be repeated {repeats:?} times",
            fact.dims
        ));
    }
    let mut dims = Dims::new();
    for (&dim, &times) in fact.dims.iter().zip(&repeats) {
        match dim.checked_mul(times) {
            Some(dim) => dims.push(dim),
            None => return wrong(format!("{:?} times {repeats:?} is too large", fact.dims)),
        }
    }
    Ok(Lowered::kernel(Op::Tile, [0], Type { element: fact.element, dims }))
}

fn constant_of_shape(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let dims = dimensions(args, 0)?;
    let value = match args.node.tensor("value") {
        Some(value) => match value.reshape(&[]) {
            Some(value) => value,
            None => return wrong("its value is not one element"),
        },
        None => Tensor::scalar(0_f32),
    };
    let output = Type::new(value.element(), dims.clone());
    Ok(Lowered::view(Arg::constant(value).then(ViewOp::Broadcast(dims)), output))
}

fn eye_like(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let fact = args.fact(0)?;
    if fact.dims.len() != 2 {
        return wrong(format!("input 0 has shape {:?}, not two dimensions", fact.dims));
    }
    let element = match args.node.int("dtype").map(i32::try_from) {
        None => fact.element,
        Some(Ok(number)) => element_type(number).map_err(Stop::Wrong)?,
        Some(Err(_)) => return wrong("its dtype is no element type"),
    };
    let k = args.node.int("k").unwrap_or(0);
    Ok(Lowered::kernel(Op::EyeLike { k }, [], Type::new(element, fact.dims.clone())))
}

fn range(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(3)?;
    let element = args.only(0, numbers)?;
    for index in 1..3 {
        args.same(0, index)?;
    }
    for index in 0..3 {
        if args.dims(index)?.iter().product::<usize>() != 1 {
            return wrong(format!(
                "input {index} has shape {:?}, not one element",
                args.dims(index)?
            ));
        }
    }
    let count = if element.is_float() {
        let value = |index: usize| match &args.facts[index] {
            Some(Fact { value: Some(value), .. }) => Ok(value.to_f64s()[0]),
            _ => Err(Stop::Unknown),
        };
        let (start, limit, delta) = (value(0)?, value(1)?, value(2)?);
        // As many as the specification says, computed in the type of the elements.
        let count = match element {
            ElementType::F32 => f64::from(((limit as f32 - start as f32) / delta as f32).ceil()),
            _ => ((limit - start) / delta).ceil(),
        };
        if count.is_nan() || count > u32::MAX.into() {
            return wrong(format!("from {start} to {limit} by {delta} there is no end"));
        }
        count.max(0.0) as usize
    } else {
        let (start, limit, delta) = (args.int(0)?, args.int(1)?, args.int(2)?);
        if delta == 0 {
            return wrong("its delta is 0");
        }
        let span = i128::from(limit) - i128::from(start);
        let (span, delta) =
            if delta < 0 { (-span, -i128::from(delta)) } else { (span, delta.into()) };
        let count = if span <= 0 { 0 } else { (span + delta - 1) / delta };
        match usize::try_from(count) {
            Ok(count) => count,
            Err(_) => return wrong("it is too long"),
        }
    };
    let scalar = |index| Some(Arg::input(index).then(ViewOp::Reshape([].as_slice().into())));
    Ok(Lowered {
        outputs: vec![Type::new(element, [count].as_slice())],
        work: Work::Kernel { op: Op::Range, inputs: vec![scalar(0), scalar(2)], reshaped: None },
    })
}

/// Blocks of space as depth, and back: a view that is copied.
fn blocks(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let element = args.only(0, any)?;
    let [n, c, h, w] = args.dims(0)?[..] else {
        return wrong(format!("input 0 has shape {:?}, not four dimensions", args.dims(0)?));
    };
    let block = args.node.int("blocksize").and_then(|b| usize::try_from(b).ok()).filter(|b| *b > 0);
    let Some(b) = block else { return wrong("it has no blocksize, or one that is not positive") };
    let crd = match args.node.text("mode").unwrap_or("DCR") {
        "DCR" => false,
        "CRD" => true,
        other => return wrong(format!("mode is \"{other}\", not DCR or CRD")),
    };
    let mismatch =
        || wrong(format!("input 0 of shape {:?} is not made of blocks of {b}", [n, c, h, w]));
    let Some(square) = b.checked_mul(b) else { return mismatch() };
    let (split, order, dims): ([usize; 6], [usize; 6], [usize; 4]) =
        if args.node.op == "DepthToSpace" {
            if !c.is_multiple_of(square) {
                return mismatch();
            }
            let c = c / square;
            let dims = [n, c, h.saturating_mul(b), w.saturating_mul(b)];
            match crd {
                false => ([n, b, b, c, h, w], [0, 3, 4, 1, 5, 2], dims),
                true => ([n, c, b, b, h, w], [0, 1, 4, 2, 5, 3], dims),
            }
        } else {
            if !h.is_multiple_of(b) || !w.is_multiple_of(b) {
                return mismatch();
            }
            let (h, w) = (h / b, w / b);
            let dims = [n, c.saturating_mul(square), h, w];
            let order = if crd { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
            ([n, c, h, b, w, b], order, dims)
        };
    let moved: Dims = order.iter().map(|&axis| split[axis]).collect();
    let arg = Arg::input(0)
        .then(ViewOp::Reshape(split.as_slice().into()))
        .then(ViewOp::Permute(order.to_vec()));
    let work = Work::Kernel { op: Op::Copy, inputs: vec![Some(arg)], reshaped: Some(vec![moved]) };
    Ok(Lowered { outputs: vec![Type::new(element, dims.as_slice())], work })
}
