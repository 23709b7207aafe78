//! What is at hand while a function is built.
//!
//! ```text
//!   temps:  owners that the running statement made and has to give back     [a, b, c]
//!   error ──► way out for just these temps ──► give back locals ──► return 1
//! ```
//!
//! Every owner lane of a fresh value is a *temp* until somebody takes it over. A way out knows which temps there were
//! where it is taken; ways out are shared as long as the temps are the same, and are built at the end, out of the way.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, ExtFuncData, ExternalName, FuncRef, Function as Clif, GlobalValue,
    GlobalValueData, InstBuilder, MemFlagsData, Signature, StackSlot, StackSlotData, StackSlotKind,
    Type as ClifType, UserExternalName, UserFuncName, Value, types,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use super::carry::Carried;
use super::facts::Facts;
use super::{Reference, Shared};
use crate::kernel::abi::{self, Lane};
use crate::kernel::ir::{FunctionType, Label, LocalId, Site, Type};
use crate::kernel::{ir, runtime};

/// A value: one CLIF value per lane.
pub(super) type Lanes = Vec<Value>;

/// A statement that can be left.
pub(super) struct Scope {
    pub(super) label: Label,
    pub(super) leave: Block,
    pub(super) next: Option<Block>,
}

/// What a way out raises, class and text; nothing if the error is set already.
type Raised = Option<(&'static str, String)>;

/// Where an error leaves the function: the statement, and the call that failed, if it was one: its reference, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Left {
    site: Site,
    call: u32,
}

/// A way out with an error.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Exit {
    raise: Raised,
    left: Left,
    temps: Vec<Value>,
    /// Where it goes, if not out of the function.
    handler: Option<Block>,
}

/// Where errors go while the body of a `try` is built; temps from before it stay.
pub(super) struct Handler {
    pub(super) block: Block,
    pub(super) temps: usize,
}

pub(super) struct Gen<'a, 'b> {
    pub(super) ir: &'a ir::Function,
    pub(super) isa: &'b dyn TargetIsa,
    pub(super) shared: &'b mut Shared<'a>,
    pub(super) b: FunctionBuilder<'b>,
    /// The variable of each lane of each local.
    locals: Vec<Vec<Variable>>,
    /// Whether what a local holds is given back when the function ends: not so of parameters that are never assigned.
    owned: Vec<bool>,
    pub(super) facts: Facts,
    /// Elements that the loop being built carries from round to round.
    pub(super) carried: Vec<Carried<'a>>,
    pub(super) context: Value,
    /// Where results of more than one lane go.
    results: Option<Value>,
    pub(super) scopes: Vec<Scope>,
    temps: Vec<Value>,
    /// Temps before this may not be taken over: what takes them might not run.
    border: usize,
    exits: Vec<(Block, Exit)>,
    /// The block of each exit.
    exit_of: HashMap<Exit, Block>,
    /// The statement that is being built.
    pub(super) site: Site,
    /// The `try`s around it, innermost last.
    pub(super) handlers: Vec<Handler>,
    /// The errors that the handlers around it keep.
    pub(super) kept: Vec<Value>,
    /// Gives back the locals and returns; it is told where the error left.
    fail: Block,
    exit: Block,
    functions: HashMap<u32, FuncRef>,
    data: HashMap<u32, GlobalValue>,
    /// Whether this is a part of a parallel loop: loops inside of it run on its thread.
    pub(super) is_part: bool,
}

/// Memory that is the program's: elements of arrays, fields. It may lie at any address.
pub(super) fn heap() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Memory of the calling convention: lanes of eight bytes.
pub(super) fn lane_memory() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// The CLIF of the unit itself.
pub(super) fn unit<'a, 'b>(
    ir: &'a ir::Function,
    isa: &'b dyn TargetIsa,
    shared: &'b mut Shared<'a>,
    context: &'b mut FunctionBuilderContext,
) -> Clif {
    let signature = FunctionType {
        params: ir.params.iter().map(|param| ir.locals[param.0 as usize].ty.clone()).collect(),
        result: ir.result.clone(),
    };
    let mut clif =
        Clif::with_name_signature(UserFuncName::default(), abi::unit_signature(&signature, isa));
    let mut builder = Gen::new(ir, isa, shared, FunctionBuilder::new(&mut clif, context));
    let entry = builder.b.current_block().expect("there is a first block");
    let mut values = builder.b.block_params(entry).to_vec().into_iter();
    builder.context = values.next().expect("the context comes first");
    if abi::returns_in_memory(&ir.result) {
        builder.results = values.next();
    }
    for &param in &ir.params {
        let lanes: Lanes = values.by_ref().take(builder.vars(param).len()).collect();
        builder.set_param(param, &lanes);
    }
    if builder.facts.calls {
        builder.check_stack();
    }
    builder.stmts(&ir.body);
    if !builder.b.is_unreachable() {
        let value = builder.zero(&ir.result);
        builder.return_lanes(&value);
    }
    builder.finish();
    clif
}

impl<'a, 'b> Gen<'a, 'b> {
    /// A function with its first block begun, whose locals are unset.
    pub(super) fn new(
        ir: &'a ir::Function,
        isa: &'b dyn TargetIsa,
        shared: &'b mut Shared<'a>,
        mut b: FunctionBuilder<'b>,
    ) -> Self {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let mut locals = Vec::with_capacity(ir.locals.len());
        for local in &ir.locals {
            let lanes = abi::lanes(&local.ty);
            locals.push(lanes.iter().map(|lane| b.declare_var(lane.clif())).collect());
        }
        let (fail, exit) = (b.create_block(), b.create_block());
        b.set_cold_block(fail);
        b.append_block_param(fail, types::I64);
        let context = b.block_params(entry)[0];
        Gen {
            ir,
            isa,
            shared,
            b,
            locals,
            owned: ir.locals.iter().map(|local| has_owner(&local.ty)).collect(),
            facts: Facts::of(ir),
            carried: Vec::new(),
            context,
            results: None,
            scopes: Vec::new(),
            temps: Vec::new(),
            border: 0,
            exits: Vec::new(),
            exit_of: HashMap::new(),
            site: Site::default(),
            handlers: Vec::new(),
            kept: Vec::new(),
            fail,
            exit,
            functions: HashMap::new(),
            data: HashMap::new(),
            is_part: false,
        }
    }

    /// Gives a parameter, or a captured local, its value, which is borrowed.
    pub(super) fn set_param(&mut self, param: LocalId, lanes: &[Value]) {
        self.set_vars(param, lanes);
        let is_assigned = self.facts.is_assigned(param);
        if has_owner(self.local_type(param)) {
            if is_assigned {
                let ty = self.local_type(param).clone();
                self.retain_all(&ty, lanes);
            } else {
                self.owned[param.0 as usize] = false;
            }
        }
    }

    /// What a captured local holds is given back by another.
    pub(super) fn borrow_local(&mut self, local: LocalId) {
        self.owned[local.0 as usize] = false;
    }

    /// Builds what is out of the way: the ways out, and the ends.
    pub(super) fn finish(mut self) {
        let exits = std::mem::take(&mut self.exits);
        for (block, exit) in exits {
            self.b.switch_to_block(block);
            if let Some((class, text)) = &exit.raise {
                let bytes = format!("{class}\0{text}").into_bytes();
                let length = self.int(bytes.len() as i64);
                let text = self.bytes(bytes);
                let context = self.context;
                self.helper("raise_text", &[context, text, length], &[]);
            }
            for owner in exit.temps {
                self.release(owner);
            }
            if let Some(handler) = exit.handler {
                self.b.ins().jump(handler, &[]);
                continue;
            }
            let Left { site, call } = exit.left;
            let left = self.int(i64::from(call) << 32 | i64::from(site.0));
            let fail = self.fail;
            self.b.ins().jump(fail, &[left.into()]);
        }

        self.b.switch_to_block(self.fail);
        let left = self.b.block_params(self.fail)[0];
        let context = self.context;
        self.helper("passed", &[context, left], &[]);
        self.release_locals();
        let mut values = vec![self.int(1)];
        values.extend(self.register_results().into_iter().map(|ty| zero_of(&mut self.b, ty)));
        self.b.ins().return_(&values);

        self.b.switch_to_block(self.exit);
        let results: Vec<Value> = self
            .register_results()
            .into_iter()
            .map(|ty| self.b.append_block_param(self.exit, ty))
            .collect();
        self.release_locals();
        let mut values = vec![self.int(0)];
        values.extend(results);
        self.b.ins().return_(&values);

        self.b.seal_all_blocks();
        self.b.finalize(self.isa.frontend_config());
    }

    /// The types of what is returned in registers, behind the status.
    fn register_results(&self) -> Vec<ClifType> {
        self.b.func.signature.returns[1..].iter().map(|returned| returned.value_type).collect()
    }

    fn release_locals(&mut self) {
        for index in 0..self.ir.locals.len() {
            if self.owned[index] {
                let local = LocalId(index as u32);
                let lanes = self.get_vars(local);
                self.release_all(&self.ir.locals[index].ty, &lanes);
            }
        }
    }

    /// Returns an owned value, and goes on in a block that is never reached.
    pub(super) fn return_lanes(&mut self, lanes: &[Value]) {
        let mut arguments = Vec::new();
        match self.results {
            Some(results) => {
                for (at, lane) in lanes.iter().enumerate() {
                    self.b.ins().store(lane_memory(), *lane, results, 8 * at as i32);
                }
            }
            None => arguments.extend(lanes.iter().map(|lane| BlockArg::Value(*lane))),
        }
        for owner in self.temps.clone().into_iter().rev() {
            self.release(owner);
        }
        let exit = self.exit;
        self.b.ins().jump(exit, &arguments);
        self.dead();
    }

    /// Begins a block that is never reached, for what stands behind a jump.
    pub(super) fn dead(&mut self) {
        let block = self.b.create_block();
        self.b.switch_to_block(block);
        self.b.seal_block(block);
    }

    /// Raises `RecursionError` if the stack is nearly used up.
    pub(super) fn check_stack(&mut self) {
        let here = self.b.ins().get_stack_pointer(types::I64);
        let context = self.context;
        let limit = self.b.ins().load(
            types::I64,
            lane_memory().with_readonly(),
            context,
            runtime::context::STACK_LIMIT,
        );
        let low = self.b.ins().icmp(IntCC::UnsignedLessThan, here, limit);
        self.raise_if(low, "RecursionError", "maximum recursion depth exceeded");
    }

    // Locals.

    pub(super) fn local_type(&self, local: LocalId) -> &'a Type {
        &self.ir.locals[local.0 as usize].ty
    }

    fn vars(&self, local: LocalId) -> &[Variable] {
        &self.locals[local.0 as usize]
    }

    pub(super) fn get_vars(&mut self, local: LocalId) -> Lanes {
        let vars = &self.locals[local.0 as usize];
        vars.iter().map(|var| self.b.use_var(*var)).collect()
    }

    /// Writes a local, whatever it held before.
    pub(super) fn set_vars(&mut self, local: LocalId, lanes: &[Value]) {
        let vars = &self.locals[local.0 as usize];
        for (var, lane) in vars.iter().zip(lanes) {
            self.b.def_var(*var, *lane);
        }
    }

    /// Moves an owned value into a local, and gives back what it held.
    pub(super) fn assign(&mut self, local: LocalId, lanes: &[Value]) {
        if !self.owned[local.0 as usize] {
            self.set_vars(local, lanes);
            return;
        }
        let old = self.get_vars(local);
        self.set_vars(local, lanes);
        self.release_all(&self.ir.locals[local.0 as usize].ty, &old);
    }

    /// Moves what an owned local holds out of it; none if it is only borrowed.
    pub(super) fn move_out(&mut self, local: LocalId) -> Option<Lanes> {
        if !self.owned[local.0 as usize] {
            return None;
        }
        let lanes = self.get_vars(local);
        let kinds = abi::lanes(self.local_type(local));
        for (at, kind) in kinds.iter().enumerate() {
            if *kind == Lane::Owner {
                let null = self.int(0);
                let var = self.locals[local.0 as usize][at];
                self.b.def_var(var, null);
            }
        }
        Some(lanes)
    }

    // Owners.

    /// Registers the owners of a fresh value.
    pub(super) fn own(&mut self, ty: &Type, lanes: &[Value]) {
        for owner in owners(ty, lanes) {
            self.temps.push(owner);
        }
    }

    /// Registers a fresh owner.
    pub(super) fn own_lane(&mut self, owner: Value) {
        self.temps.push(owner);
    }

    /// Makes a value the taker's: its owners are temps no more, or counted once more.
    pub(super) fn take(&mut self, ty: &Type, lanes: &[Value]) {
        for owner in owners(ty, lanes) {
            match self.temps[self.border..].iter().rposition(|temp| *temp == owner) {
                Some(at) => {
                    self.temps.remove(self.border + at);
                }
                None => self.retain(owner),
            }
        }
    }

    /// Counts the owners of a borrowed value once more, until the statement ends.
    pub(super) fn hold(&mut self, ty: &Type, lanes: &[Value]) {
        self.retain_all(ty, lanes);
        self.own(ty, lanes);
    }

    /// How many temps there are.
    pub(super) fn mark(&self) -> usize {
        self.temps.len()
    }

    /// Gives back the temps since a mark.
    pub(super) fn release_to(&mut self, mark: usize) {
        while self.temps.len() > mark {
            let owner = self.temps.pop().expect("there are more than the mark");
            self.release(owner);
        }
    }

    /// What is built until [`leave_border`](Self::leave_border) might not run, or run often: it may not take over temps from
    /// before.
    pub(super) fn enter_border(&mut self) -> usize {
        std::mem::replace(&mut self.border, self.temps.len())
    }

    pub(super) fn leave_border(&mut self, before: usize) {
        debug_assert_eq!(self.temps.len(), self.border, "temps end where they began");
        self.border = before;
    }

    pub(super) fn retain(&mut self, owner: Value) {
        self.helper("retain", &[owner], &[]);
    }

    pub(super) fn release(&mut self, owner: Value) {
        self.helper("release", &[owner], &[]);
    }

    pub(super) fn retain_all(&mut self, ty: &Type, lanes: &[Value]) {
        for owner in owners(ty, lanes) {
            self.retain(owner);
        }
    }

    pub(super) fn release_all(&mut self, ty: &Type, lanes: &[Value]) {
        for owner in owners(ty, lanes) {
            self.release(owner);
        }
    }

    // Errors.

    /// The block that raises this.
    pub(super) fn raising(&mut self, class: &'static str, text: &str) -> Block {
        self.way_out(Some((class, text.to_owned())), 0)
    }

    /// Goes on only if `condition` is not set; raises otherwise.
    pub(super) fn raise_if(&mut self, condition: Value, class: &'static str, text: &str) {
        let exit = self.raising(class, text);
        self.branch_out(condition, exit);
    }

    /// Leaves with the error that is set in the context, if `status` is not zero.
    pub(super) fn check(&mut self, status: Value) {
        let exit = self.way_out(None, 0);
        self.branch_out(status, exit);
    }

    /// As [`check`](Self::check), of a call of another unit.
    pub(super) fn check_call(&mut self, status: Value, unit: u32) {
        let exit = self.way_out(None, unit + 1);
        self.branch_out(status, exit);
    }

    /// The block that leaves with the error that is set in the context.
    pub(super) fn failed(&mut self) -> Block {
        self.way_out(None, 0)
    }

    /// Leaves with the error that is set in the context, and goes on in a block that is never reached.
    pub(super) fn fail(&mut self) {
        let exit = self.way_out(None, 0);
        self.b.ins().jump(exit, &[]);
        self.dead();
    }

    fn branch_out(&mut self, condition: Value, exit: Block) {
        let go_on = self.b.create_block();
        self.b.ins().brif(condition, exit, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
        self.b.seal_block(go_on);
    }

    fn way_out(&mut self, raise: Raised, call: u32) -> Block {
        let (handler, first) = match self.handlers.last() {
            Some(handler) => (Some(handler.block), handler.temps),
            None => (None, 0),
        };
        let left = Left { site: self.site, call };
        let exit = Exit { raise, left, temps: self.temps[first..].to_vec(), handler };
        if let Some(block) = self.exit_of.get(&exit) {
            return *block;
        }
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        self.exits.push((block, exit.clone()));
        self.exit_of.insert(exit, block);
        block
    }

    // Small things.

    pub(super) fn int(&mut self, value: i64) -> Value {
        self.b.ins().iconst(types::I64, value)
    }

    /// The unset value of a type.
    pub(super) fn zero(&mut self, ty: &Type) -> Lanes {
        let lanes = abi::lanes(ty);
        lanes.iter().map(|lane| zero_of(&mut self.b, lane.clif())).collect()
    }

    /// A block with a parameter per lane.
    pub(super) fn join(&mut self, ty: &Type) -> (Block, Lanes) {
        let block = self.b.create_block();
        let lanes = abi::lanes(ty);
        let values = lanes.iter().map(|lane| self.b.append_block_param(block, lane.clif()));
        (block, values.collect())
    }

    pub(super) fn jump(&mut self, block: Block, lanes: &[Value]) {
        let arguments: Vec<BlockArg> = lanes.iter().map(|lane| BlockArg::Value(*lane)).collect();
        self.b.ins().jump(block, &arguments);
    }

    /// Memory in the frame for so many lanes.
    pub(super) fn slot(&mut self, lanes: usize) -> StackSlot {
        let size = 8 * lanes.max(1) as u32;
        self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3))
    }

    pub(super) fn slot_address(&mut self, slot: StackSlot) -> Value {
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Stores lanes from `address` on, eight bytes each. Narrow lanes leave the rest of their bytes as they are.
    pub(super) fn store_lanes(&mut self, address: Value, offset: i32, lanes: &[Value]) {
        for (at, lane) in lanes.iter().enumerate() {
            self.b.ins().store(lane_memory(), *lane, address, offset + 8 * at as i32);
        }
    }

    pub(super) fn load_lanes(&mut self, address: Value, offset: i32, ty: &Type) -> Lanes {
        let lanes = abi::lanes(ty);
        let load = |(at, lane): (usize, &Lane)| {
            let offset = offset + 8 * at as i32;
            self.b.ins().load(lane.clif(), lane_memory(), address, offset)
        };
        lanes.iter().enumerate().map(load).collect()
    }

    // References.

    /// Calls a helper of the runtime. All of its arguments are passed as they are.
    pub(super) fn helper(
        &mut self,
        name: &str,
        args: &[Value],
        returns: &[ClifType],
    ) -> Vec<Value> {
        let mut signature = Signature::new(self.isa.default_call_conv());
        for arg in args {
            signature.params.push(AbiParam::new(self.b.func.dfg.value_type(*arg)));
        }
        signature.returns.extend(returns.iter().map(|ty| AbiParam::new(*ty)));
        let function = self.function(Reference::Runtime(name.into()), signature);
        let call = self.b.ins().call(function, args);
        self.b.inst_results(call).to_vec()
    }

    /// A function to call.
    pub(super) fn function(&mut self, reference: Reference, signature: Signature) -> FuncRef {
        let number = self.shared.number(reference);
        if let Some(function) = self.functions.get(&number) {
            return *function;
        }
        let name = self.user_name(number);
        let signature = self.b.import_signature(signature);
        let data = ExtFuncData { name, signature, colocated: true, patchable: false };
        let function = self.b.import_function(data);
        self.functions.insert(number, function);
        function
    }

    /// The address of data.
    pub(super) fn symbol(&mut self, reference: Reference) -> Value {
        let number = self.shared.number(reference);
        let global = match self.data.get(&number) {
            Some(global) => *global,
            None => {
                let name = self.user_name(number);
                let offset = 0.into();
                let data = GlobalValueData::Symbol { name, offset, colocated: false, tls: false };
                let global = self.b.create_global_value(data);
                self.data.insert(number, global);
                global
            }
        };
        self.b.ins().symbol_value(types::I64, global)
    }

    pub(super) fn bytes(&mut self, bytes: Vec<u8>) -> Value {
        self.symbol(Reference::Bytes(bytes))
    }

    fn user_name(&mut self, number: u32) -> ExternalName {
        let user = UserExternalName { namespace: 0, index: number };
        ExternalName::user(self.b.func.declare_imported_user_function(user))
    }
}

/// A zero, or a null.
pub(super) fn zero_of(b: &mut FunctionBuilder<'_>, ty: ClifType) -> Value {
    match ty {
        types::F64 => b.ins().f64const(0.0),
        types::F32 => b.ins().f32const(0.0),
        _ => b.ins().iconst(ty, 0),
    }
}

/// Whether a type has an owner lane.
pub(super) fn has_owner(ty: &Type) -> bool {
    abi::lanes(ty).contains(&Lane::Owner)
}

/// The owner lanes of a value.
fn owners(ty: &Type, lanes: &[Value]) -> Vec<Value> {
    let kinds = abi::lanes(ty);
    let pairs = kinds.iter().zip(lanes);
    pairs.filter(|(kind, _)| **kind == Lane::Owner).map(|(_, lane)| *lane).collect()
}
