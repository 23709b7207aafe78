//! Expressions.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::Reference;
use super::r#gen::{Gen, Lanes, has_owner, heap, lane_memory};
use super::visit::expr_children;
use crate::kernel::ir::{
    Access, BinaryOp, CalleeId, Const, Element, Expr, ExprKind, FunctionType, Scalar, Type, UnaryOp,
};
use crate::kernel::runtime::stack::deep;
use crate::kernel::{abi, runtime};

impl<'a> Gen<'a, '_> {
    /// The value of an expression. Its owners are borrowed from what lives as long as the running statement.
    pub(super) fn expr(&mut self, expr: &'a Expr) -> Lanes {
        deep(|| self.expr_here(expr))
    }

    fn expr_here(&mut self, expr: &'a Expr) -> Lanes {
        match &expr.kind {
            ExprKind::Const(constant) => self.constant(constant, &expr.ty),
            ExprKind::Constant(id) => {
                let constant = &self.ir.constants[id.0 as usize];
                let data = self.symbol(Reference::Array(constant.name.clone()));
                let mut lanes = vec![self.int(0), data];
                for &length in &constant.shape {
                    lanes.push(self.int(length as i64));
                }
                self.relayout(&constant.ty, expr.ty.as_array().expect("checked"), lanes)
            }
            ExprKind::Local(local) => self.get_vars(*local),
            ExprKind::Cast(inner) => {
                let lanes = self.expr(inner);
                self.cast(&inner.ty, &expr.ty, lanes)
            }
            ExprKind::Unary(op, x) => {
                let lanes = self.expr(x);
                self.unary(*op, x.ty.scalar().expect("checked"), &lanes)
            }
            ExprKind::Binary(op, a, b) => self.binary_expr(*op, a, b),
            ExprKind::DivMod(zero, a, b) => {
                let ty = a.ty.scalar().expect("checked");
                let divisor = const_int(b);
                let a = self.operand(a, std::iter::once(&**b));
                let b = self.expr(b);
                self.div_mod(ty, *zero, a[0], b[0], divisor)
            }
            ExprKind::PowConst(zero, x, exponent) => {
                let ty = x.ty.scalar().expect("checked");
                let lanes = self.expr(x);
                self.pow_const(ty, *zero, &lanes, *exponent)
            }
            ExprKind::Math(function, args) => {
                let ty = args[0].ty.scalar().expect("checked");
                let lanes: Vec<Lanes> = args.iter().map(|arg| self.expr(arg)).collect();
                self.math(*function, ty, &lanes)
            }
            ExprKind::Complex(re, im) => {
                let re = self.expr(re)[0];
                vec![re, self.expr(im)[0]]
            }
            ExprKind::IfElse(condition, a, b) => self.either(condition, a, b, &expr.ty),
            ExprKind::Block(body, value) => {
                let border = self.enter_border();
                let before = self.facts.begin();
                self.stmts(body);
                self.facts.end(before);
                self.leave_border(border);
                let lanes = self.expr(value);
                // What it borrows may be a local of the block, which an outer part may assign anew.
                if has_owner(&value.ty) {
                    self.hold(&value.ty, &lanes);
                }
                lanes
            }
            ExprKind::IsNone(x) => {
                let present = self.expr(x)[0];
                vec![self.b.ins().icmp_imm_s(IntCC::Equal, present, 0)]
            }
            ExprKind::Tuple(items) => self.operands(items).concat(),
            ExprKind::Item(tuple, index) => {
                let Type::Tuple(items) = &tuple.ty else { unreachable!("checked") };
                let before: usize = items[..*index as usize].iter().map(abi::lane_count).sum();
                let count = abi::lane_count(&items[*index as usize]);
                self.expr(tuple)[before..before + count].to_vec()
            }
            ExprKind::ItemAt(tuple, index, access) => self.item_at(tuple, index, *access),
            ExprKind::Text(parts) => {
                let values = self.operands(parts);
                for (part, lanes) in parts.iter().zip(&values) {
                    self.hand_lanes(&part.ty, lanes);
                }
                let context = self.context;
                let joined = self.helper("join_text", &[context], &[types::I64, types::I64]);
                let exit = self.failed();
                let go_on = self.b.create_block();
                self.b.ins().brif(joined[0], go_on, &[], exit, &[]);
                self.b.switch_to_block(go_on);
                self.b.seal_block(go_on);
                let lanes = vec![joined[0], self.struct_data(joined[0]), joined[1]];
                self.own(&Type::Str, &lanes);
                lanes
            }
            ExprKind::StrLen(text) => {
                let lanes = self.expr(text);
                self.helper("str_length", &[lanes[1], lanes[2]], &[types::I64])
            }
            ExprKind::Call(callee, args) => {
                let args = self.operands(args).concat();
                self.call_unit(*callee, &args)
            }
            ExprKind::NewArray(shape, fill) => {
                self.new_array(shape, fill, expr.ty.as_array().expect("checked"))
            }
            ExprKind::ArrayOf(shape, items) => {
                self.array_of(shape, items, expr.ty.as_array().expect("checked"))
            }
            ExprKind::Length(array, axis) => vec![self.expr(array)[2 + *axis as usize]],
            ExprKind::Stride(array, axis) => {
                let lanes = self.expr(array);
                let strides = self.strides(array.ty.as_array().expect("checked"), &lanes);
                vec![strides[*axis as usize]]
            }
            ExprKind::Size(array) => {
                let lanes = self.expr(array);
                let ndim = array.ty.as_array().expect("checked").ndim as usize;
                vec![self.product(&lanes[2..2 + ndim])]
            }
            ExprKind::Element(element) => {
                if let Some(value) = self.carried(element) {
                    return vec![value];
                }
                let array = self.operand(&element.array, element.indices.iter());
                let address = self.element_address(&array, element);
                let holds = &element.array.ty.as_array().expect("checked").element;
                self.load_element(holds, array[0], address)
            }
            ExprKind::View(array, subscripts) => self.view(array, subscripts, &expr.ty),
            ExprKind::Transpose(array, axes) => {
                let lanes = self.expr(array);
                self.transpose(array.ty.as_array().expect("checked"), axes, &expr.ty, &lanes)
            }
            ExprKind::Reshape(array, shape) => self.reshape(array, shape),
            ExprKind::Part(array, offset) => {
                let from = array.ty.as_array().expect("checked");
                let lanes = self.expr(array);
                let data = self.b.ins().iadd_imm_s(lanes[1], i64::from(*offset));
                let ndim = from.ndim as usize;
                let strides = self.strides(from, &lanes);
                let mut part = vec![lanes[0], data];
                part.extend_from_slice(&lanes[2..2 + ndim]);
                part.extend(strides);
                part
            }
            ExprKind::Relayout(array) => {
                let lanes = self.expr(array);
                let from = array.ty.as_array().expect("checked");
                self.relayout(from, expr.ty.as_array().expect("checked"), lanes)
            }
            ExprKind::Field(record, field) => {
                let Type::Record(layout) = &record.ty else { unreachable!("checked") };
                let field = &layout.fields[*field as usize];
                let lanes = self.expr(record);
                self.check_set(record, lanes[1]);
                let address = self.b.ins().iadd_imm_s(lanes[1], i64::from(field.offset));
                self.load_element(&field.element, lanes[0], address)
            }
            ExprKind::Map(tree) => self.map(tree, expr.ty.as_array().expect("checked")),
            ExprKind::Fold(fold) => self.fold(fold, &expr.ty),
            ExprKind::NewStruct(fields) => self.new_struct(fields, &expr.ty),
            ExprKind::Attribute(object, field) => {
                let base = self.expr(object)[0];
                self.check_set(object, base);
                let data = self.struct_data(base);
                let offset = self.field_offset(&object.ty, *field);
                let lanes = self.load_lanes(data, offset, &expr.ty);
                if has_owner(&expr.ty) {
                    // The field may be assigned anew while this value is used.
                    self.hold(&expr.ty, &lanes);
                }
                lanes
            }
        }
    }

    /// The value of an expression that is used behind `later` ones: what they assign does not change it.
    pub(super) fn operand<'e>(
        &mut self,
        expr: &'a Expr,
        later: impl IntoIterator<Item = &'e Expr>,
    ) -> Lanes {
        let lanes = self.expr(expr);
        if has_owner(&expr.ty) && later.into_iter().any(has_block) {
            self.hold(&expr.ty, &lanes);
        }
        lanes
    }

    /// The values of some expressions.
    pub(super) fn operands(&mut self, exprs: &'a [Expr]) -> Vec<Lanes> {
        let mut all = Vec::with_capacity(exprs.len());
        for (at, expr) in exprs.iter().enumerate() {
            all.push(self.operand(expr, exprs[at + 1..].iter()));
        }
        all
    }

    fn constant(&mut self, constant: &Const, ty: &Type) -> Lanes {
        match (constant, ty) {
            (Const::None | Const::Unset, ty) => self.zero(ty),
            (Const::Bool(value), _) => vec![self.b.ins().iconst(types::I8, i64::from(*value))],
            (Const::Int(value), Type::Scalar(scalar)) => vec![self.int_of(*scalar, *value)],
            (Const::Float(value), Type::Scalar(Scalar::F32)) => {
                vec![self.b.ins().f32const(*value as f32)]
            }
            (Const::Float(value), _) => vec![self.b.ins().f64const(*value)],
            (Const::Complex(re, im), _) => {
                vec![self.b.ins().f64const(*re), self.b.ins().f64const(*im)]
            }
            (Const::Str(text), _) => {
                let length = self.int(text.len() as i64);
                let data = self.bytes(text.clone().into_bytes());
                vec![self.int(0), data, length]
            }
            (Const::Int(_), _) => unreachable!("checked: an integer"),
        }
    }

    fn binary_expr(&mut self, op: BinaryOp, a: &'a Expr, b: &'a Expr) -> Lanes {
        let ty = &a.ty;
        let divisor = const_int(b);
        if let Some(value) = self.late_extreme(op, a, b) {
            return vec![value];
        }
        let left = self.operand(a, std::iter::once(b));
        let right = self.expr(b);
        match ty {
            Type::Scalar(scalar) => self.binary(op, *scalar, &left, &right, divisor),
            Type::Str => {
                let args = [left[1], left[2], right[1], right[2]];
                let equal = self.helper("str_equal", &args, &[types::I8])[0];
                vec![if op == BinaryOp::Eq { equal } else { self.not(equal) }]
            }
            _ => vec![self.compare_values(op, ty, &left, &right)],
        }
    }

    /// Compares tuples item by item, and what they hold.
    fn compare_values(&mut self, op: BinaryOp, ty: &Type, a: &[Value], b: &[Value]) -> Value {
        match ty {
            Type::Scalar(scalar) => self.binary(op, *scalar, a, b, None)[0],
            Type::Tuple(items) => {
                // From the last item to the first: `a0 < b0 or a0 == b0 and rest`.
                let strict = match op {
                    BinaryOp::Le => BinaryOp::Lt,
                    BinaryOp::Ge => BinaryOp::Gt,
                    other => other,
                };
                let at_end = matches!(op, BinaryOp::Eq | BinaryOp::Le | BinaryOp::Ge);
                let mut result = self.b.ins().iconst(types::I8, i64::from(at_end));
                let mut end = a.len();
                for item in items.iter().rev() {
                    let begin = end - abi::lane_count(item);
                    let (a, b) = (&a[begin..end], &b[begin..end]);
                    end = begin;
                    let equal = self.compare_values(BinaryOp::Eq, item, a, b);
                    result = match op {
                        BinaryOp::Eq => self.b.ins().band(equal, result),
                        BinaryOp::Ne => {
                            let differs = self.not(equal);
                            self.b.ins().bor(differs, result)
                        }
                        _ => {
                            let before = self.compare_values(strict, item, a, b);
                            let goes_on = self.b.ins().band(equal, result);
                            self.b.ins().bor(before, goes_on)
                        }
                    };
                }
                result
            }
            Type::Str => {
                let args = [a[1], a[2], b[1], b[2]];
                let equal = self.helper("str_equal", &args, &[types::I8])[0];
                if op == BinaryOp::Ne { self.not(equal) } else { equal }
            }
            // Of nothing there is one value.
            _ => {
                let same = matches!(op, BinaryOp::Eq | BinaryOp::Le | BinaryOp::Ge);
                self.b.ins().iconst(types::I8, i64::from(same))
            }
        }
    }

    /// The complement of a byte of 0 or 1.
    pub(super) fn not(&mut self, value: Value) -> Value {
        self.b.ins().bxor_imm_s(value, 1)
    }

    fn either(&mut self, condition: &'a Expr, a: &'a Expr, b: &'a Expr, ty: &Type) -> Lanes {
        if is_plain(a) && is_plain(b) && !matches!(condition.kind, ExprKind::IfElse(..)) {
            let condition = self.expr(condition)[0];
            let (a, b) = (self.expr(a), self.expr(b));
            let pairs = a.into_iter().zip(b);
            return pairs.map(|(a, b)| self.b.ins().select(condition, a, b)).collect();
        }
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        let (behind, lanes) = self.join(ty);
        self.branch(condition, yes, no);
        self.b.seal_block(yes);
        self.b.seal_block(no);
        for (block, arm) in [(yes, a), (no, b)] {
            self.b.switch_to_block(block);
            let border = self.enter_border();
            let mark = self.mark();
            let value = self.expr(arm);
            self.take(ty, &value);
            self.release_to(mark);
            self.leave_border(border);
            self.jump(behind, &value);
        }
        self.b.switch_to_block(behind);
        self.b.seal_block(behind);
        self.own(ty, &lanes);
        lanes
    }

    fn item_at(&mut self, tuple: &'a Expr, index: &'a Expr, access: Access) -> Lanes {
        let Type::Tuple(items) = &tuple.ty else { unreachable!("checked") };
        let lanes = self.operand(tuple, std::iter::once(index));
        let index = self.expr(index)[0];
        let count = self.int(items.len() as i64);
        let index = self.wrap_index(index, count, access, "tuple index out of range");
        let size = abi::lane_count(&items[0]);
        // Through memory: one load per lane, whatever the index.
        let slot = self.slot(lanes.len());
        let base = self.slot_address(slot);
        self.store_lanes(base, 0, &lanes);
        let offset = self.b.ins().imul_imm_s(index, 8 * size as i64);
        let address = self.b.ins().iadd(base, offset);
        let item = self.load_lanes(address, 0, &items[0]);
        if has_owner(&items[0]) {
            self.hold(&items[0], &item);
        }
        item
    }

    /// A value in another type. Owners are passed on as they are.
    fn cast(&mut self, from: &Type, to: &Type, lanes: Lanes) -> Lanes {
        if from == to {
            return lanes;
        }
        match (from, to) {
            (Type::None, Type::Optional(_)) => self.zero(to),
            (Type::Optional(from), Type::Optional(to)) => {
                let inner = self.cast(from, to, lanes[1..].to_vec());
                [vec![lanes[0]], inner].concat()
            }
            (_, Type::Optional(to)) => {
                let present = self.b.ins().iconst(types::I8, 1);
                let inner = self.cast(from, to, lanes);
                [vec![present], inner].concat()
            }
            (Type::Optional(from), _) => {
                let is_none = self.b.ins().icmp_imm_s(IntCC::Equal, lanes[0], 0);
                self.raise_if(is_none, "TypeError", &format!("expected {}, got None", spell(to)));
                self.cast(from, to, lanes[1..].to_vec())
            }
            (Type::Scalar(from), Type::Scalar(to)) => self.cast_scalar(*from, *to, &lanes),
            (Type::Tuple(from), Type::Tuple(to)) => {
                let mut rest = &lanes[..];
                let mut cast = Vec::new();
                for (from, to) in from.iter().zip(to) {
                    let (item, behind) = rest.split_at(abi::lane_count(from));
                    cast.extend(self.cast(from, to, item.to_vec()));
                    rest = behind;
                }
                cast
            }
            (Type::Array(from), Type::Array(to)) => self.relayout(from, to, lanes),
            _ => unreachable!("checked: there is a cast"),
        }
    }

    // Calls.

    fn call_unit(&mut self, callee: CalleeId, args: &[Value]) -> Lanes {
        let callee = &self.ir.callees[callee.0 as usize];
        let signature = abi::unit_signature(&callee.signature, self.isa);
        let reference = Reference::Unit(callee.name.clone());
        let number = self.shared.number(reference.clone());
        let function = self.function(reference, signature);
        let (all, results) = self.call_args(&callee.signature, args);
        let call = self.b.ins().call(function, &all);
        let returned = self.b.inst_results(call).to_vec();
        self.check_call(returned[0], number);
        self.returned_lanes(&callee.signature.result, &returned, results)
    }

    /// All that is passed to a unit, and where its results go.
    fn call_args(
        &mut self,
        signature: &FunctionType,
        args: &[Value],
    ) -> (Vec<Value>, Option<Value>) {
        let mut all = vec![self.context];
        let mut results = None;
        if abi::returns_in_memory(&signature.result) {
            let slot = self.slot(abi::lane_count(&signature.result));
            let address = self.slot_address(slot);
            results = Some(address);
            all.push(address);
        }
        all.extend_from_slice(args);
        (all, results)
    }

    fn returned_lanes(&mut self, ty: &Type, returned: &[Value], results: Option<Value>) -> Lanes {
        let lanes = match results {
            Some(address) => self.load_lanes(address, 0, ty),
            None => returned[1..].to_vec(),
        };
        self.own(ty, &lanes);
        lanes
    }

    // Structrefs.

    fn new_struct(&mut self, fields: &'a [Expr], ty: &Type) -> Lanes {
        let Type::Struct(layout) = ty else { unreachable!("checked") };
        let values = self.operands(fields);
        let kinds: Vec<_> = layout.fields.iter().flat_map(|(_, ty)| abi::lanes(ty)).collect();
        let counted = abi::counted_lanes(&kinds).expect("checked: not too many");
        let count = self.int(kinds.len() as i64);
        let counted = self.int(counted as i64);
        let context = self.context;
        let owner = self.helper("new_struct", &[context, count, counted], &[types::I64])[0];
        let exit = self.failed();
        let go_on = self.b.create_block();
        self.b.ins().brif(owner, go_on, &[], exit, &[]);
        self.b.switch_to_block(go_on);
        self.b.seal_block(go_on);
        let data = self.struct_data(owner);
        let mut at = 0;
        for (value, field) in values.iter().zip(fields) {
            self.take(&field.ty, value);
            self.store_lanes(data, 8 * at, value);
            at += value.len() as i32;
        }
        self.own_lane(owner);
        vec![owner]
    }

    /// Where the lanes of a structref lie.
    pub(super) fn struct_data(&mut self, base: Value) -> Value {
        self.b.ins().iadd_imm_s(base, runtime::memory::HEADER as i64)
    }

    /// Where a field's lanes begin, in bytes.
    pub(super) fn field_offset(&self, ty: &Type, field: u32) -> i32 {
        let Type::Struct(layout) = ty else { unreachable!("checked") };
        let before = &layout.fields[..field as usize];
        8 * before.iter().map(|(_, ty)| abi::lane_count(ty)).sum::<usize>() as i32
    }

    // Elements in memory.

    /// A value of what an element or a field holds: loaded, or seen where it lies.
    pub(super) fn load_element(&mut self, holds: &Element, owner: Value, address: Value) -> Lanes {
        match holds {
            Element::Scalar(scalar) => self.load_scalar(*scalar, address, 0),
            Element::Record(_) => vec![owner, address],
            Element::Array(_, shape) => {
                let mut lanes = vec![owner, address];
                for &length in shape {
                    lanes.push(self.int(i64::from(length)));
                }
                lanes
            }
        }
    }

    pub(super) fn load_scalar(&mut self, scalar: Scalar, address: Value, offset: i32) -> Lanes {
        let kinds = abi::lanes(&Type::Scalar(scalar));
        let step = scalar.size() as i32 / kinds.len() as i32;
        let load = |(at, kind): (usize, &abi::Lane)| {
            self.b.ins().load(kind.clif(), heap(), address, offset + step * at as i32)
        };
        let lanes: Lanes = kinds.iter().enumerate().map(load).collect();
        if scalar == Scalar::Bool {
            // Memory that the host wrote may hold any byte.
            return vec![self.b.ins().icmp_imm_s(IntCC::NotEqual, lanes[0], 0)];
        }
        lanes
    }

    pub(super) fn store_scalar(
        &mut self,
        scalar: Scalar,
        address: Value,
        offset: i32,
        lanes: &[Value],
    ) {
        let step = scalar.size() as i32 / lanes.len() as i32;
        for (at, lane) in lanes.iter().enumerate() {
            self.b.ins().store(heap(), *lane, address, offset + step * at as i32);
        }
    }

    /// A lane that a host structure of eight-byte lanes holds.
    pub(super) fn load_word(&mut self, address: Value, offset: i32) -> Value {
        self.b.ins().load(types::I64, lane_memory(), address, offset)
    }
}

/// The value of an integer constant.
pub(super) fn const_int(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::Const(Const::Int(value)) => Some(*value),
        ExprKind::Cast(inner) => {
            let to = expr.ty.scalar().filter(|scalar| scalar.is_int())?;
            let value = const_int(inner)?;
            // Only a cast that keeps the number.
            let bits = 8 * to.size() - u32::from(to.is_signed());
            let fits = inner.ty.scalar()?.is_signed() && (0..1 << bits.min(62)).contains(&value);
            fits.then_some(value)
        }
        _ => None,
    }
}

/// Whether evaluating an expression costs next to nothing and does nothing, so that it may be done in vain.
fn is_plain(expr: &Expr) -> bool {
    let is_real = expr.ty.scalar().is_some_and(|scalar| scalar != Scalar::C128);
    let is_small = match &expr.kind {
        ExprKind::Const(_) | ExprKind::Local(_) => true,
        ExprKind::Unary(UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs, x) => is_plain(x),
        ExprKind::Cast(x) => x.ty.scalar().is_some_and(Scalar::is_int) && is_plain(x),
        _ => false,
    };
    is_real && is_small
}

/// Whether an expression has statements in it.
fn has_block(expr: &Expr) -> bool {
    if matches!(expr.kind, ExprKind::Block(..)) {
        return true;
    }
    let mut found = false;
    expr_children(expr, &mut |child| found |= has_block(child));
    found
}

fn spell(ty: &Type) -> &'static str {
    match ty {
        Type::Scalar(Scalar::Bool) => "bool",
        Type::Scalar(Scalar::I64) => "int64",
        Type::Scalar(Scalar::F64) => "float64",
        Type::Scalar(Scalar::C128) => "complex128",
        Type::Scalar(_) => "number",
        Type::Tuple(_) => "tuple",
        Type::Array(_) => "array",
        _ => "value",
    }
}
