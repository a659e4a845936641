//! The loop that keeps the addresses of one host current.

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rand::RngExt;
use tokio::sync::Semaphore;

use super::{Answer, HostAddrs, Resolve, Unresolved};
use crate::runtime::Backoff;
use crate::store::Cell;

/// The least time between two look-ups of a host.
const SOONEST: Duration = Duration::from_secs(5);

/// The most time between two look-ups of a host.
const LATEST: Duration = Duration::from_secs(60);

/// A host that is unknown is asked for again within this time: it is probably being created.
const UNKNOWN_LATEST: Duration = Duration::from_secs(10);

/// How long one look-up may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// The part of a waiting time by which hosts with the same TTL drift apart.
const JITTER: f64 = 0.1;

/// Looks one host up again and again; the only writer of its cell.
pub(super) struct Follower {
    host: String,
    addrs: Arc<Cell<HostAddrs>>,
    resolver: Arc<dyn Resolve>,
    /// Bounds the look-ups of all hosts that are under way.
    turns: Arc<Semaphore>,
    shown: Shown,
    /// For a name server that cannot be relied on.
    backoff: Backoff,
    failures: u32,
}

/// What readers see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// No answer yet, or that there is no such host.
    NoAddrs,
    /// Addresses.
    Addrs,
    /// Addresses, although the last answer was that there is no such host.
    AddrsInDoubt,
}

impl Follower {
    pub(super) fn new(
        host: &str,
        addrs: Arc<Cell<HostAddrs>>,
        resolver: Arc<dyn Resolve>,
        turns: Arc<Semaphore>,
    ) -> Self {
        Self {
            host: host.to_owned(),
            addrs,
            resolver,
            turns,
            shown: Shown::NoAddrs,
            backoff: Backoff::new(SOONEST, LATEST),
            failures: 0,
        }
    }

    /// Follows the host; only dropping ends it.
    pub(super) async fn for_ever(mut self) -> Infallible {
        loop {
            let answer = self.ask().await;
            let delay = self.take(answer);
            tokio::time::sleep(delay).await;
        }
    }

    /// Asks until there are addresses, which are published, too.
    pub(super) async fn until_found(mut self) -> Vec<IpAddr> {
        loop {
            let answer = self.ask().await;
            let found = answer.as_ref().ok().map(|answer| answer.addrs.clone());
            let delay = self.take(answer);
            if let Some(found) = found {
                return found;
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// One look-up, bounded in time. A resolver that panics must not end the loop.
    async fn ask(&self) -> Result<Answer, Unresolved> {
        let _turn = self.turns.acquire().await.expect("nobody closes it");
        let looked_up = AssertUnwindSafe(self.resolver.resolve(&self.host)).catch_unwind();
        match tokio::time::timeout(DEADLINE, looked_up).await {
            Ok(Ok(answer)) => answer.map(sorted),
            Ok(Err(_)) => Err(Unresolved::Unavailable("internal error: the look-up panicked".to_owned())),
            Err(_) => Err(Unresolved::Unavailable(format!("no answer within {} s", DEADLINE.as_secs()))),
        }
    }

    /// Publishes what was learnt; says when to ask again.
    fn take(&mut self, answer: Result<Answer, Unresolved>) -> Duration {
        if !matches!(answer, Err(Unresolved::Unavailable(_))) {
            self.failures = 0;
            self.backoff.reset();
        }
        match answer {
            Ok(Answer { addrs, ttl }) => {
                self.shown = Shown::Addrs;
                self.addrs.publish(HostAddrs::Found(addrs));
                let due = ttl.clamp(SOONEST, LATEST);
                between(due.min(LATEST.mul_f64(1.0 - JITTER)), due.mul_f64(1.0 + JITTER).min(LATEST))
            }
            Err(error @ Unresolved::NoSuchHost) if self.shown == Shown::Addrs => {
                self.shown = Shown::AddrsInDoubt;
                self.lost(&error);
                SOONEST
            }
            Err(Unresolved::NoSuchHost) => {
                self.shown = Shown::NoAddrs;
                self.addrs.publish(HostAddrs::Unknown);
                between(SOONEST, UNKNOWN_LATEST)
            }
            Err(error @ Unresolved::Unavailable(_)) => {
                self.lost(&error);
                self.failures = self.failures.saturating_add(1);
                self.backoff.next_delay()
            }
        }
    }

    /// Notes why there is no news; whatever is shown stays.
    fn lost(&self, error: &Unresolved) {
        let reason = format!("DNS look-up of {}: {error}", self.host);
        if self.failures == 0 {
            tracing::warn!(host = %self.host, %error, "DNS look-up failed; the last answer stays");
        } else {
            tracing::debug!(host = %self.host, %error, failures = self.failures, "DNS look-up failed again");
        }
        self.addrs.fail(reason);
    }
}

fn sorted(mut answer: Answer) -> Answer {
    answer.addrs.sort_unstable();
    answer.addrs.dedup();
    answer
}

/// A uniform draw, so that hosts and replicas do not move in step.
fn between(earliest: Duration, latest: Duration) -> Duration {
    rand::rng().random_range(earliest..=latest)
}
