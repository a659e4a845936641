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
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rand::RngExt;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::request::From;
use super::transport::Limit;
use super::turns::Watcher;
use super::{Agent, Answer, ConsulError, Journal, Rank, Request, Undecoded};
use crate::runtime::{Backoff, Pace};
use crate::telemetry::Counter;

use mind::{AskedAt, End, Mind};
pub use mind::{Given, Offered};
pub use sink::Sink;

/// How long a blocking query waits at the agent: Consul's own default.
pub const WAIT: Duration = Duration::from_secs(300);

/// Requests of one watch may follow each other in so many at once, and then in this time: a change after a quiet second
/// is seen at once, and constant change is followed once a second.
const BURST: u32 = 2;
const SPACING: Duration = Duration::from_secs(1);

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

/// What an empty answer may be for those who show no token: Consul does not tell them that it left something out.
const BLIND: &str = "no `token` is set, and the ACLs of Consul deny by default: what is missing here may be there, and not \
                     to be seen without a token";

/// What is watched.
#[derive(Debug)]
pub struct Query<D> {
    /// The request, without an index.
    pub request: Request,
    /// When it is repeated.
    pub rhythm: Rhythm,
    /// How long it rests after failures.
    pub delays: Delays,
    /// Whether it comes before others, as long as it is about something that exists.
    pub rank: Rank,
    /// Asked before anything is confirmed: it shows a denial that the request itself does not.
    pub probe: Option<Request>,
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
    rank: Rank,
    probe: Option<Request>,
    counters: PollCounters,
    pace: Pace,
    backoff: Backoff,
    /// The last failure, while it goes on.
    failing: Option<ConsulError>,
    /// When the last request ended.
    ended: Instant,
    /// What has gone wrong since the last good answer, each kind once.
    met: Vec<&'static str>,
    /// What was wrong with the last answer, if what somebody stored was.
    content: Option<String>,
}

// === impl Query ===

impl<D> Query<D> {
    /// A watch of a name, with the usual delays.
    pub fn new(request: Request, rhythm: Rhythm, decode: D) -> Self {
        Self { request, rhythm, delays: Delays::default(), rank: Rank::Name, probe: None, decode }
    }
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
        let Query { request, rhythm, delays, rank, probe, decode } = query;
        let journal = Arc::new(Journal::default());
        let watcher = agent.turns().watcher(journal.clone());
        let mind = Arc::new(Mind::new(request, rhythm, Arc::new(decode), Box::new(sink), journal));
        counters.opens.inc();
        let closes = counters.closes.clone();
        let worker = Worker {
            agent: agent.clone(),
            watcher,
            mind: mind.clone(),
            rank,
            probe,
            counters,
            pace: Pace::new(SPACING, BURST),
            backoff: Backoff::new(delays.floor, delays.cap),
            failing: None,
            ended: Instant::now(),
            met: Vec::new(),
            content: None,
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
    pub fn journal(&self) -> &Arc<Journal> {
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
        let mut panicked = false;
        loop {
            let turn = AssertUnwindSafe(self.turn(panicked)).catch_unwind().await;
            // That is a defect, and one more failure: a watch that ended here would be stale in silence.
            panicked = turn.is_err();
        }
    }

    /// One request, unless the turn before `panicked`, and what follows from it.
    async fn turn(&mut self, panicked: bool) {
        self.pace.next().await;
        let end = match panicked {
            true => self.mind.lost(ConsulError::Panicked { path: self.mind.request().path().to_owned() }),
            false => self.attempt().await,
        };
        self.note(&end);
        match end {
            End::Failed(error) => self.retreat(&error).await,
            _ => self.rest().await,
        }
    }

    /// One request and what comes of it.
    async fn attempt(&mut self) -> End {
        self.watcher.rank(if self.mind.is_of_nothing() { Rank::Nothing } else { self.rank });
        let asked = self.mind.next();
        if let Some(probe) = self.probe.as_ref().filter(|_| asked.confirms()) {
            let _place = self.watcher.turns().read(probe.about()).await;
            if let Err(error) = self.exchange(probe, &probe.target(None, None), PATIENCE).await {
                return self.mind.lost(error);
            }
        }
        let began = Instant::now();
        let (from, sent) = self.send(asked).await;
        self.ended = Instant::now();
        match sent {
            Ok(answer) => {
                let is_blind = answer.denies_by_default && !self.agent.shows_token();
                let end = self.mind.take(answer, asked, from, began.elapsed()).await;
                let is_blind = is_blind && self.mind.is_of_nothing();
                self.mind.journal().warn(is_blind.then_some(BLIND));
                if is_blind {
                    self.watcher.turns().report_blind(BLIND);
                }
                end
            }
            Err(error) => self.mind.lost(error),
        }
    }

    /// The answer, and from where it was waited for.
    async fn send(&self, asked: AskedAt) -> (Option<From>, Result<Answer, ConsulError>) {
        let request = self.mind.request();
        if let Some((index, wait)) = asked.from()
            && let Some(turn) = self.watcher.poll(wait).await
        {
            let most = if self.ended.elapsed() > UNSEEN { SOON } else { Duration::MAX };
            let wait = turn.wait.min(most);
            let from = Some(From { index, wait });
            return (from, self.exchange(request, &self.mind.target(asked, from), wait + wait / 16 + GRACE).await);
        }
        // Without an index, or a turn, it reads once without waiting.
        let _place = self.watcher.turns().read(request.about()).await;
        (None, self.exchange(request, &self.mind.target(asked, None), PATIENCE).await)
    }

    async fn exchange(&self, request: &Request, target: &str, patience: Duration) -> Result<Answer, ConsulError> {
        self.mind.journal().asked(target.to_owned());
        let limit = Limit { head: Instant::now() + patience, whole: None };
        self.agent.send(request, target, limit).await
    }

    /// Counts and logs. The first failure of its kind in a streak is logged, what concerns the agent as a whole once for
    /// all.
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
                } else if !self.met.contains(&error.word()) {
                    tracing::warn!(path, "{error}; what is known stays");
                    self.met.push(error.word());
                } else {
                    tracing::debug!(path, "{error}");
                }
                self.failing = Some(error.clone());
            }
            End::Content(reason) => {
                self.succeeded();
                mind.journal().failed(reason);
                if self.content.as_ref() == Some(reason) {
                    tracing::debug!(path, "{reason}");
                } else {
                    tracing::warn!(path, "{reason}; what is known stays");
                    self.content = Some(reason.clone());
                }
            }
            End::Doubted => tracing::debug!(path, "nothing is left: asking the majority of the servers"),
            End::Changed | End::Unchanged | End::Unmoved => {
                self.counters.updates.inc();
                self.content = None;
                self.succeeded();
            }
            End::WentBack | End::Overtaken => {}
        }
    }

    fn succeeded(&mut self) {
        self.backoff.reset();
        self.met.clear();
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
        if !error.is_loss() {
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
