//! A value that another server keeps: followed while somebody watches it, and read anew for those who ask once.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::client::http::{Controller, Written};
use crate::client::{Answer, Ask, Feed};
use crate::store::{Live, Observer, Reads, Renewal, Unanswered, Watch};

/// How long a read may take that follows a write, or comes before somebody edits what he reads.
const READ: Duration = Duration::from_secs(5);

/// What the loop told twice while somebody read was asked for after he had begun to.
const OVERTAKEN: u32 = 2;

/// A value at the controller.
pub(super) struct Source<T> {
    feed: Feed<T>,
    controller: Controller,
    ask: Ask,
    reads: Reads<()>,
}

// === impl Source ===

impl<T: PartialEq + Send + Sync + 'static> Source<T> {
    /// Nothing is asked before somebody wants to know.
    pub(super) fn new(
        runtime: &Handle,
        controller: &Controller,
        ask: Ask,
        convert: fn(Answer) -> Result<T, String>,
    ) -> Self {
        let feed = controller.upstream().feed(runtime, ask.clone(), convert);
        Self { feed, controller: controller.clone(), ask, reads: Reads::default() }
    }

    /// The value that is known.
    pub(super) fn value(&self) -> Option<Arc<T>> {
        self.feed.cell().snapshot().value().cloned()
    }

    /// Shows readers what was written, as the server that has done it has it now.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn read_back(&self, written: &Written) -> Result<(), Unanswered> {
        for _ in 0..=OVERTAKEN {
            let before = self.feed.told();
            let answer = self.controller.read_back(written, &self.ask, READ).await;
            let answer = answer.map_err(|failure| Unanswered::Failed(failure.text))?;
            if self.feed.offer(answer, before).map_err(|failure| Unanswered::Failed(failure.text))? {
                break;
            }
        }
        Ok(())
    }

    async fn read(&self, limit: Duration) -> Result<(), Unanswered> {
        for _ in 0..=OVERTAKEN {
            let before = self.feed.told();
            let answer = self.controller.read(&self.ask, limit).await?;
            if self.feed.offer(answer, before).map_err(|failure| Unanswered::Failed(failure.text))? {
                break;
            }
        }
        Ok(())
    }

    /// Reads anew, or has the read of somebody else.
    async fn present(&self, limit: Duration) -> Result<(), Unanswered> {
        // Whoever waits for a read of somebody else that fails has time for his own still.
        let reading = timeout(limit, self.reads.after_now(async || self.read(limit.min(READ)).await));
        reading.await.unwrap_or(Err(Unanswered::TimedOut { waited: limit, reason: None }))
    }
}

impl<T: PartialEq + Send + Sync + 'static> Live for Observer<Source<T>> {
    /// Somebody watches.
    fn refresh(&self) {
        self.feed.begin();
    }

    fn renew(&self, limit: Duration) -> Option<Renewal<'_>> {
        Some(Box::pin(self.present(limit)))
    }
}

impl<T: PartialEq + Send + Sync + 'static> From<Observer<Source<T>>> for Watch<T> {
    fn from(source: Observer<Source<T>>) -> Self {
        Self::new(source.feed.cell().clone(), Arc::new(source))
    }
}
