//! The types that kernels get, against what Numba 0.65.1 answered for the same kernels, and what is refused.

use super::*;
use crate::kernel::parse::parse_module;
use crate::kernel::source::Source;
use crate::kernel::syntax::{self, ExprKind, StmtKind};
use crate::kernel::types::{ArrayTy, Layout};
use crate::kernel::value::{Builtin, Function, KernelKind, Module, Shared};

/// A program of kernels alone: every `def` is one, and other names are modules, builtins and types.
struct Plain {
    memo: Memo,
    kernels: Vec<Arc<KernelDef>>,
}

fn module(name: &'static str) -> Arc<Module> {
    Arc::new(Module {
        name: name.into(),
        source: None,
        package: "".into(),
        folder: None,
        globals: Shared::default(),
    })
}

fn value(expr: &syntax::Expr) -> Value {
    match &expr.kind {
        ExprKind::Int(value) => Value::Int(*value),
        ExprKind::Float(value) => Value::Float(*value),
        ExprKind::Bool(value) => Value::Bool(*value),
        _ => Value::None,
    }
}

impl Plain {
    fn new(text: &str) -> Self {
        let source = Arc::new(Source::new("test.py", None, text));
        let parsed = parse_module(&source).unwrap_or_else(|_| panic!("{text} does not parse"));
        let main = module("__main__");
        let kernels = parsed.body.iter().filter_map(|stmt| {
            let StmtKind::Def(function) = &stmt.kind else { return None };
            let default = |param: &syntax::Param| param.default.as_ref().map(value);
            let closure = Arc::new(Function {
                syntax: function.clone(),
                module: main.clone(),
                cells: Vec::new(),
                defaults: function.params.positional.iter().map(default).collect(),
                keyword_defaults: function.params.keyword_only.iter().map(default).collect(),
                qualified_name: function.name.clone(),
                class: Shared::default(),
            });
            Some(Arc::new(KernelDef {
                function: function.clone(),
                closure,
                kind: KernelKind::Jit,
                options: Vec::new(),
                signatures: Vec::new(),
                ordinal: 1,
                decorator_span: function.name_span,
            }))
        });
        Plain { memo: Memo::default(), kernels: kernels.collect() }
    }

    fn kernel(&self, name: &str) -> Option<Arc<KernelDef>> {
        self.kernels.iter().find(|def| &**def.name() == name).cloned()
    }

    fn returns(&mut self, args: &[Ty]) -> Result<String, String> {
        let def = self.kernels.last().cloned().expect("a kernel");
        specialise(&def, args, self)
            .map(|made| made.returns.to_string())
            .map_err(|refused| refused.message)
    }
}

impl World for Plain {
    fn memo(&mut self) -> &mut Memo {
        &mut self.memo
    }

    fn known_return(&mut self, _: &Arc<KernelDef>, _: &[Ty]) -> Option<Ty> {
        None
    }

    fn free(&mut self, _: &Arc<KernelDef>, name: &str) -> Result<Option<Value>, Diagnostic> {
        Ok(match name {
            "np" => Some(Value::Module(module("numpy"))),
            "math" => Some(Value::Module(module("math"))),
            "prange" => Some(Value::Builtin(Builtin("numba.prange"))),
            "int8" => Some(Value::Type(Ty::I8)),
            "uint64" => Some(Value::Type(Ty::U64)),
            "float32" => Some(Value::Type(Ty::Float32)),
            "LIMIT" => Some(Value::Int(10)),
            _ => {
                self.kernel(name).map(Value::Kernel).or_else(|| crate::kernel::host::builtin(name))
            }
        })
    }

    fn attribute(&mut self, of: &Value, name: &str) -> Result<Option<Value>, Diagnostic> {
        Ok(crate::kernel::host::static_attribute(of, name))
    }

    fn overload(
        &mut self,
        _: &Value,
        _: &[Ty],
        _: &[(Arc<str>, Ty)],
    ) -> Result<Option<Arc<KernelDef>>, Diagnostic> {
        Ok(None)
    }

    fn overload_method(
        &mut self,
        _: &Ty,
        _: &str,
        _: &[Ty],
        _: &[(Arc<str>, Ty)],
    ) -> Result<Option<Arc<KernelDef>>, Diagnostic> {
        Ok(None)
    }

    fn structref(&mut self, _: &Value, _: &[Ty]) -> Result<Option<Arc<StructRefTy>>, Diagnostic> {
        Ok(None)
    }
}

/// A type by a short name: `int8`, `int8[:]`, `int8[:,:]`.
fn ty(name: &str) -> Ty {
    if let Some((element, axes)) = name.split_once('[') {
        return Ty::array(ty(element), axes.matches(':').count() as u8, Layout::C);
    }
    match name {
        "bool" => Ty::Bool,
        "int8" => Ty::I8,
        "int16" => Ty::I16,
        "int32" => Ty::I32,
        "int64" => Ty::I64,
        "uint8" => Ty::U8,
        "uint64" => Ty::U64,
        "float32" => Ty::Float32,
        "float64" => Ty::Float64,
        "complex128" => Ty::Complex128,
        "none" => Ty::None,
        other => panic!("no type {other}"),
    }
}

fn types(names: &str) -> Vec<Ty> {
    names.split_whitespace().map(ty).collect()
}

/// An expression of `a` and `b`, the types of the two, and Numba's answer.
const EXPRESSIONS: &[(&str, &str, &str)] = &[
    ("abs(a)", "int8", "int8"),
    ("abs(a)", "complex128", "float64"),
    ("int(a)", "int16", "int16"),
    ("int(a)", "uint64", "uint64"),
    ("int(a)", "float32", "int64"),
    ("float(a)", "float32", "float32"),
    ("float(a)", "int8", "float64"),
    ("round(a)", "float64", "int64"),
    ("round(a, 1)", "float64", "float64"),
    ("round(a, 1)", "int32", "float64"),
    ("min(a, 1)", "uint64", "float64"),
    ("min(a, 1)", "int16", "int64"),
    ("divmod(a, a)", "uint8", "UniTuple(uint64 x 2)"),
    ("a / a", "int8", "float64"),
    ("a ** 2", "uint8", "int64"),
    ("a ** 2", "float32", "float32"),
    ("a ** b", "float32 int64", "float32"),
    ("2 ** -1", "int64", "float64"),
    ("-a", "uint8", "uint64"),
    ("~a", "int8", "int64"),
    ("a << b", "uint8 int64", "uint64"),
    ("a and b", "bool uint8", "uint8"),
    ("a if b else 1", "float64 bool", "float64"),
    ("a < b < 3", "int64 float64", "bool"),
    ("(a, b)[1]", "int64 float64", "float64"),
    ("(a, b)[::-1]", "int64 float64", "Tuple(float64, int64)"),
    ("a + (1,)", "int64", "!"),
    ("math.floor(a)", "float32", "int64"),
    ("math.floor(a)", "uint8", "uint64"),
    ("math.sqrt(a)", "float32", "float32"),
    ("math.sqrt(a)", "int64", "float64"),
    ("len(range(a))", "int32", "int64"),
    ("np.sum(a)", "uint8[:]", "uint64"),
    ("np.sum(a)", "bool[:]", "int64"),
    ("np.sum(a)", "float32[:]", "float32"),
    ("np.sum(a, axis=0)", "int8[:,:]", "array(int64, 1d, C)"),
    ("np.mean(a)", "float32[:]", "float64"),
    ("np.mean(a)", "uint8[:]", "float64"),
    ("np.var(a)", "float32[:]", "float64"),
    ("np.min(a)", "int8[:]", "int8"),
    ("np.cumsum(a)", "uint8[:]", "array(uint8, 1d, C)"),
    ("np.cumsum(a)", "int8[:]", "array(int64, 1d, C)"),
    ("np.argmin(a)", "float64[:]", "int64"),
    ("np.sort(a)", "int16[:]", "array(int16, 1d, C)"),
    ("np.median(a)", "int16[:]", "float64"),
    ("np.clip(a, 0, 1)", "uint8[:]", "array(uint8, 1d, C)"),
    ("np.where(a > 0, a, 0)", "int8[:]", "array(int64, 1d, C)"),
    ("np.where(a > 0, a, 0)", "uint64[:]", "array(float64, 1d, C)"),
    ("np.full(3, a)", "int16", "array(int16, 1d, C)"),
    ("np.arange(a)", "int8", "array(int64, 1d, C)"),
    ("np.linspace(0, 1, 3) * a", "int8", "array(float64, 1d, C)"),
    ("np.abs(a)", "complex128", "float64"),
    ("np.sqrt(a)", "int16[:]", "array(float32, 1d, C)"),
    ("np.zeros_like(a)", "bool[:]", "array(bool, 1d, C)"),
    ("sum(a)", "float32[:]", "float64"),
    ("a + b", "int64[:] float32[:]", "array(float32, 1d, C)"),
    ("a * 2", "int8[:]", "array(int64, 1d, C)"),
    ("a[:, None] - b", "int64[:] int64[:]", "array(int64, 2d, C)"),
    ("a[1:]", "int64[:]", "array(int64, 1d, C)"),
    ("a[::2]", "int64[:]", "array(int64, 1d, A)"),
    ("a[0]", "int64[:,:]", "array(int64, 1d, C)"),
    ("a[:, 0]", "int64[:,:]", "array(int64, 1d, A)"),
    ("a[0, 1:]", "int64[:,:]", "array(int64, 1d, C)"),
    ("a[1:, 0:2]", "int64[:,:]", "array(int64, 2d, A)"),
    ("a[...]", "int64[:,:]", "array(int64, 2d, C)"),
    ("a.T", "int64[:,:]", "array(int64, 2d, F)"),
    ("a.T + 1", "int64[:,:]", "array(int64, 2d, F)"),
    ("a.real", "complex128[:]", "array(float64, 1d, A)"),
    ("a.shape", "int64[:,:]", "UniTuple(int64 x 2)"),
    ("a[a > 2]", "int64[:]", "array(int64, 1d, C)"),
    ("np.array([1, 2.5])", "int64", "array(float64, 1d, C)"),
    ("(lambda x, k=3: x * k)(a)", "float64", "float64"),
];

/// Mutant: let `int(x)` widen.
#[test]
fn expressions_have_numbas_types() {
    let mut wrong = Vec::new();
    for (expression, args, numba) in EXPRESSIONS {
        let args = types(args);
        let params = if args.len() == 1 { "a" } else { "a, b" };
        let mut plain = Plain::new(&format!("def f({params}):\n    return {expression}\n"));
        let ours = plain.returns(&args);
        match ours {
            Ok(ours) if ours == *numba => {}
            Err(_) if *numba == "!" => {}
            other => wrong.push(format!("{expression} of {args:?}: {other:?}, Numba: {numba}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn typed(text: &str, args: &str) -> String {
    let args = types(args);
    Plain::new(text).returns(&args).unwrap_or_else(|refused| format!("refused: {refused}"))
}

#[test]
fn a_variable_takes_the_type_that_unifies_its_paths() {
    let text = "def f(n):\n    x = 0\n    for i in range(n):\n        x = x + 0.5\n    return x\n";
    assert_eq!(typed(text, "int64"), "float64");
    let text =
        "def f(n):\n    if n > 1:\n        x = 1\n    else:\n        x = 2.5\n    return x\n";
    assert_eq!(typed(text, "int64"), "float64");
    // Redefined, not unified.
    let text = "def f(n):\n    x = 1.5\n    y = x\n    x = n\n    return x\n";
    assert_eq!(typed(text, "int64"), "int64");
    let text = "def f(n):\n    while n > 0:\n        n -= 1\n        k = n\n    return k\n";
    assert_eq!(typed(text, "int64"), "int64");
    let text = "def f(n):\n    for i in range(n):\n        if i > 0:\n            y = last\n        last = i * 0.5\n    return last\n";
    assert_eq!(typed(text, "int64"), "float64");
}

/// A path that leaves a loop early must not run the conversions of the path that runs out of rounds.
///
/// Mutant: let `break` go right behind the loop.
#[test]
fn conversions_after_the_last_round_are_not_reached_by_a_break() {
    let text = "def f(n, x):\n    for i in range(n):\n        x = x + 0.5\n        if i >= 0:\n            break\n        x = 1\n    return x\n";
    let mut plain = Plain::new(text);
    let def = plain.kernel("f").expect("f");
    let made = specialise(&def, &[Ty::I64, Ty::Float32], &mut plain).expect("it is typed");
    let outer = made.function.body.iter().find_map(|stmt| match &stmt.kind {
        ir::StmtKind::Block(label, body) => Some((*label, body)),
        _ => None,
    });
    let (exit, body) = outer.expect("a block around the loop");
    assert!(matches!(body[0].kind, ir::StmtKind::Assign(..) | ir::StmtKind::For(_)));
    assert!(format!("{body:?}").contains(&format!("Leave({exit:?})")));
}

/// Numba compiles an array expression to one scalar function: `(a + a) * b` of int8 is computed in int64.
///
/// Mutant: give each operator the element type of its own array.
#[test]
fn array_expressions_are_narrowed_once() {
    let mut plain = Plain::new("def f(a, b):\n    return (a + a) * b\n");
    let def = plain.kernel("f").expect("f");
    let args = [ty("int8[:]"), Ty::I8];
    let made = specialise(&def, &args, &mut plain).expect("it is typed");
    assert_eq!(made.returns, ty("int8[:]"));
    let shown = format!("{:?}", made.function.body);
    assert_eq!(shown.matches("Map(").count(), 1, "{shown}");
    assert!(
        !shown.contains("Binary(Add, Expr { kind: Local(LocalId(2)), ty: Scalar(I8) }"),
        "{shown}"
    );
}

#[test]
fn returns_of_none_make_the_result_optional() {
    let text = "def f(a):\n    if a == 0:\n        return None\n    return a / 2\n";
    assert_eq!(typed(text, "int64"), "OptionalType(float64)");
    assert_eq!(typed("def f(a):\n    a[0] = 1\n", "int64[:]"), "none");
}

#[test]
fn branches_on_none_are_pruned() {
    let text = "def f(a, b):\n    if b is None:\n        return a\n    return a + b\n";
    assert_eq!(typed(text, "int64 none"), "int64");
    assert_eq!(typed(text, "int64 float64"), "float64");
}

#[test]
fn recursion_takes_its_type_from_the_paths_that_end() {
    let text = "def f(n):\n    if n < 2:\n        return n\n    return f(n - 1) + f(n - 2)\n";
    assert_eq!(typed(text, "int64"), "int64");
    let text = "def odd(n):\n    if n == 0:\n        return False\n    return even(n - 1)\ndef even(n):\n    if n == 0:\n        return True\n    return odd(n - 1)\n";
    assert_eq!(typed(text, "int64"), "bool");
    let text = "def f(n):\n    return f(n)\n";
    assert!(typed(text, "int64").starts_with("refused: the return type of `f`"));
}

#[test]
fn callees_are_listed_once_in_the_order_of_their_first_use() {
    let text = "def g(x):\n    return x\ndef h(x, k=2):\n    return x * k\ndef f(x):\n    return h(x) + g(x) + g(x + 1) + g(0.5)\n";
    let mut plain = Plain::new(text);
    let def = plain.kernel("f").expect("f");
    let made = specialise(&def, &[Ty::I64], &mut plain).expect("it is typed");
    let shown: Vec<String> = made
        .callees
        .iter()
        .map(|callee| {
            let args: Vec<String> = callee.args.iter().map(Ty::to_string).collect();
            format!("{}({}) -> {}", callee.def.name(), args.join(", "), callee.returns)
        })
        .collect();
    let expected =
        ["h(int64, omitted(default=2)) -> int64", "g(int64) -> int64", "g(float64) -> float64"];
    assert_eq!(shown, expected);
    assert_eq!(made.function.callees.len(), 3);
}

#[test]
fn local_functions_are_inlined_with_what_they_capture() {
    let text = "def f(x, k):\n    half = lambda v: v / 2\n    def both(v):\n        if v > k:\n            return half(v)\n        return 0.0\n    return both(x)\n";
    assert_eq!(typed(text, "int64 int64"), "float64");
    let mut plain = Plain::new(text);
    let def = plain.kernel("f").expect("f");
    let made = specialise(&def, &[Ty::I64, Ty::I64], &mut plain).expect("it is typed");
    assert!(made.callees.is_empty());
}

#[test]
fn the_prelude_has_a_type_for_each_of_its_functions() {
    for call in [
        "np.eye(3)",
        "np.arange(1, 5, 2)",
        "np.arange(0.0, 1.0, 0.25)",
        "np.argsort(a)",
        "np.argmax(a)",
        "np.argmax(m, axis=1)",
        "np.cumprod(a)",
        "np.dot(m, m)",
        "np.dot(m, a)",
        "np.dot(a, m)",
        "np.dot(a, a)",
        "np.outer(a, a)",
        "np.diff(a)",
        "np.trace(m)",
        "np.flip(a)",
        "np.median(m)",
        "np.array_equal(a, a)",
        "np.isclose(a, a)",
        "np.allclose(a, a)",
        "np.searchsorted(a, 0.5)",
        "np.searchsorted(a, a)",
        "np.unique(a)",
        "np.repeat(a, 2)",
        "np.roll(a, 1)",
        "np.ptp(a)",
        "np.concatenate((a, a))",
        "np.nansum(a)",
        "np.nanmean(a)",
        "np.nanmin(a)",
        "np.interp(0.5, a, a)",
        "np.diag(m)",
        "np.convolve(a, a)",
        "np.nonzero(a)",
        "np.count_nonzero(a)",
        "np.sort(m)",
        "np.round(a, 2)",
        "a.item()",
        "a.astype(np.int8)",
        "m.reshape(4)",
        "m.flatten()",
        "0.5 in a",
        "a[np.argsort(a)]",
        "math.modf(0.5)",
        "math.gcd(4, 6)",
        "np.std(a)",
        "np.linspace(0, 1, 4)",
    ] {
        let made = typed(&format!("def f(a, m):\n    return {call}\n"), "float64[:] float64[:,:]");
        assert!(!made.starts_with("refused"), "{call}: {made}");
    }
}

#[test]
fn statements_over_arrays_are_typed() {
    for statement in [
        "a[1:] -= a[:-1].copy()",
        "a += 1",
        "a[a > 1] = 0",
        "a[a > 1] += 1",
        "m[1:3, 1:3] = 0",
        "m[0] = 9",
        "m[:, -1] = a",
        "a[0], a[1] = a[1], a[0]",
        "a.fill(1)",
        "a.sort()",
        "for i, (x, y) in enumerate(zip(a, m)):\n        a[i] = x + y[0]",
        "for k in (-1, 0, 1):\n        a[k] = 1",
        "print(\"a\", a[0], 1)",
        "assert a.size > 0, \"empty\"",
        "if a[0] < 0:\n        raise ValueError(\"negative\")",
        "for i in prange(4):\n        a[i] = i",
    ] {
        let made = typed(&format!("def f(a, m):\n    {statement}\n"), "float64[:] float64[:,:]");
        assert_eq!(made, "none", "{statement}");
    }
}

#[test]
fn what_kernels_cannot_do_is_refused_with_a_word_on_it() {
    for (statement, word) in [
        ("with a as b:\n        pass", "with"),
        ("try:\n        a[0] = 1\n    except ValueError:\n        pass", "catch `Exception`"),
        ("x = {}", "dict"),
        ("x = [1, 2]", "lists"),
        ("return lambda v: v", "cannot leave"),
        ("return unknown", "not defined"),
        ("return a + \"x\"", "`+`"),
        ("if a:\n        return 1", "neither true nor false"),
        ("x = (1, 2.5)\n    return x[len(a)]", "constant"),
        ("y = x\n    x = 1", "before it has a value"),
        ("a[0] = 1j", "cannot become"),
        ("return np.random.rand()", ""),
    ] {
        let source =
            Arc::new(Source::new("test.py", None, format!("def f(a):\n    {statement}\n")));
        let Ok(_) = parse_module(&source) else { continue };
        let made = typed(&format!("def f(a):\n    {statement}\n"), "float64[:]");
        assert!(made.starts_with("refused") && made.contains(word), "{statement}: {made}");
    }
}

#[test]
fn captured_arrays_are_read_only() {
    let readonly =
        Ty::Array(Arc::new(ArrayTy { dtype: Ty::I64, ndim: 1, layout: Layout::C, readonly: true }));
    let mut plain = Plain::new("def f(a):\n    a[0] = 1\n");
    assert!(plain.returns(std::slice::from_ref(&readonly)).is_err());
    let mut plain = Plain::new("def f(a):\n    return a[0]\n");
    assert_eq!(plain.returns(&[readonly]), Ok("int64".into()));
}
