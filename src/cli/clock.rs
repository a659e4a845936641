//! The time of day in lines of output.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Now, as `2026-11-30T13:09:01.123Z`.
pub(super) fn now() -> String {
    show(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn show(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March of the year 0, so that the leap day is the last day of a year.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    let year = year + 400 * era;
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    let milli = since_epoch.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{milli:03}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (1_796_044_141, "2026-11-30T13:09:01.000Z"),
        ];
        for (seconds, date) in dates {
            assert_eq!(show(Duration::from_secs(seconds)), date);
        }
        assert_eq!(show(Duration::from_millis(1_005)), "1970-01-01T00:00:01.005Z");
    }
}
