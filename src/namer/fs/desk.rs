//! What evaluations ask for, and where the keeper puts the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::content::Content;
use crate::name::Path as Name;
use crate::store::Cell;

/// What can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// What a name is.
    Name(Name),
    /// The names in the root directory.
    Names,
}

/// What a name is.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Nothing.
    Missing,
    /// A directory.
    Directory,
    /// A regular file. The cell is that of one appearance of the file: a file that was gone begins anew.
    File(Arc<Cell<Content>>),
}

/// Where the answer to a [`Key`] is kept.
#[derive(Clone, Debug)]
pub(super) enum Answers {
    What(Arc<Cell<What>>),
    Names(Arc<Cell<BTreeSet<Name>>>),
}

/// Between tables and the keeper: which keys are wanted now, and what pages show of directories.
#[derive(Debug, Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    /// Wakes the keeper.
    pub(super) news: Notify,
    logs: Mutex<BTreeMap<Name, Log>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    wanted: BTreeMap<u64, (Key, Answers)>,
    /// Wanted, and the keeper does not know yet.
    arrived: BTreeSet<u64>,
    /// No longer wanted, and the keeper does not know yet.
    left: Vec<u64>,
}

/// What a table's entry holds: the cell, and the wish to have it kept current.
pub(super) struct Seat<T> {
    pub(super) cell: Arc<Cell<T>>,
    id: u64,
    desk: Arc<Desk>,
}

/// What is remembered of a directory for the state page.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// How many wanted names it holds.
    names: usize,
    /// When the first of them was asked for.
    pub(super) started: SystemTime,
    /// When something in it was last published.
    pub(super) updated: Option<SystemTime>,
    /// The last event: its kind, the entry, the time.
    pub(super) event: Option<(&'static str, String, SystemTime)>,
}

// === impl Desk ===

impl Desk {
    /// Asks for a name.
    pub(super) fn name(self: &Arc<Self>, name: &Name) -> Seat<What> {
        let cell = Cell::new();
        let id = self.add(Key::Name(name.clone()), Answers::What(cell.clone()));
        Seat { cell, id, desk: self.clone() }
    }

    /// Asks for the list of names.
    pub(super) fn names(self: &Arc<Self>) -> Seat<BTreeSet<Name>> {
        let cell = Cell::new();
        let id = self.add(Key::Names, Answers::Names(cell.clone()));
        Seat { cell, id, desk: self.clone() }
    }

    fn add(&self, key: Key, answers: Answers) -> u64 {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        state.wanted.insert(id, (key, answers));
        state.arrived.insert(id);
        drop(state);
        self.news.notify_one();
        id
    }

    fn remove(&self, id: u64) {
        let mut state = self.state.lock();
        state.wanted.remove(&id);
        if !state.arrived.remove(&id) {
            state.left.push(id);
            drop(state);
            self.news.notify_one();
        }
    }

    /// What is wanted since the last call, and what is not wanted any more.
    pub(super) fn take(&self) -> (Vec<(u64, Key, Answers)>, Vec<u64>) {
        let mut state = self.state.lock();
        let arrived = std::mem::take(&mut state.arrived);
        let arrived = arrived.into_iter().filter_map(|id| {
            let (key, answers) = state.wanted.get(&id)?;
            Some((id, key.clone(), answers.clone()))
        });
        let arrived = arrived.collect();
        (arrived, std::mem::take(&mut state.left))
    }

    /// The first `most` names that are wanted now, in the order in which they were asked for.
    pub(super) fn wanted(&self, most: usize) -> Vec<(Name, Arc<Cell<What>>)> {
        let state = self.state.lock();
        let names = state.wanted.values().filter_map(|wanted| match wanted {
            (Key::Name(name), Answers::What(cell)) => Some((name.clone(), cell.clone())),
            _ => None,
        });
        names.take(most).collect()
    }

    /// What is remembered of each directory.
    pub(super) fn logs(&self) -> BTreeMap<Name, Log> {
        self.logs.lock().clone()
    }

    /// One more wanted name in a directory.
    pub(super) fn log_arrival(&self, directory: Name) {
        let new = || Log { names: 0, started: SystemTime::now(), updated: None, event: None };
        self.logs.lock().entry(directory).or_insert_with(new).names += 1;
    }

    /// One wanted name less in a directory.
    pub(super) fn log_departure(&self, directory: &Name) {
        let mut logs = self.logs.lock();
        if let Some(log) = logs.get_mut(directory) {
            log.names -= 1;
            if log.names == 0 {
                logs.remove(directory);
            }
        }
    }

    /// Something in a directory was published.
    pub(super) fn log_update(&self, directory: &Name) {
        if let Some(log) = self.logs.lock().get_mut(directory) {
            log.updated = Some(SystemTime::now());
        }
    }

    /// Something happened in a directory.
    pub(super) fn log_event(&self, directory: &Name, kind: &'static str, entry: &[u8]) {
        if let Some(log) = self.logs.lock().get_mut(directory) {
            log.event = Some((kind, String::from_utf8_lossy(entry).into_owned(), SystemTime::now()));
        }
    }
}

// === impl What ===

impl PartialEq for What {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Missing, Self::Missing) | (Self::Directory, Self::Directory) => true,
            (Self::File(left), Self::File(right)) => Arc::ptr_eq(left, right),
            _ => false,
        }
    }
}

// === impl Seat ===

impl<T> Drop for Seat<T> {
    fn drop(&mut self) {
        self.desk.remove(self.id);
    }
}

impl<T> fmt::Debug for Seat<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("id", &self.id).finish_non_exhaustive()
    }
}
