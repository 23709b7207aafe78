//! Calling a function whose signature is known at run time only.
//!
//! ```text
//!   call(args) ──► [slot 0][slot 1]…  16 bytes each ──► trampoline(function, slots)
//!                     ▲                                     │ loads the parameters, calls, stores the results
//!                     └──────────────── results ◄───────────┘
//! ```
//!
//! A trampoline is code like any other: one per signature, compiled and kept through the same store.

use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, MemFlagsData, Signature, UserFuncName,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::error::CodeError;

/// The size of a slot: that of the largest value.
const SLOT: usize = 16;

/// The function that takes the address of a function of this signature and that of an array of slots,
/// calls the one with the values in the slots, and leaves its results there.
pub(crate) fn trampoline(signature: &Signature, isa: &dyn TargetIsa) -> Function {
    let mut function = declaration(isa);
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let (callee, slots) = (builder.block_params(block)[0], builder.block_params(block)[1]);
    let flags = MemFlagsData::trusted();
    let at = |slot: usize| (slot * SLOT) as i32;

    let mut arguments = Vec::with_capacity(signature.params.len());
    for (slot, param) in signature.params.iter().enumerate() {
        arguments.push(builder.ins().load(param.value_type, flags, slots, at(slot)));
    }
    let callee_signature = builder.import_signature(signature.clone());
    let call = builder.ins().call_indirect(callee_signature, callee, &arguments);
    let results = builder.inst_results(call).to_vec();
    for (slot, value) in results.into_iter().enumerate().take(signature.returns.len()) {
        builder.ins().store(flags, value, slots, at(slot));
    }
    builder.ins().return_(&[]);
    builder.finalize(isa.frontend_config());
    function
}

/// What is the same of all trampolines: a function of their signature, without a body.
pub(crate) fn declaration(isa: &dyn TargetIsa) -> Function {
    let pointer = isa.pointer_type();
    let mut own = Signature::new(isa.default_call_conv());
    own.params.extend([AbiParam::new(pointer), AbiParam::new(pointer)]);
    Function::with_name_signature(UserFuncName::default(), own)
}

/// The slots for a call of `name` with these arguments.
pub(crate) fn fill_slots(
    name: &str,
    signature: &Signature,
    arguments: &[DataValue],
) -> Result<Vec<u128>, CodeError> {
    // A vector's value does not know how wide its lanes are.
    let fits = |(argument, param): (&DataValue, &AbiParam)| {
        let (is, wanted) = (argument.ty(), param.value_type);
        is == wanted || is.is_vector() && wanted.is_vector() && is.bytes() == wanted.bytes()
    };
    let params = &signature.params;
    if arguments.len() != params.len() || !arguments.iter().zip(params).all(fits) {
        let list = |types: Vec<String>| format!("({})", types.join(", "));
        return Err(CodeError::Arguments {
            function: name.into(),
            expected: list(params.iter().map(|p| p.value_type.to_string()).collect()),
            got: list(arguments.iter().map(|argument| argument.ty().to_string()).collect()),
        });
    }
    let mut slots = vec![0; signature.params.len().max(signature.returns.len())];
    for (slot, argument) in slots.iter_mut().zip(arguments) {
        let mut bytes = [0; SLOT];
        argument.write_to_slice_ne(&mut bytes);
        *slot = u128::from_ne_bytes(bytes);
    }
    Ok(slots)
}

/// The results that a call left in the slots.
pub(crate) fn read_slots(signature: &Signature, slots: &[u128]) -> Vec<DataValue> {
    let read = |(slot, result): (&u128, &AbiParam)| {
        DataValue::read_from_slice_ne(&slot.to_ne_bytes(), result.value_type)
    };
    slots.iter().zip(&signature.returns).map(read).collect()
}

/// What a trampoline of this signature is called in reports.
pub(crate) fn trampoline_name(signature: &Signature) -> String {
    format!("call {signature}")
}
