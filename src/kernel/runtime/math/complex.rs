//! Functions of complex numbers, real part and imaginary part.

type C = [f64; 2];

fn times(a: C, b: C) -> C {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// The quotient as Python computes it; of a division by zero not-a-number.
pub(in crate::kernel::runtime) fn div(a: f64, b: f64, c: f64, d: f64) -> C {
    if c.abs() >= d.abs() {
        if c == 0.0 {
            return [f64::NAN; 2];
        }
        let ratio = d / c;
        let scale = c + d * ratio;
        [(a + b * ratio) / scale, (b - a * ratio) / scale]
    } else {
        // Here too if one of them is not-a-number.
        if d == 0.0 {
            return [f64::NAN; 2];
        }
        let ratio = c / d;
        let scale = c * ratio + d;
        [(a * ratio + b) / scale, (b * ratio - a) / scale]
    }
}

/// The quotient by Smith's method (Communications of the ACM 5(8), 1962) with one division, as NumPy computes it.
pub(in crate::kernel::runtime) fn div_ufunc(a: f64, b: f64, c: f64, d: f64) -> C {
    if c.abs() >= d.abs() {
        if c == 0.0 && d == 0.0 {
            return [a / c.abs(), b / d.abs()];
        }
        let ratio = d / c;
        let scale = 1.0 / (c + d * ratio);
        [(a + b * ratio) * scale, (b - a * ratio) * scale]
    } else {
        let ratio = c / d;
        let scale = 1.0 / (d + c * ratio);
        [(a * ratio + b) * scale, (b * ratio - a) * scale]
    }
}

/// A power, by way of polar coordinates; squares are multiplied.
pub(in crate::kernel::runtime) fn pow(a: f64, b: f64, c: f64, d: f64) -> C {
    if c == 2.0 && d == 0.0 {
        return times([a, b], [a, b]);
    }
    if c == 0.0 && d == 0.0 {
        return [1.0, 0.0];
    }
    if a == 0.0 && b == 0.0 {
        return [0.0, 0.0];
    }
    let size = a.hypot(b);
    let mut length = size.powf(c);
    let angle = b.atan2(a);
    let mut phase = angle * c;
    if d != 0.0 {
        length /= (angle * d).exp();
        phase += d * size.ln();
    }
    [length * phase.cos(), length * phase.sin()]
}

/// The root with a real part that is not negative (algorithm 312, Communications of the ACM 10, 1967).
pub(in crate::kernel::runtime) fn sqrt(a: f64, b: f64) -> C {
    if a == 0.0 && b == 0.0 {
        return [0.0, b];
    }
    if b.is_infinite() {
        return [f64::INFINITY, b];
    }
    if a.is_nan() {
        return [a, a];
    }
    if a.is_infinite() {
        // `b` is not infinite: it vanishes beside `a`, unless it is no number.
        let vanished = if b.is_nan() { f64::NAN } else { 0.0 };
        return if a < 0.0 { [vanished, a.abs().copysign(b)] } else { [a, vanished.copysign(b)] };
    }
    // Far from overflow.
    let is_large = a.abs() >= f64::MAX / 4.0 || b.abs() >= f64::MAX / 4.0;
    let (a, b) = if is_large { (a * 0.25, b * 0.25) } else { (a, b) };
    let root = ((a.abs() + a.hypot(b)) * 0.5).sqrt();
    let [re, im] = if a >= 0.0 {
        [root, b / (2.0 * root)]
    } else {
        [b.abs() / (2.0 * root), root.copysign(b)]
    };
    if is_large { [re * 2.0, im * 2.0] } else { [re, im] }
}

pub(in crate::kernel::runtime) fn exp(a: f64, b: f64) -> C {
    let size = a.exp();
    if b == 0.0 {
        return [size, b];
    }
    [size * b.cos(), size * b.sin()]
}

pub(in crate::kernel::runtime) fn log(a: f64, b: f64) -> C {
    [a.hypot(b).ln(), b.atan2(a)]
}

pub(in crate::kernel::runtime) fn sinh(a: f64, b: f64) -> C {
    [a.sinh() * b.cos(), a.cosh() * b.sin()]
}

pub(in crate::kernel::runtime) fn cosh(a: f64, b: f64) -> C {
    [a.cosh() * b.cos(), a.sinh() * b.sin()]
}

pub(in crate::kernel::runtime) fn tanh(a: f64, b: f64) -> C {
    if a.abs() > 350.0 {
        return [1f64.copysign(a), 0f64.copysign(b.sin() * b.cos())];
    }
    let (t, s) = (a.tanh(), b.tan());
    div(t, s, 1.0, t * s)
}

pub(in crate::kernel::runtime) fn sin(a: f64, b: f64) -> C {
    let [re, im] = sinh(-b, a);
    [im, -re]
}

pub(in crate::kernel::runtime) fn cos(a: f64, b: f64) -> C {
    cosh(-b, a)
}

pub(in crate::kernel::runtime) fn tan(a: f64, b: f64) -> C {
    let [re, im] = tanh(-b, a);
    [im, -re]
}

/// `-i log(iz + sqrt(1 - z²))`, without cancellation (Kahan, Branch cuts for complex elementary functions, 1987).
pub(in crate::kernel::runtime) fn asin(a: f64, b: f64) -> C {
    let minus = sqrt(1.0 - a, -b);
    let plus = sqrt(1.0 + a, b);
    let re = a.atan2(minus[0] * plus[0] - minus[1] * plus[1]);
    let im = (minus[0] * plus[1] - minus[1] * plus[0]).asinh();
    [re, im]
}

pub(in crate::kernel::runtime) fn acos(a: f64, b: f64) -> C {
    let minus = sqrt(1.0 - a, -b);
    let plus = sqrt(1.0 + a, b);
    [2.0 * minus[0].atan2(plus[0]), (plus[0] * minus[1] - plus[1] * minus[0]).asinh()]
}

/// `i/2 log((i + z) / (i - z))`, real and imaginary part each on its own.
pub(in crate::kernel::runtime) fn atan(a: f64, b: f64) -> C {
    let re = 0.5 * (2.0 * a).atan2((1.0 - b) * (1.0 + b) - a * a);
    let im = 0.25 * (4.0 * b / (a * a + (b - 1.0) * (b - 1.0))).ln_1p();
    [re, im]
}
