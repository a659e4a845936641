//! The state page: every directory that somebody asks about, with its last event and the files that are watched.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};

use super::desk::{Desk, Log, What};
use crate::name::Path as Name;
use crate::store::{Cell, Standing, State};
use crate::telemetry::VarState;
use crate::text::calendar;

/// How many names the page shows.
const MAX_NAMES: usize = 10_000;

/// How many bytes of a file the page shows.
const MAX_TEXT: usize = 16 << 10;

/// Shows what is known now. Files appear as what was understood of them.
pub(super) fn page(desk: &Desk) -> Value {
    let (logs, wanted) = (desk.logs(), desk.wanted(MAX_NAMES));
    let mut page = Map::new();
    for (directory, log) in &logs {
        let files = wanted.iter().filter_map(|(name, cell)| {
            let file = last(name).filter(|_| name.len() == directory.len() + 1 && name.starts_with(directory))?;
            Some((file, show(cell)?))
        });
        let value = Value::Object(files.collect());
        let Some(shown) = descend(&mut page, directory) else { continue };
        shown.insert("events".to_owned(), events(log));
        let state = VarState { running: true, started: Some(log.started), updated: log.updated, value, stopped: None };
        shown.insert("state".to_owned(), state.to_json());
    }
    page.into()
}

/// The object of a directory within the page of the root directory.
fn descend<'p>(page: &'p mut Map<String, Value>, directory: &Name) -> Option<&'p mut Map<String, Value>> {
    let mut at = page;
    for elem in directory.utf8_elems() {
        at = at.entry(elem).or_insert_with(|| Map::new().into()).as_object_mut()?;
    }
    Some(at)
}

fn events(log: &Log) -> Value {
    let mut events = Map::new();
    if let Some((kind, entry, time)) = &log.event {
        events.insert("lastEventKind".to_owned(), (*kind).into());
        events.insert("lastEventName".to_owned(), entry.as_str().into());
        events.insert("lastEventAt".to_owned(), calendar::java(*time).into());
    }
    events.into()
}

/// What the page says of a name; nothing for one that is missing or a directory.
fn show(cell: &Arc<Cell<What>>) -> Option<Value> {
    let snapshot = cell.snapshot();
    let text = match &snapshot.state {
        State::Pending => "pending".to_owned(),
        State::Failed(reason) => format!("error: {reason}"),
        State::Ready(what) => match &**what {
            What::Missing | What::Directory => return None,
            What::File(content) => {
                let content = content.snapshot();
                match (&content.state, &content.standing) {
                    (State::Ready(_), Standing::Stale { since, reason }) => {
                        let since = calendar::java(SystemTime::now() - since.elapsed());
                        format!("error: {reason}; the addresses known before stay, stale since {since}")
                    }
                    (State::Failed(reason), _) => format!("error: {reason}"),
                    (State::Ready(content), _) => cut(content.to_string()),
                    (State::Pending, _) => "pending".to_owned(),
                }
            }
        },
    };
    Some(text.into())
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push_str("… (cut)\n");
    }
    text
}

fn last(name: &Name) -> Option<String> {
    name.utf8_elems().last().map(std::borrow::Cow::into_owned)
}
