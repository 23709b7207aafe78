//! Which elements of a buffer a tensor has, and in which order: dimensions, strides, the place of the first.
//!
//! ```text
//!   dims [2, 3], strides [3, 1], offset 0 ──permute──► dims [3, 2], strides [1, 3], offset 0
//! ```
//!
//! Views are computed here, for tensors that exist and for those that are only planned.

use serde::{Deserialize, Serialize};

use super::tensor::{Dims, Strides, contiguous_strides};

/// Dimensions and strides over a buffer. Strides and offset are in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Region {
    #[serde(with = "list")]
    pub(crate) dims: Dims,
    #[serde(with = "list")]
    pub(crate) strides: Strides,
    pub(crate) offset: usize,
}

impl Region {
    /// Row-major order without gaps, from the buffer's beginning.
    pub(crate) fn whole(dims: &[usize]) -> Self {
        Region { dims: Dims::from_slice(dims), strides: contiguous_strides(dims), offset: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.dims.iter().product()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// Whether the elements lie in row-major order without gaps.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        if self.is_empty() {
            return true;
        }
        for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev() {
            if dim != 1 && stride != expected {
                return false;
            }
            expected *= dim as isize;
        }
        true
    }

    /// With its axes in this order, which names each once.
    pub(crate) fn permute(&self, order: &[usize]) -> Self {
        Region {
            dims: order.iter().map(|&axis| self.dims[axis]).collect(),
            strides: order.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// `count` places along an axis, all inside: the one at `start`, and each `step` further.
    pub(crate) fn slice(&self, axis: usize, start: usize, step: isize, count: usize) -> Self {
        let mut view = self.clone();
        if count > 0 && !self.is_empty() {
            view.offset = view.offset.wrapping_add_signed(self.strides[axis] * start as isize);
        }
        view.dims[axis] = count;
        // One place, or none, has no next one: no stride that may be out of range.
        view.strides[axis] = if count > 1 { self.strides[axis] * step } else { 1 };
        view
    }

    /// Repeated along axes of dimension 1, and along new ones on the left; `None` if it cannot be so seen.
    pub(crate) fn broadcast(&self, dims: &[usize]) -> Option<Self> {
        let added = dims.len().checked_sub(self.dims.len())?;
        let mut strides = Strides::from_elem(0, dims.len());
        for (axis, (&dim, &stride)) in self.dims.iter().zip(&self.strides).enumerate() {
            match dim {
                _ if dim == dims[added + axis] => strides[added + axis] = stride,
                1 => {}
                _ => return None,
            }
        }
        Some(Region { dims: Dims::from_slice(dims), strides, offset: self.offset })
    }

    /// The same elements in other dimensions, equally many; `None` if that takes a copy.
    pub(crate) fn reshape(&self, dims: &[usize]) -> Option<Self> {
        let strides = contiguous_strides(dims);
        self.is_contiguous().then(|| Region {
            dims: Dims::from_slice(dims),
            strides,
            offset: self.offset,
        })
    }

    /// With axes of dimension 1 put in: their places in the result, in rising order.
    pub(crate) fn insert_axes(&self, axes: &[usize]) -> Self {
        let mut view = self.clone();
        for &axis in axes {
            view.dims.insert(axis, 1);
            view.strides.insert(axis, 1);
        }
        view
    }

    /// Without these axes, each of dimension 1, in rising order.
    pub(crate) fn remove_axes(&self, axes: &[usize]) -> Self {
        let mut view = self.clone();
        for &axis in axes.iter().rev() {
            view.dims.remove(axis);
            view.strides.remove(axis);
        }
        view
    }

    /// Calls `visit` with the place of each element, in row-major order.
    pub(crate) fn each(&self, mut visit: impl FnMut(usize)) {
        if self.is_empty() {
            return;
        }
        let mut index: Dims = Dims::from_elem(0, self.dims.len());
        let mut at = self.offset as isize;
        loop {
            visit(at as usize);
            let mut axis = self.dims.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                at += self.strides[axis];
                if index[axis] < self.dims[axis] {
                    break;
                }
                at -= self.strides[axis] * self.dims[axis] as isize;
                index[axis] = 0;
            }
        }
    }
}

/// Short lists as serde sees them.
mod list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use smallvec::SmallVec;

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        list: &SmallVec<[T; 6]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        list.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SmallVec<[T; 6]>, D::Error> {
        Vec::deserialize(deserializer).map(SmallVec::from_vec)
    }
}
