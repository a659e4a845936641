//! What the state pages of all namers and storages have in common; dashboards read these keys.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

/// When a value was watched and changed, and the value.
#[derive(Clone, Debug, Default)]
pub struct VarState {
    /// Is it watched now?
    pub running: bool,
    /// Since when.
    pub started: Option<SystemTime>,
    /// When that ended last.
    pub stopped: Option<SystemTime>,
    /// When it changed last.
    pub updated: Option<SystemTime>,
    /// The value; left out if null.
    pub value: Value,
}

impl VarState {
    /// As namerd shows it; what is not known is left out.
    pub fn to_json(&self) -> Value {
        let mut json = Map::new();
        json.insert("running".to_owned(), self.running.into());
        let times = [("lastStartedAt", self.started), ("lastStoppedAt", self.stopped), ("lastUpdatedAt", self.updated)];
        for (key, time) in times {
            if let Some(time) = time {
                json.insert(key.to_owned(), show_time(time).into());
            }
        }
        if !self.value.is_null() {
            json.insert("value".to_owned(), self.value.clone());
        }
        json.into()
    }
}

/// A time as `yyyy-MM-dd HH:mm:ss +0000`; times before 1970 show as its beginning.
pub fn show_time(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
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
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shown(seconds: u64) -> String {
        show_time(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn times_are_utc_with_leap_days() {
        assert_eq!(shown(0), "1970-01-01 00:00:00 +0000");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00:00 +0000");
        assert_eq!(shown(1_709_251_199), "2024-02-29 23:59:59 +0000");
        assert_eq!(shown(1_709_251_200), "2024-03-01 00:00:00 +0000");
        assert_eq!(shown(4_107_542_400), "2100-03-01 00:00:00 +0000");
        assert_eq!(shown(1_798_761_599), "2026-12-31 23:59:59 +0000");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let state = VarState { running: true, updated: Some(UNIX_EPOCH), value: "x".into(), ..VarState::default() };
        let shown = r#"{"running":true,"lastUpdatedAt":"1970-01-01 00:00:00 +0000","value":"x"}"#;
        assert_eq!(state.to_json().to_string(), shown);
        assert_eq!(VarState::default().to_json().to_string(), r#"{"running":false}"#);
    }
}
