//! Tensors as NumPy's files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use ndarray::ArrayD;
use ndarray_npy::{ReadNpyError, ReadNpyExt, ReadableElement, WritableElement, WriteNpyExt};

use crate::graph::{Element, ElementType, Tensor};

/// Reads a file, whatever the type of its elements.
pub(super) fn read(path: &Path) -> Result<Tensor, String> {
    fn of<T: Element + ReadableElement>(bytes: &[u8]) -> Option<Result<Tensor, ReadNpyError>> {
        match ArrayD::<T>::read_npy(bytes) {
            Ok(array) => Some(Ok(Tensor::from_array(&array.view()))),
            Err(ReadNpyError::WrongDescriptor(_)) => None,
            Err(error) => Some(Err(error)),
        }
    }
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| failed(&error))?;
    let readers = [
        of::<f32>, of::<f64>, of::<i8>, of::<i16>, of::<i32>, of::<i64>, of::<u8>, of::<u16>,
        of::<u32>, of::<u64>, of::<bool>,
    ];
    match readers.iter().find_map(|read| read(&bytes)) {
        Some(result) => result.map_err(|error| failed(&error)),
        None => Err(failed(&"the type of its elements is not supported")),
    }
}

/// Writes a file.
pub(super) fn write(path: &Path, tensor: &Tensor) -> Result<(), String> {
    fn of<T: Element + WritableElement>(path: &Path, tensor: &Tensor) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = File::create(path).map_err(|error| failed(&error))?;
        let view = tensor.view::<T>().expect("an array of the tensor's own type");
        view.write_npy(BufWriter::new(file)).map_err(|error| failed(&error))
    }
    match tensor.element() {
        ElementType::F32 => of::<f32>(path, tensor),
        ElementType::F64 => of::<f64>(path, tensor),
        ElementType::I8 => of::<i8>(path, tensor),
        ElementType::I16 => of::<i16>(path, tensor),
        ElementType::I32 => of::<i32>(path, tensor),
        ElementType::I64 => of::<i64>(path, tensor),
        ElementType::U8 => of::<u8>(path, tensor),
        ElementType::U16 => of::<u16>(path, tensor),
        ElementType::U32 => of::<u32>(path, tensor),
        ElementType::U64 => of::<u64>(path, tensor),
        ElementType::Bool => of::<bool>(path, tensor),
    }
}
