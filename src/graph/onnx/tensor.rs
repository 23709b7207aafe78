//! Tensors of ONNX files: four ways to hold elements.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};

use bytes::Bytes;

use super::proto::TensorProto;

use crate::graph::error::GraphError;
use crate::graph::tensor::{ElementType, Tensor, byte_length};

/// The element type of this number in `TensorProto.DataType`.
pub(crate) fn element_type(number: i32) -> Result<ElementType, String> {
    Ok(match number {
        1 => ElementType::F32,
        2 => ElementType::U8,
        3 => ElementType::I8,
        4 => ElementType::U16,
        5 => ElementType::I16,
        6 => ElementType::I32,
        7 => ElementType::I64,
        9 => ElementType::Bool,
        11 => ElementType::F64,
        12 => ElementType::U32,
        13 => ElementType::U64,
        _ => {
            let name = match number {
                8 => "string",
                10 => "float16",
                14 => "complex64",
                15 => "complex128",
                16 => "bfloat16",
                17..=20 => "8-bit floating-point",
                21 | 22 => "4-bit integer",
                _ => return Err(format!("the element type {number} is not supported")),
            };
            return Err(format!("elements of type {name} are not supported"));
        }
    })
}

/// Reads a tensor. External data lies in `folder`; without one there may be none.
pub(super) fn decode(proto: &TensorProto, folder: Option<&Path>) -> Result<Tensor, GraphError> {
    let invalid =
        |reason: String| GraphError::invalid(format!("tensor \"{}\"", proto.name), reason);
    let element = element_type(proto.data_type).map_err(invalid)?;
    let mut dims = Vec::with_capacity(proto.dims.len());
    for &dim in &proto.dims {
        let dim = usize::try_from(dim)
            .map_err(|_| invalid(format!("the dimension {dim} is negative")))?;
        dims.push(dim);
    }
    let length = byte_length(element, &dims)
        .ok_or_else(|| invalid(format!("the shape {dims:?} is too large")))?;
    const EXTERNAL: i32 = 1;
    let bytes = if proto.data_location == EXTERNAL {
        Bytes::from(external(proto, folder, length).map_err(invalid)?)
    } else if let Some(raw) = &proto.raw_data {
        raw.clone()
    } else {
        Bytes::from(fields(proto, element))
    };
    Tensor::from_bytes(element, &dims, &bytes).ok_or_else(|| {
        invalid(format!(
            "{} bytes of data, but {element} in the shape {dims:?} take {length}",
            bytes.len()
        ))
    })
}

/// The elements from the field that their type has, as little-endian bytes.
fn fields(proto: &TensorProto, element: ElementType) -> Vec<u8> {
    let narrow = |size: usize| {
        let bytes = proto.int32_data.iter().map(move |value| value.to_le_bytes());
        bytes.flat_map(|bytes| bytes.into_iter().take(size)).collect()
    };
    match element {
        ElementType::F32 => proto.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ElementType::F64 => proto.double_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ElementType::I64 => proto.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ElementType::U64 => proto.uint64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ElementType::U32 => {
            proto.uint64_data.iter().flat_map(|v| (*v as u32).to_le_bytes()).collect()
        }
        ElementType::Bool => proto.int32_data.iter().map(|value| u8::from(*value != 0)).collect(),
        _ => narrow(element.size()),
    }
}

/// The elements from a file beside the model.
fn external(proto: &TensorProto, folder: Option<&Path>, length: usize) -> Result<Vec<u8>, String> {
    let folder = folder.ok_or("its data lies in a file, and no folder is known")?;
    let entry = |key: &str| proto.external_data.iter().find(|e| e.key == key).map(|e| &*e.value);
    let location = Path::new(entry("location").ok_or("its data lies in no file")?);
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !location.components().all(plain) {
        return Err(format!("its data lies outside of the model's folder: {}", location.display()));
    }
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{key} \"{text}\" of its data is no number")),
        },
    };
    let offset = number("offset")?.unwrap_or(0);
    if number("length")?.is_some_and(|said| said != length as u64) {
        return Err(format!("its data is said to have another length than {length} bytes"));
    }
    let path = folder.join(location);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // A link may lead anywhere.
    let (real, root) =
        (path.canonicalize().map_err(failed)?, folder.canonicalize().map_err(failed)?);
    if !real.starts_with(&root) {
        return Err(format!("its data lies outside of the model's folder: {}", location.display()));
    }
    let mut file = File::open(&real).map_err(failed)?;
    let whole = file.metadata().map_err(failed)?.len();
    if offset.checked_add(length as u64).is_none_or(|end| end > whole) {
        return Err(format!(
            "{} has {whole} bytes, too few for {length} from {offset}",
            path.display()
        ));
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
