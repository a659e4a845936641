//! The watch ledger: which watches of which routers have stopped.
//!
//! A Linkerd 1 router follows each name with a loop of long polls, and such a loop can end without a word: nothing is
//! logged, nothing fails, the router only never asks again (linkerd#2411). A server cannot revive it, but it can see that
//! it is missing, and name the router that has to be restarted. `docs/linkerd-2411.md` tells the whole story.
//!
//! * A client is a peer's IP: ports change with every connection. The ledger counts *claims* per client and key, one for
//!   each session on which a loop has shown itself; several routers may share an IP.
//! * A claim is *live* while its poll waits. It is a *suspect* when the poll was answered, the session is still open and
//!   the key is not asked again; or when the poll was cut, because the session died or we ended it.
//! * A suspect is cleared by whatever explains it: the key is asked again, here or at a peer; the watch is given up; the
//!   client closes the session. What stays unexplained for long enough is *stopped*. While some peer cannot be asked,
//!   nothing is: it is *unknown*.
//!
//! Sessions tell the ledger what changes ([`Event`]), in batches; that a poll is answered and comes again is no change, so
//! that what happens a hundred thousand times a second costs nothing here. [`Book`] is the whole state, plain and without
//! a clock; [`Ledger`] is the handle that everybody shares.

mod book;
mod changes;
mod entry;
mod judge;
mod keep;
mod key;
mod metrics;
mod mirror;
mod page;
mod pull;
mod report;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

pub use book::{Book, Event, Rules};
pub use changes::{BadChanges, Changes, MOST_CHANGES};
pub use entry::{Counts, Moment, Standing};
pub use keep::{KeptFile, StateFile};
pub use key::{Asks, WatchKey};
pub use metrics::LedgerFigures;
pub use page::{advice, html};
pub use pull::{Peer, Puller};
pub use report::{Report, Suspect};

use crate::runtime::Seldom;

/// How often suspects are looked at, peers asked and stopped watches reported.
const TURN: Duration = Duration::from_secs(5);

/// The ledger of this process. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Ledger {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    book: Mutex<Book>,
    began: Instant,
    warned: Seldom,
    strangers: Seldom,
}

// === impl Ledger ===

impl Ledger {
    /// An empty ledger with `peers` other replicas.
    pub fn new(rules: Rules, peers: usize) -> Self {
        let shared = Shared {
            book: Mutex::new(Book::new(rules, peers)),
            began: Instant::now(),
            warned: Seldom::new(Duration::from_secs(60)),
            strangers: Seldom::new(Duration::from_secs(3_600)),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The present.
    pub fn now(&self) -> Moment {
        Moment::START.after(self.shared.began.elapsed())
    }

    /// Takes what a session of `client` has to tell; `events` is empty afterwards.
    pub fn tell(&self, client: IpAddr, events: &mut Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let now = self.now();
        let mut book = self.shared.book.lock();
        for event in events.drain(..) {
            book.apply(now, client, event);
        }
    }

    /// Looks at the suspects, and warns of watches that have stopped.
    pub fn turn(&self) {
        let now = self.now();
        let (stopped, left_out, strangers) = {
            let mut book = self.shared.book.lock();
            (book.turn(now), book.take_left_out(), book.has_strangers(now))
        };
        if strangers && self.shared.strangers.due().is_some() {
            tracing::warn!(
                "routers come with stamps of servers that ledger.peers does not list: no watch is reported as stopped \
                 while they may be asking there; list all replicas"
            );
        }
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "the watch ledger is full (ledger.maxEntries): these watches are not looked after"
            );
        }
        let Some(first) = stopped.first() else { return };
        let Suspect { client, key, .. } = first;
        let message = "watches have stopped: their routers keep old answers until they are restarted; /admin/watches \
                       lists them";
        match self.shared.warned.due() {
            Some(_) => tracing::warn!(watches = stopped.len(), %client, first = %key, "{message}"),
            None => tracing::debug!(watches = stopped.len(), %client, first = %key, "{message}"),
        }
    }

    /// How many watches there are, by how they stand.
    pub fn counts(&self) -> Counts {
        let now = self.now();
        self.shared.book.lock().counts(now)
    }

    /// What there is to tell about suspects, at most `most` of them.
    pub fn report(&self, most: usize) -> Report {
        let now = self.now();
        self.shared.book.lock().report(now, most)
    }

    /// What has changed since `since`, for a peer; `gone` is that of the page before, if this is not the first one.
    pub fn changes(&self, since: u64, gone: Option<u64>) -> Changes {
        let now = self.now();
        self.shared.book.lock().changes(now, since, gone)
    }

    /// What has changed since `since`, for the file; and how many watches are live.
    fn changes_after(&self, since: u64) -> (Changes, usize) {
        let now = self.now();
        let book = self.shared.book.lock();
        (book.changes_after(now, since), book.live)
    }

    /// Takes what a peer has told. The sequence number to ask from next, if there is more to ask for now.
    ///
    /// # Errors
    /// The answer makes no sense.
    pub fn merge(&self, peer: usize, changes: &Changes) -> Result<Option<u64>, BadChanges> {
        let now = self.now();
        self.shared.book.lock().merge(now, peer, changes)
    }

    /// The sequence number from which a peer is to be asked.
    pub fn asked_until(&self, peer: usize) -> u64 {
        self.shared.book.lock().asked_until(peer)
    }

    /// Takes up what an earlier process told so long `ago`, and was last alive so long ago.
    fn take_up(&self, (ago, alive): (Duration, Duration), changes: &Changes) -> Result<(), BadChanges> {
        let now = self.now();
        self.shared.book.lock().take_up(now, (now.before(ago), now.before(alive)), changes)
    }

    /// Looks after the ledger until it is dropped: judges, and reports.
    pub async fn run(self) {
        let mut turns = tokio::time::interval(TURN);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            self.turn();
        }
    }
}
