//! What is watched of the store, with a way to ask for the present.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::consul::{Agent, Answer, Consistency, ConsulError, Given, Offered, Poll, Query, Request, Sink, Undecoded};
use crate::runtime::Backoff;
use crate::store::{Cell, Live, Observer, Reads, Reason, Renewal, Standing, Unanswered};

/// How long a one-shot reader waits for a store that does not answer, where a last good value is known already.
const KNOWN: Duration = Duration::from_secs(10);

/// How long one request of a reader or writer may take: an agent looks for a leader for 7 s before it gives up.
pub(super) const REQUEST: Duration = Duration::from_secs(8);

/// Between two attempts of a reader or writer.
const FLOOR: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(1);

/// A value of the store: its cell, the loop that keeps it current, and the way to ask.
///
/// The loop hears of a change within milliseconds, which is too late for who asks right after a write by somebody else.
/// So one-shot readers ask the store, and what it says counts as the loop's own answer.
pub(super) struct Watched<T> {
    /// The namespace; empty for the list.
    pub(super) name: String,
    pub(super) cell: Arc<Cell<T>>,
    poll: Poll<T>,
    agent: Agent,
    /// What one-shot readers ask. Not even a leader is believed that others have not confirmed: one that was restarted
    /// answers for a moment from a state in which later writes are missing.
    present: Request,
    /// Asked when there is nothing: it shows a denial that the other does not.
    probe: Option<Request>,
    reads: Reads<Verdict>,
}

/// A cell, and what of its values is nothing.
struct Shown<T> {
    cell: Arc<Cell<T>>,
    is_nothing: fn(&T) -> bool,
}

/// What an answer comes to: a value, or why what is stored is none.
type Verdict = Result<(), Reason>;

// === impl Watched ===

impl<T: PartialEq + Send + Sync + 'static> Watched<T> {
    /// Begins to watch.
    pub(super) fn start<D>(
        name: &str,
        agent: &Agent,
        mode: Consistency,
        query: Query<D>,
        is_nothing: fn(&T) -> bool,
    ) -> Self
    where
        D: Fn(&Answer, &[u8]) -> Result<T, Undecoded> + Send + Sync + 'static,
    {
        let (cell, mut present, probe) = (Cell::new(), query.request.clone(), query.probe.clone());
        if mode == Consistency::Default {
            present = present.consistency(Consistency::Consistent);
        }
        let shown = Shown { cell: cell.clone(), is_nothing };
        let poll = Poll::start(agent, query, shown, Default::default());
        Self { name: name.to_owned(), cell, poll, agent: agent.clone(), present, probe, reads: Reads::default() }
    }
}

impl<T: Send + Sync + 'static> Watched<T> {
    /// The loop, for pages.
    pub(super) fn poll(&self) -> &Poll<T> {
        &self.poll
    }

    /// What readers have been given, to be taken before a question whose answer is offered.
    pub(super) fn given(&self) -> Given {
        self.poll.given()
    }

    /// Shows readers an answer about this key.
    pub(super) async fn offer(&self, answer: Answer, before: Given) -> Result<Offered, ConsulError> {
        self.poll.offer(answer, before).await
    }

    /// Asks once, by `deadline`.
    async fn ask(&self, deadline: Instant) -> Result<Offered, ConsulError> {
        let before = self.given();
        let mut answer = self.agent.once(&self.present, patience(deadline)).await?;
        // A server that lags behind, or knows no leader, would lead readers back to what was before.
        if before.is_newer_than(&answer) || (!answer.found && !answer.sure) {
            let confirmed = self.present.clone().consistency(Consistency::Consistent);
            answer = self.agent.once(&confirmed, patience(deadline)).await?;
        }
        if let Some(probe) = self.probe.as_ref().filter(|_| !answer.found) {
            self.agent.once(probe, patience(deadline)).await?;
        }
        self.offer(answer, before).await
    }

    /// Asks until there is an answer.
    async fn present(&self, limit: Duration) -> Result<(), Unanswered> {
        let known = self.cell.snapshot().value().is_some();
        let limit = if known { limit.min(KNOWN) } else { limit };
        let deadline = Instant::now() + limit;
        let lost: Mutex<Option<Reason>> = Mutex::default();
        let asking = self.reads.after_now(async || {
            let mut backoff = retries();
            loop {
                match self.ask(deadline).await {
                    Ok(Offered::Taken) => return Ok(Ok(())),
                    Ok(Offered::Content(reason)) => return Ok(Err(reason.into())),
                    Ok(Offered::Overtaken) => {}
                    Err(error) if error.is_denial() => return Err(Unanswered::Failed(error.to_string().into())),
                    Err(error) => *lost.lock() = Some(error.to_string().into()),
                }
                sleep(backoff.next_delay()).await;
            }
        });
        match timeout_at(deadline, asking).await {
            Ok(outcome) => outcome?.map_err(Unanswered::Failed),
            Err(_) => {
                let reason = lost.into_inner().or_else(|| self.failure());
                Err(Unanswered::TimedOut { waited: limit, reason })
            }
        }
    }

    /// Why the loop has no answer, as far as is known.
    fn failure(&self) -> Option<Reason> {
        match self.cell.snapshot().standing {
            Standing::Stale { reason, .. } => Some(reason),
            Standing::Suspended { reason, .. } => reason,
            Standing::Current => None,
        }
    }
}

impl<T: Send + Sync + 'static> Live for Watched<T> {
    fn renew(&self, limit: Duration) -> Option<Renewal<'_>> {
        Some(Box::pin(self.present(limit)))
    }
}

impl<T: Send + Sync + 'static> Live for Observer<Watched<T>> {
    fn renew(&self, limit: Duration) -> Option<Renewal<'_>> {
        Some(Box::pin(self.present(limit)))
    }
}

/// What one request may take.
pub(super) fn patience(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).min(REQUEST)
}

/// How long to wait between attempts.
pub(super) fn retries() -> Backoff {
    Backoff::new(FLOOR, CAP)
}

// === impl Shown ===

impl<T: PartialEq + Send + Sync + 'static> Sink<T> for Shown<T> {
    fn publish(&self, value: T) -> bool {
        self.cell.publish(value)
    }

    fn fail(&self, reason: Reason) {
        self.cell.fail(reason);
    }

    fn is_nothing(&self, value: &T) -> bool {
        (self.is_nothing)(value)
    }
}
