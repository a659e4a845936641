//! Which servers there are, how they fare, and which of them a watch is to ask.
//!
//! Servers come and go as their addresses do. One that fails is avoided for a time that grows, and is on probation then
//! until it has answered: one watch finds out, all others ask others if there are any. While all are avoided, whoever
//! asks waits for the first that may be tried again. Of those that are well the one with the fewest watches is taken. A server
//! whose address left is asked no more, and those who are with it go to another one before they let go of it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rand::RngExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::grudges::Grudges;
use super::{Failure, Reason, Retry};
use crate::name::Addr;
use crate::runtime::Backoff;
use crate::store::{Key, Mailbox, Standing, State, Watch};

/// At most so many servers are in use at a time, however many addresses there are. Each process has others.
const MOST_IN_USE: usize = 16;

/// So many connections are being made to a server at a time where each watch has its own; the others wait their turn.
const TURNS: usize = 64;

/// The servers of one upstream. They follow their addresses for as long as this lives.
pub(super) struct Servers {
    shared: Arc<Shared>,
    _follower: AbortOnDropHandle<Infallible>,
}

struct Shared {
    addrs: Watch<Addr>,
    retry: Retry,
    hasher: RandomState,
    set: Mutex<Set>,
    news: watch::Sender<u64>,
}

struct Set {
    /// By rank: the first that are not avoided are in use.
    servers: Vec<Arc<Server>>,
    /// Why there are none, or why those there are may be outdated.
    doubt: Option<String>,
}

/// One server.
pub struct Server {
    address: SocketAddr,
    rank: u64,
    seats: AtomicUsize,
    /// Of these, those that were taken while it was on probation.
    probes: AtomicUsize,
    left: AtomicBool,
    turns: Arc<Semaphore>,
    health: Mutex<Health>,
    news: watch::Sender<u64>,
}

struct Health {
    backoff: Backoff,
    avoided_until: Option<Instant>,
    /// It said that it goes, and no later connection has shown otherwise.
    draining: bool,
    failure: Option<Failure>,
}

/// A watch's place at a server, which counts until it is dropped.
pub(super) struct Seat {
    server: Arc<Server>,
    probe: bool,
    shared: Arc<Shared>,
    news: watch::Receiver<u64>,
}

/// Nobody can be asked now.
#[derive(Debug)]
pub(super) struct Unserved {
    /// When somebody can; none = when addresses are known.
    pub retry_at: Option<Instant>,
    /// Why.
    pub failure: Failure,
}

/// What pages and metrics show of a server.
#[derive(Clone, Debug)]
pub(super) struct ServerFigures {
    pub address: SocketAddr,
    pub watches: usize,
    pub avoided: bool,
    pub draining: bool,
    pub failure: Option<String>,
}

// === impl Servers ===

impl Servers {
    /// Follows `addrs`. Must be called within a runtime.
    pub(super) fn new(addrs: Watch<Addr>, retry: Retry) -> Self {
        let set = Set { servers: Vec::new(), doubt: None };
        let (news, _) = watch::channel(0);
        let shared = Arc::new(Shared { addrs, retry, hasher: RandomState::new(), set: Mutex::new(set), news });
        let follower = tokio::spawn(follow(shared.clone()));
        Self { shared, _follower: AbortOnDropHandle::new(follower) }
    }

    /// A place at the server that is best to ask: one with which nothing is wrong and that is not `own`, which has the
    /// watch already; of these the one with the fewest watches. Whoever has an `own` loses nothing by finding out
    /// whether one that failed is well again, one watch at a time.
    pub(super) fn pick(&self, own: Option<SocketAddr>, grudges: &Grudges) -> Result<Seat, Unserved> {
        let set = self.shared.set.lock();
        let now = Instant::now();
        let best = set.usable(now).min_by_key(|server| {
            let doubted = server.is_on_probation() && (own.is_none() || server.is_probed());
            let unloved = u8::from(server.is_draining()) + u8::from(own == Some(server.address));
            let seats = server.seats.load(Ordering::Relaxed);
            (grudges.place(server.address, now), doubted, unloved, seats, rand::rng().random::<u32>())
        });
        match best {
            Some(server) => Ok(Seat::take(server, &self.shared)),
            None => Err(set.unserved()),
        }
    }

    /// Whether there is a server with which nothing is wrong.
    pub(super) fn has_untried(&self, grudges: &Grudges) -> bool {
        let set = self.shared.set.lock();
        let now = Instant::now();
        set.usable(now).any(|server| !server.is_on_probation() && grudges.place(server.address, now) == 0)
    }

    /// Changes whenever a server joins, leaves, or answers again.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.shared.news.subscribe()
    }

    /// All servers, and what is wrong with their addresses.
    pub(super) fn figures(&self) -> (Vec<ServerFigures>, Option<String>) {
        let set = self.shared.set.lock();
        let now = Instant::now();
        (set.servers.iter().map(|server| server.figures(now)).collect(), set.doubt.clone())
    }
}

/// Keeps the set of servers as the addresses are.
async fn follow(shared: Arc<Shared>) -> Infallible {
    let mailbox = Mailbox::new();
    let (_, _subscription) = shared.addrs.subscribe(&mailbox, Key(0));
    let mut marked = Vec::new();
    loop {
        if catch_unwind(AssertUnwindSafe(|| shared.refresh())).is_err() {
            tracing::error!("internal error: addresses of servers could not be taken over; please report it");
        }
        mailbox.marked().await;
        mailbox.take_marked(&mut marked);
    }
}

// === impl Shared ===

impl Shared {
    /// Takes over the addresses of this moment. While there are none, the last ones count: what worked a moment ago is
    /// better than nothing.
    fn refresh(&self) {
        let snapshot = self.addrs.current();
        let mut addresses = Vec::new();
        let doubt = match (&snapshot.state, &snapshot.standing) {
            (State::Ready(addr), _) => match &**addr {
                Addr::Bound(set) => {
                    let usable = set.addrs().iter().filter(|address| address.port != 0);
                    addresses.extend(usable.map(|address| SocketAddr::new(address.ip, address.port)));
                    addresses.dedup();
                    addresses.is_empty().then(|| "there are no addresses".to_owned())
                }
                Addr::Neg => Some("there is no such name".to_owned()),
                Addr::Failed(reason) => Some(reason.as_deref().unwrap_or("the addresses have failed").to_owned()),
            },
            (State::Failed(reason), _) => Some(reason.to_string()),
            (State::Pending, Standing::Suspended { reason: Some(reason), .. }) => Some(reason.to_string()),
            (State::Pending, _) => Some("the addresses are not known yet".to_owned()),
        };
        let mut set = self.set.lock();
        set.doubt = doubt;
        if !addresses.is_empty() {
            self.replace(&mut set, &addresses);
        }
        drop(set);
        self.news.send_modify(|turn| *turn += 1);
    }

    fn replace(&self, set: &mut Set, addresses: &[SocketAddr]) {
        let mut known: HashMap<SocketAddr, Arc<Server>> =
            set.servers.drain(..).map(|server| (server.address, server)).collect();
        set.servers = addresses
            .iter()
            .map(|address| known.remove(address).unwrap_or_else(|| Arc::new(self.server(*address))))
            .collect();
        set.servers.sort_by_key(|server| server.rank);
        for server in known.values() {
            server.left.store(true, Ordering::Release);
        }
    }

    fn server(&self, address: SocketAddr) -> Server {
        Server::new(address, self.hasher.hash_one(address), self.retry, self.news.clone())
    }
}

impl Set {
    /// Those that may be asked.
    fn usable(&self, now: Instant) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.iter().filter(move |server| !server.is_avoided(now)).take(MOST_IN_USE)
    }

    fn unserved(&self) -> Unserved {
        let first =
            self.servers.iter().filter_map(|server| Some((server.avoided_until()?, server))).min_by_key(|at| at.0);
        match first {
            Some((until, server)) => {
                let failure = server.health.lock().failure.clone();
                let failure = failure.unwrap_or_else(|| Failure::new(Reason::Draining, "all servers are going"));
                Unserved { retry_at: Some(until), failure }
            }
            None => {
                let why = self.doubt.as_deref().unwrap_or("there are no addresses");
                Unserved { retry_at: None, failure: Failure::new(Reason::NoAddress, why) }
            }
        }
    }
}

// === impl Server ===

impl Server {
    fn new(address: SocketAddr, rank: u64, Retry { base, max }: Retry, news: watch::Sender<u64>) -> Self {
        Self {
            address,
            rank,
            seats: AtomicUsize::new(0),
            probes: AtomicUsize::new(0),
            left: AtomicBool::new(false),
            turns: Arc::new(Semaphore::new(TURNS)),
            health: Mutex::new(Health {
                backoff: Backoff::new(base, max),
                avoided_until: None,
                draining: false,
                failure: None,
            }),
            news,
        }
    }

    /// One that belongs to no set.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        Self::new(SocketAddr::from(([192, 0, 2, 1], 4100)), 0, Retry::default(), watch::channel(0).0)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for one's turn to connect. None if there are no turns, which cannot be.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.turns.clone().acquire_owned().await.ok()
    }

    /// Why not to connect now, if something speaks against it.
    pub(super) fn refusal(&self) -> Option<Failure> {
        if self.left.load(Ordering::Acquire) {
            return Some(Failure::new(Reason::NoAddress, "the address has left the name"));
        }
        let health = self.health.lock();
        health.avoided_until.filter(|until| Instant::now() < *until).and(health.failure.clone())
    }

    /// It did not serve; it is avoided for a while. What many notice at once counts once.
    pub fn failed(&self, failure: &Failure) {
        let mut health = self.health.lock();
        let now = Instant::now();
        if health.avoided_until.is_none_or(|until| until <= now) {
            health.avoided_until = Some(now + health.backoff.next_delay());
        }
        health.failure = Some(failure.clone());
    }

    /// It said that it goes. Others are asked first; if it says so again it is avoided for a while.
    pub fn drains(&self) {
        let mut health = self.health.lock();
        if std::mem::replace(&mut health.draining, true) {
            health.avoided_until = Some(Instant::now() + health.backoff.next_delay());
        }
    }

    /// It answered, on a connection that it does not want to end.
    pub fn answered(&self) {
        let mut health = self.health.lock();
        if health.avoided_until.is_none() && !health.draining {
            return;
        }
        health.backoff.reset();
        health.avoided_until = None;
        health.draining = false;
        health.failure = None;
        drop(health);
        self.news.send_modify(|turn| *turn += 1);
    }

    fn avoided_until(&self) -> Option<Instant> {
        self.health.lock().avoided_until
    }

    fn is_avoided(&self, now: Instant) -> bool {
        self.avoided_until().is_some_and(|until| now < until)
    }

    /// It failed, and has not answered since.
    fn is_on_probation(&self) -> bool {
        self.avoided_until().is_some()
    }

    /// Somebody is finding out whether it is well again.
    fn is_probed(&self) -> bool {
        self.probes.load(Ordering::Relaxed) > 0
    }

    fn is_draining(&self) -> bool {
        self.health.lock().draining
    }

    fn figures(&self, now: Instant) -> ServerFigures {
        let health = self.health.lock();
        ServerFigures {
            address: self.address,
            watches: self.seats.load(Ordering::Relaxed),
            avoided: health.avoided_until.is_some_and(|until| now < until),
            draining: health.draining,
            failure: health.failure.as_ref().map(ToString::to_string),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}

// === impl Seat ===

impl Seat {
    fn take(server: &Arc<Server>, shared: &Arc<Shared>) -> Self {
        let probe = server.is_on_probation();
        server.seats.fetch_add(1, Ordering::Relaxed);
        server.probes.fetch_add(probe.into(), Ordering::Relaxed);
        Self { server: server.clone(), probe, shared: shared.clone(), news: shared.news.subscribe() }
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Waits until servers come or go. Cancel safe.
    pub(super) async fn news(&mut self) {
        if self.news.changed().await.is_err() {
            std::future::pending().await // cannot happen: the sender lives in `shared`
        }
    }

    /// Whether this place should be given up: the server has left, or has more than its share of the watches and it
    /// is on this one to go, which is drawn.
    pub(super) fn should_go(&self) -> bool {
        if self.server.left.load(Ordering::Acquire) {
            return true;
        }
        let set = self.shared.set.lock();
        let now = Instant::now();
        let usable = set.servers.iter().filter(|server| !server.is_avoided(now) && !server.is_draining());
        let seats: Vec<usize> = usable.take(MOST_IN_USE).map(|server| server.seats.load(Ordering::Relaxed)).collect();
        let mine = self.server.seats.load(Ordering::Relaxed) as f64;
        let share = seats.iter().sum::<usize>() as f64 / seats.len().max(1) as f64;
        // One more than its share is nothing to go for.
        mine > share + 1.0 && rand::rng().random::<f64>() < (mine - share) / mine
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.server.seats.fetch_sub(1, Ordering::Relaxed);
        self.server.probes.fetch_sub(self.probe.into(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
