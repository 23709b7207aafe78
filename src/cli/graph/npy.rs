//! Tensors as NumPy's files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use ndarray::ArrayD;
use ndarray_npy::{ReadNpyError, ReadNpyExt, ReadableElement, WritableElement, WriteNpyExt};

use crate::graph::tensor::with_element;
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
    let read = |element: &ElementType| with_element!(*element, T => of::<T>(&bytes));
    match ElementType::ALL.iter().find_map(read) {
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
    with_element!(tensor.element(), T => of::<T>(path, tensor))
}
