//! Run: one evaluation of a pure function over cells.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::cell::Watched;
use super::{Cell, Client, Key, Marker, Reason, Snapshot, Subscription, Table};

/// How soon an evaluation that found no room in a table is tried again.
const RETRY_OVER_BUDGET: Duration = Duration::from_secs(5);

/// What an evaluation, or one step of it, came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading<T> {
    /// Something it depends on has no answer yet.
    Pending(Wait),
    /// The value of this moment.
    Ready(T),
    /// It has no value, for this reason.
    Failed(Reason),
}

/// What a pending evaluation waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// From when on a branch of an alt may be passed over in favour of a ready later one: set for a source that
    /// never had any value.
    pub pass_over_at: Option<Instant>,
    /// When the source was first asked: one that was asked only a moment ago may be about to answer.
    pub asked: Option<Instant>,
    /// What is waited for, for people.
    pub reason: Option<Reason>,
}

/// One evaluation: reads each cell once, records what it read, and is repeated when any of that changes.
///
/// New guards are taken while it runs and those of the run before are dropped after it, so that a source which both
/// runs read never sees its last observer leave.
pub struct Run<'a> {
    context: &'a Context,
    /// What the run before read and this one has not read yet.
    before: SmallVec<[Option<Dependency>; 2]>,
    before_places: Places,
    now_read: SmallVec<[Dependency; 2]>,
    /// The snapshots of this run.
    kept: SmallVec<[Kept; 2]>,
    kept_places: Places,
    now: Instant,
    again_at: Option<Instant>,
}

struct Kept {
    address: usize,
    snapshot: Box<dyn Any + Send>,
}

/// Where cells stand in a list that only grows: a long one is not searched each time.
#[derive(Default)]
struct Places {
    index: HashMap<usize, usize>,
    indexed: usize,
}

/// Lists up to this length are searched.
const SHORT: usize = 16;

/// Who evaluates: where changes are marked, and on whose behalf sources are looked up.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) marker: Marker,
    pub(super) key: Key,
    pub(super) client: Client,
}

/// What the last run of an evaluation read.
#[derive(Default)]
pub(super) struct Dependencies {
    list: SmallVec<[Dependency; 2]>,
    again_at: Option<Instant>,
    evaluated: bool,
}

struct Dependency {
    seen: u64,
    subscription: Subscription,
    _guard: Box<dyn Any + Send>,
}

// === impl Reading ===

impl<T> Reading<T> {
    /// Applies `f` to a ready value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Reading::Ready(f(value)))
    }

    /// Goes on with a ready value; pending and failed stay what they are.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Self::Pending(wait) => Reading::Pending(wait),
            Self::Ready(value) => f(value),
            Self::Failed(reason) => Reading::Failed(reason),
        }
    }
}

impl<T> Snapshot<T> {
    /// How an evaluation takes the cell of a backend: the last good value counts as the value, and a backend that
    /// never answered, or only failed, is waited for. After `pass_over` an alt may go on without it.
    pub fn reading(&self, pass_over: Duration) -> Reading<Arc<T>> {
        use super::{Standing, State};
        let reason = match (&self.state, &self.standing) {
            (State::Ready(value), _) => return Reading::Ready(value.clone()),
            (State::Failed(reason), _) => Some(reason.clone()),
            (State::Pending, Standing::Suspended { reason, .. }) => reason.clone(),
            (State::Pending, _) => None,
        };
        Reading::Pending(Wait { pass_over_at: Some(self.born + pass_over), asked: Some(self.born), reason })
    }
}

// === impl Run ===

impl Run<'_> {
    /// The cell's snapshot, which stays the same for the rest of this run, and a dependency on it. `guard` is kept
    /// for as long as the dependency.
    pub fn read<T: Send + Sync + 'static>(&mut self, cell: &Arc<Cell<T>>, guard: impl Any + Send) -> Snapshot<T> {
        let address = Watched::address(&**cell);
        if let Some(at) = self.kept_places.find(&self.kept, address, |kept| Some(kept.address))
            && let Some(snapshot) = self.kept[at].snapshot.downcast_ref::<Snapshot<T>>()
        {
            return snapshot.clone();
        }
        let known = self.before_places.find(&self.before, address, |before| before.as_ref().map(Dependency::address));
        let snapshot = if let Some(mut dependency) = known.and_then(|at| self.before[at].take()) {
            let snapshot = cell.snapshot();
            dependency.seen = snapshot.version.get();
            self.now_read.push(dependency);
            snapshot
        } else {
            let (snapshot, subscription) = cell.subscribe_marker(self.context.marker.clone(), self.context.key, false);
            let seen = snapshot.version.get();
            self.now_read.push(Dependency { seen, subscription, _guard: Box::new(guard) });
            snapshot
        };
        self.kept.push(Kept { address, snapshot: Box::new(snapshot.clone()) });
        snapshot
    }

    /// Reads a cell of the entry of `key`, which is looked up on behalf of this run's client.
    ///
    /// # Errors
    /// The reason when the table has no room; the run is repeated a little later.
    pub fn observe<K, V, T>(
        &mut self,
        table: &Table<K, V>,
        key: &K,
        cell: impl FnOnce(&V) -> &Arc<Cell<T>>,
    ) -> Result<Snapshot<T>, Reason>
    where
        K: Clone + Eq + std::hash::Hash + Send + Sync + 'static,
        V: Send + Sync + 'static,
        T: Send + Sync + 'static,
    {
        match table.observe(self.context.client, key) {
            Ok(observer) => {
                let cell = cell(&observer).clone();
                Ok(self.read(&cell, observer))
            }
            Err(over_budget) => {
                self.again_at(self.now + RETRY_OVER_BUDGET);
                Err(over_budget.to_string().into())
            }
        }
    }

    /// On whose behalf this run looks things up.
    pub fn client(&self) -> Client {
        self.context.client
    }

    /// The one moment at which the whole run takes place.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Asks for the evaluation to be repeated at `when` even if nothing changes; the earliest request counts.
    pub fn again_at(&mut self, when: Instant) {
        self.again_at = Some(self.again_at.map_or(when, |earlier| earlier.min(when)));
    }
}

// === impl Places ===

impl Places {
    fn find<T>(&mut self, list: &[T], address: usize, of: impl Fn(&T) -> Option<usize>) -> Option<usize> {
        if list.len() <= SHORT {
            return list.iter().position(|item| of(item) == Some(address));
        }
        for (at, item) in list.iter().enumerate().skip(self.indexed) {
            self.index.extend(of(item).map(|address| (address, at)));
        }
        self.indexed = list.len();
        self.index.get(&address).copied()
    }
}

// === impl Dependency ===

impl Dependency {
    fn address(&self) -> usize {
        self.subscription.cell.address()
    }
}

// === impl Dependencies ===

impl Dependencies {
    /// Must the evaluation run (again)?
    pub(super) fn outdated(&self) -> bool {
        !self.evaluated
            || self.again_at.is_some_and(|when| when <= Instant::now())
            || self.list.iter().any(|dependency| dependency.subscription.cell.version() != dependency.seen)
    }

    /// Runs `compute`, replaces the dependencies by what it read, and says when it wants to run again.
    pub(super) fn run<T>(
        &mut self,
        context: &Context,
        compute: impl FnOnce(&mut Run<'_>) -> Reading<T>,
    ) -> (Reading<T>, Option<Instant>) {
        let mut run = Run {
            context,
            before: std::mem::take(&mut self.list).into_iter().map(Some).collect(),
            before_places: Places::default(),
            now_read: SmallVec::new(),
            kept: SmallVec::new(),
            kept_places: Places::default(),
            now: Instant::now(),
            again_at: None,
        };
        let reading = compute(&mut run);
        self.list = run.now_read;
        self.list.shrink_to_fit();
        self.again_at = run.again_at;
        self.evaluated = true;
        (reading, run.again_at)
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("read", &self.now_read.len()).field("now", &self.now).finish_non_exhaustive()
    }
}
