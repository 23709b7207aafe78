//! Every rule, pair by pair, against what Numba 0.65.1 answered (`numba.txt`).
//!
//! A table has a title and a line for each left operand in the order of `LETTERS`, which has a letter for each right
//! operand: the type of the result, or a point where there is none.

use super::*;

const LETTERS: &str = "?bhilBHILfdD";
const NUMBA: &str = include_str!("numba.txt");

fn types() -> Vec<Ty> {
    LETTERS.bytes().map(letter).collect()
}

fn shown(ty: Option<Ty>) -> char {
    let ty = ty.and_then(|ty| types().iter().position(|other| *other == ty));
    ty.map_or('.', |at| LETTERS.as_bytes()[at] as char)
}

fn tables() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut tables = Vec::new();
    let mut lines = NUMBA.lines().peekable();
    while let Some(title) = lines.next() {
        let count = if title == "unary" { usize::MAX } else { 12 };
        let rows = lines.by_ref().take(count).collect();
        tables.push((title, rows));
    }
    tables
}

fn scalar(name: &str, a: &Ty, b: &Ty) -> Option<Ty> {
    use BinaryOp as B;
    let op = match name {
        "add" => B::Add,
        "sub" => B::Sub,
        "mul" => B::Mul,
        "truediv" => B::Div,
        "floordiv" => B::FloorDiv,
        "mod" => B::Mod,
        "and_" => B::BitAnd,
        "lshift" => B::Shl,
        "lt" => return compare(CompareOp::Lt, a, b).map(|rule| rule.result),
        "eq" => return compare(CompareOp::Eq, a, b).map(|rule| rule.result),
        other => panic!("no operator {other}"),
    };
    binary(op, a, b).map(|rule| rule.result)
}

/// Mutant: let uint16 meet float32 in float32 on scalars too.
#[test]
fn rules_of_two_operands_are_numbas() {
    let mut seen = 0;
    for (title, rows) in tables() {
        let of = |a: &Ty, b: &Ty| match title.split_once(' ') {
            None if title == "unify" => unify(a, b),
            Some(("scalar", name)) => scalar(name, a, b),
            Some(("ufunc", name)) => {
                ufunc(name, &[a.clone(), b.clone()], None).map(|rule| rule.result)
            }
            _ => None,
        };
        if title == "unary" {
            continue;
        }
        for (a, row) in types().iter().zip(rows) {
            let ours: String = types().iter().map(|b| shown(of(a, b))).collect();
            assert_eq!(ours, row, "{title}: {a} with {LETTERS}");
            seen += 1;
        }
    }
    assert_eq!(seen, 31 * 12);
}

/// Mutant: let `-` keep the width of narrow integers.
#[test]
fn rules_of_one_operand_are_numbas() {
    let tables = tables();
    let (_, rows) = tables.last().expect("the table of ufuncs of one operand");
    for row in rows {
        let (name, theirs) = row.split_once(' ').expect("a name and letters");
        let of = |ty: &Ty| match name {
            "operator.neg" => unary(UnaryOp::Minus, ty).map(|rule| rule.result),
            "operator.invert" => unary(UnaryOp::Invert, ty).map(|rule| rule.result),
            name => ufunc(name, std::slice::from_ref(ty), None).map(|rule| rule.result),
        };
        let ours: String = types().iter().map(|ty| shown(of(ty))).collect();
        assert_eq!(ours, theirs, "{name} of {LETTERS}");
    }
}

#[test]
fn results_written_in_place_stay_within_their_kind() {
    let into = |result: &Ty, with: &Ty| {
        ufunc("add", &[result.clone(), with.clone()], Some(result)).map(|rule| rule.result)
    };
    assert_eq!(into(&Ty::I8, &Ty::I64), Some(Ty::I64));
    assert_eq!(into(&Ty::I64, &Ty::Float64), None);
    assert_eq!(into(&Ty::Float32, &Ty::Float64), Some(Ty::Float64));
}

#[test]
fn types_that_meet_on_paths() {
    let array = |layout| Ty::array(Ty::I64, 2, layout);
    assert_eq!(unify(&array(Layout::C), &array(Layout::F)), Some(array(Layout::A)));
    assert_eq!(unify(&Ty::None, &Ty::I64), Some(Ty::Optional(Arc::new(Ty::I64))));
    assert_eq!(
        unify(&Ty::Optional(Arc::new(Ty::I64)), &Ty::Float64),
        Some(Ty::Optional(Arc::new(Ty::Float64)))
    );
    assert_eq!(
        unify(&Ty::tuple([Ty::I64, Ty::I64]), &Ty::tuple([Ty::Float64, Ty::I64])),
        Some(Ty::tuple([Ty::Float64, Ty::I64]))
    );
    assert_eq!(unify(&array(Layout::C), &Ty::I64), None);
}
