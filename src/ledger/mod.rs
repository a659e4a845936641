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
mod roll;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

pub use book::{Book, Event, Rules};
pub use changes::{BadChanges, Changes, MOST_CHANGES};
pub use entry::{Counts, Moment, Standing};
pub use keep::{KeptFile, StateFile};
pub use key::{Asks, WatchKey};
pub use metrics::LedgerFigures;
pub use page::{advice, html, state};
pub use pull::{Peer, Puller};
pub use report::{Report, Suspect};
pub use roll::{Behind, Call, MOST_BEHIND, Reach, Said};

use self::judge::{FIRST, Place};
use self::report::Worst;
use self::roll::Roll;
use crate::runtime::Seldom;
use crate::store::Version;

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
    /// Stopped watches of which nobody was warned yet.
    untold: Mutex<Untold>,
    roll: Roll,
}

/// Whose watches have stopped since the last warning.
#[derive(Debug, Default)]
struct Untold {
    watches: usize,
    clients: BTreeSet<IpAddr>,
    first: Option<Arc<WatchKey>>,
}

/// So many routers are named in one warning.
const MOST_NAMED: usize = 20;

// === impl Ledger ===

impl Ledger {
    /// An empty ledger with `peers` other replicas.
    pub fn new(rules: Rules, peers: usize) -> Self {
        let shared = Shared {
            book: Mutex::new(Book::new(rules, peers)),
            began: Instant::now(),
            warned: Seldom::new(Duration::from_secs(60)),
            strangers: Seldom::new(Duration::from_secs(3_600)),
            untold: Mutex::default(),
            roll: Roll::new(),
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
        let (now, mut stopped) = (self.now(), Vec::new());
        self.in_pieces(|book, from| book.look(now, from, &mut stopped));
        let (left_out, strangers) = {
            let mut book = self.shared.book.lock();
            book.fade_all(now);
            (book.take_left_out(), book.has_strangers(now))
        };
        if strangers && self.shared.strangers.due().is_some() {
            tracing::warn!(
                "routers come with stamps of servers that ledger.peers does not list: none of their watches is reported \
                 as stopped while they may be asking there; list all replicas"
            );
        }
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "the watch ledger is full (ledger.maxEntries, of which one address may have an eighth): these watches are \
                 not looked after"
            );
        }
        self.warn(stopped);
    }

    /// Warns of watches that have stopped, once a minute at most, and of all their routers.
    fn warn(&self, stopped: Vec<Suspect>) {
        let mut untold = self.shared.untold.lock();
        for Suspect { client, key, .. } in stopped {
            untold.watches += 1;
            untold.clients.insert(client);
            untold.first.get_or_insert(key);
        }
        if untold.watches == 0 || self.shared.warned.due().is_none() {
            return;
        }
        let Untold { watches, clients, first } = std::mem::take(&mut *untold);
        let mut routers = clients.iter().take(MOST_NAMED).map(IpAddr::to_string).collect::<Vec<_>>().join(" ");
        if clients.len() > MOST_NAMED {
            routers.push_str(&format!(" and {} more", clients.len() - MOST_NAMED));
        }
        let first = first.map_or_else(String::new, |key| key.to_string());
        tracing::warn!(
            watches,
            routers,
            first,
            "watches have stopped: these routers keep old answers until they are restarted; /admin/watches lists them"
        );
    }

    /// Does something that takes its time with all suspects, letting others have the book now and then.
    fn in_pieces(&self, mut step: impl FnMut(&mut Book, Place) -> Option<Place>) {
        let mut from = Some(FIRST);
        while let Some(place) = from {
            let mut book = self.shared.book.lock();
            from = step(&mut book, place);
            MutexGuard::unlock_fair(book);
        }
    }

    /// How many watches there are, by how they stand.
    pub fn counts(&self) -> Counts {
        let (now, mut counts) = (self.now(), Counts::default());
        self.in_pieces(|book, from| book.count(now, from, &mut counts));
        Counts { live: counts.live + self.shared.book.lock().live, ..counts }
    }

    /// What there is to tell about suspects, at most `most` of them.
    pub fn report(&self, most: usize) -> Report {
        let (now, mut worst) = (self.now(), Worst::new(most));
        self.in_pieces(|book, from| {
            let next = book.tell_some(now, from, &mut worst);
            worst.cut();
            next
        });
        let (suspects, left_out) = worst.sorted();
        let (watches, summary) = (self.counts(), self.shared.book.lock().summary(now));
        Report { watches, suspects, left_out, ..summary }
    }

    /// What has changed since `since`, for a peer; `gone` is that of the page before, if this is not the first one.
    pub fn changes(&self, since: u64, gone: Option<u64>) -> Changes {
        let now = self.now();
        let changes = self.shared.book.lock().changes(now, since, gone);
        Changes { stamps: Some(Version::given()), ..changes }
    }

    /// What has changed since `since`, for the file; and how many entries there are.
    fn changes_after(&self, since: u64) -> (Changes, usize) {
        let now = self.now();
        let (changes, entries) = {
            let book = self.shared.book.lock();
            (book.changes_after(now, since), book.entries.len())
        };
        (Changes { stamps: Some(Version::given()), ..changes }, entries)
    }

    /// Is this peer the process itself?
    fn is_self(&self, peer: usize) -> bool {
        self.shared.book.lock().peers.get(peer).is_some_and(|peer| peer.is_self)
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
