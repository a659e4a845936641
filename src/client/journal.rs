//! What is remembered of a watch, for pages and metrics.

use std::net::SocketAddr;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{Ask, Failure};
use crate::telemetry::VarState;
use crate::text::calendar;

/// The last request, answer and error of one watch.
#[derive(Debug)]
pub(super) struct Journal {
    ask: Ask,
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    started: SystemTime,
    updated: Option<SystemTime>,
    asked: Option<(SocketAddr, SystemTime)>,
    answered: Option<SystemTime>,
    error: Option<(Failure, SystemTime)>,
    /// Since when nobody vouches for what is known.
    lost: Option<Instant>,
    /// What is known is of before this process began.
    restored: bool,
    answers: u64,
    retries: u64,
}

/// How a watch fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// It has never had an answer.
    Waiting,
    /// A server vouches for what it has.
    Current,
    /// It has the last good answer.
    Stale {
        /// Since when.
        since: Instant,
    },
}

// === impl Journal ===

impl Journal {
    pub(super) fn new(ask: Ask) -> Self {
        let entries = Entries {
            started: SystemTime::now(),
            updated: None,
            asked: None,
            answered: None,
            error: None,
            lost: None,
            restored: false,
            answers: 0,
            retries: 0,
        };
        Self { ask, entries: Mutex::new(entries) }
    }

    pub(super) fn ask(&self) -> &Ask {
        &self.ask
    }

    pub(super) fn asked(&self, server: SocketAddr) {
        self.entries.lock().asked = Some((server, SystemTime::now()));
    }

    /// A good answer; returns whether the watch had been lost.
    pub(super) fn answered(&self, changed: bool) -> bool {
        let mut entries = self.entries.lock();
        let now = SystemTime::now();
        entries.answered = Some(now);
        entries.answers += 1;
        if changed {
            entries.updated = Some(now);
        }
        entries.error = None;
        entries.restored = false;
        entries.lost.take().is_some()
    }

    /// Readers have a value that was got by other means. That says nothing of the watch.
    pub(super) fn updated(&self) {
        self.entries.lock().updated = Some(SystemTime::now());
    }

    /// What is known now is the last good answer of an earlier process, of this time.
    pub(super) fn restored(&self, at: SystemTime) {
        let mut entries = self.entries.lock();
        let now = Instant::now();
        let age = at.elapsed().unwrap_or_default();
        entries.answered = Some(at);
        entries.restored = true;
        entries.lost = Some(now.checked_sub(age).unwrap_or(now));
    }

    /// When a server last vouched for what is known: now, if one does.
    pub(super) fn vouched_at(&self) -> SystemTime {
        let entries = self.entries.lock();
        let now = SystemTime::now();
        entries.lost.map_or(now, |_| entries.answered.unwrap_or(now))
    }

    /// An attempt failed.
    pub(super) fn failed(&self, failure: &Failure) {
        let mut entries = self.entries.lock();
        entries.error = Some((failure.clone(), SystemTime::now()));
        entries.retries += 1;
    }

    /// What went wrong last, unless there was an answer since, and who was asked last.
    pub(super) fn error(&self) -> Option<(Failure, Option<SocketAddr>)> {
        let entries = self.entries.lock();
        let (failure, _) = entries.error.as_ref()?;
        Some((failure.clone(), entries.asked.map(|(server, _)| server)))
    }

    /// Nobody vouches for what is known any more; returns whether that is new.
    pub(super) fn lost(&self) -> bool {
        let mut entries = self.entries.lock();
        let new = entries.lost.is_none();
        entries.lost.get_or_insert_with(Instant::now);
        new
    }

    pub(super) fn condition(&self) -> Condition {
        let entries = self.entries.lock();
        match (entries.answers, entries.lost) {
            (0, _) if !entries.restored => Condition::Waiting,
            (_, None) => Condition::Current,
            (_, Some(since)) => Condition::Stale { since },
        }
    }

    /// `state` and `poll` under the keys of Linkerd's pages (`PollState.scala`), and what only rosterd knows.
    pub(super) fn page(&self) -> Value {
        let condition = self.condition();
        let entries = self.entries.lock();
        let (started, updated) = (Some(entries.started), entries.updated);
        let state = VarState { running: true, started, stopped: None, updated, value: Value::Null };
        let mut poll = Map::new();
        let mut time = |key: &str, time: Option<SystemTime>| {
            if let Some(time) = time {
                poll.insert(key.to_owned(), calendar::java(time).into());
            }
        };
        time("lastRequestAt", entries.asked.map(|(_, at)| at));
        time("lastResponseAt", entries.answered);
        time("lastErrorAt", entries.error.as_ref().map(|(_, at)| *at));
        if let Some((error, _)) = &entries.error {
            poll.insert("error".to_owned(), (*error.text).into());
        }
        if let Some((server, _)) = entries.asked {
            poll.insert("server".to_owned(), server.to_string().into());
        }
        poll.insert("answers".to_owned(), entries.answers.into());
        poll.insert("retries".to_owned(), entries.retries.into());
        let mut page = json!({ "state": state.to_json(), "poll": poll, "condition": condition.word() });
        if entries.restored {
            page["restored"] = true.into();
        }
        if let Condition::Stale { since } = condition {
            page["staleSince"] = calendar::java(SystemTime::now() - since.elapsed()).into();
        }
        page
    }
}

// === impl Condition ===

impl Condition {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Current => "current",
            Self::Stale { .. } => "stale",
        }
    }
}
