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
/// so that each is asked in its turn, whatever any of them does.
#[derive(Debug)]
pub(super) struct Grudges {
    held: Vec<(SocketAddr, Instant)>,
    /// Long enough for a turn of all the others to come before.
    last: Duration,
}

// === impl Grudges ===

impl Grudges {
    pub(super) fn new(retry: Retry) -> Self {
        Self { held: Vec::new(), last: LEAST.max(retry.max * 3) }
    }

    /// It failed.
    pub(super) fn bear(&mut self, server: SocketAddr) {
        self.forgive(server);
        if self.held.len() == MOST {
            self.held.remove(0);
        }
        self.held.push((server, Instant::now()));
    }

    /// It answered.
    pub(super) fn forgive(&mut self, server: SocketAddr) {
        self.held.retain(|(held, _)| *held != server);
    }

    /// How late its turn comes; 0 = nothing is held against it.
    pub(super) fn place(&self, server: SocketAddr, now: Instant) -> usize {
        let held = |(address, since): &(SocketAddr, Instant)| *address == server && *since + self.last > now;
        self.held.iter().position(held).map_or(0, |place| place + 1)
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
}
