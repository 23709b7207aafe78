//! Kernels against plain loops, and against small cases worked out by hand.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::graph::abi::{Status, View};
use crate::graph::bind;
use crate::graph::node::{
    Arg, Float, Group, Layout, Map, NodeSpec, Op, Operand, PadMode, Reduction, ScatterReduction,
    Step,
};
use crate::graph::tensor::{Element, ElementType, Tensor};
use crate::graph::testing::evaluate;

/// The one output of a node.
fn run(op: Op, inputs: &[Tensor], element: ElementType, dims: &[usize]) -> Tensor {
    let inputs: Vec<Option<Tensor>> = inputs.iter().cloned().map(Some).collect();
    evaluate(&op, &inputs, &[(element, dims.to_vec())]).expect("it succeeds").remove(0)
}

fn map<T: Element>(map: Map, inputs: &[Tensor], dims: &[usize]) -> Vec<T> {
    run(Op::Map(map), inputs, T::TYPE, dims).to_vec().expect("of this type")
}

fn row<T: Element>(elements: &[T]) -> Tensor {
    Tensor::from_slice(&[elements.len()], elements)
}

/// Some numbers, as many as the dimensions say.
fn numbers(dims: &[usize], seed: u32) -> Tensor {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 16) as f32 / 8192.0 - 4.0
    };
    let mut state = seed;
    let elements: Vec<f32> = (0..dims.iter().product()).map(|_| next(&mut state)).collect();
    Tensor::from_slice(dims, &elements)
}

/// Mutants: `sdiv` without the select of a safe divisor (the process dies); a quotient by 0 that is not made 0.
#[test]
fn integers_divide_as_c_does_and_never_trap() {
    let x = row(&[7_i32, -7, 7, -7, i32::MIN, 5, 0]);
    let y = row(&[2_i32, 2, -2, -2, -1, 0, 0]);
    let both = [x, y];
    assert_eq!(map::<i32>(Map::Div, &both, &[7]), [3, -3, -3, 3, i32::MIN, 0, 0]);
    let floor = Map::Mod { fmod: false };
    assert_eq!(map::<i32>(floor, &both, &[7]), [1, 1, -1, -1, 0, 0, 0]);
    let truncated = Map::Mod { fmod: true };
    assert_eq!(map::<i32>(truncated, &both, &[7]), [1, -1, 1, -1, 0, 0, 0]);
    let bytes = [row(&[i8::MIN, 100, 7]), row(&[-1_i8, 0, -3])];
    assert_eq!(map::<i8>(Map::Div, &bytes, &[3]), [i8::MIN, 0, -2]);
    let large = [row(&[u64::MAX, 5]), row(&[2_u64, 0])];
    assert_eq!(map::<u64>(Map::Div, &large, &[2]), [u64::MAX / 2, 0]);
}

/// Mutant: a zero with the dividend's sign.
#[test]
fn the_remainder_has_the_sign_of_the_divisor_or_of_the_dividend() {
    let x = row(&[5.5_f64, -5.5, -4.0, 1.0, 1.0]);
    let y = row(&[2.0_f64, 2.0, 2.0, f64::NEG_INFINITY, 0.0]);
    let both = [x, y];
    let floored = map::<f64>(Map::Mod { fmod: false }, &both, &[5]);
    assert_eq!(floored[..4], [1.5, 0.5, 0.0, f64::NEG_INFINITY]);
    assert!(floored[2].is_sign_positive() && floored[4].is_nan());
    let truncated = map::<f64>(Map::Mod { fmod: true }, &both, &[5]);
    assert_eq!(truncated[..4], [1.5, -1.5, 0.0, 1.0]);
}

/// Mutant: amounts taken modulo the width, as the instruction does.
#[test]
fn shifts_by_more_than_the_width_leave_the_sign() {
    let x = row(&[-8_i8, 8, -8, 8, 1, -1]);
    let y = row(&[1_i8, 1, 8, 9, -1, -1]);
    let both = [x, y];
    assert_eq!(map::<i8>(Map::BitShift { left: true }, &both, &[6]), [-16, 16, 0, 0, 0, 0]);
    assert_eq!(map::<i8>(Map::BitShift { left: false }, &both, &[6]), [-4, 4, -1, 0, 0, -1]);
}

/// Mutants: `fmin` replaced by compare and select; Relu as `max`, which turns NaN to 0.
#[test]
fn not_a_number_stays_so() {
    let x = row(&[f32::NAN, 1.0, f32::NAN, 2.0]);
    let y = row(&[1.0, f32::NAN, f32::NAN, 3.0]);
    let both = [x.clone(), y];
    for function in [Map::Min, Map::Max] {
        let result = map::<f32>(function, &both, &[4]);
        assert!(result[..3].iter().all(|value| value.is_nan()), "{function:?}");
    }
    assert!(map::<f32>(Map::Relu, std::slice::from_ref(&x), &[4])[0].is_nan());
    assert_eq!(map::<bool>(Map::IsNan, &[x], &[4]), [true, false, true, false]);
}

/// Mutants: inverses of 1, or of -1, that are 0.
#[test]
fn powers_of_integers_wrap_and_have_inverses() {
    let x = row(&[3_i64, -2, 2, -1, 1, 5, 10]);
    let y = row(&[39_i64, 3, 64, -3, -9, -1, 0]);
    let expected = [3_i64.pow(39), -8, 0, -1, 1, 0, 1];
    assert_eq!(map::<i64>(Map::Pow, &[x, y], &[7]), expected);
    let mixed = map::<f32>(Map::Pow, &[row(&[1.5_f32, -2.0]), row(&[2_i32, 3])], &[2]);
    assert_eq!(mixed, [2.25, -8.0]);
}

/// Mutant: unsigned 64-bit numbers converted as signed.
#[test]
fn casts_keep_what_fits() {
    let cast = |x: Tensor, to: ElementType| run(Op::Map(Map::Cast { to }), &[x], to, &[3]);
    let large = cast(row(&[u64::MAX, 1 << 63, 3]), ElementType::F64);
    assert_eq!(large.to_f64s(), [18_446_744_073_709_551_615.0, 9_223_372_036_854_775_808.0, 3.0]);
    let back = cast(row(&[1.9_f64, -1.9, 1e19]), ElementType::U64);
    assert_eq!(back.to_vec::<u64>().unwrap(), [1, u64::MAX, 10_000_000_000_000_000_000]);
    let bytes = cast(row(&[200_i16, -1, 256]), ElementType::I8);
    assert_eq!(bytes.to_vec::<i8>().unwrap(), [-56, -1, 0]);
    let truths = cast(row(&[f32::NAN, -0.0, 0.1]), ElementType::Bool);
    assert_eq!(truths.to_vec::<bool>().unwrap(), [true, false, true]);
}

/// Every element-wise function that has its own arithmetic, against double precision.
/// Mutants: a coefficient of tanh changed in its third digit; ln 2 in one part.
#[test]
fn functions_are_exact_to_single_precision() {
    let inputs: Vec<f32> = (-4000..4000).map(|i| i as f32 / 400.0).chain([-80.0, 60.0]).collect();
    let x = row(&inputs);
    let alpha = Float::from(0.75);
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    type Function = Box<dyn Fn(f64) -> f64>;
    let functions: Vec<(Map, Function)> = vec![
        (Map::Exp, Box::new(f64::exp)),
        (Map::Tanh, Box::new(f64::tanh)),
        (Map::Sigmoid, Box::new(|x| 1.0 / (1.0 + (-x).exp()))),
        (Map::Softplus, Box::new(softplus)),
        (Map::Mish, Box::new(move |x| x * softplus(x).tanh())),
        (Map::Elu { alpha }, Box::new(|x| if x < 0.0 { 0.75 * x.exp_m1() } else { x })),
        (Map::Celu { alpha }, Box::new(|x| x.max(0.0) + (0.75 * (x / 0.75).exp_m1()).min(0.0))),
        (Map::Swish { alpha }, Box::new(|x| x / (1.0 + (-0.75 * x).exp()))),
    ];
    for (function, exact) in functions {
        let results = map::<f32>(function, std::slice::from_ref(&x), &[inputs.len()]);
        for (&x, result) in inputs.iter().zip(results) {
            let exact = exact(f64::from(x));
            let error = (f64::from(result) - exact).abs();
            assert!(error <= 4e-7 * exact.abs() + 1e-38, "{function:?} {x}: {result}, not {exact}");
        }
    }
    let positive: Vec<f32> = inputs.iter().map(|x| x.exp()).chain([1e-40, f32::MAX]).collect();
    let logs = map::<f32>(Map::Log, &[row(&positive)], &[positive.len()]);
    for (&x, log) in positive.iter().zip(logs) {
        let exact = f64::from(x).ln();
        assert!((f64::from(log) - exact).abs() <= 2e-7 * exact.abs() + 1e-7, "ln {x}: {log}");
    }
    // Values of the error function from tables.
    let table = [(0.1_f32, 0.112_462_916_018), (0.5, 0.520_499_877_813), (0.99, 0.838_508_069_555)];
    let more = [(1.0_f32, 0.842_700_792_949), (2.0, 0.995_322_265_018), (3.5, 0.999_999_256_901)];
    let (places, values): (Vec<f32>, Vec<f64>) = table.into_iter().chain(more).unzip();
    let erf = map::<f32>(Map::Erf, &[row(&places)], &[6]);
    for (result, exact) in erf.into_iter().zip(values) {
        assert!((f64::from(result) - exact).abs() <= 2e-7 * exact, "{result}, not {exact}");
    }
}

/// What special values come to.
/// Mutants: the choice of 0 in `exp` left out; that of NaN in `log`.
#[test]
fn functions_know_infinity_and_nothing() {
    let x = row(&[f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, -1.0, 1e30, -1e30]);
    let exp = map::<f32>(Map::Exp, std::slice::from_ref(&x), &[8]);
    assert_eq!(exp[..2], [f32::INFINITY, 0.0]);
    assert!(exp[2].is_nan());
    assert_eq!(exp[3..5], [1.0, 1.0]);
    assert_eq!(exp[6..], [f32::INFINITY, 0.0]);
    let log = map::<f32>(Map::Log, std::slice::from_ref(&x), &[8]);
    assert_eq!(log[0], f32::INFINITY);
    assert!(log[1].is_nan() && log[2].is_nan() && log[5].is_nan());
    assert_eq!(log[3..5], [f32::NEG_INFINITY; 2]);
    let tanh = map::<f32>(Map::Tanh, std::slice::from_ref(&x), &[8]);
    assert_eq!(tanh[..2], [1.0, -1.0]);
    assert!(tanh[2].is_nan() && tanh[4].is_sign_negative());
    let erf = map::<f32>(Map::Erf, &[x], &[8]);
    assert_eq!(erf[..2], [1.0, -1.0]);
    assert!(erf[2].is_nan());
}

/// Mutants: ties by the last; NaN under all.
#[test]
fn top_k_is_sorted_and_takes_the_first_of_equals() {
    let x = row(&[3.0_f32, 1.0, 3.0, f32::NAN, 2.0]);
    let outputs = [(ElementType::F32, vec![4]), (ElementType::I64, vec![4])];
    let top = |largest: bool| {
        let op = Op::TopK { largest, axis: 0 };
        let found = evaluate(&op, &[Some(x.clone())], &outputs).unwrap();
        (found[0].to_vec::<f32>().unwrap(), found[1].to_vec::<i64>().unwrap())
    };
    let (values, places) = top(true);
    assert!(values[0].is_nan());
    assert_eq!((values[1..].to_vec(), places), (vec![3.0, 3.0, 2.0], vec![3, 0, 2, 4]));
    assert_eq!(top(false), (vec![1.0, 2.0, 3.0, 3.0], vec![1, 4, 0, 2]));
}

/// Mutants: indices compared as signed; -1 counted from the front; lengths not compared.
#[test]
fn an_index_out_of_range_is_an_error_of_the_call() {
    let x = numbers(&[3, 2], 1);
    let gather = |index: i64| {
        let inputs = [Some(x.clone()), Some(row(&[index]))];
        evaluate(&Op::Gather { axis: 0 }, &inputs, &[(ElementType::F32, vec![1, 2])])
    };
    assert_eq!(gather(-1).unwrap()[0].to_f64s(), x.slice(0, 2, 1, 1).to_f64s());
    for index in [3, -4, i64::MAX, i64::MIN] {
        assert_eq!(gather(index).unwrap_err(), Status::IndexOutOfRange);
    }
    let scatter = Op::ScatterNd { reduction: ScatterReduction::Add };
    let inputs = [x.clone(), Tensor::from_slice(&[1, 1], &[3_i64]), numbers(&[1, 2], 2)].map(Some);
    let found = evaluate(&scatter, &inputs, &[(ElementType::F32, vec![3, 2])]);
    assert_eq!(found.unwrap_err(), Status::IndexOutOfRange);
    let reverse = Op::ReverseSequence { time_axis: 0, batch_axis: 1 };
    let inputs = [x, row(&[2_i64, 4])].map(Some);
    let found = evaluate(&reverse, &inputs, &[(ElementType::F32, vec![3, 2])]);
    assert_eq!(found.unwrap_err(), Status::LengthOutOfRange);
}

/// What reductions make of nothing, and of no axis.
/// Mutant: a greatest element that is looked for from 0 on.
#[test]
fn nothing_reduces_to_the_identity() {
    let reduce = |kind: Reduction, x: Tensor, axes: Vec<u32>, dims: &[usize]| {
        let element = x.element();
        run(Op::Reduce { kind, axes }, &[x], element, dims)
    };
    let none = || Tensor::from_slice::<f32>(&[0, 2], &[]);
    for (kind, expected) in [
        (Reduction::Sum, 0.0),
        (Reduction::Prod, 1.0),
        (Reduction::Max, f64::NEG_INFINITY),
        (Reduction::Min, f64::INFINITY),
        (Reduction::LogSum, f64::NEG_INFINITY),
        (Reduction::LogSumExp, f64::NEG_INFINITY),
        (Reduction::L2, 0.0),
    ] {
        assert_eq!(reduce(kind, none(), vec![0], &[2]).to_f64s(), [expected; 2], "{kind:?}");
    }
    assert!(reduce(Reduction::Mean, none(), vec![0], &[2]).to_f64s()[0].is_nan());
    let integers = Tensor::from_slice::<i64>(&[0], &[]);
    assert_eq!(
        reduce(Reduction::Max, integers.clone(), vec![0], &[]).to_vec::<i64>().unwrap(),
        [i64::MIN]
    );
    assert_eq!(reduce(Reduction::Mean, integers, vec![0], &[]).to_vec::<i64>().unwrap(), [0]);
    let x = row(&[-3.0_f32, 4.0]);
    assert_eq!(reduce(Reduction::L2, x, vec![], &[2]).to_f64s(), [3.0, 4.0]);
    let truths = Tensor::from_slice(&[2, 2], &[true, false, true, true]);
    assert_eq!(
        reduce(Reduction::Min, truths.clone(), vec![1], &[2]).to_vec::<bool>().unwrap(),
        [false, true]
    );
    assert_eq!(
        reduce(Reduction::Max, truths, vec![0], &[2]).to_vec::<bool>().unwrap(),
        [true, true]
    );
}

/// Mutant: the shift of LogSumExp left out, or an infinite one not replaced.
#[test]
fn exponentials_do_not_overflow() {
    let sum = |x: &[f32]| {
        let op = Op::Reduce { kind: Reduction::LogSumExp, axes: vec![0] };
        run(op, &[row(x)], ElementType::F32, &[]).to_f64s()[0]
    };
    assert!((sum(&[1000.0, 1000.0]) - 1_000.693_147).abs() < 1e-3);
    assert_eq!(sum(&[f32::NEG_INFINITY; 3]), f64::NEG_INFINITY);
    assert_eq!(sum(&[f32::INFINITY, 1.0]), f64::INFINITY);
    let softmax =
        run(Op::Softmax { axis: 0 }, &[row(&[1e4_f32, 1e4, -1e4])], ElementType::F32, &[3]);
    assert_eq!(softmax.to_f64s(), [0.5, 0.5, 0.0]);
}

/// Columns are the rows of what is transposed.
/// Mutants: the greatest of a column left in it; the columns after whole vectors left out.
#[test]
fn softmax_takes_columns_as_rows() {
    for element in [ElementType::F32, ElementType::F64] {
        // Large enough to overflow where the greatest is not taken away.
        let x = [numbers(&[2, 5, 21], 9), row(&[100.0_f32])];
        let x = run(Op::Map(Map::Mul), &x, ElementType::F32, &[2, 5, 21]);
        let x = run(Op::Map(Map::Cast { to: element }), &[x], element, &[2, 5, 21]);
        let turned = x.permute(&[0, 2, 1]).contiguous();
        let both = |op: fn(u32) -> Op| {
            let columns = run(op(1), std::slice::from_ref(&x), element, &[2, 5, 21]);
            let rows = run(op(2), std::slice::from_ref(&turned), element, &[2, 21, 5]);
            let rows = rows.permute(&[0, 2, 1]).to_f64s();
            for (a, b) in columns.to_f64s().into_iter().zip(rows) {
                assert!((a - b).abs() <= 2e-6 * (1.0 + b.abs()), "{a} and {b}");
            }
        };
        both(|axis| Op::Softmax { axis });
        both(|axis| Op::LogSoftmax { axis });
    }
}

/// Mutants: negative pads that add; a mirror that repeats the edge.
#[test]
fn pads_add_and_take_away() {
    let x = Tensor::from_slice(&[4], &[1_i32, 2, 3, 4]);
    let pad = |mode: PadMode, begin: i64, length: usize| {
        let inputs = [Some(x.clone()), Some(row(&[begin])), None];
        let outputs = [(ElementType::I32, vec![length])];
        let found = evaluate(&Op::Pad { mode }, &inputs, &outputs).unwrap();
        found[0].to_vec::<i32>().unwrap()
    };
    assert_eq!(pad(PadMode::Constant, 1, 6), [0, 1, 2, 3, 4, 0]);
    assert_eq!(pad(PadMode::Constant, -1, 4), [2, 3, 4, 0]);
    assert_eq!(pad(PadMode::Constant, -9, 2), [0, 0]);
    assert_eq!(pad(PadMode::Edge, 2, 7), [1, 1, 1, 2, 3, 4, 4]);
    assert_eq!(pad(PadMode::Reflect, 2, 8), [3, 2, 1, 2, 3, 4, 3, 2]);
    assert_eq!(pad(PadMode::Wrap, 2, 7), [3, 4, 1, 2, 3, 4, 1]);
}

/// A group computes what its steps would one by one, and so does one that ends in a reduction.
/// Mutant: an argument taken from the step before, whatever it says.
#[test]
fn groups_are_their_steps() {
    let (x, y) = (numbers(&[3, 37], 1), numbers(&[37], 2));
    let step = |map, args: &[Arg]| Step { map, args: args.to_vec() };
    let steps = vec![
        step(Map::Mul, &[Arg::Input(0), Arg::Input(1)]),
        step(Map::Tanh, &[Arg::Step(0)]),
        step(Map::Less, &[Arg::Step(1), Arg::Input(0)]),
        step(Map::Where, &[Arg::Step(2), Arg::Step(0), Arg::Step(1)]),
    ];
    let group = Group { steps, outputs: vec![3, 1], reduce: None };
    let product = run(Op::Map(Map::Mul), &[x.clone(), y.clone()], ElementType::F32, &[3, 37]);
    let tanh = run(Op::Map(Map::Tanh), std::slice::from_ref(&product), ElementType::F32, &[3, 37]);
    let less = run(Op::Map(Map::Less), &[tanh.clone(), x.clone()], ElementType::Bool, &[3, 37]);
    let expected = [less, product, tanh.clone()];
    let expected = run(Op::Map(Map::Where), &expected, ElementType::F32, &[3, 37]);
    let inputs = [Some(x), Some(y)];
    let outputs = vec![(ElementType::F32, vec![3, 37]); 2];
    let found = evaluate(&Op::Fused(group.clone()), &inputs, &outputs).unwrap();
    assert_eq!(found[0].to_f64s(), expected.to_f64s());
    assert_eq!(found[1].to_f64s(), tanh.to_f64s());

    for axes in [vec![0], vec![1], vec![0, 1]] {
        let dims: Vec<usize> = [3, 37]
            .into_iter()
            .enumerate()
            .filter(|(axis, _)| !axes.contains(&(*axis as u32)))
            .map(|(_, dim)| dim)
            .collect();
        let reduce = Some((Reduction::Sum, axes.clone()));
        let group = Group { outputs: vec![3], reduce, ..group.clone() };
        let found = evaluate(&Op::Fused(group), &inputs, &[(ElementType::F32, dims.clone())]);
        let op = Op::Reduce { kind: Reduction::Sum, axes };
        let sums = run(op, std::slice::from_ref(&expected), ElementType::F32, &dims).to_f64s();
        for (a, b) in found.unwrap()[0].to_f64s().into_iter().zip(sums) {
            assert!((a - b).abs() < 1e-4, "{a} and {b}");
        }
    }
}

/// One specification serves all dimensions, and says which of two kernels it is.
/// Mutants: attributes left out of the encoding; an address in it.
#[test]
fn keys_are_of_kinds_not_of_sizes() {
    let spec = |op: &Op, dims: &[usize]| {
        let view = Some(View::contiguous(ElementType::F32, dims));
        bind(op, std::slice::from_ref(&view), std::slice::from_ref(&view)).spec
    };
    let elu = |alpha: f32| Op::Map(Map::Elu { alpha: alpha.into() });
    let key = spec(&elu(1.0), &[2, 3]).key();
    assert_eq!(key, spec(&elu(1.0), &[5, 1]).key());
    assert_eq!(key, spec(&elu(1.0), &[0, 7]).key());
    assert_ne!(key, spec(&elu(0.5), &[2, 3]).key());
    assert_ne!(key, spec(&elu(1.0), &[6]).key());
    assert_ne!(key, spec(&Op::Map(Map::Relu), &[2, 3]).key());
}

/// Every element-wise function, of arguments of every type that it has.
fn functions() -> Vec<(Map, Vec<ElementType>)> {
    let (alpha, beta) = (Float::from(0.3), Float::from(0.6));
    let floats = [
        Map::Reciprocal,
        Map::Sqrt,
        Map::Exp,
        Map::Log,
        Map::Floor,
        Map::Ceil,
        Map::Round,
        Map::Sin,
        Map::Cos,
        Map::Tan,
        Map::Asin,
        Map::Acos,
        Map::Atan,
        Map::Sinh,
        Map::Cosh,
        Map::Tanh,
        Map::Asinh,
        Map::Acosh,
        Map::Atanh,
        Map::Erf,
        Map::Sigmoid,
        Map::LeakyRelu { alpha },
        Map::Elu { alpha },
        Map::Celu { alpha },
        Map::Selu { alpha, gamma: beta },
        Map::HardSigmoid { alpha, beta },
        Map::HardSwish,
        Map::Softplus,
        Map::Softsign,
        Map::Mish,
        Map::Swish { alpha },
        Map::ThresholdedRelu { alpha },
        Map::Gelu { tanh: false },
        Map::Gelu { tanh: true },
        Map::IsNan,
        Map::IsInf { positive: true, negative: true },
        Map::IsInf { positive: true, negative: false },
        Map::IsInf { positive: false, negative: true },
        Map::IsInf { positive: false, negative: false },
    ];
    let shrink = Map::Shrink { bias: alpha, lambd: beta };
    let any = [Map::Abs, Map::Neg, Map::Sign, Map::Relu, Map::Identity, shrink];
    let pairs = [
        Map::Add,
        Map::Sub,
        Map::Mul,
        Map::Div,
        Map::Mod { fmod: false },
        Map::Mod { fmod: true },
        Map::Pow,
        Map::Equal,
        Map::Less,
        Map::LessOrEqual,
        Map::Greater,
        Map::GreaterOrEqual,
        Map::PRelu,
        Map::Min,
        Map::Max,
        Map::Sum,
        Map::Mean,
        Map::Clip { min: true, max: false },
        Map::Clip { min: false, max: true },
    ];
    let bits = [Map::BitwiseAnd, Map::BitwiseOr, Map::BitwiseXor];
    let shifts = [Map::BitShift { left: true }, Map::BitShift { left: false }];
    let mut all = Vec::new();
    for element in ElementType::ALL {
        let bool = ElementType::Bool;
        all.push((Map::Where, vec![bool, element, element]));
        all.extend(ElementType::ALL.map(|to| (Map::Cast { to }, vec![element])));
        if element == bool {
            all.push((Map::Not, vec![bool]));
            all.extend([Map::And, Map::Or, Map::Xor, Map::Equal].map(|f| (f, vec![bool; 2])));
            continue;
        }
        if element.is_float() {
            all.extend(floats.map(|function| (function, vec![element])));
        } else {
            all.push((Map::BitwiseNot, vec![element]));
            all.extend(bits.into_iter().chain(shifts).map(|function| (function, vec![element; 2])));
        }
        all.extend(any.map(|function| (function, vec![element])));
        all.extend(pairs.map(|function| (function, vec![element; 2])));
        all.push((Map::Clip { min: true, max: true }, vec![element; 3]));
    }
    all
}

/// What vectors compute is what scalars do: elements that lie together, and the same apart.
/// Mutants: masks whose bytes are -1; a bool in memory taken for a mask; a vector comparison that is signed.
#[test]
fn vectors_compute_what_scalars_do() {
    for (function, types) in functions() {
        let count = 37;
        let mut together = Vec::new();
        let mut apart = Vec::new();
        for (seed, &element) in types.iter().enumerate() {
            let scaled = numbers(&[count], seed as u32);
            let scaled =
                run(Op::Map(Map::Mul), &[scaled, row(&[40.0_f32])], ElementType::F32, &[count]);
            let x = run(Op::Map(Map::Cast { to: element }), &[scaled], element, &[count]);
            let size = element.size();
            let bytes = x.as_bytes().unwrap();
            let twice: Vec<u8> = bytes.chunks(size).flat_map(|x| [x, x].concat()).collect();
            let twice = Tensor::from_bytes(element, &[count, 2], &twice).unwrap();
            let column = twice.region().slice(1, 0, 1, 1).remove_axes(&[1]);
            apart.push(twice.with_region(element, column));
            together.push(x);
        }
        let element = function.result(&types);
        let vectors = run(Op::Map(function), &together, element, &[count]);
        let scalars = run(Op::Map(function), &apart, element, &[count]);
        for (a, b) in vectors.to_f64s().into_iter().zip(scalars.to_f64s()) {
            assert!(a == b || a.is_nan() && b.is_nan(), "{function:?} of {types:?}: {a} and {b}");
        }
    }
}

/// Operators of every kind, no two alike.
fn kinds() -> Vec<Op> {
    let (one, two) = (Float::from(1.0), Float::from(2.0));
    let mut all: Vec<Op> = Vec::new();
    all.extend(functions().into_iter().map(|(function, _)| Op::Map(function)));
    all.sort_by_key(|op| format!("{op:?}"));
    all.dedup();
    for kind in [Reduction::Sum, Reduction::L1] {
        all.extend([vec![], vec![0], vec![1]].map(|axes| Op::Reduce { kind, axes }));
    }
    for axis in [0, 1] {
        all.push(Op::ArgExtreme { max: true, last: axis == 0, axis: 0 });
        all.push(Op::ArgExtreme { max: false, last: false, axis });
        for (product, exclusive, reverse) in
            [(true, false, false), (false, true, false), (false, false, true)]
        {
            all.push(Op::Cumulate { product, exclusive, reverse, axis });
        }
        all.extend([true, false].map(|largest| Op::TopK { largest, axis }));
        all.extend([Op::Softmax { axis }, Op::LogSoftmax { axis }, Op::Hardmax { axis }]);
        all.extend([1, 2].map(|p| Op::LpNormalize { p, axis }));
        for epsilon in [one, two] {
            all.push(Op::LayerNormalize { axis, epsilon });
            all.push(Op::RmsNormalize { axis, epsilon });
            all.push(Op::BatchNormalize { epsilon, momentum: one, training: axis == 0 });
        }
        all.extend([Op::Concat { axis }, Op::Gather { axis }, Op::GatherElements { axis }]);
        all.extend([Op::GatherNd { batch_dims: axis }, Op::Compress { axis }, Op::OneHot { axis }]);
        for reduction in [ScatterReduction::None, ScatterReduction::Add] {
            all.push(Op::ScatterElements { axis, reduction });
        }
        all.push(Op::EyeLike { k: i64::from(axis) });
        all.push(Op::Trilu { upper: axis == 0 });
        all.push(Op::ReverseSequence { time_axis: axis, batch_axis: 1 - axis });
    }
    all.push(Op::BatchNormalize { epsilon: one, momentum: two, training: true });
    for (alpha, beta, trans_a, trans_b) in [
        (one, one, false, false),
        (two, one, false, false),
        (one, two, false, false),
        (one, one, true, false),
        (one, one, false, true),
    ] {
        all.push(Op::Gemm { alpha, beta, trans_a, trans_b });
    }
    for (inputs, output) in [("ab", "ba"), ("ab", "ab"), ("aa", "a"), ("ab", "a")] {
        let inputs = vec![inputs.as_bytes().to_vec()];
        all.push(Op::Einsum { inputs, output: output.as_bytes().to_vec() });
    }
    all.extend([PadMode::Constant, PadMode::Edge].map(|mode| Op::Pad { mode }));
    all.extend([Op::Copy, Op::MatMul, Op::Tile, Op::Range]);
    let step = |map, args: &[Arg]| Step { map, args: args.to_vec() };
    let steps = |last: Arg| {
        vec![
            step(Map::Exp, &[Arg::Input(0)]),
            step(Map::Neg, &[Arg::Step(0)]),
            step(Map::Add, &[Arg::Step(1), last]),
        ]
    };
    for (last, outputs, reduce) in [
        (Arg::Step(0), vec![2], None),
        (Arg::Step(1), vec![2], None),
        (Arg::Input(0), vec![2], None),
        (Arg::Step(0), vec![1, 2], None),
        (Arg::Step(0), vec![2], Some((Reduction::Sum, vec![0]))),
        (Arg::Step(0), vec![2], Some((Reduction::Sum, vec![1]))),
    ] {
        all.push(Op::Fused(Group { steps: steps(last), outputs, reduce }));
    }
    all
}

/// Mutants: the attributes left out of the encoding; the layout left out.
#[test]
fn whatever_differs_has_a_key_of_its_own() {
    let operand =
        |element: ElementType, rank: u32, layout: Layout| Operand { element, rank, layout };
    let plain = operand(ElementType::F32, 2, Layout::Contiguous);
    let of = |op: &Op, inputs: Vec<Option<Operand>>, outputs: Vec<Option<Operand>>| NodeSpec {
        op: op.clone(),
        inputs,
        outputs,
    };
    let mut specs: Vec<NodeSpec> =
        kinds().iter().map(|op| of(op, vec![Some(plain)], vec![Some(plain)])).collect();
    let layouts =
        [Layout::Contiguous, Layout::Single, Layout::Rows, Layout::Repeated, Layout::Strided];
    for element in ElementType::ALL {
        for rank in [0, 1, 11] {
            for layout in layouts {
                let other = Some(operand(element, rank, layout));
                specs.push(of(&Op::Copy, vec![other, None], vec![Some(plain)]));
                specs.push(of(&Op::Copy, vec![None], vec![Some(plain), other]));
            }
        }
    }
    specs.push(of(&Op::Copy, vec![None, Some(plain)], vec![Some(plain)]));
    specs.push(of(&Op::Copy, vec![Some(plain), Some(plain)], vec![Some(plain)]));
    specs.push(of(&Op::Copy, vec![Some(plain)], vec![Some(plain), Some(plain)]));
    let mut keys: Vec<_> = specs.iter().map(|spec| *spec.key().as_bytes()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), specs.len());
}

/// A shape, a view of an array of that shape with its axes in another order, and a broadcast partner.
fn shapes() -> impl Strategy<Value = (Vec<usize>, Vec<usize>, Vec<bool>)> {
    prop::collection::vec(prop_oneof![4 => 1_usize..24, 1 => Just(0_usize)], 0..4).prop_flat_map(
        |dims| {
            let order: Vec<usize> = (0..dims.len()).collect();
            let ones = prop::collection::vec(any::<bool>(), dims.len());
            (Just(dims), Just(order).prop_shuffle(), ones)
        },
    )
}

/// The index of an element, as `count` in row-major order.
fn index(dims: &[usize], mut count: usize) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (axis, &dim) in dims.iter().enumerate().rev() {
        index[axis] = count % dim;
        count /= dim;
    }
    index
}

/// A tensor's elements, to be looked at one by one.
struct Elements {
    dims: Vec<usize>,
    values: Vec<f64>,
}

impl Elements {
    fn of(tensor: &Tensor) -> Self {
        Elements { dims: tensor.dims().to_vec(), values: tensor.to_f64s() }
    }

    fn at(&self, index: &[usize]) -> f64 {
        let place = index.iter().zip(&self.dims).fold(0, |place, (&i, &dim)| place * dim + i);
        self.values[place]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Sums of transposed and broadcast operands. Mutants: the tail after whole vectors left out; every row
    /// taken for one without gaps.
    #[test]
    fn strides_and_broadcasts_reach_every_element((dims, order, ones) in shapes()) {
        let turned: Vec<usize> = order.iter().map(|&axis| dims[axis]).collect();
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
        let x = numbers(&turned, 3).permute(&back);
        let small: Vec<usize> = dims.iter().zip(&ones).map(|(&d, &one)| if one { 1 } else { d }).collect();
        let y = numbers(&small, 4);
        let sum = run(Op::Map(Map::Add), &[x.clone(), y.clone()], ElementType::F32, &dims);
        let (x, y) = (Elements::of(&x), Elements::of(&y));
        for (count, result) in sum.to_f64s().into_iter().enumerate() {
            let index = index(&dims, count);
            let there: Vec<usize> = index.iter().zip(&small).map(|(&i, &dim)| i.min(dim - 1)).collect();
            let expected = (x.at(&index) as f32 + y.at(&there) as f32) as f64;
            prop_assert_eq!(result, expected);
        }
    }

    /// Sums and greatest elements over any axes of transposed operands. Mutants: the columns' tail left out; a reduced axis
    /// taken for a kept one.
    #[test]
    fn reductions_fold_every_element((dims, order, ones) in shapes()) {
        let turned: Vec<usize> = order.iter().map(|&axis| dims[axis]).collect();
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
        let x = numbers(&turned, 5).permute(&back);
        let axes: Vec<u32> = (0..dims.len()).filter(|&axis| ones[axis]).map(|axis| axis as u32).collect();
        let kept: Vec<usize> = (0..dims.len()).filter(|&axis| !ones[axis]).collect();
        let rest: Vec<usize> = kept.iter().map(|&axis| dims[axis]).collect();
        let size: usize = rest.iter().product();
        let (mut sums, mut most) = (vec![0.0; size], vec![f64::NEG_INFINITY; size]);
        for (count, value) in x.to_f64s().into_iter().enumerate() {
            let index = index(&dims, count);
            let place = kept.iter().fold(0, |place, &axis| place * dims[axis] + index[axis]);
            sums[place] += value;
            most[place] = most[place].max(value);
        }
        let reduce = |kind| {
            let op = Op::Reduce { kind, axes: axes.clone() };
            run(op, std::slice::from_ref(&x), ElementType::F32, &rest).to_f64s()
        };
        prop_assert_eq!(reduce(Reduction::Max), most);
        for (found, sum) in reduce(Reduction::Sum).into_iter().zip(sums) {
            prop_assert!((found - sum).abs() <= 1e-5 * (1.0 + x.len() as f64), "{} and {}", found, sum);
        }
    }

    /// Products of transposed matrices. Mutants: rows for columns; a batch axis that is not broadcast.
    #[test]
    fn products_are_sums_of_products(
        (m, k, n, batch) in (0_usize..6, 0_usize..6, 0_usize..6, 1_usize..3),
        turned in any::<bool>(),
    ) {
        let a = if turned { numbers(&[k, m], 6).permute(&[1, 0]) } else { numbers(&[m, k], 6) };
        let b = numbers(&[batch, k, n], 7);
        let dims = [batch, m, n];
        let product = run(Op::MatMul, &[a.clone(), b.clone()], ElementType::F32, &dims);
        let einsum = Op::Einsum { inputs: vec![b"mk".to_vec(), b"bkn".to_vec()], output: b"bmn".to_vec() };
        let other = run(einsum, &[a.clone(), b.clone()], ElementType::F32, &dims);
        let [a, b, other] = [&a, &b, &other].map(Elements::of);
        for (count, result) in product.to_f64s().into_iter().enumerate() {
            let index = index(&dims, count);
            let sum: f64 = (0..k).map(|j| a.at(&[index[1], j]) * b.at(&[index[0], j, index[2]])).sum();
            prop_assert!((result - sum).abs() < 1e-3);
            prop_assert!((other.at(&index) - sum).abs() < 1e-3);
        }
    }

    /// Elements gathered and scattered along any axis. Mutant: the first axis for every axis.
    #[test]
    fn what_is_scattered_can_be_gathered(rows in 1_usize..5, columns in 1_usize..20, axis in 0_u32..2) {
        let check = || -> Result<(), TestCaseError> {
            let dims = [rows, columns];
            let x = numbers(&dims, 8);
            // Backwards along the axis.
            let places: Vec<i64> = (0..rows * columns).map(|count| {
                let index = index(&dims, count);
                -1 - index[axis as usize] as i64
            }).collect();
            let places = Tensor::from_slice(&dims, &places);
            let zeros = Tensor::zeros(ElementType::F32, &dims).unwrap();
            let op = Op::ScatterElements { axis, reduction: ScatterReduction::None };
            let scattered = run(op, &[zeros, places.clone(), x.clone()], ElementType::F32, &dims);
            let gathered = run(Op::GatherElements { axis }, &[scattered, places], ElementType::F32, &dims);
            prop_assert_eq!(gathered.to_f64s(), x.to_f64s());
            Ok(())
        };
        check()?;
    }
}
