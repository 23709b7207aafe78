//! Contractions: MatMul, Gemm, Einsum.

use super::{Args, Lowered, Stop, Type, broadcast, numbers, wrong};
use crate::graph::node::{Float, Op};
use crate::graph::tensor::Dims;

pub(super) fn is_known(op: &str) -> bool {
    ["MatMul", "Gemm", "Einsum"].contains(&op)
}

pub(super) fn lower(args: &Args<'_>) -> Option<Result<Lowered, Stop>> {
    Some(match args.node.op.as_str() {
        "MatMul" => mat_mul(args),
        "Gemm" => gemm(args),
        "Einsum" => einsum(args),
        _ => return None,
    })
}

fn mat_mul(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(2)?;
    let element = args.only(0, numbers)?;
    args.same(0, 1)?;
    let (a, b) = (args.dims(0)?, args.dims(1)?);
    let mismatch =
        || wrong(format!("input 0 of shape {a:?} and input 1 of shape {b:?} cannot be multiplied"));
    if a.is_empty() || b.is_empty() {
        return mismatch();
    }
    // A vector is a row on the left and a column on the right.
    let (batch_a, rows, inner_a) = match a {
        [n] => (&a[..0], None, *n),
        [batch @ .., m, n] => (batch, Some(*m), *n),
        [] => return mismatch(),
    };
    let (batch_b, inner_b, columns) = match b {
        [n] => (&b[..0], *n, None),
        [batch @ .., n, p] => (batch, *n, Some(*p)),
        [] => return mismatch(),
    };
    let Ok(mut dims) = broadcast([(0, batch_a), (1, batch_b)]) else { return mismatch() };
    if inner_a != inner_b {
        return mismatch();
    }
    dims.extend(rows);
    dims.extend(columns);
    Ok(Lowered::kernel(Op::MatMul, [0, 1], Type { element, dims }))
}

fn gemm(args: &Args<'_>) -> Result<Lowered, Stop> {
    args.limit(3)?;
    let element = args.only(0, numbers)?;
    args.same(0, 1)?;
    let (trans_a, trans_b) = (args.flag("transA", false), args.flag("transB", false));
    let (a, b) = (args.dims(0)?, args.dims(1)?);
    let (&[a0, a1], &[b0, b1]) = (a, b) else {
        return wrong(format!(
            "input 0 of shape {a:?} and input 1 of shape {b:?} are not matrices"
        ));
    };
    let (m, k) = if trans_a { (a1, a0) } else { (a0, a1) };
    let (l, n) = if trans_b { (b1, b0) } else { (b0, b1) };
    if k != l {
        return wrong(format!(
            "input 0 of shape {a:?} and input 1 of shape {b:?} cannot be multiplied"
        ));
    }
    let dims: Dims = [m, n].as_slice().into();
    let mut inputs = vec![0, 1];
    if args.has(2) {
        args.same(0, 2)?;
        let c = args.dims(2)?;
        if !matches!(broadcast([(0, &dims[..]), (2, c)]), Ok(all) if all == dims) {
            return wrong(format!("input 2 of shape {c:?} cannot be broadcast to {dims:?}"));
        }
        inputs.push(2);
    }
    let op = Op::Gemm {
        alpha: Float::from(args.float("alpha", 1.0)),
        beta: Float::from(args.float("beta", 1.0)),
        trans_a,
        trans_b,
    };
    Ok(Lowered::kernel(op, inputs, Type { element, dims }))
}

/// The label of an axis that an ellipsis stands for, counted from the last.
const ELLIPSIS: u8 = 128;

fn einsum(args: &Args<'_>) -> Result<Lowered, Stop> {
    let facts = args.all()?;
    let element = args.only(0, numbers)?;
    let Some(equation) = args.node.text("equation") else { return wrong("it has no equation") };
    let bad = |what: &str| wrong(format!("the equation \"{equation}\" {what}"));
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&*text, None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != facts.len() {
        return bad(&format!("has {} terms for {} inputs", terms.len(), facts.len()));
    }
    let mut sizes: [Option<usize>; 256] = [None; 256];
    let mut widest = 0;
    let mut labels = Vec::new();
    for (index, (term, fact)) in terms.iter().zip(&facts).enumerate() {
        args.same(0, index)?;
        let Some((before, after)) = letters(term) else { return bad("has more than letters") };
        let named = before.len() + after.as_ref().map_or(0, Vec::len);
        let rank = fact.dims.len();
        let hidden = rank.checked_sub(named).filter(|&hidden| hidden == 0 || after.is_some());
        let Some(hidden) = hidden.filter(|&hidden| hidden < 64) else {
            return wrong(format!(
                "the term \"{term}\" does not fit input {index} of shape {:?}",
                fact.dims
            ));
        };
        widest = widest.max(hidden);
        let mut all = before;
        all.extend((0..hidden as u8).rev().map(|place| ELLIPSIS + place));
        all.extend(after.unwrap_or_default());
        for (&label, &dim) in all.iter().zip(&fact.dims) {
            let known = &mut sizes[usize::from(label)];
            match *known {
                None | Some(1) => *known = Some(dim),
                Some(size) if dim == size || dim == 1 => {}
                Some(size) => {
                    return wrong(format!(
                        "an axis of input {index} of shape {:?} has {dim} places where another input has {size}",
                        fact.dims
                    ));
                }
            }
        }
        labels.push(all);
    }
    let ellipsis = || (0..widest as u8).rev().map(|place| ELLIPSIS + place);
    let output: Vec<u8> = match right {
        Some(term) => {
            let Some((before, after)) = letters(term) else { return bad("has more than letters") };
            let hidden = after.is_some().then(ellipsis).into_iter().flatten();
            before.into_iter().chain(hidden).chain(after.iter().flatten().copied()).collect()
        }
        None => {
            // What stands once in all the terms, in alphabetical order.
            let count = |label: u8| labels.iter().flatten().filter(|l| **l == label).count();
            ellipsis().chain((b'A'..=b'z').filter(|&label| count(label) == 1)).collect()
        }
    };
    let mut dims = Dims::new();
    for (place, &label) in output.iter().enumerate() {
        match sizes[usize::from(label)] {
            Some(size) if !output[..place].contains(&label) => dims.push(size),
            _ => return bad("has an output that is no choice of its inputs' axes"),
        }
    }
    let op = Op::Einsum { inputs: labels, output };
    Ok(Lowered::kernel(op, 0..facts.len(), Type { element, dims }))
}

/// The letters of a term before its ellipsis, and those after it if it has one.
fn letters(term: &str) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let plain = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphabetic()).then(|| text.as_bytes().to_vec())
    };
    match term.split_once("...") {
        None => Some((plain(term)?, None)),
        Some((before, after)) => Some((plain(before)?, Some(plain(after)?))),
    }
}
