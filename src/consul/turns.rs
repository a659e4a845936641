//! Turns: how all watches of one agent share the few connections that it grants.
//!
//! A stock agent refuses a client's 201st connection, and an open poll needs one. So at most `maxPolls` polls are open
//! at once, and a few requests that are answered at once besides. While there are more watches than polls, each poll is
//! short, and a watch whose turn is long in coming reads once without waiting.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::{AgentFigures, Journal};
use crate::runtime::Seldom;

/// How many polls may be open at one agent unless the configuration says otherwise: a stock agent grants a client 200
/// connections.
const MOST: usize = 150;

/// How long a poll waits while others want its place.
const SHORT: Duration = Duration::from_secs(1);

/// The least time after which a watch without a place reads once.
const PATIENCE: Duration = Duration::from_secs(3);

/// What goes wrong with all watches of an agent at once is logged once in this time.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// The places of one agent.
pub(super) struct Turns {
    agent: String,
    /// Open polls.
    polls: Semaphore,
    /// Requests that are answered at once.
    reads: Semaphore,
    limit: Mutex<Option<usize>>,
    watches: AtomicUsize,
    journals: Mutex<Slab<Arc<Journal>>>,
    told: AtomicBool,
    back: Notify,
    lost: Seldom,
    found: Seldom,
}

/// A watch, which counts for as long as it lives.
pub(super) struct Watcher {
    turns: Arc<Turns>,
    journal: usize,
}

/// A place, until it is dropped.
pub(super) type Turn<'a> = SemaphorePermit<'a>;

// === impl Turns ===

impl Turns {
    /// The places of the agent that messages call `agent`.
    pub(super) fn new(agent: String) -> Arc<Self> {
        Arc::new(Self {
            agent,
            polls: Semaphore::new(MOST),
            reads: Semaphore::new(reads(MOST)),
            limit: Mutex::new(None),
            watches: AtomicUsize::new(0),
            journals: Mutex::default(),
            told: AtomicBool::new(false),
            back: Notify::new(),
            lost: Seldom::new(LOG_EVERY),
            found: Seldom::new(LOG_EVERY),
        })
    }

    /// Of several limits that are set for one agent the lowest counts. To be called before the first poll.
    pub(super) fn limit(&self, most: Option<usize>) {
        let Some(most) = most else { return };
        let mut limit = self.limit.lock();
        let (before, now) = (limit.unwrap_or(MOST), limit.map_or(most, |limit| limit.min(most)));
        resize(&self.polls, before, now);
        resize(&self.reads, reads(before), reads(now));
        *limit = Some(now);
    }

    /// One more watch.
    pub(super) fn watcher(self: &Arc<Self>, journal: Arc<Journal>) -> Watcher {
        let journal = self.journals.lock().insert(journal);
        let watches = self.watches.fetch_add(1, Ordering::Relaxed) + 1;
        let most = self.most();
        if watches > most && !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                agent = %self.agent,
                maxPolls = most,
                "more names are watched than polls may be open: watches take turns now, and changes are seen later. \
                 Raise limits.http_max_conns_per_client of the agent well above the number of names, and `maxPolls` \
                 with it"
            );
        }
        Watcher { turns: self.clone(), journal }
    }

    /// A place for a request that is answered at once.
    pub(super) async fn read(&self) -> Turn<'_> {
        self.reads.acquire().await.expect("nobody closes it")
    }

    /// How many watches there are.
    pub(super) fn watches(&self) -> usize {
        self.watches.load(Ordering::Relaxed)
    }

    /// What metrics show.
    pub(super) fn figures(&self) -> AgentFigures {
        let limit = self.most();
        let oldest = self.journals.lock().iter().map(|(_, journal)| journal.age()).max().unwrap_or_default();
        AgentFigures {
            agent: self.agent.clone(),
            watches: self.watches(),
            open: limit.saturating_sub(self.polls.available_permits()),
            limit,
            oldest,
        }
    }

    /// Logs what keeps all watches of the agent from their answers, now and then.
    pub(super) fn report_lost(&self, error: &dyn fmt::Display) {
        if let Some(left_out) = self.lost.due() {
            tracing::warn!(agent = %self.agent, left_out, "{error}; what is known stays");
        }
    }

    /// The agent answers again: whoever waits for that tries now.
    pub(super) fn came_back(&self) {
        if self.found.due().is_some() {
            tracing::info!(agent = %self.agent, "Consul answers again");
        }
        self.back.notify_waiters();
    }

    /// Ends when the agent answers again.
    pub(super) async fn back(&self) {
        self.back.notified().await;
    }

    fn most(&self) -> usize {
        self.limit.lock().unwrap_or(MOST)
    }
}

/// What is answered at once needs few places, and they count, too.
fn reads(polls: usize) -> usize {
    (polls / 5).clamp(2, 32)
}

fn resize(places: &Semaphore, before: usize, now: usize) {
    places.add_permits(now.saturating_sub(before));
    places.forget_permits(before.saturating_sub(now));
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("agent", &self.agent).field("figures", &self.figures()).finish_non_exhaustive()
    }
}

// === impl Watcher ===

impl Watcher {
    /// The places.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// A place for an open poll, in the order of asking; none if that takes too long.
    pub(super) async fn poll(&self) -> Option<Turn<'_>> {
        let turn = self.turns.polls.acquire();
        tokio::time::timeout(self.patience(), turn).await.ok().map(|turn| turn.expect("nobody closes it"))
    }

    /// How long a poll may wait now that would like to wait `wait`.
    pub(super) fn wait(&self, wait: Duration) -> Duration {
        if self.rounds() > 1.0 { wait.min(SHORT) } else { wait }
    }

    /// Somewhat more than what a turn takes to come round while all polls are short.
    fn patience(&self) -> Duration {
        SHORT.mul_f64(1.5 * self.rounds()).max(PATIENCE)
    }

    fn rounds(&self) -> f64 {
        self.turns.watches() as f64 / self.turns.most().max(1) as f64
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.turns.journals.lock().remove(self.journal);
        self.turns.watches.fetch_sub(1, Ordering::Relaxed);
    }
}
