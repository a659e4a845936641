//! The loop behind every watch. It ends when its guard is dropped, and for no other reason.
//!
//! ```text
//! connecting ──► waiting for the first value ──► current ◄──► stale since T (last good value kept)
//! ```
//!
//! There is at most one attempt that counts, and at most one that is to replace it. An attempt that ends is followed by
//! another one: soon where nobody else has failed yet, after a delay that grows if all have, at once if its server
//! merely goes. An attempt that has a reason to go (its server leaves, drains, or has been silent for long) stays until
//! its successor has a good answer: a successor that fails, or says that there is no answer, changes nothing, and the
//! next one is begun elsewhere, perhaps at the server that has the watch already ([`Grudges`]).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::attempt::{Attempt, Event, panicked};
use super::grudges::Grudges;
use super::protocol::{Sink, Voice};
use super::servers::Unserved;
use super::timings::within;
use super::upstream::Shared;
use super::{Ask, End, Failure};
use crate::runtime::Backoff;

/// An attempt that ends in good order has lived for so long, or it did nothing but go.
const SOON: Duration = Duration::from_secs(1);

/// What writes the cell of a watch.
pub(super) trait Watched: Sink {
    /// An attempt failed, at `server` if it came so far: the last value stays. `alone`: nobody vouches for it any more.
    fn failed(&self, failure: &Failure, server: Option<SocketAddr>, alone: bool);
}

/// See the module.
pub(super) struct Follower {
    upstream: Arc<Shared>,
    ask: Arc<Ask>,
    watched: Arc<dyn Watched>,
    voice: Voice,
    backoff: Backoff,
    news: watch::Receiver<u64>,
    /// The attempt that counts.
    current: Option<Attempt>,
    /// The one that is to replace it; there seldom is one.
    next: Option<Box<Attempt>>,
    rest: Option<Rest>,
    grudges: Grudges,
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
            voice: Voice::new(watched.clone()),
            watched,
            backoff: Backoff::new(retry.base, retry.max),
            current: None,
            next: None,
            rest: None,
            grudges: Grudges::new(retry),
            gone: 0,
        }
    }

    /// Follows for ever: a panic is one more failure.
    /// Boxed, since a task would have room for it twice.
    pub(super) async fn run(mut self: Box<Self>) -> Infallible {
        loop {
            let Err(panic) = AssertUnwindSafe(self.turns()).catch_unwind().await;
            (self.current, self.next) = (None, None);
            self.failed(&panicked(&*panic), None);
            let delay = self.backoff.next_delay();
            self.rest_for(delay, false);
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
        // A successor that does not answer is no better than whom it is to replace.
        if let Some(next) = self.next.take_if(|next| next.late_at().is_some_and(|late| late <= now)) {
            self.ended(End::Failed(next.silence()), &next);
        }
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
        let own = self.current.as_ref().map(|current| current.server().address());
        match self.upstream.servers.pick(own, &self.grudges) {
            // Asking the same server twice does not make it faster.
            Ok(seat) if own == Some(seat.server().address()) && self.is_only_late() => self.stay(),
            Ok(seat) => {
                let Shared { protocol, timings, .. } = &*self.upstream;
                let attempt = Attempt::begin(protocol, timings, seat, &self.ask, &mut self.voice);
                match &self.current {
                    None => self.current = Some(attempt),
                    Some(_) => self.next = Some(Box::new(attempt)),
                }
            }
            Err(unserved) => self.unserved(unserved),
        }
    }

    fn is_only_late(&self) -> bool {
        self.current.as_ref().is_some_and(Attempt::is_only_late)
    }

    /// There is nobody to be asked but the server that has not answered yet.
    fn stay(&mut self) {
        let Some(current) = &mut self.current else { return };
        if current.stay() {
            let (silence, server) = (current.silence(), Some(current.server().address()));
            self.upstream.log(&self.ask, &silence, server);
            self.watched.failed(&silence, server, self.is_alone());
        }
    }

    fn unserved(&mut self, Unserved { retry_at, failure, server }: Unserved) {
        self.watched.failed(&failure, server, self.is_alone());
        self.upstream.log(&self.ask, &failure, server);
        let until = retry_at.unwrap_or_else(|| Instant::now() + self.backoff.next_delay());
        self.rest = Some(Rest { until, hopeful: true });
    }

    /// Waits for whatever comes first.
    async fn turn(&mut self) {
        let wake = self.wake_at();
        let hopeful = self.rest.is_some_and(|rest| rest.hopeful);
        let (current, next) = (&mut self.current, &mut self.next);
        tokio::select! {
            event = event(current) => self.of_current(event),
            event = rare_event(next) => self.of_next(event),
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

    fn of_current(&mut self, event: Event) {
        let Some(current) = &self.current else { return };
        let server = current.server().address();
        match event {
            Event::Answered => self.answered_by(server),
            Event::Declined(no) => self.failed(&no, Some(server)),
            Event::Moved => {}
            Event::Ended(end) => {
                let ended = self.current.take();
                self.current = self.next.take().map(|next| *next);
                if let Some(ended) = ended {
                    self.ended(end, &ended);
                }
            }
        }
    }

    fn of_next(&mut self, event: Event) {
        let alone = self.is_alone();
        let Some(next) = self.next.take() else { return };
        let server = next.server().address();
        match event {
            Event::Moved => self.next = Some(next),
            Event::Ended(end) => self.ended(end, &next),
            Event::Answered => {
                self.current = Some(*next); // and the one before is let go of
                self.rest = None;
                self.answered_by(server);
            }
            // It goes on: a later answer will come by the same way. If nobody vouches for anything it is as good as any.
            Event::Declined(no) if alone => {
                self.current = Some(*next);
                self.rest = None;
                self.failed(&no, Some(server));
            }
            Event::Declined(no) => self.ended(End::Failed(no), &next),
        }
    }

    fn answered_by(&mut self, server: SocketAddr) {
        self.backoff.reset();
        self.grudges.forgive(server);
    }

    /// An attempt ended; says when the next may begin.
    fn ended(&mut self, end: End, attempt: &Attempt) {
        let server = attempt.server().address();
        let end = match attempt.last_event() {
            Event::Answered => {
                self.answered_by(server);
                end
            }
            Event::Declined(no) => End::Failed(no), // says more than that the stream has ended
            Event::Moved | Event::Ended(_) => end,
        };
        self.grudges.bear(server);
        let failure = match end {
            End::Failed(failure) => failure,
            End::Gone(reason) if self.is_in_order(attempt) => {
                return self.upstream.metrics.ended(&self.upstream.name, reason);
            }
            // Whoever does nothing but go is as bad as one who fails.
            End::Gone(reason) => Failure::new(reason, "the server goes as soon as it is asked"),
        };
        self.failed(&failure, Some(server));
        let elsewhere = self.upstream.servers.has_others(&self.grudges);
        let delay = if elsewhere { within(self.upstream.timings.spread) } else { self.backoff.next_delay() };
        self.rest_for(delay, failure.reason.is_of_connection());
    }

    /// Whether an attempt whose server goes may be followed by another one at once.
    fn is_in_order(&mut self, attempt: &Attempt) -> bool {
        self.gone = if attempt.has_answer() && attempt.age() >= SOON { 0 } else { self.gone + 1 };
        self.gone <= 1
    }

    fn failed(&self, failure: &Failure, server: Option<SocketAddr>) {
        self.watched.failed(failure, server, self.is_alone());
        self.upstream.note(&self.ask, failure, server);
    }

    fn rest_for(&mut self, delay: Duration, hopeful: bool) {
        self.rest = Some(Rest { until: Instant::now() + delay, hopeful });
        self.news.mark_unchanged();
    }

    /// Whether nobody vouches for what is known.
    fn is_alone(&self) -> bool {
        self.current.as_ref().is_none_or(Attempt::is_doubtful)
    }
}

async fn event(attempt: &mut Option<Attempt>) -> Event {
    match attempt {
        Some(attempt) => attempt.event().await,
        None => std::future::pending().await,
    }
}

/// As [`event`], for what is seldom there and need not have room in every task.
async fn rare_event(attempt: &mut Option<Box<Attempt>>) -> Event {
    match attempt {
        Some(attempt) => Box::pin(attempt.event()).await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}
