//! Times as texts.

use std::time::{SystemTime, UNIX_EPOCH};

/// A time of UTC. Those before 1970 count as its beginning.
struct Utc {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    milli: u32,
}

/// `2026-11-30T13:09:01.123Z`
pub fn iso(time: SystemTime) -> String {
    let Utc { year, month, day, hour, minute, second, milli } = Utc::of(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// `2026-11-30 13:09:01 +0000`: what namerd's state pages show.
pub fn java(time: SystemTime) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::of(time);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} +0000")
}

/// The seconds since 1970 of a time as [`java`] shows it.
pub fn read_java(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix(" +0000")?.split_once(' ')?;
    let numbers = |text: &str, mark| -> Option<[u64; 3]> {
        let numbers: Option<Vec<u64>> = text.split(mark).map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    let is_time = hour < 24 && minute < 60 && second < 60;
    if !((1_970..=9_999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day) && is_time) {
        return None;
    }
    // As above, the other way round.
    let year = year - u64::from(month <= 2);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(days.checked_sub(719_468)? * 86_400 + hour * 3_600 + minute * 60 + second)
}

impl Utc {
    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        // Counted in years that begin on 1 March, so that the leap day is the last of its year.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year + u64::from(month <= 2);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        Self { year, month, day, hour, minute, second, milli: since.subsec_millis() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_shown_is_read_back() {
        for seconds in [0, 951_782_400, 1_709_251_199, 1_709_251_200, 1_796_044_141, 1_798_761_599, 4_107_542_399] {
            assert_eq!(read_java(&java(UNIX_EPOCH + Duration::from_secs(seconds))), Some(seconds));
        }
        for text in ["", "2026-11-30", "2026-11-30 13:09:01", "2026-13-30 13:09:01 +0000", "2026-11-30 24:09:01 +0000"]
        {
            assert_eq!(read_java(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar_with_its_leap_days() {
        let dates = [
            (0, "1970-01-01 00:00:00 +0000"),
            (951_782_400, "2000-02-29 00:00:00 +0000"),
            (1_709_251_199, "2024-02-29 23:59:59 +0000"),
            (1_709_251_200, "2024-03-01 00:00:00 +0000"),
            (1_796_044_141, "2026-11-30 13:09:01 +0000"),
            (1_798_761_599, "2026-12-31 23:59:59 +0000"),
            (4_107_542_400, "2100-03-01 00:00:00 +0000"),
        ];
        for (seconds, date) in dates {
            assert_eq!(java(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
        assert_eq!(java(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01 00:00:00 +0000");
    }

    #[test]
    fn the_other_form_has_milliseconds() {
        assert_eq!(iso(UNIX_EPOCH + Duration::from_millis(1_796_044_141_005)), "2026-11-30T13:09:01.005Z");
    }
}
