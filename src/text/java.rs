//! Numbers and lists as the JVM reads and prints them: names depend on it, and clients, dashboards and scripts compare
//! these texts.

use std::fmt::{LowerExp, Write};

/// The code points of the digit zero, each followed by its other nine digits, outside of ASCII. Scripts that
/// need two UTF-16 units are left out: the JVM looks at single units.
const ZEROS: [u32; 36] = [
    0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0de6, 0x0e50,
    0x0ed0, 0x0f20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50,
    0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
];

/// The value of a decimal digit of any script, as `Character.digit`.
pub fn digit(c: char) -> Option<u32> {
    c.to_digit(10).or_else(|| {
        let code = u32::from(c);
        ZEROS.iter().find_map(|zero| code.checked_sub(*zero).filter(|value| *value < 10))
    })
}

/// A whole number as `Integer.parseInt` reads it: an optional sign, then decimal digits of any script, within 32 bits.
pub fn parse_int(text: &str) -> Option<i32> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for c in digits.chars() {
        value = value * 10 + i64::from(digit(c)?);
        if value > i64::from(i32::MAX) + 1 {
            return None;
        }
    }
    i32::try_from(if negative { -value } else { value }).ok()
}

/// Cuts as `String.split`: empty parts at the end are dropped, and text without the separator is one part.
pub fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split(separator).collect();
    if parts.len() > 1 {
        while parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
    }
    parts
}

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

    #[test]
    fn numbers_have_a_sign_or_none_and_fit_32_bits() {
        for (text, value) in [("80", 80), ("+80", 80), ("-1", -1), ("007", 7), ("2147483647", i32::MAX)] {
            assert_eq!(parse_int(text), Some(value), "{text}");
        }
        assert_eq!(parse_int("-2147483648"), Some(i32::MIN));
        for text in
            ["", "+", "-", "--1", "+-1", " 1", "1.0", "0x10", "2147483648", "-2147483649", "99999999999999999999"]
        {
            assert_eq!(parse_int(text), None, "{text}");
        }
    }

    #[test]
    fn digits_of_other_scripts_count_and_letters_do_not() {
        assert_eq!(parse_int("٨٠"), Some(80), "Arabic-Indic");
        assert_eq!(parse_int("８０"), Some(80), "full width");
        assert_eq!(parse_int("𝟠"), None, "two UTF-16 units");
        assert_eq!(parse_int("Ⅷ"), None);
    }

    #[test]
    fn empty_parts_are_dropped_at_the_end_only() {
        assert_eq!(split("a:b::", ':'), ["a", "b"]);
        assert_eq!(split(":a", ':'), ["", "a"]);
        assert_eq!(split("a::b", ':'), ["a", "", "b"]);
        assert!(split("::", ':').is_empty());
        assert_eq!(split("", ':'), [""]);
    }
}
