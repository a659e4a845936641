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
    avoided_until: Option<Instant>,
    /// It said that it goes, and no later connection has shown otherwise.
    draining: bool,
    /// When its address left the name.
    left_at: Option<Instant>,
    failure: Option<Failure>,
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
                avoided_until: None,
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

    pub(super) fn avoided_until(&self) -> Option<Instant> {
        self.health.lock().avoided_until
    }

    pub(super) fn is_avoided(&self, now: Instant) -> bool {
        self.avoided_until().is_some_and(|until| now < until)
    }

    /// It failed, and has not answered since.
    pub(super) fn is_on_probation(&self) -> bool {
        self.avoided_until().is_some()
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
