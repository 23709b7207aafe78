//! Operators along axes: reductions, arg-reductions, cumulation, TopK, softmax and normalisation.

use super::{
    Arg, Args, Lowered, Stop, Type, ViewOp, Work, axis, broadcast, distinct_axes, floats, indices,
    numbers, wrong,
};
use crate::graph::node::{Float, Op, Reduction};
use crate::graph::tensor::{Dims, ElementType};

/// The operators of this family.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "ArgMax", "ArgMin", "BatchNormalization", "CumProd", "CumSum", "Hardmax", "LayerNormalization", "LogSoftmax",
    "LpNormalization", "RMSNormalization", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Softmax", "TopK",
];

pub(super) fn is_known(op: &str) -> bool {
    NAMES.contains(&op)
}

pub(super) fn lower(args: &Args<'_>) -> Option<Result<Lowered, Stop>> {
    let kind = match args.node.op.as_str() {
        "ArgMax" | "ArgMin" => return Some(arg_extreme(args)),
        "CumSum" | "CumProd" => return Some(cumulate(args)),
        "TopK" => return Some(top_k(args)),
        "Softmax" | "LogSoftmax" | "Hardmax" => return Some(softmax(args)),
        "LpNormalization" => return Some(lp_normalize(args)),
        "LayerNormalization" | "RMSNormalization" => return Some(layer_normalize(args)),
        "BatchNormalization" => return Some(batch_normalize(args)),
        "ReduceSum" => Reduction::Sum,
        "ReduceMean" => Reduction::Mean,
        "ReduceProd" => Reduction::Prod,
        "ReduceMin" => Reduction::Min,
        "ReduceMax" => Reduction::Max,
        "ReduceL1" => Reduction::L1,
        "ReduceL2" => Reduction::L2,
        "ReduceSumSquare" => Reduction::SumSquare,
        "ReduceLogSum" => Reduction::LogSum,
        "ReduceLogSumExp" => Reduction::LogSumExp,
        _ => return None,
    };
    Some(reduce(args, kind))
}

fn reduce(args: &Args<'_>, kind: Reduction) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let extreme = matches!(kind, Reduction::Min | Reduction::Max);
    let element = args.only(0, if extreme { super::any } else { numbers })?;
    let dims = args.dims(0)?;
    let given = args.axes(1)?.unwrap_or_default();
    let mut axes: Vec<u32> =
        distinct_axes(&given, dims.len())?.into_iter().map(|axis| axis as u32).collect();
    axes.sort_unstable();
    if axes.is_empty() && !args.flag("noop_with_empty_axes", false) {
        axes = (0..dims.len() as u32).collect();
    }
    let output = Type::new(element, reduced(dims, &axes, args.flag("keepdims", true)));
    Ok(Lowered::kernel(Op::Reduce { kind, axes }, [0], output))
}

fn reduced(dims: &[usize], axes: &[u32], keep: bool) -> Dims {
    let is_reduced = |axis: usize| axes.contains(&(axis as u32));
    let kept = dims.iter().enumerate().filter(|(axis, _)| keep || !is_reduced(*axis));
    kept.map(|(axis, &dim)| if is_reduced(axis) { 1 } else { dim }).collect()
}

fn arg_extreme(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    args.only(0, numbers)?;
    let dims = args.dims(0)?;
    let at = args.axis(0, dims.len())?;
    if dims[at] == 0 {
        return wrong(format!("axis {at} of the shape {dims:?} has no element"));
    }
    let op = Op::ArgExtreme {
        max: args.node.op == "ArgMax",
        last: args.flag("select_last_index", false),
        axis: at as u32,
    };
    let kept = reduced(dims, &[at as u32], args.flag("keepdims", true));
    Ok(Lowered::kernel(op, [0], Type::new(ElementType::I64, kept)))
}

fn cumulate(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let element = args.only(0, numbers)?;
    args.only(1, indices)?;
    let dims = args.dims(0)?;
    let op = Op::Cumulate {
        product: args.node.op == "CumProd",
        exclusive: args.flag("exclusive", false),
        reverse: args.flag("reverse", false),
        axis: axis(args.int(1)?, dims.len())? as u32,
    };
    Ok(Lowered::kernel(op, [0], Type::new(element, dims)))
}

fn top_k(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let element = args.only(0, numbers)?;
    let dims = args.dims(0)?;
    let at = args.axis(-1, dims.len())?;
    let k = match args.node.int("k") {
        Some(k) => k,
        None => args.int(1)?,
    };
    let Some(k) = usize::try_from(k).ok().filter(|k| *k <= dims[at]) else {
        return wrong(format!("k is {k}, but axis {at} of the shape {dims:?} has {}", dims[at]));
    };
    let mut kept = Dims::from_slice(dims);
    kept[at] = k;
    let op = Op::TopK { largest: args.flag("largest", true), axis: at as u32 };
    let outputs = vec![Type::new(element, kept.clone()), Type::new(ElementType::I64, kept)];
    let inputs = vec![Some(Arg::input(0))];
    Ok(Lowered { outputs, work: Work::Kernel { op, inputs, reshaped: None } })
}

/// Before version 13 the axes from `axis` on are taken together.
fn softmax(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let element = args.only(0, floats)?;
    let dims = args.dims(0)?;
    let old = args.node.version < 13;
    let at = args.axis(if old { 1 } else { -1 }, dims.len().max(1))?;
    let op = |axis| match args.node.op.as_str() {
        "Softmax" => Op::Softmax { axis },
        "LogSoftmax" => Op::LogSoftmax { axis },
        _ => Op::Hardmax { axis },
    };
    let output = Type::new(element, dims);
    let flat: Dims = if old {
        [dims[..at].iter().product(), dims[at..].iter().product::<usize>()].as_slice().into()
    } else if dims.is_empty() {
        [1].as_slice().into()
    } else {
        return Ok(Lowered::kernel(op(at as u32), [0], output));
    };
    let axis = if old { 1 } else { 0 };
    let inputs = vec![Some(Arg::input(0).then(ViewOp::Reshape(flat.clone())))];
    let work = Work::Kernel { op: op(axis), inputs, reshaped: Some(vec![flat]) };
    Ok(Lowered { outputs: vec![output], work })
}

fn lp_normalize(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let element = args.only(0, floats)?;
    let dims = args.dims(0)?;
    let p = match args.node.int("p").unwrap_or(2) {
        p @ 1..=2 => p as u32,
        p => return wrong(format!("p is {p}, not 1 or 2")),
    };
    let axis = args.axis(-1, dims.len())? as u32;
    Ok(Lowered::kernel(Op::LpNormalize { p, axis }, [0], Type::new(element, dims)))
}

fn layer_normalize(args: &Args<'_>) -> Result<Lowered, Stop> {
    let root = args.node.op == "RMSNormalization";
    args.limit(if root { 2 } else { 3 })?;
    let element = args.only(0, floats)?;
    let dims = args.dims(0)?;
    let at = args.axis(-1, dims.len())?;
    let mut inputs = vec![Some(Arg::input(0))];
    for index in 1..args.facts.len() {
        if index == 2 && !args.has(2) {
            inputs.push(None);
            continue;
        }
        args.same(0, index)?;
        let all = broadcast([(0, dims), (index, args.dims(index)?)])?;
        if all[..] != *dims {
            return wrong(format!(
                "input {index} of shape {:?} cannot be broadcast to input 0 of shape {dims:?}",
                args.dims(index)?
            ));
        }
        inputs.push(Some(Arg::input(index)));
    }
    let epsilon = Float::from(args.float("epsilon", 1e-5));
    let axis = at as u32;
    let mut outputs = vec![Type::new(element, dims)];
    let op = match root {
        true => Op::RmsNormalize { axis, epsilon },
        false => {
            args.fact(1)?;
            let mut kept = Dims::from_slice(dims);
            kept[at..].fill(1);
            let statistics = Type::new(ElementType::F32, kept);
            outputs.extend([statistics.clone(), statistics]);
            Op::LayerNormalize { axis, epsilon }
        }
    };
    Ok(Lowered { outputs, work: Work::Kernel { op, inputs, reshaped: None } })
}

fn batch_normalize(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(5)?;
    let element = args.only(0, floats)?;
    let dims = args.dims(0)?;
    if dims.is_empty() {
        return wrong("input 0 is a scalar; it needs a batch");
    }
    let channels = dims.get(1).copied().unwrap_or(1);
    for index in 1..5 {
        args.same(0, index)?;
        if *args.dims(index)? != [channels] {
            return wrong(format!(
                "input {index} has shape {:?}, but input 0 of shape {dims:?} has {channels} channels",
                args.dims(index)?
            ));
        }
    }
    let training = args.flag("training_mode", false);
    let op = Op::BatchNormalize {
        epsilon: Float::from(args.float("epsilon", 1e-5)),
        momentum: Float::from(args.float("momentum", 0.9)),
        training,
    };
    let mut outputs = vec![Type::new(element, dims)];
    if training {
        let running = Type::new(element, [channels].as_slice());
        outputs.extend([running.clone(), running]);
    }
    let inputs = (0..5).map(|index| Some(Arg::input(index))).collect();
    Ok(Lowered { outputs, work: Work::Kernel { op, inputs, reshaped: None } })
}
