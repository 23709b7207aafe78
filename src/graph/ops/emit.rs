//! What emitters write kernels with: operands, loops, and calls of named functions.
//!
//! ```text
//!   entry: load every dim and stride of the frame
//!   range: if start < end { loop { body; i += step } while i < end }     values carried from turn to turn
//!   nest:  a range per axis, with a pointer per operand that moves by strides
//! ```

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::Offset32;
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, BlockArg, ExtFuncData, ExternalName, FuncRef, Function, InstBuilder, MemFlagsData,
    Signature, StackSlotData, StackSlotKind, Type, UserExternalName, UserFuncName, Value,
};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::graph::abi::Status;
use crate::graph::node::{Layout, NodeSpec};
use crate::graph::runtime::SYMBOLS;
use crate::graph::tensor::ElementType;

/// The namespace of the external names of [`SYMBOLS`].
pub(crate) const NAMESPACE: u32 = 0;

/// The signature of every kernel.
pub(crate) fn signature(conv: CallConv) -> Signature {
    let mut signature = Signature::new(conv);
    signature.params.push(AbiParam::new(I64));
    signature.returns.push(AbiParam::new(I64));
    signature
}

/// A function without a body: signature, and references to all symbols in their order.
pub(crate) fn declaration(conv: CallConv) -> Function {
    let mut function = Function::with_name_signature(UserFuncName::default(), signature(conv));
    for index in 0..SYMBOLS.len() as u32 {
        function.declare_imported_user_function(UserExternalName { namespace: NAMESPACE, index });
    }
    function
}

/// The type that an element has in CLIF.
pub(super) fn clif(element: ElementType) -> Type {
    match element {
        ElementType::F32 => F32,
        ElementType::F64 => F64,
        ElementType::I8 | ElementType::U8 | ElementType::Bool => I8,
        ElementType::I16 | ElementType::U16 => I16,
        ElementType::I32 | ElementType::U32 => I32,
        ElementType::I64 | ElementType::U64 => I64,
    }
}

/// An operand as the kernel sees it.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) element: ElementType,
    pub(super) layout: Layout,
    /// The address of its first element.
    pub(super) data: Value,
    pub(super) dims: Vec<Value>,
    /// In bytes.
    pub(super) strides: Vec<Value>,
}

impl Array {
    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }

    pub(super) fn lane(&self) -> Lane {
        self.lane_of(0..self.rank())
    }

    /// Some of its axes, from its first element on.
    pub(super) fn lane_of(&self, axes: impl IntoIterator<Item = usize>) -> Lane {
        Lane {
            start: self.data,
            strides: axes.into_iter().map(|axis| self.strides[axis]).collect(),
        }
    }
}

/// A pointer that a [`nest`](Emitter::nest) moves: where it starts, and its stride on each axis.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) start: Value,
    pub(super) strides: Vec<Value>,
}

/// Values that a loop carries from turn to turn.
pub(super) type Carried = Vec<Value>;

/// Writes one kernel.
pub(super) struct Emitter<'a> {
    pub(super) builder: FunctionBuilder<'a>,
    /// Present inputs and outputs, in the places that the specification has them in.
    pub(super) inputs: Vec<Option<Array>>,
    pub(super) outputs: Vec<Option<Array>>,
    conv: CallConv,
    symbols: Vec<Option<FuncRef>>,
}

/// The kernel of a specification, whose body `body` writes.
pub(super) fn function(
    spec: &NodeSpec,
    config: TargetFrontendConfig,
    body: impl FnOnce(&mut Emitter<'_>),
) -> Function {
    let conv = config.default_call_conv;
    let mut function = declaration(conv);
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let frame = builder.block_params(block)[0];
    let mut emitter = Emitter {
        builder,
        inputs: Vec::new(),
        outputs: Vec::new(),
        conv,
        symbols: vec![None; SYMBOLS.len()],
    };
    let mut at = 0;
    emitter.inputs = emitter.operands(&spec.inputs, frame, &mut at);
    emitter.outputs = emitter.operands(&spec.outputs, frame, &mut at);
    body(&mut emitter);
    emitter.finish(Status::Done);
    let Emitter { mut builder, .. } = emitter;
    builder.seal_all_blocks();
    builder.finalize(config);
    function
}

impl Emitter<'_> {
    fn operands(
        &mut self,
        operands: &[Option<crate::graph::node::Operand>],
        frame: Value,
        at: &mut i32,
    ) -> Vec<Option<Array>> {
        let mut word = |emitter: &mut Self| {
            let flags = MemFlagsData::trusted().with_readonly();
            let value = emitter.builder.ins().load(I64, flags, frame, *at);
            *at += 8;
            value
        };
        let mut arrays = Vec::with_capacity(operands.len());
        for operand in operands {
            arrays.push(operand.as_ref().map(|operand| {
                let data = word(self);
                let dims = (0..operand.rank).map(|_| word(self)).collect();
                let strides = (0..operand.rank).map(|_| word(self)).collect();
                Array { element: operand.element, layout: operand.layout, data, dims, strides }
            }));
        }
        arrays
    }

    /// The input at this position, which must be there.
    pub(super) fn input(&self, index: usize) -> Array {
        self.inputs[index].clone().expect("the input is there")
    }

    /// The output at this position, which must be there.
    pub(super) fn output(&self, index: usize) -> Array {
        self.outputs[index].clone().expect("the output is there")
    }

    /// Returns from the kernel, here.
    pub(super) fn finish(&mut self, status: Status) {
        let status = self.int(status as i64);
        self.builder.ins().return_(&[status]);
    }

    /// Returns from the kernel where `condition` is true.
    pub(super) fn fail_if(&mut self, condition: Value, status: Status) {
        let (fail, go_on) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(fail);
        self.builder.ins().brif(condition, fail, &[], go_on, &[]);
        self.builder.switch_to_block(fail);
        self.builder.seal_block(fail);
        self.finish(status);
        self.builder.switch_to_block(go_on);
        self.builder.seal_block(go_on);
    }

    /// A 64-bit number.
    pub(super) fn int(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(I64, value)
    }

    pub(super) fn add(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().iadd(a, b)
    }

    pub(super) fn sub(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().isub(a, b)
    }

    pub(super) fn mul(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().imul(a, b)
    }

    pub(super) fn offset(&mut self, a: Value, by: i64) -> Value {
        if by == 0 { a } else { self.builder.ins().iadd_imm_s(a, by) }
    }

    /// `base + index * stride`.
    pub(super) fn at(&mut self, base: Value, index: Value, stride: Value) -> Value {
        let by = self.mul(index, stride);
        self.add(base, by)
    }

    pub(super) fn compare(&mut self, cond: IntCC, a: Value, b: Value) -> Value {
        self.builder.ins().icmp(cond, a, b)
    }

    /// Whether `a` and the number `b` compare so, as signed integers.
    pub(super) fn compare_to(&mut self, cond: IntCC, a: Value, b: i64) -> Value {
        self.builder.ins().icmp_imm_s(cond, a, b)
    }

    pub(super) fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        self.builder.ins().select(condition, a, b)
    }

    /// The product of dimensions.
    pub(super) fn product(&mut self, dims: &[Value]) -> Value {
        let mut dims = dims.iter();
        match dims.next() {
            None => self.int(1),
            Some(&first) => dims.fold(first, |product, &dim| self.mul(product, dim)),
        }
    }

    pub(super) fn load(&mut self, element: ElementType, address: Value) -> Value {
        self.load_as(clif(element), address, 0)
    }

    pub(super) fn load_as(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        // Vectors are loaded from where elements begin, which need not be where vectors would.
        let flags = MemFlagsData::new().with_trap_code(None);
        self.builder.ins().load(ty, flags, address, Offset32::new(offset))
    }

    pub(super) fn store(&mut self, value: Value, address: Value) {
        self.store_at(value, address, 0);
    }

    pub(super) fn store_at(&mut self, value: Value, address: Value, offset: i32) {
        let flags = MemFlagsData::new().with_trap_code(None);
        self.builder.ins().store(flags, value, address, Offset32::new(offset));
    }

    /// Memory on the stack.
    pub(super) fn stack(&mut self, bytes: usize) -> Value {
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 4);
        let slot = self.builder.create_sized_stack_slot(slot);
        self.builder.ins().stack_addr(I64, slot, 0)
    }

    /// Calls a function of [`SYMBOLS`].
    pub(super) fn call(&mut self, name: &str, args: &[Value]) -> Option<Value> {
        let index = SYMBOLS.iter().position(|symbol| symbol.name == name);
        let index = index.unwrap_or_else(|| panic!("no symbol is called {name}"));
        let callee = match self.symbols[index] {
            Some(callee) => callee,
            None => {
                let symbol = &SYMBOLS[index];
                let mut signature = Signature::new(self.conv);
                signature.params.extend(symbol.params.iter().copied().map(AbiParam::new));
                signature.returns.extend(symbol.result.map(AbiParam::new));
                let signature = self.builder.import_signature(signature);
                let user = UserExternalName { namespace: NAMESPACE, index: index as u32 };
                let name = self.builder.func.declare_imported_user_function(user);
                let callee = self.builder.import_function(ExtFuncData {
                    name: ExternalName::user(name),
                    signature,
                    colocated: false,
                    patchable: false,
                });
                self.symbols[index] = Some(callee);
                callee
            }
        };
        let call = self.builder.ins().call(callee, args);
        self.builder.inst_results(call).first().copied()
    }

    /// Calls a function of the C library in the version for this floating-point type.
    pub(super) fn libm(&mut self, name: &str, element: ElementType, args: &[Value]) -> Value {
        let result = match element {
            ElementType::F32 => self.call(&format!("{name}f"), args),
            _ => self.call(name, args),
        };
        result.expect("functions of numbers have a result")
    }

    /// Runs `body` for each `i` from `start`, by `step` at a time, while `i < end`. Gives back what it carried last.
    pub(super) fn range(
        &mut self,
        start: Value,
        end: Value,
        step: i64,
        carried: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Carried,
    ) -> Carried {
        let (turn, exit) = (self.builder.create_block(), self.builder.create_block());
        self.builder.append_block_param(turn, I64);
        for &value in carried {
            let ty = self.builder.func.dfg.value_type(value);
            self.builder.append_block_param(turn, ty);
            self.builder.append_block_param(exit, ty);
        }
        let outside = args(carried);
        let enter = self.compare(IntCC::SignedLessThan, start, end);
        let inside = [&[BlockArg::from(start)], &*outside].concat();
        self.builder.ins().brif(enter, turn, &inside, exit, &outside);

        self.builder.switch_to_block(turn);
        let params = self.builder.block_params(turn).to_vec();
        let carried = body(self, params[0], &params[1..]);
        debug_assert_eq!(carried.len() + 1, params.len());
        let next = self.offset(params[0], step);
        let again = self.compare(IntCC::SignedLessThan, next, end);
        let outside = args(&carried);
        let inside = [&[BlockArg::from(next)], &*outside].concat();
        self.builder.ins().brif(again, turn, &inside, exit, &outside);
        self.builder.seal_block(turn);
        self.builder.switch_to_block(exit);
        self.builder.seal_block(exit);
        self.builder.block_params(exit).to_vec()
    }

    /// Runs `body` for each `i` below `count`.
    pub(super) fn each(&mut self, count: Value, body: impl FnOnce(&mut Self, Value)) {
        let zero = self.int(0);
        self.range(zero, count, 1, &[], |emitter, i, _| {
            body(emitter, i);
            Vec::new()
        });
    }

    /// Runs `body` while it says so; it is given what is carried, and gives what is carried on.
    pub(super) fn repeat_while(
        &mut self,
        carried: &[Value],
        body: impl FnOnce(&mut Self, &[Value]) -> (Value, Carried),
    ) -> Carried {
        let (turn, exit) = (self.builder.create_block(), self.builder.create_block());
        for &value in carried {
            let ty = self.builder.func.dfg.value_type(value);
            self.builder.append_block_param(turn, ty);
            self.builder.append_block_param(exit, ty);
        }
        self.builder.ins().jump(turn, &args(carried));
        self.builder.switch_to_block(turn);
        let params = self.builder.block_params(turn).to_vec();
        let (again, carried) = body(self, &params);
        let carried = args(&carried);
        self.builder.ins().brif(again, turn, &carried, exit, &carried);
        self.builder.seal_block(turn);
        self.builder.switch_to_block(exit);
        self.builder.seal_block(exit);
        self.builder.block_params(exit).to_vec()
    }

    /// One of two, by a condition; both give as many values of the same types.
    pub(super) fn either(
        &mut self,
        condition: Value,
        yes: impl FnOnce(&mut Self) -> Carried,
        no: impl FnOnce(&mut Self) -> Carried,
    ) -> Carried {
        let (then, other) = (self.builder.create_block(), self.builder.create_block());
        let merge = self.builder.create_block();
        self.builder.ins().brif(condition, then, &[], other, &[]);
        self.builder.switch_to_block(then);
        self.builder.seal_block(then);
        let values = yes(self);
        for &value in &values {
            let ty = self.builder.func.dfg.value_type(value);
            self.builder.append_block_param(merge, ty);
        }
        self.builder.ins().jump(merge, &args(&values));
        self.builder.switch_to_block(other);
        self.builder.seal_block(other);
        let values = no(self);
        self.builder.ins().jump(merge, &args(&values));
        self.builder.switch_to_block(merge);
        self.builder.seal_block(merge);
        self.builder.block_params(merge).to_vec()
    }

    /// Runs `body` if the condition is true.
    pub(super) fn when(&mut self, condition: Value, body: impl FnOnce(&mut Self)) {
        self.either(
            condition,
            |emitter| {
                body(emitter);
                Vec::new()
            },
            |_| Vec::new(),
        );
    }

    /// Runs `body` for each index below `dims`, the last axis fastest, with the index and a pointer for each lane.
    pub(super) fn nest(
        &mut self,
        dims: &[Value],
        lanes: &[Lane],
        carried: &[Value],
        mut body: impl FnMut(&mut Self, &[Value], &[Value], &[Value]) -> Carried,
    ) -> Carried {
        let mut index = Vec::with_capacity(dims.len());
        let starts: Vec<Value> = lanes.iter().map(|lane| lane.start).collect();
        self.nest_at(dims, lanes, &starts, carried, &mut index, &mut body)
    }

    /// As [`nest`](Self::nest), and carries nothing.
    pub(super) fn walk(
        &mut self,
        dims: &[Value],
        lanes: &[Lane],
        mut body: impl FnMut(&mut Self, &[Value], &[Value]),
    ) {
        self.nest(dims, lanes, &[], |emitter, index, pointers, _| {
            body(emitter, index, pointers);
            Vec::new()
        });
    }

    #[allow(clippy::type_complexity, reason = "the type of the caller's body, by reference")]
    fn nest_at(
        &mut self,
        dims: &[Value],
        lanes: &[Lane],
        pointers: &[Value],
        carried: &[Value],
        index: &mut Vec<Value>,
        body: &mut dyn FnMut(&mut Self, &[Value], &[Value], &[Value]) -> Carried,
    ) -> Carried {
        let axis = index.len();
        let Some(&dim) = dims.get(axis) else {
            return body(self, index, pointers, carried);
        };
        let state = [pointers, carried].concat();
        let zero = self.int(0);
        let after = self.range(zero, dim, 1, &state, |emitter, i, state| {
            let (pointers, carried) = state.split_at(lanes.len());
            index.push(i);
            let carried = emitter.nest_at(dims, lanes, pointers, carried, index, body);
            index.pop();
            let moved = pointers.iter().zip(lanes);
            let mut next: Vec<Value> =
                moved.map(|(&pointer, lane)| emitter.add(pointer, lane.strides[axis])).collect();
            next.extend(carried);
            next
        });
        after[lanes.len()..].to_vec()
    }
}

fn args(values: &[Value]) -> Vec<BlockArg> {
    values.iter().copied().map(BlockArg::from).collect()
}
