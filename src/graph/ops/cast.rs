//! Elements as other types, and bools as masks.
//!
//! ```text
//!   memory:  a byte per bool, 0 or 1        vector: as many lanes as the other elements have, of all ones or zeros
//! ```

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I8, I64};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};

use super::arithmetic::Math;
use super::emit::{Emitter, clif};
use crate::graph::tensor::ElementType;

/// A vector as another type of as many lanes; a bool is a mask.
pub(super) fn cast_vector(
    emitter: &mut Emitter<'_>,
    x: Value,
    from: ElementType,
    to: ElementType,
    lanes: u32,
) -> Value {
    if from == to {
        return x;
    }
    if to == ElementType::Bool {
        let mut math = Math { emitter, element: from, lanes };
        let zero = math.zero();
        return math.compare(FloatCC::NotEqual, IntCC::NotEqual, x, zero);
    }
    let mut math = Math { emitter, element: to, lanes };
    if from == ElementType::Bool {
        let (zero, one) = (math.zero(), math.number(1.0));
        return math.choose(x, one, zero);
    }
    let ty = math.ty();
    math.ins().fcvt_from_sint(ty, x)
}

/// The type of vectors of integers of so many bytes.
fn lanes_of(size: usize) -> Type {
    let lane = Type::int(8 * size as u16).expect("a size of integers");
    lane.by(16 / size as u32).expect("a vector has 128 bits")
}

fn as_vector(emitter: &mut Emitter<'_>, ty: Type, x: Value) -> Value {
    let flags = MemFlagsData::new().with_endianness(Endianness::Little);
    emitter.builder.ins().bitcast(ty, flags, x)
}

/// So many bools in memory as a mask.
pub(super) fn load_mask(
    emitter: &mut Emitter<'_>,
    address: Value,
    offset: i32,
    lanes: u32,
) -> Value {
    let word = Type::int(8 * lanes as u16).expect("so many bytes");
    let bytes = emitter.load_as(word, address, offset);
    let ty = lanes_of(lanes as usize);
    let mut vector = emitter.builder.ins().scalar_to_vector(ty, bytes);
    vector = as_vector(emitter, lanes_of(1), vector);
    for _ in 0..(16 / lanes).trailing_zeros() {
        vector = emitter.builder.ins().uwiden_low(vector);
    }
    emitter.builder.ins().ineg(vector)
}

/// A bool as a mask.
pub(super) fn spread_mask(emitter: &mut Emitter<'_>, value: Value, lanes: u32) -> Value {
    let ty = lanes_of(16 / lanes as usize);
    let wide = emitter.builder.ins().uextend(ty.lane_type(), value);
    let wide = emitter.builder.ins().ineg(wide);
    emitter.builder.ins().splat(ty, wide)
}

/// A mask to so many bools in memory.
pub(super) fn store_mask(
    emitter: &mut Emitter<'_>,
    mask: Value,
    address: Value,
    offset: i32,
    lanes: u32,
) {
    let mut vector = mask;
    // Halves of a lane are the same, so that one of them will do.
    let mut size = 16 / lanes as usize;
    if size == 8 {
        vector = as_vector(emitter, lanes_of(4), vector);
        size = 4;
    }
    while size > 1 {
        vector = emitter.builder.ins().snarrow(vector, vector);
        size /= 2;
    }
    if lanes == 2 {
        vector = as_vector(emitter, lanes_of(2), vector);
        vector = emitter.builder.ins().snarrow(vector, vector);
    }
    let one = emitter.builder.ins().iconst(I8, 1);
    let one = emitter.builder.ins().splat(lanes_of(1), one);
    let bools = emitter.builder.ins().band(vector, one);
    let words = as_vector(emitter, lanes_of(lanes as usize), bools);
    let word = emitter.builder.ins().extractlane(words, 0);
    emitter.store_at(word, address, offset);
}

/// An element as another type.
pub(super) fn cast(
    emitter: &mut Emitter<'_>,
    x: Value,
    from: ElementType,
    to: ElementType,
) -> Value {
    let builder = &mut emitter.builder;
    let (wide, ty) = (clif(from), clif(to));
    match (from, to) {
        _ if from == to => x,
        (ElementType::F32, ElementType::F64) => builder.ins().fpromote(F64, x),
        (ElementType::F64, ElementType::F32) => builder.ins().fdemote(F32, x),
        (ElementType::F32, ElementType::Bool) => {
            let zero = builder.ins().f32const(0.0);
            builder.ins().fcmp(FloatCC::NotEqual, x, zero)
        }
        (ElementType::F64, ElementType::Bool) => {
            let zero = builder.ins().f64const(0.0);
            builder.ins().fcmp(FloatCC::NotEqual, x, zero)
        }
        (_, ElementType::Bool) => builder.ins().icmp_imm_s(IntCC::NotEqual, x, 0),
        (ElementType::F32 | ElementType::F64, ElementType::U64) => {
            let zero = match from {
                ElementType::F32 => builder.ins().f32const(0.0),
                _ => builder.ins().f64const(0.0),
            };
            let negative = builder.ins().fcmp(FloatCC::LessThan, x, zero);
            let below = builder.ins().fcvt_to_sint_sat(I64, x);
            let above = builder.ins().fcvt_to_uint_sat(I64, x);
            builder.ins().select(negative, below, above)
        }
        (ElementType::F32 | ElementType::F64, _) => {
            let number = builder.ins().fcvt_to_sint_sat(I64, x);
            if ty == I64 { number } else { builder.ins().ireduce(ty, number) }
        }
        (ElementType::U64, ElementType::F32 | ElementType::F64) => {
            builder.ins().fcvt_from_uint(ty, x)
        }
        (_, ElementType::F32 | ElementType::F64) => {
            let number = match wide {
                I64 => x,
                _ if from.is_signed() => builder.ins().sextend(I64, x),
                _ => builder.ins().uextend(I64, x),
            };
            builder.ins().fcvt_from_sint(ty, number)
        }
        _ if ty == wide => x,
        _ if ty.bits() < wide.bits() => builder.ins().ireduce(ty, x),
        _ if from.is_signed() => builder.ins().sextend(ty, x),
        _ => builder.ins().uextend(ty, x),
    }
}
