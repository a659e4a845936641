//! Whom a watch would rather not ask again.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::Retry;

/// More are not remembered: no more servers than this are in use at a time.
const MOST: usize = 16;

/// A server's failure counts against it for this time at least.
const LEAST: Duration = Duration::from_secs(30);

/// The servers that have failed whoever asks, the first to do so first. They are asked after all others, in this order:
/// so that each is asked in its turn, whatever any of them does. Those that have failed since somebody answered last are
/// the streak: until it has all servers in it, the next one is asked soon.
#[derive(Debug)]
pub(super) struct Grudges {
    held: Vec<Grudge>,
    /// Long enough for a turn of all the others to come before.
    last: Duration,
}

#[derive(Debug)]
struct Grudge {
    server: SocketAddr,
    since: Instant,
    /// Nobody has answered since.
    fresh: bool,
}

// === impl Grudges ===

impl Grudges {
    pub(super) fn new(retry: Retry) -> Self {
        Self { held: Vec::new(), last: LEAST.max(retry.max * 3) }
    }

    /// It failed.
    pub(super) fn bear(&mut self, server: SocketAddr) {
        self.held.retain(|held| held.server != server);
        if self.held.len() == MOST {
            self.held.remove(0);
        }
        self.held.push(Grudge { server, since: Instant::now(), fresh: true });
    }

    /// It answered: the streak of failures is over.
    pub(super) fn forgive(&mut self, server: SocketAddr) {
        self.held.retain(|held| held.server != server);
        self.held.iter_mut().for_each(|held| held.fresh = false);
    }

    /// How late its turn comes; 0 = nothing is held against it.
    pub(super) fn place(&self, server: SocketAddr, now: Instant) -> usize {
        let held = |held: &Grudge| held.server == server && held.since + self.last > now;
        self.held.iter().position(held).map_or(0, |place| place + 1)
    }

    /// Whether it has failed in this streak.
    pub(super) fn are_fresh(&self, server: SocketAddr) -> bool {
        self.held.iter().any(|held| held.server == server && held.fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[tokio::test(start_paused = true)]
    async fn who_failed_first_is_asked_first_and_after_a_while_nothing_is_held_against_anybody() {
        let mut grudges = Grudges::new(Retry::default());
        let places = |grudges: &Grudges| [1, 2, 3].map(|port| grudges.place(at(port), Instant::now()));
        grudges.bear(at(1));
        tokio::time::advance(LEAST / 2).await;
        grudges.bear(at(2));
        assert_eq!(places(&grudges), [1, 2, 0]);
        grudges.bear(at(1));
        assert_eq!(places(&grudges), [2, 1, 0]);
        grudges.forgive(at(2));
        assert_eq!(places(&grudges), [1, 0, 0]);
        tokio::time::advance(LEAST).await;
        assert_eq!(places(&grudges), [0, 0, 0]);
        (1..100).for_each(|port| grudges.bear(at(port)));
        assert_eq!(grudges.held.len(), MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_of_anybody_ends_a_streak_and_not_the_order() {
        let mut grudges = Grudges::new(Retry::default());
        let fresh = |grudges: &Grudges| [1, 2, 3].map(|port| grudges.are_fresh(at(port)));
        [1, 2].into_iter().for_each(|port| grudges.bear(at(port)));
        assert_eq!(fresh(&grudges), [true, true, false]);
        grudges.forgive(at(3));
        assert_eq!(fresh(&grudges), [false, false, false]);
        assert_eq!([1, 2].map(|port| grudges.place(at(port), Instant::now())), [1, 2]);
        grudges.bear(at(1));
        assert_eq!(fresh(&grudges), [true, false, false]);
    }
}
