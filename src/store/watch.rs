//! Watch: a live handle on somebody's cell.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Cell, Derived, Formula, Key, Mailbox, Observer, Reason, Snapshot, Standing, State, Subscription, Version};

/// Keeps a cell alive for as long as somebody holds it, and can bring it up to date.
pub trait Live: Send + Sync {
    /// Brings the cell up to date with everything published so far, where that is not automatic.
    fn refresh(&self) {}

    /// Asks the source itself, within `limit`, and brings the cell up to date with what it says now, which is then the
    /// answer. None where nothing can be known of the source that the cell does not show.
    ///
    /// For one-shot readers alone ([`Watch::answer`]): they may come right after a change that the cell's writer is
    /// still to hear of. Watchers and evaluations never wait for it.
    fn renew(&self, limit: Duration) -> Option<Renewal<'_>> {
        let _ = limit;
        None
    }
}

/// A question to the source; fails if it has no answer, or one that is no value.
pub type Renewal<'a> = Pin<Box<dyn Future<Output = Result<(), Unanswered>> + Send + 'a>>;

/// A live handle: the cell, and the guard that keeps its writer going.
pub struct Watch<T> {
    cell: Arc<Cell<T>>,
    live: Arc<dyn Live>,
}

/// Why a one-shot reader got no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// There is none, for this reason.
    #[error("{0}")]
    Failed(Reason),
    /// Nobody answered in time.
    #[error("no answer within {} s{}{}", .waited.as_secs(), .reason.as_ref().map_or("", |_| ": "), .reason.as_deref().unwrap_or(""))]
    TimedOut {
        /// How long the reader waited.
        waited: Duration,
        /// What was waited for, if known.
        reason: Option<Reason>,
    },
}

// === impl Watch ===

impl<T> Clone for Watch<T> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), live: self.live.clone() }
    }
}

impl<T: Send + Sync + 'static> Watch<T> {
    /// A handle on `cell`, kept going by `live`.
    pub fn new(cell: Arc<Cell<T>>, live: Arc<dyn Live>) -> Self {
        Self { cell, live }
    }

    /// A handle on a value that never changes.
    pub fn constant(value: T) -> Self {
        Self { cell: Cell::ready(value), live: Arc::new(Always) }
    }

    /// A handle on what never has a value, for this reason.
    pub fn failed(reason: impl Into<Reason>) -> Self {
        let cell = Cell::new();
        cell.fail(reason);
        Self { cell, live: Arc::new(Always) }
    }

    /// The cell, for evaluations that read it.
    pub fn cell(&self) -> &Arc<Cell<T>> {
        &self.cell
    }

    /// What is there now, with everything published before this call taken into account.
    pub fn current(&self) -> Snapshot<T> {
        self.live.refresh();
        self.cell.snapshot()
    }

    /// Like [`Watch::current`], for a reader that only wants to know whether its own copy is still the newest.
    pub fn current_version(&self) -> u64 {
        self.live.refresh();
        self.cell.version()
    }

    /// Registers `key` of `mailbox` and returns what is there now, in one step.
    pub fn subscribe(&self, mailbox: &Mailbox, key: Key) -> (Snapshot<T>, Subscription) {
        self.live.refresh();
        self.cell.subscribe(mailbox, key)
    }

    /// The value of this moment, or the first one that comes within `limit`: the one-shot reader's question. Where the
    /// cell may lag behind its source, the source is asked. A last good value whose source fails or waits does not
    /// count: it shows the failure, or waits too.
    ///
    /// # Errors
    /// [`Unanswered`], with the reason.
    pub async fn answer(&self, limit: Duration) -> Result<(Arc<T>, Version), Unanswered> {
        let deadline = Instant::now() + limit;
        if let Some(renewal) = self.live.renew(limit) {
            renewal.await?;
            let snapshot = self.cell.snapshot();
            // That the cell's writer has lost the source since does not make it older.
            if let State::Ready(value) = snapshot.state {
                return Ok((value, snapshot.version));
            }
        }
        self.live.refresh();
        if let Some(outcome) = verdict(&self.cell.snapshot()) {
            return outcome;
        }
        let mailbox = Mailbox::new();
        let (mut snapshot, _subscription) = self.cell.subscribe_closely(&mailbox, Key(0));
        let mut marked = Vec::new();
        loop {
            if let Some(outcome) = verdict(&snapshot) {
                return outcome;
            }
            if tokio::time::timeout_at(deadline, mailbox.marked()).await.is_err() {
                // What is waited for may have become known meanwhile, which wakes nobody.
                let reason = match self.cell.snapshot().standing {
                    Standing::Suspended { reason, .. } => reason,
                    Standing::Current | Standing::Stale { .. } => None,
                };
                return Err(Unanswered::TimedOut { waited: limit, reason });
            }
            mailbox.take_marked(&mut marked);
            snapshot = self.cell.snapshot();
        }
    }
}

fn verdict<T>(snapshot: &Snapshot<T>) -> Option<Result<(Arc<T>, Version), Unanswered>> {
    match (&snapshot.state, &snapshot.standing) {
        (State::Ready(value), Standing::Current) => Some(Ok((value.clone(), snapshot.version))),
        (State::Ready(_), Standing::Stale { reason, .. }) | (State::Failed(reason), _) => {
            Some(Err(Unanswered::Failed(reason.clone())))
        }
        (State::Ready(_), Standing::Suspended { .. }) | (State::Pending, _) => None,
    }
}

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

// === impl Live ===

struct Always;

impl Live for Always {}

impl<F: Formula> Live for Observer<Derived<F>> {
    fn refresh(&self) {
        Derived::refresh(self);
    }
}

impl<F: Formula> From<Observer<Derived<F>>> for Watch<F::Value> {
    fn from(observer: Observer<Derived<F>>) -> Self {
        Self { cell: observer.cell().clone(), live: Arc::new(observer) }
    }
}

impl<F: Formula> Live for Derived<F> {
    fn refresh(&self) {
        Derived::refresh(self);
    }
}

impl<F: Formula> From<Derived<F>> for Watch<F::Value> {
    fn from(derived: Derived<F>) -> Self {
        Self { cell: derived.cell().clone(), live: Arc::new(derived) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that is one ahead of the cell, or has no answer.
    struct Ahead(Option<Arc<Cell<u32>>>);

    impl Live for Ahead {
        fn renew(&self, _: Duration) -> Option<Renewal<'_>> {
            Some(Box::pin(async {
                let cell = self.0.as_ref().ok_or_else(|| Unanswered::Failed("unreachable".into()))?;
                cell.publish(2);
                cell.fail("lost right after that");
                Ok(())
            }))
        }
    }

    #[tokio::test]
    async fn a_one_shot_reader_gets_what_the_source_has_and_everybody_else_what_the_cell_shows() {
        let cell = Cell::ready(1);
        let watch = Watch::new(cell.clone(), Arc::new(Ahead(Some(cell.clone()))));
        assert_eq!(**watch.current().value().expect("ready"), 1);
        let (value, version) = watch.answer(Duration::from_secs(1)).await.expect("the source answers");
        assert_eq!((*value, version.get()), (2, cell.version()));
    }

    #[tokio::test]
    async fn a_source_without_an_answer_shows_to_a_one_shot_reader_although_the_cell_has_a_value() {
        let watch = Watch::new(Cell::ready(1), Arc::new(Ahead(None)));
        assert_eq!(watch.answer(Duration::from_secs(1)).await, Err(Unanswered::Failed("unreachable".into())));
        assert_eq!(**watch.current().value().expect("the last good one"), 1);
    }
}
