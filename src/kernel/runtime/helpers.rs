//! The routines that compiled kernels call by name.
//!
//! Invariants that the `SAFETY` comments cite:
//!
//! - *H1* `context` is the context of the running call, which this thread alone uses.
//! - *H2* an owner lane is null or a counted reference to a live block.
//! - *H3* an address and a length or a shape that come together describe memory of the kernel's frame, of a constant,
//!   or of a live array, which lowering checked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use super::c;
use super::context::Context;
use super::math;
use super::memory::Memory;
use super::parallel::{self, Loop, Part};
use crate::kernel::abi::{self, Data, KernelError};
use crate::kernel::ir::Type;

/// The address of a helper in this process, by the name in [`Reference::Runtime`](crate::kernel::lower::Reference).
pub(crate) fn address(name: &str) -> Option<*const u8> {
    let mut all = all().iter();
    all.find(|(known, _)| *known == name).map(|(_, address)| *address as *const u8)
}

macro_rules! table {
    ($($name:literal => $function:path as $type:ty;)*) => {
        &[$(($name, {
            let function: $type = $function;
            function as *const () as usize
        }),)*]
    };
}

type Context1 = *mut Context<'static>;
type Address = *const u8;
type F1 = extern "C" fn(f64) -> f64;
type F2 = extern "C" fn(f64, f64) -> f64;
type S1 = extern "C" fn(f32) -> f32;
type S2 = extern "C" fn(f32, f32) -> f32;

/// Every helper, by name.
fn all() -> &'static [(&'static str, usize)] {
    use std::sync::OnceLock;
    static ALL: OnceLock<Vec<(&'static str, usize)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: Vec<(&'static str, usize)> = base().to_vec();
        all.extend_from_slice(&math::table());
        all
    })
}

fn base() -> Vec<(&'static str, usize)> {
    let table: &[(&'static str, usize)] = table! {
        "c_begin" => c::begin as extern "C" fn() -> Context1;
        "c_end" => c::end as unsafe extern "C" fn(Context1, u64);
        "retain" => retain as unsafe extern "C" fn(usize);
        "release" => release as unsafe extern "C" fn(usize);
        "new_array" => new_array
            as unsafe extern "C" fn(Context1, *const i64, usize, usize, usize) -> usize;
        "new_struct" => new_struct as unsafe extern "C" fn(Context1, usize, u64) -> usize;
        "copy_bytes" => copy_bytes as unsafe extern "C" fn(*mut u8, Address, usize);
        "copy_view" => copy_view
            as unsafe extern "C" fn(Context1, Address, *const i64, usize, usize) -> usize;
        "raise_text" => raise_text as unsafe extern "C" fn(Context1, Address, usize);
        "raise_handed" => raise_handed as unsafe extern "C" fn(Context1, Address, usize);
        "passed" => passed as unsafe extern "C" fn(Context1, u64);
        "caught" => caught as unsafe extern "C" fn(Context1, u64) -> u64;
        "raise_again" => raise_again as unsafe extern "C" fn(Context1, u64);
        "raise_shapes" => raise_shapes
            as unsafe extern "C" fn(Context1, *const i64, usize, usize);
        "hand_over" => hand_over
            as unsafe extern "C" fn(Context1, Address, usize, *const u64);
        "join_text" => join_text as unsafe extern "C" fn(Context1) -> Text;
        "print" => print as unsafe extern "C" fn(Context1) -> u64;
        "str_equal" => str_equal as unsafe extern "C" fn(Address, usize, Address, usize) -> u8;
        "str_length" => str_length as unsafe extern "C" fn(Address, usize) -> u64;
        "parallel" => run_parallel
            as unsafe extern "C" fn(
                Context1, Part, usize, u64, i64, i64, usize, usize,
            ) -> Chunks;
        "pow_i64" => pow_i64
            as unsafe extern "C" fn(Context1, i64, i64, u64, *mut i64) -> u64;
        "pow_u64" => pow_u64
            as unsafe extern "C" fn(Context1, u64, u64, u64, *mut u64) -> u64;
        "gcd_i64" => math::gcd_i64 as extern "C" fn(i64, i64) -> i64;
        "gcd_u64" => math::gcd_u64 as extern "C" fn(u64, u64) -> u64;
        "lcm_i64" => math::lcm_i64 as extern "C" fn(i64, i64) -> i64;
        "lcm_u64" => math::lcm_u64 as extern "C" fn(u64, u64) -> u64;
        "pow_int_f64" => pow_int_f64
            as unsafe extern "C" fn(Context1, f64, i64, *mut f64) -> u64;
        "pow_int_f32" => pow_int_f32
            as unsafe extern "C" fn(Context1, f32, i64, *mut f32) -> u64;
        "complex_div" => complex_div
            as unsafe extern "C" fn(f64, f64, f64, f64, *mut [f64; 2]);
        "complex_div_ufunc" => complex_div_ufunc
            as unsafe extern "C" fn(f64, f64, f64, f64, *mut [f64; 2]);
        "complex_pow" => complex_pow
            as unsafe extern "C" fn(f64, f64, f64, f64, *mut [f64; 2]);
        "complex_sqrt" => complex_sqrt as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_exp" => complex_exp as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_log" => complex_log as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_sin" => complex_sin as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_cos" => complex_cos as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_tan" => complex_tan as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_sinh" => complex_sinh as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_cosh" => complex_cosh as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_tanh" => complex_tanh as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_asin" => complex_asin as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_acos" => complex_acos as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "complex_atan" => complex_atan as unsafe extern "C" fn(f64, f64, *mut [f64; 2]);
        "floor_div_f64" => math::floor_div_f64 as F2;
        "floor_div_f32" => math::floor_div_f32 as S2;
        "modulo_f64" => math::modulo_f64 as F2;
        "modulo_f32" => math::modulo_f32 as S2;
        "sqrt_f64" => math::sqrt_f64 as F1;
        "sqrt_f32" => math::sqrt_f32 as S1;
    };
    table.to_vec()
}

// Counting.

unsafe extern "C" fn retain(owner: usize) {
    // SAFETY: H2. The new reference is given to the kernel, as was the old one.
    if let Some(memory) = unsafe { Memory::from_owner(owner) } {
        std::mem::forget(memory.clone());
        std::mem::forget(memory);
    }
}

unsafe extern "C" fn release(owner: usize) {
    // SAFETY: H2; the kernel gives this reference up.
    drop(unsafe { Memory::from_owner(owner) });
}

// New blocks.

unsafe extern "C" fn new_array(
    context: Context1,
    shape: *const i64,
    ndim: usize,
    size: usize,
    zero: usize,
) -> usize {
    // SAFETY: H1, H3.
    let (context, shape) = unsafe { (&mut *context, slice::from_raw_parts(shape, ndim)) };
    if shape.iter().any(|length| *length < 0) {
        context.raise("ValueError", "negative dimensions not allowed");
        return 0;
    }
    let bytes = shape.iter().try_fold(size, |bytes, length| bytes.checked_mul(*length as usize));
    let Some(bytes) = bytes.filter(|bytes| isize::try_from(*bytes).is_ok()) else {
        let text = "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size.";
        context.raise("ValueError", text);
        return 0;
    };
    let memory = if zero != 0 { Memory::zeroed(bytes) } else { Memory::unwritten(bytes) };
    given(context, memory)
}

unsafe extern "C" fn new_struct(context: Context1, lanes: usize, counted: u64) -> usize {
    // SAFETY: H1.
    let context = unsafe { &mut *context };
    given(context, Memory::lanes(lanes, counted))
}

/// A block for the kernel, or null and an error.
fn given(context: &mut Context<'_>, memory: Option<Memory>) -> usize {
    match memory {
        Some(memory) => memory.into_owner(),
        None => {
            context.raise("MemoryError", "Allocation failed (probably too large).");
            0
        }
    }
}

unsafe extern "C" fn copy_bytes(to: *mut u8, from: Address, length: usize) {
    // SAFETY: H3; they may overlap.
    unsafe { std::ptr::copy(from, to, length) }
}

/// A dense copy, in C order, of an array of plain elements; `layout` is its shape, then its strides.
unsafe extern "C" fn copy_view(
    context: Context1,
    data: Address,
    layout: *const i64,
    ndim: usize,
    size: usize,
) -> usize {
    // SAFETY: H1, H3.
    let (context, layout) = unsafe { (&mut *context, slice::from_raw_parts(layout, 2 * ndim)) };
    let (shape, strides) = layout.split_at(ndim);
    let count: usize = shape.iter().map(|length| *length as usize).product();
    let Some(memory) = Memory::zeroed(count * size) else { return given(context, None) };
    let mut index = vec![0i64; ndim];
    for at in 0..count {
        let offset: i64 = index.iter().zip(strides).map(|(index, stride)| index * stride).sum();
        // SAFETY: H3: the index lies in the shape; the copy has room for `count` elements.
        unsafe {
            let from = data.offset(offset as isize);
            std::ptr::copy_nonoverlapping(from, memory.data().add(at * size), size);
        }
        for axis in (0..ndim).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    memory.into_owner()
}

// Errors and printing.

/// A text of the kernel's.
///
/// # Safety
///
/// H3, for as long as it is used.
unsafe fn text<'a>(address: Address, length: usize) -> &'a str {
    if length == 0 {
        return "";
    }
    // SAFETY: H3.
    let bytes = unsafe { slice::from_raw_parts(address, length) };
    std::str::from_utf8(bytes).unwrap_or("")
}

/// `said` is the class, a zero, and the text.
unsafe extern "C" fn raise_text(context: Context1, said: Address, length: usize) {
    // SAFETY: H1, H3.
    let (context, said) = unsafe { (&mut *context, text(said, length)) };
    let (class, text) = said.split_once('\0').unwrap_or(("SystemError", said));
    context.raise(class, text);
}

/// Raises with what was handed over.
unsafe extern "C" fn raise_handed(context: Context1, class: Address, length: usize) {
    // SAFETY: H1, H3.
    let (context, class) = unsafe { (&mut *context, text(class, length)) };
    let args = std::mem::take(&mut context.handed);
    context.error = Some(KernelError { class: class.into(), args, left: Vec::new() });
}

/// An error leaves a function.
unsafe extern "C" fn passed(context: Context1, left: u64) {
    // SAFETY: H1.
    let context = unsafe { &mut *context };
    if let Some(error) = &mut context.error {
        error.left.push(left);
    }
}

/// Takes the error out of the context; one that is kept has a number.
unsafe extern "C" fn caught(context: Context1, keep: u64) -> u64 {
    // SAFETY: H1.
    let context = unsafe { &mut *context };
    let error = context.take_error();
    if keep != 0 {
        context.kept.push(error);
    }
    context.kept.len() as u64
}

/// Raises an error that was kept. Those after it were left behind by handlers that never came to their end.
unsafe extern "C" fn raise_again(context: Context1, number: u64) {
    // SAFETY: H1.
    let context = unsafe { &mut *context };
    context.kept.truncate(number as usize);
    context.error = context.kept.pop();
}

/// Raises that a value of one shape does not fit another.
unsafe extern "C" fn raise_shapes(context: Context1, shapes: *const i64, from: usize, to: usize) {
    // SAFETY: H1, H3.
    let (context, shapes) = unsafe { (&mut *context, slice::from_raw_parts(shapes, from + to)) };
    let (from, to) = shapes.split_at(from);
    let spell = |shape: &[i64]| match shape {
        [length] => format!("({length},)"),
        _ => {
            let lengths: Vec<String> = shape.iter().map(i64::to_string).collect();
            format!("({})", lengths.join(", "))
        }
    };
    let text =
        format!("cannot assign slice of shape {} from input of shape {}", spell(from), spell(to));
    context.raise("ValueError", &text);
}

/// Keeps a value of the described type, whose lanes lie at `lanes`, for what comes next.
unsafe extern "C" fn hand_over(
    context: Context1,
    description: Address,
    length: usize,
    lanes: *const u64,
) {
    // SAFETY: H1, H3.
    let (context, bytes) = unsafe { (&mut *context, slice::from_raw_parts(description, length)) };
    let Ok(ty) = postcard::from_bytes::<Type>(bytes) else { return };
    // SAFETY: H3: the description is that of the value whose lanes these are; it is borrowed.
    let value = unsafe {
        let lanes = slice::from_raw_parts(lanes, abi::lane_count(&ty));
        abi::unpack_borrowed(&ty, lanes)
    };
    context.handed.push(value);
}

/// A new block of bytes and how many there are, in registers.
#[repr(C)]
struct Text {
    owner: usize,
    length: u64,
}

/// What was handed over, joined as text.
unsafe extern "C" fn join_text(context: Context1) -> Text {
    // SAFETY: H1.
    let context = unsafe { &mut *context };
    let mut text = String::new();
    for value in std::mem::take(&mut context.handed) {
        match value {
            Data::Str(part) => text.push_str(&part),
            Data::Int(value) => text.push_str(&value.to_string()),
            Data::UInt(value) => text.push_str(&value.to_string()),
            Data::Bool(value) => text.push_str(if value { "True" } else { "False" }),
            _ => {}
        }
    }
    let memory = Memory::copied(text.as_bytes());
    Text { owner: given(context, memory), length: text.len() as u64 }
}

/// Prints what was handed over.
unsafe extern "C" fn print(context: Context1) -> u64 {
    // SAFETY: H1.
    let context = unsafe { &mut *context };
    let values = std::mem::take(&mut context.handed);
    let host = context.host;
    let printed = catch_unwind(AssertUnwindSafe(|| host.print(&values)));
    match printed {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            context.error = Some(error);
            1
        }
        Err(_) => {
            context.raise("SystemError", "printing failed");
            1
        }
    }
}

// Strings.

unsafe extern "C" fn str_equal(a: Address, a_length: usize, b: Address, b_length: usize) -> u8 {
    // SAFETY: H3.
    u8::from(unsafe { text(a, a_length) == text(b, b_length) })
}

unsafe extern "C" fn str_length(a: Address, length: usize) -> u64 {
    // SAFETY: H3.
    unsafe { text(a, length) }.chars().count() as u64
}

// Loops.

/// Two numbers in registers.
#[repr(C)]
struct Chunks {
    status: u64,
    chunks: u64,
}

unsafe extern "C" fn run_parallel(
    context: Context1,
    part: Part,
    frame: usize,
    count: u64,
    start: i64,
    step: i64,
    partials: usize,
    stride: usize,
) -> Chunks {
    // SAFETY: H1.
    let context = unsafe { &mut *context };
    let rounds = Loop { part, frame, count, start, step, partials, stride };
    match parallel::run(context, &rounds) {
        Some(chunks) => Chunks { status: 0, chunks },
        None => Chunks { status: 1, chunks: 0 },
    }
}

// Powers.

const NEGATIVE_POWER: &str = "0 cannot be raised to a negative power";

unsafe extern "C" fn pow_i64(
    context: Context1,
    base: i64,
    exponent: i64,
    raises: u64,
    result: *mut i64,
) -> u64 {
    let Some(power) = math::pow_i64(base, exponent) else {
        if raises != 0 {
            // SAFETY: H1.
            unsafe { &mut *context }.raise("ZeroDivisionError", NEGATIVE_POWER);
            return 1;
        }
        // SAFETY: H3.
        unsafe { result.write(i64::MIN) };
        return 0;
    };
    // SAFETY: H3.
    unsafe { result.write(power) };
    0
}

unsafe extern "C" fn pow_u64(
    _context: Context1,
    base: u64,
    exponent: u64,
    _raises: u64,
    result: *mut u64,
) -> u64 {
    // SAFETY: H3.
    unsafe { result.write(math::pow_u64(base, exponent)) };
    0
}

unsafe extern "C" fn pow_int_f64(
    context: Context1,
    base: f64,
    exponent: i64,
    result: *mut f64,
) -> u64 {
    match math::pow_int(base, exponent) {
        Some(power) => {
            // SAFETY: H3.
            unsafe { result.write(power) };
            0
        }
        None => {
            // SAFETY: H1.
            unsafe { &mut *context }.raise("ZeroDivisionError", "division by zero");
            1
        }
    }
}

unsafe extern "C" fn pow_int_f32(
    context: Context1,
    base: f32,
    exponent: i64,
    result: *mut f32,
) -> u64 {
    match math::pow_int_f32(base, exponent) {
        Some(power) => {
            // SAFETY: H3.
            unsafe { result.write(power) };
            0
        }
        None => {
            // SAFETY: H1.
            unsafe { &mut *context }.raise("ZeroDivisionError", "division by zero");
            1
        }
    }
}

// Complex numbers.

macro_rules! complex {
    ($($name:ident($($arg:ident),*) => $function:path;)*) => {$(
        unsafe extern "C" fn $name($($arg: f64,)* result: *mut [f64; 2]) {
            // SAFETY: H3.
            unsafe { result.write($function($($arg),*)) }
        }
    )*};
}

complex! {
    complex_div(a, b, c, d) => math::complex::div;
    complex_div_ufunc(a, b, c, d) => math::complex::div_ufunc;
    complex_pow(a, b, c, d) => math::complex::pow;
    complex_sqrt(a, b) => math::complex::sqrt;
    complex_exp(a, b) => math::complex::exp;
    complex_log(a, b) => math::complex::log;
    complex_sin(a, b) => math::complex::sin;
    complex_cos(a, b) => math::complex::cos;
    complex_tan(a, b) => math::complex::tan;
    complex_sinh(a, b) => math::complex::sinh;
    complex_cosh(a, b) => math::complex::cosh;
    complex_tanh(a, b) => math::complex::tanh;
    complex_asin(a, b) => math::complex::asin;
    complex_acos(a, b) => math::complex::acos;
    complex_atan(a, b) => math::complex::atan;
}
