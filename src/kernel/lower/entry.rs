//! The way in from the host: one signature for every kernel.
//!
//! ```text
//!   (context, results, arguments) ─► lanes out of eight bytes each ─► unit ─► results, eight bytes each
//! ```

use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, Function as Clif, InstBuilder, Signature,
    UserExternalName, UserFuncName, types,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::r#gen::lane_memory;
use super::{Reference, Shared};
use crate::kernel::{abi, ir};

/// The entry of a kernel.
pub(super) fn entry(
    ir: &ir::Function,
    isa: &dyn TargetIsa,
    shared: &mut Shared<'_>,
    context: &mut FunctionBuilderContext,
) -> Clif {
    let unit = ir::FunctionType {
        params: ir.params.iter().map(|param| ir.locals[param.0 as usize].ty.clone()).collect(),
        result: ir.result.clone(),
    };
    let signature = abi::entry_signature(isa);
    let mut clif = Clif::with_name_signature(UserFuncName::default(), signature);
    let mut b = FunctionBuilder::new(&mut clif, context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let [context, results, arguments] = b.block_params(block)[..] else {
        unreachable!("that is its signature")
    };
    let mut args = vec![context];
    let in_memory = abi::returns_in_memory(&unit.result);
    if in_memory {
        args.push(results);
    }
    let lanes = unit.params.iter().flat_map(abi::lanes);
    for (at, lane) in lanes.enumerate() {
        args.push(b.ins().load(lane.clif(), lane_memory(), arguments, 8 * at as i32));
    }
    let number = shared.number(Reference::Own(0));
    let user = UserExternalName { namespace: 0, index: number };
    let name = ExternalName::user(b.func.declare_imported_user_function(user));
    let signature = b.import_signature(abi::unit_signature(&unit, isa));
    let data = ExtFuncData { name, signature, colocated: true, patchable: false };
    let function = b.import_function(data);
    let call = b.ins().call(function, &args);
    let returned = b.inst_results(call).to_vec();
    if !in_memory {
        for lane in &returned[1..] {
            b.ins().store(lane_memory(), *lane, results, 0);
        }
    }
    debug_assert_eq!(b.func.dfg.value_type(returned[0]), types::I64);
    b.ins().return_(&returned[..1]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    clif
}

/// The entry by C's convention of the unit `name`.
pub(super) fn c_entry(
    name: &str,
    unit: &ir::FunctionType,
    isa: &dyn TargetIsa,
    shared: &mut Shared<'_>,
    context: &mut FunctionBuilderContext,
) -> Clif {
    let mut signature = Signature::new(isa.default_call_conv());
    let lane = |ty: &ir::Type| {
        let scalar = ty.scalar().expect("looked at before");
        let param = AbiParam::new(super::scalar::clif(scalar));
        // C's callers and callees may count on narrow integers being extended.
        if scalar.is_signed() {
            param.sext()
        } else if scalar.is_float() {
            param
        } else {
            param.uext()
        }
    };
    signature.params.extend(unit.params.iter().map(lane));
    if unit.result != ir::Type::None {
        signature.returns.push(lane(&unit.result));
    }
    let mut clif = Clif::with_name_signature(UserFuncName::default(), signature);
    let mut b = FunctionBuilder::new(&mut clif, context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    let params = b.block_params(block).to_vec();

    let mut import = |b: &mut FunctionBuilder<'_>, reference: Reference, signature: Signature| {
        let number = shared.number(reference);
        let user = UserExternalName { namespace: 0, index: number };
        let name = ExternalName::user(b.func.declare_imported_user_function(user));
        let signature = b.import_signature(signature);
        b.import_function(ExtFuncData { name, signature, colocated: true, patchable: false })
    };
    let mut begin = Signature::new(isa.default_call_conv());
    begin.returns.push(AbiParam::new(types::I64));
    let begin = import(&mut b, Reference::Runtime("c_begin".into()), begin);
    let mut end = Signature::new(isa.default_call_conv());
    end.params.extend([AbiParam::new(types::I64); 2]);
    let end = import(&mut b, Reference::Runtime("c_end".into()), end);
    let callee = abi::unit_signature(unit, isa);
    let callee = import(&mut b, Reference::Unit(name.into()), callee);

    let call = b.ins().call(begin, &[]);
    let context = b.inst_results(call)[0];
    let mut args = vec![context];
    args.extend(params);
    let call = b.ins().call(callee, &args);
    let returned = b.inst_results(call).to_vec();
    b.ins().call(end, &[context, returned[0]]);
    b.ins().return_(&returned[1..]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    clif
}
