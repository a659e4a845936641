//! The shown form of weights.

/// A weight with two decimals, as it stands before the `*`: `0.50`.
///
/// Rounds half up on the decimal digits of the shortest text for the number, as Java's formatter does: 1.005 is
/// `1.01` and 2.675 is `2.68`, although the doubles lie a little below. Every store and wire format holds weights in
/// this form.
pub fn show_weight(weight: f64) -> String {
    if weight.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if weight.is_sign_negative() { "-" } else { "" };
    if weight.is_infinite() {
        return format!("{sign}Infinity");
    }
    // Plain positional digits, never an exponent.
    let digits = format!("{}", weight.abs());
    let (whole, decimals) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut shown: Vec<u8> = whole.bytes().chain(decimals.bytes().chain(*b"00").take(2)).collect();
    if decimals.as_bytes().get(2).is_some_and(|digit| *digit >= b'5') {
        carry(&mut shown);
    }
    let (whole, decimals) = shown.split_at(shown.len() - 2);
    format!("{sign}{}.{}", String::from_utf8_lossy(whole), String::from_utf8_lossy(decimals))
}

/// Adds one to a row of decimal digits.
fn carry(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_up_on_the_decimal_digits() {
        let shown = [(0.005, "0.01"), (0.015, "0.02"), (1.005, "1.01"), (2.675, "2.68"), (0.125, "0.13")];
        for (weight, text) in shown {
            assert_eq!(show_weight(weight), text, "{weight}");
        }
    }

    #[test]
    fn rounding_carries_into_the_whole_part() {
        assert_eq!(show_weight(9.995), "10.00");
        assert_eq!(show_weight(99.999), "100.00");
        assert_eq!(show_weight(0.994_999), "0.99");
    }

    #[test]
    fn numbers_that_no_text_can_say_are_shown_as_java_does() {
        assert_eq!(show_weight(f64::INFINITY), "Infinity");
        assert_eq!(show_weight(f64::NAN), "NaN");
        assert_eq!(show_weight(-0.001), "-0.00");
        assert_eq!(show_weight(-1.5), "-1.50");
    }
}
