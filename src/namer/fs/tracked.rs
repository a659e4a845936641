//! One name that somebody wants to know about: what was published of it, and what is still to be confirmed.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;

use super::content::Content;
use super::desk::{Answers, Key, What};
use super::look::{Finding, Seen, Unreadable};
use super::settle::{Doubt, GONE, Writing};
use super::walk::Place;
use crate::name::Path as Name;
use crate::store::{Cell, Reason};

/// See the module.
pub(super) struct Tracked {
    pub(super) key: Key,
    answers: Answers,
    /// What its answer depends on.
    pub(super) places: Vec<Place>,
    /// Whether some of that is not watched.
    pub(super) unwatched: bool,
    /// The file that was read last.
    pub(super) seen: Option<Seen>,
    /// The change that has not been published.
    pub(super) pending: Option<Pending>,
    /// When it is to be looked at.
    pub(super) due: Option<Instant>,
    /// When it may be looked at.
    pub(super) not_before: Instant,
    /// The present appearance of the file.
    file: Option<Arc<Cell<Content>>>,
    /// A failure has been reported and goes on.
    failing: bool,
}

/// A noticed change.
pub(super) struct Pending {
    /// When it was noticed first.
    pub(super) first: Instant,
    /// When the last writer was done, unless another one has begun since.
    pub(super) done: Option<SystemTime>,
    /// What the last look left open, and since when looks have left it so.
    pub(super) doubt: Option<(Doubt, Instant)>,
}

/// What comes after an answer.
pub(super) enum Next {
    Nothing,
    /// Readers see something new.
    Published,
    /// The answer has to be confirmed at this time.
    Again(Instant),
}

impl Tracked {
    pub(super) fn new(key: Key, answers: Answers) -> Self {
        let now = Instant::now();
        Self {
            key,
            answers,
            places: Vec::new(),
            unwatched: false,
            seen: None,
            pending: Some(Pending::new(now)),
            due: None,
            not_before: now,
            file: None,
            failing: false,
        }
    }

    /// The directory under which the state page shows it.
    pub(super) fn directory(&self) -> Option<Name> {
        match &self.key {
            Key::Name(name) => Some(name.take(name.len().saturating_sub(1))),
            Key::Names => None,
        }
    }

    /// There is a change.
    pub(super) fn notice(&mut self, now: Instant) -> &mut Pending {
        self.pending.get_or_insert_with(|| Pending::new(now))
    }

    /// Takes in what was found; `report` says whether a failure is its own.
    pub(super) fn apply(&mut self, finding: Finding, now: Instant, report: bool) -> Next {
        let published = match (finding, self.answers.clone()) {
            (Finding::Unsettled { again, doubt }, _) => {
                self.notice(now).doubt(doubt, now);
                return Next::Again(now + again);
            }
            (Finding::Missing, Answers::What(cell)) => {
                let present = cell.snapshot().value().is_some_and(|what| **what != What::Missing);
                let believed = self.notice(now).doubt(Doubt::Gone, now) + GONE;
                if present && now < believed {
                    return Next::Again(believed);
                }
                self.absent();
                cell.publish(What::Missing)
            }
            (Finding::Directory, Answers::What(cell)) => {
                self.absent();
                cell.publish(What::Directory)
            }
            (Finding::File(seen, content), Answers::What(cell)) => {
                self.seen = seen;
                let file = self.file.get_or_insert_with(Cell::new).clone();
                let published = match content {
                    Ok(content) => {
                        self.recovered();
                        file.publish(content)
                    }
                    Err(Unreadable { reason, place }) => {
                        self.report(&reason, Some(&place));
                        let before = file.version();
                        file.fail(reason);
                        file.version() != before
                    }
                };
                // The file's content first: nobody is to find a file that says nothing yet.
                cell.publish(What::File(file)) || published
            }
            (Finding::Names(names), Answers::Names(cell)) => {
                self.recovered();
                cell.publish(names)
            }
            (Finding::Trouble(reason), _) => {
                if report {
                    self.report(&reason, None);
                }
                self.fail(&reason);
                false
            }
            (Finding::Unchanged | Finding::Missing | Finding::Directory | Finding::File(..) | Finding::Names(_), _) => {
                false
            }
        };
        self.pending = None;
        if published { Next::Published } else { Next::Nothing }
    }

    /// Marks what is known as the last that is known.
    pub(super) fn fail(&mut self, reason: &str) {
        // It will be read again even if it has not changed: only then it is known to be current.
        self.seen = None;
        let reason: Reason = reason.into();
        match &self.answers {
            Answers::What(cell) => cell.fail(reason.clone()),
            Answers::Names(cell) => cell.fail(reason.clone()),
        }
        if let Some(file) = &self.file {
            file.fail(reason);
        }
    }

    /// There is no file; if it appears again it begins anew.
    fn absent(&mut self) {
        self.file = None;
        self.seen = None;
        self.failing = false;
    }

    /// `place`: the file, where the reason does not name one.
    fn report(&mut self, reason: &str, place: Option<&str>) {
        let name = self.shown();
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!(name, place, "{reason}");
        } else {
            let known = self.file.as_ref().is_some_and(|file| file.snapshot().value().is_some());
            let then = if known { "addresses known before stay" } else { "there are no earlier addresses" };
            tracing::warn!(name, place, "{reason}; {then}");
        }
    }

    fn recovered(&mut self) {
        if std::mem::replace(&mut self.failing, false) {
            tracing::info!(name = self.shown(), "file is good again");
        }
    }

    fn shown(&self) -> String {
        match &self.key {
            Key::Name(name) => name.to_string(),
            Key::Names => "list of names".to_owned(),
        }
    }
}

impl Pending {
    fn new(now: Instant) -> Self {
        Self { first: now, done: None, doubt: None }
    }

    /// Leaves something open; returns since when it has been.
    fn doubt(&mut self, doubt: Doubt, now: Instant) -> Instant {
        let since = self.doubt.filter(|(before, _)| *before == doubt).map_or(now, |(_, since)| since);
        self.doubt = Some((doubt, since));
        since
    }

    /// What it says about somebody writing to the file.
    pub(super) fn writing(&self, now: Instant) -> Writing {
        let doubted = self.doubt.map(|(doubt, since)| (doubt, now.saturating_duration_since(since)));
        Writing { changed: true, done: self.done, doubted }
    }
}
