//! One server: how it fares, and who is with it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::client::{Failure, Reason, Retry};
use crate::runtime::Backoff;

/// So many connections are being made to a server at a time where each watch has its own; the others wait their turn.
const TURNS: usize = 64;

/// Where nobody else is left, a server is avoided for one part in so many of its time.
const HASTE: u32 = 4;

/// One server.
pub struct Server {
    address: SocketAddr,
    rank: u64,
    seats: AtomicUsize,
    /// Of these, those that were taken while it was on probation.
    probes: AtomicUsize,
    turns: Arc<Semaphore>,
    health: Mutex<Health>,
    news: watch::Sender<u64>,
}

struct Health {
    backoff: Backoff,
    avoided: Option<Avoided>,
    /// It said that it goes, and no later connection has shown otherwise.
    draining: bool,
    /// When its address left the name.
    left_at: Option<Instant>,
    failure: Option<Failure>,
}

/// It did not serve, and has not answered since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avoided {
    pub(super) since: Instant,
    /// Then it may be asked again.
    pub(super) until: Instant,
    /// Then it may be asked if nobody else is left.
    pub(super) spare_at: Instant,
}

/// What pages and metrics show of a server.
#[derive(Clone, Debug)]
pub(in crate::client) struct ServerFigures {
    pub address: SocketAddr,
    pub watches: usize,
    pub avoided: bool,
    pub draining: bool,
    pub failure: Option<String>,
}

// === impl Server ===

impl Server {
    pub(super) fn new(address: SocketAddr, rank: u64, Retry { base, max }: Retry, news: watch::Sender<u64>) -> Self {
        Self {
            address,
            rank,
            seats: AtomicUsize::new(0),
            probes: AtomicUsize::new(0),
            turns: Arc::new(Semaphore::new(TURNS)),
            health: Mutex::new(Health {
                backoff: Backoff::new(base, max),
                avoided: None,
                draining: false,
                left_at: None,
                failure: None,
            }),
            news,
        }
    }

    /// One that belongs to no set.
    #[cfg(test)]
    pub(in crate::client) fn alone() -> Self {
        Self::new(SocketAddr::from(([192, 0, 2, 1], 4100)), 0, Retry::default(), watch::channel(0).0)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn rank(&self) -> u64 {
        self.rank
    }

    /// How many watches are with it.
    pub(super) fn seats(&self) -> usize {
        self.seats.load(Ordering::Relaxed)
    }

    pub(super) fn take_seat(&self, probe: bool) {
        self.seats.fetch_add(1, Ordering::Relaxed);
        self.probes.fetch_add(probe.into(), Ordering::Relaxed);
    }

    pub(super) fn leave_seat(&self, probe: bool) {
        self.seats.fetch_sub(1, Ordering::Relaxed);
        self.probes.fetch_sub(probe.into(), Ordering::Relaxed);
    }

    /// Its address is one of the name.
    pub(super) fn joins(&self) {
        self.health.lock().left_at = None;
    }

    /// Its address is none of the name any more.
    pub(super) fn leaves(&self) {
        self.health.lock().left_at.get_or_insert_with(Instant::now);
    }

    pub(super) fn left_at(&self) -> Option<Instant> {
        self.health.lock().left_at
    }

    /// What went wrong last, unless it has answered since.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.health.lock().failure.clone()
    }

    /// Waits for one's turn to connect. None if there are no turns, which cannot be.
    pub(in crate::client) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.turns.clone().acquire_owned().await.ok()
    }

    /// Why not to connect now, if something speaks against it.
    pub(in crate::client) fn refusal(&self) -> Option<Failure> {
        let health = self.health.lock();
        if health.left_at.is_some() {
            return Some(Failure::new(Reason::NoAddress, "the address has left the name"));
        }
        health.avoided.filter(|avoided| Instant::now() < avoided.until).and(health.failure.clone())
    }

    /// It did not serve; it is avoided for a while. What many notice at once counts once.
    pub fn failed(&self, failure: &Failure) {
        let mut health = self.health.lock();
        let now = Instant::now();
        if health.avoided.is_none_or(|avoided| avoided.until <= now) {
            health.avoid();
        }
        health.failure = Some(failure.clone());
    }

    /// It said that it goes. Others are asked first; if it says so again it is avoided for a while.
    pub fn drains(&self) {
        let mut health = self.health.lock();
        if std::mem::replace(&mut health.draining, true) {
            health.avoid();
        }
    }

    /// It answered, on a connection that it does not want to end.
    pub fn answered(&self) {
        let mut health = self.health.lock();
        if health.avoided.is_none() && !health.draining {
            return;
        }
        health.backoff.reset();
        health.avoided = None;
        health.draining = false;
        health.failure = None;
        drop(health);
        self.news.send_modify(|turn| *turn += 1);
    }

    pub(super) fn avoided(&self) -> Option<Avoided> {
        self.health.lock().avoided
    }

    pub(super) fn is_avoided(&self, now: Instant) -> bool {
        self.avoided().is_some_and(|avoided| now < avoided.until)
    }

    /// Its time is cut short: nobody else is left.
    pub(super) fn is_wanted(&self, now: Instant) {
        if let Some(avoided) = &mut self.health.lock().avoided {
            avoided.until = avoided.until.min(now);
        }
    }

    /// It failed, and has not answered since.
    pub(super) fn is_on_probation(&self) -> bool {
        self.avoided().is_some()
    }

    /// Somebody is finding out whether it is well again.
    pub(super) fn is_probed(&self) -> bool {
        self.probes.load(Ordering::Relaxed) > 0
    }

    pub(super) fn is_draining(&self) -> bool {
        self.health.lock().draining
    }

    pub(super) fn figures(&self, now: Instant) -> ServerFigures {
        let health = self.health.lock();
        ServerFigures {
            address: self.address,
            watches: self.seats.load(Ordering::Relaxed),
            avoided: health.avoided.is_some_and(|avoided| now < avoided.until),
            draining: health.draining,
            failure: health.failure.as_ref().map(ToString::to_string),
        }
    }
}

// === impl Health ===

impl Health {
    fn avoid(&mut self) {
        let (since, delay) = (Instant::now(), self.backoff.next_delay());
        self.avoided = Some(Avoided { since, until: since + delay, spare_at: since + delay / HASTE });
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}
