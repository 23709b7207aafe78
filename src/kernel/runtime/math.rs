//! Arithmetic that has no instruction, by the rules of Python and of the C library.

pub(super) mod complex;

macro_rules! python_division {
    ($floor_div:ident, $modulo:ident, $float:ty) => {
        /// The quotient rounded down, as Python divides floats: of zero by zero and the like what the division gives.
        pub(super) extern "C" fn $floor_div(x: $float, y: $float) -> $float {
            if y == 0.0 {
                return x / y;
            }
            let rest = x % y;
            let mut quotient = (x - rest) / y;
            if rest != 0.0 && (y < 0.0) != (rest < 0.0) {
                quotient -= 1.0;
            }
            if quotient == 0.0 || quotient.is_nan() {
                // A zero with the sign of the true quotient.
                return quotient * quotient * x / y;
            }
            let floor = quotient.floor();
            if quotient - floor > 0.5 { floor + 1.0 } else { floor }
        }

        /// The remainder with the divisor's sign, as Python computes it.
        pub(super) extern "C" fn $modulo(x: $float, y: $float) -> $float {
            let rest = x % y;
            if y == 0.0 {
                return rest;
            }
            if rest == 0.0 {
                return if y < 0.0 { -0.0 } else { 0.0 };
            }
            if (y < 0.0) != (rest < 0.0) { rest + y } else { rest }
        }
    };
}

python_division!(floor_div_f64, modulo_f64, f64);
python_division!(floor_div_f32, modulo_f32, f32);

pub(super) extern "C" fn sqrt_f64(x: f64) -> f64 {
    x.sqrt()
}

pub(super) extern "C" fn sqrt_f32(x: f32) -> f32 {
    x.sqrt()
}

/// From here on exponents are not multiplied out but left to the C library, as Numba does.
const LARGE: u64 = 0x10000;

/// A power that wraps; none if zero has a negative exponent.
pub(super) fn pow_i64(base: i64, exponent: i64) -> Option<i64> {
    if exponent < 0 {
        return match base {
            0 => None,
            1 => Some(1),
            -1 => Some(if exponent & 1 == 0 { 1 } else { -1 }),
            _ => Some(0),
        };
    }
    if exponent as u64 > LARGE {
        let power = (base as f64).powf(exponent as f64);
        return Some(if power < 9_223_372_036_854_775_808.0 { power as i64 } else { i64::MIN });
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left != 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        left >>= 1;
        square = square.wrapping_mul(square);
    }
    Some(result)
}

/// A power that wraps.
pub(super) fn pow_u64(base: u64, exponent: u64) -> u64 {
    if exponent > LARGE {
        let power = (base as f64).powf(exponent as f64);
        return if power < 18_446_744_073_709_551_616.0 { power as u64 } else { u64::MAX };
    }
    let (mut result, mut square, mut left) = (1u64, base, exponent);
    while left != 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        left >>= 1;
        square = square.wrapping_mul(square);
    }
    result
}

/// The greatest common divisor. Of nothing but the smallest integer it wraps.
pub(super) extern "C" fn gcd_i64(a: i64, b: i64) -> i64 {
    gcd_u64(a.unsigned_abs(), b.unsigned_abs()) as i64
}

pub(super) extern "C" fn gcd_u64(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The least common multiple; it wraps.
pub(super) extern "C" fn lcm_i64(a: i64, b: i64) -> i64 {
    lcm_u64(a.unsigned_abs(), b.unsigned_abs()) as i64
}

pub(super) extern "C" fn lcm_u64(a: u64, b: u64) -> u64 {
    match gcd_u64(a, b) {
        0 => 0,
        common => (a / common).wrapping_mul(b),
    }
}

macro_rules! pow_int {
    ($name:ident, $float:ty) => {
        /// A float to an integer power, by multiplication; none if zero has a negative exponent.
        pub(super) fn $name(base: $float, exponent: i64) -> Option<$float> {
            let size = exponent.unsigned_abs();
            if size > LARGE {
                return Some(base.powf(exponent as $float));
            }
            let (mut result, mut square, mut left) = (1.0, base, size);
            while left != 0 {
                if left & 1 == 1 {
                    result *= square;
                }
                left >>= 1;
                square *= square;
            }
            if exponent >= 0 {
                return Some(result);
            }
            (result != 0.0).then(|| 1.0 / result)
        }
    };
}

pow_int!(pow_int, f64);
pow_int!(pow_int_f32, f32);

/// `round(x, digits)` as Numba rounds: scaled, to even, and scaled back.
fn round_digits(x: f64, digits: f64, round: impl Fn(f64) -> f64) -> f64 {
    if !x.is_finite() || digits.is_nan() {
        return x;
    }
    // Beyond these no digit is left, or none is lost.
    let digits = digits.clamp(-400.0, 400.0) as i64;
    let ten = |power: i64| pow_int(10.0, power).unwrap_or(0.0);
    if digits < 0 {
        let scale = ten(-digits);
        return round(x / scale) * scale;
    }
    let (scale, more) = if digits > 22 { (ten(digits - 22), 1e22) } else { (ten(digits), 1.0) };
    let scaled = x * scale * more;
    if scaled.is_infinite() {
        return x;
    }
    round(scaled) / more / scale
}

fn log_add_exp(x: f64, y: f64) -> f64 {
    if x == y {
        return x + std::f64::consts::LN_2;
    }
    let distance = x - y;
    if distance > 0.0 {
        x + (-distance).exp().ln_1p()
    } else if distance <= 0.0 {
        y + distance.exp().ln_1p()
    } else {
        distance
    }
}

/// Fraction and exponent: `x = fraction * 2**exponent`, the fraction in `0.5..1`.
fn frexp(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7FF) as i32;
    if exponent == 0 {
        // Too small for a full fraction: made larger first.
        let (fraction, exponent) = frexp(x * 2f64.powi(64));
        return (fraction, exponent - 64);
    }
    (f64::from_bits(bits & !(0x7FF << 52) | 1022 << 52), exponent - 1022)
}

fn ldexp(x: f64, exponent: f64) -> f64 {
    // In steps that are exact: the last one alone rounds.
    let mut left = exponent.clamp(-5000.0, 5000.0) as i32;
    let mut result = x;
    while left > 1000 {
        result *= 2f64.powi(1000);
        left -= 1000;
    }
    let (fraction, own) = frexp(result);
    if left < -1000 && result != 0.0 && result.is_finite() {
        let total = own + left;
        if total < -1080 {
            return 0.0 * result;
        }
        // One step below the smallest normal number.
        return fraction * 2f64.powi(total + 60) * 2f64.powi(-60);
    }
    result * 2f64.powi(left)
}

// SAFETY: the C library's, with these signatures; none of them touches memory but for the sign of the gamma function.
unsafe extern "C" {
    safe fn tgamma(x: f64) -> f64;
    safe fn tgammaf(x: f32) -> f32;
    safe fn lgamma(x: f64) -> f64;
    safe fn lgammaf(x: f32) -> f32;
    safe fn erf(x: f64) -> f64;
    safe fn erff(x: f32) -> f32;
    safe fn erfc(x: f64) -> f64;
    safe fn erfcf(x: f32) -> f32;
    safe fn nextafter(x: f64, y: f64) -> f64;
    safe fn nextafterf(x: f32, y: f32) -> f32;
    safe fn asinh(x: f64) -> f64;
    safe fn asinhf(x: f32) -> f32;
    safe fn acosh(x: f64) -> f64;
    safe fn acoshf(x: f32) -> f32;
    safe fn atanh(x: f64) -> f64;
    safe fn atanhf(x: f32) -> f32;
}

/// Both widths of a function: its name, the one of 64 bits, the one of 32.
macro_rules! functions {
    ($($name:ident($($arg:ident),+) $wide:literal $narrow:literal => $body64:expr, $body32:expr;)*) => {
        $(mod $name {
            #[allow(unused_imports, reason = "most are methods")]
            use super::*;

            pub(super) extern "C" fn wide($($arg: f64),+) -> f64 {
                $body64
            }

            pub(super) extern "C" fn narrow($($arg: f32),+) -> f32 {
                $body32
            }
        })*

        /// Name and address of each.
        pub(super) fn table() -> Vec<(&'static str, usize)> {
            vec![$(
                ($wide, {
                    let function: extern "C" fn($(functions!(@f64 $arg)),+) -> f64 = $name::wide;
                    function as *const () as usize
                }),
                ($narrow, {
                    let function: extern "C" fn($(functions!(@f32 $arg)),+) -> f32 = $name::narrow;
                    function as *const () as usize
                }),
            )*]
        }
    };
    (@f64 $arg:ident) => { f64 };
    (@f32 $arg:ident) => { f32 };
}

functions! {
    fn_pow(x, y) "pow_f64" "pow_f32" => x.powf(y), x.powf(y);
    fn_fmod(x, y) "fmod_f64" "fmod_f32" => x % y, x % y;
    fn_cbrt(x) "cbrt_f64" "cbrt_f32" => x.cbrt(), x.cbrt();
    fn_exp(x) "exp_f64" "exp_f32" => x.exp(), x.exp();
    fn_exp2(x) "exp2_f64" "exp2_f32" => x.exp2(), x.exp2();
    fn_expm1(x) "expm1_f64" "expm1_f32" => x.exp_m1(), x.exp_m1();
    fn_log(x) "log_f64" "log_f32" => x.ln(), x.ln();
    fn_log2(x) "log2_f64" "log2_f32" => x.log2(), x.log2();
    fn_log10(x) "log10_f64" "log10_f32" => x.log10(), x.log10();
    fn_log1p(x) "log1p_f64" "log1p_f32" => x.ln_1p(), x.ln_1p();
    fn_sin(x) "sin_f64" "sin_f32" => x.sin(), x.sin();
    fn_cos(x) "cos_f64" "cos_f32" => x.cos(), x.cos();
    fn_tan(x) "tan_f64" "tan_f32" => x.tan(), x.tan();
    fn_asin(x) "asin_f64" "asin_f32" => x.asin(), x.asin();
    fn_acos(x) "acos_f64" "acos_f32" => x.acos(), x.acos();
    fn_atan(x) "atan_f64" "atan_f32" => x.atan(), x.atan();
    fn_atan2(x, y) "atan2_f64" "atan2_f32" => x.atan2(y), x.atan2(y);
    fn_sinh(x) "sinh_f64" "sinh_f32" => x.sinh(), x.sinh();
    fn_cosh(x) "cosh_f64" "cosh_f32" => x.cosh(), x.cosh();
    fn_tanh(x) "tanh_f64" "tanh_f32" => x.tanh(), x.tanh();
    fn_asinh(x) "asinh_f64" "asinh_f32" => asinh(x), asinhf(x);
    fn_acosh(x) "acosh_f64" "acosh_f32" => acosh(x), acoshf(x);
    fn_atanh(x) "atanh_f64" "atanh_f32" => atanh(x), atanhf(x);
    fn_hypot(x, y) "hypot_f64" "hypot_f32" => x.hypot(y), x.hypot(y);
    fn_gamma(x) "gamma_f64" "gamma_f32" => tgamma(x), tgammaf(x);
    fn_lgamma(x) "lgamma_f64" "lgamma_f32" => lgamma(x), lgammaf(x);
    fn_erf(x) "erf_f64" "erf_f32" => erf(x), erff(x);
    fn_erfc(x) "erfc_f64" "erfc_f32" => erfc(x), erfcf(x);
    fn_nextafter(x, y) "nextafter_f64" "nextafter_f32" => nextafter(x, y), nextafterf(x, y);
    fn_logaddexp(x, y) "logaddexp_f64" "logaddexp_f32" => log_add_exp(x, y), log_add_exp(x.into(), y.into()) as f32;
    fn_ldexp(x, n) "ldexp_f64" "ldexp_f32" => ldexp(x, n), ldexp(x.into(), n.into()) as f32;
    fn_frexp_fraction(x) "frexp_fraction_f64" "frexp_fraction_f32" => frexp(x).0, frexp(x.into()).0 as f32;
    fn_frexp_exponent(x) "frexp_exponent_f64" "frexp_exponent_f32" => frexp(x).1.into(), frexp(x.into()).1 as f32;
    fn_round_digits(x, n) "round_digits_f64" "round_digits_f32" => round_digits(x, n, f64::round_ties_even),
        round_digits(x.into(), n.into(), |scaled| f64::from((scaled as f32).round_ties_even())) as f32;
}
