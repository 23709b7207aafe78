//! How a kernel is called.
//!
//! ```text
//!   frame: ┌─────────┬──────┬─────────┬─────────┬──────┬─────────┬───
//!          │ address │ dims │ strides │ address │ dims │ strides │ …     64-bit words
//!          └─────────┴──────┴─────────┴─────────┴──────┴─────────┴───
//!            first operand              second operand
//!
//!   kernel(frame: *const u64) -> status: u64
//! ```
//!
//! Operands that are there stand in the order inputs, outputs. Strides are in bytes, may be 0 or negative, and lead
//! from an element to the next on their axis. Ranks are the kernel's own, so every word has a place that is known when
//! the kernel is compiled. Outputs have no memory in common with inputs or with each other, but for an element-wise
//! kernel's: that may be an input of the same size and layout.

use super::node::{Layout, NodeSpec, Operand};
use super::tensor::ElementType;

/// What a kernel says when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Status {
    /// All outputs are written.
    Done = 0,
    /// An index is outside of its axis. Outputs are written in part.
    IndexOutOfRange = 1,
    /// A sequence is longer than the time axis, or has a negative length. Outputs are written in part.
    LengthOutOfRange = 2,
}

impl Status {
    /// The status that this word is.
    ///
    /// # Panics
    /// Panics if it is none.
    pub fn of(word: u64) -> Self {
        match word {
            0 => Status::Done,
            1 => Status::IndexOutOfRange,
            2 => Status::LengthOutOfRange,
            _ => panic!("a kernel returned {word}"),
        }
    }
}

/// An operand's type, dimensions and strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The type of its elements.
    pub element: ElementType,
    /// The dimensions.
    pub dims: Vec<usize>,
    /// The strides, in bytes.
    pub strides: Vec<isize>,
}

impl View {
    /// An operand in row-major order without gaps.
    pub fn contiguous(element: ElementType, dims: &[usize]) -> Self {
        let mut strides = vec![0; dims.len()];
        let mut stride = element.size() as isize;
        for (axis, &dim) in dims.iter().enumerate().rev() {
            strides[axis] = stride;
            stride = stride.wrapping_mul(dim.max(1) as isize);
        }
        View { element, dims: dims.to_vec(), strides }
    }

    /// How many axes it has.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// What a kernel is compiled for.
    pub fn operand(&self) -> Operand {
        Operand {
            element: self.element,
            rank: self.dims.len() as u32,
            layout: Layout::of(self.element.size(), &self.dims, &self.strides),
        }
    }

    /// With dimensions that this one's are broadcast to.
    pub(crate) fn broadcast(&self, dims: &[usize]) -> View {
        let added = dims.len() - self.rank();
        let mut strides = vec![0; dims.len()];
        for (axis, (&dim, &stride)) in self.dims.iter().zip(&self.strides).enumerate() {
            if dim == dims[added + axis] {
                strides[added + axis] = stride;
            }
        }
        View { element: self.element, dims: dims.to_vec(), strides }
    }

    /// With its axes in this order; those that it does not name are left out.
    pub(crate) fn permute(&self, order: impl IntoIterator<Item = usize>) -> View {
        let mut view = View { element: self.element, dims: Vec::new(), strides: Vec::new() };
        for axis in order {
            view.dims.push(self.dims[axis]);
            view.strides.push(self.strides[axis]);
        }
        view
    }

    /// With one axis moved to the end.
    pub(crate) fn with_last(&self, axis: usize) -> View {
        let rank = self.rank();
        self.permute((0..rank).filter(|&a| a != axis).chain([axis]))
    }
}

/// A kernel, and the arguments that a node calls it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The kernel.
    pub spec: NodeSpec,
    /// The arguments, without the addresses.
    pub frame: Frame,
}

/// The arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The words.
    pub words: Vec<u64>,
    /// Where the address of each operand stands among them, inputs first; `None` for one that is absent.
    pub addresses: Vec<Option<u32>>,
}

impl Frame {
    /// A frame for these operands, inputs first, with addresses of 0.
    pub fn new<'a>(operands: impl IntoIterator<Item = Option<&'a View>>) -> Self {
        let mut frame = Frame::default();
        for operand in operands {
            let at = operand.map(|view| {
                let at = frame.words.len() as u32;
                frame.words.push(0);
                frame.words.extend(view.dims.iter().map(|&dim| dim as u64));
                frame.words.extend(view.strides.iter().map(|&stride| stride as u64));
                at
            });
            frame.addresses.push(at);
        }
        frame
    }

    /// Sets the address of an operand, counted as [`addresses`](Self::addresses) are; an absent one has none.
    pub fn set_address(&mut self, operand: usize, address: *const u8) {
        if let Some(at) = self.addresses[operand] {
            self.words[at as usize] = address.expose_provenance() as u64;
        }
    }
}
