//! Which servers there are, how they fare, and which of them a watch is to ask.
//!
//! Servers come and go as their addresses do. One that fails is avoided for a time that grows, and is on probation then
//! until it has answered: one watch finds out, all others ask others if there are any. While all are avoided, those that
//! failed before the last one are tried again sooner, the first to have failed first: it is the likeliest to be back. Of those that are well the one with the fewest watches is taken. A server
//! whose address left is asked nothing new, and those who are with it go to another one before they let go of it: after
//! a while, since it may be back, or at once if they have no answer from it or would not learn that it has vanished.

mod server;

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::grudges::Grudges;
use super::{Failure, Reason, Retry};
use crate::name::Addr;
use crate::store::{Key, Mailbox, Standing, State, Watch};

pub use server::Server;
pub(super) use server::ServerFigures;

/// At most so many servers are in use at a time, however many addresses there are. Each process has others.
const MOST_IN_USE: usize = 16;

/// Where addresses come and go in turns, as a name service that tells some of them each time has it, one that left is
/// back before this time is over. Until then it is asked nothing new, and keeps the watches that it has.
const LEFT: Duration = Duration::from_secs(60);

/// So many that left are remembered.
const MOST_LEFT: usize = 1_000;

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
    /// Those that left not long ago, the first to do so first.
    left: Vec<Arc<Server>>,
    /// Why there are none, or why those there are may be outdated.
    doubt: Option<String>,
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
    /// Whose failure that is, if it is a server's.
    pub server: Option<SocketAddr>,
}

// === impl Servers ===

impl Servers {
    /// Follows `addrs`. Must be called within a runtime.
    pub(super) fn new(addrs: Watch<Addr>, retry: Retry) -> Self {
        let set = Set { servers: Vec::new(), left: Vec::new(), doubt: None };
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
        if set.usable(now).next().is_none()
            && let Some((at, spare)) = set.first_spare(now)
            && at <= now
        {
            spare.is_wanted(now);
        }
        let best = set.usable(now).min_by_key(|server| {
            let doubted = server.is_on_probation() && (own.is_none() || server.is_probed());
            let unloved = u8::from(server.is_draining()) + u8::from(own == Some(server.address()));
            let seats = server.seats();
            (grudges.place(server.address(), now), doubted, unloved, seats, rand::rng().random::<u32>())
        });
        match best {
            Some(server) => Ok(Seat::take(server, &self.shared)),
            None => Err(set.unserved(now)),
        }
    }

    /// Whether there is a server with which nothing is wrong.
    pub(super) fn has_untried(&self, grudges: &Grudges) -> bool {
        let set = self.shared.set.lock();
        let now = Instant::now();
        set.usable(now).any(|server| !server.is_on_probation() && grudges.place(server.address(), now) == 0)
    }

    /// Why no server can be asked now, if none can.
    pub(super) fn trouble(&self) -> Option<Unserved> {
        let set = self.shared.set.lock();
        let now = Instant::now();
        let is_known = !set.servers.is_empty() || set.doubt.is_some();
        (is_known && set.usable(now).next().is_none()).then(|| set.unserved(now))
    }

    /// Whether there is a server that has not failed whoever asks in this streak.
    pub(super) fn has_others(&self, grudges: &Grudges) -> bool {
        self.shared.set.lock().servers.iter().any(|server| !grudges.are_fresh(server.address()))
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
        let next = catch_unwind(AssertUnwindSafe(|| shared.refresh())).unwrap_or_else(|_| {
            tracing::error!("internal error: addresses of servers could not be taken over; please report it");
            None
        });
        match next {
            Some(next) => drop(tokio::time::timeout_at(next, mailbox.marked()).await),
            None => mailbox.marked().await,
        }
        mailbox.take_marked(&mut marked);
    }
}

// === impl Shared ===

impl Shared {
    /// Takes over the addresses of this moment. While there are none, the last ones count: what worked a moment ago is
    /// better than nothing. Returns when one that left is not kept any longer.
    fn refresh(&self) -> Option<Instant> {
        let snapshot = self.addrs.current();
        let mut addresses = Vec::new();
        let doubt = match (&snapshot.state, &snapshot.standing) {
            (State::Ready(addr), _) => match &**addr {
                Addr::Bound(set) => {
                    let usable = set.addrs().iter().filter(|address| address.port != 0);
                    addresses.extend(usable.map(|address| SocketAddr::new(address.ip, address.port)));
                    addresses.sort_unstable();
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
        let now = Instant::now();
        set.left.retain(|server| server.left_at().is_none_or(|at| at + LEFT > now));
        let next = set.left.first().and_then(|server| server.left_at());
        drop(set);
        self.news.send_modify(|turn| *turn += 1);
        next.map(|at| at + LEFT)
    }

    fn replace(&self, set: &mut Set, addresses: &[SocketAddr]) {
        let (before, left) = (std::mem::take(&mut set.servers), std::mem::take(&mut set.left));
        let mut known: HashMap<SocketAddr, Arc<Server>> =
            left.iter().chain(&before).map(|server| (server.address(), server.clone())).collect();
        for address in addresses {
            let server = known.remove(address).unwrap_or_else(|| Arc::new(self.server(*address)));
            server.joins();
            set.servers.push(server);
        }
        set.servers.sort_by_key(|server| server.rank());
        set.left = left.into_iter().chain(before).filter(|server| known.contains_key(&server.address())).collect();
        set.left.iter().for_each(|server| server.leaves());
        let most = set.left.len().saturating_sub(MOST_LEFT);
        set.left.drain(..most);
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

    /// Who is asked first where all are avoided, and from when on. Whoever failed last has its whole time: to ask it
    /// again in haste helps nobody.
    fn first_spare(&self, now: Instant) -> Option<(Instant, &Arc<Server>)> {
        let avoided = || self.servers.iter().filter_map(|server| Some((server.avoided()?, server)));
        let last = avoided().map(|(avoided, _)| avoided.since).max()?;
        avoided()
            .map(|(avoided, server)| {
                let at = if avoided.since == last { avoided.until } else { avoided.until.min(avoided.spare_at) };
                (at, avoided.since, server)
            })
            .min_by_key(|(at, since, _)| (*at.max(&now), *since))
            .map(|(at, _, server)| (at, server))
    }

    fn unserved(&self, now: Instant) -> Unserved {
        match self.first_spare(now) {
            Some((until, server)) => {
                let failure = server.failure();
                let failure = failure.unwrap_or_else(|| Failure::new(Reason::Draining, "all servers are going"));
                Unserved { retry_at: Some(until), failure, server: Some(server.address()) }
            }
            None => {
                let why = self.doubt.as_deref().unwrap_or("there are no addresses");
                Unserved { retry_at: None, failure: Failure::new(Reason::NoAddress, why), server: None }
            }
        }
    }
}

// === impl Seat ===

impl Seat {
    fn take(server: &Arc<Server>, shared: &Arc<Shared>) -> Self {
        let probe = server.is_on_probation();
        server.take_seat(probe);
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
    /// is on this one to go, which is drawn. `lasts`: it has an answer here, and would learn if the server vanished.
    pub(super) fn should_go(&self, lasts: bool) -> bool {
        if let Some(since) = self.server.left_at() {
            return !lasts || since + LEFT <= Instant::now();
        }
        let set = self.shared.set.lock();
        let now = Instant::now();
        let usable = set.servers.iter().filter(|server| !server.is_avoided(now) && !server.is_draining());
        let seats: Vec<usize> = usable.take(MOST_IN_USE).map(|server| server.seats()).collect();
        let mine = self.server.seats() as f64;
        let share = seats.iter().sum::<usize>() as f64 / seats.len().max(1) as f64;
        // One more than its share is nothing to go for.
        mine > share + 1.0 && rand::rng().random::<f64>() < (mine - share) / mine
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.server.leave_seat(self.probe);
    }
}

#[cfg(test)]
mod tests;
