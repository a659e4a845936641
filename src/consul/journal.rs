//! What is remembered of a watch for pages and metrics.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::Answer;
use crate::telemetry::VarState;
use crate::text::calendar;

/// The last request and answer of a watch.
#[derive(Debug)]
pub struct Journal {
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    started: SystemTime,
    updated: Option<SystemTime>,
    asked: Option<(String, SystemTime)>,
    answered: Option<(Option<u64>, usize, SystemTime)>,
    error: Option<String>,
    warning: Option<&'static str>,
    /// The last good answer; before there is one, the start.
    good: Instant,
}

// === impl Journal ===

impl Default for Journal {
    fn default() -> Self {
        Self {
            entries: Mutex::new(Entries {
                started: SystemTime::now(),
                updated: None,
                asked: None,
                answered: None,
                error: None,
                warning: None,
                good: Instant::now(),
            }),
        }
    }
}

impl Journal {
    pub(super) fn asked(&self, target: String) {
        self.entries.lock().asked = Some((target, SystemTime::now()));
    }

    pub(super) fn answered(&self, answer: &Answer) {
        let mut entries = self.entries.lock();
        entries.answered = Some((answer.index, answer.len(), SystemTime::now()));
        entries.error = None;
    }

    pub(super) fn good(&self, changed: bool) {
        let mut entries = self.entries.lock();
        entries.good = Instant::now();
        if changed {
            entries.updated = Some(SystemTime::now());
        }
    }

    pub(super) fn failed(&self, error: &str) {
        self.entries.lock().error = Some(error.to_owned());
    }

    /// What keeps the last answer from being sure.
    pub(super) fn warn(&self, warning: Option<&'static str>) {
        self.entries.lock().warning = warning;
    }

    /// How long ago the last good answer was, or the start if there was none.
    pub fn age(&self) -> Duration {
        self.entries.lock().good.elapsed()
    }

    /// `state` and `poll` as namerd's pages have them (`Instrumentation.scala:12-45`); of the answer itself only the
    /// index and the length are kept.
    pub fn page(&self, value: Value) -> Value {
        let entries = self.entries.lock();
        let (started, updated) = (Some(entries.started), entries.updated);
        let state = VarState { running: true, started, stopped: None, updated, value };
        let mut poll = Map::new();
        if let Some((target, at)) = &entries.asked {
            poll.insert("request".to_owned(), format!("GET {target}").into());
            poll.insert("lastRequestAt".to_owned(), calendar::java(*at).into());
        }
        if let Some((index, bytes, at)) = &entries.answered {
            let index = index.map(|index| index.to_string());
            poll.insert("response".to_owned(), json!({ "index": index, "bytes": bytes }));
            poll.insert("lastResponseAt".to_owned(), calendar::java(*at).into());
        }
        if let Some(error) = &entries.error {
            poll.insert("error".to_owned(), error.as_str().into());
        }
        if let Some(warning) = entries.warning {
            poll.insert("warning".to_owned(), warning.into());
        }
        poll.insert("lastSuccessSeconds".to_owned(), entries.good.elapsed().as_secs().into());
        json!({ "state": state.to_json(), "poll": poll })
    }
}
