//! What is watched of the store, with a way to ask for the present.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::consul::{Agent, Answer, Consistency, ConsulError, Given, Offered, Poll, Query, Request, Sink, Undecoded};
use crate::runtime::Backoff;
use crate::store::{Cell, Live, Observer, Reason, Renewal, Standing, Unanswered};

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
    reads: Reads,
}

/// A cell, and what of its values is nothing.
struct Shown<T> {
    cell: Arc<Cell<T>>,
    is_nothing: fn(&T) -> bool,
}

/// Reads for many who ask, one at a time: nobody gets an answer to a question older than his own, and however many ask
/// there are at most two reads in a row.
struct Reads {
    begun: AtomicU64,
    /// The number of the last one that gave an answer, and the answer. Whoever reads holds it.
    last: tokio::sync::Mutex<(u64, Verdict)>,
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
        probe: Option<Request>,
        is_nothing: fn(&T) -> bool,
    ) -> Self
    where
        D: Fn(&Answer, &[u8]) -> Result<T, Undecoded> + Send + Sync + 'static,
    {
        let (cell, mut present) = (Cell::new(), query.request.clone());
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

    fn empties(&self, value: &T) -> bool {
        // Even where nothing is known yet: routes would be lost, if only for a moment.
        (self.is_nothing)(value)
    }
}

// === impl Reads ===

impl Default for Reads {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), last: tokio::sync::Mutex::new((0, Ok(()))) }
    }
}

impl Reads {
    /// Ends when a read that began after this call has given an answer: one of its own if need be.
    async fn after_now<E>(&self, read: impl AsyncFnOnce() -> Result<Verdict, E>) -> Result<Verdict, E> {
        let before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.0 > before {
            return Ok(last.1.clone());
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let verdict = read().await?;
        *last = (number, verdict.clone());
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_are_served_by_two_reads_and_none_by_one_that_began_before() {
        let (reads, made) = (Arc::new(Reads::default()), Arc::new(AtomicU64::new(0)));
        let ask = || {
            let (reads, made) = (reads.clone(), made.clone());
            tokio::spawn(async move {
                reads
                    .after_now(async || {
                        made.fetch_add(1, Ordering::SeqCst);
                        sleep(Duration::from_secs(1)).await;
                        Ok::<Verdict, ()>(Ok(()))
                    })
                    .await
            })
        };
        let first = ask();
        sleep(Duration::from_millis(500)).await;
        let others: Vec<_> = (0..50).map(|_| ask()).collect();
        let began = Instant::now();
        for asked in std::iter::once(first).chain(others) {
            assert_eq!(asked.await.expect("not cancelled"), Ok(Ok(())));
        }
        assert_eq!(made.load(Ordering::SeqCst), 2);
        assert_eq!(began.elapsed(), Duration::from_millis(1500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_fails_serves_nobody_else() {
        let reads = Reads::default();
        let fails = reads.after_now(async || {
            sleep(Duration::from_secs(1)).await;
            Err("lost")
        });
        let reads_itself = reads.after_now(async || Ok::<Verdict, &str>(Err("no dtab".into())));
        assert_eq!(tokio::join!(fails, reads_itself), (Err("lost"), Ok(Err("no dtab".into()))));
    }
}
