//! What is remembered of a watch for pages and metrics.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::telemetry::VarState;
use crate::text::calendar;

/// The last request, answer and event of a watch.
#[derive(Debug)]
pub struct Journal {
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    started: SystemTime,
    updated: Option<SystemTime>,
    asked: Option<(String, SystemTime)>,
    answered: Option<(String, SystemTime)>,
    opened: Option<SystemTime>,
    closed: Option<SystemTime>,
    event: Option<(String, SystemTime)>,
    streaming: bool,
    error: Option<String>,
    /// The last moment at which all was well; before there is one, the start.
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
                opened: None,
                closed: None,
                event: None,
                streaming: false,
                error: None,
                good: Instant::now(),
            }),
        }
    }
}

impl Journal {
    pub(super) fn asked(&self, target: &str) {
        self.entries.lock().asked = Some((target.to_owned(), SystemTime::now()));
    }

    pub(super) fn listed(&self, objects: usize, changed: bool) {
        let mut entries = self.entries.lock();
        entries.answered = Some((format!("{objects} objects"), SystemTime::now()));
        entries.is_good(changed);
    }

    pub(super) fn opened(&self) {
        let mut entries = self.entries.lock();
        entries.opened = Some(SystemTime::now());
        entries.streaming = true;
        entries.is_good(false);
    }

    pub(super) fn event(&self, kind: &str, name: &str, changed: bool) {
        let mut entries = self.entries.lock();
        entries.event = Some((format!("{kind} {name}"), SystemTime::now()));
        entries.is_good(changed);
    }

    pub(super) fn closed(&self) {
        let mut entries = self.entries.lock();
        if std::mem::take(&mut entries.streaming) {
            entries.closed = Some(SystemTime::now());
        }
    }

    pub(super) fn failed(&self, error: &str) {
        self.entries.lock().error = Some(error.to_owned());
    }

    /// How long ago the last sign was that all is well, or the start if there was none.
    pub fn age(&self) -> Duration {
        self.entries.lock().good.elapsed()
    }

    /// `state` and `watch` as namerd's pages have them; of answers and events only what they were about is kept.
    pub fn page(&self, value: Value) -> Value {
        let entries = self.entries.lock();
        let (started, updated) = (Some(entries.started), entries.updated);
        let state = VarState { running: true, started, stopped: None, updated, value };
        let mut watch = Map::new();
        let mut add = |key: &str, at_key: &str, entry: &Option<(String, SystemTime)>| {
            if let Some((what, at)) = entry {
                watch.insert(key.to_owned(), what.as_str().into());
                watch.insert(at_key.to_owned(), calendar::java(*at).into());
            }
        };
        let request = entries.asked.as_ref().map(|(target, at)| (format!("GET {target}"), *at));
        add("request", "lastRequestAt", &request);
        add("response", "lastResponseAt", &entries.answered);
        add("lastStreamData", "lastStreamDataAt", &entries.event);
        for (key, at) in [("lastStreamStartAt", entries.opened), ("lastStreamEndAt", entries.closed)] {
            if let Some(at) = at {
                watch.insert(key.to_owned(), calendar::java(at).into());
            }
        }
        watch.insert("streaming".to_owned(), entries.streaming.into());
        if let Some(error) = &entries.error {
            watch.insert("error".to_owned(), error.as_str().into());
        }
        watch.insert("lastSuccessSeconds".to_owned(), entries.good.elapsed().as_secs().into());
        json!({ "state": state.to_json(), "watch": watch })
    }
}

// === impl Entries ===

impl Entries {
    fn is_good(&mut self, changed: bool) {
        self.good = Instant::now();
        self.error = None;
        if changed {
            self.updated = Some(SystemTime::now());
        }
    }
}
