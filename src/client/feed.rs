//! A feed: a cell that follows something at another name server.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::follow::{Follower, Watched};
use super::journal::{Condition, Journal};
use super::protocol::Sink;
use super::servers::Server;
use super::upstream::{Shared, Shown};
use super::{Answer, Ask, Failure, Reason};
use crate::store::{Cell, Live, Observer, State, Watch};

/// A cell, and the loop that keeps it current until this is dropped.
pub struct Feed<T> {
    writer: Arc<Writer<T>>,
    runtime: Handle,
    begun: OnceLock<Begun>,
}

struct Begun {
    _loop: AbortOnDropHandle<Infallible>,
    _shown: Shown,
}

type Convert<T> = Box<dyn Fn(Answer) -> Result<T, String> + Send + Sync>;

/// What writes the cell: the loop, and whoever offers it an answer.
struct Writer<T> {
    upstream: Arc<Shared>,
    cell: Arc<Cell<T>>,
    journal: Arc<Journal>,
    convert: Convert<T>,
    /// How many answers the loop has told. Whoever writes an answer to the cell holds it.
    answers: Mutex<u64>,
}

/// What the loop had told at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told(u64);

// === impl Feed ===

impl<T: PartialEq + Send + Sync + 'static> Feed<T> {
    pub(super) fn new(
        runtime: &Handle,
        upstream: &Arc<Shared>,
        ask: Ask,
        convert: impl Fn(Answer) -> Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        let (upstream, cell, journal) = (upstream.clone(), Cell::new(), Arc::new(Journal::new(ask)));
        let writer = Writer { upstream, cell, journal, convert: Box::new(convert), answers: Mutex::new(0) };
        Self { writer: Arc::new(writer), runtime: runtime.clone(), begun: OnceLock::new() }
    }

    /// Itself, followed from now on until it is dropped.
    #[must_use]
    pub fn begun(self) -> Self {
        self.begin();
        self
    }

    /// Begins to follow, if that has not begun.
    pub fn begin(&self) {
        self.begun.get_or_init(|| {
            let Writer { upstream, journal, .. } = &*self.writer;
            let follower = Box::new(Follower::new(upstream.clone(), journal.ask().clone(), self.writer.clone()));
            let shown = upstream.show(journal.clone());
            Begun { _loop: AbortOnDropHandle::new(self.runtime.spawn(follower.run())), _shown: shown }
        });
    }

    /// What the loop has told, to be taken before a question whose answer is offered.
    pub fn told(&self) -> Told {
        Told(*self.writer.answers.lock())
    }

    /// Gives readers an answer that somebody got by other means, such as a read after a write of this process. Nothing is
    /// done if the loop has told something since `before`: it may be newer. Returns whether readers have it.
    ///
    /// # Errors
    /// It is none to what is asked.
    pub fn offer(&self, answer: Answer, before: Told) -> Result<bool, Failure> {
        let value = self.writer.value(answer)?;
        let answers = self.writer.answers.lock();
        if before != Told(*answers) {
            return Ok(false);
        }
        if self.writer.cell.publish(value) {
            self.writer.journal.updated();
        }
        Ok(true)
    }
}

impl<T: PartialEq + Send + Sync + 'static> Feed<T> {
    /// Gives readers the last good answer of an earlier process, of this time, if nothing better is known: it counts as
    /// stale until a server answers. Returns whether readers have it.
    ///
    /// # Errors
    /// It is none to what is asked.
    pub fn restore(&self, answer: Answer, at: SystemTime) -> Result<bool, Failure> {
        let Writer { cell, journal, convert, .. } = &*self.writer;
        let value = convert(answer).map_err(|why| Failure::new(Reason::BadAnswer, why))?;
        let restored = matches!(cell.snapshot().state, State::Pending);
        if restored {
            cell.publish(value);
            journal.restored(at);
        }
        Ok(restored)
    }

    /// What is asked, and the last good value with the time when a server last vouched for it.
    pub fn last(&self) -> Option<(Ask, SystemTime, Arc<T>)> {
        let value = self.cell().snapshot().value()?.clone();
        let journal = &self.writer.journal;
        Some((journal.ask().clone(), journal.vouched_at(), value))
    }
}

impl<T> Feed<T> {
    /// What is known. Pending until the first answer; the last good value stays whatever happens.
    ///
    /// A failure of the server shows as the cell's standing, since a reader must not take the last good value for what
    /// the server says. That it cannot be reached does not: then the last good value is the best there is.
    pub fn cell(&self) -> &Arc<Cell<T>> {
        &self.writer.cell
    }

    /// Whether what is known is the last good value, and no server vouches for it now: it could not be had anew.
    pub fn is_stale(&self) -> bool {
        matches!(self.writer.journal.condition(), Condition::Stale { .. })
    }
}

impl<T: Send + Sync> Live for Observer<Feed<T>> {}

impl<T: Send + Sync + 'static> From<Observer<Feed<T>>> for Watch<T> {
    fn from(feed: Observer<Feed<T>>) -> Self {
        Self::new(feed.cell().clone(), Arc::new(feed))
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

// === impl Writer ===

impl<T> Writer<T> {
    fn value(&self, answer: Answer) -> Result<T, Failure> {
        (self.convert)(answer).map_err(|why| Failure::new(Reason::BadAnswer, why))
    }
}

impl<T: PartialEq + Send + Sync> Sink for Writer<T> {
    fn asked(&self, server: &Server) {
        self.journal.asked(server.address());
    }

    fn tell(&self, answer: Answer) -> Result<(), Failure> {
        let value = self.value(answer)?;
        let mut answers = self.answers.lock();
        *answers += 1;
        let changed = self.cell.publish(value);
        drop(answers);
        self.upstream.metrics.answered(&self.upstream.name, self.journal.ask());
        if self.journal.answered(changed) {
            self.upstream.note_restored(self.journal.ask());
        }
        Ok(())
    }
}

impl<T: PartialEq + Send + Sync> Watched for Writer<T> {
    fn failed(&self, failure: &Failure, server: Option<SocketAddr>, alone: bool) {
        self.journal.failed(failure);
        if !alone {
            return; // somebody vouches for what is known
        }
        self.journal.lost();
        let unheard = failure.reason.is_of_connection() || failure.reason == Reason::Silent;
        match self.cell.snapshot().state {
            _ if failure.reason == Reason::Declared => self.cell.fail(failure.text.clone()),
            State::Pending => self.cell.suspend(Some(self.upstream.told(failure, server))),
            // The question is open again.
            State::Failed(_) if unheard => self.cell.suspend(Some(self.upstream.told(failure, server))),
            State::Failed(_) | State::Ready(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use tokio::sync::Notify;

    use super::*;
    use crate::client::protocol::{Explain, Explained};
    use crate::client::{Ages, ClientMetrics, End, News, Protocol, Timings, Upstream};
    use crate::name::{Addr, AddrSet, DelegateTree, Meta};
    use crate::store::Watch;

    /// Tells one name more each time that it is notified.
    #[derive(Default)]
    struct Counts(Arc<Notify>);

    #[async_trait]
    impl Protocol for Counts {
        fn name(&self) -> &'static str {
            "counts"
        }

        fn ages(&self, timings: &Timings) -> Ages {
            Ages { quiet: None, whole: timings.seat_age }
        }

        async fn follow(&self, _: &Arc<Server>, _: &Ask, news: &News) -> End {
            for count in 1.. {
                self.0.notified().await;
                news.tell(names(count)).expect("a list");
            }
            End::Gone(Reason::EndOfStream)
        }

        async fn explain(&self, _: &Arc<Server>, _: &Explain) -> Result<DelegateTree<Explained>, Failure> {
            Err(Failure::new(Reason::Declared, "not here"))
        }
    }

    fn names(count: usize) -> Answer {
        Answer::Namespaces((0..count).map(|n| n.to_string()).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_offered_over_what_the_loop_has_told_meanwhile() {
        let counts = Counts::default();
        let next = counts.0.clone();
        let address = std::net::SocketAddr::from(([192, 0, 2, 1], 4100)).into();
        let addrs = Watch::constant(Addr::Bound(AddrSet::new(vec![address], Meta::default())));
        let metrics = ClientMetrics::default();
        let upstream = Upstream::new("test", Arc::new(counts), addrs, Timings::default(), metrics);
        let feed = upstream.feed(&Handle::current(), Ask::Namespaces, |answer| match answer {
            Answer::Namespaces(names) => Ok(names.len()),
            other => Err(format!("no list: {other:?}")),
        });
        let settle = async || tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let value = || feed.cell().snapshot().value().map(|value| **value);
        next.notify_one();
        settle().await;
        assert_eq!(value(), None, "nobody follows it yet");
        assert_eq!(feed.offer(names(7), feed.told()), Ok(true));
        assert_eq!((value(), upstream.page()["namespaces"].is_null()), (Some(7), true));
        let before = feed.told();
        feed.begin();
        settle().await;
        assert_eq!(value(), Some(1));
        assert_eq!(feed.offer(names(7), before), Ok(false), "the question is older than what was told since");
        assert_eq!(value(), Some(1));
        let before = feed.told();
        assert_eq!(feed.offer(names(8), before), Ok(true));
        assert_eq!(feed.offer(names(9), before), Ok(true), "an offer is not the loop's");
        assert_eq!(value(), Some(9));
    }
}
