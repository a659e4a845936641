//! One attempt to follow something at one server.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::protocol::{News, Signs, Sink};
use super::servers::{Seat, Server};
use super::timings::{about, within};
use super::{Ages, Ask, End, Protocol, Reason, Timings};

/// An attempt that is under way.
pub(super) struct Attempt {
    end: BoxFuture<'static, End>,
    seat: Seat,
    signs: Arc<Signs>,
    began: Instant,
    first_answer: Duration,
    quiet: Option<Duration>,
    /// When it is old, even if all is well.
    old_at: Instant,
    /// Its server goes: when to go.
    go_at: Option<Instant>,
    /// Nobody else can be asked before.
    stay_until: Instant,
    spread: Duration,
}

impl Attempt {
    pub(super) fn begin(
        protocol: &Arc<dyn Protocol>,
        timings: &Timings,
        seat: Seat,
        ask: &Arc<Ask>,
        sink: Arc<dyn Sink>,
    ) -> Self {
        let (protocol, ask, server) = (protocol.clone(), ask.clone(), seat.server().clone());
        let Ages { quiet, whole } = protocol.ages(timings);
        let (news, signs) = News::new(sink, server.clone());
        // A defect in reading what servers send must not end the watch.
        let end = AssertUnwindSafe(async move { protocol.follow(&server, &ask, &news).await }).catch_unwind();
        let end = end.map(|end| end.unwrap_or_else(|panic| panicked(&*panic)));
        let began = Instant::now();
        Self {
            end: Box::pin(end),
            seat,
            signs,
            began,
            first_answer: about(timings.first_answer),
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

    pub(super) fn answered(&self) -> bool {
        self.signs.answered()
    }

    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// When its first answer is late.
    pub(super) fn late_at(&self) -> Option<Instant> {
        (!self.answered()).then(|| self.began + self.first_answer)
    }

    /// When it is old, or has been silent for too long.
    fn overdue_at(&self) -> Instant {
        self.quiet.map_or(self.old_at, |quiet| self.old_at.min(self.signs.heard() + quiet))
    }

    /// Whether nobody can rely on it: it is old, and nothing else would tell that it is dead.
    pub(super) fn is_doubtful(&self) -> bool {
        self.quiet.is_none() && self.old_at <= Instant::now()
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

    /// Nobody else can be asked: the question comes up again later.
    pub(super) fn stay(&mut self) {
        self.stay_until = Instant::now() + about(self.first_answer);
    }

    /// Runs until the end, or until there is a reason to look at it again. Cancel safe.
    pub(super) async fn end_or_change(&mut self) -> Option<End> {
        tokio::select! {
            end = &mut self.end => Some(end),
            () = self.signs.changed() => {
                if self.signs.leaving() {
                    self.go_soon();
                }
                None
            }
            () = self.seat.news() => {
                if self.seat.should_go() {
                    self.go_soon();
                }
                None
            }
        }
    }

    fn go_soon(&mut self) {
        self.go_at.get_or_insert_with(|| Instant::now() + within(self.spread));
    }
}

/// The text of a panic, which says more than that there was one.
pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> End {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    End::failed(Reason::Panic, format!("internal error, please report it: {}", text.unwrap_or("a panic")))
}
