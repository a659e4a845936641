//! Cell: a versioned value with one writer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::Instant;

use super::{Key, Mailbox, Marker, Reason, Version};

/// What a cell knows.
#[derive(Debug)]
pub enum State<T> {
    /// Nothing has been heard yet.
    Pending,
    /// The newest value.
    Ready(Arc<T>),
    /// There never was a value, and this is why.
    Failed(Reason),
}

/// How a cell's value relates to the present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As fresh as its source.
    Current,
    /// The source has failed since; the value is the last good one.
    Stale {
        /// When the source first failed since its last success.
        since: Instant,
        /// What went wrong last.
        reason: Reason,
    },
    /// The source has no answer at present; the value is the last good one.
    Suspended {
        /// Since when there is no answer.
        since: Instant,
        /// What is waited for, if known.
        reason: Option<Reason>,
    },
}

/// What a reader sees of a cell at one moment.
#[derive(Debug)]
pub struct Snapshot<T> {
    /// The value, or why there is none.
    pub state: State<T>,
    /// Changes exactly when `state` does.
    pub version: Version,
    /// Freshness; changes without a new version and wakes only close subscribers.
    pub standing: Standing,
    /// When the cell was made: how long a pending one has been so.
    pub born: Instant,
}

/// A versioned value with one writer and any number of readers.
///
/// `publish` compares first: an equal value keeps the version and wakes nobody. Failure never erases data.
/// The lock is held for a few instructions and never across an await.
pub struct Cell<T> {
    slot: Mutex<Slot<T>>,
    /// Copy of the slot's version, so that checking for news needs no lock.
    version: AtomicU64,
    born: Instant,
}

struct Slot<T> {
    state: State<T>,
    standing: Standing,
    version: Version,
    subscribers: Slab<Subscriber>,
}

struct Subscriber {
    marker: Marker,
    key: Key,
    /// Also told of changes of standing.
    close: bool,
}

/// What a subscription and a dependency need of a cell, whatever its type.
pub(super) trait Watched: Send + Sync {
    fn version(&self) -> u64;
    fn unsubscribe(&self, at: usize);
    fn address(&self) -> usize;
}

/// Keeps a mailbox subscribed to a cell; dropping it ends that.
pub struct Subscription {
    pub(super) cell: Arc<dyn Watched>,
    at: usize,
}

// === impl Cell ===

impl<T> Default for Cell<T> {
    fn default() -> Self {
        let version = Version::next();
        Self {
            slot: Mutex::new(Slot {
                state: State::Pending,
                standing: Standing::Current,
                version,
                subscribers: Slab::new(),
            }),
            version: AtomicU64::new(version.get()),
            born: Instant::now(),
        }
    }
}

impl<T> Cell<T> {
    /// A pending cell.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A cell that already has its value.
    pub fn ready(value: T) -> Arc<Self> {
        let cell = Self::default();
        cell.slot.lock().state = State::Ready(Arc::new(value));
        Arc::new(cell)
    }

    /// The state, version and freshness of this moment.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.slot.lock().snapshot(self.born)
    }

    /// The version of this moment, without a lock.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Marks the value as the last good one: the source failed. A cell without a value becomes `Failed`.
    /// Never erases data; wakes nobody who has a value, except close subscribers.
    pub fn fail(&self, reason: impl Into<Reason>) {
        let reason = reason.into();
        let mut slot = self.slot.lock();
        match &slot.state {
            State::Ready(_) => {
                let since = match slot.standing {
                    Standing::Stale { since, .. } => since,
                    _ => Instant::now(),
                };
                slot.stand(Standing::Stale { since, reason });
            }
            State::Failed(now) if *now == reason => {}
            State::Pending | State::Failed(_) => drop(self.replace(&mut slot, State::Failed(reason))),
        }
    }

    /// Says that the source has no answer at present. A value stays as the last good one.
    /// A `Failed` cell becomes `Pending` again: the question is open.
    pub fn suspend(&self, reason: Option<Reason>) {
        let mut slot = self.slot.lock();
        match &slot.state {
            State::Ready(_) => {
                let since = match slot.standing {
                    Standing::Suspended { since, .. } => since,
                    _ => Instant::now(),
                };
                slot.stand(Standing::Suspended { since, reason });
            }
            State::Failed(_) => {
                slot.standing = Standing::Suspended { since: Instant::now(), reason };
                drop(self.replace(&mut slot, State::Pending));
            }
            State::Pending => slot.standing = Standing::Suspended { since: self.born, reason },
        }
    }

    /// Returns what was there before.
    fn replace(&self, slot: &mut Slot<T>, state: State<T>) -> State<T> {
        let before = std::mem::replace(&mut slot.state, state);
        slot.version = Version::next();
        self.version.store(slot.version.get(), Ordering::Release);
        slot.mark(|_| true);
        before
    }
}

impl<T: PartialEq> Cell<T> {
    /// Publishes a complete value. An equal one keeps the version and wakes nobody; it is fresh again, though.
    /// Returns whether readers see something new.
    pub fn publish(&self, next: T) -> bool {
        let mut slot = self.slot.lock();
        if matches!(&slot.state, State::Ready(now) if **now == next) {
            slot.stand(Standing::Current);
            return false;
        }
        slot.standing = Standing::Current;
        let before = self.replace(&mut slot, State::Ready(Arc::new(next)));
        drop(slot);
        drop(before); // a large value takes a while to go, and readers need the lock
        true
    }
}

impl<T: Send + Sync + 'static> Cell<T> {
    /// Registers `key` of `mailbox` and returns what is there now, in one step: nothing is missed in between.
    pub fn subscribe(self: &Arc<Self>, mailbox: &Mailbox, key: Key) -> (Snapshot<T>, Subscription) {
        self.subscribe_marker(mailbox.marker(), key, false)
    }

    /// Like [`Cell::subscribe`], and told of changes of standing too: for one-shot readers.
    pub fn subscribe_closely(self: &Arc<Self>, mailbox: &Mailbox, key: Key) -> (Snapshot<T>, Subscription) {
        self.subscribe_marker(mailbox.marker(), key, true)
    }

    pub(super) fn subscribe_marker(
        self: &Arc<Self>,
        marker: Marker,
        key: Key,
        close: bool,
    ) -> (Snapshot<T>, Subscription) {
        let mut slot = self.slot.lock();
        let at = slot.subscribers.insert(Subscriber { marker, key, close });
        (slot.snapshot(self.born), Subscription { cell: self.clone(), at })
    }

    /// How many subscriptions exist.
    pub fn subscribers(&self) -> usize {
        self.slot.lock().subscribers.len()
    }
}

impl<T: Send + Sync + 'static> Watched for Cell<T> {
    fn version(&self) -> u64 {
        Cell::version(self)
    }

    fn unsubscribe(&self, at: usize) {
        let mut slot = self.slot.lock();
        slot.subscribers.remove(at);
        // A cell that thousands of watchers left gives their memory back.
        if slot.subscribers.capacity() > 64 && slot.subscribers.len() * 4 < slot.subscribers.capacity() {
            slot.subscribers.shrink_to_fit();
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl<T: fmt::Debug> fmt::Debug for Cell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = self.slot.lock();
        f.debug_struct("Cell").field("state", &slot.state).field("standing", &slot.standing).finish()
    }
}

// === impl Slot ===

impl<T> Slot<T> {
    fn snapshot(&self, born: Instant) -> Snapshot<T> {
        Snapshot { state: self.state.clone(), version: self.version, standing: self.standing.clone(), born }
    }

    fn stand(&mut self, standing: Standing) {
        if self.standing != standing {
            self.standing = standing;
            self.mark(|subscriber| subscriber.close);
        }
    }

    fn mark(&self, which: impl Fn(&Subscriber) -> bool) {
        for (_, subscriber) in &self.subscribers {
            if which(subscriber) {
                subscriber.marker.mark(subscriber.key);
            }
        }
    }
}

// === impl State, Snapshot ===

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Pending => Self::Pending,
            Self::Ready(value) => Self::Ready(value.clone()),
            Self::Failed(reason) => Self::Failed(reason.clone()),
        }
    }
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), version: self.version, standing: self.standing.clone(), born: self.born }
    }
}

impl<T> Snapshot<T> {
    /// The value, if there ever was one.
    pub fn value(&self) -> Option<&Arc<T>> {
        match &self.state {
            State::Ready(value) => Some(value),
            State::Pending | State::Failed(_) => None,
        }
    }
}

// === impl Subscription ===

impl Drop for Subscription {
    fn drop(&mut self) {
        self.cell.unsubscribe(self.at);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("at", &self.at).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
