//! Every library routine that code can ask for is there, and does what the instruction says.

use cachelift::code::{Engine, Target};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::settings::{self, Configurable};

use crate::support::{call, call_values, load, store};

/// An engine for the plainest x86-64, which has no instruction for any of this.
fn engine(flags: &[(&str, &str)]) -> Engine {
    let mut shared = settings::builder();
    for (name, value) in flags {
        shared.set(name, value).unwrap();
    }
    let isa = cranelift_native::builder_with_options(false).unwrap();
    let isa = isa.finish(settings::Flags::new(shared)).unwrap();
    Engine::new(store(), Target::new(isa).unwrap())
}

const NUMBERS: [f64; 14] = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1.25,
    -1.75,
    1e300,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    4503599627370495.5,
];

/// Near and far references to the routines alike.
#[test]
fn rounding_and_multiplying() {
    type Reference = (&'static str, fn(f64) -> f64, fn(f32) -> f32);
    let references: [Reference; 4] = [
        ("ceil", f64::ceil, f32::ceil),
        ("floor", f64::floor, f32::floor),
        ("trunc", f64::trunc, f32::trunc),
        ("nearest", f64::round_ties_even, f32::round_ties_even),
    ];
    for near in ["false", "true"] {
        let engine = engine(&[("use_colocated_libcalls", near)]);
        for (name, wide, narrow) in references {
            let text = format!(
                "function %wide(f64) -> f64 {{ block0(v0: f64): v1 = {name} v0 return v1 }}
                 function %narrow(f32) -> f32 {{ block0(v0: f32): v1 = {name} v0 return v1 }}"
            );
            let loaded = load(&engine, &text);
            for x in NUMBERS {
                let got = call_values(&loaded, "wide", &[DataValue::F64(x.into())]);
                same(&got[0], &DataValue::F64(wide(x).into()), name);
                let x = x as f32;
                let got = call_values(&loaded, "narrow", &[DataValue::F32(x.into())]);
                same(&got[0], &DataValue::F32(narrow(x).into()), name);
            }
        }
        let text = "
            function %wide(f64, f64, f64) -> f64 { block0(v0: f64, v1: f64, v2: f64): v3 = fma v0, v1, v2 return v3 }
            function %narrow(f32, f32, f32) -> f32 { block0(v0: f32, v1: f32, v2: f32): v3 = fma v0, v1, v2 return v3 }";
        let loaded = load(&engine, text);
        for (x, y, z) in [(1.0 + f64::EPSILON, 1.0 + f64::EPSILON, -1.0), (3.0, 4.0, 5.0)] {
            let got = call_values(&loaded, "wide", &[x, y, z].map(|x| DataValue::F64(x.into())));
            same(&got[0], &DataValue::F64(x.mul_add(y, z).into()), "fma");
            let [x, y, z] = [x as f32 + f32::EPSILON, y as f32, z as f32];
            let got = call_values(&loaded, "narrow", &[x, y, z].map(|x| DataValue::F32(x.into())));
            same(&got[0], &DataValue::F32(x.mul_add(y, z).into()), "fma");
        }
    }
}

fn same(got: &DataValue, expected: &DataValue, name: &str) {
    let is_nan = |value: &DataValue| match value {
        DataValue::F32(x) => x.as_f32().is_nan(),
        DataValue::F64(x) => x.as_f64().is_nan(),
        _ => false,
    };
    let same = got.bitwise_eq(expected) || is_nan(got) && is_nan(expected);
    assert!(same, "{name}: got {got}, expected {expected}");
}

#[test]
fn moving_memory() {
    let text = "
        function %main(i64, i64) -> i32 system_v {
            fn0 = %Memcpy(i64, i64, i64) -> i64 system_v
            fn1 = %Memset(i64, i32, i64) -> i64 system_v
            fn2 = colocated %Memmove(i64, i64, i64) -> i64 system_v
            fn3 = %Memcmp(i64, i64, i64) -> i32 system_v
        block0(v0: i64, v1: i64):
            v2 = iconst.i64 8
            v3 = call fn0(v0, v1, v2)
            v4 = iconst.i32 0xAB
            v5 = iconst.i64 2
            v6 = call fn1(v3, v4, v5)
            v7 = iadd v6, v5
            v8 = iconst.i64 6
            v9 = call fn2(v7, v6, v8)
            v10 = call fn3(v0, v1, v2)
            return v10
        }";
    let mut to = [0_u8; 8];
    let from = [1_u8, 2, 3, 4, 5, 6, 7, 8];
    let loaded = load(&engine(&[]), text);
    let arguments = [to.as_mut_ptr().expose_provenance(), from.as_ptr().expose_provenance()];
    let got = call_values(&loaded, "main", &arguments.map(|at| DataValue::I64(at as i64)));
    assert_eq!(to, [0xAB, 0xAB, 0xAB, 0xAB, 3, 4, 5, 6]);
    assert!(matches!(got[..], [DataValue::I32(order)] if order > 0), "{got:?}");
}

#[test]
fn shuffling_bytes() {
    let text = "
        function %main(i8x16, i8x16) -> i8x16 {
        block0(v0: i8x16, v1: i8x16):
            v2 = swizzle v0, v1
            return v2
        }";
    let bytes: [u8; 16] = std::array::from_fn(|i| 100 + i as u8);
    let mask = [0, 15, 1, 14, 0x80, 0x8F, 0xFF, 16, 31, 0x7F, 2, 2, 2, 13, 5, 0x70];
    let expected = mask.map(|at: u8| bytes.get(at as usize).copied().unwrap_or(0));
    let loaded = load(&engine(&[]), text);
    let got = call_values(&loaded, "main", &[DataValue::V128(bytes), DataValue::V128(mask)]);
    assert_eq!(got, [DataValue::V128(expected)]);
}

/// A frame of many pages, probed page by page by a routine that must leave every register alone.
/// Mutant: `rcx`, which holds an argument, in place of `r11` in `probestack`.
#[test]
fn probing_the_stack() {
    let flags = [("enable_probestack", "true"), ("probestack_strategy", "outline")];
    for pages in [1, 2, 3, 30] {
        let text = format!(
            "function %main(i64, i64, i64, i64, i64, i64, i64, i64) -> i64 system_v {{
                ss0 = explicit_slot {}
            block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64, v6: i64, v7: i64):
                v10 = stack_addr.i64 ss0
                store v0, v10
                store v7, v10+{}
                v11 = load.i64 v10
                v12 = load.i64 v10+{}
                v13 = iadd v11, v12
                v14 = iadd v13, v1
                v15 = iadd v14, v2
                v16 = iadd v15, v3
                v17 = iadd v16, v4
                v18 = iadd v17, v5
                v19 = iadd v18, v6
                return v19
            }}",
            pages * 4096 + 16,
            pages * 4096,
            pages * 4096
        );
        let loaded = load(&engine(&flags), &text);
        assert_eq!(
            call(&loaded, "main", &[1, 20, 300, 4000, 50_000, 600_000, 7_000_000, 80_000_000]),
            87_654_321
        );
    }
}
