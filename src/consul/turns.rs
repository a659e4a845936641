//! Turns: how all watches of one agent share the few connections that it grants.
//!
//! A stock agent refuses a client's 201st connection, and an open poll needs one. So at most `maxPolls` polls are open
//! at once, and a few requests that are answered at once besides. While there are more watches than polls, they take
//! turns: those of dtabs first, then those of names, then those of what does not exist. As many polls are short as it takes
//! for the others to have turns, and a watch whose turn is long in coming reads once without waiting.
//!
//! Requests that are answered at once may not be, and then hold their places for long. Those of a datacenter that does not
//! answer leave places for the others (`Sharing::Fairly`), and who reads or writes once has places of his own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::places::{Place, Places, Sharing};
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
    polls: Arc<Places<Rank>>,
    /// Requests of watches that are answered at once, by datacenter.
    reads: Arc<Places<Box<str>>>,
    /// Requests of those who read or write once.
    singles: Semaphore,
    limit: Mutex<Option<usize>>,
    /// By rank.
    watches: [AtomicUsize; 3],
    /// Open polls that wait as long as they like.
    long: AtomicUsize,
    journals: Mutex<Slab<Arc<Journal>>>,
    told: AtomicBool,
    back: Notify,
    lost: Seldom,
    found: Seldom,
    blind: AtomicBool,
}

/// Whose turn comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A dtab, or the list of them: there are few, and all names depend on them.
    Dtab,
    /// A name.
    Name,
    /// What does not exist, of which clients may make up as many as they like.
    Nothing,
}

/// A watch, which counts for as long as it lives.
pub(super) struct Watcher {
    turns: Arc<Turns>,
    journal: usize,
    rank: Rank,
}

/// A place for a poll, until it is dropped.
pub(super) struct Turn<'a> {
    /// How long the poll may wait.
    pub(super) wait: Duration,
    long: Option<&'a AtomicUsize>,
    _place: Place<Rank>,
}

// === impl Rank ===

impl Rank {
    const ALL: [Self; 3] = [Self::Dtab, Self::Name, Self::Nothing];
}

// === impl Turns ===

impl Turns {
    /// The places of the agent that messages call `agent`.
    pub(super) fn new(agent: String) -> Arc<Self> {
        Arc::new(Self {
            agent,
            polls: Places::new(Sharing::InOrder, MOST),
            reads: Places::new(Sharing::Fairly, reads(MOST)),
            singles: Semaphore::new(singles(MOST)),
            limit: Mutex::new(None),
            watches: Default::default(),
            long: AtomicUsize::new(0),
            journals: Mutex::default(),
            told: AtomicBool::new(false),
            back: Notify::new(),
            lost: Seldom::new(LOG_EVERY),
            found: Seldom::new(LOG_EVERY),
            blind: AtomicBool::new(false),
        })
    }

    /// Of several limits that are set for one agent the lowest counts. To be called before the first poll.
    pub(super) fn limit(&self, most: Option<usize>) {
        let Some(most) = most else { return };
        let mut limit = self.limit.lock();
        let (before, now) = (limit.unwrap_or(MOST), limit.map_or(most, |limit| limit.min(most)));
        self.polls.resize(before, now);
        self.reads.resize(reads(before), reads(now));
        self.singles.add_permits(singles(now).saturating_sub(singles(before)));
        self.singles.forget_permits(singles(before).saturating_sub(singles(now)));
        *limit = Some(now);
    }

    /// One more watch.
    pub(super) fn watcher(self: &Arc<Self>, journal: Arc<Journal>) -> Watcher {
        let journal = self.journals.lock().insert(journal);
        let rank = Rank::Name;
        self.watches[rank as usize].fetch_add(1, Ordering::Relaxed);
        let most = self.most();
        if self.watches() > most && !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                agent = %self.agent,
                maxPolls = most,
                "more names are watched than polls may be open: watches take turns now, and changes are seen later. \
                 Raise limits.http_max_conns_per_client of the agent well above the number of names, and `maxPolls` \
                 with it"
            );
        }
        Watcher { turns: self.clone(), journal, rank }
    }

    /// A place for a request of a watch that is answered at once, about this datacenter.
    pub(super) async fn read(&self, datacenter: &str) -> Place<Box<str>> {
        self.reads.take(datacenter.into()).await
    }

    /// A place for who reads or writes once.
    pub(super) async fn single(&self) -> SemaphorePermit<'_> {
        self.singles.acquire().await.expect("nobody closes it")
    }

    /// How many watches there are.
    pub(super) fn watches(&self) -> usize {
        self.watches_to(Rank::Nothing)
    }

    /// How many there are of this rank and those before it.
    fn watches_to(&self, rank: Rank) -> usize {
        let ranks = Rank::ALL.into_iter().filter(|one| *one <= rank);
        ranks.map(|rank| self.watches[rank as usize].load(Ordering::Relaxed)).sum()
    }

    /// What metrics show.
    pub(super) fn figures(&self) -> AgentFigures {
        let limit = self.most();
        let oldest = self.journals.lock().iter().map(|(_, journal)| journal.age()).max().unwrap_or_default();
        AgentFigures { agent: self.agent.clone(), watches: self.watches(), open: self.polls.held(), limit, oldest }
    }

    /// Logs what keeps all watches of the agent from their answers, now and then.
    pub(super) fn report_lost(&self, error: &dyn fmt::Display) {
        if let Some(left_out) = self.lost.due() {
            tracing::warn!(agent = %self.agent, left_out, "{error}; what is known stays");
        }
    }

    /// Logs once what keeps empty answers from being sure.
    pub(super) fn report_blind(&self, why: &str) {
        if !self.blind.swap(true, Ordering::Relaxed) {
            tracing::warn!(agent = %self.agent, "{why}");
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
    (polls / 7).clamp(2, 22)
}

fn singles(polls: usize) -> usize {
    (polls / 15).clamp(2, 10)
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

    /// From now on the watch has this rank.
    pub(super) fn rank(&mut self, rank: Rank) {
        if rank != self.rank {
            self.turns.watches[self.rank as usize].fetch_sub(1, Ordering::Relaxed);
            self.turns.watches[rank as usize].fetch_add(1, Ordering::Relaxed);
            self.rank = rank;
        }
    }

    /// A place for a poll that would like to wait `wait`; none if that takes too long.
    pub(super) async fn poll(&self, wait: Duration) -> Option<Turn<'_>> {
        let place = tokio::time::timeout(self.patience(), self.turns.polls.take(self.rank)).await.ok()?;
        let long = self.may_be_long().then_some(&self.turns.long);
        let wait = if long.is_some() { wait } else { wait.min(SHORT) };
        Some(Turn { wait, long, _place: place })
    }

    /// May one more poll wait as long as it likes? As many are short as there are watches without a place, so that these
    /// have turns within two seconds, or, where they are too many for that, all are. If so, it counts.
    fn may_be_long(&self) -> bool {
        let (watches, most) = (self.turns.watches_to(self.rank), self.turns.most());
        let without = watches.saturating_sub(most);
        let more = |long| (without == 0 || long + without < most).then_some(long + 1);
        self.turns.long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Somewhat more than what a turn takes to come round while all polls are short.
    fn patience(&self) -> Duration {
        let rounds = self.turns.watches_to(self.rank) as f64 / self.turns.most().max(1) as f64;
        SHORT.mul_f64(1.5 * rounds).max(PATIENCE)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.turns.journals.lock().remove(self.journal);
        self.turns.watches[self.rank as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Turn ===

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(long) = self.long {
            long.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
