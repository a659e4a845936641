//! Durations as Twitter's util library writes them: `4.seconds`, `1.minute + 30.seconds`.

use std::time::Duration;

/// Longer than anybody waits; keeps sums of times in range.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads a duration. None if it is not one; negative ones are zero, those above a day are a day.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_lowercase();
    let mut rest = text.as_str();
    let (mut total, mut first) = (0_i128, true);
    while first || !rest.is_empty() {
        let unsigned = rest.trim_start().trim_start_matches(['+', '-']);
        let sign = rest[..rest.len() - unsigned.len()].trim();
        let factor = match sign {
            "+" => 1,
            "-" => -1,
            "" if first => 1,
            _ => return None,
        };
        let unsigned = unsigned.trim_start();
        let end = unsigned.find(|c: char| c != '.' && !c.is_ascii_alphanumeric()).unwrap_or(unsigned.len());
        let (one, more) = unsigned.split_at(end);
        total = total.saturating_add(nanos(one)?.saturating_mul(factor));
        (rest, first) = (more, false);
    }
    let nanos = u64::try_from(total.clamp(0, i128::try_from(LONGEST.as_nanos()).unwrap_or(i128::MAX))).ok()?;
    Some(Duration::from_nanos(nanos))
}

/// One number with its unit.
fn nanos(one: &str) -> Option<i128> {
    let (number, unit) = one.split_once('.')?;
    if number == "duration" {
        return match unit {
            "top" => Some(i128::MAX),
            "bottom" => Some(-i128::MAX),
            _ => None,
        };
    }
    let unit: i128 = match unit.strip_suffix('s').unwrap_or(unit) {
        "nanosecond" => 1,
        "microsecond" => 1_000,
        "millisecond" => 1_000_000,
        "second" => 1_000_000_000,
        "minute" => 60_000_000_000,
        "hour" => 3_600_000_000_000,
        "day" => 86_400_000_000_000,
        _ => return None,
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then_some(number)?.parse::<i64>().ok().map(|number| i128::from(number) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_may_be_added() {
        let durations = [
            ("4.seconds", 4_000),
            ("1.second", 1_000),
            (" 2.Minutes ", 120_000),
            ("1.minute + 30.seconds", 90_000),
            ("1.minute-30.seconds", 30_000),
            ("+250.milliseconds", 250),
            ("0.seconds", 0),
            ("-5.seconds", 0),
            ("Duration.Bottom", 0),
            ("Duration.Top", 86_400_000),
            ("400.days", 86_400_000),
            ("9223372036854775807.days", 86_400_000),
        ];
        for (text, millis) in durations {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("1500.nanoseconds + 2.microseconds"), Some(Duration::from_nanos(3_500)));
    }

    #[test]
    fn anything_else_is_no_duration() {
        let wrong =
            ["abc", "", "4", "4s", "4.", ".seconds", "4.s", "1.5.seconds", "4.seconds 5.seconds", "4.seconds +"];
        for text in wrong.into_iter().chain(["--4.seconds", "+-4.seconds", "99999999999999999999.days", "x.seconds"]) {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("duration.undefined"), None);
    }
}
