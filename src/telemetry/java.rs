//! Numbers as Java prints them: dashboards and scripts compare these texts.

use std::fmt::{LowerExp, Write};

/// `Double.toString`: `1.0`, `0.001`, `1.0E-4`, `1.0E7`, `NaN`, `-Infinity`.
pub fn double(value: f64) -> String {
    show(value, value.abs() >= 1e-3 && value.abs() < 1e7)
}

/// `Float.toString` of the value as a 32-bit float.
pub fn float(value: f64) -> String {
    let narrow = value as f32;
    show(narrow, narrow.abs() >= 1e-3 && narrow.abs() < 1e7)
}

/// The shortest digits that read back as `value`, with a point or an exponent of ten.
fn show<T: LowerExp + Into<f64> + Copy>(value: T, plain: bool) -> String {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if wide.is_sign_negative() { "-" } else { "" };
    if wide.is_infinite() {
        return format!("{sign}Infinity");
    }
    if wide == 0.0 {
        return format!("{sign}0.0");
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').expect("the format has an exponent");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    let mut out = sign.to_owned();
    if !plain {
        let fraction = if digits.len() > 1 { &digits[1..] } else { "0" };
        let _ = write!(out, "{}.{fraction}E{exponent}", &digits[..1]); // a String takes everything
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', usize::try_from(-exponent - 1).unwrap_or(0)));
        out.push_str(&digits);
    } else {
        let whole = usize::try_from(exponent).unwrap_or(0) + 1;
        if digits.len() <= whole {
            out.push_str(&digits);
            out.extend(std::iter::repeat_n('0', whole - digits.len()));
            out.push_str(".0");
        } else {
            out.push_str(&digits[..whole]);
            out.push('.');
            out.push_str(&digits[whole..]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_have_a_point_and_large_and_small_ones_an_exponent() {
        let shown = [
            (1.0, "1.0"),
            (0.7, "0.7"),
            (-2.5, "-2.5"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (0.00001, "1.0E-5"),
            (9_999_999.0, "9999999.0"),
            (10_000_000.0, "1.0E7"),
            (123_456_789.5, "1.234567895E8"),
            (1234.0625, "1234.0625"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, text) in shown {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn floats_have_the_digits_of_32_bits() {
        // From recordings of namerd.
        let shown = [
            (33.0, "33.0"),
            (64_290_816.0, "6.4290816E7"),
            (119_911.81, "119911.81"),
            (9_249_229.0, "9249229.0"),
            (-1.0, "-1.0"),
            (96_742_000.0, "9.6742E7"),
        ];
        for (value, text) in shown {
            assert_eq!(float(value), text);
        }
    }
}
