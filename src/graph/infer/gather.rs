//! Operators that move elements: joining, picking, placing, padding.

use super::{
    Arg, Args, Lowered, Stop, Type, ViewOp, Work, axis, bools, distinct_axes, indices, integers,
    numbers, wrong,
};
use crate::graph::node::{Op, PadMode, ScatterReduction};
use crate::graph::tensor::{Dims, ElementType, Tensor};

/// The operators of this family.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "Compress", "Concat", "Gather", "GatherElements", "GatherND", "OneHot", "Pad", "ReverseSequence",
    "ScatterElements", "ScatterND", "Trilu",
];

pub(super) fn is_known(op: &str) -> bool {
    NAMES.contains(&op)
}

pub(super) fn lower(args: &Args<'_>) -> Option<Result<Lowered, Stop>> {
    Some(match args.node.op.as_str() {
        "Concat" => concat(args),
        "Gather" => gather(args),
        "GatherElements" => gather_elements(args),
        "GatherND" => gather_nd(args),
        "ScatterElements" => scatter_elements(args),
        "ScatterND" => scatter_nd(args),
        "Compress" => compress(args),
        "OneHot" => one_hot(args),
        "Pad" => pad(args),
        "ReverseSequence" => reverse_sequence(args),
        "Trilu" => trilu(args),
        _ => return None,
    })
}

fn concat(args: &Args<'_>) -> Result<Lowered, Stop> {
    let facts = args.all()?;
    let first = facts[0];
    let at = args.axis(1, first.dims.len())?;
    let mut dims = first.dims.clone();
    dims[at] = 0;
    for (index, fact) in facts.iter().enumerate() {
        args.same(0, index)?;
        let fits = fact.dims.len() == dims.len()
            && (0..dims.len()).all(|axis| axis == at || fact.dims[axis] == dims[axis]);
        if !fits {
            return wrong(format!(
                "input {index} of shape {:?} cannot be joined to input 0 of shape {:?} along axis {at}",
                fact.dims, first.dims
            ));
        }
        dims[at] = dims[at].saturating_add(fact.dims[at]);
    }
    let output = Type::new(first.element, dims);
    Ok(Lowered::kernel(Op::Concat { axis: at as u32 }, 0..facts.len(), output))
}

fn gather(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    args.only(1, indices)?;
    let at = args.axis(0, fact.dims.len())?;
    let mut dims = Dims::from_slice(&fact.dims[..at]);
    dims.extend_from_slice(args.dims(1)?);
    dims.extend_from_slice(&fact.dims[at + 1..]);
    Ok(Lowered::kernel(Op::Gather { axis: at as u32 }, [0, 1], Type::new(fact.element, dims)))
}

fn gather_elements(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    args.only(1, indices)?;
    let at = args.axis(0, fact.dims.len())?;
    let dims = args.dims(1)?;
    inside(1, dims, &fact.dims, at)?;
    let output = Type::new(fact.element, dims);
    Ok(Lowered::kernel(Op::GatherElements { axis: at as u32 }, [0, 1], output))
}

/// Checks that indices have no more places than the data, but along the axis.
fn inside(index: usize, dims: &[usize], data: &[usize], at: usize) -> Result<(), Stop> {
    let fits = dims.len() == data.len()
        && (0..dims.len()).all(|axis| axis == at || dims[axis] <= data[axis]);
    if fits {
        return Ok(());
    }
    wrong(format!("input {index} of shape {dims:?} does not lie in input 0 of shape {data:?}"))
}

fn gather_nd(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    args.only(1, indices)?;
    let places = args.dims(1)?;
    let mismatch = || {
        wrong(format!(
            "input 1 of shape {places:?} does not index input 0 of shape {:?}",
            fact.dims
        ))
    };
    let Ok(batch) = usize::try_from(args.node.int("batch_dims").unwrap_or(0)) else {
        return wrong("batch_dims is negative");
    };
    let Some((&depth, outer)) = places.split_last() else { return mismatch() };
    let Some(used) = batch.checked_add(depth) else { return mismatch() };
    if batch > outer.len()
        || used > fact.dims.len()
        || depth == 0
        || outer[..batch] != fact.dims[..batch]
    {
        return mismatch();
    }
    let mut dims = Dims::from_slice(outer);
    dims.extend_from_slice(&fact.dims[used..]);
    let op = Op::GatherNd { batch_dims: batch as u32 };
    Ok(Lowered::kernel(op, [0, 1], Type::new(fact.element, dims)))
}

fn reduction(args: &Args<'_>) -> Result<ScatterReduction, Stop> {
    let reduction = match args.node.text("reduction").unwrap_or("none") {
        "none" => return Ok(ScatterReduction::None),
        "add" => ScatterReduction::Add,
        "mul" => ScatterReduction::Mul,
        "min" => ScatterReduction::Min,
        "max" => ScatterReduction::Max,
        other => return wrong(format!("the reduction \"{other}\" is not known")),
    };
    args.only(0, numbers)?;
    Ok(reduction)
}

fn scatter_elements(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(3)?;
    let fact = args.fact(0)?;
    args.only(1, indices)?;
    args.same(0, 2)?;
    let at = args.axis(0, fact.dims.len())?;
    inside(1, args.dims(1)?, &fact.dims, at)?;
    if args.dims(1)? != args.dims(2)? {
        return wrong(format!(
            "input 1 of shape {:?} and input 2 of shape {:?} are not alike",
            args.dims(1)?,
            args.dims(2)?
        ));
    }
    let op = Op::ScatterElements { axis: at as u32, reduction: reduction(args)? };
    Ok(Lowered::kernel(op, [0, 1, 2], Type::new(fact.element, fact.dims.clone())))
}

fn scatter_nd(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(3)?;
    let fact = args.fact(0)?;
    args.only(1, indices)?;
    args.same(0, 2)?;
    let (places, updates) = (args.dims(1)?, args.dims(2)?);
    let mismatch = || {
        wrong(format!(
            "input 1 of shape {places:?} and input 2 of shape {updates:?} do not index input 0 of shape {:?}",
            fact.dims
        ))
    };
    let Some((&depth, outer)) = places.split_last() else { return mismatch() };
    if depth > fact.dims.len() || depth == 0 {
        return mismatch();
    }
    let mut expected = Dims::from_slice(outer);
    expected.extend_from_slice(&fact.dims[depth..]);
    if expected[..] != *updates {
        return mismatch();
    }
    let op = Op::ScatterNd { reduction: reduction(args)? };
    Ok(Lowered::kernel(op, [0, 1, 2], Type::new(fact.element, fact.dims.clone())))
}

fn compress(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    args.only(1, bools)?;
    if args.dims(1)?.len() != 1 {
        return wrong(format!("input 1 has shape {:?}, not one dimension", args.dims(1)?));
    }
    let flat: Dims = [fact.dims.iter().product::<usize>()].as_slice().into();
    let (at, mut dims, arg) = match args.node.int("axis") {
        Some(given) => (axis(given, fact.dims.len())?, fact.dims.clone(), Arg::input(0)),
        None => (0, flat.clone(), Arg::input(0).then(ViewOp::Reshape(flat))),
    };
    let condition = args.fact(1)?.value.as_ref().ok_or(Stop::Unknown)?;
    let kept = condition.to_vec::<bool>().unwrap_or_default();
    dims[at] = kept.iter().take(dims[at]).filter(|kept| **kept).count();
    let op = Op::Compress { axis: at as u32 };
    let inputs = vec![Some(arg), Some(Arg::input(1))];
    let outputs = vec![Type::new(fact.element, dims)];
    Ok(Lowered { outputs, work: Work::Kernel { op, inputs, reshaped: None } })
}

fn one_hot(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(3)?;
    args.only(0, numbers)?;
    args.only(1, numbers)?;
    let values = args.fact(2)?;
    if *values.dims != [2] {
        return wrong(format!("input 2 has shape {:?}, not [2]", values.dims));
    }
    let depth = args.fact(1)?;
    let depth = match depth.value.as_ref().ok_or(Stop::Unknown)?.to_f64s()[..] {
        [depth] if (0.0..1e15).contains(&depth) => depth as usize,
        _ => return wrong(format!("input 1 of shape {:?} is no depth", depth.dims)),
    };
    let mut dims = Dims::from_slice(args.dims(0)?);
    let at = args.axis(-1, dims.len() + 1)?;
    dims.insert(at, depth);
    Ok(Lowered::kernel(Op::OneHot { axis: at as u32 }, [0, 2], Type::new(values.element, dims)))
}

fn pad(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(4)?;
    let fact = args.fact(0)?;
    let rank = fact.dims.len();
    let mode = match args.node.text("mode").unwrap_or("constant") {
        "constant" => PadMode::Constant,
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        other => return wrong(format!("the mode \"{other}\" is not known")),
    };
    let pads = match args.node.ints("pads") {
        Some(pads) => pads.to_vec(),
        None => args.ints(1)?,
    };
    let axes = match args.has(3) {
        true => distinct_axes(&args.ints(3)?, rank)?,
        false => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return wrong(format!("{} pads are not two for each of {} axes", pads.len(), axes.len()));
    }
    let mut before = vec![0_i64; rank];
    let mut dims = fact.dims.clone();
    for (place, &axis) in axes.iter().enumerate() {
        let (front, back) = (pads[place], pads[axes.len() + place]);
        before[axis] = front;
        let padded = i128::from(front) + i128::from(back) + dims[axis] as i128;
        let Ok(padded) = usize::try_from(padded) else {
            return wrong(format!("the pads {pads:?} leave nothing of the shape {:?}", fact.dims));
        };
        if padded > 0 && dims[axis] == 0 && mode != PadMode::Constant {
            return wrong(format!(
                "axis {axis} of the shape {:?} has nothing to pad with",
                fact.dims
            ));
        }
        dims[axis] = padded;
    }
    let mut inputs =
        vec![Some(Arg::input(0)), Some(Arg::constant(Tensor::from_slice(&[rank], &before)))];
    if mode == PadMode::Constant && args.has(2) {
        args.same(0, 2)?;
        if args.dims(2)?.iter().product::<usize>() != 1 {
            return wrong(format!("input 2 has shape {:?}, not one element", args.dims(2)?));
        }
        inputs.push(Some(Arg::input(2).then(ViewOp::Reshape(Dims::new()))));
    } else {
        inputs.push(args.scalar("value", fact.element)?.map(Arg::constant));
    }
    let outputs = vec![Type::new(fact.element, dims)];
    Ok(Lowered { outputs, work: Work::Kernel { op: Op::Pad { mode }, inputs, reshaped: None } })
}

fn reverse_sequence(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    args.only(1, integers)?;
    let rank = fact.dims.len();
    let time = axis(args.node.int("time_axis").unwrap_or(0), rank)?;
    let batch = axis(args.node.int("batch_axis").unwrap_or(1), rank)?;
    if time == batch {
        return wrong(format!("the axis {time} is both time and batch"));
    }
    if *args.dims(1)? != [fact.dims[batch]] {
        return wrong(format!(
            "input 1 has shape {:?}, but axis {batch} of input 0 of shape {:?} is the batch",
            args.dims(1)?,
            fact.dims
        ));
    }
    let op = Op::ReverseSequence { time_axis: time as u32, batch_axis: batch as u32 };
    Ok(Lowered::kernel(op, [0, 1], Type::new(fact.element, fact.dims.clone())))
}

fn trilu(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let fact = args.fact(0)?;
    if fact.dims.len() < 2 {
        return wrong(format!("input 0 has shape {:?}, not two dimensions or more", fact.dims));
    }
    let k = if args.has(1) {
        args.only(1, |element| element == ElementType::I64)?;
        if args.dims(1)?.iter().product::<usize>() != 1 {
            return wrong(format!("input 1 has shape {:?}, not one element", args.dims(1)?));
        }
        Arg::input(1).then(ViewOp::Reshape(Dims::new()))
    } else {
        Arg::constant(Tensor::scalar(0_i64))
    };
    let op = Op::Trilu { upper: args.flag("upper", true) };
    let inputs = vec![Some(Arg::input(0)), Some(k)];
    let outputs = vec![Type::new(fact.element, fact.dims.clone())];
    Ok(Lowered { outputs, work: Work::Kernel { op, inputs, reshaped: None } })
}
