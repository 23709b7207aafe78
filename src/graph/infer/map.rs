//! Element-wise operators: one table from names to functions, and the types they take.

use super::{
    Arg, Args, Fact, Lowered, Stop, Type, ViewOp, Work, any, bools, broadcast, floats, integers,
    numbers, wrong,
};
use crate::graph::node::{Float, Map, Op};
use crate::graph::onnx::element_type;
use crate::graph::tensor::ElementType;

/// The element-wise operators.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitCast", "BitShift", "BitwiseAnd",
    "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu",
    "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "IsInf",
    "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not",
    "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
];

pub(super) fn is_known(op: &str) -> bool {
    NAMES.contains(&op)
}

pub(super) fn lower(args: &Args<'_>) -> Option<Result<Lowered, Stop>> {
    is_known(&args.node.op).then(|| node(args))
}

fn signed(element: ElementType) -> bool {
    element.is_signed()
}

fn node(args: &Args<'_>) -> Result<Lowered, Stop> {
    match args.node.op.as_str() {
        "Cast" => {
            args.limit(1)?;
            let number = args.node.int("to").and_then(|to| i32::try_from(to).ok());
            let Some(number) = number else { return wrong("it has no attribute \"to\"") };
            cast(args, element_type(number).map_err(Stop::Wrong)?)
        }
        "CastLike" => {
            args.limit(2)?;
            cast(args, args.fact(1)?.element)
        }
        "BitCast" => bit_cast(args),
        "Clip" => clip(args),
        "Where" => {
            args.limit(3)?;
            args.only(0, bools)?;
            args.same(1, 2)?;
            apply(args, Map::Where, args.fact(1)?.element)
        }
        "Pow" => {
            args.limit(2)?;
            args.only(1, numbers)?;
            apply(args, Map::Pow, args.only(0, numbers)?)
        }
        "Min" | "Max" | "Sum" | "Mean" => variadic(args),
        _ => plain(args),
    }
}

/// An operator on inputs of one type.
fn plain(args: &Args<'_>) -> Result<Lowered, Stop> {
    let float = |name, default| Float::from(args.float(name, default));
    let (map, count, allowed): (Map, usize, fn(ElementType) -> bool) = match args.node.op.as_str() {
        "Abs" => (Map::Abs, 1, numbers),
        "Neg" => (Map::Neg, 1, signed),
        "Sign" => (Map::Sign, 1, numbers),
        "Reciprocal" => (Map::Reciprocal, 1, floats),
        "Sqrt" => (Map::Sqrt, 1, floats),
        "Exp" => (Map::Exp, 1, floats),
        "Log" => (Map::Log, 1, floats),
        "Floor" => (Map::Floor, 1, floats),
        "Ceil" => (Map::Ceil, 1, floats),
        "Round" => (Map::Round, 1, floats),
        "Sin" => (Map::Sin, 1, floats),
        "Cos" => (Map::Cos, 1, floats),
        "Tan" => (Map::Tan, 1, floats),
        "Asin" => (Map::Asin, 1, floats),
        "Acos" => (Map::Acos, 1, floats),
        "Atan" => (Map::Atan, 1, floats),
        "Sinh" => (Map::Sinh, 1, floats),
        "Cosh" => (Map::Cosh, 1, floats),
        "Tanh" => (Map::Tanh, 1, floats),
        "Asinh" => (Map::Asinh, 1, floats),
        "Acosh" => (Map::Acosh, 1, floats),
        "Atanh" => (Map::Atanh, 1, floats),
        "Erf" => (Map::Erf, 1, floats),
        "Sigmoid" => (Map::Sigmoid, 1, floats),
        "Relu" => (Map::Relu, 1, signed),
        "LeakyRelu" => (Map::LeakyRelu { alpha: float("alpha", 0.01) }, 1, floats),
        "Elu" => (Map::Elu { alpha: float("alpha", 1.0) }, 1, floats),
        "Celu" => (Map::Celu { alpha: float("alpha", 1.0) }, 1, floats),
        "Selu" => {
            // The defaults are the nearest `f32`s to those of the specification.
            let alpha = float("alpha", 1.673_263_2);
            (Map::Selu { alpha, gamma: float("gamma", 1.050_701) }, 1, floats)
        }
        "HardSigmoid" => {
            let (alpha, beta) = (float("alpha", 0.2), float("beta", 0.5));
            (Map::HardSigmoid { alpha, beta }, 1, floats)
        }
        "HardSwish" => (Map::HardSwish, 1, floats),
        "Softplus" => (Map::Softplus, 1, floats),
        "Softsign" => (Map::Softsign, 1, floats),
        "Mish" => (Map::Mish, 1, floats),
        "Swish" => (Map::Swish { alpha: float("alpha", 1.0) }, 1, floats),
        "ThresholdedRelu" => (Map::ThresholdedRelu { alpha: float("alpha", 1.0) }, 1, floats),
        "Gelu" => {
            let tanh = match args.node.text("approximate").unwrap_or("none") {
                "none" => false,
                "tanh" => true,
                other => return wrong(format!("approximate is \"{other}\", not none or tanh")),
            };
            (Map::Gelu { tanh }, 1, floats)
        }
        "Shrink" => {
            let (bias, lambd) = (float("bias", 0.0), float("lambd", 0.5));
            (Map::Shrink { bias, lambd }, 1, numbers)
        }
        "Not" => (Map::Not, 1, bools),
        "BitwiseNot" => (Map::BitwiseNot, 1, integers),
        "IsNaN" => (Map::IsNan, 1, floats),
        "IsInf" => {
            let positive = args.flag("detect_positive", true);
            (Map::IsInf { positive, negative: args.flag("detect_negative", true) }, 1, floats)
        }
        "Add" => (Map::Add, 2, numbers),
        "Sub" => (Map::Sub, 2, numbers),
        "Mul" => (Map::Mul, 2, numbers),
        "Div" => (Map::Div, 2, numbers),
        "Mod" => {
            let fmod = args.flag("fmod", false);
            if !fmod && args.node.version < 28 && args.fact(0)?.element.is_float() {
                return wrong("fmod must be 1 for floating-point numbers");
            }
            (Map::Mod { fmod }, 2, numbers)
        }
        "And" => (Map::And, 2, bools),
        "Or" => (Map::Or, 2, bools),
        "Xor" => (Map::Xor, 2, bools),
        "BitwiseAnd" => (Map::BitwiseAnd, 2, integers),
        "BitwiseOr" => (Map::BitwiseOr, 2, integers),
        "BitwiseXor" => (Map::BitwiseXor, 2, integers),
        "BitShift" => {
            let left = match args.node.text("direction") {
                Some("LEFT") => true,
                Some("RIGHT") => false,
                _ => return wrong("direction is not LEFT or RIGHT"),
            };
            (Map::BitShift { left }, 2, integers)
        }
        "Equal" => (Map::Equal, 2, any),
        "Less" => (Map::Less, 2, numbers),
        "LessOrEqual" => (Map::LessOrEqual, 2, numbers),
        "Greater" => (Map::Greater, 2, numbers),
        "GreaterOrEqual" => (Map::GreaterOrEqual, 2, numbers),
        "PRelu" => (Map::PRelu, 2, numbers),
        _ => return wrong("the op is not supported"),
    };
    args.limit(count)?;
    let element = args.only(0, allowed)?;
    if count == 2 {
        args.same(0, 1)?;
    }
    if map == Map::PRelu {
        // The slope is broadcast to x, not both to each other.
        let all = broadcast([(0, args.dims(0)?), (1, args.dims(1)?)])?;
        if all[..] != *args.dims(0)? {
            return wrong(format!(
                "input 1 of shape {:?} cannot be broadcast to input 0 of shape {:?}",
                args.dims(1)?,
                args.dims(0)?
            ));
        }
    }
    apply(args, map, map.result(&[element, element]))
}

fn apply(args: &Args<'_>, map: Map, element: ElementType) -> Result<Lowered, Stop> {
    let facts = args.all()?;
    let dims = broadcast(shapes(&facts))?;
    Ok(Lowered::kernel(Op::Map(map), 0..facts.len(), Type { element, dims }))
}

fn shapes<'a>(facts: &[&'a Fact]) -> impl Iterator<Item = (usize, &'a [usize])> {
    facts.iter().map(|fact| &fact.dims[..]).enumerate()
}

fn variadic(args: &Args<'_>) -> Result<Lowered, Stop> {
    let (map, allowed): (_, fn(ElementType) -> bool) = match args.node.op.as_str() {
        "Min" => (Map::Min, numbers),
        "Max" => (Map::Max, numbers),
        "Sum" => (Map::Sum, floats),
        _ => (Map::Mean, floats),
    };
    let element = args.only(0, allowed)?;
    for index in 1..args.facts.len() {
        args.same(0, index)?;
    }
    apply(args, map, element)
}

fn cast(args: &Args<'_>, to: ElementType) -> Result<Lowered, Stop> {
    let fact = args.fact(0)?;
    let output = Type::new(to, fact.dims.clone());
    if fact.element == to {
        return Ok(Lowered::view(Arg::input(0), output));
    }
    Ok(Lowered::kernel(Op::Map(Map::Cast { to }), [0], output))
}

fn bit_cast(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(1)?;
    let number = args.node.int("to").and_then(|to| i32::try_from(to).ok());
    let Some(number) = number else { return wrong("it has no attribute \"to\"") };
    let to = element_type(number).map_err(Stop::Wrong)?;
    let fact = args.fact(0)?;
    if to.size() != fact.element.size() {
        return wrong(format!("the bits of {} are not as many as those of {to}", fact.element));
    }
    if to == ElementType::Bool && fact.element != to {
        return wrong("not every byte is a truth value");
    }
    let view = Arg::input(0).then(ViewOp::Reinterpret(to));
    Ok(Lowered::view(view, Type::new(to, fact.dims.clone())))
}

/// The bounds are inputs, which may be left out; before version 11, attributes.
fn clip(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(3)?;
    let element = args.only(0, numbers)?;
    let mut inputs = vec![Some(Arg::input(0))];
    let mut bound = |index: usize, name: &str| -> Result<bool, Stop> {
        if args.has(index) {
            args.same(0, index)?;
            if args.dims(index)?.iter().product::<usize>() != 1 {
                return wrong(format!("input {index} is no scalar"));
            }
            inputs.push(Some(Arg::input(index).then(ViewOp::Reshape([].as_slice().into()))));
            return Ok(true);
        }
        let scalar = args.scalar(name, element)?;
        let is_given = scalar.is_some();
        inputs.extend(scalar.map(|scalar| Some(Arg::constant(scalar))));
        Ok(is_given)
    };
    let (min, max) = (bound(1, "min")?, bound(2, "max")?);
    let output = Type::new(element, args.fact(0)?.dims.clone());
    if !min && !max {
        return Ok(Lowered::view(Arg::input(0), output));
    }
    let op = Op::Map(Map::Clip { min, max });
    Ok(Lowered { outputs: vec![output], work: Work::Kernel { op, inputs, reshaped: None } })
}
