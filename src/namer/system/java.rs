//! How the JVM reads numbers and cuts text, where names depend on it.

/// The code points of the digit zero, each followed by its other nine digits, outside of ASCII. Scripts that
/// need two UTF-16 units are left out: the JVM looks at single units.
const ZEROS: [u32; 36] = [
    0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0de6, 0x0e50,
    0x0ed0, 0x0f20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50,
    0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
];

/// The value of a decimal digit of any script, as `Character.digit`.
pub(crate) fn digit(c: char) -> Option<u32> {
    c.to_digit(10).or_else(|| {
        let code = u32::from(c);
        ZEROS.iter().find_map(|zero| code.checked_sub(*zero).filter(|value| *value < 10))
    })
}

/// A whole number as `Integer.parseInt` reads it: an optional sign, then decimal digits of any script, within 32 bits.
pub(crate) fn parse_int(text: &str) -> Option<i32> {
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
pub(crate) fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split(separator).collect();
    if parts.len() > 1 {
        while parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

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
