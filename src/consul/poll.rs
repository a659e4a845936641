//! The loop behind everything that is watched in Consul.
//!
//! It asks without an index, then waits with the index of the answer, and so on. It ends when its guard is dropped and
//! for no other reason: whatever else happens leads back into it. What goes wrong never takes anything away from
//! readers, and makes the next request one without an index, so that a Consul that lost its state is seen as it is.

mod mind;
mod sink;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::request::From;
use super::transport::Limit;
use super::turns::Watcher;
use super::{Agent, Answer, ConsulError, Journal, Request, Undecoded};
use crate::runtime::Backoff;
use crate::telemetry::Counter;

use mind::{AskedAt, End, Mind};
pub use mind::{Given, Offered};
pub use sink::Sink;

/// How long a blocking query waits at the agent: Consul's own default.
pub const WAIT: Duration = Duration::from_secs(300);

/// How much longer than a query waits its answer may take: Consul adds up to a sixteenth by itself.
const GRACE: Duration = Duration::from_secs(5);

/// How long a request without an index may take: an agent looks for a leader for 7 s before it gives up.
const PATIENCE: Duration = Duration::from_secs(15);

/// With more watches than this each waits longer after failures: an agent that is down, or just back, gets about a
/// hundred requests a second.
const MANY: f64 = 250.0;

/// Without a request under way for this long, an agent may have been restarted unseen: one that answers again is not
/// noticed to have been lost.
const UNSEEN: Duration = Duration::from_millis(50);

/// How long the first poll after that waits. Had the agent lost its state, its index would have to come up to the old one
/// before it answers; when the wait is over it says where it is.
const SOON: Duration = Duration::from_secs(5);

/// Those who learn that an agent is back ask within this time, not all in one moment.
const SPREAD: Duration = Duration::from_millis(500);

/// What is watched.
#[derive(Debug)]
pub struct Query<D> {
    /// The request, without an index.
    pub request: Request,
    /// When it is repeated.
    pub rhythm: Rhythm,
    /// How long it rests after failures.
    pub delays: Delays,
    /// Makes a value of an answer's unpacked body. A panic in it is one more failure.
    pub decode: D,
}

/// Between these two each delay after a failure is drawn, from more and more as failures go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The least.
    pub floor: Duration,
    /// The most.
    pub cap: Duration,
}

/// When a request is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// When the agent says that something has changed, and when it has waited that long ([`WAIT`]).
    Blocking(Duration),
    /// After so long, and when the agent was lost and is back: for what has no index.
    Every(Duration),
}

/// Counts what a watch does, under namerd's names.
#[derive(Clone, Debug, Default)]
pub struct PollCounters {
    /// Watches that began.
    pub opens: Counter,
    /// Watches that ended.
    pub closes: Counter,
    /// Requests that failed.
    pub errors: Counter,
    /// Good answers, whether they brought news or not.
    pub updates: Counter,
}

/// A watch; it ends when this is dropped.
pub struct Poll<T> {
    mind: Arc<Mind<T>>,
    closes: Counter,
    _task: AbortOnDropHandle<Infallible>,
}

/// What the loop itself owns.
struct Worker<T> {
    agent: Agent,
    watcher: Watcher,
    mind: Arc<Mind<T>>,
    counters: PollCounters,
    pace: super::pace::Pace,
    backoff: Backoff,
    /// The last failure, while it goes on.
    failing: Option<ConsulError>,
    /// When the last request ended.
    ended: Instant,
}

// === impl Delays ===

impl Default for Delays {
    fn default() -> Self {
        Self { floor: Duration::from_millis(100), cap: Duration::from_secs(5) }
    }
}

// === impl Poll ===

impl<T: Send + 'static> Poll<T> {
    /// Begins to watch; `sink` gets what is learnt, and nobody else may write there.
    pub fn start<D>(agent: &Agent, query: Query<D>, sink: impl Sink<T>, counters: PollCounters) -> Self
    where
        D: Fn(&Answer, &[u8]) -> Result<T, Undecoded> + Send + Sync + 'static,
    {
        let Query { request, rhythm, delays, decode } = query;
        let journal = Arc::new(Journal::default());
        let watcher = agent.turns().watcher(journal.clone());
        let mind = Arc::new(Mind::new(request, rhythm, Arc::new(decode), Box::new(sink), journal));
        counters.opens.inc();
        let closes = counters.closes.clone();
        let worker = Worker {
            agent: agent.clone(),
            watcher,
            mind: mind.clone(),
            counters,
            pace: super::pace::Pace::new(),
            backoff: Backoff::new(delays.floor, delays.cap),
            failing: None,
            ended: Instant::now(),
        };
        Self { mind, closes, _task: AbortOnDropHandle::new(agent.runtime().spawn(worker.run())) }
    }

    /// What readers have been given so far; to be taken before an answer is asked for that is then offered.
    pub fn given(&self) -> Given {
        self.mind.given()
    }

    /// Gives readers an answer that somebody got by other means, such as a read after a write of this process. It counts
    /// as the loop's own. `before` is what they had when it was asked for: if that is what they have still, the answer is
    /// newer, even if its index is lower, as it is after a lost state or a restored snapshot. So who offers one that is
    /// older than `before` ([`Given::is_newer_than`]) must have had it confirmed.
    ///
    /// # Errors
    /// The body cannot be read; nothing has changed.
    pub async fn offer(&self, answer: Answer, before: Given) -> Result<Offered, ConsulError> {
        self.mind.offer(answer, before).await
    }

    /// What pages and metrics show of it.
    pub fn journal(&self) -> &Journal {
        self.mind.journal()
    }
}

impl<T> Drop for Poll<T> {
    fn drop(&mut self) {
        self.closes.inc();
    }
}

impl<T> fmt::Debug for Poll<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll").field("request", self.mind.request()).finish_non_exhaustive()
    }
}

// === impl Worker ===

impl<T: Send + 'static> Worker<T> {
    async fn run(mut self) -> Infallible {
        loop {
            self.pace.next().await;
            let end = self.attempt().await;
            self.note(&end);
            match end {
                End::Failed(error) => self.retreat(&error).await,
                _ => self.rest().await,
            }
        }
    }

    /// One request and what comes of it.
    async fn attempt(&mut self) -> End {
        let asked = self.mind.next();
        let began = Instant::now();
        let (from, sent) = self.send(asked).await;
        self.ended = Instant::now();
        match sent {
            Ok(answer) => self.mind.take(answer, asked, from, began.elapsed()).await,
            Err(error) => self.mind.lost(error),
        }
    }

    /// The answer, and from where it was waited for.
    async fn send(&self, asked: AskedAt) -> (Option<From>, Result<Answer, ConsulError>) {
        let from = asked.from();
        // A watch whose turn does not come reads once without waiting.
        let turn = match from {
            Some(_) => self.watcher.poll().await,
            None => None,
        };
        let most = if self.ended.elapsed() > UNSEEN { SOON } else { Duration::MAX };
        let wait = |wait| self.watcher.wait(wait).min(most);
        let from = from.filter(|_| turn.is_some()).map(|(index, time)| From { index, wait: wait(time) });
        let _turn = match turn {
            Some(turn) => turn,
            None => self.watcher.turns().read().await,
        };
        let patience = from.map_or(PATIENCE, |from| from.wait + from.wait / 16 + GRACE);
        let target = self.mind.target(asked, from);
        self.mind.journal().asked(target.clone());
        let limit = Limit { head: Instant::now() + patience, whole: None };
        let sent = self.agent.send(self.mind.request(), &target, limit).await;
        // The connection goes back to the pool in a task of its own; whoever has the turn next is to find it there.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        (from, sent)
    }

    /// Counts and logs. The first failure of a streak is logged, what concerns the agent as a whole once for all.
    fn note(&mut self, end: &End) {
        self.agent.metrics().ended(self.agent.name(), end.word());
        let mind = self.mind.clone();
        let path = mind.request().path();
        match end {
            End::Failed(error) => {
                self.counters.errors.inc();
                mind.journal().failed(&error.to_string());
                if error.is_of_agent() {
                    self.watcher.turns().report_lost(error);
                } else if self.failing.is_none() {
                    tracing::warn!(path, "{error}; what is known stays");
                } else {
                    tracing::debug!(path, "{error}");
                }
                self.failing = Some(error.clone());
            }
            End::Content(reason) => {
                self.succeeded();
                mind.journal().failed(reason);
                tracing::warn!(path, "{reason}; what is known stays");
            }
            End::Doubted => tracing::debug!(path, "nothing is left: asking the majority of the servers"),
            End::Changed | End::Unchanged | End::Unmoved => {
                self.counters.updates.inc();
                self.succeeded();
            }
            End::WentBack | End::Overtaken => {}
        }
    }

    fn succeeded(&mut self) {
        self.backoff.reset();
        match self.failing.take() {
            Some(error) if error.is_of_agent() => self.watcher.turns().came_back(),
            Some(_) => tracing::info!(path = self.mind.request().path(), "Consul answers again"),
            None => {}
        }
    }

    /// After a failure: waits, but not longer than until the agent is back.
    async fn retreat(&mut self, error: &ConsulError) {
        let many = self.watcher.turns().watches() as f64 / MANY;
        let delay = self.backoff.next_delay().mul_f64(many.max(1.0));
        if !error.is_of_agent() {
            return tokio::time::sleep(delay).await;
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = self.watcher.turns().back() => {
                let spread = rand::rng().random_range(Duration::ZERO..SPREAD);
                tokio::time::sleep(spread).await;
            }
        }
    }

    /// After a good answer: a blocking query goes on at once.
    async fn rest(&self) {
        let Rhythm::Every(interval) = self.mind.rhythm() else { return };
        let interval = rand::rng().random_range(interval.mul_f64(0.9)..=interval);
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = self.watcher.turns().back() => {}
        }
    }
}
