//! Typed forms built by hand, compiled, run and compared with what Numba does.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cranelift_codegen::ir::UserExternalName;
use proptest::prelude::*;

use super::{Lowered, Reference, lower};
use crate::code::{Engine, Loaded, Program, Target};
use crate::config::Config;
use crate::kernel::abi::{ArrayData, Callable, Data, KernelError};
use crate::kernel::ir::*;
use crate::kernel::runtime::{self, Host, memory};
use crate::store::Store;

/// Kernels that are loaded, and what their constants lie in.
struct Kernels {
    _loaded: Loaded,
    _constants: Vec<Box<[u64]>>,
    all: Vec<(String, Callable)>,
}

/// Compiles kernels that call each other by name.
fn load(kernels: &[Function]) -> Kernels {
    let target = Target::host_with(&[("enable_verifier", "true")]).unwrap();
    let engine = Engine::new(Store::open(Config::default()), target);
    let mut program = Program::new();
    let mut constants: Vec<Box<[u64]>> = Vec::new();
    for (unit, kernel) in kernels.iter().enumerate() {
        let Lowered { functions, references } = lower(kernel, engine.target().isa()).unwrap();
        for (number, reference) in references.iter().enumerate() {
            let user = UserExternalName { namespace: unit as u32, index: number as u32 };
            let meaning = match reference {
                Reference::Unit(name) => format!("{name}.0"),
                Reference::Own(index) => format!("{}.{index}", kernel.name),
                Reference::Runtime(name) => {
                    let address = runtime::address(name).unwrap_or_else(|| panic!("no {name}"));
                    let _ = program.symbol(name, address);
                    name.clone()
                }
                Reference::Bytes(bytes) => {
                    let name = format!("bytes {unit} {number}");
                    program.symbol(&name, keep(&mut constants, bytes)).unwrap();
                    name
                }
                Reference::Array(name) => {
                    let constant = kernel.constants.iter().find(|it| it.name == *name).unwrap();
                    program.symbol(name, keep(&mut constants, &constant.bytes)).unwrap();
                    name.clone()
                }
            };
            program.declare(user, &meaning).unwrap();
        }
        for (index, mut clif) in functions.into_iter().enumerate() {
            let table: Vec<_> = clif
                .params
                .user_named_funcs()
                .iter()
                .map(|(at, name)| (at, name.clone()))
                .collect();
            for (at, name) in table {
                let name = UserExternalName { namespace: unit as u32, ..name };
                clif.params.reset_user_func_name(at, name);
            }
            program.define(&format!("{}.{index}", kernel.name), clif).unwrap();
        }
    }
    let loaded = engine.load(program).unwrap_or_else(|error| panic!("{error}"));
    let all = kernels.iter().map(|kernel| {
        let entry = loaded.function(&format!("{}.1", kernel.name)).unwrap().clone();
        let signature = FunctionType {
            params: kernel
                .params
                .iter()
                .map(|param| kernel.locals[param.0 as usize].ty.clone())
                .collect(),
            result: kernel.result.clone(),
        };
        // SAFETY: lowered from a kernel of this signature, and linked as its references say.
        (kernel.name.clone(), unsafe { Callable::new(entry, signature) })
    });
    let all = all.collect();
    Kernels { _loaded: loaded, _constants: constants, all }
}

fn keep(constants: &mut Vec<Box<[u64]>>, bytes: &[u8]) -> *const u8 {
    let mut words = vec![0u64; bytes.len().div_ceil(8) + 1];
    for (at, byte) in bytes.iter().enumerate() {
        words[at / 8] |= u64::from(*byte) << (at % 8 * 8);
    }
    constants.push(words.into_boxed_slice());
    constants.last().unwrap().as_ptr().cast()
}

/// A host that remembers what was printed.
#[derive(Default)]
struct Printed(Mutex<Vec<String>>);

impl Host for Printed {
    fn print(&self, values: &[Data]) -> Result<(), KernelError> {
        let line = values.iter().map(spell).collect::<Vec<_>>().join(" ");
        self.0.lock().unwrap().push(line);
        Ok(())
    }
}

fn spell(value: &Data) -> String {
    match value {
        Data::None => "None".into(),
        Data::Bool(value) => value.to_string(),
        Data::Int(value) => value.to_string(),
        Data::UInt(value) => value.to_string(),
        Data::Float(value) => format!("{value:?}"),
        Data::Complex(re, im) => format!("{re:?}+{im:?}j"),
        Data::Str(text) => text.to_string(),
        Data::Tuple(items) => {
            format!("({})", items.iter().map(spell).collect::<Vec<_>>().join(", "))
        }
        Data::Array(array) | Data::Record(array) => {
            let bytes = array.to_bytes();
            let Element::Scalar(scalar) = array.element() else { return "record".into() };
            let items: Vec<String> = match scalar {
                Scalar::F64 => {
                    words(&bytes).map(|word| format!("{:?}", f64::from_bits(word))).collect()
                }
                Scalar::I64 => words(&bytes).map(|word| (word as i64).to_string()).collect(),
                Scalar::F32 => bytes
                    .chunks(4)
                    .map(|four| format!("{:?}", f32::from_le_bytes(four.try_into().unwrap())))
                    .collect(),
                _ => {
                    bytes.chunks(scalar.size() as usize).map(|bytes| bytes[0].to_string()).collect()
                }
            };
            format!("{:?}[{}]", array.shape(), items.join(" "))
        }
        Data::Struct(_) => "struct".into(),
        Data::Function(_) => "function".into(),
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks(8).map(|eight| u64::from_le_bytes(eight.try_into().unwrap()))
}

/// Tests that count live blocks run one at a time; so do all others, whose blocks they would count.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kernels {
    fn try_call(&self, name: &str, args: &[Data]) -> Result<Data, KernelError> {
        let (_, kernel) = self.all.iter().find(|(known, _)| known == name).unwrap();
        kernel.call(args, &Printed::default())
    }

    /// The result as text, or the error's class and text.
    fn call(&self, name: &str, args: &[Data]) -> String {
        match self.try_call(name, args) {
            Ok(value) => spell(&value),
            Err(error) => format!(
                "{}: {}",
                error.class,
                error.args.iter().map(spell).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

// Building.

fn function(name: &str, params: &[(&str, Type)], result: Type) -> (Function, Vec<LocalId>) {
    let mut function = Function {
        name: name.into(),
        params: Vec::new(),
        locals: Vec::new(),
        result,
        body: Vec::new(),
        callees: Vec::new(),
        constants: Vec::new(),
        fastmath: false,
    };
    let params: Vec<LocalId> =
        params.iter().map(|(name, ty)| function.local(name, ty.clone())).collect();
    function.params = params.clone();
    (function, params)
}

fn ret(value: Expr) -> Stmt {
    StmtKind::Return(Some(value)).into()
}

fn set(local: LocalId, value: Expr) -> Stmt {
    StmtKind::Assign(local, value).into()
}

fn bin(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::binary(op, a, b)
}

fn add(a: Expr, b: Expr) -> Expr {
    bin(BinaryOp::Add, a, b)
}

fn mul(a: Expr, b: Expr) -> Expr {
    bin(BinaryOp::Mul, a, b)
}

fn range(label: u32, local: LocalId, start: Expr, stop: Expr, step: Expr, body: Vec<Stmt>) -> Stmt {
    StmtKind::For(Box::new(For { label: Label(label), local, start, stop, step, body })).into()
}

fn at(array: &Expr, indices: Vec<Expr>) -> Element1 {
    Element1 { array: array.clone(), indices, access: Access::Checked }
}

fn get(array: &Expr, indices: Vec<Expr>) -> Expr {
    let ty = array.ty.as_array().unwrap().element.value_type();
    Expr::new(ExprKind::Element(Box::new(at(array, indices))), ty)
}

fn put(array: &Expr, indices: Vec<Expr>, value: Expr) -> Stmt {
    StmtKind::SetElement(at(array, indices), value).into()
}

fn length(array: &Expr, axis: u32) -> Expr {
    Expr::new(ExprKind::Length(Box::new(array.clone()), axis), Type::I64)
}

fn zeros(shape: Vec<Expr>, scalar: Scalar) -> Expr {
    let ty = Type::array(scalar, shape.len() as u32, Layout::C);
    Expr::new(ExprKind::NewArray(shape, Fill::Zero), ty)
}

/// A map over these inputs, whose value `make` says of their elements.
fn map(
    function: &mut Function,
    inputs: Vec<Expr>,
    make: impl FnOnce(&[Expr]) -> Expr,
) -> Elementwise {
    let mut params = Vec::new();
    let mut elements = Vec::new();
    for input in &inputs {
        let ty = match &input.ty {
            Type::Array(array) => array.element.value_type(),
            other => other.clone(),
        };
        let param = function.local("element", ty);
        params.push(param);
        elements.push(function.get(param));
    }
    Elementwise { inputs, params, value: Box::new(make(&elements)) }
}

fn map_expr(tree: Elementwise) -> Expr {
    let ndim = tree.inputs.iter().filter_map(|input| input.ty.as_array()).map(|it| it.ndim).max();
    let ty = Type::array(tree.value.ty.scalar().unwrap(), ndim.unwrap(), Layout::C);
    Expr::new(ExprKind::Map(tree), ty)
}

fn fold(op: FoldOp, tree: Elementwise, empty: Option<Raise>) -> Expr {
    let ty = tree.value.ty.clone();
    Expr::new(ExprKind::Fold(Box::new(Fold { op, value: tree, empty })), ty)
}

fn floats(values: &[f64]) -> Data {
    floats_in(&[values.len() as u64], values)
}

fn floats_in(shape: &[u64], values: &[f64]) -> Data {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Data::Array(ArrayData::copied(Element::Scalar(Scalar::F64), shape.to_vec(), &bytes).unwrap())
}

fn ints(values: &[i64]) -> Data {
    ints_in(&[values.len() as u64], values)
}

fn ints_in(shape: &[u64], values: &[i64]) -> Data {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Data::Array(ArrayData::copied(Element::Scalar(Scalar::I64), shape.to_vec(), &bytes).unwrap())
}

fn f64s(ndim: u32) -> Type {
    Type::array(Scalar::F64, ndim, Layout::C)
}

fn i64s(ndim: u32) -> Type {
    Type::array(Scalar::I64, ndim, Layout::C)
}

// Scalars.

/// A kernel per operation on two integers of 64 bits.
fn int_ops() -> Vec<Function> {
    use BinaryOp as B;
    let ops = [
        ("add", B::Add),
        ("sub", B::Sub),
        ("mul", B::Mul),
        ("floordiv", B::FloorDiv(OnZero::Raise)),
        ("mod", B::Mod(OnZero::Raise)),
        ("div0", B::FloorDiv(OnZero::Value)),
        ("mod0", B::Mod(OnZero::Value)),
        ("fmod", B::Fmod(OnZero::Ufunc)),
        ("pow", B::Pow(OnZero::Raise)),
        ("shl", B::Shl),
        ("shr", B::Shr),
        ("and", B::And),
        ("or", B::Or),
        ("xor", B::Xor),
        ("lt", B::Lt),
        ("ge", B::Ge),
        ("min", B::Min),
        ("maximum", B::Maximum),
    ];
    let mut all = Vec::new();
    for (name, op) in ops {
        let result = if op.is_comparison() { Type::BOOL } else { Type::I64 };
        let (mut f, p) = function(name, &[("a", Type::I64), ("b", Type::I64)], result);
        f.body = vec![ret(bin(op, f.get(p[0]), f.get(p[1])))];
        all.push(f);
    }
    for divisor in [1, 2, 3, 7, 10, 16, 1 << 40, -1, -2, -7, i64::MAX, i64::MIN] {
        let pair = Type::Tuple(vec![Type::I64, Type::I64]);
        let (mut f, p) = function(&format!("divmod {divisor}"), &[("a", Type::I64)], pair.clone());
        let (a, b) = (Box::new(f.get(p[0])), Box::new(Expr::int(divisor)));
        f.body = vec![ret(Expr::new(ExprKind::DivMod(OnZero::Raise, a, b), pair))];
        all.push(f);
    }
    all
}

fn floor_div(a: i64, b: i64) -> (i64, i64) {
    if a == i64::MIN && b == -1 {
        return (0, 0);
    }
    let (mut quotient, mut rest) = (a / b, a % b);
    if rest != 0 && (rest < 0) != (b < 0) {
        quotient -= 1;
        rest += b;
    }
    (quotient, rest)
}

fn power(base: i64, exponent: i64) -> String {
    if exponent < 0 && base == 0 {
        return "ZeroDivisionError: 0 cannot be raised to a negative power".into();
    }
    let result = match (base, exponent) {
        (1, _) => 1,
        (-1, _) => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => 0,
        _ => (0..exponent).fold(1i64, |power, _| power.wrapping_mul(base)),
    };
    result.to_string()
}

fn edges() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(-1),
        Just(i64::MIN),
        Just(i64::MAX),
        Just(i64::MIN + 1),
        -40i64..40,
        any::<i64>(),
    ]
}

/// Integers wrap, divide rounding down, and never trap. Mutants: the adjustment of quotient or remainder left out; the
/// check for the smallest by -1; a divisor's sign taken for the dividend's; the shift for powers of two made logical.
#[test]
fn integers_are_numbas() {
    let _alone = alone();
    let kernels = load(&int_ops());
    let runner = |(a, b): (i64, i64)| {
        let args = [Data::Int(a), Data::Int(b)];
        let zero = |what| format!("ZeroDivisionError: integer {what} by zero");
        let (quotient, rest) = if b == 0 { (0, 0) } else { floor_div(a, b) };
        let checked = |value: i64, what| if b == 0 { zero(what) } else { value.to_string() };
        let small = b % 70;
        prop_assert_eq!(kernels.call("add", &args), a.wrapping_add(b).to_string());
        prop_assert_eq!(kernels.call("sub", &args), a.wrapping_sub(b).to_string());
        prop_assert_eq!(kernels.call("mul", &args), a.wrapping_mul(b).to_string());
        prop_assert_eq!(kernels.call("floordiv", &args), checked(quotient, "division"));
        prop_assert_eq!(kernels.call("mod", &args), checked(rest, "modulo"));
        prop_assert_eq!(kernels.call("div0", &args), quotient.to_string());
        prop_assert_eq!(kernels.call("mod0", &args), rest.to_string());
        let rest = if b == 0 { 0 } else { a.wrapping_rem(b) };
        prop_assert_eq!(kernels.call("fmod", &args), rest.to_string());
        prop_assert_eq!(kernels.call("pow", &[Data::Int(a), Data::Int(small)]), power(a, small));
        prop_assert_eq!(kernels.call("shl", &args), a.wrapping_shl(b as u32).to_string());
        prop_assert_eq!(kernels.call("shr", &args), a.wrapping_shr(b as u32).to_string());
        prop_assert_eq!(kernels.call("and", &args), (a & b).to_string());
        prop_assert_eq!(kernels.call("or", &args), (a | b).to_string());
        prop_assert_eq!(kernels.call("xor", &args), (a ^ b).to_string());
        prop_assert_eq!(kernels.call("lt", &args), (a < b).to_string());
        prop_assert_eq!(kernels.call("ge", &args), (a >= b).to_string());
        prop_assert_eq!(kernels.call("min", &args), a.min(b).to_string());
        prop_assert_eq!(kernels.call("maximum", &args), a.max(b).to_string());
        for divisor in [1, 2, 3, 7, 10, 16, 1 << 40, -1, -2, -7, i64::MAX, i64::MIN] {
            let (quotient, rest) = floor_div(a, divisor);
            let name = format!("divmod {divisor}");
            prop_assert_eq!(kernels.call(&name, &args[..1]), format!("({quotient}, {rest})"));
        }
        Ok(())
    };
    let mut tests = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(300));
    tests.run(&(edges(), edges()), runner).unwrap();
}

/// Of narrow and unsigned types too. Mutants: sign extension for zero extension; 64-bit division of narrow ints.
#[test]
fn narrow_integers_are_numbas() {
    let _alone = alone();
    let mut all = Vec::new();
    let types = [Scalar::I8, Scalar::U8, Scalar::I16, Scalar::I32, Scalar::U32, Scalar::U64];
    for scalar in types {
        let ty = Type::Scalar(scalar);
        let pair = Type::Tuple(vec![ty.clone(), ty.clone()]);
        let quad = Type::Tuple(vec![ty.clone(), ty.clone(), pair.clone(), Type::F64]);
        let (mut f, p) =
            function(&format!("{scalar:?}"), &[("a", Type::I64), ("b", Type::I64)], quad.clone());
        let (a, b) = (f.get(p[0]).cast(ty.clone()), f.get(p[1]).cast(ty.clone()));
        let divided = ExprKind::DivMod(OnZero::Value, Box::new(a.clone()), Box::new(b.clone()));
        let items = vec![
            mul(a.clone(), b.clone()),
            Expr::unary(UnaryOp::Neg, a.clone()),
            Expr::new(divided, pair),
            a.clone().cast(Type::F64),
        ];
        f.body = vec![ret(Expr::new(ExprKind::Tuple(items), quad))];
        all.push(f);
    }
    let kernels = load(&all);
    macro_rules! expected {
        ($ty:ty, $a:expr, $b:expr) => {{
            let (a, b) = ($a as $ty, $b as $ty);
            let is_signed = <$ty>::MIN != 0;
            let (quotient, rest) =
                if b == 0 || is_signed && a == <$ty>::MIN && b == (0 as $ty).wrapping_sub(1) {
                    (0, 0)
                } else {
                    let (mut quotient, mut rest) = (a / b, a % b);
                    #[allow(unused_comparisons)]
                    if rest != 0 && (rest < 0) != (b < 0) {
                        quotient = quotient.wrapping_sub(1);
                        rest = rest.wrapping_add(b);
                    }
                    (quotient, rest)
                };
            format!(
                "({}, {}, ({quotient}, {rest}), {:?})",
                a.wrapping_mul(b),
                a.wrapping_neg(),
                a as f64
            )
        }};
    }
    let runner = |(a, b): (i64, i64)| {
        let args = [Data::Int(a), Data::Int(b)];
        prop_assert_eq!(kernels.call("I8", &args), expected!(i8, a, b));
        prop_assert_eq!(kernels.call("U8", &args), expected!(u8, a, b));
        prop_assert_eq!(kernels.call("I16", &args), expected!(i16, a, b));
        prop_assert_eq!(kernels.call("I32", &args), expected!(i32, a, b));
        prop_assert_eq!(kernels.call("U32", &args), expected!(u32, a, b));
        prop_assert_eq!(kernels.call("U64", &args), expected!(u64, a, b));
        Ok(())
    };
    let mut tests = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(300));
    tests.run(&(edges(), edges()), runner).unwrap();
}

/// Floats out of range, and what is no number, as Numba on this kind of processor. The expected values are Numba's.
/// Mutants: saturating conversions as they are; 64 bits for the narrow types.
#[test]
fn floats_become_integers_as_in_numba() {
    let _alone = alone();
    let types = [Scalar::U64, Scalar::I64, Scalar::I8, Scalar::U8, Scalar::I32, Scalar::U32];
    let kernels: Vec<_> = types
        .iter()
        .map(|scalar| {
            let (mut f, p) =
                function(&format!("{scalar:?}"), &[("x", Type::F64)], Type::Scalar(*scalar));
            f.body = vec![ret(f.get(p[0]).cast(Type::Scalar(*scalar)))];
            f
        })
        .collect();
    let kernels = load(&kernels);
    let (min, max) = ("-9223372036854775808", "18446744073709551615");
    let expected = [
        (-1.0, [max, "-1", "-1", "255", "-1", "4294967295"]),
        (-2.5, [max, "-2", "-2", "254", "-2", "4294967295"]),
        (1e19, ["10000000000000000000", min, "0", "0", "-2147483648", "4294967295"]),
        (2e19, [max, min, "0", "0", "-2147483648", "4294967295"]),
        (f64::NAN, [max, min, "0", "0", "-2147483648", "4294967295"]),
        (f64::INFINITY, [max, min, "0", "0", "-2147483648", "4294967295"]),
        (-1e30, [max, min, "0", "0", "-2147483648", "4294967295"]),
        (3e9, ["3000000000", "3000000000", "0", "0", "-2147483648", "3000000000"]),
        (-3e9, [max, "-3000000000", "0", "0", "-2147483648", "4294967295"]),
        (300.7, ["300", "300", "44", "44", "300", "300"]),
        (-300.7, [max, "-300", "-44", "212", "-300", "4294967295"]),
    ];
    for (value, wanted) in expected {
        for (scalar, wanted) in types.iter().zip(wanted) {
            let got = kernels.call(&format!("{scalar:?}"), &[Data::Float(value)]);
            assert_eq!(got, wanted, "{value} as {scalar:?}");
        }
    }
}

fn float_floor_div(x: f64, y: f64) -> (f64, f64) {
    // Python's, by another way: exact remainder first.
    let mut rest = x % y;
    let mut quotient = (x - rest) / y;
    if rest != 0.0 {
        if (y < 0.0) != (rest < 0.0) {
            rest += y;
            quotient -= 1.0;
        }
    } else {
        rest = 0f64.copysign(y);
    }
    let floor = if quotient == 0.0 { 0f64.copysign(x / y) } else { quotient.round() };
    (floor, rest)
}

/// Mutants: `floor(x / y)` for `//`; the remainder's sign not mended; `min` that keeps not-a-number wherever it stands.
#[test]
fn floats_are_numbas() {
    let _alone = alone();
    use BinaryOp as B;
    let ops = [
        ("div", B::TrueDiv(OnZero::Raise)),
        ("div0", B::TrueDiv(OnZero::Value)),
        ("floordiv", B::FloorDiv(OnZero::Raise)),
        ("ufunc", B::FloorDiv(OnZero::Ufunc)),
        ("mod", B::Mod(OnZero::Raise)),
        ("min", B::Min),
        ("max", B::Max),
        ("minimum", B::Minimum),
        ("fmax", B::Fmax),
        ("lt", B::Lt),
        ("ne", B::Ne),
    ];
    let kernels: Vec<_> = ops
        .iter()
        .map(|(name, op)| {
            let result = if op.is_comparison() { Type::BOOL } else { Type::F64 };
            let (mut f, p) = function(name, &[("a", Type::F64), ("b", Type::F64)], result);
            f.body = vec![ret(bin(*op, f.get(p[0]), f.get(p[1])))];
            f
        })
        .collect();
    let kernels = load(&kernels);
    let call = |name, a, b| kernels.call(name, &[Data::Float(a), Data::Float(b)]);
    let text = |value: f64| format!("{value:?}");
    let runner = |(a, b): (f64, f64)| {
        let zero = "ZeroDivisionError: division by zero".to_owned();
        prop_assert_eq!(call("div", a, b), if b == 0.0 { zero } else { text(a / b) });
        prop_assert_eq!(call("div0", a, b), text(a / b));
        prop_assert_eq!(call("ufunc", a, b), text((a / b).floor()));
        prop_assert_eq!(call("min", a, b), text(if b < a { b } else { a }));
        prop_assert_eq!(call("max", a, b), text(if b > a { b } else { a }));
        let minimum = if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
        prop_assert_eq!(call("minimum", a, b).replace('-', ""), text(minimum).replace('-', ""));
        prop_assert_eq!(call("fmax", a, b).replace('-', ""), text(a.max(b)).replace('-', ""));
        prop_assert_eq!(call("lt", a, b), (a < b).to_string());
        prop_assert_eq!(call("ne", a, b), (a != b).to_string());
        // Where the quotient is exact enough for the reference to be right.
        if b != 0.0 && (a / b).abs() < 1e15 && (a / b).is_finite() && b.is_finite() {
            let (quotient, rest) = float_floor_div(a, b);
            prop_assert_eq!(call("floordiv", a, b), text(quotient));
            prop_assert_eq!(call("mod", a, b), text(rest));
        }
        Ok(())
    };
    let value = || {
        prop_oneof![
            Just(0.0),
            Just(-0.0),
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(1.0),
            Just(-4.0),
            -100f64..100.0,
            (-50i32..50).prop_map(|x| f64::from(x) / 2.0),
            any::<f64>(),
        ]
    };
    let mut tests = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(400));
    tests.run(&(value(), value()), runner).unwrap();
}

// Control flow, calls and errors.

/// `for i in range(a, b, s)` as Python counts, with `break`, `else` and what the variable keeps. Mutants: the counter
/// compared with the stop for every step; the last value lost.
#[test]
fn loops_count_as_python_does() {
    let _alone = alone();
    let triple = Type::Tuple(vec![Type::I64, Type::I64, Type::I64]);
    let params = [("a", Type::I64), ("b", Type::I64), ("s", Type::I64), ("limit", Type::I64)];
    let (mut f, p) = function("count", &params, triple.clone());
    let (i, n) = (f.local("i", Type::I64), f.local("n", Type::I64));
    let done = f.local("done", Type::I64);
    let stop = StmtKind::If(
        bin(BinaryOp::Ge, f.get(n), f.get(p[3])),
        vec![StmtKind::Leave(Label(0)).into()],
        vec![],
    );
    let body = vec![stop.into(), set(n, add(f.get(n), Expr::int(1)))];
    let items = vec![f.get(n), f.get(i), f.get(done)];
    f.body = vec![
        set(i, Expr::int(77)),
        StmtKind::Block(
            Label(0),
            vec![range(1, i, f.get(p[0]), f.get(p[1]), f.get(p[2]), body), set(done, Expr::int(1))],
        )
        .into(),
        ret(Expr::new(ExprKind::Tuple(items), triple)),
    ];
    let kernels = load(&[f]);
    let call = |a, b, s, limit| kernels.call("count", &[a, b, s, limit].map(Data::Int));
    assert_eq!(call(0, 10, 3, 100), "(4, 9, 1)");
    assert_eq!(call(10, 0, -4, 100), "(3, 2, 1)");
    assert_eq!(call(5, 5, 1, 100), "(0, 77, 1)");
    assert_eq!(call(0, 10, -1, 100), "(0, 77, 1)");
    assert_eq!(call(0, 10, 1, 4), "(4, 4, 0)");
    assert_eq!(call(i64::MAX - 2, i64::MAX, 5, 100), format!("(1, {}, 1)", i64::MAX - 2));
    assert_eq!(call(i64::MIN, i64::MAX, i64::MAX, 100), format!("(3, {}, 1)", i64::MAX - 1));
    assert_eq!(call(0, 3, 0, 100), "ValueError: range() arg 3 must not be zero");
}

/// Calls pass results of any number of lanes, and errors; recursion without end is an error of the call. Mutants: the
/// status not checked; no look at the stack.
#[test]
fn calls_pass_values_and_errors() {
    let _alone = alone();
    let pair = Type::Tuple(vec![Type::F64, Type::I64]);
    let of = |params: &[Type], result: &Type| FunctionType {
        params: params.to_vec(),
        result: result.clone(),
    };
    let (mut inner, p) = function("inner", &[("x", Type::F64), ("n", Type::I64)], pair.clone());
    let items = vec![
        bin(BinaryOp::TrueDiv(OnZero::Raise), inner.get(p[0]), inner.get(p[1]).cast(Type::F64)),
        add(inner.get(p[1]), Expr::int(1)),
    ];
    inner.body = vec![ret(Expr::new(ExprKind::Tuple(items), pair.clone()))];

    let (mut outer, p) = function("outer", &[("n", Type::I64)], Type::F64);
    outer
        .callees
        .push(Callee { name: "inner".into(), signature: of(&[Type::F64, Type::I64], &pair) });
    let both = outer.local("both", pair.clone());
    let call = ExprKind::Call(CalleeId(0), vec![Expr::float(3.0), outer.get(p[0])]);
    let item = |outer: &Function, index, ty| {
        Expr::new(ExprKind::Item(Box::new(outer.get(both)), index), ty)
    };
    outer.body = vec![
        set(both, Expr::new(call, pair)),
        ret(add(item(&outer, 0, Type::F64), item(&outer, 1, Type::I64).cast(Type::F64))),
    ];

    let (mut deep, p) = function("deep", &[("n", Type::I64)], Type::I64);
    deep.callees.push(Callee { name: "deep".into(), signature: of(&[Type::I64], &Type::I64) });
    let call = ExprKind::Call(CalleeId(0), vec![add(deep.get(p[0]), Expr::int(-1))]);
    deep.body = vec![
        StmtKind::If(
            bin(BinaryOp::Eq, deep.get(p[0]), Expr::int(0)),
            vec![ret(Expr::int(0))],
            vec![],
        )
        .into(),
        ret(add(Expr::int(1), Expr::new(call, Type::I64))),
    ];

    let kernels = load(&[inner, outer, deep]);
    assert_eq!(kernels.call("inner", &[Data::Float(1.0), Data::Int(4)]), "(0.25, 5)");
    assert_eq!(kernels.call("outer", &[Data::Int(2)]), "4.5");
    assert_eq!(kernels.call("outer", &[Data::Int(0)]), "ZeroDivisionError: division by zero");
    assert_eq!(kernels.call("deep", &[Data::Int(5000)]), "5000");
    let endless = kernels.call("deep", &[Data::Int(-1)]);
    assert_eq!(endless, "RecursionError: maximum recursion depth exceeded");
    assert_eq!(
        kernels.call("outer", &[Data::Bool(true), Data::None]),
        "TypeError: expected 1 arguments, got 2"
    );
}

/// Raised exceptions carry their arguments, printing reaches the host. Mutants: arguments of an earlier `print` kept.
#[test]
fn exceptions_and_prints_carry_values() {
    let _alone = alone();
    let (mut f, p) = function("f", &[("n", Type::I64)], Type::None);
    let values =
        vec![Expr::str("n is"), f.get(p[0]), Expr::float(0.5), Expr::bool(true), Expr::none()];
    let raise = Raise { class: "KeyError".into(), args: vec![Expr::str("no such"), f.get(p[0])] };
    f.body = vec![
        StmtKind::Print(values).into(),
        StmtKind::If(
            bin(BinaryOp::Lt, f.get(p[0]), Expr::int(0)),
            vec![StmtKind::Raise(raise).into()],
            vec![],
        )
        .into(),
    ];
    let kernels = load(&[f]);
    let host = Printed::default();
    let kernel = &kernels.all[0].1;
    assert_eq!(spell(&kernel.call(&[Data::Int(3)], &host).unwrap()), "None");
    let error = kernel.call(&[Data::Int(-3)], &host).unwrap_err();
    assert_eq!(
        (error.class.as_str(), error.args.iter().map(spell).collect::<Vec<_>>().join("|")),
        ("KeyError", "no such|-3".into())
    );
    assert_eq!(*host.0.lock().unwrap(), ["n is 3 0.5 true None", "n is -3 0.5 true None"]);
}

// Arrays.

/// Elements are found from both ends and never beyond. Mutants: the check left out; a negative index not wrapped; the
/// axes' order swapped.
#[test]
fn indices_are_checked() {
    let _alone = alone();
    let (mut f, p) =
        function("at", &[("a", i64s(2)), ("i", Type::I64), ("j", Type::I64)], Type::I64);
    let a = f.get(p[0]);
    f.body = vec![
        put(&a, vec![Expr::int(0), Expr::int(0)], Expr::int(9)),
        ret(get(&a, vec![f.get(p[1]), f.get(p[2])])),
    ];
    let kernels = load(&[f]);
    let call = |i, j| {
        kernels.call("at", &[ints_in(&[2, 3], &[0, 1, 2, 3, 4, 5]), Data::Int(i), Data::Int(j)])
    };
    assert_eq!(call(1, 2), "5");
    assert_eq!(call(-1, 0), "3");
    assert_eq!(call(-2, -3), "9");
    let out = "IndexError: index is out of bounds";
    for (i, j) in [(2, 0), (-3, 0), (0, 3), (0, -4), (i64::MIN, 0), (i64::MAX, 0), (0, i64::MIN)] {
        assert_eq!(call(i, j), out, "{i} {j}");
    }
}

/// What is known of counters spares checks, and only where it is true: arrays are shortened, exchanged and counted
/// beyond in all ways that look alike. Mutants: a bound taken from an array that is assigned later; `range(n)` taken
/// for the length of an array made of another `n`; the offset of an index forgotten.
#[test]
fn unchecked_indices_are_in_range() {
    let _alone = alone();
    // total += a[i + k] for i in range(low, len(a) + high)
    let sum = |name: &str, low: i64, high: i64, k: i64| {
        let (mut f, p) = function(name, &[("a", i64s(1))], Type::I64);
        let (i, total) = (f.local("i", Type::I64), f.local("total", Type::I64));
        let a = f.get(p[0]);
        let index = if k == 0 { f.get(i) } else { add(f.get(i), Expr::int(k)) };
        let body = vec![set(total, add(f.get(total), get(&a, vec![index])))];
        f.body = vec![
            range(0, i, Expr::int(low), add(length(&a, 0), Expr::int(high)), Expr::int(1), body),
            ret(f.get(total)),
        ];
        f
    };
    // n = m; a = zeros(n); n is set again before the loop, or the array is of another number.
    let (mut other, p) = function("other", &[("n", Type::I64), ("m", Type::I64)], Type::I64);
    let (a, i) = (other.local("a", i64s(1)), other.local("i", Type::I64));
    let total = other.local("total", Type::I64);
    let array = other.get(a);
    let body = vec![set(total, add(other.get(total), get(&array, vec![other.get(i)])))];
    other.body = vec![
        set(a, zeros(vec![other.get(p[0])], Scalar::I64)),
        range(0, i, Expr::int(0), other.get(p[1]), Expr::int(1), body),
        ret(other.get(total)),
    ];
    // a is made in one round, n changes in the next.
    let (mut late, p) = function("late", &[("rounds", Type::I64)], Type::I64);
    let (a, n) = (late.local("a", i64s(1)), late.local("n", Type::I64));
    let (k, i) = (late.local("k", Type::I64), late.local("i", Type::I64));
    let total = late.local("total", Type::I64);
    let array = late.get(a);
    let first = bin(BinaryOp::Eq, late.get(k), Expr::int(0));
    let body =
        vec![set(total, add(late.get(total), add(Expr::int(1), get(&array, vec![late.get(i)]))))];
    late.body = vec![
        range(
            0,
            k,
            Expr::int(0),
            late.get(p[0]),
            Expr::int(1),
            vec![
                set(n, add(late.get(k), Expr::int(2))),
                StmtKind::If(first, vec![set(a, zeros(vec![late.get(n)], Scalar::I64))], vec![])
                    .into(),
                range(1, i, Expr::int(0), late.get(n), Expr::int(1), body),
            ],
        ),
        ret(late.get(total)),
    ];
    // for c in range(len(a)): i = c; total += a[i + 1 - 1]; and then i is set to something else for the next use
    let (mut alias, p) = function("alias", &[("a", i64s(1)), ("k", Type::I64)], Type::I64);
    let (c, i) = (alias.local("c", Type::I64), alias.local("i", Type::I64));
    let (j, total) = (alias.local("j", Type::I64), alias.local("total", Type::I64));
    let array = alias.get(p[0]);
    let more =
        |f: &Function, at: LocalId| set(total, add(f.get(total), get(&array, vec![f.get(at)])));
    let (one, two) = (more(&alias, i), more(&alias, j));
    let inner = vec![more(&alias, i), set(i, alias.get(p[1]))];
    alias.body = vec![
        range(
            0,
            c,
            Expr::int(0),
            length(&array, 0),
            Expr::int(1),
            vec![
                set(i, alias.get(c)),
                set(j, bin(BinaryOp::Sub, alias.get(i), Expr::int(1))),
                one,
                two,
                range(1, j, Expr::int(0), Expr::int(2), Expr::int(1), inner),
            ],
        ),
        ret(alias.get(total)),
    ];
    let kernels = load(&[
        alias,
        sum("all", 0, 0, 0),
        sum("inner", 1, -1, 1),
        sum("left", 1, 0, -1),
        sum("right", 0, 0, 1),
        sum("before", 0, 0, -1),
        sum("beyond", 0, 1, 0),
        other,
        late,
    ]);
    let call = |name| kernels.call(name, &[ints(&[1, 20, 300])]);
    let out = "IndexError: index is out of bounds";
    // a[i] and a[i - 1], then a[i] and a[k], in each of three rounds.
    let aliased = |k| kernels.call("alias", &[ints(&[1, 20, 300]), Data::Int(k)]);
    assert_eq!(aliased(1), (321 + 321 + 321 + 3 * 20).to_string());
    assert_eq!(aliased(3), out);
    assert_eq!(aliased(-4), out);
    assert_eq!(call("all"), "321");
    assert_eq!(call("inner"), "300");
    assert_eq!(call("left"), "21");
    assert_eq!(call("right"), out);
    assert_eq!(call("before"), "321");
    assert_eq!(call("beyond"), out);
    assert_eq!(kernels.call("other", &[Data::Int(5), Data::Int(5)]), "0");
    assert_eq!(kernels.call("other", &[Data::Int(5), Data::Int(6)]), out);
    assert_eq!(kernels.call("late", &[Data::Int(1)]), "2");
    assert_eq!(kernels.call("late", &[Data::Int(2)]), out);
}

/// A loop that is built with checks and without runs the right one: indices that count, that stay, that are negative, and
/// that go beyond in the first or in the last round. Mutants: the last round forgotten; the summand's sign turned; an
/// index that the body changes taken for one that stays.
#[test]
fn loops_without_checks_are_entered_rightly() {
    let _alone = alone();
    let bounds = [("lo", Type::I64), ("hi", Type::I64), ("k", Type::I64)];
    let mut params = vec![("a", i64s(1)), ("b", i64s(2))];
    params.extend(bounds.clone());
    let (mut f, p) = function("f", &params, Type::I64);
    let (c, i) = (f.local("c", Type::I64), f.local("i", Type::I64));
    let (j, total) = (f.local("j", Type::I64), f.local("total", Type::I64));
    let (a, b) = (f.get(p[0]), f.get(p[1]));
    let minus = bin(BinaryOp::Sub, f.get(i), Expr::int(2));
    let first = get(&a, vec![add(f.get(i), Expr::int(1))]);
    let second = get(&b, vec![f.get(p[4]), minus]);
    let third = get(&a, vec![f.get(j)]);
    let body = vec![
        set(i, f.get(c)),
        set(total, add(f.get(total), add(first, add(mul(second, Expr::int(7)), third)))),
        put(&b, vec![add(f.get(p[4]), Expr::int(0)), Expr::int(-1)], f.get(i)),
        set(j, bin(BinaryOp::Xor, f.get(j), Expr::int(1))),
    ];
    f.body = vec![range(0, c, f.get(p[2]), f.get(p[3]), Expr::int(1), body), ret(f.get(total))];
    let kernels = load(&[f]);
    let reference = |lo: i64, hi: i64, k: i64| {
        let a = [3i64, 50, 700, 9000, 20];
        let mut b = [vec![1i64, 2, 3, 4], vec![10, 20, 30, 40]];
        let wrap = |index: i64, length: usize| {
            let index = if index < 0 { index + length as i64 } else { index };
            usize::try_from(index).ok().filter(|index| *index < length)
        };
        let (mut total, mut j) = (0i64, 0usize);
        for i in lo..hi {
            let first = a[wrap(i + 1, 5)?];
            let second = b[wrap(k, 2)?][wrap(i - 2, 4)?];
            total += first + 7 * second + a[j];
            b[wrap(k, 2)?][3] = i;
            j ^= 1;
        }
        Some(total)
    };
    for lo in -4..6 {
        for hi in -2..8 {
            for k in -3..3 {
                let a = ints(&[3, 50, 700, 9000, 20]);
                let b = ints_in(&[2, 4], &[1, 2, 3, 4, 10, 20, 30, 40]);
                let got = kernels.call("f", &[a, b, Data::Int(lo), Data::Int(hi), Data::Int(k)]);
                let wanted = reference(lo, hi, k).map(|total| total.to_string());
                let wanted = wanted.unwrap_or("IndexError: index is out of bounds".into());
                assert_eq!(got, wanted, "{lo} {hi} {k}");
            }
        }
    }
}

/// A copy of a local keeps its value when the local is assigned anew, also in the next round of a loop.
/// Kills: a copy that outlives an assignment of what it copies.
#[test]
fn copies_keep_their_value() {
    let _alone = alone();
    let (mut f, p) = function("f", &[("n", Type::I64)], Type::I64);
    let (a, b) = (f.local("a", Type::I64), f.local("b", Type::I64));
    let (old, c) = (f.local("old", Type::I64), f.local("c", Type::I64));
    let body = vec![
        set(old, f.get(a)),
        set(a, f.get(b)),
        set(b, add(f.get(old), add(f.get(b), f.get(c)))),
    ];
    f.body = vec![
        set(b, Expr::int(1)),
        range(0, c, Expr::int(0), f.get(p[0]), Expr::int(1), body),
        set(old, f.get(b)),
        set(b, mul(f.get(b), Expr::int(1000))),
        ret(add(f.get(b), f.get(old))),
    ];
    let kernels = load(&[f]);
    let wanted = |n: i64| {
        let (mut a, mut b) = (0, 1);
        for c in 0..n {
            (a, b) = (b, a + b + c);
        }
        1001 * b
    };
    for n in 0..10 {
        assert_eq!(kernels.call("f", &[Data::Int(n)]), wanted(n).to_string());
    }
}

/// `base[start:]`
fn from(base: &Expr, start: Expr) -> Expr {
    let slice = Subscript::Slice(Some(start), None, None);
    Expr::new(ExprKind::View(Box::new(base.clone()), vec![slice]), i64s(1))
}

/// The loops of [`strips_and_carried_elements_are_loops`]: `x` and `y` are parts of one array, which may overlap.
fn recurrences() -> Vec<Function> {
    let names = ["from_x", "from_y", "p", "q", "start", "stop"];
    let mut params = vec![("base", i64s(1))];
    params.extend(names.map(|name| (name, Type::I64)));
    type Body = dyn Fn(&mut Function, &[LocalId], LocalId, [Expr; 2]) -> Vec<Stmt>;
    let kernel = |name: &str, body: &Body| {
        let (mut f, p) = function(name, &params, Type::I64);
        let (x, y) = (f.local("x", i64s(1)), f.local("y", i64s(1)));
        let (c, i) = (f.local("c", Type::I64), f.local("i", Type::I64));
        let base = f.get(p[0]);
        let arrays = [f.get(x), f.get(y)];
        let mut inner = vec![set(i, f.get(c))];
        inner.extend(body(&mut f, &p, i, arrays));
        f.body = vec![
            set(x, from(&base, f.get(p[1]))),
            set(y, from(&base, f.get(p[2]))),
            range(0, c, f.get(p[5]), f.get(p[6]), Expr::int(1), inner),
            ret(f.get(i)),
        ];
        f
    };
    let strip = kernel("strip", &|f, p, i, [x, y]| {
        let t = f.local("t", Type::I64);
        let value = get(&x, vec![add(f.get(i), f.get(p[3]))]);
        vec![
            set(t, add(mul(value, Expr::int(3)), f.get(p[4]))),
            put(&y, vec![f.get(i)], add(f.get(t), get(&y, vec![f.get(i)]))),
        ]
    });
    let carry = kernel("carry", &|f, p, i, [x, y]| {
        let at = add(f.get(i), f.get(p[3]));
        let sum = add(get(&y, vec![at.clone()]), get(&x, vec![f.get(i)]));
        let value = bin(BinaryOp::Min, mul(sum, Expr::int(3)), get(&x, vec![f.get(i)]));
        let value = bin(BinaryOp::Min, value, f.get(p[4]));
        vec![put(&y, vec![add(at, Expr::int(1))], value)]
    });
    let two = kernel("two", &|f, p, i, [x, y]| {
        let j = f.local("j", Type::I64);
        let value = get(&x, vec![add(f.get(j), f.get(p[3]))]);
        vec![
            set(j, f.get(i)),
            put(&y, vec![f.get(j)], add(value, get(&y, vec![f.get(i)]))),
            put(&x, vec![f.get(i)], mul(get(&y, vec![f.get(j)]), f.get(p[4]))),
        ]
    });
    vec![strip, carry, two]
}

/// What the loops of [`recurrences`] do to `base`: what they return, or none if an index is out of range.
fn recurrence(name: &str, base: &mut [i64], numbers: [i64; 6]) -> Option<i64> {
    let [from_x, from_y, p, q, start, stop] = numbers;
    let at = |from: i64, index: i64, base: &[i64]| {
        let length = base.len() as i64 - from;
        let index = if index < 0 { index + length } else { index };
        (0..length).contains(&index).then_some((from + index) as usize)
    };
    let mut last = 0;
    for i in start..stop {
        last = i;
        match name {
            "strip" => {
                let t = base[at(from_x, i + p, base)?].wrapping_mul(3).wrapping_add(q);
                let value = t.wrapping_add(base[at(from_y, i, base)?]);
                base[at(from_y, i, base)?] = value;
            }
            "carry" => {
                let sum = base[at(from_y, i + p, base)?].wrapping_add(base[at(from_x, i, base)?]);
                let value = sum.wrapping_mul(3).min(base[at(from_x, i, base)?]).min(q);
                base[at(from_y, i + p + 1, base)?] = value;
            }
            _ => {
                let value = base[at(from_x, i + p, base)?];
                let value = value.wrapping_add(base[at(from_y, i, base)?]);
                base[at(from_y, i, base)?] = value;
                let value = base[at(from_y, i, base)?].wrapping_mul(q);
                base[at(from_x, i, base)?] = value;
            }
        }
    }
    Some(last)
}

/// Loops that are computed in strips, or keep an element in a register, do what the plain loop does, whatever overlaps, and
/// whatever is out of range.
/// Kills: strips of arrays that overlap; a last strip that leaves no round; an element that is carried though the load is
/// not one round behind; a range that is entered unchecked because the sum of index and offset wraps; a carried element left
/// out of a minimum.
#[test]
fn strips_and_carried_elements_are_loops() {
    let _alone = alone();
    let kernels = load(&recurrences());
    let numbers = (0usize..40).prop_flat_map(|length| {
        let n = length as i64;
        let from = 0..=n;
        // Mostly far enough inside for all rounds to be in range.
        let offset = prop_oneof![4 => -2..3i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
        let (start, stop) = (-2..6i64, -2..n + 3);
        (Just(length), from.clone(), from, offset, -3..100i64, start, stop)
    });
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(4000));
    let done = runner.run(&numbers, |(length, from_x, from_y, p, q, start, stop)| {
        for name in ["strip", "carry", "two"] {
            if p.unsigned_abs() > 1 << 40 && start < 0 {
                continue;
            }
            let mut wanted: Vec<i64> = (0..length as i64).map(|at| at * at % 11 - 3).collect();
            let base = ints(&wanted);
            let args = [from_x, from_y, p, q, start, stop];
            let mut all = vec![base.clone()];
            all.extend(args.map(Data::Int));
            let got = kernels.call(name, &all);
            let returned = match p.unsigned_abs() > 1 << 40 && start < stop {
                // The first index is out of range already.
                true => None,
                false => recurrence(name, &mut wanted, args),
            };
            let returned = returned.map(|last| last.to_string());
            prop_assert_eq!(got, returned.unwrap_or("IndexError: index is out of bounds".into()));
            prop_assert_eq!(spell(&base), spell(&ints(&wanted)), "{} {:?}", name, args);
        }
        Ok(())
    });
    done.unwrap();
}

/// The slice `start:stop:step` of `values`, as Python gives it.
fn python_slice(values: &[i64], start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<i64> {
    let n = values.len() as i128;
    let (step, down) = (i128::from(step), step < 0);
    let bound = |value: Option<i64>, default: i128| match value {
        None => default,
        Some(value) => {
            let value = i128::from(value);
            let value = if value < 0 { value + n } else { value };
            if down { value.clamp(-1, n - 1) } else { value.clamp(0, n) }
        }
    };
    let mut at = bound(start, if down { n - 1 } else { 0 });
    let end = bound(stop, if down { -1 } else { n });
    let mut items = Vec::new();
    while if down { at > end } else { at < end } {
        items.push(values[at as usize]);
        at += step;
    }
    items
}

/// Mutants: the clamp of a backwards start; the length not cut at zero; the step not in the stride.
#[test]
fn slices_are_pythons() {
    let _alone = alone();
    let params = [("a", i64s(1)), ("i", Type::I64), ("j", Type::I64), ("k", Type::I64)];
    let out = Type::array(Scalar::I64, 1, Layout::A);
    let mut all = Vec::new();
    for known in [None, Some(1), Some(2), Some(-1), Some(-3)] {
        for mask in 0..4 {
            let (mut f, p) = function(&format!("{known:?} {mask}"), &params, out.clone());
            let start = (mask & 1 == 1).then(|| f.get(p[1]));
            let stop = (mask & 2 == 2).then(|| f.get(p[2]));
            let step = known.map_or_else(|| f.get(p[3]), Expr::int);
            let subscript = Subscript::Slice(start, stop, Some(step));
            f.body = vec![ret(Expr::new(
                ExprKind::View(Box::new(f.get(p[0])), vec![subscript]),
                out.clone(),
            ))];
            all.push(f);
        }
    }
    let kernels = load(&all);
    let runner = |(values, i, j, k): (Vec<i64>, i64, i64, i64)| {
        let args = [ints(&values), Data::Int(i), Data::Int(j), Data::Int(k)];
        for known in [None, Some(1), Some(2), Some(-1), Some(-3)] {
            for mask in 0..4 {
                let step = known.unwrap_or(k);
                let got = kernels.call(&format!("{known:?} {mask}"), &args);
                let wanted = if step == 0 {
                    "ValueError: slice step cannot be zero".into()
                } else {
                    let (start, stop) =
                        ((mask & 1 == 1).then_some(i), (mask & 2 == 2).then_some(j));
                    let items = python_slice(&values, start, stop, step);
                    spell(&ints(&items))
                };
                prop_assert_eq!(got, wanted);
            }
        }
        Ok(())
    };
    let mut tests = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    let bound = || prop_oneof![-9i64..9, edges()];
    tests.run(&(prop::collection::vec(-5i64..5, 0..7), bound(), bound(), bound()), runner).unwrap();
}

/// Views share memory: of rows, columns, blocks, with new axes; reshaped and transposed. Mutants: data not moved; a
/// stride of the wrong axis.
#[test]
fn views_share_memory() {
    let _alone = alone();
    let (mut f, p) = function("views", &[("a", i64s(2))], Type::array(Scalar::I64, 1, Layout::A));
    let a = f.get(p[0]);
    let view = |of: &Expr, subscripts: Vec<Subscript>, ndim| {
        Expr::new(
            ExprKind::View(Box::new(of.clone()), subscripts),
            Type::array(Scalar::I64, ndim, Layout::A),
        )
    };
    let index = |i| Subscript::Index(Expr::int(i), Access::Checked);
    let slice = |i, j| Subscript::Slice(Some(Expr::int(i)), Some(Expr::int(j)), None);
    let column = view(&a, vec![Subscript::Full, index(-1)], 1);
    let block = view(&a, vec![slice(1, 3), slice(0, 2)], 2);
    let turned = Expr::new(
        ExprKind::Transpose(Box::new(block.clone()), vec![1, 0]),
        Type::array(Scalar::I64, 2, Layout::A),
    );
    let lifted = view(&turned, vec![index(0), Subscript::NewAxis, Subscript::Full], 2);
    let flat = Expr::new(
        ExprKind::Reshape(Box::new(a.clone()), vec![Expr::int(-1), Expr::int(2)]),
        i64s(2),
    );
    f.body = vec![
        put(&column, vec![Expr::int(0)], Expr::int(100)),
        put(&lifted, vec![Expr::int(0), Expr::int(1)], Expr::int(200)),
        put(&flat, vec![Expr::int(5), Expr::int(1)], Expr::int(300)),
        ret(view(&a, vec![slice(2, 3), Subscript::Full], 2)).clone(),
    ];
    f.result = Type::array(Scalar::I64, 2, Layout::A);
    let (mut wrong, p) =
        function("wrong", &[("a", i64s(2)), ("n", Type::I64), ("m", Type::I64)], i64s(2));
    let shape = vec![wrong.get(p[1]), wrong.get(p[2])];
    wrong.body = vec![ret(Expr::new(ExprKind::Reshape(Box::new(wrong.get(p[0])), shape), i64s(2)))];
    let kernels = load(&[f, wrong]);
    let array = ints_in(&[3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(kernels.call("views", std::slice::from_ref(&array)), "[1, 4][200 9 10 300]");
    assert_eq!(spell(&array), "[3, 4][0 1 2 100 4 5 6 7 200 9 10 300]");
    let shaped = |n, m| kernels.call("wrong", &[array.clone(), Data::Int(n), Data::Int(m)]);
    let error = "ValueError: total size of new array must be unchanged";
    assert_eq!(shaped(6, 2), "[6, 2][0 1 2 100 4 5 6 7 200 9 10 300]");
    assert_eq!(shaped(-1, 3), "[4, 3][0 1 2 100 4 5 6 7 200 9 10 300]");
    for (n, m) in [(5, 2), (-1, 5), (-1, -1), (-2, -6), (0, -1), (1 << 62, 3 << 1), (i64::MIN, 12)]
    {
        assert_eq!(shaped(n, m), error, "{n} {m}");
    }
}

/// What an array expression gives does not depend on how it is computed: dense and strided inputs, every length around
/// the vectors', repeated axes, nested maps. Mutants: the tail left out; a repeated axis with its stride; the vector loop
/// taken for strided inputs.
#[test]
fn maps_are_the_same_whatever_the_layout() {
    let _alone = alone();
    // x * 2 - y / (z * z + 1) with min and a choice, of floats.
    let tree = |f: &mut Function, inputs: Vec<Expr>| {
        let square = map(f, vec![inputs[2].clone()], |e| {
            let power = ExprKind::PowConst(OnZero::Ufunc, Box::new(e[0].clone()), 2);
            add(Expr::new(power, Type::F64), Expr::float(1.0))
        });
        let square =
            if inputs[2].ty.as_array().is_some() { map_expr(square) } else { *square.value };
        map(f, vec![inputs[0].clone(), inputs[1].clone(), square], |e| {
            let quotient = bin(BinaryOp::TrueDiv(OnZero::Ufunc), e[1].clone(), e[2].clone());
            let value = bin(BinaryOp::Sub, mul(e[0].clone(), Expr::float(2.0)), quotient);
            let value = bin(BinaryOp::Minimum, value, Expr::float(5.0));
            let condition = bin(BinaryOp::Lt, e[0].clone(), Expr::float(-1.0));
            let (value, other) =
                (Box::new(value), Box::new(Expr::unary(UnaryOp::Abs, e[1].clone())));
            Expr::new(ExprKind::IfElse(Box::new(condition), value, other), Type::F64)
        })
    };
    let reference = |x: f64, y: f64, z: f64| {
        if x < -1.0 { (x * 2.0 - y / (z * z + 1.0)).min(5.0) } else { y.abs() }
    };
    let mut all = Vec::new();
    for (name, layouts) in
        [("ccc", "ccc"), ("cac", "cac"), ("aaa", "aaa"), ("ccs", "ccs"), ("asc", "asc")]
    {
        let types: Vec<Type> = layouts
            .chars()
            .map(|layout| match layout {
                'c' => f64s(1),
                'a' => Type::array(Scalar::F64, 1, Layout::A),
                _ => Type::F64,
            })
            .collect();
        let params: Vec<_> = ["x", "y", "z"].into_iter().zip(types).collect();
        let (mut f, p) = function(name, &params, f64s(1));
        let inputs: Vec<Expr> = p.iter().map(|param| f.get(*param)).collect();
        if layouts.ends_with('s') {
            // A scalar z: its square is computed outside.
            let z = add(mul(inputs[2].clone(), inputs[2].clone()), Expr::float(1.0));
            let t = map(&mut f, vec![inputs[0].clone(), inputs[1].clone(), z], |e| {
                let quotient = bin(BinaryOp::TrueDiv(OnZero::Ufunc), e[1].clone(), e[2].clone());
                let value = bin(BinaryOp::Sub, mul(e[0].clone(), Expr::float(2.0)), quotient);
                let value = bin(BinaryOp::Minimum, value, Expr::float(5.0));
                let condition = bin(BinaryOp::Lt, e[0].clone(), Expr::float(-1.0));
                let other = Box::new(Expr::unary(UnaryOp::Abs, e[1].clone()));
                Expr::new(ExprKind::IfElse(Box::new(condition), Box::new(value), other), Type::F64)
            });
            f.body = vec![ret(map_expr(t))];
        } else {
            let t = tree(&mut f, inputs);
            f.body = vec![ret(map_expr(t))];
        }
        all.push(f);
    }
    let kernels = load(&all);
    for n in [0usize, 1, 2, 3, 4, 5, 7, 8, 33] {
        let value = |i: usize, k: usize| ((i * 7 + k * 3) % 11) as f64 - 5.0;
        let xs: Vec<f64> = (0..n).map(|i| value(i, 0)).collect();
        let ys: Vec<f64> = (0..n).map(|i| value(i, 1)).collect();
        let zs: Vec<f64> = (0..n).map(|i| value(i, 2)).collect();
        // Every other element of a longer array, backwards.
        let strided = |values: &[f64]| {
            let mut wide = vec![1e9; 2 * n + 1];
            for (i, value) in values.iter().enumerate() {
                wide[2 * (n - 1 - i)] = *value;
            }
            let Data::Array(base) = floats(&wide) else { unreachable!() };
            let first = base.data().wrapping_add(if n == 0 { 0 } else { 16 * (n - 1) });
            // SAFETY: of the elements of `base`, which it keeps.
            Data::Array(unsafe {
                ArrayData::new(
                    base.element().clone(),
                    base.owner().cloned(),
                    first,
                    vec![n as u64],
                    vec![-16],
                )
            })
        };
        let all = |z: &dyn Fn(usize) -> f64, y: &dyn Fn(usize) -> f64| {
            spell(&floats(&(0..n).map(|i| reference(xs[i], y(i), z(i))).collect::<Vec<_>>()))
        };
        let plain = all(&|i| zs[i], &|i| ys[i]);
        assert_eq!(kernels.call("ccc", &[floats(&xs), floats(&ys), floats(&zs)]), plain);
        assert_eq!(kernels.call("cac", &[floats(&xs), strided(&ys), floats(&zs)]), plain);
        assert_eq!(kernels.call("cac", &[floats(&xs), floats(&ys), floats(&zs)]), plain);
        assert_eq!(kernels.call("aaa", &[strided(&xs), strided(&ys), strided(&zs)]), plain);
        assert_eq!(kernels.call("aaa", &[floats(&xs), floats(&ys), floats(&zs)]), plain);
        assert_eq!(
            kernels.call("ccs", &[floats(&xs), floats(&ys), Data::Float(2.0)]),
            all(&|_| 2.0, &|i| ys[i])
        );
        assert_eq!(
            kernels.call("asc", &[strided(&xs), Data::Float(-3.0), floats(&zs)]),
            all(&|i| zs[i], &|_| -3.0)
        );
        // One element is repeated.
        if n > 1 {
            assert_eq!(
                kernels.call("ccc", &[floats(&xs), floats(&[4.0]), floats(&zs)]),
                all(&|i| zs[i], &|_| 4.0)
            );
            let wrong = kernels.call("ccc", &[floats(&xs), floats(&ys[1..]), floats(&zs)]);
            let wanted = "ValueError: unable to broadcast argument 1 to output array";
            assert_eq!(wrong, if n == 2 { all(&|i| zs[i], &|_| ys[1]) } else { wanted.into() });
        }
    }
}

/// Shapes of different ranks join from the right. Mutants: axes aligned from the left.
#[test]
fn axes_are_repeated() {
    let _alone = alone();
    let (mut f, p) = function("grid", &[("a", i64s(2)), ("b", i64s(1))], i64s(2));
    let (a, b) = (f.get(p[0]), f.get(p[1]));
    let tree = map(&mut f, vec![a, b], |e| add(mul(e[0].clone(), Expr::int(10)), e[1].clone()));
    f.body = vec![ret(map_expr(tree))];
    let kernels = load(&[f]);
    let call = |a, b| kernels.call("grid", &[a, b]);
    let column = ints_in(&[3, 1], &[1, 2, 3]);
    assert_eq!(call(column.clone(), ints(&[4, 5])), "[3, 2][14 15 24 25 34 35]");
    assert_eq!(call(ints_in(&[1, 2], &[1, 2]), ints(&[4])), "[1, 2][14 24]");
    assert_eq!(call(ints_in(&[2, 2], &[1, 2, 3, 4]), ints(&[5, 6])), "[2, 2][15 26 35 46]");
    assert_eq!(call(column, ints(&[])), "[3, 0][]");
    let wrong = call(ints_in(&[2, 2], &[1, 2, 3, 4]), ints(&[5, 6, 7]));
    assert_eq!(wrong, "ValueError: unable to broadcast argument 1 to output array");
}

/// Folds agree with loops for every length and layout; extremes of nothing are errors. Mutants: the vector sum's lanes
/// not all added; not-a-number lost.
#[test]
fn folds_are_loops() {
    let _alone = alone();
    let mut all = Vec::new();
    for (name, op) in [
        ("sum", FoldOp::Sum),
        ("product", FoldOp::Product),
        ("min", FoldOp::Min),
        ("max", FoldOp::Max),
        ("xor", FoldOp::Xor),
    ] {
        let (mut f, p) =
            function(name, &[("a", Type::array(Scalar::I64, 1, Layout::A))], Type::I64);
        let a = f.get(p[0]);
        let tree = map(&mut f, vec![a], |e| mul(e[0].clone(), Expr::int(3)));
        let empty = matches!(op, FoldOp::Min | FoldOp::Max)
            .then(|| Raise { class: "ValueError".into(), args: vec![Expr::str("empty")] });
        f.body = vec![ret(fold(op, tree, empty))];
        all.push(f);
    }
    let (mut f, p) = function("floats", &[("a", f64s(1))], Type::F64);
    let a = f.get(p[0]);
    let tree = map(&mut f, vec![a], |e| e[0].clone());
    f.body = vec![ret(fold(FoldOp::Sum, tree, None))];
    all.push(f);
    let (mut f, p) = function("least", &[("a", f64s(1))], Type::F64);
    let a = f.get(p[0]);
    let tree = map(&mut f, vec![a], |e| e[0].clone());
    let empty = Raise { class: "ValueError".into(), args: vec![Expr::str("empty")] };
    f.body = vec![ret(fold(FoldOp::Min, tree, Some(empty)))];
    all.push(f);
    let kernels = load(&all);
    for n in 0..20i64 {
        let values: Vec<i64> = (0..n).map(|i| (i * 5) % 7 - 3).collect();
        let tripled: Vec<i64> = values.iter().map(|x| x * 3).collect();
        let call = |name| kernels.call(name, &[ints(&values)]);
        let or_empty =
            |value: Option<&i64>| value.map_or("ValueError: empty".to_owned(), i64::to_string);
        assert_eq!(call("sum"), tripled.iter().sum::<i64>().to_string());
        assert_eq!(call("product"), tripled.iter().product::<i64>().to_string());
        assert_eq!(call("min"), or_empty(tripled.iter().min()));
        assert_eq!(call("max"), or_empty(tripled.iter().max()));
        assert_eq!(call("xor"), tripled.iter().fold(0, |a, b| a ^ b).to_string());
        // In order: rounding shows it.
        let values: Vec<f64> =
            (0..n).map(|i| if i % 3 == 0 { 1e16 } else { 1.0 + i as f64 * 0.1 }).collect();
        let sum = values.iter().fold(0.0, |a, b| a + b);
        assert_eq!(kernels.call("floats", &[floats(&values)]), format!("{sum:?}"));
    }
    assert_eq!(kernels.call("least", &[floats(&[3.0, f64::NAN, 1.0])]), "NaN");
    assert_eq!(kernels.call("least", &[floats(&[f64::NAN, 1.0])]), "NaN");
    assert_eq!(kernels.call("least", &[floats(&[3.0, -1.0, 2.0])]), "-1.0");
}

/// `a[1:] = a[:-1]` reads what was there; `a[1:] += a[:-1]` reads what it wrote. Mutants: no look at the overlap; the
/// vector loop in spite of it.
#[test]
fn overlapping_assignments_are_numbas() {
    let _alone = alone();
    let slice = |a: &Expr, start: Option<i64>, stop: Option<i64>| {
        let subscript = Subscript::Slice(start.map(Expr::int), stop.map(Expr::int), None);
        Expr::new(ExprKind::View(Box::new(a.clone()), vec![subscript]), i64s(1))
    };
    let mut all = Vec::new();
    for (name, overlap) in [("copy", Overlap::Copy), ("order", Overlap::InOrder)] {
        let (mut f, p) = function(name, &[("a", i64s(1))], Type::None);
        let a = f.get(p[0]);
        let (target, before) = (slice(&a, Some(1), None), slice(&a, None, Some(-1)));
        let value = match overlap {
            Overlap::Copy => map(&mut f, vec![before], |e| e[0].clone()),
            Overlap::InOrder => {
                map(&mut f, vec![target.clone(), before], |e| add(e[0].clone(), e[1].clone()))
            }
        };
        f.body = vec![StmtKind::SetView(SetView { target, value, overlap }).into()];
        all.push(f);
    }
    let (mut f, p) = function("copied", &[("a", i64s(1))], Type::None);
    let a = f.get(p[0]);
    let (target, before) = (slice(&a, Some(1), None), slice(&a, None, Some(-1)));
    let copy = map(&mut f, vec![before], |e| e[0].clone());
    let value = map(&mut f, vec![target.clone(), map_expr(copy)], |e| {
        bin(BinaryOp::Sub, e[0].clone(), e[1].clone())
    });
    f.body = vec![StmtKind::SetView(SetView { target, value, overlap: Overlap::InOrder }).into()];
    all.push(f);
    let (mut f, p) = function("fill", &[("a", i64s(2)), ("b", i64s(1))], Type::None);
    let (target, b) = (f.get(p[0]), f.get(p[1]));
    let value = map(&mut f, vec![b], |e| e[0].clone());
    f.body = vec![StmtKind::SetView(SetView { target, value, overlap: Overlap::Copy }).into()];
    all.push(f);
    let kernels = load(&all);
    let array = ints(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(kernels.call("copy", std::slice::from_ref(&array)), "None");
    assert_eq!(spell(&array), "[6][1 1 2 3 4 5]");
    // a[1:] -= a[:-1].copy()
    let array = ints(&[4, 6, 8, 10]);
    assert_eq!(kernels.call("copied", std::slice::from_ref(&array)), "None");
    assert_eq!(spell(&array), "[4][4 2 2 2]");
    let array = ints(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(kernels.call("order", std::slice::from_ref(&array)), "None");
    assert_eq!(spell(&array), "[6][1 3 6 10 15 21]");
    let array = ints_in(&[2, 2], &[0; 4]);
    assert_eq!(kernels.call("fill", &[array.clone(), ints(&[7, 8])]), "None");
    assert_eq!(spell(&array), "[2, 2][7 8 7 8]");
    let wrong = kernels.call("fill", &[array, ints(&[7, 8, 9])]);
    assert_eq!(wrong, "ValueError: cannot assign slice of shape (3,) from input of shape (2, 2)");
}

// Memory.

/// Arrays that are exchanged, captured in tuples and structrefs, returned, or left behind by an error are given back,
/// each once. Mutants: a release or a retain left out anywhere; temps forgotten on the way out.
#[test]
fn nothing_leaks() {
    let _alone = alone();
    let pair = Type::Tuple(vec![i64s(1), i64s(1)]);
    let of = |params: Vec<Type>, result: Type| FunctionType { params, result };
    // swap in a loop, through tuples, then an index that may be out of range
    let (mut swap, p) =
        function("swap", &[("a", i64s(1)), ("n", Type::I64), ("k", Type::I64)], pair.clone());
    let (x, y, i) =
        (swap.local("x", i64s(1)), swap.local("y", i64s(1)), swap.local("i", Type::I64));
    let both = swap.local("both", pair.clone());
    let item =
        |swap: &Function, at| Expr::new(ExprKind::Item(Box::new(swap.get(both)), at), i64s(1));
    let xy = Expr::new(ExprKind::Tuple(vec![swap.get(y), swap.get(x)]), pair.clone());
    let (first, second) = (item(&swap, 0), item(&swap, 1));
    swap.body = vec![
        set(x, swap.get(p[0])),
        set(y, zeros(vec![swap.get(p[1])], Scalar::I64)),
        range(
            0,
            i,
            Expr::int(0),
            swap.get(p[1]),
            Expr::int(1),
            vec![
                set(both, xy),
                set(x, first),
                set(y, second),
                put(&swap.get(x), vec![swap.get(p[2])], add(swap.get(i), Expr::int(1))),
            ],
        ),
        ret(swap.get(both)),
    ];
    // make(n): a fresh array, or an error while another temporary is alive
    let (mut make, p) = function("make", &[("n", Type::I64)], i64s(1));
    let n = make.get(p[0]);
    let left = zeros(vec![Expr::int(4)], Scalar::I64);
    let tree = map(&mut make, vec![left, zeros(vec![n], Scalar::I64)], |e| {
        add(e[0].clone(), e[1].clone())
    });
    make.body = vec![ret(map_expr(tree))];
    // chain: calls whose results are arguments at once, and one is chosen
    let (mut chain, p) = function("chain", &[("n", Type::I64)], i64s(1));
    chain.callees.push(Callee { name: "make".into(), signature: of(vec![Type::I64], i64s(1)) });
    let call = |n: Expr| Expr::new(ExprKind::Call(CalleeId(0), vec![n]), i64s(1));
    let (a, n) = (chain.local("a", i64s(1)), chain.get(p[0]));
    let choice = ExprKind::IfElse(
        Box::new(bin(BinaryOp::Gt, length(&call(Expr::int(4)), 0), n.clone())),
        Box::new(call(Expr::int(1))),
        Box::new(chain.get(a)),
    );
    let total = get(&call(Expr::int(4)), vec![n.clone()]);
    chain.body = vec![
        set(a, call(n.clone())),
        StmtKind::Eval(call(add(n.clone(), Expr::int(0)))).into(),
        put(&chain.get(a), vec![Expr::int(0)], total),
        set(a, Expr::new(choice, i64s(1))),
        StmtKind::Block(
            Label(9),
            vec![
                StmtKind::If(
                    bin(BinaryOp::Eq, n, Expr::int(1)),
                    vec![StmtKind::Leave(Label(9)).into()],
                    vec![],
                )
                .into(),
                set(
                    a,
                    Expr::new(
                        ExprKind::Block(vec![set(a, call(Expr::int(4)))], Box::new(chain.get(a))),
                        i64s(1),
                    ),
                ),
            ],
        )
        .into(),
        ret(chain.get(a)),
    ];
    // a structref that holds an array and another structref
    let inner = Type::Struct(Box::new(StructType {
        name: "Inner".into(),
        fields: vec![("a".into(), i64s(1))],
    }));
    let outer = Type::Struct(Box::new(StructType {
        name: "Outer".into(),
        fields: vec![
            ("n".into(), Type::I64),
            ("inner".into(), inner.clone()),
            ("x".into(), Type::F64),
        ],
    }));
    let (mut structs, p) =
        function("structs", &[("n", Type::I64), ("old", outer.clone())], outer.clone());
    let s = structs.local("s", outer.clone());
    let fresh =
        |n: Expr| Expr::new(ExprKind::NewStruct(vec![zeros(vec![n], Scalar::I64)]), inner.clone());
    let n = structs.get(p[0]);
    let attribute =
        |of: Expr, at, ty: &Type| Expr::new(ExprKind::Attribute(Box::new(of), at), ty.clone());
    let array = attribute(attribute(structs.get(s), 1, &inner), 0, &i64s(1));
    structs.body = vec![
        set(
            s,
            Expr::new(
                ExprKind::NewStruct(vec![n.clone(), fresh(n.clone()), Expr::float(0.5)]),
                outer.clone(),
            ),
        ),
        StmtKind::SetAttribute {
            object: structs.get(s),
            field: 1,
            value: fresh(add(n.clone(), Expr::int(1))),
        }
        .into(),
        StmtKind::SetAttribute {
            object: attribute(structs.get(s), 1, &inner),
            field: 0,
            value: attribute(attribute(structs.get(p[1]), 1, &inner), 0, &i64s(1)),
        }
        .into(),
        put(&array, vec![n.clone()], n),
        ret(structs.get(s)),
    ];
    let (mut seed, _) = function("seed", &[], outer.clone());
    let fields = vec![Expr::int(1), fresh(Expr::int(3)), Expr::float(1.0)];
    seed.body = vec![ret(Expr::new(ExprKind::NewStruct(fields), outer))];
    let kernels = load(&[swap, make, chain, structs, seed]);

    let before = memory::live();
    let out = "IndexError: index is out of bounds";
    let call = |name, args: &[Data]| kernels.call(name, args);
    assert_eq!(
        call("swap", &[ints(&[7, 8]), Data::Int(3), Data::Int(1)]),
        "([3][0 3 0], [2][7 2])"
    );
    assert_eq!(call("swap", &[ints(&[7, 8]), Data::Int(3), Data::Int(2)]), out);
    assert_eq!(
        call("swap", &[ints(&[7, 8]), Data::Int(-1), Data::Int(2)]),
        "ValueError: negative dimensions not allowed"
    );
    assert_eq!(call("make", &[Data::Int(4)]), "[4][0 0 0 0]");
    assert_eq!(
        call("make", &[Data::Int(3)]),
        "ValueError: unable to broadcast argument 1 to output array"
    );
    assert_eq!(
        call("make", &[Data::Int(1 << 55)]),
        "MemoryError: Allocation failed (probably too large)."
    );
    assert!(call("make", &[Data::Int(i64::MAX)]).starts_with("ValueError: array is too big"));
    assert_eq!(call("chain", &[Data::Int(1)]), "[4][0 0 0 0]");
    assert_eq!(call("chain", &[Data::Int(4)]), out);
    assert_eq!(
        call("chain", &[Data::Int(3)]),
        "ValueError: unable to broadcast argument 1 to output array"
    );
    let seed = kernels.try_call("seed", &[]).unwrap();
    assert_eq!(call("structs", &[Data::Int(2), seed.clone()]), "struct");
    assert_eq!(call("structs", &[Data::Int(3), seed.clone()]), out);
    drop(seed);
    assert_eq!(memory::live(), before);
}

/// An error that a `try` catches gives back the temporaries of its body, and none of the statement around it.
///
/// Kills: temporaries of the `try` not given back; those from before it given back there.
#[test]
fn a_try_gives_back_its_own_temporaries() {
    let _alone = alone();
    let (mut f, p) = function("f", &[("n", Type::I64)], i64s(1));
    let fresh = |length| zeros(vec![length], Scalar::I64);
    let inputs = vec![fresh(Expr::int(4)), fresh(f.get(p[0]))];
    let sum = map(&mut f, inputs, |e| add(e[0].clone(), e[1].clone()));
    let body = vec![StmtKind::Eval(map_expr(sum)).into()];
    let attempt = StmtKind::Try(body, vec![], Caught::Dropped).into();
    let behind = Expr::new(ExprKind::Block(vec![attempt], Box::new(fresh(Expr::int(2)))), i64s(1));
    let tree = map(&mut f, vec![fresh(Expr::int(2)), behind], |e| {
        add(add(e[0].clone(), e[1].clone()), Expr::int(1))
    });
    f.body = vec![ret(map_expr(tree))];
    let kernels = load(&[f]);

    let before = memory::live();
    for n in [4, 3, -1] {
        assert_eq!(kernels.call("f", &[Data::Int(n)]), "[2][1 1]", "{n}");
    }
    assert_eq!(memory::live(), before);
}

/// A local that was never assigned is empty, and reading through it is an error. Mutants: no check for null.
#[test]
fn unset_locals_are_no_memory() {
    let _alone = alone();
    let ty = Type::Struct(Box::new(StructType {
        name: "S".into(),
        fields: vec![("x".into(), Type::I64)],
    }));
    let (mut f, p) = function("f", &[("which", Type::I64)], Type::I64);
    let (s, a) = (f.local("s", ty), f.local("a", i64s(1)));
    let attribute = Expr::new(ExprKind::Attribute(Box::new(f.get(s)), 0), Type::I64);
    let element = get(&f.get(a), vec![Expr::int(0)]);
    let is_zero = bin(BinaryOp::Eq, f.get(p[0]), Expr::int(0));
    f.body = vec![StmtKind::If(is_zero, vec![ret(attribute)], vec![ret(element)]).into()];
    let kernels = load(&[f]);
    assert!(kernels.call("f", &[Data::Int(0)]).starts_with("UnboundLocalError"));
    assert_eq!(kernels.call("f", &[Data::Int(1)]), "IndexError: index is out of bounds");
}

// Records.

/// Fields lie where the layout says, aligned or not. Mutants: the offset left out; a nested record copied in part.
#[test]
fn records_are_seen_where_they_lie() {
    let _alone = alone();
    let field = |name: &str, offset, element| RecordField { name: name.into(), offset, element };
    let point = RecordType {
        fields: vec![
            field("x", 0, Element::Scalar(Scalar::F32)),
            field("y", 4, Element::Scalar(Scalar::I16)),
        ],
        size: 6,
    };
    let row = RecordType {
        fields: vec![
            field("flag", 0, Element::Scalar(Scalar::Bool)),
            field("value", 1, Element::Scalar(Scalar::F64)),
            field("at", 9, Element::Record(point.clone())),
            field("three", 15, Element::Array(Box::new(Element::Scalar(Scalar::I64)), vec![3])),
        ],
        size: 39,
    };
    let rows = Type::Array(ArrayType {
        element: Element::Record(row.clone()),
        ndim: 1,
        layout: Layout::C,
    });
    let result = Type::Tuple(vec![Type::BOOL, Type::F64, Type::Scalar(Scalar::I16), Type::I64]);
    let (mut f, p) = function("f", &[("rows", rows), ("i", Type::I64)], result.clone());
    let r = f.local("r", Type::Record(row.clone()));
    let element = |f: &Function, i| get(&f.get(p[0]), vec![i]);
    let of = |record: Expr, at: u32, ty: Type| Expr::new(ExprKind::Field(Box::new(record), at), ty);
    let three = of(f.get(r), 3, i64s(1));
    let at0 = of(element(&f, Expr::int(0)), 2, Type::Record(point.clone()));
    let at1 = of(f.get(r), 2, Type::Record(point));
    f.body = vec![
        set(r, element(&f, f.get(p[1]))),
        StmtKind::SetField { record: f.get(r), field: 0, value: Expr::bool(true) }.into(),
        StmtKind::SetField { record: f.get(r), field: 1, value: Expr::float(2.5) }.into(),
        StmtKind::SetField {
            record: at0.clone(),
            field: 1,
            value: Expr::int(-3).cast(Type::Scalar(Scalar::I16)),
        }
        .into(),
        StmtKind::SetField { record: f.get(r), field: 2, value: at0 }.into(),
        put(&three, vec![Expr::int(-1)], Expr::int(99)),
        ret(Expr::new(
            ExprKind::Tuple(vec![
                of(f.get(r), 0, Type::BOOL),
                of(element(&f, f.get(p[1])), 1, Type::F64),
                of(at1, 1, Type::Scalar(Scalar::I16)),
                get(&three, vec![Expr::int(2)]),
            ]),
            result,
        )),
    ];
    let kernels = load(&[f]);
    let array = Data::Array(ArrayData::copied(Element::Record(row), vec![2], &[0; 78]).unwrap());
    assert_eq!(kernels.call("f", &[array.clone(), Data::Int(1)]), "(true, 2.5, -3, 99)");
    assert_eq!(kernels.call("f", &[array, Data::Int(2)]), "IndexError: index is out of bounds");
}

// Threads.

/// A parallel loop gives what a plain one gives, its errors too, and gives back what its rounds made. Mutants: a chunk's
/// reduction begun with the value before the loop; the first chunk's error replaced by a later one's.
#[test]
fn parallel_loops_are_loops() {
    let _alone = alone();
    let result = Type::Tuple(vec![Type::I64, Type::I64, Type::F64]);
    let params = [("a", i64s(1)), ("out", i64s(1)), ("n", Type::I64)];
    let (mut f, p) = function("f", &params, result.clone());
    let (i, total) = (f.local("i", Type::I64), f.local("total", Type::I64));
    let (best, product) = (f.local("best", Type::I64), f.local("product", Type::F64));
    let row = f.local("row", i64s(1));
    let (a, out) = (f.get(p[0]), f.get(p[1]));
    let value = get(&a, vec![f.get(i)]);
    let rounds = For {
        label: Label(0),
        local: i,
        start: Expr::int(1),
        stop: f.get(p[2]),
        step: Expr::int(2),
        body: vec![
            set(row, zeros(vec![add(value.clone(), Expr::int(100))], Scalar::I64)),
            StmtKind::If(
                bin(BinaryOp::Eq, f.get(i), Expr::int(5)),
                vec![StmtKind::Next(Label(0)).into()],
                vec![],
            )
            .into(),
            put(&out, vec![f.get(i)], add(value.clone(), length(&f.get(row), 0))),
            set(total, add(f.get(total), value.clone())),
            set(best, bin(BinaryOp::Maximum, f.get(best), value.clone())),
            set(product, mul(f.get(product), Expr::float(2.0))),
        ],
    };
    let reductions = vec![
        Reduction { local: total, op: FoldOp::Sum },
        Reduction { local: best, op: FoldOp::Max },
        Reduction { local: product, op: FoldOp::Product },
    ];
    let items = vec![f.get(total), f.get(best), f.get(product)];
    f.body = vec![
        set(total, Expr::int(1000)),
        set(best, Expr::int(-50)),
        set(product, Expr::float(0.5)),
        StmtKind::ParFor(Box::new(ParFor { rounds, reductions })).into(),
        ret(Expr::new(ExprKind::Tuple(items), result)),
    ];
    let kernels = load(&[f]);
    let before = memory::live();
    {
        let values = [3, 10, -7, 20, 0, 30, 0, -40, 1, 50];
        let out = ints(&[0; 10]);
        let got = kernels.call("f", &[ints(&values), out.clone(), Data::Int(10)]);
        assert_eq!(got, "(1040, 50, 8.0)");
        assert_eq!(spell(&out), "[10][0 120 0 140 0 0 0 20 0 200]");
        assert_eq!(
            kernels.call("f", &[ints(&values), out.clone(), Data::Int(0)]),
            "(1000, -50, 0.5)"
        );
        let beyond = kernels.call("f", &[ints(&values), out.clone(), Data::Int(20)]);
        assert_eq!(beyond, "IndexError: index is out of bounds");
        let mut values = values;
        values[1] = -1000;
        let first = kernels.call("f", &[ints(&values), out, Data::Int(20)]);
        assert_eq!(first, "ValueError: negative dimensions not allowed");
    }
    assert_eq!(memory::live(), before);
}

// Keys.

/// The code is a function of the typed form: lowered twice it is the same, and names leave it as it is.
/// Mutants: references numbered in the order of a hash map.
#[test]
fn lowering_is_deterministic() {
    let target = Target::host().unwrap();
    let build = |name: &str| {
        let (mut f, p) = function(name, &[("a", f64s(1)), ("b", f64s(1))], f64s(1));
        let (a, b) = (f.get(p[0]), f.get(p[1]));
        let tree = map(&mut f, vec![a.clone(), b], |e| {
            let sine = Expr::new(ExprKind::Math(MathFn::Sin, vec![e[0].clone()]), Type::F64);
            bin(
                BinaryOp::Pow(OnZero::Raise),
                sine,
                Expr::new(ExprKind::Math(MathFn::Exp, vec![e[1].clone()]), Type::F64),
            )
        });
        let print = StmtKind::Print(vec![Expr::str("here"), get(&a, vec![Expr::int(3)])]);
        f.body = vec![print.into(), ret(map_expr(tree))];
        f
    };
    let text = |f: &Function| {
        let lowered = lower(f, target.isa()).unwrap();
        let clif: Vec<String> = lowered.functions.iter().map(ToString::to_string).collect();
        (clif, lowered.references)
    };
    assert_eq!(text(&build("one")), text(&build("two")));
}
