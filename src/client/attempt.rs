//! One attempt to follow something at one server.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::protocol::{Signs, Voice, Word};
use super::servers::{Seat, Server};
use super::timings::{about, at_least, within};
use super::{Ages, Ask, End, Failure, Protocol, Reason, Timings};

/// An attempt that is under way.
pub(super) struct Attempt {
    end: BoxFuture<'static, End>,
    seat: Seat,
    signs: Arc<Signs>,
    began: Instant,
    first_answer: Duration,
    /// What a fresh question may take until its silence tells something.
    grace: Duration,
    quiet: Option<Duration>,
    /// When it is old, even if all is well.
    old_at: Instant,
    /// Its server goes: when to go.
    go_at: Option<Instant>,
    /// Nobody else can be asked before.
    stay_until: Instant,
    spread: Duration,
}

/// What happens to an attempt.
pub(super) enum Event {
    /// It has ended.
    Ended(End),
    /// There was a good answer.
    Answered,
    /// The server said that there is no answer, and goes on.
    Declined(Failure),
    /// It may have another reason to leave.
    Moved,
}

impl Attempt {
    pub(super) fn begin(
        protocol: &Arc<dyn Protocol>,
        timings: &Timings,
        seat: Seat,
        ask: &Arc<Ask>,
        voice: &mut Voice,
    ) -> Self {
        let (protocol, ask, server) = (protocol.clone(), ask.clone(), seat.server().clone());
        let Ages { quiet, whole } = protocol.ages(timings);
        let (news, signs) = voice.news(server.clone());
        // A defect in reading what servers send must not end the watch.
        let end = AssertUnwindSafe(async move { protocol.follow(&server, &ask, &news).await }).catch_unwind();
        let end = end.map(|end| end.unwrap_or_else(|panic| panicked(&*panic).into()));
        let began = Instant::now();
        Self {
            end: Box::pin(end),
            seat,
            signs,
            began,
            first_answer: about(timings.first_answer),
            grace: at_least(timings.first_answer),
            quiet: quiet.map(about),
            old_at: began + about(whole),
            go_at: None,
            stay_until: began,
            spread: timings.spread,
        }
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        self.seat.server()
    }

    /// Whether the last word was a good answer.
    pub(super) fn has_answer(&self) -> bool {
        self.signs.word() == Word::Answer
    }

    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// When its first answer is late.
    pub(super) fn late_at(&self) -> Option<Instant> {
        (self.signs.word() == Word::None).then(|| self.began + self.first_answer)
    }

    /// That it has not answered.
    pub(super) fn silence(&self) -> Failure {
        Failure::new(Reason::Silent, format!("no answer for {} s", self.age().as_secs()))
    }

    /// Until when its silence tells nothing.
    fn reliable_until(&self) -> Instant {
        self.quiet.map_or(self.old_at, |quiet| self.signs.heard() + quiet)
    }

    /// When it is old, or has been silent for too long.
    fn overdue_at(&self) -> Instant {
        self.old_at.min(self.reliable_until())
    }

    /// Whether nobody can rely on it: it has no good answer, or was silent for so long that others would have been heard
    /// instead, had they answered.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.has_answer() || self.reliable_until() + self.grace <= Instant::now()
    }

    /// Whether there is no other reason to leave than a late first answer.
    pub(super) fn is_only_late(&self) -> bool {
        self.go_at.is_none() && self.overdue_at() > Instant::now()
    }

    /// When somebody else is to be asked.
    pub(super) fn leave_at(&self) -> Instant {
        let reasons = [Some(self.overdue_at()), self.go_at, self.late_at()];
        reasons.into_iter().flatten().min().unwrap_or(self.old_at).max(self.stay_until)
    }

    /// Nobody else can be asked: the question comes up again later. Returns whether it is the first time.
    pub(super) fn stay(&mut self) -> bool {
        let first = self.stay_until == self.began;
        self.stay_until = Instant::now() + about(self.first_answer);
        first
    }

    /// Runs until the end, or until there is a reason to look at it again. Cancel safe.
    pub(super) async fn event(&mut self) -> Event {
        tokio::select! {
            biased;
            end = &mut self.end => Event::Ended(end),
            () = self.signs.changed() => {
                if self.signs.leaving() {
                    self.go_soon();
                }
                self.last_event()
            }
            () = self.seat.news() => {
                // Where nothing would tell that a server has vanished, that its address left must do.
                let lasts = self.quiet.is_some() && self.has_answer();
                if self.seat.should_go(lasts) {
                    self.go_soon();
                }
                Event::Moved
            }
        }
    }

    /// What was said and nobody has looked at.
    pub(super) fn last_event(&self) -> Event {
        match self.signs.take_unread() {
            Word::None => Event::Moved,
            Word::Answer => Event::Answered,
            Word::No(failure) => Event::Declined(failure),
        }
    }

    fn go_soon(&mut self) {
        self.go_at.get_or_insert_with(|| Instant::now() + within(self.spread));
    }
}

/// The text of a panic, which says more than that there was one.
pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Failure::new(Reason::Panic, format!("internal error, please report it: {}", text.unwrap_or("a panic")))
}
