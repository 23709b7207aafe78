//! Floats in decimal.

/// A finite number in decimal: `0.d1d2d3... * 10^point`, without a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digits {
    /// The digits, of which the first is not 0 unless the number is.
    pub digits: String,
    /// Where the decimal point stands, counted from before the first digit.
    pub point: i32,
}

impl Digits {
    /// The shortest digits that read back as the same double.
    pub(crate) fn shortest(value: f64) -> Digits {
        let digits = Digits::parse(&format!("{:e}", value.abs()));
        if digits.digits.len() < 15 {
            return digits;
        }
        // Of two shortest texts that are equally near, the even one is wanted.
        let even = Digits::significant(value, digits.digits.len());
        let same = even.digits == digits.digits
            || even.scientific().parse::<f64>().is_ok_and(|back| back == value.abs());
        if same { even } else { digits }
    }

    /// The shortest digits that read back as the same single.
    pub(crate) fn shortest32(value: f32) -> Digits {
        let digits = Digits::parse(&format!("{:e}", value.abs()));
        if digits.digits.len() < 6 {
            return digits;
        }
        let even = Digits::significant(value.into(), digits.digits.len());
        let same = even.digits == digits.digits
            || even.scientific().parse::<f32>().is_ok_and(|back| back == value.abs());
        if same { even } else { digits }
    }

    /// Exactly `count` significant digits, at least one, of the exact value, rounded half to even.
    pub(crate) fn significant(value: f64, count: usize) -> Digits {
        Digits::parse(&format!("{:.*e}", count.max(1) - 1, value.abs()))
    }

    fn parse(text: &str) -> Digits {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let exponent: i32 = exponent.parse().unwrap_or(0);
        Digits { digits, point: exponent + 1 }
    }

    /// Without an exponent, with at least `decimals` digits after the point; the point is there only before digits.
    pub(crate) fn positional(&self, decimals: usize) -> String {
        let mut out = String::new();
        let length = self.digits.len() as i32;
        if self.point <= 0 {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', -self.point as usize));
            out.push_str(&self.digits);
        } else if self.point >= length {
            out.push_str(&self.digits);
            out.extend(std::iter::repeat_n('0', (self.point - length) as usize));
            if decimals > 0 {
                out.push('.');
            }
        } else {
            let (whole, fraction) = self.digits.split_at(self.point as usize);
            out.push_str(whole);
            out.push('.');
            out.push_str(fraction);
        }
        if let Some(at) = out.find('.') {
            let missing = decimals.saturating_sub(out.len() - at - 1);
            out.extend(std::iter::repeat_n('0', missing));
        }
        out
    }

    /// With an exponent of at least two digits: `1.5e-07`.
    pub(crate) fn scientific(&self) -> String {
        let (first, rest) = self.digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        format!("{first}{point}{rest}{}", exponent(self.point - 1))
    }
}

/// `e+05`.
pub(crate) fn exponent(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.unsigned_abs())
}

/// `nan`, `inf` or `-inf`, of what is not finite.
pub(crate) fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("nan")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "inf" } else { "-inf" })
    } else {
        None
    }
}

/// `repr` of a Python float.
pub(crate) fn repr(value: f64) -> String {
    if let Some(text) = special(value) {
        return text.into();
    }
    let digits = Digits::shortest(value);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value != 0.0 && !(-3..=16).contains(&digits.point) {
        return format!("{sign}{}", digits.scientific());
    }
    format!("{sign}{}", digits.positional(1))
}

/// A part of a complex number: like `repr`, without `.0`.
pub(crate) fn repr_part(value: f64) -> String {
    let text = repr(value);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// `str` of `np.float32`: its own shortest digits, an exponent from a million on.
pub(crate) fn repr32(value: f32) -> String {
    if let Some(text) = special(value.into()) {
        return text.into();
    }
    let digits = Digits::shortest32(value);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let size = f64::from(value.abs());
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        return format!("{sign}{}", digits.scientific());
    }
    format!("{sign}{}", digits.positional(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn repr_has_an_exponent_where_python_has_one() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (9999999999999998.0, "9999999999999998.0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (0.1, "0.1"),
            (100.0, "100.0"),
            (f64::NEG_INFINITY, "-inf"),
            // Mutant: take whichever of two equally near texts comes.
            (5774912420366298.0 / 8.0, "721864052545787.2"),
            (5774912420366302.0 / 8.0, "721864052545787.8"),
        ] {
            assert_eq!(repr(value), text);
        }
    }

    #[test]
    fn singles_have_their_own_digits_and_bounds() {
        for (value, text) in [
            (0.1f32, "0.1"),
            (999999.0, "999999.0"),
            (1234567.0, "1.234567e+06"),
            (16777216.0, "1.6777216e+07"),
            (1e-5, "1e-05"),
            (3.4e38, "3.4e+38"),
            (1e-4, "1e-04"),
        ] {
            assert_eq!(repr32(value), text);
        }
    }

    proptest! {
        #[test]
        fn repr_reads_back_as_the_same_number(bits: u64) {
            let value = f64::from_bits(bits);
            let back: f64 = repr(value).parse().unwrap();
            prop_assert!(back.to_bits() == bits || value.is_nan());
        }

        #[test]
        fn repr32_reads_back_as_the_same_number(bits: u32) {
            let value = f32::from_bits(bits);
            let back: f32 = repr32(value).parse().unwrap();
            prop_assert!(back.to_bits() == bits || value.is_nan());
        }
    }
}
