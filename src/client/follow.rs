//! The loop behind every watch. It ends when its guard is dropped, and for no other reason.
//!
//! ```text
//! connecting ──► waiting for the first value ──► current ◄──► stale since T (last good value kept)
//! ```
//!
//! There is at most one attempt that counts, and at most one that is to replace it. An attempt that ends is followed by
//! another one: after a delay that grows if something went wrong, at once if its server merely goes. An attempt that
//! has a reason to go (its server leaves, drains, or has been silent for long) stays until its successor has an answer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::attempt::{Attempt, panicked};
use super::protocol::Sink;
use super::servers::Unserved;
use super::timings::within;
use super::upstream::Shared;
use super::{Ask, End, Failure, Reason};
use crate::runtime::Backoff;

/// What writes the cell of a watch.
pub(super) trait Watched: Sink {
    /// An attempt failed: the last value stays. `alone`: nobody vouches for it any more.
    fn failed(&self, failure: &Failure, alone: bool);
}

/// See the module.
pub(super) struct Follower {
    upstream: Arc<Shared>,
    ask: Arc<Ask>,
    watched: Arc<dyn Watched>,
    sink: Arc<dyn Sink>,
    backoff: Backoff,
    news: watch::Receiver<u64>,
    /// The attempt that counts.
    current: Option<Attempt>,
    /// The one that is to replace it.
    next: Option<Attempt>,
    rest: Option<Rest>,
    /// Whom not to ask if there is a choice.
    shun: Option<SocketAddr>,
    /// How many ends in good order came soon after their beginnings.
    gone: u32,
}

/// No attempt begins before its end.
#[derive(Clone, Copy)]
struct Rest {
    until: Instant,
    /// Whether a sign of life of any server cuts it short.
    hopeful: bool,
}

impl Follower {
    pub(super) fn new<W: Watched + 'static>(upstream: Arc<Shared>, ask: Ask, watched: Arc<W>) -> Self {
        let retry = upstream.timings.retry;
        Self {
            news: upstream.servers.news(),
            upstream,
            ask: Arc::new(ask),
            sink: watched.clone(),
            watched,
            backoff: Backoff::new(retry.base, retry.max),
            current: None,
            next: None,
            rest: None,
            shun: None,
            gone: 0,
        }
    }

    /// Follows for ever: a panic is one more failure.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            let Err(panic) = AssertUnwindSafe(self.turns()).catch_unwind().await;
            (self.current, self.next) = (None, None);
            self.ended(panicked(&*panic), None);
        }
    }

    async fn turns(&mut self) -> Infallible {
        loop {
            self.begin_if_due();
            self.turn().await;
        }
    }

    /// Begins an attempt if one is needed and may begin.
    fn begin_if_due(&mut self) {
        let now = Instant::now();
        self.give_up_silent_successor(now);
        if self.rest.is_some_and(|rest| rest.until > now) {
            return;
        }
        self.rest = None;
        let wanted = match &self.current {
            None => true,
            Some(current) => self.next.is_none() && current.leave_at() <= now,
        };
        if !wanted {
            return;
        }
        let upstream = &self.upstream;
        if let Some(current) = &mut self.current {
            if current.is_only_late() && !upstream.servers.has_other_than(current.server()) {
                return current.stay(); // asking the same server twice does not make it faster
            }
            self.shun = Some(current.server().address());
        }
        match upstream.servers.pick(self.shun) {
            Ok(seat) => {
                let attempt = Attempt::begin(&upstream.protocol, &upstream.timings, seat, &self.ask, self.sink.clone());
                let place = if self.current.is_none() { &mut self.current } else { &mut self.next };
                *place = Some(attempt);
            }
            Err(unserved) => self.unserved(unserved),
        }
    }

    /// A successor that does not answer is no better than whom it is to replace.
    fn give_up_silent_successor(&mut self, now: Instant) {
        if let Some(next) = self.next.take_if(|next| next.late_at().is_some_and(|late| late <= now)) {
            self.shun = Some(next.server().address());
            self.upstream.metrics.ended(&self.upstream.name, Reason::Silent);
            if let Some(current) = &mut self.current {
                current.stay();
            }
        }
    }

    fn unserved(&mut self, Unserved { retry_at, failure }: Unserved) {
        self.watched.failed(&failure, self.is_alone());
        self.upstream.note(&self.ask, &failure, None);
        let until = retry_at.unwrap_or_else(|| Instant::now() + self.backoff.next_delay());
        self.rest = Some(Rest { until, hopeful: true });
    }

    /// Waits for whatever comes first.
    async fn turn(&mut self) {
        let wake = self.wake_at();
        let hopeful = self.rest.is_some_and(|rest| rest.hopeful);
        let (current, next) = (&mut self.current, &mut self.next);
        tokio::select! {
            end = end_or_change(current) => match end {
                Some(end) => {
                    let ended = self.current.take();
                    self.current = self.next.take();
                    self.ended(end, ended);
                }
                None => self.heard(),
            },
            end = end_or_change(next) => match end {
                Some(end) => {
                    let ended = self.next.take();
                    self.ended(end, ended);
                }
                None => {
                    if self.next.as_ref().is_some_and(Attempt::answered) {
                        self.current = self.next.take(); // and the one before is let go of
                        self.rest = None;
                        self.heard();
                    }
                }
            },
            changed = self.news.changed(), if hopeful => {
                if let (Ok(()), Some(rest)) = (changed, &mut self.rest) {
                    rest.hopeful = false;
                    rest.until = rest.until.min(Instant::now() + within(self.upstream.timings.spread));
                }
            }
            () = sleep_until(wake) => {}
        }
    }

    /// When something is due even if nothing happens.
    fn wake_at(&self) -> Option<Instant> {
        let due = match (&self.current, &self.next) {
            (None, _) => None,
            (Some(current), None) => Some(current.leave_at()),
            (Some(_), Some(next)) => return next.late_at(),
        };
        match (due, self.rest) {
            (Some(due), Some(rest)) => Some(due.max(rest.until)),
            (due, rest) => due.or(rest.map(|rest| rest.until)),
        }
    }

    /// The attempt that counts has said something.
    fn heard(&mut self) {
        if self.current.as_ref().is_some_and(Attempt::answered) {
            self.backoff.reset();
            self.shun = None;
        }
    }

    /// An attempt ended; says when the next may begin.
    fn ended(&mut self, end: End, attempt: Option<Attempt>) {
        if attempt.as_ref().is_some_and(Attempt::answered) {
            self.backoff.reset();
        }
        let server = attempt.as_ref().map(|attempt| attempt.server().address());
        self.shun = server.or(self.shun);
        match end {
            End::Gone(reason) => {
                self.upstream.metrics.ended(&self.upstream.name, reason);
                let soon = attempt.is_some_and(|attempt| attempt.age() < self.upstream.timings.retry.base);
                self.gone = if soon { self.gone + 1 } else { 0 };
                // Whoever does nothing but go is as bad as one who fails.
                if self.gone > 1 {
                    self.rest_after_failure(true);
                }
            }
            End::Failed(failure) => {
                self.watched.failed(&failure, self.is_alone());
                self.upstream.note(&self.ask, &failure, server);
                self.rest_after_failure(failure.reason.is_of_connection());
            }
        }
    }

    fn rest_after_failure(&mut self, hopeful: bool) {
        self.rest = Some(Rest { until: Instant::now() + self.backoff.next_delay(), hopeful });
        self.news.mark_unchanged();
    }

    /// Whether nobody vouches for what is known.
    fn is_alone(&self) -> bool {
        self.current.as_ref().is_none_or(Attempt::is_doubtful)
    }
}

async fn end_or_change(attempt: &mut Option<Attempt>) -> Option<End> {
    match attempt {
        Some(attempt) => attempt.end_or_change().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}
