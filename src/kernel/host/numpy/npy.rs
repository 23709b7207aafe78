//! The `.npy` file format, version 1.0 (and 2.0 for reading).
//!
//! ```text
//!   \x93NUMPY 1 0 | u16 length | {'descr': '<f8', 'fortran_order': False, 'shape': (3,), } padded to 64 | elements
//! ```

use std::sync::Arc;

use crate::kernel::{
    array::Array,
    dtype::{DType, RecordLayout},
    exception::ExceptionKind as E,
    format::array::shape as show_shape,
    host::error::{raise, refuse},
    parse,
    source::Source,
    syntax::{Expr, ExprKind, UnaryOp},
    value::Run,
};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The bytes of a file that holds an array.
pub(super) fn write(array: &Array) -> Vec<u8> {
    let fortran = array.is_f_contiguous() && !array.is_c_contiguous();
    let described = match array.dtype() {
        DType::Record(_) => array.dtype().to_string(),
        other => format!("'{}'", other.code()),
    };
    let mut header = format!(
        "{{'descr': {described}, 'fortran_order': {}, 'shape': {}, }}",
        if fortran { "True" } else { "False" },
        show_shape(array.shape()),
    );
    let length = (MAGIC.len() + 4 + header.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    header.extend(std::iter::repeat_n(' ', length - header.len() - 1));
    header.push('\n');
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend((length as u16).to_le_bytes());
    out.extend(header.bytes());
    out.extend(if fortran { array.transposed().to_bytes() } else { array.to_bytes() });
    out
}

/// The array that a file holds.
pub(super) fn read(bytes: &[u8]) -> Run<Array> {
    let damaged = || raise(E::ValueError, "Cannot load file: it is no .npy file, or damaged");
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return damaged() };
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (u16::from_le_bytes([*a, *b]) as usize, rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return damaged(),
    };
    let (Some(header), Some(data)) = (rest.get(..length), rest.get(length..)) else {
        return damaged();
    };
    let Ok(header) = std::str::from_utf8(header) else { return damaged() };
    let source = Arc::new(Source::new("<npy>", None, header.trim()));
    let Ok(Expr { kind: ExprKind::Dict(items), .. }) = parse::parse_expression(&source) else {
        return damaged();
    };
    let (mut dtype, mut fortran, mut shape) = (None, false, None);
    for (key, value) in &items {
        let Some(Expr { kind: ExprKind::Str(key), .. }) = key else { return damaged() };
        match (&**key, &value.kind) {
            ("descr", _) => dtype = described(value),
            ("fortran_order", ExprKind::Bool(v)) => fortran = *v,
            ("shape", ExprKind::Tuple(sizes)) => {
                shape = sizes
                    .iter()
                    .map(|size| match size.kind {
                        ExprKind::Int(n) => usize::try_from(n).ok(),
                        _ => None,
                    })
                    .collect::<Option<Vec<usize>>>();
            }
            _ => return damaged(),
        }
    }
    let Some(mut shape) = shape else { return damaged() };
    let Some(dtype) = dtype else {
        return refuse(
            "this file's dtype is not supported",
            "save it with one that is, as float64",
        );
    };
    if fortran {
        shape.reverse();
    }
    let Some(array) = Array::zeros(dtype, &shape) else { return damaged() };
    let size = array.dtype().size();
    if data.len() != array.len() * size {
        return damaged();
    }
    if size > 0 {
        for (at, element) in array.offsets().zip(data.chunks_exact(size)) {
            array.set_bytes(at, element);
        }
    }
    Ok(if fortran { array.transposed() } else { array })
}

fn described(value: &Expr) -> Option<DType> {
    match &value.kind {
        ExprKind::Str(code) => DType::named(code),
        ExprKind::List(fields) => {
            let fields = fields.iter().map(|field| match &field.kind {
                ExprKind::Tuple(parts) => match parts.as_slice() {
                    [Expr { kind: ExprKind::Str(name), .. }, dtype] => {
                        Some((name.clone(), described(dtype)?))
                    }
                    _ => None,
                },
                _ => None,
            });
            let fields: Vec<_> = fields.collect::<Option<_>>()?;
            Some(DType::Record(Arc::new(RecordLayout::new(fields, false))))
        }
        ExprKind::Unary { op: UnaryOp::Plus, value } => described(value),
        _ => None,
    }
}
