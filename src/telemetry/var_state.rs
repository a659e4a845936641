//! What the state pages of all namers and storages have in common; dashboards read these keys.

use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::text::calendar;

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
                json.insert(key.to_owned(), calendar::java(time).into());
            }
        }
        if !self.value.is_null() {
            json.insert("value".to_owned(), self.value.clone());
        }
        json.into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let state = VarState { running: true, updated: Some(UNIX_EPOCH), value: "x".into(), ..VarState::default() };
        let shown = r#"{"running":true,"lastUpdatedAt":"1970-01-01 00:00:00 +0000","value":"x"}"#;
        assert_eq!(state.to_json().to_string(), shown);
        assert_eq!(VarState::default().to_json().to_string(), r#"{"running":false}"#);
    }
}
