//! A feed: a cell that follows something at another name server.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::follow::{Follower, Watched};
use super::journal::Journal;
use super::protocol::Sink;
use super::servers::Server;
use super::upstream::{Shared, Shown};
use super::{Answer, Ask, Failure, Reason};
use crate::store::{Cell, Live, Observer, State, Watch};

/// A cell, and the loop that keeps it current until this is dropped.
pub struct Feed<T> {
    writer: Arc<Writer<T>>,
    _loop: AbortOnDropHandle<Infallible>,
    _shown: Shown,
}

type Convert<T> = Box<dyn Fn(Answer) -> Result<T, String> + Send + Sync>;

/// What writes the cell: the loop, and whoever offers it an answer.
struct Writer<T> {
    upstream: Arc<Shared>,
    cell: Arc<Cell<T>>,
    journal: Arc<Journal>,
    convert: Convert<T>,
}

// === impl Feed ===

impl<T: PartialEq + Send + Sync + 'static> Feed<T> {
    pub(super) fn start(
        runtime: &Handle,
        upstream: &Arc<Shared>,
        ask: Ask,
        convert: impl Fn(Answer) -> Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        let (cell, journal) = (Cell::new(), Arc::new(Journal::new(ask.clone())));
        let shown = upstream.show(journal.clone());
        let convert = Box::new(convert);
        let writer = Arc::new(Writer { upstream: upstream.clone(), cell, journal, convert });
        let follower = Follower::new(upstream.clone(), ask, writer.clone());
        Self { writer, _loop: AbortOnDropHandle::new(runtime.spawn(follower.run())), _shown: shown }
    }
}

impl<T: PartialEq + Send + Sync + 'static> Feed<T> {
    /// Gives readers an answer that somebody got by other means, such as a read after a write of this process. It counts
    /// as the loop's own.
    ///
    /// # Errors
    /// It is none to what is asked.
    pub fn offer(&self, answer: Answer) -> Result<(), Failure> {
        self.writer.tell(answer)
    }
}

impl<T> Feed<T> {
    /// What is known. Pending until the first answer; the last good value stays whatever happens.
    ///
    /// A failure of the server shows as the cell's standing, since a reader must not take the last good value for what
    /// the server says. That it cannot be reached does not: then the last good value is the best there is.
    pub fn cell(&self) -> &Arc<Cell<T>> {
        &self.writer.cell
    }
}

impl<T: Send + Sync> Live for Observer<Feed<T>> {}

impl<T: Send + Sync + 'static> From<Observer<Feed<T>>> for Watch<T> {
    fn from(feed: Observer<Feed<T>>) -> Self {
        Self::new(feed.cell().clone(), Arc::new(feed))
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

// === impl Writer ===

impl<T: PartialEq + Send + Sync> Sink for Writer<T> {
    fn asked(&self, server: &Server) {
        self.journal.asked(server.address());
    }

    fn tell(&self, answer: Answer) -> Result<(), Failure> {
        let value = (self.convert)(answer).map_err(|why| Failure::new(Reason::BadAnswer, why))?;
        let changed = self.cell.publish(value);
        self.upstream.metrics.answered(&self.upstream.name, self.journal.ask());
        if self.journal.answered(changed) {
            self.upstream.note_restored(self.journal.ask());
        }
        Ok(())
    }
}

impl<T: PartialEq + Send + Sync> Watched for Writer<T> {
    fn failed(&self, failure: &Failure, alone: bool) {
        self.journal.failed(failure);
        if !alone {
            return; // somebody vouches for what is known
        }
        self.journal.lost();
        let unheard = failure.reason.is_of_connection() || failure.reason == Reason::Silent;
        match self.cell.snapshot().state {
            _ if failure.reason == Reason::Declared => self.cell.fail(failure.text.clone()),
            State::Pending => self.cell.suspend(Some(failure.text.clone())),
            // The question is open again.
            State::Failed(_) if unheard => self.cell.suspend(Some(failure.text.clone())),
            State::Failed(_) | State::Ready(_) => {}
        }
    }
}
