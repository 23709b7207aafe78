//! Arrays: elements, views, new ones.
//!
//! ```text
//!   lanes:  owner │ data │ length of each axis │ stride of each axis, in bytes: layout A alone
//! ```

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::expr::const_int;
use super::r#gen::{Gen, Lanes};
use crate::kernel::ir::{
    Access, ArrayType, Element, Element1, Expr, Fill, Layout, Scalar, Subscript, Type,
};

/// What an index out of range says.
const OUT_OF_BOUNDS: &str = "index is out of bounds";

impl<'a> Gen<'a, '_> {
    // Strides and sizes.

    /// The stride of each axis in bytes.
    pub(super) fn strides(&mut self, ty: &ArrayType, lanes: &[Value]) -> Vec<Value> {
        let ndim = ty.ndim as usize;
        match ty.layout {
            Layout::A => lanes[2 + ndim..2 + 2 * ndim].to_vec(),
            layout => {
                let shape = lanes[2..2 + ndim].to_vec();
                self.dense_strides(&shape, ty.element.size(), layout)
            }
        }
    }

    /// The strides of a dense array.
    pub(super) fn dense_strides(
        &mut self,
        shape: &[Value],
        size: u32,
        layout: Layout,
    ) -> Vec<Value> {
        let mut stride = self.int(i64::from(size));
        let mut strides = vec![stride; shape.len()];
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        if layout != Layout::F {
            axes.reverse();
        }
        for (at, &axis) in axes.iter().enumerate() {
            strides[axis] = stride;
            if at + 1 < axes.len() {
                stride = self.b.ins().imul(stride, shape[axis]);
            }
        }
        strides
    }

    pub(super) fn product(&mut self, values: &[Value]) -> Value {
        let Some((first, rest)) = values.split_first() else { return self.int(1) };
        rest.iter().fold(*first, |product, value| self.b.ins().imul(product, *value))
    }

    /// The lanes of an array with another layout in its type.
    pub(super) fn relayout(&mut self, from: &ArrayType, to: &ArrayType, mut lanes: Lanes) -> Lanes {
        let ndim = from.ndim as usize;
        match (from.layout, to.layout) {
            (Layout::A, Layout::A) => {}
            (_, Layout::A) => {
                let strides = self.strides(from, &lanes);
                lanes.extend(strides);
            }
            _ => lanes.truncate(2 + ndim),
        }
        lanes
    }

    // Indices.

    /// An index that counts from the front, if it is in range.
    pub(super) fn wrap_index(
        &mut self,
        index: Value,
        length: Value,
        access: Access,
        text: &str,
    ) -> Value {
        if access == Access::InRange {
            return index;
        }
        let is_negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, index, 0);
        let from_end = self.b.ins().iadd(index, length);
        let index = self.b.ins().select(is_negative, from_end, index);
        if access == Access::Checked {
            self.check_index(index, length, text);
        }
        index
    }

    fn check_index(&mut self, index: Value, length: Value, text: &str) {
        let is_out = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
        self.raise_if(is_out, "IndexError", text);
    }

    /// An index into an axis of an array, as little checked as is safe.
    fn axis_index(
        &mut self,
        array: &Expr,
        axis: u32,
        index: &'a Expr,
        length: Value,
        access: Access,
    ) -> Value {
        let known = self.facts.index(array, axis, index);
        let value = self.expr(index)[0];
        if access == Access::InRange || known.below && known.not_negative {
            return value;
        }
        let is_unsigned = index.ty == Type::Scalar(Scalar::U64);
        if known.not_negative || is_unsigned {
            if access == Access::Checked {
                self.check_index(value, length, OUT_OF_BOUNDS);
            }
            return value;
        }
        if let Some(constant) = const_int(index)
            && constant < 0
        {
            let value = self.b.ins().iadd_imm_s(length, constant);
            if access == Access::Checked {
                self.check_index(value, length, OUT_OF_BOUNDS);
            }
            return value;
        }
        self.wrap_index(value, length, access, OUT_OF_BOUNDS)
    }

    /// Where an element lies.
    pub(super) fn element_address(&mut self, lanes: &[Value], element: &'a Element1) -> Value {
        let ty = element.array.ty.as_array().expect("checked");
        let size = ty.element.size();
        let ndim = ty.ndim as usize;
        let mut indices = Vec::with_capacity(ndim);
        for (axis, index) in element.indices.iter().enumerate() {
            let length = lanes[2 + axis];
            let axis = axis as u32;
            indices.push(self.axis_index(&element.array, axis, index, length, element.access));
        }
        let offset = match ty.layout {
            Layout::A => {
                let strides = self.strides(ty, lanes);
                let steps = indices.iter().zip(&strides);
                let steps: Vec<Value> =
                    steps.map(|(index, stride)| self.b.ins().imul(*index, *stride)).collect();
                self.sum(&steps)
            }
            layout => {
                let mut axes: Vec<usize> = (0..ndim).collect();
                if layout == Layout::F {
                    axes.reverse();
                }
                let mut flat = None;
                for axis in axes {
                    flat = Some(match flat {
                        None => indices[axis],
                        Some(flat) => {
                            let row = self.b.ins().imul(flat, lanes[2 + axis]);
                            self.b.ins().iadd(row, indices[axis])
                        }
                    });
                }
                flat.map(|flat| self.scale(flat, size))
            }
        };
        match offset {
            Some(offset) => self.b.ins().iadd(lanes[1], offset),
            None => lanes[1],
        }
    }

    /// A number of elements in bytes.
    pub(super) fn scale(&mut self, count: Value, size: u32) -> Value {
        if size.is_power_of_two() {
            self.b.ins().ishl_imm_u(count, i64::from(size.trailing_zeros()))
        } else {
            self.b.ins().imul_imm_s(count, i64::from(size))
        }
    }

    fn sum(&mut self, values: &[Value]) -> Option<Value> {
        let (first, rest) = values.split_first()?;
        Some(rest.iter().fold(*first, |sum, value| self.b.ins().iadd(sum, *value)))
    }

    // Views.

    pub(super) fn view(
        &mut self,
        array: &'a Expr,
        subscripts: &'a [Subscript],
        to: &Type,
    ) -> Lanes {
        let from = array.ty.as_array().expect("checked");
        let inner = subscripts.iter().flat_map(|subscript| match subscript {
            Subscript::Index(index, _) => vec![index],
            Subscript::Slice(a, b, c) => [a, b, c].into_iter().flatten().collect(),
            Subscript::Full | Subscript::NewAxis => Vec::new(),
        });
        let lanes = self.operand(array, inner);
        let strides = self.strides(from, &lanes);
        let mut data = lanes[1];
        let (mut shape, mut steps) = (Vec::new(), Vec::new());
        let mut axis = 0;
        for subscript in subscripts {
            match subscript {
                Subscript::NewAxis => {
                    shape.push(self.int(1));
                    steps.push(self.int(0));
                    continue;
                }
                Subscript::Full => {
                    shape.push(lanes[2 + axis]);
                    steps.push(strides[axis]);
                }
                Subscript::Index(index, access) => {
                    let length = lanes[2 + axis];
                    let index = self.axis_index(array, axis as u32, index, length, *access);
                    let offset = self.b.ins().imul(index, strides[axis]);
                    data = self.b.ins().iadd(data, offset);
                }
                Subscript::Slice(start, stop, step) => {
                    let (begin, length, stride) =
                        self.slice(lanes[2 + axis], start.as_ref(), stop.as_ref(), step.as_ref());
                    let offset = self.b.ins().imul(begin, strides[axis]);
                    data = self.b.ins().iadd(data, offset);
                    shape.push(length);
                    steps.push(match stride {
                        Some(stride) => self.b.ins().imul(stride, strides[axis]),
                        None => strides[axis],
                    });
                }
            }
            axis += 1;
        }
        // Axes that are not mentioned stay as they are.
        for axis in axis..from.ndim as usize {
            shape.push(lanes[2 + axis]);
            steps.push(strides[axis]);
        }
        let mut view = vec![lanes[0], data];
        view.extend(shape);
        match to {
            Type::Array(to) if to.layout == Layout::A => view.extend(steps),
            Type::Array(_) => {}
            // With every axis indexed: one record.
            _ => view.truncate(2),
        }
        view
    }

    /// Begin, length, and step if it is not one, of a slice of an axis. Without elements it begins at 0.
    fn slice(
        &mut self,
        length: Value,
        start: Option<&'a Expr>,
        stop: Option<&'a Expr>,
        step: Option<&'a Expr>,
    ) -> (Value, Value, Option<Value>) {
        let start = start.map(|start| (self.expr(start)[0], const_int(start)));
        let stop = stop.map(|stop| (self.expr(stop)[0], const_int(stop)));
        let known_step = step.map_or(Some(1), const_int);
        let zero = self.int(0);
        if known_step == Some(1) {
            let begin = match start {
                None => zero,
                Some((value, known)) => self.clamp(value, known, length, zero, length),
            };
            let end = match stop {
                None => length,
                Some((value, known)) => self.clamp(value, known, length, zero, length),
            };
            let count = self.b.ins().isub(end, begin);
            let is_some = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, count, 0);
            let count = self.b.ins().select(is_some, count, zero);
            return (begin, count, None);
        }
        let step = match step {
            Some(step) => self.expr(step)[0],
            None => self.int(1),
        };
        if known_step.is_none_or(|known| known == 0) {
            let is_zero = self.b.ins().icmp_imm_s(IntCC::Equal, step, 0);
            self.raise_if(is_zero, "ValueError", "slice step cannot be zero");
        }
        let is_down = match known_step {
            Some(known) => self.b.ins().iconst(types::I8, i64::from(known < 0)),
            None => self.b.ins().icmp_imm_s(IntCC::SignedLessThan, step, 0),
        };
        let last = self.b.ins().iadd_imm_s(length, -1);
        let minus = self.int(-1);
        let least = self.b.ins().select(is_down, minus, zero);
        let most = self.b.ins().select(is_down, last, length);
        let begin = match start {
            None => self.b.ins().select(is_down, last, zero),
            Some((value, known)) => self.clamp(value, known, length, least, most),
        };
        let end = match stop {
            None => self.b.ins().select(is_down, minus, length),
            Some((value, known)) => self.clamp(value, known, length, least, most),
        };
        // Forwards (end - begin - 1) / step + 1, backwards (begin - end - 1) / -step + 1, if there is anything.
        let low = self.b.ins().select(is_down, end, begin);
        let high = self.b.ins().select(is_down, begin, end);
        let back = self.b.ins().ineg(step);
        let stride = self.b.ins().select(is_down, back, step);
        let distance = self.b.ins().isub(high, low);
        let is_some = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, distance, 0);
        let short = self.b.ins().iadd_imm_s(distance, -1);
        let full = self.b.ins().udiv(short, stride);
        let count = self.b.ins().iadd_imm_s(full, 1);
        let count = self.b.ins().select(is_some, count, zero);
        let begin = self.b.ins().select(is_some, begin, zero);
        (begin, count, Some(step))
    }

    /// A bound of a slice: negative ones count from the end, and all are brought into `least..=most`.
    fn clamp(
        &mut self,
        value: Value,
        known: Option<i64>,
        length: Value,
        least: Value,
        most: Value,
    ) -> Value {
        let value = match known {
            Some(known) if known >= 0 => value,
            Some(_) => self.b.ins().iadd(value, length),
            None => {
                let is_negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, value, 0);
                let from_end = self.b.ins().iadd(value, length);
                self.b.ins().select(is_negative, from_end, value)
            }
        };
        let value = match known {
            Some(0..) => value,
            _ => self.b.ins().smax(value, least),
        };
        self.b.ins().smin(value, most)
    }

    pub(super) fn transpose(
        &mut self,
        from: &ArrayType,
        axes: &[u32],
        to: &Type,
        lanes: &[Value],
    ) -> Lanes {
        let mut turned = lanes[..2].to_vec();
        turned.extend(axes.iter().map(|axis| lanes[2 + *axis as usize]));
        if to.as_array().is_some_and(|to| to.layout == Layout::A) {
            let strides = self.strides(from, lanes);
            turned.extend(axes.iter().map(|axis| strides[*axis as usize]));
        }
        turned
    }

    pub(super) fn reshape(&mut self, array: &'a Expr, shape: &'a [Expr]) -> Lanes {
        const WRONG: &str = "total size of new array must be unchanged";
        let from = array.ty.as_array().expect("checked");
        let lanes = self.operand(array, shape.iter());
        let total = self.product(&lanes[2..2 + from.ndim as usize]);
        let lengths: Vec<Value> = shape.iter().map(|length| self.expr(length)[0]).collect();
        let one = self.int(1);
        let zero = self.int(0);
        // The product of all but those that are -1; a product that wraps to the right number is caught by each factor.
        let (mut product, mut open) = (one, zero);
        let mut is_wrong = self.b.ins().iconst(types::I8, 0);
        for &length in &lengths {
            let is_open = self.b.ins().icmp_imm_s(IntCC::Equal, length, -1);
            let is_negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, length, -1);
            let is_large = self.b.ins().icmp(IntCC::SignedGreaterThan, length, total);
            let is_some = self.b.ins().icmp_imm_s(IntCC::NotEqual, total, 0);
            let is_large = self.b.ins().band(is_large, is_some);
            let count = self.b.ins().uextend(types::I64, is_open);
            open = self.b.ins().iadd(open, count);
            let factor = self.b.ins().select(is_open, one, length);
            product = self.b.ins().imul(product, factor);
            is_wrong = self.b.ins().bor(is_wrong, is_negative);
            is_wrong = self.b.ins().bor(is_wrong, is_large);
        }
        let too_open = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, open, 1);
        is_wrong = self.b.ins().bor(is_wrong, too_open);
        let is_none = self.b.ins().icmp_imm_s(IntCC::Equal, product, 0);
        let divisor = self.b.ins().select(is_none, one, product);
        let rest = self.b.ins().udiv(total, divisor);
        let rest = self.b.ins().select(is_none, zero, rest);
        let is_open = self.b.ins().icmp_imm_s(IntCC::NotEqual, open, 0);
        let last = self.b.ins().select(is_open, rest, one);
        let all = self.b.ins().imul(product, last);
        let differs = self.b.ins().icmp(IntCC::NotEqual, all, total);
        is_wrong = self.b.ins().bor(is_wrong, differs);
        self.raise_if(is_wrong, "ValueError", WRONG);
        let mut reshaped = lanes[..2].to_vec();
        for length in lengths {
            let is_open = self.b.ins().icmp_imm_s(IntCC::Equal, length, -1);
            reshaped.push(self.b.ins().select(is_open, rest, length));
        }
        reshaped
    }

    // New arrays.

    pub(super) fn new_array(&mut self, shape: &'a [Expr], fill: &'a Fill, ty: &ArrayType) -> Lanes {
        let lengths: Vec<Value> = shape.iter().map(|length| self.expr(length)[0]).collect();
        match fill {
            Fill::Zero => self.allocate(&lengths, ty, true),
            Fill::Value(value) => {
                let value = self.expr(value);
                let lanes = self.allocate(&lengths, ty, false);
                let Element::Scalar(scalar) = ty.element else { unreachable!("checked") };
                let count = self.product(&lengths);
                let size = scalar.size();
                let data = lanes[1];
                self.up_to(count, |this, at| {
                    let offset = this.scale(at, size);
                    let address = this.b.ins().iadd(data, offset);
                    this.store_scalar(scalar, address, 0, &value);
                });
                lanes
            }
        }
    }

    /// A new array, which is a temp. Not zeroed, it must be written before it is read.
    pub(super) fn allocate(&mut self, lengths: &[Value], ty: &ArrayType, zero: bool) -> Lanes {
        let size = self.int(i64::from(ty.element.size()));
        let slot = self.slot(lengths.len());
        let address = self.slot_address(slot);
        self.store_lanes(address, 0, lengths);
        let ndim = self.int(lengths.len() as i64);
        let context = self.context;
        let zero = self.int(i64::from(zero));
        let args = [context, address, ndim, size, zero];
        let owner = self.helper("new_array", &args, &[types::I64])[0];
        let exit = self.failed();
        let go_on = self.b.create_block();
        self.b.ins().brif(owner, go_on, &[], exit, &[]);
        self.b.switch_to_block(go_on);
        self.b.seal_block(go_on);
        self.own_lane(owner);
        let data = self.struct_data(owner);
        let mut lanes = vec![owner, data];
        lanes.extend_from_slice(lengths);
        lanes
    }

    pub(super) fn array_of(&mut self, shape: &[u32], items: &'a [Expr], ty: &ArrayType) -> Lanes {
        let Element::Scalar(scalar) = ty.element else { unreachable!("checked") };
        let lengths: Vec<Value> = shape.iter().map(|length| self.int(i64::from(*length))).collect();
        let lanes = self.allocate(&lengths, ty, false);
        // One by one, so that few values are alive at a time.
        for (at, item) in items.iter().enumerate() {
            let value = self.expr(item);
            self.store_scalar(scalar, lanes[1], (at as u32 * scalar.size()) as i32, &value);
        }
        lanes
    }

    /// A loop over `0..count`.
    pub(super) fn up_to(&mut self, count: Value, body: impl FnOnce(&mut Self, Value)) {
        let zero = self.int(0);
        self.step_to(zero, count, 1, body);
    }

    /// A loop over `start, start + step, …` below `end`, which is not near the greatest number.
    pub(super) fn step_to(
        &mut self,
        start: Value,
        end: Value,
        step: i64,
        body: impl FnOnce(&mut Self, Value),
    ) {
        let (inside, leave) = (self.b.create_block(), self.b.create_block());
        let at = self.b.append_block_param(inside, types::I64);
        let go_on = self.b.ins().icmp(IntCC::SignedLessThan, start, end);
        self.b.ins().brif(go_on, inside, &[start.into()], leave, &[]);
        self.b.switch_to_block(inside);
        body(self, at);
        let next = self.b.ins().iadd_imm_s(at, step);
        let go_on = self.b.ins().icmp(IntCC::SignedLessThan, next, end);
        self.b.ins().brif(go_on, inside, &[next.into()], leave, &[]);
        self.b.seal_block(inside);
        self.b.switch_to_block(leave);
        self.b.seal_block(leave);
    }
}
